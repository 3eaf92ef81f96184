"""Commands with several sources: which files these are, and what is printed during and after the conversions."""

from __future__ import annotations

import os
import sys
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from formats.cli import streams
from formats.cli.error_text import error_to_json
from formats.cli.report_lines import summary
from formats.cli.streams import as_flags, json_text, say, say_error, show
from formats.errors import OptionError
from formats.options import MOST_WORKERS, SWITCH, OptionKind, count, option, settle, text
from formats.pictures.progress_bar import Progress
from formats.tensordata.file import is_address
from formats.verbs.arguments import path_of
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO

    from formats.batch.job import Job, JobResult
    from formats.cli.command_line import Request
    from formats.codecs.contract import Codec

PANEL = "Options for many models"
MAX_LIST_LINE = 1 << 16  # characters of a path or an address
CONVERT = "Convert"  # the section of the help


def _any_path(name: str) -> Path:
    if not name or "\0" in name:
        raise ValueError(name)
    return Path(name)


def any_place(name: str) -> Path:
    """The path or the address that a text means."""
    return path_of(_any_path(name) and name)


def _shard(typed: str) -> tuple[int, int]:
    number, _, total = typed.partition("/")
    if not (number.isascii() and number.isdecimal() and total.isascii() and total.isdecimal()):
        raise ValueError(typed)
    return _checked_shard((int(number), int(total)))


def _checked_shard(value: Any) -> tuple[int, int]:
    number, total = value
    if not 1 <= number <= total:
        raise ValueError(value)
    return number, total


SHARD = OptionKind("a number and how many there are, such as 3/8; the first is 1/8", _checked_shard, "I/N", _shard)
FILE = OptionKind("the name of a file", lambda value: value, "FILE", _any_path)
FOLDER = OptionKind("the name of a folder, or an address", lambda value: value, "FOLDER", any_place)
DESTINATION = OptionKind("the name of a file or folder, or an address", lambda value: value, "DST")


def out_option() -> Any:
    """The option for the folder that several models are written into."""
    return option(None, FOLDER, "Write into FOLDER.", short="-o", common=True)


@dataclass(frozen=True, slots=True)
class DestinationOptions:
    """Where `convert` writes, for users of other commands, who type it as an option."""

    out: str | None = option(None, DESTINATION, "The same as the argument DST.", short="-o", common=True)


@dataclass(frozen=True, slots=True)
class SeveralOptions:
    """How several sources are converted."""

    jobs: int = option(
        0,
        count(0, MOST_WORKERS),
        "Convert N models at a time; 0, the default, chooses.",
        short="-j",
        panel=PANEL,
    )
    fail_fast: bool = option(False, SWITCH, "Do not start more conversions after a failure.", panel=PANEL)
    dask: str | None = option(
        None,
        text("ADDRESS", "the address of a scheduler, or the name of its file"),
        "Convert on the Dask cluster whose scheduler is at ADDRESS, such as tcp://10.0.0.1:8786.",
        panel=PANEL,
    )
    manifest: Path | None = option(
        None,
        FILE,
        "Record the conversions in FILE, and convert only what is missing or changed since.",
        panel=PANEL,
        common=True,
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.dask is not None and self.jobs:
            raise OptionError(
                "`dask` and `jobs` exclude each other: each worker of a cluster converts one model at a time"
            )


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What `batch` converts, and where to."""

    out: Path | None = out_option()
    list: Path | None = option(None, FILE, "Also convert the files that FILE lists; - is stdin.", common=True)
    shard: tuple[int, int] | None = option(
        None,
        SHARD,
        "Convert part I of N of the models, for job arrays; each machine finds the same parts.",
    )


def is_folder(text: str) -> bool:
    """Whether an argument is a folder: it exists, or ends in a separator, or is an address without an extension.

    A store has no real folders, only objects with a common prefix in their names.
    """
    path = path_of(text)
    return text.endswith(("/", os.sep)) or (not path.suffix if is_address(path) else path.is_dir())


def typed_jobs(folder: Path, sources: Sequence[str], target: Codec, keywords: Mapping[str, Any]) -> list[Job]:
    """The jobs for the typed sources, with destinations in `folder`."""
    from formats.batch import job_list

    places = job_list.source_files(sources, folder, keywords.get("from_format"), keywords.get("storage_options"))
    return job_list.jobs_into(folder, places, target)


def listed_jobs(folder: Path, file: Path, target: Codec) -> list[Job]:
    """The jobs for the files that a list names.

    Raises: OSError if the list cannot be read; OptionError if it is not text, or should be on stdin, which is closed.
    """
    from formats.batch import job_list

    is_stdin = str(file) == streams.STREAM
    if is_stdin:
        streams.check_stdin("no list")
    encoding = sys.getfilesystemencoding()  # of names, whatever the file is
    with nullcontext(sys.stdin) if is_stdin else file.open(encoding=encoding, errors="surrogateescape") as stream:
        return job_list.jobs_into(folder, job_list.listed_places(_lines(stream)), target)


def _lines(stream: TextIO) -> Iterator[str]:
    """The lines of a list, which may never end.

    Raises: OptionError if one is no name of a file.
    """
    while line := stream.readline(MAX_LIST_LINE + 1):
        if len(line) > MAX_LIST_LINE or "\0" in line:
            raise OptionError("`list` is not a text file; it must have a file name on each line")
        yield line


def convert_jobs(request: Request, jobs: Sequence[Job], keywords: dict[str, Any]) -> int:
    """Convert, print each result and a summary; the exit code is 1 if one file was not converted.

    Raises: OptionError for options that are for one model.
    """
    from formats.batch import workers
    from formats.batch.run import convert_many

    if isinstance(keywords.get("external_data"), str):
        raise OptionError(
            "`external_data` with a name is only for a single model; without a name, each model gets its own data file"
        )
    request.has_jobs = True
    chosen = SeveralOptions(**request.of(SeveralOptions))
    started = perf_counter()
    shown = Shown(request, len(jobs), has_manifest=chosen.manifest is not None)
    cluster = nullcontext() if chosen.dask is None else workers.dask_executor(chosen.dask)
    with cluster as executor, closing(shown):
        results = convert_many(
            jobs,
            executor=executor,
            processes=chosen.jobs,
            fail_fast=chosen.fail_fast,
            manifest=chosen.manifest,
            on_result=shown.result,
            progress=shown.bar,
            **keywords,
        )
    seconds = perf_counter() - started
    if request.output.get("json"):
        say(json_text(_to_json(results, seconds, request)))
    elif not request.output.get("quiet"):
        say(_summary(results, seconds, dry_run=keywords.get("dry_run", False)))
    return 0 if all(result.ok for result in results) else 1


class Shown:
    """The output while jobs run: a progress bar if it can be seen, and the result of each job.

    `running` is the one of this process, if jobs run.
    """

    running: ClassVar[Shown | None] = None

    def __init__(self, request: Request, count: int, *, has_manifest: bool) -> None:
        self._request = request
        self._output = request.output
        self._done, self._count = 0, count
        self._tells = not (self._output.get("quiet") or self._output.get("json"))
        bar = Progress(lambda is_known: f"{self._done:,} of {counted(count, 'model')}")
        self.bar = bar if streams.replace_bar(bar) else None
        if self.bar is not None and count == 1:  # no process is started, which could have no other thread
            self.bar.watch()
        self._advice = "; the same command converts the rest" if has_manifest else ""
        self._pid = os.getpid()
        Shown.running = self

    def say_stopping(self) -> None:
        """Say that the jobs are being stopped. A handler of signals calls this, so it writes past all buffers."""
        if self._output.get("quiet") or os.getpid() != self._pid:  # that of a child of this one
            return
        done, left = self._done, self._count - self._done
        rest = f"{left:,} {'is' if left == 1 else 'are'} left"
        words = f"stopping after {done:,} of {counted(self._count, 'model')}; {rest}"
        with suppress(OSError, ValueError):  # stderr may be closed
            os.write(sys.stderr.fileno(), f"{chr(10) * (self.bar is not None)}{words}{self._advice}\n".encode())

    def result(self, result: JobResult) -> None:
        """Print a result."""
        self._done += 1
        if result.error is not None:
            say_error(self._request, result.error, result.job.source)
        elif result.report is not None and self._tells:
            lines = summary(result.report, notes=self._output.get("notes", False), one_of_many=True)
            show(as_flags(self._request, lines))

    def close(self) -> None:
        """The jobs are done."""
        Shown.running = None


def _summary(results: Iterable[JobResult], seconds: float, *, dry_run: bool) -> str:
    counts, nbytes = _counts(results)
    from formats.batch.job import CONVERTED

    words = {CONVERTED: "to convert"} if dry_run else {}
    states = (f"{count:,} {words.get(state, state)}" for state, count in counts.items() if count)
    counted = ", ".join(states) or "nothing to convert"
    return f"{counted}  {in_units(nbytes)}, {seconds:.2f} s"


def _counts(results: Iterable[JobResult]) -> tuple[dict[str, int], int]:
    """The number of results by state, and the bytes that were written."""
    from formats.batch.job import CONVERTED, FAILED, SKIPPED, UNCHANGED

    counts, nbytes = dict.fromkeys((CONVERTED, UNCHANGED, FAILED, SKIPPED), 0), 0
    for result in results:
        counts[result.state] += 1
        nbytes += result.report.nbytes if result.report else 0
    return counts, nbytes


def _to_json(results: Sequence[JobResult], seconds: float, request: Request) -> dict[str, Any]:
    counts, nbytes = _counts(results)
    errors = (None if result.error is None else error_to_json(result.error, request.words) for result in results)
    return {
        "jobs": [{**result.to_json(), "error": error} for result, error in zip(results, errors, strict=True)],
        **counts,
        "nbytes": nbytes,
        "seconds": round(seconds, 6),
    }
