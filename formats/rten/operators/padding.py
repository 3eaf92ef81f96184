"""Tensors padded at their ends, with a number or with their own elements, and cut or padded around their centre."""

from __future__ import annotations

from formats.ir.attributes import attribute_named, get_float, get_ints, get_string
from formats.ir.dtypes import INT64
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import normalize
from formats.rten.operators.window import Window
from formats.rten.spec import Field, OnnxLoader, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because, unknown
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT64_MAX

_PAD_MODE = {"constant": "Constant", "reflect": "Reflect", "edge": "Edge", "wrap": "Wrap"}


def is_padded_by_size(context: Context, geometry: Window, data: str) -> bool:
    """Whether only the run can tell how much `auto_pad` pads, because it depends on a size that is not known."""
    if not geometry.auto_pad.startswith("SAME"):
        return False
    dims, strides = context.dims(data), enumerate(geometry.strides, 2)
    return any(stride != 1 and (dims is None or not isinstance(dims[axis], int)) for axis, stride in strides)


def padded_by_size(context: Context, geometry: Window, data: str, value: float | str) -> str:
    """The data with a number or value around, as much as `auto_pad` asks for sizes that only the run can tell."""
    op = context.op
    axes = range(len(geometry.kernel))
    sizes, none = shape.sizes_of(context, data, 2, 2 + len(axes)), context.int64([0, 0])
    strides, less = context.int64(geometry.strides), context.int64(stride - 1 for stride in geometry.strides)
    # The positions of the window: sizes divided by strides, rounded up.
    steps = op("Div", op("Add", sizes, less), strides)
    last = op("Mul", op("Sub", steps, [1]), strides)
    ends = op("Add", last, context.int64(map(geometry.extent, axes)))
    total = op("Max", op("Sub", ends, sizes), [0])  # the padding of each axis
    small = op("Div", total, [2])  # of an odd total, SAME_UPPER has the larger half at the end
    pads = [small, op("Sub", total, small)]
    before, after = pads if geometry.auto_pad == "SAME_UPPER" else reversed(pads)
    fill = value if isinstance(value, str) else context.scalar(value, like=data)
    return op("Pad", data, shape.joined(context, none, before, none, after), fill)


def _plus(dim: Dim, more: int) -> Dim:
    if isinstance(dim, int):
        return dim + more
    return dim if more == 0 else None


def pad_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Each dim with its two pads added."""
    dims = types[0].dims
    if dims is None:
        return []
    pads = scope.ints(node.input[1])
    if pads is None or len(pads) != 2 * len(dims) or (len(node.input) > 3 and node.input[3]):
        return [(None,) * len(dims)]
    totals = [pads[axis] + pads[axis + len(dims)] for axis in range(len(dims))]
    return [tuple(_plus(dim, total) for dim, total in zip(dims, totals, strict=True))]


@because("Before operator set 11, pads and value were attributes, with another name in operator set 1")
def pad_inputs(node: Node, context: Context) -> list[Node] | None:
    pads = get_ints(node, "pads") or get_ints(node, "paddings")
    if pads is None:
        return None
    data = context.input(0)
    value = [context.scalar(get_float(node, "value"), like=data)] if attribute_named(node, "value") is not None else []
    return context.changed([data, context.int64(pads), *value], without=("pads", "paddings", "value"))


def _pad_all_axes(node: Node, context: Context, data: str) -> list[Node]:
    """The same with pads for every axis."""
    op = context.op
    rank = context.known_rank(data)
    pads, axes = (context.scope.ints(context.input(place)) for place in (1, 3))
    if pads is not None and axes is not None:
        full = [0] * (2 * rank)
        for place, axis in enumerate(axes):
            number = normalize(axis, rank)
            # Pads are listed as all those before, then all those behind.
            full[number], full[rank + number] = pads[place], pads[len(axes) + place]
        return context.changed([data, context.int64(full), context.optional(2)])
    if axes is not None:
        begins = context.int64(normalize(axis, rank) for axis in axes)
    else:
        axis_numbers, count = context.cast(context.input(3), INT64), context.int64([rank])
        is_negative = op("Less", axis_numbers, [0])
        begins = op("Where", is_negative, op("Add", axis_numbers, count), axis_numbers)
    ends = op("Add", begins, [rank])
    places = op("Concat", begins, ends, axis=0)  # where the pads of the axes are among all pads
    all_pads = op("ScatterElements", context.int64([0] * (2 * rank)), places, context.input(1), axis=0)
    return context.changed([data, all_pads, context.optional(2)])


def _pad_last(context: Context, data: str, axis: int, rank: int, pads: tuple[int, int], mode: str) -> str:
    """One axis padded; it must be the last axis."""
    order = [other for other in range(rank) if other != axis] + [axis]
    moved = context.op("Transpose", data, perm=order)  # the axis is the last one
    amounts = [0] * (rank - 1) + [pads[0]] + [0] * (rank - 1) + [pads[1]]  # of all axes before, then of all behind
    filled = context.op("Pad", moved, context.int64(amounts), mode=mode)
    return context.op("Transpose", filled, perm=[order.index(place) for place in range(rank)])


def _gathered(context: Context, data: str, pads: str, mode: str) -> str:
    """Every axis filled from the data, if only a run tells how far. Each place is gathered from its source place."""
    op = context.op
    rank, zero, one = context.known_rank(data), context.int64_scalar(0), context.int64_scalar(1)
    sizes = op("Shape", data)
    for axis in range(rank):
        size, before, behind = (
            op("Gather", numbers, place, axis=0)
            for numbers, place in ((sizes, axis), (pads, axis), (pads, rank + axis))
        )
        last = op("Sub", size, one)
        places = op("Range", op("Neg", before), op("Add", size, behind), one)
        if mode == "edge":
            places = op("Min", op("Max", places, zero), last)
        elif mode == "wrap":
            places = op("Mod", places, size)
        else:
            # Mirrored at the first element by its absolute value, and at the last one by the same from the other end.
            beyond = op("Sub", last, op("Abs", places))
            places = op("Sub", last, op("Abs", beyond))
        data = op("Gather", data, places, axis=axis)
    return data


_NO_CUTTING = Fault("does not support negative pads", until=RTEN_0_26)


def _pad_by_computed(node: Node, context: Context, data: str, mode: str) -> list[Node] | None:
    """Pads that only a run tells. If pads are negative, the data are cut first."""
    op = context.op
    pads, is_constant = context.input(1), mode == "constant"
    if is_constant and not context.target.deviates(_NO_CUTTING):
        return None
    added_pads = pads
    if not context.scope.is_natural(pads) and not (is_constant and context.rank(data) is None):
        rank, zero = context.known_rank(data), context.int64_scalar(0)
        bounds, first = (context.int64([place]) for place in (0, rank, 2 * rank)), context.int64([0])
        start, middle, end = bounds
        before = op("Slice", pads, start, middle, first)
        behind = op("Slice", pads, middle, end, first)
        cut = op("Max", op("Neg", before), zero)  # a negative pad cuts off
        last = op("Add", op("Shape", data), op("Min", behind, zero))
        data = op("Slice", data, cut, last, range(rank))
        added_pads = op("Max", pads, zero)
    if not is_constant:
        return context.replace(_gathered(context, data, added_pads, mode))
    return None if added_pads == pads else context.changed([data, added_pads, context.optional(2)])


@because("RTen's Pad has no axes, and older releases no negative pads; other modes work only on the last two axes")
def pad(node: Node, context: Context) -> list[Node] | None:
    data, mode = context.input(0), get_string(node, "mode", "constant")
    if context.optional(3):
        return _pad_all_axes(node, context, data)
    if mode != "constant" and 0 in (context.dims(data) or ()):  # RTen stops, but there is nothing to repeat
        return context.changed(mode="constant")
    pads = context.scope.ints(context.input(1))
    if pads is None:
        return _pad_by_computed(node, context, data, mode)
    rank = len(pads) // 2
    if min(pads, default=0) < 0 and (mode != "constant" or context.target.deviates(_NO_CUTTING)):
        added_pads = [max(0, number) for number in pads]
        is_constant = mode == "constant" and any(added_pads)  # the padding may be cut off, too
        whole = context.op("Pad", data, context.int64(added_pads), context.optional(2)) if is_constant else data
        cut = context.op(
            "Slice",
            whole,
            context.int64(max(0, -begin) for begin in pads[:rank]),
            context.int64(end if end < 0 else INT64_MAX for end in pads[rank:]),
            range(rank),
        )
        if is_constant or not any(added_pads):
            return context.replace(cut)
        return context.replace(context.op("Pad", cut, context.int64(added_pads), context.optional(2), mode=mode))
    padded = [axis for axis in range(rank) if pads[axis] or pads[rank + axis]]
    if mode == "constant" or all(axis >= rank - 2 for axis in padded):
        return None
    for axis in padded:
        data = _pad_last(context, data, axis, rank, (pads[axis], pads[rank + axis]), mode)
    return context.replace(data)


Pad = OperatorSpec(
    "Pad",
    Outputs(pad_dims, range=ranges.padded),
    ToRten(
        Row(4, 1, "PadAttrs", (Field("mode", str, "constant", choices=_PAD_MODE),), optional=True),
        older=(pad_inputs,),
        rewritings=(pad,),
        faults=(_NO_CUTTING,),
    ),
    ToOnnx("AlAi", "A", ranks={2: 0}),
    onnx_loader=OnnxLoader(inputs={"pads": 1, "value": 2}),
)


def _cut_or_padded(context: Context, data: str, axes: list[int], rank: int) -> list[Node]:
    """The same where sizes are known only when the model runs: the data are padded, and then cut."""
    op = context.op
    size = context.cast(context.input(1), INT64)
    before = op("Gather", op("Shape", data), context.int64(axes), axis=0)
    zero, two = context.int64([0]), context.int64([2])
    missing = op("Max", op("Sub", size, before), zero)  # what is padded, on each axis
    begins = op("Div", missing, two)  # the smaller half
    pads = op("Concat", begins, op("Sub", missing, begins), axis=0)
    places = context.int64([*axes, *(axis + rank for axis in axes)])
    all_pads = op("ScatterElements", [0] * (2 * rank), places, pads, axis=0)
    padded = op("Pad", data, all_pads)
    beyond = op("Max", op("Sub", before, size), zero)  # what is cut off, on each axis
    start = op("Div", beyond, two)
    end = op("Add", start, size)
    return context.replace(op("Slice", padded, start, end, context.int64(axes)))


def center_crop_pad(node: Node, context: Context) -> list[Node] | None:
    """Write it as Slice and Pad, evenly on both sides of each axis."""
    data = context.input(0)
    rank, target_sizes = context.known_rank(data), context.scope.ints(context.input(1))
    attribute = get_ints(node, "axes")
    axes = list(range(rank)) if attribute is None else [normalize(axis, rank) for axis in attribute]
    dims = context.dims(data) or ()
    sizes = [size for size in (dims[axis] for axis in axes) if isinstance(size, int)]
    if target_sizes is None or len(sizes) != len(axes):
        return _cut_or_padded(context, data, axes, rank)
    pads = [0] * (2 * rank)
    for axis, size, before in zip(axes, target_sizes, sizes, strict=True):
        room = size - before
        begin = room // 2 if room >= 0 else -(-room // 2)
        pads[axis], pads[rank + axis] = begin, room - begin
    return context.replace(context.op("Pad", data, context.int64(pads)))


CenterCropPad = OperatorSpec("CenterCropPad", Outputs(elements=unknown), ToRten(rewritings=(center_crop_pad,)))
