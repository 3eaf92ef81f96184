"""Reads and makes the attributes of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from formats.ir.copies import content, message_of
from formats.ir.model import Attribute, AttributeType, Graph, Message, Node, Tensor, set_fields

M = TypeVar("M", bound=Message)

# The exceptions that a rule may raise for a malformed node.
MALFORMED = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError)


def attributes_key(node: Node) -> bytes | None:
    """What is equal for nodes with equal attributes; `None` if there is a tensor or a graph among them."""
    return content(vars(node).get("attribute") or [])


def make_attribute(name: str, value: Any) -> Attribute:
    """An attribute of the type that `value` has: a number, text, a tensor, a graph, or a list of numbers or texts."""
    if isinstance(value, bool | int):  # ONNX has no attributes of truth values
        return message_of(Attribute, name=name, type=AttributeType.INT.value, i=int(value))
    if isinstance(value, float):
        return message_of(Attribute, name=name, type=AttributeType.FLOAT.value, f=value)
    if isinstance(value, str):
        return message_of(Attribute, name=name, type=AttributeType.STRING.value, s=value.encode())
    if isinstance(value, Tensor):
        return message_of(Attribute, name=name, type=AttributeType.TENSOR.value, t=value)
    if isinstance(value, Graph):
        return message_of(Attribute, name=name, type=AttributeType.GRAPH.value, g=value)
    items = list(value)
    if items and isinstance(items[0], str):
        return message_of(
            Attribute, name=name, type=AttributeType.STRINGS.value, strings=[text.encode() for text in items]
        )
    if items and isinstance(items[0], float):
        return message_of(Attribute, name=name, type=AttributeType.FLOATS.value, floats=items)
    # An empty list counts as one of integers.
    return message_of(Attribute, name=name, type=AttributeType.INTS.value, ints=[int(item) for item in items])


def make_node(op_type: str, inputs: Iterable[str], outputs: Iterable[str], **attributes: Any) -> Node:
    """A node of ONNX's own domain; an attribute whose value is `None` is left out."""
    return message_of(
        Node,
        input=list(inputs),
        output=list(outputs),
        op_type=op_type,
        attribute=[make_attribute(name, value) for name, value in attributes.items() if value is not None],
    )


def with_fields(message: M, **fields: Any) -> M:
    """A copy of a message with other values of some fields.

    Unlike `dataclasses.replace`, it does not create lists that nobody has read; it takes a tenth of the time.
    """
    copy = object.__new__(type(message))
    set_fields(copy, vars(message) | fields)
    return copy


def with_input(node: Node, place: int, name: str) -> list[str]:
    """The inputs of a node with `name` at `place`; omitted ones before it stay empty."""
    inputs = list(node.input) + [""] * (place + 1 - len(node.input))
    inputs[place] = name
    return inputs
