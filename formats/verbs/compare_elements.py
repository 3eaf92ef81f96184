"""How the elements of two tensors differ: in how many places, the first of these, and the largest difference."""

from __future__ import annotations

from functools import cache
from math import inf, isnan
from typing import TYPE_CHECKING, Any, TypeAlias

from formats.errors import FormatError
from formats.ir import dtypes
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    import numpy as np

    from formats.ir.dtypes import DataType
    from formats.ir.model import Tensor
    from formats.tensordata.sources.source import Source

    Array: TypeAlias = np.ndarray[Any, Any]

# The number of bytes that are compared at a time: whole elements of any size, and few enough for a second-level cache,
# together with the other tensor's bytes and the temporary results.
BLOCK_BYTES = 3 << 16
FRACTIONS = 1 << 23  # of a float32; the bits above are its exponent and its sign


def compare_elements(first: Tensor, second: Tensor) -> tuple[str, float | None]:
    """How the elements of two tensors of one type and shape differ, "" if they do not, and the largest difference."""
    if first.string_data or second.string_data:
        return "" if first.string_data == second.string_data else "the strings differ", None
    mine, theirs = _elements(first), _elements(second)
    if isinstance(mine, str) or isinstance(theirs, str):  # the reason why they cannot be read
        wrong = mine if isinstance(mine, str) else theirs
        return "" if mine == theirs else f"one has elements that cannot be read: {wrong}", None
    if mine == theirs:
        return "", None
    return _describe_elements(mine, theirs, dtypes.BY_NUMBER[first.data_type or 0], dtypes.count(first.dims))


def _elements(tensor: Tensor) -> Source | str:
    """The elements in raw form, or why they cannot be read."""
    try:
        return tensor.source()
    except FormatError as error:
        return error.message


def _describe_elements(first: Source, second: Source, row: DataType, elements: int) -> tuple[str, float | None]:
    """Where two sources of the same size differ, in how many elements, and the largest difference; "" if nowhere.

    One thread compares all blocks: two that take turns at Python's lock after each block are slower for most types.
    """
    import numpy

    first, second = (side if side.granule_bytes else Literal(side.read()) for side in (first, second))
    unit = row.bits // 8 or 1
    word = numpy.dtype(f"<u{min(unit, 8)}")
    most = size = min(BLOCK_BYTES, first.nbytes)
    buffers = bytearray(size), bytearray(size)
    largest: _Largest | None = None  # made for the first block that differs, as is what it needs
    count = place = 0
    with numpy.errstate(invalid="ignore", over="ignore"):
        for offset in range(0, first.nbytes, BLOCK_BYTES):
            if first.nbytes - offset < size:
                size = first.nbytes - offset
                buffers = bytearray(size), bytearray(size)
            first.readinto(offset, memoryview(buffers[0]))
            second.readinto(offset, memoryview(buffers[1]))
            if buffers[0] == buffers[1]:
                continue
            mine, theirs = (numpy.frombuffer(buffer, word) for buffer in buffers)
            unlike = mine != theirs
            if unit > word.itemsize:
                unlike = unlike.reshape(-1, unit // word.itemsize).any(axis=1)
            if largest is None:
                largest = _Largest(row, most)
                place = offset // unit + int(unlike.argmax())
            count += int(numpy.count_nonzero(unlike))
            largest.add(mine, theirs)
    if largest is None:
        return "", None
    detail = f"{count} of {elements} elements differ, the first is element {place}"
    if row.bits < 8:
        detail = f"{count} of {first.nbytes} bytes of packed elements differ, the first is byte {place}"
    return f"{detail}; the largest difference is {largest.value:.6g}", largest.value


class _Largest:
    """The largest difference of elements, in float64; infinite if two elements differ so, or if only one is NaN.

    If a float32 can express all elements, the differences are first rounded to float32. This keeps their order: only a
    block whose largest difference is not less than that of all earlier blocks can contain the largest in float64.
    """

    def __init__(self, row: DataType, nbytes: int) -> None:
        """Prepare for elements of a type, in blocks of at most `nbytes`."""
        import numpy

        self.value = 0.0
        self._row = row
        self._rounded = 0.0
        elements = nbytes * 8 // row.bits
        is_exact = row.kind != "f" and row.bits <= 16  # in float32
        self._apart = numpy.empty(elements, "f4" if is_exact else "c16" if row.kind == "c" else "f8")
        self._nearly_apart = numpy.empty(elements, "f4") if row.kind == "f" and row.bits <= 32 else None
        self._widened = [numpy.empty(elements, "f4") for _ in range(2)] if row.bits <= 16 else [None, None]

    def add(self, first: Array, second: Array) -> None:
        """Include the elements of a block."""
        if self.value == inf:
            return
        mine, theirs = map(self._numbers, (first, second), self._widened)
        if self._nearly_apart is not None:
            rounded = _largest_difference(mine, theirs, self._nearly_apart)
            if rounded < self._rounded or not rounded:
                return
            self._rounded = rounded
            if _have_same_exponents(mine, theirs, self._nearly_apart):
                self.value = max(self.value, rounded)
                return
        self.value = max(self.value, _largest_difference(mine, theirs, self._apart))

    def _numbers(self, data: Array, widened: Array | None) -> Array:
        """The elements as numbers; narrow ones are written to `widened`."""
        from formats.tensordata.sources.transform import cast, unpack

        row = self._row
        if widened is None:
            return data.view(dtypes.numpy_dtype(row.number))
        if row.bits < 8:
            data = unpack(data.data, row.bits, len(data) * 8 // row.bits)
        elif row.number in (dtypes.FLOAT16, dtypes.BFLOAT16) or row.kind in "iu":
            return cast(row.numpy_name, "float32").apply(data.data).view("<f4")  # type: ignore[no-any-return]
        return _table(row.number).take(data, mode="clip", out=widened[: len(data)])


@cache
def _table(number: int) -> Array:
    """The float32 for each element of a narrow type, by its bits."""
    import numpy

    unit = dtypes.BY_NUMBER[number].bits // 8 or 1
    return numpy.arange(1 << 8 * unit).astype(f"<u{unit}").view(dtypes.numpy_dtype(number)).astype("f4")


def _have_same_exponents(first: Array, second: Array, scratch: Array) -> bool:
    """Whether all pairs of float32 have the same sign and exponent: then no difference is rounded."""
    import numpy

    unlike = numpy.bitwise_xor(first.view("u4"), second.view("u4"), out=scratch.view("u4")[: len(first)])
    return bool(unlike.max() < FRACTIONS)


def _largest_difference(first: Array, second: Array, apart: Array) -> float:
    """The largest difference of two arrays of numbers, computed in the array `apart` with its type."""
    import numpy

    apart = numpy.subtract(first, second, out=apart[: len(first)], dtype=apart.dtype, casting="unsafe")
    apart = numpy.abs(apart, out=None if apart.dtype.kind == "c" else apart)
    if not isnan(largest := float(apart.max(initial=0.0))):
        return largest
    same = (first == second) | (numpy.isnan(first) & numpy.isnan(second))
    apart[same] = 0.0  # neither is a number, or both are equally infinite
    return float(numpy.where(numpy.isnan(apart), inf, apart).max(initial=0.0))
