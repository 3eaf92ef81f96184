"""The best of overlapping boxes: a loop in which each class of each image takes its best box in every step.

Spec: ONNX, Operators.md, NonMaxSuppression; where it is not clear, this follows onnxruntime: among equal scores, the
first box is taken; an overlap or score that equals its threshold does not count; and a box without an area overlaps
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.ir.dtypes import BOOL, INT64
from formats.ir.model import Graph
from formats.rten.convert import budget
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import get_int
from formats.rten.operators import (
    casting,
    comparison,
    control_flow,
    creation,
    elementwise,
    indexing,
    padding,
    reduction,
    shape,
    slicing,
)
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.deviations import Deviation
from formats.rten.operators.shared.rules import always
from formats.rten.operators.shared.spec import Field, FieldKind, OperatorSpec, Row, Signature, because
from formats.tensordata.plan import RESULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims

# Values in the comments below have the axes: images, classes, boxes.


class Span(NamedTuple):
    """The start and the end of boxes along one axis."""

    start: str
    end: str

    def length(self, context: Context) -> str:
        """The lengths of the boxes."""
        return context.op(elementwise.Sub, self.end, self.start)


class Candidates(NamedTuple):
    """The boxes to choose from: those with a high enough score, followed by one entry that is not a box."""

    corners: str  # images, boxes, 4
    scores: str
    can_be_chosen: str  # one or zero
    kept: str  # the indices of these boxes among all; empty if they are all boxes


def _candidates(context: Context) -> Candidates:
    """The boxes of which a class has a score above the threshold."""
    boxes, scores, threshold = context.input(0), context.input(1), context.optional(4)
    kept = ""
    if threshold:
        above = _as_numbers(context, context.op(comparison.Greater, scores, _scalar(context, threshold)))
        count = context.op(reduction.ReduceSum, above, context.int64([0, 1]), keepdims=0)
        found = context.op(indexing.NonZero, context.op(comparison.Greater, count, context.scalar(0, elem_type=INT64)))
        kept = context.op(shape.Squeeze, found, context.int64([0]))
        boxes = context.op(indexing.Gather, boxes, kept, axis=1)
        scores, above = (context.op(indexing.Gather, value, kept, axis=2) for value in (scores, above))
    else:
        above = context.op(shape.Expand, context.scalar(1, elem_type=INT64), context.op(shape.Shape, scores))
    one_more = context.int64([0, 0, 0, 0, 0, 1])
    corners = context.op(padding.Pad, boxes, context.int64([0, 0, 0, 0, 1, 0]))
    return Candidates(
        corners, context.op(padding.Pad, scores, one_more), context.op(padding.Pad, above, one_more), kept
    )


def _as_numbers(context: Context, truths: str) -> str:
    return context.op(casting.Cast, truths, to=INT64)


def _scalar(context: Context, number: str) -> str:
    return number if context.rank(number) == 0 else context.op(shape.Reshape, number, context.int64([]))


def _numbers(context: Context, corners: str, axis: int) -> tuple[str, ...]:
    """The four numbers of each box, which lie along an axis, apart."""
    return context.op_outputs(slicing.Split, [corners, context.int64([1] * 4)], 4, axis=axis)


def _spans(context: Context, numbers: Sequence[str], is_centred: bool) -> tuple[Span, Span]:
    """The rows and the columns that boxes cover."""
    if not is_centred:
        top, left, bottom, right = numbers
        rows, columns = (
            Span(context.op(elementwise.Min, *pair), context.op(elementwise.Max, *pair))
            for pair in ((top, bottom), (left, right))
        )
        return rows, columns
    x, y, width, height = numbers
    found = []
    for centre, size in ((y, height), (x, width)):
        half = context.op(elementwise.Div, size, context.scalar(2.0))
        found.append(Span(context.op(elementwise.Sub, centre, half), context.op(elementwise.Add, centre, half)))
    return found[0], found[1]


def _area(context: Context, spans: tuple[Span, Span]) -> str:
    rows, columns = spans
    return context.op(elementwise.Mul, columns.length(context), rows.length(context))


def _overlapping(context: Context, chosen: tuple[Span, Span], boxes: tuple[Span, Span], limit: str) -> str:
    """The boxes that share more than a given part of the area with the chosen box."""
    zero = context.scalar(0.0)
    common = []
    for one, other in zip(chosen, boxes, strict=True):
        start = context.op(elementwise.Max, one.start, other.start)
        common.append(Span(start, context.op(elementwise.Min, one.end, other.end)))
    rows, columns = common
    shared, areas = _area(context, (rows, columns)), [_area(context, spans) for spans in (chosen, boxes)]
    union = context.op(elementwise.Sub, context.op(elementwise.Add, *areas), shared)
    tests = [context.op(comparison.Greater, span.end, span.start) for span in common]
    tests += [context.op(comparison.Greater, area, zero) for area in (shared, *areas, union)]
    tests.append(context.op(comparison.Greater, context.op(elementwise.Div, shared, union), limit))
    result = tests[0]
    for test in tests[1:]:
        result = context.op(comparison.And, result, test)
    return result


def _body(node: Node, context: Context, given: Candidates, limits: tuple[str, str], none: str) -> Graph:
    """A step: each class of each image takes its best box, and drops those that overlap it too much."""
    outside, (most, overlap), is_centred = context, limits, bool(get_int(node, "center_point_box"))
    zero, one = outside.int64_scalar(0), outside.int64_scalar(1)
    places = outside.op(creation.Range, zero, outside.op(elementwise.Add, none, one), one)
    numbers = [outside.op(shape.Transpose, part, perm=[0, 2, 1]) for part in _numbers(outside, given.corners, 2)]
    boxes = _spans(outside, numbers, is_centred)  # images, 1, boxes

    context = outside.nested()
    stem, dims = node.output[0], outside.dims(given.scores) or (None,) * 3
    step, condition, alive = (context.names.new(f"{stem}/{word}") for word in ("step", "goes_on", "alive"))
    context.scope.add_input(step, ValueType(INT64, ()))
    context.scope.add_input(alive, ValueType(INT64, dims))
    is_alive = context.op(comparison.Equal, alive, one)
    scores = context.op(comparison.Where, is_alive, given.scores, context.scalar(float("-inf")))
    best = context.op(reduction.ReduceMax, scores, context.int64([2]), keepdims=1)
    is_best = context.op(comparison.And, context.op(comparison.Equal, scores, best), is_alive)
    place = context.op(comparison.Where, is_best, places, none)
    place = context.op(reduction.ReduceMin, place, context.int64([2]), keepdims=1)  # images, classes, 1
    corners = context.op(indexing.GatherND, given.corners, place, batch_dims=1)  # images, classes, 4
    chosen = _spans(context, _numbers(context, corners, 2), is_centred)
    dropped = _overlapping(context, chosen, boxes, overlap)
    dropped = context.op(comparison.Or, dropped, context.op(comparison.Equal, places, place))
    left = context.op(comparison.Where, dropped, zero, alive)
    count = context.op(reduction.ReduceSum, left, keepdims=0)
    goes_on = context.op(comparison.Greater, count, zero)
    taken = context.op(comparison.Where, context.op(comparison.Less, step, most), place, none)
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
            context.value_info(left, INT64, dims),
            context.value_info(taken, INT64, (*dims[:2], 1)),
        ],
    )


@because("RTen keeps one class for each box, lets boxes of different images compete, and computes overlap differently")
def non_max_suppression(node: Node, context: Context) -> list[Node] | None:

    if not context.optional(2):
        return context.replace(context.array(budget.zeros((0, 3)), INT64))
    given = _candidates(context)
    most = _scalar(context, context.input(2))
    overlap = _scalar(context, context.optional(3)) if context.optional(3) else context.scalar(0.0)
    none = _scalar(context, shape.sizes_of(context, given.scores, 2, 3))  # the index of the entry that is not a box
    none = context.op(elementwise.Sub, none, context.int64_scalar(1))
    body = _body(node, context, given, (most, overlap), none)
    # RTen cannot collect outputs of no steps.
    steps = context.op(elementwise.Max, context.op(elementwise.Min, most, none), context.int64_scalar(1))
    _, taken = context.op_outputs(control_flow.Loop, [steps, "", given.can_be_chosen], 2, body=body)
    taken = context.op(shape.Transpose, taken, perm=[1, 2, 0, 3])  # images, classes, steps, 1
    found = context.op(indexing.NonZero, context.op(comparison.Less, taken, none))
    places = context.op(indexing.GatherND, taken, context.op(shape.Transpose, found, perm=[1, 0]))
    if given.kept:
        places = context.op(indexing.Gather, given.kept, places)
    both = context.op(slicing.Slice, found, context.int64([0]), context.int64([2]), context.int64([0]))
    places = context.op(shape.Unsqueeze, places, context.int64([0]))
    rows = context.op(slicing.Concat, both, places, axis=0)
    return context.replace(context.op(shape.Transpose, rows, perm=[1, 0]))


def non_max_suppression_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of three."""
    return [(None, 3)]


_OTHER_BOXES = Deviation(
    "RTen lets boxes of different classes compete, computes overlap differently, and sorts the result by score", RESULTS
)


def _suppression_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_OTHER_BOXES,)


NonMaxSuppression = OperatorSpec(
    "NonMaxSuppression",
    Row(
        5,
        1,
        "NonMaxSuppressionAttrs",
        (
            Field(
                "box_order",
                FieldKind.CHOICE,
                0,
                "center_point_box",
                choices={0: "TopLeftBottomRight", 1: "CenterWidthHeight"},
            ),
        ),
    ),
    signature=Signature("xxlx"),
    ranks={2: 0, 3: 0, 4: 0},
    dims=non_max_suppression_dims,
    elements=(always(INT64),),
    rewritings=(non_max_suppression,),
    raised_deviations=_suppression_deviations,
    range=ranges.sizes,
)
