"""Numbers in a model that are counts, sizes, lengths or depths: none keeps a conversion busy, or takes its memory."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import formats
from formats.ir.model import Graph, Model
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from tests.rten import rten_cases
from tests.systems import NIGHT

TESTS = Path(__file__).parents[2]
PARTS = 1 if NIGHT else 96
MAX_PEAK_MIB = 800
MAKERS = {"zeros", "ones", "full", "empty", "arange", "linspace", "eye", "identity", "tri", "indices"}
CHECKED_BEFORE = {"grids.py": {"ones"}, "window.py": {"eye"}}  # by `check_size`; or of one element


@pytest.mark.outer
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these limits of memory")
def test_no_number_keeps_a_conversion_busy() -> None:
    """Whichever integer of an operator's attributes and constants is huge, the conversion ends soon."""
    for part in (1,):
        done = subprocess.run(
            [sys.executable, TESTS / "rten" / "rten_counts.py", f"{part}/{PARTS}"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS.parent)},
            check=True,
            timeout=3000,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        assert found["wrong"] == []
        assert found["count"] > 2400 // PARTS
        assert found["peak_mib"] < MAX_PEAK_MIB


def test_arrays_of_operators_count_in_the_budget() -> None:
    """No module of an operator makes an array of a given size by numpy alone: it would not be counted."""
    found = []
    for path in sorted(Path(budget.__file__).parents[1].joinpath("operators").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_maker = isinstance(node, ast.Attribute) and node.attr in MAKERS - CHECKED_BEFORE.get(path.name, set())
            if is_maker and isinstance(node.value, ast.Name) and node.value.id == "numpy":
                found.append(f"{path.name}:{node.lineno} numpy.{node.attr}")
    assert not found


def test_one_budget_for_all_nodes() -> None:
    """What one part of a conversion makes is not there for the next one; another conversion has its own."""
    model = Model(graph=Graph())
    for _ in range(2):
        with budget.budget_of(model):
            budget.count_elements(budget.ELEMENTS - 10)
            with budget.budget_of(model), pytest.raises(Refused, match=r"11 elements.*only 10 more"):
                budget.count_elements(11)
            budget.count_elements(10)
            budget.count_nodes(budget.NODES)
            with pytest.raises(Refused, match="1 nodes"):
                budget.count_nodes(1)


def test_larger_models_may_make_more() -> None:
    """The allowance grows with the bytes and nodes of the model."""
    nodes = [formats.Node(op_type="Relu", input=["x"], output=["y"]) for _ in range(1000)]
    weight = formats.from_numpy(np.zeros(1 << 20, "float32"), "w")
    with budget.budget_of(Model(graph=Graph(node=nodes, initializer=[weight]))):
        budget.count_elements(budget.ELEMENTS + budget.ELEMENTS_PER_BYTE * (4 << 20))
        budget.count_nodes(budget.NODES + budget.NODES_PER_NODE * 1000)
        with pytest.raises(Refused):
            budget.count_elements(1)


def test_the_error_names_the_node_and_the_number() -> None:
    """A refusal says which node needs how much, and how much a conversion may make."""
    numbers = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    lists = {"pool_int64s": [1, 2], "ngram_counts": [0], "ngram_indexes": [0, 1 << 62]}
    case = rten_cases.one("words", 17, "TfIdfVectorizer", {"x": np.arange(4)}, **numbers, **lists)
    with pytest.raises(formats.FormatError) as caught:
        formats.dumps(case.model(), "rten")
    assert "TfIdfVectorizer" in str(caught.value)
    assert "graph.node[0]" in str(caught.value)
    assert f"{(1 << 62) + 1:,} elements" in str(caught.value)
