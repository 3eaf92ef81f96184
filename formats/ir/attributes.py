"""Reads the attributes and the names of nodes.

Spec: onnx.proto, AttributeProto.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from formats.ir.model import entries

if TYPE_CHECKING:
    from formats.ir.model import Attribute, Node


def label_of(node: Node) -> str:
    """The name of a node in texts: its own, or that of its first output, or nothing for a malformed node."""
    return node.name or next(filter(None, node.output), "")


def attribute_named(node: Node, name: str) -> Attribute | None:
    """The attribute of a node with this name, if it has one."""
    return next((attribute for attribute in entries(node, "attribute") if attribute.name == name), None)


@overload
def get_int(node: Node, name: str, default: int = 0) -> int: ...
@overload
def get_int(node: Node, name: str, default: None) -> int | None: ...
def get_int(node: Node, name: str, default: int | None = 0) -> int | None:
    """An integer attribute; a writer may omit the value zero, so an attribute without a value is zero.

    One whose value is an attribute of the function around the node has the default here.
    """
    attribute = attribute_named(node, name)
    return default if attribute is None or attribute.ref_attr_name else attribute.i or 0


def get_float(node: Node, name: str, default: float = 0.0) -> float:
    """A floating-point attribute; one without a value is zero."""
    attribute = attribute_named(node, name)
    return default if attribute is None else attribute.f or 0.0


def get_string(node: Node, name: str, default: str = "") -> str:
    """A string attribute, as text."""
    attribute = attribute_named(node, name)
    return default if attribute is None else (attribute.s or b"").decode("utf-8", "replace")


def get_strings(node: Node, name: str) -> list[str]:
    """A list of strings, empty if the attribute is missing."""
    attribute = attribute_named(node, name)
    return [] if attribute is None else [text.decode("utf-8", "replace") for text in attribute.strings]


def get_ints(node: Node, name: str) -> list[int] | None:
    """A list of integers, or `None` if the attribute is absent."""
    attribute = attribute_named(node, name)
    return None if attribute is None else attribute.ints


def get_floats(node: Node, name: str) -> list[float] | None:
    """A list of numbers, or `None` if the attribute is absent."""
    attribute = attribute_named(node, name)
    return None if attribute is None else attribute.floats
