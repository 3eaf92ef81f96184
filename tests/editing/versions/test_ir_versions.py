"""Models in other IR versions: what is newer is dropped and told, or named and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing.versions.ir_versions import with_ir_version
from formats.errors import UnsupportedError


def model_of(kind: int = TensorProto.FLOAT, ir_version: int = 10, **more: Any) -> formats.Model:
    """Return a model that adds a weight of a type, cast to float, to its input."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    weight = helper.make_tensor("w", kind, [2], [1, 2])
    nodes = [helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "v"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [weight])
    sets = [helper.make_opsetid("", 13)]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=ir_version, **more)
    return formats.loads(proto.SerializeToString(), format="onnx")


def run(model: formats.Model) -> Any:
    """Return the output of onnxruntime."""
    session = onnxruntime.InferenceSession(formats.dumps(model, "onnx"))
    return session.run(None, {"x": np.array([1, 2], "float32")})[0]


@pytest.mark.parametrize("version", [3, 4, 7, 13])
def test_the_result_is_the_same(version: int) -> None:
    """A model in another IR version passes the checker and computes the same; the given one is not changed."""
    model = model_of()
    new, done = with_ir_version(model, version)
    onnx.checker.check_model(formats.dumps(new, "onnx"), full_check=True)
    assert (new.ir_version, model.ir_version) == (version, 10)
    assert done.edits[0].detail == f"IR version 10 -> {version}"
    np.testing.assert_array_equal(run(new), run(model))


def test_the_oldest_versions_have_weights_as_inputs() -> None:
    """Before IR version 4, an initializer is an input, too; in a subgraph this is not possible."""
    new, done = with_ir_version(model_of(), 3)
    assert [value.name for value in new.graph.input] == ["x", "w"]
    assert "1 initializer became inputs as well" in done.edits[1].detail
    again, done = with_ir_version(new, 4)
    assert [value.name for value in again.graph.input] == ["x", "w"]
    branch = helper.make_graph(
        [helper.make_node("Identity", ["k"], ["o"])],
        "b",
        [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.ones(1, "float32"), "k")],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    graph = helper.make_graph([node], "g", [c], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    model = formats.loads(helper.make_model(graph, ir_version=8).SerializeToString(), format="onnx")
    with pytest.raises(UnsupportedError, match="a subgraph has the initializer 'k'"):
        with_ir_version(model, 3)


def test_newer_types_are_named() -> None:
    """A type that the version lacks is an error with its place."""
    with pytest.raises(UnsupportedError, match=r"graph\.initializer\[0\].*FLOAT8E4M3FN is new in ir_version 9"):
        with_ir_version(model_of(TensorProto.FLOAT8E4M3FN), 8)
    assert with_ir_version(model_of(TensorProto.FLOAT8E4M3FN), 9)[0].ir_version == 9


def test_newer_fields_are_told_or_named() -> None:
    """Metadata of nodes is dropped and counted, since a model computes the same without; functions are an error."""
    model = model_of()
    for node in model.graph.node:
        node.metadata_props.append(formats.StringStringEntry("line", "1"))
    model.metadata_props.append(formats.StringStringEntry("author", "me"))
    new, done = with_ir_version(model, 9)
    assert not any(node.metadata_props for node in new.graph.node)
    assert all(node.metadata_props for node in model.graph.node)
    assert [entry.key for entry in new.metadata_props] == ["author"]
    assert [(loss.kind, loss.matters) for loss in done.losses] == [("metadata_props", False)]
    assert "2 parts lost them" in done.losses[0].detail
    sets = [helper.make_opsetid("", 13)]
    body = [helper.make_node("Identity", ["p"], ["q"])]
    model = model_of(functions=[helper.make_function("me", "F", ["p"], ["q"], body, sets)])
    with pytest.raises(UnsupportedError, match=r"ModelProto\.functions is new in ir_version 8"):
        with_ir_version(model, 7)


def test_overloads_get_names() -> None:
    """Before IR version 10, functions that differ by their overload get names of their own."""
    nodes = [
        helper.make_node("F", ["x"], ["h"], domain="me", overload="a"),
        helper.make_node("F", ["h"], ["y"], domain="me", overload="b"),
    ]
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("me", 1)]
    functions = [
        helper.make_function(
            "me", "F", ["p"], ["q"], [helper.make_node(name, ["p"], ["q"])], sets[:1], overload=overload
        )
        for name, overload in (("Abs", "a"), ("Neg", "b"))
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=sets, ir_version=10, functions=functions)
    new, done = with_ir_version(formats.from_onnx(proto), 8)
    assert [edit.detail for edit in done.edits][1:] == ["2 functions got a name in place of an overload"]
    old = formats.to_onnx(new)
    onnx.checker.check_model(old)
    session = onnxruntime.InferenceSession(old.SerializeToString())
    assert session.run(None, {"x": np.array([-1, 2], "float32")})[0].tolist() == [-1, -2]


def test_the_same_version_is_the_same_model() -> None:
    """A model that has the version already is returned as it is."""
    model = model_of()
    assert with_ir_version(model, 10)[0] is model
