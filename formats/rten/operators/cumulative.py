"""Running totals and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_int
from formats.rten.operators import elementwise, indexing, padding, ranges, shape, slicing
from formats.rten.operators.rules import normalize, same
from formats.rten.operators.spec import Field, FieldKind, OperatorSpec, Row, Signature
from formats.rten.target import RTEN_0_26, Fault

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

_FORWARDS = Fault("sums only forwards and inclusively", until=RTEN_0_26)


def _moved_on(context: Context, data: str, axis: int) -> str:
    """The data moved by one along an axis, after a zero. The number of elements stays the same, even if it is zero."""
    rank = context.known_rank(data)
    pads = [int(place == axis) for place in range(rank)] + [0] * rank
    longer = context.op(padding.Pad, data, context.int64(pads))
    end = shape.sizes_of(context, data, axis, axis + 1)
    return context.op(slicing.Slice, longer, context.int64([0]), end, context.int64([axis]))


def cum_sum(node: Node, context: Context) -> list[Node] | None:
    """Older releases sum only forwards and inclusively, so data are reversed or shifted."""
    data, axis = context.input(0), context.input(1)
    reverse, exclusive = get_int(node, "reverse"), get_int(node, "exclusive")
    if not (reverse or exclusive) or not context.target.deviates(_FORWARDS):
        return None
    data = slicing.flipped(context, data, axis) if reverse else data
    if exclusive:
        data = _moved_on(context, data, normalize(context.static_ints(axis)[0], context.known_rank(data)))
    total = context.op(CumSum, data, axis)
    return context.replace(slicing.flipped(context, total, axis) if reverse else total)


CumSum = OperatorSpec(
    "CumSum",
    Row(
        2,
        1,
        "CumSumAttrs",
        (Field("exclusive", FieldKind.BOOL, 0, since=RTEN_0_26), Field("reverse", FieldKind.BOOL, 0, since=RTEN_0_26)),
        optional=True,
    ),
    signature=Signature("Ni", "N"),
    ranks={1: 0},
    dims=same,
    rewritings=(cum_sum,),
    faults=(_FORWARDS,),
    range=ranges.running_totals,
)
MAX_STEPS = 1024  # the longest product that is written out


def cumulative_product(node: Node, context: Context) -> list[Node] | None:
    """Write it as products of slices, for an axis of known length."""
    data = context.input(0)
    rank = context.known_rank(data)
    axis = normalize(context.static_ints(context.input(1))[0], rank)
    length = context.static_dims(data)[axis]
    if length > MAX_STEPS:
        raise Refused(f"multiplies {length} elements; at most {MAX_STEPS} can be converted")
    order = range(length - 1, -1, -1) if get_int(node, "reverse") else range(length)
    slices = {place: context.op(indexing.Gather, data, context.int64([place]), axis=axis) for place in order}
    if not length:
        return context.replace(context.op(shape.Identity, data))
    ones = context.op(shape.Expand, context.scalar(1, like=data), shape.sizes_of(context, slices[0], 0, rank))
    found, product = {}, ones
    for place in order:
        before, product = product, context.op(elementwise.Mul, product, slices[place])
        found[place] = before if get_int(node, "exclusive") else product
    return context.replace(context.op(slicing.Concat, *(found[place] for place in range(length)), axis=axis))


CumProd = OperatorSpec("CumProd", dims=same, rewritings=(cumulative_product,))
