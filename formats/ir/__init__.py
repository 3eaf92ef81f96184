"""The model in memory: ONNX messages as plain data, their element types, and ways to visit and store them."""

from __future__ import annotations

from typing import Any

from formats.ir import edits


def _edits() -> Any:
    from formats.editing import methods

    return methods


edits.EDITS.hand_in(_edits)
