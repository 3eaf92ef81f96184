"""Reads FlatBuffers by the rows of a schema, and checks them completely; `builder.py` writes them.

A table is a dict keyed by the field names of the schema. In it a scalar is a number, an enum the name of its member (a
number that the schema does not know stays a number), a vector of scalars a tuple, a vector of tables a list of dicts, a
vector of structs a list of tuples, a union a tuple of member name and dict, a binary string bytes. Missing fields are
omitted, except for scalars with a default, which is read instead. Only vectors that are read in place, the elements of
constants, are not copied: they are read as a `ConstantSpan`, and built from bytes or from a source.

The encoding, from FlatBuffers, "FlatBuffer Internals": everything is little-endian and aligned to its own size from the
start of the buffer; the buffer begins with the offset of the root table; a table begins with the distance back to its
vtable, which may be anywhere and shared; a vtable is its own size, the table's size and, for each slot, the place of
the field in the table or 0 if it is absent; offsets count from their own place, and point forward; a vector begins with
the number of its elements; a string is a vector of bytes followed by a NUL.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from formats.errors import DecodeError, FormatError, LimitError, TruncatedError, WireError
from formats.flatbuffer.rows import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.flatbuffer.rows import Schema, TableField

Table: TypeAlias = "dict[str, Any]"

# The limits of the verifier of FlatBuffers for the nesting of tables, including the root, and for their number. RTen
# and onnxruntime use it as it is.
MAX_DEPTH = 64
MAX_TABLES = 1_000_000

# Several offsets may point to the same bytes, so a small file can become a large model; no normal file comes near this.
VISITS_PER_BYTE = 8
TOO_OFTEN = "offsets lead to the same bytes too often for a file of this size"

MAX_ALIKE = 1 << 12  # attribute tables that are kept to compare others with
ALIKE_BYTES = 1 << 8  # of such a table with its content, at most: content may be at the other end of the file
PLAIN = frozenset(("scalar", "enum", "string", "scalars"))  # slots of tables that have no table in them

_SIZES = {code: struct.calcsize(f"<{code}") for code in FORMATS.values()}
UOFFSET = struct.Struct("<I")  # of all offsets, and of the sizes of vectors
_unpack_offset = UOFFSET.unpack_from
_unpack_distance = struct.Struct("<i").unpack_from


class ConstantSpan(NamedTuple):
    """The elements of a constant, in bytes from the start of the buffer."""

    offset: int
    nbytes: int


class Slot(NamedTuple):
    """An entry of a vtable; a union has two entries with the same name."""

    number: int
    name: str
    kind: str  # scalar, enum, string, bytes, scalars, strings, structs, weights, table, tables, tag or union
    element: str  # the name of the enum, union or table; for scalars and structs, their format; for strings, their kind
    format: str  # of the value in the table itself: a scalar, or else an offset
    default: Any  # as in the buffer; only for a scalar that is not optional
    required: bool


@cache
def slots(schema: Schema, table: str) -> tuple[Slot, ...]:
    """The slots of a table that the schema knows, in their order."""
    return tuple(slot for field in schema.tables[table] for slot in _slots_in(schema, field))


def _slots_in(schema: Schema, field: TableField) -> Iterator[Slot]:
    element = field.type.strip("[]")
    is_vector = element != field.type
    number, kind, inline, default = field.slot, "bytes" if field.binary else "string", "I", field.default
    if element in schema.unions:
        yield Slot(number, field.name, "tag", element, "B", None, False)
        number, kind = number + 1, "union"
    elif element in schema.tables:
        kind = "tables" if is_vector else "table"
    elif element in schema.structs:
        kind, element = "structs", "".join(FORMATS[scalar] for scalar in schema.structs[element])
    elif element in schema.enums:
        kind, inline = "enum", FORMATS[schema.enums[element].base]
        default = None if default is None else schema.enums[element].values[str(default)]
    elif element in FORMATS:
        kind = "scalar" if not is_vector else "weights" if field.in_place else "scalars"
        element = FORMATS[element]
        inline = "I" if is_vector else element
    elif is_vector:
        kind, element = "strings", kind
    yield Slot(number, field.name, kind, element, inline, default, field.required)


@cache
def scalar_struct(code: str) -> struct.Struct:
    """The struct that packs and unpacks one scalar, or several."""
    return struct.Struct(f"<{code}")


@lru_cache(1 << 10)
def _unpack(element: str, count: int) -> Callable[[bytes | memoryview, int], tuple[Any, ...]]:
    """What unpacks so many scalars: most vectors of a large graph have the length of another one."""
    return struct.Struct(f"<{count}{element}").unpack_from


def read(data: bytes | memoryview, schema: Schema, root: str = "", *, base: int = 0) -> Table:
    """The root table of a buffer, completely checked; absent scalars have the default of the schema.

    `root` is the name of the table, by default that of the schema's root. `base` is where the buffer starts in its
    file, for the offsets in errors.

    Raises: TruncatedError, WireError, LimitError, and DecodeError if something is unknown to the schema or missing.
    """
    root = root or schema.root
    try:
        reader = _Reader(schema, data if isinstance(data, bytes) else memoryview(data).cast("B"), base)
        try:
            return reader.root(root)
        finally:
            reader.forget()
    except FormatError as error:
        error.where = f"{root}{error.where or ''}"
        raise


class _Step(NamedTuple):
    """How to read one field of the tables that share a vtable."""

    name: str
    place: int  # in bytes from the start of the table
    unpack: Callable[[bytes | memoryview, int], tuple[Any, ...]]
    finish: Callable[[Any, int, Any, int], Any] | None  # of `element`, the position, the value there, and the depth
    element: Any
    kind: str  # of the slot


class _ReadPlan(NamedTuple):
    """How to read the tables that share a vtable."""

    nbytes: int
    defaults: Table
    steps: list[_Step]
    known: _Known | None  # of attribute tables without tables in them


class _Known:
    """Attribute tables that were read, by all their bytes after the vtable's distance.

    Most nodes of a large graph have the attributes of another node. Writers that put the content of a table behind it,
    at the same distances, write the same bytes for such nodes. So there is one object for all these tables, which
    nobody may change. Without this, it takes 1.4 times as long to convert 40,000 nodes to ONNX.
    """

    def __init__(self) -> None:
        self.nbytes = 0  # of the last short table that was read, with what is behind it
        self.tables: dict[tuple[bytes, int], tuple[Table, int]] = {}  # with the visits, in bytes


class _Reader:
    """Follows offsets; every position is in bytes from the start of the buffer."""

    def __init__(self, schema: Schema, data: bytes | memoryview, base: int) -> None:
        self._schema = schema
        self._shared = schema.shared
        self._data = data
        self._nbytes = len(data)
        self._base = base
        self._tables_left = MAX_TABLES
        self._visits_left = VISITS_PER_BYTE * len(data)  # in bytes
        self._plans: dict[tuple[str, int], _ReadPlan] = {}
        self._texts: dict[int, str] = {}  # by position, if the schema shares strings
        self._seen: dict[tuple[str, int, int], tuple[Table, int, int]] = {}  # shared tables, with what they cost
        self._finishers = {
            "enum": self._enum,
            "string": self._string,
            "bytes": self._bytes,
            "strings": self._string_vector,
            "scalars": self._scalars,
            "structs": self._structs,
            "weights": self._weights,
            "table": self._table,
            "tables": self._table_vector,
        }

    def forget(self) -> None:
        """Forget the layouts, which refer to methods of this object: without a cycle, it is freed after its use."""
        self._plans.clear()
        self._finishers.clear()

    def root(self, name: str) -> Table:
        """The table that the first offset leads to."""
        self._need(0, 4, "the offset of the root")
        return self._table(name, 0, UOFFSET.unpack_from(self._data)[0], 0)

    def _error(self, kind: type[DecodeError], position: int, message: str) -> DecodeError:
        return kind(message, file_offset=self._base + position)

    def _need(self, position: int, nbytes: int, what: str) -> None:
        available = self._nbytes - position
        if nbytes > available:
            message = f"needed {nbytes} bytes for {what}, but the buffer has only {max(available, 0)} there"
            raise self._error(TruncatedError, position, message)

    def _table(self, name: str, at: int, offset: int, depth: int) -> Table:
        """The table that the offset at a position leads to; `depth` counts the tables around it."""
        position = at + offset
        self._tables_left -= 1
        if self._tables_left < 0 or self._visits_left < 0 or depth >= MAX_DEPTH:
            self._stop(at, depth)
        # Tables that several others lead to count each time, as in the verifier of FlatBuffers, but are read once.
        if name in self._shared:
            return self._again(name, position, depth)
        plan = self._plan(name, position)
        if plan.known is not None:
            return self._alike(plan, plan.known, position, depth)
        return self._read(plan, position, depth)

    def _again(self, name: str, position: int, depth: int) -> Table:
        """The table at a position, which is read once, but counts each time."""
        if seen := self._seen.get((name, position, depth)):
            table, tables, visits = seen
            self._tables_left -= tables
            self._visits_left -= visits
            return table
        tables, visits = self._tables_left, self._visits_left
        table = self._read(self._plan(name, position), position, depth)
        self._seen[name, position, depth] = table, tables - self._tables_left, visits - self._visits_left
        return table

    def _alike(self, plan: _ReadPlan, known: _Known, position: int, depth: int) -> Table:
        """The attribute table at a position: one that was read before if it has the same bytes."""
        key = bytes(self._data[position + 4 : position + known.nbytes]), position % 8
        if same := known.tables.get(key):
            table, visits = same
            self._visits_left -= visits
            return table
        before = self._visits_left
        table = self._read(plan, position, depth)
        nbytes = max([plan.nbytes, *(self._end(step, position) - position for step in plan.steps)])
        if nbytes <= ALIKE_BYTES:
            known.nbytes = nbytes
            if len(known.tables) < MAX_ALIKE:
                key = bytes(self._data[position + 4 : position + nbytes]), position % 8
                known.tables[key] = table, before - self._visits_left
        return table

    def _end(self, step: _Step, position: int) -> int:
        """The end of what a field of the table at a position leads to; the position if it leads nowhere."""
        if step.kind in ("scalar", "enum"):
            return position
        (offset,) = step.unpack(self._data, position + step.place)
        is_text = step.kind == "string"
        start, nbytes = self._vector("B" if is_text else step.element, position + step.place, offset)
        return start + nbytes + is_text

    def _read(self, plan: _ReadPlan, position: int, depth: int) -> Table:
        """The fields of the table at a position."""
        table = plan.defaults.copy()
        data = self._data
        field = ""
        try:
            for field, place, unpack, finish, element, _ in plan.steps:
                at = position + place
                (value,) = unpack(data, at)
                table[field] = value if finish is None else finish(element, at, value, depth + 1)
        except FormatError as error:
            error.where = f".{field}{error.where or ''}"
            raise
        return table

    def _stop(self, at: int, depth: int) -> NoReturn:
        """Refuse a table that is one too many."""
        if self._tables_left < 0:
            raise self._error(LimitError, at, f"there are more than {MAX_TABLES} tables")
        if depth >= MAX_DEPTH:
            raise self._error(LimitError, at, f"tables are nested more than {MAX_DEPTH} deep")
        raise self._error(LimitError, at, TOO_OFTEN)

    def _plan(self, name: str, position: int) -> _ReadPlan:
        """The plan of the table at a position, after a check that the table is inside the buffer."""
        if position % 4:
            raise self._error(WireError, position, f"a {name} must start at a multiple of 4 bytes")
        if position + 4 > self._nbytes:
            self._need(position, 4, name)
        vtable = position - _unpack_distance(self._data, position)[0]
        plan = self._plans.get((name, vtable))
        if plan is None:
            plan = self._plans[name, vtable] = self._read_vtable(name, vtable)
        if position + plan.nbytes > self._nbytes:
            self._need(position, plan.nbytes, name)
        self._visits_left -= plan.nbytes
        return plan

    def _read_vtable(self, name: str, vtable: int) -> _ReadPlan:
        if vtable < 0 or vtable % 2:
            raise self._error(WireError, max(vtable, 0), f"the vtable of a {name} cannot be at byte {vtable}")
        self._need(vtable, 4, "a vtable")
        vtable_nbytes, nbytes = struct.unpack_from("<2H", self._data, vtable)
        if vtable_nbytes < 4 or vtable_nbytes % 2 or nbytes < 4:
            message = f"found a vtable of {vtable_nbytes} bytes for tables of {nbytes}, expected even sizes >= 4"
            raise self._error(WireError, vtable, message)
        self._need(vtable, vtable_nbytes, "a vtable")
        self._visits_left -= vtable_nbytes
        entries = struct.unpack_from(f"<{vtable_nbytes // 2 - 2}H", self._data, vtable + 4)
        places = {number: place for number, place in enumerate(entries) if place}
        is_alike = name in self._schema.unions.get(self._schema.alike, ())
        has_known = is_alike and PLAIN.issuperset(slot.kind for slot in slots(self._schema, name))
        plan = _ReadPlan(nbytes, {}, [], _Known() if has_known else None)
        for slot in slots(self._schema, name):
            if slot.number in places:
                self._check_place(name, slot, vtable, nbytes, places[slot.number])
            if slot.kind == "union" and (slot.number in places) != (slot.number - 1 in places):
                raise self._error(WireError, vtable, f"{name}.{slot.name} has only one of tag and value")
            if slot.number in places and slot.kind != "tag":
                plan.steps.append(self._step(slot, places))
            elif slot.required:
                raise self._error(DecodeError, vtable, f"a {name} has no {slot.name}, but needs one")
            elif slot.default is not None:
                members = self._schema.members.get(slot.element, {})  # of an enum
                plan.defaults[slot.name] = members.get(slot.default, slot.default)
        # A field that this reader does not know could change the meaning of the others.
        unknown = places.keys() - {slot.number for slot in slots(self._schema, name)}
        if unknown:
            message = f"a {name} has a value in slot {min(unknown)}, which this reader does not know: the file is newer"
            raise self._error(DecodeError, vtable, message)
        return plan

    def _check_place(self, name: str, slot: Slot, vtable: int, nbytes: int, place: int) -> None:
        size = scalar_struct(slot.format).size
        if place < 4 or place + size > nbytes or place % min(size, 4):
            message = f"{name}.{slot.name} cannot be at byte {place} of tables of {nbytes}"
            raise self._error(WireError, vtable, message)

    def _step(self, slot: Slot, places: dict[int, int]) -> _Step:
        place = places[slot.number]
        finish: Callable[[Any, int, Any, int], Any] | None = None
        element: Any = slot.element
        if slot.kind == "union":
            finish, element = self._union, (slot.element, places[slot.number - 1] - place)
        elif slot.kind != "scalar":
            finish = self._finishers[slot.kind]
        elif scalar_struct(slot.format).size == 8:
            finish = self._wide
        return _Step(slot.name, place, scalar_struct(slot.format).unpack_from, finish, element, slot.kind)

    def _wide(self, _: str, at: int, value: Any, depth: int) -> Any:
        """A number of 8 bytes; the alignment of tables to 4 bytes does not align it."""
        if at % 8:
            raise self._error(WireError, at, "a number of 8 bytes must start at a multiple of 8")
        return value

    def _enum(self, enum: str, at: int, number: int, depth: int) -> str | int:
        return self._schema.members[enum].get(number, number)

    def _union(self, element: tuple[str, int], at: int, offset: int, depth: int) -> tuple[str, Table]:
        union, tag_distance = element
        tag = self._data[at + tag_distance]
        members = self._schema.unions[union]
        if not 1 <= tag <= len(members):
            message = f"found member {tag} of the union {union}; this reader knows 1 to {len(members)}"
            raise self._error(DecodeError, at + tag_distance, message)
        member = members[tag - 1]
        return member, self._table(member, at, offset, depth)

    def _string(self, _: str, at: int, offset: int, depth: int) -> str:
        if self._texts and (known := self._texts.get(at + offset)) is not None:
            return known
        start, nbytes = self._text(at, offset)
        try:
            text = str(self._data[start : start + nbytes], "utf-8")
        except UnicodeDecodeError:
            raise self._error(DecodeError, start, "a string is not valid UTF-8") from None
        if self._schema.shared:
            self._texts[at + offset] = text
        return text

    def _bytes(self, _: str, at: int, offset: int, depth: int) -> bytes:
        start, nbytes = self._text(at, offset)
        return bytes(self._data[start : start + nbytes])

    def _text(self, at: int, offset: int) -> tuple[int, int]:
        """The position and the size in bytes of a string, without its NUL."""
        start, nbytes = self._vector("B", at, offset)
        if start + nbytes >= self._nbytes:  # the size does not include the NUL
            self._need(start, nbytes + 1, "a string and its NUL")
        self._visits_left -= nbytes
        if self._data[start + nbytes]:
            raise self._error(WireError, start + nbytes, "a string must be followed by a NUL")
        return start, nbytes

    def _string_vector(self, kind: str, at: int, offset: int, depth: int) -> list[Any]:
        start, nbytes = self._vector("I", at, offset)
        self._visits_left -= nbytes
        read_one, values = self._finishers[kind], []
        for place in range(start, start + nbytes, 4):
            if self._visits_left < 0:
                raise self._error(LimitError, place, TOO_OFTEN)
            values.append(read_one("", place, UOFFSET.unpack_from(self._data, place)[0], depth))
        return values

    def _structs(self, element: str, at: int, offset: int, depth: int) -> list[tuple[Any, ...]]:
        start, nbytes = self._vector(element, at, offset)
        self._visits_left -= nbytes
        return list(scalar_struct(element).iter_unpack(self._data[start : start + nbytes]))

    def _scalars(self, element: str, at: int, offset: int, depth: int) -> tuple[Any, ...]:
        start, nbytes = self._vector(element, at, offset)
        self._visits_left -= nbytes
        return _unpack(element, nbytes // _SIZES[element])(self._data, start)

    def _weights(self, element: str, at: int, offset: int, depth: int) -> ConstantSpan:
        return ConstantSpan(*self._vector(element, at, offset))

    def _table_vector(self, name: str, at: int, offset: int, depth: int) -> list[Table]:
        start, nbytes = self._vector("I", at, offset)
        self._visits_left -= nbytes
        tables: list[Table] = []
        try:
            for place, (inner,) in enumerate(UOFFSET.iter_unpack(self._data[start : start + nbytes])):
                tables.append(self._table(name, start + 4 * place, inner, depth))
        except FormatError as error:
            error.where = f"[{len(tables)}]{error.where or ''}"
            raise
        return tables

    def _vector(self, element: str, at: int, offset: int) -> tuple[int, int]:
        """The position and the size in bytes of the elements, which are in the buffer and aligned, but not visited."""
        position = at + offset
        if position % 4:
            raise self._error(WireError, position, "a vector cannot start there, but at a multiple of 4 bytes")
        start = position + 4
        if start > self._nbytes:
            self._need(position, 4, "the size of a vector")
        size = _SIZES.get(element) or scalar_struct(element).size
        nbytes = _unpack_offset(self._data, position)[0] * size
        if size == 8 and nbytes and start % 8:  # compilers of FlatBuffers do not align what is empty
            raise self._error(WireError, position, f"a vector of {size}-byte elements cannot start there")
        if start + nbytes > self._nbytes:
            self._need(start, nbytes, "the elements of a vector")
        return start, nbytes
