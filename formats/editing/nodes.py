"""Nodes, attributes and types made of Python values, and what a node holds as a Python value.

Spec: onnx.proto, AttributeProto, NodeProto and ValueInfoProto; ONNX operators, Constant.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from formats.errors import EditError
from formats.ir import STANDARD_DOMAINS, dtypes
from formats.ir.model import (
    VALUE_FIELDS,
    Attribute,
    AttributeType,
    Dimension,
    Graph,
    Node,
    SparseTensor,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
    entries,
)
from formats.ir.storage import constant_of, from_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence


_FIELDS = {Tensor: "t", Graph: "g", SparseTensor: "sparse_tensor", Type: "tp"}
_LISTS = {"f": "floats", "i": "ints", "s": "strings", "t": "tensors", "g": "graphs"}
_LISTS |= {"sparse_tensor": "sparse_tensors", "tp": "type_protos"}
_ZEROS: Final[dict[int | None, Any]] = {AttributeType.FLOAT: 0.0, AttributeType.INT: 0, AttributeType.STRING: ""}


def make_node(
    op_type: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    name: str | None = None,
    domain: str | None = None,
    **attributes: Any,
) -> Node:
    """Make a node; keywords are its attributes, as `make_attribute` takes them, and one that is `None` is left out.

    For example:

        >>> formats.make_node("Softmax", ["x"], ["y"], axis=1).op_type
        'Softmax'

    Raises: EditError for a value that no attribute can have.
    """
    made = [make_attribute(key, value) for key, value in attributes.items() if value is not None]
    return Node([*inputs], [*outputs], name, op_type, domain, attribute=made)


def make_attribute(name: str, value: Any) -> Attribute:
    """Make an attribute of a number, a text, bytes, an array, a tensor, a graph, a type, or a list of one of these.

    Numbers are integers if all of them are; a truth value is 0 or 1.

    For example:

        >>> formats.make_attribute("axes", [0, 1]).ints
        [0, 1]

    Raises: EditError for any other value, and for an empty list, whose type nobody knows.
    """
    if isinstance(value, (list, tuple, range)):
        if not value:
            raise EditError(f"the type of the attribute {name} is not known, because its list is empty")
        pairs = [_field_and_value(name, entry) for entry in value]
        fields = {field for field, _ in pairs}
        field = "f" if fields == {"i", "f"} else pairs[0][0]
        # Integers among floats are floats; no other mixture is a list of ONNX.
        if fields - {field} not in (set(), {"i"}) or (fields != {field} and field != "f"):
            raise EditError(f"the attribute {name} is a list of values of different kinds")
        return _attribute(name, _LISTS[field], [float(entry) if field == "f" else entry for _, entry in pairs])
    return _attribute(name, *_field_and_value(name, value))


def _attribute(name: str, field: str, value: Any) -> Attribute:
    """The attribute with a value in one of its fields."""
    made = Attribute(name, type=VALUE_FIELDS.index(field))
    setattr(made, field, value)
    return made


def _field_and_value(name: str, value: Any) -> tuple[str, Any]:
    """The field of an attribute for one value, and the value in it."""
    for kind, field in _FIELDS.items():
        if isinstance(value, kind):
            return field, value
    if isinstance(value, (str, bytes)):
        return "s", value.encode() if isinstance(value, str) else value
    if hasattr(value, "dtype"):
        if getattr(value, "shape", None) != ():
            return "t", from_numpy(value)
        value = value.item()
    if isinstance(value, (int, float)):
        return ("f", value) if isinstance(value, float) else ("i", int(value))
    raise EditError(f"the attribute {name} cannot be {value!r:.80} ({type(value).__name__})")


def make_value_info(name: str, elem_type: Any, dims: Sequence[int | str | None] | None = None) -> ValueInfo:
    """Make the description of a tensor: its name, element type and dims.

    The type is that of numpy, a name such as "float32" or "FLOAT", or a number of ONNX. A dim is a size, a name, or
    `None` if it is unknown; without `dims`, their number is unknown.

    For example:

        >>> formats.make_value_info("image", "float32", ["batch", 3, 224, 224]).name
        'image'

    Raises: EditError for a type that ONNX does not have.
    """
    shape = None
    if dims is not None:
        shape = TensorShape([_dimension(dim) for dim in dims])
    return ValueInfo(name, Type(tensor_type=TensorType(_number(elem_type), shape)))


def _dimension(dim: int | str | None) -> Dimension:
    return Dimension(dim_param=dim) if isinstance(dim, str) else Dimension(dim_value=dim)


def _number(elem_type: Any) -> int:
    if isinstance(elem_type, int) and elem_type in dtypes.BY_NUMBER:
        return elem_type
    for row in dtypes.DATA_TYPES:
        if isinstance(elem_type, str) and elem_type.lower() in (row.name.lower(), row.numpy_name):
            return row.number
    if not isinstance(elem_type, (int, str, type(None))):  # of which numpy makes the type of float64
        import numpy

        with suppress(TypeError):  # no type of numpy
            if row_of := dtypes.from_numpy_dtype(numpy.dtype(elem_type)):
                return row_of.number
    raise EditError(f"ONNX has no element type {elem_type!r:.80}")


def value_of(attribute: Attribute) -> Any:
    """The value of an attribute: a number, a text, a list of numbers or of bytes, a tensor, or a graph."""
    for field in ("t", "g", "i", "f"):
        if (value := getattr(attribute, field)) is not None:
            return value
    if attribute.s is not None:
        return attribute.s.decode(errors="replace")
    if attribute.type in _ZEROS:  # protobuf writes no value for zero
        return _ZEROS[attribute.type]
    return next((entries(attribute, field) for field in ("ints", "floats", "strings") if entries(attribute, field)), [])


def constant_of_node(node: Node) -> Tensor | None:
    """The tensor of a Constant under the name of its output; `None` for other nodes, and for one that is sparse."""
    attributes = entries(node, "attribute")
    if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS or len(node.output) != 1 or not attributes:
        return None
    tensor = None if attributes[0].ref_attr_name else constant_of(attributes[0])
    return None if tensor is None else replace(tensor, name=node.output[0])


def constant_node(tensor: Tensor) -> Node:
    """A constant as a node, which functions and models before IR version 4 need."""
    return Node([], [tensor.name or ""], None, "Constant", attribute=[Attribute("value", type=4, t=tensor)])
