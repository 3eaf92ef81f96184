"""The types of all values of a model, which onnxruntime does not look up when it loads an .ort file.

They are those that the model states, those that onnx infers, and those that operators imply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import MissingPackageError
from formats.ir import ONNX, domain_key, dtypes
from formats.ir.model import (
    Tensor,
    TensorType,
    Type,
    type_of_tensor,
)
from formats.ir.node_order import subgraphs
from formats.ir.walk import graphs
from formats.onnxpb.inference import inferred
from formats.onnxruntime.operators import operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.ir.model import Graph, Model, Node, ValueInfo

Types = dict[str, Type]
# The attributes that say the element type of a result, and the type without it: `None` is that of the first input.
_BY_ATTRIBUTE: dict[str, tuple[str, int | None]] = {
    "Bernoulli": ("dtype", None),
    "BitCast": ("to", None),
    "BlackmanWindow": ("output_datatype", dtypes.FLOAT),
    "Cast": ("to", None),
    "EyeLike": ("dtype", None),
    "HammingWindow": ("output_datatype", dtypes.FLOAT),
    "HannWindow": ("output_datatype", dtypes.FLOAT),
    "MelWeightMatrix": ("output_datatype", dtypes.FLOAT),
    "Multinomial": ("dtype", dtypes.INT32),
    "RandomNormal": ("dtype", dtypes.FLOAT),
    "RandomNormalLike": ("dtype", None),
    "RandomUniform": ("dtype", dtypes.FLOAT),
    "RandomUniformLike": ("dtype", None),
}
_SECOND_SAYS = {"DequantizeLinear": 1, "QuantizeLinear": 2}  # the input whose element type the result has


# The types of all values


def known(value: ValueInfo) -> Type | None:
    """The type of a value, if it says what the elements are."""
    kind = value.type
    if kind is None or (kind.tensor_type is not None and not kind.tensor_type.elem_type):
        return None
    return kind if any(getattr(kind, name) is not None for name in kind.oneof) else None


def of_elements(number: int) -> Type:
    """The type of tensors with these elements, whose shape is not known."""
    return Type(tensor_type=TensorType(elem_type=number))


def stated(graph: Graph) -> Types:
    """The types that a graph states by itself."""
    types = {value.name or "": kind for value in _values(graph) if (kind := known(value)) is not None}
    types |= {tensor.name or "": type_of_tensor(tensor) for tensor in graph.initializer}
    for sparse in graph.sparse_initializer:
        if sparse.values is not None:
            dense = Tensor(dims=sparse.dims, data_type=sparse.values.data_type)
            types[sparse.values.name or ""] = type_of_tensor(dense)
    return types


def _values(graph: Graph) -> Iterator[ValueInfo]:
    yield from graph.value_info
    yield from graph.output
    yield from graph.input


def types_by_graph(model: Model) -> dict[int, Types]:
    """The types of the values of each graph that are known, by the `id` of the graph."""
    all_graphs = [graph for _, graph in graphs(model)]
    types_of = {id(graph): stated(graph) for graph in all_graphs}
    # onnx is asked only if the model does not state the types of all results.
    if all(name in types_of[id(graph)] for graph in all_graphs for node in graph.node for name in node.output if name):
        return types_of
    try:
        more = inferred(model)
    except MissingPackageError:
        more = None
    if more is not None:
        for graph, other in zip(all_graphs, (other for _, other in graphs(more)), strict=True):
            types_of[id(graph)] = stated(other) | types_of[id(graph)]
    versions = {entry.domain or "": entry.version or 1 for entry in model.opset_import}
    versions[""] = max(versions.pop(ONNX, 0), versions.get("", 0))
    if model.graph is not None:
        _follow(model.graph, {}, types_of, versions)
    return types_of


def _follow(graph: Graph, outer: Mapping[str, Type], types_of: dict[int, Types], versions: Mapping[str, int]) -> None:
    """Add the types that follow from the operators, the graphs in nodes first."""
    types = types_of[id(graph)]
    visible = {**outer, **types}
    for node in graph.node:
        inner = [graph for _, _, graph in subgraphs((node,))]
        for subgraph in inner:
            _follow(subgraph, visible, types_of, versions)
        for index, name in enumerate(node.output):
            if name and name not in types:
                kind = _result(node, index, visible, versions) or _inner_result(node, index, inner, types_of)
                if kind is not None:
                    types[name] = visible[name] = kind


def _result(node: Node, index: int, types: Mapping[str, Type], versions: Mapping[str, int]) -> Type | None:
    """The type of a result without its shape, as far as the operator says it."""
    domain = domain_key(node.domain)
    if domain == "" and node.op_type in _BY_ATTRIBUTE:
        name, number = _BY_ATTRIBUTE[node.op_type]
        stated_type = _integer(node, name)
        if stated_type or number:
            return of_elements(stated_type or number or 0)
    if domain == "" and node.op_type == "ConstantOfShape":
        value = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
        return of_elements(dtypes.FLOAT if value is None else value.data_type or 0)
    if node.op_type in _SECOND_SAYS:
        stated_type = _integer(node, "output_dtype")
        place = _SECOND_SAYS[node.op_type]
        if stated_type:
            return of_elements(stated_type)
        if place >= len(node.input) or not node.input[place]:
            return of_elements(dtypes.UINT8)
        return _as_input(node, place, types)
    row = operator(domain, node.op_type or "", versions.get(domain, 1))
    source = row.output(index) if row else "?"
    if source == "?":
        return _as_input(node, 0, types) if domain == "" and node.op_type in _BY_ATTRIBUTE else None
    return _as_input(node, int(source[1:]), types) if source.startswith("i") else of_elements(int(source))


def _integer(node: Node, name: str) -> int | None:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), None)


def _as_input(node: Node, index: int, types: Mapping[str, Type]) -> Type | None:
    """The type of an input, without its shape."""
    kind = types.get(node.input[index]) if index < len(node.input) else None
    if kind is None or kind.tensor_type is None:
        return kind
    return of_elements(kind.tensor_type.elem_type or 0)


def _inner_result(node: Node, index: int, inner: list[Graph], types_of: dict[int, Types]) -> Type | None:
    """The type of a result of If or Loop, as the graph in the node computes it; its shape may differ."""
    if node.op_type not in ("If", "Loop") or not inner:
        return None
    place = index + (node.op_type == "Loop")  # the first result of a body is its condition
    results = inner[0].output
    kind = types_of[id(inner[0])].get(results[place].name or "") if place < len(results) else None
    # A Loop stacks what its body returns after the carried values; such a result is a tensor.
    carried = len(node.input) - 2
    if kind is None or (node.op_type == "Loop" and index >= carried and kind.tensor_type is None):
        return None
    return kind if kind.tensor_type is None else of_elements(kind.tensor_type.elem_type or 0)
