"""Dims get sizes and names everywhere, and what contradicts them is inferred again, dropped or refused."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing.dims import set_dims_in
from formats.editing.inference import names_in_dim, replaced
from formats.ir.copies import copied
from tests.systems import open_files

FLOAT = TensorProto.FLOAT


def model(nodes: list[Any] | None = None, dims: Any = ("batch", "seq", 4), shape: Any = (0, -1)) -> onnx.ModelProto:
    """Return a model that makes one axis of two."""
    nodes = nodes or [
        helper.make_node("Relu", ["x:0"], ["r"]),
        helper.make_node("Reshape", ["r", "shape"], ["y"], name="flat"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x:0", FLOAT, [*dims])],
        [helper.make_tensor_value_info("y", FLOAT, [dims[0], "4*seq"])],
        [numpy_helper.from_array(np.array(shape, "int64"), "shape")],
        value_info=[helper.make_tensor_value_info("r", FLOAT, [*dims])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def set_dims(proto: onnx.ModelProto, sizes: dict[str, Any]) -> tuple[onnx.ModelProto, Any]:
    """Return the model with these dims, and what was done."""
    before = formats.from_onnx(proto)
    new = copied(before)
    done = set_dims_in(new, sizes, before)
    assert before == formats.from_onnx(proto), "what was given is not changed"
    found = formats.to_onnx(new)
    onnx.checker.check_model(found, full_check=True)
    return found, done


def dims_of(proto: onnx.ModelProto) -> dict[str, list[Any]]:
    """Return the dims of all values that a model describes."""
    return {
        value.name: [dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else None) for dim in shape.dim]
        for value in (*proto.graph.input, *proto.graph.output, *proto.graph.value_info)
        if (shape := value.type.tensor_type.shape) is not None
    }


@pytest.mark.parametrize(
    "sizes,expected",
    [
        ({"batch": 1}, {"x:0": [1, "seq", 4], "y": [1, "4*seq"], "r": [1, "seq", 4]}),
        ({"seq": 7}, {"x:0": ["batch", 7, 4], "y": ["batch", 28], "r": ["batch", 7, 4]}),
        ({"seq": "n"}, {"x:0": ["batch", "n", 4], "y": ["batch", "4*n"], "r": ["batch", "n", 4]}),
        ({"seq": "batch", "batch": "seq"}, {"x:0": ["seq", "batch", 4], "y": ["seq", "4*batch"]}),
        ({"batch": 2, "seq": 3}, {"x:0": [2, 3, 4], "y": [2, 12], "r": [2, 3, 4]}),
        ({"x:0:0": 2}, {"x:0": [2, "seq", 4], "r": [2, "seq", 4]}),
        ({"x:0:-1": "width"}, {"x:0": ["batch", "seq", "width"], "r": ["batch", "seq", "width"]}),
        ({"x:0:1": 5, "batch": 3}, {"x:0": [3, 5, 4], "y": [3, 20], "r": [3, 5, 4]}),
    ],
)
def test_dims(sizes: dict[str, Any], expected: dict[str, list[Any]]) -> None:
    """A dim is set wherever its name stands, also in computed dims; an axis is set, and shapes follow from it."""
    found, done = set_dims(model(), sizes)
    assert {name: dims_of(found)[name] for name in expected} == expected
    assert {edit.kind for edit in done.edits} == {"dim"}


@pytest.mark.parametrize(
    "sizes,message",
    [
        ({"bach": 1}, "no dim is called 'bach'; did you mean batch"),
        ({"y:0": 1}, "y is an output, whose dims follow from the inputs; the inputs are x:0"),
        ({"x:0": 1}, "x:0 is an input; name an axis of it, such as x:0:0"),
        ({"x:0:3": 1}, "x:0 has axes from 0 to 2, and no axis 3"),
        ({"x:1:0": 1}, "no input is called 'x:1'; did you mean x:0"),
        ({"batch": "seq"}, "batch cannot be called seq, the name of another dim"),
        ({"batch": "n", "seq": "n"}, "cannot be called n, the name of another dim"),
    ],
)
def test_mistakes(sizes: dict[str, Any], message: str) -> None:
    """An unknown name or axis is an error with the nearest one, and two dims do not get one name."""
    with pytest.raises(formats.EditError, match=message):
        set_dims(model(), sizes)


def test_an_axis_without_a_shape() -> None:
    """An input whose rank is unknown has no axes."""
    proto = model()
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(formats.EditError, match="the rank of x:0 is not known, so it has no axis 0"):
        set_dims(proto, {"x:0:0": 1})


def test_a_constant_that_contradicts_is_refused() -> None:
    """A model that has its old batch size in a constant that may mean something else is refused, with the node."""
    fixed = model(dims=(2, 3, 4), shape=(24,))
    fixed.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [24]))
    with pytest.raises(formats.EditError, match=r"does not fit these dims: .*flat"):
        set_dims(fixed, {"x:0:0": 4})


def test_a_model_whose_shapes_were_wrong_is_closed(tmp_path: Path) -> None:
    """After shapes that the model stated wrongly were inferred again, its file is closed, without the collector."""
    wrong = model()
    wrong.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5
    onnx.save(wrong, tmp_path / "m.onnx")
    gc.disable()
    try:
        formats.edit(tmp_path / "m.onnx", tmp_path / "new.onnx", dim={"batch": 1, "seq": 3})
        assert str(tmp_path / "m.onnx") not in open_files()
    finally:
        gc.enable()


def computed(proto: onnx.ModelProto, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what onnxruntime computes."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray[Any, Any] = session.run(None, {"x:0": x})[0]
    return found


@pytest.mark.parametrize(
    ("dims", "shape", "size", "expected"),
    [
        ((2, 3, 4), (2, 12), 4, [4, 12]),
        ((2, 3, 4), (2, -1), 4, [4, -1]),
        ((2, 3, 4), (2, 12), "n", [0, 12]),
        ((1, 3, 4), (1, 12), 3, [3, 12]),
        ((1, 3, 4), (1, -1), "n", [0, -1]),
        ((1, 3, 4), (1, 3, 4), 3, [3, 3, 4]),
        ((2, 3, 4), (6, 4), 4, [12, 4]),
        ((1, 3, 4), (3, 4), 4, [12, 4]),
        ((1, 3, 4), (12, 1), 3, None),
        ((1, 1, 1), (), 3, None),
        ((1, 1, 4), (1, 1, 2, 2), 3, None),
        ((1, 3, 4), (-1, 12), 3, None),
    ],
)
def test_constants_that_mean_the_axis(dims: Any, shape: Any, size: Any, expected: Any) -> None:
    """The shape of a Reshape that is shown to hold the old batch gets the new one, and rows are as before."""
    proto = model(dims=dims, shape=shape)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [*np.empty(dims).reshape(shape).shape]))
    try:
        found, done = set_dims(proto, {"x:0:0": size})
    except formats.EditError as error:
        assert expected is None
        assert "flat" in str(error)
        return
    edits = [edit.detail for edit in done.edits if edit.detail.startswith("the shape in")]
    assert edits == ([] if expected is None else [f"the shape in Reshape flat is {expected}; it was {[*shape]}"])
    assert not [loss for loss in done.losses if loss.matters]
    x = np.random.default_rng(0).random((12, *dims[1:]), "float32")[: size if isinstance(size, int) else 6]
    rows = [computed(proto, x[start : start + dims[0]]) for start in range(0, len(x), dims[0])]
    np.testing.assert_array_equal(computed(found, x), np.concatenate(rows))


def graph_of(
    nodes: list[Any], dims: list[int], to: list[int], arrays: dict[str, Any], ir_version: int = 8
) -> onnx.ModelProto:
    """Return a model of these nodes from `x:0` to `y`."""
    x, y = helper.make_tensor_value_info("x:0", FLOAT, dims), helper.make_tensor_value_info("y", FLOAT, to)
    weights = [numpy_helper.from_array(np.array(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    if ir_version < 4:
        graph.input.extend(helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in weights)
    sets = [helper.make_opsetid("", 17 if ir_version > 3 else 8)]
    return helper.make_model(graph, opset_imports=sets, ir_version=ir_version)


def check_rows(proto: onnx.ModelProto, size: Any, edits: list[str]) -> onnx.ModelProto:
    """Check what was done, and that a model of one row computes six rows as before."""
    found, done = set_dims(proto, {"x:0:0": size})
    assert [edit.detail for edit in done.edits if edit.detail.startswith(("a constant in", "the shape in"))] == edits
    dims = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(0).random((6, *dims[1:]), "float32")
    rows = [computed(proto, x[row : row + 1]) for row in range(6)]
    np.testing.assert_allclose(computed(found, x), np.concatenate(rows), rtol=1e-6)
    return found


NODE = helper.make_node


@pytest.mark.parametrize("size", [6, "n"])
def test_an_axis_that_was_joined_with_another(size: Any) -> None:
    """A Reshape that parts the axis from another gets the new size, if what is between keeps the order of both."""
    arrays = {"heads": [1, 4, 2, 3], "joined": [-1, 4, 3], "apart": [1, 2, 3, 4]}
    nodes = [
        NODE("Reshape", ["x:0", "heads"], ["a"], name="heads"),
        NODE("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        NODE("Reshape", ["b", "joined"], ["c"]),
        NODE("Softmax", ["c"], ["d"]),
        NODE("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
        NODE("Reshape", ["e", "apart"], ["y"], name="apart"),
    ]
    first = 0 if size == "n" else 6
    split = [-1 if size == "n" else 6, 2, 3, 4]
    edits = [
        f"the shape in Reshape heads is {[first, 4, 2, 3]}; it was [1, 4, 2, 3]",
        f"the shape in Reshape apart is {split}; it was [1, 2, 3, 4]",
    ]
    check_rows(graph_of(nodes, [1, 4, 6], [1, 2, 3, 4], arrays), size, edits)
    nodes[3:5] = [NODE("Concat", ["c", "c"], ["e"], axis=0)]
    with pytest.raises(formats.EditError, match=r"does not fit these dims: .*apart"):
        set_dims(graph_of(nodes, [1, 4, 6], [1, 4, 3, 4], {**arrays, "apart": [1, 4, 3, 4]}), {"x:0:0": 6})


@pytest.mark.parametrize("size", [6, "n"])
def test_a_constant_that_a_concat_needs_for_each_item(size: Any) -> None:
    """A Concat gets a constant as often as the axis needs, and a shape that nodes compute of constants is one."""
    arrays: dict[str, Any] = {
        "token": np.ones((1, 1, 6), "float32"),
        "wanted": [1, -1, -1],
        "rank": [3],
        "minus": -1,
        "flat": [1],
        "rest": [30],
    }
    one = numpy_helper.from_array(np.array([1], "int64"))
    nodes = [
        NODE("ConstantOfShape", ["rank"], ["ones"], value=one),
        NODE("Mul", ["ones", "minus"], ["unset"]),
        NODE("Equal", ["wanted", "unset"], ["is_unset"]),
        NODE("Where", ["is_unset", "ones", "wanted"], ["dims"]),
        NODE("Expand", ["token", "dims"], ["wide"]),
        NODE("Concat", ["wide", "x:0"], ["c"], axis=1, name="both"),
        NODE("Concat", ["flat", "rest"], ["shape"], axis=0),
        NODE("Reshape", ["c", "shape"], ["y"], name="all"),
    ]
    edits = [
        f"a constant in Concat both is repeated for each of {size}; it was there once",
        f"the shape in Reshape all is {[0 if size == 'n' else 6, 30]}; it was [1, 30]",
    ]
    found = check_rows(graph_of(nodes, [1, 4, 6], [1, 30], arrays), size, edits)
    assert not {"shape", "flat", "rest"} & {*(each.name for each in found.graph.initializer), *dims_of(found)}


@pytest.mark.parametrize("size", [6, "n"])
def test_constants_in_ir_version_3(size: Any) -> None:
    """A shape is a constant there although it is an input as well, and so is the new one."""
    proto = graph_of([NODE("Reshape", ["x:0", "shape"], ["y"], name="flat")], [1, 3, 4], [1, 12], {"shape": [1, 12]}, 3)
    new = [0 if size == "n" else 6, 12]
    found = check_rows(proto, size, [f"the shape in Reshape flat is {new}; it was [1, 12]"])
    assert [value.name for value in found.graph.input] == ["x:0", "shape_2"]
    assert [tensor.name for tensor in found.graph.initializer] == ["shape_2"]


def test_an_axis_behind_others_and_a_shared_constant() -> None:
    """An axis gets -1 where 0 would copy another axis, an Expand 1, and a constant that others use stays for them."""
    nodes = [
        helper.make_node("Transpose", ["x:0"], ["t"], perm=[1, 0, 2]),
        helper.make_node("Reshape", ["t", "shape"], ["r"], name="split"),
        helper.make_node("Transpose", ["r"], ["back"], perm=[2, 0, 1, 3]),
        helper.make_node("Reshape", ["w", "shape"], ["v"], name="weight"),
        helper.make_node("Transpose", ["v"], ["u"], perm=[2, 0, 1, 3]),
        helper.make_node("Expand", ["back", "wide"], ["e"], name="widen"),
        helper.make_node("Expand", ["e", "wide"], ["y"], name="again"),
    ]
    proto = model(nodes, dims=(2, 6, 4), shape=(2, 3, 2, 4))
    del proto.graph.value_info[:]
    proto.graph.initializer.append(numpy_helper.from_array(np.array([2, 2, 3, 4], "int64"), "wide"))
    proto.graph.initializer.append(numpy_helper.from_array(np.zeros((6, 2, 4), "float32"), "w"))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [2, 2, 3, 4]))
    found, done = set_dims(proto, {"x:0:0": "n"})
    edits = [edit.detail for edit in done.edits if edit.detail.startswith("the shape in")]
    assert edits == [
        "the shape in Reshape split is [2, 3, -1, 4]; it was [2, 3, 2, 4]",
        "the shape in Expand widen is [1, 2, 3, 4]; it was [2, 2, 3, 4]",
        "the shape in Expand again is [1, 2, 3, 4]; it was [2, 2, 3, 4]",
    ]
    assert {tensor.name for tensor in found.graph.initializer} == {"shape", "shape_2", "wide_2", "wide_3", "w"}
    x = np.random.default_rng(0).random((6, 6, 4), "float32")
    rows = [computed(proto, x[start : start + 2]) for start in (0, 2, 4)]
    np.testing.assert_array_equal(computed(found, x), np.concatenate(rows))


def test_a_model_that_contradicts_itself_already() -> None:
    """A shape that was wrong before is no reason to refuse another dim: it is told, and inferred again."""
    proto = model()
    proto.graph.value_info[0].type.tensor_type.shape.dim[2].dim_value = 5
    before = formats.from_onnx(proto)
    new = copied(before)
    done = set_dims_in(new, {"batch": 1}, before)
    assert dims_of(formats.to_onnx(new))["r"] == [1, "seq", 4]
    assert [loss.detail for loss in done.losses] == ["the stated shape of r was wrong, and is inferred again"]


def test_a_stated_output_that_is_wrong() -> None:
    """An output of another size than it has is told as a change of the interface, and gets its size."""
    proto = model([helper.make_node("Relu", ["x:0"], ["y"])])
    del proto.graph.value_info[:]
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [7, "seq", 4]))
    found, done = set_dims(proto, {"batch": 2})
    assert dims_of(found)["y"] == [2, "seq", 4]
    assert [loss.detail for loss in done.losses if loss.matters] == [
        "the stated shape of y was wrong, and is inferred again"
    ]


@pytest.mark.parametrize("size", [3, "batch"])
def test_a_dim_of_minus_one_is_not_known(size: Any) -> None:
    """A dim that an exporter wrote as -1 is an unknown one, everywhere."""
    proto = model(
        [helper.make_node("Concat", ["x:0", "x:0"], ["c"], axis=0), helper.make_node("Relu", ["c"], ["y"])],
        dims=(-1, 5, 4),
    )
    proto.graph.value_info[0].CopyFrom(helper.make_tensor_value_info("c", FLOAT, [-1, 5, 4]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, [-1, 5, 4]))
    found, done = set_dims(proto, {"x:0:0": size})
    doubled = 6 if size == 3 else None
    assert dims_of(found) == {"x:0": [size, 5, 4], "c": [doubled, 5, 4], "y": [doubled, 5, 4]}
    assert done.edits[0].detail == f"axis 0 of x:0 is {size}; it was unknown"
    assert not done.losses


@pytest.mark.parametrize(("sides", "bins"), [(None, 5), (1, 5), (0, 8)])
def test_the_bins_of_a_spectrum(sides: int | None, bins: int) -> None:
    """A STFT that does not state `onesided` has one side, as ONNX says and onnx 1.23 does not infer."""
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    if sides is not None:
        node.attribute.append(helper.make_attribute("onesided", sides))
    weights = [numpy_helper.from_array(np.array(size, "int64"), name) for name, size in (("step", 4), ("length", 8))]
    values = [
        helper.make_tensor_value_info("x", FLOAT, [1, "n", 1]),
        helper.make_tensor_value_info("y", FLOAT, [None] * 4),
    ]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    new = copied(before := formats.from_onnx(proto))
    set_dims_in(new, {"n": 16}, before)
    assert dims_of(formats.to_onnx(new))["y"] == [1, 3, bins, 2]


def test_without_onnx() -> None:
    """Without onnx, what an axis contradicts is dropped, and told; a dim is set everywhere as with it."""
    proto = model()
    before = formats.from_onnx(proto)
    new = copied(before)
    with mock.patch.dict(sys.modules, {"onnx": None, "onnx.shape_inference": None}):
        done = set_dims_in(new, {"x:0:0": 2}, before)
    assert dims_of(formats.to_onnx(new)) == {"x:0": [2, "seq", 4], "y": [None, "4*seq"]}
    assert [loss.kind for loss in done.losses] == ["shape", "value_info"]
    assert done.losses[0].matters
    assert "pip install" in done.losses[0].detail


@pytest.mark.parametrize(
    ("old", "expected"),
    [("batch", [None, 1000, "seq"]), (None, [None, 1000, "seq"]), ("(N+1)//2", [None, 1000, "seq"]), (3, [None] * 3)],
)
def test_a_dim_that_does_not_depend_on_the_axis_stays(old: Any, expected: list[Any]) -> None:
    """Where onnx infers nothing, what the model said of every size stays; what it said of one size does not."""
    nodes = [helper.make_node("Own", ["x"], ["y"], domain="me"), helper.make_node("Own", ["y"], ["z"], domain="me")]
    dims = [None if old is None else old, 1000, "seq"]
    values = [helper.make_tensor_value_info(name, FLOAT, dims) for name in ("x", "z", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:2], value_info=values[2:])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("me", 1)]
    before = formats.from_onnx(helper.make_model(graph, opset_imports=sets, ir_version=8))
    new = copied(before)
    done = set_dims_in(new, {"x:0": 2}, before)
    assert dims_of(formats.to_onnx(new)) == {"x": [2, 1000, "seq"], "z": expected}
    told = [loss.detail for loss in done.losses if loss.kind == "shape"]
    assert told == ["the dims of the output z are not known any more"] * (old is not None)


def test_names_that_look_generated_stay() -> None:
    """A dim whose name an older inference of onnx made is as known as any other."""
    proto = model([helper.make_node("Relu", ["x:0"], ["y"])], dims=("batch", "unk__3"))
    del proto.graph.value_info[:]
    proto.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "unk__3"
    found, done = set_dims(proto, {"x:0:0": 2})
    assert dims_of(found) == {"x:0": [2, "unk__3"], "y": [2, "unk__3"]}
    assert not done.losses


def test_shapes_in_subgraphs_are_inferred_again() -> None:
    """Shapes in a subgraph that follow from the axis are inferred again, and others are not touched."""

    def branch(name: str, shape: list[Any]) -> onnx.GraphProto:
        values = [helper.make_tensor_value_info(each, FLOAT, shape) for each in (f"{name}/a", f"{name}/b")]
        nodes = [helper.make_node("Relu", ["x:0" if name == "t" else "w"], [f"{name}/a"])]
        nodes.append(helper.make_node("Relu", [f"{name}/a"], [f"{name}/b"]))
        return helper.make_graph(nodes, name, [], values[1:], value_info=values[:1])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch("t", [3, 4]), else_branch=branch("t", [3, 4]))
    other = helper.make_node("If", ["c"], ["z"], then_branch=branch("u", [7]), else_branch=branch("u", [7]))
    inputs = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in (("x:0", [3, 4]), ("w", [7]))]
    inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    outputs = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in (("y", [3, 4]), ("z", [7]))]
    graph = helper.make_graph([node, other], "g", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found, done = set_dims(proto, {"x:0:0": 5})
    shapes = [
        [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for node in found.graph.node
        for attribute in node.attribute
        for value in (*attribute.g.output, *attribute.g.value_info)
    ]
    assert shapes == [[5, 4]] * 4 + [[7]] * 4
    assert dims_of(found)["y"] == [5, 4]
    assert not done.losses


def test_a_dim_without_a_possible_size_is_told() -> None:
    """A computed dim that would be negative is not known any more, and the report says so."""
    proto = model(dims=("batch", "seq", "seq - 5"))
    _, done = set_dims(proto, {"seq": 3})
    assert [loss.detail for loss in done.losses] == [
        "the dim seq - 5 has no possible size now, and is not known any more"
    ]
    assert done.losses[0].matters


def test_names_in_subgraphs_functions_and_types() -> None:
    """A dim is set in the types of subgraphs, functions, sequences and attributes."""
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["batch"]))
    branch = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["b"])], "b", [], [helper.make_value_info("b", kind)]
    )
    other = helper.make_graph(
        [helper.make_node("Identity", ["s"], ["c"])], "c", [], [helper.make_value_info("c", kind)]
    )
    node = helper.make_node("If", ["i"], ["t"], then_branch=branch, else_branch=other)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_value_info("s", kind), helper.make_tensor_value_info("i", TensorProto.BOOL, [])],
        [helper.make_value_info("t", kind)],
    )
    function = helper.make_function(
        "own", "F", ["a"], ["b"], [helper.make_node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    function.value_info.append(helper.make_tensor_value_info("b", FLOAT, ["batch"]))
    proto = helper.make_model(
        graph, functions=[function], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    )
    proto.ir_version = 10
    found, done = set_dims(proto, {"batch": 3})
    assert "batch" not in str(found)
    assert str(found).count("dim_value: 3") == 5
    assert done.edits[0].detail == "batch is 3, in 5 places"


@pytest.mark.parametrize(
    "text,words,value,expected",
    [
        ("batch", {"batch"}, 3, 3),
        ("2*batch", {"batch"}, 3, 6),
        ("(batch - 1)//2 + 1", {"batch"}, 5, 3),
        ("batch*seq", {"batch", "seq"}, 2, "2*seq"),
        ("Max(1, batch)", {"batch"}, 0, 1),
        ("batch - 5", {"batch"}, 3, None),
        ("batch//0", {"batch"}, 3, None),
        ("batch*9000000000*9000000000", {"batch"}, 3, None),
        ("9" * 30 + "*batch", {"9" * 30 + "*batch"}, 3, "9" * 30 + "*batch"),
        ("-".join(["batch"] * 200), {"-".join(["batch"] * 200)}, 3, "-".join(["batch"] * 200)),
        ("batch**2", {"batch**2"}, 3, "batch**2"),
        ("a b", {"a b"}, 3, "a b"),
        ("unk__1", {"unk__1"}, 3, "unk__1"),
        ("é*batch", {"é*batch"}, 3, "é*batch"),
        ("batch+ſ", {"batch+ſ"}, 3, "batch+ſ"),
        ("1if batch else 3", {"1if batch else 3"}, 3, "1if batch else 3"),
        ('batch+"\\\x1b"', {'batch+"\\\x1b"'}, 3, 'batch+"\\\x1b"'),
        ("batch+\n1", {"batch+\n1"}, 3, "batch+\n1"),
        ("0777*batch", {"0777*batch"}, 3, "0777*batch"),
    ],
)
def test_computed_dims(text: str, words: set[str], value: int, expected: Any) -> None:
    """A dim that is computed from another one follows it; what is no plain computation is just a name."""
    assert names_in_dim(text) == words
    assert replaced(text, "batch", value) == expected


def test_a_name_with_a_hyphen_is_a_name() -> None:
    """A text is computed from others only if all of them are dims of the model."""
    proto = model(dims=("batch", "seq", "past-seq"))
    found, _ = set_dims(proto, {"seq": 3})
    assert dims_of(found)["x:0"] == ["batch", 3, "past-seq"]


@pytest.mark.parametrize("layout,opset", [(0, 11), (0, 17), (1, 17)])
def test_states_of_another_batch_are_a_contradiction(layout: int, opset: int) -> None:
    """A recurrent node whose first states have the old batch size is an error, which onnx does not find."""
    x = [2, 3, 4] if layout else [3, 2, 4]
    tensors = {"w": [1, 20, 4], "r": [1, 20, 5], "h": [2, 1, 5] if layout else [1, 2, 5]}
    weights = [numpy_helper.from_array(np.zeros(dims, "float32"), name) for name, dims in tensors.items()]
    node = helper.make_node("LSTM", ["x", "w", "r", "", "", "h"], ["y"], name="n", hidden_size=5)
    if layout:
        node.attribute.append(helper.make_attribute("layout", 1))
    values = [helper.make_tensor_value_info("x", FLOAT, x), helper.make_tensor_value_info("y", FLOAT, [None] * 4)]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    with pytest.raises(formats.EditError, match="LSTM n has a batch of 1 in x and of 2 in h"):
        set_dims(proto, {f"x:{0 if layout else 1}": 1})


@pytest.mark.parametrize("op_type", ["Add", "Where", "Concat", "GatherElements"])
def test_constants_of_the_old_size_are_told(op_type: str) -> None:
    """A constant with the old size that must fit a value which follows from the axis is told: onnx may stretch it."""
    inputs = {"Where": ["c", "x", "w"], "GatherElements": ["x", "i"]}.get(op_type, ["x", "w"])
    arrays = {"w": np.ones((2, 3), "float32"), "c": np.ones((2, 3), "bool"), "i": np.zeros((2, 3), "int64")}
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items() if name in inputs]
    node = helper.make_node(op_type, inputs, ["y"], name="n")
    if op_type in ("Concat", "GatherElements"):
        node.attribute.append(helper.make_attribute("axis", 0))
    values = [helper.make_tensor_value_info("x", FLOAT, [2, 3]), helper.make_tensor_value_info("y", FLOAT, [None, 3])]
    graph = helper.make_graph([node], "g", values[:1], values[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    _, done = set_dims(proto, {"x:0": 1})
    assert [loss.detail for loss in done.losses if loss.matters] == [
        "n may still need the old size, so the model may fail or compute something else: run it"
    ]


def test_a_function_called_in_subgraphs_does_not_stand_in_the_way() -> None:
    """A dim is set where a function is called twice in a subgraph, of which onnx follows the data with an error."""
    calls = [
        helper.make_node("F", ["w", "w"], ["a"], domain="own"),
        helper.make_node("F", ["a", "w"], ["b"], domain="own"),
        helper.make_node("Add", ["b", "x"], ["c"]),
    ]
    branch = helper.make_graph(calls, "b", [], [helper.make_tensor_value_info("c", 1, None)])
    choice = helper.make_node("If", ["first"], ["y"], then_branch=branch, else_branch=branch)
    body = [helper.make_node("Mul", ["w", "x"], ["u"]), helper.make_node("Sub", ["u", "x"], ["y"])]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["w", "x"], ["y"], body, sets[:1])
    values = [helper.make_tensor_value_info("x", 1, ["n"]), helper.make_tensor_value_info("first", 9, [])]
    weight = helper.make_tensor("w", 1, [1], [2.0])
    graph = helper.make_graph([choice], "g", values, [helper.make_tensor_value_info("y", 1, ["n"])], [weight])
    proto = helper.make_model(graph, functions=[function], opset_imports=sets, ir_version=8)
    new = formats.loads(proto.SerializeToString()).edit(dim={"n": 2})
    assert new.graph is not None
    assert new.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 2
