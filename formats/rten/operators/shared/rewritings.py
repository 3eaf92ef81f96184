"""Rewritings that operators of several families share.

Old forms: a form is identified by an attribute that newer versions lack, if there is one. The version of the operator
set decides only if the same node has two meanings. Spec: ONNX, Changelog.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import INT32
from formats.rten.graph.attributes import find, get_int, get_ints
from formats.rten.operators.shared.spec import because
from formats.rten.types import BYTES

if TYPE_CHECKING:
    from collections.abc import Collection

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.shared.spec import Rewriting
    from formats.rten.target import Fault


def without_gaps(node: Node, context: Context) -> list[Node]:
    """RTen skips inputs that are omitted, ONNX has none."""
    return context.changed([name for name in node.input if name])


def promoted(**places: int) -> Rewriting:
    """A rewriting that turns integer attributes into inputs, at the given places."""

    @because("In newer operator sets, the attribute is an input")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        found = {name: place for name, place in places.items() if find(node, name) is not None}
        if not found:
            return None
        inputs = list(node.input)
        for name, place in found.items():
            inputs += [""] * (place + 1 - len(inputs))
            inputs[place] = context.int64([get_int(node, name)] if name == "k" else get_ints(node, name) or ())
        return context.changed(inputs, without=found)

    return rewriting


def dropped(*names: str) -> Rewriting:
    """A rewriting that removes attributes without effect on inference."""

    @because("The attribute has no effect in inference")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return context.changed(without=names) if any(find(node, name) for name in names) else None

    return rewriting


@because("Before operator set 7, the attributes broadcast and axis said how to broadcast")
def broadcast_by_attribute(node: Node, context: Context) -> list[Node] | None:
    names = ("axis", "broadcast", "consumed_inputs")
    if context.version >= 7 or not any(find(node, name) for name in names):
        return None
    first, second = context.input(0), context.input(1)
    if get_int(node, "broadcast") and find(node, "axis") is not None:
        rank, width = context.known_rank(first), context.known_rank(second)
        axis = get_int(node, "axis")

        trailing = rank - (axis + rank if axis < 0 else axis) - width
        if trailing > 0:
            second = context.op("Unsqueeze", second, context.int64(range(width, width + trailing)))
    return context.changed([first, second], without=names)


def widened(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...] = (0,),
    narrow: Collection[int] = BYTES,
    fault: Fault | None = None,
) -> Rewriting:
    """A rewriting that casts inputs of `narrow` types to 32 bits, and outputs back; without inputs, all are cast.

    If a `fault` is given, the rewriting is only for releases that have it.
    """

    @because("RTen computes short integers in 32 bits, so results must be wrapped")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        places = [place for place in inputs or range(len(node.input)) if context.optional(place)]
        elem_type = next((number for place in places if (number := context.elem_type(node.input[place]))), None)
        if elem_type is None or elem_type not in narrow or (fault and not context.target.deviates(fault)):
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
