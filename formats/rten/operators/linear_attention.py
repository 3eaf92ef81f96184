"""Attention with a state of fixed size, which every token decays, corrects and reads: a loop over the tokens.

Spec: ONNX, Operators.md, LinearAttention.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from formats.ir.dtypes import FLOAT
from formats.ir.model import Graph
from formats.ir.storage import from_numpy
from formats.rten.convert import budget
from formats.rten.convert.refusal import Refused
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import get_float, get_int, get_string
from formats.rten.operators import shape
from formats.rten.operators.shared.spec import OperatorSpec, Outputs, ToRten, of_input

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.context import Context

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
        row = op("Transpose", key, perm=[0, 1, 3, 2])
        known = op("MatMul", row, state)
        value = op("Mul", values["beta"], op("Sub", value, known))
    state = op("Add", state, op("Mul", key, value))
    return state, op("MatMul", values["query"], state)


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
        "query": _by_head(context, query, heads * groups),
        "key": _by_head(context, context.input(1), heads, 0, 1),
    }
    width = shape.sizes_of(context, tokens["query"], 3, 4)
    apart = shape.joined(context, shape.sizes_of(context, tokens["query"], 0, 2), context.int64([heads, groups]), width)
    tokens["query"] = op("Reshape", tokens["query"], apart, allowzero=1)
    tokens["value"] = _by_head(context, value, heads, 1, 0)
    for name in _RULES[rule]:
        given = context.input(_PLACES[name])
        parts = heads if name == "decay" or context.static_dims(given, 2) != (1,) else 1
        tokens[name] = _by_head(context, given, parts, 0, 1)
    if "decay" in tokens:
        tokens["decay"] = op("Exp", tokens["decay"])
    if context.optional(3):
        state = context.cast(context.input(3), FLOAT)
    else:
        batch, depth = shape.sizes_of(context, query, 0, 1), shape.sizes_of(context, tokens["value"], 4, 5)
        sizes = shape.joined(context, batch, context.int64([heads]), width, depth)
        state = op("ConstantOfShape", sizes, value=from_numpy(budget.zeros(1, numpy.float32)))
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
    axes, inputs = [1] * len(tokens), [state, *tokens.values()]
    state, result = context.op_outputs(
        "Scan", inputs, 2, body=body, num_scan_inputs=len(axes), scan_input_axes=axes, scan_output_axes=[1]
    )
    result = op("Mul", result, _scale(node, context, width))
    whole = op("Mul", shape.sizes_of(context, value, 2, 3), context.int64([groups]))
    result = op("Reshape", result, shape.joined(context, shape.sizes_of(context, query, 0, 2), whole), allowzero=1)
    elem_type = context.elem_type(query) or FLOAT
    state_type = context.elem_type(context.optional(3)) or elem_type
    return context.replace(context.cast(result, elem_type), context.cast(state, state_type))


def _scale(node: Node, context: Context, width: str) -> str:
    """The factor of the output: the one that is given, or the inverse root of the width of a key."""
    given, held = get_float(node, "scale"), context.scope.ints(width)
    if given or (held and held[0]):
        return context.scalar(given or 1 / sqrt(held[0] if held else 1))
    root = context.op("Sqrt", context.cast(width, FLOAT))
    return context.op("Div", context.array([1.0]), root)


LinearAttention = OperatorSpec("LinearAttention", Outputs(elements=of_input(0)), ToRten(rewritings=(linear_attention,)))
