"""Messages made of those of the IR and the other way round, and copies: the same values, whatever was read before."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any
from weakref import ref

import onnx
import pytest
from hypothesis import given, settings

import formats
from formats import onnxpb
from formats.errors import DecodeError
from formats.ir import walk
from formats.ir.model import Message
from formats.onnx_compat.protos.classes import CLASSES
from formats.onnx_compat.protos.values import Valued
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import encoded, protos


def model(nodes: int = 300) -> Any:
    """A model whose lists are long enough to stay undecoded, with attributes, metadata, types and weights."""
    made = onnx.ModelProto(ir_version=8, opset_import=[{"version": 13}], graph={"name": "g"})
    for index in range(nodes):
        node = made.graph.node.add(op_type="Conv", name=f"n{index}", input=[f"x{index}", "w"], output=[f"x{index + 1}"])
        node.attribute.add(name="kernel_shape", type=7, ints=[3, index])
        node.metadata_props.add(key="scope", value=f"layer{index}")
        made.graph.value_info.add(name=f"x{index}").type.tensor_type.shape.dim.add(dim_param="n")
        made.graph.initializer.add(name=f"w{index}", dims=[2], data_type=1, raw_data=bytes(8))
    return made


DATA = model().SerializeToString()


def read_all(message: Any) -> None:
    """Read every field of a message, at any depth."""
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if field.is_repeated else (value,):
                read_all(inner)


def classes_in(message: Any) -> set[type[Any]]:
    """The classes of all messages in a message of the IR, also of those that must be decoded for it."""
    return {type(found) for _, found in walk.visit(message, object) if isinstance(found, (Message, Valued))}


@pytest.mark.sample(2)
@pytest.mark.parametrize("is_read", [False, True])
def test_both_ways_have_the_same_bytes(is_read: bool) -> None:
    """A model goes to the IR and back without a change, and all that is decoded there is of the IR."""
    message = onnxpb.ModelProto.FromString(DATA)
    if is_read:
        read_all(message)
    plain = onnxpb.unwrap(message)
    assert encoded(plain) == DATA
    back = onnxpb.wrap(plain)
    assert back.SerializeToString() == DATA
    read_all(back)
    assert back == message
    assert all(issubclass(found, Message) for found in classes_in(plain))
    assert encoded(plain) == DATA
    assert plain == decode(Literal(DATA), formats.Model)


@pytest.mark.parametrize("is_read", [False, True])
def test_what_came_from_a_message_is_pickled_and_copied(is_read: bool) -> None:
    """A model of the IR that was a message is equal after pickling and in a deep copy, undecoded or not."""
    message = onnxpb.ModelProto.FromString(DATA)
    if is_read:
        read_all(message)
    plain = onnxpb.unwrap(message)
    assert pickle.loads(pickle.dumps(plain)) == plain == copy.deepcopy(plain)


@settings(max_examples=200)
@given(protos())
def test_any_message_of_the_ir_is_one_of_ours_and_back(drawn: tuple[str, Any]) -> None:
    """The fields of any message are the same after both ways, and in copies of what came out."""
    name, proto = drawn
    data = proto.SerializeToString()
    parsed = CLASSES[name].FromString(data)
    plain = onnxpb.unwrap(parsed)
    assert data == encoded(plain) == onnxpb.wrap(plain).SerializeToString()
    assert data == copy.deepcopy(parsed).SerializeToString() == onnxpb.wrap(copy.deepcopy(plain)).SerializeToString()


def test_a_copy_has_nothing_that_changes_with_the_original() -> None:
    """Whatever is changed in a copy, at any depth, the original stays as it was, and the other way round."""
    original = onnxpb.ModelProto.FromString(DATA)
    read_all(original)
    copied = copy.deepcopy(original)
    for changed, other in ((copied, original), (original, copied)):
        before = other.SerializeToString()
        node = changed.graph.node[7]
        node.input.append("more")
        node.attribute[0].ints[0] = 5
        node.metadata_props.add(key="k")
        changed.graph.value_info[3].type.tensor_type.shape.dim[0].dim_value = 2
        changed.graph.initializer[2].dims.append(4)
        changed.graph.initializer[2].raw_data = b"new"
        assert other.SerializeToString() == before


def test_messages_are_freed_at_once() -> None:
    """Messages, their parts and unset parts that were read have no circles, so that they go with their last name."""
    gc.disable()
    try:
        message = onnxpb.ModelProto.FromString(DATA)
        read_all(message)
        assert not message.graph.node[0].attribute[0].HasField("t")
        _ = message.graph.node[0].attribute[0].t.dims
        numbers = message.graph.initializer[0].float_data
        assert len(numbers) == 0
        known = [ref(message), ref(message.graph), ref(message.graph.node[5])]
        del message, numbers
        assert [found() for found in known] == [None] * 3
    finally:
        gc.enable()


def test_unknown_numbers_of_enums_go_both_ways() -> None:
    """A number that its enum does not have is an unknown field of a message, also in one that is merged in parts."""
    unknown = b"\xa0\x01\x63"  # AttributeProto.type = 99
    parts = b"\x0a\x01a" + unknown + b"\xf8\x7f\x05" + unknown
    for data in (unknown, parts):
        ours, theirs = onnxpb.AttributeProto.FromString(data), onnx.AttributeProto.FromString(data)
        assert ours.SerializeToString() == theirs.SerializeToString()
        assert not ours.HasField("type")
    outer = b"\x2a" + bytes([len(parts)]) + parts + b"\x1a\x01n"  # the same attribute of a node, once with each part
    assert (
        onnxpb.NodeProto.FromString(outer).SerializeToString() == onnx.NodeProto.FromString(outer).SerializeToString()
    )


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


@pytest.mark.parametrize(("field", "tag"), [("node", 0x0A), ("initializer", 0x2A), ("value_info", 0x6A)])
def test_all_is_checked_when_it_is_parsed(field: str, tag: int) -> None:
    """A wrong element of a long list is refused by the parser, with its place."""
    damaged = model().graph.SerializeToString() + bytes((tag, 2, 0x0A, 0x7F))  # an element that is cut off
    with pytest.raises(DecodeError, match=rf"{field}\[300\]"):
        onnxpb.GraphProto.FromString(damaged)


def test_the_number_of_messages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """All lists of a message together have one limit."""
    monkeypatch.setattr(decoder, "MAX_MESSAGES", 900)
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
