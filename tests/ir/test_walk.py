"""Tests of visiting the parts of a model."""

from __future__ import annotations

import pytest

from formats.errors import EncodeError
from formats.ir import walk
from formats.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor, Tensor, TrainingInfo


def test_places_read_as_code_would() -> None:
    """Every tensor, graph and node is found once, in order, with the dotted place that code would use."""
    inner = Graph(initializer=[Tensor(name="i")], node=[Node(attribute=[Attribute(name="t", t=Tensor())])])
    node = Node(attribute=[Attribute(name="body", g=inner), Attribute(name="all", tensors=[Tensor(), Tensor()])])
    model = Model(
        graph=Graph(node=[node], sparse_initializer=[SparseTensor(values=Tensor(), indices=Tensor())]),
        functions=[Function(node=[Node(attribute=[Attribute(name="s", sparse_tensor=SparseTensor(values=Tensor()))])])],
        training_info=[TrainingInfo(algorithm=Graph(initializer=[Tensor()]))],
    )
    assert [
        'graph.node[0].attribute["body"].g.node[0].attribute["t"].t',
        'graph.node[0].attribute["body"].g.initializer[0]',
        'graph.node[0].attribute["all"].tensors[0]',
        'graph.node[0].attribute["all"].tensors[1]',
        "graph.sparse_initializer[0].values",
        "graph.sparse_initializer[0].indices",
        "training_info[0].algorithm.initializer[0]",
        'functions[0].node[0].attribute["s"].sparse_tensor.values',
    ] == [where for where, _ in walk.tensors(model)]
    assert ["graph", 'graph.node[0].attribute["body"].g', "training_info[0].algorithm"] == [
        where for where, _ in walk.graphs(model)
    ]
    assert 3 == sum(1 for _ in walk.nodes(model))


def test_a_part_can_be_walked_with_its_place() -> None:
    """The walk can begin at any part, and gets the place of this part."""
    found = walk.visit(Graph(initializer=[Tensor()]), Tensor, "graph.node[3].g")
    assert ["graph.node[3].g.initializer[0]"] == [where for where, _ in found]


def test_a_graph_within_itself_ends_in_an_error() -> None:
    """A model that contains itself is refused; the walk does not run forever."""
    graph = Graph()
    graph.node = [Node(attribute=[Attribute(name="a", g=graph), Attribute(name="b", g=graph)])]
    with pytest.raises(EncodeError, match="contains itself"):
        list(walk.tensors(Model(graph=graph)))


def test_messages_can_be_passed_over() -> None:
    """A message that `only` excludes is not returned, but its parts are."""
    model = Model(
        graph=Graph(node=[Node(name="a", attribute=[Attribute(name="t", t=Tensor(name="b"))]), Node(name="c")])
    )
    found = walk.visit(model, object, only=lambda message: getattr(message, "name", "") in ("b", "c"))
    assert ['graph.node[0].attribute["t"].t', "graph.node[1]"] == [where for where, _ in found]
