"""Files that are open for writing: new ones, which appear only when they are complete, and existing ones.

Each call that some system or filesystem lacks has a portable fallback, chosen by `Capabilities`.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from formats.errors import file_exists, no_directory
from formats.tensordata.local.directory import (
    WRITE_FLAGS,
    if_supported,
    move_file,
    move_to_free,
    patiently,
    sync_directory,
    sync_file,
    unlink,
)
from formats.tensordata.local.osio import (
    OPEN_FLAGS,
    STEP_BYTES,
    SYSTEM,
    Capabilities,
    LocalFile,
    Located,
    check_regular,
    is_windows_name,
    system_path,
)
from formats.tensordata.plan import Permissions
from formats.tensordata.replacing.hidden import temporary_path
from formats.tensordata.replacing.lock import try_lock

if TYPE_CHECKING:
    from formats.tensordata.file import File

DEFAULT_PERMISSIONS = Permissions()
_EXISTING_FLAGS = os.O_RDWR | OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# For larger writes, the kernel uses larger pages, of which few are ready. In a virtual machine, the host may have to
# provide them first: writes of 1 MiB took three times as long. With smaller writes, the calls themselves take longer.
WRITE_BYTES = 128 << 10
BLOCK_BYTES = 4096  # filesystems may share such a range between files; the kernel copies it without splitting it


class WritableFile:
    """A file that is open for writing; several threads may write at the same time."""

    __slots__ = ("_descriptor", "_lock", "capabilities", "path")

    def __init__(self, path: str | os.PathLike[str], capabilities: Capabilities) -> None:
        self.path = Path(path)
        self.capabilities = capabilities
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

        Fewer than `nbytes`, down to 0, if it cannot copy between these files, if that would take longer, or if the
        source ends early: then copy the rest by reading and writing, which raises the error for an early end.
        """
        if (
            not self.capabilities.copy_range
            or not isinstance(file, LocalFile)
            or (source_offset - offset) % BLOCK_BYTES
        ):
            return 0
        copied = 0
        with file.descriptor() as source, Located(self.path), if_supported():
            while copied < nbytes:
                step = min(nbytes - copied, STEP_BYTES)
                count = os.copy_file_range(source, self.descriptor, step, source_offset + copied, offset + copied)
                if not count:
                    break
                copied += count
        return copied

    @property
    def descriptor(self) -> int:
        """The descriptor of the file."""
        assert self._descriptor is not None, "the file is open until it is published or discarded"
        return self._descriptor

    def _pwrite_some(self, offset: int, data: memoryview) -> int:
        if self.capabilities.positional:
            return os.pwrite(self.descriptor, data, offset)
        with self._lock:
            os.lseek(self.descriptor, offset, os.SEEK_SET)
            return os.write(self.descriptor, data)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def written_path(path: Path, follow_link: bool, capabilities: Capabilities = SYSTEM) -> Path:
    """The path of the file that is written for `path`: if links are followed, the target of a link there."""
    return system_path(Path(os.path.realpath(path)) if follow_link and path.is_symlink() else path, capabilities)


def follows_link(model: Path, count: int) -> bool:
    """Whether a link at `model`, the last of `count` files that are written together, is followed.

    The user who asked for the model may not know the other files. So only the link of the model itself is followed, and
    not to another folder.
    """
    return count == 1 or Path(os.path.realpath(model)).parent == Path(os.path.realpath(model.parent))


def check_name(path: Path, capabilities: Capabilities) -> None:
    """Raises OSError if the system has no files of this name."""
    if capabilities.windows_paths and not is_windows_name(path.name):
        raise OSError(errno.EINVAL, "Windows does not allow this file name", str(path))


def replaced_mode(path: Path, destination: Path, *, overwrite: bool) -> int | None:
    """The permissions of the file at `destination` that will be replaced, if there is one; errors name `path`.

    Raises: FileExistsError if it must not be replaced; other OSErrors if it cannot, or its folder is missing.
    """
    if overwrite and destination.is_symlink():
        return None
    try:
        status = destination.stat()
    except FileNotFoundError:
        parent = destination.parent
        if not parent.exists():
            raise no_directory(parent) from None
        return None
    except NotADirectoryError as error:
        raise NotADirectoryError(error.errno, error.strerror, str(destination.parent)) from None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise FileExistsError(errno.EEXIST, "exists and is not a regular file", str(path))
    if not overwrite:
        raise file_exists(path)
    while not os.access(destination, os.W_OK):
        try:
            now = destination.stat()
        except FileNotFoundError:
            return None  # another process has just removed it
        if os.path.samestat(now, status):
            raise PermissionError(errno.EACCES, "the file is write-protected", str(path))
        status = now
    return status.st_mode & 0o777


class OutputFile(WritableFile):
    """A new file that takes the place of its destination only when it is complete.

    Until `publish`, the file has no name if the system can do that, so that even a killed process leaves nothing.
    Otherwise, it is a hidden file next to the destination. If the destination is a link, the target of the link will
    be replaced; without `follow_link`, the link itself. Several threads may write at the same time; only one thread
    may call the other methods.
    """

    __slots__ = ("_overwrite", "_owner", "_temporary", "destination", "has_name", "nbytes")

    def __init__(
        self,
        path: str | os.PathLike[str],
        nbytes: int,
        *,
        overwrite: bool = False,
        follow_link: bool = True,
        owner: Path | None = None,
        permissions: Permissions = DEFAULT_PERMISSIONS,
        capabilities: Capabilities = SYSTEM,
    ) -> None:
        """A file of `nbytes` zeros for `path`, which never has more than `permissions`.

        `owner` is the model that it is a companion of, if it is one.

        Raises: FileExistsError if there is a file and not `overwrite`, or an object that is not a file; other
        OSErrors if the directory, the permission or the space for it is missing.
        """
        super().__init__(path, capabilities)
        self.nbytes = nbytes
        self._overwrite = overwrite
        check_name(self.path, capabilities)
        self.destination = written_path(self.path, follow_link, capabilities)
        self.has_name = False  # from the start, because this filesystem has no files without names
        self._owner = self.destination if owner is None else owner
        self._temporary: Path | None = None  # the name of the new file before it has its own
        mode = replaced_mode(self.path, self.destination, overwrite=overwrite)
        self._descriptor = self._create(permissions.new if hasattr(os, "fchmod") else DEFAULT_PERMISSIONS.new)
        try:
            with Located(self.path):
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(self.descriptor, mode & permissions.replaced)
                self._reserve()
        except BaseException:
            self.discard()
            raise

    @property
    def readable_path(self) -> Path:
        """A path to the file, until it has its place."""
        return self._temporary or Path(f"/proc/self/fd/{self.descriptor}")

    def publish(self, *, fsync: bool = False) -> None:
        """Give the file its place, atomically; with `fsync` its content and name have reached the disk.

        Raises: FileExistsError if a file is there now and must not be overwritten.
        """
        with Located(self.path):
            if fsync:
                sync_file(self.descriptor)
            if self._temporary is not None:
                self.close()  # some systems do not rename an open file
            try:
                if self._overwrite and self._temporary is not None:
                    self._replace()  # in one step on any filesystem
                else:
                    self._name(self.destination)
            except FileExistsError:
                if not self._overwrite:
                    raise file_exists(self.path) from None
                self._replace()
        if fsync:
            sync_directory(self.destination.parent)

    def stage(self, path: Path) -> tuple[Path, os.stat_result]:
        """The hidden name of the complete file, which is `path` if it has none yet, and its status.

        From now on, the caller must move or remove it.
        """
        with Located(self.path):
            if self._temporary is None:
                self._name(path)
            else:
                path = self._temporary
            self.close()
            self._temporary = None
            return path, path.stat()

    def discard(self) -> None:
        """Remove the file, unless it has its place."""
        self.close()
        if self._temporary is not None:
            unlink(self._temporary, self.capabilities)
            self._temporary = None

    def _create(self, mode: int) -> int:
        if self.capabilities.unnamed:
            with if_supported():
                descriptor = os.open(self.destination.parent, WRITE_FLAGS | os.O_TMPFILE, mode)
                if os.path.exists(f"/proc/self/fd/{descriptor}"):  # noqa: PTH110 - faster than a path
                    return descriptor
                os.close(descriptor)
        self.has_name = True
        self._temporary = self._sibling()
        try:
            descriptor = os.open(self._temporary, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, mode)
        except OSError as error:
            error.filename = str(self.path)  # nobody knows the hidden name
            raise
        try_lock(descriptor)  # the lock tells other processes that the file is needed
        return descriptor

    def _sibling(self) -> Path:
        return self.destination.with_name(temporary_path(self._owner).name)

    def _reserve(self) -> None:
        """Make the file as long as planned and reserve the space for it, if the filesystem can do that in one step.

        For other filesystems, glibc would write to each block, which would double the work. To do that, it must read
        the file if the file has its size already. The descriptor is only for writing, so glibc stops with EBADF.
        """
        os.ftruncate(self.descriptor, self.nbytes)
        if self.capabilities.allocate and self.nbytes:
            with if_supported():
                os.posix_fallocate(self.descriptor, 0, self.nbytes)

    def _name(self, path: Path) -> None:
        """Give the new file the unused name `path`.

        Raises: FileExistsError if the name is used.
        """
        if self._temporary is None:
            # Only a call with a directory descriptor follows the link in /proc, which is absolute and ignores it.
            os.link(f"/proc/self/fd/{self.descriptor}", path, src_dir_fd=self.descriptor, follow_symlinks=True)
            return
        move_to_free(self._temporary, path, self.capabilities)
        self._temporary = None

    def _replace(self) -> None:
        """Give the new file the place of the old one."""
        if self._temporary is None:
            temporary = self._sibling()
            self._name(temporary)
            self._temporary = temporary
        move_file(self._temporary, self.destination, self.capabilities)
        self._temporary = None


class OpenedFile(WritableFile):
    """A file that its owner has opened, and will close; errors name `path`."""

    __slots__ = ()

    def __init__(self, path: Path, descriptor: int, nbytes: int) -> None:
        super().__init__(path, SYSTEM)
        self._descriptor = descriptor
        try:
            with Located(self.path):
                os.ftruncate(descriptor, nbytes)
        except OSError:
            self.close()
            raise


class ExistingFile(WritableFile):
    """An existing file that is changed in place; the caller must make sure that the change can be undone."""

    __slots__ = ()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The regular file at `path`, open for reading and writing.

        Raises: OSError if it is a link, or cannot be opened; FormatError if it is neither a file nor a directory.
        """
        super().__init__(path, SYSTEM)
        descriptor = os.open(system_path(self.path), _EXISTING_FLAGS)
        check_regular(descriptor, self.path)
        self._descriptor = descriptor
        if not hasattr(os, "O_NOFOLLOW") and self.path.is_symlink():
            self.close()
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))

    def truncate(self, nbytes: int) -> None:
        """Cut the file to `nbytes` bytes."""
        with Located(self.path):
            patiently(lambda: os.ftruncate(self.descriptor, nbytes), (self.path,), self.capabilities)

    def sync(self) -> None:
        """Put the content on the disk."""
        with Located(self.path):
            sync_file(self.descriptor)
