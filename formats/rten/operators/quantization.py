"""Quantised tensors: scales and zero points in the shapes that RTen reads, blocks and fused operators replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from formats.ir.attributes import attribute_named, get_int
from formats.ir.dtypes import FLOAT, INT8, INT16, INT32, UINT8, UINT16, type_name
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dims, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.casting import SMALL_FLOATS
from formats.rten.operators.rules import ANY_NAN, always, for_outputs, normalize, of_every_node, same, scalar
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
    axis_field,
    because,
    of_input,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import BYTES, FLOAT_TYPES, FLOATS, VALUE_TYPES, limits
from formats.tensordata.plan import RARE, SPECIAL

QUANTIZED_TYPES: Final[Mapping[int, str | None]] = {UINT8: VALUE_TYPES[UINT8], INT8: VALUE_TYPES[INT8], 0: None}


def _quantized_type(node: Node, scope: Scope, types: list[ValueType]) -> tuple[int | None]:
    """The type of the zero point; without one, the type in the attribute; otherwise UINT8."""
    if len(types) > 2 and node.input[2]:
        return (types[2].elem_type,)
    return (get_int(node, "output_dtype") or UINT8,)


def per_tensor(context: Context, name: str) -> str:
    """A vector of one element as a scalar; anything else as it is."""
    if context.dims(name) != (1,):
        return name
    tensor = context.scope.constant(name)
    if tensor is None:
        return context.op("Squeeze", name, [0])
    return context.constants.add_scalar(name, tensor)


_LONE_SCALE = Fault("fails if a scalar scale has no zero point", until=RTEN_0_26)
_SHORT_AXIS = Fault("takes a scale of one element to be per-axis", until=RTEN_0_26)


def _along_axis(node: Node, context: Context, name: str) -> str:
    """A vector that may have one element, spread over the axis that it is for."""
    if not name or context.scope.is_safe(_SHORT_AXIS, name):
        return name
    data = context.input(0)
    rank = context.known_rank(data)
    axis = normalize(get_int(node, "axis", 1), rank) if rank else 0
    spread = context.op("Expand", name, shape.sizes_of(context, data, axis, axis + 1))
    return context.scope.add_safe(_SHORT_AXIS, spread)


def _parameters(node: Node, context: Context, zero_type: int | None) -> tuple[str, str]:
    """The scale and the zero point. If releases need it: both scalars with the zero point given, or both vectors."""
    if not context.target.deviates(_LONE_SCALE) and not context.target.deviates(_SHORT_AXIS):
        return context.input(1), context.optional(2)
    scale, zero = per_tensor(context, context.input(1)), context.optional(2)
    rank = context.rank(scale)
    if rank is None:
        # Both become scalars, or vectors along the axis.
        scale, zero = (_of_known_rank(node, context, name) for name in (scale, zero))
        rank = context.rank(scale)
    if rank == 1 and not isinstance((context.dims(scale) or (None,))[0], int):
        scale, zero = _along_axis(node, context, scale), _along_axis(node, context, zero)
    if rank == 0 and zero:
        zero = per_tensor(context, zero)
    if rank == 0 and not zero:
        if zero_type is None:
            raise Refused("has no zero point, and its type is unknown", "infer the model's types first")
        zero = context.scalar(0, elem_type=zero_type)  # releases that fail without one
    return scale, zero


def _of_known_rank(node: Node, context: Context, name: str) -> str:
    """Parameters whose rank is unknown: a vector, or a scalar if the data have no axis for a vector."""
    if not name:
        return ""
    data_rank = context.rank(context.input(0))
    if data_rank is None:
        raise Refused("has a scale and data of unknown ranks", "infer the model's shapes first")
    has_axis = get_int(node, "axis", 1) < data_rank
    return context.op("Reshape", name, context.int64([-1] if has_axis else []))


@because("RTen needs the scale and the zero point in the same dims, so one number becomes as many as the other has")
def same_granularity(node: Node, context: Context) -> list[Node] | None:
    """The node with its scale and its zero point in the granularity of the finer one."""
    names = [context.input(1), context.optional(2)]
    first, second = (context.dims(name) for name in names)
    has_blocks = bool(get_int(node, "block_size"))
    if not names[1] or first == second:
        return None
    if first is None or second is None:
        new = [_of_known_rank(node, context, name) for name in names]
    elif {first, second} <= {(), (1,)}:
        new = [per_tensor(context, name) for name in names]
    elif _is_one(second, has_blocks and len(first) > 1):
        new = [names[0], _repeated(context, names[1], names[0])]
    elif _is_one(first, has_blocks and len(second) > 1):
        new = [_repeated(context, names[0], names[1]), names[1]]
    elif len(first) == len(second) == 1 and not all(isinstance(dims[0], int) for dims in (first, second)):
        new = [_along_axis(node, context, name) for name in names]
    elif len(first) == len(second) == 1 or (has_blocks and len(first) != len(second)):
        raise Refused(f"has a scale of dims {list(first)} and a zero point of dims {list(second)}")
    else:
        return None  # blocks, or matrices, which are broadcast
    return None if new == names else context.changed([context.input(0), *new])


def _is_one(dims: Dims, beside_blocks: bool) -> bool:
    """Whether these are the dims of one number. A vector beside parameters of blocks can have only one."""
    return dims in ((), (1,)) or (beside_blocks and len(dims) == 1 and not isinstance(dims[0], int))


def _repeated(context: Context, name: str, other: str) -> str:
    """One number as often as `other` has numbers."""
    tensor, dims = context.scope.constant(name), context.dims(other) or ()
    sizes = [size for size in dims if isinstance(size, int)]
    if tensor is None or len(sizes) < len(dims):
        return context.op("Expand", name, shape.sizes_of(context, other, 0, len(dims)))
    return context.array(budget.full(sizes, tensor.numpy().item()), tensor.data_type or FLOAT)


def one_number(context: Context, name: str) -> str:
    """A parameter of a whole tensor as a scalar.

    Raises: Refused if it has several numbers.
    """
    dims = context.dims(name)
    if not name or dims in ((), (1,)):
        return per_tensor(context, name) if name else ""
    if dims is not None and all(isinstance(size, int) for size in dims):
        raise Refused(f"has a scale or zero point of dims {list(dims)} for a tensor that has only one")
    return context.op("Reshape", name, [])


QUANTIZED = frozenset((UINT8, INT8))
OTHERS = (BYTES | {UINT16, INT16}) - QUANTIZED


def _spread(context: Context, name: str, data: str, axis: int, rank: int, block: int) -> str:
    """Parameters of blocks are repeated along the axis. Parameters of an axis get further axes."""
    op = context.op
    if not block:
        trailing = rank - axis - 1
        is_vector = context.rank(name) == 1 and context.dims(name) != (1,)
        return op("Unsqueeze", name, range(1, trailing + 1)) if is_vector and trailing else name
    # Of ..., blocks, ... it makes ..., blocks, 1, ..., which are tiled and merged to ..., blocks * block, ...
    before, after = shape.sizes_of(context, name, 0, axis), shape.sizes_of(context, name, axis + 1, rank)
    counts, wholes = (context.dims(value) or (None,) * rank for value in (name, data))
    count, whole = counts[axis], wholes[axis]
    column = op("Unsqueeze", name, [axis + 1])  # ..., blocks, 1, ...
    repeats = [block if place == axis + 1 else 1 for place in range(rank + 1)]
    tiled = op("Tile", column, context.int64(repeats))  # ..., blocks, block, ...
    if isinstance(count, int):
        covered = context.int64([count * block])
    else:
        covered = op("Mul", shape.sizes_of(context, name, axis, axis + 1), [block])
    merged = op("Reshape", tiled, shape.joined(context, before, covered, after), allowzero=1)
    if isinstance(count, int) and count * block == whole:  # otherwise the last block is not complete
        return merged
    end = shape.sizes_of(context, data, axis, axis + 1)
    return op("Slice", merged, [0], end, [axis])


def _spreading(node: Node, context: Context) -> Callable[[str], str]:
    """A function that spreads parameters over the data that they are for."""
    data, block = context.input(0), get_int(node, "block_size")
    if not block and (context.rank(context.input(1)) == 0 or context.dims(context.input(1)) == (1,)):
        return str
    rank = context.known_rank(data)
    axis = normalize(get_int(node, "axis", 1), rank) if rank else 0
    return lambda name: _spread(context, name, data, axis, rank, block)


def _divided_out(node: Node, context: Context, target: int) -> list[Node]:
    """The nearest number to x / scale, an even one between two, plus the zero point, within the limits of its type."""
    op = context.op
    spread, zero = _spreading(node, context), context.optional(2)
    float_type, is_small = context.elem_type(context.input(1)) or FLOAT, target in SMALL_FLOATS
    numbers = op("Div", context.cast(context.input(0), float_type), spread(context.input(1)))
    if not is_small:
        numbers = op("Round", numbers)
    if zero and (not is_small or any(context.scope.numbers(zero) or (1,))):
        numbers = op("Add", numbers, spread(context.cast(zero, float_type)))
    if is_small:
        return context.replace(op("Cast", numbers, to=target, saturate=get_int(node, "saturate", 1)))
    bounds = (context.scalar(limit, elem_type=float_type) for limit in limits(target))
    clipped = op("Clip", numbers, *bounds)
    result = op("Cast", clipped, to=target)
    if context.exact and not all(context.scope.has_numbers(name) for name in node.input if name):
        least = context.scalar(limits(target)[0], elem_type=target)  # of NaN, as in onnxruntime
        result = op("Where", op("IsNaN", clipped), least, result)
    return context.replace(result)


_HALF_STEPS: Final = Deviation("halfway between two steps, RTen may choose the other one", RARE)


_MOST_STEPS: Final = 2.0**31 - 512  # more are no number of 32 bits
_BEYOND: Final = Deviation("numbers of more than 2^31 steps, and infinity, become zero in RTen instead of 255", RARE)


def _is_beyond(node: Node, context: Context) -> bool:
    """Whether there may be more steps than RTen counts, for a result of UINT8."""
    data, scale, zero = context.input(0), context.input(1), context.optional(2)
    if (context.elem_type(zero) if zero else get_int(node, "output_dtype") or UINT8) != UINT8:
        return False
    greatest, scales = context.scope.range_of(data).greatest, context.scope.numbers(scale)
    return greatest is None or not scales or greatest > _MOST_STEPS * min(map(abs, scales))


def _quantized_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    return (_HALF_STEPS, _BEYOND) if _is_beyond(node, context) else (_HALF_STEPS,)


_NOT_QUANTIZED: Final = Deviation("NaN becomes any integer in RTen, and the least one in onnxruntime", SPECIAL)


def tell_if_exact(context: Context) -> None:
    """Report half steps if an operator has no exact form. Otherwise, the new nodes report them."""
    if context.exact:
        context.report(_HALF_STEPS)


def _with_zero_point(node: Node, context: Context, scale: str, target: int) -> list[Node]:
    """The node with a zero point of 0, whose type is the type of the result."""
    dims = context.dims(scale)
    sizes = None if dims is None else [size for size in dims if isinstance(size, int)]
    if dims is None or sizes is None or len(sizes) < len(dims):
        zeros = context.op("Cast", context.op("Sub", scale, scale), to=target)
    else:
        context.check_size(*sizes)

        zeros = context.array(budget.zeros(sizes), target)
    return context.changed([context.input(0), scale, zeros], without=("output_dtype",))


@because("RTen needs the result's type in both the zero point and the attribute")
def quantize_linear(node: Node, context: Context) -> list[Node] | None:
    data, zero = context.input(0), context.optional(2)
    target = context.elem_type(zero) if zero else get_int(node, "output_dtype") or UINT8
    if target not in QUANTIZED | OTHERS | SMALL_FLOATS:
        raise Refused(f"quantises to {type_name(target)}, which RTen does not support")
    if target not in QUANTIZED or get_int(node, "block_size") or context.exact:
        return _divided_out(node, context, target)
    if context.is_integer(data):
        return context.changed([context.cast(data, FLOAT), *node.input[1:]])
    scale, zero = _parameters(node, context, target)
    inputs = [data, scale, zero] if zero else [data, scale]
    if context.target.is_onnx:  # its loader uses the last axis if none is named, and the type of the zero point
        if not zero:
            return _with_zero_point(node, context, scale, target)
        axis = get_int(node, "axis", 1)
        is_named = attribute_named(node, "axis") is not None or context.rank(scale) == 0
        return None if inputs == list(node.input) and is_named else context.changed(inputs, axis=axis)
    if inputs == list(node.input) and get_int(node, "output_dtype") == target:
        return None
    return context.changed(inputs, output_dtype=target)


def quantize_raised(node: Node, context: Context) -> list[Node]:
    """Write the type of the output only if there is no zero point, because a zero point has that type.

    The axis is always written: RTen's ONNX loader uses the last axis as default.
    """
    without = ["output_dtype"] if context.optional(2) else []
    return context.changed(without=without, axis=get_int(node, "axis", 1))


QuantizeLinear = OperatorSpec(
    "QuantizeLinear",
    Outputs(same, _quantized_type),
    ToRten(
        Row(
            3,
            1,
            "QuantizeLinearAttrs",
            (axis_field(1), Field("output_dtype", int, choices=QUANTIZED_TYPES)),
            {"saturate": ANY, "precision": FLOAT_TYPES, "block_size": (0,)},
        ),
        rewritings=(same_granularity, quantize_linear),
        faults=(_LONE_SCALE, _SHORT_AXIS),
        deviations=_quantized_deviations,
        unspecified=of_every_node(_NOT_QUANTIZED),
    ),
    ToOnnx(rewriting=quantize_raised, deviations=_quantized_deviations),
    onnx_loader=OnnxLoader(
        takes={"block_size": (0,), "saturate": (1,), "precision": (0,)},
        defaults={"axis": -1},
        versions={"output_dtype": 21},
    ),
)


def _multiplied_out(node: Node, context: Context) -> list[Node]:
    """(x - zero point) * scale. Both are broadcast to the elements that they are for, also matrices of them."""
    spread, zero = _spreading(node, context), context.optional(2)
    float_type = context.elem_type(context.input(1)) or FLOAT
    numbers = context.cast(context.input(0), float_type)
    if zero:
        numbers = context.op("Sub", numbers, spread(context.cast(zero, float_type)))
    return context.replace(context.op("Mul", numbers, spread(context.input(1))))


@because("RTen's DequantizeLinear has no blocks, so these become products")
def dequantize_linear(node: Node, context: Context) -> list[Node] | None:
    elem_type = context.elem_type(context.input(0))
    has_matrix = any((context.rank(name) or 0) > 1 for name in node.input[1:3])
    if has_matrix or get_int(node, "block_size") or elem_type in FLOATS or elem_type in SMALL_FLOATS:
        return _multiplied_out(node, context)
    inputs = [context.input(0), *(name for name in _parameters(node, context, elem_type) if name)]
    return None if inputs == [name for name in node.input if name] else context.changed(inputs)


def dequantize_raised(node: Node, context: Context) -> list[Node]:
    """Subtract the zero point of an INT32 in a node of its own: RTen subtracts it, but ONNX takes it as zero."""
    zero_point = context.optional(2)
    if not zero_point or context.elem_type(node.input[0]) != INT32:
        return [node]
    numbers = context.scope.array(zero_point)
    if numbers is not None and not numbers.any():
        return context.changed(node.input[:2])
    rank = context.rank(node.input[0])
    if rank is not None and context.rank(zero_point) != 0:
        along = [1] * rank
        along[get_int(node, "axis", 1)] = -1  # the zero points lie along the axis
        zero_point = context.op("Reshape", zero_point, context.int64(along))
    return context.changed([context.op("Sub", node.input[0], zero_point), node.input[1]])


DequantizeLinear = OperatorSpec(
    "DequantizeLinear",
    Outputs(
        same,
        lambda node, scope, types: (get_int(node, "output_dtype") or types[1].elem_type,),
        range=ranges.dequantized_numbers,
    ),
    ToRten(
        Row(3, 1, "DequantizeLinearAttrs", (axis_field(1),), {"block_size": (0,), "output_dtype": FLOAT_TYPES}),
        rewritings=(same_granularity, dequantize_linear),
        faults=(_LONE_SCALE, _SHORT_AXIS),
    ),
    ToOnnx("wxw", rewriting=dequantize_raised),
    onnx_loader=OnnxLoader(takes={"block_size": (0,), "output_dtype": (0,)}),
)


def dequantized(context: Context, data: str, scale: str, zero: str, axis: int | None = None) -> str:
    """The floats that a quantised value stands for. Without an `axis`, it has one scale and one zero point."""
    if axis is None:
        return context.op("DequantizeLinear", data, one_number(context, scale), one_number(context, zero))
    return context.op("DequantizeLinear", data, scale, zero, axis=axis)


def quantized(context: Context, numbers: str, scale: str, zero: str) -> str:
    """Floats as quantised ones with one scale and one zero point."""
    return context.op("QuantizeLinear", numbers, one_number(context, scale), one_number(context, zero))


@budget.without_warnings
def scale_of_product(context: Context, first: str, second: str, result: str) -> str:
    """Return the factor between a product of quantised numbers and the quantised result, rounded as runtimes do."""
    import numpy

    scales = [context.scope.array(name) for name in (first, second, result)]
    a, b, c = (numpy.float32(0) if scale is None else scale.astype(numpy.float32) for scale in scales)
    if any(scale is None for scale in scales):
        return context.op("Div", context.op("Mul", first, second), result)
    ratios = a * b / c  # in float32, as runtimes compute it
    return context.array(ratios if ratios.size > 1 else ratios.reshape(()))


def rounded_to(context: Context, numbers: str, target: int) -> str:
    """Round floats to the nearest integers, halves to even ones, and clamp them to a quantised type."""
    bounds = (context.scalar(limit) for limit in limits(target))
    return context.cast(context.op("Clip", context.op("Round", numbers), *bounds), target)


def _from_integers(context: Context, total: str, factor: str, zero: str) -> list[Node]:
    """Scale and round a sum of products of integers, and then add the zero point, as onnxruntime does."""
    scaled = context.op("Round", context.op("Mul", context.cast(total, FLOAT), factor))
    shifted = context.op("Add", scaled, context.cast(zero, FLOAT))
    return context.replace(rounded_to(context, shifted, context.elem_type(zero) or UINT8))


def q_linear_conv(node: Node, context: Context) -> list[Node] | None:
    """Write it as Conv of floats, quantised again. The exact form is ConvInteger."""
    op = context.op
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (context.input(place) for place in range(8))
    x_scale, x_zero, y_scale, y_zero = (one_number(context, name) for name in (x_scale, x_zero, y_scale, y_zero))
    if context.exact:
        trailing = context.int64(range(1, context.known_rank(w) - 1))  # the axes behind the channels
        total = context.copy([x, w, x_zero, w_zero], "ConvInteger")  # INT32: samples, filters, then the spatial axes
        if bias := context.optional(8):
            total = op("Add", total, op("Unsqueeze", bias, trailing))
        factor = scale_of_product(context, x_scale, w_scale, y_scale)
        if context.rank(factor) != 0:
            factor = op("Unsqueeze", factor, trailing)
        return _from_integers(context, total, factor, y_zero)
    inputs = [dequantized(context, x, x_scale, x_zero), dequantized(context, w, w_scale, w_zero, axis=0)]
    if context.optional(8):
        unit = op("Mul", x_scale, w_scale)  # the scale of the bias, which has no zero point
        inputs.append(op("Mul", context.cast(context.input(8), FLOAT), unit))
    return context.replace(quantized(context, context.copy(inputs, "Conv"), y_scale, y_zero))


QLinearConv = OperatorSpec("QLinearConv", Outputs(elements=of_input(7)), ToRten(rewritings=(q_linear_conv,)))


def q_linear_matmul(node: Node, context: Context) -> list[Node] | None:
    """Write it as MatMul of floats, quantised again. The exact form is MatMulInteger."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (context.input(place) for place in range(8))
    y_scale, y_zero = one_number(context, y_scale), one_number(context, y_zero)
    a_scale = per_tensor(context, a_scale)
    if context.exact and context.rank(a_scale) == 0:
        total = context.op("MatMulInteger", a, b, a_zero, b_zero)
        return _from_integers(context, total, scale_of_product(context, a_scale, b_scale, y_scale), y_zero)
    tell_if_exact(context)
    left = dequantized(context, a, a_scale, a_zero, axis=-2)
    right = dequantized(context, b, b_scale, b_zero, axis=-1)
    return context.replace(quantized(context, context.op("MatMul", left, right), y_scale, y_zero))


QLinearMatMul = OperatorSpec("QLinearMatMul", Outputs(elements=of_input(7)), ToRten(rewritings=(q_linear_matmul,)))


@because("RTen multiplies by the reciprocal of the scale, which moves half steps. The exact form divides")
def dynamic_quantize_linear(node: Node, context: Context) -> list[Node] | None:
    if not context.exact:
        return None
    data = context.input(0)
    dims = context.dims(data)
    width = dims[-1] if dims else None
    if isinstance(width, int) and width > 0:
        return context.replace(*quantized_by_content(context, data, width))
    column = context.op("Reshape", data, [-1, 1])
    numbers, scale, zero = quantized_by_content(context, column, 1)
    return context.replace(context.op("Reshape", numbers, context.op("Shape", data)), scale, zero)


_DEVIATIONS = of_every_node(_HALF_STEPS, ANY_NAN)
DynamicQuantizeLinear = OperatorSpec(
    "DynamicQuantizeLinear",
    Outputs(for_outputs(same, scalar, scalar), for_outputs(always(UINT8), always(FLOAT), always(UINT8))),
    ToRten(Row(1, 3), rewritings=(dynamic_quantize_linear,), deviations=_DEVIATIONS),
    ToOnnx(deviations=_DEVIATIONS),
)


def quantized_by_content(context: Context, data: str, width: int, content: str = "") -> tuple[str, str, str]:
    """What DynamicQuantizeLinear gives: UINT8, the scale and the zero point; `width` is the last dim of the data.

    The scale is that of `content`. By default that is the data.
    If a divisor has one element, RTen multiplies by its reciprocal, which changes results at half steps. So divisors
    have several elements.
    """
    op = context.op
    columns = max(width, 2)
    # Zero always belongs to the range.
    flat = op("Concat", op("Reshape", content or data, [-1]), context.array([0]), axis=0)
    low = op("ReduceMin", flat, [0], keepdims=1)  # a vector of one
    high = op("ReduceMax", flat, [0], keepdims=1)
    span = op("Expand", op("Sub", high, low), [columns])  # columns, all equal
    steps = op("Div", span, context.array(budget.full(columns, 255)))
    zero_point, one, top = context.scalar(0.0), context.scalar(1.0), context.scalar(255.0)
    scale = op("Where", op("Equal", span, zero_point), one, steps)  # columns; 1 if all numbers are zero
    zero = op("Div", op("Neg", low), scale)  # columns
    zero = op("Round", op("Clip", zero, zero_point, top))
    numbers = op("Round", op("Div", data, scale))
    numbers = op("Clip", op("Add", numbers, zero), zero_point, top)
    if width == 1:
        numbers = op("Slice", numbers, [0], [1], [-1])  # the divisor had two columns
    first = context.int64_scalar(0)
    one_scale, one_zero = (op("Gather", name, first, axis=0) for name in (scale, zero))
    return context.cast(numbers, UINT8), one_scale, context.cast(one_zero, UINT8)
