"""Elements at given indices, updates at given places, and the places of equal elements.

Spec: ONNX, Operators.md, Gather and Scatter operators, Unique.
"""

from __future__ import annotations

from typing import Final

from formats.ir.attributes import attribute_named, get_int, get_string
from formats.ir.dtypes import BOOL, FLOAT, INT16, INT32, INT64, UINT16
from formats.ir.model import Graph, Node
from formats.ir.storage import from_numpy
from formats.rten.convert.context import Context
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import NAN_ORDER, always, for_outputs, like_second, normalize, same, widened
from formats.rten.spec import (
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    axis_field,
    because,
    of_input,
    unknown,
)
from formats.rten.target import RTEN_0_26, RTEN_0_27, Fault
from formats.rten.types import BYTES
from formats.tensordata.plan import RARE, RESULTS


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
    ToOnnx("Ai", "A"),
)
GatherElements = OperatorSpec(
    "GatherElements",
    Outputs(like_second, range=ranges.of(0)),
    ToRten(Row(2, 1, "GatherAttrs", (axis_field(0),))),
    ToOnnx("Ai", "A"),
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
    ToRten(Row(2, 1, "GatherNDAttrs", (Field("batch_dims", int, 0),))),
    ToOnnx("Al", "A"),
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
    Outputs(one_hot_dims, of_input(2), range=ranges.of(2), sizes=(1,)),
    ToRten(Row(3, 1, "OneHotAttrs", (axis_field(-1),)), rewritings=(one_hot,), narrow=widened((2,))),
    ToOnnx("llv", ranks={1: 0}),
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
        dims = op("Shape", data)  # empty for a scalar
        count = op("Max", op("Shape", dims), [1])
        sizes = op("Slice", op("Concat", dims, sizes, axis=0), [0], count)
    return context.replace(op("NonZero", context.scope.add_safe(_NO_ROW, op("Reshape", data, sizes))))


NonZero = OperatorSpec(
    "NonZero",
    Outputs(non_zero_dims, always(INT64), range=ranges.sizes),
    ToRten(Row(1), rewritings=(non_zero,), narrow=widened((0,), ())),
    ToOnnx(deviations=lambda node, context: (_NO_ROW_DEVIATION,) if context.dims(node.input[0]) == () else ()),
)


def compress(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Gather of the positions whose condition is true."""
    op = context.op
    data, condition = context.input(0), context.input(1)
    axis = get_int(node, "axis")
    if attribute_named(node, "axis") is None:
        data = op("Reshape", data, [-1])
    tests, sizes = context.dims(condition), context.dims(data)
    length, size = tests[0] if tests else None, sizes[axis] if sizes else None
    # A condition may be shorter than the axis, and what is behind its end is dropped; a longer one is cut.
    is_within = isinstance(length, int) and isinstance(size, int) and length <= size
    if length is None or not (is_within or length == size):
        size_of_axis = op("Gather", op("Shape", data), [axis], axis=0)
        condition = op("Slice", condition, [0], size_of_axis)
    places = op("Squeeze", op("NonZero", condition), [0])  # where the condition is true
    return context.replace(op("Gather", data, places, axis=axis))


Compress = OperatorSpec("Compress", Outputs(range=ranges.of(0)), ToRten(rewritings=(compress,)))
_NO_BYTES = Fault("does not support 8-bit integers", until=RTEN_0_27)

Trilu = OperatorSpec(
    "Trilu",
    Outputs(same, range=ranges.with_zero),
    ToRten(
        Row(2, 1, "TriluAttrs", (Field("upper", bool, 1),)), narrow=widened((0,), fault=_NO_BYTES), faults=(_NO_BYTES,)
    ),
    ToOnnx("Al", "A", ranks={1: 0}),
    onnx_loader=OnnxLoader(version=14),
)


_REDUCTION = {"none": "None", "add": "Add", "mul": "Mul", "min": "Min", "max": "Max"}
_REDUCTION_FIELD = Field("reduction", str, "none", choices=_REDUCTION)


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
            # A negative index counts from the end.
            from_end = op("Add", indices, context.cast(size, context.elem_type(indices) or INT64))
            is_negative = op("Less", indices, context.scalar(0, like=indices))
            column = context.cast(op("Where", is_negative, from_end, indices), INT64)
        else:
            steps = shape.numbers_below(context, shape.length_of(context, indices, place))
            lane = op("Reshape", steps, [-1] + [1] * (rank - place - 1))  # length, 1, ...
            column = op("Expand", lane, shape.sizes_of(context, indices, 0, rank))
        columns.append(op("Unsqueeze", column, [-1]))  # the dims of the indices, 1
    return op("Concat", *columns, axis=-1)  # the dims of the indices, rank


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


@because("RTen fails for slices without elements, so data without any stay unchanged")
def scatter_in_nothing(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    return context.replace(context.op("Identity", data)) if 0 in (context.dims(data) or ()) else None


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
    ToOnnx("AiA", "A", rewriting=scatter_raised),
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
    ToOnnx("AiA", "A"),
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
        rewritings=(scatter_in_nothing, scatter_nd),
        narrow=wrapped,
        faults=(_NOT_CONTIGUOUS,),
        unspecified=_order_unspecified,
    ),
    ToOnnx("AlA", "A"),
    onnx_loader=OnnxLoader(versions={"reduction": 18}),
)


def tensor_scatter(node: Node, context: Context) -> list[Node] | None:
    """Write it as ScatterElements with the indices of each sample's update."""
    op = context.op
    cache, update, places = context.input(0), context.input(1), context.optional(2)
    rank = context.known_rank(cache)
    axis = normalize(get_int(node, "axis", -2), rank)
    steps = shape.numbers_below(context, shape.length_of(context, update, axis))
    indices = op("Reshape", steps, [-1] + [1] * (rank - axis - 1))  # steps, 1, ...
    if places:
        first = op("Reshape", places, [-1] + [1] * (rank - 1))  # samples, 1, ...
        indices = op("Add", first, indices)
    if get_string(node, "mode", "linear") == "circular":
        indices = op("Mod", indices, shape.sizes_of(context, cache, axis, axis + 1))
    indices = op("Expand", indices, shape.sizes_of(context, update, 0, rank))  # the dims of the update
    return context.replace(op("ScatterElements", cache, indices, update, axis=axis))


TensorScatter = OperatorSpec("TensorScatter", Outputs(same), ToRten(rewritings=(tensor_scatter,)))


def _filled(context: Context, sizes: str, number: int = 0) -> str:
    """A tensor of INT64 with one number everywhere."""
    import numpy

    return context.op("ConstantOfShape", sizes, value=from_numpy(numpy.array([number], numpy.int64)))


def _counted(context: Context, size: str) -> str:
    """The numbers from 0 on, as many as a vector of one says."""
    return shape.numbers_below(context, context.op("Squeeze", size, [0]))


def _ranked(context: Context, keys: str) -> tuple[str, str]:
    """For each element of a vector, how many different ones are less; and how many different ones there are."""
    op = context.op
    zero, one, size = context.int64([0]), context.int64([1]), op("Shape", keys)
    # Sorted, equal elements are next to each other: a rank is the number of steps before it, where the element changes.
    values, order = context.op_outputs("TopK", [keys, size], 2, axis=0, largest=0)
    behind = op("Slice", values, one, size, zero)
    before = op("Slice", values, zero, [-1], zero)
    is_same = op("Equal", behind, before)  # one less than there are elements
    steps = context.cast(op("Not", is_same), INT64)
    first = context.scalar(1, elem_type=INT64)
    steps = op("Pad", steps, [1, 0], first)
    steps = op("Slice", steps, zero, size, zero)
    count = op("ReduceSum", steps, zero, keepdims=1)
    sorted_ranks = op("Sub", op("CumSum", steps, 0), one)  # the first step is before the first element
    return op("ScatterElements", _filled(context, size), order, sorted_ranks, axis=0), count


def _ranked_slices(node: Node, context: Context, rows: str) -> tuple[str, str]:
    """The same for the rows of a matrix: by their first elements, equal ones by the next, and so on."""
    dims, size = context.dims(rows) or (None, None), shape.sizes_of(context, rows, 0, 1)
    elem_type = context.elem_type(rows) or FLOAT
    inner = context.nested()
    ranks, column = (context.names.new(f"{node.output[0]}/{what}") for what in ("ranks", "column"))
    inner.scope.add_input(ranks, ValueType(INT64, dims[:1]))
    inner.scope.add_input(column, ValueType(elem_type, dims[:1]))
    ranks_of_column, _ = _ranked(inner, column)
    # The old rank decides, and the new column only among equal ones: there are no more ranks than rows.
    both = inner.op("Add", inner.op("Mul", ranks, size), ranks_of_column)
    after, _ = _ranked(inner, both)
    body = Graph(
        name=f"{node.output[0]}/body",
        node=inner.emitted,
        input=[context.value_info(ranks, INT64, dims[:1]), context.value_info(column, elem_type, dims[:1])],
        output=[context.value_info(after, INT64, dims[:1])],
    )
    inputs = [_filled(context, size), rows]
    (result,) = context.op_outputs("Scan", inputs, 1, body=body, num_scan_inputs=1, scan_input_axes=[1])
    return _ranked(context, result)


MAX_RANKED_SLICES = 46340  # the square of one more needs more than 32 bits
_MANY_SLICES = Deviation("more than 46,340 slices may get wrong ranks, because RTen computes these in 32 bits", RARE)


def unique(node: Node, context: Context) -> list[Node] | None:
    """Write it by sorting: the ranks of equal elements are equal, and say where each of them counts."""
    op = context.op
    data, axis = context.input(0), 0
    if attribute_named(node, "axis") is None:
        data = op("Reshape", data, [-1])
        ranks, count = _ranked(context, data)
    else:
        rank = context.known_rank(data)
        axis = normalize(get_int(node, "axis"), rank)
        slices = (context.dims(data) or (None,) * rank)[axis]
        if not isinstance(slices, int) or slices > MAX_RANKED_SLICES:
            context.report(_MANY_SLICES)
        # The slices come first, then the axes of a slice.
        front = op("Transpose", data, perm=[axis, *(place for place in range(rank) if place != axis)])
        sizes = shape.joined(context, shape.sizes_of(context, front, 0, 1), shape.size_of(context, front, 1, rank))
        # The matrix has a row for each slice, with all of its elements.
        ranks, count = _ranked_slices(node, context, op("Reshape", front, sizes, allowzero=1))
    size = op("Shape", ranks)
    places = _counted(context, size)
    last = op("Expand", size, count)  # for each rank a place beyond all, of which the least remains
    first = op("ScatterElements", last, ranks, places, axis=0, reduction="min")  # for each rank its first place
    ones = _filled(context, size, 1)
    # How many elements have each rank.
    counts = op("ScatterElements", _filled(context, count), ranks, ones, axis=0, reduction="add")
    if not get_int(node, "sorted", 1):
        first, order = context.op_outputs("TopK", [first, count], 2, axis=0, largest=0)
        counts = op("Gather", counts, order, axis=0)
        new_ranks = op("ScatterElements", _filled(context, count), order, _counted(context, count), axis=0)
        ranks = op("Gather", new_ranks, ranks, axis=0)
    return context.replace(op("Gather", data, first, axis=axis), first, ranks, counts)


def unique_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """As many as there are different ones; the third output has the ranks of all."""
    dims = types[0].dims
    if attribute_named(node, "axis") is None or dims is None:
        return [(None,) if attribute_named(node, "axis") is None else None, (None,), (None,), (None,)]
    axis = normalize(get_int(node, "axis"), len(dims))
    return [(*dims[:axis], None, *dims[axis + 1 :]), (None,), (dims[axis],), (None,)]


Unique = OperatorSpec(
    "Unique",
    Outputs(
        unique_dims,
        for_outputs(of_input(0), always(INT64)),
        range=ranges.of(0),
        places=dict.fromkeys((1, 2, 3), ranges.places),
    ),
    ToRten(rewritings=(unique,)),
)
