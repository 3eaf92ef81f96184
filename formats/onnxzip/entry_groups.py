"""Entries with small payloads, written many at a time: a separate write costs more than the bytes of such an entry."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.onnxzip.names import HASHES_NAME
from formats.onnxzip.records import LOCAL_HEADER, Entry, local_header
from formats.tensordata.plan import SMALL_BYTES
from formats.tensordata.sources.digest import Digester, crc32_function, new_digester
from formats.tensordata.sources.source import READ_BYTES, FileSpan, Literal, Source, contents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.tensordata.file import File

_CHECKSUM = struct.Struct("<I")
_CHECKSUM_OFFSET = LOCAL_HEADER.offset_of("crc32")


@dataclass(frozen=True, slots=True, eq=False)
class EntryGroup(Source):
    """Adjacent entries, headers and payloads; the checksums in headers are computed from the bytes that are read."""

    entries: tuple[Entry, ...]
    payloads: tuple[Source, ...]

    @property
    def nbytes(self) -> int:  # type: ignore[override]
        """From the first header to the end of the last payload."""
        return self.entries[-1].end - self.entries[0].file_offset

    @property
    def granule_bytes(self) -> int:
        """None: a header depends on its whole payload."""
        return 0

    def files(self) -> Iterator[File]:
        """The files of the payloads; nearly all payloads are parts of one."""
        yield from {payload.file for payload in self.payloads if isinstance(payload, FileSpan)}
        for payload in self.payloads:
            if not isinstance(payload, (FileSpan, Literal)):
                yield from payload.files()

    def doubtful(self) -> Iterator[Source]:
        """This source, if a payload is doubtful."""
        return iter((self,) if any(any(True for _ in payload.doubtful()) for payload in self.payloads) else ())

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Read all payloads."""
        self._check_range(offset, len(buffer))
        buffer[:] = self.view()[offset : offset + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Source:
        """The range as a literal if it is not all of it."""
        self._check_range(offset, nbytes)
        return self if nbytes == self.nbytes else Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The entries, made now."""
        crc32 = crc32_function()
        parts: list[bytes | memoryview] = []
        try:
            for entry, data in zip(self.entries, contents(self.payloads), strict=True):
                parts += (local_header(entry, crc32(data)), data)
        except FormatError as error:
            error.where = error.where or self.entries[len(parts) // 2].name
            raise
        return memoryview(b"".join(parts))


class Checksums(Digester):
    """The CRC-32 of each payload, from the headers that are written, 4 bytes each, big-endian; SHA-256s, if wanted."""

    __slots__ = ("_digest", "_entries", "_hashed")
    in_order = False

    def __init__(self, entries: tuple[Entry, ...], hashed: bool = False) -> None:
        self._entries = entries
        self._hashed = hashed
        self._digest = b""

    def update(self, offset: int, data: memoryview) -> None:
        """Add all of an `EntryGroup`, which always comes complete."""
        start = self._entries[0].file_offset
        begin = start - _CHECKSUM_OFFSET
        checksums = [_CHECKSUM.unpack_from(data, entry.file_offset - begin)[0] for entry in self._entries]
        self._digest = struct.pack(f">{len(checksums)}I", *checksums)
        if self._hashed:
            places = ((entry.payload_offset - start, entry.end - start) for entry in self._entries)
            self._digest += b"".join(_sha256(data[begin:end]) for begin, end in places)

    def digest(self) -> bytes:
        """The checksums in the order of the entries."""
        return self._digest


class Crc32AndHash(Digester):
    """The CRC-32 of a payload, 4 bytes, big-endian; then its SHA-256."""

    __slots__ = ("_crc32", "_hash")
    in_order = True

    def __init__(self) -> None:
        self._crc32, self._hash = new_digester("crc32"), new_digester("sha256")

    def update(self, offset: int, data: memoryview) -> None:
        """Add the part after the last one."""
        self._crc32.update(offset, data)
        self._hash.update(offset, data)

    def digest(self) -> bytes:
        """Both."""
        return self._crc32.digest() + self._hash.digest()


def _sha256(data: memoryview) -> bytes:
    digester = new_digester("sha256")
    digester.update(0, data)
    return digester.digest()


def grouped(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """The ranges of entries that are written at once: small neighbours together, up to the size of one read.

    The hashes are alone, because their payload is known only after all others are written.
    """
    begin = 0  # of the group
    for index, entry in enumerate(entries):
        is_small = entry.nbytes < SMALL_BYTES and entry.name != HASHES_NAME
        if begin < index and not (is_small and entry.end - entries[begin].file_offset <= READ_BYTES):
            yield begin, index
            begin = index
        if not is_small:
            yield index, index + 1
            begin = index + 1
    if begin < len(entries):
        yield begin, len(entries)
