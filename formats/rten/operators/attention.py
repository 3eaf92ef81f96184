"""Attention, and the rotation of its operands by their positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.graph.attributes import get_int
from formats.rten.operators import shape, slicing
from formats.rten.operators.deviations import of_floats
from formats.rten.operators.rules import same
from formats.rten.operators.spec import ANY, Field, FieldKind, OnnxForm, OperatorSpec, Row, Signature

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import Dims, ValueType


def attention_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The query's dims with the values' width; the present keys and values are as long as only running tells."""
    query, _, value = (entry.dims for entry in types[:3])
    if query is None or value is None:
        return []
    if len(query) == 4:
        return [(*query[:3], value[3])]
    heads, value_heads = get_int(node, "q_num_heads"), get_int(node, "kv_num_heads")
    width = value[2] * heads // value_heads if isinstance(value[2], int) and value_heads else None
    return [(query[0], query[1], width)]


def attention(node: Node, context: Context) -> list[Node] | None:
    """A mask may be shorter than the keys: what it leaves out is masked."""
    mask, key = context.optional(3), context.input(1)
    mask_dims, key_dims = context.dims(mask), context.dims(key)
    if not mask_dims or not key_dims or context.optional(4):
        return None
    length, wanted = mask_dims[-1], key_dims[-2]
    if not isinstance(length, int) or not isinstance(wanted, int) or not 1 < length < wanted:
        return None
    pads = context.int64([0] * (2 * len(mask_dims) - 1) + [wanted - length])
    hidden = context.scalar(float("-inf") if context.is_float(mask) else 0, like=mask)
    inputs = list(node.input)
    inputs[3] = context.op(slicing.Pad, mask, pads, hidden)
    return context.changed(inputs)


def attention_raised(node: Node, context: Context) -> list[Node]:
    """A mask has a row for each query, since onnxruntime repeats none."""
    query, mask = node.input[0], context.optional(3)
    rank = context.rank(mask)
    if not mask or rank is None or rank < 2:
        return [node]
    rows, queries = (context.dims(mask) or ())[-2], (context.dims(query) or (None, None))[-2]
    if rows is not None and rows == queries:
        return [node]
    end = shape.sizes_of(context, query, -2, -1)
    wanted = shape.joined(context, end, context.int64([1]))
    inputs = list(node.input)
    inputs[3] = context.op(shape.Expand, mask, wanted)
    return context.changed(inputs)


Attention = OperatorSpec(
    "Attention",
    Row(
        7,
        3,
        "AttentionAttrs",
        (
            Field("is_causal", FieldKind.BOOL, 0),
            Field("q_num_heads", FieldKind.INT, minimum=0),
            Field("kv_num_heads", FieldKind.INT, minimum=0),
            Field("scale", FieldKind.FLOAT),
            Field("softcap", FieldKind.FLOAT, 0.0),
        ),
        {
            "qk_matmul_output_mode": ANY,  # of the fourth output, which RTen does not have
            "softmax_precision": ANY,
            "left_window_size": (-1,),
            "right_window_size": (-1,),
        },
    ),
    signature=Signature("xxxmxxl"),
    dims=attention_dims,
    rewritings=(attention,),
    raised=attention_raised,
    unspecified=of_floats("what a mask hides is multiplied by zero, by which NaN and infinities spread"),
    raised_version=24,
    onnx=OnnxForm(takes={"qk_matmul_output_mode": ANY, "softmax_precision": ANY}, version=24),
)
RotaryEmbedding = OperatorSpec(
    "RotaryEmbedding",
    Row(
        4,
        1,
        "RotaryEmbeddingAttrs",
        (
            Field("interleaved", FieldKind.BOOL, 0),
            Field("num_heads", FieldKind.INT, 0, minimum=0),
            Field("rotary_embedding_dim", FieldKind.INT, 0, minimum=0),
        ),
    ),
    signature=Signature("xxxl"),
    dims=same,
    raised_version=23,
    onnx=OnnxForm(version=23),
)
