"""Running totals and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT, INT64
from formats.ir.model import Graph
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import get_int
from formats.rten.operators import shape, slicing
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rules import normalize, same
from formats.rten.operators.shared.spec import (
    Field,
    FieldKind,
    OperatorSpec,
    Outputs,
    Row,
    Signature,
    ToOnnx,
    ToRten,
    because,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT64_MAX

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

_FORWARDS = Fault("sums only forwards and inclusively", until=RTEN_0_26)


def _sizes_around(context: Context, data: str, axis: str) -> tuple[str, str, str]:
    """How many elements there are before, along and after an axis, which may be known only when the model runs."""
    op = context.op
    held, rank = context.scope.ints(axis), context.rank(data)
    if held is not None and rank is not None:
        place = normalize(held[0], rank)
        along = shape.sizes_of(context, data, place, place + 1)
        return shape.size_of(context, data, 0, place), along, shape.size_of(context, data, place + 1, rank)
    dims, zero, one = op("Shape", data), context.int64([0]), context.int64([1])
    number = op("Reshape", context.cast(axis, INT64), one)
    from_end = op("Add", number, op("Shape", dims))
    number = op("Where", op("Less", number, zero), from_end, number)
    after = op("Add", number, one)
    parts = ((zero, number), (number, after), (after, context.int64([INT64_MAX])))
    before, along, behind = (op("ReduceProd", op("Slice", dims, *ends, zero), keepdims=1) for ends in parts)
    return before, along, behind


def _in_three_axes(context: Context, data: str, axis: str) -> str:
    """The data with what is before the axis, the axis, and what is after it."""
    return context.op("Reshape", data, shape.joined(context, *_sizes_around(context, data, axis)), allowzero=1)


def _moved_on(context: Context, data: str, axis: int) -> str:
    """The data moved by one along an axis, after a zero. The number of elements stays the same, even if it is zero."""
    rank = context.known_rank(data)
    pads = [int(place == axis) for place in range(rank)] + [0] * rank
    longer = context.op("Pad", data, context.int64(pads))
    return context.op("Slice", longer, context.int64([0]), context.int64([-1]), context.int64([axis]))


@because("Older releases sum only forwards and inclusively, so data are reversed or shifted")
def cum_sum(node: Node, context: Context) -> list[Node] | None:
    data, axis = context.input(0), context.input(1)
    reverse, exclusive = get_int(node, "reverse"), get_int(node, "exclusive")
    if not (reverse or exclusive) or not context.target.deviates(_FORWARDS):
        return None
    if exclusive and (context.scope.ints(axis) is None or context.rank(data) is None):
        total = context.copy([_in_three_axes(context, data, axis), context.int64_scalar(1)])
        return context.replace(context.op("Reshape", total, context.op("Shape", data), allowzero=1))
    data = slicing.flipped(context, data, axis) if reverse else data
    if exclusive:
        data = _moved_on(context, data, normalize(context.static_ints(axis)[0], context.known_rank(data)))
    total = context.op("CumSum", data, axis)
    return context.replace(slicing.flipped(context, total, axis) if reverse else total)


CumSum = OperatorSpec(
    "CumSum",
    Outputs(same, range=ranges.running_totals),
    ToRten(
        Row(
            2,
            1,
            "CumSumAttrs",
            (
                Field("exclusive", FieldKind.BOOL, 0, since=RTEN_0_26),
                Field("reverse", FieldKind.BOOL, 0, since=RTEN_0_26),
            ),
            optional=True,
        ),
        rewritings=(cum_sum,),
        faults=(_FORWARDS,),
    ),
    to_onnx=ToOnnx(Signature("Ni", "N"), ranks={1: 0}),
)


@because("Slices multiplied one after the other, in a loop")
def cumulative_product(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    slices = _in_three_axes(context, data, context.input(1))
    elem_type, dims = context.elem_type(data) or FLOAT, context.dims(slices) or (None,) * 3
    outer = (dims[0], dims[2])
    size = shape.joined(context, shape.sizes_of(context, slices, 0, 1), shape.sizes_of(context, slices, 2, 3))
    ones = context.op("Expand", context.scalar(1, elem_type=elem_type), size)
    inner = context.nested()
    before, factor = (context.names.new(f"{node.output[0]}/{what}") for what in ("before", "factor"))
    for name in (before, factor):
        inner.scope.add_input(name, ValueType(elem_type, outer))
    after = inner.op("Mul", before, factor)
    given = inner.op("Identity", before if get_int(node, "exclusive") else after)
    body = Graph(
        name=f"{node.output[0]}/body",
        node=inner.emitted,
        input=[context.value_info(name, elem_type, outer) for name in (before, factor)],
        output=[context.value_info(name, elem_type, outer) for name in (after, given)],
    )
    directions = [get_int(node, "reverse")]
    _, products = context.op_outputs(
        "Scan",
        [ones, slices],
        2,
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=directions,
        scan_output_axes=[1],
        scan_output_directions=directions,
    )
    return context.replace(context.op("Reshape", products, context.op("Shape", data), allowzero=1))


CumProd = OperatorSpec("CumProd", Outputs(same), ToRten(rewritings=(cumulative_product,)))
