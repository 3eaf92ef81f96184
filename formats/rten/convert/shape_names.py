"""Finds the values of a graph that are used only as dims. They fit in 32 bits, because no tensor is larger."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

from formats.ir.node_order import topological
from formats.rten.graph.uses import Uses
from formats.rten.operators import SPECS
from formats.rten.operators.shared.spec import OperatorSpec

if TYPE_CHECKING:
    from formats.ir.model import Graph

UNKNOWN: Final = OperatorSpec("")


class ShapeNames:
    """The names of such values of one graph, computed at the first use."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def has(self, name: str) -> bool:
        """Whether the value with that name is used, and only as dims."""
        return self._found.get(name, False)

    @cached_property
    def _found(self) -> dict[str, bool]:
        graph = self._graph
        found = dict.fromkeys(Uses(graph).inner, False)
        found.update((value.name or "", False) for value in graph.output)
        for index in reversed(topological(graph.node)):
            node = graph.node[index]
            spec = SPECS.get(node.op_type or "", UNKNOWN)
            is_shape = all(found.get(name, True) for name in node.output)
            for place, name in enumerate(node.input):
                serves = place in spec.outputs.sizes or (is_shape and place in spec.outputs.sizes_from)
                found[name] = serves and found.get(name, True)
        return found
