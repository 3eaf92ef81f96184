"""Windows over three spatial axes, made of windows over two and one: RTen has no others.

The largest and the mean of a box are those of its planes' largest and means, so pools fall apart by axes. A
convolution is the sum of convolutions of planes, one for each plane of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.rten.convert.context import INT_MAX, Refused
from formats.rten.graph.attributes import get_ints
from formats.rten.rewriting.shapes import joined, sizes_of
from formats.rten.rewriting.windows import explicit_pads, kernel_shape
from formats.rten.window_dims import window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting
    from formats.rten.window_dims import Window

AXES = 3
MAX_PLANES = 64  # of a kernel, each a convolution of its own


def _part(node: Node, shape: Window, axes: range, fill: int = 0) -> dict[str, Any]:
    """The attributes of a window over some of the axes, and of one element over `fill` more."""
    rank = len(shape.kernel)
    ones = [1] * fill
    parts: dict[str, Any] = {
        "kernel_shape": [*(shape.kernel[axis] for axis in axes), *ones],
        "strides": [*(shape.strides[axis] for axis in axes), *ones],
        "dilations": [*(shape.dilations[axis] for axis in axes), *ones],
    }
    if get_ints(node, "pads") is not None:
        begins, ends = ([shape.pads[start + axis] for axis in axes] + [0] * fill for start in (0, rank))
        parts["pads"] = begins + ends
    return parts


def pool(node: Node, context: Context) -> list[Node] | None:
    """Planes first, then across them."""
    data = context.input(0)
    shape = window(node, get_ints(node, "kernel_shape") or ())
    if len(shape.kernel) != AXES:
        return None
    batch, plane = sizes_of(context, data, 0, 1), sizes_of(context, data, 3, 5)
    stack = sizes_of(context, data, 1, 3)
    anything = context.int64([-1])
    flat = context.op("Reshape", data, joined(context, batch, anything, plane))
    planes = context.copy([flat], **_part(node, shape, range(1, AXES)))
    lines = context.op("Reshape", planes, joined(context, batch, stack, anything))
    result = context.copy([lines], **_part(node, shape, range(1), fill=1))
    target = joined(context, sizes_of(context, result, 0, 3), sizes_of(context, planes, 2, 4))
    return context.replace(context.op("Reshape", result, target))


def conv(node: Node, context: Context) -> list[Node] | None:
    """The sum over the planes of the kernel, each applied to every plane of the data that it meets."""
    data, weight, bias = context.input(0), context.input(1), context.optional(2)
    kernel = kernel_shape(node, context)
    if len(kernel) != AXES:
        return None
    if kernel[0] > MAX_PLANES:
        raise Refused(f"has a kernel of {kernel[0]} planes, more than {MAX_PLANES}")
    shape = window(node, kernel)
    pads = explicit_pads(context, shape, data)
    if pads is None:
        raise Refused("pads by SAME_UPPER for unknown sizes", "fix the sizes of the model's inputs")
    if pads[0] or pads[AXES]:
        data = context.op("Pad", data, context.int64([0, 0, pads[0], 0, 0, 0, 0, pads[AXES], 0, 0]))
    planes = context.op("Transpose", data, perm=[0, 2, 1, 3, 4])  # batch, depth, channels, rows, columns
    attributes = _part(node, shape._replace(pads=pads), range(1, AXES))
    attributes |= {"pads": [*pads[1:AXES], *pads[AXES + 1 :]], "auto_pad": None}
    last, total, met = shape.extent(0) - 1, "", ""
    for place in range(kernel[0]):
        start = place * shape.dilations[0]
        end = start - last or INT_MAX
        bounds = (context.int64([number]) for number in (start, end, 1, shape.strides[0]))
        met = context.op("Slice", planes, *bounds)
        flat = context.op("Reshape", met, joined(context, context.int64([-1]), sizes_of(context, met, 2, 5)))
        slab = context.op("Gather", weight, context.int64_scalar(place), axis=2)
        inputs = [flat, slab, bias] if bias and not total else [flat, slab]
        product = context.copy(inputs, **attributes)
        total = context.op("Add", total, product) if total else product
    target = joined(context, sizes_of(context, met, 0, 2), sizes_of(context, total, 1, 4))
    stacked = context.op("Reshape", total, target)
    return context.replace(context.op("Transpose", stacked, perm=[0, 2, 1, 3, 4]))


REWRITINGS: Mapping[str, Rewriting] = {"AveragePool": pool, "Conv": conv, "MaxPool": pool}
