"""The values of a graph or function: the node that makes each, the nodes that use it, and what it is.

Spec: ONNX IR, "Names Within a Graph"; onnx.proto, GraphProto and FunctionProto.
"""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any

from formats.editing.nodes import constant_of_node
from formats.editing.scopes import defined_in, names_used
from formats.ir import FIRST_WITH_CONSTANTS
from formats.ir.model import Graph, Node, Tensor, Type, entries, type_of_tensor

if TYPE_CHECKING:
    from formats.ir.model import Function, Model


class Value:
    """A value: its name, the node that makes it, the nodes that use it, its elements, and its type.

    A node uses what its subgraphs use.
    """

    def __init__(self, name: str, values: Values) -> None:
        self.name = name
        self._values = values

    def __repr__(self) -> str:
        return f"Value({self.name!r})"

    @property
    def producer(self) -> Node | None:
        """The node that makes it; `None` for an input, an initializer, and a value from outside."""
        return self._values.makers.get(self.name)

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that use it."""
        return tuple(self._values.users.get(self.name, {}).values())

    @property
    def tensor(self) -> Tensor | None:
        """Its elements, if it is a constant."""
        return self._values.constants.get(self.name)

    @property
    def type(self) -> Type | None:
        """Its type, if the model states it."""
        tensor = self.tensor
        return self._values.types.get(self.name) or (None if tensor is None else type_of_tensor(tensor))


class Values:
    """The values of a graph or function, while nodes come and go; `outer` are those of the graph around it."""

    def __init__(self, model: Model, message: Graph | Function, outer: Values | None = None) -> None:
        self.makers: dict[str, Node] = {}
        self.users: dict[str, dict[int, Node]] = {}  # by name, and then by the `id` of the node
        self.same: dict[str, str] = {}  # other names of values
        self.outputs = {value if isinstance(value, str) else value.name or "" for value in message.output}
        around: ChainMap[str, Tensor | None] = ChainMap() if outer is None else outer.constants
        # A name that is defined here hides a constant around.
        self.constants: ChainMap[str, Tensor | None] = around.new_child(dict.fromkeys(defined_in(message)))
        self.types: dict[str | None, Type | None] = {value.name: value.type for value in entries(message, "value_info")}
        if isinstance(message, Graph):
            self.types.update((value.name, value.type) for value in (*message.input, *message.output))
            is_old = (model.ir_version or 0) < FIRST_WITH_CONSTANTS  # where each initializer is an input, too
            given = set() if is_old else {value.name for value in message.input}
            for tensor in message.initializer:
                if tensor.name not in given:
                    self.constants[tensor.name or ""] = tensor
            named: list[Any] = [*message.input, *message.initializer]
            self.users.update((value.name or "", {}) for value in named)
        for node in message.node:
            self.add(node)

    def add(self, node: Node) -> None:
        """Add a node."""
        for name in names_used(node):
            self.users.setdefault(self.same.get(name, name), {})[id(node)] = node
        for name in filter(None, node.output):
            self.makers[name] = node
            self.users.setdefault(name, {})
        if (tensor := constant_of_node(node)) is not None:
            self.constants[node.output[0]] = tensor

    def remove(self, node: Node) -> None:
        """Take a node out."""
        for name in names_used(node):
            self.users[self.same.get(name, name)].pop(id(node), None)
        for name in filter(None, node.output):
            del self.makers[name]
            self.constants[name] = None

    def take(self, name: str, other: str) -> None:
        """Let a name mean the value of another name, so that its users are users of that one."""
        self.same[name] = other
        self.users.setdefault(other, {}).update(self.users.pop(name, {}))
        if name in self.outputs:
            self.outputs.add(other)

    def all(self) -> dict[str, Value]:
        """The values by name, in the order in which they are first mentioned."""
        return {name: Value(name, self) for name in self.users}
