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
    from collections.abc import Iterable, Iterator

    from formats.tensordata.file import File

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

STEP_FLOATS = 1 << 20  # that are read at once
PIECE_FLOATS = 1 << 17  # that are quantised at once: what is made of them stays in a second-level cache
STRIP_BYTES = 1 << 24  # that are made at once of columns, so that of each row enough is read at once
STRIP_FLOATS = 1 << 22  # and the most floats that are read for them at once
SIGN = np.uint32(1 << 31)
BELOW_HALF = np.nextafter(np.float32(0.5), np.float32(0)).view(np.uint32)


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

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is stored of a matrix."""
        return (Part.INTEGERS, Part.SCALES) if self.symmetric else (*Part,)

    def count(self, dims: tuple[int, int]) -> int:
        """The number of blocks of a line of a matrix with these dims."""
        return -(-dims[self.axis] // self.size)

    def numbers_in_line(self, part: Part, dims: tuple[int, int]) -> int:
        """How many numbers of a part a line of a matrix with these dims has."""
        if part is Part.INTEGERS and not self.by_line:
            return dims[self.axis]
        return self.count(dims) * (self.size if part is Part.INTEGERS else 1)

    def nbytes_of(self, part: Part, dims: tuple[int, int], float_bits: int) -> int:
        """The size in bytes of a part of a matrix with these dims, whose floats have so many bits."""
        lines, in_line = dims[1 - self.axis], self.numbers_in_line(part, dims)
        bits = float_bits if part is Part.SCALES else self.bits
        return lines * -(-in_line * bits // 8) if self.by_line else -(-lines * in_line * bits // 8)

    def of(self, source: Source, dtype: str, dims: tuple[int, int], part: Part, name: str = "") -> QuantizedMatrix:
        """A part of the matrix with the elements of a source, "float32" or "float16"; errors say its name."""
        itemsize = np.dtype(dtype).itemsize
        lines, length, in_line = dims[1 - self.axis], dims[self.axis], self.numbers_in_line(part, dims)
        bits = itemsize * 8 if part is Part.SCALES else self.bits
        is_whole = part is Part.INTEGERS
        if self.by_line:
            unit_bits, least = -(-in_line * bits // 8) * 8, 1
        else:
            unit_bits = bits * (in_line if self.axis else lines * (self.size if is_whole else 1))
            least = 2 if unit_bits % 8 else 1  # so many end with a whole byte
        if self.by_line and self.axis == 0:  # what is made is kept, the floats only some blocks at a time
            of_unit = in_line if is_whole else in_line * itemsize
            most = min(STRIP_BYTES // max(of_unit, 1), STRIP_FLOATS // self.size)
        else:
            most = STEP_FLOATS // max((length if self.takes_lines else self.size * lines) * least, 1)
        units = max(most, 1) * least
        nbytes = self.nbytes_of(part, dims, itemsize * 8)
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
        blocks = self.blocks
        pieces = map(self._made_of, self._pieces(first))
        if blocks.by_line and self.part is Part.INTEGERS and blocks.axis == 0:
            return self._in_lines(first, pieces, blocks.size, 0)
        made = np.concatenate([*pieces], axis=blocks.axis)
        if blocks.by_line and self.part is Part.INTEGERS:
            return self._in_lines(first, [made], blocks.size, 0)
        if blocks.by_line and self.part is Part.ZERO_POINTS:
            return self._in_lines(first, [made], 8 // blocks.bits, blocks.middle)
        if blocks.is_signed and self.part is not Part.SCALES:
            made ^= blocks.middle
        made = np.ascontiguousarray(made.T if blocks.takes_lines else made)
        if blocks.bits == 8 or self.part is Part.SCALES:
            return _bytes(made)
        return _bytes(bit_packing(blocks.bits).apply(made.reshape(-1).data))

    def _in_lines(self, first: int, pieces: Iterable[Array], whole: int, rest: int) -> memoryview:
        """The lines from the first one on, made of pieces; `rest` fills what is left of the last `whole` numbers."""
        count = min(self.units, self.dims[1 - self.blocks.axis] - first)
        lines = np.empty((count, self.units_nbytes // self.units), np.uint8)
        filled = 0
        for piece in pieces:
            made = np.pad(piece, ((0, -len(piece) % whole), (0, 0)), constant_values=rest)
            if self.blocks.bits != 8:  # two in a byte
                made = made[::2] | made[1::2] << self.blocks.bits
            lines[:, filled : filled + len(made)] = made.T  # a piece at a time, which stays in the cache
            filled += len(made)
        return _bytes(lines)

    def _pieces(self, first: int) -> Iterator[Array]:
        """The floats of the units from the first one on: some whole rows, or some rows of blocks, at a time.

        All pieces are in the same array: new memory for each takes longer than what is done with it.
        """
        rows, columns = self.dims
        size = self.blocks.size
        start, end, left, right = first * size, (first + self.units) * size, 0, columns
        if self.blocks.axis == 1:
            start, end, size = first, first + self.units, 1
        elif self.blocks.by_line:
            start, end, left, right = 0, rows, first, min(first + self.units, columns)
        step = max(PIECE_FLOATS // (size * (right - left)), 1) * size
        end = min(end, rows)
        piece = np.empty((min(step, end - start), right - left), self.dtype)
        for row in range(start, end, step):
            yield self._read(row, left, piece[: end - row])

    def _made_of(self, floats: Array) -> Array:
        """The part that is made of some floats, a column for each line."""
        blocks, (rows, columns) = self.blocks, floats.shape
        if rest := -floats.shape[blocks.axis] % blocks.size:
            floats = np.pad(floats, ((0, 0), (0, rest)) if blocks.axis else ((0, rest), (0, 0)))
        in_blocks = floats.reshape(-1, blocks.size, 1 if blocks.axis else columns)
        made = _quantized(in_blocks, np.dtype(self.dtype), blocks, self.part, self.name)
        return made.reshape(rows, -1)[:, :columns].T if blocks.axis else made.reshape(-1, columns)[:rows]

    def _read(self, start: int, left: int, piece: Array) -> Array:
        """Some columns of some rows, in this array."""
        columns = self.dims[1]
        if piece.shape[1] == columns:
            self.floats.readinto(start * columns * piece.itemsize, _bytes(piece))
            return piece
        for row, numbers in enumerate(piece, start):
            self.floats.readinto((row * columns + left) * piece.itemsize, _bytes(numbers))
        return piece


def _quantized(floats: Array, scale_type: np.dtype[Any], blocks: Blocks, part: Part, name: str) -> Array:
    """A part of blocks of floats (blocks, size, lines), which change; integers and zero points have a byte each.

    Raises: TensorDataError if a scale is not finite.
    """
    floats = floats.astype(floats.dtype if blocks.divides else "f4", copy=False)
    least, greatest = floats.min(axis=1, keepdims=True), floats.max(axis=1, keepdims=True)
    middle, most = blocks.middle, 2 * blocks.middle - 1
    rounded = np.rint if blocks.divides else _half_away
    with np.errstate(all="ignore"):
        if blocks.symmetric:
            extreme = np.where(np.abs(greatest) > np.abs(least), greatest, least)
            scales = np.where(extreme == 0, floats[:, :1], extreme) / floats.dtype.type(-middle)
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
        scales = scales.astype(scale_type).astype(floats.dtype)
        if blocks.divides:
            floats /= np.where(scales == 0, np.inf, scales).astype(floats.dtype)
        else:
            floats *= np.where(scales == 0, 0, 1 / scales).astype(floats.dtype)
        if blocks.by_line or (blocks.divides and not blocks.symmetric):  # the zero point is added before
            floats += zeros
            rounded(floats, out=floats)
        else:
            rounded(floats, out=floats)
            floats += zeros
        integers: Array = np.clip(floats, 0, most, out=floats).astype(np.uint8)
    return integers


def _half_away(numbers: Array, out: Array | None = None) -> Array:
    """Float32 numbers, rounded to the nearest integer, and a half away from zero.

    Each gets the largest number below a half added, with its sign: with 0.5, what is just below 0.5 would become 1.
    """
    bits = numbers.view(np.uint32) & SIGN  # np.copysign takes as long as all of the rest
    bits |= BELOW_HALF
    return np.trunc(np.add(numbers, bits.view(np.float32), out=out), out=out)


def _bytes(array: Array) -> memoryview:
    """The bytes of a contiguous array."""
    return array.view(np.uint8).reshape(-1).data
