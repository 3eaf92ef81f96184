"""The options for writing `.rten`, and the keys of its metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.errors import OptionError
from formats.options import ANY, SWITCH, Kind, choice, option, settle, texts_in_file
from formats.python.late_dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.tensordata.sources.source import Source

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
        None,
        texts_in_file("texts by name"),
        "Add the strings of the JSON object in FILE to the metadata.",
        keyword_help="Add texts by name to the metadata, such as {'license': 'MIT'}.",
    )
    onnx_hash: bool | None = option(None, SWITCH, "Store the SHA-256 of the .onnx file; by default only below 64 MiB.")
    exact: bool = option(False, SWITCH, "Avoid operators whose results in RTen differ from ONNX.", common=True)
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
