"""Random models with other dims: what runs in onnxruntime at a size is not refused, and rows are computed as before."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats

FLOAT = TensorProto.FLOAT
NEW = 6


def random_model(seed: int) -> tuple[onnx.ModelProto, int, bool]:
    """Return a chain of nodes, its batch size, and whether its constants hold this size where nothing else is meant."""
    draw = random.Random(seed)
    batch = draw.choice([1, 2])
    shape = [batch, 4, 6]
    nodes, weights, values, is_plain = [], [], [], True

    def constant(array: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(array), f"c{len(weights)}"))
        return str(weights[-1].name)

    for index in range(draw.randint(2, 5)):
        source, result = f"v{index}" if index else "x", f"v{index + 1}"
        kind = draw.choice(["Relu", "Reshape", "Reshape", "Expand", "Flatten", "Transpose", "MatMul", "Concat", "Add"])
        if kind == "Reshape":
            new = draw.choice([[batch, 24], [batch, 4, 6], [batch, 2, 2, 6], [batch, -1], [-1, 24], [batch * 24]])
            is_plain &= len(new) > 1
            shape = [*np.empty([batch, 24]).reshape(new).shape]
            nodes.append(helper.make_node(kind, [source, constant(np.array(new, "int64"))], [result]))
        elif kind == "Expand":
            nodes.append(helper.make_node(kind, [source, constant(np.array(shape, "int64"))], [result]))
        elif kind == "Flatten" and len(shape) > 1:
            shape = [batch, 24]
            nodes.append(helper.make_node(kind, [source], [result], axis=1))
        elif kind == "Transpose" and len(shape) == 3:
            shape = [shape[0], shape[2], shape[1]]
            nodes.append(helper.make_node(kind, [source], [result], perm=[0, 2, 1]))
        elif kind == "MatMul" and len(shape) > 1:
            weight = constant(np.eye(shape[-1], dtype="float32"))
            nodes.append(helper.make_node(kind, [source, weight], [result]))
        elif kind == "Concat" and len(shape) > 1:
            first = constant(np.array([0], "int64"))
            nodes.append(helper.make_node("Gather", [source, first], [f"{result}/part"], axis=len(shape) - 1))
            bounds = [constant(np.array([bound], "int64")) for bound in (1, 1 << 62, len(shape) - 1)]
            nodes.append(helper.make_node("Slice", [source, *bounds], [f"{result}/rest"]))
            parts = [f"{result}/rest", f"{result}/part"]
            nodes.append(helper.make_node(kind, parts, [result], axis=len(shape) - 1))
        elif kind == "Add":
            nodes.append(helper.make_node(kind, [source, constant(np.full(shape[-1:], 2, "float32"))], [result]))
            is_plain &= len(shape) > 1
        else:
            nodes.append(helper.make_node("Relu", [source], [result]))
        said: Any = draw.choice([None, shape, [-1, *shape[1:]], ["n", *shape[1:]], [9, *shape[1:]], [7]])
        if said is not None:
            values.append(helper.make_tensor_value_info(result, FLOAT, said))
    name = f"v{len({node.output[0] for node in nodes if '/' not in node.output[0]})}"
    values = [value for value in values if value.name != name]
    inputs = [helper.make_tensor_value_info("x", FLOAT, [batch, 4, 6])]
    output = helper.make_tensor_value_info(
        name, FLOAT, draw.choice([shape, [-1, *shape[1:]], [5, 5], [None] * len(shape)])
    )
    graph = helper.make_graph(nodes, "g", inputs, [output], weights, value_info=values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), batch, is_plain


def computed(proto: onnx.ModelProto, x: np.ndarray[Any, Any], batch: int | str) -> np.ndarray[Any, Any]:
    """Return what onnxruntime computes of the nodes and weights, without the shapes that the model states."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]
    bare.graph.output[0].type.tensor_type.ClearField("shape")
    bare.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, [batch, 4, 6]))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(bare.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: np.ndarray[Any, Any] = session.run(None, {"x": x})[0]
    return found


def check(seed: int, size: int | str) -> str:
    """Check one model, and return what became of it."""
    proto, batch, is_plain = random_model(seed)
    x = np.random.default_rng(seed).random((NEW, 4, 6), "float32")
    try:
        new = formats.from_onnx(proto).edit(dim={"x:0": size})
    except formats.EditError:
        with pytest.raises(Exception, match="ONNXRuntime"):
            computed(proto, x, size)
        assert not is_plain
        return "refused"
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    if not is_plain:
        return "not plain"
    rows = [computed(proto, x[start : start + batch], batch) for start in range(0, NEW, batch)]
    result = computed(found, x, size)
    np.testing.assert_allclose(result, np.concatenate(rows), rtol=1e-5)
    stated = [dim.dim_value for dim in found.graph.output[0].type.tensor_type.shape.dim]
    assert all(said in (0, real) for said, real in zip(stated, result.shape, strict=True))
    return "right"


@pytest.mark.parametrize("size", [NEW, "batch"])
def test_random_models(size: int | str) -> None:
    """A model that onnxruntime runs at a size is not refused, and its rows and stated sizes are right."""
    found = [check(seed, size) for seed in range(25)]
    assert found.count("right") > 12


@pytest.mark.outer
@pytest.mark.parametrize("size", [NEW, "batch"])
def test_many_random_models(size: int | str) -> None:
    """The same for many models."""
    found = [check(seed, size) for seed in range(1000, 1600)]
    assert found.count("right") > 300
