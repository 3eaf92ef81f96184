"""Locks, which keep processes from writing one model at the same time; readers do not need them.

The system takes a lock from a process that ends, however it does. The file of a lock stays behind then, which tells the
next one to look for what else did. On a filesystem that has no locks there are none.
"""

from __future__ import annotations

import errno
import os
import sys
from time import monotonic, sleep
from typing import TYPE_CHECKING

from formats.tensordata.directory import UNSUPPORTED
from formats.tensordata.hidden import hidden_path
from formats.tensordata.osio import OPEN_FLAGS

if TYPE_CHECKING:
    from pathlib import Path

WAIT_SECONDS = 10.0
STEP_SECONDS = 0.01
_TAKEN = frozenset((errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK))
_NO_LOCKS = UNSUPPORTED | {errno.ENOLCK}


class ModelLock:
    """A context in which this is the only process, and the only thread, that writes the model at `path`.

    `was_left`: whether the file of the lock was there already, because a process that had it was killed, or waited
    for. Where `keep` is called, that file stays: something is left to do.

    Raises: BlockingIOError if another process still has the lock after `wait_seconds`.
    """

    def __init__(self, path: Path, wait_seconds: float | None = None) -> None:
        self.path = hidden_path(path, "lock")
        self.was_left = False
        self._model = path
        self._wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._descriptor: int | None = None
        self._kept = False

    def __enter__(self) -> ModelLock:
        end = monotonic() + self._wait_seconds
        while not self._take():
            if monotonic() > end:
                reason = "another process is writing this model; run again when it is done"
                raise BlockingIOError(errno.EWOULDBLOCK, reason, str(self._model))
            sleep(STEP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        removed = self._kept or _is_removed(self.path)  # before somebody else can lock it
        os.close(descriptor)
        if not removed:
            _is_removed(self.path)

    def keep(self) -> None:
        """The file of the lock stays, so that the next process looks for what was left behind."""
        self._kept = True

    def _take(self) -> bool:
        """Whether this process has the lock now."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666)
        except FileExistsError:
            self.was_left = True
            try:
                descriptor = _open_existing(self.path)
            except FileNotFoundError:  # it has just gone
                return False
        except PermissionError:
            if os.name == "nt":  # it is about to go
                return False
            raise
        self._descriptor = descriptor
        try:
            if lock_descriptor(descriptor) and self._is_in_place():
                return True
        except BaseException:
            self._let_go()
            raise
        self._let_go()
        return False

    def _is_in_place(self) -> bool:
        """Whether the file that is locked is the one that the next process finds."""
        assert self._descriptor is not None
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether another process, or thread, is writing the model at `path`; nothing is written to find that out."""
    try:
        descriptor = _open_existing(hidden_path(path, "lock"))
    except OSError:
        return False
    try:
        return not lock_descriptor(descriptor, shared=True)
    finally:
        os.close(descriptor)


def lock_descriptor(descriptor: int, *, shared: bool = False) -> bool:
    """Whether the file is locked by this descriptor, until that is closed: it is unless another one has locked it."""
    try:
        _lock(descriptor, shared)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _is_removed(path: Path) -> bool:
    """Whether the file is gone: some systems remove none that is open."""
    try:
        path.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _open_existing(path: Path) -> int:
    flags = OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        return os.open(path, os.O_RDWR | flags)
    except PermissionError:  # another user's; some network filesystems lock nothing that is open for reading only
        return os.open(path, os.O_RDONLY | flags)


def _lock(descriptor: int, shared: bool) -> None:
    """Lock an open file, or fail at once; of one process, too, only one descriptor can have the lock."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        return
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
