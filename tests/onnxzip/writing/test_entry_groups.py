"""Many small entries as one source: the bytes of an archive that is written entry by entry."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from formats.errors import FormatError
from formats.onnxzip import records
from formats.onnxzip.records import Entry
from formats.onnxzip.writing.entry_groups import Checksums, EntryGroup, grouped
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal, Source
from formats.tensordata.sources.transform import varints

SIZES = (3, 1024, 0, 5000, 100)


def placed(*sizes: int) -> list[Entry]:
    """Return entries of these sizes, one after another, not at the start of the file."""
    entries: list[Entry] = []
    for index, size in enumerate(sizes):
        entries.append(records.place(f"w{index}", size, entries[-1].end if entries else 1000, 64))
    return entries


@pytest.fixture
def payloads(tmp_path: Path) -> tuple[Source, ...]:
    """Return payloads in a file and in memory, alternately."""
    (tmp_path / "w").write_bytes(bytes(index % 251 for index in range(sum(SIZES))))
    span = File.open(tmp_path / "w").span()
    starts = [sum(SIZES[:index]) for index in range(len(SIZES))]
    spans = [span.slice(start, size) for start, size in zip(starts, SIZES, strict=True)]
    return tuple(Literal(span.read()) if index % 2 else span for index, span in enumerate(spans))


def test_bytes_and_checksums(payloads: tuple[Source, ...]) -> None:
    """Headers with the right checksums precede the payloads in every way to read them; the digest has them, too."""
    entries = placed(*SIZES)
    members = EntryGroup(tuple(entries), payloads)
    crcs = [zlib.crc32(payload.read()) for payload in payloads]
    expected = b"".join(
        records.local_header(entry._replace(crc32=crc)) + payload.read()
        for entry, crc, payload in zip(entries, crcs, payloads, strict=True)
    )
    assert expected == members.read() == bytes(members.view()) == members.slice(0, members.nbytes).read()
    assert expected[70:1500] == members.read(70, 1430) == members.slice(70, 1430).read()
    assert members.granule_bytes == 0
    assert len(set(members.files())) == 1
    digester = Checksums(tuple(entries))
    digester.update(1000, memoryview(expected))
    assert b"".join(crc.to_bytes(4, "big") for crc in crcs) == digester.digest()


def test_error_names_the_entry() -> None:
    """A payload that cannot be computed is an error with the name of its entry."""
    broken = varints("int32").of(Literal(b"\xff"), 4)
    with pytest.raises(FormatError) as caught:
        EntryGroup(tuple(placed(4, 4, 4)), (Literal(b"1234"), broken, Literal(b"1234"))).read()
    assert caught.value.where == "w1"


def test_groups() -> None:
    """Small neighbours are grouped, up to a limit; large entries are alone, and none is missing."""
    sizes = [10, 20, 1 << 20, 30, 1 << 16, *[60_000] * 40]
    entries = placed(*sizes)
    groups = list(grouped(entries, 0, len(entries)))
    assert [*range(len(entries))] == [index for begin, end in groups for index in range(begin, end)]
    assert [2, 1, 1, 1] == [end - begin for begin, end in groups][:4]
    assert all(entries[end - 1].end - entries[begin].file_offset <= 1 << 20 for begin, end in groups[4:])
    assert len(groups) < 10
    assert [(3, 4), (4, 5)] == list(grouped(entries, 3, 5))
    assert [] == list(grouped([], 0, 0)) == list(grouped(entries, 2, 2))
