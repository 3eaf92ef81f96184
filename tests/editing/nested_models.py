"""Models for edits: a small one, and one that can trip them, with captures through two levels and a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.editing.test_exported import run

FLOAT = TensorProto.FLOAT
BOOL = TensorProto.BOOL
X = np.array([[1, 2], [3, 4]], "float32")
W = np.array([2, 3], "float32")  # the weight of a small model


def value(name: str, kind: int = FLOAT, dims: list[Any] | None = None) -> onnx.ValueInfoProto:
    """Return the description of a value."""
    return helper.make_tensor_value_info(name, kind, ["n"] if dims is None else dims)


def nested() -> onnx.ModelProto:
    """Return a model whose inner If uses values of the main graph, through two levels, and defines others."""
    inner = [
        helper.make_graph([helper.make_node("Add", ["x", "w"], ["inner"])], "t", [], [value("inner")]),
        helper.make_graph([helper.make_node("Sub", ["middle", "x"], ["other"])], "e", [], [value("other")]),
    ]
    outer = [
        helper.make_graph(
            [
                helper.make_node("Mul", ["x", "x"], ["middle"]),
                helper.make_node("If", ["second"], ["result"], then_branch=inner[0], else_branch=inner[1]),
            ],
            "then",
            [],
            [value("result")],
        ),
        helper.make_graph([helper.make_node("Neg", ["x"], ["result2"])], "else", [], [value("result2")]),
    ]
    node = helper.make_node("If", ["first"], ["chosen"], then_branch=outer[0], else_branch=outer[1])
    last = helper.make_node("Twice", ["chosen"], ["y"], domain="own")
    function = helper.make_function(
        "own",
        "Twice",
        ["x"],
        ["doubled"],
        [helper.make_node("Add", ["x", "x"], ["doubled"])],
        [helper.make_opsetid("", 17)],
    )
    weight = numpy_helper.from_array(np.array([5], dtype="float32"), "w")
    graph = helper.make_graph(
        [node, last], "g", [value("x"), value("first", BOOL, []), value("second", BOOL, [])], [value("y")], [weight]
    )
    graph.output.append(value("w", dims=[1]))  # an initializer that is an output
    graph.value_info.append(value("chosen"))
    annotation = graph.quantization_annotation.add(tensor_name="chosen")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="w")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=imports, ir_version=8)


def small(op_type: str = "Add", dims: Any = ("batch", 2), opset: int = 17, **more: Any) -> onnx.ModelProto:
    """Return a model with one node, an input x, a weight w and an output y."""
    values = [helper.make_tensor_value_info(name, FLOAT, [*dims]) for name in "xy"]
    weight = numpy_helper.from_array(np.array([2, 3], "float32"), "w")
    graph = helper.make_graph(
        [helper.make_node(op_type, ["x", "w"], ["y"], name="n")], "g", values[:1], values[1:], [weight]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, **more)


def results(proto: onnx.ModelProto, path: Path, **inputs: Any) -> list[Any]:
    """Return what onnxruntime computes."""
    onnx.save(proto, path / "m.onnx")
    return run(path / "m.onnx", inputs)
