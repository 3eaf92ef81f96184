"""A legal model in the element types that RTen's ONNX loader reads.

A legal model computes the same with any integer type that contains its numbers. So a type that the loader does not know
is replaced by the next larger type that it knows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from formats.ir.dtypes import BY_NUMBER, INT32, INT64, UINT64, type_name
from formats.ir.model import Attribute, Dimension, Graph, Node, Tensor, Type, ValueInfo
from formats.ir.storage import from_numpy, with_raw_data
from formats.rten.convert.value_types import element_type
from formats.rten.graph.constants import as_rten_constant
from formats.rten.types import HOLDERS, INT64_LIMITS, READ_TYPES, UNKNOWN_DIMS
from formats.tensordata.plan import INTERFACE, Losses

TYPE_ATTRIBUTES: Final = ("to", "dtype", "output_dtype")
# The type that replaces an element type. Outside of RTen, UINT32 and UINT64 need a type of 64 bits.
READ_AS: Final[Mapping[int, int]] = {
    number: INT64 if element.number == INT32 and BY_NUMBER[number].bits >= 32 else element.number
    for number, element in HOLDERS.items()
    if number not in READ_TYPES
}


def in_read_types(graph: Graph, kinds: Collection[int | None], losses: Losses) -> Graph:
    """The outermost graph with types that the loader reads. Each change of an input or output is a loss.

    `kinds` are the element types of the values that nodes compute.
    """
    readable = _graph(graph, has_others=not READ_AS.keys().isdisjoint(kinds))
    for field in ("input", "output"):
        for index, (before, after) in enumerate(zip(getattr(graph, field), getattr(readable, field), strict=True)):
            if before.type is not after.type and (change := _change(before.type, after.type)):
                detail = f"{change[0]} {field}s become {change[1]}"
                losses.add("interface_type", detail, f"graph.{field}[{index}]", before.name, seen=INTERFACE)
    return readable


def _change(before: Type | None, after: Type | None) -> tuple[str, str] | None:
    """The names of a type and of the type that replaced it, if the two differ."""
    if before is not None and before.optional_type is not None:
        return "optional", "plain values"
    words = element_type(before), element_type(after)
    return None if words[0] == words[1] else (type_name(words[0]), type_name(words[1]))


def _graph(graph: Graph, *, has_others: bool = True) -> Graph:
    by_field: dict[str, Any] = {
        field: [_value(value) for value in getattr(graph, field)] for field in ("input", "output", "value_info")
    }
    if has_others:  # otherwise, attributes of the nodes can stay undecoded
        by_field["initializer"] = [_tensor(tensor) for tensor in graph.initializer]
        by_field["node"] = [node_in_read_types(node) for node in graph.node]
    changed = {
        field: items
        for field, items in by_field.items()
        if any(new is not old for new, old in zip(items, getattr(graph, field), strict=True))
    }
    return replace(graph, **changed) if changed else graph


def node_in_read_types(node: Node) -> Node:
    """The node with attributes that name types which the loader reads."""
    attributes = node.attribute
    readable = [_attribute(attribute) for attribute in attributes]
    if all(new is old for new, old in zip(readable, attributes, strict=True)):
        return node
    return replace(node, attribute=readable)


def _attribute(attribute: Attribute) -> Attribute:
    if attribute.name in TYPE_ATTRIBUTES and attribute.i in READ_AS:
        return replace(attribute, i=READ_AS[attribute.i or 0])
    if attribute.t is not None and (tensor := _tensor(attribute.t)) is not attribute.t:
        return replace(attribute, t=tensor)
    if attribute.g is not None and (graph := _graph(attribute.g)) is not attribute.g:
        return replace(attribute, g=graph)
    return attribute


def _tensor(tensor: Tensor) -> Tensor:
    """The tensor in a type that the loader reads; its elements are converted when they are read."""
    read_as = READ_AS.get(tensor.data_type or 0)
    if read_as is None:
        return tensor
    if read_as == INT64:
        numbers = tensor.numpy()
        if tensor.data_type == UINT64:
            numbers = numbers.clip(max=INT64_LIMITS[1])  # RTen clamps them further, to 32 bits
        widened = from_numpy(numbers.astype("int64"), tensor.name)
        return replace(widened, doc_string=tensor.doc_string)
    return replace(with_raw_data(tensor, as_rten_constant(tensor).source), data_type=read_as)


def _value(value: ValueInfo) -> ValueInfo:
    if value.type is None:
        return value
    value_type = _type(value.type)
    return value if value_type is value.type else replace(value, type=value_type)


def _type(value_type: Type) -> Type:
    if value_type.optional_type is not None and value_type.optional_type.elem_type is not None:
        return _type(value_type.optional_type.elem_type)  # RTen has no optional values
    if value_type.sequence_type is not None and value_type.sequence_type.elem_type is not None:
        inner = value_type.sequence_type.elem_type
        inner_type = _type(inner)
        if inner_type is inner:
            return value_type
        return replace(value_type, sequence_type=replace(value_type.sequence_type, elem_type=inner_type))
    tensor = value_type.tensor_type
    if tensor is None:
        return value_type
    changes: dict[str, Any] = {}
    if tensor.elem_type in READ_AS:
        changes["elem_type"] = READ_AS[tensor.elem_type or 0]
    shape = tensor.shape
    if shape is not None and has_unknown_dims(value_type):
        dims = [Dimension(denotation=dim.denotation) if _is_unknown(dim) else dim for dim in shape.dim]
        changes["shape"] = replace(shape, dim=dims)
    return replace(value_type, tensor_type=replace(tensor, **changes)) if changes else value_type


def has_unknown_dims(value_type: Type | None) -> bool:
    """Whether a tensor has a dimension with neither a size nor a real name."""
    shape = value_type.tensor_type.shape if value_type is not None and value_type.tensor_type is not None else None
    return shape is not None and any(map(_is_unknown, shape.dim))


def _is_unknown(dim: Dimension) -> bool:
    return dim.dim_param in UNKNOWN_DIMS and dim.dim_value is None
