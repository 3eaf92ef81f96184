"""Locks, so that only one process writes a model at a time; readers need no locks.

If a process ends for any reason, the system removes its lock. The file of the lock stays, and tells the next process
to look for other files that were left behind. On a filesystem without locks, nothing is locked.
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

    `was_left`: whether the file of the lock existed before, because its process was killed, or because this process
    waited for it. After a call of `keep`, the file stays, because something is left to do.

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
        removed = self._kept or _is_removed(self.path)  # before another process can lock it
        os.close(descriptor)
        if not removed:
            _is_removed(self.path)

    def keep(self) -> None:
        """Keep the file of the lock, so that the next process looks for files that were left behind."""
        self._kept = True

    def _take(self) -> bool:
        """Whether this process has the lock now."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666)
        except FileExistsError:
            self.was_left = True
            try:
                descriptor = _open_existing(self.path)
            except FileNotFoundError:  # it has just been removed
                return False
        except PermissionError:
            if os.name == "nt":  # it will be removed soon
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
        """Whether the locked file is still the file that the next process finds."""
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
    """Whether another process, or thread, is writing the model at `path`; this check writes nothing."""
    try:
        descriptor = _open_existing(hidden_path(path, "lock"))
    except OSError:
        return False
    try:
        return not lock_descriptor(descriptor, shared=True)
    finally:
        os.close(descriptor)


def lock_descriptor(descriptor: int, *, shared: bool = False) -> bool:
    """Lock the file until this descriptor is closed; return false if another descriptor has locked it."""
    try:
        _lock(descriptor, shared)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _is_removed(path: Path) -> bool:
    """Whether the file was removed; some systems cannot remove an open file."""
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
    except (
        PermissionError
    ):  # of another user; some network filesystems cannot lock a file that is open only for reading
        return os.open(path, os.O_RDONLY | flags)


def _lock(descriptor: int, shared: bool) -> None:
    """Lock an open file, or fail at once; only one descriptor can have the lock, even within one process."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        return
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
