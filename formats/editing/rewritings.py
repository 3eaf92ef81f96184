"""How a node is written in the version of its operator next to its own, where the text of the node must change.

Each function takes a node of one version and adds what it becomes to a form. `..._up` makes the newer form of the
older one, `..._down` the older one of the newer. Where there is no other form,
it raises NoFormError with the reason.

Spec: ONNX docs, Changelog.md, each version compared with the one before it; Operators.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from formats.editing.node_forms import CONSTANT_FIELDS, NoFormError, constant_of_node
from formats.ir import dtypes
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from formats.editing.node_forms import LoneNode, NodeForm

    Rewriting: TypeAlias = Callable[[LoneNode, NodeForm], None]

FROM_THE_END: Final = "before version 11, no axis counts from the end"
INDICES: Final = "a negative index counts from the end, which {} does not define before version 11"
EMPTY: Final = "empty tensors may get another shape, because Reshape writes no dims of zero before version 14"
EVEN: Final = "its last part may be smaller than the others, which Split cannot do before version 18"
PLACES: Final = "before version 11, ONNX does not say which places of its input it reads"
SCAN: Final = "before version 9, Scan has an axis for batches, and nothing converts it"
TRAINING: Final = "Dropout drops elements in training before version 7; here it drops none, as in all runtimes"
MASK: Final = (
    "before version 12, ONNX does not say what the mask of a Dropout is that drops nothing; from it on it is true"
)
IN_TRAINING: Final = "it is in training mode, where each run computes something else"


def unchanged(old: LoneNode, new: NodeForm) -> None:
    """The node means the same."""
    new.keep()


def refused(reason: str) -> Rewriting:
    """The node has no other form."""

    def refuse(old: LoneNode, new: NodeForm) -> None:
        raise NoFormError(reason)

    return refuse


def in_order(*rewritings: Rewriting) -> Rewriting:
    """Checks, and then the one rewriting that writes the node."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        for rewriting in rewritings:
            rewriting(old, new)

    return rewrite


def dropped(*names: str) -> Rewriting:
    """The node without attributes that say nothing."""
    return lambda old, new: new.keep(drop=names)


def without_ones(name: str) -> Rewriting:
    """The node without a list of ones, which means the same as none."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        new.keep(drop=[name] if all(number == 1 for number in old.value(name, [])) else ())

    return rewrite


def with_default(*drop: str, **attributes: Any) -> Rewriting:
    """The node with these attributes where it leaves them out, because their defaults differ."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        new.keep(drop=drop, **{name: value for name, value in attributes.items() if old.attribute(name) is None})

    return rewrite


def only(name: str, *values: str, since: int) -> Rewriting:
    """Refuse values of an attribute that only the newer version has."""

    def check(old: LoneNode, new: NodeForm) -> None:
        if (value := old.value(name, values[0])) not in values:
            raise NoFormError(f"before version {since}, its {name} cannot be {value!r:.80}")

    return check


def constant_of(old: LoneNode, index: int, what: str) -> Any:
    """The elements of an input, as a list. Raises: NoFormError if it is no constant."""
    value = old.constant(old.input(index))
    if value is None:
        raise NoFormError(f"its {what} is an attribute in the older version, and here no constant")
    return value.ravel().tolist()


# Attributes that became inputs


def inputs_of(*names: str, drop: Sequence[str] = ()) -> Rewriting:
    """Attributes of integers, or of one number of the type of the data, become inputs behind the data."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        inputs = [old.input(0)]
        for name in names:
            value = old.value(name)
            if value is None:
                inputs.append("")
            elif isinstance(value, float):
                inputs.append(new.constant(value, _data_type(old).number, name))
            else:
                is_list = isinstance(value, list)
                of_floats = is_list and any(isinstance(each, float) for each in value)
                kind = dtypes.FLOAT if of_floats else dtypes.INT64
                inputs.append(new.constant([*value] if is_list else [value], kind, name))
        new.keep(inputs=inputs, drop=[*names, *drop])

    return rewrite


def attributes_of(*names: str, single: Sequence[str] = ()) -> Rewriting:
    """Constant inputs behind the data become attributes, those of `single` with one number."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        attributes: dict[str, Any] = {}
        for index, name in enumerate(names, 1):
            if not old.input(index):
                continue
            value = constant_of(old, index, name)
            if name in single and len(value) != 1:
                raise NoFormError(f"its {name} has {len(value)} elements")
            if name in single:
                value = int(value[0]) if name == "k" else float(value[0])
            if value != []:
                attributes[name] = value
        new.keep(inputs=[old.input(0)], **attributes)

    return rewrite


def _data_type(old: LoneNode) -> dtypes.DataType:
    row = old.elem_type(old.input(0))
    if row is None:
        raise NoFormError("an attribute becomes an input of the type of its data, which is not known")
    return row


slice_up = inputs_of("starts", "ends", "axes")


def slice_down(old: LoneNode, new: NodeForm) -> None:
    """Steps have no older form, unless all are 1."""
    if old.input(4) and any(step != 1 for step in constant_of(old, 4, "steps")):
        raise NoFormError("before version 10, it has no steps")
    values = {
        name: constant_of(old, at, name) for at, name in enumerate(("starts", "ends", "axes"), 1) if old.input(at)
    }
    new.keep(inputs=[old.input(0)], **{name: value for name, value in values.items() if value != []})


# What a reduction over no axes still computes of each element
_OF_EACH: Final = {"ReduceL1": "Abs", "ReduceL2": "Abs", "ReduceLogSum": "Log", "ReduceSumSquare": "Mul"}


def axes_down(old: LoneNode, new: NodeForm) -> None:
    """The axes of a reduction as an attribute; one over no axes, which older versions lack, by another operator."""
    axes = constant_of(old, 1, "axes") if old.input(1) else []
    if not axes and old.value("noop_with_empty_axes", 0):
        operator = _OF_EACH.get(old.operator, "Identity")
        inputs = [old.input(0)] * (2 if operator == "Mul" else 1)
        new.add(operator, inputs, old.output(0))
        return
    new.keep(inputs=[old.input(0)], drop=["noop_with_empty_axes"], axes=axes or None)


# Axes and indices counted from the end


def axis_down(old: LoneNode, new: NodeForm) -> None:
    """Axes in attributes, counted from the start."""
    counted: dict[str, Any] = {}
    for name in ("axis", "axes"):
        value = old.value(name)
        axes = value if isinstance(value, list) else [] if value is None else [value]
        if any(axis < 0 for axis in axes):
            rank = old.rank(old.input(0), FROM_THE_END) + (len(axes) if old.operator == "Unsqueeze" else 0)
            axes = [axis + rank if axis < 0 else axis for axis in axes]
            counted[name] = axes if isinstance(value, list) else axes[0]
    new.keep(**counted)


def indices_down(old: LoneNode, new: NodeForm) -> None:
    """Negative indices are told, unless all are known."""
    indices = old.constant(old.input(1))
    if indices is None or (indices < 0).any():
        new.tell(INDICES.format(old.operator), RARE)
    axis_down(old, new)


def one_hot_down(old: LoneNode, new: NodeForm) -> None:
    """Negative indices are told; its axis could always count from the end."""
    indices = old.constant(old.input(0))
    if indices is None or (indices < 0).any():
        new.tell(INDICES.format(old.operator), RARE)
    new.keep()


def slice_axes_down(old: LoneNode, new: NodeForm) -> None:
    """The axes of a Slice, counted from the start."""
    inputs = [*old.node.input]
    if old.input(3):
        axes = constant_of(old, 3, "axes")
        if any(axis < 0 for axis in axes):
            rank = old.rank(old.input(0), FROM_THE_END)
            inputs[3] = new.integers([axis + rank if axis < 0 else axis for axis in axes], "axes")
    new.keep(inputs=inputs)


# Broadcasting before version 7: the second input lies in the first at `axis`


def broadcast_up(old: LoneNode, new: NodeForm) -> None:
    """Axes of size one, so that the second input lies where `axis` said."""
    axis, second = old.value("axis"), old.input(1)
    if old.value("broadcast", 0) and axis is not None:
        why = "`axis` says where its second input lies in the first"
        rank, own = old.rank(old.input(0), why), old.rank(second, why)
        missing = rank - own - (axis + rank if axis < 0 else axis)
        if missing > 0:
            second = new.add("Unsqueeze", [second], "aligned", like=second, axes=[*range(own, own + missing)])
    new.keep(inputs=[old.input(0), second], drop=["axis", "broadcast"])


def broadcast_down(old: LoneNode, new: NodeForm) -> None:
    """The second input as a part of the first one's dims, without its axes of size one at both ends."""
    first, second = (old.dims(old.input(index)) for index in (0, 1))
    if first is None or second is None:
        raise NoFormError("before version 7, an input is part of the other one, and their dims are not known")
    if None not in first and first == second:
        new.keep()
        return
    core = [*second]
    while core and core[-1] == 1:
        core.pop()
    trailing = len(second) - len(core)
    leading = next((index for index, dim in enumerate(core) if dim != 1), len(core))
    core = core[leading:]
    start = len(first) - trailing - len(core)
    if len(second) > len(first) or (core and (start < 0 or None in core or first[start : start + len(core)] != core)):
        raise NoFormError("before version 7, its second input must be a part of the first one's dims")
    name = old.input(1)
    if leading or trailing:
        axes = [*range(leading), *range(len(second) - trailing, len(second))]
        name = new.add("Squeeze", [name], "part", like=name, axes=axes)
    new.keep(inputs=[old.input(0), name], broadcast=1, axis=start if core else None)


def equal_dims_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 8, all inputs have the same dims."""
    dims = [old.dims(name) for name in old.node.input]
    if any(each is None or None in each or each != dims[0] for each in dims):
        raise NoFormError("before version 8, all of its inputs must have the same dims")
    new.keep()


def prelu_up(old: LoneNode, new: NodeForm) -> None:
    """A slope for each channel gets axes of size one behind it."""
    slope = old.input(1)
    dims = old.dims(slope)
    if dims is None:
        raise NoFormError("the dims of its slope are not known")
    missing = old.rank(old.input(0), "its slope belongs to the channels") - 2
    if len(dims) == 1 and dims[0] != 1 and missing > 0:
        slope = new.add("Unsqueeze", [slope], "aligned", like=slope, axes=[*range(1, missing + 1)])
    new.keep(inputs=[old.input(0), slope])


def prelu_down(old: LoneNode, new: NodeForm) -> None:
    """A slope for each channel, without the axes behind it."""
    data, slope = old.dims(old.input(0)), old.dims(old.input(1))
    if data is None or slope is None or None in slope:
        raise NoFormError("before version 7, its slope has one axis, and the dims here are not known")
    at = len(slope) - len(data) + 1  # of the channels, the second axis of the data
    others = [dim for index, dim in enumerate(slope) if index != at]
    if any(dim != 1 for dim in others):
        raise NoFormError("before version 7, its slope is one number, or one for each channel")
    name = old.input(1)
    if others:
        axes = [index for index in range(len(slope)) if index != (at if 0 <= at < len(slope) else 0)]
        name = new.add("Squeeze", [name], "slope", like=name, axes=axes)
    new.keep(inputs=[old.input(0), name])


def gemm_down(old: LoneNode, new: NodeForm) -> None:
    """The last input is a part of the result."""
    dims = old.dims(old.input(2))
    result = old.dims(old.output(0))
    is_whole = dims is not None and result is not None and None not in dims and dims == result
    is_row = dims is not None and len(dims) < 2
    if not is_whole and not is_row:
        raise NoFormError("before version 7, its last input has the dims of the result, or is one row of it")
    new.keep(broadcast=None if is_whole else 1)


def gemm_inputs_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 11, Gemm has all inputs: it adds zero."""
    inputs = [*old.node.input]
    if not old.input(2):
        inputs = [*inputs[:2], new.constant([0], _data_type(old).number, "zero")]
    new.keep(inputs=inputs)


# Operators of training


def norm_up(old: LoneNode, new: NodeForm) -> None:
    """BatchNormalization before version 7 says whether it is a test."""
    _one_output(old)
    if not old.value("is_test", 0):
        raise NoFormError(f"{IN_TRAINING}: `is_test` is 0")
    new.keep(drop=["is_test"])


def norm_down(old: LoneNode, new: NodeForm) -> None:
    """See `norm_up`."""
    _one_output(old)
    new.keep(is_test=1)


def norm_outputs(old: LoneNode, new: NodeForm) -> None:
    """Between versions 9 and 14 only a normalization with one output means the same."""
    _one_output(old)
    if old.value("training_mode", 0):
        raise NoFormError(IN_TRAINING)
    new.keep(drop=["training_mode"])


def _one_output(old: LoneNode) -> None:
    if any(old.node.output[1:]):
        raise NoFormError(f"{IN_TRAINING}: it also makes statistics")


def norm_spatial_up(old: LoneNode, new: NodeForm) -> None:
    """Statistics of each feature, which newer versions do not have, as arithmetic."""
    _one_output(old)
    if old.value("spatial", 1):
        new.keep(drop=["spatial"])
        return
    data, scale, bias, mean, variance = old.node.input[:5]  # N x C x D, and four of C x D
    epsilon = new.constant(old.value("epsilon", 1e-5), _data_type(old).number, "epsilon")
    new.add("Sub", [data, mean], "centered", like=data)
    new.add("Add", [variance, epsilon], "shifted", like=data)
    new.add("Sqrt", ["shifted"], "deviation", like=data)
    new.add("Div", ["centered", "deviation"], "normalized", like=data)
    new.add("Mul", ["normalized", scale], "scaled", like=data)
    new.add("Add", ["scaled", bias], old.output(0))


def dropout_up(old: LoneNode, new: NodeForm) -> None:
    """Before version 7, Dropout says whether it is a test; later it drops nothing."""
    if old.output(1):
        new.tell(MASK, RARE)
    if not old.value("is_test", 0):
        new.tell(TRAINING)
    new.keep(drop=["is_test"])


def mask_up(old: LoneNode, new: NodeForm) -> None:
    """The mask of an older Dropout has the type of its data."""
    if not old.output(1):
        new.keep()
        return
    new.keep(outputs=[old.output(0), "mask"])
    new.add("Cast", ["mask"], old.output(1), to=_data_type(old).number)


def mask_down(old: LoneNode, new: NodeForm) -> None:
    """See `mask_up`."""
    if not old.output(1):
        new.keep()
        return
    new.keep(outputs=[old.output(0), "mask"])
    new.add("Cast", ["mask"], old.output(1), to=dtypes.BOOL)


def ratio_up(old: LoneNode, new: NodeForm) -> None:
    """The ratio of Dropout becomes an input; without training it has no effect."""
    if old.output(1):
        new.tell(MASK, RARE)
    inputs = [old.input(0)]
    if (ratio := old.value("ratio")) is not None:
        inputs.append(new.constant(ratio, dtypes.FLOAT, "ratio"))
    new.keep(inputs=inputs, drop=["ratio"])


def ratio_down(old: LoneNode, new: NodeForm) -> None:
    """See `ratio_up`."""
    if old.output(1):
        new.tell(MASK, RARE)
    if old.input(2):
        training = old.constant(old.input(2))
        if training is None or training.any():
            raise NoFormError("it may be in training mode, where each run computes something else")
    ratio = old.constant(old.input(1))
    new.keep(inputs=[old.input(0)], drop=["seed"], ratio=None if ratio is None else float(ratio.ravel()[0]))


# Shapes and parts


def softmax_up(old: LoneNode, new: NodeForm) -> None:
    """Before version 13, all axes from `axis` on count as one; that is the last axis of a matrix."""
    data, axis = old.input(0), old.value("axis", 1)
    dims = old.dims(data)
    if dims is not None and all(dim == 1 for dim in dims[axis + len(dims) + 1 if axis < 0 else axis + 1 :]):
        new.keep(axis=axis)
        return
    if dims is None and axis == -1:
        new.keep(axis=axis)
        return
    new.add("Flatten", [data], "matrix", like=data, axis=axis)
    new.keep(inputs=["matrix"], outputs=["result"], axis=-1)
    new.add("Shape", [data], "dims")
    new.add("Reshape", ["result", "dims"], old.output(0))


def softmax_down(old: LoneNode, new: NodeForm) -> None:
    """An axis that is not the last one changes places with it."""
    data, axis = old.input(0), old.value("axis", -1)
    if axis == -1:
        new.keep(axis=-1)
        return
    rank = old.rank(data, "before version 13, it takes all axes from `axis` on as one")
    axis = axis + rank if axis < 0 else axis
    if axis == rank - 1:
        new.keep(axis=axis)
        return
    perm = [*range(rank)]
    perm[axis], perm[-1] = perm[-1], perm[axis]
    dims = old.dims(data) or []
    new.add("Transpose", [data], "turned", like=data, dims=[dims[index] for index in perm], perm=perm)
    new.keep(inputs=["turned"], outputs=["result"], axis=rank - 1)
    new.add("Transpose", ["result"], old.output(0), perm=perm)


def shape_down(old: LoneNode, new: NodeForm) -> None:
    """Some dims of a value: a slice of all of them, which counts and limits its ends as Shape does."""
    start, end = old.value("start", 0), old.value("end")
    if start == 0 and end is None:
        new.keep(drop=["start"])
        return
    new.add("Shape", [old.input(0)], "dims")
    first = new.integers([start], "first")
    last = new.integers([(1 << 63) - 1 if end is None else end], "last")
    new.add("Slice", ["dims", first, last], old.output(0))


def reshape_down(old: LoneNode, new: NodeForm) -> None:
    """A dim of zero, which only empty tensors have, cannot be written before version 14."""
    shape = old.constant(old.input(1))
    if old.value("allowzero", 0) and (shape is None or not shape.all()):
        new.tell(EMPTY)
    new.keep(drop=["allowzero"])


def split_up(old: LoneNode, new: NodeForm) -> None:
    """From version 18 on, a Split without sizes says the number of parts."""
    new.keep(num_outputs=None if old.input(1) else len(old.node.output))


def split_down(old: LoneNode, new: NodeForm) -> None:
    """Parts of a size that does not divide evenly are written with their sizes, if the size is known."""
    if old.input(1):
        new.keep()
        return
    count, axis = old.value("num_outputs", len(old.node.output)), old.value("axis", 0)
    dims = old.dims(old.input(0))
    size = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else None
    if size is None or count < 1:
        raise NoFormError(EVEN)
    if size % count == 0:
        new.keep(drop=["num_outputs"])
        return
    part = -(-size // count)
    sizes = [min(part, max(size - part * index, 0)) for index in range(count)]
    new.keep(inputs=[old.input(0), new.integers(sizes, "sizes")], drop=["num_outputs"])


def split_input_up(old: LoneNode, new: NodeForm) -> None:
    """In version 1, the sizes may be an input."""
    if old.value("axis") is None:
        raise NoFormError("version 1 does not say which axis it splits without `axis`")
    sizes = constant_of(old, 1, "split") if old.input(1) else old.value("split")
    new.keep(inputs=[old.input(0)], split=sizes)


def tile_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 repeats one axis."""
    axis = int(constant_of(old, 2, "axis")[0])
    rank = old.rank(old.input(0), "it repeats one axis")
    repeats = [1] * rank
    repeats[axis] = int(constant_of(old, 1, "tiles")[0])
    new.keep(inputs=[old.input(0), new.integers(repeats, "repeats")])


def tile_down(old: LoneNode, new: NodeForm) -> None:
    """See `tile_up`."""
    repeats = constant_of(old, 1, "repeats")
    repeated = [index for index, count in enumerate(repeats) if count != 1] or [0]
    if len(repeated) != 1 or not repeats:
        raise NoFormError("version 1 repeats only one axis")
    row = _data_type(old)
    tiles = new.constant(repeats[repeated[0]], row.number, "tiles")
    new.keep(inputs=[old.input(0), tiles, new.constant(repeated[0], row.number, "axis")])


def pad_axes_down(old: LoneNode, new: NodeForm) -> None:
    """Pads of all axes, with zero for those that have none."""
    if not old.input(3):
        new.keep()
        return
    data, pads, value = (old.input(index) for index in range(3))
    rank = old.rank(data, "before version 18, it pads all axes")
    places = constant_of(old, 3, "axes")
    places = [axis + rank if axis < 0 else axis for axis in places]
    begins_and_ends = [*places, *(axis + rank for axis in places)]
    amounts = old.constant(pads)
    if amounts is not None:
        every = [0] * (2 * rank)
        for place, amount in zip(begins_and_ends, amounts.ravel().tolist(), strict=True):
            every[place] = amount
        wide = new.integers(every, "pads")
    else:
        none, at = new.integers([0] * (2 * rank), "none"), new.integers(begins_and_ends, "places")
        wide = new.add("ScatterElements", [none, at, pads], "pads", like=pads)
    new.keep(inputs=[data, wide, value])


def dft_up(old: LoneNode, new: NodeForm) -> None:
    """The axis of a transform becomes an input, and has another default."""
    axis = new.integers(old.value("axis", 1), "axis")
    new.keep(inputs=[old.input(0), old.input(1), axis], drop=["axis"])


def dft_down(old: LoneNode, new: NodeForm) -> None:
    """See `dft_up`."""
    axis = constant_of(old, 2, "axis")[0] if old.input(2) else -2
    new.keep(inputs=[old.input(0), old.input(1)], axis=axis)


# Resize and Upsample


def upsample_scales_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 scales the last two axes of four."""
    scales = [1.0, 1.0, old.value("height_scale"), old.value("width_scale")]
    mode = "linear" if old.value("mode") == "bilinear" else old.value("mode")
    new.keep(drop=["height_scale", "width_scale"], scales=scales, mode=mode)


def upsample_scales_down(old: LoneNode, new: NodeForm) -> None:
    """See `upsample_scales_up`."""
    scales = old.value("scales", [])
    if len(scales) != 4 or scales[:2] != [1, 1]:
        raise NoFormError("version 1 scales only the last two axes of four")
    mode = "bilinear" if old.value("mode") == "linear" else old.value("mode")
    new.keep(drop=["scales"], height_scale=scales[2], width_scale=scales[3], mode=mode)


def upsample_up(old: LoneNode, new: NodeForm) -> None:
    """Resize 10 is an Upsample that may also make smaller."""
    new.keep(op_type="Resize")


def resize_places_up(old: LoneNode, new: NodeForm) -> None:
    """Before version 11, places are divided by the scale; between two of them, which one counts is not defined."""
    mode = old.value("mode", "nearest")
    if mode == "nearest":
        _check_nearest(old.constant(old.input(1)))
    region = new.constant([], dtypes.FLOAT, "region")
    nearest_mode = "floor" if mode == "nearest" else None
    new.keep(
        inputs=[old.input(0), region, old.input(1)],
        coordinate_transformation_mode="asymmetric",
        nearest_mode=nearest_mode,
    )


def _check_nearest(scales: Any) -> None:
    """Whether the nearest place is the same by any rule: when making larger, and when places are whole numbers."""
    if scales is None:
        raise NoFormError(f"{PLACES}, and its scales are no constant")
    for scale in scales.ravel().tolist():
        if not scale > 0 or (scale < 1 and not (1 / scale).is_integer()):
            raise NoFormError(f"{PLACES} for a scale of {scale:g}")


def resize_places_down(old: LoneNode, new: NodeForm) -> None:
    """See `resize_places_up`."""
    mode, how = old.value("mode", "nearest"), old.value("coordinate_transformation_mode", "half_pixel")
    if mode not in ("nearest", "linear") or how != "asymmetric":
        raise NoFormError(f"{PLACES}, and here it is {mode} with {how}")
    if mode == "nearest" and (rule := old.value("nearest_mode", "round_prefer_floor")) != "floor":
        raise NoFormError(f"{PLACES}, and here it is nearest with {rule}")
    scales = old.input(2)
    values = old.constant(scales)
    if old.input(3):
        sizes, dims = constant_of(old, 3, "sizes"), old.dims(old.input(0))
        if dims is None or any(not dim for dim in dims):
            raise NoFormError(
                "before version 11, it has scales instead of sizes, and the dims of its data are not known"
            )
        ratios = [size / (dim or 1) for size, dim in zip(sizes, dims, strict=True)]
        scales = new.constant(ratios, dtypes.FLOAT, "scales")
        values = new.constants[scales].numpy()
        if any(
            math.floor((dim or 1) * float(scale)) != size for dim, scale, size in zip(dims, values, sizes, strict=True)
        ):
            raise NoFormError("before version 11, it has scales instead of sizes, and no scale gives these")
    if mode == "nearest":
        _check_nearest(values)
    gone = ("coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "extrapolation_value")
    new.keep(inputs=[old.input(0), scales], drop=gone)


def resize_region_up(old: LoneNode, new: NodeForm) -> None:
    """Version 13 has no `tf_half_pixel_for_nn`: the lower of two places is half a pixel away, rounded up."""
    if old.value("coordinate_transformation_mode") != "tf_half_pixel_for_nn":
        new.keep(inputs=[_unless_empty(old, index) for index in range(4)])
        return
    if old.value("mode", "nearest") != "nearest" or old.value("nearest_mode") != "floor":
        raise NoFormError("version 13 has no tf_half_pixel_for_nn, but for the nearest place below (`floor`)")
    new.keep(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")


def _unless_empty(old: LoneNode, index: int) -> str:
    """An input, or none if it is a constant without elements."""
    value = old.constant(old.input(index))
    return "" if value is not None and not value.size else old.input(index)


def resize_region_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 13, a region and scales that are not used are empty tensors."""
    inputs = [old.input(0), old.input(1), old.input(2), old.input(3)]
    if not all(inputs[1:3]):
        nothing = new.constant([], dtypes.FLOAT, "nothing")
        inputs[1:3] = [name or nothing for name in inputs[1:3]]
    new.keep(inputs=inputs)


def resize_axes_down(old: LoneNode, new: NodeForm) -> None:
    """Scales, sizes and a region of all axes, for those of some."""
    axes = old.value("axes")
    if axes is None:
        new.keep()
        return
    data, region, scales, sizes = (old.input(index) for index in range(4))
    rank = old.rank(data, "before version 18, it has scales or sizes for all axes")
    places = new.integers([axis + rank if axis < 0 else axis for axis in axes], "axes")
    if scales:
        ones = new.constant([1] * rank, dtypes.FLOAT, "ones")
        scales = new.add("ScatterElements", [ones, places, scales], "scales", like=scales)
    if sizes:
        new.add("Shape", [data], "dims")
        sizes = new.add("ScatterElements", ["dims", places, sizes], "sizes", like=sizes)
    if region:
        every = [axis + rank if axis < 0 else axis for axis in axes]
        ends = new.integers([*every, *(axis + rank for axis in every)], "ends")
        whole = new.constant([0] * rank + [1] * rank, dtypes.FLOAT, "whole")
        if (row := old.elem_type(region)) is not None and row.number != dtypes.FLOAT:
            whole = new.constant([0] * rank + [1] * rank, row.number, "whole")
        region = new.add("ScatterElements", [whole, ends, region], "region", like=region)
    new.keep(inputs=[data, region, scales, sizes], drop=["axes"])


# Attributes with other names and types


def renamed(**names: str) -> Rewriting:
    """The node with other names of attributes."""

    def rewrite(old: LoneNode, new: NodeForm) -> None:
        values = {new_name: old.value(name) for name, new_name in names.items() if old.attribute(name) is not None}
        new.keep(drop=names, **values)

    return rewrite


def cast_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 names the type."""
    row = dtypes.BY_NAME.get(str(old.value("to")))
    if row is None:
        raise NoFormError(f"ONNX has no element type {old.value('to')!r:.80}")
    new.keep(to=row.number)


def cast_down(old: LoneNode, new: NodeForm) -> None:
    """See `cast_up`."""
    new.keep(to=dtypes.BY_NUMBER[old.value("to")].name)


def float8_of_infinity(old: LoneNode, new: NodeForm) -> None:
    """What an infinity becomes in two types of 8 bits changed in version 24."""
    fnuz = (dtypes.FLOAT8E4M3FNUZ, dtypes.FLOAT8E5M2FNUZ)
    target = old.value("to") if old.operator == "Cast" else getattr(old.elem_type(old.input(1)), "number", None)
    if target in fnuz and old.value("saturate", 1):
        new.tell("an infinity becomes NaN in this type of 8 bits before version 24, and the largest number from it on")
    new.keep()


def power_up(old: LoneNode, new: NodeForm) -> None:
    """The power of a norm is an integer from version 2 on."""
    power = old.value("p", 2.0)
    if power != int(power):
        raise NoFormError(f"from version 2 on, its `p` is an integer, not {power:g}")
    if old.operator == "LpPool" and old.attribute("kernel_shape") is None:
        raise NoFormError("it needs the attribute 'kernel_shape'")
    new.keep(p=int(power))


def power_down(old: LoneNode, new: NodeForm) -> None:
    """See `power_up`."""
    new.keep(p=float(old.value("p", 2)))


def constant_down(old: LoneNode, new: NodeForm) -> None:
    """A tensor in place of numbers or texts in an attribute."""
    tensor = constant_of_node(old.node)
    if tensor is None or old.attribute("value") is not None:
        new.keep()
        return
    new.keep(drop=CONSTANT_FIELDS, value=replace(tensor, name=None))


def sample_modes_up(old: LoneNode, new: NodeForm) -> None:
    """GridSample has other words from version 20 on."""
    words = {"bilinear": "linear", "bicubic": "cubic"}
    mode = old.value("mode", "bilinear")
    new.keep(mode=words.get(mode, mode))


def sample_modes_down(old: LoneNode, new: NodeForm) -> None:
    """See `sample_modes_up`; before version 20, it reads images only."""
    words = {"linear": "bilinear", "cubic": "bicubic"}
    if old.rank(old.input(0), "before version 20, its data have two axes of space") != 4:
        raise NoFormError("before version 20, its data have two axes of space")
    mode = old.value("mode", "linear")
    new.keep(mode=words.get(mode, mode))


def roi_up(old: LoneNode, new: NodeForm) -> None:
    """Before version 16, it has no shift by half a pixel."""
    new.keep(coordinate_transformation_mode="output_half_pixel")


def roi_down(old: LoneNode, new: NodeForm) -> None:
    """See `roi_up`."""
    if old.value("coordinate_transformation_mode", "half_pixel") != "output_half_pixel":
        raise NoFormError("before version 16, it does not shift its regions by half a pixel (`output_half_pixel`)")
    new.keep(drop=["coordinate_transformation_mode"])


def deconvolution(old: LoneNode, new: NodeForm) -> None:
    """ConvTranspose 1 puts an odd pad at the other end, if pads follow from the size of the result."""
    padding = old.value("auto_pad", "NOTSET")
    if padding.startswith("SAME") and old.attribute("output_shape") is None:
        kernel, dims = old.value("kernel_shape"), old.dims(old.input(1))
        kernel = kernel or (dims[2:] if dims is not None else None)
        if kernel is None or None in kernel:
            raise NoFormError("the size of its kernel says where its pads are, and is not known")
        count = len(kernel)
        strides, gaps = old.value("strides") or [1] * count, old.value("dilations") or [1] * count
        more = old.value("output_padding") or [0] * count
        pads = [
            (size - 1) * gap + 1 - stride + extra
            for size, gap, stride, extra in zip(kernel, gaps, strides, more, strict=True)
        ]
        is_odd = any(pad > 0 and pad % 2 for pad in pads)
    else:
        is_odd = old.attribute("output_shape") is not None
    if is_odd:
        raise NoFormError("versions 1 and 11 put an odd number of pads at different ends")
    axis_down(old, new)


def sequence_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 says whether all steps are a result; that they are is clear if somebody uses them."""
    new.keep(drop=["output_sequence"])


def sequence_down(old: LoneNode, new: NodeForm) -> None:
    """See `sequence_up`."""
    new.keep(output_sequence=1 if old.output(0) else None)


def layout_down(old: LoneNode, new: NodeForm) -> None:
    """A layout with the batch first, in which version 7 has the steps first."""
    if not old.value("layout", 0):
        new.keep(drop=["layout"])
        return
    inputs = [*old.node.input]
    states = (5, 6) if old.operator == "LSTM" else (5,)
    for index in (0, *states):  # steps or directions, batch, features
        if old.input(index):
            name = old.input(index)
            inputs[index] = new.add("Transpose", [name], f"{name}_turned", like=name, perm=[1, 0, 2])
    outputs = [f"{name}_turned" if name else "" for name in old.node.output]
    new.keep(inputs=inputs, outputs=outputs, drop=["layout"])
    for index, (turned, name) in enumerate(zip(outputs, old.node.output, strict=True)):
        if name:  # steps, directions, batch, features; or without steps
            new.add("Transpose", [turned], name, perm=[2, 0, 1, 3] if index == 0 else [1, 0, 2])


def one_scale_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 13, one scale holds for all data."""
    dims = old.dims(old.input(1))
    if dims is None or any(dim != 1 for dim in dims):
        what = (
            "the dims of this one are not known"
            if dims is None or None in dims
            else "not one for each place of an axis"
        )
        joined = ", and " if dims is None or None in dims else ", "
        raise NoFormError(f"before version 13, it has one scale for all of its data{joined}{what}")
    new.keep(drop=["axis"])


def quantized_type_down(old: LoneNode, new: NodeForm) -> None:
    """The type of a result that an attribute says, as that of a zero point."""
    wanted = old.value("output_dtype", 0)
    inputs = [*old.node.input]
    if wanted and not old.input(2) and wanted != dtypes.UINT8:
        dims = old.dims(old.input(1))
        if dims is None or None in dims:
            raise NoFormError(
                "before version 21, its zero point says its type, and the dims of its scale are not known"
            )
        import numpy

        inputs = [*inputs[:2], new.constant(numpy.zeros([dim or 0 for dim in dims]), wanted, "zero_point")]
    new.keep(inputs=inputs, drop=["output_dtype"] if wanted or old.attribute("output_dtype") else ())


def dequantized_type_down(old: LoneNode, new: NodeForm) -> None:
    """Before version 23, the result has the type of the scale."""
    wanted = old.value("output_dtype", 0)
    row = old.elem_type(old.input(1))
    if wanted and (row is None or row.number != wanted):
        raise NoFormError("before version 23, its result has the type of its scale")
    new.keep(drop=["output_dtype"])


def group_norm_up(old: LoneNode, new: NodeForm) -> None:
    """Version 18 has a scale and a bias for each group, version 21 for each channel."""
    data, groups = old.input(0), old.value("num_groups")
    dims = old.dims(data)
    channels = dims[1] if dims is not None and len(dims) > 1 else None
    if channels is not None:
        size = new.integers([groups, channels // groups], "size")
    else:
        new.add("Shape", [data], "channels", start=1, end=2)
        new.add("Div", ["channels", new.integers([groups], "groups")], "per_group")
        size = new.add("Concat", ["groups", "per_group"], "size", axis=0)
    inputs = [data]
    for index, word in ((1, "scale"), (2, "bias")):  # [groups] -> [groups, 1] -> [groups, size] -> [channels]
        name = old.input(index)
        new.add("Unsqueeze", [name, new.integers([1], "last_axis")], f"{word}_column", like=name)
        new.add("Expand", [f"{word}_column", size], f"{word}_rows", like=name)
        inputs.append(new.add("Reshape", [f"{word}_rows", new.integers([-1], "flat")], f"{word}_each", like=name))
    row = old.elem_type(data)  # version 18 computes in the type of its data, version 21 in FLOAT if nothing is said
    stash = row.number if row is not None and row.number != dtypes.FLOAT else None
    new.keep(inputs=inputs, stash_type=stash)


def scatter_up(old: LoneNode, new: NodeForm) -> None:
    """Scatter has another name from version 11 on."""
    new.keep(op_type="ScatterElements")


# ai.onnx.ml


def labels_up(old: LoneNode, new: NodeForm) -> None:
    """Version 1 has classes and their places; the type of the data says which of them are the keys."""
    row = old.elem_type(old.input(0))
    if row is None:
        raise NoFormError("the type of its data says what it maps, and is not known")
    classes = [each.decode(errors="surrogateescape") for each in old.value("classes_strings", [])]
    places = [*range(len(classes))]
    if row.number == dtypes.STRING:
        new.keep(drop=["classes_strings", "default_string"], keys_strings=classes, values_int64s=places)
    else:
        new.keep(drop=["classes_strings", "default_int64"], keys_int64s=places, values_strings=classes)


def labels_down(old: LoneNode, new: NodeForm) -> None:
    """See `labels_up`."""
    for keys, values in (("keys_strings", "values_int64s"), ("values_strings", "keys_int64s")):
        if old.value(values) == [*range(len(old.value(keys, [])))]:
            new.keep(drop=[keys, values], classes_strings=old.value(keys))
            return
    raise NoFormError("version 1 maps texts to their places in a list, or places to texts")


def label_tensors_down(old: LoneNode, new: NodeForm) -> None:
    """Keys, values and the default as lists, which have the types of ONNX's attributes."""
    lists: dict[str, Any] = {}
    words = {dtypes.FLOAT: "float", dtypes.INT64: "int64", dtypes.STRING: "string"}
    for name in ("keys_tensor", "values_tensor", "default_tensor"):
        tensor = old.value(name)
        if tensor is None:
            continue
        word = words.get(tensor.data_type)
        if word is None:
            raise NoFormError(f"before version 4, its {name} has no {dtypes.BY_NUMBER[tensor.data_type].name}")
        elements = tensor.numpy().ravel().tolist()
        part = name.partition("_")[0]
        lists[f"{part}_{word}" if part == "default" else f"{part}_{word}s"] = (
            elements[0] if part == "default" else elements
        )
    new.keep(drop=["keys_tensor", "values_tensor", "default_tensor"], **lists)


_TREES: Final = ("nodes_values", "nodes_hitrates", "base_values", "target_weights", "class_weights")


def tree_tensors_down(old: LoneNode, new: NodeForm) -> None:
    """Numbers of FLOAT as lists; those of DOUBLE have no older form."""
    lists: dict[str, Any] = {}
    for name in _TREES:
        tensor = old.value(f"{name}_as_tensor")
        if tensor is None:
            continue
        if tensor.data_type != dtypes.FLOAT:
            raise NoFormError(f"before version 3, its {name} are FLOAT, not {dtypes.BY_NUMBER[tensor.data_type].name}")
        lists[name] = tensor.numpy().ravel().tolist()
    new.keep(drop=[f"{name}_as_tensor" for name in _TREES], **lists)
