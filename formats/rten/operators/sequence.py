"""Sequences of tensors, and optional values."""

from __future__ import annotations

from dataclasses import replace

from formats.ir.attributes import attribute_named, get_int
from formats.ir.dtypes import BOOL, FLOAT, INT64
from formats.ir.model import Graph, Node, SequenceType, TensorType, Type, ValueInfo
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType, declared_type
from formats.rten.graph.attributes import make_node
from formats.rten.operators import ranges
from formats.rten.operators.rules import always, normalize, of_attribute, same, scalar, without_gaps
from formats.rten.spec import (
    KEEP_DIMS,
    Deviation,
    Field,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    axis_field,
    because,
    unknown,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import BYTES, VALUE_TYPES
from formats.tensordata.plan import RESULTS

SequenceAt = OperatorSpec(
    "SequenceAt", Outputs(same, range=ranges.of(0)), ToRten(Row(2)), ToOnnx("Si", "E", ranks={1: 0})
)


def joined_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """For a sequence, the common dims of all its tensors: the first two inputs, or all of them."""
    tensors = types[:2] if node.op_type == "SequenceInsert" else types
    first, *rest = (entry.dims for entry in tensors)
    for other in rest:
        if first is None or other is None or len(first) != len(other):
            return []
        first = tuple(a if a == b else None for a, b in zip(first, other, strict=True))
    return [first]


SequenceConstruct = OperatorSpec(
    "SequenceConstruct",
    Outputs(joined_dims, range=ranges.of_all, makes_sequence=True),
    ToRten(Row(None)),
    ToOnnx("E", "S", rewriting=without_gaps),
)
SequenceEmpty = OperatorSpec(
    "SequenceEmpty",
    Outputs(elements=of_attribute("dtype", FLOAT), makes_sequence=True),
    ToRten(Row(0, 1, "SequenceEmptyAttrs", (Field("dtype", int, choices=VALUE_TYPES),))),
    ToOnnx("", "S"),
)
SequenceErase = OperatorSpec(
    "SequenceErase",
    Outputs(same, range=ranges.of(0), makes_sequence=True),
    ToRten(Row(2)),
    ToOnnx("Si", "S", ranks={1: 0}),
)


@because("RTen counts a negative position from the end after the insertion, ONNX from the end before it")
def sequence_insert(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    sequence, place = context.input(0), context.optional(2)
    number_of_place = context.scope.ints(place) if place else None
    if not place or context.scope.is_natural(place) or (number_of_place is not None and number_of_place[0] >= 0):
        return None
    number = context.cast(place, INT64)
    from_end = op("Add", number, op("SequenceLength", sequence))
    if number_of_place is None:
        is_negative = op("Less", number, 0)
        from_end = op("Where", is_negative, from_end, number)
    return context.changed([sequence, context.input(1), op("Abs", from_end)])


SequenceInsert = OperatorSpec(
    "SequenceInsert",
    Outputs(joined_dims, range=ranges.of(0, 1), makes_sequence=True),
    ToRten(Row(3), rewritings=(sequence_insert,)),
    ToOnnx("SEi", "S", ranks={2: 0}),
)
SequenceLength = OperatorSpec(
    "SequenceLength", Outputs(scalar, always(INT64), range=ranges.sizes), ToRten(Row(1)), ToOnnx("S")
)


def split_to_sequence_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims with parts of an unknown size along one axis, or without that axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims))
    is_split = len(node.input) > 1 and node.input[1]
    part = (None,) if is_split or get_int(node, "keepdims", 1) else ()
    return [(*dims[:axis], *part, *dims[axis + 1 :])]


SplitToSequence = OperatorSpec(
    "SplitToSequence",
    Outputs(split_to_sequence_dims, range=ranges.of(0), makes_sequence=True),
    ToRten(Row(2, 1, "SplitToSequenceAttrs", (axis_field(0), KEEP_DIMS))),
    ToOnnx("Ei", "S"),
)


def concat_from_sequence_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the tensors, with an unknown number along the axis, or in a new one."""
    dims, is_new = types[0].dims, get_int(node, "new_axis")
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims) + (1 if is_new else 0))
    return [(*dims[:axis], None, *dims[axis if is_new else axis + 1 :])]


_OLD_AXES = Fault("counts a negative new axis from the rank before it is added", until=RTEN_0_26)


@because("Older releases miscount a new axis, so it is moved into place afterwards")
def concat_from_sequence(node: Node, context: Context) -> list[Node] | None:
    # Scalars have no axis: a loop joins them.
    sequence, axis = context.input(0), get_int(node, "axis")
    if context.elem_type(sequence) in BYTES:
        raise Refused(f"joins a sequence of {context.describe(sequence)}, but RTen supports only wider types")
    rank = context.rank(sequence)
    if not get_int(node, "new_axis") or not context.target.deviates(_OLD_AXES):
        return None
    if axis in (0, -1) and not rank and (axis == 0 or rank == 0):  # of an unknown rank: perhaps scalars
        return context.replace(_stacked(context, sequence))
    if axis >= 0 and (rank is None or axis < rank):
        return None
    rank = context.known_rank(sequence)
    if axis + rank + 1 < rank:
        return context.changed(axis=axis + rank + 1)
    stacked = context.op("ConcatFromSequence", sequence, axis=0, new_axis=1)
    return context.replace(context.op("Transpose", stacked, perm=[*range(1, rank + 1), 0]))


def _stacked(context: Context, sequence: str) -> str:
    """The tensors of a sequence along a new first axis, which scalars may be, too."""
    place, condition = (context.names.new(f"{sequence}/{what}") for what in ("place", "condition"))
    inner = context.nested()
    inner.scope.add_input(place, ValueType(INT64, ()))
    element = inner.op("SequenceAt", sequence, place)
    goes_on = inner.op("Identity", condition)  # always true
    body = Graph(
        name="element",
        node=inner.emitted,
        input=[context.value_info(place, INT64, ()), context.value_info(condition, BOOL, ())],
        output=[context.value_info(goes_on, BOOL, ()), ValueInfo(name=element)],
    )
    always = context.scalar(1, elem_type=BOOL)
    return context.op("Loop", context.op("SequenceLength", sequence), always, body=body)


_OLD_AXES_DEVIATION = Deviation(_OLD_AXES.sentence, RESULTS)


def _concatenation_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    if get_int(node, "new_axis") and get_int(node, "axis") < 0:
        return (_OLD_AXES_DEVIATION,)
    return ()


ConcatFromSequence = OperatorSpec(
    "ConcatFromSequence",
    Outputs(concat_from_sequence_dims, range=ranges.of(0)),
    ToRten(
        Row(1, 1, "ConcatFromSequenceAttrs", (axis_field(None), Field("new_axis", bool, 0))),
        rewritings=(concat_from_sequence,),
        faults=(_OLD_AXES,),
    ),
    ToOnnx("S", "E", deviations=_concatenation_deviations),
)


def sequence_map(node: Node, context: Context) -> list[Node] | None:
    """Write it as a Loop over the tensors of the sequences."""
    attribute = attribute_named(node, "body")
    if attribute is None or attribute.g is None:
        raise Refused("has no body")
    body, count = attribute.g, context.op("SequenceLength", context.input(0))
    kinds = [declared_type(value.type).elem_type if value.type else None for value in body.output]
    if not all(kinds):
        raise Refused("makes a sequence of an unknown type", "infer the model's types first")
    empty = [context.op("SequenceEmpty", dtype=kind) for kind in kinds]
    inner = context.nested()
    iteration, condition, goes_on, *states = (
        context.names.new(f"{node.output[0]}/{what}")
        for what in ("step", "goes_on", "goes_on", *("made" for _ in empty))
    )
    inner.scope.add_input(iteration, ValueType(INT64, ()))
    for place, (name, value) in enumerate(zip(node.input, body.input, strict=True)):
        is_sequence = place == 0 or context.scope.is_sequence(name)
        if is_sequence:
            inner.emit(make_node("SequenceAt", [name, iteration], [value.name or ""]))
        else:
            inner.emit(make_node("Identity", [name], [value.name or ""]))
    # The body reads its inputs, then come its own nodes, and then those that add its results to the sequences.
    taken = list(inner.emitted)
    inner.emitted.clear()
    longer_sequences = [
        inner.op("SequenceInsert", state, value.name or "") for state, value in zip(states, body.output, strict=True)
    ]
    inner.emit(make_node("Identity", [condition], [goes_on]))
    sequences = [
        Type(sequence_type=SequenceType(elem_type=Type(tensor_type=TensorType(elem_type=kind)))) for kind in kinds
    ]
    graph = replace(
        body,
        node=[*taken, *body.node, *inner.emitted],
        input=[
            context.value_info(iteration, INT64, ()),
            context.value_info(condition, BOOL, ()),
            *(ValueInfo(name=name, type=kind) for name, kind in zip(states, sequences, strict=True)),
        ],
        output=[
            context.value_info(goes_on, BOOL, ()),
            *(ValueInfo(name=name, type=kind) for name, kind in zip(longer_sequences, sequences, strict=True)),
        ],
    )
    return context.replace(*context.op_outputs("Loop", [count, "", *empty], len(empty), body=graph))


SequenceMap = OperatorSpec("SequenceMap", Outputs(elements=unknown), ToRten(rewritings=(sequence_map,)))


@because("RTen has no optional values, so the value stands for itself")
def optional_value(node: Node, context: Context) -> list[Node] | None:
    return context.replace(context.op("Identity", context.input(0)))


Optional = OperatorSpec("Optional", Outputs(elements=unknown), ToRten(rewritings=(optional_value,)))
OptionalGetElement = OperatorSpec("OptionalGetElement", Outputs(elements=unknown), ToRten(rewritings=(optional_value,)))


@because("RTen has no optional values, so a value is present if its input is given")
def optional_has_element(node: Node, context: Context) -> list[Node] | None:
    if context.scope.is_optional(context.optional(0)):
        raise Refused("tests whether an input of the model is present", "make it a tensor")
    return context.replace(context.array(bool(context.optional(0)), BOOL))


OptionalHasElement = OperatorSpec(
    "OptionalHasElement", Outputs(elements=unknown), ToRten(rewritings=(optional_has_element,))
)
