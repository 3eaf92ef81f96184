"""Rewrites ONNX Runtime's own forms of attention to the standard operator.

Spec: ONNX Runtime, ContribOperators.md, Attention, MultiHeadAttention and QAttention.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from formats.ir.attributes import attribute_named, get_float, get_int, get_ints
from formats.ir.dtypes import BOOL, FLOAT, INT64
from formats.ir.model import Node
from formats.onnxruntime import MICROSOFT
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import attention, shape
from formats.rten.spec import Field, OnnxLoader, OperatorSpec, Outputs, Row, ToRten, rewritten

UNMASKED = -10000.0  # the default for the number added to a masked key
LOWEST = -3.4028234663852886e38  # the number added to a key that comes later


# The axes of values in the comments below: B samples, H heads, Q queries, K keys, W the width of a head.


def _penalty(node: Node, context: Context, mask: str, batch: str, length: str) -> str:
    """The addend for keys that a mask leaves out: B, 1, 1, K, or B, 1, Q, K.

    A mask has a number for each key: B, K, or for each query and key: B, Q, K, or it has lengths: B, or more.
    """
    rank = context.rank(mask)
    if rank == 1:
        shown = _shown_by_length(node, context, mask, batch, length)
    elif rank in (2, 3):
        shown = context.op("Cast", mask, to=BOOL)
    else:
        raise Refused("has a mask that is not given per key or per sample", "use a mask of two axes")
    hidden = context.scalar(get_float(node, "mask_filter_value", UNMASKED))
    penalty = context.op("Where", shown, 0.0, hidden)
    return context.op("Unsqueeze", penalty, context.int64([1] if rank == 3 else [1, 2]))


def _shown_by_length(node: Node, context: Context, mask: str, batch: str, length: str) -> str:
    """Whether a sample has a key: it is before the sample's end, and not before its start, if the mask has starts.

    The ends are the first numbers, one a sample. What MultiHeadAttention has behind them, onnxruntime ignores.
    """
    op = context.op
    places = op("Unsqueeze", shape.numbers_below(context, length), [0])  # 1, K
    numbers, column = context.cast(mask, INT64), context.int64([1])
    if context.dims(mask) == (context.dims(batch) or ("",))[:1]:
        return op("Less", places, op("Unsqueeze", numbers, column))
    samples, first = shape.sizes_of(context, batch, 0, 1), context.int64([0])
    ends = op("Slice", numbers, first, samples, first)  # B
    shown = op("Less", places, op("Unsqueeze", ends, column))
    if node.op_type == "MultiHeadAttention":
        return shown
    zeros = op("Expand", [0], samples)  # the starts, if the mask has none
    both = op("Concat", numbers, zeros, axis=0)  # ends, then starts
    starts = op("Slice", both, samples, op("Add", samples, samples), first)  # B
    is_after = op("GreaterOrEqual", places, op("Unsqueeze", starts, column))
    return op("And", shown, is_after)


def _later_keys(context: Context, steps: str, length: str, past: str) -> str:
    """What is added so that no query sees later keys: Q, K. Like onnxruntime, the last query sees all keys."""
    op = context.op
    column, places = context.int64([1]), shape.numbers_below(context, steps)
    rows = op("Add", places, past) if past else places
    rows = op("Unsqueeze", rows, column)  # Q, 1
    last = op("Sub", steps, 1)
    is_last = op("Unsqueeze", op("Equal", places, last), column)  # Q, 1
    is_before = op("LessOrEqual", shape.numbers_below(context, length), rows)  # Q, K
    is_seen = op("Or", is_before, is_last)
    return op("Where", is_seen, context.scalar(0.0), context.scalar(LOWEST))


def _are_as_many(queries: Dims | None, keys: Dims | None) -> bool:
    """Whether there is known to be a key for each query."""
    return queries is not None and keys is not None and queries[1] is not None and queries[1] == keys[1]


def _has_kernel(node: Node, scope: Scope, types: list[ValueType]) -> bool:
    """RTen's kernel replaces scores by the mask's number, to which onnxruntime adds them, and knows no scale of 0."""
    has_mask = len(node.input) > 4 and node.input[4]
    is_scaled = attribute_named(node, "scale") is None or get_float(node, "scale")
    return not has_mask and not get_int(node, "unidirectional") and bool(is_scaled)


def _attended(
    node: Node, context: Context, operands: list[str], cache: list[str], mask: str, bias: str
) -> tuple[str, ...]:
    """The result, and with a cache the present keys and values."""
    op = context.op
    query, key = operands[:2]
    heads, causal = get_int(node, "num_heads"), get_int(node, "unidirectional")
    has_cache = any(cache)
    if mask or (causal and (has_cache or not _are_as_many(context.dims(query), context.dims(key)))):
        length, past = shape.length_of(context, key, 1), shape.length_of(context, cache[0], 2) if has_cache else ""
        if has_cache:
            length = op("Add", length, past)
        terms = [_penalty(node, context, mask, query, length)] if mask else []
        terms += [_later_keys(context, shape.length_of(context, query, 1), length, past)] if causal else []
        if not causal and not bias:  # onnxruntime needs a row for each query
            rows = shape.joined(
                context, context.int64([1, 1]), shape.sizes_of(context, query, 1, 2), context.int64([1])
            )
            terms = [op("Expand", terms[0], rows)]
        for term in terms:
            bias = op("Add", bias, term) if bias else term
        causal = 0
    counts: dict[str, int] = {"q_num_heads": heads, "kv_num_heads": heads}
    width = (context.dims(operands[2]) or (None,))[-1]
    if not isinstance(width, int):  # of values with three axes and an unknown width, onnx infers a result of width 0
        operands, counts = [attention.of_heads(context, operand, heads) for operand in operands], {}
    result, *present = context.op_outputs(
        "Attention",
        [*operands, bias, *cache],
        3 if has_cache else 1,
        **counts,
        scale=get_float(node, "scale") or None,
        is_causal=causal,
    )
    if not counts:
        result = attention.with_joined_heads(context, op("Transpose", result, perm=[0, 2, 1, 3]))
    return result, *present


def _to_itself(
    node: Node, context: Context, product: str, sizes: list[int], mask: str, past: str, bias: str
) -> list[Node]:
    """Attention of a value to itself, whose three projections are beside each other."""
    if get_int(node, "do_rotary"):
        raise Refused("uses rotary positions (do_rotary), which cannot be converted")
    operands = list(context.op_outputs("Split", [product, context.int64(sizes)], 3, axis=-1))
    cache = [context.op("Gather", past, place, axis=0) for place in (0, 1)] if past else []
    if context.wanted(1) and not past:
        raise Refused("outputs the present keys and values without a past, which cannot be converted")
    result, *present = _attended(node, context, operands, cache, mask, bias)
    if not present:
        return context.replace(result)
    both = [context.op("Unsqueeze", name, [0]) for name in present]  # each 1, B, H, K, W
    return context.replace(result, context.op("Concat", *both, axis=0))


def self_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as self-attention, with one matrix for the three projections."""
    product = context.op("MatMul", context.input(0), context.input(1))  # B, Q, 3 * H * W
    if context.optional(2):
        product = context.op("Add", product, context.input(2))
    sizes = get_ints(node, "qkv_hidden_sizes") or [context.static_dims(context.input(1))[1] // 3] * 3
    mask, past, bias = (context.optional(place) for place in (3, 4, 5))
    return _to_itself(node, context, product, sizes, mask, past, bias)


def quantized_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as Attention after a product of quantised matrices."""
    op = context.op
    zeros = context.optional(6), context.optional(7)
    product = context.cast(op("MatMulInteger", context.input(0), context.input(1), *zeros), FLOAT)
    scale = op("Mul", context.input(3), context.input(4))  # of the input and of the weight
    product = op("Add", op("Mul", product, scale), context.input(2))
    sizes = [context.static_dims(context.input(1))[1] // 3] * 3  # H * W each
    return _to_itself(node, context, product, sizes, context.optional(5), context.optional(8), "")


def _unpacked(context: Context, packed: str, count: int) -> list[str]:
    """The projections in a tensor of five axes: B, Q, H, projections, W. Each result has its heads joined."""
    values = []
    for place in range(count):
        value = context.op("Gather", packed, place, axis=3)
        values.append(attention.with_joined_heads(context, value))  # B, Q, H * W
    return values


def _projections(context: Context) -> list[str]:
    """The query, the keys and the values, each of three axes."""
    ranks = [context.rank(name) if name else 0 for name in map(context.optional, range(3))]
    if ranks == [5, 0, 0]:
        return _unpacked(context, context.input(0), 3)
    if ranks == [3, 5, 0]:
        return [context.input(0), *_unpacked(context, context.input(1), 2)]
    if ranks == [3, 4, 4]:
        moved = [context.op("Transpose", context.input(place), perm=[0, 2, 1, 3]) for place in (1, 2)]
        return [context.input(0), *(attention.with_joined_heads(context, name) for name in moved)]
    if ranks != [3, 3, 3]:
        raise Refused("has inputs whose ranks are unknown or not supported")
    return [context.input(place) for place in range(3)]


def multi_head_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as Attention of three projections, with an additive mask."""
    operands = _projections(context)
    if any(context.optional(place) for place in (8, 9)) or context.wanted(3):
        raise Refused("fills a cache in place or outputs query-key products, which cannot be converted")
    if context.optional(3):
        widths = shape.joined(context, *(shape.sizes_of(context, name, 2, 3) for name in operands))
        biases = context.op_outputs("Split", [context.input(3), widths], 3, axis=0)  # H * W each
        if context.rank(context.optional(1)) == 4:
            biases = biases[:1]
        places = zip(operands, biases, strict=False)
        operands = [*(context.op("Add", *pair) for pair in places), *operands[len(biases) :]]
    cache = [context.optional(place) for place in (6, 7)]
    mask, bias = context.optional(4), context.optional(5)
    return context.replace(*_attended(node, context, operands, cache if any(cache) else [], mask, bias))


MultiHeadAttention = OperatorSpec(
    "MultiHeadAttention",
    to_rten=ToRten(rewritings=(multi_head_attention,)),
    onnx_loader=OnnxLoader(
        Row(
            8,
            3,
            fields=(
                Field("num_heads", int, required=True),
                Field("mask_filter_value", float, UNMASKED),
                Field("unidirectional", bool, 0),
                Field("scale", float),
            ),
        ),
        is_native=True,
        native_if=_has_kernel,
        ranks={0: 3, 1: 3, 2: 3, 3: 1, 4: 2, 5: 4, 6: 4, 7: 4},
    ),
    domain=MICROSOFT,
)


def group_query_attention_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the queries, except if keys and values are in one tensor with them."""
    return [types[0].dims if len(node.input) > 1 and node.input[1] else None]


class Places(NamedTuple):
    """The places of the new keys of each sample: after its past keys, whose number differs between samples.

    All are INT64.
    """

    past: str  # the number of past keys: B, 1
    steps: str  # number of new keys, a scalar
    total: str  # the number of keys in the longest sample, a scalar


def _places(context: Context) -> Places:
    op = context.op
    steps = shape.length_of(context, context.input(0), 1)
    total = context.cast(op("Reshape", context.input(6), []), INT64)
    ends = op("Add", context.cast(context.input(5), INT64), 1)
    past = op("Sub", op("Reshape", ends, [-1, 1]), steps)  # B, 1
    is_first = op("Equal", steps, total)
    return Places(op("Where", is_first, 0, past), steps, total)


def _with_past(context: Context, past: str, new: str, places: Places, heads: int) -> str:
    """The past keys or values, then the new ones, then zeros."""
    op = context.op
    if not past:
        return new
    room = shape.length_of(context, past, 2)
    both = op("Concat", past, new, axis=2)  # B, H, past and new keys, W
    # Where each key of the result is among the past and new ones: past keys stay, new ones follow those that the sample
    # has. Behind them, place 0 is taken, and then zero.
    numbers = shape.numbers_below(context, op("Max", room, places.total))  # K
    is_old = op("Less", numbers, places.past)
    of_new = op("Sub", numbers, places.past)  # B, K
    is_there = op("Less", of_new, places.steps)
    place = op("Where", is_old, numbers, op("Add", of_new, room))
    place = op("Where", is_there, place, 0)
    place = op("Unsqueeze", place, [1, 3])  # B, 1, K, 1
    place = op("Expand", place, [1, heads, 1, 1])
    gathered = op("GatherND", both, place, batch_dims=2)  # B, H, K, W
    is_there = op("Unsqueeze", is_there, [1, 3])
    return op("Where", is_there, gathered, context.scalar(0.0, like=new))


def _grouped_operands(node: Node, context: Context, heads: int, groups: int) -> tuple[list[str], int | None]:
    """The query, the keys and the values, each with three axes, and the width of a head, if it is known."""
    wide, past = (context.dims(context.optional(place)) for place in (0, 3))
    width = wide[2] if wide else None
    shared = heads if context.optional(1) else heads + 2 * groups
    head_size = width // shared if isinstance(width, int) else past[3] if past else None
    size = head_size if isinstance(head_size, int) else None
    if context.optional(1):
        return [context.input(place) for place in range(3)], size
    counts = [heads, groups, groups]
    if size is None:
        wide_head = shape.quotient(context, shape.sizes_of(context, context.input(0), 2, 3), shared)
        sizes = context.op("Mul", context.int64(counts), wide_head)
    else:
        sizes = context.int64(count * size for count in counts)
    return list(context.op_outputs("Split", [context.input(0), sizes], 3, axis=-1)), size


def _unseen(node: Node, context: Context, places: Places, keys: str) -> str:
    """What is added if a query does not see a key, which comes later, or too far before: B, 1, Q, K."""
    op = context.op
    places_of_queries = op("Add", places.past, shape.numbers_below(context, places.steps))  # B, Q
    rows = op("Unsqueeze", places_of_queries, [1, 3])  # B, 1, Q, 1
    ahead = op("Sub", shape.numbers_below(context, shape.length_of(context, keys, 2)), rows)  # B, 1, Q, K
    is_seen = op("LessOrEqual", ahead, 0)
    window = get_int(node, "local_window_size", -1)
    if window > 0:
        is_near = op("Greater", ahead, -window)
        is_seen = op("And", is_seen, is_near)
    return op("Where", is_seen, context.scalar(0.0, like=keys), context.scalar(LOWEST, like=keys))


def _rotated(
    node: Node, context: Context, operands: Sequence[str], heads: Sequence[int], size: int | None, places: Places
) -> list[str]:
    """The query and the keys turned by the angles of their places; inputs 7 and 8 have cosines and sines."""
    turns, turned = [context.input(7), context.input(8)], []
    numbers = context.optional(9) or context.op("Add", places.past, shape.numbers_below(context, places.steps))  # B, Q
    half = (context.dims(turns[0]) or (None, None))[1]
    if size is None and not isinstance(half, int):
        raise Refused("rotates heads of unknown size by angles of unknown number", "infer the model's shapes first")
    for operand, count in zip(operands, heads, strict=True):
        attributes = {
            "interleaved": get_int(node, "rotary_interleaved"),
            "num_heads": count,
            "rotary_embedding_dim": 2 * half if isinstance(half, int) and 2 * half != size else 0,
        }
        turned.append(context.op("RotaryEmbedding", operand, *turns, context.cast(numbers, INT64), **attributes))
    return turned


def group_query_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as Attention in which several query heads share a head of keys and values."""
    op = context.op
    if any(context.optional(place) for place in (12, 13)):
        raise Refused("has a quantised past, which cannot be converted")
    heads, groups = get_int(node, "num_heads"), get_int(node, "kv_num_heads")
    operands, size = _grouped_operands(node, context, heads, groups)
    places = _places(context)
    if get_int(node, "do_rotary"):
        operands = [*_rotated(node, context, operands[:2], (heads, groups), size, places), operands[2]]
    counts = zip(operands, (heads, groups, groups), strict=True)
    query, key, value = (attention.of_heads(context, operand, count) for operand, count in counts)
    key, value = (
        _with_past(context, context.optional(place), new, places, groups) for place, new in ((3, key), (4, value))
    )
    seen_keys, seen_values, bias = key, value, context.optional(10)
    if bias:  # the standard operator does not support unused room
        cut = [context.int64([0]), op("Reshape", places.total, [1]), context.int64([2])]
        seen_keys, seen_values = (op("Slice", name, *cut) for name in (key, value))
    penalties = _unseen(node, context, places, seen_keys)
    if bias:
        penalties = op("Add", bias, penalties)
    scale, limit, sinks = get_float(node, "scale") or None, get_float(node, "softcap"), context.optional(11)
    if get_int(node, "smooth_softmax") and not sinks:  # a sink of zero for each head
        sinks = context.array(budget.full(heads, 0.0), context.elem_type(query) or FLOAT)
    if sinks:  # the standard operator has none, so the products are written out: B, H, Q, K
        keys, values = (attention.repeated(context, name, groups, heads // groups) for name in (seen_keys, seen_values))
        scores = op("MatMul", query, op("Transpose", keys, perm=[0, 1, 3, 2]))
        factor = context.scalar(scale, like=query) if scale else _one_by_root(context, query)
        scores = op("Mul", scores, factor)
        scores = op("Add", attention.capped(context, scores, limit), penalties)
        result = op("MatMul", attention.shares_of(context, scores, sinks=sinks), values)
    else:
        result = op("Attention", query, seen_keys, seen_values, penalties, scale=scale, softcap=limit)
    result = op("Transpose", result, perm=[0, 2, 1, 3])
    return context.replace(attention.with_joined_heads(context, result), key, value)


def _one_by_root(context: Context, query: str) -> str:
    """One divided by the root of the width of a head, for queries with an axis of heads."""
    size = (context.dims(query) or (None,))[-1]
    if isinstance(size, int):
        return context.scalar(1 / sqrt(size), like=query)
    width = context.cast(shape.sizes_of(context, query, 3, 4), context.elem_type(query) or FLOAT)
    return context.op("Div", context.scalar(1.0, like=query), context.op("Sqrt", width))


GroupQueryAttention = OperatorSpec(
    "GroupQueryAttention",
    Outputs(group_query_attention_dims),
    ToRten(rewritings=(group_query_attention,)),
    # Not native: RTen's kernel stops at padded prompts, and returns other dims if the past has room.
    onnx_loader=OnnxLoader(
        Row(
            9,
            3,
            fields=(
                Field("num_heads", int, required=True),
                Field("kv_num_heads", int, required=True),
                Field("scale", float),
                Field("do_rotary", bool, 0),
                Field("rotary_interleaved", bool, 0),
                Field("local_window_size", int, -1),
                Field("softcap", float, 0.0),
            ),
        ),
        {"smooth_softmax": (0,)},
    ),
    domain=MICROSOFT,
)


REWRITTEN = rewritten(MICROSOFT, Attention=self_attention, QAttention=quantized_attention)
