"""Tests of copies of messages: what stays undecoded, and what cannot be copied."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

from formats import Attribute, Graph, Model, Node
from formats.errors import EncodeError
from formats.ir import copies
from formats.ir.copies import copied
from formats.ir.walk import MAX_DEPTH
from formats.onnxpb import wrap
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.sources.source import Literal


def endless() -> Model:
    """A model whose graph is twice in its own nodes."""
    graph = Graph(name="g")
    holder = Attribute(name="body", type=5, g=graph)
    graph.node += [Node(op_type="If", attribute=[holder, Attribute(name="all", type=10, graphs=[graph])])] * 2
    return Model(ir_version=8, graph=graph)


def test_a_copy_decodes_nothing() -> None:
    """What is undecoded in a message is so in its copy, and both decode elements of their own."""
    proto = onnx.helper.make_model(
        onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])] * 400, "g", [], [])
    )
    model = decode(Literal(proto.SerializeToString()), Model)
    new = copied(model)
    assert new.graph is not None
    assert model.graph is not None
    assert "node" in new.graph.undecoded
    new.graph.node[0].name = "changed"
    assert not model.graph.node[0].name


@pytest.mark.parametrize("use", [copied, wrap])
def test_what_contains_itself_is_refused(use: Callable[[Model], object]) -> None:
    """A model that contains itself has no end, and an error says so."""
    with pytest.raises(EncodeError, match="nested too deeply, or contains itself"):
        use(endless())


def test_what_contains_itself_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each list is copied at most twice before the error: at a thousand levels, a long one would fill the memory."""
    copies_made = []
    shallow = copies.shallow
    monkeypatch.setattr(copies, "shallow", lambda message: copies_made.append(message) or shallow(message))
    with pytest.raises(EncodeError):
        copied(endless())
    assert len(copies_made) < 20


def test_what_is_nested_deeply_is_copied() -> None:
    """Only what contains itself has no copy, not what is nested more deeply than any file may be."""
    inner = Graph(name="innermost")
    for _ in range(2 * MAX_DEPTH):
        inner = Graph(node=[Node(op_type="If", attribute=[Attribute(name="body", type=5, g=inner)])])
    new = copied(inner)
    while new.node:
        (attribute,) = new.node[0].attribute
        assert attribute.g is not None
        new = attribute.g
    assert new.name == "innermost"
