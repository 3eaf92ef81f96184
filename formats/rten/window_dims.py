"""How dims follow through operators that know spatial axes: convolutions, pools, resizing, and recurrent layers.

The companion of `dims.py`, with the same kind of function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.rten.graph.attributes import get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, Dims, ValueType


class Window(NamedTuple):
    """How a window moves over the spatial axes: one entry an axis, but pads, all begins before all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str

    def extent(self, axis: int) -> int:
        """The number of inputs from the first to the last that one output sees."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def window(node: Node, kernel: Sequence[int]) -> Window:
    """The window of a node, with what its attributes leave out filled in for the rank of `kernel`."""
    rank = len(kernel)
    return Window(
        tuple(kernel),
        tuple(get_ints(node, "strides") or (1,) * rank),
        tuple(get_ints(node, "dilations") or (1,) * rank),
        tuple(get_ints(node, "pads") or (0,) * (2 * rank)),
        get_string(node, "auto_pad", "NOTSET") or "NOTSET",
    )


def pool_size(size: int, shape: Window, axis: int, *, ceil: bool = False) -> int:
    """The number of outputs along one spatial axis of a convolution or pool."""
    stride, extent, rank = shape.strides[axis], shape.extent(axis), len(shape.kernel)
    if shape.auto_pad.startswith("SAME"):
        return -(-size // stride)
    begin, end = (0, 0) if shape.auto_pad == "VALID" else (shape.pads[axis], shape.pads[axis + rank])
    room = size + begin + end - extent
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + begin else count  # no window only in the end padding


def same_pads(size: int, shape: Window, axis: int) -> tuple[int, int]:
    """The pads (begin, end) that `auto_pad` SAME_UPPER or SAME_LOWER stands for."""
    stride = shape.strides[axis]
    total = max(0, (-(-size // stride) - 1) * stride + shape.extent(axis) - size)
    small, large = total // 2, total - total // 2
    return (small, large) if shape.auto_pad == "SAME_UPPER" else (large, small)


def _spatial(size: Dim, shape: Window, axis: int, *, ceil: bool = False) -> Dim:
    if isinstance(size, int):
        return max(0, pool_size(size, shape, axis, ceil=ceil))
    rank = len(shape.kernel)
    if shape.auto_pad == "NOTSET" and shape.strides[axis] == 1:
        total = shape.pads[axis] + shape.pads[axis + rank]
        return size if total == shape.extent(axis) - 1 else None
    return size if shape.auto_pad.startswith("SAME") and shape.strides[axis] == 1 else None


def kernel_of(node: Node, weight: Dims | None) -> tuple[int, ...] | None:
    """The kernel's spatial dims, from the attribute or from the weight; `None` where neither tells."""
    attribute = get_ints(node, "kernel_shape")
    if attribute:
        return tuple(attribute)
    if weight is None or any(not isinstance(dim, int) for dim in weight[2:]):
        return None
    return tuple(dim for dim in weight[2:] if isinstance(dim, int))


def conv(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, output channels, and the positions of the window."""
    dims, weight = types[0].dims, types[1].dims
    kernel = kernel_of(node, weight)
    if kernel is None:
        rank = len(dims or weight or ())
        return [(None,) * rank] if rank else []
    spatial = dims[2:] if dims else (None,) * len(kernel)
    shape = window(node, kernel)
    sizes = [_spatial(size, shape, axis) for axis, size in enumerate(spatial)]
    return [(dims[0] if dims else None, weight[0] if weight else None, *sizes)]


def pool(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, channels, and the positions of the window; the same for the indices of the largest."""
    dims = types[0].dims
    shape = window(node, get_ints(node, "kernel_shape") or ())
    batch, channels, *spatial = dims or (None, None, *(None for _ in shape.kernel))
    ceil = bool(get_int(node, "ceil_mode"))
    sizes = [_spatial(size, shape, axis, ceil=ceil) for axis, size in enumerate(spatial)]
    return [(batch, channels, *sizes)] * len(node.output)


def global_pool(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, channels, and ones."""
    dims = types[0].dims
    return [] if dims is None else [dims[:2] + (1,) * (len(dims) - 2)]


def conv_transpose(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, output channels, and the room that the windows need."""
    dims, weight = types[0].dims, types[1].dims
    kernel = kernel_of(node, weight)
    rank = len(dims or weight or kernel or ())
    if kernel is None or dims is None or weight is None:
        return [(None,) * rank] if rank else []
    shape, padding = window(node, kernel), get_ints(node, "output_padding") or (0,) * len(kernel)
    group, channels = get_int(node, "group", 1), weight[1]
    asked = get_ints(node, "output_shape")
    sizes: list[Dim] = []
    for axis, size in enumerate(dims[2:]):
        if asked:
            sizes.append(asked[axis])
        elif not isinstance(size, int):
            sizes.append(None)
        elif shape.auto_pad.startswith("SAME"):
            sizes.append(size * shape.strides[axis])
        else:
            pads = 0 if shape.auto_pad == "VALID" else shape.pads[axis] + shape.pads[axis + len(kernel)]
            room = shape.strides[axis] * (size - 1) + padding[axis] + shape.extent(axis)
            sizes.append(room - pads)
    return [(dims[0], channels * group if isinstance(channels, int) else None, *sizes)]


def resize(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes asked for, or the dims times the scales, rounded down."""
    dims = types[0].dims
    if dims is None:
        return []
    unknown: list[Dims | None] = [(None,) * len(dims)]
    if get_ints(node, "axes") or get_string(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return unknown
    sizes = scope.contents_of(node.input[3]) if len(node.input) > 3 and node.input[3] else None
    if sizes:
        return [sizes]
    scales = scope.numbers(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if not scales or len(scales) != len(dims):
        return unknown
    return [tuple(_scaled(dim, scale) for dim, scale in zip(dims, scales, strict=True))]


def _scaled(dim: Dim, scale: float) -> Dim:
    if isinstance(dim, int):
        return scaled_size(dim, scale)
    return dim if scale == 1 else None


def scaled_size(size: int, scale: float) -> int:
    """The output size for a scale, computed in the precision that runtimes use for it."""
    import numpy

    return int(numpy.floor(numpy.float32(size) * numpy.float32(scale)))


def depth_to_space(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Channels become blocks of rows and columns."""
    dims, block = types[0].dims, get_int(node, "blocksize", 1)
    if dims is None:
        return [(None,) * 4]
    batch, channels, *spatial = dims
    depth = channels // block**2 if isinstance(channels, int) else None
    return [(batch, depth, *(size * block if isinstance(size, int) else None for size in spatial))]


def recurrent(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Steps, directions, batch and hidden size; the last states without the steps."""
    dims, weight = types[0].dims or (None,) * 3, types[2].dims
    hidden = weight[-1] if weight else get_int(node, "hidden_size") or None
    directions = 2 if get_string(node, "direction", "forward") == "bidirectional" else 1
    if get_int(node, "layout"):
        state: Dims = (dims[0], directions, hidden)
        return [(dims[0], dims[1], directions, hidden), state, state]
    state = (directions, dims[1], hidden)
    return [(dims[0], directions, dims[1], hidden), state, state]


def grid_sample(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch and channels of the input, positions of the grid."""
    dims, grid = types[0].dims, types[1].dims
    if dims is None or grid is None:
        return []
    return [dims[:2] + grid[1:-1]]


def attention(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The query's dims with the values' width; the present keys and values are as long as only running tells."""
    query, _, value = (entry.dims for entry in types[:3])
    if query is None or value is None:
        return []
    if len(query) == 4:
        return [(*query[:3], value[3])]
    heads, value_heads = get_int(node, "q_num_heads"), get_int(node, "kv_num_heads")
    width = value[2] * heads // value_heads if isinstance(value[2], int) and value_heads else None
    return [(query[0], query[1], width)]
