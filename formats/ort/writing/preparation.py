"""Makes the model that an .ort file holds: without functions and Constant nodes, which onnxruntime replaces, too."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from formats.errors import UnsupportedError
from formats.ir import dtypes
from formats.ir.functions import expand, expanded_size, functions_of, key_of
from formats.ir.model import Tensor
from formats.ir.node_order import Names, defined
from formats.ir.node_order import graphs as all_graphs
from formats.ir.storage import with_raw_data
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Attribute, Function, Graph, Model, Node, SparseTensor

    Key = tuple[str, str, str]

MAX_NODES = 1_000_000  # more tables than onnxruntime reads
MAX_CALLS = 100  # nested calls of functions


def without_functions(model: Model) -> Model:
    """The model with the nodes of its functions in place of the nodes that call them.

    Raises: UnsupportedError if functions call themselves, or make too many nodes.
    """
    functions = functions_of(model.functions)
    if not functions or model.graph is None:
        return model
    sizes: dict[Key, float] = {}
    for key in functions:
        if expanded_size(key, functions, sizes, MAX_CALLS) == inf:
            raise UnsupportedError(
                f"the function {key[1]} of the model calls itself, or functions are nested too deeply"
            )
    calls = sum(sizes.get(_key(node), 1) for _, graph in all_graphs(model.graph) for node in graph.node)
    if calls > MAX_NODES:
        raise UnsupportedError(f"without its functions, the model has {calls:.0f} nodes; at most {MAX_NODES} fit")
    names = Names(name for _, graph in all_graphs(model.graph) for name in defined(graph))
    return replace(model, graph=_expanded(model.graph, functions, names), functions=[])


def _key(node: Node) -> Key:
    return key_of(node.domain, node.op_type, node.overload)


def _expanded(graph: Graph, functions: Mapping[Key, Function], names: Names) -> Graph:
    nodes: list[Node] = []
    waiting = list(reversed(graph.node))
    while waiting:
        node = waiting.pop()
        function = functions.get(_key(node))
        if function is not None:
            waiting += reversed(expand(node, function, names))
        elif any(attribute.g is not None for attribute in node.attribute):
            attributes = [
                attribute if attribute.g is None else replace(attribute, g=_expanded(attribute.g, functions, names))
                for attribute in node.attribute
            ]
            nodes.append(replace(node, attribute=attributes))
        else:
            nodes.append(node)
    return replace(graph, node=nodes)


def lifted(graph: Graph) -> tuple[list[Node], list[Tensor], list[SparseTensor]]:
    """The nodes of a graph but for Constant nodes, and its constants with those of these nodes."""
    tensors, sparse = list(graph.initializer), list(graph.sparse_initializer)
    nodes: list[Node] = []
    for node in graph.node:
        if node.op_type != "Constant" or node.domain not in (None, "", "ai.onnx"):
            nodes.append(node)
            continue
        name = node.output[0] if node.output else ""
        held = [attribute for attribute in node.attribute if attribute.name != "saved_as_constant"]
        if len(held) != 1 or not name:
            raise UnsupportedError(f"the Constant {name or node.name or ''} has {len(held)} attributes instead of one")
        (attribute,) = held
        if attribute.sparse_tensor is not None and attribute.sparse_tensor.values is not None:
            values = replace(attribute.sparse_tensor.values, name=name)
            sparse.append(replace(attribute.sparse_tensor, values=values))
        else:
            tensors.append(_constant(attribute, name))
    return nodes, tensors, sparse


def _constant(attribute: Attribute, name: str) -> Tensor:
    """The tensor of a Constant node."""
    import struct

    if attribute.t is not None:
        return replace(attribute.t, name=name)
    if attribute.name in ("value_string", "value_strings"):
        strings = attribute.strings if attribute.name == "value_strings" else [attribute.s or b""]
        dims = [len(strings)] if attribute.name == "value_strings" else []
        return Tensor(name=name, data_type=dtypes.STRING, dims=dims, string_data=list(strings))
    values: Any
    if attribute.name in ("value_float", "value_floats"):
        values = attribute.floats if attribute.name == "value_floats" else [attribute.f or 0.0]
        number, letter = dtypes.FLOAT, "f"
    elif attribute.name in ("value_int", "value_ints"):
        values = attribute.ints if attribute.name == "value_ints" else [attribute.i or 0]
        number, letter = dtypes.INT64, "q"
    else:
        raise UnsupportedError(f"the Constant {name} has the attribute {attribute.name}, which is none of its operator")
    dims = [len(values)] if (attribute.name or "").endswith("s") else []
    data = Literal(struct.pack(f"<{len(values)}{letter}", *values))
    return with_raw_data(Tensor(name=name, data_type=number, dims=dims), data)
