"""Small models of several nodes: the real runtime computes the same as onnxruntime, and so does the way back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import formats
from formats.rten.convert.refusal import RefusalError
from tests.rten.random_graphs.graph import Graph, run_in_onnxruntime
from tests.rten.random_graphs.judging import difference, held
from tests.runtime.runner import RunnerError

F, I, U = np.float32, np.int64, np.uint8  # noqa: E741 - types of elements
SIBLINGS = """g (bool c, int64 i, float[2] a, float[2] b) => (float[6] y) {
    s = SequenceConstruct(a, b)
    y = If (c) <
        then_branch = t () => (float[6] r) { p = Abs(i) q = SequenceInsert(s, a, p) r = ConcatFromSequence<axis=0>(q) },
        else_branch = e () => (float[6] r) { p = Neg(i) w = Neg(b) q = SequenceInsert(s, w, p)
                                             r = ConcatFromSequence<axis=0>(q) } > }"""
LOOP = """g (float[N] x, int64 n) => (float[N] y, float[M, N] z) <bool t = {1}> {
    y, z = Loop (n, t, x) < body = b (int64 i, bool c, float[N] v) => (bool d, float[N] w, float[N] u)
        { d = Identity(c) w = Add(v, v) u = Neg(v) } > }"""
WHOLE = np.arange(200, dtype=F)
X23 = np.arange(6, dtype=F).reshape(2, 3)
IMAGES = np.arange(2 * 9, dtype=U).reshape(2, 1, 3, 3)
KERNEL = np.array([[[[1, 2], [3, 4]]]], np.int8)
CONV = "g (uint8[%s] x, int8[1,1,2,2] w) => (int32[A,B,C,D] y) { y = ConvInteger(x, w) }"
SCATTER = (
    """g (float[%s] x, int64[2,2,1] i, float[2,2,1] u) => (float[A,B,C] y) { y = ScatterElements<axis=0>(x, i, u) }"""
)
SCATTERED = {
    "x": np.arange(12, dtype=F).reshape(2, 2, 3),
    "i": np.array([[[0], [-1]], [[1], [0]]], I),
    "u": np.array([[[10], [20]], [[30], [40]]], F),
}
SHORT = "g (int16[2] x, int16[1] u) => (int16[2] y) <int64[%s] i = {0}> { y = %s(x, i, u) }"
SHORTS = {"x": np.array([30000, 1], np.int16), "u": np.array([30000], np.int16)}

SHADOW = """g (float[3] x) => (float s, float[3] y) <int64 n = {1}, bool c = {1}> {
    y = Loop (n, c, x) <
        body = b (int64 i, bool g, float[3] v) => (bool h, float[3] s) { s = Where(g, x, v) h = Identity(g) } >
    w = Cast<to=1>(n) s = Identity(w) }"""
NESTED_SHADOW = """g (bool c, float[3] x) => (float[3] y, float z) <float[3] k = {7, 8, 9}> {
    y = If (c) <
        then_branch = t () => (float[3] r) {
            w = If (c) <
                then_branch = t2 () => (float[3] z) { a = Add(k, x) z = Neg(a) },
                else_branch = e2 () => (float[3] z) { a = Add(x, k) z = Neg(a) } >
            r = Mul(w, k) },
        else_branch = e () => (float[3] r) { r = Sub(x, k) } >
    z = ReduceSum<keepdims=0>(k) }"""

# RTen knows some whole floats before it runs, and treats them as integers: constants, and values from fixed dims.
QUOTIENT = "g (float[3] x) => (float[3] y) <float[3] a = {%s}, float%s b = {%s}> { c = %s(a, b) y = Add(c, x) }"
OF_DIMS = """g (float[2,3,5] x) => (float[3] y) <float[3] a = {2, 4, 3}> {
    s = Shape(x) f = Cast<to=1>(s) q = Div(f, a) p = Ceil(q) y = Div(p, f) }"""
IN_A_BRANCH = """g (bool c, float[3] x) => (float[3] y) <float[3] a = {5, 7, 9}, float b = {2}> {
    y = If (c) < then_branch = t () => (float[3] r) { q = Div(a, b) r = Add(q, x) },
                 else_branch = e () => (float[3] r) { r = Mul(a, x) } > }"""
LIKE_ANOTHER = """g (float[3] x) => (float[3] y)
    <float[3] a = {0.5, 7, 9}, float[3] b = {5, 7, 9}, float d = {2}> {
    p = Div(a, d) q = Div(b, d) r = Add(p, x) y = Add(q, r) }"""

NEUTRAL = "g (float[2,3] x) => (float[A,B,C,D] y) <float[1,1,1,1] c = {%s}> { t = %s y = Neg(t) }"
BACKWARDS = """g (float[%s,2] x) => (float[A,B] y) <int64[1] s = {-1}, int64[1] e = {-9223372036854775808},
    int64[1] a = {0}, int64[1] k = {-1}> { y = Slice(x, s, e, a, k) }"""

CASES = {
    "zero_of_more_axes": (NEUTRAL % ("0", "Add(x, c)"), {"x": X23}),
    "minus_zero_of_more_axes": (NEUTRAL % ("-0.0", "Add(c, x)"), {"x": X23}),
    "less_zero_of_more_axes": (NEUTRAL % ("0", "Sub(x, c)"), {"x": X23}),
    "one_of_more_axes": (NEUTRAL % ("1", "Mul(x, c)"), {"x": X23}),
    "divided_by_one_of_more_axes": (NEUTRAL % ("1", "Div(x, c)"), {"x": X23}),
    "quotient_of_whole_floats": (QUOTIENT % ("-7, 7, 9", "", "2", "Div"), {"x": F([0, 0, 0])}),
    "quotient_of_vectors": (QUOTIENT % ("-7, 7, 9", "[3]", "2, 3, 4", "Div"), {"x": F([0, 0, 0])}),
    "large_product": (QUOTIENT % ("100000, 300000, 7", "", "100000", "Mul"), {"x": F([0, 0, 0])}),
    "large_sum": (QUOTIENT % ("2000000000, 1, 7", "", "2000000000", "Add"), {"x": F([0, 0, 0])}),
    "large_difference": (QUOTIENT % ("-2000000000, 1, 7", "", "2000000000", "Sub"), {"x": F([0, 0, 0])}),
    "quotient_of_dims": (OF_DIMS, {"x": np.zeros((2, 3, 5), F)}),
    "quotient_in_a_branch": (IN_A_BRANCH, {"c": np.array(True), "x": F([1, 2, 3])}),
    "quotient_like_another": (LIKE_ANOTHER, {"x": F([0, 0, 0])}),
    "shadowed_by_a_loop": (SHADOW, {"x": F([1, 2, 3])}),
    "shadowed_twice": (NESTED_SHADOW, {"c": np.array(True), "x": F([1, 2, 3])}),
    "softplus_of_large_numbers": ("g (float[6] x) => (float[6] y, float[6] z) { y = Softplus(x) z = Mish(x) }",
                                  {"x": F([0, 63, 65, 89, 1e30, -200])}),
    "hardmax_of_nothing": ("g (float[A,B] x) => (float[C,D] y) { y = Hardmax(x) }", {"x": np.zeros((2, 0), F)}),
    "hardmax_of_any_size": ("g (float[A,B] x) => (float[C,D] y) { y = Hardmax<axis=0>(x) }", {"x": X23}),
    "mean_of_no_integers": ("g (int64[A,B] x) => (int64[C] y) <int64[1] a = {1}> { y = ReduceMean<keepdims=0>(x, a) }",
                            {"x": np.zeros((2, 0), I)}),
    "normalization_of_nothing": ("""g (float[0,2,3] x) => (float[A,B,C] y, float[D,E,F] z) <float[2] s = {1, 1}> {
        y = BatchNormalization(x, s, s, s, s) z = InstanceNormalization(x, s, s) }""",
                                 {"x": np.zeros((0, 2, 3), F)}),
    "space_of_no_samples": ("g (float[A,4,2,2] x) => (float[B,C,D,E] y) { y = SpaceToDepth<blocksize=2>(x) }",
                            {"x": np.zeros((0, 4, 2, 2), F)}),
    "outputs_of_constants": ("""
        g (float[3] x) => (float[3] w, float[A] y, float[B] z, float[C] v, uint8[2] m, uint8[2] n)
        <float[2] a = {0, 1}, uint8[2] u = {1, 2}, int64[1] s = {2}> {
        w = Neg(x) y = Neg(a) z = Identity(y) v = Reshape(y, s) m = Max(u, u) n = Identity(m) }""",
                             {"x": F([1, 2, 3])}),
    "outputs_of_constants_in_a_loop": ("""g (float[3] x) => (float[3] y, float[A, B] z, float[C, D] w)
        <float[2] a = {0, 1}, int64 n = {2}, bool c = {1}> {
        y, z, w = Loop(n, c, x) < body = b (int64 i, bool k, float[3] v) => (bool h, float[3] o, float[2] p, float[2] q)
            { h = Identity(k) o = Neg(v) p = Neg(a) q = Neg(a) } > }""", {"x": F([1, 2, 3])}),
    "attention_of_unknown_width": ("""g (float[2,N,4] q, float[2,M,W] k, float[4] w) => (float[A,B] y) {
        a = com.microsoft.MultiHeadAttention <num_heads: int = 2> (q, k, k) y = MatMul(a, w) }""",
                                   {"q": np.arange(24, dtype=F).reshape(2, 3, 4) / 9,
                                    "k": np.arange(40, dtype=F).reshape(2, 5, 4) / 9, "w": F([1, 2, 3, 4])}),
    "vector_of_unknown_rank": ("g (float[A,B,C] x, float[] w) => (float[] y) { y = MatMul(x, w) }",
                               {"x": np.ones((2, 3, 2), F), "w": F([1, 2])}),
    "matrix_of_unknown_rank": ("g (float[A,B,C] x, float[] w) => (float[] y) { y = MatMul(x, w) }",
                               {"x": np.ones((2, 3, 2), F), "w": F([[1, 2], [3, 4]])}),
    "space_of_no_rows": ("g (float[A,3,B,2] x) => (float[C,D,E,F] y) { y = SpaceToDepth<blocksize=2>(x) }",
                         {"x": np.zeros((1, 3, 0, 2), F)}),
    "ignored_loss": ("""g (float[2,2] x, int64[2] t) => (float y)
        { y = NegativeLogLikelihoodLoss<ignore_index=0>(x, t) }""",
                     {"x": F([[-np.inf, 1], [2, 3]]), "t": np.array([0, 1])}),
    "pads_that_are_cut_off": ("g (float[A,2] x) => (float[B,C] y) <int64[4] p = {1, 2, -2, -1}> { y = Pad(x, p) }",
                              {"x": F([[1, 2]])}),
    "pads_of_nothing": ("g (float[A,2] x) => (float[B,C] y) <int64[4] p = {1, 0, -1, 0}> { y = Pad(x, p) }",
                        {"x": np.zeros((0, 2), F)}),
    "casts_of_the_ends_of_64_bits": ("""g (float[3] x) => (float[3] y, int32[3] z, float[3] w)
        <int64[3] k = {9223372036854775807, -9223372036854775808, 4}> {
        y = Cast<to=1>(k) z = Cast<to=6>(k) w = Add(x, y) }""", {"x": F([1, 2, 3])}),
    "loop_of_no_steps_without_dims": ("""g (float[A] x, int64 n) => (float[A] y, float[B, C] z) <bool t = {1}> {
        y, z = Loop (n, t, x) < body = b (int64 i, bool c, float[] v) => (bool d, float[] w, float[] u)
            { d = Identity(c) w = Identity(v) u = Neg(x) } > }""", {"x": F([]), "n": np.array(0)}),
    "siblings_then": (SIBLINGS, {"c": np.array(True), "i": np.array(1), "a": F([1, 2]), "b": F([3, 4])}),
    "siblings_else": (SIBLINGS, {"c": np.array(False), "i": np.array(1), "a": F([1, 2]), "b": F([3, 4])}),
    "scatter_elements_add": (SHORT % (1, 'ScatterElements<axis=0, reduction="add">'), SHORTS),
    "scatter_elements_mul": (SHORT % (1, 'ScatterElements<axis=0, reduction="mul">'), SHORTS),
    "scatter_truths": ('g (bool[2] x, bool[1] u) => (bool[2] y) <int64[1] i = {0}> '
                       '{ y = ScatterElements<axis=0, reduction="add">(x, i, u) }',
                       {"x": np.array([True, False]), "u": np.array([True])}),
    "scatter_nd_add": (SHORT % ("1,1", 'ScatterND<reduction="add">'), SHORTS),
    "scatter_lanes": (SCATTER % "2,2,3", SCATTERED),
    "scatter_lanes_of_any_size": (SCATTER % "P,Q,R", SCATTERED),
    "cum_sum_of_nothing": ("g (float[0] x) => (float[A] y) <int64 a = {0}> { y = CumSum<exclusive=1>(x, a) }",
                           {"x": np.zeros(0, F)}),
    "outputs_alike": ("g (float[2,3] x) => (int64[2] a, int64[2] b, int64[1] c, int32[2] d) "
                      "{ a = Shape(x) b = Identity(a) c = Shape<start=1>(x) d = Cast<to=6>(b) }", {"x": X23}),
    "truths_alike": ("g (float[2,3] x) => (int64 a, bool b) <int64 k = {6}, int64 m = {5}> "
                     "{ s = Size(x) b = Equal(s, k) a = Sub(s, m) }", {"x": X23}),
    "sizes_that_cancel_out": ("""g (float[N] x) => (int64[1] a, int64[B] b) <int64[1] z = {0}>
        { s = Shape(x) i = Gather(s, z) a = Div(i, s) b = Shape(a) }""", {"x": F([1, 2, 3])}),
    "loop_of_no_steps": (LOOP, {"x": F([1, 2]), "n": np.array(0)}),
    "loop_of_some_steps": (LOOP, {"x": F([1, 2]), "n": np.array(3)}),
    "slice_of_first_axis": ("g (float[2,3] x, int64[1] s, int64[1] e) => (float[A,B] y) { y = Slice(x, s, e) }",
                            {"x": X23, "s": np.array([1]), "e": np.array([2])}),
    "slice_of_any_axes": ("g (float[A,B] x, int64[K] s, int64[K] e) => (float[P,Q] y) { y = Slice(x, s, e) }",
                          {"x": X23, "s": np.array([1]), "e": np.array([2])}),
    "slice_to_the_least": ("g (float[2,3] x) => (float[A,B] y) <int32[1] s = {-1}, int32[1] e = {-2147483648}, "
                           "int32[1] a = {1}, int32[1] k = {-1}> { y = Slice(x, s, e, a, k) }", {"x": X23}),
    "hardmax_of_a_vector": ("g (float[3] x) => (float[3] y) { y = Hardmax(x) }", {"x": F([1, 3, 2])}),
    "hardmax_first_axis": ("g (float[2,3] x) => (float[2,3] y) { y = Hardmax<axis=0>(x) }", {"x": X23}),
    "conv_integer_of_two": (CONV % "2,1,3,3", {"x": IMAGES, "w": KERNEL}),
    "conv_integer_of_nine": (CONV % "9,1,3,3", {"x": np.arange(81, dtype=U).reshape(9, 1, 3, 3), "w": KERNEL}),
    "conv_integer_of_any": (CONV % "N,1,H,W", {"x": IMAGES, "w": KERNEL}),
    "div_of_higher_rank": ("g (float[2] x) => (float[1,1,2] y) <float[1,1,1] k = {2}> { y = Div(x, k) }",
                           {"x": F([1, 3])}),
    "div_of_any_rank": ("g (float[] x, float[] k) => (float[] y) { y = Div(x, k) }",
                        {"x": F([1, 3]), "k": F([[[2]]])}),
    "pow_of_higher_rank": ("g (float[2] x, float[A,B] k) => (float[C,D] y) { y = Pow(x, k) }",
                           {"x": F([1, 3]), "k": F([[2]])}),
    "backwards_through_nothing": (BACKWARDS % "N", {"x": np.zeros((0, 2), F)}),
    "backwards_from_the_last": (BACKWARDS % "N", {"x": np.ones((1, 2), F)}),
    "backwards_from_in_front": ("""g (float[A,8] x) => (float[B,C] y) <int64[2] s = {-9, -2147483648},
        int64[2] e = {-9223372036854775808, -9223372036854775808}, int64[2] a = {0, 1}, int64[2] k = {-1, -2}>
        { y = Slice(x, s, e, a, k) }""", {"x": np.arange(16, dtype=F).reshape(2, 8)}),
    "backwards_by_int32": ("""g (float[A,3] x, int32[1] s) => (float[B,C] y)
        <int32[1] e = {-9}, int32[1] a = {0}, int32[1] k = {-1}> { y = Slice(x, s, e, a, k) }""",
                           {"x": X23, "s": np.array([-5], np.int32)}),
    "shrunk_integers": ("g (int64[5] x) => (int64[5] y) { y = Shrink<bias=0.5>(x) }",
                        {"x": np.array([0, 4, -1, 6, 1])}),
    "scalars_of_a_sequence": ("""g (int64 a, int64 b) => (int64[N] y)
        { s = SequenceConstruct(a, b) y = ConcatFromSequence<axis=-1, new_axis=1>(s) }""",
                              {"a": np.array(3), "b": np.array(5)}),
    "conv_integer_with_steps": ("""g (uint8[2,2,3,2] x, int8[2,2,1,1] w) => (int32[A,B,C,D] y)
        { y = ConvInteger<strides=[2, 1]>(x, w) }""",
                                {"x": np.arange(24, dtype=U).reshape(2, 2, 3, 2),
                                 "w": np.array([100, -100, -9, 81], np.int8).reshape(2, 2, 1, 1)}),
    "dims_of_a_loop_of_no_steps": ("""g (int64 x, int64 n) => (int64 y, float[A,B,C] z) <bool t = {1}> {
        y, z = Loop (n, t, x) < body = b (int64 i, bool c, int64 v) => (bool d, int64 w, float[P,Q] u)
            <float[3,4] k = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}>
            { d = Identity(c) w = Identity(v) u = Neg(k) } > }""", {"x": np.array(1), "n": np.array(0)}),
    **{
        f"{mode}_by_computed_pads": (f"""g (float[A,B,C] x, int64[6] p) => (float[D,E,F] y)
            {{ y = Pad<mode="{mode}">(x, p) }}""",
                                     {"x": np.arange(12, dtype=F).reshape(2, 3, 2),
                                      "p": np.array([1, -1, 1, 0, 1, -1])})
        for mode in ("constant", "edge", "wrap")
    },
    "mirrored_by_computed_pads": ("""g (float[A,B,C] x, int64[6] p) => (float[D,E,F] y)
        { y = Pad<mode="reflect">(x, p) }""",
                                  {"x": np.arange(12, dtype=F).reshape(2, 3, 2), "p": np.array([1, 2, 1, 0, 1, 1])}),
    "old_bounds": ("g (float[4] x) => (float[4] y, float[4] z) { y = Clip(x) z = Clip<min=0.0>(x) }",
                   {"x": F([np.inf, -np.inf, 1, -2])}),
    "vector_by_no_columns": ("g (float[2] x, float[2,N] w) => (float[M] y) { y = MatMul(x, w) }",
                             {"x": F([1, 2]), "w": np.zeros((2, 0), F)}),
    "vector_by_columns": ("g (float[2] x, float[2,N] w) => (float[M] y) { y = MatMul(x, w) }",
                          {"x": F([1, 2]), "w": F([[1, 2], [3, 4]])}),
    "more_parts_than_there_are": ("g (float[2,N] x) => (float[2,A] y, float[2,B] z) { y, z = Split<axis=-1>(x) }",
                                  {"x": np.zeros((2, 0), F)}),
    "parts_of_what_the_run_tells": ("g (float[N] x) => (float[A] y, float[B] z) { y, z = Split<axis=0>(x) }",
                                    {"x": F([1, 2, 3, 4])}),
    "channels_of_no_samples": ("g (float[N,4,2,2] x) => (float[A,B,C,D] y) { y = LRN<size=3>(x) }",
                               {"x": np.zeros((0, 4, 2, 2), F)}),
    "volumes_of_no_samples": ("""g (float[N,1,3,3,3] x) => (float[A,B,C,D,E] y)
        { y = AveragePool<kernel_shape=[2, 2, 2]>(x) }""", {"x": np.zeros((0, 1, 3, 3, 3), F)}),
    "more_slopes_than_numbers": ("g (float[3,1] x, float[1,2] s) => (float[A,B] y) { y = PRelu(x, s) }",
                                 {"x": F([[1], [-1], [-2]]), "s": F([[1, 3]])}),
    "softmax_of_nothing": ("g (float[3,0] x) => (float[3,0] y) { y = LogSoftmax<axis=0>(x) }",
                           {"x": np.zeros((3, 0), F)}),
    "indices_that_are_cut_off": ("""g (float[5] x) => (float[A,B] y) <float d = {3}, float[2] v = {0, 1}>
        { y = OneHot(x, d, v) }""", {"x": F([0.5, 2, -0.5, -1, 1.75])}),
    "variance_of_large_numbers": ("g (float[1,1,1,4] x) => (float[A,B,C,D] y) { y = MeanVarianceNormalization(x) }",
                                  {"x": F([1000, 1000.01, 1000.5, 1001]).reshape(1, 1, 1, 4)}),
    **{
        f"local_responses_of_no_{name}": ("g (float[N,C,H,W] x) => (float[A,B,D,E] y) { y = LRN<size=3>(x) }",
                                          {"x": np.zeros(dims, F)})
        for name, dims in {"rows": (1, 2, 0, 4), "channels": (1, 0, 3, 4)}.items()
    },
    "mean_of_padding_alone": ("""g (float[1,1,H] x) => (float[A,B,C] y)
        { y = AveragePool<kernel_shape=[2], pads=[1, 1], dilations=[2]>(x) }""", {"x": F([[[7]]])}),
    "first_axis_by_sizes_of_the_run": ("""g (float[A,B,C] x, int64[3] s) => (float[D,E,G] y)
        { y = Resize<mode="nearest">(x, "", "", s) }""",
                                       {"x": np.arange(12, dtype=F).reshape(3, 4, 1), "s": np.array([2, 6, 2])}),
    "scale_that_keeps_the_size": ("""g (float[1,1,H,1] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 1.25, 1}>
        { y = Resize<mode="nearest">(x, "", s) }""", {"x": np.arange(3, dtype=F).reshape(1, 1, 3, 1)}),
    "scale_that_changes_the_size": ("""g (float[1,1,H,1] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 1.25, 1}>
        { y = Resize<mode="linear">(x, "", s) }""", {"x": np.arange(6, dtype=F).reshape(1, 1, 6, 1)}),
    "backwards_by_starts_of_unknown_number": ("""g (float[A,2,3] x, int64[K] s) => (float[B,C,D] y)
        <int64[1] e = {-9223372036854775808}, int64[1] k = {-2}> { y = Slice(x, s, e, "", k) }""",
                                              {"x": np.arange(18, dtype=F).reshape(3, 2, 3), "s": np.array([-4])}),
    "old_mask": ("g (float[A,3] x) => (float[B,3] y, bool[B,3] m) { y, m = Dropout(x) }", {"x": F([[1, -2, 3]])}),
    "mask": ("g (float[A,3] x) => (float[B,3] y, bool[B,3] m) { y, m = Dropout(x) }", {"x": F([[1, -2, 3]])}),
    "old_scales_of_the_run": ("g (float[1,1,H,W] x, float[4] s) => (float[A,B,C,D] y) { y = Resize(x, s) }",
                              {"x": np.arange(20, dtype=F).reshape(1, 1, 4, 5), "s": F([1, 1, 1.5, 0.6])}),
    "old_scales_both_ways": ("""g (float[1,1,4,5] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 0.6, 1.5}>
        { y = Resize(x, s) }""", {"x": np.arange(20, dtype=F).reshape(1, 1, 4, 5)}),
    **{
        f"ngrams_{mode}_of_{dims}": (
            f"""g (int64[{dims}] x) => (float[{dims.replace("C", "K")}] y) {{ y = TfIdfVectorizer<mode = "{mode}",
                min_gram_length = 1, max_gram_length = 3, max_skip_count = 2, ngram_counts = [0, 2, 6],
                ngram_indexes = [5, 0, 6, 2, 3], pool_int64s = [2, 3, 3, 2, 5, 5, 2, 5, 3],
                weights = [0.5, 2.0, 3.0, 0.25, 7.0]>(x) }}""",
            {"x": np.array([2, 3, 5, 2, 5, 5, 3, 2, 5, 5, 2, 3], I).reshape(shape)})
        for mode in ("TF", "IDF", "TFIDF") for dims, shape in (("C", (12,)), ("N,C", (2, 6)), ("12,C", (12, 1)))
    },
    **{
        f"unique_{name}": (f"""g ({kind} x) => ({kind.partition("[")[0]}[{dims}] y, int64[I] i, int64[V] v, int64[C] c)
            {{ y, i, v, c = Unique{attributes}(x) }}""", {"x": x})
        for name, kind, dims, attributes, x in (
            ("floats", "float[8]", "M", "", F([2, 1, 1, -0.0, 3, 4, 3, 0])),
            ("unsorted", "int64[A,B]", "M", "<sorted=0>", np.array([[7, 3, 7], [-1, 3, 0]])),
            ("slices", "float[A,B,C]", "M,N,P", "<axis=1, sorted=0>", F([1, 0, 1, 1, 0, 2, 1, 1]).reshape(1, 4, 2)),
            ("rows_of_bytes", "int8[3,2]", "M,N", "<axis=-2>", np.array([[1, -2], [0, 5], [1, -2]], np.int8)),
            ("nothing", "int64[A]", "M", "", np.zeros(0, I)),
        )
    },
    # RTen multiplies by the reciprocal of a single divisor, and 41 * (1 / 41) is below 1.
    "quotient_rounded_down": ("g (float[200] x) => (float[200] y) <float k = {41}> { q = Div(x, k) y = Floor(q) }",
                              {"x": WHOLE}),
    "quotient_cut_off": ("g (float[N,1] x, float[D] k) => (int32[N,1] y) { q = Div(x, k) y = Cast<to=6>(q) }",
                         {"x": WHOLE.reshape(-1, 1), "k": F([41])}),
    "quotient_of_numbers": ("g (float x, float[D] k) => (float[D] y) { q = Div(x, k) y = Floor(q) }",
                            {"x": np.array(41, F), "k": F([41])}),
    "quotient_compared": ("""g (float[N] x) => (bool[N] y) <float[1] k = {41}, float h = {1}, float z = {0}>
        { q = Div(x, k) a = Add(q, z) y = Less(a, h) }""", {"x": WHOLE}),
    "quotient_rounded_in_a_loop": ("""g (float[N] x, int64 n) => (float[N] y) <bool t = {1}, float k = {41}> {
        q = Div(x, k)
        y = Loop (n, t, x) < body = b (int64 i, bool c, float[N] v) => (bool d, float[N] w)
            { d = Identity(c) w = Floor(q) } > }""", {"x": WHOLE, "n": np.array(1)}),
    "quotient_rounded_by_a_function": ("""g (float[N] x) => (float[N] y) { y = own.steps(x) }
        <opset_import: ["": 18], domain: "own">
        steps (x) => (y) { k = Constant<value_float = 41.0>() q = Div(x, k) y = Ceil(q) }""", {"x": WHOLE}),
}  # fmt: skip
OLD = {
    "variance_of_large_numbers": 13,
    "local_responses_of_no_rows": 13,
    "local_responses_of_no_channels": 13,
    "mean_of_padding_alone": 19,
    "old_mask": 11,
    "old_scales_of_the_run": 10,
    "old_scales_both_ways": 10,
    "softmax_of_nothing": 11,
    "hardmax_of_a_vector": 13,
    "old_bounds": 10,
    "wrap_by_computed_pads": 19,
    "more_parts_than_there_are": 13,
    "parts_of_what_the_run_tells": 13,
}


def _model(text: str, version: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {version}]>\n{text}')


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name, runtime, tmp_path):
    """RTen, and onnxruntime with the file converted back, compute the same as the model."""
    text, feeds = CASES[name]
    graph = Graph(_model(text, OLD.get(name, 18)), feeds)
    graph.model.opset_import.extend(onnx.helper.make_opsetid(each.domain, 1) for each in graph.model.functions)
    if graph.model.graph.input[0].type.tensor_type.HasField("shape") and "[]" in text:
        for value in (*graph.model.graph.input, *graph.model.graph.output):
            value.type.tensor_type.ClearField("shape")  # the text cannot express "of any rank"
    want = run_in_onnxruntime(graph.model, feeds)
    source, target, back = (tmp_path / f"m{suffix}" for suffix in (".onnx", ".rten", "2.onnx"))
    source.write_bytes(graph.model.SerializeToString())
    formats.convert(source, target)
    results = runtime.run(target, {key: held(value) for key, value in feeds.items()})
    assert not difference(want, results)
    formats.convert(target, back)
    raised = onnx.load(back)
    kinds = {value.name: value.type.tensor_type.elem_type for value in raised.graph.input}
    given = {key: held(feeds[key]).astype(onnx.helper.tensor_dtype_to_np_dtype(kind)) for key, kind in kinds.items()}
    assert not difference(results, run_in_onnxruntime(raised, given))


QUANTIZED = "<float a = {0.25}, uint8 b = {5}, float c = {%s}, %s d = {%s}, float e = {0.5}, uint8 f = {5}%s>"
EXACT = {
    "product": (f"""g (uint8[N] x) => (uint8[N] y) {QUANTIZED % ("0.5", "uint8", "0", ", uint8 w = {3}")}
        {{ y = com.microsoft.QLinearMul(x, a, b, w, c, d, e, f) }}""", np.arange(256, dtype=U)),
    "matrices": (f"""g (uint8[N,2] x) => (uint8[N,2] y)
        {QUANTIZED % ("0.5", "int8", "1", ", int8[2,2] w = {3, 5, -7, 9}")}
        {{ y = QLinearMatMul(x, a, b, w, c, d, e, f) }}""", np.arange(64, dtype=U).reshape(32, 2)),
    "convolution": (f"""g (uint8[N,1,2,3] x) => (uint8[N,2,1,2] y)
        {QUANTIZED.replace("float c", "float[2] c") % ("0.5, 0.75", "int8[2]", "0, 0",
                                                       ", int8[2,1,2,2] w = {3, 5, -7, 9, 1, 0, 2, 1}")}
        {{ k = Constant<value = int32[2] {{1, -3}}>() y = QLinearConv(x, a, b, w, c, d, e, f, k) }}""",
                    np.arange(96, dtype=U).reshape(16, 1, 2, 3)),
    "quantised": ("g (float[N] x) => (uint8[N] y) <float a = {0.3}, uint8 z = {7}> { y = QuantizeLinear(x, a, z) }",
                  np.arange(200, dtype=F) * F(0.25)),
    **{f"quantised_by_content_{dims}":
       (f"g (float[{dims}] x) => (uint8[{dims}] y, float s, uint8 z) {{ y, s, z = DynamicQuantizeLinear(x) }}",
        (np.arange(-60, 195, dtype=F) * F(0.3)).reshape(shape))
       for dims, shape in (("255", -1), ("N", -1), ("5,51", (5, 51)), ("N,1", (-1, 1)), ("5,M", (5, 51)))},
}  # fmt: skip


@pytest.mark.parametrize("name", EXACT)
def test_exact_forms_take_half_steps_as_onnxruntime_does(name, runtime, tmp_path):
    """With `exact`, integers are multiplied, and a result between two steps is rounded as in onnxruntime."""
    text, x = EXACT[name]
    model = _model(text, 18)
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    source, target = tmp_path / "m.onnx", tmp_path / "m.rten"
    source.write_bytes(model.SerializeToString())
    report = formats.convert(source, target, exact=True)
    assert not difference(run_in_onnxruntime(model, {"x": x}), runtime.run(target, {"x": x}))
    told = [loss.detail for loss in report.losses if loss.kind == "deviation"]
    assert all("NaN" in detail for detail in told)  # there are no such losses


SMALL_FLOATS = [
    *((getattr(onnx.TensorProto, f"FLOAT{name}"), saturate, "up")
      for name in ("8E4M3FN", "8E4M3FNUZ", "8E5M2", "8E5M2FNUZ", "4E2M1") for saturate in (1, 0)),
    *((onnx.TensorProto.FLOAT8E8M0, saturate, mode) for mode in ("up", "down", "nearest") for saturate in (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "saturate", "mode"), SMALL_FLOATS)
def test_casts_to_small_floats_round(kind, saturate, mode, runtime, tmp_path):
    """All numbers of a type, numbers between two of them, their neighbours and larger ones are cast as ONNX says."""
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
    found = np.arange(16 if "4_" in dtype.name else 256, dtype=np.uint8).view(dtype).astype(F)
    found = np.unique(found[np.isfinite(found)])
    between = (found[1:] + found[:-1]) / 2
    around = [np.nextafter(array, F(end)) for array in (found, between) for end in (np.inf, -np.inf)]
    ends = F([0, -0.0, np.inf, 1e-40, 3e-39, 464, 465, 61440, 65504, 3.4e38])
    x = np.concatenate([found, between, *around, ends])
    x = np.concatenate([x, -x, F([np.nan])])
    rounding = f', round_mode="{mode}"' if kind == onnx.TensorProto.FLOAT8E8M0 else ""
    text = f"""g (float[N] x) => (float[N] y)
        {{ c = Cast<to={kind}, saturate={saturate}{rounding}>(x) y = Cast<to=1>(c) }}"""
    model = _model(text, 24)
    (want,) = ReferenceEvaluator(model).run(None, {"x": x})
    source, target, back = (tmp_path / f"m{suffix}" for suffix in (".onnx", ".rten", "2.onnx"))
    source.write_bytes(model.SerializeToString())
    formats.convert(source, target)
    (got,) = runtime.run(target, {"x": x})
    np.testing.assert_array_equal(got, want)
    is_number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[is_number]), np.signbit(want[is_number]))
    formats.convert(target, back)
    np.testing.assert_array_equal(run_in_onnxruntime(onnx.load(back), {"x": x})[0], want)


FLEX = """g (float[B,4,L,3] q, float[B,2,S,3] k, float[B,2,S,2] v, float[4,1,1] bias) => (float[B,4,L,2] y) {
    y = ai.onnx.preview.FlexAttention <
        score_mod: graph = s (float[B,4,L,S] t) => (float[B,4,L,S] u) <float two = {2}>
            { a = Mul(t, two) u = Add(a, bias) },
        prob_mod: graph = p (float[B,4,L,S] t) => (float[B,4,L,S] t) { } > (q, k, v) }"""


def test_flex_attention_takes_in_its_subgraphs(runtime, tmp_path):
    """Subgraphs of attention have their own constants, use outer values, and may do nothing."""
    model = _model(FLEX, 24)
    model.opset_import.append(onnx.helper.make_opsetid("ai.onnx.preview", 1))
    source, target = tmp_path / "m.onnx", tmp_path / "m.rten"
    source.write_bytes(model.SerializeToString())
    formats.convert(source, target)
    rng = np.random.default_rng(5)
    shapes = {"q": (2, 4, 3, 3), "k": (2, 2, 5, 3), "v": (2, 2, 5, 2), "bias": (4, 1, 1)}
    feeds = {name: rng.normal(size=dims).astype(F) for name, dims in shapes.items()}
    key, value = (np.repeat(feeds[name], 2, axis=1) for name in "kv")
    scores = feeds["q"] @ key.swapaxes(2, 3) / np.sqrt(F(3)) * 2 + feeds["bias"]
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    want = shares / shares.sum(-1, keepdims=True) @ value
    np.testing.assert_allclose(runtime.run(target, feeds)[0], want, rtol=1e-5, atol=1e-6)
    assert model.SerializeToString() == source.read_bytes()


LINEAR_ATTENTION = """g (float[B,T,4] q, float[B,T,2] k, float[B,T,3] v, float[B,T,1] d, float[B,T,1] b)
    => (float[B,T,6] y, float[B,1,2,3] s) {
    y, s = LinearAttention<q_num_heads=2, kv_num_heads=1, update_rule="gated_delta">(q, k, v, "", d, b) }"""


@pytest.mark.parametrize(("batch", "tokens"), [(2, 4), (1, 1), (2, 0), (0, 3)])
def test_linear_attention_of_any_number_of_tokens(batch, tokens, runtime, tmp_path):
    """Without a token, the state stays the same; sizes are known only at run time."""
    model = _model(LINEAR_ATTENTION, 27)
    source, target = tmp_path / "m.onnx", tmp_path / "m.rten"
    source.write_bytes(model.SerializeToString())
    formats.convert(source, target)
    rng = np.random.default_rng(tokens)
    widths = {"q": 4, "k": 2, "v": 3, "d": 1, "b": 1}
    feeds = {name: rng.normal(size=(batch, tokens, width)).astype(F) / 2 for name, width in widths.items()}
    want = ReferenceEvaluator(model).run(None, feeds)
    for found, wanted in zip(runtime.run(target, feeds), want, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


REFUSED = {
    "axis_twice": ("g (float[2,3] x) => (float y) <int64[2] a = {1, -3}> { y = Unsqueeze(x, a) }", "same axis twice"),
    "window_too_large": ("g (float[1,1,2,2] x) => (float y) { y = MaxPool<kernel_shape=[3, 3]>(x) }",
                         "the padded data has only 2"),
    "axis_beyond": ("g (float[2,3] x) => (float y) <int64[1] a = {2}> { y = ReduceMax(x, a) }", "axes"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_rten_stops_at_is_refused(name, tmp_path):
    """A node that stops every runtime, or on whose result runtimes disagree, is refused with the reason."""
    text, reason = REFUSED[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(_model(text, 18).SerializeToString())
    with pytest.raises(RefusalError, match=reason):
        formats.convert(path, tmp_path / "m.rten")
    assert not Path(tmp_path / "m.rten").exists()


def test_folding_wraps_and_ends(runtime, tmp_path):
    """Constants that are squared many times stay within 64 bits, so that folding them is fast."""
    rows = " ".join(f"v{place + 1} = Mul(v{place}, v{place})" for place in range(200))
    text = f"""g (float[1] x) => (float y) <int64[1] v0 = {{3}}, int64[1] zero = {{0}}>
        {{ {rows} one = Pow(v200, zero) y = Reshape(x, one) }}"""
    model = _model(text, 18)
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    formats.convert(path, tmp_path / "m.rten")
    assert runtime.run(tmp_path / "m.rten", {"x": F([5])})[0].tolist() == [5.0]


TOLD = {
    "ArgMax": "g (float[2] x) => (int64[1] y) { y = ArgMax(x) }",
    "Relu": "g (float[2] x) => (float[2] y) { y = Relu(x) }",
    "Clip": "g (float[2] x) => (float[2] y) <float k = {1}> { y = Clip(x, k) }",
    "TopK": "g (float[2] x) => (float[1] y, int64[1] z) <int64[1] k = {1}> { y, z = TopK(x, k) }",
    "Hardmax": "g (float[2] x) => (float[2] y) { y = Hardmax(x) }",
    "ReduceMax": "g (float[2] x) => (float y) { y = ReduceMax<keepdims=0>(x) }",
    "ReduceSum": "g (float[N] x) => (float y) <int64[1] a = {-1}> { y = ReduceSum<keepdims=0>(x, a) }",
    "Cast": "g (float[2] x) => (uint8[2] y) { y = Cast<to=2>(x) }",
    "Slice": """g (float[4] x) => (float[N] y) <int64[1] s = {1}, int64[1] e = {9223372036854775807}, int64[1] a = {0},
        int64[1] k = {-1}> { y = Slice(x, s, e, a, k) }""",
    "Less": """g (float[1] x) => (bool[1] y, float[1] z) <int64[1] j = {2147483647}, int64[1] k = {9223372036854775807}>
        { z = Neg(x) y = Less(j, k) }""",
    "BitwiseOr": "g (int64[1] x) => (int64[1] y) <int64[1] k = {9223372036854775807}> { y = BitwiseOr(x, k) }",
    "ReduceMean": "g (float[N] x) => (float y) { y = ReduceMean<keepdims=0>(x) }",
    "ReduceProd": "g (int32[N] x) => (int32 y) { y = ReduceProd<keepdims=0>(x) }",
    "MaxPool": "g (float[1, 1, 4] x) => (float[1, 1, 2] y) { y = MaxPool<kernel_shape=[2], strides=[2]>(x) }",
    "GlobalMaxPool": "g (float[1, 1, 4] x) => (float[1, 1, 1] y) { y = GlobalMaxPool(x) }",
    "Asinh": "g (float[2] x) => (float[2] y) { y = Asinh(x) }",
    "ScatterND": """g (float[2] x) => (float[2] y) <int64[1, 1] i = {0}, float[1] u = {1}> {
        y = ScatterND<reduction="max">(x, i, u) }""",
    "ConvTranspose": """g (float[1, 1, 4] x) => (float[1, 1, 6] y) <float[1, 1, 2] w = {1, 2}> {
        y = ConvTranspose<dilations=[2]>(x, w) }""",
    "Resize": """g (float[1, 1, H, 1] x) => (float[1, 1, K, 1] y) <float[4] s = {1, 1, 1.5, 1}> {
        y = Resize<mode="linear">(x, "", s) }""",
    "QuantizeLinear": "g (float[2] x) => (uint8[2] y) <float s = {0.3}, uint8 z = {0}> { y = QuantizeLinear(x, s, z) }",
    "DFT": """g (float[1, 4, 1] x) => (float[1, 3, 2] y)
        { n = Constant<value_int = 4>() y = DFT<axis=1, onesided=1>(x, n) }""",
    "AveragePool": "g (float[1, 1, N] x) => (float[1, 1, M] y) { y = AveragePool<kernel_shape=[2]>(x) }",
    "MeanVarianceNormalization": """g (float[1, 1, 2, 1] x) => (float[1, 1, 2, 1] y)
        { y = MeanVarianceNormalization(x) }""",
    "DynamicQuantizeLinear": "g (float[2] x) => (uint8[2] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
}


@pytest.mark.parametrize("op_type", TOLD)
def test_deviations_are_told(op_type, tmp_path):
    """Deviations of RTen are reported, each sentence once per operator; those on ordinary input matter."""
    path = tmp_path / "m.onnx"
    path.write_bytes(_model(TOLD[op_type], 18).SerializeToString())
    losses = [loss for loss in formats.convert(path, tmp_path / "m.rten").losses if loss.kind == "deviation"]
    assert {loss.detail.partition(":")[0] for loss in losses} == {op_type}
    assert len({loss.detail for loss in losses}) == len(losses)
    assert any(loss.matters for loss in losses) == (op_type in ("Sign", "BitwiseOr"))


NOT_TOLD = {
    "comparison": """g (float[N] x) => (bool[1] y) <int64[1] k = {9223372036854775807}>
        { s = Shape(x) y = Less(s, k) }""",
    "integers": "g (int32[2] x) => (int32[2] y) <int32 k = {1}> { a = Relu(x) y = Clip(a, k) }",
    "mean": "g (float[2, N] x) => (float[N] y) <int64[1] a = {0}> { y = ReduceMean<keepdims=0>(x, a) }",
    "sum": "g (float[2, N] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceSum<keepdims=0>(x, a) }",
    "cast": "g (int64[2] x) => (int32[2] y) { a = Cast<to=1>(x) y = Cast<to=6>(a) }",
    "pool": "g (float[1, 1, N] x) => (float[1, 1, M] y) { y = AveragePool<kernel_shape=[2], pads=[0, 1]>(x) }",
    "product": "g (uint8[2] x) => (int32 y) { a = Cast<to=6>(x) y = ReduceProd<keepdims=0>(a) }",
    "resize": """g (float[1, 1, H, 1] x) => (float[1, 1, K, 1] y) <float[4] s = {1, 1, 2, 1}> {
        y = Resize<mode="nearest">(x, "", s) }""",
}


@pytest.mark.parametrize("name", NOT_TOLD)
def test_what_cannot_deviate_is_not_told(name, tmp_path):
    """Nodes that cannot deviate are not reported: integers are never NaN, known sizes not zero, scales whole."""
    path = tmp_path / "m.onnx"
    path.write_bytes(_model(NOT_TOLD[name], 18).SerializeToString())
    assert [] == [loss for loss in formats.convert(path, tmp_path / "m.rten").losses if loss.kind == "deviation"]


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "Relu", "Clip"])
def test_exact_forms_have_no_deviation(op_type, tmp_path):
    """With `exact`, the operator is written as other operators, and nothing is reported."""
    path = tmp_path / "m.onnx"
    path.write_bytes(_model(TOLD[op_type], 18).SerializeToString())
    report = formats.convert(path, tmp_path / "m.rten", exact=True)
    assert not [loss for loss in report.losses if loss.kind == "deviation"]


def test_causal_attention_with_a_past_is_told(tmp_path):
    """With one query, onnxruntime masks none of several new keys; with a new key for each, it masks as ONNX says."""
    text = """g (float[1,1,%s,2] q, float[1,1,%s,2] k, float[1,1,P,2] p) => (float[A,B,C,D] y, float[E,F,G,H] z,
        float[I,J,K,L] w) { y, z, w = Attention<is_causal=1>(q, k, k, "", p, p) }"""
    path = tmp_path / "m.onnx"
    for sizes, is_told in ((("1", "4"), True), (("N", "4"), True), (("N", "N"), False), (("3", "4"), False)):
        path.write_bytes(_model(text % sizes, 23).SerializeToString())
        losses = formats.convert(path, tmp_path / "m.rten", overwrite=True).losses
        assert is_told == any("one query" in loss.detail for loss in losses), sizes


RANGES = {
    "cast_of_a_float": ("g (float[2] x) => (float[2] y) { a = Cast<to=7>(x) y = Cast<to=1>(a) }", ["Cast"]),
    "product": ("g (int64[2] x) => (float[2] y) <int64 k = {1000}> { a = Mul(x, k) y = Cast<to=1>(a) }", ["Mul"]),
    "product_of_a_size": ("""g (float[A, B] x) => (float y) <int64 k = {2}> {
        s = Size(x) a = Mul(s, k) y = Cast<to=1>(a) }""",
                          ["Mul"]),
    "below_zero": ("g (uint32[2] x) => (float[2] y) <uint32 k = {3}> { a = Sub(x, k) y = Cast<to=1>(a) }", ["Sub"]),
    "grown_in_a_loop": ("""g (int64 x) => (int64 y) <int64 n = {50}, bool t = {1}> { y = Loop (n, t, x) <
        body = b (int64 i, bool c, int64 v) => (bool d, int64 w) { d = Identity(c) w = Add(v, v) } > }""", ["Add"]),
    "folded": ("g (float[1] x) => (int64[1] y) <int64[1] k = {65536}> { y = Mul(k, k) }", ["Mul"]),
    "sum_of_inputs": ("g (int64[2] x, int64[2] z) => (int64[2] y) { y = Add(x, z) }", []),
    "filled": ("""g (int64[1] x) => (int64[N] y)
        { y = ConstantOfShape<value: tensor = int64[1] {9223372036854775807}>(x) }""", ["ConstantOfShape"]),
    "constant_given_out": ("""g (int64[1] x) => (int64[1] y, int64[1] k) <int64[1] k = {-9223372036854775808}>
        { y = Identity(x) }""", ["INT64 values exceed the 32 bits that RTen uses (k)"]),
    "end_of_slices": ("""g (float[4] x) => (float[N] y) <int64[1] s = {1}, int64[1] e = {9223372036854775807}>
        { y = Slice(x, s, e) }""", []),
    "positions": ("g (bool[N] x) => (int64[N] y) <int64 a = {0}> { c = Cast<to=7>(x) y = CumSum(c, a) }", []),
    "a_shape": ("""g (float[A, B] x) => (float[P] y) <int64 z = {0}, int64 o = {1}, int64[1] a = {0}> {
        s = Shape(x) p = Gather(s, z) q = Gather(s, o) r = Mul(p, q) t = Unsqueeze(r, a) y = Reshape(x, t) }""", []),
    "scaled_sizes": ("""g (float[1, 1, A, B] x) => (int64[2] y) <float k = {1.5}, int64[1] p = {2}, int64[1] q = {4}> {
        s = Shape(x) a = Slice(s, p, q) f = Cast<to=1>(a) m = Mul(f, k) r = Floor(m) y = Cast<to=7>(r) }""", []),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_integers_that_may_leave_32_bits_are_told(name, tmp_path):
    """If results may need more than 32 bits, this is reported, but not for sizes, positions and shapes."""
    text, told = RANGES[name]
    path = tmp_path / "m.onnx"
    path.write_bytes(_model(text, 18).SerializeToString())
    losses = [loss for loss in formats.convert(path, tmp_path / "m.rten").losses if loss.kind == "range"]
    assert [loss.detail.partition(":")[0] for loss in losses] == told
    assert all(loss.matters for loss in losses)


@pytest.mark.parametrize(("batch", "is_told"), [("N", True), ("2", False)])
def test_normalizing_instances_of_no_samples_is_told(batch, is_told, runtime, tmp_path):
    """RTen panics for a batch without samples; this is reported if the batch may be empty."""
    text = f"""g (float[{batch},3,4] x) => (float[A,3,4] y) <float[3] s = {{1, 1, 1}}>
        {{ y = InstanceNormalization(x, s, s) }}"""
    onnx.save(_model(text, 17), tmp_path / "m.onnx")
    losses = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten").losses
    assert is_told == any("RTen fails if there are no samples" in loss.detail for loss in losses)
    assert (2, 3, 4) == runtime.run(tmp_path / "m.rten", {"x": np.ones((2, 3, 4), F)})[0].shape
    if is_told:
        with pytest.raises(RunnerError, match="panicked"):
            runtime.run(tmp_path / "m.rten", {"x": np.ones((0, 3, 4), F)})


@pytest.mark.parametrize(("bounds", "is_told"), [((-1.0, 1e4), False), ((-1.0, 1e12), True)])
def test_steps_beyond_32_bits_are_told(bounds, is_told, runtime, tmp_path):
    """RTen makes zero of what has more steps than 32 bits count; this is told where it can be, and only there."""
    least, greatest = (f"{bound:.1f}" for bound in bounds)
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]> g (float[2] x) => (uint8[2] y)
        <float a = {{{least}}}, float b = {{{greatest}}}, float s = {{0.1}}, uint8 z = {{3}}>
        {{ c = Clip(x, a, b) y = QuantizeLinear(c, s, z) }}""")
    onnx.save(model, tmp_path / "m.onnx")
    x = np.array([1, 3e38], np.float32)
    results = {}
    for exact in (False, True):
        report = formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten", overwrite=True, exact=exact)
        assert any("more than 2^31 steps" in loss.detail for loss in report.losses) == (is_told and not exact)
        results[exact] = runtime.run(tmp_path / "m.rten", {"x": x})[0].tolist()
    assert results == {False: [13, 0 if is_told else 255], True: [13, 255]}
