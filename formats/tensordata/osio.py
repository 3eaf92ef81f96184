"""Files as the operating system has them: the only module that knows which operating system this is.

`File` reads, `OutputFile` writes. Each call that some system or filesystem lacks has a portable fallback, chosen by
`Capabilities`, so that every fallback can be tested anywhere.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import stat
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import FormatError, TensorDataError, TruncatedError
from formats.tensordata.source import FileSpan

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP_BYTES = 1 << 30  # macOS refuses to move more than 2^31 - 1 bytes in one call
READ_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
WRITE_FLAGS = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# What a system or filesystem answers when it does not have a call; EBADF, see `OutputFile._reserve`.
UNSUPPORTED = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EISDIR, errno.EBADF)
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which calls to use where the system has them; a filesystem may still refuse any of them."""

    positional: bool = hasattr(os, "pread") and hasattr(os, "pwrite")
    vectored: bool = hasattr(os, "preadv")
    copy_range: bool = hasattr(os, "copy_file_range")
    allocate: bool = hasattr(os, "posix_fallocate")
    unnamed: bool = hasattr(os, "O_TMPFILE") and hasattr(os, "link")
    hard_link: bool = hasattr(os, "link")
    unlinked_mapping: bool = sys.version_info >= (3, 13)  # mmap can do without a file descriptor of its own


SYSTEM = Capabilities()


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Identity(NamedTuple):
    """What tells that a file is still the one that was opened, with the same content."""

    device: int
    inode: int
    nbytes: int
    modified_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Identity:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class File:
    """A regular file, open for reading by any number of threads; closed when nothing refers to it any more.

    `nbytes` is its size when it was opened. Copies of this object are the object itself.
    """

    __slots__ = ("__weakref__", "_capabilities", "_descriptor", "_identity", "_lock", "_mapping", "nbytes", "path")

    def __init__(self, path: Path, descriptor: int, *, keep_open: bool, capabilities: Capabilities) -> None:
        self._identity = _Identity.of(os.fstat(descriptor))
        self._capabilities = capabilities
        self._lock = Lock()
        self._mapping: mmap.mmap | None = None
        self.path = path
        self.nbytes = self._identity.nbytes
        self._descriptor: int | None = descriptor if keep_open else None

    @classmethod
    def open(cls, path: str | os.PathLike[str], keep_open: bool = True, *, capabilities: Capabilities = SYSTEM) -> File:
        """The file at `path`.

        Without `keep_open` no file descriptor is held: every access opens the file anew and makes sure that it is
        still the same. That is for models with more files than a process may have open.

        Raises: OSError where it cannot be opened; FormatError where it is neither a file nor a directory.
        """
        path = Path(path)
        descriptor = _open_regular(path)
        try:
            file = cls(path, descriptor, keep_open=keep_open, capabilities=capabilities)
        except BaseException:
            os.close(descriptor)
            raise
        if not keep_open:
            os.close(descriptor)
        return file

    def pread_into(self, offset: int, buffer: memoryview | bytearray) -> None:
        """Fill `buffer` with the bytes from `offset` (from the start of the file) on.

        Raises: TruncatedError where the file ends before the buffer is full.
        """
        rest = memoryview(buffer)
        if not len(rest):
            return
        with self.descriptor() as descriptor:
            while len(rest):
                try:
                    count = self._pread_some(descriptor, offset, rest[:STEP_BYTES])
                except OSError as error:
                    _locate(error, self.path)
                    raise
                if not count:
                    raise TruncatedError(
                        f"the file ends {len(rest)} bytes too early", path=self.path, file_offset=offset
                    )
                offset += count
                rest = rest[count:]

    def map(self, offset: int, nbytes: int) -> memoryview:
        """A range of the file as read-only memory, from a mapping of the file that the view keeps alive.

        Raises: TruncatedError where the file does not have the range; TensorDataError where the file has changed.
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise TruncatedError(
                f"needed {nbytes} bytes, the file has {self.nbytes}", path=self.path, file_offset=offset
            )
        if not nbytes:
            return memoryview(b"")
        self.check_unchanged()  # touching mapped bytes that a file no longer has would end the process
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
        return self._identity == other._identity

    def span(self) -> FileSpan:
        """The whole file as a source."""
        return FileSpan(self, 0, self.nbytes)

    def check_unchanged(self) -> None:
        """Nothing, where the file is as it was when it was opened.

        Raises: TensorDataError where it has another size, modification time or identity.
        """
        with self.descriptor() as descriptor:
            if self._descriptor is not None:
                self._check_identity(descriptor)

    @contextmanager
    def descriptor(self) -> Iterator[int]:
        """A file descriptor to read from, for as long as the context lasts."""
        if self._descriptor is not None:
            yield self._descriptor
            return
        descriptor = _open_regular(self.path)
        try:
            self._check_identity(descriptor)
            yield descriptor
        finally:
            os.close(descriptor)

    def _check_identity(self, descriptor: int) -> None:
        if _Identity.of(os.fstat(descriptor)) != self._identity:
            raise TensorDataError("the file was changed since it was read; run again", path=self.path)

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
        options: dict[str, Any] = {"trackfd": False} if self._capabilities.unlinked_mapping else {}
        with self.descriptor() as descriptor:
            return mmap.mmap(descriptor, self.nbytes, access=mmap.ACCESS_READ, **options)

    def __copy__(self) -> File:
        return self

    def __deepcopy__(self, memo: object) -> File:
        return self

    def __del__(self, close: Any = os.close) -> None:
        if getattr(self, "_descriptor", None) is not None:
            close(self._descriptor)

    def __repr__(self) -> str:
        return f"File({str(self.path)!r}, {self.nbytes} bytes)"


class _Writable:
    """A file that is open for writing; several threads may."""

    __slots__ = ("_capabilities", "_descriptor", "_lock", "path")

    def __init__(self, path: str | os.PathLike[str], capabilities: Capabilities) -> None:
        self.path = Path(path)
        self._capabilities = capabilities
        self._lock = Lock()
        self._descriptor: int | None = None

    def pwrite(self, offset: int, data: memoryview | bytes | bytearray) -> None:
        """Write all of `data` at `offset` (from the start of the file)."""
        rest = memoryview(data)
        try:
            while len(rest):
                count = self._pwrite_some(offset, rest[:STEP_BYTES])
                offset += count
                rest = rest[count:]
        except OSError as error:
            _locate(error, self.path)
            raise

    def copy_range(self, file: File, source_offset: int, offset: int, nbytes: int) -> int:
        """The number of bytes that the kernel copied from `file`, from the start of the range on.

        Fewer than `nbytes`, down to 0, where it cannot copy between these files or the source ends early: copy the
        rest by reading and writing, which tells.
        """
        if not self._capabilities.copy_range:
            return 0
        done = 0
        with file.descriptor() as source:
            try:
                while done < nbytes:
                    count = os.copy_file_range(
                        source, self._fd, min(nbytes - done, STEP_BYTES), source_offset + done, offset + done
                    )
                    if not count:
                        break
                    done += count
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    _locate(error, self.path)
                    raise
        return done

    @property
    def _fd(self) -> int:
        assert self._descriptor is not None, "the file is open until it is published or discarded"
        return self._descriptor

    def _pwrite_some(self, offset: int, data: memoryview) -> int:
        if self._capabilities.positional:
            return os.pwrite(self._fd, data, offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.write(self._fd, data)

    def _close_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class OutputFile(_Writable):
    """A new file that takes the place of its destination only when it is complete.

    Until `publish` it has no name where the system can do that, so that nothing is left even by a process that is
    killed; else it is a hidden file beside the destination. Where the destination is a link, its target is what
    will be replaced. Writing is safe from several threads; the other methods are for one.
    """

    __slots__ = (
        "_backup",
        "_destination",
        "_overwrite",
        "_placed",
        "_revocable",
        "_same",
        "_temporary",
        "nbytes",
    )

    def __init__(
        self,
        path: str | os.PathLike[str],
        nbytes: int,
        *,
        overwrite: bool = False,
        capabilities: Capabilities = SYSTEM,
    ) -> None:
        """A file of `nbytes` zeros on its way to `path`.

        Raises: FileExistsError where there is a file and not `overwrite`, or something else than a file; other
        OSErrors where the directory, the permission or the space for it is missing.
        """
        super().__init__(path, capabilities)
        self.nbytes = nbytes
        self._overwrite = overwrite
        self._destination = Path(os.path.realpath(path)) if self.path.is_symlink() else self.path
        self._temporary: Path | None = None  # the name of the new file before it has its own
        self._backup: Path | None = None  # the name of the old file while the publication may be revoked
        self._placed = False
        self._revocable = False
        mode = self._replaced_mode()
        self._descriptor = self._create()
        try:
            status = os.fstat(self._fd)
            self._same = (status.st_dev, status.st_ino)
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(self._fd, mode)
            self._reserve()
        except BaseException as error:
            self.discard()
            _locate(error, self.path)
            raise

    @property
    def published(self) -> bool:
        """Whether the destination is this file."""
        if self._placed:
            return True
        try:  # an interruption may have come between the deed and the note of it
            status = self._destination.stat()
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._same

    def publish(self, *, revocable: bool = False, fsync: bool = False) -> None:
        """Give the file its place, atomically; `discard` undoes that as long as `close` was not called if `revocable`.

        With `fsync` its content and name have reached the disk.

        Raises: FileExistsError where something is there by now and nothing was to be overwritten.
        """
        self._revocable = revocable
        try:
            if fsync:
                os.fsync(self._fd)
            if self._temporary is not None:
                self._close_descriptor()  # some systems do not rename an open file
            try:
                self._name(self._destination)
            except FileExistsError:
                if not self._overwrite:
                    raise
                self._replace()
            self._placed = True
        except OSError as error:
            _locate(error, self.path)
            raise
        if fsync:
            _sync_directory(self._destination.parent)

    def close(self) -> None:
        """Make the publication final."""
        self._close_descriptor()
        self._revocable = False
        if self._backup is not None:
            self._backup.unlink(missing_ok=True)
            self._backup = None

    def discard(self) -> None:
        """Remove the file, and put back what was there before a revocable publication."""
        self._close_descriptor()
        if self._backup is not None:
            with suppress(FileNotFoundError):
                self._backup.replace(self._destination)
            self._backup.unlink(missing_ok=True)  # renaming to another name of the same file does nothing
            self._backup = None
        elif self._revocable and self.published:
            self._destination.unlink(missing_ok=True)
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None

    def _replaced_mode(self) -> int | None:
        """The permissions of the file that will be replaced, if there is one; refuses what must not be replaced."""
        try:
            status = self._destination.stat()
        except FileNotFoundError:
            parent = self._destination.parent
            if not parent.exists():
                raise FileNotFoundError(errno.ENOENT, "no such directory", str(parent)) from None
            return None
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path))
        if not stat.S_ISREG(status.st_mode):
            raise FileExistsError(errno.EEXIST, "exists and is not a regular file", str(self.path))
        if not self._overwrite:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self.path))
        if not os.access(self._destination, os.W_OK):
            raise PermissionError(errno.EACCES, "the file is write-protected", str(self.path))
        return status.st_mode & 0o777

    def _create(self) -> int:
        if self._capabilities.unnamed:
            try:
                descriptor = os.open(self._destination.parent, WRITE_FLAGS | os.O_TMPFILE, 0o666)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
            else:
                if Path(f"/proc/self/fd/{descriptor}").exists():
                    return descriptor
                os.close(descriptor)
        self._temporary = self._sibling()
        return os.open(self._temporary, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o666)

    def _sibling(self) -> Path:
        return self._destination.with_name(f".{secrets.token_hex(8)}.tmp")

    def _reserve(self) -> None:
        """Make the file as long as planned and take the space for it, where the filesystem can do that at once.

        glibc stands in for a filesystem that cannot by writing to each block, which would double the work. It
        needs to read for that where the file has its size already; the descriptor is for writing only, so that it
        gives up with EBADF instead.
        """
        os.ftruncate(self._fd, self.nbytes)
        if self._capabilities.allocate and self.nbytes:
            try:
                os.posix_fallocate(self._fd, 0, self.nbytes)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise

    def _name(self, path: Path) -> None:
        """Give the new file the name `path`, which nothing else has.

        Raises: FileExistsError where something has.
        """
        if self._temporary is None:
            # Only a call with a directory descriptor follows the link in /proc, which is absolute and ignores it.
            os.link(f"/proc/self/fd/{self._fd}", path, src_dir_fd=self._fd, follow_symlinks=True)
            return
        if self._capabilities.hard_link:
            try:
                os.link(self._temporary, path)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
            else:
                self._temporary.unlink()
                self._temporary = None
                return
        os.close(os.open(path, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o666))  # the name is ours from here on
        try:
            self._temporary.replace(path)
        except BaseException:
            path.unlink()
            raise
        self._temporary = None

    def _replace(self) -> None:
        """Give the new file the place of the old one, which keeps another name where that may be revoked."""
        if self._revocable:
            self._backup = self._sibling()
            self._keep_old(self._backup)
        if self._temporary is None:
            temporary = self._sibling()
            self._name(temporary)
            self._temporary = temporary
        self._temporary.replace(self._destination)
        self._temporary = None

    def _keep_old(self, backup: Path) -> None:
        if self._capabilities.hard_link:
            try:
                os.link(self._destination, backup)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
            else:
                return
        self._destination.replace(backup)


class ExistingFile(_Writable):
    """A file that is there and is changed where it is; whoever does that makes sure that it can be undone."""

    __slots__ = ()

    def __init__(self, path: str | os.PathLike[str], *, capabilities: Capabilities = SYSTEM) -> None:
        super().__init__(path, capabilities)
        self._descriptor = os.open(path, WRITE_FLAGS)

    def truncate(self, nbytes: int) -> None:
        """Cut the file to `nbytes` bytes."""
        os.ftruncate(self._fd, nbytes)

    def sync(self) -> None:
        """Return when the content has reached the disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        """The file is closed."""
        self._close_descriptor()


def remove(path: Path) -> None:
    """The file is gone, also from the disk."""
    path.unlink()
    _sync_directory(path.parent)


def _open_regular(path: Path) -> int:
    """A descriptor of a regular file; never waits, as opening a pipe or a device could.

    Raises: IsADirectoryError; FormatError for what is neither a directory nor a file.
    """
    descriptor = os.open(path, READ_FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise FormatError("expected a regular file, found a pipe, a socket or a device", path=path)


def _locate(error: BaseException, path: Path) -> None:
    """Make an error of the system say which file it is about, if it does not."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(path)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # not every system opens directories
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
