"""Existing files that get another name: a model moves, and no byte of its weights is copied."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from formats.errors import file_exists
from formats.tensordata.local.directory import (
    UNSUPPORTED,
    make_link,
    move_file,
    move_to_free,
    sync_directory,
    sync_file,
    unlink,
)
from formats.tensordata.local.osio import OPEN_FLAGS, SYSTEM, Capabilities, Located, system_path
from formats.tensordata.local.output import WritableFile, check_name
from formats.tensordata.replacing.hidden import temporary_path
from formats.tensordata.replacing.lock import try_lock

if TYPE_CHECKING:
    from pathlib import Path

    from formats.tensordata.file import File
    from formats.tensordata.plan import Renamed

_NO_LINKS = OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_NOT_LINKED = UNSUPPORTED | {errno.ENOENT, errno.EACCES}  # there is no /proc, or the file has lost its last name


class OneNameError(Exception):
    """A file cannot have two names: the other one is on another filesystem, or the filesystem has no hard links."""


def check_further_name(renamed: Renamed, *, overwrite: bool, capabilities: Capabilities = SYSTEM) -> None:
    """Raises OSError if a file cannot have another name, because of the name or the file that already has it."""
    check_name(renamed.path, capabilities)
    if not overwrite and os.path.lexists(system_path(renamed.path, capabilities)):
        raise file_exists(renamed.path)


class FurtherName(WritableFile):
    """A file that replaces its destination like an `OutputFile`, and keeps its old name, unless it `moves`.

    From the start, it has a hidden name next to the destination; one that moves has only its old name until then.
    """

    __slots__ = ("_hidden", "_overwrite", "destination", "has_name", "moves")

    def __init__(self, renamed: Renamed, *, overwrite: bool, owner: Path, capabilities: Capabilities = SYSTEM) -> None:
        """Prepare the file at `renamed.old` for `renamed.path`, as a companion of the model `owner` or as the model.

        Raises: OneNameError if it cannot have two names; FileExistsError if there is something at
        `renamed.path`, and not `overwrite`; TensorDataError if another file is at `renamed.old` now; other OSErrors.
        """
        super().__init__(renamed.path, capabilities)
        self.destination = system_path(renamed.path, capabilities)
        self.has_name = True
        self.moves = renamed.moves
        self._overwrite = overwrite
        check_further_name(renamed, overwrite=overwrite, capabilities=capabilities)
        name = renamed.old.name if self.moves else temporary_path(owner).name
        self._hidden: Path | None = self.destination.with_name(name)
        try:
            with Located(self.path):
                if not self.moves:
                    _link(renamed.file, renamed.old, self._hidden, capabilities)
                self._descriptor = _open(self._hidden)
                renamed.file.check_in_place(self._descriptor)  # another process may have put something else there
                try_lock(self._descriptor)  # the lock tells other processes that the name is needed
        except BaseException:
            self.discard()
            raise

    @property
    def readable_path(self) -> Path:
        """A path to the file, until it has its place."""
        assert self._hidden is not None, "the file has a hidden name until it is published or discarded"
        return self._hidden

    def publish(self, *, fsync: bool = False) -> None:
        """Give the file its place, atomically; with `fsync` its content and name have reached the disk.

        Raises: FileExistsError if a file is there now and must not be overwritten.
        """
        with Located(self.path):
            if fsync:
                sync_file(self.descriptor)
            hidden = self.readable_path
            self.close()
            (move_file if self._overwrite else move_to_free)(hidden, self.destination, self.capabilities)
            unlink(hidden, self.capabilities)  # a rename to another name of the same file does not remove it
            self._hidden = None
        if fsync:
            sync_directory(self.destination.parent)

    def stage(self, path: Path) -> tuple[Path, os.stat_result]:
        """The name of the file until now, and its status; from now on, the caller must move or remove a hidden one."""
        hidden = self.readable_path
        self.close()
        self._hidden = None
        return hidden, hidden.stat()

    def discard(self) -> None:
        """Remove the hidden name."""
        self.close()
        if self._hidden is not None and not self.moves:
            unlink(self._hidden, self.capabilities)
        self._hidden = None


def _link(file: File, path: Path, name: Path, capabilities: Capabilities) -> None:
    """Give the file, which was opened at `path`, this name, too. Raises: OneNameError if this is impossible.

    The name is given to what is open, where the system can do that, and otherwise to what is at `path` now, which the
    caller compares with it.
    """
    try:
        is_linked = _link_opened(file, name, capabilities) or make_link(path, name, capabilities)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        is_linked = False
    if not is_linked:
        raise OneNameError(path)


def _link_opened(file: File, name: Path, capabilities: Capabilities) -> bool:
    if not capabilities.unnamed:  # a system with these has names for open files, too
        return False
    with file.descriptor() as descriptor:
        try:
            os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor, follow_symlinks=True)
        except OSError as error:
            if error.errno not in _NOT_LINKED:
                raise
            return False
    return True


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | _NO_LINKS)  # some systems do not sync a file that is open only for reading
    except PermissionError:
        return os.open(path, os.O_RDONLY | _NO_LINKS)
