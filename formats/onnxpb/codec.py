"""Decodes and encodes any ONNX message from its rows in `schema.py`.

Bytes that can be weights are never read: a field that the IR declares as a `Source` becomes a slice of the source
being decoded, and is encoded as the segment that it is. A repeated scalar may arrive packed or not, a message that
arrives in parts is merged, the last of a oneof wins, and what the rows don't know is kept in `unknown_fields`.

Spec: Protocol Buffers, "Encoding"; onnx.proto.
"""

from __future__ import annotations

import struct
from dataclasses import fields
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.collector import collector_paused
from formats.errors import EncodeError, FormatError, LimitError, TruncatedError, WireError
from formats.ir.model import MESSAGE_CLASSES, Tensor
from formats.onnxpb.schema import MESSAGES
from formats.onnxpb.wire import Buffer, WireType, decode_varint, encode_varint, make_tag, skip_field
from formats.tensordata.source import Concat, Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnxpb.schema import Field
    from formats.tensordata.plan import Segment

T = TypeVar("T")

MAX_DEPTH = 100  # messages within messages, the limit of the official parsers
MAX_MESSAGES = 1 << 24  # two bytes can ask for an object of 200, so their number is bounded
WHOLE_BYTES = 1 << 24  # a source up to this size is read in one piece
WINDOW_BYTES = 1 << 16  # of a larger one, only fields up to this size are
INLINE_BYTES = 1 << 10  # data this small is kept in memory: cheaper than a place in a file

_INTEGERS = {"int32": (32, True), "int64": (64, True), "uint64": (64, False), "enum": (32, True)}
_FIXED = {"float": (WireType.I32, struct.Struct("<f")), "double": (WireType.I64, struct.Struct("<d"))}


# What to do with a field; those of the first line come with a length.
_MESSAGE, _STRING, _BYTES, _PACKED, _PLACE, _PLACES = range(6)
_INTEGER, _FIXED_WIDTH, _PLACE_ONE = range(6, 9)
_LAST_WITH_LENGTH = _PLACES


class _Row(NamedTuple):
    """A row of the schema, made ready: what to do with the payload of one tag."""

    action: int
    name: str
    repeated: bool
    inner: Any = None  # what the action needs: the table of a message, the width of an integer, a struct
    siblings: tuple[str, ...] = ()  # the other members of the oneof


class _Table:
    """The rows of one message, by tag for decoding and by descending field number for encoding."""

    def __init__(self, message_class: type[Any]) -> None:
        self.message_class = message_class
        self.by_tag: dict[int, _Row] = {}
        self.rows: list[tuple[bytes, _Row]] = []


@cache
def _tables() -> dict[str, _Table]:
    """The table of every message, by its name in onnx.proto."""
    tables = {cls.message: _Table(cls) for cls in MESSAGE_CLASSES}
    for name, table in tables.items():
        in_place = {field.name for field in fields(table.message_class) if field.type == "Source | None"}
        for field in sorted(MESSAGES[name], key=lambda field: -field.number):
            _add_rows(table, field, field.name in in_place, tables)
    return tables


def _add_rows(table: _Table, field: Field, in_place: bool, tables: dict[str, _Table]) -> None:
    repeated = field.label == "repeated"
    siblings = tuple(
        other.name
        for other in MESSAGES[table.message_class.message]
        if field.oneof and other.oneof == field.oneof and other is not field
    )

    def row(action: int, inner: Any = None) -> _Row:
        return _Row(action, field.name, repeated, inner, siblings)

    packed_tag = make_tag(field.number, WireType.LEN)
    if field.kind in _INTEGERS or field.kind in _FIXED:
        inner: Any
        wire_type, inner = _FIXED.get(field.kind) or (WireType.VARINT, _INTEGERS[field.kind])
        tag = make_tag(field.number, wire_type)
        if in_place:
            width = 0 if wire_type == WireType.VARINT else inner.size
            table.by_tag[tag] = row(_PLACE_ONE, width)
            table.by_tag[packed_tag] = main = row(_PLACES, width)
            tag = packed_tag
        else:
            fixed = wire_type != WireType.VARINT
            table.by_tag[tag] = main = row(_FIXED_WIDTH if fixed else _INTEGER, inner)
            if repeated:
                table.by_tag[packed_tag] = row(_PACKED, inner)
    else:
        tag = packed_tag
        if field.kind == "message":
            main = row(_MESSAGE, tables[field.type_name])
        elif field.kind == "string":
            main = row(_STRING)
        else:
            main = row(_PLACE if in_place else _BYTES)
        table.by_tag[tag] = main
    table.rows.append((encode_varint(tag), main))


# Decoding


def decode(source: Source, message_class: type[T]) -> T:
    """The message that `source` holds, its weights as slices of `source`.

    Raises: DecodeError with the file offset and the dotted place where the bytes are wrong.
    """
    message = message_class()
    decoder = _Decoder(source)
    table = _tables()[message_class.message]  # type: ignore[attr-defined]
    with collector_paused():
        if isinstance(source, Literal):
            data: Buffer = source.data
            decoder.fields(message, table, data, 0, len(data), 0, 0)
        elif source.nbytes <= WHOLE_BYTES:
            data = source.read()
            decoder.fields(message, table, data, 0, len(data), 0, 0)
        else:
            decoder.large(message, table, 0, source.nbytes, 0)
    return message


class _Decoder:
    """The source being decoded, and how many messages it has asked for so far."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.messages = 0

    def enter(self, depth: int) -> None:
        """Count a message, against both limits."""
        self.messages += 1
        if depth > MAX_DEPTH:
            raise LimitError(f"messages are nested deeper than {MAX_DEPTH}")
        if self.messages > MAX_MESSAGES:
            raise LimitError(f"the file holds more than {MAX_MESSAGES} messages")

    def large(self, message: Any, table: _Table, start: int, end: int, depth: int) -> None:
        """Merge the fields in the range `start` to `end` of the source into `message`, reading little of it.

        A window moves over the range; fields that lie in it whole are decoded there.
        """
        self.enter(depth)
        position, window, window_start = start, b"", start
        while position < end:
            first = position - window_start
            stop = _whole_fields(window, first)
            if stop > first:
                self.fields(message, table, window, first, stop, window_start, depth)
                position = window_start + stop
            elif position > window_start or not window:
                window, window_start = self.source.read(position, min(WINDOW_BYTES, end - position)), position
            else:
                position = self.large_field(message, table, window, position, end, depth)

    def large_field(self, message: Any, table: _Table, window: bytes, position: int, end: int, depth: int) -> int:
        """Merge the field that begins with `window` at `position` of the source; the position after it.

        A message is entered, weights stay where they are, and anything else is read.
        """
        name = ""
        try:
            tag, after = decode_varint(window, 0)
            row = table.by_tag.get(tag)
            if tag & 7 != WireType.LEN:  # a group, or a field that the end of the data cuts
                data = self.source.read(position, end - position)
                return position + self.fields(message, table, data, 0, skip_field(data, after, tag), position, depth)
            size, after = decode_varint(window, after)
            begin, stop = position + after, position + after + size
            if stop > end:
                raise TruncatedError(f"needed {size} bytes, {end - begin} left")
            if row and row.action == _MESSAGE:
                name = row.name
                self.large(self.child(message, row), row.inner, begin, stop, depth + 1)
            elif row and row.action in (_PLACE, _PLACES):
                name = row.name
                places = _Places(message)
                places.add(row, self.source.slice(begin, size))
                places.close()
            else:
                self.fields(
                    message,
                    table,
                    self.source.read(position, stop - position),
                    0,
                    stop - position,
                    position,
                    depth,
                )
        except IndexError:
            raise TruncatedError("the data end inside a field", file_offset=position) from None
        except FormatError as error:
            _locate(error, message, name, position)
            raise
        return stop

    def child(self, message: Any, row: _Row) -> Any:
        """The message to decode into: a new one, or for a field that is not repeated the one already there."""
        if row.repeated:
            inner = row.inner.message_class()
            getattr(message, row.name).append(inner)
            return inner
        _clear(message, row.siblings)
        inner = getattr(message, row.name)
        if inner is None:
            inner = row.inner.message_class()
            setattr(message, row.name, inner)
        return inner

    def fields(
        self, message: Any, table: _Table, data: Buffer, position: int, end: int, origin: int, depth: int
    ) -> int:
        """Merge the fields in `data[position:end]` into `message` and return `end`.

        `data` starts at `origin` of the source. This is the inner loop of decoding.
        """
        self.enter(depth)
        rows = table.by_tag
        places = None
        name, start = "", position
        try:
            while position < end:
                start = position
                tag = data[position]
                position += 1
                if tag >= 0x80:
                    tag, position = decode_varint(data, start)
                row = rows.get(tag)
                if row is None:
                    name = ""
                    position = skip_field(data, position, tag)
                    message.unknown_fields += bytes(data[start:position])
                    continue
                action, name, repeated, inner, siblings = row
                if action <= _LAST_WITH_LENGTH:
                    size = data[position]
                    position += 1
                    if size >= 0x80:
                        size, position = decode_varint(data, position - 1)
                    begin, position = position, position + size
                    if position > end:
                        raise TruncatedError(f"needed {size} bytes, {end - begin} left")
                    if action == _MESSAGE:
                        self.fields(self.child(message, row), inner, data, begin, position, origin, depth + 1)
                        continue
                    if action == _STRING:
                        value: Any = str(data[begin:position], "utf-8", "surrogateescape")
                    elif action == _BYTES:
                        value = bytes(data[begin:position])
                    else:
                        if action == _PACKED:
                            getattr(message, name).extend(_unpack(data[begin:position], inner))
                        else:
                            places = places or _Places(message)
                            places.add(row, self.slice(data, begin, size, origin))
                        continue
                elif action == _INTEGER:
                    value = data[position]
                    position += 1
                    if value >= 0x80:
                        value, position = decode_varint(data, position - 1)
                        value = _signed(value, inner)
                elif action == _FIXED_WIDTH:
                    (value,) = inner.unpack_from(data, position)
                    position += inner.size
                else:
                    begin, position = position, skip_field(data, position, tag)
                    places = places or _Places(message)
                    places.add(row, Literal(bytes(data[begin:position])))
                    continue
                if repeated:
                    getattr(message, name).append(value)
                else:
                    setattr(message, name, value)
                    if siblings:
                        _clear(message, siblings)
            if position > end:
                raise TruncatedError("the message ends inside a field")
            if places:
                places.close()
        except (IndexError, struct.error):
            raise TruncatedError("the data end inside a field", file_offset=origin + start) from None
        except FormatError as error:
            _locate(error, message, name, origin + start)
            raise
        return end

    def slice(self, data: Buffer, position: int, size: int, origin: int) -> Source:
        """The bytes at `position` of `data`, which starts at `origin` of the source, as a place."""
        if size <= INLINE_BYTES:
            return Literal(bytes(data[position : position + size]))
        return self.source.slice(origin + position, size)


class _Places:
    """The fields of one message that stay where they are; a repeated one may come in many parts."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.parts: dict[str, list[Source]] = {}

    def add(self, row: _Row, source: Source) -> None:
        """Set a field, or append to a repeated one."""
        if row.inner and source.nbytes % row.inner:
            raise WireError(f"{source.nbytes} bytes are no whole number of {row.inner}-byte elements")
        parts = self.parts.setdefault(row.name, [])
        if row.action == _PLACE:
            parts.clear()
        elif not parts and (present := getattr(self.message, row.name)) is not None:
            parts.extend(present.parts if isinstance(present, Concat) else (present,))
        parts.append(source)

    def close(self) -> None:
        """Give the message what was collected, short neighbours joined."""
        for name, parts in self.parts.items():
            joined: list[Source] = []
            for in_memory, group in groupby(parts, lambda part: isinstance(part, Literal)):
                members = list(group)
                joined += [Literal(b"".join(m.read() for m in members))] if in_memory and members[1:] else members
            setattr(self.message, name, joined[0] if len(joined) == 1 else Concat.of(*joined))


def _clear(message: Any, names: tuple[str, ...]) -> None:
    """Remove the other members of a oneof."""
    for name in names:
        setattr(message, name, None)


def _whole_fields(data: bytes, position: int) -> int:
    """The end of the last field from `position` on that lies in `data` whole."""
    stop = position
    try:
        while stop < len(data):
            tag, after = decode_varint(data, stop)
            after = skip_field(data, after, tag)
            if after > len(data):
                break
            stop = after
    except (IndexError, FormatError):  # cut short by the window, or wrong: `fields` will tell which
        pass
    return stop


def _unpack(data: Buffer, inner: Any) -> list[Any]:
    """The elements of a packed field."""
    if isinstance(inner, struct.Struct):
        if len(data) % inner.size:
            raise WireError(f"{len(data)} bytes are no whole number of {inner.size}-byte elements")
        return [value for (value,) in inner.iter_unpack(data)]
    values, position = [], 0
    while position < len(data):
        value, position = decode_varint(data, position)
        values.append(_signed(value, inner))
    return values


def _signed(value: int, width: tuple[int, bool]) -> int:
    """A varint's value as the integer type that the field has: its low bits, as two's complement."""
    bits, signed = width
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _locate(error: FormatError, message: Any, name: str, file_offset: int) -> None:
    """Tell the place of an error from `message`, in whose field `name` it arose."""
    if error.file_offset is None:
        error.file_offset = file_offset
    if name:
        value = getattr(message, name)
        step = f"{name}[{len(value) - 1}]" if isinstance(value, list) and value else name
        error.where = f"{step}.{error.where}" if error.where else step


# Encoding


def encode(message: Any, replace: Callable[[Tensor], Tensor] | None = None) -> list[Segment]:
    """The bytes of a message, in the order of field numbers, as segments: weights stay sources.

    `replace` is asked for every tensor, at any depth, and what it returns is written in its place.

    Raises: EncodeError where a field holds what its type cannot.
    """
    backwards: list[Segment] = []
    with collector_paused():
        try:
            _encode(message, _tables()[type(message).message], backwards, replace)
        except RecursionError:
            raise EncodeError("the model is nested too deep, or contains itself") from None
    backwards.reverse()
    return backwards


def _encode(message: Any, table: _Table, out: list[Segment], replace: Callable[[Tensor], Tensor] | None) -> int:
    """Append the encoded fields of `message` to `out`, last one first, and return their size in bytes.

    Backwards, a length is known when it is written, without a pass over the model in front.
    """
    size = len(message.unknown_fields)
    if size:
        out.append(message.unknown_fields)
    for tag, row in table.rows:
        value = getattr(message, row.name)
        if value is None or (row.repeated and not value and isinstance(value, list)):
            continue
        action, inner = row.action, row.inner
        try:
            for item in reversed(value) if isinstance(value, list) else (value,):
                if action == _STRING:
                    payload: Any = item.encode("utf-8", "surrogateescape")
                    nbytes = len(payload)
                    out.append(payload)
                elif action == _MESSAGE:
                    if replace and isinstance(item, Tensor):
                        item = replace(item)
                    nbytes = _encode(item, inner, out, replace)
                elif action in (_INTEGER, _FIXED_WIDTH):
                    payload = _encode_integer(item, inner) if action == _INTEGER else inner.pack(item)
                    out.append(tag + payload)
                    size += len(tag) + len(payload)
                    continue
                else:
                    payload = item if isinstance(item, Source) else bytes(item)
                    nbytes = payload.nbytes if isinstance(payload, Source) else len(payload)
                    out.append(payload)
                prefix = tag + encode_varint(nbytes)
                out.append(prefix)
                size += len(prefix) + nbytes
        except (TypeError, ValueError, AttributeError, OverflowError, struct.error) as error:
            name = type(message).__name__
            raise EncodeError(f"{row.name} of a {name} holds {value!r:.80}, which does not fit its type") from error
    return size


def _encode_integer(value: int, width: tuple[int, bool]) -> bytes:
    bits, signed = width
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= value < high:
        raise ValueError(value)
    return encode_varint(value)
