"""The floats of a matrix as integers of 4 or 8 bits, in blocks that have a scale each, made while they are copied.

Blocks go along one axis, and the last one of a line may be shorter. A number becomes `round(number / scale) + zero
point`. Symmetric blocks have the zero point in the middle of the integers. The bytes are those of onnxruntime's own
quantiser (`onnxruntime.quantization.matmul_nbits_quantizer`), which rounds in three ways: for products it multiplies by
the reciprocal of the scale, and rounds a half away from zero, with the zero point added before or, for matrices,
after; for `Gather` it divides, and rounds a half to an even number.

Spec: onnxruntime, ContribOperators.md, MatMulNBits and GatherBlockQuantized; ONNX, DequantizeLinear with `block_size`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from formats.errors import TensorDataError
from formats.tensordata.sources.source import Literal, Source
from formats.tensordata.sources.transform import bit_packing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.file import File

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

STEP_FLOATS = 1 << 20  # that are read at once
STRIP_FLOATS = 1 << 22  # the same for columns of rows, so that of each row enough is read at once
HALF = 0.5


class Part(Enum):
    """What a source of a quantised matrix has."""

    INTEGERS = "integers"
    SCALES = "scales"
    ZERO_POINTS = "zero_points"


class Blocks(NamedTuple):
    """How a matrix is quantised: blocks of `size` elements along `axis` (0 or 1), as integers of 4 or 8 `bits`.

    A line is what lies along the axis: a row for axis 1, a column for axis 0. With `by_line`, lines are stored one
    after the other, each in whole blocks and bytes, as unsigned integers (MatMulNBits). Otherwise, integers, scales and
    zero points are matrices in the order of the floats.

    `divides`: the rounding of the quantiser for `Gather`.
    """

    bits: int
    size: int
    axis: int
    symmetric: bool
    by_line: bool = False
    divides: bool = False

    @property
    def is_signed(self) -> bool:
        """Whether the integers are signed: GatherBlockQuantized takes no INT8."""
        return self.symmetric and not self.by_line and not (self.divides and self.bits == 8)

    @property
    def takes_lines(self) -> bool:
        """Whether lines are made one after the other, not rows of blocks."""
        return self.by_line or self.axis == 1

    @property
    def middle(self) -> int:
        """The zero point of symmetric blocks, as an unsigned integer."""
        return 1 << (self.bits - 1)

    def count(self, dims: tuple[int, int]) -> int:
        """The number of blocks of a line of a matrix with these dims."""
        return -(-dims[self.axis] // self.size)

    def of(self, source: Source, dtype: str, dims: tuple[int, int], part: Part, name: str = "") -> QuantizedMatrix:
        """A part of the matrix with the elements of a source, "float32" or "float16"; errors say its name."""
        lines, length, count = dims[1 - self.axis], dims[self.axis], self.count(dims)
        bits = np.dtype(dtype).itemsize * 8 if part is Part.SCALES else self.bits
        is_whole = part is Part.INTEGERS
        if self.by_line:
            of_line = count * (self.size if is_whole else 1)
            unit_bits, nbytes, least = -(-of_line * bits // 8) * 8, lines * -(-of_line * bits // 8), 1
        else:
            of_line = length if is_whole else count
            unit_bits = bits * (of_line if self.axis else lines * (self.size if is_whole else 1))
            nbytes, least = -(-lines * of_line * bits // 8), 2 if unit_bits % 8 else 1  # so many end with a whole byte
        floats = length if self.takes_lines else self.size * lines
        most = STRIP_FLOATS if self.by_line and self.axis == 0 else STEP_FLOATS
        units = max(most // max(floats * least, 1), 1) * least
        return QuantizedMatrix(source, dtype, dims, self, part, name, units, units * unit_bits // 8, nbytes)


class MadeInSteps(Source):
    """Bytes that are computed some units at a time: `units` of them make `units_nbytes` bytes, the last ones fewer."""

    __slots__ = ()

    units: int
    units_nbytes: int

    def made(self, first: int) -> memoryview:
        """The bytes of the units from the first one on, or of those that there are."""
        raise NotImplementedError

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Compute what the range needs."""
        self._check_range(offset, len(buffer))
        filled = 0
        while filled < len(buffer):
            step, skip = divmod(offset + filled, self.units_nbytes)
            data = self.made(step * self.units)[skip : skip + len(buffer) - filled]
            buffer[filled : filled + len(data)] = data
            filled += len(data)

    def slice(self, offset: int, nbytes: int) -> Source:
        """The source itself for the whole range, else the range as a literal."""
        self._check_range(offset, nbytes)
        return self if nbytes == self.nbytes else Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The bytes, made now."""
        return memoryview(self.read())


@dataclass(frozen=True, slots=True, eq=False)
class QuantizedMatrix(MadeInSteps):
    """The integers, scales or zero points of a matrix of floats, quantised while they are read.

    They are made from some lines at a time, or from some rows of blocks if these are the order of the bytes.
    """

    floats: Source
    dtype: str
    dims: tuple[int, int]
    blocks: Blocks
    part: Part
    name: str
    units: int
    units_nbytes: int
    nbytes: int

    @property
    def granule_bytes(self) -> int:
        """The bytes that are made at once, if the floats can be read in pieces."""
        return self.units_nbytes if self.floats.granule_bytes else 0

    def files(self) -> Iterator[File]:
        """The files of the floats."""
        return self.floats.files()

    def doubtful(self) -> Iterator[Source]:
        """This source: a number that is not finite cannot be quantised."""
        return iter((self,))

    def made(self, first: int) -> memoryview:
        """The bytes of the units from the first one on, or of those that there are.

        Raises: TensorDataError for a number that is not finite.
        """
        blocks, size, count = self.blocks, self.blocks.size, self.units
        floats = self._lines(first, count) if blocks.takes_lines else self._rows(first * size, count * size)
        # What is made of rows is several times as large.
        rows = max(STEP_FLOATS // (8 * size * floats.shape[1]), 1) * size
        pieces = (floats[start : start + rows] for start in range(0, len(floats), rows))
        scale_type = np.dtype(self.dtype)
        made = np.concatenate([_quantized(piece, scale_type, blocks, self.part, self.name) for piece in pieces])
        if blocks.takes_lines:
            made = made.T
        if self.part is Part.SCALES:
            return _bytes(np.ascontiguousarray(made))
        if blocks.by_line:  # with zeros, and a zero point in the middle, in what is left of the last block and byte
            whole, rest = (size, 0) if self.part is Part.INTEGERS else (8 // blocks.bits, blocks.middle)
            made = np.pad(made, ((0, 0), (0, -made.shape[1] % whole)), constant_values=rest)
        elif blocks.is_signed:
            made = made ^ blocks.middle
        integers = np.ascontiguousarray(made).reshape(-1)
        return _bytes(integers if blocks.bits == 8 else bit_packing(blocks.bits).apply(integers.data))

    def _rows(self, first: int, count: int) -> Array:
        """Some rows of the matrix, or those that there are."""
        rows, columns = self.dims
        array = np.empty((min(count, rows - first), columns), self.dtype)
        self.floats.readinto(first * columns * array.itemsize, _bytes(array))
        return array

    def _lines(self, first: int, count: int) -> Array:
        """Some lines as columns."""
        if self.blocks.axis == 1:
            return np.ascontiguousarray(self._rows(first, count).T)
        rows, columns = self.dims
        array = np.empty((rows, min(count, columns - first)), self.dtype)
        if array.shape[1] == columns:
            return self._rows(0, rows)
        for row, numbers in enumerate(array):
            self.floats.readinto((row * columns + first) * array.itemsize, _bytes(numbers))
        return array


def _quantized(floats: Array, scale_type: np.dtype[Any], blocks: Blocks, part: Part, name: str) -> Array:
    """A part of columns of floats, with blocks along the first axis; integers and zero points have a byte each.

    Raises: TensorDataError if a scale is not finite.
    """
    length, lines = floats.shape
    if rest := -length % blocks.size:
        floats = np.pad(floats, ((0, rest), (0, 0)))
    floats = floats.reshape(-1, blocks.size, lines).astype(floats.dtype if blocks.divides else "f4", copy=False)
    least, greatest = floats.min(axis=1), floats.max(axis=1)
    middle, most = blocks.middle, 2 * blocks.middle - 1
    rounded = np.round if blocks.divides else _half_away
    with np.errstate(all="ignore"):
        if blocks.symmetric:
            extreme = np.where(np.abs(greatest) > np.abs(least), greatest, least)
            scales = np.where(extreme == 0, floats[:, 0], extreme) / floats.dtype.type(-middle)
            zeros = np.full_like(scales, middle)
        else:
            least, greatest = np.minimum(least, 0), np.maximum(greatest, 0)
            scales = (greatest - least) / floats.dtype.type(most)
            nothing = middle if blocks.divides else 0  # the zero point of a block of zeros
            zeros = rounded(np.where(scales == 0, nothing, -least / scales)).clip(0, most)
        if not np.isfinite(scales).all():
            problem = "has numbers that are too large or not finite"
            raise TensorDataError(f"the weight {name} {problem}, so it cannot be quantised; keep its nodes")
        if part is not Part.INTEGERS:
            made: Array = scales.astype(scale_type) if part is Part.SCALES else zeros.astype(np.uint8)
            return made
        scales, zeros = scales.astype(scale_type).astype(floats.dtype)[:, None], zeros[:, None]
        numbers = floats / scales if blocks.divides else floats * (1 / scales)
        np.copyto(numbers, 0, where=scales == 0)
        adds_first = blocks.by_line or (blocks.divides and not blocks.symmetric)
        numbers = rounded(numbers + zeros) if adds_first else rounded(numbers) + zeros
        integers: Array = np.clip(numbers, 0, most).astype(np.uint8)
    return integers.reshape(-1, lines)[:length]


def _half_away(numbers: Array) -> Array:
    """The numbers, rounded to the nearest integer, and a half away from zero."""
    whole: Array = np.trunc(numbers)
    rest = numbers - whole
    whole += rest >= HALF
    whole -= rest <= -HALF
    return whole


def _bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array."""
    return array.view(np.uint8).reshape(-1).data
