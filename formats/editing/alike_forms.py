"""Forms of ONNX's operators that differ only in what they accept, for which the package onnx has no adapters.

A row is a version of ai.onnx, and the operators whose form of this version does what the form before it does: it only
accepts more types, or has a further attribute or input without which it means the same. Whether a node uses what only
the newer form has is checked afterwards: types, attributes, the number of inputs, and axes that count from the end.

Spec: ONNX docs, Changelog.md, compared by hand with the form before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.model import entries

if TYPE_CHECKING:
    from formats.ir.model import Node, Type

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


def ends_to_convert(operator: str, versions: list[int], given: int, wanted: int) -> tuple[int, int]:
    """The versions between which another form must be found; both are the same if all forms on the way are alike.

    `versions` are those with a new form of the operator.
    """
    if wanted < given:
        steps = [version for version in sorted(versions) if wanted < version <= given]
        while steps and is_alike(operator, steps[-1], down=True):
            given = steps.pop() - 1
        while steps and is_alike(operator, steps[0], down=True):
            wanted = steps.pop(0)
    else:
        steps = [version for version in sorted(versions) if given < version <= wanted]
        while steps and is_alike(operator, steps[0], down=False):
            given = steps.pop(0)
        while steps and is_alike(operator, steps[-1], down=False):
            wanted = steps.pop() - 1
    return (given, wanted) if steps else (wanted, wanted)


def uneven_split(node: Node, data: Type | None) -> bool:
    """Whether a Split by a number of parts may have a smaller last one."""
    parts = next((each.i for each in entries(node, "attribute") if each.name == "num_outputs"), None)
    if parts is None:
        return False
    axis = next((each.i or 0 for each in entries(node, "attribute") if each.name == "axis"), 0)
    shape = data.tensor_type.shape if data is not None and data.tensor_type is not None else None
    if shape is None or not -len(shape.dim) <= axis < len(shape.dim):
        return True
    size = shape.dim[axis].dim_value
    return size is None or parts < 1 or size % parts != 0


def wrong_in_onnx(node: Node, data: Type | None, given: int, wanted: int) -> str:
    """Why onnx's converter is not asked, where its result is known to be wrong."""
    if has_references(node):
        return "an attribute has a value only where its function is called, and onnx's converter would lose it"
    crossed = range(min(given, wanted) + 1, max(given, wanted) + 1)
    if node.op_type == "Resize" and NEGATIVE in crossed:
        return f"before version {NEGATIVE}, ONNX does not say which places of its input it reads"
    if node.op_type == "Scan" and SCAN in crossed:
        return f"before version {SCAN}, Scan has an axis for batches, and onnx's converter makes no valid model of it"
    if node.op_type in ("LogSoftmax", "Softmax") and FLATTENED in crossed and wanted < given:
        axis = next((each.i or 0 for each in entries(node, "attribute") if each.name == "axis"), -1)
        shape = data.tensor_type.shape if data is not None and data.tensor_type is not None else None
        is_last = axis == -1 and wanted >= NEGATIVE if shape is None else axis in (-1, len(shape.dim) - 1)
        if not is_last:
            return f"before version {FLATTENED}, it takes all axes from `axis` on as one; onnx's converter forgets that"
    return ""


def has_references(node: Node) -> bool:
    """Whether an attribute is that of the function around the node."""
    return any(each.ref_attr_name for each in entries(node, "attribute"))
