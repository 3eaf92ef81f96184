"""A function in onnxscript, whose decorator needs the source in a file."""

from __future__ import annotations

from typing import Any

from onnxscript import FLOAT, script
from onnxscript import opset18 as op


@script(default_opset=op)
def gelu(x: FLOAT["n", 4]) -> FLOAT["n", 4]:  # type: ignore[name-defined]  # noqa: F821, UP037 - onnxscript's syntax
    """The activation, as a model."""
    half: Any = op.Constant(value_float=0.5)
    return half * x * (op.Erf(x * 0.7071) + 1.0)
