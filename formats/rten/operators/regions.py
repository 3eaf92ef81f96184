"""Regions of images: sampled at places that the model computes, and around the centre.

Spec: ONNX, Operators.md, RoiAlign and CenterCropPad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.ir.dtypes import FLOAT, INT32, INT64
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_float, get_int, get_ints, get_string
from formats.rten.operators import comparison, elementwise, indexing, padding, scatter, shape, slicing
from formats.rten.operators.shared.rules import normalize, unknown
from formats.rten.operators.shared.spec import OperatorSpec

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
    zero, one = context.scalar(0.0), context.scalar(1.0)
    width = context.op(elementwise.Div, size, context.scalar(float(bins)))
    corner = context.op(
        elementwise.Add, start, context.op(elementwise.Mul, width, context.array([[*map(float, budget.steps(bins))]]))
    )
    inside = context.op(elementwise.Mul, width, context.scalar(number + 0.5))
    place = context.op(elementwise.Add, corner, context.op(elementwise.Div, inside, context.scalar(float(ratio))))
    before = context.op(comparison.Less, place, context.scalar(-1.0))
    is_outside = context.op(comparison.Or, before, context.op(comparison.Greater, place, length))
    last = context.op(elementwise.Sub, length, one)
    place = context.op(
        elementwise.Min, context.op(elementwise.Max, place, zero), last
    )  # an index after the last one becomes the last one
    low = context.op(elementwise.Floor, place)
    high = context.op(elementwise.Min, context.op(elementwise.Add, low, one), last)
    share = context.op(elementwise.Sub, place, low)
    shares = (context.op(elementwise.Sub, one, share), share)
    low_share, high_share = (context.op(comparison.Where, is_outside, zero, each) for each in shares)
    return Samples(context.cast(low, INT32), low_share, context.cast(high, INT32), high_share)


def _starts_and_sizes(node: Node, context: Context, is_half: bool) -> list[tuple[str, str]]:
    """The start and the size of regions, along the rows and the columns."""
    scale = context.scalar(get_float(node, "spatial_scale", 1.0))
    corners = context.op(elementwise.Mul, context.input(1), scale)
    if is_half:
        corners = context.op(elementwise.Sub, corners, context.scalar(0.5))
    left, top, right, bottom = context.op_outputs(slicing.Split, [corners, context.int64([1] * 4)], 4, axis=1)
    found = []
    for first, last in ((top, bottom), (left, right)):
        size = context.op(elementwise.Sub, last, first)
        found.append((first, size if is_half else context.op(elementwise.Max, size, context.scalar(1.0))))
    return found


def _column(context: Context, value: str, axis: int) -> str:
    return context.op(shape.Unsqueeze, value, context.int64([axis]))


def roi_align(node: Node, context: Context) -> list[Node] | None:
    """Write it as the mean or maximum of interpolated samples."""
    data, ratio = context.input(0), get_int(node, "sampling_ratio")
    if not 0 < ratio <= MAX_RATIO:
        raise Refused(f"has sampling_ratio = {ratio}, but only 1 to {MAX_RATIO} can be converted")
    mode = get_string(node, "mode", "avg")
    known = get_string(node, "coordinate_transformation_mode", "half_pixel" if context.version >= 16 else "")
    rows, columns = get_int(node, "output_height", 1), get_int(node, "output_width", 1)
    height, width = (shape.sizes_of(context, data, axis, axis + 1) for axis in (2, 3))
    (top, high), (left, wide) = _starts_and_sizes(node, context, known == "half_pixel")
    lengths = [context.cast(size, FLOAT) for size in (height, width)]
    last_first = context.op(shape.Transpose, data, perm=[0, 2, 3, 1])
    depth = shape.sizes_of(context, data, 1, 2)
    pixels = context.op(shape.Reshape, last_first, shape.joined(context, context.int64([-1]), depth))
    batch = _column(context, _column(context, context.cast(context.input(2), INT32), 1), 2)
    images = context.op(elementwise.Mul, batch, context.cast(height, INT32))
    down = [_samples(context, top, high, rows, ratio, number, lengths[0]) for number in range(ratio)]
    across = [_samples(context, left, wide, columns, ratio, number, lengths[1]) for number in range(ratio)]
    parts = []
    for y, y_share in ((place, share) for each in down for place, share in (each[:2], each[2:])):
        line = context.op(elementwise.Add, images, _column(context, y, 2))
        line = context.op(elementwise.Mul, line, context.cast(width, INT32))
        for x, x_share in ((place, share) for each in across for place, share in (each[:2], each[2:])):
            found = context.op(
                indexing.Gather, pixels, context.op(elementwise.Add, line, _column(context, x, 1)), axis=0
            )
            share = context.op(elementwise.Mul, _column(context, y_share, 2), _column(context, x_share, 1))
            parts.append(context.op(elementwise.Mul, found, _column(context, share, 3)))
    joined = parts[0]
    for part in parts[1:]:
        joined = context.op(elementwise.Max if mode == "max" else elementwise.Add, joined, part)
    if mode != "max":
        joined = context.op(elementwise.Div, joined, context.scalar(float(ratio * ratio)))
    return context.replace(context.op(shape.Transpose, joined, perm=[0, 3, 1, 2]))


def roi_align_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """An image for each region."""
    data, regions = types[0].dims or (None,) * 4, types[1].dims or (None,)
    return [(regions[0], data[1], get_int(node, "output_height", 1), get_int(node, "output_width", 1))]


RoiAlign = OperatorSpec("RoiAlign", dims=roi_align_dims, rewritings=(roi_align,))


def _cut_or_padded(context: Context, data: str, axes: list[int], rank: int) -> list[Node]:
    """The same where sizes are known only when the model runs: the data are padded, and then cut."""
    size = context.cast(context.input(1), INT64)
    before = context.op(indexing.Gather, context.op(shape.Shape, data), context.int64(axes), axis=0)
    zero, two = context.int64([0]), context.int64([2])
    missing = context.op(elementwise.Max, context.op(elementwise.Sub, size, before), zero)
    begins = context.op(elementwise.Div, missing, two)
    pads = context.op(slicing.Concat, begins, context.op(elementwise.Sub, missing, begins), axis=0)
    places = context.int64([*axes, *(axis + rank for axis in axes)])
    every = context.op(scatter.ScatterElements, context.int64([0] * (2 * rank)), places, pads, axis=0)
    padded = context.op(padding.Pad, data, every)
    beyond = context.op(elementwise.Max, context.op(elementwise.Sub, before, size), zero)
    start = context.op(elementwise.Div, beyond, two)
    end = context.op(elementwise.Add, start, size)
    return context.replace(context.op(slicing.Slice, padded, start, end, context.int64(axes)))


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
    return context.replace(context.op(padding.Pad, data, context.int64(pads)))


CenterCropPad = OperatorSpec("CenterCropPad", dims=unknown, elements=(), rewritings=(center_crop_pad,))
