"""The part of the proto2 language that `onnx.proto` uses, and the rows made from it.

All other parts of the language (imports, groups, maps, services, defaults) are refused, with the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from tokens import SchemaError, Token, TokenReader

FIXED = {"double", "fixed32", "fixed64", "float", "sfixed32", "sfixed64"}
VARINT = {"bool", "int32", "int64", "sint32", "sint64", "uint32", "uint64"}
SCALARS = FIXED | VARINT | {"bytes", "string"}
PACKABLE = FIXED | VARINT | {"enum"}
LABELS = ("optional", "required", "repeated")
MAX_FIELD_NUMBER = (1 << 29) - 1
PROTOBUF_OWN_NUMBERS = range(19000, 20000)

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<number>(0[xX][0-9A-Fa-f]+|-?[1-9][0-9]*|0)(?![A-Za-z0-9_.]))
    |(?P<string>"[^"\\\n]*")
    |(?P<mark>[{}\[\]=;,])""",
    re.VERBOSE | re.DOTALL,
)

HEADER = """\
# The messages and enums of ONNX. `schema.py` reads them.
#
# Generated from schemas/onnx.proto by `python schemas/generate.py`; change that file, not this one.
#
# A line below the name of a message is a field: its number, name, kind, label, the name of its type if the kind is
# `message` or `enum`, `packed` if it is, and the oneof that it is in. What a field does not have is `-`.
# A line below the name of an enum is a number and its name.
"""


class Field(NamedTuple):
    """One field; `kind` and the full `type_name` are known when the whole text is read."""

    number: int
    name: str
    kind: str
    label: str
    type_name: str
    packed: bool
    oneof: str
    line: int


@dataclass
class Message:
    """One message, with its fields in order of number when the whole text is read."""

    fields: list[Field] = field(default_factory=list)
    reserved_numbers: list[range] = field(default_factory=list)
    reserved_names: set[str] = field(default_factory=set)


@dataclass
class Schema:
    """Messages and enums by their full names without the package, in the order of the text."""

    messages: dict[str, Message] = field(default_factory=dict)
    enums: dict[str, dict[str, int]] = field(default_factory=dict)


def generate(source_text: str) -> str:
    """Return the text of `formats/onnxpb/wire/schema.txt` for the text of `onnx.proto`.

    Raises: SchemaError if the text is not proto2, or uses more of it than this module supports.
    """
    schema = parse(source_text)
    lines = []
    for name, message in schema.messages.items():
        lines += ["", f"message {name}", *map(_row, message.fields)]
    for name, values in schema.enums.items():
        lines += ["", f"enum {name}", *(f"{value} {value_name}" for value_name, value in values.items())]
    return HEADER + "".join(f"{line}\n" for line in lines)


def _row(row: Field) -> str:
    words = (row.name, row.kind, row.label, row.type_name, "packed" if row.packed else "", row.oneof)
    return " ".join((str(row.number), *(word or "-" for word in words)))


def parse(source_text: str) -> Schema:
    """Return the messages and enums that the text declares, with every type name resolved.

    Raises: SchemaError if the text is not proto2, or uses more of it than this module supports.
    """
    schema = _Parser(source_text).schema()
    for name, message in schema.messages.items():
        _check_fields(name, message)
        message.fields = sorted(_resolved(row, name, schema) for row in message.fields)
    return schema


class _Parser(TokenReader):
    """Reads declarations one after another."""

    def __init__(self, source_text: str) -> None:
        super().__init__(source_text, _TOKEN)
        self._schema = Schema()

    def schema(self) -> Schema:
        """Return everything that the text declares; type names are as written."""
        for token_text in ("syntax", "=", '"proto2"', ";", "package"):
            self._expect(token_text)
        self._take("word")
        self._expect(";")
        while self._next.kind != "end":
            if self._expect("message", "enum") == "message":
                self._message("")
            else:
                self._enum("")
        return self._schema

    def _name(self) -> Token:
        token = self._take("word")
        if "." in token.text:
            raise SchemaError(token.line, f"found {token.text}, expected a name without dots")
        return token

    def _number(self) -> int:
        return int(self._take("number").text, 0)

    def _declare(self, scope: str) -> str:
        """Return the full name of the next message or enum, which must be new."""
        token = self._name()
        name = f"{scope}.{token.text}" if scope else token.text
        if name in self._schema.messages or name in self._schema.enums:
            raise SchemaError(token.line, f"{name} is declared already")
        return name

    def _message(self, scope: str) -> None:
        name = self._declare(scope)
        message = self._schema.messages[name] = Message()
        self._expect("{")
        while not self._accept("}"):
            keyword = self._expect("message", "enum", "oneof", "reserved", *LABELS)
            if keyword == "message":
                self._message(name)
            elif keyword == "enum":
                self._enum(name)
            elif keyword == "oneof":
                oneof = self._name().text
                self._expect("{")
                while not self._accept("}"):
                    message.fields.append(self._field("optional", oneof))
            elif keyword == "reserved":
                self._reserved(message)
            else:
                message.fields.append(self._field(keyword, ""))

    def _field(self, label: str, oneof: str) -> Field:
        type_name = self._take("word").text
        name = self._name()
        self._expect("=")
        number = self._number()
        packed = False
        if self._accept("["):
            for token_text in ("packed", "=", "true", "]"):
                self._expect(token_text)
            packed = True
        self._expect(";")
        return Field(number, name.text, "", label, type_name, packed, oneof, name.line)

    def _reserved(self, message: Message) -> None:
        """Read names, or numbers and ranges of them that include both ends."""
        while True:
            if self._next.kind == "string":
                message.reserved_names.add(self._take("string").text[1:-1])
            else:
                first = self._number()
                last = self._number() if self._accept("to") else first
                message.reserved_numbers.append(range(first, last + 1))
            if self._expect(",", ";") == ";":
                break

    def _enum(self, scope: str) -> None:
        name = self._declare(scope)
        values = self._schema.enums[name] = {}
        self._expect("{")
        while not self._accept("}"):
            value_name = self._name()
            self._expect("=")
            value = self._number()
            self._expect(";")
            if value_name.text in values or value in values.values():
                raise SchemaError(value_name.line, f"{name} has {value_name.text} or {value} already")
            values[value_name.text] = value


def _check_fields(message_name: str, message: Message) -> None:
    """Refuse fields whose names or numbers are taken, reserved or not allowed in proto2."""
    numbers: set[int] = set()
    names: set[str] = set()
    for row in message.fields:
        if row.number in numbers or row.name in names:
            raise SchemaError(row.line, f"{message_name} has {row.name} or {row.number} already")
        if row.name in message.reserved_names or any(row.number in r for r in message.reserved_numbers):
            raise SchemaError(row.line, f"{message_name} reserves {row.name} or {row.number}")
        if not 1 <= row.number <= MAX_FIELD_NUMBER or row.number in PROTOBUF_OWN_NUMBERS:
            raise SchemaError(row.line, f"{row.number} is not a number that a field can have")
        numbers.add(row.number)
        names.add(row.name)


def _resolved(row: Field, scope: str, schema: Schema) -> Field:
    """Return the row with its kind and its type's full name; if two types have the name, the inner one is meant."""
    if row.type_name in SCALARS:
        row = row._replace(kind=row.type_name, type_name="")
    else:
        outer = scope.split(".")
        candidates = (".".join([*outer[:depth], row.type_name]) for depth in range(len(outer), -1, -1))
        found = next((name for name in candidates if name in schema.messages or name in schema.enums), None)
        if found is None:
            raise SchemaError(row.line, f"no type {row.type_name} is declared")
        row = row._replace(kind="message" if found in schema.messages else "enum", type_name=found)
    if row.packed and (row.label != "repeated" or row.kind not in PACKABLE):
        raise SchemaError(row.line, f"{row.label} {row.kind} {row.name} cannot be packed")
    return row
