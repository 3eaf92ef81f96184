"""The zip structures as rows, and the only form in which an `.onnxz` archive uses them.

One table per structure drives packing, unpacking and sizing. This module writes; `reader.py` reads. Offsets and sizes
are in bytes; file offsets count from the start of the archive.

Spec: APPNOTE.TXT 6.3, sections 4.3 to 4.5; docs/onnxz.md.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SENTINEL_16 = 0xFFFF  # the values that mean: see the zip64 structures
SENTINEL_32 = 0xFFFF_FFFF
MAX_EXTRA_BYTES = 0xFFFF
STORED = 0
VERSION_STORED = 10  # the "version needed" of a stored file
VERSION_ZIP64 = 45  # the same for a file with zip64 structures
DATE_1980 = 1 << 5 | 1  # 1 January 1980, the first day that zip knows
ZIP64_ID = 0x0001
PADDING_ID = 0x5A4F  # "OZ", a private id; the data are zeros


class Structure:
    """A zip structure: a signature, then integer fields of fixed width, all little-endian."""

    def __init__(self, title: str, signature: bytes, *rows: tuple[str, str]) -> None:
        self.title = title
        self.signature = signature
        self.fields = tuple(name for name, _ in rows)
        self._codes = [code for _, code in rows]
        self._struct = struct.Struct("<" + "".join(self._codes))
        self.nbytes = len(signature) + self._struct.size

    def pack(self, **values: int) -> bytes:
        """The bytes of the structure; fields without a value are zero."""
        return self.pack_row(*(dict.fromkeys(self.fields, 0) | values).values())

    def pack_row(self, *values: int) -> bytes:
        """The bytes of the structure, from all fields in their order."""
        return self.signature + self._struct.pack(*values)

    def offset_of(self, field: str) -> int:
        """The offset of a field, in bytes from the start of the structure."""
        return len(self.signature) + struct.calcsize("<" + "".join(self._codes[: self.fields.index(field)]))

    def unpack(
        self, data: bytes, offset: int = 0, *, file_offset: int = 0, requirement: str | None = None
    ) -> dict[str, int]:
        """The fields of the structure at `offset` of `data`, which starts at `file_offset` of the file.

        Raises: TruncatedError if it is truncated; DecodeError for another signature; with `requirement`.
        """
        available_nbytes = len(data) - offset
        if available_nbytes < self.nbytes:
            message = f"needed {self.nbytes} bytes for the {self.title}, {available_nbytes} left"
            raise TruncatedError(message, file_offset=file_offset + offset, requirement=requirement)
        if not data.startswith(self.signature, offset):
            signature = data[offset : offset + len(self.signature)]
            message = f"found {signature!r} where the {self.title} ({self.signature!r}) must be"
            raise DecodeError(message, file_offset=file_offset + offset, requirement=requirement)
        values = self._struct.unpack_from(data, offset + len(self.signature))
        return dict(zip(self.fields, values, strict=True))


SHARED_ROWS = (  # common fields of a local header and its directory entry
    ("version_needed", "H"),
    ("flags", "H"),
    ("method", "H"),
    ("time", "H"),
    ("date", "H"),
    ("crc32", "I"),
    ("compressed_size", "I"),
    ("size", "I"),
    ("name_length", "H"),
)
LOCAL_HEADER = Structure("local header", b"PK\3\4", *SHARED_ROWS, ("extra_length", "H"))
DIRECTORY_ENTRY = Structure(
    "directory entry",
    b"PK\1\2",
    ("version_made_by", "H"),
    *SHARED_ROWS,
    ("extra_length", "H"),
    ("comment_length", "H"),
    ("disk_start", "H"),
    ("internal_attributes", "H"),
    ("external_attributes", "I"),
    ("header_offset", "I"),
)
ZIP64_END = Structure(
    "zip64 end record",
    b"PK\6\6",
    ("record_size", "Q"),
    ("version_made_by", "H"),
    ("version_needed", "H"),
    ("disk", "I"),
    ("directory_disk", "I"),
    ("entries_on_disk", "Q"),
    ("entries", "Q"),
    ("directory_size", "Q"),
    ("directory_offset", "Q"),
)
ZIP64_LOCATOR = Structure("zip64 locator", b"PK\6\7", ("record_disk", "I"), ("record_offset", "Q"), ("disks", "I"))
END = Structure(
    "end record",
    b"PK\5\6",
    ("disk", "H"),
    ("directory_disk", "H"),
    ("entries_on_disk", "H"),
    ("entries", "H"),
    ("directory_size", "I"),
    ("directory_offset", "I"),
    ("comment_length", "H"),
)
EXTRA = Structure("extra record", b"", ("id", "H"), ("data_length", "H"))

# A directory entry as our writer writes it without zip64: constant bytes, CRC-32, size twice, length of the name,
# zeros, offset. It is made by version 4.5 on FAT, system number 0: unpacked files get the user's default mode.
WRITTEN_DIRECTORY_ENTRY = struct.Struct("<16s3IH12sI")
DIRECTORY_ENTRY_START = DIRECTORY_ENTRY.pack(
    version_made_by=VERSION_ZIP64, version_needed=VERSION_STORED, method=STORED, date=DATE_1980
)[:16]
DIRECTORY_ENTRY_ZEROS = bytes(12)

SIZES_NBYTES = EXTRA.nbytes + 2 * 8  # of the zip64 record in a local header, which always has both sizes
ZIP64_RECORD_SIZE = ZIP64_END.nbytes - 12  # it does not count its signature and this field


def sentinel(field: str) -> int:
    """The value of an end record's field that means: see the zip64 end record."""
    return SENTINEL_16 if field.startswith("entries") else SENTINEL_32


class Entry(NamedTuple):
    """One stored file of an archive: a local header at `file_offset`, then `nbytes` bytes of payload."""

    name: str
    file_offset: int
    nbytes: int
    padding_nbytes: int = 0  # the whole padding record in the local header
    crc32: int = 0

    @property
    def header_nbytes(self) -> int:
        """The size of the local header with name and extra field."""
        return LOCAL_HEADER.nbytes + len(self.name) + self.extra_nbytes

    @property
    def extra_nbytes(self) -> int:
        """The size of the local header's extra field."""
        return self.padding_nbytes + (SIZES_NBYTES if self.nbytes >= SENTINEL_32 else 0)

    @property
    def payload_offset(self) -> int:
        """The file offset of the payload."""
        name, file_offset, nbytes, padding_nbytes, _ = self  # in one step, as it is needed for each weight
        payload_offset = file_offset + LOCAL_HEADER.nbytes + len(name) + padding_nbytes
        return payload_offset if nbytes < SENTINEL_32 else payload_offset + SIZES_NBYTES

    @property
    def end(self) -> int:
        """The file offset of the first byte after the payload."""
        name, file_offset, nbytes, padding_nbytes, _ = self
        end = file_offset + LOCAL_HEADER.nbytes + len(name) + padding_nbytes + nbytes
        return end if nbytes < SENTINEL_32 else end + SIZES_NBYTES


def place(name: str, nbytes: int, file_offset: int, alignment: int) -> Entry:
    """The entry at `file_offset` whose payload is at a multiple of `alignment`, at most 65,536.

    The padding record comes first in the extra field and is always present, with at least four bytes, so it marks the
    file as one of our archives. If it does not fit in the extra field (alignment 65,536, some positions), the name gets
    "_" at its end until it fits.
    """
    sizes_nbytes = SIZES_NBYTES if nbytes >= SENTINEL_32 else 0
    payload_offset = file_offset + LOCAL_HEADER.nbytes + len(name) + EXTRA.nbytes + sizes_nbytes  # without padding
    padding_nbytes = EXTRA.nbytes + -payload_offset % alignment
    if padding_nbytes + sizes_nbytes > MAX_EXTRA_BYTES:
        return place(name + "_", nbytes, file_offset, alignment)
    return Entry(name, file_offset, nbytes, padding_nbytes)


def local_header(entry: Entry, crc32: int | None = None) -> bytes:
    """The bytes between `entry.file_offset` and its payload, with this checksum, or that of the entry."""
    extra = padding_record(entry.padding_nbytes)
    if entry.nbytes >= SENTINEL_32:
        extra += _zip64_record(entry.nbytes, entry.nbytes)
    return LOCAL_HEADER.pack_row(*_shared_row(entry, crc32), len(extra)) + entry.name.encode() + extra


def directory_entry(entry: Entry, crc32: int | None = None) -> bytes:
    """The directory's record of an entry, with this checksum, or that of the entry."""
    extra = _zip64_record(entry.nbytes, entry.nbytes, entry.file_offset)
    numbers = (len(extra), 0, 0, 0, 0, min(entry.file_offset, SENTINEL_32))
    return DIRECTORY_ENTRY.pack_row(VERSION_ZIP64, *_shared_row(entry, crc32), *numbers) + entry.name.encode() + extra


def _shared_row(entry: Entry, crc32: int | None) -> tuple[int, ...]:
    """The values of `SHARED_ROWS` for an entry; if only the directory needs zip64, the local header says so, too."""
    name, file_offset, nbytes, _, entry_crc32 = entry
    version = VERSION_STORED if nbytes < SENTINEL_32 > file_offset else VERSION_ZIP64
    size = min(nbytes, SENTINEL_32)
    return version, 0, STORED, 0, DATE_1980, entry_crc32 if crc32 is None else crc32, size, size, len(name)


def directory(entries: Sequence[Entry], checksums: Iterable[int] | None = None) -> bytes:
    """The bytes after the payload of the last entry: the directory and the end records.

    The checksums are those of the entries, unless others are given.
    """
    crc32s = (entry.crc32 for entry in entries) if checksums is None else checksums
    records = bytearray()  # a list of very many short pieces would need three times the memory
    for entry, crc32 in zip(entries, crc32s, strict=True):
        records += directory_entry(entry, crc32)
    records += _end_records(len(entries), len(records), entries[-1].end)
    return bytes(records)


def directory_nbytes(entries: Sequence[Entry]) -> int:
    """The size of the result of `directory`."""
    fixed = len(entries) * DIRECTORY_ENTRY.nbytes
    names = sum(len(entry.name) for entry in entries)
    large = entries if entries[-1].end >= SENTINEL_32 else ()
    nbytes = fixed + names + sum(len(_zip64_record(entry.nbytes, entry.nbytes, entry.file_offset)) for entry in large)
    return nbytes + len(_end_records(len(entries), nbytes, entries[-1].end))


def _end_records(count: int, nbytes: int, file_offset: int) -> bytes:
    """The bytes after a directory of `count` entries in `nbytes` bytes."""
    counts = {
        "entries_on_disk": count,
        "entries": count,
        "directory_size": nbytes,
        "directory_offset": file_offset,
    }
    limited = {name: min(value, sentinel(name)) for name, value in counts.items()}
    end = END.pack(**limited)
    if any(value == sentinel(name) for name, value in limited.items()):
        version = {"version_made_by": VERSION_ZIP64, "version_needed": VERSION_ZIP64}
        locator = ZIP64_LOCATOR.pack(record_offset=file_offset + nbytes, disks=1)
        end = ZIP64_END.pack(record_size=ZIP64_RECORD_SIZE, **version, **counts) + locator + end
    return end


@lru_cache(maxsize=256)  # there are few different ones, except for large files
def padding_record(nbytes: int) -> bytes:
    """The extra record of so many bytes in all; nothing for none."""
    return _extra_record(PADDING_ID, bytes(nbytes - EXTRA.nbytes)) if nbytes else b""


def _extra_record(record_id: int, data: bytes) -> bytes:
    return EXTRA.pack(id=record_id, data_length=len(data)) + data


def _zip64_record(*values: int) -> bytes:
    """The zip64 record with those of `values` that do not fit in 32 bits; empty if they all fit."""
    if max(values) < SENTINEL_32:
        return b""
    large = [value for value in values if value >= SENTINEL_32]
    return _extra_record(ZIP64_ID, struct.pack(f"<{len(large)}Q", *large))
