"""ONNX Runtime's own operators on quantised tensors: the operator on the numbers that those stand for.

Spec: ONNX Runtime, ContribOperators.md, the operators called QLinear... and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.context import Refused
from formats.rten.convert.value_types import FLOAT
from formats.rten.graph.attributes import get_float, get_int
from formats.rten.rewriting.quantization import dequantized

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def _operand(context: Context, place: int, axis: int = 1) -> str:
    """The numbers that a quantised input stands for, whose scale and zero point follow it."""
    return dequantized(context, context.input(place), context.input(place + 1), context.optional(place + 2), axis)


def _quantized(context: Context, value: str, place: int) -> list[Node]:
    """The nodes with `value` quantised as the result, by the scale and zero point at `place`."""
    return context.replace(context.op("QuantizeLinear", value, context.input(place), context.optional(place + 1)))


def binary(op_type: str) -> Rewriting:
    """A rewriting for an operator of two tensors."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return _quantized(context, context.op(op_type, _operand(context, 0), _operand(context, 3)), 6)

    return rewriting


def unary(op_type: str, *without: str) -> Rewriting:
    """A rewriting for an operator of one tensor, that keeps all attributes but some."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        if get_int(node, "channels_last"):
            raise Refused("has its channels last")
        result = context.copy([_operand(context, 0)], op_type, ("channels_last", *without))
        return _quantized(context, result, 3)

    return rewriting


def softmax(node: Node, context: Context) -> list[Node] | None:
    """Of the last axis, or in the form that the operator set given by an attribute has."""
    if get_int(node, "opset") < 13 and get_int(node, "axis", -1) not in (-1, (context.rank(context.input(0)) or 0) - 1):
        raise Refused("sees a matrix, as before operator set 13")
    return unary("Softmax", "opset")(node, context)


def concat(node: Node, context: Context) -> list[Node] | None:
    """The inputs come in threes, after the parameters of the result."""
    parts = [_operand(context, place) for place in range(2, len(node.input), 3)]
    return _quantized(context, context.op("Concat", *parts, axis=get_int(node, "axis")), 0)


def where(node: Node, context: Context) -> list[Node] | None:
    """A choice between two tensors."""
    chosen = context.op("Where", context.input(0), _operand(context, 1), _operand(context, 4))
    return _quantized(context, chosen, 7)


def gemm(node: Node, context: Context) -> list[Node] | None:
    """The bias has the unit of the product; the result is a float where it has no scale."""
    columns = 0 if get_int(node, "transB") else 1
    inputs = [_operand(context, 0), _operand(context, 3, columns)]
    alpha = get_float(node, "alpha", 1.0)
    if context.optional(6):
        unit = context.op("Mul", context.input(1), context.input(4))
        if alpha != 1:
            unit = context.op("Mul", unit, context.scalar(alpha))
        inputs.append(context.op("Mul", context.cast(context.input(6), FLOAT), unit))
    result = context.copy(inputs, "Gemm")
    return _quantized(context, result, 7) if context.optional(7) else context.replace(result)


def dynamic_quantize_mat_mul(node: Node, context: Context) -> list[Node] | None:
    """The first matrix is quantised by what is in it."""
    data, scale, zero = context.op_outputs("DynamicQuantizeLinear", [context.input(0)], 3)
    return _scaled(context, data, context.input(1), (scale, context.input(2)), (zero, context.optional(3)), 4)


def mat_mul_integer_to_float(node: Node, context: Context) -> list[Node] | None:
    """A product of quantised matrices as a float."""
    scales, zeros = (context.input(2), context.input(3)), (context.optional(4), context.optional(5))
    return _scaled(context, context.input(0), context.input(1), scales, zeros, 6)


def _scaled(
    context: Context, a: str, b: str, scales: tuple[str, str], zeros: tuple[str, str], bias_place: int
) -> list[Node]:
    product = context.cast(context.op("MatMulInteger", a, b, *zeros), FLOAT)
    result = context.op("Mul", product, context.op("Mul", *scales))
    bias = context.optional(bias_place)
    return context.replace(context.op("Add", result, bias) if bias else result)


REWRITINGS: Mapping[str, Rewriting] = {
    "DynamicQuantizeMatMul": dynamic_quantize_mat_mul,
    "MatMulIntegerToFloat": mat_mul_integer_to_float,
    "QGemm": gemm,
    "QLinearAdd": binary("Add"),
    "QLinearAveragePool": unary("AveragePool"),
    "QLinearConcat": concat,
    "QLinearGlobalAveragePool": unary("GlobalAveragePool"),
    "QLinearLeakyRelu": unary("LeakyRelu"),
    "QLinearMul": binary("Mul"),
    "QLinearSigmoid": unary("Sigmoid"),
    "QLinearSoftmax": softmax,
    "QLinearWhere": where,
}
