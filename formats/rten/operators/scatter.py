"""Updates written at given places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BOOL, INT16, INT64, UINT16
from formats.rten.graph.attributes import get_int, get_string
from formats.rten.operators import shape
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rewritings import widened
from formats.rten.operators.shared.rules import NAN_ORDER, normalize, same
from formats.rten.operators.shared.spec import (
    Field,
    FieldKind,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    Signature,
    ToOnnx,
    ToRten,
    axis_field,
    because,
    unknown,
)
from formats.rten.target import RTEN_0_26, RTEN_0_27, Fault
from formats.rten.types import BYTES

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.shared.spec import Deviation

_REDUCTION = {"none": "None", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
_REDUCTION_FIELD = Field("reduction", FieldKind.CHOICE, "none", choices=_REDUCTION)


@because("Scatter is the old name of ScatterElements")
def scatter(node: Node, context: Context) -> list[Node] | None:
    return context.replace(context.op("ScatterElements", *node.input, axis=get_int(node, "axis")))


def scatter_raised(node: Node, context: Context) -> list[Node]:
    """The old operator has no reduction, and RTen looks for none."""
    return context.replace(context.copy(node.input, "ScatterElements", without=["reduction"]))


def _coordinates(context: Context, indices: str, data: str, axis: int, rank: int) -> str:
    """The place in the data of each element of the indices, as the vectors that ScatterND takes."""
    op = context.op
    columns = []
    for place in range(rank):
        if place == axis:
            size = shape.sizes_of(context, data, place, place + 1)
            from_end = op("Add", indices, context.cast(size, context.elem_type(indices) or INT64))
            is_negative = op("Less", indices, context.scalar(0, like=indices))
            column = context.cast(op("Where", is_negative, from_end, indices), INT64)
        else:
            length = op("Squeeze", shape.sizes_of(context, indices, place, place + 1), context.int64([0]))
            steps = op("Range", context.int64_scalar(0), length, context.int64_scalar(1))
            lane = op("Reshape", steps, context.int64([-1] + [1] * (rank - place - 1)))
            column = op("Expand", lane, shape.sizes_of(context, indices, 0, rank))
        columns.append(op("Unsqueeze", column, context.int64([-1])))
    return op("Concat", *columns, axis=-1)


@because("RTen takes the lanes of the indices for the first ones of the data, so each update gets its coordinates")
def scatter_elements(node: Node, context: Context) -> list[Node] | None:
    # That is right if the other axes are equally long, but for the first of them that has more than one element.
    data, indices, updates = (context.input(place) for place in range(3))
    whole, dims = context.dims(data), context.dims(indices) or context.dims(updates)
    rank = len(whole) if whole is not None else context.known_rank(indices) if dims is None else len(dims)
    axis = normalize(get_int(node, "axis"), rank)
    lanes = [place for place in range(rank) if place != axis]
    if len(lanes) < 2:
        return None
    whole, dims = whole or (None,) * rank, dims or (None,) * rank
    first = next((number for number, place in enumerate(lanes) if dims[place] != 1), len(lanes))
    if all(dims[place] is not None and dims[place] == whole[place] for place in lanes[first + 1 :]):
        return None
    coordinates = _coordinates(context, indices, data, axis, rank)
    attributes = {"reduction": get_string(node, "reduction", "none")}
    return context.replace(context.op("ScatterND", data, coordinates, updates, **attributes))


_WRAPPING: Final = BYTES | {BOOL, INT16, UINT16}


@because("RTen adds and multiplies in 32 bits, so short integers and BOOL are wrapped afterwards")
def wrapped(node: Node, context: Context) -> list[Node] | None:
    narrow = _WRAPPING if get_string(node, "reduction") in ("add", "mul") else frozenset()
    return widened((0, 2), narrow=narrow)(node, context)


def _order_unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (*NAN_ORDER(node, context),) if get_string(node, "reduction") in ("min", "max") else ()


Scatter = OperatorSpec(
    "Scatter",
    Outputs(elements=unknown, range=ranges.of(0, 2)),
    ToRten(Row(3, 1, "ScatterElementsAttrs", (axis_field(0), _REDUCTION_FIELD)), older=(scatter,)),
    to_onnx=ToOnnx(Signature("AiA", "A"), rewriting=scatter_raised),
    onnx_loader=OnnxLoader(Row(3, fields=(axis_field(0),))),
)
ScatterElements = OperatorSpec(
    "ScatterElements",
    Outputs(same, range=ranges.accumulated),
    ToRten(
        Row(3, 1, "ScatterElementsAttrs", (axis_field(0), _REDUCTION_FIELD)),
        rewritings=(scatter_elements,),
        narrow=wrapped,
        unspecified=_order_unspecified,
    ),
    to_onnx=ToOnnx(Signature("AiA", "A")),
    onnx_loader=OnnxLoader(versions={"reduction": 18}),
)
_NOT_CONTIGUOUS = Fault("fails if the data is a slice of another value", until=RTEN_0_27, since=RTEN_0_26)


@because("RTen fails for data that are not contiguous, so they are reshaped to their own dims")
def scatter_nd(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    is_constant = context.scope.constant(data) is not None
    if is_constant or not context.target.deviates(_NOT_CONTIGUOUS) or context.scope.is_safe(_NOT_CONTIGUOUS, data):
        return None
    rank = context.rank(data)
    dims = context.op("Shape", data) if rank is None else context.int64([0] * rank)  # 0 means "unchanged"
    whole = context.scope.add_safe(_NOT_CONTIGUOUS, context.op("Reshape", data, dims))
    return context.changed([whole, *node.input[1:]])


ScatterND = OperatorSpec(
    "ScatterND",
    Outputs(same, range=ranges.accumulated),
    ToRten(
        Row(3, 1, "ScatterNDAttrs", (_REDUCTION_FIELD,)),
        rewritings=(scatter_nd,),
        narrow=wrapped,
        faults=(_NOT_CONTIGUOUS,),
        unspecified=_order_unspecified,
    ),
    to_onnx=ToOnnx(Signature("AlA", "A")),
    onnx_loader=OnnxLoader(versions={"reduction": 18}),
)


def tensor_scatter(node: Node, context: Context) -> list[Node] | None:
    """Write it as ScatterElements with the indices of each sample's update."""
    op = context.op
    cache, update, places = context.input(0), context.input(1), context.optional(2)
    rank = context.known_rank(cache)
    axis = normalize(get_int(node, "axis", -2), rank)
    length = op("Squeeze", shape.sizes_of(context, update, axis, axis + 1), context.int64([0]))
    steps = op("Range", context.int64_scalar(0), length, context.int64_scalar(1))
    indices = op("Reshape", steps, context.int64([-1] + [1] * (rank - axis - 1)))
    if places:
        first = op("Reshape", places, context.int64([-1] + [1] * (rank - 1)))
        indices = op("Add", first, indices)
    if get_string(node, "mode", "linear") == "circular":
        indices = op("Mod", indices, shape.sizes_of(context, cache, axis, axis + 1))
    indices = op("Expand", indices, shape.sizes_of(context, update, 0, rank))
    return context.replace(op("ScatterElements", cache, indices, update, axis=axis))


TensorScatter = OperatorSpec("TensorScatter", Outputs(same), ToRten(rewritings=(tensor_scatter,)))
