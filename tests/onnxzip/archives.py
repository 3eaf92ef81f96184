"""Archives made by hand, field by field, for tests of readers.

The zip structures and the messages are packed here by hand, so that the code under test does not write its own test
data.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from formats.tensordata.sources.source import Source

MAX_16, MAX_32 = 0xFFFF, 0xFFFF_FFFF
LOCAL_FIELDS = {"needed": 20, "flags": 0, "method": 0, "time": 0, "date": 33}
LOCAL_FIELDS |= dict.fromkeys(("crc", "packed", "size", "name_length"), 0)
CENTRAL_FIELDS = dict(
    made_by=20, **LOCAL_FIELDS, extra_length=None, comment_length=0, disk=0, internal=0, external=0, offset=None
)
DATA = bytes(range(8))


@dataclass
class Member:
    """One file of a hand-made archive; `local` and `central` change fields, all other fields are correct."""

    name: bytes
    data: bytes = b""
    local: dict[str, int] = field(default_factory=dict)
    central: dict[str, int] = field(default_factory=dict)
    local_name: bytes | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    gap: bytes = b""  # bytes before the local header
    after: bytes = b""  # bytes after the payload
    hidden: bool = False  # not in the directory

    def both(self, **fields: int) -> Member:
        """Change a field in both places."""
        self.local |= fields
        self.central |= fields
        return self

    def values(self, extra: bytes) -> dict[str, int]:
        """Return the correct values of the fields."""
        size = len(self.data)
        sizes = {"packed": size, "size": size, "name_length": len(self.name), "extra_length": len(extra)}
        return {"crc": zlib.crc32(self.data), **sizes}

    def local_bytes(self) -> bytes:
        """Return local header and payload."""
        fields = {**LOCAL_FIELDS, "extra_length": 0, **self.values(self.local_extra), **self.local}
        name = self.name if self.local_name is None else self.local_name
        return b"PK\3\4" + struct.pack("<5H3I2H", *fields.values()) + name + self.local_extra + self.data + self.after

    def central_bytes(self, offset: int) -> bytes:
        """Return the directory entry."""
        right = dict(**self.values(self.central_extra), comment_length=len(self.comment), offset=offset)
        fields = CENTRAL_FIELDS | right | self.central
        header = b"PK\1\2" + struct.pack("<6H3I5H2I", *fields.values())
        return header + self.name + self.central_extra + self.comment


@dataclass(frozen=True)
class Zip:
    """A hand-made archive; `end`, `end64` and `locator` change fields of the end records."""

    members: list[Member]
    end: dict[str, int] = field(default_factory=dict)
    zip64: bool = False
    end64: dict[str, int] = field(default_factory=dict)
    locator: dict[str, int] = field(default_factory=dict)
    end64_signature: bytes = b"PK\6\6"
    before: bytes = b""  # bytes before the first local header
    before_directory: bytes = b""
    after_directory: bytes = b""
    after: bytes = b""  # bytes after the end record
    shift: int = 0  # added to the directory's offset

    def but(self, **changes: Any) -> Zip:
        """Return the archive with some arguments changed."""
        return replace(self, **changes)

    def bytes(self) -> bytes:
        """Return the archive."""
        data, directory, count = self.before, b"", 0
        for member in self.members:
            data += member.gap
            if not member.hidden:
                directory += member.central_bytes(len(data))
                count += 1
            data += member.local_bytes()
        data += self.before_directory
        places = {"on_disk": count, "entries": count, "size": len(directory), "offset": len(data) + self.shift}
        data += directory + self.after_directory
        if self.zip64:
            end64 = {"record_size": 44, "made_by": 45, "needed": 45, "disk": 0, "start": 0} | places | self.end64
            locator = {"disk": 0, "offset": len(data), "disks": 1} | self.locator
            data += self.end64_signature + struct.pack("<Q2H2I4Q", *end64.values())
            data += b"PK\6\7" + struct.pack("<IQI", *locator.values())
            places = {"on_disk": MAX_16, "entries": MAX_16, "size": MAX_32, "offset": MAX_32}
        end = {"disk": 0, "start": 0} | places | {"comment_length": 0} | self.end
        return data + b"PK\5\6" + struct.pack("<4H2IH", *end.values()) + self.after


# Messages


def varint(value: int, nbytes: int = 1) -> bytes:
    """Return a varint that has at least this many bytes."""
    output = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80 or len(output) < nbytes - 1:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*output, value))


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag of a field."""
    return varint(number << 3 | wire_type)


def number(field_number: int, value: int) -> bytes:
    """Return a field with a varint."""
    return tag(field_number, 0) + varint(value)


def message(field_number: int, *parts: bytes) -> bytes:
    """Return a field with a length, such as a message or a string."""
    data = b"".join(parts)
    return tag(field_number, 2) + varint(len(data)) + data


def group(field_number: int, *parts: bytes) -> bytes:
    """Return a field that is a group."""
    return tag(field_number, 3) + b"".join(parts) + tag(field_number, 4)


def entry(key: bytes | None, value: bytes | None) -> bytes:
    """Return an entry of `external_data`."""
    return message(13, *(message(n, text) for n, text in ((1, key), (2, value)) if text is not None))


def external(**values: str) -> bytes:
    """Return entries of `external_data`."""
    return b"".join(entry(key.encode(), value.encode()) for key, value in values.items())


EXTERNAL = number(14, 1)
PLACE = external(location="w", length="8")


def tensor(
    location: str = "w",
    dims: tuple[int, ...] = (8,),
    data_type: int | None = 2,
    places: bytes | None = None,
    more: bytes = b"",
    data_location: bytes = EXTERNAL,
) -> bytes:
    """Return the fields of a tensor, by default of 8 bytes in the entry `location`."""
    if places is None:
        places = external(location=location, length="8")
    types = b"" if data_type is None else number(2, data_type)
    return b"".join(number(1, dim) for dim in dims) + types + message(8, b"w") + places + data_location + more


TENSOR = tensor()
OWN = tensor(places=b"", data_location=b"", more=message(9, bytes(8)))  # the tensor contains its data


def of_graph(*parts: bytes) -> bytes:
    """Return a ModelProto whose graph has these fields."""
    return number(1, 10) + message(7, message(2, b"g"), *parts)


def model(*tensors: bytes) -> bytes:
    """Return a ModelProto with these initialisers."""
    return of_graph(*(message(5, fields) for fields in tensors))


# Archives


def weight(name: bytes = b"w", **fields: Any) -> Member:
    """Return a member with 8 bytes."""
    return Member(name, DATA, **fields)


def proto(*tensors: bytes) -> Member:
    """Return the graph's member, by default with one tensor in `w`."""
    return Member(b"__MODEL_PROTO", model(*(tensors or (TENSOR,))))


def around(graph: bytes, data: bytes = DATA) -> Zip:
    """Return an archive with a ModelProto, and an entry `w`."""
    return Zip([Member(b"w", data), Member(b"__MODEL_PROTO", graph)])


def of(*tensors: bytes, data: bytes = DATA) -> Zip:
    """Return an archive with these initialisers, and an entry `w`."""
    return around(model(*tensors), data)


def extra(record_id: int, data: bytes) -> bytes:
    """Return an extra record."""
    return struct.pack("<2H", record_id, len(data)) + data


def zip64(*values: int) -> bytes:
    """Return a zip64 extra record."""
    return extra(1, struct.pack(f"<{len(values)}Q", *values))


def padded(member: Member) -> Member:
    """Give a member our padding."""
    member.local_extra = extra(0x5A4F, bytes(20))
    return member


PLAIN = Zip([weight(), proto()])
BIG = 5 << 30


def bytes_of(archive: Zip | bytes) -> bytes:
    """Return the bytes of an archive."""
    return archive if isinstance(archive, bytes) else archive.bytes()


def one(**changes: Any) -> Zip:
    """Return an archive whose entry `w` has other fields in the local header and in the directory."""
    return Zip([weight().both(**changes), proto()])


def listed(**changes: Any) -> Zip:
    """Return an archive whose entry `w` has other fields in the directory."""
    return Zip([weight(central=changes), proto()])


def named(*names: bytes) -> Zip:
    """Return an archive with entries of these names, and a tensor in each."""
    places = [external(length="8") + entry(b"location", name) for name in names]
    return Zip([*map(weight, names), proto(*(tensor(places=place) for place in places))])


def with_extra(local: bytes, central: bytes = b"", **changes: int) -> Zip:
    """Return an archive whose entry `w` has extra fields."""
    return Zip([weight(local_extra=local, central_extra=central).both(**changes), proto()])


def graph(name: bytes, *tensors: bytes) -> Member:
    """Return the member of a graph with a name, by default with one tensor in `w`."""
    return Member(b"__MODEL_PROTO_" + name, model(*(tensors or (TENSOR,))))


def bundle(*graphs: Member) -> Zip:
    """Return an archive with these graphs before the default one."""
    return Zip([weight(), *graphs, proto()])


def a_file(name: bytes) -> Member:
    """Return the member of a file."""
    return Member(b"files/" + name, b"text")


def filed(*names: bytes) -> Zip:
    """Return an archive with files of these names."""
    return Zip([weight(), *map(a_file, names), proto()])


def hashes_of(*members: Member, change: Callable[[bytes], bytes] = bytes) -> Member:
    """Return the member with the hashes of other members, changed."""
    lines = (b"%b  %b\n" % (hashlib.sha256(each.data).hexdigest().encode(), each.name) for each in members)
    return Member(b"__SHA256SUMS", change(b"".join(lines)))


def hashed(
    *files: Member,
    tensors: tuple[Member, ...] | None = None,
    more: tuple[Member, ...] = (),
    last: Member | None = None,
    change: Callable[[bytes], bytes] = bytes,
) -> Zip:
    """Return an archive with hashes."""
    before = [*((weight(),) if tensors is None else tensors), *files]
    graphs = [*more, last or proto()]
    return Zip([*before, hashes_of(*before, *graphs, change=change), *graphs])


def two_hashes() -> Zip:
    """Return an archive that has hashes twice."""
    first, hashes, last = hashed().members
    return Zip([first, hashes, hashes, last])


def hashes_last() -> Zip:
    """Return an archive whose last entry are the hashes."""
    first, hashes, last = hashed().members
    return Zip([first, last, hashes])


def wrong_order() -> Zip:
    """Return an archive with hashes before a file."""
    first, text = weight(), a_file(b"a")
    return Zip([first, hashes_of(first, text, proto()), text, proto()])


def late_hashes() -> Zip:
    """Return an archive with hashes between two graphs."""
    first, other = weight(), graph(b"a")
    return Zip([first, other, hashes_of(first, other, proto()), proto()])


def end_records(count: int, directory_nbytes: int, file_offset: int, with_zip64: bool, **end: int) -> bytes:
    """Return what follows a directory of this size at this offset."""
    full = {"on_disk": count, "entries": count, "size": directory_nbytes, "offset": file_offset}
    limits = {"on_disk": MAX_16, "entries": MAX_16, "size": MAX_32, "offset": MAX_32}
    data = b""
    if with_zip64:
        data += b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, *full.values())
        data += b"PK\6\7" + struct.pack("<IQI", 0, file_offset + directory_nbytes, 1)
    told = {name: min(value, limits[name]) for name, value in full.items()} | end
    return data + b"PK\5\6" + struct.pack("<4H2IH", 0, 0, *told.values(), 0)


def header_cut(nbytes: int) -> bytes:
    """Return an archive whose directory begins where the last local header has so many bytes."""
    first, last = weight(), proto()
    start = first.local_bytes() + last.local_bytes()[:nbytes]
    directory = first.central_bytes(0) + last.central_bytes(len(first.local_bytes()))
    return start + directory + end_records(2, len(directory), len(start), False)


PADDING = extra(0x5A4F, bytes(20))


class Zeros(Source):
    """Any number of zeros, none of which are stored."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill with zeros."""
        buffer[:] = bytes(len(buffer))

    def slice(self, offset: int, nbytes: int) -> Zeros:
        """Return fewer zeros."""
        return Zeros(nbytes)

    def view(self) -> memoryview:
        """Refuse to create any of them."""
        raise AssertionError("nobody may look at all the zeros")
