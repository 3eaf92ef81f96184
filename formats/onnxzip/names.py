"""Names of archive entries: which ones are allowed, what each means, and which one a tensor gets.

The name of a tensor is a C identifier, so that it is a file name on every system and a variable in every language, and
is never a path.

Spec: docs/onnxz.md, section 4.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

from formats.errors import OptionError
from formats.tensordata.local.osio import DEVICE_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

MODEL_NAME = "__MODEL_PROTO"  # the default graph
MODEL_PREFIX = "__MODEL_PROTO_"  # before the name of any other graph
HASHES_NAME = "__SHA256SUMS"
FILES_PREFIX = "files/"
HASH_DIGITS = 64  # of a SHA-256
MAX_NAME_BYTES = 255  # the limit of file systems
CUT_BYTES = 128  # the limit of the writer; the rest is for suffixes

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ALLOWED = re.compile(r"(?!__)" + _IDENTIFIER.pattern)
_GRAPH = re.compile(rf"{MODEL_NAME}(?:_[A-Za-z0-9_]+)?")
_COMPONENT = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_-])?"
_FILE = re.compile(rf"{FILES_PREFIX}{_COMPONENT}(?:/{_COMPONENT})*")
_REPLACED = re.compile(r"[^A-Za-z0-9]+")


class EntryKind(IntEnum):
    """What an entry is; the entries of an archive are in this order."""

    TENSOR = 0
    FILE = 1
    HASHES = 2
    GRAPH = 3
    DEFAULT = 4  # the default graph


def entry_kind(name: str) -> EntryKind:
    """What an entry with this name is, if the name is allowed."""
    if name.startswith("__"):
        return EntryKind.HASHES if name == HASHES_NAME else EntryKind.DEFAULT if name == MODEL_NAME else EntryKind.GRAPH
    return EntryKind.FILE if name.startswith(FILES_PREFIX) else EntryKind.TENSOR


def model_name_of(name: str) -> str | None:
    """The name of the model whose graph is the entry with this name; `None` for the default one."""
    return None if name == MODEL_NAME else name.removeprefix(MODEL_PREFIX)


def entry_of(model: str | None) -> str:
    """The name of the entry of the graph of a model."""
    return MODEL_NAME if model is None else MODEL_PREFIX + model


def is_tensor_name(name: str) -> bool:
    """Whether a tensor's entry may have this name: any C identifier that is no device and has no `__` first."""
    return len(name) <= MAX_NAME_BYTES and bool(_ALLOWED.fullmatch(name)) and name.lower() not in DEVICE_NAMES


def is_entry_name(name: str) -> bool:
    """Whether an entry may have this name."""
    return is_tensor_name(name) or broken_by_name(name) is None


def are_entry_names(names: Sequence[str]) -> bool:
    """Whether entries may have these names, as `is_entry_name` says of each; for a long list in a third of the time."""
    plain = [name for name in names if not name.startswith(("__", FILES_PREFIX))]
    return (
        "".join(plain).isascii()
        and all(map(str.isidentifier, plain))
        and max(map(len, plain), default=0) <= MAX_NAME_BYTES
        and DEVICE_NAMES.isdisjoint(map(str.lower, plain))
        and all(broken_by_name(name) is None for name in names if name.startswith(("__", FILES_PREFIX)))
    )


def broken_by_name(name: str) -> str | None:
    """The requirement of docs/onnxz.md that a name breaks, if it breaks one."""
    if len(name) > MAX_NAME_BYTES:
        return "Z-4.3"
    if name.startswith("__") and _IDENTIFIER.fullmatch(name):
        return None if name == HASHES_NAME or _GRAPH.fullmatch(name) else "Z-4.4"
    if name.startswith(FILES_PREFIX):
        if not _FILE.fullmatch(name):
            return "Z-4.7"
        components = name.removeprefix(FILES_PREFIX).split("/")
    elif not _IDENTIFIER.fullmatch(name):
        return "Z-4.2"
    else:
        components = [name]
    return "Z-4.5" if any(name.lower().partition(".")[0] in DEVICE_NAMES for name in components) else None


def broken_by_names(names: Sequence[str]) -> tuple[str, str] | None:
    """The requirement that allowed names break together, and how, if they break one."""
    in_folders = [name for name in names if "/" in name]
    distinct = {*(names if all(map(str.islower, names)) else map(_lower, names))}
    seen: dict[str, str] = {}
    for name in names if in_folders or len(distinct) < len(names) else ():
        if other := seen.get(_lower(name)):
            return "Z-4.6", f"two entries are called {other} and {name}, which some systems cannot distinguish"
        seen[_lower(name)] = name
    for name in in_folders:
        folder, slash, _ = name.lower().rpartition("/")
        while slash:
            if folder in seen:
                return "Z-4.8", f"an entry is called {seen[folder]}, which is the folder of {name}"
            folder, slash, _ = folder.rpartition("/")
    if not names or entry_kind(names[-1]) < EntryKind.GRAPH:
        return "Z-4.1", f"the last entry is not {MODEL_NAME} or {MODEL_PREFIX}NAME, so this is not an .onnxz archive"
    last_part = EntryKind.TENSOR
    for name in names:
        part = entry_kind(name)
        if part < last_part:
            return "Z-4.9", f"entry {name} must come earlier: tensors, files, {HASHES_NAME}, graphs, {MODEL_NAME}"
        last_part = part
    return None


def hashes_nbytes(names: Iterable[str]) -> int:
    """The size of the entry with the hashes of entries with these names."""
    return sum(HASH_DIGITS + 2 + len(name) + 1 for name in names)


class EntryNames:
    """Gives every tensor a name that no other has, even if case is ignored."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*DEVICE_NAMES, FILES_PREFIX[:-1], *map(_lower, taken)}
        self._next_suffix: dict[str, int] = {}

    def add(self, *wishes: str) -> str:
        """A new name similar to the first of `wishes` with a usable character, with a number if it is taken.

        It never ends in "_", so that a name with an additional "_" is still unique.
        """
        for wish in wishes:
            if stem := _identifier(wish):
                break
        else:
            stem = "tensor"
        name = stem
        while (key := name.lower()) in self._taken:
            number = self._next_suffix.get(stem.lower(), 2)
            self._next_suffix[stem.lower()] = number + 1
            name = f"{stem}_{number}"
        self._taken.add(name if key == name else key)  # no copy: there may be very many
        return name


def _lower(name: str) -> str:
    """The name without capitals, and no copy if it has none: there may be very many."""
    lower = name.lower()
    return name if lower == name else lower


def _identifier(wish: str) -> str:
    """`wish` with every sequence of other characters as one "_", cut to the limit; empty if nothing is left."""
    text = "_".join(_REPLACED.split(wish[: 2 * CUT_BYTES])).strip("_")[:CUT_BYTES].rstrip("_")
    return f"_{text}" if text[:1].isdigit() else text


def chosen_model(names: Collection[str | None], model: str | None) -> str | None:
    """The name that `model` means among those of the models of an archive: for `None`, the default or the only one.

    Raises: OptionError if there is no such model, or one must be chosen.
    """
    if model in names:
        return model
    if model is None and len(names) == 1:
        (only,) = names
        return only
    listed = ", ".join(sorted(name for name in names if name is not None))
    if model is None:
        raise OptionError(f"the archive has several models and no default one; choose with `model`: {listed}")
    there_are = f"there are {listed}" if listed else "it has only one, without a name"
    raise OptionError(f"the archive has no model {model!r:.80}; {there_are}")
