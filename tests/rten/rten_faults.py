# ruff: noqa: E501 - facts and prose are lines of a page
"""Differences between the newest release of RTen and ONNX: small models, and a page and a program that show them.

`python tests/rten/rten_faults.py` writes `docs/rten_faults.md` and `tests/runtime/0.27/faults.rs`; with a folder as
argument, it writes the models there. `tests/rten/test_faults.py` checks that page and program are current, that RTen
still has every fault, and that onnxruntime gives the right result.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx.parser

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "rten_faults.md"
PROGRAM = ROOT / "tests" / "runtime" / "0.27" / "faults.rs"
RELEASE = "0.27"
NAN, INF = float("nan"), float("inf")
RUST_TYPES = {"float32": "f32", "int32": "i32", "int64": "i32", "bool": "i32", "uint8": "u8", "int8": "i8"}
F, I64, I32, U8, BOOL = np.float32, np.int64, np.int32, np.uint8, np.bool_


class Fault(NamedTuple):
    """A model that shows a fault. `wanted` are the outputs according to ONNX, or else those of onnxruntime.

    `found` are the outputs of RTen, or the text of its error or panic.
    """

    name: str
    fact: str
    version: int
    text: str
    inputs: Mapping[str, np.ndarray[Any, Any]]
    found: list[Any] | str
    wanted: list[Any]
    source: str = "ONNX"  # the source of `wanted`

    def proto(self) -> onnx.ModelProto:
        """Return the model."""
        return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {self.version}]>\n{self.name} {self.text}')


def f(*values: Any) -> np.ndarray[Any, Any]:
    """Return a vector of floats, or one float."""
    return np.array(values if len(values) != 1 else values[0], F)


# fmt: off
SECTIONS: Mapping[str, list[Fault]] = {
    "Operators that give other numbers": [
        Fault(
            "matmul_integer_columns",
            "`MatMulInteger` with a zero point for each column, several rows and at least two blocks of columns uses the "
            "zero points of the first block for all complete blocks. A block has 8 to 32 columns, depending on the processor. "
            "The same is true of zero points of rows, and of `ConvInteger` with a zero point for each channel: "
            "`pack_a_impl` and `pack_b_impl` of `rten-gemm` read `zp[r]` and `zp[c]` for each panel.",
            10,
            """(int8[2, 1] x) => (int32[2, 2] y)
<int8[1, 1] k = {0}, int8 a = {0}, int32[1] one = {1}, int32[1] two = {2}, int64[2] ends = {0, 127},
 int64[1] m = {32}, int64[1] n = {96}, int64[2] s = {1, 128}>
{
    w = Expand(k, s)
    c = Expand(one, m)
    d = Expand(two, n)
    e = Concat<axis = 0>(c, d)
    b = Cast<to = 3>(e)
    p = MatMulInteger(x, w, a, b)
    y = Gather<axis = 1>(p, ends)
}""",
            {"x": np.array([[1], [2]], np.int8)},
            [[-1, -1, -2, -2]],
            [[-1, -2, -2, -4]],
        ),
        Fault(
            "matmul_integer_stack",
            "`MatMulInteger` of one matrix with several forgets the zero point of the first. `int8` has one in any case, "
            "because RTen makes it `uint8`. (`prepack_a` has no zero points; so has `prepack_b`, for weights with the option "
            "`prepack_weights`.)",
            10,
            """(uint8[2, 1] x) => (int32[2, 2, 1] y)
<int8[2, 1, 1] w = {1, 2}, uint8 a = {1}>
{
    y = MatMulInteger(x, w, a)
}""",
            {"x": np.array([[1], [2]], np.uint8)},
            [[1, 2, 2, 4]],
            [[0, 1, 0, 2]],
        ),
        Fault(
            "conv_integer_batch",
            "`ConvInteger` gives wrong results for several samples with a kernel of more than one element and int8 "
            "weights. For one sample, or for uint8 weights, the result is right.",
            10,
            """(uint8[2, 1, 1, 2] x) => (int32[2, 2, 1, 1] y)
<int8[2, 1, 1, 2] w = {1, 1, 1, 1}>
{
    y = ConvInteger<kernel_shape = [1, 2], strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0]>(x, w)
}""",
            {"x": np.array([1, 2, 3, 4], U8).reshape(2, 1, 1, 2)},
            [[387, 387, 903, 903]],
            [[3, 3, 7, 7]],
        ),
        Fault(
            "conv_integer_steps",
            "`ConvInteger` of several samples with a kernel of one element is wrong as well where it has strides or dilations.",
            10,
            """(uint8[2, 1, 2, 1] x) => (int32[2, 2, 1, 1] y)
<int8[2, 1, 1, 1] w = {1, 1}>
{
    y = ConvInteger<kernel_shape = [1, 1], strides = [2, 1], dilations = [1, 1], pads = [0, 0, 0, 0]>(x, w)
}""",
            {"x": np.array([1, 2, 3, 4], U8).reshape(2, 1, 2, 1)},
            [[129, 129, 387, 387]],
            [[1, 1, 3, 3]],
        ),
        Fault(
            "conv_integer_pads",
            "`ConvInteger` with padding. Several channels of uint8 are padded with something else than the zero point.",
            10,
            """(uint8[1, 2, 1, 1] x) => (int32[1, 1, 1, 2] y)
<uint8[1, 2, 1, 1] w = {1, 1}>
{
    y = ConvInteger<kernel_shape = [1, 1], strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 1]>(x, w)
}""",
            {"x": np.array([5, 6], U8).reshape(1, 2, 1, 1)},
            [[11, 256]],
            [[11, 0]],
        ),
        Fault(
            "scatter_elements",
            "`ScatterElements` gives wrong results if, of the dims other than the axis, the last one is smaller in "
            "the indices than in the data, and the dims before it hold more than one lane.",
            18,
            """(float[2, 2, 2] x, int64[1, 2, 1] i, float[1, 2, 1] u) => (float[2, 2, 2] y)
{
    y = ScatterElements<axis = 0>(x, i, u)
}""",
            {"x": np.zeros((2, 2, 2), F), "i": np.array([1, 0], I64).reshape(1, 2, 1), "u": f(10, 20).reshape(1, 2, 1)},
            [[0, 20, 0, 0, 10, 0, 0, 0]],
            [[0, 0, 20, 0, 10, 0, 0, 0]],
        ),
        Fault(
            "quantize_large_numbers",
            "`QuantizeLinear` to `uint8` makes zero of infinity and of numbers of more than 2^31 steps, which do not fit in 32 bits "
            "before they are clamped. A model that divides by zero and quantises the result meets this.",
            13,
            """(float[2] x) => (uint8[2] y)
<float scale = {0.1}, uint8 zero = {3}>
{
    y = QuantizeLinear(x, scale, zero)
}""",
            {"x": f(1, 1e9)},
            [np.array([13, 0], U8)],
            [np.array([13, 255], U8)],
        ),
        Fault(
            "quantize_linear",
            "`QuantizeLinear` rounds values halfway between two steps differently: 2.25 / 0.3 is 7.5 in float32, but "
            "RTen multiplies by 1 / 0.3.",
            13,
            """(float[1] x) => (uint8[1] y)
<float scale = {0.3}, uint8 zero = {0}>
{
    y = QuantizeLinear(x, scale, zero)
}""",
            {"x": np.array([2.25], F)},
            [[8]],
            [[7]],
            "onnxruntime",
        ),
        Fault(
            "dynamic_quantize_linear",
            "`DynamicQuantizeLinear` half way between two steps.",
            11,
            """(float[3] x) => (uint8[3] y, float scale, uint8 zero)
{
    y, scale, zero = DynamicQuantizeLinear(x)
}""",
            {"x": f(2, -3, -2.5)},
            [[255, 0, 25], [0.019607844], [153]],
            [[255, 0, 26], [0.019607844], [153]],
            "onnxruntime",
        ),
        Fault(
            "softplus",
            "`Softplus` of more than 88 is infinite.",
            1,
            """(float[1] x) => (float[1] y)
{
    y = Softplus(x)
}""",
            {"x": np.array([100], F)},
            [[INF]],
            [[100]],
        ),
        Fault(
            "div_by_small",
            "`Div` by a single number multiplies by its reciprocal, which is infinite for numbers below 2.9e-39.",
            14,
            """(float[1] x, float divisor) => (float[1] y)
{
    y = Div(x, divisor)
}""",
            {"x": np.array([1e-39], F), "divisor": f(1e-39)},
            [[INF]],
            [[1]],
        ),
        Fault(
            "sign",
            "`Sign` of zero gives 1 or -1, the sign of the zero, instead of 0.",
            13,
            """(float[2] x) => (float[2] y)
{
    y = Sign(x)
}""",
            {"x": f(0.0, -0.0)},
            [[1, -1]],
            [[0, 0]],
        ),
        Fault(
            "arg_max",
            "`ArgMax` and `ArgMin` return the last of equal extremes. The ONNX loader accepts only `select_last_index "
            "= 0`, which means the first.",
            13,
            """(float[3] x) => (int64 y)
{
    y = ArgMax<axis = 0, keepdims = 0>(x)
}""",
            {"x": f(2, 2, 1)},
            [[1]],
            [[0]],
        ),
        Fault(
            "range",
            "`Range` of floats adds up its steps, so it can have one element too many.",
            11,
            """(float start, float limit, float delta) => (int64[1] n)
{
    y = Range(start, limit, delta)
    n = Shape(y)
}""",
            {"start": f(0), "limit": f(100), "delta": f(0.1)},
            [[1001]],
            [[1000]],
        ),
        Fault(
            "non_max_suppression",
            "`NonMaxSuppression` of several classes lets boxes of different classes compete, and keeps only the best "
            "class of each box.",
            11,
            """(float[1, 2, 4] boxes, float[1, 2, 2] scores) => (int64[n, 3] y)
<int64 most = {2}>
{
    y = NonMaxSuppression(boxes, scores, most)
}""",
            {"boxes": f(0, 0, 1, 1, 2, 2, 3, 3).reshape(1, 2, 4), "scores": f(0.9, 0.8, 0.7, 0.95).reshape(1, 2, 2)},
            [[0, 1, 1]],
            [[0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0]],
        ),
        Fault(
            "non_max_suppression_default",
            "`NonMaxSuppression` without a maximum number of boxes returns boxes. By default, ONNX returns none.",
            11,
            """(float[1, 1, 4] boxes, float[1, 1, 1] scores) => (int64[n, 3] y)
{
    y = NonMaxSuppression(boxes, scores)
}""",
            {"boxes": f(0, 0, 1, 1).reshape(1, 1, 4), "scores": np.array([[[0.9]]], F)},
            [[0, 0, 0]],
            [[]],
        ),
        Fault(
            "non_max_suppression_corners",
            "`NonMaxSuppression` is wrong for a box whose corners are in reverse order. ONNX accepts any two opposite "
            "corners.",
            11,
            """(float[1, 2, 4] boxes, float[1, 1, 2] scores) => (int64[n, 3] y)
<int64 most = {2}, float overlap = {0.5}>
{
    y = NonMaxSuppression(boxes, scores, most, overlap)
}""",
            {"boxes": f(1, 1, 0, 0, 0, 0, 1, 1).reshape(1, 2, 4), "scores": f(0.9, 0.8).reshape(1, 1, 2)},
            [[0, 0, 0, 0, 0, 1]],
            [[0, 0, 0]],
        ),
        Fault(
            "lstm_lengths",
            "`LSTM` and `GRU` ignore `sequence_lens`.",
            14,
            """(float[2, 1, 1] x, int32[1] lengths) => (float[1, 1, 1] h)
<float[1, 4, 1] w = {1, 1, 1, 1}, float[1, 4, 1] r = {1, 1, 1, 1}>
{
    y, h = LSTM<hidden_size = 1>(x, w, r, "", lengths)
}""",
            {"x": f(1, 1).reshape(2, 1, 1), "lengths": np.array([1], I32)},
            [[0.6505352]],
            [[0.36960638]],
        ),
        Fault(
            "reduce_l2_noop",
            "`ReduceL2` with `noop_with_empty_axes` returns its input. ONNX reduces each element by itself.",
            18,
            """(float[2] x) => (float[2] y)
{
    y = ReduceL2<noop_with_empty_axes = 1>(x)
}""",
            {"x": f(-1, 3)},
            [[-1, 3]],
            [[1, 3]],
        ),
        Fault(
            "clip_nan",
            "`Clip` and `Relu` do not return NaN for NaN.",
            13,
            """(float[2] x) => (float[2] y)
<float low = {-1}, float high = {1}>
{
    y = Clip(x, low, high)
}""",
            {"x": f(NAN, 2)},
            [[-1, 1]],
            [[NAN, 1]],
            "onnxruntime",
        ),
    ],
    "Operators that give other dims": [
        Fault(
            "matmul_no_rows",
            "`MatMul` of a matrix without rows with a vector keeps the axis of the vector: the dims of an empty output "
            "are those before `b_is_vec` removes an axis.",
            13,
            """(float[N, 3] x) => (float[M] y)
<float[3] w = {1, 2, 3}>
{
    y = MatMul(x, w)
}""",
            {"x": np.zeros((0, 3), F)},
            [np.zeros((0, 1), F)],
            [np.zeros(0, F)],
        ),
        Fault(
            "div_rank",
            "`Div` and `Pow` give the wrong shape if the right operand has one element and more dims than the left "
            "one.",
            14,
            """(float[2] x, float[1, 1] divisor) => (float[n, m] y)
{
    y = Div(x, divisor)
}""",
            {"x": f(1, 2), "divisor": np.array([[2]], F)},
            [np.array([0.5, 1], F)],
            [np.array([[0.5, 1]], F)],
        ),
        Fault(
            "mat_mul_vector",
            "`MatMul` of several matrices with a vector keeps an axis of size one.",
            13,
            """(float[2, 2, 2] x, float[2] v) => (float[n, m] y)
{
    y = MatMul(x, v)
}""",
            {"x": np.ones((2, 2, 2), F), "v": f(1, 1)},
            [np.full((2, 2, 1), 2)],
            [np.full((2, 2), 2)],
        ),
        Fault(
            "mat_mul_no_columns",
            "`MatMul` of a vector with a matrix without columns keeps an axis of one.",
            13,
            """(float[2] v, float[2, n] x) => (float[m] y)
{
    y = MatMul(v, x)
}""",
            {"v": f(1, 1), "x": np.zeros((2, 0), F)},
            [np.zeros((1, 0))],
            [np.zeros(0)],
        ),
        Fault(
            "non_zero_scalar",
            "`NonZero` of a scalar returns no row.",
            13,
            """(float x) => (int64[n, m] y)
{
    y = NonZero(x)
}""",
            {"x": f(5)},
            [np.zeros((0, 1))],
            [np.zeros((1, 1))],
            "onnxruntime",
        ),
    ],
    "The optimiser": [
        Fault(
            "where_of_scalars",
            "`Where` of three scalars that are known before the model runs is taken for a vector.",
            16,
            """(float x) => (float y, int64[N] s)
<bool c = {1}, int64 a = {3}, int64 b = {5}>
{
    y = Neg(x)
    z = Where(c, a, b)
    s = Shape(z)
}""",
            {"x": f(1)},
            [[-1], [1]],
            [[-1], []],
        ),
        Fault(
            "zero_of_more_axes",
            "`Add` or `Sub` of a constant zero with one element, or `Mul` of a constant one, that has more axes than "
            "the other operand: the optimiser removes the node, and the axes are lost. Without optimisation the "
            "result is right.",
            17,
            """(float[2] x) => (float[1, 2] y)
<float[1, 1] c = {0}>
{
    a = Add(x, c)
    y = Neg(a)
}""",
            {"x": f(1, 2)},
            [f(-1, -2)],
            [f(-1, -2).reshape(1, 2)],
        ),
        Fault(
            "div_of_whole_floats",
            "`Div` of whole floats whose values shape inference knows: it divides them as integers (`7 / 2` is 3), "
            "and the optimiser replaces the value with that quotient. This happens if both operands are constants, or "
            "come from fixed dims by `Shape` and `Cast`. `Add`, `Sub` and `Mul` overflow 32 bits as integers do. "
            "Without optimisation the result is right.",
            17,
            """(float[3] x) => (float[3] y)
<float[3] a = {-7, 7, 9}, float b = {2}>
{
    c = Div(a, b)
    y = Add(c, x)
}""",
            {"x": f(0, 0, 0)},
            [[-3, 3, 4]],
            [[-3.5, 3.5, 4.5]],
        ),
        Fault(
            "reduce_noop",
            "`ReduceMean` with `noop_with_empty_axes` and constant empty axes reduces all axes. "
            "Without optimisation the result is right.",
            18,
            """(float[2] x) => (float[n] y)
<int64[0] axes = {}>
{
    y = ReduceMean<noop_with_empty_axes = 1>(x, axes)
}""",
            {"x": f(1, 3)},
            [[2]],
            [[1, 3]],
        ),
        Fault(
            "reduce_noop_shape",
            "Shape inference gives the `Shape` of a reduction with `noop_with_empty_axes` as if it reduced all axes. "
            "Without "
            "optimisation the result is right.",
            18,
            """(float[2, 3] x) => (int64[2] y)
{
    s = ReduceSum<noop_with_empty_axes = 1>(x)
    y = Shape(s)
}""",
            {"x": np.zeros((2, 3), F)},
            [[1, 1]],
            [[2, 3]],
        ),
        Fault(
            "quantize_cast",
            "The optimiser removes a `Cast` of quantised numbers to int8, so the output is uint8. Without "
            "optimisation the "
            "result is right.",
            13,
            """(float[1] x) => (int8[1] y)
<float scale = {1}, uint8 zero = {0}>
{
    q = QuantizeLinear(x, scale, zero)
    y = Cast<to = 3>(q)
}""",
            {"x": np.array([200], F)},
            [np.array([200], U8)],
            [np.array([-56], np.int8)],
        ),
        Fault(
            "equal_outputs",
            "A model with two outputs that fold to one constant does not load. Without optimisation it loads.",
            13,
            """(float[2, 3] x) => (int64[2] a, int64[2] b)
{
    a = Shape(x)
    b = Identity(a)
}""",
            {"x": np.zeros((2, 3), F)},
            "Outputs are not unique",
            [[2, 3], [2, 3]],
        ),
    ],
    "Names in subgraphs": [
        Fault(
            "output_of_branch",
            "An output of a subgraph has the same name as a value of the graph around it, and RTen happens to compute "
            "that value first. Then RTen returns the outer value. (ONNX requires names to be unique among a graph and "
            "its subgraphs, but not all programs follow that rule.)",
            13,
            """(bool c, float[n] x) => (int64[1] k, float[n] y)
{
    y = If(c) <
        then_branch = then () => (float[n] k) { k = Abs(x) },
        else_branch = other () => (float[n] u) { u = Neg(x) }
    >
    k = Shape(x)
}""",
            {"c": np.array(True), "x": f(-1, 2)},
            [[2], [2]],
            [[2], [1, 2]],
            "onnxruntime",
        ),
        Fault(
            "value_in_branch",
            "A value in a subgraph has the same name as a value of the graph around it, even a later one. The ONNX "
            "loader then uses the outer value. (`.rten` files list the values that a subgraph uses from outside, and "
            "are right.)",
            13,
            """(bool c, float[2] x) => (float[2] y, float[2] t)
{
    y = If(c) <
        then_branch = then () => (float[2] o) { t = Abs(x) o = Identity(t) },
        else_branch = other () => (float[2] u) { u = Neg(x) }
    >
    t = Exp(x)
}""",
            {"c": np.array(True), "x": f(-1, 2)},
            [[0.36787945, 7.389056], [0.36787945, 7.389056]],
            [[1, 2], [0.36787945, 7.389056]],
            "onnxruntime",
        ),
    ],
    "Models that stop": [
        Fault(
            "slice_backward_five_axes",
            "A backward slice of five axes or more that omits elements panics: `copy_range_into_slice_inner` splits the "
            "output by the length of the source.",
            13,
            """(float[1, 1, 3, 1, 1] x) => (float[1, 1, 2, 1, 1] y)
<int64[1] starts = {-1}, int64[1] ends = {-9}, int64[1] axes = {2}, int64[1] steps = {-2}>
{
    y = Slice(x, starts, ends, axes, steps)
}""",
            {"x": f(1, 2, 3).reshape(1, 1, 3, 1, 1)},
            "mid > len",
            [[3, 1]],
        ),
        Fault(
            "slice_of_nothing",
            "`Slice` with a negative step along an empty axis panics.",
            13,
            """(float[n] x) => (float[m] y)
<int64[1] start = {-1}, int64[1] end = {-9223372036854775808}, int64[1] axis = {0}, int64[1] step = {-1}>
{
    y = Slice(x, start, end, axis, step)
}""",
            {"x": np.zeros(0, F)},
            "assertion failed: start <= isize::MAX as usize",
            [[]],
        ),
        Fault(
            "slice_from_in_front",
            "`Slice` panics if it goes backwards from before the first element; ONNX starts at the first element.",
            13,
            """(float[2] x) => (float[m] y)
<int64[1] start = {-3}, int64[1] end = {-9223372036854775808}, int64[1] axis = {0}, int64[1] step = {-1}>
{
    y = Slice(x, start, end, axis, step)
}""",
            {"x": f(1, 2)},
            "assertion failed: start <= isize::MAX as usize",
            [[1]],
            "onnxruntime",
        ),
        Fault(
            "slice_without_axes",
            "`Slice` without axes stops if it has fewer starts than dims.",
            13,
            """(float[2, 3] x) => (float[1, 3] y)
<int64[1] start = {1}, int64[1] end = {2}>
{
    y = Slice(x, start, end)
}""",
            {"x": f(1, 2, 3, 4, 5, 6).reshape(2, 3)},
            "`starts` length must match axis count",
            [[4, 5, 6]],
            "onnxruntime",
        ),
        Fault(
            "slice_steps",
            "`Slice` in place, with steps and without axes, takes the steps for axes.",
            13,
            """(float[2, 3] x) => (float[2, 2] y)
<int64[2] starts = {0, 0}, int64[2] ends = {2, 3}, int64[2] steps = {1, 2}>
{
    a = Neg(x)
    y = Slice(a, starts, ends, "", steps)
}""",
            {"x": f(1, 2, 3, 4, 5, 6).reshape(2, 3)},
            "Axis 2 is out of range. Must be in [-2, 2)",
            [[-1, -3, -4, -6]],
        ),
        Fault(
            "loop_of_nothing",
            "`Loop` with zero iterations stops if its body has scan outputs.",
            13,
            """(int64 n, float[2] x) => (float[k, 2] s)
<bool go = {1}>
{
    y, s = Loop(n, go, x) <
        body = b (int64 i, bool going, float[2] a) => (bool on, float[2] o, float[2] p)
        { on = Identity(going) o = Add(a, a) p = Neg(a) }
    >
}""",
            {"n": np.array(0, I64), "x": f(1, 2)},
            "operator returned 1 outputs but expected 2",
            [[]],
        ),
        Fault(
            "pool_of_little",
            "A pool stops if its kernel is larger than its input.",
            12,
            """(float[1, 1, 2, 2] x) => (float[n, c, h, w] y)
{
    y = MaxPool<kernel_shape = [3, 3], strides = [1, 1]>(x)
}""",
            {"x": f(1, 2, 0, 2).reshape(1, 1, 2, 2)},
            "Input too small for kernel size",
            [np.zeros((1, 1, 0, 0))],
            "onnxruntime",
        ),
        Fault(
            "gru",
            "`GRU` with `linear_before_reset = 0`, the default of ONNX, loads but stops when it runs.",
            14,
            """(float[2, 1, 1] x) => (float[1, 1, 1] h)
<float[1, 3, 1] w = {1, 1, 1}, float[1, 3, 1] r = {1, 1, 1}>
{
    y, h = GRU<hidden_size = 1>(x, w, r)
}""",
            {"x": f(1, 1).reshape(2, 1, 1)},
            "`linear_before_reset=0` is not supported",
            [[0.34675312]],
        ),
    ],
    "The ONNX loader": [
        Fault(
            "old_softmax",
            "Before operator set 13, `Softmax` and `LogSoftmax` work on all axes from `axis` on. The loader uses only "
            "one axis.",
            11,
            """(float[1, 2, 2] x) => (float[1, 2, 2] y)
{
    y = Softmax<axis = 1>(x)
}""",
            {"x": f(0, 0, 0, 0).reshape(1, 2, 2)},
            [[0.5, 0.5, 0.5, 0.5]],
            [[0.25, 0.25, 0.25, 0.25]],
        ),
        Fault(
            "cast_to_bool",
            "`Cast` to BOOL is a cast to int32.",
            13,
            """(float[2] x) => (int32[2] y)
{
    b = Cast<to = 9>(x)
    y = Cast<to = 6>(b)
}""",
            {"x": f(0.5, 2)},
            [[0, 2]],
            [[1, 1]],
        ),
        Fault(
            "quantize_axis",
            "`QuantizeLinear` without `axis`: the default in ONNX is 1, but the loader uses the last axis.",
            13,
            """(float[1, 2, 2] x, float[2] scale, uint8[2] zero) => (uint8[1, 2, 2] y)
{
    y = QuantizeLinear(x, scale, zero)
}""",
            {"x": f(4, 4, 4, 4).reshape(1, 2, 2), "scale": f(1, 2), "zero": np.zeros(2, U8)},
            [[4, 2, 4, 2]],
            [[4, 4, 2, 2]],
        ),
        Fault(
            "same_lower",
            "`SAME_LOWER` pads as `SAME_UPPER` does.",
            11,
            """(float[1, 1, 1, 2] x) => (float[1, 1, 1, 2] y)
{
    y = MaxPool<kernel_shape = [1, 2], strides = [1, 1], auto_pad = "SAME_LOWER">(x)
}""",
            {"x": f(2, 1).reshape(1, 1, 1, 2)},
            [[2, 1]],
            [[2, 2]],
        ),
        Fault(
            "resize_cubic",
            "`Resize` with `mode = \"cubic\"` computes as with `\"linear\"`.",
            13,
            """(float[1, 1, 1, 3] x) => (float[1, 1, 1, 6] y)
<float[4] scales = {1, 1, 1, 2}>
{
    y = Resize<mode = "cubic">(x, "", scales)
}""",
            {"x": f(0, 1, 0).reshape(1, 1, 1, 3)},
            [[0, 0.25, 0.75, 0.75, 0.25, 0]],
            [[-0.10546875, 0.26171875, 0.87890625, 0.87890625, 0.26171875, -0.10546875]],
        ),
        Fault(
            "conv_without_lists",
            "`Conv` without `kernel_shape` does not load without strides and dilations, which have defaults in ONNX.",
            11,
            """(float[1, 1, 2, 2] x, float[1, 1, 1, 1] w) => (float[1, 1, 2, 2] y)
{
    y = Conv(x, w)
}""",
            {"x": f(1, 2, 3, 4).reshape(1, 1, 2, 2), "w": np.full((1, 1, 1, 1), 2, F)},
            "expected 2 stride values",
            [[2, 4, 6, 8]],
        ),
        Fault(
            "conv_transpose_without_lists",
            "`ConvTranspose` with strides and without `kernel_shape` does not load without dilations. (RTen 0.25 runs "
            "it if it has pads.)",
            11,
            """(float[1, 1, 1, 1] x, float[1, 1, 1, 2] w) => (float[1, 1, 1, 2] y)
{
    y = ConvTranspose<strides = [1, 2], pads = [0, 0, 0, 0]>(x, w)
}""",
            {"x": np.ones((1, 1, 1, 1), F), "w": f(2, 3).reshape(1, 1, 1, 2)},
            "expected 2 dilation values",
            [[2, 3]],
        ),
        Fault(
            "pool_without_strides",
            "Pools do not load without strides, which have a default in ONNX.",
            11,
            """(float[1, 1, 2, 2] x) => (float[1, 1, 1, 1] y)
{
    y = AveragePool<kernel_shape = [2, 2]>(x)
}""",
            {"x": f(1, 2, 3, 4).reshape(1, 1, 2, 2)},
            "strides len does not match spatial dims",
            [[2.5]],
        ),
    ],
}
# fmt: on
FAULTS = [fault for faults in SECTIONS.values() for fault in faults]

# Those that matter most, and where they are met: ordinary models have them, and nothing tells the user.
FIRST = {
    "matmul_integer_columns": "each model that was quantised per channel (`quantize_dynamic(per_channel=True)`), at 64 columns or more",
    "conv_integer_batch": "each quantised image model that gets two images at once; one image is right",
    "arg_max": "CLIP's text encoder (`input_ids.argmax(-1)`), and every classifier with equal scores",
    "div_of_whole_floats": "sizes that a model computes in floats, such as half of an odd width",
    "old_softmax": "image classifiers from before 2020, whose `Softmax` gets four dims",
}
HEAD = """# Faults of RTen

This page is for developers of RTen. It lists the cases in which release 0.27 stops, or gives another result than ONNX
defines. For each fault, it has a small model and the lines of Rust that show the fault. The command
`python tests/rten/rten_faults.py FOLDER` writes the models. The tests of this project run all models in RTen 0.27.0 and in
onnxruntime. Unless the text says otherwise, 0.25.0 has the same fault. If ONNX does not define the result, the second
line is the result of onnxruntime.

[.rten](rten.md) says what `formats` does about these faults: it writes other operators, or reports the difference.

The five that matter most, because ordinary models have them, and nothing tells the user:

"""
PROGRAM_TEXT = """
The lines of Rust are part of this program (`tests/runtime/0.27/faults.rs`). Its arguments are the folder of the models
and the name of a model:
"""
PROGRAM_HEAD = """\
use std::error::Error;
use std::path::Path;

use rten::{Model, Value};
use rten_tensor::Tensor;

fn run(folder: &str, name: &str, inputs: Vec<(&str, Value)>) -> Result<(), Box<dyn Error>> {
    let model = Model::load_file(Path::new(folder).join(name))?;
    let inputs = inputs.into_iter().map(|(name, value)| Ok((model.node_id(name)?, value.into())));
    let inputs = inputs.collect::<Result<_, rten::RunError>>()?;
    for value in model.run(inputs, model.output_ids(), None)? {
        println!("{value:?}");
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let folder = arguments[1].as_str();
    match arguments[2].as_str() {
"""
PROGRAM_TAIL = """\
        other => Err(format!("no model is called {other:?}").into()),
    }
}
"""
PROGRAM_NOTE = "// The program of docs/rten_faults.md; tests/rten/rten_faults.py writes both.\n"


def rust(fault: Fault) -> list[str]:
    """Return the lines that run a model."""
    lines = []
    for name, array in fault.inputs.items():
        kind = RUST_TYPES[array.dtype.name]
        numbers = [_rust_number(value, kind) for value in array.ravel().tolist()]
        if array.shape == ():
            lines.append(
                f"let {name} = Tensor::from({numbers[0]}{'' if kind == 'f32' and '::' in numbers[0] else '_' + kind});"
            )
        else:
            typed = f"vec![{', '.join(numbers)}]" if numbers else "vec![]"
            lines.append(f"let {name} = Tensor::<{kind}>::from_data(&{list(array.shape)}, {typed});")
    given = ", ".join(f'("{name}", {name}.into())' for name in fault.inputs)
    lines.append(f'run(folder, "{fault.name}.onnx", vec![{given}])')
    return lines


def _rust_number(value: Any, kind: str) -> str:
    if kind != "f32":
        return str(int(value))
    return "f32::NAN" if value != value else f"{value:.7g}" if "e" in f"{value:.7g}" else repr(float(f"{value:.7g}"))


def program() -> str:
    """Return the program that runs all of them."""
    arms = "".join(
        f'        "{fault.name}" => {{\n' + "".join(f"            {line}\n" for line in rust(fault)) + "        }\n"
        for fault in FAULTS
    )
    head = PROGRAM_HEAD.replace("fn main", "#[rustfmt::skip] // as on the page\nfn main")
    return PROGRAM_NOTE + head + arms + PROGRAM_TAIL


def shown(outputs: list[Any], names: list[str]) -> str:
    """Return outputs as text."""
    return ", ".join(
        f"{name} = {_numbers(value)}" + (f", dims {list(value.shape)}" if isinstance(value, np.ndarray) else "")
        for name, value in zip(names, outputs, strict=True)
    )


def _numbers(values: Any) -> str:
    numbers = np.ravel(values).tolist()
    return "[" + ", ".join("NaN" if x != x else f"{x:.7g}" if isinstance(x, float) else str(x) for x in numbers) + "]"


def page() -> str:
    """Return the page."""
    parts = [
        HEAD,
        *(f"{number}. [`{name}`](#{name}): {reason}.\n" for number, (name, reason) in enumerate(FIRST.items(), 1)),
        PROGRAM_TEXT,
        f"\n```rust\n{PROGRAM_HEAD}        // the lines of one model, in an arm of its own, and ...\n{PROGRAM_TAIL}```\n",
    ]
    for title, faults in SECTIONS.items():
        parts.append(f"\n## {title}\n")
        for fault in faults:
            names = [value.name for value in fault.proto().graph.output]
            found = fault.found if isinstance(fault.found, str) else shown(fault.found, names)
            lines = [f"RTen {RELEASE}".ljust(13) + found, fault.source.ljust(13) + shown(fault.wanted, names)]
            parts.append(f"\n### `{fault.name}`\n\n{fault.fact}\n")
            parts.append(f"\n```text\n{fault.name} {fault.text}\n```\n")
            parts.append("\n```rust\n" + "\n".join(rust(fault)) + "\n```\n")
            parts.append("\n```text\n" + "\n".join(lines) + "\n```\n")
    return "".join(parts)


def main() -> None:
    """Write the page and the program, or the models into a folder."""
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for fault in FAULTS:
            (folder / f"{fault.name}.onnx").write_bytes(fault.proto().SerializeToString())
        return
    DOCUMENT.write_text(page(), encoding="utf-8")
    PROGRAM.write_text(program(), encoding="utf-8")


if __name__ == "__main__":
    main()
