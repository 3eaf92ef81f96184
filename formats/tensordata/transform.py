"""Transforms of tensor bytes: named pure functions from bytes to bytes.

Bytes are little-endian on both sides, whatever the machine. Element types are given by their numpy names;
"bfloat16" is understood without `ml_dtypes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formats.errors import TruncatedError
from formats.tensordata.source import Transformed
from formats.tensordata.varints import Varints, decode_varints

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.tensordata.source import Source

Buffer: TypeAlias = bytes | bytearray | memoryview
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

BLOCK_BYTES = 1 << 20  # the input per step, if a transform would otherwise need many times its input as scratch memory
STORAGE_NAMES = {"bfloat16": "uint16", "bool": "uint8"}  # numpy has no such type, or one that hides the bits


@dataclass(frozen=True, slots=True)
class Transform:
    """A named function of bytes.

    Every `input_unit` bytes of input become `output_unit` bytes of output, independent of other bytes, so that
    ranges can be transformed separately. Both are 0 if only the whole can be transformed. Several threads call `apply`;
    its result supports the buffer protocol and is contiguous. It is a function of a module, or a `partial` of one, so
    that sources can be pickled.
    """

    name: str
    input_unit: int
    output_unit: int
    apply: Callable[[Buffer], Any]

    def of(self, source: Source, nbytes: int | None = None) -> Transformed:
        """The transformed `source`; its size in bytes must be given if it does not follow from the units."""
        if nbytes is None:
            assert self.output_unit, f"the size of {self.name} is not known from its input"
            nbytes = -(-source.nbytes * self.output_unit // self.input_unit)
        return Transformed(source, self, nbytes)


@dataclass(frozen=True, slots=True)
class _Varints(Transform):
    """The transform of varints, whose units are unknown; `width` is that of an element, in bytes."""

    width: int

    def of(self, source: Source, nbytes: int | None = None) -> Transformed:
        """The elements of `source`, `nbytes` in all; of a long one, any range can be read."""
        if nbytes is None or source.nbytes < BLOCK_BYTES:
            return Transform.of(self, source, nbytes)
        return Varints.of(source, self, nbytes, self.width)


@cache
def cast(from_dtype: str, to_dtype: str) -> Transform:
    """Elements converted to another type as numpy does it: rounded to nearest; too large values become infinite."""
    return _elementwise("cast", from_dtype, to_dtype, _cast)


@cache
def clamp(from_dtype: str, to_dtype: str) -> Transform:
    """Integers converted to a narrower type; what does not fit becomes the nearest value that does."""
    return _elementwise("clamp", from_dtype, to_dtype, _clamp)


@cache
def varints(to_dtype: str) -> Transform:
    """Packed protobuf varints as elements of fixed width: the low bits of each value are the element.

    Raises: WireError, when applied, if a varint has no end or more than 10 bytes.

    Spec: protobuf, Encoding, Base 128 Varints; onnx.proto, `TensorProto.int32_data`.
    """
    dtype = _storage(to_dtype)
    return _Varints(f"varints to {to_dtype}", 0, 0, partial(decode_varints, dtype=dtype), dtype.itemsize)


@cache
def pack(bits: int) -> Transform:
    """Elements of 2, 4 or 6 bits, one in the low bits of each byte, packed without gaps, the first one lowest.

    Spec: onnx.proto, `TensorProto.raw_data`.
    """
    elements, packed = _group(bits)
    return Transform(f"pack {bits} bits", elements, packed, partial(_pack, bits=bits))


def unpack(data: Buffer, bits: int, count: int) -> Array:
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
    """The least and the greatest element, as Python numbers; not-a-number is ignored, and no elements give (0, 0).

    Reads a block at a time.
    """
    width = _storage(dtype).itemsize
    usable = source.nbytes // width * width
    block = BLOCK_BYTES if source.granule_bytes else usable
    least: list[Any] = []
    greatest: list[Any] = []
    buffer = memoryview(bytearray(min(block, usable)))
    for offset in range(0, usable, max(block, 1)):
        data = buffer[: min(block, usable - offset)]
        source.readinto(offset, data)
        values = _decode(data, dtype)
        least.append(np.fmin.reduce(values))
        greatest.append(np.fmax.reduce(values))
    if not least:
        return 0, 0
    return np.fmin.reduce(least).item(), np.fmax.reduce(greatest).item()


def _storage(dtype: str) -> np.dtype[Any]:
    """The little-endian numpy type in which elements of the type `dtype` are read and written."""
    return np.dtype(STORAGE_NAMES.get(dtype, dtype)).newbyteorder("<")


def _decode(data: Buffer, dtype: str) -> Array:
    """Bytes as an array of numbers."""
    array = np.frombuffer(data, _storage(dtype))
    if dtype == "bfloat16":  # the upper half of a float32
        return (array.astype("<u4") << 16).view("<f4")
    return array != 0 if dtype == "bool" else array


def _elementwise(
    name: str, from_dtype: str, to_dtype: str, function: Callable[[Array, np.dtype[Any]], Array]
) -> Transform:
    source, target = _storage(from_dtype), _storage(to_dtype)
    apply = partial(_each, from_dtype=from_dtype, target=target, function=function)
    return Transform(f"{name} {from_dtype} to {to_dtype}", source.itemsize, target.itemsize, apply)


def _each(
    data: Buffer, from_dtype: str, target: np.dtype[Any], function: Callable[[Array, np.dtype[Any]], Array]
) -> Array:
    return function(_decode(data, from_dtype), target).view(np.uint8)


@cache
def _halves() -> Array:
    """The float32 for each float16, by its bits."""
    return np.arange(1 << 16, dtype="<u2").view("<f2").astype("<f4")


def _cast(array: Array, target: np.dtype[Any]) -> Array:
    if (array.dtype.name, target.name) == ("float16", "float32") and len(array) >= 1 << 16:
        # Faster than the conversion, eight times for numbers near zero. No value must be clipped or checked.
        return _halves().take(array.view("<u2"), mode="clip")
    with np.errstate(over="ignore"):
        return array.astype(target)


def _clamp(array: Array, target: np.dtype[Any]) -> Array:
    limits, own = np.iinfo(target), np.iinfo(array.dtype)
    return array.clip(max(limits.min, own.min), min(limits.max, own.max)).astype(target)


def _group(bits: int) -> tuple[int, int]:
    """How many elements fill how many bytes without a rest."""
    assert bits in (2, 4, 6), f"elements have 2, 4 or 6 bits, not {bits}"
    return (4, 3) if bits == 6 else (8 // bits, 1)


def _pack(data: Buffer, bits: int) -> Array:
    elements, packed = _group(bits)
    groups = -(-len(data) // elements)
    padded = np.zeros((groups, elements), np.uint8)
    padded.reshape(-1)[: len(data)] = np.frombuffer(data, np.uint8)
    padded &= (1 << bits) - 1
    output = np.zeros((groups, packed), np.uint8)
    for element in range(elements):
        byte, shift = divmod(element * bits, 8)
        output[:, byte] |= padded[:, element] << shift
        if shift + bits > 8:
            output[:, byte + 1] |= padded[:, element] >> (8 - shift)
    return output.reshape(-1)[: (len(data) * bits + 7) // 8]
