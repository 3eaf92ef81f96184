"""A model in other versions, of ONNX's operator sets and of the IR, which shares the weights of the given one.

Spec: onnx.proto, `Version`; ONNX docs, IR.md.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.editing.node_conversion import RefusedError, converted, instance, lone, since
from formats.editing.older_forms import INDICES
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_messages, defined_in, main_graph, names_used, subgraphs
from formats.errors import FormatError, MissingPackageError, UnsupportedError
from formats.ir import walk
from formats.ir.copies import copied
from formats.ir.model import (
    Attribute,
    Dimension,
    Function,
    Graph,
    Message,
    Model,
    Node,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
    entries,
)
from formats.ir.storage import from_numpy
from formats.onnxpb.newer_parts import FIELDS, newer_parts
from formats.onnxpb.operator_sets import NEWEST as SETS
from formats.onnxpb.value_types import inferred, type_of, value_types
from formats.tensordata.plan import DOCUMENTATION, RARE, SPECIAL, USE, Loss
from formats.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.editing.node_conversion import Converted, Lone
    from formats.ir.model import OperatorSetId
    from formats.tensordata.plan import Seen


ONNX = ("", "ai.onnx")
NEWEST = SETS["ai.onnx"]
NAMED = 10  # nodes that an error names
SMALL_BYTES = 64 << 10  # larger constants decide no form
INTERFACE_WITH_WEIGHTS = 4  # before this ir_version, all initializers are inputs as well


class Waiting(NamedTuple):
    """A node that has to be converted: its place, and what it is without its neighbours."""

    place: str
    node: Node
    key: tuple[int, bytes]


def set_name(domain: str | None) -> str:
    """The name of an operator set; "" is ONNX's own."""
    return "" if (domain or "") in ONNX else domain or ""


def version_of(imports: list[OperatorSetId]) -> int | None:
    """The version of ONNX's own operators that a model or function imports."""
    return next((entry.version for entry in imports if (entry.domain or "") in ONNX), None)


def with_opset(model: Model, version: int) -> tuple[Model, EditResult]:
    """The model with ONNX's own operators in this version of their set, up or down, and what was done.

    Raises: UnsupportedError that names the nodes that cannot be converted, and the reasons; MissingPackageError if a
    node gets another form, and onnx is not installed.
    """
    given = version_of(model.opset_import)
    if given is None:
        raise UnsupportedError("the model imports no operators of ONNX, so their version cannot change")
    versions = {given, *(v for each in model.functions if (v := version_of(each.opset_import)) is not None)}
    if versions == {version}:
        return model, EditResult()
    if unknown := sorted(each for each in {version, *versions} if not 1 <= each <= NEWEST):
        raise UnsupportedError(f"ONNX has the operator sets 1 to {NEWEST}, not {unknown[0]}")
    new = copied(model)
    work = _Work(new, version)
    try:
        types = inferred(model)
    except MissingPackageError as error:
        types, work.why_unknown = None, f"; {error.message}"
    work.look_at_all(types)
    work.convert()
    for imports in (new.opset_import, *(each.opset_import for each in new.functions)):
        for index, entry in enumerate(imports):
            if (entry.domain or "") in ONNX:
                imports[index] = copied(entry)
                imports[index].version = version
    return new, EditResult((Edit("opset", work.sentence(given)),), tuple(work.losses()))


def with_other_set(model: Model, domain: str, most: int) -> tuple[Model, EditResult]:
    """The model with an older version of another operator set, if it has a newer one than `most`.

    Only the number changes, so all operators must have the same form in both.

    Raises: UnsupportedError for an operator with another form.
    """
    given = max((entry.version or 0 for entry in _imports(model, domain)), default=0)
    if given <= most:
        return model, EditResult()
    for place, node in walk.nodes(model):
        if node.domain == domain and since(node.op_type or "", given, domain) != since(
            node.op_type or "", most, domain
        ):
            raise UnsupportedError(
                f"the model cannot be written in version {most} of {domain}: {place} ({node.op_type}) has another form "
                "there, and nothing converts it"
            )
    new = copied(model)
    for entry in _imports(new, domain):
        entry.version = min(entry.version or 0, most)
    return new, EditResult((Edit("opset", f"operator set {given} -> {most} of {domain}"),))


def _imports(model: Model, domain: str) -> list[OperatorSetId]:
    every = (model.opset_import, *(each.opset_import for each in model.functions))
    return [entry for imports in every for entry in imports if entry.domain == domain]


class _Work:
    """The nodes of a model that have to be converted, and their new forms."""

    def __init__(self, model: Model, version: int) -> None:
        self.model, self.version = model, version
        self.functions = {(each.domain or "", each.name or "") for each in model.functions}
        self.lone: dict[tuple[int, bytes], Lone] = {}
        self.waiting: dict[int, Waiting] = {}  # by the identity of the node
        self.forms: dict[tuple[int, bytes], Converted] = {}
        self.names: set[str] = set()
        self.left: set[str] = set()  # inputs that converted nodes no longer have
        self.known: dict[tuple[str, int], bool] = {}
        self.elements: dict[str, dict[str, str]] = {}  # types without shapes, if no others are known
        self.why_unknown = ""

    def look_at_all(self, types: Model | None) -> None:
        """Find the nodes that have to be converted, in all graphs and functions; `types` has what onnx infers."""
        self.elements = value_types(self.model) if types is None else {}
        found = {} if types is None else dict(walk.graphs(types))
        roots = [("graph", self.model.graph)]
        for index, info in enumerate(entries(self.model, "training_info")):
            roots += [
                (f"training_info[{index}].{word}", getattr(info, word)) for word in ("initialization", "algorithm")
            ]
        for where, graph in roots:
            if graph is not None:
                self.look(graph, where, version_of(self.model.opset_import) or 0, ChainMap(), ChainMap(), found)
        for index, function in enumerate(self.model.functions):
            if (own := version_of(function.opset_import)) is not None:
                self.look(function, f"functions[{index}]", own, ChainMap(), ChainMap(), found)

    def look(
        self,
        graph: Graph | Function,
        where: str,
        given: int,
        types: ChainMap[str, Type | None],
        constants: ChainMap[str, Tensor | None],
        found: Mapping[str, Graph],
    ) -> None:
        """Find the nodes of a graph that have to be converted; `found` are graphs with types, by place."""
        hidden = dict.fromkeys(defined_in(graph))  # a name of this graph is no value of those around it
        derived = {name: type_of(text) for name, text in self.elements.get(where, {}).items()}
        types = types.new_child(hidden | derived | dict(known_types(graph, found.get(where))))
        constants = constants.new_child(hidden | {tensor.name or "": tensor for tensor in self.constants(graph)})
        self.names.update(types, constants)
        for index, node in enumerate(graph.node):
            place = walk.inner_place(where, "node", index)
            self.names.update(node.input, node.output, (node.name or "",))
            for name, inner in subgraphs(node):
                attribute = next(each for each in node.attribute if each.name == name)
                at = walk.inner_place(walk.inner_place(place, "attribute", None, attribute), "g")
                self.look(inner, at, given, types, constants, found)
            if self.changes(node, given):
                single = lone(node, types.get, constants.get)
                key = (given, single.key)
                self.lone.setdefault(key, single)
                self.waiting[id(node)] = Waiting(place, node, key)

    def changes(self, node: Node, given: int) -> bool:
        """Whether the operator of a node has another form in the new version."""
        operator = node.op_type or ""
        if (node.domain or "") not in ONNX or (node.domain or "", operator) in self.functions:
            return False
        key = (operator, given)
        if key not in self.known:
            self.known[key] = since(operator, given) != since(operator, self.version)
        return self.known[key]

    def constants(self, graph: Graph | Function) -> Iterator[Tensor]:
        """The small constants of a graph: what an input provides is none."""
        if not isinstance(graph, Function):
            is_old = (self.model.ir_version or 0) < INTERFACE_WITH_WEIGHTS
            inputs = set() if is_old else {value.name for value in graph.input}
            yield from (each for each in graph.initializer if each.name not in inputs and _is_small(each))
        for node in graph.node:
            if node.op_type == "Constant" and (node.domain or "") in ONNX and node.attribute and node.output:
                tensor = _constant(node.attribute[0])
                if tensor is not None and _is_small(tensor):
                    named = copied(tensor)
                    named.name = node.output[0]
                    yield named

    def convert(self) -> None:
        """Convert the nodes. Raises: UnsupportedError for all that cannot be converted."""
        for given in {key[0] for key in self.lone}:
            keys = [key for key in self.lone if key[0] == given]
            nodes = [self.lone[key] for key in keys]
            forms = converted(nodes, given, self.version, with_opset)
            self.forms.update(zip(keys, forms, strict=True))
        refused = [each for each in self.waiting.values() if self.forms[each.key].refusal]
        if refused:
            raise RefusedError(self.refusal(refused), [self.forms[each.key].refusal for each in refused])
        for graph in _all_graphs(self.model):
            self.put_in(graph)
        self.drop_unused()

    def put_in(self, graph: Graph | Function) -> None:
        """Replace the nodes of a graph by their new forms."""
        nodes: list[Node] = []
        for node in graph.node:
            waiting = self.waiting.get(id(node))
            if waiting is None:
                nodes.append(node)
                continue
            made, tensors = instance(self.forms[waiting.key], node, self.fresh)
            is_old = (self.model.ir_version or 0) < INTERFACE_WITH_WEIGHTS
            if isinstance(graph, Function) or is_old:  # whose initializers would have to be inputs
                made = [*map(_as_node, tensors), *made]
            else:
                graph.initializer = [*graph.initializer, *tensors] if tensors else graph.initializer
            self.left |= set(node.input).difference(*(each.input for each in made))
            nodes += made
        graph.node = nodes

    def fresh(self, near: str) -> str:
        """A name that no value has, near that of a node."""
        number = 0
        while (name := f"{near}_opset{self.version}{f'_{number}' if number else ''}") in self.names:
            number += 1
        self.names.add(name)
        return name

    def drop_unused(self) -> None:
        """Drop constants that only converted nodes used, as an attribute has their value now."""
        used: set[str] = set()
        for graph in _all_graphs(self.model):
            used.update(*map(names_used, graph.node))
            used.update(each if isinstance(each, str) else each.name or "" for each in graph.output)
            used.update(() if isinstance(graph, Function) else (each.name or "" for each in graph.input))
        unused = self.left - used
        for graph in _all_graphs(self.model):
            graph.node = [
                node for node in graph.node if node.op_type != "Constant" or not unused.issuperset(node.output)
            ]
            if not isinstance(graph, Function) and unused:
                graph.initializer = [each for each in graph.initializer if each.name not in unused]

    def refusal(self, refused: list[Waiting]) -> str:
        """The error for the nodes that cannot be converted."""
        lines = []
        for each in refused:
            name = f" {each.node.name!r:.80}" if each.node.name else ""
            lines.append(f"{each.place} ({each.node.op_type}{name}): {self.forms[each.key].refusal}")
        shown = listed(lines, NAMED, "; ", "node")
        return f"the model cannot be written in operator set {self.version}: {shown}{self.why_unknown}"

    def losses(self) -> Iterator[Loss]:
        """What differs for special values, each once."""
        differences = [(each.place, self.forms[each.key].difference) for each in self.waiting.values()]
        for detail in dict.fromkeys(detail for _, detail in differences if detail):
            places = [place for place, each in differences if each == detail]
            times = f" ({len(places)} times)" if len(places) > 1 else ""
            yield Loss("opset", places[0], f"{detail}{times}", RARE if detail == INDICES else SPECIAL)

    def sentence(self, given: int) -> str:
        """What was done."""
        counts = Counter(each.node.op_type or "" for each in self.waiting.values())
        defined = {each.node.op_type for each in self.waiting.values() if self.forms[each.key].is_defined}
        text = f"operator set {given} -> {self.version}, {counted(len(self.waiting), 'node')} converted"
        if defined:
            names = ", ".join(sorted(f"{name} x {counts[name or '']}" for name in defined))
            text += f"; written with other operators: {names}"
        return text


def _all_graphs(model: Model) -> list[Graph | Function]:
    """All graphs and functions of a model."""
    return [*(graph for _, graph in walk.graphs(model)), *model.functions]


def known_types(graph: Graph | Function, found: Graph | None) -> Iterator[tuple[str, Type]]:
    """The types of the values of a graph that are known, by name: what was inferred counts more."""
    for each in (graph, found):
        if each is None or isinstance(each, Function):
            continue
        for tensor in each.initializer:
            yield (
                tensor.name or "",
                Type(tensor_type=TensorType(tensor.data_type, TensorShape([Dimension(each) for each in tensor.dims]))),
            )
        for value in (*each.input, *each.output, *each.value_info):
            if value.type is not None:
                yield value.name or "", value.type


def _is_small(tensor: Tensor) -> bool:
    try:
        return tensor.source().nbytes <= SMALL_BYTES
    except FormatError:  # strings, or data that do not fit
        return False


def _constant(attribute: Attribute) -> Tensor | None:
    """The tensor of a Constant, unless it has strings or is sparse."""
    import numpy

    if attribute.t is not None:
        return attribute.t
    if attribute.name in ("value_int", "value_ints"):
        value = attribute.i if attribute.name == "value_int" else attribute.ints
        return from_numpy(numpy.array(value, numpy.int64))
    if attribute.name in ("value_float", "value_floats"):
        return from_numpy(
            numpy.array(attribute.f if attribute.name == "value_float" else attribute.floats, numpy.float32)
        )
    return None


def _as_node(tensor: Tensor) -> Node:
    """A constant as a node, which functions and models before IR version 4 need."""
    return Node([], [tensor.name or ""], None, "Constant", attribute=[Attribute("value", type=4, t=tensor)])


# Newer fields without which a model computes the same: what they are, and who misses them.
OPTIONAL: dict[str, tuple[str, Seen]] = {
    "metadata_props": ("metadata of nodes and other parts", DOCUMENTATION),
    "value_info": ("types of values in functions", DOCUMENTATION),
    "quantization_annotation": ("quantisation annotations", USE),
    "device_configurations": ("device configurations of nodes", USE),
    "configuration": ("device configurations", USE),
}


def with_ir_version(model: Model, version: int) -> tuple[Model, EditResult]:
    """The model in this IR version, and what was done; newer fields without which it computes the same are dropped.

    Raises: UnsupportedError that names the parts that are newer.
    """
    given = model.ir_version or 0
    if given == version:
        return model, EditResult()
    new = copied(model)
    new.ir_version = version
    done = EditResult((Edit("ir_version", f"IR version {given} -> {version}"),))
    if version < given:
        done += EditResult(losses=tuple(_drop_optional(new, version)))
        if parts := [f"{place}: {detail.partition(', but')[0]}" for place, detail in newer_parts(new)]:
            shown = listed(parts, NAMED, "; ", "part")
            error = UnsupportedError(f"the model cannot be written in IR version {version}: {shown}")
            error.reason = shown
            raise error
        if version < INTERFACE_WITH_WEIGHTS <= given:
            done += _add_inputs(new)
    return new, done


def _drop_optional(model: Model, version: int) -> Iterator[Loss]:
    """Drop the newer fields whose loss is only reported."""
    wanted = {key for key, first in FIELDS.items() if first > version and key[1] in OPTIONAL}
    counts = Counter(name for message in _messages(model) for name in _dropped(message, wanted))
    for name, number in counts.items():
        words, seen = OPTIONAL[name]
        yield Loss(name, "", f"IR version {version} has no {words}: {counted(number, 'part')} lost them", seen)


def _dropped(message: Any, wanted: set[tuple[str, str]]) -> Iterator[str]:
    for owner, name in wanted:
        if owner == message.message and entries(message, name):
            setattr(message, name, [])
            yield name


def _messages(model: Model) -> Iterator[Message]:
    """All messages that may have a field that can be dropped."""
    yield model
    for graph in all_messages(model):
        yield graph
        yield from graph.node
        yield from entries(graph, "value_info")
        if not isinstance(graph, Function):
            yield from (*graph.input, *graph.output, *graph.initializer)
        for node in graph.node:
            yield from (each.t for each in entries(node, "attribute") if each.t is not None)


def _add_inputs(model: Model) -> EditResult:
    """Make all initializers inputs as well.

    Raises: UnsupportedError for those of subgraphs, which have no such inputs.
    """
    for graph in all_messages(model):
        if not isinstance(graph, Function) and graph is not main_graph(model) and graph.initializer:
            found = f"a subgraph has the initializer {graph.initializer[0].name!r:.80}"
            raise UnsupportedError(
                f"before IR version {INTERFACE_WITH_WEIGHTS}, an initializer must be an input; {found}"
            )
    known = {value.name for value in main_graph(model).input}
    new = list(_inputs(main_graph(model), known))
    main_graph(model).input = [*main_graph(model).input, *new]
    words = f"{counted(len(new), 'initializer')} became inputs as well, which this version needs"
    return EditResult((Edit("ir_version", words),)) if new else EditResult()


def _inputs(graph: Graph, known: set[str | None]) -> Iterator[ValueInfo]:
    for tensor in graph.initializer:
        if tensor.name not in known:
            shape = TensorShape([Dimension(size) for size in tensor.dims])
            yield ValueInfo(tensor.name, Type(tensor_type=TensorType(tensor.data_type, shape)))
