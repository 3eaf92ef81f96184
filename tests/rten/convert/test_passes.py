"""Each pass of the legaliser by itself: what goes in, and what comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats.ir.model import Function, Graph, Model, Node, OperatorSetId, SparseTensor
from formats.ir.storage import from_numpy
from formats.rten.convert import passes
from formats.rten.convert.context import Constants, ValueNames
from formats.rten.convert.legalize import legalize
from formats.rten.convert.passes import GraphFacts, ModelFacts, Pass, run_passes
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.onnx_loader import passes as loader_passes
from formats.rten.onnx_loader.kept import Kept
from formats.rten.target import ALL_RELEASES, ONNX_LOADER
from formats.tensordata.plan import Losses

FLOAT, INT32, INT64, FLOAT16 = 1, 6, 7, 10


def graph_facts(*, is_subgraph: bool = False, is_onnx: bool = False, **more: Any) -> GraphFacts:
    """Return the facts about a graph whose nodes are legal as they are."""
    names = ValueNames(set(), set())
    settings: dict[str, Any] = {
        "input_types": (),
        "tensor_input": "x",
        "kept": Kept(ONNX_LOADER, None, names) if is_onnx else None,
        "legal_nodes": lambda graph: [*graph.node],
        **more,
    }
    return GraphFacts(
        "graph", is_subgraph, names=names, constants=Constants(Scope(None), names), losses=Losses(), **settings
    )


def model_facts(version: int = 21, target: Any = ALL_RELEASES, **more: Any) -> ModelFacts:
    """Return the facts about a model whose graph is legal as it is."""
    settings: dict[str, Any] = {"rounded": {}, "legal_graph": lambda graph: graph, **more}
    return ModelFacts(version, target, Losses(), [], **settings)


def test_passes_run_in_their_order() -> None:
    """Each pass gets what the one before it made, and the result names those that changed something."""
    made = {name: Graph(name=name) for name in "ac"}
    steps = [Pass(name, lambda graph, facts, name=name: made.get(name, graph)) for name in "abc"]
    result = run_passes(steps, Graph(), None)
    assert (result.subject, result.changed_by) == (made["c"], ("a", "c"))


@pytest.mark.parametrize(("body", "changed_by"), [
    ("y = Abs(x)", ("imports",)),
    ("y = Selu(x)", ("rewriting", "constants", "graphs", "imports")),
])  # fmt: skip
def test_the_result_says_which_passes_changed_the_model(body: str, changed_by: tuple[str, ...]) -> None:
    """What RTen runs as it is keeps its graph; a rewritten node changes it, as do the constants of new nodes."""
    text = f'<ir_version: 10, opset_import: ["" : 21]> g (float[3] x) => (float[3] y) {{ {body} }}'
    legalized = legalize(formats.loads(onnx.parser.parse_model(text).SerializeToString()))
    assert {*legalized.changed_by} == {*changed_by}


ALL_PASSES = [
    (passes.MODEL_PASSES, passes, Path(__file__)),
    (passes.GRAPH_PASSES, passes, Path(__file__)),
    (loader_passes.LOADER_PASSES, loader_passes, Path(__file__).parents[1] / "onnx_loader" / "test_passes.py"),
]


def test_the_page_lists_the_passes() -> None:
    """The page on operators has all passes, list by list in the order in which they run, what each does, and why."""
    page = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
    section = page.partition("## Add a pass\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!pass )(.+) \| (.+) \| (.+) \|$", section, re.MULTILINE)
    assert [name for name, _, _ in rows] == [step.name for listed, _, _ in ALL_PASSES for step in listed]


def test_decisive_values() -> None:
    """A quotient that is rounded is noted, because its division must be exact."""
    nodes = [Node(op_type="Div", input=["x", "z"], output=["q"]), Node(op_type="Floor", input=["q"], output=["y"])]
    graph, facts = Graph(node=nodes), graph_facts()
    assert passes.find_decisive(graph, facts) is graph
    assert facts.names.decisive == {"q", "x", "z"}


def test_declarations(make) -> None:
    """The scope gets the declared types, what the node around knows, and the constants; sparse ones become dense."""
    sparse = SparseTensor(
        values=from_numpy(np.array([5], np.float32), "s"), indices=from_numpy(np.array([1]), ""), dims=[3]
    )
    weight = from_numpy(np.array([7]), "w")
    graph = Graph(input=[make.value("x", FLOAT, [2])], initializer=[weight], sparse_initializer=[sparse])
    facts = graph_facts(is_subgraph=True, input_types=[ValueType(FLOAT, (2,))])
    dense = passes.declare(graph, facts)
    assert [tensor.name for tensor in dense.initializer] == ["w", "s"]
    assert (dense.sparse_initializer, graph.sparse_initializer) == ([], [sparse])
    assert passes.declare(dense, facts) is dense
    assert facts.scope.type_of("x") == ValueType(FLOAT, (2,))
    assert facts.scope.type_of("s") == ValueType(FLOAT, (3,))
    assert facts.scope.ints("w") == (7,)


@pytest.mark.parametrize("is_onnx", [False, True])
def test_distinct_outputs(make, is_onnx: bool) -> None:
    """Two outputs that RTen may fold to one constant get nodes; an ONNX loader's report says which set these need."""
    nodes = [Node(op_type="Abs", input=["x"], output=[name]) for name in ("y", "z")]
    graph = Graph(node=nodes, output=[make.value(name, INT32, [1]) for name in ("y", "z")])
    facts = graph_facts(is_onnx=is_onnx)
    facts.scope.declare(graph.output)
    for name in ("y", "z"):
        facts.scope.types[name] = ValueType(INT32, (1,))
    apart = passes.keep_outputs_apart(graph, facts)
    assert [node.op_type for node in apart.node if node.output[0] in ("y", "z")] == ["Max", "Max"]
    assert graph.node == nodes  # the given one is not changed
    if facts.kept is not None:
        assert facts.kept.needs[1] == "Max"


def test_exceeding_outputs(make) -> None:
    """A constant output whose numbers do not fit in 32 bits is reported."""
    graph = Graph(output=[make.value("big", INT64, [1]), make.value("small", INT64, [1])])
    facts = graph_facts()
    for name, number in (("big", 1 << 40), ("small", 1)):
        facts.scope.add_tensor(from_numpy(np.array([number]), name))
    assert passes.report_outputs(graph, facts) is graph
    assert [(loss.kind, loss.where) for loss in facts.losses.lines()] == [("range", "graph.output[0]")]


@pytest.mark.parametrize("is_subgraph", [False, True])
def test_output_types(make, is_subgraph: bool) -> None:
    """An output of a subgraph gets the type that is known; one of the model stays as it is declared."""
    (output,) = make.graph([make.node("Abs", ["x"], ["y"])], [], ["y"]).output
    graph, facts = Graph(output=[output]), graph_facts(is_subgraph=is_subgraph)
    facts.scope.types["y"] = ValueType(FLOAT, (2,))
    assert (passes.complete_outputs(graph, facts).output != [output]) == is_subgraph


@pytest.mark.parametrize(("is_onnx", "names"), [(False, ["w", "used", "unused"]), (True, ["w", "used"])])
def test_constants(is_onnx: bool, names: list[str]) -> None:
    """Constants that were made come after those of the graph; an ONNX loader gets no unused ones."""
    node = Node(op_type="Abs", input=["used"], output=["y"])
    graph, facts = Graph(node=[node], initializer=[from_numpy(np.zeros(1), "w")]), graph_facts(is_onnx=is_onnx)
    assert passes.add_constants(graph, facts) is graph
    for name in ("used", "unused"):
        facts.constants.add_tensor(from_numpy(np.zeros(1), name))
    assert [tensor.name for tensor in passes.add_constants(graph, facts).initializer] == names


def test_precision() -> None:
    """Each float type that is computed in 32 bits is reported with its first value."""
    model, facts = Model(), model_facts(rounded={FLOAT16: "y"})
    assert passes.report_precision(model, facts) is model
    (loss,) = facts.losses.lines()
    assert (loss.kind, loss.detail) == ("precision", "RTen computes FLOAT16 in 32 bits (y)")


@pytest.mark.parametrize(
    ("target", "version", "ir_version"),
    [(ALL_RELEASES, 24, 10), (ONNX_LOADER._replace(version=17), 17, 4)],
    ids=["rten", "onnx"],
)
def test_imports(target: Any, version: int, ir_version: int) -> None:
    """The model has the legal graph, the operator set of its nodes and those of other domains, and no functions."""
    imports = [OperatorSetId(domain="", version=17), OperatorSetId(domain="d", version=2)]
    model = Model(ir_version=3, opset_import=imports, functions=[Function(name="f")], graph=Graph())
    changed = passes.write_imports(model, model_facts(17, target))
    assert [(entry.domain, entry.version) for entry in changed.opset_import] == [("", version), ("d", 2)]
    assert (changed.functions, changed.ir_version) == ([], ir_version)
    assert model.functions  # the given one is not changed
    assert passes.write_imports(changed, model_facts(version, target)) is changed
