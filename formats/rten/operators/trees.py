"""Ensembles of decision trees as lookups in tables of their nodes, one level of all trees at a time.

A sample has a place in each tree. A level looks up the conditions of the nodes at these places, and moves on to the
child for the answer; a place at a leaf stays. The numbers in the leaves are added up in the order of the trees, as ONNX
Runtime does, so that scores are the same to the last bit, and no label differs.

Spec: ONNX, Operators-ml.md, TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from formats.ir import MACHINE_LEARNING
from formats.ir.attributes import attribute_named, get_int, get_ints, get_string, get_strings
from formats.ir.dtypes import DOUBLE, FLOAT, INT32
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.operators import ml, shape
from formats.rten.spec import rewritten

MAX_DEPTH = 256  # levels, each of which becomes several nodes
SMALL = 1 << 16  # bytes of tables that are allowed, however small the model is
# The conditions of nodes, by their numbers in TreeEnsemble; older operators have the names.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)
# The operators of the conditions, by the numbers of `MODES`.
CONDITIONS = ("LessOrEqual", "Less", "GreaterOrEqual", "Greater", "Equal", "Equal")
POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass
class Trees:
    """The nodes of all trees, in arrays with one element for each node. Nodes from `leaves` on are leaves."""

    roots: NDArray[np.int64]
    features: NDArray[np.int64]
    splits: NDArray[Any]
    modes: NDArray[np.int64]
    true: NDArray[np.int64]
    false: NDArray[np.int64]
    tracks: NDArray[np.bool_]  # whether NaN goes to the child for a condition that is true
    leaves: int
    targets: NDArray[np.int64]  # the target of each number in a leaf
    owners: NDArray[np.int64]  # the leaf of each number, counted from the first leaf
    weights: NDArray[Any]

    def __post_init__(self) -> None:
        """Count the levels above the deepest leaf.

        Raises: Refused if nodes lead nowhere, in a circle, or deeper than supported.
        """
        count = len(self.features)
        for column in (self.roots, self.true, self.false):
            if column.size and not 0 <= column.min() <= column.max() < count:
                raise Refused("has tree nodes with children that do not exist")
        places, self.depth = np.unique(self.roots), 0
        while (places := places[places < self.leaves]).size:
            places = np.unique(np.concatenate((self.true[places], self.false[places])))
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise Refused(f"has trees with more than {MAX_DEPTH} levels")

    @property
    def leaf_count(self) -> int:
        """The number of leaves."""
        return len(self.features) - self.leaves

    def table(self, count: int, empty: float = 0.0) -> NDArray[Any]:
        """A row for each leaf, with its number for each of `count` targets; `empty` if it has no number.

        Raises: Refused if a leaf has several numbers for a target, which no exporter writes.
        """
        places = self.owners * count + self.targets
        if len(np.unique(places)) < len(places) or not (self.targets >= 0).all() or (self.targets >= count).any():
            raise Refused("has leaves with several numbers for a target, or with an unknown target")
        rows = budget.full(self.leaf_count * count, empty, self.weights.dtype)
        rows[places] = self.weights
        return rows.reshape(self.leaf_count, count)

    def has_winners(self) -> bool:
        """Whether each leaf has a number above zero, and none below. Then a missing number is never the largest."""
        wins = budget.zeros(self.leaf_count, bool)
        wins[self.owners[self.weights > 0]] = True
        return bool(wins.all()) and bool((self.weights >= 0).all())

    def table_of_one(self) -> NDArray[Any]:
        """The only number of each leaf, zero if it has none."""
        numbers = budget.zeros(self.leaf_count, self.weights.dtype)
        numbers[self.owners] = self.weights
        return numbers

    def tree_of_leaf(self) -> NDArray[np.int64]:
        """The tree of each leaf."""
        tree = budget.full(len(self.features), -1)
        tree[self.roots] = budget.arange(len(self.roots))
        places = self.roots
        while (places := places[places < self.leaves]).size:
            for children in (self.true[places], self.false[places]):
                if ((tree[children] != -1) & (tree[children] != tree[places])).any():
                    raise Refused("has trees that share leaves")
                tree[children] = tree[places]
            places = np.unique(np.concatenate((self.true[places], self.false[places])))
        return tree[self.leaves :]

    def by_target(self, count: int) -> Trees | None:
        """The trees, alternating between targets, with empty trees added; `None` if a tree has several targets."""
        tree = self.tree_of_leaf()[self.owners]  # of each number
        target = budget.full(len(self.roots), -1)
        target[tree] = self.targets
        if (target[tree] != self.targets).any() or len(np.unique(self.owners)) < len(self.owners):
            return None
        groups = [self.roots[target == number] for number in budget.steps(count)]
        rounds = max(map(len, groups))
        roots = budget.full((rounds, count), len(self.features))  # an empty leaf, which is added
        for number, group in enumerate(groups):
            roots[: len(group), number] = group
        zero, last = budget.zeros(1, np.int64), np.asarray([len(self.features)])
        added = {"features": zero, "splits": zero, "modes": zero, "true": last, "false": last, "tracks": zero > 0}
        arrays: dict[str, Any] = {
            name: np.append(getattr(self, name), one).astype(getattr(self, name).dtype) for name, one in added.items()
        }
        return replace(self, roots=roots.reshape(-1), **arrays)

    def always_has(self, count: int) -> list[bool | None]:
        """For each target, whether every sample gets a number for it, or no sample does; `None` if samples differ."""
        has = budget.zeros((self.leaf_count, count), bool)
        has[self.owners, self.targets] = True
        tree, lacking = self.tree_of_leaf(), budget.zeros((len(self.roots), count), bool)
        np.logical_or.at(lacking, tree[tree >= 0], ~has[tree >= 0])
        full, some = np.asarray((~lacking).any(axis=0)), np.asarray(has.any(axis=0))
        pairs = zip(full.tolist(), some.tolist(), strict=True)
        return [True if is_full else None if is_some else False for is_full, is_some in pairs]


def floats_of(node: Node, name: str) -> NDArray[Any] | None:
    """Numbers in an attribute of floats, or in a tensor, which are then DOUBLE."""
    attribute = attribute_named(node, f"{name}_as_tensor") or attribute_named(node, name)
    if attribute is None:
        return None
    return attribute.t.numpy().reshape(-1) if attribute.t is not None else np.asarray(attribute.floats, np.float32)


def _ints(node: Node, name: str, default: Sequence[int] = ()) -> NDArray[np.int64]:
    return np.asarray(get_ints(node, name) or default, np.int64)


def numbered(node: Node, prefix: str) -> Trees:
    """The trees of a classifier or regressor, whose nodes are numbered in each tree."""
    names = np.asarray(get_strings(node, "nodes_modes"))
    tree, number = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    count, is_leaf = len(names), names == "LEAF"
    order = np.argsort(is_leaf, kind="stable")  # leaves last
    place = {(int(tree[old]), int(number[old])): new for new, old in enumerate(order)}
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = _ints(node, name)
        child_places = [new if is_leaf[old] else place[int(tree[old]), int(ids[old])] for new, old in enumerate(order)]
        children.append(np.asarray(child_places, np.int64))
    modes = np.asarray([MODES.index(name) if name != "LEAF" else 0 for name in names[order]], np.int64)
    starts = [old for old in range(count) if old == 0 or tree[old] != tree[old - 1]]
    new_place = budget.zeros(count, np.int64)
    new_place[order] = budget.arange(count)
    leaves = int(count - is_leaf.sum())
    pairs = zip(_ints(node, f"{prefix}_treeids").tolist(), _ints(node, f"{prefix}_nodeids").tolist(), strict=True)
    owners = np.asarray([place[pair] for pair in pairs], np.int64) - leaves
    inside = owners >= 0  # numbers of nodes that are not leaves are ignored
    splits, weights = floats_of(node, "nodes_values"), floats_of(node, f"{prefix}_weights")
    if splits is None or weights is None:
        raise Refused("has no values or no weights")
    tracks = _ints(node, "nodes_missing_value_tracks_true", [0] * count) == 1
    features = np.where(is_leaf, 0, _ints(node, "nodes_featureids"))
    targets = _ints(node, f"{prefix}_ids")
    return Trees(
        new_place[starts], features[order], splits[order], modes, children[0], children[1], tracks[order], leaves,
        targets[inside], owners[inside], weights[inside]
    )  # fmt: skip


def _array(node: Node, name: str) -> NDArray[Any]:
    """The elements of an attribute that is a tensor."""
    attribute = attribute_named(node, name)
    return budget.zeros(0) if attribute is None or attribute.t is None else attribute.t.numpy().reshape(-1)


def placed(node: Node) -> Trees:
    """The trees of a TreeEnsemble, whose nodes and leaves are in separate lists.

    A node that tests for members of a set becomes a chain of nodes. Each of them tests for one member.
    """
    features, splits = _ints(node, "nodes_featureids").tolist(), _array(node, "nodes_splits").tolist()
    modes, count = _array(node, "nodes_modes").astype(np.int64).tolist(), len(features)
    tracks = (_ints(node, "nodes_missing_value_tracks_true", [0] * count) == 1).tolist()
    children = []  # leaves are -1 and below
    for name in ("true", "false"):
        pairs = zip(
            _ints(node, f"nodes_{name}nodeids").tolist(), _ints(node, f"nodes_{name}leafs").tolist(), strict=True
        )
        children.append([-1 - place if is_leaf else place for place, is_leaf in pairs])
    true, false = children
    members = iter(_array(node, "membership_values").tolist())
    for place in range(count):
        if modes[place] != MEMBER:
            continue
        values = _until_nan(members)
        if not values:
            raise Refused("tests membership of an empty set")
        last, modes[place], splits[place] = place, MODES.index("BRANCH_EQ"), values[0]
        other = false[place]  # where no member is met
        for value in values[1:]:
            false[last] = last = len(features)
            for column, number in (
                (features, features[place]), (splits, value), (modes, modes[place]), (tracks, tracks[place]),
                (true, true[place]), (false, other)
            ):  # fmt: skip
                column.append(number)
        false[last] = other
    leaves, weights = len(features), _array(node, "leaf_weights")
    last = leaves + len(weights)
    padding = [0] * len(weights)

    def renumbered(column: list[int]) -> NDArray[np.int64]:
        return np.asarray([leaves - 1 - child if child < 0 else child for child in column] + list(range(leaves, last)))

    return Trees(
        _ints(node, "tree_roots"), np.asarray(features + padding),
        np.asarray(splits + padding, _array(node, "nodes_splits").dtype), np.asarray(modes + padding),
        renumbered(true), renumbered(false), np.asarray(tracks + padding, bool), leaves,
        _ints(node, "leaf_targetids"), budget.arange(len(weights)), weights
    )  # fmt: skip


def _until_nan(values: Iterator[float]) -> list[float]:
    """The numbers up to the next NaN."""
    numbers = []
    for value in values:
        if value != value:
            break
        numbers.append(value)
    return numbers


def size_of_attributes(node: Node) -> int:
    """The approximate number of bytes of an ensemble's numbers in the model."""
    size = 0
    for attribute in node.attribute:
        size += 5 * len(attribute.floats) + sum(len(text) + 2 for text in attribute.strings)
        size += sum(2 + max(number.bit_length() - 1, 0) // 7 for number in attribute.ints)  # each has a tag before it
        size += attribute.t.source().nbytes if attribute.t is not None else 0
    return size


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
            meets = context.op(CONDITIONS[mode], value, split)
            if MODES[mode] == "BRANCH_NEQ":
                meets = context.op("Not", meets)
            if len(self.modes) > 1:
                has_condition = self._truth(context.op("Gather", self.constants[MODES[mode]], place, axis=0))
                meets = context.op("And", has_condition, meets)
            met = context.op("Or", met, meets) if met else meets
        if self.tracks.any():
            tracked = context.op("IsNaN", value)
            if not self.tracks.all():
                has_condition = self._truth(context.op("Gather", self.constants["tracks"], place, axis=0))
                tracked = context.op("And", tracked, has_condition)
            met = context.op("Or", met, tracked)
        return met

    def _truth(self, value: str) -> str:
        return self.context.op("Equal", value, self.context.array(1, INT32))

    def leaves(self, data: str) -> str:
        """The indices of the leaves that samples reach, counted from the first leaf."""
        context, trees = self.context, self.trees
        inner = slice(trees.leaves)
        self.constants = {
            "features": self.table(trees.features[inner]),
            "splits": self.table(trees.splits[inner], self.elem_type),
            "true": self.table(trees.true[inner]),
            "false": self.table(trees.false[inner]),
        }
        for mode in self.modes if len(self.modes) > 1 else ():
            self.constants[MODES[mode]] = self.table(np.where(trees.modes[inner] == mode, 1, 0))
        if self.tracks.any() and not self.tracks.all():
            self.constants["tracks"] = self.table(np.where(self.tracks, 1, 0))
        first, last = context.array(trees.leaves, INT32), context.array(trees.leaves - 1, INT32)
        dims = shape.joined(context, shape.sizes_of(context, data, 0, 1), context.int64([len(trees.roots)]))
        place = context.op("Expand", context.array(trees.roots, INT32), dims)  # samples, trees
        for _ in range(trees.depth):
            node = context.op("Min", place, last)  # for a leaf, any node, whose answer is not used
            look = {
                name: context.op("Gather", self.constants[name], node, axis=0)
                for name in ("features", "splits", "true", "false")
            }
            value = context.op("GatherElements", data, look["features"], axis=1)  # samples, trees
            child = context.op("Where", self._met(value, look["splits"], node), look["true"], look["false"])
            place = context.op("Where", context.op("Less", place, first), child, place)
        return context.op("Sub", place, first)  # samples, trees

    def total(self, data: str, count: int, aggregate: str) -> str:
        """The results of all trees for each target: a row for each sample."""
        context, infinity = self.context, np.inf
        if aggregate in ("MIN", "MAX"):
            empty = infinity if aggregate == "MIN" else -infinity
            operator = "ReduceMin" if aggregate == "MIN" else "ReduceMax"
            # The axes: samples, trees, targets.
            values = context.op("Gather", self._weights(count, empty), self.leaves(data), axis=0)
            extremes = context.op(operator, values, [1], keepdims=0)  # samples, targets
            is_empty = context.op("IsInf", extremes)  # no leaf has a number for the target
            return context.op("Where", is_empty, context.scalar(0, elem_type=self.elem_type), extremes)
        grouped = self.trees.by_target(count)
        if grouped is not None:
            self.trees = grouped
            table = self.table(grouped.table_of_one(), self.elem_type)
            values = context.op("Gather", table, self.leaves(data), axis=0)
            values = context.op("Reshape", values, [-1, len(grouped.roots) // count, count])  # samples, rounds, targets
        else:
            # The axes: samples, trees, targets.
            values = context.op("Gather", self._weights(count, 0.0), self.leaves(data), axis=0)
        # A running total adds in the order of the trees; ReduceSum may take another order.
        running = context.op("CumSum", values, 1)
        total = context.op("Gather", running, -1, axis=1)  # samples, targets
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


def tree_regressor(node: Node, context: Context) -> list[Node] | None:
    """Write it as lookups in tables of tree nodes, summed for each target."""
    trees = numbered(node, "target")
    walk, data = _walk(node, context, trees)
    base, name = floats_of(node, "base_values"), get_string(node, "aggregate_function", "SUM")
    if name not in AGGREGATES:
        raise Refused(f"has the unknown aggregate_function {name!r}")
    count, base_values = get_int(node, "n_targets", 1), [] if base is None else base.tolist()
    scores = _regressed(walk, data, count, name, base_values, get_string(node, "post_transform"))
    return context.replace(context.cast(scores, FLOAT))


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
    first, second = (context.op("Gather", total, [place], axis=1) for place in (0, 1))  # samples, 1 each
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


def tree_classifier(node: Node, context: Context) -> list[Node] | None:
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


REWRITTEN = rewritten(
    MACHINE_LEARNING,
    TreeEnsemble=ensemble,
    TreeEnsembleClassifier=tree_classifier,
    TreeEnsembleRegressor=tree_regressor,
)
