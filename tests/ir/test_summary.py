"""What a notebook shows of a report: a short table, in which everything is text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats.ir.summary import MAX_TEXT, first_rows, html_table

EVIL = '<script>alert("x")</script>&\u202e\n' + "x" * 10_000

REPORTS: dict[str, Callable[[Path], Any]] = {
    "Inspection": lambda path: formats.inspect(path),
    "ConversionReport": lambda path: formats.convert(path, path.with_suffix(".onnxz"), overwrite=True),
    "Comparison": lambda path: formats.diff(path, path.with_name("other.onnx")),
    "Verification": lambda path: formats.verify(path),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model with 300 weights and hostile names, beside another one."""
    for name, value in (("other.onnx", 1), ("model.onnx", 2)):
        weights = [formats.from_numpy(np.full(400, value, "f4"), f"{n}{EVIL}") for n in range(300)]
        inputs = [formats.ValueInfo(f"{EVIL}{n}") for n in range(50)]
        nodes = [formats.Node(op_type=EVIL, input=["a"], output=["a"])]
        graph = formats.Graph(nodes, EVIL, initializer=weights, input=inputs)
        model = formats.Model(ir_version=8, graph=graph, opset_import=[formats.OperatorSetId(EVIL, 1)])
        formats.save(model, tmp_path / name)
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_a_short_table(name: str, path: Path) -> None:
    """A report is a table of at most a screen in a notebook, well formed and without tags from the model."""
    html = REPORTS[name](path)._repr_html_()
    root = ET.fromstring(html)
    rows = list(root.iter("tr"))
    assert ("table", True) == (root.tag, 3 <= len(rows) <= 40)
    assert max(len("".join(row.itertext())) for row in rows) < 2 * MAX_TEXT + 10
    assert {"table", "thead", "tbody", "tr", "th", "td"} == {element.tag for element in root.iter()}
    assert "\u202e" not in html


@pytest.mark.parametrize("name", REPORTS)
def test_the_repr_of_a_report_is_one_line(name: str, path: Path) -> None:
    """A prompt shows the numbers of a report, not all of its tensors."""
    shown = repr(REPORTS[name](path))
    assert shown.startswith(f"{name}(")
    assert len(shown) < 300 + len(str(path)) * 2
    assert "\n" not in shown


def test_the_number_of_rows_that_are_not_shown() -> None:
    """Of many rows, the first are shown, and how many more there are."""
    rows = [(str(n), "") for n in range(20)]
    assert [*rows[:12], ("", "and 8 more")] == list(first_rows(rows))
    assert [*rows[:12], ("", "and 1,988 more")] == list(first_rows(rows, 2000))
    assert rows[:3] == list(first_rows(rows[:3]))
    assert "<th" in html_table("a", "b", rows)


def test_tensors_and_nodes_make_a_data_frame(path: Path) -> None:
    """Tensors and nodes are named tuples, of which pandas and polars make a column for each field."""
    seen = formats.inspect(path, nodes=True)
    columns = {tuple(entry._fields) for entry in seen.tensors}
    assert columns == {("where", "name", "data_type", "dims", "nbytes", "file", "file_offset")}
    assert seen.nodes is not None
    assert {tuple(node._fields) for node in seen.nodes} == {
        ("where", "name", "operator", "domain", "inputs", "outputs")
    }
