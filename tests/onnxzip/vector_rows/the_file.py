"""Requirements for the file as a whole, and for its end record."""

from __future__ import annotations

from tests.onnxzip.archives import (
    BIG,
    MAX_16,
    MAX_32,
    OWN,
    PADDING,
    PLAIN,
    Member,
    Zip,
    end_records,
    extra,
    header_cut,
    listed,
    model,
    one,
    proto,
    weight,
    with_extra,
    zip64,
)
from tests.onnxzip.vector_rows.entries import LARGE_SIZES
from tests.onnxzip.vector_rows.row import Row

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
