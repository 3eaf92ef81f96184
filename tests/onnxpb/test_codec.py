"""Facts about decoding and encoding ONNX messages, checked against the `onnx` package."""

from __future__ import annotations

import random
import typing
from dataclasses import fields
from typing import Any

import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from protos import protos

from formats.errors import DecodeError, EncodeError, FormatError, LimitError, TruncatedError
from formats.ir import model as ir
from formats.ir import walk
from formats.onnxpb import codec
from formats.onnxpb.codec import decode, encode
from formats.onnxpb.schema import MESSAGES
from formats.tensordata.source import Literal, Source

CLASSES = {cls.message: cls for cls in ir.MESSAGE_CLASSES}


class Watched(Source):
    """Bytes in memory that pretend to be far away, and count what is read of them."""

    __slots__ = ("data", "nbytes", "nbytes_read")

    def __init__(self, data: bytes) -> None:
        self.data, self.nbytes, self.nbytes_read = data, len(data), 0

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy the range, and remember how long it was."""
        self._check_range(offset, len(buffer))
        self.nbytes_read += len(buffer)
        buffer[:] = self.data[offset : offset + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Source:
        """A literal: only reads by the decoder count."""
        self._check_range(offset, nbytes)
        return Literal(self.data[offset : offset + nbytes])

    def view(self) -> memoryview:
        """The bytes."""
        return memoryview(self.data)


def to_bytes(message: Any) -> bytes:
    """The encoded message with its sources read."""
    return b"".join(part.read() if isinstance(part, Source) else part for part in encode(message))


def test_every_field_has_its_attribute() -> None:
    """The IR has one attribute for each row of the schema, of the right shape, and nothing else but its extras."""
    for name, rows in MESSAGES.items():
        cls = CLASSES[name]
        hints = {field.name: str(field.type) for field in fields(cls)}
        extras = set(hints) - {row.name for row in rows}
        assert extras - {"external_source"} == {"unknown_fields"}, name
        for row in rows:
            in_place = hints[row.name] == "Source | None"
            assert in_place or (row.label == "repeated") == hints[row.name].startswith("list["), (name, row.name)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(protos(allow_nan=False))
def test_any_message_round_trips(case: tuple[str, Any]) -> None:
    """Whatever `onnx` can build is decoded, and encoded to the bytes that `onnx` writes."""
    name, message = case
    data = message.SerializeToString()
    assert data == to_bytes(decode(Literal(data), CLASSES[name]))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(protos(allow_nan=False))
def test_windows_change_nothing(case: tuple[str, Any]) -> None:
    """A large file, of which only a window is read at a time, decodes to the same message."""
    name, message = case
    data = message.SerializeToString()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "WHOLE_BYTES", 0)
        patch.setattr(codec, "WINDOW_BYTES", 8)
        patch.setattr(codec, "INLINE_BYTES", 4)
        assert decode(Literal(data), CLASSES[name]) == decode(Watched(data), CLASSES[name])


def test_weights_are_not_read() -> None:
    """Decoding a large model reads its structure, and a window at the head of each weight."""
    graph = onnx.GraphProto(initializer=[onnx.TensorProto(name=f"w{i}", raw_data=bytes(1 << 20)) for i in range(20)])
    data = onnx.ModelProto(graph=graph).SerializeToString()
    source = Watched(data)
    model = decode(source, ir.Model)
    assert model.graph is not None
    assert [1 << 20] * 20 == [tensor.raw_data.nbytes for tensor in model.graph.initializer if tensor.raw_data]
    assert source.nbytes_read < len(data) / 5
    assert data == to_bytes(model)


def test_unpacked_elements_of_a_packed_field() -> None:
    """Typed data may arrive element by element, and is then written packed."""
    data = b"\x25\x00\x00\x80\x3f" + b"\x28\x05\x28\x96\x01" + b"\x25\x00\x00\x00\x40" + b"\x2a\x01\x07"
    proto = onnx.TensorProto.FromString(data)
    tensor = decode(Literal(data), ir.Tensor)
    assert ([1.0, 2.0], [5, 150, 7]) == (list(proto.float_data), list(proto.int32_data))
    assert proto.SerializeToString() == to_bytes(tensor)


def test_packed_elements_of_an_unpacked_field() -> None:
    """Repeated integers and floats may arrive packed although ONNX does not declare them so."""
    data = b"\x42\x03\x01\x96\x01" + b"\x3a\x08\x00\x00\x80\x3f\x00\x00\x00\x40"
    attribute = decode(Literal(data), ir.Attribute)
    assert ([1, 150], [1.0, 2.0]) == (attribute.ints, attribute.floats)
    assert onnx.AttributeProto.FromString(data).SerializeToString() == to_bytes(attribute)


def test_parts_of_a_message_are_merged() -> None:
    """A message field that occurs twice is one message: scalars from the later, lists from both."""
    first = onnx.ModelProto(graph=onnx.GraphProto(name="a", node=[onnx.NodeProto(name="n")]))
    second = onnx.ModelProto(graph=onnx.GraphProto(name="b", node=[onnx.NodeProto(name="m")]))
    data = first.SerializeToString() + second.SerializeToString()
    assert onnx.ModelProto.FromString(data).SerializeToString() == to_bytes(decode(Literal(data), ir.Model))


def test_last_member_of_a_oneof_wins() -> None:
    """A dimension that has a name after a value has the name."""
    data = b"\x08\x05\x12\x01n"
    dimension = decode(Literal(data), ir.Dimension)
    assert ir.Dimension(dim_param="n") == dimension
    tensor_then_map = b"\x0a\x02\x08\x01" + b"\x2a\x02\x08\x07"
    expected = onnx.TypeProto.FromString(tensor_then_map).SerializeToString()
    assert expected == to_bytes(decode(Literal(tensor_then_map), ir.Type))


def test_unknown_fields_survive() -> None:
    """Fields of a newer version, groups included, are kept byte for byte."""
    unknown = b"\xa2\x06\x03new" + b"\xa8\x06\x05" + b"\x9b\x06\x08\x01\x9c\x06" + b"\xad\x06abcd" + b"\xa1\x06abcdefgh"
    data = onnx.NodeProto(op_type="Relu").SerializeToString() + unknown
    node = decode(Literal(data), ir.Node)
    assert unknown == node.unknown_fields
    assert data == to_bytes(node)


def test_known_number_with_another_wire_type_is_unknown() -> None:
    """A field whose wire type is not that of its row is kept as unknown, as protobuf demands."""
    data = b"\x22\x04Relu" + b"\x18\x07"
    node = decode(Literal(data), ir.Node)
    assert (b"\x18\x07", None) == (node.unknown_fields, node.name)
    assert onnx.NodeProto.FromString(data).SerializeToString() == to_bytes(node)


def test_bytes_that_are_not_utf8_survive() -> None:
    """A string in another encoding is not changed."""
    data = b"\x1a\x03\xe9t\xe9"
    assert data == to_bytes(decode(Literal(data), ir.Node))


def test_empty_is_not_absent() -> None:
    """Presence is kept: an empty string is written, an absent one is not."""
    assert b"\x1a\x00" == to_bytes(ir.Node(name=""))
    assert b"" == to_bytes(ir.Node())


def test_canonical_sample_cut_anywhere() -> None:
    """Every prefix of a model decodes to a message or ends in a DecodeError that says where."""
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


def test_mutations_give_a_model_or_a_format_error() -> None:
    """Flipped, cut and doubled bytes never raise anything but FormatError, whole or in windows."""
    tensor = onnx.helper.make_tensor("t", onnx.TensorProto.INT32, [3], [1, -2, 300])
    node = onnx.helper.make_node("If", ["c"], ["y"], then_branch=onnx.GraphProto(name="g", initializer=[tensor]))
    info = onnx.helper.make_tensor_value_info("x", 1, [1, "n"])
    data = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [info], [info])).SerializeToString()
    random_bytes = random.Random(7)
    with pytest.MonkeyPatch.context() as patch:
        for attempt in range(6000):
            patch.setattr(codec, "WHOLE_BYTES", 0 if attempt % 2 else 1 << 20)
            patch.setattr(codec, "WINDOW_BYTES", 16)
            mutated = bytearray(data)
            for _ in range(random_bytes.randint(1, 4)):
                mutated[random_bytes.randrange(len(mutated))] = random_bytes.randrange(256)
            try:
                to_bytes(decode(Watched(bytes(mutated)), ir.Model))
            except FormatError:
                pass


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_model_or_a_decode_error(data: bytes) -> None:
    """Arbitrary bytes raise nothing but DecodeError."""
    try:
        decode(Literal(data), ir.Graph)
    except DecodeError:
        pass


def nested(depth: int) -> bytes:
    """A TypeProto within `depth` sequences."""
    data = b""
    for _ in range(depth):
        inner = b"\x0a" + codec.encode_varint(len(data)) + data
        data = b"\x22" + codec.encode_varint(len(inner)) + inner
    return data


def test_nesting_is_limited() -> None:
    """A hundred messages within each other are read, more are refused and overflow no stack."""
    assert nested(50) == to_bytes(decode(Literal(nested(50)), ir.Type))
    with pytest.raises(LimitError, match="nested"):
        decode(Literal(nested(51)), ir.Type)
    with pytest.raises(LimitError):
        decode(Literal(nested(5000)), ir.Type)


def test_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file cannot ask for any number of objects."""
    monkeypatch.setattr(codec, "MAX_MESSAGES", 1001)
    decode(Literal(b"\x0a\x00" * 1000), ir.Graph)
    with pytest.raises(LimitError, match="messages"):
        decode(Literal(b"\x0a\x00" * 1001), ir.Graph)


def test_errors_say_where() -> None:
    """An error names the file offset and the dotted place."""
    inner = b"\x2a\x05\x0a\x09abc"  # attribute whose name claims nine bytes
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
    """Encoding refuses a value that its field cannot hold, and names the field."""
    with pytest.raises(EncodeError, match="does not fit"):
        encode(message)


def test_a_model_within_itself_is_refused() -> None:
    """Encoding a graph that contains itself ends in an error."""
    graph = ir.Graph()
    graph.node.append(ir.Node(attribute=[ir.Attribute(g=graph)]))
    with pytest.raises(EncodeError):
        encode(ir.Model(graph=graph))


def test_replace_reaches_every_tensor() -> None:
    """The encoder offers each tensor that the model has, wherever it is, for replacement."""
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
    """Every message has exactly one class, and annotations resolve."""
    assert set(MESSAGES) == set(CLASSES)
    for cls in ir.MESSAGE_CLASSES:
        typing.get_type_hints(cls, vars(ir) | {"Source": Source, "np": __import__("numpy")})
