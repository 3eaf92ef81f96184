"""Encodes any ONNX message by the rows of its table, and checks what a program assigned to its fields.

Weights, and undecoded lists, are unchanged segments of the output. The encoder refuses values that a field cannot
express. The check refuses values that it can express, but that mean nothing or two things: two members of a oneof, an
attribute whose value is not of its type, a type that no ONNX has.

Spec: Protocol Buffers, "Encoding"; onnx.proto.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.collector import collector_paused
from formats.errors import DecodeError, EncodeError, FormatError, OptionError
from formats.ir import dtypes
from formats.ir.model import EXTERNAL, VALUE_FIELDS, Attribute, AttributeType, Message, Tensor, values_held
from formats.ir.storage import STORAGE, with_reference
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.onnxpb.wire.tables import FixedWidthRow, IntegerRow, MessageRow, SourceRow, TextRow, tables
from formats.onnxpb.wire.varints import check_packed, encode_varint
from formats.tensordata.sources.source import Literal, Source
from formats.words import cached_if_short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.onnxpb.wire.tables import FieldToWrite, MessageTable
    from formats.onnxpb.wire.varints import IntegerType


JOINED_BYTES = 256  # data this small in memory are copied into the message: cheaper than a segment
PROTOBUF_LIMIT_BYTES = (1 << 31) - 1  # what protobuf's own packages read and write
MAX_SEGMENTS = 1 << 12  # bytes in more pieces are joined, because each piece takes memory of its own


def encode(
    message: Any, replace: Callable[[Tensor], Tensor | bytes] | None = None, table: MessageTable | None = None
) -> list[bytes | Source]:
    """The bytes of a message, in the order of field numbers, as segments: weights stay sources.

    `replace` is called with every tensor, at any depth, and its result is written instead: a tensor, or the bytes of
    one. Undecoded lists are checked, and written as they were read; `replace` is not called with their tensors. `table`
    is that of the class of the message, if it is not one of the IR.

    Raises: EncodeError if a field has a value that its type cannot express; DecodeError for damage in what was left in
    a file.
    """
    with collector_paused():
        try:
            return _encode(message, table or tables()[type(message).message], replace)
        except RecursionError:
            raise EncodeError("the model is nested too deeply, or contains itself") from None


def encoded(message: Any, replace: Callable[[Tensor], Tensor | bytes] | None = None) -> bytes:
    """The bytes of a message and of its weights in memory, which suits a message without large ones."""
    return b"".join([part if isinstance(part, bytes) else part.view() for part in encode(message, replace)])


def encoded_for_protobuf(message: Any, replace: Callable[[Tensor], Tensor | bytes] | None = None) -> bytes | None:
    """What `encoded` returns; `None`, before a weight is read, if these are more bytes than protobuf can read."""
    segments = encode(message, replace)
    if sum(map(_nbytes, segments)) > PROTOBUF_LIMIT_BYTES:
        return None
    return b"".join([part if isinstance(part, bytes) else part.view() for part in segments])


@contextmanager
def misfits_located(model: Any) -> Iterator[None]:
    """A context in which an error of Python about a value that does not fit its field becomes one with its place."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, struct.error) as error:
        if not isinstance(error, (FormatError, OptionError)):
            encode(model)  # which checks every value
        raise


class _Segments:
    """The fields of a message as they are written: bytes, and sources, which stay where they are."""

    __slots__ = ("all", "behind", "has_sources")

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.has_sources = False
        self.behind = 0  # the index behind the last one that may be a source

    def add_source(self, prefix: bytes, source: Source) -> None:
        """Append a source; with what is in front of it in one piece, a tensor has few segments."""
        self.all[self.behind :] = (b"".join((*self.all[self.behind :], prefix)), source)
        self.has_sources, self.behind = True, len(self.all)

    def add_encoded(self, segments: Sequence[bytes | Source]) -> None:
        """Append what is already encoded."""
        self.all += segments
        self.has_sources = self.has_sources or any(isinstance(segment, Source) for segment in segments)
        self.behind = len(self.all)

    def add_message(self, field: FieldToWrite, segments: Sequence[bytes | Source]) -> None:
        """Append a message with these segments; of very many messages, only the bytes stay."""
        if len(segments) > 1:
            self.add_encoded((field.prefix(sum(map(_nbytes, segments))), *segments))
            return
        (data,) = segments  # a single one is bytes
        self.all += (field.prefix(_nbytes(data)), data)
        if len(self.all) - self.behind > MAX_SEGMENTS:
            self.all[self.behind :] = (b"".join(self.all[self.behind :]),)
            self.behind = len(self.all)


def _encode(message: Any, table: MessageTable, replace: Callable[[Tensor], Tensor | bytes] | None) -> list[Any]:
    """The segments of a message: a single one if all of them are bytes, so that there are few."""
    values = vars(message)
    undecoded = values.get("undecoded", {})
    segments = _Segments()
    for name, field in table.by_name.items():
        value = values.get(name)
        if value is None:
            if name in undecoded and name not in values:
                undecoded[name].check()
                segments.add_encoded(undecoded[name].segments)
            continue
        item, is_list, repeated = value, isinstance(value, list), field.row.repeated
        try:
            if is_list is not repeated:
                if not isinstance(value, Source):
                    raise TypeError(value)  # noqa: TRY301 - the handler below adds the place
                if repeated and not value.nbytes:
                    continue  # packed numbers are written if there are some
            for item in value if is_list else (value,):
                if isinstance(field.row, MessageRow):
                    segments.add_message(field, _encode_inner(item, field.row.table, replace))
                else:
                    _add_value(segments, field, item, table)
        except (EncodeError, DecodeError) as error:  # in a message in this one, or in numbers that stayed in their file
            step = _step(name, value, item)
            error.where = f"{step}.{error.where}" if error.where else step
            raise
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            raise misfit(name, value, item, repeated) from error
    # Always, so that a single segment is never a source.
    segments.all.append(values.get("unknown_fields", b""))
    return segments.all if segments.has_sources else [b"".join(segments.all)]


def _encode_inner(
    message: Any, table: MessageTable, replace: Callable[[Tensor], Tensor | bytes] | None
) -> list[bytes | Source]:
    """The segments of a message in a field, or of what is written instead."""
    if not isinstance(message, table.message_class):
        raise TypeError(message)
    new = replace(message) if replace and isinstance(message, Tensor) else message
    return [new] if isinstance(new, bytes) else _encode(new, table, replace)


def _add_value(segments: _Segments, field: FieldToWrite, value: Any, table: MessageTable) -> None:
    """Append a text, a number or bytes in a field."""
    row = field.row
    if type(row) is TextRow:
        payload = value.encode() if value.isascii() else table.encode_text(value)
        segments.all += (field.prefix(len(payload)), payload)
    elif type(row) is IntegerRow:
        segments.all += (field.tag, _encode_integer(value, row.number_type))
    elif type(row) is FixedWidthRow:
        segments.all += (field.tag, row.number_type.pack(value))
    elif isinstance(value, Source) and not (isinstance(value, Literal) and value.nbytes <= JOINED_BYTES):
        if isinstance(row, SourceRow) and not row.width:
            check_packed(value)
        segments.add_source(field.prefix(value.nbytes), value)
    else:
        payload = value.data if isinstance(value, Literal) else value
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise TypeError(value)
        payload = bytes(payload)
        segments.all += (field.prefix(len(payload)), payload)


def _step(name: str, value: Any, item: Any) -> str:
    """The step of a dotted place that leads to an item of a field."""
    if item is value:
        return name
    return f"{name}[{next(index for index, element in enumerate(value) if element is item)}]"


def misfit(name: str, value: Any, item: Any, repeated: bool) -> EncodeError:
    """The error for a value that does not fit the type of its field."""
    hint = ""
    if hasattr(item, "__array__") and hasattr(item, "ndim") and item.ndim:
        hint = "; formats.from_numpy(array, name) makes a Tensor of an array"
    elif repeated and item is value:
        hint = "; it must be a list"
    shown = f"{item!r:.80}".replace("\n", " ")
    words = f"{shown} ({type(item).__name__}) does not fit the type of this field{hint}"
    return EncodeError(words, where=_step(name, value, item))


def _nbytes(segment: bytes | Source) -> int:
    return len(segment) if isinstance(segment, bytes) else segment.nbytes


def _encode_integer(value: int, integer_type: IntegerType) -> bytes:
    bits, is_signed = integer_type
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if is_signed else (0, 1 << bits)
    if not low <= value < high:
        raise ValueError(value)
    return encode_varint(value)


# Checking assigned values

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
        members = [name for name in message.oneof if values.get(name) is not None]
        if len(members) > 1:
            raise EncodeError(f"{' and '.join(members)} are both set, but at most one can be")
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
    filled = values_held(attribute)
    if not filled or attribute.ref_attr_name:
        return
    if len(filled) > 1:
        raise EncodeError(f"the attribute {attribute.name!r:.80} has {len(filled)} values, in {' and '.join(filled)}")
    wanted = VALUE_FIELDS.index(filled[0])
    if attribute.type is None:
        attribute.type = wanted
    elif attribute.type != wanted:
        names: dict[int, str] = {number.value: number.name for number in AttributeType}
        type_name = names.get(attribute.type, attribute.type)
        raise EncodeError(
            f"the attribute {attribute.name!r:.80} has the type {type_name}, but its value is in {filled[0]}, "
            f"which is for {names[wanted]}"
        )


# Tensors whose elements are in another file. A model may have 100,000: encoded from four temporary messages each, its
# conversion would take 1.7 times as long.

_USUAL = frozenset(("dims", "data_type", "name", *STORAGE))


def referring(tensor: Tensor, places: Mapping[str, str]) -> Tensor | bytes:
    """What to encode instead of the tensor: its elements are external, at the place in the entries `places`.

    If it has only the usual fields, that is the encoded tensor.
    """
    values = vars(tensor)
    name = values.get("name")
    if name is None or not values.keys() <= _USUAL:
        return with_reference(tensor, places)
    text = name.encode("utf-8", "surrogateescape")
    parts = [_head(tuple(tensor.dims), tensor.data_type), _before_name(len(text)), text]
    for key, value in places.items():
        text = value.encode("utf-8", "surrogateescape")
        parts += (_before_value(key, len(text)), text)
    parts.append(_external_location())
    return b"".join(parts)


@cache
def _external_location() -> bytes:
    """The field that says that the elements of a tensor are elsewhere."""
    return encoded(Tensor(data_location=EXTERNAL))


@cached_if_short  # many tensors of a model are of one shape
def _head(dims: tuple[int, ...], data_type: int | None) -> bytes:
    return encoded(Tensor(dims=list(dims), data_type=data_type))


@lru_cache(maxsize=256)  # most names and values are short
def _before_name(nbytes: int) -> bytes:
    """The tag and the size of a tensor's name that has this many bytes."""
    return tables()["TensorProto"].by_name["name"].tag + encode_varint(nbytes)


@lru_cache(maxsize=256)
def _before_value(key: str, nbytes: int) -> bytes:
    """The bytes of an entry of external data before its value of this size in bytes."""
    outer, inner = tables()["TensorProto"].by_name["external_data"].tag, tables()["StringStringEntryProto"].by_name
    text = key.encode("utf-8", "surrogateescape")
    entry = b"".join((inner["key"].tag, encode_varint(len(text)), text, inner["value"].tag, encode_varint(nbytes)))
    return outer + encode_varint(len(entry) + nbytes) + entry
