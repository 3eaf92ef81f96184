"""A model that computes in float16, made of one in float32; it shares the places of the weights.

Calls of functions are written out first, since the values of a function have no types of their own: only a call says
which of them are float32. Then the values of all graphs get their types, and the nodes are written. The weights are
converted while they are copied. Values that an operator needs in float32 are cast there and back.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import TYPE_CHECKING, NamedTuple

from formats.editing.float16_nodes import (
    SCALING,
    FloatValue,
    Halved,
    Operators,
    dequantizing,
    float_kind,
    in_float16,
    in_float32,
    inner_graphs,
    is_constant_node,
    reduces,
    with_element,
)
from formats.editing.float16_sizes import ExactNumbers, large_sums
from formats.editing.operator_sets import version_of, with_opset
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_messages, defined_in, main_graph, names_used, nodes_named, subgraphs_of, used_in
from formats.editing.surgery import make_node
from formats.errors import UnsupportedError
from formats.ir import ONNX, domain_key, walk
from formats.ir.copies import copied
from formats.ir.dtypes import FLOAT, FLOAT16, type_name
from formats.ir.functions import expand_call, expanded_size, functions_of, key_of
from formats.ir.model import Graph, ValueInfo, entries
from formats.ir.node_order import Names
from formats.onnxpb.value_types import operator_type_text, value_types
from formats.words import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.editing.float16_nodes import FloatForm
    from formats.ir.model import Function, Model, Node, SparseTensor, Tensor

    Key = tuple[str, str, str]

MOST_NODES, MOST_DEPTH = 10_000_000, 100  # of what replaces one call
NAMED = 10  # nodes that an error names


def to_float16(model: Model, *, keep_io_types: bool = False, keep: Sequence[str] = ()) -> tuple[Model, EditResult]:
    """The model with its float32s as float16s, and what was done; with `keep_io_types`, inputs and outputs stay.

    Operators and nodes stay in float32 whose names are in `keep`, or match a pattern there.

    Raises: EditError for a name that no node has; UnsupportedError that names what stands in the way;
    MissingPackageError if onnx is not installed, and a function of the model needs another operator set.
    """
    if entries(model, "training_info"):
        raise UnsupportedError("the model has graphs for its training, which cannot become float16; remove them")
    new = copied(model)
    calls = expand_calls(new)
    work = _Float16Conversion(new, keep_io_types)
    work.in_float32.update(nodes_named(new, "keep", keep))
    work.find_values()
    work.settle()
    work.rewrite_all()
    return new, work.result(calls)


class _GraphValues(NamedTuple):
    """A graph, the values that are visible in it, and those that it defines itself."""

    graph: Graph
    where: str
    values: ChainMap[str, FloatValue]

    @property
    def own(self) -> Mapping[str, FloatValue]:
        return self.values.maps[0]


class _Float16Conversion:
    """The graphs of a model, the values in them, and what a report says of them."""

    def __init__(self, model: Model, keep_io_types: bool) -> None:
        self.model, self.keep = model, keep_io_types
        self.operators = Operators(model.opset_import)
        self.scopes: list[_GraphValues] = []
        self.unknown: list[str] = []  # "y of Relu act_1", for the error
        self.exact: set[int] = set()  # the nodes that compute sizes and the like, by identity
        self.exact_in_main: set[str] = set()  # the values that those of the main graph use
        self.in_float32: set[int] = set()  # those, and the nodes that scale sums of quantised products
        self.stay: Counter[str] = Counter()  # the nodes that stay in float32, by operator
        self.halved = Halved()
        self.casts = 0
        self.interface: list[tuple[str, list[str]]] = []  # whose type changes: [("input", ["x"]), ("output", ["y"])]

    def find_values(self) -> None:
        """Find the values of all graphs, and what nodes want.

        Raises: UnsupportedError if the type of a value is not known.
        """
        all_types = value_types(self.model)
        exact = ExactNumbers(all_types)
        self.exact_in_main = exact.find(main_graph(self.model))
        self.exact = exact.nodes
        self._find_values_of(main_graph(self.model), "graph", ChainMap(), all_types)
        if self.unknown:
            raise UnsupportedError(
                "float16 needs the types of all values, and these are not known: "
                f"{listed(self.unknown, NAMED, noun='value')}; add them to graph.value_info"
            )

    def _find_values_of(
        self,
        graph: Graph,
        where: str,
        outer: ChainMap[str, FloatValue],
        all_types: Mapping[str, Mapping[str, str]],
    ) -> None:
        types = all_types.get(where, {})  # {"x": "tensor(float)"}; `all_types` has these by the place of the graph
        own: dict[str, FloatValue] = {}
        values = outer.new_child(own)
        self.scopes.append(_GraphValues(graph, where, values))
        is_main = where == "graph"
        interface = FLOAT if is_main and self.keep else FLOAT16

        others = (node for node in graph.node if is_main and id(node) not in self.exact)
        inexact = {name for node in others for name in names_used(node)}
        for stated in graph.input:
            name = stated.name or ""
            is_exact = is_main and name in self.exact_in_main and name not in inexact
            own[name] = FloatValue(name, float_kind(types.get(name, "")), FLOAT if is_exact else interface)
            if not types.get(name):
                self.unknown.append(f"{name}, an input of {where}")
        for tensor in _tensors(graph):
            if tensor.name not in own:
                own[tensor.name or ""] = FloatValue(
                    tensor.name or "", float_kind(types.get(tensor.name or "", "")), None
                )
                own[tensor.name or ""].is_beyond = self._is_beyond(tensor)
        sums = large_sums(graph, {tensor.name or "": tensor for tensor in graph.initializer})
        self.in_float32.update(map(id, dequantizing(graph.node)), self.exact, sums)
        # Before anything is used: some files have their nodes in no order. Constants decide about other nodes.
        for node in sorted(graph.node, key=lambda node: not is_constant_node(node)):
            form = self._form_of(node, values)
            own.update((name, self._made(node, index, form, types)) for index, name in enumerate(node.output) if name)
        for index, node in enumerate(graph.node):
            place = walk.inner_place(where, "node", index)
            form = self._form_of(node, values)
            self._note_wanted_types(node, place, form, values)
            for inner, at in inner_graphs(node, place):
                if not form.is_known:
                    raise UnsupportedError(f"{place}: nobody knows the types in the graphs of {node.op_type}")
                self._find_values_of(inner, at, values, all_types)
        for output in graph.output:
            value = values.get(output.name or "")
            if value is not None and value.kind != "other":
                value.wanted.setdefault(interface, f"{where}.output")
                if is_main:
                    value.public = interface

    def _form_of(self, node: Node, values: Mapping[str, FloatValue]) -> FloatForm:
        """The form of a node's operator; one whose numbers are likely to be beyond float16 stays in float32."""
        form = self.operators.form_of(node)
        scales = node.op_type in SCALING and any(name in values and values[name].is_beyond for name in node.input)
        return in_float32(form) if scales or reduces(node) or id(node) in self.in_float32 else form

    def _is_beyond(self, tensor: Tensor) -> bool:
        return tensor.data_type == FLOAT and bool(self.halved.beyond(tensor).large)

    def _note_wanted_types(self, node: Node, place: str, form: FloatForm, values: ChainMap[str, FloatValue]) -> None:
        """Note in which types a node wants its inputs."""
        floats = any((made := values.get(name)) is not None and made.kind != "other" for name in node.output)
        for index, name in enumerate(node.input):
            value = values.get(name)
            if value is not None and value.kind != "other":
                floats = True
                half = form.inputs.is_half(index)
                value.wanted.setdefault(FLOAT16 if half else FLOAT, f"{place} ({node.op_type})")
                value.is_exact |= id(node) in self.exact
        if form.stays and floats:
            self.stay[node.op_type or ""] += 1

    def _made(self, node: Node, index: int, form: FloatForm, types: Mapping[str, str]) -> FloatValue:
        """The value that a node makes."""
        name = node.output[index]
        if not types.get(name) and form.outputs.may_be_float(index):
            self.unknown.append(f"{name} of {node.op_type} {node.name or ''}".rstrip())
        native = None if is_constant_node(node) else FLOAT16 if form.outputs.is_half(index) else FLOAT
        value = FloatValue(name, float_kind(types.get(name, "")), native)
        value.is_beyond = is_constant_node(node) and any(
            attribute.t and self._is_beyond(attribute.t) for attribute in node.attribute
        )
        return value

    def settle(self) -> None:
        """Give all values their types and names.

        Raises: UnsupportedError if a sequence must be cast, which no operator does.
        """
        taken = {name for message in all_messages(self.model) for name in defined_in(message) | used_in(message)}
        for scope in self.scopes:
            for value in scope.own.values():
                if value.kind == "other":
                    continue
                value.settle(taken)
                if value.kind == "container" and value.cast_to is not None:
                    place = value.wanted.get(value.cast_to, scope.where)
                    types = [type_name(number) for number in (value.cast_to, value.native)]
                    raise UnsupportedError(
                        f"{place} needs {value.name} as a sequence of {types[0]}, but it is one of {types[1]}, and no "
                        "operator casts sequences"
                    )

    def rewrite_all(self) -> None:
        """Write the graphs with the new types."""
        for scope in self.scopes:
            self._rewrite(scope)

    def _rewrite(self, scope: _GraphValues) -> None:
        graph, values = scope.graph, scope.values
        nodes: list[Node] = []
        names = [*(value.name for value in graph.input), *(tensor.name for tensor in _tensors(graph))]
        for name in dict.fromkeys(name or "" for name in names):
            nodes += self._casts(values[name])
        for node in graph.node:
            made = [values[name] if name else None for name in node.output]
            form = self._form_of(node, values)
            inputs = [
                values[name].named(FLOAT16 if form.inputs.is_half(index) else FLOAT) if name in values else name
                for index, name in enumerate(node.input)
            ]
            in_float16(node, made[0] if made else None, self.halved)
            node.input = inputs
            node.output = [value.named(value.native or FLOAT) if value else "" for value in made]
            nodes.append(node)
            for value in made:
                nodes += self._casts(value) if value else ()
        graph.node = nodes
        for index, tensor in enumerate(graph.initializer):
            if values[tensor.name or ""].native == FLOAT16 and tensor.data_type == FLOAT:
                graph.initializer[index] = self.halved.of(tensor, f"{scope.where}.initializer[{index}]")
        for index, sparse in enumerate(entries(graph, "sparse_initializer")):
            if (tensor := sparse.values) and values[tensor.name or ""].native == FLOAT16 and tensor.data_type == FLOAT:
                sparse.values = self.halved.of(tensor, f"{scope.where}.sparse_initializer[{index}].values")
        self._state_types(scope)

    def _casts(self, value: FloatValue) -> Iterator[Node]:
        """The node that casts a value to the other type, if somebody wants that."""
        if value.kind == "tensor" and (other := value.cast_to) is not None and value.native is not None:
            self.casts += 1
            new, old = value.names[other], value.names[value.native]
            yield make_node("Cast", [old], [new], name=f"{new}_cast", to=other)

    def _state_types(self, scope: _GraphValues) -> None:
        """Write the new types of inputs, outputs and inner values."""
        graph, own = scope.graph, scope.own
        is_main = scope is self.scopes[0]
        if is_main and not self.keep:
            inputs = [name for name in _floats(graph.input) if own[name].native == FLOAT16]
            self.interface = [("input", inputs), ("output", _floats(graph.output))]
        for stated in (*graph.input, *entries(graph, "value_info")):
            if (value := own.get(stated.name or "")) is not None and value.kind != "other":
                stated.type = with_element(stated.type, value.public or value.native or FLOAT)
        for output in graph.output:
            value = scope.values.get(output.name or "")
            if value is not None and value.kind != "other":
                number = value.public or FLOAT if is_main else FLOAT16
                output.name, output.type = value.names[number], with_element(output.type, number)

    def result(self, calls: int) -> EditResult:
        """What was done, and what was lost."""
        edits = [Edit("dtype", self.halved.sentence())] if self.halved.count else []
        casts = f"; {counted(self.casts, 'cast')} added" if self.casts else ""
        if self.stay:
            names = ", ".join(f"{name} x {count}" for name, count in sorted(self.stay.items()))
            edits.append(Edit("dtype", f"in float32 stay {names}{casts}"))
        elif self.casts:
            edits.append(Edit("dtype", casts[2:]))
        if calls:
            edits.append(Edit("dtype", f"{counted(calls, 'call')} of functions written out"))
        if any(names for _, names in self.interface):
            every, short = (
                ", ".join(
                    f"{word}{'s' * (len(names) > 1)} {listed(names, most or len(names))}"
                    for word, names in self.interface
                    if names
                )
                for most in (0, NAMED)
            )
            edits.append(Edit("dtype", f"the type is FLOAT16 now: {every}", f"the type is FLOAT16 now: {short}"))
        edits = edits or [Edit("dtype", "nothing in the model is float32")]
        return EditResult(tuple(edits), tuple(self.halved.losses()))


def _floats(values: list[ValueInfo]) -> list[str]:
    """The names of the values with float32s."""
    return [value.name or "" for value in values if float_kind(operator_type_text(value.type)) != "other"]


def _tensors(graph: Graph) -> list[Tensor]:
    """The initializers of a graph, and the values of sparse ones, which have their names."""
    sparse: list[SparseTensor] = entries(graph, "sparse_initializer")
    return [*graph.initializer, *(entry.values for entry in sparse if entry.values is not None)]


def expand_calls(model: Model) -> int:
    """Replace the calls in a model by the nodes of their functions, and return how many there were.

    Raises: UnsupportedError if functions need another operator set than the model, or call each other in a circle.
    """
    if not model.functions:
        return 0
    if (version := version_of(model.opset_import)) is not None:
        changed, _ = with_opset(model, version)
        model.functions = changed.functions
    _import_sets(model)
    functions = functions_of(model.functions)
    names = Names(name for message in all_messages(model) for name in defined_in(message) | used_in(message))
    sizes: dict[Key, float] = {}
    model.functions = []
    return sum(_expand_in(message, functions, names, sizes) for message in [*all_messages(model)])


def _import_sets(model: Model) -> None:
    """Import the operator sets of functions that the model does not import yet."""
    versions = {domain_key(entry.domain): entry.version for entry in model.opset_import}
    called = {function.domain for function in model.functions}
    for function in model.functions:
        for entry in function.opset_import:
            domain = domain_key(entry.domain)
            if domain not in versions:
                versions[domain] = entry.version
                model.opset_import.append(entry)
            elif versions[domain] != entry.version and domain not in called:
                raise UnsupportedError(
                    f"the function {function.name} uses version {entry.version} of {domain or ONNX}, and the "
                    f"model version {versions[domain]}; functions are written out for float16, so both must be the same"
                )


def _expand_in(message: Graph | Function, functions: dict[Key, Function], names: Names, sizes: dict[Key, float]) -> int:
    """Replace the calls among the nodes of a graph, and those in the subgraphs of what replaces them."""
    waiting, written, count = [*reversed(message.node)], [], 0
    while waiting:
        node = waiting.pop()
        key = key_of(node.domain, node.op_type, node.overload)
        if key not in functions:
            written.append(node)
            continue
        if expanded_size(key, functions, sizes, MOST_DEPTH) > MOST_NODES:
            raise UnsupportedError(f"the function {key[1]} calls itself, or has too many nodes")
        count += 1
        made = expand_call(node, functions[key], names)
        count += sum(_expand_in(graph, functions, names, sizes) for node in made for _, graph in subgraphs_of(node))
        waiting += reversed(made)
    if count:
        message.node = written
    return count
