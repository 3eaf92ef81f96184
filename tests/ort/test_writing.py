"""onnxruntime computes from our .ort files what it computes from the .onnx files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

import formats
from formats.flatbuffer import builder, fbs
from formats.onnxruntime.operators import operator
from formats.ort import buffers
from formats.tensordata.plan import Loss

FLOAT = TensorProto.FLOAT
MAPPED = (
    "session.use_memory_mapped_ort_model",
    "session.use_ort_model_bytes_directly",
    "session.use_ort_model_bytes_for_initializers",
)


def value(name: str, dims: Any, kind: int = FLOAT) -> onnx.ValueInfoProto:
    """Return the description of a tensor."""
    return helper.make_tensor_value_info(name, kind, dims)


def model_of(nodes: list[Any], inputs: list[Any], outputs: list[Any], opset: int = 18, **parts: Any) -> onnx.ModelProto:
    """Return a model."""
    functions = parts.pop("functions", [])
    domains = {"": opset, **parts.pop("domains", {})}
    graph = helper.make_graph(nodes, "g", inputs, outputs, **parts)
    opsets = [helper.make_opsetid(*item) for item in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)


def session(path: Path, entries: tuple[str, ...] = ()) -> InferenceSession:
    """Return a session that changes nothing in the graph."""
    options = SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    for key in entries:
        options.add_session_config_entry(key, "1")
    return InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def check(model: onnx.ModelProto, feeds: dict[str, Any], folder: Path) -> tuple[Loss, ...]:
    """Check that the .ort file computes the same as the model, read or mapped; return the losses."""
    onnx.save(model, folder / "model.onnx")
    report = formats.convert(folder / "model.onnx", folder / "model.ort")
    expected = session(folder / "model.onnx").run(None, feeds)
    for entries in ((), MAPPED):
        for found, wanted in zip(session(folder / "model.ort", entries).run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
    return report.losses


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_subgraphs_that_use_outer_values(tmp_path: Path) -> None:
    """Values of outer graphs reach the nodes of graphs two levels deep, and of loops."""
    inner = helper.make_graph([helper.make_node("Add", ["x", "k"], ["deep"])], "inner", [], [value("deep", None)])
    other = helper.make_graph([helper.make_node("Identity", ["y"], ["same"])], "other", [], [value("same", None)])
    nest = helper.make_node("If", ["c"], ["nested"], then_branch=inner, else_branch=other)
    branch = helper.make_graph([nest], "branch", [], [value("nested", None)])
    flat = helper.make_graph(
        [helper.make_node("Sub", ["x", "w"], ["flat_y"])],
        "flat",
        [],
        [value("flat_y", None)],
        [numpy_helper.from_array(np.float32([1, 2, 3, 4]), "w")],
    )
    body = helper.make_graph(
        [
            helper.make_node("Add", ["carried", "y"], ["next"]),
            helper.make_node("Identity", ["going"], ["still"]),
            helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("going", [], TensorProto.BOOL), value("carried", None)],
        [value("still", [], TensorProto.BOOL), value("next", None), value("sum", None)],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Constant", [], ["k"], value_floats=[1.0, 2.0, 3.0, 4.0]),
        helper.make_node("Constant", [], ["times"], value_int=3),
        helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=flat),
        helper.make_node("Loop", ["times", "", "z"], ["last", "sums"], body=body),
    ]
    inputs = [value("x", ["n", 4]), value("c", [], TensorProto.BOOL)]
    model = model_of(nodes, inputs, [value("last", None), value("sums", None)])
    for c in (True, False):
        check(model, {"x": X, "c": np.array(c)}, tmp_path)
        (tmp_path / "model.ort").unlink()


def test_functions_become_their_nodes(tmp_path: Path) -> None:
    """The functions of a model, and of operators for which onnxruntime has no kernel, become nodes, which is told."""
    function = helper.make_function(
        "my", "Twice", ["a"], ["b"], [helper.make_node("HardSwish", ["a"], ["b"])], [helper.make_opsetid("", 18)]
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="my"),
        helper.make_node("CastLike", ["t", "d"], ["e"]),
        helper.make_node("Mish", ["t"], ["m"]),
        helper.make_node("CenterCropPad", ["m", "size"], ["y"]),
    ]
    sizes = [numpy_helper.from_array(np.array([2, 6]), "size"), numpy_helper.from_array(np.zeros(1), "d")]
    outputs = [value("y", None), value("e", None, TensorProto.DOUBLE)]
    model = model_of(nodes, [value("x", [3, 4])], outputs, initializer=sizes, functions=[function], domains={"my": 1})
    assert "functions" in [loss.kind for loss in check(model, {"x": X}, tmp_path)]


def test_defaults_of_attributes_are_written(tmp_path: Path) -> None:
    """Onnxruntime's kernels find the attributes that a model leaves to their defaults."""
    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["g"]),
        helper.make_node("LeakyRelu", ["g"], ["l"]),
        helper.make_node("Softmax", ["l"], ["s"]),
        helper.make_node("TopK", ["s", "one"], ["v", "p"]),
        helper.make_node("LpNormalization", ["s"], ["y"]),
    ]
    one = numpy_helper.from_array(np.array([1]), "one")
    outputs = [value("v", None), value("p", None, TensorProto.INT64), value("y", None)]
    check(model_of(nodes, [value("x", [3, 4])], outputs, initializer=[weight, one]), {"x": X}, tmp_path)


def test_strings_sequences_maps_and_sparse_constants(tmp_path: Path) -> None:
    """Values that are no plain tensors have their types in the file."""
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([2, 3]), "v"), numpy_helper.from_array(np.array([0, 3]), "i"), [4]
    )
    nodes = [
        helper.make_node("Constant", [], ["p"], sparse_value=sparse),
        helper.make_node("Constant", [], ["text"], value_strings=["a", "b"]),
        helper.make_node("Add", ["x", "p"], ["y"]),
        helper.make_node("SequenceConstruct", ["y", "x"], ["q"]),
        helper.make_node("SequenceAt", ["q", "zero"], ["first"]),
        helper.make_node("Identity", ["text"], ["words"]),
    ]
    zero = numpy_helper.from_array(np.array(0), "zero")
    outputs = [value("first", None), value("words", [2], TensorProto.STRING)]
    check(model_of(nodes, [value("x", [3, 4])], outputs, initializer=[zero]), {"x": X}, tmp_path)


@pytest.mark.parametrize("with_onnx", [True, False])
def test_types_follow_from_operators(with_onnx: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The types of inner values are inferred, also after operators of onnxruntime, and most of them without onnx."""
    if not with_onnx:
        monkeypatch.setattr("formats.ort.value_types.inferred", lambda model: None)
    nodes = [
        helper.make_node("FusedMatMul", ["x", "w"], ["f"], domain="com.microsoft", alpha=0.5),
        helper.make_node("Gelu", ["f"], ["g"], domain="com.microsoft"),
        helper.make_node("Cast", ["g"], ["i"], to=TensorProto.INT64),
        helper.make_node("Shape", ["i"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("Greater", ["g", "c"], ["b"]),
        helper.make_node("Where", ["b", "g", "c"], ["y"]),
    ]
    weight = numpy_helper.from_array(np.ones((4, 2), np.float32), "w")
    model = model_of(
        nodes, [value("x", [3, 4])], [value("y", None)], initializer=[weight], domains={"com.microsoft": 1}
    )
    check(model, {"x": X}, tmp_path)


@pytest.mark.parametrize(
    ("operator_type", "dims", "attributes"),
    [
        ("BiasGelu", [[3, 4], [4]], {}),
        ("FastGelu", [[3, 4]], {}),
        ("FusedConv", [[1, 2, 5, 5], [3, 2, 3, 3]], {"activation": "Relu"}),
        ("FusedGemm", [[2, 3], [3, 4], [4]], {"activation": "Relu"}),
        ("FusedMatMul", [[2, 3], [3, 4]], {}),
        ("MultiHeadAttention", [[2, 3, 8], [2, 3, 8], [2, 3, 8]], {"num_heads": 2}),
        ("QuickGelu", [[3, 4]], {}),
        ("SkipLayerNormalization", [[2, 3, 8], [2, 3, 8], [8], [8]], {}),
        ("Trilu", [[4, 4]], {}),
    ],
)
def test_operators_of_onnxruntime(operator_type: str, dims: list[Any], attributes: Any, tmp_path: Path) -> None:
    """Operators of onnxruntime compute the same, also with attributes that the model leaves to their defaults."""
    names = [f"x{index}" for index in range(len(dims))]
    node = helper.make_node(operator_type, names, ["y"], domain="com.microsoft", **attributes)
    inputs = [value(name, each) for name, each in zip(names, dims, strict=True)]
    rng = np.random.default_rng(3)
    feeds = {name: rng.standard_normal(each, np.float32) for name, each in zip(names, dims, strict=True)}
    check(model_of([node], inputs, [value("y", None)], domains={"com.microsoft": 1}), feeds, tmp_path)


def refusal(model: onnx.ModelProto, folder: Path) -> str:
    """Return the error of a conversion, which leaves nothing behind."""
    onnx.save(model, folder / "model.onnx")
    with pytest.raises(formats.FormatError) as caught:
        formats.convert(folder / "model.onnx", folder / "model.ort")
    assert ["model.onnx"] == [path.name for path in folder.iterdir()]
    return str(caught.value)


def test_a_value_without_a_type_is_named(tmp_path: Path) -> None:
    """Nothing is known of the results of somebody's own operators."""
    model = model_of([helper.make_node("My", ["x"], ["y"], domain="my")], [value("x", [1])], [], domains={"my": 1})
    model.graph.output.append(onnx.ValueInfoProto(name="y"))
    assert "the type of y is not known, and an .ort file needs the types of all values" in refusal(model, tmp_path)


def test_a_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    """The error for a documentation that is not UTF-8 says so, and where it is."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1])], doc_string="zz")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString().replace(b"zz", b"a\xff"))
    with pytest.raises(formats.EncodeError, match="doc_string: the text is not UTF-8 from its character 1 on"):
        formats.convert(path, tmp_path / "m.ort")


def test_optional_values_are_refused(tmp_path: Path) -> None:
    """The format has no optional values."""
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, [1]))
    model = model_of([helper.make_node("Optional", ["x"], ["o"])], [value("x", [1])], [])
    model.graph.output.append(helper.make_value_info("o", kind))
    assert "value o: an .ort file has no values of optional type" in refusal(model, tmp_path)


def test_what_the_format_does_not_hold_is_told(tmp_path: Path) -> None:
    """The names of graphs and quantisation annotations are notes."""
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [3, 4])], [value("y", None)])
    annotation = onnx.TensorAnnotation(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    model.graph.quantization_annotation.append(annotation)
    losses = check(model, {"x": X}, tmp_path)
    assert {"graph_name", "quantization_annotation"} == {loss.kind for loss in losses}
    assert not [loss for loss in losses if loss.matters]


def test_float16_without_kernels_is_told(tmp_path: Path) -> None:
    """Only for .onnx files, onnxruntime adds casts for float16, so such an .ort file needs other hardware."""
    model = model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", [3], TensorProto.FLOAT16)],
        [value("y", None, TensorProto.FLOAT16)],
    )
    onnx.save(model, tmp_path / "model.onnx")
    report = formats.convert(tmp_path / "model.onnx", tmp_path / "model.ort")
    assert [loss.matters for loss in report.losses if loss.kind == "no_kernel"] == [True]
    with pytest.raises(Exception, match="Could not find an implementation for Relu"):
        session(tmp_path / "model.ort")


def test_weights_are_aligned(tmp_path: Path) -> None:
    """Weights of 128 bytes or more begin at multiples of 64 bytes in the file, where onnxruntime uses them in place."""
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(32 + index, np.float32) for index in range(9)]
    tensors = [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)]
    nodes = [helper.make_node("Identity", [f"w{index}"], [f"y{index}"]) for index in range(9)]
    onnx.save(
        model_of(nodes, [], [value(f"y{index}", None) for index in range(9)], initializer=tensors), tmp_path / "m.onnx"
    )
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.ort")
    data = (tmp_path / "m.ort").read_bytes()
    assert {0} == {data.find(weight.tobytes()) % 64 for weight in weights}
    assert all(data.find(weight.tobytes()) > 0 for weight in weights)


def test_rows_give_the_version_and_the_counts() -> None:
    """Rows say in which version an operator got its form, and how its inputs are counted."""
    found = operator("", "Concat", 20)
    assert found is not None
    assert (13, [3]) == (found.since_version, found.argument_counts(3))
    reduced = operator("", "ReduceSum", 18)
    assert reduced is not None
    assert (13, [1, 0]) == (reduced.since_version, reduced.argument_counts(1))
    assert {"keepdims": 1, "noop_with_empty_axes": 0} == {item.name: item.i for item in reduced.defaults}
    assert operator("my", "Own", 3) is None


def relus(count: int) -> onnx.ModelProto:
    """Return a model of equal nodes in a row, whose values all have the same type."""
    nodes = [helper.make_node("LeakyRelu", [f"v{i}"], [f"v{i + 1}"], alpha=0.5) for i in range(count)]
    return model_of(nodes, [value("v0", ["n", 3])], [value(f"v{count}", ["n", 3])])


def test_equal_types_and_attributes_are_in_the_file_once(tmp_path: Path) -> None:
    """Values of one type share its tables, and so do nodes with an attribute; each message is an object of its own."""
    check(relus(40), {"v0": np.ones((2, 3), np.float32)}, tmp_path)
    graph = fbs.read((tmp_path / "model.ort").read_bytes(), buffers.SCHEMA)["model"]["graph"]
    types = {id(entry["type"]) for entry in graph["node_args"]}
    attributes = {id(entry["attributes"][0]) for entry in graph["nodes"]}
    assert (1, 1) == (len(types), len(attributes))
    model = formats.load(tmp_path / "model.ort")
    assert model.graph is not None
    kinds = {id(each.type) for each in (*model.graph.value_info, *model.graph.input, *model.graph.output)}
    assert (41, 40) == (len(kinds), len({id(node.attribute[0]) for node in model.graph.node}))


def test_shared_tables_count_for_each_table_that_leads_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writer and reader have one limit for the tables that onnxruntime visits, however few are in the file."""
    onnx.save(relus(9), tmp_path / "model.onnx")
    fewest = next(count for count in range(400) if _fits(tmp_path, count, monkeypatch))
    assert fewest > 9 * 10, "a value takes 4 tables and 2 for each dim, a node 2 and 1 for an attribute"
    monkeypatch.setattr(fbs, "MAX_TABLES", fewest)
    formats.load(tmp_path / "model.ort")
    monkeypatch.setattr(fbs, "MAX_TABLES", fewest - 1)
    with pytest.raises(formats.LimitError, match="more than"):
        formats.load(tmp_path / "model.ort")


def _fits(folder: Path, tables: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(builder, "MAX_TABLES", tables)
    try:
        formats.convert(folder / "model.onnx", folder / "model.ort")
    except formats.EncodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('["" : 18]> g (float[2] x) => (float[2] y) { a = Add(x, c) c = Neg(a) y = Abs(a) }', "nodes form a cycle"),
        ('["d" : 1]> g (float[2] x) => (float[2] y) { y = Neg(x) }', "nodes are of ai.onnx, but the model imports no"),
    ],
)
def test_models_that_onnxruntime_never_runs_are_refused(text: str, reason: str, tmp_path: Path) -> None:
    """A graph with a cycle, or nodes of a set that is not imported, is refused, and nothing is written."""
    source = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(f"<ir_version: 8, opset_import: {text}"), source)
    with pytest.raises(formats.UnsupportedError, match=reason):
        formats.convert(source, tmp_path / "m.ort")
    assert not (tmp_path / "m.ort").exists()
