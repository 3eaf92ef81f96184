"""The process in which onnx infers shapes: `inference` asks it.

A request has the model, and two more numbers: whether the inference is strict, and whether it follows data. An answer
is a `model`, or the text of an `error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.onnxpb.limited_process import serve

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN_TWICE = "already exists"  # what onnx says of a call of a function in a subgraph, when it follows data


def main() -> None:
    """Answer requests until stdin ends."""
    serve(_begin)


def _begin() -> Callable[[bytes, list[int]], tuple[str, bytes]]:
    from onnx import shape_inference

    return lambda data, numbers: ("model", _inferred(shape_inference, data, *map(bool, numbers)))


def _inferred(shape_inference: Any, data: bytes, strict: bool, follows_data: bool) -> bytes:
    try:
        model = shape_inference.infer_shapes(data, strict_mode=strict, data_prop=follows_data)
    except Exception as error:
        if KNOWN_TWICE not in str(error):
            raise
        model = shape_inference.infer_shapes(data, strict_mode=strict)
    return model if isinstance(model, bytes) else model.SerializeToString()
