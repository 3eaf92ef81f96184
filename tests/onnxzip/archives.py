"""Archives made by hand, field by field, for tests of readers: each breaks one requirement, or almost breaks it.

The zip structures and the messages are packed here by hand, so that the code under test does not write its own test
data. `ROWS` and `LARGE_ROWS` become the test vectors, `golden/vectors.json` and `large.json`.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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


class Row(NamedTuple):
    """A requirement, an archive that breaks it, the reason that our reader gives, and a similar archive that is valid.

    Either archive may be missing. `breaks` is the requirement that the refused archive breaks, if it is not
    `requirement`. If `is_model` is false, the graph in the valid archive is not a valid ONNX model.
    """

    requirement: str
    name: str
    refused: Zip | bytes | None
    reason: str
    taken: Zip | bytes | None = PLAIN
    is_model: bool = True
    breaks: str = ""


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
LARGE_SIZES = {"size": MAX_32, "packed": MAX_32}
THE_FILE: list[Row] = [
    Row("Z-2.1", "nothing", b"", "needed 22 bytes"),
    Row("Z-2.1", "comment", PLAIN.but(after=b"hello", end={"comment_length": 5}), "end record"),
    Row("Z-2.1", "hidden comment", PLAIN.but(end={"comment_length": 5}), "comments are not allowed"),
    Row("Z-2.1", "trailing byte", PLAIN.but(after=b"\0"), "end record"),
    Row("Z-2.1", "last byte missing", PLAIN.bytes()[:-1], "end record"),
    Row("Z-2.1", "other signature", PLAIN.bytes().replace(b"PK\5\6", b"PK\5\7"), "end record"),
    Row("Z-2.2", "second archive", PLAIN.but(before=PLAIN.bytes()), "not where the one before it ends"),
    Row("Z-2.2", "prepended data", PLAIN.but(before=b"#!/bin/sh\n"), "not where the one before it ends"),
    Row(
        "Z-2.2",
        "gap",
        Zip([weight(), Member(**{**vars(proto()), "gap": b"\0"})]),
        "not where the one before it ends",
    ),
    Row("Z-2.2", "hidden entry", Zip([weight(), weight(b"x", hidden=True), proto()]), "not where the one before it"),
    Row("Z-2.2", "same offset", Zip([weight(), weight(b"v", central={"offset": 0}), proto()]), "entry v begins at"),
    Row("Z-2.2", "order", listed(offset=39), "entry w begins at byte 39"),
    Row("Z-2.2", "too large", one(size=9, packed=9), "not where the one before it ends"),
    Row("Z-2.2", "data descriptor", PLAIN.but(members=[weight(after=bytes(12)), proto()]), "not where the one before"),
    Row("Z-2.3", "gap before directory", PLAIN.but(before_directory=b"\0"), "1 bytes before the directory"),
    Row("Z-2.4", "gap after directory", PLAIN.but(after_directory=b"\0"), "the end records begin at"),
    Row("Z-2.4", "directory elsewhere", PLAIN.but(shift=-1), "the directory ends at byte"),
    Row("Z-2.4", "size of the directory", PLAIN.but(end={"size": 100}), "the directory ends at byte"),
    Row("Z-2.5", "beyond directory", Zip([proto(OWN).both(size=999, packed=999)]), "reaches beyond", Zip([proto(OWN)])),
    Row(
        "Z-2.5",
        "extra field beyond directory",
        Zip([Member(b"__MODEL_PROTO", model(OWN), local={"extra_length": 999})]),
        "reaches beyond",
        Zip([proto(OWN)]),
    ),
    *(Row("Z-2.5", f"header cut at {nbytes} bytes", header_cut(nbytes), "reaches beyond") for nbytes in (4, 29)),
    Row(
        "Z-2.5",
        "zip64 sizes beyond the file",
        with_extra(zip64(BIG, BIG), zip64(BIG, BIG), **LARGE_SIZES),
        "reaches beyond",
    ),
]
ENTRIES: list[Row] = [
    Row("Z-3.1", "no local header", PLAIN.bytes().replace(b"PK\3\4", b"PK\3\5", 1), "the local header"),
    *(
        Row("Z-3.2", f"{name} differs", Zip([weight(local={key: value}), proto()]), f"{name} of entry w is", good)
        for name, key, value, good in (
            ("version_needed", "needed", 10, one(needed=10)),
            ("flags", "flags", 8, PLAIN),
            ("method", "method", 8, PLAIN),
            ("time", "time", 1, one(time=1)),
            ("date", "date", 34, one(date=34)),
            ("crc32", "crc", 1, one(crc=1)),  # this test does not check the checksum
            ("compressed_size", "packed", 7, PLAIN),
            ("size", "size", 9, PLAIN),
            ("name_length", "name_length", 0, PLAIN),
        )
    ),
    Row("Z-3.2", "other name", Zip([weight(local_name=b"v"), proto()]), "has another name in its header"),
    Row("Z-3.2", "other case", Zip([weight(local_name=b"W"), proto()]), "has another name in its header"),
    Row("Z-3.3", "encrypted", one(flags=1), "encryption"),
    Row("Z-3.3", "sizes afterwards", one(flags=8), "sizes after the data"),
    Row("Z-3.3", "UTF-8 flag", one(flags=0x800), "non-ASCII names"),
    *(Row("Z-3.4", f"method {n}", one(method=n), "it is compressed") for n in (1, 8, 14, 93, 0xFFFF)),
    Row("Z-3.5", "newer zip", one(needed=46), "needs version 46", one(needed=45)),
    Row("Z-3.5", "version with a system", one(needed=0x314), "needs version 788", one(needed=0)),
    Row("Z-3.6", "packed size", one(packed=7), "8 bytes take 7"),
    Row("Z-3.6", "zip64 packed size", with_extra(zip64(BIG), zip64(BIG), packed=MAX_32), "8 bytes take"),
    Row("Z-3.6", "zip64 sizes", with_extra(zip64(BIG, BIG), zip64(BIG, BIG + 1), **LARGE_SIZES), "bytes take"),
    Row("Z-3.7", "foreign extra", with_extra(extra(0x5455, bytes(5))), "extra record 0x5455", with_extra(PADDING)),
    Row("Z-3.7", "padding of another", with_extra(extra(0xA11E, bytes(4))), "extra record 0xa11e", with_extra(PADDING)),
    Row(
        "Z-3.7",
        "padding twice",
        with_extra(2 * extra(0x5A4F, b"")),
        "extra record 0x5a4f",
        with_extra(extra(0x5A4F, b"")),
    ),
    Row(
        "Z-3.7",
        "cut extra record",
        with_extra(extra(0x5A4F, bytes(4))[:-1]),
        "cut short",
        with_extra(extra(0x5A4F, bytes(3))),
    ),
    Row("Z-3.7", "cut extra header", with_extra(b"\x4f\x5a\0"), "4 bytes for the extra record"),
    Row("Z-3.7", "bytes behind the padding", with_extra(PADDING + b"\0"), "4 bytes for the extra", with_extra(PADDING)),
    Row(
        "Z-3.8",
        "data in the padding",
        with_extra(extra(0x5A4F, b"\0\0\1")),
        "not all zeros",
        with_extra(extra(0x5A4F, b"\0\0\0")),
    ),
    Row("Z-3.9", "needless zip64", with_extra(zip64(8, 8)), "must hold 0 values"),
    Row("Z-3.9", "empty zip64", with_extra(zip64()), "must hold 0 values"),
    Row("Z-3.9", "zip64 missing", with_extra(b"", zip64(BIG, BIG), **LARGE_SIZES), "must hold 2 values"),
    Row("Z-3.9", "one size of two", with_extra(zip64(BIG), zip64(BIG, BIG), **LARGE_SIZES), "must hold 2 values"),
    Row("Z-3.9", "three sizes", with_extra(zip64(BIG, BIG, 0), zip64(BIG, BIG), **LARGE_SIZES), "must hold 2 values"),
    Row(
        "Z-3.9",
        "zip64 sizes differ",
        with_extra(zip64(BIG, BIG + 1), zip64(BIG, BIG), **LARGE_SIZES),
        "differ from those in the directory",
    ),
    Row("Z-3.9", "small zip64 sizes", with_extra(zip64(8, 8), zip64(BIG, BIG), **LARGE_SIZES), "needs no zip64"),
    *(
        Row("Z-3.10", f"{name}", None, "", archive)
        for name, archive in (
            ("any time", one(time=0xFFFF, date=0xFFFF)),
            ("no date", one(date=0)),
            ("wrong checksum", one(crc=0)),
            ("padding without data", with_extra(extra(0x5A4F, b""))),
            ("long padding", with_extra(extra(0x5A4F, bytes(4_000)))),
            ("padding in one entry", Zip([padded(weight()), proto()])),
            ("odd offsets", Zip([weight(b"odd"), proto(tensor("odd"))])),
        )
    ),
]
NAMES: list[Row] = [
    Row("Z-4.1", "not an entry", Zip([]), "the last entry is not __MODEL_PROTO", Zip([proto(OWN)])),
    Row("Z-4.1", "no graph", Zip([weight()]), "the last entry is not __MODEL_PROTO"),
    Row("Z-4.1", "graph first", Zip([proto(), weight()]), "the last entry is not __MODEL_PROTO"),
    *(
        Row("Z-4.2", f"name {name!r}", named(name), "not an allowed name")
        for name in (b"../w", b"/w", b"w/", b"C:w", b"w\0", b"w.bin", b"w w", b"", b"w\xc3\xa9", b"0", b"w-1")
    ),
    Row("Z-4.2", "name of 63 kinds", None, "", named(b"_aZ09", b"Z", b"_", b"a_")),
    Row("Z-4.3", "long name", named(b"w" * 256), "not an allowed name", named(b"w" * 255)),
    *(
        Row("Z-4.4", f"name {name!r}", named(name), "later version", named(name[1:]))
        for name in (b"__w", b"__", b"__model_proto", b"__MODEL_PROTO2", b"__sha256sums", b"__SHA256SUMS_", b"__files")
    ),
    *(
        Row("Z-4.4", f"graph {name!r}", bundle(Member(name, model(TENSOR))), "later version", bundle(graph(good)))
        for name, good in (
            (b"__MODEL_PROTO_", b"_"),
            (b"__MODEL_PROTO2", b"2"),
            (b"__model_proto_a", b"a"),
            (b"__MODEL_proto", b"proto"),
            (b"__METADATA", b"METADATA"),
        )
    ),
    *(
        Row("Z-4.2", f"graph {name!r}", bundle(graph(name)), "not an allowed name", bundle(graph(good)))
        for name, good in ((b"a-b", b"a_b"), (b"a.onnx", b"a_onnx"), (b"a/b", b"aXb"), (b"\xc3\xa9", b"e"))
    ),
    *(
        Row("Z-4.5", f"name {name!r}", named(name), "not an allowed name", named(name + b"_"))
        for name in (b"con", b"CON", b"Prn", b"aux", b"nul", b"com0", b"Com9", b"lpt1", b"LPT0")
    ),
    Row("Z-4.5", "names like devices", None, "", named(b"con1", b"com", b"com10", b"lpt", b"null", b"clock")),
    Row("Z-4.6", "two graphs", Zip([weight(), proto(), proto()]), "two entries are called"),
    Row("Z-4.6", "same name", Zip([weight(), weight(), proto()]), "two entries are called w and w"),
    Row("Z-4.6", "same but for case", named(b"w", b"W"), "two entries are called w and W", named(b"w", b"V")),
    Row(
        "Z-4.6",
        "graphs but for case",
        bundle(graph(b"a"), graph(b"A")),
        "two entries",
        bundle(graph(b"a"), graph(b"B")),
    ),
    Row("Z-4.6", "hashes twice", two_hashes(), "two entries", hashed()),
    Row("Z-4.6", "files but for case", filed(b"a", b"A"), "two entries", filed(b"a", b"B")),
    Row("Z-4.3", "long name of a graph", bundle(graph(b"g" * 242)), "not an allowed name", bundle(graph(b"g" * 241))),
    Row("Z-4.3", "long name of a file", filed(b"f" * 250), "not an allowed name", filed(b"f" * 249)),
    Row("Z-4.1", "hashes last", hashes_last(), "the last entry is not", hashed()),
    Row("Z-4.1", "file last", Zip([weight(), proto(), a_file(b"a")]), "the last entry is not", filed(b"a")),
    Row("Z-4.1", "files only", Zip([a_file(b"a")]), "the last entry is not", Zip([a_file(b"a"), proto(OWN)])),
    Row(
        "Z-4.1", "graphs of every name", None, "", bundle(graph(b"0"), graph(b"_"), graph(b"con"), graph(b"SHA256SUMS"))
    ),
    Row("Z-4.1", "a graph with a name only", None, "", Zip([weight(), graph(b"a")])),
    Row("Z-4.1", "graphs with names only", None, "", Zip([weight(), graph(b"b"), graph(b"a")])),
    *(
        Row("Z-4.7", f"file {name!r}", filed(name), "not an allowed name", filed(good))
        for name, good in (
            (b"", b"a"),
            (b"/a", b"a"),
            (b"a/", b"a"),
            (b"a//b", b"a/b"),
            (b".", b"a"),
            (b"..", b"a.b"),
            (b"../w", b"w"),
            (b"a/../w", b"a/w"),
            (b"a/./w", b"a/w"),
            (b".a", b"_a"),
            (b"-a", b"a-"),
            (b"a.", b"a.b"),
            (b"a./b", b"a.a/b"),
            (b"a b", b"a_b"),
            (b"a:b", b"a-b"),
            (b"a\\b", b"a/b"),
            (b"\xc3\xa9", b"e"),
            (b"a\0", b"a0"),
            (b"a\n", b"a"),
        )
    ),
    Row(
        "Z-4.2",
        "folder in other case",
        Zip([Member(b"FILES/a"), weight(), proto()]),
        "not an allowed name",
        filed(b"a"),
    ),
    Row("Z-4.2", "other folder", Zip([Member(b"data/a"), weight(), proto()]), "not an allowed name", filed(b"data/a")),
    *(
        Row("Z-4.5", f"file {name!r}", filed(name), "not an allowed name", filed(good))
        for name, good in (
            (b"con", b"con_"),
            (b"NUL.txt", b"NULL.txt"),
            (b"com1.tar.gz", b"com10.tar.gz"),
            (b"aux/a", b"aux_/a"),
            (b"a/Prn.b", b"a/b.Prn"),
        )
    ),
    Row("Z-4.8", "file as a folder", filed(b"a", b"a/b"), "which is the folder of", filed(b"a", b"b/a")),
    Row(
        "Z-4.8",
        "file as a folder afterwards",
        filed(b"a/b/c", b"a/b"),
        "which is the folder of",
        filed(b"a/b/c", b"a/c"),
    ),
    Row("Z-4.8", "file as a folder in other case", filed(b"A", b"a/b"), "which is the folder of", filed(b"A", b"ab/b")),
    Row(
        "Z-4.8", "file as a folder of a folder", filed(b"a", b"a/b/c"), "which is the folder of", filed(b"ab", b"a/b/c")
    ),
    *(
        Row(
            "Z-4.8",
            f"tensor {name!r}",
            Zip([weight(name), a_file(b"a"), proto(tensor(name.decode()))]),
            "which is the folder of",
            Zip([weight(name), proto(tensor(name.decode()))]),
        )
        for name in (b"files", b"FILES")
    ),
    Row("Z-4.8", "folders in two cases", None, "", filed(b"a/b", b"A/c")),
    Row("Z-4.9", "file before a tensor", Zip([a_file(b"a"), weight(), proto()]), "must come earlier", filed(b"a")),
    Row("Z-4.9", "hashes before a file", wrong_order(), "must come earlier", hashed(a_file(b"a"))),
    Row(
        "Z-4.9",
        "tensor after a graph",
        Zip([graph(b"a", OWN), weight(), proto()]),
        "must come earlier",
        bundle(graph(b"a")),
    ),
    Row("Z-4.9", "hashes after a graph", late_hashes(), "must come earlier", hashed()),
    Row(
        "Z-4.9",
        "file after a graph",
        Zip([weight(), graph(b"a"), a_file(b"f"), proto()]),
        "must come earlier",
        filed(b"f"),
    ),
    Row(
        "Z-4.9", "default graph first", Zip([weight(), proto(), graph(b"a")]), "must come earlier", bundle(graph(b"a"))
    ),
    *(
        Row("Z-4.10", name, hashed(change=change), "SHA256SUMS", hashed())
        for name, change in (
            ("no hashes", lambda text: b""),
            ("no last line feed", lambda text: text[:-1]),
            ("line feed missing", lambda text: text.replace(b"\n", b" ", 1)),
            ("additional line feed", lambda text: text + b"\n"),
            ("line end of Windows", lambda text: text.replace(b"\n", b"\r\n")),
            ("hash in upper case", lambda text: text[:64].upper() + text[64:]),
            ("hash with another letter", lambda text: b"g" + text[1:]),
            ("hash with a line feed", lambda text: b"\n" + text[1:]),
            ("one space", lambda text: text.replace(b"  ", b" ")),
            ("binary mark", lambda text: text.replace(b"  ", b" *")),
            ("tab", lambda text: text.replace(b"  ", b"\t ")),
            ("other name", lambda text: text.replace(b"  w\n", b"  v\n")),
            ("name in other case", lambda text: text.replace(b"  w\n", b"  W\n")),
            ("name in a folder", lambda text: text.replace(b"  w\n", b"  ./w\n")),
            ("one entry missing", lambda text: text.split(b"\n", 1)[1]),
            ("graph missing", lambda text: text.split(b"\n", 1)[0] + b"\n"),
            ("one entry twice", lambda text: text.split(b"\n", 1)[0] + b"\n" + text),
            ("other order", lambda text: b"".join(reversed(text.splitlines(keepends=True)))),
            ("itself", lambda text: bytes(64).hex().encode()[:64] + b"  __SHA256SUMS\n" + text),
            ("comment", lambda text: b"# SHA-256\n" + text),
        )
    ),
    Row("Z-4.10", "wrong hashes", None, "", hashed(change=lambda text: b"0" * 64 + text[64:])),
    Row("Z-4.10", "hashes of several", None, "", hashed(a_file(b"a"), a_file(b"b/c"), more=(graph(b"a"),))),
    Row("Z-4.10", "hashes of a graph alone", None, "", hashed(tensors=(), last=proto(OWN))),
]
THE_END: list[Row] = [
    Row(
        "Z-5.1",
        "bytes after the last entry",
        PLAIN.but(
            after_directory=bytes(4), end={"size": 4 + sum(len(each.central_bytes(0)) for each in PLAIN.members)}
        ),
        "needed 46 bytes for the directory entry",
    ),
    Row("Z-5.1", "one entry too few", PLAIN.but(end={"on_disk": 1, "entries": 1}), "end record says 1"),
    Row("Z-5.1", "one entry too many", PLAIN.but(end={"on_disk": 3, "entries": 3}), "3 entries need"),
    Row("Z-5.1", "many entries", PLAIN.but(end={"on_disk": 65_000, "entries": 65_000}), "65000 entries need"),
    Row("Z-5.1", "other signature", PLAIN.bytes().replace(b"PK\1\2", b"PK\1\3", 1), "the directory entry"),
    Row(
        "Z-5.1",
        "name beyond the directory",
        Zip([Member(b"__MODEL_PROTO", central={"name_length": 14})]),
        "ends inside",
    ),
    Row("Z-5.2", "entry comment", Zip([weight(comment=b"hello"), proto()]), "comments are not allowed"),
    Row("Z-5.2", "length of a comment that is not there", listed(comment_length=5), "comments are not allowed"),
    Row("Z-5.3", "entry on a disk", listed(disk=1), "multi-disk"),
    *(
        Row(
            "Z-5.4",
            f"{name}, made by {made_by:#06x}",
            listed(external=bad, made_by=made_by),
            "a link or",
            listed(external=good, made_by=made_by),
        )
        for made_by in (0x2D, 0x314)
        for name, bad, good in (
            ("directory", 0x10, 0x20),
            ("volume label", 0x08, 0x07),
            ("symbolic link", 0o120777 << 16, 0o100644 << 16),
            ("directory of Unix", 0o40755 << 16, 0o755 << 16),
            ("device", 0o60644 << 16, 0xFFFF_FFE7 & ~(7 << 28)),
            ("pipe", 0o10644 << 16, 0o107777 << 16),
            ("socket", 0o140644 << 16, 0x8000_0000),
        )
    ),
    *(
        Row("Z-5.12", f"{name} {value:#x}", None, "", listed(**{name: value}))
        for name, value in (("made_by", 0), ("made_by", 0xFFFF), ("internal", 0xFFFF), ("external", 0x0FFF_FFE7))
    ),
    Row(
        "Z-5.5",
        "padding in the directory",
        with_extra(b"", extra(0x5A4F, bytes(4))),
        "extra record 0x5a4f",
        with_extra(PADDING),
    ),
    Row("Z-5.5", "foreign extra", with_extra(b"", extra(0x5455, bytes(5))), "extra record 0x5455"),
    Row("Z-5.5", "cut extra record", with_extra(b"", b"\1\0\1\0"), "cut short"),
    Row("Z-5.6", "needless zip64", with_extra(b"", zip64(8, 8)), "must hold 0 values"),
    Row("Z-5.6", "needless zip64 offset", with_extra(b"", zip64(0)), "must hold 0 values"),
    Row("Z-5.6", "small zip64 sizes", with_extra(zip64(8, 8), zip64(8, 8), **LARGE_SIZES), "needs no zip64"),
    Row("Z-5.6", "zip64 missing", one(**LARGE_SIZES), "must hold 2 values"),
    Row(
        "Z-5.6",
        "small zip64 offset",
        Zip([weight(central={"offset": MAX_32}, central_extra=zip64(0)), proto()]),
        "needs no zip64",
    ),
    Row("Z-5.6", "zip64 offset missing", listed(offset=MAX_32), "must hold 1 values"),
    Row("Z-5.7", "two disks", PLAIN.but(end={"disk": 1}), "multi-disk"),
    Row("Z-5.7", "directory on a disk", PLAIN.but(end={"start": 1}), "multi-disk"),
    Row("Z-5.7", "entries on a disk", PLAIN.but(end={"on_disk": 1}), "1 of 2 entries are on this disk"),
    Row("Z-5.8", "zip64 end without need", PLAIN.but(zip64=True), "entries_on_disk is 65535 in the end record and 2"),
    *(
        Row(
            "Z-5.8",
            f"no zip64 locator in {nbytes} bytes",
            bytes(nbytes - 22) + end_records(0, 0, 0, False, on_disk=MAX_16, entries=MAX_16),
            "the zip64 locator .* must be",
        )
        for nbytes in (22, 97)
    ),
    Row("Z-5.8", "no zip64 locator", PLAIN.but(end={"offset": MAX_32}), "the zip64 locator .* must be"),
    Row(
        "Z-5.8",
        "no zip64 locator for entries",
        PLAIN.but(end={"on_disk": MAX_16, "entries": MAX_16}),
        "the zip64 locator",
    ),
    Row(
        "Z-2.4",
        "zip64 end unmentioned",
        PLAIN.but(zip64=True, end={"on_disk": 2, "entries": 2, "size": 1, "offset": 1}),
        "ends at",
    ),
    Row(
        "Z-5.9",
        "no zip64 end record",
        PLAIN.but(zip64=True, end64_signature=b"PK\6\5"),
        "the zip64 end record .* must be",
    ),
    Row(
        "Z-5.9",
        "2**63 entries",
        PLAIN.but(zip64=True, end64={"on_disk": 1 << 63, "entries": 1 << 63, "size": MAX_32}, end={"offset": 99}),
        "directory_offset is 99 in the end record",
    ),
    Row("Z-5.10", "zip64 directory disk", PLAIN.but(zip64=True, end64={"start": 1}), "directory_disk of the zip64 end"),
    Row("Z-5.10", "zip64 extensible", PLAIN.but(zip64=True, end64={"record_size": 45}), "extensible data"),
    Row("Z-5.10", "zip64 disks", PLAIN.but(zip64=True, end64={"disk": 1}), "multi-disk"),
    Row("Z-5.11", "locator elsewhere", PLAIN.but(zip64=True, locator={"offset": 0}), "the zip64 locator points to"),
    Row("Z-5.11", "locator on a disk", PLAIN.but(zip64=True, locator={"disks": 2}), "multi-disk"),
    Row(
        "Z-5.11",
        "record on a disk",
        PLAIN.but(zip64=True, locator={"disk": 1}),
        "record_disk of the zip64 locator is 1",
    ),
]


# The graph


def nested(depth: int, *parts: bytes) -> bytes:
    """Return a ModelProto with a graph at this depth (one more than a multiple of 3) that has these fields."""
    graph = b"".join(parts)
    for _ in range(depth // 3):
        graph = message(1, message(5, message(6, graph)))  # node, attribute, g
    return message(7, graph)


def attribute(*parts: bytes) -> bytes:
    """Return a node with an attribute that has these fields."""
    return message(1, message(5, *parts))


def groups(depth: int) -> bytes:
    """Return groups inside groups."""
    return depth * tag(99, 3) + depth * tag(99, 4)


NODE = message(1, message(1, b"x"))  # a node with a name
IN_GRAPH = message(5, TENSOR)
PLACES: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("model", lambda field: model(TENSOR) + field),
    ("graph", lambda field: of_graph(IN_GRAPH, field)),
    ("node", lambda field: of_graph(IN_GRAPH, message(1, field))),
    ("attribute", lambda field: of_graph(IN_GRAPH, attribute(field))),
    ("tensor", lambda field: model(tensor(more=field))),
    ("tensor with its own data", lambda field: model(TENSOR, OWN + field)),
    (
        "reference",
        lambda field: model(tensor(places=message(13, message(1, b"location"), message(2, b"w"), field))),
    ),
)
THE_GRAPH: list[Row] = [
    *(
        Row("Z-6.1", f"{name}, in a {where}", around(wrap(bad)), reason, around(wrap(good)))
        for where, wrap in PLACES
        for name, bad, reason, good in (
            ("number 0", b"\0\0", "invalid", number(99, 0)),
            ("number 2**29", varint(1 << 32) + b"\0", "invalid", varint((1 << 32) - 8) + b"\0"),
            ("wire type 6", tag(99, 6) + b"\0", "wire type 6", tag(99, 0) + b"\0"),
            ("wire type 7", tag(99, 7) + b"\0", "wire type 7", tag(99, 5) + bytes(4)),
            ("wire type 6 at the end", tag(99, 6), "wire type 6", tag(99, 0) + b"\0"),
            ("wire type 7 at the end", tag(99, 7), "wire type 7", tag(99, 5) + bytes(4)),
            ("cut 8 bytes", tag(99, 1) + bytes(7), "inside a field", tag(99, 1) + bytes(8)),
            ("cut 4 bytes", tag(99, 5) + bytes(3), "inside a field", tag(99, 5) + bytes(4)),
            ("cut bytes", tag(99, 2) + b"\2\0", "inside a field", tag(99, 2) + b"\1\0"),
            ("huge length", tag(99, 2) + varint(1 << 34), "inside a field", tag(99, 2) + b"\0"),
            ("cut tag", b"\x98", "inside a field", tag(99, 2) + varint(0, 5)),
            ("end of a group", tag(99, 4), "ends but did not begin", group(99)),
        )
    ),
    Row(
        "Z-6.1",
        "graph longer than the model",
        around(tag(7, 2) + varint(99) + IN_GRAPH),
        "left",
        around(message(7, IN_GRAPH)),
    ),
    Row(
        "Z-6.1",
        "node longer than its graph",
        around(message(7, IN_GRAPH, tag(1, 2) + b"\1") + number(1, 10)),
        "left",
        around(message(7, IN_GRAPH, tag(1, 2) + b"\0") + number(1, 10)),
    ),
    *(
        Row(
            "Z-6.2",
            name,
            around(model(TENSOR) + tag(99, 0) + bad),
            "a varint",
            around(model(TENSOR) + tag(99, 0) + good),
        )
        for name, bad, good in (
            ("varint of 11 bytes", varint(1, 11), varint(1, 10)),
            ("varint of 2**64", b"\x80" * 9 + b"\2", b"\xff" * 9 + b"\1"),
        )
    ),
    *(
        Row(
            "Z-6.2",
            f"{name}, in a {where}",
            around(wrap(bad)),
            "longer than 5 bytes",
            around(wrap(good)),
        )
        for where, wrap in PLACES
        for name, bad, good in (
            ("tag of 6 bytes", varint(99 << 3, 6) + b"\0", varint(99 << 3, 5) + b"\0"),
            ("length of 6 bytes", tag(99, 2) + varint(0, 6), tag(99, 2) + varint(0, 5)),
            ("tag in a group of 6 bytes", group(99, varint(98 << 3, 6) + b"\0"), group(99, varint(98 << 3, 5) + b"\0")),
            ("length in a group of 6 bytes", group(99, tag(98, 2), varint(0, 6)), group(99, tag(98, 2), varint(0, 5))),
            ("end of a group of 6 bytes", tag(99, 3) + varint(99 << 3 | 4, 6), tag(99, 3) + varint(99 << 3 | 4, 5)),
        )
    ),
    Row(
        "Z-6.2",
        "long tag and length of the graph",
        around(varint(7 << 3 | 2, 6) + message(7, IN_GRAPH)[1:]),
        "longer than 5 bytes",
        around(varint(7 << 3 | 2, 5) + varint(len(IN_GRAPH) + 4, 5) + varint(5 << 3 | 2, 5) + IN_GRAPH[1:]),
    ),
    Row(
        "Z-6.2",
        "long length of the graph",
        around(tag(7, 2) + varint(len(IN_GRAPH), 6) + IN_GRAPH),
        "longer than 5 bytes",
        around(tag(7, 2) + varint(len(IN_GRAPH), 5) + IN_GRAPH),
    ),
    Row("Z-6.2", "long dims", None, "", of(tensor(dims=(), more=tag(1, 0) + varint(8, 10)))),
    Row("Z-6.2", "long packed dims", None, "", of(tensor(dims=(), more=message(1, varint(8, 10))))),
    Row(
        "Z-6.3",
        "group that ends as another",
        around(model(TENSOR) + tag(99, 3) + tag(98, 4)),
        "another group must",
        around(model(TENSOR) + group(99)),
    ),
    Row(
        "Z-6.3",
        "groups that cross",
        around(model(TENSOR) + tag(9, 3) + tag(8, 3) + tag(9, 4) + tag(8, 4)),
        "another group must",
        around(model(TENSOR) + group(9, group(8))),
    ),
    Row(
        "Z-6.3",
        "group without an end",
        around(model(TENSOR) + tag(99, 3)),
        "inside a group",
        around(model(TENSOR) + group(99, number(1, 1), message(2, b"x"))),
    ),
    Row(
        "Z-6.3",
        "101 groups",
        around(model(TENSOR) + groups(101)),
        "groups are nested",
        around(model(TENSOR) + groups(100)),
    ),
    Row(
        "Z-6.3",
        "group that ends behind its message",
        around(message(7, IN_GRAPH, tag(99, 3)) + tag(99, 4)),
        "inside a",
        around(message(7, IN_GRAPH) + group(99)),
        breaks="Z-6.1",
    ),
    Row("Z-6.3", "group as a known field", None, "", around(model(TENSOR) + group(7, message(5, b"\xff")) + group(1))),
    Row(
        "Z-6.4",
        "node at depth 101",
        around(nested(100, message(1, b"")) + message(7, IN_GRAPH)),
        "nested more than",
        around(nested(100) + message(7, IN_GRAPH)),
    ),
    Row(
        "Z-6.4",
        "reference at depth 101",
        around(nested(97, attribute(message(5, TENSOR)))),
        "nested more than",
        around(nested(97, attribute(message(5, OWN)), IN_GRAPH)),
    ),
    Row(
        "Z-6.4",
        "values at depth 101",
        around(nested(97, attribute(message(22, message(1, b""))), IN_GRAPH)),
        "nested more than",
        around(nested(97, attribute(message(22, number(3, 8))), IN_GRAPH)),
    ),
    Row(
        "Z-6.4",
        "deep messages that are not entered",
        None,
        "",
        around(of_graph(IN_GRAPH, message(11, *(127 * [tag(2, 2) + b"\x7f"])))),
        is_model=False,
    ),
    Row(
        "Z-6.5",
        "empty model",
        Zip([Member(b"__MODEL_PROTO", b"")]),
        "no graph",
        Zip([Member(b"__MODEL_PROTO", message(7))]),
    ),
    Row(
        "Z-6.5",
        "graph as a number",
        Zip([Member(b"__MODEL_PROTO", number(7, 1))]),
        "no graph",
        Zip([Member(b"__MODEL_PROTO", number(7, 1) + message(7))]),
    ),
    *(
        Row(
            "Z-7.11",
            f"external tensor in {name}, wire type or number wrong",
            around(bad),
            "belong to no tensor",
            around(good),
        )
        for name, bad, good in (
            ("graph", message(8, IN_GRAPH) + message(7), message(7, IN_GRAPH)),
            (
                "training_info.initialization",
                message(7) + message(20, message(3, IN_GRAPH)),
                message(7) + message(20, message(1, IN_GRAPH)),
            ),
            (
                "training_info.algorithm",
                message(7) + message(21, message(2, IN_GRAPH)),
                message(7) + message(20, message(2, IN_GRAPH)),
            ),
            (
                "functions.node",
                message(7) + message(25, message(77, message(5, message(5, TENSOR)))),
                message(7) + message(25, message(7, message(5, message(5, TENSOR)))),
            ),
            (
                "functions.attribute_proto",
                message(7) + message(25, message(99, message(5, TENSOR))),
                message(7) + message(25, message(11, message(5, TENSOR))),
            ),
            ("graph.initializer", of_graph(message(55, TENSOR)), of_graph(message(5, TENSOR))),
            (
                "graph.sparse_initializer.values",
                of_graph(message(15, message(4, TENSOR))),
                of_graph(message(15, message(1, TENSOR))),
            ),
            (
                "graph.sparse_initializer.indices",
                of_graph(message(17, message(2, TENSOR))),
                of_graph(message(15, message(2, TENSOR))),
            ),
            ("attribute.t", of_graph(attribute(message(55, TENSOR))), of_graph(attribute(message(5, TENSOR)))),
            (
                "attribute.tensors",
                of_graph(attribute(message(12, TENSOR))),
                of_graph(attribute(message(10, OWN), message(10, TENSOR))),
            ),
            ("attribute.g", of_graph(attribute(message(66, IN_GRAPH))), of_graph(attribute(message(6, IN_GRAPH)))),
            (
                "attribute.graphs",
                of_graph(attribute(message(16, IN_GRAPH))),
                of_graph(attribute(message(11), message(11, IN_GRAPH))),
            ),
            (
                "attribute.sparse_tensor",
                of_graph(attribute(message(24, message(1, TENSOR)))),
                of_graph(attribute(message(22, message(1, TENSOR)))),
            ),
            (
                "attribute.sparse_tensors",
                of_graph(attribute(message(25, message(2, TENSOR)))),
                of_graph(attribute(message(23, message(2, TENSOR)))),
            ),
            ("the last of many nodes", of_graph(*(9 * [NODE])), of_graph(*(9 * [NODE]), attribute(message(5, TENSOR)))),
        )
    ),
    Row(
        "Z-6.6",
        "data_location with 8 bytes",
        of(tensor(data_location=tag(14, 1) + b"\1" + bytes(7))),
        "belong to no tensor",
        of(tensor(more=tag(14, 1) + bytes(8))),
        breaks="Z-7.11",
    ),
    Row(
        "Z-6.6",
        "data_type with 4 bytes",
        of(tensor(data_type=None, more=tag(2, 5) + b"\2\0\0\0")),
        "element type",
        of(tensor(more=tag(2, 5) + b"\1\0\0\0")),
        breaks="Z-7.8",
    ),
    Row(
        "Z-6.6",
        "key as a number",
        of(tensor(places=PLACE + message(13, number(1, 1)))),
        "keys",
        of(tensor(places=message(13, number(1, 1), message(1, b"location"), message(2, b"w"), number(2, 1)))),
        breaks="Z-7.2",
    ),
    Row(
        "Z-6.6",
        "free fields",
        None,
        "",
        around(
            number(7, 1)
            + of_graph(number(5, 1), IN_GRAPH, tag(1, 5) + bytes(4), message(2, b"\xff"))
            + message(14, b"\xff")
        ),
        is_model=False,
    ),
    Row(
        "Z-6.6",
        "what is not entered may be anything",
        None,
        "",
        around(model(TENSOR) + message(8, b"\xff") + message(14, b"\xff\xff")),
        is_model=False,
    ),
    Row(
        "Z-6.6",
        "names that are not UTF-8",
        None,
        "",
        around(
            number(1, 10)
            + message(7, message(2, b"\xff"), message(5, TENSOR, message(8, b"\xe9")), message(1, message(1, b"\xff")))
        ),
    ),
    Row(
        "Z-6.7",
        "t in parts, key twice",
        around(of_graph(attribute(message(5, TENSOR), message(5, external(length="8"))))),
        "keys",
        around(
            of_graph(
                attribute(
                    message(5, number(1, 8), number(2, 2), external(location="w")),
                    message(5, external(length="8"), EXTERNAL),
                )
            )
        ),
        breaks="Z-7.2",
    ),
    Row(
        "Z-6.7",
        "t in parts, not external at last",
        around(of_graph(attribute(message(5, TENSOR), message(5, number(14, 0))))),
        "belong to no tensor",
        around(of_graph(attribute(message(5, tensor(data_location=number(14, 0))), message(5, EXTERNAL)))),
        breaks="Z-7.11",
    ),
    Row(
        "Z-6.7",
        "sparse_tensor in parts",
        around(of_graph(attribute(message(22, message(1, TENSOR)), message(22, message(1, message(9)))))),
        "both in an entry and in the graph",
        around(
            of_graph(
                attribute(
                    message(22, message(1, number(1, 4), number(2, 2))),
                    message(22, message(2, OWN), message(1, number(1, 2), PLACE, EXTERNAL)),
                )
            )
        ),
        breaks="Z-7.6",
    ),
    Row(
        "Z-6.7",
        "values in parts",
        around(of_graph(message(15, message(1, TENSOR), message(1, number(2, 3), number(1, 2))))),
        "need 16",
        around(of_graph(message(15, message(1, tensor(data_type=11)), message(1, number(2, 3))))),
        breaks="Z-7.10",
    ),
    Row(
        "Z-6.7",
        "graph in parts",
        around(of_graph(IN_GRAPH) + message(7, message(5, tensor("v")))),
        "not an entry",
        around(of_graph(message(5, OWN)) + message(7, IN_GRAPH)),
        breaks="Z-7.3",
    ),
    Row(
        "Z-6.7",
        "tensors are not parts of one",
        around(of_graph(attribute(message(10, TENSOR), message(10, PLACE + EXTERNAL)))),
        "element type",
        around(of_graph(attribute(message(10, TENSOR), message(10, tensor(dims=(2, 2, 2)))))),
        breaks="Z-7.8",
    ),
    Row(
        "Z-6.7",
        "last data_type",
        of(tensor(data_type=2, more=number(2, 11))),
        "need 64",
        of(tensor(data_type=11, more=number(2, 2))),
        breaks="Z-7.10",
    ),
    Row(
        "Z-6.7",
        "last value",
        of(tensor(places=message(13, message(1, b"location"), message(2, b"w"), message(2, b"v")))),
        "not an entry",
        of(tensor(places=message(13, message(1, b"x"), message(2, b"v"), message(1, b"location"), message(2, b"w")))),
        breaks="Z-7.3",
    ),
    Row(
        "Z-6.7",
        "packed dims cut",
        of(tensor(dims=(), more=message(1, b"\x08\x80"))),
        "do not fill their field",
        of(tensor(dims=(), more=message(1, b"\x08\x01"))),
    ),
    Row(
        "Z-6.7",
        "dims in parts",
        of(tensor(dims=(2,), more=message(1, b"\2\2") + number(1, 2))),
        "need 16",
        of(tensor(dims=(2,), more=message(1, b"\2") + number(1, 2) + message(1))),
        breaks="Z-7.10",
    ),
]

# Tensors

TYPES = {  # the bits of an element
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 14: 64, 15: 128, 16: 16, 17: 8,
    18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2, 27: 6, 28: 6,
}  # fmt: skip


def typed(data_type: int, more: int = 0) -> Zip:
    """Return an archive with a tensor of four elements of a type, in an entry with `more` extra bytes."""
    nbytes = (4 * TYPES[data_type] + 7) // 8
    place = external(location="w", length=str(nbytes + more))
    return of(tensor(dims=(4,), data_type=data_type, places=place), data=bytes(nbytes + more))


def sized(dims: tuple[int, ...], nbytes: int, data_type: int = 2) -> Zip:
    """Return an archive with a tensor of these dims in an entry of this size."""
    return of(tensor(dims=dims, data_type=data_type, places=external(location="w")), data=bytes(nbytes))


def placed(*entries: tuple[str | None, str | None]) -> Zip:
    """Return an archive with a tensor that has these entries of external data."""
    encoded = [[None if text is None else text.encode() for text in pair] for pair in entries]
    return of(tensor(places=b"".join(entry(key, value) for key, value in encoded)))


def several(location: str) -> Zip:
    """Return an archive with files, hashes and two graphs, in which a tensor of 8 bytes refers to this entry."""
    return hashed(
        Member(b"files/a", DATA), more=(graph(b"a"),), last=proto(TENSOR, tensor(places=external(location=location)))
    )


W, ZERO, EIGHT = ("location", "w"), ("offset", "0"), ("length", "8")
TENSORS: list[Row] = [
    Row("Z-7.1", "external_data without EXTERNAL", None, "", of(TENSOR, tensor("v", data_location=b"")), is_model=True),
    Row(
        "Z-7.1",
        "rubbish in tensors that are not external",
        None,
        "",
        of(TENSOR, tensor(places=message(13, message(1, b"x")), dims=(-1,), data_type=99, data_location=number(14, 0))),
    ),
    Row(
        "Z-7.1",
        "wrong external_data without EXTERNAL",
        None,
        "",
        of(TENSOR, tensor(places=message(13, b"\xff"), data_location=b"")),
        is_model=False,
    ),
    Row(
        "Z-7.1",
        "wrong packed dims without EXTERNAL",
        None,
        "",
        of(TENSOR, tensor(dims=(), more=message(1, b"\x80"), data_location=b"")),
        is_model=False,
    ),
    Row("Z-7.1", "data_location 2", of(tensor(data_location=number(14, 2))), "belong to no tensor", breaks="Z-7.11"),
    Row(
        "Z-7.1",
        "data_location 2**32",
        of(tensor(data_location=number(14, 1 << 32))),
        "belong to no tensor",
        of(tensor(data_location=number(14, (1 << 32) + 1))),
        breaks="Z-7.11",
    ),
    Row(
        "Z-7.1",
        "last data_location",
        of(tensor(more=number(14, 0))),
        "belong to no tensor",
        of(tensor(data_location=number(14, 0), more=EXTERNAL)),
        breaks="Z-7.11",
    ),
    Row("Z-7.2", "no external_data", of(TENSOR, tensor(places=b"")), "keys none"),
    Row("Z-7.2", "no location", placed(ZERO, EIGHT), "it must have location", placed(W)),
    Row("Z-7.2", "unknown key", placed(W, ("checksum", "0")), "'checksum'", placed(W, EIGHT)),
    Row("Z-7.2", "key in other case", placed(W, ("Offset", "0")), "'Offset'", placed(W, ZERO)),
    Row("Z-7.2", "key twice", placed(W, W), "each once", placed(W, ZERO, EIGHT)),
    Row("Z-7.2", "key absent", placed(W, (None, "0")), "keys", placed(EIGHT, ZERO, W)),
    Row("Z-7.2", "key empty", placed(W, ("", "")), "keys", placed(W, EIGHT, ZERO)),
    Row("Z-7.2", "key not UTF-8", of(tensor(places=PLACE + entry(b"\xff", b""))), "keys"),
    Row("Z-7.2", "key with NUL", placed(W, ("offset\0", "0")), "keys"),
    Row("Z-7.3", "no such entry", placed(("location", "v")), "'v', which is not an entry of the archive"),
    Row("Z-7.3", "location in other case", placed(("location", "W")), "'W', which is not an entry"),
    Row("Z-7.3", "a path", placed(("location", "./w")), "'./w', which is not an entry"),
    Row("Z-7.3", "location empty", placed(("location", "")), "'', which is not an entry"),
    Row("Z-7.3", "location without a value", placed(("location", None)), "'', which is not an entry"),
    Row("Z-7.3", "the graph", placed(("location", "__MODEL_PROTO")), "'__MODEL_PROTO', which is not an entry"),
    Row("Z-7.3", "a graph with a name", several("__MODEL_PROTO_a"), "which is not an entry"),
    Row("Z-7.3", "a file", several("files/a"), "which is not an entry"),
    Row("Z-7.3", "the hashes", several("__SHA256SUMS"), "which is not an entry"),
    Row(
        "Z-7.3",
        "a name in another graph",
        Zip([weight(), graph(b"a", tensor("v")), proto()]),
        "not an entry",
        bundle(graph(b"a")),
    ),
    Row("Z-7.3", "location with NUL", placed(("location", "w\0")), "which is not an entry"),
    *(
        Row("Z-7.4", f"offset {value!r}", placed(W, ("offset", value)), "offset is", placed(W, ZERO))
        for value in ("1", "00", "+0", "-0", " 0", "0 ", "0x0", "", None, "\N{ARABIC-INDIC DIGIT ZERO}", "64")
    ),
    *(
        Row("Z-7.5", f"length {value!r}", placed(W, ("length", value)), "length is", placed(W, EIGHT))
        for value in (
            "7",
            "9",
            "08",
            "+8",
            " 8",
            "8 ",
            "8.0",
            "0x8",
            "",
            None,
            "\N{ARABIC-INDIC DIGIT EIGHT}",
            str(2**64 + 8),
        )
    ),
    *(
        Row(
            "Z-7.6",
            f"{name}, {form}",
            of(tensor(more=tag(n, wire_type) + payload)),
            "both in an entry and in the graph",
            of(tensor(more=tag(n + 100, wire_type) + payload.replace(tag(n, 4), tag(n + 100, 4)))),
        )
        for n, name in (
            (4, "float_data"),
            (5, "int32_data"),
            (6, "string_data"),
            (7, "int64_data"),
            (9, "raw_data"),
            (10, "double_data"),
            (11, "uint64_data"),
        )
        for form, wire_type, payload in (
            ("8 bytes", 2, b"\x08" + bytes(8)),
            ("empty", 2, b"\0"),
            ("wire type 0", 0, b"\0"),
            ("wire type 1", 1, bytes(8)),
            ("wire type 5", 5, bytes(4)),
            ("group", 3, tag(n, 4)),
        )
        if wire_type != 3 or n == 9
    ),
    Row(
        "Z-7.7",
        "segment",
        of(tensor(more=message(3, number(1, 0), number(2, 8)))),
        "a segment",
        of(TENSOR, OWN + message(3)),
    ),
    Row("Z-7.7", "empty segment", of(tensor(more=message(3))), "a segment"),
    Row("Z-7.7", "segment as a number", of(tensor(more=number(3, 0))), "a segment"),
    *(
        Row("Z-7.8", f"type {n}", of(tensor(data_type=n)), "element type", typed(2))
        for n in (0, 8, 29, 99, -1, (1 << 31) - 1)
    ),
    *(Row("Z-7.8", f"type {n} of no elements", sized((0,), 0, n), "element type", sized((0,), 0)) for n in (0, 8, 29)),
    Row("Z-7.8", "no type", of(tensor(data_type=None)), "element type"),
    Row("Z-7.8", "type 2**32", of(tensor(data_type=1 << 32)), "element type", of(tensor(data_type=(1 << 32) + 2))),
    Row("Z-7.9", "negative dimension", sized((-8,), 8), "negative dimension"),
    Row("Z-7.9", "negative dimensions", sized((-2, -4), 8), "negative dimension", sized((2, 4), 8)),
    Row("Z-7.9", "negative dimension beside 0", sized((0, -1), 0), "negative dimension", sized((0, 1), 0)),
    Row("Z-7.9", "dimension 2**63", sized((1 << 63, 0), 0), "negative dimension", sized(((1 << 63) - 1, 0), 0)),
    *(Row("Z-7.10", f"type {n}", typed(n, 1), "need", typed(n)) for n in TYPES),
    *(Row("Z-7.10", f"type {n}, too few", typed(n, -1), "need", typed(n)) for n in TYPES),
    Row("Z-7.10", "too many elements", sized((9,), 8), "need 9"),
    Row("Z-7.10", "too few elements", sized((7,), 8), "need 7"),
    Row("Z-7.10", "no elements", sized((0,), 8), "need 0", sized((0,), 0)),
    Row("Z-7.10", "scalar", sized((), 8), "need 1", sized((), 1)),
    Row("Z-7.10", "product of 2**64", sized((1 << 32, 1 << 32), 0), "need", sized((1 << 32, 0, 1 << 32), 0)),
    Row("Z-7.10", "product of 2**64 + 8", sized((1 << 61, 8, 1), 8, 7), "need", sized((1, 1, 1), 8, 7)),
    Row("Z-7.10", "bits of 2**64 + 64", sized(((1 << 58) + 1,), 8, 7), "need", sized((1,), 8, 7)),
    Row("Z-7.10", "bits of 2**64 + 8", sized(((1 << 61) + 1,), 1), "need", sized((1,), 1)),
    Row("Z-7.10", "half bytes", sized((17,), 8, 22), "need 9", sized((15,), 8, 22)),
    Row("Z-7.10", "product of many", sized((1 << 62,) * 40, 8), "need", sized((1 << 62,) * 40 + (0,), 0)),
    Row("Z-7.11", "unused entry", of(OWN), "belong to no tensor"),
    Row(
        "Z-7.11",
        "entries of several graphs",
        Zip([weight(), graph(b"a", OWN), proto(OWN)]),
        "belong to no tensor",
        Zip([weight(), graph(b"a"), proto(OWN)]),
    ),
    Row(
        "Z-7.11",
        "entry of the first of three graphs",
        None,
        "",
        Zip([weight(), graph(b"a"), graph(b"b", OWN), proto(OWN)]),
    ),
    Row(
        "Z-7.10",
        "dims in another graph",
        bundle(graph(b"a", tensor(dims=(7,)))),
        "need 7",
        bundle(graph(b"a", tensor(dims=(2, 4)))),
    ),
    Row(
        "Z-6.5",
        "no graph in another model",
        bundle(Member(b"__MODEL_PROTO_a", number(1, 10))),
        "no graph",
        bundle(Member(b"__MODEL_PROTO_a", number(1, 10) + message(7))),
    ),
    Row(
        "Z-6.1",
        "another model cut",
        bundle(Member(b"__MODEL_PROTO_a", model(TENSOR)[:-1])),
        "needed",
        bundle(graph(b"a")),
    ),
    Row("Z-3.4", "another graph compressed", bundle(graph(b"a").both(method=8)), "compressed", bundle(graph(b"a"))),
    Row(
        "Z-2.2",
        "gap before another graph",
        Zip([weight(), Member(**{**vars(graph(b"a")), "gap": b"\0"}), proto()]),
        "not where the one before",
        bundle(graph(b"a")),
    ),
    Row(
        "Z-7.11",
        "unused entry of no bytes",
        Zip([weight(), Member(b"v"), proto()]),
        "belong to no tensor",
        Zip([weight(), Member(b"v"), proto(TENSOR, tensor("v", dims=(0,), places=external(location="v")))]),
    ),
    Row(
        "Z-7.11",
        "one entry in several tensors",
        None,
        "",
        of(TENSOR, tensor(dims=(2,), data_type=1), tensor(dims=(2, 4))),
    ),
]
ROWS = [*THE_FILE, *ENTRIES, *NAMES, *THE_END, *THE_GRAPH, *TENSORS]


# Archives that are too large to store

LETTERS = 4
MANY = MAX_16


class Part(NamedTuple):
    """A part of a large archive: bytes, a number of zeros, or parts that are repeated `count` times.

    A repeated part with `letters` is a different word of this many letters each time, starting with "aaaa". One with
    `start` and `step` is a number of 4 bytes that grows.
    """

    data: bytes = b""
    zeros: int = 0
    count: int = 0
    parts: tuple[Part, ...] = ()
    letters: int = 0
    start: int = 0
    step: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the part in the form of the file of vectors."""
        if self.count:
            return {"count": self.count, "of": [part.to_json() for part in self.parts]}
        if self.zeros:
            return {"zeros": self.zeros}
        if self.letters:
            return {"letters": self.letters}
        return {"u32": [self.start, self.step]} if self.step else {"hex": self.data.hex()}

    @property
    def nbytes(self) -> int:
        """The size of the result of `made`, or of the zeros."""
        if self.count:
            return self.count * sum(part.nbytes for part in self.parts)
        return self.zeros or self.letters or (4 if self.step else len(self.data))

    def made(self, index: int = 0) -> bytes:
        """Return the bytes; `index` counts the repetitions."""
        if self.count:
            return b"".join(part.made(number) for number in range(self.count) for part in self.parts)
        if self.letters:
            places = reversed(range(self.letters))
            return bytes(ord("a") + index // 26**place % 26 for place in places)
        return struct.pack("<I", self.start + index * self.step) if self.step else self.data


def many(count: int, with_zip64: bool, **end: int) -> list[Part]:
    """Return an archive with this many entries, all empty except the last."""
    empty = Member(b"aaaa")
    head, tail = empty.local_bytes().split(empty.name)
    central, rest = empty.central_bytes(0).split(empty.name)
    fields = tensor("aaaa", dims=(0,), places=external(location="aaaa"))
    before, after = message(5, fields).split(b"aaaa")
    weights = count - 1
    initializers = Part(count=weights, parts=(Part(before), Part(letters=LETTERS), Part(after)))
    start = b"".join((number(1, 10), tag(7, 2), varint(initializers.nbytes)))
    graph = start + initializers.made()
    last = Member(b"__MODEL_PROTO", graph)
    local = last.local_bytes().removesuffix(graph)
    step = len(head) + LETTERS + len(tail)
    listed_last = last.central_bytes(weights * step)
    listed = Part(
        count=weights,
        parts=(Part(central[:-4]), Part(step=step), Part(letters=LETTERS), *([Part(rest)] if rest else [])),
    )
    directory_nbytes = listed.nbytes + len(listed_last)
    offset = weights * step + len(local) + len(graph)
    return [
        Part(count=weights, parts=(Part(head), Part(letters=LETTERS), *([Part(tail)] if tail else []))),
        Part(local + start),
        initializers,
        listed,
        Part(listed_last + end_records(count, directory_nbytes, offset, with_zip64, **end)),
    ]


def large(
    nbytes: int,
    local: bytes = b"",
    central: bytes = b"",
    last: bytes | None = None,
    with_zip64: bool = True,
    fields: dict[str, int] | None = None,
    end: dict[str, int] | None = None,
) -> list[Part]:
    """Return an archive with an entry of this many zeros, its extra fields, and those of the graph's entry."""
    size = min(nbytes, MAX_32)
    changed = {"size": size, "packed": size} | (fields or {})
    first = Member(b"w", local_extra=local, central_extra=central).both(**changed)
    place = external(location="w", length=str(nbytes))
    graph = Member(b"__MODEL_PROTO", model(tensor(dims=(nbytes,), places=place)))
    head = first.local_bytes()
    offset = len(head) + nbytes
    graph.central_extra = zip64(offset) if last is None and offset >= MAX_32 else last or b""
    tail = graph.local_bytes()
    listed = first.central_bytes(0) + graph.central_bytes(min(offset, MAX_32))
    records = end_records(2, len(listed), offset + len(tail), with_zip64, **(end or {}))
    return [Part(head), Part(zeros=nbytes), Part(tail + listed + records)]


class LargeRow(NamedTuple):
    """Like `Row`, for archives that consist of parts."""

    requirement: str
    name: str
    refused: list[Part] | None
    reason: str
    taken: list[Part] | None
    breaks: str = ""


def ended(parts: list[Part], offset: int, *values: int) -> list[Part]:
    """Return an archive with other bytes in its zip64 structures; the offset counts from the zip64 end record."""
    *before, last = parts
    data = bytearray(last.data)
    start = data.rindex(b"PK\6\6") + offset
    data[start : start + len(values)] = values
    return [*before, Part(bytes(data))]


ZIP64 = many(MANY, True)
HEAD = 31  # the size of the local header of `w`
EDGE = MAX_32 - HEAD  # the size of `w` at which the offset of the graph needs zip64
FULL = zip64(MAX_32, MAX_32)
UNEQUAL = zip64(MAX_32, MAX_32 + 1)
BEYOND = large(MAX_32, FULL, FULL)
LARGE_ROWS = [
    LargeRow("Z-5.9", "other signature of the zip64 end record", ended(ZIP64, 3, 5), "the zip64 end record", ZIP64),
    LargeRow("Z-5.9", "other signature of the locator", ended(ZIP64, 59, 8), "the zip64 locator", ZIP64, "Z-5.8"),
    LargeRow("Z-5.10", "size of the record", ended(ZIP64, 4, 45), "extensible data", ZIP64),
    LargeRow("Z-5.10", "number of this disk", ended(ZIP64, 16, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.10", "disk of the directory", ended(ZIP64, 20, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.10", "free versions", None, "", ended(ZIP64, 12, 1, 2, 3, 4)),
    LargeRow("Z-5.11", "disk of the record", ended(ZIP64, 60, 1), "multi-disk", ZIP64),
    LargeRow("Z-5.11", "offset of the record", ended(ZIP64, 64, 1), "the zip64 locator points to", ZIP64),
    LargeRow("Z-5.11", "number of disks", ended(ZIP64, 72, 2), "multi-disk", ZIP64),
    LargeRow("Z-5.8", "65,535 entries", many(MANY, False), "the zip64 locator .* must be", many(MANY, True)),
    LargeRow(
        "Z-5.8",
        "65,534 entries",
        many(MANY - 1, True, entries=MAX_16, on_disk=MAX_16),
        "entries_on_disk is",
        many(MANY - 1, False),
    ),
    LargeRow(
        "Z-2.4",
        "65,534 entries, zip64 unmentioned",
        many(MANY - 1, True),
        "the directory ends at",
        None,
    ),
    LargeRow(
        "Z-5.1",
        "65,536 entries as none",
        many(MANY + 1, False, entries=0, on_disk=0),
        "0 entries need",
        many(MANY + 1, True),
    ),
    *(
        LargeRow(
            "Z-5.1",
            f"2**64 - {2**64 - count} entries",
            ended(ZIP64, 24, *struct.pack("<2Q", count, count)),
            "entries need",
            ZIP64,
        )
        for count in (1 << 62, 1 << 63, (1 << 64) - 1)
    ),
    LargeRow(
        "Z-5.9",
        "one number of entries of two",
        many(MANY, True, entries=0),
        "entries is 0 in the end",
        None,
    ),
    LargeRow(
        "Z-5.8", "directory beyond 4 GiB, no zip64", large(EDGE, with_zip64=False), "the zip64 locator", large(EDGE)
    ),
    LargeRow(
        "Z-5.8",
        "directory below 4 GiB",
        large(EDGE - 200, end={"offset": MAX_32}),
        "directory_offset is",
        large(EDGE - 200, with_zip64=False),
    ),
    LargeRow(
        "Z-2.4",
        "offset of the directory, lower 32 bits",
        large(EDGE, with_zip64=False, end={"offset": 114}),
        "the directory ends",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.9",
        "offset of the directory told in part",
        large(EDGE, end={"offset": 114, "entries": MAX_16}),
        "in the end record",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 1 without zip64",
        large(EDGE, last=b"\0\0\0\0"),
        "extra record 0x0000",
        large(EDGE),
        breaks="Z-5.5",
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 1, no zip64 record",
        large(EDGE, last=zip64()),
        "must hold 1 values",
        large(EDGE),
    ),
    LargeRow(
        "Z-5.6",
        "offset of 4 GiB - 2 with zip64",
        large(EDGE - 1, last=zip64(MAX_32 - 1)),
        "must hold 0 values",
        large(EDGE - 1),
    ),
    LargeRow(
        "Z-5.5",
        "offset in a record of another kind",
        large(EDGE, last=extra(2, struct.pack("<Q", MAX_32))),
        "extra record 0x0002",
        large(EDGE),
    ),
    *(
        LargeRow(
            "Z-5.5",
            f"zip64 record of 8 bytes as one of {nbytes}",
            large(EDGE, last=struct.pack("<2HQ", 1, nbytes, MAX_32)),
            reason,
            large(EDGE),
        )
        for nbytes, reason in ((16, "extra"), (0, "extra"))
    ),
    LargeRow("Z-2.2", "offset of another place", large(EDGE, last=zip64(MAX_32 + 1)), "begins at byte", large(EDGE)),
    LargeRow(
        "Z-3.9", "4 GiB - 1, no zip64 in the local header", large(MAX_32, b"", FULL), "must hold 2 values", BEYOND
    ),
    LargeRow(
        "Z-3.9",
        "4 GiB - 2 with zip64",
        large(MAX_32 - 1, zip64(MAX_32 - 1, MAX_32 - 1)),
        "must hold 0 values",
        large(MAX_32 - 1),
    ),
    LargeRow(
        "Z-3.9",
        "4 GiB with a smaller size in the local header",
        large(MAX_32 + 1, FULL, zip64(MAX_32 + 1, MAX_32 + 1)),
        "differ from",
        large(MAX_32 + 1, zip64(MAX_32 + 1, MAX_32 + 1), zip64(MAX_32 + 1, MAX_32 + 1)),
    ),
    *(
        LargeRow("Z-3.6", f"sizes in full differ {where}", large(MAX_32, local, central), "differ|take", BEYOND, breaks)
        for where, local, central, breaks in (
            ("in the directory", FULL, UNEQUAL, ""),
            ("in the local header", UNEQUAL, FULL, "Z-3.9"),
            ("in both", UNEQUAL, UNEQUAL, ""),
        )
    ),
    LargeRow("Z-5.6", "4 GiB - 1, no zip64 in the directory", large(MAX_32, FULL), "must hold 2 values", BEYOND),
    LargeRow(
        "Z-5.6",
        "4 GiB - 1, zip64 with a needless offset",
        large(MAX_32, FULL, zip64(MAX_32, MAX_32, 0)),
        "must hold 2 values",
        BEYOND,
    ),
    LargeRow(
        "Z-3.7",
        "zip64 twice",
        large(MAX_32, FULL + FULL, FULL),
        "extra record 0x0001",
        large(MAX_32, PADDING + FULL, FULL),
    ),
    LargeRow(
        "Z-3.7",
        "zip64 before the padding, and a third record",
        large(MAX_32, FULL + PADDING + PADDING, FULL),
        "extra record 0x5a4f",
        large(MAX_32, FULL + PADDING, FULL),
    ),
    LargeRow("Z-5.5", "zip64 twice in the directory", large(MAX_32, FULL, FULL + FULL), "extra record 0x0001", BEYOND),
    LargeRow("Z-5.12", "version 20 of an entry with zip64", None, "", large(MAX_32, FULL, FULL, fields={"needed": 20})),
]
