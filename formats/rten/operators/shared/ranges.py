"""Rules for intervals: the least and greatest number that the elements of a value can have, as far as is certain.

RTen has integers of 32 bits. A rule gives the interval of what ONNX computes. If that interval does not fit in 32 bits,
the scope says so. The interval of a float is that of the integers that it comes from, rounded outward.

The assumptions are in `docs/rten.md`: a dim is from 0 to 2^24, a tensor has fewer than 2^31 elements, and inputs of 64
bits are within plus or minus 2^24.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Final

from formats.rten.convert.value_types import MAX_DIM, Interval
from formats.rten.graph.attributes import get_int
from formats.rten.operators.shared.rules import normalize
from formats.rten.types import FLOATS, INT32_LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, ValueType
    from formats.rten.operators.shared.spec import RangeRule

MAX_SIZE: Final = (1 << 31) - 1
UNBOUNDED: Final = Interval()


def sizes(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Dims, and places along them."""
    return Interval(0, MAX_DIM)


def counts(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Numbers of elements."""
    return Interval(0, MAX_SIZE)


def truths(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """One or zero."""
    return Interval(0, 1)


def signs(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """From minus one to one."""
    return Interval(-1, 1)


def union(*intervals: Interval) -> Interval:
    """The smallest interval that contains all given intervals."""
    leasts = [each.least for each in intervals]
    greatests = [each.greatest for each in intervals]
    return Interval(
        None if None in leasts else min(number for number in leasts if number is not None),
        None if None in greatests else max(number for number in greatests if number is not None),
    )


def of(*places: int) -> RangeRule:
    """The elements are those of some of the inputs."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
        names = [node.input[place] for place in places if place < len(node.input)]
        return union(*(scope.range_of(name) for name in names if name))

    return rule


def of_all(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of all inputs."""
    return union(*(scope.range_of(name) for name in node.input if name))


def with_zero(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of the first input, or zero."""
    return union(scope.range_of(node.input[0]), Interval(0, 0))


def padded(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements are those of the first input, or the padding."""
    value = node.input[2] if len(node.input) > 2 and node.input[2] else ""
    return union(scope.range_of(node.input[0]), scope.range_of(value) if value else Interval(0, 0))


def _corners(function: Callable[[int, int], int], first: Interval, second: Interval) -> Interval:
    """The interval of a function whose extremes are at the corners of two intervals; unbounded if one of these is."""
    if None in first or None in second:
        return UNBOUNDED
    found = [function(a, b) for a, b in product(first, second) if a is not None and b is not None]
    return Interval(min(found), max(found))


def _operands(node: Node, scope: Scope) -> tuple[Interval, Interval]:
    return scope.range_of(node.input[0]), scope.range_of(node.input[1])


def _added(first: Interval, second: Interval) -> Interval:
    (a, b), (c, d) = first, second
    return Interval(None if a is None or c is None else a + c, None if b is None or d is None else b + d)


def sums(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The inputs added up."""
    total = Interval(0, 0)
    for name in node.input:
        total = _added(total, scope.range_of(name))
    return total


def differences(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The first input minus the second."""
    first, (least, greatest) = _operands(node, scope)
    return _added(first, Interval(None if greatest is None else -greatest, None if least is None else -least))


def products(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The product of two inputs."""
    first, second = _operands(node, scope)
    if node.input[0] == node.input[1] and None not in first:
        return Interval(0, max((number or 0) ** 2 for number in first))
    if (first.least or -1) >= 0 and (second.least or -1) >= 0 and None in (first.greatest, second.greatest):
        return Interval(0, None)
    return _corners(lambda a, b: a * b, first, second)


def quotients(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The first input divided by the second; unbounded if the second may be a fraction."""
    first, second = _operands(node, scope)
    if types[0].elem_type in FLOATS:
        if None in second or (second.least or 0) < 1:  # a rounded number below one may be zero
            return UNBOUNDED
    elif None in second or (second.least or 0) <= 0 <= (second.greatest or 0):
        magnitude = None if None in first else max(abs(number or 0) for number in first)  # no divisor is below one
        return UNBOUNDED if magnitude is None else Interval(-magnitude, magnitude)
    found = _corners(lambda a, b: a // b, first, second), _corners(lambda a, b: -(-a // b), first, second)
    return union(*found)


def remainders(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Smaller than the divisor, with its sign or that of the dividend."""
    first, second = _operands(node, scope)
    if scope.constant(node.input[0]) is not None and not Interval(*INT32_LIMITS).holds(first):
        return first  # RTen has another dividend
    if None in second:
        return UNBOUNDED if None in first else union(first, Interval(0, 0))
    size = max(0, max(abs(number or 0) for number in second) - (types[0].elem_type not in FLOATS))
    natural = (first.least or -1) >= 0 if get_int(node, "fmod") else (second.least or -1) >= 0
    return Interval(0 if natural or (first.least or -1) >= 0 <= (second.least or -1) else -size, size)


def negated(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The negated numbers."""
    least, greatest = scope.range_of(node.input[0])
    return Interval(None if greatest is None else -greatest, None if least is None else -least)


def magnitudes(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The absolute value. The least integer of 32 bits, the only one without an opposite, counts as if it had one."""
    held = scope.range_of(node.input[0])
    least = 0 if held.least is None or held.least < 0 else held.least
    if held.least == -MAX_SIZE - 1:
        held = Interval(-MAX_SIZE, held.greatest)
    return Interval(least, None if None in held else max(abs(number or 0) for number in held))


def powers(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """A power with a known exponent that is a small natural number."""
    base, exponent = _operands(node, scope)
    if None in base or None in exponent or (exponent.least or 0) < 0 or (exponent.greatest or 0) > 64:
        return UNBOUNDED
    greatest = max(abs(number or 0) for number in base) ** (exponent.greatest or 0)
    return Interval(0 if (base.least or -1) >= 0 else -greatest, max(greatest, 1))


def largest(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The largest of the inputs."""
    held = [scope.range_of(name) for name in node.input if name]
    leasts = [each.least for each in held if each.least is not None]
    return Interval(max(leasts, default=None), union(*held).greatest)


def least(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The least of the inputs."""
    held = [scope.range_of(name) for name in node.input if name]
    greatests = [each.greatest for each in held if each.greatest is not None]
    return Interval(union(*held).least, min(greatests, default=None))


def clipped(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Within the bounds, if these are known."""
    low, high = scope.range_of(node.input[0])
    bounds = [node.input[place] if place < len(node.input) else "" for place in (1, 2)]
    if bounds[0] and (bottom := scope.range_of(bounds[0]).least) is not None:
        low, high = (bottom if low is None else max(low, bottom)), (None if high is None else max(high, bottom))
    if bounds[1] and (top := scope.range_of(bounds[1]).greatest) is not None:
        low, high = (None if low is None else min(low, top)), (top if high is None else min(high, top))
    return Interval(low, high)


def _dim(dim: Dim) -> int:
    return dim if isinstance(dim, int) else MAX_DIM


def _times(held: Interval, count: int) -> Interval:
    low, high = held
    return Interval(None if low is None else min(low * count, low, 0), None if high is None else max(high * count, 0))


def totals(node: Node, scope: Scope, types: list[ValueType], held: Interval | None = None) -> Interval:
    """The elements added up. Their number is the product of the lengths of the reduced axes."""
    dims = types[0].dims
    axes = scope.ints(node.input[1]) if len(node.input) > 1 and node.input[1] else ()
    if dims is None or axes is None:
        count = MAX_SIZE
    elif axes:
        count = prod(_dim(dims[normalize(axis, len(dims))]) for axis in axes)
    else:
        count = prod(map(_dim, dims))
    return _times(scope.range_of(node.input[0]) if held is None else held, min(count, MAX_SIZE))


def running_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements added up along one axis."""
    dims, axis = types[0].dims, scope.ints(node.input[1])
    count = MAX_DIM if dims is None or not axis else _dim(dims[normalize(axis[0], len(dims))])
    return _times(scope.range_of(node.input[0]), count)


def elements_multiplied(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements multiplied, if their number is known."""
    dims, held = types[0].dims, scope.range_of(node.input[0])
    if dims is None or None in held or not all(isinstance(dim, int) for dim in dims) or prod(map(_dim, dims)) > 64:
        return UNBOUNDED if (held.least or -1) < 0 else Interval(0, None)
    size = max(1, *(abs(number or 0) for number in held)) ** prod(map(_dim, dims))
    return Interval(0 if (held.least or -1) >= 0 else -size, size)


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
    if reduction in (b"add", b"mul"):
        return UNBOUNDED
    return of(0, 2)(node, scope, types)


def numbers_between(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """From the start to the limit, in either direction."""
    return of(0, 1)(node, scope, types)


def absolute_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The elements added up without their signs."""
    return totals(node, scope, types, magnitudes(node, scope, types))


def square_totals(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """The squares of the elements added up."""
    held = magnitudes(node, scope, types)
    return totals(node, scope, types, Interval(0, None if held.greatest is None else held.greatest**2))


def clipped_below(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Negative numbers become zero."""
    low, high = scope.range_of(node.input[0])
    return Interval(max(low or 0, 0), None if high is None else max(high, 0))
