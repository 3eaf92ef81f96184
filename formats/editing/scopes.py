"""Where names and types stand in a model: in graphs, the subgraphs in them, and functions.

A name in a subgraph means the value of the nearest graph around it that defines the name. A function sees no names of
the graph that calls it.

Spec: ONNX IR, "Names Within a Graph"; onnx.proto, FunctionProto and TrainingInfoProto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import EditError
from formats.ir.model import Function, Graph, entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.ir.model import Dimension, Model, Node, SimpleShardedDim, TensorShape, Type, ValueInfo


def main_graph(model: Model) -> Graph:
    """The graph of a model that is not in another.

    Raises: EditError if the model has none.
    """
    if model.graph is None:
        raise EditError("the model has no graph, so there is nothing to edit")
    return model.graph


class NameScope(NamedTuple):
    """A graph or function, the names that it defines, those that it uses itself, and the scopes in it."""

    message: Graph | Function
    where: str
    defined: frozenset[str]
    used: frozenset[str]
    inner: tuple[NameScope, ...]

    def all_inner(self) -> Iterator[NameScope]:
        """This scope, and all in it."""
        stack = [self]
        while stack:
            scope = stack.pop()
            yield scope
            stack.extend(reversed(scope.inner))


def subgraphs_of(node: Node) -> list[tuple[str, Graph]]:
    """The graphs in the attributes of a node, each with the name of the attribute."""
    graphs = []
    for attribute in entries(node, "attribute"):
        name = attribute.name or ""
        if attribute.g is not None:
            graphs.append((name, attribute.g))
        graphs += [(name, graph) for graph in entries(attribute, "graphs")]
    return graphs


def defined_in(message: Graph | Function) -> set[str]:
    """The names of the values that a graph or function defines."""
    if isinstance(message, Function):
        names = set(message.input)
    else:
        names = {value.name or "" for value in message.input}
        names |= {tensor.name or "" for tensor in message.initializer}
        names |= {sparse.values.name or "" for sparse in entries(message, "sparse_initializer") if sparse.values}
    names.update(*(node.output for node in message.node))
    names.discard("")
    return names


def used_in(message: Graph | Function) -> set[str]:
    """The names that a graph or function uses, without those that only its subgraphs use."""
    names = {value if isinstance(value, str) else value.name or "" for value in message.output}
    names.update(*(node.input for node in message.node))
    names.discard("")
    return names


def scope_of(message: Graph | Function, where: str, more: Iterable[NameScope] = ()) -> NameScope:
    """The scope of a graph or function; `more` are scopes in it that are not those of its nodes."""
    inner = [
        scope_of(graph, f'{where}.node[{index}].attribute["{name}"]')
        for index, node in enumerate(message.node)
        for name, graph in subgraphs_of(node)
    ]
    return NameScope(message, where, frozenset(defined_in(message)), frozenset(used_in(message)), (*inner, *more))


def scopes_of(model: Model) -> list[NameScope]:
    """The outermost scopes of a model, the main graph first.

    The graphs that train a model see the names of the main graph; those that initialise it do not.
    """
    training = list(enumerate(entries(model, "training_info")))
    steps = [
        scope_of(info.algorithm, f"training_info[{index}].algorithm") for index, info in training if info.algorithm
    ]
    scopes = [] if model.graph is None else [scope_of(model.graph, "graph", steps)]
    scopes += [scope_of(function, f"functions[{index}]") for index, function in enumerate(model.functions)]
    for index, info in training:
        if info.initialization is not None:
            scopes.append(scope_of(info.initialization, f"training_info[{index}].initialization"))
    return scopes


def captured(node: Node) -> set[str]:
    """The names of outer values that the subgraphs of a node use."""
    names: set[str] = set()
    for _, graph in subgraphs_of(node):
        names |= used_in(graph).union(*map(captured, graph.node)) - defined_in(graph)
    return names


def names_used(node: Node) -> list[str]:
    """The names that a node uses: its inputs, and what its subgraphs take from outside."""
    return [*filter(None, node.input), *sorted(captured(node))]


def fresh(name: str, taken: set[str], numbers: dict[str, int] | None = None) -> str:
    """The name with the first number that makes it a free one, which is then taken.

    `numbers` are the last ones by name, for callers with many names that may be equal.
    """
    number = 2 if numbers is None else numbers.get(name, 1) + 1
    while (new := f"{name}_{number}") in taken:
        number += 1
    taken.add(new)
    if numbers is not None:
        numbers[name] = number
    return new


def shapes_of(kind: Type | None) -> Iterator[TensorShape]:
    """The shapes in a type: of a tensor, or of what is in a sequence, map or optional."""
    while kind is not None:
        tensor = kind.tensor_type or kind.sparse_tensor_type
        if tensor is not None:
            if tensor.shape is not None:
                yield tensor.shape
            return
        outer: Any = kind.sequence_type or kind.optional_type or kind.map_type
        kind = None if outer is None else outer.value_type if kind.map_type is not None else outer.elem_type


def shape_of(value: ValueInfo) -> TensorShape | None:
    """The shape of a value, if it is a tensor whose rank is known."""
    tensor = value.type.tensor_type if value.type is not None else None
    return None if tensor is None else tensor.shape


def all_messages(model: Model) -> Iterator[Graph | Function]:
    """Every graph and function of a model, with subgraphs and those of training."""
    roots: list[Any] = [model.graph, *model.functions]
    for info in entries(model, "training_info"):
        roots += [info.initialization, info.algorithm]
    stack = [root for root in reversed(roots) if root is not None]
    while stack:
        message = stack.pop()
        yield message
        stack += [graph for node in message.node for _, graph in subgraphs_of(node)]


def all_types(model: Model) -> Iterator[Type]:
    """Every type in a model."""
    for message in all_messages(model):
        values = entries(message, "value_info")
        if not isinstance(message, Function):
            values = [*message.input, *message.output, *values]
        yield from (value.type for value in values if value.type is not None)
        for node in message.node:
            yield from _types_in(node)


def _types_in(node: Node) -> Iterator[Type]:
    for attribute in entries(node, "attribute"):
        if attribute.tp is not None:
            yield attribute.tp
        yield from entries(attribute, "type_protos")


def all_dims(model: Model) -> Iterator[Dimension | SimpleShardedDim]:
    """Every dim in a model: of types, and of what is split over devices."""
    for kind in all_types(model):
        for shape in shapes_of(kind):
            yield from shape.dim
    for message in all_messages(model):
        for node in message.node:
            for configuration in entries(node, "device_configurations"):
                for spec in configuration.sharding_spec:
                    for sharded in spec.sharded_dim:
                        yield from sharded.simple_sharding
