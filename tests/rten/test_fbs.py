"""How the reader treats buffers of other builders, and buffers that are wrong."""

from __future__ import annotations

import random
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import flatbuffers
import pytest

from formats.errors import DecodeError, FormatError, LimitError, TruncatedError, WireError
from formats.flatbuffer import fbs
from formats.flatbuffer.fbs import ConstantSpan, Table
from formats.flatbuffer.rows import Schema, TableField
from formats.rten.model import SCHEMA
from tests.rten.rten_forms import build, read

generated = pytest.importorskip("rten_convert.schema_generated", reason="needs the package rten-convert")

# A `Dim` with both of its fields, made by hand.
DIM = struct.pack(
    "<I4H iII I4s",
    *(12, 8, 12, 4, 8),  # 0: the root; 4: the sizes of vtable and table, the positions of value and name
    *(8, 3, 4),  # 12: the distance to the vtable, the value, the offset of the name
    *(2, b"ab\0\0"),  # 24: the name
)

CONSTANT = {"shape": (2,), "data": ("FloatData", {"data": bytes(8)}), "data_offset": 64}
CONV = ("ConvAttrs", {"groups": 1, "strides": (2, 2)})
NODES = [
    {"name": "x", "data": ("ValueNode", {"shape": [{"name": "N"}, {"value": 3}], "dtype": "Float"})},
    {"name": "w", "data": ("ConstantNode", CONSTANT)},
    {"name": "y", "data": ("OperatorNode", {"type": "Conv", "attrs": CONV, "inputs": (0, 1), "outputs": (0,)})},
]
BRANCH = {"nodes": NODES, "captures": (0,)}
IF = {"type": "If", "attrs": ("IfAttrs", {"then_branch": BRANCH, "else_branch": BRANCH}), "inputs": (0,)}
GRAPH = {"nodes": [*NODES, {"data": ("OperatorNode", IF)}], "inputs": (0,), "outputs": (0,)}


def built(table: Table, root: str = "Model") -> bytes:
    """Return a buffer without sources."""
    return b"".join(segment for segment in build(table, root) if isinstance(segment, bytes))


MODEL = built({"schema_version": 1, "graph": GRAPH, "metadata": {"license": "MIT"}})


def patched(buffer: bytes, *changes: tuple[int, str, int]) -> bytes:
    """Return the buffer with other numbers in it: position, format and value of each."""
    changed = bytearray(buffer)
    for position, code, value in changes:
        struct.pack_into(f"<{code}", changed, position, value)
    return bytes(changed)


def test_a_table_by_hand() -> None:
    """The simplest buffer is read, from bytes and from a view, wherever it is in memory."""
    assert read(DIM, "Dim") == {"value": 3, "name": "ab"}
    assert read(memoryview(b"?" + DIM)[1:], "Dim") == {"value": 3, "name": "ab"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(4, "H", 6)], {"value": 3}),  # the vtable ends before the name
        ([(8, "H", 0)], {"value": 0, "name": "ab"}),
        ([(10, "H", 4), (16, "I", 8)], {"value": 8, "name": "ab"}),  # both fields at one position
        ([(24, "I", 3)], {"value": 3, "name": "ab\0"}),
        ([(24, "I", 0), (28, "B", 0)], {"value": 3, "name": ""}),
    ],
)
def test_unusual_but_legal(changes: list[tuple[int, str, int]], expected: Table) -> None:
    """Everything that the encoding permits is read, even if no builder uses it."""
    assert read(patched(DIM, *changes), "Dim") == expected


def test_a_vtable_may_follow_its_tables() -> None:
    """The distance to the vtable has a sign."""
    moved = patched(DIM, (12, "i", 12 - len(DIM)), (4, "Q", 0))
    assert read(moved + DIM[4:12], "Dim") == read(DIM, "Dim")


@pytest.mark.parametrize(
    ("change", "error", "file_offset", "message"),
    [
        ((0, "I", 32), TruncatedError, 32, "needed 4 bytes for Dim, but the buffer has only 0"),
        ((0, "I", 0xFFFFFFFC), TruncatedError, 0xFFFFFFFC, "has only 0"),
        ((0, "I", 13), WireError, 13, "multiple of 4"),
        ((12, "i", 16), WireError, 0, "cannot be at byte -4"),
        ((12, "i", -(1 << 31)), TruncatedError, 12 + (1 << 31), "a vtable"),
        ((12, "i", -18), TruncatedError, 30, "needed 4 bytes for a vtable, but the buffer has only 2"),
        ((12, "i", 7), WireError, 5, "cannot be at byte 5"),
        ((4, "H", 2), WireError, 4, "found a vtable of 2 bytes"),
        ((4, "H", 9), WireError, 4, "found a vtable of 9 bytes"),
        ((4, "H", 30), TruncatedError, 4, "needed 30 bytes for a vtable"),
        ((6, "H", 3), WireError, 4, "tables of 3"),
        ((6, "H", 11), WireError, 4, "Dim.name cannot be at byte 8 of tables of 11"),
        ((6, "H", 24), TruncatedError, 12, "needed 24 bytes for Dim, but the buffer has only 20"),
        ((8, "H", 3), WireError, 4, "Dim.value cannot be at byte 3"),
        ((8, "H", 6), WireError, 4, "Dim.value cannot be at byte 6"),
        ((10, "H", 12), WireError, 4, "Dim.name cannot be at byte 12 of tables of 12"),
        ((4, "H", 10), DecodeError, 4, "slot 2"),
        ((20, "I", 5), WireError, 25, "cannot start there"),
        ((20, "I", 12), TruncatedError, 32, "the size of a vector"),
        ((20, "I", 0xFFFFFFFC), TruncatedError, 20 + 0xFFFFFFFC, "the size of a vector"),
        ((24, "I", 4), TruncatedError, 28, "needed 5 bytes for a string and its NUL, but the buffer has only 4"),
        ((24, "I", 5), TruncatedError, 28, "needed 5 bytes for the elements of a vector, but the buffer has only 4"),
        ((24, "I", 0xFFFFFFFF), TruncatedError, 28, "needed 4294967295 bytes"),
        ((30, "B", 65), WireError, 30, "NUL"),
        ((28, "B", 0xFF), DecodeError, 28, "UTF-8"),
    ],
)
def test_broken_tables(change: tuple[int, str, int], error: type[FormatError], file_offset: int, message: str) -> None:
    """One wrong number gives an error that says what is wrong and where in the file."""
    with pytest.raises(error, match=message) as caught:
        read(patched(DIM, change), "Dim", base=1000)
    assert (type(caught.value), 1000 + file_offset) == (error, caught.value.file_offset)
    assert str(caught.value.where).startswith("Dim")


def entry_of(buffer: bytes, slot: int) -> tuple[int, int]:
    """Return the position of a slot's entry in the root's vtable, and the position of its value in the buffer."""
    (root,) = struct.unpack_from("<I", buffer)
    entry = root - struct.unpack_from("<i", buffer, root)[0] + 4 + 2 * slot
    return entry, root + struct.unpack_from("<H", buffer, entry)[0]


def test_unions_need_a_known_tag_and_a_value() -> None:
    """A tag and a value must be present together, and a tag that is too new, or 0, is refused by name."""
    buffer = built({"name": "x", "data": ("ValueNode", {})}, "Node")
    (tag_entry, tag), (value_entry, _) = entry_of(buffer, 1), entry_of(buffer, 2)
    assert read(patched(buffer, (tag_entry, "H", 0), (value_entry, "H", 0)), "Node") == {"name": "x"}
    assert read(patched(buffer, (tag, "B", 1)), "Node")["data"] == ("OperatorNode", {"type": "Add"})
    for entry in (tag_entry, value_entry):
        with pytest.raises(WireError, match=r"Node\.data has only one of tag and value"):
            read(patched(buffer, (entry, "H", 0)), "Node")
    for number in (0, 4):
        with pytest.raises(DecodeError, match=f"member {number} of the union NodeKind.* 1 to 3") as caught:
            read(patched(buffer, (tag, "B", number)), "Node", base=64)
        assert ("Node.data", 64 + tag) == (caught.value.where, caught.value.file_offset)


def test_a_tag_must_be_in_its_table() -> None:
    """The position of the tag is checked like that of its value."""
    buffer = built({"data": ("ValueNode", {})}, "Node")
    entry, _ = entry_of(buffer, 1)
    for place in (3, 9):
        with pytest.raises(WireError, match=f"cannot be at byte {place}"):
            read(patched(buffer, (entry, "H", place)), "Node")


def test_unknown_members_of_enums_stay_numbers() -> None:
    """An unknown operator stays a number, which the caller can refuse or print."""
    assert read(built({"type": 200}, "OperatorNode"), "OperatorNode") == {"type": 200}


def test_required_fields_must_be_there() -> None:
    """A model needs a graph, which may be empty."""
    buffer = built({"schema_version": 1, "graph": {}}, "Model")
    assert read(buffer) == {"schema_version": 1, "graph": {}}
    with pytest.raises(DecodeError, match="a Model has no graph"):
        read(patched(buffer, (entry_of(buffer, 1)[0], "H", 0)))


def test_wide_numbers_must_be_aligned() -> None:
    """A number of 8 bytes starts at a multiple of 8 from the start of the buffer, as RTen's verifier demands."""
    buffer = built({"shape": (), "data_offset": 7}, "ConstantNode")
    assert read(buffer, "ConstantNode") == {"shape": (), "data_offset": 7}
    (root,) = struct.unpack_from("<I", buffer)
    shifted = patched(b"\0\0\0\0" + buffer, (0, "I", root + 4))
    with pytest.raises(WireError, match="number of 8 bytes"):
        read(shifted, "ConstantNode")


def test_elements_are_not_copied() -> None:
    """The elements of a constant are a range in the buffer, aligned to their size."""
    for name, code in (("FloatData", "2f"), ("Int32Data", "2i"), ("Int8Data", "8b"), ("UInt8Data", "8B")):
        data = struct.pack(f"<{code}", *range(int(code[0])))
        buffer = built({"data": data}, name)
        span = read(buffer, name)["data"]
        assert isinstance(span, ConstantSpan)
        assert (data, 0) == (buffer[span.offset :][: span.nbytes], span.offset % 4)


def test_errors_name_their_place_in_the_model() -> None:
    """The path in an error leads through vectors and unions to the field."""
    broken = MODEL.replace(b"N\0", b"\xff\0", 1)
    with pytest.raises(DecodeError, match="UTF-8") as caught:
        read(broken)
    assert caught.value.where == "Model.graph.nodes[0].data.shape[0].name"


def nested_loops(levels: int, width: int) -> bytes:
    """Return a model of nested graphs; in each of them, all `width` nodes are one shared node."""
    builder = flatbuffers.Builder()
    generated.GraphStart(builder)
    graph = generated.GraphEnd(builder)
    for _ in range(levels):
        generated.LoopAttrsStart(builder)
        generated.LoopAttrsAddBody(builder, graph)
        attrs = generated.LoopAttrsEnd(builder)
        generated.OperatorNodeStart(builder)
        generated.OperatorNodeAddAttrsType(builder, generated.OperatorAttrs.LoopAttrs)
        generated.OperatorNodeAddAttrs(builder, attrs)
        data = generated.OperatorNodeEnd(builder)
        generated.NodeStart(builder)
        generated.NodeAddDataType(builder, generated.NodeKind.OperatorNode)
        generated.NodeAddData(builder, data)
        node = generated.NodeEnd(builder)
        generated.GraphStartNodesVector(builder, width)
        for _ in range(width):
            builder.PrependUOffsetTRelative(node)
        nodes = builder.EndVector()
        generated.GraphStart(builder)
        generated.GraphAddNodes(builder, nodes)
        graph = generated.GraphEnd(builder)
    generated.ModelStart(builder)
    generated.ModelAddGraph(builder, graph)
    builder.Finish(generated.ModelEnd(builder))
    return bytes(builder.Output())


def test_shared_tables_unfold_only_so_far() -> None:
    """Nodes can be shared, but a small file cannot contain a million nodes by sharing."""
    assert len(read(nested_loops(levels=1, width=100))["graph"]["nodes"]) == 100
    assert len(read(nested_loops(levels=2, width=4))["graph"]["nodes"]) == 4
    for levels, width in ((3, 100), (14, 2), (14, 1000)):
        with pytest.raises(LimitError, match="too often"):
            read(nested_loops(levels, width))


def same_dim(count: int, nbytes: int, name_nbytes: int | None = None) -> tuple[bytes, int]:
    """Return a `ValueNode` whose dims are all one table, and how many bytes are visited before the last of them."""
    named = name_nbytes is not None
    vtable = struct.pack("<4H", 8, nbytes, 0, 4) if named else struct.pack("<2H", 4, nbytes)
    dim = 24 + 4 * count + len(vtable)
    places = [dim - at for at in range(24, 24 + 4 * count, 4)]
    buffer = struct.pack("<I3H2xiII", 12, 6, 8, 4, 8, 4, count) + struct.pack(f"<{count}I", *places) + vtable
    buffer += struct.pack("<i", len(vtable)) + struct.pack("<I", nbytes - 4).ljust(nbytes - 4, b"\0")
    text = struct.pack("<I", name_nbytes) + b"n" * name_nbytes + b"\0" if name_nbytes is not None else b""
    return buffer + text, 6 + 8 + 4 * count + len(vtable) + (count - 1) * (nbytes + (name_nbytes or 0))


@pytest.mark.parametrize(("count", "nbytes", "name_nbytes"), [(100, 800, None), (1000, 64, None), (50, 8, 500)])
def test_bytes_count_each_time_that_they_are_visited(count: int, nbytes: int, name_nbytes: int | None) -> None:
    """A shared table and its strings can be visited until all visits reach eight times the buffer's size."""
    buffer, visited = same_dim(count, nbytes, name_nbytes)
    least = -(-visited // fbs.VISITS_PER_BYTE)
    assert len(buffer) < least
    dim = {"value": 0} if name_nbytes is None else {"value": 0, "name": "n" * name_nbytes}
    assert read(buffer.ljust(least, b"\0"), "ValueNode") == {"shape": [dim] * count}
    with pytest.raises(LimitError, match="too often"):
        read(buffer.ljust(least - 1, b"\0"), "ValueNode")


FIELDS = {
    "text": TableField(0, "field", "string"),
    "bytes": TableField(0, "field", "string", binary=True),
    "texts": TableField(0, "field", "[string]"),
    "strings of bytes": TableField(0, "field", "[string]", binary=True),
    "numbers": TableField(0, "field", "[int]"),
    "numbers of tables that are alike": TableField(0, "field", "[int]"),
    "structs": TableField(0, "field", "[Three]"),
    "tables": TableField(0, "field", "[Empty]"),
}


def schema_of(kind: str) -> Schema:
    """Return the schema of a vector of tables with one field."""
    tables = {"Root": (TableField(0, "items", "[Item]"),), "Item": (FIELDS[kind],), "Empty": ()}
    unions = {"Alike": ("Item",)} if "alike" in kind else {}
    return Schema("Root", tables, {}, unions, SCHEMA.words, structs={"Three": ("int",) * 3}, alike="Alike")


def same_table(kind: str, count: int, nbytes: int) -> bytes:
    """Return a vector of tables that are all one table, with so many bytes in its field."""
    builder = flatbuffers.Builder()
    if kind in ("text", "bytes"):
        held = builder.CreateString("n" * nbytes)
    else:
        if kind == "tables":
            builder.StartObject(0)
            element = builder.EndObject()
        else:
            element = builder.CreateString("n")
        width = 12 if kind == "structs" else 4
        builder.StartVector(width, nbytes // width, 4)
        for number in range(nbytes // 4):
            if kind in ("tables", "texts", "strings of bytes"):
                builder.PrependUOffsetTRelative(element)
            else:
                builder.PrependInt32(number)
        held = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, held, 0)
    item = builder.EndObject()
    builder.StartVector(4, count, 4)
    for _ in range(count):
        builder.PrependUOffsetTRelative(item)
    items = builder.EndVector()
    builder.StartObject(1)
    builder.PrependUOffsetTRelativeSlot(0, items, 0)
    builder.Finish(builder.EndObject())
    return bytes(builder.Output())


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", FIELDS)
def test_a_shared_table_is_not_read_in_memory_again_and_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a table contains, a file with very many offsets to it takes memory in proportion to its size."""
    buffer, schema = same_table(kind, 2000, 12_000), schema_of(kind)
    read_alike = fbs._Reader._alike
    again = [0]

    def counted(reader: fbs._Reader, *arguments: Any) -> Table:
        again[0] += 1
        return read_alike(reader, *arguments)

    monkeypatch.setattr(fbs._Reader, "_alike", counted)
    tracemalloc.start()
    try:
        with pytest.raises(LimitError, match="too often"):
            fbs.read(buffer, schema, "Root")
        assert tracemalloc.get_traced_memory()[1] < 300 * len(buffer)
    finally:
        tracemalloc.stop()
    assert again[0] < 50


def with_far_numbers(count: int) -> bytes:
    """Return so many tables whose numbers are the same few at the end of the buffer."""
    first = 28 + 4 * count
    end = first + 8 * count
    buffer = struct.pack("<I3H3HiII", 16, 6, 8, 4, 6, 8, 4, 12, 4, count)  # the vtables are at 4 and 10
    buffer += b"".join(struct.pack("<I", first + 8 * index - (28 + 4 * index)) for index in range(count))
    buffer += b"".join(struct.pack("<iI", at - 10, end - at - 4) for at in range(first, end, 8))
    return buffer + struct.pack("<Ii", 1, 7)


def test_tables_are_not_compared_with_all_up_to_far_numbers() -> None:
    """Where the content of tables is far behind them, what lies between is not kept to be compared."""
    buffer, schema = with_far_numbers(2000), schema_of("numbers of tables that are alike")
    tracemalloc.start()
    try:
        assert fbs.read(buffer, schema, "Root")["items"] == [{"field": (7,)}] * 2000
        assert tracemalloc.get_traced_memory()[1] < 300 * len(buffer)
    finally:
        tracemalloc.stop()


def test_nesting_is_limited() -> None:
    """The limit of nesting is that of RTen's verifier, and far below that of the interpreter."""
    assert read(nested_loops(levels=15, width=1))["schema_version"] == 0
    for levels in (16, 5000):
        with pytest.raises(LimitError, match="nested more than 64 deep"):
            read(nested_loops(levels, width=1))


def test_the_number_of_tables_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the number of tables is that of RTen's verifier."""
    assert fbs.MAX_TABLES == 1_000_000
    buffer = nested_loops(levels=1, width=10)
    monkeypatch.setattr(fbs, "MAX_TABLES", 42)  # a model, a graph, and 4 tables for each node
    assert len(read(buffer)["graph"]["nodes"]) == 10
    monkeypatch.setattr(fbs, "MAX_TABLES", 41)
    with pytest.raises(LimitError, match="more than 41 tables"):
        read(buffer)


def told(found: Table | FormatError) -> Any:
    """A table, or all that an error says."""
    return repr(found) if isinstance(found, dict) else (type(found), str(found), found.file_offset)


def outcome(buffer: bytes, root: str = "Model") -> Table | FormatError:
    """Return the result of reading, or its error; any other exception is a failure."""
    try:
        return read(buffer, root)
    except FormatError as error:
        return error


def test_every_truncation_is_an_error() -> None:
    """A truncated buffer is never read as another model, except if only padding at the end is missing."""
    whole = read(MODEL)
    for end in range(len(MODEL)):
        result = outcome(MODEL[:end])
        assert result == whole or isinstance(result, TruncatedError), end
    assert isinstance(outcome(MODEL[:-8]), TruncatedError)


def with_attributes(count: int) -> bytes:
    """A graph of convolutions and sums over numbers in a text, all of each kind with the same attributes."""
    kinds = (("Conv", CONV), ("Einsum", ("EinsumAttrs", {"equation": "ij"})))
    nodes = [{"data": ("OperatorNode", {"type": kind, "attrs": attrs})} for kind, attrs in kinds * count]
    return built({"nodes": nodes}, "Graph")


def test_equal_attributes_are_read_once() -> None:
    """Attribute tables of the same bytes and alignment are one object, which is equal to what each of them holds."""
    found = [node["data"][1]["attrs"] for node in read(with_attributes(9), "Graph")["nodes"]]
    assert len({id(table) for _, table in found}) in (2, 3, 4)
    conv = {"auto_pad": "Same", **CONV[1]}
    assert [("ConvAttrs", conv), ("EinsumAttrs", {"equation": "ij"})] * 9 == found


def test_attributes_of_damaged_files_are_read_as_if_each_were_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever byte differs between two attribute tables, both are read right, or the same error tells where."""
    whole = with_attributes(3)
    buffers = [patched(whole, (place, "B", whole[place] ^ bit)) for place in range(len(whole)) for bit in (1, 4, 128)]
    found = [told(outcome(buffer, "Graph")) for buffer in buffers]
    monkeypatch.setattr(fbs, "PLAIN", frozenset())
    assert [told(outcome(buffer, "Graph")) for buffer in buffers] == found
    assert {str, tuple} == set(map(type, found))


def test_any_number_of_vtables_is_read() -> None:
    """Each table may have its own vtable, although most share one."""
    count = 65
    dims = b"".join(struct.pack("<4HiI", 8, 8, 4, 0, 8, number) for number in range(count))
    places = [4 * count + 16 * number + 8 - 4 * number for number in range(count)]
    buffer = struct.pack("<I3H2xiII", 12, 6, 8, 4, 8, 4, count) + struct.pack(f"<{count}I", *places) + dims
    assert read(buffer, "ValueNode") == {"shape": [{"value": number} for number in range(count)]}


def test_what_the_runtime_refuses_is_refused(runtime: Any, tmp_path: Path) -> None:
    """All damage that RTen's verifier finds is found here, too; it does not check the schema version."""
    path = tmp_path / "model.rten"
    rng = random.Random(0)
    refused = 0
    for _ in range(400):
        changed = bytearray(MODEL)
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 4, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        path.write_bytes(changed)
        try:
            runtime.run(path, {}, optimize=False)
        except RuntimeError as error:
            if "parse error" in str(error) and "schema version" not in str(error):
                refused += 1
                assert isinstance(outcome(bytes(changed)), FormatError), str(error)
    assert refused > 100
