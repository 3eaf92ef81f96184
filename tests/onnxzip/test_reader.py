"""Archives that are refused, each with the most similar valid one, and the effects of damage."""

from __future__ import annotations

import io
import struct
import subprocess
import zipfile
from functools import cache
from pathlib import Path

import pytest

from formats import onnxzip
from formats.codecs.contract import Match, ReadOptions
from formats.errors import DecodeError, FormatError
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxzip import graph, reader, records
from formats.tensordata.sources.source import Concat, Literal, Source
from tests.onnxzip.archives import (
    DATA,
    MAX_16,
    MAX_32,
    PLAIN,
    TENSOR,
    Member,
    Zeros,
    Zip,
    bytes_of,
    model,
    padded,
    proto,
    weight,
)
from tests.onnxzip.vector_rows.large import LARGE_ROWS, LargeRow, Part
from tests.onnxzip.vector_rows.row import Row
from tests.onnxzip.vector_rows.rows import ROWS
from tests.programs import need


@pytest.mark.sample(3)
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.requirement} {row.name}" for row in ROWS])
def test_requirement(row: Row) -> None:
    """An archive that breaks a requirement is refused with its number and the reason; a similar one is accepted."""
    for read in (onnxzip.check, lambda source: onnxzip.CODEC.read(source, None)):
        if row.refused is not None:
            with pytest.raises(FormatError, match=row.reason) as caught:
                read(Literal(bytes_of(row.refused)))
            assert (row.breaks or row.requirement) == caught.value.requirement
    if row.taken is not None:
        source = Literal(bytes_of(row.taken))
        onnxzip.check(source)
        if row.is_model:
            last = ReadOptions(model=onnxzip.CODEC.bundle(source).models[-1])
            assert onnxzip.CODEC.read(source, None, last).graph is not None
        else:
            with pytest.raises(DecodeError) as caught:
                onnxzip.CODEC.read(source, None)
            assert caught.value.requirement is None


class Unread(Source):
    """Bytes that are read in pieces, like those of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.nbytes = len(data)

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy a range."""
        buffer[:] = self.data[offset : offset + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Unread:
        """Return a range."""
        return Unread(self.data[offset : offset + nbytes])


@pytest.mark.parametrize("window_bytes", [20, 29, 64])  # at least a tag and a length
def test_graphs_of_any_size_have_the_same_verdict(window_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that is too large to be read at once is examined in pieces, with the same result."""
    monkeypatch.setattr(decoder, "WHOLE_BYTES", 2)
    monkeypatch.setattr(decoder, "WINDOW_BYTES", window_bytes)
    for row in ROWS:
        if row.requirement >= "Z-6":
            if row.refused is not None:
                with pytest.raises(FormatError) as caught:
                    onnxzip.check(Unread(bytes_of(row.refused)))
                assert caught.value.requirement
            if row.taken is not None:
                onnxzip.check(Unread(bytes_of(row.taken)))


def test_messages_that_are_entered_are_those_with_tensors_in_them() -> None:
    """The table of the format has every path to a tensor that ONNX has today."""
    ways = {"TensorProto"}
    while (
        more := {name for name, fields in MESSAGES.items() if any(field.type_name in ways for field in fields)} - ways
    ):
        ways |= more
    expected: dict[str, tuple[int, ...]] = {}
    names = ["ModelProto"]
    for name in names:  # the list grows
        inner = [field for field in MESSAGES[name] if field.type_name in ways]
        if name != "TensorProto":
            expected[name] = tuple(field.number for field in inner)
        names += [field.type_name for field in inner if field.type_name not in names]
    values = {"TensorProto": (1, 2, 14), "StringStringEntryProto": (1, 2)}
    assert {**expected, **values} == graph.READ_FIELDS


@cache
def of_parts(parts: tuple[Part, ...]) -> Source:
    """Return a large archive."""
    return Concat.of(*(Zeros(part.zeros) if part.zeros else Literal(part.made()) for part in parts))


@cache
def check_once(parts: tuple[Part, ...]) -> None:
    """Check an archive with which several rows compare theirs."""
    onnxzip.check(of_parts(parts))


@pytest.mark.outer
@pytest.mark.parametrize("row", LARGE_ROWS, ids=[f"{row.requirement} {row.name}" for row in LARGE_ROWS])
def test_requirement_of_large_archives(row: LargeRow) -> None:
    """Requirements about archives that need zip64 for their number of entries or bytes are checked, too."""
    if row.refused is not None:
        with pytest.raises(FormatError, match=row.reason) as caught:
            onnxzip.check(of_parts(tuple(row.refused)))
        assert (row.breaks or row.requirement) == caught.value.requirement
    if row.taken is not None:
        check_once(tuple(row.taken))


def test_hostile_count_is_refused_before_the_directory_is_read() -> None:
    """A number of entries that cannot fit in the file is refused at once."""
    entries = 1 << 40
    size, offset = entries * 46, 0
    data = b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, entries, entries, size, offset)
    data += b"PK\6\7" + struct.pack("<IQI", 0, 0, 1)
    data += b"PK\5\6" + struct.pack("<4H2IH", 0, 0, MAX_16, MAX_16, MAX_32, 0, 0)
    with pytest.raises(DecodeError, match="the directory ends at byte"):
        reader.read_entries(Literal(data))


def test_directory_too_large_for_its_entries_is_refused() -> None:
    """A directory with more bytes than its entries can have is refused before it is read."""
    data = PLAIN.but(end={"on_disk": 0, "entries": 0}).bytes()
    with pytest.raises(DecodeError, match="0 entries need 0 to 0"):
        reader.read_entries(Literal(data))


def test_directory_that_ends_in_a_name_is_refused() -> None:
    """A last entry whose name is shorter than its length says is refused."""
    data = Zip([Member(b"__MODEL_PROTO", central={"name_length": 14})]).bytes()
    with pytest.raises(DecodeError, match="ends inside the entry of __MODEL_PROTO"):
        reader.read_entries(Literal(data))


def test_first_wrong_entry_of_the_directory_is_named() -> None:
    """Names are checked for the whole list, but the error is that of the first wrong entry."""
    wrong_name, wrong_field = Member(b"a.b", central={"size": 0, "packed": 0}), Member(b"c", central={"flags": 1})
    for members, requirement in (([wrong_name, wrong_field], "Z-4.2"), ([wrong_field, wrong_name], "Z-3.3")):
        data = Zip([padded(weight()), *members, padded(proto())]).bytes()
        with pytest.raises(DecodeError) as caught:
            reader.read_entries(Literal(data))
        assert requirement == caught.value.requirement


@pytest.mark.parametrize("alignment", [4, 64, 4096])
@pytest.mark.parametrize("nbytes", [1, 1024, 5000])
def test_long_list_is_read_as_written(alignment: int, nbytes: int) -> None:
    """The headers of many entries are read in pieces, wherever each begins, and the check of none is missed."""
    made: list[records.Entry] = []
    for index in range(300):
        made.append(records.place(f"weight_{index}", nbytes, made[-1].end if made else 0, alignment))
    made.append(records.place("__MODEL_PROTO", 1, made[-1].end, alignment))
    data = bytearray(b"".join(records.local_header(entry) + bytes(entry.nbytes) for entry in made))
    data += records.directory(made)
    assert made == reader.read_entries(Literal(bytes(data)))
    data[made[200].file_offset + 14] ^= 1  # the CRC-32 in the header
    with pytest.raises(DecodeError, match="crc32 of entry weight_200") as caught:
        reader.read_entries(Literal(bytes(data)))
    assert caught.value.requirement == "Z-3.2"


@pytest.mark.parametrize("nbytes", [0, 1, 21])
def test_files_shorter_than_an_end_record_are_refused(nbytes: int) -> None:
    """A file that is too short for an end record is a DecodeError."""
    with pytest.raises(DecodeError, match="needed 22 bytes for the end record"):
        reader.read_entries(Literal(bytes(nbytes)))


def test_hand_made_archives_are_taken(tmp_path: Path) -> None:
    """If the tool `zip` packs the files of an archive with `-0 -X`, the result is an unaligned archive."""
    need("zip")
    for name, data in (("w", DATA), ("__MODEL_PROTO", model(TENSOR))):
        (tmp_path / name).write_bytes(data)
    subprocess.run(["zip", "-q", "-0", "-X", "m.onnxz", "w", "__MODEL_PROTO"], cwd=tmp_path, check=True)
    found = onnxzip.CODEC.read(Literal((tmp_path / "m.onnxz").read_bytes()), None)
    assert found.graph is not None
    assert Literal(DATA) == found.graph.initializer[0].raw_data


def test_archives_of_zipfile_are_taken() -> None:
    """With its defaults, `zipfile` writes an archive if names and order are right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("w", DATA)
        archive.writestr("__MODEL_PROTO", model(TENSOR))
    assert onnxzip.CODEC.read(Literal(buffer.getvalue()), None).graph is not None


@pytest.fixture(scope="module")
def small() -> bytes:
    """Return a small archive with two entries and padding."""
    return Zip([padded(weight()), padded(proto())]).bytes()


def test_every_truncation_is_refused(small: bytes) -> None:
    """A file that is truncated anywhere is a FormatError."""
    for nbytes in range(len(small)):
        with pytest.raises(FormatError):
            onnxzip.CODEC.read(Literal(small[:nbytes]), None)


def test_every_wrong_byte_outside_payloads_is_refused_or_harmless(small: bytes) -> None:
    """A changed byte in a header, the directory or an end record is a FormatError or leaves the model the same."""
    expected = onnxzip.CODEC.read(Literal(small), None)
    entries = reader.read_entries(Literal(small))
    payloads = {position for entry in entries for position in range(entry.payload_offset, entry.end)}
    harmless = set()
    for position in set(range(len(small))) - payloads:
        for change in (0x01, 0x80, 0xFF):
            data = bytearray(small)
            data[position] ^= change
            try:
                assert expected == onnxzip.CODEC.read(Literal(bytes(data)), None)
                harmless.add(position)
            except FormatError:
                pass
    start = entries[-1].end
    free = {4, 5, *range(36, 42)}  # made by, internal and external attributes
    assert harmless <= {base + at for base in (start, start + 46 + len("w")) for at in free}


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (Zip([padded(weight())]).bytes(), Match.STRONG),
        (Zip([weight()]).bytes(), Match.WEAK),
        (Zip([padded(weight(b"w.txt"))]).bytes(), Match.WEAK),
        (Zip([padded(weight())]).bytes()[:32], Match.WEAK),
        (Zip([]).bytes(), Match.WEAK),
        (b"PK\3\4", Match.WEAK),
        (b"PK\3", Match.NONE),
        (b"", Match.NONE),
        (b"\x08\x0a", Match.NONE),
    ],
)
def test_sniff(head: bytes, match: Match) -> None:
    """Our padding shows that a file is an archive; any other zip file might be one."""
    assert match is onnxzip.CODEC.sniff(head, len(head))
