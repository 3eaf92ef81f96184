"""Nodes whose attributes say float32, with float16 in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.float16.operators import TYPE_ATTRIBUTES
from formats.editing.float16.values import with_element
from formats.editing.making import make_attribute
from formats.editing.operator_sets import ONNX
from formats.ir.copies import copied
from formats.ir.dtypes import FLOAT, FLOAT16
from formats.ir.model import entries
from formats.ir.storage import from_numpy

if TYPE_CHECKING:
    from formats.editing.float16.values import Value
    from formats.editing.float16.weights import Halved
    from formats.ir.model import Attribute, Node, Tensor


def is_constant(node: Node) -> bool:
    """Whether a node is a constant, which can have either type."""
    return node.op_type == "Constant" and (node.domain or "") in ONNX


def in_float16(node: Node, made: Value | None, halved: Halved) -> None:
    """Change the attributes of a node whose first output becomes float16."""
    if made is None or made.kind == "other" or made.native != FLOAT16 or (node.domain or "") not in ONNX:
        return
    if node.op_type in ("Constant", "ConstantOfShape"):
        node.attribute = [_constant(each, made.name, halved) for each in node.attribute]
        if not node.attribute and node.op_type == "ConstantOfShape":
            node.attribute = [make_attribute("value", _zero())]
        return
    name, missing = TYPE_ATTRIBUTES.get(node.op_type or "", ("", 0))
    given = {each.name for each in entries(node, "attribute")}
    if name in given:
        node.attribute = [_typed(each, name) for each in node.attribute]
    elif missing == FLOAT:
        node.attribute = [*node.attribute, make_attribute(name, FLOAT16)]
    if any(each.tp is not None for each in entries(node, "attribute")):
        node.attribute = [_with_type(each) for each in node.attribute]


def _typed(attribute: Attribute, name: str) -> Attribute:
    """The attribute, with float16 in place of float32 if it is the one that names the type."""
    if attribute.name != name or not (attribute.i == FLOAT or attribute.s == b"FLOAT"):  # a text before version 6
        return attribute
    new = copied(attribute)
    if attribute.s is None:
        new.i = FLOAT16
    else:
        new.s = b"FLOAT16"
    return new


def _with_type(attribute: Attribute) -> Attribute:
    if attribute.tp is None:
        return attribute
    new = copied(attribute)
    new.tp = with_element(attribute.tp, FLOAT16)
    return new


def _constant(attribute: Attribute, place: str, halved: Halved) -> Attribute:
    """The value of a constant as float16."""
    if attribute.name in ("value_float", "value_floats"):
        return make_attribute("value", halved.of(_numbers(attribute), place))
    new = copied(attribute)
    if new.t is not None and new.t.data_type == FLOAT:
        new.t = halved.of(new.t, place)
    if new.sparse_tensor is not None and new.sparse_tensor.values is not None:
        new.sparse_tensor.values = halved.of(new.sparse_tensor.values, place)
    return new


def _numbers(attribute: Attribute) -> Tensor:
    import numpy

    return from_numpy(numpy.array(attribute.f if attribute.name == "value_float" else attribute.floats, "float32"))


def _zero() -> Tensor:
    import numpy

    return from_numpy(numpy.zeros(1, "float16"))
