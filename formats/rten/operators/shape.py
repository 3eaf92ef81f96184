"""Dims: read, changed, or put in another order, with the same elements or repeated ones."""

from __future__ import annotations

from math import prod
from typing import Any

from formats.ir.attributes import get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT64
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.graph.attributes import with_input
from formats.rten.operators import ranges
from formats.rten.operators.rules import (
    always,
    broadcast_dims,
    multiply,
    normalize,
    promoted,
    reduced,
    same,
    same_contents,
    scalar,
    unknown_dims,
    widened,
)
from formats.rten.spec import (
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    axis_field,
    because,
    sizes_field,
)
from formats.rten.target import RTEN_0_27, Fault
from formats.rten.types import clamp_int32


def shape_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One dim: the number of axes that the node reads."""
    dims = types[0].dims
    if dims is None:
        return [(None,)]
    end = get_int(node, "end", len(dims))
    return [(len(range(len(dims))[get_int(node, "start") : end]),)]


def shape_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The dims of the input."""
    dims = types[0].dims
    return None if dims is None else dims[get_int(node, "start") : get_int(node, "end", len(dims))]


def _record_shaped(node: Node, scope: Scope, types: list[ValueType]) -> None:
    """Record which value has the dims that the output contains."""
    if not node.attribute:
        scope.shaped.update(zip(node.output, node.input, strict=False))


@because("RTen's ONNX loader refuses bounds beyond 32 bits, which mean the same as the nearest that fit")
def shape_within_bounds(node: Node, context: Context) -> list[Node] | None:
    outside = [name for name in ("start", "end") if get_int(node, name) != clamp_int32(get_int(node, name))]
    if not outside or not context.target.is_onnx:
        return None
    bounds: dict[str, Any] = {name: clamp_int32(get_int(node, name)) for name in outside}
    return context.changed(**bounds)


Shape = OperatorSpec(
    "Shape",
    Outputs(shape_dims, always(INT64), contents=shape_contents, range=ranges.sizes, record=_record_shaped),
    ToRten(
        Row(1, 1, "ShapeAttrs", (Field("start", int, is_bound=True), Field("end", int, is_bound=True)), optional=True),
        rewritings=(shape_within_bounds,),
    ),
    onnx_loader=OnnxLoader(versions={"start": 15, "end": 15}),
)


def without_elements(context: Context, dims: Dims | None, elem_type: int | None) -> str:
    """A constant of these dims if they are known to leave no elements; otherwise empty."""
    sizes = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is None or 0 not in sizes or len(sizes) < len(dims) or prod(filter(None, sizes)) >= 1 << 31:
        return ""
    return context.array(budget.zeros(sizes), elem_type or FLOAT)


def size_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The product of the dims."""
    dims = types[0].dims
    return None if dims is None else (multiply(dims),)


Size = OperatorSpec("Size", Outputs(scalar, always(INT64), contents=size_contents, range=ranges.counts), ToRten(Row(1)))
Identity = OperatorSpec(
    "Identity",
    Outputs(
        same, contents=same_contents, range=ranges.of(0), sizes_from=(0,), moves=(0,), is_copy=True, passes_on=True
    ),
    ToRten(Row(1)),
    ToOnnx("A", "A", carries_sequences=True),
)


def _remaining_dim(source: Dims | None, target: Dims) -> Dim:
    """The size that -1 means: the product of `source`, divided by the other sizes of `target`."""
    if source is None:
        return None
    source_dims, target_dims = list(source), [dim for dim in target if dim != -1]
    for name in [dim for dim in source_dims if isinstance(dim, str)]:
        if name in target_dims:
            source_dims.remove(name)  # equal names cancel out
            target_dims.remove(name)
    if any(not isinstance(dim, int) for dim in target_dims):
        return None
    total, divisor = multiply(source_dims), multiply(target_dims)
    if isinstance(total, int) and isinstance(divisor, int) and divisor:
        return total // divisor
    names = [dim for dim in source_dims if not isinstance(dim, int)]  # sizes with names that did not cancel out
    same_size = prod(dim for dim in source_dims if isinstance(dim, int)) == divisor
    return names[0] if len(names) == 1 and same_size else None


def reshape_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims that the second input gives, with 0 copied and -1 computed."""
    source, target = types[0].dims, scope.contents_of(node.input[1])
    if target is None:
        return [unknown_dims((types[1].dims or (None,))[0])]
    if not get_int(node, "allowzero"):
        target = tuple((source[place] if source else None) if dim == 0 else dim for place, dim in enumerate(target))
    if -1 not in target:
        return [target]
    missing = target.index(-1)
    return [(*target[:missing], _remaining_dim(source, target), *target[missing + 1 :])]


Reshape = OperatorSpec(
    "Reshape",
    Outputs(
        reshape_dims,
        contents=same_contents,
        range=ranges.of(0),
        sizes=(1,),
        sizes_from=(0,),
        moves=(0,),
        passes_on=True,
    ),
    ToRten(Row(2, 1, "ReshapeAttrs", (Field("allow_zero", bool, 0, "allowzero"),)), older=(promoted(shape=1),)),
    ToOnnx("Al", "A"),
    onnx_loader=OnnxLoader(inputs={"shape": 1}, versions={"allowzero": 14}),
)


def flatten_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Two dims: the product before the axis, and the product from the axis on."""
    dims = types[0].dims
    if dims is None:
        return [(None, None)]
    axis = get_int(node, "axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return [(multiply(dims[:axis]), multiply(dims[axis:]))]


Flatten = OperatorSpec(
    "Flatten",
    Outputs(flatten_dims, range=ranges.of(0), passes_on=True),
    ToRten(Row(1, 1, "FlattenAttrs", (axis_field(1),))),
    ToOnnx("A", "A"),
)


def squeeze_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims without the given axes, or without all ones."""
    dims = types[0].dims
    if dims is None:
        return []
    if len(node.input) < 2 or not node.input[1]:
        return [tuple(dim for dim in dims if dim != 1)] if all(isinstance(d, int) for d in dims) else []
    axes = scope.ints(node.input[1])
    return [] if axes is None else [reduced(dims, axes, keep=0)]


def as_vector(context: Context, name: str) -> str:
    """A scalar as a vector of one element."""
    elements = context.scope.ints(name)
    if elements is not None and context.elem_type(name) == INT64:
        return context.int64(elements)
    return context.op("Reshape", name, [1])


@because("RTen needs the axes as a vector; other runtimes also accept a scalar")
def vector_axes(node: Node, context: Context) -> list[Node] | None:
    axes = context.optional(1)
    if not axes or context.rank(axes) != 0:
        return None
    return context.changed(with_input(node, 1, as_vector(context, axes)))


Squeeze = OperatorSpec(
    "Squeeze",
    Outputs(squeeze_dims, contents=same_contents, range=ranges.of(0), sizes_from=(0,), moves=(0,), passes_on=True),
    ToRten(Row(2), older=(promoted(axes=1),), rewritings=(vector_axes,)),
    ToOnnx("Al", "A"),
    onnx_loader=OnnxLoader(inputs={"axes": 1}),
)


def unsqueeze_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims with ones inserted, at axes of the output."""
    dims, axes = types[0].dims, scope.ints(node.input[1])
    if dims is None or axes is None:
        return []
    rank = len(dims) + len(axes)
    ones = {normalize(axis, rank) for axis in axes}  # axes of the output
    if len(ones) < len(axes):
        raise ValueError("axes twice")
    rest = iter(dims)
    return [tuple(1 if axis in ones else next(rest) for axis in range(rank))]


@because("Axes must be different after negative ones are counted from the end")
def unsqueeze(node: Node, context: Context) -> list[Node] | None:
    axes, rank = context.scope.ints(context.input(1)), context.rank(context.input(0))
    if axes is not None and rank is not None:
        places = {normalize(axis, rank + len(axes)) for axis in axes}
        if len(places) < len(axes):
            raise Refused(f"inserts the same axis twice: axes {list(axes)}")
    return vector_axes(node, context)


Unsqueeze = OperatorSpec(
    "Unsqueeze",
    Outputs(unsqueeze_dims, contents=same_contents, range=ranges.of(0), sizes_from=(0,), moves=(0,), passes_on=True),
    ToRten(Row(2), older=(promoted(axes=1),), rewritings=(unsqueeze,)),
    ToOnnx("Al", "A"),
    onnx_loader=OnnxLoader(inputs={"axes": 1}),
)


def transpose_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims in the order of `perm`, or reversed."""
    dims = types[0].dims
    perm = get_ints(node, "perm")
    if dims is None:
        return [(None,) * len(perm)] if perm else []
    return [dims[::-1] if perm is None else tuple(dims[axis] for axis in perm)]


Transpose = OperatorSpec(
    "Transpose",
    Outputs(transpose_dims, range=ranges.of(0), passes_on=True),
    ToRten(Row(1, 1, "TransposeAttrs", (sizes_field("perm"),)), is_plain=True),
    ToOnnx("A", "A"),
)


def expand_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the input broadcast with the given ones."""
    target = scope.contents_of(node.input[1])
    if target is None:
        return [broadcast_dims(types[0].dims, unknown_dims((types[1].dims or (None,))[0]))]
    return [broadcast_dims(types[0].dims, target)]


@because('Some runtimes read a size of -1 as "keep it", so it is written as 1')
def expand(node: Node, context: Context) -> list[Node] | None:
    # RTen stops if unknown sizes are fewer than the data's axes: ones are added before them.
    data, sizes = context.input(0), context.input(1)
    known_sizes = context.scope.ints(sizes)
    if known_sizes is not None and -1 in known_sizes:
        return context.changed([data, context.int64(1 if size == -1 else size for size in known_sizes)])
    rank, count = context.rank(data), (context.dims(sizes) or (None,))[0]
    if context.scope.constant(sizes) is not None or rank is None or not isinstance(count, int) or count >= rank:
        return None
    return context.changed([data, context.op("Concat", [1] * (rank - count), sizes, axis=0)])


def _record_expanded(node: Node, scope: Scope, types: list[ValueType]) -> None:
    """Record that the output has the axes of the value whose shape the second input is."""
    if node.input[1:] and node.input[1] in scope.shaped:
        scope.expanded.update((name, scope.shaped[node.input[1]]) for name in node.output)


Expand = OperatorSpec(
    "Expand",
    Outputs(expand_dims, range=ranges.of(0), sizes=(1,), record=_record_expanded, passes_on=True),
    ToRten(Row(2), rewritings=(expand,)),
    ToOnnx("Al", "A"),
)


def _times(dim: Dim, factor: Dim) -> Dim:
    return multiply((dim, factor))


def tile_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Each dim times its repeats."""
    dims, repeats = types[0].dims, scope.contents_of(node.input[1])
    if dims is None:
        return []
    if repeats is None:
        return [(None,) * len(dims)]
    return [tuple(map(_times, dims, repeats))]


@because("Before operator set 6, Tile had one axis, and the axis and the repeats were inputs")
def tile_axis(node: Node, context: Context) -> list[Node] | None:
    if context.version >= 6:
        return None
    data, tiles, axis = (context.input(place) for place in range(3))
    repeats = [1] * context.known_rank(data)
    numbers = [context.scope.numbers(name) for name in (tiles, axis)]
    if numbers[0] is None or numbers[1] is None:
        raise Refused("tiles an axis that is known only when the model runs", "make it constant")
    repeats[int(numbers[1][0])] = int(numbers[0][0])
    return context.changed([data, context.int64(repeats)])


_NO_BYTES = Fault("does not support 8-bit integers", until=RTEN_0_27)

Tile = OperatorSpec(
    "Tile",
    Outputs(tile_dims, range=ranges.of(0), sizes=(1,), passes_on=True),
    ToRten(Row(2), older=(tile_axis,), narrow=widened((0,), fault=_NO_BYTES), faults=(_NO_BYTES,)),
    ToOnnx("Al", "A"),
)


def depth_to_space_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Channels become blocks of rows and columns."""
    dims, block = types[0].dims, get_int(node, "blocksize", 1)
    if dims is None:
        return [(None,) * 4]
    batch, channels, *spatial = dims
    depth = channels // block**2 if isinstance(channels, int) else None
    return [(batch, depth, *(size * block if isinstance(size, int) else None for size in spatial))]


def sizes_of(context: Context, data: str, start: int, end: int) -> str:
    """Some of the dims of a value, as a vector. It is constant if they are fixed."""
    dims = context.dims(data)
    part = None if dims is None else dims[start:end]
    if part is not None and all(isinstance(size, int) for size in part):
        return context.int64(size for size in part if isinstance(size, int))
    return context.op("Shape", data, start=start, end=end)


def length_of(context: Context, data: str, axis: int) -> str:
    """The size of one axis, a scalar."""
    return context.op("Squeeze", sizes_of(context, data, axis, axis + 1), [0])


def numbers_below(context: Context, count: str) -> str:
    """The integers from zero up to a scalar, without that number."""
    return context.op("Range", 0, count, 1)


def size_of(context: Context, data: str, start: int, end: int) -> str:
    """The product of some of the dims of a value, a vector of one. -1 is not used if another dim may be zero."""
    sizes = sizes_of(context, data, start, end)
    known_sizes = context.scope.ints(sizes) if context.scope.constant(sizes) is not None else None
    if known_sizes is not None:
        return context.int64([prod(known_sizes)])
    return context.op("ReduceProd", sizes, keepdims=1)


def quotient(context: Context, sizes: str, divisor: int) -> str:
    """Sizes divided by a number."""
    known_sizes = context.scope.ints(sizes) if context.scope.constant(sizes) is not None else None
    if known_sizes is not None:
        return context.int64(size // divisor for size in known_sizes)
    return context.op("Div", sizes, [divisor])


def joined(context: Context, *parts: str) -> str:
    """Vectors of sizes, one after another. The result is constant if all of them are."""
    known_parts = [context.scope.ints(part) if context.scope.constant(part) is not None else None for part in parts]
    if all(numbers is not None for numbers in known_parts):
        return context.int64(number for numbers in known_parts for number in numbers or ())
    return context.op("Concat", *parts, axis=0)


@because("RTen's DepthToSpace is only for floats; other types become Reshape and Transpose")
def depth_to_space(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data, block = context.input(0), get_int(node, "blocksize", 1)
    if not context.is_integer(data):
        return None
    batch, channels = sizes_of(context, data, 0, 1), sizes_of(context, data, 1, 2)
    depth, space = quotient(context, channels, block * block), sizes_of(context, data, 2, 4)
    edges = context.int64([block, block])
    if get_string(node, "mode", "DCR") == "DCR":
        target, perm = joined(context, batch, edges, depth, space), [0, 3, 4, 1, 5, 2]
    else:
        target, perm = joined(context, batch, depth, edges, space), [0, 1, 4, 2, 5, 3]
    moved = op("Transpose", op("Reshape", data, target, allowzero=1), perm=perm)
    rows, columns = sizes_of(context, data, 2, 3), sizes_of(context, data, 3, 4)
    sides = [op("Mul", size, [block]) for size in (rows, columns)]
    return context.replace(op("Reshape", moved, joined(context, batch, depth, *sides), allowzero=1))


DepthToSpace = OperatorSpec(
    "DepthToSpace",
    Outputs(depth_to_space_dims, range=ranges.of(0)),
    ToRten(
        Row(
            1,
            1,
            "DepthToSpaceAttrs",
            (
                Field("mode", str, "DCR", choices={"DCR": "DCR", "CRD": "CRD"}),
                Field("block_size", int, None, "blocksize", minimum=0, required=True),
            ),
        ),
        rewritings=(depth_to_space,),
    ),
)


def space_to_depth(node: Node, context: Context) -> list[Node] | None:
    """Write it as Reshape and Transpose."""
    op = context.op
    data, block = context.input(0), get_int(node, "blocksize", 1)
    batch, channels = sizes_of(context, data, 0, 1), sizes_of(context, data, 1, 2)
    rows, columns = (quotient(context, sizes_of(context, data, axis, axis + 1), block) for axis in (2, 3))
    edge = context.int64([block])
    split_up = op("Reshape", data, joined(context, batch, channels, rows, edge, columns, edge), allowzero=1)
    perm = [0, 1, 3, 5, 2, 4] if get_string(node, "mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = op("Transpose", split_up, perm=perm)
    deeper = op("Mul", channels, [block * block])
    return context.replace(op("Reshape", moved, joined(context, batch, deeper, rows, columns), allowzero=1))


SpaceToDepth = OperatorSpec("SpaceToDepth", Outputs(range=ranges.of(0)), ToRten(rewritings=(space_to_depth,)))
