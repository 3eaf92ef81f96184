"""Nodes in an order in which each one comes after those whose values it uses, and who makes and uses a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.editing.scopes import names_used
from formats.editing.shapes import all_messages
from formats.errors import EditError
from formats.ir.node_order import after_needs

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
    order = after_needs([{makers[name] for name in names_used(node) if name in makers} for node in nodes])
    if len(order) < len(nodes):
        stuck = nodes[min({*range(len(nodes))}.difference(order))]
        name = f"{stuck.op_type} {stuck.name or ', '.join(stuck.output)}"
        raise EditError(f"nodes need each other in a circle, such as {name}")
    return [nodes[index] for index in order]
