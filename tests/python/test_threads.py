"""Tests of functions in threads of their own, also of threads that do not begin."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from systems import PATIENCE_SECONDS

from formats.python import threads
from formats.python.threads import InThread, is_alone


def test_a_function_runs_once_in_another_thread() -> None:
    """The function runs once, in another thread, and everyone who waits gets the result."""
    runs: list[int] = []

    def work() -> str:
        runs.append(threading.get_ident())
        return "done"

    thread = InThread(work).start()
    assert ["done"] * 3 == [thread.result() for _ in range(3)]
    assert len(runs) == 1
    assert runs[0] != threading.get_ident()


def test_an_error_is_raised_where_the_result_is_wanted() -> None:
    """What the function raises is raised by `result`, each time, and not by `wait`."""

    def work() -> None:
        raise SystemExit(3)

    thread = InThread(work).start()
    assert thread.wait()
    for _ in range(2):
        with pytest.raises(SystemExit, match="3"):
            thread.result()


def test_a_wait_ends_in_time() -> None:
    """A wait with a limit says whether the function has ended; many threads can wait."""
    event = threading.Event()
    thread = InThread(event.wait).start()
    assert not thread.wait(0)
    assert not thread.wait(0.01)
    assert not is_alone()
    others = [InThread(thread.result).start() for _ in range(8)]
    event.set()
    assert [True] * 8 == [other.result() for other in others]
    assert thread.wait(0)


def lost(function: Any, arguments: Any) -> int:
    """Start no thread, as if it ended before its first line."""
    return 1


def refused(function: Any, arguments: Any) -> int:
    """Start no thread, as if the system allowed no further one."""
    raise RuntimeError("can't start new thread")


def no_memory(function: Any, arguments: Any) -> int:
    """Start no thread, as if there were no memory for it."""
    raise MemoryError


@pytest.mark.parametrize("start", [lost, refused, no_memory])
def test_who_waits_runs_what_does_not_begin(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread does not begin, the one who waits for it runs the function, and only once."""
    monkeypatch.setattr(threads, "start_new_thread", start)
    monkeypatch.setattr(threads, "BEGIN_SECONDS", 0.05)
    runs: list[int] = []
    thread = InThread(lambda: runs.append(threading.get_ident())).start()
    assert thread.wait(0)
    thread.result()
    assert [threading.get_ident()] == runs
    assert not threads._ALIVE


def test_a_thread_that_begins_late_finds_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a thread begins only after somebody else ran its function, it does not run it again."""
    late: list[Any] = []
    monkeypatch.setattr(threads, "start_new_thread", lambda function, arguments: late.append(function) or 1)
    monkeypatch.setattr(threads, "BEGIN_SECONDS", 0.05)
    runs: list[int] = []
    InThread(lambda: runs.append(threading.get_ident())).start().result()
    (begin,) = late
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert [threading.get_ident()] == runs
    assert not threads._ALIVE


def test_nothing_is_waited_for_that_was_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was not started runs where somebody waits for it, at once."""
    monkeypatch.setattr(threads, "BEGIN_SECONDS", PATIENCE_SECONDS)
    began = time.perf_counter()
    assert threading.get_ident() == InThread(threading.get_ident).result()
    assert time.perf_counter() - began < threads.BEGIN_SECONDS / 2
