"""The zip structures as rows, and the one way in which an `.onnxz` archive uses them.

One table per structure drives packing, unpacking and sizing. What is here writes; `reader.py` reads. Offsets and
sizes are in bytes; file offsets count from the start of the archive.

Spec: APPNOTE.TXT 6.3, sections 4.3 to 4.5; docs/onnxz.md.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Sequence

SENTINEL_16 = 0xFFFF  # the values that say: see the zip64 structures
SENTINEL_32 = 0xFFFF_FFFF
MAX_EXTRA_BYTES = 0xFFFF
STORED = 0
VERSION_STORED = 10  # the "version needed" of a stored file
VERSION_ZIP64 = 45  # and of one with zip64 structures
DATE_1980 = 1 << 5 | 1  # 1 January 1980, the first day that zip knows
ZIP64_ID = 0x0001
PADDING_ID = 0x5A4F  # "OZ", a private id; the data are zeros


class Structure:
    """A zip structure: a signature, then integer fields of fixed width, all little-endian."""

    def __init__(self, title: str, signature: bytes, *rows: tuple[str, str]) -> None:
        self.title = title
        self.signature = signature
        self.fields = tuple(name for name, _ in rows)
        self._zeros = dict.fromkeys(self.fields, 0)
        self._struct = struct.Struct("<" + "".join(code for _, code in rows))
        self.nbytes = len(signature) + self._struct.size

    def pack(self, **values: int) -> bytes:
        """The bytes of the structure; fields that are not given are zero."""
        return self.signature + self._struct.pack(*(self._zeros | values).values())

    def unpack(self, data: bytes, offset: int = 0, *, file_offset: int = 0) -> dict[str, int]:
        """The fields of the structure at `offset` of `data`, which starts at `file_offset` of the file.

        Raises: TruncatedError where it is cut short; DecodeError where the signature is another.
        """
        left = len(data) - offset
        if left < self.nbytes:
            message = f"needed {self.nbytes} bytes for the {self.title}, {left} left"
            raise TruncatedError(message, file_offset=file_offset + offset)
        if not data.startswith(self.signature, offset):
            found = data[offset : offset + len(self.signature)]
            message = f"found {found!r} where the {self.title} ({self.signature!r}) must be"
            raise DecodeError(message, file_offset=file_offset + offset)
        values = self._struct.unpack_from(data, offset + len(self.signature))
        return dict(zip(self.fields, values, strict=True))


SHARED_ROWS = (  # what a local header and its directory entry both say
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

ZIP64_RECORD_SIZE = ZIP64_END.nbytes - 12  # it does not count its signature and itself


def sentinel(field: str) -> int:
    """The value of an end record's field that says: see the zip64 end record."""
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
        return len(_zip64_record(self.nbytes, self.nbytes)) + self.padding_nbytes

    @property
    def payload_offset(self) -> int:
        """The file offset of the payload."""
        return self.file_offset + self.header_nbytes

    @property
    def end(self) -> int:
        """The file offset of the first byte after the payload."""
        return self.payload_offset + self.nbytes


def place(name: str, nbytes: int, file_offset: int, alignment: int) -> Entry:
    """The entry at `file_offset` whose payload is at a multiple of `alignment`, at most 65,536.

    The padding record comes first in the extra field and is always there, if only of four bytes, and so marks the
    file as an archive of ours. Where the extra field cannot hold it (alignment 65,536, some positions), the name
    grows by "_" until it can.
    """
    entry = Entry(name, file_offset, nbytes, EXTRA.nbytes)
    entry = entry._replace(padding_nbytes=EXTRA.nbytes + -entry.payload_offset % alignment)
    if entry.extra_nbytes > MAX_EXTRA_BYTES:
        return place(name + "_", nbytes, file_offset, alignment)
    return entry


def local_header(entry: Entry) -> bytes:
    """The bytes between `entry.file_offset` and its payload."""
    padding = _extra_record(PADDING_ID, bytes(entry.padding_nbytes - EXTRA.nbytes)) if entry.padding_nbytes else b""
    extra = padding + _zip64_record(entry.nbytes, entry.nbytes)
    return LOCAL_HEADER.pack(**_shared_values(entry), extra_length=len(extra)) + entry.name.encode() + extra


def directory(entries: Sequence[Entry]) -> bytes:
    """What follows the payload of the last entry: the directory and the end records."""
    records = b"".join(_directory_entry(entry) for entry in entries)
    counts = {
        "entries_on_disk": len(entries),
        "entries": len(entries),
        "directory_size": len(records),
        "directory_offset": entries[-1].end,
    }
    limited = {name: min(value, sentinel(name)) for name, value in counts.items()}
    end = END.pack(**limited)
    if any(value == sentinel(name) for name, value in limited.items()):
        version = {"version_made_by": VERSION_ZIP64, "version_needed": VERSION_ZIP64}
        locator = ZIP64_LOCATOR.pack(record_offset=entries[-1].end + len(records), disks=1)
        end = ZIP64_END.pack(record_size=ZIP64_RECORD_SIZE, **version, **counts) + locator + end
    return records + end


def _directory_entry(entry: Entry) -> bytes:
    extra = _zip64_record(entry.nbytes, entry.nbytes, entry.file_offset)
    fixed = DIRECTORY_ENTRY.pack(
        version_made_by=VERSION_ZIP64,  # on FAT, the system number 0: unpacked files get the user's default mode
        **_shared_values(entry),
        extra_length=len(extra),
        header_offset=min(entry.file_offset, SENTINEL_32),
    )
    return fixed + entry.name.encode() + extra


def _shared_values(entry: Entry) -> dict[str, int]:
    zip64 = max(entry.nbytes, entry.file_offset) >= SENTINEL_32  # in the directory alone, it counts for both
    return {
        "version_needed": VERSION_ZIP64 if zip64 else VERSION_STORED,
        "method": STORED,
        "date": DATE_1980,
        "crc32": entry.crc32,
        "compressed_size": min(entry.nbytes, SENTINEL_32),
        "size": min(entry.nbytes, SENTINEL_32),
        "name_length": len(entry.name),
    }


def _extra_record(record_id: int, data: bytes) -> bytes:
    return EXTRA.pack(id=record_id, data_length=len(data)) + data


def _zip64_record(*values: int) -> bytes:
    """The zip64 record with those of `values` that 32 bits cannot hold; nothing where they all fit."""
    large = [value for value in values if value >= SENTINEL_32]
    return _extra_record(ZIP64_ID, struct.pack(f"<{len(large)}Q", *large)) if large else b""
