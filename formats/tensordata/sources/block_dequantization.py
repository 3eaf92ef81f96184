"""The float32s of a matrix that is stored as integers in blocks with a scale each, computed while they are copied.

A number is `(integer - zero point) * scale`, in float32, as onnxruntime and DequantizeLinear compute it.

Spec: onnxruntime, ContribOperators.md, MatMulNBits and GatherBlockQuantized; ONNX, DequantizeLinear with `block_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from formats.tensordata.sources.block_quantization import PIECE_FLOATS, STEP_FLOATS, STRIP_FLOATS, MadeInSteps
from formats.tensordata.sources.source import Source
from formats.tensordata.sources.transform import unpacked_elements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.file import File

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BYTE = 8  # bits
PIECE_BYTES = 1 << 21  # that are read at once
SHORT_BYTES = 1 << 14  # rows that are read as a whole, although only a part of each is needed


class Numbers(NamedTuple):
    """Numbers in rows of `row` elements each, of which the last ones may mean nothing.

    They are integers of 2, 4 or 8 `bits`, packed, or float32s, which have 32.
    """

    source: Source
    bits: int
    row: int
    is_signed: bool = False

    @property
    def row_bytes(self) -> int:
        """The size of a row in bytes, without a part of a byte."""
        return self.row * self.bits // BYTE

    def part(self, rows: slice, columns: slice) -> Array:
        """The numbers of some rows and columns, as float32s."""
        count, width = rows.stop - rows.start, columns.stop - columns.start
        if width == self.row or count == 1:  # rows may share a byte
            return self._flat(rows.start * self.row + columns.start, count * width).reshape(count, width)
        row_bytes = self.row_bytes
        begin, end = columns.start * self.bits // BYTE, -(-columns.stop * self.bits // BYTE)
        if row_bytes <= SHORT_BYTES:  # then one large read takes less time than many small ones
            data = np.frombuffer(self.source.read(rows.start * row_bytes, count * row_bytes), np.uint8)
            data = np.ascontiguousarray(data.reshape(count, row_bytes)[:, begin:end])
        else:
            data = np.empty((count, end - begin), np.uint8)
            for row, piece in enumerate(data, rows.start):
                self.source.readinto(row * row_bytes + begin, piece.data)
        skip = columns.start - begin * BYTE // self.bits
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
        """How many numbers are made at once: whole rows, or if a row is long a part of one.

        If blocks go along the columns and are short, these are rows of whole blocks.
        """
        most, columns = STRIP_FLOATS if self.is_turned else STEP_FLOATS, self.dims[1]
        rows, whole = most // max(columns, 1), self.size if self.is_turned or self.axis == 0 else 1
        return (rows - rows % whole if rows >= whole else rows) * columns or most

    @property
    def units_nbytes(self) -> int:  # type: ignore[override]
        """The bytes of these numbers."""
        return self.units * 4

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
        """The bytes of the numbers from the first one on, or of those that there are."""
        columns = self.dims[1]
        made = np.empty(min(self.units, self.dims[0] * columns - first), "<f4")
        filled = 0
        while filled < len(made):
            row, column = divmod(first + filled, columns)
            rows = 1 if column else max((len(made) - filled) // columns, 1)  # else a part of a row
            width = min(len(made) - filled, columns - column)
            matrix = made[filled : filled + rows * width].reshape(rows, width)
            self._make(matrix, slice(row, row + rows), slice(column, column + width))
            filled += matrix.size
        return made.view(np.uint8).data

    def _make(self, matrix: Array, rows: slice, columns: slice) -> None:
        """Fill a matrix with some rows and columns, some lines of what is stored at a time."""
        stored, lines, across = (matrix.T, columns, rows) if self.is_turned else (matrix, rows, columns)
        step = max(min(PIECE_FLOATS // stored.shape[1], PIECE_BYTES // max(self.integers.row_bytes, 1)), 1)
        for start in range(0, len(stored), step):
            end = min(start + step, len(stored))
            stored[start:end] = self._numbers(slice(lines.start + start, lines.start + end), across)

    def _numbers(self, rows: slice, columns: slice) -> Array:
        """Some rows and columns of what is stored."""
        numbers = self.integers.part(rows, columns)
        if self.zero_points is not None:
            numbers = numbers - self._of_blocks(self.zero_points, rows, columns)
        elif self.zero_point:
            numbers = numbers - np.float32(self.zero_point)
        return numbers * self._of_blocks(self.scales, rows, columns)

    def _of_blocks(self, numbers: Numbers, rows: slice, columns: slice) -> Array:
        """What blocks have, for each of their elements in some rows and columns of what is stored."""
        along = columns if self.axis else rows
        blocks = slice(along.start // self.size, -(-along.stop // self.size))
        part = numbers.part(rows, blocks) if self.axis else numbers.part(blocks, columns)
        ends = np.arange(blocks.start, blocks.stop + 1) * self.size
        return np.repeat(part, np.diff(ends.clip(along.start, along.stop)), self.axis)
