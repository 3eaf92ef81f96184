"""Resize: what RTen's kernel has a word for as it is, everything else as interpolation written out.

RTen 0.25.0 computes with the ratio of sizes where ONNX computes with the scale given; the two differ where a size
times its scale is not whole. With fixed sizes, any interpolation is a matrix along each axis: indices to gather where
there is one element in each row, a product otherwise.

Spec: ONNX, Operators.md, Resize.
"""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

from formats.rten.convert.context import BYTES, Refused
from formats.rten.convert.value_types import FLOAT, INT32
from formats.rten.dims import normalize
from formats.rten.graph.attributes import get_float, get_int, get_ints, get_string
from formats.rten.rewriting.interpolation import Axis, Kernel, indices, inside, matrix
from formats.rten.window_dims import scaled_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting
    from formats.rten.convert.value_types import Dim

NATIVE_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
NATIVE_MODES = ("nearest", "linear")
_CHOICES = ("axes", "keep_aspect_ratio_policy")
NATIVE_RANK = 4
NATIVE_AXES = 2  # that may change, counted from the back


def resize(node: Node, context: Context) -> list[Node] | None:
    """The native operator where its kernel computes what ONNX asks for."""
    data = context.input(0)
    if context.is_integer(data):
        if context.elem_type(data) not in BYTES or get_string(node, "mode", "nearest") != "nearest":
            raise Refused(f"resizes {context.describe(data)}, where RTen takes floats", "cast the input to FLOAT")
        widened = context.copy([context.cast(data, FLOAT), *node.input[1:]])
        return context.replace(context.cast(widened, context.elem_type(data) or INT32))
    if get_ints(node, "axes") is not None or get_string(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return _with_all_axes(node, context)
    axes = _axes(node, context)
    if axes is None:
        if not _is_spoken(node):
            raise Refused("has scales or sizes that are known only when the model runs", "make them constant")
        return None
    return None if _is_native(node, context, axes) else _written_out(node, context, axes)


def _is_spoken(node: Node) -> bool:
    """Whether RTen has words for the attributes."""
    return (
        get_string(node, "coordinate_transformation_mode", "half_pixel") in NATIVE_COORDINATES
        and get_string(node, "mode", "nearest") in NATIVE_MODES
        and not get_int(node, "antialias")
    )


def _scales(context: Context) -> str:
    """The scales, or an empty name where they are omitted or empty."""
    name = context.optional(2)
    return "" if not name or context.dims(name) == (0,) else name


def _with_all_axes(node: Node, context: Context) -> list[Node]:
    """The node with scales or sizes for every axis; where a policy chooses these, it uses the scale that it chose."""
    data, scales = context.input(0), _scales(context)
    rank = context.known_rank(data)
    given = get_ints(node, "axes")
    axes = list(range(rank)) if given is None else [normalize(axis, rank) for axis in given]
    roi = context.scope.numbers(context.optional(1)) if context.optional(1) else None
    region, starts, ends = "", [0.0] * rank, [1.0] * rank
    if roi:
        for place, axis in enumerate(axes):
            starts[axis], ends[axis] = roi[place], roi[len(axes) + place]
        region = context.array(starts + ends)
    if scales:
        factors = context.scope.numbers(scales)
        if factors is None:
            raise Refused("has scales that are known only when the model runs", "make them constant")
        spread = dict(zip(axes, factors, strict=True))
        scales = context.array([spread.get(axis, 1.0) for axis in range(rank)])
        return context.changed([data, region, scales], without=_CHOICES)
    wanted, dims = dict(zip(axes, context.static_ints(context.input(3)), strict=True)), context.static_dims(data)
    policy = get_string(node, "keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        sizes = context.int64(wanted.get(axis, dims[axis]) for axis in range(rank))
        return context.changed([data, region, "", sizes], without=_CHOICES)
    ratios = [size / dims[axis] for axis, size in wanted.items()]
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    kept = [
        Axis(size, floor(ratio * size + 0.5), ratio, starts[axis], ends[axis])
        if axis in wanted
        else Axis(size, size, 1)
        for axis, size in enumerate(dims)
    ]
    if not _is_native(node, context, kept):
        return _written_out(node, context, kept)
    return context.changed([data, region, "", context.int64(axis.sizes[1] for axis in kept)], without=_CHOICES)


def _axes(node: Node, context: Context) -> list[Axis] | None:
    """What becomes of each axis, as far as it is known; `None` where not even the rank is, or the scales."""
    dims, scales = context.dims(context.input(0)), _scales(context)
    roi = context.scope.numbers(context.optional(1)) if context.optional(1) else None
    factors = context.scope.numbers(scales) if scales else None
    if scales and factors is None:
        _assume_native(context, "has scales that are known only when the model runs")
        return None
    rank = len(factors) if factors else (context.dims(context.optional(3)) or (None,))[0]
    if not isinstance(rank, int):
        _assume_native(context, "has sizes of unknown number")
        return None
    before = dims or (None,) * rank
    sizes = (context.scope.contents_of(context.optional(3)) if not factors else None) or (None,) * rank
    result = []
    for axis in range(rank):
        scale = factors[axis] if factors else None
        after = _after(before[axis], scale) if scale is not None else sizes[axis]
        start, end = (roi[axis], roi[rank + axis]) if roi else (0.0, 1.0)
        result.append(Axis(before[axis], after, scale, start, end))
    return result


def _after(before: Dim, scale: float) -> Dim:
    if isinstance(before, int):
        return scaled_size(before, scale)
    return before if scale == 1 else None


def _assume_native(context: Context, reason: str) -> None:
    """The native operator is taken to do, unless exactness is asked for."""
    if context.exact:
        raise Refused(reason, "fix the sizes of the model's inputs")


def _is_native(node: Node, context: Context, axes: list[Axis]) -> bool:
    """Whether RTen's kernel computes the same."""
    coordinates = get_string(node, "coordinate_transformation_mode", "half_pixel")
    mode = get_string(node, "mode", "nearest")
    if not _is_spoken(node):
        return False
    resized = [place for place, axis in enumerate(axes) if axis.is_resized]
    certain = [place for place in resized if isinstance(axes[place].before, int) or axes[place].scale is not None]
    if certain and (len(axes) > NATIVE_RANK or min(certain) < len(axes) - NATIVE_AXES):
        return False
    if coordinates == "align_corners":  # needs no scale, but divides by zero for a single output
        return mode == "nearest" or all(axes[place].after != 1 for place in resized)
    for axis in axes:
        if axis.is_resized and axis.is_whole is None:
            _assume_native(context, "has scales that are not whole, for unknown sizes")
    return all(axis.is_whole is not False for axis in axes)


def _written_out(node: Node, context: Context, axes: list[Axis]) -> list[Node]:
    """Each axis in turn gathered from, or multiplied with a matrix."""
    context.static_dims(context.input(0))
    kernel = Kernel(
        get_string(node, "mode", "nearest"),
        get_string(node, "coordinate_transformation_mode", "half_pixel"),
        get_string(node, "nearest_mode", "round_prefer_floor"),
        get_float(node, "cubic_coeff_a", -0.75),
        bool(get_int(node, "exclude_outside")),
        bool(get_int(node, "antialias")),
    )
    if kernel.is_cropping and not context.scope.numbers(context.optional(1)):
        raise Refused("has a region of interest that is known only when the model runs", "make it constant")
    data = context.input(0)
    for place, axis in enumerate(axes):
        if not isinstance(axis.after, int):
            raise Refused("has sizes that are known only when the model runs", "make them constant")
        if axis.is_resized or kernel.is_cropping:
            context.check_size(*axis.sizes)
            data = _along(context, data, place, len(axes), axis, kernel)
    if kernel.is_cropping:
        data = _extrapolated(context, data, axes, get_float(node, "extrapolation_value"))
    return context.replace(data)


def _along(context: Context, data: str, place: int, rank: int, axis: Axis, kernel: Kernel) -> str:
    """One axis resized."""
    if kernel.mode == "nearest":
        return context.op("Gather", data, context.int64(indices(axis, kernel)), axis=place)
    weights = context.array(matrix(axis, kernel), context.elem_type(data) or FLOAT)
    if place == rank - 2:
        return context.op("MatMul", weights, data)
    columns = context.array(matrix(axis, kernel).T, context.elem_type(data) or FLOAT)
    if place == rank - 1:
        return context.op("MatMul", data, columns)
    order = [other for other in range(rank) if other != place] + [place]
    product = context.op("MatMul", context.op("Transpose", data, perm=order), columns)
    return context.op("Transpose", product, perm=[order.index(other) for other in range(rank)])


def _extrapolated(context: Context, data: str, axes: list[Axis], value: float) -> str:
    """The data, and a value where the region of interest reaches beyond them."""
    for place, axis in enumerate(axes):
        seen = inside(axis)
        if not seen.all():
            mask = seen.reshape([-1] + [1] * (len(axes) - place - 1))
            data = context.op("Where", context.array(mask, 9), data, context.scalar(value, like=data))
    return data


REWRITINGS: Mapping[str, Rewriting] = {"Resize": resize}
