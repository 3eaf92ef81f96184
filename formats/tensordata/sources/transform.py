"""Transforms of tensor bytes: named pure functions from bytes to bytes.

Bytes are little-endian on both sides, whatever the machine. Element types are given by their numpy names;
"bfloat16" is understood without `ml_dtypes`.

Spec: protobuf, "Encoding", Base 128 Varints; onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from formats.errors import TensorDataError, TruncatedError, WireError
from formats.tensordata.sources.source import Transformed
from formats.tensordata.sources.unpacked import MAX_VARINT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.tensordata.sources.source import Source

Buffer: TypeAlias = bytes | bytearray | memoryview
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BLOCK_BYTES = 1 << 20  # the input per step, if a transform would otherwise need many times its input as scratch memory
VARINT_BLOCK_BYTES = 1 << 17  # with less, threads wait for each other more than they work
STEP_ELEMENTS = 1 << 17  # converted at a time: their results stay in a second-level cache
STORAGE_NAMES = {"bfloat16": "uint16", "bool": "uint8"}  # numpy has no such type, or one that hides the bits
_MAGNITUDE, _INFINITE = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000)  # bits of float32s
_UNLIMITED = np.float32(2**64).view("<u4")


class _Bounds(NamedTuple):
    """Float32s by their bits, without the sign: what another type rounds to infinity, to zero, and has no digits for.

    These are from `infinite` on, up to `zero`, and before `normal`.
    """

    infinite: np.uint32
    zero: np.uint32
    normal: np.uint32


_BOUNDS = {
    "float16": _Bounds(*np.array([65520, 2.0**-25, 2.0**-14], "<f4").view("<u4")),
    "bfloat16": _Bounds(*np.array([0x7F7F8000, 0x8000, 0x800000], "<u4")),
}


@dataclass(frozen=True, slots=True)
class Transform:
    """A named function of bytes.

    Every `input_unit` bytes of input become `output_unit` bytes of output, independent of other bytes, so that ranges
    can be transformed separately. Both are 0 if only the whole can be transformed. Several threads may call `apply`;
    its result supports the buffer protocol and is contiguous. It is a function of a module, or a `partial` of one, so
    that sources can be pickled.

    `fill` writes the same result for whole units to memory of its size: with new memory for each step, a conversion of
    elements takes twice as long.
    """

    name: str
    input_unit: int
    output_unit: int
    apply: Callable[[Buffer], Any]
    fill: Callable[[Buffer, memoryview], None] | None = field(default=None, kw_only=True)

    def of(self, source: Source, nbytes: int | None = None) -> Transformed:
        """The transformed `source`; its size in bytes must be given if it does not follow from the units."""
        if nbytes is None:
            assert self.output_unit, f"the size of {self.name} is not known from its input"
            nbytes = -(-source.nbytes * self.output_unit // self.input_unit)
        return Transformed(source, self, nbytes)


@dataclass(frozen=True, slots=True)
class _VarintsTransform(Transform):
    """The transform of varints, whose units are unknown; `width` is the width of an element, in bytes."""

    width: int

    def of(self, source: Source, nbytes: int | None = None) -> Transformed:
        """The elements of `source`, `nbytes` in total."""
        assert nbytes is not None, "how many varints there are is not known without reading them"
        return Varints(source, self, nbytes, self.width, [])


@dataclass(frozen=True, slots=True, eq=False)
class Varints(Transformed):
    """The elements of a source of varints, of which any range can be read; `width` is that of an element, in bytes.

    The position of a varint is not fixed. So the varints are checked and counted once, block by block; then it is known
    which blocks contain the elements of a range. Reading in order needs memory for only one block.
    """

    width: int
    _block_starts: list[tuple[int, int]]  # once known: the number of the first varint of each block, and its offset

    @property
    def granule_bytes(self) -> int:
        """The width of an element, if the source below can be read in pieces."""
        return self.width if self.source.granule_bytes else 0

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Decode the elements that the range needs.

        Raises: WireError; TensorDataError if there are more or fewer elements than the size requires.
        """
        self._check_range(offset, len(buffer))
        if not self._block_starts:
            self._block_starts[:] = self._counted()
        if not len(buffer):
            return
        first, last = offset // self.width, -(-(offset + len(buffer)) // self.width)
        output = np.empty(last - first, f"<u{self.width}")
        block = bisect_right(self._block_starts, (first, self.source.nbytes)) - 1
        position = first
        while position < last:
            (number, start), (_, stop) = self._block_starts[block : block + 2]
            values = _varint_values(self.source.read(start, stop - start))[position - number : last - number]
            output[position - first : position - first + len(values)] = values
            position += len(values)
            block += 1
        skip = offset - first * self.width
        buffer[:] = output.view(np.uint8).data[skip : skip + len(buffer)]

    def view(self) -> memoryview:
        """The elements, decoded now."""
        return memoryview(self.read())

    def _counted(self) -> list[tuple[int, int]]:
        """The number of the first varint of each block, and its offset; the last pair is about the end."""
        starts = [(0, 0)]
        offset = 0
        for data in self.source.chunks(VARINT_BLOCK_BYTES):
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) < 0x80)
            number, start = starts[-1]
            _check_sizes(np.diff(ends, prepend=start - offset - 1, append=len(data) - 1))
            if len(ends):
                starts.append((number + len(ends), offset + int(ends[-1]) + 1))
            offset += len(data)
        if starts[-1][1] != offset:
            raise WireError("the last varint of the data is incomplete")
        if (nbytes := starts[-1][0] * self.width) != self.nbytes:
            raise TensorDataError(f"{self.transform.name} gave {nbytes} bytes, not {self.nbytes}")
        return starts


def decode_varints(data: Buffer, dtype: np.dtype[Any]) -> Array:
    """The bytes of elements of a type, the low bits of each varint in `data`.

    Raises: WireError if a varint has no end or more than 10 bytes.
    """
    if len(data) and data[-1] >= 0x80:
        raise WireError("the last varint of the data is incomplete")
    return _varint_values(data).astype(f"<u{dtype.itemsize}").view(np.uint8)


def _varint_values(data: Buffer) -> Array:
    """The values of whole varints, as unsigned integers of 64 bits.

    Raises: WireError if one has more than 10 bytes.
    """
    array = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(array < 0x80)
    sizes = np.diff(ends, prepend=-1)
    _check_sizes(sizes)
    values = array[ends].astype("<u8")  # the last byte of a varint has its highest seven bits
    for before in range(1, int(sizes.max(initial=0))):
        longer = sizes > before
        values[longer] = values[longer] << np.uint64(7) | array[ends[longer] - before] & 0x7F
    return values


def _check_sizes(sizes: Array) -> None:
    if sizes.max(initial=0) > MAX_VARINT_BYTES:
        raise WireError(f"a varint has more than {MAX_VARINT_BYTES} bytes")


@cache
def casting(from_dtype: str, to_dtype: str) -> Transform:
    """Elements converted to another type as numpy does it: rounded to nearest; too large values become infinite."""
    return _of_elements("cast", from_dtype, to_dtype, _cast)


@cache
def narrowing(to_dtype: str) -> Transform:
    """Float32s as float16s or bfloat16s, rounded to nearest: a finite number stays finite, and only zero becomes zero.

    A number that is too large becomes the largest one, and one that is too near zero the least one with its sign.
    """
    return _of_elements("narrow", "float32", to_dtype, _narrow)


@cache
def clamp(from_dtype: str, to_dtype: str) -> Transform:
    """Integers converted to a narrower type; a value that does not fit becomes the nearest one that does."""
    return _of_elements("clamp", from_dtype, to_dtype, _clamp)


@cache
def varints(to_dtype: str) -> Transform:
    """Packed protobuf varints as elements of fixed width: the low bits of each value are the element.

    Raises: WireError, when applied, if a varint has no end or more than 10 bytes.

    Spec: protobuf, Encoding, Base 128 Varints; onnx.proto, `TensorProto.int32_data`.
    """
    dtype = _storage(to_dtype)
    return _VarintsTransform(f"varints to {to_dtype}", 0, 0, partial(decode_varints, dtype=dtype), dtype.itemsize)


@cache
def bit_packing(bits: int) -> Transform:
    """Elements of 2, 4 or 6 bits, one in the low bits of each byte, packed without gaps, the first one lowest.

    Spec: onnx.proto, `TensorProto.raw_data`.
    """
    elements, packed = _group(bits)
    return Transform(f"pack {bits} bits", elements, packed, partial(_pack, bits=bits))


def unpacked_elements(data: Buffer, bits: int, count: int) -> Array:
    """The first `count` elements of 2, 4 or 6 bits as an array of a byte each, as `ml_dtypes` keeps them.

    Raises: TruncatedError if there are fewer.
    """
    if (needed := (count * bits + 7) // 8) > len(data):
        raise TruncatedError(f"needed {needed} bytes for {count} elements of {bits} bits, found {len(data)}")
    elements, packed = _group(bits)
    groups = -(-count // elements)
    padded = np.zeros((groups, packed), np.uint8)
    padded.reshape(-1)[:needed] = np.frombuffer(data, np.uint8, needed)
    output = np.empty((groups, elements), np.uint8)
    for element in range(elements):
        byte, shift = divmod(element * bits, 8)
        value = padded[:, byte] >> shift
        if shift + bits > 8:
            value |= padded[:, byte + 1] << (8 - shift)
        output[:, element] = value & ((1 << bits) - 1)
    return output.reshape(-1)[:count]


def range_of(source: Source, dtype: str) -> tuple[Any, Any]:
    """The least and the greatest element, as Python numbers; NaN is ignored, and the result for no elements is (0, 0).

    It reads a block at a time.
    """
    ranges = [(np.fmin.reduce(values), np.fmax.reduce(values)) for values in _blocks(source, dtype)]
    if not ranges:
        return 0, 0
    least, greatest = zip(*ranges, strict=True)
    return np.fmin.reduce(least).item(), np.fmax.reduce(greatest).item()


def are_kept(source: Source, dtype: str, target: str) -> bool:
    """Whether all numbers of a source are numbers of another type, too. It reads a block at a time."""
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(values, values.astype(_storage(target)).astype(values.dtype), equal_nan=True)
            for values in _blocks(source, dtype)
        )


class Beyond(NamedTuple):
    """How many float32s `narrowing` moves: too large, so large that they mean no limit, and too near zero.

    `faint` ones are so near zero that they lose digits; those that are too near zero count among them.
    """

    large: int = 0
    unlimited: int = 0
    small: int = 0
    faint: int = 0


def beyond(source: Source, dtype: str) -> Beyond:
    """The float32s that no number of a narrower type is near. It reads a block at a time."""
    bounds = _BOUNDS[dtype]
    large = unlimited = small = faint = 0
    for values in _blocks(source, "float32"):
        for start in range(0, len(values), STEP_ELEMENTS):
            sizes = values[start : start + STEP_ELEMENTS].view("<u4") & _MAGNITUDE
            if sizes.max() >= bounds.infinite:
                above = sizes[(sizes >= bounds.infinite) & (sizes < _INFINITE)]
                unlimited += (without_limit := int(np.count_nonzero(above >= _UNLIMITED)))
                large += len(above) - without_limit
            if sizes.min() < bounds.normal:
                below = sizes[(sizes < bounds.normal) & (sizes != 0)]
                small += int(np.count_nonzero(below <= bounds.zero))
                faint += len(below)
    return Beyond(large, unlimited, small, faint)


def _blocks(source: Source, dtype: str) -> Iterator[Array]:
    """The numbers of a source, a block at a time."""
    width = _storage(dtype).itemsize
    usable = source.nbytes // width * width
    block = BLOCK_BYTES if source.granule_bytes else usable
    buffer = memoryview(bytearray(min(block, usable)))
    for offset in range(0, usable, max(block, 1)):
        data = buffer[: min(block, usable - offset)]
        source.readinto(offset, data)
        yield _decode(data, dtype)


def _storage(dtype: str) -> np.dtype[Any]:
    """The little-endian numpy type in which elements of the type `dtype` are read and written."""
    return np.dtype(STORAGE_NAMES.get(dtype, dtype)).newbyteorder("<")


def _decode(data: Buffer, dtype: str) -> Array:
    """Bytes as an array of numbers."""
    return _numbers(np.frombuffer(data, _storage(dtype)), dtype)


def _numbers(array: Array, dtype: str) -> Array:
    """The numbers of an array in the storage form of a type."""
    if dtype == "bfloat16":  # the upper half of a float32
        return (array.astype("<u4") << 16).view("<f4")
    return array != 0 if dtype == "bool" else array


def _of_elements(name: str, from_dtype: str, to_dtype: str, convert: Callable[[Array, Array, str], None]) -> Transform:
    """The transform of each element of a type into one of another type: `convert` puts it into an array."""
    source, target = _storage(from_dtype), _storage(to_dtype)
    fill = partial(_fill, from_dtype=from_dtype, target=target, convert=convert)
    apply = partial(_filled, ratio=(source.itemsize, target.itemsize), fill=fill)
    return Transform(f"{name} {from_dtype} to {to_dtype}", source.itemsize, target.itemsize, apply, fill=fill)


def _fill(
    data: Buffer,
    output: memoryview,
    from_dtype: str,
    target: np.dtype[Any],
    convert: Callable[[Array, Array, str], None],
) -> None:
    array, converted = np.frombuffer(data, _storage(from_dtype)), np.frombuffer(output, target)
    for start in range(0, len(array), STEP_ELEMENTS):
        stop = start + STEP_ELEMENTS
        convert(array[start:stop], converted[start:stop], from_dtype)


def _filled(data: Buffer, ratio: tuple[int, int], fill: Callable[[Buffer, memoryview], None]) -> Array:
    output = np.empty(len(data) // ratio[0] * ratio[1], np.uint8)
    fill(data, output.data)
    return output


def _cast(array: Array, output: Array, from_dtype: str) -> None:
    if (from_dtype, output.dtype.name) == ("float16", "float32"):
        _float32_of_half().take(array.view("<u2"), mode="clip", out=output)
        return
    with np.errstate(over="ignore", invalid="ignore"):
        np.copyto(output, _numbers(array, from_dtype), casting="unsafe")


@cache
def _float32_of_half() -> Array:
    """The float32 for each float16, by its bits; numpy's conversion takes more than twice as long as this table."""
    return np.arange(1 << 16, dtype="<u2").view("<f2").astype("<f4")


def _narrow(array: Array, output: Array, from_dtype: str) -> None:
    """Write float32s into an array of float16s, or of the bits of bfloat16s."""
    if not len(array):
        return
    bits, numbers = output.view("<u2"), array.view("<u4")
    sizes = numbers & _MAGNITUDE
    bounds = _BOUNDS["float16" if output.dtype.kind == "f" else "bfloat16"]
    if output.dtype.kind == "f":
        _cast(array, output, from_dtype)
    else:  # the upper half, rounded to nearest, and to even if both are as near
        np.copyto(bits, (numbers + (0x7FFF + (numbers >> 16 & 1))) >> 16, casting="unsafe")
    if (largest := sizes.max()) >= bounds.infinite:
        bits[(sizes >= bounds.infinite) & (sizes < _INFINITE)] -= 1  # from infinity to the number before it
    if largest > _INFINITE and output.dtype.kind != "f":
        bits[sizes > _INFINITE] = numbers[sizes > _INFINITE] >> 16 | 0x40  # NaN, whatever its lower half
    if sizes.min() <= bounds.zero:
        bits[(sizes <= bounds.zero) & (sizes != 0)] += 1


def _clamp(array: Array, output: Array, from_dtype: str) -> None:
    limits, own = np.iinfo(output.dtype), np.iinfo(array.dtype)
    np.copyto(output, array.clip(max(limits.min, own.min), min(limits.max, own.max)), casting="unsafe")


def _group(bits: int) -> tuple[int, int]:
    """The number of elements that fill a whole number of bytes, and this number."""
    assert bits in (2, 4, 6), f"elements have 2, 4 or 6 bits, not {bits}"
    return (4, 3) if bits == 6 else (8 // bits, 1)


def _pack(data: Buffer, bits: int) -> Array:
    elements, packed = _group(bits)
    values = np.frombuffer(data, np.uint8)
    if rest := -len(values) % elements:
        values = np.pad(values, (0, rest))
    groups = values.view(f"<u{elements}")  # a number for each
    mask = (1 << bits) - 1
    output = groups & mask
    for element in range(1, elements):
        moved = groups >> element * (8 - bits)
        moved &= mask << element * bits
        output |= moved
    if packed == 1:  # in the low byte of each number
        return output.astype(np.uint8)
    return output.view(np.uint8).reshape(-1, elements)[:, :packed].reshape(-1)[: (len(data) * bits + 7) // 8]
