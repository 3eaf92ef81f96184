"""The operators of RTen whose node is written differently in ONNX, all others being the same.

A form is a function `(node, context)`: the node is RTen's with the inputs that ONNX wants, and what comes back are the
nodes that compute the same, in order. What is not rewritten is emitted as it is.

Spec: ONNX, Operators, operator set 21; RTen 0.25.0, src/ops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.rten.convert.value_types import FLOAT, INT32
from formats.rten.graph.attributes import get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context

    Form = Callable[[Node, Context], list[Node]]


def _window(node: Node, context: Context) -> list[Node]:
    """Pads only where they count, which is not with SAME_UPPER; NOTSET is the default."""
    same = get_string(node, "auto_pad") == "SAME_UPPER"
    return context.changed(without=["pads"] if same else ["auto_pad"])


def _convolution(node: Node, context: Context) -> list[Node]:
    """The kernel's shape is that of the weight, where it is known."""
    dims = context.dims(node.input[1]) if len(node.input) > 1 else None
    kernel = () if dims is None else tuple(dim for dim in dims[2:] if isinstance(dim, int))
    is_known = dims is not None and len(kernel) == len(dims) - 2 > 0
    same = get_string(node, "auto_pad") == "SAME_UPPER"
    return context.changed(without=["pads"] if same else ["auto_pad"], kernel_shape=kernel if is_known else None)


def _reduction(node: Node, context: Context) -> list[Node]:
    """The axes are an input; where there already is one, RTen looks at nothing else."""
    axes = get_ints(node, "axes")
    if not axes or context.optional(1):
        return context.changed(without=["axes"])
    return context.changed([node.input[0], context.int64(axes)], without=["axes"])


def _arg_extreme(node: Node, context: Context) -> list[Node]:
    """Of equal extremes, RTen gives the last."""
    return context.changed(select_last_index=1)


def _split(node: Node, context: Context) -> list[Node]:
    """Without sizes, the number of outputs must be given; all outputs have a name."""
    sizes = context.scope.ints(context.optional(1)) if context.optional(1) else None
    count = max(len(node.output), len(sizes or ()), get_int(node, "num_outputs"))
    missing = count - len(node.output)
    node.output = [name or context.names.new(f"{node.input[0]}/Split") for name in [*node.output, *[""] * missing]]
    return context.changed(num_outputs=None if context.optional(1) else count)


def _without_gaps(node: Node, context: Context) -> list[Node]:
    """RTen skips inputs that are omitted, ONNX has none."""
    return context.changed([name for name in node.input if name])


def _loop(node: Node, context: Context) -> list[Node]:
    """Of what a loop carries, too; the two inputs before that may be omitted, but keep their places."""
    return context.changed([*[*node.input, "", ""][:2], *filter(None, node.input[2:])])


def _sum(node: Node, context: Context) -> list[Node]:
    """ONNX sums floats only; anything else is added up one by one."""
    terms = [name for name in node.input if name]
    if context.elem_type(terms[0]) == FLOAT:
        return context.changed(terms)
    total = terms[0]
    for term in terms[1:]:
        total = context.op("Add", total, term)
    return context.replace(total)


def _modulo(node: Node, context: Context) -> list[Node]:
    """Of floats, ONNX knows the remainder with the sign of the dividend only, to which the divisor is added."""
    if context.elem_type(node.input[0]) != FLOAT or get_int(node, "fmod"):
        return [node]
    divisor = node.input[1]
    remainder = context.op("Mod", *node.input, fmod=1)
    signs = context.op("Mul", context.op("Sign", remainder), context.op("Sign", divisor))
    is_opposite = context.op("Less", signs, context.scalar(0.0))
    return context.replace(context.op("Where", is_opposite, context.op("Add", remainder, divisor), remainder))


def _scatter(node: Node, context: Context) -> list[Node]:
    """The old operator has no reduction, and RTen looks for none."""
    return context.replace(context.copy(node.input, "ScatterElements", without=["reduction"]))


def _upsample(node: Node, context: Context) -> list[Node]:
    """A resizing that starts at the corner and rounds down."""
    data, scales = node.input
    mode = get_string(node, "mode")
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return context.replace(context.op("Resize", data, "", scales, mode=mode, **attributes))


def _resize(node: Node, context: Context) -> list[Node]:
    """RTen takes an empty tensor for an omitted one, scales before sizes, and has no use for regions."""
    data, scales, sizes = node.input[0], context.optional(2), context.optional(3)
    count = next(iter(context.dims(scales) or ()), None)
    if scales and (not sizes or (isinstance(count, int) and count > 0)):
        return context.changed([data, "", scales])
    return context.changed([data, "", "", sizes])


def _quantization(node: Node, context: Context) -> list[Node]:
    """The zero point has the type of the output, and where there is one nothing else says it."""
    return context.changed(without=["output_dtype"] if context.optional(2) else ())


def _dequantization(node: Node, context: Context) -> list[Node]:
    """ONNX takes the zero point of an INT32 for nought, RTen subtracts it."""
    zero_point = context.optional(2)
    if not zero_point or context.elem_type(node.input[0]) != INT32:
        return [node]
    numbers = context.scope.array(zero_point)
    if numbers is not None and not numbers.any():
        return context.changed(node.input[:2])
    rank = context.rank(node.input[0])
    if rank is not None and context.rank(zero_point) != 0:
        along = [1] * rank
        along[get_int(node, "axis", 1)] = -1
        zero_point = context.op("Reshape", zero_point, context.int64(along))
    return context.changed([context.op("Sub", node.input[0], zero_point), node.input[1]])


def _recurrence(node: Node, context: Context) -> list[Node]:
    """RTen takes the size of the state from the weights, and does not look at the lengths of the sequences."""
    dims = context.dims(node.input[2]) if len(node.input) > 2 else None
    size = dims[-1] if dims and isinstance(dims[-1], int) else get_int(node, "hidden_size")
    inputs = [name if place != 4 else "" for place, name in enumerate(node.input)]
    while not inputs[-1]:
        inputs.pop()
    return context.changed(inputs, hidden_size=size)


def _float_like(node: Node, context: Context) -> list[Node]:
    """RTen's random numbers are floats, whatever they are like."""
    return context.changed(dtype=FLOAT)


def _multinomial(node: Node, context: Context) -> list[Node]:
    """RTen draws integers of 32 bits."""
    return context.changed(dtype=INT32)


def _forms() -> Mapping[str, Form]:
    """The form of each operator that has one."""
    rows: tuple[tuple[str, Form], ...] = (
        ("AveragePool MaxPool", _window),
        ("Conv ConvInteger ConvTranspose", _convolution),
        (
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
            " ReduceSumSquare",
            _reduction,
        ),
        ("ArgMax ArgMin", _arg_extreme),
        ("Split", _split),
        ("Concat Einsum Max Mean Min SequenceConstruct", _without_gaps),
        ("Loop", _loop),
        ("Sum", _sum),
        ("Mod", _modulo),
        ("Scatter", _scatter),
        ("Upsample", _upsample),
        ("Resize", _resize),
        ("QuantizeLinear", _quantization),
        ("DequantizeLinear", _dequantization),
        ("GRU LSTM", _recurrence),
        ("RandomNormalLike RandomUniformLike", _float_like),
        ("Multinomial", _multinomial),
    )
    return {op_type: form for op_types, form in rows for op_type in op_types.split()}


FORMS: Final = _forms()
