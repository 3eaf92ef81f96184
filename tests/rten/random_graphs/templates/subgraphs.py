# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators with subgraphs."""

from __future__ import annotations

import numpy as np
import onnx

from tests.rten.random_graphs.builder import Builder, result_of, template
from tests.rten.random_graphs.graph import Discarded, Value


@template(2, since=9)
def branch(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    condition = b.some(("bool",), rank=0)
    made: list[tuple[onnx.GraphProto, Value]] = []
    for name in ("then_branch", "else_branch"):
        inner = b.child()
        inner.grow(b.rng.randint(1, 3))
        result = result_of(inner, len(b.values), made[0][1].array.dtype.name if made else None)
        made.append((inner.subgraph(name, [], [result]), result))
    b.emit("If", [condition], then_branch=made[0][0], else_branch=made[1][0])


@template(2, since=11)
def loop(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    trips = b.rng.choice((0, 1, 2, 2, 3))
    if trips == 0 and b.rng.random() < 0.6:
        trips = 2
    carried = [b.some(("float32", "int64", "float32")) for _ in range(b.rng.randint(1, 2))]
    inner = b.child()
    step = Value(inner.new_name(), np.asarray(0, np.int64))
    inner.values.append(step)
    goes_on = Value(inner.new_name(), np.asarray(True))
    inner.values.append(goes_on)
    states = []
    for value in carried:
        states.append(Value(inner.new_name(), value.array))
        inner.values.append(states[-1])
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 3))
    results = [result_of(inner, known, value.array.dtype.name, value.array.shape) for value in carried]
    collected = [result_of(inner, known, None)] if b.rng.random() < 0.5 else []
    results = results if len({value.name for value in results}) == len(results) else [
        inner.emit("Identity", [value])[0] for value in results]  # fmt: skip
    if collected and collected[0].name in {value.name for value in results}:
        collected = [inner.emit("Identity", [collected[0]])[0]]
    (condition,) = inner.emit("Identity", [goes_on])
    body = inner.subgraph("body", [step, goes_on, *states], [condition, *results, *collected])
    count = b.knob(trips) if b.rng.random() < 0.8 else b.constant(trips)
    start = b.rng.choice(("", b.constant(True, "bool")))
    b.emit("Loop", [count, start, *carried], len(results) + len(collected), body=body)


@template(1, since=11)
def scan(b: Builder) -> None:
    if b.depth > 1:
        raise Discarded
    data = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    state = b.some()
    inner = b.child()
    inputs = []
    for array in (state.array, data.array[0]):
        inputs.append(Value(inner.new_name(), array))
        inner.values.append(inputs[-1])
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 3))
    result = result_of(inner, known, "float32", state.array.shape)
    collected = inner.emit("Identity", [result_of(inner, known, None)])[0]
    body = inner.subgraph("body", inputs, [result, collected])
    b.emit("Scan", [state, data], 2, body=body, num_scan_inputs=1,
           scan_input_directions=b.rng.choice((None, [1])),
           scan_output_directions=b.rng.choice((None, [1])))  # fmt: skip
