"""What no output needs is removed, at every depth; the interface and the results stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests.editing.nested_models import results


def number(name: str) -> onnx.TensorProto:
    """Return a weight."""
    return numpy_helper.from_array(np.array([2], "float32"), name)


def value(name: str, kind: int = TensorProto.FLOAT, dims: Any = (1,)) -> onnx.ValueInfoProto:
    """Return the description of a tensor."""
    return helper.make_tensor_value_info(name, kind, dims)


@pytest.fixture
def littered() -> onnx.ModelProto:
    """A model in which each kind of thing is there once needed and once not; names of the latter begin with "un"."""
    branches = {}
    for name in ("then", "else"):
        nodes = [
            helper.make_node("Add", ["x", "outer"], [name]),
            helper.make_node("Add", ["unouter", "uninner"], ["unused_in"]),
        ]
        graph = helper.make_graph(nodes, name, [], [value(name, dims=None)], [number("uninner")])
        graph.value_info.append(value("unused_in"))
        branches[f"{name}_branch"] = graph
    nodes = [
        helper.make_node("If", ["flag"], ["chosen"], **branches),
        helper.make_node("Neg", ["x"], ["unneg"]),
        helper.make_node("F", ["unneg"], ["unf"], domain="own"),
        helper.make_node("G", ["chosen"], ["g"], domain="own"),
        helper.make_node("Add", ["g", "default"], ["y"]),
    ]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("H", ["a"], ["b"], domain="own")], sets),
        helper.make_function(
            "own",
            "G",
            ["a"],
            ["b"],
            [helper.make_node("Abs", ["a"], ["b"]), helper.make_node("H", ["a"], ["unh"], domain="own")],
            sets,
        ),
        helper.make_function("own", "H", ["a"], ["b"], [helper.make_node("Abs", ["a"], ["b"])], sets),
    ]
    inputs = [value("x"), value("flag", TensorProto.BOOL, []), value("default"), value("idle"), value("idle_default")]
    weights = [number(name) for name in ("outer", "unouter", "default", "idle_default", "unscale", "scale")]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")], weights)
    graph.value_info.extend([value("chosen"), value("unneg"), value("unknown")])
    for name, scale in (("y", "scale"), ("unneg", "unscale")):
        graph.quantization_annotation.add(tensor_name=name).quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value=scale
        )
    return helper.make_model(graph, functions=functions, opset_imports=sets, ir_version=8)


def test_what_no_output_needs_is_removed(littered: onnx.ModelProto, tmp_path: Path) -> None:
    """Dead nodes, weights, functions and types go, also in branches and functions; inputs and defaults stay."""
    onnx.save(littered, tmp_path / "m.onnx")
    report = formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", prune=True)
    assert [edit.detail for edit in report.edits] == [
        "5 nodes, 4 initializers, 4 value infos and 2 functions removed, which no output needs"
    ]
    assert report.verdict == "computes the same"
    new = onnx.load(tmp_path / "new.onnx")
    assert '"un' not in str(new)
    assert [each.name for each in new.functions] == ["G"]
    assert (new.graph.input, new.graph.output) == (littered.graph.input, littered.graph.output)
    assert {each.name for each in new.graph.initializer} == {"outer", "default", "idle_default", "scale"}
    onnx.checker.check_model(new, full_check=True)
    given = {"x": np.array([-3], "float32"), "flag": np.array(True), "idle": np.zeros(1, "float32")}
    assert results(new, tmp_path, **given) == results(littered, tmp_path, **given) == [np.array([3], "float32")]
    again = formats.edit(tmp_path / "new.onnx", tmp_path / "again.onnx", prune=True)
    assert [edit.detail for edit in again.edits] == ["there was nothing that no output needs"]


def test_what_training_needs_stays(littered: onnx.ModelProto) -> None:
    """Values and functions that only the graphs of training use stay."""
    info = littered.training_info.add()
    node = helper.make_node("F", ["unneg"], ["step"], domain="own")
    info.algorithm.CopyFrom(helper.make_graph([node], "a", [], [value("step")]))
    info.update_binding.add(key="unscale", value="step")
    model = formats.from_onnx(littered).edit(prune=True)
    assert [each.name for each in model.functions] == ["F", "G", "H"]
    assert "unneg" in model.values()
    assert "unscale" in {tensor.name for tensor in model.graph.initializer}
