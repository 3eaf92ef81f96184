"""Products of bytes: MatMulInteger and ConvInteger. RTen mixes up zero points in their kernels.

(a - za) * (b - zb) is a * b, less zb times the sums of the rows of a - za, less za times the sums of the columns of b.
"""

from __future__ import annotations

from formats.ir.attributes import get_int, get_ints, get_string
from formats.ir.dtypes import INT32, UINT8
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.graph.attributes import with_fields
from formats.rten.graph.makers import Makers
from formats.rten.operators import convolution, matrix, padding, quantization, ranges, shape
from formats.rten.operators.rules import always
from formats.rten.operators.window import kernel_shape, window
from formats.rten.spec import Deviation, Folding, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because
from formats.rten.target import Fault
from formats.rten.types import BYTES
from formats.tensordata.plan import RESULTS


def single_zero(context: Context, name: str) -> str:
    """A zero point of one element, or a constant one whose elements are all equal, as a scalar."""
    dims = context.dims(name) if name else ()
    if not dims:
        return name
    tensor, count = context.scope.constant(name), len(set(context.scope.numbers(name) or ()))
    if tensor is not None and count == 1 and dims != (1,):
        return context.array(tensor.numpy().ravel()[0], tensor.data_type or UINT8)
    return quantization.per_tensor(context, name)


def is_many(context: Context, name: str) -> bool:
    """Whether a zero point may have several elements."""
    return bool(name) and context.rank(name) != 0


_FIRST_BLOCK = Fault("uses the zero points of the first rows or columns for all others")
_PACKED = Fault("forgets the zero point of a matrix that it multiplies with several")
_FIRST_BLOCK_DEVIATION = Deviation(_FIRST_BLOCK.sentence, RESULTS)
_PACKED_DEVIATION = Deviation(_PACKED.sentence, RESULTS)


def _has_one_row(context: Context, name: str) -> bool:
    """Whether a value is known to be a vector, or a matrix of one row. RTen multiplies it without blocks."""
    dims = context.dims(name)
    return dims is not None and all(dim == 1 for dim in dims[:-1])


def _total(context: Context, data: str, zero: str, axis: int) -> str:
    """The rows (axis -1) or columns (axis -2) of a matrix of bytes, added up, less their zero point."""
    numbers, rank = context.cast(data, INT32), context.rank(data)
    if rank is not None:  # onnxruntime does not reduce negative axes of empty data
        axis += rank
    if zero:
        numbers = context.op("Sub", numbers, context.cast(zero, INT32))
    return context.op("ReduceSum", numbers, [axis], keepdims=1)  # ..., m, 1 or ..., 1, n


def _of_rows(context: Context, zero: str) -> str:
    """The zero points of rows as a column."""
    rank = context.rank(zero)
    if rank is None:
        return context.op("Reshape", zero, [-1, 1])
    return context.op("Unsqueeze", zero, [1]) if rank == 1 else zero


def _zeros_apart(context: Context, a: str, b: str, zeros: list[str]) -> list[Node]:
    """The product without zero points that differ by row or column, less what these add to it."""
    op = context.op
    a_zero, b_zero = zeros
    if is_many(context, a_zero):
        a_zero = _of_rows(context, a_zero)
    inside = ["" if is_many(context, zero) else zero for zero in (a_zero, b_zero)]
    result = context.copy(without_end([a, b, *inside]))  # ..., m, n
    if is_many(context, b_zero):
        more = op("Mul", _total(context, a, a_zero, -1), context.cast(b_zero, INT32))  # ..., m, 1 times n
        result = op("Sub", result, more)
    if is_many(context, a_zero):
        is_vector = context.known_rank(b) == 1
        columns = _total(context, b, inside[1], -1 if is_vector else -2)  # the sums that the zero points of rows meet
        if is_vector:
            a_zero = op("Squeeze", a_zero, [-1])
        more = op("Mul", context.cast(a_zero, INT32), columns)  # m, 1 times ..., 1, n
        result = op("Sub", result, more)
    return context.replace(result)


def without_end(names: list[str]) -> list[str]:
    """Names without the omitted ones at the end."""
    while names and not names[-1]:
        names.pop()
    return names


def _may_be_packed(context: Context, a: str, b: str, zero: str) -> bool:
    """Whether one matrix with a zero point may be multiplied with several. RTen makes bytes below zero unsigned."""
    if context.scope.is_safe(_PACKED, a) or _has_one_row(context, a):
        return False
    rows, columns = context.dims(a), context.dims(b)
    if columns is not None and all(dim == 1 for dim in columns[:-2]):
        return False
    if rows is not None and any(isinstance(dim, int) and dim != 1 for dim in rows[:-2]):
        return False
    zeros = context.scope.numbers(zero) if zero else [0.0]
    return context.elem_type(a) != UINT8 or zeros is None or any(zeros)


def _once_for_each(context: Context, a: str, b: str) -> str:
    """The first matrix, as often as there are second ones."""
    sizes = shape.sizes_of(context, b, 0, -2)
    repeated = context.op("Expand", a, shape.joined(context, sizes, context.int64([1, 1])))  # ..., m, k
    return context.scope.add_safe(_PACKED, repeated)


@because("RTen mixes up zero points that differ by row or column, so they become sums of rows or columns")
def mat_mul_integer(node: Node, context: Context) -> list[Node] | None:
    a, b = context.input(0), context.input(1)
    zeros = [single_zero(context, context.optional(place)) for place in (2, 3)]
    for place, operand in enumerate((a, b)):
        if is_many(context, zeros[place]) and context.rank(operand) == 1:  # it has one row or column
            zeros[place] = context.op("Reshape", zeros[place], [])
    if is_many(context, zeros[1]) and context.rank(a) == 1 and (context.rank(zeros[1]) or 0) > 1:
        zeros[1] = context.op("Squeeze", zeros[1], [-2])  # the result has no rows
    columns = context.dims(zeros[1]) if zeros[1] else None
    is_row = _has_one_row(context, a) and columns is not None and len(columns) == 1 and isinstance(columns[0], int)
    is_whole = not is_many(context, zeros[0]) and (not is_many(context, zeros[1]) or is_row)
    if not is_whole:
        return _zeros_apart(context, a, b, zeros)
    if _may_be_packed(context, a, b, zeros[0]):
        return context.changed(without_end([_once_for_each(context, a, b), b, *zeros]))
    if zeros != [context.optional(2), context.optional(3)]:
        return context.changed(without_end([a, b, *zeros]))
    return matrix.by_vector(node, context)


def _zeros_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    deviations = [_FIRST_BLOCK_DEVIATION] if any(is_many(context, name) for name in node.input[2:]) else []
    if _may_be_packed(context, node.input[0], node.input[1], context.optional(2)):
        deviations.append(_PACKED_DEVIATION)
    return tuple(deviations)


def zero_points_of_columns(node: Node, makers: Makers) -> Node | None:
    """MatMulInteger with a zero point for each column, from the sums of rows that it was written with."""
    parts = makers.match(node, "Sub", "MatMulInteger", "Mul")
    factors = makers.match(parts[1], "Mul", "ReduceSum", "Cast") if parts else None
    if parts is None or factors is None:
        return None
    product, (rows, zero) = parts[0], factors
    a, b, *more = product.input
    if makers.integers(rows.input[1]) != [(makers.rank(a) or 0) - 1]:
        return None
    difference = makers.maker(rows.input[0], "Sub")  # rows less their zero point, if there is one
    casts = [makers.maker(name, "Cast") for name in (difference.input if difference else rows.input[:1])]
    is_known = makers.elem_type(zero.input[0]) in BYTES and len(more) < 2 and makers.rank(b) == 2
    if not is_known or [cast and cast.input[0] for cast in casts] != [a, *more]:
        return None
    return with_fields(product, input=[a, b, *(more or [""]), zero.input[0]], output=node.output, name=node.name)


MatMulInteger = OperatorSpec(
    "MatMulInteger",
    Outputs(matrix.matmul_dims, always(INT32), range=ranges.products_of_bytes),
    ToRten(Row(4), rewritings=(mat_mul_integer,), faults=(_FIRST_BLOCK, _PACKED)),
    ToOnnx(foldings=(Folding(("Sub",), zero_points_of_columns),), deviations=_zeros_deviations),
)


def _is_depthwise(node: Node, context: Context) -> bool:
    """Whether each channel is convolved alone. RTen then has a kernel without blocks."""
    data, weight = context.dims(context.input(0)), context.dims(context.input(1))
    return data is not None and weight is not None and data[1] == weight[0] == get_int(node, "group", 1)


def _is_packed(node: Node, context: Context) -> bool:
    """Whether the kernel is used for several samples and has a zero point. RTen makes bytes below zero unsigned."""
    data, weight, zero = context.dims(context.input(0)), context.input(1), context.optional(3)
    steps = (*(get_ints(node, "strides") or ()), *(get_ints(node, "dilations") or ()), get_int(node, "group", 1))
    if (data and data[0] == 1) or all(length == 1 for length in (*kernel_shape(node, context), *steps)):
        return False
    zeros = context.scope.numbers(zero) if zero else [0.0]
    return context.elem_type(weight) != UINT8 or zeros is None or any(zeros)


def _channels_apart(node: Node, context: Context) -> list[Node] | None:
    """RTen mixes up zero points of the weights, so these are subtracted from the result."""
    op = context.op
    data, weight, data_zero, zero = (context.optional(place) for place in range(4))
    is_packed = _is_packed(node, context)
    if _is_depthwise(node, context) or not (is_packed or is_many(context, zero)):
        return None
    group, rank = get_int(node, "group", 1), context.known_rank(weight)
    numbers = context.cast(zero, INT32) if zero else context.scalar(0, elem_type=INT32)
    if is_packed and context.elem_type(weight) != UINT8:
        middle = context.scalar(128, elem_type=INT32)  # INT8 and its zero point are moved to UINT8
        moved = op("Add", context.cast(weight, INT32), middle)
        weight, numbers = context.cast(moved, UINT8), op("Add", numbers, middle) if zero else middle
    inputs = [data_zero] if data_zero else []
    result = context.copy([data, weight, *inputs])  # samples, filters, then the spatial axes
    sizes = shape.joined(context, context.int64([group]), shape.sizes_of(context, weight, 1, rank))
    ones = op("Expand", context.scalar(1, elem_type=UINT8), sizes)  # groups, channels of a group, kernel
    sums = context.copy([data, ones, *inputs])  # of what is under the window, a channel for each group
    if group > 1 and is_many(context, zero) and not isinstance((context.dims(zero) or (None,))[0], int):
        numbers = op("Expand", numbers, shape.sizes_of(context, weight, 0, 1))
    of_channels = [group, -1] if group > 1 else [-1]
    if is_many(context, zero):
        numbers = op("Reshape", numbers, [*of_channels, *[1] * (rank - 2)])  # groups, filters of each, 1, ...
    if group == 1:
        return context.replace(op("Sub", result, op("Mul", sums, numbers)))
    # Groups get an axis: samples, groups, filters of each, and the spatial axes.
    more = op("Mul", op("Unsqueeze", sums, [2]), numbers)
    before, after = shape.sizes_of(context, result, 0, 1), shape.sizes_of(context, result, 2, rank)
    filters = shape.quotient(context, shape.sizes_of(context, weight, 0, 1), group)
    apart = op("Reshape", result, shape.joined(context, before, context.int64([group]), filters, after), allowzero=1)
    whole = op("Sub", apart, more)
    return context.replace(op("Reshape", whole, op("Shape", result), allowzero=1))


@because("RTen does not pad with the zero point, so a Pad comes first")
def conv_integer(node: Node, context: Context) -> list[Node] | None:
    zeros = [single_zero(context, context.optional(place)) for place in (2, 3)]
    if zeros != [context.optional(2), context.optional(3)]:
        return context.changed(without_end([*node.input[:2], *zeros]))
    data, zero = context.input(0), context.optional(2)
    geometry = window(node, kernel_shape(node, context))
    if padding.is_padded_by_size(context, geometry, data):
        padded = padding.padded_by_size(context, geometry, data, zero or 0)
        return context.changed([padded, *node.input[1:]], auto_pad=None, pads=[0] * (2 * len(geometry.kernel)))
    if changed := convolution.conv(node, context):
        return changed
    pads = get_ints(node, "pads") or ()
    if not any(pads):
        return _channels_apart(node, context)
    rank = len(pads) // 2
    amounts = context.int64([0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    padded = context.op("Pad", data, amounts, zero or context.scalar(0, like=data))
    return context.changed([padded, *node.input[1:]], pads=[0] * len(pads))


_ZERO_PADDING = Fault("does not pad with the zero point")
_ZERO_PADDING_DEVIATION = Deviation(_ZERO_PADDING.sentence, RESULTS)


def _conv_integer_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    if get_string(node, "auto_pad") == "SAME_UPPER" or any(get_ints(node, "pads") or ()):
        return (_ZERO_PADDING_DEVIATION,)
    return ()


ConvInteger = OperatorSpec(
    "ConvInteger",
    Outputs(convolution.conv_dims, always(INT32)),
    ToRten(
        Row(4, 1, "ConvAttrs", convolution.CONV, convolution.KERNEL_IMPLIED),
        rewritings=(conv_integer,),
        faults=(_ZERO_PADDING,),
    ),
    ToOnnx(rewriting=convolution.convolution_raised, deviations=_conv_integer_deviations),
    onnx_loader=convolution.Conv.onnx_loader,
)
