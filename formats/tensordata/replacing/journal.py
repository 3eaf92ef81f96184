"""The journal of a model whose several files are taking their places.

All new files are complete, under hidden names, when the journal appears. The journal says which name each file will
get, and which hidden name the old file has until the end. So any process that finds it can complete or undo the change.

A journal is not trusted more than a model. `hidden` opens it, or refuses to. It may name only files in its own folder,
and hidden files only by names from `hidden`. A new file must have the size and the SHA-256 in the journal. A SHA-256
takes long; without it, the inode and samples of the content identify a new file, but only until the next start of the
system. Until then, a process may have been killed, but no written byte is lost. An old file is identified by its size,
its time and samples of its content: a time alone is not enough, because clocks jump, and neither is an inode, which is
used again, and which a copy of the folder does not have. Readers write nothing because of a journal.

If a model moves within its folder, its data files have their old names in place of hidden ones, and are identified like
old files: nothing was written to them. The graph with the old names goes first.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import DecodeError, EncodeError, FormatError
from formats.tensordata.file import File
from formats.tensordata.replacing.hidden import (
    MAX_NAME_BYTES,
    HiddenFileError,
    hidden_path,
    is_hidden,
    is_path_text,
    is_temporary,
    open_hidden,
)
from formats.tensordata.replacing.lock import boot

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
MAX_JOURNAL_BYTES = 16 << 20  # some ten thousand files
MAX_DIGITS = 20
BYTES_PER_VALUE = 16  # in a journal, at least; so what its JSON needs in memory is in proportion to its size
_HASHED_BYTES = 1 << 20
_SAMPLES, _SAMPLE_BYTES = 256, 4096  # a file of up to 1 MiB is read whole


class OldFile(NamedTuple):
    """A file that is replaced: its hidden name, and the values that show that nobody changed it."""

    name: str
    nbytes: int
    modified_ns: int
    sample: str | None


class GoingGraph(NamedTuple):
    """The graph of a model that moves to another name in its folder: it gets a hidden name, and is then removed."""

    name: str
    old: OldFile


class NewFile(NamedTuple):
    """A new file: the name that it will get, its name until then, and the values that identify it.

    Until then, its name is hidden, except if it moves from another name.
    """

    name: str
    new: str
    nbytes: int
    modified_ns: int
    inode: int
    sample: str | None
    sha256: str | None
    old: OldFile | None

    @property
    def is_moved(self) -> bool:
        """Whether the file is one that exists, and moves from another name."""
        return not is_hidden(self.new)


class Journal(NamedTuple):
    """The moves of the files. The last is the model; with companions in common, the last `models` files are models.

    `boot` identifies the last start of the system before the journal was written. If there are several models, the
    journal belongs to the last of them.
    """

    moves: tuple[NewFile, ...]
    boot: str
    models: int = 1
    goes: tuple[GoingGraph, ...] = ()

    def parts(self) -> tuple[tuple[NewFile, ...], tuple[NewFile, ...]]:
        """The companions, and the models."""
        return self.moves[: -self.models], self.moves[-self.models :]

    def encode(self) -> bytes:
        """The content of the journal's file.

        Raises: EncodeError if it is larger than a reader accepts.
        """
        import json

        files = [{**move._asdict(), "old": move.old and move.old._asdict()} for move in self.moves]
        content = {"journal": VERSION, "boot": self.boot, "files": files}
        if self.models > 1:
            content["models"] = self.models
        if self.goes:
            content["goes"] = [{"name": graph.name, "old": graph.old._asdict()} for graph in self.goes]
        encoded = json.dumps(content).encode()
        if len(encoded) > MAX_JOURNAL_BYTES:
            raise EncodeError(f"{len(self.moves):,} files are too many to take their places together")
        return encoded

    def is_new(self, move: NewFile, path: Path) -> bool:
        """Whether the file at `path` is the new file of `move`, complete."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != move.nbytes:
            return False
        if move.sha256 is not None:
            return sha256_of(path) == move.sha256
        same = move.is_moved or (status.st_ino, boot()) == (move.inode, self.boot)
        return same and status.st_mtime_ns == move.modified_ns and sample_of(path) == move.sample

    def is_old(self, move: NewFile | GoingGraph, path: Path) -> bool:
        """Whether the file at `path` is the replaced file, unchanged."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        if move.old is None or (status.st_size, status.st_mtime_ns) != (move.old.nbytes, move.old.modified_ns):
            return False
        return not stat.S_ISREG(status.st_mode) or sample_of(path) == move.old.sample


def journal_path(path: Path) -> Path:
    """The path of the journal of the model at `path`, while there is one."""
    return hidden_path(path, "journal")


def load_journal(path: Path) -> Journal | None:
    """The journal of the model at `path`, if there is one.

    Raises: HiddenFileError if it may not be followed, is damaged, or has content that no journal may have.
    """
    place = journal_path(path)
    try:
        journal = parsed(content_of(place), place)
    except FileNotFoundError:
        return None
    if journal.moves[-1].name != path.name:
        raise _damaged("its last file is not the model that it belongs to", place)
    return journal


def content_of(place: Path) -> bytes:
    """The content of a journal's file.

    Raises: HiddenFileError if it may not be followed; OSError if there is none.
    """
    file = open_hidden(place, MAX_JOURNAL_BYTES)
    return file.pread(0, file.nbytes)


def parsed(content: bytes, place: Path) -> Journal:
    """The journal with this content.

    Raises: HiddenFileError if it is damaged, or has content that no journal may have.
    """
    import json

    values = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    if values > 64 + len(content) // BYTES_PER_VALUE:
        raise _damaged("it has more values than a journal of its size", place)
    try:
        return _decoded(json.loads(content, parse_int=_integer))
    except DecodeError as error:
        raise _damaged(error.message, place) from None
    except (ValueError, RecursionError):
        raise _damaged("it is not JSON", place) from None


def _integer(digits: str) -> int:
    """The number; Python takes long for many digits."""
    if len(digits) > MAX_DIGITS:
        raise DecodeError("a number is out of range")
    return int(digits)


def _damaged(reason: str, place: Path) -> HiddenFileError:
    return HiddenFileError(f"this is not a journal, or it is damaged: {reason}", path=place)


def stamp(path: Path) -> tuple[int, int] | None:
    """The size in bytes and the time of the last change in ns of the file or link at `path`, if there is one."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def sample_of(path: Path) -> str | None:
    """The SHA-256 of a small file, or of parts of a large one, evenly spread from its beginning to its end.

    `None` if it may not be read.
    """
    import hashlib

    try:
        file = File.open(path)
    except (PermissionError, FormatError):
        return None
    digest = hashlib.sha256()
    if file.nbytes <= _SAMPLES * _SAMPLE_BYTES:
        digest.update(file.pread(0, file.nbytes))
    else:
        last = file.nbytes - _SAMPLE_BYTES
        for offset in (last * index // (_SAMPLES - 1) for index in range(_SAMPLES)):
            digest.update(file.pread(offset, _SAMPLE_BYTES))
    file.close()
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    import hashlib

    digest = hashlib.sha256()
    file = File.open(path)
    for offset in range(0, file.nbytes, _HASHED_BYTES):
        digest.update(file.pread(offset, min(_HASHED_BYTES, file.nbytes - offset)))
    return digest.hexdigest()


def _decoded(content: Any) -> Journal:
    if not isinstance(content, dict) or content.keys() - {"models", "goes"} != {"journal", "boot", "files"}:
        raise DecodeError("it has other fields")
    if content["journal"] != VERSION:
        raise DecodeError(
            f"its version is {content['journal']!r:.40}, and {VERSION} is the version that this program reads"
        )
    goes = content.get("goes", [])
    if not isinstance(content["boot"], str) or not (isinstance(content["files"], list) and isinstance(goes, list)):
        raise DecodeError("a field has another type")
    if not content["files"]:
        raise DecodeError("it has no files")
    last = content["files"][-1]
    path = Path(_plain_name(last.get("name") if isinstance(last, dict) else None))
    moves = tuple(_move(item, path) for item in content["files"])
    going = tuple(_going(item, path) for item in goes)
    names = [name for move in moves for name in (move.name, move.new, move.old and move.old.name) if name is not None]
    names += [name for graph in going for name in (graph.name, graph.old.name)]
    if len({name.casefold() for name in names}) != len(names):
        raise DecodeError("two files have the same name")
    models = _number(content.get("models", 1))
    if not 1 <= models <= len(moves):
        raise DecodeError(f"it has {len(moves)} files, and cannot speak of {models} models")
    journal = Journal(moves, content["boot"], models, going)
    if any(move.is_moved for move in (journal.parts()[1] if going else moves)):
        raise DecodeError("a file moves, and only the data files of a graph that goes do that")
    return journal


def _going(item: Any, path: Path) -> GoingGraph:
    values = _fields(item, GoingGraph._fields)
    return GoingGraph(_plain_name(values["name"]), _old(values["old"], path))


def _move(item: Any, path: Path) -> NewFile:
    old = _fields(item, NewFile._fields)["old"]
    if old is not None:
        old = _old(old, path)
    sample, sha256 = _digest(item["sample"]), _digest(item["sha256"])
    nbytes, modified_ns, inode = (_number(item[name]) for name in ("nbytes", "modified_ns", "inode"))
    name, new = _plain_name(item["name"]), item["new"]
    new = _plain_name(new) if isinstance(new, str) and not is_hidden(new) else _hidden_name(new, path)
    return NewFile(name, new, nbytes, modified_ns, inode, sample, sha256, old)


def _old(item: Any, path: Path) -> OldFile:
    values = _fields(item, OldFile._fields)
    times = _number(values["nbytes"]), _number(values["modified_ns"])
    return OldFile(_hidden_name(values["name"], path), *times, _digest(values["sample"]))


def _digest(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and len(value) == 64):
        raise DecodeError("a SHA-256 has 64 digits")
    return value


def _fields(item: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(item, dict) or item.keys() != set(names):
        raise DecodeError("a file has other fields")
    return item


def _plain_name(name: Any) -> str:
    """The name of a file next to the model; it must not be a name that only this program uses."""
    wrong = not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\")
    if wrong or is_hidden(name) or len(name) > MAX_NAME_BYTES or not is_path_text(name):
        raise DecodeError(f"{name!r:.80} is not the name of a file next to the model")
    return str(name)


def _hidden_name(name: Any, path: Path) -> str:
    if not isinstance(name, str) or not is_temporary(name, path):
        raise DecodeError(f"{name!r:.80} is not the name of a temporary file of this model")
    return name


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 64:
        raise DecodeError(f"{value!r:.40} is not a number of bytes, an inode or a time")
    return value
