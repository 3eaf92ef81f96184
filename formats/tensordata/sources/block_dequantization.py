"""The float32s of a matrix that is stored as integers in blocks with a scale each, computed while they are copied.

A number is `(integer - zero point) * scale`, in float32, as onnxruntime and DequantizeLinear compute it.

Spec: onnxruntime, ContribOperators.md, MatMulNBits and GatherBlockQuantized; ONNX, DequantizeLinear with `block_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from formats.tensordata.sources.block_quantization import STEP_FLOATS, STRIP_FLOATS, MadeInSteps
from formats.tensordata.sources.source import Source
from formats.tensordata.sources.transform import unpacked_elements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.file import File

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BYTE = 8  # bits


class Numbers(NamedTuple):
    """Numbers in rows of `row` elements each, of which the last ones may mean nothing.

    They are integers of 2, 4 or 8 `bits`, packed, or float32s, which have 32.
    """

    source: Source
    bits: int
    row: int
    is_signed: bool = False

    def part(self, rows: slice, columns: slice) -> Array:
        """The numbers of some rows and columns, as float32s."""
        count, width = rows.stop - rows.start, columns.stop - columns.start
        if width * 2 > self.row:  # what is between is little
            return self._flat(rows.start * self.row, count * self.row).reshape(count, self.row)[:, columns]
        row_bits, first = self.row * self.bits, columns.start * self.bits // BYTE
        data = np.empty((count, -(-columns.stop * self.bits // BYTE) - first), np.uint8)
        for index, piece in enumerate(data, rows.start):
            self.source.readinto(index * row_bits // BYTE + first, piece.data)
        skip = columns.start - first * BYTE // self.bits
        return self._numbers(data).reshape(count, -1)[:, skip : skip + width]

    def _flat(self, first: int, count: int) -> Array:
        """Some numbers that follow each other."""
        begin, end = first * self.bits // BYTE, -(-(first + count) * self.bits // BYTE)
        skip = first - begin * BYTE // self.bits
        return self._numbers(np.frombuffer(self.source.read(begin, end - begin), np.uint8))[skip : skip + count]

    def _numbers(self, data: Array) -> Array:
        """The numbers in whole bytes."""
        if self.bits > BYTE:
            return data.reshape(-1).view("<f4")
        integers = data.reshape(-1)
        if self.bits < BYTE:
            integers = unpacked_elements(integers.data, self.bits, len(integers) * BYTE // self.bits)
        if self.is_signed:
            highest = 1 << (self.bits - 1)
            return (integers ^ highest).astype("<f4") - np.float32(highest)
        return integers.astype("<f4")


@dataclass(frozen=True, slots=True, eq=False)
class DequantizedMatrix(MadeInSteps):
    """The float32s of a matrix with these `dims`, from blocks of `size` integers along `axis` of what is stored.

    Stored is the matrix, or if it `is_turned`, its transpose. Blocks without `zero_points` all have `zero_point`.
    """

    dims: tuple[int, int]
    integers: Numbers
    scales: Numbers
    zero_points: Numbers | None
    zero_point: int
    size: int
    axis: int
    is_turned: bool

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """The size in bytes."""
        return self.dims[0] * self.dims[1] * 4

    @property
    def units(self) -> int:  # type: ignore[override]
        """How many rows are made at once: whole blocks, if these go along the columns."""
        most, along = (STRIP_FLOATS, True) if self.is_turned else (STEP_FLOATS, self.axis == 0)
        whole = self.size if along else 1
        return max(most // max(self.dims[1], 1) // whole, 1) * whole

    @property
    def units_nbytes(self) -> int:  # type: ignore[override]
        """The bytes of these rows."""
        return self.units * self.dims[1] * 4

    @property
    def granule_bytes(self) -> int:
        """The bytes that are made at once, if the integers can be read in pieces."""
        return self.units_nbytes if all(part.source.granule_bytes for part in self._parts) else 0

    @property
    def _parts(self) -> list[Numbers]:
        return [part for part in (self.integers, self.scales, self.zero_points) if part is not None]

    def files(self) -> Iterator[File]:
        """The files of the integers, scales and zero points."""
        for part in self._parts:
            yield from part.source.files()

    def doubtful(self) -> Iterator[Source]:
        """The doubtful sources of the integers, scales and zero points."""
        for part in self._parts:
            yield from part.source.doubtful()

    def made(self, first: int) -> memoryview:
        """The bytes of the rows from the first one on, or of those that there are."""
        rows, columns = slice(first, min(first + self.units, self.dims[0])), slice(0, self.dims[1])
        stored = (columns, rows) if self.is_turned else (rows, columns)
        numbers = self.integers.part(*stored)
        numbers = numbers - (self.zero_point if self.zero_points is None else self._of_blocks(self.zero_points, stored))
        numbers *= self._of_blocks(self.scales, stored)
        matrix = np.ascontiguousarray(numbers.T if self.is_turned else numbers, "<f4")
        return matrix.view(np.uint8).reshape(-1).data

    def _of_blocks(self, numbers: Numbers, stored: tuple[slice, slice]) -> Array:
        """What blocks have, for each of their elements in a part of what is stored."""
        along = stored[self.axis]
        blocks = slice(along.start // self.size, -(-along.stop // self.size))
        part = numbers.part(blocks, stored[1]) if self.axis == 0 else numbers.part(stored[0], blocks)
        skip = along.start - blocks.start * self.size
        of_elements = np.repeat(part, self.size, self.axis)
        span = slice(skip, skip + along.stop - along.start)
        return of_elements[span] if self.axis == 0 else of_elements[:, span]
