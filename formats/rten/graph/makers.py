"""Which node makes each value of a graph, to find the nodes that a rewriting wrote for one operator."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from formats.ir import dtypes
from formats.ir.node_order import all_mentioned
from formats.rten.graph.attributes import MALFORMED
from formats.rten.spec import Deviation
from formats.tensordata.plan import USE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from formats.ir.model import Graph, Node, Tensor, TensorType
    from formats.rten.convert.context import Context
    from formats.rten.spec import Folding

_FOLDED = Deviation(
    "RTen's own ONNX loader does not compute what ONNX defines; `runtime` writes a form that it runs", USE
)
MAX_LENGTH = 64  # of a constant that decides a form


class Makers:
    """The nodes of a graph by the values that they make."""

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self._graph = graph
        self._nodes = {name: node for node in nodes for name in node.output if name}

    @cached_property
    def _used(self) -> set[str]:
        return all_mentioned(self._graph.node).union(value.name or "" for value in self._graph.output)

    @cached_property
    def _tensors(self) -> dict[str | None, Tensor]:
        return {tensor.name: tensor for tensor in self._graph.initializer}

    @cached_property
    def _types(self) -> dict[str | None, TensorType]:
        return {
            value.name: value.type.tensor_type
            for value in chain(self._graph.input, self._graph.value_info)
            if value.type is not None and value.type.tensor_type is not None
        }

    def maker(self, name: str, operator: str) -> Node | None:
        """The node that makes a value, if it is one of that operator."""
        node = self._nodes.get(name)
        return node if node is not None and node.op_type == operator else None

    def match(self, node: Node, operator: str, *makers: str) -> list[Node] | None:
        """The nodes that make the first inputs of a node, if it and they are of these operators; else `None`."""
        if node.op_type != operator or len(node.input) < len(makers):
            return None
        candidates = [self.maker(name, maker) for name, maker in zip(node.input, makers, strict=False)]
        input_nodes = [maker for maker in candidates if maker is not None]
        return input_nodes if len(input_nodes) == len(makers) else None

    def is_used(self, name: str) -> bool:
        """Whether a node or the caller uses a value."""
        return name in self._used

    def integers(self, name: str) -> list[int] | None:
        """The elements of a small constant of integers, flat."""
        tensor = self._tensors.get(name)
        if tensor is None or len(tensor.dims) > 1 or any(dim > MAX_LENGTH for dim in tensor.dims):
            return None
        array = tensor.numpy()
        return [int(number) for number in array.ravel()] if array.dtype.kind in "iu" else None

    def number(self, name: str) -> float | None:
        """The element of a constant of one element."""
        tensor = self._tensors.get(name)
        return float(tensor.numpy().ravel()[0]) if tensor is not None and dtypes.count(tensor.dims) == 1 else None

    def elem_type(self, name: str) -> int | None:
        """The element type of a constant, an input or a value whose type is declared."""
        tensor, declared = self._tensors.get(name), self._types.get(name)
        return tensor.data_type if tensor is not None else declared.elem_type if declared is not None else None

    def rank(self, name: str) -> int | None:
        """The number of dims of a constant, an input or a value whose type is declared."""
        tensor, declared = self._tensors.get(name), self._types.get(name)
        if tensor is not None:
            return len(tensor.dims)
        return None if declared is None or declared.shape is None else len(declared.shape.dim)


def folded(graph: Graph, foldings: Mapping[str | None, Sequence[Folding]]) -> tuple[Graph, Mapping[int, Node]]:
    """The graph, with one node in place of those that a rewriting wrote for it; and these nodes by `id`.

    `foldings` are by the operator of the ends of these nodes.
    """
    ends = [(index, node) for index, node in enumerate(graph.node) if node.op_type in foldings]
    replacements: dict[int, Node] = {}
    if not ends:  # as in most graphs, which are then not searched
        return graph, replacements
    nodes = list(graph.node)
    makers = Makers(graph, nodes)
    for index, node in ends:
        try:
            replacement = next(filter(None, (folding.fold(node, makers) for folding in foldings[node.op_type])), None)
        except MALFORMED:  # it, or a node before it, is refused as such later
            continue
        if replacement is not None:
            nodes[index] = replacements[id(replacement)] = replacement
    return (replace(graph, node=_used(graph, nodes)) if replacements else graph), replacements


def _used(graph: Graph, nodes: list[Node]) -> list[Node]:
    """The nodes without those whose outputs nothing uses any more."""
    # A node whose outputs nothing used before stays: it is an operator of the file, and not a part of a rewriting.
    before = all_mentioned(graph.node)
    while True:
        used = all_mentioned(nodes) | {value.name or "" for value in graph.output}  # by what is left
        used_nodes = [node for node in nodes if not used.isdisjoint(node.output) or before.isdisjoint(node.output)]
        if len(used_nodes) == len(nodes):
            return used_nodes
        nodes = used_nodes


def folded_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    """The report of a node that was several nodes in the file."""
    return (_FOLDED,)
