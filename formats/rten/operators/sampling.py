"""Interpolation along one axis: as numbers where its sizes are known, and as nodes where only the run can tell them.

Spec: ONNX, Operators.md, Resize; coordinates are computed in float32, as runtimes do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from formats.ir.attributes import get_float, get_int, get_string
from formats.ir.dtypes import BOOL, FLOAT, INT32
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.value_types import Dim
from formats.rten.operators.rules import SPREAD
from formats.rten.spec import Deviation
from formats.tensordata.plan import RARE

Array = np.ndarray[Any, Any]

HALF, ABOUT = 0.5, 1e-6  # onnxruntime takes what is about a half for a half


# The lengths of an axis in the comments below: I elements of the input, O of the output.


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
        if self.scale is None or self.scale == int(self.scale):
            return True
        if not isinstance(self.before, int):
            return None
        return bool(np.float32(self.before) * np.float32(self.scale) == self.after)

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


@budget.without_warnings
def positions(axis: Axis, coordinates: str) -> Array:
    """The coordinate in the input of each output."""
    before, after = axis.sizes
    scale = np.float32(after / before if axis.scale is None else axis.scale)
    places = budget.arange(after, dtype=np.float32)
    half = np.float32(0.5)
    if coordinates == "asymmetric":
        return places / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (places + half) / scale
    if coordinates == "align_corners":
        return places * np.float32(before - 1) / np.float32(max(after - 1, 1))  # the first and last elements meet
    if coordinates == "pytorch_half_pixel" and after == 1:
        return budget.zeros(1, np.float32)
    if coordinates == "half_pixel_symmetric":
        adjustment = np.float32(after) / (scale * np.float32(before))
        offset = np.float32(before / 2) * (1 - adjustment)  # both middles meet
        return offset + (places + half) / scale - half
    if coordinates == "tf_crop_and_resize":
        start, end, last = np.float32(axis.start), np.float32(axis.end), np.float32(before - 1)
        if after == 1:
            return budget.full(1, half * (start + end) * last, np.float32)  # the middle of the region
        return start * last + places * ((end - start) * last / np.float32(after - 1))
    return (places + half) / scale - half


def inside(axis: Axis) -> Array:
    """For each output, whether its place in the region of interest is in the input."""
    before, _ = axis.sizes
    coordinates = positions(axis, "tf_crop_and_resize")
    return (coordinates >= 0) & (coordinates <= before - 1)


def nearest_indices(axis: Axis, kernel: Kernel) -> list[int]:
    """For each output the nearest element of the input."""
    before, _ = axis.sizes
    coordinates = positions(axis, kernel.coordinates)
    below = np.floor(coordinates)
    if kernel.rounding == "floor":
        coordinates = below
    elif kernel.rounding == "ceil":
        coordinates = np.ceil(coordinates)
    else:
        is_ceil = kernel.rounding == "round_prefer_ceil"
        coordinates = below + (coordinates - below >= HALF - ABOUT if is_ceil else coordinates - below > HALF + ABOUT)
    return [int(place) for place in np.clip(coordinates, 0, before - 1)]


def weight_matrix(axis: Axis, kernel: Kernel) -> Array:
    """The weights of all elements of the input (columns) in each output (rows)."""
    before, after = axis.sizes
    result = budget.zeros((after, before))  # O, I
    scale = after / before if axis.scale is None else axis.scale
    shrink = min(scale, 1.0) if kernel.antialias else 1.0
    reach = 1 if kernel.mode == "linear" else 2
    budget.steps(after)  # a row of the matrix each
    for row, position in enumerate(positions(axis, kernel.coordinates)):
        if kernel.mode == "linear" and not kernel.antialias:
            position = min(max(position, 0), before - 1)  # outside, the border element is repeated
        first = int(np.floor(position - reach / shrink)) + 1
        # The elements within the reach of the kernel.
        columns = first + budget.arange(int(np.ceil(position + reach / shrink)) + 1 - first)
        distance = np.abs(columns - float(position)) * shrink
        weights = _linear(distance) if kernel.mode == "linear" else _cubic(distance, kernel.cubic_a)
        if kernel.exclude_outside:
            weights = np.where((columns >= 0) & (columns < before), weights, 0)
        if kernel.exclude_outside or kernel.antialias:
            weights = weights / weights.sum()
        np.add.at(result[row], np.clip(columns, 0, before - 1), weights)
    return result


def _linear(distance: Array) -> Array:
    return np.asarray(np.maximum(1 - distance, 0))


def _cubic(distance: Array, a: float) -> Array:
    """Spec: Keys, Cubic convolution interpolation for digital image processing, 1981."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.asarray(np.where(distance <= 1, near, np.where(distance < 2, far, 0)))


class Line(NamedTuple):
    """One axis: its sizes before and after, the scale, and the region of interest. All are scalars, FLOAT."""

    before: str
    after: str
    scale: str
    start: str = ""
    end: str = ""


def divided(context: Context, value: str, divisor: str) -> str:
    """A scalar or vector divided by a scalar. RTen uses the reciprocal of a single number, so there are two."""
    both = context.op("Div", value, context.op("Expand", divisor, [2, 1]))
    return context.op("Gather", both, 0, axis=0)


def ratio_of(context: Context, number: str, divisor: str) -> str:
    """The quotient of two scalars."""
    return context.op("Reshape", divided(context, number, divisor), [])


class Sampler:
    """Makes the nodes that resize a value along one axis."""

    def __init__(self, context: Context, kernel: Kernel, line: Line, is_kept: str = "") -> None:
        """`is_kept` is a truth value of the run: elements stay where they are, whatever the scale."""
        self.context = context
        self._op = context.op
        self.kernel = kernel
        self.line = line
        self.is_kept = is_kept
        self.zero, self.half, self.one = (context.scalar(number) for number in (0.0, 0.5, 1.0))
        self.last = self._op("Sub", line.before, self.one)
        self.places = context.op("Range", self.zero, line.after, self.one)  # O

    def _times(self, first: str, *others: str) -> str:
        for other in others:
            first = self._op("Mul", first, other)
        return first

    def positions(self) -> str:
        """The coordinate in the input of each output."""
        moved = self._moved()
        return self._op("Where", self.is_kept, self.places, moved) if self.is_kept else moved

    def _moved(self) -> str:
        coordinates, line = self.kernel.coordinates, self.line
        if coordinates == "asymmetric":
            return divided(self.context, self.places, line.scale)
        steps = self._op("Max", self._op("Sub", line.after, self.one), self.one)
        if coordinates == "align_corners":
            return divided(self.context, self._times(self.places, self.last), steps)
        if coordinates == "tf_crop_and_resize":
            width = self._times(self._op("Sub", line.end, line.start), self.last)
            first = self._times(line.start, self.last)
            step = ratio_of(self.context, width, steps)
            middle = self._times(self.half, self._op("Add", line.start, line.end), self.last)
            first = self._op("Where", self._is_one(), middle, first)
            return self._op("Add", first, self._times(self.places, step))
        middles = divided(self.context, self._op("Add", self.places, self.half), line.scale)
        if coordinates == "tf_half_pixel_for_nn":
            return middles
        if coordinates == "half_pixel_symmetric":
            ratio = ratio_of(self.context, line.after, self._times(line.scale, line.before))
            centre = self._op("Div", line.before, 2.0)
            offset = self._times(centre, self._op("Sub", self.one, ratio))
            middles = self._op("Add", offset, middles)
        coordinate = self._op("Sub", middles, self.half)
        if coordinates == "pytorch_half_pixel":
            return self._op("Where", self._is_one(), self.zero, coordinate)
        return coordinate

    def _is_one(self) -> str:
        return self._op("Equal", self.line.after, self.one)

    def _inside(self, places: str) -> str:
        return self._op("Min", self._op("Max", places, self.zero), self.last)

    def _gathered(self, data: str, place: int, indices: str) -> str:
        indices = self.context.cast(self._inside(indices), INT32)
        return self.context.op("Gather", data, indices, axis=place)

    def along(self, data: str, place: int, rank: int) -> str:
        """The data with an axis resized."""
        if self.kernel.mode == "nearest":
            return self._gathered(data, place, self._nearest())
        self.context.report(SPREAD)
        if self.kernel.antialias:
            return self._spread(data, place, rank)
        column = self.context.int64([-1] + [1] * (rank - place - 1))  # O, 1, ..., to meet the axis of the data
        total = ""
        for nearest, weights in self._linear() if self.kernel.mode == "linear" else self._cubic():
            share = self.context.op("Reshape", weights, column) if place < rank - 1 else weights
            share = self.context.cast(share, self.context.elem_type(data) or FLOAT)
            part = self._times(self._gathered(data, place, nearest), share)
            total = self._op("Add", total, part) if total else part
        return total

    def _nearest(self) -> str:
        tell_centre(self.context, self.kernel)
        places, rounding = self.positions(), self.kernel.rounding
        if rounding == "floor":
            return self._op("Floor", places)
        if rounding == "ceil":
            return self._op("Ceil", places)
        if rounding == "round_prefer_ceil":
            return self._rounded(places, "GreaterOrEqual", HALF - ABOUT)
        return self._rounded(places, "Greater", HALF + ABOUT)

    def _rounded(self, places: str, operator: str, limit: float) -> str:
        """Places rounded up from a limit between two numbers on."""
        below = self._op("Floor", places)  # the element before the place
        is_up = self._op(operator, self._op("Sub", places, below), limit)
        return self._op("Add", below, self.context.cast(is_up, FLOAT))

    def _linear(self) -> list[tuple[str, str]]:
        """The indices on both sides, and the weight of each."""
        places = self._inside(self.positions())  # outside, the border element is repeated
        low = self._op("Floor", places)
        share = self._op("Sub", places, low)
        return [(low, self._op("Sub", self.one, share)), (self._op("Add", low, self.one), share)]

    def _cubic(self) -> list[tuple[str, str]]:
        places = self.positions()
        low = self._op("Floor", places)
        parts = []
        for step in (-1, 0, 1, 2):  # two elements on both sides of the place
            place = self._op("Add", low, float(step))
            parts.append((place, self._weight(self._op("Abs", self._op("Sub", places, place)))))
        if not self.kernel.exclude_outside:
            return parts
        parts = [(place, self._op("Where", self._is_inside(place), part, self.zero)) for place, part in parts]
        total = parts[0][1]
        for _, part in parts[1:]:
            total = self._op("Add", total, part)
        return [(place, self._op("Div", part, total)) for place, part in parts]

    def _is_inside(self, places: str) -> str:
        is_behind = self._op("GreaterOrEqual", places, self.zero)
        return self._op("And", is_behind, self._op("LessOrEqual", places, self.last))

    def _polynomial(self, distance: str, *factors: float) -> str:
        """The sum of powers of a distance, the highest first."""
        result = self.context.scalar(factors[0])
        for factor in factors[1:]:
            result = self._op("Add", self._times(result, distance), float(factor))
        return result

    def _weight(self, distance: str) -> str:
        """The weight of an element at a given distance.

        Spec: Keys, Cubic convolution interpolation for digital image processing, 1981.
        """
        if self.kernel.mode == "linear":
            return self._op("Max", self._op("Sub", self.one, distance), self.zero)
        a = self.kernel.cubic_a
        near = self._polynomial(distance, a + 2, -(a + 3), 0, 1)
        far = self._polynomial(distance, a, -5 * a, 8 * a, -4 * a)
        far = self._op("Where", self._op("Less", distance, 2.0), far, self.zero)
        return self._op("Where", self._op("LessOrEqual", distance, self.one), near, far)

    def _spread(self, data: str, place: int, rank: int) -> str:
        """Each output, computed by a matrix from all elements near it. Outside, the border element is repeated."""
        context = self.context
        shrink = self._op("Min", self.line.scale, self.one)  # when it shrinks, the kernel is as much wider
        reach = self.context.scalar(1.0 if self.kernel.mode == "linear" else 2.0)
        outside = self._op("Ceil", self._op("Div", reach, shrink))
        both = self._op("Add", self._op("Add", outside, outside), 2.0)
        columns = context.op("Range", self.zero, self._op("Add", self.line.before, both), self.one)
        columns = self._op("Sub", columns, self._op("Add", outside, self.one))
        data = self._gathered(data, place, columns)
        # A matrix of weights: a row for each output, a column for each element near any of them.
        rows = context.op("Unsqueeze", self.positions(), [1])  # O, 1
        distance = self._times(self._op("Abs", self._op("Sub", columns, rows)), shrink)  # O, columns
        weights = self._weight(distance)
        if self.kernel.exclude_outside:
            weights = self._op("Where", self._is_inside(columns), weights, self.zero)
        total = context.op("ReduceSum", weights, [1], keepdims=1)  # O, 1
        weights = self._op("Div", weights, total)
        if place != rank - 2:
            weights = context.op("Transpose", weights, perm=[1, 0])
        return multiplied(context, data, context.cast(weights, context.elem_type(data) or FLOAT), place, rank)

    def extrapolated(self, data: str, place: int, rank: int, value: float) -> str:
        """The data, and a value where the region of interest reaches beyond them."""
        mask = self._is_inside(self.positions())
        if place < rank - 1:
            mask = self.context.op("Reshape", mask, [-1] + [1] * (rank - place - 1))
        return self.context.op("Where", mask, data, self.context.scalar(value, like=data))


def multiplied(context: Context, data: str, weights: str, place: int, rank: int) -> str:
    """The data with an axis multiplied with a matrix.

    The matrix has a row for each element of the new axis; if the axis is not the last but one, it has a column for
    each.
    """
    op = context.op
    if place == rank - 2:
        return op("MatMul", weights, data)
    if place == rank - 1:
        return op("MatMul", data, weights)
    order = [other for other in range(rank) if other != place] + [place]
    product = op("MatMul", op("Transpose", data, perm=order), weights)  # the other axes, O
    return op("Transpose", product, perm=[order.index(other) for other in range(rank)])


def extrapolated(context: Context, data: str, axes: list[Axis], value: float) -> str:
    """The data, and a value where the region of interest reaches beyond them."""
    for place, axis in enumerate(axes):
        seen = inside(axis)
        if not seen.all():
            mask = seen.reshape([-1] + [1] * (len(axes) - place - 1))  # O, 1, ...
            data = context.op("Where", context.array(mask, BOOL), data, context.scalar(value, like=data))
    return data


_HALFWAY = Deviation("halfway between two elements, onnxruntime may choose the other one", RARE)


def tell_centre(context: Context, kernel: Kernel) -> None:
    """Report coordinates that runtimes do not round in the same way."""
    if kernel.coordinates == "half_pixel_symmetric":
        context.report(_HALFWAY, is_defined=False)


def resized_along(context: Context, data: str, place: int, rank: int, axis: Axis, kernel: Kernel) -> str:
    """One axis resized; its sizes are known."""
    context.check_size(*axis.sizes)
    if kernel.mode == "nearest":
        tell_centre(context, kernel)
        return context.op("Gather", data, context.int64(nearest_indices(axis, kernel)), axis=place)
    context.report(SPREAD)
    weights = weight_matrix(axis, kernel)
    oriented = weights if place == rank - 2 else weights.T  # O, I from the left; I, O from the right
    return multiplied(context, data, context.array(oriented, context.elem_type(data) or FLOAT), place, rank)


def kernel_of_resize(node: Node) -> Kernel:
    """How the attributes of a Resize choose and weigh elements."""
    return Kernel(
        get_string(node, "mode", "nearest"),
        get_string(node, "coordinate_transformation_mode", "half_pixel"),
        get_string(node, "nearest_mode", "round_prefer_floor"),
        get_float(node, "cubic_coeff_a", -0.75),
        bool(get_int(node, "exclude_outside")),
        bool(get_int(node, "antialias")),
    )
