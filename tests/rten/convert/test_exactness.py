"""What a report warns of can happen: intervals of floats and integers, NaN where it may be, and the named node."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import formats
from formats.rten import CODEC
from formats.rten.options import RtenOptions

PATH = Path("m.rten")
BOUNDED = (
    "a = Sigmoid(x)",
    "a = Tanh(x)",
    "a = Softmax(x)",
    "b = Clip(x, low, high) a = Mul(b, scale)",
    "b = Sigmoid(x) a = Mul(b, scale)",
    "b = Sin(x) a = Exp(b)",
    "b = Tanh(x) c = Relu(b) a = Sqrt(c)",
    "a = LayerNormalization(x, weights, weights)",
    "b = Erf(x) c = Reshape(b, line) a = Add(c, scale)",
    "b = QuantizeLinear(x, scale, zero) a = DequantizeLinear(b, scale, zero)",
)
UNBOUNDED = ("a = Relu(x)", "a = Exp(x)", "a = Mul(x, scale)", "b = Sigmoid(x) a = Div(scale, b)")


def losses_of(text, opset=17):
    """Return the losses of a graph in ONNX's own notation."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {text}')
    return CODEC.plan(formats.loads(model.SerializeToString()), PATH, RtenOptions()).losses


def of_cast(nodes):
    """Return the losses of a cast of floats to INT64."""
    return losses_of(f"""g (float[2, 3] x) => (int64[A, B] y)
        <float low = {{-9}}, float high = {{9}}, float scale = {{3}}, uint8 zero = {{7}}, int64[1] line = {{-1}},
         float[3] weights = {{1, -2, 3}}> {{ {nodes} y = Cast<to = 7>(a) }}""")


@pytest.mark.parametrize("nodes", BOUNDED)
def test_bounded_floats_become_integers_without_a_warning(nodes):
    """The interval of a float is known from the operator and from constants, so its cast cannot exceed 32 bits."""
    assert [] == [loss for loss in of_cast(nodes) if loss.kind == "range"]


@pytest.mark.parametrize("nodes", UNBOUNDED)
def test_unbounded_floats_become_integers_with_a_warning(nodes):
    """If nothing bounds the numbers of a float, the report warns that its cast may exceed 32 bits."""
    assert ["range"] == [loss.kind for loss in of_cast(nodes) if loss.matters and loss.seen == "range"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "g (float[A, B, C] x) => (int64[D] y) { s = Shape(x) y = ReduceProd<keepdims = 1>(s) }", id="dims"
        ),
        pytest.param(
            "g (float[A, 9] x) => (int64[A, B] y) { a = ArgMax<axis = 1>(x) b = ArgMin<axis = 1>(x) y = Mul(a, b) }",
            id="indices",
        ),
        pytest.param("g (uint32[A] x, uint32[A] z) => (uint32[A] y) { y = Div(x, z) }", id="quotients"),
        pytest.param("g (uint32[A] x, uint32[A] z) => (uint32[A] y) { y = Mod(x, z) }", id="remainders"),
        pytest.param(
            """g (int64[A, 2] x, int64[3, 2] i, int64[3, 2] u) => (int64[A, 2] y)
            { y = ScatterElements<reduction = "add">(x, i, u) }""",
            id="additions",
        ),
        pytest.param(
            "g (float[A, B, C, D] x, int64[A, B, C, D] i) => (float[E, F, G, H] y)"
            "{ y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }",
            id="places",
        ),
        pytest.param(
            """g (float[A, 2] s, float[N, 2] x) => (float[A, 2] t, float[N, 2] y) { t, y = Scan<num_scan_inputs = 1,
            scan_input_directions = [1], body = b (float[2] a, float[2] c) => (float[2] d, float[2] e)
            { d = Add(a, c) e = Neg(c) }>(s, x) }""",
            id="steps backwards",
        ),
    ],
)
def test_integers_that_fit_are_not_told(text):
    """Dims, places, quotients and short sums fit in 32 bits, and the report does not warn of them."""
    assert [] == [loss for loss in losses_of(text, 18) if loss.kind == "range"]


NUMBERS = ("clamped", "precision", "range", "rounded")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (int64[A] x) => (double[A] y) { y = Cast<to = 11>(x) }", id="integers as DOUBLE"),
        pytest.param(
            """g (uint8[A] x) => (double[A] y) <double half = {0.5}, double more = {-3.25}>
            { a = Cast<to = 11>(x) b = Mul(a, half) y = Add(b, more) }""",
            id="sums and products of few digits",
        ),
        pytest.param(
            """g (bool[9] x) => (double y) <int64[1] axis = {0}>
            { a = Cast<to = 11>(x) y = ReduceSum<keepdims = 0>(a, axis) }""",
            id="a total of DOUBLE",
        ),
        pytest.param(
            """g (int16[9] x) => (double[9] y) <double divisor = {7}>
            { a = Cast<to = 11>(x) y = Mod<fmod = 1>(a, divisor) }""",
            id="a remainder",
        ),
        pytest.param(
            """g (float[1, 1, 8, 8] x) => (float[B, C, D, E] y, double[B, C, D, E] z)
            { y, i = MaxPool<kernel_shape = [2, 2]>(x) z = Cast<to = 11>(i) }""",
            id="places of a pool",
        ),
        pytest.param(
            """g (int64[A] x) => (int64[B] y, int64[B] i, int64[A] j, int64[B] n)
            { y, i, j, n = Unique(x) }""",
            id="places and counts of different elements",
        ),
        pytest.param(
            """g (bool[A] x) => (int64[A] y) <int64 axis = {0}>
            { a = Cast<to = 7>(x) y = CumSum(a, axis) }""",
            id="running totals of truths",
        ),
        pytest.param(
            """g (bool[A] x) => (int64 y) { a = Cast<to = 7>(x) y = ReduceProd<keepdims = 0>(a) }""",
            id="a product of truths",
        ),
        pytest.param("g (uint32[A] x) => (uint32[A] y) { y = Sub(x, x) }", id="a number minus itself"),
        pytest.param(
            """g (float[A, B] x) => (float[2] y) { s = Shape(x) a = Cast<to = 1>(s) y = Sub(a, a) }""",
            id="a float that comes from dims minus itself",
        ),
        pytest.param(
            """g (float[A, B] x) => (float[C, D] y) <int64[1] zero = {0}, int64[1] end = {4611686018427387904}>
            { a = Concat<axis = 0>(zero, zero) b = Concat<axis = 0>(end, end) y = Slice(x, a, b) }""",
            id="to the end",
        ),
        pytest.param("g (int64[A] x, int64 w) => (int64[A] y) <int64 w = {0}> { y = Mul(x, w) }", id="a default input"),
    ],
)
def test_numbers_that_rten_has_are_not_told(text):
    """DOUBLE of few digits, places, counts and moved bounds of slices are the same in RTen, and no loss says else."""
    assert [] == [loss for loss in losses_of(text, 18) if loss.kind in NUMBERS]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("g (double[A] x) => (double[A] y) { y = Add(x, x) }", id="any DOUBLE"),
        pytest.param(
            "g (int64[A] x) => (double[A] y) <double w = {3}> { a = Cast<to = 11>(x) y = Mul(a, w) }", id="25 digits"
        ),
        pytest.param(
            "g (int8[A] x) => (double[A] y) <double w = {0.1}> { a = Cast<to = 11>(x) y = Mul(a, w) }", id="a fraction"
        ),
        pytest.param(
            """g (int8[A] x) => (double[A] y) <double w = {0.0009765625}, double v = {1048576.0}>
            { a = Cast<to = 11>(x) b = Mul(a, w) y = Add(b, v) }""",
            id="large and small",
        ),
        pytest.param("g (int8[A] x) => (double[A] y) { a = Cast<to = 11>(x) y = Sqrt(a) }", id="a root"),
    ],
)
def test_numbers_of_more_digits_than_float_has_are_told(text):
    """DOUBLE that FLOAT may lack is a loss."""
    assert "precision" in [loss.kind for loss in losses_of(text, 18)]


@pytest.mark.parametrize("bounds", ["b", ", b"])
def test_a_bound_that_is_computed_is_told(bounds):
    """A Clip may have the numbers of a bound that is no constant, so its square may need more than 32 bits."""
    nodes = f"x = Cast<to = 7>(u) c = Clip(x, {bounds}) y = Mul(c, c)"
    found = losses_of(f"g (uint8 u, int64 b) => (int64 y) {{ {nodes} }}")
    assert ["graph.node[2]"] == [loss.where for loss in found if loss.kind == "range"]


def test_a_large_number_that_is_no_bound_is_told():
    """A number beyond 32 bits that is also returned is clamped, and the report says so, though a Slice uses it, too."""
    found = losses_of("""g (float[A] x) => (float[B] y, int64[1] z)
        <int64[1] zero = {0}, int64[1] end = {4611686018427387904}>
        { z = Concat<axis = 0>(end) y = Slice(x, zero, z) }""")
    assert [loss for loss in found if loss.kind in NUMBERS]


def test_a_loss_in_a_subgraph_names_the_node_of_the_model():
    """A Scan becomes a Loop whose body has more nodes; losses name the Scan or the nodes of its body, each once."""
    found = losses_of("""g (int64[2] s, int64[N, 2] x) => (int64[2] t, int64[N, 2] y) { t, y = Scan<num_scan_inputs = 1,
        body = b (int64[2] a, int64[2] c) => (int64[2] d, int64[2] e) { d = Mul(a, c) e = Identity(d) }>(s, x) }""")
    told = [loss for loss in found if loss.kind == "range"]
    assert ['graph.node[0].attribute["body"].g.node[0]'] == [loss.where for loss in told]
    assert ["Mul: INT64 values may exceed the 32 bits that RTen uses (d)"] == [loss.detail for loss in told]


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("g (float[3] x) => (float[3] y) { y = Relu(x) }", True),
        ("g (int32[3] x) => (float[3] y) { a = Cast<to = 1>(x) y = Relu(a) }", False),
        (
            "g (int8[3] x) => (float[3] y) <float s = {0.5}> { a = DequantizeLinear(x, s) b = Tanh(a) y = Relu(b) }",
            False,
        ),
        ("g (float[3] x) => (float[3] y) { a = Sigmoid(x) y = Relu(a) }", True),
        ("g (int32[3] x) => (float[3] y) { a = Cast<to = 1>(x) b = Log(a) y = Relu(b) }", True),
    ],
)
def test_nan_is_told_only_where_it_may_be(text, is_told):
    """What comes from integers and finite constants through operators that keep it bounded has no NaN."""
    assert is_told == any("NaN" in loss.detail for loss in losses_of(text))
