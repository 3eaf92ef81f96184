"""Boxes: the best of those that overlap, and the parts of an image under each.

NonMaxSuppression is a loop in which each class of each image takes its best box in every step. Where ONNX is not clear,
this follows onnxruntime: among equal scores, the first box is taken; an overlap or score that equals its threshold does
not count; and a box without an area overlaps nothing.

Spec: ONNX, Operators.md, NonMaxSuppression and RoiAlign.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from formats.ir.attributes import get_float, get_int, get_string
from formats.ir.dtypes import BOOL, FLOAT, INT32, INT64
from formats.ir.model import Graph, Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import always, of_every_node
from formats.rten.spec import Deviation, Field, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because
from formats.tensordata.plan import RESULTS

# Values in the comments below have the axes: images, classes, boxes.


class Extent(NamedTuple):
    """The start and the end of boxes along one axis."""

    start: str
    end: str

    def length(self, context: Context) -> str:
        """The lengths of the boxes."""
        return context.op("Sub", self.end, self.start)


class Candidates(NamedTuple):
    """The boxes to choose from: those with a high enough score, followed by one entry that is not a box."""

    corners: str  # images, boxes, 4
    scores: str
    can_be_chosen: str  # one or zero
    box_numbers: str  # the indices of these boxes among all; empty if they are all boxes


def _candidates(context: Context) -> Candidates:
    """The boxes of which a class has a score above the threshold."""
    op = context.op
    boxes, scores, threshold = context.input(0), context.input(1), context.optional(4)
    box_numbers = ""
    if threshold:
        above = op("Cast", op("Greater", scores, _scalar(context, threshold)), to=INT64)
        count = op("ReduceSum", above, [0, 1], keepdims=0)  # boxes: in how many classes of all images
        indices = op("NonZero", op("Greater", count, context.scalar(0, elem_type=INT64)))
        box_numbers = op("Squeeze", indices, [0])
        boxes = op("Gather", boxes, box_numbers, axis=1)  # images, boxes, 4
        scores, above = (op("Gather", value, box_numbers, axis=2) for value in (scores, above))
    else:
        above = op("Expand", context.scalar(1, elem_type=INT64), op("Shape", scores))
    one_more = context.int64([0, 0, 0, 0, 0, 1])
    corners = op("Pad", boxes, [0, 0, 0, 0, 1, 0])
    return Candidates(corners, op("Pad", scores, one_more), op("Pad", above, one_more), box_numbers)


def _scalar(context: Context, number: str) -> str:
    return number if context.rank(number) == 0 else context.op("Reshape", number, [])


def _numbers(context: Context, corners: str, axis: int) -> tuple[str, ...]:
    """The four numbers of each box, which lie along an axis, apart."""
    return context.op_outputs("Split", [corners, [1] * 4], 4, axis=axis)


def _spans(context: Context, numbers: Sequence[str], is_centred: bool) -> tuple[Extent, Extent]:
    """The rows and the columns that boxes cover."""
    op = context.op
    if not is_centred:
        top, left, bottom, right = numbers
        rows, columns = (Extent(op("Min", *pair), op("Max", *pair)) for pair in ((top, bottom), (left, right)))
        return rows, columns
    x, y, width, height = numbers
    spans = []
    for centre, size in ((y, height), (x, width)):
        half = op("Div", size, 2.0)
        spans.append(Extent(op("Sub", centre, half), op("Add", centre, half)))
    return spans[0], spans[1]


def _area(context: Context, spans: tuple[Extent, Extent]) -> str:
    rows, columns = spans
    return context.op("Mul", columns.length(context), rows.length(context))


def _overlapping(context: Context, chosen: tuple[Extent, Extent], boxes: tuple[Extent, Extent], limit: str) -> str:
    """The boxes that share more than a given part of the area with the chosen box."""
    op = context.op
    zero = context.scalar(0.0)
    common = []
    for one, other in zip(chosen, boxes, strict=True):
        start = op("Max", one.start, other.start)
        common.append(Extent(start, op("Min", one.end, other.end)))
    rows, columns = common
    shared, areas = _area(context, (rows, columns)), [_area(context, spans) for spans in (chosen, boxes)]
    union = op("Sub", op("Add", *areas), shared)
    tests = [op("Greater", span.end, span.start) for span in common]
    tests += [op("Greater", area, zero) for area in (shared, *areas, union)]
    tests.append(op("Greater", op("Div", shared, union), limit))
    return reduce(partial(op, "And"), tests)


def _body(node: Node, context: Context, candidates: Candidates, limits: tuple[str, str], none: str) -> Graph:
    """A step: each class of each image takes its best box, and drops those that overlap it too much."""
    outside, (most, overlap), is_centred = context, limits, bool(get_int(node, "center_point_box"))
    zero, one = outside.int64_scalar(0), outside.int64_scalar(1)
    places = outside.op("Range", zero, outside.op("Add", none, one), one)
    numbers = [outside.op("Transpose", part, perm=[0, 2, 1]) for part in _numbers(outside, candidates.corners, 2)]
    boxes = _spans(outside, numbers, is_centred)  # images, 1, boxes

    context = outside.nested()
    stem, dims = node.output[0], outside.dims(candidates.scores) or (None,) * 3
    step, condition, alive = (context.names.new(f"{stem}/{word}") for word in ("step", "goes_on", "alive"))
    context.scope.add_input(step, ValueType(INT64, ()))
    context.scope.add_input(alive, ValueType(INT64, dims))
    is_alive = context.op("Equal", alive, one)
    scores = context.op("Where", is_alive, candidates.scores, float("-inf"))
    best = context.op("ReduceMax", scores, [2], keepdims=1)  # images, classes, 1
    is_best = context.op("And", context.op("Equal", scores, best), is_alive)  # images, classes, boxes
    place = context.op("Where", is_best, places, none)
    place = context.op("ReduceMin", place, [2], keepdims=1)  # images, classes, 1
    corners = context.op("GatherND", candidates.corners, place, batch_dims=1)  # images, classes, 4
    chosen = _spans(context, _numbers(context, corners, 2), is_centred)
    dropped = _overlapping(context, chosen, boxes, overlap)  # images, classes, boxes
    dropped = context.op("Or", dropped, context.op("Equal", places, place))
    still_alive = context.op("Where", dropped, zero, alive)  # images, classes, boxes
    count = context.op("ReduceSum", still_alive, keepdims=0)
    goes_on = context.op("Greater", count, zero)
    taken = context.op("Where", context.op("Less", step, most), place, none)
    return Graph(
        name=f"{stem}/body",
        node=context.emitted,
        input=[
            context.value_info(step, INT64, ()),
            context.value_info(condition, BOOL, ()),
            context.value_info(alive, INT64, dims),
        ],
        output=[
            context.value_info(goes_on, BOOL, ()),
            context.value_info(still_alive, INT64, dims),
            context.value_info(taken, INT64, (*dims[:2], 1)),
        ],
    )


@because("RTen keeps one class for each box, lets boxes of different images compete, and computes overlap differently")
def non_max_suppression(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    if not context.optional(2):
        return context.replace(context.array(budget.zeros((0, 3)), INT64))
    candidates = _candidates(context)
    most = _scalar(context, context.input(2))
    overlap = _scalar(context, context.optional(3)) if context.optional(3) else context.scalar(0.0)
    none = _scalar(
        context, shape.sizes_of(context, candidates.scores, 2, 3)
    )  # the index of the entry that is not a box
    none = op("Sub", none, 1)
    body = _body(node, context, candidates, (most, overlap), none)
    # RTen cannot collect outputs of no steps.
    steps = op("Max", op("Min", most, none), 1)
    _, taken = context.op_outputs("Loop", [steps, "", candidates.can_be_chosen], 2, body=body)
    taken = op("Transpose", taken, perm=[1, 2, 0, 3])  # images, classes, steps, 1
    rows_of_taken = op("NonZero", op("Less", taken, none))  # 4, rows of the result: image, class, step, 0
    places = op("GatherND", taken, op("Transpose", rows_of_taken, perm=[1, 0]))  # rows of the result
    if candidates.box_numbers:
        places = op("Gather", candidates.box_numbers, places)
    both = op("Slice", rows_of_taken, [0], [2], [0])  # image and class
    places = op("Unsqueeze", places, [0])
    rows = op("Concat", both, places, axis=0)
    return context.replace(op("Transpose", rows, perm=[1, 0]))


_OTHER_BOXES = Deviation(
    "RTen lets boxes of different classes compete, computes overlap differently, and sorts the result by score", RESULTS
)


NonMaxSuppression = OperatorSpec(
    "NonMaxSuppression",
    Outputs(lambda node, scope, types: [(None, 3)], always(INT64), range=ranges.sizes),
    ToRten(
        Row(
            5,
            1,
            "NonMaxSuppressionAttrs",
            (
                Field(
                    "box_order", int, 0, "center_point_box", choices={0: "TopLeftBottomRight", 1: "CenterWidthHeight"}
                ),
            ),
        ),
        rewritings=(non_max_suppression,),
    ),
    ToOnnx("xxlx", ranks={2: 0, 3: 0, 4: 0}, deviations=of_every_node(_OTHER_BOXES)),
)


MAX_RATIO = 4  # samples of a bin along an axis; each is several nodes


class Samples(NamedTuple):
    """One sample of each bin along an axis: the indices on both sides of it, INT32, and their weights."""

    low: str
    low_share: str
    high: str
    high_share: str


def _samples(context: Context, start: str, size: str, bins: int, ratio: int, number: int, length: str) -> Samples:
    """The samples called `number` of `ratio` in each of the bins of regions, which begin at `start`, along an axis."""
    op = context.op
    zero, one = context.scalar(0.0), context.scalar(1.0)
    width = op("Div", size, float(bins))
    corner = op("Add", start, op("Mul", width, context.array([[*map(float, budget.steps(bins))]])))  # regions, bins
    inside = op("Mul", width, context.scalar(number + 0.5))
    place = op("Add", corner, op("Div", inside, float(ratio)))
    before = op("Less", place, -1.0)
    is_outside = op("Or", before, op("Greater", place, length))
    last = op("Sub", length, one)
    place = op("Min", op("Max", place, zero), last)  # an index after the last one becomes the last one
    low = op("Floor", place)
    high = op("Min", op("Add", low, one), last)
    share = op("Sub", place, low)
    shares = (op("Sub", one, share), share)
    low_share, high_share = (op("Where", is_outside, zero, share_of_side) for share_of_side in shares)
    return Samples(context.cast(low, INT32), low_share, context.cast(high, INT32), high_share)


def _starts_and_sizes(node: Node, context: Context, is_half: bool) -> list[tuple[str, str]]:
    """The start and the size of regions, along the rows and the columns."""
    op = context.op
    scale = context.scalar(get_float(node, "spatial_scale", 1.0))
    corners = op("Mul", context.input(1), scale)
    if is_half:
        corners = op("Sub", corners, 0.5)
    left, top, right, bottom = context.op_outputs("Split", [corners, [1] * 4], 4, axis=1)
    ends = []
    for first, last in ((top, bottom), (left, right)):
        size = op("Sub", last, first)
        ends.append((first, size if is_half else op("Max", size, 1.0)))
    return ends


def _column(context: Context, value: str, axis: int) -> str:
    return context.op("Unsqueeze", value, [axis])


def roi_align(node: Node, context: Context) -> list[Node] | None:
    """Write it as the mean or maximum of interpolated samples."""
    op = context.op
    data, ratio = context.input(0), get_int(node, "sampling_ratio")
    if not 0 < ratio <= MAX_RATIO:
        raise Refused(f"has sampling_ratio = {ratio}, but only 1 to {MAX_RATIO} can be converted")
    mode = get_string(node, "mode", "avg")
    coordinates = get_string(node, "coordinate_transformation_mode", "half_pixel" if context.version >= 16 else "")
    rows, columns = get_int(node, "output_height", 1), get_int(node, "output_width", 1)
    height, width = (shape.sizes_of(context, data, axis, axis + 1) for axis in (2, 3))
    (top, high), (left, wide) = _starts_and_sizes(node, context, coordinates == "half_pixel")
    lengths = [context.cast(size, FLOAT) for size in (height, width)]
    # All pixels of all images in one axis, each with its channels: pixel (image * height + row) * width + column.
    last_first = op("Transpose", data, perm=[0, 2, 3, 1])
    depth = shape.sizes_of(context, data, 1, 2)
    # The result is a matrix: pixels of all images, channels.
    pixels = op("Reshape", last_first, shape.joined(context, context.int64([-1]), depth))
    batch = _column(context, _column(context, context.cast(context.input(2), INT32), 1), 2)  # regions, 1, 1
    images = op("Mul", batch, context.cast(height, INT32))
    down = [_samples(context, top, high, rows, ratio, number, lengths[0]) for number in range(ratio)]
    across = [_samples(context, left, wide, columns, ratio, number, lengths[1]) for number in range(ratio)]
    parts = []
    for y, y_share in ((place, share) for samples in down for place, share in (samples[:2], samples[2:])):
        line = op("Add", images, _column(context, y, 2))
        line = op("Mul", line, context.cast(width, INT32))
        for x, x_share in ((place, share) for samples in across for place, share in (samples[:2], samples[2:])):
            # The result: regions, rows, columns, channels.
            pixel = op("Gather", pixels, op("Add", line, _column(context, x, 1)), axis=0)
            share = op("Mul", _column(context, y_share, 2), _column(context, x_share, 1))  # regions, rows, columns
            parts.append(op("Mul", pixel, _column(context, share, 3)))
    joined = reduce(partial(op, "Max" if mode == "max" else "Add"), parts)
    if mode != "max":
        joined = op("Div", joined, float(ratio * ratio))
    return context.replace(op("Transpose", joined, perm=[0, 3, 1, 2]))


def roi_align_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """An image for each region."""
    data, regions = types[0].dims or (None,) * 4, types[1].dims or (None,)
    return [(regions[0], data[1], get_int(node, "output_height", 1), get_int(node, "output_width", 1))]


RoiAlign = OperatorSpec("RoiAlign", Outputs(roi_align_dims), ToRten(rewritings=(roi_align,)))
