"""Each pass of the legaliser by itself: what goes in, and what comes out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from formats.ir.model import Function, Graph, Model, Node, OperatorSetId, SparseTensor
from formats.ir.storage import from_numpy
from formats.rten.convert import passes
from formats.rten.convert.context import Constants, ValueNames
from formats.rten.convert.loss_report import Losses
from formats.rten.convert.passes import GraphWork, ModelWork
from formats.rten.convert.plan_depth import MAX_IN_THREAD
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.onnx_loader.kept import Kept
from formats.rten.target import ALL_RELEASES, ONNX_LOADER

FLOAT, INT32, INT64, FLOAT16 = 1, 6, 7, 10


def graph_work(graph: Graph, *, is_subgraph: bool = False, is_onnx: bool = False, **more: Any) -> GraphWork:
    """Return the work for a graph; its nodes are legal as they are."""
    names = ValueNames(set(), set())
    settings: dict[str, Any] = {
        "input_types": (),
        "tensor_input": "x",
        "kept": Kept(ONNX_LOADER, None, names) if is_onnx else None,
        "legal_nodes": lambda: [*graph.node],
        **more,
    }
    constants = Constants(Scope(None), names)
    return GraphWork(graph, "graph", is_subgraph, names=names, constants=constants, losses=Losses(), **settings)


def model_work(model: Model, version: int = 21, target: Any = ALL_RELEASES, **more: Any) -> ModelWork:
    """Return the work for a model; its graph is legal as it is."""
    settings: dict[str, Any] = {"rounded": {}, "legal_graph": lambda graph: graph, **more}
    return ModelWork(model, model.graph or Graph(), version, target, Losses(), [], **settings)


def test_decisive_values() -> None:
    """A quotient that is rounded is noted, because its division must be exact."""
    nodes = [Node(op_type="Div", input=["x", "z"], output=["q"]), Node(op_type="Floor", input=["q"], output=["y"])]
    work = graph_work(Graph(node=nodes))
    passes.find_decisive(work)
    assert work.names.decisive == {"q", "x", "z"}


def test_declarations(make) -> None:
    """The scope gets the declared types, what the node around knows, and the constants; sparse ones become dense."""
    sparse = SparseTensor(
        values=from_numpy(np.array([5], np.float32), "s"), indices=from_numpy(np.array([1]), ""), dims=[3]
    )
    weight = from_numpy(np.array([7]), "w")
    graph = Graph(input=[make.value("x", FLOAT, [2])], initializer=[weight], sparse_initializer=[sparse])
    work = graph_work(graph, is_subgraph=True, input_types=[ValueType(FLOAT, (2,))])
    passes.declare(work)
    assert [tensor.name for tensor in work.tensors] == ["w", "s"]
    assert work.scope.type_of("x") == ValueType(FLOAT, (2,))
    assert work.scope.type_of("s") == ValueType(FLOAT, (3,))
    assert work.scope.ints("w") == (7,)


def test_rewriting() -> None:
    """The nodes are those that the rewritings return."""
    legal = [Node(op_type="Abs", input=["x"], output=["y"])]
    work = graph_work(Graph(node=[Node(op_type="Old")]), legal_nodes=lambda: legal)
    passes.rewrite(work)
    assert work.nodes is legal


@pytest.mark.parametrize("is_onnx", [False, True])
def test_distinct_outputs(make, is_onnx: bool) -> None:
    """Two outputs that RTen may fold to one constant get nodes; an ONNX loader's report says which set these need."""
    graph = Graph(output=[make.value(name, INT32, [1]) for name in ("y", "z")])
    work = graph_work(graph, is_onnx=is_onnx)
    work.scope.declare(graph.output)
    work.nodes = [Node(op_type="Abs", input=["x"], output=[name]) for name in ("y", "z")]
    for name in ("y", "z"):
        work.scope.types[name] = ValueType(INT32, (1,))
    passes.keep_outputs_apart(work)
    assert [node.op_type for node in work.nodes if node.output[0] in ("y", "z")] == ["Max", "Max"]
    if work.kept is not None:
        assert work.kept.needs[1] == "Max"


def test_exceeding_outputs(make) -> None:
    """A constant output whose numbers do not fit in 32 bits is reported."""
    work = graph_work(Graph(output=[make.value("big", INT64, [1]), make.value("small", INT64, [1])]))
    for name, number in (("big", 1 << 40), ("small", 1)):
        work.scope.add_tensor(from_numpy(np.array([number]), name))
    passes.report_outputs(work)
    assert [(loss.kind, loss.where) for loss in work.losses.lines()] == [("range", "graph.output[0]")]


@pytest.mark.parametrize("is_subgraph", [False, True])
def test_output_types(make, is_subgraph: bool) -> None:
    """An output of a subgraph gets the type that is known; one of the model stays as it is declared."""
    (output,) = make.graph([make.node("Abs", ["x"], ["y"])], [], ["y"]).output
    work = graph_work(Graph(output=[output]), is_subgraph=is_subgraph)
    work.scope.types["y"] = ValueType(FLOAT, (2,))
    passes.complete_outputs(work)
    assert (work.outputs != [output]) == is_subgraph


@pytest.mark.parametrize(("is_onnx", "names"), [(False, ["w", "used", "unused"]), (True, ["w", "used"])])
def test_constants(is_onnx: bool, names: list[str]) -> None:
    """Constants that were made come after those of the graph; an ONNX loader gets no unused ones."""
    work = graph_work(Graph(), is_onnx=is_onnx)
    work.tensors = [from_numpy(np.zeros(1), "w")]
    for name in ("used", "unused"):
        work.constants.add_tensor(from_numpy(np.zeros(1), name))
    work.nodes = [Node(op_type="Abs", input=["used"], output=["y"])]
    passes.add_constants(work)
    assert [tensor.name for tensor in work.tensors] == names


@pytest.mark.parametrize(("version", "count"), [(passes.NEWEST_KNOWN, 0), (passes.NEWEST_KNOWN + 1, 1)])
def test_operator_set(version: int, count: int) -> None:
    """A model of an operator set after the newest known one is refused."""
    work = model_work(Model(), version)
    passes.check_version(work)
    assert len(work.refusals) == count


@pytest.mark.parametrize(("ir_version", "inputs"), [(None, ["x"]), (3, ["x"]), (4, ["x", "w"])])
def test_constant_inputs(make, ir_version: int | None, inputs: list[str]) -> None:
    """Before IR version 4, an initialiser is no input."""
    values = [make.value(name, FLOAT, [1]) for name in ("x", "w")]
    graph = Graph(input=values, initializer=[from_numpy(np.zeros(1, np.float32), "w")])
    work = model_work(Model(ir_version=ir_version, graph=graph))
    passes.drop_constant_inputs(work)
    assert [value.name for value in work.graph.input] == inputs
    assert len(graph.input) == 2  # the given one is not changed


def test_graphs() -> None:
    """The graph becomes what the passes of graphs return."""
    legal = Graph(name="legal")
    work = model_work(Model(graph=Graph()), legal_graph=lambda graph: legal)
    passes.make_graph_legal(work)
    assert work.graph is legal


def test_precision() -> None:
    """Each float type that is computed in 32 bits is reported with its first value."""
    work = model_work(Model(), rounded={FLOAT16: "y"})
    passes.report_precision(work)
    (loss,) = work.losses.lines()
    assert (loss.kind, loss.detail) == ("precision", "RTen computes FLOAT16 in 32 bits (y)")


@pytest.mark.parametrize(("count", "kinds"), [(MAX_IN_THREAD, []), (MAX_IN_THREAD + 1, ["depth"])])
def test_plan_depth(make, count: int, kinds: list[str]) -> None:
    """A chain of nodes that is too long for the stack of a thread is reported."""
    chain = [Node(op_type="Abs", input=[f"v{at}"], output=[f"v{at + 1}"]) for at in range(count)]
    work = model_work(Model(graph=Graph(node=chain, output=[make.value(f"v{count}", FLOAT, [1])])))
    passes.report_depth(work)
    assert [loss.kind for loss in work.losses.lines()] == kinds


@pytest.mark.parametrize(
    ("target", "version", "ir_version"),
    [(ALL_RELEASES, 24, 10), (ONNX_LOADER._replace(version=17), 17, 4)],
    ids=["rten", "onnx"],
)
def test_imports(target: Any, version: int, ir_version: int) -> None:
    """The model has the legal graph, the operator set of its nodes and those of other domains, and no functions."""
    imports = [OperatorSetId(domain="", version=17), OperatorSetId(domain="d", version=2)]
    model = Model(ir_version=3, opset_import=imports, functions=[Function(name="f")], graph=Graph())
    work = model_work(model, 17, target)
    passes.write_imports(work)
    assert [(entry.domain, entry.version) for entry in work.model.opset_import] == [("", version), ("d", 2)]
    assert (work.model.functions, work.model.ir_version, work.model.graph) == ([], ir_version, work.graph)
    assert model.functions  # the given one is not changed
