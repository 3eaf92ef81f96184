"""The facts of an archive about its own bytes: its regions, and the checksums.

Spec: docs/onnxz.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.codecs.contract import Checksum, Region
from formats.onnxzip.names import Part, part_of
from formats.onnxzip.reading.contents import read_contents, read_hashes
from formats.onnxzip.reading.far_entries import payload_of
from formats.onnxzip.reading.reader import read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.sources.source import Source


_KINDS = {Part.TENSOR: "tensor", Part.FILE: "file", Part.HASHES: "directory"}  # all others are graphs


def regions_of(source: Source) -> Iterator[Region]:
    """The headers, padding, payloads and end of the archive in `source`, from the first to the last byte."""
    end = 0
    for entry in read_entries(source):
        padding_offset = entry.file_offset + entry.header_nbytes - entry.extra_nbytes
        yield Region(entry.file_offset, padding_offset - entry.file_offset, "header", f"header of {entry.name}")
        yield Region(padding_offset, entry.extra_nbytes, "padding", f"padding of {entry.name}")
        yield Region(entry.payload_offset, entry.nbytes, _KINDS.get(part_of(entry.name), "model"), entry.name)
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
