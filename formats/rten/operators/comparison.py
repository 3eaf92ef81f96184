"""Comparisons, logic of truth values and of bits, and the choice between two values.

Shifts and logic bit by bit are written in arithmetic of 32 bits. RTen's INT32 contains all integers of up to 16 bits,
and part of INT64, UINT32 and UINT64. For these types, results are exact if operands and results fit in INT32.
"""

from __future__ import annotations

from formats.ir.attributes import get_int, get_string
from formats.ir.dtypes import BOOL, INT32, INT64, UINT32, UINT64
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.operators import ranges
from formats.rten.operators.rules import (
    always,
    broadcast,
    broadcast_by_attribute,
    every_node,
    of_any_input,
    of_either,
    paired,
    same,
    stretch,
    widened,
)
from formats.rten.spec import Deviation, OnnxLoader, OperatorSpec, Outputs, Rewriting, Row, ToOnnx, ToRten, because
from formats.rten.target import Fault
from formats.rten.types import BYTES, INT32_LIMITS, INT64_LIMITS, INT64_MAX, INTS, PARTLY_HELD, UNSIGNED, limits, width
from formats.tensordata.plan import RANGE, RARE


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
    return tuple(_equal(a, b) for a, b in paired(first, second))


_ENDS = Deviation("RTen compares the least and greatest 64-bit integers as those of 32 bits", RARE)


def _ends_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    """A constant at the end of 64 bits is held as the end of 32 bits, which the other value may be."""
    for place in (0, 1):
        name, other = node.input[place], context.scope.range_of(node.input[1 - place])
        if context.elem_type(name) != INT64 or context.scope.constant(name) is None:
            continue
        numbers = context.scope.range_of(name)
        is_low = numbers.least == INT64_LIMITS[0] and (other.least is None or other.least <= INT32_LIMITS[0])
        is_high = numbers.greatest == INT64_MAX and (other.greatest is None or other.greatest >= INT32_LIMITS[1])
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
    return OperatorSpec(name, _COMPARED, to_rten, ToOnnx("N"))


def _logic(name: str) -> OperatorSpec:
    """An operator of two truth values."""
    return OperatorSpec(name, _TRUTHS, ToRten(Row(2), older=_OLD), ToOnnx("b"))


Equal = OperatorSpec(
    "Equal",
    Outputs(broadcast, always(BOOL), contents=equal_contents, range=ranges.truths, rounds=every_node),
    ToRten(Row(2), older=_OLD, narrow=_IN_32_BITS, deviations=_ends_deviations),
    ToOnnx("A"),
)
Greater = _comparison("Greater", _OLD)
GreaterOrEqual = _comparison("GreaterOrEqual")
Less = _comparison("Less", _OLD)
LessOrEqual = _comparison("LessOrEqual")
And = _logic("And")
Or = _logic("Or")
Xor = _logic("Xor")
Not = OperatorSpec("Not", Outputs(same, always(BOOL), range=ranges.truths), ToRten(Row(1)), ToOnnx("b"))


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
    Outputs(same, always(BOOL)),
    ToRten(Row(1, 1, "IsInfAttrs", (), {"detect_negative": (1,), "detect_positive": (1,)}), rewritings=(is_inf,)),
    onnx_loader=OnnxLoader(takes={"detect_negative": (1,), "detect_positive": (1,)}),
)
IsNaN = OperatorSpec("IsNaN", Outputs(same, always(BOOL)), ToRten(Row(1)))


def where_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """For each element, one of two values."""
    condition, first, second = (scope.contents_of(name) for name in node.input)
    if condition is None or first is None or second is None:
        return None
    length = max(len(condition), len(first), len(second))
    rows = zip(*(stretch(contents, length) for contents in (condition, first, second)), strict=True)
    return tuple(None if test is None else (a if test else b) for test, a, b in rows)


_SCALARS = Fault("makes a vector of three scalars that it knows before the model runs")


@because("RTen makes a vector of three scalars that it knows before the model runs, so one becomes a vector before")
def where(node: Node, context: Context) -> list[Node] | None:
    if any(context.rank(name) != 0 for name in node.input):
        return None
    chosen = context.copy([*node.input[:2], context.op("Unsqueeze", node.input[2], [0])])
    return context.replace(context.op("Squeeze", chosen, [0]))


Where = OperatorSpec(
    "Where",
    Outputs(broadcast, of_either(1, 2), contents=where_contents, range=ranges.of(1, 2), passes_on=True),
    ToRten(Row(3), rewritings=(where,), narrow=widened((1, 2)), faults=(_SCALARS,)),
    ToOnnx("bN", "N"),
)


def int32(context: Context, value: int) -> str:
    """A constant scalar of INT32."""
    return context.scalar(value, elem_type=INT32)


def _back(context: Context, number: str, elem_type: int) -> list[Node]:
    """The results in the type of the inputs; the absolute value shows that none is negative."""
    if elem_type in (UINT32, UINT64):
        number = context.op("Abs", number)
    return context.replace(context.cast(number, elem_type))


def _floor_quotient(context: Context, number: str, divisor: str) -> str:
    """A division that rounds towards minus infinity, since RTen's division rounds towards zero."""
    return context.op("Div", context.op("Sub", number, context.op("Mod", number, divisor)), divisor)


def bit_shift(node: Node, context: Context) -> list[Node] | None:
    """Write it as a product with, or a quotient by, a power of two.

    It is done in two steps, since two to the power of 32 does not fit in 32 bits.
    """
    op = context.op
    data, amount = context.input(0), context.input(1)
    elem_type = context.elem_type(data)
    is_left = get_string(node, "direction") == "LEFT"
    if elem_type is None or elem_type not in INTS | BYTES or (is_left and elem_type in PARTLY_HELD):
        raise Refused(f"shifts {context.describe(data)}, but RTen cannot store all of its values")
    number, places = context.cast(data, INT32), context.cast(amount, INT32)
    # Beyond all places, every bit is shifted out. A negative number, which UINT64 may have become, is beyond them.
    all_places = int32(context, min(width(elem_type), 32 if is_left else 31))
    too_far = op("Less", places, int32(context, 0))
    places = op("Min", op("Where", too_far, all_places, places), all_places)
    first = op("Div", places, int32(context, 2))
    for step in (first, op("Sub", places, first)):
        power = op("Pow", int32(context, 2), step)
        number = op("Mul", number, power) if is_left else _floor_quotient(context, number, power)
    return _back(context, number, elem_type)


BitShift = OperatorSpec("BitShift", Outputs(broadcast, of_any_input), ToRten(rewritings=(bit_shift,)))


def remainder(context: Context, number: str, divisor: int) -> str:
    """The remainder of a division that rounds towards minus infinity."""
    return context.op("Mod", number, int32(context, divisor))


def _shared_bits(context: Context, one: str, other: str, count: int) -> str:
    """The sum of the powers of two, from the lowest, that are in both numbers."""
    op = context.op
    powers = context.array([1 << place for place in range(count)], INT32)
    rows = []
    for name in (one, other):
        column = op("Unsqueeze", name, [-1])  # ..., 1, divided by all powers
        rows.append(remainder(context, _floor_quotient(context, column, powers), 2))
    bits = op("Mul", op("Mul", *rows), powers)  # ..., bits
    return op("ReduceSum", bits, [-1], keepdims=0)


_LOWER_BITS = Deviation("RTen uses only the lower 32 bits of numbers", RANGE)
LEAST = -(1 << 31)  # only the sign bit of 32 bits


def bitwise(node: Node, context: Context) -> list[Node] | None:
    """Write it with sums and products of single bits."""
    op = context.op
    elem_type = context.elem_type(context.input(0))
    if elem_type is None or elem_type not in INTS | BYTES:
        raise Refused(f"works on the bits of {context.describe(context.input(0))}, which RTen does not support")
    if not all(context.scope.fits(context.input(place)) for place in (0, 1)):
        context.report(_LOWER_BITS)
    one, other = (context.cast(context.input(place), INT32) for place in (0, 1))
    number = _shared_bits(context, one, other, min(width(elem_type), 31))
    if width(elem_type) >= 32:
        signs = [op("Less", name, int32(context, 0)) for name in (one, other)]
        sign = op("Where", op("And", *signs), int32(context, LEAST), int32(context, 0))
        number = op("Add", number, sign)
    if node.op_type != "BitwiseAnd":
        both = number
        if width(elem_type) < 32 and elem_type not in UNSIGNED:  # equal to the bits above the sign
            both = context.cast(context.cast(number, elem_type), INT32)
        more = op("Sub", other, both)  # a | b is a + (b - (a & b)), and a ^ b is (a - (a & b)) + (b - (a & b))
        number = op("Add", one if node.op_type == "BitwiseOr" else op("Sub", one, both), more)
    return _back(context, number, elem_type)


BitwiseAnd = OperatorSpec("BitwiseAnd", Outputs(broadcast, of_any_input), ToRten(rewritings=(bitwise,)))
BitwiseOr = OperatorSpec("BitwiseOr", Outputs(broadcast, of_any_input), ToRten(rewritings=(bitwise,)))
BitwiseXor = OperatorSpec("BitwiseXor", Outputs(broadcast, of_any_input), ToRten(rewritings=(bitwise,)))


def bitwise_not(node: Node, context: Context) -> list[Node] | None:
    """Write it as a subtraction from the number whose bits are all set."""
    data = context.input(0)
    elem_type = context.elem_type(data)
    if elem_type is None or elem_type not in INTS | BYTES or elem_type in (UINT32, UINT64):
        raise Refused(f"flips the bits of {context.describe(data)}, but RTen cannot store all of its values")
    ones = context.scalar(limits(elem_type)[1] if elem_type in UNSIGNED else -1, like=data)
    return context.replace(context.op("Sub", ones, data))


BitwiseNot = OperatorSpec("BitwiseNot", Outputs(same), ToRten(rewritings=(bitwise_not,)))
