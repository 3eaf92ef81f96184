"""Models with references in place of their weights, and the functions of `onnx` that get them for large models."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
import formats.onnxpb as drop_in
from formats.errors import TensorDataError
from formats.ir import walk
from formats.onnx_compat import references
from tests.corpus import backend_files
from tests.systems import PATIENCE_SECONDS


def tensor(name: str, size: int = 600, data_type: int = TensorProto.FLOAT) -> onnx.TensorProto:
    """Return a tensor with `size` elements as raw data."""
    return numpy_helper.from_array(np.arange(size).astype(helper.tensor_dtype_to_np_dtype(data_type)), name)


def example(*weights: onnx.TensorProto) -> Any:
    """Return a message of ours with these weights, one in a subgraph, one in an attribute and one in a function."""
    then = helper.make_graph([], "then", [], [helper.make_tensor_value_info("inner", 1, [600])], [tensor("inner")])
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=then),
        helper.make_node("Constant", [], ["k"], value=tensor("constant")),
    ]
    inside = [helper.make_node("Constant", [], ["z"], value=tensor("in a function"))]
    function = helper.make_function("own", "F", [], ["z"], inside, [helper.make_opsetid("", 21)])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
    outputs = [helper.make_tensor_value_info(name, 1, [600]) for name in "yk"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [*weights, tensor("large"), tensor("small", 3)])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return drop_in.wrap(
        formats.from_onnx(helper.make_model(graph, ir_version=10, functions=[function], opset_imports=opsets))
    )


def test_weights_go_and_come_back() -> None:
    """All large weights become references, wherever they are; with the weights again, the model is the same."""
    model = example()
    shell = drop_in.without_weights(model)
    assert len(shell.SerializeToString()) < 1500 < 5 * 2400 < len(model.SerializeToString())
    assert model == drop_in.with_weights(shell, shell)
    parsed = drop_in.ModelProto.FromString(shell.SerializeToString())
    assert model == drop_in.with_weights(parsed, shell)
    assert drop_in.without_weights(formats.from_onnx(model)) == shell


def test_a_shell_is_saved_with_its_weights(tmp_path: Path) -> None:
    """`save` writes the weights that a model without them refers to, beside it, and `formats.save` does."""
    model = example()
    shell = drop_in.without_weights(model)
    drop_in.save(shell, tmp_path / "m.onnx")
    formats.save(shell, tmp_path / "n.onnx", external_data=False)
    expected = [each.numpy().tolist() for _, each in walk.tensors(drop_in.unwrap(model))]
    for name in ("m.onnx", "n.onnx"):
        assert expected == [each.numpy().tolist() for _, each in walk.tensors(formats.load(tmp_path / name))]


def test_a_removed_weight_is_not_missed_and_an_unknown_one_is_told() -> None:
    """A result may have fewer weights, in another order; a reference of another model is an error."""
    shell = drop_in.without_weights(example(tensor("other", 700)))
    result = drop_in.ModelProto()
    result.CopyFrom(shell)
    del result.graph.node[:], result.functions[:]
    result.graph.initializer.reverse()
    back = drop_in.with_weights(result, shell)
    assert [entry.name for entry in back.graph.initializer] == ["small", "large", "other"]
    assert numpy_helper.to_array(onnx.load_from_string(back.SerializeToString()).graph.initializer[2]).size == 700
    with pytest.raises(TensorDataError, match="no weight for 'inner'"):
        drop_in.with_weights(drop_in.without_weights(example()), drop_in.without_weights(drop_in.ModelProto()))


@pytest.mark.parametrize("other", [TensorProto(), 3, "model.onnx"], ids=["a tensor", "a number", "a path"])
def test_only_a_model_has_weights_to_leave_out(other: Any) -> None:
    """Anything but a model is a TypeError."""
    with pytest.raises(TypeError, match="expected a m"):
        drop_in.without_weights(other)


KEPT: dict[str, Callable[[], onnx.TensorProto]] = {
    "too short": lambda: TensorProto(name="w", dims=[1000], data_type=1, raw_data=bytes(2000)),
    "too long": lambda: TensorProto(name="w", dims=[1000], data_type=1, raw_data=bytes(8000)),
    "empty dims": lambda: TensorProto(name="w", dims=[0], data_type=1, raw_data=bytes(4000)),
    "a negative dim": lambda: TensorProto(name="w", dims=[-1000], data_type=1, raw_data=bytes(4000)),
    "no type": lambda: TensorProto(name="w", dims=[1000], raw_data=bytes(4000)),
    "an unknown type": lambda: TensorProto(name="w", dims=[1000], data_type=99, raw_data=bytes(4000)),
    "texts": lambda: TensorProto(name="w", dims=[1000], data_type=8, raw_data=bytes(4000)),
    "two forms": lambda: TensorProto(name="w", dims=[1000], data_type=1, raw_data=bytes(4000), float_data=[1.0]),
    "indices": lambda: tensor("w", 1000, TensorProto.INT64),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_the_checker_looks_at_stays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that the checker refuses, or that may be shapes, stay in the model: the checker says what it says."""
    model = example(KEPT[name]())
    assert drop_in.without_weights(model).graph.initializer[0] == model.graph.initializer[0]
    assert said(onnx.checker.check_model, formats.to_onnx(model)) == said(drop_in.checker.check_model, model)
    monkeypatch.setattr(references, "AT_ONCE_BYTES", 0)
    assert said(onnx.checker.check_model, formats.to_onnx(model)) == said(drop_in.checker.check_model, model)


def test_a_check_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large model is checked without a file: it may be secret, or the disk full."""
    monkeypatch.setattr(references, "AT_ONCE_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    monkeypatch.chdir(tmp_path)
    drop_in.checker.check_model(example(), full_check=True)
    assert [] == [*tmp_path.iterdir()]


def said(function: Callable[..., Any], *arguments: Any) -> str | None:
    """Return what the error of a call says, or `None`."""
    try:
        function(*arguments)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)
    return None


@pytest.mark.outer
@pytest.mark.parametrize("full_check", [False, True])
def test_models_of_others_are_checked_and_inferred_the_same(full_check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With references, `check_model` says the same, and `infer_shapes` gives the same, for the models of `onnx`."""
    monkeypatch.setattr(references, "AT_ONCE_BYTES", 0)
    for name, path in backend_files():
        theirs, ours = onnx.load(path), drop_in.load(path)
        expected = said(onnx.checker.check_model, theirs, full_check)
        assert expected == said(drop_in.checker.check_model, ours, full_check), name
        infer = functools.partial(onnx.shape_inference.infer_shapes, data_prop=full_check)
        ours_inferred = drop_in.shape_inference.infer_shapes(ours, data_prop=full_check)
        assert infer(theirs).SerializeToString() == ours_inferred.SerializeToString(), name


@pytest.mark.parametrize("way", ["imported", "installed"])
def test_other_references_mean_what_they_mean_to_onnx(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large model that also refers to other files is checked as it is: they are looked for in the current folder."""
    monkeypatch.setattr(references, "AT_ONCE_BYTES", 0)
    monkeypatch.chdir(tmp_path)
    model = example()
    model.graph.initializer.add(name="w", dims=[1], data_type=1, data_location=1).external_data.add(
        key="location", value="w.data"
    )
    with drop_in.install() if way == "installed" else monkeypatch.context():
        check = onnx.checker.check_model if way == "installed" else drop_in.checker.check_model
        with pytest.raises(onnx.checker.ValidationError, match=r"w\.data"):
            check(model)
        Path("w.data").write_bytes(bytes(4))
        check(model)


MEMORY = """
import resource, sys
import formats, formats.onnxpb as ours, onnx, onnx.reference
if {is_installed}:
    ours.install()
    checker, shape_inference = onnx.checker, onnx.shape_inference
else:
    checker, shape_inference = ours.checker, ours.shape_inference
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = ours.load("m.onnx")
checker.check_model(model, full_check=True)
inferred = shape_inference.infer_shapes(model)
assert len(inferred.graph.value_info) == 31, inferred
assert ours.unwrap(inferred).graph.initializer[31].raw_data.nbytes == 64 << 20
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def large_model(folder: Path) -> None:
    """Write a model with 2 GiB of weights that take no room: a chain of 32 products."""
    nodes, weights, size = [], [], 64 << 20
    for index in range(32):
        places = {"location": "m.data", "offset": str(index * size), "length": str(size)}
        weight = TensorProto(name=f"w{index}", data_type=1, dims=[4096, 4096], data_location=TensorProto.EXTERNAL)
        for key, value in places.items():
            weight.external_data.add(key=key, value=value)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"x{index}", weight.name], [f"x{index + 1}"]))
    ends = [[helper.make_tensor_value_info(name, 1, [1, 4096])] for name in ("x0", "x32")]
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(helper.make_graph(nodes, "g", *ends, weights), ir_version=10, opset_imports=opsets)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with (folder / "m.data").open("wb") as data:
        data.truncate(32 * size)


@pytest.mark.outer
@pytest.mark.parametrize("is_installed", [False, True])
def test_memory_does_not_grow_with_the_weights(is_installed: bool, tmp_path: Path) -> None:
    """2 GiB of weights, which no message of protobuf can have, are checked and inferred in 32 MiB."""
    large_model(tmp_path)
    command = [sys.executable, "-c", MEMORY.format(is_installed=is_installed)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 32
