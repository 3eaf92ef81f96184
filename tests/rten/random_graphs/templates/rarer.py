# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators that few models have: bits, suppression, grids, sequences."""

from __future__ import annotations

import numpy as np

from tests.rten.random_graphs.builder import Builder, template
from tests.rten.random_graphs.graph import Value


@template(0.7, since=11)
def bits(b: Builder) -> None:
    if b.version >= 18 and b.rng.random() < 0.7:
        first = b.some(("int32", "uint8", "int8", "int16", "int64"))
        op_type = b.rng.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
        b.emit(op_type, [first, *([] if op_type == "BitwiseNot" else [b.like(first)])])
    else:
        first = b.some(("uint8", "uint32"))
        places = b.constant(b.rng.randint(0, 5), first.array.dtype.name)
        b.emit("BitShift", [first, places], direction=b.rng.choice(("LEFT", "RIGHT")))


@template(0.5, since=10)
def reverse_sequence(b: Builder) -> None:
    value = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    time_axis = b.rng.randint(0, 1)
    lengths = [b.rng.randint(1, value.array.shape[time_axis]) for _ in range(value.array.shape[1 - time_axis])]
    b.emit("ReverseSequence", [value, b.knob(lengths)], time_axis=time_axis, batch_axis=1 - time_axis)


@template(0.5, since=11)
def suppression(b: Builder) -> None:
    images, classes, count = b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.randint(1, 9)
    random = np.random.default_rng(b.rng.randrange(1 << 20))
    boxes = random.integers(0, 9, (images, count, 4)).astype(np.float32) / 2  # many of them overlap equally
    scores = random.integers(0, 9, (images, classes, count)).astype(np.float32) / 8
    given = [
        b.leaf(boxes),
        b.leaf(scores),
        b.knob([b.rng.randint(0, count)]),
        b.constant([b.rng.choice((0.3, 0.5))], "float32"),
    ]
    if b.rng.random() < 0.6:
        given.append(b.knob([b.rng.choice((0, 0.25, 0.5, 2))], "float32"))
    b.emit("NonMaxSuppression", given, center_point_box=b.rng.choice((None, 0, 1)))


@template(0.4, since=16)
def grid_sample(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    grid = b.leaf(b.data("float32", (value.array.shape[0], 2, 3, 2)) / np.float32(8))
    b.emit("GridSample", [value, grid])


@template(1.5, since=11)
def sequence(b: Builder) -> None:
    first = b.some(("float32", "int64"), rank=(0, 1, 2))
    rest = [b.some((first.array.dtype.name,), dims=first.array.shape) for _ in range(b.rng.randint(0, 2))]
    (made,) = b.emit("SequenceConstruct", [first, *rest])
    length = 1 + len(rest)
    place = b.rng.randint(-length, length)
    if b.rng.random() < 0.6:
        position = b.knob(place) if b.rng.random() < 0.5 else integer_scalar(b, place)
        (made,) = b.emit("SequenceInsert", [made, first, position])
        length += 1
    if b.rng.random() < 0.3 and length > 1:
        (made,) = b.emit("SequenceErase", [made, b.knob(b.rng.randrange(-length, length))])
        length -= 1
    if b.rng.random() < 0.5:
        b.emit("SequenceAt", [made, b.knob(b.rng.randrange(-length, length))])
    elif b.rng.random() < 0.5:
        b.emit("ConcatFromSequence", [made], axis=b.rng.choice((0, -1)), new_axis=b.rng.choice((None, 0, 1)))
    else:
        b.emit("SequenceLength", [made])


def integer_scalar(b: Builder, number: int) -> Value:
    """Return a computed scalar, from an input if the graph has inputs."""
    sign = b.rng.choice((1, -1))
    source = b.leaf(np.asarray(number * sign, np.int64))
    (made,) = b.emit("Abs" if number >= 0 else "Neg", [source]) if (number >= 0 or sign < 0) else [source]
    return made


@template(1, since=11)
def split_to_sequence(b: Builder) -> None:
    value = b.some(("float32", "int64"), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    split = b.rng.choice(("", b.constant(b.rng.randint(1, size))))
    keepdims = None if split else b.rng.choice((None, 0, 1))  # onnxruntime checks it even if there is a split input
    (made,) = b.emit("SplitToSequence", [value, split], axis=axis, keepdims=keepdims)
    b.emit("SequenceAt", [made, b.constant(0)])
