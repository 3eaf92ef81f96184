"""The FlatBuffer that is an .ort file: its schema, its parts, and what a model read from it does not keep."""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Final

from formats.codecs.contract import OWN_OPERATORS, Region
from formats.flatbuffer.fbs import UOFFSET
from formats.flatbuffer.rows import RefusalWords, read_schema
from formats.ir.model import Graph
from formats.ir.node_order import graphs_below
from formats.onnxruntime import BLOCKED, CHANNELS_LAST, MICROSOFT
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, Loss
from formats.words import listed, text_beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model
    from formats.tensordata.sources.source import Source

READ_BYTES: Final = 1 << 20  # larger files are mapped: most of them are weights, which nobody reads here
DATA_ALIGNMENT: Final = 64  # of weights, which onnxruntime uses in place; its own files align them to 4 bytes
HEADER_NBYTES: Final = 8  # the offset of the root, and the mark of the format
# The first known release that reads a version of the format; the older releases that some have are not known here.
FIRST_RELEASE: Final = {"6": "1.16"}
OLDEST: Final = "1.15"
MAX_NAMES: Final = 3  # in the short form of a message

SCHEMA: Final = read_schema(
    text_beside(__name__, "schema.fbs"),
    RefusalWords(
        "onnxruntime",
        "a value takes 4 and 2 for each of its dims, a node 2 and 1 for each attribute",
        "graphs are nested too deeply for the .ort format: onnxruntime reads tables up to 64 deep",
        "an .ort file holds at most",
        "write an .onnxz archive, or an .onnx file with `external_data`",
    ),
    data_alignment=DATA_ALIGNMENT,
    shared=("Attribute", "TypeInfo"),
)

_SOFFSET: Final = struct.Struct("<i")
_VOFFSET: Final = struct.Struct("<H")


def data_of(source: Source) -> bytes | memoryview:
    """The bytes of the file in `source`, read or mapped."""
    return source.read() if source.nbytes <= READ_BYTES else source.view()


def offset_of(data: bytes | memoryview, path: str) -> int:
    """The place of what the fields of a dotted path lead to from the root; 0 if one of them is absent.

    The buffer has been read, so all its offsets are right.
    """
    place, table = int(UOFFSET.unpack_from(data)[0]), SCHEMA.root
    for name in path.split("."):
        field = next(field for field in SCHEMA.tables[table] if field.name == name)
        vtable = place - _SOFFSET.unpack_from(data, place)[0]
        entry = vtable + 4 + 2 * field.slot  # after the sizes of the vtable and of the table
        is_known = entry < vtable + _VOFFSET.unpack_from(data, vtable)[0]
        in_table = _VOFFSET.unpack_from(data, entry)[0] if is_known else 0
        if not in_table:
            return 0
        place, table = place + in_table, field.type
        place += UOFFSET.unpack_from(data, place)[0]
    return place


def regions_of(source: Source) -> Iterator[Region]:
    """The beginning of the file in `source`, and the tables with the graph, between which the weights are."""
    yield Region(0, HEADER_NBYTES, "header", "offset of the first table")
    yield Region(HEADER_NBYTES, source.nbytes - HEADER_NBYTES, "model", "tables of the graph")


def first_release(source: Source) -> str:
    """The first known release of onnxruntime that reads the file in `source`, whose model has been read."""
    data = data_of(source)
    place = offset_of(data, "ort_version")
    nbytes = UOFFSET.unpack_from(data, place)[0] if place else 0
    return FIRST_RELEASE.get(str(data[place + 4 : place + 4 + nbytes], "utf-8"), OLDEST)


def left_out(source: Source, model: Model) -> Iterator[Loss]:
    """The losses of reading the file `source`, which has `model`, and operators in it that other runtimes lack."""
    own_operators = Counter(
        f"{node.domain}.{node.op_type}"
        for _, graph in graphs_below(model.graph or Graph())
        for node in graph.node
        if node.domain in (MICROSOFT, BLOCKED, CHANNELS_LAST)
    )
    if own_operators:
        names = sorted(own_operators)
        nodes = f"{own_operators.total()} nodes are operators of onnxruntime, which other runtimes may not have"
        is_blocked = any(name.startswith(f"{BLOCKED}.") for name in names)
        why = ". Some have the layout of the machine that wrote the file; name a `runtime` to get the usual one"
        whole, short = (
            f"{nodes} ({listed(names, most)}){why if is_blocked else ''}" for most in (len(names), MAX_NAMES)
        )
        yield Loss(OWN_OPERATORS, "graph", whole, INTERFACE, short=short)
    data = data_of(source)
    if offset_of(data, "model.graph.runtime_optimizations"):
        detail = "optimizations that onnxruntime would make when it loads the file are left out; they change no result"
        yield Loss("runtime_optimizations", "graph", detail, DOCUMENTATION)
    if offset_of(data, "session_state") or offset_of(data, "kernel_type_str_resolver"):
        detail = "what minimal builds of onnxruntime need to find kernels is left out"
        yield Loss("kernels", "", detail, DOCUMENTATION)
