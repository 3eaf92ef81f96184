"""Arithmetic, and functions of one element."""

from __future__ import annotations

import operator
from functools import partial, reduce
from math import exp, frexp, isfinite
from typing import Final

from formats.ir.attributes import attribute_named, get_float, get_int
from formats.ir.dtypes import BFLOAT16, FLOAT, FLOAT16, INT16, INT32, INT64, UINT16
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, Interval, ValueType
from formats.rten.graph.attributes import with_fields
from formats.rten.graph.makers import Makers
from formats.rten.operators import ranges
from formats.rten.operators.rules import (
    WITHOUT_CONSUMED,
    arithmetic,
    broadcast,
    broadcast_by_attribute,
    dropped,
    every_node,
    multiply,
    of_any_input,
    of_floats,
    paired,
    pairwise,
    same,
    widened,
    without_gaps,
)
from formats.rten.spec import (
    Deviation,
    Field,
    Folding,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Rewriting,
    Row,
    ToOnnx,
    ToRten,
    because,
)
from formats.rten.target import Fault
from formats.rten.types import BYTES, INT32_LIMITS
from formats.tensordata.plan import RARE, RESULTS, SPECIAL

# Whole floats that RTen's optimiser knows before the model runs: it computes them as integers.
AS_INTEGERS: Final = Fault("computes whole floats as 32-bit integers if it knows them before the model runs")
_AS_INTEGERS_DEVIATION: Final = Deviation(AS_INTEGERS.sentence, RESULTS)


def may_be_known(name: str, context: Context) -> bool:
    """Whether RTen may know a float before the model runs, as it knows whole constants and what comes from dims."""
    rank = context.rank(name)
    if (rank is not None and rank > 1) or context.scope.is_safe(AS_INTEGERS, name):
        return False
    tensor = context.scope.constant(name)
    if tensor is None:
        return context.scope.knows_numbers((name,)) and None not in context.scope.range_of(name)
    array = tensor.numpy().astype("float64")
    return bool(((array == array.round()) & (abs(array) <= INT32_LIMITS[1])).all())


def may_be_folded(name: str, context: Context) -> bool:
    """Whether a float may come from constants that RTen knows, through Neg, Gather, Concat and other such operators."""
    dims = context.dims(name)
    is_small = dims is not None and len(dims) <= 1 and all(isinstance(dim, int) for dim in dims)
    return is_small and context.scope.constant(name) is None and not context.scope.is_safe(AS_INTEGERS, name)


def quotient_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    """Whether a node of a .rten file divides constants that are whole numbers."""
    constants = all(context.scope.constant(name) is not None for name in node.input)
    may_differ = (
        constants and not context.is_integer(node.input[0]) and all(may_be_known(n, context) for n in node.input)
    )
    return (_AS_INTEGERS_DEVIATION,) if may_differ else ()


def with_axes(name: str, other: str, context: Context) -> str:
    """The value with as many axes as another, which has more, or may have."""
    rank, dims = context.rank(name), context.dims(other)
    if rank is not None and dims is not None:
        return context.op("Unsqueeze", name, range(len(dims) - rank))
    return context.op("Expand", name, context.op("Shape", other))


@because("RTen omits a node that adds zero or multiplies with one, and loses the axes of that operand")
def of_neutral_element(node: Node, context: Context) -> list[Node] | None:
    inputs = list(node.input)
    for place, other in ((0, 1), (1, 0)):
        rank, dims = context.rank(inputs[place]), context.dims(inputs[other])
        if not dims or any(dim != 1 for dim in dims) or (rank is not None and rank >= len(dims)):
            continue
        if (inputs[place], inputs[other]) not in context.scope.expanded:
            inputs[place] = with_axes(inputs[place], inputs[other], context)
            return context.changed(inputs)
    return None


@because("RTen fails if a constant vector added to a product does not have one number for each column")
def short_bias(node: Node, context: Context) -> list[Node] | None:
    # So a single element becomes a scalar, and a vector that is added to columns of one element becomes a row.
    from formats.rten.operators import quantization  # they also need this module

    inputs = list(node.input)
    for place, other in ((0, 1), (1, 0)):
        dims, wider = context.dims(inputs[place]), context.dims(inputs[other])
        if dims is None or len(dims) != 1 or not wider or not context.is_float(inputs[place]):
            continue
        if dims == (1,) and wider != (1,):
            inputs[place] = quantization.per_tensor(context, inputs[place])
        elif dims != (1,) and len(wider) > 1 and wider[-1] == 1:
            inputs[place] = context.op("Unsqueeze", inputs[place], [0])
    return None if inputs == list(node.input) else context.changed(inputs)


@because("RTen computes floats that it knows before the run as integers, so an operand is hidden behind Max")
def of_known_floats(node: Node, context: Context) -> list[Node] | None:
    first, second = context.input(0), context.input(1)
    is_quotient = node.op_type == "Div"  # no range shows that integers would be enough
    if not (is_quotient or context.scope.knows_numbers((first, second))) or context.is_integer(first):
        return None
    for name in (first, second):
        if not may_be_known(name, context) and not (is_quotient and may_be_folded(name, context)):
            return None
    rule = None if is_quotient else context.operator.outputs.range
    if rule is not None and Interval(*INT32_LIMITS).holds(rule(node, context.scope, [])):
        return None
    return context.changed([context.op("Max", first, first), second])


@ranges.exact
def _largest(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The interval of the largest input; RTen does not know the maximum of a number and itself before it runs."""
    if len(node.input) == 2 and node.input[0] == node.input[1]:
        scope.add_safe(AS_INTEGERS, node.output[0])
    return ranges.largest(node, scope, types)


def _arithmetic(name: str, outputs: Outputs, *rewritings: Rewriting) -> OperatorSpec:
    """A sum, a difference or a product of two values."""
    to_rten = ToRten(
        Row(2),
        older=(broadcast_by_attribute,),
        rewritings=(*rewritings, of_neutral_element, of_known_floats),
        narrow=_IN_32_BITS,
        is_plain=True,
        faults=(AS_INTEGERS,),
    )
    return OperatorSpec(name, outputs, to_rten, ToOnnx("N", "N"))


_IN_32_BITS = widened((0, 1), narrow=BYTES | {INT16, UINT16})
Add = _arithmetic(
    "Add",
    Outputs(broadcast, of_any_input, contents=arithmetic(operator.add, 0), range=ranges.sums, passes_on=True),
    short_bias,
)
Sub = _arithmetic(
    "Sub",
    Outputs(broadcast, of_any_input, contents=arithmetic(operator.sub, 0), range=ranges.differences, passes_on=True),
)


def multiply_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """Products; a product with one keeps a name."""
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    return tuple(multiply(pair) for pair in paired(first, second))


Mul = _arithmetic(
    "Mul",
    Outputs(
        broadcast, of_any_input, contents=multiply_contents, range=ranges.products, sizes_from=(0, 1), passes_on=True
    ),
)


def _divide(a: int, b: int) -> int:
    """The quotient towards zero, as both ONNX and RTen divide integers."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


@because("If the right operand has one element, RTen returns the dims of the left one, even if the right has more axes")
def of_one_element(node: Node, context: Context) -> list[Node] | None:
    left, right = context.input(0), context.input(1)
    rank, dims = context.rank(left), context.dims(right)
    if (left, right) in context.scope.expanded or dims == ():
        return None
    if dims is not None and (
        (rank is not None and len(dims) <= rank) or any(isinstance(dim, int) and dim != 1 for dim in dims)
    ):
        return None
    return context.changed([with_axes(left, right, context), right])


def _quotient(context: Context, left: str, dividend: Dims, right: str, dims: Dims) -> str:
    """The quotient of floats, rounded once.

    RTen multiplies by the reciprocal of a divisor with one element, and so rounds twice: 41 / 41 is below 1. So the
    divisor gets several elements, or, if the width of the quotient is not known, a first axis of two.
    """
    op = context.op
    width = dividend[-1] if dividend else None
    if isinstance(width, int) and width > 1 and len(dims) <= len(dividend) and all(dim == 1 for dim in dims):
        return op("Div", left, op("Expand", right, [width]))
    sizes = context.int64([2] + [1] * max(len(dims), len(dividend)))
    both = op("Div", left, op("Expand", right, sizes))  # 2, then the dims of the quotient
    return op("Gather", both, 0, axis=0)


def _is_power_of_two(number: float) -> bool:
    return isfinite(number) and abs(frexp(number)[0]) == 0.5 and 2.0**-126 <= abs(number) <= 2.0**126


@because("A quotient that is rounded or compared, or any with `--exact`, is rounded only once")
def of_one_number(node: Node, context: Context) -> list[Node] | None:
    left, right = context.input(0), context.input(1)
    if not context.is_float(left) or not (context.exact or node.output[0] in context.names.decisive):
        return None
    dims, dividend, numbers = context.dims(right), context.dims(left), context.scope.numbers(right)
    if dims is None or dividend is None or any(isinstance(dim, int) and dim != 1 for dim in dims):
        return None
    if numbers and all(map(_is_power_of_two, numbers)):
        return None
    return context.replace(_quotient(context, left, dividend, right, dims))


Div = OperatorSpec(
    "Div",
    Outputs(broadcast, of_any_input, contents=arithmetic(_divide, 1), range=ranges.quotients, passes_on=True),
    ToRten(
        Row(2),
        older=(broadcast_by_attribute,),
        rewritings=(of_known_floats, of_one_element, of_one_number),
        narrow=_IN_32_BITS,
        asks_if_rounded=True,
        faults=(AS_INTEGERS,),
    ),
    ToOnnx("N", "N", deviations=quotient_deviations),
)


def modulo_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """Remainders with the sign of the divisor."""
    return None if get_int(node, "fmod") else pairwise(node, scope, operator.mod)


@because("RTen has other dividends if these need 64 bits, so a remainder of constants is computed before")
def of_large_constants(node: Node, context: Context) -> list[Node] | None:
    dividend, divisor = context.input(0), context.input(1)
    if get_int(node, "fmod") or not context.is_integer(dividend) or context.scope.constant(dividend) is None:
        return None
    first, second = context.scope.array(dividend), context.scope.array(divisor)
    if (
        first is None
        or second is None
        or not second.all()
        or Interval(*INT32_LIMITS).holds(context.scope.range_of(dividend))
    ):
        return None
    return context.replace(context.array(first % second, context.elem_type(dividend) or INT64))


def modulo_raised(node: Node, context: Context) -> list[Node]:
    """Of floats, ONNX knows the remainder with the sign of the dividend only, to which the divisor is added."""
    op = context.op
    if context.elem_type(node.input[0]) != FLOAT or get_int(node, "fmod"):
        return [node]
    divisor, zero = node.input[1], context.scalar(0.0)
    remainder = op("Mod", *node.input, fmod=1)  # with the sign of the dividend
    below = [op("Less", value, zero) for value in (remainder, divisor)]
    above = [op("Greater", value, zero) for value in (remainder, divisor)]
    is_opposite = op("Or", op("And", above[0], below[1]), op("And", below[0], above[1]))
    return context.replace(op("Where", is_opposite, op("Add", remainder, divisor), remainder))


Mod = OperatorSpec(
    "Mod",
    Outputs(
        broadcast,
        of_any_input,
        contents=modulo_contents,
        range=ranges.remainders,
        exact_if=lambda node, scope, types: bool(get_int(node, "fmod")),  # no remainder has more digits than both
        rounds=every_node,
    ),
    ToRten(Row(2, 1, "ModAttrs", (Field("fmod", bool, 0),)), rewritings=(of_large_constants,), narrow=widened((0, 1))),
    ToOnnx("N", "N", rewriting=modulo_raised),
)


@because("RTen's Pow needs floats as exponents of floats, and has no 8-bit integers")
def power(node: Node, context: Context) -> list[Node] | None:
    base, exponent = context.input(0), context.input(1)
    if context.is_integer(exponent) and not context.is_integer(base):
        return context.changed([base, context.cast(exponent, context.elem_type(base) or FLOAT)])
    if context.elem_type(exponent) in BYTES:
        return context.changed([base, context.cast(exponent, INT32)])
    return None


Pow = OperatorSpec(
    "Pow",
    Outputs(broadcast, range=ranges.powers),
    ToRten(Row(2), older=(broadcast_by_attribute,), rewritings=(power, of_one_element), narrow=widened((0, 1))),
    ToOnnx("Nn", "N"),
)


Max = OperatorSpec(
    "Max",
    Outputs(broadcast, of_any_input, contents=arithmetic(max), range=_largest, is_bounding=True, passes_on=True),
    ToRten(Row(None), older=WITHOUT_CONSUMED, narrow=widened(())),
    ToOnnx("N", "N", rewriting=without_gaps),
)
Min = OperatorSpec(
    "Min",
    Outputs(broadcast, of_any_input, contents=arithmetic(min), range=ranges.least, is_bounding=True, passes_on=True),
    ToRten(Row(None), older=WITHOUT_CONSUMED, narrow=widened(())),
    ToOnnx("N", "N", rewriting=without_gaps),
)
Mean = OperatorSpec(
    "Mean",
    Outputs(broadcast, of_any_input, range=ranges.inexact(ranges.of_all)),
    ToRten(Row(None), older=WITHOUT_CONSUMED),
    ToOnnx("N", "N", rewriting=without_gaps),
)


def sum_raised(node: Node, context: Context) -> list[Node]:
    """ONNX sums floats only; anything else is added up one by one."""
    terms = [name for name in node.input if name]
    if context.elem_type(terms[0]) == FLOAT:
        return context.changed(terms)
    return context.replace(reduce(partial(context.op, "Add"), terms))


Sum = OperatorSpec(
    "Sum",
    Outputs(broadcast, of_any_input, range=ranges.sums, passes_on=True),
    ToRten(Row(None), older=WITHOUT_CONSUMED, narrow=widened(())),
    ToOnnx("N", "N", rewriting=sum_raised),
)
Abs = OperatorSpec(
    "Abs",
    Outputs(same, range=ranges.magnitudes, passes_on=True),
    ToRten(Row(1), older=WITHOUT_CONSUMED, narrow=widened((0,), narrow=BYTES | {INT16})),
    ToOnnx("N", "N"),
)
Neg = OperatorSpec(
    "Neg",
    Outputs(same, range=ranges.negated, passes_on=True),
    ToRten(Row(1), older=WITHOUT_CONSUMED, narrow=widened((0,), narrow=BYTES | {INT16}), is_plain=True),
    ToOnnx("N", "N"),
)


@because("RTen's Sign returns 1 or -1 for zero, so it becomes comparisons with zero")
def sign(node: Node, context: Context) -> list[Node] | None:
    """RTen's Sign returns 1 or -1 for zero, so it becomes comparisons with zero."""
    op = context.op
    data = context.input(0)
    if context.is_integer(data):
        return None
    if context.elem_type(data) in (FLOAT16, BFLOAT16):  # as constants, these are reported
        wide = op("Sign", context.cast(data, FLOAT))
        return context.replace(context.cast(wide, context.elem_type(data) or FLOAT))
    one, zero, minus = (context.scalar(number, like=data) for number in (1, 0, -1))
    rest = op("Where", op("Less", data, zero), minus, op("Abs", data))
    return context.replace(op("Where", op("Greater", data, zero), one, rest))


def sign_of_comparisons(node: Node, makers: Makers) -> Node | None:
    """Sign, from the comparisons with zero that it was written with."""
    above = makers.match(node, "Where", "Greater")
    rest = makers.maker(node.input[2], "Where") if above and len(node.input) > 2 else None
    below = makers.match(rest, "Where", "Less") if rest else None
    size = makers.maker(rest.input[2], "Abs") if rest and below and len(rest.input) > 2 else None
    if not above or not below or not rest or not size or above[0].input != below[0].input:
        return None
    data, zero = above[0].input
    numbers = [makers.number(name) for name in (node.input[1], zero, rest.input[1])]
    if numbers != [1, 0, -1] or size.input != [data] or makers.elem_type(zero) != FLOAT:
        return None
    return with_fields(node, op_type="Sign", input=[data], attribute=[])


_UNSIGNED_ZERO = Fault("returns 1 or -1 for zero")
_NO_ZERO: Final = Deviation(_UNSIGNED_ZERO.sentence, RESULTS)


def _sign_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_NO_ZERO,) if context.elem_type(node.input[0]) == FLOAT else ()


Sign = OperatorSpec(
    "Sign",
    Outputs(same, range=ranges.signs),
    ToRten(Row(1), rewritings=(sign,), narrow=widened((0,)), faults=(_UNSIGNED_ZERO,)),
    ToOnnx("N", "N", foldings=(Folding(("Where",), sign_of_comparisons),), deviations=_sign_deviations),
)
Reciprocal = OperatorSpec("Reciprocal", Outputs(same), ToRten(Row(1), older=WITHOUT_CONSUMED))
Sqrt = OperatorSpec("Sqrt", Outputs(same, range=ranges.roots), ToRten(Row(1), older=WITHOUT_CONSUMED, is_plain=True))
Exp = OperatorSpec(
    "Exp", Outputs(same, range=ranges.rising(exp, 0, None)), ToRten(Row(1), older=WITHOUT_CONSUMED, is_plain=True)
)
Log = OperatorSpec("Log", Outputs(same), ToRten(Row(1), older=WITHOUT_CONSUMED, is_plain=True))
Erf = OperatorSpec("Erf", Outputs(same, range=ranges.between(-1, 1)), ToRten(Row(1), is_plain=True))
Ceil = OperatorSpec(
    "Ceil", Outputs(same, range=ranges.of(0), rounds=every_node), ToRten(Row(1), older=WITHOUT_CONSUMED)
)
Floor = OperatorSpec(
    "Floor", Outputs(same, range=ranges.of(0), rounds=every_node), ToRten(Row(1), older=WITHOUT_CONSUMED)
)
Round = OperatorSpec("Round", Outputs(same, range=ranges.of(0), rounds=every_node), ToRten(Row(1)))


MAX_FLOAT = 3.4028234663852886e38  # the largest of 32 bits


@because("Before operator set 11, the bounds were attributes, finite by default since 6")
def clip_bounds(node: Node, context: Context) -> list[Node] | None:
    is_finite = 6 <= context.version < 11 and context.elem_type(context.input(0)) == FLOAT
    if attribute_named(node, "min") is None and attribute_named(node, "max") is None and not is_finite:
        return dropped("consumed_inputs")(node, context)
    data = context.input(0)
    bounds = [
        context.scalar(get_float(node, name, limit), like=data)
        if is_finite or attribute_named(node, name) is not None
        else ""
        for name, limit in (("min", -MAX_FLOAT), ("max", MAX_FLOAT))
    ]
    return context.changed([data, *bounds], without=("min", "max", "consumed_inputs"))


@because("RTen's Clip does not return NaN for NaN, so it becomes Max and Min")
def clip(node: Node, context: Context) -> list[Node] | None:
    data, low, high = context.input(0), context.optional(1), context.optional(2)
    if not context.exact or context.is_integer(data):
        return None
    raised = context.op("Max", data, low) if low else data  # Max and Min return NaN for NaN
    return context.replace(context.op("Min", raised, high) if high else raised)


_NAN_BETWEEN: Final = Deviation("RTen returns a number within the bounds for NaN", SPECIAL)
Clip = OperatorSpec(
    "Clip",
    Outputs(same, range=ranges.clipped, passes_on=True),
    ToRten(
        Row(3), older=(clip_bounds,), rewritings=(clip,), narrow=widened((0, 1, 2)), deviations=of_floats(_NAN_BETWEEN)
    ),
    ToOnnx("N", "N", ranks={1: 0, 2: 0}),
    onnx_loader=OnnxLoader(inputs={"min": 1, "max": 2}),
)
Sin = OperatorSpec("Sin", Outputs(same, range=ranges.between(-1, 1)), ToRten(Row(1)))
Cos = OperatorSpec("Cos", Outputs(same, range=ranges.between(-1, 1)), ToRten(Row(1)))
Tan = OperatorSpec("Tan", Outputs(same), ToRten(Row(1)))
Asin = OperatorSpec("Asin", Outputs(same, range=ranges.between(-2, 2)), ToRten(Row(1)))
Acos = OperatorSpec("Acos", Outputs(same, range=ranges.between(0, 4)), ToRten(Row(1)))
Atan = OperatorSpec("Atan", Outputs(same, range=ranges.between(-2, 2)), ToRten(Row(1)))
Sinh = OperatorSpec("Sinh", Outputs(same), ToRten(Row(1)))
Cosh = OperatorSpec("Cosh", Outputs(same), ToRten(Row(1)))
Tanh = OperatorSpec(
    "Tanh", Outputs(same, range=ranges.between(-1, 1)), ToRten(Row(1), older=WITHOUT_CONSUMED, is_plain=True)
)
_INFINITE_SQUARE: Final = Deviation("RTen may return infinity for numbers above 1e19", RARE)
_SQUARED: Final = of_floats(_INFINITE_SQUARE)
Asinh = OperatorSpec("Asinh", Outputs(same), ToRten(Row(1), deviations=_SQUARED))
Acosh = OperatorSpec("Acosh", Outputs(same), ToRten(Row(1), deviations=_SQUARED))
Atanh = OperatorSpec("Atanh", Outputs(same), ToRten(Row(1)))
