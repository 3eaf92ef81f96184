"""Tests of all message classes, which get from their base class what `dataclass` generates for others."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from formats.errors import FormatError
from formats.ir.model import MESSAGE_CLASSES, Attribute, Dimension, Graph, Model, Node, Tensor, TensorShape
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.sources.source import Literal

NODES = 1000  # so many that they stay undecoded
GRAPH = b"\x0a\x05\x22\x03Abs" * NODES  # node { op_type: "Abs" }


def twin(message_class: type[Any]) -> type[Any]:
    """Return the class with the same fields as `dataclass` alone makes it."""
    fields: list[Any] = [
        (row.name, object, dataclasses.field(default=row.default, default_factory=row.default_factory))
        for row in dataclasses.fields(message_class)
    ]
    return dataclasses.make_dataclass(message_class.__name__, fields)


@pytest.mark.parametrize("message_class", MESSAGE_CLASSES, ids=lambda found: found.__name__)
def test_messages_are_what_dataclasses_are(message_class: type[Any]) -> None:
    """Fields, comparison and copies of a message are those of a dataclass with the same fields."""
    expected, message = twin(message_class), message_class()
    assert expected.__match_args__ == message_class.__match_args__
    assert f"{message_class.__name__}()" == repr(message)
    assert dataclasses.asdict(expected()) == dataclasses.asdict(message)
    for name in message_class.__match_args__:
        changed = dataclasses.replace(message, **{name: [1]})
        assert f"{message_class.__name__}({name}=[1])" == repr(changed)
        assert message != changed
        for same in (copy.copy(changed), copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
            assert changed == same
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_messages_of_different_classes_differ() -> None:
    """Messages of different classes are unequal, and other objects can decide themselves."""

    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

    class Special(Dimension):
        pass

    assert Dimension() != TensorShape()
    assert Dimension() != Special()
    assert Special(dim_value=3) == Special(dim_value=3)
    assert Dimension() == Anything()


def test_nan_equals_itself() -> None:
    """A message equals itself, even with NaN, like a list."""
    attribute = Attribute(f=float("nan"))
    assert attribute == dataclasses.replace(attribute)


def test_lists_that_nobody_read_count() -> None:
    """An undecoded field is compared, shown and copied like any other; a missing list equals an empty one."""
    expected = Graph(node=[Node(op_type="Abs") for _ in range(NODES)])
    for use in (lambda graph: graph, copy.deepcopy, dataclasses.replace):
        graph = decode(Literal(GRAPH), Graph)
        assert "node" not in vars(graph)
        assert expected == use(graph)
    assert repr(expected) == repr(decode(Literal(GRAPH), Graph))
    assert expected != Graph()
    assert Graph(initializer=[]) == decode(Literal(b""), Graph)


def test_comparison_reports_what_cannot_be_decoded() -> None:
    """If a message is compared, damaged bytes of an undecoded list are a FormatError."""
    with pytest.raises(FormatError):
        assert decode(Literal(GRAPH + b"\x0a\x02\x22\x05"), Graph) == Graph()


def test_text_of_a_cycle_ends() -> None:
    """The text of a message that contains itself has an ellipsis there."""
    attribute = Attribute()
    attribute.g = Graph(name="g")
    attribute.t = attribute  # type: ignore[assignment]
    assert "Attribute(t=..., g=Graph(name='g'))" == repr(attribute)


def test_text_is_short() -> None:
    """In the text of a message, lists of messages are numbers, long lists are shortened, large weights are sizes."""
    graph = decode(Literal(GRAPH), Graph)
    assert "Graph(node=<1000 Nodes>)" == repr(graph)
    assert "Node(input=['a'], attribute=<1 Attribute>)" == repr(Node(input=["a"], attribute=[Attribute()]))
    assert "Tensor(dims=[0, 1, 2, 3, 4, 5, 6, 7, ... 9 in all])" == repr(Tensor(dims=list(range(9))))
    assert "Tensor(raw_data=Literal(<1000 bytes>))" == repr(Tensor(raw_data=Literal(bytes(1000))))


def test_text_of_what_is_damaged() -> None:
    """In the text of a message, a list that cannot be decoded is shown as the reason, not raised as an error."""
    assert "node=<" in repr(decode(Literal(GRAPH + b"\x0a\x02\x22\x05"), Graph))


@pytest.mark.parametrize("message_class", MESSAGE_CLASSES, ids=lambda found: found.__name__)
def test_a_field_that_does_not_exist_is_refused(message_class: type[Any]) -> None:
    """Assigning an unknown field is an AttributeError that lists similar names, for new and decoded messages."""
    for message in (message_class(), decode(Literal(b""), message_class)):
        with pytest.raises(AttributeError, match=f"'{message_class.__name__}' object has no attribute 'nothing'"):
            message.nothing = 1
        with pytest.raises(AttributeError):
            _ = message.nothing
        for name in message_class.__match_args__:
            setattr(message, name, getattr(message, name))
            misspelt = f"{name}_"
            with pytest.raises(AttributeError, match=f"did you mean .*'{name}'"):
                setattr(message, misspelt, 1)
        assert set(message_class.__match_args__) == vars(message).keys()


def test_methods_are_not_overwritten_by_fields() -> None:
    """No method of a model has the name of one of its fields."""
    methods = {name for name, value in vars(Model).items() if callable(value) and not name.startswith("__")}
    assert {"tensors", "tensor", "close"} <= methods
    assert not {*Model.__match_args__} & methods
