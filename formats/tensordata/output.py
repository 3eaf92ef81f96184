"""Files that are open for writing: new ones, which appear only when they are complete, and existing ones.

Each call that some system or filesystem lacks has a portable fallback, chosen by `Capabilities`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from time import sleep
from typing import TYPE_CHECKING

from formats.tensordata.osio import (
    OPEN_FLAGS,
    STEP_BYTES,
    SYSTEM,
    Capabilities,
    Located,
    is_windows_name,
    let_go,
    system_path,
)
from formats.tensordata.plan import Permissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.tensordata.osio import File

DEFAULT_PERMISSIONS = Permissions()
WRITE_FLAGS = os.O_WRONLY | OPEN_FLAGS
# For more at once the kernel takes larger pages, of which it keeps none ready. In a virtual machine those are the ones
# that the host may have to provide anew: 1.4 s for a GiB, where this takes 0.4.
WRITE_BYTES = 32 << 10
BLOCK_BYTES = 4096  # what filesystems share between files, if they can, and the kernel copies without taking it apart
# What a system or filesystem answers when it does not have a call; EBADF, see `OutputFile._reserve`. ENOTSUP is another
# name of EOPNOTSUPP on Linux, but not on macOS, whose exFAT answers it to `link`.
UNSUPPORTED = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.EISDIR, errno.EBADF)
)
NO_FURTHER_NAME = frozenset(
    (errno.EMLINK, errno.EACCES)
)  # the file has as many as it can, or Android does not allow any
# What a virus scanner or an indexer has open is free again soon; how long to wait for it, in seconds.
PATIENCE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)


@contextmanager
def _if_supported(answers: frozenset[int] = UNSUPPORTED) -> Iterator[None]:
    """The context ends early, and that is no error, where a call in it is one that the system does not have."""
    try:
        yield
    except OSError as error:
        if error.errno not in answers:
            raise


def _patiently(change: Callable[[], object], paths: tuple[Path, ...], capabilities: Capabilities) -> None:
    """The files at `paths` are changed, also where the system keeps files as they are that someone has open.

    Raises: PermissionError where they stay open: in another program, or because a view of a weight is in use here.
    """
    if not capabilities.locks_open_files:
        change()
        return
    for path in paths:
        let_go(path)

    def refused() -> PermissionError | None:
        try:
            change()
        except PermissionError as error:
            return error
        return None

    for seconds in PATIENCE:
        if not refused():
            return
        sleep(seconds)
    if error := refused():
        reason = "the file is open in another program, or its weights are in use in this one"
        raise PermissionError(errno.EACCES, reason, str(paths[-1])) from error


class _Writable:
    """A file that is open for writing; several threads may."""

    __slots__ = ("_capabilities", "_descriptor", "_lock", "path")

    def __init__(self, path: str | os.PathLike[str], capabilities: Capabilities) -> None:
        self.path = Path(path)
        self._capabilities = capabilities
        self._lock = Lock()
        self._descriptor: int | None = None

    def pwrite(self, offset: int, data: memoryview | bytes | bytearray) -> None:
        """Write all of `data` at `offset` (from the start of the file), no page in two steps."""
        rest = memoryview(data)
        with Located(self.path):
            while len(rest):
                count = self._pwrite_some(offset, rest[: WRITE_BYTES - offset % WRITE_BYTES])
                offset += count
                rest = rest[count:]

    def copy_range(self, file: File, source_offset: int, offset: int, nbytes: int) -> int:
        """The number of bytes that the kernel copied from `file`, from the start of the range on.

        Fewer than `nbytes`, down to 0, where it cannot copy between these files or would take longer, or where the
        source ends early: copy the rest by reading and writing, which tells.
        """
        if not self._capabilities.copy_range or (source_offset - offset) % BLOCK_BYTES:
            return 0
        done = 0
        with file.descriptor() as source, Located(self.path), _if_supported():
            while done < nbytes:
                step = min(nbytes - done, STEP_BYTES)
                count = os.copy_file_range(source, self._fd, step, source_offset + done, offset + done)
                if not count:
                    break
                done += count
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
    will be replaced, or without `follow_link` the link itself. Writing is safe from several threads; the other
    methods are for one.
    """

    __slots__ = ("_backup", "_destination", "_overwrite", "_placed", "_revocable", "_status", "_temporary", "nbytes")

    def __init__(
        self,
        path: str | os.PathLike[str],
        nbytes: int,
        *,
        overwrite: bool = False,
        follow_link: bool = True,
        permissions: Permissions = DEFAULT_PERMISSIONS,
        capabilities: Capabilities = SYSTEM,
    ) -> None:
        """A file of `nbytes` zeros on its way to `path`, from the start on with no more than `permissions`.

        Raises: FileExistsError where there is a file and not `overwrite`, or something else than a file; other
        OSErrors where the directory, the permission or the space for it is missing.
        """
        super().__init__(path, capabilities)
        self.nbytes = nbytes
        self._overwrite = overwrite
        if capabilities.windows_paths and not is_windows_name(self.path.name):
            raise OSError(errno.EINVAL, "Windows has no files of this name", str(self.path))
        destination = Path(os.path.realpath(path)) if follow_link and self.path.is_symlink() else self.path
        self._destination = system_path(destination, capabilities)
        self._temporary: Path | None = None  # the name of the new file before it has its own
        self._backup: Path | None = None  # the name of the old file while the publication may be revoked
        self._placed = False
        self._revocable = False
        mode = self._replaced_mode()
        self._descriptor = self._create(permissions.new if hasattr(os, "fchmod") else DEFAULT_PERMISSIONS.new)
        try:
            with Located(self.path):
                self._status = os.fstat(self._fd)
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(self._fd, mode & permissions.replaced)
                self._reserve()
        except BaseException:
            self.discard()
            raise

    @property
    def published(self) -> bool:
        """Whether the destination is this file."""
        try:  # an interruption may have come between the deed and the note of it
            return self._placed or os.path.samestat(self._destination.stat(), self._status)
        except OSError:
            return False

    def publish(self, *, revocable: bool = False, fsync: bool = False) -> None:
        """Give the file its place, atomically; `discard` undoes that as long as `close` was not called if `revocable`.

        With `fsync` its content and name have reached the disk.

        Raises: FileExistsError where something is there by now and nothing was to be overwritten.
        """
        self._revocable = revocable
        with Located(self.path):
            if fsync:
                _sync(self._fd)
            if self._temporary is not None:
                self._close_descriptor()  # some systems do not rename an open file
            try:
                self._name(self._destination)
            except FileExistsError:
                if not self._overwrite:
                    raise
                self._replace()
            self._placed = True
        if fsync:
            _sync_directory(self._destination.parent)

    def close(self) -> None:
        """Make the publication final."""
        self._close_descriptor()
        self._revocable = False
        if self._backup is not None:
            self._unlink(self._backup)
            self._backup = None

    def discard(self) -> None:
        """Remove the file, and put back what was there before a revocable publication."""
        self._close_descriptor()
        if self._backup is not None:
            with suppress(FileNotFoundError):
                self._move(self._backup, self._destination)
            self._unlink(self._backup)  # renaming to another name of the same file does nothing
            self._backup = None
        elif self._revocable and self.published:
            self._unlink(self._destination)
        if self._temporary is not None:
            self._unlink(self._temporary)
            self._temporary = None

    def _replaced_mode(self) -> int | None:
        """The permissions of the file that will be replaced, if there is one; refuses what must not be replaced."""
        if self._overwrite and self._destination.is_symlink():
            return None
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

    def _create(self, mode: int) -> int:
        if self._capabilities.unnamed:
            with _if_supported():
                descriptor = os.open(self._destination.parent, WRITE_FLAGS | os.O_TMPFILE, mode)
                if Path(f"/proc/self/fd/{descriptor}").exists():
                    return descriptor
                os.close(descriptor)
        self._temporary = self._sibling()
        return os.open(self._temporary, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, mode)

    def _sibling(self) -> Path:
        return self._destination.with_name(f".{os.urandom(8).hex()}.tmp")

    def _reserve(self) -> None:
        """Make the file as long as planned and take the space for it, where the filesystem can do that at once.

        glibc stands in for a filesystem that cannot by writing to each block, which would double the work. It
        needs to read for that where the file has its size already; the descriptor is for writing only, so that it
        gives up with EBADF instead.
        """
        os.ftruncate(self._fd, self.nbytes)
        if self._capabilities.allocate and self.nbytes:
            with _if_supported():
                os.posix_fallocate(self._fd, 0, self.nbytes)

    def _name(self, path: Path) -> None:
        """Give the new file the name `path`, which nothing else has.

        Raises: FileExistsError where something has.
        """
        if self._temporary is None:
            # Only a call with a directory descriptor follows the link in /proc, which is absolute and ignores it.
            os.link(f"/proc/self/fd/{self._fd}", path, src_dir_fd=self._fd, follow_symlinks=True)
            return
        if self._link(self._temporary, path):
            self._unlink(self._temporary)
        else:
            os.close(os.open(path, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o666))  # the name is ours from here on
            try:
                self._move(self._temporary, path)
            except BaseException:
                path.unlink()
                raise
        self._temporary = None

    def _replace(self) -> None:
        """Give the new file the place of the old one, which keeps another name where that may be revoked."""
        if self._revocable:
            self._backup = self._sibling()
            if not self._link(self._destination, self._backup):
                self._move(self._destination, self._backup)
        if self._temporary is None:
            temporary = self._sibling()
            self._name(temporary)
            self._temporary = temporary
        self._move(self._temporary, self._destination)
        self._temporary = None

    def _link(self, path: Path, name: Path) -> bool:
        """Whether the file at `path` has the further name `name` now: it has where files can have two."""
        if self._capabilities.hard_link:
            with _if_supported(UNSUPPORTED | NO_FURTHER_NAME):
                os.link(path, name)
                return True
        return False

    def _move(self, path: Path, destination: Path) -> None:
        """The file at `path` is at `destination`, in the place of what was there."""
        _patiently(lambda: path.replace(destination), (path, destination), self._capabilities)

    def _unlink(self, path: Path) -> None:
        """Nothing is at `path`."""
        _patiently(lambda: path.unlink(missing_ok=True), (path,), self._capabilities)


class ExistingFile(_Writable):
    """A file that is there and is changed where it is; whoever does that makes sure that it can be undone."""

    __slots__ = ()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, SYSTEM)
        self._descriptor = os.open(system_path(self.path), WRITE_FLAGS)

    def truncate(self, nbytes: int) -> None:
        """Cut the file to `nbytes` bytes."""
        with Located(self.path):
            _patiently(lambda: os.ftruncate(self._fd, nbytes), (self.path,), self._capabilities)

    def sync(self) -> None:
        """The content has reached the disk."""
        with Located(self.path):
            _sync(self._fd)

    def close(self) -> None:
        """The file is closed."""
        self._close_descriptor()


def remove(path: Path, capabilities: Capabilities = SYSTEM) -> None:
    """The file is gone, also from the disk."""
    _patiently(path.unlink, (path,), capabilities)
    _sync_directory(path.parent)


def _sync(descriptor: int) -> None:
    """What was written to the file is on the disk: macOS leaves it in the memory of the drive unless asked for more."""
    if sys.platform == "darwin":
        import fcntl

        with _if_supported():  # which not every filesystem does
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _sync_directory(path: Path) -> None:
    with suppress(OSError):  # not every system opens directories
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
