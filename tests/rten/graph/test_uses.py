"""Which values are found to be rounded, truncated or compared, from the specs of the operators alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from onnx import parser

from formats.ir.model import Model, Node
from formats.onnxpb.wire.decoder import decode
from formats.rten.graph.uses import add_decisive
from formats.rten.operators import SPECS
from formats.tensordata.sources.source import Literal


def nodes_of(body: str) -> list[Node]:
    """Return the nodes of a graph in the text form of ONNX."""
    text = f'<ir_version: 10, opset_import: ["" : 21, "d" : 1]> g (float[3] x) => (float[3] y) {{ {body} }}'
    graph = decode(Literal(parser.parse_model(text).SerializeToString()), Model).graph
    assert graph is not None
    return graph.node


def decisive(body: str) -> set[str]:
    """Return the names that are found."""
    found: set[str] = set()
    add_decisive([nodes_of(body)], found)
    return found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param("q = Div(x, x) y = Floor(q)", {"q", "x"}, id="rounded"),
        pytest.param("q = Div(x, x) r = Neg(q) y = Floor(r)", {"r", "q", "x"}, id="passed on, then rounded"),
        pytest.param("q = Div(x, x) y = Cast<to=7>(q)", {"q", "x"}, id="truncated"),
        pytest.param("q = Div(x, x) y = Cast<to=10>(q)", set(), id="cast to floats"),
        pytest.param(
            "q = Div(x, x) r = Cast<to=10>(q) y = Ceil(r)", {"r", "q", "x"}, id="cast to floats, then rounded"
        ),
        pytest.param("q = Div(x, x) r = Exp(q) y = Floor(r)", {"r"}, id="changed much"),
        pytest.param("q = Div(x, x) y = d.Floor(q)", set(), id="another domain"),
        pytest.param("q = Mul(x, x) y = Floor(q)", set(), id="no operator that asks"),
    ],
)
def test_values_that_are_rounded(body: str, found: set[str]) -> None:
    """Inputs of steps are found, and of nodes that pass elements on to steps, if an operator of the graph asks."""
    assert decisive(body) == found


def test_another_step_is_one_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that begins to round its inputs is a step by its spec alone."""
    rounding = replace(SPECS["Exp"], outputs=replace(SPECS["Exp"].outputs, rounds=lambda node: True))
    monkeypatch.setitem(SPECS._by_key, "Exp", rounding)  # type: ignore[attr-defined]  # a test may look inside
    assert decisive("q = Div(x, x) y = Exp(q)") == {"q", "x"}
