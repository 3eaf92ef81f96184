"""The graphs in a graph, the names that its nodes use, new names, and an order of nodes after what they need."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from formats.ir.model import Graph, Node


def defined(graph: Graph) -> set[str]:
    """The names of the values that a graph defines."""
    names = {value.name or "" for value in graph.input} | {tensor.name or "" for tensor in graph.initializer}
    return names.union(*(node.output for node in graph.node))


def graphs_below(graph: Graph, where: str = "") -> Iterator[tuple[str, Graph]]:
    """The graph and its subgraphs, each with its place.

    It searches only where RTen has graphs, in a tenth of the time of `walk.graphs`, which searches everywhere.
    """
    yield where, graph
    for index, name, inner in subgraphs(graph.node):
        yield from graphs_below(inner, f'{where}.node[{index}].attribute["{name}"].g')


def subgraphs(nodes: Sequence[Node]) -> list[tuple[int, str, Graph]]:
    """The graphs in nodes, each with the index of the node and the name of the attribute."""
    return [
        (index, attribute.name or "", attribute.g)
        for index, node in enumerate(nodes)
        for attribute in vars(node).get("attribute", ())
        if attribute.g is not None
    ]


def mentioned(node: Node) -> list[str]:
    """The names that a node uses, and the outer names that its subgraphs use."""
    names = node.input
    for _, _, graph in subgraphs((node,)):
        used = {name for inner in graph.node for name in mentioned(inner)}
        used.update(value.name or "" for value in graph.output)
        names = [*names, *sorted(used - defined(graph))]
    return names


def all_mentioned(nodes: Sequence[Node]) -> set[str]:
    """The names that some nodes use, and the outer names that their subgraphs use."""
    names = set(chain.from_iterable([node.input for node in nodes]))
    return names.union(*(mentioned(nodes[index]) for index, _, _ in subgraphs(nodes)))


def _are_ordered(nodes: Sequence[Node]) -> bool:
    """Whether each node comes after those that it uses, as in most models."""
    later: set[str] = set()
    with_subgraphs = {index for index, _, _ in subgraphs(nodes)}
    for index in range(len(nodes) - 1, -1, -1):
        node = nodes[index]
        later.update(node.output)
        names = mentioned(node) if index in with_subgraphs else node.input
        if not later.isdisjoint(names) and later.intersection(names) != {""}:  # an omitted input
            return False
    return True


def topological(nodes: Sequence[Node]) -> Sequence[int]:
    """The indices of nodes, each after those that it uses; nodes on cycles are omitted."""
    if _are_ordered(nodes):
        return range(len(nodes))
    maker = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    return after_needs([{maker[name] for name in mentioned(node) if name in maker} for node in nodes])


def after_needs(needs: Sequence[set[int]]) -> list[int]:
    """The indices of `needs`, each after those that it needs, the lowest possible one first; without cycles."""
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


class Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def take(self, names: Iterable[str]) -> None:
        """Reserve names, so that no new name equals one of them."""
        self._taken.update(names)

    def new(self, name: str, avoid: Collection[str] = ()) -> str:
        """Reserve and return the name, with the first free number added if it is taken or must be avoided."""
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
