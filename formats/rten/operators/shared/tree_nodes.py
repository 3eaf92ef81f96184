"""The nodes of decision trees in arrays. The operators of ONNX have two ways to write such nodes.

Spec: ONNX, Operators-ml.md, TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import find, get_ints, get_strings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from formats.ir.model import Node

MAX_DEPTH = 256  # levels, each of which becomes several nodes
# The conditions of nodes, by their numbers in TreeEnsemble; older operators have the names.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
MEMBER = len(MODES)


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
        import numpy

        count = len(self.features)
        for column in (self.roots, self.true, self.false):
            if column.size and not 0 <= column.min() <= column.max() < count:
                raise Refused("has tree nodes with children that do not exist")
        places, self.depth = numpy.unique(self.roots), 0
        while (places := places[places < self.leaves]).size:
            places = numpy.unique(numpy.concatenate((self.true[places], self.false[places])))
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
        import numpy

        places = self.owners * count + self.targets
        if len(numpy.unique(places)) < len(places) or not (self.targets >= 0).all() or (self.targets >= count).any():
            raise Refused("has leaves with several numbers for a target, or with an unknown target")
        found = budget.full(self.leaf_count * count, empty, self.weights.dtype)
        found[places] = self.weights
        return found.reshape(self.leaf_count, count)

    def has_winners(self) -> bool:
        """Whether each leaf has a number above zero, and none below. Then a missing number is never the largest."""
        wins = budget.zeros(self.leaf_count, bool)
        wins[self.owners[self.weights > 0]] = True
        return bool(wins.all()) and bool((self.weights >= 0).all())

    def table_of_one(self) -> NDArray[Any]:
        """The only number of each leaf, zero if it has none."""
        found = budget.zeros(self.leaf_count, self.weights.dtype)
        found[self.owners] = self.weights
        return found

    def tree_of_leaf(self) -> NDArray[np.int64]:
        """The tree of each leaf."""
        import numpy

        tree = budget.full(len(self.features), -1)
        tree[self.roots] = budget.arange(len(self.roots))
        places = self.roots
        while (places := places[places < self.leaves]).size:
            for children in (self.true[places], self.false[places]):
                if ((tree[children] != -1) & (tree[children] != tree[places])).any():
                    raise Refused("has trees that share leaves")
                tree[children] = tree[places]
            places = numpy.unique(numpy.concatenate((self.true[places], self.false[places])))
        return tree[self.leaves :]

    def by_target(self, count: int) -> Trees | None:
        """The trees, alternating between targets, with empty trees added; `None` if a tree has several targets."""
        import numpy

        tree = self.tree_of_leaf()[self.owners]
        target = budget.full(len(self.roots), -1)
        target[tree] = self.targets
        if (target[tree] != self.targets).any() or len(numpy.unique(self.owners)) < len(self.owners):
            return None
        groups = [self.roots[target == number] for number in budget.steps(count)]
        rounds = max(map(len, groups))
        roots = budget.full((rounds, count), len(self.features))  # an empty leaf, which is added
        for number, group in enumerate(groups):
            roots[: len(group), number] = group
        zero, last = budget.zeros(1, numpy.int64), numpy.asarray([len(self.features)])
        added = {"features": zero, "splits": zero, "modes": zero, "true": last, "false": last, "tracks": zero > 0}
        arrays: dict[str, Any] = {
            name: numpy.append(getattr(self, name), one).astype(getattr(self, name).dtype)
            for name, one in added.items()
        }
        return replace(self, roots=roots.reshape(-1), **arrays)

    def always_has(self, count: int) -> list[bool | None]:
        """For each target, whether every sample gets a number for it, or no sample does; `None` if samples differ."""
        import numpy

        has = budget.zeros((self.leaf_count, count), bool)
        has[self.owners, self.targets] = True
        tree, lacking = self.tree_of_leaf(), budget.zeros((len(self.roots), count), bool)
        numpy.logical_or.at(lacking, tree[tree >= 0], ~has[tree >= 0])
        full, some = numpy.asarray((~lacking).any(axis=0)), numpy.asarray(has.any(axis=0))
        pairs = zip(full.tolist(), some.tolist(), strict=True)
        return [True if is_full else None if is_some else False for is_full, is_some in pairs]


def floats_of(node: Node, name: str) -> NDArray[Any] | None:
    """Numbers in an attribute of floats, or in a tensor, which are then DOUBLE."""
    import numpy

    held = find(node, f"{name}_as_tensor") or find(node, name)
    if held is None:
        return None
    return held.t.numpy().reshape(-1) if held.t is not None else numpy.asarray(held.floats, numpy.float32)


def _ints(node: Node, name: str, default: Sequence[int] = ()) -> NDArray[np.int64]:
    import numpy

    return numpy.asarray(get_ints(node, name) or default, numpy.int64)


def numbered(node: Node, prefix: str) -> Trees:
    """The trees of a classifier or regressor, whose nodes are numbered in each tree."""
    import numpy

    names = numpy.asarray(get_strings(node, "nodes_modes"))
    tree, number = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    count, is_leaf = len(names), names == "LEAF"
    order = numpy.argsort(is_leaf, kind="stable")  # leaves last
    place = {(int(tree[old]), int(number[old])): new for new, old in enumerate(order)}
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        ids = _ints(node, name)
        found = [new if is_leaf[old] else place[int(tree[old]), int(ids[old])] for new, old in enumerate(order)]
        children.append(numpy.asarray(found, numpy.int64))
    modes = numpy.asarray([MODES.index(name) if name != "LEAF" else 0 for name in names[order]], numpy.int64)
    starts = [old for old in range(count) if old == 0 or tree[old] != tree[old - 1]]
    new_place = budget.zeros(count, numpy.int64)
    new_place[order] = budget.arange(count)
    leaves = int(count - is_leaf.sum())
    pairs = zip(_ints(node, f"{prefix}_treeids").tolist(), _ints(node, f"{prefix}_nodeids").tolist(), strict=True)
    owners = numpy.asarray([place[pair] for pair in pairs], numpy.int64) - leaves
    inside = owners >= 0  # numbers of nodes that are not leaves are ignored
    splits, weights = floats_of(node, "nodes_values"), floats_of(node, f"{prefix}_weights")
    if splits is None or weights is None:
        raise Refused("has no values or no weights")
    tracks = _ints(node, "nodes_missing_value_tracks_true", [0] * count) == 1
    features = numpy.where(is_leaf, 0, _ints(node, "nodes_featureids"))
    targets = _ints(node, f"{prefix}_ids")
    return Trees(
        new_place[starts], features[order], splits[order], modes, children[0], children[1], tracks[order], leaves,
        targets[inside], owners[inside], weights[inside]
    )  # fmt: skip


def _array(node: Node, name: str) -> NDArray[Any]:
    """The elements of an attribute that is a tensor."""
    held = find(node, name)
    return budget.zeros(0) if held is None or held.t is None else held.t.numpy().reshape(-1)


def placed(node: Node) -> Trees:
    """The trees of a TreeEnsemble, whose nodes and leaves are in separate lists.

    A node that tests for members of a set becomes a chain of nodes. Each of them tests for one member.
    """
    import numpy

    features, splits = _ints(node, "nodes_featureids").tolist(), _array(node, "nodes_splits").tolist()
    modes, count = _array(node, "nodes_modes").astype(numpy.int64).tolist(), len(features)
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
        other = false[place]
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
        return numpy.asarray(
            [leaves - 1 - child if child < 0 else child for child in column] + list(range(leaves, last))
        )

    return Trees(
        _ints(node, "tree_roots"), numpy.asarray(features + padding),
        numpy.asarray(splits + padding, _array(node, "nodes_splits").dtype), numpy.asarray(modes + padding),
        renumbered(true), renumbered(false), numpy.asarray(tracks + padding, bool), leaves,
        _ints(node, "leaf_targetids"), budget.arange(len(weights)), weights
    )  # fmt: skip


def _until_nan(values: Iterator[float]) -> list[float]:
    """The numbers up to the next NaN."""
    found = []
    for value in values:
        if value != value:
            break
        found.append(value)
    return found


def size_of_attributes(node: Node) -> int:
    """The approximate number of bytes of an ensemble's numbers in the model."""
    size = 0
    for attribute in node.attribute:
        size += 5 * len(attribute.floats) + sum(len(text) + 2 for text in attribute.strings)
        size += sum(2 + max(number.bit_length() - 1, 0) // 7 for number in attribute.ints)  # each has a tag before it
        size += attribute.t.source().nbytes if attribute.t is not None else 0
    return size
