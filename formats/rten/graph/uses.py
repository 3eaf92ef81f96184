"""The names that a graph uses, and their purposes."""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from formats.ir.node_order import graphs, subgraphs
from formats.rten.operators import SPECS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Graph


class Uses:
    """The names that a graph uses, each kind searched when somebody first asks for it; the graph must not change."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def own(self) -> dict[str, None]:
        """The names that the nodes use, in order of first use, and the outputs."""
        own = dict.fromkeys(chain.from_iterable([node.input for node in self._graph.node]))
        own.pop("", None)  # an omitted input
        own.update(dict.fromkeys(self._outputs))
        return own

    @cached_property
    def inner(self) -> set[str]:
        """The names that the subgraphs use."""
        held = [inner for _, _, outermost in subgraphs(self._graph.node) for _, inner in graphs(outermost)]
        return {name for graph in held for name in _mentioned(graph)}

    @cached_property
    def bounds(self) -> set[str]:
        """The names used only as the start or end of slices, where any large number is infinite."""
        nodes = self._graph.node
        specs = {op_type: SPECS.get(op_type or "") for op_type in {node.op_type for node in nodes}}
        places = {op_type: spec.to_rten.bounds for op_type, spec in specs.items() if spec and spec.to_rten.bounds}
        bounds = {
            node.input[place]
            for node in (nodes if places else ())
            if node.op_type in places
            for place in places[node.op_type]
            if place < len(node.input)
        }
        if bounds:
            bounds -= self.inner.union(self._outputs)
            for node in nodes:
                free = places.get(node.op_type or "", ())
                bounds.difference_update(name for place, name in enumerate(node.input) if place not in free)
        return bounds

    @property
    def _outputs(self) -> list[str]:
        return [value.name or "" for value in self._graph.output]


def _mentioned(graph: Graph) -> Iterable[str]:
    for node in graph.node:
        yield from node.input
    for value in graph.output:
        yield value.name or ""
