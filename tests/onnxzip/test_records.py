"""Zip structures: bytes and sizes, checked by hand, by `zipfile`, and at sizes that need zip64."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import DecodeError, TruncatedError
from formats.onnxzip import records
from formats.onnxzip.records import Entry, Structure

GIB = 1 << 30
STRUCTURES = [
    (records.LOCAL_HEADER, 30),
    (records.DIRECTORY_ENTRY, 46),
    (records.ZIP64_END, 56),
    (records.ZIP64_LOCATOR, 20),
    (records.END, 22),
    (records.EXTRA, 4),
]
CODE_BITS = {"H": 16, "I": 32, "Q": 64}


@pytest.mark.parametrize(("structure", "nbytes"), STRUCTURES)
def test_sizes_are_those_of_the_specification(structure: Structure, nbytes: int) -> None:
    """The sizes of the fields of every structure add up to the size in APPNOTE."""
    assert nbytes == structure.nbytes == len(structure.pack())


@given(st.data(), st.sampled_from([structure for structure, _ in STRUCTURES]), st.binary(max_size=9))
def test_unpack_gives_back_what_was_packed(data: st.DataObject, structure: Structure, before: bytes) -> None:
    """Unpacking at any offset gives the packed values, and zero for missing ones."""
    rows = structure._struct.format.removeprefix("<")
    values = {
        name: data.draw(st.integers(0, (1 << CODE_BITS[code]) - 1))
        for name, code in zip(structure.fields, rows, strict=True)
        if data.draw(st.booleans())
    }
    packed = before + structure.pack(**values)
    assert dict.fromkeys(structure.fields, 0) | values == structure.unpack(packed, len(before))


@pytest.mark.parametrize(("structure", "nbytes"), STRUCTURES)
def test_cut_and_foreign_structures_are_refused(structure: Structure, nbytes: int) -> None:
    """A truncated structure, or one with another signature, is an error that names it and its place."""
    with pytest.raises(TruncatedError, match=f"needed {nbytes} bytes for the {structure.title}") as caught:
        structure.unpack(structure.pack()[:-1], file_offset=7)
    assert caught.value.file_offset == 7
    if structure.signature:
        with pytest.raises(DecodeError, match=f"where the {structure.title} .* must be"):
            structure.unpack(b"PK\0\0" + structure.pack()[4:])


def test_header_bytes() -> None:
    """A local header and its directory entry have these bytes, which were checked by hand against APPNOTE."""
    entry = Entry("w", 0, 5, 29, 0x04030201)
    local = bytes.fromhex("504b0304 0a00 0000 0000 0000 2100 01020304 05000000 05000000 0100 1d00")
    assert local + b"w" + bytes.fromhex("4f5a 1900") + bytes(25) == records.local_header(entry)
    central = bytes.fromhex(
        "504b0102 2d00 0a00 0000 0000 0000 2100 01020304 05000000 05000000 0100 0000 0000 0000 0000"
    )
    end = bytes.fromhex("504b0506 0000 0000 0100 0100 2f000000 41000000 0000")
    assert central + bytes.fromhex("00000000 00000000") + b"w" + end == records.directory([entry])


@given(
    st.integers(1, 128),
    st.integers(0, 9 * GIB),
    st.integers(0, 9 * GIB),
    st.integers(0, 16).map(lambda power: 1 << power),
)
def test_payloads_are_aligned(name_nbytes: int, nbytes: int, file_offset: int, alignment: int) -> None:
    """Wherever an entry begins, its payload is aligned, its extra field is well formed, and little space is lost."""
    entry = records.place("w" * name_nbytes, nbytes, file_offset, alignment)
    header = records.local_header(entry)
    assert entry.payload_offset % alignment == 0
    assert entry.header_nbytes == len(header)
    assert 4 <= entry.padding_nbytes < alignment + 4
    assert entry.name.rstrip("_") == "w" * name_nbytes
    position, extra = 0, header[30 + len(entry.name) :]
    while position < len(extra):
        position += 4 + struct.unpack_from("<H", extra, position + 2)[0]
    assert position == len(extra)


@pytest.mark.parametrize(
    ("file_offset", "name", "extra_nbytes"),
    [
        (0x10000 - 35, "w", 4),  # the shortest padding
        (0x10000 - 34, "w____", 0xFFFF),
        (0x10000 - 31, "w_", 0xFFFF),
        (0x10000 - 30, "w", 0xFFFF),  # the longest padding
    ],
)
def test_name_grows_where_the_extra_field_cannot(file_offset: int, name: str, extra_nbytes: int) -> None:
    """At an alignment of 65,536, a longer name avoids padding beyond the limit of the extra field."""
    entry = records.place("w", 8, file_offset, 1 << 16)
    assert (name, extra_nbytes) == (entry.name, entry.extra_nbytes)


@pytest.mark.parametrize(
    ("nbytes", "zip64"),
    [(0xFFFF_FFFE, False), (0xFFFF_FFFF, True), (0x1_0000_0000, True)],
)
def test_zip64_where_an_entry_needs_it(nbytes: int, zip64: bool) -> None:
    """Only sizes that 32 bits cannot express are put in a zip64 record; the local header has both sizes there."""
    entry = records.place("w", nbytes, 0, 64)
    header = records.local_header(entry)
    fields = records.LOCAL_HEADER.unpack(header)
    assert (45 if zip64 else 10) == fields["version_needed"]
    assert [min(nbytes, 0xFFFF_FFFF)] * 2 == [fields["size"], fields["compressed_size"]]
    assert zip64 == header.endswith(struct.pack("<HHQQ", 1, 16, nbytes, nbytes))


@pytest.mark.parametrize(
    ("end", "zip64"),
    [(0xFFFF_FFFE, False), (0xFFFF_FFFF, True), (5 * GIB, True)],
)
def test_zip64_where_the_directory_is_far(end: int, zip64: bool) -> None:
    """There are zip64 end records if the directory begins at 4 GiB - 1 or later."""
    entry = Entry("w", end - 131, 100)
    tail = records.directory([entry])
    assert entry.end == end
    assert zip64 == (b"PK\6\6" in tail) == (b"PK\6\7" in tail)


def test_entry_far_behind_says_so_in_both_headers() -> None:
    """A small entry beyond 4 GiB has its offset in the directory's zip64 record; both headers have one version."""
    entry = Entry("w", 5 * GIB, 1)
    fields = records.DIRECTORY_ENTRY.unpack(records.directory([entry]))
    assert [45, 0xFFFF_FFFF, 12] == [fields[name] for name in ("version_needed", "header_offset", "extra_length")]
    assert records.directory([entry]).startswith(b"w" + struct.pack("<HHQ", 1, 8, 5 * GIB), 46)
    local = records.LOCAL_HEADER.unpack(records.local_header(entry))
    assert [45, 0] == [local[name] for name in ("version_needed", "extra_length")]


@pytest.mark.parametrize(("count", "zip64"), [(65_534, False), (65_535, True)])
def test_zip64_where_the_count_needs_it(count: int, zip64: bool) -> None:
    """There are zip64 end records for 65,535 entries and more."""
    tail = records.directory([Entry("w", 0, 0)] * count)
    assert zip64 == (b"PK\6\6" in tail) == (b"PK\6\7" in tail)
