"""The rows of a schema, from which buffers are read and built: what is in each slot of each table.

`read_schema` reads them from the schema of a format, which is in FlatBuffers' own language.

Spec: FlatBuffers, "Schema" and "Grammar of the schema language".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FORMATS: Final = {  # of the scalars, for `struct`
    "bool": "?",
    "byte": "b",
    "ubyte": "B",
    "short": "h",
    "ushort": "H",
    "int": "i",
    "uint": "I",
    "long": "q",
    "ulong": "Q",
    "float": "f",
    "double": "d",
}

_DECLARATION: Final = re.compile(r"(table|enum|union|struct)\s+(\w+)\s*(?::\s*(\w+)\s*)?\{([^{}]*)\}\s*")
_ROOT: Final = re.compile(r'root_type\s+(\w+)\s*;\s*(?:file_identifier\s+"(\w+)"\s*;\s*)?')
_FIELD: Final = re.compile(r"(\w+)\s*:\s*(\w+|\[\w+\])\s*(?:=\s*([\w.-]+)\s*)?(?:\(([\w\s,]+)\)\s*)?")
_MEMBER: Final = re.compile(r"(\w+)\s*=\s*(\d+)\s*")


class TableField(NamedTuple):
    """One field of a table.

    `type` is written as in the schema: a scalar ("int"), "string", the name of a table, an enum, a union or a struct,
    or a vector of one ("[uint]", "[Node]"). `slot` counts the entries of the vtable from 0; a union has two, its tag in
    `slot` and its value in the next. `default` is what an absent scalar means, for an enum the name of a member.
    `optional` is a scalar that has no default, because its absence is a value of its own. `in_place` is a vector that
    is not copied: its elements are weights. `binary` is a string, or a vector of strings, of any bytes.
    """

    slot: int
    name: str
    type: str
    default: bool | int | float | str | None = None
    required: bool = False
    optional: bool = False
    in_place: bool = False
    binary: bool = False


class EnumType(NamedTuple):
    """The scalar type that holds an enum, and the numbers of its members."""

    base: str
    values: dict[str, int]


class RefusalWords(NamedTuple):
    """What a refusal says about the limits of the program that reads the buffers."""

    program: str
    table_costs: str  # what needs how many tables
    too_deep: str
    too_large: str  # up to the largest number of bytes, and after it
    way_out: str


@dataclass(frozen=True, eq=False)
class Schema:
    """The rows of a format, by name, and what its buffers have in common."""

    root: str  # the name of the outermost table
    tables: Mapping[str, tuple[TableField, ...]]
    enums: Mapping[str, EnumType]
    unions: Mapping[str, tuple[str, ...]]
    words: RefusalWords
    structs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    identifier: bytes = b""  # the mark of a file, after the offset of the root
    data_alignment: int = 4  # of large vectors that are read in place, from the start of the buffer
    alike: str = ""  # the union of the tables that often have the same bytes as another one
    # The tables that are often in the buffer once although several others lead to them. If there are any, the same is
    # true of equal strings.
    shared: Collection[str] = ()

    @cached_property
    def members(self) -> Mapping[str, Mapping[int, str]]:
        """The members of each enum by their numbers."""
        return {name: {number: member for member, number in enum.values.items()} for name, enum in self.enums.items()}

    @cached_property
    def tags(self) -> Mapping[str, Mapping[str, int]]:
        """The tags of the members of each union."""
        return {name: {member: tag for tag, member in enumerate(union, 1)} for name, union in self.unions.items()}


def read_schema(text: str, words: RefusalWords, **properties: Any) -> Schema:
    """The rows of a schema in the language of schema files; `properties` are what such a file cannot say.

    A table's field may be `in_place` or `binary`, which `TableField` explains. All members of a struct take 4 bytes.

    Raises: ValueError for a part of the language that this function does not know.
    """
    text = re.sub(r"//[^\n]*", "", text).lstrip()
    bodies: dict[str, dict[str, str]] = {"table": {}, "enum": {}, "union": {}, "struct": {}}
    bases: dict[str, str] = {}
    root = identifier = ""
    position = 0
    while position < len(text):
        if match := _DECLARATION.match(text, position):
            keyword, name, base, body = match.groups()
            bodies[keyword][name], bases[name] = body, base
        elif match := _ROOT.match(text, position):
            root, identifier = match.groups(default="")
        else:
            raise ValueError(f"schema.fbs has a declaration that cannot be read: {text[position : position + 60]!r}")
        position = match.end()
    enums = {
        name: EnumType(bases[name], {member: int(number) for member, number in _parts(body, ",", _MEMBER)})
        for name, body in bodies["enum"].items()
    }
    unions = {name: tuple(re.findall(r"\w+", body)) for name, body in bodies["union"].items()}
    structs = {
        name: tuple(type_ for _, type_, *_ in _parts(body, ";", _FIELD)) for name, body in bodies["struct"].items()
    }
    tables = {name: _rows(body, enums, unions) for name, body in bodies["table"].items()}
    declared = {*FORMATS, "string", *tables, *enums, *unions, *structs}
    used = {row.type.strip("[]") for rows in tables.values() for row in rows}
    if undeclared := used.union(*unions.values()) - declared:
        raise ValueError(f"schema.fbs does not declare {min(undeclared)}")
    return Schema(root, tables, enums, unions, words, structs, identifier.encode(), **properties)


def _parts(body: str, separator: str, pattern: re.Pattern[str]) -> list[tuple[Any, ...]]:
    """The groups of a pattern for each part of a declaration; the part after the last separator may be empty."""
    parts = [part for part in map(str.strip, body.split(separator)) if part]
    matches = [pattern.fullmatch(part) for part in parts]
    if None in matches:
        raise ValueError(f"a schema has a part that cannot be read: {parts[matches.index(None)]!r}")
    return [match.groups() for match in matches if match is not None]


def _rows(body: str, enums: Mapping[str, EnumType], unions: Mapping[str, tuple[str, ...]]) -> tuple[TableField, ...]:
    """The fields of a table. A union takes two slots, and a scalar whose default is `null` is optional."""
    rows = []
    slot = 0
    for name, type_, text, attributes in _parts(body, ";", _FIELD):
        default: Any = None
        if text == "null":
            default = None
        elif type_ in enums:
            default = text or next(member for member, number in enums[type_].values.items() if not number)
        elif type_ in ("float", "double"):
            default = float(text or 0)
        elif type_ in FORMATS:
            default = text == "true" if type_ == "bool" else int(text or 0)
        flags = dict.fromkeys(re.findall(r"\w+", attributes or ""), True)
        rows.append(TableField(slot, name, type_, default, optional=text == "null", **flags))
        slot += 2 if type_ in unions else 1
    return tuple(rows)
