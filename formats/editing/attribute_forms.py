"""Older forms of ONNX's operators that onnx's converter does not write.

They have attributes in place of constant inputs, axes that are counted from the start, and a Gemm with all inputs.

Spec: ONNX docs, Changelog.md, versions 10 and 11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from formats.editing.making import make_attribute
from formats.ir import dtypes
from formats.ir.copies import copied
from formats.ir.model import Tensor, entries
from formats.ir.storage import from_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Node, Type

# The version of the set from which on an operator has inputs in place of these attributes; inputs begin after the data.
INPUTS: Final[Mapping[str, tuple[int, tuple[str, ...]]]] = {
    "Clip": (11, ("min", "max")),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes", "steps")),
    "TopK": (10, ("k",)),
}
FROM_THE_END: Final = 11  # from this version on, axes and indices may be counted from the end
WITHOUT_REGION: Final = 13  # from this version on, inputs of Resize may be missing
WITH_NUMBERS: Final = 12  # from this version on, a Constant may have these attributes: their fields, and types
NUMBERS: Final = {
    "value_float": ("f", "float32"),
    "value_floats": ("floats", "float32"),
    "value_int": ("i", "int64"),
    "value_ints": ("ints", "int64"),
    "value_string": ("s", "object"),
    "value_strings": ("strings", "object"),
}
ALWAYS: Final = ("OneHot", "TopK")  # for axes of these, it was so before
PER_AXIS: Final = (
    13  # from this version on, QuantizeLinear and DequantizeLinear may have one scale per place of an axis
)
QUANTIZING: Final = ("DequantizeLinear", "QuantizeLinear")
INDICES: Final = "a negative index counts from the end, which Gather does not define before version 11"


def first_with_inputs(operator: str, given: int, wanted: int) -> int | None:
    """The version on the way down in which an operator has inputs that become attributes before it."""
    first = INPUTS.get(operator, (0, ()))[0]
    return first if wanted < first <= given else None


def with_attributes(node: Node, constants: Mapping[str, Tensor]) -> str:
    """Give a node attributes in place of its constant inputs; or say why this is not possible."""
    version, names = INPUTS[node.op_type or ""]
    if len(node.input) > 1 + len(names):
        return f"before version {version}, it has no input {len(names) + 1}"
    made = []
    for name, value in zip(names, node.input[1:], strict=False):
        if not value:
            continue
        if value not in constants:
            return f"before version {version}, its {name} is an attribute, and here no constant"
        found: Any = constants[value].numpy().ravel().tolist()
        if name == "steps":
            if any(step != 1 for step in found):
                return f"before version {version}, it has no steps"
            continue
        single = name in ("min", "max", "value", "k")
        if (single and len(found) != 1) or (not single and not found):
            return f"its {name} has {len(found)} elements"
        made.append(make_attribute(name, (int(found[0]) if name == "k" else float(found[0])) if single else found))
    node.input = node.input[:1]
    node.attribute = [*node.attribute, *made]
    return ""


def from_the_start(node: Node, data: Type | None, constants: Mapping[str, Tensor], wanted: int) -> tuple[str, str]:
    """Count the axes of a node from the start; or what prevents it, and what is not known to be the same.

    `data` is the type of its first input.
    """
    if wanted >= FROM_THE_END or node.op_type in ALWAYS:
        return "", ""
    for attribute in [each for each in entries(node, "attribute") if each.name in ("axis", "axes")]:
        numbers = [attribute.i] if attribute.name == "axis" else [*attribute.ints]
        if all((number or 0) >= 0 for number in numbers):
            continue
        shape = data.tensor_type.shape if data is not None and data.tensor_type is not None else None
        if shape is None:
            return f"before version {FROM_THE_END}, no axis counts from the end, and the rank is not known", ""
        rank = len(shape.dim) + (len(numbers) if node.op_type == "Unsqueeze" else 0)
        new = copied(attribute)
        counted = [number + rank if (number or 0) < 0 else number for number in numbers if number is not None]
        if attribute.name == "axis":
            new.i = counted[0]
        else:
            new.ints = counted
        node.attribute = [new if each is attribute else each for each in node.attribute]
    if node.op_type == "Slice" and len(node.input) > 3 and node.input[3]:
        axes = constants.get(node.input[3])
        if axes is None or (axes.numpy() < 0).any():
            return f"before version {FROM_THE_END}, no axis counts from the end", ""
    if node.op_type == "Gather" and len(node.input) > 1:
        indices = constants.get(node.input[1])
        if indices is None or (indices.numpy() < 0).any():
            return "", INDICES
    return "", ""


def with_one_scale(node: Node, scale: Type | None, wanted: int) -> str:
    """Drop the axis of a QuantizeLinear or DequantizeLinear with one scale; or say why this is not possible."""
    if node.op_type not in QUANTIZING or wanted >= PER_AXIS:
        return ""
    shape = scale.tensor_type.shape if scale is not None and scale.tensor_type is not None else None
    if shape is None:
        return (
            f"before version {PER_AXIS}, it has one scale for all of its data, and the dims of this one are not known"
        )
    if any(dim.dim_value != 1 for dim in shape.dim):
        return f"before version {PER_AXIS}, it has one scale for all of its data, not one for each place of an axis"
    node.attribute = [each for each in entries(node, "attribute") if each.name != "axis"]
    return ""


def with_addend(node: Node, data: Type | None, wanted: int) -> Tensor | None:
    """The zero that a Gemm without its last input adds where it needs that input; its name is new."""
    if node.op_type != "Gemm" or wanted >= FROM_THE_END or len(node.input) > 2 or data is None:
        return None
    row = dtypes.BY_NUMBER.get(data.tensor_type.elem_type or 0) if data.tensor_type is not None else None
    if row is None or row.numpy_name == "bfloat16":
        return None
    import numpy

    zero = from_numpy(numpy.zeros(1, row.numpy_name), "zero")
    node.input = [*node.input, "zero"]
    return zero


def with_region(node: Node, wanted: int) -> Tensor | None:
    """The empty tensor that a Resize needs in place of a region, or of scales, that it does not use."""
    if node.op_type != "Resize" or wanted >= WITHOUT_REGION or (len(node.input) > 2 and all(node.input[1:3])):
        return None
    import numpy

    given = [*node.input, "", ""]
    node.input = [given[0], *(each or "nothing" for each in given[1:3]), *node.input[3:]]
    return from_numpy(numpy.zeros(0, "float32"), "nothing")


def with_tensor(node: Node, wanted: int) -> None:
    """Give a Constant a tensor in place of numbers or texts in an attribute, which older versions do not have."""
    if node.op_type != "Constant" or wanted >= WITH_NUMBERS or len(node.attribute) != 1:
        return
    import numpy

    attribute = node.attribute[0]
    field, kind = NUMBERS.get(attribute.name or "", ("", ""))
    if field:
        node.attribute = [make_attribute("value", from_numpy(numpy.array(getattr(attribute, field), kind)))]
