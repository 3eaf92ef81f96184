"""Other names for values of subgraphs that are called like a value around them.

ONNX lets the inner one hide the outer one. RTen, once it has computed a value while it loads a model, puts it in the
place of every value of that name, in subgraphs too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from formats.rten.graph.ordering import defined, subgraphs

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from formats.ir.model import Attribute, Graph, Node
    from formats.rten.graph.names import Names


def unshadowed(graph: Graph, names: Names) -> Graph:
    """The graph, no value of whose subgraphs is called like one around it; the given one is not changed."""
    if not subgraphs(graph.node) or not _hides(graph, frozenset()):
        return graph
    return _renamed(graph, {}, frozenset(), names)


def _own(graph: Graph) -> set[str]:
    """The names of the values that a graph has itself."""
    sparse = {tensor.values.name or "" for tensor in graph.sparse_initializer if tensor.values is not None}
    return (defined(graph) | sparse) - {""}


def _hides(graph: Graph, outer: Set[str]) -> bool:
    own = _own(graph)
    return not outer.isdisjoint(own) or any(_hides(inner, outer | own) for _, _, inner in subgraphs(graph.node))


def _renamed(graph: Graph, around: Mapping[str, str], outer: Set[str], names: Names) -> Graph:
    """The graph with new names for its values that are among the `outer` ones; `around` are the new names of those."""
    own = _own(graph)
    new = {name: name for name in own} | {name: names.new(name) for name in sorted(own & outer)}
    known = {**around, **new}
    outer = outer | own
    return replace(
        graph,
        node=[_node(node, known, outer, names) for node in graph.node],
        input=[replace(value, name=new.get(value.name or "", value.name)) for value in graph.input],
        output=[replace(value, name=known.get(value.name or "", value.name)) for value in graph.output],
        value_info=[replace(value, name=new.get(value.name or "", value.name)) for value in graph.value_info],
        initializer=[replace(tensor, name=new.get(tensor.name or "", tensor.name)) for tensor in graph.initializer],
        sparse_initializer=[
            tensor
            if tensor.values is None
            else replace(tensor, values=replace(tensor.values, name=new.get(tensor.values.name or "", "")))
            for tensor in graph.sparse_initializer
        ],
    )


def _node(node: Node, known: Mapping[str, str], outer: Set[str], names: Names) -> Node:
    """A node with the new names of what it uses and makes."""
    attributes: list[Attribute] = node.attribute
    if subgraphs((node,)):
        attributes = [
            attribute if attribute.g is None else replace(attribute, g=_renamed(attribute.g, known, outer, names))
            for attribute in attributes
        ]
    elif all(known.get(name, name) == name for name in chain(node.input, node.output)):
        return node
    renamed = ([known.get(name, name) for name in given] for given in (node.input, node.output))
    return replace(node, input=next(renamed), output=next(renamed), attribute=attributes)
