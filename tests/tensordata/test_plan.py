"""Plans: pure data, without a disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.tensordata.plan import (
    Align,
    Digest,
    FilePlan,
    LateWrite,
    PlacedWrite,
    WritePlan,
    check_plan,
    lay_out,
)
from formats.tensordata.sources.source import Literal, Source


def rendered(writes: list[PlacedWrite], nbytes: int) -> bytes:
    """Return the content of a file with these writes."""
    buffer = bytearray(nbytes)
    for write in writes:
        buffer[write.file_offset : write.end] = write.source.read()
    return bytes(buffer)


SEGMENTS = st.lists(st.one_of(st.binary(max_size=9), st.binary(max_size=9).map(Literal), st.integers(1, 70).map(Align)))


@given(SEGMENTS, st.integers(0, 100), st.integers(0, 9))
def test_layout_is_the_segments_in_a_row(segments: list[Any], file_offset: int, small_bytes: int) -> None:
    """The writes follow each other without gaps, and alignment counts from the start of the file."""
    expected = bytes(file_offset)
    for segment in segments:
        if isinstance(segment, Align):
            expected += bytes(-len(expected) % segment.alignment)
        else:
            expected += segment.read() if isinstance(segment, Source) else segment
    writes, end = lay_out(segments, file_offset=file_offset, small_bytes=small_bytes)
    assert expected == rendered(writes, end)
    position = file_offset
    for write in writes:
        assert (position, True) == (write.file_offset, write.source.nbytes > 0)
        position = write.end
    assert position == end
    check_plan(WritePlan((FilePlan(Path("model"), end, tuple(writes)),)))


def test_neighbouring_bytes_are_one_write() -> None:
    """Literal bytes are joined, including padding; sources stay unchanged."""
    source = Literal(b"weights")
    writes, end = lay_out([b"ab", b"", Align(4), b"c", source, Align(16), b"", Literal(b""), b"d"])
    assert [(0, b"ab\0\0c"), (5, b"weights"), (12, b"\0\0\0\0d")] == [
        (write.file_offset, write.source.read()) for write in writes
    ]
    assert writes[1].source is source
    assert end == 17


def test_small_sources_are_one_write() -> None:
    """Sources below a size are joined with their neighbours, up to the size of one read; larger ones stay alone."""
    large = Literal(b"weights")
    writes, end = lay_out([b"ab", Literal(b"cd"), Align(8), Literal(b"ef"), large, Literal(b"gh"), b"i"], small_bytes=7)
    assert [(0, b"abcd\0\0\0\0ef"), (10, b"weights"), (17, b"ghi")] == [
        (write.file_offset, write.source.read()) for write in writes
    ]
    assert writes[1].source is large
    assert end == 20
    many = [Literal(bytes(1000))] * 10_000
    sizes = [write.source.nbytes for write in lay_out(many, small_bytes=1001)[0]]
    assert (10_000_000, 1_048_000, 10) == (sum(sizes), max(sizes), len(sizes))


def test_layout_reads_nothing() -> None:
    """Placing a source uses only its size."""

    class Unreadable(Source):
        nbytes = 1 << 50

        def readinto(self, offset: int, buffer: memoryview) -> None:
            raise AssertionError

        def slice(self, offset: int, nbytes: int) -> Source:
            raise AssertionError

        def view(self) -> memoryview:
            raise AssertionError

    writes, end = lay_out([b"x", Unreadable(), Align(4096)])
    assert ([0, 1, (1 << 50) + 1], (1 << 50) + 4096) == ([write.file_offset for write in writes], end)


def render(digests: Any) -> bytes:
    """Do nothing: a plan never calls this."""
    raise AssertionError


def file(*writes: PlacedWrite | LateWrite, nbytes: int = 10, path: str = "model") -> FilePlan:
    """Return a file with these writes."""
    placed = tuple(write for write in writes if isinstance(write, PlacedWrite))
    return FilePlan(Path(path), nbytes, placed, tuple(write for write in writes if isinstance(write, LateWrite)))


AB = Literal(b"ab")
CRC = Digest("key", "crc32")
GOOD = {
    "nothing": WritePlan(()),
    "gaps": WritePlan((file(PlacedWrite(0, AB), LateWrite(4, 2, render), PlacedWrite(8, AB)),)),
    "any order": WritePlan((file(PlacedWrite(8, AB), PlacedWrite(0, AB), LateWrite(2, 6, render)),)),
    "two files": WritePlan((file(PlacedWrite(0, AB)), file(PlacedWrite(0, AB), path="data"))),
    "digests": WritePlan((file(PlacedWrite(0, AB, CRC)),), ((Digest("other", "sha256"), AB),)),
    "empty writes": WritePlan((file(PlacedWrite(0, AB), PlacedWrite(0, Literal(b"")), PlacedWrite(2, Literal(b""))),)),
}
BAD = [
    ("overlap at byte 1", WritePlan((file(PlacedWrite(0, AB), PlacedWrite(1, AB)),))),
    ("overlap at byte 1", WritePlan((file(PlacedWrite(0, AB), LateWrite(1, 1, render)),))),
    ("overlap at byte -1", WritePlan((file(PlacedWrite(-1, AB)),))),
    ("ends at byte 11", WritePlan((file(PlacedWrite(9, AB)),))),
    ("ends at byte 12", WritePlan((file(LateWrite(8, 4, render)),))),
    ("same path", WritePlan((file(), file()))),
    ("same key", WritePlan((file(PlacedWrite(0, AB, CRC)),), ((CRC, AB),))),
    ("same key", WritePlan((file(PlacedWrite(0, AB, CRC), PlacedWrite(2, AB, CRC)),))),
]


@pytest.mark.parametrize("plan", GOOD.values(), ids=GOOD)
def test_good_plans(plan: WritePlan) -> None:
    """A plan whose writes are inside its files and do not overlap is valid."""
    check_plan(plan)


@pytest.mark.parametrize(("reason", "plan"), BAD)
def test_bad_plans(reason: str, plan: WritePlan) -> None:
    """A wrong plan is an error that says what is wrong."""
    with pytest.raises(ValueError, match=reason):
        check_plan(plan)
