"""Each pass that makes a legal model readable for RTen's ONNX loader, by itself: what goes in, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.codecs.contract import Change
from formats.ir.dtypes import COMPLEX64, FLOAT, INT32, INT64, UINT32
from formats.ir.model import Attribute, Graph, Model, Node, SparseTensor, StringStringEntry, Tensor, ValueInfo
from formats.ir.storage import from_numpy
from formats.rten.onnx_loader import passes
from formats.rten.onnx_loader.passes import LoaderFacts
from formats.tensordata.plan import Losses

CHANGE = Change("graph.node[0]", "n", "Old", ("New",), "RTen does not support this form", False)


def subject(graph: Graph, **more: Any) -> tuple[Model, LoaderFacts]:
    """Return a legal model with a graph, and the facts about it; its operator set is the one that its nodes need."""
    model = Model(ir_version=4, graph=graph)
    settings: dict[str, Any] = {
        "given": model,
        "given_version": 17,
        "needed_version": 17,
        "needing": "",
        "elem_types": (),
        "refusals": [],
        "changes": [],
        **more,
    }
    return model, LoaderFacts(losses=Losses(), **settings)


@pytest.mark.parametrize(("needed", "ir_version", "kinds"), [(17, 4, []), (18, 8, ["opset_version"])])
def test_newer_operator_set(needed: int, ir_version: int, kinds: list[str]) -> None:
    """A model whose nodes need a newer operator set gets the IR version of that set, and this is reported."""
    model, facts = subject(Graph(), needed_version=needed, needing="Pad")
    assert passes.raise_version(model, facts).ir_version == ir_version
    assert [loss.kind for loss in facts.losses.lines()] == kinds
    assert model.ir_version == 4  # the given one is not changed


@pytest.mark.parametrize(("operator", "kinds"), [("Slice", []), ("Add", ["clamped"])])
def test_clamped_constants(operator: str, kinds: list[str]) -> None:
    """A constant beyond 32 bits is reported with its place, unless it is only the bound of a slice, or not used."""
    node = Node(op_type=operator, input=["x", "w"], output=["y"])
    constants = [from_numpy(np.array([1 << 40]), name) for name in ("unused", "w")]
    model, facts = subject(Graph(node=[node], initializer=constants))
    assert passes.report_clamped(model, facts) is model
    losses = [(loss.kind, loss.where) for loss in facts.losses.lines()]
    assert losses == [(kind, "graph.initializer[1]") for kind in kinds]


def test_interface(make) -> None:
    """An input or output of complex numbers is refused, with its place."""
    graph = Graph(input=[make.value("x", FLOAT, [1])], output=[make.value("y", COMPLEX64, [1])])
    model, facts = subject(graph)
    assert passes.check_interface(model, facts) is model
    assert [refusal.where for refusal in facts.refusals] == ["graph.output[0]"]


def test_unread_constants() -> None:
    """A constant of a type that RTen lacks is left out and listed; if a subgraph returns it, it is refused."""
    held, lacking = from_numpy(np.ones(1, "f"), "w"), Tensor(name="s", data_type=COMPLEX64, dims=[1])
    model, facts = subject(Graph(initializer=[lacking, held]))
    changed = passes.drop_unread_constants(model, facts)
    assert (changed.graph.initializer, facts.refusals) == ([held], [])
    assert len(model.graph.initializer) == 2  # the given one is not changed
    passes.list_changes(changed, facts)
    reason = "RTen does not read tensors of COMPLEX64; nothing uses it, so it is left out"
    assert facts.changes == [Change("graph.initializer[0]", "s", "", (), reason, True)]
    inner = Graph(initializer=[lacking, held])
    branch = Node(op_type="If", attribute=[Attribute(name="then_branch", g=inner)])
    model, facts = subject(Graph(node=[branch]))
    changed = passes.drop_unread_constants(model, facts)
    assert (changed.graph.node[0].attribute[0].g.initializer, facts.refusals) == ([held], [])
    assert inner.initializer == [lacking, held]  # the given one is not changed
    inner.output.append(ValueInfo(name="s"))
    passes.drop_unread_constants(model, facts)
    assert [refusal.reason for refusal in facts.refusals] == [
        "a constant of a subgraph is COMPLEX64, which RTen does not support"
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("value", "COMPLEX64"), ("value_string", "STRING"), ("value_strings", "STRING"), ("value_int", "")],
)
def test_unread_constant_nodes(name: str, kind: str) -> None:
    """A Constant of a type that RTen lacks is not a node of the legal model, and is listed."""
    tensor = Tensor(data_type=COMPLEX64, dims=[1]) if name == "value" else None
    node = Node(op_type="Constant", output=["c"], attribute=[Attribute(name=name, t=tensor)])
    model, facts = subject(Graph(node=[node]))
    passes.list_changes(model, facts)
    reason = f"RTen does not read constants of {kind}; nothing uses it, so it is left out"
    assert facts.changes == ([Change("graph.node[0]", "c", "Constant", (), reason, True)] if kind else [])


def test_element_types(make) -> None:
    """A type that the loader does not read becomes the next larger one, and a changed input is a loss."""
    graph = Graph(input=[make.value("x", UINT32, [1])], initializer=[from_numpy(np.array([1], np.uint32), "w")])
    model, facts = subject(graph, elem_types={UINT32})
    changed = passes.use_read_types(model, facts)
    assert changed.graph.initializer[0].data_type == INT64
    assert [loss.kind for loss in facts.losses.lines()] == ["interface_type"]
    assert graph.initializer[0].data_type == UINT32  # the given one is not changed


def test_references() -> None:
    """Entries of external data that the loader does not know are left out."""
    entries = [StringStringEntry(key=key, value="0") for key in ("location", "offset", "basepath")]
    graph = Graph(initializer=[Tensor(name="w", external_data=entries), from_numpy(np.zeros(1), "v")])
    first, second = passes.trim_references(*subject(graph)).graph.initializer
    assert [entry.key for entry in first.external_data] == ["location", "offset"]
    assert second is graph.initializer[1]


def branches(*inner: Node, outputs: tuple[str, ...] = ()) -> Node:
    """Return an If with a branch of some nodes."""
    graph = Graph(node=[*inner])
    return Node(op_type="If", input=["c"], output=["y"], attribute=[Attribute(name="then_branch", g=graph)])


def test_hiding_names() -> None:
    """A value of a subgraph with the name of a value around it gets another name."""
    node = branches(Node(op_type="Abs", input=["x"], output=["v"]))
    graph = Graph(node=[Node(op_type="Neg", input=["x"], output=["v"]), node])
    (attribute,) = passes.rename_hiding(*subject(graph)).graph.node[1].attribute
    assert attribute.g is not None
    assert attribute.g.node[0].output != ["v"]


def test_captures() -> None:
    """A value that only the graph in a subgraph captures gets a node there, and the outputs that need it are noted."""
    inner = branches(Node(op_type="Abs", input=["x"], output=["z"]))
    inner.output, inner.input = ["deep"], ["w"]
    model, facts = subject(Graph(node=[branches(inner)], initializer=[from_numpy(np.array(True), "w")]))
    (attribute,) = passes.reach_captures(model, facts).graph.node[0].attribute
    assert attribute.g is not None
    assert [(node.op_type, node.input) for node in attribute.g.node[:1]] == [("Identity", ["x"])]
    assert facts.reached == {"deep"}


def test_changes(make) -> None:
    """What these passes changed is listed first, in the order of the given graph; each change is listed once."""
    values = from_numpy(np.array([5], np.float32), "s")
    sparse = SparseTensor(values=values, indices=from_numpy(np.array([1]), ""), dims=[3])
    given = Graph(
        input=[make.value("x", INT32, ["?"])],
        initializer=[from_numpy(np.array([1], np.uint32), "w")],
        sparse_initializer=[sparse],
        node=[Node(op_type="If", input=["c"], output=["y"])],
    )
    model, facts = subject(given, changes=[CHANGE, CHANGE], reached={"y"})
    assert passes.list_changes(model, facts) is model
    places = [change.where for change in facts.changes]
    assert places[:3] == ["graph.initializer[0]", "graph.input[0]", "graph.sparse_initializer[0]"]
    assert facts.changes[3].became == ("Identity", "If")
    assert facts.changes[4:] == [CHANGE]
