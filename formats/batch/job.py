"""One of many conversions: the job, its execution in any process, and the result.

Everything here can be pickled, so that jobs and results pass between processes and machines.
"""

from __future__ import annotations

import os
import pickle
import platform
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from traceback import clear_frames
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.batch import manifest
from formats.errors import FormatError, OptionError
from formats.onnxpb.external.other_graphs import remembering
from formats.tensordata.file import is_address, is_stream
from formats.tensordata.replacing.publication import temporary_folder
from formats.verbs import convert
from formats.verbs.arguments import path_of
from formats.verbs.report import error_as_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from formats.batch.manifest import Record
    from formats.verbs.report import ConversionReport

CONVERTED, UNCHANGED, FAILED, SKIPPED = "converted", "unchanged", "failed", "skipped"
PIECE_SECONDS = 0.25  # a piece is a call of a worker: longer than what Dask needs for it, and soon over


@dataclass(frozen=True, slots=True)
class Job:
    """A file to convert, and its destination; `options` are keywords of `formats.convert` for this job only."""

    source: Path
    destination: Path
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a job.

    `state` is "converted" (in a dry run, it would be), "unchanged" if a manifest says that this was done before,
    "failed", or "skipped" if an earlier job failed and `fail_fast` was given. A converted job has a `report`, a failed
    one an `error`; `record` is its line in the manifest. `host` is the name of the machine that did it, if the
    caller's executor chose one.
    """

    job: Job
    state: str
    report: ConversionReport | None = None
    error: Exception | None = None
    seconds: float = 0.0
    record: Record | None = None
    host: str = ""

    @property
    def ok(self) -> bool:
        """Whether the destination is now the result of this job."""
        return self.state in (CONVERTED, UNCHANGED)

    def to_json(self) -> dict[str, Any]:
        """The result in strings, numbers, lists and dictionaries."""
        return {
            "source": str(self.job.source),
            "destination": str(self.job.destination),
            "state": self.state,
            "seconds": round(self.seconds, 6),
            "report": None if self.report is None else self.report.to_json(),
            "error": None if self.error is None else error_as_json(self.error),
        }


class JobTask(NamedTuple):
    """A job with its keywords, and with the record of a manifest, if there is one.

    `fingerprint` has the other things, besides the source, that change the written bytes; it needs a manifest.
    `begun` is the time before its start, if there was nothing at its destination then.
    """

    number: int
    job: Job
    keywords: Mapping[str, Any]
    fingerprint: Mapping[str, Any] | None = None
    before: Record | None = None
    begun: float | None = None


def job_of(argument: Job | tuple[str | os.PathLike[str], str | os.PathLike[str]]) -> Job:
    """The job for a caller's argument: a job itself, or a source and a destination.

    Raises: OptionError for a stream; TypeError for anything else.
    """
    if isinstance(argument, Job):
        job = Job(path_of(argument.source), path_of(argument.destination), argument.options)
    else:
        source, destination = argument
        job = Job(path_of(source), path_of(destination))
    if streams := [place for place in (job.source, job.destination) if is_stream(place)]:
        raise OptionError(f"{streams[0]} is a stream, which cannot be a job; `formats.convert` takes it")
    return job


def run_task(task: JobTask) -> JobResult:
    """The result of doing a task in this process; an error is part of it."""
    started = perf_counter()
    try:
        try:
            return _converted(task, started)
        except FileExistsError:
            if not _was_done(task):
                raise
            return _converted(task._replace(keywords={**task.keywords, "overwrite": True}), started)
    except Exception as error:  # after any error, the other jobs continue
        cause: BaseException | None = error
        while cause is not None:
            clear_frames(cause.__traceback__)  # else the result of each failed job keeps its files open
            cause = cause.__cause__ or cause.__context__
        return failed(task, error, perf_counter() - started)


def run_elsewhere(task: JobTask, folder: str) -> JobResult:
    """The result of doing a task on a machine that an executor chose, with the name of the machine.

    Relative paths of the job start from `folder`, the caller's; the result contains the job as it was given.
    """
    job = task.job
    if os.getcwd() == folder:  # noqa: PTH109 - a text
        return replace(run_task(task), host=platform.node())
    source, destination = (path if is_address(path) else folder / path for path in (job.source, job.destination))
    result = run_task(task._replace(job=replace(job, source=source, destination=destination)))
    record = result.record and result.record.about(job.source, job.destination)
    report = result.report and replace(result.report, source=job.source, destination=job.destination)
    return replace(result, job=job, host=platform.node(), record=record, report=report)


def run_piece(tasks: Sequence[JobTask], folder: str) -> list[JobResult]:
    """The results of the first of these tasks, at least one, on a machine that an executor chose.

    When the time of a piece is over, the caller gets the other tasks back, so that long jobs do not wait for each
    other. It also gets them back after a failure, because it may want no more.
    """
    end = perf_counter() + PIECE_SECONDS
    results: list[JobResult] = []
    with remembering({}):
        for task in tasks:
            results.append(run_elsewhere(task, folder))
            if results[-1].state == FAILED or perf_counter() > end:
                break
    return results


def seen_from_here(task: JobTask, result: JobResult) -> JobResult:
    """The result of another machine, or an error if this machine does not see the same files."""
    advice = "workers need the same storage as this machine, under the same names, or remote addresses"
    job, error = task.job, result.error
    if isinstance(error, FileNotFoundError):
        if not (_is_seen(job.source) and (is_address(job.destination) or job.destination.absolute().parent.is_dir())):
            return result
        unseen_error = FormatError(f"{result.host or 'a worker'} does not see this file; {advice}", path=error.filename)
    elif (
        (report := result.report) is not None
        and not report.dry_run
        and (unseen := [file.path for file in report.files if not _is_seen(file.path)])
    ):
        unseen_error = FormatError(
            f"{result.host} wrote it, but this machine does not see it; {advice}", path=unseen[0]
        )
    else:
        return result
    return replace(failed(task, unseen_error, result.seconds), host=result.host)


def _is_seen(path: Path) -> bool:
    """Whether a file is there; network filesystems may report a new file as missing until its folder is read."""
    if is_address(path):
        return path.exists()
    if not os.path.lexists(path):
        with suppress(OSError):
            os.listdir(path.absolute().parent)  # noqa: PTH208 - read now
    return os.path.lexists(path)


def _was_done(task: JobTask) -> bool:
    """Whether the file at the destination is the result of this task, from a worker that was lost afterwards.

    The content must be what the task writes; a file of this system must also have been written since the task began.
    """
    job = task.job
    place: AbstractContextManager[str | Path]
    if is_address(job.destination):
        if task.keywords.get("key") is not None:  # the decrypted model may be in no temporary file
            return False
        place = TemporaryDirectory()
    elif task.begun is not None and manifest.is_written_since(job.destination, task.begun):
        place = temporary_folder(job.destination)
    else:
        return False
    with place as folder:
        report = convert.convert(job.source, Path(folder, job.destination.name), **task.keywords)
        return all(manifest.is_same_file(file.path, job.destination.with_name(file.path.name)) for file in report.files)


def _converted(task: JobTask, started: float) -> JobResult:
    """Do a task and return its result; an error in the task is raised."""
    if task.fingerprint is not None:
        return _recorded(task, task.fingerprint, started)
    report = convert.convert(task.job.source, task.job.destination, **task.keywords)
    return JobResult(task.job, CONVERTED, report, seconds=perf_counter() - started)


def failed(task: JobTask, error: Exception, seconds: float = 0.0) -> JobResult:
    """The result of a task that ended with an error."""
    error = _portable(error)
    record = None
    if task.fingerprint is not None:
        record = manifest.of_failure(
            task.job.source, task.job.destination, task.fingerprint, error, seconds, task.before
        )
    return JobResult(task.job, FAILED, error=error, seconds=seconds, record=record)


def unchanged(task: JobTask, started: float) -> JobResult | None:
    """The result of a task that was done before, if its files are still the same."""
    job, before = task.job, task.before
    if before is None or task.fingerprint is None or not before.is_done(job.source, job.destination, task.fingerprint):
        return None
    return JobResult(job, UNCHANGED, seconds=perf_counter() - started, record=before)


def _recorded(task: JobTask, fingerprint: Mapping[str, Any], started: float) -> JobResult:
    """The result of a task with a manifest: existing results are not made again."""
    if (done := unchanged(task, started)) is not None:
        return done
    job, before = task.job, task.before
    keywords = dict(task.keywords)
    if before is not None and _replaces_only(task, before.own_files(job.destination)):
        keywords["overwrite"] = True
    stamps = manifest.stamps([job.source])
    report = convert.convert(job.source, job.destination, **keywords)
    if report.dry_run:
        return JobResult(job, CONVERTED, report, seconds=perf_counter() - started)
    seconds = perf_counter() - started
    record = manifest.of_report(report, fingerprint, seconds, stamps)
    return JobResult(job, CONVERTED, report, seconds=seconds, record=record)


def _replaces_only(task: JobTask, own: set[str]) -> bool:
    """Whether the task would replace no other files than these; with other options it may write other data files."""
    if not own:
        return False
    keywords = {**task.keywords, "overwrite": True, "dry_run": True}
    report = convert.convert(task.job.source, task.job.destination, **keywords)
    return {manifest.plain(file.path) for file in report.files if manifest.is_there(file.path)} <= own


def _portable(error: Exception) -> Exception:
    """The error, or one with the same text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - it was made here
    except Exception:  # an error class of another package may do anything
        return FormatError(f"{type(error).__name__}: {error}", path=getattr(error, "path", None))
    return error
