"""Two models that run in onnxruntime on the same inputs: the differences are told, and what fails is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats.bridges import results
from formats.bridges.results import compared_results, differences
from tests.commands import run

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x) => (float[n, 2] y, int64[2] s)
    <float[2] w = {WEIGHT, 1}> { a = Mul(x, w) y = Cast<to = 1>(a) s = Shape(x) }"""


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two models, whose weights differ by a half."""
    paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
    for path, weight in zip(paths, ("1", "1.5"), strict=True):
        onnx.save(onnx.parser.parse_model(TEXT.replace("WEIGHT", weight)), path)
    return paths


def test_given_inputs(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The largest difference of each output, on the arrays of an .npz file, which get the types of the model."""
    np.savez(tmp_path / "in.npz", x=np.array([[1, 2], [-4, 5]]))
    y, s = compared_results(*pair, tmp_path / "in.npz")
    assert ("y", 2.0, 5.0, "differs by 2 at most, where its largest number is 5") == y
    assert ("s", 0.0, 2.0, "is the same") == s


def test_random_inputs_are_the_same_each_time(pair: tuple[Path, Path]) -> None:
    """Without inputs, random ones are the same in each run, and an open dim gets a size with which the model runs."""
    first, second = ([*differences(*map(str, pair), None)] for _ in range(2))
    assert first == second
    assert first[0].largest
    assert first[1].largest == 0


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ({"z": np.zeros(2)}, "`check_inputs` has no 'x', an input of the model"),
        ({"x": np.zeros((1, 3, 3))}, "onnxruntime does not run .*a.onnx: "),
        (b"PK", "in.npz is no .npz file with arrays"),
    ],
)
def test_inputs_that_do_not_fit(pair: tuple[Path, Path], tmp_path: Path, arrays: Any, error: str) -> None:
    """Inputs of another name or rank, and a file that is none, are told in one line."""
    path = tmp_path / "in.npz"
    if isinstance(arrays, bytes):
        path.write_bytes(arrays)
    else:
        np.savez(path, **arrays)
    with pytest.raises((formats.UnsupportedError, formats.OptionError), match=error):
        [*differences(*map(str, pair), str(path))]


def test_other_dims_and_other_nan(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    """An output with other dims, or with NaN at other places, has no largest difference."""
    other = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 2] x) => (float[n, 2] y, int64[1] s) '
        "{ m = Neg(x) a = Mul(x, m) y = Log(a) z = Shape(x) i = Constant<value_ints = [1]>() s = Gather(z, i) }"
    )
    onnx.save(other, tmp_path / "c.onnx")
    details = [each[1:] for each in differences(str(pair[0]), str(tmp_path / "c.onnx"), None)]
    wanted = [(None, None, "is not a number (NaN) at other places"), (None, None, "has dims [1] instead of [2]")]
    assert wanted == details


def test_a_process_that_ends(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of onnxruntime ends only its own process, and is one line."""
    monkeypatch.setattr(results, "PROGRAM", "import os; os.abort()")
    with pytest.raises(formats.UnsupportedError, match="or has crashed"):
        compared_results(*pair, None)


def test_without_onnxruntime(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnxruntime, the error says what to install."""
    monkeypatch.setattr(results, "PROGRAM", "import sys; sys.modules['onnxruntime'] = None; " + results.PROGRAM)
    with pytest.raises(formats.MissingPackageError, match="checks of results need the package onnxruntime, which"):
        compared_results(*pair, None)


def test_the_commands(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """`convert`, `edit` and `diff` print the differences, also in JSON; several models and streams are refused."""
    new = tmp_path / "new.onnx"
    for verb in ("convert", "edit"):
        done = run("formats", verb, pair[0], new, "--force", "--dtype", "float16", "--check")
        assert "check: s is the same" in done.stdout.splitlines()
        assert done.stdout.count("check: ") == 2
    done = run("formats", "diff", *pair, "--check", "--json")
    assert ["y", "s"] == [each["output"] for each in json.loads(done.stdout)["checked"]]
    done = run("formats", "convert", *pair, tmp_path, "--to", "onnxz", "--check")
    assert (done.exit_code, "--check is for one model, and these are several" in done.stderr) == (2, True)
    done = run("formats", "convert", pair[0], tmp_path / "dry.onnx", "--check", "--dry-run")
    assert "--check runs two models in files, so SRC and DST must be files" in done.stderr


def test_a_check_that_cannot_run_says_that_the_model_was_written(tmp_path: Path) -> None:
    """If onnxruntime does not load a model, one line says so in plain words, and that the new model is there."""
    ends = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    node = onnx.helper.make_node("Nope", ["x"], ["y"], domain="own")
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    done = run("formats", "convert", tmp_path / "m.onnx", tmp_path / "new.onnx", "--check")
    assert done.exit_code == 1
    assert "new.onnx was written, but not compared with the source: onnxruntime does not load" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "ONNXRuntimeError" not in done.stderr
    assert (tmp_path / "new.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
