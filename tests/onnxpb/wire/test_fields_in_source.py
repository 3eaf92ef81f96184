"""Long lists in attributes stay in the file; otherwise they behave like short ones, and as in protobuf."""

from __future__ import annotations

import struct
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import helper

from formats import convert, inspect, load, save, verify
from formats.errors import DecodeError, TensorDataError
from formats.ir.model import Attribute, Graph, Tensor
from formats.ir.walk import visit
from formats.onnxpb.wire import decoder, fields_in_source, varints
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources import unpacked
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import Watched, encoded
from tests.onnxpb.wire.test_wire_forms import is_refused

LISTS = ("floats", "ints", "strings")
FLOAT, INT, STRING, PACKED_FLOATS, PACKED_INTS = 0x3D, 0x40, 0x4A, 0x3A, 0x42  # tags of these fields
NODE, ATTRIBUTE = 0x0A, 0x2A  # tags of these messages in a graph and in a node
RUNS = ((unpacked, "LEAST_BYTES"), (decoder, "NUMPY_BYTES"), (decoder, "RUN_BYTES"))


def field(tag: int, payload: bytes) -> bytes:
    """Return a field with a length."""
    return bytes((tag,)) + encode_varint(len(payload)) + payload


def overlong(value: int, nbytes: int) -> bytes:
    """Return a varint with more bytes than it needs."""
    return bytes(value >> 7 * index & 0x7F | 0x80 for index in range(nbytes - 1)) + bytes((value >> 7 * nbytes - 7,))


integers = st.one_of(st.integers(-3, 300), st.integers(-(1 << 63), (1 << 63) - 1))
varint = st.one_of(
    integers.map(encode_varint),
    st.tuples(st.integers(0, 100), st.integers(2, 10)).map(lambda pair: overlong(*pair)),
)
single = st.floats(width=32, allow_nan=False).map(struct.Struct("<f").pack)
text = st.one_of(st.binary(max_size=20), st.sampled_from([b"LEAF", b"BRANCH_LEQ", b"JJJ\x03", bytes(127), bytes(128)]))
piece = st.one_of(
    st.lists(varint.map(lambda value: bytes((INT,)) + value), max_size=12).map(b"".join),
    st.lists(single.map(lambda value: bytes((FLOAT,)) + value), max_size=12).map(b"".join),
    st.lists(text.map(lambda value: field(STRING, value)), max_size=12).map(b"".join),
    st.lists(varint, max_size=12).map(lambda values: field(PACKED_INTS, b"".join(values))),
    st.lists(single, max_size=12).map(lambda values: field(PACKED_FLOATS, b"".join(values))),
    st.sampled_from(
        [field(10, b"name"), b"\xa0\x01\x07", b"\xc0\x00\x05", b"\xca\x00\x01x", b"\x18\x05", b"\xf8\x3f\x01"]
    ),
)
attribute_bytes = st.lists(piece, max_size=8).map(b"".join)
broken = st.sampled_from(
    [
        bytes((INT,)) + b"\x80" * 10 + b"\x01",
        bytes((INT,)) + b"\xff" * 9 + b"\x02",
        bytes((INT,)) + b"\x80",
        bytes((FLOAT,)) + b"abc",
        bytes((STRING,)) + b"\x05abc",
        bytes((STRING,)) + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        field(PACKED_INTS, b"\x05\x80"),
        field(PACKED_INTS, b"\x80" * 10 + b"\x01"),
        field(PACKED_FLOATS, b"abcde"),
        bytes((PACKED_INTS,)) + b"\x7f\x01",
        bytes((PACKED_FLOATS,)) + b"\xff\xff\xff\xff\x7f",
        bytes((PACKED_INTS,)),
    ]
)


def lists(attribute: Any) -> list[list[Any]]:
    """Return a strategy for lists of an attribute of either kind."""
    return [list(getattr(attribute, name)) for name in LISTS]


def outcome(data: bytes, patch: pytest.MonkeyPatch, bulk: int, window: int | None = None) -> Any:
    """Return what is read of an attribute if lists of at least this size stay undecoded, or the error and its place."""
    patch.setattr(decoder, "BULK_BYTES", bulk)
    source: Any = Literal(data)
    if window:
        source = Watched(data)
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        patch.setattr(decoder, "WINDOW_BYTES", window)
    try:
        attribute = decode(source, Attribute)
        deque(visit(attribute, Tensor), 0)  # damaged bytes may look like messages, which also stay undecoded
        return attribute
    except DecodeError as error:
        return str(error)


@settings(max_examples=150)
@given(attribute_bytes)
def test_lists_are_what_protobuf_reads(data: bytes) -> None:
    """Packed or not, overlong, negative, in parts or between other fields: the elements are those that `onnx` reads."""
    expected = onnx.AttributeProto.FromString(data)
    with pytest.MonkeyPatch.context() as patch:
        for bulk, window, least in (
            (1 << 30, None, 0),
            (0, None, 0),
            (0, None, 1 << 30),
            (30, None, 1 << 30),
            (0, 8, 0),
            (30, 64, 0),
        ):
            for module, name in RUNS:  # runs of fewer bytes are decoded one by one
                patch.setattr(module, name, least)
            attribute = outcome(data, patch, bulk, window)
            unread = encoded(attribute)
            assert lists(expected) == lists(attribute), (bulk, window, least)
            assert expected == onnx.AttributeProto.FromString(unread)
            assert expected == onnx.AttributeProto.FromString(encoded(attribute))


@pytest.mark.parametrize("window", [None, 1 << 10])
def test_short_lists_after_long_ones(window: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many lists of one element, of which longer ones came before, are not looked at as if each were long."""
    one, other = bytes((INT, 5)), bytes((FLOAT, *b"abcd"))
    count = 3000
    data = one * 20_000 + other * 20_000 + (one + other) * count
    looked_at: list[int] = []
    check = unpacked.whole_fields

    def counted(data: bytes, tag: int, width: int) -> tuple[int, int]:
        looked_at.append(len(data))
        return check(data, tag, width)

    for module in (unpacked, decoder):
        monkeypatch.setattr(module, "whole_fields", counted)
    source: Any = Literal(data)
    if window:
        source = Watched(data)
        monkeypatch.setattr(decoder, "WHOLE_BYTES", 0)
        monkeypatch.setattr(decoder, "WINDOW_BYTES", window)
    attribute = decode(source, Attribute)
    assert (20_000 + count, 20_000 + count) == (len(attribute.ints), len(attribute.floats))
    assert sum(looked_at) < 3 * len(data) + 2 * count * (1 << 11)
    if window:
        assert source.nbytes_read < 3 * len(data) + 2 * count * (1 << 12)


@settings(max_examples=150)
@given(attribute_bytes, st.one_of(broken, st.binary(max_size=6), st.just(b"")), attribute_bytes, st.integers(0, 9))
def test_lists_in_nodes_that_nobody_read_are_checked(before: bytes, damage: bytes, after: bytes, least: int) -> None:
    """A list in a node is refused if nobody reads the node and it is written, too, wherever runs of numbers begin."""
    data = field(NODE, field(ATTRIBUTE, before + damage + after)) * 2
    read = is_refused(lambda: [*decode(Literal(data), Graph).node])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "BULK_BYTES", 0)
        for name in ("NUMPY_BYTES", "RUN_BYTES"):
            patch.setattr(fields_in_source, name, least)
        assert read == is_refused(lambda: encoded(decode(Literal(data), Graph)))


@pytest.mark.parametrize("whole", [0, 1 << 24])
def test_long_lists_are_checked_and_read_together(whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose node has very many numbers and texts is written again, and read, without a look at each of them."""
    lists = {"ints": [*range(100_000)], "floats": [0.5] * 30_000, "strings": [b"LEAF"] * 30_000}
    nodes = [helper.make_node("N", ["x"], ["y"], domain="own", name="n", **lists)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [], [])), tmp_path / "m.onnx")
    looks: list[int] = []
    skip = varints.skip_field

    def counted(data: bytes, position: int, tag: int, depth: int = 0) -> int:
        looks.append(position)
        return skip(data, position, tag, depth)

    monkeypatch.setattr(decoder, "WHOLE_BYTES", whole)
    for module in (varints, decoder, fields_in_source):
        monkeypatch.setattr(module, "skip_field", counted)
    convert(tmp_path / "m.onnx", tmp_path / "n.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "n.onnx").read_bytes()
    for attribute in load(tmp_path / "m.onnx").graph.node[0].attribute:
        assert lists[attribute.name] == getattr(attribute, attribute.name)
    assert len(looks) < 20_000  # what is left of a block at the end of a list is decoded one by one


def test_a_large_element_in_memory_is_checked_where_it_is() -> None:
    """A node that nobody read, with a large weight in memory, is checked without a copy of it."""
    large = helper.make_tensor("w", onnx.TensorProto.FLOAT, [2_000_000], bytes(8_000_000), raw=True)
    node = helper.make_node("Constant", [], ["c"], value=large)
    graph = decode(Literal(onnx.GraphProto(node=[node]).SerializeToString()), Graph)
    tracemalloc.start()
    try:
        graph.undecoded["node"].check()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


TENSOR = b"=\0\0R[" + b"=\0\0\0\0" * 8  # after an unfinished field, bytes that look like the start of a tensor


@settings(max_examples=150)
@example(b"", b"\x95\0\0", TENSOR + b"\xa0\x01\x07:0" + bytes(46) + b"PC", False)
@example(b"", b"\x95\0\0", TENSOR * 2 + b"=\0\0\0\0", False)
@given(attribute_bytes, st.one_of(broken, st.binary(max_size=6)), attribute_bytes, st.booleans())
def test_damaged_lists_have_the_same_verdict(before: bytes, damage: bytes, after: bytes, cut: bool) -> None:
    """A damaged list has the same error whether it stays in the file or is decoded; no error of `onnx` is missed."""
    data = before + damage + (b"" if cut else after)
    with pytest.MonkeyPatch.context() as patch:
        expected = outcome(data, patch, 1 << 30)
        for bulk, window in ((0, None), (30, None), (0, 20)):  # a tag and a size have 10 bytes each at most
            found = outcome(data, patch, bulk, window)
            assert isinstance(expected, str) == isinstance(found, str), (bulk, window, expected, found)
            if not window and not (isinstance(found, str) and "[" in f"{expected}{found}"):  # an error in a message
                assert expected == found
    try:
        onnx.AttributeProto.FromString(data)
    except Exception:
        assert isinstance(expected, str) or b"\x80\x80\x80\x80" in data  # protobuf refuses tags of more than 5 bytes


def test_a_damaged_list_is_damaged_however_long() -> None:
    """Elements that are refused in a short list are refused anywhere in a long list, and the error says where."""
    good = b"".join(bytes((INT,)) + encode_varint(value) for value in range(100_000))
    for bad in (b"\x80" * 10 + b"\x01", b"\xff" * 9 + b"\x02"):
        with pytest.raises(DecodeError) as caught:
            decode(Literal(good + bytes((INT,)) + bad + good), Attribute)
        assert caught.value.file_offset == len(good)
        with pytest.raises(DecodeError):
            decode(Literal(field(PACKED_INTS, good + bad)), Attribute)


def ensemble(count: int) -> onnx.ModelProto:
    """Return a model with one tree node, a list of which has `count` elements, between small nodes and a weight."""
    trees = helper.make_node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        nodes_treeids=[index * index % 1_000_003 for index in range(count)],
        nodes_falsenodeids=[-index for index in range(count // 10)],
        nodes_values=[index / 7 for index in range(count)],
        nodes_modes=["LEAF" if index % 3 else "BRANCH_LEQ" for index in range(count)],
    )
    others = [helper.make_node("Relu", [f"y{index}"], [f"y{index + 1}"]) for index in range(1200)]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y0"]), *others[:600], trees, *others[600:]],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y1200", onnx.TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor("w", onnx.TensorProto.FLOAT, [600], bytes(2400), raw=True)],
    )
    imports = [helper.make_operatorsetid("", 17), helper.make_operatorsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


@pytest.mark.sample(5)
@pytest.mark.parametrize("count", [1_000, 30_000, 700_000])
def test_a_model_of_trees(tmp_path: Path, count: int) -> None:
    """A model of trees is the same in every file and format, read or unread, with lists of any size."""
    proto = ensemble(count)
    original = tmp_path / "model.onnx"
    onnx.save(proto, original)
    model = load(original)
    save(model, tmp_path / "unread.onnx")
    assert original.read_bytes() == (tmp_path / "unread.onnx").read_bytes()
    assert proto.graph.node[601] == onnx.NodeProto.FromString(encoded(model.graph.node[601]))
    for mine, theirs in zip(model.graph.node[601].attribute, proto.graph.node[601].attribute, strict=True):
        assert lists(theirs) == lists(mine)
    save(model, tmp_path / "read.onnx")
    assert original.read_bytes() == (tmp_path / "read.onnx").read_bytes()
    convert(original, tmp_path / "model.onnxz")
    convert(tmp_path / "model.onnxz", tmp_path / "back.onnx")
    assert proto == onnx.load(tmp_path / "back.onnx")


@pytest.mark.outer  # several tests of the inner ring measure memory
def test_what_reads_no_lists_takes_no_memory_for_them(tmp_path: Path) -> None:
    """Loading, converting, inspecting and verifying a model with long lists takes less memory than the lists."""
    path = tmp_path / "model.onnx"
    onnx.save(ensemble(1_000_000), path)
    small = tmp_path / "small.onnx"
    onnx.save(ensemble(10), small)
    for source, out in ((small, "s"), (path, "m")):
        tracemalloc.start()
        convert(source, tmp_path / f"{out}.onnxz")
        assert verify(source).ok
        inspect(source)
        save(load(source), tmp_path / f"{out}.onnx", external_data=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert path.stat().st_size > 16_000_000
    assert peak < 8_000_000


def test_weights_in_large_nodes_are_found() -> None:
    """A large constant, or a reference in a large subgraph, is found without decoding its list."""
    relus = [helper.make_node("Relu", ["x" * 100], [f"y{index}"]) for index in range(2000)]
    large = helper.make_tensor("w", onnx.TensorProto.FLOAT, [5_000_000], bytes(20_000_000), raw=True)
    constant = helper.make_node("Constant", [], ["c"], value=large)
    inner = onnx.GraphProto(node=relus)
    outside = inner.initializer.add(name="w", data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="w.data")
    branch = helper.make_node("If", ["b"], ["d"], then_branch=inner)
    padding = helper.make_node("Relu", ["x"], ["z"], doc_string="x" * 20_000_000)
    for node, nbytes, external in ((constant, 20_000_000, False), (branch, 0, True)):
        graph = decode(Watched(onnx.GraphProto(node=[*relus, node, *relus, padding]).SerializeToString()), Graph)
        left = graph.undecoded["node"]
        assert left.largest_nbytes >= nbytes
        assert left.has_references is external
        assert [node.op_type, "Relu"] == [graph.node[index].op_type for index in (2000, -1)]


def test_a_file_that_changes_before_a_list_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a large file changes before a list is read, reading it is an error."""
    monkeypatch.setattr(decoder, "WHOLE_BYTES", 0)
    path = tmp_path / "model.onnx"
    onnx.save(ensemble(30_000), path)
    node = load(path).graph.node[601]
    attribute = next(attribute for attribute in node.attribute if attribute.name == "nodes_treeids")
    with path.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(TensorDataError):
        len(attribute.ints)


short = st.sampled_from(["", "a", "b", "aa", "\x0a\x01a", "c" * 127, "c" * 128, "d" * 300])


@given(st.lists(short, min_size=1, max_size=8), st.lists(short, min_size=1, max_size=8))
@example(["x", "\x0a\x01a"], ["a"])  # the last bytes are equal, from the middle of a field on
@example(["a", "a"], ["a"])
def test_only_elements_between_equal_ends_are_decoded(mine: list[str], theirs: list[str]) -> None:
    """Of two lists, all equal elements at the start are counted, then all at the end, and none twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "BULK_BYTES", 0)
        graphs = [onnx.GraphProto(node=[onnx.NodeProto(name=name) for name in names]) for names in (mine, theirs)]
        one, other = (decode(Literal(graph.SerializeToString()), Graph).undecoded["node"] for graph in graphs)
        differing = one.differing(other)
    most = min(len(mine), len(theirs))
    first = next((count for count in range(most) if mine[count] != theirs[count]), most)
    last = next((n for n in range(most - first) if mine[-1 - n] != theirs[-1 - n]), most - first)
    assert differing is not None
    assert (first, last) == (differing.first_count, differing.last_count)
    assert mine[first : len(mine) - last] == [node.name for node in differing.mine]
    assert theirs[first : len(theirs) - last] == [node.name for node in differing.theirs]
