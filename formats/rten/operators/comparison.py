"""Comparisons, logic, and the choice between two values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import BOOL, INT64
from formats.rten.graph.attributes import get_int
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.rewritings import broadcast_by_attribute, widened
from formats.rten.operators.shared.rules import always, broadcast, every_node, of_either, pairs, same, stretch
from formats.rten.operators.shared.spec import (
    Deviation,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    Signature,
    ToOnnx,
    ToRten,
    because,
)
from formats.rten.target import Fault
from formats.rten.types import INT32_LIMITS, INT64_LIMITS, INT64_MAX
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, Dims, ValueType
    from formats.rten.operators.shared.spec import Rewriting


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


_TRUTHS = Outputs(broadcast, always(BOOL), range=ranges.truths)
_COMPARED = Outputs(broadcast, always(BOOL), range=ranges.truths, rounds=every_node)


def _comparison(name: str, older: tuple[Rewriting, ...] = ()) -> OperatorSpec:
    """An operator that says which of two numbers is greater."""
    to_rten = ToRten(Row(2), older=older, narrow=_IN_32_BITS, deviations=_ends_deviations)
    return OperatorSpec(name, _COMPARED, to_rten, ToOnnx(Signature("N")))


def _logic(name: str) -> OperatorSpec:
    """An operator of two truth values."""
    return OperatorSpec(name, _TRUTHS, ToRten(Row(2), older=_OLD), ToOnnx(Signature("b")))


Equal = OperatorSpec(
    "Equal",
    Outputs(broadcast, always(BOOL), contents=equal_contents, range=ranges.truths, rounds=every_node),
    ToRten(Row(2), older=_OLD, narrow=_IN_32_BITS, deviations=_ends_deviations),
    ToOnnx(Signature("A")),
)
Greater = _comparison("Greater", _OLD)
GreaterOrEqual = _comparison("GreaterOrEqual")
Less = _comparison("Less", _OLD)
LessOrEqual = _comparison("LessOrEqual")
And = _logic("And")
Or = _logic("Or")
Xor = _logic("Xor")
Not = OperatorSpec(
    "Not", Outputs(same, elements=always(BOOL), range=ranges.truths), ToRten(Row(1)), to_onnx=ToOnnx(Signature("b"))
)


@because("RTen's IsInf detects both infinities; a single one is a comparison")
def is_inf(node: Node, context: Context) -> list[Node] | None:
    positive, negative = get_int(node, "detect_positive", 1), get_int(node, "detect_negative", 1)
    if positive and negative:
        return None
    data = context.input(0)
    if not positive and not negative:
        return context.replace(context.op("Less", data, data))
    infinity = context.scalar(float("inf") if positive else float("-inf"), like=data)
    return context.replace(context.op("Equal", data, infinity))


IsInf = OperatorSpec(
    "IsInf",
    Outputs(same, elements=always(BOOL)),
    ToRten(Row(1, 1, "IsInfAttrs", (), {"detect_negative": (1,), "detect_positive": (1,)}), rewritings=(is_inf,)),
    onnx_loader=OnnxLoader(takes={"detect_negative": (1,), "detect_positive": (1,)}),
)
IsNaN = OperatorSpec("IsNaN", Outputs(same, elements=always(BOOL)), ToRten(Row(1)))


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
    chosen = context.copy([*node.input[:2], context.op("Unsqueeze", node.input[2], context.int64([0]))])
    return context.replace(context.op("Squeeze", chosen, context.int64([0])))


Where = OperatorSpec(
    "Where",
    Outputs(broadcast, elements=of_either(1, 2), contents=where_contents, range=ranges.of(1, 2), passes_on=True),
    ToRten(Row(3), rewritings=(where,), narrow=widened((1, 2)), faults=(_SCALARS,)),
    to_onnx=ToOnnx(Signature("bN", "N")),
)
