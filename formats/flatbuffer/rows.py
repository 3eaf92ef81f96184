"""The rows of a schema, from which buffers are read and built: what is in each slot of each table.

`schemas/flatbuffer_schema.py` makes the rows of a format from its schema file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
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


@dataclass(frozen=True, eq=False)
class Schema:
    """The rows of a format, by name, and what its buffers have in common."""

    root: str  # the name of the outermost table
    tables: Mapping[str, tuple[TableField, ...]]
    enums: Mapping[str, Enum]
    unions: Mapping[str, tuple[str, ...]]
    words: Words
    structs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    identifier: bytes = b""  # the mark of a file, after the offset of the root
    data_alignment: int = 4  # of large vectors that are read in place, from the start of the buffer
    alike: Collection[str] = ()  # the tables that often have the same bytes as another one
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
