"""Nodes whose numbers float16 cannot count: 4098 would become 4096.

Sums of many numbers, and sizes, counts, indices and positions that are computed in float32. Those come from integers,
from constants and from inputs of the model, go through operators that compute with few numbers, and end where an
integer, a comparison or an angle is made of them.
"""

from __future__ import annotations

from collections import ChainMap
from enum import IntEnum
from math import prod
from typing import TYPE_CHECKING, Final

from formats.editing.float16_nodes import float_kind, inner_graphs, is_constant_node
from formats.editing.scopes import shape_of
from formats.ir import STANDARD_DOMAINS, walk
from formats.ir.attributes import attribute_named
from formats.ir.dtypes import BOOL
from formats.ir.model import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from formats.ir.model import Graph, Node, Tensor, TensorShape, ValueInfo

# Operators through which a number that is exact stays a number of the same kind.
_PASSING_NAMES = (
    "Abs Add Cast Ceil Clip Concat Div Exp Expand Flatten Floor Gather GatherElements GatherND Identity Log Max Mean "
    "Min Mod Mul Neg Pow Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round Sign Slice Split "
    "Sqrt Squeeze Sub Sum Tile Transpose Unsqueeze Where"
)
_PASSING: Final = frozenset(_PASSING_NAMES.split())
_COMPARING: Final = ("Cos", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Sin")
_SUMMING: Final = ("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare")
_OF_SUM: Final = (
    "Add",
    "Div",
    "Log",
    "Mul",
    "Pow",
    "Reciprocal",
    "Sqrt",
    "Squeeze",
    "Unsqueeze",
    "Reshape",
    "Identity",
)
MOST_ADDED = 2047  # numbers of 32 each, whose sum is 65504, the largest number of float16


class Origin(IntEnum):
    """Where a number comes from that may be exact; of several, the largest counts."""

    OTHER = 0  # it is the result of much computation
    CONSTANT = 1
    INPUT = 2  # of the model
    INTEGERS = 3


class ExactNumbers:
    """The nodes, by identity, that compute with exact numbers for sizes and the like, and what those of a graph use."""

    def __init__(self, types_by_graph: Mapping[str, Mapping[str, str]]) -> None:
        self.nodes: set[int] = set()
        self._types_by_graph = types_by_graph

    def find(
        self,
        graph: Graph,
        where: str = "graph",
        outer_types: ChainMap[str, str] | None = None,
        outer: ChainMap[str, Origin] | None = None,
    ) -> set[str]:
        """Find the nodes in a graph and its subgraphs; return the floats that they use.

        `outer_types` and `outer` are the types and the origins of values around a subgraph.
        """
        types = (outer_types or ChainMap()).new_child({**self._types_by_graph.get(where, {})})
        of_input = Origin.INPUT if outer is None else Origin.OTHER
        origins = (outer or ChainMap()).new_child({value.name or "": of_input for value in graph.input})
        origins.update((tensor.name or "", Origin.CONSTANT) for tensor in graph.initializer)

        def is_float(name: str) -> bool:
            return float_kind(types.get(name, "")) == "tensor"

        for node in graph.node:
            origin = _origin(node, is_float, origins)
            origins.update((name, origin if is_float(name) else Origin.OTHER) for name in node.output)
        used: set[str] = set()
        for index, node in reversed([*enumerate(graph.node)]):
            for inner, at in inner_graphs(node, walk.inner_place(where, "node", index)):
                used |= self.find(inner, at, types, origins)
            floats = [name for name in node.input if is_float(name)]
            froms = [origins.get(name, Origin.OTHER) for name in floats]
            is_needed = not used.isdisjoint(node.output) and _origin(node, is_float, origins) > Origin.OTHER
            is_needed |= all(froms) and _is_end(node, is_float, max(froms, default=Origin.OTHER))
            if is_needed and not is_constant_node(node):
                self.nodes.add(id(node))
                used.update(floats)
        return used


def _origin(node: Node, is_float: Callable[[str], bool], origins: Mapping[str, Origin]) -> Origin:
    """Where the numbers that a node makes come from."""
    if node.domain not in STANDARD_DOMAINS:
        return Origin.OTHER
    if is_constant_node(node) or node.op_type == "ConstantOfShape":
        return Origin.CONSTANT
    if node.op_type == "Range":
        return Origin.INTEGERS
    if node.op_type not in _PASSING:
        return Origin.OTHER
    floats = [origins.get(name, Origin.OTHER) for name in node.input if is_float(name)]
    if not floats:  # a Cast of integers
        return Origin.INTEGERS if node.op_type == "Cast" else Origin.OTHER
    return max(floats) if all(floats) else Origin.OTHER


def _is_end(node: Node, is_float: Callable[[str], bool], origin: Origin) -> bool:
    """Whether a node makes an integer of a number, or something that its last digits decide."""
    if node.domain not in STANDARD_DOMAINS or origin < Origin.INPUT:
        return False
    if node.op_type == "Cast" and not any(map(is_float, node.output)):
        to = attribute_named(node, "to")
        return origin == Origin.INTEGERS or to is None or to.i != BOOL
    return node.op_type in _COMPARING and origin == Origin.INTEGERS


def large_sums(graph: Graph, constants: Mapping[str, Tensor]) -> frozenset[int]:
    """The nodes, by identity, that add more numbers than float16 can count, and those that scale such a sum."""
    dims = {value.name or "": shape for value in _described(graph) if (shape := shape_of(value)) is not None}
    sums: set[str] = set()
    nodes: set[int] = set()
    for node in graph.node:
        if node.domain not in STANDARD_DOMAINS:
            continue
        is_of_sum = node.op_type in _OF_SUM and not sums.isdisjoint(node.input)
        if is_of_sum or (node.op_type in _SUMMING and _added(node, dims, constants) > MOST_ADDED):
            nodes.add(id(node))
            sums.update(node.output)
    return frozenset(nodes)


def _described(graph: Graph) -> list[ValueInfo]:
    return [*graph.input, *entries(graph, "value_info")]


def _added(node: Node, dims: Mapping[str, TensorShape], constants: Mapping[str, Tensor]) -> int:
    """How many numbers a node adds, as far as it is known."""
    if not node.input or node.input[0] not in dims:
        return 0
    sizes = [dim.dim_value or 1 for dim in dims[node.input[0]].dim]
    stated = attribute_named(node, "axes")
    axes = [] if stated is None else [*stated.ints]
    if len(node.input) > 1 and node.input[1]:
        if node.input[1] not in constants:
            return 0
        axes = constants[node.input[1]].numpy().ravel().tolist()
    return prod(sizes[axis] for axis in axes if -len(sizes) <= axis < len(sizes)) if axes else prod(sizes)
