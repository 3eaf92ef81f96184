"""The processes of a batch: what a signal does to one that has just started, or has no job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from formats.batch import workers

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="Windows has other signals"),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks the processes of a pool"),
]

SLOW = """
import multiprocessing, os, signal, time
from formats.batch import workers
multiprocessing.set_start_method("fork")
begin = workers._begin_worker
def slowly():
    time.sleep({before})
    begin()
    time.sleep({after})
workers._begin_worker = slowly
try:
    with workers.pool_of(2) as pool:
        pool.submit(int)
        processes = [*pool._processes.values()]
        time.sleep(0.2)
        {then}
        raise KeyboardInterrupt
except KeyboardInterrupt:
    print(*(process.exitcode for process in processes))
"""


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "before,after,then,codes",
    [
        (0.5, 0, "", "0 0\n"),
        (0, 0.5, "", "0 0\n"),
        (0, 5, "os.kill(processes[0].pid, signal.SIGTERM); time.sleep(0.3)", "-9 -9\n"),
    ],
    ids=["interrupted before it is ready", "interrupted when it is ready", "the pool breaks"],
)
def test_a_worker_that_starts_ends_in_silence(
    python: Callable[..., subprocess.CompletedProcess[str]], before: float, after: float, then: str, codes: str
) -> None:
    """A signal to a worker that has no job yet neither breaks the pool of an interrupted batch nor prints anything."""
    done = python("-c", SLOW.format(before=before, after=after, then=then))
    assert (done.stdout, done.stderr) == (codes, "")


def test_the_caller_gets_its_signals_back() -> None:
    """The signal that interrupts workers is blocked in the process that starts them only as long as it has a pool."""
    assert workers.INTERRUPT is not None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with workers.pool_of(1) as pool:
        assert workers.INTERRUPT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert pool.submit(int).result() == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
