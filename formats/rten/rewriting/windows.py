"""Convolutions and pools: lists written out for the spatial rank, padding that RTen has no word for."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from formats.rten.convert.context import Refused
from formats.rten.convert.value_types import FLOAT, INT32
from formats.rten.graph.attributes import find, get_float, get_int, get_ints
from formats.rten.rewriting.reductions import power_of
from formats.rten.rewriting.shapes import joined, sizes_of
from formats.rten.window_dims import kernel_of, pool_size, same_pads, window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting
    from formats.rten.window_dims import Window


def _window(node: Node, kernel: Sequence[int]) -> Window:
    """The window of a node over one or two axes.

    Raises: Refused for more of them.
    """
    shape = window(node, kernel)
    if not 1 <= len(kernel) <= 2:
        raise Refused(f"has {len(kernel)} spatial axes, where RTen has one or two")
    if len(shape.strides) != len(kernel) or len(shape.dilations) != len(kernel) or len(shape.pads) != 2 * len(kernel):
        raise Refused(f"has strides, dilations or pads that do not fit its kernel of {list(kernel)}")
    return shape


def kernel_shape(node: Node, context: Context) -> tuple[int, ...]:
    """The spatial dims of the weight."""
    kernel = kernel_of(node, context.dims(context.input(1)))
    if kernel is None:
        raise Refused("has a weight of unknown dims", "infer the model's shapes first")
    return kernel


def explicit_pads(context: Context, shape: Window, data: str) -> tuple[int, ...] | None:
    """The pads as numbers, or `None` where they are SAME_UPPER, which RTen has, for sizes that are unknown.

    Raises: Refused for SAME_LOWER of unknown sizes.
    """
    rank = len(shape.kernel)
    if shape.auto_pad == "NOTSET":
        return shape.pads
    if shape.auto_pad == "VALID":
        return (0,) * (2 * rank)
    dims = context.dims(data)
    pairs = []
    for axis in range(rank):
        size = dims[2 + axis] if dims is not None else None
        if shape.strides[axis] == 1:
            size = shape.extent(axis)  # the pads are the same for every size
        if not isinstance(size, int):
            if shape.auto_pad == "SAME_UPPER":
                return None
            raise Refused("pads by SAME_LOWER for unknown sizes", "fix the sizes of the model's inputs")
        pairs.append(same_pads(size, shape, axis))
    return (*(begin for begin, _ in pairs), *(end for _, end in pairs))


def _lists(shape: Window, pads: tuple[int, ...] | None) -> dict[str, Any]:
    """The attributes of a window, nothing left out."""
    padding = {"auto_pad": "SAME_UPPER", "pads": None} if pads is None else {"auto_pad": "NOTSET", "pads": pads}
    return {"kernel_shape": shape.kernel, "strides": shape.strides, **padding}


def _differs(node: Node, attributes: dict[str, Any]) -> bool:
    """Whether the node has other attributes, or leaves some out; `auto_pad` may be left out where it is NOTSET."""
    for name, value in attributes.items():
        found = find(node, name)
        if found is None:
            if value is not None and value != "NOTSET":
                return True
        elif value is None or value != ((found.s or b"").decode() if isinstance(value, str) else tuple(found.ints)):
            return True
    return False


def conv(node: Node, context: Context) -> list[Node] | None:
    """RTen's defaults are for two axes, so every list is written."""
    shape = _window(node, kernel_shape(node, context))
    pads = explicit_pads(context, shape, context.input(0))
    attributes = {**_lists(shape, pads), "dilations": shape.dilations}
    return context.changed(**attributes) if _differs(node, attributes) else None


def conv_integer(node: Node, context: Context) -> list[Node] | None:
    """RTen 0.25.0 does not pad with the zero point, so the data are padded before."""
    if changed := conv(node, context):
        return changed
    data, zero, pads = context.input(0), context.optional(2), get_ints(node, "pads") or ()
    if find(node, "pads") is None:
        raise Refused("pads by SAME_UPPER for unknown sizes", "fix the sizes of the model's inputs")
    if not any(pads):
        return None
    rank = len(pads) // 2
    amounts = context.int64([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    padded = context.op("Pad", data, amounts, zero or context.scalar(0, like=data))
    return context.changed([padded, *node.input[1:]], pads=[0] * len(pads))


def conv_transpose(node: Node, context: Context) -> list[Node] | None:
    """RTen 0.25.0 ignores dilations, adds a wrong bias to groups, and takes no output shape."""
    data, weight, bias = context.input(0), context.input(1), context.optional(2)
    shape = _window(node, kernel_shape(node, context))
    rank = len(shape.kernel)
    if any(dilation != 1 for dilation in shape.dilations):
        spread = _dilated(context, weight, shape)
        extents = [shape.extent(axis) for axis in range(rank)]
        return context.changed([data, spread, bias], kernel_shape=extents, dilations=[1] * rank)
    if bias and get_int(node, "group", 1) > 1:
        column = context.op("Unsqueeze", bias, context.int64(range(1, rank + 1)))
        return context.replace(context.op("Add", context.copy([data, weight]), column))
    pads, padding = _transposed_pads(node, context, shape, data)
    attributes = _lists(shape, pads) | {"dilations": (1,) * rank, "output_padding": padding}
    if find(node, "output_shape") is None and not _differs(node, attributes):
        return None
    return context.changed(without=("output_shape",), **attributes)


def _transposed_pads(
    node: Node, context: Context, shape: Window, data: str
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The pads of a transposed convolution, `None` for SAME_UPPER, and its output padding."""
    rank = len(shape.kernel)
    padding = tuple(get_ints(node, "output_padding") or (0,) * rank)
    asked = get_ints(node, "output_shape")
    if shape.auto_pad == "NOTSET" and not asked:
        return shape.pads, padding
    if shape.auto_pad == "VALID" and not asked:
        return (0,) * (2 * rank), padding
    begins, ends = [], []
    for axis in range(rank):
        stride, extent = shape.strides[axis], shape.extent(axis)
        if asked:
            size = context.static_dims(data, 2)[axis]
            total = stride * (size - 1) + padding[axis] + extent - asked[-rank + axis]
        else:
            total = padding[axis] + extent - stride  # whatever the size, it is multiplied by the stride
        if total < 0:
            raise Refused("asks for an output larger than its window reaches", "add output_padding")
        small, large = total // 2, total - total // 2
        begins.append(small if shape.auto_pad == "SAME_UPPER" else large)
        ends.append(large if shape.auto_pad == "SAME_UPPER" else small)
    return (*begins, *ends), padding


def _dilated(context: Context, weight: str, shape: Window) -> str:
    """The weight with zeros between its elements."""
    outer = sizes_of(context, weight, 0, 2)
    rank = len(shape.kernel)
    cells = [size for length in shape.kernel for size in (length, 1)]
    split_up = context.op("Reshape", weight, joined(context, outer, context.int64(cells)))
    gaps = [gap for dilation in shape.dilations for gap in (0, dilation - 1)]
    padded = context.op("Pad", split_up, context.int64([0] * (2 + len(cells)) + [0, 0, *gaps]))
    lengths = [length * dilation for length, dilation in zip(shape.kernel, shape.dilations, strict=True)]
    merged = context.op("Reshape", padded, joined(context, outer, context.int64(lengths)))
    ends = context.int64(shape.extent(axis) for axis in range(rank))
    return context.op("Slice", merged, context.int64([0] * rank), ends, context.int64(range(2, 2 + rank)))


def pool(node: Node, context: Context) -> list[Node] | None:
    """RTen's ceil mode makes too many outputs; rounding down with more padding at the end is exact."""
    data = context.input(0)
    if context.is_integer(data):
        pooled = context.copy([context.cast(data, FLOAT)])
        return context.replace(context.cast(pooled, context.elem_type(data) or INT32))
    if context.wanted(1):
        raise Refused("wants the indices of the largest elements, which RTen does not give")
    shape = _window(node, get_ints(node, "kernel_shape") or ())
    pads = explicit_pads(context, shape, data)
    if get_int(node, "ceil_mode"):
        if pads is None or not shape.auto_pad.startswith("SAME"):
            return _pool_rounded_up(node, context, shape, pads or shape.pads)
        return context.changed(without=("ceil_mode",))
    attributes = _lists(shape, pads)
    return context.changed(**attributes) if _differs(node, attributes) else None


def _pool_rounded_up(node: Node, context: Context, shape: Window, pads: tuple[int, ...]) -> list[Node]:
    """The same pool in floor mode, its end padded so that every output of ceil mode has a window."""
    data, rank = context.input(0), len(shape.kernel)
    if get_int(node, "count_include_pad"):  # the padding asked for counts, what is added for rounding does not
        zeros = [0, 0, *pads[:rank], 0, 0, *pads[rank:]]
        more = rounding_pads(context, shape, data, pads)
        data = context.op("Pad", data, context.int64(zeros), context.scalar(0, like=data))
        pads = (*((0,) * rank), *(end - asked for end, asked in zip(more[rank:], pads[rank:], strict=True)))
    else:
        pads = rounding_pads(context, shape, data, pads)
    gone = ("ceil_mode", "count_include_pad", "auto_pad", "dilations", "storage_order")
    return context.changed([data], without=gone, pads=pads)


def rounding_pads(context: Context, shape: Window, data: str, pads: tuple[int, ...]) -> tuple[int, ...]:
    """The pads with which rounding down makes as many outputs as rounding up does without them."""
    rank, ends = len(shape.kernel), []
    for axis, (extent, stride) in enumerate(zip(shape.kernel, shape.strides, strict=True)):
        begin, end = pads[axis], pads[rank + axis]
        if end <= extent - stride:  # then no window lies in the padding only, whatever the size
            ends.append(end + stride - 1)
            continue
        size = context.static_dims(data, 2)[axis]
        count = pool_size(size, shape._replace(pads=pads, auto_pad="NOTSET"), axis, ceil=True)
        ends.append(max(end, (count - 1) * stride + extent - size - begin))
    return (*pads[:rank], *ends)


def lp_pool(node: Node, context: Context) -> list[Node] | None:
    """The mean of powers over a window, padding counted as zeros, times the window's size, and the root of that."""
    data, power = context.input(0), power_of(node)
    shape = _window(node, get_ints(node, "kernel_shape") or ())
    pads = explicit_pads(context, shape, data)
    if pads is not None and get_int(node, "ceil_mode") and not shape.auto_pad.startswith("SAME"):
        pads = rounding_pads(context, shape, data, pads)
    raised = context.op("Mul", data, data) if power == 2 else context.op("Abs", data)
    if power > 2:
        raised = context.op("Pow", raised, context.scalar(power, like=data))
    lists = _lists(shape, pads)
    mean = context.copy([raised], "AveragePool", ("p", "ceil_mode"), count_include_pad=1, **lists)
    total = context.op("Mul", mean, context.scalar(prod(shape.kernel), like=data))
    if power > 2:
        return context.replace(context.op("Pow", total, context.scalar(1 / power, like=data)))
    return context.replace(context.op("Sqrt", total) if power == 2 else total)


def lrn(node: Node, context: Context) -> list[Node] | None:
    """Each element by a power of the mean square of its neighbours in other channels: a pool along the channels."""
    data, size = context.input(0), get_int(node, "size", 1)
    batch, channels = sizes_of(context, data, 0, 1), sizes_of(context, data, 1, 2)
    plane = context.op(
        "Reshape",
        context.op("Mul", data, data),
        joined(context, batch, context.int64([1]), channels, context.int64([-1])),
    )
    before = (size - 1) // 2
    mean = context.op(
        "AveragePool",
        plane,
        kernel_shape=[size, 1],
        pads=[before, 0, size - 1 - before, 0],
        strides=[1, 1],
        count_include_pad=1,
    )
    whole = context.op("Reshape", mean, context.op("Shape", data))
    scaled = context.op("Mul", whole, context.scalar(get_float(node, "alpha", 1e-4), like=data))
    shifted = context.op("Add", scaled, context.scalar(get_float(node, "bias", 1.0), like=data))
    divisor = context.op("Pow", shifted, context.scalar(get_float(node, "beta", 0.75), like=data))
    return context.replace(context.op("Div", data, divisor))


def max_unpool(node: Node, context: Context) -> list[Node] | None:
    """Each element goes where its index in the flat output says, zeros elsewhere."""
    import numpy

    data, indices = context.input(0), context.input(1)
    if context.optional(2):
        target = list(context.static_ints(context.input(2)))
    else:
        shape = window(node, get_ints(node, "kernel_shape") or ())
        rank, dims = len(shape.kernel), context.static_dims(data)
        target = list(dims[:2])
        for axis in range(rank):
            room = (dims[2 + axis] - 1) * shape.strides[axis] + shape.kernel[axis]
            target.append(room - shape.pads[axis] - shape.pads[rank + axis])
    context.check_size(*target)
    zeros = context.array(numpy.zeros(prod(target)), context.elem_type(data) or FLOAT)
    flat = context.int64([-1])
    filled = context.op(
        "ScatterElements",
        zeros,
        context.op("Reshape", indices, flat),
        context.op("Reshape", data, flat),
        axis=0,
    )
    return context.replace(context.op("Reshape", filled, context.int64(target)))


REWRITINGS: Mapping[str, Rewriting] = {
    "AveragePool": pool,
    "Conv": conv,
    "ConvInteger": conv_integer,
    "ConvTranspose": conv_transpose,
    "LRN": lrn,
    "LpPool": lp_pool,
    "MaxPool": pool,
    "MaxUnpool": max_unpool,
}
