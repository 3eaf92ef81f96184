"""Images resized and sampled: RTen's kernel is used if it has an option for the case; otherwise other operators are.

With fixed sizes, any interpolation is a matrix along each axis. If each row has one element, the elements are gathered.
Otherwise the data are multiplied by the matrix.

Spec: ONNX, Operators.md, Resize.
"""

from __future__ import annotations

from functools import partial, reduce
from math import floor, frexp

from formats.ir.attributes import attribute_named, get_float, get_floats, get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT, INT32, numpy_dtype
from formats.ir.model import Node
from formats.rten.convert import budget
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, Interval, ValueType
from formats.rten.operators import ranges, shape
from formats.rten.operators.rules import normalize, of_floats
from formats.rten.operators.sampling import Axis, Line, Sampler, extrapolated, kernel_of_resize, ratio_of, resized_along
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
    unknown,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.tensordata.plan import RARE, RESULTS, SPECIAL

_RESIZE_MODE = {"nearest": "Nearest", "linear": "Linear"}
_COORDINATES = {
    "half_pixel": "HalfPixel",
    "asymmetric": "Asymmetric",
    "align_corners": "AlignCorners",
    "pytorch_half_pixel": "PytorchHalfPixel",
}
_NEAREST = {
    "floor": "Floor",
    "ceil": "Ceil",
    "round_prefer_floor": "RoundPreferFloor",
    "round_prefer_ceil": "RoundPreferCeil",
}


@budget.without_warnings
def scaled_size(size: int, scale: float) -> int:
    """The output size for a scale, computed in the precision that runtimes use for it."""
    import numpy

    return int(numpy.floor(numpy.float32(size) * numpy.float32(scale)))


def _scaled_dim(dim: Dim, scale: float) -> Dim:
    if isinstance(dim, int):
        return scaled_size(dim, scale)
    return dim if scale == 1 else None


def resize_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The given sizes, or the dims times the scales, rounded down."""
    dims = types[0].dims
    if dims is None:
        return []
    unknown: list[Dims | None] = [(None,) * len(dims)]
    if get_ints(node, "axes") or get_string(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return unknown
    sizes = scope.contents_of(node.input[3]) if len(node.input) > 3 and node.input[3] else None
    if sizes:
        return [sizes]
    scales = scope.numbers(node.input[2]) if len(node.input) > 2 and node.input[2] else None
    if not scales or len(scales) != len(dims):
        return unknown
    return [tuple(_scaled_dim(dim, scale) for dim, scale in zip(dims, scales, strict=True))]


@because("In operator set 10, Resize had no attributes for coordinates and rounding")
def resize_10(node: Node, context: Context) -> list[Node] | None:
    if context.version >= 11:
        return None
    data, scales = context.input(0), context.input(1)
    factors = context.scope.numbers(scales)
    mode = get_string(node, "mode", "nearest") or "nearest"
    modes = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    shrinks = factors is None or any(factor < 1 for factor in factors)
    grows = factors is None or any(factor > 1 for factor in factors)
    if mode == "nearest" and shrinks and grows:
        one = context.scalar(1.0)
        more, less = (context.op(operator, scales, one) for operator in ("Max", "Min"))
        if factors is not None:
            more, less = (context.array([limit(factor, 1.0) for factor in factors]) for limit in (max, min))
        data, scales = context.op("Resize", data, "", more, nearest_mode="floor", **modes), less
    return context.replace(context.op("Resize", data, "", scales, nearest_mode="ceil" if shrinks else "floor", **modes))


def _scales(context: Context) -> str:
    """The scales, or an empty name where they are omitted or empty."""
    name = context.optional(2)
    return "" if not name or context.dims(name) == (0,) else name


def _axes(node: Node, context: Context) -> list[Axis] | None:
    """How each axis is resized, as far as it is known; `None` if the number of axes is unknown."""
    dims, scales, sizes = context.dims(context.input(0)), _scales(context), context.optional(3)
    roi = context.scope.numbers(context.optional(1)) if context.optional(1) else None
    factors = context.scope.numbers(scales) if scales else None
    count = context.dims(scales or sizes)
    rank = len(dims) if dims is not None else count[0] if count else None
    if not isinstance(rank, int):
        return None
    before = dims or (None,) * rank
    after = (context.scope.contents_of(sizes) if not scales else None) or (None,) * rank
    result = []
    for axis in range(rank):
        scale = factors[axis] if factors else None
        size = _scaled_dim(before[axis], scale) if scale is not None else after[axis]
        start, end = (roi[axis], roi[rank + axis]) if roi else (0.0, 1.0)
        result.append(Axis(before[axis], size, scale, start, end))
    return result


NATIVE_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
NATIVE_MODES = ("nearest", "linear")


def _is_spoken(node: Node) -> bool:
    """Whether RTen has options for the attributes."""
    return (
        get_string(node, "coordinate_transformation_mode", "half_pixel") in NATIVE_COORDINATES
        and get_string(node, "mode", "nearest") in NATIVE_MODES
        and not get_int(node, "antialias")
    )


NATIVE_RANK = 4
NATIVE_AXES = 2  # that may change, counted from the end


_RATIO = Fault("uses the ratio of the sizes instead of the given scale", until=RTEN_0_26)
_ONE_CORNER = Fault("divides by zero for align_corners with a single output", until=RTEN_0_26)


def _has_corners(axes: list[Axis]) -> bool:
    """Whether RTen never divides by a number of steps that is zero. For images, unchanged axes count, too."""
    sizes = [axis.after for axis in axes[-NATIVE_AXES:]]
    is_line = len(axes) == NATIVE_RANK - 1 and axes[1].before in (None, axes[1].after)  # it is treated as a row
    return len(axes) > 1 and not is_line and all(isinstance(size, int) and size != 1 for size in sizes)


_TIES = Fault("may choose another element halfway between two")
HALF = 0.5  # the significand of a power of two
LARGEST_SCALE = 6  # up to this whole scale, RTen and onnxruntime choose the same elements


def _has_no_ties(axis: Axis) -> bool:
    """Whether RTen's coordinates, for which it divides in another order, choose the same elements as onnxruntime's."""
    scale = axis.scale
    if scale is None and isinstance(axis.before, int) and isinstance(axis.after, int) and axis.before:
        scale = axis.after / axis.before
    if not scale:
        return scale == 0
    return scale in range(1, LARGEST_SCALE + 1) or frexp(scale)[0] == HALF


def _is_native(node: Node, context: Context, axes: list[Axis] | None) -> bool:
    """Whether RTen's kernel computes the same."""
    if not _is_spoken(node):
        return False
    deviates, has_scales = context.target.deviates, bool(_scales(context))
    is_aligned = get_string(node, "coordinate_transformation_mode", "half_pixel") == "align_corners"
    if axes is None:
        needs = (_ONE_CORNER,) if is_aligned else (_RATIO,) if has_scales else ()
        return not any(map(deviates, needs))
    resized = [place for place, axis in enumerate(axes) if axis.is_resized]
    # Those of which something is known are resized for certain; the others may be.
    certain = [place for place in resized if any(isinstance(number, int | float) for number in axes[place][:3])]
    if resized and len(axes) > NATIVE_RANK:
        return False
    if certain and min(certain) < len(axes) - NATIVE_AXES:
        return False
    is_nearest = get_string(node, "mode", "nearest") == "nearest"
    if is_nearest and not is_aligned and not all(map(_has_no_ties, map(axes.__getitem__, resized))):
        return False
    is_open = axes[0].scale is None if has_scales else context.scope.contents_of(context.optional(3)) is None
    if is_open and len(axes) > NATIVE_AXES:  # any axis may change
        return False
    if is_aligned:  # this needs no scale
        return is_nearest or not deviates(_ONE_CORNER) or _has_corners(axes)
    if not has_scales or not deviates(_RATIO):
        return True
    return all(axis.scale is not None and axis.is_whole is True for axis in map(axes.__getitem__, resized))


def _element(context: Context, vector: str, place: int) -> str:
    """One element of a vector, a scalar of type FLOAT."""
    return context.cast(context.op("Gather", vector, place, axis=0), FLOAT)


def _line(context: Context, place: int, rank: int, axis: Axis, ratio: str) -> Line:
    """One axis whose sizes only a run tells; `ratio` is a scale for which the sizes are rounded."""
    scales, sizes, region = _scales(context), context.optional(3), context.optional(1)
    before = _element(context, shape.sizes_of(context, context.input(0), place, place + 1), 0)
    if ratio or scales:
        scale = ratio or (context.scalar(axis.scale) if axis.scale is not None else _element(context, scales, place))
        after = context.op("Mul", before, scale)
        after = context.op("Add", after, 0.5) if ratio else after
        after = context.op("Floor", after)
    else:
        after = _element(context, sizes, place)
        scale = ratio_of(context, after, before)
    if region and context.scope.numbers(region) is None:
        return Line(before, after, scale, *(_element(context, region, at) for at in (place, rank + place)))
    return Line(before, after, scale, context.scalar(axis.start), context.scalar(axis.end))


def _is_kept(context: Context, axes: list[Axis], ratio: str) -> str:
    """Whether no size changes, as a value; empty if a scale moves no elements of data that keep their sizes.

    Runtimes copy such data, whatever the scales are.
    """
    resized = [(place, axis) for place, axis in enumerate(axes) if axis.is_resized]
    changes = [isinstance(axis.before, int) and isinstance(axis.after, int) and axis.before != axis.after
               for _, axis in resized]  # fmt: skip
    has_ratio = bool(ratio or _scales(context))
    if any(changes) or not has_ratio or all(axis.scale and axis.scale == int(axis.scale) for _, axis in resized):
        return ""
    lines = [_line(context, place, len(axes), axis, ratio) for place, axis in resized]
    same = [context.op("Equal", line.before, line.after) for line in lines]
    return reduce(partial(context.op, "And"), same)


def _written_out(node: Node, context: Context, axes: list[Axis], ratio: str = "") -> list[Node]:
    """Each axis in turn gathered from, or multiplied with a matrix."""
    kernel, rank, value = kernel_of_resize(node), len(axes), get_float(node, "extrapolation_value")
    is_region_known = not context.optional(1) or context.scope.numbers(context.optional(1)) is not None
    data, fixed, samplers = context.input(0), {}, {}
    if all(axis.before is not None and axis.before == axis.after for axis in axes) and not kernel.is_cropping:
        return context.replace(data)  # no size changes, and then runtimes move no elements
    is_kept = "" if kernel.is_cropping else _is_kept(context, axes, ratio)
    for place, axis in enumerate(axes):
        is_whole = not kernel.is_cropping or (is_region_known and (axis.start, axis.end) == (0, 1))
        if not axis.is_resized and is_whole:
            continue
        is_known = isinstance(axis.before, int) and isinstance(axis.after, int)
        if is_known and not is_kept and (is_region_known or not kernel.is_cropping):
            data, fixed[place] = resized_along(context, data, place, rank, axis, kernel), axis
        else:
            samplers[place] = Sampler(context, kernel, _line(context, place, rank, axis, ratio), is_kept)
            data = samplers[place].along(data, place, rank)
    if kernel.is_cropping:
        data = extrapolated(context, data, [fixed.get(place, Axis(1, 1, 1)) for place in range(rank)], value)
        for place, sampler in samplers.items():
            data = sampler.extrapolated(data, place, rank, value)
    return context.replace(data)


_CHOICES = ("axes", "keep_aspect_ratio_policy")


def _of_all(context: Context, vector: str, axes: list[int], others: list[str]) -> str:
    """A vector with an element for each axis; the elements of some axes are given."""
    parts = list(others)
    for place, axis in enumerate(axes):
        parts[axis] = context.op("Slice", vector, [place], [place + 1])
    return context.op("Concat", *parts, axis=0)


def _of_one_ratio(
    node: Node, context: Context, axes: list[int], region: str, ends: list[tuple[float, float]]
) -> list[Node]:
    """Some axes resized by one ratio: that of the axis that grows least or most. The ends are those of a region."""
    op = context.op
    data, sizes = context.input(0), context.optional(3)
    dims, known_sizes = context.dims(data) or (None,) * len(ends), context.scope.ints(sizes)

    def resized_by(ratio: float | None) -> list[Axis]:
        return [
            Axis(
                size,
                floor(ratio * size + 0.5) if ratio is not None and isinstance(size, int) else None,
                ratio,
                *ends[axis],
            )
            if axis in axes
            else Axis(size, size, 1)
            for axis, size in enumerate(dims)
        ]

    is_most = get_string(node, "keep_aspect_ratio_policy") == "not_smaller"
    known_dims = [size for size in (dims[axis] for axis in axes) if isinstance(size, int)]
    if known_sizes is not None and len(known_dims) == len(axes):
        ratios = [size / before for size, before in zip(known_sizes, known_dims, strict=True)]
        resized = resized_by(max(ratios) if is_most else min(ratios))
        is_ratio = all(axis.is_whole is not False for axis in resized)  # the node only has the sizes, not the scale
        if not is_ratio or not _is_native(node, context, resized):
            return _written_out(node, context, resized)
        parts = [shape.sizes_of(context, data, axis, axis + 1) for axis in range(len(dims))]
        for axis in axes:
            parts[axis] = context.int64([resized[axis].sizes[1]])
        return context.changed([data, region, "", shape.joined(context, *parts)], without=_CHOICES)
    before = op("Gather", op("Shape", data), context.int64(axes), axis=0)
    quotients = op("Div", context.cast(sizes, FLOAT), context.cast(before, FLOAT))  # one for each axis
    ratio = op("ReduceMax" if is_most else "ReduceMin", quotients, keepdims=0)  # a scalar
    return _written_out(node, context, resized_by(None), ratio)


def _with_all_axes(node: Node, context: Context) -> list[Node]:
    """The node with scales or sizes for every axis; where a policy chooses these, it uses the scale that it chose."""
    data, scales, sizes = context.input(0), _scales(context), context.optional(3)
    rank = context.known_rank(data)
    attribute = get_ints(node, "axes")
    axes = list(range(rank)) if attribute is None else [normalize(axis, rank) for axis in attribute]
    region, starts, ends = context.optional(1), [0.0] * rank, [1.0] * rank
    roi = context.scope.numbers(region) if region else None
    if roi:
        for place, axis in enumerate(axes):
            starts[axis], ends[axis] = roi[place], roi[len(axes) + place]
        region = context.array(starts + ends)  # all starts, then all ends
    elif region:
        first, last = context.array([0.0]), context.array([1.0])
        places = [*axes, *(axis + rank for axis in axes)]
        region = _of_all(context, region, places, [first] * rank + [last] * rank)
    if scales:
        factors = context.scope.numbers(scales)
        if factors is None:
            of_all_axes = _of_all(context, scales, axes, [context.array([1.0])] * rank)
        else:
            spread = dict(zip(axes, factors, strict=True))  # the scale of each named axis
            of_all_axes = context.array([spread.get(axis, 1.0) for axis in range(rank)])
        return context.changed([data, region, of_all_axes], without=_CHOICES)
    if get_string(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        if region and not roi:
            raise Refused("has a region of interest that is known only when the model runs", "make it constant")
        return _of_one_ratio(node, context, axes, region, list(zip(starts, ends, strict=True)))
    known_sizes = context.scope.ints(sizes)
    before = [shape.sizes_of(context, data, axis, axis + 1) for axis in range(rank)]
    if known_sizes is not None:
        size_of = dict(zip(axes, known_sizes, strict=True))  # of each named axis
        parts = [context.int64([size_of[axis]]) if axis in size_of else before[axis] for axis in range(rank)]
        of_all_axes = shape.joined(context, *parts)
    else:
        of_all_axes = _of_all(context, sizes, axes, before)
    return context.changed([data, region, "", of_all_axes], without=_CHOICES)


_MOST_OF_FLOAT = 1 << 24  # FLOAT has every integer up to it
_IN_FLOAT = Deviation("integers beyond 24 bits are rounded, since RTen resizes only floats", RARE)
_CUT_OFF = Deviation("an interpolated integer may differ by one from onnxruntime's: its fraction is cut off", RARE)


def _of_integers(node: Node, context: Context, data: str) -> list[Node]:
    """A Resize of floats, whose fractions are cut off, as in onnxruntime (1.32, asked for each type and mode)."""
    mode = get_string(node, "mode", "nearest")
    if mode == "cubic" or get_int(node, "antialias"):  # onnxruntime has no such Resize of integers, or a broken one
        raise Refused(f"resizes {context.describe(data)}, but RTen supports only floats", "cast the input to FLOAT")
    if mode == "linear":
        context.report(_CUT_OFF)
    if not Interval(-_MOST_OF_FLOAT, _MOST_OF_FLOAT).holds(context.scope.range_of(data)):
        context.report(_IN_FLOAT)
    resized = context.copy([context.cast(data, FLOAT), *node.input[1:]])
    return context.replace(context.cast(resized, context.elem_type(data) or INT32))


@because("RTen's Resize computes only some forms as ONNX defines; others become MatMul or Gather")
def resize(node: Node, context: Context) -> list[Node] | None:
    data = context.input(0)
    if context.is_integer(data):
        return _of_integers(node, context, data)
    if get_ints(node, "axes") is not None or get_string(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return _with_all_axes(node, context)
    axes = _axes(node, context)
    if _is_native(node, context, axes):
        return None
    if axes is None:
        raise Refused("resizes a value of unknown rank", "infer the model's shapes first")
    return _written_out(node, context, axes)


_RATIO_DEVIATION = Deviation(_RATIO.sentence, RESULTS)
_ONE_CORNER_DEVIATION = Deviation(_ONE_CORNER.sentence, RESULTS)


def _resize_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    if not _is_spoken(node) or _is_native(node, context, _axes(node, context)):
        return ()
    is_aligned = get_string(node, "coordinate_transformation_mode", "half_pixel") == "align_corners"
    return (_ONE_CORNER_DEVIATION if is_aligned else _RATIO_DEVIATION,)


_BESIDE_INFINITY = Deviation(
    "next to an infinity, RTen's interpolation may be NaN where onnxruntime's is infinite", SPECIAL
)
_OF_FLOATS = of_floats(_BESIDE_INFINITY)


def _resized_range(node: Node, scope: Scope, types: list[ValueType]) -> Interval:
    """Between the elements, unless a curve goes beyond them."""
    return ranges.UNBOUNDED if get_string(node, "mode", "nearest") == "cubic" else scope.range_of(node.input[0])


def resize_raised(node: Node, context: Context) -> list[Node]:
    """RTen takes an empty tensor for an omitted one, scales before sizes, and has no use for regions."""
    data, scales, sizes = node.input[0], context.optional(2), context.optional(3)
    count = next(iter(context.dims(scales) or ()), None)
    if scales and (not sizes or (isinstance(count, int) and count > 0)):
        return context.changed([data, "", scales])
    return context.changed([data, "", "", sizes])


Resize = OperatorSpec(
    "Resize",
    Outputs(resize_dims, range=_resized_range, sizes=(3,)),
    ToRten(
        Row(
            4,
            1,
            "ResizeAttrs",
            (
                Field("mode", str, "nearest", choices=_RESIZE_MODE),
                Field("coord_mode", str, "half_pixel", "coordinate_transformation_mode", choices=_COORDINATES),
                Field("nearest_mode", str, "round_prefer_floor", choices=_NEAREST),
            ),
            {
                "antialias": (0,),
                "cubic_coeff_a": ANY,
                "exclude_outside": (0,),
                "extrapolation_value": ANY,  # of tf_crop_and_resize, which RTen does not have
                "keep_aspect_ratio_policy": ("stretch",),
            },
        ),
        older=(resize_10,),
        rewritings=(resize,),
        faults=(_RATIO, _ONE_CORNER, _TIES),
        unspecified=lambda node, context: _OF_FLOATS(node, context) if get_string(node, "mode") == "linear" else (),
    ),
    ToOnnx("xxxl", rewriting=resize_raised, deviations=_resize_deviations),
    onnx_loader=OnnxLoader(
        takes={
            "antialias": (0,),
            "cubic_coeff_a": (-0.75,),
            "exclude_outside": (0,),
            "extrapolation_value": (0.0,),
            "keep_aspect_ratio_policy": ("stretch",),
        }
    ),
)


def upsample(node: Node, context: Context) -> list[Node] | None:
    """Write it as Resize; before operator set 9, the scales were attributes."""
    import numpy

    data, scales = context.input(0), context.optional(1)
    attribute = get_floats(node, "scales")
    if attribute is None and attribute_named(node, "height_scale") is not None:
        attribute = [1.0, 1.0, get_float(node, "height_scale"), get_float(node, "width_scale")]  # operator set 1
    if attribute is not None:
        scales = context.array(numpy.array(attribute, dtype=numpy_dtype(FLOAT)))
    mode = get_string(node, "mode", "nearest")
    return context.replace(
        context.op(
            "Resize",
            data,
            "",
            scales,
            mode="linear" if mode in ("bilinear", "linear") else mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    )


def upsample_raised(node: Node, context: Context) -> list[Node]:
    """A resizing that starts at the corner and rounds down."""
    data, scales = node.input
    mode = get_string(node, "mode")
    attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return context.replace(context.op("Resize", data, "", scales, mode=mode, **attributes))


Upsample = OperatorSpec(
    "Upsample",
    Outputs(elements=unknown),
    ToRten(Row(2, 1, "UpsampleAttrs", (Field("mode", str, "nearest", choices=_RESIZE_MODE),)), older=(upsample,)),
    ToOnnx("N", "N", rewriting=upsample_raised),
)
