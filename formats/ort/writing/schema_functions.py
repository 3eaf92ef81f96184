"""Replaces operators for which onnxruntime has no kernel by the functions that define them in ONNX.

onnxruntime does so when it loads an .onnx file, but not for an .ort file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from formats.errors import MissingPackageError, UnsupportedError
from formats.extras import needed
from formats.ir.functions import expand
from formats.ir.model import Function, Graph, Type
from formats.ir.node_order import Names, defined
from formats.ir.node_order import graphs as all_graphs
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encode
from formats.ort.writing.operators import ONNX, operator
from formats.tensordata.plan import lay_out
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.model import Message, Model, Node
    from formats.ort.writing.types import Types


def is_function(node: Node, version: int) -> bool:
    """Whether onnxruntime computes a node only by its function; `version` is that of ONNX's operator set."""
    row = operator("", node.op_type or "", version) if node.domain in (None, "", ONNX) else None
    return row is not None and row.mark == "f"


def with_functions(model: Model, types: Mapping[int, Types], version: int) -> Model:
    """The model with nodes that onnxruntime has kernels for; the same object if it has nothing else.

    Raises: UnsupportedError if onnx does not give a function.
    """
    graph = model.graph
    if graph is None or not any(is_function(node, version) for _, each in all_graphs(graph) for node in each.node):
        return model
    names = Names(name for _, each in all_graphs(graph) for name in defined(each))
    return replace(model, graph=_replaced(graph, {}, types, version, names))


def _replaced(graph: Graph, outer: Types, types: Mapping[int, Types], version: int, names: Names) -> Graph:
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
        if not is_function(node, version):
            nodes.append(whole)
            continue
        try:
            with needed("onnx", f"the function of {node.op_type}"):
                from onnx import defs
        except MissingPackageError as error:
            raise UnsupportedError(
                f"onnxruntime has no kernel for {node.op_type}, and replaces it only in .onnx files; {error.message}"
            ) from None
        nodes += expand(whole, _function(defs, whole, visible, version), names)
    return replace(graph, node=nodes)


def _function(defs: Any, node: Node, types: Types, version: int) -> Function:
    """The function that computes a node."""
    try:
        schema = defs.get_schema(node.op_type, version, "")
        if schema.has_function:
            found = max(number for number in schema.function_opset_versions if number <= version)
            data = schema.get_function_with_opset_version(found)
        else:
            found = max(number for number in schema.context_dependent_function_opset_versions if number <= version)
            given = [_bytes(types.get(name) or Type()) for name in node.input]
            data = schema.get_context_dependent_function_with_opset_version(found, _bytes(node), given)
    except Exception as error:  # SchemaError, ValueError, or what C++ raises
        text = " ".join(str(error).split())[:200]
        raise UnsupportedError(f"onnxruntime has no kernel for {node.op_type}, and onnx no function: {text}") from None
    if not data:
        raise UnsupportedError(f"onnxruntime has no kernel for {node.op_type}, and onnx no function for these types")
    return decode(Literal(data), Function)


def _bytes(message: Message) -> bytes:
    writes, _ = lay_out(encode(message))
    return b"".join(write.source.read() for write in writes)
