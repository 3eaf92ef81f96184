"""The names that a graph uses, and their purposes."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from formats.ir.node_order import graphs, subgraphs
from formats.rten.operators import SPECS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Graph


class Uses(NamedTuple):
    """The names that the nodes of a graph use, and those that its subgraphs use."""

    own: dict[str, None]  # in order of first use
    inner: set[str]
    bounds: set[str]  # used only as the start or end of slices, where any large number is infinite


def find_uses(graph: Graph) -> Uses:
    """The names that the nodes of a graph and of its subgraphs mention."""
    own = dict.fromkeys(chain.from_iterable(node.input for node in graph.node))
    own.pop("", None)  # an omitted input
    outputs = [value.name or "" for value in graph.output]
    own.update(dict.fromkeys(outputs))
    held = [inner for _, _, outermost in subgraphs(graph.node) for _, inner in graphs(outermost)]
    inner = {name for graph in held for name in _mentioned(graph)}
    specs = {op_type: SPECS.get(op_type or "") for op_type in {node.op_type for node in graph.node}}
    places = {op_type: spec.bounds for op_type, spec in specs.items() if spec is not None and spec.bounds}
    bounds = {
        node.input[place]
        for node in (graph.node if places else ())
        if node.op_type in places
        for place in places[node.op_type]
        if place < len(node.input)
    }
    if bounds:
        bounds -= inner.union(outputs)
        for node in graph.node:
            free = places.get(node.op_type or "", ())
            bounds.difference_update(name for place, name in enumerate(node.input) if place not in free)
    return Uses(own, inner, bounds)


def _mentioned(graph: Graph) -> Iterable[str]:
    for node in graph.node:
        yield from node.input
    for value in graph.output:
        yield value.name or ""
