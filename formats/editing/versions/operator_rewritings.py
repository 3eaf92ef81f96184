"""Rewritings of single operators: training, shapes, sizes, quantization, and those of ai.onnx.ml.

Like those in `rewritings.py`, each makes the form of the version next to that of a node.

Spec: ONNX docs, Changelog.md and Changelog-ml.md, each version compared with the one before it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from formats.editing.nodes import constant_of_node
from formats.editing.versions.node_forms import NoFormError
from formats.editing.versions.rewritings import axis_down, constant_of, data_type, from_start
from formats.ir import dtypes
from formats.ir.model import entries
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.editing.versions.node_forms import LoneNode, NodeForm

EMPTY: Final = "empty tensors may get another shape, because Reshape writes no dims of zero without allowzero"
EVEN: Final = "its last part may be smaller than the others, which Split cannot do before version 18"
TRAINING: Final = "Dropout drops elements in training before version 7; here it drops none, as in all runtimes"
MASK: Final = "a Dropout that drops nothing has a mask of true from version 12 on; before, ONNX does not say its values"
IN_TRAINING: Final = "it is in training mode, where each run computes something else"


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
    epsilon = new.constant(old.value("epsilon", 1e-5), data_type(old).number, "epsilon")
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
    _mask(old, new, lambda: data_type(old).number)


def mask_down(old: LoneNode, new: NodeForm) -> None:
    """The mask of a newer Dropout is BOOL."""
    _mask(old, new, lambda: dtypes.BOOL)


def _mask(old: LoneNode, new: NodeForm, elem_type: Callable[[], int]) -> None:
    """The node with its mask cast to the type that the old version gives it."""
    if not old.output(1):
        new.keep()
        return
    new.keep(outputs=[old.output(0), "mask"])
    new.add("Cast", ["mask"], old.output(1), to=elem_type())


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
    row = data_type(old)
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
    places = from_start(places, rank)
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


# Attributes with other names and types


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
    try:
        target = old.value("to") if old.operator == "Cast" else getattr(old.elem_type(old.input(1)), "number", None)
        is_possible = target in fnuz and old.value("saturate", 1)
    except NoFormError:  # a call of the function around the node says the type
        is_possible = True
    if is_possible:
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
    names = [attribute.name or "" for attribute in entries(old.node, "attribute")]
    new.keep(drop=names, value=replace(tensor, name=None))


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
    if dims is None or None in dims:
        raise NoFormError("before version 13, it has one scale for all of its data, and the dims here are not known")
    if any(dim != 1 for dim in dims):
        raise NoFormError("before version 13, it has one scale for all of its data, not one for each place of an axis")
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
