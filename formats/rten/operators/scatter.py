"""Updates written at given places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.graph.attributes import get_int, get_string
from formats.rten.operators import creation, elementwise, shape
from formats.rten.operators.rules import normalize, same, unknown
from formats.rten.operators.spec import Field, FieldKind, OperatorSpec, Row, Signature, axis_field

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

_REDUCTION = {"none": "None", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
_REDUCTION_FIELD = Field("reduction", FieldKind.CHOICE, "none", choices=_REDUCTION)


def scatter(node: Node, context: Context) -> list[Node] | None:
    """Scatter is the old name of ScatterElements."""
    return context.replace(context.op(ScatterElements, *node.input, axis=get_int(node, "axis")))


def scatter_raised(node: Node, context: Context) -> list[Node]:
    """The old operator has no reduction, and RTen looks for none."""
    return context.replace(context.copy(node.input, ScatterElements, without=["reduction"]))


Scatter = OperatorSpec(
    "Scatter",
    Row(3, 1, "ScatterElementsAttrs", (axis_field(0), _REDUCTION_FIELD)),
    signature=Signature("AiA", "A"),
    dims=unknown,
    elements=(),
    older=(scatter,),
    raised=scatter_raised,
)
ScatterElements = OperatorSpec(
    "ScatterElements",
    Row(3, 1, "ScatterElementsAttrs", (axis_field(0), _REDUCTION_FIELD)),
    signature=Signature("AiA", "A"),
    dims=same,
)
ScatterND = OperatorSpec(
    "ScatterND", Row(3, 1, "ScatterNDAttrs", (_REDUCTION_FIELD,)), signature=Signature("AlA", "A"), dims=same
)


def tensor_scatter(node: Node, context: Context) -> list[Node] | None:
    """Each sample's update is written at its own place along one axis: indices for ScatterElements."""
    cache, update, places = context.input(0), context.input(1), context.optional(2)
    rank = context.known_rank(cache)
    axis = normalize(get_int(node, "axis", -2), rank)
    length = context.op(shape.Squeeze, shape.sizes_of(context, update, axis, axis + 1), context.int64([0]))
    steps = context.op(creation.Range, context.int64_scalar(0), length, context.int64_scalar(1))
    indices = context.op(shape.Reshape, steps, context.int64([-1] + [1] * (rank - axis - 1)))
    if places:
        first = context.op(shape.Reshape, places, context.int64([-1] + [1] * (rank - 1)))
        indices = context.op(elementwise.Add, first, indices)
    if get_string(node, "mode", "linear") == "circular":
        indices = context.op(elementwise.Mod, indices, shape.sizes_of(context, cache, axis, axis + 1))
    indices = context.op(shape.Expand, indices, shape.sizes_of(context, update, 0, rank))
    return context.replace(context.op(ScatterElements, cache, indices, update, axis=axis))


TensorScatter = OperatorSpec("TensorScatter", dims=same, rewritings=(tensor_scatter,))
