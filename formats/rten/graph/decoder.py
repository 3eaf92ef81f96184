"""The node list of RTen as a graph of the IR: nodes are RTen's operators, constants are slices of the file.

RTen needs names only if a subgraph uses outer values. Here, names become complete and unique; a value without a name is
named after its index.

Spec: RTen, schema.fbs and the graph builder of the .rten loader.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from formats.errors import DecodeError, FormatError, LimitError, TruncatedError
from formats.flatbuffer.fbs import ConstantSpan, Table
from formats.ir.copies import content, copies
from formats.ir.dtypes import count, dims_shown
from formats.ir.model import Dimension, Graph, Node, Tensor, TensorShape, TensorType, Type, ValueInfo, set_fields
from formats.ir.node_order import Names
from formats.rten.graph.attribute_tables import decode_attributes
from formats.rten.operators import SPECS
from formats.rten.spec import RTEN_DOMAIN
from formats.rten.types import BY_CONSTANT_TYPE, BY_MEMBER, BY_VALUE_TYPE
from formats.tensordata.sources.source import Literal, Source

EAGER_NBYTES = 1024  # constants this small, inside the model section, need less memory than a range


class _NodesById:
    """The nodes of one graph by id: the kind of each, and the names of values, `None` for operators."""

    def __init__(self, tables: list[Table], outer: _NodesById | None) -> None:
        self.outer = outer
        self.kinds: list[tuple[str, Table]] = [table.get("data", ("", {})) for table in tables]
        self.own_names = [table.get("name", "") for table in tables]
        self.names: list[str | None] = [None if kind == "OperatorNode" else "" for kind, _ in self.kinds]
        self.captures: set[int] = set()  # ids of values of outer graphs

    @cached_property
    def last(self) -> dict[str, int]:
        """The last node with each name that is given."""
        return {name: number for number, name in enumerate(self.own_names) if name}

    def captured_name(self, name: str) -> str | None:
        """The name of the value that a subgraph of this graph captures as `name`, searched from here outwards."""
        scope: _NodesById | None = self
        while scope is not None:
            number = scope.last.get(name)
            if number is not None and number not in scope.captures:
                return scope.names[number]
            scope = scope.outer
        return None


class GraphDecoder:
    """Makes graphs from tables.

    `data` are the bytes of the model section, and `tensors` is the tensor section, `None` in a file without one.
    """

    def __init__(self, section: Source, data: bytes | memoryview, tensors: Source | None) -> None:
        self._section = section
        self._data = data
        self._tensors = tensors
        self._names = Names()
        # What many nodes have in common, by operator and the id of the table of their attributes.
        self._common: dict[tuple[str, int], dict[str, Any]] = {}

    def decode(self, table: Table, outer: _NodesById | None = None) -> Graph:
        """The graph of a table; `outer` is the graph around it.

        Raises: DecodeError with the place of the error.
        """
        tables = table.get("nodes", [])
        scope = _NodesById(tables, outer)
        # The ids are checked before anything is named, so that each of them is a value.
        inputs, outputs, captures = (
            self._ids(table.get(field, ()), field, scope) for field in ("inputs", "outputs", "captures")
        )
        self._name(scope, captures)
        nodes: list[Node] = []
        tensors: list[Tensor] = []
        producers = set(inputs) | set(captures)
        for number in range(len(tables) - 1, -1, -1):  # if two nodes produce a value, the later one counts
            kind, data = scope.kinds[number]
            try:
                if kind == "OperatorNode":
                    nodes.append(self._operator(data, scope, scope.own_names[number], producers))
                elif kind == "ConstantNode" and number not in scope.captures:
                    tensors.append(self._constant(data, scope.names[number] or ""))
                elif not kind:
                    raise DecodeError("a node is neither operator nor value nor constant")
            except FormatError as error:
                error.where = f"graph.nodes[{number}]" + (f".{error.where}" if error.where else "")
                raise
        graph = Graph(node=nodes[::-1], initializer=tensors[::-1])
        _add_values(graph, scope, inputs, outputs)
        return graph

    def _ids(self, ids: Sequence[int], field: str, scope: _NodesById) -> tuple[int, ...]:
        """The ids in a list of a graph, each once."""
        for number in ids:
            if number >= len(scope.names) or scope.names[number] is None:
                raise DecodeError(f"graph.{field} lists node {number} of {len(scope.names)}, which is not a value")
        if len(set(ids)) < len(ids):
            raise DecodeError(f"graph.{field} lists a value twice")
        return tuple(ids)

    def _name(self, scope: _NodesById, captures: tuple[int, ...]) -> None:
        """Name every value of a graph: by its own name if that is free, and a capture by the name of its value."""
        foreign: set[str] = set()
        for number in captures:
            name, kind = scope.own_names[number], scope.kinds[number][0]
            outer_name = scope.outer.captured_name(name) if scope.outer else None
            if outer_name is None and kind == "ConstantNode":
                continue  # some writers list all constants, which means something only if an outer graph has one
            if outer_name is None and name:
                raise DecodeError(f"graph.captures[{captures.index(number)}] is {name!r}, which no outer graph has")
            scope.captures.add(number)
            scope.names[number] = outer_name or ""  # some writers capture "" for an omitted input
            foreign.add(outer_name or "")
        used = set(foreign)
        for number, (name, present_name) in enumerate(zip(scope.own_names, scope.names, strict=True)):
            if present_name is not None and number not in scope.captures:
                if not name or name in used:
                    name = self._names.new(name or f"value_{number}", avoid=scope.last)
                scope.names[number] = name
                used.add(name)
        self._names.take(used - foreign)

    def _operator(self, table: Table, scope: _NodesById, name: str, producers: set[int]) -> Node:
        """The node for an operator; its outputs join `producers`."""
        attrs = table.get("attrs")
        common = self._common.get((table["type"], id(attrs[1]) if attrs else 0)) or self._new_common(table, scope)
        ids = table.get("outputs", ())
        inputs = self._value_names(table.get("inputs", ()), "inputs", scope)
        outputs = self._value_names(ids, "outputs", scope)
        # RTen computes with the later one of two nodes that make a value. The earlier one gets a new name here.
        for place, output in enumerate(outputs):
            if output:
                number = ids[place]
                if number in producers or scope.kinds[number][0] == "ConstantNode":
                    outputs[place] = self._names.new(output, avoid=scope.last)
                producers.add(number)
        node = object.__new__(Node)
        values = {**common, "name": name or None, "input": inputs, "output": outputs}
        if "attribute" in common:
            values["attribute"] = copies(common["attribute"])
        set_fields(node, values)
        return node

    def _new_common(self, table: Table, scope: _NodesById) -> dict[str, Any]:
        """The fields that an operator has in common with those of its kind that have the same attributes."""
        spec = SPECS.get(table["type"])
        if spec is None or spec.to_rten.row is None:
            raise DecodeError(f"operator type {table['type']} is unknown")

        def subgraph(attribute: str, inner: Table) -> Graph:
            return self.decode(inner, scope)

        attrs = table.get("attrs")
        attributes = decode_attributes(spec, attrs, subgraph)
        common: dict[str, Any] = {"op_type": spec.name, "domain": RTEN_DOMAIN}
        if attributes:
            common["attribute"] = attributes
        if content(attributes) is not None:  # there is no graph or tensor among them
            self._common[spec.name, id(attrs[1]) if attrs else 0] = common
        return common

    def _value_names(self, ids: Sequence[int], field: str, scope: _NodesById) -> list[str]:
        """The names of an operator's inputs or outputs, "" for a missing one; those missing at the end are left out."""
        names_by_id = scope.names
        try:
            names = [name for number in ids if (name := names_by_id[number] if number >= 0 else "") is not None]
        except IndexError:
            names = []
        if len(names) < len(ids):
            wrong = next(
                number for number in ids if number >= len(names_by_id) or (number >= 0 and names_by_id[number] is None)
            )
            raise DecodeError(f"an operator has node {wrong} among its {field}, which is not a value")
        while names and not names[-1]:  # omitted ones at the end
            names.pop()
        return names

    def _constant(self, table: Table, name: str) -> Tensor:
        """The tensor for a constant, its elements left where they are."""
        dims = table["shape"]
        offset = table.get("data_offset")  # from the start of the tensor section
        if offset is not None:
            element = BY_CONSTANT_TYPE.get(table.get("dtype", ""))
            if element is None:
                raise DecodeError(f"the constant {name!r} is outside the model section, but has no element type")
            source = self._external(name, offset, count(dims) * element.nbytes)
        else:
            if "data" not in table:
                raise DecodeError(f"the constant {name!r} has no data")
            member, data = table["data"]  # the kind of vector, and the vector
            element, span = BY_MEMBER[member], data["data"]
            if count(dims) * element.nbytes != span.nbytes:
                raise LimitError(f"the constant {name!r} has {span.nbytes} bytes for the shape {dims_shown(dims)}")
            source = self._span(span)
        tensor = object.__new__(Tensor)
        set_fields(tensor, {"name": name, "dims": [*dims], "data_type": element.number, "raw_data": source})
        return tensor

    def _external(self, name: str, offset: int, nbytes: int) -> Source:
        """The elements at an offset in bytes from the start of the tensor section."""
        if self._tensors is None:
            raise DecodeError(f"the constant {name!r} is in a tensor section, but version 1 files have none")
        available = max(self._tensors.nbytes - offset, 0)
        if nbytes > available or offset > self._tensors.nbytes:
            raise TruncatedError(
                f"the constant {name!r} needs {nbytes} bytes of tensor data, but only {available} are left"
            )
        return self._tensors.slice(offset, nbytes)

    def _span(self, span: ConstantSpan) -> Source:
        if span.nbytes <= EAGER_NBYTES:
            return Literal(bytes(self._data[span.offset : span.offset + span.nbytes]))
        return self._section.slice(span.offset, span.nbytes)


def _add_values(graph: Graph, scope: _NodesById, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> None:
    """Add the types of a graph's inputs and outputs, and the known types of other values."""
    for number in inputs:
        if scope.kinds[number][0] == "ValueNode":  # a constant among the inputs cannot be given another value
            graph.input.append(_value_info(scope, number))
    for number in outputs:
        graph.output.append(_value_info(scope, number))
    listed = {*inputs, *outputs}
    # Types of values that nothing makes, such as omitted ones, would be declared for nothing.
    numbers = {
        name: number
        for number, (name, (kind, table)) in enumerate(zip(scope.names, scope.kinds, strict=True))
        if name and table and kind == "ValueNode" and number not in listed
    }
    for node in graph.node if numbers else ():
        for name in node.output:
            number = numbers.get(name, -1)
            if number >= 0:
                graph.value_info.append(_value_info(scope, number))


def _value_info(scope: _NodesById, number: int) -> ValueInfo:
    kind, table = scope.kinds[number]
    value = ValueInfo(name=scope.names[number])
    if kind == "ValueNode" and table:
        value.type = _tensor_type(table)
    return value


def _tensor_type(table: Table) -> Type:
    tensor = TensorType()
    if "dtype" in table:
        element = BY_VALUE_TYPE.get(table["dtype"])
        if element is None:
            raise DecodeError(f"a value has the unknown element type {table['dtype']}")
        tensor.elem_type = element.number
    if "shape" in table:
        tensor.shape = TensorShape(dim=[_dimension(dim) for dim in table["shape"]])
    return Type(tensor_type=tensor)


def _dimension(table: dict[str, Any]) -> Dimension:
    if "name" in table:
        return Dimension(dim_param=table["name"])
    return Dimension(dim_value=table["value"])
