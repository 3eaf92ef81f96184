"""Checks what a program assigned to the fields of plain messages, where the binary format would say something else.

The encoder refuses values that a field cannot express. This module refuses values that it can express, but that mean
nothing or two things: two members of a oneof, an attribute whose value is not of its type, a type that no ONNX has.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.collector import collector_paused
from formats.errors import EncodeError
from formats.ir import dtypes
from formats.ir.model import VALUE_FIELDS, Attribute, Message, values_held
from formats.onnxpb.wire.encoder import misfit
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.tensordata.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNREAD = object()  # of a list that is still in the file
_TYPE_FIELDS = ("data_type", "elem_type", "key_type")  # integers, although they are values of an enum


class _Checked(NamedTuple):
    """What to check in one field."""

    name: str
    repeated: bool
    holds_messages: bool
    numbers: Iterable[int] | None  # the known values of an enum


@cache
def _checked_fields(message: str) -> tuple[_Checked, ...]:
    rows = []
    for row in MESSAGES[message]:
        numbers: Iterable[int] | None = None
        if row.kind == "enum":
            numbers = frozenset(ENUMS[row.type_name].values())
        elif row.name in _TYPE_FIELDS and row.kind == "int32":
            numbers = frozenset((0, *dtypes.BY_NUMBER))
        if row.label == "repeated" or row.kind == "message" or numbers:
            rows.append(_Checked(row.name, row.label == "repeated", row.kind == "message", numbers))
    return tuple(rows)


def check_assigned(message: Message) -> None:
    """Refuse values that were assigned wrongly, at any depth; an attribute without a type gets that of its value.

    Lists that are still undecoded are as they were in a file, and are not checked.

    Raises: EncodeError with the dotted place.
    """
    with collector_paused():
        try:
            _check(message)
        except RecursionError:
            raise EncodeError("the model is nested too deeply, or contains itself") from None


def _check(message: Message) -> None:
    values = vars(message)
    for name, repeated, holds_messages, numbers in _checked_fields(message.message):
        value = values.get(name, _UNREAD)
        if value is _UNREAD or (repeated and isinstance(value, Source)):
            continue
        if value is None and (not repeated or getattr(type(message), name, _UNREAD) is None):  # as it is if not set
            continue
        if repeated and not isinstance(value, list):
            raise misfit(name, value, value, True)
        if holds_messages:
            index = -1
            try:
                for inner in value if repeated else (value,):
                    index += 1
                    if isinstance(inner, Message):  # the encoder refuses others
                        _check(inner)
            except EncodeError as error:
                step = f"{name}[{index}]" if repeated else name
                error.where = f"{step}.{error.where}" if error.where else step
                raise
        elif numbers is not None:
            _check_number(message, name, value, numbers)
    if message.oneof:
        given = [name for name in message.oneof if values.get(name) is not None]
        if len(given) > 1:
            raise EncodeError(f"{' and '.join(given)} are both set, but at most one can be")
    elif isinstance(message, Attribute):
        _check_attribute(message)


def _check_number(message: Message, name: str, value: Any, numbers: Iterable[int]) -> None:
    """Refuse a number that is no value of its enum, and words such as "float32"; other misfits are the encoder's."""
    if isinstance(value, str):
        raise EncodeError(
            f"{value[:80]!r} is not a number; ONNX's types have numbers, such as 1 for float32", where=name
        )
    if isinstance(value, int) and value not in numbers:
        raise EncodeError(f"{value} is not the number of a type that this version of ONNX has", where=name)


def _check_attribute(attribute: Attribute) -> None:
    """Refuse an attribute whose type and value do not agree; without a type, it gets that of its value."""
    held = values_held(attribute)
    if not held or attribute.ref_attr_name:
        return
    if len(held) > 1:
        raise EncodeError(f"the attribute {attribute.name!r:.80} has {len(held)} values, in {' and '.join(held)}")
    wanted = VALUE_FIELDS.index(held[0])
    if attribute.type is None:
        attribute.type = wanted
    elif attribute.type != wanted:
        names = {number: name for name, number in ENUMS["AttributeProto.AttributeType"].items()}
        found = names.get(attribute.type, attribute.type)
        raise EncodeError(
            f"the attribute {attribute.name!r:.80} has the type {found}, but its value is in {held[0]}, "
            f"which is for {names[wanted]}"
        )
