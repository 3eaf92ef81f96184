"""Interpolation along one axis as numbers: the input elements that make each output, and their weights.

Spec: ONNX, Operators.md, Resize; coordinates are computed in float32, as runtimes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.rten.convert import budget

if TYPE_CHECKING:
    import numpy as np

    from formats.rten.convert.value_types import Dim

    Array = np.ndarray[Any, Any]


HALF, ABOUT = 0.5, 1e-6  # onnxruntime takes what is about a half for a half


class Axis(NamedTuple):
    """One axis: its sizes before and after, the scale if one is given, and the region of interest (fractions)."""

    before: Dim
    after: Dim
    scale: float | None
    start: float = 0.0
    end: float = 1.0

    @property
    def is_resized(self) -> bool:
        """Whether the axis changes, as far as is known. A scale moves elements even if their number stays the same."""
        if self.scale is not None:
            return self.scale != 1
        return self.before is None or self.before != self.after

    @property
    def is_whole(self) -> bool | None:
        """Whether the size times the scale is whole, so that the ratio of sizes is the scale; `None` if unknown."""
        import numpy

        if self.scale is None or self.scale == int(self.scale):
            return True
        if not isinstance(self.before, int):
            return None
        return bool(numpy.float32(self.before) * numpy.float32(self.scale) == self.after)

    @property
    def sizes(self) -> tuple[int, int]:
        """Both sizes, which must be known."""
        assert isinstance(self.before, int)
        assert isinstance(self.after, int)
        return self.before, self.after


class Kernel(NamedTuple):
    """How elements are chosen and weighed: the attributes of the operator."""

    mode: str
    coordinates: str
    rounding: str
    cubic_a: float
    exclude_outside: bool
    antialias: bool

    @property
    def is_cropping(self) -> bool:
        """Whether coordinates lie in the region of interest."""
        return self.coordinates == "tf_crop_and_resize"


def positions(axis: Axis, coordinates: str) -> Array:
    """The coordinate in the input of each output."""
    import numpy

    before, after = axis.sizes
    scale = numpy.float32(after / before if axis.scale is None else axis.scale)
    places = budget.arange(after, dtype=numpy.float32)
    half = numpy.float32(0.5)
    if coordinates == "asymmetric":
        return places / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (places + half) / scale
    if coordinates == "align_corners":
        return places * numpy.float32(before - 1) / numpy.float32(max(after - 1, 1))
    if coordinates == "pytorch_half_pixel" and after == 1:
        return budget.zeros(1, numpy.float32)
    if coordinates == "half_pixel_symmetric":
        adjustment = numpy.float32(after) / (scale * numpy.float32(before))
        offset = numpy.float32(before / 2) * (1 - adjustment)
        return offset + (places + half) / scale - half
    if coordinates == "tf_crop_and_resize":
        start, end, last = numpy.float32(axis.start), numpy.float32(axis.end), numpy.float32(before - 1)
        if after == 1:
            return budget.full(1, half * (start + end) * last, numpy.float32)
        return start * last + places * ((end - start) * last / numpy.float32(after - 1))
    return (places + half) / scale - half


def inside(axis: Axis) -> Array:
    """For each output, whether its place in the region of interest is in the input."""
    before, _ = axis.sizes
    found = positions(axis, "tf_crop_and_resize")
    return (found >= 0) & (found <= before - 1)


def indices(axis: Axis, kernel: Kernel) -> list[int]:
    """For each output the nearest element of the input."""
    import numpy

    before, _ = axis.sizes
    found = positions(axis, kernel.coordinates)
    below = numpy.floor(found)
    if kernel.rounding == "floor":
        found = below
    elif kernel.rounding == "ceil":
        found = numpy.ceil(found)
    else:
        is_ceil = kernel.rounding == "round_prefer_ceil"
        found = below + (found - below >= HALF - ABOUT if is_ceil else found - below > HALF + ABOUT)
    return [int(place) for place in numpy.clip(found, 0, before - 1)]


def weight_matrix(axis: Axis, kernel: Kernel) -> Array:
    """The weights of all elements of the input (columns) in each output (rows)."""
    import numpy

    before, after = axis.sizes
    result = budget.zeros((after, before))
    scale = after / before if axis.scale is None else axis.scale
    shrink = min(scale, 1.0) if kernel.antialias else 1.0
    reach = 1 if kernel.mode == "linear" else 2
    budget.steps(after)
    for row, position in enumerate(positions(axis, kernel.coordinates)):
        if kernel.mode == "linear" and not kernel.antialias:
            position = min(max(position, 0), before - 1)  # outside, the border element is repeated
        first = int(numpy.floor(position - reach / shrink)) + 1
        columns = first + budget.arange(int(numpy.ceil(position + reach / shrink)) + 1 - first)
        distance = numpy.abs(columns - float(position)) * shrink
        weights = _linear(distance) if kernel.mode == "linear" else _cubic(distance, kernel.cubic_a)
        if kernel.exclude_outside:
            weights = numpy.where((columns >= 0) & (columns < before), weights, 0)
        if kernel.exclude_outside or kernel.antialias:
            weights = weights / weights.sum()
        numpy.add.at(result[row], numpy.clip(columns, 0, before - 1), weights)
    return result


def _linear(distance: Array) -> Array:
    import numpy

    return numpy.asarray(numpy.maximum(1 - distance, 0))


def _cubic(distance: Array, a: float) -> Array:
    """Spec: Keys, Cubic convolution interpolation for digital image processing, 1981."""
    import numpy

    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return numpy.asarray(numpy.where(distance <= 1, near, numpy.where(distance < 2, far, 0)))
