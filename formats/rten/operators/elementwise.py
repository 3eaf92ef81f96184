"""Arithmetic, and functions of one element."""

from __future__ import annotations

import operator
from math import exp, frexp, isfinite
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BFLOAT16, FLOAT, FLOAT16, INT16, INT32, INT64, UINT16
from formats.rten.convert.value_types import Interval
from formats.rten.graph.attributes import find, get_float, get_int, with_fields
from formats.rten.operators import comparison
from formats.rten.operators.shared import ranges
from formats.rten.operators.shared.deviations import Deviation, of_floats
from formats.rten.operators.shared.known_floats import AS_INTEGERS, may_be_folded, may_be_known, quotient_deviations
from formats.rten.operators.shared.rewritings import broadcast_by_attribute, dropped, widened, without_gaps
from formats.rten.operators.shared.rules import (
    arithmetic,
    broadcast,
    every_node,
    multiply,
    of_any_input,
    pairs,
    pairwise,
    same,
)
from formats.rten.operators.shared.spec import (
    Field,
    FieldKind,
    Folding,
    OnnxForm,
    OperatorSpec,
    Row,
    Signature,
    because,
)
from formats.rten.target import Fault
from formats.rten.types import BYTES, INT32_LIMITS
from formats.tensordata.plan import RARE, RESULTS, SPECIAL

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType
    from formats.rten.graph.makers import Makers


def with_axes(name: str, other: str, context: Context) -> str:
    """The value with as many axes as another, which has more, or may have."""
    from formats.rten.operators import shape  # it also needs this module

    rank, dims = context.rank(name), context.dims(other)
    if rank is not None and dims is not None:
        return context.op(shape.Unsqueeze, name, context.int64(range(len(dims) - rank)))
    return context.op(shape.Expand, name, context.op(shape.Shape, other))


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
    from formats.rten.operators import quantization, shape  # they also need this module

    inputs = list(node.input)
    for place, other in ((0, 1), (1, 0)):
        dims, wider = context.dims(inputs[place]), context.dims(inputs[other])
        if dims is None or len(dims) != 1 or not wider or not context.is_float(inputs[place]):
            continue
        if dims == (1,) and wider != (1,):
            inputs[place] = quantization.per_tensor(context, inputs[place])
        elif dims != (1,) and len(wider) > 1 and wider[-1] == 1:
            inputs[place] = context.op(shape.Unsqueeze, inputs[place], context.int64([0]))
    return None if inputs == list(node.input) else context.changed(inputs)


@because("RTen computes floats that it knows before the run as integers, so an operand is hidden behind Max")
def of_known_floats(node: Node, context: Context) -> list[Node] | None:
    first, second = context.input(0), context.input(1)
    is_quotient = node.op_type == Div.name  # no range shows that integers would be enough
    if not (is_quotient or context.scope.knows_numbers((first, second))) or context.is_integer(first):
        return None
    for name in (first, second):
        if not may_be_known(name, context) and not (is_quotient and may_be_folded(name, context)):
            return None
    rule = None if is_quotient else context.operator.range
    if rule is not None and Interval(*INT32_LIMITS).holds(rule(node, context.scope, [])):
        return None
    return context.changed([context.op(Max, first, first), second])


@ranges.exact
def _largest(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The interval of the largest input; RTen does not know the maximum of a number and itself before it runs."""
    if len(node.input) == 2 and node.input[0] == node.input[1]:
        scope.add_safe(AS_INTEGERS, node.output[0])
    return ranges.largest(node, scope, types)


Add = OperatorSpec(
    "Add",
    Row(2),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=arithmetic(operator.add, 0),
    older=(broadcast_by_attribute,),
    rewritings=(short_bias, of_neutral_element, of_known_floats),
    faults=(AS_INTEGERS,),
    narrow=widened((0, 1), narrow=BYTES | {INT16, UINT16}),
    is_plain=True,
    range=ranges.sums,
    passes_on=True,
)
Sub = OperatorSpec(
    "Sub",
    Row(2),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=arithmetic(operator.sub, 0),
    older=(broadcast_by_attribute,),
    rewritings=(of_neutral_element, of_known_floats),
    faults=(AS_INTEGERS,),
    narrow=widened((0, 1), narrow=BYTES | {INT16, UINT16}),
    is_plain=True,
    range=ranges.differences,
    passes_on=True,
)


def multiply_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """Products; a product with one keeps a name."""
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    return tuple(multiply(pair) for pair in pairs(first, second))


Mul = OperatorSpec(
    "Mul",
    Row(2),
    signature=Signature("N", "N"),
    sizes_from=(0, 1),
    dims=broadcast,
    elements=(of_any_input,),
    contents=multiply_contents,
    older=(broadcast_by_attribute,),
    rewritings=(of_neutral_element, of_known_floats),
    faults=(AS_INTEGERS,),
    narrow=widened((0, 1), narrow=BYTES | {INT16, UINT16}),
    is_plain=True,
    range=ranges.products,
    passes_on=True,
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
    from formats.rten.operators import indexing, shape  # they also need this module

    width = dividend[-1] if dividend else None
    if isinstance(width, int) and width > 1 and len(dims) <= len(dividend) and all(dim == 1 for dim in dims):
        return context.op(Div, left, context.op(shape.Expand, right, context.int64([width])))
    sizes = context.int64([2] + [1] * max(len(dims), len(dividend)))
    both = context.op(Div, left, context.op(shape.Expand, right, sizes))
    return context.op(indexing.Gather, both, context.int64_scalar(0), axis=0)


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
    Row(2),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=arithmetic(_divide, 1),
    older=(broadcast_by_attribute,),
    rewritings=(of_known_floats, of_one_element, of_one_number),
    faults=(AS_INTEGERS,),
    raised_deviations=quotient_deviations,
    narrow=widened((0, 1), narrow=BYTES | {INT16, UINT16}),
    range=ranges.quotients,
    passes_on=True,
    asks_if_rounded=True,
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
    if context.elem_type(node.input[0]) != FLOAT or get_int(node, "fmod"):
        return [node]
    divisor, zero = node.input[1], context.scalar(0.0)
    remainder = context.op(Mod, *node.input, fmod=1)
    below = [context.op(comparison.Less, value, zero) for value in (remainder, divisor)]
    above = [context.op(comparison.Greater, value, zero) for value in (remainder, divisor)]
    is_opposite = context.op(
        comparison.Or,
        context.op(comparison.And, above[0], below[1]),
        context.op(comparison.And, below[0], above[1]),
    )
    return context.replace(context.op(comparison.Where, is_opposite, context.op(Add, remainder, divisor), remainder))


Mod = OperatorSpec(
    "Mod",
    Row(2, 1, "ModAttrs", (Field("fmod", FieldKind.BOOL, 0),)),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=modulo_contents,
    rewritings=(of_large_constants,),
    narrow=widened((0, 1)),
    raised=modulo_raised,
    range=ranges.remainders,
    rounds=every_node,
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
    Row(2),
    signature=Signature("Nn", "N"),
    dims=broadcast,
    older=(broadcast_by_attribute,),
    rewritings=(power, of_one_element),
    narrow=widened((0, 1)),
    range=ranges.powers,
)


Max = OperatorSpec(
    "Max",
    Row(None),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=arithmetic(max),
    older=(dropped("consumed_inputs"),),
    narrow=widened(()),
    raised=without_gaps,
    range=_largest,
    is_bounding=True,
    passes_on=True,
)
Min = OperatorSpec(
    "Min",
    Row(None),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    contents=arithmetic(min),
    older=(dropped("consumed_inputs"),),
    narrow=widened(()),
    raised=without_gaps,
    range=ranges.least,
    is_bounding=True,
    passes_on=True,
)
Mean = OperatorSpec(
    "Mean",
    Row(None),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    older=(dropped("consumed_inputs"),),
    raised=without_gaps,
    range=ranges.averages_of_all,
)


def sum_raised(node: Node, context: Context) -> list[Node]:
    """ONNX sums floats only; anything else is added up one by one."""
    terms = [name for name in node.input if name]
    if context.elem_type(terms[0]) == FLOAT:
        return context.changed(terms)
    total = terms[0]
    for term in terms[1:]:
        total = context.op(Add, total, term)
    return context.replace(total)


Sum = OperatorSpec(
    "Sum",
    Row(None),
    signature=Signature("N", "N"),
    dims=broadcast,
    elements=(of_any_input,),
    older=(dropped("consumed_inputs"),),
    narrow=widened(()),
    raised=sum_raised,
    range=ranges.sums,
    passes_on=True,
)
Abs = OperatorSpec(
    "Abs",
    Row(1),
    signature=Signature("N", "N"),
    dims=same,
    older=(dropped("consumed_inputs"),),
    narrow=widened((0,), narrow=BYTES | {INT16}),
    range=ranges.magnitudes,
    passes_on=True,
)
Neg = OperatorSpec(
    "Neg",
    Row(1),
    signature=Signature("N", "N"),
    dims=same,
    older=(dropped("consumed_inputs"),),
    narrow=widened((0,), narrow=BYTES | {INT16}),
    is_plain=True,
    range=ranges.negated,
    passes_on=True,
)


@because("RTen's Sign returns 1 or -1 for zero, so it becomes comparisons with zero")
def sign(node: Node, context: Context) -> list[Node] | None:
    """RTen's Sign returns 1 or -1 for zero, so it becomes comparisons with zero."""
    data = context.input(0)
    if context.is_integer(data):
        return None
    if context.elem_type(data) in (FLOAT16, BFLOAT16):  # as constants, these are reported
        wide = context.op(Sign, context.cast(data, FLOAT))
        return context.replace(context.cast(wide, context.elem_type(data) or FLOAT))
    one, zero, minus = (context.scalar(number, like=data) for number in (1, 0, -1))
    rest = context.op(comparison.Where, context.op(comparison.Less, data, zero), minus, context.op(Abs, data))
    return context.replace(context.op(comparison.Where, context.op(comparison.Greater, data, zero), one, rest))


def _last_of_sign_of_comparisons() -> tuple[OperatorSpec, ...]:
    return (comparison.Where,)


def sign_of_comparisons(node: Node, makers: Makers) -> Node | None:
    """Sign, from the comparisons with zero that it was written with."""
    above = makers.match(node, comparison.Where, comparison.Greater)
    rest = makers.maker(node.input[2], comparison.Where) if above and len(node.input) > 2 else None
    below = makers.match(rest, comparison.Where, comparison.Less) if rest else None
    size = makers.maker(rest.input[2], Abs) if rest and below and len(rest.input) > 2 else None
    if not above or not below or not rest or not size or above[0].input != below[0].input:
        return None
    data, zero = above[0].input
    numbers = [makers.number(name) for name in (node.input[1], zero, rest.input[1])]
    if numbers != [1, 0, -1] or size.input != [data] or makers.elem_type(zero) != FLOAT:
        return None
    return with_fields(node, op_type=Sign.name, input=[data], attribute=[])


_UNSIGNED_ZERO = Fault("returns 1 or -1 for zero")
_NO_ZERO: Final = Deviation(_UNSIGNED_ZERO.sentence, RESULTS)


def _sign_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_NO_ZERO,) if context.elem_type(node.input[0]) == FLOAT else ()


Sign = OperatorSpec(
    "Sign",
    Row(1),
    signature=Signature("N", "N"),
    dims=same,
    rewritings=(sign,),
    narrow=widened((0,)),
    faults=(_UNSIGNED_ZERO,),
    raised_deviations=_sign_deviations,
    foldings=(Folding(_last_of_sign_of_comparisons, sign_of_comparisons),),
    range=ranges.signs,
)
Reciprocal = OperatorSpec("Reciprocal", Row(1), dims=same, older=(dropped("consumed_inputs"),))
Sqrt = OperatorSpec("Sqrt", Row(1), dims=same, older=(dropped("consumed_inputs"),), is_plain=True, range=ranges.roots)
Exp = OperatorSpec(
    "Exp", Row(1), dims=same, older=(dropped("consumed_inputs"),), is_plain=True, range=ranges.rising(exp, 0, None)
)
Log = OperatorSpec("Log", Row(1), dims=same, older=(dropped("consumed_inputs"),), is_plain=True)
Erf = OperatorSpec("Erf", Row(1), dims=same, is_plain=True, range=ranges.between(-1, 1))
Ceil = OperatorSpec(
    "Ceil", Row(1), dims=same, older=(dropped("consumed_inputs"),), range=ranges.of(0), rounds=every_node
)
Floor = OperatorSpec(
    "Floor", Row(1), dims=same, older=(dropped("consumed_inputs"),), range=ranges.of(0), rounds=every_node
)
Round = OperatorSpec("Round", Row(1), dims=same, range=ranges.of(0), rounds=every_node)


MAX_FLOAT = 3.4028234663852886e38  # the largest of 32 bits


@because("Before operator set 11, the bounds were attributes, finite by default since 6")
def clip_bounds(node: Node, context: Context) -> list[Node] | None:
    is_finite = 6 <= context.version < 11 and context.elem_type(context.input(0)) == FLOAT
    if find(node, "min") is None and find(node, "max") is None and not is_finite:
        return dropped("consumed_inputs")(node, context)
    data = context.input(0)
    bounds = [
        context.scalar(get_float(node, name, limit), like=data) if is_finite or find(node, name) is not None else ""
        for name, limit in (("min", -MAX_FLOAT), ("max", MAX_FLOAT))
    ]
    return context.changed([data, *bounds], without=("min", "max", "consumed_inputs"))


@because("RTen's Clip does not return NaN for NaN, so it becomes Max and Min")
def clip(node: Node, context: Context) -> list[Node] | None:
    data, low, high = context.input(0), context.optional(1), context.optional(2)
    if not context.exact or context.is_integer(data):
        return None
    raised = context.op(Max, data, low) if low else data
    return context.replace(context.op(Min, raised, high) if high else raised)


_NAN_BETWEEN: Final = Deviation("RTen returns a number within the bounds for NaN", SPECIAL)
Clip = OperatorSpec(
    "Clip",
    Row(3),
    signature=Signature("N", "N"),
    ranks={1: 0, 2: 0},
    dims=same,
    older=(clip_bounds,),
    rewritings=(clip,),
    deviations=of_floats(_NAN_BETWEEN),
    narrow=widened((0, 1, 2)),
    range=ranges.clipped,
    onnx=OnnxForm(inputs={"min": 1, "max": 2}),
    passes_on=True,
)
Sin = OperatorSpec("Sin", Row(1), dims=same, range=ranges.between(-1, 1))
Cos = OperatorSpec("Cos", Row(1), dims=same, range=ranges.between(-1, 1))
Tan = OperatorSpec("Tan", Row(1), dims=same)
Asin = OperatorSpec("Asin", Row(1), dims=same, range=ranges.between(-2, 2))
Acos = OperatorSpec("Acos", Row(1), dims=same, range=ranges.between(0, 4))
Atan = OperatorSpec("Atan", Row(1), dims=same, range=ranges.between(-2, 2))
Sinh = OperatorSpec("Sinh", Row(1), dims=same)
Cosh = OperatorSpec("Cosh", Row(1), dims=same)
Tanh = OperatorSpec(
    "Tanh", Row(1), dims=same, older=(dropped("consumed_inputs"),), is_plain=True, range=ranges.between(-1, 1)
)
_INFINITE_SQUARE: Final = Deviation("RTen may return infinity for numbers above 1e19", RARE)
_SQUARED: Final = of_floats(_INFINITE_SQUARE)
Asinh = OperatorSpec("Asinh", Row(1), dims=same, deviations=_SQUARED)
Acosh = OperatorSpec("Acosh", Row(1), dims=same, deviations=_SQUARED)
Atanh = OperatorSpec("Atanh", Row(1), dims=same)
