"""System calls for files, how many may be open, and files that are open for reading; `output.py` has those for writing.

Only these two modules know which operating system this is. Each call that a system or filesystem may lack has a
portable fallback, chosen by `Capabilities`, so that every fallback can be tested anywhere.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakSet

from formats.errors import FormatError, TensorDataError, TruncatedError, explain
from formats.tensordata.file import File

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


STEP_BYTES = 1 << 30  # macOS refuses to move more than 2^31 - 1 bytes in one call
OPEN_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# Opening for reading never waits; without this flag, a pipe or a device could wait.
FILE_FLAGS = os.O_RDONLY | OPEN_FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
COARSE_NS = 2_000_000_000  # FAT keeps times in steps of 2 seconds
WINDOWS_PATH_CHARACTERS = (
    240  # Windows accepts 260 characters, for a folder 248; the rest is for names of temporary files
)
# Names that Windows reserves for devices, in any case and with any extension, and forbidden characters. A
# colon does not fail: it names a second content of the file before it.
DEVICE_NAMES = frozenset(("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))))
WINDOWS_FORBIDDEN = frozenset('<>:"/\\|?*')


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which calls to use if the system has them; a filesystem may still refuse any of them."""

    positional: bool = hasattr(os, "pread") and hasattr(os, "pwrite")
    vectored: bool = hasattr(os, "preadv")
    copy_range: bool = hasattr(os, "copy_file_range")
    allocate: bool = hasattr(os, "posix_fallocate")
    unnamed: bool = hasattr(os, "O_TMPFILE") and hasattr(os, "link")
    hard_link: bool = hasattr(os, "link")
    # Files are opened from an open folder, without following links.
    open_folders: bool = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and hasattr(os, "O_DIRECTORY")
    untracked_mapping: bool = sys.version_info >= (3, 13) and os.name == "posix"  # `trackfd` of mmap
    # A mapping needs no file descriptor: without `trackfd`, or on Windows, where it has a handle.
    unlinked_mapping: bool = untracked_mapping or os.name == "nt"
    locks_open_files: bool = os.name == "nt"  # open files cannot be replaced or removed, and mapped files cannot be cut
    windows_paths: bool = os.name == "nt"  # their length and their characters are limited


SYSTEM = Capabilities()


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Located(NamedTuple):
    """A context in which system errors name the file, and say what to do; its value is the descriptor, if any."""

    path: Path
    descriptor: int = -1

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            error.filename = str(self.path) if error.filename is None else error.filename
            explain(error)


class _Identity(NamedTuple):
    """The values that show that a file is still the opened file, with the same content."""

    device: int
    inode: int
    nbytes: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    def is_kept_by(self, now: _Identity) -> bool:
        """Whether `now` belongs to the same file, unchanged.

        Some systems know the exact time of a new file, but round it when they write it to a FAT.
        """
        rounded = not now.modified_ns % COARSE_NS and abs(now.modified_ns - self.modified_ns) < COARSE_NS
        return now == (self._replace(modified_ns=now.modified_ns) if rounded else self)


class LocalFile(File):
    """A regular file of this system.

    A pickle contains its path and the values that identify the file. The first read after unpickling checks that the
    file is still the same.
    """

    _all: ClassVar[WeakSet[LocalFile]] = WeakSet()
    _all_lock = Lock()

    def __init__(
        self, path: Path, *, keep_open: bool, capabilities: Capabilities, descriptor: int | None = None
    ) -> None:
        """The regular file at `path`, or that of `descriptor`, which belongs to this object from now on."""
        self.path = path
        self._capabilities = capabilities
        self._lock = RLock()
        self._mapping: mmap.mmap | None = None
        self._was_pickled = False  # and not opened again since then
        if descriptor is None:
            descriptor = _open_regular(path, capabilities)
        self._descriptor: int | None = descriptor
        status = os.fstat(descriptor)
        self._identity = _Identity.of(status)
        self.permissions = stat.S_IMODE(status.st_mode) & 0o777
        self._status_changed_ns = status.st_ctime_ns
        self.moved: Mapping[str, str] = {}
        self.remedy = File.remedy
        self.nbytes = self._identity.nbytes
        if not keep_open:
            self._descriptor = None
            os.close(descriptor)
        self._know()

    def _know(self) -> None:
        """Register this object for `let_go`."""
        if self._capabilities.locks_open_files:
            with LocalFile._all_lock:
                LocalFile._all.add(self)

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill `buffer` with the bytes from `offset` (from the start of the file) on.

        Raises: TruncatedError if the file ends before the buffer is full.
        """
        rest = memoryview(buffer)
        if not len(rest):
            return
        with self.descriptor() as descriptor:
            while len(rest):
                count = self._pread_some(descriptor, offset, rest[:STEP_BYTES])
                if not count:
                    raise TruncatedError(f"the file is {len(rest)} bytes too short", path=self.path, file_offset=offset)
                offset += count
                rest = rest[count:]

    def pread(self, offset: int, nbytes: int) -> bytes:
        """The `nbytes` from `offset` (from the start of the file) on.

        Raises: TruncatedError if the file ends before.
        """
        if self._capabilities.positional and nbytes <= STEP_BYTES:
            with self.descriptor() as descriptor:
                data = os.pread(descriptor, nbytes, offset)
            if len(data) == nbytes:  # like nearly always
                return data
        buffer = bytearray(nbytes)
        self.pread_into(offset, buffer)
        return bytes(buffer)

    def map(self, offset: int, nbytes: int) -> memoryview:
        """A range of the file as read-only memory, from a mapping of the file that the view keeps alive.

        Raises: TruncatedError if the file does not have the range; TensorDataError if the file has changed.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise TruncatedError(
                f"needed {nbytes} bytes, but the file has {self.nbytes}", path=self.path, file_offset=offset
            )
        if not nbytes:
            return memoryview(b"")
        self.check_unchanged()  # a read of mapped bytes that the file no longer has would end the process
        if self._descriptor is None and not self._capabilities.unlinked_mapping:
            buffer = bytearray(nbytes)
            self.pread_into(offset, buffer)
            return memoryview(buffer).toreadonly()
        with self._lock:
            if self._mapping is None:
                self._mapping = self._new_mapping()
            return memoryview(self._mapping)[offset : offset + nbytes]

    def is_same(self, other: File) -> bool:
        """Whether both are the same file with the same content, opened twice."""
        return isinstance(other, LocalFile) and self._identity == other._identity

    def is_at(self, status: os.stat_result) -> bool:
        """Whether the status is that of the same file; its content may have changed."""
        return (status.st_dev, status.st_ino) == (self._identity.device, self._identity.inode)

    def is_current(self) -> bool:
        """Whether the path still leads to the file as it was opened, and it had no other name in between."""
        try:
            now = self.path.stat()
        except OSError:
            return False
        return self._status_changed_ns == now.st_ctime_ns and self._identity.is_kept_by(_Identity.of(now))

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was opened.

        Raises: TensorDataError if it has another size, modification time or identity.
        """
        with self.descriptor() as descriptor:
            self.check_in_place(descriptor)

    def check_in_place(self, descriptor: int | None = None) -> None:
        """Check that the path, or that descriptor, still leads to the file, unchanged since it was opened.

        Raises: TensorDataError if it is another one, or was changed; OSError if it is gone.
        """
        status = self.path.stat() if descriptor is None else os.fstat(descriptor)
        if not self._identity.is_kept_by(_Identity.of(status)):
            raise TensorDataError(f"the file has changed since it was read; {self.remedy}", path=self.path)

    def descriptor(self) -> AbstractContextManager[int]:
        """A context with a file descriptor for reading; errors of the system name the file.

        Raises: TensorDataError if the file had to be opened anew and has changed.
        """
        if self._was_pickled:
            self._open_again()
        if self._capabilities.locks_open_files:
            return self._held()
        return self._reopened() if self._descriptor is None else Located(self.path, self._descriptor)

    def let_go(self) -> bool:
        """Close the file, so that the system can replace it; return false if views of it still prevent that.

        From now on, every access opens the file again and makes sure that it is still the same. No other thread may
        read meanwhile, except on systems that lock open files: there, the other thread waits.
        """
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)
            return self._end_mapping()

    def _end_mapping(self) -> bool:
        """End the mapping, if there is one; return false if views of it prevent that. The lock is held."""
        if self._mapping is not None:
            try:
                self._mapping.close()
            except BufferError:  # there are views
                return False
            self._mapping = None
        return True

    def close(self) -> None:
        """Like `let_go`, but existing views stay valid; the last of them ends the mapping."""
        if not self.let_go():
            self._mapping = None

    def _open_again(self) -> None:
        """Open the file in this process, too.

        Raises: TensorDataError if it is not the pickled file, or has changed.
        """
        with self._lock:
            if not self._was_pickled:  # another thread was faster
                return
            descriptor = _open_regular(self.path, self._capabilities)
            identity = _Identity.of(os.fstat(descriptor))
            was = self._identity._replace(device=identity.device)  # its number differs on another machine
            if not was.is_kept_by(identity):
                os.close(descriptor)
                raise TensorDataError("the file has changed since the model was read from it", path=self.path)
            self._identity, self._descriptor, self._was_pickled = identity, descriptor, False

    @contextmanager
    def _held(self) -> Iterator[int]:
        """The descriptor in a context; `let_go` does not close it meanwhile."""
        with self._lock:
            context = self._reopened() if self._descriptor is None else Located(self.path, self._descriptor)
            with context as descriptor:
                yield descriptor

    @contextmanager
    def _reopened(self) -> Iterator[int]:
        with Located(self.path):
            descriptor = _open_regular(self.path, self._capabilities)
            try:
                self.check_in_place(descriptor)
                yield descriptor
            finally:
                os.close(descriptor)

    def _pread_some(self, descriptor: int, offset: int, buffer: memoryview) -> int:
        if self._capabilities.vectored:
            return os.preadv(descriptor, [buffer], offset)
        if self._capabilities.positional:
            data = os.pread(descriptor, len(buffer), offset)
        else:
            with self._lock:
                os.lseek(descriptor, offset, os.SEEK_SET)
                data = os.read(descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _new_mapping(self) -> mmap.mmap:
        options: dict[str, Any] = {"trackfd": False} if self._capabilities.untracked_mapping else {}
        with self.descriptor() as descriptor:
            return mmap.mmap(descriptor, self.nbytes, access=mmap.ACCESS_READ, **options)

    def __getstate__(self) -> tuple[str, tuple[int, ...], int]:
        path = os.path.abspath(self.path)  # noqa: PTH100 - links stay
        return path, tuple(self._identity), self.permissions

    def __setstate__(self, state: tuple[str, tuple[int, int, int, int], int]) -> None:
        """The file of a pickle; the first read opens it, because an error now would end a pool of processes."""
        path, identity, self.permissions = state
        self.path = Path(path)
        self._capabilities = SYSTEM
        self._lock = RLock()
        self._mapping = self._descriptor = None
        self._identity = _Identity(*identity)
        self._was_pickled = True
        self._status_changed_ns = 0
        self.moved = {}
        self.remedy = File.remedy
        self.nbytes = self._identity.nbytes
        self._know()

    def __del__(self, close: Any = os.close) -> None:
        if getattr(self, "_descriptor", None) is not None:
            close(self._descriptor)


def open_here(path: Path, keep_open: bool, capabilities: Capabilities | None) -> LocalFile:
    """The file at `path`; for what opens files in any place."""
    with Located(path):
        return LocalFile(path, keep_open=keep_open, capabilities=capabilities or SYSTEM)


def let_go(path: Path) -> None:
    """Let go of the file at `path` in this process, so that only views of its bytes can prevent its replacement."""
    try:
        inode = path.stat().st_ino
    except OSError:
        return
    with LocalFile._all_lock:
        files = list(LocalFile._all)
    for file in files:
        if file._identity.inode == inode:  # or by chance a file of another device, which does no harm
            file.let_go()


def system_path(path: Path, capabilities: Capabilities = SYSTEM) -> Path:
    """The path in the form that the system accepts at any length."""
    if not capabilities.windows_paths:
        return path
    return Path(extended(os.path.abspath(path)))  # noqa: PTH100 - the extended form has no ".."


def extended(path: str) -> str:
    """An absolute path of Windows, in its extended form if it is too long for the usual form.

    Spec: Microsoft, "Maximum Path Length Limitation".
    """
    if len(path) < WINDOWS_PATH_CHARACTERS or path.startswith("\\\\?\\"):
        return path
    return f"\\\\?\\UNC\\{path[2:]}" if path.startswith("\\\\") else f"\\\\?\\{path}"


def is_windows_name(name: str) -> bool:
    """Whether Windows accepts `name` as the name of a file.

    Spec: Microsoft, "Naming Files, Paths, and Namespaces".
    """
    if name in ("", ".", ".."):
        return True
    if name.rstrip(". ") != name or any(char in WINDOWS_FORBIDDEN or char < " " for char in name):
        return False
    return name.split(".")[0].rstrip(" ").lower() not in DEVICE_NAMES


def _open_regular(path: Path, capabilities: Capabilities) -> int:
    """A descriptor of a regular file.

    Raises: as `check_regular` does.
    """
    if capabilities.windows_paths and not is_windows_name(path.name):
        raise FormatError("Windows does not allow this file name", path=path)
    try:
        descriptor = os.open(system_path(path, capabilities), FILE_FLAGS)
    except OSError as error:
        if isinstance(error, PermissionError) and path.is_dir():  # Windows cannot open a folder
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from None
        error.filename = str(path)  # as the user wrote it
        raise
    check_regular(descriptor, path)
    return descriptor


def check_regular(descriptor: int, path: Path) -> None:
    """Check that the descriptor belongs to a regular file; otherwise close it.

    Raises: IsADirectoryError for a directory; FormatError if it is neither a directory nor a file.
    """
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise FormatError("expected a regular file, found a pipe, a socket or a device", path=path)


FEW_FILES = 64  # every process may open so many
_LOCK = Lock()  # held while the limit is read and set


@contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Let this process open `count` files more meanwhile, or as many as the system allows it.

    The usual limit is 256 with macOS and 1,024 with Linux; a process may raise it to its hard limit. A model can have a
    data file for each of thousands of weights.
    """
    if count <= FEW_FILES or sys.platform == "win32":  # there, no such limit is low
        yield
        return
    added = _add(count)
    try:
        yield
    finally:
        _add(-added)


def _add(count: int) -> int:
    """Change the limit of open files by `count`, as far as that is possible; the change."""
    if sys.platform == "win32":
        return 0
    import resource

    with _LOCK:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return 0
        new = soft + count if hard == resource.RLIM_INFINITY else min(soft + count, hard)
        if new < 0:  # somebody else has changed it meanwhile
            return 0
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new, hard))
        except (ValueError, OSError):  # macOS: more than the system has, whatever the hard limit says
            return 0
        return new - soft
