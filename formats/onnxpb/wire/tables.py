"""The rows of `schema.py` prepared for use: what to do with each tag, and in which order fields are written."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.onnxpb.wire.varints import INT64, WireType, encode_varint, make_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.onnxpb.wire.schema import MessageField

# What to do with a field. Text comes first, then messages, then other fields with a length. VISIT is a message that is
# shown to the `visit` of the decoder and then forgotten; PRESENCE skips a field and notes only that it is there.
TEXT, MESSAGE, BULK, VISIT = range(4)
BYTES, PACKED, PLACE, PLACES = range(4, 8)
INTEGER, FIXED_WIDTH, PLACE_ONE, CLOSED_ENUM, PRESENCE = range(8, 13)
MAX_LAYOUTS = 1 << 10  # of a message: fields that were set in another order have another one
LAST_MESSAGE, LAST_WITH_LENGTH = VISIT, PLACES

_INTEGERS = {"int32": (32, True), "int64": INT64, "uint64": (64, False), "enum": (32, True)}
_FIXED = {"float": (WireType.I32, struct.Struct("<f")), "double": (WireType.I64, struct.Struct("<d"))}
# Numbers in place that are not packed, and lists of attributes, such as the trees of an ensemble.
_RUNS = {"TensorProto": (PLACE_ONE,), "AttributeProto": (BYTES, INTEGER, FIXED_WIDTH)}
_BULK = ("NodeProto", "ValueInfoProto", "TensorProto")  # a graph has thousands, and many uses of a model read none


class FieldRow(NamedTuple):
    """What to do with the payload of one tag."""

    action: int
    name: str
    repeated: bool
    inner: Any = None  # of the action: the table of a message, the width of an integer, a struct, what encodes a text
    siblings: tuple[str, ...] = ()  # the other members of the oneof


class ClosedEnum(NamedTuple):
    """The width of a number, and the numbers that a field can have."""

    width: tuple[int, bool]
    numbers: frozenset[int]


class FieldToWrite(NamedTuple):
    """How to write a field."""

    name: str
    tag: bytes
    short: list[bytes]  # the tag and a varint of one byte, by the varint's value: a size, or the payload
    action: int
    repeated: bool
    inner: Any


@cache
def _short(tag: bytes) -> list[bytes]:
    return [tag + encode_varint(value) for value in range(0x80)]


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
        self.decode_text = family.decode_text
        self.finish = family.finish(name)
        self.by_tag: dict[int, FieldRow] = {}
        self.runs: dict[int, FieldRow] = {}  # by tags of one byte, lists that can have very many fields in a row
        self.by_name: dict[str, tuple[bytes, FieldRow]] = {}
        self.order: dict[str, int] = {}  # in which fields are written
        self._layouts: dict[tuple[str, ...], list[FieldToWrite]] = {}

    def layout(self, names: tuple[str, ...]) -> list[FieldToWrite]:
        """How to write the fields with these names, in the order in which they are written; others are omitted."""
        to_write = self._layouts.get(names)
        if to_write is None:
            fields = sorted({name for name in names if name in self.order}, key=self.order.__getitem__)
            rows = [self.by_name[name] for name in fields]
            to_write = [
                FieldToWrite(row.name, tag, _short(tag), row.action, row.repeated, row.inner) for tag, row in rows
            ]
            if len(self._layouts) < MAX_LAYOUTS:
                self._layouts[names] = to_write
        return to_write


def decoded_text(data: bytes) -> str:
    """The text of bytes that are not UTF-8: these are in surrogates."""
    return data.decode("utf-8", "surrogateescape")


def encoded_text(text: str) -> bytes:
    """The bytes of a text that is not ASCII; those that are not UTF-8 are in surrogates."""
    return text.encode("utf-8", "surrogateescape")


IR_FAMILY = Family({cls.message: cls for cls in MESSAGE_CLASSES}, decoded_text, encoded_text, False, lambda _: None)


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
        in_place = SOURCE_FIELDS[name]
        for field in MESSAGES[name]:
            table.order[field.name] = field.number
            _add_rows(table, field, field.name in in_place, all_tables, family)
    for name, actions in _RUNS.items():
        table = all_tables[name]
        table.runs = {
            tag: row for tag, row in table.by_tag.items() if row.repeated and row.action in actions and tag < 0x80
        }
    return all_tables


def _add_rows(
    table: MessageTable,
    field: MessageField,
    in_place: bool,
    all_tables: Tables,
    family: Family,
) -> None:
    repeated = field.label == "repeated"
    siblings = tuple(
        other.name
        for other in MESSAGES[table.name]
        if field.oneof and other.oneof == field.oneof and other is not field
    )

    def row(action: int, inner: Any = None) -> FieldRow:
        return FieldRow(action, field.name, repeated, inner, siblings)

    packed_tag = make_tag(field.number, WireType.LEN)
    if field.kind in _INTEGERS or field.kind in _FIXED:
        inner: Any
        wire_type, inner = _FIXED.get(field.kind) or (WireType.VARINT, _INTEGERS[field.kind])
        tag = make_tag(field.number, wire_type)
        if in_place:
            width = 0 if wire_type == WireType.VARINT else inner.size
            table.by_tag[tag] = row(PLACE_ONE, width)
            table.by_tag[packed_tag] = main = row(PLACES, width)
            tag = packed_tag
        else:
            fixed = wire_type != WireType.VARINT
            table.by_tag[tag] = main = row(FIXED_WIDTH if fixed else INTEGER, inner)
            if field.kind == "enum" and family.has_closed_enums:
                table.by_tag[tag] = row(CLOSED_ENUM, ClosedEnum(inner, frozenset(ENUMS[field.type_name].values())))
            if repeated:
                table.by_tag[packed_tag] = row(PACKED, inner)
    else:
        tag = packed_tag
        if field.kind == "message":
            main = row(BULK if repeated and field.type_name in _BULK else MESSAGE, all_tables[field.type_name])
        elif field.kind == "string":
            main = row(TEXT, family.encode_text)
        else:
            main = row(PLACE if in_place else BYTES)
        table.by_tag[tag] = main
    table.by_name[field.name] = (encode_varint(tag), main)
