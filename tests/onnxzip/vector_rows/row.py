"""A requirement of the format, and archives made by hand that break it, or almost break it."""

from __future__ import annotations

from typing import NamedTuple

from tests.onnxzip.archives import PLAIN, Zip


class Row(NamedTuple):
    """A requirement, an archive that breaks it, the reason that our reader gives, and a similar archive that is valid.

    Either archive may be missing. `breaks` is the requirement that the refused archive breaks, if it is not
    `requirement`. If `is_model` is false, the graph in the valid archive is not a valid ONNX model.
    """

    requirement: str
    name: str
    refused: Zip | bytes | None
    reason: str
    taken: Zip | bytes | None = PLAIN
    is_model: bool = True
    breaks: str = ""
