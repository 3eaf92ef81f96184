"""Archives that a user made with any zip tool: read if their meaning is clear, with notes about deviations.

Archives that programs may read differently are still refused: with entries that are compressed, encrypted or links, or
have one name; with entries that overlap; with sizes that do not fit the file; with headers that contradict the
directory; with bytes after the end.

Spec: APPNOTE.TXT 6.3; docs/onnxz.md, "Lenient reading".
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, LimitError, TruncatedError
from formats.onnxzip.names import (
    MODEL_NAME,
    EntryKind,
    chosen_model,
    entry_kind,
    entry_of,
    is_entry_name,
    model_name_of,
)
from formats.onnxzip.records import (
    DIRECTORY_ENTRY,
    END,
    EXTRA,
    LOCAL_HEADER,
    SENTINEL_32,
    STORED,
    ZIP64_END,
    ZIP64_ID,
    ZIP64_LOCATOR,
    sentinel,
)
from formats.tensordata.plan import USE, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.tensordata.sources.source import Source

LENIENT = "lenient"  # of all notes
ALIGNMENT = 64
MAX_COMMENT_BYTES = 0xFFFF
_ENCRYPTED = 1 << 0 | 1 << 6 | 1 << 13
_SIZES_AFTERWARDS = 1 << 3  # a data descriptor follows the payload
_LINK = 0xA  # the file type of Unix in the top four bits of the external attributes
_END_NAMES = ("entries", "directory_size", "directory_offset")


class LooseEntry(NamedTuple):
    """One stored file of an archive; the range is from the local header to the end of the payload."""

    name: str
    file_offset: int
    payload_offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The file offset of the first byte after the payload."""
        return self.payload_offset + self.nbytes


class _Listed(NamedTuple):
    """An entry in the directory, with its complete sizes and offset."""

    name: str
    fields: dict[str, int]


def read_loose_entries(source: Source) -> tuple[list[LooseEntry], list[Loss]]:
    """The entries of a zip file in the order of the file, without folders, and the faults for a strict reader.

    Raises: DecodeError if the archive is ambiguous or compressed.
    """
    start, count, end, comment_nbytes = _find_directory(source)
    listed = list(_listed(source.read(start, end - start), start))
    if len(listed) != count:
        raise DecodeError(f"the directory has {len(listed)} entries, but the end record says {count}")
    entries = [_local_entry(source, item, start) for item in listed]
    # Overlapping entries are found in the order of the file, which the directory may not have.
    in_place = sorted(entries, key=lambda entry: (entry.file_offset, entry.end))
    files = [entry for entry in in_place if not entry.name.endswith("/")]
    counts = Counter(entry.name for entry in files)
    if len(counts) < len(files):
        raise DecodeError(f"two entries are called {counts.most_common(1)[0][0]!r:.80}")
    names_by_fault = {
        "have comments": [item.name for item in listed if item.fields["comment_length"]],
        "have extra fields in the directory": [item.name for item in listed if item.fields["extra_length"]],
        "have their sizes after their data": [item.name for item in listed if item.fields["flags"] & _SIZES_AFTERWARDS],
        "are directories": [entry.name for entry in in_place if entry.name.endswith("/")],
        f"are not at a multiple of {ALIGNMENT} bytes": [
            entry.name for entry in files if entry.payload_offset % ALIGNMENT
        ],
    }
    notes = [
        Loss(LENIENT, names[0], f"{len(names)} of {count} entries {what}", USE)
        for what, names in names_by_fault.items()
        if names
    ]
    unused = _unused_bytes(in_place, start)
    file_faults = {
        f"the archive has a comment of {comment_nbytes} bytes": comment_nbytes,
        f"{unused} bytes belong to no entry": unused,
        "the directory is not in the order of the entries": in_place != entries,
        f"{MODEL_NAME} is not the last entry": bool(files) and not _is_model(files[-1].name),
        "some names differ only in case, which some systems cannot distinguish": (
            len({name.lower() for name in counts}) < len(counts)
        ),
    }
    return files, notes + [Loss(LENIENT, "", detail, USE) for detail, is_there in file_faults.items() if is_there]


def model_entry(entries: Sequence[LooseEntry], model: str | None = None) -> LooseEntry:
    """The entry with the graph, which may be in a directory: that of the model with this name, or the default one.

    Raises: DecodeError if there is none, or several with one name; OptionError if there is no such model, or one must
    be chosen.
    """
    graphs = [entry for entry in entries if _is_model(entry.name)]
    if graphs:
        model = chosen_model({model_name_of(_base(entry.name)) for entry in graphs}, model)
        graphs = [entry for entry in graphs if model_name_of(_base(entry.name)) == model]
    if len(graphs) != 1:
        raise DecodeError(f"{len(graphs)} entries are called {entry_of(model)}, but exactly one must be")
    return graphs[0]


def is_about_others(name: str) -> bool:
    """Whether an entry with this name belongs to no single model: a file, hashes, or a graph."""
    return is_entry_name(name) and entry_kind(name) != EntryKind.TENSOR


def is_graph(name: str) -> bool:
    """Whether an entry with this name is a graph."""
    return name.startswith(MODEL_NAME) and is_entry_name(name)


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _is_model(name: str) -> bool:
    return is_graph(_base(name))


def _find_directory(source: Source) -> tuple[int, int, int, int]:
    """The start of the directory, its number of entries, its end, and the size of the archive's comment."""
    tail_offset = max(0, source.nbytes - END.nbytes - MAX_COMMENT_BYTES)
    tail = source.read(tail_offset, source.nbytes - tail_offset)
    ends = []  # the end records that reach the end of the file; a comment can have the signature of one in it
    position = tail.rfind(END.signature)
    while position >= 0:
        if len(tail) - position >= END.nbytes:
            fields = END.unpack(tail, position)
            if position + END.nbytes + fields["comment_length"] == len(tail):
                ends.append((tail_offset + position, fields))
        position = tail.rfind(END.signature, 0, position)
    if not ends:
        raise DecodeError(
            "no end record reaches the end of the file, so this is not a zip file, or something follows it"
        )
    if len(ends) > 1:
        raise DecodeError(f"{len(ends)} end records reach the end of the file: it is not clear which one applies")
    ((end_offset, end),) = ends
    if end["disk"] or end["directory_disk"]:
        raise DecodeError("the archive is part of a multi-disk archive", file_offset=end_offset)
    directory_end, full = _zip64_end(source, end_offset, end)
    if full["directory_offset"] + full["directory_size"] != directory_end:
        message = (
            f"the directory ends at byte {full['directory_offset'] + full['directory_size']}, its end records begin "
            f"at {directory_end}: something was inserted before or between them"
        )
        raise DecodeError(message, file_offset=end_offset)
    return full["directory_offset"], full["entries"], directory_end, end["comment_length"]


def _zip64_end(source: Source, end_offset: int, end: dict[str, int]) -> tuple[int, dict[str, int]]:
    """The start of the end records, and their values; those of zip64 records if there are any."""
    locator_offset = end_offset - ZIP64_LOCATOR.nbytes
    has_locator = locator_offset >= 0 and source.read(locator_offset, 4) == ZIP64_LOCATOR.signature
    if not has_locator:
        if any(end[name] == sentinel(name) for name in _END_NAMES):
            raise DecodeError("the end record refers to zip64 records, but there are none", file_offset=end_offset)
        return end_offset, end
    locator = ZIP64_LOCATOR.unpack(source.read(locator_offset, ZIP64_LOCATOR.nbytes))
    record_offset = locator["record_offset"]
    if record_offset > locator_offset - ZIP64_END.nbytes:
        raise LimitError(f"the zip64 end record is at byte {record_offset}", file_offset=locator_offset)
    full = ZIP64_END.unpack(source.read(record_offset, ZIP64_END.nbytes), file_offset=record_offset)
    if record_offset + 12 + full["record_size"] != locator_offset or locator["record_disk"] or full["disk"]:
        raise DecodeError("the zip64 end record does not end where its locator begins", file_offset=record_offset)
    for name in _END_NAMES:
        if end[name] not in (full[name], sentinel(name)):
            message = f"{name} is {end[name]} in the end record and {full[name]} in the zip64 one"
            raise DecodeError(message, file_offset=end_offset)
    return record_offset, full


def _listed(data: bytes, start: int) -> Iterator[_Listed]:
    """The directory's entries; `start` is its file offset."""
    position = 0
    while position < len(data):
        file_offset = start + position
        fields = DIRECTORY_ENTRY.unpack(data, position, file_offset=start)
        name_offset = position + DIRECTORY_ENTRY.nbytes
        extra_offset = name_offset + fields["name_length"]
        comment_offset = extra_offset + fields["extra_length"]
        position = comment_offset + fields["comment_length"]
        if position > len(data):
            raise TruncatedError("the directory ends inside an entry", file_offset=file_offset)
        # Programs differ about NUL, which ends a name in C, and about "\\", which is a separator on Windows.
        encoded = data[name_offset:extra_offset]
        name = encoded.decode("utf-8", "replace")
        if not name or "\0" in name or "\\" in name:
            raise DecodeError(f"an entry is called {encoded!r:.80}, which programs read differently")
        _check_listed(name, fields, file_offset)
        large = ("size", "compressed_size", "header_offset")
        full = _full(fields, large, data[extra_offset:comment_offset], name, file_offset)
        if full["size"] != full["compressed_size"] or (full["size"] and name.endswith("/")):
            message = f"entry {name!r:.80} has {full['size']} bytes, but takes {full['compressed_size']} in the file"
            raise DecodeError(message, file_offset=file_offset)
        yield _Listed(name, full)


def _check_listed(name: str, fields: dict[str, int], file_offset: int) -> None:
    """Check that the entry is a stored file."""
    wrong = ""
    if fields["flags"] & _ENCRYPTED:
        wrong = "is encrypted"
    elif fields["method"] != STORED:
        wrong = f"is compressed (method {fields['method']}); make the archive with `zip -0`"
    elif fields["external_attributes"] >> 28 == _LINK:
        wrong = "is a link"
    elif fields["disk_start"]:
        wrong = "is on another disk"
    if wrong:
        raise DecodeError(f"entry {name!r:.80} {wrong}", file_offset=file_offset)


def _local_entry(source: Source, listed: _Listed, limit: int) -> LooseEntry:
    """The entry, if its local header agrees with the directory, or `None`; it ends before `limit`."""
    name, fields, start = listed.name, listed.fields, listed.fields["header_offset"]
    if start > limit - LOCAL_HEADER.nbytes:
        raise LimitError(f"entry {name!r:.80} begins at byte {start}, but the directory at {limit}")
    local = LOCAL_HEADER.unpack(source.read(start, LOCAL_HEADER.nbytes), file_offset=start)
    name_offset = start + LOCAL_HEADER.nbytes
    payload_offset = name_offset + local["name_length"] + local["extra_length"]
    entry = LooseEntry(name, start, payload_offset, fields["size"])
    if entry.end > limit:
        raise LimitError(
            f"entry {name!r:.80} reaches beyond byte {limit}, where the directory begins", file_offset=start
        )
    variable = source.read(name_offset, payload_offset - name_offset)
    if variable[: local["name_length"]].decode("utf-8", "replace") != name:
        raise DecodeError(f"entry {name!r:.80} has another name in its header", file_offset=start)
    extra = variable[local["name_length"] :]
    full = _full(local, ("size", "compressed_size"), extra, name, start)
    for field in ("flags", "method", "crc32", "size", "compressed_size"):
        stated = full[field]
        # A writer that cannot seek back writes zeros in the header, and the numbers after the data.
        comes_later = fields["flags"] & _SIZES_AFTERWARDS and not stated and field not in ("flags", "method")
        if stated != fields[field] and not comes_later:
            message = f"{field} of entry {name!r:.80} is {stated}, but {fields[field]} in the directory"
            raise DecodeError(message, file_offset=start)
    return entry


def _unused_bytes(entries: Sequence[LooseEntry], end: int) -> int:
    """The number of bytes before `end` that belong to no entry.

    Raises: DecodeError if entries overlap.
    """
    position = unused = 0
    for entry in entries:
        if entry.file_offset < position:
            raise DecodeError(f"entry {entry.name!r:.80} overlaps another", file_offset=entry.file_offset)
        unused += entry.file_offset - position
        position = entry.end
    return unused + end - position


def _full(fields: dict[str, int], names: tuple[str, ...], extra: bytes, entry: str, file_offset: int) -> dict[str, int]:
    """The fields, with values from the zip64 record where they refer to it; other extra records are ignored."""
    large = [name for name in names if fields[name] == SENTINEL_32]
    position, zip64_record = 0, b""
    while position <= len(extra) - EXTRA.nbytes:
        record = EXTRA.unpack(extra, position)
        begin = position + EXTRA.nbytes
        position = begin + record["data_length"]
        if record["id"] == ZIP64_ID:
            zip64_record = extra[begin:position]
            break
    if not large:
        return fields
    if len(zip64_record) < 8 * len(large):
        message = f"the zip64 record of entry {entry!r:.80} must hold {len(large)} values"
        raise DecodeError(message, file_offset=file_offset)
    values: tuple[int, ...] = struct.unpack_from(f"<{len(large)}Q", zip64_record)
    return fields | dict(zip(large, values, strict=True))
