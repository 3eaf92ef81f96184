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

from formats.collector import collector_paused
from formats.errors import DecodeError
from formats.onnxzip.headers import fields_of, list_entries, local_entry, read_end
from formats.onnxzip.names import is_entry_name
from formats.onnxzip.records import END, LOCAL_HEADER, PADDING_ID, Entry, local_header

if TYPE_CHECKING:
    from formats.onnxzip.headers import Listing
    from formats.tensordata.sources.source import Source

_WINDOW_BYTES = 1 << 16  # the size of one read if payloads are smaller than a page: they come with the headers anyway
_PAGE_BYTES = 1 << 12


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
        from formats.onnxzip.far_entries import read_far_entries

        return read_far_entries(source)
    directory = read_end(source)
    data = source.read(directory.file_offset, directory.nbytes)
    with collector_paused():
        listing = list_entries(data, directory)
        return _with_headers(source, listing, data, directory.file_offset)


def _with_headers(source: Source, listing: Listing, data: bytes, limit: int) -> list[Entry]:
    """The entries, whose headers and payloads must fill the source up to `limit`; `data` has the directory."""
    entries: list[Entry] = []
    window, window_offset = b"", 0  # the bytes that were read last: headers near each other are read at once
    position = 0
    for index, entry in enumerate(listing.as_written):
        if entry is not None:
            # If the header is what our writer writes for this entry of the directory, all of its fields are right.
            header, end = local_header(entry), entry.end
            if entry.file_offset == position and end <= limit:
                begin = position - window_offset
                if begin + len(header) > len(window):
                    ahead_bytes = _WINDOW_BYTES if entry.nbytes < _PAGE_BYTES else 0
                    window = source.read(position, min(max(len(header), ahead_bytes), limit - position))
                    window_offset, begin = position, 0
                if window.startswith(header, begin):
                    entries.append(entry)
                    position = end
                    continue
        # Any other header is checked field by field, and gives the error.
        entries.append(local_entry(source, fields_of(data, listing.positions[index], limit), position, limit))
        position = entries[-1].end
    if position != limit:
        message = f"{limit - position} bytes before the directory belong to no entry"
        raise DecodeError(message, file_offset=position, requirement="Z-2.3")
    return entries
