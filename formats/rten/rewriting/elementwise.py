"""Functions of one element, and of two that are broadcast."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.context import BYTES, Refused
from formats.rten.convert.value_types import FLOAT, INT32
from formats.rten.graph.attributes import get_float, get_int

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def cast_like(node: Node, context: Context) -> list[Node] | None:
    """The type of another value is known before the model runs."""
    target = context.elem_type(context.input(1))
    if target is None:
        raise Refused("casts to a type that is unknown", "infer the model's types first")
    return context.replace(context.op("Cast", context.input(0), to=target))


def pow_(node: Node, context: Context) -> list[Node] | None:
    """RTen raises floats to powers of floats only, and no integers of eight bits."""
    base, exponent = context.input(0), context.input(1)
    if context.is_integer(exponent) and not context.is_integer(base):
        return context.changed([base, context.cast(exponent, context.elem_type(base) or FLOAT)])
    if context.elem_type(exponent) in BYTES:
        return context.changed([base, context.cast(exponent, INT32)])
    return None


def relu(node: Node, context: Context) -> list[Node] | None:
    """Of integers, the larger of the number and zero."""
    data = context.input(0)
    if not context.is_integer(data):
        return None
    return context.replace(context.op("Max", data, context.scalar(0, like=data)))


def prelu(node: Node, context: Context) -> list[Node] | None:
    """Of integers, the product where the number is negative."""
    data, slope = context.input(0), context.input(1)
    if not context.is_integer(data):
        return None
    negative = context.op("Less", data, context.scalar(0, like=data))
    return context.replace(context.op("Where", negative, context.op("Mul", data, slope), data))


def sign(node: Node, context: Context) -> list[Node] | None:
    """RTen gives a float zero the sign of its sign bit; zero is neither greater nor less than zero."""
    data = context.input(0)
    if not context.exact or context.is_integer(data):
        return None
    zero, elem_type = context.scalar(0, like=data), context.elem_type(data) or FLOAT
    above = context.cast(context.op("Greater", data, zero), elem_type)
    below = context.cast(context.op("Less", data, zero), elem_type)
    return context.replace(context.op("Sub", above, below))


def softplus(node: Node, context: Context) -> list[Node] | None:
    """RTen's overflows; max(x, 0) + ln(1 + t) with t = exp(-|x|) does not, and ln(1 + t) is 2 artanh(t / (2 + t))."""
    data = context.input(0)
    if not context.exact:
        return None
    two = context.scalar(2, like=data)
    small = context.op("Exp", context.op("Neg", context.op("Abs", data)))
    ratio = context.op("Div", small, context.op("Add", small, two))
    curved = context.op("Mul", context.op("Atanh", ratio), two)
    return context.replace(context.op("Add", context.op("Max", data, context.scalar(0, like=data)), curved))


def is_inf(node: Node, context: Context) -> list[Node] | None:
    """One sign of infinity only is a comparison; neither is never true."""
    positive, negative = get_int(node, "detect_positive", 1), get_int(node, "detect_negative", 1)
    if positive and negative:
        return None
    data = context.input(0)
    if not positive and not negative:
        return context.replace(context.op("Less", data, data))
    infinity = context.scalar(float("inf") if positive else float("-inf"), like=data)
    return context.replace(context.op("Equal", data, infinity))


def celu(node: Node, context: Context) -> list[Node] | None:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    data = context.input(0)
    alpha, zero = context.scalar(get_float(node, "alpha", 1.0), like=data), context.scalar(0, like=data)
    grown = context.op("Sub", context.op("Exp", context.op("Div", data, alpha)), context.scalar(1, like=data))
    below = context.op("Min", context.op("Mul", alpha, grown), zero)
    return context.replace(context.op("Add", context.op("Max", data, zero), below))


def selu(node: Node, context: Context) -> list[Node] | None:
    """A scaled Elu; operator set 1 had shorter defaults."""
    alpha, gamma = (1.6732, 1.0507) if context.version < 6 else (1.67326319217681884765625, 1.05070102214813232421875)
    elu = context.op("Elu", context.input(0), alpha=get_float(node, "alpha", alpha))
    return context.replace(context.op("Mul", elu, context.scalar(get_float(node, "gamma", gamma), like=elu)))


def mish(node: Node, context: Context) -> list[Node] | None:
    """The product x * tanh(softplus(x))."""
    data = context.input(0)
    return context.replace(context.op("Mul", data, context.op("Tanh", context.op("Softplus", data))))


def shrink(node: Node, context: Context) -> list[Node] | None:
    """Nearer to zero by the bias outside of the band around it, zero inside."""
    data = context.input(0)
    band, bias = get_float(node, "lambd", 0.5), context.scalar(get_float(node, "bias"), like=data)
    below = context.op("Less", data, context.scalar(-band, like=data))
    above = context.op("Greater", data, context.scalar(band, like=data))
    high = context.op("Where", above, context.op("Sub", data, bias), context.scalar(0, like=data))
    return context.replace(context.op("Where", below, context.op("Add", data, bias), high))


def softsign(node: Node, context: Context) -> list[Node] | None:
    """The quotient x / (1 + |x|)."""
    data = context.input(0)
    divisor = context.op("Add", context.op("Abs", data), context.scalar(1, like=data))
    return context.replace(context.op("Div", data, divisor))


def thresholded_relu(node: Node, context: Context) -> list[Node] | None:
    """The number where it is above the threshold, zero elsewhere."""
    data = context.input(0)
    above = context.op("Greater", data, context.scalar(get_float(node, "alpha", 1.0), like=data))
    return context.replace(context.op("Where", above, data, context.scalar(0, like=data)))


def times_sigmoid(context: Context, data: str, alpha: float) -> str:
    """The product x * sigmoid(alpha * x), in the form that RTen fuses."""
    scaled = data if alpha == 1 else context.op("Mul", data, context.scalar(alpha, like=data))
    return context.op("Mul", data, context.op("Sigmoid", scaled))


def swish(node: Node, context: Context) -> list[Node] | None:
    """The product x * sigmoid(alpha * x)."""
    return context.replace(times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.0)))


def swiglu(node: Node, context: Context) -> list[Node] | None:
    """Swish of the first input, times the second."""
    gate = times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.0))
    return context.replace(context.op("Mul", gate, context.input(1)))


REWRITINGS: Mapping[str, Rewriting] = {
    "CastLike": cast_like,
    "Celu": celu,
    "IsInf": is_inf,
    "Mish": mish,
    "PRelu": prelu,
    "Pow": pow_,
    "Relu": relu,
    "Selu": selu,
    "Shrink": shrink,
    "Sign": sign,
    "Softplus": softplus,
    "Softsign": softsign,
    "SwiGLU": swiglu,
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
}
