"""Values sampled at positions that the model computes: grids, and deformable convolutions.

Spec: ONNX, Operators.md, GridSample, AffineGrid and DeformConv.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from formats.ir.attributes import get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT32, INT64
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import SPREAD, of_floats
from formats.rten.operators.sampling import divided
from formats.rten.spec import Deviation, Field, OnnxLoader, OperatorSpec, Outputs, Row, ToRten, because
from formats.tensordata.plan import SPECIAL

CUBIC = -0.75  # the coefficient of cubic interpolation


class Image(NamedTuple):
    """The data to sample, with all pixels of an image in one axis and the channels last."""

    pixels: str  # images, pixels, channels
    sizes: list[str]  # of each axis, scalars of INT32
    lasts: list[str]  # last place on each axis, scalars of FLOAT


def _scalar(context: Context, vector: str) -> str:
    return context.op("Squeeze", vector, [0])


def _image(context: Context, data: str, axes: int, groups: int = 1) -> Image:
    """The last axes of a value as pixels; groups of channels become images of their own.

    Of images, channels, rows, columns it makes images, rows * columns, channels.
    """
    op = context.op
    sizes = [shape.sizes_of(context, data, 2 + place, 3 + place) for place in range(axes)]
    images = shape.sizes_of(context, data, 0, 1)
    if groups > 1:
        images = op("Mul", images, [groups])
        channels = op("Div", shape.sizes_of(context, data, 1, 2), [groups])
        # Now the data are images * groups, channels of a group, rows, columns.
        data = op("Reshape", data, shape.joined(context, images, channels, *sizes))
    count = sizes[0]
    for size in sizes[1:]:
        count = op("Mul", count, size)
    channels = shape.sizes_of(context, data, 1, 2)
    flat = op("Reshape", data, shape.joined(context, images, channels, count))  # images, channels, pixels
    numbers = [context.cast(_scalar(context, size), INT32) for size in sizes]
    one = context.scalar(1.0)
    return Image(
        op("Transpose", flat, perm=[0, 2, 1]),
        numbers,
        [op("Sub", context.cast(number, FLOAT), one) for number in numbers],
    )


def _within(context: Context, place: str, last: str) -> str:
    """A place, or the nearest existing place."""
    return context.op("Min", context.op("Max", place, 0.0), last)


def _pixels(context: Context, image: Image, places: Sequence[str], *, zeros: bool) -> str:
    """The pixels at whole places, which are images, samples for each axis: images, samples, channels.

    A place outside is moved to the border, and with `zeros` its pixel is zero.
    """
    op = context.op
    flat, outside = "", ""
    for place, size, last in zip(places, image.sizes, image.lasts, strict=True):
        index = context.cast(_within(context, place, last), INT32)
        flat = op("Add", op("Mul", flat, size), index) if flat else index  # row-major: row * columns + column
        if zeros:
            is_behind = op("GreaterOrEqual", place, 0.0)
            there = op("And", is_behind, op("LessOrEqual", place, last))
            outside = op("And", outside, there) if outside else there
    column = context.int64([-1])
    indices = op("Unsqueeze", context.cast(flat, INT64), column)  # images, samples, 1
    pixels = op("GatherND", image.pixels, indices, batch_dims=1)  # images, samples, channels
    if not zeros:
        return pixels
    return op("Where", op("Unsqueeze", outside, column), pixels, context.scalar(0.0, like=pixels))


def _near(context: Context, place: str, mode: str) -> list[tuple[str, str]]:
    """The whole places that count for a place on an axis, and the share of each; no share if there is only one."""
    op = context.op
    if mode == "nearest":
        return [(place, "")]
    low, one = op("Floor", place), context.scalar(1.0)
    share = op("Sub", place, low)
    if mode == "linear":
        return [(low, op("Sub", one, share)), (op("Add", low, one), share)]
    neighbours = []
    for step in (-1, 0, 1, 2):
        distance = op("Abs", op("Sub", share, float(step)))
        a = CUBIC  # Keys, Cubic convolution interpolation, 1981: one polynomial near the place, another one farther
        factors = (a + 2, -(a + 3), 0, 1) if step in (0, 1) else (a, -5 * a, 8 * a, -4 * a)
        weight = context.scalar(factors[0])
        for factor in factors[1:]:
            weight = op("Mul", weight, distance)
            weight = op("Add", weight, float(factor))
        neighbours.append((op("Add", low, float(step)), weight))
    return neighbours


def _reflected(context: Context, place: str, ends: tuple[str, str]) -> str:
    """A place beyond an end is reflected there, to the same distance, again and again, until it is between the ends."""
    op = context.op
    first, last = ends
    way = op("Sub", last, first)
    double = op("Max", op("Add", way, way), 1.0)  # there and back; 1 so that nothing is divided by zero
    along = op("Sub", place, first)
    turns = op("Floor", op("Div", along, double))
    along = op("Sub", along, op("Mul", turns, double))
    back = op("Abs", op("Sub", along, way))
    return op("Add", first, op("Sub", way, back))


def _sampled(
    context: Context,
    image: Image,
    places: Sequence[str],
    mode: str,
    mirrors: Sequence[tuple[str, str]] = (),
    *,
    zeros: bool,
) -> str:
    """The samples at places, which are images, samples for each axis: images, samples, channels.

    A sample is the sum of the pixels around its place, each times the product of its shares along the axes.
    """
    op = context.op
    total, column = "", context.int64([-1])
    for corner in product(*(_near(context, place, mode) for place in places)):
        whole = [place for place, _ in corner]
        if mirrors:
            whole = [_reflected(context, *pair) for pair in zip(whole, mirrors, strict=True)]
        samples = _pixels(context, image, whole, zeros=zeros)
        weight = corner[0][1]
        for _, share in corner[1:]:
            weight = op("Mul", weight, share) if weight else ""
        if weight:
            # The axes: images, samples, 1.
            share = context.cast(op("Unsqueeze", weight, column), context.elem_type(samples) or FLOAT)
            samples = op("Mul", samples, share)
        total = op("Add", total, samples) if total else samples
    return total


def grid_sample_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch and channels of the input, positions of the grid."""
    dims, grid = types[0].dims, types[1].dims
    if dims is None or grid is None:
        return []
    return [dims[:2] + grid[1:-1]]


@because("Before operator set 20, modes had the names of two-dimensional interpolation")
def grid_sample_mode(node: Node, context: Context) -> list[Node] | None:
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(get_string(node, "mode", "linear"))
    return context.changed(mode=renamed) if renamed else None


def _bordered(node: Node, context: Context) -> list[Node]:
    """The border goes on outside where no place is taken there."""
    import numpy

    data, grid = context.input(0), context.input(1)
    elem_type = context.elem_type(grid) or FLOAT
    rows, columns = context.static_dims(data, 2)
    reach = [1.0, 1.0] if get_int(node, "align_corners") else [1 - 1 / columns, 1 - 1 / rows]
    bound = context.array(numpy.array(reach), elem_type)
    clamped = context.op("Max", context.op("Min", grid, bound), context.op("Neg", bound))
    return context.changed([data, clamped], padding_mode="zeros")


def _places(context: Context, grid: str, image: Image, *, aligned: bool) -> list[str]:
    """The places on each axis from a grid with numbers from -1 to 1. The grid's first number is for the last axis."""
    op = context.op
    axes, places = len(image.sizes), []
    ends = shape.joined(
        context, shape.sizes_of(context, grid, 0, 1), context.int64([-1, axes])
    )  # images, samples, axes
    numbers = op("Reshape", context.cast(grid, FLOAT), ends)  # images, samples, axes
    parts = context.op_outputs("Split", [numbers, context.int64([1 for _ in budget.steps(axes)])], axes, axis=2)
    one, half = context.scalar(1.0), context.scalar(0.5)
    for part, last in zip(reversed(parts), image.lasts, strict=True):
        from_zero = op("Add", op("Squeeze", part, [2]), one)  # images, samples
        if aligned:
            place = op("Mul", op("Mul", from_zero, half), last)
        else:
            place = op("Mul", from_zero, op("Add", last, one))
            place = op("Mul", op("Sub", place, one), half)
        places.append(place)
    return places


@because("RTen's GridSample is only for images, linear mode and zeros outside; other forms become Gathers")
def grid_sample(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data, grid = context.input(0), context.input(1)
    mode, padding = get_string(node, "mode", "linear"), get_string(node, "padding_mode", "zeros")
    rank, dims, grid_dims = context.rank(data), context.dims(data), context.dims(grid)
    result_dims = dims[:2] + grid_dims[1:-1] if dims and grid_dims else None
    if nothing := shape.without_elements(context, result_dims, context.elem_type(data)):
        return context.replace(nothing)
    if rank in (None, 4) and mode == "linear":
        if padding == "zeros":
            return None
        if padding == "border" and dims and all(isinstance(size, int) for size in dims[2:]):
            return _bordered(node, context)
    aligned = bool(get_int(node, "align_corners"))
    axes = context.known_rank(data) - 2
    image = _image(context, data, axes)
    places = _places(context, grid, image, aligned=aligned)
    if mode == "nearest":
        places = [op("Round", place) for place in places]
    # Places are mirrored at the middle of the border's pixels if corners are aligned, and else at their outer edges.
    half = context.scalar(0.0 if aligned else 0.5)
    ends = [(op("Neg", half), op("Add", last, half)) for last in image.lasts]
    # A cubic sample takes pixels beyond its place, so their places are moved, and not the place itself.
    if mode != "cubic" and padding != "zeros":
        places = [
            _reflected(context, place, pair) if padding == "reflection" else _within(context, place, last)
            for place, pair, last in zip(places, ends, image.lasts, strict=True)
        ]
    context.report(SPREAD)
    mirrors = ends if padding == "reflection" else ()
    # The axes: images, channels, samples.
    samples = op("Transpose", _sampled(context, image, places, mode, mirrors, zeros=padding == "zeros"), perm=[0, 2, 1])
    sizes = shape.joined(context, shape.sizes_of(context, data, 0, 2), shape.sizes_of(context, grid, 1, 1 + axes))
    return context.replace(op("Reshape", samples, sizes))


_BAD_PLACES = Deviation("for NaN or infinite coordinates, RTen and onnxruntime may return different numbers", SPECIAL)
GridSample = OperatorSpec(
    "GridSample",
    Outputs(grid_sample_dims, range=ranges.inexact(ranges.with_zero)),
    ToRten(
        Row(
            2,
            1,
            "GridSampleAttrs",
            (Field("align_corners", bool, 0),),
            {"mode": ("linear", "bilinear"), "padding_mode": ("zeros",)},
        ),
        older=(grid_sample_mode,),
        rewritings=(grid_sample,),
        unspecified=of_floats(_BAD_PLACES),
    ),
    onnx_loader=OnnxLoader(
        takes={"mode": ("linear", "bilinear"), "padding_mode": ("zeros",)}, version=16, versions={"mode": 20}
    ),
)


def _known_positions(context: Context, spatial: Sequence[int], elem_type: int, *, aligned: bool) -> str:
    """All positions of an output whose sizes are known, each followed by a one. Axes: positions, axes and one."""
    import numpy

    context.check_size(*spatial, len(spatial) + 1)
    lines = []
    for length in spatial:
        steps = budget.arange(length, dtype=numpy.float64)
        if aligned and length == 1:
            lines.append(numpy.ones(1))  # ONNX does not define the place of a single position
        else:
            lines.append(steps * 2 / (length - 1) - 1 if aligned else (2 * steps + 1) / length - 1)
    columns = [grid.ravel() for grid in reversed(numpy.meshgrid(*lines, indexing="ij"))]  # x is the last axis
    # A matrix: positions, axes and one.
    return context.array(numpy.stack([*columns, numpy.ones(prod(spatial))], axis=1), elem_type)


def _positions(context: Context, sizes: Sequence[str], dims: str, elem_type: int, *, aligned: bool) -> str:
    """The same if only a run tells the sizes, which are vectors of one number; `dims` has all of them."""
    op = context.op
    zero, one, two = (context.scalar(number) for number in (0.0, 1.0, 2.0))
    columns = []
    for axis, size in enumerate(sizes):
        count = context.cast(_scalar(context, size), FLOAT)
        double = op("Mul", op("Range", zero, count, one), two)
        if aligned:
            steps = op("Sub", count, one)
            line = divided(context, double, op("Max", steps, one))
            line = op("Sub", line, one)
            line = op("Where", op("Equal", steps, zero), one, line)
        else:
            line = divided(context, op("Add", double, one), count)
            line = op("Sub", line, one)
        line = op("Reshape", line, [-1] + [1] * (len(sizes) - axis - 1))
        columns.append(op("Expand", line, dims))
    columns = [*reversed(columns), op("Expand", one, dims)]
    both = op("Concat", *(op("Unsqueeze", column, [-1]) for column in columns), axis=-1)  # the dims, axes and one
    return context.cast(op("Reshape", both, [-1, len(columns)]), elem_type)


def affine_grid(node: Node, context: Context) -> list[Node] | None:
    """Write it as MatMul of the output's positions with each matrix."""
    theta, size, aligned = context.input(0), context.input(1), bool(get_int(node, "align_corners"))
    sizes, dims, elem_type = context.scope.ints(size), context.dims(theta), context.elem_type(theta) or FLOAT
    if sizes is not None:
        axes = len(sizes) - 2
        positions = _known_positions(context, sizes[2:], elem_type, aligned=aligned)
        target = context.int64([sizes[0], *sizes[2:], axes])
    else:
        last = context.scope.type_of(size).dims
        count = last[0] - 2 if last and isinstance(last[0], int) else dims[1] if dims else None
        if not isinstance(count, int):
            raise Refused("has an unknown number of axes", "infer the model's shapes first")
        axes = count
        parts = context.op_outputs(
            "Split", [size, context.int64([1 for _ in budget.steps(2 + axes)])], 2 + axes, axis=0
        )
        positions = _positions(context, parts[2:], shape.joined(context, *parts[2:]), elem_type, aligned=aligned)
        target = shape.joined(context, parts[0], *parts[2:], context.int64([axes]))
    # Positions, axes and one, times images, axes and one, axes: images, positions, axes.
    moved = context.op("MatMul", positions, context.op("Transpose", theta, perm=[0, 2, 1]))
    return context.replace(context.op("Reshape", moved, target, allowzero=1))


AffineGrid = OperatorSpec("AffineGrid", to_rten=ToRten(rewritings=(affine_grid,)))


# The axes of values in the comments below: N images, O groups of offsets, G groups of channels, P parts of the window,
# R rows and C columns of the result.


def _multiples(context: Context, size: str, step: int, axis: int) -> str:
    """The multiples of a step from zero on, as many as a vector of one says: R, 1 for axis 0, C for axis 1."""
    zero, end = context.scalar(0.0), context.cast(_scalar(context, size), FLOAT)
    numbers = context.op("Range", zero, end, 1.0)
    numbers = context.op("Mul", numbers, float(step))
    return numbers if axis else context.op("Unsqueeze", numbers, [1])


def _deformed_places(
    node: Node, context: Context, kernel: Sequence[int], sizes: Sequence[str], lines: str, offsets: Sequence[str]
) -> list[str]:
    """The rows and the columns of the pixels under the window: N * O, P * R * C each.

    A place is where the window stands, plus the place of its part, plus the offset. `sizes` are R and C, and `lines`
    the dims of the result. The offsets for each axis are N * O, P, 1, R, C.
    """
    op, pads = context.op, get_ints(node, "pads") or [0] * 4
    dilations, strides = (get_ints(node, name) or [1, 1] for name in ("dilations", "strides"))
    parts, places = list(product(*map(range, kernel))), []
    for axis, size in enumerate(sizes):
        begins = [float(part[axis] * dilations[axis] - pads[axis]) for part in parts]
        place = op("Squeeze", offsets[axis], [2])  # N * O, P, R, C
        place = op("Add", place, context.array([[[begin]] for begin in begins]))  # P, 1, 1
        place = op("Add", place, _multiples(context, size, strides[axis], axis))
        places.append(op("Reshape", place, lines))
    return places


def deform_conv(node: Node, context: Context) -> list[Node]:
    """Write it as a Gather of the pixels under each part of the window, times the weights."""
    op = context.op
    data, weight, offset = (context.input(place) for place in range(3))
    filters, per_group, *kernel = context.static_dims(weight)
    if len(kernel) != 2:
        raise Refused(f"has {len(kernel)} spatial axes; only two can be converted")
    groups, parts = get_int(node, "group", 1), prod(kernel)
    image = _image(context, data, 2, get_int(node, "offset_group", 1))
    rows, columns = (shape.sizes_of(context, offset, axis, axis + 1) for axis in (2, 3))
    # The axes: N * O, P, 2, R, C.
    moves = op("Reshape", offset, shape.joined(context, context.int64([-1, parts, 2]), rows, columns))
    offsets = context.op_outputs("Split", [context.cast(moves, FLOAT), [1, 1]], 2, axis=2)
    budget.steps(parts)
    lines = shape.joined(context, shape.sizes_of(context, image.pixels, 0, 1), context.int64([-1]))
    places = _deformed_places(node, context, kernel, (rows, columns), lines, offsets)
    context.report(SPREAD)
    samples = _sampled(context, image, places, "linear", zeros=True)  # N * O, P * R * C, channels of a group
    if context.optional(4):  # a factor for each sample
        # The axes: N * O, P * R * C, 1.
        factors = op("Reshape", context.input(4), shape.joined(context, lines, context.int64([1])))
        samples = op("Mul", samples, factors)
    samples = op("Transpose", samples, perm=[0, 2, 1])  # N * O, channels of a group, P * R * C
    images = shape.sizes_of(context, data, 0, 1)
    # All that a group of filters looks at becomes the rows of a matrix: N, G, channels of a group * P, R * C.
    samples = op("Reshape", samples, shape.joined(context, images, context.int64([groups, per_group * parts, -1])))
    # The axes: 1, G, filters of a group, channels of a group * P.
    flat = op("Reshape", weight, [1, groups, filters // groups, per_group * parts])
    result = op("MatMul", flat, samples)  # N, G, filters of a group, R * C
    # The axes: N, filters, R, C.
    result = op("Reshape", result, shape.joined(context, images, context.int64([filters]), rows, columns))
    if context.optional(3):
        bias = op("Reshape", context.input(3), [1, -1, 1, 1])
        result = op("Add", result, bias)
    return context.replace(result)


def deform_conv_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """An image for each filter, as large as the offsets."""
    data, weight, offset = (entry.dims for entry in types[:3])
    if not data or not weight or not offset:
        return []
    return [(data[0], weight[0], *offset[2:])]


DeformConv = OperatorSpec("DeformConv", Outputs(deform_conv_dims), ToRten(rewritings=(deform_conv,)))
