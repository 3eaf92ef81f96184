"""Recurrent layers: native if RTen's kernel computes the same, and otherwise a Loop over the steps.

Spec: ONNX, Operators.md, RNN, GRU and LSTM.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final, NamedTuple

from formats.ir.attributes import attribute_named, get_float, get_floats, get_int, get_string, get_strings
from formats.ir.dtypes import BOOL, FLOAT, INT64
from formats.ir.model import Graph, Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.graph.attributes import make_node
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import dropped
from formats.rten.spec import ANY, Deviation, Field, OnnxLoader, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because
from formats.rten.types import FLOATS, INT64_MAX
from formats.tensordata.plan import RESULTS, SPECIAL

_ZERO_THRESHOLD = Deviation("onnxruntime uses 0 as the alpha of a ThresholdedRelu that has none", RESULTS)
# The activations by their names in lower case: the operator, if there is one, and the attributes with the defaults that
# layers have.
ACTIVATIONS: Mapping[str, tuple[str | None, tuple[tuple[str, float | None], ...]]] = {
    "relu": ("Relu", ()),
    "tanh": ("Tanh", ()),
    "sigmoid": ("Sigmoid", ()),
    "softsign": ("Softsign", ()),
    "softplus": ("Softplus", ()),
    "leakyrelu": ("LeakyRelu", (("alpha", 0.01),)),
    "thresholdedrelu": ("ThresholdedRelu", (("alpha", 1.0),)),
    "elu": ("Elu", (("alpha", 1.0),)),
    "hardsigmoid": ("HardSigmoid", (("alpha", 0.2), ("beta", 0.5))),
    "scaledtanh": (None, (("alpha", None), ("beta", None))),
    "affine": (None, (("alpha", None), ("beta", 0.0))),
}


# The axes of values in the comments below: T steps, B samples, H elements of a state, G * H those of all gates.


class Cell(NamedTuple):
    """What a layer computes in one step: its gates, its states, and the activations that it has by default."""

    compute: Callable[[Step], list[str]]  # computes the new states
    gates: int
    states: int
    activations: tuple[str, ...]


@dataclass
class Step:
    """The values that one step of one direction uses, inside of the loop."""

    context: Context
    direction: Direction
    activations: list[tuple[str, dict[str, float]]]
    weights: list[str]  # recurrent weights, one matrix per gate, transposed: H, H
    biases: list[str]  # recurrent biases, one per gate, H each; empty without a bias
    peepholes: list[str]  # weights from the cell to the gates, H each; empty without them
    states: list[str]  # the hidden state, and the cell of an LSTM: B, H
    elem_type: int

    def __post_init__(self) -> None:
        self.node = self.direction.node
        self.inputs: list[str] = []  # the input's part of each gate, with bias: B, H

    def number(self, value: float) -> str:
        """A constant of the layer's type."""
        return self.context.scalar(value, elem_type=self.elem_type)

    def begin(self, row: str, iteration: str) -> None:
        """Set `inputs` from the row of the loop's current step."""
        self.inputs = self.direction.of_gates(row, -1, self.context)

    def recurrent(self, gate: int, state: str) -> str:
        """A state's part of a gate, with bias."""
        product = self.context.op("MatMul", state, self.weights[gate])  # B, H
        return self.context.op("Add", product, self.biases[gate]) if self.biases else product

    def activate(self, number: int, value: str, *, is_gate: bool = True) -> str:
        """One of the activations applied to a value, which is first clipped if it belongs to a gate."""
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
        operator, _ = ACTIVATIONS[name]
        assert operator is not None
        return context.op(operator, value, **attributes)

    def gate(self, gate: int, activation: int, state: str, peephole: str = "") -> str:
        """One gate: from the input, the hidden state, and the cell through a peephole."""
        total = self.context.op("Add", self.inputs[gate], self.recurrent(gate, state))
        if peephole:
            total = self.context.op("Add", total, peephole)
        return self.activate(activation, total)


def _parts(context: Context, value: str, sizes: list[int], axis: int) -> list[str]:
    if len(sizes) == 1:
        return [value]
    return list(context.op_outputs("Split", [value, context.int64(sizes)], len(sizes), axis=axis))


def _gru_cell(step: Step) -> list[str]:
    """Spec: ONNX, Operators.md, GRU: the gates are update, reset and hidden."""
    context, hidden = step.context, step.states[0]
    update, reset = step.gate(0, 0, hidden), step.gate(1, 0, hidden)  # B, H
    if get_int(step.node, "linear_before_reset"):  # the reset is applied to the product, and not to the state
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
    remembered, added = context.op("Mul", forget, cell), context.op("Mul", admit, candidate)
    new_cell = context.op("Add", remembered, added)  # B, H
    emit = step.gate(1, 0, hidden, peephole(1, new_cell))
    return [context.op("Mul", emit, step.activate(2, new_cell, is_gate=False)), new_cell]


RNN_CELL = Cell(lambda step: [step.gate(0, 0, step.states[0])], 1, 1, ("tanh",))
GRU_CELL = Cell(_gru_cell, 3, 1, ("sigmoid", "tanh"))
LSTM_CELL = Cell(_lstm_cell, 4, 2, ("sigmoid", "tanh", "tanh"))


def _body(step: Step, projected: str, lengths: str) -> Graph:
    """The loop's body: the next states, and the hidden state again, to be collected."""
    context, names = step.context, step.context.names
    stem = step.node.output[0]
    iteration, condition = names.new(f"{stem}/step"), names.new(f"{stem}/goes_on")
    step.begin(context.op("Gather", projected, iteration, axis=0), iteration)  # of T, B, G * H the row of a step
    states = step.direction.cell.compute(step)
    collected = states[0]
    if lengths:
        # After its last step, a sample keeps its states, and its output is zero.
        alive = context.op("Less", iteration, context.cast(lengths, INT64))  # B
        alive = context.op("Unsqueeze", alive, [-1])  # B, 1
        collected = context.op("Where", alive, states[0], step.number(0))  # B, H
        states = [context.op("Where", alive, new, old) for new, old in zip(states, step.states, strict=True)]
    else:  # a body must not return one value twice
        collected = context.op("Identity", states[0])
    goes_on = names.new(f"{stem}/goes_on")
    context.emit(make_node("Identity", [condition], [goes_on]))
    sizes = context.dims(step.direction.context.input(0)) or (None,) * 3
    dims = (sizes[1], step.direction.hidden)  # B, H
    scalars = [context.value_info(iteration, INT64, ()), context.value_info(condition, BOOL, ())]
    return Graph(
        name=f"{stem}/body",
        node=context.emitted,
        input=[*scalars, *(context.value_info(name, step.elem_type, dims) for name in step.states)],
        output=[
            context.value_info(goes_on, BOOL, ()),
            *(context.value_info(name, step.elem_type, dims) for name in (*states, collected)),
        ],
    )


@dataclass
class Direction:
    """One direction of a layer."""

    node: Node
    context: Context
    cell: Cell
    hidden: int
    number: int
    backwards: bool

    def activations(self, without_default: Collection[str] = ()) -> list[tuple[str, dict[str, float]]]:
        """The activations with their attributes, which are taken from the lists of all directions in order.

        After the end of the lists, an attribute has its default; for activations in `without_default` it is zero.
        """
        default = self.cell.activations
        names = [name.lower() for name in get_strings(self.node, "activations") or default * 2]
        # A list has the numbers for the activations of all directions.
        parameters = {key: list(get_floats(self.node, f"activation_{key}") or ()) for key in ("alpha", "beta")}
        result = []
        for name in names:
            if name not in ACTIVATIONS:
                raise Refused(f"has the unknown activation {name!r}")
            attributes, alphas_before = {}, len(parameters["alpha"])
            for key, fallback in ACTIVATIONS[name][1]:
                number = parameters[key].pop(0) if parameters[key] else 0.0 if name in without_default else fallback
                if number is None:
                    raise Refused(f"does not give {key} of its activation {name!r}, for which ONNX has no default")
                attributes[key] = number
            if name == "thresholdedrelu" and len(parameters["alpha"]) == alphas_before:
                self.context.report(_ZERO_THRESHOLD, is_defined=False)
            result.append((name, attributes))
        count = len(default)
        # The activations may be given once for both directions.
        return result[self.number * count : (self.number + 1) * count] or result[:count]

    def of_gates(self, value: str, axis: int, context: Context | None = None) -> list[str]:
        """The parts of a value that belong to each gate, none if there is no value."""
        return _parts(context or self.context, value, [self.hidden] * self.cell.gates, axis) if value else []

    def own(self, place: int) -> str:
        """The part of an input that belongs to this direction."""
        index = self.context.int64_scalar(self.number)
        return self.context.op("Gather", self.context.input(place), index, axis=0)

    def flipped(self, value: str) -> str:
        """The steps of each sample in the order in which this direction reads them."""
        if not self.backwards:
            return value
        context, lengths = self.context, self.context.optional(4)
        if lengths:
            return context.op("ReverseSequence", value, context.cast(lengths, INT64), batch_axis=1, time_axis=0)
        last = context.int64([-1])
        return context.op("Slice", value, last, [-INT64_MAX], [0], last)

    def first_states(self) -> list[str]:
        """The states before the first step, zero if they are not given."""
        context, states = self.context, []
        for place in range(5, 5 + self.cell.states):
            if context.optional(place):
                states.append(self.own(place))
                continue
            # The axes of a state: B, H.
            dims = shape.joined(context, shape.sizes_of(context, context.input(0), 1, 2), context.int64([self.hidden]))
            states.append(context.op("Expand", context.scalar(0, like=context.input(0)), dims))
        return states

    def biases(self) -> tuple[str, str]:
        """The biases of the input and of the state, each for all gates; empty without a bias."""
        if not self.context.optional(3):
            return "", ""
        # The biases are one vector of 2 * G * H.
        first, second = _parts(self.context, self.own(3), [self.cell.gates * self.hidden] * 2, 0)
        return first, second

    def peepholes(self) -> list[str]:
        """The weights from the cell to the gates; empty without them."""
        return _parts(self.context, self.own(7), [self.hidden] * 3, 0) if self.context.optional(7) else []

    def state_names(self) -> list[str]:
        """The names of the states in the loop."""
        return [self.context.names.new(f"{self.node.op_type}/state") for _ in range(self.cell.states)]

    def run(self, step: Step, projected: str) -> list[str]:
        """All outputs, and the last states, by a loop over the rows of the input's part of the gates."""
        context = self.context
        body = _body(step, self.flipped(projected), context.optional(4))
        count = shape.length_of(context, context.input(0), 0)
        first = self.first_states()
        # The last states, B, H each, and the hidden states of all steps, T, B, H.
        *states, steps = context.op_outputs("Loop", [count, "", *first], len(first) + 1, body=body)
        return [self.flipped(steps), *states]


def directions_of(node: Node, context: Context, cell: Cell, hidden: int) -> list[Direction]:
    """The directions of a layer."""
    direction = get_string(node, "direction", "forward")
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(direction)
    if backwards is None:
        raise Refused(f"has the unknown direction {direction!r}")
    return [Direction(node, context, cell, hidden, number, back) for number, back in enumerate(backwards)]


def side_by_side(context: Context, results: list[list[str]]) -> list[Node]:
    """The outputs of all directions as those of the layer: T, directions, B, H, and the states without T."""
    values = []
    for place, axis in enumerate((1, 0, 0)[: len(results[0])]):
        column = context.int64([axis])
        parts = [context.op("Unsqueeze", result[place], column) for result in results]  # a new axis for the directions
        values.append(context.op("Concat", *parts, axis=axis))
    return context.replace(*values)


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


CELLS = {"RNN": RNN_CELL, "GRU": GRU_CELL, "LSTM": LSTM_CELL}


def _is_native(node: Node, context: Context) -> bool:
    """Whether RTen's kernel computes the same."""
    if node.op_type == "RNN" or context.optional(4) or context.optional(7) or get_float(node, "clip"):
        return False
    if get_int(node, "input_forget") or (node.op_type == "GRU" and not get_int(node, "linear_before_reset")):
        return False
    default = list(CELLS[node.op_type or ""].activations)
    named = [name.lower() for name in get_strings(node, "activations")]
    return named in ([], default, default * 2)


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
    perms = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])  # T, directions, B, H; the states without T
    values = [
        context.op("Transpose", name, perm=perm) if name else "" for name, perm in zip(outputs, perms, strict=False)
    ]
    return context.replace(*values)


def _hidden_size(node: Node, context: Context) -> int:
    dims = context.dims(context.input(2))
    size = dims[-1] if dims else get_int(node, "hidden_size")
    if not isinstance(size, int) or not size:
        raise Refused("has an unknown hidden size", "set the attribute hidden_size")
    return size


def _outputs(direction: Direction) -> list[str]:
    """All outputs, and the last states, of one direction.

    The input's part of the gates does not depend on the states, so one product before the loop has it for all steps.
    """
    context, data = direction.context, direction.context.input(0)
    weight = context.op("Transpose", direction.own(1), perm=[1, 0])  # elements of the input, G * H
    recurrent_weight = context.op("Transpose", direction.own(2), perm=[1, 0])  # H, G * H
    projected = context.op("MatMul", data, weight)  # T, B, G * H
    bias, recurrent_bias = direction.biases()
    if bias:
        projected = context.op("Add", projected, bias)  # T, B, G * H
    step = Step(
        context.nested(),
        direction,
        direction.activations(),
        direction.of_gates(recurrent_weight, 1),
        direction.of_gates(recurrent_bias, 0),
        direction.peepholes(),
        direction.state_names(),
        context.elem_type(data) or FLOAT,
    )
    return direction.run(step, projected)


MAX_WEIGHTS = 1 << 16  # the most weights that are checked


_OF_NAN: Final = Deviation("onnxruntime may return numbers for NaN", SPECIAL)
_SKIPPED: Final = Deviation("zero states times infinity are NaN in RTen, but onnxruntime may skip the product", SPECIAL)


def _weights_unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    """What is reported for NaN, and if weights are computed, or are few and not finite. Many count as finite."""
    for name in node.input[1:3]:
        if context.elem_type(name) not in FLOATS:
            continue
        dims = context.dims(name)
        is_large = prod(dim for dim in dims or () if isinstance(dim, int)) > MAX_WEIGHTS
        if context.scope.constant(name) is None or (not is_large and None in context.scope.range_of(name)):
            return (_OF_NAN, _SKIPPED)
    return (_OF_NAN,)


@because("RTen's layers support only some forms; others become a loop")
def recurrent(node: Node, context: Context) -> list[Node] | None:
    if get_int(node, "layout"):
        return _with_time_first(node, context)
    if _all_steps_count(context):
        inputs = list(node.input)
        inputs[4] = ""
        return context.changed(inputs)
    if _is_native(node, context):
        is_said = not context.target.is_onnx or attribute_named(node, "hidden_size") is not None
        return None if is_said else context.changed(hidden_size=_hidden_size(node, context))
    for deviation in _weights_unspecified(node, context):
        context.report(deviation, is_defined=False)
    cell = CELLS[node.op_type or ""]
    directions = directions_of(node, context, cell, _hidden_size(node, context))
    return side_by_side(context, [_outputs(direction) for direction in directions])


RNN = OperatorSpec("RNN", Outputs(recurrent_dims), ToRten(older=(dropped("output_sequence"),), rewritings=(recurrent,)))
_DIRECTION = {"forward": "Forward", "reverse": "Reverse", "bidirectional": "Bidirectional"}
_RNN = (Field("direction", str, "forward", choices=_DIRECTION), Field("hidden_size", int, 0, minimum=0))
_RNN_NEUTRAL = {"activation_alpha": ANY, "activation_beta": ANY, "clip": (0.0,), "layout": (0,)}
_LINEAR = Field("linear_before_reset", bool, 0)
ONNX_RNN = (_RNN[0], _RNN[1]._replace(required=True))  # for its ONNX loader
_TAKEN = {"activation_alpha": ((),), "activation_beta": ((),), "clip": (0.0,), "layout": (0,)}


def recurrence_raised(node: Node, context: Context) -> list[Node]:
    """RTen takes the size of the state from the weights, and does not look at the lengths of the sequences."""
    dims = context.dims(node.input[2]) if len(node.input) > 2 else None
    size = dims[-1] if dims and isinstance(dims[-1], int) else get_int(node, "hidden_size")
    inputs = [name if place != 4 else "" for place, name in enumerate(node.input)]
    while not inputs[-1]:
        inputs.pop()
    return context.changed(inputs, hidden_size=size)


_NO_LENGTHS: Final = Deviation("RTen ignores the lengths of sequences, so they are dropped", RESULTS)


def _layer(
    name: str, inputs: int, outputs: int, activations: tuple[str, ...], values: Outputs, *fields: Field, **neutral: Any
) -> OperatorSpec:
    """A layer for which RTen has a kernel, with its most inputs and outputs, and the only activations of the kernel."""
    neutral = {"activations": (activations, activations * 2), **neutral}  # of one direction, and of two
    return OperatorSpec(
        name,
        values,
        ToRten(
            Row(inputs, outputs, f"{name}Attrs", (*_RNN, *fields), {**_RNN_NEUTRAL, **neutral}),
            older=(dropped("output_sequence"),),
            rewritings=(recurrent,),
            unspecified=_weights_unspecified,
        ),
        ToOnnx(
            "xxxxwx",
            rewriting=recurrence_raised,
            deviations=lambda node, context: (_NO_LENGTHS,) if context.optional(4) else (),
        ),
        OnnxLoader(Row(inputs, outputs, fields=(*ONNX_RNN, *fields)), {**_TAKEN, **neutral}),
    )


GRU = _layer("GRU", 6, 2, ("Sigmoid", "Tanh"), Outputs(recurrent_dims), _LINEAR)
_BOUNDED = Outputs(recurrent_dims, range=ranges.between(-1, 1))
LSTM = _layer("LSTM", 7, 3, ("Sigmoid", "Tanh", "Tanh"), _BOUNDED, input_forget=(0,))
