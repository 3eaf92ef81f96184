"""Losses of classifications.

Spec: ONNX, Operators.md, NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT
from formats.rten.graph.attributes import find, get_int, get_string
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, ToRten, unknown

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context


def negative_log_likelihood(node: Node, context: Context) -> list[Node] | None:
    """Write it as the sum or mean of the weighted log-likelihoods of the targets."""
    op = context.op
    data, target, weight = context.input(0), context.input(1), context.optional(2)
    factors, second_axis = "", context.int64([1])
    counted = ignored = ""
    if find(node, "ignore_index") is not None:
        ignored = op("Equal", target, context.scalar(get_int(node, "ignore_index"), like=target))
        target = op("Where", ignored, context.scalar(0, like=target), target)
        counted = context.cast(op("Not", ignored), context.elem_type(data) or FLOAT)
        factors = counted
    if weight:
        factors = op("Gather", weight, target, axis=0)
        factors = op("Mul", factors, counted) if counted else factors
    picked = op("GatherElements", data, op("Unsqueeze", target, second_axis), axis=1)
    loss = op("Neg", op("Squeeze", picked, second_axis))
    loss = op("Mul", loss, factors) if weight else loss
    if counted:  # by a choice, because zero times infinity is NaN
        loss = op("Where", ignored, context.scalar(0, like=data), loss)
    combined = get_string(node, "reduction", "mean")
    if combined == "none":
        return context.replace(loss)
    if combined == "mean" and not factors:
        return context.replace(op("ReduceMean", loss, keepdims=0))
    total = op("ReduceSum", loss, keepdims=0)
    if combined == "mean":
        total = op("Div", total, op("ReduceSum", factors, keepdims=0))
    return context.replace(total)


NegativeLogLikelihoodLoss = OperatorSpec(
    "NegativeLogLikelihoodLoss", Outputs(elements=unknown), ToRten(rewritings=(negative_log_likelihood,))
)


def softmax_cross_entropy(node: Node, context: Context) -> list[Node] | None:
    """Write it as NegativeLogLikelihoodLoss of LogSoftmax, which is the second output."""
    scores = context.op("LogSoftmax", context.input(0), axis=1)
    loss = context.copy([scores, *node.input[1:]], "NegativeLogLikelihoodLoss")
    return context.replace(loss, scores)


SoftmaxCrossEntropyLoss = OperatorSpec(
    "SoftmaxCrossEntropyLoss", Outputs(elements=unknown), ToRten(rewritings=(softmax_cross_entropy,))
)
