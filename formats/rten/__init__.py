"""RTen: .rten files, versions 1 and 2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.codecs.contract import READ_DEFAULTS, Codec, Match, Runtime
from formats.errors import OptionError
from formats.late_dataclasses import dataclass
from formats.options import ANY, SWITCH, Kind, choice, option, settle, texts_in_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from formats.codecs.contract import Checksum, ReadOptions, Region, Runnable
    from formats.ir.model import Model
    from formats.tensordata.plan import Loss, WritePlan
    from formats.tensordata.source import Source


HASH_KEY = "onnx_hash"
METADATA_KEYS = (
    HASH_KEY,
    "description",
    "license",
    "commit",
    "code_repository",
    "model_repository",
    "run_id",
    "run_url",
)


def _release(value: Any) -> str:
    from formats.rten.target import TARGETS

    if not isinstance(value, str) or value not in TARGETS:
        raise OptionError(f"`rten_target` is {value!r:.100}, but must be one of {', '.join(TARGETS)}")
    return value


def _releases() -> list[str]:
    from formats.rten.target import TARGETS

    return [*TARGETS]


RELEASE = Kind("a known release of RTen", _release, "RELEASE", values=_releases)


@dataclass(frozen=True, slots=True)
class RtenOptions:
    """How a `.rten` file is written.

    `rten_version`: version of the file; a file of version 1 is a single FlatBuffer of less than 2 GiB. `metadata`:
    `description`, `license`, `commit`, `code_repository`, `model_repository`, `run_id` and `run_url`, which replace the
    model's own values. `exact`: operators that the runtime computes differently from ONNX are written as other
    operators that it computes correctly. `onnx_hash`: the file contains the SHA-256 of `source_hash`, the bytes of the
    converted file; `None` leaves it out if hashing would take longer than the rest of the conversion, which is from 64
    MiB on. `rten_target`: the oldest release of RTen that must run the file, as in the version of its crate; by
    default, all known releases must run it.

    Raises: OptionError for an invalid value.
    """

    metadata: Mapping[str, str] | None = option(
        None, texts_in_file("texts by name"), "Add the strings of the JSON object in FILE to the metadata."
    )
    onnx_hash: bool | None = option(None, SWITCH, "Store the SHA-256 of the .onnx file; by default only below 64 MiB.")
    exact: bool = option(False, SWITCH, "Avoid operators whose results in RTen differ from ONNX.")
    rten_target: str | None = option(
        None, RELEASE, "Write for this release of RTen and later ones; by default for all known releases."
    )
    rten_version: int = option(2, choice(1, 2), "Version of the file; 2 by default.")
    source_hash: Source | None = option(None, ANY, "The bytes of the .onnx file, for `onnx_hash`.", flags=())

    def __post_init__(self) -> None:
        settle(self)
        if unknown := [key for key in self.metadata or () if key not in METADATA_KEYS]:
            known = ", ".join(METADATA_KEYS)
            raise OptionError(f"`metadata` has {unknown[0]!r:.100}, which RTen does not know; it knows {known}")


def sniff(head: bytes, nbytes: int) -> Match:
    """How much the first bytes of a file look like a .rten file; version 1 has no magic number."""
    from formats.rten.file.header import is_plausible_v1, is_v2

    if is_v2(head):
        return Match.STRONG
    return Match.WEAK if is_plausible_v1(head, nbytes) else Match.NONE


def read(source: Source, path: Path | None, options: ReadOptions = READ_DEFAULTS) -> Model:
    """The model in `source`, whose nodes are operators of RTen."""
    from formats.rten.model import read_model

    return read_model(source)


def plan(model: Model, destination: Path, options: RtenOptions) -> WritePlan:
    """How to write `model` to `destination`."""
    from formats.rten.model import plan_model

    return plan_model(model, destination, options)


def raise_model(model: Model, pin_types: Mapping[str, str]) -> tuple[Model, tuple[Loss, ...]]:
    """The model, read by `read`, in ONNX's operators, and the losses."""
    from formats.rten.convert.raising.model import raise_model

    return raise_model(model, pin_types)


def runnable(model: Model) -> Runnable:
    """The model, in ONNX's operators, as ONNX that RTen's own loader runs."""
    from formats.rten.convert.runnable import runnable

    return runnable(model)


def reads_data_file(name: str) -> bool:
    """Whether RTen accepts external data in a file of this name: its extension must begin with "data" or "onnx_data".

    Spec: RTen, model/external_data.rs.
    """
    return name.rpartition(".")[2].startswith(("data", "onnx_data")) and not name.startswith(".data")


def regions(source: Source) -> Iterator[Region]:
    """The header and the model section of the file in `source`."""
    from formats.rten.file.regions import regions_of

    return regions_of(source)


def checksums(source: Source, model: Model, original: Source | None) -> Iterator[Checksum]:
    """The SHA-256 of the converted file, if the model contains it."""
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
    runtime=Runtime(runnable, reads_data_file, data_alignment=4),
)
