"""Records of conversions, a line of JSON for each job, so that a second run does only what is missing or changed.

A line is written before a job begins, and another one when it is done. So even after a killed run, it is known which
files it wrote. Equality is by content: the SHA-256 of every file. Of two lines about one destination, the last one
counts.
"""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from formats import __version__
from formats.errors import DecodeError, FormatError, TensorDataError
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import ALL_PERMISSIONS, File, is_address, is_stream
from formats.tensordata.plan import OWNER_ACCESS, FilePlan, Permissions, PlacedWrite, WritePlan
from formats.tensordata.replacing.hidden import is_path_text
from formats.tensordata.replacing.journal import sha256_of, stamp
from formats.tensordata.replacing.lock import ModelLock
from formats.tensordata.sources.source import Literal
from formats.verbs.arguments import path_of
from formats.verbs.report import error_as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import BinaryIO

    from formats.verbs.report import ConversionReport

MAX_LINE_BYTES = 1 << 24  # a line has the digests of one model's files
MAX_STEPS = 32  # folders between a model at an address and its data files
CLOCK_SECONDS = 2.0  # the time of a file may be behind the clock by this much
LATEST_TIME = 1 << 63  # in seconds; no clock shows a later one
LOCK_SECONDS = 0.5  # to wait for a run that is about to end


@dataclass(frozen=True, slots=True)
class Record:
    """The line of a job; `content` has the fields as JSON."""

    content: Mapping[str, Any]

    @property
    def destination(self) -> str:
        """The path to which the job writes, as it was given; it identifies the job."""
        text = self.content["destination"]
        return str(text)

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

    @property
    def nbytes(self) -> int:
        """The size of all files of the job that the line names."""
        files = [*self.content.get("source_files", ()), *self.content.get("destination_files", ())]
        return sum(file["nbytes"] for file in files)

    @property
    def begun(self) -> float | None:
        """The time at which the job began, if the line only says that; then there was nothing at its destination."""
        return self.content["begun"] if self.is_begun else None

    @property
    def salt(self) -> str:
        """The salt of the digest of the key that the job used; empty if it used none."""
        options = self.content.get("options")
        digest = options.get("key") if isinstance(options, dict) else None
        match = re.match(r"([0-9a-f]{32})\$", digest) if isinstance(digest, str) else None
        return match[1] if match else ""

    def own_files(self, destination: Path) -> set[str]:
        """The files that this job wrote and nobody has changed since; empty if somebody has changed one of them."""
        if self.is_begun:  # whoever wrote the file since, it may have been another program
            return set()
        files = self.content["destination_files"]
        paths = [_known_path(file["path"], destination) for file in files]
        there = [(path, file) for path, file in zip(paths, files, strict=True) if path is not None and is_there(path)]
        if None in paths or not all(_has_content(path, file) for path, file in there):
            return set()
        return {plain(path) for path, _ in there}


def is_written_since(path: Path, begun: float) -> bool:
    """Whether a file was written since a time at which it did not exist; unknown for an address.

    Another program may have written it, so this is no permission to replace it.
    """
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


def _is_same(files: Sequence[Mapping[str, Any]], model: Path) -> bool:
    """Whether these are the files of the model, and all of them have the recorded size and SHA-256."""
    paths = [_known_path(file["path"], model) for file in files]
    if plain(model) not in [plain(path) for path in paths if path is not None]:
        return False
    return all(path is not None and _has_content(path, file) for path, file in zip(paths, files, strict=True))


def _has_content(path: Path, file: Mapping[str, Any]) -> bool:
    """Whether a file has the recorded size and SHA-256."""
    try:
        return bool(File.open(path).nbytes == file["nbytes"] and sha256_of(path) == file["sha256"])
    except (OSError, FormatError):
        return False


def _known_path(text: str, model: Path) -> Path | None:
    """A path in a manifest, if it is one of this system, or an address in the folder of the model's own address.

    A manifest says what was done, never where to go: anybody who can write to it could otherwise send the requests of
    the next run, with their secrets, to another server.
    """
    if not is_address(model):
        path = path_of(text) if text else None
        return None if path is None or is_address(path) or is_stream(path) else path
    if text == str(model):
        return model
    parts = text.partition("?")[0].split("/")
    for count in range(1, min(len(parts), MAX_STEPS)):
        steps = [unquote(part) for part in parts[-count:]]
        if {"", ".", ".."} & {*steps}:
            return None
        address = model.parent / "/".join(steps)
        if str(address) == text:
            return address
    return None


def plain(path: Path) -> str:
    """A form that is equal for two notations of the same path."""
    return str(path) if is_address(path) else os.path.realpath(path)


def is_there(path: Path) -> bool:
    """Whether there is something at a path or an address."""
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
    as_json = report.to_json()
    return Record(
        {
            **{name: as_json[name] for name in ("source", "destination", "source_format", "target_format")},
            "source_nbytes": sum(file["nbytes"] for file in sources),
            "destination_nbytes": report.nbytes,
            "source_files": sources,
            "destination_files": destinations,
            "version": __version__,
            "options": dict(fingerprint),
            **{name: as_json[name] for name in ("losses", "notes", "changes")},
            "seconds": round(seconds, 6),
            "error": None,
        }
    )


def of_failure(
    source: Path,
    destination: Path,
    fingerprint: Mapping[str, Any],
    error: Exception,
    seconds: float,
    before: Record | None = None,
) -> Record:
    """The record of a job that failed; the files of its line `before` are still its own work."""
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
            "destination_files": [] if before is None else before.content.get("destination_files", []),
            "version": __version__,
            "options": dict(fingerprint),
            "losses": [],
            "notes": [],
            "changes": [],
            "seconds": round(seconds, 6),
            "error": error_as_json(error),
        }
    )


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

    def __init__(
        self, path: Path, done_elsewhere: bool = False, *, dry_run: bool = False, sources: Iterable[Path] = ()
    ) -> None:
        """The manifest at `path`, for jobs with these sources; it is as secret as the most secret of them."""
        self.path = path
        self._most = ALL_PERMISSIONS
        self._file: BinaryIO | None = None
        self._narrow(sources)
        self._dry_run = dry_run
        self.records: dict[str, Record] = {}
        self._lock = ModelLock(Path(f"{os.path.realpath(path)}.run"), LOCK_SECONDS)  # writing it needs its own lock
        self._done_elsewhere = done_elsewhere

    def __enter__(self) -> Manifest:
        if self._dry_run:
            self.records = _read(self.path)
            return self
        if not self.path.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.path.parent))
        self._lock.__enter__()
        try:
            self.records = _read(self.path)
            self._write()  # removes the incomplete line of a killed run
            self._file = self.path.open("ab", buffering=0)
            self._narrow(file["path"] for record in self.records.values() for file in _sources(record))
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
        self._narrow(file["path"] for file in _sources(record))
        if self._file is not None:
            self._file.write(_line(record))

    def _write(self) -> None:
        """Write the records, each once; at any time, the file is unchanged or complete."""
        data = b"".join(map(_line, self.records.values()))
        plan = WritePlan((FilePlan(self.path, len(data), (PlacedWrite(0, Literal(data)),) if data else ()),))
        permissions = Permissions(self._most | OWNER_ACCESS, self._most | OWNER_ACCESS)
        execute(plan._replace(permissions=permissions), EngineOptions(overwrite=True))

    def _narrow(self, sources: Iterable[str | Path]) -> None:
        """Give the manifest no permission that one of these files does not give: it has their names and digests."""
        most = self._most
        for source in sources:
            if not (is_address(source) or is_stream(source)):
                with suppress(OSError, ValueError):
                    most &= Path(source).stat().st_mode
        if most != self._most:
            self._most = most
            if self._file is not None and hasattr(os, "fchmod"):
                now = os.fstat(self._file.fileno()).st_mode & ALL_PERMISSIONS
                os.fchmod(self._file.fileno(), now & (most | OWNER_ACCESS))


def _sources(record: Record) -> Sequence[Mapping[str, Any]]:
    files: Sequence[Mapping[str, Any]] = record.content.get("source_files", ())
    return files


def _line(record: Record) -> bytes:
    return json.dumps(record.content, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> dict[str, Record]:
    """The records of the file, by destination, if it exists; a last line without an end is ignored."""
    try:
        file = File.open(path)  # never waits for a pipe
        data = file.pread(0, file.nbytes)
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
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not all(_is_path(content.get(key)) for key in ("source", "destination")):
        return None
    names = ("source_files", "destination_files")
    if isinstance(begun := content.get("begun"), (int, float)):
        is_valid = abs(begun) < LATEST_TIME and all(_are_files(content.get(name, [])) for name in names)
        return Record(content) if is_valid else None
    files = [content.get(name) for name in names]
    is_whole = content.keys() >= {"version", "options", "error"} and all(map(_are_files, files))
    return Record(content) if is_whole else None


def _are_files(value: Any) -> bool:
    """Whether a field contains files, each with its path, size and digest."""
    return isinstance(value, list) and all(
        isinstance(file, dict)
        and _is_path(file.get("path"))
        and all(isinstance(file.get(key), kind) for key, kind in (("nbytes", int), ("sha256", str)))
        for file in value
    )


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and is_path_text(value)
