"""Normalisations: over axes, batches, instances, groups and channels; and the losses of classifications.

Spec: ONNX, Operators.md.
"""

from __future__ import annotations

from typing import Final

from formats.ir.attributes import attribute_named, get_float, get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.operators import ranges, reduction, shape
from formats.rten.operators.rules import WITHOUT_CONSUMED, dropped, of_floats, same
from formats.rten.spec import (
    ANY,
    Deviation,
    Field,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Row,
    ToRten,
    axis_field,
    because,
    unknown,
)
from formats.rten.target import RTEN_0_26
from formats.tensordata.plan import RARE, SPECIAL


@because("Before operator set 13, Softmax flattened its input to a matrix, with a row for all axes from `axis` on")
def flattened(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    if context.version >= 13:
        return None
    data, axis = context.input(0), get_int(node, "axis", 1)
    if axis == -1 or context.rank(data) == axis + 1:
        return context.changed(axis=-1)
    matrix = op("Flatten", data, axis=axis)
    rows = op(node.op_type or "", matrix, axis=-1)  # axes before, axes from `axis` on
    return context.replace(op("Reshape", rows, op("Shape", data), allowzero=1))


Softmax = OperatorSpec(
    "Softmax",
    Outputs(same, range=ranges.between(0, 1)),
    ToRten(Row(1, 1, "SoftmaxAttrs", (axis_field(-1),)), older=(flattened,), is_plain=True),
)
LogSoftmax = OperatorSpec(
    "LogSoftmax",
    Outputs(same, range=ranges.between(None, 0)),
    ToRten(Row(1, 1, "SoftmaxAttrs", (axis_field(-1),)), older=(flattened,), is_plain=True),
)


def hardmax(node: Node, context: Context) -> list[Node] | None:
    """Write it as one at the first of the largest elements, zero elsewhere."""
    import numpy

    op = context.op
    data, axis = context.input(0), get_int(node, "axis", -1)
    dims = context.dims(data)
    size = dims[axis] if dims is not None else None
    if size == 0:
        return context.replace(op("Identity", data))
    count = one = context.int64([1])
    if isinstance(size, int):
        depth = context.int64([size])
    elif axis >= 0 or dims is not None:
        number = axis if axis >= 0 else axis + context.known_rank(data)
        depth = shape.sizes_of(context, data, number, number + 1)
    else:
        depth = op("Gather", op("Shape", data), [axis])
    if not isinstance(size, int):  # it may be zero, and then there is no largest element
        count, depth = op("Min", depth, one), op("Max", depth, one)
    largest = context.op_outputs("TopK", [data, count], 2, axis=axis)[1]
    values = context.array(numpy.array([0.0, 1.0]), context.elem_type(data) or FLOAT)
    # The axis of size one stays until the axis of the depth is next to it: ONNX has no OneHot of a scalar.
    inner = axis if axis < 0 else axis + 1
    marked = op("OneHot", largest, depth, values, axis=inner)
    if isinstance(size, int):
        return context.replace(op("Squeeze", marked, [inner - 1]))
    return context.replace(op("Reshape", marked, op("Shape", data), allowzero=1))


Hardmax = OperatorSpec("Hardmax", Outputs(same), ToRten(older=(flattened,), rewritings=(hardmax,)))
_EPSILON = Field("epsilon", float, 1e-5)


@because("Operator sets 1 to 7 had attributes for training and for normalising each element by itself")
def old_batch_normalization(node: Node, context: Context) -> list[Node] | None:
    if context.version < 7 and not get_int(node, "is_test"):
        raise Refused("is in its training form (is_test = 0)", "set is_test to 1")
    if context.version < 9 and not get_int(node, "spatial", 1):
        raise Refused("has spatial = 0, which RTen does not support")
    return dropped("is_test", "spatial", "consumed_inputs")(node, context)


@because("For RTen, statistics are inputs: in the training form, they are computed before")
def batch_normalization(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    if not get_int(node, "training_mode"):
        return of_nothing(node, context)
    data, scale, bias = (context.input(place) for place in range(3))
    axes = context.int64([0, *range(2, context.known_rank(data))])  # all but the channels
    mean = op("ReduceMean", data, axes, keepdims=1)
    centred = op("Sub", data, mean)
    squares = op("Mul", centred, centred)
    statistics = [op("Reshape", mean, [-1]), op("ReduceMean", squares, axes, keepdims=0)]  # one number for each channel
    momentum, running = get_float(node, "momentum", 0.9), []
    for place, value in enumerate(statistics):
        parts = zip((context.input(3 + place), value), (momentum, 1 - momentum), strict=True)
        shares = [op("Mul", part, context.scalar(share, like=part)) for part, share in parts]
        running.append(op("Add", *shares))
    result = context.copy([data, scale, bias, *statistics], without=("training_mode", "momentum"))
    return context.replace(result, *running)


@because("RTen fails for a batch or instances without elements, so these stay unchanged")
def of_nothing(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    return context.replace(context.op("Identity", data)) if 0 in (context.dims(data) or ()) else None


_INFINITE_DEVIATION: Final = Deviation(
    "with infinities, the order of sums decides whether RTen and onnxruntime return NaN", SPECIAL
)
_INFINITE_SUMS: Final = of_floats(_INFINITE_DEVIATION)
_NO_SAMPLES: Final = Deviation("RTen fails if there are no samples and so no elements", SPECIAL, True)


def _empty_batch_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    """The report if the batch may be empty when the model runs."""
    dims = context.dims(node.input[0])
    return () if dims and isinstance(dims[0], int) else (_NO_SAMPLES,)


BatchNormalization = OperatorSpec(
    "BatchNormalization",
    Outputs(same),
    ToRten(
        Row(5, 1, "BatchNormalizationAttrs", (_EPSILON,), {"momentum": ANY, "training_mode": (0,)}),
        older=(old_batch_normalization,),
        rewritings=(batch_normalization,),
        deviations=_empty_batch_deviations,
        unspecified=_INFINITE_SUMS,
    ),
    onnx_loader=OnnxLoader(takes={"momentum": ANY, "training_mode": (0,), "spatial": (1,)}),
)


InstanceNormalization = OperatorSpec(
    "InstanceNormalization",
    Outputs(same, range=ranges.normalised),
    ToRten(
        Row(3, 1, "BatchNormalizationAttrs", (_EPSILON,)),
        older=WITHOUT_CONSUMED,
        rewritings=(of_nothing,),
        deviations=_empty_batch_deviations,
        unspecified=_INFINITE_SUMS,
    ),
)


def trailing_axes(node: Node, context: Context, data: str) -> list[int]:
    """The axes from the attribute `axis` to the last axis, counted from the back."""
    axis = get_int(node, "axis", -1)
    return list(range(axis if axis < 0 else axis - context.known_rank(data), 0))


@because("RTen computes only the first output; the mean and the standard deviation need single steps")
def layer_normalization(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    if not context.wanted(1) and not context.wanted(2):
        return None
    data, scale, bias = context.input(0), context.input(1), context.optional(2)
    axes = context.int64(trailing_axes(node, context, data))
    mean = op("ReduceMean", data, axes, keepdims=1)
    centred = op("Sub", data, mean)
    variance = op("ReduceMean", op("Mul", centred, centred), axes, keepdims=1)  # the axes of the data, with ones
    epsilon = context.scalar(get_float(node, "epsilon", 1e-5), like=data)
    inverse = op("Reciprocal", op("Sqrt", op("Add", variance, epsilon)))
    result = op("Mul", op("Mul", centred, inverse), scale)
    return context.replace(op("Add", result, bias) if bias else result, mean, inverse)


LayerNormalization = OperatorSpec(
    "LayerNormalization",
    Outputs(same, range=ranges.normalised),
    ToRten(
        Row(3, 1, "LayerNormalizationAttrs", (axis_field(-1), _EPSILON), {"stash_type": ANY}),
        rewritings=(layer_normalization,),
        is_plain=True,
    ),
    onnx_loader=OnnxLoader(takes={"stash_type": (1,)}, version=17),
)


def group_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as InstanceNormalization of groups; before operator set 21, scale and bias were per group."""
    op = context.op
    data, scale, bias = (context.input(place) for place in range(3))
    groups, rank = get_int(node, "num_groups"), context.known_rank(data)
    batch = shape.sizes_of(context, data, 0, 1)
    elem_type = context.elem_type(data) or FLOAT
    context.check_size(groups)
    units = (context.array(budget.full(groups, fill), elem_type) for fill in (1.0, 0.0))
    # The elements of a group: its channels times the spatial sizes.
    depth = shape.quotient(context, shape.size_of(context, data, 1, rank), groups)
    by_group = op(
        "Reshape", data, shape.joined(context, batch, context.int64([groups]), depth), allowzero=1
    )  # B, G, rest
    normal = op("InstanceNormalization", by_group, *units, epsilon=get_float(node, "epsilon", 1e-5))
    if context.version < 21:  # copy values that exist once per group, while the groups are an axis
        weights = (op("Unsqueeze", name, [-1]) for name in (scale, bias))  # groups, 1
    else:
        normal = op("Reshape", normal, op("Shape", data), allowzero=1)  # the dims of the data
        trailing = context.int64(range(1, rank - 1))
        weights = (op("Unsqueeze", name, trailing) for name in (scale, bias))  # channels, 1, ...
    factor, shift = weights
    result = op("Add", op("Mul", normal, factor), shift)
    if context.version < 21:
        result = op("Reshape", result, op("Shape", data), allowzero=1)
    return context.replace(result)


GroupNormalization = OperatorSpec("GroupNormalization", Outputs(same), ToRten(rewritings=(group_normalization,)))


def root_mean_square(context: Context, data: str, axes: list[int], epsilon: float) -> str:
    """The data divided by the root of their mean square over some axes."""
    op = context.op
    mean = op("ReduceMean", op("Mul", data, data), context.int64(axes), keepdims=1)
    root = op("Sqrt", op("Add", mean, context.scalar(epsilon, like=data)))
    return op("Mul", data, op("Reciprocal", root))


def rms_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as x / sqrt(mean(x * x) + epsilon) * scale, in the form that RTen fuses."""
    if context.operator.row_for(context.target) is not None:
        return None
    data = context.input(0)
    normal = root_mean_square(context, data, trailing_axes(node, context, data), get_float(node, "epsilon", 1e-5))
    return context.replace(context.op("Mul", normal, context.input(1)))


RMSNormalization = OperatorSpec(
    "RMSNormalization",
    Outputs(same),
    ToRten(rewritings=(rms_normalization,)),
    onnx_loader=OnnxLoader(Row(2, fields=(axis_field(-1), _EPSILON)), {"stash_type": (1,)}, version=23),
)


SimplifiedLayerNormalization = OperatorSpec(
    "SimplifiedLayerNormalization",
    Outputs(elements=unknown),
    ToRten(rewritings=(rms_normalization,)),
    onnx_loader=OnnxLoader(Row(2, fields=(axis_field(-1), _EPSILON)), {"stash_type": (1,)}),
)


@because("Older releases have no LpNormalization, so it becomes a division by the norm")
def lp_normalization(node: Node, context: Context) -> list[Node] | None:
    if context.has("LpNormalization"):
        return None
    data = context.input(0)
    # A norm of zero is replaced by one, so that the result is zero and not NaN.
    length = reduction.norm(context, data, [get_int(node, "axis", -1)], reduction.power_of(node))
    empty = context.op("Equal", length, context.scalar(0, like=data))
    return context.replace(context.op("Div", data, context.op("Where", empty, context.scalar(1, like=data), length)))


LpNormalization = OperatorSpec(
    "LpNormalization",
    Outputs(same),
    ToRten(
        Row(1, 1, "LpNormalizationAttrs", (axis_field(-1), Field("p", int, 2, minimum=0)), since=RTEN_0_26),
        rewritings=(lp_normalization,),
    ),
)


_FOUR_AXES: Final = Deviation("without axes, RTen stops if the data do not have four axes", RARE)
_ALL_EQUAL: Final = Deviation(
    "if all numbers are equal, onnxruntime divides by zero, but ONNX and RTen return zero", RARE
)


def mean_variance_normalization(node: Node, context: Context) -> list[Node] | None:
    """Write it as (x - mean) / (deviation + 1e-9), as its function in ONNX does.

    The variance is the mean of squared differences. ONNX's function subtracts two means. Without rounding, this is the
    same, but with rounding it loses all digits if the mean is large.
    """
    op = context.op
    data = context.input(0)
    if attribute_named(node, "axes") is None and context.rank(data) is None:
        context.report(_FOUR_AXES)
    axes = context.int64([0, 2, 3] if attribute_named(node, "axes") is None else get_ints(node, "axes") or ())
    centred = op("Sub", data, op("ReduceMean", data, axes, keepdims=1))
    squares = op("Mul", centred, centred)
    variance = op("ReduceMean", squares, axes, keepdims=1)
    deviation = op("Add", op("Sqrt", variance), context.scalar(1e-9, like=data))
    context.report(_ALL_EQUAL, is_defined=False)
    return context.replace(op("Div", centred, deviation))


MeanVarianceNormalization = OperatorSpec(
    "MeanVarianceNormalization", Outputs(same), ToRten(rewritings=(mean_variance_normalization,))
)


_SUMMED_NAN: Final = Deviation("with NaN or infinities, the order of sums decides which elements are NaN", SPECIAL)


def lrn(node: Node, context: Context) -> list[Node] | None:
    """Write it with an AveragePool of squares along the channels."""
    op = context.op
    data, size = context.input(0), get_int(node, "size", 1)
    context.report(_SUMMED_NAN, is_defined=False)
    rank, dims = context.known_rank(data), context.dims(data) or ()
    squares = op("Mul", data, data)
    may_be_empty = not all(isinstance(dim, int) and dim > 0 for dim in dims[1:])
    if may_be_empty:  # RTen stops if a window does not fit, so each axis is longer by one
        squares = op("Pad", squares, [0] * (rank + 1) + [1] * (rank - 1))
    batch, channels = shape.sizes_of(context, squares, 0, 1), shape.sizes_of(context, squares, 1, 2)
    places = shape.size_of(context, squares, 2, rank)
    # The channels become the rows of one plane, over which a window of `size` rows and one column moves.
    plane = op("Reshape", squares, shape.joined(context, batch, context.int64([1]), channels, places), allowzero=1)
    before = (size - 1) // 2  # ONNX puts the larger half behind the channel
    mean = op(
        "AveragePool",
        plane,
        kernel_shape=[size, 1],
        pads=[before, 0, size - 1 - before, 0],
        strides=[1, 1],
        count_include_pad=1,
    )
    whole = op("Reshape", mean, op("Shape", squares), allowzero=1)  # the dims of the data
    if may_be_empty:
        axes = range(1, rank)
        ends = shape.sizes_of(context, data, 1, rank)
        whole = op("Slice", whole, context.int64([0 for _ in axes]), ends, context.int64(axes))
    scaled = op("Mul", whole, context.scalar(get_float(node, "alpha", 1e-4), like=data))
    shifted = op("Add", scaled, context.scalar(get_float(node, "bias", 1.0), like=data))
    divisor = op("Pow", shifted, context.scalar(get_float(node, "beta", 0.75), like=data))
    return context.replace(op("Div", data, divisor))


LRN = OperatorSpec("LRN", Outputs(same), ToRten(rewritings=(lrn,)))


def negative_log_likelihood(node: Node, context: Context) -> list[Node] | None:
    """Write it as the sum or mean of the weighted log-likelihoods of the targets."""
    op = context.op
    data, target, weight = context.input(0), context.input(1), context.optional(2)
    factors, second_axis = "", context.int64([1])
    counted = ignored = ""
    if attribute_named(node, "ignore_index") is not None:
        ignored = op("Equal", target, context.scalar(get_int(node, "ignore_index"), like=target))
        target = op("Where", ignored, context.scalar(0, like=target), target)
        counted = context.cast(op("Not", ignored), context.elem_type(data) or FLOAT)
        factors = counted
    if weight:
        factors = op("Gather", weight, target, axis=0)  # samples, ...
        factors = op("Mul", factors, counted) if counted else factors
    picked = op("GatherElements", data, op("Unsqueeze", target, second_axis), axis=1)  # samples, 1, ...
    loss = op("Neg", op("Squeeze", picked, second_axis))  # samples, ...
    loss = op("Mul", loss, factors) if weight else loss
    if counted:  # by a choice, because zero times infinity is NaN
        loss = op("Where", ignored, context.scalar(0, like=data), loss)
    combined = get_string(node, "reduction", "mean")
    if combined == "none":
        return context.replace(loss)
    if combined == "mean" and not factors:
        return context.replace(op("ReduceMean", loss, keepdims=0))
    total = op("ReduceSum", loss, keepdims=0)
    if combined == "mean":
        total = op("Div", total, op("ReduceSum", factors, keepdims=0))
    return context.replace(total)


NegativeLogLikelihoodLoss = OperatorSpec(
    "NegativeLogLikelihoodLoss", Outputs(elements=unknown), ToRten(rewritings=(negative_log_likelihood,))
)


def softmax_cross_entropy(node: Node, context: Context) -> list[Node] | None:
    """Write it as NegativeLogLikelihoodLoss of LogSoftmax, which is the second output."""
    scores = context.op("LogSoftmax", context.input(0), axis=1)
    loss = context.copy([scores, *node.input[1:]], "NegativeLogLikelihoodLoss")
    return context.replace(loss, scores)


SoftmaxCrossEntropyLoss = OperatorSpec(
    "SoftmaxCrossEntropyLoss", Outputs(elements=unknown), ToRten(rewritings=(softmax_cross_entropy,))
)
