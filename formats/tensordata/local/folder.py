"""Folders that are opened once, and files that are found from them without following a link.

A path can change between its check and its opening: somebody can replace a folder by a link. An open folder stays the
same even if its name changes. So a walk from an open folder that follows no link cannot leave that folder.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from formats.errors import TensorDataError
from formats.tensordata.local.directory import unlink
from formats.tensordata.local.osio import FILE_FLAGS, SYSTEM, Capabilities, LocalFile, check_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from formats.tensordata.file import File

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
        *folders, name = steps
        assert self._descriptor is not None
        here = self._descriptor
        try:
            for step in folders:
                below = os.open(step, _FOLDER_FLAGS | _NO_LINKS, dir_fd=here)
                if here != self._descriptor:
                    os.close(here)
                here = below
            descriptor = os.open(name, FILE_FLAGS | _NO_LINKS, dir_fd=here)
        except OSError as error:
            if error.errno in _LINK_ERRORS:
                raise LinkFoundError from None
            raise
        finally:
            if here != self._descriptor:
                os.close(here)
        check_regular(descriptor, path)
        return LocalFile(path, keep_open=keep_open, capabilities=capabilities, descriptor=descriptor)

    def has(self, name: str, file: LocalFile, *, follow_link: bool) -> bool:
        """Whether `name` in this folder is the file, or with `follow_link` is a link to it."""
        try:
            return file.is_at(os.stat(name, dir_fd=self._descriptor, follow_symlinks=follow_link))
        except OSError:
            return False

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
