"""Where RTen computes something else than ONNX says of the same operator, so that the outputs can differ.

Only what every release of RTen does is listed; what one release does wrong is no property of a file.

Spec: RTen 0.25.0, src/ops; ONNX, Operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.convert.value_types import FLOAT
from formats.rten.graph.attributes import get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context

    Deviation = Callable[[Node, Context], str]


def _cast(node: Node, context: Context) -> str:
    if context.elem_type(node.input[0]) == FLOAT and get_int(node, "to") != FLOAT:
        return "floats outside of the integers' range become the nearest integer in RTen, in ONNX they may be any"
    return ""


def _sign(node: Node, context: Context) -> str:
    return "the sign of zero is one in RTen" if context.elem_type(node.input[0]) == FLOAT else ""


def _softplus(node: Node, context: Context) -> str:
    return "numbers above 88 become infinite in RTen"


def _product(node: Node, context: Context) -> str:
    if context.rank(node.input[1]) == 1 and context.rank(node.input[0]) not in (1, 2):
        return "several matrices times a vector keep an axis of one in RTen"
    return ""


def _suppression(node: Node, context: Context) -> str:
    return "boxes of different classes compete in RTen, and the result is sorted by score"


def _concatenation(node: Node, context: Context) -> str:
    if get_int(node, "new_axis") and get_int(node, "axis") < 0:
        return "RTen counts a negative new axis from the axes that there were before"
    return ""


def _integer_convolution(node: Node, context: Context) -> str:
    if get_string(node, "auto_pad") == "SAME_UPPER" or any(get_ints(node, "pads") or ()):
        return "RTen does not pad with the zero point"
    return ""


def _non_zero(node: Node, context: Context) -> str:
    return "RTen gives no row for a scalar" if context.dims(node.input[0]) == () else ""


def _reduction(node: Node, context: Context) -> str:
    axes = context.optional(1)
    if get_int(node, "noop_with_empty_axes") and (not axes or context.dims(axes) in (None, (0,))):
        return "what RTen does without axes depends on its optimiser"
    return ""


def _slice(node: Node, context: Context) -> str:
    return "RTen may take steps without axes for axes" if context.optional(4) and not context.optional(3) else ""


def _recurrence(node: Node, context: Context) -> str:
    return "RTen does not look at the lengths of sequences, which are left out" if context.optional(4) else ""


_REDUCTIONS: Final = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
DEVIATIONS: Final[Mapping[str, Deviation]] = {
    "Cast": _cast,
    "ConcatFromSequence": _concatenation,
    "ConvInteger": _integer_convolution,
    "GRU": _recurrence,
    "LSTM": _recurrence,
    "MatMul": _product,
    "NonMaxSuppression": _suppression,
    "NonZero": _non_zero,
    "Sign": _sign,
    "Slice": _slice,
    "Softplus": _softplus,
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
}
