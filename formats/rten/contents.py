"""The values of small integer tensors that follow from dims and constants, so that shape computations can be read.

A scalar or vector is known as the tuple of its elements: numbers, names of dimensions, or `None`. Each function takes
a node, the scope and the types of its inputs, and gives the contents of its first output or `None`. Like the rules
for dims, it may raise LookupError, TypeError, ValueError or ArithmeticError.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from formats.rten.graph.attributes import find, get_int

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dim, Dims, ValueType

    ContentsRule = Callable[[Node, Scope, list[ValueType]], Dims | None]

MAX_ELEMENTS = 64  # longer vectors are data, not shapes
INTEGERS = (6, 7)  # INT32, INT64


def same(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """What the first input holds."""
    return scope.contents_of(node.input[0])


def cast(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """What the input holds, from one integer type to another."""
    return same(node, scope, types) if get_int(node, "to") in INTEGERS else None


def shape(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The dims of the input."""
    dims = types[0].dims
    return None if dims is None else dims[get_int(node, "start") : get_int(node, "end", len(dims))]


def size(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The product of the dims."""
    from formats.rten.dims import multiply

    dims = types[0].dims
    return None if dims is None else (multiply(dims),)


def concat(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The inputs, one after the other; unknown elements where an input's length is all that is known of it."""
    result: list[Dim] = []
    for name, entry in zip(node.input, types, strict=True):
        if entry.dims is None or len(entry.dims) != 1:
            return None
        length, held = entry.dims[0], scope.contents_of(name)
        if held is None and not isinstance(length, int):
            return None
        if len(result) + (length if isinstance(length, int) else len(held or ())) > MAX_ELEMENTS:
            return None
        result += (None,) * length if held is None and isinstance(length, int) else held or ()
    return tuple(result)


def gather(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The elements at the indices."""
    data, indices = scope.contents_of(node.input[0]), scope.ints(node.input[1])
    if data is None or indices is None or types[0].dims is None or len(types[0].dims) != 1:
        return None
    return tuple(data[index] for index in indices)


def slice_(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The elements of a range."""
    data = scope.contents_of(node.input[0])
    bounds = [scope.ints(name) if name else () for name in node.input[1:]]
    if data is None or None in bounds:
        return None
    start, end = (bound[0] for bound in bounds[:2] if bound)
    step = bounds[3][0] if len(bounds) > 3 and bounds[3] else 1
    return data[start:end:step]


def where(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """One of two, element by element."""
    condition, first, second = (scope.contents_of(name) for name in node.input)
    if condition is None or first is None or second is None:
        return None
    length = max(len(condition), len(first), len(second))
    rows = zip(*(_stretch(held, length) for held in (condition, first, second)), strict=True)
    return tuple(None if test is None else (a if test else b) for test, a, b in rows)


def equal(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """1 or 0 for each pair of numbers; a name is a size, so it may equal another, but no negative number."""
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    return tuple(_equal(a, b) for a, b in _pairs(first, second))


def _equal(a: Dim, b: Dim) -> int | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    number = a if isinstance(a, int) else b
    named = isinstance(a, str) or isinstance(b, str)
    return 0 if named and isinstance(number, int) and number < 0 else None


def modulo(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """Remainders with the sign of the divisor."""
    return None if get_int(node, "fmod") else _pairwise(node, scope, operator.mod)


def constant_of_shape(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The one integer value, repeated."""
    lengths, attribute = scope.ints(node.input[0]), find(node, "value")
    if lengths is None or len(lengths) > 1 or attribute is None or attribute.t is None:
        return None
    length = lengths[0] if lengths else 1
    if attribute.t.data_type not in INTEGERS or length > MAX_ELEMENTS:
        return None
    return (int(attribute.t.numpy().reshape(())),) * length


def arange(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The numbers of a range."""
    start, limit, delta = (scope.ints(name) for name in node.input)
    if start is None or limit is None or delta is None:
        return None
    numbers = range(start[0], limit[0], delta[0])
    return tuple(numbers) if len(numbers) <= MAX_ELEMENTS else None


def product(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """All elements multiplied, for a vector reduced as a whole."""
    from formats.rten.dims import multiply

    held = same(node, scope, types)
    if held is None or types[0].dims is None or len(types[0].dims) != 1:
        return None
    return (multiply(held),)


def multiply(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """Products; times one keeps a name."""
    from formats.rten.dims import multiply as times

    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    return tuple(times(pair) for pair in _pairs(first, second))


def _arithmetic(function: Callable[[int, int], int], neutral: int | None = None) -> ContentsRule:
    """The rule for a function of two numbers; a name is kept where the second number is `neutral`."""

    def rule(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
        return _pairwise(node, scope, function, neutral)

    return rule


def _pairwise(node: Node, scope: Scope, function: Callable[[int, int], int], neutral: int | None = None) -> Dims | None:
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    result: list[Dim] = []
    for a, b in _pairs(first, second):
        if isinstance(a, int) and isinstance(b, int):
            result.append(function(a, b))
        else:
            result.append(a if b == neutral and neutral is not None else None)
    return tuple(result)


def _pairs(first: Dims, second: Dims) -> Iterator[tuple[Dim, Dim]]:
    length = max(len(first), len(second))
    return zip(_stretch(first, length), _stretch(second, length), strict=True)


def _stretch(held: Dims, length: int) -> Dims:
    return held * length if len(held) == 1 else held


def _divide(a: int, b: int) -> int:
    """The quotient towards zero, as both ONNX and RTen divide integers."""
    return a // b if (a < 0) == (b < 0) else -(-a // b)


RULES: Mapping[str, ContentsRule] = {
    "Identity": same,
    "Squeeze": same,
    "Unsqueeze": same,
    "Reshape": same,
    "Cast": cast,
    "Shape": shape,
    "Size": size,
    "Concat": concat,
    "Gather": gather,
    "Slice": slice_,
    "Where": where,
    "Equal": equal,
    "ConstantOfShape": constant_of_shape,
    "Range": arange,
    "ReduceProd": product,
    "Mul": multiply,
    "Add": _arithmetic(operator.add, 0),
    "Sub": _arithmetic(operator.sub, 0),
    "Div": _arithmetic(_divide, 1),
    "Mod": modulo,
    "Max": _arithmetic(max),
    "Min": _arithmetic(min),
}
