"""Signals: Fourier transforms and windows."""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import FLOAT
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_int, with_input
from formats.rten.operators.shared.rules import of_attribute, of_floats
from formats.rten.operators.shared.spec import (
    Deviation,
    Field,
    FieldKind,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    Signature,
    ToOnnx,
    ToRten,
    because,
    unknown,
)
from formats.tensordata.plan import SPECIAL

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.operators.shared.spec import Rewriting


@because("Before operator set 20, the axis was an attribute, 1 by default")
def dft_axis(node: Node, context: Context) -> list[Node] | None:
    if context.version >= 20:
        return None
    axis = context.int64_scalar(get_int(node, "axis", 1))
    return context.changed(with_input(node, 2, axis), without=("axis",))


_NAN_ELSEWHERE: Final = Deviation(
    "with NaN or infinities, RTen and onnxruntime may return NaN for different elements", SPECIAL
)
_NOT_FINITE: Final = of_floats(_NAN_ELSEWHERE)

DFT = OperatorSpec(
    "DFT",
    to_rten=ToRten(
        Row(3, 1, "DFTAttrs", (Field("inverse", FieldKind.BOOL, 0), Field("onesided", FieldKind.BOOL, 0))),
        older=(dft_axis,),
        unspecified=_NOT_FINITE,
    ),
    to_onnx=ToOnnx(Signature("xil"), ranks={1: 0, 2: 0}),
    onnx_loader=OnnxLoader(inputs={"axis": 2}, version=20),
)
STFT = OperatorSpec(
    "STFT",
    to_rten=ToRten(Row(4, 1, "STFTAttrs", (Field("onesided", FieldKind.BOOL, 1),)), unspecified=_NOT_FINITE),
    to_onnx=ToOnnx(Signature("xIxI"), ranks={1: 0, 3: 0}),
    onnx_loader=OnnxLoader(version=17),
)


def cosine_window(*weights: float) -> Rewriting:
    """A rewriting to a sum of cosines: of no, one, two ... periods over the window, with alternating signs."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        op = context.op
        size = context.input(0)
        elem_type = get_int(node, "output_datatype", FLOAT)
        steps = op("Range", context.scalar(0, like=size), size, context.scalar(1, like=size))
        period = size if get_int(node, "periodic", 1) else op("Sub", size, context.scalar(1, like=size))
        phase = op("Div", context.cast(steps, FLOAT), context.cast(period, FLOAT))
        total = context.scalar(weights[0])
        for number, weight in enumerate(weights[1:], start=1):
            angle = op("Mul", phase, context.scalar(2 * pi * number))
            term = op("Mul", op("Cos", angle), context.scalar(weight))
            total = op("Sub" if number % 2 else "Add", total, term)
        return context.replace(context.cast(total, elem_type))

    return rewriting


BlackmanWindow = OperatorSpec(
    "BlackmanWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(0.42, 0.5, 0.08),))
)
HammingWindow = OperatorSpec(
    "HammingWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(25 / 46, 21 / 46),))
)
HannWindow = OperatorSpec("HannWindow", Outputs(elements=unknown), ToRten(rewritings=(cosine_window(0.5, 0.5),)))


def mel_weight_matrix(node: Node, context: Context) -> list[Node] | None:
    """Write it as a constant, if all of its inputs are known.

    Spec: ONNX, Operators.md, MelWeightMatrix.
    """
    import numpy

    bins, length, rate = (context.static_ints(context.input(place))[0] for place in range(3))
    edges = [context.scope.array(context.input(place)) for place in (3, 4)]
    if edges[0] is None or edges[1] is None:
        raise Refused("has edges that are known only when the model runs", "make them constant")
    context.check_size(bins, length)
    low, high = (2595 * numpy.log10(1 + edge.reshape(-1)[0].astype(float) / 700) for edge in edges if edge is not None)
    mels = budget.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    points = (((length + 1) * (700 * (10 ** (mels / 2595) - 1))) // rate).astype(int)
    left, centre, right = points[:-2], points[1:-1], points[2:]
    place = budget.arange(length // 2 + 1)[:, None]
    if bins < 1 or length < 1 or (points < 0).any() or (points > length // 2).any():
        raise Refused("has triangles outside the range of frequencies")
    with numpy.errstate(divide="ignore", invalid="ignore"):
        rising, falling = (place - left) / (centre - left), (right - place) / (right - centre)
    matrix = numpy.where((left <= place) & (place <= centre), rising, 0.0)
    matrix = numpy.where((left == centre) & (place == centre), 1.0, matrix)
    matrix = numpy.where((centre <= place) & (place < right), falling, matrix)
    elem_type = get_int(node, "output_datatype", FLOAT)
    return context.replace(context.op("Identity", context.array(matrix, elem_type)))


MelWeightMatrix = OperatorSpec(
    "MelWeightMatrix", Outputs(elements=of_attribute("output_datatype", FLOAT)), ToRten(rewritings=(mel_weight_matrix,))
)
