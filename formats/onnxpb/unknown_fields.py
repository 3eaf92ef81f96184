"""The fields of a message that this version of ONNX does not have, as protobuf shows them.

    from formats.onnxpb.unknown_fields import UnknownFieldSet

    for field in UnknownFieldSet(model):
        print(field.field_number, field.wire_type, field.data)

Spec: google.protobuf.unknown_fields (protobuf 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

from formats.ir.model import Message
from formats.onnx_compat.protos.classes import unwrap
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.wire.varints import WireType, decode_varint, skip_field

__all__ = ["UnknownField", "UnknownFieldSet"]


class UnknownField(NamedTuple):
    """One field: a number for the wire types 0, 1 and 5, bytes for 2, and for 3, a group, its fields."""

    field_number: int
    wire_type: int
    data: int | bytes | UnknownFieldSet


class UnknownFieldSet(Sequence[UnknownField]):
    """The unknown fields of a message at the creation of this object, or those in the bytes of a group."""

    def __init__(self, message: Any) -> None:
        if isinstance(message, bytes):
            self._fields = _fields(message)
            return
        own = message if isinstance(message, (ProtoMessage, Message)) else unwrap(message)
        self._fields = _fields(vars(own).get("unknown_fields", b""))

    @overload
    def __getitem__(self, index: int) -> UnknownField: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[UnknownField]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._fields[index]

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"UnknownFieldSet({self._fields!r})"


def _fields(data: bytes) -> list[UnknownField]:
    """The fields in `data`, which a decoder has checked."""
    found: list[UnknownField] = []
    position = 0
    while position < len(data):
        tag, begin = decode_varint(data, position)
        end = skip_field(data, begin, tag)
        found.append(UnknownField(tag >> 3, tag & 7, _value(data, begin, end, tag)))
        position = end
    return found


def _value(data: bytes, begin: int, end: int, tag: int) -> int | bytes | UnknownFieldSet:
    wire_type = tag & 7
    if wire_type == WireType.VARINT:
        return decode_varint(data, begin)[0]
    if wire_type == WireType.LEN:
        return data[decode_varint(data, begin)[1] : end]
    if wire_type == WireType.SGROUP:
        return UnknownFieldSet(_without_end(data[begin:end]))
    return int.from_bytes(data[begin:end], "little")


def _without_end(data: bytes) -> bytes:
    """The fields of a group, without the tag that ends it. This tag is the last varint in the data."""
    size = len(data) - 1
    while size and data[size - 1] >= 0x80:
        size -= 1
    return data[:size]
