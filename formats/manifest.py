"""Records of conversions, a line of JSON for each job, so that a second run does only what is missing or changed.

A line is written before a job begins, and another one when it is done. So even after a killed run, it is known which
files it wrote. Equality is by content: the SHA-256 of every file. Of two lines about one destination, the last one
counts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from formats import __version__
from formats.arguments import path_of
from formats.errors import DecodeError, FormatError, TensorDataError
from formats.late_dataclasses import dataclass
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import File, is_address, with_storage
from formats.tensordata.journal import sha256_of, stamp
from formats.tensordata.lock import ModelLock
from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
from formats.tensordata.source import Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

    from formats.reports import ConversionReport

CLOCK_SECONDS = 2.0  # the time of a file may be behind the clock by this much
LOCK_SECONDS = 0.5  # to wait for a run that is about to end


@dataclass(frozen=True, slots=True)
class Record:
    """The line of a job; `content` has the fields as JSON."""

    content: Mapping[str, Any]

    @property
    def destination(self) -> str:
        """The path to which the job writes, as it was given; it identifies the job."""
        found = self.content["destination"]
        return str(found)

    def about(self, source: Path, destination: Path) -> Record:
        """The same record for a job with other notations of its paths."""
        return Record({**self.content, "source": str(source), "destination": str(destination)})

    @property
    def is_begun(self) -> bool:
        """Whether the line only says that the job began."""
        return "begun" in self.content

    def is_done(self, source: Path, destination: Path, fingerprint: Mapping[str, Any]) -> bool:
        """Whether this job was done with the same options and version, and all its files are still the same."""
        content = self.content
        return (
            not self.is_begun
            and content["error"] is None
            and content["source"] == str(source)
            and (content["version"], content["options"]) == (__version__, dict(fingerprint))
            and _is_same(content["source_files"], source)
            and _is_same(content["destination_files"], destination)
        )

    def is_own_work(self, destination: Path) -> bool:
        """Whether the job wrote the file at the destination, so that it may be replaced."""
        if self.is_begun:
            return is_written_since(destination, self.content["begun"])
        files = self.content["destination_files"]
        there = (file for file in files if _is_there(_path(file["path"], destination)))
        return bool(files) and all(_is_same([file], destination) for file in there)


def is_written_since(path: Path, begun: float) -> bool:
    """Whether a file was written since a time at which it did not exist; unknown for an address."""
    if is_address(path):
        return False
    try:
        return path.stat().st_mtime >= begun - CLOCK_SECONDS
    except OSError:
        return False


def is_same_file(path: Path, other: Path) -> bool:
    """Whether both exist and have the same bytes."""
    try:
        return File.open(path).nbytes == File.open(other).nbytes and sha256_of(path) == sha256_of(other)
    except (OSError, FormatError):
        return False


def _is_same(files: Sequence[Mapping[str, Any]], beside: Path) -> bool:
    """Whether all these files, of the model at `beside`, have the recorded size and SHA-256."""
    paths = [_path(file["path"], beside) for file in files]
    try:
        sizes = all(File.open(path).nbytes == file["nbytes"] for path, file in zip(paths, files, strict=True))
        return sizes and all(sha256_of(path) == file["sha256"] for path, file in zip(paths, files, strict=True))
    except (OSError, FormatError):
        return False


def _path(text: str, beside: Path) -> Path:
    """A path in a manifest, with the storage options of another path."""
    path = path_of(text)
    return with_storage(path, beside.storage_options, beside.retries) if is_address(beside) else path


def _is_there(path: Path) -> bool:
    return path.exists() if is_address(path) else os.path.lexists(path)


def stamps(paths: Iterable[Path]) -> dict[Path, object]:
    """Values that show, for a short time, that files were not changed."""
    return {path: File.open(path) if is_address(path) else stamp(Path(os.path.realpath(path))) for path in paths}


def _is_unchanged(path: Path, before: object) -> bool:
    if isinstance(before, File):
        return before.is_current()
    return stamp(Path(os.path.realpath(path))) == before


def of_report(
    report: ConversionReport, fingerprint: Mapping[str, Any], seconds: float, before: Mapping[Path, object]
) -> Record:
    """The record of a conversion; `before` are the stamps of the source before it began.

    Raises: TensorDataError if the source changed meanwhile, because its digest would be that of another file.
    """
    sources = _files(report.source_files)
    destinations = _files([file.path for file in report.files])
    if not all(_is_unchanged(path, stamped) for path, stamped in before.items()):
        raise TensorDataError("the file changed while it was converted; run the command again", path=report.source)
    told = report.to_json()
    return Record(
        {
            **{name: told[name] for name in ("source", "destination", "source_format", "target_format")},
            "source_nbytes": sum(file["nbytes"] for file in sources),
            "destination_nbytes": report.nbytes,
            "source_files": sources,
            "destination_files": destinations,
            "version": __version__,
            "options": dict(fingerprint),
            **{name: told[name] for name in ("losses", "notes", "changes")},
            "seconds": round(seconds, 6),
            "error": None,
        }
    )


def of_failure(
    source: Path, destination: Path, fingerprint: Mapping[str, Any], error: Exception, seconds: float
) -> Record:
    """The record of a job that failed."""
    try:
        sources = [] if is_address(source) else _files([source])
    except (OSError, FormatError):
        sources = []
    return Record(
        {
            "source": str(source),
            "destination": str(destination),
            "source_format": None,
            "target_format": None,
            "source_nbytes": sum(file["nbytes"] for file in sources),
            "destination_nbytes": 0,
            "source_files": sources,
            "destination_files": [],
            "version": __version__,
            "options": dict(fingerprint),
            "losses": [],
            "notes": [],
            "changes": [],
            "seconds": round(seconds, 6),
            "error": error_to_json(error),
        }
    )


def error_to_json(error: Exception) -> dict[str, Any]:
    """An error in strings and numbers."""
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    return {
        "kind": type(error).__name__,
        "message": error.message if isinstance(error, FormatError) else getattr(error, "strerror", None) or str(error),
        "path": None if path is None else str(path),
        "file_offset": getattr(error, "file_offset", None),
        "where": getattr(error, "where", None),
    }


def _files(paths: Iterable[Path]) -> list[dict[str, Any]]:
    return [{"path": str(path), "nbytes": File.open(path).nbytes, "sha256": sha256_of(path)} for path in paths]


# The file


class Manifest:
    """The file of a manifest during a run, in which no other process writes to it.

    At the end, it has one line for each job, those of this run in their order, after those of other runs. If jobs are
    `done_elsewhere`, a job may still be completed after its run was stopped, so its line stays.

    A dry run only reads the file.

    Raises: DecodeError if the file at `path` is not a manifest; BlockingIOError if another run uses it.
    """

    def __init__(self, path: Path, done_elsewhere: bool = False, *, dry_run: bool = False) -> None:
        self.path = path
        self._dry_run = dry_run
        self.records: dict[str, Record] = {}
        self._lock = ModelLock(Path(f"{os.path.realpath(path)}.run"), LOCK_SECONDS)  # writing it needs its own lock
        self._file: BinaryIO | None = None
        self._done_elsewhere = done_elsewhere

    def __enter__(self) -> Manifest:
        if self._dry_run:
            self.records = _read(self.path)
            return self
        self._lock.__enter__()
        try:
            self.records = _read(self.path)
            self._write()  # removes the incomplete line of a killed run
            self._file = self.path.open("ab", buffering=0)
        except BaseException:
            self._lock.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._dry_run:
            return
        try:
            if self._file is not None:
                self._file.close()
            for record in [*self.records.values()]:
                was_begun = record.is_begun and not self._done_elsewhere
                if was_begun and not os.path.lexists(record.destination):  # it left no file
                    del self.records[record.destination]
            self._write()
        finally:
            self._lock.__exit__()

    def begin(self, source: Path, destination: Path) -> None:
        """Record that a job is about to begin; a file that already exists at its destination is not its work."""
        if str(destination) not in self.records and not is_address(destination) and not os.path.lexists(destination):
            content = {"source": str(source), "destination": str(destination), "begun": time()}
            self._append(Record(content))

    def add(self, record: Record) -> None:
        """Record the result of a job."""
        if self.records.get(record.destination) is not record:
            self._append(record)
        self.records[record.destination] = self.records.pop(record.destination)

    def end(self, destinations: Iterable[Path]) -> None:
        """Write the lines of these jobs last, in this order: all jobs have ended."""
        self._done_elsewhere = False
        for destination in map(str, destinations):
            if destination in self.records:
                self.records[destination] = self.records.pop(destination)

    def _append(self, record: Record) -> None:
        self.records[record.destination] = record
        if self._file is not None:
            self._file.write(_line(record))

    def _write(self) -> None:
        """Write the records, each once; at any time, the file is unchanged or complete."""
        data = b"".join(map(_line, self.records.values()))
        plan = WritePlan((FilePlan(self.path, len(data), (PlacedWrite(0, Literal(data)),) if data else ()),))
        execute(plan, EngineOptions(overwrite=True))


def _line(record: Record) -> bytes:
    return json.dumps(record.content, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> dict[str, Record]:
    """The records of the file, by destination, if it exists; a last line without an end is ignored."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    records: dict[str, Record] = {}
    *lines, _ = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        record = _parsed(line)
        if record is None:
            raise DecodeError(f"line {number} is not a line of a manifest; choose another file", path=path)
        records.pop(record.destination, None)
        records[record.destination] = record
    if data and not lines:
        raise DecodeError("this is not a manifest; choose another file", path=path)
    return records


def _parsed(line: bytes) -> Record | None:
    """The record in a line, if it has the right fields."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), str) for key in ("source", "destination")):
        return None
    if isinstance(content.get("begun"), (int, float)):
        return Record(content)
    files = [content.get(name) for name in ("source_files", "destination_files")]
    is_whole = content.keys() >= {"version", "options", "error"} and all(map(_are_files, files))
    return Record(content) if is_whole else None


def _are_files(value: Any) -> bool:
    """Whether a field contains files, each with its path, size and digest."""
    return isinstance(value, list) and all(
        isinstance(file, dict)
        and all(isinstance(file.get(key), kind) for key, kind in (("path", str), ("nbytes", int), ("sha256", str)))
        for file in value
    )
