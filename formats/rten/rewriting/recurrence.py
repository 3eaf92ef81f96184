"""Recurrent layers: native where RTen's kernel computes the same, and otherwise a Loop over the steps.

RTen 0.25.0 ignores `sequence_lens`, has one GRU only (`linear_before_reset`), and none of the choices that ONNX gives.

Spec: ONNX, Operators.md, RNN, GRU and LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.ir.model import Graph
from formats.rten.convert.context import INT_MAX, Refused
from formats.rten.convert.value_types import BOOL, FLOAT, INT64
from formats.rten.graph.attributes import get_float, get_floats, get_int, get_string, get_strings, make_node
from formats.rten.rewriting.shapes import joined, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting

    Cell = Callable[["Step"], list[str]]

DEFAULT_ACTIVATIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

# The attributes of an activation by its name in ONNX: those of the operator, with the defaults that layers have.
ACTIVATIONS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "relu": (),
    "tanh": (),
    "sigmoid": (),
    "softsign": (),
    "softplus": (),
    "leakyrelu": (("alpha", 0.01),),
    "thresholdedrelu": (("alpha", 1.0),),
    "elu": (("alpha", 1.0),),
    "hardsigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "scaledtanh": (("alpha", 1.0), ("beta", 1.0)),
    "affine": (("alpha", 1.0), ("beta", 0.0)),
}
OPERATORS = {
    name.lower(): name
    for name in (
        "Relu",
        "Tanh",
        "Sigmoid",
        "Softsign",
        "Softplus",
        "LeakyRelu",
        "ThresholdedRelu",
        "Elu",
        "HardSigmoid",
    )
}


@dataclass
class Step:
    """What one step of one direction has to work with, inside of the loop."""

    context: Context
    node: Node
    activations: list[tuple[str, dict[str, float]]]
    inputs: list[str]  # the input's part of each gate, biased
    weights: list[str]  # recurrent, one matrix a gate, transposed
    biases: list[str]  # recurrent, one a gate; empty without a bias
    peepholes: list[str]
    states: list[str]
    elem_type: int

    def number(self, value: float) -> str:
        """A constant of the layer's type."""
        return self.context.scalar(value, elem_type=self.elem_type)

    def recurrent(self, gate: int, state: str) -> str:
        """A state's part of a gate, biased."""
        product = self.context.op("MatMul", state, self.weights[gate])
        return self.context.op("Add", product, self.biases[gate]) if self.biases else product

    def activate(self, number: int, value: str, *, is_gate: bool = True) -> str:
        """The value, clipped if it is that of a gate, put through one of the activations."""
        context, limit = self.context, get_float(self.node, "clip")
        if limit and is_gate:
            value = context.op("Clip", value, self.number(-limit), self.number(limit))
        name, attributes = self.activations[number]
        if name == "affine":
            scaled = context.op("Mul", value, self.number(attributes["alpha"]))
            return context.op("Add", scaled, self.number(attributes["beta"]))
        if name == "scaledtanh":
            curved = context.op("Tanh", context.op("Mul", value, self.number(attributes["beta"])))
            return context.op("Mul", curved, self.number(attributes["alpha"]))
        return context.op(OPERATORS[name], value, **attributes)

    def gate(self, gate: int, activation: int, state: str, peephole: str = "") -> str:
        """One gate, of the input and the hidden state, and of the cell through a peephole."""
        total = self.context.op("Add", self.inputs[gate], self.recurrent(gate, state))
        if peephole:
            total = self.context.op("Add", total, peephole)
        return self.activate(activation, total)


def _rnn_cell(step: Step) -> list[str]:
    return [step.gate(0, 0, step.states[0])]


def _gru_cell(step: Step) -> list[str]:
    """Spec: ONNX, Operators.md, GRU: the gates are update, reset and hidden."""
    context, hidden = step.context, step.states[0]
    update, reset = step.gate(0, 0, hidden), step.gate(1, 0, hidden)
    if get_int(step.node, "linear_before_reset"):
        recalled = context.op("Mul", reset, step.recurrent(2, hidden))
    else:
        recalled = step.recurrent(2, context.op("Mul", reset, hidden))
    candidate = step.activate(1, context.op("Add", step.inputs[2], recalled))
    fresh = context.op("Mul", context.op("Sub", step.number(1.0), update), candidate)
    return [context.op("Add", fresh, context.op("Mul", update, hidden))]


def _lstm_cell(step: Step) -> list[str]:
    """Spec: ONNX, Operators.md, LSTM: the gates are input, output, forget and cell; all but the last have peepholes."""
    context = step.context
    hidden, cell = step.states

    def peephole(number: int, state: str) -> str:
        return context.op("Mul", step.peepholes[number], state) if step.peepholes else ""

    admit = step.gate(0, 0, hidden, peephole(0, cell))
    if get_int(step.node, "input_forget"):
        forget = context.op("Sub", step.number(1.0), admit)
    else:
        forget = step.gate(2, 0, hidden, peephole(2, cell))
    candidate = step.gate(3, 1, hidden)
    kept, added = context.op("Mul", forget, cell), context.op("Mul", admit, candidate)
    new_cell = context.op("Add", kept, added)
    emit = step.gate(1, 0, hidden, peephole(1, new_cell))
    return [context.op("Mul", emit, step.activate(2, new_cell, is_gate=False)), new_cell]


CELLS: Mapping[str, Cell] = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}


def recurrent(node: Node, context: Context) -> list[Node] | None:
    """The layer as it is, with its axes moved, or as a loop."""
    if get_int(node, "layout"):
        return _with_time_first(node, context)
    if _all_steps_count(context):
        inputs = list(node.input)
        inputs[4] = ""
        return context.changed(inputs)
    if _is_native(node, context):
        return None
    direction = get_string(node, "direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if backwards is None:
        raise Refused(f"has the unknown direction {direction!r}")
    results = [_direction(node, context, number, back) for number, back in enumerate(backwards)]
    values = []
    for place, axis in enumerate((1, 0, 0)[: len(results[0])]):
        column = context.int64([axis])
        parts = [context.op("Unsqueeze", result[place], column) for result in results]
        values.append(context.op("Concat", *parts, axis=axis))
    return context.replace(*values)


def _with_time_first(node: Node, context: Context) -> list[Node]:
    """The layer with steps before samples, which is what RTen has, between transpositions."""
    swapped = [
        context.op("Transpose", name, perm=[1, 0, 2]) if name and place in (0, 5, 6) else name
        for place, name in enumerate(node.input)
    ]
    plain = context.changed(swapped, without=("layout",))[-1]
    outputs = [context.names.new(f"{name}/time_first") if name else "" for name in node.output]
    plain.output = outputs
    plain.name = None
    context.emit(plain)
    perms = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
    values = [
        context.op("Transpose", name, perm=perm) if name else "" for name, perm in zip(outputs, perms, strict=False)
    ]
    return context.replace(*values)


def _all_steps_count(context: Context) -> bool:
    """Whether the lengths are given and all are that of the whole sequence."""
    lengths = context.scope.ints(context.optional(4)) if context.optional(4) else None
    dims = context.dims(context.input(0))
    return lengths is not None and dims is not None and all(length == dims[0] for length in lengths)


def _is_native(node: Node, context: Context) -> bool:
    """Whether RTen's kernel computes the same."""
    if node.op_type == "RNN" or context.optional(4) or context.optional(7) or get_float(node, "clip"):
        return False
    if get_int(node, "input_forget") or (node.op_type == "GRU" and not get_int(node, "linear_before_reset")):
        return False
    default = [name.lower() for name in DEFAULT_ACTIVATIONS[node.op_type or ""]]
    named = [name.lower() for name in get_strings(node, "activations")]
    return named in ([], default, default * 2)


def _activations(node: Node, number: int) -> list[tuple[str, dict[str, float]]]:
    """The activations of one direction with their attributes, which are taken from the lists in order."""
    default = DEFAULT_ACTIVATIONS[node.op_type or ""]
    names = [name.lower() for name in get_strings(node, "activations") or default * 2]
    given = {key: list(get_floats(node, f"activation_{key}") or ()) for key in ("alpha", "beta")}
    result = []
    for name in names:
        if name not in ACTIVATIONS:
            raise Refused(f"has the unknown activation {name!r}")
        result.append(
            (name, {key: given[key].pop(0) if given[key] else fallback for key, fallback in ACTIVATIONS[name]})
        )
    count = len(default)
    return result[number * count : (number + 1) * count] or result[:count]


def _direction(node: Node, context: Context, number: int, backwards: bool) -> list[str]:
    """All outputs, and the last states, of one direction as a loop over its steps."""
    data, gates = context.input(0), GATES[node.op_type or ""]
    hidden = _hidden_size(node, context)
    index = context.int64_scalar(number)
    lengths = context.optional(4)

    def own(name: str) -> str:
        return context.op("Gather", name, index, axis=0)

    def flipped(value: str) -> str:
        if not backwards:
            return value
        if lengths:
            return context.op("ReverseSequence", value, context.cast(lengths, INT64), batch_axis=1, time_axis=0)
        last = context.int64([-1])
        return context.op("Slice", value, last, context.int64([-INT_MAX]), context.int64([0]), last)

    weight = context.op("Transpose", own(context.input(1)), perm=[1, 0])
    recurrent_weight = context.op("Transpose", own(context.input(2)), perm=[1, 0])
    projected, biases = context.op("MatMul", data, weight), []
    if context.optional(3):
        parts = _parts(context, own(context.input(3)), [gates * hidden] * 2, 0)
        projected = context.op("Add", projected, parts[0])
        biases = _parts(context, parts[1], [hidden] * gates, 0)
    peepholes = _parts(context, own(context.input(7)), [hidden] * 3, 0) if context.optional(7) else []
    first = [_initial(context, place, hidden, own) for place in ((5, 6) if node.op_type == "LSTM" else (5,))]
    inner = context.nested()
    step = Step(
        inner,
        node,
        _activations(node, number),
        [],
        _parts(context, recurrent_weight, [hidden] * gates, 1),
        biases,
        peepholes,
        [context.names.new(f"{node.output[0]}/state") for _ in first],
        context.elem_type(data) or FLOAT,
    )
    body = _body(step, flipped(projected), hidden, lengths)
    count = context.op("Squeeze", sizes_of(context, data, 0, 1), context.int64([0]))
    *states, steps = context.op_outputs("Loop", [count, "", *first], len(first) + 1, body=body)
    return [flipped(steps), *states]


def _hidden_size(node: Node, context: Context) -> int:
    dims = context.dims(context.input(2))
    size = dims[-1] if dims else get_int(node, "hidden_size")
    if not isinstance(size, int) or not size:
        raise Refused("has a hidden size that is unknown", "set the attribute hidden_size")
    return size


def _parts(context: Context, value: str, sizes: list[int], axis: int) -> list[str]:
    if len(sizes) == 1:
        return [value]
    return list(context.op_outputs("Split", [value, context.int64(sizes)], len(sizes), axis=axis))


def _initial(context: Context, place: int, hidden: int, own: Callable[[str], str]) -> str:
    """The state before the first step, zero where it is not given."""
    if context.optional(place):
        return own(context.input(place))
    batch = sizes_of(context, context.input(0), 1, 2)
    return context.op(
        "Expand", context.scalar(0, like=context.input(0)), joined(context, batch, context.int64([hidden]))
    )


def _body(step: Step, projected: str, hidden: int, lengths: str) -> Graph:
    """The loop's body: the next states, and the hidden one once more to be collected."""
    context, names = step.context, step.context.names
    stem = step.node.output[0]
    iteration, condition = names.new(f"{stem}/step"), names.new(f"{stem}/goes_on")
    row = context.op("Gather", projected, iteration, axis=0)
    step.inputs = _parts(context, row, [hidden] * GATES[step.node.op_type or ""], -1)
    states = CELLS[step.node.op_type or ""](step)
    collected = states[0]
    if lengths:
        alive = context.op("Less", iteration, context.cast(lengths, INT64))
        alive = context.op("Unsqueeze", alive, context.int64([-1]))
        collected = context.op("Where", alive, states[0], step.number(0))
        states = [context.op("Where", alive, new, old) for new, old in zip(states, step.states, strict=True)]
    else:
        collected = context.op("Identity", states[0])
    goes_on = names.new(f"{stem}/goes_on")
    context.emit(make_node("Identity", [condition], [goes_on]))
    scalars = [
        context.value_info(iteration, INT64, is_scalar=True),
        context.value_info(condition, BOOL, is_scalar=True),
    ]
    return Graph(
        name=f"{stem}/body",
        node=context.emitted,
        input=[*scalars, *(context.value_info(name, step.elem_type) for name in step.states)],
        output=[
            context.value_info(goes_on, BOOL, is_scalar=True),
            *(context.value_info(name, step.elem_type) for name in (*states, collected)),
        ],
    )


REWRITINGS: Mapping[str, Rewriting] = {"GRU": recurrent, "LSTM": recurrent, "RNN": recurrent}
