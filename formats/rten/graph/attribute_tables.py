"""Converts the attributes of ONNX nodes to attribute tables and back, by the rows of the operators."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from formats.errors import DecodeError
from formats.flatbuffer.fbs import Table
from formats.ir.copies import message_of
from formats.ir.model import VALUE_FIELDS, Attribute, AttributeType, Graph, Node, Tensor
from formats.rten.spec import ANY, ONES, Field, OperatorSpec, Row
from formats.rten.target import ALL_RELEASES, Target
from formats.rten.types import HOLDERS, INT32_LIMITS, INT64_LIMITS, RTEN_FLOAT, RTEN_INT32, clamp_int32
from formats.tensordata.sources.source import Literal

UINT32_MAX: Final = (1 << 32) - 1

# The field of an attribute that holds a value, by its type, for the types that are in .rten files.
_FIELDS_OF_TYPES: Final = dict(enumerate(VALUE_FIELDS[1:9], 1))  # up to `strings`
_ZEROS: Final = {"f": 0.0, "i": 0, "s": b""}  # a value that some writers omit
_ATTRIBUTE_TYPES: Final = {
    int: AttributeType.INT,
    bool: AttributeType.INT,
    float: AttributeType.FLOAT,
    list: AttributeType.INTS,
    str: AttributeType.STRING,
    Tensor: AttributeType.TENSOR,
    Graph: AttributeType.GRAPH,
}


class Problem(NamedTuple):
    """Why a node cannot become an operator."""

    reason: str
    remedy: str = ""


def _row(spec: OperatorSpec) -> Row:
    assert spec.to_rten.row is not None, spec.name
    return spec.to_rten.row


class _UnfitError(ValueError):
    """A field cannot express a value; the message completes a sentence that begins with the attribute."""


# ONNX to RTen


def encode_attributes(
    spec: OperatorSpec,
    node: Node,
    encode_graph: Callable[[str, Graph], Table],
    problems: list[Problem],
    *,
    target: Target | None = ALL_RELEASES,
) -> tuple[str, Table] | None:
    """The attribute table of a node with its name, or `None` for an operator without one.

    `encode_graph` gets the attribute's name and the graph. Add what cannot be expressed to `problems`. Without a
    `target`, write everything for which there is a field.
    """
    row = _row(spec)
    table = encode_fields(row, row.neutral, node, encode_graph, problems, target=target)
    if not row.attrs or (row.optional and table == _default_table(row, target)):
        return None
    return row.attrs, table


def encode_fields(
    row: Row,
    neutral: Mapping[str, tuple[Any, ...]],
    node: Node,
    encode_graph: Callable[[str, Graph], Table],
    problems: list[Problem],
    *,
    target: Target | None = ALL_RELEASES,
) -> Table:
    """The values of a row's fields for the attributes of a node; `neutral` attributes have no field.

    The rest is as for `encode_attributes`.
    """
    left_over = {attribute.name: attribute for attribute in node.attribute}
    table: Table = {}
    for field in row.fields:
        attribute = left_over.pop(field.onnx_name, None)
        try:
            value = _encode_field(field, attribute, encode_graph)
        except _UnfitError as error:
            problems.append(Problem(f"the attribute {field.onnx_name} {error}"))
            continue
        if target is not None and target.is_onnx and _is_beyond(field, attribute):
            problems.append(Problem(f"the attribute {field.onnx_name} does not fit 32 bits"))
            continue
        # An older release ignores the field, which is only right if the value has no effect.
        if target is not None and not target.has(field):
            if value and not (isinstance(value, tuple) and value in ONES):
                reason = f"the attribute {field.onnx_name} = {_said(value)} is ignored by RTen before {field.since}"
                problems.append(Problem(reason))
            continue
        if value is not None:
            table[field.name] = value
    for name, attribute in left_over.items():
        # What is left has no field: it is fine only if it does not change what inference computes.
        allowed = neutral.get(name or "")
        if allowed is ANY:
            continue
        value = attribute_value(attribute)
        if allowed is None or value not in allowed:
            problems.append(Problem(f"the attribute {name} = {_said(value)} has no counterpart in RTen"))
    return table


def _is_beyond(field: Field, attribute: Attribute | None) -> bool:
    """Whether a bound has more bits than RTen's ONNX loader reads. In a .rten file, it is clamped."""
    return field.is_bound and attribute is not None and clamp_int32(attribute.i or 0) != (attribute.i or 0)


def attribute_value(attribute: Attribute) -> Any:
    """An attribute's value as plain data: strings decoded, lists as tuples."""
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    field = _FIELDS_OF_TYPES.get(attribute.type or 0)
    if field is None:  # the oldest files do not contain the type
        field = next((name for name in _FIELDS_OF_TYPES.values() if getattr(attribute, name) not in (None, [])), "s")
    value = getattr(attribute, field)
    if value is None:
        value = _ZEROS.get(field)
    if isinstance(value, list):
        return tuple(_text(item) for item in value)
    return _text(value)


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _encode_field(field: Field, attribute: Attribute | None, encode_graph: Callable[[str, Graph], Table]) -> Any:
    """The value of a field for an attribute; `None` for nothing."""
    if attribute is None:
        if field.required:
            raise _UnfitError("is missing")
        if field.kind is Tensor:
            return "FloatScalar", {"value": 0.0}
        return None if field.default is None else _encode_value(field, field.default)
    attribute_type = _ATTRIBUTE_TYPES[field.kind]
    value = attribute_value(attribute if attribute.type else replace(attribute, type=attribute_type))
    if attribute.ref_attr_name or attribute.type not in (None, 0, attribute_type):
        raise _UnfitError(f"is {_said(value)}, which is not of the type that the operator defines")
    if value is None:
        raise _UnfitError("has no value")
    if field.kind is Graph:
        return encode_graph(field.onnx_name, value)
    if field.kind is Tensor:
        return _encode_scalar(value)
    return _encode_value(field, value)


def _encode_value(field: Field, value: Any) -> Any:
    """A plain value in the form of the field."""
    if field.kind is bool:
        return bool(value)
    if field.is_bound:
        return clamp_int32(value)
    if field.choices:
        if value not in field.choices:
            raise _UnfitError(f"is {_said(value)}, but RTen supports only {', '.join(map(_said, field.choices))}")
        return field.choices[value]
    if field.kind in (int, list):
        highest = INT32_LIMITS[1] if field.minimum else UINT32_MAX
        for number in value if field.kind is list else (value,):
            if not field.minimum <= number <= highest:
                raise _UnfitError(f"is {_said(value)}, but must be from {field.minimum} to {highest}")
    return value


def _encode_scalar(tensor: Tensor) -> tuple[str, Table]:
    """The union member for a tensor of one element."""
    element = HOLDERS.get(tensor.data_type or 0)
    array = tensor.numpy() if element in (RTEN_FLOAT, RTEN_INT32) else None
    if array is None or array.size != 1:
        raise _UnfitError("is not a single float, integer or bool")
    if element == RTEN_FLOAT:
        return "FloatScalar", {"value": float(array.reshape(()))}
    number = int(array.reshape(()))
    clamped = clamp_int32(number)
    # The limits of INT64 mean "no limit", as those of INT32 do.
    if number != clamped and number not in INT64_LIMITS:
        raise _UnfitError(f"is {number}, which does not fit 32 bits")
    return "IntScalar", {"value": clamped}


def _default_table(row: Row, target: Target | None) -> Table:
    """The table of a node without attributes, with the fields that all releases of the target know."""
    return {
        field.name: _encode_value(field, field.default)
        for field in row.fields
        if field.default is not None and (target is None or target.has(field))
    }


def _said(value: Any) -> str:
    """A value as a message shows it: short, and never weights."""
    if isinstance(value, (str, int, float, tuple)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"


# RTen to ONNX


def decode_attributes(
    spec: OperatorSpec, attrs: tuple[str, Table] | None, decode_graph: Callable[[str, Table], Graph]
) -> list[Attribute]:
    """The ONNX attributes for an attribute table, including those with default values.

    Raises: DecodeError if the table is missing, of another operator, or has an unknown enumerator.
    """
    row = _row(spec)
    if not row.attrs:
        return []  # the loader ignores the table of an operator that should have none
    # Writers leave out a table in which everything has its default.
    if attrs is None and row.optional:
        attrs = row.attrs, _default_table(row, None)
    if attrs is None or attrs[0] != row.attrs:
        present = attrs[0] if attrs else "none"
        raise DecodeError(f"a {spec.name} operator needs a {row.attrs} table, found {present}")
    attributes = []
    for field in row.fields:
        value = attrs[1].get(field.name)
        if value is not None:
            attributes.append(_decode_field(field, value, decode_graph))
        elif field.required:
            raise DecodeError(f"the field {field.name} of a {row.attrs} table is missing")
    return attributes


def _decode_field(field: Field, value: Any, decode_graph: Callable[[str, Table], Graph]) -> Attribute:
    attribute = message_of(Attribute, name=field.onnx_name, type=int(_ATTRIBUTE_TYPES[field.kind]))
    if field.choices:
        value = _choice(field, value)
    if field.kind is Graph:
        attribute.g = decode_graph(field.onnx_name, value)
    elif field.kind is Tensor:
        attribute.t = _decode_scalar(value)
    elif field.kind is float:
        attribute.f = value
    elif field.kind is list:
        attribute.ints = list(value)
    elif isinstance(value, str):
        attribute.s = value.encode()
    else:
        attribute.i = int(value)
    return attribute


def _choice(field: Field, enumerator: str | int) -> str | int:
    """The ONNX value for an enumerator.

    Raises: DecodeError for an enumerator that the schema does not know, which is a number here.
    """
    for value, name in field.choices.items():
        if name == enumerator:
            return value  # type: ignore[no-any-return]
    raise DecodeError(f"the field {field.name} has the unknown value {enumerator}")


def _decode_scalar(value: tuple[str, Table]) -> Tensor:
    member, table = value
    number = table["value"]
    if member == "FloatScalar":
        return Tensor(dims=[1], data_type=RTEN_FLOAT.number, raw_data=Literal(struct.pack("<f", number)))
    return Tensor(dims=[1], data_type=RTEN_INT32.number, raw_data=Literal(struct.pack("<i", number)))
