"""Which archives are accepted, why others are refused, and what the entries of an archive are.

An archive is accepted only if the meaning of every byte is known, and if every fact that zip states twice is the same
in both places. So no two programs can read different things in it: headers and payloads follow each other from the
first byte on, then comes the directory, in the same order, then the end records, then nothing. Payloads are not
checked, and are not even read if they have a page or more, so damage in them is not found here.

Structures that are byte for byte as `records` writes them need no further check; `headers` checks all others.

Spec: docs/onnxz.md; section 4 for what entries are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import Checksum, Region
from formats.collector import collector_paused
from formats.errors import DecodeError
from formats.onnxzip.far_entries import payload_of
from formats.onnxzip.headers import fields_of, list_entries, local_entry, read_end
from formats.onnxzip.names import (
    HASH_DIGITS,
    EntryKind,
    chosen_model,
    entry_kind,
    hashes_nbytes,
    is_entry_name,
    model_name_of,
)
from formats.onnxzip.records import END, LOCAL_HEADER, PADDING_ID, Entry, local_header

if TYPE_CHECKING:
    from collections.abc import Iterator

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


_HASH = re.compile(rb"[0-9a-f]{64}  ")
_KINDS = {EntryKind.TENSOR: "tensor", EntryKind.FILE: "file", EntryKind.HASHES: "directory"}  # all others are graphs


class Contents(NamedTuple):
    """The entries of an archive; graphs by the name of their model, which is `None` for the default one."""

    tensors: list[Entry]
    files: list[Entry]
    hashes: Entry | None
    graphs: dict[str | None, Entry]

    def entries(self) -> list[Entry]:
        """All entries in the order of the archive."""
        return [*self.tensors, *self.files, *([self.hashes] if self.hashes else []), *self.graphs.values()]

    def graph(self, model: str | None) -> Entry:
        """The graph of the model with this name; for `None`, of the default one, or of the only one.

        Raises: OptionError if there is no such model, or one must be chosen.
        """
        return self.graphs[chosen_model(self.graphs, model)]


def read_contents(source: Source) -> Contents:
    """The entries of the archive in `source`, with hashes of the right form.

    Raises: DecodeError with the reason why the archive is refused.
    """
    entries = read_entries(source)
    count = len(entries)
    # Nearly all entries are tensors, so the tail is found from the end; -1 stops the search if there are only others.
    first = next(index for index in range(count - 1, -2, -1) if index < 0 or not entry_kind(entries[index].name)) + 1
    tail = [(entry_kind(entry.name), entry) for entry in entries[first:]]
    contents = Contents(
        entries[:first],
        [entry for part, entry in tail if part == EntryKind.FILE],
        next((entry for part, entry in tail if part == EntryKind.HASHES), None),
        {model_name_of(entry.name): entry for part, entry in tail if part >= EntryKind.GRAPH},
    )
    if contents.hashes is not None:
        read_hashes(source, contents)
    return contents


def read_hashes(source: Source, contents: Contents) -> dict[str, str]:
    """The SHA-256 of each other entry by its name, in hexadecimal; empty if the archive has none.

    Raises: DecodeError if they do not have the form that the format demands.
    """
    entry = contents.hashes
    if entry is None:
        return {}
    named = [other.name for other in contents.entries() if other is not entry]
    if entry.nbytes != hashes_nbytes(named):
        message = f"{entry.name} has {entry.nbytes} bytes, but a line for each other entry needs {hashes_nbytes(named)}"
        raise DecodeError(message, file_offset=entry.file_offset, requirement="Z-4.10")
    data = payload_of(source, entry).read()  # as many bytes as the names need, so the size of the file bounds it
    hashes, position = {}, 0
    for name in named:
        begin, end = position + HASH_DIGITS + 2, position + hashes_nbytes([name])
        if not _HASH.fullmatch(data, position, begin) or data[begin:end] != b"%b\n" % name.encode():
            message = f"{entry.name} must have a SHA-256, two spaces, the name {name} and a line feed here"
            raise DecodeError(message, file_offset=entry.payload_offset + position, requirement="Z-4.10")
        hashes[name] = data[position : position + HASH_DIGITS].decode()
        position = end
    return hashes


def regions_of(source: Source) -> Iterator[Region]:
    """The headers, padding, payloads and end of the archive in `source`, from the first to the last byte."""
    end = 0
    for entry in read_entries(source):
        padding_offset = entry.file_offset + entry.header_nbytes - entry.extra_nbytes
        yield Region(entry.file_offset, padding_offset - entry.file_offset, "header", f"header of {entry.name}")
        yield Region(padding_offset, entry.extra_nbytes, "padding", f"padding of {entry.name}")
        yield Region(entry.payload_offset, entry.nbytes, _KINDS.get(entry_kind(entry.name), "model"), entry.name)
        end = entry.end
    yield Region(end, source.nbytes - end, "directory", "directory and end record")


def checksums_of(source: Source) -> Iterator[Checksum]:
    """The CRC-32 of each entry, and its SHA-256 if the archive has it."""
    contents = read_contents(source)
    hashes = read_hashes(source, contents)
    for entry in contents.entries():
        payload = payload_of(source, entry)
        yield Checksum(entry.name, "crc32", f"{entry.crc32:08x}", payload)
        if entry.name in hashes:
            yield Checksum(entry.name, "sha256", hashes[entry.name], payload)
