"""Activations: functions of one element that networks have between their layers."""

from __future__ import annotations

from formats.ir.attributes import get_float
from formats.ir.dtypes import FLOAT
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.operators import ranges
from formats.rten.operators.rules import WITHOUT_CONSUMED, broadcast, broadcast_dims, dropped, of_floats, same
from formats.rten.spec import Deviation, Field, OnnxLoader, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because, unknown
from formats.rten.target import RTEN_0_27, Fault
from formats.rten.types import FLOATS
from formats.tensordata.plan import RANGE, SPECIAL


@because("RTen's Relu is only for floats, and returns zero for NaN")
def relu(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    if not context.is_integer(data) and not context.exact:
        return None
    return context.replace(context.op("Max", data, context.scalar(0, like=data)))


_NAN_BECOMES_ZERO = Deviation("RTen returns zero for NaN", SPECIAL)
Relu = OperatorSpec(
    "Relu",
    Outputs(same, range=ranges.clipped_below, passes_on=True),
    ToRten(Row(1), older=WITHOUT_CONSUMED, rewritings=(relu,), is_plain=True, deviations=of_floats(_NAN_BECOMES_ZERO)),
    ToOnnx("N", "N"),
)
LeakyRelu = OperatorSpec(
    "LeakyRelu",
    Outputs(same, range=ranges.leaking),
    ToRten(Row(1, 1, "LeakyReluAttrs", (Field("alpha", float, 0.01),)), older=WITHOUT_CONSUMED, is_plain=True),
)


@because("Before operator set 7, a vector of slopes had one entry for each channel")
def prelu_slope(node: Node, context: Context) -> list[Node] | None:
    if context.version >= 7:
        return None
    data, slope = context.input(0), context.input(1)
    if context.rank(slope) == 1 and context.dims(slope) != (1,):
        trailing = range(1, context.known_rank(data) - 1)  # the axes behind the channels
        if trailing:
            slope = context.op("Unsqueeze", slope, context.int64(trailing))
            return context.changed([data, slope], without=("consumed_inputs",))
    return dropped("consumed_inputs")(node, context)


@because("RTen's PRelu is only for floats, and for slopes with no more elements than the data")
def prelu(node: Node, context: Context) -> list[Node] | None:
    data, slope = context.input(0), context.input(1)
    dims = [context.dims(name) for name in (data, slope)]
    is_spread = dims[0] is not None and dims[1] is not None and broadcast_dims(*dims) != dims[0]
    if not context.is_integer(data) and not is_spread:
        return None
    negative = context.op("Less", data, context.scalar(0, like=data))
    return context.replace(context.op("Where", negative, context.op("Mul", data, slope), data))


PRelu = OperatorSpec(
    "PRelu", Outputs(broadcast), ToRten(Row(2), older=(prelu_slope,), rewritings=(prelu,)), ToOnnx("N", "N")
)


def thresholded_relu(node: Node, context: Context) -> list[Node] | None:
    """Write it as x where it is above the threshold, and zero elsewhere."""
    data = context.input(0)
    above = context.op("Greater", data, context.scalar(get_float(node, "alpha", 1.0), like=data))
    return context.replace(context.op("Where", above, data, context.scalar(0, like=data)))


ThresholdedRelu = OperatorSpec("ThresholdedRelu", Outputs(same), ToRten(rewritings=(thresholded_relu,)))
Elu = OperatorSpec(
    "Elu",
    Outputs(same),
    ToRten(Row(1, 1, "EluAttrs", (Field("alpha", float, 1.0),)), older=WITHOUT_CONSUMED, is_plain=True),
)


def celu(node: Node, context: Context) -> list[Node] | None:
    """Write it as max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    op = context.op
    data = context.input(0)
    alpha, zero = context.scalar(get_float(node, "alpha", 1.0), like=data), context.scalar(0, like=data)
    grown = op("Sub", op("Exp", op("Div", data, alpha)), context.scalar(1, like=data))
    below = op("Min", op("Mul", alpha, grown), zero)
    return context.replace(op("Add", op("Max", data, zero), below))


Celu = OperatorSpec("Celu", Outputs(same), ToRten(rewritings=(celu,)))


def selu(node: Node, context: Context) -> list[Node] | None:
    """Write it as a scaled Elu; operator set 1 had defaults with fewer digits."""
    alpha, gamma = (1.6732, 1.0507) if context.version < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    elu = context.op("Elu", context.input(0), alpha=get_float(node, "alpha", alpha))
    return context.replace(context.op("Mul", elu, context.scalar(get_float(node, "gamma", gamma), like=elu)))


Selu = OperatorSpec("Selu", Outputs(same), ToRten(older=WITHOUT_CONSUMED, rewritings=(selu,)))
Sigmoid = OperatorSpec(
    "Sigmoid", Outputs(same, range=ranges.between(0, 1)), ToRten(Row(1), older=WITHOUT_CONSUMED, is_plain=True)
)
HardSigmoid = OperatorSpec(
    "HardSigmoid",
    Outputs(same, range=ranges.between(0, 1)),
    ToRten(
        Row(1, 1, "HardSigmoidAttrs", (Field("alpha", float, 0.2), Field("beta", float, 0.5))),
        older=WITHOUT_CONSUMED,
        is_plain=True,
    ),
)
HardSwish = OperatorSpec(
    "HardSwish",
    Outputs(same, range=ranges.gated(-1)),
    ToRten(Row(1), is_plain=True),
    onnx_loader=OnnxLoader(version=14),
)


_MAX_CURVED = 64  # beyond, Softplus(x) is x in 24 bits
_OVERFLOW = Fault("returns infinity for numbers above 88")
_OVERFLOW_DEVIATION = Deviation(_OVERFLOW.sentence, RANGE)


def _is_curved(context: Context, data: str) -> bool:
    """Whether no number is so large that Softplus overflows."""
    greatest = context.scope.range_of(data).greatest
    return greatest is not None and greatest <= _MAX_CURVED


@because("RTen's Softplus overflows, so large numbers are returned unchanged")
def softplus(node: Node, context: Context) -> list[Node] | None:
    # The sum is exact to 1e-7 near zero. The result is exact to seven digits as max(x, 0) + ln(1 + t) with
    # t = exp(-|x|), where ln(1 + t) is 2 artanh(t / (2 + t)).
    op = context.op
    data = context.input(0)
    if _is_curved(context, data):
        return None
    if not context.exact:
        bounded = op("Min", data, context.scalar(_MAX_CURVED, like=data))
        curved = op("Softplus", bounded)
        return context.replace(op("Max", data, curved))
    two = context.scalar(2, like=data)
    small = op("Exp", op("Neg", op("Abs", data)))
    ratio = op("Div", small, op("Add", small, two))  # t / (2 + t)
    curved = op("Mul", op("Atanh", ratio), two)
    return context.replace(op("Add", op("Max", data, context.scalar(0, like=data)), curved))


Softplus = OperatorSpec(
    "Softplus",
    Outputs(same),
    ToRten(Row(1), rewritings=(softplus,), faults=(_OVERFLOW,)),
    ToOnnx(deviations=lambda node, context: () if _is_curved(context, node.input[0]) else (_OVERFLOW_DEVIATION,)),
)


def softsign(node: Node, context: Context) -> list[Node] | None:
    """Write it as x / (1 + abs(x))."""
    if context.has("Softsign"):
        return None
    data = context.input(0)
    divisor = context.op("Add", context.op("Abs", data), context.scalar(1, like=data))
    return context.replace(context.op("Div", data, divisor))


Softsign = OperatorSpec(
    "Softsign", Outputs(same), ToRten(rewritings=(softsign,)), onnx_loader=OnnxLoader(Row(1, since=RTEN_0_27))
)


def mish(node: Node, context: Context) -> list[Node] | None:
    """Write it as x * tanh(softplus(x))."""
    data = context.input(0)
    return context.replace(context.op("Mul", data, context.op("Tanh", context.op("Softplus", data))))


Mish = OperatorSpec("Mish", Outputs(same), ToRten(rewritings=(mish,)))


def shrink(node: Node, context: Context) -> list[Node] | None:
    """Write it as x - bias above lambd, x + bias below -lambd, and zero between."""
    op = context.op
    data, band, shift = context.input(0), get_float(node, "lambd", 0.5), get_float(node, "bias")
    elem_type = context.elem_type(data)
    if elem_type is not None and elem_type not in FLOATS and not (band.is_integer() and shift.is_integer()):
        shrunk = context.copy([context.cast(data, FLOAT)])
        return context.replace(context.cast(shrunk, elem_type))
    bias = context.scalar(shift, like=data)
    below = op("Less", data, context.scalar(-band, like=data))
    above = op("Greater", data, context.scalar(band, like=data))
    high = op("Where", above, op("Sub", data, bias), context.scalar(0, like=data))
    return context.replace(op("Where", below, op("Add", data, bias), high))


Shrink = OperatorSpec("Shrink", Outputs(same), ToRten(rewritings=(shrink,)))
Gelu = OperatorSpec(
    "Gelu",
    Outputs(same, range=ranges.gated(-1)),
    ToRten(
        Row(1, 1, "GeluAttrs", (Field("approximate", str, "none", choices={"none": "None", "tanh": "Tanh"}),)),
        is_plain=True,
    ),
    onnx_loader=OnnxLoader(version=20),
)


def times_sigmoid(context: Context, data: str, alpha: float) -> str:
    """The product x * sigmoid(alpha * x), in the form that RTen fuses."""
    scaled = data if alpha == 1 else context.op("Mul", data, context.scalar(alpha, like=data))
    return context.op("Mul", data, context.op("Sigmoid", scaled))


def swish(node: Node, context: Context) -> list[Node] | None:
    """Write it as x * sigmoid(alpha * x)."""
    if context.has("Swish"):
        return None
    return context.replace(times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.0)))


Swish = OperatorSpec(
    "Swish",
    Outputs(same),
    ToRten(rewritings=(swish,)),
    onnx_loader=OnnxLoader(Row(1, fields=(Field("alpha", float, 1.0),)), version=24),
)


def swiglu(node: Node, context: Context) -> list[Node] | None:
    """Write it as Swish of the first input, times the second."""
    gate = times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.0))
    return context.replace(context.op("Mul", gate, context.input(1)))


SwiGLU = OperatorSpec("SwiGLU", Outputs(elements=unknown), ToRten(rewritings=(swiglu,)))
