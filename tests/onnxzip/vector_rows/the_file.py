"""Requirements for the file as a whole."""

from __future__ import annotations

from archives import BIG, OWN, PLAIN, Member, Zip, header_cut, listed, model, one, proto, weight, with_extra, zip64
from vector_rows.entries import LARGE_SIZES
from vector_rows.row import Row

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
