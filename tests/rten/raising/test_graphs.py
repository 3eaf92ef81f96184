"""Models in RTen's form become models of ONNX's operators."""

from __future__ import annotations

import contextlib
import io
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
import onnx
import pytest

import formats
from formats.errors import EncodeError
from formats.ir.dtypes import DATA_TYPES
from formats.ir.model import Model, OperatorSetId, StringStringEntry, Tensor, ValueInfo
from formats.ir.walk import graphs, nodes
from formats.onnxpb.codecs import CODEC as ONNX
from formats.onnxpb.options import OnnxOptions
from formats.rten import CODEC
from formats.rten.graph.attributes import make_node
from formats.rten.raising.model import raise_model
from formats.rten.spec import RTEN_DOMAIN
from formats.rten.types import HOLDERS
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.corpus import backend_cases
from tests.rten.evaluation import difference, evaluate

FLOAT, UINT8, INT32, INT64, BOOL = 1, 2, 6, 7, 9
TOLERANCES = {"fp16": 1e-2, "qdq8": 5e-2, "dynq8": 5e-2}


def native(graph, **fields):
    """Return a model in RTen's form."""
    for _, node in nodes(graph):
        node.domain = RTEN_DOMAIN
    return Model(opset_import=[OperatorSetId(domain=RTEN_DOMAIN, version=1)], graph=graph, **fields)


def raised_graph(graph, **pin_types):
    """Return the graph in ONNX, which is valid."""
    model = raise_model(native(graph), pin_types).model
    onnx.checker.check_model(onnx.load_from_string(to_onnx(model)), full_check=True)
    return model.graph


def to_onnx(model):
    """Return the .onnx file of a model."""
    return to_bytes(ONNX.plan(model, Path("m.onnx"), OnnxOptions()))


def op_types(graph):
    """Return the operators of a graph, in order."""
    return [node.op_type for node in graph.node]


def elem_types(values):
    """Return the element type of each value."""
    return [value.type.tensor_type.elem_type for value in values]


def losses(graph, kind):
    """Return the descriptions of the losses of one kind."""
    return [loss.detail for loss in raise_model(native(graph)).losses if loss.kind == kind]


# Types

INTERFACE = [
    make_node("Shape", ["x"], ["s"]),
    make_node("Equal", ["x", "x"], ["e"]),
    make_node("Expand", ["x", "n"], ["y"]),
]


def test_truth_values_stay_truth_values(make):
    """Between comparisons and conditions, no Cast is inserted."""
    branch = make.graph([make_node("And", ["a", "b"], ["c"])], outputs=["c"])
    graph = make.graph(
        [
            make_node("Greater", ["x", "k"], ["a"]),
            make_node("Equal", ["a", "truths"], ["b"]),
            make_node("ReduceMax", ["x"], ["m"], keepdims=0),
            make_node("IsNaN", ["m"], ["d"]),
            make_node("If", ["d"], ["e"], then_branch=branch, else_branch=deepcopy(branch)),
            make_node("Unsqueeze", ["e", "zero"], ["f"]),
            make_node("Where", ["f", "x", "k"], ["y"]),
        ],
        [make.value("x", FLOAT, [3])],
        [make.value("y", FLOAT, [1, 3])],
        [make.tensor("k", [0.5]), make.tensor("truths", [0, 1, 1], "int32"), make.tensor("zero", [0], "int32")],
    )
    graph = raised_graph(graph)
    assert ["Greater", "Equal", "ReduceMax", "IsNaN", "If", "Unsqueeze", "Where"] == op_types(graph)
    assert {"k": FLOAT, "truths": BOOL, "zero": INT64} == {t.name: t.data_type for t in graph.initializer}


def test_shapes_stay_int64(make):
    """Between Shape and Reshape, no Cast is inserted, whatever operators are between them."""
    graph = make.graph(
        [
            make_node("Shape", ["x"], ["s"]),
            make_node("Gather", ["s", "i"], ["a"]),
            make_node("Mul", ["a", "two"], ["b"]),
            make_node("Concat", ["b", "two", "minus"], ["t"], axis=0),
            make_node("Reshape", ["x", "t"], ["y"]),
        ],
        [make.value("x", FLOAT, [4, 6])],
        [make.value("y", FLOAT, [8, 2, None])],
        [make.tensor(name, [value], "int32") for name, value in (("i", 0), ("two", 2), ("minus", -1))],
    )
    graph = raised_graph(graph)
    assert ["Shape", "Gather", "Mul", "Concat", "Reshape"] == op_types(graph)
    assert [INT64] * 3 == [tensor.data_type for tensor in graph.initializer]


def test_constants_have_a_name_in_each_type(make):
    """A constant that is used as an index and as a number is stored twice, once in each type."""
    graph = make.graph(
        [
            make_node("Gather", ["x", "k"], ["a"]),
            make_node("Add", ["a", "k"], ["b"]),
            make_node("And", ["b", "k"], ["c"]),
            make_node("Not", ["c"], ["y"]),
        ],
        [make.value("x", INT32, [9])],
        [make.value("y", INT32, [3])],
        [make.tensor("k", [0, 7, -3], "int32"), make.tensor("unused", [1.0])],
    )
    graph = raised_graph(graph)
    assert [("k", INT64), ("k/int32", INT32), ("k/bool", BOOL)] == [(t.name, t.data_type) for t in graph.initializer]
    assert [[0, 7, -3], [0, 7, -3], [False, True, True]] == [tensor.numpy().tolist() for tensor in graph.initializer]


def test_bounds_of_slices_stay_unbounded(make):
    """The least and greatest integer become those of 64 bits if they are bounds of slices, and only there."""
    low, high = -(2**31), 2**31 - 1
    graph = make.graph(
        [make_node("Slice", ["x", "starts", "ends", "axes"], ["a"]), make_node("Add", ["a", "ends"], ["y"])],
        [make.value("x", INT32, [5, 2])],
        [make.value("y", INT32, [5, 2])],
        [make.tensor(n, v, "int32") for n, v in (("starts", [low, 1 - 2]), ("ends", [high, high]), ("axes", [0, 1]))],
    )
    constants = {tensor.name: tensor.numpy().tolist() for tensor in raised_graph(graph).initializer}
    assert {
        "starts": [-(2**63), -1], "ends": [2**63 - 1] * 2, "axes": [0, 1], "ends/int32": [high] * 2
    } == constants  # fmt: skip


def test_interface_has_the_types_of_rten(make):
    """Inputs and outputs are INT32 if they are in RTen, with Casts to and from the types of the operators."""
    graph = make.graph(
        [
            make_node("Shape", ["x"], ["s"]),
            make_node("Equal", ["x", "x"], ["e"]),
            make_node("Expand", ["x", "n"], ["y"]),
        ],
        [make.value("x", UINT8, [2, 2]), make.value("n", INT32, [3])],
        [make.value("s", INT32, [2]), make.value("e", INT32, [2, 2]), make.value("y", UINT8, ["a", 2, 2])],
    )
    raised = raised_graph(graph)
    assert [UINT8, INT32] == elem_types(raised.input)
    assert [INT32, INT32, UINT8] == elem_types(raised.output)
    assert ["Shape", "Cast", "Equal", "Cast", "Cast", "Expand"] == op_types(raised)
    assert ["x", "n", "s", "e", "y"] == [value.name for value in (*raised.input, *raised.output)]


def test_pinned_types_need_no_casts(make):
    """Inputs and outputs whose types are pinned to those of the operators need no Cast; others get one."""
    graph = make.graph(
        [
            make_node("Shape", ["x"], ["s"]),
            make_node("Equal", ["x", "x"], ["e"]),
            make_node("Expand", ["x", "n"], ["y"]),
        ],
        [make.value("x", FLOAT, [2, 2]), make.value("n", INT32, [3])],
        [make.value("s", INT32, [2]), make.value("e", INT32, [2, 2]), make.value("y", FLOAT, ["a", 2, 2])],
    )
    raised = raised_graph(graph, n="int64", s="INT64", e="bool")
    assert ["Shape", "Equal", "Expand"] == op_types(raised)
    assert [FLOAT, INT64, INT64, BOOL, FLOAT] == elem_types((*raised.input, *raised.output))
    raised = raised_graph(graph, n="int16", x="bfloat16", y="float64")
    assert [16, 5, INT32, INT32, 11] == elem_types((*raised.input, *raised.output))
    assert 6 == op_types(raised).count("Cast")


@pytest.mark.parametrize(
    ("pins", "message"),
    [
        ({"z": "int64"}, "no input or output is called 'z'; the names are x, y$"),
        ({"x": "int65"}, "'x' cannot be pinned to 'int65'; the types are float32, uint8"),
        ({"x": "string"}, "'x' cannot be pinned to 'string'"),
        ({"x": "float32"}, "graph.input.0.: 'x' is INT32 and cannot be pinned to FLOAT"),
        ({"y": "uint8"}, "graph.output.0.: 'y' is INT32 and cannot be pinned to UINT8"),
    ],
)
def test_impossible_pins_are_refused(make, pins, message):
    """A pinned type that does not exist or has other values, or a pinned name that does not exist, is refused."""
    graph = make.graph([make_node("Neg", ["x"], ["y"])], [make.value("x", INT32, [2])], [make.value("y", INT32, [2])])
    with pytest.raises(EncodeError, match=message):
        raise_model(native(graph), pins)


def test_loops_keep_the_places_of_what_is_omitted(make):
    """A loop that only counts has two inputs in ONNX, even if its file ends after the first."""
    body = make.graph([make_node("Add", ["i", "i"], ["e"])], ["i", "c"], ["c", "e"])
    nodes = [make_node("Loop", ["n"], ["y"], body=body)]
    graph = raised_graph(make.graph(nodes, [], [make.value("y", 6, [2])], [make.tensor("n", 2, "int32")]))
    assert ["n", ""] == graph.node[0].input


def test_inputs_without_type_are_known_by_their_use(make):
    """If a file does not say the type of an input, the operators that use it do, even through other operators."""
    body = make.graph([make_node("SequenceAt", ["q", "i"], ["e"])], ["i", "c", "q"], ["c", "q", "e"])
    graph = make.graph(
        [
            make_node("Transpose", ["a"], ["at"]),
            make_node("Reshape", ["t", "at"], ["r"]),
            make_node("Add", ["b", "k"], ["bk"]),
            make_node("Identity", ["c"], ["ci"]),
            make_node("SequenceInsert", ["ci", "u"], ["s"]),
            make_node("Loop", ["n", "", "l"], ["m", "p"], body=body),
            make_node("Tanh", ["d"], ["y"]),
        ],
        [make.value("t", FLOAT, [4]), make.value("u", UINT8, [4]), *map(ValueInfo, ["a", "b", "c", "d", "l"])],
        [*map(ValueInfo, ["r", "bk", "s", "m", "y"])],
        [make.tensor("k", [1], "int8"), make.tensor("n", 1, "int32")],
    )
    for value in (*body.input, *body.output):
        value.type = None
    model, lost = raise_model(native(graph))
    kinds = {value.name: value.type for value in (*model.graph.input, *model.graph.output)}
    assert {"t": 1, "u": 2, "a": 6, "b": 3, "d": 1, "r": 1, "bk": 3, "y": 1} == {
        name: kind.tensor_type.elem_type for name, kind in kinds.items() if kind.tensor_type
    }
    assert {"c": 2, "l": 1, "s": 2, "m": 1} == {
        name: kind.sequence_type.elem_type.tensor_type.elem_type for name, kind in kinds.items() if kind.sequence_type
    }
    assert ["inputs of unknown type are taken to be float32 (d, l)"] == [
        loss.detail for loss in lost if loss.kind == "assumed_type"
    ]


def test_unknown_dims_have_neither_size_nor_name(make):
    """Placeholders of other writers for unknown dimensions are not kept; computed dimensions are written."""
    graph = make.graph(
        [make_node("Neg", ["x"], ["y"])],
        [make.value("x", FLOAT, [0, "unknown", "n", 4])],
        [make.value("y", FLOAT, ["unknown", 2, 0, 4])],
    )
    raised = raised_graph(graph)
    shapes = [
        [(dim.dim_value, dim.dim_param) for dim in value.type.tensor_type.shape.dim]
        for value in (*raised.input, *raised.output)
    ]
    assert [(None, None), (None, None), (None, "n"), (4, None)] == shapes[0]
    assert [(None, None), (2, None), (None, "n"), (4, None)] == shapes[1]


# Names, order and other parts of a graph


def test_names_of_subgraphs_are_their_own(make):
    """A value of a subgraph never has the name of an outer value, even if that is created later."""
    branch = make.graph([make_node("Neg", ["x"], ["y"]), make_node("Abs", ["k"], ["z"])], outputs=["y"])
    branch.initializer.append(make.tensor("k", [1.0]))
    branch.node[1].input, branch.node[1].output = ["y"], ["late"]
    branch.output[0].name = "late"
    graph = make.graph(
        [
            make_node("If", ["c"], ["y"], then_branch=branch, else_branch=make.graph(outputs=["x"])),
            make_node("Add", ["y", "k"], ["late"]),
        ],
        [make.value("c", INT32, []), make.value("x", FLOAT, [2])],
        [make.value("late", FLOAT, [2])],
        [make.tensor("k", [2.0])],
    )
    data = to_onnx(raise_model(native(graph)).model)
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    for condition, wanted in ((1, [5, 6]), (0, [5, -2])):
        inputs = {"c": np.array(condition), "x": np.array([3, -4], np.float32)}
        assert [wanted] == [output.tolist() for output in evaluate(data, inputs)]


def test_names_of_nodes_are_unique(make):
    """Nodes that share a name get numbers; a node that becomes several gives its name to the last of them."""
    graph = make.graph(
        [make_node("Neg", ["x"], ["a"]), make_node("Sum", ["a", "x", "x"], ["b"]), make_node("Abs", ["b"], ["y"])],
        [make.value("x", INT32, [1])],
        [make.value("y", INT32, [1])],
    )
    for node in graph.node[:2]:
        node.name = "same"
    assert ["same", None, "same_1", None] == [node.name for node in raised_graph(graph).node]


def test_nodes_are_put_in_order(make):
    """RTen allows operators in any order, ONNX does not, so they are sorted."""
    branch = make.graph([make_node("Identity", ["a"], ["b"])], outputs=["b"])
    graph = make.graph(
        [
            make_node("If", ["c"], ["y"], then_branch=branch, else_branch=deepcopy(branch)),
            make_node("Neg", ["x"], ["a"]),
        ],
        [make.value("c", INT32, []), make.value("x", FLOAT, [2])],
        [make.value("y", FLOAT, [2])],
    )
    assert ["Neg", "Cast", "If"] == op_types(raised_graph(graph))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("Add", ["x", "b"], ["a"]), ("Neg", ["a"], ["b"])], "graph: some of the operators need each other's outputs"),
        ([("Add", ["x", "b"], ["a"])], "graph.node.0..*'b' is used, but nothing produces it"),
        ([("Upsample", ["x"], ["a"])], "graph.node.0..*: the operator Upsample is not well formed"),
        ([("Loop", ["", "", "x"], ["a"])], "graph.node.0..*: Loop has no body"),
    ],
)
def test_broken_graphs_are_refused(make, rows, message):
    """A graph with a cycle, or with an operator that lacks something, is refused with the place."""
    graph = make.graph([make_node(*row) for row in rows], ["x"], [])
    with pytest.raises(EncodeError, match=message):
        raise_model(native(graph))


@pytest.mark.parametrize("data_type", sorted({row.number for row in DATA_TYPES} - {*HOLDERS}))
def test_types_that_rten_does_not_have_are_refused(make, data_type):
    """An input, or a constant that is an output, of a type that RTen does not have is refused with the place."""
    element = r" has elements of type [A-Z0-9]+, which RTen does not have"
    with pytest.raises(EncodeError, match=rf"graph.input.0.: 'x'{element}"):
        raise_model(native(make.graph([], [make.value("x", data_type, [2])], ["x"])))
    with pytest.raises(EncodeError, match=rf"graph.input.0.: 'x'{element}"):  # found by the constant beside it
        graph = make.graph(
            [make_node("Add", ["x", "k"], ["y"])], [ValueInfo("x")], ["y"], [Tensor([], data_type, name="k")]
        )
        raise_model(native(graph))
    with pytest.raises(EncodeError, match=rf"graph.output.0.: 'k'{element}"):
        raise_model(native(make.graph(outputs=["k"], constants=[Tensor([], data_type, name="k")])))


def test_inputs_and_constants_can_be_outputs(make):
    """An input or a constant that is also an output of the model is one in ONNX, too, with its name."""
    graph = make.graph(
        [make_node("Add", ["k", "x"], ["y"])],
        [make.value("x", INT32, [1])],
        [make.value("k", INT32, [1]), make.value("x", INT32, [1]), make.value("h", FLOAT, [1]), make.value("y", INT32)],
        [make.tensor("k", [1], "int32"), make.tensor("h", [0.5])],
    )
    for pins in ({}, {"k": "bool", "x": "int64", "h": "float16"}):
        data = to_onnx(raise_model(native(graph), pins).model)
        assert [[1], [7], [0.5], [8]] == [output.tolist() for output in evaluate(data, {"x": np.array([7])})]


def test_metadata_stay(make):
    """Metadata of the file become properties of the model."""
    properties = [StringStringEntry(key="license", value="MIT"), StringStringEntry(key="onnx_hash", value="12ab")]
    model = raise_model(native(make.graph(outputs=["k"], constants=[make.tensor("k", 1)]), metadata_props=properties))
    assert properties == model.model.metadata_props


def test_the_given_model_is_not_changed(make):
    """Raising makes a new model, which shares the sources of the weights and reads none of them."""

    class Unread(Literal):
        def readinto(self, offset, buffer):
            raise AssertionError("a weight was read")

    weights = make.tensor("w", np.ones((300, 300)), "float32")
    weights.raw_data = Unread(weights.raw_data.data)
    table = make.tensor("t", np.ones((300, 300)), "int32")
    table.raw_data = Unread(table.raw_data.data)
    graph = make.graph(
        [make_node("MatMul", ["x", "w"], ["a"]), make_node("Gather", ["a", "t"], ["y"], axis=1)],
        [make.value("x", FLOAT, [1, 300])],
        [make.value("y", FLOAT, [1, 300, 300])],
        [weights, table],
    )
    model = native(graph)
    before = deepcopy(model)
    raised = raise_model(model).model
    assert raised.graph.initializer[0].raw_data is weights.raw_data
    assert 300 * 300 * 8 == raised.graph.initializer[1].raw_data.nbytes
    for one, other in zip(model.graph.initializer, before.graph.initializer, strict=True):
        one.raw_data = other.raw_data = None
    assert before == model


@pytest.mark.parametrize(
    ("op_type", "attributes", "version", "ir_version"),
    [
        ("Tanh", {}, 21, 10),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 0}, 21, 10),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 1}, 22, 10),
        ("Attention", {}, 24, 12),
    ],
)
def test_versions_are_the_oldest_that_suffice(make, op_type, attributes, version, ir_version):
    """The operator set is 21, which all current programs support, except if an operator needs a later one."""
    names = ["x"] * (3 if op_type == "Attention" else 1)
    node = make_node(op_type, names, ["y"], **attributes)
    model, lost = raise_model(native(make.graph([node], [make.value("x", FLOAT, [1, 2, 3, 4])], ["y"])))
    assert (ir_version, version) == (model.ir_version, model.opset_import[0].version)
    assert ["forgotten"] == [loss.kind for loss in lost if loss.kind != "deviation"]
    assert lost[0].detail.endswith(f"(now {version})")


# Losses


@pytest.mark.parametrize(
    ("op_type", "count", "attributes", "detail"),
    [
        ("Cast", 1, {"to": INT32}, "Cast: floats outside the integers' range"),
        ("Sign", 1, {}, "Sign: RTen returns 1 or -1 for zero"),
        ("Softplus", 1, {}, "Softplus: RTen returns infinity"),
        ("NonMaxSuppression", 2, {}, "NonMaxSuppression: RTen lets boxes of different classes"),
        ("ReduceSum", 1, {"noop_with_empty_axes": 1}, "ReduceSum: RTen's result without axes"),
        ("LSTM", 5, {"hidden_size": 1}, "LSTM: RTen ignores the lengths"),
        ("ConvInteger", 2, {"pads": [0, 1]}, "ConvInteger: RTen does not pad with the zero point"),
        ("MatMul", 2, {}, "MatMul: RTen keeps an axis of size one"),
    ],
)
def test_deviations_are_losses(make, op_type, count, attributes, detail):
    """If RTen computes something else than ONNX, the report has one line for each operator and sentence."""
    rows = [make_node(op_type, ["x", *["v"] * (count - 1)], [name], **attributes) for name in ("a", "b")]
    graph = make.graph(rows, [make.value("x", FLOAT, [1, 2, 3]), make.value("v", FLOAT, [3])], ["a", "b"])
    first, *others = losses(graph, "deviation")
    assert first.startswith(detail)
    assert first.endswith("(a, b)")
    assert not any(other.startswith(detail) for other in others)


@pytest.mark.parametrize(
    ("op_type", "count", "attributes"),
    [
        ("Cast", 1, {"to": INT32}),
        ("Sign", 1, {}),
        ("ReduceSum", 2, {"noop_with_empty_axes": 1}),
        ("Slice", 5, {}),
        ("MatMul", 2, {}),
        ("ConvInteger", 2, {"pads": [0, 0]}),
        ("ConcatFromSequence", 1, {"new_axis": 1, "axis": 0}),
    ],
)
def test_what_is_the_same_is_no_loss(make, op_type, count, attributes):
    """A node that computes the same is not reported, even if its operator can deviate in other nodes."""
    graph = make.graph(
        [make_node(op_type, [*"xyxyx"][:count], ["a"], **attributes)],
        [make.value("x", INT32, [1, 3]), make.value("y", INT32, [3, 1])],
        ["a"],
    )
    told = "sums beyond 32 bits wrap"  # what these numbers can do to any sum
    assert [] == [loss for loss in losses(graph, "deviation") if told not in loss]


def test_interface_of_integers_is_forgotten(make):
    """Inputs and outputs that may have had another type are one line in the report, without the pinned ones."""
    graph = make.graph(
        [make_node("Shape", ["x"], ["y"]), make_node("Neg", ["x"], ["z"])],
        [make.value("x", INT32, [1])],
        [make.value("y", INT32, [1]), make.value("z", INT32, [1])],
    )
    lost = [loss for loss in raise_model(native(graph), {"y": "int32"}).losses if loss.where != "opset_import"]
    assert [("forgotten", "graph.input[0]")] == [(loss.kind, loss.where) for loss in lost]
    assert lost[0].detail.endswith("(x, z)")


# Whole models


def references(path):
    """Return the inputs and the outputs of a shared model."""
    arrays = np.load(path.with_suffix(".npz"))
    inputs = {name.removeprefix("in_"): arrays[name] for name in arrays.files if name.startswith("in_")}
    return inputs, [arrays[f"out_{place}"] for place in range(len(arrays.files) - len(inputs))]


def assert_right(path, data):
    """Fail if a model is invalid or computes something else than the shared model at `path`."""
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    inputs, wanted = references(path)
    tolerance = TOLERANCES.get(path.stem.rpartition(".")[2], 1e-5)
    outputs = evaluate(data, inputs)
    assert [""] * len(wanted) == [difference(*pair, tolerance) for pair in zip(outputs, wanted, strict=True)]


@pytest.mark.sample(3)
def test_shared_models_come_back(shared_model, tmp_path):
    """A model of a real exporter computes the same after conversion to RTen and back, also through .onnxz."""
    formats.convert(shared_model, tmp_path / "a.rten")
    formats.convert(tmp_path / "a.rten", tmp_path / "b.onnx")
    formats.convert(tmp_path / "a.rten", tmp_path / "c.onnxz")
    formats.convert(tmp_path / "c.onnxz", tmp_path / "c.onnx", external_data=False)
    formats.convert(shared_model, tmp_path / "d.rten", rten_version=1)
    formats.convert(tmp_path / "d.rten", tmp_path / "d.onnx")
    data = (tmp_path / "b.onnx").read_bytes()
    assert data == (tmp_path / "d.onnx").read_bytes()
    assert onnx.load_from_string(data) == onnx.load(tmp_path / "c.onnx")
    assert_right(shared_model, data)


@pytest.mark.sample(3)
def test_files_without_types_are_right(shared_model, tmp_path):
    """A file without the types of values, as old files are, gives the same nodes."""
    formats.convert(shared_model, tmp_path / "a.rten")
    model = formats.load(tmp_path / "a.rten")
    typed = raise_model(model).model.graph
    untyped = deepcopy(model)
    for _, graph in graphs(untyped):
        graph.value_info.clear()
        for value in (*graph.input, *graph.output):
            value.type = None
    found, lost = raise_model(untyped)
    assert typed.node == found.graph.node
    assert elem_types(typed.input) == elem_types(found.graph.input)
    assert elem_types(typed.output) == elem_types(found.graph.output)
    assert {"forgotten", "assumed_type", "deviation"} >= {loss.kind for loss in lost}


def converted_by_peer(*arguments):
    """Write rten-convert's file of a model; raise an exception if it refuses the model."""
    converter = pytest.importorskip("rten_convert.converter")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("sys.argv", ["rten-convert", "--no-infer-shapes", *map(str, arguments)])
        converter.main()


# Cases in which RTen and onnxruntime compute the same operator differently, and why they cannot agree.
DIFFERENT_FROM_RTEN = {
    "test_bernoulli_seed_expanded": "random numbers",
    "test_dynamicquantizelinear": "half a step is rounded in float32 after a multiplication with the reciprocal",
    "test_dynamicquantizelinear_expanded": "the same",
    "test_matmul_4d_1d": "an axis of one is left over, which is a loss",
    "test_nonmaxsuppression_flipped_coordinates": "which is a loss",
    "test_nonmaxsuppression_two_batches": "which is a loss",
    "test_nonmaxsuppression_two_classes": "which is a loss",
    "test_resize_downsample_scales_cubic": "RTen 0.25.0 is wrong for scales that are not whole",
    "test_resize_downsample_scales_linear": "RTen 0.25.0 is wrong for scales that are not whole",
    "test_resize_downsample_scales_linear_align_corners": "RTen 0.25.0 is wrong for scales that are not whole",
    "test_sign": "which is a loss",
    "test_training_dropout": "random numbers, in releases that take the third input",
}
STEP = 7  # the step between tested operator tests; 1 was tested once


def test_operators_from_the_other_converter(runtime, tmp_path):
    """For files of rten-convert that run in RTen, onnxruntime computes the same from the ONNX form."""
    source, path = tmp_path / "m.onnx", tmp_path / "m.rten"
    wrong = {}
    count = 0
    for case in backend_cases()[::STEP]:
        source.write_bytes(case.model)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                converted_by_peer(source, path)
            wanted = runtime.run(path, {name: as_rten(value) for name, value in case.inputs.items()})
        except (Exception, SystemExit):
            continue
        data = to_onnx(raise_model(CODEC.read(Literal(path.read_bytes()), path)).model)
        pairs = zip(evaluate(data, case.inputs), wanted, strict=True)
        if text := next((text for pair in pairs if (text := difference(*pair, 1e-4))), ""):
            wrong[case.id] = text
        count += 1
    assert {} == {name: text for name, text in wrong.items() if name not in DIFFERENT_FROM_RTEN}
    assert count > 800 // STEP // 2


def as_rten(value):
    """Return an input in the types of the runtime."""
    if isinstance(value, list):
        return [as_rten(element) for element in value]
    return value.astype(np.int32) if value.dtype in (np.int16, np.uint16, np.uint32, np.uint64) else value
