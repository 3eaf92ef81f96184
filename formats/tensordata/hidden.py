"""The hidden files next to a model while it is written: how they are called, and whose they are.

`.NAME.lock` is there while somebody writes the model NAME, `.NAME.journal` while several files take their places,
`.NAME.undo` while an archive is changed where it is. Files called `.NAME.RANDOM.tmp` are on their way to a place, or
out of it; whoever writes the model NAME next so knows what was left behind.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_NAME_BYTES = 255  # what filesystems allow
_DIGITS = 16
_LONGEST_ENDING = f".{'0' * _DIGITS}.journal"


def hidden_path(path: Path, kind: str) -> Path:
    """The hidden file of that kind, such as "lock", of the model at `path`."""
    return path.with_name(f".{_stem(path.name)}.{kind}")


def temporary_path(path: Path) -> Path:
    """A name that nothing has, for a file on its way to the model at `path`, or to one of its companions."""
    return hidden_path(path, f"{os.urandom(_DIGITS // 2).hex()}.tmp")


def is_temporary(name: str, path: Path) -> bool:
    """Whether `name` is one that `temporary_path` gives."""
    return _is_temporary(name, _stem(path.name))


def temporaries(path: Path) -> list[Path]:
    """What is next to the model at `path` under a name that `temporary_path` gives."""
    stem = _stem(path.name)
    return [beside for beside in path.parent.iterdir() if _is_temporary(beside.name, stem)]


def _is_temporary(name: str, stem: str) -> bool:
    begin, end = name[: -_DIGITS - 4], name[-_DIGITS - 4 :]  # some systems do not tell upper case from lower
    return begin.casefold() == f".{stem}.".casefold() and re.fullmatch(r"[0-9a-f]+\.tmp", end) is not None


def _stem(name: str) -> str:
    """The name of a model, or where that would be too long in the name of another file, a digest of it."""
    if len(os.fsencode(f".{name}{_LONGEST_ENDING}")) <= MAX_NAME_BYTES:
        return name
    import hashlib

    return hashlib.sha256(os.fsencode(name)).hexdigest()
