"""The programs by others that the tests ask: what they are given if they are older than a model."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import helper

from tests.rten.evaluation import with_older_set


def model(*nodes: onnx.NodeProto) -> bytes:
    """Return a model of operator set 24."""
    graph = helper.make_graph(nodes, "g", [], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)]).SerializeToString()


def branch(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return an `If` with a node in one branch."""
    graph = helper.make_graph([node], "g", [], [])
    return helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=helper.make_graph([], "g", [], []))


@pytest.mark.parametrize(
    "op_type,given,attributes",
    [
        ("Swish", 1, {}),
        ("Cast", 1, {"to": 1, "round_mode": "down"}),
        ("Attention", 3, {}),
        ("BitCast", 1, {"to": 1}),
    ],
    ids=["new operator", "new attribute", "new meaning", "operator of set 26"],
)
def test_a_node_that_an_older_set_lacks_stays(op_type: str, given: int, attributes: dict[str, Any]) -> None:
    """A model whose node needs its operator set does not get an older one, at any depth."""
    node = helper.make_node(op_type, ["x"] * given, ["y"], **attributes)
    assert with_older_set(model(node), 23) is None
    assert with_older_set(model(branch(node)), 23) is None


def test_nodes_that_an_older_set_has_get_it() -> None:
    """A model whose nodes mean the same in an older operator set gets that set, and nothing else changes."""
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=1), helper.make_node("Fast", ["x"], ["y"], domain="local")]
    given = onnx.load_from_string(model(*nodes, branch(nodes[0])))
    older = with_older_set(given.SerializeToString(), 23)
    assert older is not None
    given.opset_import[0].version = 23
    assert onnx.load_from_string(older) == given
