# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators that reduce, order, reshape, join or cut."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tests.rten.random_graphs.builder import ANY_TYPE, FLOATS, Builder, axis_of, some_axes, template
from tests.rten.random_graphs.graph import Discarded

REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSumExp", "ReduceLogSum")  # fmt: skip


def axes_of(b: Builder, op_type: str, axes: list[int] | None) -> tuple[list[str], dict[str, Any]]:
    """Return axes in the form of the operator set: additional inputs, and attributes."""
    as_input = 13 if op_type in ("ReduceSum", "Squeeze", "Unsqueeze") else 18
    if axes is not None and b.version < 11:
        axes = [abs(axis) for axis in axes]
    if axes is None:
        return [], {}
    return ([b.constant(axes)], {}) if b.version >= as_input else ([], {"axes": axes})


@template(3)
def reduction(b: Builder) -> None:
    op_type = b.rng.choice(REDUCTIONS)
    integers = op_type in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean", "ReduceProd", "ReduceL1")
    value = b.some(("float32", "float32", "float32", "int32", "int64") if integers else FLOATS)
    axes = some_axes(b, value) if b.rng.random() < 0.8 else None
    keep = b.rng.choice((None, 0, 1))
    inputs, attributes = axes_of(b, op_type, axes)
    (result,) = b.emit(op_type, [value, *inputs], keepdims=keep, **attributes)
    right = np.sum(value.array, None if axes is None else tuple(axes), keepdims=keep != 0)
    if result.array.shape != np.shape(right):  # without elements, onnxruntime may not reduce negative axes
        raise Discarded


@template(1.5)
def arg(b: Builder) -> None:
    value = b.some(("float32", "float32", "int32", "int8"), exact=True)
    axis = axis_of(b, value)
    if not value.array.shape[axis]:
        raise Discarded
    last = b.rng.choice((None, None, 0, 1)) if b.version >= 12 else None
    axis = axis if b.version >= 11 else axis % value.array.ndim
    b.emit(b.rng.choice(("ArgMax", "ArgMin")), [value], axis=axis, keepdims=b.rng.choice((None, 0, 1)),
           select_last_index=last)  # fmt: skip


@template(1)
def top(b: Builder) -> None:
    value = b.some(("float32", "float32", "int64"), exact=True)
    axis = axis_of(b, value)
    size = value.array.shape[axis]
    axis = axis if b.version >= 11 else abs(axis) % value.array.ndim
    size = value.array.shape[axis]
    if b.version >= 11:
        largest = b.rng.choice((None, 0, 1))
        b.emit(
            "TopK",
            [value, b.knob([b.rng.randint(0 if b.has_empty else min(1, size), size)])],
            2,
            axis=axis,
            largest=largest,
        )
    elif b.version == 10:
        b.emit("TopK", [value, b.knob([size])], 2, axis=axis)
    else:
        b.emit("TopK", [value], 2, axis=axis, k=size)


@template(2.5)
def softmax(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    axis = axis_of(b, value)
    axis = axis if b.version >= 11 else abs(axis) % value.array.ndim
    b.emit(b.rng.choice(("Softmax", "LogSoftmax")), [value], axis=b.rng.choice((None, axis)))


@template(0.7)
def hardmax(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3), exact=True)
    axis = axis_of(b, value)
    b.emit("Hardmax", [value], axis=axis if b.version >= 11 else abs(axis) % value.array.ndim)


@template(3)
def shape(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    start = b.rng.randint(-2, 2) if b.version >= 15 and b.rng.random() < 0.4 else None
    end = b.rng.randint(-1, 4) if b.version >= 15 and b.rng.random() < 0.4 else None
    if b.rng.random() < 0.25:
        b.emit("Size", [value])
    else:
        b.emit("Shape", [value], start=start, end=end)


def targets(array: np.ndarray, rng: random.Random) -> list[int]:
    """Return dims with the same number of elements."""
    size, dims = array.size, []
    for _ in range(rng.randint(0, 3)):
        factor = rng.choice([number for number in (1, 2, 3, 4, 6) if size % number == 0] or [1])
        dims.append(factor)
        size //= factor
    dims.insert(rng.randint(0, len(dims)), size)
    return dims


@template(3)
def reshape(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    dims = targets(value.array, b.rng)
    if b.rng.random() < 0.4 and value.array.size:
        dims[b.rng.randrange(len(dims))] = -1
    for place, size in enumerate(dims):
        if place < value.array.ndim and value.array.shape[place] == size and b.rng.random() < 0.3:
            dims[place] = 0
    b.emit("Reshape", [value, b.knob(dims)])


@template(1)
def reshape_computed(b: Builder) -> None:
    """Reshape to a shape that is computed from another value's."""
    value = b.some(ANY_TYPE)
    (dims,) = b.emit("Shape", [value])
    if value.array.ndim < 1 or not value.array.size:
        raise Discarded
    if b.rng.random() < 0.5:
        (first,) = b.emit("Gather", [dims, b.constant([0])], axis=0)
        (target,) = b.emit("Concat", [first, b.constant([-1])], axis=0)
    else:
        (target,) = b.emit("ReduceProd", [dims], keepdims=1)
    b.emit("Reshape", [value, target])


@template(1)
def flatten(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    b.emit("Flatten", [value], axis=b.rng.randint(0, value.array.ndim))


@template(2)
def squeeze(b: Builder) -> None:
    value = b.some(ANY_TYPE, fits=lambda array: 1 in array.shape)
    ones = [axis for axis, size in enumerate(value.array.shape) if size == 1]
    inputs, attributes = axes_of(b, "Squeeze", b.rng.choice((None, ones[:1], ones)))
    b.emit("Squeeze", [value, *inputs], **attributes)


@template(2)
def unsqueeze(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(0, 1, 2, 3))
    rank = value.array.ndim + b.rng.randint(1, 2)
    axes = b.rng.sample(range(rank), rank - value.array.ndim)
    if b.version >= 11:
        axes = [axis - rank if b.rng.random() < 0.3 else axis for axis in axes]
    inputs, attributes = axes_of(b, "Unsqueeze", axes)
    b.emit("Unsqueeze", [value, *inputs], **attributes)


@template(2)
def transpose(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    perm = list(range(value.array.ndim))
    b.rng.shuffle(perm)
    b.emit("Transpose", [value], perm=b.rng.choice((perm, perm, None)) if perm else None)


@template(1.5)
def expand(b: Builder) -> None:
    value = b.some(ANY_TYPE)
    dims = [b.rng.choice((size, size, 1)) if size != 1 else b.rng.randint(1, 3) for size in value.array.shape]
    extra = [b.rng.randint(1, 2) for _ in range(b.rng.choice((0, 0, 1)))]
    skipped = b.rng.choice((0, 0, 0, 1)) if not extra else 0
    b.emit("Expand", [value, b.knob([*extra, *dims[skipped:]])])


@template(1)
def tile(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    b.emit("Tile", [value, b.knob([b.rng.randint(0 if b.has_empty else 1, 2) for _ in value.array.shape])])


@template(4)
def concat(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    axis = b.rng.randrange(value.array.ndim)
    rest = [b.some((value.array.dtype.name,), dims=value.array.shape) for _ in range(b.rng.randint(0, 2))]
    b.emit("Concat", [value, *rest], axis=axis - (value.array.ndim if b.version >= 11 and b.rng.random() < 0.3 else 0))


@template(4)
def cut(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3, 4))
    rank = value.array.ndim
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, rank)))
    if b.rng.random() < 0.3:
        axes = list(range(len(axes)))
    starts, ends, steps = [], [], []
    for axis in axes:
        size = value.array.shape[axis]
        step = b.rng.choice((1, 1, 1, 2, -1, -2)) if b.version >= 10 else 1
        start = b.rng.randint(-size - 1, size)
        end = b.rng.choice((b.rng.randint(-size - 1, size + 1), (1 << 63) - 1, (1 << 31) - 1))
        if step < 0:
            start, end = (
                b.rng.choice((-1, size, size - 1, -size - 1, -(1 << 31))),
                b.rng.choice((-size - 1, -(1 << 31), -(1 << 63), 0)),
            )
        starts.append(start), ends.append(end), steps.append(step)
    if b.version < 10:
        b.emit("Slice", [value], starts=starts, ends=ends, axes=axes)
        return
    has_axes = axes != list(range(len(axes))) or b.rng.random() < 0.4
    has_steps = any(step != 1 for step in steps) or b.rng.random() < 0.3
    narrow = all(abs(number) < 1 << 31 for number in starts + ends) and b.rng.random() < 0.3
    kind = "int32" if narrow else "int64"
    axes = [axis - rank if b.rng.random() < 0.3 else axis for axis in axes]
    tail = [b.constant(axes, kind) if has_axes else "", b.constant(steps, kind) if has_steps else ""]
    b.emit("Slice", [value, b.knob(starts, kind), b.knob(ends, kind), *tail])


@template(1.5)
def split(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3))
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    count = b.rng.randint(1, 3)
    if b.rng.random() < 0.5 or (size % count and b.version < 18):
        cuts = sorted(b.rng.randint(0, size) for _ in range(count - 1))
        sizes = np.diff([0, *cuts, size]).tolist()
        if b.version >= 13:
            b.emit("Split", [value, b.constant(sizes)], count, axis=axis)
        else:
            b.emit("Split", [value], count, axis=axis, split=sizes)
    else:
        b.emit("Split", [value], count, axis=axis, num_outputs=count if b.version >= 18 else None)


@template(1.5)
def pad(b: Builder) -> None:
    value = b.some(("float32", "float32", "int32", "int64"), rank=(1, 2, 3))
    pads = [b.rng.choice((0, 0, 1, 2, -1)) for _ in range(2 * value.array.ndim)]
    mode = b.rng.choice((None, None, "constant", "reflect", "edge", "wrap"))
    if b.version < 11:
        b.emit("Pad", [value], pads=pads, mode=mode)
        return
    fill = b.constant(b.data(value.array.dtype.name, ()), value.array.dtype.name) if b.rng.random() < 0.4 else ""
    b.emit("Pad", [value, b.knob(pads), fill], mode=mode)
