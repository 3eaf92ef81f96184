"""The elements of a repeated field as they are in the source, until somebody reads them.

The fields that are the same bytes at the start and at the end of two sequences of fields.

If two long lists differ in few elements, only the elements between these ends must be decoded to find the differences.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.collector import collector_paused
from formats.errors import FormatError
from formats.ir import walk
from formats.ir.model import EXTERNAL, Differing, Tensor
from formats.onnxpb.wire.varints import ends_of_fields
from formats.tensordata.sources.source import Literal, Source


class EqualEnds(NamedTuple):
    """The equal fields at the start and at the end: their number, and their size in bytes."""

    first_count: int
    first_nbytes: int
    last_count: int
    last_nbytes: int


def equal_ends(mine: bytes, theirs: bytes) -> EqualEnds:
    """The equal fields at both ends of two sequences of whole fields, which all have a length; each counts once."""
    most = min(len(mine), len(theirs))
    stops = ends_of_fields(mine, 0)
    first_count = bisect_right(stops, _equal_nbytes(mine, theirs, most, at_end=False))
    first_nbytes = stops[first_count - 1] if first_count else 0
    shared = _equal_nbytes(mine, theirs, most - first_nbytes, at_end=True)
    # These bytes can begin inside a field, so both sequences are searched for a place where a field begins.
    sizes = [_sizes_of_ends([first_nbytes, *stops[first_count:]], shared)]
    sizes.append(_sizes_of_ends([first_nbytes, *ends_of_fields(theirs, first_nbytes)], shared))
    last_nbytes = max(sizes[0] & sizes[1])
    return EqualEnds(first_count, first_nbytes, sum(0 < size <= last_nbytes for size in sizes[0]), last_nbytes)


def _sizes_of_ends(places: list[int], most: int) -> set[int]:
    """The number of bytes from each of some places to the last of them, up to `most`."""
    return {places[-1] - place for place in places if places[-1] - place <= most}


def _equal_nbytes(mine: bytes, theirs: bytes, most: int, *, at_end: bool) -> int:
    """The number of equal bytes at the start or `at_end`, up to `most`."""

    def are_equal(start: int, stop: int) -> bool:
        if at_end:
            return mine[len(mine) - stop : len(mine) - start] == theirs[len(theirs) - stop : len(theirs) - start]
        return mine[start:stop] == theirs[start:stop]

    if are_equal(0, most):
        return most
    equal, different = 0, most
    while different - equal > 1:
        middle = (equal + different) // 2
        if are_equal(equal, middle):
            equal = middle
        else:
            different = middle
    return equal


if TYPE_CHECKING:
    from formats.ir.model import Undecoded
    from formats.onnxpb.wire.decoder import Decoder
    from formats.onnxpb.wire.tables import MessageTable, Tables

PIECE_BYTES = 1 << 16  # larger ranges of fields are not copied


class FieldsInSource:
    """The elements of a repeated field as they are in the source, undecoded: ranges of whole fields, in their order.

    They are those of the field `name` of a message `message` at `depth`.
    """

    def __init__(self, decoder: Decoder, table: MessageTable, name: str, depth: int) -> None:
        self.source, self.max_depth = decoder.source, decoder.max_depth
        self._decoder_class = type(decoder)
        self.tables, self.message, self.name, self.depth = decoder.tables, table.name, name, depth  # for copies
        self.ranges: list[tuple[int, int]] = []
        self.known: dict[int, Any] = {}  # elements that are already decoded, by the start of their ranges
        self.largest_nbytes = 0
        self._has_references = self._is_doubtful = False
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
                elements, self._has_references, _ = self._decode()
            except FormatError:  # who reads the elements gets the error
                self._has_references = True
            else:
                self._decoded.append(elements)
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

    def decode(self) -> list[Any]:
        """The elements.

        Raises: DecodeError; TensorDataError if the file has changed since it was opened.
        """
        try:
            return self._decoded.pop()
        except IndexError:
            return self._decode()[0]

    def check(self) -> int:
        """Decode the elements for the first who reads them, or see that all can be; the number of messages in them.

        Raises: DecodeError.
        """
        self._is_doubtful = False
        elements, self._has_references, count = self._decode()
        self._decoded.append(elements)
        return count

    def _decode(self) -> tuple[list[Any], bool, int]:
        """The elements, whether some of them hold a tensor with external data, and how many messages were read."""
        for file in self.source.files():
            file.check_unchanged()
        values: dict[str, Any] = {}
        table = self.tables[self.message]
        decoder = self._decoder_class(self.source, self.max_depth, at_once=True, family=self.tables)
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
        return values[self.name], decoder.has_references, decoder.messages

    def differing(self, other: Undecoded) -> Differing | None:
        """The elements between the equal ends of the lists."""
        if not isinstance(other, FieldsInSource) or not self._is_one_run or not other._is_one_run:
            return None
        ends = equal_ends(self._run(), other._run())
        try:
            between = self._between(ends), other._between(ends)
        except FormatError:  # decoding all of them will find the place
            return None
        return Differing(ends.first_count, *between, ends.last_count)

    @property
    def _is_one_run(self) -> bool:
        return len(self.ranges) == 1 and not self.known

    def _run(self) -> bytes:
        ((start, stop),) = self.ranges
        return self.source.read(start, stop - start)

    def _between(self, ends: EqualEnds) -> list[Any]:
        """The elements of a list in one range that are not at its ends."""
        ((start, stop),) = self.ranges
        between = copy(self)
        between.ranges, between._decoded = [(start + ends.first_nbytes, stop - ends.last_nbytes)], []
        return between.decode() if stop - start > ends.first_nbytes + ends.last_nbytes else []
