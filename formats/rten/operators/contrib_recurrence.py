"""ONNX Runtime's own recurrent layers.

Spec: ONNX Runtime, ContribOperators.md, DynamicQuantizeLSTM. Where it is not clear, this follows ONNX Runtime itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from formats.ir.dtypes import FLOAT, INT64
from formats.rten.operators import (
    dynamic_quantization,
    recurrence,
)
from formats.rten.operators.shared import recurrent_loop
from formats.rten.operators.shared.spec import MICROSOFT, OnnxLoader, OperatorSpec, Row, ToRten
from formats.rten.target import RTEN_0_27

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

NO_DEFAULT = ("thresholdedrelu", "scaledtanh", "affine")  # activations whose attributes are zero if none are given


class Weight(NamedTuple):
    """A quantised matrix of one direction: numbers, scale (one, or one for each column), zero point, and rows."""

    numbers: str
    scale: str
    zero: str
    rows: int

    def times(self, context: Context, data: str, content: str = "") -> str:
        """The product with data. Their quantisation follows from their range, or from that of `content` if given."""
        numbers, scale, zero = dynamic_quantization.quantized_by_content(context, data, self.rows, content)
        product = context.cast(context.op("MatMulInteger", numbers, self.numbers, zero, self.zero), FLOAT)
        return context.op("Mul", product, context.op("Mul", scale, self.scale))


@dataclass
class QuantizedStep(recurrent_loop.Step):
    """One step. The state is quantised once for all gates and samples. The bias is added last."""

    weight: Weight
    lengths: str

    def begin(self, row: str, iteration: str) -> None:
        """The state of a sample that has ended: zero if all steps are an output, otherwise its last state."""
        context, state = self.context, self.states[0]
        if self.lengths and self.node.output[0]:
            goes_on = context.op("LessOrEqual", iteration, context.cast(self.lengths, INT64))
            goes_on = context.op("Unsqueeze", goes_on, context.int64([-1]))
            state = context.op("Where", goes_on, state, self.number(0))
        super().begin(context.op("Add", row, self.weight.times(context, state)), iteration)

    def gate(self, gate: int, activation: int, state: str, peephole: str = "") -> str:
        """One gate: from the sum that `begin` computed, and from the cell through a peephole."""
        total = self.inputs[gate]
        for term in (peephole, *self.biases[gate : gate + 1]):
            if term:
                total = self.context.op("Add", total, term)
        return self.activate(activation, total)


def _weight(direction: recurrent_loop.Direction, place: int, scale_place: int) -> Weight:
    """A weight of a direction. All its zero points are equal."""
    context = direction.context
    zero = direction.own(scale_place + 1)
    if context.known_rank(context.input(scale_place + 1)) == 2:
        zero = context.op("Gather", zero, context.int64_scalar(0), axis=0)
    rows = context.static_dims(context.input(place))[1]
    return Weight(direction.own(place), direction.own(scale_place), zero, rows)


def _counted(context: Context) -> str:
    """Those steps of the input that at least one sample has. Only they decide how the input is quantised."""
    data, lengths = context.input(0), context.optional(4)
    if not lengths:
        return ""
    longest = context.op("ReduceMax", context.cast(lengths, INT64), keepdims=1)
    return context.op("Slice", data, context.int64([0]), longest, context.int64([0]))


def _outputs(direction: recurrent_loop.Direction, projected: str) -> list[str]:
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
        has_steps = context.op("Greater", context.cast(lengths, INT64), context.int64_scalar(0))
        has_steps = context.op("Unsqueeze", has_steps, context.int64([-1]))
        states = [context.op("Where", has_steps, state, context.scalar(0.0)) for state in states]
    return [steps, *states]


def dynamic_quantize_lstm(node: Node, context: Context) -> list[Node] | None:
    """Write it as a loop with integer products that quantises the state in each step."""
    hidden = context.static_dims(context.input(2))[1]
    counted, results = _counted(context), []
    for direction in recurrent_loop.directions_of(node, context, recurrent_loop.LSTM_CELL, hidden):
        projected = _weight(direction, 1, 8).times(context, context.input(0), counted)
        results.append(_outputs(direction, projected))
    return recurrent_loop.side_by_side(context, results)


DynamicQuantizeLSTM = OperatorSpec(
    "DynamicQuantizeLSTM",
    to_rten=ToRten(rewritings=(dynamic_quantize_lstm,)),
    onnx_loader=OnnxLoader(Row(12, 3, fields=recurrence.ONNX_RNN, since=RTEN_0_27), recurrence.LSTM.onnx_loader.takes),
    domain=MICROSOFT,
)
