"""Converts a graph of the IR to the node list of RTen: values, constants and operators, identified by position.

The loader requires that operators use only what comes before them, so all values and constants come first. It finds
outer values of a subgraph by name, and a name means the last node with this name: therefore no operator has the name of
a value.

Spec: RTen, schema.fbs and the graph builder of the .rten loader.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any

from formats.errors import EncodeError
from formats.flatbuffer.builder import NAME, FormTables, Gap, TableForm, Values
from formats.flatbuffer.fbs import Table
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes
from formats.ir.model import Dimension, Graph, Model, Node, Tensor, ValueInfo
from formats.ir.node_order import Names, defined, graphs_below, mentioned, subgraphs
from formats.rten.convert.refusal import Refusal
from formats.rten.convert.value_types import element_type
from formats.rten.graph.attribute_tables import Problem, encode_attributes
from formats.rten.graph.attributes import attributes_key
from formats.rten.graph.constants import (
    INLINE_ELEMENTS,
    TensorSection,
    as_rten_constant,
    clamped_text,
    constant_nodes,
    densify,
)
from formats.rten.graph.uses import Uses
from formats.rten.operators import SPECS, spec_of
from formats.rten.spec import RTEN_DOMAIN, OperatorSpec, Row
from formats.rten.target import ALL_RELEASES, Target
from formats.rten.types import HOLDERS, INT32_LIMITS, UNKNOWN_DIMS, Element
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, RESULTS, Losses

MAX_SHAPE_TABLES = 900_000  # the verifier allows a million tables, and every dimension is one
DOMAINS = (*STANDARD_DOMAINS, RTEN_DOMAIN)


class _NodeList:
    """The nodes of one graph; a node's id is its index. `written` maps names to those that are written instead."""

    def __init__(self, written: Mapping[str, str]) -> None:
        self.tables = FormTables()
        self.ids: dict[str, int] = {}
        self._written = written

    def add(self, name: str, form: TableForm, values: Values = ()) -> int:
        """Add a value or constant, and return its id."""
        number = self.ids[name] = len(self.tables)
        self.tables.add(form, self._written.get(name, name), values)
        return number

    def add_values(self, names: Sequence[str], forms: Iterable[TableForm]) -> None:
        """Add values, each with its form."""
        self.ids.update(zip(names, count(len(self.tables)), strict=False))
        written = self._written
        self.tables.forms += forms
        self.tables.names += [written.get(name, name) for name in names] if written else names
        self.tables.values += [()] * len(names)


class GraphEncoder:
    """Makes the tables of a model's graphs, and collects the tensors outside them, losses and refusals.

    A model that was read from a .rten file has no `target`: it is written back unchanged, whatever releases support it.
    `inline` puts all constants into the tables, as a file without a tensor section needs it.
    """

    def __init__(
        self, model: Model, *, target: Target | None = ALL_RELEASES, inline: bool = False, losses: Losses | None = None
    ) -> None:
        self.section = TensorSection()
        self.losses = Losses() if losses is None else losses
        self.refusals: list[Refusal] = []
        self._target = target
        self._native = target is None
        self._inline = inline
        self._ir_version = model.ir_version or 0
        self._forms: dict[Any, TableForm] = {}  # by all common parts; for operators, by the content of their attributes
        all_graphs = [graph for _, graph in graphs_below(model.graph or Graph())]
        computed = [*chain.from_iterable([node.output for graph in all_graphs for node in graph.node])]
        self._names = Names(chain(computed, _given_names(all_graphs)))
        self._written: Mapping[str, str] = {}  # for names in the graph that is being encoded, if they change
        self._dim_names = Names(dim.dim_param for dim in _dims(all_graphs) if dim.dim_param)
        # The approximate number of tables if the shapes of all values are written.
        tables = sum(1 for _ in _dims(all_graphs)) + 2 * len(computed)
        tables += 3 * sum(len(graph.initializer) + len(graph.node) for graph in all_graphs)
        self._with_shapes = tables <= MAX_SHAPE_TABLES

    def encode(self, graph: Graph, where: str = "graph", outer: frozenset[str] | None = None) -> Table:
        """The table of a graph; `outer` are the names of outer graphs, `None` for the model's own graph."""
        # The loader finds outer values by name, so names depend on the graph around: they are restored at the end.
        around = self._written
        self._written = self._written_within(graph, outer or frozenset())
        nodes = _NodeList(self._written)
        uses = Uses(graph)
        of_constants = constant_nodes(graph.node)
        constants = constants_of(graph, of_constants)
        inputs = self._inputs(graph, constants, where)
        typed = outer is None or self._native  # in the body of a loop, a name can mean another size each time
        for value in inputs:
            nodes.add(value.name or "", self._value(value, with_shape=typed))
        # All values come before the operators: inputs, captures, constants, and what operators compute.
        skipped = set(map(id, of_constants))
        operators = [node for node in graph.node if id(node) not in skipped] if skipped else graph.node
        computed = [*filter(None, chain.from_iterable([node.output for node in operators]))]
        local = frozenset((*nodes.ids, *constants, *computed))  # what the graph itself defines
        if len(local) < len(inputs) + len(constants) + len(computed):
            twice = _first_duplicate((*(value.name for value in inputs if value.name), *constants, *computed))
            raise EncodeError(f"the value {twice!r} is produced twice", where=where)
        # Values of outer graphs need nodes here, too.
        captured = self._captured(graph, uses, local, outer or frozenset(), where)
        captures = [nodes.add(name, self._value_form(None, None)) for name in captured]  # RTen does not check types
        for name, (tensor, place) in constants.items():
            # A constant that nothing uses only makes the file larger; one of a .rten file stays, as the file had it.
            if name in uses.own or name in uses.inner or self._native:
                nodes.add(name, *self._constant(name, tensor, (where, place), uses))
        self._add_computed(nodes, computed, (*graph.value_info, *graph.output) if typed else (), where)
        self._add_operators(operators, nodes, uses, where, local | outer if outer else local)
        table = {
            "nodes": nodes.tables,
            "inputs": tuple(nodes.ids[value.name or ""] for value in inputs),
            "outputs": self._outputs(graph, nodes),
        }
        if captures:
            table["captures"] = tuple(captures)
        self._written = around  # the names of the graph around
        return table

    def _inputs(self, graph: Graph, constants: Container[str | None], where: str) -> list[ValueInfo]:
        """The inputs of a graph that have no default value."""
        inputs = [value for value in graph.input if value.name not in constants]
        # A caller gives values by name, so RTen could not be given one without a name.
        if not all(value.name for value in inputs):
            raise EncodeError("an input has no name", where=f"{where}.input")
        if self._ir_version >= FIRST_WITH_CONSTANTS:
            for value in graph.input:
                if value.name in constants:
                    detail = "inputs that have a default value become constants"
                    self.losses.add("default_input", detail, f"{where}.input", value.name, seen=INTERFACE)
        return inputs

    def _add_computed(self, nodes: _NodeList, names: Sequence[str], declared: Sequence[ValueInfo], where: str) -> None:
        """Add the values that operators compute, with what the graph declares of them."""
        untyped = self._value_form(None, None)
        types = {value.name: value for value in declared}
        values = map(types.get, names)
        forms = (self._value(value, with_shape=self._with_shapes) if value else untyped for value in values)
        nodes.add_values(names, forms if types else [untyped] * len(names))
        if types and not self._with_shapes:
            detail = "the shapes of all values would need more tables than RTen reads, so only those of inputs are kept"
            self.losses.add("shape", detail, f"{where}.value_info", seen=DOCUMENTATION)

    def _written_within(self, graph: Graph, outer: frozenset[str]) -> Mapping[str, str]:
        """The names that are written instead of others in a graph.

        An own value with the name of an outer value gets another name: RTen would use the outer value as output.
        """
        hidden = () if self._native or not outer else sorted(defined(graph) & outer)
        return {**self._written, **{name: self._names.new(name) for name in hidden}} if hidden else self._written

    def _captured(
        self, graph: Graph, uses: Uses, local: frozenset[str], outer: frozenset[str], where: str
    ) -> list[str]:
        """The outer names that a graph uses, in order of first use."""
        free = uses.own
        if outer and not self._native:  # RTen looks here for the outer values of a graph inside
            nodes = [graph.node[index] for index, _, _ in subgraphs(graph.node)]
            free = free | dict.fromkeys(name for node in nodes for name in mentioned(node) if name in outer)
        captured = [] if local.issuperset(free) else [name for name in free if name not in local]
        for name in captured:
            if name not in outer:
                raise EncodeError(f"the value {name!r} is used, but nothing produces it", where=where)
        return captured

    def _constant(
        self, name: str, tensor: Tensor, place: tuple[str, int | str], uses: Uses
    ) -> tuple[TableForm, Values]:
        """The form of a constant and its values: small constants contain their elements, others an offset."""
        try:
            constant = as_rten_constant(tensor)
        except EncodeError as error:
            reason = f"RTen does not support the constant {name!r}: {error}"
            self.refusals.append(Refusal("", "", None, constant_place(*place), reason))
            return _form("ConstantNode", {"shape": ()}), ()
        source, element = constant.source, constant.element
        if constant.change:
            where = constant_place(*place)
            kinds = f"{dtypes.type_name(tensor.data_type)} constants become {dtypes.type_name(element.number)}"
            if constant.change == "widened":
                self.losses.add("widened", f"{kinds}, exactly", where, name, seen=DOCUMENTATION)
            elif constant.change == "rounded":
                self.losses.add("rounded", f"{kinds}, rounded", where, name, seen=RESULTS)
            elif name not in uses.bounds:
                self.losses.add("clamped", clamped_text(tensor), where, name, seen=RESULTS)
        nbytes = source.nbytes
        # RTen reads the constants that decide shapes when it loads the graph, so they are in its table.
        small = nbytes <= INLINE_ELEMENTS * element.nbytes
        if self._inline and not small:
            table = {"shape": constant.dims, "dtype": element.constant_type}
            return _form("ConstantNode", {**table, "data": (element.member, {"data": source})}), ()
        key = element.number, constant.dims, nbytes if small else None
        form = self._forms.get(key)
        if form is None:
            content = {"data": (element.member, {"data": Gap(0)})} if small else {"data_offset": Gap(0)}
            table = {"shape": constant.dims, "dtype": element.constant_type, **content}
            form = self._forms[key] = _form("ConstantNode", table)
        return form, ((source.read() if small else self.section.place(source, name),),)

    def _value(self, value: ValueInfo | None, *, with_shape: bool) -> TableForm:
        """The form of a value with its known type, which the runtime does not check."""
        kind = value.type if value else None
        if kind is not None and kind.optional_type is not None:
            kind = kind.optional_type.elem_type
        tensor = kind.tensor_type if kind else None
        if value is None or tensor is None:
            return self._value_form(None, None)
        element, dims = HOLDERS.get(tensor.elem_type or 0), None
        if with_shape and tensor.shape is not None:
            dims = tuple(self._dim(dim, f"{value.name}_dim{axis}") for axis, dim in enumerate(tensor.shape.dim))
        return self._value_form(element, dims)

    def _value_form(self, element: Element | None, dims: tuple[int | str, ...] | None) -> TableForm:
        """The form of the values of a type."""
        key = element, dims
        if key not in self._forms:
            table: Table = {} if element is None else {"dtype": element.value_type}
            if dims is not None:
                table["shape"] = [{"value": dim} if isinstance(dim, int) else {"name": dim} for dim in dims]
            self._forms[key] = _form("ValueNode", table)
        return self._forms[key]

    def _dim(self, dim: Dimension, fallback: str) -> int | str:
        """A size or a name; an unknown dim gets its own name, since equal names mean equal sizes."""
        if dim.dim_value is not None and 0 <= dim.dim_value <= INT32_LIMITS[1]:
            return dim.dim_value
        if dim.dim_param is not None and dim.dim_param not in UNKNOWN_DIMS:
            return dim.dim_param
        return self._dim_names.new(fallback)

    def _add_operators(
        self, operators: Iterable[Node], nodes: _NodeList, uses: Uses, where: str, visible: frozenset[str]
    ) -> None:
        """Append the operators for the nodes of a graph; `visible` are the names of its values and of those around."""
        ids, forms = nodes.ids, self._forms
        for node in operators:
            spec = SPECS.get(node.op_type or "") if node.domain in DOMAINS else None
            row = None if spec is None else spec.to_rten.row
            if spec is None or row is None:
                self._refuse(node, where, "RTen does not support this operator")
                continue
            outputs, most = node.output, row.outputs
            if most is not None and len(outputs) > most:
                used = uses.inner.union(uses.own)
                outputs = [name if place < most or name in used else "" for place, name in enumerate(outputs)]
            values = _ids(node.input, ids), _ids(outputs, ids)
            attributes = attributes_key(node)
            # Nodes that differ only in names and ids have one form, unless an attribute is a graph or a tensor.
            key = spec.name, attributes, len(values[0]), len(values[1]), bool(node.name)
            form = forms.get(key) if attributes is not None else None
            if form is None:
                refused = len(self.refusals)
                form = self._operator_form(spec, row, node, where, visible, len(values[0]), len(values[1]))
                if len(self.refusals) == refused and attributes is not None:
                    forms[key] = form
            name = self._operator_name(node, where) if node.name else ""  # after those of the subgraphs in it
            nodes.tables.add(form, name, values)

    def _operator_form(
        self, spec: OperatorSpec, row: Row, node: Node, where: str, visible: frozenset[str], inputs: int, outputs: int
    ) -> TableForm:
        """The form of the nodes that share the attributes of one and have as many inputs and outputs."""
        if self._target is not None and not self._target.has(row):
            self._refuse(node, where, f"RTen before {row.since} does not support this operator")
        problems: list[Problem] = []

        def subgraph(name: str, graph: Graph) -> Table:
            return self.encode(graph, f'{_node_place(node, where)}.attribute["{name}"].g', visible)

        attrs = encode_attributes(spec, node, subgraph, problems, target=self._target)
        for problem in problems:
            self._refuse(node, where, problem.reason, problem.remedy)
        if row.inputs is not None and inputs > row.inputs and not self._native:
            self._refuse(node, where, f"it has {inputs} inputs, but RTen accepts only {row.inputs}")
        if row.outputs is not None and outputs > row.outputs:
            self._refuse(node, where, f"it uses output {row.outputs}, but RTen computes only those before it")
        table: Table = {"type": spec.name, "inputs": Gap(0), "outputs": Gap(1)}
        if attrs is not None:
            table["attrs"] = attrs
        return _form("OperatorNode", table, named=bool(node.name))

    def _operator_name(self, node: Node, where: str) -> str:
        """The name of a node that has one, changed if something else in the model has it."""
        name = self._names.new(node.name or "")
        if name != node.name:
            detail = "the name was not unique among the operators and values"
            self.losses.add("renamed", detail, _node_place(node, where), node.name, seen=DOCUMENTATION)
        return name

    def _outputs(self, graph: Graph, nodes: _NodeList) -> tuple[int, ...]:
        """The ids of a graph's outputs; RTen needs distinct ones, so a repeated output is copied."""
        ids: dict[int, None] = {}
        for value in graph.output:
            name = value.name or ""
            number = nodes.ids[name]
            if number in ids:
                form = nodes.tables.forms[number]
                is_constant = form.table["data"][0] == "ConstantNode"
                # A value node has no elements, so the copy of a constant gets the declared type instead of its form.
                copy = nodes.add(self._names.new(name), self._value(value, with_shape=True) if is_constant else form)
                identity = {"type": "Identity", "inputs": (number,), "outputs": (copy,)}
                nodes.tables.add(_form("OperatorNode", identity, named=False))
                number = copy
            ids[number] = None
        return tuple(ids)

    def _refuse(self, node: Node, where: str, reason: str, remedy: str = "") -> None:
        place = _node_place(node, where)
        self.refusals.append(Refusal(node.op_type or "", node.domain or "", None, place, reason, remedy))

    def check_interface(self, graph: Graph) -> None:
        """Record how the types of the model's inputs and outputs change, and which types RTen lacks."""
        constants = {tensor.name for tensor in graph.initializer}
        for field in ("input", "output"):
            for index, value in enumerate(getattr(graph, field)):
                where = f"graph.{field}[{index}]"
                number = element_type(value.type)
                if not number or (field == "input" and value.name in constants):
                    continue
                element, name = HOLDERS.get(number), dtypes.type_name(number)
                if element is None:
                    reason = f"the {field} {value.name!r} has element type {name}"
                    self.refusals.append(Refusal("", "", None, where, reason))
                elif element.number != number:
                    detail = f"{name} {field}s become {dtypes.type_name(element.number)}"
                    self.losses.add("interface_type", detail, where, value.name, seen=INTERFACE)


def _form(kind: str, table: Table, *, named: bool = True) -> TableForm:
    """The form of nodes of a kind."""
    return TableForm({"name": NAME, "data": (kind, table)} if named else {"data": (kind, table)})


def constants_of(graph: Graph, nodes: Iterable[Node]) -> dict[str, tuple[Tensor, int | str]]:
    """The constants of a graph by name, each with its place: initialisers, sparse ones, and its constant `nodes`.

    The place in the graph is the index of an initialiser, of which there may be many, or a text.
    """
    constants: dict[str, tuple[Tensor, int | str]] = {}
    for index, tensor in enumerate(graph.initializer):
        constants[tensor.name or ""] = tensor, index
    for index, sparse in enumerate(graph.sparse_initializer):
        if sparse.values is not None:
            constants[sparse.values.name or ""] = densify(sparse), f"sparse_initializer[{index}]"
    for node in nodes:
        spec = spec_of(node)
        assert spec is not None and spec.to_rten.constant is not None
        constants[node.output[0]] = spec.to_rten.constant(node), _node_step(node)
    return constants


def constant_place(where: str, place: int | str) -> str:
    """The place of a constant of the graph at `where`."""
    return f"{where}.{place}" if isinstance(place, str) else f"{where}.initializer[{place}]"


def _node_place(node: Node, where: str) -> str:
    """The place of a node, by its name or output, because its index is that in the rewritten graph."""
    return f"{where}.{_node_step(node)}"


def _node_step(node: Node) -> str:
    """The place of a node in its graph."""
    return f'node["{node.name or next(iter(node.output), "")}"]'


def _ids(names: Iterable[str], ids_by_name: Mapping[str, int]) -> tuple[int, ...]:
    """The ids of values, -1 for an omitted one; those at the end are left out."""
    try:
        return tuple([ids_by_name[name] for name in names])  # which is faster than any iterator
    except KeyError:
        ids = tuple([ids_by_name.get(name, -1) for name in names])
    while ids and ids[-1] == -1:
        ids = ids[:-1]
    return ids


def _given_names(all_graphs: list[Graph]) -> Iterator[str]:
    """The names of all inputs and constants."""
    for graph in all_graphs:
        yield from [value.name or "" for value in graph.input]
        yield from [tensor.name or "" for tensor in graph.initializer]
        yield from [sparse.values.name or "" for sparse in graph.sparse_initializer if sparse.values]


def _dims(all_graphs: list[Graph]) -> Iterable[Dimension]:
    """All dimensions of the values whose types are in the graphs."""
    for graph in all_graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            tensor = value.type.tensor_type if value.type else None
            if tensor is not None and tensor.shape is not None:
                yield from tensor.shape.dim


def _first_duplicate(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
