"""The hidden files next to a model while it is written: their names, which model they belong to, and how to open them.

`.NAME.lock` exists while a process writes the model NAME, `.NAME.journal` while several files take their places,
`.NAME.undo` while an archive is changed in place. `.NAME.removed` is the graph of a model whose data files are removed.
A file `.NAME.RANDOM.tmp` will take its place, or has lost it. So the next process that writes the model NAME finds the
files that were left behind.

Anybody may have put a file of such a name there. So all of them are opened here: no link is followed, no pipe is waited
for, and a file must have the right owner, one name and a limited size.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, FormatError
from formats.tensordata.local.osio import FILE_FLAGS, OPEN_FLAGS, SYSTEM, LocalFile, Located, check_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_NAME_BYTES = 255  # the limit of filesystems
_DIGITS = 16
_LONGEST_ENDING = f".{'0' * _DIGITS}.journal"
_HIDDEN = re.compile(r"\..+\.(?:lock|journal|undo|removed|[0-9a-f]{16}\.tmp)", re.IGNORECASE | re.DOTALL)
_TEMPORARY = re.compile(rf"\.(.+)\.[0-9a-f]{{{_DIGITS}}}\.tmp", re.DOTALL)
_LINK_ERRORS = frozenset((errno.ELOOP, errno.EMLINK, getattr(errno, "EFTYPE", errno.ELOOP)))
_OVERFLOW_USER = Path("/proc/sys/kernel/overflowuid")


class Hidden(NamedTuple):
    """The journals in a folder, and its temporary files by the model that is in their names, in lower case."""

    journals: list[Path]
    temporaries: dict[str, list[Path]]


_listed: ContextVar[dict[Path, Hidden] | None] = ContextVar("what is hidden in the folders of a run", default=None)


class HiddenFileError(DecodeError):
    """A hidden file is damaged, or not one that this process may follow; everybody goes on without it, and says so."""


def hidden_path(path: Path, kind: str) -> Path:
    """The hidden file of that kind, such as "lock", of the model at `path`."""
    return path.with_name(f".{_stem(path.name)}.{kind}")


def undo_path(path: Path) -> Path:
    """The undo file of the file at `path`, which may be a link to it."""
    return hidden_path(Path(os.path.realpath(path)), "undo")


def temporary_path(path: Path) -> Path:
    """An unused name for a file that will become the model at `path`, or one of its companions."""
    return hidden_path(path, f"{os.urandom(_DIGITS // 2).hex()}.tmp")


def is_temporary(name: str, path: Path) -> bool:
    """Whether `name` is one that `temporary_path` returns."""
    return _is_temporary(name, _stem(path.name))


def is_hidden(name: str) -> bool:
    """Whether `name` can be that of a hidden file of some model."""
    return _HIDDEN.fullmatch(name) is not None


def is_path_text(text: str) -> bool:
    """Whether a text, perhaps a stranger's, can be a path: it has no zero byte and no half of a surrogate pair."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


@contextmanager
def told_as(path: Path) -> Iterator[None]:
    """A context in which system errors about hidden files name the model at `path`, and all say what to do."""
    try:
        with Located(path):
            yield
    except OSError as error:
        if not is_hidden(Path(str(error.filename)).name):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def hidden_in(folder: Path) -> Hidden:
    """The journals and temporary files in a folder, sorted; while folders are `listed_once`, those of the first look.

    Raises: OSError.
    """
    listed = _listed.get()
    if listed is None:
        return _list(folder)
    if folder not in listed:
        listed[folder] = _list(folder)
    return listed[folder]


def _list(folder: Path) -> Hidden:
    hidden = Hidden([], {})
    with os.scandir(folder) as entries:
        for name in sorted(entry.name for entry in entries if entry.name.startswith(".")):
            if name.endswith(".journal"):
                hidden.journals.append(folder / name)
            elif stem := _stem_of_temporary(name):
                hidden.temporaries.setdefault(stem, []).append(folder / name)
    return hidden


@contextmanager
def listed_once() -> Iterator[None]:
    """A context for work on many models, in which `hidden_in` lists each folder once.

    What another process leaves there meanwhile is not seen.
    """
    token = _listed.set({})
    try:
        yield
    finally:
        _listed.reset(token)


def temporaries(path: Path) -> list[Path]:
    """The files next to the model at `path` that have a name from `temporary_path`."""
    files = hidden_in(path.parent).temporaries.get(_stem(path.name).casefold(), [])
    return [file for file in files if os.path.lexists(file)]


def open_hidden(path: Path, max_bytes: int | None = None) -> LocalFile:
    """The hidden file at `path`, open for reading.

    Raises: HiddenFileError if it is a link, a pipe or the like, is larger than `max_bytes`, belongs to another user, or
    is another name of a file elsewhere; FileNotFoundError and other OSErrors.
    """
    try:
        descriptor = os.open(path, FILE_FLAGS | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno in _LINK_ERRORS or (not hasattr(os, "O_NOFOLLOW") and path.is_symlink()):
            raise HiddenFileError("this is a link; formats makes no such link, remove it", path=path) from None
        if error.errno in (errno.EACCES, errno.ENXIO, errno.EISDIR):  # ENXIO is a socket's
            raise HiddenFileError(f"it cannot be opened: {os.strerror(error.errno)}", path=path) from None
        if error.errno == errno.ENOTDIR:  # that is about the place of the model
            raise NotADirectoryError(error.errno, os.strerror(error.errno), str(path.parent)) from None
        raise
    try:
        check_regular(descriptor, path)
    except (FormatError, IsADirectoryError):
        raise HiddenFileError("this is not a file; formats makes no such thing, remove it", path=path) from None
    file = LocalFile(path, keep_open=True, capabilities=SYSTEM, descriptor=descriptor)
    status = os.fstat(descriptor)
    if not is_trusted(status.st_uid, path.parent):
        raise HiddenFileError("another user wrote this file; that user can repair the model", path=path)
    if status.st_nlink > 1 and status.st_nlink != _names_beside(path, status):
        raise HiddenFileError("this is a further name of another file; remove it", path=path)
    if max_bytes is not None and file.nbytes > max_bytes:
        raise HiddenFileError(f"it has {file.nbytes:,} bytes, more than formats writes; remove it", path=path)
    return file


def open_lock(path: Path) -> int:
    """A descriptor of the file of a lock that exists; whoever may write the model may lock it, whoever created it.

    Raises: OSError if it is a link or not a file, or cannot be opened.
    """
    flags = OPEN_FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_RDWR | flags)
    except PermissionError:  # of another user; some network filesystems lock no file that is open only for reading
        descriptor = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileExistsError(errno.EEXIST, "this is not a file; formats makes no such thing, remove it", str(path))
    return descriptor


def is_trusted(user: int, folder: Path) -> bool:
    """Whether a hidden file of that user in the folder may be followed: this user's, root's, the folder's owner's.

    In some folders, such as /tmp, everybody may make files, but nobody may replace the files of other users. Without
    this check, the hidden file of another user could make this process replace the files of this user. In a container
    whose users are mapped, one number stands for all users that are not; it says nothing about who owns a file.
    """
    if not hasattr(os, "geteuid") or user in (os.geteuid(), 0):
        return True
    return user != _unmapped_user() and user == folder.stat().st_uid


@cache
def _unmapped_user() -> int:
    try:
        return int(_OVERFLOW_USER.read_text("ascii"))
    except (OSError, ValueError):
        return 65534


def _names_beside(path: Path, status: os.stat_result) -> int:
    """The number of names of that file in its folder, of which one is `path` and the others are temporary."""
    stem = path.name[1:].rpartition(".")[0]
    count = 1
    for name in path.parent.iterdir():
        if _is_temporary(name.name, stem):
            with suppress(FileNotFoundError):  # another process has just removed it
                count += os.path.samestat(name.lstat(), status)
    return count


def _is_temporary(name: str, stem: str) -> bool:
    return _stem_of_temporary(name) == stem.casefold()


def _stem_of_temporary(name: str) -> str | None:
    """The model in a name from `temporary_path`, in lower case: some systems do not distinguish it from upper case."""
    temporary = _TEMPORARY.fullmatch(name)
    return temporary[1].casefold() if temporary else None


def _stem(name: str) -> str:
    """The name of a model, or a digest of it if the name would be too long in the name of another file."""
    if len(os.fsencode(f".{name}{_LONGEST_ENDING}")) <= MAX_NAME_BYTES:
        return name
    import hashlib

    return hashlib.sha256(os.fsencode(name)).hexdigest()
