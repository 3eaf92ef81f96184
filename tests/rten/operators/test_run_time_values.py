"""Values that are only known at run time: what RTen would stop at, or compute differently, is written otherwise."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, parser

import formats
from formats.rten.convert.refusal import RefusalError
from tests.rten.evaluation import evaluate_in_onnxruntime

HEAD = '<ir_version: 8, opset_import: ["" : 20]>\n'


def results(runtime: Any, proto: onnx.ModelProto, inputs: dict[str, Any], folder: Path) -> dict[str, list[Any]]:
    """Return what RTen computes with the .rten file, and with the ONNX file for its loader in the newest release."""
    onnx.save(proto, folder / "m.onnx")
    formats.convert(folder / "m.onnx", folder / "m.rten", overwrite=True)
    found = {"rten": runtime.run(folder / "m.rten", inputs)}
    if runtime.release == "0.27":
        formats.convert(folder / "m.onnx", folder / "loader.onnx", overwrite=True, runtime="rten")
        found["loader"] = runtime.run(folder / "loader.onnx", inputs)
    return found


@pytest.mark.parametrize("has_axes", [True, False])
def test_steps_of_a_slice(has_axes: bool, runtime: Any, tmp_path: Path) -> None:
    """Steps, starts and ends that are inputs slice forwards and backwards as in onnxruntime, also axes of size 0."""
    pick = random.Random(1)
    names = ["x", "starts", "ends", "axes" if has_axes else "", "steps"]
    ends = [helper.make_tensor_value_info("x", 1, ["n", "m"])]
    ends += [helper.make_tensor_value_info(name, 7, [2]) for name in names[1:] if name and name != "axes"]
    axes = [onnx.numpy_helper.from_array(np.array([1, 0]), "axes")] if has_axes else []
    y = helper.make_tensor_value_info("y", 1, ["a", "b"])
    graph = helper.make_graph([helper.make_node("Slice", names, ["y"])], "g", ends, [y], axes)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for _ in range(25):
        x = np.arange(20, dtype="float32").reshape(4, 5)[: pick.randint(0, 4), : pick.randint(0, 5)].copy()
        bounds = {name: np.array([pick.randint(-7, 7), pick.randint(-7, 7)]) for name in ("starts", "ends")}
        inputs = {"x": x, **bounds, "steps": np.array([pick.choice([-3, -2, -1, 1, 2]) for _ in range(2)])}
        (expected,) = evaluate_in_onnxruntime(proto.SerializeToString(), inputs)
        for route, (found,) in results(runtime, proto, inputs, tmp_path).items():
            np.testing.assert_array_equal(found, expected, err_msg=f"{route} {inputs}")


@pytest.mark.parametrize("result", ["float[] ", "float[m] "])
def test_results_of_a_sequence_map(result: str, runtime: Any, tmp_path: Path) -> None:
    """Scalars and vectors of an unknown rank, which a SequenceMap makes, are joined along a new axis."""
    keeps = 0 if result == "float[] " else 1
    proto = parser.parse_model(
        f"""{HEAD}g (float[n] x) => (float[] y) <int64 c = {{1}}> {{
        s = SplitToSequence <axis = 0> (x, c)
        q = SequenceMap (s) <body = b (float[e_0] e) => ({result} r) {{ r = ReduceSum <keepdims = {keeps}> (e) }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (q) }}"""
    )
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    inputs = {"x": np.arange(3, dtype="float32")}
    for (found,) in results(runtime, proto, inputs, tmp_path).values():
        np.testing.assert_array_equal(found, inputs["x"].reshape(3, *[1] * keeps))


@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_integers_of_a_resize(kind: str, mode: str, is_empty: bool, runtime: Any, tmp_path: Path) -> None:
    """A Resize of integers is one of floats whose fractions are cut off, as in onnxruntime."""
    proto = parser.parse_model(
        f"""{HEAD}g ({kind}[n, 1, h, w] x) => ({kind}[a, b, c, d] y) <float[4] s = {{1.0, 1.0, 2.0, 0.5}}>
        {{ y = Resize <mode = "{mode}"> (x, , s) }}"""
    )
    limits = np.iinfo(kind)
    numbers = np.random.default_rng(1).integers(max(limits.min, -9999), min(limits.max, 9999), (1, 1, 4, 6))
    inputs = {"x": numbers.astype(kind)[: 0 if is_empty else 1]}
    (expected,) = evaluate_in_onnxruntime(proto.SerializeToString(), inputs)
    for route, (found,) in results(runtime, proto, inputs, tmp_path).items():
        np.testing.assert_array_equal(found, expected, err_msg=route)


@pytest.mark.parametrize("axes", ["", ", axes"])
@pytest.mark.parametrize("noop", [0, 1])
def test_integers_of_a_reduce_log_sum(axes: str, noop: int, tmp_path: Path) -> None:
    """A ReduceLogSum of integers is refused with and without axes, whatever the flag for no axes says."""
    proto = parser.parse_model(
        f"""{HEAD}g (int32[n, 4] x) => (int32[a, b] y) <int64[1] axes = {{1}}>
        {{ y = ReduceLogSum <noop_with_empty_axes = {noop}> (x{axes}) }}"""
    )
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(RefusalError, match="reduces INT32, but RTen supports only floats"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")


@pytest.mark.parametrize("source", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("target", ["uint32", "uint64"])
def test_negative_integers_as_unsigned(source: str, target: str, runtime: Any, tmp_path: Path) -> None:
    """Signed integers that become unsigned are right as long as none is negative, and the report tells of those."""
    number = helper.np_dtype_to_tensor_dtype(np.dtype(target))
    proto = parser.parse_model(f"{HEAD}g ({source}[n] x) => ({target}[n] y) {{ y = Cast <to = {number}> (x) }}")
    inputs = {"x": np.array([0, 5, 127], source)}
    for (found,) in results(runtime, proto, inputs, tmp_path).values():
        np.testing.assert_array_equal(found, inputs["x"])
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten", overwrite=True)
    assert "negative integers stay negative in RTen, and become large ones in ONNX" in str(report.losses)


EQUATIONS = {
    "ij,jk->ik": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 2, 3), (2, 3, 4)),
    "ij,kj": ((2, 3), (4, 3)),
    "bhid,bhjd->bhij": ((2, 2, 3, 2), (2, 2, 4, 2)),
    "bik,jk->bji": ((2, 3, 4), (5, 4)),
    "i,j->ij": ((3,), (2,)),
    "i,i->": ((3,), (3,)),
    "ij->ji": ((2, 3),),
    "ij->": ((2, 3),),
    "i->i": ((3,),),
    "ab,bc,cd->ad": ((2, 3), (3, 2), (2, 2)),
    "ij,ij->ij": ((2, 3), (2, 3)),
    "ij,jk->ikj": ((0, 3), (3, 4)),
    "xy,yz->xz": ((2, 0), (0, 4)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_integers_of_an_einsum(equation: str, kind: str, runtime: Any, tmp_path: Path) -> None:
    """An Einsum of integers becomes a MatMul, or products and their sums, with the same numbers."""
    pick = np.random.default_rng(1)
    inputs = {f"x{place}": pick.integers(-9, 9, dims).astype(kind) for place, dims in enumerate(EQUATIONS[equation])}
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    ends = [helper.make_tensor_value_info(name, number, x.shape) for name, x in inputs.items()]
    node = helper.make_node("Einsum", [*inputs], ["y"], equation=equation)
    graph = helper.make_graph([node], "g", ends, [helper.make_tensor_value_info("y", number, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    expected = np.einsum(equation, *inputs.values())
    for route, (found,) in results(runtime, proto, inputs, tmp_path).items():
        np.testing.assert_array_equal(found, expected, err_msg=route)


@pytest.mark.parametrize(
    ("equation", "words"), [("ii->i", "by the equation 'ii->i'"), ("...i->...", "by the equation")]
)
def test_an_einsum_of_integers_that_is_refused(equation: str, words: str, tmp_path: Path) -> None:
    """A letter that stands twice in a term, and an ellipsis, are refused for integers."""
    proto = parser.parse_model(
        f'{HEAD}g (int32[2, 2] x) => (int32[a] y) {{ y = Einsum <equation = "{equation}"> (x) }}'
    )
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(RefusalError, match=words):
        formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")


@pytest.mark.parametrize("equation", ["i,i->", "ij,j->i", "ij,ij->ij", "j,ij->"])
def test_integers_of_an_einsum_of_unknown_sizes(equation: str, runtime: Any, tmp_path: Path) -> None:
    """If an operand has an axis for each letter, no size needs to be known: each element gives one product."""
    terms, pick = equation.partition("->")[0].split(","), np.random.default_rng(2)
    names = [f"x{place}" for place in range(len(terms))]
    ends = [helper.make_tensor_value_info(name, 6, [*term]) for name, term in zip(names, terms, strict=True)]
    node = helper.make_node("Einsum", names, ["y"], equation=equation)
    graph = helper.make_graph([node], "g", ends, [helper.make_tensor_value_info("y", 6, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for sizes in ({"i": 2, "j": 3}, {"i": 0, "j": 2}, {"i": 2, "j": 0}):
        operands = [pick.integers(-9, 9, [sizes[letter] for letter in term]).astype("int32") for term in terms]
        for route, (found,) in results(runtime, proto, dict(zip(names, operands, strict=True)), tmp_path).items():
            np.testing.assert_array_equal(found, np.einsum(equation, *operands), err_msg=route)


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("width", [4, "w"])
def test_scores_of_an_attention_of_unknown_sizes(
    mode: int, is_causal: int, width: int | str, runtime: Any, tmp_path: Path
) -> None:
    """The scores of an Attention need the number of heads, but no other size, not even the width of a head."""
    pick = np.random.default_rng(1)
    sizes = {"q": 3, "k": 5, "v": 5}
    ends = [helper.make_tensor_value_info(name, 1, ["b", 2, f"{name}_len", width]) for name in sizes]
    node = helper.make_node("Attention", [*sizes], ["y", "", "", "s"], qk_matmul_output_mode=mode, is_causal=is_causal)
    outputs = [helper.make_tensor_value_info(name, 1, None) for name in "ys"]
    graph = helper.make_graph([node], "g", ends, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    inputs = {name: pick.normal(size=(2, 2, size, 4)).astype("float32") for name, size in sizes.items()}
    expected = evaluate_in_onnxruntime(proto.SerializeToString(), inputs)
    for route, found in results(runtime, proto, inputs, tmp_path).items():
        for one, other in zip(found, expected, strict=True):
            hidden = np.isinf(one) & (other < -1e30)  # onnxruntime shows the lowest number for minus infinity
            np.testing.assert_allclose(np.where(hidden, 0, one), np.where(hidden, 0, other), 1e-5, 1e-6, err_msg=route)


@pytest.mark.parametrize(
    ("inputs", "output", "node"),
    [
        ("float[0, 0] x", "int64[1, 0]", "ArgMax (x)"),
        ("float[0, 0] x", "int64[0]", "ArgMin <keepdims = 0, select_last_index = 1> (x)"),
        ("float[0, 2, 3, 3] x, float[0, 4, 5, 2] g", "float[0, 2, 4, 5]", 'GridSample <mode = "nearest"> (x, g)'),
        ("float[1, 2, 3, 3] x, float[1, 0, 5, 2] g", "float[1, 2, 0, 5]", 'GridSample <mode = "cubic"> (x, g)'),
        ("float[3, 0] x, int64[0, 1] i, float[0, 0] u", "float[3, 0]", "ScatterND (x, i, u)"),
    ],
)
def test_results_without_elements(inputs: str, output: str, node: str, runtime: Any, tmp_path: Path) -> None:
    """A result whose dims say that it has no elements is empty in RTen, too, whose kernels would fail."""
    proto = parser.parse_model(f"{HEAD}g ({inputs}) => ({output} y) {{ y = {node} }}")
    feeds = {
        value.name: np.zeros([dim.dim_value for dim in value.type.tensor_type.shape.dim],
                             helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value in proto.graph.input
    }  # fmt: skip
    (expected,) = evaluate_in_onnxruntime(proto.SerializeToString(), feeds)
    for route, (found,) in results(runtime, proto, feeds, tmp_path).items():
        assert found.shape == expected.shape, route


@pytest.mark.parametrize("kind", ["int32", "float"])
@pytest.mark.parametrize(("count", "is_told"), [("n", True), ("46341", True), ("46340", False)])
def test_unique_slices(kind: str, count: str, is_told: bool, tmp_path: Path) -> None:
    """No number of a Unique leaves 32 bits, but a note tells of slices that may be too many to be ranked."""
    text = f"{HEAD}g ({kind}[{count}, 3] x) => ({kind}[a, 3] y) {{ y = Unique <axis = 0> (x) }}"
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    assert "range" not in {loss.kind for loss in report.losses}
    assert ("more than 46,340 slices" in str([*report.losses, *report.notes])) is is_told
    assert not any(loss.matters for loss in report.losses if loss.kind == "deviation")
