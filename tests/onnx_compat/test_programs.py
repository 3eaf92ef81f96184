"""Programs that import `formats.onnxpb` as `onnx` run; `tests/test_types.py` checks their types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outer
pytest.importorskip("onnx")

PROGRAMS = Path(__file__).with_name("programs")


def test_programs_run(tmp_path: Path) -> None:
    """Each program makes or reads a model and finds in it what it should."""
    model = tmp_path / "model.onnx"
    paths = [PROGRAMS / "make_a_model.py", *sorted(PROGRAMS.glob("*.py"))]  # the first makes what the others read
    for path in paths:
        done = subprocess.run([sys.executable, str(path), str(model)], capture_output=True, text=True, check=False)
        assert (0, "") == (done.returncode, done.stderr), path.name
