"""Rewritings of Resize and Upsample, whose places, scales, sizes and regions changed in almost every version.

Spec: ONNX docs, Changelog.md, Upsample-1 to 10 and Resize-10 to 19.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from formats.editing.versions.node_forms import NoFormError
from formats.editing.versions.rewritings import constant_of, from_start
from formats.ir import dtypes

if TYPE_CHECKING:
    from formats.editing.versions.node_forms import LoneNode, NodeForm

PLACES: Final = "before version 11, ONNX does not say which places of its input it reads"


def upsample_scales_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 scales the last two axes of four."""
    scales = [1.0, 1.0, old.value("height_scale"), old.value("width_scale")]
    mode = "linear" if old.value("mode") == "bilinear" else old.value("mode")
    new.keep(drop=["height_scale", "width_scale"], scales=scales, mode=mode)


def upsample_scales_down(old: LoneNode, new: NodeForm) -> None:
    """See `upsample_scales_up`."""
    scales = old.value("scales", [])
    if len(scales) != 4 or scales[:2] != [1, 1]:
        raise NoFormError("version 1 scales only the last two axes of four")
    mode = "bilinear" if old.value("mode") == "linear" else old.value("mode")
    new.keep(drop=["scales"], height_scale=scales[2], width_scale=scales[3], mode=mode)


def upsample_up(old: LoneNode, new: NodeForm) -> None:
    """Resize 10 is an Upsample that may also make smaller."""
    new.keep(op_type="Resize")


def resize_places_up(old: LoneNode, new: NodeForm) -> None:
    """Before version 11, places are divided by the scale; between two of them, which one counts is not defined."""
    mode = old.value("mode", "nearest")
    if mode == "nearest":
        _check_nearest(old.constant(old.input(1)))
    region = new.constant([], dtypes.FLOAT, "region")
    nearest_mode = "floor" if mode == "nearest" else None
    new.keep(
        inputs=[old.input(0), region, old.input(1)],
        coordinate_transformation_mode="asymmetric",
        nearest_mode=nearest_mode,
    )


def _check_nearest(scales: Any) -> None:
    """Whether the nearest place is the same by any rule: when making larger, and when places are whole numbers."""
    if scales is None:
        raise NoFormError(f"{PLACES}, and its scales are no constant")
    for scale in scales.ravel().tolist():
        if not scale > 0 or (scale < 1 and not (1 / scale).is_integer()):
            raise NoFormError(f"{PLACES} for a scale of {scale:g}")


def resize_places_down(old: LoneNode, new: NodeForm) -> None:
    """See `resize_places_up`."""
    mode, how = old.value("mode", "nearest"), old.value("coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear") or how != "asymmetric":
        raise NoFormError(f"{PLACES}, and here it is {mode} with {how}")
    if mode == "nearest" and (rule := old.value("nearest_mode", "round_prefer_floor")) != "floor":
        raise NoFormError(f"{PLACES}, and here it is nearest with {rule}")
    scales = old.input(2)
    values = old.constant(scales)
    if old.input(3):
        scales = _scales_for_sizes(old, new)
        values = new.constants[scales].numpy()
    if mode == "nearest":
        _check_nearest(values)
    gone = ("coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value")
    new.keep(inputs=[old.input(0), scales], drop=gone)


def _scales_for_sizes(old: LoneNode, new: NodeForm) -> str:
    """A constant with the scales that give the sizes of a Resize. Raises: NoFormError if there are none."""
    sizes, dims = constant_of(old, 3, "sizes"), old.dims(old.input(0))
    if dims is None or any(not dim for dim in dims):
        raise NoFormError("before version 11, it has scales instead of sizes, and the dims of its data are not known")
    known_dims = [dim or 1 for dim in dims]
    ratios = [size / dim for size, dim in zip(sizes, known_dims, strict=True)]
    scales = new.constant(ratios, dtypes.FLOAT, "scales")
    rounded = new.constants[scales].numpy()  # to float32: a scale may be too small for its size
    if any(math.floor(dim * float(scale)) != size for dim, scale, size in zip(known_dims, rounded, sizes, strict=True)):
        raise NoFormError("before version 11, it has scales instead of sizes, and no scale gives these")
    return scales


def resize_region_up(old: LoneNode, new: NodeForm) -> None:
    """Version 13 has no `tf_half_pixel_for_nn`: the lower of two places is half a pixel away, rounded up."""
    if old.value("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        new.keep(inputs=[_unless_empty(old, index) for index in range(4)])
        return
    if old.value("mode", "nearest") != "nearest" or old.value("nearest_mode") != "floor":
        raise NoFormError("version 13 has no tf_half_pixel_for_nn, but for the nearest place below (`floor`)")
    new.keep(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")


def _unless_empty(old: LoneNode, index: int) -> str:
    """An input, or none if it is a constant without elements."""
    value = old.constant(old.input(index))
    return "" if value is not None and not value.size else old.input(index)


def resize_region_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 13, a region and scales that are not used are empty tensors."""
    inputs = [old.input(0), old.input(1), old.input(2), old.input(3)]
    if not all(inputs[1:3]):
        nothing = new.constant([], dtypes.FLOAT, "nothing")
        inputs[1:3] = [name or nothing for name in inputs[1:3]]
    new.keep(inputs=inputs)


def resize_axes_down(old: LoneNode, new: NodeForm) -> None:
    """Scales, sizes and a region of all axes, for those of some."""
    axes = old.value("axes")
    if axes is None:
        new.keep()
        return
    data, region, scales, sizes = (old.input(index) for index in range(4))
    rank = old.rank(data, "before version 18, it has scales or sizes for all axes")
    places = new.integers(from_start(axes, rank), "axes")
    if scales:
        ones = new.constant([1] * rank, dtypes.FLOAT, "ones")
        scales = new.add("ScatterElements", [ones, places, scales], "scales", like=scales)
    if sizes:
        new.add("Shape", [data], "dims")
        sizes = new.add("ScatterElements", ["dims", places, sizes], "sizes", like=sizes)
    if region:
        starts = from_start(axes, rank)
        ends = new.integers([*starts, *(axis + rank for axis in starts)], "ends")
        row = old.elem_type(region)
        whole = new.constant([0] * rank + [1] * rank, dtypes.FLOAT if row is None else row.number, "whole")
        region = new.add("ScatterElements", [whole, ends, region], "region", like=region)
    new.keep(inputs=[data, region, scales, sizes], drop=["axes"])
