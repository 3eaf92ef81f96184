"""Integers as rows of bits: shifts, and logic bit by bit, in arithmetic of 32 bits.

RTen's INT32 contains all integers of up to 16 bits, and part of INT64, UINT32 and UINT64. For these types, the results
here are exact if operands and results fit in INT32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import INT32, UINT32, UINT64
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_string
from formats.rten.operators.shared.rules import broadcast, of_any_input, same
from formats.rten.operators.shared.spec import Deviation, OperatorSpec, Outputs, ToRten
from formats.rten.types import BYTES, INTS, PARTLY_HELD, UNSIGNED, limits, width
from formats.tensordata.plan import RANGE

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context


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
    all_places = int32(context, min(width(elem_type), 32 if is_left else 31))
    too_far = op("Less", places, int32(context, 0))
    places = op("Min", op("Where", too_far, all_places, places), all_places)
    first = op("Div", places, int32(context, 2))
    for step in (first, op("Sub", places, first)):
        power = op("Pow", int32(context, 2), step)
        number = op("Mul", number, power) if is_left else _floor_quotient(context, number, power)
    return _back(context, number, elem_type)


BitShift = OperatorSpec("BitShift", Outputs(broadcast, elements=of_any_input), ToRten(rewritings=(bit_shift,)))


def remainder(context: Context, number: str, divisor: int) -> str:
    """The remainder of a division that rounds towards minus infinity."""
    return context.op("Mod", number, int32(context, divisor))


def _shared_bits(context: Context, one: str, other: str, count: int) -> str:
    """The sum of the powers of two, from the lowest, that are in both numbers."""
    op = context.op
    powers = context.array([1 << place for place in range(count)], INT32)
    rows = []
    for name in (one, other):
        column = op("Unsqueeze", name, context.int64([-1]))
        rows.append(remainder(context, _floor_quotient(context, column, powers), 2))
    bits = op("Mul", op("Mul", *rows), powers)
    return op("ReduceSum", bits, context.int64([-1]), keepdims=0)


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
        more = op("Sub", other, both)
        number = op("Add", one if node.op_type == "BitwiseOr" else op("Sub", one, both), more)
    return _back(context, number, elem_type)


BitwiseAnd = OperatorSpec("BitwiseAnd", Outputs(broadcast, elements=of_any_input), ToRten(rewritings=(bitwise,)))
BitwiseOr = OperatorSpec("BitwiseOr", Outputs(broadcast, elements=of_any_input), ToRten(rewritings=(bitwise,)))
BitwiseXor = OperatorSpec("BitwiseXor", Outputs(broadcast, elements=of_any_input), ToRten(rewritings=(bitwise,)))


def bitwise_not(node: Node, context: Context) -> list[Node] | None:
    """Write it as a subtraction from the number whose bits are all set."""
    data = context.input(0)
    elem_type = context.elem_type(data)
    if elem_type is None or elem_type not in INTS | BYTES or elem_type in (UINT32, UINT64):
        raise Refused(f"flips the bits of {context.describe(data)}, but RTen cannot store all of its values")
    ones = context.scalar(limits(elem_type)[1] if elem_type in UNSIGNED else -1, like=data)
    return context.replace(context.op("Sub", ones, data))


BitwiseNot = OperatorSpec("BitwiseNot", Outputs(same), ToRten(rewritings=(bitwise_not,)))
