"""Inputs and outputs with another layout or type; the rest of the model gets what it got before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from tests import commands
from tests.editing.nested_models import results

FLOAT, FLOAT16, DOUBLE = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE
ALL_EDITS = ("--uint8-input", "x", "--scale", "1/255", "--layout", "x=NHWC", "--layout", "y=NHWC")
# The layout that a value has, that which it gets, and the axes of numpy that make the second of the first.
LAYOUTS = [
    ("CHW", "HWC", (1, 2, 0)),
    ("NCL", "NLC", (0, 2, 1)),
    ("NCHW", "NHWC", (0, 2, 3, 1)),
    ("NCDHW", "NDHWC", (0, 2, 3, 4, 1)),
]


def model_of(dims: Any, elem_type: int = FLOAT, opset: int = 17, ir_version: int = 8) -> onnx.ModelProto:
    """`y` is twice `x`, and a subgraph adds `x` to it for `z`; `x` has a denotation."""
    x, y, z = (helper.make_tensor_value_info(name, elem_type, dims) for name in "xyz")
    for axis, dim in enumerate(x.type.tensor_type.shape.dim):
        dim.denotation = f"AXIS_{axis}"
    out = helper.make_tensor_value_info("b", elem_type, dims)
    body = helper.make_graph([helper.make_node("Add", ["x", "y"], ["b"])], "body", [], [out])
    nodes = [
        helper.make_node("Add", ["x", "x"], ["y"], name="twice"),
        helper.make_node("If", ["yes"], ["z"], then_branch=body, else_branch=body),
    ]
    yes = numpy_helper.from_array(np.array(True), "yes")
    inputs = [x, helper.make_tensor_value_info("yes", TensorProto.BOOL, [])] if ir_version < 4 else [x]
    graph = helper.make_graph(nodes, "g", inputs, [y, z], [yes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def edit(path: Path, *words: str) -> onnx.ModelProto:
    """The model after an edit by the command, which is that of the library, and checked."""
    new = path.with_name("new.onnx")
    done = commands.run("formats", "edit", path, new, "--force", *words)
    assert (0, "") == (done.exit_code, done.stderr), done.stderr
    proto = onnx.load(new)
    onnx.checker.check_model(proto, full_check=True)
    return proto


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(("first", "last", "axes"), LAYOUTS)
def test_layouts_change_both_ways(first: str, last: str, axes: tuple[int, ...], is_back: bool, tmp_path: Path) -> None:
    """An input and an output get the other layout, with their names and dims; the numbers are the same."""
    sizes = {"N": 2, "C": 3, "D": 4, "H": 5, "W": 6, "L": 7}
    old, new = (last, first) if is_back else (first, last)
    axes = tuple(np.argsort(axes)) if is_back else axes
    path = tmp_path / "m.onnx"
    onnx.save(model_of([letter.lower() for letter in old]), path)
    proto = edit(path, "--layout", f"x={new}", "--layout", f"z={new}")
    assert formats.load(path).edit(layout={"x": new, "z": new}) == formats.load(tmp_path / "new.onnx")
    found = {value.name: value.type.tensor_type.shape.dim for value in (*proto.graph.input, *proto.graph.output)}
    assert (
        [letter.lower() for letter in new]
        == [dim.dim_param for dim in found["x"]]
        == [dim.dim_param for dim in found["z"]]
    )
    assert [letter.lower() for letter in old] == [dim.dim_param for dim in found["y"]]
    assert [f"AXIS_{old.index(letter)}" for letter in new] == [dim.denotation for dim in found["x"]]
    x = np.random.default_rng(1).random([sizes[letter] for letter in old], "float32")
    y, z = results(proto, tmp_path, x=x.transpose(axes))
    np.testing.assert_array_equal(y, x + x)
    np.testing.assert_array_equal(z, (x + x + x).transpose(axes))


def test_inner_values_keep_their_description(tmp_path: Path) -> None:
    """What had the name of the end is described as the end was; a value with the next name is not met."""
    proto = model_of([2, 3, 4, 5])
    proto.graph.node[0].name = ""
    proto.graph.node.append(helper.make_node("Identity", ["y"], ["x_2"]))
    onnx.save(proto, tmp_path / "m.onnx")
    new = edit(tmp_path / "m.onnx", "--layout", "x=NHWC")
    described = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in new.graph.value_info
    }
    assert {"x_3": [2, 3, 4, 5]} == described
    assert [2, 4, 5, 3] == [dim.dim_value for dim in new.graph.input[0].type.tensor_type.shape.dim]


RNG = np.random.default_rng(2)
MEAN, STD = "0.485,0.456,0.406", "0.229,0.224,0.225"


def prepared(x: Any, dtype: str, divisor: float | None, mean: Any, std: Any) -> Any:
    """The input as a program in numpy prepares it, all in one type."""
    x = x.astype(dtype)
    if divisor is not None:
        x = x / np.array(divisor, dtype)
    if mean is not None:
        x = x - np.array(mean, dtype)
    return x if std is None else x / np.array(std, dtype)


def by_axis(text: str, axis: int, rank: int) -> Any:
    """The numbers along an axis."""
    numbers = [float(word) for word in text.split(",")]
    return np.array(numbers).reshape([-1 if each == axis else 1 for each in range(rank)])


@pytest.mark.parametrize(
    ("dims", "axis", "elem_type", "opset"),
    [
        ((2, 3, 4, 5), 1, FLOAT, 17),
        ((2, 4, 5, 3), 3, FLOAT, 22),
        ((3, 4, 5), 0, DOUBLE, 7),
        ((2, 3, 4, 5, 6), 1, FLOAT16, 17),
        (("n", 3, "h", "w"), 1, FLOAT, 13),
    ],
)
def test_uint8_inputs_become_what_a_program_computes(
    dims: tuple[Any, ...], axis: int, elem_type: int, opset: int, tmp_path: Path
) -> None:
    """The nodes get exactly the numbers that numpy computes, for float16 in float32: bit for bit."""
    path = tmp_path / "old.onnx"
    graph = model_of(dims, elem_type, opset).graph
    del graph.node[1:], graph.output[1:], graph.initializer[:]
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    dtype = "float64" if elem_type == DOUBLE else "float32"
    x = RNG.integers(0, 256, [dim if isinstance(dim, int) else 4 for dim in dims], "uint8")
    means, stds = by_axis(MEAN, axis, x.ndim), by_axis(STD, axis, x.ndim)
    for words, expected in (
        ([], (None, None, None)),
        (["--scale", "1/255"], (255, None, None)),
        (["--scale", "1/127.5", "--mean", "1"], (127.5, 1, None)),
        (["--scale", "1/255", "--mean", MEAN, "--std", STD], (255, means, stds)),
        (["--mean", "103.9,116.8,123.7"], (None, by_axis("103.9,116.8,123.7", axis, x.ndim), None)),
    ):
        proto = edit(path, "--uint8-input", "x", *words)
        assert TensorProto.UINT8 == proto.graph.input[0].type.tensor_type.elem_type
        (y,) = results(proto, tmp_path, x=x)
        pixels = prepared(x, dtype, *expected).astype(y.dtype)
        np.testing.assert_array_equal(y, pixels + pixels)


def test_pixels_of_a_camera(tmp_path: Path) -> None:
    """With a layout, the uint8 pixels are transposed first; the library has the same words."""
    path = tmp_path / "old.onnx"
    onnx.save(model_of([1, 3, 4, 5]), path)
    words = ["--uint8-input", "x", "--scale", "1/255", "--mean", MEAN, "--std", STD, "--layout", "x=NHWC"]
    said = formats.edit(path, tmp_path / "other.onnx", uint8_input=["x"], scale="1/255", mean=[1, 2, 3], std=0.5).edits
    assert "x is uint8[1,3,4,5]; it was float[1,3,4,5]: Cast, Div 255, Sub 1,2,3, Div 0.5" == said[0].detail
    proto = edit(path, *words, "--rename", "x=pixels")
    assert ["Transpose", "Cast"] == [node.op_type for node in proto.graph.node[:2]]
    x = RNG.integers(0, 256, (1, 4, 5, 3), "uint8")
    y, _ = results(proto, tmp_path, pixels=x)
    pixels = prepared(x.transpose(0, 3, 1, 2), "float32", 255, by_axis(MEAN, 1, 4), by_axis(STD, 1, 4))
    np.testing.assert_array_equal(y, pixels + pixels)
    numbers = {"mean": [0.485, 0.456, 0.406], "std": (0.229, 0.224, 0.225)}
    options: Any = {"uint8_input": ["x"], "scale": "1/255", "layout": {"x": "NHWC"}, "rename": {"x": "pixels"}}
    assert formats.load(path).edit(**options, **numbers) == formats.load(tmp_path / "new.onnx")


def test_uint8_inputs_and_float16(tmp_path: Path) -> None:
    """A model that also becomes float16 casts its pixels to float16."""
    path = tmp_path / "old.onnx"
    onnx.save(model_of([1, 3, 4, 5]), path)
    proto = edit(path, "--uint8-input", "x", "--scale", "1/255", "--dtype", "float16")
    assert TensorProto.UINT8 == proto.graph.input[0].type.tensor_type.elem_type
    x = RNG.integers(0, 256, (1, 3, 4, 5), "uint8")
    y, _ = results(proto, tmp_path, x=x)
    assert "float16" == y.dtype
    np.testing.assert_allclose(y, x.astype("float32") / 255 * 2, rtol=2e-3)


@pytest.mark.parametrize(
    ("dims", "elem_type", "opset", "words", "message"),
    [
        ([2, 3, 4, 5], TensorProto.UINT8, 17, [], "x is uint8[2,3,4,5], and no tensor of floats"),
        ([2, 3, 4, 5], FLOAT, 6, [], "the model has version 6 of ai.onnx, but this needs 7; set --opset before"),
        ([2, 4, 4, 5], FLOAT, 17, ["--mean", MEAN], "x is float[2,4,4,5]: no axis can have 3 channels"),
        ([2, 3, 4, 3], FLOAT, 17, ["--std", STD], "x is float[2,3,4,3]: 2 axes can have 3 channels"),
        (["n", "c", 4, 5], FLOAT, 17, ["--mean", MEAN], "x is float[n,c,4,5]: no axis can have 3 channels; set --dim"),
    ],
)
def test_inputs_that_cannot_be_uint8_are_refused(
    dims: Any, elem_type: int, opset: int, words: list[str], message: str, tmp_path: Path
) -> None:
    """Other types, old operator sets and channels that nobody can tell are errors."""
    onnx.save(model_of(dims, elem_type, opset), tmp_path / "m.onnx")
    done = commands.run("formats", "edit", tmp_path / "m.onnx", tmp_path / "new.onnx", "--uint8-input", "x", *words)
    assert 1 == done.exit_code
    assert f"m.onnx: {message}" in done.stderr


@pytest.mark.parametrize(
    "words", [["--scale", "1/0"], ["--scale", "x"], ["--mean", "nan"], ["--std", "1,0"], ["--std", ""], ["--mean", "1"]]
)
def test_numbers_of_no_use_are_mistakes(words: list[str], digits: Path) -> None:
    """No number, a division by zero, and numbers for no input are mistakes in the command line."""
    given = [] if words == ["--mean", "1"] else ["--uint8-input", "image"]
    assert 2 == commands.run("formats", "edit", digits, "new.onnx", *given, *words).exit_code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--uint8-input", "q"], "no input is called 'q'"),
        (["--layout", "q=NHWC"], "no input or output is called 'q'"),
        (["--layout", "y=HWC"], "y has 4 dims, and HWC is for 3; for these there are NCHW and NHWC"),
        (["--layout", "flat=NHWC"], "flat has 1 dims, and NHWC is for 4"),
        (["--layout", "free=NHWC"], "the rank of free is not known"),
        (["--layout", "given=NHWC"], "given has a default value, an initializer, which would need the new form, too"),
        (["--layout", "both=NHWC"], "both is both an input and an output of the graph"),
        (["--layout", "held=NHWC"], "held is an initializer, and no node makes it"),
    ],
)
def test_what_has_no_layout_is_refused(words: list[str], message: str, tmp_path: Path) -> None:
    """An unknown name, another rank, an unknown rank, a default and an end that is two ends are errors."""
    proto = model_of([2, 3, 4, 5])
    ends = {name: helper.make_tensor_value_info(name, FLOAT, [2, 3, 4, 5]) for name in ("given", "both", "held")}
    ends["flat"] = helper.make_tensor_value_info("flat", FLOAT, [2])
    ends["free"] = helper.make_tensor_value_info("free", FLOAT, None)
    proto.graph.input.extend(ends[name] for name in ("given", "both", "flat", "free"))
    proto.graph.output.extend(ends[name] for name in ("both", "held"))
    for name in ("given", "held"):
        proto.graph.initializer.append(numpy_helper.from_array(np.ones((2, 3, 4, 5), "float32"), name))
    onnx.save(proto, tmp_path / "m.onnx")
    done = commands.run("formats", "edit", tmp_path / "m.onnx", tmp_path / "new.onnx", *words)
    assert 1 == done.exit_code
    assert f"m.onnx: {message}" in done.stderr
    assert not (tmp_path / "new.onnx").exists()


def test_operators_of_other_formats_are_not_mixed(digits: Path, tmp_path: Path) -> None:
    """A .rten file has RTen's operators, among which no Transpose of ONNX comes."""
    formats.convert(digits, tmp_path / "m.rten")
    done = commands.run("formats", "edit", tmp_path / "m.rten", tmp_path / "new.onnx", "--layout", "image=NHWC")
    assert 1 == done.exit_code
    assert "m.rten: the model has no operators of ai.onnx; convert it to .onnx before" in done.stderr


def test_a_layout_that_does_not_exist_is_a_mistake(digits: Path) -> None:
    """A word that is no layout is a mistake in the command line, and lists those that there are."""
    done = commands.run("formats", "edit", digits, "new.onnx", "--layout", "image=NWHC")
    assert 2 == done.exit_code
    assert "NCHW, NHWC" in done.stderr


def test_the_graph_alone_is_written(tmp_path: Path) -> None:
    """Over itself, only the graph of a model with data files is written; without its data, too."""
    proto = model_of([2, 3, 4, 5])
    weight = numpy_helper.from_array(np.ones(5, "float32"), "w")
    proto.graph.initializer.append(weight)
    proto.graph.node.append(helper.make_node("Mul", ["y", "w"], ["v"]))
    path, data = tmp_path / "m.onnx", tmp_path / "w.bin"
    onnx.save(proto, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    before = data.stat()
    done = commands.run("formats", "edit", path, path, "--force", *ALL_EDITS)
    assert 0 == done.exit_code
    assert "stays as it is; only the graph was written" in done.stdout
    assert (before.st_mtime_ns, before.st_ino) == (data.stat().st_mtime_ns, data.stat().st_ino)
    data.unlink()
    done = commands.run("formats", "edit", path, path, "--force", "--no-data", "--layout", "x=NCHW")
    assert 0 == done.exit_code
