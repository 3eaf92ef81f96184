"""Parts of tensors: cut out, put together, filled up, reversed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import INT32, INT64
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.graph.attributes import find, get_float, get_int, get_ints, get_string, with_input
from formats.rten.operators import casting, comparison, creation, elementwise, ranges, scatter, shape
from formats.rten.operators.rewritings import promoted, widened, without_gaps
from formats.rten.operators.rules import MAX_CONTENTS, MAX_RANK, normalize, of_any_input, same
from formats.rten.operators.spec import Field, FieldKind, OnnxForm, OperatorSpec, Row, Signature, axis_field
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT32_LIMITS, INT64_MAX

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope


def _slice_input(node: Node, scope: Scope, place: int) -> tuple[int, ...] | None:
    name = node.input[place] if place < len(node.input) else ""
    return scope.ints(name) if name else ()


def _slice_length(dim: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(dim, int):
        return len(range(dim)[start:end:step])
    return dim if (start, step) == (0, 1) and end >= 2**31 - 1 else None


def slice_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The lengths of the slices; an axis that is not known to be untouched becomes unknown."""
    dims = types[0].dims
    if dims is None:
        return []
    starts, ends, axes, steps = (_slice_input(node, scope, place) for place in range(1, 5))
    if starts is None or ends is None or axes is None or steps is None:
        return [(None,) * len(dims)]
    result = list(dims)
    for place, axis in enumerate(axes or range(len(starts))):
        number = normalize(axis, len(dims))
        dim, step = dims[number], steps[place] if steps else 1
        result[number] = _slice_length(dim, starts[place], ends[place], step)
    return [tuple(result)]


def slice_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The elements of a range."""
    data = scope.contents_of(node.input[0])
    bounds = [scope.ints(name) if name else () for name in node.input[1:]]
    if data is None or None in bounds:
        return None
    start, end = (bound[0] for bound in bounds[:2] if bound)
    step = bounds[3][0] if len(bounds) > 3 and bounds[3] else 1
    return data[start:end:step]


def slice_(node: Node, context: Context) -> list[Node] | None:
    """RTen takes the steps for the axes where the axes are left out, and wants a start for each axis there."""
    if context.optional(3):
        steps = context.scope.ints(context.optional(4)) if context.optional(4) else None
        held = context.scope.ints(context.optional(3))
        forwards = _forwards(context, context.input(0), held, steps) if steps and held else steps
        if steps and forwards and forwards != steps:
            return context.changed(with_input(node, 4, context.int64(forwards)))
        return _without_least(node, context)
    starts, rank = context.dims(context.input(1)), context.rank(context.input(0))
    count = starts[0] if starts else None
    if not context.optional(4) and count is not None and count == rank:
        return _without_least(node, context)
    if isinstance(count, int) and count <= MAX_RANK:
        axes = context.int64(range(count))
    else:
        total = context.op(shape.Size, context.input(1))
        axes = context.op(creation.Range, context.int64_scalar(0), total, context.int64_scalar(1))
    if context.elem_type(context.input(1)) == INT32:  # ONNX wants one type for all
        axes = context.array(range(count), INT32) if isinstance(count, int) else context.cast(axes, INT32)
    return context.changed(with_input(node, 3, axes))


def _forwards(context: Context, data: str, axes: tuple[int, ...], steps: tuple[int, ...]) -> tuple[int, ...]:
    """The steps, not backwards along axes that are known to have no elements: RTen stops at these."""
    dims = context.dims(data)
    if dims is None:
        return steps
    sizes = (dims[normalize(axis, len(dims))] for axis in axes)
    return tuple(abs(step) if size == 0 else step for step, size in zip(steps, sizes, strict=True))


def _without_least(node: Node, context: Context) -> list[Node] | None:
    """The least integer of 32 bits stops RTen where it slices backwards; the next one is as far beyond any axis."""
    inputs = list(node.input)
    for place in (1, 2):
        held = context.scope.ints(inputs[place])
        if held is not None and min(held, default=0) <= INT32_LIMITS[0]:
            inputs[place] = context.int64(max(number, INT32_LIMITS[0] + 1) for number in held)
    return context.changed(inputs) if inputs != list(node.input) else None


def _slice_deviation(node: Node, context: Context) -> str:
    return "RTen may take steps without axes for axes" if context.optional(4) and not context.optional(3) else ""


Slice = OperatorSpec(
    "Slice",
    Row(5),
    signature=Signature("AI", "A"),
    sizes_from=(0,),
    dims=slice_dims,
    contents=slice_contents,
    older=(promoted(starts=1, ends=2, axes=3),),
    rewritings=(slice_,),
    deviation=_slice_deviation,
    bounds=(1, 2),
    range=ranges.of(0),
    onnx=OnnxForm(inputs={"starts": 1, "ends": 2, "axes": 3}),
)


def split_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes asked for along one axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims))
    sizes = scope.contents_of(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if sizes is None or len(sizes) != len(node.output):
        sizes = (None,) * len(node.output)
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]


def split_input(node: Node, context: Context) -> list[Node] | None:
    """In operator set 1, the sizes were an input of the type of the data."""
    sizes = context.optional(1)
    if context.version >= 2 or not sizes or context.elem_type(sizes) == INT64:
        return promoted(split=1)(node, context)
    held = context.scope.numbers(sizes)
    if held is None:
        return context.changed(with_input(node, 1, context.op(casting.Cast, sizes, to=INT64)))
    return context.changed(with_input(node, 1, context.int64(map(int, held))))


NUMBERED = 18  # the operator set since which a Split says how many parts it makes


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
    is_said = find(node, "num_outputs") is not None
    is_newest = not context.target.is_onnx or context.target.version >= NUMBERED
    if not isinstance(size, int):
        return None if is_said or not is_newest else context.changed(num_outputs=count)
    if context.target.is_onnx and size % count == 0 and is_said == is_newest:
        return None
    part = -(-size // count)
    sizes = [min(part, max(0, size - part * place)) for place in range(count)]
    return context.changed(with_input(node, 1, context.int64(sizes)), without=("num_outputs",))


def split_raised(node: Node, context: Context) -> list[Node]:
    """Without sizes, the number of outputs must be given; all outputs have a name."""
    sizes = context.scope.ints(context.optional(1)) if context.optional(1) else None
    count = max(len(node.output), len(sizes or ()), get_int(node, "num_outputs"))
    missing = count - len(node.output)
    node.output = [name or context.names.new(f"{node.input[0]}/Split") for name in [*node.output, *[""] * missing]]
    return context.changed(num_outputs=None if context.optional(1) else count)


Split = OperatorSpec(
    "Split",
    Row(2, None, "SplitAttrs", (axis_field(0), Field("num_outputs", FieldKind.INT))),
    signature=Signature("Al", "A"),
    sizes=(1,),
    dims=split_dims,
    older=(split_input,),
    rewritings=(split,),
    raised=split_raised,
    range=ranges.of(0),
    onnx=OnnxForm(inputs={"split": 1}, versions={"num_outputs": 18}),
)


def concat_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes of one axis added up, the other dims merged from all inputs."""
    known = [entry.dims for entry in types if entry.dims is not None]
    if not known:
        return []
    axis = normalize(get_int(node, "axis"), len(known[0]))
    merged = list(known[0])
    for dims in known[1:]:
        for place, dim in enumerate(dims):
            if isinstance(dim, int) or merged[place] is None:
                merged[place] = dim
    sizes = [None if entry.dims is None else entry.dims[axis] for entry in types]
    merged[axis] = sum(size for size in sizes if isinstance(size, int))
    if any(not isinstance(size, int) for size in sizes):
        merged[axis] = sizes[0] if len(sizes) == 1 else None
    return [tuple(merged)]


def concat_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The inputs, one after the other; unknown elements where an input's length is all that is known of it."""
    result: list[Dim] = []
    for name, entry in zip(node.input, types, strict=True):
        if entry.dims is None or len(entry.dims) != 1:
            return None
        length, held = entry.dims[0], scope.contents_of(name)
        if held is None and not isinstance(length, int):
            return None
        if len(result) + (length if isinstance(length, int) else len(held or ())) > MAX_CONTENTS:
            return None
        result += (None,) * length if held is None and isinstance(length, int) else held or ()
    return tuple(result)


def concat_axis(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 4, the axis was 1 unless given."""
    return context.changed(axis=1) if context.version < 4 and find(node, "axis") is None else None


Concat = OperatorSpec(
    "Concat",
    Row(None, 1, "ConcatAttrs", (axis_field(None),)),
    signature=Signature("A", "A"),
    sizes_from=tuple(range(MAX_CONTENTS)),
    dims=concat_dims,
    elements=(of_any_input,),
    contents=concat_contents,
    older=(concat_axis,),
    narrow=widened(()),
    raised=without_gaps,
    is_copy=True,
    range=ranges.of_all,
)
_PAD_MODE = {"constant": "Constant", "reflect": "Reflect", "edge": "Edge", "wrap": "Wrap"}


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


def pad_inputs(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 11, the pads and the value were attributes, in operator set 1 by another name."""
    pads = get_ints(node, "pads") or get_ints(node, "paddings")
    if pads is None:
        return None
    data = context.input(0)
    value = [context.scalar(get_float(node, "value"), like=data)] if find(node, "value") is not None else []
    return context.changed([data, context.int64(pads), *value], without=("pads", "paddings", "value"))


def _pad_all_axes(node: Node, context: Context, data: str) -> list[Node]:
    """The same with pads for every axis."""
    rank = context.known_rank(data)
    pads, axes = (context.scope.ints(context.input(place)) for place in (1, 3))
    if pads is not None and axes is not None:
        full = [0] * (2 * rank)
        for place, axis in enumerate(axes):
            number = normalize(axis, rank)
            full[number], full[rank + number] = pads[place], pads[len(axes) + place]
        return context.changed([data, context.int64(full), context.optional(2)])
    if axes is not None:
        begins = context.int64(normalize(axis, rank) for axis in axes)
    else:
        given, count = context.cast(context.input(3), INT64), context.int64([rank])
        is_negative = context.op(comparison.Less, given, context.int64([0]))
        begins = context.op(comparison.Where, is_negative, context.op(elementwise.Add, given, count), given)
    ends = context.op(elementwise.Add, begins, context.int64([rank]))
    places = context.op(Concat, begins, ends, axis=0)
    every = context.op(scatter.ScatterElements, context.int64([0] * (2 * rank)), places, context.input(1), axis=0)
    return context.changed([data, every, context.optional(2)])


def _pad_last(context: Context, data: str, axis: int, rank: int, pads: tuple[int, int], mode: str) -> str:
    """One axis padded, while it stands last."""
    order = [other for other in range(rank) if other != axis] + [axis]
    moved = context.op(shape.Transpose, data, perm=order)
    amounts = [0] * (rank - 1) + [pads[0]] + [0] * (rank - 1) + [pads[1]]
    filled = context.op(Pad, moved, context.int64(amounts), mode=mode)
    return context.op(shape.Transpose, filled, perm=[order.index(place) for place in range(rank)])


_NO_CUTTING = Fault("stops at negative pads", until=RTEN_0_26)


def pad(node: Node, context: Context) -> list[Node] | None:
    """Negative pads are slices; RTen takes no axes, and fills from the data only along the last two."""
    data, mode = context.input(0), get_string(node, "mode", "constant")
    if context.optional(3):
        return _pad_all_axes(node, context, data)
    pads = context.scope.ints(context.input(1))
    if pads is None:
        return None
    rank = len(pads) // 2
    if min(pads, default=0) < 0 and (mode != "constant" or context.target.deviates(_NO_CUTTING)):
        kept = [max(0, number) for number in pads]
        is_constant = mode == "constant" and any(kept)  # what fills may be cut off too
        whole = context.op(Pad, data, context.int64(kept), context.optional(2)) if is_constant else data
        cut = context.op(
            Slice,
            whole,
            context.int64(max(0, -begin) for begin in pads[:rank]),
            context.int64(end if end < 0 else INT64_MAX for end in pads[rank:]),
            context.int64(range(rank)),
        )
        if is_constant or not any(kept):
            return context.replace(cut)
        return context.replace(context.op(Pad, cut, context.int64(kept), context.optional(2), mode=mode))
    padded = [axis for axis in range(rank) if pads[axis] or pads[rank + axis]]
    if mode == "constant" or all(axis >= rank - 2 for axis in padded):
        return None
    for axis in padded:
        data = _pad_last(context, data, axis, rank, (pads[axis], pads[rank + axis]), mode)
    return context.replace(data)


Pad = OperatorSpec(
    "Pad",
    Row(4, 1, "PadAttrs", (Field("mode", FieldKind.CHOICE, "constant", choices=_PAD_MODE),), optional=True),
    signature=Signature("AlAi", "A"),
    ranks={2: 0},
    dims=pad_dims,
    older=(pad_inputs,),
    rewritings=(pad,),
    faults=(_NO_CUTTING,),
    range=ranges.padded,
    onnx=OnnxForm(inputs={"pads": 1, "value": 2}),
)


def reverse_sequence(node: Node, context: Context) -> list[Node] | None:
    """RTen wants batch and time to be the first two axes, in either order."""
    batch, time = get_int(node, "batch_axis", 1), get_int(node, "time_axis")
    if {batch, time} != {0, 1}:
        raise Refused(f"has batch axis {batch} and time axis {time}, where RTen takes 0 and 1 in some order")
    return None


ReverseSequence = OperatorSpec(
    "ReverseSequence",
    Row(2, 1, "ReverseSequenceAttrs", (Field("batch_axis", FieldKind.INT, 1), Field("time_axis", FieldKind.INT, 0))),
    signature=Signature("Al", "A"),
    dims=same,
    rewritings=(reverse_sequence,),
    range=ranges.of(0),
)


def flipped(context: Context, name: str, axis: str) -> str:
    """The value with one axis backwards."""
    last, beyond = context.int64([-1]), context.int64([-INT64_MAX])
    return context.op(Slice, name, last, beyond, shape.as_vector(context, context.cast(axis, INT64)), last)
