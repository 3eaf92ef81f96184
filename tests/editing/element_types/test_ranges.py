"""What float16 cannot count, add, scale or tell from zero stays in float32: in loops, near zero, and in masks."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import formats

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16


def parsed(graph: str, opset: int = 21) -> onnx.ModelProto:
    """The model of a graph in ONNX's text form, whose main graph states what the nodes make."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> g {graph}')


def converted(proto: onnx.ModelProto, dtype: str = "float16", **options: Any) -> tuple[onnx.ModelProto, list[str]]:
    """The model in a type, which the checker of onnx accepts, and what the report says of it."""
    report = formats.save(formats.from_onnx(proto), buffer := io.BytesIO(), format="onnx", dtype=dtype, **options)
    new = onnx.load_from_string(buffer.getvalue())
    onnx.checker.check_model(new, full_check=True)
    return new, [edit.detail for edit in report.edits]


def computed(proto: onnx.ModelProto, x: Any) -> Any:
    """What onnxruntime computes of x, which gets the type of the input."""
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    dtype = {"tensor(float)": "float32", "tensor(float16)": "float16"}[session.get_inputs()[0].type]
    return session.run(None, {"x": x.astype(dtype)})[0]


COUNTS = {
    "an output of If": """(float[1, n] x) => (int64 y) {
        s = Shape(x) i = Constant<value_int = 1>() l = Gather(s, i) f = Cast<to = 1>(l)
        t = Constant<value_float = 2.0>() m = Constant<value_float = 9.0>() c = Greater(f, m)
        k = If(c) <then_branch = a () => (float p) { p = Mul(f, t) }, else_branch = b () => (float q) { q = Add(f, t) }>
        y = Cast<to = 7>(k)
    }""",
    "what a Loop carries": """(float[1, n] x) => (int64 y) {
        z = Constant<value_float = 0.0>() h = Constant<value_float = 683.0>() r = Constant<value_int = 3>()
        g = Cast<to = 9>(r)
        k = Loop(r, g, z) <body = l (int64 i, bool o, float v) => (bool u, float w) { u = Identity(o) w = Add(v, h) }>
        y = Cast<to = 7>(k)
    }""",
    "what a Loop stacks": """(float[1, n] x) => (int64[m] y) {
        s = Shape(x) j = Constant<value_int = 1>() l = Gather(s, j) f = Cast<to = 1>(l) r = Constant<value_int = 3>()
        g = Cast<to = 9>(r)
        k = Loop(r, g) <body = b (int64 i, bool o) => (bool u, float w)
            { u = Identity(o) d = Cast<to = 1>(i) w = Add(f, d) }>
        y = Cast<to = 7>(k)
    }""",
    "what a Scan carries": """(float[1, n] x) => (int64 y) {
        z = Constant<value_float = 2048.0>() e = Constant<value_floats = [1.0, 1.0, 1.0]>()
        k, q = Scan<num_scan_inputs = 1, body = b (float v, float d) => (float w, float o)
            { w = Add(v, d) o = Identity(w) }>(z, e)
        y = Cast<to = 7>(k)
    }""",
    "a cumulative sum": """(float[1, n] x) => (int64[1, n] y) {
        a = Constant<value_int = 1>() z = Sub(x, x) o = Constant<value_float = 1.0>() s = Shape(x)
        e = Expand(o, s) c = CumSum(e, a) y = Cast<to = 7>(c)
    }""",
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", COUNTS)
def test_counts_through_graphs(name: str, dtype: str) -> None:
    """A size stays exact where it is the result of If, Loop or Scan, is carried through rounds, or is a sum of them."""
    proto = parsed(COUNTS[name])
    new, told = converted(proto, dtype, keep_io_types=True)
    x = np.zeros((1, 2049), "float32")
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    (found,) = ReferenceEvaluator(new).run(None, {"x": x})
    np.testing.assert_array_equal(found, wanted)
    assert any("(sizes, indices, comparisons and angles)" in each for each in told) or "Loop" in name


def test_a_branch_with_much_computation_becomes_float16() -> None:
    """Where one branch of an If is no count, nothing stays in float32 for its result."""
    proto = parsed("""(float[2, 2] x) => (int64[2, 2] y) {
        s = Shape(x) f = Cast<to = 1>(s) m = ReduceMax<keepdims = 0>(s) c = Cast<to = 9>(m)
        k = If(c) <then_branch = a () => (float[2] p) { p = Identity(f) },
                   else_branch = b () => (float[2, 2] q) { q = MatMul(x, x) }>
        y = Cast<to = 7>(k)
    }""")
    new, _ = converted(proto)
    assert [FLOAT16] == [each.i for each in new.graph.node[1].attribute]


NORM = """(float[2, 8] x) => (float[2, 8] y) <float e = {EPSILON}, float[1] a = {0}, float t = {2}> {
    m = ReduceMean<axes = [-1]>(x) c = Sub(x, m) p = Pow(c, t) v = ReduceMean<axes = [-1]>(p) w = Add(v, e) s = Sqrt(w)
    y = Div(c, s)
}"""


@pytest.mark.parametrize(("scale", "epsilon"), [(300, "1e-5"), (1e-3, "1e-12")])
def test_a_variance_and_its_epsilon_stay(scale: float, epsilon: str) -> None:
    """A square that float16 cannot hold, or an epsilon that it has no digits for: what makes the quotient stays."""
    proto = parsed(NORM.replace("EPSILON", epsilon), 17)
    new, told = converted(proto)
    x = np.random.default_rng(3).normal(size=(2, 8)).astype("float16").astype("float32") * np.float32(scale)
    np.testing.assert_allclose(computed(new, x).astype("float32"), computed(proto, x), rtol=2e-2, atol=2e-2)
    assert "in float32 stay Add x 1, Div x 1, Pow x 1, ReduceMean x 1, Sqrt x 1 (sums with a number near zero)" in told
    _, told = converted(parsed(NORM.replace("EPSILON", "0.1"), 17))
    assert not any("near zero" in each for each in told)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("y = Div(x, e)", "weights near zero"),
        ("y = Mul(x, e)", "weights near zero"),
        ("q = QuantizeLinear(x, e) y = DequantizeLinear(q, e)", "scales of quantised numbers"),
        (
            "i = Constant<value = int32[2, 2] {100000, -200000, 300000, 4}>() d = DequantizeLinear(i, l) y = Add(x, d)",
            "scales of quantised numbers",
        ),
        ("q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z)", "scales of quantised numbers"),
    ],
)  # fmt: skip
def test_scales_stay(node: str, why: str) -> None:
    """A factor, divisor or scale near zero, one that is computed, and what scales large integers stay in float32."""
    proto = parsed(f"(float[2, 2] x) => (float[2, 2] y) <float e = {{1e-7}}, float l = {{0.001}}> {{ {node} }}")
    new, told = converted(proto, keep_io_types=True)
    x = np.array([[1e-6, 2e-6], [-3e-6, 5e-6]], "float32")
    np.testing.assert_allclose(computed(new, x), computed(proto, x), rtol=2e-3)
    assert any(each.startswith("in float32 stay ") and f"({why})" in each for each in told)


@pytest.mark.parametrize("opset", [10, 17])
@pytest.mark.parametrize("mask", ["-1e9", "-3.4028235e38", "-10000"])
def test_masks_stay_finite(mask: str, opset: int) -> None:
    """A row that is masked as a whole has the same probabilities, whatever number the mask multiplies; none is NaN."""
    proto = parsed(
        f"(float[2, 4] x) => (float[2, 4] y) <float[2, 4] k = {{1, 1, 1, 1, 1, 0, 0, 1}}, float m = {{{mask}}}> "
        "{ p = Mul(k, m) a = Add(x, p) y = Softmax<axis = 1>(a) }",
        opset,
    )
    new, _ = converted(proto)
    x = np.zeros((2, 4), "float32")
    np.testing.assert_allclose(computed(new, x).astype("float32"), computed(proto, x), atol=1e-3)


def test_what_becomes_small_again_is_not_limited() -> None:
    """The logarithm of a large product is exact: the sum between both stays in float32, too."""
    proto = parsed(
        "(float[2, 2] x) => (float[2, 2] y) <float m = {1048576}, float o = {1}> "
        "{ p = Mul(x, m) a = Add(p, o) l = Log(a) y = Relu(l) }"
    )
    new, told = converted(proto)
    x = np.array([[0.5, 2], [100, 0]], "float32")
    np.testing.assert_allclose(computed(new, x).astype("float32"), computed(proto, x), rtol=1e-3)
    assert "in float32 stay Add x 1, Log x 1, Mul x 1 (weights beyond the range of the type)" in told


@pytest.mark.parametrize(("dtype", "opset", "keep"), [("bfloat16", 13, ()), ("float16", 17, ("If", "Loop"))])
def test_a_node_with_graphs_that_stays(dtype: str, opset: int, keep: Any) -> None:
    """An If and a Loop that stay in float32 keep the inputs and outputs of their graphs."""
    proto = parsed(
        """(float[2] x, bool c) => (float[2] y) {
        r = Constant<value = int64 {3}>()
        k = If(c) <then_branch = a () => (float[2] p) { p = Neg(x) }, else_branch = b () => (float[2] q) { q = Abs(x) }>
        y = Loop(r, c, k) <body = l (int64 i, bool o, float[2] v) => (bool u, float[2] w)
            { u = Identity(o) w = Add(v, x) }>
    }""",
        opset,
    )
    options = {"keep": keep} if keep else {}
    new, _ = converted(proto, dtype, keep_io_types=True, **options)
    feed = {"x": np.array([1, -2], "float32"), "c": np.array(True)}
    (wanted,) = ReferenceEvaluator(proto).run(None, feed)
    np.testing.assert_array_equal(ReferenceEvaluator(new).run(None, feed)[0], wanted)


def test_sums_of_dims_that_nobody_knows() -> None:
    """A sum along an axis whose dim has no size stays in float32; one along an axis of eight does not."""
    for axis, stays in ((0, True), (1, False)):
        nodes = f"a = Constant<value_ints = [{axis}]>() y = ReduceSum<keepdims = 0>(x, a)"
        _, told = converted(parsed(f"(float[n, 8] x) => (float[k] y) {{ {nodes} }}"))
        assert stays == (
            "in float32 stay ReduceSum x 1 (sums of more than 2,047 numbers, or of nobody knows how many)" in told
        )
