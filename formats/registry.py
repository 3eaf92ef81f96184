"""The formats: what each is called, how it is recognised, and who reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import UnknownFormatError

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Model
    from formats.tensordata.plan import WritePlan
    from formats.tensordata.source import Source

HEAD_BYTES = 4096


class Match(IntEnum):
    """How sure a codec is that bytes are its own."""

    NONE = 0
    WEAK = 1  # they could be
    STRONG = 2  # they carry a mark that other formats do not


@dataclass(frozen=True, slots=True)
class Codec:
    """One format.

    `sniff` gets the first bytes of a file (up to `HEAD_BYTES`) and its size in bytes. `read` gets the whole file as a
    source and its path, against which companion files are resolved (`None` for bytes in memory). `plan` gets a
    model, the destination and an instance of `options`, a frozen dataclass in which everything has a default.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    options: type
    sniff: Callable[[bytes, int], Match]
    read: Callable[[Source, Path | None], Model]
    plan: Callable[[Model, Path, Any], WritePlan]


@cache
def codecs() -> tuple[Codec, ...]:
    """All codecs: the built-in ones, then those that installed packages offer under `formats.codecs`."""
    from importlib.metadata import entry_points

    from formats import onnxpb, onnxzip, rten

    others = tuple(entry.load() for entry in entry_points(group="formats.codecs"))
    return (onnxpb.CODEC, onnxzip.CODEC, rten.CODEC, *others)


def by_name(name: str) -> Codec:
    """The codec of that name.

    Raises: UnknownFormatError naming the ones there are.
    """
    for codec in codecs():
        if codec.name == name:
            return codec
    raise UnknownFormatError(f"no format is called {name!r}; there are {_listed(c.name for c in codecs())}")


def for_writing(path: Path) -> Codec:
    """The codec that the extension of `path` asks for.

    Raises: UnknownFormatError naming the extensions there are.
    """
    for codec in codecs():
        if path.suffix.lower() in codec.extensions:
            return codec
    known = _listed(extension for codec in codecs() for extension in codec.extensions)
    raise UnknownFormatError(
        f"the extension {path.suffix!r} belongs to no format (known: {known}); name one with --to", path=path
    )


def for_reading(head: bytes, nbytes: int, path: Path | None) -> Codec:
    """The codec of a file with these first bytes: a strong match, else the extension's, else a weak match.

    Raises: UnknownFormatError saying what was tried.
    """
    matches = [(codec.sniff(head, nbytes), codec) for codec in codecs()]
    suffix = path.suffix.lower() if path else ""
    for wanted in (
        lambda match, codec: match is Match.STRONG,
        lambda match, codec: match is not Match.NONE and suffix in codec.extensions,
        lambda match, codec: match is Match.WEAK,
    ):
        for match, codec in matches:
            if wanted(match, codec):
                return codec
    tried = _listed(codec.title for codec in codecs())
    reason = "the file is empty" if not nbytes else f"its bytes are none of {tried}"
    raise UnknownFormatError(f"{reason}; if you know better, name the format with --from", path=path)


def _listed(names: Any) -> str:
    return ", ".join(names)
