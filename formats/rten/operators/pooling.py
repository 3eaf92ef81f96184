"""Pools: the largest, the mean or the norm of a window that moves over spatial axes, or of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf, prod
from typing import Any

from formats.ir.attributes import get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT8, INT32, INT64
from formats.ir.model import Node
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import padding, ranges, reduction, shape
from formats.rten.operators.rules import ANY_NAN, always, for_outputs, of_floats
from formats.rten.operators.window import (
    KERNEL,
    PADDING,
    PADS_OMITTED,
    VOLUME_AXES,
    Window,
    differs,
    explicit_pads,
    flat_window,
    part_of_window,
    positions_along,
    rounding_pads,
    window,
    window_attributes,
    window_raised,
)
from formats.rten.spec import (
    ANY,
    ONES,
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    because,
    of_input,
    sizes_field,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT64_MAX, limits
from formats.tensordata.plan import RARE, SPECIAL

_CEIL_MODE = Field("ceil_mode", bool, 0)


def pool_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, channels, and the positions of the window; the same for the indices of the largest."""
    dims = types[0].dims
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    # Samples and channels come before the axes of the window.
    batch, channels, *spatial = dims or (None, None, *(None for _ in geometry.kernel))
    ceil = bool(get_int(node, "ceil_mode"))
    sizes = [positions_along(size, geometry, axis, ceil=ceil) for axis, size in enumerate(spatial)]
    return [(batch, channels, *sizes)] * len(node.output)


MAX_TAPS = 256  # the most slices; each slice is a node


def _taken(context: Context, operator: str, data: str, geometry: Window) -> str:
    """The elements of each window combined, one axis after the other.

    A slice with the stride as its step has the same element of all windows, so the slices are combined.
    """
    for axis, (length, dilation, stride) in enumerate(
        zip(geometry.kernel, geometry.dilations, geometry.strides, strict=True)
    ):
        number, step = context.int64([axis + 2]), context.int64([stride])
        slices = []
        for place in range(length):
            start = place * dilation
            end = start - geometry.extent(axis) + 1 or INT64_MAX
            slices.append(context.op("Slice", data, [start], [end], number, step))  # one tap of all windows
        data = context.op(operator, *slices)
    return data


def _padded(context: Context, data: str, pads: tuple[int, ...], value: float) -> str:
    """The data with a value around."""
    if not any(pads):
        return data
    rank = len(pads) // 2
    amounts = context.int64([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    return context.op("Pad", data, amounts, context.scalar(value, like=data))


@because("RTen pads SAME_LOWER as SAME_UPPER, so padding whose size only the run can tell becomes Pad")
def pool_padded_by_size(node: Node, context: Context) -> list[Node] | None:
    data, geometry = context.input(0), window(node, get_ints(node, "kernel_shape") or ())
    is_plain = (
        geometry.auto_pad != "SAME_LOWER" and len(geometry.kernel) < VOLUME_AXES and set(geometry.dilations) == {1}
    )
    if context.is_integer(data) or is_plain or not padding.is_padded_by_size(context, geometry, data):
        return None
    changes: dict[str, Any] = {"auto_pad": None, "ceil_mode": None, "pads": [0] * (2 * len(geometry.kernel))}
    if node.op_type == "MaxPool":
        if context.wanted(1):
            return None
        return context.changed([padding.padded_by_size(context, geometry, data, -inf)], **changes)
    padded = padding.padded_by_size(context, geometry, data, 0.0)
    if get_int(node, "count_include_pad"):
        return context.changed([padded], **changes)
    ones = padding.padded_by_size(context, geometry, _ones(context, data), 0.0)
    total, share = (context.copy([image], **changes) for image in (padded, ones))  # both divided by the window's size
    return context.replace(context.op("Div", total, share))


def _ones(context: Context, data: str) -> str:
    """An image of ones, of the size of the data."""
    size = shape.joined(context, context.int64([1, 1]), shape.sizes_of(context, data, 2, context.known_rank(data)))
    return context.op("Expand", context.scalar(1, like=data), size)


@because("RTen's pools have no dilations, so it becomes the maximum or mean of slices")
def dilated_pool(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    if all(dilation == 1 for dilation in geometry.dilations) or context.is_integer(data):
        return None
    if sum(geometry.kernel) > MAX_TAPS:
        raise Refused(f"has a dilated window of {sum(geometry.kernel)} slices; at most {MAX_TAPS} can be converted")
    pads = given_pads = explicit_pads(context, geometry, data)
    if pads is None or given_pads is None:
        raise Refused("pads by SAME_UPPER, but the sizes are unknown", "fix the sizes of the model's inputs")
    if get_int(node, "ceil_mode"):
        pads = rounding_pads(context, geometry, data, pads)
    if node.op_type == "MaxPool":
        context.report(ANY_NAN, is_defined=False)
        padded = _padded(context, data, pads, float("-inf"))
        return context.replace(_taken(context, "Max", padded, geometry))
    total = _taken(context, "Sum", _padded(context, data, pads, 0.0), geometry)
    if not any(pads):
        return context.replace(context.op("Div", total, context.scalar(prod(geometry.kernel), like=data)))
    counted = given_pads if get_int(node, "count_include_pad") else (0,) * len(pads)
    ones = _padded(context, _ones(context, data), counted, 1.0)
    rest = tuple(pad - counted_pad for pad, counted_pad in zip(pads, counted, strict=True))
    # The same windows over ones count the elements that the mean is of.
    count = _taken(context, "Sum", _padded(context, ones, rest, 0.0), geometry)
    count = context.op("Max", count, context.scalar(1, like=data))  # the mean of padding alone is zero
    return context.replace(context.op("Div", total, count))


def _places(context: Context, data: str, steps: Sequence[str]) -> str:
    """For each element of an image, the sum over the axes of its place along the axis, times a step."""
    op = context.op
    total, rank = "", len(steps)
    for axis, step in enumerate(steps):
        line = shape.numbers_below(context, shape.length_of(context, data, axis + 2))
        line = op("Mul", line, step)
        column = op("Reshape", line, [1, 1, *(-1 if a == axis else 1 for a in range(rank))])  # 1, 1, and one long axis
        total = op("Add", total, column) if total else column
    return total


def _largest_taken(context: Context, data: str, places: str, geometry: Window) -> tuple[str, str]:
    """The largest element of each window, and its place: of equal ones the first. Padding has the place -1.

    As in onnxruntime, NaN is the largest if it comes first, and is ignored elsewhere.
    """
    op = context.op
    rank = len(geometry.kernel)
    axes, steps = context.int64(range(2, 2 + rank)), context.int64(geometry.strides)
    best = best_place = ""
    for taps in product(*map(range, geometry.kernel)):
        starts = [tap * dilation for tap, dilation in zip(taps, geometry.dilations, strict=True)]
        ends = [start - geometry.extent(axis) + 1 or INT64_MAX for axis, start in enumerate(starts)]
        bounds = context.int64(starts), context.int64(ends), axes, steps
        value, place = (op("Slice", image, *bounds) for image in (data, places))  # the same tap of all windows
        if not best:
            best, best_place = value, place
            continue
        is_taken = op("Greater", value, best)
        is_padding = op("Less", best_place, context.scalar(0, elem_type=INT64))
        is_taken = op("Or", is_taken, is_padding)
        best = op("Where", is_taken, value, best)
        best_place = op("Where", is_taken, place, best_place)
    return best, best_place


@because("RTen gives no indices: they are compared along with the elements, one tap of the window after the other")
def max_pool_with_places(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    if not context.wanted(1):
        return None
    source = context.input(0)
    data = context.cast(source, INT32) if context.is_integer(source) else source
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    rank, taps = len(geometry.kernel), prod(geometry.kernel)
    if taps > MAX_TAPS:
        raise Refused(f"has a window of {taps} slices; at most {MAX_TAPS} can be converted with indices")
    if padding.is_padded_by_size(context, geometry, data):

        def padded(image: str, fill: float) -> str:
            return padding.padded_by_size(context, geometry, image, fill)

    else:
        pads = explicit_pads(context, geometry, data) or ()
        if get_int(node, "ceil_mode") and not geometry.auto_pad.startswith("SAME"):
            pads = rounding_pads(context, geometry, data, pads)
        _check_room(context, geometry, data, pads)

        def padded(image: str, fill: float) -> str:
            return _padded(context, image, pads, fill)

    one = context.int64([1])
    # A place counts the elements before it in its image: a step along an axis is the product of the axes behind it, or
    # of those before it for column-major indices.
    behind = [(2, 2 + axis) if get_int(node, "storage_order") else (3 + axis, 2 + rank) for axis in range(rank)]
    steps = [shape.size_of(context, data, *ends) if ends[0] < ends[1] else one for ends in behind]
    least = limits(context.elem_type(source) or INT8)[0] if context.is_integer(source) else -inf
    value, place = _largest_taken(context, padded(data, least), padded(_places(context, data, steps), -1), geometry)
    # ONNX counts through all images, so those before the place are added: samples, channels, 1, 1.
    first, count = context.int64_scalar(0), op("Squeeze", shape.size_of(context, data, 0, 2), [0])
    images = op("Range", first, count, 1)  # samples * channels
    images = op("Mul", images, shape.size_of(context, data, 2, 2 + rank))
    # The axes: samples, channels, 1, ...
    stack = shape.joined(context, shape.sizes_of(context, data, 0, 2), context.int64([1] * rank))
    place = op("Add", place, op("Reshape", images, stack, allowzero=1))
    return context.replace(context.cast(value, context.elem_type(source) or FLOAT), place)


@because("RTen has no three-dimensional pools, so it pools planes first, then across them")
def pool_of_volumes(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    if len(geometry.kernel) != VOLUME_AXES:
        return None
    batch, plane = shape.sizes_of(context, data, 0, 1), shape.sizes_of(context, data, 3, 5)
    stack = shape.sizes_of(context, data, 1, 3)
    layers = shape.size_of(context, data, 1, 3)
    # Of samples, channels, planes, rows, columns it makes samples, channels * planes, rows, columns.
    flat = context.op("Reshape", data, shape.joined(context, batch, layers, plane), allowzero=1)
    planes = context.copy([flat], **part_of_window(node, geometry, range(1, VOLUME_AXES)))
    places = shape.size_of(context, planes, 2, 4)
    # Then samples, channels, planes, rows * columns, over which a window of planes and one column moves.
    lines = context.op("Reshape", planes, shape.joined(context, batch, stack, places), allowzero=1)
    # The axes: samples, channels, planes of the result, rows * columns.
    result = context.copy([lines], **part_of_window(node, geometry, range(1), fill=1))
    target = shape.joined(context, shape.sizes_of(context, result, 0, 3), shape.sizes_of(context, planes, 2, 4))
    return context.replace(context.op("Reshape", result, target, allowzero=1))


def _pool_rounded_up(node: Node, context: Context, geometry: Window, pads: tuple[int, ...]) -> list[Node]:
    """The same pool in floor mode, its end padded so that every output of ceil mode has a window."""
    data, rank = context.input(0), len(geometry.kernel)
    if get_int(node, "count_include_pad"):  # explicit padding counts, additional padding for rounding does not
        zeros = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
        more = rounding_pads(context, geometry, data, pads)
        data = context.op("Pad", data, context.int64(zeros), context.scalar(0, like=data))
        pads = (*((0,) * rank), *(end - own_end for end, own_end in zip(more[rank:], pads[rank:], strict=True)))
    else:
        pads = rounding_pads(context, geometry, data, pads)
    replaced = ("ceil_mode", "count_include_pad", "auto_pad", "dilations", "storage_order")
    return context.changed([data], without=replaced, pads=pads)


_CEIL = Fault("returns too many or too few outputs in ceil mode, or fails", until=RTEN_0_26)


@because("Older releases have errors in ceil mode, so it becomes more padding at the end")
def pool(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    if context.is_integer(data):
        pooled = context.copy([context.cast(data, FLOAT)])
        return context.replace(context.cast(pooled, context.elem_type(data) or INT32))
    geometry = flat_window(node, get_ints(node, "kernel_shape") or ())
    pads = explicit_pads(context, geometry, data)
    if get_int(node, "ceil_mode"):
        if pads is None or geometry.auto_pad.startswith("SAME"):  # they define the number of outputs
            return context.changed(without=("ceil_mode",))
        if context.target.deviates(_CEIL):
            return _pool_rounded_up(node, context, geometry, pads)
    else:
        _check_room(context, geometry, data, pads)
    attributes = window_attributes(geometry, pads)
    return context.changed(**attributes) if differs(node, attributes) else None


def _check_room(context: Context, geometry: Window, data: str, pads: tuple[int, ...] | None) -> None:
    """Return nothing if the window fits into the padded data, as far as their sizes are known.

    Raises: Refused if it does not fit, because runtimes then give different results.
    """
    rank, dims = len(geometry.kernel), context.dims(data)
    for axis, size in enumerate(dims[2:] if dims is not None and pads is not None else ()):
        assert pads is not None
        room = size + pads[axis] + pads[rank + axis] if isinstance(size, int) else None
        if room is not None and room < geometry.extent(axis):
            raise Refused(f"has a window of {geometry.extent(axis)}, but the padded data has only {room}")


_TOO_SMALL = Deviation(
    "if the data are smaller than the window, onnxruntime returns few elements, and RTen stops", RARE
)


def _of_little(node: Node, context: Context) -> tuple[Deviation, ...]:
    """Report what runtimes do if the data are smaller than the window, if only the run can tell their size."""
    geometry, dims = window(node, get_ints(node, "kernel_shape") or ()), context.dims(node.input[0])
    rank = len(geometry.kernel)
    if geometry.auto_pad.startswith("SAME"):
        return ()
    for axis in range(rank):
        is_known = dims is not None and isinstance(dims[2 + axis], int)
        if not is_known and 1 + geometry.pads[axis] + geometry.pads[rank + axis] < geometry.extent(axis):
            return (_TOO_SMALL,)
    return ()


AveragePool = OperatorSpec(
    "AveragePool",
    Outputs(pool_dims, range=ranges.inexact(ranges.with_zero)),
    ToRten(
        Row(
            1,
            1,
            "AveragePoolAttrs",
            (KERNEL, *PADDING, sizes_field("strides"), Field("count_include_pad", bool, 0), _CEIL_MODE),
            {"dilations": ONES},
        ),
        rewritings=(pool_padded_by_size, dilated_pool, pool_of_volumes, pool),
        is_plain=True,
        faults=(_CEIL,),
        unspecified=_of_little,
    ),
    ToOnnx(rewriting=window_raised),
    onnx_loader=OnnxLoader(takes={"dilations": ONES}, omitted=PADS_OMITTED, pads_alike=True),
)
_NOTHING_GREATER = Deviation(
    "if all numbers are NaN or -inf, RTen returns that, and onnxruntime may return another number", SPECIAL
)
_LEAST = of_floats(_NOTHING_GREATER)


MaxPool = OperatorSpec(
    "MaxPool",
    Outputs(pool_dims, for_outputs(of_input(0), always(INT64)), range=ranges.of(0), places={1: ranges.places}),
    ToRten(
        Row(
            1,
            1,
            "MaxPoolAttrs",
            (KERNEL, *PADDING, sizes_field("strides"), _CEIL_MODE),
            {"dilations": ONES, "storage_order": ANY},
        ),
        rewritings=(max_pool_with_places, pool_padded_by_size, dilated_pool, pool_of_volumes, pool),
        is_plain=True,
        faults=(_CEIL,),
        unspecified=lambda node, context: (*_LEAST(node, context), *_of_little(node, context)),
    ),
    ToOnnx(rewriting=window_raised),
    onnx_loader=OnnxLoader(takes={"dilations": ONES, "storage_order": (0,)}, omitted=PADS_OMITTED, pads_alike=True),
)


def lp_pool(node: Node, context: Context) -> list[Node] | None:
    """Write it as the root of an AveragePool of powers, times the window's size."""
    op = context.op
    data, power = context.input(0), reduction.power_of(node)
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    if padding.is_padded_by_size(context, geometry, data):
        data = padding.padded_by_size(context, geometry, data, 0.0)
        geometry = geometry._replace(auto_pad="VALID")
    pads = explicit_pads(context, geometry, data)
    if pads is not None and get_int(node, "ceil_mode") and not get_string(node, "auto_pad", "").startswith("SAME"):
        pads = rounding_pads(context, geometry, data, pads)
    raised = op("Mul", data, data) if power == 2 else op("Abs", data)
    if power > 2:
        raised = op("Pow", raised, context.scalar(power, like=data))
    lists = window_attributes(geometry, pads)
    # Padding counts, so the total is the mean times the size.
    mean = context.copy([raised], "AveragePool", ("p", "ceil_mode"), count_include_pad=1, **lists)
    total = op("Mul", mean, context.scalar(prod(geometry.kernel), like=data))
    if power > 2:
        return context.replace(op("Pow", total, context.scalar(1 / power, like=data)))
    return context.replace(op("Sqrt", total) if power == 2 else total)


LpPool = OperatorSpec("LpPool", Outputs(pool_dims), ToRten(rewritings=(lp_pool,)))


def global_pool_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, channels, and ones."""
    dims = types[0].dims
    return [] if dims is None else [dims[:2] + (1,) * (len(dims) - 2)]


GlobalAveragePool = OperatorSpec(
    "GlobalAveragePool", Outputs(global_pool_dims, range=ranges.inexact(ranges.of(0))), ToRten(Row(1), is_plain=True)
)
GlobalMaxPool = OperatorSpec(
    "GlobalMaxPool", Outputs(global_pool_dims, range=ranges.of(0)), ToRten(Row(1), unspecified=_LEAST)
)


def global_lp_pool(node: Node, context: Context) -> list[Node] | None:
    """Write it as a norm over all spatial axes."""
    data = context.input(0)
    return context.replace(
        reduction.norm(context, data, list(range(2, context.known_rank(data))), reduction.power_of(node))
    )


GlobalLpPool = OperatorSpec("GlobalLpPool", Outputs(global_pool_dims), ToRten(rewritings=(global_lp_pool,)))


def _unpooled_size(node: Node, context: Context, data: str) -> str:
    """The size of the output: the one that is asked for, or the room that the windows take."""
    if context.optional(2):
        return context.cast(context.input(2), INT64)
    geometry = window(node, get_ints(node, "kernel_shape") or ())
    rank = len(geometry.kernel)
    images, sizes = shape.sizes_of(context, data, 0, 2), shape.sizes_of(context, data, 2, 2 + rank)
    rest = [
        length - stride - geometry.pads[axis] - geometry.pads[rank + axis]
        for axis, (length, stride) in enumerate(zip(geometry.kernel, geometry.strides, strict=True))
    ]
    known_sizes = context.scope.ints(sizes)
    if known_sizes is not None:
        spatial = context.int64(
            n * stride + more for n, stride, more in zip(known_sizes, geometry.strides, rest, strict=True)
        )
        return shape.joined(context, images, spatial)
    room = context.op("Mul", sizes, context.int64(geometry.strides))
    return shape.joined(context, images, context.op("Add", room, context.int64(rest)))


@because("RTen has no MaxUnpool, so it becomes ScatterElements into zeros")
def max_unpool(node: Node, context: Context) -> list[Node] | None:
    import numpy

    op = context.op
    data, indices = context.input(0), context.input(1)
    target, flat = _unpooled_size(node, context, data), context.int64([-1])
    dims = context.scope.ints(target)
    count = context.int64([prod(dims)]) if dims else op("ReduceProd", target, keepdims=1)  # all elements of all images
    zeros = op("ConstantOfShape", count, value=from_numpy(budget.zeros(1, numpy.float32)))  # flat, as the indices count
    filled = op(
        "ScatterElements",
        context.cast(zeros, context.elem_type(data) or FLOAT),
        op("Reshape", indices, flat),
        op("Reshape", data, flat),
        axis=0,
    )
    return context.replace(op("Reshape", filled, target, allowzero=1))


MaxUnpool = OperatorSpec("MaxUnpool", to_rten=ToRten(rewritings=(max_unpool,)))
