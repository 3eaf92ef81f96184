"""Older forms of ONNX's operators that the package onnx does not write, in three parts.

1. Operators that an older set lacks, written with others that it has, where ONNX has no definition of its own.
2. Forms that differ only in what they accept, for which onnx has no adapters.
3. Forms with attributes in place of constant inputs, axes that are counted from the start, and a Gemm with all inputs.

A row of the second part is a version of ai.onnx, and the operators whose form of this version does what the form before
it does: it only accepts more types, or has a further attribute or input without which it means the same. Whether a node
uses what only the newer form has is checked afterwards: types, attributes, the number of inputs, and axes that count
from the end.

Spec: ONNX operators, Einsum-12, Shape-15, Trilu-14; ONNX docs, Changelog.md, compared by hand with the form before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.editing.surgery import make_attribute, make_node
from formats.ir import dtypes
from formats.ir.copies import copied
from formats.ir.model import Tensor, entries
from formats.ir.storage import from_numpy
from formats.onnxpb.value_types import operator_type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy

    from formats.ir.model import Node, Type


SET: Final = 13  # the operator set of the nodes that are written here
RANGE: Final = 11  # the first set with the operator Range
MOST_IN_GRAPH: Final = 64 << 10  # elements of a mask that becomes a constant although it could be computed
MOST: Final = 64 << 20  # elements of a mask that cannot be computed


class Written(NamedTuple):
    """Nodes and constants that do what a node does, with its names; or the reason why there are none."""

    nodes: tuple[Node, ...] = ()
    constants: tuple[Tensor, ...] = ()
    refusal: str = ""


def written(node: Node, types: Mapping[str, Type], constants: Sequence[Tensor], wanted: int) -> Written | None:
    """What does the same as a node in an operator set without its operator; `None` if nothing is known for it."""
    form = _FORMS.get(node.op_type or "")
    return None if form is None else form(node, types, {tensor.name or "": tensor for tensor in constants}, wanted)


def _trilu(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """A part of a matrix by a mask: a constant one if the dims are known, or one that the model computes."""
    import numpy

    data, result = node.input[0], node.output[0]
    kind = types.get(data)
    row = dtypes.BY_NUMBER.get(kind.tensor_type.elem_type or 0) if kind is not None and kind.tensor_type else None
    if kind is None or row is None or row.numpy_name == "bfloat16":
        type_name = operator_type_text(kind)
        return Written(refusal=f"a mask needs a zero of the type of its data, which is {type_name or 'not known'}")
    is_upper = next((attribute.i for attribute in entries(node, "attribute") if attribute.name == "upper"), 1) != 0
    shift = node.input[1] if len(node.input) > 1 else ""
    rows, columns = _last_dims(kind)
    is_known = rows is not None and columns is not None and (not shift or shift in constants)
    count = (rows or 0) * (columns or 0)
    if is_known and count <= (MOST_IN_GRAPH if wanted >= RANGE else MOST):
        part = numpy.triu if is_upper else numpy.tril
        k = int(constants[shift].numpy().ravel()[0]) if shift else 0
        left_out = ~part(numpy.ones((rows or 0, columns or 0), bool), k)
        made: list[Node] = []
        new_constants = [from_numpy(left_out, "mask")]
    else:
        if wanted < RANGE:
            why = f"{count} elements" if is_known else "dims that are not known"
            return Written(refusal=f"its mask would have {why}, and no operator before version {RANGE} computes it")
        made, new_constants = _computed_mask(data, shift, is_upper)
    if row.numpy_name == "bool":
        last = [make_node("Not", ["mask"], ["kept"]), make_node("And", [data, "kept"], [result])]
    else:
        zero = numpy.array("", "object") if row.numpy_name == "object" else numpy.zeros((), row.numpy_name)
        new_constants.append(from_numpy(zero, "zero"))
        last = [make_node("Where", ["mask", "zero", data], [result])]
    return Written((*made, *last), tuple(new_constants))


def _computed_mask(data: str, shift: str, is_upper: bool) -> tuple[list[Node], list[Tensor]]:
    """Nodes that compute which elements a Trilu leaves out, by the numbers of their rows and columns."""
    import numpy

    def number(value: int | list[int], name: str) -> Tensor:
        array: numpy.ndarray = numpy.array(value, "int64")
        return from_numpy(array, name)

    constants = [number(-2, "row_axis"), number(-1, "column_axis"), number(0, "start"), number(1, "step")]
    constants.append(number([-1, 1], "upright"))
    nodes = [make_node("Shape", [data], ["shape"])]
    for word in ("row", "column"):
        nodes.append(make_node("Gather", ["shape", f"{word}_axis"], [f"{word}_count"]))
        nodes.append(make_node("Range", ["start", f"{word}_count", "step"], [f"{word}s"]))
    nodes.append(make_node("Reshape", ["rows", "upright"], ["upright_rows"]))
    if shift:
        nodes.append(make_node("Add", ["upright_rows", shift], ["first"]))
    edge = "first" if shift else "upright_rows"
    nodes.append(make_node("Less", ["columns", edge] if is_upper else [edge, "columns"], ["mask"]))
    return nodes, constants


def _last_dims(kind: Type) -> tuple[int | None, int | None]:
    """The last two dims of a type, as far as they are known."""
    shape = kind.tensor_type.shape if kind.tensor_type is not None else None
    if shape is None or len(shape.dim) < 2:
        return None, None
    rows, columns = shape.dim[-2:]
    return rows.dim_value, columns.dim_value


def _shape(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """Some dims of a value: a slice of all of them, which counts and limits its ends as Shape does."""
    import numpy

    ends = {attribute.name: attribute.i or 0 for attribute in entries(node, "attribute")}
    first, last = ends.get("start", 0), ends.get("end", numpy.iinfo("int64").max)
    slice_ends = (from_numpy(numpy.array([first]), "first"), from_numpy(numpy.array([last]), "last"))
    nodes = (make_node("Shape", [node.input[0]], ["dims"]), make_node("Slice", ["dims", "first", "last"], node.output))
    return Written(nodes, slice_ends)


def _einsum(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """A product of two tensors as a MatMul, where each side has at most one axis of its own."""
    equation = (
        next((attribute.s for attribute in entries(node, "attribute") if attribute.name == "equation"), None) or b""
    )
    terms, arrow, result = equation.decode(errors="replace").replace(" ", "").partition("->")
    sides = terms.split(",")
    if not arrow or len(sides) != 2 or len(node.input) != 2:
        return Written(refusal="only an equation of two inputs with `->` can be written as a MatMul")
    left, right = sides
    if not all(len(set(term)) == len(term) and "." not in term for term in (left, right, result)):
        return Written(refusal="an equation with an ellipsis or with one letter twice is no MatMul")
    batch = "".join(letter for letter in result if letter in left and letter in right)
    summed = "".join(letter for letter in left if letter in right and letter not in result)
    rows, columns = ("".join(letter for letter in side if letter not in batch + summed) for side in sides)
    if len(summed) != 1 or len(rows) > 1 or len(columns) > 1 or set(rows + columns) - set(result):
        return Written(refusal=f"a MatMul sums over one axis and has one more on each side, not {terms}->{result}")
    if set(batch + rows + columns) != set(result):
        return Written(refusal=f"the result of {terms}->{result} has a letter that no input has")
    new_constants: list[Tensor] = []
    nodes: list[Node] = []
    for word, side, order, gap in (
        ("left", left, batch + rows + summed, 0 if rows else -2),
        ("right", right, batch + summed + columns, 0 if columns else -1),
    ):
        perm = [side.index(letter) for letter in order]
        nodes.append(make_node("Transpose", [node.input[word == "right"]], [f"{word}_turned"], perm=perm))
        nodes += _with_axis(f"{word}_turned", f"{word}_matrix", len(order), gap, new_constants)
    made = batch + rows + columns
    nodes.append(make_node("MatMul", ["left_matrix", "right_matrix"], ["product"]))
    missing = [axis for axis, letters in ((-2, rows), (-1, columns)) if not letters]
    at = "product"
    if missing:
        new_constants.append(_axes([len(batch) + 2 + axis for axis in missing], "missing_axes"))
        nodes.append(make_node("Squeeze", ["product", "missing_axes"], ["squeezed"]))
        at = "squeezed"
    perm = [made.index(letter) for letter in result]
    nodes.append(
        make_node("Transpose", [at], node.output, perm=perm) if perm else make_node("Identity", [at], node.output)
    )
    return Written(tuple(nodes), tuple(new_constants))


def _with_axis(name: str, new: str, rank: int, gap: int, new_constants: list[Tensor]) -> list[Node]:
    """A node that gives a value an axis of size one at `gap`, counted from the end; 0 means that it has all axes."""
    if not gap:
        return [make_node("Identity", [name], [new])]
    new_constants.append(_axes([rank + 1 + gap], f"{new}_axis"))
    return [make_node("Unsqueeze", [name, f"{new}_axis"], [new])]


def _axes(numbers: list[int], name: str) -> Tensor:
    import numpy

    return from_numpy(numpy.array(numbers, "int64"), name)


_FORMS: Final[Mapping[str, Callable[[Node, Mapping[str, Type], Mapping[str, Tensor], int], Written]]] = {
    "Einsum": _einsum,
    "Shape": _shape,
    "Trilu": _trilu,
}
WRITTEN: Final = frozenset(_FORMS)


ALIKE: Final = {
    10: "AveragePool MaxPool",
    11: (
        "ArgMax ArgMin AveragePool Compress Concat Constant Conv ConvTranspose DepthToSpace Equal Flatten Gather Gemm "
        "Hardmax If LogSoftmax Loop LpPool MaxPool OneHot ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax "
        "ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Slice Softmax Split Squeeze TopK Unsqueeze"
    ),
    12: "ArgMax ArgMin Clip Constant GatherND Max MaxPool Min Pow ReduceMax ReduceMin",
    13: (
        "Abs Add ArgMax ArgMin Cast Ceil Clip Concat DepthToSpace DequantizeLinear Div Dropout Equal Erf Exp "
        "Expand Flatten Floor Gather GatherElements GatherND Gemm Greater Identity If IsNaN LRN Less Log Loop "
        "MatMul Max Mean MeanVarianceNormalization Min Mod Mul Neg NegativeLogLikelihoodLoss NonZero Pad Pow "
        "QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
        "ReduceProd ReduceSumSquare Relu Reshape Resize ScatterElements ScatterND Shape Sigmoid Sign Size Slice "
        "SoftmaxCrossEntropyLoss SpaceToDepth Sqrt Sub Sum Tanh Tile Transpose"
    ),
    14: "Add BatchNormalization CumSum Div Identity Mul Relu Reshape Sub",
    15: "BatchNormalization Pow Shape",
    16: "Identity If Loop",
    18: "LpPool Pad",
    20: "ConstantOfShape",
    22: "GlobalMaxPool",
}
_ROWS: Final = {(operator, version) for version, names in ALIKE.items() for operator in names.split()}
_SPLIT: Final = ("Split", 18)  # the older form splits evenly, the newer one may leave a smaller part at the end
SCAN: Final = 9  # from this version on, Scan has no axis for batches
FLATTENED: Final = 13  # before this version, Softmax and LogSoftmax take several axes as one
NEGATIVE: Final = 11  # from this version on, an axis may be counted from the end
EVEN: Final = "its last part may be smaller than the others, which Split cannot do before version 18"


def is_alike(operator: str, version: int, *, down: bool) -> bool:
    """Whether the form of `version` does the same as the one before it."""
    return (operator, version) in _ROWS or (down and (operator, version) == _SPLIT)


def ends_to_convert(operator: str, versions: list[int], from_version: int, wanted: int) -> tuple[int, int]:
    """The versions between which another form must be found; both are the same if all forms on the way are alike.

    `versions` are those with a new form of the operator.
    """
    if wanted < from_version:
        steps = [version for version in sorted(versions) if wanted < version <= from_version]
        while steps and is_alike(operator, steps[-1], down=True):
            from_version = steps.pop() - 1
        while steps and is_alike(operator, steps[0], down=True):
            wanted = steps.pop(0)
    else:
        steps = [version for version in sorted(versions) if from_version < version <= wanted]
        while steps and is_alike(operator, steps[0], down=False):
            from_version = steps.pop(0)
        while steps and is_alike(operator, steps[-1], down=False):
            wanted = steps.pop() - 1
    return (from_version, wanted) if steps else (wanted, wanted)


def uneven_split(node: Node, data: Type | None) -> bool:
    """Whether a Split by a number of parts may have a smaller last one."""
    parts = next((attribute.i for attribute in entries(node, "attribute") if attribute.name == "num_outputs"), None)
    if parts is None:
        return False
    axis = next((attribute.i or 0 for attribute in entries(node, "attribute") if attribute.name == "axis"), 0)
    shape = data.tensor_type.shape if data is not None and data.tensor_type is not None else None
    if shape is None or not -len(shape.dim) <= axis < len(shape.dim):
        return True
    size = shape.dim[axis].dim_value
    return size is None or parts < 1 or size % parts != 0


def wrong_in_onnx(node: Node, data: Type | None, from_version: int, wanted: int) -> str:
    """Why onnx's converter is not asked, where its result is known to be wrong."""
    if has_references(node):
        return "an attribute has a value only where its function is called, and onnx's converter would lose it"
    crossed = range(min(from_version, wanted) + 1, max(from_version, wanted) + 1)
    if node.op_type == "Resize" and NEGATIVE in crossed:
        return f"before version {NEGATIVE}, ONNX does not say which places of its input it reads"
    if node.op_type == "Scan" and SCAN in crossed:
        return f"before version {SCAN}, Scan has an axis for batches, and onnx's converter makes no valid model of it"
    if node.op_type in ("LogSoftmax", "Softmax") and FLATTENED in crossed and wanted < from_version:
        axis = next((attribute.i or 0 for attribute in entries(node, "attribute") if attribute.name == "axis"), -1)
        shape = data.tensor_type.shape if data is not None and data.tensor_type is not None else None
        is_last = axis == -1 and wanted >= NEGATIVE if shape is None else axis in (-1, len(shape.dim) - 1)
        if not is_last:
            return f"before version {FLATTENED}, it takes all axes from `axis` on as one; onnx's converter forgets that"
    return ""


def has_references(node: Node) -> bool:
    """Whether an attribute is that of the function around the node."""
    return any(attribute.ref_attr_name for attribute in entries(node, "attribute"))


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


def first_with_inputs(operator: str, from_version: int, wanted: int) -> int | None:
    """The version on the way down in which an operator has inputs that become attributes before it."""
    first = INPUTS.get(operator, (0, ()))[0]
    return first if wanted < first <= from_version else None


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
        elements: Any = constants[value].numpy().ravel().tolist()
        if name == "steps":
            if any(step != 1 for step in elements):
                return f"before version {version}, it has no steps"
            continue
        single = name in ("min", "max", "value", "k")
        if (single and len(elements) != 1) or (not single and not elements):
            return f"its {name} has {len(elements)} elements"
        made.append(
            make_attribute(name, (int(elements[0]) if name == "k" else float(elements[0])) if single else elements)
        )
    node.input = node.input[:1]
    node.attribute = [*node.attribute, *made]
    return ""


def from_the_start(node: Node, data: Type | None, constants: Mapping[str, Tensor], wanted: int) -> tuple[str, str]:
    """Count the axes of a node from the start; or what prevents it, and what is not known to be the same.

    `data` is the type of its first input.
    """
    if wanted >= FROM_THE_END or node.op_type in ALWAYS:
        return "", ""
    for attribute in [attribute for attribute in entries(node, "attribute") if attribute.name in ("axis", "axes")]:
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
        node.attribute = [new if other is attribute else other for other in node.attribute]
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
    node.attribute = [attribute for attribute in entries(node, "attribute") if attribute.name != "axis"]
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

    data, region, scales = [*node.input, "", ""][:3]
    node.input = [data, region or "nothing", scales or "nothing", *node.input[3:]]
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
