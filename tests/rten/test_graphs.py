"""Random graphs: right in the real runtimes, reported or refused; and the shrinker.

CI draws fixed seeds, and a few others, which are those of the day. `FORMATS_GRAPHS=10000 pytest
tests/rten/test_graphs.py -k exported` draws ten thousand graphs of what exporters write, and `FORMATS_SEED=...` others.
"""

from __future__ import annotations

import os
from time import sleep

import numpy as np
import onnx
import pytest

from formats.tensordata.plan import RANGE, RESULTS, Loss
from tests.rten.exported_graphs import SECOND
from tests.rten.graphs import apart
from tests.rten.random_graphs.builder import FIRST
from tests.rten.random_graphs.graph import Graph, everything
from tests.rten.random_graphs.judging import Bench, Outcome, Surroundings, explains, is_of_last_bits
from tests.rten.random_graphs.whole import generate, is_strict
from tests.systems import NIGHT, OF_THE_DAY

SEEDS = range(2000, 2200 if NIGHT else 2080)
EXPORTED = int(os.environ.get("FORMATS_GRAPHS", "80"))
FIRST_OF_THE_DAY = OF_THE_DAY << 20
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


def faults_of(seeds, templates, bench):
    """Return the faults of the graphs of some seeds, made in another process, because onnxruntime may end it."""

    def judged(seed):
        graph = generate(seed, templates)
        outcome = Outcome("right") if graph is None else bench.outcome(graph)
        return f"{outcome.kind}: {outcome.detail}" if outcome.is_fault else ""

    return {seed: text for seed, text in apart(seeds, judged) if text}


@pytest.mark.parametrize("first", range(0, EXPORTED, 40))
def test_graphs_of_exporters_are_right_told_or_refused(first, bench):
    """Attention, quantised and recurrent layers and trees are right on every route, or a report says why not."""
    assert {} == faults_of(range(first, first + 40), SECOND, bench)


def test_graphs_of_the_day_are_right_told_or_refused(bench):
    """So are graphs with seeds that nobody chose."""
    assert {} == faults_of(range(FIRST_OF_THE_DAY, FIRST_OF_THE_DAY + EXPORTED // 6), SECOND, bench)
    assert {} == faults_of(range(FIRST_OF_THE_DAY, FIRST_OF_THE_DAY + EXPORTED // 6), FIRST, bench)


def test_a_process_that_dies_does_not_end_the_others():
    """The seeds after one whose process dies are judged in the next process."""
    found = apart(range(5), lambda seed: os.abort() if seed == 2 else seed * seed)
    assert [(0, 0), (1, 1), (3, 9), (4, 16)] == list(found)


@pytest.mark.outer  # it waits for ten seconds, so that a busy machine answers in time
def test_a_graph_that_never_ends_does_not_stop_the_others():
    """The seeds after one that gives no answer in time are judged in the next process."""
    found = apart(range(5), lambda seed: sleep(600) if seed in (0, 3) else seed * seed, seconds=5)
    assert [(1, 1), (2, 4), (4, 16)] == list(found)


@pytest.mark.parametrize(
    ("loss", "is_reason"),
    [
        (Loss("range", "graph.node[0]", "Mul: INT64 values may exceed the 32 bits that RTen uses (v1)", RANGE), True),
        (Loss("range", "graph.node[1]", "Mul: INT64 values may exceed the 32 bits that RTen uses (v2)", RANGE), False),
        (Loss("range", "graph.node[0]", "Add: INT64 values may exceed the 32 bits that RTen uses (v1)", RANGE), False),
        (Loss("precision", "graph", "RTen computes FLOAT16 in 32 bits (v9)", RESULTS), False),
        (Loss("precision", "graph", "RTen computes DOUBLE in 32 bits (v9)", RESULTS), True),
        (Loss("interface_type", "graph.input[0]", "INT64 inputs become INT32 (v0)", RESULTS), False),
    ],
)
def test_a_loss_about_another_node_explains_nothing(loss, is_reason):
    """A difference is explained by a loss of a node and a type that the output depends on."""
    around = Surroundings(frozenset(("Mul",)), True, False, frozenset(("v0", "v1")), frozenset(("FLOAT64", "INT64")))
    assert is_reason == explains(loss, around)


@pytest.mark.parametrize(("product", "is_reason"), [("MatMul", True), ("Mul", False)])
def test_last_bits_of_a_sum_explain_the_step_next_to_them(product, is_reason):
    """What is a half step behind a product of matrices may become either step; what no kernel adds up may not."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[1, 1] x) => (uint8[1, 1] y) <float[1, 1] one = {{1}}, float s = {{0.5}}, uint8 z = {{0}}>
        {{ p = {product}(x, one) y = QuantizeLinear(p, s, z) }}""")
    graph = Graph(model, {"x": np.full((1, 1), 1.25, np.float32)})
    values = everything(graph)
    assert is_reason == is_of_last_bits(graph, values, 0, values["y"] + np.uint8(1))
    assert not is_of_last_bits(graph, values, 0, values["y"] + np.uint8(2))


@pytest.mark.parametrize(
    ("nodes", "shapes"),
    [
        ("y = GatherND(x, i)", {"x": (2, 3), "i": (1, 0)}),
        ("y = DequantizeLinear(x, s, z)", {"x": (2, 3), "s": (1,), "z": (3,)}),
        ("y = NonMaxSuppression(x, s, m)", {"x": (0, 3, 4), "s": (0, 1, 3), "m": (0,)}),
    ],
)
def test_sizes_that_onnx_forbids_are_not_judged(nodes, shapes):
    """Indices without numbers, zero points that are not as many as scales, and limits without a number break ONNX."""
    names = ", ".join(f"float {name}" for name in shapes)
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]> g ({names}) => (float y) {{ {nodes} }}"""
    )
    assert not is_strict(Graph(model, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}))
