"""Requirements for the headers and the directory."""

from __future__ import annotations

from tests.onnxzip.archives import (
    BIG,
    MAX_32,
    PADDING,
    PLAIN,
    Zip,
    extra,
    one,
    padded,
    proto,
    tensor,
    weight,
    with_extra,
    zip64,
)
from tests.onnxzip.vector_rows.row import Row

LARGE_SIZES = {"size": MAX_32, "packed": MAX_32}
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
