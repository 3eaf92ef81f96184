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
