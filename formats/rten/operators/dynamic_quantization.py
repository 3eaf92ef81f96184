"""Quantisation whose scale and zero point come from the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT, UINT8
from formats.rten.convert import budget
from formats.rten.operators import quantization
from formats.rten.operators.shared.rules import ANY_NAN, always, in_order
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, Row, ToOnnx, ToRten, because

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType
    from formats.rten.operators.shared.spec import Deviation


def dynamic_quantize_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The input's dims, and two scalars."""
    return [types[0].dims, (), ()]


@because("RTen multiplies by the reciprocal of the scale, which moves half steps. The exact form divides")
def dynamic_quantize_linear(node: Node, context: Context) -> list[Node] | None:
    if not context.exact:
        return None
    data = context.input(0)
    dims = context.dims(data)
    width = dims[-1] if dims else None
    if isinstance(width, int) and width > 0:
        return context.replace(*quantized_by_content(context, data, width))
    column = context.op("Reshape", data, context.int64([-1, 1]))
    numbers, scale, zero = quantized_by_content(context, column, 1)
    return context.replace(context.op("Reshape", numbers, context.op("Shape", data)), scale, zero)


def _deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (*quantization.step_deviations(node, context), ANY_NAN)


DynamicQuantizeLinear = OperatorSpec(
    "DynamicQuantizeLinear",
    Outputs(dynamic_quantize_dims, elements=in_order(always(UINT8), always(FLOAT), always(UINT8))),
    ToRten(Row(1, 3), rewritings=(dynamic_quantize_linear,), deviations=_deviations),
    to_onnx=ToOnnx(deviations=_deviations),
)


def quantized_by_content(context: Context, data: str, width: int, content: str = "") -> tuple[str, str, str]:
    """What DynamicQuantizeLinear gives: UINT8, the scale and the zero point; `width` is the last dim of the data.

    The scale is that of `content`. By default that is the data.
    If a divisor has one element, RTen multiplies by its reciprocal, which changes results at half steps. So divisors
    have several elements.
    """
    op = context.op
    columns = max(width, 2)
    flat = op("Concat", op("Reshape", content or data, context.int64([-1])), context.array([0]), axis=0)
    low = op("ReduceMin", flat, context.int64([0]), keepdims=1)
    high = op("ReduceMax", flat, context.int64([0]), keepdims=1)
    span = op("Expand", op("Sub", high, low), context.int64([columns]))
    steps = op("Div", span, context.array(budget.full(columns, 255)))
    zero_point, one, top = context.scalar(0.0), context.scalar(1.0), context.scalar(255.0)
    scale = op("Where", op("Equal", span, zero_point), one, steps)
    zero = op("Div", op("Neg", low), scale)
    zero = op("Round", op("Clip", zero, zero_point, top))
    numbers = op("Round", op("Div", data, scale))
    numbers = op("Clip", op("Add", numbers, zero), zero_point, top)
    if width == 1:
        numbers = op("Slice", numbers, context.int64([0]), context.int64([1]), context.int64([-1]))
    first = context.int64_scalar(0)
    one_scale, one_zero = (op("Gather", name, first, axis=0) for name in (scale, zero))
    return context.cast(numbers, UINT8), one_scale, context.cast(one_zero, UINT8)
