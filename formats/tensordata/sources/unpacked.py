"""The numbers of typed fields (`float_data`, `int64_data`, ...) that are written one by one, each after its tag.

They stay in the source like packed ones. One call checks many of them, and one call removes the tags.

Spec: Protocol Buffers, "Encoding", "Repeated Elements"; onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from formats.tensordata.file import File

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

MAX_VARINT_BYTES = 10
BLOCK_BYTES = 1 << 17  # of fields that one call checks, or from which one call removes the tags
FIRST_BYTES = 1 << 12  # each block has twice as many as the one before: a file may have very many short lists
LEAST_BYTES = 1 << 12  # fewer fields are decoded one by one, so that a few such lists cannot cost many reads
LEAST_VARINT_BYTES = 1 << 16  # decoding fewer one by one takes no longer than importing numpy
NUMPY_BYTES = 1 << 25  # of elements of fixed width: removing their tags takes as long as importing numpy


@dataclass(frozen=True, slots=True, eq=False)
class Unpacked(Source):
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
        position = self.offsets[first]
        for start, stop in pairwise(self.starts[first : bisect_left(self.offsets, offset + len(buffer)) + 1]):
            payload = _without_tags(self.source.read(start, stop - start), self.width, self.nbytes >= NUMPY_BYTES)
            lead = max(offset - position, 0)
            position += len(payload)
            done = position - len(payload) + lead - offset
            part = payload[lead : lead + len(buffer) - done]
            buffer[done : done + len(part)] = part

    def slice(self, offset: int, nbytes: int) -> Source:
        """The source itself for the whole range, else the range as a literal."""
        self._check_range(offset, nbytes)
        return self if nbytes == self.nbytes else Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The bytes, computed now."""
        return memoryview(self.read())


def unpacked(source: Source, position: int, end: int, tag: int, width: int) -> Unpacked | None:
    """The adjacent fields with this tag of one byte from `position` of the source on.

    `None` if they are few. An incomplete or wrong element ends them.
    """
    if end - position < (LEAST_BYTES if width else LEAST_VARINT_BYTES):
        return None
    starts, offsets = [0], [0]
    block_nbytes = FIRST_BYTES
    while (place := position + starts[-1]) < end:
        block_nbytes = min(2 * block_nbytes, BLOCK_BYTES)
        nbytes, count = whole_fields(source.read(place, min(block_nbytes, end - place)), tag, width)
        if not count:
            break
        starts.append(starts[-1] + nbytes)
        offsets.append(offsets[-1] + nbytes - count)
    if starts[-1] < LEAST_BYTES:
        return None
    return Unpacked(source.slice(position, starts[-1]), width, tuple(starts), tuple(offsets))


def whole_fields(data: bytes, tag: int, width: int) -> tuple[int, int]:
    """The size of the whole fields with this tag of one byte at the start of the data, and their number.

    `width` is that of an element, in bytes; 0 for varints. A wrong element ends them.
    """
    if width:
        step = width + 1
        tags, expected = data[: len(data) // step * step : step], bytes((tag,))
        count = len(tags)
        if tags != expected * count:
            count -= len(tags.lstrip(expected))
        return count * step, count
    import numpy

    array = numpy.frombuffer(data, numpy.uint8)
    ends = numpy.flatnonzero(array < 0x80)
    values = ends[1::2]
    count = len(values)
    if not count:
        return 0, 0
    tags_at = ends[::2][:count]
    sizes = values - tags_at
    nbytes = int(values[-1]) + 1
    # If the values have all bytes but one for each, each tag has one byte.
    if sizes.max() >= MAX_VARINT_BYTES or int(sizes.sum()) + count != nbytes or (array[tags_at] != tag).any():
        wrong = (array[tags_at] != tag) | (sizes > MAX_VARINT_BYTES)
        wrong |= (sizes == MAX_VARINT_BYTES) & (array[values] > 1)  # of 64 bits at most
        wrong[1:] |= tags_at[1:] != values[:-1] + 1  # tags of several bytes
        wrong[:1] |= tags_at[:1] != 0
        if wrong.any():
            count = int(wrong.argmax())
            nbytes = int(values[count - 1]) + 1 if count else 0
    return nbytes, count


def numbers_behind_tags(data: bytes, dtype: str) -> Array:
    """The numbers of fixed width in whole fields, as they are there."""
    import numpy

    step = 1 + numpy.dtype(dtype).itemsize
    return numpy.ndarray(len(data) // step, dtype, data, offset=1, strides=(step,))


def _without_tags(data: bytes, width: int, with_numpy: bool = False) -> bytes | bytearray:
    """The payload of whole fields; `with_numpy` says whether numpy may be imported for elements of fixed width."""
    if width and not with_numpy:
        payload = bytearray(len(data) // (width + 1) * width)
        for byte in range(width):
            payload[byte::width] = data[byte + 1 :: width + 1]
        return payload
    import numpy

    if width:
        return numbers_behind_tags(data, f"<u{width}").tobytes()
    array = numpy.frombuffer(data, numpy.uint8)
    is_kept = numpy.ones(len(array), bool)
    is_kept[numpy.flatnonzero(array < 0x80)[::2]] = False
    return array[is_kept].tobytes()
