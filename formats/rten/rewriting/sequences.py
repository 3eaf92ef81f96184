"""Sequences of tensors: places counted from the end, and new axes anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.context import BYTES, Refused
from formats.rten.convert.value_types import INT64
from formats.rten.graph.attributes import get_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def insert(node: Node, context: Context) -> list[Node] | None:
    """RTen counts a negative place from the end that there will be, ONNX from the end that there is."""
    sequence, place = context.input(0), context.optional(2)
    held = context.scope.ints(place) if place else None
    if not place or place in context.scope.naturals or (held is not None and held[0] >= 0):
        return None
    number = context.cast(place, INT64)
    from_end = context.op("Add", number, context.op("SequenceLength", sequence))
    if held is None:
        is_negative = context.op("Less", number, context.int64_scalar(0))
        from_end = context.op("Where", is_negative, from_end, number)
    return context.changed([sequence, context.input(1), context.op("Abs", from_end)])


def concat(node: Node, context: Context) -> list[Node] | None:
    """RTen puts a new axis before one that there is, and misplaces one counted from the end."""
    sequence, axis = context.input(0), get_int(node, "axis")
    if context.elem_type(sequence) in BYTES:
        raise Refused(f"joins a sequence of {context.describe(sequence)}, where RTen takes wider types")
    rank = context.rank(sequence)
    if not get_int(node, "new_axis") or (axis >= 0 and (rank is None or axis < rank)):
        return None
    rank = context.known_rank(sequence)
    if axis + rank + 1 < rank:
        return context.changed(axis=axis + rank + 1)
    stacked = context.op("ConcatFromSequence", sequence, axis=0, new_axis=1)
    return context.replace(context.op("Transpose", stacked, perm=[*range(1, rank + 1), 0]))


REWRITINGS: Mapping[str, Rewriting] = {"ConcatFromSequence": concat, "SequenceInsert": insert}
