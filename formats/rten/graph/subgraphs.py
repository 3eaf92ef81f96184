"""The names of values in subgraphs, changed to what RTen finds: it looks for outer values by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from formats.ir.node_order import Names, defined, graphs, mentioned, subgraphs
from formats.rten.graph.attributes import make_node
from formats.rten.graph.constants import is_constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Graph, Tensor, ValueInfo

    Named = TypeVar("Named", ValueInfo, Tensor)


def without_hiding(graph: Graph) -> Graph:
    """The graph with values of subgraphs renamed that hide outer ones, since RTen would use the outer values."""
    if not subgraphs(graph.node):
        return graph
    names = Names(name for _, inner in graphs(graph) for name in defined(inner))
    return _renamed(graph, frozenset(), {}, names)


def _renamed(graph: Graph, outer: frozenset[str], outer_changes: Mapping[str, str], names: Names) -> Graph:
    """A graph inside of graphs with the values `outer`, some of which have new names."""
    # A value of this graph ends the new name of an outer one with the same name.
    own = defined(graph)
    changes = {name: new for name, new in outer_changes.items() if name not in own}
    changes |= {name: names.new(name) for name in sorted(own & outer - {""})}
    nodes = list(graph.node)
    for index, name, inner in subgraphs(graph.node):
        renamed = _renamed(inner, outer | own, changes, names)
        attributes = [replace(other, g=renamed) if other.name == name else other for other in nodes[index].attribute]
        nodes[index] = replace(nodes[index], attribute=attributes)
    if not changes:
        return replace(graph, node=nodes)

    def with_new_names(messages: list[Named]) -> list[Named]:
        return [
            replace(message, name=changes[message.name]) if message.name in changes else message for message in messages
        ]

    return replace(
        graph,
        node=[
            replace(
                node,
                input=[changes.get(name, name) for name in node.input],
                output=[changes.get(name, name) for name in node.output],
            )
            for node in nodes
        ],
        input=with_new_names(graph.input),
        output=with_new_names(graph.output),
        value_info=with_new_names(graph.value_info),
        initializer=with_new_names(graph.initializer),
    )


def with_reached_names(graph: Graph) -> tuple[Graph, set[str]]:
    """The graph with the captures that RTen's ONNX loader misses, and the outputs of the nodes that need them.

    Among the values that a subgraph captures, the loader finds those that its own nodes use, but not those that only
    graphs in it use. If a node with such graphs has constant inputs, the loader runs it while it loads the model, and
    stops because the captured value is missing. An Identity whose result is unused makes the name known.
    """
    if not any(subgraphs(inner.node) for _, _, inner in subgraphs(graph.node)):
        return graph, set()
    needy: set[str] = set()
    names = Names(name for _, inner in graphs(graph) for name in defined(inner))
    return _reached(graph, frozenset(), names, needy, is_outermost=True), needy


def _reached(
    graph: Graph, outer: frozenset[str], names: Names, needy: set[str], *, is_outermost: bool = False
) -> Graph:
    """A graph inside of graphs with the constants `outer`. The graphs in it are changed first."""
    constants = {*outer, "", *(tensor.name or "" for tensor in graph.initializer)}
    constants.update(*(node.output for node in graph.node if is_constant(node)))
    nodes = list(graph.node)
    for index, name, inner in subgraphs(graph.node):
        reached = _reached(inner, frozenset(constants), names, needy)
        attributes = [replace(other, g=reached) if other.name == name else other for other in nodes[index].attribute]
        nodes[index] = replace(nodes[index], attribute=attributes)
    # The outermost graph captures nothing.
    if is_outermost:
        return replace(graph, node=nodes)
    visible = {*defined(graph), *(value.name or "" for value in graph.output)}.union(*(node.input for node in nodes))
    missing: set[str] = set()
    for node in nodes:
        captured = {name for name in mentioned(node) if name not in visible}
        if not constants.issuperset(node.input):
            continue
        # A node whose inputs and captures are all constants runs at load, and so do those that use its outputs.
        if captured <= constants:
            constants.update(node.output)
        else:
            missing |= captured - constants
            needy.update(node.output)
    identities = [make_node("Identity", [name], [names.new(f"{name}/captured")]) for name in sorted(missing)]
    return replace(graph, node=[*identities, *nodes])
