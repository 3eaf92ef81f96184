"""The examples in the docstrings of the functions and methods that users call run, and give what they show."""

from __future__ import annotations

import doctest
import inspect
import shutil
from pathlib import Path

import pytest

import formats
import formats.onnxpb
from tests.docs.code_blocks import ROOT

FUNCTIONS = {name: each for name in dir(formats) if inspect.isfunction(each := getattr(formats, name))}
FUNCTIONS |= {f"onnxpb.{name}": getattr(formats.onnxpb, name) for name in ("with_weights", "without_weights")}
METHODS = {
    f"{kind.__name__}.{name}": each
    for kind in (formats.Model, formats.Tensor)
    for name, each in vars(kind).items()
    if inspect.isfunction(each) and not name.startswith("_")
}
SLOW = {"onnxruntime_session", "from_onnx", "to_onnx", "from_onnx_ir", "to_onnx_ir"}  # they import large packages
SLOW |= {"Model.infer_shapes", "Model.rewrite", "onnxpb.with_weights"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.outer] * (name in SLOW)) for name in [*FUNCTIONS, *METHODS]]
)
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public function has an example, which runs in a folder with the example model and gives what it shows."""
    shutil.copy(ROOT / "examples" / "digits.onnx", tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc((FUNCTIONS | METHODS)[name]) or ""
    example = doctest.DocTestParser().get_doctest(text, {"formats": formats}, name, None, None)
    failed, attempted = doctest.DocTestRunner().run(example)
    assert (0, True) == (failed, attempted > 0)
