"""Packed protobuf varints as elements of fixed width, of which any range can be read.

The position of a varint is not fixed. So the varints of a long source are counted once, block by block; then it is
known which blocks contain the elements of a range. Reading in order needs memory for only one block.

Spec: protobuf, "Encoding", Base 128 Varints.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formats.errors import TensorDataError, WireError
from formats.tensordata.sources.source import Transformed
from formats.tensordata.sources.unpacked import MAX_VARINT_BYTES, Unpacked

if TYPE_CHECKING:
    from formats.tensordata.sources.source import Source
    from formats.tensordata.sources.transform import Transform

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

BLOCK_BYTES = 1 << 17  # of input at a time: with less, threads wait for each other more than they work
_WORD_BYTES = 8
_WHOLE_WORD = 0x7F7F7F7F7F7F7F7F
# The bits of a little-endian word that belong to a varint, by the number of its bytes.
_MASKS = np.array([_WHOLE_WORD & ((1 << 8 * size) - 1) for size in range(MAX_VARINT_BYTES + 1)], "<u8")


@dataclass(frozen=True, slots=True, eq=False)
class Varints(Transformed):
    """The elements of a source of varints; `width` is that of an element, in bytes.

    Only each `step`-th varint is an element. With 2, each of them is after a tag of one byte.
    """

    width: int
    step: int
    _counts: list[tuple[int, ...]]  # once known: the number of varints that end before each block, and before the end

    @classmethod
    def of(cls, source: Source, transform: Transform, nbytes: int, width: int) -> Varints:
        """The elements, `nbytes` in total."""
        if isinstance(source, Unpacked):
            return cls(source.source, transform, nbytes, width, 2, [])
        return cls(source, transform, nbytes, width, 1, [])

    @property
    def granule_bytes(self) -> int:
        """The width of an element, if the source below can be read in pieces."""
        return self.width if self.source.granule_bytes else 0

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Decode the elements that the range needs.

        Raises: WireError; TensorDataError if there are more or fewer elements than the size requires.
        """
        self._check_range(offset, len(buffer))
        if not len(buffer):
            return
        counts = self._counted()
        first, last = offset // self.width, -(-(offset + len(buffer)) // self.width)
        skipped = first * self.step
        block, stop = bisect_right(counts, skipped) - 1, bisect_left(counts, last * self.step)
        lead = min(block * BLOCK_BYTES, MAX_VARINT_BYTES)  # the first one may begin in it
        data = self.source.read(
            block * BLOCK_BYTES - lead, min(stop * BLOCK_BYTES, self.source.nbytes) - block * BLOCK_BYTES + lead
        )
        array = np.frombuffer(data, np.uint8)
        before = int(np.count_nonzero(array[:lead] < 0x80)) + skipped - counts[block]
        output = np.empty(last - first, f"<u{self.width}")
        _decode_into(output, array, before, self.step)
        skip = offset - first * self.width
        buffer[:] = output.view(np.uint8).data[skip : skip + len(buffer)]

    def view(self) -> memoryview:
        """The elements, decoded now."""
        if self.step == 1:
            return Transformed.view(self)
        buffer = bytearray(self.nbytes)
        self.readinto(0, memoryview(buffer))
        return memoryview(buffer).toreadonly()

    def have_at_most(self, nbytes: int) -> bool:
        """Whether no varint has more than `nbytes` bytes: then each has at most seven bits for each of them.

        To know this takes a tenth of the time that decoding takes.

        Raises: as `readinto` does.
        """
        self._counted()
        data = b""
        for block in self.source.chunks(BLOCK_BYTES):
            data = data[max(len(data) - nbytes + 1, 0) :] + block
            goes_on = np.frombuffer(data, np.uint8) >= 0x80  # the varint, with the next byte
            run = goes_on[nbytes - 1 :].copy()
            for byte in range(nbytes - 1):
                run &= goes_on[byte : byte + len(run)]
            if run.any():
                return False
        return True

    def _counted(self) -> tuple[int, ...]:
        """The number of varints that end before each block, and their total number."""
        if not self._counts:
            last = b"\0"
            sizes = []
            for last in self.source.chunks(BLOCK_BYTES):
                sizes.append(int(np.count_nonzero(np.frombuffer(last, np.uint8) < 0x80)))
            if last[-1] >= 0x80:
                raise WireError("the last varint of the data is incomplete")
            if (found := sum(sizes) // self.step * self.width) != self.nbytes:
                raise TensorDataError(f"{self.transform.name} gave {found} bytes, not {self.nbytes}")
            self._counts.append(tuple(accumulate(sizes, initial=0)))
        return self._counts[0]


def decode_varints(data: bytes | bytearray | memoryview, dtype: np.dtype[Any], step: int = 1) -> Array:
    """The bytes of elements of a type, the low bits of each `step`-th varint in `data`.

    Raises: WireError if a varint has no end or more than 10 bytes.
    """
    array = np.frombuffer(data, np.uint8)
    if len(array) and array[-1] >= 0x80:
        raise WireError("the last varint of the data is incomplete")
    output = np.empty(np.count_nonzero(array < 0x80) // step, dtype)
    _decode_into(output, array, 0, step)
    return output.view(np.uint8)


def _decode_into(output: Array, array: Array, skipped: int = 0, step: int = 1) -> None:
    """Fill `output` with the values of each `step`-th varint in `array`, of which the first ones are `skipped`."""
    start = 0
    while len(output):
        ends = np.flatnonzero(array[start : start + BLOCK_BYTES] < 0x80)
        if odd := max(len(ends) - skipped, 0) % step:
            ends = ends[:-odd]
        if not len(ends):
            raise WireError(f"a varint has more than {MAX_VARINT_BYTES} bytes")
        stop = start + int(ends[-1]) + 1
        wanted = ends[skipped : skipped + len(output) * step]
        if len(wanted):
            begin = int(ends[skipped - 1]) + 1 if skipped else 0
            count = len(wanted) // step
            output[:count] = decoded(array[start + begin : stop], wanted - begin if begin else wanted, step)
            output = output[count:]
        skipped, start = max(skipped - len(ends), 0), stop


def decoded(array: Array, ends: Array, step: int = 1) -> Array:
    """The values of each `step`-th whole varint as unsigned 64-bit integers; `ends` are the places of all last bytes.

    Each is read as a word, whose groups of seven bits are then moved together.

    Raises: WireError if one has more than 10 bytes.
    """
    if len(ends) == len(array):
        return array[step - 1 :: step]
    if step > 1:
        starts = ends[step - 2 :: step] + 1
        ends = ends[step - 1 :: step]
    else:
        starts = np.empty_like(ends)
        starts[0] = 0
        np.add(ends[:-1], 1, out=starts[1:])
    sizes = ends - starts
    sizes += 1
    if (longest := int(sizes.max())) > MAX_VARINT_BYTES:
        raise WireError(f"a varint has more than {MAX_VARINT_BYTES} bytes")
    # Most integers are short: words of half the size take half the time.
    word = np.dtype("<u4" if longest <= np.dtype("<u4").itemsize else "<u8")
    all_bits = (1 << 8 * word.itemsize) - 1
    padded = np.zeros(len(array) + _WORD_BYTES, np.uint8)
    padded[: len(array)] = array
    words: Array = np.ndarray(len(array), word, padded.data, strides=(1,))[starts]
    words &= _MASKS.astype(word)[sizes]
    for size, even in ((1, 0x007F007F007F007F), (2, 0x00003FFF00003FFF), (4, 0x000000000FFFFFFF)):
        if longest > size:
            odd = words >> word.type(size)
            words &= word.type(even & all_bits)
            odd &= word.type(even << 7 * size & all_bits)
            words |= odd
    for byte in range(_WORD_BYTES, longest):
        at = np.flatnonzero(sizes > byte)
        words[at] |= (array[starts[at] + byte] & 0x7F).astype(np.uint64) << np.uint64(7 * byte)
    return words
