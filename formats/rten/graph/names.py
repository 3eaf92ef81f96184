"""New names for values in subgraphs that hide outer values, and the names that nodes use and read."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from formats.ir.model import Graph
from formats.ir.node_order import Names, defined, graphs, subgraphs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.ir.model import Attribute, Model, Node

Named = TypeVar("Named")


def without_hiding(graph: Graph) -> Graph:
    """The graph with values of subgraphs renamed that hide outer ones, since RTen would use the outer values."""
    if not subgraphs(graph.node):
        return graph
    names = Names(name for _, each in graphs(graph) for name in defined(each))
    return _shown(graph, frozenset(), {}, names)


def _shown(graph: Graph, outer: frozenset[str], around: Mapping[str, str], names: Names) -> Graph:
    own = defined(graph)
    written = {name: new for name, new in around.items() if name not in own}
    written |= {name: names.new(name) for name in sorted(own & outer - {""})}
    visible = outer | own

    def named(entries: list[Named]) -> list[Named]:
        return [
            replace(entry, name=written[entry.name]) if getattr(entry, "name", "") in written else entry  # type: ignore[attr-defined,type-var]
            for entry in entries
        ]

    def inner(attribute: Attribute) -> Attribute:
        return attribute if attribute.g is None else replace(attribute, g=_shown(attribute.g, visible, written, names))

    def node_of(node: Node, has_graphs: bool) -> Node:
        inputs, outputs = ([written.get(name, name) for name in given] for given in (node.input, node.output))
        attributes = [*map(inner, node.attribute)] if has_graphs else node.attribute
        return replace(node, input=inputs, output=outputs, attribute=attributes)

    with_graphs = {index for index, _, _ in subgraphs(graph.node)}
    nodes = [
        node_of(node, index in with_graphs) if written or index in with_graphs else node
        for index, node in enumerate(graph.node)
    ]
    if not written:
        return replace(graph, node=nodes)
    return replace(
        graph,
        node=nodes,
        input=named(graph.input),
        output=named(graph.output),
        value_info=named(graph.value_info),
        initializer=named(graph.initializer),
    )


def used_and_read(model: Model) -> tuple[list[str], set[str]]:
    """The names of all values, and the names of values that are read."""
    used: list[str] = []
    read: set[str] = set()
    for graph in _all_graphs(model):
        used += [value.name or "" for value in (*graph.input, *graph.value_info)]
        used += [tensor.name or "" for tensor in graph.initializer]
        used += [sparse.values.name or "" for sparse in graph.sparse_initializer if sparse.values]
        read.update(value.name or "" for value in graph.output)
        used += chain.from_iterable([node.output for node in graph.node])
        read.update(chain.from_iterable([node.input for node in graph.node]))
    for function in model.functions:
        read.update(function.output)
    return used, read


def _all_graphs(model: Model) -> Iterator[Graph]:
    """All graphs of a model. The nodes of a function count as a graph."""
    outermost = [model.graph or Graph(), *(Graph(node=function.node) for function in model.functions)]
    return (found for graph in outermost for _, found in graphs(graph))
