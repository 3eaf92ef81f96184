"""Tests that what users read does not come from docstrings, which `python -OO` removes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

LINES = [
    ["--help"],
    ["convert", "--help-all"],
    ["convert", "loaded.onnx", "new.onnx", "--runtime", "rten", "--json"],
    ["convert", "loaded.onnx", "new.onnx", "--runtime", "rten", "--notes"],
    ["inspect", "loaded.onnx", "--runtime", "rten"],
    ["convert", "loaded.onnx", "new.rten", "--notes"],
    ["convert", "new.rten", "again.onnx", "--json"],
    ["verify", "new.rten", "--json"],
    ["convert", "missing.onnx", "new.onnx", "--json"],
    ["convert", "loaded.onnx", "--nonsense"],
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model that RTen loads, but of which it computes something else."""
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
    nodes = [
        helper.make_node("Softplus", ["x"], ["a"]),
        helper.make_node("Sign", ["a"], ["b"]),
        helper.make_node("Hardmax", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "loaded.onnx")
    return tmp_path


def said(folder: Path, *flags: str) -> list[tuple[int, str, str]]:
    """Return the exit code and the output of each command line, without times and names of temporary files."""
    found = []
    code = "from formats.cli import formats; formats()"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "COLUMNS": "80"}
    for line in LINES:
        done = subprocess.run(
            [sys.executable, *flags, "-c", code, *line], cwd=folder, env=environment, capture_output=True, text=True
        )
        texts = (re.sub(r'\d+\.\d+ s\b|"seconds": [\d.e-]+', "TIME", text) for text in (done.stdout, done.stderr))
        found.append((done.returncode, *texts))
    for path in folder.iterdir():
        if path.name != "loaded.onnx":
            path.unlink()
    return found


@pytest.mark.outer
def test_docstrings_are_not_read(folder: Path) -> None:
    """Help, answers, reports and errors are the same without docstrings."""
    usual = said(folder)
    assert "RTen's Sign returns 1 or -1 for zero" in usual[2][1]
    assert usual == said(folder, "-OO")
