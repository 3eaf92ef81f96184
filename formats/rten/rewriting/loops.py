"""Loops over steps: Scan as the Loop that RTen has, and details of If and Loop that its kernels are strict about.

Spec: ONNX, Operators.md, Loop and Scan.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from formats.ir.model import Graph, SequenceType, TensorType, Type, ValueInfo
from formats.rten.convert.context import INT_MAX, Refused
from formats.rten.convert.value_types import BOOL, INT64, ValueType, declared_type
from formats.rten.dims import normalize
from formats.rten.graph.attributes import find, get_int, get_ints, make_node
from formats.rten.rewriting.shapes import sizes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def scan(node: Node, context: Context) -> list[Node] | None:
    """A loop whose body takes its slices itself."""
    attribute = find(node, "body")
    if attribute is None or attribute.g is None:
        raise Refused("has no body")
    if context.version < 9:
        return _scan_of_batch(node, context, attribute.g)
    body, scanned = attribute.g, get_int(node, "num_scan_inputs")
    count = len(node.input) - scanned
    if not 0 <= count < len(node.input) == len(body.input):
        raise Refused(f"scans {scanned} of {len(node.input)} inputs, and its body has {len(body.input)}")
    states, data = node.input[:count], node.input[count:]
    axes = get_ints(node, "scan_input_axes") or [0] * scanned
    backwards = get_ints(node, "scan_input_directions") or [0] * scanned
    axis = normalize(axes[0], context.known_rank(data[0]))
    steps = context.op("Squeeze", sizes_of(context, data[0], axis, axis + 1), context.int64([0]))
    inner = context.nested()
    iteration, condition = (context.names.new(f"{node.output[0]}/{what}") for what in ("step", "goes_on"))
    mirrored = ""
    for place, value in enumerate(body.input[count:]):
        index = iteration
        if backwards[place]:
            mirrored = mirrored or inner.op("Sub", inner.op("Sub", steps, context.int64_scalar(1)), iteration)
            index = mirrored
        inner.emit(make_node("Gather", [data[place], index], [value.name or ""], axis=axes[place]))
    goes_on = context.names.new(f"{node.output[0]}/goes_on")
    graph = Graph(
        name=body.name,
        node=[*inner.emitted, *body.node, make_node("Identity", [condition], [goes_on])],
        initializer=body.initializer,
        input=[
            context.value_info(iteration, INT64, is_scalar=True),
            context.value_info(condition, BOOL, is_scalar=True),
            *body.input[:count],
        ],
        output=[context.value_info(goes_on, BOOL, is_scalar=True), *body.output],
        value_info=body.value_info,
    )
    always = context.scalar(1, elem_type=BOOL)
    results = list(context.op_outputs("Loop", [steps, always, *states], len(node.output), body=graph))
    return context.replace(*results[:count], *_collected(node, context, results[count:]))


def _collected(node: Node, context: Context, results: list[str]) -> list[str]:
    """The collected outputs, with their steps in the order and along the axis that are asked for."""
    backwards = get_ints(node, "scan_output_directions") or [0] * len(results)
    axes = get_ints(node, "scan_output_axes") or [0] * len(results)
    found = []
    for name, back, axis in zip(results, backwards, axes, strict=True):
        value = name
        if back:
            last = context.int64([-1])
            value = context.op("Slice", value, last, context.int64([-INT_MAX]), context.int64([0]), last)
        if axis:
            rank = context.known_rank(value)
            order = list(range(1, rank))
            order.insert(normalize(axis, rank), 0)
            value = context.op("Transpose", value, perm=order)
        found.append(value)
    return found


def _scan_of_batch(node: Node, context: Context, body: Graph) -> list[Node]:
    """In operator set 8, all had a batch axis first: a loop over the samples, each of which is scanned."""
    if context.optional(0):
        raise Refused("has sequences of different lengths", "convert the model to operator set 9 or newer")
    samples = context.op("Squeeze", sizes_of(context, context.input(1), 0, 1), context.int64([0]))
    scanned = get_int(node, "num_scan_inputs")
    inner = context.nested()
    number, condition, goes_on = (
        context.names.new(f"{node.output[0]}/{what}") for what in ("sample", "condition", "goes_on")
    )
    made = inner.op_outputs(
        "Scan",
        [inner.op("Gather", name, number, axis=0) for name in node.input[1:]],
        len(node.output),
        body=body,
        num_scan_inputs=scanned,
        scan_input_directions=get_ints(node, "directions") or [0] * scanned,
    )
    inner.emit(make_node("Identity", [condition], [goes_on]))
    graph = Graph(
        name=body.name,
        node=inner.emitted,
        input=[context.value_info(name, kind, is_scalar=True) for name, kind in ((number, INT64), (condition, BOOL))],
        output=[context.value_info(goes_on, BOOL, is_scalar=True), *(ValueInfo(name=name) for name in made)],
    )
    always = context.scalar(1, elem_type=BOOL)
    return context.replace(*context.op_outputs("Loop", [samples, always], len(made), body=graph))


def sequence_map(node: Node, context: Context) -> list[Node] | None:
    """A loop over the tensors of sequences, that adds to others."""
    attribute = find(node, "body")
    if attribute is None or attribute.g is None:
        raise Refused("has no body")
    body, count = attribute.g, context.op("SequenceLength", context.input(0))
    kinds = [declared_type(value.type).elem_type if value.type else None for value in body.output]
    if not all(kinds):
        raise Refused("makes sequences of an unknown type", "infer the model's types first")
    empty = [context.op("SequenceEmpty", dtype=kind) for kind in kinds]
    inner = context.nested()
    iteration, condition, goes_on, *states = (
        context.names.new(f"{node.output[0]}/{what}")
        for what in ("step", "goes_on", "goes_on", *("made" for _ in empty))
    )
    inner.scope.add_input(iteration, ValueType(INT64, ()))
    for place, (name, value) in enumerate(zip(node.input, body.input, strict=True)):
        is_sequence = place == 0 or context.scope.is_sequence(name)
        op_type, inputs = ("SequenceAt", [name, iteration]) if is_sequence else ("Identity", [name])
        inner.emit(make_node(op_type, inputs, [value.name or ""]))
    taken = list(inner.emitted)
    inner.emitted.clear()
    made = [
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
            context.value_info(iteration, INT64, is_scalar=True),
            context.value_info(condition, BOOL, is_scalar=True),
            *(ValueInfo(name=name, type=kind) for name, kind in zip(states, sequences, strict=True)),
        ],
        output=[
            context.value_info(goes_on, BOOL, is_scalar=True),
            *(ValueInfo(name=name, type=kind) for name, kind in zip(made, sequences, strict=True)),
        ],
    )
    return context.replace(*context.op_outputs("Loop", [count, "", *empty], len(empty), body=graph))


REWRITINGS: Mapping[str, Rewriting] = {"Scan": scan, "SequenceMap": sequence_map}
