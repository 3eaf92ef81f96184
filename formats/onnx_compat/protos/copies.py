"""Copies of messages, messages made of those of the IR, and the other way round.

All share weights, as sources never change, and what is still undecoded. These are loops, not recursion: a message may
be nested as deep as its program likes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.collector import collector_paused
from formats.ir.copies import UNCHANGEABLE
from formats.ir.model import Message, set_fields
from formats.onnx_compat.protos.descriptor import DESCRIPTORS
from formats.onnx_compat.protos.values import Valued, made
from formats.onnxpb.wire.tables import tables
from formats.onnxpb.wire.varints import WireType, encode_varint, make_tag

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.onnx_compat.protos.message import ProtoMessage

M = TypeVar("M", bound="ProtoMessage")

_SHARED = UNCHANGEABLE | {dict}  # the mapping of what is undecoded does not change either
# What copies a value without messages in it, by its class; nothing if it does not change. Containers are added to it.
COPIERS: dict[Any, Callable[[Any], Any] | None] = dict.fromkeys(_SHARED)
_new = object.__new__


def copied(message: M) -> M:
    """A message equal to `message`."""
    stack: list[tuple[dict[str, Any], str, Any]] = []
    new = _copy(message, stack)
    _copy_others(stack)
    return new


def all_copied(messages: Iterable[M]) -> list[M]:
    """Messages equal to `messages`."""
    stack: list[tuple[dict[str, Any], str, Any]] = []
    with collector_paused():
        new = [_copy(message, stack) for message in messages]
        _copy_others(stack)
    return new


def _copy(message: M, stack: list[tuple[dict[str, Any], str, Any]]) -> M:
    """A message with the same values; those with messages in them are put on the stack, to be copied later."""
    values = message.__dict__.copy()
    for name, value in values.items():  # assigning to a key that is there is allowed
        if value.__class__ in COPIERS:
            copy = COPIERS[value.__class__]
            if copy is not None:
                values[name] = copy(value)
        else:
            stack.append((values, name, value))
    new = _new(type(message))
    set_fields(new, values)
    return new


def _copy_others(stack: list[tuple[dict[str, Any], str, Any]]) -> None:
    """Copy what is on the stack, and what is in it."""
    while stack:
        values, name, value = stack.pop()
        if isinstance(value, Valued):
            values[name] = _copy(value, stack)  # type: ignore[type-var]
        elif isinstance(value, list):
            values[name] = value.own([_copy(each, stack) for each in value])  # type: ignore[attr-defined]
        elif name == "_state":
            del values[name]


class _Fields(NamedTuple):
    """What differs between a message of the IR and one of ours; both have the same dictionary but for this."""

    message_class: type[ProtoMessage]
    containers: dict[str, type[list[Any]]]
    numbers: dict[str, tuple[bytes, frozenset[int]]]  # those of enums: the tag, and the numbers that are known
    texts: frozenset[str]


@cache
def _fields(name: str) -> _Fields:
    """The fields of the message with this name."""
    descriptor = DESCRIPTORS[name]
    message_class = descriptor._concrete_class
    rows = message_class._properties.values()
    containers = {row.name: row.container for row in rows if row.descriptor.is_repeated and not row.descriptor.in_place}
    numbers = {
        field.name: (
            encode_varint(make_tag(field.number, WireType.VARINT)),
            frozenset(field.enum_type.values_by_number),
        )
        for field in descriptor.fields
        if field.enum_type
    }
    texts = frozenset(field.name for field in descriptor.fields if field.kind == "string")
    return _Fields(message_class, containers, numbers, texts)


def adopted(message: Any) -> Any:
    """The message that has the fields of a message of the IR, which nothing else uses or will use."""
    stack: list[tuple[dict[str, Any], _Fields]] = []
    new = _adopt(message, stack)
    while stack:
        _adopt_parts(*stack.pop(), stack)
    return new


def _adopt(message: Any, stack: list[tuple[dict[str, Any], _Fields]]) -> Any:
    if not isinstance(message, Message):
        return message  # a program put something wrong there; who writes it is told
    fields = _fields(message.message)
    values = message.__dict__
    stack.append((values, fields))
    return made(fields.message_class, values)


def _adopt_parts(values: dict[str, Any], fields: _Fields, stack: list[tuple[dict[str, Any], _Fields]]) -> None:
    """Make the values of a message of the IR those of one of ours."""
    absent = []
    for name, value in values.items():
        kind = value.__class__
        if kind is str:
            if not value.isascii():
                values[name] = shown_text(value)
        elif kind is list:
            container = fields.containers[name]
            if container.holds_messages:  # type: ignore[attr-defined]
                values[name] = container([_adopt(each, stack) for each in value])
            else:
                values[name] = container(shown(value) if container.holds_texts else value)  # type: ignore[attr-defined]
        elif kind is int:
            if name in fields.numbers and value not in fields.numbers[name][1]:
                absent.append(name)
        elif value is None:
            absent.append(name)
        elif isinstance(value, Message):
            values[name] = _adopt(value, stack)
    for name in absent:
        if (number := values.pop(name)) is not None:  # one that its enum does not have is like an unknown field
            unknown = fields.numbers[name][0] + encode_varint(number)
            values["unknown_fields"] = values.get("unknown_fields", b"") + unknown


def shown(texts: list[str]) -> list[Any]:
    """Texts as messages show them."""
    return texts if "".join(texts).isascii() else [shown_text(text) for text in texts]


def shown_text(text: str) -> Any:
    """A text, or the bytes that it was read from if they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")
    return text


def containers_made(name: str) -> Callable[[dict[str, Any]], None] | None:
    """What makes containers of the lists that were decoded for a message; `None` if it has no such fields."""
    containers = _fields(name).containers
    if not containers:
        return None

    def make_containers(values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value.__class__ is list:
                values[name] = containers[name](value)

    return make_containers


def encoded_text(text: Any) -> bytes:
    """The bytes of a text as messages show it."""
    return text if isinstance(text, bytes) else text.encode()


def in_ir(message: Any, tensors: dict[int, Any] | None = None) -> Any:
    """A message of the IR with the fields of one of ours.

    `tensors` gets, by the id of each tensor of the IR, the one of ours that it was made of; all are decoded for that.
    """
    stack: list[tuple[dict[str, Any], str]] = []
    new = _of_ir(message, stack, tensors)
    while stack:
        values, message_name = stack.pop()
        texts = _fields(message_name).texts
        for name, value in values.items():
            kind = value.__class__
            if kind in _SHARED:
                if kind is bytes and name in texts:
                    values[name] = _stored_text(value)
                elif kind is dict:
                    values[name] = {each: left.of(tables()) for each, left in value.items()}
            elif isinstance(value, list):
                if kind.holds_messages:
                    values[name] = [_of_ir(each, stack, tensors) for each in value]
                else:
                    values[name] = list(map(_stored_text, value)) if kind.holds_texts else value[:]
            elif isinstance(value, Valued):
                values[name] = _of_ir(value, stack, tensors)
        if "_state" in values:
            del values["_state"]
    return new


def _of_ir(message: Any, stack: list[tuple[dict[str, Any], str]], tensors: dict[int, Any] | None) -> Any:
    if not isinstance(message, Valued):
        return message
    ir_class = message.DESCRIPTOR.ir_class
    new = _new(ir_class)
    if tensors is not None:
        for name in message.__dict__.get("undecoded", ()):
            getattr(message, name)
    values = message.__dict__.copy()
    set_fields(new, values)
    stack.append((values, ir_class.message))
    if tensors is not None and ir_class.message == "TensorProto":
        tensors[id(new)] = message
    return new


def _stored_text(text: Any) -> str:
    """A text as the IR has it."""
    return text if text.__class__ is str else text.decode("utf-8", "surrogateescape")
