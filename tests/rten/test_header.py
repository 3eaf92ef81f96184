"""The header of version 2 files, and how files of version 1 are distinguished from others."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from formats.errors import DecodeError, FormatError, LimitError, TruncatedError
from formats.rten.header import HEADER_NBYTES, Header, decode_header, encode_header, is_plausible_v1, is_v2
from tests.rten.rten_forms import build

# (header, its bytes, the smallest file that it fits)
CASES = [
    (Header(32, 0, 32), b"RTEN" + struct.pack("<IQQQ", 2, 32, 0, 32), 32),
    (Header(32, 100, 192), b"RTEN" + struct.pack("<IQQQ", 2, 32, 100, 192), 192),
    (Header(4096, 8, 32), b"RTEN" + struct.pack("<IQQQ", 2, 4096, 8, 32), 4104),
    (Header(33, 1 << 40, 1 << 41), b"RTEN" + struct.pack("<IQQQ", 2, 33, 1 << 40, 1 << 41), 1 << 41),
]


@pytest.mark.parametrize(("header", "data", "file_nbytes"), CASES)
def test_encode(header: Header, data: bytes, file_nbytes: int) -> None:
    """A header has 32 bytes, and begins like every version 2 file."""
    assert encode_header(header) == data
    assert is_v2(data)
    assert len(data) == HEADER_NBYTES


@pytest.mark.parametrize(("header", "data", "file_nbytes"), CASES)
def test_decode(header: Header, data: bytes, file_nbytes: int) -> None:
    """Sections may be in any order and with gaps, if they are inside the file."""
    assert decode_header(data, file_nbytes) == header
    assert decode_header(memoryview(data + b"model"), file_nbytes + 5) == header


@pytest.mark.parametrize(("header", "data", "file_nbytes"), CASES[1:])
def test_a_file_that_ends_early_is_refused(header: Header, data: bytes, file_nbytes: int) -> None:
    """A file that is one byte shorter than its sections need is refused."""
    with pytest.raises(LimitError):
        decode_header(data, file_nbytes - 1)


@pytest.mark.parametrize(
    ("data", "error", "file_offset", "message"),
    [
        (b"RTEN" + bytes(27), TruncatedError, 0, "needed 32 bytes for the header, found 31"),
        (struct.pack("<4sIQQQ", b"RTEM", 2, 32, 8, 40), DecodeError, 0, "RTEM"),
        (struct.pack("<4sIQQQ", b"RTEN", 1, 32, 8, 40), DecodeError, 4, "version 1"),
        (struct.pack("<4sIQQQ", b"RTEN", 3, 32, 8, 40), DecodeError, 4, "version 3"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 31, 8, 40), LimitError, 8, "byte 31"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 101, 0, 40), LimitError, 8, "byte 101 of a file of 100"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 32, 69, 40), LimitError, 16, "69 bytes, but the file has only 68"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 32, (1 << 64) - 1, 40), LimitError, 16, "the file has only 68"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 32, 8, 31), LimitError, 24, "byte 31"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 32, 8, 0), LimitError, 24, "byte 0"),
        (struct.pack("<4sIQQQ", b"RTEN", 2, 32, 8, 101), LimitError, 24, "byte 101 of a file of 100"),
    ],
)
def test_bad_headers(data: bytes, error: type[FormatError], file_offset: int, message: str) -> None:
    """Headers that RTen's loader refuses are refused, with the offset of the wrong number."""
    with pytest.raises(error, match=message) as caught:
        decode_header(data, 100)
    assert (type(caught.value), caught.value.file_offset) == (error, file_offset)


def version_1(**metadata: str) -> bytes:
    """Return a version 1 file."""
    table = {"schema_version": 1, "graph": {"nodes": [{"name": "x"}] * 500}, "metadata": metadata}
    return b"".join(segment for segment in build(table) if isinstance(segment, bytes))


def test_version_1_files_are_plausible() -> None:
    """The first 64 bytes are enough to recognise our own files."""
    data = version_1(license="MIT")
    assert is_plausible_v1(data, len(data))
    assert is_plausible_v1(data[:64], len(data))
    assert not is_v2(data)


def test_files_of_rten_convert_are_plausible(tmp_path: Path) -> None:
    """The first 4 KiB are enough to recognise the files of the other converter."""
    parser = pytest.importorskip("onnx.parser")
    converter = pytest.importorskip("rten_convert.converter")
    adds = "\n".join(f"y{i + 1} = Add (y{i}, y{i})" for i in range(200))
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[N] y0) => (float[N] y200) {{ {adds} }}'
    source, target = tmp_path / "model.onnx", tmp_path / "model.rten"
    source.write_bytes(parser.parse_model(text).SerializeToString())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["rten-convert", "--v1", "--no-infer-shapes", str(source), str(target)])
        converter.main()
    data = target.read_bytes()
    assert len(data) > 10_000
    assert is_plausible_v1(data[:4096], len(data))


def test_a_model_needs_its_schema_version_and_a_graph() -> None:
    """A file with another schema version, without a graph, or too short for its graph is not plausible."""
    data = version_1()
    assert is_plausible_v1(data[:36], 40)  # the graph is at byte 36
    assert not is_plausible_v1(data[:36], 39)
    for table in ({"graph": {}}, {"schema_version": 2, "graph": {}}):
        other = b"".join(segment for segment in build(table) if isinstance(segment, bytes))
        assert not is_plausible_v1(other, len(other))
    license_only = b"".join(segment for segment in build({"license": "MIT"}, "Metadata") if isinstance(segment, bytes))
    assert not is_plausible_v1(license_only, len(license_only))


def test_other_files_are_not_plausible() -> None:
    """Empty, zero, random or foreign bytes are not recognised as a model, and raise nothing."""
    rng = random.Random(0)
    foreign = [b"", b"\x08", bytes(4096), b"\xff" * 4096, b"RTEN" + bytes(60), b"PK\x03\x04" + bytes(60)]
    foreign += [b"\x08\x08\x12\x07pytorch\x1a\x051.0.0:" + bytes(60), *(rng.randbytes(4096) for _ in range(1000))]
    foreign += [version_1()[:size] for size in range(32)]
    assert not any(is_plausible_v1(head, 10_000) for head in foreign)


def test_damaged_beginnings_never_raise() -> None:
    """Whatever the first bytes are, the answer is yes or no."""
    data = version_1()[:64]
    for position in range(64):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            head = data[:position] + bytes([value]) + data[position + 1 :]
            assert is_plausible_v1(head, 10_000) in (True, False)
