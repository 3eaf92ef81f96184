"""The elements of a repeated field as they are in the source, until somebody reads them.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from copy import copy
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

from formats.collector import collector_paused
from formats.errors import FormatError, LimitError, TruncatedError
from formats.ir import walk
from formats.ir.model import EXTERNAL, Differing, Tensor
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.tables import FixedWidthRow, IntegerRow, MessageRow, SourceRow, tables, width_of
from formats.onnxpb.wire.varints import (
    WireType,
    check_packed,
    decode_prefix,
    end_of_whole_fields,
    ends_of_fields,
    skip_field,
    unpack_numbers,
)
from formats.tensordata.sources.source import Literal, Source
from formats.tensordata.sources.unpacked import BLOCK_BYTES, whole_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.ir.model import Undecoded
    from formats.onnxpb.wire.decoder import MessageDecoder
    from formats.onnxpb.wire.tables import MessageTable, Tables

PIECE_BYTES = 1 << 16  # of fields that are decoded one after the other; larger ranges are not copied
CHECKED_BYTES = 1 << 20  # of fields that are checked together
RUN_BYTES = 1 << 10  # of values in a row: after a shorter run, no other is looked for in a message
NUMPY_BYTES = 1 << 15  # of numbers in a row: fewer take one by one no longer than the import of numpy
SEEN_BYTES, MAX_SEEN = 1 << 8, 1 << 12  # the largest part of an element, and the number of parts, that are remembered
_LEN = int(WireType.LEN)
_ENTRY_TAG = tables()["TensorProto"].by_name["external_data"].tag[0]
_KEY_TAG, _VALUE_TAG = (tables()["StringStringEntryProto"].by_name[name].tag[0] for name in ("key", "value"))
MIN_ENTRY_BYTES = 6  # three tags and three sizes


class FieldsInSource:
    """The elements of a repeated field as they are in the source, undecoded: ranges of whole fields, in their order.

    They are those of the field `name` of a message `message` at `depth`.
    """

    def __init__(self, decoder: MessageDecoder, table: MessageTable, name: str, depth: int) -> None:
        self.source, self.max_depth = decoder.source, decoder.max_depth
        self.tables, self.message, self.name, self.depth = decoder.tables, table.name, name, depth  # for copies
        self.ranges: list[tuple[int, int]] = []
        self.known: dict[int, Any] = {}  # elements that are already decoded, by the start of their ranges
        self.largest_nbytes = 0
        self._has_references = self._is_doubtful = self._is_checked = False
        self._seen: set[tuple[str, bytes]] = set()  # parts of elements that were checked: most nodes have the same ones
        self._decoded: list[list[Any]] = []  # all elements, if they were decoded to know what is in them

    def of(self, family: Tables) -> FieldsInSource:
        """The same elements, as messages of the family with these tables."""
        if self.tables is family:
            return self
        other = copy(self)
        other.tables, other.known, other._decoded = family, {}, []
        return other

    @property
    def has_references(self) -> bool:
        """Whether some element may hold a tensor with external data; if weights look as if, all are decoded to know."""
        if self._is_doubtful and not self._has_references and not self.known:
            self._is_doubtful = False
            try:
                elements, self._has_references = self._decode()
            except FormatError:  # who reads the elements gets the error
                self._has_references = True
            else:
                self._decoded.append(elements)
        return self._has_references or self._is_doubtful

    @property
    def may_have_references(self) -> bool:
        """Whether some element seems to hold a tensor with external data."""
        return self._has_references or self._is_doubtful

    def add(self, start: int, stop: int, largest_nbytes: int, has_references: bool | None) -> None:
        """Append fields from `start` to `stop`; `has_references` is `None` if only decoding shows it."""
        if self.ranges and self.ranges[-1][1] == start and self.ranges[-1][0] not in self.known:
            start, _ = self.ranges.pop()
        self.ranges.append((start, stop))
        self.largest_nbytes = max(self.largest_nbytes, largest_nbytes)
        self._has_references |= has_references is True
        self._is_doubtful |= has_references is None

    def add_known(self, start: int, stop: int, element: Any) -> None:
        """Append an element that was decoded, because it is large, to find out what it contains."""
        for _, tensor in walk.visit(element, Tensor, enter=self._note):
            sizes = (source.nbytes for source in vars(tensor).values() if isinstance(source, Source))
            self.largest_nbytes = max(self.largest_nbytes, *sizes, 0)
            self._has_references |= tensor.data_location == EXTERNAL
        self.known[start] = element
        self.ranges.append((start, stop))

    def _note(self, left: Undecoded) -> bool:
        """Use what is known about a list that is undecoded in an element, which need not be searched."""
        self.largest_nbytes = max(self.largest_nbytes, left.largest_nbytes)
        self._has_references |= left.has_references
        return False

    @property
    def segments(self) -> list[bytes | Source]:
        """The fields of the elements."""
        in_memory = isinstance(self.source, Literal)
        return [
            (self.source.read if in_memory and stop - start <= PIECE_BYTES else self.source.slice)(start, stop - start)
            for start, stop in self.ranges
        ]

    def check(self) -> None:
        """Refuse messages that cannot be decoded, which takes less time and memory than to decode them.

        Numbers and bytes were checked when they were found.

        Raises: DecodeError with the place.
        """
        row = self.tables[self.message].by_name[self.name].row
        if self._is_checked or not isinstance(row, MessageRow):
            return
        try:
            for start, stop in self.ranges:
                if element := self.known.get(start):
                    encode(element, table=row.table)  # checks its own lists, and numbers that were left in the file
                else:
                    self._check_range(start, stop)
        except (IndexError, FormatError):
            self._decode()  # which finds the place
            raise
        self._is_checked = True
        self._seen.clear()

    def _check_range(self, start: int, stop: int) -> None:
        """Refuse elements in a range that is not known, as `check` does."""
        if isinstance(self.source, Literal) and isinstance(self.source.data, bytes):  # which are not copied
            self._check_fields(self.source.data, start, stop, self.tables[self.message], self.depth)
            return
        while start < stop:
            data = self.source.read(start, min(CHECKED_BYTES, stop - start))
            nbytes = end_of_whole_fields(data)
            if not nbytes:  # the element is larger
                size, after = decode_prefix(data, decode_prefix(data, 0)[1])
                nbytes = after + size
                data = self.source.read(start, nbytes)
            self._check_fields(data, 0, nbytes, self.tables[self.message], self.depth)
            start += nbytes

    def _check_fields(self, data: bytes, position: int, end: int, table: MessageTable, depth: int) -> None:
        """Refuse the fields in `data[position:end]` of a message at `depth` that the decoder would refuse.

        Raises: FormatError or IndexError, without the place.
        """
        if depth > self.max_depth:
            raise LimitError(f"messages are nested more than {self.max_depth} deep")
        by_tag = table.by_tag
        has_runs = end - position >= NUMPY_BYTES
        while position < end:
            tag = data[position]
            run = table.runs.get(tag) if has_runs else None
            if run is not None and isinstance(run, (IntegerRow, FixedWidthRow, SourceRow)):
                start, position = position, _end_of_numbers(data, position, end, run)
                has_runs = position - start >= RUN_BYTES
                continue
            tag, position = (tag, position + 1) if tag < 0x80 else decode_prefix(data, position)
            row = by_tag.get(tag)
            if tag & 7 != _LEN or row is None:
                position = skip_field(data, position, tag, depth)
                continue
            size = data[position]
            size, begin = (size, position + 1) if size < 0x80 else decode_prefix(data, position)
            position = begin + size
            if position > end:
                break
            if type(row) is MessageRow:
                if size > SEEN_BYTES or depth != self.depth + 1:
                    self._check_fields(data, begin, position, row.table, depth + 1)
                elif (part := (row.name, data[begin:position])) not in self._seen:
                    self._check_fields(data, begin, position, row.table, depth + 1)
                    if len(self._seen) < MAX_SEEN:
                        self._seen.add(part)
            elif type(row) is IntegerRow or type(row) is FixedWidthRow:
                unpack_numbers(data[begin:position], row.number_type)
            elif type(row) is SourceRow and row.width == 0:
                check_packed(Literal(data[begin:position]))
            elif type(row) is SourceRow and size % row.width:
                raise TruncatedError("the last number of a packed field is cut")
        if position > end:
            raise TruncatedError("the message ends inside a field")

    def decode(self) -> list[Any]:
        """The elements.

        Raises: DecodeError; TensorDataError if the file has changed since it was opened.
        """
        try:
            return self._decoded.pop()
        except IndexError:
            return self._decode()[0]

    def _decode(self) -> tuple[list[Any], bool]:
        """The elements, and whether some of them hold a tensor with external data."""
        from formats.onnxpb.wire.decoder import MessageDecoder  # which imports this module

        for file in self.source.files():
            file.check_unchanged()
        values: dict[str, Any] = {}
        table = self.tables[self.message]
        decoder = MessageDecoder(self.source, self.max_depth, self.tables, at_once=True)
        try:
            with collector_paused():
                for start, stop in self.ranges:
                    if element := self.known.pop(start, None):  # for the first reader: each gets its own elements
                        values.setdefault(self.name, []).append(element)
                    else:
                        decoder.merge(values, table, start, stop, self.depth)
                decoder.join()
        except FormatError as error:
            error.path = error.path or next((file.path for file in self.source.files()), None)
            raise
        return values[self.name], decoder.has_references

    def each(self) -> Iterator[Any]:
        """The elements, few of which are in memory at a time.

        Raises: DecodeError as `decode` does, with a place that does not count the elements before.
        """
        for start, stop in self.ranges:
            if element := self.known.get(start):
                yield element
                continue
            while start < stop:
                nbytes = end_of_whole_fields(self.source.read(start, min(PIECE_BYTES, stop - start)))
                piece = copy(self)
                piece.ranges, piece.known, piece._decoded = [(start, start + nbytes if nbytes else stop)], {}, []
                yield from piece.decode()
                start = piece.ranges[0][1]

    def differing(self, other: Undecoded) -> Differing | None:
        """The elements between the equal ends of the lists; of two long lists that differ little, few are decoded."""
        if not isinstance(other, FieldsInSource) or not self._is_one_range or not other._is_one_range:
            return None
        mine, theirs = self._encoded_elements(), other._encoded_elements()
        first_count = _count_equal(mine, theirs)
        last_count = _count_equal(reversed(mine[first_count:]), reversed(theirs[first_count:]))
        first_nbytes = sum(map(len, mine[:first_count]))
        last_nbytes = sum(map(len, mine[len(mine) - last_count :]))
        try:
            own_between = self._between(first_nbytes, last_nbytes)
            return Differing(first_count, own_between, other._between(first_nbytes, last_nbytes), last_count)
        except FormatError:  # decoding all of them will find the place
            return None

    @property
    def _is_one_range(self) -> bool:
        return len(self.ranges) == 1 and not self.known

    def _encoded_elements(self) -> list[bytes]:
        """The fields of the elements in the only range, each as its bytes."""
        ((start, stop),) = self.ranges
        data = self.source.read(start, stop - start)
        return [data[begin:end] for begin, end in pairwise((0, *ends_of_fields(data, 0)))]

    def _between(self, first_nbytes: int, last_nbytes: int) -> list[Any]:
        """The elements in the only range without those at its ends."""
        ((start, stop),) = self.ranges
        between = copy(self)
        between.ranges, between._decoded = [(start + first_nbytes, stop - last_nbytes)], []
        return between.decode() if stop - start > first_nbytes + last_nbytes else []


def _end_of_numbers(data: bytes, position: int, end: int, row: IntegerRow | FixedWidthRow | SourceRow) -> int:
    """The end of the numbers in a field of this row from `position` on, each behind a tag of one byte.

    Raises: FormatError or IndexError if the first one is wrong; another wrong one ends them.
    """
    tag = data[position]
    stop = skip_field(data, position + 1, tag)
    while nbytes := whole_fields(data[stop : min(stop + BLOCK_BYTES, end)], tag, width_of(row))[0]:
        stop += nbytes
    return stop


class Entries:
    """The entries of a tensor's external data, undecoded: the fields as they are in the file, in their order.

    A model may have a million small tensors, and three messages of each would take more memory than all else.
    """

    __slots__ = ("data", "tables")

    largest_nbytes = 0
    has_references = may_have_references = False  # it is the tensor around them that has

    def __init__(self, data: bytes, tables: Tables) -> None:
        self.data, self.tables = data, tables

    def of(self, family: Tables) -> Entries:
        """The same entries, as messages of the family with these tables."""
        return Entries(self.data, family)

    @property
    def segments(self) -> list[bytes | Source]:
        """The fields of the entries."""
        return [self.data]

    def check(self) -> None:
        """Return nothing: the fields were checked before they came here."""

    def pairs(self) -> list[tuple[str | None, str | None]]:
        """The key and the value of each."""
        data, start = self.data, 0
        pairs: list[tuple[str | None, str | None]] = []
        while start < len(data):
            middle, end = start + 4 + data[start + 3], start + 2 + data[start + 1]
            pairs.append((data[start + 4 : middle].decode(), data[middle + 2 : end].decode()))
            start = end
        return pairs

    def decode(self) -> list[Any]:
        """The entries."""
        entry_class = self.tables["StringStringEntryProto"].message_class
        return [entry_class(key=key, value=value) for key, value in self.pairs()]

    def each(self) -> Iterator[Any]:
        """The entries."""
        return iter(self.decode())

    def differing(self, other: Undecoded) -> None:
        """Return nothing: few entries are compared one by one."""


def is_usual_entry(field: bytes) -> bool:
    """Whether a field is an entry of external data as most writers encode it: a key, and a value, in ASCII.

    All sizes in it are one byte.
    """
    if len(field) < MIN_ENTRY_BYTES or not field.isascii():
        return False
    middle = 4 + field[3]
    return (
        (field[0], field[1], field[2]) == (_ENTRY_TAG, len(field) - 2, _KEY_TAG)
        and middle + 2 <= len(field)
        and (field[middle], field[middle + 1]) == (_VALUE_TAG, len(field) - middle - 2)
    )


def _count_equal(mine: Iterable[bytes], theirs: Iterable[bytes]) -> int:
    """The number of equal elements at the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False)))
