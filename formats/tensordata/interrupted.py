"""Models that are read while their files take their places, or after a process was killed that placed them.

A folder may contain journals of strangers, any number and of any size. Only those that name the model are parsed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, TypeVar

from formats.errors import DecodeError, FormatError, TensorDataError
from formats.tensordata.file import File, is_address, is_stream
from formats.tensordata.local.osio import SYSTEM, LocalFile
from formats.tensordata.replacing.hidden import HiddenFileError, hidden_in, hidden_path, open_hidden
from formats.tensordata.replacing.journal import MAX_JOURNAL_BYTES, content_of, journal_path, load_journal, parsed
from formats.tensordata.replacing.lock import is_locked
from formats.tensordata.replacing.publication import is_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

MAX_FOUND_BYTES = 64 << 20  # of all journals in a folder that are read for one model
MAX_STRANGE = 10  # hidden files that are told, of a folder that somebody may have filled with them
MAX_FOUND = 1000  # journals in a folder that are looked at for one model
OPEN_ATTEMPTS = 200  # a file takes its place within milliseconds, or seconds on a slow disk
MISSES = 3  # after so many looks without a model and a journal, there is none
OPEN_WAIT_SECONDS = 0.02
# The wait before a replaced file is read again, in seconds.
READ_WAITS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.0)

_told: ContextVar[set[Path] | None] = ContextVar("the folders whose journals were told", default=None)


def owner_of(path: Path) -> Path | None:
    """The owner of the journal that names the graph at `path`: this model, or another one in the same folder.

    Journals that are damaged or may not be followed do not count: a stranger may have put them there.
    """
    if not path.name:  # . and / are folders
        return None
    rest = MAX_FOUND_BYTES
    own = journal_path(path)
    for place in (own, *_journals_beside(path)) if os.path.lexists(own) else _journals_beside(path):
        with suppress(DecodeError, OSError):
            content = content_of(place)
            rest -= len(content)
            if rest < 0:
                break
            if place == own:
                parsed(content, place)
                return path
            if _quoted(path.name) not in content:  # it cannot concern this model
                continue
            journal = parsed(content, place)
            owner = path.with_name(journal.moves[-1].name)
            names = {*(model.name for model in journal.parts()[1]), *(graph.name for graph in journal.goes)}
            if journal_path(owner) == place and path.name in names:
                return owner
    return None


def is_interrupted(path: Path) -> bool:
    """Whether an interrupted write of the model at `path` left work to do.

    A killed process leaves its locks, so that without the file of one, nobody needs to search the folder.
    """
    if is_address(path) or is_stream(path):  # nothing is visible there before it is complete
        return False
    places = dict.fromkeys((path, Path(os.path.realpath(path))))
    left = [place for place in places if is_left(place)]
    has_work = any(_can_be_followed(hidden_path(place, "undo")) or owner_of(place) is not None for place in left)
    return has_work and not any(is_locked(place) for place in places)


def open_model_file(path: Path) -> File:
    """The file of the model at `path`; if it is absent because several files take their places, the new file.

    The new file has the hidden names of its companions in `moved`. If a process is about to put the new file in its
    place, this function waits for that.

    Raises: FileNotFoundError and others as `File.open` does.
    """
    misses = 0  # a write may have ended, and the next one begun, between the two looks at the folder
    for _ in range(OPEN_ATTEMPTS):
        try:
            return File.open(path)
        except FileNotFoundError:
            where, owner = path, owner_of(path)
            if owner is None:
                where = Path(os.path.realpath(path))
                owner = owner_of(where)
            if owner is None:
                misses += 1
                if misses == MISSES:
                    break
                continue
        if is_locked(owner):
            sleep(OPEN_WAIT_SECONDS)
            continue
        try:
            if file := _open_new(where, owner):
                return file
        except FileNotFoundError:  # it was moved in between
            continue
        break
    return File.open(path)


def read_model_steadily(path: Path, read: Callable[[File], T]) -> T:
    """The result of `read` for the model at `path`; neither the model nor a companion was replaced meanwhile.

    Raises: TensorDataError if a file is replaced again and again; the errors of `open_model_file` and `read`.
    """
    for seconds in READ_WAITS:
        file = open_model_file(path)
        try:
            result = read(file)
        except (FormatError, OSError):
            if file.is_current():
                raise
        else:
            if file.is_current():
                return result
        sleep(seconds)
    raise TensorDataError("other processes keep replacing the model while it is read; run the command again", path=path)


def _open_new(path: Path, owner: Path) -> File | None:
    """The new file of the model at `path`, if the journal of `owner` is valid and all its files are as it says."""
    try:
        journal = load_journal(owner)
    except DecodeError:
        return None
    if journal is None:
        return None
    moved = {}
    for move in journal.moves:
        if journal.is_new(move, path.with_name(move.new)):
            moved[move.name] = move.new
        elif not journal.is_new(move, path.with_name(move.name)):
            return None
    if path.name not in moved:
        return None
    place = path.with_name(moved[path.name])
    file = LocalFile(place, keep_open=True, capabilities=SYSTEM)
    if not file.is_at(place.lstat()):  # another process has put a link there
        file.close()
        return None
    file.moved = moved
    return file


def strange_files(path: Path) -> list[HiddenFileError]:
    """What is wrong with hidden files that may concern the model at `path`, and are damaged or may not be followed.

    There are at most `MAX_STRANGE`. Another model's journal is not parsed; a look at that model tells whether it is
    damaged. While others are `told_once`, they are only those of the first model in a folder.
    """
    if is_address(path) or is_stream(path):
        return []
    own = hidden_path(Path(os.path.realpath(path)), "undo"), journal_path(path)
    told = _told.get()
    others = [] if told is not None and path.parent in told else _journals_beside(path)
    if told is not None:
        told.add(path.parent)
    places = dict.fromkeys((*own, *others))
    errors = (
        _strange(place) or (_damage(place) if place in own and os.path.lexists(place) else None) for place in places
    )
    return [*islice(filter(None, errors), MAX_STRANGE)]


@contextmanager
def told_once() -> Iterator[None]:
    """A context for a look at many models, in which `strange_files` searches each folder once."""
    token = _told.set(set())
    try:
        yield
    finally:
        _told.reset(token)


def _damage(place: Path) -> HiddenFileError | None:
    """Why the content of a journal or an undo file is not one, if it is not."""
    try:
        if place.suffix == ".journal":
            parsed(content_of(place), place)
        else:
            from formats.tensordata.replacing.tail_replacement import load_undo

            load_undo(place)
    except HiddenFileError as error:
        return error
    except (FormatError, OSError):  # it has just been removed or changed
        return None
    return None


def _can_be_followed(place: Path) -> bool:
    return os.path.lexists(place) and _strange(place) is None


def _strange(place: Path) -> HiddenFileError | None:
    """Why the hidden file may not be followed, if there is one that may not."""
    try:
        open_hidden(place, MAX_JOURNAL_BYTES if place.suffix == ".journal" else None).close()
    except HiddenFileError as error:
        return error
    except OSError:  # there is none, or it has just been removed
        return None
    return None


def _journals_beside(path: Path) -> list[Path]:
    """The journals in the folder of `path`, up to a number that no folder has by itself."""
    with suppress(OSError):
        return hidden_in(path.parent).journals[:MAX_FOUND]
    return []


def _quoted(name: str) -> bytes:
    """The name as it is in the JSON of a journal."""
    import json

    return json.dumps(name).encode()
