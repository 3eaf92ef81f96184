"""The shapes that a model states: of inputs, outputs, inner values, and types in attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.editing.scopes import subgraphs
from formats.ir.model import Function, entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Dimension, Graph, Model, Node, SimpleShardedDim, TensorShape, Type, ValueInfo


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
        stack += [graph for node in message.node for _, graph in subgraphs(node)]


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
