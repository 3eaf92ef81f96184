"""ONNX Runtime's own format: .ort files, versions 1 to 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.codecs.contract import READ_DEFAULTS, Codec, Match

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from formats.codecs.contract import ReadOptions, Region
    from formats.ir.model import Model
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source

MAGIC = b"ORTM"  # after the offset of the root table


@dataclass(frozen=True, slots=True)
class OrtOptions:
    """How an `.ort` file is written: there is nothing to choose."""


class OrtCodec(Codec):
    """The files of onnxruntime, in ONNX's operators and its own."""

    name = "ort"
    title = "ONNX Runtime"
    extensions = (".ort",)
    options = OrtOptions
    only_runtime = "onnxruntime"
    is_mapped = True

    def sniff(self, head: bytes, nbytes: int) -> Match:
        """How much the first bytes of a file look like an .ort file."""
        return Match.STRONG if head[4:8] == MAGIC else Match.NONE

    def read(self, source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
        """The model in `source`, in ONNX's operators and those that onnxruntime made of them."""
        from formats.ort.reading import read_model

        return read_model(source)

    def plan(self, model: Model, destination: Path, options: OrtOptions) -> WritePlan:
        """How to write `model` to `destination`."""
        from formats.ort.writing import plan_model

        return plan_model(model, destination)

    def regions(self, source: Source) -> Iterator[Region]:
        """The parts of the file in `source`."""
        from formats.ort.buffers import regions_of

        return regions_of(source)

    def cautions(self, source: Source, model: Model) -> Iterator[Loss]:
        """What the model does not keep of the file in `source`, and operators that only onnxruntime has."""
        from formats.ort.buffers import left_out

        return left_out(source, model)

    def releases_reading(self, source: Source, model: Model) -> Mapping[str, Sequence[str]]:
        """The releases of onnxruntime that read the version of the file."""
        from formats.codecs.onnxruntime_releases import RELEASES
        from formats.ort.buffers import first_release

        releases = list(RELEASES)
        return {"onnxruntime": releases[releases.index(first_release(source)) :]}


CODEC = OrtCodec()
