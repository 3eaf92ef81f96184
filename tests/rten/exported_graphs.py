"""Random graphs of what exporters and quantisers write: attention, quantised layers, half precision, decision trees.

`python tests/rten/exported_graphs.py --seed N --count N` makes any number of graphs, and shows the smallest form of
each fault. They are judged like those of `graphs.py`, and as `.onnx` files for RTen, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.rten.graphs import main
from tests.rten.random_graphs.builder import FIRST, Builder, Shares, Templates
from tests.rten.random_graphs.graph import Value

MICROSOFT, LEARNED = "com.microsoft", "ai.onnx.ml"
SECOND = Templates(Shares(wide=0.1, wild=0.2, empty=0.2, resized=0.6), others=FIRST, domains={LEARNED: 3})
template = SECOND.add


def dims_of(b: Builder, least: int = 1, most: int = 3) -> int:
    """Return a size, sometimes none."""
    return 0 if b.has_empty and b.rng.random() < 0.1 else b.rng.randint(least, most)


def floats(b: Builder, dims: Sequence[int], *, weight: bool = False) -> Value:
    """Return a value of floats, often a constant if it is a weight."""
    return b.some(dims=dims, weight=weight)


def random_floats(b: Builder, dims: Sequence[int], *, constant: bool | None = True, scale: float = 1.0) -> Value:
    """Return a new value of floats that arithmetic rounds."""
    rng = np.random.default_rng(b.rng.randrange(1 << 30))
    return b.leaf(np.asarray(rng.normal(0, scale, dims), np.float32), constant=constant)


def maybe(b: Builder, share: float, make: Any) -> Any:
    """Return what is made, or no input."""
    return make() if b.rng.random() < share else ""


# Attention.


@template(2, since=23)
def standard_attention(b: Builder) -> None:
    """With every mask, cache, number of heads and order of axes."""
    batch, steps, keys, size = dims_of(b), dims_of(b), dims_of(b, 1, 5), b.rng.choice((1, 2, 4, 8))
    of_keys, more = b.rng.choice((1, 1, 2, 3)), b.rng.choice((1, 1, 2, 4))
    heads, of_values = of_keys * more, b.rng.choice((size, size, 1, 3))
    attributes: dict[str, Any] = {
        "is_causal": b.rng.choice((None, 0, 1)),
        "scale": b.rng.choice((None, 0.25, 1.0)),
        "softcap": b.rng.choice((None, None, 0.5, 3.0)),
        "qk_matmul_output_mode": b.rng.choice((None, None, 0, 1, 2, 3)),
    }
    if b.rng.random() < 0.4:
        inputs: list[Any] = [floats(b, (batch, steps, heads * size)), floats(b, (batch, keys, of_keys * size)),
                             floats(b, (batch, keys, of_keys * of_values))]  # fmt: skip
        attributes |= {"q_num_heads": heads, "kv_num_heads": of_keys}
    else:
        inputs = [floats(b, (batch, heads, steps, size)), floats(b, (batch, of_keys, keys, size)),
                  floats(b, (batch, of_keys, keys, of_values))]  # fmt: skip
    past = b.rng.choice((0, 0, 0, 1, 3))
    total = keys + past
    kinds = [(steps, total), (1, 1, steps, total), (batch, 1, steps, total), (batch, heads, steps, total),
             (1, heads, steps, total), (heads, steps, total)]  # fmt: skip
    mask = maybe(b, 0.6, lambda: b.some((b.rng.choice(("bool", "float32")),), dims=b.rng.choice(kinds)))
    caches = [floats(b, (batch, of_keys, past, width)) for width in (size, of_values)] if past else []
    lengths = []
    if b.version >= 24 and not past and b.rng.random() < 0.3:
        lengths = ["", "", b.leaf(np.asarray([b.rng.randint(1, max(keys, 1)) for _ in range(batch)], np.int64))]
    wanted = 4 if attributes["qk_matmul_output_mode"] is not None else 3 if past else 1
    b.emit("Attention", [*inputs, mask, *caches, *lengths], wanted, **attributes)


@template(2)
def multi_head_attention(b: Builder) -> None:
    """With packed and separate inputs, both kinds of padding masks, and caches."""
    batch, heads, steps, keys = dims_of(b), b.rng.choice((1, 2, 4)), dims_of(b), dims_of(b, 1, 5)
    size = b.rng.choice((2, 4, 8))
    width, which = heads * size, b.rng.random()
    past = b.rng.choice((0, 0, 0, 2))
    if which < 0.15:
        inputs: list[Any] = [floats(b, (batch, steps, heads, 3, size)), "", ""]
        keys = steps
    elif which < 0.3:
        inputs = [floats(b, (batch, steps, width)), floats(b, (batch, keys, heads, 2, size)), ""]
    elif which < 0.45:
        inputs = [floats(b, (batch, steps, width)), *(floats(b, (batch, heads, keys, size)) for _ in "kv")]
    else:
        inputs = [floats(b, (batch, steps, width)), *(floats(b, (batch, keys, width)) for _ in "kv")]
    total = keys + past
    bias = maybe(b, 0.4, lambda: random_floats(b, (3 * width,)))
    masks = [(batch, total), (batch,), (3 * batch + 2,), (batch, steps, total)]
    mask = maybe(b, 0.3, lambda: b.leaf(np.asarray(np.random.default_rng(b.rng.randrange(99)).integers(
        0, 2, b.rng.choice(masks)), np.int32)))  # fmt: skip
    added = maybe(b, 0.3, lambda: floats(b, (b.rng.choice((1, batch)), b.rng.choice((1, heads)), steps, total)))
    caches = [floats(b, (batch, heads, past, size)) for _ in "kv"] if past else []
    b.emit("MultiHeadAttention", [*inputs, bias, mask, added, *caches], 3 if past else 1, domain=MICROSOFT,
           num_heads=heads, scale=b.rng.choice((None, 0.5)), unidirectional=b.rng.choice((None, None, 1)),
           mask_filter_value=b.rng.choice((None, None, -100.0)))  # fmt: skip


@template(1.5)
def packed_attention(b: Builder) -> None:
    """Attention of onnxruntime, with weights for queries, keys and values, and quantised."""
    batch, heads, steps, size, inner = dims_of(b), b.rng.choice((1, 2, 4)), dims_of(b), b.rng.choice((2, 4)), 6
    width, past = heads * size, b.rng.choice((0, 0, 2))
    masks = [(batch, steps + past), (batch,), (2 * batch,), (batch, steps, steps + past)]
    mask = maybe(b, 0.4, lambda: b.leaf(np.asarray(np.random.default_rng(b.rng.randrange(99)).integers(
        1, 2 + (steps > 1), b.rng.choice(masks)), np.int32)))  # fmt: skip
    cache = floats(b, (2, batch, heads, past, size)) if past else ""
    shared: dict[str, Any] = {"num_heads": heads, "unidirectional": b.rng.choice((None, None, 1))}
    if b.rng.random() < 0.3:
        rng = np.random.default_rng(b.rng.randrange(1 << 30))
        data = b.some(("uint8",), dims=(batch, steps, inner))
        weight = b.leaf(rng.integers(-99, 99, (inner, 3 * width)).astype(np.int8), constant=True)
        scale = b.constant(0.02, "float32") if b.rng.random() < 0.5 else random_floats(b, (3 * width,), scale=0.01)
        zero = b.leaf(np.asarray(3, np.int8), constant=True)
        b.emit("QAttention", [data, weight, random_floats(b, (3 * width,)), b.constant(0.05, "float32"), scale, mask,
                              b.constant(7, "uint8"), zero], domain=MICROSOFT, **shared)  # fmt: skip
        return
    inputs: list[Any] = [floats(b, (batch, steps, inner)), random_floats(b, (inner, 3 * width), scale=0.4)]
    inputs += [maybe(b, 0.8, lambda: random_floats(b, (3 * width,))), mask, cache]
    inputs += [maybe(b, 0.2, lambda: floats(b, (batch, heads, steps, steps + past)))]
    b.emit("Attention", inputs, 2 if past else 1, domain=MICROSOFT, scale=b.rng.choice((None, 0.5)), **shared)


@template(1.5)
def grouped_attention(b: Builder) -> None:
    """GroupQueryAttention of a prompt and of one more token, with rotated positions."""
    batch, of_keys, more, size = b.rng.randint(1, 2), b.rng.choice((1, 2)), b.rng.choice((1, 2)), 8
    heads, past = of_keys * more, b.rng.choice((0, 0, 3))
    steps = b.rng.randint(1, 4) if not past else b.rng.choice((1, 1, 2))
    inputs: list[Any] = [
        floats(b, (batch, steps, heads * size)),
        *(floats(b, (batch, steps, of_keys * size)) for _ in "kv"),
    ]
    if b.rng.random() < 0.25:
        inputs = [floats(b, (batch, steps, (heads + 2 * of_keys) * size)), "", ""]
    caches: list[Any] = [floats(b, (batch, of_keys, past, size)) for _ in "kv"]
    total = steps + past
    lengths = [b.leaf(np.full(batch, total - 1, np.int32)), b.leaf(np.asarray(total, np.int32))]
    rotated: list[Any] = []
    if b.rng.random() < 0.5:
        angles = np.arange(12)[:, None] * np.linspace(1, 0.1, size // 2)
        rotated = [b.leaf(f(angles).astype(np.float32), constant=True) for f in (np.cos, np.sin)]
    b.emit("GroupQueryAttention", [*inputs, *caches, *lengths, *rotated], 3, domain=MICROSOFT, num_heads=heads,
           kv_num_heads=of_keys, do_rotary=1 if rotated else None, scale=b.rng.choice((None, 0.5)),
           rotary_interleaved=b.rng.choice((None, 1)) if rotated else None, softcap=b.rng.choice((None, None, 2.0)),
           local_window_size=b.rng.choice((None, None, 2)))  # fmt: skip


@template(1)
def rotated(b: Builder) -> None:
    """RotaryEmbedding of onnxruntime, with one first position or one for each token."""
    batch, heads, steps, size = b.rng.randint(1, 2), b.rng.randint(1, 2), b.rng.randint(1, 3), b.rng.choice((4, 8))
    data = floats(b, (batch, steps, heads * size) if b.rng.random() < 0.5 else (batch, heads, steps, size))
    positions = np.asarray([2]) if b.rng.random() < 0.4 else np.arange(batch * steps).reshape(batch, steps) % 5
    given = b.leaf(positions.astype(np.int64))
    angles = np.arange(8)[:, None] * np.linspace(1, 0.1, size // 2)
    caches = [b.leaf(f(angles).astype(np.float32), constant=True) for f in (np.cos, np.sin)]
    b.emit("RotaryEmbedding", [data, given, *caches], domain=MICROSOFT, interleaved=b.rng.choice((None, 1)),
           num_heads=heads if data.array.ndim == 3 else None)  # fmt: skip


# Quantised layers.


def scales_and_zeros(b: Builder, dtype: str, count: int | None) -> tuple[Value, Value]:
    """Return a scale and a zero point, or one for each line."""
    rng = np.random.default_rng(b.rng.randrange(1 << 30))
    dims = () if count is None else (count,)
    limits = np.iinfo(dtype)
    scales = rng.choice((0.125, 0.25, 0.5, 0.03, 0.1), dims)
    zeros = rng.integers(max(limits.min, -9), min(limits.max, 9) + 1, dims)
    if dtype == "int8" and b.rng.random() < 0.5:
        zeros = zeros * 0
    is_constant = b.rng.random() < 0.85 or b.parent is not None
    return (
        b.leaf(np.asarray(scales, np.float32), constant=is_constant),
        b.leaf(np.asarray(zeros, dtype), constant=True),
    )


def requantized(b: Builder, value: Value, dtype: str = "uint8") -> Value:
    """Return a float after it was quantised and dequantised."""
    scale, zero = scales_and_zeros(b, dtype, None)
    (small,) = b.emit("QuantizeLinear", [value, scale, zero])
    return b.emit("DequantizeLinear", [small, scale, zero])[0]


@template(3, since=13)
def simulated_layer(b: Builder) -> None:
    """A layer between QuantizeLinear and DequantizeLinear, with weights that have a scale for each channel."""
    dtype = b.rng.choice(("int8", "int8", "uint8"))
    rng = np.random.default_rng(b.rng.randrange(1 << 30))
    limits = np.iinfo(dtype)
    is_image, per_line = b.rng.random() < 0.5, b.rng.random() < 0.6
    channels, made = b.width(4), b.width(5)
    dims = (made, channels, 2, 1) if is_image else (channels, made)
    weight = b.leaf(rng.integers(limits.min, limits.max, dims).astype(dtype), constant=True)
    scale, zero = scales_and_zeros(b, dtype, made if per_line else None)
    axis = 0 if is_image else 1
    (known,) = b.emit("DequantizeLinear", [weight, scale, zero], axis=axis if per_line else None)
    data = floats(b, (dims_of(b, 1, 2), channels, 3, 2) if is_image else (dims_of(b, 1, 3), channels))
    value = requantized(b, data, b.rng.choice(("uint8", "int8")))
    bias = [random_floats(b, (made,))] if is_image and b.rng.random() < 0.5 else []
    (result,) = b.emit("Conv" if is_image else "MatMul", [value, known, *bias])
    if b.rng.random() < 0.5:
        (result,) = b.emit("Relu", [result])
    requantized(b, result)


@template(1, since=21)
def blocked(b: Builder) -> None:
    """Quantised by blocks, to and from types of 16 and four bits."""
    dtype, axis = b.rng.choice(("int8", "uint8", "int16", "uint16")), b.rng.choice((0, 1))
    dims = [b.rng.choice((2, 4, 6)), b.rng.choice((2, 4, 6))]
    block = b.rng.choice([size for size in (2, 3, 4) if dims[axis] % size == 0] or [dims[axis]])
    of_scales = list(dims)
    of_scales[axis] //= block
    scale = b.leaf(np.asarray(np.random.default_rng(b.rng.randrange(99)).choice((0.25, 0.5, 1), of_scales), np.float32))
    zero = b.leaf(np.zeros(of_scales, dtype) + np.asarray(b.rng.randrange(5), dtype), constant=True)
    (small,) = b.emit("QuantizeLinear", [floats(b, dims), scale, zero], axis=axis, block_size=block)
    b.emit("DequantizeLinear", [small, scale, zero], axis=axis, block_size=block)


@template(2, since=10)
def integer_layer(b: Builder) -> None:
    """QLinearConv and QLinearMatMul with scales for channels; the first half of a bias is negative."""
    first, second = b.rng.choice((("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")))
    rng = np.random.default_rng(b.rng.randrange(1 << 30))
    limits, made, channels = np.iinfo(second), b.width(5), b.width(4)
    (x_scale, x_zero), (y_scale, y_zero) = scales_and_zeros(b, first, None), scales_and_zeros(b, first, None)
    per_line = b.rng.random() < 0.5
    if b.rng.random() < 0.5:
        data = b.some((first,), dims=(1, channels, 3, 3))
        weight = b.leaf(rng.integers(limits.min, limits.max, (made, channels, 2, 2)).astype(second), constant=True)
        w_scale, w_zero = scales_and_zeros(b, second, made if per_line and second == "int8" else None)
        bias = [b.leaf(rng.integers(-500, 500, made).astype(np.int32), constant=True)] if b.rng.random() < 0.5 else []
        b.emit("QLinearConv", [data, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero, *bias],
               pads=b.rng.choice((None, [1, 0, 0, 1])), strides=b.rng.choice((None, [2, 1])))  # fmt: skip
    else:
        data = b.some((first,), dims=(*b.rng.choice(((), (2,))), dims_of(b), channels))
        weight = b.leaf(rng.integers(limits.min, limits.max, (channels, made)).astype(second), constant=True)
        w_scale, w_zero = scales_and_zeros(b, second, made if per_line else None)
        b.emit("QLinearMatMul", [data, x_scale, x_zero, weight, w_scale, w_zero, y_scale, y_zero])


@template(2)
def integer_function(b: Builder) -> None:
    """Functions of one or two quantised values."""
    dtype = b.rng.choice(("uint8", "int8"))
    pairs = [scales_and_zeros(b, dtype, None) for _ in range(3)]
    first = b.some((dtype,), rank=(1, 2, 3, 4))
    names = "Add", "Mul", "Sigmoid", "LeakyRelu", "Concat", "AveragePool", "GlobalAveragePool", "Softmax", "Where"
    which = f"QLinear{b.rng.choice(names)}"
    if which in ("QLinearAdd", "QLinearMul"):
        b.emit(which, [first, *pairs[0], b.like(first), *pairs[1], *pairs[2]], domain=MICROSOFT)
    elif which == "QLinearConcat":
        second = b.some((dtype,), dims=first.array.shape)
        b.emit(which, [*pairs[0], first, *pairs[1], second, *pairs[2]], domain=MICROSOFT, axis=0)
    elif which.endswith("Pool"):
        image = b.some((dtype,), rank=4)
        window = {} if "Global" in which else {"kernel_shape": [1, 1 + (image.array.shape[3] > 1)]}
        b.emit(
            which, [image, *pairs[0], *pairs[1]], domain=MICROSOFT, channels_last=b.rng.choice((None, 0, 1)), **window
        )
    elif which == "QLinearSoftmax":
        b.emit(which, [first, *pairs[0], *pairs[1]], domain=MICROSOFT, opset=13, axis=b.rng.randrange(first.array.ndim))
    elif which == "QLinearWhere":
        condition = b.some(("bool",), dims=first.array.shape)
        b.emit(which, [condition, first, *pairs[0], b.like(first), *pairs[1], *pairs[2]], domain=MICROSOFT)
    else:
        b.emit(which, [first, *pairs[0], *pairs[1]], domain=MICROSOFT)


@template(1.5)
def weights_of_few_bits(b: Builder) -> None:
    """MatMulNBits with zero points, an order of groups and a bias, and GatherBlockQuantized."""
    rng, block, columns = np.random.default_rng(b.rng.randrange(1 << 30)), 16, b.width(6)
    length = b.rng.choice((16, 32, 48, 21, 40))
    blocks = -(-length // block)
    packed = rng.integers(0, 256, (columns, blocks, block // 2)).astype(np.uint8)
    scales = b.leaf(rng.choice((0.25, 0.5, 0.125), (columns * blocks,)).astype(np.float32), constant=True)
    zeros = maybe(
        b, 0.4, lambda: b.leaf(rng.integers(0, 256, (columns * -(-blocks // 2),)).astype(np.uint8), constant=True)
    )
    groups = maybe(b, 0.2, lambda: b.leaf(rng.permutation(np.arange(length) // block).astype(np.int32), constant=True))
    bias = maybe(b, 0.2, lambda: random_floats(b, (columns,)))
    data = floats(b, (*b.rng.choice(((), (2,))), dims_of(b), length))
    b.emit("MatMulNBits", [data, b.leaf(packed, constant=True), scales, zeros, groups, bias], domain=MICROSOFT,
           K=length, N=columns, bits=4, block_size=block, accuracy_level=b.rng.choice((None, 0, 1)))  # fmt: skip


@template(1)
def integer_products(b: Builder) -> None:
    """MatMulIntegerToFloat and DynamicQuantizeMatMul, with scales and zero points for columns, and a bias."""
    rng, inner, columns = np.random.default_rng(b.rng.randrange(1 << 30)), b.width(5), b.width(6)
    dtype, rows = b.rng.choice(("uint8", "int8")), dims_of(b, 1, 4)
    limits = np.iinfo(dtype)
    weight = b.leaf(rng.integers(limits.min, limits.max, (inner, columns)).astype(dtype), constant=True)
    scale, zero = scales_and_zeros(b, dtype, columns if b.rng.random() < 0.5 else None)
    bias = maybe(b, 0.4, lambda: random_floats(b, (columns,)))
    zero_or_none = zero if b.rng.random() < 0.7 else ""
    if b.rng.random() < 0.5:
        data = b.some(("uint8",), dims=(rows, inner))
        b.emit("MatMulIntegerToFloat", [data, weight, b.constant(0.5, "float32"), scale, b.constant(3, "uint8"),
                                        zero_or_none, bias], domain=MICROSOFT)  # fmt: skip
    else:
        b.emit("DynamicQuantizeMatMul", [floats(b, (rows, inner)), weight, scale, zero_or_none, bias], domain=MICROSOFT)


# What onnxruntime's optimiser writes.


@template(2)
def twins(b: Builder) -> None:
    """Operators of onnxruntime that ONNX has, too."""
    which = b.rng.choice(
        ("ExpandDims", "Trilu", "Range", "GatherND", "Unique", "Pad", "CDist", "QuantizeLinear", "Crop")
    )
    value = b.some(rank=(1, 2, 3))
    if which == "ExpandDims":
        b.emit(which, [value, b.constant(b.rng.randint(-1, value.array.ndim), "int32")], domain=MICROSOFT)
    elif which == "Trilu":
        b.emit(which, [b.some(rank=(2, 3))], domain=MICROSOFT, upper=b.rng.choice((0, 1)))
    elif which == "Range":
        b.emit(which, [b.constant(number, "float32") for number in (1, 5, 1.5)], domain=MICROSOFT)
    elif which == "GatherND":
        b.emit(which, [value, b.constant([[0]])], domain=MICROSOFT)
    elif which == "Unique":
        b.emit(which, [b.some(rank=1)], 3, domain=MICROSOFT)
    elif which == "Pad":
        pads = [b.rng.randint(0, 2) for _ in range(2 * value.array.ndim)]
        b.emit(which, [value, b.constant(pads), b.constant(0.5, "float32")], domain=MICROSOFT,
               mode=b.rng.choice((None, "constant", "edge")))  # fmt: skip
    elif which == "CDist":
        width = b.width(4)
        rows = [floats(b, (dims_of(b), width)) for _ in "ab"]
        b.emit(which, rows, domain=MICROSOFT, metric=b.rng.choice(("euclidean", "sqeuclidean")))
    else:
        scale, zero = scales_and_zeros(b, "uint8", None)
        (small,) = b.emit("QuantizeLinear", [value, scale, zero], domain=MICROSOFT)
        b.emit("DequantizeLinear", [small, scale, zero], domain=MICROSOFT)


@template(1.5)
def joined_layers(b: Builder) -> None:
    """Normalisations and products that were joined with their neighbours."""
    batch, steps, width = dims_of(b, 1, 2), dims_of(b), b.width(6)
    data = floats(b, (batch, steps, width))
    which = b.rng.randrange(5)
    if which == 0:
        shifts = [random_floats(b, (width,)) for _ in range(3)]
        is_simple = b.rng.random() < 0.5
        name = "SkipSimplifiedLayerNormalization" if is_simple else "SkipLayerNormalization"
        more = shifts[1:2] if is_simple else [*shifts[1:2], maybe(b, 0.5, lambda: shifts[2])]
        b.emit(name, [data, floats(b, (batch, steps, width)), shifts[0], *([] if is_simple else more)], 4,
               domain=MICROSOFT, epsilon=1e-3)  # fmt: skip
    elif which == 1:
        b.emit("BiasGelu", [data, random_floats(b, (width,))], domain=MICROSOFT)
    elif which == 2:
        b.emit("FusedMatMul", [data, floats(b, (batch, steps, width))], domain=MICROSOFT, transB=1,
               alpha=b.rng.choice((0.5, 2.0)), transBatchA=b.rng.choice((None, 0)))  # fmt: skip
    elif which == 3:
        b.emit("FusedConv", [floats(b, (batch, 2, 3, 4)), random_floats(b, (3, 2, 2, 2))], domain=MICROSOFT,
               activation=b.rng.choice(("Relu", "Sigmoid", "Tanh", "LeakyRelu")), activation_params=None)  # fmt: skip
    else:
        words = b.leaf(np.random.default_rng(b.rng.randrange(99)).integers(0, 7, (batch, steps)).astype(np.int32))
        tables = [random_floats(b, (7, width)), random_floats(b, (9, width))]
        b.emit("EmbedLayerNormalization", [words, "", tables[0], tables[1], "", random_floats(b, (width,)),
                                           random_floats(b, (width,))], 2, domain=MICROSOFT)  # fmt: skip


# Recurrent layers, with lengths.


@template(2)
def sequences_of_lengths(b: Builder) -> None:
    """Layers with lengths, first states, peepholes, other activations, and limits."""
    op_type, gates = b.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    steps, batch, width, hidden = b.rng.randint(1, 4), b.rng.randint(1, 3), b.rng.randint(1, 3), b.rng.randint(1, 3)
    direction = b.rng.choice(("forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    inputs: list[Any] = [
        floats(b, (steps, batch, width)),
        random_floats(b, (count, gates * hidden, width), scale=0.5),
        random_floats(b, (count, gates * hidden, hidden), scale=0.5),
        maybe(b, 0.5, lambda: random_floats(b, (count, 2 * gates * hidden))),
        maybe(b, 0.6, lambda: b.leaf(np.asarray([b.rng.randint(1, steps) for _ in range(batch)], np.int32))),
        maybe(b, 0.5, lambda: floats(b, (count, batch, hidden))),
    ]
    attributes: dict[str, Any] = {"clip": b.rng.choice((None, None, 0.5))}
    if op_type == "LSTM":
        inputs += [maybe(b, 0.5, lambda: floats(b, (count, batch, hidden)))]
        inputs += [maybe(b, 0.3, lambda: random_floats(b, (count, 3 * hidden)))]
        attributes["input_forget"] = b.rng.choice((None, None, 1))
    elif op_type == "GRU":
        attributes["linear_before_reset"] = b.rng.choice((None, 0, 1))
    if b.rng.random() < 0.3:
        usual = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}[op_type]
        names = [b.rng.choice((name, "Relu", "Sigmoid", "Tanh", "Softsign")) for name in usual]
        attributes["activations"] = names * count
    b.emit(op_type, inputs, 3 if op_type == "LSTM" else 2, hidden_size=hidden, direction=direction, **attributes)


# Half precision and smaller floats.


@template(2)
def halves(b: Builder) -> None:
    """Layers in FLOAT16, between casts."""
    value = b.some(rank=(2, 3))
    (half,) = b.emit("Cast", [value], to=10)
    which = b.rng.randrange(5)
    if which == 0:
        width = half.array.shape[-1]
        weight = b.leaf(np.asarray(b.data("float32", (width, b.width(4))), np.float16), constant=True)
        (half,) = b.emit("MatMul", [half, weight])
    elif which == 1:
        (half,) = b.emit(b.rng.choice(("Sqrt", "Exp", "Sigmoid", "Relu", "Neg", "Abs")), [half])
    elif which == 2:
        (half,) = b.emit(b.rng.choice(("Add", "Mul", "Sub", "Max")), [half, half])
    elif which == 3:
        (half,) = b.emit("Softmax", [half], axis=-1)
    else:
        (half,) = b.emit("Clip", [half, b.constant(-1, "float16"), b.constant(2, "float16")])
    b.emit("Cast", [half], to=1)


@template(1, since=19)
def small_floats(b: Builder) -> None:
    """Rounded to floats of eight bits by a scale, and back."""
    dtype = b.rng.choice((ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
    value = b.some(fits=lambda array: bool(np.all(np.isfinite(array))))
    scale, zero = b.constant(0.5, "float32"), b.leaf(np.zeros((), dtype), constant=True)
    b.emit_chain("QuantizeLinear", [value, scale, zero], "DequantizeLinear", [scale, zero])


# Machine learning.


@template(1.5)
def learned(b: Builder) -> None:
    """Scalers, normalisers, regressors and trees."""
    rows, columns = dims_of(b, 1, 4), b.rng.choice((1, 2, 3, 5))
    data = floats(b, (rows, columns))
    which = b.rng.choice(("Scaler", "Normalizer", "Binarizer", "Imputer", "LinearRegressor", "ArrayFeatureExtractor",
                          "FeatureVectorizer", "TreeEnsembleRegressor", "OneHotEncoder"))  # fmt: skip
    numbers = np.random.default_rng(b.rng.randrange(1 << 30))
    count = b.rng.choice((1, columns))
    some = lambda size: [float(x) for x in numbers.normal(0, 2, size).astype(np.float32)]  # noqa: E731
    if which == "Scaler":
        b.emit(which, [data], domain=LEARNED, offset=some(count), scale=some(count))
    elif which == "Normalizer":
        b.emit(which, [data], domain=LEARNED, norm=b.rng.choice(("MAX", "L1", "L2")))
    elif which == "Binarizer":
        b.emit(which, [data], domain=LEARNED, threshold=0.25)
    elif which == "Imputer":
        b.emit(which, [data], domain=LEARNED, imputed_value_floats=some(count),
               replaced_value_float=b.rng.choice((0.0, float("nan"), 1.0)))  # fmt: skip
    elif which == "LinearRegressor":
        targets = b.rng.choice((1, 2))
        b.emit(
            which,
            [data],
            domain=LEARNED,
            coefficients=some(columns * targets),
            intercepts=some(targets),
            targets=targets,
        )
    elif which == "ArrayFeatureExtractor":
        b.emit(which, [data, b.constant([columns - 1, 0][: b.rng.randint(1, 2)])], domain=LEARNED)
    elif which == "FeatureVectorizer":
        b.emit(which, [data, floats(b, (rows, 2))], domain=LEARNED, inputdimensions=[columns, 2])
    elif which == "OneHotEncoder":
        b.emit(which, [b.some(("int64",), rank=1)], domain=LEARNED, cats_int64s=[-1, 0, 1, 2], zeros=1)
    else:
        b.emit(which, [data], domain=LEARNED, n_targets=1, nodes_treeids=[0] * 3, nodes_nodeids=[0, 1, 2],
               nodes_featureids=[columns - 1, 0, 0], nodes_values=[0.25, 0.0, 0.0],
               nodes_modes=[b.rng.choice(("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GT")), "LEAF", "LEAF"],
               nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], nodes_missing_value_tracks_true=[1, 0, 0],
               target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=some(2))  # fmt: skip


# Shapes that are computed.


@template(1.5, since=13)
def computed_view(b: Builder) -> None:
    """A view of sizes that are read from a shape, as exporters write it."""
    value = b.some(rank=(2, 3, 4))
    (dims,) = b.emit("Shape", [value])
    (first,) = b.emit("Gather", [dims, b.constant(0)], axis=0)
    (row,) = b.emit("Unsqueeze", [first, b.constant([0])])
    (target,) = b.emit("Concat", [row, b.constant([-1])], axis=0)
    b.emit("Reshape", [value, target])


@template(1, since=13)
def causal_mask(b: Builder) -> None:
    """A mask that is computed from the length of a sequence."""
    value = b.some(rank=(2, 3))
    (dims,) = b.emit("Shape", [value])
    (steps,) = b.emit("Gather", [dims, b.constant(1)], axis=0)
    (places,) = b.emit("Range", [b.constant(0), steps, b.constant(1)])
    (row,) = b.emit("Unsqueeze", [places, b.constant([0])])
    (column,) = b.emit("Unsqueeze", [places, b.constant([1])])
    (hidden,) = b.emit("Greater", [row, column])
    b.emit("Where", [hidden, b.constant(-1e4, "float32"), b.constant(0, "float32")])


if __name__ == "__main__":
    sys.exit(main(SECOND))
