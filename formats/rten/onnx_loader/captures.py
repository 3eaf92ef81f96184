"""Makes captured values of subgraphs known where RTen's ONNX loader looks for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from formats.ir.node_order import Names, defined, graphs, mentioned, subgraphs
from formats.rten.graph.attributes import make_node
from formats.rten.graph.constants import is_constant
from formats.rten.operators import shape

if TYPE_CHECKING:
    from formats.ir.model import Graph


def with_reached_names(graph: Graph) -> tuple[Graph, set[str]]:
    """Return the graph with the captures that RTen's ONNX loader misses, and the outputs of the nodes that need them.

    Among the values that a subgraph captures, the loader finds those that its own nodes use, but not those that only
    graphs in it use. If a node with such graphs has constant inputs, the loader runs it while it loads the model, and
    stops because the captured value is missing. An Identity whose result is unused makes the name known.
    """
    if not any(subgraphs(inner.node) for _, _, inner in subgraphs(graph.node)):
        return graph, set()
    needy: set[str] = set()
    names = Names(name for _, each in graphs(graph) for name in defined(each))
    return _reached(graph, frozenset(), names, needy, is_outermost=True), needy


def _reached(
    graph: Graph, outer: frozenset[str], names: Names, needy: set[str], *, is_outermost: bool = False
) -> Graph:
    """`outer` has the constants of the graphs around. Graphs in the graph are changed first."""
    constants = {*outer, "", *(tensor.name or "" for tensor in graph.initializer)}
    constants.update(*(node.output for node in graph.node if is_constant(node)))
    nodes = [*graph.node]
    for index, name, inner in subgraphs(graph.node):
        made = _reached(inner, frozenset(constants), names, needy)
        attributes = [replace(each, g=made) if each.name == name else each for each in nodes[index].attribute]
        nodes[index] = replace(nodes[index], attribute=attributes)
    if is_outermost:
        return replace(graph, node=nodes)
    known = {*defined(graph), *(value.name or "" for value in graph.output)}.union(*(node.input for node in nodes))
    missing: set[str] = set()
    for node in nodes:
        reached = {name for name in mentioned(node) if name not in known}
        if not constants.issuperset(node.input):
            continue
        if reached <= constants:
            constants.update(node.output)
        else:
            missing |= reached - constants
            needy.update(node.output)
    named = [make_node(shape.Identity.name, [name], [names.new(f"{name}/captured")]) for name in sorted(missing)]
    return replace(graph, node=[*named, *nodes])
