"""Names of archive entries: which ones are allowed, and which one a tensor gets.

A name is a C identifier, so that it is a file name on every system and a variable in every language, and is never a
path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from formats.tensordata.local.osio import DEVICE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

MODEL_NAME = "__MODEL_PROTO"
MAX_NAME_BYTES = 255  # the limit of file systems
CUT_BYTES = 128  # the limit of the writer; the rest is for suffixes

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALLOWED = re.compile(r"(?!__)" + _IDENTIFIER.pattern)
_REPLACED = re.compile(r"[^A-Za-z0-9]+")


def is_entry_name(name: str) -> bool:
    """Whether an entry may have this name: the graph's, or any C identifier that is no device and has no `__` first."""
    if name == MODEL_NAME:
        return True
    return len(name) <= MAX_NAME_BYTES and bool(_ALLOWED.fullmatch(name)) and name.lower() not in DEVICE_NAMES


def broken_by_name(name: str) -> str | None:
    """The requirement of docs/onnxz.md that a name breaks, if it breaks one."""
    if is_entry_name(name):
        return None
    if not _IDENTIFIER.fullmatch(name):
        return "Z-4.2"
    if len(name) > MAX_NAME_BYTES:
        return "Z-4.3"
    return "Z-4.4" if name.startswith("__") else "Z-4.5"


class EntryNames:
    """Gives every tensor a name that no other has, even if case is ignored."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*DEVICE_NAMES, *(name.lower() for name in taken)}
        self._next_suffix: dict[str, int] = {}

    def add(self, *wishes: str) -> str:
        """A new name similar to the first of `wishes` with a usable character, with a number if it is taken.

        It never ends in "_", so that a name with an additional "_" is still unique.
        """
        stem = name = next((stem for wish in wishes if (stem := _identifier(wish))), "tensor")
        while (key := name.lower()) in self._taken:
            number = self._next_suffix.get(stem.lower(), 2)
            self._next_suffix[stem.lower()] = number + 1
            name = f"{stem}_{number}"
        self._taken.add(key)
        return name


def _identifier(wish: str) -> str:
    """`wish` with every sequence of other characters as one "_", cut to the limit; empty if nothing is left."""
    text = _REPLACED.sub("_", wish[: 2 * CUT_BYTES]).strip("_")[:CUT_BYTES].rstrip("_")
    return f"_{text}" if text[:1].isdigit() else text
