"""Random cases at the sizes of kernels, for all operators but products; `rten_sizes.py` has those."""

from __future__ import annotations

import math

import numpy as np

from tests.rten.rten_sizes import MICROSOFT, Draw, SizedCase, family

UNARY = [
    "Abs",
    "Acos",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mish",
    "Neg",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Tan",
    "Tanh",
    "Celu",
    "Cosh",
    "Sinh",
    "Swish",
    "ThresholdedRelu",
    "Identity",
]
BINARY = [
    "Add",
    "Div",
    "Max",
    "Mean",
    "Min",
    "Mul",
    "PRelu",
    "Sub",
    "Sum",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Mod",
    "Pow",
]
SAME = "SAME_UPPER", "SAME_LOWER", "VALID"
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


def tensor(d: Draw, most_rank: int = 4) -> tuple[int, ...]:
    """Return the dims of a tensor of any rank: one or two large axes, small leading ones."""
    rank = d.rng.randint(1, most_rank)
    return tuple(d.rng.choice((1, 2, 3)) for _ in range(rank - 2)) + d.dims(min(rank, 2))


@family
def functions(d: Draw) -> SizedCase:
    """Functions of each element."""
    op_type = d.rng.choice(UNARY)
    numbers = d.floats(*tensor(d)) / (2.1 if op_type in ("Acos", "Asin", "Atanh") else 1)
    d.op(op_type, d.give(numbers.astype(np.float32), 0, turn=True), **({"alpha": 0.3} if op_type == "Celu" else {}))
    return d.case(24)


@family
def functions_of_two(d: Draw) -> SizedCase:
    """Functions of two tensors that are broadcast."""
    op_type, dims = d.rng.choice(BINARY), tensor(d)
    other = tuple(d.rng.choice((size, size, 1)) for size in dims)[d.rng.randrange(len(dims)) :]
    positive = 0 if op_type not in ("Pow", "Mod", "Div") else 2.5
    numbers = [d.floats(*dims) + positive, d.floats(*other) + positive]
    if op_type in ("Equal", "Max", "Min", "Mod", "Mul", "Sub", "Greater", "Less") and d.chance():
        numbers = [array.astype(np.int32) + (op_type == "Mod") for array in numbers]
    names = [d.give(array.astype(array.dtype), turn=not place) for place, array in enumerate(numbers)]
    is_float = numbers[0].dtype.kind == "f"
    attributes = {"fmod": 1} if op_type == "Mod" and is_float else {}
    d.op(op_type, *(names if op_type == "PRelu" or d.chance(0.8) else reversed(names)), **attributes)
    return d.case(18)


@family
def choices(d: Draw) -> SizedCase:
    """Where with three operands that are broadcast, of several types."""
    dims, dtype = tensor(d), d.rng.choice(("float32", "int32", "int64", "uint8", "int8", "bool"))
    dims = dims if d.chance(0.8) else ()
    others = [tuple(d.rng.choice((size, 1)) for size in dims)[d.rng.randint(0, len(dims)) :] for _ in range(2)]
    condition = d.numpy.random(others[0]) < 0.5
    values = [(d.floats(*sizes) * 20).astype(dtype) for sizes in (dims, others[1])]
    d.op("Where", d.give(condition), *(d.give(np.asarray(value), turn=True) for value in values))
    return d.case(16)


@family
def reductions(d: Draw) -> SizedCase:
    """Reductions of any axes."""
    op_type, dims = d.rng.choice(REDUCTIONS), tensor(d)
    numbers = np.abs(d.floats(*dims)) + 0.5 if op_type in ("LogSum",) else d.floats(*dims)
    if op_type == "Prod":
        numbers = np.exp(numbers / 20)
    if op_type in ("Max", "Min", "Sum") and d.chance(0.4):
        numbers = d.integers("int32", *dims, low=-99, high=99)
    axes = sorted(d.rng.sample(range(len(dims)), d.rng.randint(1, len(dims))))
    axes = [axis - len(dims) if d.chance(0.3) else axis for axis in axes]
    dtype = np.int32 if numbers.dtype == np.int32 else np.float32
    d.op(f"Reduce{op_type}", d.give(numbers.astype(dtype), 0, turn=True), d.constant(np.array(axes)),
         keepdims=int(d.chance()))  # fmt: skip
    return d.case(18)


@family
def extremes(d: Draw) -> SizedCase:
    """ArgMax, ArgMin and TopK with many ties."""
    dims = tensor(d)
    axis = d.rng.randrange(-len(dims), len(dims))
    numbers = d.integers("int32", *dims, low=0, high=4).astype(d.rng.choice((np.float32, np.int32)))
    data = d.give(numbers, 0, turn=True)
    if d.chance():
        more = {"select_last_index": 1} if d.chance(0.2) else {}
        d.op(d.rng.choice(("ArgMax", "ArgMin")), data, axis=axis, keepdims=int(d.chance()), **more)
    else:
        count = d.constant(np.array([d.rng.choice((1, dims[axis], (dims[axis] + 1) // 2))]))
        d.op("TopK", data, count, axis=axis, largest=int(d.chance()), outputs=2)
    return d.case(13)


@family
def normalizations(d: Draw) -> SizedCase:
    """Normalisations, and Softmax along any axis."""
    op_type = d.rng.choice(
        ("Softmax", "LogSoftmax", "LayerNormalization", "BatchNormalization", "InstanceNormalization",
         "GroupNormalization", "RMSNormalization", "LpNormalization", "LRN", "Hardmax")
    )  # fmt: skip
    dims = (*d.dims(2, 65), d.size(33)) if op_type != "LRN" else (*d.dims(2, 33), d.size(9), 3)
    rank = len(dims)
    axis = d.rng.randrange(-rank, rank)
    if op_type == "GroupNormalization":
        dims = (dims[0], 4 * dims[1], dims[2])
    data, channels = d.give(d.floats(*dims), 0, turn=True), dims[1]
    if op_type in ("Softmax", "LogSoftmax", "Hardmax"):
        d.op(op_type, data, axis=axis)
    elif op_type in ("LayerNormalization", "RMSNormalization"):
        scale = d.give(d.floats(*dims[axis:]))
        d.op(op_type, data, *([scale, d.give(d.floats(*dims[axis:]))] if op_type[0] == "L" else [scale]), axis=axis)
    elif op_type == "LpNormalization":
        d.op(op_type, data, axis=axis, p=d.rng.choice((1, 2)))
    elif op_type == "LRN":
        d.op(op_type, data, size=d.rng.choice((3, 5)))
    else:
        scales = [d.give(d.floats(channels)) for _ in range(2)]
        if op_type == "BatchNormalization":
            scales += [d.give(d.floats(channels)), d.give(np.abs(d.floats(channels)) + 0.1)]
        d.op(op_type, data, *scales, **({"num_groups": 4} if op_type == "GroupNormalization" else {}))
    return d.case(24 if op_type == "RMSNormalization" else 21)


@family
def pools(d: Draw) -> SizedCase:
    """Pools of lines, images and volumes."""
    rank = d.rng.choice((1, 2, 2, 3))
    op_type = d.rng.choice(("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"))
    kernel = [d.rng.choice((1, 2, 3, 5)) for _ in range(rank)]
    dims = (d.rng.choice((1, 2)), d.size(65), *(max(5, d.size(33 if rank < 3 else 9)) for _ in range(rank)))
    data = d.give(d.floats(*dims), 0, turn=True)
    if op_type.startswith("Global"):
        d.op(op_type, data)
        return d.case(21)
    d.is_symbolic = d.is_symbolic and rank < 3  # such forms are refused, and SAME_LOWER, too
    attributes = {"strides": [d.rng.choice((1, 2, 3)) for _ in kernel], "ceil_mode": int(d.chance(0.2))}
    if d.chance(0.3):
        attributes["strides"] = [min(pair) for pair in zip(kernel, attributes["strides"], strict=True)]
        attributes["auto_pad"] = d.rng.choice(("SAME_UPPER", "VALID") if d.is_symbolic else SAME)
    else:
        attributes["pads"] = [d.rng.randrange((size + 1) // 2) for size in kernel] * 2
    d.op(op_type, data, kernel_shape=kernel, **attributes)
    return d.case(21)


@family
def lookups(d: Draw) -> SizedCase:
    """Gather, GatherElements, GatherND, ScatterElements and ScatterND with indices of any dims."""
    op_type = d.rng.choice(("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"))
    dims = tuple(d.size(33) for _ in range(d.rng.randint(1, 3)))
    dims = (*(d.rng.choice((1, 2, 3)) for _ in range(d.rng.randint(0, 1))), *dims)
    axis, dtype = d.rng.randrange(len(dims)), d.rng.choice(("float32", "int32", "uint8", "int64"))
    data = d.give((d.floats(*dims) * 50 + 100).astype(dtype), turn=True)
    if op_type == "Gather":
        shape = tuple(d.size(9) for _ in range(d.rng.randint(0, 2)))
        d.op(op_type, data, d.give(d.integers("int64", *shape, low=-dims[axis], high=dims[axis])), axis=axis)
    elif op_type.endswith("Elements"):
        shape = tuple(d.rng.randint(1, size) for size in dims)
        indices = d.integers("int64", *shape, low=0, high=dims[axis])
        if op_type[0] == "S":  # each place once
            shape = (*shape[:axis], d.rng.randint(1, dims[axis]), *shape[axis + 1 :])
            lines = d.numpy.permutation(dims[axis])[: shape[axis]]
            rows = np.broadcast_to(lines, (*shape[:axis], *shape[axis + 1 :], shape[axis]))
            indices = np.moveaxis(rows, -1, axis)
            more = [d.give((d.floats(*shape) * 50).astype(dtype))]
        d.op(op_type, data, d.give(np.ascontiguousarray(indices)), *(more if op_type[0] == "S" else []), axis=axis)
    else:
        depth, count = d.rng.randint(1, len(dims)), d.size(33)
        count = min(count, math.prod(dims[:depth]))
        flat = d.numpy.permutation(math.prod(dims[:depth]))[:count]
        indices = d.give(np.stack(np.unravel_index(flat, dims[:depth]), -1))
        updates = [d.give((d.floats(count, *dims[depth:]) * 50).astype(dtype))] if op_type[0] == "S" else []
        d.op(op_type, data, indices, *updates)
    return d.case(18)


@family
def moves(d: Draw) -> SizedCase:
    """Operators that move elements: Transpose, Slice, Concat, Split, Pad, Tile, Expand and others."""
    op_type = d.rng.choice(
        [
            "Transpose",
            "Slice",
            "Concat",
            "Split",
            "Pad",
            "Tile",
            "Expand",
            "Reshape",
            "Trilu",
            "CumSum",
            "OneHot",
            "Flatten",
            "NonZero",
        ]
    )
    dims, dtype = tensor(d, 5), d.rng.choice(("float32", "int32", "uint8", "int8", "int64", "bool"))
    dims = (2, *dims) if op_type == "Trilu" and len(dims) == 1 else dims
    if op_type in ("CumSum", "OneHot", "NonZero"):
        dtype = d.rng.choice(("float32", "int32"))
    numbers = (d.floats(*dims) * 20 + 60).astype(dtype)
    axis, rank = d.rng.randrange(len(dims)), len(dims)
    data = d.give(numbers, 0.2 if op_type in ("Concat",) else 0, turn=True)
    if op_type == "Transpose":
        d.op(op_type, data, perm=d.rng.sample(range(rank), rank))
    elif op_type == "Slice":
        step, ends = d.rng.choice((1, 2, -1, -3)), sorted(d.rng.sample(range(dims[axis] + 1), 2))
        start, end = ends if step > 0 else (ends[1] - 1, ends[0] - 1 - dims[axis] * (ends[0] == 0))
        d.op(op_type, data, *(d.constant(np.array([number])) for number in (start, end, axis, step)))
    elif op_type == "Concat":
        other = (*dims[:axis], d.size(33), *dims[axis + 1 :])
        d.op(op_type, data, d.give((d.floats(*other) * 20).astype(dtype)), axis=axis)
    elif op_type == "Split":
        first = d.rng.randint(0, dims[axis])
        d.op(op_type, data, d.constant(np.array([first, dims[axis] - first])), axis=axis, outputs=2)
    elif op_type == "Pad":
        mode = d.rng.choice(("constant", "edge", "wrap"))
        pads = [d.rng.randint(-(size > 3), min(3, size)) for size in dims] * 2
        numbers_ = [d.constant(np.array(pads))]
        d.op(op_type, data, *numbers_, mode=mode if dtype != "bool" else "constant")
    elif op_type == "Tile":
        d.op(op_type, data, d.constant(np.array([d.rng.choice((1, 2)) for _ in dims])))
    elif op_type == "Expand":
        d.op(op_type, data, d.constant(np.array([2, *dims])))
    elif op_type == "Reshape":
        d.op(op_type, data, d.constant(np.array([dims[0], -1])))
    elif op_type == "Trilu":
        d.op(op_type, data, d.constant(np.array(d.rng.randint(-3, 3))), upper=int(d.chance()))
    elif op_type == "CumSum":
        d.op(op_type, data, d.constant(np.array(axis)), exclusive=int(d.chance()), reverse=int(d.chance()))
    elif op_type == "OneHot":
        indices = d.give(d.integers("int64", *dims[:2], low=-9, high=9), 0)
        d.op(op_type, indices, d.constant(np.array(9)), d.constant(np.array([1, 3], dtype)), axis=d.rng.choice((0, -1)))
    elif op_type == "Flatten":
        d.op(op_type, data, axis=axis)
    else:
        d.op(op_type, d.op("Round", data) if dtype == "float32" else data)
    return d.case(19)


@family
def resizes(d: Draw) -> SizedCase:
    """Resize of images by scales and sizes, in all modes."""
    mode = d.rng.choice(("nearest", "nearest", "linear", "cubic"))
    places = d.rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
    dims = (d.rng.choice((1, 2)), d.size(9), d.size(33), d.size(33))
    data = d.give(d.floats(*dims), 0)
    more = {"nearest_mode": d.rng.choice(("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"))}
    more = more if mode == "nearest" else {}
    if d.chance():
        scales = [1, 1, *(d.rng.choice((0.5, 0.6, 0.7, 1.3, 1.5, 2, 2.5, 3)) for _ in range(2))]
        scales = [s if size * s >= 1 else 2 for s, size in zip(scales, dims, strict=True)]
        d.op("Resize", data, "", d.constant(np.array(scales, np.float32)), mode=mode,
             coordinate_transformation_mode=places, **more)  # fmt: skip
    else:
        sizes = [*dims[:2], d.size(65), d.size(65)]
        d.op(
            "Resize",
            data,
            "",
            "",
            d.constant(np.array(sizes)),
            mode=mode,
            coordinate_transformation_mode=places,
            **more,
        )
    return d.case(19)


@family
def layers_with_states(d: Draw) -> SizedCase:
    """LSTM, GRU and RNN in all directions."""
    op_type, gates = d.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    direction = d.rng.choice(("forward", "reverse", "bidirectional"))
    count = 2 if direction == "bidirectional" else 1
    steps, batch, width, hidden = d.rng.choice((1, 2, 5)), d.rng.choice((1, 2, 9)), d.size(65), d.size(65)
    inputs = [
        d.give(d.floats(steps, batch, width), 0),
        d.constant(d.floats(count, gates * hidden, width) / np.float32(math.sqrt(width))),
        d.constant(d.floats(count, gates * hidden, hidden) / np.float32(math.sqrt(hidden))),
        d.constant(d.floats(count, 2 * gates * hidden)) if d.chance() else "",
    ]
    more = {"linear_before_reset": int(d.chance())} if op_type == "GRU" else {}
    d.op(op_type, *inputs, hidden_size=hidden, direction=direction, outputs=2, **more)
    return d.case(14)


@family
def quantizations(d: Draw) -> SizedCase:
    """QuantizeLinear and DequantizeLinear along any axis."""
    dims, dtype = tensor(d), d.rng.choice(("uint8", "int8"))
    axis = d.rng.randrange(len(dims))
    lines = (dims[axis],) if d.chance(0.6) else ()
    scale = d.constant((d.numpy.random(lines) / 16 + 0.01).astype(np.float32))
    zero = [d.constant(d.integers(dtype, *lines))] if d.chance(0.8) else []
    if d.chance():
        d.op("QuantizeLinear", d.give(d.floats(*dims), 0, turn=True), scale, *zero, axis=axis)
        return d.case(13, steps=1)
    data = d.give(d.integers(dtype, *dims), turn=True)
    d.op("DequantizeLinear", data, scale, *zero, axis=axis)
    return d.case(13)


@family
def attentions(d: Draw) -> SizedCase:
    """Attention with heads of many sizes, and MultiHeadAttention."""
    batch, heads, width = d.rng.choice((1, 2)), d.rng.choice((1, 2, 4)), d.rng.choice((8, 16, 32, 64))
    queries, keys = d.size(65), d.size(65)
    if d.chance():
        operands = [d.give(d.floats(batch, heads, n, width), 0) for n in (queries, keys, keys)]
        mask = [d.give(d.floats(queries, keys))] if d.chance() else []
        d.op("Attention", *operands, *mask, is_causal=int(d.chance(0.3) and queries == keys))
        return d.case(23)
    operands = [d.give(d.floats(batch, n, heads * width), 0) for n in (queries, keys, keys)]
    d.op("MultiHeadAttention", *operands, num_heads=heads, domain=MICROSOFT)
    return d.case(18)


GELUS = ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")
FUSED = (*GELUS, "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "RotaryEmbedding")


@family
def fused(d: Draw) -> SizedCase:
    """The other operators of ONNX Runtime for which RTen has kernels."""
    op_type, batch, steps, width = d.rng.choice(FUSED), d.rng.choice((1, 2)), d.rng.choice((1, 2, 9, 33)), d.size(65)
    if op_type == "RotaryEmbedding":
        heads, half = d.rng.choice((1, 2, 4)), d.rng.choice((4, 8, 16))
        places = np.arange(steps)[None].repeat(batch, 0) if d.chance() else np.zeros(1, int)
        inputs = [d.give(d.floats(batch, steps, heads * 2 * half), 0), d.give(places.astype(np.int64))]
        inputs += [d.constant(d.floats(steps + 9, half)) for _ in range(2)]
        d.op(op_type, *inputs, interleaved=int(d.chance()), domain=MICROSOFT)
        return d.case(18)
    inputs = [d.give(d.floats(batch, steps, width), 0)]
    if op_type.startswith("Skip"):
        inputs += [d.give(d.floats(batch, steps, width), 0), d.give(d.floats(width))]
    if op_type in ("BiasGelu", "FastGelu", "SkipLayerNormalization"):
        inputs.append(d.give(d.floats(width)))
    d.op(op_type, *inputs, domain=MICROSOFT)
    return d.case(18)


@family
def weights_of_few_bits(d: Draw) -> SizedCase:
    """MatMulNBits with blocks that fill the rows, and with others."""
    depth, columns, block = d.rng.choice((16, 32, 33, 64, 85, 128, 300)), d.size(65), d.rng.choice((16, 32, 64, 128))
    blocks = -(-depth // block)
    rows = d.rng.choice(((1,), (2,), (7,), (1, 3), (2, 9)))
    inputs = [
        d.give(d.floats(*rows, depth), 0),
        d.constant(d.integers("uint8", columns, blocks, block // 2)),
        d.constant((d.numpy.random(columns * blocks) / 16 + 0.01).astype(np.float32).reshape(
            d.rng.choice(((-1,), (columns, blocks))))),
    ]  # fmt: skip
    if d.chance(0.3):
        inputs.append(d.constant(d.integers("uint8", columns * ((blocks + 1) // 2))))
    d.op("MatMulNBits", *inputs, K=depth, N=columns, bits=4, block_size=block, domain=MICROSOFT)
    return d.case(18)
