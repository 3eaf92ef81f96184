"""Sources of bytes: a `Source` knows its size and returns any range of its bytes, and nothing else.

A source never knows a data type or a name. It is immutable, safe to read from several threads, and equal to every
other source with the same bytes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import eq
from typing import TYPE_CHECKING

from formats.errors import TensorDataError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pickle import PickleBuffer
    from typing import Any, SupportsIndex

    from formats.tensordata.file import File
    from formats.tensordata.sources.transform import Transform

CHUNK_BYTES = 1 << 20
COMPARE_BYTES = 1 << 18  # compared at a time for each source: both stay in a second-level cache
GAP_BYTES = 4096  # the largest gap between two ranges of a file that are read in one step
READ_BYTES = 1 << 20  # the largest read for several small sources
FAR_GAP_BYTES, FAR_READ_BYTES = 1 << 16, 8 << 20  # the same, if each request takes long
STEP_BYTES = 1 << 20  # the input of one step for a transform with units, which makes several arrays of this size
SHOWN_BYTES = 32  # the bytes in the text of a source


class Source:
    """A fixed number of bytes, somewhere.

    It is abstract, but not an `ABC`: with an `ABC`, `isinstance` takes five times as long, and each written field
    calls it.
    """

    __slots__ = ()

    nbytes: int

    @property
    def granule_bytes(self) -> int:
        """Ranges should start and end at multiples of this number of bytes; 0: only a read of the whole is cheap."""
        return 1

    def files(self) -> Iterator[File]:
        """The files that the bytes are read from."""
        return iter(())

    def doubtful(self) -> Iterator[Source]:
        """The sources here whose computation can show an error, apart from errors of reading files."""
        return iter(())

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset` (in bytes, from the start of the source) on.

        Raises: TruncatedError if the bytes end before the buffer is full.
        """
        raise NotImplementedError

    def slice(self, offset: int, nbytes: int) -> Source:
        """The `nbytes` bytes from `offset` on, as a separate source; copies nothing."""
        raise NotImplementedError

    def view(self) -> memoryview:
        """All the bytes, read-only; not copied if they are in memory or in a file that can be mapped.

        The view keeps the memory or the mapping alive.
        """
        raise NotImplementedError

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """A copy of the bytes of a range, which goes to the end by default."""
        size = self.nbytes - offset if nbytes is None else nbytes
        buffer = bytearray(size)
        self.readinto(offset, memoryview(buffer))
        return bytes(buffer)

    def chunks(self, chunk_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
        """All the bytes in order, piece by piece."""
        for offset in range(0, self.nbytes, chunk_bytes):
            yield self.read(offset, min(chunk_bytes, self.nbytes - offset))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Source):
            return NotImplemented
        return self.nbytes == other.nbytes and all(map(eq, self.chunks(COMPARE_BYTES), other.chunks(COMPARE_BYTES)))

    def __hash__(self) -> int:
        return hash(self.nbytes)

    def __copy__(self) -> Source:
        return self

    def __deepcopy__(self, memo: object) -> Source:
        return self  # immutable, and a copy of a model shares its weights

    def _check_range(self, offset: int, nbytes: int) -> None:
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes:
            raise TruncatedError(f"needed {nbytes} bytes at offset {offset} of {self.nbytes} bytes of data")


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Source):
    """Bytes in memory, which belong to their creator and are kept alive by this object."""

    data: memoryview | bytes

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The size in bytes."""
        return len(self.data)

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy from memory."""
        self._check_range(offset, len(buffer))
        buffer[:] = self.data[offset : offset + len(buffer)]

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """The bytes of a range; no copy if the range is a whole `bytes` object."""
        if not offset and nbytes is None:
            return bytes(self.data)
        size = self.nbytes - offset if nbytes is None else nbytes
        self._check_range(offset, size)
        return bytes(self.data[offset : offset + size])

    def slice(self, offset: int, nbytes: int) -> Literal:
        """A view of a range."""
        self._check_range(offset, nbytes)
        return Literal(memoryview(self.data)[offset : offset + nbytes])

    def view(self) -> memoryview:
        """The bytes themselves."""
        return memoryview(self.data).toreadonly()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """The bytes, outside of the pickle if its reader and writer support that."""
        from pickle import PickleBuffer

        return _literal, (PickleBuffer(self.view()) if int(protocol) >= 5 else bytes(self.data),)

    def __repr__(self) -> str:
        return f"Literal({bytes(self.data)!r})" if self.nbytes <= SHOWN_BYTES else f"Literal(<{self.nbytes} bytes>)"


def _literal(data: bytes | PickleBuffer) -> Literal:
    """Bytes that were pickled, or passed separately from a pickle."""
    return Literal(data if isinstance(data, bytes) else memoryview(data).toreadonly())


@dataclass(frozen=True, slots=True, eq=False)
class FileSpan(Source):
    """A range of an open file; `file_offset` is in bytes from the start of the file."""

    file: File
    file_offset: int
    nbytes: int

    def files(self) -> Iterator[File]:
        """The one file."""
        yield self.file

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read from the file at its position; other readers are not disturbed."""
        self._check_range(offset, len(buffer))
        self.file.pread_into(self.file_offset + offset, buffer)

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """The bytes of a range, read at once."""
        size = self.nbytes - offset if nbytes is None else nbytes
        self._check_range(offset, size)
        return self.file.pread(self.file_offset + offset, size)

    def slice(self, offset: int, nbytes: int) -> FileSpan:
        """A shorter range of the same file."""
        self._check_range(offset, nbytes)
        return FileSpan(self.file, self.file_offset + offset, nbytes)

    def view(self) -> memoryview:
        """The range of a read-only mapping of the file."""
        return self.file.map(self.file_offset, self.nbytes)

    def __eq__(self, other: object) -> bool:
        if (
            isinstance(other, FileSpan)
            and self.file is other.file
            and (self.file_offset, self.nbytes) == (other.file_offset, other.nbytes)
        ):
            return True
        return Source.__eq__(self, other)

    __hash__ = Source.__hash__


@dataclass(frozen=True, slots=True, eq=False)
class Transformed(Source):
    """The bytes of another source after a transform; `nbytes` is known without running it."""

    source: Source
    transform: Transform
    nbytes: int

    @property
    def granule_bytes(self) -> int:
        """The output unit of the transform, except if a source below is only cheap as a whole."""
        return self.transform.output_unit if self.source.granule_bytes else 0

    def files(self) -> Iterator[File]:
        """The files of the source below."""
        return self.source.files()

    def doubtful(self) -> Iterator[Source]:
        """This source if its transform has no units (its real size may differ); else those of the source below."""
        return self.source.doubtful() if self.transform.output_unit else iter((self,))

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Transform the input for the range: whole units of the transform, or everything if it has no unit.

        The source below is read, not mapped: so a file that shrinks meanwhile causes an error, not a signal.
        """
        self._check_range(offset, len(buffer))
        if not len(buffer):
            return
        unit_in, unit_out = self.transform.input_unit, self.transform.output_unit
        if not unit_out:
            data = memoryview(bytearray(self.source.nbytes))
            self.source.readinto(0, data)
            buffer[:] = self._apply(data, self.nbytes)[offset : offset + len(buffer)]
            return
        first, filled = offset // unit_out, 0
        start, end = first * unit_in, min(-(-(offset + len(buffer)) // unit_out) * unit_in, self.source.nbytes)
        skip = offset - first * unit_out
        step = max((STEP_BYTES if self.source.granule_bytes else end - start) // unit_in, 1) * unit_in
        scratch = memoryview(bytearray(min(step, end - start)))
        for position in range(start, max(end, start + 1), step):
            data = scratch[: min(step, end - position)]
            self.source.readinto(position, data)
            is_last = position + step >= end
            size = len(buffer) - filled if is_last else step // unit_in * unit_out - skip
            output = buffer[filled : filled + size]
            if self.transform.fill and not skip and size * unit_in == len(data) * unit_out:
                self.transform.fill(data, output)
            else:
                output[:] = self._apply(data, skip + size)[skip : skip + size]
            filled, skip = filled + size, 0

    def slice(self, offset: int, nbytes: int) -> Source:
        """The source itself for the whole range, else the range as a literal: parts of a transform have no address."""
        self._check_range(offset, nbytes)
        return self if nbytes == self.nbytes else Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The transformed bytes, made now."""
        return self._apply(self.source.view(), self.nbytes)[: self.nbytes].toreadonly()

    def _apply(self, data: memoryview, needed: int) -> memoryview:
        """The transformed `data`: at least `needed` bytes, and at most the whole plus the rest of the last unit."""
        output = memoryview(self.transform.apply(data))
        if not needed <= output.nbytes < self.nbytes + max(self.transform.output_unit, 1):
            raise TensorDataError(f"{self.transform.name} gave {output.nbytes} bytes, not {needed}")
        return output.cast("B") if output.nbytes else memoryview(b"")  # an empty array cannot be cast


@dataclass(frozen=True, slots=True, eq=False)
class Concat(Source):
    """Several sources, one after the other; `starts` are the offsets of the parts, in bytes."""

    parts: tuple[Source, ...]
    starts: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, *parts: Source) -> Concat:
        """The sources `parts` in this order as one."""
        *starts, nbytes = accumulate((part.nbytes for part in parts), initial=0)
        return cls(parts, tuple(starts), nbytes)

    @property
    def granule_bytes(self) -> int:
        """The least value of the parts: 0 if one of them is only cheap as a whole."""
        return min((part.granule_bytes for part in self.parts), default=1)

    def files(self) -> Iterator[File]:
        """The files of all parts."""
        for part in self.parts:
            yield from part.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources of all parts."""
        for part in self.parts:
            yield from part.doubtful()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read from every part that overlaps the range."""
        if not offset and len(buffer) == self.nbytes <= READ_BYTES:
            buffer[:] = b"".join(contents(self.parts))
            return
        filled = 0
        for part, start, nbytes in self._touched(offset, len(buffer)):
            part.readinto(start, buffer[filled : filled + nbytes])
            filled += nbytes

    def slice(self, offset: int, nbytes: int) -> Concat:
        """The range, as the parts of it."""
        return Concat.of(*(part.slice(start, size) for part, start, size in self._touched(offset, nbytes)))

    def _touched(self, offset: int, nbytes: int) -> Iterator[tuple[Source, int, int]]:
        """The parts that overlap a range, each with the offset in the part and the number of bytes."""
        self._check_range(offset, nbytes)
        first = max(bisect_right(self.starts, offset) - 1, 0)
        for index in range(first, bisect_left(self.starts, offset + nbytes)):
            part, place = self.parts[index], self.starts[index]
            start, end = max(offset - place, 0), min(offset + nbytes - place, part.nbytes)
            if start < end:
                yield part, start, end - start

    def view(self) -> memoryview:
        """A copy of the parts, joined."""
        return memoryview(b"".join(part.view() for part in self.parts))


def storage_key(source: Source) -> tuple[object, ...]:
    """A key that is equal for sources that are certainly the same bytes; it reads nothing.

    The key is valid while the sources exist. Bytes with equal keys need to be stored only once.
    """
    if isinstance(source, FileSpan):
        return source.file, source.file_offset, source.nbytes
    if isinstance(source, Literal):
        return id(source.data), len(source.data)
    if isinstance(source, Transformed):
        return *storage_key(source.source), source.transform.name, source.nbytes
    return (id(source),)


def joined_sources(parts: list[Source]) -> Source:
    """The parts as one source; parts in memory that follow each other become one piece."""
    pieces: list[Source] = []
    for in_memory, group in groupby(parts, lambda part: isinstance(part, Literal)):
        members = list(group)
        if in_memory and len(members) > 1:
            members = [Literal(b"".join(member.read() for member in members))]
        pieces += members
    return pieces[0] if len(pieces) == 1 else Concat.of(*pieces)


def contents(sources: Sequence[Source]) -> Iterator[memoryview | bytes]:
    """The bytes of each of these small sources; neighbours in a file are read in one step."""
    spans = [source for source in sources if type(source) is FileSpan]
    index = 0  # of the next one
    file, begin, end, data = None, 0, 0, memoryview(b"")  # the range that was read last
    for source in sources:
        if type(source) is Literal:
            yield source.data
        elif type(source) is FileSpan:
            start = source.file_offset
            if source.file is not file or start < begin or start + source.nbytes > end:
                file, begin, end = source.file, start, _end_of_near(spans, index)
                data = memoryview(bytearray(end - begin))
                file.pread_into(begin, data)
            index += 1
            yield data[start - begin : start - begin + source.nbytes]
        else:
            yield source.read()


def _end_of_near(spans: list[FileSpan], index: int) -> int:
    """The end of one read, from the span at `index` on: this span and those that closely follow it."""
    first = spans[index]
    gap, most = (GAP_BYTES, READ_BYTES) if first.file.is_local else (FAR_GAP_BYTES, FAR_READ_BYTES)
    end = first.file_offset + first.nbytes
    for number in range(index + 1, len(spans)):
        span = spans[number]
        is_near = span.file is first.file and 0 <= span.file_offset - end <= gap
        if not is_near or span.file_offset + span.nbytes - first.file_offset > most:
            break
        end = span.file_offset + span.nbytes
    return end
