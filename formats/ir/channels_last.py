"""Operators of onnxruntime that have the channels last, as ONNX's operators.

They read and write values of that form, but their weights stay as they were.

Spec: onnxruntime, core/graph/contrib_ops/internal_nhwc_onnx_schemas.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.ir.model import Attribute, Node

if TYPE_CHECKING:
    from formats.ir.model import Graph
    from formats.ir.node_order import Names

BLOCKED: Final = "com.microsoft.nchwc"
CHANNELS_LAST: Final = "com.ms.internal.nhwc"
INTS: Final = 7  # AttributeProto.AttributeType
# The operators whose first input and first output have the channels last, and nothing else.
MOVED: Final = (
    *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"),
    *("Conv", "ConvInteger", "ConvTranspose", "QLinearConv", "BatchNormalization", "InstanceNormalization", "LRN"),
    *("DepthToSpace", "SpaceToDepth"),
)


def moved(node: Node, graph: Graph, names: Names) -> list[Node]:
    """A node that has the channels last as ONNX's operator between two Transposes; others as they are."""
    if node.domain != CHANNELS_LAST or node.op_type not in MOVED or any(node.output[1:]):
        return [node]
    rank = _rank(node, graph)
    if rank is None or rank < 3 or not node.input:
        return [node]
    given, result = node.input[0], node.output[0]
    first, last = names.new(f"{result}/channels_first"), names.new(f"{result}/channels_second")
    node.input[0], node.output[0], node.domain = first, last, ""
    there, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return [transpose(given, first, there), node, transpose(last, result, back)]


def _rank(node: Node, graph: Graph) -> int | None:
    """The number of axes of a node's first input or first output, if the node or the graph says it."""
    for attribute in node.attribute:
        if attribute.name == "kernel_shape":
            return len(attribute.ints) + 2
    wanted = {node.input[0] if node.input else "", node.output[0]} - {""}
    for value in (*graph.value_info, *graph.input, *graph.output):
        if value.name in wanted and value.type and value.type.tensor_type and value.type.tensor_type.shape:
            return len(value.type.tensor_type.shape.dim)
    return None


def transpose(given: str, result: str, order: list[int]) -> Node:
    """A Transpose."""
    return Node(
        op_type="Transpose", input=[given], output=[result], attribute=[Attribute(name="perm", type=INTS, ints=order)]
    )
