"""ONNX Runtime's own format: .ort files, versions 1 to 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.codecs.contract import READ_DEFAULTS, Codec, Match

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from formats.codecs.contract import ReadOptions, Region
    from formats.ir.model import Model
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.sources.source import Source

MAGIC = b"ORTM"  # after the offset of the root table


@dataclass(frozen=True, slots=True)
class OrtOptions:
    """How an `.ort` file is written: there is nothing to choose."""


def sniff(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like an .ort file."""
    return Match.STRONG if head[4:8] == MAGIC else Match.NONE


def read(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, in ONNX's operators and those that onnxruntime made of them."""
    from formats.ort.reading import read_model

    return read_model(source)


def plan(model: Model, destination: Path, options: OrtOptions) -> WritePlan:
    """How to write `model` to `destination`."""
    from formats.ort.writing import plan_model

    return plan_model(model, destination, options)


def cautions(source: Source, model: Model) -> Iterator[Loss]:
    """What the model does not keep of the file in `source`, and operators that only onnxruntime has."""
    from formats.ort.buffers import left_out

    return left_out(source, model)


def regions(source: Source) -> Iterator[Region]:
    """The parts of the file in `source`."""
    from formats.ort.buffers import regions_of

    return regions_of(source)


def first_release(source: Source) -> str:
    """The first known release of onnxruntime that reads the file in `source`."""
    from formats.ort import buffers

    return buffers.first_release(source)


CODEC = Codec(
    "ort",
    "ONNX Runtime",
    (".ort",),
    OrtOptions,
    sniff,
    read,
    plan,
    regions=regions,
    cautions=cautions,
    first_release=first_release,
)
