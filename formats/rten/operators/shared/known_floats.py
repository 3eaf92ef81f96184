"""Floats that RTen's optimiser knows before the model runs: whole numbers, which it treats as integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.operators.shared.deviations import Deviation
from formats.rten.target import Fault
from formats.rten.types import INT32_LIMITS
from formats.tensordata.plan import RESULTS

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

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
