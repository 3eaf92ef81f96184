"""Signals: Fourier transforms and windows."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT
from formats.rten.graph.attributes import get_int, with_input
from formats.rten.operators import creation, elementwise
from formats.rten.operators.rules import unknown
from formats.rten.operators.spec import Field, FieldKind, OnnxForm, OperatorSpec, Row, Signature

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.spec import Rewriting


def dft_axis(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 20, the axis was an attribute, 1 unless given."""
    if context.version >= 20:
        return None
    axis = context.int64_scalar(get_int(node, "axis", 1))
    return context.changed(with_input(node, 2, axis), without=("axis",))


DFT = OperatorSpec(
    "DFT",
    Row(3, 1, "DFTAttrs", (Field("inverse", FieldKind.BOOL, 0), Field("onesided", FieldKind.BOOL, 0))),
    signature=Signature("xil"),
    ranks={1: 0, 2: 0},
    dims=unknown,
    older=(dft_axis,),
    onnx=OnnxForm(inputs={"axis": 2}, version=20),
)
STFT = OperatorSpec(
    "STFT",
    Row(4, 1, "STFTAttrs", (Field("onesided", FieldKind.BOOL, 1),)),
    signature=Signature("xIxI"),
    ranks={1: 0, 3: 0},
    dims=unknown,
    onnx=OnnxForm(version=17),
)


def cosine_window(*weights: float) -> Rewriting:
    """A rewriting to a sum of cosines: of no, one, two ... periods over the window, with alternating signs."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        size = context.input(0)
        elem_type = get_int(node, "output_datatype", FLOAT)
        steps = context.op(creation.Range, context.scalar(0, like=size), size, context.scalar(1, like=size))
        period = (
            size if get_int(node, "periodic", 1) else context.op(elementwise.Sub, size, context.scalar(1, like=size))
        )
        phase = context.op(elementwise.Div, context.cast(steps, FLOAT), context.cast(period, FLOAT))
        total = context.scalar(weights[0])
        for number, weight in enumerate(weights[1:], start=1):
            angle = context.op(elementwise.Mul, phase, context.scalar(2 * pi * number))
            term = context.op(elementwise.Mul, context.op(elementwise.Cos, angle), context.scalar(weight))
            total = context.op(elementwise.Sub if number % 2 else elementwise.Add, total, term)
        return context.replace(context.cast(total, elem_type))

    return rewriting


BlackmanWindow = OperatorSpec("BlackmanWindow", dims=unknown, elements=(), rewritings=(cosine_window(0.42, 0.5, 0.08),))
HammingWindow = OperatorSpec("HammingWindow", dims=unknown, elements=(), rewritings=(cosine_window(25 / 46, 21 / 46),))
HannWindow = OperatorSpec("HannWindow", dims=unknown, elements=(), rewritings=(cosine_window(0.5, 0.5),))
