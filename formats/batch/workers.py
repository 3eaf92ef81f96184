"""Who does the jobs of a run, and how far they are.

Processes of this machine work for their parent, and end when it ends. They write into shared memory how many bytes they
have done. The workers of a cluster belong to Dask, which only this module uses.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from formats.batch.job import run_task
from formats.errors import OptionError
from formats.extras import needed
from formats.onnxpb.external.other_graphs import remembering
from formats.tensordata.file import is_address
from formats.tensordata.threads import started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor
    from multiprocessing.context import BaseContext
    from types import FrameType

    from formats.batch.job import JobResult, JobTask


TELL_SECONDS = 0.1


class Amount:
    """The bytes that are done and to do, of all jobs; `counts` has both for each job, and its process writes them."""

    def __init__(self, progress: Callable[[int, int], None], sources: Sequence[Path]) -> None:
        from multiprocessing.sharedctypes import RawArray  # takes a while, and is not always needed

        self._progress = progress
        self.counts: Any = RawArray("q", 2 * len(sources))
        for number, source in enumerate(sources):
            self.counts[2 * number + 1] = _nbytes(source)
        self._called_at = 0.0

    @classmethod
    def of(cls, progress: Callable[[int, int], None] | None, sources: Sequence[Path]) -> Amount | None:
        """The amount, or `None` if nobody asks for progress."""
        return None if progress is None else cls(progress, sources)

    def with_progress(self, task: JobTask) -> JobTask:
        """The task, which also calls the function for progress; for a conversion in this process."""
        return with_progress(self.counts, task, self.call)

    def ended(self, outcomes: Iterable[tuple[JobTask, JobResult]]) -> Iterator[tuple[JobTask, JobResult]]:
        """The same results; each of these jobs counts as done, however it ended."""
        for task, result in outcomes:
            self.counts[2 * task.number] = self.counts[2 * task.number + 1]
            self.call()
            yield task, result

    def call(self) -> None:
        """Call the function for progress, but not too often."""
        if perf_counter() - self._called_at >= TELL_SECONDS:
            values = self.counts[:]
            self._progress(sum(values[::2]), sum(values[1::2]))
            self._called_at = perf_counter()


def with_progress(counts: Any, task: JobTask, call: Callable[[], None] = lambda: None) -> JobTask:
    """The task, whose conversion writes into `counts` how far it is."""

    def progress(done: int, total: int) -> None:
        counts[2 * task.number : 2 * task.number + 2] = done, total
        call()

    return task._replace(keywords={**task.keywords, "progress": progress})


def _nbytes(source: Path) -> int:
    """The size of a source, if it is known without a request."""
    try:
        return 0 if is_address(source) else os.stat(source).st_size  # noqa: PTH116 - there can be many
    except OSError:
        return 0


INTERRUPT: int | None = getattr(signal, "SIGUSR1", None)  # ends the job of a worker, not the worker itself
GRACE_SECONDS = 5  # for a worker that has to end, to remove its incomplete files


@contextmanager
def pool_of(count: int, counts: Any = None) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes; if the caller is interrupted, their incomplete files are removed.

    In `counts`, they say how far their jobs are.
    """
    context: BaseContext = multiprocessing.get_context()
    if context.get_start_method() == "fork" and threading.active_count() > 1:  # locks of other threads stay locked
        context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(count, context, _begin_worker, () if counts is None else (counts,))
    # a process that has just started inherits this, so that no interrupt comes before it is ready
    was_open = INTERRUPT is not None and INTERRUPT not in signal.pthread_sigmask(signal.SIG_BLOCK, {INTERRUPT})
    try:
        yield pool
    except BaseException:
        for process in [*(getattr(pool, "_processes", None) or {}).values()]:
            if INTERRUPT is not None and process.is_alive():
                os.kill(process.pid, INTERRUPT)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        if INTERRUPT is not None and was_open:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {INTERRUPT})


class _Worker:
    """The state of this process, if it is a worker of a pool."""

    is_busy: ClassVar[bool] = False
    counts: ClassVar[Any] = None
    folders: ClassVar[dict[Path, Any]] = {}  # that are remembered; the pool is of one run


def _begin_worker(counts: Any = None) -> None:
    """Let a worker leave Ctrl+C to its parent, and end soon after it.

    If a worker is interrupted during a job, the job ends and the engine removes incomplete files. Between jobs, it has
    nothing to remove and waits for the pool. An interrupt that came while the worker started is delivered at the end.
    A pool that breaks ends its processes with SIGTERM.
    """
    _Worker.counts = counts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    if INTERRUPT is not None:
        signal.signal(INTERRUPT, _interrupt)
    started(_follow_parent)
    if INTERRUPT is not None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {INTERRUPT})


def work(tasks: Sequence[JobTask]) -> list[JobResult]:
    """The results of tasks, in a worker."""
    try:
        _Worker.is_busy = True
        try:
            counts = _Worker.counts
            with remembering(_Worker.folders):
                return [run_task(task if counts is None else with_progress(counts, task)) for task in tasks]
        finally:
            _Worker.is_busy = False
    except SystemExit:  # otherwise, the pool would treat it as the result; it may come in the line above, too
        _kill()
        raise


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _Worker.is_busy:
        raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
    if not _Worker.is_busy:  # nothing to remove, and the pool would print an exception of a worker that starts
        _kill()
    if sys.platform != "win32":  # there, SIGTERM ends a process at once
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(GRACE_SECONDS)  # Python loses an exception in a destructor; nobody would end this worker again
    raise SystemExit(128 + number)


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    parent.join()
    if _Worker.is_busy:
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(GRACE_SECONDS)
    _kill()


def _kill() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """An executor whose jobs are done by the workers of a Dask cluster.

    `address` is that of the scheduler, such as tcp://10.0.0.1:8786, or the name of the file that it wrote with
    `--scheduler-file`. Every job is executed, even if Dask already has a result for it.

    Raises: MissingPackageError if Dask is not installed; OptionError if `address` is not valid; OSError if no
    scheduler answers there.
    """
    with needed("distributed", "jobs on a Dask cluster"):
        from distributed import Client
    try:
        client = Client(scheduler_file=address) if os.path.isfile(address) else Client(address)  # noqa: PTH113 - as typed
    except ValueError:
        example = "such as tcp://10.0.0.1:8786"
        raise OptionError(f"`dask` is {address!r:.80}, and must be the address of a scheduler, {example}") from None
    try:
        yield client.get_executor(pure=False)
    finally:
        client.close()
