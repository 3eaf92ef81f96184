"""The types and dims of all values of a model, and its multiply-accumulates, for `inspect`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from formats.editing.dims import set_dims_in
from formats.editing.element_types.conversion import expand_calls
from formats.editing.folding import FOLDED, constants_of
from formats.editing.inference import infer_known_in
from formats.editing.macs import dim_of, macs_of
from formats.editing.nodes import constant_node
from formats.editing.scopes import main_graph, shape_of
from formats.editing.surgery import in_order
from formats.errors import ExternalDataError, UnsupportedError
from formats.ir import STANDARD_DOMAINS, walk
from formats.ir.copies import copied
from formats.ir.model import ValueInfo, entries, type_of_tensor
from formats.ir.storage import from_numpy
from formats.ir.summary import type_with_dims
from formats.onnxpb.value_types import type_of, value_types
from formats.verbs.steps.planning import raise_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.editing.macs import MacCount
    from formats.ir.model import Graph, Model

MOST_ROUNDS: Final = 16  # of inferring types, and computing shapes of them


class ValueShape(NamedTuple):
    """A value of a graph, its type in the text form of ONNX, such as `float[N,3,224,224]`, and its dims.

    `kind` is "input", "initializer" or "node", which says what makes the value. An unknown type is empty. `dims` is
    missing if the rank is not known, and of a value that is no tensor; a dim is a size, a name, or `None`.
    """

    where: str  # the graph
    name: str
    kind: str
    type: str
    dims: tuple[int | str | None, ...] | None

    def to_json(self) -> dict[str, Any]:
        """The value in strings, numbers, lists and `None`."""
        return {**self._asdict(), "dims": None if self.dims is None else list(self.dims)}


class Shapes(NamedTuple):
    """The values of all graphs, the multiply-accumulates, and what is not inferred or was wrong, in words."""

    values: tuple[ValueShape, ...] | None
    macs: MacCount | None
    notes: tuple[str, ...]


def shapes_of_model(model: Model, *, lists_values: bool, counts_macs: bool, dim: Mapping[str, int | str]) -> Shapes:
    """The values of a model, or its multiply-accumulates, or both, as if its dims had these sizes.

    Nobody else may use the model: it gets types.

    Raises: EditError for a dim that the model does not have, or a size that does not fit it.
    """
    new, _ = raise_model(model)
    if new.graph is None:
        return Shapes(() if lists_values else None, None, ("the model has no graph",))
    notes: list[str] = []
    if dim:
        before, new = new, copied(new)
        notes += [loss.summary for loss in set_dims_in(new, dim, before).losses]
    new, _ = in_order(new, own=True)
    values = macs = None
    if lists_values:
        notes += _infer_in(new)
        values = tuple(_values(new))
    if counts_macs:
        try:
            has_calls = expand_calls(new, "counting") > 0  # the values of functions have no types
        except UnsupportedError as error:
            has_calls = True
            notes.append(error.message)
        if has_calls or not lists_values:
            notes += _infer_in(new)
        macs = macs_of(new)
    return Shapes(values, macs, tuple(dict.fromkeys(notes)))


def _infer_in(model: Model) -> list[str]:
    """Add all types that onnx infers, and return what is not known, or was wrong.

    It follows only some of the nodes that compute a shape, so these become constants, as long as there are any.
    """
    notes: list[str] = []
    try:
        notes += infer_known_in(model)
        for _ in range(MOST_ROUNDS):
            if not _fold_shapes_in(model):
                break
            notes += infer_known_in(model)
    except ExternalDataError as error:  # a shape is there
        notes.append(f"not all is inferred; {error.message}")
    return notes


def _fold_shapes_in(model: Model) -> bool:
    """Make constants of the nodes that compute dims, or something of constants; whether there were any."""
    graph = main_graph(model)
    described = _described(graph)
    shapes = {name: shape for name, value in described.items() if (shape := shape_of(value)) is not None}
    before, nodes = [*graph.node], graph.node
    for index, node in enumerate(before):
        is_plain = node.op_type == "Shape" and node.domain in STANDARD_DOMAINS and not entries(node, "attribute")
        if is_plain and len(node.input) == len(node.output) == 1 and node.input[0] in shapes:
            sizes = [*map(dim_of, shapes[node.input[0]].dim)]
            if all(isinstance(size, int) for size in sizes):
                nodes[index] = constant_node(from_numpy(np.array(sizes, "int64"), node.output[0]))
    constants = constants_of(model)
    for index, node in enumerate(before):
        if node.op_type in FOLDED and len(node.output) == 1 and (tensor := constants.get(node.output[0])) is not None:
            nodes[index] = constant_node(tensor)
    return any(new is not old for new, old in zip(nodes, before, strict=True))


def _values(model: Model) -> Iterator[ValueShape]:
    """The values of all graphs of a model."""
    known = value_types(model)  # onnx knows no operators of com.microsoft
    for where, graph in walk.graphs(model):
        types = _described(graph)
        tensors = {tensor.name or "": tensor for tensor in graph.initializer}
        sparse = {entry.values.name or "" for entry in entries(graph, "sparse_initializer") if entry.values}
        kinds = dict.fromkeys((value.name or "" for value in graph.input), "input")
        kinds.update(dict.fromkeys((*tensors, *sparse), "initializer"))
        kinds.update((name, "node") for node in graph.node for name in node.output if name)
        for name, kind in kinds.items():
            value = types.get(name) or ValueInfo(name)
            if name in tensors:
                value = ValueInfo(name, type_of_tensor(tensors[name]))
            elif not type_with_dims(value.type):
                value = ValueInfo(name, type_of(known.get(id(graph), {}).get(name, "")))
            shape = shape_of(value)
            dims = None if shape is None else tuple(map(dim_of, shape.dim))
            yield ValueShape(where, name, kind, type_with_dims(value.type), dims)


def _described(graph: Graph) -> dict[str, ValueInfo]:
    """What a graph says of its values, by name."""
    values = (*entries(graph, "value_info"), *graph.output, *graph.input)
    return {value.name or "": value for value in values if value.type is not None}
