"""ONNX Runtime's own operators on quantised tensors, as operators on the real numbers, and its quantised LSTM.

Spec: ONNX Runtime, ContribOperators.md, the operators QLinear... and similar ones, and DynamicQuantizeLSTM. Where it is
not clear, this follows ONNX Runtime itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from formats.ir.attributes import get_float, get_int
from formats.ir.dtypes import FLOAT, INT4, INT8, INT64, UINT4, UINT8
from formats.ir.model import Node
from formats.onnxruntime import MICROSOFT
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.operators import contrib, quantization, recurrence
from formats.rten.spec import OnnxLoader, OperatorSpec, Rewriting, Row, ToRten, rewritten
from formats.rten.target import RTEN_0_27


def _scaled(
    context: Context, a: str, b: str, scales: tuple[str, str], zeros: tuple[str, str], bias_place: int
) -> list[Node]:
    op = context.op
    product = context.cast(op("MatMulInteger", a, b, *zeros), FLOAT)  # ..., rows, columns
    result = op("Mul", product, op("Mul", *scales))
    bias = context.optional(bias_place)
    return context.replace(op("Add", result, bias) if bias else result)


def dynamic_quantize_mat_mul(node: Node, context: Context) -> list[Node] | None:
    """Write it as DynamicQuantizeLinear, MatMulInteger and a scale."""
    data, scale, zero = context.op_outputs("DynamicQuantizeLinear", [context.input(0)], 3)
    return _scaled(context, data, context.input(1), (scale, context.input(2)), (zero, context.optional(3)), 4)


def mat_mul_integer_to_float(node: Node, context: Context) -> list[Node] | None:
    """Write it as MatMulInteger and a scale."""
    scales, zeros = (context.input(2), context.input(3)), (context.optional(4), context.optional(5))
    return _scaled(context, context.input(0), context.input(1), scales, zeros, 6)


def _operand(context: Context, place: int, axis: int | None = None) -> str:
    """The numbers that a quantised input stands for. The two inputs after it are its scale and its zero point."""
    return quantization.dequantized(
        context, context.input(place), context.input(place + 1), context.optional(place + 2), axis
    )


def _quantized(context: Context, value: str, place: int, data: int = 0) -> list[Node]:
    """The nodes whose result is `value`, quantised with the scale and zero point from input `place` on.

    The result has the type of the input `data`, also if it has no zero point.
    """
    quantization.tell_if_exact(context)
    scale, zero = context.input(place), context.optional(place + 1)
    if not zero:
        zero = context.scalar(0, elem_type=context.elem_type(context.input(data)) or UINT8)
    return context.replace(quantization.quantized(context, value, scale, zero))


def q_gemm(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Gemm of integers, whose result is a float if it has no scale."""
    columns = 0 if get_int(node, "transB") else 1
    inputs = [_operand(context, 0), _operand(context, 3, columns)]
    alpha = get_float(node, "alpha", 1.0)
    if context.optional(6):
        unit = context.op("Mul", context.input(1), context.input(4))
        if alpha != 1:
            unit = context.op("Mul", unit, context.scalar(alpha))
        inputs.append(context.op("Mul", context.cast(context.input(6), FLOAT), unit))
    result = context.copy(inputs, "Gemm")
    return _quantized(context, result, 7) if context.optional(7) else context.replace(result)


def binary(operator: str) -> Rewriting:
    """A rewriting for an operator of two tensors."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return _quantized(context, context.op(operator, _operand(context, 0), _operand(context, 3)), 6)

    return rewriting


@budget.without_warnings
def q_linear_add(node: Node, context: Context) -> list[Node] | None:
    """Write it as onnxruntime computes it, with one factor for each operand: many sums are between two steps."""
    import numpy

    places = [context.optional(place) for place in range(1, 8) if place != 3]
    parameters = [context.scope.numbers(name) if name else (0,) for name in places]
    if any(numbers is None or len(numbers) != 1 for numbers in parameters):
        return binary("Add")(node, context)
    a, a_zero, b, b_zero, result, zero = (numpy.float32((numbers or (0,))[0]) for numbers in parameters)
    first, second = a / result, b / result
    parts = [
        context.op("Mul", context.cast(context.input(place), FLOAT), float(factor))
        for place, factor in ((0, first), (3, second))
    ]
    shift = context.scalar(float(zero - (first * a_zero + second * b_zero)))  # all that does not depend on the data
    total = context.op("Add", parts[0], context.op("Add", parts[1], shift))
    target = context.elem_type(context.input(0)) or UINT8
    return context.replace(quantization.rounded_to(context, total, target))


def unary(operator: str, *without: str) -> Rewriting:
    """A rewriting for an operator of one tensor. It keeps all attributes except some."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        data, is_last = _operand(context, 0), get_int(node, "channels_last")
        rank = context.known_rank(data) if is_last else 0
        data = contrib.channels_first(context, data, rank) if is_last else data
        result = context.copy([data], operator, ("channels_last", *without))
        return _quantized(context, contrib.channels_last(context, result, rank) if is_last else result, 3)

    return rewriting


def q_linear_concat(node: Node, context: Context) -> list[Node] | None:
    """Write it as Concat of floats, quantised again; each input has a scale and a zero point."""
    parts = [_operand(context, place) for place in range(2, len(node.input), 3)]  # each with a scale and a zero point
    return _quantized(context, context.op("Concat", *parts, axis=get_int(node, "axis")), 0, 2)


def qlinear_conv(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard QLinearConv, between Transposes if channels are last."""
    inputs = list(node.input)
    if not get_int(node, "channels_last"):
        return context.replace(context.copy(inputs, "QLinearConv", ("channels_last",)))
    rank = context.known_rank(inputs[0])
    inputs[0] = contrib.channels_first(context, inputs[0], rank)
    result = context.copy(inputs, "QLinearConv", ("channels_last",))
    return context.replace(contrib.channels_last(context, result, rank))


def q_linear_mul(node: Node, context: Context) -> list[Node] | None:
    """Write it as Mul of floats. The exact form multiplies integers, and rounds after it adds the zero point."""
    op = context.op
    if not context.exact:
        return binary("Mul")(node, context)
    numbers = []
    for place in (0, 3):
        value, zero = context.cast(context.input(place), FLOAT), context.optional(place + 2)
        numbers.append(op("Sub", value, context.cast(zero, FLOAT)) if zero else value)
    # The scales of both operands, and that of the result.
    factor = quantization.scale_of_product(context, context.input(1), context.input(4), context.input(6))
    result = op("Mul", op("Mul", *numbers), factor)
    if zero := context.optional(7):
        result = op("Add", result, context.cast(zero, FLOAT))
    return context.replace(quantization.rounded_to(context, result, context.elem_type(context.input(0)) or UINT8))


def q_linear_softmax(node: Node, context: Context) -> list[Node] | None:
    """Write it as Softmax of floats, quantised again."""
    if get_int(node, "opset") < 13 and get_int(node, "axis", -1) not in (-1, (context.rank(context.input(0)) or 0) - 1):
        raise Refused("flattens its input to a matrix (an opset before 13), which cannot be converted")
    return unary("Softmax", "opset")(node, context)


def q_linear_where(node: Node, context: Context) -> list[Node] | None:
    """Write it as Where of floats, quantised again."""
    chosen = context.op("Where", context.input(0), _operand(context, 1), _operand(context, 4))
    return _quantized(context, chosen, 7, 1)


def gather_block_quantized(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gather and DequantizeLinear."""
    op = context.op
    data, places, scales, zeros = context.input(0), context.input(1), context.input(2), context.optional(3)
    tensor, bits, block = context.scope.constant(data), get_int(node, "bits", 4), get_int(node, "block_size", 128)
    if tensor is None or len(tensor.dims) != 2 or get_int(node, "gather_axis") or bits not in (4, 8):
        raise Refused("does not look up rows of a constant matrix of four or eight bits")
    if get_int(node, "quantize_axis", 1) not in (1, -1):
        raise Refused("is quantised by columns, which cannot be converted")
    if bits == 4 and tensor.data_type == UINT8:
        rows, columns = tensor.dims
        whole = replace(tensor, name=context.names.new(f"{data}/unpacked"), data_type=UINT4, dims=[rows, 2 * columns])
        data = context.constants.add_tensor(whole)
        packed = context.scope.constant(zeros) if zeros else None
        if zeros and packed is None:
            raise Refused("has packed zero points that are not constant")
        if packed is not None:
            blocks = -(-2 * columns // block)  # a byte has two numbers; the last block may be short
            whole = replace(packed, data_type=UINT4, dims=[rows, 2 * packed.dims[-1]])
            zeros = context.constants.add(whole.numpy()[:, :blocks])  # rows, blocks
    is_signed = context.elem_type(data) == INT4
    elem_type = INT8 if is_signed else UINT8
    data, zeros = context.cast(data, elem_type), context.cast(zeros, elem_type) if zeros else ""
    # The dims of the places, then columns for the data, or blocks for the scales.
    rows_of_data, rows_of_scales = (op("Gather", name, places, axis=0) for name in (data, scales))
    if zeros:
        zeros = op("Gather", zeros, places, axis=0)  # dims of the places, blocks
    elif not is_signed:
        middle = context.scalar(1 << bits - 1, elem_type=elem_type)
        zeros = op("Expand", middle, op("Shape", rows_of_scales))
    axis = context.known_rank(rows_of_data) - 1
    result = op("DequantizeLinear", rows_of_data, rows_of_scales, zeros, axis=axis, block_size=block)
    return context.replace(result)


NO_DEFAULT = ("thresholdedrelu", "scaledtanh", "affine")  # activations whose attributes are zero if none are given


class Weight(NamedTuple):
    """A quantised matrix of one direction: numbers, scale (one, or one for each column), zero point, and rows."""

    numbers: str
    scale: str
    zero: str
    rows: int

    def times(self, context: Context, data: str, content: str = "") -> str:
        """The product with data. Their quantisation follows from their range, or from that of `content` if given."""
        numbers, scale, zero = quantization.quantized_by_content(context, data, self.rows, content)
        product = context.cast(context.op("MatMulInteger", numbers, self.numbers, zero, self.zero), FLOAT)  # ..., G * H
        return context.op("Mul", product, context.op("Mul", scale, self.scale))


@dataclass
class QuantizedStep(recurrence.Step):
    """One step. The state is quantised once for all gates and samples. The bias is added last."""

    weight: Weight
    lengths: str

    def begin(self, row: str, iteration: str) -> None:
        """The state of a sample that has ended: zero if all steps are an output, otherwise its last state."""
        context, state = self.context, self.states[0]
        if self.lengths and self.node.output[0]:
            goes_on = context.op("LessOrEqual", iteration, context.cast(self.lengths, INT64))
            goes_on = context.op("Unsqueeze", goes_on, [-1])  # B, 1, for a state of B, H
            state = context.op("Where", goes_on, state, self.number(0))
        super().begin(context.op("Add", row, self.weight.times(context, state)), iteration)

    def gate(self, gate: int, activation: int, state: str, peephole: str = "") -> str:
        """One gate: from the sum that `begin` computed, and from the cell through a peephole."""
        total = self.inputs[gate]
        for term in (peephole, *self.biases[gate : gate + 1]):
            if term:
                total = self.context.op("Add", total, term)
        return self.activate(activation, total)


def _weight(direction: recurrence.Direction, place: int, scale_place: int) -> Weight:
    """A weight of a direction. All its zero points are equal."""
    context = direction.context
    zero = direction.own(scale_place + 1)
    if context.known_rank(context.input(scale_place + 1)) == 2:
        zero = context.op("Gather", zero, 0, axis=0)
    rows = context.static_dims(context.input(place))[1]
    return Weight(direction.own(place), direction.own(scale_place), zero, rows)


def _counted(context: Context) -> str:
    """Those steps of the input that at least one sample has. Only they decide how the input is quantised."""
    data, lengths = context.input(0), context.optional(4)
    if not lengths:
        return ""
    longest = context.op("ReduceMax", context.cast(lengths, INT64), keepdims=1)  # a vector of one
    return context.op("Slice", data, [0], longest, [0])


def _outputs(direction: recurrence.Direction, projected: str) -> list[str]:
    """All outputs, and the last states, of one direction. They are zero for a sample without steps."""
    context, lengths = direction.context, direction.context.optional(4)
    first, second = direction.biases()
    step = QuantizedStep(
        context.nested(),
        direction,
        direction.activations(NO_DEFAULT),
        [],
        direction.of_gates(context.op("Add", first, second) if first else "", 0),
        direction.peepholes(),
        direction.state_names(),
        FLOAT,
        _weight(direction, 2, 10),
        lengths,
    )
    steps, *states = direction.run(step, projected)
    if lengths:
        has_steps = context.op("Greater", context.cast(lengths, INT64), 0)
        has_steps = context.op("Unsqueeze", has_steps, [-1])  # B, 1, for states of B, H
        states = [context.op("Where", has_steps, state, 0.0) for state in states]
    return [steps, *states]


def dynamic_quantize_lstm(node: Node, context: Context) -> list[Node] | None:
    """Write it as a loop with integer products that quantises the state in each step."""
    hidden = context.static_dims(context.input(2))[1]
    counted, results = _counted(context), []
    for direction in recurrence.directions_of(node, context, recurrence.LSTM_CELL, hidden):
        projected = _weight(direction, 1, 8).times(context, context.input(0), counted)
        results.append(_outputs(direction, projected))
    return recurrence.side_by_side(context, results)


DynamicQuantizeLSTM = OperatorSpec(
    "DynamicQuantizeLSTM",
    to_rten=ToRten(rewritings=(dynamic_quantize_lstm,)),
    onnx_loader=OnnxLoader(Row(12, 3, fields=recurrence.ONNX_RNN, since=RTEN_0_27), recurrence.LSTM.onnx_loader.takes),
    domain=MICROSOFT,
)


REWRITTEN = rewritten(
    MICROSOFT,
    DynamicQuantizeMatMul=dynamic_quantize_mat_mul,
    GatherBlockQuantized=gather_block_quantized,
    MatMulIntegerToFloat=mat_mul_integer_to_float,
    QGemm=q_gemm,
    QLinearAdd=q_linear_add,
    QLinearAveragePool=unary("AveragePool"),
    QLinearConcat=q_linear_concat,
    QLinearConv=qlinear_conv,
    QLinearGlobalAveragePool=unary("GlobalAveragePool"),
    QLinearLeakyRelu=unary("LeakyRelu"),
    QLinearMul=q_linear_mul,
    QLinearSigmoid=unary("Sigmoid"),
    QLinearSoftmax=q_linear_softmax,
    QLinearWhere=q_linear_where,
)
