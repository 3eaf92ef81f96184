"""Comparisons, logic, and the choice between two values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.dtypes import BOOL, INT64
from formats.rten.graph.attributes import get_int
from formats.rten.operators import shape
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.deviations import Deviation
from formats.rten.operators.shared.rewritings import broadcast_by_attribute, widened
from formats.rten.operators.shared.rules import always, broadcast, every_node, of_either, pairs, same, stretch
from formats.rten.operators.shared.spec import OnnxForm, OperatorSpec, Row, Signature, because
from formats.rten.target import Fault
from formats.rten.types import INT32_LIMITS, INT64_LIMITS, INT64_MAX
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, Dims, ValueType


def _equal(a: Dim, b: Dim) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    number = a if isinstance(a, int) else b
    named = isinstance(a, str) or isinstance(b, str)
    return 0 if named and isinstance(number, int) and number < 0 else None


def equal_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """1 or 0 for each pair of numbers. A name means a size: it may equal another name, but no negative number."""
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    return tuple(_equal(a, b) for a, b in pairs(first, second))


_ENDS = Deviation("RTen compares the least and greatest 64-bit integers as those of 32 bits", RARE)


def _ends_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    """A constant at the end of 64 bits is held as the end of 32 bits, which the other value may be."""
    for place in (0, 1):
        name, other = node.input[place], context.scope.range_of(node.input[1 - place])
        if context.elem_type(name) != INT64 or context.scope.constant(name) is None:
            continue
        held = context.scope.range_of(name)
        is_low = held.least == INT64_LIMITS[0] and (other.least is None or other.least <= INT32_LIMITS[0])
        is_high = held.greatest == INT64_MAX and (other.greatest is None or other.greatest >= INT32_LIMITS[1])
        if is_low or is_high:
            return (_ENDS,)
    return ()


_OLD = (broadcast_by_attribute,)
_IN_32_BITS = widened((0, 1), ())


def _spec(name: str, letter: str, **more: Any) -> OperatorSpec:
    """The spec of an operator that makes a truth value of two values: the common fields, and its own fields."""
    common: dict[str, Any] = {"dims": broadcast, "elements": (always(BOOL),), "range": ranges.truths}
    return OperatorSpec(name, Row(2), signature=Signature(letter), **common, **more)


Equal = _spec(
    "Equal",
    "A",
    contents=equal_contents,
    older=_OLD,
    narrow=_IN_32_BITS,
    deviations=_ends_deviations,
    rounds=every_node,
)
Greater = _spec("Greater", "N", older=_OLD, narrow=_IN_32_BITS, deviations=_ends_deviations, rounds=every_node)
GreaterOrEqual = _spec("GreaterOrEqual", "N", narrow=_IN_32_BITS, deviations=_ends_deviations, rounds=every_node)
Less = _spec("Less", "N", older=_OLD, narrow=_IN_32_BITS, deviations=_ends_deviations, rounds=every_node)
LessOrEqual = _spec("LessOrEqual", "N", narrow=_IN_32_BITS, deviations=_ends_deviations, rounds=every_node)
And = _spec("And", "b", older=_OLD)
Or = _spec("Or", "b", older=_OLD)
Xor = _spec("Xor", "b", older=_OLD)
Not = OperatorSpec("Not", Row(1), signature=Signature("b"), dims=same, elements=(always(BOOL),), range=ranges.truths)


@because("RTen's IsInf detects both infinities; a single one is a comparison")
def is_inf(node: Node, context: Context) -> list[Node] | None:
    positive, negative = get_int(node, "detect_positive", 1), get_int(node, "detect_negative", 1)
    if positive and negative:
        return None
    data = context.input(0)
    if not positive and not negative:
        return context.replace(context.op(Less, data, data))
    infinity = context.scalar(float("inf") if positive else float("-inf"), like=data)
    return context.replace(context.op(Equal, data, infinity))


IsInf = OperatorSpec(
    "IsInf",
    Row(1, 1, "IsInfAttrs", (), {"detect_negative": (1,), "detect_positive": (1,)}),
    dims=same,
    elements=(always(BOOL),),
    rewritings=(is_inf,),
    onnx=OnnxForm(takes={"detect_negative": (1,), "detect_positive": (1,)}),
)
IsNaN = OperatorSpec("IsNaN", Row(1), dims=same, elements=(always(BOOL),))


def where_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """For each element, one of two values."""
    condition, first, second = (scope.contents_of(name) for name in node.input)
    if condition is None or first is None or second is None:
        return None
    length = max(len(condition), len(first), len(second))
    rows = zip(*(stretch(held, length) for held in (condition, first, second)), strict=True)
    return tuple(None if test is None else (a if test else b) for test, a, b in rows)


_SCALARS = Fault("makes a vector of three scalars that it knows before the model runs")


@because("RTen makes a vector of three scalars that it knows before the model runs, so one becomes a vector before")
def where(node: Node, context: Context) -> list[Node] | None:
    if any(context.rank(name) != 0 for name in node.input):
        return None
    chosen = context.copy([*node.input[:2], context.op(shape.Unsqueeze, node.input[2], context.int64([0]))])
    return context.replace(context.op(shape.Squeeze, chosen, context.int64([0])))


Where = OperatorSpec(
    "Where",
    Row(3),
    rewritings=(where,),
    faults=(_SCALARS,),
    signature=Signature("bN", "N"),
    dims=broadcast,
    elements=(of_either(1, 2),),
    contents=where_contents,
    narrow=widened((1, 2)),
    range=ranges.of(1, 2),
    passes_on=True,
)
