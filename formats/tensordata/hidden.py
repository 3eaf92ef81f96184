"""The hidden files next to a model while it is written: their names, and which model they belong to.

`.NAME.lock` exists while a process writes the model NAME, `.NAME.journal` while several files take their places,
`.NAME.undo` while an archive is changed in place. A file `.NAME.RANDOM.tmp` will take its place, or has lost it. So the
next process that writes the model NAME finds the files that were left behind.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_NAME_BYTES = 255  # the limit of filesystems
_DIGITS = 16
_LONGEST_ENDING = f".{'0' * _DIGITS}.journal"


def hidden_path(path: Path, kind: str) -> Path:
    """The hidden file of that kind, such as "lock", of the model at `path`."""
    return path.with_name(f".{_stem(path.name)}.{kind}")


def temporary_path(path: Path) -> Path:
    """An unused name for a file that will become the model at `path`, or one of its companions."""
    return hidden_path(path, f"{os.urandom(_DIGITS // 2).hex()}.tmp")


def is_temporary(name: str, path: Path) -> bool:
    """Whether `name` is one that `temporary_path` returns."""
    return _is_temporary(name, _stem(path.name))


def temporaries(path: Path) -> list[Path]:
    """The files next to the model at `path` that have a name from `temporary_path`."""
    stem = _stem(path.name)
    return [beside for beside in path.parent.iterdir() if _is_temporary(beside.name, stem)]


def _is_temporary(name: str, stem: str) -> bool:
    begin, end = (
        name[: -_DIGITS - 4],
        name[-_DIGITS - 4 :],
    )  # some systems do not distinguish upper case from lower case
    return begin.casefold() == f".{stem}.".casefold() and re.fullmatch(r"[0-9a-f]+\.tmp", end) is not None


def _stem(name: str) -> str:
    """The name of a model, or a digest of it if the name would be too long in the name of another file."""
    if len(os.fsencode(f".{name}{_LONGEST_ENDING}")) <= MAX_NAME_BYTES:
        return name
    import hashlib

    return hashlib.sha256(os.fsencode(name)).hexdigest()
