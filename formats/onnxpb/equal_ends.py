"""Which fields at the start and at the end of two runs of fields are the same bytes.

Where two long lists differ in few elements, only what is between these ends has to be decoded to tell how they differ.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from formats.onnxpb.wire import ends_of_fields


class EqualEnds(NamedTuple):
    """The equal fields at the start and at the end: how many they are, and how many bytes they take."""

    first_count: int
    first_nbytes: int
    last_count: int
    last_nbytes: int


def equal_ends(mine: bytes, theirs: bytes) -> EqualEnds:
    """The equal fields at both ends of two runs of whole fields, which all have a length; none is counted twice."""
    most = min(len(mine), len(theirs))
    stops = ends_of_fields(mine, 0)
    first_count = bisect_right(stops, _equal_nbytes(mine, theirs, most, at_end=False))
    first_nbytes = stops[first_count - 1] if first_count else 0
    shared = _equal_nbytes(mine, theirs, most - first_nbytes, at_end=True)
    # These bytes can begin inside a field, so both runs have to be looked at for a place where one begins.
    sizes = [_sizes_of_ends([first_nbytes, *stops[first_count:]], shared)]
    sizes.append(_sizes_of_ends([first_nbytes, *ends_of_fields(theirs, first_nbytes)], shared))
    last_nbytes = max(sizes[0] & sizes[1])
    return EqualEnds(first_count, first_nbytes, sum(0 < size <= last_nbytes for size in sizes[0]), last_nbytes)


def _sizes_of_ends(places: list[int], most: int) -> set[int]:
    """How many bytes there are from each of some places to the last of them, up to `most`."""
    return {places[-1] - place for place in places if places[-1] - place <= most}


def _equal_nbytes(mine: bytes, theirs: bytes, most: int, *, at_end: bool) -> int:
    """How many bytes are equal at the start or `at_end`, up to `most`."""

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
