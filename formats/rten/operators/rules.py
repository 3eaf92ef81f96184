"""What operators of several families share: rules for dims, element types, contents and deviations, and rewritings.

A rule for dims returns the dims of the outputs in order. If an entry is missing at the end, or is `None`, it is
unknown. A dimension is a size, a name that means one size in the whole model, or `None`.

A rule for contents returns the elements of a small integer tensor, so that computed shapes are known. A scalar or
vector is known as the tuple of its elements: numbers, names of dimensions, or `None`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final, TypeVar

from formats.ir.attributes import attribute_named, get_int, get_ints
from formats.ir.dtypes import BOOL, INT32, INT64
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.spec import Deviation, because
from formats.rten.types import BYTES, INTS
from formats.tensordata.plan import SPECIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.spec import DeviationRule, Rewriting, Rule
    from formats.rten.target import Fault

T = TypeVar("T")

MAX_CONTENTS = 64  # longer vectors are data, not shapes
INDEX_TYPES = (INT32, INT64)


def every_node(node: Node) -> bool:
    """True, for an operator all of whose nodes do it."""
    return True


def same_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """The contents of the first input."""
    return scope.contents_of(node.input[0])


def stretch(elements: Dims, length: int) -> Dims:
    """One element, repeated for each of the others."""
    return elements * length if len(elements) == 1 else elements


def paired(first: Dims, second: Dims) -> Iterator[tuple[Dim, Dim]]:
    """The elements of two vectors in pairs."""
    length = max(len(first), len(second))
    return zip(stretch(first, length), stretch(second, length), strict=True)


def pairwise(node: Node, scope: Scope, function: Callable[[int, int], int], neutral: int | None = None) -> Dims | None:
    """A function of two numbers, element by element; a name is kept if the second number is `neutral`."""
    first, second = scope.contents_of(node.input[0]), scope.contents_of(node.input[1])
    if first is None or second is None:
        return None
    result: list[Dim] = []
    for a, b in paired(first, second):
        if isinstance(a, int) and isinstance(b, int):
            result.append(function(a, b))
        else:
            result.append(a if b == neutral and neutral is not None else None)
    return tuple(result)


def arithmetic(function: Callable[[int, int], int], neutral: int | None = None) -> Rule[Dims | None]:
    """The rule for a function of two numbers; a name is kept if the second number is `neutral`."""
    return lambda node, scope, types: pairwise(node, scope, function, neutral)


MAX_RANK = 64  # a tensor with more axes is impossible
MAX_SIZE = 1 << 63  # no tensor has so many elements


def scalar(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """No dims at all."""
    return [()]


def same(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The first output has the dims of the first input."""
    return [types[0].dims]


def same_all(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Every output has the dims of the first input."""
    return [types[0].dims] * len(node.output)


def like_second(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the second input."""
    return [types[1].dims]


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    if isinstance(a, int):
        return a
    return b if isinstance(b, int) else None


def broadcast_dims(first: Dims | None, second: Dims | None) -> Dims | None:
    """The dims of two values broadcast together."""
    if first == second:
        return first
    if first is None or second is None:
        return None
    if len(first) < len(second):
        first, second = second, first
    lead = len(first) - len(second)  # axes that only the first has
    return first[:lead] + tuple(map(_broadcast_dim, first[lead:], second))


def broadcast(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of all inputs broadcast together."""
    dims = types[0].dims
    for other in types[1:]:
        dims = broadcast_dims(dims, other.dims)
    return [dims]


def unknown_dims(rank: Dim) -> Dims | None:
    """Unknown dims if only their number is known, and is plausible."""
    return (None,) * rank if isinstance(rank, int) and 0 <= rank <= MAX_RANK else None


def normalize(axis: int, rank: int) -> int:
    """The axis counted from the front.

    Raises: IndexError if there is no such axis.
    """
    if not -rank <= axis < rank:
        raise IndexError(axis)
    return axis % rank if rank else 0


def multiply(factors: Sequence[Dim]) -> Dim:
    """The product of dimensions: a size, a name if all other dimensions are 1, or unknown."""
    names = [factor for factor in factors if not isinstance(factor, int)]
    size = prod(factor for factor in factors if isinstance(factor, int))
    if not names or size == 0:
        return size if size < MAX_SIZE else None
    return names[0] if len(names) == 1 and size == 1 else None


def reduced(dims: Dims | None, axes: Sequence[int] | None, keep: int) -> Dims | None:
    """The dims that remain when `axes` are reduced; `None` for unknown axes."""
    if dims is None:
        return None
    if axes is None:
        return (None,) * len(dims) if keep else None
    reduced_axes = {normalize(axis, len(dims)) for axis in axes}
    if keep:
        return tuple(1 if axis in reduced_axes else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in reduced_axes)


def always(elem_type: int) -> Rule[Sequence[int | None]]:
    """One element type, always."""
    return lambda node, scope, types: (elem_type,)


def of_attribute(name: str, default: int | None) -> Rule[Sequence[int | None]]:
    """The element type that an attribute gives; by default a type, or that of the first input for `None`."""
    return lambda node, scope, types: (get_int(node, name) or (types[0].elem_type if default is None else default),)


def of_any_input(node: Node, scope: Scope, types: list[ValueType]) -> Sequence[int | None]:
    """The element type that all inputs share."""
    return (next((entry.elem_type for entry in types if entry.elem_type), None),)


def of_either(first: int, second: int) -> Rule[Sequence[int | None]]:
    """The element type that two inputs share."""
    return lambda node, scope, types: (types[first].elem_type or types[second].elem_type,)


def for_outputs(*rules: Rule[Sequence[T]]) -> Rule[Sequence[T]]:
    """The element types, or the dims, of several outputs, by a rule for each."""
    return lambda node, scope, types: [known_part for one in rules for known_part in one(node, scope, types)]


_NOT_FLOATS: Final = INTS | BYTES | {BOOL}


def of_floats(deviation: Deviation) -> DeviationRule:
    """The rule that reports a deviation if the first input may have floats."""
    return lambda node, context: () if context.elem_type(node.input[0]) in _NOT_FLOATS else (deviation,)


def of_every_node(*deviations: Deviation) -> DeviationRule:
    """The rule that reports deviations of all nodes of an operator."""
    return lambda node, context: deviations


SPREAD: Final = Deviation("it becomes products with zeros, which spread NaN and infinities", SPECIAL)
ANY_NAN: Final = Deviation("if there are NaNs, RTen and onnxruntime may choose different numbers", SPECIAL)
NAN_ORDER: Final = of_floats(ANY_NAN)


def without_gaps(node: Node, context: Context) -> list[Node]:
    """RTen skips inputs that are omitted, ONNX has none."""
    return context.changed([name for name in node.input if name])


def promoted(**places: int) -> Rewriting:
    """A rewriting that turns integer attributes into inputs, at the given places."""

    @because("In newer operator sets, the attribute is an input")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        attributes = {name: place for name, place in places.items() if attribute_named(node, name) is not None}
        if not attributes:
            return None
        inputs = list(node.input)
        for name, place in attributes.items():
            inputs += [""] * (place + 1 - len(inputs))
            inputs[place] = context.int64([get_int(node, name)] if name == "k" else get_ints(node, name) or ())
        return context.changed(inputs, without=attributes)

    return rewriting


def dropped(*names: str) -> Rewriting:
    """A rewriting that removes attributes without effect on inference."""

    @because("The attribute has no effect in inference")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return context.changed(without=names) if any(attribute_named(node, name) for name in names) else None

    return rewriting


WITHOUT_CONSUMED: Final = (dropped("consumed_inputs"),)  # an attribute of operator set 1, which says nothing


@because("Before operator set 7, the attributes broadcast and axis said how to broadcast")
def broadcast_by_attribute(node: Node, context: Context) -> list[Node] | None:
    names = ("axis", "broadcast", "consumed_inputs")
    if context.version >= 7 or not any(attribute_named(node, name) for name in names):
        return None
    first, second = context.input(0), context.input(1)
    if get_int(node, "broadcast") and attribute_named(node, "axis") is not None:
        rank, width = context.known_rank(first), context.known_rank(second)
        axis = get_int(node, "axis")

        trailing = rank - (axis + rank if axis < 0 else axis) - width
        if trailing > 0:
            second = context.op("Unsqueeze", second, range(width, width + trailing))
    return context.changed([first, second], without=names)


def widened(
    inputs: tuple[int, ...],
    outputs: tuple[int, ...] = (0,),
    narrow: Collection[int] = BYTES,
    fault: Fault | None = None,
) -> Rewriting:
    """A rewriting that casts inputs of `narrow` types to 32 bits, and outputs back; without inputs, all are cast.

    If a `fault` is given, the rewriting is only for releases that have it.
    """

    @because("RTen computes short integers in 32 bits, so results must be wrapped")
    def rewriting(node: Node, context: Context) -> list[Node] | None:
        places = [place for place in inputs or range(len(node.input)) if context.optional(place)]
        # The inputs share a type: the first one that is known.
        elem_type = next((number for place in places if (number := context.elem_type(node.input[place]))), None)
        if elem_type is None or elem_type not in narrow or (fault and not context.target.deviates(fault)):
            return None
        names = list(node.input)
        for place in places:
            names[place] = context.cast(names[place], INT32)
        wide = context.changed(names)[-1]  # the node itself, with wide inputs
        wide.output = [context.names.new(f"{name}/wide") if name else "" for name in node.output]
        wide.name = None
        context.emit(wide)
        return context.replace(
            *(
                context.cast(name, elem_type) if name and place in outputs else name
                for place, name in enumerate(wide.output)
            )
        )

    return rewriting
