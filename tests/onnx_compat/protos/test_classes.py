"""Tests of the message classes, each compared with the classes that `onnx` makes with the protobuf runtime."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import DecodeError, FormatError
from formats.ir import model as ir
from formats.onnx_compat.protos import classes
from formats.onnx_compat.protos.containers import Growing
from formats.onnxpb.wire.encoder import encode
from formats.onnxpb.wire.schema import ENUMS, MESSAGES
from formats.tensordata.sources.source import Literal, Source
from tests.onnxpb.protos import message_type as theirs

# Lockstep: the same operations on a message of ours and one of protobuf's, whose bytes are compared after each.

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(0, 3),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 3),
    "uint64": st.integers(0, (1 << 64) - 1) | st.integers(0, 3),
    "float": st.floats(allow_nan=False) | st.integers(-3, 3),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=3) | st.sampled_from((b"bytes", np.str_("numpy"))),
    "bytes": st.binary(max_size=3),
    "enum": st.integers(0, 1),
}
WRONG = (
    None,
    "text",
    b"\xff",
    1.5,
    1 << 31,
    1 << 64,
    -(1 << 70),
    True,
    [],
    np.float32(2),
    np.array([1, 2]),
    99,
    "\udc80",
)
ROOTS = ("ModelProto", "NodeProto", "AttributeProto", "TensorProto", "TypeProto", "ValueInfoProto", "SparseTensorProto")


ERRORS = (TypeError, ValueError, AttributeError, IndexError)


def outcome(action: Callable[[], Any]) -> Any:
    """Return the result of a call in a form that does not show whose it is, or the class of its exception."""
    try:
        found = action()
    except ERRORS as error:
        return next(cls for cls in ERRORS if isinstance(error, cls))
    return plain(found)


def plain(value: Any) -> Any:
    """Return a value, with messages as their bytes and containers as lists."""
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (str, bytes, int, type(None))):
        return value
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if hasattr(value, "full_name"):
        return value.full_name
    return [plain(item) for item in value]


class Pair:
    """A message or container of ours, and one of protobuf's, after the same operations."""

    def __init__(self, kind: str, mine: Any, their: Any, field: Any = None, owner: Pair | None = None) -> None:
        self.kind, self.mine, self.their, self.field = kind, mine, their, field
        self.message = owner if owner and kind != "message" else self
        self.is_root = owner is None

    def both(self, action: Callable[[Any], Any]) -> None:
        """Do the same to both, and compare the outcomes."""
        expected = outcome(lambda: action(self.their))
        assert expected == outcome(lambda: action(self.mine))


class Lockstep:
    """Pairs for operations; later pairs were found in earlier ones, or taken out of them."""

    def __init__(self, data: st.DataObject, root: str) -> None:
        self.data = data
        self.pairs = [Pair("message", getattr(classes, root)(), theirs(root)())]

    def draw(self, strategy: st.SearchStrategy[Any]) -> Any:
        """Draw a value of the example."""
        return self.data.draw(strategy)

    def value(self, pair: Pair, kind: str) -> Any:
        """Draw a value for a field, sometimes one that it refuses; protobuf sets the message nevertheless."""
        if self.draw(st.integers(0, 7)):
            return self.draw(VALUES[kind])
        pair.message.both(lambda message: message.SetInParent())
        return self.draw(st.sampled_from(WRONG))

    def fresh(self, name: str) -> Pair:
        """Make a new message with a few fields, the same for both."""
        real = theirs(name)()
        scalars = [row for row in MESSAGES[name] if row.kind != "message" and row.label == "optional"]
        for row in self.draw(st.lists(st.sampled_from(scalars), max_size=2)) if scalars else ():
            setattr(real, row.name, self.draw(VALUES[row.kind]) if row.kind != "enum" else 1)
        mine = classes.CLASSES[name]()
        mine.ParseFromString(real.SerializeToString())
        return Pair("message", mine, real)

    def step(self) -> None:
        """Do one operation on one of the pairs."""
        pair = self.draw(st.sampled_from(self.pairs))
        getattr(self, pair.kind)(pair)
        for known in self.pairs:
            assert plain(known.their) == plain(known.mine)

    def forget_parts(self) -> None:
        """Forget the parts of a message that may have been removed from it: using them can crash protobuf."""
        self.pairs = [pair for pair in self.pairs if pair.is_root]

    def message(self, pair: Pair) -> None:
        """Do an operation on a message."""
        name = pair.mine.DESCRIPTOR.scoped_name
        row = self.draw(st.sampled_from(MESSAGES[name]))
        action = self.draw(
            st.sampled_from(
                ("field", "field", "field", "ClearField", "HasField", "presence", "merge", "parse", "other")
            )
        )
        if action == "field" and row.label != "repeated" and row.kind != "message":
            value = self.value(pair, row.kind)
            pair.both(lambda message: setattr(message, row.name, value))
            if row.oneof:
                self.forget_parts()
            pair.both(lambda message: getattr(message, row.name))
        elif action == "field":
            kind = ("scalars" if row.kind != "message" else "messages") if row.label == "repeated" else "message"
            self.pairs.append(Pair(kind, getattr(pair.mine, row.name), getattr(pair.their, row.name), row, pair))
        elif action in ("ClearField", "HasField"):
            wanted = self.draw(st.sampled_from((row.name, row.oneof or "nothing")))
            if wanted == "nothing":
                pair.both(lambda message: message.SetInParent())
            if action == "ClearField" and row.oneof and wanted == row.name and not pair.their.HasField(wanted):
                return  # protobuf would clear the set field of the oneof if this one is in use
            pair.both(lambda message: getattr(message, action)(wanted))
            self.forget_parts()
        elif action == "presence":
            pair.both(lambda message: message.ListFields())
            pair.both(lambda message: message.ByteSize())
            pair.both(lambda message: message.WhichOneof(row.oneof or "value"))
        elif action == "merge":
            other = self.fresh(name)
            method = self.draw(st.sampled_from(("MergeFrom", "CopyFrom")))
            expected = outcome(lambda: getattr(pair.their, method)(other.their))
            assert expected == outcome(lambda: getattr(pair.mine, method)(other.mine))
            self.forget_parts()
        elif action == "parse":
            serialized = self.fresh(name).their.SerializeToString()
            method = self.draw(st.sampled_from(("MergeFromString", "ParseFromString")))
            pair.both(lambda message: getattr(message, method)(serialized))
            self.forget_parts()
        else:
            method = self.draw(st.sampled_from(("Clear", "SetInParent", "DiscardUnknownFields", "IsInitialized")))
            pair.both(lambda message: getattr(message, method)())
            self.forget_parts()
            self.pairs.append(Pair("message", copy.deepcopy(pair.mine), copy.deepcopy(pair.their)))

    def scalars(self, pair: Pair) -> None:
        """Do an operation on a container of scalars."""
        value, size = self.value(pair, pair.field.kind), len(pair.their)
        values = self.draw(st.lists(VALUES[pair.field.kind], max_size=3))
        index = self.draw(st.integers(-4, 4))
        span = self.draw(st.builds(slice, *[st.none() | st.integers(-3, 3)] * 2, st.sampled_from((None, 1, 2, -1))))
        actions: tuple[Callable[[Any], Any], ...] = (
            lambda field: field.append(value),
            lambda field: field.extend(values),
            lambda field: field.MergeFrom(values),
            lambda field: field.insert(index, value),
            lambda field: field.__setitem__(index, value) if -size <= index < size else None,
            lambda field: field.__getitem__(index),
            lambda field: field.__getitem__(span),
            lambda field: field.__delitem__(index),
            lambda field: field.__delitem__(span) if range(size)[span] else None,  # protobuf can crash without one
            lambda field: field.pop(index) if -size <= index < size else None,
            # protobuf loses the error of a comparison with an array, and raises it in a later call
            lambda field: field.remove(value) if size and not isinstance(value, np.ndarray) else None,
            lambda field: field.reverse(),
            lambda field: field.sort(reverse=bool(index % 2)),
            lambda field: field.clear(),
            lambda field: value in field,
            lambda field: field == values,
        )
        pair.both(self.draw(st.sampled_from(actions)))

    def messages(self, pair: Pair) -> None:
        """Do an operation on a container of messages."""
        name, index = pair.field.type_name, self.draw(st.integers(-3, 3))
        first, second, size = self.fresh(name), self.fresh(name), len(pair.their)
        action = self.draw(st.sampled_from(("add", "append", "extend", "insert", "pop", "get", "other", "wrong")))
        if action in ("add", "get", "pop"):
            if action != "add" and not -size <= index < size:
                return
            new = [
                field.add() if action == "add" else field.pop(index) if action == "pop" else field[index]
                for field in (pair.mine, pair.their)
            ]
            self.pairs.append(Pair("message", *new, owner=pair))
            if action == "pop":
                self.forget_parts()
        elif action == "append":
            pair.mine.append(first.mine)
            pair.their.append(first.their)
        elif action == "extend":
            pair.mine.extend([first.mine, second.mine])
            pair.their.extend([first.their, second.their])
        elif action == "insert":
            pair.mine.insert(index, first.mine)
            pair.their.insert(index, first.their)
        elif action == "wrong":
            value = self.draw(st.sampled_from((None, 1, {}, "text")))
            pair.message.both(lambda message: message.SetInParent())
            pair.both(lambda field: field.append(value))
            pair.both(lambda field: field.__setitem__(0, value) if size else None)
        else:
            actions: tuple[Callable[[Any], Any], ...] = (
                lambda field: field.__delitem__(index),
                lambda field: field.__delitem__(slice(index, None)),
                lambda field: field.reverse(),
                lambda field: field.sort(key=lambda message: message.SerializeToString()),
                lambda field: field.clear(),
                lambda field: field[::2],
            )
            pair.both(self.draw(st.sampled_from(actions)))
            self.forget_parts()


@pytest.mark.sample(3)
@pytest.mark.parametrize("root", ROOTS)
@given(data=st.data())
@settings(
    max_examples=30,
    derandomize=True,  # always the same examples: a new one might crash the protobuf runtime
)
def test_lockstep(root: str, data: st.DataObject) -> None:
    """Any sequence of operations on a message of ours and one of protobuf's has the same outcomes and bytes."""
    lockstep = Lockstep(data, root)
    for _ in range(data.draw(st.integers(1, 30))):
        lockstep.step()


# Single facts


def both(text: str) -> tuple[Any, Any]:
    """Evaluate an expression with their names and with ours."""
    return tuple(  # type: ignore[return-value]
        outcome(lambda names=names: eval(text, {**vars(names), "np": np, "copy": copy}))
        for names in (onnx.onnx_ml_pb2, classes)
    )


@pytest.mark.parametrize(
    "text",
    [
        "NodeProto(name='n', input=['a', 'b'], attribute=[dict(name='k', ints=[1, 2]), AttributeProto(i=3)])",
        "NodeProto(name=None, input=None, attribute=None)",
        "NodeProto(input='abc')",
        "NodeProto(input=(letter for letter in 'abc'))",
        "NodeProto('positional')",
        "NodeProto(nonsense=1)",
        "NodeProto(name=1)",
        "NodeProto(input=5)",
        "NodeProto(input=[5])",
        "NodeProto(attribute=5)",
        "NodeProto(attribute=AttributeProto())",
        "NodeProto(attribute=[1])",
        "NodeProto(attribute=[{'nonsense': 1}])",
        "ModelProto(graph={'name': 'g', 'node': [{'op_type': 'Add'}]})",
        "ModelProto(graph={})",
        "ModelProto(graph=GraphProto())",
        "ModelProto(graph=NodeProto())",
        "ModelProto(graph=[])",
        "AttributeProto(type='FLOAT', f=1)",
        "AttributeProto(type='NONSENSE')",
        "AttributeProto(type=99)",
        "AttributeProto(f=1e300)",
        "AttributeProto(f=-1e300)",
        "AttributeProto(f=float('nan')) == AttributeProto(f=float('nan'))",
        "AttributeProto(f=0.0) == AttributeProto(f=-0.0)",
        "AttributeProto(i=True)",
        "AttributeProto(i=np.int8(-3))",
        "AttributeProto(i=np.float32(3))",
        "AttributeProto(i=np.array(3))",
        "AttributeProto(i=np.array([3]))",
        "AttributeProto(f='1')",
        "AttributeProto(f=np.array([1.0]))",
        "AttributeProto(f=np.float64(0.1)).f",
        "AttributeProto(s='text')",
        "AttributeProto(s=bytearray(b'bytes'))",
        "AttributeProto(name=b'\\xff')",
        "AttributeProto(floats=np.ones(3), ints=range(3), strings=[b'a'])",
        "AttributeProto(floats=np.ones((2, 2)))",
        "TensorProto(float_data=[1e300, -1e300, 0.1], double_data=[0.1], int32_data=[-1, 5], uint64_data=[1 << 63])",
        "TensorProto(float_data=[]).HasField('float_data')",
        "TensorProto(int32_data=np.array([1, 2], np.int16), dims=np.array([2]))",
        "TensorProto(raw_data=b'').HasField('raw_data')",
        "TensorProto().HasField('raw_data')",
        "TensorShapeProto.Dimension(dim_value=3, dim_param='n')",
        "TypeProto(tensor_type={}, sequence_type={}).WhichOneof('value')",
        "TypeProto(tensor_type=dict(elem_type=1, shape=dict(dim=[{}, dict(dim_value=2)])))",
        "TypeProto().WhichOneof('nonsense')",
        "TypeProto().WhichOneof(3)",
        "TypeProto().WhichOneof(b'value')",
        "TypeProto().HasField('value')",
        "TypeProto().HasField(3)",
        "TypeProto().HasField(b'denotation')",
        "TypeProto().ClearField('nonsense')",
        "NodeProto().HasField('input')",
        "NodeProto(name='n') == NodeProto(name='n')",
        "NodeProto(name='') == NodeProto()",
        "NodeProto() == AttributeProto()",
        "NodeProto() == None",
        "NodeProto() in [NodeProto()]",
        "hash(NodeProto())",
        "hash(NodeProto().input)",
        "NodeProto(input=['a']).input + ['b']",
        "NodeProto(input=['a']).input == ('a',)",
        "NodeProto(input=['a', 'b']).input[::-1]",
        "NodeProto(input=['a', 'b']).input[5]",
        "NodeProto(input=['a', 'b']).input['a']",
        "str(NodeProto(input=['a', 'b']).input)",
        "copy.deepcopy(AttributeProto(ints=[1, 2]).ints)",
        "copy.deepcopy(GraphProto(node=[{'name': 'n'}]).node)",
        "copy.copy(NodeProto(input=['a']))",
        "NodeProto(name='n').__reduce__()[1:]",
        "NodeProto().MergeFrom(AttributeProto())",
        "NodeProto().CopyFrom(None)",
        "NodeProto().ParseFromString('text')",
        "NodeProto().ParseFromString(1)",
        "NodeProto().ParseFromString(bytearray(b'\\x1a\\x01n'))",
        "NodeProto().ParseFromString(memoryview(b'\\x1a\\x01n'))",
        "NodeProto.FromString(b'\\x1a\\x01n')",
        "NodeProto(name='n').SerializeToString(deterministic=True)",
        "NodeProto(name='n').SerializePartialToString()",
        "NodeProto(name='n').ByteSize()",
        "NodeProto(name='n').FindInitializationErrors()",
        "NodeProto.NAME_FIELD_NUMBER",
        "NodeProto.__qualname__, TypeProto.Tensor.__qualname__, TypeProto.Tensor.__name__",
        "TensorProto.DataType.Name(1)",
        "TensorProto.DataType.Name(99)",
        "TensorProto.DataType.Name('FLOAT')",
        "TensorProto.DataType.Value('FLOAT')",
        "TensorProto.DataType.Value('NONSENSE')",
        "TensorProto.DataType.NONSENSE",
        "TensorProto.DataType.BFLOAT16, TensorProto.BFLOAT16, TensorProto().BFLOAT16, AttributeProto.STRINGS",
        "IR_VERSION, EXPERIMENTAL, STABLE",
        "TensorProto.DataType.DESCRIPTOR.full_name",
        "TensorProto.DataType.DESCRIPTOR.values_by_number[1].name",
        "TensorProto.DESCRIPTOR.enum_values_by_name['FLOAT'].number",
        "TensorProto.DESCRIPTOR.nested_types_by_name['Segment'].name",
        "TypeProto.Tensor.DESCRIPTOR.containing_type.name",
        "TypeProto.DESCRIPTOR.oneofs[0].name",
        "[field.name for field in TensorShapeProto.Dimension.DESCRIPTOR.oneofs_by_name['value'].fields]",
        "TypeProto.DESCRIPTOR.fields_by_camelcase_name['sparseTensorType'].name",
        "TypeProto.DESCRIPTOR is TypeProto().DESCRIPTOR",
        "NodeProto.DESCRIPTOR.file.name, NodeProto.DESCRIPTOR.file.package",
    ],
)
def test_expression(text: str) -> None:
    """An expression gives the same result, or the same kind of exception, with both classes."""
    expected, found = both(text)
    assert expected == found


FACTS = """name full_name number type cpp_type is_repeated is_required has_presence is_packed default_value
has_default_value json_name camelcase_name is_extension"""


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_descriptors(name: str) -> None:
    """The descriptor of every message says the same of each field as protobuf's."""
    mine, their = classes.CLASSES[name].DESCRIPTOR, theirs(name).DESCRIPTOR
    assert (their.name, their.full_name) == (mine.name, mine.full_name)
    assert {field.name for field in their.fields} == {field.name for field in mine.fields}
    for field in mine.fields:
        other = their.fields_by_number[field.number]
        for what in FACTS.split():
            assert getattr(other, what) == getattr(field, what), (field, what)
        assert field is mine.fields_by_name[field.name]
        for what in ("message_type", "enum_type", "containing_oneof", "containing_type"):
            there, here = getattr(other, what), getattr(field, what)
            assert (there and there.full_name) == (here and here.full_name), (field, what)
        assert getattr(theirs(name), f"{field.name.upper()}_FIELD_NUMBER") == field.number


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_enums(name: str) -> None:
    """Every enum has the names and numbers of protobuf's, in the same order."""
    mine: Any = classes
    for step in name.split("."):
        mine = getattr(mine, step)
    their = theirs(name)
    assert their.items() == mine.items()
    assert [name for name, _ in mine.items()] == mine.keys()
    assert [number for _, number in mine.items()] == mine.values()
    assert all(their.Name(number) == mine.Name(number) and mine.Value(name) == number for name, number in mine.items())


def test_a_submessage_becomes_part_when_it_is_changed() -> None:
    """An unset submessage that was read becomes part of its message when it is changed, at any depth."""
    value = classes.ValueInfoProto()
    shape = value.type.tensor_type.shape
    assert shape is value.type.tensor_type.shape
    assert not value.HasField("type")
    shape.dim.extend([])
    assert value.type.tensor_type.HasField("shape")
    shape.dim.add().dim_value = 3
    assert value.type.tensor_type.shape.dim[0].dim_value == 3
    assert shape is value.type.tensor_type.shape


def test_a_submessage_in_use_takes_what_is_merged() -> None:
    """An unset submessage that was read is the one that a merge sets."""
    value = classes.ValueInfoProto()
    tensor_type = value.type.tensor_type
    value.MergeFrom(classes.ValueInfoProto(type={"tensor_type": {"elem_type": 7}}))
    assert 7 == tensor_type.elem_type
    tensor_type.elem_type = 1
    assert 1 == value.type.tensor_type.elem_type


def test_what_was_cleared_goes_on_by_itself() -> None:
    """Submessages and containers keep their content when their field is cleared, and no longer change the message."""
    model = classes.ModelProto(graph={"name": "g", "node": [{"name": "n"}], "initializer": [{"float_data": [1, 2]}]})
    graph, node, nodes = model.graph, model.graph.node[0], model.graph.node
    numbers = graph.initializer[0].float_data
    graph.initializer[0].ClearField("float_data")
    graph.ClearField("node")
    model.ClearField("graph")
    nodes.add(name="another")
    numbers.append(3)
    graph.name = node.name = "changed"
    assert b"" == model.SerializeToString()
    assert ["changed", "another"] == [item.name for item in nodes]
    assert [1, 2, 3] == list(numbers)
    assert ("changed", 0, 0) == (graph.name, len(graph.node), len(graph.initializer[0].float_data))
    assert graph is not model.graph


def test_a_field_of_a_oneof_that_lost_its_place_goes_on_by_itself() -> None:
    """A message that another field of the oneof replaced no longer changes the outer message."""
    value = classes.TypeProto(tensor_type={"elem_type": 1})
    tensor_type, map_type = value.tensor_type, value.map_type
    value.sequence_type.SetInParent()
    tensor_type.elem_type = 4
    assert "sequence_type" == value.WhichOneof("value")
    map_type.key_type = 7
    assert "map_type" == value.WhichOneof("value")


def test_containers_copy_what_is_added() -> None:
    """Appending a message adds a copy of it to the container."""
    graph, node = classes.GraphProto(), classes.NodeProto(name="n", input=["a"])
    graph.node.append(node)
    graph.node.extend(graph.node)
    node.name = "changed"
    node.input.append("b")
    assert [("n", ["a"])] * 2 == [(item.name, list(item.input)) for item in graph.node]


def test_assignment_to_fields_that_are_no_scalars_is_refused() -> None:
    """Messages and repeated fields cannot be assigned, and neither can unknown fields."""
    node = classes.NodeProto()
    for name, value in (("input", ["a"]), ("attribute", []), ("nonsense", 1)):
        with pytest.raises(AttributeError):
            setattr(node, name, value)
    with pytest.raises(AttributeError):
        classes.AttributeProto().t = classes.TensorProto()
    with pytest.raises(TypeError, match="extend"):
        node.input += ["a"]
    assert classes.NodeProto() == node


def test_a_failed_change_changes_nothing() -> None:
    """If one of several values is wrong, or bytes to merge are not a message, nothing changes."""
    node = classes.NodeProto(name="n", input=["a"])
    before = node.SerializeToString()
    with pytest.raises(TypeError):
        node.input.extend(["b", 5])
    with pytest.raises(DecodeError):
        node.MergeFromString(b"\x1a\x09short")
    with pytest.raises(ValueError, match="nonsense"):
        node.attribute.add(nonsense=1)
    assert before == node.SerializeToString()
    with pytest.raises(DecodeError):  # here nothing of the old content stays, as in protobuf
        node.ParseFromString(b"\x1a\x09short")
    assert node.SerializeToString() == b""


def test_pickling() -> None:
    """Messages, including nested classes, are the same after pickling; containers refuse it."""
    model = classes.ModelProto(graph={"node": [{"name": "n"}], "initializer": [{"raw_data": b"data" * 999}]})
    assert model == pickle.loads(pickle.dumps(model))
    nested = classes.TypeProto.Tensor(elem_type=3)
    assert nested == pickle.loads(pickle.dumps(nested))
    with pytest.raises(pickle.PickleError):
        pickle.dumps(model.graph.node)


def test_merging_with_itself_doubles() -> None:
    """Merging a message with itself repeats its repeated fields, and copying it from itself does nothing."""
    tensor = classes.TensorProto(name="t", dims=[2], float_data=[1, 2], external_data=[{"key": "k"}])
    tensor.CopyFrom(tensor)
    assert [1, 2] == tensor.float_data
    tensor.MergeFrom(tensor)
    assert ([2, 2], [1, 2, 1, 2], 2) == (list(tensor.dims), list(tensor.float_data), len(tensor.external_data))


def test_unknown_fields_survive() -> None:
    """Fields of a later version are kept, copied and compared, until they are discarded."""
    data = b"\x1a\x01n\xf8\x07\x05"
    node = classes.NodeProto.FromString(data)
    assert data == copy.deepcopy(node).SerializeToString()
    assert classes.NodeProto(name="n") != node
    graph = classes.GraphProto(node=[node])
    graph.DiscardUnknownFields()
    assert classes.GraphProto(node=[{"name": "n"}]) == graph


# Messages of the IR, and ours


def test_wrap_and_unwrap() -> None:
    """A message and an object of the IR are made of each other, with the same values, and change independently."""
    node = ir.Node(name="n", input=["a"], attribute=[ir.Attribute(name="k", type=2, i=3)])
    message = classes.wrap(node)
    assert isinstance(message, classes.NodeProto)
    assert node == classes.unwrap(message)
    assert classes.unwrap(node) is node
    message.input.append("b")
    message.attribute[0].name = "changed"
    node.input.append("c")
    assert (["a", "b"], ["a", "c"], "k") == (list(message.input), node.input, node.attribute[0].name)
    for wrong in (1, onnx.NodeProto()):
        with pytest.raises(TypeError):
            classes.wrap(wrong)
    with pytest.raises(TypeError):
        classes.unwrap(1)
    assert ir.Node(name="n") == classes.unwrap(onnx.NodeProto(name="n"))


def test_weights_are_shared() -> None:
    """A message made of an object of the IR has the same sources, and so has an object made of a message."""
    source = Literal(bytes(1000))
    model = ir.Model(graph=ir.Graph(initializer=[ir.Tensor(raw_data=source)]))
    message = classes.wrap(model)
    assert classes.unwrap(message).graph.initializer[0].raw_data is source
    assert copy.deepcopy(message).graph.initializer[0].raw_data == bytes(1000)


def test_what_the_ir_can_hold_survives() -> None:
    """Texts that are not UTF-8, unknown numbers of enums and unknown fields are the same after the way to a message."""
    node = ir.Node(
        name="\udcff", input=["\udcfe", "a"], attribute=[ir.Attribute(type=99)], unknown_fields=b"\xf8\x07\x05"
    )
    message = classes.wrap(node)
    assert (b"\xff", [b"\xfe", "a"], 0) == (message.name, list(message.input), message.attribute[0].type)
    data = b"".join(encode(node))  # type: ignore[arg-type]
    assert data == message.SerializeToString() == b"".join(encode(classes.unwrap(message)))  # type: ignore[arg-type]


def test_reading_changes_nothing() -> None:
    """Reading every field of a tensor leaves the sources of its weights unchanged."""
    sources = {
        "float_data": Literal(np.arange(3, dtype="<f4").tobytes()),
        "int32_data": Literal(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        "uint64_data": Literal(b"\x80\x01"),
        "double_data": Literal(b""),
        "raw_data": Literal(memoryview(b"raw")),
    }
    tensor = ir.Tensor(**sources)  # type: ignore[arg-type]
    message = classes.wrap(tensor)
    assert ([0, 1, 2], [1, -1], [128], []) == (
        list(message.float_data),
        list(message.int32_data),
        list(message.uint64_data),
        list(message.double_data),
    )
    assert b"raw" == message.raw_data
    assert "raw_data" in [field.name for field, _ in message.ListFields()]
    assert {row.name for row in MESSAGES["TensorProto"]} >= sources.keys()
    for row in MESSAGES["TensorProto"]:
        getattr(message, row.name)
    assert sources == {name: getattr(tensor, name) for name in sources}
    assert all(getattr(tensor, name) is source for name, source in sources.items())
    assert tensor.segment is None


class Untouchable(Source):
    """Bytes that must not be read."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Refuse."""
        raise AssertionError("the weights were read")

    def slice(self, offset: int, nbytes: int) -> Source:
        """Return the same kind of source."""
        return Untouchable(nbytes)

    def view(self) -> memoryview:
        """Refuse."""
        raise AssertionError("the weights were read")


def test_structure_is_changed_without_reading_weights() -> None:
    """Copies, sizes, presence and merges of a model of terabytes read none of its weights."""
    tensor = ir.Tensor(name="t", dims=[1 << 40], raw_data=Untouchable(1 << 42), float_data=Untouchable(1 << 42))
    graph = classes.wrap(ir.Graph(initializer=[tensor]))
    graph.initializer.append(graph.initializer[0])
    copied = copy.deepcopy(graph)
    copied.MergeFrom(graph)
    copied.initializer[0].name = "renamed"
    del copied.initializer[1:]
    assert copied.initializer[0].HasField("raw_data")
    assert 1 << 43 < copied.ByteSize() < (1 << 43) + 100
    assert graph == graph
    copied.initializer[0].ClearField("raw_data")
    copied.initializer[0].ClearField("float_data")
    assert b"" != copied.SerializeToString()


def test_appending_is_cheap_and_sources_do_not_change() -> None:
    """Appending to typed data extends one buffer; an earlier source still has its old bytes."""
    tensor = classes.TensorProto()
    sources = []
    for number in range(300):
        tensor.int64_data.append(number)
        sources.append(classes.unwrap(tensor).int64_data)
    copied = copy.deepcopy(tensor)
    copied.int64_data.append(-1)
    tensor.int64_data.append(-2)
    assert [*range(300), -1] == list(copied.int64_data)
    assert [*range(300), -2] == list(tensor.int64_data)
    assert len({id(source._buffer) for source in sources}) == 1
    assert sources[100].read() == classes.TensorProto(int64_data=range(101)).SerializeToString()[2:]
    view = sources[-1].view()
    tensor.int64_data.append(5)
    assert bytes(view) == sources[-1].read() == bytes(sources[-1].slice(0, len(view)).data)


def test_elements_of_a_large_field_are_looked_at_in_linear_time() -> None:
    """A loop over the indexes decodes typed data once, even if each round starts at the model."""
    count = 20_000
    model = classes.ModelProto(graph={"initializer": [{"int64_data": range(count)}]})
    assert sum(range(count)) == sum(model.graph.initializer[0].int64_data[index] for index in range(count))


@pytest.mark.parametrize("kind", ["float_data", "double_data", "int32_data", "int64_data", "uint64_data", "dims"])
def test_repeated_numbers_are_arrays_to_numpy(kind: str) -> None:
    """Numpy sees repeated numbers as it sees protobuf's: with their own type, or the requested one."""
    mine, their = (getattr(cls(**{kind: [1, 2, 300]}), kind) for cls in (classes.TensorProto, onnx.TensorProto))
    for dtype in (None, np.float64, np.int16):
        expected, found = np.asarray(their, dtype), np.asarray(mine, dtype)
        assert expected.dtype == found.dtype
        assert expected.tolist() == found.tolist()
        found[0] = 7
    assert [1, 2, 300] == list(mine)


def test_a_nested_message_of_any_depth_that_python_can_hold() -> None:
    """A message that is nested too deeply to be written raises our own error."""
    outer = inner = classes.TypeProto()
    for _ in range(3 * sys.getrecursionlimit()):  # another test's package may have raised it
        inner = inner.sequence_type.elem_type
    inner.tensor_type.elem_type = 1
    with pytest.raises(FormatError):
        outer.SerializeToString()


@pytest.mark.parametrize(("offset", "nbytes"), [(2, 3), (5, 1), (-1, 1)])
def test_a_growing_buffer_gives_only_what_it_has(offset: int, nbytes: int) -> None:
    """Weights that grow in memory cannot be read beyond their end, as any source."""
    source = Growing(bytearray(b"abcd"))
    assert source.read(1, 3) == b"bcd"
    with pytest.raises(FormatError):
        source.readinto(offset, memoryview(bytearray(nbytes)))


def test_parsing_and_copying_keep_the_parts_in_use() -> None:
    """A message that takes the place of another one has its values, whether parts of the old one are in use or not."""
    data = onnx.ModelProto(graph=onnx.GraphProto(name="new", node=[onnx.NodeProto(op_type="A")])).SerializeToString()
    other = classes.ModelProto.FromString(data)
    for is_used in (False, True):
        for change in (lambda message: message.ParseFromString(data), lambda message: message.CopyFrom(other)):
            model = classes.ModelProto.FromString(onnx.ModelProto(producer_name="old").SerializeToString())
            graph = model.graph if is_used else None
            change(model)
            assert data == model.SerializeToString()
            model.graph.node[0].op_type = "B"
            assert graph is None or graph.name in ("new", "")
            assert data == other.SerializeToString()
