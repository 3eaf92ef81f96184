"""Integers as rows of bits: casts that cut some off, shifts, and logic bit by bit, in arithmetic of 32 bits.

RTen holds what has up to 16 bits exactly. Of INT64, UINT32 and UINT64 it holds what fits in INT32, for which the
results here are exact where they fit as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import BY_NUMBER, type_name
from formats.rten.convert.context import BYTES, FLOATS, INTS, Refused
from formats.rten.convert.value_types import BOOL, FLOAT, INT32, UINT8
from formats.rten.graph.attributes import get_int, get_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting

UINT16, INT16, DOUBLE, UINT32, UINT64, UINT4, UINT2 = 4, 5, 11, 12, 13, 21, 25
UNSIGNED = (BOOL, UINT2, UINT4, UINT8, UINT16, UINT32, UINT64)
PARTLY_HELD = (7, UINT32, UINT64)
LEAST = -(1 << 31)  # of 32 bits, the sign bit alone


def width(elem_type: int) -> int:
    """The number of bits that tell the values of an integer type apart."""
    return 1 if elem_type == BOOL else BY_NUMBER[elem_type].bits


def limits(elem_type: int) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    bits = width(elem_type)
    return (0, (1 << bits) - 1) if elem_type in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


def cast(node: Node, context: Context) -> list[Node] | None:
    """RTen has no truth values, so that a cast to BOOL is a comparison with zero, and cuts off only at eight bits.

    Elsewhere the bits are cut off before the cast, which then is one from DOUBLE: of that all numbers are held to fit.
    """
    data, target = context.input(0), get_int(node, "to")
    if target not in FLOATS | INTS | BYTES:
        raise Refused(f"casts to {type_name(target)}, which RTen has not")
    source = context.elem_type(data)
    if target == BOOL:
        return _truth(context, data, source)
    if target in (UINT32, UINT64) and _may_be_negative(context, data):
        raise Refused(f"casts {type_name(source)}, which may be negative, to {type_name(target)}, held as INT32")
    if target in FLOATS or width(target) not in (2, 4, 16) or source in (None, DOUBLE) or _fits(source, target):
        return None
    low, high = limits(target)
    number, offset = _remainder(context, context.cast(data, INT32), high - low + 1), _int32(context, -low)
    if low:
        number = context.op("Sub", _remainder(context, context.op("Add", number, offset), high - low + 1), offset)
    return context.replace(context.op("Cast", context.op("Cast", number, to=DOUBLE), to=target))


def _may_be_negative(context: Context, name: str) -> bool:
    """Whether a value is of signed integers, and nothing is known of their signs."""
    if context.elem_type(name) not in (INTS | BYTES).difference(UNSIGNED) or name in context.scope.naturals:
        return False
    return min(context.scope.ints(name) or (-1,)) < 0


def _fits(source: int | None, target: int) -> bool:
    """Whether all values of a type are values of an integer type."""
    if source is None or source not in INTS | BYTES:
        return False
    (low, high), (least, greatest) = limits(target), limits(source)
    return low <= least and greatest <= high


def _truth(context: Context, data: str, source: int | None) -> list[Node]:
    if source == BOOL:
        return context.replace(context.op("Identity", data))
    if source not in FLOATS | INTS:
        data = context.cast(data, INT32 if source in BYTES else FLOAT)
    return context.replace(context.op("Not", context.op("Equal", data, context.scalar(0, like=data))))


def _int32(context: Context, value: int) -> str:
    return context.scalar(value, elem_type=INT32)


def _remainder(context: Context, number: str, divisor: int) -> str:
    """What is left of a division towards minus infinity."""
    return context.op("Mod", number, _int32(context, divisor))


def _floor_quotient(context: Context, number: str, divisor: str) -> str:
    """A division towards minus infinity, where RTen's is towards zero."""
    return context.op("Div", context.op("Sub", number, context.op("Mod", number, divisor)), divisor)


def _back(context: Context, number: str, elem_type: int) -> list[Node]:
    """The results in the type of the inputs; the absolute value shows that none is negative."""
    if elem_type in (UINT32, UINT64):
        number = context.op("Abs", number)
    return context.replace(context.cast(number, elem_type))


def bit_shift(node: Node, context: Context) -> list[Node] | None:
    """Shifting is multiplying with, or dividing by, a power of two; more places than there are do what all do.

    It is done in two steps, since the power of all places of 32 bits has none of them.
    """
    data, amount = context.input(0), context.input(1)
    elem_type = context.elem_type(data)
    is_left = get_string(node, "direction") == "LEFT"
    if elem_type is None or elem_type not in INTS | BYTES or (is_left and elem_type in PARTLY_HELD):
        raise Refused(f"shifts {context.describe(data)}, of which RTen cannot hold every value")
    number, places = context.cast(data, INT32), context.cast(amount, INT32)
    all_places = _int32(context, min(width(elem_type), 32 if is_left else 31))
    too_far = context.op("Less", places, _int32(context, 0))
    places = context.op("Min", context.op("Where", too_far, all_places, places), all_places)
    first = context.op("Div", places, _int32(context, 2))
    for step in (first, context.op("Sub", places, first)):
        power = context.op("Pow", _int32(context, 2), step)
        number = context.op("Mul", number, power) if is_left else _floor_quotient(context, number, power)
    return _back(context, number, elem_type)


def bitwise_not(node: Node, context: Context) -> list[Node] | None:
    """All bits of a number flipped are what is left of the number of which all bits are set."""
    data = context.input(0)
    elem_type = context.elem_type(data)
    if elem_type is None or elem_type not in INTS | BYTES or elem_type in (UINT32, UINT64):
        raise Refused(f"flips the bits of {context.describe(data)}, of which RTen cannot hold every value")
    ones = context.scalar(limits(elem_type)[1] if elem_type in UNSIGNED else -1, like=data)
    return context.replace(context.op("Sub", ones, data))


def bitwise(node: Node, context: Context) -> list[Node] | None:
    """The bits that both numbers have come from the bits of each, and what either has from what both have."""
    elem_type = context.elem_type(context.input(0))
    if elem_type is None or elem_type not in INTS | BYTES:
        raise Refused(f"works on the bits of {context.describe(context.input(0))}")
    one, other = (context.cast(context.input(place), INT32) for place in (0, 1))
    number = _shared_bits(context, one, other, min(width(elem_type), 31))
    if width(elem_type) >= 32:
        signs = [context.op("Less", name, _int32(context, 0)) for name in (one, other)]
        sign = context.op("Where", context.op("And", *signs), _int32(context, LEAST), _int32(context, 0))
        number = context.op("Add", number, sign)
    if node.op_type != "BitwiseAnd":
        both = number
        if width(elem_type) < 32 and elem_type not in UNSIGNED:  # as bits above the sign have it
            both = context.cast(context.cast(number, elem_type), INT32)
        more = context.op("Sub", other, both)
        number = context.op("Add", one if node.op_type == "BitwiseOr" else context.op("Sub", one, both), more)
    return _back(context, number, elem_type)


def _shared_bits(context: Context, one: str, other: str, count: int) -> str:
    """The sum of the powers of two, from the lowest, that are in both numbers."""
    powers = context.array([1 << place for place in range(count)], INT32)
    rows = []
    for name in (one, other):
        column = context.op("Unsqueeze", name, context.int64([-1]))
        rows.append(_remainder(context, _floor_quotient(context, column, powers), 2))
    bits = context.op("Mul", context.op("Mul", *rows), powers)
    return context.op("ReduceSum", bits, context.int64([-1]), keepdims=0)


REWRITINGS: Mapping[str, Rewriting] = {
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), bitwise),
    "BitShift": bit_shift,
    "BitwiseNot": bitwise_not,
    "Cast": cast,
}
