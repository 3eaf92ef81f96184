"""Which archives are accepted, and why others are refused.

An archive is accepted only if the meaning of every byte is known, and if every fact that zip states twice is the same
in both places. So no two programs can read different things in it: headers and payloads follow each other from the
first byte on, then comes the directory, in the same order, then the end records, then nothing. Payloads are not
checked, and are not even read if they have a page or more, so damage in them is not found here.

Structures that are byte for byte as `records` writes them need no further check; `headers` checks all others.

Spec: docs/onnxz.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import DecodeError
from formats.onnxzip.names import is_entry_name
from formats.onnxzip.reading.headers import check_names, fields_of, listed_entries, local_entry, read_end
from formats.onnxzip.records import END, EXTRA, LOCAL_HEADER, PADDING_ID, Entry, local_header

if TYPE_CHECKING:
    from formats.tensordata.sources.source import Source

_WINDOW_BYTES = 1 << 16  # the size of one read if payloads are smaller than a page: they come with the headers anyway
_PAGE_BYTES = 1 << 12
_EXTRA_LENGTH = LOCAL_HEADER.fields.index("extra_length")


class _Window:
    """The last read bytes of a source, up to `limit`, so that headers near each other are read at once."""

    def __init__(self, source: Source, limit: int) -> None:
        self._source = source
        self._limit = limit
        self._file_offset = 0
        self._data = b""

    def read(self, file_offset: int, nbytes: int, ahead_bytes: int) -> bytes:
        """The bytes of a range, up to the limit; a read also reads up to `ahead_bytes`."""
        start = file_offset - self._file_offset
        if start < 0 or start + nbytes > len(self._data):
            self._data = self._source.read(file_offset, min(max(nbytes, ahead_bytes), self._limit - file_offset))
            self._file_offset, start = file_offset, 0
        return self._data[start : start + nbytes]


def looks_like_zip(head: bytes) -> bool:
    """Whether a file with these first bytes can be a zip file; a file without entries begins with its end record."""
    return head.startswith((LOCAL_HEADER.signature, END.signature))


def looks_like_archive(head: bytes) -> bool:
    """Whether a file with these first bytes begins with an entry that only our writer makes."""
    try:
        fields = LOCAL_HEADER.unpack(head)
    except DecodeError:
        return False
    extra_offset = LOCAL_HEADER.nbytes + fields["name_length"]
    name = head[LOCAL_HEADER.nbytes : extra_offset].decode("latin-1")
    return is_entry_name(name) and head.startswith(PADDING_ID.to_bytes(2, "little"), extra_offset)


def read_entries(source: Source) -> list[Entry]:
    """The entries of the archive in `source`, graphs last.

    Raises: DecodeError with the reason why the archive is refused.
    """
    if not all(file.is_local for file in source.files()):
        from formats.onnxzip.reading.far_entries import read_far_entries

        return read_far_entries(source)
    directory = read_end(source)
    data = source.read(directory.file_offset, directory.nbytes)
    listed = list(listed_entries(data, directory))
    if len(listed) != directory.entries:
        message = f"the directory has {len(listed)} entries, but the end record says {directory.entries}"
        raise DecodeError(message, requirement="Z-5.1")
    check_names([entry.name for entry in listed])
    window = _Window(source, directory.file_offset)
    entries, position = [], 0
    for item in listed:
        entry = item.as_written and _with_header(item.as_written, window, position, directory.file_offset)
        if entry is None:
            fields = fields_of(data, item.position, directory.file_offset)
            entry = local_entry(source, fields, position, directory.file_offset)
        entries.append(entry)
        position = entry.end
    if position != directory.file_offset:
        message = f"{directory.file_offset - position} bytes before the directory belong to no entry"
        raise DecodeError(message, file_offset=position, requirement="Z-2.3")
    return entries


def _with_header(entry: Entry, window: _Window, position: int, limit: int) -> Entry | None:
    """The entry with the padding of its header, if the header is at `position` and as our writer writes it."""
    ahead_bytes = _WINDOW_BYTES if entry.nbytes < _PAGE_BYTES else 0
    fixed = window.read(position, LOCAL_HEADER.nbytes, ahead_bytes)
    if len(fixed) < LOCAL_HEADER.nbytes or entry.file_offset != position:
        return None
    padding_nbytes = LOCAL_HEADER.unpack_row(fixed, 0)[_EXTRA_LENGTH]
    if padding_nbytes < EXTRA.nbytes:
        return None
    entry = Entry(entry.name, position, entry.nbytes, padding_nbytes, entry.crc32)
    is_ours = entry.end <= limit and window.read(position, entry.header_nbytes, 0) == local_header(entry)
    return entry if is_ours else None
