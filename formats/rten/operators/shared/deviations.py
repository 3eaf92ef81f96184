"""Rules for reports on an operator: how RTen's results differ, as text after the operator's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir.dtypes import BOOL
from formats.rten.types import BYTES, INTS
from formats.tensordata.plan import SPECIAL

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.shared.spec import Deviation
    from formats.tensordata.plan import Seen


class Told(NamedTuple):
    """A sentence of a report, and when one can see what it says. Each is a constant of its operator's module.

    A sentence has one class: what differs for ordinary numbers and what differs for NaN are two sentences.
    """

    detail: str
    seen: Seen
    is_of_nothing: bool = False  # it is about tensors without elements, and not about NaN


_NOT_FLOATS: Final = INTS | BYTES | {BOOL}


def of_floats(told: Told) -> Deviation:
    """The report if the first input may have floats."""

    def rule(node: Node, context: Context) -> tuple[Told, ...]:
        return () if context.elem_type(node.input[0]) in _NOT_FLOATS else (told,)

    return rule


SPREAD: Final = Told("it becomes products with zeros, which spread NaN and infinities", SPECIAL)
ANY_NAN: Final = Told("if there are NaNs, RTen and onnxruntime may choose different numbers", SPECIAL)
NAN_ORDER: Final = of_floats(ANY_NAN)
