"""Builds FlatBuffers by the rows of a schema; `fbs.py` describes a table in memory.

Everything is written from the end of the buffer to its start, and the contents of a table before the table. So each
offset is known when it is written, and points forward as it must.

In a large graph, nearly every node is a table that differs from many others only in its name, in the ids of its inputs
and outputs, and in the bytes or the offset of its elements. Such tables have one layout (`TableForm`), and one `pack`
writes each of them. Without it, a model of 40,000 nodes takes about 1.5 times as long.

This relies on a rule: a layout gives the bytes that writing value by value would give at the same position. It is made
from a table that was written value by value. It is used only for tables of the same form whose vtables all exist
already, with the same depth and alignment, and whose ASCII names take the same space. All other tables are written
value by value, which also reports the place of errors.

Spec: FlatBuffers, "FlatBuffer Internals".
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import copysign
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from formats.errors import EncodeError, FormatError
from formats.flatbuffer.fbs import MAX_DEPTH, MAX_TABLES, UOFFSET, scalar_struct, slots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from formats.flatbuffer.fbs import Slot, Table
    from formats.flatbuffer.rows import Schema
    from formats.tensordata.sources.source import Source


Values: TypeAlias = tuple[tuple[Any, ...], ...]


class Gap(NamedTuple):
    """The place of a value in the table of a form, by the value's number.

    It may be a string, a vector of scalars, the bytes of a constant, or a scalar without a default.
    """

    number: int


NAME: Final = Gap(-1)


class TableForm:
    """The common part of many tables: one of them, with gaps where they differ."""

    def __init__(self, table: Table) -> None:
        self.table = table


class FormTable(NamedTuple):
    """A table of a form.

    The values are those of the gaps by number. All are tuples: vectors, or single values. The values of one gap have
    the same size in all tables of the form, except for `name`, the only string, which is in the gap `NAME`.
    """

    form: TableForm
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
        self.forms: list[TableForm] = []
        self.names: list[str] = []
        self.values: list[Values] = []
        for table in tables:
            self.add(*table)

    def __len__(self) -> int:
        return len(self.forms)

    def __iter__(self) -> Iterator[FormTable]:
        return map(FormTable, self.forms, self.names, self.values)

    def add(self, form: TableForm, name: str = "", values: Values = ()) -> None:
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


MAX_NBYTES = (1 << 31) - 1  # the limits of FlatBuffers' addresses and of its verifier
ALIGNMENT = 8  # of the buffer, and therefore of its size
LARGE_NBYTES = 128  # vectors read in place from this size on have the alignment of the schema
FEW_USES = 8  # tables of a form: for fewer, making a layout takes longer than it saves


def build_buffer(table: Table, schema: Schema, root: str = "") -> list[bytes | Source]:
    """The buffer of a table, as segments in file order; its size is a multiple of 8 bytes.

    `root` is the name of the table, by default that of the schema's root. The buffer may start at any multiple of 8 in
    a file. Scalars that equal their default are omitted, vtables are shared, and a `Source`, which may be a string or
    the elements of a constant, is a separate segment.

    Raises: EncodeError for values that the schema cannot express, or that the verifier of FlatBuffers would refuse.
    """
    root = root or schema.root
    try:
        builder = _Builder(schema)
        try:
            return builder.root(root, table)
        finally:
            builder.forget()
    except FormatError as error:
        error.where = f"{root}{error.where or ''}"
        raise


def too_many_tables(schema: Schema, why: str = "") -> EncodeError:
    """The error for a graph that needs more tables than the program reads."""
    words = schema.words
    why = why or words.table_costs
    return EncodeError(f"the graph is too large: {words.program} reads at most {MAX_TABLES} tables ({why})")


class _TableLayout(NamedTuple):
    """The layout of the tables in which the same slots are filled."""

    vtable: bytes
    nbytes: int
    alignment: int
    pack: Callable[..., bytes]  # packs the distance to the vtable and the values in `order`
    order: list[tuple[int, int]]  # for each value, its index among the given ones, and its place if it is an offset
    places: list[int]  # in the table, for each slot


@lru_cache(maxsize=4096)
def _table_layout(schema: Schema, name: str, slot_bits: int) -> _TableLayout:
    """The layout of tables with values in the slots whose bits are set, the largest first, so that none needs padding.

    Values are given in descending order of their slots.
    """
    filled_slots = [slot for slot in reversed(slots(schema, name)) if slot_bits >> slot.number & 1]
    by_size = sorted(enumerate(filled_slots), key=lambda item: (-scalar_struct(item[1].format).size, item[1].number))
    places = [0] * slot_bits.bit_length()
    order, end = [], 4
    for which, slot in by_size:
        places[slot.number] = end
        order.append((which, 0 if slot.kind in ("scalar", "enum", "tag") else end))
        end += scalar_struct(slot.format).size
    formats = [slot.format for _, slot in by_size]
    vtable = struct.pack(f"<2H{len(places)}H", 4 + 2 * len(places), end, *places)
    alignment = max([4, *map(struct.calcsize, formats)])
    return _TableLayout(vtable, end, alignment, struct.Struct("<i" + "".join(formats)).pack, order, places)


@lru_cache(maxsize=4096)
def _vector(element: str, count: int) -> Callable[..., bytes]:
    """The struct that packs the number of elements and the elements."""
    return struct.Struct(f"<I{count}{element}").pack


_Key = tuple[
    TableForm, int, int, int
]  # of the layout of a form, with the space of the name, the alignment, and the depth


class Shared(dict[str, Any]):
    """A table that is in the buffer once, although several others lead to it; it is not in tables of a form."""


class _Plan(NamedTuple):
    """How to write the tables of one name."""

    fields: frozenset[str]
    slots: list[tuple[Slot, str, int, Callable[[Slot, Any, int], Any]]]  # with field, bit and writer; the last first


class _Builder:
    """All positions are in bytes from the end of the buffer."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._alignment = ALIGNMENT  # the largest of what was written
        self._texts: dict[str, int] = {}  # the positions of strings, if the schema shares them
        # The positions of shared tables by their `id` and depth, with the number of tables in them.
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self._chunks: list[bytes | Source] = []  # starting with the end of the buffer
        self._sources: list[int] = []  # the indices of sources in `_chunks`
        self._nbytes = 0
        self._tables_left = MAX_TABLES
        self._table_layouts: dict[tuple[str, int], tuple[int, _TableLayout]] = {}  # with the positions of their vtables
        self._plans: dict[str, _Plan] = {}
        self._uses: dict[_Key, int] = {}
        self._form_layouts: dict[_Key, FormLayout] = {}
        self._form_table = FormTable(TableForm({}))  # that is being written
        self._marks: list[Mark] | None = None  # the marks of these gaps, while a layout is made

    def root(self, name: str, table: Table) -> list[bytes | Source]:
        """The finished buffer."""
        position = self._table(name, table, 0)
        identifier = self._schema.identifier
        start = self._room(4 + len(identifier), self._alignment, 0)
        self._chunks.append(UOFFSET.pack(start - position) + identifier)
        segments: list[bytes | Source] = []
        end = len(self._chunks)
        for place in reversed(self._sources):
            segments += [self._joined(place + 1, end), self._chunks[place]]
            end = place
        return [*segments, self._joined(0, end)]

    def forget(self) -> None:
        """Forget the plans, which refer to methods of this object: without a cycle, it is freed when it is not used."""
        self._plans.clear()

    def _joined(self, start: int, end: int) -> bytes:
        """Join chunks of bytes, in the order of the buffer."""
        return b"".join(reversed(self._chunks[start:end]))  # type: ignore[arg-type]

    def _room(self, nbytes: int, alignment: int, lead: int = 4) -> int:
        """The position of the next `nbytes`, after padding that aligns what follows the first `lead` of them."""
        end = self._nbytes + nbytes
        padding = (lead - end) % alignment
        if padding:
            self._chunks.append(bytes(padding))
            end += padding
        if end > MAX_NBYTES:
            words = self._schema.words
            raise EncodeError(f"{words.too_large} {MAX_NBYTES} bytes; {words.way_out}")
        self._nbytes = end
        return end

    def _add_data(self, data: bytes | Source) -> None:
        """Add bytes that are in memory or elsewhere."""
        if not isinstance(data, bytes):
            self._sources.append(len(self._chunks))
        self._chunks.append(data)

    def _table(self, name: str, table: Table, depth: int) -> int:
        """Write a table and return its position; `depth` counts the tables around it."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise too_many_tables(self._schema)
        if depth >= MAX_DEPTH:
            raise EncodeError(self._schema.words.too_deep)
        if type(table) is not Shared:
            return self._write_contents(name, table, depth + 1)
        position, count = self._known.get((id(table), depth), (0, 0))
        if not position:
            before = self._tables_left
            position = self._write_contents(name, table, depth + 1)
            self._known[id(table), depth] = position, before - self._tables_left
        self._tables_left -= count  # those who read the buffer count them each time
        return position

    def _write_forms(self, name: str, tables: FormTables, depth: int, places: list[int]) -> None:
        """Write tables of forms, the last first, each in one step if there is a layout, and add their positions."""
        self._marks = None  # the outer table then has no layout
        layouts, chunks = self._form_layouts, self._chunks
        rows = zip(reversed(tables.forms), reversed(tables.names), reversed(tables.values), strict=True)
        for form, text, values in rows:
            nbytes, key, layout = self._nbytes, None, None
            if not nbytes % 4 and text.isascii():
                key = form, len(text) // 4, nbytes % ALIGNMENT, depth
                layout = layouts.get(key)
            if layout is not None and layout.table_count <= self._tables_left:
                position, key = nbytes + layout.nbytes, None
                if position <= MAX_NBYTES:
                    try:
                        chunks.append(layout.packed(text, values, position))
                    except (struct.error, OverflowError):  # value by value, it raises an error with the number's place
                        pass
                    else:
                        self._tables_left -= layout.table_count
                        self._nbytes = position
                        places.append(position)
                        continue
            places.append(self._write_form(name, FormTable(form, text, values), depth, key))

    def _write_form(self, name: str, form_table: FormTable, depth: int, key: _Key | None = None) -> int:
        """Write a table value by value; after a few tables of the form, make the layout."""
        start, before = len(self._chunks), (len(self._table_layouts), len(self._sources))
        table_count = self._tables_left
        outer, self._form_table = self._form_table, form_table
        if key:
            uses = self._uses[key] = self._uses.get(key, 0) + 1
            self._marks = [] if uses > FEW_USES else None
        position = self._table(name, form_table.form.table, depth)
        if key and self._marks and before == (len(self._table_layouts), len(self._sources)):
            data = self._joined(start, len(self._chunks))
            self._form_layouts[key] = form_layout(data, position, self._marks, table_count - self._tables_left)
        self._form_table, self._marks = outer, None
        return position

    def _write_contents(self, name: str, table: Table, depth: int) -> int:
        """Write the contents of a table, the last slot first, and then the table; return its position."""
        plan = self._plans.get(name) or self._add_plan(name)
        slot_bits, values, field = 0, [], ""
        try:
            for slot, field, bit, write in plan.slots:
                value = table.get(field)
                if type(value) is Gap:
                    value = self._form_table.value_in(slot, value)
                if value is not None:
                    value = write(slot, value, depth)
                if value is not None:
                    slot_bits |= bit
                    values.append(value)
                elif slot.required:
                    raise EncodeError(f"a {name} is not valid without it")
        except FormatError as error:
            error.where = f".{field}{error.where or ''}"
            raise
        if not table.keys() <= plan.fields:
            raise EncodeError(f"a {name} has no field {min(table.keys() - plan.fields)}")
        vtable, layout = self._table_layouts.get((name, slot_bits)) or self._add_table_layout(name, slot_bits)
        position = self._room(layout.nbytes, layout.alignment)
        inline = [position - place - values[which] if place else values[which] for which, place in layout.order]
        try:
            self._chunks.append(layout.pack(vtable - position, *inline))
        except (struct.error, OverflowError):
            raise EncodeError(f"a number in a {name} does not fit its field") from None
        if self._marks is not None:
            self._marks.append(Mark(position, "i", None, vtable))
            filled_slots = (slot for slot, _, bit, _ in plan.slots if slot_bits & bit)
            for slot, value in zip(filled_slots, values, strict=True):
                gap = table[slot.name]
                if type(gap) is Gap:
                    given, place = self._form_table.value_in(slot, gap), position - layout.places[slot.number]
                    self._marks.append(mark_of(slot, gap, given, place, value))
        return position

    def _add_table_layout(self, name: str, slot_bits: int) -> tuple[int, _TableLayout]:
        """Write the vtable of a new layout; return the layout and the position."""
        layout = _table_layout(self._schema, name, slot_bits)
        added = self._table_layouts[name, slot_bits] = self._room(len(layout.vtable), 2), layout
        self._chunks.append(layout.vtable)
        return added

    def _add_plan(self, name: str) -> _Plan:
        writers: dict[str, Callable[[Slot, Any, int], Any]] = {
            "scalar": self._scalar,
            "enum": self._enum,
            "tag": self._tag,
            "union": self._union,
            "string": self._string,
            "bytes": self._bytes,
            "strings": self._string_vector,
            "scalars": self._scalars,
            "structs": self._structs,
            "weights": self._weights,
            "table": self._inner_table,
            "tables": self._inner_tables,
        }
        rows = [(slot, slot.name, 1 << slot.number, writers[slot.kind]) for slot in reversed(slots(self._schema, name))]
        fields = frozenset(slot.name for slot in slots(self._schema, name))
        plan = self._plans[name] = _Plan(fields, rows)
        return plan

    # A writer returns the content of the slot: a scalar, the position of what it wrote, or None for an empty slot.

    def _scalar(self, slot: Slot, value: Any, depth: int) -> Any:
        is_default = value == slot.default and (value or copysign(1, value) > 0)  # -0.0 equals 0.0, but has other bits
        return None if is_default else value

    def _enum(self, slot: Slot, member: str | int, depth: int) -> int | None:
        number = self._schema.enums[slot.element].values.get(member) if isinstance(member, str) else member
        if number is None:
            raise EncodeError(f"the enum {slot.element} has no member {member}")
        return None if number == slot.default else number

    def _tag(self, slot: Slot, value: tuple[str, Table], depth: int) -> int:
        return self._schema.tags[slot.element][value[0]]

    def _union(self, slot: Slot, value: tuple[str, Table], depth: int) -> int:
        member, table = value
        if member not in self._schema.tags[slot.element]:
            raise EncodeError(f"the union {slot.element} has no member {member}")
        return self._table(member, table, depth)

    def _string(self, slot: Slot, text: str | Source, depth: int) -> int:
        if not isinstance(text, str):
            position = self._room(4 + text.nbytes + 1, 4)
            self._chunks.append(b"\0")
            self._add_data(text)
            self._chunks.append(UOFFSET.pack(text.nbytes))
            return position
        if (known := self._texts.get(text)) is not None:
            return known
        try:
            data = text.encode()
        except UnicodeEncodeError as error:
            raise EncodeError(
                f"the text is not UTF-8 from its character {error.start} on, which this format needs"
            ) from None
        position = self._bytes(slot, data, depth)
        if self._schema.shared:
            self._texts[text] = position
        return position

    def _bytes(self, slot: Slot, data: bytes, depth: int) -> int:
        position = self._room(4 + len(data) + 1, 4)
        self._chunks.append(UOFFSET.pack(len(data)) + data + b"\0")
        return position

    def _string_vector(self, slot: Slot, values: Sequence[Any], depth: int) -> int:
        write = self._bytes if slot.element == "bytes" else self._string
        return self._offsets([write(slot, value, depth) for value in reversed(values)])

    def _structs(self, slot: Slot, values: Sequence[tuple[Any, ...]], depth: int) -> int:
        flat = [number for value in values for number in value]
        chunk = struct.pack(f"<I{slot.element * len(values)}", len(values), *flat)
        position = self._room(len(chunk), 4)
        self._chunks.append(chunk)
        return position

    def _scalars(self, slot: Slot, values: Sequence[Any], depth: int) -> int:
        count = len(values)
        try:
            chunk = _vector(slot.element, count)(count, *values)
        except (struct.error, OverflowError):
            raise EncodeError("a number does not fit its vector") from None
        position = self._room(len(chunk), max(4, scalar_struct(slot.element).size))
        self._chunks.append(chunk)
        return position

    def _weights(self, slot: Slot, data: bytes | Source, depth: int) -> int:
        nbytes = len(data) if isinstance(data, bytes) else data.nbytes
        element_nbytes = scalar_struct(slot.element).size
        if nbytes % element_nbytes:
            raise EncodeError(f"found {nbytes} bytes of elements that take {element_nbytes} each")
        alignment = max(self._schema.data_alignment if nbytes >= LARGE_NBYTES else 4, element_nbytes)
        self._alignment = max(alignment, self._alignment)
        position = self._room(4 + nbytes, alignment)
        self._add_data(data)
        self._chunks.append(UOFFSET.pack(nbytes // element_nbytes))
        return position

    def _inner_table(self, slot: Slot, table: Table, depth: int) -> int:
        return self._table(slot.element, table, depth)

    def _inner_tables(self, slot: Slot, tables: Sequence[Table] | FormTables, depth: int) -> int:
        """The position of a vector of offsets; the tables follow it in their order."""
        places: list[int] = []
        try:
            if isinstance(tables, FormTables):
                self._write_forms(slot.element, tables, depth, places)
            else:
                places.extend(self._table(slot.element, table, depth) for table in reversed(tables))
        except FormatError as error:
            error.where = f"[{len(tables) - len(places) - 1}]{error.where or ''}"
            raise
        return self._offsets(places)

    def _offsets(self, places: Sequence[int]) -> int:
        """The position of a vector of offsets to these places, of which the first in the vector comes last."""
        position = self._room(4 + 4 * len(places), 4)
        first = position - 4
        offsets = [first - 4 * index - place for index, place in enumerate(reversed(places))]
        self._chunks.append(struct.pack(f"<I{len(offsets)}I", len(offsets), *offsets))
        return position
