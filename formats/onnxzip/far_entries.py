"""The entries of an archive that is read with requests: their local headers are checked when the payloads are read.

So directory and graph need the fewest possible requests. Each payload ends where the next entry begins, so its offset
is known without its header.

Spec: docs/onnxz.md, Z-1.4 and Z-9.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import DecodeError
from formats.onnxzip.headers import fields_of, list_entries, local_entry, read_end
from formats.onnxzip.names import EntryKind, entry_kind
from formats.onnxzip.records import MAX_EXTRA_BYTES, Entry
from formats.tensordata.sources.source import FileSpan, Source

if TYPE_CHECKING:
    from formats.onnxzip.headers import Fields


AT_ONCE_BYTES = 1 << 25  # a graph up to this size is read together with its header


class FarEntry(Entry):
    """An entry whose local header has not been read; `listed` is its entry in the directory."""

    listed: Fields
    limit: int  # where the directory begins


def read_far_entries(source: Source) -> list[Entry]:
    """The entries of the archive in `source`; only the local headers of hashes and graphs are checked.

    Raises: DecodeError with the reason why the archive is refused.
    """
    directory = read_end(source)
    data = source.read(directory.file_offset, directory.nbytes)
    positions = list_entries(data, directory).positions
    listed = [fields_of(data, position, directory.file_offset) for position in positions]
    entries: list[Entry] = []
    starts = [fields.full["header_offset"] for fields in listed]
    if starts[0]:
        message = f"{starts[0]} bytes before the first entry belong to none"
        raise DecodeError(message, file_offset=0, requirement="Z-2.2")
    for fields, start, end in zip(listed, starts, (*starts[1:], directory.file_offset), strict=True):
        entries.append(_placed(fields, start, end, directory.file_offset))
    tail = next(index for index, fields in enumerate(listed) if entry_kind(fields.name) >= EntryKind.HASHES)
    if 0 <= directory.file_offset - starts[tail] < AT_ONCE_BYTES:
        source.read(starts[tail], directory.file_offset - starts[tail])  # kept, so that headers and graphs are one read
    for index in range(tail, len(entries)):
        entries[index] = local_entry(source, listed[index], starts[index], directory.file_offset)
        _check_end(entries[index].end, (*starts, directory.file_offset)[index + 1], directory.file_offset)
    return entries


def _check_end(end: int, begin: int, limit: int) -> None:
    """Raises DecodeError if an entry with this end is not followed at once by what begins at `begin`."""
    if end != begin:
        after = "the directory" if begin == limit else "the next entry"
        message = f"{begin - end} bytes before {after} belong to no entry"
        raise DecodeError(message, file_offset=end, requirement="Z-2.3" if begin == limit else "Z-2.2")


def _placed(fields: Fields, start: int, end: int, limit: int) -> FarEntry:
    """An entry between two offsets.

    Raises: DecodeError if they do not fit its size.
    """
    bare = Entry(fields.name, start, fields.full["size"])
    padding_nbytes = end - bare.end
    if not 0 <= padding_nbytes <= MAX_EXTRA_BYTES:
        message = f"entry {fields.name} of {bare.nbytes} bytes does not fit between bytes {start} and {end}"
        raise DecodeError(message, file_offset=start, requirement="Z-2.2")
    entry = FarEntry(fields.name, start, bare.nbytes, padding_nbytes, fields.fields["crc32"])
    entry.listed, entry.limit = fields, limit
    return entry


def payload_of(source: Source, entry: Entry) -> Source:
    """The payload of an entry; if its header is unread, this is checked before the first byte is returned."""
    payload = source.slice(entry.payload_offset, entry.nbytes)
    if not isinstance(entry, FarEntry) or not isinstance(payload, FileSpan) or not entry.nbytes:
        return payload
    base = payload.file_offset - entry.payload_offset
    return FarPayload(payload.file, payload.file_offset, payload.nbytes, _Header(entry, base))


class _Header:
    """The local header of an entry, not checked yet; the archive begins at `base` of its file."""

    def __init__(self, entry: FarEntry, base: int) -> None:
        self.entry = entry
        self.base = base
        self.is_checked = False

    @property
    def file_offset(self) -> int:
        """Where it begins in the file."""
        return self.base + self.entry.file_offset

    def check(self, data: bytes | memoryview) -> None:
        """Raises DecodeError if the header, which is `data`, is wrong."""
        entry = self.entry
        by_header = local_entry(_At(bytes(data), entry.file_offset), entry.listed, entry.file_offset, entry.limit)
        if by_header.payload_offset != entry.payload_offset:
            message = f"the payload of entry {entry.name} does not end where the next entry begins"
            raise DecodeError(message, file_offset=entry.file_offset, requirement="Z-2.2")
        self.is_checked = True


class _At(Source):
    """Bytes of an archive, by their offsets in it."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data = data
        self._start = start

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """The bytes of a range, as far as they are here."""
        begin = offset - self._start
        return self._data[begin : None if nbytes is None else begin + nbytes]


class FarPayload(FileSpan):
    """A range of the payload of an entry, whose local header is read with its first bytes."""

    __slots__ = ("_header",)

    _header: _Header

    def __init__(self, file: object, file_offset: int, nbytes: int, header: _Header) -> None:
        for name, value in (("file", file), ("file_offset", file_offset), ("nbytes", nbytes), ("_header", header)):
            object.__setattr__(self, name, value)

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read a range, together with the header if it is just before."""
        header = self._header
        if header.is_checked:
            FileSpan.readinto(self, offset, buffer)
            return
        self._check_range(offset, len(buffer))
        header_nbytes = self.file_offset + offset - header.file_offset  # if the range is at the start of the payload
        if header_nbytes != header.entry.header_nbytes:
            header.check(self.file.pread(header.file_offset, header.entry.header_nbytes))
            FileSpan.readinto(self, offset, buffer)
            return
        data = memoryview(bytearray(header_nbytes + len(buffer)))
        self.file.pread_into(header.file_offset, data)
        header.check(data[:header_nbytes])
        buffer[:] = data[header_nbytes:]

    def read(self, offset: int = 0, nbytes: int | None = None) -> bytes:
        """The bytes of a range."""
        return Source.read(self, offset, nbytes)

    def slice(self, offset: int, nbytes: int) -> FarPayload:
        """A shorter range."""
        self._check_range(offset, nbytes)
        return FarPayload(self.file, self.file_offset + offset, nbytes, self._header)

    def view(self) -> memoryview:
        """All the bytes; the header is read before."""
        header = self._header
        if not header.is_checked:
            header.check(self.file.pread(header.file_offset, header.entry.header_nbytes))
        return FileSpan.view(self)

    def __reduce__(self) -> tuple[object, ...]:
        return FarPayload, (self.file, self.file_offset, self.nbytes, self._header)
