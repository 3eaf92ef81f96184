"""Quantised tensors: scales and zero points in the shapes that RTen's kernels read, blocks and fused operators undone.

RTen 0.25.0 stops where a scalar scale has no zero point, and takes a vector of one element for an axis.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from formats.ir.dtypes import type_name
from formats.rten.convert.context import FLOATS, Refused
from formats.rten.convert.value_types import FLOAT, INT8, UINT8
from formats.rten.dims import normalize
from formats.rten.graph.attributes import find, get_int
from formats.rten.rewriting.bits import limits
from formats.rten.rewriting.shapes import joined, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting

QUANTIZED = (UINT8, INT8)
OTHERS = (4, 5, 21, 22, 25, 26)  # UINT16, INT16, UINT4, INT4, UINT2, INT2


def _per_tensor(context: Context, name: str) -> str:
    """A vector of one element as a scalar; anything else as it is."""
    if context.dims(name) != (1,):
        return name
    tensor = context.scope.constant(name)
    if tensor is None:
        return context.op("Squeeze", name, context.int64([0]))
    return context.constants.add_tensor(replace(tensor, name=context.names.new(f"{name}/scalar"), dims=[]))


def _parameters(context: Context, zero_type: int | None) -> tuple[str, str]:
    """The scale and the zero point, both scalars with the zero point given, or both vectors."""
    scale, zero = _per_tensor(context, context.input(1)), context.optional(2)
    zero = _per_tensor(context, zero) if zero else ""
    rank = context.rank(scale)
    if rank == 0 and not zero:
        if zero_type is None:
            raise Refused("has no zero point, and its type is unknown", "infer the model's types first")
        zero = context.scalar(0, elem_type=zero_type)
    if rank is None:
        raise Refused("has a scale of unknown rank", "infer the model's shapes first")
    return scale, zero


def quantize_linear(node: Node, context: Context) -> list[Node] | None:
    """The type of the result is said by the zero point and by the attribute, which RTen's inference reads."""
    data, zero = context.input(0), context.optional(2)
    target = context.elem_type(zero) if zero else get_int(node, "output_dtype") or UINT8
    if target not in (*QUANTIZED, *OTHERS):
        raise Refused(f"quantises to {type_name(target)}, where RTen has integers only")
    if target in OTHERS or get_int(node, "block_size"):
        return _divided_out(node, context, target)
    if context.is_integer(data):
        return context.changed([context.cast(data, FLOAT), *node.input[1:]])
    scale, zero = _parameters(context, target)
    given = [data, scale, zero] if zero else [data, scale]
    if given == list(node.input) and get_int(node, "output_dtype") == target:
        return None
    return context.changed(given, output_dtype=target)


def _divided_out(node: Node, context: Context, target: int) -> list[Node]:
    """The nearest integer to x / scale, an even one between two, plus the zero point, within the limits of its type."""
    spread, zero = _spreading(node, context), context.optional(2)
    float_type = context.elem_type(context.input(1)) or FLOAT
    quotient = context.op("Div", context.cast(context.input(0), float_type), spread(context.input(1)))
    numbers = context.op("Round", quotient)
    if zero:
        numbers = context.op("Add", numbers, spread(context.cast(zero, float_type)))
    bounds = (context.scalar(limit, elem_type=float_type) for limit in limits(target))
    return context.replace(context.op("Cast", context.op("Clip", numbers, *bounds), to=target))


def dequantize_linear(node: Node, context: Context) -> list[Node] | None:
    """Blocks are multiplied out; otherwise RTen has the operator."""
    elem_type = context.elem_type(context.input(0))
    if get_int(node, "block_size") or elem_type in FLOATS or _is_small_float(elem_type):
        return _multiplied_out(node, context)
    given = [context.input(0), *(name for name in _parameters(context, elem_type) if name)]
    return None if given == [name for name in node.input if name] else context.changed(given)


def _is_small_float(elem_type: int | None) -> bool:
    return elem_type is not None and elem_type not in FLOATS and type_name(elem_type).startswith("FLOAT")


def _multiplied_out(node: Node, context: Context) -> list[Node]:
    """(x - zero point) * scale, both spread over what they are for."""
    spread, zero = _spreading(node, context), context.optional(2)
    float_type = context.elem_type(context.input(1)) or FLOAT
    numbers = context.cast(context.input(0), float_type)
    if zero:
        numbers = context.op("Sub", numbers, spread(context.cast(zero, float_type)))
    return context.replace(context.op("Mul", numbers, spread(context.input(1))))


def _spreading(node: Node, context: Context) -> Callable[[str], str]:
    """A function that spreads parameters over the data that they are for."""
    data, block = context.input(0), get_int(node, "block_size")
    if not block and (context.rank(context.input(1)) == 0 or context.dims(context.input(1)) == (1,)):
        return str
    rank = context.known_rank(data)
    axis = normalize(get_int(node, "axis", 1), rank) if rank else 0
    return lambda name: _spread(context, name, data, axis, rank, block)


def _spread(context: Context, name: str, data: str, axis: int, rank: int, block: int) -> str:
    """Parameters of blocks repeated along the axis, those of an axis put beside it."""
    if not block:
        trailing = rank - axis - 1
        is_vector = context.rank(name) == 1 and context.dims(name) != (1,)
        return context.op("Unsqueeze", name, context.int64(range(1, trailing + 1))) if is_vector and trailing else name
    before, after = sizes_of(context, name, 0, axis), sizes_of(context, name, axis + 1, rank)
    count, whole = context.static_dims(name)[axis], context.static_dims(data)[axis]
    column = context.op("Unsqueeze", name, context.int64([axis + 1]))
    repeats = [block if place == axis + 1 else 1 for place in range(rank + 1)]
    tiled = context.op("Tile", column, context.int64(repeats))
    merged = context.op("Reshape", tiled, joined(context, before, context.int64([count * block]), after))
    if count * block == whole:
        return merged
    return context.op("Slice", merged, context.int64([0]), context.int64([whole]), context.int64([axis]))


def q_linear_matmul(node: Node, context: Context) -> list[Node] | None:
    """Both operands as floats, multiplied, and quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (context.input(place) for place in range(8))
    left = dequantized(context, a, a_scale, a_zero, axis=-2)
    right = dequantized(context, b, b_scale, b_zero, axis=-1)
    return context.replace(context.op("QuantizeLinear", context.op("MatMul", left, right), y_scale, y_zero))


def q_linear_conv(node: Node, context: Context) -> list[Node] | None:
    """Data and weight as floats, convolved with the bias in the unit of their product, and quantised again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (context.input(place) for place in range(8))
    inputs = [dequantized(context, x, x_scale, x_zero), dequantized(context, w, w_scale, w_zero, axis=0)]
    if context.optional(8):
        unit = context.op("Mul", x_scale, w_scale)
        inputs.append(context.op("Mul", context.cast(context.input(8), FLOAT), unit))
    return context.replace(context.op("QuantizeLinear", context.copy(inputs, "Conv"), y_scale, y_zero))


def dequantized(context: Context, data: str, scale: str, zero: str, axis: int = 1) -> str:
    """The floats that a quantised value stands for; a vector of scales is along `axis`."""
    return context.op("DequantizeLinear", data, scale, zero, axis=axis)


def mat_mul_integer(node: Node, context: Context) -> list[Node] | None:
    """Zero points of one element are scalars to RTen."""
    inputs = [_per_tensor(context, name) if name and place > 1 else name for place, name in enumerate(node.input)]
    if inputs != list(node.input):
        return context.changed(inputs)
    return by_vector(node, context) if node.op_type == "MatMulInteger" else None


def mat_mul(node: Node, context: Context) -> list[Node] | None:
    """RTen multiplies matrices of floats; of integers, products are added up without rounding."""
    a, b = context.input(0), context.input(1)
    if not context.is_integer(a):
        return by_vector(node, context)
    if not context.known_rank(a) or not context.known_rank(b):
        raise Refused("multiplies scalars")
    rows, columns = context.known_rank(a) > 1, context.known_rank(b) > 1
    last = context.int64([-1])
    left = context.op("Unsqueeze", a, last)  # ..., m, k, 1
    if not rows:
        left = context.op("Unsqueeze", left, context.int64([0]))
    right = b if columns else context.op("Unsqueeze", b, last)
    right = context.op("Unsqueeze", right, context.int64([-3]))  # ..., 1, k, n
    total = context.op("ReduceSum", context.op("Mul", left, right), context.int64([-2]), keepdims=0)
    gone = [-1] * (not columns) + [-2] * (not rows)
    return context.replace(context.op("Squeeze", total, context.int64(gone)) if gone else total)


def by_vector(node: Node, context: Context) -> list[Node] | None:
    """RTen 0.25.0 leaves the axis of a vector that a stack of matrices is multiplied with in the result."""
    a, b = context.input(0), context.input(1)
    rank = context.rank(a)
    if context.rank(b) != 1 or (rank is not None and rank <= 2):
        return None
    column = context.op("Unsqueeze", b, context.int64([1]))
    return context.replace(context.op("Squeeze", context.copy([a, column, *node.input[2:]]), context.int64([-1])))


def gemm(node: Node, context: Context) -> list[Node] | None:
    """Of integers, the product and the sum apart."""
    a, b, c = context.input(0), context.input(1), context.optional(2)
    if not context.is_integer(a):
        return None
    for name in ("alpha", "beta"):
        attribute = find(node, name)
        if attribute is not None and attribute.f != 1:
            raise Refused(f"scales integers by {name} = {attribute.f}")
    left = context.op("Transpose", a, perm=[1, 0]) if get_int(node, "transA") else a
    right = context.op("Transpose", b, perm=[1, 0]) if get_int(node, "transB") else b
    product = context.op("MatMul", left, right)
    return context.replace(context.op("Add", product, c) if c else product)


def einsum(node: Node, context: Context) -> list[Node] | None:
    """RTen sums products of floats."""
    if any(context.is_integer(name) for name in node.input):
        raise Refused("multiplies integers, where RTen takes floats", "cast the inputs to FLOAT")
    return None


REWRITINGS: Mapping[str, Rewriting] = {
    "ConvInteger": mat_mul_integer,
    "DequantizeLinear": dequantize_linear,
    "Einsum": einsum,
    "Gemm": gemm,
    "MatMul": mat_mul,
    "MatMulInteger": mat_mul_integer,
    "QLinearConv": q_linear_conv,
    "QLinearMatMul": q_linear_matmul,
    "QuantizeLinear": quantize_linear,
}
