"""A part of a model computes what the whole one does, and has all that it needs; what cannot be reached is named."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing import extraction
from formats.editing.model_edits import extracted
from tests.editing.nested_models import nested

FLOAT = TensorProto.FLOAT


def part(proto: onnx.ModelProto, inputs: Any = None, outputs: Any = None) -> tuple[onnx.ModelProto, Any]:
    """Return a part of a model, and what was done."""
    before = formats.from_onnx(proto)
    new, done = extracted(before, inputs, outputs)
    assert before == formats.from_onnx(proto), "what was given is not changed"
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    return found, done


def run(proto: onnx.ModelProto, **inputs: Any) -> list[Any]:
    """Return what onnxruntime computes."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: list[Any] = session.run(None, inputs)
    return found


def chain() -> onnx.ModelProto:
    """Return a model of two branches, with a Split of which one output is cut."""
    nodes = [
        helper.make_node("Split", ["a"], ["left", "right"], axis=0, num_outputs=2, name="split"),
        helper.make_node("Add", ["left", "w"], ["sum"], name="add"),
        helper.make_node("Mul", ["sum", "right"], ["product"], name="mul"),
        helper.make_node("Sub", ["product", "b"], ["y"], name="sub"),
        helper.make_node("Neg", ["b"], ["z"], name="neg"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("a", FLOAT, [4]), helper.make_tensor_value_info("b", FLOAT, [2])],
        [helper.make_tensor_value_info("y", FLOAT, [2]), helper.make_tensor_value_info("z", FLOAT, [2])],
        [numpy_helper.from_array(np.array([1, 2], "float32"), "w"), numpy_helper.from_array(np.zeros(1), "spare")],
        value_info=[helper.make_tensor_value_info("sum", FLOAT, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


A, B = np.array([1, 2, 3, 4], "float32"), np.array([5, 6], "float32")


def names(values: Any) -> list[str]:
    """Return the names of values."""
    return [value.name for value in values]


def test_outputs_of_the_model() -> None:
    """An output has only the inputs, nodes and weights that it needs."""
    found, done = part(chain(), outputs=["z"])
    assert (names(found.graph.input), names(found.graph.node), names(found.graph.initializer)) == (["b"], ["neg"], [])
    np.testing.assert_array_equal(run(found, b=B)[0], -B)
    assert done.edits[0].detail == "1 of 5 nodes, 0 of 2 weights"


def test_inner_values() -> None:
    """Inner values become inputs and outputs with their types, and a weight can be an input or an output."""
    found, _ = part(chain(), ["sum", "right"], ["product"])
    assert (names(found.graph.input), names(found.graph.node)) == (["sum", "right"], ["mul"])
    np.testing.assert_array_equal(run(found, sum=A[:2], right=A[2:])[0], A[:2] * A[2:])
    found, _ = part(chain(), ["left", "w"], ["sum"])
    assert (names(found.graph.input), names(found.graph.initializer)) == (["left", "w"], [])
    found, _ = part(chain(), ["a"], ["w", "sum"])
    np.testing.assert_array_equal(run(found, a=A)[0], [1, 2])


def test_a_node_that_is_needed_for_another_output() -> None:
    """If one output of a node is an input, and another one is needed, the node keeps only the latter."""
    found, _ = part(chain(), ["left", "a"], ["product"])
    assert list(found.graph.node[0].output) == ["left_2", "right"]
    np.testing.assert_array_equal(run(found, left=B, a=A)[0], (B + np.array([1, 2])) * A[2:])


def test_types_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package onnx, new inputs and outputs have the types that operators say, and no dims."""
    monkeypatch.setitem(sys.modules, "onnx", None)
    model = formats.from_onnx(chain())
    model.graph.value_info = []
    found, done = extracted(model, ["sum", "right"], ["product"])
    values = [*found.graph.input, *found.graph.output]
    assert [1, 1, 1] == [each.type.tensor_type.elem_type for each in values]
    assert done.losses[0].detail.startswith("the dims of the input sum are not known; inferred shapes need the package")


def test_inputs_that_are_not_needed() -> None:
    """An input that nothing needs is left out, and told."""
    found, done = part(chain(), ["b", "a"], ["z"])
    assert names(found.graph.input) == ["b"]
    assert [edit.detail for edit in done.edits[1:]] == ["the input a is not needed, and left out"]


@pytest.mark.parametrize(
    "inputs,outputs,message",
    [
        (["sum"], ["y"], "y needs a, which is not one of the inputs: y <- Sub sub <- product <- Mul mul <- right <-"),
        (["a"], ["y"], "y needs b, which is not one of the inputs: y <- Sub sub <- b"),
        (["a"], ["yy"], "no value is called 'yy'; did you mean y"),
        (["summ"], ["y"], "no value is called 'summ'; did you mean sum"),
    ],
)  # fmt: skip
def test_what_cannot_be_reached(inputs: list[str], outputs: list[str], message: str) -> None:
    """An output that needs more than the inputs names the path, and an unknown name the nearest."""
    with pytest.raises(formats.EditError) as caught:
        part(chain(), inputs, outputs)
    assert message in str(caught.value)


def test_a_long_path_is_cut() -> None:
    """A path through many nodes shows its ends."""
    nodes = [helper.make_node("Neg", [f"v{index}"], [f"v{index + 1}"]) for index in range(50)]
    values = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in ("v0", "v50", "other")]
    proto = helper.make_model(helper.make_graph(nodes, "g", [values[0], values[2]], [values[1]]))
    with pytest.raises(formats.EditError) as caught:
        part(proto, ["other"], ["v50"])
    assert " <- (43 more steps) <- " in str(caught.value)
    assert len(str(caught.value)) < 300


def test_captures_and_functions_come_along() -> None:
    """What subgraphs take from outside is needed, at any depth, and so are functions that are called."""
    proto = nested()
    found, _ = part(proto, outputs=["chosen"])
    assert (names(found.graph.input), names(found.graph.initializer)) == (["x", "first", "second"], ["w"])
    assert not found.functions
    assert [entry.domain for entry in found.opset_import] == [""]
    assert found.graph.quantization_annotation == proto.graph.quantization_annotation
    x = np.array([1, 2], "float32")
    flags = {"first": np.array(True), "second": np.array(True)}
    np.testing.assert_array_equal(run(found, x=x, **flags)[0], x + 5)
    found, _ = part(proto, ["chosen"], ["y"])
    assert names(found.functions) == ["Twice"]
    np.testing.assert_array_equal(run(found, chosen=x)[0], 2 * x)
    found, _ = part(proto, ["x"], ["w"])
    assert names(found.graph.initializer) == ["w"]
    with pytest.raises(formats.EditError, match="chosen needs second, which is not one of the inputs: chosen <- If"):
        part(proto, ["x", "first"], ["chosen"])
    with pytest.raises(formats.EditError, match=r"middle is a value in graph\.node\[0\]"):
        part(proto, ["middle"], ["y"])


def call(name: str, *values: str) -> onnx.NodeProto:
    """Return a call of a function."""
    return helper.make_node(name, [values[0]], [values[1]], domain="own")


def test_functions_that_functions_call() -> None:
    """A function that only another function calls is kept, and one that nothing calls is not."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = [
        helper.make_function("own", "Outer", ["a"], ["b"], [call("Inner", "a", "b")], imports),
        helper.make_function("own", "Inner", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports[:1]),
        helper.make_function("own", "Spare", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], imports[:1]),
    ]  # fmt: skip
    values = [helper.make_tensor_value_info(name, FLOAT, [1]) for name in "xy"]
    graph = helper.make_graph([call("Outer", "x", "y")], "g", values[:1], values[1:])
    found, _ = part(helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8), outputs=["y"])
    assert names(found.functions) == ["Outer", "Inner"]


def test_annotations_bring_their_tensors() -> None:
    """A quantisation annotation of a value that stays brings its parameters, and others go."""
    proto = chain()
    for name in ("sum", "z"):
        annotation = proto.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="spare")
    found, _ = part(proto, ["a"], ["product"])
    assert [annotation.tensor_name for annotation in found.graph.quantization_annotation] == ["sum"]
    assert names(found.graph.initializer) == ["w", "spare"]


def test_types_that_are_not_known() -> None:
    """A type is inferred if the model does not state it; one that nobody knows is told."""
    proto = chain()
    found, done = part(proto, ["product", "b"], ["y"])
    assert found.graph.input[0].type.tensor_type.elem_type == FLOAT
    assert not done.losses
    proto.graph.node[2].op_type, proto.graph.node[2].domain = "Unknown", "own"
    proto.opset_import.add(domain="own", version=1)
    _, done = extracted(formats.from_onnx(proto), ["product", "b"], ["y"])
    assert [loss.detail for loss in done.losses] == ["the type of the input product is not known"]
    assert done.losses[0].matters


def test_inputs_with_defaults_and_training() -> None:
    """A weight that is also an input, as before IR version 4, stays both; information for training goes."""
    proto = chain()
    proto.ir_version = 3
    proto.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [2]))
    proto.training_info.add()
    new, done = extracted(formats.from_onnx(proto), None, ["product"])
    assert [value.name for value in new.graph.input] == ["a", "w"]
    assert new.graph.initializer[0].name == "w"
    assert [loss.kind for loss in done.losses] == ["training_info"]
    assert not new.training_info


def test_a_part_has_messages_of_its_own() -> None:
    """Whatever is changed in the part, the model that was given stays as it is."""
    given = formats.from_onnx(chain())
    new, _ = extracted(given, ["left", "a"], ["sum", "product"])
    for value in (*new.graph.input, *new.graph.output, *new.graph.value_info):
        value.name = "changed"
        value.type.tensor_type.shape.dim[0].dim_value = 7
    for node in new.graph.node:
        node.input[0] = "changed"
    new.graph.initializer[0].dims[0] = 7
    new.opset_import[0].version = 7
    assert given == formats.from_onnx(chain())
    assert new.graph.output[0] is not new.graph.output[1]


def test_types_of_few_values_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the weights, only those that become inputs or outputs are described as values."""
    seen: list[Any] = []
    old = extraction.type_of_tensor
    monkeypatch.setattr(extraction, "type_of_tensor", lambda tensor: seen.append(tensor.name) or old(tensor))
    part(chain(), ["a"], ["w", "sum"])
    assert {*seen} == {"w"}
    seen.clear()
    part(chain(), outputs=["z"])
    assert not seen


def test_a_stale_shape_is_no_new_interface() -> None:
    """A stated shape that contradicts the nodes does not become that of a new input or output: it is told."""
    proto = chain()
    proto.graph.value_info[0].CopyFrom(helper.make_tensor_value_info("sum", FLOAT, [7, 3]))
    for inputs, outputs in ((["sum", "a"], ["product"]), (["a"], ["sum"])):
        new, done = extracted(formats.from_onnx(proto), inputs, outputs)
        assert new.graph is not None
        [value] = [value for value in (*new.graph.input, *new.graph.output) if value.name == "sum"]
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [2]
        assert [loss.detail for loss in done.losses] == ["the stated shape of sum was wrong, and is inferred again"]


def test_types_behind_operators_of_onnxruntime() -> None:
    """An input that an operator of com.microsoft makes in the whole model has its type, so onnxruntime loads it."""
    nodes = [
        helper.make_node("Gelu", ["x"], ["a"], domain="com.microsoft"),
        helper.make_node("FusedMatMul", ["a", "w"], ["b"], domain="com.microsoft"),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, FLOAT, [2, 4]) for name in "xy"]
    weight = numpy_helper.from_array(np.eye(4, dtype="float32"), "w")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=8)
    new, done = extracted(formats.from_onnx(proto), ["b"], ["y"])
    assert ["the dims of the input b are not known"] == [loss.detail for loss in done.losses]
    feed = np.array([[-1, 2, 3, 4]], "float32")
    np.testing.assert_array_equal(np.maximum(feed, 0), run(formats.to_onnx(new), b=feed)[0])
