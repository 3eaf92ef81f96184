"""Archives that are refused, each with the closest one that is not, and what damage does.

The archives are put together here by hand, field by field, so that the code under test does not make its own tests.
"""

from __future__ import annotations

import io
import struct
import subprocess
import zipfile
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from programs import need

from formats import onnxzip
from formats.errors import DecodeError, FormatError
from formats.ir.model import Graph, Model, StringStringEntry, Tensor
from formats.onnxpb.encoder import encode
from formats.onnxzip import reader
from formats.registry import Match
from formats.tensordata.plan import lay_out
from formats.tensordata.source import Concat, Literal

MAX_16, MAX_32 = 0xFFFF, 0xFFFF_FFFF
LOCAL_FIELDS = {"needed": 20, "flags": 0, "method": 0, "time": 0, "date": 33}
LOCAL_FIELDS |= dict.fromkeys(("crc", "packed", "size", "name_length"), 0)
CENTRAL_FIELDS = dict(
    made_by=20, **LOCAL_FIELDS, extra_length=None, comment_length=0, disk=0, internal=0, external=0, offset=None
)
DATA = bytes(range(8))


@dataclass
class Member:
    """One file of a hand-made archive; `local` and `central` change fields, the rest is as it should be."""

    name: bytes
    data: bytes = b""
    local: dict[str, int] = field(default_factory=dict)
    central: dict[str, int] = field(default_factory=dict)
    local_name: bytes | None = None
    local_extra: bytes = b""
    central_extra: bytes = b""
    comment: bytes = b""
    gap: bytes = b""  # in front of the local header
    hidden: bool = False  # not in the directory

    def both(self, **fields: int) -> Member:
        """Change a field in both places."""
        self.local |= fields
        self.central |= fields
        return self

    def values(self, extra: bytes) -> dict[str, int]:
        """Return the right values."""
        size = len(self.data)
        sizes = {"packed": size, "size": size, "name_length": len(self.name), "extra_length": len(extra)}
        return {"crc": zlib.crc32(self.data), **sizes}

    def local_bytes(self) -> bytes:
        """Return local header and payload."""
        fields = {**LOCAL_FIELDS, "extra_length": 0, **self.values(self.local_extra), **self.local}
        name = self.name if self.local_name is None else self.local_name
        return b"PK\3\4" + struct.pack("<5H3I2H", *fields.values()) + name + self.local_extra + self.data

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
    before: bytes = b""  # the first local header
    before_directory: bytes = b""
    after_directory: bytes = b""
    after: bytes = b""  # the end record
    shift: int = 0  # added to the directory's offset

    def but(self, **changes: Any) -> Zip:
        """Return the archive with other arguments."""
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
            data += b"PK\6\6" + struct.pack("<Q2H2I4Q", *end64.values())
            data += b"PK\6\7" + struct.pack("<IQI", *locator.values())
            places = {"on_disk": MAX_16, "entries": MAX_16, "size": MAX_32, "offset": MAX_32}
        end = {"disk": 0, "start": 0} | places | {"comment_length": 0} | self.end
        return data + b"PK\5\6" + struct.pack("<4H2IH", *end.values()) + self.after


def graph(*tensors: Tensor) -> bytes:
    """Return a serialised model with these initialisers."""
    model = Model(ir_version=10, graph=Graph(name="g", initializer=list(tensors)))
    writes, _ = lay_out(encode(model))
    return Concat.of(*(write.source for write in writes)).read()


def tensor(location: str = "w", **fields: Any) -> Tensor:
    """Return a tensor of 8 bytes in the entry `location`."""
    places = [StringStringEntry("location", location), StringStringEntry("length", "8")]
    return Tensor(**{"dims": [8], "data_type": 2, "name": "w", "data_location": 1, "external_data": places, **fields})


def weight(name: bytes = b"w", **fields: Any) -> Member:
    """Return a member with 8 bytes."""
    return Member(name, DATA, **fields)


def proto(*tensors: Tensor) -> Member:
    """Return the graph's member, by default with one tensor in `w`."""
    return Member(b"__MODEL_PROTO", graph(*(tensors or (tensor(),))))


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

# (id, the refused archive, the reason, the closest archive that is taken)
ATTACKS: list[tuple[str, Zip, str, Zip]] = [
    ("comment", PLAIN.but(after=b"hello", end={"comment_length": 5}), "end record", PLAIN),
    ("hidden comment", PLAIN.but(end={"comment_length": 5}), "comments are not allowed", PLAIN),
    ("trailing byte", PLAIN.but(after=b"\0"), "end record", PLAIN),
    ("second archive", PLAIN.but(before=PLAIN.bytes()), "not where the one before it ends", PLAIN),
    ("prepended data", PLAIN.but(before=b"#!/bin/sh\n"), "not where the one before it ends", PLAIN),
    ("gap", Zip([weight(), Member(**{**vars(proto()), "gap": b"\0"})]), "not where the one before it ends", PLAIN),
    ("gap before directory", PLAIN.but(before_directory=b"\0"), "1 bytes before the directory", PLAIN),
    ("gap after directory", PLAIN.but(after_directory=b"\0"), "the end records begin at", PLAIN),
    ("hidden entry", Zip([weight(), weight(b"x", hidden=True), proto()]), "not where the one before it", PLAIN),
    ("directory elsewhere", PLAIN.but(shift=-1), "the directory ends at byte", PLAIN),
    ("two disks", PLAIN.but(end={"disk": 1}), "several disks", PLAIN),
    ("directory on a disk", PLAIN.but(end={"start": 1}), "several disks", PLAIN),
    ("entries on a disk", PLAIN.but(end={"on_disk": 1}), "1 of 2 entries are on this disk", PLAIN),
    ("one entry too few", PLAIN.but(end={"on_disk": 1, "entries": 1}), "end record says 1", PLAIN),
    ("many entries", PLAIN.but(end={"on_disk": 65_000, "entries": 65_000}), "65000 entries need", PLAIN),
    ("no entry", Zip([]), "the last entry is not __MODEL_PROTO", Zip([Member(b"__MODEL_PROTO", graph())])),
    ("no graph", Zip([weight()]), "the last entry is not __MODEL_PROTO", PLAIN),
    ("graph first", Zip([proto(), weight()]), "the last entry is not __MODEL_PROTO", PLAIN),
    ("two graphs", Zip([weight(), proto(), proto()]), "two entries are called", PLAIN),
    ("same name", Zip([weight(), weight(), proto()]), "two entries are called w and w", PLAIN),
    (
        "same but for case",
        Zip([weight(b"w"), weight(b"W"), proto(tensor(), tensor("W"))]),
        "two entries are called w and W",
        Zip([weight(b"w"), weight(b"V"), proto(tensor(), tensor("V"))]),
    ),
    *(
        (f"name {name!r}", Zip([weight(name), proto(tensor("w"))]), "not an allowed name", PLAIN)
        for name in (b"../w", b"/w", b"C:w", b"w\0", b"w.bin", b"", b"w\xc3\xa9", b"CON", b"__w", b"0", b"w" * 256)
    ),
    ("deflated", Zip([weight().both(method=8), proto()]), "it is compressed", PLAIN),
    ("encrypted", Zip([weight().both(flags=1), proto()]), "encryption", PLAIN),
    ("data descriptor", Zip([weight().both(flags=8), proto()]), "sizes after the data", PLAIN),
    ("UTF-8 flag", Zip([weight().both(flags=0x800), proto()]), "names that are not ASCII", PLAIN),
    (
        "newer zip",
        Zip([weight().both(needed=46), proto()]),
        "needs version 46",
        Zip([weight().both(needed=45), proto()]),
    ),
    ("entry comment", Zip([weight(comment=b"hello"), proto()]), "comments are not allowed", PLAIN),
    ("entry on a disk", Zip([weight(central={"disk": 1}), proto()]), "several disks", PLAIN),
    ("directory attribute", Zip([weight(central={"external": 0x10}), proto()]), "a directory, a link or", PLAIN),
    (
        "symbolic link",
        Zip([weight(central={"external": 0o120777 << 16}), proto()]),
        "a directory, a link or a device",
        Zip([weight(central={"external": 0o100644 << 16}), proto()]),
    ),
    (
        "packed size",
        Zip([weight().both(packed=7), proto()]),
        "8 bytes take 7",
        PLAIN,
    ),
    *(
        (f"{name} differs", Zip([weight(local={key: value}), proto()]), f"{name} of entry w is {value}", good)
        for name, key, value, good in (
            ("version_needed", "needed", 10, Zip([weight().both(needed=10), proto()])),
            ("flags", "flags", 8, PLAIN),
            ("method", "method", 8, PLAIN),
            ("time", "time", 1, Zip([weight().both(time=1), proto()])),
            ("date", "date", 34, Zip([weight().both(date=34), proto()])),
            ("crc32", "crc", 1, Zip([weight().both(crc=1), proto()])),  # a wrong checksum is not looked at here
            ("compressed_size", "packed", 7, PLAIN),
            ("size", "size", 9, PLAIN),
            ("name_length", "name_length", 0, PLAIN),
        )
    ),
    ("other name", Zip([weight(local_name=b"v"), proto()]), "has another name in its header", PLAIN),
    ("same offset", Zip([weight(), weight(b"v", central={"offset": 0}), proto()]), "entry v begins at byte 0", PLAIN),
    ("order", Zip([weight(central={"offset": 39}), proto()]), "entry w begins at byte 39", PLAIN),
    ("too large", Zip([weight().both(size=9, packed=9), proto()]), "not where the one before it ends", PLAIN),
    ("beyond directory", Zip([proto().both(size=999, packed=999)]), "reaches beyond byte", Zip([proto(Tensor())])),
    (
        "foreign extra",
        Zip([weight(local_extra=extra(0x5455, bytes(5))), proto()]),
        "extra record 0x5455",
        Zip([padded(weight()), proto()]),
    ),
    ("padding twice", Zip([weight(local_extra=2 * extra(0x5A4F, b"")), proto()]), "extra record 0x5a4f", PLAIN),
    (
        "padding in the directory",
        Zip([weight(central_extra=extra(0x5A4F, bytes(4))), proto()]),
        "extra record 0x5a4f",
        Zip([weight(local_extra=extra(0x5A4F, bytes(4))), proto()]),
    ),
    (
        "data in the padding",
        Zip([weight(local_extra=extra(0x5A4F, b"\0\0\1")), proto()]),
        "not all zeros",
        Zip([weight(local_extra=extra(0x5A4F, b"\0\0\0")), proto()]),
    ),
    (
        "cut extra record",
        Zip([weight(local_extra=extra(0x5A4F, bytes(4))[:-1]), proto()]),
        "cut short",
        Zip([weight(local_extra=extra(0x5A4F, bytes(3))), proto()]),
    ),
    ("cut extra header", Zip([weight(local_extra=b"\x4f\x5a\0"), proto()]), "4 bytes for the extra record", PLAIN),
    (
        "needless zip64",
        Zip([weight(local_extra=zip64(8, 8), central_extra=zip64(8, 8)), proto()]),
        "does not hold 0 values",
        PLAIN,
    ),
    (
        "small zip64 sizes",
        Zip([weight(central_extra=zip64(8, 8), central={"size": MAX_32, "packed": MAX_32}), proto()]),
        "needs no zip64",
        PLAIN,
    ),
    ("zip64 missing", Zip([weight().both(size=MAX_32, packed=MAX_32), proto()]), "does not hold 2 values", PLAIN),
    (
        "zip64 sizes beyond the file",
        Zip(
            [
                weight(local_extra=zip64(BIG, BIG), central_extra=zip64(BIG, BIG)).both(size=MAX_32, packed=MAX_32),
                proto(),
            ]
        ),
        "reaches beyond",
        PLAIN,
    ),
    (
        "zip64 sizes differ",
        Zip(
            [
                weight(local_extra=zip64(BIG, BIG + 1), central_extra=zip64(BIG, BIG)).both(size=MAX_32, packed=MAX_32),
                proto(),
            ]
        ),
        "differ from those in the directory",
        PLAIN,
    ),
    ("zip64 end without need", PLAIN.but(zip64=True), "entries_on_disk is 65535 in the end record and 2", PLAIN),
    (
        "zip64 end unmentioned",
        PLAIN.but(zip64=True, end={"on_disk": 2, "entries": 2, "size": 1, "offset": 1}),
        "ends at",
        PLAIN,
    ),
    ("no zip64 locator", PLAIN.but(end={"offset": MAX_32}), "the zip64 locator .* must be", PLAIN),
    ("locator elsewhere", PLAIN.but(zip64=True, locator={"offset": 0}), "the zip64 locator points to", PLAIN),
    ("locator on a disk", PLAIN.but(zip64=True, locator={"disks": 2}), "several disks", PLAIN),
    ("record on a disk", PLAIN.but(zip64=True, locator={"disk": 1}), "record_disk of the zip64 locator is 1", PLAIN),
    ("zip64 directory disk", PLAIN.but(zip64=True, end64={"start": 1}), "directory_disk of the zip64 end", PLAIN),
    ("zip64 extensible", PLAIN.but(zip64=True, end64={"record_size": 45}), "extensible data", PLAIN),
    ("zip64 disks", PLAIN.but(zip64=True, end64={"disk": 1}), "several disks", PLAIN),
    (
        "2**63 entries",
        PLAIN.but(zip64=True, end64={"on_disk": 1 << 63, "entries": 1 << 63, "size": MAX_32}, end={"offset": 99}),
        "directory_offset is 99 in the end record",
        PLAIN,
    ),
]


@pytest.mark.parametrize(
    ("attack", "reason", "near_miss"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS]
)
def test_refused(attack: Zip, reason: str, near_miss: Zip) -> None:
    """An ambiguous or foreign archive is refused with the reason, and the closest sound one is taken."""
    with pytest.raises(DecodeError, match=reason):
        onnxzip.read(Literal(attack.bytes()), None)
    assert onnxzip.read(Literal(near_miss.bytes()), None).graph is not None


def test_hostile_count_is_refused_before_the_directory_is_read() -> None:
    """A number of entries that the file has no room for costs nothing."""
    entries = 1 << 40
    size, offset = entries * 46, 0
    data = b"PK\6\6" + struct.pack("<Q2H2I4Q", 44, 45, 45, 0, 0, entries, entries, size, offset)
    data += b"PK\6\7" + struct.pack("<IQI", 0, 0, 1)
    data += b"PK\5\6" + struct.pack("<4H2IH", 0, 0, MAX_16, MAX_16, MAX_32, 0, 0)
    with pytest.raises(DecodeError, match="the directory ends at byte"):
        reader.read_entries(Literal(data))


def test_directory_too_large_for_its_entries_is_refused() -> None:
    """A directory with more bytes than its entries can have is refused before it is read."""
    data = PLAIN.but(end={"on_disk": 0, "entries": 0}).bytes()
    with pytest.raises(DecodeError, match="0 entries need 0 to 0"):
        reader.read_entries(Literal(data))


def test_directory_that_ends_in_a_name_is_refused() -> None:
    """A last entry whose name has fewer bytes than it says is refused."""
    data = Zip([Member(b"__MODEL_PROTO", central={"name_length": 14})]).bytes()
    with pytest.raises(DecodeError, match="ends inside the entry of __MODEL_PROTO"):
        reader.read_entries(Literal(data))


@pytest.mark.parametrize("nbytes", [0, 1, 21])
def test_files_shorter_than_an_end_record_are_refused(nbytes: int) -> None:
    """A file too short for an end record is an error, as is any other file."""
    with pytest.raises(DecodeError, match="needed 22 bytes for the end record"):
        reader.read_entries(Literal(bytes(nbytes)))


def test_hand_made_archives_are_taken(tmp_path: Path) -> None:
    """What the tool `zip` makes of an unpacked archive with `-0 -X` is an archive again, unaligned."""
    need("zip")
    for name, data in (("w", DATA), ("__MODEL_PROTO", graph(tensor()))):
        (tmp_path / name).write_bytes(data)
    subprocess.run(["zip", "-q", "-0", "-X", "m.onnxz", "w", "__MODEL_PROTO"], cwd=tmp_path, check=True)
    model = onnxzip.read(Literal((tmp_path / "m.onnxz").read_bytes()), None)
    assert model.graph is not None
    assert Literal(DATA) == model.graph.initializer[0].raw_data


def test_archives_of_zipfile_are_taken() -> None:
    """What `zipfile` writes with its defaults is an archive, where names and order are right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("w", DATA)
        archive.writestr("__MODEL_PROTO", graph(tensor()))
    assert onnxzip.read(Literal(buffer.getvalue()), None).graph is not None


@pytest.fixture(scope="module")
def small() -> bytes:
    """Return a small archive with two entries and padding."""
    return Zip([padded(weight()), padded(proto())]).bytes()


def test_every_truncation_is_refused(small: bytes) -> None:
    """A file that ends anywhere before its end is a FormatError."""
    for nbytes in range(len(small)):
        with pytest.raises(FormatError):
            onnxzip.read(Literal(small[:nbytes]), None)


def test_every_wrong_byte_outside_payloads_is_refused_or_harmless(small: bytes) -> None:
    """A changed byte in a header, the directory or an end record is a FormatError or changes no model."""
    model = onnxzip.read(Literal(small), None)
    entries = reader.read_entries(Literal(small))
    payloads = {position for entry in entries for position in range(entry.payload_offset, entry.end)}
    harmless = set()
    for position in set(range(len(small))) - payloads:
        for change in (0x01, 0x80, 0xFF):
            data = bytearray(small)
            data[position] ^= change
            try:
                assert model == onnxzip.read(Literal(bytes(data)), None)
                harmless.add(position)
            except FormatError:
                pass
    start = entries[-1].end
    free = {4, 5, *range(36, 42)}  # made by, internal and external attributes
    assert harmless <= {base + at for base in (start, start + 46 + len("w")) for at in free}


@pytest.mark.parametrize(
    ("head", "match"),
    [
        (Zip([padded(weight())]).bytes(), Match.STRONG),
        (Zip([weight()]).bytes(), Match.WEAK),
        (Zip([padded(weight(b"w.txt"))]).bytes(), Match.WEAK),
        (Zip([padded(weight())]).bytes()[:32], Match.WEAK),
        (Zip([]).bytes(), Match.WEAK),
        (b"PK\3\4", Match.WEAK),
        (b"PK\3", Match.NONE),
        (b"", Match.NONE),
        (b"\x08\x0a", Match.NONE),
    ],
)
def test_sniff(head: bytes, match: Match) -> None:
    """Our padding is the mark of an archive; another zip file could be one."""
    assert match is onnxzip.sniff(head, len(head))
