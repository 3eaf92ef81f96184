"""Losses of classifications.

Spec: ONNX, Operators.md, NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.value_types import FLOAT
from formats.rten.graph.attributes import find, get_int, get_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def negative_log_likelihood(node: Node, context: Context) -> list[Node] | None:
    """The weighted log-likelihood of each target, without those to be ignored, put together as asked for."""
    data, target, weight = context.input(0), context.input(1), context.optional(2)
    factors, second_axis = "", context.int64([1])
    counted = ""
    if find(node, "ignore_index") is not None:
        ignored = context.op("Equal", target, context.scalar(get_int(node, "ignore_index"), like=target))
        target = context.op("Where", ignored, context.scalar(0, like=target), target)
        counted = context.cast(context.op("Not", ignored), context.elem_type(data) or FLOAT)
        factors = counted
    if weight:
        factors = context.op("Gather", weight, target, axis=0)
        factors = context.op("Mul", factors, counted) if counted else factors
    picked = context.op("GatherElements", data, context.op("Unsqueeze", target, second_axis), axis=1)
    loss = context.op("Neg", context.op("Squeeze", picked, second_axis))
    loss = context.op("Mul", loss, factors) if factors else loss
    reduction = get_string(node, "reduction", "mean")
    if reduction == "none":
        return context.replace(loss)
    if reduction == "mean" and not factors:
        return context.replace(context.op("ReduceMean", loss, keepdims=0))
    total = context.op("ReduceSum", loss, keepdims=0)
    if reduction == "mean":
        total = context.op("Div", total, context.op("ReduceSum", factors, keepdims=0))
    return context.replace(total)


def softmax_cross_entropy(node: Node, context: Context) -> list[Node] | None:
    """The loss of the logarithm of Softmax, which is the second output."""
    scores = context.op("LogSoftmax", context.input(0), axis=1)
    loss = context.copy([scores, *node.input[1:]], "NegativeLogLikelihoodLoss")
    return context.replace(loss, scores)


REWRITINGS: Mapping[str, Rewriting] = {
    "NegativeLogLikelihoodLoss": negative_log_likelihood,
    "SoftmaxCrossEntropyLoss": softmax_cross_entropy,
}
