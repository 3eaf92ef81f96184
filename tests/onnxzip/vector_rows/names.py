"""Requirements for names, bundles, files and hashes."""

from __future__ import annotations

from tests.onnxzip.archives import (
    OWN,
    TENSOR,
    Member,
    Zip,
    a_file,
    bundle,
    filed,
    graph,
    hashed,
    hashes_last,
    late_hashes,
    model,
    named,
    proto,
    tensor,
    two_hashes,
    weight,
    wrong_order,
)
from tests.onnxzip.vector_rows.row import Row

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
