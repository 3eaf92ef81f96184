"""Reads a field of many tables at once, with numpy; `fbs.py` reads the fields of one table after the other.

An error here does not say what is wrong with a buffer, or where. It says that the tables must be read one by one, which
finds that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from formats.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

MAX_GROUPS = 64  # of tables by vtable, or by member of a union: for each of them, all others are searched


class Columns:
    """The numbers, vectors and strings of a buffer. Arrays of positions are in bytes from its start."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self._numbers: dict[str, Array] = {}  # the whole buffer as numbers of each format

    def numbers(self, code: str, at: Array) -> Array:
        """The number of a format at each position, after a check that it is aligned and in the buffer."""
        array = self._numbers.get(code)
        if array is None:
            dtype = np.dtype("u1" if code == "?" else f"<{code}")
            array = self._numbers[code] = np.frombuffer(self._data, dtype, len(self._data) // dtype.itemsize)
        shift = array.itemsize.bit_length() - 1
        check(not (at & (array.itemsize - 1)).any())
        indices = at >> shift if shift else at
        check(not indices.size or int(indices.max()) < array.size)
        return array[indices] != 0 if code == "?" else array[indices]

    def targets(self, at: Array) -> Array:
        """Where the offsets at these positions lead to."""
        return at + self.numbers("I", at)

    def vtables(self, positions: Array) -> Array:
        """The positions of the vtables of the tables at these positions."""
        return positions - self.numbers("i", positions)

    def check_end(self, ends: Array) -> None:
        """Check that these positions are in the buffer, or at its end."""
        check(int(ends.max()) <= len(self._data))

    def vectors(self, positions: Array, size: int) -> tuple[Array, Array]:
        """The starts of the elements of vectors, and their numbers; each element has `size` bytes."""
        counts = self.numbers("I", positions).astype(np.int64)
        starts = positions + 4
        self.check_end(starts + counts * size)
        check(size < 8 or not (starts[counts > 0] % 8).any())
        return starts, counts

    def strings(self, starts: Array, counts: Array) -> list[str]:
        """The strings that begin there and have so many bytes, after a check that a NUL follows."""
        ends = starts + counts
        check(not self.numbers("B", ends).any())
        data = self._data
        try:
            return [str(data[start:end], "utf-8") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        except UnicodeDecodeError as error:
            raise DecodeError("a string is not valid UTF-8") from error

    def scalars(self, code: str, starts: Array, counts: Array) -> list[tuple[Any, ...]]:
        """The elements of vectors of scalars."""
        numbers = self.numbers(code, elements(starts, counts, np.dtype(code).itemsize))
        return parts(tuple(numbers.tolist()), counts)


def check(condition: bool) -> None:
    """Raises DecodeError if the condition is false."""
    if not condition:
        raise DecodeError("the tables must be read one by one")


def offsets(start: int, count: int) -> Array:
    """The positions of the offsets in a vector."""
    return np.arange(start, start + 4 * count, 4)


def elements(starts: Array, counts: Array, size: int) -> Array:
    """The positions of the elements of vectors, those of the first vector first."""
    ends = np.cumsum(counts)
    return np.repeat(starts - (ends - counts) * size, counts) + size * np.arange(int(counts.sum()))


def parts(flat: Any, counts: Array) -> list[Any]:
    """A list or tuple, cut into parts with these lengths."""
    ends = np.cumsum(counts)
    return [flat[start:end] for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True)]


def groups(numbers: Array) -> Iterator[tuple[int, Array]]:
    """The different numbers, each with the places where it is, after a check that there are few."""
    left = np.arange(numbers.size)
    for _ in range(MAX_GROUPS):
        if not left.size:
            return
        first = numbers[left[0]]
        is_first = numbers[left] == first
        yield int(first), left[is_first]
        left = left[~is_first]
    check(not left.size)


def joined(found: Sequence[tuple[Array, list[Any]]]) -> list[Any]:
    """The values of all groups, each at its place."""
    if len(found) == 1:
        return found[0][1]
    values: list[Any] = [None] * sum(len(group) for _, group in found)
    for places, group in found:
        for place, value in zip(places.tolist(), group, strict=True):
            values[place] = value
    return values
