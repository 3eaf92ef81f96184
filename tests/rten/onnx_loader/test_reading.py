"""The specs of the operators describe the ONNX loader of the runtime correctly."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from formats.ir.model import Graph, Tensor
from formats.onnxruntime import MICROSOFT
from formats.rten.spec import ANY
from formats.rten.target import TARGETS
from tests.rten.rten_operators import ALL_SPECS
from tests.runtime.runner import RELEASES, RunnerError

KNOWN = {release: TARGETS[release]._replace(is_onnx=True) for release in RELEASES}
FEW = 3  # activations of one direction, at most
SPECS = [spec for spec in ALL_SPECS if spec.domain in ("", MICROSOFT) and spec.name != "Constant"]
# Values for attributes whose operator needs special ones, or that allow a choice.
BODY = onnx.parser.parse_graph("g (int64 i, bool c) => (bool c_out) { c_out = Identity(c) }")
BRANCH = onnx.parser.parse_graph("g () => (float[1] t) { t = Constant<value_floats=[1.0]>() }")


def value_of(field: Any) -> Any:
    """Return a value that an attribute may have."""
    if field.choices:
        return next(iter(field.choices))
    if field.kind is Graph:
        return BODY if field.name == "body" else BRANCH
    if field.kind is Tensor:
        return onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [0.0])
    values = {float: 0.5, list: [1, 1], str: "a->a"}
    return values.get(field.kind, 1)


@pytest.fixture
def stops(runtimes, tmp_path):
    """Load a model of one node in a release, and return the loader's complaint, or an empty text."""

    def load(release, spec, inputs, attributes):
        names = [f"x{number}" for number in range(inputs)]
        node = onnx.helper.make_node(spec.name, names, ["y"], domain=spec.domain, **attributes)
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in names]
        result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UNDEFINED, None)
        graph = onnx.helper.make_graph([node], "g", values, [result])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 24)])
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        try:
            runtimes[release].run(path, {}, optimize=False)
        except RunnerError as error:
            return error.message if error.stage == "load" else ""
        return ""

    return load


@pytest.mark.parametrize("release", RELEASES)
def test_operators(release, stops):
    """Among the known operators, the loader has exactly those that the specs list."""
    if release not in KNOWN:
        pytest.skip(f"needs a release among {[*KNOWN]}, not RTen {release}")
    found, expected = set(), set()
    for spec in SPECS:
        row = spec.row_for(KNOWN[release])
        required = {field.onnx_name: value_of(field) for field in (row.fields if row else ()) if field.required}
        if row is not None:
            expected.add((spec.domain, spec.name))
        if "not supported" not in stops(release, spec, 1, required):
            found.add((spec.domain, spec.name))
    assert expected == found


@pytest.mark.parametrize(
    "spec",
    [spec for spec in SPECS if spec.to_rten.row or spec.onnx_loader.row],
    ids=lambda spec: f"{spec.domain}{spec.name}",
)
def test_attributes(spec, stops):
    """The loader accepts and requires exactly the attributes that the spec lists."""
    release = max(RELEASES)
    row = spec.row_for(KNOWN[release])
    if row is None:
        pytest.skip(f"needs a release with the operator, not RTen {release}")
    inputs = 1 if row.inputs != 0 else 0
    required = {field.onnx_name: value_of(field) for field in row.fields if field.required}
    assert "" == stops(release, spec, inputs, required)
    for field in row.fields:
        if not field.required:
            assert "" == stops(release, spec, inputs, {**required, field.onnx_name: value_of(field)}), field.name
    for name, values in spec.onnx_loader.takes.items():
        for value in values if values is not ANY else [0]:
            if value == ():  # empty, so its type is unknown
                continue
            both = {"direction": "bidirectional"} if name == "activations" and len(value) > FEW else {}
            assert "" == stops(release, spec, inputs, {**required, **both, name: value}), (name, value)
    for name, place in spec.onnx_loader.inputs.items():
        value = 1 if name in ("k", "axis") else 0.5 if name in ("min", "max", "value", "ratio") else [1, 1]
        assert "" == stops(release, spec, place, {**required, name: value}), name
    if not any(field.kind is Graph for field in row.fields):  # attributes that it does not read
        assert "unsupported" in stops(release, spec, inputs, {**required, "no_such_attribute": 1})
    if spec.to_rten.row is not None:
        for name, values in spec.to_rten.row.neutral.items():
            taken = spec.onnx_loader.takes.get(name)
            for value in () if values is ANY or taken is ANY else set(values) - set(taken or ()):
                assert "" != stops(release, spec, inputs, {**required, name: value}), (name, value)
