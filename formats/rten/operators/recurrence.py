"""Recurrent layers: native if RTen's kernel computes the same, and otherwise a Loop over the steps.

Spec: ONNX, Operators.md, RNN, GRU and LSTM.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import FLOAT
from formats.rten.convert.refusal import Refused
from formats.rten.graph.attributes import find, get_float, get_int, get_string, get_strings
from formats.rten.operators.shared import ranges, recurrent_loop
from formats.rten.operators.shared.rewritings import dropped
from formats.rten.operators.shared.spec import (
    ANY,
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
)
from formats.rten.types import FLOATS
from formats.tensordata.plan import RESULTS, SPECIAL

if TYPE_CHECKING:
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


CELLS = {"RNN": recurrent_loop.RNN_CELL, "GRU": recurrent_loop.GRU_CELL, "LSTM": recurrent_loop.LSTM_CELL}


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
    perms = ([2, 0, 1, 3], [1, 0, 2], [1, 0, 2])
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


def _outputs(direction: recurrent_loop.Direction) -> list[str]:
    """All outputs, and the last states, of one direction."""
    context, data = direction.context, direction.context.input(0)
    weight = context.op("Transpose", direction.own(1), perm=[1, 0])
    recurrent_weight = context.op("Transpose", direction.own(2), perm=[1, 0])
    projected = context.op("MatMul", data, weight)
    bias, recurrent_bias = direction.biases()
    if bias:
        projected = context.op("Add", projected, bias)
    step = recurrent_loop.Step(
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
        is_said = not context.target.is_onnx or find(node, "hidden_size") is not None
        return None if is_said else context.changed(hidden_size=_hidden_size(node, context))
    for deviation in _weights_unspecified(node, context):
        context.report(deviation, is_defined=False)
    cell = CELLS[node.op_type or ""]
    directions = recurrent_loop.directions_of(node, context, cell, _hidden_size(node, context))
    return recurrent_loop.side_by_side(context, [_outputs(direction) for direction in directions])


RNN = OperatorSpec("RNN", Outputs(recurrent_dims), ToRten(older=(dropped("output_sequence"),), rewritings=(recurrent,)))
_DIRECTION = {"forward": "Forward", "reverse": "Reverse", "bidirectional": "Bidirectional"}
_RNN = (
    Field("direction", FieldKind.CHOICE, "forward", choices=_DIRECTION),
    Field("hidden_size", FieldKind.INT, 0, minimum=0),
)
_RNN_NEUTRAL = {"activation_alpha": ANY, "activation_beta": ANY, "clip": (0.0,), "layout": (0,)}
_LINEAR = Field("linear_before_reset", FieldKind.BOOL, 0)
ONNX_RNN = (_RNN[0], _RNN[1]._replace(required=True))  # for its ONNX loader
_TAKEN = {"activation_alpha": ((),), "activation_beta": ((),), "clip": (0.0,), "layout": (0,)}
_GRU_ACTIVATIONS = ("Sigmoid", "Tanh")


def recurrence_raised(node: Node, context: Context) -> list[Node]:
    """RTen takes the size of the state from the weights, and does not look at the lengths of the sequences."""
    dims = context.dims(node.input[2]) if len(node.input) > 2 else None
    size = dims[-1] if dims and isinstance(dims[-1], int) else get_int(node, "hidden_size")
    inputs = [name if place != 4 else "" for place, name in enumerate(node.input)]
    while not inputs[-1]:
        inputs.pop()
    return context.changed(inputs, hidden_size=size)


_NO_LENGTHS: Final = Deviation("RTen ignores the lengths of sequences, so they are dropped", RESULTS)


def _recurrence_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_NO_LENGTHS,) if context.optional(4) else ()


GRU = OperatorSpec(
    "GRU",
    Outputs(recurrent_dims),
    ToRten(
        Row(
            6,
            2,
            "GRUAttrs",
            (*_RNN, _LINEAR),
            {**_RNN_NEUTRAL, "activations": (_GRU_ACTIVATIONS, _GRU_ACTIVATIONS * 2)},
        ),
        older=(dropped("output_sequence"),),
        rewritings=(recurrent,),
        unspecified=_weights_unspecified,
    ),
    to_onnx=ToOnnx(Signature("xxxxwx"), rewriting=recurrence_raised, deviations=_recurrence_deviations),
    onnx_loader=OnnxLoader(
        Row(6, 2, fields=(*ONNX_RNN, _LINEAR)), {**_TAKEN, "activations": (_GRU_ACTIVATIONS, _GRU_ACTIVATIONS * 2)}
    ),
)
_LSTM_ACTIVATIONS = (*_GRU_ACTIVATIONS, "Tanh")
LSTM = OperatorSpec(
    "LSTM",
    Outputs(recurrent_dims, range=ranges.between(-1, 1)),
    ToRten(
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
        older=(dropped("output_sequence"),),
        rewritings=(recurrent,),
        unspecified=_weights_unspecified,
    ),
    to_onnx=ToOnnx(Signature("xxxxwx"), rewriting=recurrence_raised, deviations=_recurrence_deviations),
    onnx_loader=OnnxLoader(
        Row(7, 3, fields=ONNX_RNN),
        {**_TAKEN, "activations": (_LSTM_ACTIVATIONS, _LSTM_ACTIVATIONS * 2), "input_forget": (0,)},
    ),
)
