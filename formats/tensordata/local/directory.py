"""Directories: changes of the names in them, the way to the disk, and folders that are opened once.

Each call that some system or filesystem lacks has a portable fallback, chosen by `Capabilities`.

A path can change between its check and its opening: somebody can replace a folder by a link. An open folder stays the
same even if its name changes. So a walk from an open folder that follows no link cannot leave that folder.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING

from formats.errors import TensorDataError
from formats.tensordata.local.osio import (
    FILE_FLAGS,
    OPEN_FLAGS,
    SYSTEM,
    Capabilities,
    LocalFile,
    Located,
    check_regular,
    let_go,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from formats.tensordata.file import File


WRITE_FLAGS = os.O_WRONLY | OPEN_FLAGS
# The errors of a system or filesystem that does not have a call; EBADF, see `OutputFile._reserve`. ENOTSUP is another
# name of EOPNOTSUPP on Linux, but not on macOS, whose exFAT answers it to `link`.
UNSUPPORTED = frozenset(
    (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM, errno.EISDIR, errno.EBADF)
)
NO_FURTHER_NAME = frozenset(
    (errno.EMLINK, errno.EACCES)
)  # the file has its maximum number of links, or Android allows no links
NO_DIRECTORIES = UNSUPPORTED | {errno.EACCES}  # Windows does not open them, and some filesystems do not sync them
# A virus scanner or an indexer closes a file soon; how long to wait for that, in seconds.
PATIENCE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
MANY_FILES = 64  # for more files, one call that syncs everything is faster


@contextmanager
def made_folders(folder: Path) -> Iterator[None]:
    """Create the folder and its parents for the context; if the context fails, remove the created ones.

    Raises: OSError if one cannot be created.
    """
    missing = [folder]
    while not _exists(missing[-1]):
        missing.append(missing[-1].parent)
    made: list[Path] = []
    try:
        for path in reversed(missing[:-1]):
            with Located(path):
                path.mkdir(exist_ok=True)
            made.append(path)
        yield
    except BaseException:
        for path in reversed(made):
            with suppress(OSError):  # another program has put something there
                path.rmdir()
        raise


def _exists(path: Path) -> bool:
    with Located(path):
        return path.exists()


@contextmanager
def if_supported(answers: frozenset[int] = UNSUPPORTED) -> Iterator[None]:
    """A context that ends early, without an error, if the system does not have a call in it."""
    try:
        yield
    except OSError as error:
        if error.errno not in answers:
            raise


def patiently(change: Callable[[], object], paths: tuple[Path, ...], capabilities: Capabilities) -> None:
    """Change the files at `paths`, also if the system does not allow changes while a program has them open.

    Raises: PermissionError if they stay open: in another program, or because a view of a weight is in use here.
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
        reason = "the file is open in another program, or this program uses its weights"
        raise PermissionError(errno.EACCES, reason, str(paths[-1])) from error


def move_file(path: Path, destination: Path, capabilities: Capabilities = SYSTEM) -> None:
    """Move the file at `path` to `destination`, and replace a file there."""
    patiently(lambda: path.replace(destination), (path, destination), capabilities)


def move_to_free(path: Path, destination: Path, capabilities: Capabilities = SYSTEM) -> None:
    """Move the file at `path` to `destination`, where there is no file.

    Raises: FileExistsError if something is there.
    """
    if make_link(path, destination, capabilities):
        unlink(path, capabilities)
        return
    os.close(os.open(destination, WRITE_FLAGS | os.O_CREAT | os.O_EXCL, 0o666))  # the name is ours from here on
    try:
        move_file(path, destination, capabilities)
    except BaseException:
        destination.unlink()
        raise


def make_link(path: Path, name: Path, capabilities: Capabilities = SYSTEM) -> bool:
    """Give the file at `path` the second name `name`; return whether this system and filesystem can do that."""
    if capabilities.hard_link:
        with if_supported(UNSUPPORTED | NO_FURTHER_NAME):
            os.link(path, name)
            return True
    return False


def unlink(path: Path, capabilities: Capabilities = SYSTEM) -> None:
    """Remove the name `path`."""
    patiently(lambda: path.unlink(missing_ok=True), (path,), capabilities)


def remove_file(path: Path, capabilities: Capabilities = SYSTEM) -> None:
    """Remove the file, also from the disk."""
    patiently(path.unlink, (path,), capabilities)
    sync_directory(path.parent)


def sync_file(descriptor: int) -> None:
    """Put the written bytes on the disk; macOS leaves them in the memory of the drive without an extra request."""
    if sys.platform == "darwin":
        import fcntl

        with if_supported():  # which not every filesystem does
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def sync_files(descriptors: Sequence[int]) -> None:
    """Put the written bytes of all these files on the disk."""
    if len(descriptors) > MANY_FILES and sys.platform == "linux":  # elsewhere `sync` does not wait
        os.sync()
        return
    for descriptor in descriptors:
        sync_file(descriptor)


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk, if the system can do that."""
    with if_supported(NO_DIRECTORIES):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            with Located(path):
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


_NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# With O_PATH, which Linux has, a folder need not be readable.
_FOLDER_FLAGS = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_PATH", os.O_RDONLY)
# The errors of systems for a link with O_NOFOLLOW. ENOTDIR is Linux's error if the flags also have O_DIRECTORY.
_LINK_ERRORS = frozenset((errno.ELOOP, errno.EMLINK, errno.ENOTDIR, getattr(errno, "EFTYPE", errno.ELOOP)))


class LinkFoundError(Exception):
    """A link, or a file in the place of a folder, is on the way."""


def unlink_same(path: Path, file: File) -> None:
    """Remove the name `path` of the open file, unless another process has put another file there.

    Raises: TensorDataError if it has; OSError if the name cannot be removed.
    """
    if not SYSTEM.open_folders or not isinstance(file, LocalFile):
        unlink(path)
        return
    folder = os.open(path.parent, _FOLDER_FLAGS)
    try:
        if not file.is_at(os.stat(path.name, dir_fd=folder, follow_symlinks=False)):
            raise TensorDataError("another program has replaced the file; it stays", path=path)
        os.unlink(path.name, dir_fd=folder)
    finally:
        os.close(folder)


class Folder:
    """A folder that is open until nothing refers to it any more; `path` has no links, as it was then."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """The folder at `path`, whose links are followed.

        Raises: OSError if it cannot be opened.
        """
        self._descriptor: int | None = None
        self.path = os.path.realpath(path)
        self._descriptor = os.open(path, _FOLDER_FLAGS)

    def open(
        self, steps: Sequence[str], path: Path, *, keep_open: bool, capabilities: Capabilities = SYSTEM
    ) -> LocalFile:
        """The file at the end of `steps`: names of folders below this one, then its own name. Errors name it `path`.

        Raises: LinkFoundError if one of them is a link; OSError and FormatError as `File.open` does.
        """
        with self._below(steps[:-1], makes=False) as folder:
            descriptor = os.open(steps[-1], FILE_FLAGS | _NO_LINKS, dir_fd=folder)
        check_regular(descriptor, path)
        return LocalFile(path, keep_open=keep_open, capabilities=capabilities, descriptor=descriptor)

    def take(self, path: Path, steps: Sequence[str]) -> None:
        """Move the file at `path` to the end of `steps`, and replace a file there; missing folders are made.

        Raises: LinkFoundError if a folder on the way is a link; OSError if the file cannot be moved.
        """
        with self._below(steps[:-1], makes=True) as folder:
            os.replace(path, steps[-1], dst_dir_fd=folder)

    def remove(self, name: str) -> None:
        """Remove the file or link with this name in the folder, if there is one."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    @contextmanager
    def _below(self, steps: Sequence[str], *, makes: bool) -> Iterator[int]:
        """A context with the descriptor of the folder at the end of `steps`; it `makes` what is missing.

        Raises: LinkFoundError if one of them, or the file that the context opens, is a link.
        """
        assert self._descriptor is not None
        here = self._descriptor
        try:
            for step in steps:
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(step, dir_fd=here)
                below = os.open(step, _FOLDER_FLAGS | _NO_LINKS, dir_fd=here)
                if here != self._descriptor:
                    os.close(here)
                here = below
            yield here
        except OSError as error:
            if error.errno in _LINK_ERRORS:
                raise LinkFoundError from None
            raise
        finally:
            if here != self._descriptor:
                os.close(here)

    def has(self, name: str, file: LocalFile, *, follow_link: bool) -> bool:
        """Whether `name` in this folder is the file, or with `follow_link` is a link to it."""
        try:
            return file.is_at(os.stat(name, dir_fd=self._descriptor, follow_symlinks=follow_link))
        except OSError:
            return False

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
