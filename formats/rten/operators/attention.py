"""Attention, the rotation of its operands by their positions, and attention with a state of fixed size.

Spec: ONNX, Operators.md, Attention, RotaryEmbedding and LinearAttention.
"""

from __future__ import annotations

from functools import partial, reduce
from math import sqrt

from formats.ir.attributes import get_float, get_int, get_string
from formats.ir.dtypes import BOOL, FLOAT, INT64
from formats.ir.model import Graph, Node
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.operators import shape
from formats.rten.operators.rules import of_floats, same
from formats.rten.spec import (
    ANY,
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToOnnx,
    ToRten,
    because,
    of_input,
)
from formats.rten.types import INT64_MAX
from formats.tensordata.plan import RARE, SPECIAL


def attention_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The query's dims with the width of the values. The length of the present keys is known only at run time."""
    query, _, value = (entry.dims for entry in types[:3])
    if query is None or value is None:
        return []
    if len(query) == 4:
        return [(*query[:3], value[3])]
    heads, value_heads = get_int(node, "q_num_heads"), get_int(node, "kv_num_heads")
    width = value[2] * heads // value_heads if isinstance(value[2], int) and value_heads else None
    return [(query[0], query[1], width)]


WINDOW = ("left_window_size", "right_window_size")
MINUS_INFINITY = float("-inf")
PADS_MASKS = 24  # the first operator set in which a mask may be shorter than the keys


# The axes of values in the comments below: B samples, H heads, Q queries, K keys, W the width of a head.


def _lengths(context: Context, mask: str, keys: str) -> tuple[Dim, Dim]:
    """How many keys a mask covers, and how many keys there are."""
    return (context.dims(mask) or (None,))[-1], (context.dims(keys) or (None,) * 2)[-2]


def _may_be_short(context: Context, mask: str, keys: str) -> bool:
    """Whether a mask may be shorter than the keys, and ONNX then masks the others."""
    covered, count = _lengths(context, mask, keys)
    if context.version < PADS_MASKS or (covered is not None and covered == count):
        return False
    return not (isinstance(covered, int) and isinstance(count, int) and covered > count)


def _padded(context: Context, mask: str, keys: str) -> str:
    """The mask, made as long as the keys: keys that it does not cover are masked."""
    op = context.op
    if not _may_be_short(context, mask, keys):
        return mask
    covered, count = _lengths(context, mask, keys)
    hidden = context.scalar(MINUS_INFINITY if context.is_float(mask) else 0, like=mask)
    if isinstance(covered, int) and isinstance(count, int):
        pads = context.int64([0] * (2 * context.known_rank(mask) - 1) + [count - covered])
        return op("Pad", mask, pads, hidden)
    lengths = shape.sizes_of(context, mask, -1, INT64_MAX)
    missing = op("Sub", shape.sizes_of(context, keys, -2, -1), lengths)  # how many keys the mask lacks
    missing = op("Max", missing, [0])
    if covered is None:  # a mask of length one is for all keys
        is_row = op("Equal", lengths, [1])
        missing = op("Where", is_row, [0], missing)
    dims = shape.joined(context, shape.sizes_of(context, mask, 0, -1), missing)
    return op("Concat", mask, op("Expand", hidden, dims), axis=-1)  # ..., K


def _seen_by_place(node: Node, context: Context, query: str, keys: str) -> list[str]:
    """Which keys a query may see by their places, as truth values that are all to be true: Q, K or B, 1, Q, K.

    The keys are those of the past and the new ones. `filled` says how many keys of each sample are not padding.
    """
    op = context.op
    past, filled = context.optional(4), context.optional(6)
    left, right = get_int(node, "left_window_size", -1), get_int(node, "right_window_size", -1)
    tests, column = [], context.int64([1])
    if get_int(node, "is_causal") or left >= 0 or right >= 0:
        places = op("Unsqueeze", shape.numbers_below(context, shape.length_of(context, query, -2)), column)  # Q, 1
        if past:
            places = op("Add", places, shape.length_of(context, past, 2))
        elif filled:  # the queries are the last of the keys that are not padding
            steps = shape.sizes_of(context, query, -2, -1)
            before = op("Sub", context.cast(filled, INT64), steps)  # B
            places = op("Add", places, op("Unsqueeze", before, [1, 2, 3]))  # B, 1, Q, 1
        ahead = op("Sub", shape.numbers_below(context, shape.length_of(context, keys, -2)), places)  # ..., Q, K
        limits = [0] if get_int(node, "is_causal") else []
        limits += [right] if right >= 0 else []
        tests += [op("LessOrEqual", ahead, limit) for limit in limits]
        if left >= 0:
            tests.append(op("GreaterOrEqual", ahead, -left))
    if filled:
        ends = op("Unsqueeze", context.cast(filled, INT64), [1, 2, 3])  # B, 1, 1, 1
        tests.append(op("Less", shape.numbers_below(context, shape.length_of(context, keys, -2)), ends))
    return tests


def _penalties(node: Node, context: Context, query: str, keys: str) -> str:
    """What is added to the products of queries and keys so that masked ones do not count, with the axes of the mask.

    It is empty if there is nothing to add.
    """
    zero, hidden = (context.scalar(number, like=query) for number in (0.0, MINUS_INFINITY))
    tests, mask = _seen_by_place(node, context, query, keys), context.optional(3)
    mask = _padded(context, mask, keys) if mask else ""
    if mask and not context.is_float(mask):
        tests.append(context.cast(mask, BOOL))
        mask = ""
    if not tests:
        return mask
    seen = reduce(partial(context.op, "And"), tests)
    penalty = context.op("Where", seen, zero, hidden)  # Q, K or B, 1, Q, K
    return context.op("Add", mask, penalty) if mask else penalty


def of_heads(context: Context, name: str, heads: int) -> str:
    """A value with an axis for its heads, before the axis of its places: of B, Q, H * W it makes B, H, Q, W."""
    if context.known_rank(name) == 4:
        return name
    size = shape.quotient(context, shape.sizes_of(context, name, 2, 3), heads)  # not -1: there may be no places
    apart = context.op("Reshape", name, shape.joined(context, context.int64([0, 0, heads]), size))  # B, Q, H, W
    return context.op("Transpose", apart, perm=[0, 2, 1, 3])


def with_joined_heads(context: Context, value: str) -> str:
    """A value of four axes, with the last two merged to one: of B, Q, H, W it makes B, Q, H * W."""
    return context.op(
        "Reshape", value, shape.joined(context, context.int64([0, 0]), shape.size_of(context, value, 2, 4))
    )


def repeated(context: Context, name: str, heads: int, times: int) -> str:
    """Each head, repeated for each head of the query that uses it."""
    if times == 1:
        return name
    apart = context.op("Unsqueeze", name, [2])  # B, H, 1, K, W
    spread = context.op("Expand", apart, [1, 1, times, 1, 1])  # B, H, times, K, W
    first, last = shape.sizes_of(context, name, 0, 1), shape.sizes_of(context, name, 2, 4)
    return context.op("Reshape", spread, shape.joined(context, first, context.int64([heads * times]), last))


def shares_of(context: Context, scores: str, *, is_masked: bool = True, sinks: str = "") -> str:
    """The share of each key in the result, with the axes of the scores: B, H, Q, K.

    `sinks` is a score for each head. It takes a share like a key, but has no value, so that share is dropped.
    """
    op = context.op
    if sinks:
        sizes = shape.joined(context, shape.sizes_of(context, scores, 0, 3), context.int64([1]))
        column = op("Expand", op("Reshape", sinks, [1, -1, 1, 1]), sizes)  # B, H, Q, 1
        shares = op("Softmax", op("Concat", scores, column, axis=-1), axis=-1)  # B, H, Q, K + 1
        return op("Slice", shares, [0], [-1], [-1])  # B, H, Q, K
    shares = op("Softmax", scores, axis=-1)
    if not is_masked:
        return shares
    # If all keys are masked, Softmax gives NaN, but ONNX no share at all.
    best = op("ReduceMax", scores, [-1], keepdims=1)  # B, H, Q, 1
    is_nothing = op("Equal", best, context.scalar(MINUS_INFINITY, like=scores))
    return op("Where", is_nothing, context.scalar(0.0, like=scores), shares)


def capped(context: Context, scores: str, limit: float) -> str:
    """Scores that do not exceed a limit; 0 is no limit."""
    if not limit:
        return scores
    bound = context.scalar(limit, like=scores)
    part = context.op("Tanh", context.op("Div", scores, bound))
    return context.op("Mul", part, bound)


def _heads_of(context: Context, name: str) -> int:
    """The number of heads of a value B, H, K, W, whose other sizes may be unknown. Raises: Refused."""
    heads = (context.dims(name) or ())[1:2]
    return heads[0] if heads and isinstance(heads[0], int) else context.static_dims(name)[1]


def _scale_of(node: Node, context: Context, query: str) -> str:
    """The factor of the scores: as given, or one by the square root of the width of a head."""
    scale, width = get_float(node, "scale"), (context.dims(query) or (None,))[-1]
    if isinstance(width, int) and width:
        scale = scale or 1 / sqrt(width)
    if scale:
        return context.scalar(scale, like=query)
    widths = context.op("Cast", shape.sizes_of(context, query, 3, 4), to=context.elem_type(query) or FLOAT)
    return context.op("Reciprocal", context.op("Sqrt", widths))


def _written_out(node: Node, context: Context) -> list[Node]:
    """Products of matrices and the steps between them, written out, so that their results can be outputs."""
    op = context.op
    is_flat = context.known_rank(context.input(0)) == 3
    counts = get_int(node, "q_num_heads"), get_int(node, "kv_num_heads")
    query_heads, heads = (
        count if is_flat else _heads_of(context, context.input(place)) for place, count in enumerate(counts)
    )
    query, key, value = (
        of_heads(context, context.input(place), query_heads if place == 0 else heads) for place in range(3)
    )
    if context.optional(4):
        # The past keys and values come before the new ones, along K.
        key, value = (op("Concat", context.input(4 + at), new, axis=2) for at, new in ((0, key), (1, value)))
    # Keys and values get the heads of the query: B, H, K, W.
    keys, values = (repeated(context, name, heads, query_heads // heads) for name in (key, value))
    penalties = _penalties(node, context, query, key)
    if penalties and get_int(node, "qk_matmul_output_mode") in (1, 2) and context.wanted(3):
        context.report(_LOWEST, is_defined=False)
    scores = op("MatMul", query, op("Transpose", keys, perm=[0, 1, 3, 2]))  # B, H, Q, K
    # `qk_matmul_output_mode` is the number of the stage that the fourth output shows.
    stages = [op("Mul", scores, _scale_of(node, context, query))]
    stages.append(capped(context, stages[-1], get_float(node, "softcap")))
    stages.append(op("Add", stages[-1], penalties) if penalties else stages[-1])
    shares = shares_of(context, stages[-1], is_masked=bool(penalties))
    stages.append(shares)
    result = op("MatMul", shares, values)  # B, H, Q, W
    if is_flat:
        result = op("Transpose", result, perm=[0, 2, 1, 3])  # B, Q, H, W
        result = with_joined_heads(context, result)
    return context.replace(result, key, value, stages[get_int(node, "qk_matmul_output_mode")])


@because("RTen's Attention has no query-key output and no windows, and needs a mask as long as the keys")
def attention(node: Node, context: Context) -> list[Node] | None:
    if context.wanted(3):
        return _written_out(node, context)
    mask, keys, past = context.optional(3), context.input(1), context.optional(4)
    if max(get_int(node, side, -1) for side in WINDOW) < 0:
        covered, count = _lengths(context, mask, keys)
        if context.version < PADS_MASKS and mask and not past and covered == 1:  # then it is for all keys
            sizes = shape.joined(context, context.int64([1]), shape.sizes_of(context, keys, -2, -1))
            return context.changed([*node.input[:3], context.op("Expand", mask, sizes), *node.input[4:]])
        if not mask or past or not _may_be_short(context, mask, keys):
            return None
        if covered == 1 or (isinstance(covered, int) and isinstance(count, int)):
            return context.changed([*node.input[:3], _padded(context, mask, keys), *node.input[4:]])
        if not context.optional(6):  # a mask of unknown length is rarely shorter
            return None
    if past:
        keys = context.op("Concat", past, of_heads(context, keys, get_int(node, "kv_num_heads")), axis=2)
    penalties = _penalties(node, context, context.input(0), keys)
    return context.changed([*node.input[:3], penalties, *node.input[4:6]], without=WINDOW, is_causal=0)


def _with_heads(node: Node, context: Context, others: list[str]) -> list[Node]:
    """The same of values that have an axis for their heads."""
    heads, groups = get_int(node, "q_num_heads"), get_int(node, "kv_num_heads")
    operands = [of_heads(context, context.input(place), count) for place, count in enumerate((heads, groups, groups))]
    outputs = context.op_outputs(
        "Attention",
        [*operands, *others],
        len(node.output),
        scale=get_float(node, "scale") or None,
        softcap=get_float(node, "softcap"),
        is_causal=get_int(node, "is_causal"),
    )
    result = context.op("Transpose", outputs[0], perm=[0, 2, 1, 3])  # B, Q, H, W
    width = (context.dims(context.input(2)) or (None,))[-1]
    if isinstance(width, int):
        return context.replace(context.op("Reshape", result, [0, 0, width // groups * heads]), *outputs[1:])
    return context.replace(with_joined_heads(context, result), *outputs[1:])


def _mask_of_rows(context: Context) -> str:
    """The mask with a row for each query, because onnxruntime does not repeat rows."""
    query, mask = context.input(0), context.optional(3)
    rank = context.rank(mask)
    if not mask or rank is None or rank < 2:
        return mask
    rows, queries = (context.dims(mask) or ())[-2], (context.dims(query) or (None, None))[-2]
    if rows is not None and rows == queries:
        return mask
    end = shape.sizes_of(context, query, -2, -1)  # Q
    return context.op("Expand", mask, shape.joined(context, end, context.int64([1])))


def attention_raised(node: Node, context: Context) -> list[Node]:
    """Heads get an axis of their own if their width is unknown, since onnxruntime cannot infer it."""
    mask, value_dims = _mask_of_rows(context), context.dims(context.input(2))
    others = [mask, *node.input[4:]] if len(node.input) > 3 else []
    if value_dims is not None and len(value_dims) == 3 and not isinstance(value_dims[2], int):
        return _with_heads(node, context, others)
    return [node] if mask == context.optional(3) else context.changed([*node.input[:3], *others])


_SPREAD = Deviation("masked values are multiplied by zero, which spreads NaN and infinities", SPECIAL)
_OF_FLOATS = of_floats(_SPREAD)
_LOWEST = Deviation("masked scores are minus infinity, as in ONNX, and the lowest number in onnxruntime", RARE)
_NONE_HIDDEN = Deviation("with past keys and one query, onnxruntime hides none of several new keys", RARE)


def _attention_unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    queries, keys = ((context.dims(context.input(place)) or (None, None))[-2] for place in (0, 1))
    is_alike = queries is not None and queries == keys
    may_be_one = queries == 1 or not isinstance(queries, int)
    is_open = get_int(node, "is_causal") and context.optional(4) and may_be_one and not is_alike
    return (*_OF_FLOATS(node, context), *([_NONE_HIDDEN] if is_open else []))


Attention = OperatorSpec(
    "Attention",
    Outputs(attention_dims),
    ToRten(
        Row(
            7,
            3,
            "AttentionAttrs",
            (
                Field("is_causal", bool, 0),
                Field("q_num_heads", int, minimum=0),
                Field("kv_num_heads", int, minimum=0),
                Field("scale", float),
                Field("softcap", float, 0.0),
            ),
            {
                "qk_matmul_output_mode": ANY,  # attribute of the fourth output, which RTen does not have
                "softmax_precision": ANY,
                "left_window_size": (-1,),
                "right_window_size": (-1,),
            },
        ),
        rewritings=(attention,),
        unspecified=_attention_unspecified,
    ),
    ToOnnx("xxxmxxl", rewriting=attention_raised, version=24),
    onnx_loader=OnnxLoader(takes={"qk_matmul_output_mode": ANY, "softmax_precision": ANY}, version=24),
)
RotaryEmbedding = OperatorSpec(
    "RotaryEmbedding",
    Outputs(same),
    ToRten(
        Row(
            4,
            1,
            "RotaryEmbeddingAttrs",
            (
                Field("interleaved", bool, 0),
                Field("num_heads", int, 0, minimum=0),
                Field("rotary_embedding_dim", int, 0, minimum=0),
            ),
        )
    ),
    ToOnnx("xxxl", version=23),
    onnx_loader=OnnxLoader(version=23),
)


# The axes in linear attention: B samples, T tokens, H heads of keys, G heads of the query for each of them, W and V the
# widths of a key and of a value.
_RULES = {"linear": (), "gated": ("decay",), "delta": ("beta",), "gated_delta": ("decay", "beta")}
_PLACES = {"decay": 4, "beta": 5}


def _by_head(context: Context, name: str, heads: int, *around: int) -> str:
    """Batch, tokens and heads apart, as axes before the rest; `around` puts one more axis before or behind the rest."""
    name = context.cast(name, FLOAT)
    first, rest = (
        shape.sizes_of(context, name, 0, 2),
        shape.quotient(context, shape.sizes_of(context, name, 2, 3), heads),
    )
    parts = [context.int64([1]) if axis else rest for axis in around or (0,)]
    sizes = shape.joined(context, first, context.int64([heads]), *parts)
    return context.op("Reshape", name, sizes, allowzero=1)


def _step(context: Context, values: dict[str, str]) -> tuple[str, str]:
    """The state after a token, and what the token reads from it."""
    op = context.op
    state, key, value = values["state"], values["key"], values["value"]
    if "decay" in values:
        state = op("Mul", state, values["decay"])
    if "beta" in values:
        # The delta rule: only what the state does not yet recall for the key is added.
        row = op("Transpose", key, perm=[0, 1, 3, 2])  # B, H, 1, W
        recalled = op("MatMul", row, state)  # B, H, 1, V
        value = op("Mul", values["beta"], op("Sub", value, recalled))
    state = op("Add", state, op("Mul", key, value))  # B, H, W, 1 times B, H, 1, V
    return state, op("MatMul", values["query"], state)  # B, H, W, V, and B, H, G, V


def linear_attention(node: Node, context: Context) -> list[Node] | None:
    """Write it as a loop over the tokens; the state has the axes batch, heads, keys, values."""
    import numpy

    op = context.op
    rule, heads, groups = get_string(node, "update_rule", "gated_delta"), get_int(node, "kv_num_heads"), 0
    if rule not in _RULES:
        raise Refused(f"has the update_rule {rule!r}, which ONNX does not define")
    if heads > 0 and get_int(node, "q_num_heads") % heads == 0:
        groups = get_int(node, "q_num_heads") // heads
    if not groups:
        raise Refused(
            f"has {get_int(node, 'q_num_heads')} query heads, which is not a multiple of its {heads} key heads"
        )
    query, value = context.input(0), context.input(2)
    tokens = {
        "query": _by_head(context, query, heads * groups),  # B, T, H * G, W
        "key": _by_head(context, context.input(1), heads, 0, 1),  # B, T, H, W, 1
    }
    width = shape.sizes_of(context, tokens["query"], 3, 4)
    apart = shape.joined(context, shape.sizes_of(context, tokens["query"], 0, 2), context.int64([heads, groups]), width)
    tokens["query"] = op("Reshape", tokens["query"], apart, allowzero=1)  # B, T, H, G, W
    tokens["value"] = _by_head(context, value, heads, 1, 0)  # B, T, H, 1, V
    for name in _RULES[rule]:
        operand = context.input(_PLACES[name])
        parts = heads if name == "decay" or context.static_dims(operand, 2) != (1,) else 1
        tokens[name] = _by_head(context, operand, parts, 0, 1)  # B, T, H or 1, W or 1, 1
    if "decay" in tokens:
        tokens["decay"] = op("Exp", tokens["decay"])
    if context.optional(3):
        state = context.cast(context.input(3), FLOAT)  # B, H, W, V
    else:
        batch, depth = shape.sizes_of(context, query, 0, 1), shape.sizes_of(context, tokens["value"], 4, 5)
        sizes = shape.joined(context, batch, context.int64([heads]), width, depth)
        state = op("ConstantOfShape", sizes, value=from_numpy(budget.zeros(1, numpy.float32)))
    # Tokens are scanned along the second axis; the state is carried: batch, heads, keys, values.
    inner, inside = context.nested(), {}
    for name in ("state", *tokens):
        inside[name] = context.names.new(f"{node.output[0]}/{name}")
        inner.scope.add_input(inside[name], ValueType(FLOAT, (None,) * 4))
    after, read = _step(inner, inside)
    body = Graph(
        name=f"{node.output[0]}/body",
        node=inner.emitted,
        input=[context.value_info(name, FLOAT, (None,) * 4) for name in inside.values()],
        output=[context.value_info(name, FLOAT, (None,) * 4) for name in (after, read)],
    )
    axes, inputs = [1] * len(tokens), [state, *tokens.values()]  # T is the second axis of all tokens
    state, result = context.op_outputs(
        "Scan", inputs, 2, body=body, num_scan_inputs=len(axes), scan_input_axes=axes, scan_output_axes=[1]
    )
    result = op("Mul", result, _scale(node, context, width))
    whole = op("Mul", shape.sizes_of(context, value, 2, 3), [groups])  # H * G * V
    result = op("Reshape", result, shape.joined(context, shape.sizes_of(context, query, 0, 2), whole), allowzero=1)
    elem_type = context.elem_type(query) or FLOAT
    state_type = context.elem_type(context.optional(3)) or elem_type
    return context.replace(context.cast(result, elem_type), context.cast(state, state_type))


def _scale(node: Node, context: Context, width: str) -> str:
    """The factor of the output: the one that is given, or the inverse root of the width of a key."""
    scale, sizes = get_float(node, "scale"), context.scope.ints(width)
    if scale or (sizes and sizes[0]):
        return context.scalar(scale or 1 / sqrt(sizes[0] if sizes else 1))
    root = context.op("Sqrt", context.cast(width, FLOAT))
    return context.op("Div", context.array([1.0]), root)


LinearAttention = OperatorSpec("LinearAttention", Outputs(elements=of_input(0)), ToRten(rewritings=(linear_attention,)))
