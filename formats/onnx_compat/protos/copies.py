"""Copies of messages, messages made of those of the IR, and the other way round.

All share weights, as sources never change, and what is still undecoded. Each function is a loop over the `pending`
dictionaries of fields, not recursion: a message may be nested as deep as its program likes.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.ir.model import Message, set_fields
from formats.onnx_compat.protos.descriptor import DESCRIPTORS
from formats.onnx_compat.protos.values import Valued, proto_with
from formats.onnxpb.wire.tables import tables
from formats.onnxpb.wire.varints import WireType, encode_varint, make_tag

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnx_compat.protos.message import ProtoMessage

M = TypeVar("M", bound="ProtoMessage")


_UNCHANGING = frozenset((int, str, float, bytes))


def proto_copy(message: M) -> M:
    """A message equal to `message`."""
    pending: list[dict[str, Any]] = []

    def copy_of(part: Any) -> Any:
        values = part.__dict__.copy()
        pending.append(values)
        return proto_with(type(part), values)

    copy: M = copy_of(message)
    while pending:
        values = pending.pop()
        values.pop("_state", None)
        for name, value in values.items():  # assigning to a key that is there is allowed
            if type(value) in _UNCHANGING:  # most values
                continue
            if isinstance(value, list):
                container: Any = value
                values[name] = container.own(map(copy_of, value) if container.holds_messages else value)
            elif isinstance(value, Valued):
                values[name] = copy_of(value)
    return copy


class _Fields(NamedTuple):
    """What differs between a message of the IR and one of ours; both have the same dictionary but for this."""

    message_class: type[ProtoMessage]
    containers: dict[str, type[list[Any]]]
    enums: dict[str, tuple[bytes, frozenset[int]]]  # the tag of each enum, and the numbers that it has
    texts: frozenset[str]


@cache
def _fields(name: str) -> _Fields:
    """The fields of the message with this name."""
    descriptor = DESCRIPTORS[name]
    message_class = descriptor._concrete_class
    rows = message_class._properties.values()
    containers = {row.name: row.container for row in rows if row.descriptor.is_repeated and not row.descriptor.in_place}
    enums = {
        field.name: (
            encode_varint(make_tag(field.number, WireType.VARINT)),
            frozenset(field.enum_type.values_by_number),
        )
        for field in descriptor.fields
        if field.enum_type
    }
    texts = frozenset(field.name for field in descriptor.fields if field.kind == "string")
    return _Fields(message_class, containers, enums, texts)


def adopted(message: Any) -> Any:
    """The message that has the fields of a message of the IR, which nothing else uses or will use."""
    pending: list[tuple[dict[str, Any], _Fields]] = []

    def adopt(part: Any) -> Any:
        if not isinstance(part, Message):
            return part  # a program put something wrong there; who writes it is told
        fields = _fields(part.message)
        values = part.__dict__
        pending.append((values, fields))
        return proto_with(fields.message_class, values)

    new = adopt(message)
    while pending:
        values, fields = pending.pop()
        for name, value in list(values.items()):
            if value is None:
                del values[name]
            elif name in fields.enums and isinstance(value, int) and value not in fields.enums[name][1]:
                # A number that its enum does not have is like an unknown field.
                unknown = fields.enums[name][0] + encode_varint(value)
                values["unknown_fields"] = values.get("unknown_fields", b"") + unknown
                del values[name]
            elif isinstance(value, str):
                values[name] = _shown_text(value)
            elif isinstance(value, list):
                container: Any = fields.containers[name]
                show = _shown_text if container.holds_texts else adopt
                values[name] = container(map(show, value))
            elif isinstance(value, Message):
                values[name] = adopt(value)
    return new


def in_ir(message: Any, tensors: dict[int, Any] | None = None) -> Any:
    """A message of the IR with the fields of one of ours.

    `tensors` gets, by the id of each tensor of the IR, the one of ours that it was made of; all are decoded for that.
    """
    pending: list[tuple[dict[str, Any], frozenset[str]]] = []

    def convert(part: Any) -> Any:
        if not isinstance(part, Valued):
            return part
        if tensors is not None:
            for name in part.__dict__.get("undecoded", ()):
                getattr(part, name)
        ir_class = part.DESCRIPTOR.ir_class
        values = part.__dict__.copy()
        pending.append((values, _fields(ir_class.message).texts))
        new = object.__new__(ir_class)
        set_fields(new, values)
        if tensors is not None and ir_class.message == "TensorProto":
            tensors[id(new)] = part
        return new

    new = convert(message)
    while pending:
        values, texts = pending.pop()
        values.pop("_state", None)
        for name, value in values.items():
            if isinstance(value, list):
                container: Any = value
                values[name] = list(map(_stored_text if container.holds_texts else convert, value))
            elif isinstance(value, Valued):
                values[name] = convert(value)
            elif name in texts:
                values[name] = _stored_text(value)
            elif name == "undecoded":
                values[name] = {field: fields.of(tables()) for field, fields in value.items()}
    return new


# Texts: in a message, one that is not UTF-8 is bytes; in the IR, its bytes are in surrogates.


def _shown_text(text: Any) -> Any:
    """A text of the IR as messages show it: if it was not UTF-8, as the bytes that it was read from."""
    if not isinstance(text, str):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")
    return text


def _stored_text(text: Any) -> str:
    """A text of a message as the IR has it."""
    return text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text


def stored_bytes(text: Any) -> bytes:
    """The bytes of a text as messages show it."""
    return text if isinstance(text, bytes) else text.encode()


def containers_made(name: str) -> Callable[[dict[str, Any]], None] | None:
    """What makes containers of the lists that were decoded for a message; `None` if it has no such fields."""
    containers = _fields(name).containers
    if not containers:
        return None

    def make_containers(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if type(value) is list:
                values[name] = containers[name](value)

    return make_containers
