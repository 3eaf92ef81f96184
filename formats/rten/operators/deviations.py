"""Rules for reports on an operator: how RTen's results differ, as text after the operator's name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import BOOL
from formats.rten.types import BYTES, INTS

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.spec import Deviation

_NOT_FLOATS: Final = INTS | BYTES | {BOOL}


def of_floats(sentence: str) -> Deviation:
    """The report if the first input may have floats."""

    def rule(node: Node, context: Context) -> str:
        return "" if context.elem_type(node.input[0]) in _NOT_FLOATS else sentence

    return rule


SPREAD: Final = "it becomes products with zeros, which spread NaN and infinities"
NAN_ORDER: Final = of_floats("if there are NaNs, RTen and onnxruntime may choose different numbers")
