"""The rows of a schema, from which buffers are read and built: what is in each slot of each table.

`schemas/flatbuffer_schema.py` makes the rows of a format from its schema file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


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


class Enum(NamedTuple):
    """The scalar type that holds an enum, and the numbers of its members."""

    base: str
    values: dict[str, int]


class Words(NamedTuple):
    """What a refusal says about the limits of the program that reads the buffers."""

    program: str
    table_costs: str  # what needs how many tables
    too_deep: str
    too_large: str  # up to the largest number of bytes, and after it
    way_out: str


class Schema:
    """The rows of a format, by name, and what its buffers have in common.

    `alike` are the tables that often have the same bytes as another one. `identifier` is the mark of a file after the
    offset of the root. `data_alignment` is that of large vectors that are read in place, from the start of the buffer.
    Tables with the names `shared` are often in the buffer once although several others lead to them, and if there are
    any, so are equal strings.
    """

    def __init__(  # the rows, and what the rows cannot say
        self,
        rows: tuple[Mapping[str, tuple[TableField, ...]], Mapping[str, Enum], Mapping[str, tuple[str, ...]]],
        words: Words,
        *,
        structs: Mapping[str, tuple[str, ...]] | None = None,
        alike: Collection[str] = (),
        identifier: bytes = b"",
        data_alignment: int = 4,
        shared: Collection[str] = (),
    ) -> None:
        self.tables, self.enums, self.unions = rows
        self.words = words
        self.structs = structs or {}
        self.alike = frozenset(alike)
        self.identifier = identifier
        self.data_alignment = data_alignment
        self.shared = frozenset(shared)
        self.shares_strings = bool(shared)
        self.members = {
            name: {number: member for member, number in enum.values.items()} for name, enum in self.enums.items()
        }
        self.tags = {name: {member: tag for tag, member in enumerate(union, 1)} for name, union in self.unions.items()}
