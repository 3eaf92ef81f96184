"""Casts to another element type; to floats of eight bits or fewer, as the rounding to their numbers.

Spec: ONNX, Operators.md, Cast; docs/docsgen, float8 and float4; OCP Microscaling Formats, E8M0.
"""

from __future__ import annotations

from math import inf, log, nan
from typing import Final, NamedTuple

from formats.ir.attributes import attribute_named, get_int, get_string
from formats.ir.dtypes import (
    BFLOAT16,
    BOOL,
    BY_NAME,
    BY_NUMBER,
    DOUBLE,
    FLOAT,
    FLOAT4E2M1,
    FLOAT6E2M3,
    FLOAT6E3M2,
    FLOAT8E4M3FN,
    FLOAT8E4M3FNUZ,
    FLOAT8E5M2,
    FLOAT8E5M2FNUZ,
    FLOAT8E8M0,
    FLOAT16,
    INT8,
    INT32,
    UINT8,
    UINT32,
    UINT64,
    numpy_dtype,
    type_name,
)
from formats.ir.model import Node
from formats.ir.storage import from_numpy
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, Interval, ValueType
from formats.rten.operators import comparison, ranges
from formats.rten.operators.rules import INDEX_TYPES, of_attribute, same, same_contents
from formats.rten.spec import (
    ANY,
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    because,
    of_input,
)
from formats.rten.target import RTEN_0_27
from formats.rten.types import (
    BYTES,
    FLOATS,
    INT32_LIMITS,
    INTS,
    PARTLY_HELD,
    READ_TYPES,
    SIGNED,
    VALUE_TYPES,
    limits,
    width,
)
from formats.tensordata.plan import RARE, SPECIAL


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
    index = context.cast(op("Sub", exponent, bounds[0]), INT32)
    powers = context.array([2.0**number for number in range(least, most + 1)])  # the least number of each binade
    power = op("Gather", powers, index, axis=0)
    is_next = op("GreaterOrEqual", op("Mul", magnitude, 0.5), power)  # the logarithm was rounded down
    is_before = op("Less", magnitude, power)  # the logarithm was rounded up
    index = op("Add", index, context.cast(is_next, INT32))
    index = op("Sub", index, context.cast(is_before, INT32))
    limits = (context.scalar(number, elem_type=INT32) for number in (0, most - least))
    return op("Clip", index, *limits)


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
    # A float that is added to such a large number is rounded to the steps of the type: a float has 24 bits, so a number
    # of 1.5 * 2^(23 - bits) times the least step of a binade has that step as its last bit.
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
        inverse = op("Div", 1.0, data)
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


# RTen cuts off bits only for types of eight bits; `comparison.py` cuts them off before, and truth values are
# comparisons. Casts to floats of eight bits or fewer are written as the rounding to their numbers.
CAST_TYPES: Final = {
    number: name for number, name in VALUE_TYPES.items() if number in FLOATS | INTS | BYTES and number != BOOL
}


def cast_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The contents of the input, in a cast from one integer type to another."""
    return same_contents(node, scope, types) if get_int(node, "to") in INDEX_TYPES else None


@because("Before operator set 6, the attribute was the name of the type")
def cast_to_name(node: Node, context: Context) -> list[Node] | None:
    target = attribute_named(node, "to")
    if target is None or target.s is None:
        return None
    row = BY_NAME.get(target.s.decode("ascii", "replace"))
    if row is None:
        raise Refused(f"casts to the unknown type {target.s!r}")
    return context.changed(to=row.number)


def _truth(context: Context, data: str, source: int | None) -> list[Node]:
    if source == BOOL:
        return context.replace(context.op("Identity", data))
    if source not in FLOATS | INTS:
        data = context.cast(data, INT32 if source in BYTES else FLOAT)
    return context.replace(context.op("Not", context.op("Equal", data, context.scalar(0, like=data))))


def _may_be_negative(context: Context, name: str) -> bool:
    """Whether a value has signed integers whose signs are unknown."""
    if context.elem_type(name) not in SIGNED or context.scope.is_natural(name):
        return False
    return min(context.scope.ints(name) or (-1,)) < 0


def _fits(source: int | None, target: int) -> bool:
    """Whether all values of a type are values of an integer type."""
    if source is None or source not in INTS | BYTES:
        return False
    (low, high), (least, greatest) = limits(target), limits(source)
    return low <= least and greatest <= high


def _to_small_floats(node: Node, context: Context, data: str, target: int) -> list[Node]:
    if context.elem_type(data) == target:
        return context.replace(context.op("Identity", data))
    saturate, mode = bool(get_int(node, "saturate", 1)), get_string(node, "round_mode", "up") or "up"
    return context.replace(rounded(context, data, target, saturate, mode))


@because("RTen's optimiser removes a Cast between int8 and uint8 that follows QuantizeLinear, so it becomes two")
def cast_of_bytes(node: Node, context: Context) -> list[Node] | None:
    source, target = context.elem_type(context.input(0)), get_int(node, "to")
    if not context.target.is_onnx or {source, target} != {INT8, UINT8}:
        return None
    return context.replace(context.op("Cast", context.op("Cast", context.input(0), to=INT32), to=target))


@because("RTen has no BOOL, so that Cast becomes a comparison with zero, and wraps only to eight bits")
def cast(node: Node, context: Context) -> list[Node] | None:
    # For others, the bits are cut off before the cast. The cast is then from DOUBLE, whose numbers are known to fit.
    op = context.op
    data, target = context.input(0), get_int(node, "to")
    if target in SMALL_FLOATS:
        return _to_small_floats(node, context, data, target)
    if target not in FLOATS | INTS | BYTES:
        raise Refused(f"casts to {type_name(target)}, which RTen does not support")
    source = context.elem_type(data)
    numbers = context.scope.array(data) if context.scope.constant(data) and context.scope.ints(data) else None
    if numbers is not None and not all(
        INT32_LIMITS[0] <= number <= INT32_LIMITS[1] for number in numbers.ravel().tolist()
    ):
        return context.replace(
            context.constants.add(numbers.astype(numpy_dtype(target)))
        )  # RTen computes other numbers
    if target == source == BOOL and context.target.is_onnx:
        return None
    if target == BOOL:
        return _truth(context, data, source)
    if target in (UINT32, UINT64) and _may_be_negative(context, data):
        context.report(_NEGATIVE)
    if target in FLOATS or width(target) not in (2, 4, 16) or source is None or _fits(source, target):
        return None
    low, high = limits(target)
    if source == DOUBLE and Interval(low, high).holds(context.scope.range_of(data)):
        return None
    if source in FLOATS and not Interval(*INT32_LIMITS).holds(context.scope.range_of(data)):
        context.report(_TWO_STEPS)
    number, offset = (
        comparison.remainder(context, context.cast(data, INT32), high - low + 1),
        comparison.int32(context, -low),
    )
    if low:
        number = op("Sub", comparison.remainder(context, op("Add", number, offset), high - low + 1), offset)
    return context.replace(op("Cast", op("Cast", number, to=DOUBLE), to=target))


_NEGATIVE: Final = Deviation("negative integers stay negative in RTen, and become large ones in ONNX", RARE)
_ANY_INTEGER: Final = Deviation(
    "floats outside the integers' range become the nearest integer in RTen, and any integer in onnxruntime", RARE
)
_TWO_STEPS: Final = Deviation(
    "floats beyond 32 bits first become the nearest 32-bit integer; onnxruntime may return another one", RARE
)


_NO_INTEGER: Final = Deviation("NaN becomes zero in RTen, and another integer in onnxruntime", SPECIAL)


def _unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    """Of integers that RTen lacks, the report has a `range`."""
    target = get_int(node, "to")
    if context.elem_type(node.input[0]) not in FLOATS or target not in INTS | BYTES:
        return ()
    if Interval(*limits(target)).holds(context.scope.range_of(node.input[0])):
        is_of_model = context.names.is_read(node.output[0])  # and not a part of a rewritten node
        return (_NO_INTEGER,) if is_of_model and target in INTS and width(target) >= 32 else ()
    return () if target in PARTLY_HELD else (_ANY_INTEGER,)


# The greatest integer up to which a type and FLOAT have every integer, and the digits of types.
_INTEGERS: Final = {FLOAT16: 1 << 11, BFLOAT16: 1 << 8, DOUBLE: 1 << 24}
_DIGITS: Final = {BFLOAT16: 8, FLOAT16: 11, FLOAT: 24, DOUBLE: 53}


def _is_exact(node: Node, scope: Scope, types: list[ValueType]) -> bool:
    """Whether a cast to a float type changes no number that FLOAT keeps. Small floats are rounded as in ONNX."""
    source, target = types[0].elem_type, scope.type_of(node.output[0]).elem_type or 0
    if source == BOOL or target in SMALL_FLOATS:
        return True
    if source in FLOATS:
        return _DIGITS.get(source, 0) <= _DIGITS.get(target, 0)
    limit = _INTEGERS.get(target, 0)
    return Interval(-limit, limit).holds(scope.range_of(node.input[0]))


Cast = OperatorSpec(
    "Cast",
    Outputs(
        same,
        of_attribute("to", None),
        contents=cast_contents,
        range=ranges.of(0),
        exact_if=_is_exact,
        sizes_from=(0,),
        is_copy=True,
        rounds=lambda node: get_int(node, "to") not in FLOATS,
        passes_on=True,
    ),
    ToRten(
        Row(
            1,
            1,
            "CastAttrs",
            (Field("to", int, choices=CAST_TYPES, required=True),),
            {"saturate": ANY, "round_mode": ANY},
        ),
        older=(cast_to_name,),
        rewritings=(cast_of_bytes, cast),
        unspecified=_unspecified,
    ),
    onnx_loader=OnnxLoader(
        Row(1, fields=(Field("to", int, choices=dict.fromkeys(READ_TYPES), required=True),)),
        {"saturate": (1,), "round_mode": ("up",)},
    ),
)


def cast_like(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Cast to the type of the other input."""
    target = context.elem_type(context.input(1))
    if target is None:
        raise Refused("casts to an unknown type", "infer the model's types first")
    if context.target.is_onnx and target in READ_TYPES and target != BOOL:
        return None
    return context.replace(context.copy([context.input(0)], "Cast", to=target))


CastLike = OperatorSpec(
    "CastLike",
    Outputs(same, of_input(1), range=ranges.of(0), exact_if=_is_exact),
    ToRten(Row(2, 1, "CastLikeAttrs", (), {"saturate": ANY, "round_mode": ANY}), rewritings=(cast_like,)),
    ToOnnx("xw"),
    onnx_loader=OnnxLoader(takes={"saturate": (1,), "round_mode": ("up",)}, version=15),
)


SAME_BITS: Final = frozenset((FLOAT, INT32, INT8, UINT8))  # the types that RTen holds with the same bits as ONNX


def bit_cast(node: Node, context: Context) -> list[Node] | None:
    """Write it as a constant of another type or, for integers of up to 16 bits, as a Cast."""
    data, target = context.input(0), get_int(node, "to")
    tensor, source = context.scope.constant(data), context.elem_type(data)
    if target == source:
        return context.replace(context.op("Identity", data))
    if context.has("BitCast") and {source, target} <= SAME_BITS:
        return None
    if source not in BY_NUMBER or target not in BY_NUMBER or BY_NUMBER[source].bits != BY_NUMBER[target].bits:
        raise Refused(f"reinterprets {context.describe(data)} as {type_name(target)}, whose size differs or is unknown")
    if tensor is not None:
        name = context.names.new(f"{data}/bits")
        reinterpreted = from_numpy(tensor.numpy().view(numpy_dtype(target)), name)
        return context.replace(context.op("Identity", context.constants.add_tensor(reinterpreted)))
    if {source, target} <= (INTS | BYTES) - PARTLY_HELD - {INT32}:
        return context.replace(context.op("Cast", data, to=target))
    raise Refused("reinterprets 32 or 64 bits when the model runs, which RTen cannot do")


BitCast = OperatorSpec(
    "BitCast",
    Outputs(same, of_attribute("to", None)),
    ToRten(rewritings=(bit_cast,)),
    onnx_loader=OnnxLoader(
        Row(1, fields=(Field("to", int, choices=dict.fromkeys(READ_TYPES), required=True),), since=RTEN_0_27),
        version=26,
    ),
)
