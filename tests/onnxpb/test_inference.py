"""onnx infers shapes in a process of its own, which no model can use up, break or lead astray."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import formats
from formats.errors import MissingPackageError, UnsupportedError
from formats.onnxpb import inference
from formats.onnxpb.inference import inferred
from tests.systems import PATIENCE_SECONDS


def model_of(
    nodes: list[onnx.NodeProto], kind: int = TensorProto.FLOAT, shape: Sequence[int] = (4,), **parts: object
) -> formats.Model:
    """Return a model from `x` to `y`."""
    ends = [helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info("y", kind, None)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    return formats.from_onnx(helper.make_model(graph, opset_imports=sets, ir_version=10, **parts))


def chain(operator: str, count: int, **attributes: object) -> list[onnx.NodeProto]:
    """Return nodes that take the value before twice."""
    names = ["x", *(f"h{index}" for index in range(count - 1)), "y"]
    return [helper.make_node(operator, [names[index]] * 2, [names[index + 1]], **attributes) for index in range(count)]


SMALL = model_of(chain("Add", 2))


def sizes(model: formats.Model | None) -> list[list[int | None]]:
    """Return the sizes of the inner values."""
    assert model is not None
    assert model.graph is not None
    types = [value.type.tensor_type for value in model.graph.value_info if value.type]
    return [[dim.dim_value for dim in each.shape.dim] for each in types if each and each.shape]


def test_what_doubles_takes_little_memory() -> None:
    """Elements that double at each node are not followed; shapes are inferred without them."""
    assert sizes(inferred(model_of(chain("Concat", 24, axis=0))))[-1] == [4 << 23]
    running = inference._PROCESS._running
    status = Path(f"/proc/{running.pid}/status") if running else Path()
    if status.exists():  # Linux
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        assert int(peak.split()[1]) < 200 << 10


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of memory for a process")
def test_what_takes_all_memory_is_refused() -> None:
    """A rank that doubles at each node is refused with the limit, and the next model is inferred as before."""
    with pytest.raises(
        UnsupportedError, match=r"onnx cannot infer the shapes of this graph of [\d,]+ bytes with 192 MiB"
    ):
        inferred(model_of(chain("Gather", 26), TensorProto.INT64, [4, 4]))
    assert sizes(inferred(SMALL)) == [[4]]


def test_calls_are_counted_first() -> None:
    """Functions that call the next one twice are refused before onnx sees them, with the name and the number."""
    functions = [
        helper.make_function(
            "me",
            f"f{index}",
            ["a"],
            ["b"],
            [
                helper.make_node(f"f{index + 1}", ["a"], ["c"], domain="me"),
                helper.make_node(f"f{index + 1}", ["c"], ["b"], domain="me"),
            ]
            if index < 29
            else [helper.make_node("Relu", ["a"], ["b"])],
            [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)],
        )
        for index in range(30)
    ]
    model = model_of([helper.make_node("f0", ["x"], ["y"], domain="me")], functions=functions)
    with pytest.raises(UnsupportedError, match=r"the function 'f0' becomes 536,870,912 nodes"):
        inferred(model)


def test_calls_of_which_no_number_is_known() -> None:
    """Functions that become more nodes than a float counts are refused, and so are many calls of one function."""
    functions = [
        formats.Function(f"f{index}", domain="me", node=[formats.Node(domain="me", op_type=f"f{index + 1}")] * 1500)
        for index in range(99)
    ]
    graph = formats.Graph(node=[formats.Node(domain="me", op_type="f98")] * 1000)
    with pytest.raises(UnsupportedError, match="the function 'f0' becomes nodes without end"):
        inferred(formats.Model(graph=graph, functions=functions))
    with pytest.raises(UnsupportedError, match="the calls of functions become 1,500,000 nodes; onnx infers the shape"):
        inferred(formats.Model(graph=graph, functions=functions[-1:]))


def test_an_end_of_the_process_is_survived() -> None:
    """A model that ends the process of onnx is refused, and the next one is inferred."""
    assert sizes(inferred(SMALL)) == [[4]]
    running = inference._PROCESS._running
    assert running is not None
    running.kill()
    running.wait()
    assert sizes(inferred(SMALL)) == [[4]]  # the second attempt starts another process
    split = [helper.make_node("Split", ["x"], ["a", "b", "y"], num_outputs=2)]
    model = model_of(split)
    model.opset_import[0].version = 18
    try:  # an assertion of onnx 1.23 ends the process; another release may say what is wrong
        inferred(model)
    except UnsupportedError as error:
        assert "onnx cannot infer the shapes" in str(error)
    assert sizes(inferred(SMALL)) == [[4]]


def test_threads_take_turns() -> None:
    """Several threads get the shapes of their own models."""
    models = [model_of(chain("Concat", count, axis=0)) for count in range(2, 8)]
    results: dict[int, list[int | None]] = {}

    def infer(index: int) -> None:
        results[index] = sizes(inferred(models[index]))[-1]

    threads = [threading.Thread(target=infer, args=(index,)) for index in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {index: [8 << index] for index in range(len(models))}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_copied_process_asks_its_own(tmp_path: Path) -> None:
    """After a fork, both processes get their own answers."""
    program = """
import os, formats
from formats.onnxpb.inference import inferred
from tests.onnxpb.test_inference import SMALL, chain, model_of, sizes
assert sizes(inferred(SMALL)) == [[4]]
child = os.fork()
for count in range(2, 30):
    assert sizes(inferred(model_of(chain("Add", count)))) == [[4]] * (count - 1)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, env=environment, cwd=tmp_path)


def test_modules_of_the_folder_are_not_run(tmp_path: Path) -> None:
    """What lies in the current folder under the names of modules is not run."""
    for name in ("onnx", "numpy", "resource", "site", "formats"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run')\n")
    formats.save(SMALL.infer_shapes(), tmp_path / "m.onnx")
    command = [str(Path(sys.executable).with_name("formats")), "edit", "m.onnx", "n.onnx", "--dim", "x:0=8"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert "inferred again" in done.stdout


def test_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without onnx, the error says what to install."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingPackageError, match="pip install"):
        inferred(SMALL)
