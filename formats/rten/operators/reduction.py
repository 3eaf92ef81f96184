"""Operators that reduce an axis, or find the largest elements of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from formats.ir.attributes import attribute_named, get_int, get_ints
from formats.ir.dtypes import BOOL, INT32, INT64
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import UNKNOWN, Dims, Interval, ValueType
from formats.rten.graph.attributes import make_attribute, with_fields
from formats.rten.graph.makers import Makers
from formats.rten.operators import ranges, shape, slicing
from formats.rten.operators.rules import (
    NAN_ORDER,
    always,
    for_outputs,
    multiply,
    normalize,
    promoted,
    reduced,
    same_contents,
    widened,
)
from formats.rten.spec import (
    ANY,
    KEEP_DIMS,
    Deviation,
    DeviationRule,
    Field,
    Folding,
    OnnxLoader,
    OperatorSpec,
    Outputs,
    Rewriting,
    Row,
    ToOnnx,
    ToRten,
    axis_field,
    because,
    of_input,
)
from formats.rten.target import RELEASES, RTEN_0_26, Fault, Release
from formats.rten.types import INT32_LIMITS
from formats.tensordata.plan import RARE, RESULTS, SPECIAL

_REDUCE = (Field("axes", list), KEEP_DIMS, Field("noop_with_empty_axes", bool, 0))


def reduce_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims without the reduced axes, or with 1 in their place."""
    dims = types[0].dims
    keep = get_int(node, "keepdims", 1)
    axes = scope.ints(node.input[1]) if len(node.input) > 1 and node.input[1] else ()
    if axes is not None and not axes:
        if get_int(node, "noop_with_empty_axes"):
            return [dims]
        axes = tuple(range(len(dims or ())))
        if dims is None and not keep:
            return [()]
    return [reduced(dims, axes, keep)]


def _check_floats(context: Context) -> None:
    data = context.input(0)
    if context.is_integer(data):
        raise Refused(f"reduces {context.describe(data)}, but RTen supports only floats", "cast the input to FLOAT")


def _of_each_element(op_type: str | None, context: Context, data: str) -> str:
    """The result of a reduction of a single element."""
    if op_type in ("ReduceL1", "ReduceL2"):
        return context.op("Abs", data)
    if op_type == "ReduceSumSquare":
        return context.op("Mul", data, data)
    if op_type == "ReduceLogSum":
        _check_floats(context)
        return context.op("Log", data)
    return data


@because("RTen's optimiser misreads a reduction of no axes, so it becomes a function of each element")
def reduction(node: Node, context: Context) -> list[Node] | None:
    if changed := shape.vector_axes(node, context):
        return changed
    axes = context.optional(1)
    known_axes = context.scope.ints(axes) if axes else ()
    rank = context.rank(context.input(0))
    if known_axes and rank is not None and not all(-rank <= axis < rank for axis in known_axes):
        raise Refused(f"reduces axes {list(known_axes)} of a value that has {rank} axes")
    flag = attribute_named(node, "noop_with_empty_axes")
    if known_axes is None:
        return None
    if known_axes:
        return context.changed(without=("noop_with_empty_axes",)) if flag is not None else None
    if flag is not None and flag.i:
        return context.replace(_of_each_element(node.op_type, context, context.input(0)))
    if not axes and flag is None:
        return None
    return context.changed([context.input(0)], without=("noop_with_empty_axes",))


def reduction_raised(node: Node, context: Context) -> list[Node]:
    """The axes are an input; where there already is one, RTen looks at nothing else.

    If the data may be empty, axes are counted from the front: onnxruntime then does not reduce along negative axes.
    """
    axes, dims = get_ints(node, "axes"), context.dims(node.input[0])
    known_axes = context.scope.ints(node.input[1]) if context.optional(1) else axes
    if known_axes and dims is not None and _may_be_empty(dims) and min(known_axes) < 0:
        axes = [normalize(axis, len(dims)) for axis in known_axes]
    elif not axes or context.optional(1):
        return context.changed(without=["axes"])
    return context.changed([node.input[0], context.int64(axes or ())], without=["axes"])


def _may_be_empty(dims: Dims | None) -> bool:
    """Whether a value of these dims may have no elements."""
    return dims is None or not all(isinstance(dim, int) and dim > 0 for dim in dims)


_NO_AXES: Final = Deviation("RTen's result without axes depends on its optimiser", RESULTS)


def _reduction_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    axes = context.optional(1)
    if get_int(node, "noop_with_empty_axes") and (not axes or context.dims(axes) in (None, (0,))):
        return (_NO_AXES,)
    return ()


_IN_32_BITS = widened((0,))
_LEFT_AXES: Final = Deviation("if there are no elements, onnxruntime does not reduce negative axes", SPECIAL, True)


def _or_of_nothing(own: DeviationRule | None) -> DeviationRule:
    """A rule for a reduction, and onnxruntime's result for empty tensors."""

    def rule(node: Node, context: Context) -> tuple[Deviation, ...]:
        """What ONNX does not define for one reduction, or what only onnxruntime does."""
        dims, axes = context.dims(node.input[0]), context.optional(1)
        numbers = context.scope.ints(axes) if axes else ()
        is_left = _may_be_empty(dims) and (numbers is None or min(numbers, default=0) < 0)
        return (*(own(node, context) if own else ()), *([_LEFT_AXES] if is_left else []))

    return rule


_OF_REDUCTION = Outputs(reduce_dims)


def _reduction(
    name: str,
    *rewritings: Rewriting,
    outputs: Outputs = _OF_REDUCTION,
    narrow: Rewriting | None = None,
    unspecified: DeviationRule | None = None,
    since: Release = RELEASES[0],
    version: int = 18,
) -> OperatorSpec:
    """The spec of a reduction: what all have, and its own rewritings and rules."""
    to_rten = ToRten(
        Row(2, 1, "ReduceMeanAttrs", _REDUCE, since=since),
        older=(promoted(axes=1),),
        rewritings=(reduction, *rewritings),
        narrow=narrow,
        unspecified=_or_of_nothing(unspecified),
    )
    to_onnx = ToOnnx("Nl", "N", rewriting=reduction_raised, deviations=_reduction_deviations)
    return OperatorSpec(name, outputs, to_rten, to_onnx, OnnxLoader(inputs={"axes": 1}, version=version))


_WRAPPED_TOTAL: Final = Deviation(
    "sums beyond 32 bits wrap in RTen, while onnxruntime may return the greatest number", RARE
)


def _wrapping(totals: Callable[..., Interval]) -> DeviationRule:
    """A rule for sums of INT32 that may be beyond 32 bits, which ONNX does not define. Of 64 bits, it is a `range`."""

    def rule(node: Node, context: Context) -> tuple[Deviation, ...]:
        """What is reported of one sum."""
        types = [context.scope.type_of(name) if name else UNKNOWN for name in node.input]
        if types[0].elem_type != INT32 or Interval(*INT32_LIMITS).holds(totals(node, context.scope, types)):
            return ()
        return (_WRAPPED_TOTAL,)

    return rule


ReduceSum = _reduction(
    "ReduceSum",
    version=13,
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.totals),
    unspecified=_wrapping(ranges.totals),
)


_WRAPPED_SUM: Final = Deviation(
    "sums beyond 32 bits wrap before the division, while onnxruntime may use more bits", RARE
)
_EMPTY_MEAN: Final = Deviation("the mean of no elements is NaN in RTen, and zero in onnxruntime", SPECIAL, True)
_WRAPPED_PRODUCT: Final = Deviation(
    "products beyond 32 bits wrap in RTen, while onnxruntime may return the greatest number", RARE
)


@because("RTen's ReduceMean is only for floats, so integers become a sum and a division")
def reduce_mean(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data = context.input(0)
    if not context.is_integer(data):
        return None
    if context.elem_type(data) == INT32:
        types = [context.scope.type_of(name) if name else UNKNOWN for name in node.input]
        if not Interval(*INT32_LIMITS).holds(ranges.totals(node, context.scope, types)):
            context.report(_WRAPPED_SUM)
    total = op("ReduceSum", *node.input, keepdims=get_int(node, "keepdims", 1))
    results = op("Max", op("Size", total), 1)
    count = op("Div", op("Size", data), results)  # elements of a mean
    count = op("Max", count, 1)  # the mean of nothing is zero in onnxruntime
    elem_type = context.elem_type(data) or INT64
    return context.replace(op("Div", total, context.cast(count, elem_type)))


def _mean_of_nothing(node: Node, context: Context) -> tuple[Deviation, ...]:
    dims, axes = context.dims(node.input[0]), context.optional(1)
    if context.is_integer(node.input[0]):
        return ()
    if dims is not None and axes and (known_axes := context.scope.ints(axes)):
        dims = tuple(dims[axis] for axis in known_axes)
    return (_EMPTY_MEAN,) if _may_be_empty(dims) else ()


ReduceMean = _reduction(
    "ReduceMean",
    reduce_mean,
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.inexact(ranges.of(0))),
    unspecified=_mean_of_nothing,
)


def product_contents(node: Node, scope: Scope, types: list[ValueType]) -> Dims | None:
    """All elements multiplied, for a vector that is completely reduced."""
    elements = same_contents(node, scope, types)
    if elements is None or types[0].dims is None or len(types[0].dims) != 1:
        return None
    return (multiply(elements),)


def _wrapped_product(node: Node, context: Context) -> tuple[Deviation, ...]:
    """Of 64 bits, the report has a `range`."""
    types = [context.scope.type_of(name) if name else UNKNOWN for name in node.input]
    is_held = Interval(*INT32_LIMITS).holds(ranges.elements_multiplied(node, context.scope, types))
    if is_held or types[0].elem_type != INT32:
        return ()
    return (_WRAPPED_PRODUCT,)


ReduceProd = _reduction(
    "ReduceProd",
    outputs=Outputs(reduce_dims, contents=product_contents, range=ranges.elements_multiplied),
    narrow=_IN_32_BITS,
    unspecified=_wrapped_product,
)


@because("RTen has no BOOL, so the extreme of no elements needs a comparison")
def reduce_extremum(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    if context.elem_type(data) != BOOL:
        return None
    extremum = context.copy([context.cast(data, INT32), *node.input[1:]])
    if node.op_type == "ReduceMax":
        return context.replace(context.op("Equal", extremum, context.scalar(1, elem_type=INT32)))
    return context.replace(context.op("Not", context.op("Equal", extremum, context.scalar(0, elem_type=INT32))))


ReduceMax = _reduction(
    "ReduceMax",
    reduce_extremum,
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.of(0)),
    unspecified=NAN_ORDER,
)
ReduceMin = _reduction(
    "ReduceMin",
    reduce_extremum,
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.of(0)),
    unspecified=NAN_ORDER,
)
ReduceL1 = _reduction(
    "ReduceL1",
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.absolute_totals),
    unspecified=_wrapping(ranges.absolute_totals),
)


@because("RTen reduces only floats here, and runtimes round integers differently")
def float_reduction(node: Node, context: Context) -> list[Node] | None:
    """RTen has this reduction of floats only."""
    _check_floats(context)
    return None


ReduceL2 = _reduction("ReduceL2", float_reduction)
ReduceSumSquare = _reduction(
    "ReduceSumSquare",
    narrow=_IN_32_BITS,
    outputs=Outputs(reduce_dims, range=ranges.square_totals),
    unspecified=_wrapping(ranges.square_totals),
)


@because("Older releases have no ReduceLogSum, so it becomes Log of ReduceSum")
def reduce_log_sum(node: Node, context: Context) -> list[Node] | None:
    float_reduction(node, context)
    if context.has("ReduceLogSum"):
        return None
    total = context.op("ReduceSum", *node.input, keepdims=get_int(node, "keepdims", 1))
    return context.replace(context.op("Log", total))


ReduceLogSum = _reduction("ReduceLogSum", reduce_log_sum, since=RTEN_0_26)


def reduce_log_sum_exp(node: Node, context: Context) -> list[Node] | None:
    """Write it as Log, ReduceSum and Exp after subtracting the largest number, so nothing overflows."""
    op = context.op
    float_reduction(node, context)
    if context.has("ReduceLogSumExp"):
        return None
    data, keep = context.input(0), get_int(node, "keepdims", 1)
    largest = op("ReduceMax", *node.input, keepdims=1)  # an infinity would become NaN, so it is not subtracted
    shift = op("Where", op("IsInf", largest), context.scalar(0, like=data), largest)
    grown = op("Exp", op("Sub", data, shift))
    total = op("Log", op("ReduceSum", grown, *node.input[1:], keepdims=keep))
    if not keep:
        shift = op("Reshape", shift, op("Shape", total), allowzero=1)
    return context.replace(op("Add", total, shift))


ReduceLogSumExp = _reduction("ReduceLogSumExp", reduce_log_sum_exp, since=RTEN_0_26)


def arg_reduce_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One axis is reduced."""
    return [reduced(types[0].dims, [get_int(node, "axis")], get_int(node, "keepdims", 1))]


_LAST = Fault("returns the last of equal extremes")


@because("RTen returns the last of equal extremes, so it becomes TopK, which returns the first")
def arg_extremum(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data, axis = context.input(0), get_int(node, "axis")
    dims = reduced(context.dims(data), [axis], get_int(node, "keepdims", 1))
    if nothing := shape.without_elements(context, dims, INT64):  # RTen fails along an axis of size 0
        return context.replace(nothing)
    is_last = get_int(node, "select_last_index")
    if is_last and not context.target.is_onnx:
        return None
    largest = int(node.op_type == "ArgMax")
    if is_last:  # the ONNX loader has no option for this, and other programs do not do it by default
        data = slicing.flipped(context, data, context.int64_scalar(axis))
    index = context.op_outputs("TopK", [data, [1]], 2, axis=axis, largest=largest)[1]
    if is_last:
        length = op("Gather", op("Shape", data), axis)
        index = op("Sub", op("Sub", length, 1), index)
    if get_int(node, "keepdims", 1):
        return context.replace(index)
    return context.replace(op("Squeeze", index, [axis]))


def _arg_unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    """The report for NaN, and for a negative axis where there may be no elements."""
    dims = context.dims(node.input[0])
    left_axes = [_LEFT_AXES] if _may_be_empty(dims) and get_int(node, "axis") < 0 else []
    return (*NAN_ORDER(node, context), *left_axes)


def top_of_one(node: Node, makers: Makers) -> Node | None:
    """ArgMax or ArgMin, from the TopK that it was written with, and from the Squeeze after it."""
    # The Squeeze after it drops the axis of k = 1.
    top = node if node.op_type == "TopK" else makers.maker(node.input[0], "TopK") if node.input else None
    if top is None or len(top.output) < 2 or makers.integers(top.input[1]) != [1] or makers.is_used(top.output[0]):
        return None
    axis, is_squeezed = get_int(top, "axis", -1), top is not node
    if is_squeezed:
        axes = makers.integers(node.input[1]) if node.op_type == "Squeeze" and len(node.input) > 1 else None
        if axes != [axis] or node.input[0] != top.output[1]:
            return None
    operator = "ArgMax" if get_int(top, "largest", 1) else "ArgMin"
    output = node.output[:1] if is_squeezed else top.output[1:]
    attributes = [make_attribute("axis", axis), make_attribute("keepdims", int(not is_squeezed))]
    return with_fields(node, op_type=operator, input=top.input[:1], output=output, attribute=attributes)


def _places_along(context: Context, data: str, axis: int, length: str) -> str:
    """The places 0, 1, ... along an axis of the data, as a value that is broadcast to the data."""
    op, dims = context.op, context.dims(data)
    zero, one = context.int64_scalar(0), context.int64_scalar(1)
    if axis >= 0 and dims is None:  # nobody knows how many axes come after it
        ones = op("Expand", one, op("Shape", data))
        return op("Sub", op("CumSum", ones, axis), one)
    places = op("Range", zero, length, one)  # 0, 1, ... along the axis
    after = -axis - 1 if dims is None else len(dims) - 1 - normalize(axis, len(dims))
    return op("Reshape", places, [-1] + [1] * after) if after else places


def arg_extreme_raised(node: Node, context: Context) -> list[Node] | None:
    """Write nodes that return the last of equal extremes but the first NaN, as RTen does, in every runtime.

    Each element gets a score, and the largest score tells the index. An extreme has its place as its score, all others
    -1. A NaN has twice the length less its place, which is above all places and largest for the first NaN.
    `select_last_index` would be shorter, but RTen's own ONNX loader refuses it.
    """
    op = context.op
    data, axis = context.input(0), get_int(node, "axis")
    dims = context.dims(data)
    size = None if dims is None else dims[axis]
    if size == 1:
        return None
    length = context.int64_scalar(size) if isinstance(size, int) else op("Gather", op("Shape", data), axis, axis=0)
    places = _places_along(context, data, axis, length)
    extreme = op("ReduceMax" if node.op_type == "ArgMax" else "ReduceMin", data, [axis], keepdims=1)  # 1 along the axis
    scores = op("Where", op("Equal", data, extreme), places, -1)
    keep = get_int(node, "keepdims", 1)
    if not context.is_float(data):
        return context.replace(op("ReduceMax", scores, [axis], keepdims=keep))
    twice = op("Add", length, length)  # above the place of any element
    of_nan = op("Sub", twice, places)
    scores = op("Where", op("IsNaN", data), of_nan, scores)
    score = op("ReduceMax", scores, [axis], keepdims=keep)
    return context.replace(op("Min", score, op("Sub", twice, score)))  # of a NaN, its place; of a place, the place


def _arg_spec(name: str, foldings: tuple[Folding, ...] = ()) -> OperatorSpec:
    return OperatorSpec(
        name,
        Outputs(arg_reduce_dims, always(INT64), range=ranges.indices(0)),
        ToRten(
            Row(1, 1, "ArgMaxAttrs", (axis_field(0), KEEP_DIMS), {"select_last_index": ANY}),
            rewritings=(arg_extremum,),
            narrow=widened((0,), ()),
            faults=(_LAST,),
            unspecified=_arg_unspecified,
        ),
        ToOnnx("N", rewriting=arg_extreme_raised, foldings=foldings),
        onnx_loader=OnnxLoader(takes={"select_last_index": (0,)}),
    )


ArgMax = _arg_spec("ArgMax", foldings=(Folding(("TopK", "Squeeze"), top_of_one),))
ArgMin = _arg_spec("ArgMin")


def top_k_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The axis becomes k long, in both outputs."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis", -1), len(dims))
    count = (scope.contents_of(node.input[1]) or (None,))[0]
    return [(*dims[:axis], count, *dims[axis + 1 :])] * 2


TopK = OperatorSpec(
    "TopK",
    Outputs(
        top_k_dims,
        for_outputs(of_input(0), always(INT64)),
        range=ranges.of(0),
        places={1: ranges.indices(-1)},
        sizes=(1,),
    ),
    ToRten(
        Row(2, 2, "TopKAttrs", (axis_field(-1), Field("largest", bool, 1), Field("sorted", bool, 1))),
        older=(promoted(k=1),),
        narrow=widened((0,)),
        unspecified=NAN_ORDER,
    ),
    ToOnnx("Nl", "N", ranks={1: 1}),
    onnx_loader=OnnxLoader(inputs={"k": 1}),
)


def norm(context: Context, data: str, axes: list[int], power: int) -> str:
    """The L1 or L2 norm over some axes, which stay as 1."""
    if power not in (1, 2):
        raise Refused(f"has p = {power}, but RTen supports only 1 and 2")
    return context.op("ReduceL1" if power == 1 else "ReduceL2", data, context.int64(axes), keepdims=1)


def power_of(node: Node) -> int:
    """The attribute `p`, which was a float in operator set 1."""
    attribute = attribute_named(node, "p")
    if attribute is None:
        return 2
    value = attribute.i if attribute.f is None else attribute.f
    return int(value or 0)
