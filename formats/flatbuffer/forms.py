"""Tables that differ in few values, and their common layout, with which one `pack` writes each of them.

In a large graph, nearly every node is such a table: it differs from many others only in its name, in the ids of its
inputs and outputs, and in the bytes or the offset of its elements. If all nodes are written value by value, a model of
40,000 nodes takes about 1.5 times as long, but a model of hundreds of nodes takes no longer.

This relies on a rule: a layout gives the bytes that writing value by value would give at the same position. It is made
from a table that was written value by value. It is used only for tables of the same form whose vtables all exist
already, with the same depth and alignment, and whose ASCII names take the same space. All other tables are written
value by value, which also reports the place of errors.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from formats.flatbuffer.fbs import Slot, Table

Values: TypeAlias = tuple[tuple[Any, ...], ...]


class Gap(NamedTuple):
    """The place of a value in the table of a form, by the value's number.

    It may be a string, a vector of scalars, the bytes of a constant, or a scalar without a default.
    """

    number: int


NAME: Final = Gap(-1)


class Form:
    """The common part of many tables: one of them, with gaps where they differ."""

    def __init__(self, table: Table) -> None:
        self.table = table


class FormTable(NamedTuple):
    """A table of a form.

    The values are those of the gaps by number. All are tuples: vectors, or single values. The values of one gap have
    the same size in all tables of the form, except for `name`, the only string, which is in the gap `NAME`.
    """

    form: Form
    name: str = ""
    values: Values = ()

    def value_in(self, slot: Slot, gap: Gap) -> Any:
        """The value in a gap."""
        if gap == NAME:
            return self.name
        values = self.values[gap.number]
        return values if slot.kind == "scalars" else values[0]


class FormTables:
    """A vector of tables of forms: their forms, names and values in three lists, which takes less than an object each.

    The values of each are as in `FormTable`.
    """

    def __init__(self, tables: Iterable[FormTable] = ()) -> None:
        self.forms: list[Form] = []
        self.names: list[str] = []
        self.values: list[Values] = []
        for table in tables:
            self.add(*table)

    def __len__(self) -> int:
        return len(self.forms)

    def __iter__(self) -> Iterator[FormTable]:
        return map(FormTable, self.forms, self.names, self.values)

    def add(self, form: Form, name: str = "", values: Values = ()) -> None:
        """Add a table."""
        self.forms.append(form)
        self.names.append(name)
        self.values.append(values)


class Mark(NamedTuple):
    """A place where tables of a form differ, in bytes from the end of the buffer."""

    position: int
    format: str
    gap: Gap | None
    vtable: int = 0  # the position of a vtable; without a gap, the value is the distance to it


class FormLayout(NamedTuple):
    """How to write the tables of a form whose names take the same space."""

    nbytes: int
    table_count: int
    pack: Callable[..., bytes]
    arguments: list[Any]  # of `pack`, for one of the tables
    distances: list[tuple[int, int]]  # the index of an argument, and its sum with the position of the table
    name: int  # the index of the length of the name, just before the name itself; 0 without a name
    values: list[tuple[int, int, int]]  # the first and the last + 1 argument, and the gap

    def packed(self, text: str, given: Values, position: int) -> bytes:
        """The bytes of a table with a name and values that begins at `position`, in bytes from the end of the buffer.

        Raises: struct.error or OverflowError for a number that does not fit.
        """
        _, _, pack, arguments, distances, name, values = self
        arguments = arguments[:]
        for place, total in distances:
            arguments[place] = total - position
        if name:
            arguments[name] = len(text)
            arguments[name + 1] = text.encode("ascii")
        for first, end, number in values:
            arguments[first:end] = given[number]
        return pack(*arguments)


def mark_of(slot: Slot, gap: Gap, value: Any, place: int, position: int) -> Mark:
    """The mark of a gap with a value; the slot is at `place`, and its string or vector at `position`."""
    if slot.kind == "string":
        return Mark(position, f"I{len(value) // 4 * 4 + 4}s", gap)  # with a NUL, and padding up to the alignment
    if slot.kind == "scalars":
        return Mark(position - 4, f"{len(value)}{slot.element}", gap)
    if slot.kind == "weights":
        return Mark(position - 4, f"{len(value)}s", gap)
    return Mark(place, slot.format, gap)


def form_layout(data: bytes, position: int, marks: Iterable[Mark], table_count: int) -> FormLayout:
    """The layout of tables that equal the one with the bytes `data`, from `position` on, except for the marks."""
    formats, written, name = "<", 0, 0
    arguments: list[Any] = []
    distances: list[tuple[int, int]] = []
    values: list[tuple[int, int, int]] = []
    for mark in sorted(marks, key=lambda mark: (-mark.position, struct.calcsize(mark.format))):
        start, first = position - mark.position, len(arguments) + 1
        formats += f"{start - written}s{mark.format}"
        arguments += [data[written:start], *struct.unpack_from(f"<{mark.format}", data, start)]
        written = start + struct.calcsize(f"<{mark.format}")
        if mark.gap is None:
            distances.append((first, mark.vtable + start))
        elif mark.gap == NAME:
            name = first
        else:
            values.append((first, len(arguments), mark.gap.number))
    pack = struct.Struct(f"{formats}{len(data) - written}s").pack
    return FormLayout(len(data), table_count, pack, [*arguments, data[written:]], distances, name, values)
