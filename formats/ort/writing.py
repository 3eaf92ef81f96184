"""How a model becomes the tables of an .ort file, and what such a file does not hold of it.

onnxruntime checks little when it loads such a file, and infers nothing: what it finds out about an .onnx file has to be
in it. These are the types of all values, the version in which each operator got its form, the defaults of attributes,
and which results are whose inputs.

Spec: onnxruntime, `core/graph/graph.cc` and `graph_flatbuffers_utils.cc`, `LoadFromOrtFormat`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from formats.errors import EncodeError, FormatError, UnsupportedError
from formats.flatbuffer.builder import Shared, build_buffer
from formats.ir import FIRST_WITH_OPERATOR_SETS, ONNX, domain_key, dtypes
from formats.ir.copies import content
from formats.ir.model import VALUE_FIELDS, Attribute, Graph, Model, Node, Tensor, type_of_tensor, values_held
from formats.ir.node_order import graphs_below as all_graphs
from formats.ir.node_order import topological
from formats.ir.storage import raw_source
from formats.ir.walk import visit
from formats.onnxruntime.operators import operator
from formats.ort.buffers import MAX_NAMES, SCHEMA
from formats.ort.preparation import lifted, with_functions, without_functions
from formats.ort.value_types import types_by_graph
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, USE, FilePlan, Loss, Losses, WritePlan, lay_out
from formats.words import listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from formats.flatbuffer.fbs import Table
    from formats.ir.model import SparseTensor, TensorShape, Type
    from formats.onnxruntime.operators import Operator
    from formats.ort.value_types import Types
    from formats.tensordata.sources.source import Source


SMALL_BYTES: Final = 128  # onnxruntime copies weights below this size
HALVES: Final = (dtypes.FLOAT16, dtypes.BFLOAT16)
FIELDS_OF_TYPES: Final = dict(enumerate(VALUE_FIELDS[1:10], 1))  # up to `tensors`, the last that is written
TYPES_OF_FIELDS: Final = {field: number for number, field in FIELDS_OF_TYPES.items()}


class OrtEncoder:
    """Encodes the graphs of a model; `types` has the types of the values of each graph, by its `id`."""

    def __init__(self, types: Mapping[int, Types], versions: Mapping[str, int]) -> None:
        self._types = types
        self._versions = versions
        self._kinds: dict[Any, Table] = {}  # the tables of types, by content
        self._attributes: dict[Any, Table] = {}  # those of attributes without messages, by content
        self._lists: dict[Any, list[Table]] = {}  # those of the attributes of nodes, by operator and content
        self.uncast: dict[str, str] = {}  # operators without a kernel for float16 on the CPU, and a place of each
        self.without_kernel: dict[str, str] = {}  # operators without any kernel on the CPU, likewise

    def graph(self, graph: Graph, outer: Mapping[str, Type], where: str = "graph") -> Table:
        """The table of a graph; `outer` are the types of the values around it."""
        # As when onnxruntime loads an .onnx file, Constant nodes become constants.
        nodes, tensors, sparse = lifted(graph)
        types = {**self._types.get(id(graph), {}), **{tensor.name or "": type_of_tensor(tensor) for tensor in tensors}}
        visible = {**outer, **types}
        tables = [self._node(node, index, visible, f"{where}.node[{index}]") for index, node in enumerate(nodes)]
        arguments: dict[str, Table] = {}
        described = {value.name or "": value for value in (*graph.value_info, *graph.output, *graph.input)}
        names = [value.name or "" for value in graph.input]
        names += [tensor.name or "" for tensor in tensors]
        names += [item.values.name or "" for item in sparse if item.values is not None]
        names += [name for node in nodes for name in (*node.input, *node.output)]
        names += [value.name or "" for value in graph.output]
        missing = []
        for name in dict.fromkeys(names):
            kind = visible.get(name)
            if kind is None and name:
                missing.append(name)
                continue
            value = described.get(name)
            try:
                arguments[name] = self._value(name, kind, value.doc_string if value else None)
            except FormatError as error:
                error.where = f"{where}, value {name}"
                raise
        if missing:
            raise UnsupportedError(_untyped(missing), where=where)
        return {
            "initializers": [_tensor(tensor, f"{where}.initializer[{i}]") for i, tensor in enumerate(tensors)],
            "node_args": list(arguments.values()),
            "nodes": tables,
            "max_node_index": len(nodes),
            "node_edges": _edges(nodes, [table["implicit_inputs"] for table in tables]),
            "inputs": [value.name or "" for value in graph.input],
            "outputs": [value.name or "" for value in graph.output],
            "sparse_initializers": [_sparse(item, f"{where}.sparse_initializer[{i}]") for i, item in enumerate(sparse)],
        }

    def _node(self, node: Node, index: int, visible: Mapping[str, Type], where: str) -> Table:
        domain = domain_key(node.domain)
        name = node.op_type or ""
        row = operator(domain, name, self._versions.get(domain, 1))
        if (
            row is not None
            and row.mark != "h"
            and any(_is_half(visible.get(name)) for name in (*node.input, *node.output))
        ):
            self.uncast.setdefault(name, where)
        if row is not None and row.mark == "n":
            self.without_kernel.setdefault(f"{name} {row.since_version}", where)
        attributes, inner = self._attributes_of(node, row, visible, where)
        return {
            "name": node.name or "",
            "doc_string": node.doc_string or "",
            "domain": domain,
            "since_version": row.since_version if row else 1,  # of the form: by it, onnxruntime finds the kernel
            "index": index,
            "op_type": name,
            "inputs": list(node.input),
            "outputs": list(node.output),
            "attributes": attributes,
            "input_arg_counts": row.argument_counts(len(node.input)) if row else [1] * len(node.input),
            "implicit_inputs": list(dict.fromkeys(name for graph in inner for name in _captured(graph))),
        }

    def _attributes_of(
        self, node: Node, row: Operator | None, visible: Mapping[str, Type], where: str
    ) -> tuple[list[Table], list[Graph]]:
        """The attributes of a node, with the defaults of those that are missing, and the graphs in them."""
        # Most nodes of a large graph have the attributes of another one; the builder writes a shared table once.
        plain = content(node.attribute)
        key = node.domain, node.op_type, plain
        if plain is not None and key in self._lists:
            return self._lists[key], []
        tables = [self._attribute(attribute, visible, where) for attribute in node.attribute]
        stated = {table["name"] for table in tables}
        if row is not None:
            tables += [self._attribute(other, visible, where) for other in row.defaults if other.name not in stated]
        if plain is not None:
            self._lists[key] = tables
        return tables, [attribute.g for attribute in node.attribute if attribute.g is not None]

    def _attribute(self, attribute: Attribute, visible: Mapping[str, Type], where: str) -> Table:
        fields = values_held(attribute)
        field = FIELDS_OF_TYPES.get(attribute.type or 0) or (fields[0] if fields else "")
        if field not in TYPES_OF_FIELDS or any(other != field for other in fields):
            what = ", ".join(fields) or f"type {attribute.type}"
            place = f'{where}.attribute["{attribute.name}"]'
            raise UnsupportedError(f"an .ort file has no attributes with {what}", where=place)
        value: Any = getattr(attribute, field)
        if field not in ("t", "tensors", "g") and not attribute.doc_string:
            return self._plain_attribute(attribute.name or "", field, b"" if field == "s" and value is None else value)
        where = f'{where}.attribute["{attribute.name}"]'
        if field == "t":
            value = _tensor(value, where)
        elif field == "tensors":
            value = [_tensor(tensor, where) for tensor in value]
        elif field == "g":
            value = self.graph(value, visible, f"{where}.g")
        elif field == "s":
            value = value or b""
        table = {"name": attribute.name or "", "type": TYPES_OF_FIELDS[field], field: value}
        return table | ({"doc_string": attribute.doc_string} if attribute.doc_string else {})

    def _plain_attribute(self, name: str, field: str, value: Any) -> Table:
        """The table of an attribute: one for all that are equal, floats by their bits."""
        bits_or_value = tuple(value) if isinstance(value, list) else value
        if field in ("f", "floats"):
            bits_or_value = (
                struct.pack(f"<{len(value)}d", *value) if field == "floats" else struct.pack("<d", value or 0.0)
            )
        key = name, field, bits_or_value
        if key not in self._attributes:
            self._attributes[key] = Shared(name=name, type=TYPES_OF_FIELDS[field], **{field: value})
        return self._attributes[key]

    def _value(self, name: str, kind: Type | None, doc_string: str | None) -> Table:
        """A value with its type; without a name, it stands for what is omitted, and has no type."""
        table: Table = {"name": name}
        if doc_string:
            table["doc_string"] = doc_string
        if kind is not None:
            key = _content(kind)
            if key not in self._kinds:
                self._kinds[key] = Shared(_type(kind))
            table["type"] = self._kinds[key]
        return table


def _is_half(kind: Type | None) -> bool:
    return kind is not None and kind.tensor_type is not None and kind.tensor_type.elem_type in HALVES


def _untyped(names: list[str]) -> str:
    return (
        f"the type of {listed(names, MAX_NAMES)} is not known, and an .ort file needs the types of all values; "
        "install onnx, which infers many, or add them to the model"
    )


def _captured(graph: Graph) -> list[str]:
    """The names of outer values that a graph and those in it use, in the order of their first use."""
    names: list[str] = []
    for node in graph.node:
        names += node.input
        for attribute in node.attribute:
            if attribute.g is not None:
                names += _captured(attribute.g)
    names += [value.name or "" for value in graph.output]
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {item.values.name for item in graph.sparse_initializer if item.values is not None}
    own |= {name for node in graph.node for name in node.output}
    return [name for name in dict.fromkeys(names) if name and name not in own]


def _edges(nodes: list[Node], implicit: list[list[str]]) -> list[Table]:
    """For each node, from which results its inputs come, and where its results are used."""
    makers = {
        name: (index, place) for index, node in enumerate(nodes) for place, name in enumerate(node.output) if name
    }
    incoming: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
    outgoing: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for place, name in enumerate((*node.input, *implicit[index])):
            if name in makers:
                maker, result = makers[name]
                incoming[index].append((maker, result, place))
                outgoing[maker].append((index, result, place))
    return [
        {"node_index": index, "input_edges": sorted(before), "output_edges": sorted(after)}
        for index, (before, after) in enumerate(zip(incoming, outgoing, strict=True))
    ]


def _tensor(tensor: Tensor, where: str) -> Table:
    table: Table = {"name": tensor.name or "", "dims": list(tensor.dims), "data_type": tensor.data_type or 0}
    if tensor.doc_string:
        table["doc_string"] = tensor.doc_string
    if tensor.data_type == dtypes.STRING:
        return table | {"string_data": list(tensor.string_data)}
    try:
        source: Source = raw_source(tensor)
    except FormatError as error:
        error.where = error.where or where
        raise
    return table | {"raw_data": source.read() if source.nbytes < SMALL_BYTES else source}


def _sparse(sparse: SparseTensor, where: str) -> Table:
    if sparse.values is None or sparse.indices is None:
        raise EncodeError("a sparse tensor needs values and indices", where=where)
    return {
        "values": _tensor(sparse.values, where),
        "indices": _tensor(sparse.indices, where),
        "dims": list(sparse.dims),
    }


def _content(kind: Type) -> Any:
    """What two types have in common if they are equal, and an object of its own for a type that is seldom alike."""
    tensor = kind.tensor_type
    if tensor is None or kind.denotation:
        return id(kind)
    if tensor.shape is None:
        return tensor.elem_type
    return (tensor.elem_type, *((dim.dim_value, dim.dim_param, dim.denotation) for dim in tensor.shape.dim))


def _type(kind: Type) -> Table:
    table: Table = {"denotation": kind.denotation} if kind.denotation else {}
    if (tensor := kind.tensor_type) is not None:
        value: Table = {"elem_type": tensor.elem_type or 0}
        if tensor.shape is not None:
            value["shape"] = {"dim": _dims(tensor.shape)}
        return table | {"value": ("TensorTypeAndShape", value)}
    if (sequence := kind.sequence_type) is not None and sequence.elem_type is not None:
        return table | {"value": ("SequenceType", {"elem_type": _type(sequence.elem_type)})}
    if (mapped := kind.map_type) is not None and mapped.value_type is not None:
        value = {"key_type": mapped.key_type or 0, "value_type": _type(mapped.value_type)}
        return table | {"value": ("MapType", value)}
    missing = next((name.removesuffix("_type") for name in kind.oneof if getattr(kind, name) is not None), "no")
    raise UnsupportedError(f"an .ort file has no values of {missing} type")


def _dims(shape: TensorShape) -> list[Table]:
    tables = []
    for dim in shape.dim:
        value: Table = {"dim_type": "UNKNOWN"}
        if dim.dim_value is not None:
            value = {"dim_type": "VALUE", "dim_value": dim.dim_value}
        elif dim.dim_param:
            value = {"dim_type": "PARAM", "dim_param": dim.dim_param}
        tables.append({"value": value} | ({"denotation": dim.denotation} if dim.denotation else {}))
    return tables


MAX_NESTED: Final = 10  # functions of operators in functions of operators; onnx has two
VERSION: Final = "4"  # every full build of onnxruntime since 1.8 loads it; 5 and 6 only add what minimal builds need


def plan_model(model: Model, destination: Path) -> WritePlan:
    """How to write `model` to `destination`.

    Raises: UnsupportedError for what the format does not hold, EncodeError for a malformed graph.
    """
    whole = without_functions(model)
    versions = {entry.domain or "": entry.version or 1 for entry in whole.opset_import}
    if ONNX in versions:
        versions[""] = versions.pop(ONNX)
    whole, types = _without_operator_functions(whole, versions)
    graph = whole.graph or Graph()
    domains = {domain_key(node.domain) for _, inner in all_graphs(graph) for node in inner.node}
    _check(model, graph, domains - set(versions))
    used = [(domain, version) for domain, version in versions.items() if domain in domains or not domain]
    encoder = OrtEncoder(types, versions)
    table: Table = {
        "ir_version": model.ir_version or 0,
        "opset_import": [{"domain": domain, "version": version} for domain, version in used],
        "graph": encoder.graph(graph, {}),
        "metadata_props": [{"key": entry.key or "", "value": entry.value or ""} for entry in model.metadata_props],
    }
    for name in ("producer_name", "producer_version", "domain", "doc_string", "model_version"):
        if value := getattr(model, name):
            table[name] = value
    if graph.doc_string:
        table["graph_doc_string"] = graph.doc_string
    writes, nbytes = lay_out(build_buffer({"ort_version": VERSION, "model": table}, SCHEMA))
    losses = (*_missing_kernels(encoder), *_losses(model))
    return WritePlan((FilePlan(destination, nbytes, tuple(writes)),), (), losses)


def _without_operator_functions(model: Model, versions: Mapping[str, int]) -> tuple[Model, dict[int, Types]]:
    """The model with the nodes of the functions of operators that have no kernel, and the types of its values."""
    types = types_by_graph(model)
    for _ in range(MAX_NESTED):
        before, model = model, with_functions(model, types, versions.get("", 1))
        if model is before:
            break
        types = types_by_graph(model)
    return model, types


def _check(model: Model, graph: Graph, missing: Collection[str]) -> None:
    """Raises UnsupportedError for nodes in a cycle, or of domains that are `missing` in the imports of the model."""
    for where, inner in all_graphs(graph, "graph"):
        if len(topological(inner.node)) < len(inner.node):
            raise UnsupportedError(
                "nodes form a cycle, which `formats verify` shows; onnxruntime runs none", where=where
            )
    names_sets = (model.ir_version or FIRST_WITH_OPERATOR_SETS) >= FIRST_WITH_OPERATOR_SETS
    if missing and names_sets:
        raise UnsupportedError(
            f"nodes are of {min(missing) or ONNX}, but the model imports no version of it (opset_import)"
        )


def _missing_kernels(encoder: OrtEncoder) -> Iterator[Loss]:
    """The operators that onnxruntime does not run from such a file, a loss for each reason."""
    text = "onnxruntime has no kernel on the CPU for {}, so it does not load the file"
    cast_text = (
        "onnxruntime has no kernels on the CPU for {} in 16 bits; it adds casts when it loads .onnx files, but not "
        "when it loads .ort files"
    )
    for sentence, places in ((text, encoder.without_kernel), (cast_text, encoder.uncast)):
        if places:
            names = [*places]
            shown, short = (sentence.format(listed(names, most)) for most in (len(names), MAX_NAMES))
            yield Loss("no_kernel", places[names[0]], shown, INTERFACE, short=short)


def _losses(model: Model) -> tuple[Loss, ...]:
    """What the format does not hold of a model, one loss for each kind."""
    losses = Losses()
    if model.functions:
        losses.add("functions", "the nodes of functions replace the nodes that call them", "functions", seen=USE)
    if model.training_info:
        detail = "an .ort file for inference has no training information"
        losses.add("training_info", detail, "training_info", seen=INTERFACE)
    not_distributed = "an .ort file does not distribute a model over devices"
    if model.configuration:
        losses.add("device_configuration", not_distributed, "configuration", seen=DOCUMENTATION)
    for where, message in visit(model, object):
        fields = vars(message)
        if isinstance(message, Graph):
            _add_losses_of_graph(losses, message, where)
        elif isinstance(message, Node) and fields.get("device_configurations"):
            losses.add("device_configuration", not_distributed, where, seen=DOCUMENTATION)
        if fields.get("metadata_props") and not isinstance(message, Model):
            losses.add("metadata", "an .ort file has only the metadata of the model", where, seen=DOCUMENTATION)
        if isinstance(message, Tensor) and message.segment is not None:
            losses.add("segment", "an .ort file has no segments of tensors", where, seen=INTERFACE)
    return losses.lines()


def _add_losses_of_graph(losses: Losses, graph: Graph, where: str) -> None:
    if graph.name:
        detail = "an .ort file does not hold the names of graphs"
        losses.add("graph_name", detail, f"{where}.name", seen=DOCUMENTATION)
    if graph.doc_string and where != "graph":
        detail = "an .ort file does not hold the documentation of graphs in nodes"
        losses.add("doc_string", detail, f"{where}.doc_string", seen=DOCUMENTATION)
    if graph.quantization_annotation:
        detail = "an .ort file does not hold quantisation annotations"
        losses.add("quantization_annotation", detail, where, seen=DOCUMENTATION)
