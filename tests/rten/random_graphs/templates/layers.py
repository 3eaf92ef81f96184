# ruff: noqa: D103 - a template is named after what it adds
"""Templates for the layers of networks: products, convolutions, pools, normalisations, quantisation, recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.rten.random_graphs.builder import BYTES, Builder, template
from tests.rten.random_graphs.graph import Discarded


@template(1, since=13)
def clip_integers(b: Builder) -> None:
    value = b.some(("int32", "int64", "int8", "uint8"))
    kind = value.array.dtype.name
    bounds = [b.constant(b.rng.choice((1, 2)), kind), b.constant(b.rng.choice((3, 5)), kind)]
    b.emit("Clip", [value, *(bound if b.rng.random() < 0.7 else "" for bound in bounds)])


@template(1)
def clip(b: Builder) -> None:
    value = b.some()
    if b.version < 11:
        b.emit("Clip", [value], min=b.rng.choice((None, -1.0)), max=b.rng.choice((None, 1.5)))
    else:
        bounds = [b.knob(-1.0, "float32"), b.knob(1.5, "float32")]
        b.emit("Clip", [value, *(bound if b.rng.random() < 0.7 else "" for bound in bounds)])


@template(3)
def matrix_product(b: Builder) -> None:
    first = b.some(rank=(1, 2, 2, 3, 4), fits=lambda array: 0 not in array.shape)  # onnxruntime does not fill these
    depth = first.array.shape[-1]
    batch = first.array.shape[:-2] if b.rng.random() < 0.5 else ()
    dims = b.rng.choice(((depth,), (*batch, depth, b.width(3)), (*batch, depth, b.width(3))))
    b.emit("MatMul", [first, b.some(dims=dims)])


@template(1.5)
def gemm(b: Builder) -> None:
    first = b.some(rank=2)
    rows, depth = first.array.shape
    flip_first, flip_second = b.rng.random() < 0.3, b.rng.random() < 0.4
    if flip_first:
        rows, depth = depth, rows
    columns = b.width(3)
    second = b.some(dims=(columns, depth) if flip_second else (depth, columns))
    bias = b.some(dims=b.rng.choice(((columns,), (rows, columns), (1,), ())))
    attributes = {"alpha": b.rng.choice((None, 0.5)), "beta": b.rng.choice((None, 2.0))}
    extra = [bias] if b.version < 11 or b.rng.random() < 0.7 else []
    b.emit("Gemm", [first, second, *extra], transA=int(flip_first), transB=int(flip_second), **attributes)


@template(1, since=12)
def einsum(b: Builder) -> None:
    first = b.some(rank=2)
    equation = b.rng.choice(("ij,jk->ik", "ij,jk", "ij,kj->ik", "ij->ji", "ij->i", "ij,ij->ij"))
    rows, depth = first.array.shape
    inputs = [first]
    if "," in equation:
        dims = {"jk": (depth, 2), "kj": (2, depth), "ij": (rows, depth)}[equation.split(",")[1].split("-")[0]]
        inputs.append(b.some(dims=dims))
    b.emit("Einsum", inputs, equation=equation)


def window_attributes(b: Builder, spatial: Sequence[int], kernel: Sequence[int]) -> dict[str, Any]:
    """Return attributes for a window."""
    attributes: dict[str, Any] = {"strides": b.rng.choice((None, [b.rng.randint(1, 2) for _ in spatial]))}
    if b.rng.random() < 0.3:
        attributes["auto_pad"] = b.rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    elif b.rng.random() < 0.5:
        attributes["pads"] = [b.rng.randint(0, max(0, size - 1)) for size in (*kernel, *kernel)]
    return attributes


@template(2.5)
def convolution(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4, 4, 5)), fits=lambda array: 0 not in array.shape)
    channels, spatial = value.array.shape[1], value.array.shape[2:]
    group = b.rng.choice((1, 1, channels))
    kernel = [b.rng.randint(1, 3) for _ in spatial]
    weight = b.some(dims=(group * b.width(2), channels // group, *kernel), weight=True)
    bias = [b.some(dims=(weight.array.shape[0],))] if b.rng.random() < 0.5 else []
    attributes = window_attributes(b, spatial, kernel)
    if "auto_pad" not in attributes and b.rng.random() < 0.3:
        attributes["dilations"] = [b.rng.randint(1, 2) for _ in spatial]
    b.emit("Conv", [value, weight, *bias], group=group, **attributes)


@template(1)
def transposed_convolution(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4)), fits=lambda array: 0 not in array.shape)
    channels, spatial = value.array.shape[1], value.array.shape[2:]
    kernel = [b.rng.randint(1, 3) for _ in spatial]
    group = b.rng.choice((1, 1, channels))
    weight = b.some(dims=(channels, b.rng.randint(1, 2), *kernel), weight=True)
    bias = [b.some(dims=(weight.array.shape[1] * group,))] if b.rng.random() < 0.5 else []
    strides = b.rng.choice((None, [b.rng.randint(1, 2) for _ in spatial]))
    b.emit("ConvTranspose", [value, weight, *bias], group=group, strides=strides,
           dilations=b.rng.choice((None, None, [b.rng.randint(1, 2) for _ in spatial])))  # fmt: skip


@template(1.5, since=10)
def integer_convolution(b: Builder) -> None:
    value = b.some(("uint8",), rank=4, fits=lambda array: 0 not in array.shape)
    kernel = [b.rng.randint(1, 2) for _ in range(2)]
    weight = b.some((b.rng.choice(("uint8", "int8")),), dims=(b.width(2), value.array.shape[1], *kernel), weight=True)
    zeros = [b.constant(3, "uint8")] if b.rng.random() < 0.5 else []
    if zeros and b.rng.random() < 0.5:  # onnxruntime has none for each channel
        zeros.append(b.constant(b.rng.choice((7, 100)), weight.array.dtype.name))
    steps = {
        name: b.rng.choice((None, None, [b.rng.randint(1, 2) for _ in range(2)])) for name in ("strides", "dilations")
    }
    b.emit("ConvInteger", [value, weight, *zeros], **steps)


@template(1.5, since=10)
def integer_product(b: Builder) -> None:
    first = b.some(("uint8", "int8"), rank=(2, 3), fits=lambda array: 0 not in array.shape)
    second = b.some((b.rng.choice(BYTES),), dims=(first.array.shape[-1], b.width(3)))
    zeros = []
    if b.rng.random() < 0.6:
        columns = second.array.shape[1]
        zeros = [b.constant(3, first.array.dtype.name), b.zero_point(second.array.dtype.name, columns)]
    b.emit("MatMulInteger", [first, second, *zeros])


@template(2)
def pool(b: Builder) -> None:
    value = b.some(rank=b.rng.choice((3, 4, 4, 5)), fits=lambda array: 0 not in array.shape)
    spatial = value.array.shape[2:]
    kernel = [b.rng.randint(1, min(3, size)) for size in spatial]  # for larger windows, runtimes differ
    op_type = b.rng.choice(("MaxPool", "AveragePool", "LpPool"))
    attributes = window_attributes(b, spatial, kernel)
    if op_type == "AveragePool":
        attributes["count_include_pad"] = b.rng.choice((None, 1))
    if b.version >= 10 and op_type != "LpPool":
        attributes["ceil_mode"] = b.rng.choice((None, None, 1))
    b.emit(op_type, [value], kernel_shape=kernel, **attributes)


@template(0.7)
def global_pool(b: Builder) -> None:
    b.emit(b.rng.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")), [b.some(rank=(3, 4))])


@template(1.5, since=9)
def normalization(b: Builder) -> None:
    value = b.some(rank=(2, 3, 4), fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    scale, bias, mean = (b.some(dims=(channels,)) for _ in range(3))
    which = b.rng.randrange(4)
    if which == 0:
        variance = b.leaf(np.abs(b.data("float32", (channels,))) + 0.5)
        b.emit("BatchNormalization", [value, scale, bias, mean, variance])
    elif which == 1 and value.array.ndim > 2:
        b.emit("InstanceNormalization", [value, scale, bias])
    elif which == 2 and b.version >= 17:
        last = value.array.shape[-1]
        extra = [b.some(dims=(last,))] if b.rng.random() < 0.6 else []
        b.emit("LayerNormalization", [value, b.some(dims=(last,)), *extra])
    else:
        op_type = b.rng.choice(("LpNormalization", "MeanVarianceNormalization", "LRN"))
        if op_type == "MeanVarianceNormalization" and value.array.ndim != 4:
            raise Discarded  # the axes of images
        b.emit(op_type, [value], **({"size": 3} if op_type == "LRN" else {}))


@template(1)
def prelu(b: Builder) -> None:
    value = b.some(rank=(1, 2, 3, 4))
    b.emit("PRelu", [value, b.some(dims=(value.array.shape[-1],))])


@template(0.5)
def dropout(b: Builder) -> None:
    b.emit("Dropout", [b.some()], b.rng.choice((1, 1, 2)) if b.version >= 12 else 1)


@template(1)
def depth_and_space(b: Builder) -> None:
    value = b.some(rank=4)
    b.emit(b.rng.choice(("DepthToSpace", "SpaceToDepth")), [value], blocksize=b.rng.choice((1, 2)))


@template(1.5, since=11)
def resize(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    mode = b.rng.choice(("nearest", "linear"))
    transform = b.rng.choice((None, "asymmetric", "align_corners", "pytorch_half_pixel"))
    nearest = b.rng.choice((None, "floor")) if mode == "nearest" else None
    scales = sizes = ""
    if b.rng.random() < 0.6:
        scales = b.knob([1, 1, b.rng.choice((0.5, 1, 1.5, 2)), b.rng.choice((0.75, 1, 2, 3))], "float32")
    else:
        sizes = b.knob([*value.array.shape[:2], b.rng.randint(1, 6), b.rng.randint(1, 6)])
    b.emit("Resize", [value, b.constant([], "float32"), scales, sizes], mode=mode,
           coordinate_transformation_mode=transform, nearest_mode=nearest)  # fmt: skip


@template(2, since=10)
def quantization(b: Builder) -> None:
    kind = b.rng.choice(BYTES)
    scale = b.constant(b.rng.choice((0.25, 0.5, 0.5, 0.3)), "float32")
    zero = b.constant(b.rng.choice((0, 3)), kind)
    (whole,) = b.emit("QuantizeLinear", [b.some(exact=True), scale, zero])
    if b.rng.random() < 0.7:
        b.emit("DequantizeLinear", [whole, scale, zero])


@template(1, since=10)
def dequantization(b: Builder) -> None:
    value = b.some(("uint8", "int8"))
    b.emit("DequantizeLinear", [value, b.constant(0.25, "float32"), b.constant(2, value.array.dtype.name)])


@template(0.7, since=11)
def dynamic_quantization(b: Builder) -> None:
    whole, scale, zero = b.emit("DynamicQuantizeLinear", [b.some(exact=True)], 3)
    b.emit("DequantizeLinear", [whole, scale, zero])


@template(0.7)
def recurrence(b: Builder) -> None:
    op_type, gates = b.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, width, hidden = b.rng.randint(1, 3), b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.randint(1, 3)
    direction = b.rng.choice(("forward", "forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    inputs = [
        b.some(dims=(steps, batch, width)),
        b.leaf(b.data("float32", (count, gates * hidden, width)) / np.float32(4), constant=True),
        b.leaf(b.data("float32", (count, gates * hidden, hidden)) / np.float32(4), constant=True),
    ]
    if b.rng.random() < 0.5:
        inputs.append(b.leaf(b.data("float32", (count, 2 * gates * hidden)) / np.float32(4), constant=True))
    attributes = {"linear_before_reset": b.rng.choice((None, 1))} if op_type == "GRU" else {}
    b.emit(op_type, inputs, 2, hidden_size=hidden, direction=direction, **attributes)
