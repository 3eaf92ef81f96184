"""Operators that reduce axes, sort along them, or normalise over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import numpy_dtype
from formats.ir.storage import from_numpy
from formats.rten.convert.context import Refused
from formats.rten.convert.value_types import BOOL, FLOAT, INT32, INT64
from formats.rten.graph.attributes import find, get_float, get_int, get_ints
from formats.rten.rewriting.shapes import joined, sizes_of, vector_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def reduction(node: Node, context: Context) -> list[Node] | None:
    """RTen's optimiser misreads a reduction of no axes: that is a function of each element, and written so."""
    if changed := vector_axes(node, context):
        return changed
    axes = context.optional(1)
    held = context.scope.ints(axes) if axes else ()
    flag = find(node, "noop_with_empty_axes")
    if held is None:
        return None
    if held:
        return context.changed(without=("noop_with_empty_axes",)) if flag is not None else None
    if flag is not None and flag.i:
        return context.replace(_of_each_element(node.op_type or "", context, context.input(0)))
    if not axes and flag is None:
        return None
    return context.changed([context.input(0)], without=("noop_with_empty_axes",))


def _of_each_element(op_type: str, context: Context, data: str) -> str:
    """What a reduction makes of a single element."""
    if op_type in ("ReduceL1", "ReduceL2"):
        return context.op("Abs", data)
    if op_type == "ReduceSumSquare":
        return context.op("Mul", data, data)
    return context.op("Log", data) if op_type == "ReduceLogSum" else data


def reduce_mean(node: Node, context: Context) -> list[Node] | None:
    """Of integers, the sum divided by the number of elements that went into it."""
    data = context.input(0)
    if not context.is_integer(data):
        return None
    total = context.op("ReduceSum", *node.input, keepdims=get_int(node, "keepdims", 1))
    count = context.op("Div", context.op("Size", data), context.op("Size", total))
    elem_type = context.elem_type(data) or INT64
    return context.replace(context.op("Div", total, context.cast(count, elem_type)))


def float_reduction(node: Node, context: Context) -> list[Node] | None:
    """Of integers, what runtimes compute in floats is not certain."""
    data = context.input(0)
    if context.is_integer(data):
        raise Refused(f"reduces {context.describe(data)}, where RTen takes floats", "cast the input to FLOAT")
    return None


def reduce_extremum(node: Node, context: Context) -> list[Node] | None:
    """Of no truth value at all, the extremum is a truth value too, and no extreme integer."""
    data = context.input(0)
    if context.elem_type(data) != BOOL:
        return None
    found = context.copy([context.cast(data, INT32), *node.input[1:]])
    if node.op_type == "ReduceMax":
        return context.replace(context.op("Equal", found, context.scalar(1, elem_type=INT32)))
    return context.replace(context.op("Not", context.op("Equal", found, context.scalar(0, elem_type=INT32))))


def reduce_log_sum(node: Node, context: Context) -> list[Node] | None:
    """The logarithm of the sum; RTen 0.25.0 lacks the operator."""
    float_reduction(node, context)
    total = context.op("ReduceSum", *node.input, keepdims=get_int(node, "keepdims", 1))
    return context.replace(context.op("Log", total))


def reduce_log_sum_exp(node: Node, context: Context) -> list[Node] | None:
    """The logarithm of the sum of exponentials, with the largest taken out so that none overflows."""
    float_reduction(node, context)
    data, keep = context.input(0), get_int(node, "keepdims", 1)
    largest = context.op("ReduceMax", *node.input, keepdims=1)
    shift = context.op("Where", context.op("IsInf", largest), context.scalar(0, like=data), largest)
    grown = context.op("Exp", context.op("Sub", data, shift))
    total = context.op("Log", context.op("ReduceSum", grown, *node.input[1:], keepdims=keep))
    if not keep:
        shift = context.op("Reshape", shift, context.op("Shape", total))
    return context.replace(context.op("Add", total, shift))


def arg_extremum(node: Node, context: Context) -> list[Node] | None:
    """RTen gives the last of equal extrema; TopK, which gives the first, is exact."""
    if not context.exact or get_int(node, "select_last_index"):
        return None
    axis = get_int(node, "axis")
    largest = int(node.op_type == "ArgMax")
    found = context.op_outputs("TopK", [context.input(0), context.int64([1])], 2, axis=axis, largest=largest)[1]
    if get_int(node, "keepdims", 1):
        return context.replace(found)
    return context.replace(context.op("Squeeze", found, context.int64([axis])))


def non_max_suppression(node: Node, context: Context) -> list[Node] | None:
    """RTen keeps one class a box and measures overlap in its own way; nothing else comes near the operator."""
    if context.exact:
        raise Refused("is computed by RTen in its own way, to which there is no exact alternative")
    return None


def hardmax(node: Node, context: Context) -> list[Node] | None:
    """One at the first of the largest elements, zero elsewhere."""
    import numpy

    data, axis = context.input(0), get_int(node, "axis", -1)
    found = context.op_outputs("TopK", [data, context.int64([1])], 2, axis=axis)[1]
    place = context.op("Squeeze", found, context.int64([axis]))
    dims = context.dims(data)
    size = dims[axis] if dims is not None else None
    if isinstance(size, int):
        depth = context.int64([size])
    elif axis >= 0 or dims is not None:
        number = axis if axis >= 0 else axis + context.known_rank(data)
        depth = sizes_of(context, data, number, number + 1)
    else:
        depth = context.op("Gather", context.op("Shape", data), context.int64([axis]))
    values = context.array(numpy.array([0.0, 1.0]), context.elem_type(data) or FLOAT)
    return context.replace(context.op("OneHot", place, depth, values, axis=axis))


def norm(context: Context, data: str, axes: list[int], power: int) -> str:
    """The L1 or L2 norm over some axes, which stay as 1."""
    if power not in (1, 2):
        raise Refused(f"has p = {power}, where RTen has norms of 1 and 2")
    return context.op("ReduceL1" if power == 1 else "ReduceL2", data, context.int64(axes), keepdims=1)


def power_of(node: Node) -> int:
    """The attribute `p`, which was a float in operator set 1."""
    attribute = find(node, "p")
    if attribute is None:
        return 2
    value = attribute.i if attribute.f is None else attribute.f
    return int(value or 0)


def lp_normalization(node: Node, context: Context) -> list[Node] | None:
    """The data divided by their norm, and zero where that is zero; RTen 0.25.0 lacks the operator."""
    data = context.input(0)
    length = norm(context, data, [get_int(node, "axis", -1)], power_of(node))
    empty = context.op("Equal", length, context.scalar(0, like=data))
    return context.replace(context.op("Div", data, context.op("Where", empty, context.scalar(1, like=data), length)))


def global_lp_pool(node: Node, context: Context) -> list[Node] | None:
    """The norm over all spatial axes."""
    data = context.input(0)
    return context.replace(norm(context, data, list(range(2, context.known_rank(data))), power_of(node)))


def trailing_axes(node: Node, context: Context, data: str) -> list[int]:
    """The axes from the attribute `axis` to the last, counted from the back."""
    axis = get_int(node, "axis", -1)
    return list(range(axis if axis < 0 else axis - context.known_rank(data), 0))


def rms_normalization(node: Node, context: Context) -> list[Node] | None:
    """The data by their root mean square, times the scale, in the form that RTen fuses."""
    data = context.input(0)
    normal = root_mean_square(context, data, trailing_axes(node, context, data), get_float(node, "epsilon", 1e-5))
    return context.replace(context.op("Mul", normal, context.input(1)))


def root_mean_square(context: Context, data: str, axes: list[int], epsilon: float) -> str:
    """The data divided by the root of their mean square over some axes."""
    mean = context.op("ReduceMean", context.op("Mul", data, data), context.int64(axes), keepdims=1)
    root = context.op("Sqrt", context.op("Add", mean, context.scalar(epsilon, like=data)))
    return context.op("Mul", data, context.op("Reciprocal", root))


def layer_normalization(node: Node, context: Context) -> list[Node] | None:
    """RTen has the first output; where the mean or the deviation is wanted, everything is computed step by step."""
    if not context.wanted(1) and not context.wanted(2):
        return None
    data, scale, bias = context.input(0), context.input(1), context.optional(2)
    axes = context.int64(trailing_axes(node, context, data))
    mean = context.op("ReduceMean", data, axes, keepdims=1)
    centred = context.op("Sub", data, mean)
    variance = context.op("ReduceMean", context.op("Mul", centred, centred), axes, keepdims=1)
    epsilon = context.scalar(get_float(node, "epsilon", 1e-5), like=data)
    inverse = context.op("Reciprocal", context.op("Sqrt", context.op("Add", variance, epsilon)))
    result = context.op("Mul", context.op("Mul", centred, inverse), scale)
    return context.replace(context.op("Add", result, bias) if bias else result, mean, inverse)


def batch_normalization(node: Node, context: Context) -> list[Node] | None:
    """Only inference: statistics are given, not computed."""
    if get_int(node, "training_mode"):
        raise Refused("is in its training form (training_mode = 1)", "export the model for inference")
    return None


def mean_variance_normalization(node: Node, context: Context) -> list[Node] | None:
    """The data less their mean, by their standard deviation; the published function adds 1e-9 to that."""
    data = context.input(0)
    axes = context.int64([0, 2, 3] if find(node, "axes") is None else get_ints(node, "axes") or ())
    mean = context.op("ReduceMean", data, axes, keepdims=1)
    squared = context.op("Mul", mean, mean)
    variance = context.op("Sub", context.op("ReduceMean", context.op("Mul", data, data), axes, keepdims=1), squared)
    deviation = context.op("Add", context.op("Sqrt", variance), context.scalar(1e-9, like=data))
    return context.replace(context.op("Div", context.op("Sub", data, mean), deviation))


def group_normalization(node: Node, context: Context) -> list[Node] | None:
    """Each group is an instance of its own; the scale and bias were one a group before operator set 21."""
    import numpy

    data, scale, bias = (context.input(place) for place in range(3))
    groups, rank = get_int(node, "num_groups"), context.known_rank(data)
    batch = sizes_of(context, data, 0, 1)
    elem_type = context.elem_type(data) or FLOAT
    context.check_size(groups)
    units = (context.array(numpy.full(groups, fill), elem_type) for fill in (1.0, 0.0))
    by_group = context.op("Reshape", data, joined(context, batch, context.int64([groups, -1])))
    normal = context.op("InstanceNormalization", by_group, *units, epsilon=get_float(node, "epsilon", 1e-5))
    if context.version < 21:  # spread what there is one of in a group while the groups are an axis
        weights = (context.op("Unsqueeze", name, context.int64([-1])) for name in (scale, bias))
    else:
        normal = context.op("Reshape", normal, context.op("Shape", data))
        trailing = context.int64(range(1, rank - 1))
        weights = (context.op("Unsqueeze", name, trailing) for name in (scale, bias))
    factor, shift = weights
    result = context.op("Add", context.op("Mul", normal, factor), shift)
    if context.version < 21:
        result = context.op("Reshape", result, context.op("Shape", data))
    return context.replace(result)


def dropout(node: Node, context: Context) -> list[Node] | None:
    """In inference nothing is dropped, and the mask is all true; random numbers need a feature that RTen may lack."""
    import numpy

    data, ratio, training = context.input(0), context.optional(1), context.optional(2)
    if context.version < 7 and not get_int(node, "is_test"):
        raise Refused("is in its training form (is_test = 0)", "set is_test to 1")
    if (
        training
        and context.scope.ints(training) != (0,)
        and (context.scope.numbers(ratio) if ratio else [0.5]) != [0.0]
    ):
        raise Refused("may be in training mode", "export the model for inference")
    if not context.wanted(1):
        return context.replace(context.op("Identity", data), "")
    elem_type = BOOL if context.version >= 10 else context.elem_type(data) or FLOAT
    ones = from_numpy(numpy.ones(1, dtype=numpy_dtype(elem_type)))
    mask = context.op("ConstantOfShape", context.op("Shape", data), value=ones)
    return context.replace(context.op("Identity", data), mask)


_REDUCTIONS = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
)

AXES: Mapping[str, Rewriting] = dict.fromkeys(_REDUCTIONS, reduction)
REWRITINGS: Mapping[str, Rewriting] = {
    "ArgMax": arg_extremum,
    "ArgMin": arg_extremum,
    "BatchNormalization": batch_normalization,
    "Dropout": dropout,
    "GlobalLpPool": global_lp_pool,
    "GroupNormalization": group_normalization,
    "Hardmax": hardmax,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "NonMaxSuppression": non_max_suppression,
    "RMSNormalization": rms_normalization,
    "ReduceL2": float_reduction,
    "ReduceLogSum": reduce_log_sum,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceMax": reduce_extremum,
    "ReduceMean": reduce_mean,
    "ReduceMin": reduce_extremum,
}
