"""Who holds a lock on a filesystem that has no locks: the content of the file that replaces it."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from formats.tensordata.local.osio import OPEN_FLAGS

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
