"""Names that nothing else has, and names in subgraphs that hide none around them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from formats.rten.graph.ordering import defined, graphs, subgraphs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from formats.ir.model import Attribute, Graph, Node

Named = TypeVar("Named")


class Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Nothing new will be called `name`."""
        self._taken.add(name)

    def new(self, name: str, avoid: Collection[str] = ()) -> str:
        """The name, or where it is taken or to be avoided, with the first free number behind it; taken from then on."""
        if name not in self._taken and name not in avoid:
            self._taken.add(name)
            return name
        candidate, number = name, self._numbers.get(name, 0)
        while candidate in self._taken or candidate in avoid:
            number += 1
            candidate = f"{name}_{number}"
        self._numbers[name] = number
        self._taken.add(candidate)
        return candidate


def without_hiding(graph: Graph) -> Graph:
    """The graph, in whose subgraphs no value has the name of one around it; RTen would take that for it."""
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
