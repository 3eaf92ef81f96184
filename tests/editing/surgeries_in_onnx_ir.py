"""The ten changes of `surgeries.py` with the rewriter of onnx-ir, in as few lines as it takes.

It looks at new nodes, too, and does not end if a replacement has the pattern; so two have a condition.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import rewriter
from onnxscript.rewriter.pattern import RewriteRule


def silu(model: ir.Model) -> ir.Model:
    """Two nodes become one."""
    rule = RewriteRule(lambda op, x: op.Mul(x, op.Sigmoid(x)), lambda op, x: op.Swish(x))
    return rewriter.rewrite(model, rule.commute())


def gelu(model: ir.Model) -> ir.Model:
    """A chain of five nodes with constants becomes one node."""
    rule = RewriteRule(
        lambda op, x: op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, 2**0.5)), 1.0)), 0.5), lambda op, x: op.Gelu(x)
    )
    return rewriter.rewrite(model, rule.commute())


def cast(model: ir.Model) -> ir.Model:
    """A Cast is put in front of an input."""
    rule = RewriteRule(
        lambda op, x, at: op.Gather(x, at, _outputs=["y"]),
        lambda op, x, at, y: op.Gather(x, op.Cast(at, to=7), **y.producer().attributes),
        lambda context, at, **_: at.producer().op_type != "Cast",
    )
    return rewriter.rewrite(model, [rule])


def dropout(model: ir.Model) -> ir.Model:
    """A node is taken out."""
    return rewriter.rewrite(model, [RewriteRule(lambda op, x, ratio: op.Dropout(x, ratio), lambda op, x, **_: x)])


def resize(model: ir.Model) -> ir.Model:
    """A node gets another mode, and keeps its other attributes."""
    rule = RewriteRule(
        lambda op, x, scales: op.Resize(x, None, scales, mode="nearest", _outputs=["y"]),
        lambda op, x, scales, y: op.Resize(x, None, scales, **{**y.producer().attributes, "mode": "linear"}),
    )
    return rewriter.rewrite(model, [rule])


def transposes(model: ir.Model) -> ir.Model:
    """Two Transposes in a row become one, or none."""

    def one(op, x, first, second):  # type: ignore[no-untyped-def]
        perm = [first.as_ints()[axis] for axis in second.as_ints()]
        return op.Identity(x) if perm == sorted(perm) else op.Transpose(x, perm=perm)

    rule = RewriteRule(lambda op, x, first, second: op.Transpose(op.Transpose(x, perm=first), perm=second), one)
    return rewriter.rewrite(model, [rule])


def split(model: ir.Model) -> ir.Model:
    """A node with two outputs becomes two nodes."""

    def slices(op, x, **_):  # type: ignore[no-untyped-def]
        zero, two, four, one = (op.Constant(value_ints=[number]) for number in (0, 2, 4, 1))
        return op.Slice(x, zero, two, one), op.Slice(x, two, four, one)

    rule = RewriteRule(lambda op, x: op.Split(x, axis=1, num_outputs=2, _outputs=["y", "z"]), slices)
    return rewriter.rewrite(model, [rule])


def clip(model: ir.Model) -> ir.Model:
    """A node is put behind another one."""
    rule = RewriteRule(
        lambda op, x: op.Relu(x, _outputs=["y"]),
        lambda op, x, y: op.Clip(op.Relu(x), op.Constant(value_float=0.0), op.Constant(value_float=6.0)),
        lambda context, y, **_: all(user.op_type != "Clip" for user, _ in y.uses()),
    )
    return rewriter.rewrite(model, [rule])


def residual(model: ir.Model) -> ir.Model:
    """Two nodes become one of onnxruntime's, with an attribute of the second."""
    rule = RewriteRule(
        lambda op, x, y, scale, e: op.LayerNormalization(op.Add(x, y), scale, epsilon=e),
        lambda op, x, y, scale, e: op.SkipLayerNormalization(x, y, scale, epsilon=e, _domain="com.microsoft"),
    )
    return rewriter.rewrite(model, [rule])


def batch_norm(model: ir.Model) -> ir.Model:
    """A normalisation becomes part of the weights in front of it."""

    def folded(op: Any, x: Any, a: Any, w: Any, scale: Any, bias: Any, mean: Any, var: Any, e: Any) -> Any:
        factor = scale.const_value.numpy() / np.sqrt(var.const_value.numpy() + e.as_float())
        weights = w.const_value.numpy() * factor.reshape(-1, 1, 1, 1)
        shift = bias.const_value.numpy() - mean.const_value.numpy() * factor
        weights, shift = op.initializer(ir.tensor(weights), "wf"), op.initializer(ir.tensor(shift), "bf")
        return op.Conv(x, weights, shift, **a.producer().attributes)

    rule = RewriteRule(
        lambda op, x, w, scale, bias, mean, var, e: op.BatchNormalization(
            op.Conv(x, w, _outputs=["a"]), scale, bias, mean, var, epsilon=e
        ),
        folded,
    )
    return rewriter.rewrite(model, [rule])
