"""Operators of other domains that runtimes have of their own, as standard ones; the domain is com.microsoft.

Spec: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.attributes import get_float
from formats.rten.rewriting.elementwise import times_sigmoid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.rewriting.context import Context, Rewriting


def gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu by the error function."""
    return context.replace(context.op("Gelu", context.input(0)))


def bias_gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu of a sum."""
    return context.replace(context.op("Gelu", context.op("Add", context.input(0), context.input(1))))


def fast_gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu by the hyperbolic tangent, of a sum if there is a bias."""
    data = context.input(0)
    if context.optional(1):
        data = context.op("Add", data, context.input(1))
    return context.replace(context.op("Gelu", data, approximate="tanh"))


def quick_gelu(node: Node, context: Context) -> list[Node] | None:
    """x * sigmoid(alpha * x)."""
    return context.replace(times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.702)))


REWRITINGS: Mapping[str, Rewriting] = {
    "BiasGelu": bias_gelu,
    "FastGelu": fast_gelu,
    "Gelu": gelu,
    "QuickGelu": quick_gelu,
}
