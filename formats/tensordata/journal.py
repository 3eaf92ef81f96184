"""The journal of a model whose several files are taking their places, and models that are read in the meantime.

All new files are complete, under hidden names, when the journal appears. The journal says which name each file will
get, and which hidden name the old file has until the end. So any process that finds it can complete or undo the change.

A journal is not trusted more than a model. It may name only files in its own folder, and hidden files only by names
from `hidden`. A new file must have the size and the SHA-256 in the journal. A SHA-256 takes long; without it, the
inode identifies a new file, but only until the next start of the system. Until then, a process may have been killed,
but no written byte is lost. Readers write nothing because of a journal.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.errors import DecodeError, FormatError, TensorDataError
from formats.tensordata.file import File, is_address, is_stream
from formats.tensordata.hidden import hidden_path, is_temporary
from formats.tensordata.lock import is_locked
from formats.tensordata.osio import SYSTEM, LocalFile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

VERSION = 1
MAX_JOURNAL_BYTES = 64 << 20  # some hundred thousand files
OPEN_ATTEMPTS = 200  # a file takes its place within milliseconds, or seconds on a slow disk
OPEN_WAIT_SECONDS = 0.02
READ_WAITS = (
    0.0,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    1.0,
)  # the wait before a replaced file is read again, in seconds
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_HASHED_BYTES = 1 << 20


class Old(NamedTuple):
    """A file that is replaced: its hidden name, and the values that show that nobody changed it."""

    name: str
    nbytes: int
    modified_ns: int


class Move(NamedTuple):
    """A new file: the name that it will get, its hidden name until then, and the values that identify it."""

    name: str
    new: str
    nbytes: int
    modified_ns: int
    inode: int
    sha256: str | None
    old: Old | None


class Journal(NamedTuple):
    """The moves of the files. The last is the model; with companions in common, the last `models` files are models.

    `boot` identifies the last start of the system before the journal was written. If there are several models, the
    journal belongs to the last of them.
    """

    moves: tuple[Move, ...]
    boot: str
    models: int = 1

    def parts(self) -> tuple[tuple[Move, ...], tuple[Move, ...]]:
        """The companions, and the models."""
        return self.moves[: -self.models], self.moves[-self.models :]

    def encode(self) -> bytes:
        """The content of the journal's file."""
        import json

        files = [{**move._asdict(), "old": move.old and move.old._asdict()} for move in self.moves]
        content = {"journal": VERSION, "boot": self.boot, "files": files}
        if self.models > 1:
            content["models"] = self.models
        return json.dumps(content, indent=1).encode()

    def is_new(self, move: Move, path: Path) -> bool:
        """Whether the file at `path` is the new file of `move`, complete."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(status.st_mode) or status.st_size != move.nbytes:
            return False
        if move.sha256 is not None:
            return sha256_of(path) == move.sha256
        return (status.st_ino, status.st_mtime_ns, boot()) == (move.inode, move.modified_ns, self.boot)

    def is_old(self, move: Move, path: Path) -> bool:
        """Whether the file at `path` is the replaced file, unchanged."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        return move.old is not None and (status.st_size, status.st_mtime_ns) == move.old[1:]


def journal_path(path: Path) -> Path:
    """The path of the journal of the model at `path`, while there is one."""
    return hidden_path(path, "journal")


def owner_of(path: Path) -> Path | None:
    """The owner of the journal that names the model at `path`: this model, or another one in the same folder."""
    if journal_path(path).exists():
        return path
    with suppress(OSError):
        for beside in sorted(path.parent.glob(".*.journal")):
            other = path.with_name(beside.name[1 : -len(".journal")])
            with suppress(DecodeError):
                journal = load_journal(other)
                if journal is not None and path.name in (model.name for model in journal.parts()[1]):
                    return other
    return None


def load_journal(path: Path) -> Journal | None:
    """The journal of the model at `path`, if there is one.

    Raises: DecodeError if it is damaged, or has content that no journal may have.
    """
    place = journal_path(path)
    try:
        file = File.open(place)
    except FileNotFoundError:
        return None
    import json

    try:
        return _decoded(json.loads(file.pread(0, min(file.nbytes, MAX_JOURNAL_BYTES))), path)
    except DecodeError as error:
        raise DecodeError(f"this is not a journal, or it is damaged: {error.message}", path=place) from None
    except (ValueError, RecursionError):
        raise DecodeError("this is not a journal, or it is damaged: it is not JSON", path=place) from None


def stamp(path: Path) -> tuple[int, int] | None:
    """The size in bytes and the time of the last change in ns of the file or link at `path`, if there is one."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    import hashlib

    digest = hashlib.sha256()
    file = File.open(path)
    for offset in range(0, file.nbytes, _HASHED_BYTES):
        digest.update(file.pread(offset, min(_HASHED_BYTES, file.nbytes - offset)))
    return digest.hexdigest()


def boot() -> str:
    """A value that differs after each start of the system, if the system has one."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def is_interrupted(path: Path) -> bool:
    """Whether an interrupted write of the model at `path` left work to do."""
    if is_address(path) or is_stream(path):  # nothing is visible there before it is complete
        return False
    places = dict.fromkeys((path, Path(os.path.realpath(path))))
    left = any(hidden_path(place, "undo").exists() or owner_of(place) is not None for place in places)
    return left and not any(is_locked(place) for place in places)


def check_owner(path: Path) -> None:
    """Check that this user, root or the owner of the folder wrote the journal of the model at `path`.

    In some folders, such as /tmp, everybody may make files, but nobody may replace the files of other users. Without
    this check, the journal of another user could make this process replace the files of this user.

    Raises: DecodeError if another user wrote it.
    """
    if not hasattr(os, "geteuid"):
        return
    place = journal_path(path)
    if place.lstat().st_uid not in (os.geteuid(), 0, place.parent.stat().st_uid):
        raise DecodeError("another user wrote this journal; that user can repair the model", path=place)


def open_model(path: Path) -> File:
    """The file of the model at `path`; if it is absent because several files take their places, the new file.

    The new file has the hidden names of its companions in `moved`. If a process is about to put the new file in its
    place, this function waits for that.

    Raises: FileNotFoundError and others as `File.open` does.
    """
    for _ in range(OPEN_ATTEMPTS):
        try:
            return File.open(path)
        except FileNotFoundError:
            where, owner = path, owner_of(path)
            if owner is None:
                where = Path(os.path.realpath(path))
                owner = owner_of(where)
            if owner is None:
                break
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


def read_steadily(path: Path, read: Callable[[File], T]) -> T:
    """The result of `read` for the model at `path`; neither the model nor a companion was replaced meanwhile.

    Raises: TensorDataError if a file is replaced again and again; the errors of `open_model` and `read`.
    """
    for seconds in READ_WAITS:
        file = open_model(path)
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
    file = LocalFile(path.with_name(moved[path.name]), keep_open=True, capabilities=SYSTEM)
    file.moved = moved
    return file


def _decoded(content: Any, path: Path) -> Journal:
    if not isinstance(content, dict) or content.keys() - {"models"} != {"journal", "boot", "files"}:
        raise DecodeError("it has other fields")
    if content["journal"] != VERSION:
        raise DecodeError(
            f"its version is {content['journal']!r:.40}, and {VERSION} is the version that this program reads"
        )
    if not isinstance(content["boot"], str) or not isinstance(content["files"], list):
        raise DecodeError("a field has another type")
    moves = tuple(_move(item, path) for item in content["files"])
    names = [move.name.casefold() for move in moves]
    hidden = [name for move in moves for name in (move.new, move.old and move.old.name) if name is not None]
    if len({*names, *hidden}) != len(names) + len(hidden):
        raise DecodeError("two files have the same name")
    if not moves or moves[-1].name != path.name:
        raise DecodeError("its last file is not the model that it belongs to")
    models = _number(content.get("models", 1))
    if not 1 <= models <= len(moves):
        raise DecodeError(f"it has {len(moves)} files, and cannot speak of {models} models")
    return Journal(moves, content["boot"], models)


def _move(item: Any, path: Path) -> Move:
    old = _fields(item, Move._fields)["old"]
    if old is not None:
        values = _fields(old, Old._fields)
        old = Old(_hidden_name(values["name"], path), _number(values["nbytes"]), _number(values["modified_ns"]))
    sha256 = item["sha256"]
    if sha256 is not None and not (isinstance(sha256, str) and len(sha256) == 64):
        raise DecodeError("a SHA-256 has 64 digits")
    nbytes, modified_ns, inode = (_number(item[name]) for name in ("nbytes", "modified_ns", "inode"))
    name, new = _plain_name(item["name"], path), _hidden_name(item["new"], path)
    return Move(name, new, nbytes, modified_ns, inode, sha256, old)


def _fields(item: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(item, dict) or item.keys() != set(names):
        raise DecodeError("a file has other fields")
    return item


def _plain_name(name: Any, path: Path) -> str:
    """The name of a file next to the model; it must not be a name that only this program uses."""
    wrong = not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0")
    if wrong or is_temporary(name, path) or path.with_name(name) == journal_path(path):
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
