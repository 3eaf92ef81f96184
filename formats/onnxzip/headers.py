"""The structures of an archive, checked field by field: end records, directory entries and local headers.

Spec: docs/onnxz.md.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, LimitError, TruncatedError
from formats.onnxzip.names import MAX_NAME_BYTES, are_entry_names, broken_by_name, broken_by_names
from formats.onnxzip.records import (
    DIRECTORY_ENTRY,
    DIRECTORY_ENTRY_START,
    DIRECTORY_ENTRY_ZEROS,
    END,
    EXTRA,
    LOCAL_HEADER,
    MAX_EXTRA_BYTES,
    PADDING_ID,
    SENTINEL_32,
    SHARED_ROWS,
    STORED,
    VERSION_ZIP64,
    WRITTEN_DIRECTORY_ENTRY,
    ZIP64_END,
    ZIP64_ID,
    ZIP64_LOCATOR,
    ZIP64_RECORD_SIZE,
    Entry,
    Structure,
    sentinel,
)

if TYPE_CHECKING:
    from formats.tensordata.sources.source import Source

# The fields that can have only one value, the meaning of another value, and the requirement.
_DISKS = "multi-disk archives are not allowed"
_COMMENTS = "comments are not allowed"
_ENTRY_RULES = (
    ("flags", 0, "encryption, sizes after the data and non-ASCII names are not allowed", "Z-3.3"),
    ("method", STORED, "it is compressed, which is not allowed", "Z-3.4"),
    ("comment_length", 0, _COMMENTS, "Z-5.2"),
    ("disk_start", 0, _DISKS, "Z-5.3"),
)
_END_RULES = (
    ("disk", 0, _DISKS, "Z-5.7"),
    ("directory_disk", 0, _DISKS, "Z-5.7"),
    ("comment_length", 0, _COMMENTS, "Z-2.1"),
)
_ZIP64_END_RULES = (
    ("disk", 0, _DISKS, "Z-5.10"),
    ("directory_disk", 0, _DISKS, "Z-5.10"),
    ("record_size", ZIP64_RECORD_SIZE, "extensible data are not allowed", "Z-5.10"),
)
_ZIP64_LOCATOR_RULES = (
    ("record_disk", 0, _DISKS, "Z-5.11"),
    ("disks", 1, _DISKS, "Z-5.11"),
)
_SPECIAL_FILE = 0x18  # FAT: a directory or a volume label
_REGULAR_FILE = (0, 8)  # the file type in the top four bits: unknown, or Unix's number of a regular file
_NOT_WRITTEN = b"", 0, 0, 0, 0, b"", 0
_MAX_DIRECTORY_ENTRY_BYTES = DIRECTORY_ENTRY.nbytes + MAX_NAME_BYTES + EXTRA.nbytes + 3 * 8


class Directory(NamedTuple):
    """The place of the directory, and its number of entries."""

    file_offset: int
    nbytes: int
    entries: int

    @property
    def end(self) -> int:
        """The file offset of the first byte after it."""
        return self.file_offset + self.nbytes


class Listing(NamedTuple):
    """All entries of the directory as columns: there may be very many."""

    names: list[str]
    positions: array[int]  # in the bytes of the directory
    as_written: list[Entry | None]  # if our writer writes it so, and its header and payload end where the next begins


class Fields(NamedTuple):
    """An entry in the directory: all fields, and the complete sizes and offset."""

    name: str
    fields: dict[str, int]
    full: dict[str, int]
    end: int  # of the entry in the directory


def read_end(source: Source) -> Directory:
    """The directory according to the end records, which must be the last bytes of the file."""
    end_offset = source.nbytes - END.nbytes
    end = _read(END, source, end_offset, "Z-2.1")
    _check_rules(END.title, end, _END_RULES, end_offset)
    names = ("entries_on_disk", "entries", "directory_size", "directory_offset")
    if any(end[name] == sentinel(name) for name in names):
        locator_offset = end_offset - ZIP64_LOCATOR.nbytes
        locator = _read(ZIP64_LOCATOR, source, locator_offset, "Z-5.8")
        _check_rules(ZIP64_LOCATOR.title, locator, _ZIP64_LOCATOR_RULES, locator_offset)
        directory_end = locator_offset - ZIP64_END.nbytes
        if locator["record_offset"] != directory_end:
            message = (
                f"the zip64 locator points to byte {locator['record_offset']}; the record must end where it begins"
            )
            raise DecodeError(message, file_offset=locator_offset, requirement="Z-5.11")
        full = _read(ZIP64_END, source, directory_end, "Z-5.9")
        _check_rules(ZIP64_END.title, full, _ZIP64_END_RULES, directory_end)
        is_needed = any(full[name] >= sentinel(name) for name in names)
        for name in names:
            if end[name] != min(full[name], sentinel(name)):
                message = f"{name} is {end[name]} in the end record and {full[name]} in the zip64 one"
                raise DecodeError(message, file_offset=end_offset, requirement="Z-5.9" if is_needed else "Z-5.8")
    else:
        directory_end, full = end_offset, end
    directory = Directory(full["directory_offset"], full["directory_size"], full["entries"])
    if full["entries_on_disk"] != directory.entries:
        message = f"{full['entries_on_disk']} of {directory.entries} entries are on this disk, but all must be"
        raise DecodeError(message, file_offset=end_offset, requirement="Z-5.7")
    if directory.end != directory_end:
        message = f"the directory ends at byte {directory.end}, but the end records begin at {directory_end}"
        raise DecodeError(message, file_offset=end_offset, requirement="Z-2.4")
    least, most = (directory.entries * n for n in (DIRECTORY_ENTRY.nbytes, _MAX_DIRECTORY_ENTRY_BYTES))
    if not least <= directory.nbytes <= most:
        message = f"the directory has {directory.nbytes} bytes, but {directory.entries} entries need {least} to {most}"
        raise LimitError(message, file_offset=end_offset, requirement="Z-5.1")
    return directory


def list_entries(data: bytes, directory: Directory) -> Listing:
    """All entries of the directory, whose bytes are `data`.

    Raises: DecodeError for the first one that is not allowed in an archive, or if all of them do not fit together.
    """
    listing = Listing([], array("Q"), [])
    try:
        _add_entries(listing, data, directory.file_offset)
    finally:  # even after an error: a wrong name before it comes first
        if not are_entry_names(listing.names):
            for position in listing.positions:
                fields_of(data, position, directory.file_offset)
    if len(listing.names) != directory.entries:
        message = f"the directory has {len(listing.names)} entries, but the end record says {directory.entries}"
        raise DecodeError(message, requirement="Z-5.1")
    if broken := broken_by_names(listing.names):
        requirement, message = broken
        raise DecodeError(message, requirement=requirement)
    return listing


def _add_entries(listing: Listing, data: bytes, directory_offset: int) -> None:
    """Add the entries of the directory; those that are as our writer writes them need only a check of their names.

    Raises: DecodeError.
    """
    names, positions, as_written = listing
    unpack, fixed_nbytes = WRITTEN_DIRECTORY_ENTRY.unpack_from, DIRECTORY_ENTRY.nbytes
    position, last = 0, len(data) - fixed_nbytes
    last_row: tuple[str, int, int, int] | None = None  # of the entry before this one, if it is as written
    while position < len(data):
        row = unpack(data, position) if position <= last else _NOT_WRITTEN
        start, crc32, compressed_nbytes, nbytes, name_length, zeros, header_offset = row
        stop = position + fixed_nbytes + name_length
        is_ours = (
            start == DIRECTORY_ENTRY_START
            and zeros == DIRECTORY_ENTRY_ZEROS
            and compressed_nbytes == nbytes
            and stop <= len(data)
        )
        if is_ours and nbytes < SENTINEL_32 > header_offset:
            name = data[position + fixed_nbytes : stop].decode("latin-1")
            if positions:
                as_written.append(_up_to(header_offset, last_row))
            last_row = name, header_offset, nbytes, crc32
        else:
            fields = fields_of(data, position, directory_offset)
            name, stop = fields.name, fields.end
            if positions:
                as_written.append(None)
            last_row = None
        names.append(name)
        positions.append(position)
        position = stop
    if positions:
        as_written.append(_up_to(directory_offset, last_row))


def _up_to(end: int, row: tuple[str, int, int, int] | None) -> Entry | None:
    """The entry with this name, offset, size and CRC-32 if it can be as written, and the next one begins at `end`."""
    if row is None:
        return None
    name, file_offset, nbytes, crc32 = row
    padding_nbytes = end - file_offset - nbytes - LOCAL_HEADER.nbytes - len(name)
    is_padding = EXTRA.nbytes <= padding_nbytes <= MAX_EXTRA_BYTES
    return Entry(name, file_offset, nbytes, padding_nbytes, crc32) if is_padding else None


def fields_of(data: bytes, position: int, directory_offset: int) -> Fields:
    """The entry at `position` of the directory, which is at `directory_offset` of the file.

    Raises: DecodeError if it is not allowed in an archive.
    """
    file_offset = directory_offset + position
    fields = DIRECTORY_ENTRY.unpack(data, position, file_offset=directory_offset, requirement="Z-5.1")
    extra_position = position + DIRECTORY_ENTRY.nbytes + fields["name_length"]
    name = _name(data[position + DIRECTORY_ENTRY.nbytes : extra_position], file_offset)
    _check_rules(f"directory entry of {name}", fields, _ENTRY_RULES, file_offset)
    if fields["version_needed"] > VERSION_ZIP64:
        message = f"entry {name} needs version {fields['version_needed']} of zip, but the newest allowed is 45"
        raise DecodeError(message, file_offset=file_offset, requirement="Z-3.5")
    attributes = fields["external_attributes"]
    if attributes & _SPECIAL_FILE or attributes >> 28 not in _REGULAR_FILE:
        message = f"entry {name} is a directory, a link or a device"
        raise DecodeError(message, file_offset=file_offset, requirement="Z-5.4")
    end = extra_position + fields["extra_length"]
    if end > len(data):
        message = f"the directory ends inside the entry of {name}"
        raise TruncatedError(message, file_offset=file_offset, requirement="Z-5.1")
    extra = _extra(data[extra_position:end], (ZIP64_ID,), name, file_offset, "Z-5.5")
    full = _full(fields, ("size", "compressed_size", "header_offset"), extra, name, file_offset, "Z-5.6")
    if full["compressed_size"] != full["size"]:
        message = f"entry {name} is stored, but its {full['size']} bytes take {full['compressed_size']}"
        raise DecodeError(message, file_offset=file_offset, requirement="Z-3.6")
    return Fields(name, fields, full, end)


def local_entry(source: Source, listed: Fields, position: int, limit: int) -> Entry:
    """The entry whose local header is at `position`, if it agrees with the directory and ends before `limit`."""
    name = listed.name
    if listed.full["header_offset"] != position:
        message = f"entry {name} begins at byte {listed.full['header_offset']}, not where the one before it ends"
        raise DecodeError(message, file_offset=position, requirement="Z-2.2")
    fixed = source.read(position, min(LOCAL_HEADER.nbytes + len(name), limit - position))
    if len(fixed) < LOCAL_HEADER.nbytes + len(name):
        raise _beyond(name, limit, position)
    fields = LOCAL_HEADER.unpack(fixed, file_offset=position, requirement="Z-3.1")
    for field, _ in SHARED_ROWS:
        if fields[field] != listed.fields[field]:
            message = f"{field} of entry {name} is {fields[field]}, but {listed.fields[field]} in the directory"
            raise DecodeError(message, file_offset=position, requirement="Z-3.2")
    if fixed[LOCAL_HEADER.nbytes :] != name.encode():
        message = f"entry {name} of the directory has another name in its header"
        raise DecodeError(message, file_offset=position, requirement="Z-3.2")
    extra_offset = position + len(fixed)
    if extra_offset + fields["extra_length"] > limit:
        raise _beyond(name, limit, position)
    data = source.read(extra_offset, fields["extra_length"])
    extra = _extra(data, (ZIP64_ID, PADDING_ID), name, extra_offset, "Z-3.7")
    full = _full(fields, ("size", "compressed_size"), extra, name, extra_offset, "Z-3.9")
    if any(full[field] != listed.full[field] for field in ("size", "compressed_size")):
        message = f"the sizes of entry {name} differ from those in the directory"
        raise DecodeError(message, file_offset=position, requirement="Z-3.9")
    padding = extra.get(PADDING_ID)
    if padding and any(padding):
        message = f"the padding of entry {name} is not all zeros"
        raise DecodeError(message, file_offset=extra_offset, requirement="Z-3.8")
    padding_nbytes = 0 if padding is None else EXTRA.nbytes + len(padding)
    entry = Entry(name, position, full["size"], padding_nbytes, fields["crc32"])
    if entry.end > limit:
        raise _beyond(name, limit, position)
    return entry


def _beyond(name: str, limit: int, position: int) -> LimitError:
    message = f"entry {name} reaches beyond byte {limit}, where the directory begins"
    return LimitError(message, file_offset=position, requirement="Z-2.5")


def _read(structure: Structure, source: Source, file_offset: int, requirement: str) -> dict[str, int]:
    """The fields of the structure that must be at `file_offset`, which may be before the file's first byte."""
    file_offset = max(0, file_offset)
    data = source.read(file_offset, min(structure.nbytes, source.nbytes - file_offset))
    return structure.unpack(data, file_offset=file_offset, requirement=requirement)


def _check_rules(
    title: str, fields: dict[str, int], rules: tuple[tuple[str, int, str, str], ...], file_offset: int
) -> None:
    for field, value, reason, requirement in rules:
        if fields[field] != value:
            message = f"{field} of the {title} is {fields[field]}, not {value}: {reason}"
            raise DecodeError(message, file_offset=file_offset, requirement=requirement)


def _name(data: bytes, file_offset: int) -> str:
    name = data.decode("ascii", "replace")
    requirement = broken_by_name(name)
    if requirement:
        later = "; the archive may have a later version of the format" if requirement == "Z-4.4" else ""
        message = f"an entry is called {name!r:.80}, which is not an allowed name{later}"
        raise DecodeError(message, file_offset=file_offset, requirement=requirement)
    return name


def _extra(data: bytes, allowed: tuple[int, ...], name: str, file_offset: int, requirement: str) -> dict[int, bytes]:
    """The records of an extra field by their id; each of the `allowed` ones at most once."""
    records: dict[int, bytes] = {}
    position = 0
    while position < len(data):
        record = EXTRA.unpack(data, position, file_offset=file_offset, requirement=requirement)
        begin = position + EXTRA.nbytes
        position = begin + record["data_length"]
        if position > len(data):
            message = f"the extra field of entry {name} is cut short"
            raise LimitError(message, file_offset=file_offset, requirement=requirement)
        if record["id"] not in allowed or record["id"] in records:
            message = f"entry {name} has an extra record {record['id']:#06x}, which is not allowed here"
            raise DecodeError(message, file_offset=file_offset, requirement=requirement)
        records[record["id"]] = data[begin:position]
    return records


def _full(
    fields: dict[str, int],
    names: tuple[str, ...],
    extra: dict[int, bytes],
    entry: str,
    file_offset: int,
    requirement: str,
) -> dict[str, int]:
    """The fields, with those of `names` from the zip64 record if they do not fit in 32 bits."""
    large = [name for name in names if fields[name] == SENTINEL_32]
    data = extra.get(ZIP64_ID)
    if data is None and not large:
        return fields
    if (data is None) != (not large) or (data is not None and len(data) != 8 * len(large)):
        message = f"the zip64 record of entry {entry} must hold {len(large)} values"
        raise DecodeError(message, file_offset=file_offset, requirement=requirement)
    values: tuple[int, ...] = struct.unpack(f"<{len(large)}Q", data or b"")
    full = fields | dict(zip(large, values, strict=True))
    if any(full[name] < SENTINEL_32 for name in large):
        message = f"the zip64 record of entry {entry} holds a value that needs no zip64"
        raise DecodeError(message, file_offset=file_offset, requirement=requirement)
    return full
