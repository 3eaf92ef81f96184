"""Random graphs with fixed seeds: right in the real runtimes, reported or refused; and the shrinker."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from graphs import Bench, Graph, Outcome, generate, shrink
from rten_cases import run

SEEDS = range(2000, 2200)
EXPECTED: dict[int, str] = {}
"""The seeds of graphs with a known fault, and the fault. Remove a seed when its fault is fixed."""


@pytest.fixture(scope="module")
def bench(runtimes, tmp_path_factory):
    """All releases of the runtime, and a folder for the files."""
    return Bench(runtimes, tmp_path_factory.mktemp("graphs"))


@pytest.mark.parametrize("first", SEEDS[::20])
def test_random_graphs_are_right_told_or_refused(first, bench):
    """A graph computes the same as in onnxruntime, or a report says why not; its file loads; so does the way back."""
    faults = {}
    for seed in range(first, first + 20):
        graph = generate(seed)
        outcome = Outcome("right") if graph is None else bench.outcome(graph)
        if outcome.is_fault:
            faults[seed] = f"{outcome.kind}: {outcome.detail}"
    expected = {seed for seed in EXPECTED if first <= seed < first + 20}
    assert set(faults) == expected, faults


def test_graphs_are_those_of_their_seed():
    """The same seed makes the same graph with the same numbers."""
    one, other = generate(7), generate(7)
    assert one.model == other.model
    assert {name: value.tobytes() for name, value in one.feeds.items()} == {
        name: value.tobytes() for name, value in other.feeds.items()
    }


def test_graphs_are_of_many_kinds():
    """A hundred graphs have old and new operator sets, subgraphs, functions and dims without a size."""
    found = set()
    for seed in range(100):
        graph = generate(seed)
        if graph is None:
            continue
        found.add(graph.model.opset_import[0].version)
        found.update(node.op_type for node in graph.model.graph.node)
        found.update("function" for _ in graph.model.functions)
        found.update("dim" for value in graph.model.graph.input for dim in value.type.tensor_type.shape.dim
                     if dim.dim_param)  # fmt: skip
        found.update(value.dtype.name for value in graph.feeds.values())
    assert {8, 13, 21, "If", "Loop", "Scan", "function", "dim", "int64", "int16", "uint8"} <= found


class Faulty(Bench):
    """Treats every graph with a Neg as wrong."""

    def __init__(self) -> None:
        super().__init__({}, None)

    def outcome(self, graph: Graph) -> Outcome:
        """Return the outcome of a graph."""
        return Outcome("wrong" if any(node.op_type == "Neg" for node in graph.model.graph.node) else "right")


def test_the_shrinker_leaves_what_is_wrong():
    """Of a graph with several nodes, only the wrong one is left, with its operand as an input."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2] x, float[2] z) => (float[2] y, float[2] w) {
            a = Abs(x) b = Neg(a) c = Add(b, z) y = Exp(c) w = Floor(z)
        }""")
    x = np.array([1, -2], np.float32)
    small = shrink(Faulty(), Graph(model, {"x": x, "z": x}), "wrong")
    assert [node.op_type for node in small.model.graph.node] == ["Neg"]
    assert [value.tolist() for value in small.feeds.values()] == [[1.0, 2.0]]
    assert [[-1.0, -2.0]] == [value.tolist() for value in run(small.model, small.feeds)]
