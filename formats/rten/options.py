"""The options for writing `.rten`, and the keys of its metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.options import ANY, SWITCH, choice, internal, option, settle

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class RtenOptions:
    """How a `.rten` file is written.

    `rten_version`: version of the file; a file of version 1 is a single FlatBuffer of less than 2 GiB. `exact`:
    operators that the runtime computes differently from ONNX are written as other operators that it computes correctly.
    `onnx_hash`: the file contains the SHA-256 of `source_hash`, the bytes of the converted file; `None` leaves it out
    if hashing would take longer than the rest of the conversion, which is from 64 MiB on.

    With `release`, a known release of RTen, the file is for that release and later ones, and otherwise for all
    known ones: the `runtime` of the verbs sets it.

    Raises: OptionError for an invalid value.
    """

    onnx_hash: bool | None = option(None, SWITCH, "Store the SHA-256 of the .onnx file; by default only below 64 MiB.")
    exact: bool = option(False, SWITCH, "Avoid operators whose results in RTen differ from ONNX.", common=True)
    rten_version: int = option(2, choice(1, 2), "Version of the file; 2 by default.")
    source_hash: Source | None = option(None, ANY, "The bytes of the .onnx file, for `onnx_hash`.", flags=())
    release: str | None = internal(None)

    def __post_init__(self) -> None:
        settle(self)
