"""What a program does not read of a parsed message is checked, and then copied and written as it is."""

from __future__ import annotations

import copy
from typing import Any

import onnx
import pytest

from formats import onnxpb
from formats.errors import DecodeError
from formats.ir.model import Model
from formats.onnxpb.wire import decoder
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
    parsed = decoder.decode_checked(Literal(DATA), Model)
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
