"""Integers of eight bits, which most of RTen's arithmetic lacks: computed in 32 bits and cut off again.

Cutting off wraps, as arithmetic of eight bits does. RTen holds those of sixteen bits in 32 anyway, so that these are
only cut off where they may have grown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.context import BYTES
from formats.rten.convert.value_types import INT32
from formats.rten.rewriting.bits import INT16, UINT16

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def widened(inputs: tuple[int, ...], outputs: tuple[int, ...] = (0,), narrow: Collection[int] = BYTES) -> Rewriting:
    """A rewriting that casts inputs of `narrow` types to 32 bits, and outputs back; no inputs means all of them."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        places = [place for place in inputs or range(len(node.input)) if context.optional(place)]
        elem_type = next((number for place in places if (number := context.elem_type(node.input[place]))), None)
        if elem_type is None or elem_type not in narrow:
            return None
        given = list(node.input)
        for place in places:
            given[place] = context.cast(given[place], INT32)
        wide = context.changed(given)[-1]
        wide.output = [context.names.new(f"{name}/wide") if name else "" for name in node.output]
        wide.name = None
        context.emit(wide)
        return context.replace(
            *(
                context.cast(name, elem_type) if name and place in outputs else name
                for place, name in enumerate(wide.output)
            )
        )

    return rewriting


REWRITINGS: Mapping[str, Rewriting] = {
    **dict.fromkeys(("Add", "Div", "Mul", "Sub"), widened((0, 1), narrow=BYTES | {INT16, UINT16})),
    **dict.fromkeys(("Abs", "Neg"), widened((0,), narrow=BYTES | {INT16})),
    **dict.fromkeys(("Mod", "Pow"), widened((0, 1))),
    **dict.fromkeys(("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"), widened((0, 1), ())),
    **dict.fromkeys(("Concat", "Max", "Min", "Sum"), widened(())),
    **dict.fromkeys(("Sign", "Tile", "TopK", "Trilu"), widened((0,))),
    **dict.fromkeys(
        ("ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ReduceMean"),
        widened((0,)),
    ),
    **dict.fromkeys(("ArgMax", "ArgMin", "NonZero"), widened((0,), ())),
    "Clip": widened((0, 1, 2)),
    "OneHot": widened((2,)),
    "Where": widened((1, 2)),
}
