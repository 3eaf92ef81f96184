"""Models in other versions of ONNX's operator set compute the same, share their weights, and keep what they say."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import formats
from formats.editing.versions import node_conversion, operator_rewritings, version_steps
from formats.editing.versions.node_forms import LoneNode, NoFormError
from formats.editing.versions.operator_sets import version_of, with_opset
from formats.editing.versions.version_steps import Step
from formats.errors import UnsupportedError
from formats.ir import ONNX
from formats.onnxpb.operator_sets import form_of, signatures_of
from formats.tensordata.plan import RARE, SPECIAL

pytest.importorskip("onnx", minversion="1.22")
X = np.arange(-12, 12, dtype="float32").reshape(2, 3, 4) / 5


def model_of(nodes: list[Any], opset: int, constants: Any = (), ir_version: int = 10, **more: Any) -> formats.Model:
    """Return a model of these nodes from `x`, three-dimensional floats, to `y`."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["a", "b", "c"])
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    sets = [helper.make_opsetid("", opset), *more.pop("sets", ())]
    proto = helper.make_model(graph, opset_imports=sets, ir_version=ir_version, **more)
    return formats.loads(proto.SerializeToString(), format="onnx")


def run(model: formats.Model) -> np.ndarray[Any, Any]:
    """Return the output of onnxruntime."""
    data = formats.dumps(model, "onnx")
    onnx.checker.check_model(data)
    return onnxruntime.InferenceSession(data).run(None, {"x": X})[0]


NODE = helper.make_node
CASES: dict[str, tuple[list[Any], int, dict[str, Any], int]] = {
    "an input becomes an attribute": ([NODE("ReduceMean", ["x", "a"], ["y"])], 18, {"a": np.array([1])}, 13),
    "an attribute becomes an input": ([NODE("ReduceMean", ["x"], ["y"], axes=[1])], 13, {}, 18),
    "only types are new": ([NODE("Add", ["x", "x"], ["y"])], 14, {}, 8),
    "several steps, some with an adapter": ([NODE("Softmax", ["x"], ["y"], axis=2)], 13, {}, 9),
    "several axes as one": ([NODE("Softmax", ["x"], ["y"], axis=1)], 9, {}, 13),
    "one axis of several": ([NODE("Softmax", ["x"], ["y"], axis=1)], 13, {}, 11),
    "a new operator": ([NODE("LayerNormalization", ["x", "s"], ["y"])], 17, {"s": np.ones(4, "float32")}, 13),
    "a new operator, twice": ([NODE("Gelu", ["x"], ["h"]), NODE("Gelu", ["h"], ["y"])], 20, {}, 13),
    "a default that was implied": (
        [NODE("ReduceMax", ["x", "a"], ["y"], noop_with_empty_axes=0)],
        20,
        {"a": np.array([2])},
        13,
    ),
    "an even split": ([NODE("Split", ["x"], ["y", "z"], axis=2, num_outputs=2)], 18, {}, 13),
    "a shape without zeros": ([NODE("Reshape", ["x", "d"], ["y"], allowzero=1)], 14, {"d": np.array([-1, 4, 3])}, 13),
    "what onnx gets wrong, by its definition": ([NODE("LogSoftmax", ["x"], ["y"], axis=1)], 13, {}, 11),
    "bounds become attributes": (
        [NODE("Clip", ["x", "l", "h"], ["y"])],
        13,
        {"l": np.float32(-1), "h": np.float32(0.5)},
        9,
    ),
    "one bound of a constant node": (
        [NODE("Constant", [], ["h"], value_float=0.5), NODE("Clip", ["x", "", "h"], ["y"])],
        12,
        {},
        6,
    ),
    "ranges become attributes": (
        [NODE("Slice", ["x", "b", "e", "a"], ["y"])],
        13,
        {"b": np.array([0, 1]), "e": np.array([-1, 1 << 40]), "a": np.array([2, 1])},
        9,
    ),
    "ranges become inputs": ([NODE("Slice", ["x"], ["y"], starts=[1], ends=[-1], axes=[2])], 9, {}, 17),
    "ranges stay inputs": (
        [NODE("Slice", ["x", "b", "e", "a", "s"], ["y"])],
        13,
        {"b": np.array([0]), "e": np.array([4]), "a": np.array([2]), "s": np.array([2])},
        10,
    ),
    "a number becomes an attribute": ([NODE("TopK", ["x", "k"], ["y", "i"])], 11, {"k": np.array([2])}, 9),
    "pads become attributes": (
        [NODE("Pad", ["x", "p", "v"], ["y"])],
        13,
        {"p": np.array([0, 1, 0, 0, 0, 2]), "v": np.float32(3)},
        9,
    ),
    "axes from the end": (
        [NODE("Unsqueeze", ["x", "a"], ["h"]), NODE("Squeeze", ["h", "b"], ["s"]), NODE("Softmax", ["s"], ["y"])],
        13,
        {"a": np.array([-1]), "b": np.array([-1])},
        10,
    ),
    "a Gemm of two inputs": (
        [
            NODE("ReduceSum", ["x"], ["r"], axes=[0], keepdims=0),
            NODE("Gemm", ["r", "w"], ["g"]),
            NODE("Unsqueeze", ["g"], ["y"], axes=[0]),
        ],
        11,
        {"w": np.ones((4, 2), "float32")},
        9,
    ),
    "pooling": ([NODE("MaxPool", ["x"], ["y"], kernel_shape=[2], dilations=[1])], 12, {}, 8),
    "a constant node": (
        [NODE("Constant", [], ["a"], value_ints=[1]), NODE("ReduceSum", ["x", "a"], ["y"])],
        21,
        {},
        13,
    ),
    "a part of a matrix": ([NODE("Trilu", ["x", "k"], ["y"])], 14, {"k": np.array(-1)}, 9),
    "a part of a matrix of any size": (
        [NODE("Shape", ["x"], ["s"]), NODE("Expand", ["x", "s"], ["h"]), NODE("Trilu", ["h"], ["y"], upper=0)],
        14,
        {},
        13,
    ),
    "an upper part by computed numbers": (
        [
            NODE("Size", ["x"], ["n"]),
            NODE("Div", ["n", "d"], ["k"]),
            NODE("Trilu", ["x", "k"], ["y"]),
        ],
        14,
        {"d": np.array(24)},
        11,
    ),
    "a part of bools": (
        [
            NODE("Cast", ["x"], ["b"], to=TensorProto.BOOL),
            NODE("Trilu", ["b"], ["t"], upper=0),
            NODE("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
        ],
        17,
        {},
        11,
    ),
    "attention": ([NODE("Attention", ["x", "x", "x"], ["y"], q_num_heads=2, kv_num_heads=2)], 23, {}, 11),
    "some dims": (
        [
            NODE("Shape", ["x"], ["s"], start=-2, end=-1),
            NODE("Cast", ["s"], ["c"], to=TensorProto.FLOAT),
            NODE("Add", ["x", "c"], ["y"]),
        ],
        15,
        {},
        13,
    ),
    "sums of products": ([NODE("Einsum", ["x", "x"], ["y"], equation="bij, bkj -> bki")], 12, {}, 9),
    "sums of products, without an axis of one side": (
        [
            NODE("Einsum", ["x", "u"], ["h"], equation="bij,bj->ib"),
            NODE("Einsum", ["v", "v"], ["n"], equation="i,i->"),
            NODE("Mul", ["h", "n"], ["m"]),
            NODE("Einsum", ["m", "u"], ["p"], equation="ib,bk->ik"),
            NODE("Add", ["x", "p"], ["y"]),
        ],
        12,
        {"u": np.arange(8, dtype="float32").reshape(2, 4), "v": np.arange(4, dtype="float32")},
        11,
    ),
    "a resize without a region": (
        [NODE("Resize", ["x", "", "", "z"], ["y"], mode="linear")],
        19,
        {"z": np.array([2, 6, 8])},
        11,
    ),
    "a power": ([NODE("Abs", ["x"], ["a"]), NODE("Pow", ["a", "p"], ["y"])], 13, {"p": np.float32(3)}, 9),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CASES)
def test_the_result_is_the_same(name: str) -> None:
    """A model computes the same in the other operator set, passes the checker, and the given one is not changed."""
    nodes, opset, constants, wanted = CASES[name]
    model = model_of(nodes, opset, constants)
    before = formats.dumps(model, "onnx")
    new, done = with_opset(model, wanted)
    assert version_of(new.opset_import) == wanted
    np.testing.assert_allclose(run(new), run(model), rtol=1e-4, atol=1e-4)  # kernels of some releases round more
    assert formats.dumps(model, "onnx") == before
    assert [edit.kind for edit in done.edits] == ["opset"]
    assert done.losses == ()


REFUSED = {
    "no older form": ([NODE("Det", ["x"], ["y"])], 11, {}, 10, "graph.node[0] (Det): no older operator set has it"),
    "a mask that cannot be computed": (
        [NODE("Cast", ["x"], ["k"], to=TensorProto.INT64), NODE("Trilu", ["x", "k"], ["y"])],
        14,
        {},
        10,
        "no operator before version 11 computes it",
    ),
    "products that are no matrices": (
        [NODE("Einsum", ["x", "x"], ["y"], equation="bij,bij->b")],
        12,
        {},
        11,
        "sums over one axis",
    ),
    "types that differ": (
        [NODE("Pow", ["x", "p"], ["y"])],
        13,
        {"p": np.float64(3)},
        11,
        "Pow does not accept tensor(float) with tensor(double)",
    ),
    "places to sample": (
        [NODE("Resize", ["x", "", "z"], ["y"])],
        13,
        {"z": np.ones(3, "float32")},
        10,
        "which places of its input it reads",
    ),
    "an input that must be constant": (
        [NODE("Shape", ["x"], ["s"]), NODE("Slice", ["s", "o", "t"], ["a"]), NODE("ReduceMean", ["x", "a"], ["y"])],
        18,
        {"o": np.array([2]), "t": np.array([3])},
        13,
        "graph.node[2] (ReduceMean)",
    ),
    "a type": (
        [NODE("Cast", ["x"], ["b"], to=TensorProto.BFLOAT16), NODE("Cast", ["b"], ["y"], to=TensorProto.FLOAT)],
        13,
        {},
        12,
        "graph.node[0] (Cast): Cast accepts no tensor(bfloat16)",
    ),
    "an uneven split": (
        [NODE("Split", ["x"], ["y", "z"], axis=0, num_outputs=2)],
        18,
        {},
        13,
        operator_rewritings.EVEN,
    ),
    "what onnx gets wrong": (
        [NODE("Scan", ["x"], ["y"], num_scan_inputs=1)],
        9,
        {},
        8,
        "has an axis for batches",
    ),
    "an attribute": (
        [NODE("AveragePool", ["x"], ["y"], kernel_shape=[2], dilations=[2])],
        19,
        {},
        18,
        "AveragePool with the attribute dilations has no form before operator set 19",
    ),
    "an input": (
        [NODE("Split", ["x", "s"], ["y"])],
        13,
        {},
        12,
        "its split is an attribute in the older version, and here no constant",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_stands_in_the_way_is_named(name: str) -> None:
    """A node that cannot be converted is an error with its place, its operator and the reason."""
    nodes, opset, constants, wanted, words = REFUSED[name]
    with pytest.raises(UnsupportedError) as caught:
        with_opset(model_of(nodes, opset, constants), wanted)
    assert words in str(caught.value)
    assert f"cannot be written in operator set {wanted}" in str(caught.value)


def test_indices_are_told() -> None:
    """Before version 11, a negative index is not defined, so a Gather whose indices are not known is told."""
    nodes = [NODE("Cast", ["x"], ["i"], to=TensorProto.INT64), NODE("Gather", ["x", "i"], ["y"])]
    _, done = with_opset(model_of(nodes, 13), 10)
    assert [(loss.where, loss.seen) for loss in done.losses] == [("graph.node[1]", RARE)]
    nodes = [NODE("Gather", ["x", "i"], ["y"])]
    assert not with_opset(model_of(nodes, 13, {"i": np.array([[1, 0]])}), 10)[1].losses


def test_many_refusals_are_counted() -> None:
    """An error names ten nodes, and the number of the others."""
    nodes = [NODE("Det", ["x"], ["y" if index == 11 else f"t{index}"]) for index in range(12)]
    with pytest.raises(UnsupportedError, match=r"graph\.node\[9\].*; and 2 more nodes$"):
        with_opset(model_of(nodes, 11), 10)


def test_empty_tensors_are_told() -> None:
    """A Reshape to a computed shape may keep a zero: without `allowzero`, only empty tensors get another shape."""
    nodes = [NODE("Shape", ["x"], ["d"]), NODE("Reshape", ["x", "d"], ["y"], allowzero=1)]
    model = model_of(nodes, 19)
    new, done = with_opset(model, 13)
    np.testing.assert_array_equal(run(new), run(model))
    assert [(loss.detail, loss.seen) for loss in done.losses] == [(operator_rewritings.EMPTY, SPECIAL)]


def test_what_onnx_does_not_keep_stays() -> None:
    """Metadata, documentation, names and annotations stay; new nodes have the metadata of the one replaced."""
    model = model_of([NODE("Gelu", ["x"], ["h"], name="gelu"), NODE("Identity", ["h"], ["y"], name="last")], 20)
    model.metadata_props.append(formats.StringStringEntry("author", "me"))
    for node in model.graph.node:
        node.metadata_props.append(formats.StringStringEntry("line", node.name))
        node.doc_string = "why"
    model.graph.quantization_annotation.append(formats.TensorAnnotation("h"))
    new, _ = with_opset(model, 13)
    *gelu, last = new.graph.node
    assert [each.value for node in gelu for each in node.metadata_props] == ["gelu"] * len(gelu)
    assert (last.name, last.doc_string) == ("last", "why")
    assert len({node.name for node in new.graph.node}) == len(new.graph.node)
    assert new.metadata_props == model.metadata_props
    assert new.graph.quantization_annotation == model.graph.quantization_annotation
    assert new.graph.value_info == model.graph.value_info


def test_weights_are_shared(tmp_path: Any) -> None:
    """A weight stays a range of its file; none is read."""
    big = np.ones((4, 4096), "float32")
    model = model_of([NODE("MatMul", ["x", "w"], ["h"]), NODE("ReduceMean", ["h"], ["y"], axes=[1])], 13, {"w": big})
    formats.save(model, tmp_path / "m.onnxz")
    model = formats.load(tmp_path / "m.onnxz")
    new, _ = with_opset(model, 18)
    old = {tensor.name: tensor for tensor in model.graph.initializer}
    kept = next(tensor for tensor in new.graph.initializer if tensor.name == "w")
    assert kept.source() is old["w"].source()


@pytest.mark.parametrize("ir_version", [3, 8])
def test_constants_of_new_nodes(ir_version: int) -> None:
    """Attributes become constants with their own types, which are no inputs, also in IR version 3."""
    nodes = [NODE("Pad", ["x"], ["p"], pads=[0, 0, 1, 0, 0, 2], value=3.0), NODE("Clip", ["p"], ["y"], max=2.0)]
    model = model_of(nodes, 9, ir_version=ir_version)
    new, _ = with_opset(model, 13)
    assert [value.name for value in new.graph.input] == ["x"]
    np.testing.assert_allclose(run(new), run(model))


@pytest.mark.parametrize("wanted", [9, 11, 17])
def test_large_constants_in_nodes(wanted: int) -> None:
    """A Constant with a weight, which some exporters write, is converted like any other, and keeps its elements."""
    weight = np.arange(12 * 1024, dtype="float32").reshape(1, 3072, 4) % 5
    nodes = [
        NODE("Constant", [], ["w"], value=numpy_helper.from_array(weight)),
        NODE("ReduceSum", ["w"], ["s"], axes=[1]),
        NODE("Mul", ["x", "s"], ["y"]),
    ]
    if wanted == 17:
        nodes[1] = NODE("ReduceMax", ["w"], ["s"], axes=[1])
    model = model_of(nodes, 12 if wanted != 17 else 11)
    new, _ = with_opset(model, wanted)
    np.testing.assert_allclose(run(new), run(model))


def test_subgraphs_and_captures() -> None:
    """Nodes in subgraphs at any depth are converted; they use constants of the graphs around them."""
    inner = helper.make_graph([NODE("ReduceMean", ["x", "a"], ["m"])], "i", [], [out("m")])
    middle = helper.make_graph([NODE("If", ["c"], ["k"], then_branch=inner, else_branch=inner)], "j", [], [out("k")])
    nodes = [NODE("If", ["c"], ["y"], then_branch=middle, else_branch=middle)]
    model = model_of(nodes, 19, {"c": np.array(True), "a": np.array([1])})
    new, done = with_opset(model, 13)
    np.testing.assert_allclose(run(new), run(model), rtol=1e-6)
    assert "7 nodes converted" in done.edits[0].detail
    assert [tensor.name for tensor in new.graph.initializer] == ["c"]


def out(name: str) -> Any:
    """Return an output with three unknown dims."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b", "c"])


def test_a_name_that_hides_another() -> None:
    """A name in a subgraph is the value of the subgraph, not the constant of the same name around it."""
    branch = helper.make_graph(
        [NODE("Shape", ["x"], ["s"]), NODE("Slice", ["s", "o", "t"], ["a"]), NODE("ReduceMean", ["x", "a"], ["m"])],
        "i",
        [],
        [out("m")],
    )
    nodes = [NODE("If", ["c"], ["y"], then_branch=branch, else_branch=branch)]
    constants = {"c": np.array(True), "a": np.array([1]), "o": np.array([2]), "t": np.array([3])}
    with pytest.raises(UnsupportedError, match=r'attribute\["then_branch"\]\.g\.node\[2\] \(ReduceMean\)'):
        with_opset(model_of(nodes, 18, constants), 13)


def test_functions() -> None:
    """The body of a function is converted by its own operator set; one named like an operator is none of ONNX."""
    sets = [helper.make_opsetid("", 18)]
    body = [NODE("Constant", [], ["a"], value_ints=[1]), NODE("ReduceMean", ["p", "a"], ["q"])]
    function = helper.make_function("me", "Mean", ["p"], ["q"], body, sets)
    model = model_of(
        [NODE("Mean", ["x"], ["y"], domain="me")],
        18,
        sets=[helper.make_opsetid("me", 1)],
        functions=[function],
    )
    new, _ = with_opset(model, 13)
    assert [version_of(each.opset_import) for each in new.functions] == [13]
    assert [node.op_type for node in new.functions[0].node] == ["ReduceMean"]
    np.testing.assert_allclose(run(new), run(model), rtol=1e-6)


@pytest.mark.parametrize(("given", "wanted"), [(18, 13), (18, 20), (13, 14), (13, 18)])
def test_attributes_of_functions(given: int, wanted: int) -> None:
    """An attribute of the function around a node stays one; where it decides the other form, the node is refused."""
    sets = [helper.make_opsetid("", given)]
    body = [
        NODE("Constant", [], ["a"], value_ints=[0]),
        NODE("ReduceMean", ["p", "a"] if given == 18 else ["p"], ["q"]),
    ]
    body[1].attribute.append(onnx.AttributeProto(name="keepdims", ref_attr_name="k", type=onnx.AttributeProto.INT))
    function = helper.make_function("me", "F", ["p"], ["q"], body, sets, attributes=["k"])
    call = NODE("F", ["x"], ["y"], domain="me", k=1)
    model = model_of([call], given, sets=[helper.make_opsetid("me", 1)], functions=[function])
    new, _ = with_opset(model, wanted)
    assert [
        each.ref_attr_name for node in new.functions[0].node for each in node.attribute if each.name == "keepdims"
    ] == ["k"]
    np.testing.assert_allclose(run(new), run(model), rtol=1e-6)
    node = model.functions[0].node[1]
    node.op_type, node.input = "Softmax", ["p"]
    node.attribute = [formats.Attribute("axis", ref_attr_name="k", type=2)]
    if 13 not in (given, wanted) or wanted > given:
        assert with_opset(model, wanted)
        return
    with pytest.raises(UnsupportedError, match=r"functions\[0\]\.node\[1\].*only where its function is called"):
        with_opset(model, 11)


def test_a_default_of_an_input_is_no_constant() -> None:
    """An initializer that a caller may replace decides no form."""
    model = model_of([NODE("ReduceMean", ["x", "a"], ["y"])], 18, {"a": np.array([1])})
    kind = formats.Type(tensor_type=formats.TensorType(TensorProto.INT64, formats.TensorShape([formats.Dimension(1)])))
    model.graph.input.append(formats.ValueInfo("a", kind))
    with pytest.raises(UnsupportedError, match="ReduceMean"):
        with_opset(model, 13)


def test_versions_that_onnx_does_not_know() -> None:
    """A version newer than the package onnx, and a model without operators of ONNX, are errors that say so."""
    model = model_of([NODE("Identity", ["x"], ["y"])], 18)
    with pytest.raises(UnsupportedError, match=r"^ONNX has the operator sets 1 to \d+, not 99$"):
        with_opset(model, 99)
    model.opset_import = [formats.OperatorSetId("me", 1)]
    with pytest.raises(UnsupportedError, match="imports no operators of ONNX"):
        with_opset(model, 13)


def test_the_same_version_is_the_same_model() -> None:
    """A model that has the version already is returned as it is."""
    model = model_of([NODE("Identity", ["x"], ["y"])], 18)
    assert with_opset(model, 18)[0] is model


def test_other_sets_have_rows() -> None:
    """The version of ai.onnx.ml changes like that of ONNX's own operators."""
    node = NODE("Normalizer", ["x"], ["y"], domain="ai.onnx.ml", norm="L1")
    model = model_of([node], 18, sets=[helper.make_opsetid("ai.onnx.ml", 5)])
    new, done = with_opset(model, 3, "ai.onnx.ml")
    assert {entry.domain: entry.version for entry in new.opset_import} == {"": 18, "ai.onnx.ml": 3}
    assert done.edits[0].detail == "operator set 5 -> 3 of ai.onnx.ml, 0 nodes converted"
    model.graph.node[0].op_type = "TreeEnsemble"
    with pytest.raises(UnsupportedError, match=r"set 3 of ai\.onnx\.ml: graph\.node\[0\] \(TreeEnsemble\)"):
        with_opset(model, 3, "ai.onnx.ml")


def quantized(scale: Any, zero: Any, opset: int = 17) -> formats.Model:
    """Return a model that quantizes its input and turns it back, with an axis that counts only for several scales."""
    constants = {"s": scale, "z": zero}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    return model_of(nodes, opset, constants)


@pytest.mark.parametrize("given,wanted", [(13, 10), (13, 12), (17, 11), (21, 10), (10, 17)])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_one_scale_is_written_in_older_sets(given: int, wanted: int, kind: str) -> None:
    """QuantizeLinear and DequantizeLinear with one scale go to set 10 and back, and compute the same."""
    model = quantized(np.array(0.05, "float32"), np.array(3, kind), max(given, 13))
    model, _ = with_opset(model, given)
    new, _ = with_opset(model, wanted)
    onnx.checker.check_model(formats.to_onnx(new))
    np.testing.assert_array_equal(run(new), run(model))


def test_several_scales_are_no_older_form() -> None:
    """A scale for each place of an axis, or one of unknown dims, is refused before set 13, with the reason."""
    model = quantized(np.ones(3, "float32"), np.zeros(3, "uint8"))
    with pytest.raises(UnsupportedError, match="before version 13, it has one scale for all of its data, not one for"):
        with_opset(model, 12)
    model = quantized(np.array(1, "float32"), np.array(0, "uint8"))
    assert model.graph is not None
    scale = helper.make_tensor_value_info("s", TensorProto.FLOAT, None)
    model.graph.initializer = [each for each in model.graph.initializer if each.name != "s"]
    proto = formats.to_onnx(model)
    proto.graph.input.append(scale)
    with pytest.raises(UnsupportedError, match="its data, and the dims here are not known"):
        with_opset(formats.from_onnx(proto), 12)


def test_newer_types_and_blocks_are_named() -> None:
    """A type that an older form lacks, or a scale for each block, is named in the refusal, not as onnx numbers it."""
    model = quantized(np.array(0.05, "float32"), np.array(3, "uint16"), 21)
    with pytest.raises(UnsupportedError, match=r"accepts no tensor\(uint16\) in version 20"):
        with_opset(model, 17)
    model = quantized(np.ones((1, 3, 2), "float32"), np.zeros((1, 3, 2), "uint8"), 21)
    assert model.graph is not None
    for node in model.graph.node:
        node.attribute = [formats.make_attribute("axis", 2), formats.make_attribute("block_size", 2)]
    with pytest.raises(UnsupportedError, match="with the attribute block_size has no form before operator set 21"):
        with_opset(model, 17)


def test_a_definition_with_a_graph_that_uses_outer_values() -> None:
    """Range has no older form before version 11; ONNX defines it by a Loop, whose graph uses values around it."""
    model = model_of(
        [NODE("Range", ["a", "b", "c"], ["y"])], 17, {"a": np.float32(1), "b": np.float32(9), "c": np.float32(2.5)}
    )
    model.graph.output = [formats.make_value_info("y", "float32", ["k"])]
    new = formats.to_onnx(with_opset(model, 9)[0])
    onnx.checker.check_model(new, full_check=True)
    session = onnxruntime.InferenceSession(new.SerializeToString())
    np.testing.assert_array_equal(session.run(["y"], {"x": np.ones((1, 3, 4), "float32")})[0], [1, 3.5, 6, 8.5])


@pytest.mark.parametrize("opset", [9, 13, 16])
def test_the_layer_normalization_of_onnxruntime_is_that_of_onnx(opset: int) -> None:
    """The LayerNormalization that onnxruntime writes in old operator sets goes up; with two types it has no form."""
    node = NODE("LayerNormalization", ["x", "s", "b"], ["y"], axis=-1, epsilon=1e-5, stash_type=1)
    scales = {"s": np.arange(4, dtype="float32"), "b": np.ones(4, "float32")}
    model = model_of([node], opset, scales)
    before = onnxruntime.InferenceSession(formats.dumps(model, "onnx")).run(None, {"x": X})[0]
    for version in (17, 23):
        new, result = with_opset(model, version)
        assert result.losses == ()
        np.testing.assert_array_equal(run(new), before)
    mixed = model_of([node], opset, {name: value.astype("float16") for name, value in scales.items()})
    with pytest.raises(UnsupportedError, match=r"does not accept tensor\(float\) with tensor\(float16\) in version 17"):
        with_opset(mixed, 17)


def test_constants_of_definitions_are_tensors() -> None:
    """A list in `value_ints` is a tensor of one element for onnxruntime 1.8, so no definition keeps it."""
    node = NODE("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=3)
    new, _ = with_opset(model_of([node], 21, {"s": np.ones(3, "float32")}, 10), 14)
    proto = formats.to_onnx(new)
    names = [attribute.name for each in proto.graph.node if each.op_type == "Constant" for attribute in each.attribute]
    assert set(names) == {"value"}
    mean, deviation = X.mean(-1, keepdims=True), X.std(-1, keepdims=True)
    np.testing.assert_allclose(run(new), (X - mean) / deviation + 1, rtol=1e-3)


def test_a_step_without_rewriting_takes_references_to_attributes() -> None:
    """Where nothing of a node changes but types, its attributes may be those of the function around it."""
    unchanging = {Step(), version_steps.STEPS["Cast", 24]}
    refused = []
    for operator in {schema.name for schema in onnx.defs.get_all_schemas_with_history() if not schema.domain}:
        for versions in pairwise(sorted(signatures_of(ONNX, operator))):
            forms = [form_of(ONNX, operator, version) for version in versions]
            if version_steps.step_to("", operator, versions[1]) not in unchanging:
                continue
            assert all(form is not None and form.inputs is not None for form in forms)
            attributes = {name: kind for name, (kind, _) in forms[0].attributes.items() if name in forms[1].attributes}
            least = [(form.inputs.least, max(1, form.outputs.least)) for form in forms]
            inputs, outputs = map(max, zip(*least, strict=True))
            node = formats.Node(
                [f"i{index}" for index in range(inputs)],
                [f"o{index}" for index in range(outputs)],
                op_type=operator,
                attribute=[
                    formats.Attribute(name, ref_attr_name="r", type=kind)
                    for name, kind in attributes.items()
                    if kind not in node_conversion.GRAPHS
                ],
            )
            for given, wanted in (versions, reversed(versions)):
                try:
                    made = node_conversion.converted(LoneNode(node, {}, {}), given, wanted).nodes
                except NoFormError as error:
                    refused.append(f"{operator} {given} -> {wanted}: {error}")
                else:
                    assert made == [node]
    assert refused == []


def test_a_cast_to_the_type_of_a_call() -> None:
    """A Cast whose type the call of its function says goes through version 24; what may differ is a note."""
    body = [NODE("Cast", ["p"], ["q"])]
    body[0].attribute.append(onnx.AttributeProto(name="to", ref_attr_name="k", type=onnx.AttributeProto.INT))
    function = helper.make_function("me", "F", ["p"], ["q"], body, [helper.make_opsetid("", 23)], attributes=["k"])
    call = NODE("F", ["x"], ["y"], domain="me", k=TensorProto.FLOAT)
    model = model_of([call], 23, sets=[helper.make_opsetid("me", 1)], functions=[function])
    new, result = with_opset(model, 25)
    assert [loss.seen for loss in result.losses] == [SPECIAL]
    back, _ = with_opset(new, 21)
    np.testing.assert_array_equal(run(back), run(model))
