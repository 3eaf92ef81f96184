"""Archives in the RTen runtime, with the Rust reader: the results, and how much memory of its own the process needs."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests.onnxzip import rust_reader

pytestmark = pytest.mark.outer

RELEASE = "0.27"
"""The release of RTen for which the reader is made."""
ALL_TYPES = ("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool")
MIB = 1 << 20


@pytest.fixture(scope="module")
def runtime(runtimes: dict[str, Any]) -> Any:
    """The runner of the release for which the reader is made."""
    if RELEASE not in runtimes:
        pytest.skip(f"needs RTen {RELEASE} in RTEN_RELEASES")
    return runtimes[RELEASE]


def outputs(runtime: Any, path: Path, inputs: dict[str, Any], **options: bool) -> list[bytes]:
    """Return the bytes of a model's outputs."""
    return [np.asarray(output).tobytes() for output in runtime.run(path, inputs, **options)]


def zipped(model: onnx.ModelProto, path: Path, least_nbytes: int = 0, **keys: str) -> int:
    """Write an archive with Python's `zipfile`, with entries at any offset; return the number of entries.

    `keys` are the keys of `external_data` besides the location.
    """
    model = onnx.ModelProto.FromString(model.SerializeToString())
    with zipfile.ZipFile(path, "w") as archive:
        tensors = [tensor for tensor in every_tensor(model.graph) if len(tensor.raw_data) > least_nbytes]
        for number, tensor in enumerate(tensors):
            archive.writestr(zipfile.ZipInfo(f"t{number}"), tensor.raw_data)
            places = {"location": f"t{number}"} | {
                key: value.format(nbytes=len(tensor.raw_data)) for key, value in keys.items()
            }
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in places.items():
                tensor.external_data.add(key=key, value=value)
        archive.writestr(zipfile.ZipInfo("__MODEL_PROTO"), model.SerializeToString())
    return len(tensors)


def every_tensor(graph: onnx.GraphProto) -> list[TensorProto]:
    """Return the tensors of a graph, of its attributes and of its subgraphs."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            tensors += [attribute.t] if attribute.HasField("t") else []
            tensors += every_tensor(attribute.g) if attribute.HasField("g") else []
    return tensors


def of_all_types() -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model with a constant of each type, in the graph, in both branches of an If, and in a node."""
    rng = np.random.default_rng(1)

    def constant(name: str, dtype: str) -> TensorProto:
        values = rng.integers(0, 2 if dtype == "bool" else 100, 5).astype(dtype)
        return numpy_helper.from_array(values, name)

    def branch(prefix: str) -> onnx.GraphProto:
        names = [f"{prefix}_{dtype}" for dtype in ALL_TYPES]
        tensors = [constant(name, dtype) for name, dtype in zip(names, ALL_TYPES, strict=True)]
        nodes = [helper.make_node("Cast", [name], [f"{name}_float"], to=1) for name in names]
        nodes += [helper.make_node("Sum", [f"{name}_float" for name in names], [f"{prefix}_y"])]
        value = helper.make_tensor_value_info(f"{prefix}_y", 1, [5])
        return helper.make_graph(nodes, prefix, [], [value], tensors)

    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=branch("then"), else_branch=branch("else")),
        helper.make_node("Constant", [], ["k"], value=constant("", "float32")),
        helper.make_node("Add", ["y", "k"], ["z"]),
        helper.make_node("Mul", ["z", "w"], ["out"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("out", 1, [5])],
        [constant("w", "float32")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model, {"c": np.array(False)}


@pytest.mark.parametrize("options", [{}, {"size_threshold": 1}, {"alignment": 1}, {"dedup": True}], ids=str)
def test_shared_models(shared_model: Path, options: dict[str, Any], runtime: Any, tmp_path: Path) -> None:
    """RTen computes the same from an archive as from the model, bit for bit."""
    arrays = np.load(shared_model.with_suffix(".npz"))
    inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
    path = tmp_path / "m.onnxz"
    formats.convert(shared_model, path, **options)
    for optimize in (True, False):
        expected = outputs(runtime, shared_model, inputs, optimize=optimize)
        assert expected == outputs(runtime, path, inputs, optimize=optimize)


@pytest.mark.parametrize(
    "keys", [{}, {"offset": "0"}, {"length": "{nbytes}"}, {"length": "{nbytes}", "offset": "0"}], ids=str
)
@pytest.mark.parametrize("optimize", [True, False])
def test_tensors_anywhere_of_any_type(keys: dict[str, str], optimize: bool, runtime: Any, tmp_path: Path) -> None:
    """Tensors of each type, in subgraphs and nodes, at any offset and with any keys, are those of the model."""
    model, inputs = of_all_types()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    archive = tmp_path / "m.onnxz"
    assert zipped(model, archive, **keys) == 2 * len(ALL_TYPES) + 2
    assert {entry.header_offset % 4 for entry in zipfile.ZipFile(archive).infolist()} == {0, 1, 2, 3}
    for choice in (True, False):
        inputs["c"] = np.array(choice)
        expected = outputs(runtime, path, inputs, optimize=optimize)
        assert expected == outputs(runtime, archive, inputs, optimize=optimize)


def test_refusals_are_told(runtime: Any, tmp_path: Path) -> None:
    """RTen's error names the requirement that a file breaks, or the problem in the graph."""
    path = tmp_path / "m.onnxz"
    path.write_bytes(b"PK" + bytes(98))
    with pytest.raises(Exception, match=r"load: .*\(Z-2\.1\)"):
        runtime.run(path, {})
    node = helper.make_node("NoSuchOperator", ["x"], ["y"])
    value = [helper.make_tensor_value_info(name, 1, [1]) for name in "xy"]
    zipped(helper.make_model(helper.make_graph([node], "g", value[:1], value[1:])), path)
    with pytest.raises(Exception, match=r"load: .*NoSuchOperator"):
        runtime.run(path, {"x": np.ones(1, "float32")})


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory of a process is a file's")
def test_weights_are_the_mapped_file(runtime: Any, tmp_path: Path) -> None:
    """64 MiB of aligned weights load without memory of their own; unaligned ones need as much memory as their size."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((1024, 1024), "float32"), f"w{i}") for i in range(16)]
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(16)]
    first, last = (helper.make_tensor_value_info(name, 1, [1, 1024]) for name in ("x0", "x16"))
    model = helper.make_model(helper.make_graph(nodes, "g", [first], [last], weights), ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "aligned.onnxz")
    zipped(model, tmp_path / "unaligned.onnxz")
    copied = 0
    for entry in zipfile.ZipFile(tmp_path / "unaligned.onnxz").infolist()[:-1]:
        payload_offset = entry.header_offset + 30 + len(entry.filename)
        copied += entry.file_size if payload_offset % 4 else 0
    assert 8 * MIB < copied < 56 * MIB
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", np.ones((1, 1024), "float32"))

        def loaded(name: str) -> int:
            runtime.close()  # so that the allocator has no free memory left from another model
            request = {"model": str(tmp_path / name), "out_dir": folder, "inputs": {"x0": f"{folder}/x.npy"}}
            return int(runtime.ask(request)["load"]["anonymous_nbytes"])

        assert loaded("aligned.onnxz") < 2 * MIB
        assert copied < loaded("unaligned.onnxz") < copied + 2 * MIB
        assert loaded("m.onnx") > 64 * MIB


def test_example_runs_a_model(shared_models: list[Path], tmp_path: Path) -> None:
    """The example of the reader runs a model, and says why it cannot run another file."""
    path = tmp_path / "m.onnxz"
    formats.convert(shared_models[0], path)
    done = subprocess.run([rust_reader.program("run"), path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loaded in ")
    path.write_bytes(path.read_bytes()[:-1])
    done = subprocess.run([rust_reader.program("run"), path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Z-2.1" in done.stderr
