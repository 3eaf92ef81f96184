"""Rewrites those operators in ONNX Runtime's domain com.microsoft that ONNX has, too.

Spec: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.graph.attributes import get_string
from formats.rten.operators.shared.spec import MICROSOFT, OperatorSpec, ToRten

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context


def pad(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Pad. It may have pads in a row of a matrix."""
    pads = context.op("Reshape", context.input(1), context.int64([-1]))
    mode = get_string(node, "mode", "constant") or "constant"
    return context.replace(context.op("Pad", context.input(0), pads, context.optional(2), mode=mode))


def numbers(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Range. Its step is 1 if there is none."""
    start = context.input(0)
    step = context.optional(2) or context.scalar(1, like=start)
    return context.replace(context.op("Range", start, context.input(1), step))


def gather_nd(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard GatherND."""
    return context.replace(context.copy(node.input, "GatherND"))


def unique(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Unique in the order of the first ones, without the places of these."""
    found = context.op_outputs("Unique", [context.input(0)], 4, sorted=0)
    return context.replace(found[0], *found[2:])


Pad = OperatorSpec("Pad", to_rten=ToRten(rewritings=(pad,)), domain=MICROSOFT)
Range = OperatorSpec("Range", to_rten=ToRten(rewritings=(numbers,)), domain=MICROSOFT)
GatherND = OperatorSpec("GatherND", to_rten=ToRten(rewritings=(gather_nd,)), domain=MICROSOFT)
Unique = OperatorSpec("Unique", to_rten=ToRten(rewritings=(unique,)), domain=MICROSOFT)
