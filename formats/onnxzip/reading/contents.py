"""What the entries of an archive are: tensors, files, hashes and graphs; and the form of the hashes.

Spec: docs/onnxz.md, section 4.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError
from formats.onnxzip.names import HASH_DIGITS, Part, chosen_model, hashes_nbytes, model_of, part_of
from formats.onnxzip.reading.far_entries import payload_of
from formats.onnxzip.reading.reader import read_entries

if TYPE_CHECKING:
    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

_HASH = re.compile(rb"[0-9a-f]{64}  ")


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
    data = payload_of(source, entry).read()
    hashes, position = {}, 0
    for name in named:
        begin, end = position + HASH_DIGITS + 2, position + hashes_nbytes([name])
        if not _HASH.fullmatch(data, position, begin) or data[begin:end] != b"%b\n" % name.encode():
            message = f"{entry.name} must have a SHA-256, two spaces, the name {name} and a line feed here"
            raise DecodeError(message, file_offset=entry.payload_offset + position, requirement="Z-4.10")
        hashes[name] = data[position : position + HASH_DIGITS].decode()
        position = end
    return hashes
