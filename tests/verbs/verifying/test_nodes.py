"""Nodes that ONNX's operator sets do not allow are found, each with its place, and no valid model has any."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from formats.onnxruntime import BEFORE_ONNX
from formats.verbs.verify import Verification, verify
from tests.corpus import backend_cases, backend_files
from tests.verbs.mutated_models import compared

X, Y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")


def found(folder: Path, *nodes: onnx.NodeProto, version: int = 17, **options: object) -> Verification:
    """Return what `verify` says of a model with these nodes."""
    graph = helper.make_graph(nodes, "g", [X], [Y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8, **options)
    path = folder / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return verify(path)


NODE = helper.make_node


def test_attributes_without_a_schema(tmp_path: Path) -> None:
    """Attributes of operators in other domains must be consistent in themselves."""
    node = NODE("X", ["x"], ["y"], domain="d", a=1)
    node.attribute[0].type = onnx.AttributeProto.FLOAT
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [X], [Y]), opset_imports=imports, ir_version=8)
    path = tmp_path / "m.onnx"
    for change, detail in ((None, "its value is in i"), ("f", "2 values, in f and i"), ("type", "has no type")):
        if change == "f":
            model.graph.node[0].attribute[0].f = 1.0
        elif change == "type":
            model.graph.node[0].attribute[0].ClearField("f")
            model.graph.node[0].attribute[0].ClearField("type")
        path.write_bytes(model.SerializeToString())
        (error,) = verify(path).errors
        assert ("attribute", 'graph.node[0].attribute["a"]') == (error.kind, error.where)
        assert detail in error.detail


def test_operator_sets_newer_than_the_table_are_noted(tmp_path: Path) -> None:
    """The operators of a set that is not known yet are not checked, and a note says so."""
    result = found(tmp_path, NODE("Frobnicate", ["x"], ["y"]), version=99)
    assert result.ok
    (note,) = result.notes
    assert ("version", "opset_import[0]") == (note.kind, note.where)
    assert "were not checked" in note.detail


def test_functions_of_the_model_are_operators(tmp_path: Path) -> None:
    """A node that calls a function of the model needs no operator set that has it."""
    body = [NODE("Relu", ["a"], ["b"])]
    opsets = [helper.make_opsetid("", 17)]
    function = helper.make_function("", "Frobnicate", ["a"], ["b"], body, opsets)
    function.domain = "ai.onnx"
    result = found(tmp_path, NODE("Frobnicate", ["x"], ["y"]), functions=[function])
    assert result.ok, result.errors


@pytest.mark.outer
def test_valid_models_of_onnx_have_no_findings(tmp_path: Path) -> None:
    """Neither the models of onnx's operator tests nor those of its backend tests have an error or a note."""
    path = tmp_path / "m.onnx"
    for case in backend_cases():
        path.write_bytes(case.model)
        result = verify(path)
        assert ((), ()) == (result.errors, result.notes), case.id
    for name, file in backend_files():
        assert verify(file).ok, name


@pytest.mark.outer
@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.outer)])
def test_what_the_checker_of_onnx_refuses_is_found(count: int, tmp_path: Path) -> None:
    """Of valid models with one change, `verify` has a finding for each that `onnx.checker` refuses."""
    refused = 0
    for rule, data, reason, result in compared(count, 0, tmp_path):
        refused += reason is not None
        assert reason is None or result.errors or result.notes, (rule, reason, data)
    assert refused > count / 3


@pytest.mark.parametrize("operator", BEFORE_ONNX)
def test_what_onnxruntime_adds_to_the_domain_of_onnx_is_a_note(operator: str, tmp_path: Path) -> None:
    """An operator that only onnxruntime has, and which it runs, is told and is no error."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in ("x", "s", "y")]
    graph = helper.make_graph([NODE(operator, ["x", "s"], ["y"], axis=-1)], "g", values[:2], values[2:])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 14)])
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    onnx.save(model, tmp_path / "m.onnx")
    told = verify(tmp_path / "m.onnx")
    assert (True, ["operator"]) == (told.ok, [note.kind for note in told.notes])
