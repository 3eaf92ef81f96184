# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators that read or write elements at given places, and for those that make tensors."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from tests.rten.random_graphs.builder import ANY_TYPE, INDICES, Builder, axis_of, template
from tests.rten.random_graphs.graph import Value


@template(3)
def gather(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    size = value.array.shape[axis]
    dims = b.dims(b.rng.choice((0, 1, 1, 2)))
    lowest = -size if b.version >= 11 else 0
    indices = np.random.default_rng(b.rng.randrange(1 << 30)).integers(lowest, size, dims)
    b.emit("Gather", [value, b.knob(indices, b.rng.choice(INDICES))], axis=axis)


@template(1, since=11)
def gather_elements(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    dims = [size if place == axis else b.rng.randint(1, size) for place, size in enumerate(value.array.shape)]
    dims[axis] = b.rng.randint(1, 3)
    size = value.array.shape[axis]
    indices = np.random.default_rng(b.rng.randrange(1 << 30)).integers(-size, size, dims)
    b.emit("GatherElements", [value, b.knob(indices)], axis=axis)


@template(1, since=12)
def gather_nd(b: Builder) -> None:
    value = b.some(ANY_TYPE, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)
    count = b.rng.randint(1, value.array.ndim)
    rows = b.rng.randint(1, 3)
    columns = [[b.rng.randrange(-size, size) for _ in range(rows)] for size in value.array.shape[:count]]
    b.emit("GatherND", [value, b.knob(np.array(columns).T)])


def scatter_data(b: Builder) -> Value:
    """Return the data for a scatter operator."""
    types = ("float32", "float32", "int64", "int32", "int16", "uint8", "bool")
    return b.some(types, rank=(1, 2, 3), fits=lambda array: 0 not in array.shape)


@template(1.5, since=11)
def scatter_elements(b: Builder) -> None:
    value = scatter_data(b)
    axis = b.rng.randrange(value.array.ndim)
    dims = [b.rng.randint(1, size) for size in value.array.shape]
    whole = np.argsort(np.random.default_rng(b.rng.randrange(1 << 30)).random(value.array.shape), axis)
    indices = whole[tuple(slice(0, size) for size in dims)]
    names = [None, None, *(["add", "mul"] if b.version >= 16 else []), *(["min", "max"] if b.version >= 18 else [])]
    updates = b.some((value.array.dtype.name,), dims=dims)
    b.emit("ScatterElements", [value, b.knob(indices), updates], axis=axis, reduction=b.rng.choice(names))


@template(1, since=11)
def scatter_nd(b: Builder) -> None:
    value = scatter_data(b)
    count = b.rng.randint(1, value.array.ndim)
    places = list(np.ndindex(*value.array.shape[:count]))
    chosen = b.rng.sample(places, b.rng.randint(1, min(3, len(places))))
    names = [None, None, *(["add", "mul"] if b.version >= 16 else []), *(["min", "max"] if b.version >= 18 else [])]
    updates = b.some((value.array.dtype.name,), dims=(len(chosen), *value.array.shape[count:]))
    b.emit("ScatterND", [value, b.knob(chosen), updates], reduction=b.rng.choice(names))


@template(1, since=9)
def one_hot(b: Builder) -> None:
    indices = b.some(("int64", "int32"), rank=(1, 2))
    values = b.constant(b.rng.choice(([0, 1], [-1, 3])), b.rng.choice(("float32", "int64", "int32")))
    depth = b.constant(b.rng.choice(([4], 4)))
    b.emit("OneHot", [indices, depth, values], axis=b.rng.choice((None, 0, -1)))


@template(0.7, since=9)
def non_zero(b: Builder) -> None:
    b.emit("NonZero", [b.some(("float32", "int32", "bool", "int64", "uint8"), exact=True)])


@template(0.5, since=9)
def compress(b: Builder) -> None:
    value = b.some(("float32", "int64"), rank=(1, 2))
    axis = b.rng.randrange(value.array.ndim)
    b.emit("Compress", [value, b.some(("bool",), dims=(value.array.shape[axis],))], axis=axis)


@template(1, since=14)
def trilu(b: Builder) -> None:
    value = b.some(("float32", "int64", "bool"), rank=(2, 3))
    k = b.knob(b.rng.randint(-2, 2)) if b.rng.random() < 0.5 else ""
    b.emit("Trilu", [value, k], upper=b.rng.choice((None, 0, 1)))


@template(1, since=11)
def cum_sum(b: Builder) -> None:
    value = b.some(("float32", "int64", "int32"), rank=(1, 2, 3))
    b.emit("CumSum", [value, b.constant(axis_of(b, value), b.rng.choice(INDICES))],
           exclusive=b.rng.choice((None, 1)), reverse=b.rng.choice((None, 1)))  # fmt: skip


@template(1, since=11)
def numbers(b: Builder) -> None:
    kind = b.rng.choice(("int64", "int32", "float32"))
    bounds = [b.knob(number, kind) for number in (b.rng.randint(-3, 1), b.rng.randint(2, 6), b.rng.choice((1, 2)))]
    b.emit("Range", bounds)


@template(1, since=9)
def filled(b: Builder) -> None:
    kind = b.rng.choice(("float32", "int64", "int32", "bool", "uint8"))
    tensor = numpy_helper.from_array(b.data(kind, (1,)))
    if b.rng.random() < 0.5:
        (dims,) = b.emit("Shape", [b.some(ANY_TYPE)])
        b.emit("ConstantOfShape", [dims], value=tensor)
    else:
        b.emit("ConstantOfShape", [b.knob(list(b.dims(2)))], value=b.rng.choice((tensor, None)))


@template(0.5, since=9)
def eye(b: Builder) -> None:
    b.emit("EyeLike", [b.some(("float32", "int64"), rank=2)], k=b.rng.choice((None, 1, -1)))
