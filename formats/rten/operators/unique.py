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
    comparison,
    control_flow,
    creation,
    cumulative,
    elementwise,
    indexing,
    padding,
    reduction,
    scatter,
    shape,
    slicing,
)
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rules import always, normalize
from formats.rten.operators.shared.spec import OperatorSpec, of_input

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims


def _filled(context: Context, sizes: str, number: int = 0) -> str:
    """A tensor of INT64 with one number everywhere."""
    import numpy

    return context.op(creation.ConstantOfShape, sizes, value=from_numpy(numpy.array([number], numpy.int64)))


def _counted(context: Context, size: str) -> str:
    """The numbers from 0 on, as many as a vector of one says."""
    end = context.op(shape.Squeeze, size, context.int64([0]))
    return context.op(creation.Range, context.int64_scalar(0), end, context.int64_scalar(1))


def _ranked(context: Context, keys: str) -> tuple[str, str]:
    """For each element of a vector, how many different ones are less; and how many different ones there are."""
    zero, one, size = context.int64([0]), context.int64([1]), context.op(shape.Shape, keys)
    values, order = context.op_outputs(reduction.TopK, [keys, size], 2, axis=0, largest=0)
    behind = context.op(slicing.Slice, values, one, size, zero)
    before = context.op(slicing.Slice, values, zero, context.int64([-1]), zero)
    is_same = context.op(comparison.Equal, behind, before)
    steps = context.cast(context.op(comparison.Not, is_same), INT64)
    first = context.scalar(1, elem_type=INT64)
    steps = context.op(padding.Pad, steps, context.int64([1, 0]), first)
    steps = context.op(slicing.Slice, steps, zero, size, zero)
    count = context.op(reduction.ReduceSum, steps, zero, keepdims=1)
    sorted_ranks = context.op(elementwise.Sub, context.op(cumulative.CumSum, steps, context.int64_scalar(0)), one)
    return context.op(scatter.ScatterElements, _filled(context, size), order, sorted_ranks, axis=0), count


def _ranked_slices(node: Node, context: Context, rows: str) -> tuple[str, str]:
    """The same for the rows of a matrix: by their first elements, equal ones by the next, and so on."""
    dims, size = context.dims(rows) or (None, None), shape.sizes_of(context, rows, 0, 1)
    elem_type = context.elem_type(rows) or FLOAT
    inner = context.nested()
    ranks, column = (context.names.new(f"{node.output[0]}/{what}") for what in ("ranks", "column"))
    inner.scope.add_input(ranks, ValueType(INT64, dims[:1]))
    inner.scope.add_input(column, ValueType(elem_type, dims[:1]))
    found, _ = _ranked(inner, column)
    both = inner.op(elementwise.Add, inner.op(elementwise.Mul, ranks, size), found)
    after, _ = _ranked(inner, both)
    body = Graph(
        name=f"{node.output[0]}/body",
        node=inner.emitted,
        input=[context.value_info(ranks, INT64, dims[:1]), context.value_info(column, elem_type, dims[:1])],
        output=[context.value_info(after, INT64, dims[:1])],
    )
    inputs = [_filled(context, size), rows]
    (result,) = context.op_outputs(control_flow.Scan, inputs, 1, body=body, num_scan_inputs=1, scan_input_axes=[1])
    return _ranked(context, result)


def unique(node: Node, context: Context) -> list[Node] | None:
    """Write it by sorting: the ranks of equal elements are equal, and say where each of them counts."""
    data, axis = context.input(0), 0
    if find(node, "axis") is None:
        data = context.op(shape.Reshape, data, context.int64([-1]))
        ranks, count = _ranked(context, data)
    else:
        rank = context.known_rank(data)
        axis = normalize(get_int(node, "axis"), rank)
        front = context.op(shape.Transpose, data, perm=[axis, *(place for place in range(rank) if place != axis)])
        sizes = shape.joined(context, shape.sizes_of(context, front, 0, 1), shape.size_of(context, front, 1, rank))
        ranks, count = _ranked_slices(node, context, context.op(shape.Reshape, front, sizes, allowzero=1))
    size = context.op(shape.Shape, ranks)
    places = _counted(context, size)
    last = context.op(shape.Expand, size, count)
    first = context.op(scatter.ScatterElements, last, ranks, places, axis=0, reduction="min")
    ones = _filled(context, size, 1)
    counts = context.op(scatter.ScatterElements, _filled(context, count), ranks, ones, axis=0, reduction="add")
    if not get_int(node, "sorted", 1):
        first, order = context.op_outputs(reduction.TopK, [first, count], 2, axis=0, largest=0)
        counts = context.op(indexing.Gather, counts, order, axis=0)
        new_ranks = context.op(
            scatter.ScatterElements, _filled(context, count), order, _counted(context, count), axis=0
        )
        ranks = context.op(indexing.Gather, new_ranks, ranks, axis=0)
    return context.replace(context.op(indexing.Gather, data, first, axis=axis), first, ranks, counts)


def unique_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """As many as there are different ones; the third output has the ranks of all."""
    dims = types[0].dims
    if find(node, "axis") is None or dims is None:
        return [(None,) if find(node, "axis") is None else None, (None,), (None,), (None,)]
    axis = normalize(get_int(node, "axis"), len(dims))
    return [(*dims[:axis], None, *dims[axis + 1 :]), (None,), (dims[axis],), (None,)]


Unique = OperatorSpec(
    "Unique", dims=unique_dims, elements=(of_input(0), always(INT64)), rewritings=(unique,), range=ranges.of(0)
)
