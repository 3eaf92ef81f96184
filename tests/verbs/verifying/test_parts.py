"""Inputs, outputs, constants and functions are declared as ONNX requires."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from formats.verbs.verify import verify

TEXT = """<ir_version: 8, opset_import: ["" : 17, "d" : 1]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = d.f(x) y = Add(a, w) }
<opset_import: ["" : 17], domain: "d"> f (p) => (q) { q = Neg(p) }"""


def tensor_type(model: onnx.ModelProto) -> onnx.TypeProto.Tensor:
    """Return the type of the output."""
    return model.graph.output[0].type.tensor_type


Change = Callable[[onnx.ModelProto], object]
CASES: dict[str, tuple[Change, str, str]] = {
    "no name of graph": (lambda m: m.graph.ClearField("name"), "graph", "graph"),
    "no type": (lambda m: m.graph.input[0].ClearField("type"), "value", "graph.input[0]"),
    "empty type": (lambda m: m.graph.output[0].type.Clear(), "value", "graph.output[0].type"),
    "no elem_type": (lambda m: tensor_type(m).ClearField("elem_type"), "value", "graph.output[0].type.tensor_type"),
    "no shape": (lambda m: tensor_type(m).ClearField("shape"), "value", "graph.output[0].type.tensor_type"),
    "no name of constant": (lambda m: m.graph.initializer[0].ClearField("name"), "graph", "graph.initializer[0]"),
    "constant no input": (lambda m: setattr(m, "ir_version", 3), "graph", "graph.initializer[0]"),
    "two kinds of data": (lambda m: m.graph.initializer[0].int64_data.append(1), "tensor", "graph.initializer[0]"),
    "no location": (lambda m: setattr(m.graph.initializer[0], "data_location", 1), "", ""),
    "no name of function": (lambda m: m.functions[0].ClearField("name"), "graph", "functions[0]"),
    "input twice": (lambda m: m.functions[0].input.append("p"), "graph", "functions[0]"),
    "sparse without values": (
        lambda m: m.graph.sparse_initializer.add(dims=[2]), "tensor", "graph.sparse_initializer[0]"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_faults_of_declarations_are_found(name: str, tmp_path: Path) -> None:
    """Whatever is missing or there twice is found at its place; `onnx.checker` refuses the same models."""
    change, kind, where = CASES[name]
    model = onnx.parser.parse_model(TEXT)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    before = verify(path)
    assert ((), ()) == (before.errors, before.notes)
    change(model)
    path.write_bytes(model.SerializeToString())
    result = verify(path)
    findings = [(finding.kind, finding.where) for finding in (*result.errors, *result.notes)]
    assert findings
    assert not kind or (kind, where) in findings
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(path.read_bytes())
