"""The types of values that operators imply are those that `onnx` infers."""

from __future__ import annotations

import warnings

import onnx
import pytest
from onnx import TensorProto, helper, parser

import formats
from formats.ir import walk
from formats.ir.model import Graph, Model
from formats.onnxpb.inference import inferred
from formats.onnxpb.value_types import operator_type_text, type_uses, value_types

FLOAT = TensorProto.FLOAT
HEAD = '<ir_version: 10, opset_import: ["" : 23, "ai.onnx.ml" : 3, "com.microsoft" : 1]>\n'


def text_model(text: str) -> Model:
    """Return the model in ONNX's own text format."""
    return formats.from_onnx(parser.parse_model(f"{HEAD}agraph {text}"))


def known(graph: Graph) -> dict[str, str]:
    """Return the types of the values of a graph that it states."""
    return {
        each.name or "": operator_type_text(each.type)
        for each in (*graph.input, *graph.value_info, *graph.output)
        if operator_type_text(each.type)
    }


def types_by_place(model: formats.Model) -> dict[str, dict[str, str]]:
    """Return the types of values by the place of their graph."""
    found = value_types(model)
    return {where: found[id(graph)] for where, graph in walk.graphs(model)}


def missing(proto: onnx.ModelProto) -> list[tuple[str, str, str, str]]:
    """Return what onnx infers in the main graph without the types of outputs, and we not."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    del bare.graph.value_info[:]
    for each in bare.graph.output:
        each.ClearField("type")
    model = formats.from_onnx(bare)
    theirs, own = inferred(model), value_types(model)
    if theirs is None:
        return []
    return [
        (where, name, text, own[id(graph)].get(name, ""))
        for (where, other), (_, graph) in zip(walk.graphs(theirs), walk.graphs(model), strict=True)
        for name, text in known(other).items()
        if own[id(graph)].get(name) != text
    ]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(float[2] x) => (y) { y = Cast <to = 10> (x) }", "tensor(float16)"),
        ("(float[2] x) => (y) { y = Shape (x) }", "tensor(int64)"),
        ("(float[2] x) => (y) { y = mine.QuickGelu <alpha = 1.0> (x) }", ""),
        ("(float[2] x) => (y) { y = com.microsoft.QuickGelu <alpha = 1.0> (x) }", "tensor(float)"),
        ("(float[2] x) => (y) { y = SequenceConstruct (x, x) }", "seq(tensor(float))"),
        ("(float[2] x, int64 i) => (y) { s = SequenceConstruct (x) y = SequenceAt (s, i) }", "tensor(float)"),
        ("(float[2] x) => (y) { o = Optional (x) y = OptionalGetElement (o) }", "tensor(float)"),
        ("(float[2] x) => (y) { y = SequenceEmpty <dtype = 7> () }", "seq(tensor(int64))"),
        ("(float[2] x) => (y) { y = Constant <value_ints = [1, 2]> () }", "tensor(int64)"),
        ("(float[2] x, float16 s) => (y) { q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }", "tensor(float16)"),
        ("(float[2] x) => (y) { y = EyeLike (x) }", "tensor(float)"),
        ("(int64[2] x) => (y) { y = ai.onnx.ml.LabelEncoder <values_floats = [1.0]> (x) }", "tensor(float)"),
    ],
)
def test_what_an_operator_says(text: str, wanted: str) -> None:
    """Inputs, attributes, containers and operators of onnxruntime say the type; without them it is not known."""
    assert wanted == types_by_place(text_model(text))["graph"]["y"]


def test_graphs_in_nodes() -> None:
    """The graph in a Loop gets the types of its inputs from the node, and the node those of its results."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["a", "x"], ["b"]),
            helper.make_node("Shape", ["b"], ["s"]),
        ],
        "body",
        [onnx.ValueInfoProto(name=name) for name in ("i", "go", "a")],
        [onnx.ValueInfoProto(name=name) for name in ("on", "b", "s")],
    )
    loop = helper.make_node("Loop", ["n", "yes", "x"], ["last", "shapes"], body=body)
    inputs = [helper.make_tensor_value_info("x", FLOAT, [2]), helper.make_tensor_value_info("n", TensorProto.INT64, [])]
    inputs.append(helper.make_tensor_value_info("yes", TensorProto.BOOL, []))
    graph = helper.make_graph([loop], "g", inputs, [onnx.ValueInfoProto(name="last")])
    found = types_by_place(formats.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])))
    assert {"last": "tensor(float)", "shapes": "tensor(int64)"} == {n: found["graph"][n] for n in ("last", "shapes")}
    inner = found['graph.node[0].attribute["body"].g']
    assert ("tensor(int64)", "tensor(bool)", "tensor(float)") == tuple(inner[name] for name in ("i", "go", "a"))


def test_a_name_hides_the_one_around_it() -> None:
    """A value of an inner graph whose type is not known does not have that of its namesake in the graph around it."""
    then = helper.make_graph(
        [helper.make_node("Own", ["x"], ["w"], domain="mine"), helper.make_node("Relu", ["w"], ["r"])],
        "then",
        [],
        [onnx.ValueInfoProto(name="r")],
    )
    nodes = [
        helper.make_node("Relu", ["x"], ["w"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=then, else_branch=then),
    ]
    inputs = [
        helper.make_tensor_value_info("x", FLOAT, [2]),
        helper.make_tensor_value_info("yes", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")])
    found = types_by_place(formats.from_onnx(helper.make_model(graph)))
    assert ("tensor(float)", "") == (found["graph"]["w"], found["graph"]["y"])
    assert "" == found['graph.node[1].attribute["then_branch"].g']["r"]


def test_the_types_that_operators_have() -> None:
    """Each operator of ONNX has its types by parameter, also in inner graphs, with the values of those around them."""
    model = text_model(
        """(bool c, float16[2] x) => (double[2] y) { y = If(c) <then_branch = t () => (double[2] a)
        { a = Cast<to = 11>(x) }, else_branch = e () => (double[2] b) { u = mine.Own(x) v = Neg(u)
        b = Cast<to = 11>(v) }> }"""
    )
    assert type_uses(model) == {
        ("If", 23, "B", "tensor(bool)"),
        ("Cast", 23, "T1", "tensor(float16)"),
        ("Cast", 23, "T2", "tensor(double)"),
    }


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (TENSOR := helper.make_tensor_type_proto(FLOAT, None), "tensor(float)"),
        (helper.make_sparse_tensor_type_proto(FLOAT, [2]), "sparse_tensor(float)"),
        (helper.make_map_type_proto(TensorProto.STRING, TENSOR), "map(string,float)"),
        (helper.make_optional_type_proto(helper.make_sequence_type_proto(TENSOR)), "optional(seq(tensor(float)))"),
        (onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor()), ""),
        (onnx.TypeProto(), ""),
    ],
)
def test_a_type_is_written_as_in_schemas(proto: onnx.TypeProto, text: str) -> None:
    """The text of a type is that of the schemas of `onnx`; it is empty if the elements are not known."""
    graph = helper.make_graph([], "g", [onnx.ValueInfoProto(name="x", type=proto)], [])
    found = formats.from_onnx(helper.make_model(graph)).graph
    assert found is not None
    assert text == operator_type_text(found.input[0].type)


@pytest.mark.outer
def test_all_operators_as_onnx_infers() -> None:
    """In all of the models that `onnx` has for its operators, the types are those that it infers."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases("")
    assert len(cases) > 1000
    assert {} == {case.name: found for case in cases if (found := missing(case.model))}
