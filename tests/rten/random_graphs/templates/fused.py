# ruff: noqa: D103 - a template is named after what it adds
"""Templates for operators of com.microsoft, for attention, losses and signals, and for older and newer forms."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.rten.random_graphs.builder import INDICES, Builder, result_of, template
from tests.rten.random_graphs.graph import Discarded, Value
from tests.rten.random_graphs.templates.elementwise import CAST_TARGETS


@template(1)
def activation_of_two(b: Builder) -> None:
    """Operators that onnxruntime fuses with activations."""
    value = b.some(rank=(2, 3))
    width = value.array.shape[-1]
    which = b.rng.randrange(4)
    if which == 0:
        b.emit("QuickGelu", [value], domain="com.microsoft", alpha=b.rng.choice((None, 1.5)))
    elif which == 1:
        bias = [b.some(dims=(width,))] if b.rng.random() < 0.5 else []
        b.emit("FastGelu", [value, *bias], domain="com.microsoft")
    elif which == 2:
        b.emit("BiasGelu", [value, b.some(dims=(width,))], domain="com.microsoft")
    else:
        b.emit("Shrink", [b.some(exact=True)], lambd=b.rng.choice((None, 0.25)), bias=b.rng.choice((None, 0.5)))


@template(1)
def fused(b: Builder) -> None:
    """Products of onnxruntime's own domain, with scales and activations."""
    value = b.some(rank=2, fits=lambda array: 0 not in array.shape)
    rows, depth = value.array.shape
    columns = b.rng.randint(1, 3)
    activation = b.rng.choice(("Relu", "Tanh", "Sigmoid", "LeakyRelu"))
    if b.rng.random() < 0.5:
        flip, flip_first = b.rng.randint(0, 1), b.rng.randint(0, 1)
        depth = rows if flip_first else depth
        second = b.some(dims=(columns, depth) if flip else (depth, columns))
        b.emit("FusedMatMul", [value, second], domain="com.microsoft", alpha=b.rng.choice((None, 0.5)),
               transA=flip_first, transB=flip)  # fmt: skip
    else:
        bias = b.some(dims=(columns,))
        b.emit("FusedGemm", [value, b.some(dims=(depth, columns)), bias], domain="com.microsoft", activation=activation,
               alpha=b.rng.choice((None, 0.5)))  # fmt: skip


@template(0.5)
def fused_convolution(b: Builder) -> None:
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    weight = b.some(dims=(2, channels, 1, 1), weight=True)
    b.emit("FusedConv", [value, weight, b.some(dims=(2,))], domain="com.microsoft",
           activation=b.rng.choice(("Relu", "Tanh", "Sigmoid")))  # fmt: skip


@template(1)
def skipped(b: Builder) -> None:
    """Normalisations of the kinds that transformers have."""
    value = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    width = value.array.shape[-1]
    scale = b.some(dims=(width,))
    which = b.rng.randrange(5)
    if which == 0 and value.array.ndim == 3:
        extra = [b.some(dims=(width,))] if b.rng.random() < 0.6 else []
        b.emit("SkipLayerNormalization", [value, b.some(dims=value.array.shape), scale, *extra], domain="com.microsoft",
               epsilon=b.rng.choice((None, 0.5)))  # fmt: skip
    elif which == 1 and value.array.ndim == 3:
        b.emit("SkipSimplifiedLayerNormalization", [value, b.some(dims=value.array.shape), scale],
               domain="com.microsoft")  # fmt: skip
    elif which == 2 and b.version >= 23:
        b.emit("RMSNormalization", [value, scale])
    elif which == 3 and b.version >= 17:
        b.emit("LayerNormalization", [value, scale], b.rng.choice((1, 3)), epsilon=b.rng.choice((None, 0.5)))
    else:
        b.emit("SimplifiedLayerNormalization", [value, scale])


@template(0.5, since=18)
def group_normalization(b: Builder) -> None:
    value = b.some(rank=(3, 4), fits=lambda array: 0 not in array.shape)
    channels = value.array.shape[1]
    groups = b.rng.choice([number for number in (1, 2, 3, 4) if channels % number == 0])
    count = channels if b.version >= 21 else groups
    b.emit("GroupNormalization", [value, b.some(dims=(count,)), b.some(dims=(count,))], num_groups=groups)


@template(1.2)
def attention(b: Builder) -> None:
    """Attention of ONNX and of onnxruntime, with masks, biases, caches and fewer heads of keys."""
    batch, heads, steps, keys, size = (b.rng.randint(1, 2), b.rng.choice((1, 2, 2, 4)), b.rng.randint(1, 3),
                                       b.rng.randint(1, 4), b.rng.choice((1, 2, 4)))  # fmt: skip
    if b.version < 23 or b.rng.random() < 0.4:
        width = heads * size
        query, key, value = (b.some(dims=(batch, count, width)) for count in (steps, keys, keys))
        bias = b.some(dims=(3 * width,)) if b.rng.random() < 0.4 else ""
        mask = b.leaf(np.asarray(np.tri(batch, keys) > 0, np.int32)) if b.rng.random() < 0.3 else ""
        added = b.some(dims=(b.rng.choice((1, batch)), heads, steps, keys)) if b.rng.random() < 0.3 else ""
        b.emit("MultiHeadAttention", [query, key, value, bias, mask, added], domain="com.microsoft", num_heads=heads,
               scale=b.rng.choice((None, 0.5)))  # fmt: skip
        return
    of_keys = b.rng.choice([number for number in (1, 2, 4) if heads % number == 0])
    causal = b.rng.choice((None, 0, 1))
    attributes = {"is_causal": causal, "scale": b.rng.choice((None, 0.5)), "softcap": b.rng.choice((None, None, 2.0))}
    if b.rng.random() < 0.4:
        inputs: list[Any] = [b.some(dims=(batch, steps, heads * size))]
        inputs += [b.some(dims=(batch, keys, of_keys * size)) for _ in range(2)]
        attributes |= {"q_num_heads": heads, "kv_num_heads": of_keys}
    else:
        inputs = [b.some(dims=(batch, heads, steps, size)), *(b.some(dims=(batch, of_keys, keys, size)) for _ in "kv")]
    past = b.rng.choice((0, 0, 0, 1, 2))
    dims = b.rng.choice(((steps, keys + past), (batch, 1, steps, keys + past), (1, heads, steps, keys + past)))
    kind = b.rng.random()
    mask_of = b.some(dims=dims) if kind < 0.3 else b.some(("bool",), dims=dims) if kind < 0.5 else ""
    caches = [b.some(dims=(batch, of_keys, past, size)) for _ in "kv"] if past else []
    b.emit("Attention", [*inputs, mask_of, *caches], 3 if past else 1, **attributes)


@template(0.5, since=23)
def rotary(b: Builder) -> None:
    batch, heads, steps, size = b.rng.randint(1, 2), b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.choice((2, 4))
    value = b.some(dims=(batch, heads, steps, size))
    positions = b.constant(np.arange(batch * steps).reshape(batch, steps) % 3)
    caches = [b.some(dims=(3, size // 2)) for _ in "cs"]
    b.emit("RotaryEmbedding", [value, *caches, positions], interleaved=b.rng.choice((None, 1)))


@template(0.7, since=12)
def loss(b: Builder) -> None:
    scores = b.some(rank=(2, 3), fits=lambda array: 0 not in array.shape)
    classes = scores.array.shape[1]
    dims = (scores.array.shape[0], *scores.array.shape[2:])
    chosen = np.random.default_rng(b.rng.randrange(1 << 30)).integers(0, classes, dims)
    inputs = [scores, b.knob(chosen, b.rng.choice(INDICES))]
    if b.rng.random() < 0.4:
        inputs.append(b.leaf(np.abs(b.data("float32", (classes,))) + np.float32(0.5)))
    attributes = {"reduction": b.rng.choice((None, "none", "sum", "mean")), "ignore_index": b.rng.choice((None, 0))}
    if b.rng.random() < 0.5:
        b.emit("NegativeLogLikelihoodLoss", inputs, **attributes)
    else:
        b.emit("SoftmaxCrossEntropyLoss", inputs, b.rng.choice((1, 2)), **attributes)


@template(0.7, since=17)
def signal(b: Builder) -> None:
    if b.rng.random() < 0.5:
        size = b.knob(b.rng.randint(1, 6)) if b.rng.random() < 0.3 else b.constant(b.rng.randint(1, 6))
        names = ("HannWindow", "HammingWindow", "BlackmanWindow")
        b.emit(b.rng.choice(names), [size], periodic=b.rng.choice((None, 0)))
        return
    value = b.some(dims=(b.rng.randint(1, 2), b.rng.randint(2, 5), b.rng.randint(1, 2)))
    length = b.constant(b.rng.randint(2, 6)) if b.rng.random() < 0.3 else ""
    real = value.array.shape[-1] == 1
    onesided = b.rng.choice((None, 1)) if real else None
    if b.version >= 20:
        axis = [length, b.constant(1)] if length or b.rng.random() < 0.5 else []
        b.emit("DFT", [value, *axis], onesided=onesided, inverse=None if real else b.rng.choice((None, 1)))
    else:
        b.emit("DFT", [value, length], axis=1, onesided=onesided, inverse=None if real else b.rng.choice((None, 1)))


@template(0.7)
def upsample(b: Builder) -> None:
    if b.version > 9:
        raise Discarded
    value = b.some(rank=4, fits=lambda array: 0 not in array.shape)
    scales = [1.0, 1.0, float(b.rng.randint(1, 3)), float(b.rng.randint(1, 3))]
    mode = b.rng.choice((None, "nearest", "linear"))
    if b.version >= 9:
        b.emit("Upsample", [value, b.constant(scales, "float32")], mode=mode)
    else:
        b.emit("Upsample", [value], mode=mode, scales=scales)


@template(0.5, since=9)
def old_scatter(b: Builder) -> None:
    if b.version >= 11:
        raise Discarded
    value = b.some(("float32", "int64"), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    axis = b.rng.randrange(value.array.ndim)
    dims = [1 if place == axis else b.rng.randint(1, size) for place, size in enumerate(value.array.shape)]
    indices = np.full(dims, b.rng.randrange(value.array.shape[axis]))
    b.emit("Scatter", [value, b.knob(indices), b.some((value.array.dtype.name,), dims=dims)], axis=axis)


@template(0.7, since=18)
def placed(b: Builder) -> None:
    """Values cropped and padded around the centre, patches, grids."""
    which = b.rng.randrange(3)
    if which == 0:
        value = b.some(("float32", "int64"), rank=(2, 3), fits=lambda array: 0 not in array.shape)
        axes = sorted(b.rng.sample(range(value.array.ndim), b.rng.randint(1, value.array.ndim)))
        b.emit("CenterCropPad", [value, b.constant([b.rng.randint(1, 5) for _ in axes])], axes=axes)
    elif which == 1:
        block, image = (b.rng.randint(1, 2), b.rng.randint(1, 2)), (b.rng.randint(2, 4), b.rng.randint(2, 4))
        count = (image[0] - block[0] + 1) * (image[1] - block[1] + 1)
        value = b.some(dims=(1, 2 * block[0] * block[1], count))
        b.emit("Col2Im", [value, b.constant(image), b.constant(block)])
    elif b.version >= 20:
        theta = b.some(dims=(2, 2, 3))
        b.emit("AffineGrid", [theta, b.constant([2, 1, b.rng.randint(1, 3), b.rng.randint(1, 3)])],
               align_corners=b.rng.choice((None, 1)))  # fmt: skip


@template(1, since=10)
def quantized(b: Builder) -> None:
    """Arithmetic on quantised values, with its scales."""
    first = b.some(("uint8",), rank=(1, 2), fits=lambda array: 0 not in array.shape)
    scale = [b.constant(number, "float32") for number in (0.5, 0.25, 0.5)]
    zero = b.constant(b.rng.choice((0, 3)), "uint8")
    which = b.rng.randrange(5)
    if which == 0:
        second = b.some(("uint8",), dims=first.array.shape)
        name = b.rng.choice(("QLinearAdd", "QLinearMul"))
        inputs = [first, scale[0], zero, second, scale[1], zero, scale[2], zero]
        b.emit(name, inputs, domain="com.microsoft")
    elif which == 1:
        name = b.rng.choice(("QLinearSigmoid", "QLinearLeakyRelu"))
        b.emit(name, [first, scale[0], zero, scale[1], zero], domain="com.microsoft")
    elif which == 2 and first.array.ndim == 2:
        second = b.some(("uint8",), dims=(first.array.shape[1], b.rng.randint(1, 3)))
        b.emit("QLinearMatMul", [first, scale[0], zero, second, scale[1], zero, b.constant(8.0, "float32"), zero])
    elif which == 3:
        value = b.some(("uint8",), rank=4, fits=lambda array: 0 not in array.shape)
        weight = b.some(("uint8",), dims=(2, value.array.shape[1], 1, 1), weight=True)
        b.emit("QLinearConv", [value, scale[0], zero, weight, scale[1], zero, b.constant(8.0, "float32"), zero])
    elif first.array.ndim == 2:
        second = b.some(("uint8",), dims=(first.array.shape[1], b.rng.randint(1, 3)))
        b.emit("MatMulIntegerToFloat", [first, second, scale[0], scale[1], zero, zero], domain="com.microsoft")


@template(0.4, since=10)
def dynamically_quantized_product(b: Builder) -> None:
    value = b.some(rank=2, fits=lambda array: 0 not in array.shape)
    weight = b.some(("uint8", "int8"), dims=(value.array.shape[1], b.rng.randint(1, 3)), weight=True)
    zero = [b.constant(b.rng.choice((0, 3)), weight.array.dtype.name)] if b.rng.random() < 0.5 else []
    b.emit("DynamicQuantizeMatMul", [value, weight, b.constant(0.25, "float32"), *zero], domain="com.microsoft")


@template(0.4, since=11)
def unpooled(b: Builder) -> None:
    value = b.leaf(b.data("float32", (1, 1, 2, 2)))
    indices = np.array([[[[0, 2], [8, 10]]]])
    b.emit("MaxUnpool", [value, b.constant(indices)], kernel_shape=[2, 2], strides=[2, 2])


@template(0.6, since=15)
def optional(b: Builder) -> None:
    """An optional with a value in it."""
    (made,) = b.emit("Identity", [b.some(("float32", "int64"))])
    if b.version >= 18:
        b.emit(b.rng.choice(("OptionalHasElement", "OptionalGetElement")), [made])


@template(0.6, since=17)
def mapped_sequence(b: Builder) -> None:
    """A function of each element of a sequence."""
    if b.depth > 1:
        raise Discarded
    first = b.some(rank=(1, 2))
    rest = [b.some(dims=first.array.shape) for _ in range(b.rng.randint(0, 2))]
    (made,) = b.emit("SequenceConstruct", [first, *rest])
    inner = b.child()
    element = Value(inner.new_name(), first.array)
    inner.values.append(element)
    known = len(inner.values)
    inner.grow(b.rng.randint(1, 2))
    result = result_of(inner, known, "float32")
    (mapped,) = b.emit("SequenceMap", [made], body=inner.subgraph("body", [element], [result]))
    b.emit("SequenceAt", [mapped, b.knob(0)])


@template(0.4, since=24)
def written(b: Builder) -> None:
    cache = b.some(dims=(2, 1, 4, 2))
    update = b.some(dims=(2, 1, b.rng.randint(1, 2), 2))
    b.emit("TensorScatter", [cache, update, b.knob([0, 1])], mode=b.rng.choice((None, "circular")))


@template(1.5)
def limits_of_numbers(b: Builder) -> None:
    """The limits of a type, where sums wrap."""
    dtype = b.rng.choice(("int8", "uint8", "int16", "uint16", "int32"))
    ends = np.iinfo(dtype)
    numbers = [ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1]
    value = b.leaf(np.asarray([b.rng.choice(numbers) for _ in range(4)], dtype))
    op_type = b.rng.choice(("Max", "Min", "Cast", "Equal", "Where", "Relu"))
    if op_type == "Cast":
        b.emit("Cast", [value], to=helper.np_dtype_to_tensor_dtype(np.dtype(b.rng.choice(CAST_TARGETS))))
    elif op_type == "Where":
        b.emit("Where", [b.some(("bool",), dims=(4,)), value, b.like(value)])
    elif op_type == "Relu":
        b.emit("Relu", [value])
    else:
        b.emit(op_type, [value, b.like(value)])
