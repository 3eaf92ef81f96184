"""Tests of decoding and encoding ONNX messages, checked against the `onnx` package."""

from __future__ import annotations

import copy
import pickle
import time
import typing
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import DecodeError, EncodeError, LimitError, TruncatedError
from formats.ir import model as ir
from formats.ir import walk
from formats.onnxpb.wire import decoder, encoder
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal, Source
from tests.onnxpb.protos import CLASSES, Watched, encoded, protos


def test_every_field_has_its_attribute() -> None:
    """The IR has one attribute for each row of the schema, with its default and type, and only the listed extras."""
    for name, rows in MESSAGES.items():
        cls = CLASSES[name]
        hints = {field.name: str(field.type) for field in fields(cls)}
        extras = set(hints) - {row.name for row in rows}
        assert extras - {"external_source"} == {"unknown_fields"}, name
        for row in rows:
            in_place = hints[row.name] == "Source | None"
            assert in_place or (row.label == "repeated") == hints[row.name].startswith("list["), (name, row.name)


@settings(max_examples=300)
@given(protos(allow_nan=False))
def test_any_message_round_trips(case: tuple[str, Any]) -> None:
    """Everything that `onnx` can build is decoded, and encoded to the bytes that `onnx` writes."""
    name, message = case
    data = message.SerializeToString()
    assert data == encoded(decode(Literal(data), CLASSES[name]))


@settings(max_examples=100)
@given(protos(allow_nan=False))
def test_windows_change_nothing(case: tuple[str, Any]) -> None:
    """A large file, which is read window by window, decodes to the same message."""
    name, message = case
    data = message.SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        patch.setattr(decoder, "WINDOW_BYTES", 8)
        patch.setattr(decoder, "INLINE_BYTES", 4)
        assert decode(Literal(data), CLASSES[name]) == decode(Watched(data), CLASSES[name])


def test_weights_are_not_read() -> None:
    """Decoding a large model reads its structure, and one window at the start of each weight."""
    graph = onnx.GraphProto(initializer=[onnx.TensorProto(name=f"w{i}", raw_data=bytes(1 << 20)) for i in range(20)])
    data = onnx.ModelProto(graph=graph).SerializeToString()
    source = Watched(data)
    model = decode(source, ir.Model)
    assert model.graph is not None
    assert [1 << 20] * 20 == [tensor.raw_data.nbytes for tensor in model.graph.initializer if tensor.raw_data]
    assert source.nbytes_read < len(data) / 5
    assert data == encoded(model)


def test_unpacked_elements_of_a_packed_field() -> None:
    """Typed data may come element by element, and are then written packed."""
    data = b"\x25\x00\x00\x80\x3f" + b"\x28\x05\x28\x96\x01" + b"\x25\x00\x00\x00\x40" + b"\x2a\x01\x07"
    proto = onnx.TensorProto.FromString(data)
    tensor = decode(Literal(data), ir.Tensor)
    assert ([1.0, 2.0], [5, 150, 7]) == (list(proto.float_data), list(proto.int32_data))
    assert proto.SerializeToString() == encoded(tensor)


def test_packed_elements_of_an_unpacked_field() -> None:
    """Repeated integers and floats may come packed, although ONNX does not declare them so."""
    data = b"\x42\x03\x01\x96\x01" + b"\x3a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"
    attribute = decode(Literal(data), ir.Attribute)
    assert ([1, 150], [1.0, 2.0]) == (attribute.ints, attribute.floats)
    assert onnx.AttributeProto.FromString(data).SerializeToString() == encoded(attribute)


def test_parts_of_a_message_are_merged() -> None:
    """A message field that occurs twice is one message: scalars from the later one, lists from both."""
    first = onnx.ModelProto(graph=onnx.GraphProto(name="a", node=[onnx.NodeProto(name="n")]))
    second = onnx.ModelProto(graph=onnx.GraphProto(name="b", node=[onnx.NodeProto(name="m")]))
    data = first.SerializeToString() + second.SerializeToString()
    assert onnx.ModelProto.FromString(data).SerializeToString() == encoded(decode(Literal(data), ir.Model))


def test_last_member_of_a_oneof_wins() -> None:
    """A dimension with a value, and then a name, has the name."""
    data = b"\x08\x05\x12\x01n"
    dimension = decode(Literal(data), ir.Dimension)
    assert ir.Dimension(dim_param="n") == dimension
    tensor_then_map = b"\x0a\x02\x08\x01" + b"\x2a\x02\x08\x07"
    expected = onnx.TypeProto.FromString(tensor_then_map).SerializeToString()
    assert expected == encoded(decode(Literal(tensor_then_map), ir.Type))


def test_unknown_fields_survive() -> None:
    """Fields of a newer version, groups included, are kept byte for byte."""
    unknown = b"\xa2\x06\x03new" + b"\xa8\x06\x05" + b"\x9b\x06\x08\x01\x9c\x06" + b"\xad\x06abcd" + b"\xa1\x06abcdefgh"
    data = onnx.NodeProto(op_type="Relu").SerializeToString() + unknown
    node = decode(Literal(data), ir.Node)
    assert unknown == node.unknown_fields
    assert data == encoded(node)


def test_many_parts_are_joined_once() -> None:
    """A message in a hundred thousand parts takes proportional time, for unknown fields and for typed data.

    If the parts were joined one by one, each list would copy some 20 GB.
    """
    count = 100_000
    started = time.process_time()
    model = decode(Literal(b"\x3a\x06\xa2\x06\x03abc" * count), ir.Model)
    attribute = decode(Literal(b"\x2a\x05\x25abcd" * count), ir.Attribute)
    assert model.graph is not None
    assert attribute.t is not None
    assert b"\xa2\x06\x03abc" * count == model.graph.unknown_fields
    assert Literal(b"abcd" * count) == attribute.t.float_data
    assert time.process_time() - started < 10


def test_known_number_with_another_wire_type_is_unknown() -> None:
    """A field whose wire type differs from its row is kept as unknown, as protobuf demands."""
    data = b"\x22\x04Relu" + b"\x18\x07"
    node = decode(Literal(data), ir.Node)
    assert (b"\x18\x07", None) == (node.unknown_fields, node.name)
    assert onnx.NodeProto.FromString(data).SerializeToString() == encoded(node)


def test_bytes_that_are_not_utf8_survive() -> None:
    """A string in another encoding is not changed."""
    data = b"\x1a\x03\xe9t\xe9"
    assert data == encoded(decode(Literal(data), ir.Node))


def test_empty_is_not_absent() -> None:
    """Presence is kept: an empty string is written, a missing one is not."""
    assert b"\x1a\x00" == encoded(ir.Node(name=""))
    assert b"" == encoded(ir.Node())


def test_canonical_sample_cut_anywhere() -> None:
    """Every prefix of a model decodes to a message or raises a DecodeError that says where."""
    tensor = onnx.numpy_helper.from_array(__import__("numpy").arange(6, dtype="float32"), "w")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1], auto_pad="VALID", f=1.5)
    graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("x", 1, [1, "n"])], [], [tensor])
    data = onnx.helper.make_model(graph).SerializeToString()
    refused = 0
    for end in range(len(data)):
        try:
            decode(Literal(data[:end]), ir.Model)
        except TruncatedError as error:
            refused += 1
            assert error.file_offset is not None
            assert error.file_offset <= end
    assert refused > len(data) / 2


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_model_or_a_decode_error(data: bytes) -> None:
    """Arbitrary bytes raise only DecodeError."""
    try:
        decode(Literal(data), ir.Graph)
    except DecodeError:
        pass


def nested(depth: int) -> bytes:
    """Return a TypeProto within `depth` sequences."""
    data = b""
    for _ in range(depth):
        inner = b"\x0a" + encode_varint(len(data)) + data
        data = b"\x22" + encode_varint(len(inner)) + inner
    return data


def test_nesting_is_limited() -> None:
    """A hundred nested messages are read; more are refused and do not overflow the stack."""
    assert nested(50) == encoded(decode(Literal(nested(50)), ir.Type))
    with pytest.raises(LimitError, match="nested"):
        decode(Literal(nested(51)), ir.Type)
    with pytest.raises(LimitError):
        decode(Literal(nested(5000)), ir.Type)


def test_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file cannot make the reader create an unlimited number of objects."""
    monkeypatch.setattr(decoder, "MAX_MESSAGES", 1001)
    decode(Literal(b"\x0a\x00" * 1000), ir.Graph)
    with pytest.raises(LimitError, match="messages"):
        decode(Literal(b"\x0a\x00" * 1001), ir.Graph)


def test_large_unknown_fields() -> None:
    """A group larger than a window is read without what follows it; a field that memory cannot hold is refused."""
    group = b"\x9b\x06" + b"\x08\x01" * 40_000 + b"\x9c\x06"
    weights = onnx.GraphProto(initializer=[onnx.TensorProto(raw_data=bytes(1 << 25))])
    source = Watched(group + onnx.ModelProto(graph=weights).SerializeToString())
    model = decode(source, ir.Model)
    assert group == model.unknown_fields
    assert source.nbytes_read < 1 << 19
    text = Watched(onnx.ModelProto(doc_string=" " * (1 << 25)).SerializeToString())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "FIELD_BYTES", 1 << 20)
        with pytest.raises(LimitError, match="at most 1048576 are read"):
            decode(text, ir.Model)


def test_errors_say_where() -> None:
    """An error names the file offset and the dotted place."""
    inner = b"\x2a\x05\x0a\x09abc"  # an attribute whose name claims to have nine bytes
    data = b"\x3a" + bytes([2 + len(inner)]) + b"\x0a" + bytes([len(inner)]) + inner
    with pytest.raises(TruncatedError) as caught:
        decode(Literal(data), ir.Model)
    assert (6, "graph.node[0].attribute[0].name") == (caught.value.file_offset, caught.value.where)


@pytest.mark.parametrize(
    "message",
    [
        ir.Node(name=5),  # type: ignore[arg-type]
        ir.Dimension(dim_value=1 << 63),
        ir.Model(graph="g"),  # type: ignore[arg-type]
        ir.Attribute(f="x"),  # type: ignore[arg-type]
        ir.Tensor(dims=["n"]),  # type: ignore[list-item]
    ],
)
def test_values_that_do_not_fit_are_refused(message: Any) -> None:
    """Encoding refuses a value that its field cannot represent, and names the field."""
    with pytest.raises(EncodeError, match="does not fit"):
        encode(message)


def test_a_model_within_itself_is_refused() -> None:
    """Encoding a graph that contains itself raises an error."""
    graph = ir.Graph()
    graph.node.append(ir.Node(attribute=[ir.Attribute(g=graph)]))
    with pytest.raises(EncodeError):
        encode(ir.Model(graph=graph))


def test_replace_reaches_every_tensor() -> None:
    """The encoder offers every tensor of the model for replacement, wherever it is."""
    tensor = onnx.helper.make_tensor("t", 1, [1], [1.0])
    sparse = onnx.helper.make_sparse_tensor(tensor, onnx.helper.make_tensor("i", 7, [1], [0]), [3])
    inner = onnx.helper.make_graph([], "inner", [], [], [tensor], sparse_initializer=[sparse])
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=inner, value=tensor)
    function = onnx.helper.make_function("d", "f", [], ["y"], [node], [])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], [tensor]), functions=[function])
    decoded = decode(Literal(model.SerializeToString()), ir.Model)
    seen: list[ir.Tensor] = []

    def remember(tensor: ir.Tensor) -> ir.Tensor:
        seen.append(tensor)
        return ir.Tensor(name="other")

    replaced = onnx.ModelProto.FromString(
        b"".join(p if isinstance(p, bytes) else p.read() for p in encode(decoded, remember))
    )
    places = dict(walk.tensors(decoded))
    assert {id(t) for t in places.values()} == {id(t) for t in seen}
    assert 9 == len(seen)
    assert 'graph.node[0].attribute["then_branch"].g.sparse_initializer[0].values' in places
    assert "other" == replaced.functions[0].node[0].attribute[0].g.initializer[0].name


def test_classes_are_those_of_the_schema() -> None:
    """Every message has exactly one class, and its annotations can be resolved."""
    assert set(MESSAGES) == set(CLASSES)
    for cls in ir.MESSAGE_CLASSES:
        typing.get_type_hints(cls, vars(ir) | {"Mapping": Mapping, "Source": Source, "np": __import__("numpy")})


def bulky_graph(count: int = 500) -> onnx.GraphProto:
    """Return a graph with long lists of similar nodes, of tiny tensors, and of value infos."""
    nodes = [
        onnx.helper.make_node("Conv", [f"x{i}", "w"], [f"x{i + 1}"], name=f"n{i}", pads=[1, 1, 1, 1], group=1)
        for i in range(count)
    ]
    values = [onnx.helper.make_tensor_value_info(f"x{i}", onnx.TensorProto.FLOAT, [1, "n"]) for i in range(count)]
    tensors = [onnx.TensorProto(name=f"t{i}", data_type=1, dims=[1], raw_data=bytes(4)) for i in range(count)]
    return onnx.GraphProto(name="g", node=nodes, initializer=tensors, value_info=values)


def test_long_lists_are_left_in_the_file() -> None:
    """Long lists of a large graph are written as they were read, and can be read completely at any time."""
    proto = bulky_graph()
    data = proto.SerializeToString()
    for source in (Literal(data), Watched(data)):
        graph = decode(source, ir.Graph)
        assert {"node", "initializer", "value_info"} == graph.undecoded.keys() - vars(graph).keys()
        assert data == encoded(graph)
        assert {"node", "initializer", "value_info"} == graph.undecoded.keys() - vars(graph).keys()
        assert [node.name for node in proto.node] == [node.name for node in graph.node]
        assert [value.name for value in proto.value_info] == [value.name for value in graph.value_info]
        assert [tensor.name for tensor in proto.initializer] == [tensor.name for tensor in graph.initializer]
        assert data == encoded(graph)


@settings(max_examples=100)
@given(protos(allow_nan=False))
def test_leaving_lists_changes_nothing(case: tuple[str, Any]) -> None:
    """Whatever lengths of lists stay undecoded, whole or in windows, the message is the same."""
    name, message = case
    data = message.SerializeToString()
    expected = decode(Literal(data), CLASSES[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "BULK_BYTES", 0)
        assert data == encoded(decode(Literal(data), CLASSES[name]))
        assert expected == decode(Literal(data), CLASSES[name])
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        patch.setattr(decoder, "WINDOW_BYTES", 8)
        assert data == encoded(decode(Watched(data), CLASSES[name]))
        assert expected == decode(Watched(data), CLASSES[name])


def test_lists_that_come_in_parts() -> None:
    """Nodes before and after other fields are one list, in their order, decoded or not."""
    long, short = bulky_graph().SerializeToString(), bulky_graph(1).SerializeToString()
    for data in (long + short, short + long, long + long):
        expected = onnx.GraphProto.FromString(data)
        assert expected.SerializeToString() == encoded(decode(Literal(data), ir.Graph))
        assert [node.name for node in expected.node] == [node.name for node in decode(Literal(data), ir.Graph).node]


@pytest.mark.parametrize("tag", [b"\x8a\x00", b"\x8a\x80\x00"])
def test_a_long_tag_in_a_long_list(tag: bytes) -> None:
    """A tag with more bytes than necessary continues a list that was left in the file."""
    data = bulky_graph().SerializeToString() + tag + b"\x03\x22\x01X"
    expected = onnx.GraphProto.FromString(data)
    assert "X" == decode(Literal(data), ir.Graph).node[500].op_type
    assert expected == onnx.GraphProto.FromString(encoded(decode(Literal(data), ir.Graph)))


def test_copies_of_lists_left_in_the_file() -> None:
    """A graph with unread lists can be copied and pickled, and the copies are independent."""
    graph = decode(Literal(bulky_graph().SerializeToString()), ir.Graph)
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        other.node[0].name = "other"
        assert ("n0", 500) == (graph.node[0].name, len(other.node))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "location", [b"\x70\x01", b"\x70\x81\x00", b"\xf0\x00\x01", b"\xf0\x80\x00\x81\x80\x80\x80\x10"]
)
def test_references_in_any_encoding_are_found(location: bytes) -> None:
    """In whatever encoding a tensor says that its data are external, its list is examined and the tensor is found."""
    assert 1 == onnx.TensorProto.FromString(location).data_location
    tensor = b"\x2a" + bytes((len(location),)) + location
    attribute = b"\x2a" + bytes((len(tensor),)) + tensor
    data = bulky_graph().SerializeToString() + b"\x0a" + bytes((len(attribute),)) + attribute
    assert [1] == [tensor.data_location for _, tensor in walk.external_tensors(decode(Literal(data), ir.Graph))]
    assert [1] == [
        tensor.data_location
        for _, tensor in walk.external_tensors(decode(Literal(bulky_graph().SerializeToString() + tensor), ir.Graph))
    ]


def test_weights_that_look_like_references() -> None:
    """Weights with the same bytes as the start of a reference do not make a list one with references."""
    proto = bulky_graph()
    for tensor in proto.initializer:
        tensor.raw_data = b"\x70\x01\xf0\x80"
    graph = decode(Literal(proto.SerializeToString()), ir.Graph)
    assert [] == list(walk.external_tensors(graph))
    assert "initializer" not in vars(graph)
    proto.initializer[250].data_location = onnx.TensorProto.EXTERNAL
    found = walk.external_tensors(decode(Literal(proto.SerializeToString()), ir.Graph))
    assert [("initializer[250]", "t250")] == [(where, tensor.name) for where, tensor in found]


def test_damage_where_a_reference_is_looked_for() -> None:
    """A damaged tensor that seems to have external data is reported with its place."""
    proto = bulky_graph()
    proto.initializer[250].raw_data = b"\x70\x01\xf0\x80"
    data = proto.SerializeToString().replace(b"\x4a\x04\x70\x01", b"\x4a\x7f\x70\x01")
    with pytest.raises(TruncatedError, match=r"needed 127 bytes") as caught:
        list(walk.external_tensors(decode(Literal(data), ir.Graph)))
    assert "initializer[250].raw_data" == caught.value.where


def test_large_tensors_behind_small_ones() -> None:
    """A large tensor after a list that was left in the file is found like any other."""
    proto = bulky_graph()
    proto.initializer.add(name="large", data_type=1, dims=[100_000], raw_data=bytes(400_000))
    data = proto.SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        graph = decode(Watched(data), ir.Graph)
    assert "initializer" not in vars(graph)
    assert data == encoded(graph)
    assert "large" in [tensor.name for _, tensor in walk.movable_tensors(graph, 1024)]
    assert proto.initializer[500].raw_data == bytes(graph.initializer[500].raw_data.read(0, 400_000))


def test_a_list_that_is_replaced() -> None:
    """A list that is assigned replaces the list in the file, which is not read for that."""
    graph = decode(Literal(bulky_graph().SerializeToString()), ir.Graph)
    graph.node = [ir.Node(op_type="Relu")]
    graph.initializer = []
    graph.value_info.clear()
    assert onnx.GraphProto(name="g", node=[onnx.NodeProto(op_type="Relu")]).SerializeToString() == encoded(graph)


def test_tensors_in_lists_left_in_the_file() -> None:
    """Lists with a large or external tensor are decoded to find it; lists without such tensors are not."""
    graph = bulky_graph()
    small = onnx.helper.make_node("Constant", [], ["c"], value=onnx.TensorProto(raw_data=bytes(8), name="small"))
    graph.node.append(small)
    plain = decode(Literal(graph.SerializeToString()), ir.Graph)
    assert [] == list(walk.movable_tensors(plain, 1024))
    assert "node" not in vars(plain)
    assert ["small", *(f"t{i}" for i in range(500))] == [tensor.name for _, tensor in walk.tensors(plain)]
    large = onnx.helper.make_node("Constant", [], ["l"], value=onnx.TensorProto(raw_data=bytes(1024), name="large"))
    graph.node.append(large)
    found = list(walk.movable_tensors(decode(Literal(graph.SerializeToString()), ir.Graph), 1024))
    assert [('node[501].attribute["value"].t', "large")] == [(where, t.name) for where, t in found if t.name != "small"]
    graph.node[-1].attribute[0].t.CopyFrom(onnx.TensorProto(name="external", data_location=1))
    assert "external" in [t.name for _, t in walk.movable_tensors(decode(Literal(graph.SerializeToString()), ir.Graph))]


def test_a_list_that_cannot_be_decoded() -> None:
    """An error in a list that was left in the file is reported when the list is read, with its place in the file."""
    proto = bulky_graph()
    data = bytearray(proto.SerializeToString())
    at = data.index(b"n400") - 2
    data[at + 1] = 0x7F  # the length of the name
    graph = decode(Literal(bytes(data)), ir.Graph)
    for _ in range(2):  # and again for a second access
        with pytest.raises(TruncatedError, match="needed 127 bytes") as caught:
            print(len(graph.node))
        assert (at, "node[400].name") == (caught.value.file_offset, caught.value.where)


def test_depth_is_limited() -> None:
    """Messages that are nested more deeply than allowed are refused, also in lists left in the file."""
    graph = bulky_graph()
    inner = onnx.helper.make_node("If", ["c"], ["y"], then_branch=onnx.GraphProto(node=[onnx.NodeProto(name="deep")]))
    graph.node.append(inner)
    data = graph.SerializeToString()
    assert "deep" == decode(Literal(data), ir.Graph, max_depth=4).node[-1].attribute[0].g.node[0].name  # type: ignore[union-attr]
    with pytest.raises(LimitError, match="more than 3 deep"):
        print(decode(Literal(data), ir.Graph, max_depth=3).node)


TENSOR_PARTS = [
    onnx.TensorProto(dims=[2]).SerializeToString(),
    onnx.TensorProto(dims=[300, -1, 0]).SerializeToString(),
    b"\x0a\x02\x02\x03",  # packed dims
    b"\x08\x82\x00",  # a dim in more bytes than necessary
    onnx.TensorProto(data_type=1).SerializeToString(),
    b"\x10\x80\x01",
    onnx.TensorProto(name="w").SerializeToString(),
    onnx.TensorProto(name="w" * 200).SerializeToString(),
    b"\x42\x01\xff",  # a name that is not UTF-8
    onnx.TensorProto(raw_data=b"").SerializeToString(),
    onnx.TensorProto(raw_data=b"\x08\x01" * 4).SerializeToString(),
    onnx.TensorProto(raw_data=bytes(2000)).SerializeToString(),
    onnx.TensorProto(doc_string="d", data_location=1).SerializeToString(),
    b"\x6a\x0d\x0a\x08location\x12\x01f",
    b"\x6a\x09\x0a\x03key\x12\x02\xc3\xa9",
    b"\x6a\x05\x12\x01v\x0a\x00",  # the value first
    b"\x6a\x00",
    b"\x6a\x85\x01\x0a\x00\x12\x80\x01" + bytes(0x80 - 1) + b"v",
    b"\x70\x01",
    b"\x70\x00",
    b"\x98\x06\x01",  # an unknown field
]


USUAL_TENSOR = [TENSOR_PARTS[index] for index in (0, 1, 4, 6, 10)]
USUAL_REFERENCE = [TENSOR_PARTS[index] for index in (0, 4, 6, 13, 14, 18)]


@given(
    st.lists(
        st.permutations(USUAL_TENSOR)
        | st.permutations(USUAL_REFERENCE)
        | st.lists(st.sampled_from(TENSOR_PARTS), max_size=6).map(lambda parts: USUAL_REFERENCE[:3] + parts)
        | st.lists(st.sampled_from(TENSOR_PARTS), max_size=6),
        max_size=6,
    )
)
def test_tensors_with_fields_in_any_order(tensors: list[list[bytes]]) -> None:
    """Tensors are read as `onnx` reads them, whatever fields they have, in whatever order, and however often."""
    data = b""
    for parts in tensors:
        contents = (USUAL_TENSOR, USUAL_REFERENCE, parts, [*USUAL_TENSOR, *parts], [*USUAL_REFERENCE, *parts])
        for content in map(b"".join, contents):
            data += b"\x2a" + encode_varint(len(content)) + content
    graph = decode(Literal(data), ir.Graph, at_once=True)
    assert onnx.GraphProto.FromString(data).SerializeToString() == encoded(graph)


def test_weights_in_nodes_that_look_like_references() -> None:
    """If the bytes of weights in nodes look like references, decoding the nodes tells that they are none, once."""
    tensor = onnx.TensorProto(raw_data=b"\x70\x01" * 100, name="t")
    nodes = [onnx.helper.make_node("Constant", [], [f"c{index}"], value=tensor) for index in range(50)]
    graph = onnx.GraphProto(node=nodes)
    source = Watched(graph.SerializeToString())
    plain = decode(source, ir.Graph)
    left = vars(plain)["undecoded"]["node"]
    assert not left.has_references
    nbytes_read = source.nbytes_read
    assert 50 == len(plain.node)
    assert nbytes_read == source.nbytes_read
    assert [] == list(walk.external_tensors(plain))
    assert plain == decode(Literal(graph.SerializeToString()), ir.Graph, at_once=True)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    graph.node.append(onnx.helper.make_node("Constant", [], ["c"], value=tensor))
    referring = decode(Literal(graph.SerializeToString()), ir.Graph)
    assert vars(referring)["undecoded"]["node"].has_references
    assert 1 == len(list(walk.external_tensors(referring)))


def test_small_data_of_files_that_are_far_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of up to a KiB stay in a file here, and are kept in memory if the file is elsewhere."""
    path = tmp_path / "m.onnx"
    graph = onnx.GraphProto(initializer=[onnx.TensorProto(name=f"w{n}", raw_data=bytes(n)) for n in (256, 257, 1025)])
    path.write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    for is_local, kept in ((True, 1), (False, 2)):
        file = File.open(path)
        monkeypatch.setattr(type(file), "is_local", is_local)
        found = decode(file.span(), ir.Model).graph.initializer
        assert [True] * kept + [False] * (3 - kept) == [isinstance(tensor.raw_data, Literal) for tensor in found]


def test_many_messages_are_encoded_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of very many messages are joined on the way, between weights, too, and stay the same."""
    weights = [onnx.TensorProto(name=f"w{n}", raw_data=bytes(1000 * (n % 3 == 2))) for n in range(20)]
    nodes = [onnx.NodeProto(op_type=f"Op{n}", input=["a"] * n) for n in range(30)]
    data = onnx.ModelProto(graph=onnx.GraphProto(node=nodes, initializer=weights)).SerializeToString()
    model = decode(Literal(data), ir.Model, at_once=True)
    monkeypatch.setattr(encoder, "MAX_SEGMENTS", 5)
    assert data == encoded(model)


@pytest.mark.parametrize("field", ["int32_data", "int64_data", "uint64_data"])
def test_a_packed_field_that_ends_inside_a_number(field: str) -> None:
    """A packed field of a tensor whose last number is cut is refused, as by protobuf, though its numbers stay there."""
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.INT64, dims=[2], **{field: [1, 300]})
    data = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor])).SerializeToString()
    cut = data.replace(b"\xac\x02", b"\xac\x82")
    with pytest.raises(TruncatedError, match="the last number of a packed field is cut"):
        decode(Literal(cut), ir.Model)
    assert decode(Literal(data), ir.Model).graph is not None
