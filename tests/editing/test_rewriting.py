"""Patterns of nodes are found and replaced, and what is left computes what it should."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from tests.editing import surgeries
from tests.editing.nested_models import nested, small
from tests.editing.test_exported import run

HEADER = '<ir_version: 10, opset_import: ["" : 24]>'
SILU = "g (float[2,4] x) => (float[2,4] y) { s = Sigmoid (x) y = Mul (s, x) }"
CHANGED = {  # what computes the same as the models of surgeries that change what is computed
    "resize": surgeries.MODELS["resize"].replace("nearest", "linear"),
    "clip": "g (float[2,4] x) => (float[2,4] y) <float l = {0}, float h = {6}> { a = Clip (x, l, h) y = Neg (a) }",
}


def parsed(text: str, header: str = HEADER) -> onnx.ModelProto:
    """Return a model in the text format of ONNX."""
    return onnx.parser.parse_model(header + text)


def model_of(text: str, header: str = HEADER) -> formats.Model:
    """Return our model of such a text."""
    return formats.from_onnx(parsed(text, header))


def operators(model: formats.Model) -> list[str]:
    """Return the operators of the main graph."""
    return [node.op_type or "" for node in model.graph.node]


def computed(proto: onnx.ModelProto, path: Path) -> list[Any]:
    """Return what onnxruntime computes of numbers from -8 to 8, and of small indices."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for value in proto.graph.input:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        is_float = value.type.tensor_type.elem_type == 1
        inputs[value.name] = (
            rng.uniform(-8, 8, dims).astype("float32") if is_float else rng.integers(0, 3, dims, "int32")
        )
    onnx.checker.check_model(proto, full_check="com.microsoft" not in {entry.domain for entry in proto.opset_import})
    onnx.save(proto, path / "m.onnx")
    return run(path / "m.onnx", inputs)


@pytest.mark.parametrize("name", surgeries.MODELS)
def test_ten_surgeries(name: str, tmp_path: Path) -> None:
    """The result of each change computes in onnxruntime what it should."""
    before = model_of(surgeries.MODELS[name])
    after = formats.to_onnx(getattr(surgeries, name.replace(" ", "_"))(before))
    assert before == model_of(surgeries.MODELS[name])
    assert [node.op_type for node in after.graph.node] != operators(before) or name == "resize"
    wanted = computed(parsed(CHANGED.get(name, surgeries.MODELS[name])), tmp_path)
    for mine, theirs in zip(computed(after, tmp_path), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)


def lines_of(module: ModuleType, name: str) -> int:
    """Return the number of lines of a change, without its first one and its docstring."""
    function = getattr(module, name.replace(" ", "_"))
    return sum(bool(line.strip()) for line in inspect.getsource(function).splitlines()) - 2


@pytest.mark.outer
@pytest.mark.parametrize("name", surgeries.MODELS)
def test_ten_surgeries_with_onnx_ir(name: str, tmp_path: Path) -> None:
    """The rewriter of onnx-ir takes as many lines or more for the same numbers."""
    pytest.importorskip("onnxscript")
    import onnx_ir

    from tests.editing import surgeries_in_onnx_ir

    assert lines_of(surgeries, name) <= lines_of(surgeries_in_onnx_ir, name)
    proto = parsed(surgeries.MODELS[name])
    wanted = formats.to_onnx(getattr(surgeries, name.replace(" ", "_"))(formats.from_onnx(proto)))
    changed = getattr(surgeries_in_onnx_ir, name.replace(" ", "_"))(onnx_ir.from_proto(proto))
    found = computed(onnx_ir.to_proto(changed), tmp_path)
    for one, other in zip(found, computed(wanted, tmp_path), strict=True):
        np.testing.assert_allclose(one, other, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,4] x) => (float[2,4] y, float[2,4] s) { s = Sigmoid (x) y = Mul (s, x) }",
        "g (float[2,4] x) => (float[2,4] y) { s = Sigmoid (x) t = Mul (s, x) y = Add (s, t) }",
        """g (float[2,4] x, bool c) => (float[2,4] y) { s = Sigmoid (x) t = Mul (s, x)
            y = If (c) <then_branch = a () => (float[2,4] u) { u = Add (t, s) },
                        else_branch = b () => (float[2,4] v) { v = Neg (t) }> }""",
    ],
    ids=["an output", "a node", "a subgraph"],
)
def test_a_value_that_others_need(text: str) -> None:
    """If something else needs a value inside a pattern, the nodes stay."""
    model = model_of(text)
    assert not model.find(lambda op, x: op.Mul(x, op.Sigmoid(x)))
    assert surgeries.silu(model) == model


def test_names_of_outputs_stay(tmp_path: Path) -> None:
    """Where nodes go, outputs keep their names, and an input that becomes an output needs an Identity."""
    model = model_of("g (float[2] x) => (float[2] y, float[2] z) { a = Neg (x) y = Identity (a) z = Identity (x) }")
    new = model.rewrite(lambda op, x: op.Identity(x), lambda op, x: x)
    assert operators(new) == ["Neg", "Identity"]
    assert [value.name for value in new.graph.output] == ["y", "z"]
    np.testing.assert_array_equal(*(computed(formats.to_onnx(each), tmp_path) for each in (new, model)))


def test_subgraphs_and_functions() -> None:
    """Patterns are found in subgraphs and functions, where constants are nodes; new names meet no other name."""
    model = formats.from_onnx(nested())
    doubled = model.rewrite(lambda op, x: op.Add(x, x), lambda op, x: op.Mul(x, 2.0))
    assert [node.op_type for node in doubled.functions[0].node] == ["Constant", "Mul"]
    assert len(model.find(lambda op, x: op.Neg(x))) == 1
    new = model.rewrite(lambda op, x, y: op.Sub(x, y), lambda op, x, y: op.Add(x, op.Neg(y)))
    names = [name for _, node in formats.ir.walk.nodes(new) for name in node.output]
    assert len(names) == len({*names}) == 9


def test_constants_around_are_constants() -> None:
    """A pattern in a subgraph finds constants of the graph around, but not an input that has a default."""
    text = """g (float[2] x, bool c {given}) => (float[2] y) <float[1] k = {{3}}> {{
        y = If (c) <then_branch = a () => (float[2] u) {{ u = Mul (x, k) }},
                    else_branch = b () => (float[2] v) {{ v = Mul (k, x) }}> }}"""
    assert len(model_of(text.format(given="")).find(lambda op, x: op.Mul(x, 3))) == 2
    assert not model_of(text.format(given=", float[1] k")).find(lambda op, x: op.Mul(x, 3))


@pytest.mark.parametrize(
    "want,kind,stored,is_found",
    [
        (0.1, "float16", 0.1, True),
        (0.1, "double", 0.1000001, True),
        (0.1, "float", 0.1001, False),
        (2147483647, "int64", 2147483648, False),
        (0.5, "int64", 0, False),
        (1, "bool", 1, True),
        ([1.0], "float", 1, False),
        (1, "int4", 1, True),
        (17, "int4", 1, False),
        (1.5, "uint2", 1, False),
        (1e300, "bfloat16", 1, False),
        ("a", "float", 1, False),
        (np.array("a"), "float", 1, False),
        (np.array("a"), "float8e4m3fn", 1, False),
        (1 << 70, "int4", 1, False),
        (1, "complex64", 1, True),
        (1j, "float", 1, False),
    ],
)
def test_constants_in_patterns(want: Any, kind: str, stored: float, is_found: bool) -> None:
    """Floats are compared in the model's type, nearly, all else exactly, whatever both are; a list has one dim."""
    tensor = onnx.helper.make_tensor("k", onnx.TensorProto.DataType.Value(kind.upper()), [], [stored])
    model = model_of("g (float x) => (float y) { y = Where (x, k) }")
    model.graph.initializer.append(
        formats.from_onnx(onnx.helper.make_model(onnx.helper.make_graph([], "", [], [], [tensor]))).graph.initializer[0]
    )
    assert bool(model.find(lambda op, x: op.Where(x, want))) == is_found


VALUES = ["a", 1, 1.5, ["a"], [1], [1.5]]


def _relu(want: Any, op: Any, x: Any) -> Any:
    return op.Relu(x, a=want)


@pytest.mark.parametrize("given", VALUES)
def test_attributes_of_any_kind(given: Any) -> None:
    """An attribute of another kind than that of the pattern is no match, and no error."""
    model = model_of("g (float x) => (float y) { y = Relu (x) }")
    model.graph.node[0].attribute = [formats.make_attribute("a", given)]
    assert [given] == [want for want in VALUES if model.find(partial(_relu, want))]


def test_attributes_and_inputs_that_are_left_out() -> None:
    """`None` is an input or attribute that is left out; a variable with this default is also one that may be."""
    model = model_of("g (float[4] x) => (float[4] y) { a = Clip (x, , k) b = Clip (a) y = Softmax <axis = 0> (b) }")
    assert len(model.find(lambda op, x, high: op.Clip(x, None, high))) == 1
    found = model.find(lambda op, x, low=None, high=None: op.Clip(x, low, high))
    assert [match.values["high"] and match.values["high"].name for match in found] == ["k", None]
    assert not model.find(lambda op, x: op.Softmax(x, axis=None))
    (match,) = model.find(lambda op, x, axis: op.Softmax(x, axis=axis))
    assert match.values["axis"] == 0 and match.nodes[0] is model.graph.node[2]


def test_an_attribute_of_the_caller() -> None:
    """An attribute whose value comes from the caller of a function is not known, so no pattern that names it fits."""
    text = """g (float[4] x) => (float[4] y) { y = m.F <ax = 0> (x) }
        <domain: "m", opset_import: ["" : 24]> F <ax> (x) => (y) { y = Softmax <axis: int = @ax> (x) }"""
    model = model_of(text, '<ir_version: 10, opset_import: ["" : 24, "m" : 1]>')
    assert len(model.find(lambda op, x: op.Softmax(x))) == 1
    for pattern in (
        lambda op, x, axis: op.Softmax(x, axis=axis),
        lambda op, x, axis=None: op.Softmax(x, axis=axis),
        lambda op, x: op.Softmax(x, axis=None),
    ):
        assert not model.find(pattern)
        assert model.rewrite(pattern, lambda op, x: op.LogSoftmax(x)) == model


@pytest.mark.parametrize(
    "text,is_found",
    [
        ("g (float[2] x) => (float[2] y) { a = Relu (x) y = Add (a, a) }", False),
        ("g (float[2] x) => (float[2] y) { a = Relu (x) b = Relu (x) y = Add (a, b) }", True),
    ],
)
def test_two_nodes_of_a_pattern_are_two_nodes(text: str, is_found: bool, tmp_path: Path) -> None:
    """Two equal nodes in a pattern are two nodes of the model; a node that the pattern uses twice is one."""
    model = model_of(text)
    assert [len({*map(id, match.nodes)}) for match in model.find(lambda op, x: op.Add(op.Relu(x), op.Relu(x)))] == (
        [3] if is_found else []
    )
    new = model.rewrite(lambda op, x: op.Add(op.Relu(x), op.Relu(x)), lambda op, x: op.Mul(op.Relu(x), 2.0))
    assert operators(new) == (["Relu", "Mul"] if is_found else ["Relu", "Add"])
    np.testing.assert_array_equal(*(computed(formats.to_onnx(each), tmp_path) for each in (new, model)))

    def twice(op: Any, x: Any) -> Any:
        node = op.Relu(x)
        return op.Add(node, node)

    assert bool(model.find(twice)) != is_found


def test_values_have_producers_and_users() -> None:
    """A replacement sees who makes and uses a value, its elements and its type; with `None`, the nodes stay."""
    model = model_of(
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Relu (x) b = Mul (a, w) y = Add (a, b) }"
    )

    def seen(op: Any, a: Any, w: Any) -> None:
        assert a.producer.op_type == "Relu" and [node.op_type for node in a.users] == ["Mul", "Add"]
        assert w.tensor.numpy().tolist() == [1, 2] and w.type.tensor_type.shape.dim[0].dim_value == 2
        assert a.tensor is None and op.nodes == (model.graph.node[1],)

    assert model.rewrite(lambda op, a, w: op.Mul(a, w), seen) == model


@pytest.mark.parametrize("before,after", [("float[2] y", 7), ("float y", 7)])
def test_types_follow(before: str, after: int, tmp_path: Path) -> None:
    """What the model states of values behind a change is inferred again, of outputs, too."""
    model = model_of(
        f"g (float[2] x) => ({before}) <float[2] a, float[2] b> {{ c = Neg (x) a = Neg (c) b = Abs (a) y = Neg (b) }}"
    )
    new = model.rewrite(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Cast(op.Unsqueeze(x, [0]), to=after))
    found = {value.name: value.type.tensor_type for value in (*new.graph.value_info, *new.graph.output)}
    assert {name: (kind.elem_type, len(kind.shape.dim)) for name, kind in found.items()} == dict.fromkeys(
        "aby", (after, 2)
    )
    computed(formats.to_onnx(new), tmp_path)


def test_types_without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package onnx, what the model states of inner values behind a change is dropped."""

    def missing(*_: object, **__: object) -> None:
        raise formats.MissingPackageError("onnx", "x")

    monkeypatch.setattr("formats.editing.inference.inferred", missing)
    model = model_of("g (float[2] x) => (float[2] y) <float[2] a, float[2] b> { a = Neg (x) b = Abs (a) y = Relu (b) }")
    new = model.rewrite(lambda op, x: op.Abs(x), lambda op, x: op.Sqrt(op.Mul(x, x)))
    assert [value.name for value in new.graph.value_info] == ["a"]
    assert new.graph.output == model.graph.output


@pytest.mark.parametrize(
    "pattern,replacement,message",
    [
        (lambda op, x: x, lambda op, x: x, "a pattern must return what its last node makes"),
        (lambda op, x: [op.Neg(x), op.Abs(x)], lambda op, x: x, "a pattern must return what its last node makes"),
        (lambda op, x: [op.Neg(x), op.Abs(x)][1], lambda op, x: x, "a pattern must use what each of its nodes makes"),
        (lambda op, x: op.Sigmoid(x), lambda op, z: z, "the replacement takes z, which the pattern does not have"),
        (lambda op, x: op.Sigmoid(x), lambda op, x: [x, x], "the pattern has 1 output, but the replacement 2"),
        (
            lambda op, x: op.Sigmoid(x),
            lambda op, x: op.Sigmoyd(x),
            "version 24 of the operator set ai.onnx has no Sigmoyd",
        ),
        (lambda op, x: op.Sigmoid(x), lambda op, x: op.Upsample(x, x), "version 24 of the operator set ai.onnx has no"),
        (lambda op, x: op.Sigmoid(x), lambda op, x: op.Neg("y"), "nodes need each other in a circle"),
        (lambda op, x: op.Sigmoid(x), lambda op, x: op.Concat(x, x, axis=5), "does not fit the nodes in place of the"),
    ],
)
def test_what_is_no_rewriting(pattern: Any, replacement: Any, message: str) -> None:
    """Functions that are no patterns, unknown operators, circles, and nodes that do not fit are refused."""
    with pytest.raises(formats.EditError, match=message):
        model_of(SILU).rewrite(pattern, replacement)


def test_an_operator_of_a_newer_set() -> None:
    """The answer for an operator that came with a newer set says which."""
    header = HEADER.replace("24", "17")
    with pytest.raises(formats.EditError, match=r"version 17 .* has no Swish; it came with 24: convert"):
        surgeries.silu(model_of(SILU, header))


def test_an_old_model() -> None:
    """Before IR version 4, where each initializer is an input, new constants are nodes."""
    new = model_of(SILU, '<ir_version: 3, opset_import: ["" : 12]>').rewrite(
        lambda op, x: op.Sigmoid(x), lambda op, x: op.Add(op.Sigmoid(x), 0.0)
    )
    assert operators(new) == ["Sigmoid", "Constant", "Add", "Mul"] and not new.graph.initializer


def test_saved_over_itself(tmp_path: Path) -> None:
    """Weights that nothing replaced stay in the file where they are, when the model is saved over itself."""
    path, data = tmp_path / "m.onnx", tmp_path / "m.onnx.data"
    formats.save(formats.from_onnx(small()), path, external_data=True, size_threshold=0)
    before = data.stat()
    new = formats.load(path).rewrite(lambda op, x, w: op.Add(x, w), lambda op, x, w: op.Relu(op.Add(x, w)))
    formats.save(new, path, overwrite=True)
    after = data.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert operators(formats.load(path)) == ["Add", "Relu"]
