"""Windows that move over spatial axes: common parts of convolutions and pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import find, get_ints, get_string
from formats.rten.operators.shared.spec import Field, FieldKind, sizes_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.value_types import Dim, Dims


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
PADDING = (Field("auto_pad", FieldKind.CHOICE, "NOTSET", choices=AUTO_PAD), sizes_field("pads"))
KERNEL = Field("kernel_size", FieldKind.INTS, attribute="kernel_shape", minimum=0, required=True)
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
        found = find(node, name)
        if found is None:
            if value is not None and value != "NOTSET":
                return True
        elif value is None or value != ((found.s or b"").decode() if isinstance(value, str) else tuple(found.ints)):
            return True
    return False


def pool_size(size: int, geometry: Window, axis: int, *, ceil: bool = False) -> int:
    """The number of outputs along one spatial axis of a convolution or pool."""
    stride, extent, rank = geometry.strides[axis], geometry.extent(axis), len(geometry.kernel)
    if geometry.auto_pad.startswith("SAME"):
        return -(-size // stride)
    begin, end = (0, 0) if geometry.auto_pad == "VALID" else (geometry.pads[axis], geometry.pads[axis + rank])
    room = size + begin + end - extent
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
