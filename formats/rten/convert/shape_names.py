"""Which values of a graph serve only as dims: no tensor is so large that they leave 32 bits."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from formats.rten.graph.ordering import topological
from formats.rten.graph.uses import find_uses

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Graph

# The inputs that are dims, or numbers of elements.
DIMS: Final[Mapping[str, frozenset[int]]] = {
    "Reshape": frozenset((1,)),
    "Expand": frozenset((1,)),
    "ConstantOfShape": frozenset((0,)),
    "Tile": frozenset((1,)),
    "Range": frozenset((1,)),
    "OneHot": frozenset((1,)),
    "Resize": frozenset((3,)),
    "TopK": frozenset((1,)),
    "Split": frozenset((1,)),
}
# The inputs of which an output has elements or products, so that they are no larger.
PASSED: Final[Mapping[str, frozenset[int]]] = {
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Cast", "Reshape", "Gather", "Slice"), frozenset((0,))),
    "Mul": frozenset((0, 1)),
    "Concat": frozenset(range(64)),
}


class ShapeNames:
    """The names of such values of one graph, found out when somebody asks."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def has(self, name: str) -> bool:
        """Whether the value of that name is used, and only as dims."""
        return self._found.get(name, False)

    @cached_property
    def _found(self) -> dict[str, bool]:
        graph = self._graph
        found = dict.fromkeys(find_uses(graph).inner, False)
        found.update((value.name or "", False) for value in graph.output)
        for index in reversed(topological(graph.node)):
            node = graph.node[index]
            op_type = node.op_type or ""
            is_shape = all(found.get(name, True) for name in node.output)
            for place, name in enumerate(node.input):
                serves = place in DIMS.get(op_type, ()) or (is_shape and place in PASSED.get(op_type, ()))
                found[name] = serves and found.get(name, True)
        return found
