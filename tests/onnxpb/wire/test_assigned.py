"""What a program assigns to a plain message is written as it was meant, or is an error with its place."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats
from formats.errors import EncodeError
from formats.ir.model import VALUE_FIELDS, Attribute, Dimension, Graph, Model, Node, OperatorSetId, Type, ValueInfo
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import check_assigned
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import CLASSES, encoded, message_type


def value_of(row: MessageField) -> Any:
    """Return a value that fits a field and is not its default."""
    value: Any = {"string": "n", "bytes": b"n", "float": 0.5, "double": 0.5}.get(row.kind, 1)
    if row.kind == "message":
        value = CLASSES[row.type_name]()
    return [value] if row.label == "repeated" else value


def oneof_pairs() -> Iterator[Any]:
    """Yield each pair of fields of one oneof, in both directions."""
    for message, rows in MESSAGES.items():
        for first, second in itertools.permutations((row for row in rows if row.oneof), 2):
            if first.oneof == second.oneof:
                yield pytest.param(message, first, second, id=f"{message}.{first.name}-{second.name}")


def test_every_oneof_of_the_schema_has_its_fields() -> None:
    """A class knows the members of the oneof of its message; no message has two."""
    for name, rows in MESSAGES.items():
        assert len({row.oneof for row in rows} - {""}) <= 1
        assert {row.name for row in rows if row.oneof} == set(CLASSES[name].oneof), name


def lists() -> Iterator[Any]:
    """Yield each field of a message that is a list, with its message."""
    for message, rows in MESSAGES.items():
        for row in rows:
            if row.label == "repeated" and getattr(CLASSES[message](), row.name) is not None:
                yield pytest.param(message, row.name, id=f"{message}.{row.name}")


@pytest.mark.parametrize(("message", "name"), [*lists()])
def test_no_list_is_none(message: str, name: str) -> None:
    """`None` in place of a list is an error that names the field, for every list of the schema."""
    made = CLASSES[message]()
    setattr(made, name, None)
    with pytest.raises(EncodeError, match="it must be a list") as caught:
        check_assigned(made)
    assert name == caught.value.where


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten", "textproto", "json"])
def test_every_writer_refuses_none_for_a_list(extension: str, tmp_path: Path, tiny_model: Path) -> None:
    """A list that was replaced by `None` is refused in every format, and nothing is written."""
    model = formats.load(tiny_model)
    model.graph.node = None  # type: ignore[assignment] # what a program may do
    with pytest.raises(EncodeError, match=r"^graph\.node: None"):
        formats.save(model, tmp_path / "new" / f"a.{extension}", parents=True)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("message", "first", "second"), [*oneof_pairs()])
def test_setting_a_member_of_a_oneof_clears_the_others(message: str, first: MessageField, second: MessageField) -> None:
    """The member that was set last is the only one, whichever way the other was set, as in `onnx`."""
    kind, mine, theirs = CLASSES[message], value_of(first), value_of(second)
    made = kind(**{first.name: mine})
    read = decode(Literal(encoded(made)), kind)
    proto = message_type(message).FromString(encoded(made))
    if second.kind == "message":
        getattr(proto, second.name).SetInParent()
    else:
        setattr(proto, second.name, theirs)
    for changed in (made, read):
        setattr(changed, second.name, theirs)
        assert getattr(changed, first.name) is None
        assert proto.SerializeToString() == encoded(changed)
        setattr(changed, first.name, None)
        assert getattr(changed, second.name) is theirs


@pytest.mark.parametrize(("message", "first", "second"), [*oneof_pairs()])
def test_two_members_of_a_oneof_are_refused(message: str, first: MessageField, second: MessageField) -> None:
    """A constructor refuses two members; if they were set behind its back, they are refused before they are written."""
    kind, values = CLASSES[message], {first.name: value_of(first), second.name: value_of(second)}
    with pytest.raises(ValueError, match=rf"can have only one of {kind.oneof[0]}|can have only one of"):
        kind(**values)
    made = kind()
    vars(made).update(values)
    with pytest.raises(EncodeError, match="at most one"):
        check_assigned(made)


def test_constructors_with_and_without_a_oneof_are_those_of_dataclasses() -> None:
    """The classes with a oneof take the same arguments in the same order as `dataclasses` says."""
    assert ["dim_value", "dim_param", "denotation", "unknown_fields"] == [f.name for f in dataclasses.fields(Dimension)]
    assert Dimension(2, None, "N") == Dimension(dim_value=2, denotation="N")
    for kind in CLASSES.values():
        if kind.oneof:
            names = [f.name for f in dataclasses.fields(kind)]
            assert names == list(inspect.signature(kind).parameters)


def attribute_pairs() -> Iterator[Any]:
    """Yield each type of attribute with each field of a value."""
    for number, held in itertools.product(range(1, len(VALUE_FIELDS)), VALUE_FIELDS[1:]):
        yield pytest.param(number, held, id=f"{number}-{held}")


@pytest.mark.parametrize(("number", "held"), [*attribute_pairs()])
def test_type_and_value_of_an_attribute_agree(number: int, held: str) -> None:
    """A value in another field than that of the type is an error with its place; `onnx` refuses just the same ones."""
    row = next(row for row in MESSAGES["AttributeProto"] if row.name == held)
    attribute = Attribute(name="a", type=number, **{held: value_of(row)})
    model = Model(graph=Graph(node=[Node(op_type="X", domain="d", attribute=[attribute])]))
    if VALUE_FIELDS[number] == held:
        check_assigned(model)
    else:
        with pytest.raises(EncodeError, match=f"its value is in {held}") as caught:
            check_assigned(model)
        assert caught.value.where == "graph.node[0].attribute[0]"
    proto = onnx.AttributeProto.FromString(encoded(attribute))
    if row.kind != "message":
        try:
            onnx.checker.check_attribute(proto)
        except onnx.checker.ValidationError as error:
            assert VALUE_FIELDS[number] != held, error
        else:
            assert VALUE_FIELDS[number] == held


@pytest.mark.parametrize("held", VALUE_FIELDS[1:])
def test_an_attribute_gets_the_type_of_its_value(held: str) -> None:
    """A missing type is set before the attribute is written, whenever its value was set."""
    row = next(row for row in MESSAGES["AttributeProto"] if row.name == held)
    names = {"f": "FLOAT", "i": "INT", "s": "STRING", "t": "TENSOR", "g": "GRAPH", "tp": "TYPE_PROTO"}
    wanted = ENUMS["AttributeProto.AttributeType"][names.get(held, held.upper())]
    made = Attribute(name="a", **{held: value_of(row)})
    check_assigned(made)
    assert wanted == made.type
    later = Attribute(name="a")
    if row.label == "repeated":
        getattr(later, held).extend(value_of(row))
    else:
        setattr(later, held, value_of(row))
    check_assigned(later)
    assert wanted == later.type


def test_two_values_of_an_attribute_are_refused() -> None:
    """An attribute holds one value."""
    attribute = Attribute(name="a", type=2, i=1)
    attribute.floats.append(1.0)
    with pytest.raises(EncodeError, match="2 values, in i and floats"):
        check_assigned(attribute)


def number_fields() -> Iterator[Any]:
    """Yield each field that holds the number of a type or another enum."""
    for message, rows in MESSAGES.items():
        for row in rows:
            if row.kind == "enum" or (row.kind == "int32" and row.name in ("data_type", "elem_type", "key_type")):
                yield pytest.param(message, row.name, id=f"{message}.{row.name}")


@pytest.mark.parametrize(("message", "name"), [*number_fields()])
def test_unknown_types_are_refused(message: str, name: str) -> None:
    """The number of no type, and the name of a type, are errors with their place."""
    for value in (99, -1, "float32"):
        with pytest.raises(EncodeError) as caught:
            check_assigned(CLASSES[message](**{name: value}))
        assert caught.value.where == name


def lists() -> Iterator[Any]:
    """Yield each repeated field of a model's messages that is a list."""
    for message, rows in MESSAGES.items():
        for row in rows:
            if row.label == "repeated" and (message, row.packed) != ("TensorProto", True):
                yield pytest.param(message, row.name, id=f"{message}.{row.name}")


@pytest.mark.parametrize("value", ["image", b"image", ("a", "b"), 7])
@pytest.mark.parametrize(("message", "name"), [*lists()])
def test_a_list_field_needs_a_list(message: str, name: str, value: Any) -> None:
    """A text where a list belongs is an error with its place, not a list of letters."""
    with pytest.raises(EncodeError, match="it must be a list") as caught:
        check_assigned(CLASSES[message](**{name: value}))
    assert caught.value.where == name


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten", "textproto", "json"])
@pytest.mark.parametrize("change", ["dim", "input", "attribute", "type", "oneof"])
def test_no_format_writes_something_else(digits: Path, tmp_path: Path, extension: str, change: str) -> None:
    """Whatever format is written, a changed model says what was assigned, or it is refused with the place."""
    model = formats.load(digits)
    value = model.graph.input[0]
    path = tmp_path / f"m.{extension}"
    if change == "dim":
        value.type.tensor_type.shape.dim[0].dim_value = 4
        formats.save(model, path)
        if extension != "rten":
            again = formats.load(path).graph.input[0].type.tensor_type.shape.dim[0]
            assert (4, None) == (again.dim_value, again.dim_param)
        return
    node = model.graph.node[0]
    if change == "input":
        node.input, wanted = "image", "graph.node[0].input"  # type: ignore[assignment]
    elif change == "attribute":
        node.attribute.append(Attribute(name="a", type=1, i=1))
        wanted = f"graph.node[0].attribute[{len(node.attribute) - 1}]"
    elif change == "type":
        value.type.tensor_type.elem_type, wanted = 99, "graph.input[0].type.tensor_type.elem_type"
    else:
        vars(value.type)["map_type"], wanted = formats.ir.model.MapType(), "graph.input[0].type"
    with pytest.raises(EncodeError) as caught:
        formats.save(model, path)
    assert wanted == caught.value.where
    assert not path.exists()


def test_what_a_file_says_is_written_as_it_is(tmp_path: Path) -> None:
    """A conversion copies an attribute that contradicts itself: only what a program assigned is checked."""
    contradiction = onnx.AttributeProto(name="a", type=onnx.AttributeProto.FLOAT, i=1)
    graph = onnx.GraphProto(node=[onnx.NodeProto(op_type="X", attribute=[contradiction])])
    path = tmp_path / "a.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=8, graph=graph).SerializeToString())
    formats.convert(path, tmp_path / "b.onnx")
    assert path.read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_type_of_a_value_that_changes_its_kind(tmp_path: Path) -> None:
    """An input that becomes a sequence is one in the file."""
    value = ValueInfo("x", Type(tensor_type=formats.ir.model.TensorType(1)))
    value.type.sequence_type = formats.ir.model.SequenceType(Type(tensor_type=formats.ir.model.TensorType(1)))
    model = Model(ir_version=8, opset_import=[OperatorSetId("", 17)], graph=Graph(name="g", input=[value]))
    formats.save(model, tmp_path / "a.onnx")
    assert "sequence_type" == onnx.load(tmp_path / "a.onnx").graph.input[0].type.WhichOneof("value")
    assert re.match("Type", repr(value.type))
