"""Windows that move over spatial axes: their geometry, and patches and planes that are added up where they overlap.

Spec: ONNX, Operators.md, Conv, AveragePool, Col2Im and ConvTranspose.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from formats.ir.attributes import attribute_named, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT64
from formats.ir.model import Node
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import Dim, Dims
from formats.rten.operators import shape
from formats.rten.operators.rules import SPREAD
from formats.rten.spec import Field, OperatorSpec, ToRten, because, sizes_field
from formats.rten.types import INT64_MAX


def raised_lists(node: Node, axes: int) -> dict[str, Any]:
    """Strides, and pads unless `auto_pad` is SAME_UPPER; NOTSET is the default.

    They are written even if they are the default: RTen's ONNX loader does not infer the number of axes.
    """
    same = get_string(node, "auto_pad") == "SAME_UPPER"
    return {
        "auto_pad": "SAME_UPPER" if same else None,
        "pads": None if same else get_ints(node, "pads") or (0,) * (2 * axes),
        "strides": get_ints(node, "strides") or (1,) * axes,
    }


def window_raised(node: Node, context: Context) -> list[Node]:
    """Every list is written."""
    return context.changed(**raised_lists(node, len(get_ints(node, "kernel_shape") or ())))


AUTO_PAD = {"NOTSET": "NotSet", "SAME_UPPER": "Same"}
PADDING = (Field("auto_pad", str, "NOTSET", choices=AUTO_PAD), sizes_field("pads"))
KERNEL = Field("kernel_size", list, attribute="kernel_shape", minimum=0, required=True)
PADS_OMITTED = {"pads": (2, 0)}
LISTS_OMITTED = {"strides": (1, 1), "dilations": (1, 1), **PADS_OMITTED, "output_padding": (1, 0)}
VOLUME_AXES = 3


class Window(NamedTuple):
    """How a window moves over the spatial axes: one entry for each axis. `pads` has all begins, then all ends."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str

    def extent(self, axis: int) -> int:
        """The number of inputs from the first to the last that one output uses."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def part_of_window(node: Node, geometry: Window, axes: range, fill: int = 0) -> dict[str, Any]:
    """The attributes of a window over some of the axes, and of one element over `fill` more."""
    rank = len(geometry.kernel)
    ones = [1] * fill
    parts: dict[str, Any] = {
        "kernel_shape": [*(geometry.kernel[axis] for axis in axes), *ones],
        "strides": [*(geometry.strides[axis] for axis in axes), *ones],
    }
    if get_ints(node, "dilations") is not None:
        parts["dilations"] = [*(geometry.dilations[axis] for axis in axes), *ones]
    if get_ints(node, "pads") is not None:
        begins, ends = ([geometry.pads[start + axis] for axis in axes] + [0] * fill for start in (0, rank))
        parts["pads"] = begins + ends
    return parts


def window(node: Node, kernel: Sequence[int]) -> Window:
    """The window of a node, with missing attributes filled in for the rank of `kernel`."""
    rank = len(kernel)
    return Window(
        tuple(kernel),
        tuple(get_ints(node, "strides") or (1,) * rank),
        tuple(get_ints(node, "dilations") or (1,) * rank),
        tuple(get_ints(node, "pads") or (0,) * (2 * rank)),
        get_string(node, "auto_pad", "NOTSET") or "NOTSET",
    )


def flat_window(node: Node, kernel: Sequence[int]) -> Window:
    """The window of a node over one or two axes.

    Raises: Refused for more axes.
    """
    geometry = window(node, kernel)
    if not 1 <= len(kernel) <= 2:
        raise Refused(f"has {len(kernel)} spatial axes, but RTen supports only one or two")
    lengths = {len(kernel), len(geometry.strides), len(geometry.dilations), len(geometry.pads) / 2}
    if len(lengths) > 1:
        raise Refused(f"has strides, dilations or pads that do not match its kernel of {list(kernel)}")
    return geometry


def kernel_of(node: Node, weight: Dims | None) -> tuple[int, ...] | None:
    """The kernel's spatial dims, from the attribute or from the weight; `None` if both are unknown."""
    attribute = get_ints(node, "kernel_shape")
    if attribute:
        return tuple(attribute)
    if weight is None or any(not isinstance(dim, int) for dim in weight[2:]):
        return None
    return tuple(dim for dim in weight[2:] if isinstance(dim, int))


def kernel_shape(node: Node, context: Context) -> tuple[int, ...]:
    """The spatial dims of the weight."""
    kernel = kernel_of(node, context.dims(context.input(1)))
    if kernel is None:
        raise Refused("has a weight of unknown dims", "infer the model's shapes first")
    return kernel


def same_pads(size: int, geometry: Window, axis: int) -> tuple[int, int]:
    """The pads (begin, end) that `auto_pad` SAME_UPPER or SAME_LOWER means."""
    stride = geometry.strides[axis]
    total = max(0, (-(-size // stride) - 1) * stride + geometry.extent(axis) - size)
    small, large = total // 2, total - total // 2
    return (small, large) if geometry.auto_pad == "SAME_UPPER" else (large, small)


def explicit_pads(context: Context, geometry: Window, data: str) -> tuple[int, ...] | None:
    """The pads as numbers; `None` for SAME_UPPER, which RTen has, if sizes are unknown.

    Raises: Refused for SAME_LOWER with unknown sizes.
    """
    rank = len(geometry.kernel)
    if geometry.auto_pad == "NOTSET":
        return geometry.pads
    if geometry.auto_pad == "VALID":
        return (0,) * (2 * rank)
    dims = context.dims(data)
    pairs = []
    for axis in range(rank):
        size = dims[2 + axis] if dims is not None else None
        if geometry.strides[axis] == 1:
            size = geometry.extent(axis)  # the pads are the same for every size
        if not isinstance(size, int):
            if geometry.auto_pad == "SAME_UPPER":
                return None
            raise Refused("pads by SAME_LOWER, but the sizes are unknown", "fix the sizes of the model's inputs")
        pairs.append(same_pads(size, geometry, axis))
    return (*(begin for begin, _ in pairs), *(end for _, end in pairs))


def window_attributes(geometry: Window, pads: tuple[int, ...] | None) -> dict[str, Any]:
    """All attributes of a window."""
    padding = {"auto_pad": "SAME_UPPER", "pads": None} if pads is None else {"auto_pad": "NOTSET", "pads": pads}
    return {"kernel_shape": geometry.kernel, "strides": geometry.strides, **padding}


def differs(node: Node, attributes: dict[str, Any]) -> bool:
    """Whether the attributes of a node differ from these. `auto_pad` may be missing if it is NOTSET."""
    for name, value in attributes.items():
        attribute = attribute_named(node, name)
        if attribute is None:
            if value is not None and value != "NOTSET":
                return True
        elif value is None or value != (
            (attribute.s or b"").decode() if isinstance(value, str) else tuple(attribute.ints)
        ):
            return True
    return False


def pool_size(size: int, geometry: Window, axis: int, *, ceil: bool = False) -> int:
    """The number of outputs along one spatial axis of a convolution or pool."""
    stride, extent, rank = geometry.strides[axis], geometry.extent(axis), len(geometry.kernel)
    if geometry.auto_pad.startswith("SAME"):
        return -(-size // stride)
    begin, end = (0, 0) if geometry.auto_pad == "VALID" else (geometry.pads[axis], geometry.pads[axis + rank])
    room = size + begin + end - extent  # how far the window can move
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + begin else count  # no window is only in the end padding


def rounding_pads(context: Context, geometry: Window, data: str, pads: tuple[int, ...]) -> tuple[int, ...]:
    """The pads with which rounding down gives as many outputs as rounding up without these pads."""
    rank, ends = len(geometry.kernel), []
    for axis, stride in enumerate(geometry.strides):
        begin, end, extent = pads[axis], pads[rank + axis], geometry.extent(axis)
        if end <= extent - stride:  # then no window covers only padding, whatever the size
            ends.append(end + stride - 1)
            continue
        size = context.static_dims(data, 2)[axis]
        count = pool_size(size, geometry._replace(pads=pads, auto_pad="NOTSET"), axis, ceil=True)
        ends.append(max(end, (count - 1) * stride + extent - size - begin))
    return (*pads[:rank], *ends)


def positions_along(size: Dim, geometry: Window, axis: int, *, ceil: bool = False) -> Dim:
    """The number of outputs along one spatial axis, as far as it is known."""
    if isinstance(size, int):
        return max(0, pool_size(size, geometry, axis, ceil=ceil))
    rank = len(geometry.kernel)
    if geometry.auto_pad == "NOTSET" and geometry.strides[axis] == 1:
        total = geometry.pads[axis] + geometry.pads[axis + rank]
        return size if total == geometry.extent(axis) - 1 else None
    return size if geometry.auto_pad.startswith("SAME") and geometry.strides[axis] == 1 else None


def _line(context: Context, count: str, step: int, axis: int, rank: int) -> str:
    """The numbers 0, `step`, ... as many as a vector of one says, along one of the axes of a tensor."""
    op = context.op
    length = op("Squeeze", count, [0])
    numbers = shape.numbers_below(context, length)
    numbers = op("Mul", numbers, step)
    # The axes: 1, ..., count, ..., 1.
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
    for axis in range(rank):  # a patch has the first axes, and the patches the others
        inside = _line(context, blocks[axis], dilations[axis], axis, 2 * rank)
        start = _line(context, counts[axis], strides[axis], rank + axis, 2 * rank)
        place = op("Add", inside, start)
        # Row-major: the last axis counts single elements.
        total = op("Add", op("Mul", total, sizes[axis]), place) if total else place
    return op("Reshape", total, [-1])  # all elements of all patches


def _added_up(context: Context, data: str, where: str, count: str, axis: int) -> str:
    """Zeros, as many along an axis of a matrix as a vector of one says, to which the data are added at their places."""
    import numpy

    op = context.op
    zero = from_numpy(budget.zeros(1, numpy.int32 if context.is_integer(data) else numpy.float32))
    around = shape.sizes_of(context, data, 1 - axis, 2 - axis)
    dims = shape.joined(context, count, around) if axis == 0 else shape.joined(context, around, count)
    zeros = context.cast(op("ConstantOfShape", dims, value=zero), context.elem_type(data) or FLOAT)
    line = op("Reshape", where, context.int64([1, -1] if axis else [-1, 1]))  # a row or a column
    targets = op("Expand", line, shape.sizes_of(context, data, 0, 2))
    return op("ScatterElements", zeros, targets, data, axis=axis, reduction="add")


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
    extent = op("Mul", op("Sub", block, one), context.int64(dilations))  # less one, for each axis
    room = op("Sub", op("Sub", whole, extent), one)
    counts = op("Add", op("Div", room, context.int64(strides)), one)  # of patches along each axis
    # The sizes of patches, their counts, and those of the image: for each axis a vector of one.
    parts = [[op("Gather", sizes, [axis], axis=0) for axis in range(rank)] for sizes in (block, counts, whole)]
    where = _places(context, parts[0], parts[1], parts[2], strides, dilations)
    batch, volume = shape.sizes_of(context, data, 0, 1), op("ReduceProd", block, keepdims=1)
    # The axes of the data: samples, channels * elements of a patch, patches.
    channels = op("Div", shape.sizes_of(context, data, 1, 2), volume)
    images = op("Mul", batch, channels)
    in_each = op("Mul", volume, shape.sizes_of(context, data, 2, 3))
    lines = op("Reshape", data, shape.joined(context, images, in_each), allowzero=1)  # images, elements of all patches
    total = _added_up(context, lines, where, op("ReduceProd", whole, keepdims=1), 1)
    # The axes: samples, channels, then those of the image with its padding.
    padded = op("Reshape", total, shape.joined(context, batch, channels, whole), allowzero=1)
    if not any(pads):
        return context.replace(padded)
    ends = op("Add", begins, image)
    return context.replace(op("Slice", padded, begins, ends, range(2, 2 + rank)))


@because("RTen has no Col2Im, so it becomes ConvTranspose or ScatterElements, which add up patches where they overlap")
def col2im(node: Node, context: Context) -> list[Node] | None:
    import numpy

    data = context.input(0)
    image, block, dims = context.scope.ints(context.input(1)), context.scope.ints(context.input(2)), context.dims(data)
    depth = dims[1] if dims else None
    if image is None or block is None or not isinstance(depth, int) or len(block) > 2 or context.exact:
        lists = [len(numbers) for name in ("strides", "dilations") if (numbers := get_ints(node, name))]
        lengths = [*lists, *((context.dims(context.input(place)) or (None,))[0] for place in (1, 2))]
        rank_of_image = next((length for length in lengths if isinstance(length, int)), None)
        if rank_of_image is None:
            raise Refused("needs the number of axes of its images, which is unknown", "infer the model's shapes first")
        return _image_of_any_size(node, context, rank_of_image)
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
    # A kernel of zeros with a single one puts an element of a patch to its place in the patch.
    # The axes: channels * elements of a patch, 1, then those of a patch.
    kernels = numpy.tile(numpy.eye(volume).reshape(volume, 1, *block), (channels, *(1 for _ in range(rank + 1))))
    batch = shape.sizes_of(context, data, 0, 1)
    rows = shape.joined(context, batch, context.int64([channels * volume, *counts]))
    patches = context.op("Reshape", data, rows, allowzero=1)  # samples, channels * elements of a patch, patches by axis
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
    steps = op("Mul", op("Sub", depth, one), [stride])
    whole = op("Add", steps, [(kernel - 1) * dilation + 1 + more])
    where = _places(context, [context.int64([kernel])], [depth], [whole], [stride], [dilation])
    by_plane = op("Transpose", planes, perm=[3, 1, 0, 2, 4, 5])  # planes of the kernel, depth, then the rest as a row
    count = op("Mul", depth, [kernel])
    width = op("ReduceProd", shape.joined(context, dims[0], dims[2], dims[4], dims[5]), keepdims=1)
    # A matrix: planes of the kernel * depth, the rest.
    rows = op("Reshape", by_plane, shape.joined(context, count, width), allowzero=1)
    total = _added_up(context, rows, where, whole, 0)  # planes of the result, the rest
    if before or behind:
        bounds = context.int64([before]), context.int64([-behind or INT64_MAX])
        total = op("Slice", total, *bounds, [0])
    depth_of_total = shape.sizes_of(context, total, 0, 1)
    volume = op(
        "Reshape", total, shape.joined(context, depth_of_total, dims[0], dims[2], dims[4], dims[5]), allowzero=1
    )
    return op("Transpose", volume, perm=[1, 2, 0, 3, 4])
