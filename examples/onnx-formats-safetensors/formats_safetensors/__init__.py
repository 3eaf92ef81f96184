"""ONNX models as .safetensors files: the entry point, which is small, because every search for a format imports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from formats.codec import READ_DEFAULTS, Codec, Match, ReadOptions
from formats.options import option, pairs, settle, size

if TYPE_CHECKING:
    from formats import Model
    from formats.codec import Region, Source, WritePlan

__all__ = ["CODEC", "SafetensorsOptions"]

MARK = b'{"__metadata__":{"format":"onnx"'


@dataclass(frozen=True, slots=True)
class SafetensorsOptions:
    """How a model is written as .safetensors.

    `size_threshold`: the size in bytes from which a tensor gets its own entry. `buffer_alignment`: of the first one, in
    bytes from the start of the file; the others follow without gaps, as safetensors requires. `note`: strings for the
    metadata of the file.
    """

    size_threshold: int = option(1024, size(), "Store tensors of at least SIZE outside the graph; 1K by default.")
    buffer_alignment: int = option(
        64, size(8, 1 << 16, power_of_two=True), "Put the first of these tensors at a multiple of SIZE; 64 by default."
    )
    note: Mapping[str, str] | None = option(
        None,
        pairs("NAME=VALUE", "names and texts", "author=me"),
        "Add a text to the metadata of the file; repeat it for each text.",
    )

    def __post_init__(self) -> None:
        settle(self)


class SafetensorsCodec(Codec):
    """A file that other programs read as the weights; an entry holds the graph."""

    name = "safetensors"
    title = "safetensors with a graph"
    extensions = (".safetensors",)
    options = SafetensorsOptions
    is_mapped = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """Strongly, if the metadata at the start say that there is a graph."""
        return Match.STRONG if head[8:].startswith(MARK) else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model, with its weights as ranges of the file."""
        from formats_safetensors.layout import read_model

        return read_model(source, options.max_depth)

    def plan(self, model: Model, destination: Path, options: SafetensorsOptions) -> WritePlan:
        """The one file."""
        from formats_safetensors.layout import plan_model

        return plan_model(model, destination, options)

    def regions(self, source: Source) -> Iterator[Region]:
        """The header and the graph of the file."""
        from formats_safetensors.layout import regions_of

        return regions_of(source)


CODEC = SafetensorsCodec()
