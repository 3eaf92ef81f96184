"""Rules that say how RTen's results differ from ONNX's for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir.dtypes import BOOL
from formats.rten.types import BYTES, INTS
from formats.tensordata.plan import SPECIAL

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.shared.spec import DeviationRule
    from formats.tensordata.plan import Seen


class Deviation(NamedTuple):
    """How RTen's results differ, as a report says it after the operator's name, and when one can see it.

    Each is a constant of its operator's module. What differs for ordinary numbers and what differs for NaN are two.
    """

    detail: str
    seen: Seen
    is_of_nothing: bool = False  # it is about tensors without elements, and not about NaN


_NOT_FLOATS: Final = INTS | BYTES | {BOOL}


def of_floats(deviation: Deviation) -> DeviationRule:
    """The rule that reports a deviation if the first input may have floats."""

    def rule(node: Node, context: Context) -> tuple[Deviation, ...]:
        return () if context.elem_type(node.input[0]) in _NOT_FLOATS else (deviation,)

    return rule


SPREAD: Final = Deviation("it becomes products with zeros, which spread NaN and infinities", SPECIAL)
ANY_NAN: Final = Deviation("if there are NaNs, RTen and onnxruntime may choose different numbers", SPECIAL)
NAN_ORDER: Final = of_floats(ANY_NAN)
