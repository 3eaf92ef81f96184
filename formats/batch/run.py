"""Many conversions, in many processes or on a cluster: the engine behind every command with several sources."""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from formats.batch.job import (
    FAILED,
    PIECE_SECONDS,
    SKIPPED,
    Job,
    JobResult,
    JobTask,
    failed,
    job_of,
    run_piece,
    run_task,
    seen_from_here,
    unchanged,
)
from formats.batch.manifest import Manifest
from formats.batch.workers import TELL_SECONDS, Amount, pool_of, work
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.errors import FormatError, OptionError, UnknownFormatError
from formats.onnxpb.external.other_graphs import remembering
from formats.options import names_of
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import is_address, with_storage
from formats.tensordata.local.osio import processors
from formats.verbs import convert
from formats.verbs.choices import ConversionOptions, ReplacementOptions, choose

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor, Future
    from contextlib import AbstractContextManager

    from typing_extensions import Unpack

    from formats.codecs.keys import Key
    from formats.keywords import ConvertKeywords

WINDOW = 1024  # the pieces of an executor at one time, done or not: more than any cluster has workers
FIRST_PIECES = 32  # at one time in the first seconds: they are short until it is known how long jobs take
FIRST_SECONDS = 5
MAX_PIECE_JOBS = 256
JOBS_PER_PROCESS = 4  # the jobs of a pool at one time: enough that no process waits, and few to repeat if one is killed
SMALL_NBYTES = 1 << 18  # the files of a job that take less time to compare than it takes to give it to a process
KEY_ROUNDS = 100_000  # as for the key of a file: a digest in a manifest is no easier to guess than that
OF_CONVERSIONS = ("from_format", "to_format", "strict", "allow", "lenient")


def convert_many(
    jobs: Iterable[Job | tuple[str | os.PathLike[str], str | os.PathLike[str]]],
    *,
    executor: Executor | None = None,
    processes: int = 0,
    on_result: Callable[[JobResult], None] | None = None,
    manifest: str | os.PathLike[str] | None = None,
    fail_fast: bool = False,
    **keywords: Unpack[ConvertKeywords],
) -> list[JobResult]:
    """Convert many models; return the result of each job, in order.

    `jobs` are pairs of source and destination, or `Job` objects. A failed job does not stop the others, unless
    `fail_fast` is true: then no other job is started. `executor` is any executor of `concurrent.futures`, such as that
    of a Dask client. By default, `processes` processes run; 0 chooses a suitable number. `on_result` is called with
    each result as soon as it exists, in the calling thread. Keywords are those of `convert`; jobs may have their own.
    With several processes, each job uses one thread, unless `threads` says otherwise. `progress` gets the bytes of all
    jobs, in the calling thread; a job that has not begun counts as the size of its source, if that is a local file.

    `manifest` is a file with a line of JSON for each job. A second run with it converts only what is missing or whose
    content changed, and replaces only files that the first run wrote. It also completes a run that was killed. With
    `dry_run`, nothing is written, not even the manifest, and each report says what would be written. The job of a
    killed process is tried once more, alone. If `executor` is a process pool that breaks, other processes do the rest.
    On a cluster, all workers must see the same files under the same names; an executor that does not say how many
    workers it has gets several short jobs in one call.

    For example:

        >>> jobs = [("model.onnx", "a.onnxz"), ("missing.onnx", "b.onnxz")]
        >>> [result.state for result in formats.convert_many(jobs, processes=1)]
        ['converted', 'failed']

    Raises: OptionError for invalid keywords, and for two jobs with the same destination, before anything is done;
    DecodeError if `manifest` is not a manifest; BlockingIOError if another run uses it. An exception from `on_result`
    ends the run.
    """
    if executor is not None and processes:
        raise OptionError("`executor` and `processes` exclude each other")
    listed = [_located(job_of(job), keywords) for job in jobs]
    count = min(processes or processors(), len(listed))
    is_alone = executor is None and count <= 1
    shared: dict[str, Any] = {**keywords}
    amount = Amount.of(shared.pop("progress", None), [job.source for job in listed])
    if not is_alone:
        shared.setdefault("threads", max(processors() // count, 1) if executor is None else 1)
    merged = _checked(listed, shared)
    _check_destinations(listed)
    is_dry = bool(keywords.get("dry_run"))
    with _book(manifest, listed, executor is not None, is_dry) as book:
        queue = _Queue(_tasks(listed, merged, book), book)
        if is_alone:
            outcomes = _one_by_one(queue, amount)
        else:
            outcomes = _in_processes(queue, count, amount) if executor is None else _through(executor, queue, amount)
        results = [JobResult(job, SKIPPED) for job in listed]
        with closing(outcomes):
            for task, result in outcomes if amount is None else amount.ended(outcomes):
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


def _book(
    path: str | os.PathLike[str] | None, jobs: Sequence[Job], done_elsewhere: bool, dry_run: bool
) -> AbstractContextManager[Manifest | None]:
    """The manifest at `path`, if there is one."""
    if path is None:
        return nullcontext()
    return Manifest(Path(path), done_elsewhere, dry_run=dry_run, sources=[job.source for job in jobs])


def _checked(jobs: Iterable[Job], keywords: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The keywords of each job; jobs without their own options share one object, which is checked once per format.

    Raises: OptionError if a keyword is invalid. An unknown format of the destination is an error of the job.
    """
    shared = {**keywords}
    checked: set[str] = set()
    keywords_of_jobs = []
    for job in jobs:
        suffix = job.destination.suffix.lower()
        merged = {**keywords, **job.options} if job.options else shared
        if merged is not shared or suffix not in checked:
            _check_keywords(job, merged)
            checked.add(suffix)
        keywords_of_jobs.append(merged)
    return keywords_of_jobs


def _check_keywords(job: Job, merged: Mapping[str, Any]) -> None:
    """Raises OptionError if a keyword of a job is invalid."""
    if merged.get("progress") is not None:
        raise OptionError("`progress` is not for a single job; `convert_many` takes it for all")
    of_conversion = {name: merged[name] for name in OF_CONVERSIONS if name in merged}
    ConversionOptions(**of_conversion)
    try:
        name = of_conversion.get("to_format")
        target = lookup.for_writing(job.destination, "to_format") if name is None else lookup.by_name(name)
    except UnknownFormatError:
        return
    others = {name: value for name, value in merged.items() if name not in (*OF_CONVERSIONS, "options")}
    choose(target, merged.get("options"), others, by=convert.convert, reads=True)


def _located(job: Job, keywords: Mapping[str, Any]) -> Job:
    """The job; if it has addresses, they get the options of their stores.

    Raises: OptionError if an option is invalid.
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


def _tasks(jobs: Iterable[Job], merged: Iterable[dict[str, Any]], book: Manifest | None) -> Iterator[JobTask]:
    """The tasks for jobs with their keywords."""
    fingerprints: dict[int, dict[str, Any]] = {}  # by the id of the keywords
    new_salt = next((record.salt for record in book.records.values() if record.salt), "") if book is not None else ""
    new_salt = new_salt or os.urandom(16).hex()
    for number, (job, keywords) in enumerate(zip(jobs, merged, strict=True)):
        if book is None:
            yield JobTask(number, job, keywords)
            continue
        fingerprint = fingerprints.get(id(keywords))
        if fingerprint is None:
            fingerprint = fingerprints[id(keywords)] = _fingerprint(keywords)
        before = book.records.get(str(job.destination))
        begun = None if before is None else before.begun
        salt = (before and before.salt) or new_salt
        key = key_digest(keywords.get("key"), salt)
        yield JobTask(number, job, keywords, fingerprint if key is None else {**fingerprint, "key": key}, before, begun)


def _fingerprint(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change the written bytes, as JSON values; no key, and no password of a store, is one of them."""
    without = names_of(EngineOptions) | names_of(ReplacementOptions) | {"key", "storage_options", "retries"}
    texts = {name: value for name, value in keywords.items() if name not in without and value is not None}
    fingerprint: dict[str, Any] = json.loads(json.dumps(texts, default=str, sort_keys=True))
    return fingerprint


def key_digest(key: Key | str | bytes | None, salt: str) -> str | None:
    """What a manifest says of a key, so that another key makes a job new: its salt and a slow digest."""
    from formats.codecs.keys import Key

    return None if key is None else _key_digest(Key.of(key).password, salt)


@lru_cache(64)
def _key_digest(key: bytes, salt: str) -> str:
    return f"{salt}${hashlib.pbkdf2_hmac('sha256', key, bytes.fromhex(salt), KEY_ROUNDS).hex()}"


class _Queue:
    """The tasks that have not begun yet, in their order."""

    def __init__(self, tasks: Iterable[JobTask], book: Manifest | None) -> None:
        self.is_stopped = False
        self.refusal: RuntimeError | None = None  # the error of an executor that accepts no more tasks
        self._tasks = deque(tasks)
        self._suspects: deque[JobTask] = deque()  # any of them may have killed its worker
        self._book = book

    def __iter__(self) -> Iterator[JobTask]:
        while self:
            yield from self.take()

    def __bool__(self) -> bool:
        return bool(self._suspects or self._tasks)

    def take(self, count: int = 1) -> list[JobTask]:
        """The next tasks, which are about to begin: at most so many, or one that has to be tried alone."""
        if self._suspects:
            return [self._begun(self._suspects.popleft())]
        return [self._begun(self._tasks.popleft()) for _ in range(min(count, len(self._tasks)))]

    def _begun(self, task: JobTask) -> JobTask:
        if not is_address(task.job.destination) and not os.path.lexists(task.job.destination):
            task = task._replace(begun=time())
        if self._book is not None:
            self._book.begin(task.job.source, task.job.destination)
        return task

    def small_unchanged(self) -> Iterator[tuple[JobTask, JobResult]]:
        """The tasks with few bytes that were done before, which then are no longer in the queue."""
        tasks, self._tasks = self._tasks, deque()
        for task in tasks:
            is_here = not (is_address(task.job.source) or is_address(task.job.destination))
            is_small = is_here and task.before is not None and task.before.nbytes <= SMALL_NBYTES
            result = unchanged(task, perf_counter()) if is_small else None
            if result is None:
                self._tasks.append(task)
            else:
                yield task, result

    def put_back(self, tasks: Sequence[JobTask]) -> None:
        """Put tasks back that did not begin."""
        if not self.is_stopped:
            self._tasks.extendleft(reversed(tasks))

    def try_alone(self, tasks: Sequence[JobTask]) -> None:
        """Put tasks back that were lost together."""
        if not self.is_stopped:
            self._suspects.extend(tasks)

    def stop(self) -> None:
        """Begin no more tasks."""
        self.is_stopped = True
        self._tasks.clear()
        self._suspects.clear()


def _one_by_one(queue: _Queue, amount: Amount | None) -> Generator[tuple[JobTask, JobResult], None, None]:
    """Each task with its result, from this process."""
    folders: dict[Path, Any] = {}
    for task in queue:
        with remembering(folders):
            result = run_task(task if amount is None else amount.with_progress(task))
        yield task, result


# Executors


def _through(
    executor: Executor, queue: _Queue, amount: Amount | None = None, window: int = 0
) -> Generator[tuple[JobTask, JobResult], None, None]:
    """Each task with its result, as they come.

    If a pool of processes breaks, it stays broken; our own processes then do the other tasks. If another executor
    breaks, all tasks that it has get its error. An executor that is no pool may be a cluster, where each call costs
    milliseconds: it gets pieces of several tasks.
    """
    processes = getattr(executor, "_max_workers", 0)  # of a pool
    function = partial(run_piece, folder=os.getcwd())  # noqa: PTH109 - a text
    suspects: list[JobTask] = []
    window = window or JOBS_PER_PROCESS * processes or WINDOW
    for task, outcome in _outcomes(executor, function, queue, window, amount, in_pieces=not processes):
        if isinstance(outcome, JobResult):
            yield task, seen_from_here(task, outcome)
        elif isinstance(outcome, BrokenProcessPool):
            suspects.append(task)
        else:
            yield task, failed(task, _lost(outcome))
    if suspects or isinstance(queue.refusal, BrokenProcessPool):
        yield from _in_processes(queue, processes or processors(), amount, suspects)
    for task in queue:
        yield task, failed(task, FormatError("the executor accepts no more jobs", path=task.job.source))


def _outcomes(
    executor: Executor,
    function: Callable[[Sequence[JobTask]], list[JobResult]],
    queue: _Queue,
    window: int,
    amount: Amount | None = None,
    *,
    in_pieces: bool = False,
) -> Generator[tuple[JobTask, JobResult | BaseException], None, None]:
    """Each task with its result, or with the error of its worker; tasks left in the queue were refused.

    `function` returns the results of the first tasks of a piece; the others are put back. The tasks of a piece that
    was lost are tried alone, so that only the one that is to blame gets an error.
    """
    ended: SimpleQueue[Future[list[JobResult]]] = SimpleQueue()
    waiting: dict[Future[list[JobResult]], list[JobTask]] = {}
    count, started = 1, perf_counter()
    try:
        while waiting or (queue and queue.refusal is None):
            is_early = in_pieces and perf_counter() - started < FIRST_SECONDS
            limit = min(window, FIRST_PIECES) if is_early else window
            while queue and queue.refusal is None and len(waiting) < limit:
                _submit(executor, function, queue, count, waiting, ended)
            future = _next_ended(ended, amount) if waiting else None
            if future is None:
                continue
            tasks = waiting.pop(future)
            if queue.is_stopped:
                for other in waiting:
                    other.cancel()
                if future.cancelled():
                    continue
            try:
                results = future.result()
            except (Exception, CancelledError, SystemExit) as error:  # of the worker; a job returns its error
                if len(tasks) > 1 and not isinstance(error, BrokenExecutor):
                    queue.try_alone(tasks)
                else:
                    yield from ((task, error) for task in tasks)
                continue
            queue.put_back(tasks[len(results) :])
            count = _jobs_of_piece(results) if in_pieces else 1
            yield from zip(tasks, results, strict=False)
    finally:
        for other in waiting:
            other.cancel()  # futures without a result yet


def _submit(
    executor: Executor,
    function: Callable[[Sequence[JobTask]], list[JobResult]],
    queue: _Queue,
    count: int,
    waiting: dict[Future[list[JobResult]], list[JobTask]],
    ended: SimpleQueue[Future[list[JobResult]]],
) -> None:
    """Give an executor at most so many tasks of the queue, or note in the queue that it refuses them."""
    tasks = queue.take(count)
    try:
        future = executor.submit(function, tasks)
    except RuntimeError as error:  # it is broken, or was shut down
        queue.put_back(tasks)
        queue.refusal = error
        return
    waiting[future] = tasks
    future.add_done_callback(ended.put)


def _jobs_of_piece(results: Sequence[JobResult]) -> int:
    """How many jobs like these take as long as a piece should."""
    seconds = sum(result.seconds for result in results) / len(results)
    most = 2 * len(results) if results[-1].state == FAILED else MAX_PIECE_JOBS  # a failure ends a piece: others may too
    return max(int(min(PIECE_SECONDS / max(seconds, 1e-6), most)), 1)


def _next_ended(ended: SimpleQueue[Future[list[JobResult]]], amount: Amount | None) -> Future[list[JobResult]] | None:
    """The next future that has ended, or none after a moment; then, the function for progress is called."""
    with suppress(Empty):
        return ended.get(timeout=TELL_SECONDS)
    if amount is not None:
        amount.call()
    return None


def _lost(error: BaseException) -> FormatError:
    """The error of a job whose worker ended before it was done."""
    if isinstance(error, BrokenExecutor):
        return FormatError("the process that converted it was killed, perhaps because the system ran out of memory")
    return FormatError(f"its worker failed with {type(error).__name__}: {error}")


# Processes


def _in_processes(
    queue: _Queue, count: int, amount: Amount | None = None, suspects: Sequence[JobTask] = ()
) -> Generator[tuple[JobTask, JobResult], None, None]:
    """Each task with its result, as they come, from our own processes; what is small and unchanged needs none.

    If a process is killed, it is unknown which of the unfinished tasks it had. Each of these `suspects` is then tried
    alone.
    """
    yield from queue.small_unchanged()
    counts = None if amount is None else amount.counts
    while queue or suspects:
        alone = _Queue(suspects, None)
        suspects = []
        while alone:
            alone.refusal = None
            with pool_of(1, counts) as pool:
                for task, outcome in _outcomes(pool, work, alone, 1, amount):
                    yield task, outcome if isinstance(outcome, JobResult) else failed(task, _lost(outcome))
        if not queue:
            return
        queue.refusal = None
        with pool_of(count, counts) as pool:
            for task, outcome in _outcomes(pool, work, queue, JOBS_PER_PROCESS * count, amount):
                if isinstance(outcome, JobResult):
                    yield task, outcome
                elif isinstance(outcome, BrokenExecutor):
                    suspects.append(task)
                else:
                    yield task, failed(task, _lost(outcome))
