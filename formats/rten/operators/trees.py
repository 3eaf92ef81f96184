"""Ensembles of decision trees as lookups in tables of their nodes, one level of all trees at a time.

A sample has a place in each tree. A level looks up the conditions of the nodes at these places, and moves on to the
child for the answer; a place at a leaf stays. The numbers in the leaves are added up in the order of the trees, as ONNX
Runtime does, so that scores are the same to the last bit, and no label differs.

bytes of tables that are allowed, however small the model is
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from formats.ir.dtypes import DOUBLE, FLOAT, INT32
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_int, get_string
from formats.rten.operators import (
    ml,
    shape,
)
from formats.rten.operators.shared.spec import MACHINE_LEARNING, OperatorSpec, ToRten
from formats.rten.operators.shared.tree_nodes import MODES, Trees, floats_of, numbered, placed, size_of_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from formats.ir.model import Node
    from formats.rten.convert.context import Context

SMALL = 1 << 16  # Indexed by the numbers of `MODES`.
# By the numbers of `MODES`.
CONDITIONS = (
    "LessOrEqual",
    "Less",
    "GreaterOrEqual",
    "Greater",
    "Equal",
    "Equal",
)
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class Walk:
    """The leaves that samples reach: one for each of the trees, in columns."""

    context: Context
    trees: Trees
    elem_type: int  # of the samples and splits
    room: int  # bytes that the tables may need

    def __post_init__(self) -> None:
        self.constants: dict[str, str] = {}
        self.tree_count = len(self.trees.roots)
        self.modes = sorted(set(self.trees.modes[: self.trees.leaves].tolist()))
        self.tracks = self.trees.tracks[: self.trees.leaves]

    def table(self, values: NDArray[Any], elem_type: int = INT32) -> str:
        """A constant for lookups.

        Raises: Refused if all of them together are larger than their model.
        """
        self.room -= values.size * 4
        if self.room < 0:
            raise Refused("has trees whose tables would be larger than the model")
        return self.context.array(values, elem_type)

    def _met(self, value: str, split: str, place: str) -> str:
        """Whether values meet the conditions of the current nodes."""
        context = self.context
        met = ""
        for mode in self.modes:
            found = context.op(CONDITIONS[mode], value, split)
            if MODES[mode] == "BRANCH_NEQ":
                found = context.op("Not", found)
            if len(self.modes) > 1:
                asked = self._truth(context.op("Gather", self.constants[MODES[mode]], place, axis=0))
                found = context.op("And", asked, found)
            met = context.op("Or", met, found) if met else found
        if self.tracks.any():
            tracked = context.op("IsNaN", value)
            if not self.tracks.all():
                asked = self._truth(context.op("Gather", self.constants["tracks"], place, axis=0))
                tracked = context.op("And", tracked, asked)
            met = context.op("Or", met, tracked)
        return met

    def _truth(self, value: str) -> str:
        return self.context.op("Equal", value, self.context.array(1, INT32))

    def leaves(self, data: str) -> str:
        """The indices of the leaves that samples reach, counted from the first leaf."""
        import numpy

        context, trees = self.context, self.trees
        inner = slice(trees.leaves)
        self.constants = {
            "features": self.table(trees.features[inner]),
            "splits": self.table(trees.splits[inner], self.elem_type),
            "true": self.table(trees.true[inner]),
            "false": self.table(trees.false[inner]),
        }
        for mode in self.modes if len(self.modes) > 1 else ():
            self.constants[MODES[mode]] = self.table(numpy.where(trees.modes[inner] == mode, 1, 0))
        if self.tracks.any() and not self.tracks.all():
            self.constants["tracks"] = self.table(numpy.where(self.tracks, 1, 0))
        first, last = context.array(trees.leaves, INT32), context.array(trees.leaves - 1, INT32)
        dims = shape.joined(context, shape.sizes_of(context, data, 0, 1), context.int64([len(trees.roots)]))
        place = context.op("Expand", context.array(trees.roots, INT32), dims)
        for _ in range(trees.depth):
            node = context.op("Min", place, last)  # for a leaf, any node, whose answer is not used
            look = {
                name: context.op("Gather", self.constants[name], node, axis=0)
                for name in ("features", "splits", "true", "false")
            }
            value = context.op("GatherElements", data, look["features"], axis=1)
            child = context.op("Where", self._met(value, look["splits"], node), look["true"], look["false"])
            place = context.op("Where", context.op("Less", place, first), child, place)
        return context.op("Sub", place, first)

    def total(self, data: str, count: int, aggregate: str) -> str:
        """The results of all trees for each target: a row for each sample."""
        import numpy

        context, infinity = self.context, numpy.inf
        if aggregate in ("MIN", "MAX"):
            empty = infinity if aggregate == "MIN" else -infinity
            operator = "ReduceMin" if aggregate == "MIN" else "ReduceMax"
            values = context.op("Gather", self._weights(count, empty), self.leaves(data), axis=0)
            found = context.op(operator, values, context.int64([1]), keepdims=0)
            is_empty = context.op("IsInf", found)
            return context.op("Where", is_empty, context.scalar(0, elem_type=self.elem_type), found)
        grouped = self.trees.by_target(count)
        if grouped is not None:
            self.trees = grouped
            table = self.table(grouped.table_of_one(), self.elem_type)
            values = context.op("Gather", table, self.leaves(data), axis=0)
            values = context.op("Reshape", values, context.int64([-1, len(grouped.roots) // count, count]))
        else:
            values = context.op("Gather", self._weights(count, 0.0), self.leaves(data), axis=0)
        running = context.op("CumSum", values, context.int64_scalar(1))
        total = context.op("Gather", running, context.int64_scalar(-1), axis=1)
        if aggregate == "AVERAGE":
            total = context.op("Div", total, context.scalar(self.tree_count, elem_type=self.elem_type))
        return total

    def _weights(self, count: int, empty: float) -> str:
        return self.table(self.trees.table(count, empty), self.elem_type)


def _walk(node: Node, context: Context, trees: Trees) -> tuple[Walk, str]:
    """How samples go through the trees, and the samples."""
    elem_type = DOUBLE if context.elem_type(context.input(0)) == DOUBLE else FLOAT
    walk = Walk(context, trees, elem_type, max(size_of_attributes(node), SMALL))
    return walk, ml.samples(context, elem_type)


def _with_base(walk: Walk, scores: str, base: Sequence[float]) -> str:
    if not base:
        return scores
    return walk.context.op("Add", scores, walk.context.array(base, walk.elem_type))


def _regressed(walk: Walk, data: str, count: int, aggregate: str, base: Sequence[float], post_transform: str) -> str:
    context = walk.context
    present = walk.trees.always_has(count)
    if base and None in present:
        raise Refused("has base values and targets that only some leaves have numbers for")
    scores = walk.total(data, count, aggregate)
    if len(base) == count:  # for another number, ONNX does not define what they belong to
        scores = _with_base(walk, scores, [number if has else 0.0 for number, has in zip(base, present, strict=True)])
    return ml.post_transform(context, scores, post_transform, count)


def regressor(node: Node, context: Context) -> list[Node] | None:
    """Write it as lookups in tables of tree nodes, summed for each target."""
    trees = numbered(node, "target")
    walk, data = _walk(node, context, trees)
    base, name = floats_of(node, "base_values"), get_string(node, "aggregate_function", "SUM")
    if name not in AGGREGATES:
        raise Refused(f"has the unknown aggregate_function {name!r}")
    count, given = get_int(node, "n_targets", 1), [] if base is None else base.tolist()
    scores = _regressed(walk, data, count, name, given, get_string(node, "post_transform"))
    return context.replace(context.cast(scores, FLOAT))


TreeEnsembleRegressor = OperatorSpec(
    "TreeEnsembleRegressor", to_rten=ToRten(rewritings=(regressor,)), domain=MACHINE_LEARNING
)


def ensemble(node: Node, context: Context) -> list[Node] | None:
    """Write it as lookups in tables of tree nodes, summed for each target."""
    walk, data = _walk(node, context, placed(node))
    numbers = get_int(node, "aggregate_function", 1), get_int(node, "post_transform")
    if not (0 <= numbers[0] < len(AGGREGATES) and 0 <= numbers[1] < len(POST_TRANSFORMS)):
        raise Refused(f"has the unknown aggregate_function or post_transform {numbers}")
    aggregate, post_transform = AGGREGATES[numbers[0]], POST_TRANSFORMS[numbers[1]]
    if post_transform in ("SOFTMAX", "LOGISTIC"):
        raise Refused(
            f"has post_transform = {numbers[1]}, which is {post_transform} in ONNX, but another one in ONNX Runtime",
            "add a Softmax or Sigmoid node after it",
        )
    return context.replace(_regressed(walk, data, get_int(node, "n_targets"), aggregate, [], post_transform))


TreeEnsemble = OperatorSpec("TreeEnsemble", to_rten=ToRten(rewritings=(ensemble,)), domain=MACHINE_LEARNING)


def _one_score(walk: Walk, score: str, post_transform: str, is_positive: bool) -> str:
    """The scores of two classes, if the trees have one score."""
    context = walk.context
    if post_transform == "PROBIT":
        raise Refused("has a post_transform that is not defined for two classes with one score")
    if post_transform == "LOGISTIC" or not is_positive:
        other = context.op("Neg", score)
    else:
        other = context.op("Sub", context.scalar(1, elem_type=walk.elem_type), score)
    both = context.op("Concat", other, score, axis=1)
    return context.op("Sigmoid", both) if post_transform == "LOGISTIC" else both


def _two_classes(walk: Walk, data: str, base: list[float], labels: list[int], post_transform: str) -> list[str]:
    """The labels and the scores of two classes; trees may have numbers for one of them only."""
    context, trees = walk.context, walk.trees
    has_first, has_second = trees.always_has(2)
    if has_first is None or has_second is None:
        raise Refused("has two classes, but only some leaves have numbers for both")
    is_positive = bool((trees.weights >= 0).all())
    is_single = len(set(trees.targets.tolist())) == 1
    total = walk.total(data, 2, "SUM")
    first, second = (context.op("Gather", total, context.int64([place]), axis=1) for place in (0, 1))
    zero = context.op("Mul", first, context.scalar(0, elem_type=walk.elem_type))
    if base:
        first = _with_base(walk, first, base[:1] if len(base) < 2 or not has_second else base[1:2])
    if len(base) == 2 and has_second:
        first, second = context.op("Neg", first), first
    weight = second if has_second else first
    limit = 0.5 if is_single and is_positive else 0.0
    label = ml.label_above(context, weight, limit, labels if is_single else (0, 1))
    if len(base) != 2 and not has_second:
        return [label, _one_score(walk, first, post_transform, is_positive)]
    both = context.op("Concat", first if has_first else zero, second if has_second else zero, axis=1)
    return [label, ml.post_transform(context, both, post_transform, 2)]


def classifier(node: Node, context: Context) -> list[Node] | None:
    """Write it as lookups in tables of tree nodes, and ArgMax for the label."""
    labels, trees = ml.int_labels(node, context, "classlabels_int64s"), numbered(node, "class")
    walk, data = _walk(node, context, trees)
    base_values, post_transform = floats_of(node, "base_values"), get_string(node, "post_transform")
    base, count = [] if base_values is None else base_values.tolist(), len(labels)
    if count < 2 or len(base) not in (0, 1, count) or (count > 2 and len(base) == 1):
        raise Refused(f"has {count} classes, but {len(base)} base values")
    if count == 2:
        label, scores = _two_classes(walk, data, base, labels, post_transform)
        return context.replace(label, context.cast(scores, FLOAT))
    if not base and set(trees.always_has(count)) != {True} and not trees.has_winners():
        raise Refused("has classes that only some leaves have numbers for")
    scores = _with_base(walk, walk.total(data, count, "SUM"), base)
    label = ml.label_of_largest(context, scores, labels)
    return context.replace(label, context.cast(ml.post_transform(context, scores, post_transform, count), FLOAT))


TreeEnsembleClassifier = OperatorSpec(
    "TreeEnsembleClassifier", to_rten=ToRten(rewritings=(classifier,)), domain=MACHINE_LEARNING
)
