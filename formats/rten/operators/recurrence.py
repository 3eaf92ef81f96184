"""Recurrent layers: native where RTen's kernel computes the same, and otherwise a Loop over the steps.

Spec: ONNX, Operators.md, RNN, GRU and LSTM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.ir.dtypes import BOOL, FLOAT, INT64
from formats.ir.model import Graph
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import get_float, get_floats, get_int, get_string, get_strings, make_node
from formats.rten.operators import activation, comparison, control_flow, elementwise, indexing, matrix, shape, slicing
from formats.rten.operators.rewritings import dropped
from formats.rten.operators.spec import ANY, Field, FieldKind, OperatorSpec, Row, Signature
from formats.rten.types import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType


def recurrent_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Steps, directions, batch and hidden size; the last states without the steps."""
    dims, weight = types[0].dims or (None,) * 3, types[2].dims
    hidden = weight[-1] if weight else get_int(node, "hidden_size") or None
    directions = 2 if get_string(node, "direction", "forward") == "bidirectional" else 1
    if get_int(node, "layout"):
        state: Dims = (dims[0], directions, hidden)
        return [(dims[0], dims[1], directions, hidden), state, state]
    state = (directions, dims[1], hidden)
    return [(dims[0], directions, dims[1], hidden), state, state]


def _all_steps_count(context: Context) -> bool:
    """Whether the lengths are given and all are that of the whole sequence."""
    lengths = context.scope.ints(context.optional(4)) if context.optional(4) else None
    dims = context.dims(context.input(0))
    return lengths is not None and dims is not None and all(length == dims[0] for length in lengths)


DEFAULT_ACTIVATIONS = {"RNN": ["tanh"], "GRU": ["sigmoid", "tanh"], "LSTM": ["sigmoid", "tanh", "tanh"]}


def _is_native(node: Node, context: Context) -> bool:
    """Whether RTen's kernel computes the same."""
    if node.op_type == RNN.name or context.optional(4) or context.optional(7) or get_float(node, "clip"):
        return False
    if get_int(node, "input_forget") or (node.op_type == GRU.name and not get_int(node, "linear_before_reset")):
        return False
    default = DEFAULT_ACTIVATIONS[node.op_type or ""]
    named = [name.lower() for name in get_strings(node, "activations")]
    return named in ([], default, default * 2)


def _with_time_first(node: Node, context: Context) -> list[Node]:
    """The layer with steps before samples, which is what RTen has, between transpositions."""
    swapped = [
        context.op(shape.Transpose, name, perm=[1, 0, 2]) if name and place in (0, 5, 6) else name
        for place, name in enumerate(node.input)
    ]
    plain = context.changed(swapped, without=("layout",))[-1]
    outputs = [context.names.new(f"{name}/time_first") if name else "" for name in node.output]
    plain.output = outputs
    plain.name = None
    context.emit(plain)
    perms = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
    values = [
        context.op(shape.Transpose, name, perm=perm) if name else "" for name, perm in zip(outputs, perms, strict=False)
    ]
    return context.replace(*values)


def _hidden_size(node: Node, context: Context) -> int:
    dims = context.dims(context.input(2))
    size = dims[-1] if dims else get_int(node, "hidden_size")
    if not isinstance(size, int) or not size:
        raise Refused("has a hidden size that is unknown", "set the attribute hidden_size")
    return size


# The activations by their names in lower case: the operator, if there is one, and the attributes with the defaults that
# layers have.
ACTIVATIONS: Mapping[str, tuple[OperatorSpec | None, tuple[tuple[str, float], ...]]] = {
    "relu": (activation.Relu, ()),
    "tanh": (elementwise.Tanh, ()),
    "sigmoid": (activation.Sigmoid, ()),
    "softsign": (activation.Softsign, ()),
    "softplus": (activation.Softplus, ()),
    "leakyrelu": (activation.LeakyRelu, (("alpha", 0.01),)),
    "thresholdedrelu": (activation.ThresholdedRelu, (("alpha", 1.0),)),
    "elu": (activation.Elu, (("alpha", 1.0),)),
    "hardsigmoid": (activation.HardSigmoid, (("alpha", 0.2), ("beta", 0.5))),
    "scaledtanh": (None, (("alpha", 1.0), ("beta", 1.0))),
    "affine": (None, (("alpha", 1.0), ("beta", 0.0))),
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
        product = self.context.op(matrix.MatMul, state, self.weights[gate])
        return self.context.op(elementwise.Add, product, self.biases[gate]) if self.biases else product

    def activate(self, number: int, value: str, *, is_gate: bool = True) -> str:
        """The value, clipped if it is that of a gate, put through one of the activations."""
        context, limit = self.context, get_float(self.node, "clip")
        if limit and is_gate:
            value = context.op(elementwise.Clip, value, self.number(-limit), self.number(limit))
        name, attributes = self.activations[number]
        if name == "affine":
            scaled = context.op(elementwise.Mul, value, self.number(attributes["alpha"]))
            return context.op(elementwise.Add, scaled, self.number(attributes["beta"]))
        if name == "scaledtanh":
            curved = context.op(elementwise.Tanh, context.op(elementwise.Mul, value, self.number(attributes["beta"])))
            return context.op(elementwise.Mul, curved, self.number(attributes["alpha"]))
        operator, _ = ACTIVATIONS[name]
        assert operator is not None
        return context.op(operator, value, **attributes)

    def gate(self, gate: int, activation: int, state: str, peephole: str = "") -> str:
        """One gate, of the input and the hidden state, and of the cell through a peephole."""
        total = self.context.op(elementwise.Add, self.inputs[gate], self.recurrent(gate, state))
        if peephole:
            total = self.context.op(elementwise.Add, total, peephole)
        return self.activate(activation, total)


def _parts(context: Context, value: str, sizes: list[int], axis: int) -> list[str]:
    if len(sizes) == 1:
        return [value]
    return list(context.op_outputs(slicing.Split, [value, context.int64(sizes)], len(sizes), axis=axis))


def _rnn_cell(step: Step) -> list[str]:
    return [step.gate(0, 0, step.states[0])]


def _gru_cell(step: Step) -> list[str]:
    """Spec: ONNX, Operators.md, GRU: the gates are update, reset and hidden."""
    context, hidden = step.context, step.states[0]
    update, reset = step.gate(0, 0, hidden), step.gate(1, 0, hidden)
    if get_int(step.node, "linear_before_reset"):
        recalled = context.op(elementwise.Mul, reset, step.recurrent(2, hidden))
    else:
        recalled = step.recurrent(2, context.op(elementwise.Mul, reset, hidden))
    candidate = step.activate(1, context.op(elementwise.Add, step.inputs[2], recalled))
    fresh = context.op(elementwise.Mul, context.op(elementwise.Sub, step.number(1.0), update), candidate)
    return [context.op(elementwise.Add, fresh, context.op(elementwise.Mul, update, hidden))]


def _lstm_cell(step: Step) -> list[str]:
    """Spec: ONNX, Operators.md, LSTM: the gates are input, output, forget and cell; all but the last have peepholes."""
    context = step.context
    hidden, cell = step.states

    def peephole(number: int, state: str) -> str:
        return context.op(elementwise.Mul, step.peepholes[number], state) if step.peepholes else ""

    admit = step.gate(0, 0, hidden, peephole(0, cell))
    if get_int(step.node, "input_forget"):
        forget = context.op(elementwise.Sub, step.number(1.0), admit)
    else:
        forget = step.gate(2, 0, hidden, peephole(2, cell))
    candidate = step.gate(3, 1, hidden)
    kept, added = context.op(elementwise.Mul, forget, cell), context.op(elementwise.Mul, admit, candidate)
    new_cell = context.op(elementwise.Add, kept, added)
    emit = step.gate(1, 0, hidden, peephole(1, new_cell))
    return [context.op(elementwise.Mul, emit, step.activate(2, new_cell, is_gate=False)), new_cell]


CELLS: Mapping[str, Callable[[Step], list[str]]] = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _body(step: Step, projected: str, hidden: int, lengths: str) -> Graph:
    """The loop's body: the next states, and the hidden one once more to be collected."""
    context, names = step.context, step.context.names
    stem = step.node.output[0]
    iteration, condition = names.new(f"{stem}/step"), names.new(f"{stem}/goes_on")
    row = context.op(indexing.Gather, projected, iteration, axis=0)
    step.inputs = _parts(context, row, [hidden] * GATES[step.node.op_type or ""], -1)
    states = CELLS[step.node.op_type or ""](step)
    collected = states[0]
    if lengths:
        alive = context.op(comparison.Less, iteration, context.cast(lengths, INT64))
        alive = context.op(shape.Unsqueeze, alive, context.int64([-1]))
        collected = context.op(comparison.Where, alive, states[0], step.number(0))
        states = [context.op(comparison.Where, alive, new, old) for new, old in zip(states, step.states, strict=True)]
    else:
        collected = context.op(shape.Identity, states[0])
    goes_on = names.new(f"{stem}/goes_on")
    context.emit(make_node(shape.Identity.name, [condition], [goes_on]))
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


def _initial(context: Context, place: int, hidden: int, own: Callable[[str], str]) -> str:
    """The state before the first step, zero where it is not given."""
    if context.optional(place):
        return own(context.input(place))
    batch = shape.sizes_of(context, context.input(0), 1, 2)
    return context.op(
        shape.Expand, context.scalar(0, like=context.input(0)), shape.joined(context, batch, context.int64([hidden]))
    )


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
            (name, {key: given[key].pop(0) if given[key] else fallback for key, fallback in ACTIVATIONS[name][1]})
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
        return context.op(indexing.Gather, name, index, axis=0)

    def flipped(value: str) -> str:
        if not backwards:
            return value
        if lengths:
            return context.op(slicing.ReverseSequence, value, context.cast(lengths, INT64), batch_axis=1, time_axis=0)
        last = context.int64([-1])
        return context.op(slicing.Slice, value, last, context.int64([-INT64_MAX]), context.int64([0]), last)

    weight = context.op(shape.Transpose, own(context.input(1)), perm=[1, 0])
    recurrent_weight = context.op(shape.Transpose, own(context.input(2)), perm=[1, 0])
    projected, biases = context.op(matrix.MatMul, data, weight), []
    if context.optional(3):
        parts = _parts(context, own(context.input(3)), [gates * hidden] * 2, 0)
        projected = context.op(elementwise.Add, projected, parts[0])
        biases = _parts(context, parts[1], [hidden] * gates, 0)
    peepholes = _parts(context, own(context.input(7)), [hidden] * 3, 0) if context.optional(7) else []
    first = [_initial(context, place, hidden, own) for place in ((5, 6) if node.op_type == LSTM.name else (5,))]
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
    count = context.op(shape.Squeeze, shape.sizes_of(context, data, 0, 1), context.int64([0]))
    *states, steps = context.op_outputs(control_flow.Loop, [count, "", *first], len(first) + 1, body=body)
    return [flipped(steps), *states]


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
        parts = [context.op(shape.Unsqueeze, result[place], column) for result in results]
        values.append(context.op(slicing.Concat, *parts, axis=axis))
    return context.replace(*values)


RNN = OperatorSpec("RNN", dims=recurrent_dims, older=(dropped("output_sequence"),), rewritings=(recurrent,))
_DIRECTION = {"forward": "Forward", "reverse": "Reverse", "bidirectional": "Bidirectional"}
_RNN = (
    Field("direction", FieldKind.CHOICE, "forward", choices=_DIRECTION),
    Field("hidden_size", FieldKind.INT, 0, minimum=0),
)
_RNN_NEUTRAL = {"activation_alpha": ANY, "activation_beta": ANY, "clip": (0.0,), "layout": (0,)}
_GRU_ACTIVATIONS = (activation.Sigmoid.name, elementwise.Tanh.name)


def recurrence_raised(node: Node, context: Context) -> list[Node]:
    """RTen takes the size of the state from the weights, and does not look at the lengths of the sequences."""
    dims = context.dims(node.input[2]) if len(node.input) > 2 else None
    size = dims[-1] if dims and isinstance(dims[-1], int) else get_int(node, "hidden_size")
    inputs = [name if place != 4 else "" for place, name in enumerate(node.input)]
    while not inputs[-1]:
        inputs.pop()
    return context.changed(inputs, hidden_size=size)


def _recurrence_deviation(node: Node, context: Context) -> str:
    return "RTen does not look at the lengths of sequences, which are left out" if context.optional(4) else ""


GRU = OperatorSpec(
    "GRU",
    Row(
        6,
        2,
        "GRUAttrs",
        (*_RNN, Field("linear_before_reset", FieldKind.BOOL, 0)),
        {**_RNN_NEUTRAL, "activations": (_GRU_ACTIVATIONS, _GRU_ACTIVATIONS * 2)},
    ),
    signature=Signature("xxxxwx"),
    dims=recurrent_dims,
    older=(dropped("output_sequence"),),
    rewritings=(recurrent,),
    raised=recurrence_raised,
    deviation=_recurrence_deviation,
)
_LSTM_ACTIVATIONS = (*_GRU_ACTIVATIONS, elementwise.Tanh.name)
LSTM = OperatorSpec(
    "LSTM",
    Row(
        7,
        3,
        "LSTMAttrs",
        _RNN,
        {
            **_RNN_NEUTRAL,
            "activations": (_LSTM_ACTIVATIONS, _LSTM_ACTIVATIONS * 2),
            "input_forget": (0,),
        },
    ),
    signature=Signature("xxxxwx"),
    dims=recurrent_dims,
    older=(dropped("output_sequence"),),
    rewritings=(recurrent,),
    raised=recurrence_raised,
    deviation=_recurrence_deviation,
)
