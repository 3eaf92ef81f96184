"""The examples in the docstrings of the functions that users call run, and show what comes out."""

from __future__ import annotations

import doctest
import inspect
import shutil
from pathlib import Path

import pytest

import formats
from tests.docs.code_blocks import ROOT

FUNCTIONS = sorted(name for name in dir(formats) if inspect.isfunction(getattr(formats, name)))
SLOW = {"onnxruntime_session", "from_onnx", "to_onnx", "from_onnx_ir", "to_onnx_ir"}  # they import large packages


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.outer] * (name in SLOW)) for name in FUNCTIONS])
def test_example_of_a_function_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each public function has an example, which runs in a folder with the example model and gives what it shows."""
    shutil.copy(ROOT / "examples" / "digits.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(formats, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {"formats": formats}, name, None, None)
    failed, attempted = doctest.DocTestRunner().run(example)
    assert (0, True) == (failed, attempted > 0)
