"""Locks, so that only one process writes a model at a time; readers need no locks.

If a process ends for any reason, the system removes its lock. The file of the lock stays, and tells the next process
to look for other files that were left behind.

On a filesystem without locks, the file itself is the lock, because only one process can create it. Its content is the
`Holder`, who created it. So if that process has ended without removing it, another process of the same machine can take
its place. Nobody else can know whether it has ended; then an error says which file to remove. A process that does find
locks there, because its machine has mounted the filesystem in another way, respects such a file.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import explain
from formats.tensordata.local.directory import UNSUPPORTED
from formats.tensordata.local.osio import OPEN_FLAGS
from formats.tensordata.replacing.hidden import hidden_path, open_lock, temporaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_MAX_BYTES = 4096
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = "/proc/self/ns/pid"


class Holder(NamedTuple):
    """A process, and the machine, the start of that machine and the set of processes in which its number counts.

    `token` differs for each lock. A holder whose process is 0 has ended its work.
    """

    token: str
    machine: str
    boot: str
    processes: str
    process: int
    started: str

    @classmethod
    def this_process(cls) -> Holder:
        """This process, for a new lock."""
        import socket

        machine = "".join(socket.gethostname().split())
        return cls(os.urandom(8).hex(), machine, boot(), _own_processes(), os.getpid(), _start_of(os.getpid()))

    @classmethod
    def none(cls) -> Holder:
        """Nobody: the lock is free."""
        return cls.this_process()._replace(process=0)

    @classmethod
    def read(cls, descriptor: int) -> Holder | None:
        """The holder that the file names; `None` if it names none, for example because its process is about to."""
        os.lseek(descriptor, 0, os.SEEK_SET)
        try:
            token, machine, start, processes, process, started, _ = os.read(descriptor, _MAX_BYTES).decode().split("\n")
            return cls(token, machine, start, processes, int(process), started)
        except ValueError:
            return None

    def write(self, descriptor: int) -> None:
        """Write the holder into the file of a lock.

        Raises: OSError, with ENOSPC if only a part of it fits.
        """
        content = "".join(f"{value}\n" for value in self).encode()
        os.lseek(descriptor, 0, os.SEEK_SET)
        if os.write(descriptor, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.ftruncate(descriptor, len(content))

    def is_dead(self) -> bool:
        """Whether the process has certainly ended; that of another machine or container may be alive."""
        if not self.process:
            return True
        if not self.boot or (self.boot, self.processes) != (boot(), _own_processes()):
            return False
        return _start_of(self.process) != self.started

    def claim(self, lock: Path) -> int | None:
        """Replace the file of this dead holder's lock; return a descriptor of the new one if this process was first.

        Only one process can create the file that claims the place of a holder. It then finds out whether the lock still
        is that holder's, because another process may have completed all of this before.
        """
        import hashlib

        digest = hashlib.sha256(self.token.encode()).hexdigest()[:16]
        place = lock.with_name(f"{lock.name.removesuffix('lock')}{digest}.tmp")
        try:
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666)
        except FileExistsError:
            return None
        try:
            self.this_process().write(descriptor)
            now = os.open(lock, os.O_RDONLY | OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0))
            try:
                unchanged = Holder.read(now) == self
            finally:
                os.close(now)
            if unchanged:
                place.replace(lock)
                return descriptor
        except FileNotFoundError:  # the lock has been removed
            pass
        except BaseException:
            _forget(place, descriptor)
            raise
        _forget(place, descriptor)
        return None


def boot() -> str:
    """A value that differs after each start of the system, if the system has one."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def _forget(place: Path, descriptor: int) -> None:
    os.close(descriptor)
    with suppress(FileNotFoundError):
        place.unlink()


def _own_processes() -> str:
    """The set of processes that this process sees, which differs between containers."""
    try:
        return os.readlink(_PROCESSES)  # noqa: PTH115 - it is no path
    except (OSError, AttributeError):
        return ""


def _start_of(process: int) -> str:
    """When the process was started, in the system's own unit; empty if there is no such process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


WAIT_SECONDS = 10.0
STEP_SECONDS = 0.01
_TAKEN = frozenset((errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK))
_NO_LOCKS = UNSUPPORTED | {errno.ENOLCK}
_LENT: ContextVar[tuple[ModelLock, ...]] = ContextVar("locks that this thread holds for all that it does", default=())


class ModelLock:
    """A context in which this is the only process, and the only thread, that writes the model at `path`.

    `was_left`: whether the file of the lock existed before, because its process was killed, or because this process
    waited for it. After a call of `keep`, the file stays, because something is left to do. `locks`: whether the
    filesystem has locks; without them, nobody can know whether a process still needs its temporary files.

    In `locked_together`, the lock that is held there serves instead.

    Raises: BlockingIOError if another process still has the lock after `wait_seconds`.
    """

    def __init__(self, path: Path, wait_seconds: float | None = None) -> None:
        self.path = hidden_path(path, "lock")
        self.was_left = False
        self.locks = True
        self._model = path
        self._wait_seconds = WAIT_SECONDS if wait_seconds is None else wait_seconds
        self._descriptor: int | None = None
        self._kept = False

    def __enter__(self) -> ModelLock:
        if (lent := _lent(self.path)) is not None:
            return lent
        end = monotonic() + self._wait_seconds
        while not self._take():
            if monotonic() > end:
                raise BlockingIOError(errno.EWOULDBLOCK, self._reason(), str(self._model))
            sleep(STEP_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        with suppress(OSError):  # the folder is gone
            # A signal comes at any line, also while files are removed; after other errors, who made them removes them.
            was_stopped = kind is not None and not issubclass(kind, Exception)
            self._kept |= (self.was_left or was_stopped) and bool(temporaries(self._model))  # the next process looks
        if not self.locks and self._kept:  # whoever comes next must see that this process has ended its work
            Holder.none().write(descriptor)
        removed = self._kept or not self._is_in_place(descriptor) or _is_removed(self.path)  # before others can lock it
        os.close(descriptor)
        if not removed:
            _is_removed(self.path)

    def keep(self) -> None:
        """Keep the file of the lock, so that the next process looks for files that were left behind."""
        self._kept = True

    def is_of(self, path: Path) -> bool:
        """Whether the file at `path` is that of this lock, which is held."""
        return self._descriptor is not None and os.path.samestat(os.fstat(self._descriptor), os.lstat(path))

    def _take(self) -> bool:
        """Whether this process has the lock now."""
        created = True
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | OPEN_FLAGS, 0o666)
        except FileExistsError:
            self.was_left, created = True, False
            try:
                descriptor = open_lock(self.path)
            except FileNotFoundError:  # it has just been removed
                return False
        except PermissionError as error:
            if os.name == "nt":  # it will be removed soon
                return False
            raise self._for_user(error) from None
        except OSError as error:
            raise self._for_user(error) from None
        self._descriptor = descriptor
        try:
            locked = try_lock(descriptor)
            self.locks = locked is not None
            if locked is None:
                locked = self._take_without_locks(descriptor, created)
            elif locked and not created:
                locked = not _is_held(Holder.read(descriptor))
            if locked and self._is_in_place(self._descriptor):
                return True
        except BaseException:
            self._let_go()
            raise
        self._let_go()
        return False

    def _take_without_locks(self, descriptor: int, created: bool) -> bool:
        """Whether the file of the lock belongs to this process: it has created it, or takes the place of a dead one."""
        if created:
            try:
                Holder.this_process().write(descriptor)
            except BaseException:  # a file that names nobody would keep everybody else waiting
                if self._is_in_place(descriptor):
                    _is_removed(self.path)
                raise
            return True
        holder = Holder.read(descriptor)
        if holder is None or not holder.is_dead() or not (claim := holder.claim(self.path)):
            return False
        self._let_go()
        self._descriptor = claim
        return True

    def _reason(self) -> str:
        reason = "another process is writing this model; run again when it is done"
        with suppress(OSError):
            descriptor = open_lock(self.path)
            try:
                holder = Holder.read(descriptor)
            finally:
                os.close(descriptor)
            if holder is None and self.locks:
                return reason
            name = f"process {holder.process} on {holder.machine}" if holder is not None else "it"
            return f"{reason}; the filesystem gave it no lock: if {name} has ended, remove {self.path.name}"
        return reason

    def _for_user(self, error: OSError) -> OSError:
        """The error with the folder, which the user knows, in place of the hidden file."""
        told = OSError(error.errno, error.strerror, str(self._model.parent))
        explain(told)
        return told

    def _is_in_place(self, descriptor: int) -> bool:
        """Whether the locked file is still the file that the next process finds; the folder may be another one now."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _let_go(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@contextmanager
def locked_together(paths: Iterable[Path]) -> Iterator[bool]:
    """A context that holds the locks of the models at these paths, and of the files that links there lead to.

    So whoever names a link, and whoever names the file, wait for each other. All processes take several locks in the
    same order, so that no two of them wait for each other. What this thread does in the context uses these locks: it
    must take no others, because these could come earlier in that order. The value is whether the file of a lock
    existed before: otherwise, nobody was killed who had one of them.

    Raises: BlockingIOError as `ModelLock` does.
    """
    places = {place: named for path in paths for place, named in _with_target(path)}
    ordered = sorted(places, key=_rank) if len(places) > 1 else places
    was_left = False
    with ExitStack() as stack:
        try:
            for place in ordered:
                lock = stack.enter_context(ModelLock(places[place]))
                was_left |= lock.was_left
                stack.callback(_LENT.reset, _LENT.set((*_LENT.get(), lock)))
        except PermissionError:
            stack.close()
            for path in places.values():  # of several folders that cannot be written, the first one is told
                with suppress(BlockingIOError), ModelLock(path, 0.0):
                    pass
            raise
        yield was_left


def _with_target(path: Path) -> Iterator[tuple[Path, Path]]:
    """A path, and that of the file that a link there leads to: each without linked folders, and as errors name it."""
    own, target = Path(os.path.realpath(path.parent)) / path.name, Path(os.path.realpath(path))
    yield own, path
    if target != own and os.access(target.parent, os.W_OK):  # otherwise, nobody changes files there by this name
        yield target, target


def _rank(path: Path) -> tuple[int, int, str, str]:
    """The rank of a lock among others, however the folder is mounted, and whether or not it ignores case."""
    folder = path.parent.stat()
    return folder.st_ino, folder.st_dev, path.name.casefold(), path.name


def _lent(path: Path) -> ModelLock | None:
    """The lock whose file is at `path`, if this thread holds it for all that it does now."""
    with suppress(OSError):
        return next((lock for lock in _LENT.get() if lock.is_of(path)), None)
    return None


def is_locked(path: Path) -> bool:
    """Whether another process, or thread, is writing the model at `path`; this check writes nothing."""
    if _lent(hidden_path(path, "lock")) is not None:
        return False
    try:
        descriptor = open_lock(hidden_path(path, "lock"))
    except OSError:
        return False
    try:
        locked = try_lock(descriptor, shared=True)
        if locked is False:
            return True
        holder = Holder.read(descriptor)
        return _is_held(holder) or (locked is None and holder is None)
    finally:
        os.close(descriptor)


def _is_held(holder: Holder | None) -> bool:
    """Whether a process holds the lock that found no locks in the filesystem; another machine's mount may have none."""
    return holder is not None and not holder.is_dead()


def try_lock(descriptor: int, *, shared: bool = False) -> bool | None:
    """Lock the file until this descriptor is closed, and return whether that was possible.

    Returns false if another descriptor has locked it, and `None` if the filesystem has no locks.
    """
    try:
        _lock(descriptor, shared)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        return None
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


def _lock(descriptor: int, shared: bool) -> None:
    """Lock an open file, or fail at once; only one descriptor can have the lock, even within one process."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        return
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
