/* Preloaded into a process. The n-th call that touches a file below BOX fails, is cut short, is interrupted, or stops or
 * kills the process. The system may lack locks or files without names, have a clock that stands still, or take "a" and
 * "A" for the same name. A log has all changes of files there, so that a test can simulate power cuts afterwards. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READ, WRITE, SPACE, NAME, SYNC, OPEN, OTHER, KINDS };
enum { FAIL, SHORT, INTERRUPT, KILL, KILL_AFTER, FAIL_ON, STOP };
enum { NO_LOCKS = 1, NO_UNNAMED = 2, NO_LINKS = 4, STOPPED_CLOCK = 8, ONE_CASE = 16 };

static char box[4096];
static char second[4096];
static int kinds, mode, error_number, active, lacks, log_fd = -1;
static atomic_int left, hits;
static atomic_int calls;
static char tracked[65536];

/* `wanted` is a set of bits, one for each kind of call. */
void fault_set(const char *folder, int wanted, int n, int how, int number) {
    snprintf(box, sizeof box, "%s", folder);
    kinds = wanted, mode = how, error_number = number;
    atomic_store(&left, n), atomic_store(&hits, 0), atomic_store(&calls, 0);
    active = 1;
}
/* `other` is another path of the box, through a link; `how` is a set of what the system lacks. */
void fault_system(const char *other, int how) {
    snprintf(second, sizeof second, "%s", other);
    lacks = how;
}
void fault_log(const char *path) { log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600); }
int fault_hits(void) { return atomic_load(&hits); }
int fault_calls(void) { return atomic_load(&calls); }

static int followed(int fd) { return active && fd >= 0 && fd < (int)sizeof tracked && tracked[fd]; }
static int inside(const char *path) {
    int fd;
    if (sscanf(path, "/proc/self/fd/%d", &fd) == 1) return followed(fd);
    if (!active) return 0;
    if (path[0] != '/') return 1; /* whoever names files so works in the box */
    return (box[0] && strncmp(path, box, strlen(box)) == 0) || (second[0] && strncmp(path, second, strlen(second)) == 0);
}
/* The name as a system keeps it that knows only one case. */
static const char *kept(const char *path, char *buffer) {
    const char *name = strrchr(path, '/');
    if (!(lacks & ONE_CASE) || !inside(path) || !name || strlen(path) >= 4096) return path;
    strcpy(buffer, path);
    for (char *at = buffer + (name - path); *at; at++)
        if (*at >= 'A' && *at <= 'Z') *at += 'a' - 'A';
    return buffer;
}
static void touched(int fd) {
    struct timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
    if (lacks & STOPPED_CLOCK) futimens(fd, times);
}

static int hit(int kind) {
    if (!(kinds & 1 << kind)) return 0;
    atomic_fetch_add(&calls, 1);
    int before = atomic_fetch_sub(&left, 1);
    int is_hit = mode == FAIL_ON ? before <= 0 : before == 0;
    if (is_hit) atomic_fetch_add(&hits, 1);
    if (is_hit && mode == KILL) kill(getpid(), SIGKILL);
    if (is_hit && mode == STOP) raise(SIGSTOP);
    return is_hit;
}
static void after(int is_hit) {
    if (is_hit && mode == KILL_AFTER) kill(getpid(), SIGKILL);
}

static void note(const char *format, ...) {
    if (log_fd < 0) return;
    char line[9000];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(log_fd, line, length) < 0) abort();
}
static unsigned long inode(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : (unsigned long)status.st_ino;
}
static void note_data(int fd, const unsigned char *data, ssize_t count, long offset) {
    if (log_fd < 0 || count <= 0) return;
    char *text = malloc(2 * count + 100);
    int length = sprintf(text, "write\t%lu\t%ld\t", inode(fd), offset);
    for (ssize_t i = 0; i < count; i++) length += sprintf(text + length, "%02x", data[i]);
    text[length++] = '\n';
    if (write(log_fd, text, length) < 0) abort();
    free(text);
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name)
#define FAULT(kind, failure) \
    int is_hit = hit(kind); \
    if (is_hit && (mode == FAIL || mode == FAIL_ON)) { failure; } \
    if (is_hit && mode == INTERRUPT && (kind == READ || kind == WRITE)) { errno = EINTR; return -1; }
#define ERRNO errno = error_number; return -1
#define KEPT(path) char buffer_##path[4096]; path = kept(path, buffer_##path)
#define CUT(count) if (is_hit && mode == SHORT) count = (count + 1) / 2

ssize_t pread64(int fd, void *data, size_t count, off64_t offset) {
    REAL(pread64);
    if (!followed(fd)) return real(fd, data, count, offset);
    FAULT(READ, ERRNO) CUT(count);
    ssize_t done = real(fd, data, count, offset);
    after(is_hit);
    return done;
}
ssize_t preadv64(int fd, const struct iovec *parts, int number, off64_t offset) {
    REAL(preadv64);
    if (!followed(fd)) return real(fd, parts, number, offset);
    FAULT(READ, ERRNO)
    struct iovec first = parts[0];
    CUT(first.iov_len);
    ssize_t done = real(fd, is_hit ? &first : parts, is_hit ? 1 : number, offset);
    after(is_hit);
    return done;
}
ssize_t preadv64v2(int fd, const struct iovec *parts, int number, off64_t offset, int flags) {
    REAL(preadv64v2);
    if (!followed(fd)) return real(fd, parts, number, offset, flags);
    FAULT(READ, ERRNO)
    struct iovec first = parts[0];
    CUT(first.iov_len);
    ssize_t done = real(fd, is_hit ? &first : parts, is_hit ? 1 : number, offset, flags);
    after(is_hit);
    return done;
}
ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    REAL(pwrite64);
    if (!followed(fd)) return real(fd, data, count, offset);
    FAULT(WRITE, ERRNO) CUT(count);
    ssize_t done = real(fd, data, count, offset);
    note_data(fd, data, done, offset);
    touched(fd);
    after(is_hit);
    return done;
}
ssize_t copy_file_range(int from, off64_t *source, int to, off64_t *target, size_t count, unsigned flags) {
    REAL(copy_file_range);
    if (!followed(to)) return real(from, source, to, target, count, flags);
    FAULT(WRITE, ERRNO) CUT(count);
    off64_t source_offset = *source, offset = *target;
    ssize_t done = real(from, source, to, target, count, flags);
    if (log_fd >= 0 && done > 0) {
        unsigned char *data = malloc(done);
        int was = active;
        active = 0;
        if (pread64(from, data, done, source_offset) != done) abort();
        active = was;
        note_data(to, data, done, offset);
        free(data);
    }
    touched(to);
    after(is_hit);
    return done;
}
int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    if (!followed(fd)) return real(fd, size);
    FAULT(SPACE, ERRNO)
    int result = real(fd, size);
    if (!result) note("truncate\t%lu\t%ld\n", inode(fd), (long)size);
    touched(fd);
    after(is_hit);
    return result;
}
int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    REAL(posix_fallocate64);
    if (!followed(fd)) return real(fd, offset, size);
    FAULT(SPACE, return error_number)
    int result = real(fd, offset, size);
    after(is_hit);
    return result;
}
int fsync(int fd) {
    REAL(fsync);
    if (!followed(fd)) return real(fd);
    FAULT(SYNC, ERRNO)
    struct stat status;
    int result = log_fd < 0 ? 0 : real(fd); /* without a power cut nothing is lost from memory: no need to wait */
    if (!result && !fstat(fd, &status)) note(S_ISDIR(status.st_mode) ? "syncdir\t%lu\n" : "sync\t%lu\n", inode(fd));
    after(is_hit);
    return result;
}
void sync(void) {
    REAL(sync);
    if (active && hit(SYNC)) after(1);
    real();
    note("syncall\n");
}
int rename(const char *from, const char *to) {
    REAL(rename);
    KEPT(from); KEPT(to);
    if (!inside(from)) return real(from, to);
    FAULT(NAME, ERRNO)
    int result = real(from, to);
    if (!result) note("rename\t%s\t%s\n", from, to);
    after(is_hit);
    return result;
}
int link(const char *from, const char *to) {
    REAL(link);
    KEPT(from); KEPT(to);
    if (!inside(to)) return real(from, to);
    if (lacks & NO_LINKS) { errno = EPERM; return -1; }
    FAULT(NAME, ERRNO)
    int result = real(from, to);
    if (!result) note("link\t%s\t%s\n", from, to);
    after(is_hit);
    return result;
}
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    REAL(linkat);
    KEPT(to);
    if (inside(to) && lacks & NO_LINKS) { errno = EPERM; return -1; }
    if (!inside(to)) return real(from_folder, from, to_folder, to, flags);
    FAULT(NAME, ERRNO)
    int result = real(from_folder, from, to_folder, to, flags);
    struct stat status;
    if (!result && !stat(to, &status)) note("name\t%lu\t%s\n", (unsigned long)status.st_ino, to);
    after(is_hit);
    return result;
}
int unlink(const char *path) {
    REAL(unlink);
    KEPT(path);
    if (!inside(path)) return real(path);
    FAULT(NAME, ERRNO)
    int result = real(path);
    if (!result) note("unlink\t%s\n", path);
    after(is_hit);
    return result;
}
/* Changes of names that simulated power cuts do not know. */
#define CHANGE(name, declared, is_inside, ...) \
    int name declared { \
        REAL(name); \
        if (!(is_inside)) return real(__VA_ARGS__); \
        FAULT(NAME, ERRNO) \
        int result = real(__VA_ARGS__); \
        after(is_hit); \
        return result; \
    }
CHANGE(mkdir, (const char *path, mode_t bits), inside(path), path, bits)
CHANGE(mkdirat, (int folder, const char *path, mode_t bits), followed(folder), folder, path, bits)
CHANGE(rmdir, (const char *path), inside(path), path)
CHANGE(unlinkat, (int folder, const char *path, int flags), followed(folder), folder, path, flags)
CHANGE(renameat, (int from_folder, const char *from, int folder, const char *to), followed(folder), from_folder, from, folder, to)
ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    if (!followed(fd)) return real(fd, data, count);
    FAULT(WRITE, ERRNO) CUT(count);
    ssize_t done = real(fd, data, count);
    touched(fd);
    after(is_hit);
    return done;
}
int fchmod(int fd, mode_t bits) {
    REAL(fchmod);
    if (!followed(fd)) return real(fd, bits);
    FAULT(OTHER, ERRNO)
    int result = real(fd, bits);
    after(is_hit);
    return result;
}
int flock(int fd, int operation) {
    REAL(flock);
    if (!followed(fd)) return real(fd, operation);
    if (lacks & NO_LOCKS) { errno = ENOLCK; return -1; }
    FAULT(OTHER, ERRNO)
    int result = real(fd, operation);
    after(is_hit);
    return result;
}
static int opened(int fd, const char *path, int flags) {
    if (fd < 0 || fd >= (int)sizeof tracked) return fd;
    tracked[fd] = 1;
    if (flags & (O_WRONLY | O_RDWR) && flags & O_CREAT) touched(fd);
    if ((flags & O_TMPFILE) == O_TMPFILE) note("create\t%lu\t-\n", inode(fd));
    else if (flags & O_EXCL) note("create\t%lu\t%s\n", inode(fd), path);
    return fd;
}
int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list arguments;
    va_start(arguments, flags);
    mode_t bits = va_arg(arguments, mode_t);
    va_end(arguments);
    if (!inside(path)) return real(path, flags, bits);
    if (lacks & NO_UNNAMED && (flags & O_TMPFILE) == O_TMPFILE) { errno = EOPNOTSUPP; return -1; }
    KEPT(path);
    FAULT(OPEN, ERRNO)
    int fd = opened(real(path, flags, bits), path, flags);
    after(is_hit);
    return fd;
}
int openat64(int folder, const char *path, int flags, ...) {
    REAL(openat64);
    va_list arguments;
    va_start(arguments, flags);
    mode_t bits = va_arg(arguments, mode_t);
    va_end(arguments);
    if (!followed(folder)) return real(folder, path, flags, bits);
    FAULT(OPEN, ERRNO)
    int fd = opened(real(folder, path, flags, bits), path, flags);
    after(is_hit);
    return fd;
}
/* Calls that never fail here, but must see one name for both cases. */
#define LOOK(type, name, declared, ...) \
    type name declared { REAL(name); KEPT(path); return real(__VA_ARGS__); }
LOOK(int, stat64, (const char *path, struct stat64 *status), path, status)
LOOK(int, lstat64, (const char *path, struct stat64 *status), path, status)
LOOK(int, stat, (const char *path, struct stat *status), path, status)
LOOK(int, lstat, (const char *path, struct stat *status), path, status)
LOOK(int, fstatat64, (int folder, const char *path, struct stat64 *status, int flags), folder, path, status, flags)
LOOK(int, fstatat, (int folder, const char *path, struct stat *status, int flags), folder, path, status, flags)
LOOK(int, access, (const char *path, int wanted), path, wanted)
LOOK(ssize_t, readlink, (const char *path, char *target, size_t size), path, target, size)
LOOK(int, chmod, (const char *path, mode_t bits), path, bits)
int symlink(const char *target, const char *path) {
    REAL(symlink);
    KEPT(path);
    return real(target, path);
}
int close(int fd) {
    REAL(close);
    if (fd >= 0 && fd < (int)sizeof tracked) tracked[fd] = 0;
    return real(fd);
}
