"""Many conversions, in many processes or on a cluster: the engine behind every command with several sources."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import sleep, time
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from formats import registry
from formats.choices import ConversionOptions, choose
from formats.errors import FormatError, OptionError, UnknownFormatError
from formats.jobs import FAILED, SKIPPED, Job, JobResult, Task, failed, job_of, run, run_elsewhere, seen_from_here
from formats.manifest import Manifest
from formats.options import names_of
from formats.registry import ReadOptions
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import is_address, with_storage
from formats.tensordata.osio import processors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from multiprocessing.context import BaseContext
    from types import FrameType

    from typing_extensions import Unpack

    from formats.keywords import JobKeywords

WINDOW = 1024  # jobs that an executor has at a time, done or not: more than any cluster has workers
JOBS_PER_PROCESS = 4  # jobs that a pool has at a time: enough that no process waits, and few to repeat if one is killed
INTERRUPT: int | None = getattr(signal, "SIGUSR1", None)  # ends the job of a worker, and not the worker
GRACE_SECONDS = 5.0  # for a worker without a parent, to remove its incomplete files
OF_CONVERSIONS = ("from_format", "to_format", "strict", "lenient")


def convert_many(
    jobs: Iterable[Job | tuple[str | os.PathLike[str], str | os.PathLike[str]]],
    *,
    executor: Executor | None = None,
    processes: int = 0,
    on_result: Callable[[JobResult], None] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    fail_fast: bool = False,
    **keywords: Unpack[JobKeywords],
) -> list[JobResult]:
    """Convert many models; return the result of each job, in order.

    `jobs` are pairs of source and destination, or `Job` objects. A failed job does not stop the others, unless
    `fail_fast` is true: then no other job is started. `executor` is any executor of `concurrent.futures`, such as that
    of a Dask client. By default, `processes` processes run; 0 chooses a suitable number. `on_result` is called with
    each result as soon as it exists, in the calling thread. Keywords are those of `convert`; jobs may have their own.
    With several processes, each job uses one thread, unless `threads` says otherwise.

    `manifest` is a file with a line of JSON for each job. A second run with it converts only what is missing or whose
    content changed, and replaces only files that the first run wrote. It also completes a run that was killed. With
    `dry_run`, nothing is written, not even the manifest, and each report says what would be written. The job of a
    killed process is tried once more, alone. If `executor` is a process pool that breaks, other processes do the rest.
    On a cluster, all workers must see the same files under the same names.

    Raises: OptionError for invalid keywords, and for two jobs with the same destination, before anything is done;
    DecodeError if `manifest` is not a manifest; BlockingIOError if another run uses it. An exception from `on_result`
    ends the run.
    """
    if executor is not None and processes:
        raise OptionError("`executor` and `processes` exclude each other")
    listed = [_located(job_of(given), keywords) for given in jobs]
    count = min(processes or processors(), len(listed))
    is_alone = executor is None and count <= 1
    merged = [_checked(job, keywords) for job in listed]
    _check_destinations(listed)
    if not is_alone:
        threads = max(processors() // count, 1) if executor is None else 1
        merged = [{"threads": threads, **options} for options in merged]
    is_dry = bool(keywords.get("dry_run"))
    with nullcontext() if manifest is None else Manifest(Path(manifest), executor is not None, dry_run=is_dry) as book:
        queue = _Queue([_task(*item, book) for item in enumerate(zip(listed, merged, strict=True))], book)
        if is_alone:
            found = ((task, run(task)) for task in queue)
        elif executor is None:
            found = _in_processes(queue, count)
        else:
            found = _through(executor, queue)
        results = [JobResult(job, SKIPPED) for job in listed]
        with closing(found):
            for task, result in found:
                results[task.number] = result
                if book is not None and result.record is not None:
                    book.add(result.record)
                if fail_fast and result.state == FAILED:
                    queue.stop()
                if on_result is not None:
                    on_result(result)
        if book is not None:
            book.end(job.destination for job in listed)
    return results


def _checked(job: Job, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a job.

    Raises: OptionError if a keyword is not possible. An unknown format of the destination is an error of the job.
    """
    merged = {**keywords, **job.options}
    if merged.get("progress") is not None:
        raise OptionError("`progress` is for a single conversion; use `on_result` for many")
    given = {name: merged[name] for name in OF_CONVERSIONS if name in merged}
    ConversionOptions(**given)
    try:
        name = given.get("to_format")
        target = registry.for_writing(job.destination, "to_format") if name is None else registry.by_name(name)
    except UnknownFormatError:
        return merged
    others = {name: value for name, value in merged.items() if name not in (*OF_CONVERSIONS, "options")}
    choose(target, merged.get("options"), others, reads=True)
    return merged


def _located(job: Job, keywords: Mapping[str, Any]) -> Job:
    """The job; if it has addresses, they get the options of their stores.

    Raises: OptionError if an option is not possible.
    """
    if not (is_address(job.source) or is_address(job.destination)):
        return job
    merged = {**keywords, **job.options}
    reading = ReadOptions(**{name: merged[name] for name in ("storage_options", "retries") if name in merged})
    source, destination = (
        with_storage(path, reading.storage_options, reading.retries) for path in (job.source, job.destination)
    )
    return replace(job, source=source, destination=destination)


def _check_destinations(jobs: Sequence[Job]) -> None:
    """Raises OptionError if two jobs write to the same place."""
    seen: dict[str, Job] = {}
    for job in jobs:
        other = seen.setdefault(os.path.normcase(str(job.destination.absolute())), job)
        if other is not job:
            sources = f"{other.source} and {job.source}"
            raise OptionError(
                f"{sources} would both be written to {job.destination}; convert them to different folders"
            )


def _task(number: int, item: tuple[Job, dict[str, Any]], book: Manifest | None) -> Task:
    job, keywords = item
    if book is None:
        return Task(number, job, keywords)
    return Task(number, job, keywords, _fingerprint(keywords), book.records.get(str(job.destination)))


def _fingerprint(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change the written bytes, as JSON values; a key is never one of them."""
    without = names_of(EngineOptions) | {"key"}
    texts = {name: value for name, value in keywords.items() if name not in without and value is not None}
    found: dict[str, Any] = json.loads(json.dumps(texts, default=str, sort_keys=True))
    return found


class _Queue:
    """The tasks that have not begun yet, in their order."""

    def __init__(self, tasks: Iterable[Task], book: Manifest | None) -> None:
        self.is_stopped = False
        self.refusal: RuntimeError | None = None  # of an executor that accepts no more tasks
        self._tasks = deque(tasks)
        self._book = book

    def __iter__(self) -> Iterator[Task]:
        while self._tasks:
            yield self.take()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def take(self) -> Task:
        """The next task, which is about to begin."""
        task = self._tasks.popleft()
        if not is_address(task.job.destination) and not os.path.lexists(task.job.destination):
            task = task._replace(begun=time())
        if self._book is not None:
            self._book.begin(task.job.source, task.job.destination)
        return task

    def put_back(self, task: Task) -> None:
        """Put a task back that did not begin."""
        self._tasks.appendleft(task)

    def stop(self) -> None:
        """Begin no more tasks."""
        self.is_stopped = True
        self._tasks.clear()


# Executors


def _through(executor: Executor, queue: _Queue, window: int = 0) -> Generator[tuple[Task, JobResult], None, None]:
    """Each task with its result, as they come.

    If a pool of processes breaks, it stays broken; our own processes then do the other tasks. If another executor
    breaks, all tasks that it has get its error.
    """
    processes = getattr(executor, "_max_workers", 0)  # of a pool
    function = partial(run_elsewhere, folder=os.getcwd())  # noqa: PTH109 - a text
    suspects: list[Task] = []
    for task, outcome in _outcomes(executor, function, queue, window or JOBS_PER_PROCESS * processes or WINDOW):
        if isinstance(outcome, JobResult):
            yield task, seen_from_here(task, outcome)
        elif isinstance(outcome, BrokenProcessPool):
            suspects.append(task)
        else:
            yield task, failed(task, _lost(outcome))
    if suspects or isinstance(queue.refusal, BrokenProcessPool):
        yield from _in_processes(queue, processes or processors(), suspects)
    for task in queue:
        yield task, failed(task, FormatError("the executor accepts no more jobs", path=task.job.source))


def _outcomes(
    executor: Executor, function: Callable[[Task], JobResult], queue: _Queue, window: int
) -> Generator[tuple[Task, JobResult | BaseException], None, None]:
    """Each task with its result, or with what happened to its worker; tasks left in the queue were refused."""
    done: SimpleQueue[Future[JobResult]] = SimpleQueue()
    waiting: dict[Future[JobResult], Task] = {}
    try:
        while waiting or (queue and queue.refusal is None):
            while queue and queue.refusal is None and len(waiting) < window:
                task = queue.take()
                try:
                    future = executor.submit(function, task)
                except RuntimeError as error:  # it is broken, or was shut down
                    queue.put_back(task)
                    queue.refusal = error
                    break
                waiting[future] = task
                future.add_done_callback(done.put)
            if not waiting:
                return
            future = done.get()
            task = waiting.pop(future)
            if queue.is_stopped:
                for other in waiting:
                    other.cancel()
                if future.cancelled():
                    continue
            try:
                yield task, future.result()
            except (Exception, CancelledError, SystemExit) as error:  # of the worker: `run` gives those of the job
                yield task, error
    finally:
        for other in waiting:
            other.cancel()  # the futures that nobody waits for


def _lost(error: BaseException) -> FormatError:
    """The error of a job whose worker ended before it was done."""
    if isinstance(error, BrokenExecutor):
        return FormatError("the process that converted it was killed, perhaps because the system ran out of memory")
    return FormatError(f"its worker failed with {type(error).__name__}: {error}")


# Processes


def _in_processes(
    queue: _Queue, count: int, suspects: Sequence[Task] = ()
) -> Generator[tuple[Task, JobResult], None, None]:
    """Each task with its result, as they come, from our own processes.

    If a process is killed, nobody knows which of the unfinished tasks it had. Each of these `suspects` is then tried
    alone.
    """
    while queue or suspects:
        alone = _Queue([task.again() for task in suspects], None)
        suspects = []
        while alone:
            alone.refusal = None
            with _pool(1) as pool:
                for task, outcome in _outcomes(pool, _work, alone, 1):
                    yield task, outcome if isinstance(outcome, JobResult) else failed(task, _lost(outcome))
        if not queue:
            return
        queue.refusal = None
        with _pool(count) as pool:
            for task, outcome in _outcomes(pool, _work, queue, JOBS_PER_PROCESS * count):
                if isinstance(outcome, JobResult):
                    yield task, outcome
                elif isinstance(outcome, BrokenExecutor):
                    suspects.append(task)
                else:
                    yield task, failed(task, _lost(outcome))


@contextmanager
def _pool(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes; if the caller is interrupted, their incomplete files are removed."""
    context: BaseContext = multiprocessing.get_context()
    if context.get_start_method() == "fork" and threading.active_count() > 1:  # a lock of another thread stays locked
        context = multiprocessing.get_context("forkserver")
    pool = ProcessPoolExecutor(count, context, _begin_worker)
    try:
        yield pool
    except BaseException:
        for process in [*(getattr(pool, "_processes", None) or {}).values()]:
            if INTERRUPT is not None and process.is_alive():
                os.kill(process.pid, INTERRUPT)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


class _Worker:
    """The state of this process, if it is a worker of a pool."""

    is_busy: ClassVar[bool] = False


def _begin_worker() -> None:
    """A worker leaves Ctrl+C to its parent, and ends soon after it.

    If a worker is interrupted during a job, the job ends and the engine removes incomplete files. Between jobs, it has
    nothing to remove and waits for the pool. A pool that breaks ends its processes with SIGTERM.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    if INTERRUPT is not None:
        signal.signal(INTERRUPT, _interrupt)
    threading.Thread(target=_follow_parent, name="parent", daemon=True).start()


def _work(task: Task) -> JobResult:
    """The result of a task, in a worker."""
    _Worker.is_busy = True
    try:
        return run(task)
    except SystemExit:  # which the pool would take for the result
        _kill()
        raise
    finally:
        _Worker.is_busy = False


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _Worker.is_busy:
        raise KeyboardInterrupt


def _end(number: int, frame: FrameType | None) -> NoReturn:
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
