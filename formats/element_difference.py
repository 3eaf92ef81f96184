"""How the elements of two tensors differ: in how many places, the first of these, and by how much at most."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError
from formats.ir import dtypes

if TYPE_CHECKING:
    import numpy as np

    from formats.ir.dtypes import DataType
    from formats.ir.model import Tensor
    from formats.tensordata.source import Source

# The bytes of elements that are compared at a time: a whole number of elements of any size, and so few that numpy gets
# the memory for the next block from the last one, and not from the system.
BLOCK_BYTES = 3 << 13


def compare_elements(first: Tensor, second: Tensor) -> tuple[str, float | None]:
    """How the elements of two tensors of one type and shape differ, "" where they don't, and by how much at most."""
    if first.string_data or second.string_data:
        return "" if first.string_data == second.string_data else "the strings differ", None
    mine, theirs = _elements(first), _elements(second)
    if isinstance(mine, str) or isinstance(theirs, str):  # what is wrong with them
        wrong = mine if isinstance(mine, str) else theirs
        return "" if mine == theirs else f"one has elements that cannot be read: {wrong}", None
    if mine == theirs:
        return "", None
    return _describe_elements(mine, theirs, dtypes.BY_NUMBER[first.data_type or 0], dtypes.count(first.dims))


def _elements(tensor: Tensor) -> Source | str:
    """The elements in raw form, or why there are none."""
    try:
        return tensor.source()
    except FormatError as error:
        return error.message


def _describe_elements(first: Source, second: Source, row: DataType, elements: int) -> tuple[str, float]:
    """Where two sources of the same size differ, in how many elements, and by how much at most."""
    import numpy

    unit = row.bits // 8 or 1
    bits = numpy.dtype(f"u{unit}") if unit <= 8 else numpy.dtype(("u8", unit // 8))
    count, place, largest = 0, -1, 0.0
    for start in range(0, first.nbytes, BLOCK_BYTES):
        size = min(BLOCK_BYTES, first.nbytes - start)
        mine, theirs = (numpy.frombuffer(side.read(start, size), bits) for side in (first, second))
        unlike = mine != theirs
        if unlike.ndim > 1:
            unlike = unlike.any(axis=1)
        found = int(numpy.count_nonzero(unlike))
        if not found:
            continue
        if place < 0:
            place = start // unit + int(unlike.argmax())
        count += found
        if row.bits != 6 and found < len(unlike):  # of the others, four are in three bytes
            mine, theirs = mine[unlike], theirs[unlike]
        largest = max(largest, _largest_difference(_bytes(mine), _bytes(theirs), row))
    detail = f"{count} of {elements} elements differ, the first is element {place}"
    if row.bits < 8:
        detail = f"{count} of {first.nbytes} bytes of packed elements differ, the first is byte {place}"
    return f"{detail}; the largest difference is {largest:.6g}", largest


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.reshape(-1).view("u1")


def _largest_difference(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any], row: DataType) -> float:
    """The largest difference of elements in raw form; infinite if it is so for two, or only one is not-a-number."""
    import numpy

    from formats.tensordata.transform import unpack

    def numbers(side: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        raw = unpack(side.tobytes(), row.bits, len(side) * 8 // row.bits) if row.bits < 8 else side
        array = raw.view(dtypes.numpy_dtype(row.number))
        return array.astype("complex128" if array.dtype.kind == "c" else "float64")

    with numpy.errstate(invalid="ignore", over="ignore"):
        mine, theirs = numbers(first), numbers(second)
        apart = numpy.abs(mine - theirs)
        if not numpy.isnan(largest := apart.max(initial=0.0)):  # no number is, and no two are equally infinite
            return float(largest)
        same = (mine == theirs) | (numpy.isnan(mine) & numpy.isnan(theirs))
        apart[same] = 0.0
        return float(numpy.where(numpy.isnan(apart), inf, apart).max(initial=0.0))
