"""Makes the model that an .ort file holds: without functions, without operators that lack a kernel, without Constants.

onnxruntime replaces all of these when it loads an .onnx file, but operators that lack a kernel not for an .ort file.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from formats.errors import MissingPackageError, UnsupportedError
from formats.extras import needed
from formats.ir import STANDARD_DOMAINS
from formats.ir.functions import expand_call, expanded_size, functions_of, key_of
from formats.ir.model import Function, Graph, Tensor, Type
from formats.ir.node_order import Names, defined
from formats.ir.node_order import graphs_below as all_graphs
from formats.ir.storage import constant_of
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded
from formats.onnxruntime.operators import operator
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Model, Node, SparseTensor
    from formats.ort.value_types import Types

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
    """The graph, and the graphs in it, without calls of functions."""
    nodes: list[Node] = []
    # Functions may call functions: what replaces a call is looked at again.
    waiting = list(reversed(graph.node))
    while waiting:
        node = waiting.pop()
        function = functions.get(_key(node))
        if function is not None:
            waiting += reversed(expand_call(node, function, names))
        elif any(attribute.g is not None for attribute in node.attribute):
            attributes = [
                attribute if attribute.g is None else replace(attribute, g=_expanded(attribute.g, functions, names))
                for attribute in node.attribute
            ]
            nodes.append(replace(node, attribute=attributes))
        else:
            nodes.append(node)
    return replace(graph, node=nodes)


# Operators without a kernel


def _is_function(node: Node, version: int) -> bool:
    """Whether onnxruntime computes a node only by its function; `version` is that of ONNX's operator set."""
    row = operator("", node.op_type or "", version) if node.domain in STANDARD_DOMAINS else None
    return row is not None and row.mark == "f"


def with_functions(model: Model, types: Mapping[int, Types], version: int) -> Model:
    """The model with nodes that onnxruntime has kernels for; the same object if it has nothing else.

    Raises: UnsupportedError if onnx does not give a function.
    """
    graph = model.graph
    if graph is None or not any(_is_function(node, version) for _, inner in all_graphs(graph) for node in inner.node):
        return model
    names = Names(name for _, inner in all_graphs(graph) for name in defined(inner))
    return replace(model, graph=_replaced(graph, {}, types, version, names))


def _replaced(graph: Graph, outer: Types, types: Mapping[int, Types], version: int, names: Names) -> Graph:
    """The graph, and the graphs in it, with functions in place of nodes; `outer` are the types of the values around."""
    visible = {**outer, **types.get(id(graph), {})}
    nodes: list[Node] = []
    for node in graph.node:
        attributes = [
            attribute
            if attribute.g is None
            else replace(attribute, g=_replaced(attribute.g, visible, types, version, names))
            for attribute in node.attribute
        ]
        whole = replace(node, attribute=attributes) if any(item.g is not None for item in attributes) else node
        if not _is_function(node, version):
            nodes.append(whole)
            continue
        try:
            with needed("onnx", f"the function of {node.op_type}"):
                from onnx import defs
        except MissingPackageError as error:
            raise UnsupportedError(
                f"onnxruntime has no kernel for {node.op_type}, and replaces it only in .onnx files; {error.message}"
            ) from None
        nodes += expand_call(whole, _function(defs, whole, visible, version), names)
    return replace(graph, node=nodes)


def _function(defs: Any, node: Node, types: Types, version: int) -> Function:
    """The function that computes a node."""
    try:
        schema = defs.get_schema(node.op_type, version, "")
        if schema.has_function:
            newest = max(number for number in schema.function_opset_versions if number <= version)
            data = schema.get_function_with_opset_version(newest)
        else:
            newest = max(number for number in schema.context_dependent_function_opset_versions if number <= version)
            input_types = [encoded(types.get(name) or Type()) for name in node.input]
            data = schema.get_context_dependent_function_with_opset_version(newest, encoded(node), input_types)
    except Exception as error:  # SchemaError, ValueError, or what C++ raises
        raise UnsupportedError(f"onnxruntime has no kernel for {node.op_type}, and onnx no function") from error
    if not data:
        raise UnsupportedError(f"onnxruntime has no kernel for {node.op_type}, and onnx no function for these types")
    return decode(Literal(data), Function)


# Constants


def lifted(graph: Graph) -> tuple[list[Node], list[Tensor], list[SparseTensor]]:
    """The nodes of a graph but for Constant nodes, and its constants with those of these nodes."""
    tensors, sparse = list(graph.initializer), list(graph.sparse_initializer)
    nodes: list[Node] = []
    for node in graph.node:
        if node.op_type != "Constant" or node.domain not in STANDARD_DOMAINS:
            nodes.append(node)
            continue
        name = node.output[0] if node.output else ""
        attributes = [attribute for attribute in node.attribute if attribute.name != "saved_as_constant"]
        if len(attributes) != 1 or not name:
            count = len(attributes)
            raise UnsupportedError(f"the Constant {name or node.name or ''} has {count} attributes instead of one")
        (attribute,) = attributes
        if attribute.sparse_tensor is not None and attribute.sparse_tensor.values is not None:
            values = replace(attribute.sparse_tensor.values, name=name)
            sparse.append(replace(attribute.sparse_tensor, values=values))
        elif (tensor := constant_of(attribute)) is not None:
            tensors.append(replace(tensor, name=name))
        else:
            raise UnsupportedError(
                f"the Constant {name} has the attribute {attribute.name}, which is none of its operator"
            )
    return nodes, tensors, sparse
