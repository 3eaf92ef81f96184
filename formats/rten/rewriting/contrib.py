"""Operators that ONNX Runtime has of its own, in its domain com.microsoft, as standard ones.

Spec: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING

from formats.rten.convert.context import Refused
from formats.rten.convert.value_types import UINT8
from formats.rten.graph.attributes import find, get_float, get_floats, get_int, get_ints, get_string
from formats.rten.rewriting.elementwise import times_sigmoid
from formats.rten.rewriting.reductions import root_mean_square, trailing_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting

SKIP_EPSILON = 1e-12  # the default of the normalisations that add first
UINT4 = 21
UNMASKED = -10000.0  # the default of what is added where a key is masked


def gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu by the error function."""
    return context.replace(context.op("Gelu", context.input(0)))


def bias_gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu of a sum."""
    return context.replace(context.op("Gelu", context.op("Add", context.input(0), context.input(1))))


def fast_gelu(node: Node, context: Context) -> list[Node] | None:
    """Gelu by the hyperbolic tangent, of a sum if there is a bias."""
    return context.replace(context.op("Gelu", _plus(context, context.input(0), 1), approximate="tanh"))


def quick_gelu(node: Node, context: Context) -> list[Node] | None:
    """The product x * sigmoid(alpha * x)."""
    return context.replace(times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.702)))


def _plus(context: Context, value: str, place: int) -> str:
    """The value, and an input added to it if that is given."""
    return context.op("Add", value, context.optional(place)) if context.optional(place) else value


def simplified_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """The root mean square only."""
    data = context.input(0)
    normal = root_mean_square(context, data, trailing_axes(node, context, data), get_float(node, "epsilon", 1e-5))
    return context.replace(context.op("Mul", normal, context.input(1)))


def skip_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """The normal form of a sum, which is the last output."""
    total = _plus(context, context.op("Add", context.input(0), context.input(1)), 4)
    epsilon = get_float(node, "epsilon", SKIP_EPSILON)
    normal = context.op("LayerNormalization", total, context.input(2), context.optional(3), epsilon=epsilon)
    return _with_sum(node, context, normal, total)


def skip_simplified_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """As above, by the root mean square."""
    total = _plus(context, context.op("Add", context.input(0), context.input(1)), 3)
    normal = root_mean_square(context, total, [-1], get_float(node, "epsilon", SKIP_EPSILON))
    return _with_sum(node, context, context.op("Mul", normal, context.input(2)), total)


def _with_sum(node: Node, context: Context, normal: str, total: str) -> list[Node]:
    if context.wanted(1) or context.wanted(2):
        raise Refused("wants the mean or the deviation")
    return context.replace(normal, "", "", total)


def embed_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """The normal form of the sum of looked up words, positions and segments, which is the last output."""
    if context.wanted(1) and context.optional(7):
        raise Refused("wants the number of words that the mask leaves")
    tokens, segments, places = context.input(0), context.optional(1), context.optional(8)
    total = context.op("Gather", context.input(2), tokens, axis=0)
    positions = context.input(3)
    if places:
        total = context.op("Add", total, context.op("Gather", positions, places, axis=0))
    else:
        zero, axis = context.int64([0]), context.int64([0])
        used = context.op("Slice", positions, zero, context.op("Shape", tokens, start=1, end=2), axis)
        total = context.op("Add", total, used)
    if segments:
        total = context.op("Add", total, context.op("Gather", context.input(4), segments, axis=0))
    epsilon = get_float(node, "epsilon", SKIP_EPSILON)
    normal = context.op("LayerNormalization", total, context.input(5), context.input(6), epsilon=epsilon)
    return context.replace(normal, "", total)


def fused_mat_mul(node: Node, context: Context) -> list[Node] | None:
    """A scaled product of matrices that may be transposed."""
    if get_int(node, "transBatchA") or get_int(node, "transBatchB"):
        raise Refused("moves axes of the stack (transBatchA, transBatchB)")
    operands = []
    for place, flag in enumerate(("transA", "transB")):
        name = context.input(place)
        rank = context.known_rank(name) if get_int(node, flag) else 0
        order = [*range(rank - 2), rank - 1, rank - 2]
        operands.append(context.op("Transpose", name, perm=order) if rank > 1 else name)
    product, alpha = context.op("MatMul", *operands), get_float(node, "alpha", 1.0)
    return context.replace(product if alpha == 1 else context.op("Mul", product, context.scalar(alpha, like=product)))


ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Elu": ("alpha",),
}


def _activated(node: Node, context: Context, value: str, given: list[float]) -> str:
    """The value put through the activation that the node names, if any; its parameters are `given`."""
    name = get_string(node, "activation")
    if not name:
        return value
    if name == "Clip":
        bounds = (context.scalar(bound, like=value) for bound in given)
        return context.op("Clip", value, *bounds)
    if name not in ACTIVATIONS:
        raise Refused(f"has the unknown activation {name!r}")
    return context.op(name, value, **dict(zip(ACTIVATIONS[name], given, strict=False)))


def fused_conv(node: Node, context: Context) -> list[Node] | None:
    """A convolution, a sum and an activation."""
    inputs = [name for name in node.input[:3] if name]
    result = _plus(context, context.copy(inputs, "Conv", ("activation", "activation_params")), 3)
    return context.replace(_activated(node, context, result, list(get_floats(node, "activation_params") or ())))


def fused_gemm(node: Node, context: Context) -> list[Node] | None:
    """A product of matrices and an activation."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    result = context.copy(list(node.input), "Gemm", ("activation", *names))
    given = [get_float(node, name) for name in names if find(node, name) is not None]
    return context.replace(_activated(node, context, result, given))


def rotary_embedding(node: Node, context: Context) -> list[Node] | None:
    """The standard operator has its inputs in another order."""
    data, places, cosine, sine = (context.input(place) for place in range(4))
    if context.rank(places) != 2:
        raise Refused("has positions that are not given for each word", "expand position_ids to two axes")
    if get_float(node, "scale", 1.0) != 1 or get_int(node, "is_packed_batching"):
        raise Refused("scales, or packs samples of different lengths")
    heads, size = get_int(node, "num_heads"), get_int(node, "rotary_embedding_dim")
    if not heads and context.rank(data) == 3:
        width, half = context.static_dims(data, 2)[0], context.static_dims(cosine)[1]
        heads = width // (2 * half)
    return context.replace(
        context.op(
            "RotaryEmbedding", data, cosine, sine, places,
            interleaved=get_int(node, "interleaved"), num_heads=heads, rotary_embedding_dim=size,
        )
    )  # fmt: skip


def multi_head_attention(node: Node, context: Context) -> list[Node] | None:
    """Attention between three projections, each of three axes, with the mask as something to add."""
    operands = [context.input(place) for place in range(3)]
    if any(context.rank(name) != 3 for name in operands):
        raise Refused("has packed or four-dimensional inputs, or inputs of unknown rank")
    if any(context.optional(place) for place in (8, 9)) or context.wanted(3):
        raise Refused("uses a cache that is filled in place, or wants the products of queries and keys")
    if context.optional(3):
        widths = [context.static_dims(name, 2)[0] for name in operands]
        biases = context.op_outputs("Split", [context.input(3), context.int64(widths)], 3, axis=0)
        operands = [context.op("Add", name, bias) for name, bias in zip(operands, biases, strict=True)]
    return _attention(node, context, operands, _mask(node, context, 4, 5), (6, 7))


def attention(node: Node, context: Context) -> list[Node] | None:
    """Attention of a value to itself, with one matrix for the three projections."""
    if context.optional(4) or context.wanted(1) or get_int(node, "do_rotary"):
        raise Refused("has a past, or turns by positions")
    product = context.op("MatMul", context.input(0), context.input(1))
    product = _plus(context, product, 2)
    sizes = get_ints(node, "qkv_hidden_sizes")
    if not sizes:
        sizes = [context.static_dims(context.input(1))[1] // 3] * 3
    operands = list(context.op_outputs("Split", [product, context.int64(sizes)], 3, axis=-1))
    return _attention(node, context, operands, _mask(node, context, 3, 5), ())


def _mask(node: Node, context: Context, mask_place: int, bias_place: int) -> str:
    """What is added to the products of queries and keys; the mask has a number for each key of each sample."""
    mask, bias = context.optional(mask_place), context.optional(bias_place)
    if not mask:
        return bias
    if context.rank(mask) != 2:
        raise Refused("has a mask that is not given for each key", "use a mask of two axes")
    if get_int(node, "unidirectional"):
        raise Refused("has a mask and looks back only")
    hidden = context.scalar(get_float(node, "mask_filter_value", UNMASKED))
    shown = context.op("Cast", mask, to=9)
    penalty = context.op("Where", shown, context.scalar(0.0), hidden)
    penalty = context.op("Unsqueeze", penalty, context.int64([1, 2]))
    return context.op("Add", penalty, bias) if bias else penalty


def _attention(node: Node, context: Context, operands: list[str], mask: str, past: tuple[int, ...]) -> list[Node]:
    heads = get_int(node, "num_heads")
    width = context.static_dims(operands[0], 2)[0]
    cache = [context.optional(place) for place in past]
    outputs = context.op_outputs(
        "Attention",
        [*operands, mask, *cache],
        3 if any(cache) else 1,
        q_num_heads=heads,
        kv_num_heads=heads,
        scale=get_float(node, "scale") or 1 / sqrt(width / heads),
        is_causal=get_int(node, "unidirectional"),
    )
    return context.replace(*outputs)


def mat_mul_n_bits(node: Node, context: Context) -> list[Node] | None:
    """A weight of four bits, multiplied out in blocks as the first half of the file has it: low bits first."""
    data, packed, scales, zeros = context.input(0), context.input(1), context.input(2), context.optional(3)
    rows, columns, block = get_int(node, "N"), get_int(node, "K"), get_int(node, "block_size")
    tensor = context.scope.constant(packed)
    if get_int(node, "bits", 4) != 4 or tensor is None or context.optional(4):
        raise Refused("has a weight of other than four bits, or one that is no constant, or groups")
    blocks = -(-columns // block)
    context.check_size(rows, blocks)
    name = context.names.new(f"{packed}/unpacked")
    whole = replace(tensor, name=name, data_type=UINT4, dims=[rows, blocks * block])
    weight = context.constants.add_tensor(whole)
    zero = _four_bit_zeros(context, zeros, rows, blocks)
    spread = context.op("Reshape", scales, context.int64([rows, blocks]))
    numbers = context.op("DequantizeLinear", weight, spread, zero, axis=1, block_size=block)
    if blocks * block != columns:
        bounds = (context.int64([number]) for number in (0, columns, 1))
        numbers = context.op("Slice", numbers, *bounds)
    product = context.op("MatMul", data, context.op("Transpose", numbers, perm=[1, 0]))
    return context.replace(_plus(context, product, 5))


def _four_bit_zeros(context: Context, zeros: str, rows: int, blocks: int) -> str:
    """The zero point of each block; 8 where none is given."""
    import numpy

    if not zeros:
        return context.array(numpy.full((rows, blocks), 8), UINT4)
    tensor = context.scope.constant(zeros)
    if tensor is None or tensor.data_type != UINT8:
        raise Refused("has zero points that are not packed constants")
    whole = replace(tensor, data_type=UINT4, dims=[rows, blocks + blocks % 2])
    return context.constants.add(whole.numpy()[:, :blocks])


def standard(op_type: str) -> Rewriting:
    """A rewriting to the standard operator of the same form."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return [replace(node, op_type=op_type, domain=None)]

    return rewriting


REWRITINGS: Mapping[str, Rewriting] = {
    "Attention": attention,
    "BiasGelu": bias_gelu,
    "DequantizeLinear": standard("DequantizeLinear"),
    "EmbedLayerNormalization": embed_layer_normalization,
    "FastGelu": fast_gelu,
    "FusedConv": fused_conv,
    "FusedGemm": fused_gemm,
    "FusedMatMul": fused_mat_mul,
    "Gelu": gelu,
    "MatMulNBits": mat_mul_n_bits,
    "MultiHeadAttention": multi_head_attention,
    "QuantizeLinear": standard("QuantizeLinear"),
    "QuickGelu": quick_gelu,
    "RotaryEmbedding": rotary_embedding,
    "SimplifiedLayerNormalization": simplified_layer_normalization,
    "SkipLayerNormalization": skip_layer_normalization,
    "SkipSimplifiedLayerNormalization": skip_simplified_layer_normalization,
    "TransposeMatMul": fused_mat_mul,
    "Trilu": standard("Trilu"),
}
STANDARD: Mapping[str, Rewriting] = {"SimplifiedLayerNormalization": simplified_layer_normalization}
