"""The runner returns what the runtime computes, and survives crashes of the runtime."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.runtime.runner import DEFAULT_RELEASES, RELEASES, Runner, RunnerError, binary


@pytest.fixture(params=RELEASES)
def runner(request: pytest.FixtureRequest, runtimes: dict[str, Runner]) -> Runner:
    """Return the runner of each release."""
    return runtimes[request.param]


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that writes a model of these nodes and returns its path."""

    def write(graph: str) -> Path:
        path = tmp_path / "model.onnx"
        text = f'<ir_version: 8, opset_import: ["": 17]> g {graph}'
        path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
        return path

    return write


IDENTITY = "({0}[N] x) => ({0}[N] y) {{ y = Identity (x) }}"


def test_releases(tmp_path: Path, model: Callable[[str], Path], runtimes: dict[str, Runner]) -> None:
    """Each runner uses its own release: Softsign came with 0.27, QuickGelu with 0.26."""
    path = model("(float[N] x) => (float[N] y) { y = Softsign (x) }")
    for release, runner in runtimes.items():
        if release >= "0.27":
            assert [0.5] == runner.run(path, {"x": np.ones(1, "f4")})[0].tolist()
        else:
            with pytest.raises(RunnerError, match="Softsign"):
                runner.run(path, {"x": np.ones(1, "f4")})


def test_the_build_makes_the_runners_that_the_tests_run() -> None:
    """The packages that are built by default are the releases in `runner.py`, and each uses its release of RTen."""
    folder = Path(__file__).parent
    (members,) = re.findall(r"^default-members = (.*)$", (folder / "Cargo.toml").read_text(), re.M)
    assert json.loads(members) == list(DEFAULT_RELEASES)
    for manifest in folder.glob("0.*/Cargo.toml"):
        text = manifest.read_text()
        assert {manifest.parent.name} == set(re.findall(r"^rten.*= .*\"=(\d+\.\d+)\.\d+\"", text, re.M))
        assert binary(manifest.parent.name).stem == re.findall(r"^name = \"(.*)\"", text, re.M)[1]


def test_failures_have_a_stage(runner: Runner, model: Callable[[str], Path], tmp_path: Path) -> None:
    """A failure to load, to pass inputs or to run is an error, even a panic of the runtime, and the next model runs."""
    x = np.ones(3, "f4")
    panicking = tmp_path / "panic.onnx"
    model("(int64[3] s) => (float[A, B, C] y) { y = ConstantOfShape (s) }").rename(panicking)
    path = model(IDENTITY.format("float"))
    cases = [
        ("load", "No such file", tmp_path / "absent.onnx", {}),
        ("input", "no value named", path, {"z": x}),
        ("input", ".npy", path, {"x": np.ones(3, "c8")}),
        ("run", "expected type", path, {"x": x.astype("i4")}),
        ("run", "panicked at", panicking, {"s": np.full(3, 2**31 - 1)}),
    ]
    for stage, message, model_path, inputs in cases:
        with pytest.raises(RunnerError, match=message) as caught:
            runner.run(model_path, inputs)
        assert stage == caught.value.stage
    np.testing.assert_array_equal(x, runner.run(path, {"x": x})[0])


def test_endless_models_are_ended(runner: Runner, model: Callable[[str], Path]) -> None:
    """If a model takes too long, its process is ended, and the next model gets a new one."""
    body = "b (int64 i, bool ci, int64 v) => (bool co, int64 w) { w = Add (v, i)\n co = Identity (ci) }"
    loop = model(f"(int64 n, bool c, int64 x) => (int64 y) {{ y = Loop (n, c, x) <body = {body}> }}")
    impatient = Runner(runner.release, timeout_seconds=0.5)
    inputs = {"n": np.int64(1 << 40), "c": np.bool_(True), "x": np.int64(5)}
    with pytest.raises(RunnerError, match="no answer") as caught:
        impatient.run(loop, inputs)
    assert caught.value.stage == "timeout"
    assert impatient.run(loop, inputs | {"n": np.int64(10)}) == [50]
    impatient.close()


def test_the_command_line_runs_one_model(runner: Runner, model: Callable[[str], Path], tmp_path: Path) -> None:
    """The answer is printed on standard output, and the values are in the folder."""
    np.save(tmp_path / "x.npy", np.ones(3, "f4"))
    place = [model(IDENTITY.format("float")), tmp_path / "out"]
    command = [binary(runner.release), "--no-optimize", "--mmap", *place, f"x={tmp_path / 'x.npy'}"]
    answer = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    described = {"name": "y", "dtype": "tensor(f32)", "shape": ["N"], "file": str(tmp_path / "out" / "out_0.npy")}
    assert [described] == answer["outputs"]
    assert [1, 1, 1] == np.load(described["file"]).tolist()
    assert subprocess.run(command[:2], capture_output=True).returncode == 2
