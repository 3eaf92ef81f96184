"""Signals and images put together from formulas: windows, grids, determinants, random choices, columns of patches."""

from __future__ import annotations

from math import pi, prod
from typing import TYPE_CHECKING

from formats.rten.convert.context import INT_MAX, Refused
from formats.rten.convert.value_types import FLOAT
from formats.rten.dims import normalize
from formats.rten.graph.attributes import find, get_float, get_int, get_ints, get_string
from formats.rten.rewriting.elementwise import times_sigmoid
from formats.rten.rewriting.shapes import joined, sizes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


MAX_STEPS = 1024  # of a product that is written out


def cosine_window(*weights: float) -> Rewriting:
    """A rewriting to a sum of cosines: of no, one, two ... periods over the window, with alternating signs."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        size = context.input(0)
        elem_type = get_int(node, "output_datatype", FLOAT)
        steps = context.op("Range", context.scalar(0, like=size), size, context.scalar(1, like=size))
        period = size if get_int(node, "periodic", 1) else context.op("Sub", size, context.scalar(1, like=size))
        phase = context.op("Div", context.cast(steps, FLOAT), context.cast(period, FLOAT))
        total = context.scalar(weights[0])
        for number, weight in enumerate(weights[1:], start=1):
            angle = context.op("Mul", phase, context.scalar(2 * pi * number))
            term = context.op("Mul", context.op("Cos", angle), context.scalar(weight))
            total = context.op("Sub" if number % 2 else "Add", total, term)
        return context.replace(context.cast(total, elem_type))

    return rewriting


def bernoulli(node: Node, context: Context) -> list[Node] | None:
    """True where a random number is below the probability."""
    data = context.input(0)
    seed = get_float(node, "seed") if find(node, "seed") is not None else None
    elem_type = context.elem_type(data) or FLOAT
    number = context.op("RandomUniformLike", data, dtype=elem_type, seed=seed)
    return context.replace(context.op("Cast", context.op("Less", number, data), to=get_int(node, "dtype") or elem_type))


def determinant(node: Node, context: Context) -> list[Node] | None:
    """Matrices of up to three rows, by the rule of Sarrus."""
    data = context.input(0)
    order = context.static_dims(data, context.known_rank(data) - 2)[0]

    def element(row: int, column: int) -> str:
        line = context.op("Gather", data, context.int64_scalar(row), axis=-2)
        return context.op("Gather", line, context.int64_scalar(column), axis=-1)

    def minor(rows: tuple[int, int], columns: tuple[int, int]) -> str:
        down = context.op("Mul", element(rows[0], columns[0]), element(rows[1], columns[1]))
        return context.op("Sub", down, context.op("Mul", element(rows[0], columns[1]), element(rows[1], columns[0])))

    if order == 1:
        return context.replace(element(0, 0))
    if order == 2:
        return context.replace(minor((0, 1), (0, 1)))
    if order != 3:
        raise Refused(f"takes determinants of {order} rows, where there are formulas for three at most")
    first, second, third = (
        context.op("Mul", element(0, column), minor((1, 2), others))
        for column, others in enumerate(((1, 2), (0, 2), (0, 1)))
    )
    return context.replace(context.op("Add", context.op("Sub", first, second), third))


def affine_grid(node: Node, context: Context) -> list[Node] | None:
    """All positions of the output, transformed by each matrix."""
    import numpy

    theta, size = context.input(0), context.static_ints(context.input(1))
    spatial = size[2:]
    context.check_size(*spatial, len(spatial) + 1)
    lines = []
    for length in spatial:
        steps = numpy.arange(length, dtype=numpy.float64)
        aligned = get_int(node, "align_corners")
        lines.append(steps * 2 / max(length - 1, 1) - 1 if aligned else (2 * steps + 1) / length - 1)
    grids = numpy.meshgrid(*lines, indexing="ij")
    columns = [grid.ravel() for grid in reversed(grids)]  # x is the last axis
    positions = numpy.stack([*columns, numpy.ones(prod(spatial))], axis=1)
    elem_type = context.elem_type(theta) or FLOAT
    moved = context.op("MatMul", context.array(positions, elem_type), context.op("Transpose", theta, perm=[0, 2, 1]))
    return context.replace(context.op("Reshape", moved, context.int64([size[0], *spatial, len(spatial)])))


def col2im(node: Node, context: Context) -> list[Node] | None:
    """Patches added up where they overlap: a transposed convolution with kernels of a single one."""
    import numpy

    data = context.input(0)
    image, block = context.static_ints(context.input(1)), context.static_ints(context.input(2))
    rank, volume = len(block), prod(block)
    if not 1 <= rank <= 2:
        raise Refused(f"puts together images of {rank} axes, where there is a form for two at most")
    channels = context.static_dims(data, 1)[0] // volume
    context.check_size(channels, volume, volume)
    dilations = tuple(get_ints(node, "dilations") or (1,) * rank)
    strides, pads = tuple(get_ints(node, "strides") or (1,) * rank), tuple(get_ints(node, "pads") or (0,) * 2 * rank)
    extents = [(length - 1) * dilation + 1 for length, dilation in zip(block, dilations, strict=True)]
    totals = [size + pads[axis] + pads[rank + axis] for axis, size in enumerate(image)]
    counts = [(total - extent) // stride + 1 for total, extent, stride in zip(totals, extents, strides, strict=True)]
    beyond = [
        total - (count - 1) * stride - extent
        for total, count, stride, extent in zip(totals, counts, strides, extents, strict=True)
    ]
    kernels = numpy.tile(numpy.eye(volume).reshape(volume, 1, *block), (channels, *(1 for _ in range(rank + 1))))
    batch = sizes_of(context, data, 0, 1)
    patches = context.op("Reshape", data, joined(context, batch, context.int64([channels * volume, *counts])))
    return context.replace(
        context.op(
            "ConvTranspose",
            patches,
            context.array(kernels, context.elem_type(data) or FLOAT),
            dilations=dilations,
            group=channels,
            output_padding=beyond,
            pads=pads,
            strides=strides,
        )
    )


def causal_conv_with_state(node: Node, context: Context) -> list[Node] | None:
    """A convolution of each channel over what was before and what is new; the end of both is the next state."""
    data, weight, bias, state = context.input(0), context.input(1), context.optional(2), context.optional(3)
    channels, _, kernel = context.static_dims(weight)
    if state:
        whole = context.op("Concat", state, data, axis=2)
    else:
        whole = context.op("Pad", data, context.int64([0, 0, kernel - 1, 0, 0, 0]))
    result = context.op("Conv", whole, weight, bias, group=channels)
    if get_string(node, "activation", "none").lower() in ("silu", "swish"):
        result = times_sigmoid(context, result, 1.0)
    start = context.int64([1 - kernel if kernel > 1 else INT_MAX])
    return context.replace(result, context.op("Slice", whole, start, context.int64([INT_MAX]), context.int64([2])))


def grid_sample(node: Node, context: Context) -> list[Node] | None:
    """RTen samples images, and takes zeros outside; the border goes on outside where no place is taken there."""
    import numpy

    data, grid = context.input(0), context.input(1)
    if context.rank(data) not in (None, 4):
        raise Refused(f"samples {context.known_rank(data) - 2} spatial axes, where RTen has two")
    if get_string(node, "padding_mode", "zeros") != "border" or get_string(node, "mode", "linear") != "linear":
        return None
    elem_type = context.elem_type(grid) or FLOAT
    rows, columns = context.static_dims(data, 2)
    aligned = get_int(node, "align_corners")
    reach = [1.0, 1.0] if aligned else [1 - 1 / columns, 1 - 1 / rows]
    bound = context.array(numpy.array(reach), elem_type)
    kept = context.op("Max", context.op("Min", grid, bound), context.op("Neg", bound))
    return context.changed([data, kept], padding_mode="zeros")


def attention(node: Node, context: Context) -> list[Node] | None:
    """A mask may be shorter than the keys: what it leaves out is masked."""
    mask, key = context.optional(3), context.input(1)
    mask_dims, key_dims = context.dims(mask), context.dims(key)
    if not mask_dims or not key_dims or context.optional(4):
        return None
    length, wanted = mask_dims[-1], key_dims[-2]
    if not isinstance(length, int) or not isinstance(wanted, int) or not 1 < length < wanted:
        return None
    pads = context.int64([0] * (2 * len(mask_dims) - 1) + [wanted - length])
    hidden = context.scalar(float("-inf") if context.is_float(mask) else 0, like=mask)
    inputs = list(node.input)
    inputs[3] = context.op("Pad", mask, pads, hidden)
    return context.changed(inputs)


def optional_value(node: Node, context: Context) -> list[Node] | None:
    """A value that is there is itself."""
    return context.replace(context.op("Identity", context.input(0)))


def optional_has_element(node: Node, context: Context) -> list[Node] | None:
    """A value is there where an input is given: RTen has no values that may be absent."""
    if context.optional(0) in context.scope.optionals:
        raise Refused("asks whether an input of the model is there", "make it a tensor")
    return context.replace(context.array(bool(context.optional(0)), 9))


def cumulative_product(node: Node, context: Context) -> list[Node] | None:
    """Slices multiplied one after the other, for an axis of known length."""
    data = context.input(0)
    rank = context.known_rank(data)
    axis = normalize(context.static_ints(context.input(1))[0], rank)
    length = context.static_dims(data)[axis]
    if length > MAX_STEPS:
        raise Refused(f"multiplies {length} elements, more than {MAX_STEPS}")
    order = range(length - 1, -1, -1) if get_int(node, "reverse") else range(length)
    slices = {place: context.op("Gather", data, context.int64([place]), axis=axis) for place in order}
    if not length:
        return context.replace(context.op("Identity", data))
    ones = context.op("Expand", context.scalar(1, like=data), sizes_of(context, slices[0], 0, rank))
    found, product = {}, ones
    for place in order:
        before, product = product, context.op("Mul", product, slices[place])
        found[place] = before if get_int(node, "exclusive") else product
    return context.replace(context.op("Concat", *(found[place] for place in range(length)), axis=axis))


REWRITINGS: Mapping[str, Rewriting] = {
    "AffineGrid": affine_grid,
    "Attention": attention,
    "Bernoulli": bernoulli,
    "BlackmanWindow": cosine_window(0.42, 0.5, 0.08),
    "CausalConvWithState": causal_conv_with_state,
    "Col2Im": col2im,
    "CumProd": cumulative_product,
    "Det": determinant,
    "GridSample": grid_sample,
    "HammingWindow": cosine_window(25 / 46, 21 / 46),
    "HannWindow": cosine_window(0.5, 0.5),
    "Optional": optional_value,
    "OptionalGetElement": optional_value,
    "OptionalHasElement": optional_has_element,
}
