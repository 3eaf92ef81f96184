"""Rules for intervals: the least and greatest number that the elements of a value can have, as far as is certain.

RTen has integers of 32 bits. A rule gives the interval of what ONNX computes. If that interval does not fit in 32 bits,
the scope says so. The interval of a float is rounded outward to integers; NaN is in every interval.

Some rules say that each element is one of the inputs' elements, its opposite, or a small integer. Their operators round
nothing: `is_exact` tells them.

Other operators round nothing if the numbers are few enough: if all numbers are multiples of a power of two, its *step*,
and none is larger than 2^24 steps, FLOAT has each of them. A table says what step an operator's results have.

The assumptions are in `docs/rten.md`: a dim is from 0 to 2^24, a tensor has fewer than 2^31 elements, and inputs of 64
bits are within plus or minus 2^24.
"""

from __future__ import annotations

from math import ceil, floor, isqrt, prod
from typing import TYPE_CHECKING, Final, TypeVar

from formats.ir.attributes import get_int
from formats.rten.convert.value_types import MAX_DIM, Interval, corners, greatest_of, least_of, opposite, union
from formats.rten.operators.rules import normalize
from formats.rten.types import FLOATS, INT32_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, ValueType
    from formats.rten.spec import Rule

MAX_SIZE: Final = (1 << 31) - 1
UNBOUNDED: Final = Interval()
MAX_EXPONENT: Final = 64  # of e, for which an interval is computed
_EXACT: Final[set[Rule[Interval]]] = set()
# The exponent of the results' step, from the inputs'.
_STEPS: Final[dict[Rule[Interval], Callable[[list[int]], int]]] = {}

R = TypeVar("R", bound="Rule[Interval]")


def stepping(step: Callable[[list[int]], int]) -> Callable[[R], R]:
    """A decorator for a rule of operators that only add and multiply: how the exponents of steps combine."""

    def with_step(rule: R) -> R:
        _STEPS[rule] = step
        return rule

    return with_step


def exact(rule: R) -> R:
    """A decorator for a rule of operators that round nothing. Zero and one may be among their results."""
    _EXACT.add(rule)
    return stepping(lambda steps: min([*steps, 0]))(rule)


def is_exact(rule: Rule[Interval] | None) -> bool:
    """Whether the operators with a rule round nothing."""
    return rule in _EXACT


def step_of(rule: Rule[Interval] | None, steps: list[int]) -> int | None:
    """The exponent of the step of what an operator computes from floats with some steps, and from integers."""
    return _STEPS[rule](steps or [0]) if rule in _STEPS else None


@exact
def sizes(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Dims, and places along them."""
    return Interval(0, MAX_DIM)


def indices(default_axis: int) -> Rule[Interval]:
    """Places along the axis of a node, below its dim."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
        dims, axis = types[0].dims, get_int(node, "axis", default_axis)
        dim = MAX_DIM if dims is None else _dim(dims[normalize(axis, len(dims))])
        return Interval(0, max(dim - 1, 0))

    return exact(rule)


@exact
def places(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Places and numbers of elements of the first input, along an axis or among all."""
    dims = types[0].dims
    return Interval(0, MAX_SIZE if dims is None else min(prod(map(_dim, dims)), MAX_SIZE))


@exact
def counts(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Numbers of elements."""
    return Interval(0, MAX_SIZE)


@exact
def truths(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """One or zero."""
    return Interval(0, 1)


@exact
def signs(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """From minus one to one."""
    return Interval(-1, 1)


def of(*places: int) -> Rule[Interval]:
    """The elements are those of some of the inputs."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
        names = [node.input[place] for place in places if place < len(node.input)]
        return union(*(scope.range_of(name) for name in names if name))

    return exact(rule)


def inexact(rule: Rule[Interval]) -> Rule[Interval]:
    """The same interval, for operators that round: `is_exact` is false of it."""
    return lambda node, scope, types: rule(node, scope, types)


def between(low: int | None, high: int | None) -> Rule[Interval]:
    """Between two numbers, whatever the inputs are."""
    return lambda node, scope, types: Interval(low, high)


def rising(function: Callable[[float], float], low: int | None, high: int | None) -> Rule[Interval]:
    """A function of the first input that never falls; `low` and `high` are its limits."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
        first, last = scope.range_of(node.input[0])
        is_low, is_high = first is None or first < -MAX_EXPONENT, last is None or last > MAX_EXPONENT
        return Interval(
            low if is_low else floor(function(min(first or 0, MAX_EXPONENT))),
            high if is_high else ceil(function(max(last or 0, -MAX_EXPONENT))),
        )

    return rule


def gated(least: int) -> Rule[Interval]:
    """Not below a number, and not above the first input or zero: it is multiplied by a number from zero to one."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
        greatest = scope.range_of(node.input[0]).greatest
        return Interval(least, None if greatest is None else max(greatest, 0))

    return rule


def leaking(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The first input, of which negative numbers may be nearer to zero."""
    slope = next((attribute.f for attribute in node.attribute if attribute.name == "alpha"), 0.0) or 0.0
    return union(scope.range_of(node.input[0]), Interval(0, 0)) if 0 <= slope <= 1 else UNBOUNDED


def roots(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Square roots of numbers that are not negative."""
    low, high = scope.range_of(node.input[0])
    if low is None or low < 0:
        return Interval(0, None)  # or NaN
    return Interval(isqrt(low), None if high is None else isqrt(high) + 1)


@exact
def of_all(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of all inputs."""
    return union(*(scope.range_of(name) for name in node.input if name))


@exact
def with_zero(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of the first input, or zero."""
    return union(scope.range_of(node.input[0]), Interval(0, 0))


@exact
def padded(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of the first input, or the padding."""
    value = node.input[2] if len(node.input) > 2 and node.input[2] else ""
    return union(scope.range_of(node.input[0]), scope.range_of(value) if value else Interval(0, 0))


def _is_natural(interval: Interval) -> bool:
    """Whether no number is negative."""
    return interval.least is not None and interval.least >= 0


def _operands(node: Node, scope: Scope) -> tuple[Interval, Interval]:
    return scope.range_of(node.input[0]), scope.range_of(node.input[1])


def _added(first: Interval, second: Interval) -> Interval:
    (a, b), (c, d) = first, second
    return Interval(None if a is None or c is None else a + c, None if b is None or d is None else b + d)


@stepping(min)
def sums(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The inputs added up."""
    total = Interval(0, 0)
    for name in node.input:
        total = _added(total, scope.range_of(name))
    return total


@stepping(min)
def differences(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The first input minus the second."""
    if node.input[0] == node.input[1] and scope.type_of(node.input[0]).elem_type not in FLOATS:
        return Interval(0, 0)
    first, second = _operands(node, scope)
    return _added(first, opposite(second))


@stepping(sum)
def products(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The product of two inputs."""
    first, second = _operands(node, scope)
    if node.input[0] == node.input[1] and None not in first:
        return Interval(0, max((number or 0) ** 2 for number in first))
    if _is_natural(first) and _is_natural(second) and None in (first.greatest, second.greatest):
        return Interval(0, None)
    return corners(lambda a, b: a * b, first, second)


def quotients(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The first input divided by the second; unbounded if the second may be a fraction."""
    first, second = _operands(node, scope)
    if types[0].elem_type in FLOATS:
        if None in second or (second.least or 0) < 1:  # a rounded number below one may be zero
            return UNBOUNDED
    elif None in second or (second.least or 0) <= 0 <= (second.greatest or 0):
        magnitude = None if None in first else max(abs(number or 0) for number in first)  # no divisor is below one
        if magnitude is None:
            return UNBOUNDED
        is_natural = _is_natural(first) and _is_natural(second)
        return Interval(0 if is_natural else -magnitude, magnitude)
    rounded = (
        corners(lambda a, b: a // b, first, second),
        corners(lambda a, b: -(-a // b), first, second),
    )
    return union(*rounded)


def remainders(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Smaller than the divisor, with its sign or that of the dividend."""
    first, second = _operands(node, scope)
    if scope.constant(node.input[0]) is not None and not Interval(*INT32_LIMITS).holds(first):
        return first  # RTen has another dividend
    if None in second:
        return UNBOUNDED if None in first else union(first, Interval(0, 0))
    size = max(0, max(abs(number or 0) for number in second) - (types[0].elem_type not in FLOATS))
    is_natural = _is_natural(first if get_int(node, "fmod") else second)
    return Interval(0 if is_natural or (_is_natural(first) and _is_natural(second)) else -size, size)


@exact
def negated(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The negated numbers."""
    return opposite(scope.range_of(node.input[0]))


@exact
def magnitudes(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The absolute value. The least integer of its type has no positive counterpart, and counts as the one after it."""
    interval = scope.range_of(node.input[0])
    least = 0 if interval.least is None or interval.least < 0 else interval.least
    if interval.least == -MAX_SIZE - 1:
        interval = Interval(-MAX_SIZE, interval.greatest)
    return Interval(least, None if None in interval else max(abs(number or 0) for number in interval))


def powers(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """A power with a known exponent that is a small natural number."""
    base, exponent = _operands(node, scope)
    if None in base or None in exponent or (exponent.least or 0) < 0 or (exponent.greatest or 0) > 64:
        return UNBOUNDED
    greatest = max(abs(number or 0) for number in base) ** (exponent.greatest or 0)
    return Interval(0 if _is_natural(base) else -greatest, max(greatest, 1))


@exact
def largest(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The largest of the inputs."""
    return greatest_of(*(scope.range_of(name) for name in node.input if name))


@exact
def least(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The least of the inputs."""
    return least_of(*(scope.range_of(name) for name in node.input if name))


@exact
def clipped(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Within the bounds, which may be any numbers of theirs."""
    interval = scope.range_of(node.input[0])
    low, high = [*node.input[1:3], "", ""][:2]
    interval = greatest_of(interval, scope.range_of(low)) if low else interval
    return least_of(interval, scope.range_of(high)) if high else interval


def _dim(dim: Dim) -> int:
    return dim if isinstance(dim, int) else MAX_DIM


def _times(interval: Interval, count: int) -> Interval:
    low, high = interval
    return Interval(None if low is None else min(low * count, low, 0), None if high is None else max(high * count, 0))


@stepping(min)
def totals(node: Node, scope: Scope, types: list[ValueType], elements: Interval | None = None) -> Interval:
    """The elements added up. Their number is the product of the lengths of the reduced axes."""
    dims = types[0].dims
    axes = scope.ints(node.input[1]) if len(node.input) > 1 and node.input[1] else ()
    if dims is None or axes is None:
        count = MAX_SIZE
    elif axes:
        count = prod(_dim(dims[normalize(axis, len(dims))]) for axis in axes)
    else:
        count = prod(map(_dim, dims))
    return _times(scope.range_of(node.input[0]) if elements is None else elements, min(count, MAX_SIZE))


@stepping(min)
def running_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements added up along one axis."""
    dims, axis = types[0].dims, scope.ints(node.input[1])
    count = MAX_DIM if dims is None or not axis else _dim(dims[normalize(axis[0], len(dims))])
    return _times(scope.range_of(node.input[0]), count)


def elements_multiplied(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements multiplied, if their number is known, or if they are the dims of a tensor."""
    if scope.is_shape(node.input[0]):
        return Interval(0, MAX_SIZE)
    dims, interval = types[0].dims, scope.range_of(node.input[0])
    if Interval(-1, 1).holds(interval):
        return Interval(0 if _is_natural(interval) else -1, 1)
    if dims is None or None in interval or not all(isinstance(dim, int) for dim in dims) or prod(map(_dim, dims)) > 64:
        return Interval(0, None) if _is_natural(interval) else UNBOUNDED
    size = max(1, *(abs(number or 0) for number in interval)) ** prod(map(_dim, dims))
    return Interval(0 if _is_natural(interval) else -size, size)


@stepping(sum)
def matrix_products(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The sum of products; their number is the length of the last axis."""
    dims = types[0].dims
    return _times(products(node, scope, types), _dim(dims[-1]) if dims else MAX_DIM)


def products_of_bytes(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The sum of products of two bytes; their number is the length of the last axis."""
    dims, greatest = types[0].dims, ((1 << 8) - 1) ** 2
    return _times(Interval(-greatest, greatest), _dim(dims[-1]) if dims else MAX_DIM)


def accumulated(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The result of a scatter: elements of the data, updates, and the results of their sums and products."""
    reduction = next((attribute.s for attribute in node.attribute if attribute.name == "reduction"), None)
    if reduction == b"add":
        dims = types[2].dims if len(types) > 2 else None
        count = MAX_SIZE if dims is None else min(prod(map(_dim, dims)), MAX_SIZE)
        return _added(scope.range_of(node.input[0]), _times(scope.range_of(node.input[2]), count))
    if reduction == b"mul":
        return UNBOUNDED
    return of(0, 2)(node, scope, types)


@stepping(min)
def absolute_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements added up without their signs."""
    return totals(node, scope, types, magnitudes(node, scope, types))


@stepping(lambda steps: 2 * steps[0])
def square_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The squares of the elements added up."""
    interval = magnitudes(node, scope, types)
    return totals(node, scope, types, Interval(0, None if interval.greatest is None else interval.greatest**2))


@exact
def clipped_below(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Negative numbers become zero."""
    low, high = scope.range_of(node.input[0])
    return Interval(max(low or 0, 0), None if high is None else max(high, 0))


def normalised(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Numbers with a mean of 0 and a variance of 1, times the second input, plus the third.

    Of n such numbers, none is larger than the square root of n.
    """
    factor = scope.range_of(node.input[1])
    shift = scope.range_of(node.input[2]) if len(node.input) > 2 and node.input[2] else Interval(0, 0)
    if None in factor:
        return UNBOUNDED
    size = (isqrt(MAX_SIZE) + 1) * max(abs(number or 0) for number in factor)
    return _added(Interval(-size, size), shift)


def dequantized_numbers(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The distances from the zero point times the scale."""
    low, high = scope.range_of(node.input[0])
    zero = scope.range_of(node.input[2]) if len(node.input) > 2 and node.input[2] else Interval(0, 0)
    if low is None or high is None or zero.least is None or zero.greatest is None:
        return UNBOUNDED
    return corners(lambda a, b: a * b, Interval(low - zero.greatest, high - zero.least), scope.range_of(node.input[1]))
