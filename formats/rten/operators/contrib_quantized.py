"""ONNX Runtime's own operators on quantised tensors: the operator on the numbers that those stand for.

Spec: ONNX Runtime, ContribOperators.md, the operators called QLinear... and the like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_float, get_int
from formats.rten.operators import (
    activation,
    comparison,
    elementwise,
    matrix,
    normalization,
    pooling,
    quantization,
    slicing,
)
from formats.rten.operators.spec import MICROSOFT, OperatorSpec

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.spec import Rewriting


def _scaled(
    context: Context, a: str, b: str, scales: tuple[str, str], zeros: tuple[str, str], bias_place: int
) -> list[Node]:
    product = context.cast(context.op(matrix.MatMulInteger, a, b, *zeros), FLOAT)
    result = context.op(elementwise.Mul, product, context.op(elementwise.Mul, *scales))
    bias = context.optional(bias_place)
    return context.replace(context.op(elementwise.Add, result, bias) if bias else result)


def dynamic_quantize_mat_mul(node: Node, context: Context) -> list[Node] | None:
    """The first matrix is quantised by what is in it."""
    data, scale, zero = context.op_outputs(quantization.DynamicQuantizeLinear, [context.input(0)], 3)
    return _scaled(context, data, context.input(1), (scale, context.input(2)), (zero, context.optional(3)), 4)


DynamicQuantizeMatMul = OperatorSpec("DynamicQuantizeMatMul", domain=MICROSOFT, rewritings=(dynamic_quantize_mat_mul,))


def mat_mul_integer_to_float(node: Node, context: Context) -> list[Node] | None:
    """A product of quantised matrices as a float."""
    scales, zeros = (context.input(2), context.input(3)), (context.optional(4), context.optional(5))
    return _scaled(context, context.input(0), context.input(1), scales, zeros, 6)


MatMulIntegerToFloat = OperatorSpec("MatMulIntegerToFloat", domain=MICROSOFT, rewritings=(mat_mul_integer_to_float,))


def _operand(context: Context, place: int, axis: int = 1) -> str:
    """The numbers that a quantised input stands for, whose scale and zero point follow it."""
    return quantization.dequantized(
        context, context.input(place), context.input(place + 1), context.optional(place + 2), axis
    )


def _quantized(context: Context, value: str, place: int) -> list[Node]:
    """The nodes with `value` quantised as the result, by the scale and zero point at `place`."""
    return context.replace(
        context.op(quantization.QuantizeLinear, value, context.input(place), context.optional(place + 1))
    )


def gemm(node: Node, context: Context) -> list[Node] | None:
    """The bias has the unit of the product; the result is a float where it has no scale."""
    columns = 0 if get_int(node, "transB") else 1
    inputs = [_operand(context, 0), _operand(context, 3, columns)]
    alpha = get_float(node, "alpha", 1.0)
    if context.optional(6):
        unit = context.op(elementwise.Mul, context.input(1), context.input(4))
        if alpha != 1:
            unit = context.op(elementwise.Mul, unit, context.scalar(alpha))
        inputs.append(context.op(elementwise.Mul, context.cast(context.input(6), FLOAT), unit))
    result = context.copy(inputs, matrix.Gemm)
    return _quantized(context, result, 7) if context.optional(7) else context.replace(result)


QGemm = OperatorSpec("QGemm", domain=MICROSOFT, rewritings=(gemm,))


def binary(operator: OperatorSpec) -> Rewriting:
    """A rewriting for an operator of two tensors."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return _quantized(context, context.op(operator, _operand(context, 0), _operand(context, 3)), 6)

    return rewriting


QLinearAdd = OperatorSpec("QLinearAdd", domain=MICROSOFT, rewritings=(binary(elementwise.Add),))


def unary(operator: OperatorSpec, *without: str) -> Rewriting:
    """A rewriting for an operator of one tensor, that keeps all attributes but some."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        if get_int(node, "channels_last"):
            raise Refused("has its channels last")
        result = context.copy([_operand(context, 0)], operator, ("channels_last", *without))
        return _quantized(context, result, 3)

    return rewriting


QLinearAveragePool = OperatorSpec("QLinearAveragePool", domain=MICROSOFT, rewritings=(unary(pooling.AveragePool),))


def concat(node: Node, context: Context) -> list[Node] | None:
    """The inputs come in threes, after the parameters of the result."""
    parts = [_operand(context, place) for place in range(2, len(node.input), 3)]
    return _quantized(context, context.op(slicing.Concat, *parts, axis=get_int(node, "axis")), 0)


QLinearConcat = OperatorSpec("QLinearConcat", domain=MICROSOFT, rewritings=(concat,))
QLinearGlobalAveragePool = OperatorSpec(
    "QLinearGlobalAveragePool", domain=MICROSOFT, rewritings=(unary(pooling.GlobalAveragePool),)
)
QLinearLeakyRelu = OperatorSpec("QLinearLeakyRelu", domain=MICROSOFT, rewritings=(unary(activation.LeakyRelu),))
QLinearMul = OperatorSpec("QLinearMul", domain=MICROSOFT, rewritings=(binary(elementwise.Mul),))
QLinearSigmoid = OperatorSpec("QLinearSigmoid", domain=MICROSOFT, rewritings=(unary(activation.Sigmoid),))


def softmax(node: Node, context: Context) -> list[Node] | None:
    """Of the last axis, or in the form that the operator set given by an attribute has."""
    if get_int(node, "opset") < 13 and get_int(node, "axis", -1) not in (-1, (context.rank(context.input(0)) or 0) - 1):
        raise Refused("sees a matrix, as before operator set 13")
    return unary(normalization.Softmax, "opset")(node, context)


QLinearSoftmax = OperatorSpec("QLinearSoftmax", domain=MICROSOFT, rewritings=(softmax,))


def where(node: Node, context: Context) -> list[Node] | None:
    """A choice between two tensors."""
    chosen = context.op(comparison.Where, context.input(0), _operand(context, 1), _operand(context, 4))
    return _quantized(context, chosen, 7)


QLinearWhere = OperatorSpec("QLinearWhere", domain=MICROSOFT, rewritings=(where,))
