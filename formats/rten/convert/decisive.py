"""Which values are rounded, truncated or compared, so that a difference in the last bit may become a large one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.graph.attributes import get_int
from formats.rten.graph.ordering import topological
from formats.rten.types import FLOATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node

STEPS: Final = frozenset(
    ("Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Round")
)  # and a Cast to integers
# What passes elements on, moved or changed a little, as does a Cast to floats.
PASSING: Final = frozenset((
    "Abs", "Add", "Clip", "Concat", "Div", "Expand", "Flatten", "Gather", "Identity", "Max", "Min", "Mul", "Neg",
    "Relu", "Reshape", "Slice", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where",
))  # fmt: skip


def add_decisive(graphs: Sequence[Sequence[Node]], found: set[str]) -> None:
    """Add the names of such values to `found`. `graphs` has the nodes of each, before those inside."""
    if all(node.op_type != "Div" for nodes in graphs for node in nodes):  # no other form depends on it
        return
    for nodes in reversed(graphs):
        for index in reversed(topological(nodes)):
            node = nodes[index]
            is_cast = node.op_type == "Cast"
            is_step = node.op_type in STEPS or (is_cast and get_int(node, "to") not in FLOATS)
            if is_step or ((is_cast or node.op_type in PASSING) and not found.isdisjoint(node.output)):
                found.update(node.input)
