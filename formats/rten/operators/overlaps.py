"""Patches and planes that are added up where they overlap.

Spec: ONNX, Operators.md, Col2Im and ConvTranspose.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT, INT64
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_ints
from formats.rten.operators import shape
from formats.rten.operators.shared.rules import SPREAD
from formats.rten.operators.shared.spec import OperatorSpec, ToRten, because
from formats.rten.types import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context


def _line(context: Context, count: str, step: int, axis: int, rank: int) -> str:
    """The numbers 0, `step`, ... as many as a vector of one says, along one of the axes of a tensor."""
    op = context.op
    length = op("Squeeze", count, context.int64([0]))
    numbers = op("Range", context.int64_scalar(0), length, context.int64_scalar(1))
    numbers = op("Mul", numbers, context.int64_scalar(step))
    return op("Reshape", numbers, context.int64(-1 if place == axis else 1 for place in range(rank)))


def _places(
    context: Context,
    blocks: Sequence[str],
    counts: Sequence[str],
    sizes: Sequence[str],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> str:
    """Where in a flat image each element of each patch lies, a vector of INT64: first by element, then by patch.

    `blocks` are the sizes of a patch, `counts` the numbers of patches and `sizes` those of the image, vectors of one.
    """
    op = context.op
    rank, total = len(blocks), ""
    for axis in range(rank):
        inside = _line(context, blocks[axis], dilations[axis], axis, 2 * rank)
        start = _line(context, counts[axis], strides[axis], rank + axis, 2 * rank)
        place = op("Add", inside, start)
        total = op("Add", op("Mul", total, sizes[axis]), place) if total else place
    return op("Reshape", total, context.int64([-1]))


def _added_up(context: Context, data: str, where: str, count: str, axis: int) -> str:
    """Zeros, as many along an axis of a matrix as a vector of one says, to which the data are added at their places."""
    import numpy

    op = context.op
    zero = from_numpy(budget.zeros(1, numpy.int32 if context.is_integer(data) else numpy.float32))
    around = shape.sizes_of(context, data, 1 - axis, 2 - axis)
    dims = shape.joined(context, count, around) if axis == 0 else shape.joined(context, around, count)
    zeros = context.cast(op("ConstantOfShape", dims, value=zero), context.elem_type(data) or FLOAT)
    line = op("Reshape", where, context.int64([1, -1] if axis else [-1, 1]))
    every = op("Expand", line, shape.sizes_of(context, data, 0, 2))
    return op("ScatterElements", zeros, every, data, axis=axis, reduction="add")


def _image_of_any_size(node: Node, context: Context, rank: int) -> list[Node]:
    """Patches of any number of axes, and of sizes that only the run may tell, in the order in which they are added."""
    op = context.op
    data = context.input(0)
    image, block = (context.cast(context.input(place), INT64) for place in (1, 2))
    dilations, strides = (tuple(get_ints(node, name) or (1,) * rank) for name in ("dilations", "strides"))
    pads = tuple(get_ints(node, "pads") or (0,) * 2 * rank)
    begins = context.int64(pads[:rank])
    whole = op("Add", image, context.int64(b + e for b, e in zip(pads[:rank], pads[rank:], strict=True)))
    one = context.int64([1])
    extent = op("Mul", op("Sub", block, one), context.int64(dilations))
    room = op("Sub", op("Sub", whole, extent), one)
    counts = op("Add", op("Div", room, context.int64(strides)), one)
    parts = [
        [op("Gather", sizes, context.int64([axis]), axis=0) for axis in range(rank)] for sizes in (block, counts, whole)
    ]
    where = _places(context, parts[0], parts[1], parts[2], strides, dilations)
    batch, volume = shape.sizes_of(context, data, 0, 1), op("ReduceProd", block, keepdims=1)
    channels = op("Div", shape.sizes_of(context, data, 1, 2), volume)
    images = op("Mul", batch, channels)
    in_each = op("Mul", volume, shape.sizes_of(context, data, 2, 3))
    lines = op("Reshape", data, shape.joined(context, images, in_each), allowzero=1)
    total = _added_up(context, lines, where, op("ReduceProd", whole, keepdims=1), 1)
    padded = op("Reshape", total, shape.joined(context, batch, channels, whole), allowzero=1)
    if not any(pads):
        return context.replace(padded)
    ends = op("Add", begins, image)
    return context.replace(op("Slice", padded, begins, ends, context.int64(range(2, 2 + rank))))


@because("Patches added up where they overlap: a transposed convolution with kernels of a single one")
def col2im(node: Node, context: Context) -> list[Node] | None:
    import numpy

    data = context.input(0)
    image, block, dims = context.scope.ints(context.input(1)), context.scope.ints(context.input(2)), context.dims(data)
    depth = dims[1] if dims else None
    if image is None or block is None or not isinstance(depth, int) or len(block) > 2 or context.exact:
        lists = [len(found) for name in ("strides", "dilations") if (found := get_ints(node, name))]
        lengths = [*lists, *((context.dims(context.input(place)) or (None,))[0] for place in (1, 2))]
        known = next((length for length in lengths if isinstance(length, int)), None)
        if known is None:
            raise Refused("needs the number of axes of its images, which is unknown", "infer the model's shapes first")
        return _image_of_any_size(node, context, known)
    rank, volume = len(block), prod(block)
    channels = depth // volume
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
    context.report(SPREAD)
    kernels = numpy.tile(numpy.eye(volume).reshape(volume, 1, *block), (channels, *(1 for _ in range(rank + 1))))
    batch = shape.sizes_of(context, data, 0, 1)
    rows = shape.joined(context, batch, context.int64([channels * volume, *counts]))
    patches = context.op("Reshape", data, rows, allowzero=1)
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


Col2Im = OperatorSpec("Col2Im", to_rten=ToRten(rewritings=(col2im,)))


def planes_added_up(context: Context, planes: str, sizes: tuple[int, int, int], ends: tuple[int, int, int]) -> str:
    """Volumes of the planes that a kernel makes of each plane of the data, added up where they overlap.

    `planes` are batch, depth, channels, planes of the kernel, rows, columns. `sizes` are the planes, the stride and the
    dilation of the kernel, `ends` the planes that are cut off before and behind, and those that are put behind.
    """
    op = context.op
    (kernel, stride, dilation), (before, behind, more) = sizes, ends
    dims = [shape.sizes_of(context, planes, axis, axis + 1) for axis in range(6)]
    one, depth = context.int64([1]), dims[1]
    steps = op("Mul", op("Sub", depth, one), context.int64([stride]))
    whole = op("Add", steps, context.int64([(kernel - 1) * dilation + 1 + more]))
    where = _places(context, [context.int64([kernel])], [depth], [whole], [stride], [dilation])
    by_plane = op("Transpose", planes, perm=[3, 1, 0, 2, 4, 5])
    count = op("Mul", depth, context.int64([kernel]))
    width = op("ReduceProd", shape.joined(context, dims[0], dims[2], dims[4], dims[5]), keepdims=1)
    rows = op("Reshape", by_plane, shape.joined(context, count, width), allowzero=1)
    total = _added_up(context, rows, where, whole, 0)
    if before or behind:
        bounds = context.int64([before]), context.int64([-behind or INT64_MAX])
        total = op("Slice", total, *bounds, context.int64([0]))
    left = shape.sizes_of(context, total, 0, 1)
    volume = op("Reshape", total, shape.joined(context, left, dims[0], dims[2], dims[4], dims[5]), allowzero=1)
    return op("Transpose", volume, perm=[1, 2, 0, 3, 4])
