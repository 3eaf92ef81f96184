"""Processes of this Python for what computes in C++ without a limit: started when they are first asked, and survived.

A model of 1 kB can make onnx and onnxruntime take all memory, never end, or end the process. So each gets a process of
its own, with limits of memory and processor time for each request (the rows `INFERENCE`, `FOLDING`, `CHECKS`). Where
the system has no such limits (Windows), the process is the only one.

A request is a line with numbers, and data: the bytes of the data, the bytes of memory and the seconds of processor time
that it may take, and what else the work needs. An answer is a line with a word and a number of bytes, and these bytes;
the word is `memory` if the request needs more of it.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    Work = Callable[[bytes, list[int]], tuple[str, bytes]]  # from the data and the other numbers to an answer

ONE_THREAD: Final = dict.fromkeys(("MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")  # for memory
# It finds the modules that this process finds, but none in the current folder, which `-c` alone would add.
PROGRAM: Final = (
    "import sys; module, *sys.path[:] = sys.argv[1:]; from importlib import import_module; import_module(module).main()"
)


class Limits(NamedTuple):
    """What a request may take, and more for each byte that it works on."""

    memory_bytes: int  # with the packages themselves
    memory_per_byte: int
    seconds: float  # of processor time
    seconds_per_byte: float = 0

    def memory(self, nbytes: int) -> int:
        """The bytes of memory for a request that works on so many bytes."""
        return self.memory_bytes + self.memory_per_byte * nbytes

    def time(self, nbytes: int) -> float:
        """The seconds of processor time for a request that works on so many bytes."""
        return self.seconds + self.seconds_per_byte * nbytes


INFERENCE: Final = Limits(192 << 20, 200, 20.0, 20e-6)  # for each byte of a graph without its weights
FOLDING: Final = Limits(768 << 20, 8, 60.0)  # for each byte of the nodes and of the constants that they take
CHECKS: Final = Limits(4 << 30, 4, 900.0)  # for each byte of the weights of both models


class LimitedProcess:
    """A process that runs `main` of a module; one request at a time, within `limits`.

    `needed` makes a context that says which package to install, if the module cannot import it.
    """

    def __init__(self, module: str, needed: Callable[[], AbstractContextManager[None]], limits: Limits) -> None:
        self._module, self._needed, self.limits = module, needed, limits
        self._forget()
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """The process is that of another one, which has been copied."""
        self._lock = threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None

    def ask(self, data: bytes, *numbers: int, nbytes: int | None = None) -> tuple[str, bytes]:
        """The word and the bytes of the answer; `ended` if the process has ended, since a request took too much.

        `nbytes` is how many bytes the request works on, if these are not the data.

        Raises: MissingPackageError if the package is not installed.
        """
        with self._lock:
            running = self._running or self._started()
            self._running = None  # if the caller is interrupted now, nobody reads the rest of the answer
            assert running.stdin is not None
            nbytes = len(data) if nbytes is None else nbytes
            memory, seconds = self.limits.memory(nbytes), self.limits.time(nbytes)
            try:
                line = " ".join(f"{int(number)}" for number in (len(data), memory, seconds, *numbers))
                running.stdin.write(f"{line}\n".encode())
                running.stdin.write(data)
                running.stdin.flush()
                answer = _read_answer(running)
            except OSError:  # it has ended
                answer = "ended", b""
            except BaseException:
                running.kill()
                raise
            if answer[0] == "ended":
                running.kill()
                running.communicate()
            else:
                self._running = running
            return answer

    def _started(self) -> subprocess.Popen[bytes]:
        running = subprocess.Popen(  # noqa: S603 - this Python
            [sys.executable, "-I", "-c", PROGRAM, self._module, *filter(None, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what C++ says when it ends the process
            env={**os.environ, **ONE_THREAD},
        )
        word, text = _read_answer(running)
        if word != "ready":
            running.kill()
            running.communicate()
            reason = text.decode(errors="replace") or "its process does not start"
            with self._needed():
                if word == "absent":
                    raise ModuleNotFoundError(f"No module named {reason!r}", name=reason)
                raise ImportError(reason)
        return running

    def end(self) -> None:
        """End the process, which has used its memory; the next request starts another one."""
        with self._lock:
            self._end()
            self._running = None

    def _end(self) -> None:
        if self._running is not None:
            self._running.communicate()


def _read_answer(running: subprocess.Popen[bytes]) -> tuple[str, bytes]:
    """The word and the bytes of the next answer; `ended` if there is none."""
    assert running.stdout is not None
    word, _, nbytes = running.stdout.readline().partition(b" ")
    if not nbytes:
        return "ended", b""
    data = running.stdout.read(int(nbytes))
    return (word.decode(), data) if len(data) == int(nbytes) else ("ended", b"")


# In the process


def serve(begin: Callable[[], Work]) -> None:
    """Answer requests from stdin until it ends, with what `begin` returns after it has imported the package.

    What the package prints goes to stderr, not among the answers.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        work = begin()
    except ModuleNotFoundError as error:
        _answer(answers, "absent", (error.name or "").encode())
        return
    except ImportError as error:
        _answer(answers, "missing", str(error).encode())
        return
    _answer(answers, "ready", b"")
    while line := requests.readline():
        nbytes, memory, seconds, *numbers = map(int, line.split())
        data = requests.read(nbytes)
        _limit(memory, seconds)
        try:
            word, result = work(data, numbers)
        except MemoryError:
            word, result = "memory", b""
        except Exception as error:
            word, result = "error", str(error).encode("utf-8", "replace")
        _answer(answers, word, result)


def _limit(memory: int, seconds: int) -> None:
    """Limit what the next request takes, beyond what the process has taken so far."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    most_seconds = int(used.ru_utime + used.ru_stime + seconds) + 1
    for kind, most in ((resource.RLIMIT_CPU, most_seconds), (resource.RLIMIT_DATA, memory)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _answer(answers: BinaryIO, word: str, data: bytes) -> None:
    answers.write(b"%s %d\n" % (word.encode(), len(data)))
    answers.write(data)
    answers.flush()
