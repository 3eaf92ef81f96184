"""What the entries of an archive are: tensors, files, hashes and graphs; their regions, and the checksums of them.

Spec: docs/onnxz.md, section 4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import Checksum, Region
from formats.errors import DecodeError
from formats.onnxzip.far_entries import payload_of
from formats.onnxzip.names import HASH_DIGITS, Part, chosen_model, hashes_nbytes, model_of, part_of
from formats.onnxzip.reader import read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

_HASH = re.compile(rb"[0-9a-f]{64}  ")
_KINDS = {Part.TENSOR: "tensor", Part.FILE: "file", Part.HASHES: "directory"}  # all others are graphs


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
    first = next(index for index in range(count - 1, -2, -1) if index < 0 or not part_of(entries[index].name)) + 1
    tail = [(part_of(entry.name), entry) for entry in entries[first:]]
    contents = Contents(
        entries[:first],
        [entry for part, entry in tail if part == Part.FILE],
        next((entry for part, entry in tail if part == Part.HASHES), None),
        {model_of(entry.name): entry for part, entry in tail if part >= Part.GRAPH},
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
