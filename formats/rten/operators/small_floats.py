"""Floats of eight bits or fewer, which are floats of 32 bits in RTen: a cast rounds to the numbers of the type.

Spec: ONNX, Operators.md, Cast; docs/docsgen, float8 and float4; OCP Microscaling Formats, E8M0.
"""

from __future__ import annotations

from math import inf, log, nan
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir.dtypes import (
    FLOAT,
    FLOAT4E2M1,
    FLOAT6E2M3,
    FLOAT6E3M2,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    INT32,
)

if TYPE_CHECKING:
    from formats.rten.convert.context import Context


class Precision(NamedTuple):
    """The numbers of a type: bits of the fraction, least and greatest exponent of a normal number, greatest number."""

    bits: int
    least: int
    most: int
    greatest: float
    beyond: float  # the result for a number that is too large, if it does not become the greatest
    unknown: float = nan  # the result for NaN; where ONNX does not define it, as in ml_dtypes
    has_minus_zero: bool = True


PRECISIONS: Final = {
    FLOAT8E4M3FN: Precision(3, -6, 8, 448.0, nan),
    FLOAT8E4M3FNUZ: Precision(3, -7, 7, 240.0, nan, has_minus_zero=False),
    FLOAT8E5M2: Precision(2, -14, 15, 57344.0, inf),
    FLOAT8E5M2FNUZ: Precision(2, -15, 15, 57344.0, nan, has_minus_zero=False),
    FLOAT6E2M3: Precision(3, 0, 2, 7.5, 7.5, -0.0),
    FLOAT6E3M2: Precision(2, -2, 4, 28.0, 28.0, -0.0),
    FLOAT4E2M1: Precision(1, 0, 2, 6.0, 6.0, -0.0),
}
SMALL_FLOATS: Final = frozenset((*PRECISIONS, FLOAT8E8M0))
_LEAST, _MOST = -127, 127  # of the exponents of FLOAT8E8M0, which has powers of two only


def _binade(context: Context, magnitude: str, least: int, most: int) -> str:
    """The exponents of positive numbers, counted from `least` on; INT32. Below and above, it is the nearest one.

    A logarithm may be rounded to a whole number: two comparisons correct this.
    """
    op = context.op
    bounds = context.scalar(float(least)), context.scalar(float(most))
    exponent = op("Mul", op("Log", magnitude), context.scalar(1 / log(2)))
    exponent = op("Clip", op("Floor", exponent), *bounds)
    found = context.cast(op("Sub", exponent, bounds[0]), INT32)
    powers = context.array([2.0**number for number in range(least, most + 1)])
    power = op("Gather", powers, found, axis=0)
    is_next = op("GreaterOrEqual", op("Mul", magnitude, context.scalar(0.5)), power)
    is_before = op("Less", magnitude, power)
    found = op("Add", found, context.cast(is_next, INT32))
    found = op("Sub", found, context.cast(is_before, INT32))
    limits = (context.scalar(number, elem_type=INT32) for number in (0, most - least))
    return op("Clip", found, *limits)


def _chosen(context: Context, condition: str, number: float, value: str) -> str:
    return context.op("Where", condition, context.scalar(number), value)


def rounded(context: Context, data: str, target: int, saturate: bool, mode: str) -> str:
    """The nearest numbers of a type, the even one of two that are equally near; `mode` is that of FLOAT8E8M0.

    The last product gives the element type, and also the sign of zero, which onnxruntime's Where may lose.
    """
    op = context.op
    data = context.cast(data, FLOAT)
    is_unknown = op("IsNaN", data)
    magnitude = op("Abs", _chosen(context, is_unknown, 0.0, data))
    if target == FLOAT8E8M0:
        return _power_of_two(context, magnitude, is_unknown, saturate, mode)
    kind = PRECISIONS[target]
    magnitude = op("Min", magnitude, context.scalar(2.0 ** (kind.most + 1)))
    # A float that is added to such a large number is rounded to the steps of the type.
    large = context.array([1.5 * 2.0 ** (23 - kind.bits + number) for number in range(kind.least, kind.most + 1)])
    large = op("Gather", large, _binade(context, magnitude, kind.least, kind.most), axis=0)
    result = op("Sub", op("Add", magnitude, large), large)
    if saturate:
        result = op("Min", result, context.scalar(kind.greatest))
    else:
        is_beyond = op("Greater", result, context.scalar(kind.greatest))
        result = _chosen(context, is_beyond, kind.beyond, result)
    result = _chosen(context, is_unknown, kind.unknown, result)
    zero = context.scalar(0.0)
    is_negative = op("Less", data, zero)
    if kind.has_minus_zero:
        inverse = op("Div", context.scalar(1.0), data)
        is_negative = op("Or", is_negative, op("Less", inverse, zero))
    else:
        is_negative = op("And", is_negative, op("Greater", result, zero))
    signs = (context.scalar(sign, elem_type=target) for sign in (-1.0, 1.0))
    return op("Mul", op("Where", is_negative, *signs), result)


def _power_of_two(context: Context, magnitude: str, is_unknown: str, saturate: bool, mode: str) -> str:
    """The power of two next to a number: above, below, or the nearest. The sign means nothing."""
    op = context.op
    powers = [2.0**number for number in range(_LEAST, _MOST + 1)]
    is_unknown = op("Or", is_unknown, op("Equal", magnitude, context.scalar(inf)))
    finite = _chosen(context, is_unknown, 0.0, magnitude)
    place = _binade(context, finite, _LEAST, _MOST)
    if mode != "down":
        # Numbers below the normal ones have index 0: zero stays there, all others are above or below its half.
        limits = [*powers] if mode == "up" else [1.5 * power for power in powers]
        limits[0] = 0.0 if mode == "up" else powers[0]
        limit = op("Gather", context.array(limits), place, axis=0)
        is_above = op("Greater", finite, limit)
        if mode != "up":
            is_tie = op("Equal", finite, limit)
            is_normal = op("Greater", place, context.scalar(0, elem_type=INT32))
            is_above = op("Or", is_above, op("And", is_tie, is_normal))
        place = op("Add", place, context.cast(is_above, INT32))
    table = context.array([*powers, powers[-1] if saturate else nan])
    result = op("Gather", table, place, axis=0)
    one = context.scalar(1.0, elem_type=FLOAT8E8M0)
    return op("Mul", one, _chosen(context, is_unknown, nan, result))
