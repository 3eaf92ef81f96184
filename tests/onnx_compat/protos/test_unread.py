"""What a program does not read of a parsed message is checked, and then copied and written as it is."""

from __future__ import annotations

import copy
from typing import Any

import onnx
import pytest

from formats import onnxpb
from formats.errors import DecodeError
from formats.ir.model import Graph, Model
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.tables import tables
from formats.tensordata.sources.source import Literal

NODES = 100


def model() -> Any:
    """A model with nodes, value infos and initialisers, long enough to be left undecoded, and one with other data."""
    made = onnxpb.ModelProto(ir_version=8)
    for index in range(NODES):
        made.graph.node.add(op_type="Relu", name=f"relu{index}", input=[f"x{index}"], output=[f"x{index + 1}"])
        made.graph.value_info.add(name=f"x{index}").type.tensor_type.elem_type = 1
        made.graph.initializer.add(name=f"w{index}", dims=[2], data_type=1, raw_data=bytes(8))
    made.graph.initializer.add(name="external", data_location=1).external_data.add(key="location", value="other")
    return made


DATA = model().SerializeToString()


def test_lists_that_nobody_reads_are_written_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing nodes, and copying and writing the model, decodes no list a second time; the results are the same."""
    parsed = onnxpb.ModelProto.FromString(DATA)
    monkeypatch.setattr(decoder.FieldsInSource, "_decode", lambda left: pytest.fail(f"{left.name} was decoded again"))
    parsed.graph.node[0].name = "changed"
    made = model()
    made.graph.node[0].name = "changed"
    assert copy.deepcopy(parsed).SerializeToString() == parsed.SerializeToString() == made.SerializeToString()


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("change", ["node", "value_info", "initializer"])
def test_copies_are_independent(first: int, change: str) -> None:
    """A model and its copy do not share what either reads and changes, in any order."""
    pair = [onnxpb.ModelProto.FromString(DATA)]
    pair.append(copy.deepcopy(pair[0]))
    changed, other = pair[first], pair[1 - first]
    getattr(changed.graph, change)[3].name = "changed"
    assert getattr(other.graph, change)[3].name != "changed"
    assert other == model()
    assert other.SerializeToString() == DATA != changed.SerializeToString()


@pytest.mark.parametrize("text", [b"relu50", b"x50", b"w50"])
def test_all_is_checked_when_it_is_parsed(text: bytes) -> None:
    """A wrong element of a list that would stay unread is refused by the parser, with its place from the start."""
    position = DATA.index(b"\x1a\x06" + text if text == b"relu50" else bytes([len(text)]) + text)
    damaged = DATA[:position] + b"\xff" * (len(text) + 1) + DATA[position + len(text) + 1 :]
    with pytest.raises(DecodeError) as found:
        onnxpb.ModelProto.FromString(damaged)
    with pytest.raises(DecodeError) as expected:
        decoder.decode(Literal(damaged), Model, at_once=True)
    assert str(found.value) == str(expected.value)
    assert "graph." in str(expected.value)


def test_references_of_unread_tensors_are_known() -> None:
    """Tensors with external data are found in a list that was only checked."""
    parsed = decoder.decode_checked(Literal(DATA), "ModelProto", tables())
    assert parsed.graph.undecoded["initializer"].has_references
    assert not parsed.graph.undecoded["node"].has_references


def test_the_number_of_messages_is_limited_in_all_lists_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that are checked one after the other have one limit."""
    monkeypatch.setattr(decoder, "MAX_MESSAGES", 3 * NODES)
    with pytest.raises(DecodeError, match="messages"):
        onnxpb.ModelProto.FromString(DATA)


@pytest.mark.parametrize("library", [onnx, onnxpb], ids=["onnx", "ours"])
@pytest.mark.parametrize("is_set", [False, True])
def test_parts_that_are_held(library: Any, is_set: bool) -> None:
    """`CopyFrom` sets the unset parts that a program holds; those that were set become independent, as in `onnx`."""
    given = library.TypeProto()
    given.tensor_type.shape.dim.add().dim_value = 2
    info = library.ValueInfoProto(name="x")
    if is_set:
        info.type.tensor_type.shape.SetInParent()
    tensor_type, shape = info.type.tensor_type, info.type.tensor_type.shape
    dim = shape.dim
    info.type.CopyFrom(given)
    assert [info.type.tensor_type is tensor_type, info.type.tensor_type.shape is shape] == [not is_set] * 2
    assert len(dim) == (0 if is_set else 1)
    info.type.tensor_type.shape.dim[0].dim_value = 7
    assert [each.dim_value for each in dim] == ([] if is_set else [7])


@pytest.mark.sample(3)
@pytest.mark.parametrize("change", ["none", "two types", "unknown field", "no type", "long name", "not UTF-8"])
def test_values_are_read_later_as_at_once(change: str) -> None:
    """Values whose types are known are only looked at, and give the same when they are read; so do unusual ones."""
    made = model()
    data = made.graph.value_info[50].SerializeToString()
    more = {"two types": data + b"\x12\x02\x32\x00", "unknown field": data + b"\xf8\x07\x01", "no type": data[:5]}
    more |= {"not UTF-8": data.replace(b"x50", b"\xff50"), "none": data}
    if change == "long name":
        made.graph.value_info[50].name = "x" * 200
    else:
        value = more[change]
        graph = made.graph.SerializeToString()
        start = graph.index(bytes([len(data)]) + data)
        graph = graph[:start] + bytes([len(value)]) + value + graph[start + 1 + len(data) :]
        made = onnxpb.ModelProto(ir_version=8)
        made.graph.CopyFrom(decoder_of(graph))
    serialised = made.SerializeToString()
    found, expected = (
        decoder.decode_checked(Literal(serialised), "ModelProto", tables()),
        decoder.decode(Literal(serialised), Model, at_once=True),
    )
    assert "value_info" in found.graph.undecoded
    assert found.graph.value_info == expected.graph.value_info


def decoder_of(graph: bytes) -> Any:
    """The message of a graph, decoded at once."""
    return onnxpb.wrap(decoder.decode(Literal(graph), Graph, at_once=True))


@pytest.mark.parametrize(
    "last", [b"\x6a\x00", b"\x6a\x02\x0a\x00", b"\x6a\x01\x0a", b"\xea\x00\x00", b"\x6a\x05\x0a\x7f\x12\x00\x00"]
)
def test_short_values_at_the_end(last: bytes) -> None:
    """The last value may be empty, end too soon, or have a long tag: the result is that of decoding all at once."""
    data = model().graph.SerializeToString() + last
    try:
        expected: Any = decoder.decode(Literal(data), Graph, at_once=True).value_info
    except DecodeError as error:
        with pytest.raises(DecodeError) as found:
            decoder.decode_checked(Literal(data), "GraphProto", tables())
        assert str(found.value) == str(error)
    else:
        assert decoder.decode_checked(Literal(data), "GraphProto", tables()).value_info == expected


@pytest.mark.parametrize("wrong", [b"\x0a\x02\x08", b"\x0a\x04\x12\x02\x0a\x7f"])
def test_types_of_values_are_checked(wrong: bytes) -> None:
    """A value whose type is damaged is refused when the model is parsed."""
    made = onnxpb.GraphProto()
    for index in range(NODES):
        made.value_info.add(name=f"x{index}").type.tensor_type.elem_type = 1
    data = made.SerializeToString()
    value = b"\x0a\x01x\x12" + bytes([len(wrong)]) + wrong
    damaged = data + b"\x6a" + bytes([len(value)]) + value
    with pytest.raises(DecodeError, match=rf"value_info\[{NODES}\]"):
        onnxpb.GraphProto.FromString(damaged)
