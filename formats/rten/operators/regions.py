"""Regions of images: sampled at places that the model computes, and around the centre.

Spec: ONNX, Operators.md, RoiAlign and CenterCropPad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.ir.dtypes import FLOAT, INT32, INT64
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_float, get_int, get_ints, get_string
from formats.rten.operators import shape
from formats.rten.operators.shared.rules import normalize
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, ToRten, unknown

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType

MAX_RATIO = 4  # samples of a bin along an axis; each is several nodes


class Samples(NamedTuple):
    """One sample of each bin along an axis: the indices on both sides of it, INT32, and their weights."""

    low: str
    low_share: str
    high: str
    high_share: str


def _samples(context: Context, start: str, size: str, bins: int, ratio: int, number: int, length: str) -> Samples:
    """The samples called `number` of `ratio` in each of the bins of regions, which begin at `start`, along an axis."""
    op = context.op
    zero, one = context.scalar(0.0), context.scalar(1.0)
    width = op("Div", size, context.scalar(float(bins)))
    corner = op("Add", start, op("Mul", width, context.array([[*map(float, budget.steps(bins))]])))
    inside = op("Mul", width, context.scalar(number + 0.5))
    place = op("Add", corner, op("Div", inside, context.scalar(float(ratio))))
    before = op("Less", place, context.scalar(-1.0))
    is_outside = op("Or", before, op("Greater", place, length))
    last = op("Sub", length, one)
    place = op("Min", op("Max", place, zero), last)  # an index after the last one becomes the last one
    low = op("Floor", place)
    high = op("Min", op("Add", low, one), last)
    share = op("Sub", place, low)
    shares = (op("Sub", one, share), share)
    low_share, high_share = (op("Where", is_outside, zero, each) for each in shares)
    return Samples(context.cast(low, INT32), low_share, context.cast(high, INT32), high_share)


def _starts_and_sizes(node: Node, context: Context, is_half: bool) -> list[tuple[str, str]]:
    """The start and the size of regions, along the rows and the columns."""
    op = context.op
    scale = context.scalar(get_float(node, "spatial_scale", 1.0))
    corners = op("Mul", context.input(1), scale)
    if is_half:
        corners = op("Sub", corners, context.scalar(0.5))
    left, top, right, bottom = context.op_outputs("Split", [corners, context.int64([1] * 4)], 4, axis=1)
    found = []
    for first, last in ((top, bottom), (left, right)):
        size = op("Sub", last, first)
        found.append((first, size if is_half else op("Max", size, context.scalar(1.0))))
    return found


def _column(context: Context, value: str, axis: int) -> str:
    return context.op("Unsqueeze", value, context.int64([axis]))


def roi_align(node: Node, context: Context) -> list[Node] | None:
    """Write it as the mean or maximum of interpolated samples."""
    op = context.op
    data, ratio = context.input(0), get_int(node, "sampling_ratio")
    if not 0 < ratio <= MAX_RATIO:
        raise Refused(f"has sampling_ratio = {ratio}, but only 1 to {MAX_RATIO} can be converted")
    mode = get_string(node, "mode", "avg")
    known = get_string(node, "coordinate_transformation_mode", "half_pixel" if context.version >= 16 else "")
    rows, columns = get_int(node, "output_height", 1), get_int(node, "output_width", 1)
    height, width = (shape.sizes_of(context, data, axis, axis + 1) for axis in (2, 3))
    (top, high), (left, wide) = _starts_and_sizes(node, context, known == "half_pixel")
    lengths = [context.cast(size, FLOAT) for size in (height, width)]
    last_first = op("Transpose", data, perm=[0, 2, 3, 1])
    depth = shape.sizes_of(context, data, 1, 2)
    pixels = op("Reshape", last_first, shape.joined(context, context.int64([-1]), depth))
    batch = _column(context, _column(context, context.cast(context.input(2), INT32), 1), 2)
    images = op("Mul", batch, context.cast(height, INT32))
    down = [_samples(context, top, high, rows, ratio, number, lengths[0]) for number in range(ratio)]
    across = [_samples(context, left, wide, columns, ratio, number, lengths[1]) for number in range(ratio)]
    parts = []
    for y, y_share in ((place, share) for each in down for place, share in (each[:2], each[2:])):
        line = op("Add", images, _column(context, y, 2))
        line = op("Mul", line, context.cast(width, INT32))
        for x, x_share in ((place, share) for each in across for place, share in (each[:2], each[2:])):
            found = op("Gather", pixels, op("Add", line, _column(context, x, 1)), axis=0)
            share = op("Mul", _column(context, y_share, 2), _column(context, x_share, 1))
            parts.append(op("Mul", found, _column(context, share, 3)))
    joined = parts[0]
    for part in parts[1:]:
        joined = op("Max" if mode == "max" else "Add", joined, part)
    if mode != "max":
        joined = op("Div", joined, context.scalar(float(ratio * ratio)))
    return context.replace(op("Transpose", joined, perm=[0, 3, 1, 2]))


def roi_align_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """An image for each region."""
    data, regions = types[0].dims or (None,) * 4, types[1].dims or (None,)
    return [(regions[0], data[1], get_int(node, "output_height", 1), get_int(node, "output_width", 1))]


RoiAlign = OperatorSpec("RoiAlign", Outputs(roi_align_dims), ToRten(rewritings=(roi_align,)))


def _cut_or_padded(context: Context, data: str, axes: list[int], rank: int) -> list[Node]:
    """The same where sizes are known only when the model runs: the data are padded, and then cut."""
    op = context.op
    size = context.cast(context.input(1), INT64)
    before = op("Gather", op("Shape", data), context.int64(axes), axis=0)
    zero, two = context.int64([0]), context.int64([2])
    missing = op("Max", op("Sub", size, before), zero)
    begins = op("Div", missing, two)
    pads = op("Concat", begins, op("Sub", missing, begins), axis=0)
    places = context.int64([*axes, *(axis + rank for axis in axes)])
    every = op("ScatterElements", context.int64([0] * (2 * rank)), places, pads, axis=0)
    padded = op("Pad", data, every)
    beyond = op("Max", op("Sub", before, size), zero)
    start = op("Div", beyond, two)
    end = op("Add", start, size)
    return context.replace(op("Slice", padded, start, end, context.int64(axes)))


def center_crop_pad(node: Node, context: Context) -> list[Node] | None:
    """Write it as Slice and Pad, evenly on both sides of each axis."""
    data = context.input(0)
    rank, asked = context.known_rank(data), context.scope.ints(context.input(1))
    given = get_ints(node, "axes")
    axes = list(range(rank)) if given is None else [normalize(axis, rank) for axis in given]
    dims = context.dims(data) or ()
    known = [size for size in (dims[axis] for axis in axes) if isinstance(size, int)]
    if asked is None or len(known) != len(axes):
        return _cut_or_padded(context, data, axes, rank)
    pads = [0] * (2 * rank)
    for axis, size, before in zip(axes, asked, known, strict=True):
        room = size - before
        begin = room // 2 if room >= 0 else -(-room // 2)
        pads[axis], pads[rank + axis] = begin, room - begin
    return context.replace(context.op("Pad", data, context.int64(pads)))


CenterCropPad = OperatorSpec("CenterCropPad", Outputs(elements=unknown), ToRten(rewritings=(center_crop_pad,)))
