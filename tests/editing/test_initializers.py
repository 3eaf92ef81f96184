"""Weights become inputs and inputs become weights; the results are those of the model before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests import commands

WEIGHT = np.arange(16, dtype="float32").reshape(4, 4)
X = np.random.default_rng(3).random((2, 4), "float32")


def model_file(ir_version: int = 8, defaults: tuple[str, ...] = ()) -> None:
    """Write m.onnx, which computes y = x w + b, also where a branch takes w from outside; some weights are inputs."""

    def value(name: str, dims: Any = ("n", 4), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, dims)

    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(operator, ["p", "w"], [name])], name, [], [value(name)])
        for name, operator in (("then", "MatMul"), ("else", "MatMul"))
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("If", ["flag"], ["q"], **branches),
        helper.make_node("Add", ["q", "b"], ["y"]),
    ]
    weights = [numpy_helper.from_array(WEIGHT, "w"), numpy_helper.from_array(WEIGHT[0], "b")]
    inputs = [value("x"), value("flag", [], TensorProto.BOOL)]
    inputs += [value(weight.name, weight.dims) for weight in weights if weight.name in defaults]
    graph = helper.make_graph(nodes, "g", inputs, [value("y")], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=ir_version), "m.onnx")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("w.npy", WEIGHT)
    np.save("flag.npy", np.array(True))


def results(path: str, **more: Any) -> bytes:
    """What onnxruntime computes."""
    onnx.checker.check_model(path)
    session = onnxruntime.InferenceSession(path)
    named = {"x": X, "flag": np.array(True), **more}
    return bytes(session.run(None, {value.name: named[value.name] for value in session.get_inputs()})[0])


def inputs(path: str) -> list[str]:
    """The names of the inputs."""
    return [value.name for value in onnx.load(path).graph.input]


def edit(words: str) -> str:
    """The answer of `formats edit m.onnx new.onnx`."""
    return commands.run("formats", "edit", "m.onnx", "new.onnx", "--force", *words.split()).output


@pytest.mark.parametrize("ir_version", [3, 8])
def test_a_weight_becomes_an_input_and_a_weight_again(ir_version: int) -> None:
    """With the weight as an input, and then as a weight again, results are the same, also before IR version 4."""
    model_file(ir_version, ("w", "b") if ir_version == 3 else ())
    expected = results("m.onnx")
    said = edit("--initializer-to-input w")
    assert "computes the same, with more inputs" in said
    assert "edited: w is an input" in said
    assert [value.name for value in onnxruntime.InferenceSession("new.onnx").get_inputs()] == ["x", "flag", "w"]
    assert results("new.onnx", w=WEIGHT) == expected
    formats.edit("new.onnx", "back.onnx", input_to_initializer={"w": "w.npy"})
    assert {tensor.name for tensor in onnx.load("back.onnx").graph.initializer} == {"w", "b"}
    assert "w" not in inputs("back.onnx")
    assert results("back.onnx") == expected


def test_patterns_name_weights() -> None:
    """A pattern names all weights that it fits; their types are those of the weights."""
    model_file()
    expected = results("m.onnx")
    edit("--initializer-to-input *")
    assert inputs("new.onnx") == ["x", "flag", "w", "b"]
    assert results("new.onnx", w=WEIGHT, b=WEIGHT[0]) == expected


def test_inputs_with_defaults_become_weights() -> None:
    """Weights that are inputs, too, as before IR version 4, are only weights then, and the model has that version."""
    model_file(3, ("w", "b"))
    expected = results("m.onnx")
    said = edit("--input-to-initializer *")
    assert "computes the same, with fewer inputs" in said
    assert "w is a weight; b is a weight" in said
    assert "IR version 3 -> 4: before it, every weight is an input" in said
    assert inputs("new.onnx") == ["x", "flag"]
    assert onnx.load("new.onnx").ir_version == 4
    assert results("new.onnx") == expected


@pytest.mark.parametrize("as_names", [True, False])
def test_an_input_gets_a_value(as_names: bool) -> None:
    """An input gets the value in a file or an array, whatever else has one; a name with an equals sign is a name."""
    model_file()
    expected = results("m.onnx")
    if as_names:
        formats.edit("m.onnx", "renamed.onnx", rename={"flag": "a=b"}, overwrite=True)
        formats.convert("renamed.onnx", "m.onnx", overwrite=True)
        edit("--input-to-initializer a=b=flag.npy")
    else:
        formats.save(formats.load("m.onnx").edit(input_to_initializer={"flag": np.array(True)}), "new.onnx")
    assert inputs("new.onnx") == ["x"]
    assert results("new.onnx") == expected


@pytest.mark.parametrize(
    "words,message",
    [
        ("--initializer-to-input v", "no weight is called 'v'; the weights are w, b"),
        ("--input-to-initializer z=w.npy", "the model has no input 'z'"),
        ("--input-to-initializer flag=w.npy", "flag has type FLOAT, but BOOL in the model"),
        ("--input-to-initializer x=flag.npy", "x has type BOOL, but FLOAT in the model"),
        ("--input-to-initializer x", "x has no default; give its value, as --input-to-initializer x=FILE.npy"),
        ("--input-to-initializer q*", "no input with a default is called 'q*'"),
    ],
)
def test_what_is_not_possible(words: str, message: str) -> None:
    """Unknown names, other types, and inputs without a value are errors, and nothing is written."""
    model_file()
    assert message in edit(words)
    assert not Path("new.onnx").exists()


def test_other_dims_than_stated() -> None:
    """A value must have the sizes that the model states for the input; where it states none, any."""
    model_file()
    np.save("x.npy", X)
    np.save("wide.npy", np.zeros((2, 5), "float32"))
    assert "x has dims [2, 5], but [n, 4] in the model" in edit("--input-to-initializer x=wide.npy")
    edit("--input-to-initializer x=x.npy")
    assert inputs("new.onnx") == ["flag"]


def test_a_trained_weight_stays() -> None:
    """A weight that training changes cannot be an input."""
    model_file()
    model = onnx.load("m.onnx")
    model.training_info.add().update_binding.add(key="w", value="p")
    Path("m.onnx").write_bytes(model.SerializeToString())
    assert "w is trained, so it must stay a weight; --strip-training removes training" in edit(
        "--initializer-to-input w"
    )
