"""Tests of models with more data files than a process may usually have open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from formats.tensordata.local.osio import room_for_files
from tests.systems import PATIENCE_SECONDS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
FILES = 300
LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (200, int(sys.argv[1])))
"""
SAVE = (
    LIMIT
    + """
import formats.onnxpb as onnx
model = onnx.load(sys.argv[2])
onnx.save_model(model, sys.argv[3], save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""
)


@pytest.fixture
def many_weights(tmp_path: Path) -> Path:
    """A model with more weights than a process may have open files."""
    weights = [numpy_helper.from_array(np.full(8, n, "float32"), f"w{n}") for n in range(FILES)]
    graph = helper.make_graph([], "g", [], [], weights)
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    (tmp_path / "out").mkdir()
    return tmp_path / "model.onnx"


def test_a_file_for_each_weight(many_weights: Path) -> None:
    """A model may have more data files than the usual limit, as with onnx; afterwards, the limit is as it was."""
    new = many_weights.parent / "out" / "new.onnx"
    command = [sys.executable, "-c", SAVE, "4000", str(many_weights), str(new)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert ("200\n", "") == (done.stdout, done.stderr)
    assert len([*new.parent.iterdir()]) == FILES + 1
    saved = onnx.load(new)
    assert [numpy_helper.to_array(each)[0] for each in saved.graph.initializer] == [*range(FILES)]


def test_the_hard_limit_is_named(many_weights: Path) -> None:
    """If the system allows no more files, the error names the limit, and no file is left."""
    new = many_weights.parent / "out" / "new.onnx"
    code = f"{LIMIT}\nsys.argv.pop(1)\nimport formats.cli.process\nformats.cli.process.main('convert')"
    options = [str(many_weights), str(new), "--max-external-file-size", "64", "--external-data"]
    command = [sys.executable, "-c", code, "200", *options, "--size-threshold", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert (1, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
    assert "too many files are open: the limit is 200 open files" in done.stderr
    assert [*new.parent.iterdir()] == []


def test_several_at_once() -> None:
    """What several conversions need at once adds up, and the limit is as before when the last one has ended."""
    import resource

    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = before if hard == resource.RLIM_INFINITY else min(before, hard - 300)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        first, second, few = room_for_files(100), room_for_files(200), room_for_files(3)
        first.__enter__()
        second.__enter__()
        assert (soft + 300, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
        first.__exit__(None, None, None)
        few.__enter__()
        assert (soft + 200, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
        second.__exit__(None, None, None)
        few.__exit__(None, None, None)
        assert (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
