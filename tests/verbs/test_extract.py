"""`formats extract`: a part of a model in any format, or one of its weights as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import commands
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file

import formats


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Path) -> Path:
    """The current folder, with the example."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Any:
    """Run the command `formats extract`."""
    return commands.run("formats", "extract", *arguments)


@pytest.mark.parametrize("target", ["part.onnx", "part.onnxz", "part.rten", "part.json"])
def test_every_format(target: str, folder: Path) -> None:
    """Options repeat, names are separated by commas, and the part is in the format of its name."""
    done = run("digits.onnx", target, "--inputs", "conv1.output", "--outputs", "conv2.output,probabilities")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "\ncomputes the same" in done.stdout
    again = run(
        "digits.onnx",
        target,
        "--inputs",
        "conv1.output",
        "--outputs",
        "conv2.output",
        "--outputs",
        "probabilities",
        "--force",
    )
    assert again.exit_code == 0
    model = formats.load(target)
    assert [value.name for value in model.graph.input] == ["conv1.output"]
    assert [value.name for value in model.graph.output] == ["conv2.output", "probabilities"]


def test_names_with_commas(tmp_path: Path) -> None:
    """A comma with a backslash before it belongs to a name; in the library, the names in a list are as they are."""
    names = ["a,b", "c", "d\\", "e\\,f"]
    nodes = [formats.Node(op_type="Relu", input=["x"], output=[name]) for name in names]
    graph = formats.Graph(name="g", node=nodes, input=[formats.ValueInfo("x")])
    model = formats.Model(ir_version=8, opset_import=[formats.OperatorSetId("", 17)], graph=graph)
    formats.save(model, tmp_path / "a.onnx")
    outputs = ("--outputs", "a\\,b,c", "--outputs", "d\\", "--outputs", "e\\\\,f")
    assert 0 == run(tmp_path / "a.onnx", tmp_path / "b.onnx", *outputs, "--inputs", "x").exit_code
    formats.extract(tmp_path / "a.onnx", tmp_path / "c.onnx", outputs=names)
    for path in ("b.onnx", "c.onnx"):
        assert names == [value.name for value in formats.inspect(tmp_path / path).outputs]


@pytest.mark.parametrize("kind", ["float32", "int64", "bool", "float16", "uint8", "complex64"])
def test_a_weight(kind: str, tmp_path: Path) -> None:
    """A weight is a file that numpy and safetensors read; its elements are not changed."""
    array = np.arange(6).reshape(2, 3).astype(kind)
    formats.save(
        formats.Model(ir_version=8, graph=formats.Graph(name="g", initializer=[formats.from_numpy(array, "w")])),
        tmp_path / "m.onnx",
    )
    formats.extract(tmp_path / "m.onnx", tmp_path / "w.npy", tensor="w")
    formats.extract(tmp_path / "m.onnx", tmp_path / "w.safetensors", tensor="w")
    for found in (np.load(tmp_path / "w.npy"), load_file(tmp_path / "w.safetensors")["w"]):
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    formats.edit(tmp_path / "m.onnx", tmp_path / "n.onnx", weights=tmp_path / "w.safetensors")
    assert formats.diff(tmp_path / "m.onnx", tmp_path / "n.onnx").equal


def test_types_that_a_file_lacks(tmp_path: Path) -> None:
    """A type that numpy lacks is written as safetensors, and one that both lack is refused."""
    tensors = [
        formats.from_numpy(np.zeros(4, kind), name) for name, kind in (("b", ml_dtypes.bfloat16), ("i", ml_dtypes.int4))
    ]
    tensors.append(formats.from_numpy(np.array(["a"], dtype=object), "s"))
    formats.save(formats.Model(ir_version=10, graph=formats.Graph(name="g", initializer=tensors)), tmp_path / "m.onnx")
    with pytest.raises(formats.UnsupportedError, match=r"numpy has no type for BFLOAT16; name a \.safetensors file"):
        formats.extract(tmp_path / "m.onnx", tmp_path / "b.npy", tensor="b")
    formats.extract(tmp_path / "m.onnx", tmp_path / "b.safetensors", tensor="b")
    for name in "is":
        for suffix in ("npy", "safetensors"):
            with pytest.raises(formats.UnsupportedError, match="has no type for"):
                formats.extract(tmp_path / "m.onnx", tmp_path / f"{name}.{suffix}", tensor=name)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["b.safetensors", "m.onnx"]


@pytest.mark.parametrize(
    "line,code,message",
    [
        ("digits.onnx new.onnx", 2, "name what to extract: --inputs, --outputs or a --tensor"),
        ("digits.onnx new.onnx --inputs ,", 2, "--inputs"),
        ("digits.onnx new.onnx --outputs proba", 1, "no value is called 'proba'; did you mean probabilities"),
        ("digits.onnx new.onnx --inputs conv2.output --outputs conv1.output", 1, "conv1.output needs image"),
        ("digits.onnx new.onnx --tensor conv1.weight", 2, "--tensor is written to a .npy or .safetensors file"),
        ("digits.onnx new.npy --tensor conv1.wieght", 1, "no weight is called 'conv1.wieght'; did you"),
        ("digits.onnx new.npy --tensor conv1.weight --to onnx", 2, "--to is for models"),
        ("digits.onnx new.npy --tensor conv1.weight --inputs image", 2, "--tensor is one weight"),
        ("digits.onnx new.npy --inputs image", 1, "new.npy"),
        ("digits.onnx digits.onnx --outputs probabilities", 1, "File exists"),
    ],
)  # fmt: skip
def test_mistakes(line: str, code: int, message: str, folder: Path) -> None:
    """A mistake gets one line, the exit code says whose it is, and nothing is written."""
    done = run(*line.split())
    assert message in done.stderr
    assert (code, 1) == (done.exit_code, len(done.stderr.splitlines()))
    assert [path.name for path in folder.iterdir()] == ["digits.onnx"]


def test_tensors_by_place_and_dry_runs(folder: Path) -> None:
    """A tensor may be named by its place, and a dry run writes nothing."""
    assert run("digits.onnx", "w.npy", "--tensor", "graph.initializer[0]", "--dry-run").exit_code == 0
    assert not (folder / "w.npy").exists()
    formats.extract("digits.onnx", "w.npy", tensor="graph.initializer[0]")
    np.testing.assert_array_equal(np.load("w.npy"), formats.load("digits.onnx").graph.initializer[0].numpy())
