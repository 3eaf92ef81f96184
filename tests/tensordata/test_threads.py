"""Tests of functions in threads of their own, also where there is no room for a thread."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from formats.tensordata import threads
from formats.tensordata.threads import InThread, started, started_or_done
from tests.systems import PATIENCE_SECONDS


def test_a_function_runs_once_in_another_thread() -> None:
    """The function runs once, in another thread, and everyone who waits gets the result."""
    runs: list[int] = []

    def work() -> str:
        runs.append(threading.get_ident())
        return "done"

    thread = started_or_done(work)
    assert ["done"] * 3 == [thread.result() for _ in range(3)]
    assert len(runs) == 1
    assert runs[0] != threading.get_ident()


def test_an_error_is_raised_where_the_result_is_wanted() -> None:
    """What the function raises is raised by `result`, each time, and not by `wait`."""

    def work() -> None:
        raise SystemExit(3)

    thread = started_or_done(work)
    assert thread.wait()
    for _ in range(2):
        with pytest.raises(SystemExit, match="3"):
            thread.result()


def test_a_wait_ends_in_time() -> None:
    """A wait with a limit says whether the function has ended; many threads can wait."""
    event = threading.Event()
    thread = started_or_done(event.wait)
    assert not thread.wait(0)
    assert not thread.wait(0.01)
    others = [started_or_done(thread.result) for _ in range(8)]
    event.set()
    assert [True] * 8 == [other.result() for other in others]
    assert thread.wait(0)


def refused(*_: Any) -> None:
    """Start no thread, as if the system allowed no further one."""
    raise RuntimeError("can't start new thread")


def no_memory(*_: Any) -> None:
    """Start no thread, as if there were no memory for it."""
    raise MemoryError


@pytest.mark.parametrize("start", [refused, no_memory, None])
def test_without_a_thread_the_caller_runs_the_function(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can start, or there is no room for one, the caller learns it, or the function runs here, once."""
    if start is None:
        monkeypatch.setattr(threads, "ROOM_BYTES", 1 << 60)
    else:
        monkeypatch.setattr(threading.Thread, "start", start)
    assert started(threading.get_ident) is None
    runs: list[int] = []
    thread = started_or_done(lambda: runs.append(threading.get_ident()))
    assert thread.wait(0)
    thread.result()
    assert [threading.get_ident()] == runs


def test_a_thread_that_ends_early_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that ends before its function does, as without memory, is an error for who wants the result."""
    monkeypatch.setattr(InThread, "run", lambda thread: None)
    thread = started(threading.get_ident)
    assert thread is not None
    with pytest.raises(MemoryError):
        thread.result()


@pytest.mark.outer
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells the memory of a process in /proc")
def test_no_limit_of_memory_makes_a_start_wait_for_ever() -> None:
    """However little room is left, threads start, or do not; nothing waits for ever, and no work is lost."""
    code = (
        "import resource, sys\n"
        "from formats.tensordata.threads import started_or_done\n"
        "limit = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize() + (int(sys.argv[1]) << 10)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, limit))\n"
        "threads = [started_or_done(lambda: 1) for _ in range(8)]\n"
        "print(sum(thread.result() for thread in threads))"
    )
    for kib in (*range(256, 256 << 10, 5000), *range(68 << 10, 74 << 10, 200), *range(136 << 10, 180 << 10, 700)):
        command = [sys.executable, "-c", code, str(kib)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
        assert ("8\n", "") == (done.stdout, done.stderr), kib
