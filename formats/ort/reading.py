"""The model in an .ort file, with the names and the order of the file.

Spec: onnxruntime, `core/flatbuffers/schema/ort.fbs` and README.md beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from formats.errors import DecodeError, FormatError, LimitError
from formats.flatbuffer.fbs import ConstantSpan, read
from formats.ir.copies import message_of
from formats.ir.dtypes import STRING
from formats.ir.model import (
    VALUE_FIELDS,
    Attribute,
    Dimension,
    Graph,
    MapType,
    Model,
    Node,
    OperatorSetId,
    SequenceType,
    SparseTensor,
    StringStringEntry,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from formats.ir.node_order import topological
from formats.ort.buffers import SCHEMA, data_of
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from formats.flatbuffer.fbs import Table
    from formats.tensordata.sources.source import Source

VERSIONS: Final = ("1", "2", "3", "4", "5", "6")
EAGER_BYTES: Final = 1024  # weights this small need less memory than a range
MAIN: Final = "main_graph"  # a graph of the file has no name
NO_VERSION: Final = (1 << 63) - 1  # what onnxruntime writes for a model without `model_version`
FIELDS: Final = dict(enumerate(VALUE_FIELDS[1:11], 1))  # up to `graphs`, the last in the schema


def read_model(source: Source) -> Model:
    """The model in the file `source`; its weights are ranges of the file.

    Raises: DecodeError for what onnxruntime could not load.
    """
    data = data_of(source)
    session = read(data, SCHEMA)
    version = session.get("ort_version", "")
    if version not in VERSIONS:
        raise DecodeError(f"cannot read version {version!r:.80} of the format, only {VERSIONS[0]} to {VERSIONS[-1]}")
    table = session.get("model")
    if table is None or "graph" not in table:
        raise DecodeError("the file has no model" if table is None else "the model has no graph")
    reader = _Reader(source, data)
    try:
        graph = reader.graph(table["graph"], MAIN, "graph")
    except RecursionError:
        raise LimitError("graphs are nested too deeply") from None
    model = Model(ir_version=table["ir_version"], graph=graph)
    used = reader.domains | {""}
    for entry in table.get("opset_import", ()):  # onnxruntime lists all that it knows
        if entry.get("domain", "") in used:
            model.opset_import.append(OperatorSetId(domain=entry.get("domain", ""), version=entry["version"]))
    for name in ("producer_name", "producer_version", "domain", "doc_string"):
        if table.get(name):
            setattr(model, name, table[name])
    if table["model_version"] not in (0, NO_VERSION):
        model.model_version = table["model_version"]
    graph.doc_string = table.get("graph_doc_string") or None
    for entry in table.get("metadata_props", ()):
        model.metadata_props.append(StringStringEntry(key=entry.get("key", ""), value=entry.get("value", "")))
    return model


class _Reader:
    """Makes messages from tables; `data` are the bytes of the file `source`."""

    def __init__(self, source: Source, data: bytes | memoryview) -> None:
        self._source = source
        self._data = data
        self.domains: set[str] = set()  # of the operators

    def graph(self, table: Table, name: str, where: str) -> Graph:
        """The graph of a table, with `name`."""
        values: dict[str, ValueInfo] = {}
        for index, entry in enumerate(table.get("node_args", ())):
            value = self._value(entry, f"{where}.node_args[{index}]")
            if (value.name or "") in values:
                raise DecodeError(f"two values are called {value.name!r:.80}", where=f"{where}.node_args[{index}]")
            values[value.name or ""] = value
        nodes = self._nodes(table, values, where)
        graph = Graph(name=name, node=[nodes[index] for index in topological(nodes)])
        if len(graph.node) < len(nodes):
            raise DecodeError("nodes need each other in a circle", where=where)
        for index, entry in enumerate(table.get("initializers", ())):
            graph.initializer.append(self._tensor(entry, f"{where}.initializers[{index}]"))
        for index, entry in enumerate(table.get("sparse_initializers", ())):
            graph.sparse_initializer.append(self._sparse(entry, f"{where}.sparse_initializers[{index}]"))
        for field, listed_values in (("inputs", graph.input), ("outputs", graph.output)):
            for place in table.get(field, ()):
                if place not in values:
                    raise DecodeError(f"{field} has {place!r:.80}, which is no value", where=where)
                listed_values.append(values[place])
        listed = {value.name for value in (*graph.input, *graph.output)}
        made = {output for node in graph.node for output in node.output} - listed - {""}
        graph.value_info = [value for key, value in values.items() if key in made and value.type is not None]
        return graph

    def _nodes(self, table: Table, values: dict[str, ValueInfo], where: str) -> list[Node]:
        """The nodes of a graph in the order of the file."""
        nodes = []
        for index, entry in enumerate(table.get("nodes", ())):
            place = f"{where}.nodes[{index}]"
            inputs, outputs = (list(entry.get(field, ())) for field in ("inputs", "outputs"))
            if not entry.get("op_type"):
                raise DecodeError("a node has no operator", where=place)
            if missing := [name for name in (*inputs, *outputs) if name not in values and name]:
                raise DecodeError(f"a node uses {missing[0]!r:.80}, which is no value of its graph", where=place)
            texts = {name: entry[name] for name in ("op_type", "name", "domain", "doc_string") if entry.get(name)}
            self.domains.add(texts.get("domain", ""))
            attributes = [self._attribute(attribute, place) for attribute in entry.get("attributes", ())]
            nodes.append(message_of(Node, **texts, input=inputs, output=outputs, attribute=attributes))
        return nodes

    def _attribute(self, table: Table, where: str) -> Attribute:
        name, number = table.get("name", ""), table["type"]
        where = f'{where}.attributes["{name}"]'
        field = FIELDS.get(number)
        if field is None:
            raise DecodeError(f"an attribute has the type {number}", where=where)
        value: Any = table.get(field)
        if value is None:
            raise DecodeError(f"an attribute has no {field}", where=where)
        if field == "t":
            value = self._tensor(value, where)
        elif field == "g":
            value = self.graph(value, name, f"{where}.g")
        elif field == "tensors":
            value = [self._tensor(tensor, where) for tensor in value]
        elif field == "graphs":
            value = [self.graph(graph, name, f"{where}.graphs[{i}]") for i, graph in enumerate(value)]
        elif isinstance(value, (tuple, list)):
            value = list(value)
        text = {"doc_string": table["doc_string"]} if table.get("doc_string") else {}
        return message_of(Attribute, name=name, type=number, **text, **{field: value})

    def _tensor(self, table: Table, where: str) -> Tensor:
        tensor = Tensor(data_type=table["data_type"], dims=list(table.get("dims", ())))
        for text in ("name", "doc_string"):
            if table.get(text):
                setattr(tensor, text, table[text])
        if tensor.data_type == STRING:
            tensor.string_data = list(table.get("string_data", ()))
            return tensor
        data = table.get("raw_data")
        if data is None:
            outside = table["external_data_offset"] >= 0
            raise DecodeError("the weights are in a checkpoint of training" if outside else "no data", where=where)
        tensor.raw_data = self._part(data)
        try:
            tensor.source()
        except FormatError as error:
            raise DecodeError(error.message, where=where) from None
        return tensor

    def _part(self, span: ConstantSpan) -> Source:
        if span.nbytes <= EAGER_BYTES:
            return Literal(bytes(self._data[span.offset : span.offset + span.nbytes]))
        return self._source.slice(span.offset, span.nbytes)

    def _sparse(self, table: Table, where: str) -> SparseTensor:
        if "values" not in table or "indices" not in table:
            raise DecodeError("a sparse tensor needs values and indices", where=where)
        values, indices = (self._tensor(table[field], f"{where}.{field}") for field in ("values", "indices"))
        return SparseTensor(values=values, indices=indices, dims=list(table.get("dims", ())))

    def _value(self, table: Table, where: str) -> ValueInfo:
        fields: dict[str, Any] = {"name": table.get("name", "")}
        if table.get("doc_string"):
            fields["doc_string"] = table["doc_string"]
        if "type" in table:
            fields["type"] = _type(table["type"], where)
        return message_of(ValueInfo, **fields)


def _type(table: Table, where: str) -> Type:
    text = {"denotation": table["denotation"]} if table.get("denotation") else {}
    member, content = table.get("value", ("", {}))
    if member == "TensorTypeAndShape":
        shape = {}
        if "shape" in content:
            dims = [_dim(entry) for entry in content["shape"].get("dim", ())]
            shape = {"shape": message_of(TensorShape, dim=dims)}
        return message_of(Type, **text, tensor_type=message_of(TensorType, elem_type=content["elem_type"], **shape))
    kind = message_of(Type, **text)
    if member in ("SequenceType", "MapType"):
        inner = content.get("elem_type" if member == "SequenceType" else "value_type")
        if inner is None:
            raise DecodeError(f"a {member} has no type of its elements", where=where)
        if member == "SequenceType":
            kind.sequence_type = SequenceType(elem_type=_type(inner, where))
        else:
            kind.map_type = MapType(key_type=content["key_type"], value_type=_type(inner, where))
    else:
        raise DecodeError("a type says nothing" if not member else f"a type is {member!r:.80}", where=where)
    return kind


def _dim(table: Table) -> Dimension:
    value = table.get("value", {})
    fields = {"denotation": table["denotation"]} if table.get("denotation") else {}
    if value.get("dim_type") == "VALUE":
        fields["dim_value"] = value["dim_value"]
    elif value.get("dim_type") == "PARAM" and value.get("dim_param"):
        fields["dim_param"] = value["dim_param"]
    return message_of(Dimension, **fields)
