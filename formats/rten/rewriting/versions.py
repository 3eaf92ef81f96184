"""Old forms of operators: attributes that became inputs, defaults that changed, broadcasting by attribute.

A form that shows itself, by an attribute that newer versions lack, is recognised by that; only where the same text
means two things does the version of the operator set decide.

Spec: ONNX, Changelog.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.dtypes import BY_NAME, numpy_dtype
from formats.rten.convert.context import Refused, with_input
from formats.rten.convert.value_types import FLOAT, INT64
from formats.rten.graph.attributes import find, get_float, get_floats, get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node
    from formats.rten.convert.context import Context, Rewriting


def promoted(**places: int) -> Rewriting:
    """A rewriting that makes integer attributes inputs, at the given places."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        found = {name: place for name, place in places.items() if find(node, name) is not None}
        if not found:
            return None
        inputs = list(node.input)
        for name, place in found.items():
            inputs += [""] * (place + 1 - len(inputs))
            inputs[place] = context.int64([get_int(node, name)] if name == "k" else get_ints(node, name) or ())
        return context.changed(inputs, without=found)

    return rewriting


def dropped(*names: str) -> Rewriting:
    """A rewriting that removes attributes that mean nothing to inference."""

    def rewriting(node: Node, context: Context) -> list[Node] | None:
        return context.changed(without=names) if any(find(node, name) for name in names) else None

    return rewriting


def broadcast_by_attribute(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 7, `broadcast` allowed it and `axis` said where the second input begins."""
    names = ("axis", "broadcast", "consumed_inputs")
    if context.version >= 7 or not any(find(node, name) for name in names):
        return None
    first, second = context.input(0), context.input(1)
    if get_int(node, "broadcast") and find(node, "axis") is not None:
        rank, width = context.known_rank(first), context.known_rank(second)
        axis = get_int(node, "axis")
        trailing = rank - (axis + rank if axis < 0 else axis) - width
        if trailing > 0:
            second = context.op("Unsqueeze", second, context.int64(range(width, width + trailing)))
    return context.changed([first, second], without=names)


def prelu_slope(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 7, a vector of slopes had one entry a channel."""
    if context.version >= 7:
        return None
    data, slope = context.input(0), context.input(1)
    if context.rank(slope) == 1 and context.dims(slope) != (1,):
        trailing = range(1, context.known_rank(data) - 1)
        if trailing:
            slope = context.op("Unsqueeze", slope, context.int64(trailing))
            return context.changed([data, slope], without=("consumed_inputs",))
    return dropped("consumed_inputs")(node, context)


def clip_bounds(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 11, the bounds were float attributes."""
    if find(node, "min") is None and find(node, "max") is None:
        return dropped("consumed_inputs")(node, context)
    data = context.input(0)
    bounds = [
        context.scalar(get_float(node, name), like=data) if find(node, name) is not None else ""
        for name in ("min", "max")
    ]
    return context.changed([data, *bounds], without=("min", "max", "consumed_inputs"))


def cast_to_name(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 6, the type was given by its name."""
    target = find(node, "to")
    if target is None or target.s is None:
        return None
    row = BY_NAME.get(target.s.decode("ascii", "replace"))
    if row is None:
        raise Refused(f"casts to the unknown type {target.s!r}")
    return context.changed(to=row.number)


def concat_axis(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 4, the axis was 1 unless given."""
    return context.changed(axis=1) if context.version < 4 and find(node, "axis") is None else None


def pad_inputs(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 11, the pads and the value were attributes, in operator set 1 by another name."""
    pads = get_ints(node, "pads") or get_ints(node, "paddings")
    if pads is None:
        return None
    data = context.input(0)
    value = context.scalar(get_float(node, "value"), like=data)
    return context.changed([data, context.int64(pads), value], without=("pads", "paddings", "value"))


def flattened(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 13, Softmax and its kin saw a matrix: everything from `axis` on is one row."""
    if context.version >= 13:
        return None
    data, axis = context.input(0), get_int(node, "axis", 1)
    if axis == -1 or context.rank(data) == axis + 1:
        return context.changed(axis=-1)
    matrix = context.op("Flatten", data, axis=axis)
    rows = context.op(node.op_type or "", matrix, axis=-1)
    return context.replace(context.op("Reshape", rows, context.op("Shape", data)))


def batch_normalization(node: Node, context: Context) -> list[Node] | None:
    """Attributes of training and of a form that normalised every element on its own, in operator sets 1 to 7."""
    if context.version < 7 and not get_int(node, "is_test"):
        raise Refused("is in its training form (is_test = 0)", "set is_test to 1")
    if context.version < 9 and not get_int(node, "spatial", 1):
        raise Refused("has spatial = 0, which RTen has not")
    return dropped("is_test", "spatial", "consumed_inputs")(node, context)


def split_input(node: Node, context: Context) -> list[Node] | None:
    """In operator set 1, the sizes were an input of the type of the data."""
    sizes = context.optional(1)
    if context.version >= 2 or not sizes or context.elem_type(sizes) == INT64:
        return promoted(split=1)(node, context)
    held = context.scope.numbers(sizes)
    if held is None:
        return context.changed(with_input(node, 1, context.op("Cast", sizes, to=INT64)))
    return context.changed(with_input(node, 1, context.int64(map(int, held))))


def tile_axis(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 6, one axis was tiled, and both its number and the repeats were inputs."""
    if context.version >= 6:
        return None
    data, tiles, axis = (context.input(place) for place in range(3))
    repeats = [1] * context.known_rank(data)
    numbers = [context.scope.numbers(name) for name in (tiles, axis)]
    if numbers[0] is None or numbers[1] is None:
        raise Refused("tiles an axis that is known only when the model runs", "make it constant")
    repeats[int(numbers[1][0])] = int(numbers[0][0])
    return context.changed([data, context.int64(repeats)])


def upsample(node: Node, context: Context) -> list[Node] | None:
    """Upsample is Resize without its choices; the scales were attributes before operator set 9."""
    import numpy

    data, scales = context.input(0), context.optional(1)
    attribute = get_floats(node, "scales")
    if attribute is None and find(node, "height_scale") is not None:
        attribute = [1.0, 1.0, get_float(node, "height_scale"), get_float(node, "width_scale")]
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


def resize_10(node: Node, context: Context) -> list[Node] | None:
    """In operator set 10, Resize had no choices; its nearest neighbour is above when shrinking, as runtimes do."""
    if context.version >= 11:
        return None
    scales = context.input(1)
    factors = context.scope.numbers(scales)
    if factors is None:
        if get_string(node, "mode", "nearest") == "nearest":
            raise Refused("has scales that are known only when the model runs", "make them constant")
        factors = []
    shrinks = any(factor < 1 for factor in factors)
    if shrinks and any(factor > 1 for factor in factors):
        raise Refused("enlarges one axis and shrinks another", "convert the model to operator set 11 or newer")
    return context.changed(
        [context.input(0), "", scales],
        coordinate_transformation_mode="asymmetric",
        nearest_mode="ceil" if shrinks else "floor",
    )


def dft_axis(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 20, the axis was an attribute, 1 unless given."""
    if context.version >= 20:
        return None
    axis = context.int64_scalar(get_int(node, "axis", 1))
    return context.changed(with_input(node, 2, axis), without=("axis",))


def grid_sample_mode(node: Node, context: Context) -> list[Node] | None:
    """Before operator set 20, the modes had the names of two-dimensional interpolation."""
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(get_string(node, "mode", "linear"))
    return context.changed(mode=renamed) if renamed else None


def scatter(node: Node, context: Context) -> list[Node] | None:
    """Scatter is the old name of ScatterElements."""
    return context.replace(context.op("ScatterElements", *node.input, axis=get_int(node, "axis")))


REWRITINGS: Mapping[str, Rewriting] = {
    **dict.fromkeys(
        ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"), broadcast_by_attribute
    ),
    **dict.fromkeys(
        (
            *("Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max"),
            *("Mean", "Min", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Sum", "Tanh"),
        ),
        dropped("consumed_inputs"),
    ),
    **dict.fromkeys(
        (
            *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
            *("ReduceProd", "ReduceSum", "ReduceSumSquare", "Squeeze", "Unsqueeze"),
        ),
        promoted(axes=1),
    ),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), flattened),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), dropped("output_sequence")),
    "BatchNormalization": batch_normalization,
    "Cast": cast_to_name,
    "Clip": clip_bounds,
    "Concat": concat_axis,
    "DFT": dft_axis,
    "Gemm": dropped("broadcast"),
    "GridSample": grid_sample_mode,
    "PRelu": prelu_slope,
    "Pad": pad_inputs,
    "Reshape": promoted(shape=1),
    "Resize": resize_10,
    "Scatter": scatter,
    "Slice": promoted(starts=1, ends=2, axes=3),
    "Split": split_input,
    "Tile": tile_axis,
    "TopK": promoted(k=1),
    "Upsample": upsample,
}
