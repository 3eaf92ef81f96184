"""Nodes in an order in which each one comes after those whose values it uses, and who makes and uses a value."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from formats.editing.scopes import names_used
from formats.editing.shapes import all_messages
from formats.errors import EditError

if TYPE_CHECKING:
    from formats.ir.model import Function, Graph, Model, Node


class Value(NamedTuple):
    """A value of a graph: its name, the node that makes it, and the nodes that use it.

    A node uses what its subgraphs use. `producer` is `None` for an input, an initializer, and a value from outside.
    """

    name: str
    producer: Node | None
    users: tuple[Node, ...]


def values_of(graph: Graph) -> dict[str, Value]:
    """The values of a graph by name, in the order in which they are first mentioned."""
    makers: dict[str, Node] = {}
    users: dict[str, list[Node]] = {}
    for name in (*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)):
        users.setdefault(name or "", [])
    for node in graph.node:
        for name in dict.fromkeys(names_used(node)):
            users.setdefault(name, []).append(node)
        for name in filter(None, node.output):
            makers[name] = node
            users.setdefault(name, [])
    return {name: Value(name, makers.get(name), tuple(nodes)) for name, nodes in users.items()}


def sort_in(model: Model) -> None:
    """Bring the nodes of all graphs and functions into order; nodes that are in order keep theirs.

    Raises: EditError if nodes need each other in a circle.
    """
    for message in all_messages(model):
        message.node = _sorted(message)


def _sorted(message: Graph | Function) -> list[Node]:
    nodes = message.node
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needed = [{makers[name] for name in names_used(node) if name in makers} for node in nodes]
    followers: list[list[int]] = [[] for _ in nodes]
    for index, before in enumerate(needed):
        for each in before:
            followers[each].append(index)
    counts = [len(before) for before in needed]
    ready = [index for index, count in enumerate(counts) if not count]
    heapify(ready)
    order = []
    while ready:
        index = heappop(ready)
        order.append(nodes[index])
        for each in followers[index]:
            counts[each] -= 1
            if not counts[each]:
                heappush(ready, each)
    if len(order) < len(nodes):
        stuck = next(nodes[index] for index, count in enumerate(counts) if count)
        name = f"{stuck.op_type} {stuck.name or ', '.join(stuck.output)}"
        raise EditError(f"nodes need each other in a circle, such as {name}")
    return order
