"""The calls of functions become the nodes of these functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import formats

SETS = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]


def saved(path: Path, functions: list[onnx.FunctionProto], outputs: list[str]) -> Path:
    """A model that calls the last function with `a`, and has these outputs."""
    call = helper.make_node(functions[-1].name, ["a"], outputs, domain="own")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("a", *outputs)]
    graph = helper.make_graph([call], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=SETS, ir_version=8), path)
    return path


@pytest.mark.parametrize("extension", ["onnx", "rten"])
def test_an_output_that_is_an_input(tmp_path: Path, extension: str) -> None:
    """The value is copied, also if nodes of the function use it, and no input gets the name of the output."""
    body = [helper.make_node("Neg", ["x"], ["y"])]
    model = saved(tmp_path / "m.onnx", [helper.make_function("own", "F", ["x"], ["x", "y"], body, SETS)], ["b", "c"])
    formats.convert(model, tmp_path / f"new.{extension}", **({"int32": True} if extension == "onnx" else {}))
    formats.convert(tmp_path / f"new.{extension}", tmp_path / "back.onnx")
    a = np.array([1, 2], "float32")
    same, negative = ReferenceEvaluator(str(tmp_path / "back.onnx")).run(None, {"a": a})
    assert same.tolist() == a.tolist()
    assert negative.tolist() == (-a).tolist()


def test_calls_of_functions_without_nodes(tmp_path: Path) -> None:
    """Each call counts, so calls without end are refused before they are written out."""
    functions = [helper.make_function("own", "F0", ["x"], ["x"], [], SETS)]
    for number in range(1, 40):
        call = f"F{number - 1}"
        body = [helper.make_node(call, ["x"], [name], domain="own") for name in ("unused", "y")]
        functions.append(helper.make_function("own", f"F{number}", ["x"], ["y"], body, SETS))
    model = saved(tmp_path / "m.onnx", functions, ["b"])
    with pytest.raises(formats.UnsupportedError, match="nodes"):
        formats.convert(model, tmp_path / "new.onnx", int32=True)
