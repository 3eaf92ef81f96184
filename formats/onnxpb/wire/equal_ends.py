"""The fields that are the same bytes at the start and at the end of two sequences of fields.

If two long lists differ in few elements, only the elements between these ends must be decoded to find the differences.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from formats.onnxpb.wire.varints import ends_of_fields


class EqualEnds(NamedTuple):
    """The equal fields at the start and at the end: their number, and their size in bytes."""

    first_count: int
    first_nbytes: int
    last_count: int
    last_nbytes: int


def equal_ends(mine: bytes, theirs: bytes) -> EqualEnds:
    """The equal fields at both ends of two sequences of whole fields, which all have a length; each counts once."""
    most = min(len(mine), len(theirs))
    stops = ends_of_fields(mine, 0)
    first_count = bisect_right(stops, _equal_nbytes(mine, theirs, most, at_end=False))
    first_nbytes = stops[first_count - 1] if first_count else 0
    shared = _equal_nbytes(mine, theirs, most - first_nbytes, at_end=True)
    # These bytes can begin inside a field, so both sequences are searched for a place where a field begins.
    sizes = [_sizes_of_ends([first_nbytes, *stops[first_count:]], shared)]
    sizes.append(_sizes_of_ends([first_nbytes, *ends_of_fields(theirs, first_nbytes)], shared))
    last_nbytes = max(sizes[0] & sizes[1])
    return EqualEnds(first_count, first_nbytes, sum(0 < size <= last_nbytes for size in sizes[0]), last_nbytes)


def _sizes_of_ends(places: list[int], most: int) -> set[int]:
    """The number of bytes from each of some places to the last of them, up to `most`."""
    return {places[-1] - place for place in places if places[-1] - place <= most}


def _equal_nbytes(mine: bytes, theirs: bytes, most: int, *, at_end: bool) -> int:
    """The number of equal bytes at the start or `at_end`, up to `most`."""

    def are_equal(start: int, stop: int) -> bool:
        if at_end:
            return mine[len(mine) - stop : len(mine) - start] == theirs[len(theirs) - stop : len(theirs) - start]
        return mine[start:stop] == theirs[start:stop]

    if are_equal(0, most):
        return most
    equal, different = 0, most
    while different - equal > 1:
        middle = (equal + different) // 2
        if are_equal(equal, middle):
            equal = middle
        else:
            different = middle
    return equal
