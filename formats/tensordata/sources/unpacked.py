"""The numbers of typed fields (`float_data`, `int64_data`, ...) that are written one by one, each after its tag.

They stay in the source like packed ones. One call checks many of them, and one call removes the tags.

Spec: Protocol Buffers, "Encoding", "Repeated Elements"; onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.file import File

BLOCK_BYTES = 1 << 15  # of fields that one call checks, or from which one call removes the tags
MAX_VARINT_BYTES = 10
LEAST_BYTES = 1 << 12  # fewer fields are decoded one by one, so that a few such lists cannot cost many reads


@dataclass(frozen=True, slots=True, eq=False)
class UnpackedNumbers(Source):
    """The payload that a packed field with the same elements would have.

    `source` has whole fields, each with a tag of one byte. `width` is that of an element, in bytes; 0 for varints. The
    fields are in blocks that begin at `starts` in the source; their payloads begin at `offsets`. The last element of
    each is the end.
    """

    source: Source
    width: int
    starts: tuple[int, ...]
    offsets: tuple[int, ...]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The size in bytes, without tags."""
        return self.offsets[-1]

    @property
    def granule_bytes(self) -> int:
        """The width of an element, if the source can be read in pieces."""
        return (self.width or 1) if self.source.granule_bytes else 0

    def files(self) -> Iterator[File]:
        """The files of the source."""
        return self.source.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources below."""
        return self.source.doubtful()

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read the blocks that the range needs."""
        self._check_range(offset, len(buffer))
        if not len(buffer):
            return
        first = bisect_right(self.offsets, offset) - 1
        filled, skip = 0, offset - self.offsets[first]
        for start, stop in pairwise(self.starts[first : bisect_left(self.offsets, offset + len(buffer)) + 1]):
            part = without_tags(self.source.read(start, stop - start), self.width)[skip : skip + len(buffer) - filled]
            buffer[filled : filled + len(part)] = part
            filled, skip = filled + len(part), 0

    def slice(self, offset: int, nbytes: int) -> Source:
        """The source itself for the whole range, else the range as a literal."""
        self._check_range(offset, nbytes)
        return self if nbytes == self.nbytes else Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The bytes, computed now."""
        return memoryview(self.read())


def unpacked(source: Source, position: int, end: int, tag: int, width: int) -> UnpackedNumbers | None:
    """The adjacent fields with this tag of one byte from `position` of the source on.

    `None` if they are few. An incomplete or wrong element ends them.
    """
    if end - position < LEAST_BYTES:
        return None
    starts, offsets = [0], [0]
    is_whole = True  # all fields of the last block have this tag, perhaps but for an incomplete one at its end
    while is_whole and (place := position + starts[-1]) < end:
        data = source.read(place, min(BLOCK_BYTES, end - place))
        nbytes, count = whole_fields(data, tag, width)
        is_whole = count > 0 and len(data) - nbytes <= MAX_VARINT_BYTES
        starts.append(starts[-1] + nbytes)
        offsets.append(offsets[-1] + nbytes - count)
    if starts[-1] < LEAST_BYTES:
        return None
    return UnpackedNumbers(source.slice(position, starts[-1]), width, tuple(starts), tuple(offsets))


def whole_fields(data: bytes, tag: int, width: int) -> tuple[int, int]:
    """The size of the whole fields with this tag of one byte at the start of the data, and their number.

    `width` is that of an element, in bytes; 0 for varints. A wrong element ends them.
    """
    import numpy

    array = numpy.frombuffer(data, numpy.uint8)
    if width:
        step = width + 1
        wrong = array[: len(array) // step * step : step] != tag
        count = int(wrong.argmax()) if wrong.any() else len(wrong)
        return count * step, count
    ends = numpy.flatnonzero(array < 0x80)  # of tags and values, in turns
    value_ends = ends[1::2]
    tag_ends = ends[::2][: len(value_ends)]
    sizes = value_ends - tag_ends
    wrong = (array[tag_ends] != tag) | (sizes > MAX_VARINT_BYTES)
    wrong |= (sizes == MAX_VARINT_BYTES) & (array[value_ends] > 1)  # of 64 bits at most
    wrong |= tag_ends != numpy.concatenate(([-1], value_ends))[:-1] + 1  # tags of several bytes
    count = int(wrong.argmax()) if wrong.any() else len(wrong)
    return int(value_ends[count - 1]) + 1 if count else 0, count


def without_tags(data: bytes, width: int) -> bytes:
    """The payload of whole fields with a tag of one byte each, whose elements have this width; 0 for varints."""
    import numpy

    array = numpy.frombuffer(data, numpy.uint8)
    if width:
        return array.reshape(-1, width + 1)[:, 1:].tobytes()
    is_kept = numpy.ones(len(array), bool)
    is_kept[numpy.flatnonzero(array < 0x80)[::2]] = False
    return array[is_kept].tobytes()
