"""A model whose floats or integers have another type: one of float32, float16 and bfloat16, or int32 for int64.

Calls of functions are written out first, since the values of a function have no types of their own: only a call says
which of them are floats. Then the values of all graphs get their types, and the nodes are written. The weights are
converted while they are copied. Values that an operator needs in the old type are cast there and back.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from functools import partial
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.onnxruntime_releases import NEWEST, has_no_kernel
from formats.editing.element_types.exact_numbers import ExactNumbers, large_sums, made_small_again, sums_near_zero
from formats.editing.element_types.integers import Integers
from formats.editing.element_types.typed_values import (
    ELEMENT_TYPES,
    SCALING,
    SMALL_BYTES,
    Operators,
    TypedValue,
    Weights,
    Why,
    dequantizing,
    inner_graphs,
    is_constant_node,
    reduces,
    staying,
    type_kind,
    with_element,
    with_type,
)
from formats.editing.nodes import make_attribute, make_node
from formats.editing.options import MOST_NAMED, Edit, EditResult
from formats.editing.scopes import (
    all_messages,
    fresh,
    main_graph,
    names_taken,
    names_used,
    nodes_named,
    shape_of,
    subgraphs_of,
)
from formats.editing.versions.operator_sets import version_of, with_opset
from formats.errors import UnsupportedError
from formats.ir import ONNX, STANDARD_DOMAINS, domain_key, walk
from formats.ir.copies import copied
from formats.ir.dtypes import BFLOAT16, BY_NUMBER, FLOAT16, INT32, type_name
from formats.ir.functions import expand_call, expanded_size, functions_of, key_of
from formats.ir.model import Dimension, Graph, OperatorSetId, TensorShape, ValueInfo, entries
from formats.ir.node_order import Names
from formats.ir.storage import constant_of
from formats.onnxpb.value_types import TypeUse, operator_type_text, value_types
from formats.tensordata.plan import RANGE, SPECIAL, Loss
from formats.words import counted, joined, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.editing.element_types.typed_values import ElementType, OperatorTypes
    from formats.ir.model import Function, Model, Node, SparseTensor, Tensor

    Key = tuple[str, str, str]

MOST_NODES, MOST_DEPTH = 1_000_000, 100  # of what replaces all calls of functions together
QUANTIZING = ("DequantizeLinear", "QuantizeLinear")
CAST_TO_BFLOAT16 = 13  # the first version of the set with a Cast to bfloat16
CAST_TO_NUMBER = 6  # the first version of the set whose Cast names the type by its number
CLIP_WITH_INPUTS = 11  # the first version of the set whose Clip has its limits as inputs


def to_dtype(
    model: Model,
    dtype: str,
    *,
    keep_io_types: bool = False,
    keep: Sequence[str] = (),
    lacks: Callable[[TypeUse, int], bool] | None = None,
    keep_integers: bool = False,
) -> tuple[Model, EditResult]:
    """The model with its floats in another type, and what was done; with `keep_io_types`, inputs and outputs stay.

    "float16" and "bfloat16" take the place of float32, and "float32" that of both; "int32" takes that of int64 where no
    number needs more bits. Operators and nodes stay whose names are in `keep`, or match a pattern there, and those for
    whose new type the runtime `lacks` a kernel; for int32, that is the newest onnxruntime if no other is given. With
    "float32", weights that are integers in blocks become float32s, too, but for `keep_integers`.

    Raises: EditError for a name that no node has; UnsupportedError that names what stands in the way;
    MissingPackageError if onnx is not installed, and a function of the model needs another operator set.
    """
    to = ELEMENT_TYPES[dtype]
    if entries(model, "training_info"):
        raise UnsupportedError(f"the model has graphs for its training, which cannot become {dtype}; remove them")
    version = version_of(model.opset_import)
    if to.number == BFLOAT16 and version is not None and version < CAST_TO_BFLOAT16:
        raise UnsupportedError(
            f"the model has version {version} of ONNX's operators, and {CAST_TO_BFLOAT16} is the first with bfloat16; "
            "write it in version 22, which has most, with `opset`"
        )
    new = copied(model)
    if version is None:  # for the casts
        new.opset_import.append(OperatorSetId("", CAST_TO_BFLOAT16))
    calls = expand_calls(new, dtype)
    named, types = {*nodes_named(new, "keep", keep)}, value_types(new)
    integers = None
    if to.number == INT32:
        lacks = lacks or partial(has_no_kernel, NEWEST)
        integers = Integers(new, types, keeps_interface=keep_io_types, keep=named, lacks=lacks)
        if not keep_io_types and (ends := [*integers.refused()]):
            raise UnsupportedError(
                f"{listed(ends, MOST_NAMED)} may have numbers that need more than 32 bits; `keep_io_types` keeps the "
                "types of inputs and outputs"
            )
    work = _Conversion(new, to, keep_io_types, Operators(new.opset_import, to, lacks), integers)
    work.stays.update((node, Why.NAMED) for node in named if integers is None)
    work.find_values(types)
    work.settle()
    work.rewrite_all()
    if dtype != "float32" or keep_integers:
        return new, work.result(calls)
    from formats.editing.element_types.weight_dequantization import with_float_weights  # few conversions need it

    return new, work.result(calls, with_float_weights(new, keep).edits)


class _GraphValues(NamedTuple):
    """A graph, the values that are visible in it, and those that it defines itself."""

    graph: Graph
    where: str
    values: ChainMap[str, TypedValue]

    @property
    def own(self) -> Mapping[str, TypedValue]:
        return self.values.maps[0]


class _Conversion:
    """The graphs of a model, the values in them, and what a report says of them."""

    def __init__(
        self, model: Model, to: ElementType, keep_io_types: bool, operators: Operators, integers: Integers | None
    ) -> None:
        self.model, self.to, self.integers = model, to, integers
        # The `id`s of the graphs whose inputs and outputs stay.
        self.keeping = {id(main_graph(model))} if keep_io_types else set()
        self.operators = operators
        self.scopes: list[_GraphValues] = []
        self.unknown: list[str] = []  # "y of Relu act_1", for the error
        self.exact: ExactNumbers | None = None  # that a narrower type cannot hold
        self.linked = set() if integers is None else integers.linked
        self.constants = set() if integers is None else integers.constants  # which no caller can replace
        self.stays: dict[int, Why] = {}  # why nodes stay, by their identity, although their operators need not
        self.stay: dict[Why, Counter[str]] = {}  # the operators of nodes that stay, by the reason
        self.weights = Weights(to)
        self.taken: set[str] = set()  # names of values
        self.casts = 0
        self.interface: list[tuple[str, list[str]]] = []  # whose type changes: [("input", ["x"]), ("output", ["y"])]

    def find_values(self, all_types: Mapping[int, Mapping[str, str]]) -> None:
        """Find the values of all graphs, and what nodes want.

        Raises: UnsupportedError if the type of a value is not known.
        """
        if self.to.is_narrower:
            to = self.to  # with `self` in the function, a cycle would keep the model's file open

            def is_float(value: tuple[int, str]) -> bool:
                return type_kind(all_types.get(value[0], {}).get(value[1], ""), to) == "tensor"

            self.exact = ExactNumbers(main_graph(self.model), is_float)
            self.linked = self.exact.linked
            self._stay(self.exact.nodes, Why.EXACT)
        self._find_values_of(main_graph(self.model), "graph", ChainMap(), ChainMap(), all_types)
        if self.unknown and self.integers is None:
            raise UnsupportedError(
                f"{self.to.name} needs the types of all values, and these are not known: "
                f"{listed(self.unknown, MOST_NAMED, noun='value')}; add them to graph.value_info"
            )

    def _find_values_of(
        self,
        graph: Graph,
        where: str,
        outer: ChainMap[str, TypedValue],
        outer_shapes: ChainMap[str, TensorShape],
        all_types: Mapping[int, Mapping[str, str]],
    ) -> None:
        types = all_types.get(id(graph), {})  # {"x": "tensor(float)"}
        own: dict[str, TypedValue] = {}
        values = outer.new_child(own)
        self.scopes.append(_GraphValues(graph, where, values))
        is_main = graph is self.model.graph

        exact_nodes, exact_values = (self.exact.nodes, self.exact.used) if self.exact else (set(), set())
        others = (node for node in graph.node if is_main and id(node) not in exact_nodes)
        inexact = {name for node in others for name in names_used(node)}
        for stated in graph.input:
            name = stated.name or ""
            own[name] = value = self._value(graph, name, types)
            is_exact = is_main and (id(graph), name) in exact_values and name not in inexact
            if (id(graph), name) not in self.constants:
                value.native = value.old if is_exact else self._at_end(value, graph)
            if not types.get(name):
                self.unknown.append(f"{name}, an input of {where}")
        for tensor in _tensors(graph):
            name = tensor.name or ""
            own.setdefault(name, self._value(graph, name, types)).tensor = tensor
        # Before anything is used: some files have their nodes in no order. Constants decide about other nodes.
        for node in filter(is_constant_node, graph.node):
            self._make(node, graph, values, types)
        shapes = outer_shapes.new_child(_shapes(graph))
        if self.to.is_narrower:
            self._find_staying(graph, values, shapes)
        for node in graph.node:
            if not is_constant_node(node):
                self._make(node, graph, values, types)
        for index, node in enumerate(graph.node):
            place = walk.inner_place(where, "node", index)
            form = self._form_of(node, values)
            self._note_wanted_types(node, place, form, values)
            for inner, at in inner_graphs(node, place):
                if not form.is_known:
                    raise UnsupportedError(f"{place}: nobody knows the types in the graphs of {node.op_type}")
                if form.stays:
                    self.keeping.add(id(inner))
                self._find_values_of(inner, at, values, shapes, all_types)
        for output in graph.output:
            result = values.get(output.name or "")
            if result is not None and result.kind != "other":
                wanted = self._at_end(result, graph)
                result.wanted.setdefault(wanted, f"{where}.output")
                if is_main:
                    result.public = wanted

    def _value(self, graph: Graph, name: str, types: Mapping[str, str]) -> TypedValue:
        """A value of a graph, before it is known in which type it is made."""
        value = TypedValue(name, types.get(name, ""), self.to)
        value.is_linked = (id(graph), name) in self.linked
        return value

    def _at_end(self, value: TypedValue, graph: Graph) -> int:
        """The type of a float that is an input or output of a graph."""
        stays = id(graph) in self.keeping or (graph is not self.model.graph and value.is_linked)
        return value.old if stays else self.to.number

    def _find_staying(self, graph: Graph, values: ChainMap[str, TypedValue], shapes: Mapping[str, TensorShape]) -> None:
        """Find the nodes of a graph that stay in float32, since a narrower type cannot hold their numbers."""

        def tensor_of(name: str) -> Tensor | None:
            return values[name].tensor if name in values else None

        def is_near_zero(name: str) -> bool:
            return (tensor := tensor_of(name)) is not None and bool(self.weights.beyond(tensor).faint)

        def is_one_near_zero(name: str) -> bool:
            return (tensor := tensor_of(name)) is not None and set(tensor.dims) <= {1} and is_near_zero(name)

        self._stay(map(id, dequantizing(graph.node)), Why.QUANTIZED_SUMS)
        if self.to.most_added:
            sums = large_sums(graph, shapes, tensor_of, self.to.most_added)
            self._stay(sums, Why.LARGE_SUMS)
        self._stay(sums_near_zero(graph, is_one_near_zero), Why.SUMS_NEAR_ZERO)
        large: set[int] = set()
        for node in graph.node:
            if node.domain not in STANDARD_DOMAINS:
                continue
            if node.op_type in SCALING and any(self._is_beyond(values.get(name)) for name in node.input):
                self._stay([id(node)], Why.BEYOND)
                large.add(id(node))
            elif reduces(node):
                self._stay([id(node)], Why.UNDEFINED)
            elif node.op_type in QUANTIZING and self._needs_its_scale(node, values, is_near_zero):
                self._stay([id(node)], Why.SCALES)
            elif (node.op_type == "Mul" and any(map(is_one_near_zero, node.input))) or (
                node.op_type == "Div" and any(map(is_near_zero, node.input[1:]))
            ):
                self._stay([id(node)], Why.NEAR_ZERO)
        self._stay(made_small_again(graph, large), Why.BEYOND)

    def _stay(self, nodes: Iterable[int], why: Why) -> None:
        for node in nodes:
            self.stays.setdefault(node, why)

    def _is_beyond(self, value: TypedValue | None) -> bool:
        return value is not None and value.tensor is not None and bool(self.weights.beyond(value.tensor).large)

    def _needs_its_scale(
        self, node: Node, values: Mapping[str, TypedValue], is_near_zero: Callable[[str], bool]
    ) -> bool:
        """Whether a scale is beyond the new type, or none that the model has, or scales large integers."""
        data, scale = (values.get(name) for name in [*node.input, "", ""][:2])
        is_large = node.op_type == "DequantizeLinear" and data is not None and data.type == "tensor(int32)"
        return is_large or scale is None or scale.tensor is None or self._is_beyond(scale) or is_near_zero(scale.name)

    def _form_of(self, node: Node, values: Mapping[str, TypedValue]) -> OperatorTypes:
        """The form of a node; one whose numbers a narrower type cannot hold stays, also at some ends only."""
        form = self.operators.form_of(node) if self.integers is None else self.integers.form_of(node)
        if (why := self.stays.get(id(node))) is not None:
            return staying(form, form.stays or why)
        if not self.linked or not subgraphs_of(node):
            return form
        ends = [[name in values and values[name].is_linked for name in names] for names in (node.input, node.output)]
        inputs, outputs = (
            parameters.without(stays) for parameters, stays in zip((form.inputs, form.outputs), ends, strict=True)
        )
        return form._replace(inputs=inputs, outputs=outputs)

    def _note_wanted_types(
        self, node: Node, place: str, form: OperatorTypes, values: ChainMap[str, TypedValue]
    ) -> None:
        """Note in which types a node wants its inputs."""
        floats = any((made := values.get(name)) is not None and made.kind != "other" for name in node.output)
        for index, name in enumerate(node.input):
            value = values.get(name)
            if value is not None and value.kind != "other":
                floats = True
                wanted = self.to.number if form.inputs.is_new(index) else value.old
                value.wanted.setdefault(wanted, f"{place} ({node.op_type})")
                value.is_exact |= id(node) in self.stays
                if value.native is None and form.stays == Why.WITHOUT_KERNEL:  # the file is smaller
                    value.wanted.setdefault(self.to.number, place)
        if form.stays and floats:
            self.stay.setdefault(form.stays, Counter())[node.op_type or ""] += 1

    def _make(self, node: Node, graph: Graph, values: ChainMap[str, TypedValue], types: Mapping[str, str]) -> None:
        """Make the values of the outputs of a node."""
        form = self._form_of(node, values)
        for index, name in enumerate(node.output):
            if not name:
                continue
            if not types.get(name) and form.outputs.may_be_old(index):
                self.unknown.append(f"{name} of {node.op_type} {node.name or ''}".rstrip())
            values[name] = value = self._value(graph, name, types)
            value.is_scaled = node.op_type == "Mul" and self.stays.get(id(node)) == Why.BEYOND
            if is_constant_node(node):
                value.tensor = next(filter(None, map(constant_of, node.attribute)), None)
            else:
                value.native = self.to.number if form.outputs.is_new(index) else value.old

    def settle(self) -> None:
        """Give all values their types and names.

        Raises: UnsupportedError if a sequence must be cast, which no operator does.
        """
        self.taken |= names_taken(self.model)
        for scope in self.scopes:
            for value in scope.own.values():
                if value.kind == "other":
                    continue
                if self.integers is not None and value.native is None and (tensor := value.tensor) is not None:
                    is_small = tensor.source().nbytes <= SMALL_BYTES
                    is_held = self.integers.is_held((id(scope.graph), value.name))
                    value.is_copied = {*value.wanted} == {value.old, value.new} and (is_small or not is_held)
                    value.is_exact = value.is_copied
                value.settle(self.taken)
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
                values[name].named(self.to.number if form.inputs.is_new(index) else values[name].old)
                if name in values
                else name
                for index, name in enumerate(node.input)
            ]
            with_type(node, made[0] if made else None, self.weights)
            node.input = inputs
            node.output = [value.named(value.native or value.old) if value else "" for value in made]
            nodes.append(node)
            for value in made:
                nodes += self._casts(value) if value else ()
        graph.node = nodes
        for index, tensor in enumerate(graph.initializer):
            if self._changes(tensor, values):
                graph.initializer[index] = self.weights.of(tensor, f"{scope.where}.initializer[{index}]")
        for index, sparse in enumerate(entries(graph, "sparse_initializer")):
            if sparse.values and self._changes(sparse.values, values):
                place = f"{scope.where}.sparse_initializer[{index}].values"
                sparse.values = self.weights.of(sparse.values, place)
        self._state_types(scope)

    def _changes(self, tensor: Tensor, values: Mapping[str, TypedValue]) -> bool:
        """Whether an initializer gets the new type."""
        return tensor.data_type in self.to.sources and values[tensor.name or ""].native == self.to.number

    def _casts(self, value: TypedValue) -> Iterator[Node]:
        """The node that casts a value to the other type, if somebody wants that.

        What is scaled by a number beyond float16, such as a mask of -1e9, would become infinite: it is limited before.
        """
        if value.kind == "tensor" and (other := value.cast_to) is not None and value.native is not None:
            new, old = value.names[other], value.names[value.native]
            if value.is_copied and value.tensor is not None:
                tensor = self.weights.of(value.tensor, new) if other == self.to.number else value.tensor
                yield make_node("Constant", [], [new], name=f"{new}_constant", value=tensor)
                return
            self.casts += 1
            if value.is_scaled and other == FLOAT16:
                limited = fresh(f"{old}_limited", self.taken)
                yield from self._clip(old, limited)
                old = limited
            is_number = self.operators.version >= CAST_TO_NUMBER
            yield make_node("Cast", [old], [new], name=f"{new}_cast", to=other if is_number else BY_NUMBER[other].name)

    def _clip(self, old: str, new: str) -> Iterator[Node]:
        """The nodes that limit a float32 to the numbers of float16."""
        largest = float(self.to.largest)
        if self.operators.version < CLIP_WITH_INPUTS:
            yield make_node("Clip", [old], [new], name=f"{new}_clip", min=-largest, max=largest)
            return
        limits = {fresh(f"{new}_limit", self.taken): limit for limit in (-largest, largest)}
        for name, limit in limits.items():
            number = constant_of(make_attribute("value_float", limit))
            yield make_node("Constant", [], [name], name=f"{name}_constant", value=number)
        yield make_node("Clip", [old, *limits], [new], name=f"{new}_clip")

    def _state_types(self, scope: _GraphValues) -> None:
        """Write the new types of inputs, outputs and inner values."""
        graph, own = scope.graph, scope.own
        is_main = scope is self.scopes[0]
        if is_main and id(graph) not in self.keeping:
            inputs = [
                name
                for name in self._floats(graph.input)
                if own[name].native == self.to.number and (id(graph), name) not in self.constants
            ]
            self.interface = [("input", inputs), ("output", self._floats(graph.output))]
        for stated in (*graph.input, *entries(graph, "value_info")):
            if (value := own.get(stated.name or "")) is not None and value.kind != "other":
                stated.type = with_element(stated.type, value.public or value.native or value.old)
        for output in graph.output:
            value = scope.values.get(output.name or "")
            if value is not None and value.kind != "other":
                number = self._at_end(value, graph)
                output.name, output.type = value.names[number], with_element(output.type, number)

    def _floats(self, values: list[ValueInfo]) -> list[str]:
        """The names of the values with floats that get the new type."""
        return [value.name or "" for value in values if type_kind(operator_type_text(value.type), self.to) != "other"]

    def result(self, calls: int, of_integers: Sequence[Edit] = ()) -> EditResult:
        """What was done, and what was lost; `of_integers` is what was done with weights that were integers."""
        edits = [Edit(self.to.kind, self.weights.sentence())] if self.weights.count else []
        olds = joined([BY_NUMBER[number].numpy_name for number in self.to.sources], "or")
        if self.integers is not None and self.integers.became:
            edits.append(Edit(self.to.kind, f"in {self.to.name} are {_counts(self.integers.became)}"))
        for why, operators in (self.stay if self.integers is None else self.integers.stay).items():
            reason = why.value.format(self.to)
            edits.append(Edit(self.to.kind, f"in {olds} stay {_counts(operators)} ({reason})"))
        if self.casts:
            edits.append(Edit(self.to.kind, f"{counted(self.casts, 'cast')} added"))
        if calls:
            edits.append(Edit(self.to.kind, f"{counted(calls, 'call')} of functions written out"))
        if any(names for _, names in self.interface):
            every, short = (
                ", ".join(
                    f"{word}{'s' * (len(names) > 1)} {listed(names, most or len(names))}"
                    for word, names in self.interface
                    if names
                )
                for most in (0, MOST_NAMED)
            )
            now = f"the type is {type_name(self.to.number)} now"
            edits.append(Edit(self.to.kind, f"{now}: {every}", f"{now}: {short}"))
        edits += of_integers
        edits = edits or [Edit(self.to.kind, f"nothing in the model is {olds}")]
        return EditResult(tuple(edits), (*self.weights.losses(), *self._assumed()))

    def _assumed(self) -> Iterator[Loss]:
        """For which inputs the model computes something else."""
        if self.integers is not None and self.integers.became.keys() & {"ReduceMax", "ReduceMin"}:
            detail = "ReduceMax and ReduceMin of no elements give the least and the greatest number of 32 bits"
            yield Loss("range", "graph", detail, SPECIAL)
        if self.integers is not None and self.keeping and (names := self._floats(main_graph(self.model).input)):
            detail = f"integers in inputs are taken to be within 32 bits: {listed(names, MOST_NAMED, noun='input')}"
            yield Loss("range", "graph.input", detail, RANGE)


def _counts(operators: Counter[str]) -> str:
    return ", ".join(f"{name} x {count}" for name, count in sorted(operators.items()))


def _shapes(graph: Graph) -> dict[str, TensorShape]:
    """The shapes that a graph states, by the names of its values."""
    described = (*graph.input, *entries(graph, "value_info"))
    shapes = {value.name or "": shape for value in described if (shape := shape_of(value)) is not None}
    dims = {tensor.name or "": tensor.dims for tensor in graph.initializer}
    return shapes | {name: TensorShape([Dimension(dim_value=dim) for dim in each]) for name, each in dims.items()}


def _tensors(graph: Graph) -> list[Tensor]:
    """The initializers of a graph, and the values of sparse ones, which have their names."""
    sparse: list[SparseTensor] = entries(graph, "sparse_initializer")
    return [*graph.initializer, *(entry.values for entry in sparse if entry.values is not None)]


def expand_calls(model: Model, purpose: str) -> int:
    """Replace the calls in a model by the nodes of their functions, and return how many there were.

    `purpose` is what errors call it.

    Raises: UnsupportedError if functions need another operator set than the model, call each other in a circle, or
    become too many nodes.
    """
    if not model.functions:
        return 0
    if (version := version_of(model.opset_import)) is not None:
        changed, _ = with_opset(model, version)
        model.functions = changed.functions
    _import_sets(model, purpose)
    functions = functions_of(model.functions)
    names = Names(names_taken(model))
    model.functions = []
    _check_size(model, functions)
    return sum(_expand_in(message, functions, names) for message in [*all_messages(model)])


def _check_size(model: Model, functions: Mapping[Key, Function]) -> None:
    """Raises UnsupportedError if the calls become too many nodes: functions that call others twice grow without end."""
    sizes: dict[Key, float] = {}
    room: float = MOST_NODES
    for node in (node for message in all_messages(model) for node in message.node):
        if (key := key_of(node.domain, node.op_type, node.overload)) in functions:
            size = expanded_size(key, functions, sizes, MOST_DEPTH)
            if size == inf:
                raise UnsupportedError(
                    f"the function {key[1]:.80} calls itself, or functions are nested more than {MOST_DEPTH} deep"
                )
            room -= size
            if room < 0:
                raise UnsupportedError(
                    f"a call of the function {key[1]:.80} becomes {size:,.0f} nodes; all calls of functions together "
                    f"may become at most {MOST_NODES:,}"
                )


def _import_sets(model: Model, purpose: str) -> None:
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
                    f"model version {versions[domain]}; functions are written out for {purpose}, so both must be the "
                    "same"
                )


def _expand_in(message: Graph | Function, functions: Mapping[Key, Function], names: Names) -> int:
    """Replace the calls among the nodes of a graph, and those in the subgraphs of what replaces them."""
    waiting, written, count = [*reversed(message.node)], [], 0
    while waiting:
        node = waiting.pop()
        key = key_of(node.domain, node.op_type, node.overload)
        if key not in functions:
            written.append(node)
            continue
        count += 1
        made = expand_call(node, functions[key], names)
        count += sum(_expand_in(graph, functions, names) for node in made for _, graph in subgraphs_of(node))
        waiting += reversed(made)
    if count:
        message.node = written
    return count
