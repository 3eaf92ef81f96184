"""A model in other versions of ONNX's operator sets, which shares the weights of the given one.

Spec: onnx.proto, `Version`; ONNX docs, IR.md.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.extraction import all_nodes
from formats.editing.nodes import constant_node, constant_of_node
from formats.editing.options import MOST_NAMED, Edit, EditResult
from formats.editing.scopes import all_messages, defined_in, names_used, subgraphs_of
from formats.editing.versions.node_conversion import converted, instance, since
from formats.editing.versions.node_forms import NoFormError, lone_node
from formats.errors import FormatError, MissingPackageError, UnsupportedError
from formats.ir import FIRST_WITH_CONSTANTS, ONNX, domain_key, walk
from formats.ir.attributes import attribute_named
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import Function, Graph, Model, Node, Tensor, Type, ValueInfo, entries, type_of_tensor
from formats.ir.node_order import Names
from formats.onnxpb.inference import inferred
from formats.onnxpb.operator_sets import NEWEST as SETS
from formats.onnxpb.value_types import type_of, value_types
from formats.tensordata.plan import RARE, SPECIAL, Loss
from formats.words import counted, joined, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.editing.versions.node_forms import LoneNode, NodeForm
    from formats.ir.functions import Key
    from formats.ir.model import OperatorSetId
    from formats.tensordata.plan import Seen

    # The operator set that a node has now, and `LoneNode.key`: equal nodes are converted once.
    FormKey = tuple[int, bytes]


SMALL_BYTES = 64 << 10  # larger constants decide no form


class PlacedNode(NamedTuple):
    """A node that has to be converted: its place, and what it is without its neighbours."""

    place: str
    node: Node
    key: FormKey


def version_of(imports: list[OperatorSetId], domain: str = "") -> int | None:
    """The version of an operator set that a model or function imports; without a domain, of ONNX's own."""
    return next((entry.version for entry in imports if domain_key(entry.domain) == domain), None)


def with_opset(model: Model, version: int, domain: str = "") -> tuple[Model, EditResult]:
    """The model with ONNX's own operators in this version of their set, up or down, and what was done.

    `domain` names another set of ONNX, such as "ai.onnx.ml".

    Raises: UnsupportedError that names the nodes that cannot be converted, and the reasons; MissingPackageError if a
    node needs a definition that the package onnx has, and it is not installed.
    """
    newest = SETS.get(domain or ONNX)
    if newest is None:
        known = joined([repr(name) for name in SETS])
        raise UnsupportedError(f"no versions of the operators of {domain!r:.100} are known, only of {known}")
    of_graph = version_of(model.opset_import, domain)
    if of_graph is None:
        raise UnsupportedError(f"the model imports no operators of {domain or 'ONNX'}, so their version cannot change")
    of_functions = (version_of(function.opset_import, domain) for function in model.functions)
    imported = {of_graph, *(number for number in of_functions if number is not None)}
    if imported == {version}:
        return model, EditResult()
    if unknown := sorted(number for number in {version, *imported} if not 1 <= number <= newest):
        raise UnsupportedError(f"{domain or 'ONNX'} has the operator sets 1 to {newest}, not {unknown[0]}")
    new = copied(model)
    work = _SetConversion(new, version, domain)
    work.find_nodes()
    work.convert()
    for imports in (new.opset_import, *(function.opset_import for function in new.functions)):
        for index, entry in enumerate(imports):
            if domain_key(entry.domain) == domain:
                imports[index] = copied(entry)
                imports[index].version = version
    return new, EditResult((Edit("opset", work.sentence(of_graph)),), tuple(work.losses()))


class _SetConversion:
    """The nodes of a model that have to be converted, and their new forms."""

    def __init__(self, model: Model, version: int, domain: str) -> None:
        self.model, self.version, self.domain = model, version, domain
        self.functions = functions_of(model.functions)
        self.lone_nodes: dict[FormKey, LoneNode] = {}
        self.to_convert: dict[int, PlacedNode] = {}  # by the identity of the node
        self.forms: dict[FormKey, NodeForm] = {}
        self.refusals: dict[FormKey, str] = {}
        self.names = Names()
        self.dropped_inputs: set[str] = set()  # that converted nodes no longer have
        self.differs: dict[tuple[str, int], bool] = {}
        self.calls: dict[Key, list[list[Type | None]]] = {}  # the types of the inputs of each call of a function
        self.why_unknown = ""

    def find_nodes(self) -> None:
        """Find the nodes that have to be converted, in all graphs and functions."""
        types = self.types_of(self.model)
        roots = [("graph", self.model.graph)]
        for index, info in enumerate(entries(self.model, "training_info")):
            roots += [
                (f"training_info[{index}].{word}", getattr(info, word)) for word in ("initialization", "algorithm")
            ]
        imported = version_of(self.model.opset_import, self.domain) or 0
        for where, graph in roots:
            if graph is not None:
                self.find_nodes_of(graph, where, imported, ChainMap(), ChainMap(), types)
        places = {id(function): index for index, function in enumerate(self.model.functions)}
        for key in _callers_first(self.functions):
            function = self.functions[key]
            index = places[id(function)]
            if (own := version_of(function.opset_import, self.domain)) is not None:
                body = self.body(function, key)
                types = self.types_of(body)
                types[id(function)] = types.pop(id(body.graph))
                self.find_nodes_of(function, f"functions[{index}]", own, ChainMap(), ChainMap(), types)

    def types_of(self, model: Model) -> dict[int, dict[str, Type]]:
        """The types of values that are known, by the `id` of their graph and by name."""
        types: dict[int, dict[str, Type]] = {}
        for graph, texts in value_types(model).items():
            kinds = {text: type_of(text) for text in {*texts.values()}}
            derived = {name: kind for name, text in texts.items() if (kind := kinds[text]) is not None}
            types[graph] = derived
        try:
            with_shapes = inferred(model)
        except MissingPackageError as error:
            with_shapes, self.why_unknown = None, f"; {error.message}"
        if with_shapes is not None:
            for (_, own), (_, inferred_graph) in zip(walk.graphs(model), walk.graphs(with_shapes), strict=True):
                types.setdefault(id(own), {}).update(known_types(inferred_graph))
        return types

    def body(self, function: Function, key: Key) -> Model:
        """The nodes of a function as a model, whose inputs have the types that they have in all calls."""
        inputs = []
        for index, name in enumerate(function.input):
            kinds = [call[index] if index < len(call) else None for call in self.calls.get(key, ())]
            inputs.append(ValueInfo(name, kinds[0] if kinds and all(kind == kinds[0] for kind in kinds) else None))
        graph = Graph(name="body", node=function.node, input=inputs)
        # Without the other functions, so that the time for many functions is not that of each with all others.
        return Model(self.model.ir_version, opset_import=function.opset_import, graph=graph)

    def find_nodes_of(
        self,
        graph: Graph | Function,
        where: str,
        imported: int,
        types: ChainMap[str, Type | None],
        constants: ChainMap[str, Tensor | None],
        types_by_graph: Mapping[int, dict[str, Type]],
    ) -> None:
        """Find the nodes of a graph that have to be converted; the model or function has `imported` this version."""
        hidden: dict[str, Any] = dict.fromkeys(defined_in(graph))  # a name of this graph is no value of those around it
        own = {} if isinstance(graph, Function) else dict(known_types(graph))
        types = types.new_child(hidden | own | types_by_graph.get(id(graph), {}))
        constants = constants.new_child(hidden | {tensor.name or "": tensor for tensor in self.constants(graph)})
        self.names.take((*types.maps[0], *constants.maps[0]))  # those of the graphs around it are taken
        for index, node in enumerate(graph.node):
            place = walk.inner_place(where, "node", index)
            self.names.take((*node.input, *node.output, node.name or ""))
            for name, inner in subgraphs_of(node):
                attribute = attribute_named(node, name)
                at = walk.inner_place(walk.inner_place(place, "attribute", None, attribute), "g")
                self.find_nodes_of(inner, at, imported, types, constants, types_by_graph)
            if (key := key_of(node.domain, node.op_type, node.overload)) in self.functions:
                self.calls.setdefault(key, []).append([types.get(name) for name in node.input])
            elif self.changes(node, imported):
                single = lone_node(node, types.get, constants.get)
                form = (imported, single.key)
                self.lone_nodes.setdefault(form, single)
                self.to_convert[id(node)] = PlacedNode(place, node, form)

    def changes(self, node: Node, imported: int) -> bool:
        """Whether the operator of a node has another form in the new version."""
        operator = node.op_type or ""
        if domain_key(node.domain) != self.domain:
            return False
        key = (operator, imported)
        if key not in self.differs:
            self.differs[key] = since(operator, imported, self.domain) != since(operator, self.version, self.domain)
        return self.differs[key]

    def constants(self, graph: Graph | Function) -> Iterator[Tensor]:
        """The small constants of a graph: what an input provides is none."""
        if not isinstance(graph, Function):
            is_old = (self.model.ir_version or 0) < FIRST_WITH_CONSTANTS
            inputs = set() if is_old else {value.name for value in graph.input}
            yield from (tensor for tensor in graph.initializer if tensor.name not in inputs and _is_small(tensor))
        for node in graph.node:
            if (tensor := constant_of_node(node)) is not None and _is_small(tensor):
                yield tensor

    def convert(self) -> None:
        """Convert the nodes. Raises: UnsupportedError for all that cannot be converted."""
        for key, single in self.lone_nodes.items():
            try:
                self.forms[key] = converted(single, key[0], self.version)
            except NoFormError as error:  # noqa: PERF203 (all reasons are collected)
                self.refusals[key] = error.message
        if self.refusals:
            raise UnsupportedError(self.refusal())
        for graph in all_messages(self.model):
            self.put_in(graph)
        self.drop_unused()

    def put_in(self, graph: Graph | Function) -> None:
        """Replace the nodes of a graph by their new forms."""
        nodes: list[Node] = []
        for node in graph.node:
            placed = self.to_convert.get(id(node))
            if placed is None:
                nodes.append(node)
                continue
            made, tensors = instance(self.forms[placed.key], node, self.fresh)
            is_old = (self.model.ir_version or 0) < FIRST_WITH_CONSTANTS
            if isinstance(graph, Function) or is_old:  # whose initializers would have to be inputs
                made = [*map(constant_node, tensors), *made]
            else:
                graph.initializer = [*graph.initializer, *tensors] if tensors else graph.initializer
            self.dropped_inputs |= set(node.input).difference(*(new.input for new in made))
            nodes += made
        graph.node = nodes

    def fresh(self, near: str) -> str:
        """A name that no value has, near that of a node."""
        return self.names.new(f"{near}_opset{self.version}")

    def drop_unused(self) -> None:
        """Drop constants that only converted nodes used, as an attribute has their value now."""
        used: set[str] = set()
        for graph in all_messages(self.model):
            used.update(*map(names_used, graph.node))
            used.update(value if isinstance(value, str) else value.name or "" for value in graph.output)
            used.update(() if isinstance(graph, Function) else (value.name or "" for value in graph.input))
        unused = self.dropped_inputs - used
        for graph in all_messages(self.model):
            graph.node = [
                node for node in graph.node if node.op_type != "Constant" or not unused.issuperset(node.output)
            ]
            if not isinstance(graph, Function) and unused:
                graph.initializer = [tensor for tensor in graph.initializer if tensor.name not in unused]

    def refusal(self) -> str:
        """The error for the nodes that cannot be converted."""
        lines = []
        for placed in self.to_convert.values():
            if reason := self.refusals.get(placed.key):
                name = f" {placed.node.name!r:.80}" if placed.node.name else ""
                lines.append(f"{placed.place} ({placed.node.op_type}{name}): {reason}")
        shown = listed(lines, MOST_NAMED, "; ", "node")
        words = f" of {self.domain}" if self.domain else ""
        return f"the model cannot be written in operator set {self.version}{words}: {shown}{self.why_unknown}"

    def losses(self) -> Iterator[Loss]:
        """What differs, each once."""
        places: dict[tuple[str, Seen], list[str]] = {}
        for placed in self.to_convert.values():
            for difference in self.forms[placed.key].differences.items():
                places.setdefault(difference, []).append(placed.place)
        for (detail, seen), where in places.items():
            times = f" ({len(where)} times)" if len(where) > 1 else ""
            yield Loss("opset", where[0], f"{detail}{times}", RARE if seen == RARE else SPECIAL)

    def sentence(self, imported: int) -> str:
        """What was done."""
        counts = Counter(placed.node.op_type or "" for placed in self.to_convert.values())
        defined = {placed.node.op_type for placed in self.to_convert.values() if self.forms[placed.key].is_defined}
        words = f" of {self.domain}" if self.domain else ""
        text = f"operator set {imported} -> {self.version}{words}, {counted(len(self.to_convert), 'node')} converted"
        if defined:
            names = ", ".join(sorted(f"{name} x {counts[name or '']}" for name in defined))
            text += f"; written with other operators: {names}"
        return text


def _callers_first(functions: Mapping[Key, Function]) -> list[Key]:
    """Functions, each after those that call it."""
    callers: dict[Key, set[Key]] = {key: set() for key in functions}
    for key, function in functions.items():
        for node in all_nodes([function]):
            if (called := key_of(node.domain, node.op_type, node.overload)) in functions:
                callers[called].add(key)
    try:
        return [*TopologicalSorter(callers).static_order()]
    except CycleError:  # which no runtime accepts
        return [*functions]


def known_types(graph: Graph) -> Iterator[tuple[str, Type]]:
    """The types of the values of a graph that it says, by name."""
    for tensor in graph.initializer:
        yield tensor.name or "", type_of_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type is not None:
            yield value.name or "", value.type


def _is_small(tensor: Tensor) -> bool:
    try:
        return tensor.source().nbytes <= SMALL_BYTES
    except FormatError:  # strings, or data that do not fit
        return False
