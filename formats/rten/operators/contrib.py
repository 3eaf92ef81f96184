"""Rewrites ONNX Runtime's own operators, in its domain com.microsoft, to standard operators.

Spec: ONNX Runtime, ContribOperators.md.
"""

from __future__ import annotations

from dataclasses import replace

from formats.ir.attributes import attribute_named, get_float, get_floats, get_int, get_string
from formats.ir.dtypes import FLOAT, INT32, INT64, UINT2, UINT4, UINT8
from formats.ir.model import Node
from formats.onnxruntime import ACTIVATIONS, MICROSOFT
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.operators import activation, normalization, shape
from formats.rten.spec import (
    ANY,
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Rewriting,
    Row,
    ToRten,
    rewritten,
)
from formats.rten.target import RTEN_0_26
from formats.tensordata.plan import RARE, SPECIAL


def _plus(context: Context, value: str, place: int) -> str:
    """The value, plus an input if that input is given."""
    return context.op("Add", value, context.optional(place)) if context.optional(place) else value


def bias_gelu(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gelu of a sum."""
    return context.replace(context.op("Gelu", context.op("Add", context.input(0), context.input(1))))


BiasGelu = OperatorSpec(
    "BiasGelu",
    to_rten=ToRten(rewritings=(bias_gelu,)),
    onnx_loader=OnnxLoader(Row(2), is_native=True),
    domain=MICROSOFT,
)


def standard(operator: str) -> Rewriting:
    """A rewriting to the standard operator of the same form."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return [replace(node, op_type=operator, domain=None)]

    return rewriting


SKIP_EPSILON = 1e-12  # the default of normalisations with an addition


_SQUARED_INFINITY = Deviation(
    "next to an infinity, RTen's distance may be infinite where onnxruntime's is NaN", SPECIAL
)


def distances(node: Node, context: Context) -> list[Node] | None:
    """Write it as norms of the differences between all rows."""
    op = context.op
    context.report(_SQUARED_INFINITY, is_defined=False)
    rows = op("Unsqueeze", context.input(0), [1])  # rows of the first, 1, width
    apart = op("Sub", rows, op("Unsqueeze", context.input(1), [0]))  # rows of the first, rows of the second, width
    square = op("ReduceSumSquare", apart, [2], keepdims=0)  # rows of the first, rows of the second
    is_square = get_string(node, "metric", "sqeuclidean") == "sqeuclidean"
    return context.replace(square if is_square else op("Sqrt", square))


def embed_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as LayerNormalization of the sum of three Gathers."""
    op = context.op
    if context.wanted(1) and context.optional(7):
        raise Refused("outputs the number of unmasked words, which RTen cannot compute")
    tokens, segments, places = context.input(0), context.optional(1), context.optional(8)
    total = op("Gather", context.input(2), tokens, axis=0)  # samples, words, width
    positions = context.input(3)
    if places:
        total = op("Add", total, op("Gather", positions, places, axis=0))
    else:
        zero, axis = context.int64([0]), context.int64([0])
        # The first positions, as many as there are words: words, width.
        used = op("Slice", positions, zero, op("Shape", tokens, start=1, end=2), axis)
        total = op("Add", total, used)
    if segments:
        total = op("Add", total, op("Gather", context.input(4), segments, axis=0))
    epsilon = get_float(node, "epsilon", SKIP_EPSILON)
    # The axes: samples, words, width.
    normal = op("LayerNormalization", total, context.input(5), context.input(6), epsilon=epsilon)
    lengths = ""
    if context.wanted(1):  # onnxruntime counts no words without a mask
        rows = op("Shape", tokens, start=0, end=1)
        lengths = op("Expand", context.scalar(0, elem_type=INT32), rows)
    return context.replace(normal, lengths, total)


def unsqueezed(node: Node, context: Context) -> list[Node] | None:
    """Write it as Unsqueeze."""
    axes = context.op("Reshape", context.cast(context.input(1), INT64), [1])
    return context.replace(context.op("Unsqueeze", context.input(0), axes))


def fast_gelu(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gelu with approximate="tanh", after an Add if there is a bias."""
    return context.replace(context.op("Gelu", _plus(context, context.input(0), 1), approximate="tanh"))


FastGelu = OperatorSpec(
    "FastGelu",
    to_rten=ToRten(rewritings=(fast_gelu,)),
    onnx_loader=OnnxLoader(Row(2), is_native=True),
    domain=MICROSOFT,
)


def _activated(node: Node, context: Context, value: str, parameters: list[float]) -> str:
    """The value after the activation that the node names, if any, with the parameters of the activation."""
    name = get_string(node, "activation")
    if not name:
        return value
    if name == "Clip":
        bounds = (context.scalar(bound, like=value) for bound in parameters)
        return context.op("Clip", value, *bounds)
    if name not in ACTIVATIONS:
        raise Refused(f"has the unknown activation {name!r}")
    return context.op(name, value, **dict(zip(ACTIVATIONS[name], parameters, strict=False)))


def fused_conv(node: Node, context: Context) -> list[Node] | None:
    """Write it as Conv, Add and the activation."""
    inputs = [name for name in node.input[:3] if name]
    result = _plus(context, context.copy(inputs, "Conv", ("activation", "activation_params")), 3)
    return context.replace(_activated(node, context, result, list(get_floats(node, "activation_params") or ())))


def fused_gemm(node: Node, context: Context) -> list[Node] | None:
    """Write it as Gemm and the activation."""
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    result = context.copy(list(node.input), "Gemm", ("activation", *names))
    parameters = [get_float(node, name) for name in names if attribute_named(node, name) is not None]
    return context.replace(_activated(node, context, result, parameters))


def fused_mat_mul(node: Node, context: Context) -> list[Node] | None:
    """Write it as MatMul of transposed inputs, times alpha."""
    if get_int(node, "transBatchA") or get_int(node, "transBatchB"):
        raise Refused("transposes batch axes (transBatchA, transBatchB), which cannot be converted")
    operands = []
    for place, flag in enumerate(("transA", "transB")):
        name = context.input(place)
        rank = context.known_rank(name) if get_int(node, flag) else 0
        order = [*range(rank - 2), rank - 1, rank - 2]  # the last two axes swapped
        operands.append(context.op("Transpose", name, perm=order) if rank > 1 else name)
    product, alpha = context.op("MatMul", *operands), get_float(node, "alpha", 1.0)
    return context.replace(product if alpha == 1 else context.op("Mul", product, context.scalar(alpha, like=product)))


def contrib_gelu(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Gelu."""
    return context.replace(context.op("Gelu", context.input(0)))


Gelu = OperatorSpec(
    "Gelu", to_rten=ToRten(rewritings=(contrib_gelu,)), onnx_loader=OnnxLoader(Row(1), is_native=True), domain=MICROSOFT
)


PACKED = {2: (UINT2, 4), 4: (UINT4, 2), 8: (UINT8, 1)}  # by number of bits: element type, elements per byte


def _block_zeros(context: Context, zeros: str, rows: int, blocks: int, bits: int) -> str:
    """The zero point of each block; if none is given, the middle of the range."""
    elem_type, per_byte = PACKED[bits]
    if not zeros:
        return context.array(budget.full((rows, blocks), 1 << bits - 1), elem_type)
    if context.is_float(zeros):
        return context.op("Reshape", zeros, [rows, blocks])
    tensor = context.scope.constant(zeros)
    if tensor is None or tensor.data_type != UINT8:
        raise Refused("has zero points that are neither floats nor packed constants")
    whole = replace(tensor, data_type=elem_type, dims=[rows, -(-blocks // per_byte) * per_byte])
    return context.constants.add(whole.numpy()[:, :blocks])


def _by_column(context: Context, weight: str, scales: str, zeros: str, groups: str) -> str:
    """(x - zero point) * scale, where each column says which group it belongs to."""
    zeros = context.cast(zeros, context.elem_type(scales) or FLOAT)
    factor, zero = (context.op("Gather", name, groups, axis=1) for name in (scales, zeros))  # N, K
    return context.op("Mul", context.op("Sub", weight, zero), factor)


_IGNORED_ZEROS = Deviation(
    "packed zero points next to groups (g_idx) are taken to be 8, as onnxruntime takes them", RARE
)


def mat_mul_n_bits(node: Node, context: Context) -> list[Node] | None:
    """Write it as DequantizeLinear of blocks, or of groups that each column names, and MatMul."""
    op = context.op
    data, packed, scales, zeros = context.input(0), context.input(1), context.input(2), context.optional(3)
    rows, columns, block = get_int(node, "N"), get_int(node, "K"), get_int(node, "block_size")
    tensor, groups = context.scope.constant(packed), context.optional(4)
    bits = get_int(node, "bits", 4)
    if bits not in PACKED or tensor is None:
        raise Refused("has a weight that is not a constant of two, four or eight bits")
    if groups and bits != 4:
        raise Refused(f"has groups (g_idx) with {bits} bits, and onnxruntime computes them only with four")
    if groups and zeros and not context.is_float(zeros):
        context.report(_IGNORED_ZEROS, is_defined=False)
        zeros = ""
    blocks = -(-columns // block)
    context.check_size(rows, blocks)
    name = context.names.new(f"{packed}/unpacked")
    whole = replace(tensor, name=name, data_type=PACKED[bits][0], dims=[rows, blocks * block])
    numbers = context.constants.add_tensor(whole)  # N, blocks * block
    zero = _block_zeros(context, zeros, rows, blocks, bits)  # N, blocks
    spread = op("Reshape", scales, [rows, blocks])
    is_plain = not groups and not context.is_float(zero)
    if is_plain:
        numbers = op("DequantizeLinear", numbers, spread, zero, axis=1, block_size=block)
    else:
        numbers = context.cast(numbers, context.elem_type(scales) or FLOAT)
    if blocks * block != columns:
        bounds = (context.int64([number]) for number in (0, columns, 1))
        numbers = op("Slice", numbers, *bounds)  # N, K: the last block may reach beyond
    if not is_plain:
        places = groups or context.int64(place // block for place in range(columns))
        if groups and context.dims(groups) != (columns,):
            places = op("Slice", groups, [0], [columns], [0])
        numbers = _by_column(context, numbers, spread, zero, places)
    product = op("MatMul", data, op("Transpose", numbers, perm=[1, 0]))
    return context.replace(_plus(context, product, 5))


def _has_kernel(node: Node, scope: Scope, types: list[ValueType]) -> bool:
    """RTen's kernel needs complete blocks, and more axes than one."""
    data, weight, scales = (entry.dims for entry in types[:3])
    block = get_int(node, "block_size")
    is_shaped = weight is not None and len(weight) == 3 and scales is not None and len(scales) in (1, 2)
    return is_shaped and data is not None and len(data) > 1 and block > 0 and get_int(node, "K") % block == 0


MatMulNBits = OperatorSpec(
    "MatMulNBits",
    to_rten=ToRten(rewritings=(mat_mul_n_bits,)),
    onnx_loader=OnnxLoader(
        Row(3, fields=(Field("block_size", int, required=True), Field("accuracy_level", int, 0))),
        {"bits": (4,), "K": ANY, "N": ANY},
        is_native=True,
        native_if=_has_kernel,
    ),
    domain=MICROSOFT,
)


def channels_last(context: Context, value: str, rank: int) -> str:
    """The value with the second axis moved to the end."""
    return context.op("Transpose", value, perm=[0, *range(2, rank), 1])


def channels_first(context: Context, value: str, rank: int) -> str:
    """The value with the last axis moved to the second place."""
    return context.op("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])


def nhwc_max_pool(node: Node, context: Context) -> list[Node] | None:
    """Write it as MaxPool between Transposes."""
    rank = context.known_rank(context.input(0))
    pooled = context.copy([channels_first(context, context.input(0), rank)], "MaxPool")
    return context.replace(channels_last(context, pooled, rank))


def quick_gelu(node: Node, context: Context) -> list[Node] | None:
    """Write it as x * sigmoid(alpha * x)."""
    return context.replace(activation.times_sigmoid(context, context.input(0), get_float(node, "alpha", 1.702)))


QuickGelu = OperatorSpec(
    "QuickGelu",
    to_rten=ToRten(rewritings=(quick_gelu,)),
    onnx_loader=OnnxLoader(Row(1, fields=(Field("alpha", float, 1.702),), since=RTEN_0_26), is_native=True),
    domain=MICROSOFT,
)


def _positions_from(context: Context, first: str, data: str) -> str:
    """The positions of all words, of which the first words have the given one."""
    op = context.op
    axis = context.known_rank(data) - 2
    batch, steps = shape.sizes_of(context, data, 0, 1), shape.sizes_of(context, data, axis, axis + 1)
    zero, one = context.int64_scalar(0), context.int64_scalar(1)
    count = op("Squeeze", steps, [0])
    row = op("Add", op("Range", zero, count, one), first)  # words
    return op("Expand", row, shape.joined(context, batch, steps))


def rotary_embedding(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard RotaryEmbedding, whose inputs have another order."""
    data, places, cosine, sine = (context.input(place) for place in range(4))
    if context.rank(places) not in (1, 2):
        raise Refused("has position_ids of unknown rank", "infer the model's shapes first")
    if get_float(node, "scale", 1.0) != 1 or get_int(node, "is_packed_batching"):
        raise Refused("uses scale or packed batching, which cannot be converted")
    heads, size = get_int(node, "num_heads"), get_int(node, "rotary_embedding_dim")
    if not heads and context.rank(data) == 3:
        width, half = context.static_dims(data, 2)[0], context.static_dims(cosine)[1]
        heads = width // (2 * half)  # cosines are for half of a head
    if context.rank(places) == 1:
        places = _positions_from(context, places, data)
    return context.replace(
        context.op(
            "RotaryEmbedding", data, cosine, sine, places,
            interleaved=get_int(node, "interleaved"), num_heads=heads, rotary_embedding_dim=size
        )
    )  # fmt: skip


RotaryEmbedding = OperatorSpec(
    "RotaryEmbedding",
    to_rten=ToRten(rewritings=(rotary_embedding,)),
    onnx_loader=OnnxLoader(
        Row(4, fields=tuple(Field(name, int, 0) for name in ("interleaved", "num_heads", "rotary_embedding_dim"))),
        is_native=True,
        ranks={1: 2},
    ),
    domain=MICROSOFT,
)


_SKIP_FIELDS = (Field("epsilon", float, required=True),)


def _inverse_deviations(context: Context, squares: str, epsilon: float) -> str:
    """One divided by the root of the mean of squares over the last axis."""
    op = context.op
    mean = op("ReduceMean", squares, [-1], keepdims=1)  # ..., 1
    root = op("Sqrt", op("Add", mean, context.scalar(epsilon, like=squares)))
    return op("Div", context.scalar(1.0, like=squares), root)


_MEAN_OF_INFINITY = Deviation("the mean of a row with an infinity may be infinite where onnxruntime's is NaN", SPECIAL)


def skip_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as LayerNormalization of a sum, which is the last output."""
    op = context.op
    total = _plus(context, op("Add", context.input(0), context.input(1)), 4)
    epsilon = get_float(node, "epsilon", SKIP_EPSILON)
    normal = op("LayerNormalization", total, context.input(2), context.optional(3), epsilon=epsilon)
    mean = inverse = ""
    if context.wanted(1) or context.wanted(2):
        context.report(_MEAN_OF_INFINITY, is_defined=False)
        mean = op("ReduceMean", total, [-1], keepdims=1)
    if context.wanted(2):
        apart = op("Sub", total, mean)
        inverse = _inverse_deviations(context, op("Mul", apart, apart), epsilon)
    return context.replace(normal, mean, inverse, total)


SkipLayerNormalization = OperatorSpec(
    "SkipLayerNormalization",
    to_rten=ToRten(rewritings=(skip_layer_normalization,)),
    onnx_loader=OnnxLoader(Row(5, 4, fields=_SKIP_FIELDS), is_native=True, lacks_outputs=(1, 2)),
    domain=MICROSOFT,
)


def skip_simplified_layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as RMSNormalization of a sum, which is the last output."""
    total = _plus(context, context.op("Add", context.input(0), context.input(1)), 3)
    epsilon = get_float(node, "epsilon", SKIP_EPSILON)
    if context.wanted(1):
        raise Refused("outputs the mean, which onnxruntime does not compute for this operator")
    normal = normalization.root_mean_square(context, total, [-1], epsilon)
    inverse = ""
    if context.wanted(2):
        inverse = _inverse_deviations(context, context.op("Mul", total, total), epsilon)
    return context.replace(context.op("Mul", normal, context.input(2)), "", inverse, total)


SkipSimplifiedLayerNormalization = OperatorSpec(
    "SkipSimplifiedLayerNormalization",
    to_rten=ToRten(rewritings=(skip_simplified_layer_normalization,)),
    onnx_loader=OnnxLoader(Row(4, 4, fields=_SKIP_FIELDS), is_native=True, lacks_outputs=(1, 2)),
    domain=MICROSOFT,
)


def contrib_pad(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Pad. It may have pads in a row of a matrix."""
    pads = context.op("Reshape", context.input(1), [-1])
    mode = get_string(node, "mode", "constant") or "constant"
    return context.replace(context.op("Pad", context.input(0), pads, context.optional(2), mode=mode))


def contrib_range(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Range. Its step is 1 if there is none."""
    start = context.input(0)
    step = context.optional(2) or context.scalar(1, like=start)
    return context.replace(context.op("Range", start, context.input(1), step))


def contrib_gather_nd(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard GatherND."""
    return context.replace(context.copy(node.input, "GatherND"))


def contrib_unique(node: Node, context: Context) -> list[Node] | None:
    """Write it as the standard Unique in the order of the first ones, without the places of these."""
    outputs = context.op_outputs("Unique", [context.input(0)], 4, sorted=0)
    return context.replace(outputs[0], *outputs[2:])


REWRITTEN = rewritten(
    MICROSOFT,
    CDist=distances,
    DequantizeLinear=standard("DequantizeLinear"),
    EmbedLayerNormalization=embed_layer_normalization,
    ExpandDims=unsqueezed,
    FusedConv=fused_conv,
    FusedGemm=fused_gemm,
    FusedMatMul=fused_mat_mul,
    GatherND=contrib_gather_nd,
    NhwcMaxPool=nhwc_max_pool,
    Pad=contrib_pad,
    QuantizeLinear=standard("QuantizeLinear"),
    Range=contrib_range,
    SimplifiedLayerNormalization=normalization.rms_normalization,
    TransposeMatMul=fused_mat_mul,
    Trilu=standard("Trilu"),
    Unique=contrib_unique,
)
