"""Processes that use one archive at the same time share its weights in memory."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import onnx
import pytest

import formats
from formats import Graph, Model
from tests.smaps import fields_of

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells how pages are shared"
)

OURS = """import sys, formats
model = formats.load(sys.argv[1], model=sys.argv[2] if sys.argv[2:] else None)
views = [tensor.numpy() for tensor in model.graph.initializer]
print(float(sum(int(view.sum()) for view in views)), flush=True)
input()
"""
SESSION = """import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.disable_prepacking", "1")
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
(out,) = session.run(None, {"x": numpy.ones([1, 4096], "float32")})
print(float(out.sum()), flush=True)
input()
"""
WEIGHT = np.arange(4 << 20, dtype="uint32")


def test_two_processes_share_the_weights(tmp_path: Path) -> None:
    """The pages of a weight that two processes have read are counted only once for both."""
    path = tmp_path / "m.onnxz"
    formats.save(Model(graph=Graph(initializer=[formats.from_numpy(WEIGHT, "w")])), path)
    check_shared(path, WEIGHT, OURS, [path], [path])


def test_two_models_of_one_archive_share_a_weight(tmp_path: Path) -> None:
    """Two processes with different models of one archive have the pages of their common weight once."""
    for name in ("encoder", "decoder"):
        model = Model(graph=Graph(initializer=[formats.from_numpy(WEIGHT, f"w of {name}")]))
        formats.save(model, tmp_path / f"{name}.onnx")
    path = tmp_path / "m.onnxz"
    packed = formats.pack([tmp_path / "encoder.onnx", tmp_path / "decoder.onnx"], path)
    assert WEIGHT.nbytes == packed.shared_nbytes
    check_shared(path, WEIGHT, OURS, [path, "encoder"], [path, "decoder"])


def test_two_processes_with_onnxruntime_share_the_archive(tmp_path: Path) -> None:
    """If two processes create sessions of a linked graph, onnxruntime maps the archive, and they share its pages."""
    weight = np.random.default_rng(3).integers(-8, 8, (4096, 4096)).astype("float32")  # with exact sums
    ends = [onnx.helper.make_tensor_value_info(name, 1, [1, 4096]) for name in "xy"]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(weight, "w")])
    opset = [onnx.helper.make_opsetid("", 17)]
    model = formats.from_onnx(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8))
    formats.save(model, tmp_path / "m.onnxz")
    formats.link(tmp_path / "m.onnxz", tmp_path / "m.onnx")
    check_shared(tmp_path / "m.onnxz", weight, SESSION, [tmp_path / "m.onnx"], [tmp_path / "m.onnx"])


def check_shared(archive: Path, weight: np.ndarray, program: str, *arguments: list[str | Path]) -> None:
    """Check that processes that read the weight, and print its sum, count its pages only once for all."""
    maps = []
    with ExitStack() as running:
        for more in arguments:
            process = subprocess.Popen(
                [sys.executable, "-c", program, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            running.enter_context(process)
            running.callback(process.kill)
            assert process.stdout
            assert float(weight.sum(dtype="float64")) == float(process.stdout.readline())
            maps.append(Path(f"/proc/{process.pid}/smaps"))
        mapped = [fields_of(smaps.read_text(), archive.name) for smaps in maps]
    assert all(fields["Rss"] >= weight.nbytes for fields in mapped)
    assert weight.nbytes <= sum(fields["Pss"] for fields in mapped) < 1.1 * weight.nbytes
    assert not any(fields["Anonymous"] for fields in mapped)
