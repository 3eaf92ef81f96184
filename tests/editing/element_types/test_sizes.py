"""float16 changes no size, count, index or position that a model computes in float32, and no sum of many numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import formats
from formats.editing.element_types import exact_numbers

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node
CONSTANTS = {
    "one": np.array(1),
    "zero": np.array(0),
    "axis": np.array([0]),
    "step": np.array([1]),
    "hop": np.array(160, "float32"),
    "twice": np.array([1, 2], "float32"),
    "half": np.array(0.5, "float32"),
    "table": np.arange(50000, dtype="float32")[:, None] / 50000,
    "shift": np.array(2049.0, "float32"),
}
LENGTH = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["l"])]
POSITIONS = [*LENGTH, node("Range", ["zero", "l", "one"], ["p"]), node("Cast", ["p"], ["f"], to=FLOAT)]
FLOORED = [node("Floor", ["m"], ["fl"]), node("Cast", ["fl"], ["n"], to=INT64)]
CASES: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...]]] = {
    "frames of sound": (
        [
            *LENGTH,
            node("Cast", ["l"], ["f"], to=FLOAT),
            node("Div", ["f", "hop"], ["m"]),
            *FLOORED,
            node("Unsqueeze", ["n", "axis"], ["nn"]),
            node("Slice", ["x", "axis", "nn", "step"], ["y"]),
        ],
        (1, 160000),
    ),
    "sizes of an interpolation": (
        [
            node("Shape", ["x"], ["s"]),
            node("Cast", ["s"], ["f"], to=FLOAT),
            node("Mul", ["f", "twice"], ["m"]),
            *FLOORED,
            node("Resize", ["x", "", "", "n"], ["y"], mode="nearest"),
        ],
        (1, 2049),
    ),
    "half of the positions": (
        [*POSITIONS, node("Mul", ["f", "half"], ["m"]), *FLOORED, node("Gather", ["x", "n"], ["y"], axis=1)],
        (1, 5000),
    ),
    "positions compared": (
        [*POSITIONS, node("Less", ["f", "shift"], ["c"]), node("Where", ["c", "x", "half"], ["y"])],
        (1, 5000),
    ),
    "angles of positions": (
        [*POSITIONS, node("Sin", ["f"], ["a"]), node("Add", ["x", "a"], ["y"])],
        (1, 5000),
    ),
    "indices that are an input": (
        [node("Abs", ["x"], ["m"]), *FLOORED, node("Gather", ["table", "n"], ["y"])],
        (1, 300),
    ),
    "in a branch": (
        [
            *LENGTH,
            node("Cast", ["l"], ["f"], to=FLOAT),
            node("Greater", ["l", "one"], ["c"]),
            node(
                "If",
                ["c"],
                ["i"],
                then_branch=helper.make_graph(
                    [node("Add", ["f", "one_f"], ["t"]), node("Cast", ["t"], ["ti"], to=INT64)],
                    "then",
                    [],
                    [helper.make_tensor_value_info("ti", INT64, [])],
                ),
                else_branch=helper.make_graph(
                    [node("Identity", ["one"], ["e"])], "else", [], [helper.make_tensor_value_info("e", INT64, [])]
                ),
            ),
            node("Range", ["zero", "i", "one"], ["n"]),
            node("Cast", ["n"], ["y"], to=FLOAT),
        ],
        (1, 2051),
    ),
    "mean of many": (
        [node("ReduceSum", ["x"], ["t"], keepdims=1), node("Div", ["t", "count"], ["y"])],
        (1, 300000),
    ),
}


def model(name: str) -> onnx.ModelProto:
    """The model of a case, with all types stated."""
    nodes, dims = CASES[name]
    constants = {**CONSTANTS, "one_f": np.array(1, "float32"), "count": np.array(300000, "float32")}
    used = {each for made in nodes for each in made.input} | {"one_f", "one"}
    weights = [numpy_helper.from_array(value, key) for key, value in constants.items() if key in used]
    x = helper.make_tensor_value_info("x", FLOAT, dims)
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", FLOAT, None)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def halved(proto: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
    """The model in float16."""
    return onnx.load_from_string(formats.dumps(formats.from_onnx(proto), "onnx", dtype="float16", **options))


def fed(name: str) -> np.ndarray[Any, Any]:
    """Numbers for the input: indices beyond what float16 counts, or between 0 and 1."""
    dims = CASES[name][1]
    if "indices" in name:
        return (np.arange(np.prod(dims), dtype="float32") * 163 + 1).reshape(dims)
    return np.random.default_rng(7).random(dims, "float32")


@pytest.mark.parametrize("keep_io_types", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_sizes_stay(name: str, keep_io_types: bool) -> None:
    """What decides a shape, an index or a comparison is computed in float32, also if the interface becomes float16."""
    proto = model(name)
    half = halved(proto, keep_io_types=keep_io_types)
    given = {1: "float32", 10: "float16"}[half.graph.input[0].type.tensor_type.elem_type]
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": fed(name)})
    (found,) = ReferenceEvaluator(half).run(None, {"x": fed(name).astype(given)})
    assert wanted.shape == found.shape
    np.testing.assert_allclose(found.astype("float32"), wanted, rtol=2e-3, atol=2e-3)


def test_an_input_of_indices_keeps_its_type() -> None:
    """An input that is nothing but a source of integers stays float32: float16 could not hold its numbers."""
    half = onnx.load_from_string(
        formats.dumps(formats.from_onnx(model("indices that are an input")), "onnx", dtype="float16")
    )
    assert [FLOAT] == [value.type.tensor_type.elem_type for value in half.graph.input]
    assert [TensorProto.FLOAT16] == [value.type.tensor_type.elem_type for value in half.graph.output]


def test_what_computes_with_data_becomes_float16() -> None:
    """An operator on the way from a product to an integer is no size: nothing stays in float32 for it."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"]),
        node("Mul", ["m", "half"], ["s"]),
        node("Cast", ["s"], ["y"], to=INT64),
    ]
    weights = [
        numpy_helper.from_array(np.eye(4, dtype="float32"), "w"),
        numpy_helper.from_array(CONSTANTS["half"], "half"),
    ]
    ends = [helper.make_tensor_value_info("x", FLOAT, [2, 4]), helper.make_tensor_value_info("y", INT64, [2, 4])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    half = halved(proto)
    assert ["MatMul", "Mul", "Cast"] == [each.op_type for each in half.graph.node]


@pytest.mark.parametrize("keep", ["MatMul", "/head/*", ("Mul", "/head/m")])
def test_nodes_that_the_caller_keeps(keep: Any) -> None:
    """Operators and nodes can be named, also by patterns, and then compute in float32; a name of none is an error."""
    nodes = [
        node("MatMul", ["x", "w"], ["m"], name="/head/m"),
        node("Mul", ["m", "half"], ["y"], name="/tail/s"),
    ]
    constants = {"w": np.eye(4, dtype="float32"), "half": CONSTANTS["half"]}
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    ends = [helper.make_tensor_value_info(name, FLOAT, [2, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    types = {weight.name: weight.data_type for weight in halved(proto, keep=keep).graph.initializer}
    assert FLOAT == types["w"]
    assert (TensorProto.FLOAT16 if isinstance(keep, str) else FLOAT) == types["half"]
    with pytest.raises(formats.FormatError, match="no operator or node is called 'MatMull'; did you mean MatMul"):
        halved(proto, keep="MatMull")


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_work_grows_with_what_a_loop_carries(is_reversed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Loop that moves each of many values to the next one takes as much work as it has values, not the square."""
    taken = 0
    origin = exact_numbers.ExactNumbers._most

    def counted(self: exact_numbers.ExactNumbers, values: Sequence[exact_numbers.Value]) -> exact_numbers.Origin:
        nonlocal taken
        taken += 1
        return origin(self, values)

    monkeypatch.setattr(exact_numbers.ExactNumbers, "_most", counted)
    counts = []
    for size in (20, 160):
        names = [f"x{index}" for index in range(size)]
        moved = ["p", *names[:-1]] if is_reversed else [*names[1:], "p"]
        body = formats.Graph(
            node=[formats.Node(["i"], ["p"], op_type="Cast"), formats.Node(["c"], ["d"], op_type="Identity")],
            input=[formats.ValueInfo(name) for name in ("i", "c", *names)],
            output=[formats.ValueInfo(name) for name in ("d", *moved)],
        )
        results = [f"y{index}" for index in range(size)]
        loop = formats.make_node("Loop", ["m", "", *["z"] * size], results, body=body)
        end = formats.make_node("Cos", [results[-1 if is_reversed else 0]], ["y"])
        graph = formats.Graph(node=[loop, end], input=[formats.ValueInfo("z")])
        taken = 0
        found = exact_numbers.ExactNumbers(graph, lambda value: value[1] not in ("i", "c", "d", "m"))
        counts.append(taken)
        assert {value[1] for value in found.used} >= {*names, "p", "z"} and id(end) in found.nodes
    assert counts[1] < 10 * counts[0]
