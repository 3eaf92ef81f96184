"""Convolutions, transposed convolutions, and operators that are computed as convolutions."""

from __future__ import annotations

from math import prod

from formats.ir.attributes import attribute_named, get_int, get_ints, get_string
from formats.ir.dtypes import FLOAT
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.operators import activation, padding, shape
from formats.rten.operators.rules import SPREAD
from formats.rten.operators.window import (
    LISTS_OMITTED,
    PADDING,
    VOLUME_AXES,
    Window,
    differs,
    explicit_pads,
    flat_window,
    kernel_of,
    kernel_shape,
    part_of_window,
    planes_added_up,
    positions_along,
    raised_lists,
    window,
    window_attributes,
)
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
    sizes_field,
    unknown,
)
from formats.rten.target import RTEN_0_26, Fault
from formats.rten.types import INT64_MAX
from formats.tensordata.plan import SPECIAL

_GROUPS = Field("groups", int, 1, "group", minimum=0)
CONV = (*PADDING, _GROUPS, sizes_field("strides"), sizes_field("dilations"))
KERNEL_IMPLIED = {"kernel_shape": ANY}  # the weight has the same shape


def conv_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, output channels, and the positions of the window."""
    dims, weight = types[0].dims, types[1].dims
    kernel = kernel_of(node, weight)
    if kernel is None:
        rank = len(dims or weight or ())
        return [(None,) * rank] if rank else []
    spatial = dims[2:] if dims else (None,) * len(kernel)
    geometry = window(node, kernel)
    sizes = [positions_along(size, geometry, axis) for axis, size in enumerate(spatial)]
    return [(dims[0] if dims else None, weight[0] if weight else None, *sizes)]


# The axes of values in the comments below: B samples, D planes, C channels, R rows and S columns; F channels of the
# result, and K planes of the kernel.
MAX_PLANES = 64  # the most planes of a kernel; each plane is a convolution of its own


@because("RTen pads SAME_LOWER as SAME_UPPER, so padding whose size only the run can tell becomes Pad")
def conv_padded_by_size(node: Node, context: Context) -> list[Node] | None:
    geometry = window(node, kernel_shape(node, context))
    is_flat = len(geometry.kernel) < VOLUME_AXES
    if (is_flat and geometry.auto_pad != "SAME_LOWER") or not padding.is_padded_by_size(
        context, geometry, node.input[0]
    ):
        return None
    padded = padding.padded_by_size(context, geometry, node.input[0], 0.0)
    return context.changed([padded, *node.input[1:]], auto_pad=None, pads=[0] * (2 * len(geometry.kernel)))


@because("RTen has no three-dimensional Conv, so it becomes a sum over the planes of the kernel")
def conv_of_volumes(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data, weight, bias = context.input(0), context.input(1), context.optional(2)
    kernel = kernel_shape(node, context)
    if len(kernel) != VOLUME_AXES:
        return None
    if kernel[0] > MAX_PLANES:
        raise Refused(f"has a kernel of {kernel[0]} planes; at most {MAX_PLANES} can be converted")
    geometry = window(node, kernel)
    pads = explicit_pads(context, geometry, data)
    if pads is None:
        raise Refused("pads by SAME_UPPER, but the sizes are unknown", "fix the sizes of the model's inputs")
    if pads[0] or pads[VOLUME_AXES]:
        data = op("Pad", data, [0, 0, pads[0], 0, 0, 0, 0, pads[VOLUME_AXES], 0, 0])
    planes = op("Transpose", data, perm=[0, 2, 1, 3, 4])  # B, D, C, R, S
    attributes = part_of_window(node, geometry._replace(pads=pads), range(1, VOLUME_AXES))
    attributes |= {"pads": [*pads[1:VOLUME_AXES], *pads[VOLUME_AXES + 1 :]], "auto_pad": None}
    # A plane of the kernel meets every `stride`th plane of the data, from its place on: each of these is an image for a
    # convolution with two axes, and the images of all planes of the kernel are added up.
    last, total, met = geometry.extent(0) - 1, "", ""
    for place in range(kernel[0]):
        start = place * geometry.dilations[0]
        end = start - last or INT64_MAX
        bounds = (context.int64([number]) for number in (start, end, 1, geometry.strides[0]))
        met = op("Slice", planes, *bounds)
        # B, planes of the result, C, R, S become images of their own.
        flat = op("Reshape", met, shape.joined(context, context.int64([-1]), shape.sizes_of(context, met, 2, 5)))
        slab = op("Gather", weight, place, axis=2)  # of F, C, K, R, S one plane
        inputs = [flat, slab, bias] if bias and not total else [flat, slab]
        product = context.copy(inputs, **attributes)
        total = op("Add", total, product) if total else product
    target = shape.joined(context, shape.sizes_of(context, met, 0, 2), shape.sizes_of(context, total, 1, 4))
    stacked = op("Reshape", total, target, allowzero=1)  # B, D, F, R, S
    return context.replace(op("Transpose", stacked, perm=[0, 2, 1, 3, 4]))


@because("RTen's defaults are for two spatial axes, so all lists are written")
def conv(node: Node, context: Context) -> list[Node] | None:
    geometry = flat_window(node, kernel_shape(node, context))
    pads = explicit_pads(context, geometry, context.input(0))
    attributes = {**window_attributes(geometry, pads), "dilations": geometry.dilations}
    return context.changed(**attributes) if differs(node, attributes) else None


def convolution_raised(node: Node, context: Context) -> list[Node]:
    """Every list is written: for two axes unless a list has another length, and the kernel's shape if it is known."""
    dims = context.dims(node.input[1]) if len(node.input) > 1 else None
    kernel = () if dims is None else tuple(dim for dim in dims[2:] if isinstance(dim, int))
    is_known = dims is not None and len(kernel) == len(dims) - 2 > 0
    axes = len(get_ints(node, "strides") or (1, 1))
    dilations = get_ints(node, "dilations") or (1,) * axes
    return context.changed(**raised_lists(node, axes), dilations=dilations, kernel_shape=kernel if is_known else None)


MAX_WEIGHTS = 256  # the most weights that are checked; trained layers have more weights, and these are finite


_NO_PADDING = Deviation("the sum omits padding, which is NaN if a weight is NaN or infinite", SPECIAL)


def _weights_unspecified(node: Node, context: Context) -> tuple[Deviation, ...]:
    """What is reported if the weights are constant and few, and some of them are not finite."""
    weight = context.scope.constant(node.input[1])
    if weight is None or weight.data_type != FLOAT or prod(weight.dims) > MAX_WEIGHTS:
        return ()
    is_finite = context.scope.is_finite(node.input[1])
    return () if is_finite else (_NO_PADDING,)


Conv = OperatorSpec(
    "Conv",
    Outputs(conv_dims),
    ToRten(
        Row(3, 1, "ConvAttrs", CONV, KERNEL_IMPLIED),
        rewritings=(conv_padded_by_size, conv_of_volumes, conv),
        is_plain=True,
        unspecified=_weights_unspecified,
    ),
    ToOnnx(rewriting=convolution_raised),
    onnx_loader=OnnxLoader(takes=KERNEL_IMPLIED, omitted=LISTS_OMITTED, pads_alike=True),
)


def conv_transpose_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Batch, output channels, and the size that the windows need."""
    dims, weight = types[0].dims, types[1].dims
    kernel = kernel_of(node, weight)
    rank = len(dims or weight or kernel or ())
    if kernel is None or dims is None or weight is None:
        return [(None,) * rank] if rank else []
    geometry, padding = window(node, kernel), get_ints(node, "output_padding") or (0,) * len(kernel)
    group, channels = get_int(node, "group", 1), weight[1]
    output_shape = get_ints(node, "output_shape")
    sizes: list[Dim] = []
    for axis, size in enumerate(dims[2:]):
        if output_shape:
            sizes.append(output_shape[axis])
        elif not isinstance(size, int):
            sizes.append(None)
        elif geometry.auto_pad.startswith("SAME"):  # ONNX pads so that this is the size
            sizes.append(size * geometry.strides[axis])
        else:
            pads = 0 if geometry.auto_pad == "VALID" else geometry.pads[axis] + geometry.pads[axis + len(kernel)]
            room = geometry.strides[axis] * (size - 1) + padding[axis] + geometry.extent(axis)
            sizes.append(room - pads)
    return [(dims[0], channels * group if isinstance(channels, int) else None, *sizes)]


def _transposed_pads(
    node: Node, context: Context, geometry: Window, data: str
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """The pads of a transposed convolution, `None` for SAME_UPPER, and its output padding."""
    rank = len(geometry.kernel)
    padding = tuple(get_ints(node, "output_padding") or (0,) * rank)
    output_shape = get_ints(node, "output_shape")
    if geometry.auto_pad == "NOTSET" and not output_shape:
        return geometry.pads, padding
    if geometry.auto_pad == "VALID" and not output_shape:
        return (0,) * (2 * rank), padding
    begins, ends = [], []
    for axis in range(rank):
        stride, extent = geometry.strides[axis], geometry.extent(axis)
        if output_shape:
            size = context.static_dims(data, 2)[axis]
            total = stride * (size - 1) + padding[axis] + extent - output_shape[-rank + axis]
        else:
            total = padding[axis] + extent - stride  # for any size, it is multiplied by the stride
        if total < 0 and not output_shape:
            raise Refused("pads by SAME with a stride larger than its window; runtimes give different results for this")
        if total < 0:  # the output is larger than the range of its windows
            padding, total = (*padding[:axis], padding[axis] - total, *padding[axis + 1 :]), 0
        small, large = total // 2, total - total // 2
        begins.append(small if geometry.auto_pad == "SAME_UPPER" else large)
        ends.append(large if geometry.auto_pad == "SAME_UPPER" else small)
    return (*begins, *ends), padding


def _dilated(context: Context, weight: str, geometry: Window) -> str:
    """The weight with zeros between its elements.

    Each element becomes a cell of an axis of its own, which is padded with zeros to the dilation. When the axes are
    merged again, the zeros behind the last element are cut off.
    """
    op = context.op
    context.report(SPREAD)
    outer = shape.sizes_of(context, weight, 0, 2)
    rank = len(geometry.kernel)
    cells = [size for length in geometry.kernel for size in (length, 1)]
    # The axes: C, F, then for each axis of the kernel its length and 1.
    split_up = op("Reshape", weight, shape.joined(context, outer, context.int64(cells)), allowzero=1)
    gaps = [gap for dilation in geometry.dilations for gap in (0, dilation - 1)]
    padded = op("Pad", split_up, [0] * (2 + len(cells)) + [0, 0, *gaps])  # C, F, then for each axis length, dilation
    lengths = [length * dilation for length, dilation in zip(geometry.kernel, geometry.dilations, strict=True)]
    # The axes: C, F, then length * dilation for each axis of the kernel.
    merged = op("Reshape", padded, shape.joined(context, outer, context.int64(lengths)), allowzero=1)
    ends = context.int64(geometry.extent(axis) for axis in range(rank))
    return op("Slice", merged, [0] * rank, ends, range(2, 2 + rank))


_NO_DILATIONS = Fault("ignores the dilations", until=RTEN_0_26)
_SHARED_BIAS = Fault("adds the bias of the first group to all groups", until=RTEN_0_26)


@because("RTen has no three-dimensional ConvTranspose, so it becomes one of planes, whose results are added up")
def conv_transpose_of_volumes(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    data, weight, bias = context.input(0), context.input(1), context.optional(2)
    kernel = kernel_shape(node, context)
    if len(kernel) != VOLUME_AXES:
        return None
    geometry = window(node, kernel)
    pads, more = _transposed_pads(node, context, geometry, data)
    assert pads is not None
    flat = [shape.sizes_of(context, data, axis, axis + 1) for axis in range(5)]
    planes = op("Transpose", data, perm=[0, 2, 1, 3, 4])  # B, D, C, R, S
    count = op("Mul", flat[0], flat[2])
    planes = op("Reshape", planes, shape.joined(context, count, flat[1], *flat[3:]), allowzero=1)  # B * D, C, R, S
    channels, rest = shape.size_of(context, weight, 1, 3), shape.sizes_of(context, weight, 3, 5)
    # Of a weight of C, F, K, R, S it makes C, F * K, R, S.
    slabs = shape.joined(context, shape.sizes_of(context, weight, 0, 1), channels, rest)
    attributes = part_of_window(node, geometry, range(1, VOLUME_AXES)) | {"auto_pad": None, "output_shape": None}
    attributes |= {"pads": [*pads[1:VOLUME_AXES], *pads[VOLUME_AXES + 1 :]], "output_padding": more[1:]}
    products = context.copy([planes, op("Reshape", weight, slabs)], **attributes)  # B * D, F * K, R, S
    rows = shape.sizes_of(context, products, 2, 4)
    kinds = op("Div", shape.sizes_of(context, products, 1, 2), [kernel[0]])  # F
    apart = shape.joined(context, flat[0], flat[2], kinds, context.int64([kernel[0]]), rows)
    products = op("Reshape", products, apart, allowzero=1)  # B, D, F, K, R, S
    sizes = kernel[0], geometry.strides[0], geometry.dilations[0]
    result = planes_added_up(context, products, sizes, (pads[0], pads[VOLUME_AXES], more[0]))  # B, F, D, R, S
    if bias:
        result = op("Add", result, op("Unsqueeze", bias, [1, 2, 3]))
    return context.replace(result)


@because("RTen does not read output_shape, and older releases compute dilations and groups incorrectly")
def conv_transpose(node: Node, context: Context) -> list[Node] | None:
    data, weight, bias = context.input(0), context.input(1), context.optional(2)
    geometry = flat_window(node, kernel_shape(node, context))
    rank = len(geometry.kernel)
    if any(dilation != 1 for dilation in geometry.dilations) and context.target.deviates(_NO_DILATIONS):
        spread = _dilated(context, weight, geometry)
        extents = [geometry.extent(axis) for axis in range(rank)]
        return context.changed([data, spread, bias], kernel_shape=extents, dilations=[1] * rank)
    if bias and get_int(node, "group", 1) > 1 and context.target.deviates(_SHARED_BIAS):
        column = context.op("Unsqueeze", bias, range(1, rank + 1))  # F, 1, ..., 1
        return context.replace(context.op("Add", context.copy([data, weight]), column))
    pads, padding = _transposed_pads(node, context, geometry, data)
    attributes = window_attributes(geometry, pads) | {"dilations": geometry.dilations, "output_padding": padding}
    if attribute_named(node, "output_shape") is None and not differs(node, attributes):
        return None
    return context.changed(without=("output_shape",), **attributes)


@because("RTen does not read output_shape, so an image whose size only the run can tell is cut to that size")
def conv_transpose_to_size(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    output_shape, data, bias = get_ints(node, "output_shape"), context.input(0), context.optional(2)
    kernel = kernel_shape(node, context)
    rank, dims = len(kernel), context.dims(data)
    if not output_shape or (dims is not None and all(isinstance(dim, int) for dim in dims[2:])):
        return None
    whole = context.copy([data, context.input(1)], output_shape=None, auto_pad=None, pads=[0] * (2 * rank))
    sizes, none = context.int64(output_shape[-rank:]), context.int64([0])
    rest = op("Sub", shape.sizes_of(context, whole, 2, 2 + rank), sizes)
    lacking = op("Max", op("Neg", rest), none)  # how much the whole image is too small on each axis
    whole = op("Pad", whole, shape.joined(context, context.int64([0] * (rank + 4)), lacking))
    rest = op("Max", rest, none)
    begins = op("Div", rest, [2])  # the smaller half of what is cut off
    if get_string(node, "auto_pad") != "SAME_UPPER":
        begins = op("Sub", rest, begins)
    ends = op("Add", begins, sizes)
    result = op("Slice", whole, begins, ends, range(2, 2 + rank))
    if bias:
        column = op("Unsqueeze", bias, range(1, rank + 1))  # F, 1, ..., 1
        result = op("Add", result, column)
    return context.replace(result)


_OF_NOTHING = Deviation("if the image has no elements, RTen stops instead of returning the bias", SPECIAL, True)


def _stops_at_nothing(node: Node, context: Context) -> tuple[Deviation, ...]:
    """What is reported if only the run can tell whether the image has elements."""
    dims = context.dims(node.input[0])
    return () if dims is not None and all(isinstance(dim, int) for dim in dims[2:]) else (_OF_NOTHING,)


@because("RTen stops at an image without elements, of which only the bias comes out")
def of_no_elements(node: Node, context: Context) -> list[Node] | None:
    dims = context.dims(context.input(0))
    if dims is None or 0 not in dims[2:]:
        return None
    types = [context.scope.type_of(name) for name in node.input[:2]]
    sizes = [size for size in (conv_transpose_dims(node, context.scope, types)[0] or ())[1:] if isinstance(size, int)]
    if len(sizes) != len(dims) - 1 or min(sizes) < 0:
        raise Refused(
            "has an image without elements, whose result has no known size", "fix the sizes of the model's inputs"
        )
    target = shape.joined(context, shape.sizes_of(context, context.input(0), 0, 1), context.int64(sizes))
    result = context.op("Expand", context.scalar(0, like=context.input(0)), target)
    if bias := context.optional(2):
        column = context.op("Unsqueeze", bias, range(1, len(dims) - 1))
        result = context.op("Add", result, column)
    return context.replace(result)


ConvTranspose = OperatorSpec(
    "ConvTranspose",
    Outputs(conv_transpose_dims),
    ToRten(
        Row(
            3,
            1,
            "ConvTransposeAttrs",
            (
                *PADDING,
                _GROUPS,
                sizes_field("strides"),
                sizes_field("output_padding"),
                sizes_field("dilations", since=RTEN_0_26),
            ),
            KERNEL_IMPLIED,
        ),
        rewritings=(of_no_elements, conv_transpose_to_size, conv_transpose_of_volumes, conv_transpose),
        faults=(_NO_DILATIONS, _SHARED_BIAS),
        unspecified=_stops_at_nothing,
    ),
    ToOnnx(rewriting=convolution_raised),
    onnx_loader=OnnxLoader(takes=KERNEL_IMPLIED, omitted=LISTS_OMITTED),
)


def causal_conv_with_state(node: Node, context: Context) -> list[Node] | None:
    """Write it as Conv over the state and the new data, whose end is the next state."""
    op = context.op
    data, weight, bias, state = context.input(0), context.input(1), context.optional(2), context.optional(3)
    channels, _, kernel = context.static_dims(weight)
    # The state and the data: B, C, kernel - 1 + T.
    whole = op("Concat", state, data, axis=2) if state else op("Pad", data, [0, 0, kernel - 1, 0, 0, 0])
    result = op("Conv", whole, weight, bias, group=channels)  # B, C, T
    if get_string(node, "activation", "none").lower() in ("silu", "swish"):
        result = activation.times_sigmoid(context, result, 1.0)
    start = context.int64([1 - kernel if kernel > 1 else INT64_MAX])
    return context.replace(result, op("Slice", whole, start, [INT64_MAX], [2]))


CausalConvWithState = OperatorSpec(
    "CausalConvWithState", Outputs(elements=unknown), ToRten(rewritings=(causal_conv_with_state,))
)
