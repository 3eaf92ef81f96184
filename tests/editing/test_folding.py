"""Integers that nodes compute of constants are what onnxruntime computes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing.folding import FOLDED, constants_of

NODE = helper.make_node
ONE = numpy_helper.from_array(np.array([7], "int64"))
CASES: list[tuple[Any, list[Any]]] = [
    (NODE("Add", ["a", "b"], ["y"]), [[1, 2], 3]),
    (NODE("Cast", ["a"], ["y"], to=TensorProto.INT32), [[1, 2]]),
    (NODE("Concat", ["a", "b"], ["y"], axis=0), [[1], [2, 3]]),
    (NODE("ConstantOfShape", ["a"], ["y"], value=ONE), [[2]]),
    (NODE("Equal", ["a", "b"], ["y"]), [[1, 2], [1, 1]]),
    (NODE("Gather", ["a", "b"], ["y"]), [[1, 2, 3], -1]),
    (NODE("Gather", ["a", "b"], ["y"], axis=1), [[[1, 2], [3, 4]], [1]]),
    (NODE("Identity", ["a"], ["y"]), [[1]]),
    (NODE("Mul", ["a", "b"], ["y"]), [[1, 2], -1]),
    (NODE("Slice", ["a", "b", "c"], ["y"]), [[1, 2, 3], [-2], [1 << 62]]),
    (NODE("Slice", ["a", "b", "c", "d", "e"], ["y"]), [[1, 2, 3], [2], [-9], [0], [-1]]),
    (NODE("Slice", ["a", "b", "c"], ["y"]), [[[1, 2], [3, 4]], [0], [1]]),
    (NODE("Squeeze", ["a"], ["y"]), [[[1]]]),
    (NODE("Squeeze", ["a", "b"], ["y"]), [[[1]], [0]]),
    (NODE("Sub", ["a", "b"], ["y"]), [[1, 2], [3]]),
    (NODE("Unsqueeze", ["a", "b"], ["y"]), [[1, 2], [0, -1]]),
    (NODE("Where", ["c", "a", "b"], ["y"]), [[1, 2], [3, 4], [True, False]]),
]


def model_of(node: Any, arrays: list[Any]) -> Any:
    """Return a model of one node whose inputs are constants."""
    weights = [numpy_helper.from_array(np.array(array), name) for name, array in zip("abcde", arrays, strict=False)]
    kind = {"Cast": TensorProto.INT32, "Equal": TensorProto.BOOL}.get(node.op_type, TensorProto.INT64)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", kind, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(("node", "arrays"), CASES)
def test_each_operator(node: Any, arrays: list[Any]) -> None:
    """What is known of a value is what onnxruntime computes; a part of a matrix is not known."""
    proto = model_of(node, arrays)
    found = constants_of(formats.from_onnx(proto)).get("y")
    if node.op_type == "Slice" and np.array(arrays[0]).ndim > 1:
        assert found is None
        return
    [expected] = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {})
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), expected, strict=True)


def test_any_part_of_a_list_is_that_of_onnxruntime() -> None:
    """Whatever start, end and step a Slice has, also before and behind the list, the part is what onnxruntime gives."""
    rng = random.Random(1)
    names: dict[str, Any] = {}
    nodes = []
    ends = [*range(-7, 8), -(1 << 62), 1 << 62]
    for index in range(400):
        size, step = rng.randint(0, 4), rng.choice([-3, -2, -1, 1, 2, 3])
        arrays = [[*range(size)], [rng.choice(ends)], [rng.choice(ends)], [0], [step]]
        inputs = {f"{name}{index}": np.array(array, "int64") for name, array in zip("abcde", arrays, strict=True)}
        names |= inputs
        nodes.append(NODE("Slice", [*inputs], [f"y{index}"]))
    weights = [numpy_helper.from_array(array, name) for name, array in names.items()]
    outputs = [helper.make_tensor_value_info(node.output[0], TensorProto.INT64, None) for node in nodes]
    graph = helper.make_graph(nodes, "g", [], outputs, weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = constants_of(formats.from_onnx(proto))
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {})
    for node, array in zip(nodes, expected, strict=True):
        parts = [names[name].tolist() for name in node.input]
        assert found[node.output[0]].numpy().tolist() == array.tolist(), parts


def test_each_has_a_case() -> None:
    """No operator is left out."""
    assert {node.op_type for node, _ in CASES} == FOLDED.keys()


@pytest.mark.parametrize("arrays", [[[1, 2, 3], [4, 5]], [[1.5], [2.5]], [[1] * 2000, [1] * 2000], [["a"], ["b"]]])
def test_what_is_not_known(arrays: list[Any]) -> None:
    """A node that is not valid, other types, and what is too large for a shape are left alone."""
    node = NODE("Concat" if isinstance(arrays[0][0], str) else "Add", ["a", "b"], ["y"], axis=0)
    assert "y" not in constants_of(formats.from_onnx(model_of(node, arrays)))


def test_an_input_with_a_default_is_no_constant() -> None:
    """From IR version 4 on, an initializer that is an input may have another value."""
    proto = model_of(NODE("Add", ["a", "b"], ["y"]), [[1], [2]])
    proto.graph.input.append(helper.make_tensor_value_info("a", TensorProto.INT64, [1]))
    assert "y" not in constants_of(formats.from_onnx(proto))
