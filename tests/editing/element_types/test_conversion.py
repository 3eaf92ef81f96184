"""Models that become float16: they are valid, compute the same up to rounding, and what cannot become so is told."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.tensordata.sources.source import Literal
from formats.tensordata.sources.transform import narrowing
from tests.editing.nested_models import nested, small
from tests.editing.test_exported import recorded
from tests.editing.test_exported import run as run_file
from tests.systems import PATIENCE_SECONDS

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16
X = np.array([[1.5, -2], [3, 0.25]], "float32")
KERNEL: dict[str, Any] = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "post_transform": "NONE"}
TYPES = {"tensor(float)": "float32", "tensor(float16)": "float16"}


def model(
    nodes: list[onnx.NodeProto],
    weights: dict[str, Any] | None = None,
    outputs: dict[str, Any] | None = None,
    opset: int = 17,
    x: Any = (2, 2),
) -> onnx.ModelProto:
    """Return a model with the input x, and outputs by name with their dims."""
    tensors = [numpy_helper.from_array(np.asarray(each), name) for name, each in (weights or {}).items()]
    values = [helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in (outputs or {"y": ["a", "b"]}).items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", FLOAT, x)], values, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def run(data: bytes, inputs: dict[str, Any]) -> list[Any]:
    """Return what onnxruntime computes, as float64s; inputs get the types that the model has."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    given = {each.name: inputs[each.name] for each in session.get_inputs()}
    typed = {
        each.name: given[each.name].astype(TYPES.get(each.type, given[each.name].dtype))
        for each in session.get_inputs()
    }
    return [
        each.astype("float64") if isinstance(each, np.ndarray) and each.dtype.kind == "f" else each
        for each in session.run(None, typed)
    ]


def converted(proto: onnx.ModelProto, *, keep_io_types: bool = False) -> onnx.ModelProto:
    """Return the model in float16, which the checker of onnx accepts."""
    new = onnx.load_from_string(
        formats.dumps(formats.from_onnx(proto), "onnx", dtype="float16", keep_io_types=keep_io_types)
    )
    onnx.checker.check_model(new, full_check=True)
    return new


def check(proto: onnx.ModelProto, inputs: dict[str, Any] | None = None, **more: Any) -> onnx.ModelProto:
    """Return the model in float16, after both computed the same up to rounding."""
    new = converted(proto, **more)
    inputs = inputs or {"x": X}
    before, after = (run(each.SerializeToString(), inputs) for each in (proto, new))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(other, one, rtol=4e-3, atol=4e-3)
    return new


def types(proto: onnx.ModelProto) -> dict[str, int]:
    """Return the types of all inputs, outputs, and initializers of the main graph."""
    found = {each.name: each.type.tensor_type.elem_type for each in (*proto.graph.input, *proto.graph.output)}
    return found | {each.name: each.data_type for each in proto.graph.initializer}


def test_all_becomes_float16() -> None:
    """Weights, inputs and outputs become float16."""
    assert types(check(small())) == {"x": FLOAT16, "y": FLOAT16, "w": FLOAT16}


def test_the_interface_stays_on_request() -> None:
    """With `keep_io_types`, inputs and outputs stay float32, and are cast behind and before them."""
    new = check(small(), keep_io_types=True)
    assert types(new) == {"x": FLOAT, "y": FLOAT, "w": FLOAT16}
    assert [node.op_type for node in new.graph.node] == ["Cast", "Add", "Cast"]


@pytest.mark.parametrize("keep_io_types", [False, True])
def test_subgraphs_captures_and_functions(keep_io_types: bool) -> None:
    """Values that subgraphs capture through two levels, functions, and an initializer as an output."""
    inputs = {"x": X[0], "first": np.array(True), "second": np.array(False)}
    new = check(nested(), inputs, keep_io_types=keep_io_types)
    assert types(new)["w"] == (FLOAT if keep_io_types else FLOAT16)
    assert not new.functions


@pytest.mark.parametrize("first", [False, True])
def test_graphs_at_any_depth(first: bool) -> None:
    """Ifs that are 25 deep become float16, although errors print only a part of the places of the inner ones."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["y25"])]
    for level in reversed(range(25)):
        then = helper.make_graph(nodes, "then", [], [helper.make_tensor_value_info(f"y{level + 1}", FLOAT, [2, 2])])
        others = [  # `v` has another type at each second level
            helper.make_node("Cast", ["x"], ["v"], to=TensorProto.DOUBLE if level % 2 else FLOAT),
            helper.make_node("Neg", ["v"], ["u"]),
            helper.make_node("Cast", ["u"], ["z"], to=FLOAT),
        ]
        other = helper.make_graph(others, "else", [], [helper.make_tensor_value_info("z", FLOAT, [2, 2])])
        nodes = [helper.make_node("If", ["c"], [f"y{level}"], then_branch=then, else_branch=other)]
    proto = model(nodes, {"w": X}, {"y0": [2, 2]})
    proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    check(proto, {"x": X, "c": np.array(first)})


def test_all_calls_together_may_become_a_million_nodes() -> None:
    """Calls of functions that become too many nodes together are refused before any is written out."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for index in range(19):  # each calls the next one twice
        name, domain = ("Relu", "") if index == 18 else (f"F{index + 1}", "own")
        nodes = [helper.make_node(name, [a], [b], domain=domain) for a, b in (("p", "q"), ("q", "r"))]
        functions.append(helper.make_function("own", f"F{index}", ["p"], ["r"], nodes, sets))
    proto = model([helper.make_node("F0", [x], [y], domain="own") for x, y in (("x", "w"), ("w", "y"))])
    proto.functions.extend(functions)
    proto.opset_import.append(sets[1])
    with pytest.raises(formats.UnsupportedError, match=r"the function F0 becomes 524,288 nodes; .* at most 1,000,000"):
        formats.from_onnx(proto).to_float16()


def test_operators_that_stay() -> None:
    """Resize computes in float32, with casts around it; two in a row need none between them."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"]),
        helper.make_node("Resize", ["a", "", "scales"], ["b"], mode="linear"),
        helper.make_node("Resize", ["b", "", "scales"], ["c"], mode="linear"),
        helper.make_node("Mul", ["c", "w"], ["y"]),
    ]
    weights = {"w": np.full((1, 1, 1, 1), 2, "float32"), "scales": np.array([1, 1, 2, 2], "float32")}
    x = np.arange(4, dtype="float32").reshape(1, 1, 2, 2)
    new = check(model(nodes, weights, {"y": [1, 1, 8, 8]}, x=[1, 1, 2, 2]), {"x": x})
    assert [node.op_type for node in new.graph.node] == ["Add", "Cast", "Resize", "Resize", "Cast", "Mul"]
    assert types(new)["scales"] == FLOAT


def test_a_weight_of_both_kinds_of_operators() -> None:
    """A weight that operators use in both types is float16, and is cast for those that stay."""
    nodes = [helper.make_node("Mul", ["x", "w"], ["a"]), helper.make_node("Max", ["a", "w"], ["y"])]
    new = check(model(nodes, {"w": np.array([1, 2], "float32")}))
    assert types(new)["w"] == FLOAT16
    assert [node.op_type for node in new.graph.node].count("Cast") == 3


def test_types_without_float16_stay() -> None:
    """What a version of an operator does not take as float16 stays float32: quantised values before version 19."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = {"s": np.array(1 / 32, "float32"), "z": np.array(3, "int8")}
    assert [node.op_type for node in check(model(nodes, weights)).graph.node] == [
        "Cast",
        "QuantizeLinear",
        "DequantizeLinear",
        "Cast",
    ]
    new = check(model(nodes, weights, opset=19))
    assert [node.op_type for node in new.graph.node] == ["QuantizeLinear", "DequantizeLinear"]


def test_attributes_that_name_a_type() -> None:
    """Constants of each kind, and attributes that name float32 or mean it where they are missing."""
    nodes = [
        helper.make_node("Constant", [], ["one"], value_float=1.0),
        helper.make_node("Constant", [], ["two"], value_floats=[2.0, 3.0]),
        helper.make_node("Constant", [], ["three"], value=numpy_helper.from_array(np.array([4, 5], "float32"))),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["cast"], to=FLOAT),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ConstantOfShape", ["shape"], ["sevens"], value=helper.make_tensor("v", FLOAT, [1], [7])),
        helper.make_node("EyeLike", ["shape2"], ["eye"], dtype=FLOAT),
        helper.make_node("RandomUniform", [], ["random"], shape=[2, 2], high=1e-3),
        helper.make_node("HannWindow", ["size"], ["window"]),
        helper.make_node(
            "Sum", ["one", "two", "three", "cast", "zeros", "sevens", "eye", "random", "window", "x"], ["y"]
        ),
    ]
    new = check(model(nodes, {"shape2": np.zeros((2, 2), "int64"), "size": np.array(2)}))
    casts = [node.input[0] for node in new.graph.node if node.op_type == "Cast"]
    assert casts == ["shape", "eye", "random", "window"]


def test_what_onnxruntime_lacks_in_float16() -> None:
    """What onnxruntime does not run in float16 stays, although ONNX defines it."""
    nodes = [
        helper.make_node("ScatterND", ["x", "i", "u"], ["s"], reduction="mul"),
        helper.make_node("ScatterElements", ["s", "e", "v"], ["t"], reduction="add"),
        helper.make_node("Reshape", ["t", "d"], ["r"]),
        helper.make_node("MeanVarianceNormalization", ["r"], ["m"], axes=[0, 2, 3]),
        helper.make_node("Reshape", ["m", "f"], ["y"]),
    ]
    weights = {"f": np.array([2, 2]), "i": np.array([[0]]), "u": np.array([[2, 3]], "float32"), "e": np.array([[1, 0]])}
    weights |= {"v": np.array([[4, 5]], "float32"), "d": np.array([1, 1, 2, 2])}
    new = check(model(nodes, weights))
    assert [node.op_type for node in new.graph.node].count("Cast") == 4


def test_sequences_keep_no_type() -> None:
    """A sequence cannot be cast, so an interface with one cannot stay; the error says where."""
    node = helper.make_node("SplitToSequence", ["x"], ["y"])
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", FLOAT, [2, 2])],
        [helper.make_tensor_sequence_value_info("y", FLOAT, None)],
    )  # fmt: skip
    before = formats.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert before.to_float16().graph.output[0].type.sequence_type.elem_type.tensor_type.elem_type == FLOAT16
    with pytest.raises(formats.UnsupportedError, match=r"graph.output needs y as a sequence of FLOAT, but it is one"):
        before.to_float16(keep_io_types=True)


def test_loops_and_sequences() -> None:
    """What a loop carries, and sequences, become float16."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Mul", ["carried", "half"], ["next"]),
            helper.make_node("SequenceInsert", ["all", "next"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("carried", FLOAT, [2, 2]),
            helper.make_tensor_sequence_value_info("all", FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [2, 2]),
            helper.make_tensor_sequence_value_info("more", FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("SequenceEmpty", [], ["none"]),
        helper.make_node("Loop", ["times", "yes", "x", "none"], ["last", "found"], body=body),
        helper.make_node("ConcatFromSequence", ["found"], ["joined"], axis=0),
        helper.make_node("Concat", ["joined", "last"], ["y"], axis=0),
    ]
    weights = {"times": np.array(3), "yes": np.array(True), "half": np.array(0.5, "float32")}
    for keep in (False, True):
        check(model(nodes, weights), keep_io_types=keep)


def test_nodes_in_no_order() -> None:
    """A model whose nodes are in no order, as some converters write them."""
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Exp", ["x"], ["a"])]
    data = formats.dumps(formats.from_onnx(model(nodes)), "onnx", dtype="float16")
    after = run(formats.dumps(formats.loads(data).sort(), "onnx"), {"x": X})
    np.testing.assert_allclose(after[0], np.exp(X), rtol=4e-3)


def test_numbers_that_float16_cannot_hold() -> None:
    """A number that is too large or too near zero becomes the nearest one, and is counted; others stay."""
    given = np.array([1e5, -3.4e38, 65519, 1e-10, -1e-30, 0, np.inf, -np.inf, np.nan, 1], "float32")
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": given}, {"y": [10]}, x=[10])
    report = formats.save(formats.from_onnx(proto), buffer := io.BytesIO(), format="onnx", dtype="float16")
    found = numpy_helper.to_array(onnx.load_from_string(buffer.getvalue()).graph.initializer[0])
    least = np.float16(2**-24)
    np.testing.assert_array_equal(
        found, np.array([65504, -65504, 65504, least, -least, 0, np.inf, -np.inf, np.nan, 1], "float16")
    )
    details = [(loss.detail, loss.matters) for loss in report.losses]
    assert details == [
        ("1 number of 1 weight too large for float16; each became 65504 with its sign", True),
        ("1 number of 1 weight so large that they mean no limit; each became 65504 with its sign", True),
        ("2 numbers of 1 weight too near zero for float16; each became the least one with its sign, 6e-08", False),
    ]
    assert report.verdict == "differs: the warnings say how"
    given[0] = 1
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"w": given}, {"y": [10]}, x=[10])
    report = formats.save(formats.from_onnx(proto), io.BytesIO(), format="onnx", dtype="float16")
    assert report.verdict == "differs: only with numbers beyond the range that the warnings name"


def test_a_weight_that_float16_cannot_hold_stays() -> None:
    """A node that scales by a weight beyond float16 stays in float32, such as a variance of a million, or a divisor."""
    arrays = {"s": np.ones(2), "b": np.zeros(2), "m": np.zeros(2), "v": np.array([1e6, 4e5]), "d": np.array([2e5, 1])}
    nodes = [
        helper.make_node("Constant", [], ["e"], value=numpy_helper.from_array(np.array(1e5, "float32"))),
        helper.make_node("BatchNormalization", ["x", *"sbmv"], ["n"]),
        helper.make_node("Mul", ["n", "e"], ["l"]),
        helper.make_node("Div", ["l", "d"], ["q"]),
        helper.make_node("Relu", ["q"], ["y"]),
    ]
    weights = {name: array.astype("float32") for name, array in arrays.items()}
    new = check(model(nodes, weights))
    assert [node.op_type for node in new.graph.node if node.op_type != "Constant"] == [
        "Cast", "BatchNormalization", "Mul", "Div", "Cast", "Relu",
    ]  # fmt: skip
    assert types(new)["v"] == types(new)["d"] == FLOAT


def test_sums_of_quantised_products_stay() -> None:
    """The sums of a quantised product are scaled in float32: float16 holds neither 130,050 nor a scale of 1e-9."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "q_scale", "q_zero"]),
        helper.make_node("MatMulInteger", ["q", "w", "q_zero"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["cast"], to=FLOAT),
        helper.make_node("Mul", ["q_scale", "w_scale"], ["scale"]),
        helper.make_node("Mul", ["cast", "scale"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["y"]),
    ]
    weights = {"w": np.full((2, 2), 255, "uint8"), "w_scale": np.float32(1e-7), "bias": np.ones(2, "float32")}
    new = check(model(nodes, weights), {"x": np.full((2, 2), 2, "float32")})
    assert types(new)["w_scale"] == FLOAT
    assert types(new)["bias"] == FLOAT16


def test_every_float16_is_found() -> None:
    """Rounding is that of numpy for all numbers near a float16, apart from what becomes infinite or zero."""
    exact = np.arange(1 << 16, dtype="uint16").view("float16").astype("float32")
    exact = exact[np.isfinite(exact)]
    near = np.concatenate(
        [exact, np.nextafter(exact, np.float32(9e9)), exact * np.float32(1.0003), exact + exact / 4096]
    )
    with np.errstate(over="ignore"):
        wanted = near.astype("float16")
    found = np.frombuffer(narrowing("float16").of(Literal(near.tobytes())).read(), "float16")
    changed = (np.isinf(wanted) & np.isfinite(near)) | ((wanted == 0) & (near != 0))
    np.testing.assert_array_equal(found[~changed], wanted[~changed])
    assert np.isfinite(found[changed]).all()
    assert found[changed].all()


def test_a_name_that_a_later_value_has() -> None:
    """A value of a branch whose name a value around it gets later has a type, although onnx infers none."""
    inner = [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Mul", ["h", "x"], ["r"])]
    graphs = [
        helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("r", FLOAT, None)])
        for nodes in (inner, [helper.make_node("Abs", ["x"], ["r"])])
    ]
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["first"], to=TensorProto.BOOL),
        helper.make_node("If", ["first"], ["v"], then_branch=graphs[0], else_branch=graphs[1]),
        helper.make_node("Relu", ["v"], ["h"]),
        helper.make_node("Neg", ["h"], ["y"]),
    ]
    outer = model(nodes)
    outer.graph.value_info.append(helper.make_tensor_value_info("h", FLOAT, [2, 2]))
    new = formats.from_onnx(outer).to_float16(keep_io_types=True)
    feed = {"x": np.array([[1, 2], [3, 4]], "float32")}
    np.testing.assert_array_equal(run(formats.dumps(new, "onnx"), feed)[0], run(outer.SerializeToString(), feed)[0])


ROUNDING = 0.05  # of the largest number of a result
MICROSOFT: dict[str, tuple[list[str], dict[str, Any]]] = {
    "FusedMatMul": (["x", "w"], {"transB": 1, "alpha": 0.5}),
    "BiasGelu": (["x", "b"], {}),
    "QuickGelu": (["x"], {}),
    "SkipLayerNormalization": (["x", "x", "b", "b"], {}),
    "SkipSimplifiedLayerNormalization": (["x", "x", "b"], {}),
}


@pytest.mark.parametrize("operator", MICROSOFT)
def test_types_of_operators_of_onnxruntime(operator: str) -> None:
    """What onnxruntime's own operators make has a type, also in a row; they stay in float32."""
    inputs, attributes = MICROSOFT[operator]
    nodes = [
        helper.make_node(operator, inputs, ["a"], domain="com.microsoft", **attributes),
        helper.make_node("Transpose", ["a"], ["c"]),
        helper.make_node(operator, ["c", *inputs[1:]], ["d"], domain="com.microsoft", **attributes),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    if "Skip" in operator:
        nodes[2].input[1] = "c"
    random = np.random.default_rng(0)
    arrays = {"w": random.normal(size=(2, 2)), "b": random.normal(size=2)}
    weights = [numpy_helper.from_array(array.astype("float32"), name) for name, array in arrays.items()]
    values = [helper.make_tensor_value_info(name, FLOAT, [2, 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    new = formats.from_onnx(proto).to_float16(keep_io_types=True)
    feed = {"x": random.normal(size=(2, 2)).astype("float32")}
    results = [
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for data in (proto.SerializeToString(), formats.dumps(new, "onnx"))
    ]
    np.testing.assert_allclose(results[1], results[0], atol=1e-2)


@pytest.mark.outer
def test_what_onnxruntime_optimized(shared_models: list[Path], tmp_path: Path) -> None:
    """Models with the nodes that onnxruntime's optimizer made become float16, and compute the same up to rounding."""
    made = 0
    for path in shared_models:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        domains = {node.domain for node in formats.load(tmp_path / "optimized.onnx").graph.node}
        if "com.microsoft" not in domains:
            continue
        formats.edit(
            tmp_path / "optimized.onnx", tmp_path / "half.onnx", dtype="float16", keep_io_types=True, overwrite=True
        )
        wanted, got = (run_file(each, recorded(path)) for each in (path, tmp_path / "half.onnx"))
        for left, right in zip(got, wanted, strict=True):
            close = np.abs(left.astype("float64") - right.astype("float64")) <= ROUNDING * np.abs(right).max()
            assert close.mean() > 0.98, path.name
        made += 1
    assert made


def test_types_that_nobody_knows() -> None:
    """The type of the result of an unknown operator must be stated; then the operator stays in float32."""
    proto = model([helper.make_node("Own", ["x"], ["a"], domain="mine"), helper.make_node("Relu", ["a"], ["y"])])
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    with pytest.raises(formats.UnsupportedError, match="these are not known: a of Own; add them to"):
        formats.from_onnx(proto).to_float16()
    proto.graph.value_info.append(onnx.ValueInfoProto(name="a", type=onnx.TypeProto()))
    with pytest.raises(formats.UnsupportedError, match="these are not known: a of Own"):
        formats.from_onnx(proto).to_float16()
    proto.graph.value_info[0].CopyFrom(helper.make_tensor_value_info("a", FLOAT, [2, 2]))
    new = formats.from_onnx(proto).to_float16()
    assert [node.op_type for node in new.graph.node] == ["Cast", "Own", "Cast", "Relu"]


def test_types_that_do_not_exist() -> None:
    """A weight of a type that ONNX does not have, and a list of graphs of an unknown operator, are no crash."""
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"w": np.zeros(2, "float32")})
    proto.graph.initializer[0].data_type = 99
    assert 99 == formats.from_onnx(proto).to_float16().graph.initializer[0].data_type
    proto.graph.node[0].CopyFrom(helper.make_node("Own", ["x"], ["y"], domain="mine", each=[proto.graph, proto.graph]))
    with pytest.raises(formats.UnsupportedError, match="nobody knows the types in the graphs of Own"):
        formats.from_onnx(proto).to_float16()


def test_the_given_model_stays() -> None:
    """The model that was given stays as it is, and the new one is float16 already, so that nothing changes again."""
    before = formats.from_onnx(nested())
    new = before.to_float16()
    assert before == formats.from_onnx(nested())
    again = formats.save(new, io.BytesIO(), format="onnx", dtype="float16")
    assert [edit.detail for edit in again.edits] == ["nothing in the model is float32"]


def test_training_is_refused() -> None:
    """Graphs for training are refused."""
    proto = small()
    proto.training_info.add().algorithm.node.add(op_type="Relu", input=["x"], output=["z"])
    with pytest.raises(formats.UnsupportedError, match="graphs for its training"):
        formats.from_onnx(proto).to_float16()


def test_what_excludes_it(tmp_path: Path) -> None:
    """Formats and runtimes that compute in float32, links, and edits in place are refused."""
    onnx.save(small(), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
    with pytest.raises(formats.OptionError, match="`dtype` is only for ONNX formats"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "new.rten", dtype="float16")
    with pytest.raises(formats.OptionError, match="exclude each other: rten computes in float32"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "new.onnx", dtype="float16", runtime="rten")
    with pytest.raises(formats.OptionError, match="`dtype` and `link` exclude each other"):
        formats.convert(tmp_path / "m.onnxz", tmp_path / "new.onnx", dtype="float16", link=True)
    with pytest.raises(formats.OptionError, match="`dtype` changes all weights, so it needs a destination"):
        formats.edit(tmp_path / "m.onnxz", dtype="float16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnxz"]


def test_with_other_edits(tmp_path: Path) -> None:
    """An archive becomes an archive in float16, with a new name and an older operator set."""
    onnx.save(small("Mul"), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.onnxz")
    new = tmp_path / "new.onnxz"
    report = formats.edit(tmp_path / "m.onnxz", new, rename={"x": "a"}, opset=13, dtype="float16", size_threshold=0)
    assert [edit.kind for edit in report.edits] == ["rename", "opset", "dtype", "dtype", "ir_version"]
    (found,) = run(formats.dumps(formats.load(new), "onnx"), {"a": X})
    np.testing.assert_allclose(found, X * [2, 3])


def both(path: Path, keep_io_types: bool) -> tuple[list[Any], list[Any]]:
    """Return what a recorded model computes, and what it does as float16."""
    with np.load(path.with_suffix(".npz")) as arrays:
        inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
    data = formats.dumps(formats.load(path), "onnx", dtype="float16", keep_io_types=keep_io_types)
    if path.name != "unet.ts17.fp16.onnx":  # whose nodes are in no order
        onnx.checker.check_model(data, full_check=True)
    return run(path.read_bytes(), inputs), run(data, inputs)


@pytest.mark.outer
@pytest.mark.parametrize("keep_io_types", [False, True])
def test_exported_models(shared_models: list[Path], keep_io_types: bool) -> None:
    """The exported models compute the same up to rounding; those that round to eight bits a little less."""
    for path in shared_models:
        tolerance = 4e-2 if "q8" in path.name or "qdq8" in path.name else 5e-3
        for one, other in zip(*both(path, keep_io_types), strict=True):
            if one.dtype.kind == "f":
                assert np.abs(one - other).max() <= tolerance * max(np.abs(one).max(), 1), path.name


@pytest.mark.outer
@pytest.mark.parametrize("keep_io_types", [False, True])
def test_as_onnxconverter_common_does(shared_models: list[Path], keep_io_types: bool) -> None:
    """Where onnxconverter-common makes a model that onnxruntime loads, ours computes nearly the same as that."""
    float16 = pytest.importorskip("onnxconverter_common.float16", reason="needs onnxconverter-common")
    equal = 0
    for path in shared_models:
        with np.load(path.with_suffix(".npz")) as arrays:
            inputs = {key.removeprefix("in_"): arrays[key] for key in arrays.files if key.startswith("in_")}
        try:
            proto = float16.convert_float_to_float16(
                onnx.load(path), min_positive_val=2**-24, max_finite_val=65504, keep_io_types=keep_io_types
            )
            theirs = run(proto.SerializeToString(), inputs)
        except Exception:
            continue
        data = formats.dumps(formats.load(path), "onnx", dtype="float16", keep_io_types=keep_io_types)
        for one, other in zip(theirs, run(data, inputs), strict=True):
            if one.dtype.kind == "f":
                assert np.abs(one - other).max() <= 1e-3 * max(np.abs(one).max(), 1), path.name
        equal += 1
    assert equal >= 18


@pytest.mark.outer
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits the memory for data")
@pytest.mark.parametrize(("dtype", "largest"), [("float16", 65504), ("bfloat16", 2.0**127)])
def test_memory_does_not_grow_with_the_weights(tmp_path: Path, dtype: str, largest: float) -> None:
    """A weight of 1.25 GiB becomes smaller with 200 MiB of memory for data, most of which is for onnx and numpy."""
    limit, columns = 200 << 20, 5 << 16
    values = [helper.make_tensor_value_info(name, FLOAT, ["n", size]) for name, size in (("x", columns), ("y", 1024))]
    weight = TensorProto(name="w", data_type=FLOAT, dims=[columns, 1024], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(columns * 4096)
        file.write(np.array([2.0**127, 1, -2], "float32").tobytes())
    program = (
        f"import resource\nresource.setrlimit(resource.RLIMIT_DATA, ({limit}, {limit}))\n"
        "from formats.cli import formats\nformats()"
    )
    line = ["convert", "m.onnx", "new.onnx", "--dtype", dtype, "--external-data", "new.data"]
    done = subprocess.run(
        [sys.executable, "-c", program, *line], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert (dtype == "float16") == ("1 number of 1 weight so large that they mean no limit" in done.stdout)
    assert (tmp_path / "new.data").stat().st_size == columns * 2048
    with (tmp_path / "new.data").open("rb") as file:
        found = np.frombuffer(file.read(6), "float16" if dtype == "float16" else ml_dtypes.bfloat16)
        assert found.astype("float64").tolist() == [largest, 1, -2]


def test_a_type_that_an_operator_fixes_is_known() -> None:
    """The output of an operator of ai.onnx.ml that has only one type is known, although onnx infers none."""
    nodes = [
        helper.make_node(
            "SVMRegressor",
            ["x"],
            ["a"],
            domain="ai.onnx.ml",
            coefficients=[1.0, 2.0],
            rho=[0.5],
            n_supports=0,
            **KERNEL,
        ),
        helper.make_node("Mul", ["a", "w"], ["y"]),
    ]
    proto = model(nodes, {"w": np.array([[3]], "float32")})
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    data = formats.dumps(formats.loads(proto.SerializeToString()), "onnx", dtype="float16", keep_io_types=True)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})[0]
    found = onnxruntime.InferenceSession(data).run(None, {"x": X})[0]
    np.testing.assert_allclose(found, wanted, rtol=2e-3)
    assert [each.type.tensor_type.elem_type for each in onnx.load_from_string(data).graph.value_info] == []


def test_every_input_is_named(tmp_path: Path) -> None:
    """Of many inputs that become float16, the answer names ten and counts the others; the report has all."""
    names = [f"x{number}" for number in range(256)]
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({", ".join(f"float[2] {name}" for name in names)}) '
        f"=> (float[2] y) {{ y = Sum({', '.join(names)}) }}"
    )
    onnx.save(proto, tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "h.onnx", dtype="float16")
    assert "inputs x0, x1, x2, x3, x4, x5, x6, x7, x8, x9 and 246 more, output y" in str(report)
    assert f"inputs {', '.join(names)}, output y" in report.edits[-1].detail
