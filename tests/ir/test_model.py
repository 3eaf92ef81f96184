"""Facts about all message classes, which get from their base class what `dataclass` writes for others."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from formats.errors import FormatError
from formats.ir.model import MESSAGE_CLASSES, Attribute, Dimension, Graph, Node, TensorShape
from formats.onnxpb.decoder import decode
from formats.tensordata.source import Literal

NODES = 1000  # so many that they stay undecoded
GRAPH = b"\x0a\x05\x22\x03Abs" * NODES  # node { op_type: "Abs" }


def twin(message_class: type[Any]) -> type[Any]:
    """The class with the same fields as `dataclass` alone makes it."""
    fields: list[Any] = [
        (row.name, object, dataclasses.field(default=row.default, default_factory=row.default_factory))
        for row in dataclasses.fields(message_class)
    ]
    return dataclasses.make_dataclass(message_class.__name__, fields)


@pytest.mark.parametrize("message_class", MESSAGE_CLASSES, ids=lambda found: found.__name__)
def test_messages_are_what_dataclasses_are(message_class: type[Any]) -> None:
    """Text, fields, comparison and copies of a message are those of a dataclass with the same fields."""
    expected, message = twin(message_class), message_class()
    assert expected.__match_args__ == message_class.__match_args__
    assert repr(expected()) == repr(message)
    assert dataclasses.asdict(expected()) == dataclasses.asdict(message)
    for name in message_class.__match_args__:
        changed = dataclasses.replace(message, **{name: [1]})
        assert repr(expected(**{name: [1]})) == repr(changed)
        assert message != changed
        for same in (copy.copy(changed), copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
            assert changed == same
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)


def test_messages_of_different_classes_differ() -> None:
    """Equality wants the same class, and leaves other objects a say."""

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
    """A message equals itself whatever its numbers, as a list does."""
    attribute = Attribute(f=float("nan"))
    assert attribute == dataclasses.replace(attribute)


def test_lists_that_nobody_read_count() -> None:
    """A field that is not decoded yet is compared, shown and copied like any other; no list equals an empty one."""
    expected = Graph(node=[Node(op_type="Abs") for _ in range(NODES)])
    for use in (lambda graph: graph, copy.deepcopy, dataclasses.replace):
        graph = decode(Literal(GRAPH), Graph)
        assert "node" not in vars(graph)
        assert expected == use(graph)
    assert repr(expected) == repr(decode(Literal(GRAPH), Graph))
    assert expected != Graph()
    assert Graph(initializer=[]) == decode(Literal(b""), Graph)


def test_comparison_reports_what_cannot_be_decoded() -> None:
    """Bytes of a list that are wrong are an error of the format when the message is compared."""
    with pytest.raises(FormatError):
        assert decode(Literal(GRAPH + b"\x0a\x02\x22\x05"), Graph) == Graph()


def test_text_of_a_cycle_ends() -> None:
    """A message that holds itself is shown as an ellipsis there."""
    graph = Graph()
    graph.node.append(graph)  # type: ignore[arg-type]
    assert "node=[...]" in repr(graph)
