"""Operators that move elements: reshaping, slicing, padding, splitting, gathering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.storage import from_numpy
from formats.rten.convert.context import FLOATS, INT_MAX, INTS, Refused, with_input
from formats.rten.convert.value_types import FLOAT, INT32, INT64
from formats.rten.dims import MAX_RANK, normalize
from formats.rten.graph.attributes import find, get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def vector_axes(node: Node, context: Context) -> list[Node] | None:
    """RTen wants the axes as a vector, where runtimes also take a scalar."""
    axes = context.optional(1)
    if not axes or context.rank(axes) != 0:
        return None
    return context.changed(with_input(node, 1, as_vector(context, axes)))


def as_vector(context: Context, name: str) -> str:
    """A scalar as a vector of one element."""
    held = context.scope.ints(name)
    if held is not None and context.elem_type(name) == INT64:
        return context.int64(held)
    return context.op("Reshape", name, context.int64([1]))


def expand(node: Node, context: Context) -> list[Node] | None:
    """A size of -1, which some runtimes take as "leave it", is written as 1.

    RTen 0.25.0 stops where it does not know sizes that are fewer than the data has axes: ones are put before those.
    """
    data, sizes = context.input(0), context.input(1)
    held = context.scope.ints(sizes)
    if held is not None and -1 in held:
        return context.changed([data, context.int64(1 if size == -1 else size for size in held)])
    rank, count = context.rank(data), (context.dims(sizes) or (None,))[0]
    if context.scope.constant(sizes) is not None or rank is None or not isinstance(count, int) or count >= rank:
        return None
    return context.changed([data, context.op("Concat", context.int64([1] * (rank - count)), sizes, axis=0)])


def slice_(node: Node, context: Context) -> list[Node] | None:
    """RTen takes the steps for the axes where the axes are left out."""
    if context.optional(3) or not context.optional(4):
        return None
    starts = context.dims(context.input(1))
    count = starts[0] if starts else None
    if not isinstance(count, int) or count > MAX_RANK:
        count = context.known_rank(context.input(0))
    return context.changed(with_input(node, 3, context.int64(range(count))))


def split(node: Node, context: Context) -> list[Node] | None:
    """Equal parts are written as their sizes, since RTen makes fewer where the last ones would be empty or small."""
    data, count = context.input(0), get_int(node, "num_outputs") or len(node.output)
    if context.optional(1):
        return context.changed(without=("num_outputs",)) if find(node, "num_outputs") is not None else None
    if count != len(node.output):
        raise Refused(f"makes {count} parts and has {len(node.output)} outputs")
    dims = context.dims(data)
    axis = normalize(get_int(node, "axis"), len(dims)) if dims is not None else 0
    size = dims[axis] if dims is not None else None
    if not isinstance(size, int):
        return None if find(node, "num_outputs") is not None else context.changed(num_outputs=count)
    part = -(-size // count)
    sizes = [min(part, max(0, size - part * place)) for place in range(count)]
    return context.changed(with_input(node, 1, context.int64(sizes)), without=("num_outputs",))


def pad(node: Node, context: Context) -> list[Node] | None:
    """RTen pads by no negative number, takes no axes, and fills from the data only along the last two."""
    data, mode = context.input(0), get_string(node, "mode", "constant")
    if context.optional(3):
        return _pad_all_axes(node, context, data)
    pads = context.scope.ints(context.input(1))
    if pads is None:
        return None
    rank = len(pads) // 2
    if min(pads, default=0) < 0:
        cut = context.op(
            "Slice",
            data,
            context.int64(max(0, -begin) for begin in pads[:rank]),
            context.int64(end if end < 0 else INT_MAX for end in pads[rank:]),
            context.int64(range(rank)),
        )
        kept = context.int64(max(0, number) for number in pads)
        return context.replace(context.op("Pad", cut, kept, context.optional(2), mode=mode))
    padded = [axis for axis in range(rank) if pads[axis] or pads[rank + axis]]
    if mode == "constant" or all(axis >= rank - 2 for axis in padded):
        return None
    for axis in padded:
        data = _pad_last(context, data, axis, rank, (pads[axis], pads[rank + axis]), mode)
    return context.replace(data)


def _pad_all_axes(node: Node, context: Context, data: str) -> list[Node]:
    """The same with pads for every axis."""
    rank = context.known_rank(data)
    pads, axes = context.static_ints(context.input(1)), context.static_ints(context.input(3))
    full = [0] * (2 * rank)
    for place, axis in enumerate(axes):
        number = normalize(axis, rank)
        full[number], full[rank + number] = pads[place], pads[len(axes) + place]
    return context.changed([data, context.int64(full), context.optional(2)])


def _pad_last(context: Context, data: str, axis: int, rank: int, pads: tuple[int, int], mode: str) -> str:
    """One axis padded, while it stands last."""
    order = [other for other in range(rank) if other != axis] + [axis]
    moved = context.op("Transpose", data, perm=order)
    amounts = [0] * (rank - 1) + [pads[0]] + [0] * (rank - 1) + [pads[1]]
    filled = context.op("Pad", moved, context.int64(amounts), mode=mode)
    return context.op("Transpose", filled, perm=[order.index(place) for place in range(rank)])


def constant_of_shape(node: Node, context: Context) -> list[Node] | None:
    """RTen fills with floats and 32-bit integers."""
    import numpy

    attribute = find(node, "value")
    if attribute is None or attribute.t is None:
        return context.changed(value=from_numpy(numpy.zeros(1, dtype=numpy.float32)))
    elem_type = attribute.t.data_type
    if elem_type in FLOATS or elem_type in INTS:
        return None
    number = int(attribute.t.numpy().reshape(()))
    filled = context.op("ConstantOfShape", context.input(0), value=from_numpy(numpy.array([number], dtype="int32")))
    return context.replace(context.op("Cast", filled, to=elem_type))


def one_hot(node: Node, context: Context) -> list[Node] | None:
    """RTen wants integers for the indices and the depth."""
    inputs = [
        name if context.elem_type(name) in (None, INT32, INT64) else context.op("Cast", name, to=INT64)
        for name in (context.input(0), context.input(1))
    ]
    return context.changed([*inputs, context.input(2)]) if context.emitted else None


def non_zero(node: Node, context: Context) -> list[Node] | None:
    """Of a scalar, RTen gives no row at all: it is seen as a vector of one element."""
    data = context.input(0)
    if context.rank(data) != 0:
        return None
    return context.replace(context.op("NonZero", context.op("Reshape", data, context.int64([1]))))


def compress(node: Node, context: Context) -> list[Node] | None:
    """The positions of true conditions, gathered."""
    data, condition = context.input(0), context.input(1)
    axis = get_int(node, "axis")
    if find(node, "axis") is None:
        data = context.op("Reshape", data, context.int64([-1]))
    found = context.op("Squeeze", context.op("NonZero", condition), context.int64([0]))
    return context.replace(context.op("Gather", data, found, axis=axis))


def sizes_of(context: Context, data: str, start: int, end: int) -> str:
    """Some of the dims of a value, as a vector that is constant where they are fixed."""
    dims = context.dims(data)
    part = None if dims is None else dims[start:end]
    if part is not None and all(isinstance(size, int) for size in part):
        return context.int64(size for size in part if isinstance(size, int))
    return context.op("Shape", data, start=start, end=end)


def joined(context: Context, *parts: str) -> str:
    """Vectors of sizes one after the other, a constant where all of them are."""
    held = [context.scope.ints(part) if context.scope.constant(part) is not None else None for part in parts]
    if all(numbers is not None for numbers in held):
        return context.int64(number for numbers in held for number in numbers or ())
    return context.op("Concat", *parts, axis=0)


def quotient(context: Context, sizes: str, divisor: int) -> str:
    """Sizes divided by a number."""
    held = context.scope.ints(sizes) if context.scope.constant(sizes) is not None else None
    if held is not None:
        return context.int64(size // divisor for size in held)
    return context.op("Div", sizes, context.int64([divisor]))


def space_to_depth(node: Node, context: Context) -> list[Node] | None:
    """Blocks of rows and columns become channels."""
    data, block = context.input(0), get_int(node, "blocksize", 1)
    batch, channels = sizes_of(context, data, 0, 1), sizes_of(context, data, 1, 2)
    rows, columns = (quotient(context, sizes_of(context, data, axis, axis + 1), block) for axis in (2, 3))
    edge = context.int64([block])
    split_up = context.op("Reshape", data, joined(context, batch, channels, rows, edge, columns, edge))
    perm = [0, 1, 3, 5, 2, 4] if get_string(node, "mode", "DCR") == "CRD" else [0, 3, 5, 1, 2, 4]
    moved = context.op("Transpose", split_up, perm=perm)
    target = joined(context, batch, context.int64([-1]), rows, columns)
    return context.replace(context.op("Reshape", moved, target))


def depth_to_space(node: Node, context: Context) -> list[Node] | None:
    """RTen has it for floats; other types are reshaped."""
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
    moved = context.op("Transpose", context.op("Reshape", data, target), perm=perm)
    rows, columns = sizes_of(context, data, 2, 3), sizes_of(context, data, 3, 4)
    sides = [context.op("Mul", size, context.int64([block])) for size in (rows, columns)]
    return context.replace(context.op("Reshape", moved, joined(context, batch, depth, *sides)))


def center_crop_pad(node: Node, context: Context) -> list[Node] | None:
    """Each axis is cut or filled with zeros, evenly on both sides, to the size asked for."""
    data = context.input(0)
    dims, asked = context.static_dims(data), context.static_ints(context.input(1))
    axes = get_ints(node, "axes")
    pads = [0] * (2 * len(dims))
    for axis, size in zip(range(len(dims)) if axes is None else axes, asked, strict=True):
        number = normalize(axis, len(dims))
        room = size - dims[number]
        begin = room // 2 if room >= 0 else -(-room // 2)
        pads[number], pads[len(dims) + number] = begin, room - begin
    return context.replace(context.op("Pad", data, context.int64(pads)))


def tensor_scatter(node: Node, context: Context) -> list[Node] | None:
    """Each sample's update is written at its own place along one axis: indices for ScatterElements."""
    cache, update, places = context.input(0), context.input(1), context.optional(2)
    rank = context.known_rank(cache)
    axis = normalize(get_int(node, "axis", -2), rank)
    length = context.op("Squeeze", sizes_of(context, update, axis, axis + 1), context.int64([0]))
    steps = context.op("Range", context.int64_scalar(0), length, context.int64_scalar(1))
    indices = context.op("Reshape", steps, context.int64([-1] + [1] * (rank - axis - 1)))
    if places:
        first = context.op("Reshape", places, context.int64([-1] + [1] * (rank - 1)))
        indices = context.op("Add", first, indices)
    if get_string(node, "mode", "linear") == "circular":
        indices = context.op("Mod", indices, sizes_of(context, cache, axis, axis + 1))
    indices = context.op("Expand", indices, sizes_of(context, update, 0, rank))
    return context.replace(context.op("ScatterElements", cache, indices, update, axis=axis))


def cum_sum(node: Node, context: Context) -> list[Node] | None:
    """RTen 0.25.0 sums forwards and inclusively only: the data are reversed before and after, or moved on by one."""
    data, axis = context.input(0), context.input(1)
    reverse, exclusive = get_int(node, "reverse"), get_int(node, "exclusive")
    if not reverse and not exclusive:
        return None
    data = _flipped(context, data, axis) if reverse else data
    if exclusive:
        rank = context.known_rank(data)
        number = normalize(context.static_ints(axis)[0], rank)
        pads = [int(place == number) for place in range(rank)] + [-int(place == number) for place in range(rank)]
        data = context.op("Pad", data, context.int64(pads))
    total = context.op("CumSum", data, axis)
    return context.replace(_flipped(context, total, axis) if reverse else total)


def _flipped(context: Context, name: str, axis: str) -> str:
    """The value with one axis backwards."""
    last, beyond = context.int64([-1]), context.int64([-INT_MAX])
    return context.op("Slice", name, last, beyond, as_vector(context, context.cast(axis, INT64)), last)


def arange(node: Node, context: Context) -> list[Node] | None:
    """RTen adds up the steps of a range of floats, ONNX multiplies."""
    start, limit, delta = (context.input(place) for place in range(3))
    if not context.exact or context.elem_type(start) not in FLOATS:
        return None
    count = context.op("Ceil", context.op("Div", context.op("Sub", limit, start), delta))
    steps = context.op("Range", context.int64_scalar(0), context.op("Cast", count, to=INT64), context.int64_scalar(1))
    scaled = context.op("Mul", context.op("Cast", steps, to=context.elem_type(start) or FLOAT), delta)
    return context.replace(context.op("Add", start, scaled))


def reverse_sequence(node: Node, context: Context) -> list[Node] | None:
    """RTen wants batch and time to be the first two axes, in either order."""
    batch, time = get_int(node, "batch_axis", 1), get_int(node, "time_axis")
    if {batch, time} != {0, 1}:
        raise Refused(f"has batch axis {batch} and time axis {time}, where RTen takes 0 and 1 in some order")
    return None


REWRITINGS: Mapping[str, Rewriting] = {
    "CenterCropPad": center_crop_pad,
    "Compress": compress,
    "ConstantOfShape": constant_of_shape,
    "CumSum": cum_sum,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "NonZero": non_zero,
    "OneHot": one_hot,
    "Pad": pad,
    "Range": arange,
    "ReverseSequence": reverse_sequence,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": vector_axes,
    "TensorScatter": tensor_scatter,
    "Unsqueeze": vector_axes,
}
