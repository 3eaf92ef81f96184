"""The different elements or slices of a tensor: sorted, so that equal ones are next to each other, and counted.

Spec: ONNX, Operators.md, Unique.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT, INT64
from formats.ir.model import Graph
from formats.ir.storage import from_numpy
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import find, get_int
from formats.rten.operators import (
    shape,
)
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rules import always, in_order, normalize
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, ToRten, of_input

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims


def _filled(context: Context, sizes: str, number: int = 0) -> str:
    """A tensor of INT64 with one number everywhere."""
    import numpy

    return context.op("ConstantOfShape", sizes, value=from_numpy(numpy.array([number], numpy.int64)))


def _counted(context: Context, size: str) -> str:
    """The numbers from 0 on, as many as a vector of one says."""
    end = context.op("Squeeze", size, context.int64([0]))
    return context.op("Range", context.int64_scalar(0), end, context.int64_scalar(1))


def _ranked(context: Context, keys: str) -> tuple[str, str]:
    """For each element of a vector, how many different ones are less; and how many different ones there are."""
    op = context.op
    zero, one, size = context.int64([0]), context.int64([1]), op("Shape", keys)
    values, order = context.op_outputs("TopK", [keys, size], 2, axis=0, largest=0)
    behind = op("Slice", values, one, size, zero)
    before = op("Slice", values, zero, context.int64([-1]), zero)
    is_same = op("Equal", behind, before)
    steps = context.cast(op("Not", is_same), INT64)
    first = context.scalar(1, elem_type=INT64)
    steps = op("Pad", steps, context.int64([1, 0]), first)
    steps = op("Slice", steps, zero, size, zero)
    count = op("ReduceSum", steps, zero, keepdims=1)
    sorted_ranks = op("Sub", op("CumSum", steps, context.int64_scalar(0)), one)
    return op("ScatterElements", _filled(context, size), order, sorted_ranks, axis=0), count


def _ranked_slices(node: Node, context: Context, rows: str) -> tuple[str, str]:
    """The same for the rows of a matrix: by their first elements, equal ones by the next, and so on."""
    dims, size = context.dims(rows) or (None, None), shape.sizes_of(context, rows, 0, 1)
    elem_type = context.elem_type(rows) or FLOAT
    inner = context.nested()
    ranks, column = (context.names.new(f"{node.output[0]}/{what}") for what in ("ranks", "column"))
    inner.scope.add_input(ranks, ValueType(INT64, dims[:1]))
    inner.scope.add_input(column, ValueType(elem_type, dims[:1]))
    found, _ = _ranked(inner, column)
    both = inner.op("Add", inner.op("Mul", ranks, size), found)
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


def unique(node: Node, context: Context) -> list[Node] | None:
    """Write it by sorting: the ranks of equal elements are equal, and say where each of them counts."""
    op = context.op
    data, axis = context.input(0), 0
    if find(node, "axis") is None:
        data = op("Reshape", data, context.int64([-1]))
        ranks, count = _ranked(context, data)
    else:
        rank = context.known_rank(data)
        axis = normalize(get_int(node, "axis"), rank)
        front = op("Transpose", data, perm=[axis, *(place for place in range(rank) if place != axis)])
        sizes = shape.joined(context, shape.sizes_of(context, front, 0, 1), shape.size_of(context, front, 1, rank))
        ranks, count = _ranked_slices(node, context, op("Reshape", front, sizes, allowzero=1))
    size = op("Shape", ranks)
    places = _counted(context, size)
    last = op("Expand", size, count)
    first = op("ScatterElements", last, ranks, places, axis=0, reduction="min")
    ones = _filled(context, size, 1)
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
    if find(node, "axis") is None or dims is None:
        return [(None,) if find(node, "axis") is None else None, (None,), (None,), (None,)]
    axis = normalize(get_int(node, "axis"), len(dims))
    return [(*dims[:axis], None, *dims[axis + 1 :]), (None,), (dims[axis],), (None,)]


Unique = OperatorSpec(
    "Unique",
    Outputs(unique_dims, elements=in_order(of_input(0), always(INT64)), range=ranges.of(0)),
    ToRten(rewritings=(unique,)),
)
