/*
 * onnxz.h: reads `.onnxz` archives, version 1.0. One header, C99, no dependency. docs/onnxz.md is the specification.
 *
 *     #define ONNXZ_IMPLEMENTATION   // in one source file, before the first #include of that file
 *     #include "onnxz.h"
 *
 * All other source files include the header alone. To leave out what needs files and maps, define ONNXZ_NO_FILES.
 * README.md says how to use it. The licence is that of the repository: LICENSE.
 */
#if defined(ONNXZ_IMPLEMENTATION) && !defined(ONNXZ_NO_FILES) && !defined(_WIN32)
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#endif

#ifndef ONNXZ_H
#define ONNXZ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The two classes of readers (Z-1.1 and Z-1.6). */
typedef enum {
    ONNXZ_STRICT, /* checks every requirement, and all graphs */
    ONNXZ_LOADING /* checks what keeps a program safe, and the graph of one model */
} onnxz_class;

/* What an entry is. The entries of an archive are in this order. */
typedef enum { ONNXZ_TENSOR, ONNXZ_FILE, ONNXZ_HASHES, ONNXZ_GRAPH, ONNXZ_DEFAULT_GRAPH } onnxz_kind;

/* Why an archive was not read. */
typedef struct {
    char requirement[8]; /* such as "Z-3.4"; empty if the system refused, or a caller asked for a model that is not there */
    char message[360];   /* what was found; printable ASCII */
} onnxz_error;

/* An entry. Its bytes are those of the map or of the memory: nothing is copied. */
typedef struct {
    const char *name; /* ends with a zero byte */
    onnxz_kind kind;
    uint64_t offset; /* of the bytes, in the file */
    const unsigned char *bytes;
    size_t nbytes;
} onnxz_entry;

/* An external tensor of a graph. Several tensors can share one entry. */
typedef struct {
    const char *name; /* in the graph; name_nbytes bytes, without a zero byte after them */
    size_t name_nbytes;
    uint32_t data_type; /* a number of TensorProto.DataType */
    size_t rank;
    const int64_t *dims;      /* none is negative; NULL if the rank is 0 */
    const onnxz_entry *entry; /* with exactly the bytes that the type and the dims demand */
    const onnxz_entry *graph;
} onnxz_tensor;

typedef struct onnxz_archive onnxz_archive;

#ifndef ONNXZ_NO_FILES
/*
 * Maps a file and checks it. The path is in UTF-8 on Windows. Returns NULL after an error, which it writes to `error`
 * unless that is NULL.
 *
 * A strict reader checks all graphs, and `model` is NULL or a model that has to be there. A loading reader checks the
 * graph of `model`, or the last one if that is NULL. While the file is mapped, no process may change it in place:
 * replace it by renaming.
 */
onnxz_archive *onnxz_open(const char *path, onnxz_class reader, const char *model, onnxz_error *error);
#endif

/* Checks an archive in memory, which has to stay there, unchanged, until onnxz_close. */
onnxz_archive *onnxz_parse(const void *bytes, size_t nbytes, onnxz_class reader, const char *model, onnxz_error *error);

/* Ends the map. All that came from the archive is invalid then. NULL is fine. */
void onnxz_close(onnxz_archive *archive);

/* All entries in the order of the file: tensors, files, hashes, graphs. NULL beyond the last. */
size_t onnxz_entry_count(const onnxz_archive *archive);
const onnxz_entry *onnxz_entry_at(const onnxz_archive *archive, size_t index);

/* The entry with this name, or NULL. The name of a file begins with "files/". */
const onnxz_entry *onnxz_find(const onnxz_archive *archive, const char *name);

/* The graph of a model. NULL as the model is the default one, or the only one. Returns NULL if there is none. */
const onnxz_entry *onnxz_graph(const onnxz_archive *archive, const char *model);

/* The name of the model whose graph is the entry, or NULL if that is the default one, or the entry is no graph. */
const char *onnxz_model_name(const onnxz_entry *entry);

/* The external tensors of the graphs that were checked. NULL beyond the last. */
size_t onnxz_tensor_count(const onnxz_archive *archive);
const onnxz_tensor *onnxz_tensor_at(const onnxz_archive *archive, size_t index);

/* The bits of an element of this data type, or 0 if it has no fixed size. */
unsigned onnxz_element_bits(uint32_t data_type);

#ifdef __cplusplus
}
#endif
#endif /* ONNXZ_H */

#if defined(ONNXZ_IMPLEMENTATION) && !defined(ONNXZ_IMPLEMENTED)
#define ONNXZ_IMPLEMENTED

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ONNXZ_NO_FILES
#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif
#endif

#define ONNXZ__MAX_DEPTH 100  /* of messages, and of groups */
#define ONNXZ__USUAL_HEADER 512

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} onnxz__span;

/* What is known of an entry while the directory is read, and later. */
typedef struct {
    size_t name; /* in the texts of the archive */
    size_t name_nbytes;
    int is_used;
} onnxz__place;

struct onnxz_archive {
    const unsigned char *bytes;
    size_t nbytes;
    int is_mapped;
    int is_strict;
    int descriptor; /* of the file while it is read, or -1 */
    onnxz_error *error;
    onnxz_entry *entries;
    onnxz__place *places;
    size_t entry_count;
    size_t tensor_entry_count;
    size_t first_graph;
    size_t *by_name; /* the entries, sorted by name without case */
    char *texts;     /* the names of all entries */
    onnxz_tensor *tensors;
    size_t tensor_count, tensor_room;
    int64_t *dims; /* of all tensors */
    size_t dim_count, dim_room;
    onnxz__span *parts; /* of the messages that are open: a stack */
    size_t part_count, part_room;
    unsigned char *header; /* the local header that was read last */
    size_t header_room;
};

/* ---- errors ---- */

/* Returns 0 and says why: so `return onnxz__refuse(...)` ends a check. */
static int onnxz__refuse(onnxz_archive *a, const char *requirement, const char *format, ...) {
    va_list values;
    if (a->error == NULL) return 0;
    snprintf(a->error->requirement, sizeof a->error->requirement, "%s", requirement);
    va_start(values, format);
    vsnprintf(a->error->message, sizeof a->error->message, format, values);
    va_end(values);
    return 0;
}

static int onnxz__no_memory(onnxz_archive *a) { return onnxz__refuse(a, "", "there is not enough memory"); }

/* A name from a file in a printable form. */
typedef struct {
    char text[100];
} onnxz__shown;

static onnxz__shown onnxz__show(const void *name, size_t nbytes) {
    onnxz__shown shown;
    const unsigned char *bytes = (const unsigned char *)name;
    size_t from, to = 0;
    shown.text[to++] = '"';
    for (from = 0; from < nbytes && to < 88; from++) {
        unsigned char byte = bytes[from];
        if (byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\') {
            shown.text[to++] = (char)byte;
        } else {
            snprintf(shown.text + to, 5, "\\x%02x", (unsigned)byte);
            to += 4;
        }
    }
    if (from < nbytes) {
        memcpy(shown.text + to, "...", 3);
        to += 3;
    }
    shown.text[to++] = '"';
    shown.text[to] = 0;
    return shown;
}

/* ---- memory ---- */

/* Makes room for one more element. Sizes are bounded by the size of the file, and do not overflow on their own. */
static void *onnxz__grown(void *items, size_t count, size_t *room, size_t item_nbytes) {
    size_t wanted;
    void *grown;
    if (count < *room) return items;
    wanted = *room < 16 ? 16 : *room * 2;
    if (wanted < *room || wanted > SIZE_MAX / item_nbytes) return NULL;
    grown = realloc(items, wanted * item_nbytes);
    if (grown != NULL) *room = wanted;
    return grown;
}

/* ---- little-endian numbers ---- */

static uint32_t onnxz__u16(const unsigned char *b) { return (uint32_t)b[0] | (uint32_t)b[1] << 8; }
static uint32_t onnxz__u32(const unsigned char *b) { return onnxz__u16(b) | onnxz__u16(b + 2) << 16; }
static uint64_t onnxz__u64(const unsigned char *b) { return onnxz__u32(b) | (uint64_t)onnxz__u32(b + 4) << 32; }

static int onnxz__is_signature(const unsigned char *b, unsigned third, unsigned fourth) {
    return b[0] == 'P' && b[1] == 'K' && b[2] == third && b[3] == fourth;
}

/* ---- names ---- */

static unsigned char onnxz__lower(unsigned char c) { return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c; }

static int onnxz__is_word(unsigned char c) {
    c = onnxz__lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Compares without case, byte by byte. */
static int onnxz__compare(const void *left, size_t left_nbytes, const void *right, size_t right_nbytes) {
    const unsigned char *l = (const unsigned char *)left, *r = (const unsigned char *)right;
    size_t i, common = left_nbytes < right_nbytes ? left_nbytes : right_nbytes;
    for (i = 0; i < common; i++) {
        int difference = (int)onnxz__lower(l[i]) - (int)onnxz__lower(r[i]);
        if (difference != 0) return difference;
    }
    return left_nbytes < right_nbytes ? -1 : left_nbytes > right_nbytes;
}

static int onnxz__starts(const char *name, size_t nbytes, const char *prefix) {
    size_t prefix_nbytes = strlen(prefix);
    return nbytes >= prefix_nbytes && memcmp(name, prefix, prefix_nbytes) == 0;
}

static onnxz_kind onnxz__kind(const char *name, size_t nbytes) {
    if (onnxz__starts(name, nbytes, "__MODEL_PROTO")) {
        if (nbytes == 13) return ONNXZ_DEFAULT_GRAPH;
        if (name[13] == '_') return ONNXZ_GRAPH;
    }
    if (nbytes == 12 && onnxz__starts(name, nbytes, "__SHA256SUMS")) return ONNXZ_HASHES;
    return onnxz__starts(name, nbytes, "files/") ? ONNXZ_FILE : ONNXZ_TENSOR;
}

/* Whether the name, up to its first dot, means a device on Windows. */
static int onnxz__is_device(const char *name, size_t nbytes) {
    static const char *const devices[] = {"con", "prn", "aux", "nul"};
    const char *dot = (const char *)memchr(name, '.', nbytes);
    size_t i;
    if (dot != NULL) nbytes = (size_t)(dot - name);
    for (i = 0; i < 4; i++) {
        if (onnxz__compare(name, nbytes, devices[i], 3) == 0) return 1;
    }
    return nbytes == 4 && name[3] >= '0' && name[3] <= '9' &&
           (onnxz__compare(name, 3, "com", 3) == 0 || onnxz__compare(name, 3, "lpt", 3) == 0);
}

/* The requirement that the path of a file below "files/" breaks, or NULL. */
static const char *onnxz__broken_path(const char *path, size_t nbytes) {
    size_t start = 0;
    int has_device = 0;
    for (;;) {
        const char *slash = (const char *)memchr(path + start, '/', nbytes - start);
        size_t i, end = slash == NULL ? nbytes : (size_t)(slash - path);
        if (end == start || path[end - 1] == '.' || !onnxz__is_word((unsigned char)path[start])) return "Z-4.7";
        for (i = start; i < end; i++) {
            if (!onnxz__is_word((unsigned char)path[i]) && path[i] != '.' && path[i] != '-') return "Z-4.7";
        }
        has_device |= onnxz__is_device(path + start, end - start);
        if (slash == NULL) return has_device ? "Z-4.5" : NULL;
        start = end + 1;
    }
}

/* The requirement that the name of an entry breaks, or NULL. */
static const char *onnxz__broken_name(const char *name, size_t nbytes) {
    size_t i;
    onnxz_kind kind = onnxz__kind(name, nbytes);
    if (nbytes > 255) return "Z-4.3";
    if (kind == ONNXZ_FILE) return onnxz__broken_path(name + 6, nbytes - 6);
    if (nbytes == 0 || (name[0] >= '0' && name[0] <= '9')) return "Z-4.2";
    for (i = 0; i < nbytes; i++) {
        if (!onnxz__is_word((unsigned char)name[i])) return "Z-4.2";
    }
    if (onnxz__starts(name, nbytes, "__")) {
        return kind == ONNXZ_TENSOR || (kind == ONNXZ_GRAPH && nbytes == 14) ? "Z-4.4" : NULL;
    }
    return onnxz__is_device(name, nbytes) ? "Z-4.5" : NULL;
}

static const char *onnxz__name(const onnxz_archive *a, size_t entry) { return a->texts + a->places[entry].name; }

/* The place of a name in `by_name`, case ignored, or `entry_count`. */
static size_t onnxz__lookup(const onnxz_archive *a, const void *name, size_t nbytes) {
    size_t low = 0, high = a->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2, entry = a->by_name[middle];
        int order = onnxz__compare(onnxz__name(a, entry), a->places[entry].name_nbytes, name, nbytes);
        if (order == 0) return entry;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return a->entry_count;
}

/* The entry with exactly this name, or `entry_count`. */
static size_t onnxz__exact(const onnxz_archive *a, const void *name, size_t nbytes) {
    size_t entry = onnxz__lookup(a, name, nbytes);
    if (entry < a->entry_count && memcmp(onnxz__name(a, entry), name, nbytes) == 0) return entry;
    return a->entry_count;
}

/* Sorts the entries by name. A merge sort takes n log n steps whatever a file contains; qsort may take n * n. */
static int onnxz__sort(onnxz_archive *a) {
    size_t n = a->entry_count, width, i;
    size_t *from = (size_t *)malloc(n * sizeof *from), *to = (size_t *)malloc(n * sizeof *to);
    if (from == NULL || to == NULL) {
        free(from);
        free(to);
        return onnxz__no_memory(a);
    }
    for (i = 0; i < n; i++) from[i] = i;
    for (width = 1; width < n; width *= 2) {
        size_t *other = from;
        for (i = 0; i < n; i += 2 * width) {
            size_t middle = n - i < width ? n : i + width, end = n - i < 2 * width ? n : i + 2 * width;
            size_t l = i, r = middle, out;
            for (out = i; out < end; out++) {
                int is_left = l < middle;
                if (is_left && r < end) {
                    is_left = onnxz__compare(onnxz__name(a, from[l]), a->places[from[l]].name_nbytes,
                                             onnxz__name(a, from[r]), a->places[from[r]].name_nbytes) <= 0;
                }
                to[out] = is_left ? from[l++] : from[r++];
            }
        }
        from = to;
        to = other;
    }
    free(to);
    a->by_name = from;
    return 1;
}

/* Checks the names of all entries against the rules and against each other. */
static int onnxz__check_names(onnxz_archive *a) {
    size_t i, at, n = a->entry_count;
    for (i = 0; i < n; i++) {
        const char *name = onnxz__name(a, i);
        size_t nbytes = a->places[i].name_nbytes;
        const char *broken = onnxz__broken_name(name, nbytes);
        if (broken != NULL) {
            return onnxz__refuse(a, broken, "an entry may not be called %s%s", onnxz__show(name, nbytes).text,
                                 strcmp(broken, "Z-4.4") == 0 ? ": the archive may have a later version of the format" : "");
        }
    }
    if (n == 0) return onnxz__refuse(a, "Z-4.1", "the archive has no entry");
    if (a->entries[n - 1].kind < ONNXZ_GRAPH) {
        return onnxz__refuse(a, "Z-4.1", "the last entry is %s, not __MODEL_PROTO or __MODEL_PROTO_NAME",
                             onnxz__show(onnxz__name(a, n - 1), a->places[n - 1].name_nbytes).text);
    }
    for (i = 0; i + 1 < n; i++) {
        if (a->entries[i].kind > a->entries[i + 1].kind) {
            return onnxz__refuse(a, "Z-4.9", "entry %s must come before the entry before it",
                                 onnxz__show(onnxz__name(a, i + 1), a->places[i + 1].name_nbytes).text);
        }
    }
    if (!onnxz__sort(a)) return 0;
    for (i = 0; i + 1 < n; i++) {
        size_t l = a->by_name[i], r = a->by_name[i + 1];
        if (onnxz__compare(onnxz__name(a, l), a->places[l].name_nbytes, onnxz__name(a, r), a->places[r].name_nbytes) == 0) {
            return onnxz__refuse(a, "Z-4.6", "the names of two entries are %s but for case",
                                 onnxz__show(onnxz__name(a, l), a->places[l].name_nbytes).text);
        }
    }
    for (i = 0; i < n; i++) {
        const char *name = onnxz__name(a, i);
        if (a->entries[i].kind != ONNXZ_FILE) continue;
        for (at = 0; at < a->places[i].name_nbytes; at++) {
            if (name[at] == '/' && onnxz__lookup(a, name, at) < n) {
                return onnxz__refuse(a, "Z-4.8", "an entry has the name of a folder of %s",
                                     onnxz__show(name, a->places[i].name_nbytes).text);
            }
        }
    }
    return 1;
}

/* ---- zip ---- */

typedef struct {
    uint64_t entries, nbytes, offset;
} onnxz__directory;

static int onnxz__zip64_directory(onnxz_archive *a, const unsigned char *end, onnxz__directory *directory) {
    const unsigned char *locator, *record;
    uint64_t on_disk;
    if (a->nbytes < 98) return onnxz__refuse(a, "Z-5.8", "the file has no room for the zip64 locator that it needs");
    locator = end - 20;
    record = locator - 56;
    if (!onnxz__is_signature(locator, 6, 7)) return onnxz__refuse(a, "Z-5.8", "there is no zip64 locator");
    if (!onnxz__is_signature(record, 6, 6)) return onnxz__refuse(a, "Z-5.9", "there is no zip64 end record");
    if (onnxz__u32(locator + 4) != 0 || onnxz__u32(locator + 16) != 1) {
        return onnxz__refuse(a, "Z-5.11", "the zip64 locator names several disks");
    }
    if (onnxz__u64(locator + 8) != (uint64_t)(record - a->bytes)) {
        return onnxz__refuse(a, "Z-5.11", "the zip64 locator points to byte %" PRIu64 ", not to the zip64 end record",
                             onnxz__u64(locator + 8));
    }
    if (onnxz__u64(record + 4) != 44) return onnxz__refuse(a, "Z-5.10", "the zip64 end record has extensible data");
    if (onnxz__u64(record + 16) != 0) return onnxz__refuse(a, "Z-5.10", "the zip64 end record names several disks");
    on_disk = onnxz__u64(record + 24);
    directory->entries = onnxz__u64(record + 32);
    directory->nbytes = onnxz__u64(record + 40);
    directory->offset = onnxz__u64(record + 48);
    if (on_disk != directory->entries) return onnxz__refuse(a, "Z-5.7", "not all entries are on this disk");
    if (directory->entries < 0xffff && directory->nbytes < 0xffffffffu && directory->offset < 0xffffffffu) {
        return onnxz__refuse(a, "Z-5.8", "the archive needs no zip64 end record");
    }
    if (onnxz__u16(end + 8) != (on_disk < 0xffff ? on_disk : 0xffff) || onnxz__u16(end + 10) != onnxz__u16(end + 8) ||
        onnxz__u32(end + 12) != (directory->nbytes < 0xffffffffu ? directory->nbytes : 0xffffffffu) ||
        onnxz__u32(end + 16) != (directory->offset < 0xffffffffu ? directory->offset : 0xffffffffu)) {
        return onnxz__refuse(a, "Z-5.9", "the end record and the zip64 end record differ");
    }
    return 1;
}

/* Reads the end records: the place of the directory and the number of its entries. */
static int onnxz__find_directory(onnxz_archive *a, onnxz__directory *directory) {
    const unsigned char *end;
    uint64_t next_offset;
    if (a->nbytes < 22) return onnxz__refuse(a, "Z-2.1", "the file is smaller than the 22 bytes of an end record");
    end = a->bytes + (a->nbytes - 22);
    if (!onnxz__is_signature(end, 5, 6)) {
        return onnxz__refuse(a, "Z-2.1", "the last 22 bytes are not the end record of a zip file");
    }
    if (onnxz__u16(end + 20) != 0) return onnxz__refuse(a, "Z-2.1", "the archive has a comment");
    if (onnxz__u32(end + 4) != 0) return onnxz__refuse(a, "Z-5.7", "the archive is on several disks");
    directory->entries = onnxz__u16(end + 10);
    directory->nbytes = onnxz__u32(end + 12);
    directory->offset = onnxz__u32(end + 16);
    next_offset = (uint64_t)a->nbytes - 22;
    if (onnxz__u16(end + 8) == 0xffff || directory->entries == 0xffff || directory->nbytes == 0xffffffffu ||
        directory->offset == 0xffffffffu) {
        if (!onnxz__zip64_directory(a, end, directory)) return 0;
        next_offset -= 76;
    } else if (onnxz__u16(end + 8) != directory->entries) {
        return onnxz__refuse(a, "Z-5.7", "not all entries are on this disk");
    }
    if (directory->offset > next_offset || directory->nbytes != next_offset - directory->offset) {
        return onnxz__refuse(a, "Z-2.4", "a directory of %" PRIu64 " bytes at byte %" PRIu64 " does not end at byte %" PRIu64,
                             directory->nbytes, directory->offset, next_offset);
    }
    if (directory->entries > directory->nbytes / 47 || directory->nbytes > directory->entries * 329) {
        return onnxz__refuse(a, "Z-5.1", "a directory of %" PRIu64 " bytes cannot have %" PRIu64 " entries",
                             directory->nbytes, directory->entries);
    }
    return 1;
}

/* The data of the records in an extra field, or NULL. */
typedef struct {
    const unsigned char *zip64, *padding;
    size_t zip64_nbytes, padding_nbytes;
} onnxz__extra;

static int onnxz__read_extra(const unsigned char *extra, size_t nbytes, onnxz__extra *records) {
    size_t at = 0;
    memset(records, 0, sizeof *records);
    while (at < nbytes) {
        uint32_t id;
        size_t data_nbytes;
        if (nbytes - at < 4) return 0;
        id = onnxz__u16(extra + at);
        data_nbytes = onnxz__u16(extra + at + 2);
        at += 4;
        if (nbytes - at < data_nbytes) return 0;
        if (id == 0x0001 && records->zip64 == NULL) {
            records->zip64 = extra + at;
            records->zip64_nbytes = data_nbytes;
        } else if (id == 0x5a4f && records->padding == NULL) {
            records->padding = extra + at;
            records->padding_nbytes = data_nbytes;
        } else {
            return 0;
        }
        at += data_nbytes;
    }
    return 1;
}

/* Replaces the values that are full by those of the zip64 record, which must have exactly these. */
static int onnxz__in_full(const onnxz__extra *records, uint64_t *values, size_t count) {
    size_t i, at = 0;
    for (i = 0; i < count; i++) {
        if (values[i] != 0xffffffffu) continue;
        if (records->zip64 == NULL || records->zip64_nbytes - at < 8) return 0;
        values[i] = onnxz__u64(records->zip64 + at);
        at += 8;
        if (values[i] < 0xffffffffu) return 0;
    }
    return at == records->zip64_nbytes && (at > 0) == (records->zip64 != NULL);
}

#if !defined(ONNXZ_NO_FILES) && !defined(_WIN32)
static int onnxz__pread(onnxz_archive *a, size_t nbytes, uint64_t offset) {
    size_t done = 0;
    if (a->header_room < nbytes) {
        unsigned char *grown = (unsigned char *)realloc(a->header, nbytes);
        if (grown == NULL) return onnxz__no_memory(a);
        a->header = grown;
        a->header_room = nbytes;
    }
    while (done < nbytes) {
        ssize_t read = pread(a->descriptor, a->header + done, nbytes - done, (off_t)(offset + done));
        if (read < 0 && errno == EINTR) continue;
        if (read <= 0) return onnxz__refuse(a, "", "cannot read the file: %s", read < 0 ? strerror(errno) : "it became shorter");
        done += (size_t)read;
    }
    return 1;
}
#endif

/* The local header at an offset, and how many bytes there are. To read some bytes costs less than to map their page. */
static const unsigned char *onnxz__header(onnxz_archive *a, uint64_t offset, uint64_t end, size_t *nbytes) {
    *nbytes = (size_t)(end - offset);
#if !defined(ONNXZ_NO_FILES) && !defined(_WIN32)
    if (a->descriptor >= 0) {
        size_t usual = *nbytes < ONNXZ__USUAL_HEADER ? *nbytes : ONNXZ__USUAL_HEADER;
        size_t wanted = usual;
        if (!onnxz__pread(a, usual, offset)) return NULL;
        if (usual >= 30) wanted = (size_t)30 + onnxz__u16(a->header + 26) + onnxz__u16(a->header + 28);
        if (wanted > *nbytes) wanted = *nbytes;
        if (wanted > usual && !onnxz__pread(a, wanted, offset)) return NULL;
        *nbytes = wanted > usual ? wanted : usual;
        return a->header;
    }
#endif
    return a->bytes + (size_t)offset;
}

/* Checks that a local header, which is all there, says the same as the directory, and its extra field. */
static int onnxz__check_same(onnxz_archive *a, const unsigned char *header, const unsigned char *record, const char *shown,
                             uint64_t nbytes) {
    uint32_t name_nbytes = onnxz__u16(header + 26), extra_nbytes = onnxz__u16(header + 28);
    uint64_t sizes[2];
    size_t i;
    onnxz__extra records;
    if (memcmp(header + 4, record + 6, 24) != 0 || memcmp(header + 30, record + 46, name_nbytes) != 0) {
        return onnxz__refuse(a, "Z-3.2", "the local header of entry %s differs from the directory", shown);
    }
    if (!onnxz__read_extra(header + 30 + name_nbytes, extra_nbytes, &records)) {
        return onnxz__refuse(a, "Z-3.7", "the extra field of entry %s has other records than padding and zip64", shown);
    }
    for (i = 0; i < records.padding_nbytes; i++) {
        if (records.padding[i] != 0) return onnxz__refuse(a, "Z-3.8", "the padding of entry %s is not all zeros", shown);
    }
    sizes[0] = onnxz__u32(header + 18);
    sizes[1] = onnxz__u32(header + 22);
    if (!onnxz__in_full(&records, sizes, 2) || sizes[0] != nbytes || sizes[1] != nbytes) {
        return onnxz__refuse(a, "Z-3.9", "the zip64 sizes in the local header of entry %s are wrong", shown);
    }
    return 1;
}

/* Checks the local header of an entry whose directory entry is `record`. `end` is where the directory begins. */
static int onnxz__check_header(onnxz_archive *a, const unsigned char *record, const char *shown, uint64_t nbytes,
                               uint64_t offset, uint64_t end, uint64_t *header_nbytes) {
    size_t available;
    const unsigned char *header;
    if (offset >= end) return onnxz__refuse(a, "Z-2.5", "entry %s has no local header before the directory", shown);
    header = onnxz__header(a, offset, end, &available);
    if (header == NULL) return 0;
    if (available >= 4 ? !onnxz__is_signature(header, 3, 4) : 1) {
        return onnxz__refuse(a, "Z-3.1", "entry %s has no local header at byte %" PRIu64, shown, offset);
    }
    if (available < 30) return onnxz__refuse(a, "Z-2.5", "the local header of entry %s reaches into the directory", shown);
    *header_nbytes = (uint64_t)30 + onnxz__u16(header + 26) + onnxz__u16(header + 28);
    if (*header_nbytes > end - offset) {
        return onnxz__refuse(a, "Z-2.5", "the local header of entry %s reaches into the directory", shown);
    }
    if (a->is_strict && !onnxz__check_same(a, header, record, shown, nbytes)) return 0;
    if (onnxz__u16(header + 6) != 0) return onnxz__refuse(a, "Z-3.3", "entry %s has flags in its local header", shown);
    if (onnxz__u16(header + 8) != 0) return onnxz__refuse(a, "Z-3.4", "entry %s is compressed", shown);
    if (memcmp(header + 18, header + 22, 4) != 0) {
        return onnxz__refuse(a, "Z-3.6", "the two sizes in the local header of entry %s differ", shown);
    }
    if (nbytes > end - offset - *header_nbytes) {
        return onnxz__refuse(a, "Z-2.5", "the %" PRIu64 " bytes of entry %s reach into the directory", nbytes, shown);
    }
    return 1;
}

/* Checks a directory entry, of which at least 46 bytes, the name and the extra field are there. */
static int onnxz__check_record(onnxz_archive *a, const unsigned char *record, const char *shown, uint64_t offset,
                               uint64_t *nbytes) {
    uint32_t name_nbytes = onnxz__u16(record + 28), attributes = onnxz__u32(record + 38);
    uint64_t values[3];
    onnxz__extra records;
    if (onnxz__u16(record + 8) != 0) {
        return onnxz__refuse(a, "Z-3.3", "entry %s has flags 0x%04x", shown, (unsigned)onnxz__u16(record + 8));
    }
    if (onnxz__u16(record + 10) != 0) {
        return onnxz__refuse(a, "Z-3.4", "entry %s is compressed, by method %u", shown, (unsigned)onnxz__u16(record + 10));
    }
    if (onnxz__u16(record + 32) != 0) return onnxz__refuse(a, "Z-5.2", "entry %s has a comment", shown);
    if (a->is_strict && onnxz__u16(record + 6) > 45) {
        return onnxz__refuse(a, "Z-3.5", "entry %s needs version %u of zip", shown, (unsigned)onnxz__u16(record + 6));
    }
    if (a->is_strict && onnxz__u16(record + 34) != 0) return onnxz__refuse(a, "Z-5.3", "entry %s is on another disk", shown);
    if (a->is_strict && ((attributes & 0x18) != 0 || (attributes >> 28 != 0 && attributes >> 28 != 8))) {
        return onnxz__refuse(a, "Z-5.4", "entry %s is a directory, a link or a device", shown);
    }
    if (!onnxz__read_extra(record + 46 + name_nbytes, onnxz__u16(record + 30), &records) || records.padding != NULL) {
        return onnxz__refuse(a, "Z-5.5", "entry %s has other extra records in the directory than zip64", shown);
    }
    values[0] = onnxz__u32(record + 24);
    values[1] = onnxz__u32(record + 20);
    values[2] = onnxz__u32(record + 42);
    if ((values[0] == 0xffffffffu) != (values[1] == 0xffffffffu)) {
        return onnxz__refuse(a, "Z-3.6", "the two sizes of entry %s differ", shown);
    }
    if (!onnxz__in_full(&records, values, 3)) {
        return onnxz__refuse(a, "Z-5.6", "the zip64 record of entry %s has other values than those that need it", shown);
    }
    if (values[0] != values[1]) return onnxz__refuse(a, "Z-3.6", "the two sizes of entry %s differ", shown);
    if (values[2] != offset) {
        return onnxz__refuse(a, "Z-2.2", "entry %s begins at byte %" PRIu64 ", what is before it ends at %" PRIu64, shown,
                             values[2], offset);
    }
    *nbytes = values[0];
    return 1;
}

/* Reads the directory and all local headers. */
static int onnxz__read_entries(onnxz_archive *a) {
    onnxz__directory directory = {0, 0, 0};
    onnxz__span rest;
    size_t i, text = 0;
    uint64_t offset = 0;
    if (!onnxz__find_directory(a, &directory)) return 0;
    rest.at = a->bytes + (size_t)directory.offset;
    rest.end = rest.at + (size_t)directory.nbytes;
    a->entry_count = (size_t)directory.entries;
    if (a->entry_count > SIZE_MAX / sizeof *a->entries) return onnxz__no_memory(a);
    /* One more byte each, so that malloc(0) is no question. A directory entry is larger than its name and a zero. */
    a->entries = (onnxz_entry *)calloc(a->entry_count + 1, sizeof *a->entries);
    a->places = (onnxz__place *)calloc(a->entry_count + 1, sizeof *a->places);
    a->texts = (char *)malloc((size_t)directory.nbytes + 1);
    if (a->entries == NULL || a->places == NULL || a->texts == NULL) return onnxz__no_memory(a);
    for (i = 0; i < a->entry_count; i++) {
        const unsigned char *record = rest.at;
        size_t available = (size_t)(rest.end - rest.at), name_nbytes, record_nbytes;
        uint64_t nbytes = 0, header_nbytes = 0;
        onnxz__shown shown;
        if (available < 46 || !onnxz__is_signature(record, 1, 2)) {
            return onnxz__refuse(a, "Z-5.1", "the directory has no whole entry %" PRIu64, (uint64_t)i);
        }
        name_nbytes = onnxz__u16(record + 28);
        record_nbytes = 46 + name_nbytes + onnxz__u16(record + 30);
        if (record_nbytes > available) {
            return onnxz__refuse(a, "Z-5.1", "the directory has no whole entry %" PRIu64, (uint64_t)i);
        }
        shown = onnxz__show(record + 46, name_nbytes);
        if (!onnxz__check_record(a, record, shown.text, offset, &nbytes)) return 0;
        if (!onnxz__check_header(a, record, shown.text, nbytes, offset, directory.offset, &header_nbytes)) return 0;
        memcpy(a->texts + text, record + 46, name_nbytes);
        a->texts[text + name_nbytes] = 0;
        a->places[i].name = text;
        a->places[i].name_nbytes = name_nbytes;
        a->entries[i].name = a->texts + text;
        a->entries[i].kind = onnxz__kind(a->texts + text, name_nbytes);
        a->entries[i].offset = offset + header_nbytes;
        a->entries[i].bytes = a->bytes + (size_t)(offset + header_nbytes);
        a->entries[i].nbytes = (size_t)nbytes;
        a->tensor_entry_count += a->entries[i].kind == ONNXZ_TENSOR;
        a->first_graph += a->entries[i].kind < ONNXZ_GRAPH;
        text += name_nbytes + 1;
        offset += header_nbytes + nbytes;
        rest.at += record_nbytes;
    }
    if (rest.at != rest.end) return onnxz__refuse(a, "Z-5.1", "the directory continues after its last entry");
    if (offset != directory.offset) {
        return onnxz__refuse(a, "Z-2.3", "the entries end at byte %" PRIu64 ", the directory begins at byte %" PRIu64, offset,
                             directory.offset);
    }
    return onnxz__check_names(a);
}

/* ---- hashes ---- */

/* Checks the form of the hashes, if there are any. */
static int onnxz__check_hashes(onnxz_archive *a) {
    const onnxz_entry *hashes = a->first_graph == 0 ? NULL : &a->entries[a->first_graph - 1];
    size_t i, digit;
    onnxz__span rest;
    if (hashes == NULL || hashes->kind != ONNXZ_HASHES) return 1;
    rest.at = hashes->bytes;
    rest.end = rest.at + hashes->nbytes;
    for (i = 0; i < a->entry_count; i++) {
        size_t name_nbytes = a->places[i].name_nbytes;
        int is_right;
        if (a->entries[i].kind == ONNXZ_HASHES) continue;
        is_right = (size_t)(rest.end - rest.at) >= 67 + name_nbytes;
        for (digit = 0; is_right && digit < 64; digit++) {
            unsigned char c = rest.at[digit];
            is_right = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
        }
        is_right = is_right && rest.at[64] == ' ' && rest.at[65] == ' ' && rest.at[66 + name_nbytes] == '\n' &&
                   memcmp(rest.at + 66, onnxz__name(a, i), name_nbytes) == 0;
        if (!is_right) {
            return onnxz__refuse(a, "Z-4.10", "the hashes have no right line for entry %s",
                                 onnxz__show(onnxz__name(a, i), name_nbytes).text);
        }
        rest.at += 67 + name_nbytes;
    }
    if (rest.at != rest.end) return onnxz__refuse(a, "Z-4.10", "the hashes have more lines than entries");
    return 1;
}

/* ---- Protocol Buffers ---- */

typedef struct {
    uint32_t number;
    unsigned wire_type;
    uint64_t varint;   /* of wire type 0 */
    onnxz__span bytes; /* of wire type 2 */
} onnxz__field;

static int onnxz__varint(onnxz_archive *a, onnxz__span *rest, size_t max_nbytes, uint64_t *value) {
    size_t i;
    *value = 0;
    for (i = 0; i < max_nbytes; i++) {
        unsigned char byte;
        if (rest->at == rest->end) return onnxz__refuse(a, "Z-6.1", "a number in the graph is cut short");
        byte = *rest->at++;
        if (i == 9 && byte > 1) break;
        *value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) return 1;
    }
    return onnxz__refuse(a, "Z-6.2", "a number in the graph takes more than %u bytes, or has more than 64 bits",
                         (unsigned)max_nbytes);
}

static int onnxz__tag(onnxz_archive *a, onnxz__span *rest, onnxz__field *field) {
    uint64_t tag;
    if (!onnxz__varint(a, rest, 5, &tag)) return 0;
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) {
        return onnxz__refuse(a, "Z-6.1", "a field of the graph has the number %" PRIu64, tag >> 3);
    }
    field->number = (uint32_t)(tag >> 3);
    field->wire_type = (unsigned)(tag & 7);
    return 1;
}

/* The value of a field that is not a group. */
static int onnxz__value(onnxz_archive *a, onnxz__span *rest, onnxz__field *field) {
    uint64_t nbytes = 0;
    switch (field->wire_type) {
    case 0:
        return onnxz__varint(a, rest, 10, &field->varint);
    case 1:
        nbytes = 8;
        break;
    case 2:
        if (!onnxz__varint(a, rest, 5, &nbytes)) return 0;
        break;
    case 5:
        nbytes = 4;
        break;
    default:
        return onnxz__refuse(a, "Z-6.1", "a field of the graph has the wire type %u", field->wire_type);
    }
    if (nbytes > (uint64_t)(rest->end - rest->at)) {
        return onnxz__refuse(a, "Z-6.1", "%" PRIu64 " bytes of a field of the graph are beyond its message", nbytes);
    }
    field->bytes.at = rest->at;
    rest->at += (size_t)nbytes;
    field->bytes.end = rest->at;
    return 1;
}

/* Skips a group whose first tag was read. */
static int onnxz__skip_group(onnxz_archive *a, onnxz__span *rest, uint32_t number) {
    uint32_t open[ONNXZ__MAX_DEPTH];
    size_t depth = 1;
    onnxz__field field;
    open[0] = number;
    while (depth > 0) {
        if (rest->at == rest->end) return onnxz__refuse(a, "Z-6.3", "a group in the graph does not end");
        if (!onnxz__tag(a, rest, &field)) return 0;
        if (field.wire_type == 3) {
            if (depth == ONNXZ__MAX_DEPTH) {
                return onnxz__refuse(a, "Z-6.3", "groups in the graph are nested more than 100 deep");
            }
            open[depth++] = field.number;
        } else if (field.wire_type == 4) {
            if (field.number != open[--depth]) {
                return onnxz__refuse(a, "Z-6.3", "a group in the graph ends as another group");
            }
        } else if (!onnxz__value(a, rest, &field)) {
            return 0;
        }
    }
    return 1;
}

/* Reads the next field of a message that has more bytes. */
static int onnxz__next(onnxz_archive *a, onnxz__span *rest, onnxz__field *field) {
    if (!onnxz__tag(a, rest, field)) return 0;
    if (field->wire_type == 3) return onnxz__skip_group(a, rest, field->number);
    if (field->wire_type == 4) return onnxz__refuse(a, "Z-6.1", "a group ends in the graph where none began");
    return onnxz__value(a, rest, field);
}

/* ---- graphs ---- */

typedef enum {
    ONNXZ__MODEL,
    ONNXZ__TRAINING,
    ONNXZ__FUNCTION,
    ONNXZ__GRAPH,
    ONNXZ__NODE,
    ONNXZ__ATTRIBUTE,
    ONNXZ__SPARSE,
    ONNXZ__TENSOR
} onnxz__message;

/* The messages that a reader enters: section 6 of the specification. */
static const struct {
    onnxz__message parent;
    uint32_t number;
    onnxz__message child;
    int is_repeated;
} onnxz__children[] = {
    {ONNXZ__MODEL, 7, ONNXZ__GRAPH, 0},      {ONNXZ__MODEL, 20, ONNXZ__TRAINING, 1},
    {ONNXZ__MODEL, 25, ONNXZ__FUNCTION, 1},  {ONNXZ__TRAINING, 1, ONNXZ__GRAPH, 0},
    {ONNXZ__TRAINING, 2, ONNXZ__GRAPH, 0},   {ONNXZ__FUNCTION, 7, ONNXZ__NODE, 1},
    {ONNXZ__FUNCTION, 11, ONNXZ__ATTRIBUTE, 1}, {ONNXZ__GRAPH, 1, ONNXZ__NODE, 1},
    {ONNXZ__GRAPH, 5, ONNXZ__TENSOR, 1},     {ONNXZ__GRAPH, 15, ONNXZ__SPARSE, 1},
    {ONNXZ__NODE, 5, ONNXZ__ATTRIBUTE, 1},   {ONNXZ__ATTRIBUTE, 5, ONNXZ__TENSOR, 0},
    {ONNXZ__ATTRIBUTE, 6, ONNXZ__GRAPH, 0},  {ONNXZ__ATTRIBUTE, 10, ONNXZ__TENSOR, 1},
    {ONNXZ__ATTRIBUTE, 11, ONNXZ__GRAPH, 1}, {ONNXZ__ATTRIBUTE, 22, ONNXZ__SPARSE, 0},
    {ONNXZ__ATTRIBUTE, 23, ONNXZ__SPARSE, 1}, {ONNXZ__SPARSE, 1, ONNXZ__TENSOR, 0},
    {ONNXZ__SPARSE, 2, ONNXZ__TENSOR, 0},
};
#define ONNXZ__CHILD_COUNT (sizeof onnxz__children / sizeof onnxz__children[0])

/* What the fields of an external tensor say. A text is missing if its `at` is NULL. */
typedef struct {
    onnxz__span name, location, offset, length;
    uint32_t data_type;
    size_t first_dim;
} onnxz__external;

static size_t onnxz__length(onnxz__span span) { return (size_t)(span.end - span.at); }

static int onnxz__is(onnxz__span span, const char *text) {
    return onnxz__length(span) == strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

static int onnxz__refuse_tensor(onnxz_archive *a, const onnxz__external *tensor, const char *requirement, const char *what) {
    onnxz__shown shown = onnxz__show(tensor->name.at, onnxz__length(tensor->name));
    return onnxz__refuse(a, requirement, "tensor %s: %s", shown.text, what);
}

static int onnxz__add_dim(onnxz_archive *a, uint64_t dim) {
    int64_t *dims = (int64_t *)onnxz__grown(a->dims, a->dim_count, &a->dim_room, sizeof *dims);
    if (dims == NULL) return onnxz__no_memory(a);
    a->dims = dims;
    memcpy(&dims[a->dim_count++], &dim, sizeof dim); /* two's complement */
    return 1;
}

static int onnxz__push(onnxz_archive *a, onnxz__span part) {
    onnxz__span *parts = (onnxz__span *)onnxz__grown(a->parts, a->part_count, &a->part_room, sizeof *parts);
    if (parts == NULL) return onnxz__no_memory(a);
    a->parts = parts;
    parts[a->part_count++] = part;
    return 1;
}

static int onnxz__check_depth(onnxz_archive *a, unsigned depth) {
    if (depth <= ONNXZ__MAX_DEPTH) return 1;
    return onnxz__refuse(a, "Z-6.4", "messages of the graph are nested more than 100 deep");
}

/* Reads a StringStringEntryProto of `external_data`. */
static int onnxz__read_place(onnxz_archive *a, onnxz__external *tensor, onnxz__span rest) {
    onnxz__span key = {NULL, NULL}, value = {NULL, NULL}, *place;
    onnxz__field field;
    key.at = key.end = value.at = value.end = (const unsigned char *)""; /* a missing one is empty */
    while (rest.at < rest.end) {
        if (!onnxz__next(a, &rest, &field)) return 0;
        if (field.wire_type == 2 && field.number == 1) key = field.bytes;
        if (field.wire_type == 2 && field.number == 2) value = field.bytes;
    }
    if (onnxz__is(key, "location")) place = &tensor->location;
    else if (onnxz__is(key, "offset")) place = &tensor->offset;
    else if (onnxz__is(key, "length")) place = &tensor->length;
    else return onnxz__refuse_tensor(a, tensor, "Z-7.2", "its external_data has an unknown key");
    if (place->at != NULL) return onnxz__refuse_tensor(a, tensor, "Z-7.2", "its external_data has a key twice");
    *place = value;
    return 1;
}

/* Whether an entry of `nbytes` bytes has the size that the type and the dims demand, exactly. */
static int onnxz__is_size(unsigned bits, const int64_t *dims, size_t rank, uint64_t nbytes) {
    size_t i;
    uint64_t elements = 1;
    for (i = 0; i < rank; i++) {
        if (dims[i] == 0) return nbytes == 0;
    }
    for (i = 0; i < rank; i++) {
        if (elements > UINT64_MAX / (uint64_t)dims[i]) return 0; /* more than any file has */
        elements *= (uint64_t)dims[i];
    }
    if (elements > (UINT64_MAX - 7) / bits) return 0;
    return (elements * bits + 7) / 8 == nbytes;
}

unsigned onnxz_element_bits(uint32_t data_type) {
    static const unsigned char bits[] = {0,  32, 8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64,
                                         128, 16, 8, 8, 8,  8,  4,  4,  4, 8, 2,  2,  6,  6};
    return data_type < sizeof bits ? bits[data_type] : 0;
}

/* Checks an external tensor against its entry, and keeps it. */
static int onnxz__add_tensor(onnxz_archive *a, const onnxz__external *tensor, size_t graph) {
    char length[24];
    size_t i, rank = a->dim_count - tensor->first_dim;
    size_t index = onnxz__exact(a, tensor->location.at, onnxz__length(tensor->location));
    unsigned bits = onnxz_element_bits(tensor->data_type);
    onnxz_tensor *tensors;
    const onnxz_entry *entry;
    if (index >= a->tensor_entry_count) {
        return onnxz__refuse_tensor(a, tensor, "Z-7.3", "its location is not the entry of a tensor");
    }
    entry = &a->entries[index];
    snprintf(length, sizeof length, "%" PRIu64, (uint64_t)entry->nbytes);
    if (tensor->length.at != NULL && !onnxz__is(tensor->length, length)) {
        return onnxz__refuse_tensor(a, tensor, "Z-7.5", "its length is not the size of its entry");
    }
    if (bits == 0) return onnxz__refuse_tensor(a, tensor, "Z-7.8", "its element type has no known size");
    for (i = 0; i < rank; i++) {
        if (a->dims[tensor->first_dim + i] < 0) return onnxz__refuse_tensor(a, tensor, "Z-7.9", "it has a negative dim");
    }
    if (!onnxz__is_size(bits, rank == 0 ? NULL : a->dims + tensor->first_dim, rank, entry->nbytes)) {
        return onnxz__refuse_tensor(a, tensor, "Z-7.10", "its entry has another size than its type and dims demand");
    }
    tensors = (onnxz_tensor *)onnxz__grown(a->tensors, a->tensor_count, &a->tensor_room, sizeof *tensors);
    if (tensors == NULL) return onnxz__no_memory(a);
    a->tensors = tensors;
    tensors += a->tensor_count++;
    tensors->name = (const char *)tensor->name.at;
    tensors->name_nbytes = onnxz__length(tensor->name);
    tensors->data_type = tensor->data_type;
    tensors->rank = rank;
    tensors->dims = NULL; /* the dims may still move */
    tensors->entry = entry;
    tensors->graph = &a->entries[graph];
    a->places[index].is_used = 1;
    return 1;
}

/* Reads the fields of a TensorProto: the parts from `first` on. */
static int onnxz__read_tensor(onnxz_archive *a, size_t first, unsigned depth, size_t graph) {
    onnxz__external tensor;
    onnxz__field field;
    onnxz__span rest;
    size_t part;
    int is_external = 0, is_segment = 0, has_data = 0;
    for (part = first; part < a->part_count; part++) {
        for (rest = a->parts[part]; rest.at < rest.end;) {
            if (!onnxz__next(a, &rest, &field)) return 0;
            if (field.number == 14 && field.wire_type == 0) is_external = (uint32_t)field.varint == 1;
        }
    }
    if (!is_external) return 1;
    memset(&tensor, 0, sizeof tensor);
    tensor.name.at = tensor.name.end = (const unsigned char *)"";
    tensor.location.at = tensor.offset.at = tensor.length.at = NULL;
    tensor.first_dim = a->dim_count;
    for (part = first; part < a->part_count; part++) {
        for (rest = a->parts[part]; rest.at < rest.end;) {
            int is_text, is_number;
            if (!onnxz__next(a, &rest, &field)) return 0;
            is_text = field.wire_type == 2;
            is_number = field.wire_type == 0;
            if (field.number == 1 && is_number) {
                if (!onnxz__add_dim(a, field.varint)) return 0;
            } else if (field.number == 1 && is_text) {
                while (field.bytes.at < field.bytes.end) {
                    uint64_t dim;
                    if (!onnxz__varint(a, &field.bytes, 10, &dim)) return onnxz__refuse_tensor(a, &tensor, "Z-6.7", "its packed dims are not whole numbers");
                    if (!onnxz__add_dim(a, dim)) return 0;
                }
            } else if (field.number == 2 && is_number) {
                tensor.data_type = (uint32_t)field.varint;
            } else if (field.number == 8 && is_text) {
                tensor.name = field.bytes;
            } else if (field.number == 13 && is_text) {
                if (!onnxz__check_depth(a, depth + 1) || !onnxz__read_place(a, &tensor, field.bytes)) return 0;
            }
            is_segment |= field.number == 3;
            has_data |= (field.number >= 4 && field.number <= 7) || (field.number >= 9 && field.number <= 11);
        }
    }
    if (a->is_strict && is_segment) return onnxz__refuse_tensor(a, &tensor, "Z-7.7", "it is a segment");
    if (a->is_strict && has_data) return onnxz__refuse_tensor(a, &tensor, "Z-7.6", "it also has data of its own");
    if (tensor.location.at == NULL) return onnxz__refuse_tensor(a, &tensor, "Z-7.2", "its external_data has no location");
    if (tensor.offset.at != NULL && !onnxz__is(tensor.offset, "0")) {
        return onnxz__refuse_tensor(a, &tensor, "Z-7.4", "its offset is not \"0\"");
    }
    return onnxz__add_tensor(a, &tensor, graph);
}

/* Reads a message, whose parts are those from `first` on: a field that is not repeated in ONNX can be there in parts. */
static int onnxz__walk(onnxz_archive *a, onnxz__message message, size_t first, unsigned depth, size_t graph) {
    size_t part, i, end = a->part_count, child_first;
    size_t counts[ONNXZ__CHILD_COUNT] = {0};
    onnxz__field field;
    onnxz__span rest;
    if (!onnxz__check_depth(a, depth)) return 0;
    if (message == ONNXZ__TENSOR) return onnxz__read_tensor(a, first, depth, graph);
    for (part = first; part < end; part++) {
        for (rest = a->parts[part]; rest.at < rest.end;) {
            if (!onnxz__next(a, &rest, &field)) return 0;
            if (field.wire_type != 2) continue;
            for (i = 0; i < ONNXZ__CHILD_COUNT; i++) {
                if (onnxz__children[i].parent != message || onnxz__children[i].number != field.number) continue;
                counts[i]++;
                if (!onnxz__children[i].is_repeated) continue;
                if (!onnxz__push(a, field.bytes)) return 0;
                if (!onnxz__walk(a, onnxz__children[i].child, end, depth + 1, graph)) return 0;
                a->part_count = end;
            }
        }
    }
    if (message == ONNXZ__MODEL && counts[0] == 0) return onnxz__refuse(a, "Z-6.5", "the ModelProto has no graph");
    for (i = 0; i < ONNXZ__CHILD_COUNT; i++) {
        if (counts[i] == 0 || onnxz__children[i].is_repeated) continue;
        child_first = a->part_count;
        for (part = first; part < end; part++) {
            for (rest = a->parts[part]; rest.at < rest.end;) {
                if (!onnxz__next(a, &rest, &field)) return 0;
                if (field.wire_type == 2 && field.number == onnxz__children[i].number && !onnxz__push(a, field.bytes)) return 0;
            }
        }
        if (!onnxz__walk(a, onnxz__children[i].child, child_first, depth + 1, graph)) return 0;
        a->part_count = child_first;
    }
    return 1;
}

/* Checks a graph and keeps its external tensors. */
static int onnxz__read_graph(onnxz_archive *a, size_t index) {
    onnxz__span model;
    model.at = a->entries[index].bytes;
    model.end = model.at + a->entries[index].nbytes;
    a->part_count = 0;
    return onnxz__push(a, model) && onnxz__walk(a, ONNXZ__MODEL, 0, 0, index);
}

/* ---- archives ---- */

static int onnxz__read(onnxz_archive *a, const char *model) {
    size_t i, dim = 0;
    const onnxz_entry *chosen;
    if (!onnxz__read_entries(a)) return 0;
    chosen = model == NULL ? &a->entries[a->entry_count - 1] : onnxz_graph(a, model);
    if (a->is_strict && !onnxz__check_hashes(a)) return 0;
    for (i = a->first_graph; i < a->entry_count; i++) {
        if ((a->is_strict || chosen == &a->entries[i]) && !onnxz__read_graph(a, i)) return 0;
    }
    for (i = 0; a->is_strict && i < a->tensor_entry_count; i++) {
        if (!a->places[i].is_used) {
            return onnxz__refuse(a, "Z-7.11", "no tensor refers to entry %s",
                                 onnxz__show(onnxz__name(a, i), a->places[i].name_nbytes).text);
        }
    }
    if (chosen == NULL) return onnxz__refuse(a, "", "the archive has no model %s", onnxz__show(model, strlen(model)).text);
    for (i = 0; i < a->tensor_count; i++) { /* the dims of all tensors follow each other */
        if (a->tensors[i].rank > 0) a->tensors[i].dims = a->dims + dim;
        dim += a->tensors[i].rank;
    }
    free(a->parts); /* what only reading needs */
    free(a->header);
    a->parts = NULL;
    a->header = NULL;
    return 1;
}

static onnxz_archive *onnxz__new(onnxz_class reader, onnxz_error *error) {
    onnxz_archive *a = (onnxz_archive *)calloc(1, sizeof *a);
    if (error != NULL) memset(error, 0, sizeof *error);
    if (a == NULL) {
        if (error != NULL) snprintf(error->message, sizeof error->message, "there is not enough memory");
        return NULL;
    }
    a->is_strict = reader == ONNXZ_STRICT;
    a->descriptor = -1;
    a->error = error;
    return a;
}

/* Reads an archive whose bytes are there. Closes it after an error. */
static onnxz_archive *onnxz__finish(onnxz_archive *a, int is_there, const char *model) {
    int is_read = is_there && onnxz__read(a, model);
    a->error = NULL; /* it may be gone when this function returns */
    if (is_read) return a;
    onnxz_close(a);
    return NULL;
}

onnxz_archive *onnxz_parse(const void *bytes, size_t nbytes, onnxz_class reader, const char *model, onnxz_error *error) {
    onnxz_archive *a = onnxz__new(reader, error);
    if (a == NULL) return NULL;
    a->bytes = (const unsigned char *)bytes;
    a->nbytes = nbytes;
    return onnxz__finish(a, 1, model);
}

#ifndef ONNXZ_NO_FILES
#ifdef _WIN32

static int onnxz__map(onnxz_archive *a, const char *path) {
    HANDLE file, map;
    LARGE_INTEGER size;
    int wide_count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    WCHAR *wide = wide_count <= 0 ? NULL : (WCHAR *)malloc((size_t)wide_count * sizeof *wide);
    if (wide == NULL) return onnxz__refuse(a, "", "the path is not valid UTF-8, or there is not enough memory");
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, wide_count);
    file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    free(wide);
    if (file == INVALID_HANDLE_VALUE) {
        return onnxz__refuse(a, "", "cannot open the file: error %lu of Windows", (unsigned long)GetLastError());
    }
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size) || (uint64_t)size.QuadPart > SIZE_MAX) {
        CloseHandle(file);
        return onnxz__refuse(a, "", "it is not a regular file, or larger than the address space");
    }
    if (size.QuadPart == 0) { /* nothing to map */
        CloseHandle(file);
        return 1;
    }
    map = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    CloseHandle(file);
    if (map != NULL) {
        a->bytes = (const unsigned char *)MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0);
        CloseHandle(map); /* the view keeps it */
    }
    if (a->bytes == NULL) {
        return onnxz__refuse(a, "", "cannot map the file: error %lu of Windows", (unsigned long)GetLastError());
    }
    a->nbytes = (size_t)size.QuadPart;
    a->is_mapped = 1;
    return 1;
}

static void onnxz__unmap(onnxz_archive *a) { UnmapViewOfFile((LPCVOID)a->bytes); }

static void onnxz__close_file(onnxz_archive *a) { (void)a; }

#else

static int onnxz__map(onnxz_archive *a, const char *path) {
    struct stat status;
    void *map;
    a->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* so that a pipe does not block */
    if (a->descriptor < 0 || fstat(a->descriptor, &status) != 0) {
        return onnxz__refuse(a, "", "cannot open the file: %s", strerror(errno));
    }
    if (!S_ISREG(status.st_mode)) return onnxz__refuse(a, "", "it is not a regular file");
    if ((uint64_t)status.st_size > SIZE_MAX) return onnxz__refuse(a, "", "the file is larger than the address space");
    if (status.st_size == 0) return 1; /* nothing to map */
    map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, a->descriptor, 0);
    if (map == MAP_FAILED) return onnxz__refuse(a, "", "cannot map the file: %s", strerror(errno));
    a->bytes = (const unsigned char *)map;
    a->nbytes = (size_t)status.st_size;
    a->is_mapped = 1;
    return 1;
}

static void onnxz__unmap(onnxz_archive *a) { munmap((void *)(uintptr_t)a->bytes, a->nbytes); }

static void onnxz__close_file(onnxz_archive *a) {
    if (a->descriptor >= 0) close(a->descriptor);
    a->descriptor = -1;
}

#endif

onnxz_archive *onnxz_open(const char *path, onnxz_class reader, const char *model, onnxz_error *error) {
    onnxz_archive *a = onnxz__new(reader, error);
    if (a == NULL) return NULL;
    a = onnxz__finish(a, onnxz__map(a, path), model);
    if (a != NULL) onnxz__close_file(a); /* the map stays */
    return a;
}
#endif

void onnxz_close(onnxz_archive *archive) {
    if (archive == NULL) return;
#ifndef ONNXZ_NO_FILES
    onnxz__close_file(archive);
    if (archive->is_mapped) onnxz__unmap(archive);
#endif
    free(archive->entries);
    free(archive->places);
    free(archive->by_name);
    free(archive->texts);
    free(archive->tensors);
    free(archive->dims);
    free(archive->parts);
    free(archive->header);
    free(archive);
}

size_t onnxz_entry_count(const onnxz_archive *archive) { return archive->entry_count; }

const onnxz_entry *onnxz_entry_at(const onnxz_archive *archive, size_t index) {
    return index < archive->entry_count ? &archive->entries[index] : NULL;
}

const onnxz_entry *onnxz_find(const onnxz_archive *archive, const char *name) {
    return onnxz_entry_at(archive, onnxz__exact(archive, name, strlen(name)));
}

const onnxz_entry *onnxz_graph(const onnxz_archive *archive, const char *model) {
    size_t i;
    const onnxz_entry *last = &archive->entries[archive->entry_count - 1];
    if (model == NULL) {
        return last->kind == ONNXZ_DEFAULT_GRAPH || archive->entry_count - archive->first_graph == 1 ? last : NULL;
    }
    for (i = archive->first_graph; i < archive->entry_count; i++) {
        const char *name = onnxz_model_name(&archive->entries[i]);
        if (name != NULL && strcmp(name, model) == 0) return &archive->entries[i];
    }
    return NULL;
}

const char *onnxz_model_name(const onnxz_entry *entry) {
    return entry->kind == ONNXZ_GRAPH ? entry->name + 14 : NULL;
}

size_t onnxz_tensor_count(const onnxz_archive *archive) { return archive->tensor_count; }

const onnxz_tensor *onnxz_tensor_at(const onnxz_archive *archive, size_t index) {
    return index < archive->tensor_count ? &archive->tensors[index] : NULL;
}

#endif /* ONNXZ_IMPLEMENTATION */
