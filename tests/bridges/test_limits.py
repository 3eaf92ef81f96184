"""What onnxruntime may take for a hostile model, measured at the process: its memory and its processor time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

import formats
from formats.bridges.results import differences
from formats.errors import UnsupportedError
from tests.commands import run
from tests.systems import PATIENCE_SECONDS
from tests.test_side_files import MEASURE

# The commands, with less than `--check` has by default: what takes too much does so sooner.
CHECK = """
from formats.bridges import results
from formats.onnxpb.limited_process import Limits
results.CHECKS = results._PROCESS.limits = Limits(300 << 20, 4, 3)
from formats.cli import formats
formats()
"""
SESSION = "import sys, formats; formats.onnxruntime_session(sys.argv[1])"
LARGE = "c = ConstantOfShape(n) s = ReduceSum<keepdims = 1>(c) y = Add(x, s)"
BODY = "b (int64 i, bool c, float[n] v) => (bool d, float[n] w) { d = Identity(c) w = Neg(v) }"
ENDLESS = f'y = Loop("", t, x) <body = {BODY}>'
MODELS = {
    "memory": (
        "int64[1] n = {300000000}",
        LARGE,
        "onnxruntime does not run .* Failed to allocate memory",
    ),
    "time": ("bool t = {1}", ENDLESS, "onnxruntime did not run both models in 3 seconds of processor time and 300 MiB"),
}
MOST_MIB = 500
MOST_SECONDS = 12.0


def measured(*arguments: str | Path) -> tuple[int, str, float, float]:
    """Run a program of Python: its exit code, its stderr, its memory in MiB and its processor time."""
    command = [sys.executable, "-c", MEASURE, sys.executable, "-c", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    code, kib, seconds = json.loads(done.stdout.splitlines()[-1])
    return code, done.stderr, kib / 1024, seconds


def saved(path: Path, values: str, nodes: str) -> Path:
    """The file of a model from `x` to `y` that was given as text."""
    inputs, _, constants = values.partition(", const ")
    text = f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[n] y) <{constants}> {{ {nodes} }}'
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def doubling(count: int) -> onnx.ModelProto:
    """A model with functions of which each calls the next one twice."""
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("me", 1)]

    def function(index: int) -> onnx.FunctionProto:
        calls = [("a", "t"), ("t", "b")] if index < count else [("a", "b")]
        name, domain = (f"f{index + 1}", "me") if index < count else ("Neg", "")
        nodes = [onnx.helper.make_node(name, [first], [second], domain=domain) for first, second in calls]
        return onnx.helper.make_function("me", f"f{index}", ["a"], ["b"], nodes, imports)

    ends = [onnx.helper.make_tensor_value_info(name, 1, ["n"]) for name in "xy"]
    call = onnx.helper.make_node("f0", ["x"], ["y"], domain="me")
    graph = onnx.helper.make_graph([call], "g", ends[:1], ends[1:])
    functions = [*map(function, range(count + 1))]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


@pytest.mark.skipif(sys.platform != "linux", reason="this system does not tell what a process took")
@pytest.mark.parametrize("name", MODELS)
def test_a_check_takes_no_more_than_its_limits(name: str, tmp_path: Path) -> None:
    """A model that takes all memory, or never ends, is one line of error, and the process stays within its limits."""
    constants, nodes, words = MODELS[name]
    path = saved(tmp_path / "m.onnx", f"float[n] x, const {constants}", nodes)
    code, text, mib, seconds = measured(CHECK, "diff", path, path, "--check")
    print(f"{name}: {mib:.0f} MiB, {seconds:.1f} s of processor time")
    assert (code, text.count("\n")) == (2, 1), text
    assert re.search(words, text), text
    assert mib < MOST_MIB
    assert seconds < MOST_SECONDS


def test_calls_are_counted_before_onnxruntime_follows_them(tmp_path: Path) -> None:
    """Functions that call the next one twice are refused with the number, whether one call or all are too many."""
    onnx.save(doubling(40), tmp_path / "m.onnx")
    code, text, _, seconds = measured(SESSION, tmp_path / "m.onnx")
    assert code == 1
    assert "the function 'f0' becomes 1,099,511,627,776 nodes with all functions that it calls" in text
    assert seconds < MOST_SECONDS
    many = doubling(16)  # 65,536 nodes for one call
    many.graph.node.add().CopyFrom(many.graph.node[0])
    with pytest.raises(UnsupportedError, match="the calls of functions become 131,072 nodes; onnxruntime gets at most"):
        formats.onnxruntime_session(many.SerializeToString())


@pytest.mark.parametrize("dims", [f"float[{1 << 40}, {1 << 40}]", f"float[{1 << 31}]", f"float[{', '.join('1' * 40)}]"])
def test_random_inputs_are_counted_first(dims: str, tmp_path: Path) -> None:
    """An input with too many elements or dims for random numbers is told in our words, with what to give instead."""
    path = saved(tmp_path / "m.onnx", f"{dims} x", "y = Neg(x)")
    with pytest.raises(UnsupportedError, match="the input 'x' is too large for random numbers; give a file with inp"):
        [*differences(str(path), str(path), None)]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
def test_a_pipe_is_no_file_of_inputs(tmp_path: Path) -> None:
    """A named pipe in the place of the inputs is refused, and does not wait for somebody who writes."""
    os.mkfifo(tmp_path / "in.npz")
    path = saved(tmp_path / "m.onnx", "float[2] x", "y = Neg(x)")
    done = run("formats", "diff", path, path, "--check-inputs", tmp_path / "in.npz")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "in.npz" in done.stderr
