"""Tests of copies of messages: what stays undecoded, and what cannot be copied."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest

from formats import Attribute, Graph, Model, Node
from formats.errors import EncodeError
from formats.ir.copies import copied
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
