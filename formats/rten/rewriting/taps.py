"""Pools whose windows have gaps, which RTen lacks: along each axis every element of the window, as a strided slice.

The slices of all elements have the size of the result, so a pool is their maximum or their mean.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from formats.rten.convert.context import INT_MAX, Refused
from formats.rten.graph.attributes import get_int, get_ints
from formats.rten.rewriting.shapes import joined, sizes_of
from formats.rten.rewriting.windows import explicit_pads, rounding_pads
from formats.rten.window_dims import window

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting
    from formats.rten.window_dims import Window

MAX_TAPS = 256  # slices, each a node


def pool(node: Node, context: Context) -> list[Node] | None:
    """The maximum or mean of the elements of each window."""
    data = context.input(0)
    shape = window(node, get_ints(node, "kernel_shape") or ())
    if all(dilation == 1 for dilation in shape.dilations) or context.is_integer(data):
        return None
    if sum(shape.kernel) > MAX_TAPS:
        raise Refused(f"has a window with gaps that would make {sum(shape.kernel)} slices, more than {MAX_TAPS}")
    pads = asked = explicit_pads(context, shape, data)
    if pads is None or asked is None:
        raise Refused("pads by SAME_UPPER for unknown sizes", "fix the sizes of the model's inputs")
    if get_int(node, "ceil_mode"):
        pads = rounding_pads(context, shape, data, pads)
    if node.op_type == "MaxPool":
        padded = _padded(context, data, pads, float("-inf"))
        return context.replace(_taken(context, "Max", padded, shape))
    total = _taken(context, "Sum", _padded(context, data, pads, 0.0), shape)
    if not any(pads):
        return context.replace(context.op("Div", total, context.scalar(prod(shape.kernel), like=data)))
    counted = asked if get_int(node, "count_include_pad") else (0,) * len(pads)
    ones = _padded(context, _ones(context, data), counted, 1.0)
    rest = tuple(pad - done for pad, done in zip(pads, counted, strict=True))
    count = _taken(context, "Sum", _padded(context, ones, rest, 0.0), shape)
    return context.replace(context.op("Div", total, count))


def _padded(context: Context, data: str, pads: tuple[int, ...], value: float) -> str:
    """The data with a value around."""
    if not any(pads):
        return data
    rank = len(pads) // 2
    amounts = context.int64([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    return context.op("Pad", data, amounts, context.scalar(value, like=data))


def _ones(context: Context, data: str) -> str:
    """An image of ones, of the size of the data."""
    size = joined(context, context.int64([1, 1]), sizes_of(context, data, 2, context.known_rank(data)))
    return context.op("Expand", context.scalar(1, like=data), size)


def _taken(context: Context, op_type: str, data: str, shape: Window) -> str:
    """The elements of each window put together, one axis after the other."""
    for axis, (length, dilation, stride) in enumerate(zip(shape.kernel, shape.dilations, shape.strides, strict=True)):
        number, step = context.int64([axis + 2]), context.int64([stride])
        slices = []
        for place in range(length):
            start = place * dilation
            end = start - shape.extent(axis) + 1 or INT_MAX
            slices.append(context.op("Slice", data, context.int64([start]), context.int64([end]), number, step))
        data = context.op(op_type, *slices)
    return data


REWRITINGS: Mapping[str, Rewriting] = {"AveragePool": pool, "MaxPool": pool}
