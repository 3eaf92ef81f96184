"""Ten changes of nodes that people ask for, in as few lines as `formats` takes, and a model for each."""

from __future__ import annotations

import numpy as np

from formats import Model

MODELS = {  # in the text format of ONNX
    "silu": "g (float[2,4] x) => (float[2,4] y) { s = Sigmoid (x) y = Mul (s, x) }",
    "gelu": """g (float[2,4] x) => (float[2,4] y) <float root = {1.4142135}, float one = {1}, float half = {0.5}> {
        a = Div (x, root) b = Erf (a) c = Add (one, b) d = Mul (x, c) y = Mul (d, half) }""",
    "cast": """g (float[4,2] x, int32[3] at) => (float[3,2] y) {
        a = Abs (at) b = Gather <axis = 0> (x, a) y = Neg (b) }""",
    "dropout": """g (float[2,4] x) => (float[2,4] y) <float ratio = {0.5}> {
        a = Relu (x) b, mask = Dropout (a, ratio) y = Neg (b) }""",
    "resize": """g (float[1,1,3,3] x) => (float[1,1,6,6] y) <float[4] scales = {1, 1, 2, 2}> {
        a = Relu (x) y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (a, , scales) }""",
    "transposes": """g (float[2,3,4] x) => (float[3,2,4] y) {
        a = Transpose <perm = [2, 0, 1]> (x) b = Transpose <perm = [1, 2, 0]> (a) c = Relu (b)
        d = Transpose <perm = [1, 0, 2]> (c) e = Transpose <perm = [2, 0, 1]> (d)
        y = Transpose <perm = [1, 2, 0]> (e) }""",
    "split": """g (float[2,4] x) => (float[2,2] y, float[2,2] z) {
        a, b = Split <axis = 1, num_outputs = 2> (x) y = Relu (a) z = Neg (b) }""",
    "clip": "g (float[2,4] x) => (float[2,4] y) { a = Relu (x) y = Neg (a) }",
    "residual": """g (float[2,4] x) => (float[2,4] y) <float[4] scale = {1, 2, 3, 4}> {
        a = Neg (x) b = Add (x, a) y = LayerNormalization <epsilon = 0.001> (b, scale) }""",
    "batch norm": """g (float[1,2,3,3] x) => (float[1,2,2,2] y) <float[2,2,1,1] w = {1, 2, 3, 4},
        float[2] scale = {2, 3}, float[2] bias = {0.5, 1}, float[2] mean = {1, -1}, float[2] var = {4, 9}> {
        a = Conv <strides = [2, 2]> (x, w)
        y = BatchNormalization <epsilon = 0.001> (a, scale, bias, mean, var) }""",
}


def silu(model: Model) -> Model:
    """Two nodes become one."""
    return model.rewrite(lambda op, x: op.Mul(x, op.Sigmoid(x)), lambda op, x: op.Swish(x))


def gelu(model: Model) -> Model:
    """A chain of five nodes with constants becomes one node."""
    return model.rewrite(
        lambda op, x: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, 2**0.5)), 1.0)), 0.5), lambda op, x: op.Gelu(x)
    )


def cast(model: Model) -> Model:
    """A Cast is put in front of an input."""
    return model.rewrite(
        lambda op, x, at: op.Gather(x, at), lambda op, x, at: op.Gather(x, op.Cast(at, to=7), like=op.nodes[0])
    )


def dropout(model: Model) -> Model:
    """A node is taken out."""
    return model.rewrite(lambda op, x, ratio: op.Dropout(x, ratio), lambda op, x: x)


def resize(model: Model) -> Model:
    """A node gets another mode, and keeps its other attributes."""
    return model.rewrite(
        lambda op, x, scales: op.Resize(x, None, scales, mode="nearest"),
        lambda op, x, scales: op.Resize(x, None, scales, mode="linear", like=op.nodes[0]),
    )


def transposes(model: Model) -> Model:
    """Two Transposes in a row become one, or none."""

    def one(op, x, first, second):  # type: ignore[no-untyped-def]
        perm = [first[axis] for axis in second]
        return x if perm == sorted(perm) else op.Transpose(x, perm=perm)

    return model.rewrite(lambda op, x, first, second: op.Transpose(op.Transpose(x, perm=first), perm=second), one)


def split(model: Model) -> Model:
    """A node with two outputs becomes two nodes."""
    return model.rewrite(
        lambda op, x: op.Split(x, axis=1, num_outputs=2, outputs=2),
        lambda op, x: [op.Slice(x, [0], [2], [1]), op.Slice(x, [2], [4], [1])],
    )


def clip(model: Model) -> Model:
    """A node is put behind another one."""
    return model.rewrite(lambda op, x: op.Relu(x), lambda op, x: op.Clip(op.Relu(x), 0.0, 6.0))


def residual(model: Model) -> Model:
    """Two nodes become one of onnxruntime's, with an attribute of the second."""
    return model.rewrite(
        lambda op, x, y, scale, e: op.LayerNormalization(op.Add(x, y), scale, epsilon=e),
        lambda op, x, y, scale, e: op.SkipLayerNormalization(x, y, scale, epsilon=e, domain="com.microsoft"),
    )


def batch_norm(model: Model) -> Model:
    """A normalisation becomes part of the weights in front of it."""

    def folded(op, x, w, scale, bias, mean, var, e):  # type: ignore[no-untyped-def]
        factor = scale.tensor.numpy() / np.sqrt(var.tensor.numpy() + e)
        weights = w.tensor.numpy() * factor.reshape(-1, 1, 1, 1)
        return op.Conv(x, weights, bias.tensor.numpy() - mean.tensor.numpy() * factor, like=op.nodes[0])

    return model.rewrite(
        lambda op, x, w, scale, bias, mean, var, e: op.BatchNormalization(
            op.Conv(x, w), scale, bias, mean, var, epsilon=e
        ),
        folded,
    )
