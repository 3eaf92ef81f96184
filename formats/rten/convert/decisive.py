"""Which values are rounded, truncated or compared, so that a difference in the last bit may become a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.graph.attributes import get_int
from formats.rten.graph.ordering import topological
from formats.rten.operators import activation, casting, comparison, elementwise, indexing, shape, slicing
from formats.rten.types import FLOATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node
    from formats.rten.operators.shared.spec import OperatorSpec


def _names(*specs: OperatorSpec) -> frozenset[str]:
    return frozenset(spec.name for spec in specs)


STEPS: Final = _names(
    comparison.Equal, comparison.Greater, comparison.GreaterOrEqual, comparison.Less, comparison.LessOrEqual,
    elementwise.Ceil, elementwise.Floor, elementwise.Mod, elementwise.Round,
)  # fmt: skip
# Operators that pass elements on, moved or changed a little; a Cast to floats does this, too.
PASSING: Final = _names(
    activation.Relu, comparison.Where, elementwise.Abs, elementwise.Add, elementwise.Clip, elementwise.Div,
    elementwise.Max, elementwise.Min, elementwise.Mul, elementwise.Neg, elementwise.Sub, elementwise.Sum,
    indexing.Gather, shape.Expand, shape.Flatten, shape.Identity, shape.Reshape, shape.Squeeze, shape.Tile,
    shape.Transpose, shape.Unsqueeze, slicing.Concat, slicing.Slice, slicing.Split,
)  # fmt: skip


def add_decisive(graphs: Sequence[Sequence[Node]], found: set[str]) -> None:
    """Add the names of such values to `found`. `graphs` has the nodes of each, before those inside."""
    if all(node.op_type != elementwise.Div.name for nodes in graphs for node in nodes):  # no other form depends on it
        return
    for nodes in reversed(graphs):
        for index in reversed(topological(nodes)):
            node = nodes[index]
            is_cast = node.op_type == casting.Cast.name
            is_step = node.op_type in STEPS or (is_cast and get_int(node, "to") not in FLOATS)
            if is_step or ((is_cast or node.op_type in PASSING) and not found.isdisjoint(node.output)):
                found.update(node.input)
