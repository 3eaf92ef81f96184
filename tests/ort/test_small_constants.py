"""Which constants onnxruntime reads when it loads a graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import formats
from formats.onnxruntime.small_constants import READ_AT_LOAD

X = "float[2,2] x"
ONE = np.array([1], np.int64)
# Nodes with constants, and whether onnxruntime reads the constant `c` when it loads them.
CASES = {
    "Reshape": ("y = Reshape(x, c)", np.array([-1]), True),
    "Reshape in a branch": (
        "y = If(b) <then_branch = t () => (z) { z = Reshape(x, c) }, else_branch = e () => (z) { z = Neg(x) }>",
        np.array([-1]),
        True,
    ),
    "Unsqueeze": ("y = Unsqueeze(x, c)", ONE, True),
    "ReduceSum": ("y = ReduceSum(x, c)", ONE, True),
    "Slice": ("y = Slice(x, c, c)", ONE, True),
    "Expand": ("y = Expand(x, c)", np.array([2, 2]), True),
    "Identity": ("s = Identity(c) y = Reshape(x, s)", np.array([-1]), True),
    "Range of onnxruntime": ("y = com.microsoft.Range(c, c)", np.array(1, np.float32), True),
    "a function": ("y = own.f(x, c)", np.array([-1]), True),
    "Gather": ("y = Gather(x, c)", ONE, False),
    "Add": ("y = Add(x, c)", np.array([1, 1], np.float32), False),
}


def model(body: str, constant: np.ndarray, folder: Path) -> Path:
    """Write a model whose constant is in a data file, as onnx writes it, and return its path."""
    imports = '["" : 17, "com.microsoft" : 1, "own" : 1]'
    text = f"""<ir_version: 8, opset_import: {imports}> g ({X}, bool b) => (y) {{ {body} }}
        <opset_import: ["" : 17], domain: "own"> f (a, b) => (d) {{ d = Reshape(a, b) }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(numpy_helper.from_array(constant, "c"))
    proto.graph.output[0].type.tensor_type.elem_type = 1
    for attribute in (each for node in proto.graph.node for each in node.attribute if each.HasField("t")):
        attribute.t.CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(attribute.t))
        )  # the parser makes no raw data
    path = folder / "m.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="m.data", size_threshold=0, convert_attribute=True)
    return path


def loads(path: Path) -> bool:
    """Whether onnxruntime makes a session of a model."""
    try:
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_constants_that_are_read_at_load_come_into_the_graph(name: str, tmp_path: Path) -> None:
    """A model that onnxruntime refuses for a constant outside is promised to nobody, and loads once it is converted."""
    body, constant, is_read = CASES[name]
    path = model(body, constant, tmp_path)
    assert loads(path) is not is_read
    seen = formats.inspect(path, runtime="onnxruntime==1.32")
    assert bool(seen.releases["onnxruntime"]) is not is_read
    assert seen.runtime and seen.runtime.loads is not is_read and len(seen.runtime.changes) == is_read
    assert ["V606" in finding.code for finding in formats.verify(path).notes] == [True] * is_read
    formats.convert(path, tmp_path / "same.onnx")
    report = formats.convert(path, tmp_path / "zero.onnx", external_data=True, size_threshold=0)
    for new in ("same.onnx", "zero.onnx"):
        assert loads(tmp_path / new)
        assert formats.inspect(tmp_path / new).releases["onnxruntime"]
        assert formats.diff(tmp_path / new, path).equal
    assert ["1 small constant stays" in loss.detail for loss in report.losses] == [True] * is_read
    assert (tmp_path / "zero.onnx.data").exists() is not is_read


@pytest.mark.parametrize(
    "body,is_read",
    [
        ("s = Constant <value = int64[1] {-1}> () y = Reshape(x, s)", True),
        ("s = Constant <value = float[1] {2}> () y = Add(x, s)", False),
    ],
)
def test_constants_of_nodes_in_a_data_file(body: str, is_read: bool, tmp_path: Path) -> None:
    """The tensor of a Constant node in a data file counts where the value of the node is read at load."""
    path = model(body, ONE, tmp_path)
    assert path.read_bytes().count(b"location") == 2 and loads(path) is not is_read
    assert bool(formats.inspect(path).releases["onnxruntime"]) is not is_read
    assert ["V606" in finding.code for finding in formats.verify(path).notes] == [True] * is_read


def test_small_tensors_of_nodes_stay_in_the_graph(tmp_path: Path) -> None:
    """The value of a Constant node stays inside whatever the threshold is, unless it is large."""
    proto = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2,2] x) => (float[4] y) {}')
    shape, large = numpy_helper.from_array(np.array([-1]), "s"), numpy_helper.from_array(np.ones((64, 4), "f"), "l")
    proto.graph.node.extend(
        [
            helper.make_node("Constant", [], ["s"], value=shape),
            helper.make_node("Constant", [], ["l"], value=large),
            helper.make_node("Reshape", ["x", "s"], ["y"]),
        ]
    )
    onnx.save(proto, tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "n.onnx", external_data=True, size_threshold=0)
    assert report.files[0].nbytes == 1024
    assert loads(tmp_path / "n.onnx")


def test_operators_of_the_table_exist() -> None:
    """Each operator of the table is one of ONNX's, and has these inputs."""
    for name, places in READ_AT_LOAD.items():
        most = max(schema.max_input for schema in onnx.defs.get_all_schemas_with_history() if schema.name == name)
        assert max(places) < most, name
