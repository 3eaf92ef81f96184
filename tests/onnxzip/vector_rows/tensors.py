"""Requirements for tensors: their types, dims and places."""

from __future__ import annotations

from tests.onnxzip.archives import (
    DATA,
    EXTERNAL,
    OWN,
    PLACE,
    TENSOR,
    Member,
    Zip,
    bundle,
    entry,
    external,
    graph,
    hashed,
    message,
    model,
    number,
    of,
    proto,
    tag,
    tensor,
    weight,
)
from tests.onnxzip.vector_rows.row import Row

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
