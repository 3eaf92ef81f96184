"""The rows of `schema.py` prepared for use: what to do with each tag, and in which order fields are written."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.onnxpb.wire.varints import INT64, IntegerType, WireType, encode_varint, make_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.onnxpb.wire.schema import MessageField


_INTEGERS = {
    "int32": IntegerType(32, True),
    "int64": INT64,
    "uint64": IntegerType(64, False),
    "enum": IntegerType(32, True),
}
_FIXED = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_WIRE_TYPES = {  # of kinds that are not varints
    "float": WireType.I32,
    "double": WireType.I64,
    "string": WireType.LEN,
    "bytes": WireType.LEN,
    "message": WireType.LEN,
}
_BULK = ("NodeProto", "ValueInfoProto", "TensorProto")  # a graph has thousands, and many uses of a model read none


# What to do with the payload of a tag. A number that is behind a tag for a payload with a length is packed.


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A field that is a payload behind one tag."""

    name: str
    repeated: bool
    siblings: tuple[str, ...] = ()  # the other members of the oneof


@dataclass(frozen=True, slots=True)
class TextRow(FieldRow):
    """A text."""


@dataclass(frozen=True, slots=True)
class BytesRow(FieldRow):
    """Bytes that are never weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow(FieldRow):
    """Bytes or numbers that can be weights: they stay in the source.

    `width` is that of a number in bytes, 0 for varints; bytes have the width 1.
    """

    width: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerRow(FieldRow):
    """A varint. A number that a closed enum does not have is an unknown field."""

    number_type: IntegerType
    enum_numbers: frozenset[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWidthRow(FieldRow):
    """A number with a fixed width."""

    number_type: struct.Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow(FieldRow):
    """A message with this table.

    A list of them is left undecoded if it is long and `is_bulk`, or if it is short and they are entries of external
    data (`is_place`). One that `is_visited` is shown to the `visit` of the decoder, and then forgotten.
    """

    table: MessageTable
    is_bulk: bool = False
    is_place: bool = False
    is_visited: bool = False


@dataclass(frozen=True, slots=True)
class PresenceRow(FieldRow):
    """A field that is skipped; only that it is there is noted."""


def width_of(row: FieldRow) -> int:
    """The size in bytes of the numbers in a field; 0 for varints."""
    if isinstance(row, SourceRow):
        return row.width
    return row.number_type.size if isinstance(row, FixedWidthRow) else 0


class FieldToWrite(NamedTuple):
    """How to write a field."""

    row: FieldRow
    tag: bytes

    def prefix(self, nbytes: int) -> bytes:
        """What stands in front of a payload of this size."""
        return self.tag + encode_varint(nbytes)


class Family(NamedTuple):
    """Classes of messages that the binary format can be read to and written from, and how their values differ.

    `finish` makes, for the message with a name, the function that changes the fields of a message in which everything
    was decoded; `None` if they are as they should be.
    """

    classes: Mapping[str, type[Any]]
    decode_text: Callable[[bytes], Any]  # bytes that are not UTF-8
    encode_text: Callable[[Any], bytes]  # a text that is not ASCII
    has_closed_enums: bool  # whether a number that an enum does not have is an unknown field, as in protobuf
    finish: Callable[[str], Callable[[dict[str, Any]], None] | None]


class MessageTable:
    """The rows of one message, by tag for decoding and by name for encoding."""

    def __init__(self, name: str, family: Family) -> None:
        self.message_class = family.classes[name]
        self.name = name
        self.decode_text, self.encode_text = family.decode_text, family.encode_text
        self.finish = family.finish(name)
        self.by_tag: dict[int, FieldRow] = {}
        self.runs: dict[int, FieldRow] = {}  # by tags of one byte, lists that can have very many fields in a row
        self.by_name: dict[str, FieldToWrite] = {}  # in the order in which fields are written


def decoded_text(data: bytes) -> str:
    """The text of bytes that are not UTF-8: these are in surrogates."""
    return data.decode("utf-8", "surrogateescape")


def utf8_bytes(text: str) -> bytes:
    """The bytes of a text that is not ASCII; those that are not UTF-8 are in surrogates."""
    return text.encode("utf-8", "surrogateescape")


IR_FAMILY = Family({cls.message: cls for cls in MESSAGE_CLASSES}, decoded_text, utf8_bytes, False, lambda _: None)


class Tables(dict[str, MessageTable]):
    """The tables of the messages of a family, by their names in onnx.proto; a copy is the same object."""

    def __deepcopy__(self, memo: object) -> Tables:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self is not tables():
            raise TypeError("only tables of the IR can be pickled")
        return tables, ()


@cache
def tables() -> Tables:
    """The table of every message of the IR, by its name in onnx.proto."""
    return tables_of(IR_FAMILY)


def tables_of(family: Family) -> Tables:
    """The table of every message of a family, by its name in onnx.proto."""
    all_tables = Tables({name: MessageTable(name, family) for name in family.classes})
    for name, table in all_tables.items():
        for field in sorted(MESSAGES[name], key=lambda field: field.number):
            row = _row_of(name, field, all_tables, family)
            packed_tag = make_tag(field.number, WireType.LEN)
            tag = make_tag(field.number, _WIRE_TYPES.get(field.kind, WireType.VARINT))
            table.by_tag[tag] = row
            if row.repeated:  # a list of numbers may be packed or not
                table.by_tag[packed_tag] = row
            if tag < 0x80 and _has_runs(name, row, tag):
                table.runs[tag] = row
            written_tag = packed_tag if row.repeated and isinstance(row, SourceRow) else tag
            table.by_name[field.name] = FieldToWrite(row, encode_varint(written_tag))
    return all_tables


def _row_of(message: str, field: MessageField, all_tables: Tables, family: Family) -> FieldRow:
    """What to do with a field of the message with this name."""
    repeated = field.label == "repeated"
    siblings = tuple(
        other.name for other in MESSAGES[message] if field.oneof and other.oneof == field.oneof and other is not field
    )
    fixed = _FIXED.get(field.kind)
    if field.kind == "message":
        is_bulk = repeated and field.type_name in _BULK
        is_place = family is IR_FAMILY and field.name == "external_data"
        table = all_tables[field.type_name]
        return MessageRow(field.name, repeated, siblings, table=table, is_bulk=is_bulk, is_place=is_place)
    if field.kind == "string":
        return TextRow(field.name, repeated, siblings)
    if field.name in SOURCE_FIELDS[message]:
        width = 1 if field.kind == "bytes" else fixed.size if fixed else 0
        return SourceRow(field.name, repeated, siblings, width=width)
    if field.kind == "bytes":
        return BytesRow(field.name, repeated, siblings)
    if fixed:
        return FixedWidthRow(field.name, repeated, siblings, number_type=fixed)
    is_closed = field.kind == "enum" and family.has_closed_enums
    enum_numbers = frozenset(ENUMS[field.type_name].values()) if is_closed else None
    return IntegerRow(field.name, repeated, siblings, number_type=_INTEGERS[field.kind], enum_numbers=enum_numbers)


def _has_runs(message: str, row: FieldRow, tag: int) -> bool:
    """Whether a message can have so many fields with this tag in a row that they stay undecoded."""
    if isinstance(row, MessageRow):
        return row.is_bulk
    if isinstance(row, SourceRow):  # numbers that are not packed
        return tag & 7 != WireType.LEN
    return message == "AttributeProto" and row.repeated and not isinstance(row, TextRow)  # as the trees of an ensemble
