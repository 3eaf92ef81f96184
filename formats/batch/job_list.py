"""Finds the files that folders, patterns and lists mean, and makes a job with a destination for each file."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.batch.job import Job
from formats.codecs import lookup
from formats.errors import OptionError, no_directory
from formats.tensordata.file import is_address, is_stream, or_stream
from formats.verbs.arguments import path_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from formats.codecs.contract import Codec
    from formats.tensordata.remote.address import Address

PATTERN = frozenset("*?[")


class SourceFile(NamedTuple):
    """A file that is a source, and its path below the folder of the destinations, still with its own extension."""

    source: Path
    inner: Path


def jobs_into(folder: Path, places: Iterable[SourceFile], target: Codec) -> list[Job]:
    """A job for each file, whose destination in `folder` has the extension of the target."""
    extensions = lookup.all_extensions()
    jobs = []
    for source, inner in places:
        stem = inner.stem if inner.suffix.lower() in extensions else inner.name
        destination = folder / inner.with_name(stem + target.extensions[0])
        if _plain(destination) != _plain(source):
            jobs.append(Job(source, destination))
    return jobs


def shard_of(jobs: Sequence[Job], folder: Path, number: int, total: int) -> list[Job]:
    """The jobs of one of `total` parts, of which the first has the number 1.

    The name of a destination in `folder` decides. So the part of a model is the same on every machine, whatever else is
    in the list: models that appear or disappear between the starts of two parts move no other model to another part.
    """
    import hashlib

    def part(job: Job) -> int:
        inner = str(job.destination)[len(str(folder)) :].replace(os.sep, "/").lstrip("/")
        return int.from_bytes(hashlib.sha256(os.fsencode(inner)).digest()[:8], "big") % total + 1

    return [job for job in jobs if part(job) == number]


def _plain(path: Path) -> str:
    """A form that is equal for two spellings of the same path; links are not followed."""
    return str(path) if is_address(path) else os.path.abspath(path)  # noqa: PTH100


def source_files(
    sources: Iterable[str],
    except_in: Path | None,
    from_format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[SourceFile]:
    """The files that the sources mean: the named files, those in and below a folder, and those that match a pattern.

    In a folder, these are the files with the extension of `from_format`, or of any format except text. Hidden files and
    the folder `except_in` are skipped. A folder without models is returned itself, so that its job reports this. The
    place of a file that matches a pattern is relative to the first folder that the pattern leaves open. The same is
    true in a store, with these options; there, a folder is a common beginning of object names.
    """
    extensions = extensions_in_folders(from_format)
    for text in sources:
        if is_address(path := path_of(text)):
            if except_in is None:  # it is only read
                yield SourceFile(path, Path(path.name))
            else:
                yield from _far(path.with_options(storage_options, 0), extensions, except_in)
        elif PATTERN & {*text} and not os.path.lexists(text):
            yield from _matches(text, extensions, except_in)
        else:
            yield from _inside(Path(text), Path(), extensions, except_in)


def _far(address: Address, extensions: Collection[str], except_in: Path) -> Iterator[SourceFile]:
    """The files that an address means: the file itself, those below it, or those that match a pattern.

    Raises: as `attempt` does.
    """
    from formats.tensordata.remote import stores
    from formats.tensordata.remote.stores import attempt

    is_pattern = bool(PATTERN & {*str(address)}) and address.scheme not in ("http", "https")
    base = address
    while is_pattern and PATTERN & {*str(base)}:
        base = base.parent
    fs, root = stores.filesystem_of(base)
    if not is_pattern and not (address.suffix.lower() not in extensions and address.is_dir()):
        yield SourceFile(address, Path(address.name))
        return
    _, pattern = stores.filesystem_of(address)
    names = attempt(address, lambda: fs.glob(pattern) if is_pattern else fs.find(root))
    excepted = f"{except_in}/"
    any_found = False
    for name in sorted(map(str, names)):
        inner = PurePosixPath(name.removeprefix(root).lstrip("/"))
        source = base / inner
        is_model = inner.suffix.lower() in extensions and not any(part.startswith(".") for part in inner.parts)
        if is_model and not str(source).startswith(excepted):
            any_found = True
            yield SourceFile(source, Path(inner))
    if not any_found:
        yield SourceFile(address, Path(address.name))


def listed_places(lines: Iterable[str]) -> Iterator[SourceFile]:
    """The files of a list, with a path on each line; a relative path keeps its folders.

    Raises: OptionError for a path without a name, such as `.`, and for a pipe, from which nothing may ever come.
    """
    for line in lines:
        if text := line.rstrip("\r\n"):
            path = path_of(text)
            if not path.name:
                raise OptionError(f"`list` names {text!r:.80}, which is a folder; it must name files")
            if is_stream(or_stream(path)):
                raise OptionError(f"`list` names {text!r:.80}, which is a pipe; name files")
            is_below = not is_address(path) and not path.is_absolute() and ".." not in path.parts
            yield SourceFile(path, path if is_below else Path(path.name))


def extensions_in_folders(from_format: str | None) -> set[str]:
    """The extensions of files in folders that are treated as models."""
    codecs = lookup.codecs() if from_format is None else (lookup.by_name(from_format),)
    named = from_format is not None
    return {extension for codec in codecs if named or not codec.is_text for extension in codec.extensions}


def _matches(pattern: str, extensions: Collection[str], except_in: Path | None) -> Iterator[SourceFile]:
    names, unread = _matching(pattern)
    fixed = Path(*takewhile(PATTERN.isdisjoint, Path(pattern).parts[:-1]))  # the folders before the first pattern
    for name in sorted(names | unread):
        path = Path(name)
        below = path.relative_to(fixed)
        if is_stream(or_stream(path)):  # nobody may ever write into it
            continue
        if name in unread or not _is_folder(path):  # the job of a folder that cannot be read reports this
            yield SourceFile(path, below)
        elif "**" not in Path(pattern).parts:  # this also finds folders and their content
            yield from _inside(path, below, extensions, except_in)
    if not (names or unread):
        yield SourceFile(Path(pattern), Path(Path(pattern).name))


def matching(pattern: str) -> dict[str, None]:
    """The files and folders that match a pattern, and the folders that cannot be read.

    As in shells, `**` means any folders below, but none behind a link, which may lead back; hidden ones match only a
    pattern that begins with a dot.
    """
    names, unread = _matching(pattern)
    return names | unread


def _matching(pattern: str) -> tuple[dict[str, None], dict[str, None]]:
    """What matches a pattern, and the folders that cannot be read."""
    drive, path = os.path.splitdrive(pattern)
    places = dict.fromkeys([drive + os.sep if path.startswith(("/", os.sep)) else drive])
    unread: dict[str, None] = {}
    parts = [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]
    for index, part in enumerate(parts, 1):
        steps = (_step(place, part, unread, is_last=index == len(parts)) for place in places)
        places = dict.fromkeys(name for names in steps for name in names)
    wants_folders = pattern.endswith(("/", os.sep))
    found = {name: None for name in places if name and (not wants_folders or os.path.isdir(name))}  # noqa: PTH112
    return found, unread


def _step(place: str, part: str, unread: dict[str, None], *, is_last: bool) -> Iterator[str]:
    """The paths in a place that match one part of a pattern; for `**` folders, and as the last part also files."""
    if part == "**":
        yield place
        waiting = [place]
        while waiting:
            folder = waiting.pop()
            for entry in _entries(folder, unread):
                name = os.path.join(folder, entry.name)  # noqa: PTH118 - `Path` would lose the form of the first place
                if entry.name.startswith("."):
                    continue
                if is_folder := entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                if is_folder or is_last:
                    yield name
    elif PATTERN & {*part}:
        for entry in _entries(place, unread):
            if fnmatch(entry.name, part) and (part.startswith(".") or not entry.name.startswith(".")):
                yield os.path.join(place, entry.name)  # noqa: PTH118
    elif _may_exist(name := os.path.join(place, part)):  # noqa: PTH118
        yield name


def _may_exist(name: str) -> bool:
    """Whether there is a file or folder of this name, or nobody may know: then its job reports this."""
    try:
        os.lstat(name)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def _entries(folder: str, unread: dict[str, None]) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing if it is none, or cannot be read, which `unread` keeps."""
    try:
        with os.scandir(folder or ".") as entries:
            return [*entries]
    except NotADirectoryError:
        return []
    except OSError:
        unread[folder] = None
        return []


def _is_folder(path: Path) -> bool:
    """Whether this is a folder; not if nobody may know, and then its job reports this."""
    return os.path.isdir(path)  # noqa: PTH112 - `Path.is_dir` raises


def _inside(path: Path, inner: Path, extensions: Collection[str], except_in: Path | None) -> Iterator[SourceFile]:
    """The files that a path means, below `inner`."""
    if not _is_folder(path):
        yield SourceFile(path, Path(path.name) if inner == Path() else inner)
        return
    excepted = None if except_in is None or is_address(except_in) else os.path.realpath(except_in)
    any_found = False
    unread: list[Path] = []
    for folder, names, files in os.walk(path, onerror=lambda error: unread.append(Path(error.filename))):
        names[:] = sorted(
            name for name in names if not name.startswith(".") and os.path.realpath(Path(folder, name)) != excepted
        )
        for name in sorted(files):
            if Path(name).suffix.lower() in extensions and not name.startswith("."):
                source = Path(folder, name)
                if is_stream(or_stream(source)):  # nobody may ever write into it
                    continue
                any_found = True
                yield SourceFile(source, inner / source.relative_to(path))
    for unreadable in unread:  # its job reports this
        any_found = True
        yield SourceFile(unreadable, inner / unreadable.relative_to(path))
    if not any_found:
        yield SourceFile(path, inner / path.name)


@contextmanager
def folders_of(jobs: Sequence[Job], folder: Path, *, parents: bool, dry_run: bool = False) -> Iterator[None]:
    """Make the folders that jobs write to for the context; at the end, remove new folders that are still empty.

    A dry run makes no folder, and only checks whether they could be made.

    Raises: FileNotFoundError if the parent of `folder` does not exist and `parents` is false;
    FileExistsError or NotADirectoryError if something else is in the way.
    """
    if is_address(folder):  # a store has no folders
        yield
        return
    made: list[Path] = []
    try:
        if parents:
            _make(folder.absolute().parent, made, dry_run)
        elif not folder.parent.exists():
            raise no_directory(folder.parent)
        for place in dict.fromkeys((folder, *(job.destination.parent for job in jobs))):
            _make(place, made, dry_run)
        yield
    finally:
        for path in reversed(made):
            with suppress(OSError):  # it is not empty
                path.rmdir()


def _make(folder: Path, made: list[Path], dry_run: bool) -> None:
    """Make the folder and its parents, or check that this is possible; add new ones to `made`, outer ones first."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    if missing and os.path.lexists(missing[-1]):
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder; name another destination", str(missing[-1]))
    for path in reversed(() if dry_run else missing):
        path.mkdir(exist_ok=True)
        made.append(path)
