"""Elements at given indices, and indices of elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import INT32, INT64
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.graph.attributes import find, get_int
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rewritings import widened
from formats.rten.operators.shared.rules import always, like_second, normalize, same
from formats.rten.operators.shared.spec import (
    Deviation,
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
    of_input,
)
from formats.rten.target import RTEN_0_27, Fault
from formats.tensordata.plan import RESULTS

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope


def gather_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The gathered axis is replaced by the dims of the indices."""
    data, indices = types[0].dims, types[1].dims
    if data is None or indices is None:
        return []
    axis = normalize(get_int(node, "axis"), len(data))
    return [data[:axis] + indices + data[axis + 1 :]]


def gather_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The elements at the indices."""
    data, indices = scope.contents_of(node.input[0]), scope.ints(node.input[1])
    if data is None or indices is None or types[0].dims is None or len(types[0].dims) != 1:
        return None
    return tuple(data[index] for index in indices)


Gather = OperatorSpec(
    "Gather",
    Outputs(gather_dims, contents=gather_contents, range=ranges.of(0), sizes_from=(0,), passes_on=True),
    ToRten(Row(2, 1, "GatherAttrs", (axis_field(0),))),
    to_onnx=ToOnnx(Signature("Ai", "A")),
)
GatherElements = OperatorSpec(
    "GatherElements",
    Outputs(like_second, range=ranges.of(0)),
    ToRten(Row(2, 1, "GatherAttrs", (axis_field(0),))),
    to_onnx=ToOnnx(Signature("Ai", "A")),
)


def gather_nd_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The leading dims of the indices, then the dims of the data that an index does not cover."""
    data, indices = types[0].dims, types[1].dims
    if data is None or indices is None or not isinstance(indices[-1], int):
        return []
    return [indices[:-1] + data[get_int(node, "batch_dims") + indices[-1] :]]


GatherND = OperatorSpec(
    "GatherND",
    Outputs(gather_nd_dims, range=ranges.of(0)),
    ToRten(Row(2, 1, "GatherNDAttrs", (Field("batch_dims", FieldKind.INT, 0),))),
    to_onnx=ToOnnx(Signature("Al", "A")),
)


def one_hot_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The depth is inserted at the axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis", -1), len(dims) + 1)
    depth = (scope.contents_of(node.input[1]) or (None,))[0]
    return [(*dims[:axis], depth, *dims[axis:])]


@because("RTen's OneHot needs integers as indices and depth. Others are cut off, as ONNX specifies")
def one_hot(node: Node, context: Context) -> list[Node] | None:
    inputs = [
        name if context.elem_type(name) in (None, INT32, INT64) else context.op("Cast", name, to=INT64)
        for name in (context.input(0), context.input(1))
    ]
    return context.changed([*inputs, context.input(2)]) if context.emitted else None


OneHot = OperatorSpec(
    "OneHot",
    Outputs(one_hot_dims, elements=of_input(2), range=ranges.of(2), sizes=(1,)),
    ToRten(Row(3, 1, "OneHotAttrs", (axis_field(-1),)), rewritings=(one_hot,), narrow=widened((2,))),
    to_onnx=ToOnnx(Signature("llv"), ranks={1: 0}),
)


def non_zero_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The rank, and a number of elements that is known only at run time."""
    dims = types[0].dims
    return [(None if dims is None else len(dims), None)]


_NO_ROW = Fault("returns no row for a scalar")
_NO_ROW_DEVIATION = Deviation(_NO_ROW.sentence, RESULTS)


@because("RTen returns no row for a scalar, so it becomes a vector of one element")
def non_zero(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data = context.input(0)
    rank = context.rank(data)
    if rank or context.scope.is_safe(_NO_ROW, data):
        return None
    sizes = context.int64([1])
    if rank is None:  # the dims, and one if there are none
        dims = op("Shape", data)
        count = op("Max", op("Shape", dims), context.int64([1]))
        sizes = op("Slice", op("Concat", dims, sizes, axis=0), context.int64([0]), count)
    return context.replace(op("NonZero", context.scope.add_safe(_NO_ROW, op("Reshape", data, sizes))))


def _non_zero_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_NO_ROW_DEVIATION,) if context.dims(node.input[0]) == () else ()


NonZero = OperatorSpec(
    "NonZero",
    Outputs(non_zero_dims, elements=always(INT64), range=ranges.sizes),
    ToRten(Row(1), rewritings=(non_zero,), narrow=widened((0,), ())),
    to_onnx=ToOnnx(deviations=_non_zero_deviations),
)


def compress(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Gather of the positions whose condition is true."""
    op = context.op
    data, condition = context.input(0), context.input(1)
    axis = get_int(node, "axis")
    if find(node, "axis") is None:
        data = op("Reshape", data, context.int64([-1]))
    tests, sizes = context.dims(condition), context.dims(data)
    length, size = tests[0] if tests else None, sizes[axis] if sizes else None
    is_within = isinstance(length, int) and isinstance(size, int) and length <= size
    if length is None or not (is_within or length == size):
        size_of_axis = op("Gather", op("Shape", data), context.int64([axis]), axis=0)
        condition = op("Slice", condition, context.int64([0]), size_of_axis)
    found = op("Squeeze", op("NonZero", condition), context.int64([0]))
    return context.replace(op("Gather", data, found, axis=axis))


Compress = OperatorSpec("Compress", Outputs(range=ranges.of(0)), ToRten(rewritings=(compress,)))
_NO_BYTES = Fault("does not support 8-bit integers", until=RTEN_0_27)

Trilu = OperatorSpec(
    "Trilu",
    Outputs(same, range=ranges.with_zero),
    ToRten(
        Row(2, 1, "TriluAttrs", (Field("upper", FieldKind.BOOL, 1),)),
        narrow=widened((0,), fault=_NO_BYTES),
        faults=(_NO_BYTES,),
    ),
    to_onnx=ToOnnx(Signature("Al", "A"), ranks={1: 0}),
    onnx_loader=OnnxLoader(version=14),
)
