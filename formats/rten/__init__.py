"""RTen: .rten files, versions 1 and 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.registry import READ_DEFAULTS, Codec, Match

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from formats.ir.model import Model
    from formats.registry import Checksum, ReadOptions, Region
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.source import Source


@dataclass(frozen=True, slots=True)
class RtenOptions:
    """How a `.rten` file is written.

    `rten_version`: of the file; 1 has everything in one FlatBuffer, of less than 2 GiB. `metadata`: `description`,
    `license`, `commit`, `code_repository`, `model_repository`, `run_id` and `run_url`, which replace what the model
    says of them. `exact`: operators that the runtime computes differently than ONNX says are written as others that
    it does not. `onnx_hash`: the file tells the SHA-256 of `source_hash`, the bytes of the file that was converted;
    `None` leaves it out where hashing would take longer than all the rest, which is from 64 MiB on. `rten_target`: the
    oldest release of RTen that has to run the file, as in the version of its crate; all known ones by default.
    """

    rten_version: int = 2
    metadata: Mapping[str, str] | None = None
    exact: bool = False
    rten_target: str | None = None
    onnx_hash: bool | None = None
    source_hash: Source | None = None


def sniff(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a .rten file; version 1 has no mark of its own."""
    from formats.rten.file.header import is_plausible_v1, is_v2

    if is_v2(head):
        return Match.STRONG
    return Match.WEAK if is_plausible_v1(head, nbytes) else Match.NONE


def read(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, its nodes the operators of RTen."""
    from formats.rten.model import read_model

    return read_model(source)


def plan(model: Model, destination: Path, options: RtenOptions) -> WritePlan:
    """How to write `model` to `destination`."""
    from formats.rten.model import plan_model

    return plan_model(model, destination, options)


def raise_model(model: Model, pin_types: Mapping[str, str]) -> tuple[Model, tuple[Loss, ...]]:
    """The model, which `read` gave, in ONNX's operators, and what is lost."""
    from formats.rten.convert.raising.model import raise_model

    return raise_model(model, pin_types)


def regions(source: Source) -> Iterator[Region]:
    """The header and the model of the file in `source`."""
    from formats.rten.file.regions import regions_of

    return regions_of(source)


def checksums(source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-256 of the file that was converted, where the model tells it."""
    from formats.rten.file.regions import checksums_of

    return checksums_of(model, original)


CODEC = Codec(
    "rten",
    "RTen",
    (".rten",),
    RtenOptions,
    sniff,
    read,
    plan,
    domain="rten",
    raise_model=raise_model,
    regions=regions,
    checksums=checksums,
)
