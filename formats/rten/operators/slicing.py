"""Parts of tensors: cut out, put together, reversed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from formats.ir.attributes import attribute_named, get_int
from formats.ir.dtypes import INT32, INT64
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import MAX_DIM, Dim, Dims, ValueType
from formats.rten.graph.attributes import with_input
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import (
    MAX_CONTENTS,
    MAX_RANK,
    normalize,
    of_any_input,
    promoted,
    same,
    widened,
    without_gaps,
)
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
)
from formats.rten.target import Fault
from formats.rten.types import INT32_LIMITS, INT64_MAX
from formats.tensordata.plan import RARE, RESULTS

T = TypeVar("T")


def _slice_input(node: Node, scope: Scope, place: int) -> tuple[int, ...] | None:
    name = node.input[place] if place < len(node.input) else ""
    return scope.ints(name) if name else ()


def _sliced(data: Sequence[T], start: int, end: int, step: int) -> Sequence[T]:
    """A range as ONNX slices it. A backward slice that begins before the first element begins at the first element."""
    return data[max(start, -len(data)) if step < 0 and data else start : end : step]


def _slice_length(dim: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(dim, int):
        return len(_sliced(range(dim), start, end, step))
    return dim if (start, step) == (0, 1) and end >= 2**31 - 1 else None


def slice_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The lengths of the slices; an axis that is not known to be untouched becomes unknown."""
    dims = types[0].dims
    if dims is None:
        return []
    starts, ends, axes, steps = (_slice_input(node, scope, place) for place in range(1, 5))
    counts = types[1].dims
    count = len(starts) if starts is not None else counts[0] if counts else None
    if axes is None or (not axes and not isinstance(count, int)):
        return [(None,) * len(dims)]
    result = list(dims)
    for place, axis in enumerate(axes or range(count if isinstance(count, int) else 0)):
        number = normalize(axis, len(dims))
        if starts is None or ends is None or steps is None:
            result[number] = None
        else:
            result[number] = _slice_length(dims[number], starts[place], ends[place], steps[place] if steps else 1)
    return [tuple(result)]


def slice_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The elements of a range."""
    data = scope.contents_of(node.input[0])
    bounds = [scope.ints(name) if name else () for name in node.input[1:]]
    if data is None or None in bounds:
        return None
    start, end = (bound[0] for bound in bounds[:2] if bound)
    step = bounds[3][0] if len(bounds) > 3 and bounds[3] else 1
    return tuple(_sliced(data, start, end, step))


@because("RTen reads steps as axes if these are omitted, and then needs a start for each axis")
def supported_slice(node: Node, context: Context) -> list[Node] | None:
    if context.optional(3):
        return _within_limits(node, context) or _of_many_axes(node, context) or _backwards(node, context)
    rank = context.rank(context.input(0))
    lengths = [context.dims(context.optional(place)) or (None,) for place in (1, 2, 4)]
    count = next((length[0] for length in lengths if isinstance(length[0], int)), None)
    if not context.optional(4) and count is not None and count == rank:
        return _within_limits(node, context)
    if isinstance(count, int) and count <= MAX_RANK:
        axes = _like_starts(context, range(count))
    else:
        total = context.op("Size", context.input(1))
        axes = shape.numbers_below(context, total)
        axes = context.cast(axes, context.elem_type(context.input(1)) or INT64)
    return context.changed(with_input(node, 3, axes))


def _like_starts(context: Context, numbers: Iterable[int]) -> str:
    """A vector of the type of the starts: ONNX wants one type for all numbers of a slice."""
    return context.array(list(numbers), INT32 if context.elem_type(context.input(1)) == INT32 else INT64)


_MANY_AXES = Fault("fails if a backward slice of five axes or more omits elements")
COPIED_AXES = 4  # the most axes of a tensor that RTen copies backwards in one go


def _of_many_axes(node: Node, context: Context) -> list[Node] | None:
    """RTen stops at a backward slice of five axes or more, so its places are sliced, and the elements gathered."""
    op = context.op
    data, starts, ends, axes = (context.input(place) for place in range(4))
    rank, steps = context.rank(data), context.scope.ints(context.optional(4)) if context.optional(4) else None
    places = context.scope.ints(axes)
    if rank is None or rank <= COPIED_AXES or not steps or places is None or min(steps) >= 0:
        return None
    for number, (axis, step) in enumerate(zip(places, steps, strict=True)):
        part = [context.int64([bound]) for bound in (number, number + 1, 0)]
        # The start and the end for this axis, a vector of one each.
        own = [op("Slice", name, *part) if len(steps) > 1 else name for name in (starts, ends)]
        if step > 0:
            data = op("Slice", data, *own, *(_like_starts(context, [item]) for item in (axis, step)))
            continue
        own = [context.cast(name, INT64) for name in own]
        all_places = shape.numbers_below(context, shape.length_of(context, data, axis % rank))
        sliced_places = op("Slice", all_places, *own, [0], [step])
        data = op("Gather", data, sliced_places, axis=axis)
    return context.replace(data)


_IN_FRONT = Fault("fails if a backward slice starts before the first element")


def _backwards(node: Node, context: Context) -> list[Node] | None:
    """A slice backwards begins at an element, or is one forwards where there is none: RTen stops at others."""
    op = context.op
    data, starts, ends, axes = (context.input(place) for place in range(4))
    steps, places = (context.scope.ints(name) if name else None for name in (context.optional(4), axes))
    if not context.optional(4) or places is None or (steps is not None and min(steps, default=0) >= 0):
        return None
    if context.scope.is_safe(_IN_FRONT, starts) or context.scope.is_safe(_IN_FRONT, context.input(4)):
        return None
    dims, known_starts = context.dims(data), context.scope.ints(starts)
    if steps is None and known_starts is not None and min(known_starts, default=0) >= -1:
        return None  # only an axis of size 0 could stop RTen, and such a Slice is also what other rewritings make
    sizes = [None if dims is None else dims[normalize(axis, len(dims))] for axis in places]
    kind = INT32 if context.elem_type(starts) == INT32 else INT64
    if steps is not None and all(isinstance(size, int) for size, step in zip(sizes, steps, strict=True) if step < 0):
        forwards = [abs(step) if size == 0 else step for step, size in zip(steps, sizes, strict=True)]
        # The index of the first element, counted from the end.
        least = [-size if isinstance(size, int) else -MAX_DIM for size in sizes]
        if known_starts is None:
            starts = op("Max", starts, _like_starts(context, least))
            context.scope.add_safe(_IN_FRONT, starts)
        elif any(start < bound for start, bound in zip(known_starts, least, strict=True)):
            starts = _like_starts(context, map(max, known_starts, least))
        if starts == node.input[1] and tuple(forwards) == steps:
            return None
        return context.changed([data, starts, ends, axes, _like_starts(context, forwards)])
    lengths = context.cast(op("Gather", op("Shape", data), axes, axis=0), kind)  # one for each sliced axis
    if known_starts is None or min(known_starts) < -1:
        starts = op("Max", starts, op("Neg", lengths))
    is_empty = op("Equal", lengths, context.scalar(0, elem_type=kind))
    forward = op("Where", is_empty, context.scalar(1, elem_type=kind), context.input(4))
    context.scope.add_safe(_IN_FRONT, forward)
    return context.changed([data, starts, ends, axes, forward])


_LIMITS = INT32_LIMITS[0] + 1, INT32_LIMITS[1] - 1
_SIGNS = INT32_LIMITS[1], INT64_MAX


_BACKWARD = Deviation(
    "RTen returns nothing for a backward slice to the largest integer, onnxruntime all elements", RARE
)


def _within_limits(node: Node, context: Context) -> list[Node] | None:
    """The least integer of 32 bits stops RTen where it slices backwards, and the largest is a sign to onnxruntime.

    Bounds just before or after them are also beyond any axis.
    """
    inputs, steps = list(node.input), context.scope.ints(context.optional(4)) if context.optional(4) else None
    greatest = _LIMITS[1] if steps and min(steps) < 0 else INT64_MAX  # forwards, the largest integer is no sign
    for place in (1, 2):
        bounds = context.scope.ints(inputs[place])
        if place == 2 and any(end in _SIGNS and step < 0 for end, step in zip(bounds or (), steps or (), strict=False)):
            context.report(_BACKWARD)
        if bounds is not None and (min(bounds, default=0) < _LIMITS[0] or max(bounds, default=0) > greatest):
            inputs[place] = _like_starts(context, (min(max(number, _LIMITS[0]), greatest) for number in bounds))
    return context.changed(inputs) if inputs != list(node.input) else None


_STEPS_AS_AXES = Deviation("RTen may read steps as axes if there are none", RESULTS)


Slice = OperatorSpec(
    "Slice",
    Outputs(slice_dims, contents=slice_contents, range=ranges.of(0), sizes_from=(0,), passes_on=True),
    ToRten(
        Row(5),
        older=(promoted(starts=1, ends=2, axes=3),),
        rewritings=(supported_slice,),
        bounds=(1, 2),
        faults=(_IN_FRONT, _MANY_AXES),
    ),
    ToOnnx(
        "AI",
        "A",
        deviations=lambda node, context: (_STEPS_AS_AXES,) if context.optional(4) and not context.optional(3) else (),
    ),
    onnx_loader=OnnxLoader(inputs={"starts": 1, "ends": 2, "axes": 3}),
)


def split_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The given sizes along one axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims))
    sizes = scope.contents_of(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if sizes is None or len(sizes) != len(node.output):
        sizes = (None,) * len(node.output)
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]


@because("In operator set 1, the sizes were an input with the type of the data")
def split_input(node: Node, context: Context) -> list[Node] | None:
    sizes = context.optional(1)
    if context.version >= 2 or not sizes or context.elem_type(sizes) == INT64:
        return promoted(split=1)(node, context)
    numbers = context.scope.numbers(sizes)
    if numbers is None:
        return context.changed(with_input(node, 1, context.op("Cast", sizes, to=INT64)))
    return context.changed(with_input(node, 1, context.int64(map(int, numbers))))


def _equal_parts(node: Node, context: Context, count: int) -> str:
    """The sizes of a number of parts, if only a run tells the total. The last parts may be small or empty."""
    op = context.op
    total = op("Gather", op("Shape", context.input(0)), get_int(node, "axis"), axis=0)
    part = op("Div", op("Add", total, count - 1), count)
    # All parts have the same size, but for the last ones, which get what remains: it may be less, or nothing.
    before = op("Mul", part, range(count))
    rest = op("Sub", total, before)
    return op("Min", op("Max", rest, 0), part)


NUMBERED = 18  # the first operator set in which a Split has the number of its parts


@because("RTen makes fewer parts if the last ones would be small or empty, so their sizes are written")
def split(node: Node, context: Context) -> list[Node] | None:
    data, count = context.input(0), get_int(node, "num_outputs") or len(node.output)
    if context.optional(1):
        return context.changed(without=("num_outputs",)) if attribute_named(node, "num_outputs") is not None else None
    if count != len(node.output):
        raise Refused(f"makes {count} parts, but has {len(node.output)} outputs")
    dims = context.dims(data)
    axis = normalize(get_int(node, "axis"), len(dims)) if dims is not None else 0
    size = dims[axis] if dims is not None else None
    is_said = attribute_named(node, "num_outputs") is not None
    is_newest = not context.target.is_onnx or context.target.version >= NUMBERED
    if not isinstance(size, int):
        return context.changed(with_input(node, 1, _equal_parts(node, context, count)), without=("num_outputs",))
    if context.target.is_onnx and size % count == 0 and is_said == is_newest:
        return None
    part = -(-size // count)  # rounded up: the last part may be smaller
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
    Outputs(split_dims, range=ranges.of(0), sizes=(1,), passes_on=True),
    ToRten(
        Row(2, None, "SplitAttrs", (axis_field(0), Field("num_outputs", int))),
        older=(split_input,),
        rewritings=(split,),
    ),
    ToOnnx("Al", "A", rewriting=split_raised),
    onnx_loader=OnnxLoader(inputs={"split": 1}, versions={"num_outputs": 18}),
)


def concat_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes of one axis added up; the other dims are merged from all inputs."""
    known_dims = [entry.dims for entry in types if entry.dims is not None]
    if not known_dims:
        return []
    axis = normalize(get_int(node, "axis"), len(known_dims[0]))
    merged = list(known_dims[0])
    for dims in known_dims[1:]:
        for place, dim in enumerate(dims):
            if isinstance(dim, int) or merged[place] is None:
                merged[place] = dim
    sizes = [None if entry.dims is None else entry.dims[axis] for entry in types]
    merged[axis] = sum(size for size in sizes if isinstance(size, int))
    if any(not isinstance(size, int) for size in sizes):
        merged[axis] = sizes[0] if len(sizes) == 1 else None
    return [tuple(merged)]


def concat_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The inputs, one after another; unknown elements if only the length of an input is known."""
    result: list[Dim] = []
    for name, entry in zip(node.input, types, strict=True):
        if entry.dims is None or len(entry.dims) != 1:
            return None
        length, elements = entry.dims[0], scope.contents_of(name)
        if elements is None and not isinstance(length, int):
            return None
        if len(result) + (length if isinstance(length, int) else len(elements or ())) > MAX_CONTENTS:
            return None
        result += (None,) * length if elements is None and isinstance(length, int) else elements or ()
    return tuple(result)


@because("Before operator set 4, the axis was 1 by default")
def concat_axis(node: Node, context: Context) -> list[Node] | None:
    return context.changed(axis=1) if context.version < 4 and attribute_named(node, "axis") is None else None


Concat = OperatorSpec(
    "Concat",
    Outputs(
        concat_dims,
        of_any_input,
        contents=concat_contents,
        range=ranges.of_all,
        sizes_from=tuple(range(MAX_CONTENTS)),
        moves=tuple(range(MAX_CONTENTS)),
        is_copy=True,
        passes_on=True,
    ),
    ToRten(Row(None, 1, "ConcatAttrs", (axis_field(None),)), older=(concat_axis,), narrow=widened(())),
    ToOnnx("A", "A", rewriting=without_gaps),
)


@because("RTen needs batch and time as the first two axes, in either order")
def reverse_sequence(node: Node, context: Context) -> list[Node] | None:
    batch, time = get_int(node, "batch_axis", 1), get_int(node, "time_axis")
    if {batch, time} != {0, 1}:
        raise Refused(f"has batch axis {batch} and time axis {time}, but RTen supports only 0 and 1")
    return None


ReverseSequence = OperatorSpec(
    "ReverseSequence",
    Outputs(same, range=ranges.of(0)),
    ToRten(
        Row(2, 1, "ReverseSequenceAttrs", (Field("batch_axis", int, 1), Field("time_axis", int, 0))),
        rewritings=(reverse_sequence,),
    ),
    ToOnnx("Al", "A"),
)


def flipped(context: Context, name: str, axis: str) -> str:
    """The value with one axis reversed."""
    last, beyond = context.int64([-1]), context.int64([-INT64_MAX])
    return context.op("Slice", name, last, beyond, shape.as_vector(context, context.cast(axis, INT64)), last)
