"""Graphs in nodes are found, and nodes are sorted."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

from formats.ir.model import Attribute, Graph, Node
from formats.ir.node_order import Names, subgraphs, topological
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.sources.source import Literal


def branch(*names: str) -> onnx.GraphProto:
    """Return a graph that adds values of the graph around it."""
    return helper.make_graph([helper.make_node("Sum", names, ["s"])], "b", [], [onnx.ValueInfoProto(name="s")])


@pytest.mark.parametrize(
    "attribute",
    [
        {"then_branch": branch("x"), "else_branch": branch("y")},
        {"else_branch": branch("x", "y"), "alpha": 1.0},
        {"axes": [1, 2], "body": branch("y", "x")},
    ],
    ids=["two", "behind a number", "last"],
)
def test_graphs_in_nodes_that_are_alike(attribute: dict[str, Any]) -> None:
    """If a file has the same attributes many times, each node has its own graphs, and comes after what they use."""
    nodes = [helper.make_node("If", ["c"], [f"o{index}"], **attribute) for index in range(4)]
    nodes += [helper.make_node("Relu", ["c"], [name]) for name in "xy"]
    graph = decode(Literal(helper.make_graph(nodes, "g", [], []).SerializeToString()), Graph)
    count = sum(isinstance(value, onnx.GraphProto) for value in attribute.values())
    assert [index for index in range(4) for _ in range(count)] == [index for index, _, _ in subgraphs(graph.node)]
    assert [4, 5, 0, 1, 2, 3] == [*topological(graph.node)]
    assert len({id(inner) for _, _, inner in subgraphs(graph.node)}) == 4 * count


@given(st.data())
def test_each_node_comes_after_those_that_it_uses(data: st.DataObject) -> None:
    """Nodes in any order are sorted; nodes that are in order stay, and nodes on a cycle are left out."""
    count = data.draw(st.integers(0, 7))
    sources = [data.draw(st.sets(st.integers(0, count - 1), max_size=2)) for _ in range(count)]
    nodes = []
    for index in range(count):
        names = [f"v{source}" for source in sorted(sources[index])]
        outer = [Attribute(name="g", g=Graph(node=[Node(input=names)]))] if data.draw(st.booleans()) else []
        nodes.append(Node(input=["x", ""] if outer else ["", *names], output=[f"v{index}"], attribute=outer))
    order = [*topological(nodes)]
    done: set[int] = set()
    for index in order:
        assert sources[index] <= done
        done.add(index)
    assert len(done) == len(order)
    assert not any(sources[index] <= done for index in range(count) if index not in done)
    if all(source < index for index in range(count) for source in sources[index]):
        assert order == list(range(count))


def test_new_names_differ_from_existing_ones() -> None:
    """A free name is used unchanged, once; after that, it gets a number."""
    names = Names(["a"])
    names.take(["b_1"])
    assert ["a_1", "a_2", "b", "b_2", "c_1"] == [*map(names.new, ("a", "a", "b", "b")), names.new("c", avoid={"c"})]


def test_many_new_names() -> None:
    """A great many values of one name get their names as fast as others."""
    names = Names()
    assert 200_000 == len({names.new("x") for _ in range(200_000)})
