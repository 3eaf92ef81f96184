"""Losses of classifications.

Spec: ONNX, Operators.md, NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT
from formats.rten.graph.attributes import find, get_int, get_string
from formats.rten.operators import comparison, elementwise, indexing, normalization, reduction, shape
from formats.rten.operators.shared.rules import unknown
from formats.rten.operators.shared.spec import OperatorSpec

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context


def negative_log_likelihood(node: Node, context: Context) -> list[Node] | None:
    """Write it as the sum or mean of the weighted log-likelihoods of the targets."""
    data, target, weight = context.input(0), context.input(1), context.optional(2)
    factors, second_axis = "", context.int64([1])
    counted = ignored = ""
    if find(node, "ignore_index") is not None:
        ignored = context.op(comparison.Equal, target, context.scalar(get_int(node, "ignore_index"), like=target))
        target = context.op(comparison.Where, ignored, context.scalar(0, like=target), target)
        counted = context.cast(context.op(comparison.Not, ignored), context.elem_type(data) or FLOAT)
        factors = counted
    if weight:
        factors = context.op(indexing.Gather, weight, target, axis=0)
        factors = context.op(elementwise.Mul, factors, counted) if counted else factors
    picked = context.op(indexing.GatherElements, data, context.op(shape.Unsqueeze, target, second_axis), axis=1)
    loss = context.op(elementwise.Neg, context.op(shape.Squeeze, picked, second_axis))
    loss = context.op(elementwise.Mul, loss, factors) if weight else loss
    if counted:  # by a choice, because zero times infinity is NaN
        loss = context.op(comparison.Where, ignored, context.scalar(0, like=data), loss)
    combined = get_string(node, "reduction", "mean")
    if combined == "none":
        return context.replace(loss)
    if combined == "mean" and not factors:
        return context.replace(context.op(reduction.ReduceMean, loss, keepdims=0))
    total = context.op(reduction.ReduceSum, loss, keepdims=0)
    if combined == "mean":
        total = context.op(elementwise.Div, total, context.op(reduction.ReduceSum, factors, keepdims=0))
    return context.replace(total)


NegativeLogLikelihoodLoss = OperatorSpec(
    "NegativeLogLikelihoodLoss", dims=unknown, elements=(), rewritings=(negative_log_likelihood,)
)


def softmax_cross_entropy(node: Node, context: Context) -> list[Node] | None:
    """Write it as NegativeLogLikelihoodLoss of LogSoftmax, which is the second output."""
    scores = context.op(normalization.LogSoftmax, context.input(0), axis=1)
    loss = context.copy([scores, *node.input[1:]], NegativeLogLikelihoodLoss)
    return context.replace(loss, scores)


SoftmaxCrossEntropyLoss = OperatorSpec(
    "SoftmaxCrossEntropyLoss", dims=unknown, elements=(), rewritings=(softmax_cross_entropy,)
)
