"""Which 64-bit integers of a model become INT32: where intervals prove that it computes the same.

Inputs of the model are taken to be within 32 bits, and dims and numbers of elements below 2^31. The type parameters of
an operator, such as the T and the Tind of a Gather, are decided one by one. One becomes INT32 if the operator is
defined so, and has a kernel, and all numbers that it takes and makes are within 32 bits. To have few casts, it stays
INT64 if what it takes are sizes of tensors, or is computed from such only, and if all that it makes is needed in INT64.

Spec: ONNX, Operators.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.element_types.exact_numbers import links_of
from formats.editing.element_types.typed_values import OperatorTypes, ParameterTypes, Why, is_constant_node
from formats.editing.scopes import defined_in, main_graph, subgraphs_of
from formats.ir import FIRST_WITH_CONSTANTS, MACHINE_LEARNING, STANDARD_DOMAINS, domain_key, dtypes
from formats.ir.attributes import attribute_named, get_int
from formats.ir.model import entries
from formats.ir.storage import constant_of
from formats.onnxpb.operator_sets import Parameter, signature_of
from formats.onnxpb.value_types import TypeUse
from formats.rten.convert.value_types import Interval, corners, greatest_of, least_of, opposite, union

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from formats.ir.model import Graph, Model, Node, Tensor
    from formats.onnxpb.operator_sets import TypeSignature

    Value = tuple[int, str]  # the `id` of the graph that defines it, and its name
    Rule = Callable[[Node, list[Interval]], Interval]

INT32, INT64 = "tensor(int32)", "tensor(int64)"
HELD: Final = Interval(-(1 << 31), (1 << 31) - 1)
MOST: Final = (1 << 31) - 1  # the size of an axis, and the number of elements in a tensor
ANY: Final = Interval()

_SIZES: Final = ("Shape", "Size", "SequenceLength")
# The outputs with sizes, or with places in a tensor.
_PLACES: Final = {
    **dict.fromkeys((*_SIZES, "ArgMax", "ArgMin", "NonMaxSuppression", "NonZero"), (0,)),
    **dict.fromkeys(("MaxPool", "StringSplit", "TopK"), (1,)),
    "Unique": (1, 2, 3),
}
# The input with places in the first one: numbers that are none of them would be a mistake.
_INDEX_INPUTS: Final = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1}
# They take either type for the same result, so nothing is cast for them.
_INDIFFERENT: Final = ("Cast", "Shape", "Size")
# Operators that say by a type what they make, and those of which onnxruntime lacks combinations of types.
_STAYING: Final = ("BitCast", "EyeLike", "OptionalGetElement", "CenterCropPad", "OneHot")
_BOTH: Final = frozenset((INT32, INT64))
_UNKNOWN: Final = Parameter("", is_same=True)  # of an operator that ONNX does not define
_SLICE_ENDS: Final = (1, 2)  # the inputs of a Slice in which a number beyond all dims means the end


def _takes(node: Node, place: int) -> bool:
    return place < len(node.input) and bool(node.input[place])


def _of(*places: int) -> Rule:
    """The numbers are those of some inputs."""
    return lambda node, given: union(*(given[place] for place in places if _takes(node, place)))


def _of_all(node: Node, given: list[Interval]) -> Interval:
    return union(*given[: len(node.input)])


def _with_zero(node: Node, given: list[Interval]) -> Interval:
    return union(given[0], Interval(0, 0))


def _padded(node: Node, given: list[Interval]) -> Interval:
    return union(given[0], given[2] if _takes(node, 2) else Interval(0, 0))


def _scattered(node: Node, given: list[Interval]) -> Interval:
    reduction = attribute_named(node, "reduction")
    return ANY if reduction is not None and reduction.s not in (None, b"none") else union(given[0], given[2])


def _corners(function: Callable[[int, int], int]) -> Rule:
    """A function of two inputs whose extremes are at the ends of both."""
    return lambda node, given: corners(function, given[0], given[1])


def _divided(node: Node, given: list[Interval]) -> Interval:
    (least, greatest), divisor = given[0], given[1]
    if least is None or greatest is None:
        return ANY
    if divisor.least is not None and divisor.least > 0:
        return Interval(min(least, 0), max(greatest, 0))
    most = max(-least, greatest)
    return Interval(-most, most)


def _remainder(node: Node, given: list[Interval]) -> Interval:
    """Nearer to zero than the divisor."""
    least, greatest = given[1]
    most = None if least is None or greatest is None else max(abs(least), abs(greatest), 1) - 1
    return ANY if most is None else Interval(-most, most)


def _magnitude(node: Node, given: list[Interval]) -> Interval:
    least, greatest = given[0]
    return ANY if least is None or greatest is None else Interval(0, max(-least, greatest))


def _negated(node: Node, given: list[Interval]) -> Interval:
    return opposite(given[0])


def _bounded(node: Node, given: list[Interval]) -> Interval:
    """Numbers with a lower and an upper bound, which are the second and third input."""
    interval = greatest_of(given[0], given[1]) if _takes(node, 1) else given[0]
    return least_of(interval, given[2]) if _takes(node, 2) else interval


def _total(node: Node, given: list[Interval]) -> Interval:
    """The sum of any number of elements, or of none."""
    least, greatest = given[0]
    return Interval(
        None if least is None else min(least * MOST, 0), None if greatest is None else max(greatest * MOST, 0)
    )


def _bits(node: Node, given: list[Interval]) -> Interval:
    """Numbers within 32 bits stay so."""
    return HELD if all(map(HELD.holds, given[: len(node.input)])) else ANY


def _filled(node: Node, given: list[Interval]) -> Interval:
    attribute = attribute_named(node, "value")
    return ANY if attribute is None or attribute.t is None else _interval_of(attribute.t)


def _counted(node: Node, given: list[Interval]) -> Interval:
    """Numbers between two ends; onnxruntime needs their distance in the same type."""
    return union(*given[:2]) if HELD.holds(_corners(lambda a, b: b - a)(node, given)) else ANY


# Operators whose results are numbers of their first input.
_MOVING: Final = (
    "Cast CastLike Compress DepthToSpace Expand Flatten Gather GatherElements GatherND Identity ReduceMax ReduceMin "
    "Reshape ReverseSequence Slice SpaceToDepth Split Squeeze Tile TopK Transpose Unique Unsqueeze"
)
# The numbers that the first output has.
_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(_MOVING.split(), _of(0)),
    **dict.fromkeys(("Concat", "Max", "Min"), _of_all),
    **dict.fromkeys(("CenterCropPad", "Relu", "Trilu"), _with_zero),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _scattered),
    **dict.fromkeys(("CumSum", "ReduceSum"), _total),
    **dict.fromkeys(("BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"), _bits),
    "Abs": _magnitude,
    "Add": _corners(lambda a, b: a + b),
    "Clip": _bounded,
    "ConstantOfShape": _filled,
    "Div": _divided,
    "Mod": _remainder,
    "Mul": _corners(lambda a, b: a * b),
    "Neg": _negated,
    "Pad": _padded,
    "Range": _counted,
    "Scatter": _of(0, 2),
    "Sign": lambda node, given: Interval(-1, 1),
    "Sub": _corners(lambda a, b: a - b),
    "TensorScatter": _of(0, 1),
    "Where": _of(1, 2),
}


def _interval_of(tensor: Tensor) -> Interval:
    """The least and the greatest of 64-bit integers, read a block at a time."""
    from formats.tensordata.sources.transform import range_of

    return Interval(*range_of(tensor.source(), "int64")) if tensor.data_type == dtypes.INT64 else ANY


def _held_by(type_text: str) -> Interval:
    """The numbers that a type of at most 32 bits has."""
    row = dtypes.BY_NAME.get(type_text.removeprefix("tensor(").removesuffix(")").upper())
    if row is None or row.kind not in "iub" or not 0 < row.bits <= 32:
        return ANY
    bits = 1 if row.kind == "b" else row.bits - (row.kind == "i")
    return Interval(-(1 << bits) if row.kind == "i" else 0, (1 << bits) - 1)


def _labels(node: Node) -> Interval:
    """The classes, or other numbers, that a node of ONNX's machine learning chooses from."""
    names = ("classlabels_ints", "classlabels_int64s", "values_int64s")
    numbers = [number for name in names if (attribute := attribute_named(node, name)) for number in attribute.ints]
    others = [get_int(node, "default_int64", -1)] if node.op_type == "LabelEncoder" else []
    return Interval(min(numbers + others), max(numbers + others)) if numbers else ANY


def _index_names(graph: Graph) -> Iterator[str]:
    """The names of the values with which nodes of a graph choose places in a tensor."""
    for node in graph.node:
        place = _INDEX_INPUTS.get(node.op_type or "", len(node.input))
        if node.domain in STANDARD_DOMAINS and place < len(node.input):
            yield node.input[place]


class _Group(NamedTuple):
    """A type parameter of a node, and its 64-bit integers: what it takes, by the number of the input, and makes."""

    parameter: str
    takes: dict[int, Value]
    makes: list[Value]


class Integers:
    """The type parameters of the nodes of a model that become INT32, and why the others stay.

    `linked` are values that stay and go in or out of graphs in nodes, `constants` those that no caller can replace.
    `became` counts operators, and `stay` does so by the reason.
    """

    def __init__(
        self,
        model: Model,
        types: Mapping[int, Mapping[str, str]],
        *,
        keeps_interface: bool,
        keep: Collection[int],
        lacks: Callable[[TypeUse, int], bool] | None,
    ) -> None:
        self.linked: set[Value] = set()
        self.constants: set[Value] = set()
        self.became: Counter[str] = Counter()
        self.stay: dict[Why, Counter[str]] = {}
        self._types, self._keeps_interface, self._keep, self._lacks = types, keeps_interface, keep, lacks
        self._main = graph = main_graph(model)
        self._versions = {domain_key(entry.domain): entry.version or 0 for entry in model.opset_import}
        self._are_inputs = (model.ir_version or 0) < FIRST_WITH_CONSTANTS  # each initializer is an input, too
        self._scopes: dict[int, ChainMap[str, Value]] = {}  # by the `id` of a graph
        self._nodes: list[Node] = []
        self._groups: dict[int, list[_Group]] = {}  # by the `id` of a node
        self._ranges: dict[Value, Interval] = {}
        self._sizes: set[Value] = set()
        self._fixed: set[Value] = set()  # constants, and what is computed from them
        self._links: list[list[Value]] = []  # values that have one type
        self._forced: set[Value] = set()  # values in and out of graphs in nodes that stay, whatever numbers they are
        self._native: set[Value] = set()  # values that are made in INT64
        self._wanted: dict[Value, set[str]] = {}
        self._why: dict[int, dict[str, Why]] = {}  # why type parameters of a node stay
        self._name_values(graph, ChainMap())
        self._follow(graph)
        self._find_linked()
        self._need(graph)
        self._finish()

    def is_held(self, value: Value) -> bool:
        """Whether all numbers of a value are within 32 bits."""
        return HELD.holds(self._range(value))

    def form_of(self, node: Node) -> OperatorTypes:
        """Which inputs and outputs of a node become INT32."""
        signature = self._signature(node)
        if signature is None:
            return OperatorTypes(stays=Why.OTHERS)
        all_stay, why = self._why_all_stay(node, signature), self._why.get(id(node), {})
        ends: list[ParameterTypes] = []
        for parameters in (signature.inputs, signature.outputs):
            allowed = [signature.allowed(parameter) for parameter in parameters]
            new = [
                not all_stay and types >= _BOTH and parameter.name not in why
                for parameter, types in zip(parameters, allowed, strict=True)
            ]
            ends.append(ParameterTypes((*new,), tuple(INT64 in types for types in allowed)))
        return OperatorTypes(ends[0], ends[1], is_known=True, stays=all_stay)

    def refused(self) -> Iterator[str]:
        """The inputs and outputs of the model that cannot become INT32, with what makes them."""
        values: Mapping[str, Value] = self._scopes[id(self._main)]
        makers: dict[str, str] = {}
        for node in self._main.node:
            makers.update((name, f" of {node.op_type} {node.name or ''}".rstrip()) for name in node.output)
        for word, ends in (("input", self._main.input), ("output", self._main.output)):
            for name in (end.name or "" for end in ends):
                if name in values and self._is_int64(values[name]) and not self.is_held(values[name]):
                    yield f"the {word} {name}{makers.get(name, '')}"

    def _signature(self, node: Node) -> TypeSignature | None:
        domain = domain_key(node.domain)
        return None if domain else signature_of(domain, node.op_type or "", self._versions.get(domain, 0))

    def _why_all_stay(self, node: Node, signature: TypeSignature) -> Why | None:
        """Why no type parameter of one of ONNX's own operators can be INT32; `None` if one can."""
        if id(node) in self._keep:
            return Why.NAMED
        parameters = (*signature.inputs, *signature.outputs)
        if node.op_type in _STAYING or not all(map(signature.may_be_tensor, parameters)):
            return Why.INT64_ONLY
        return None

    def _type(self, value: Value) -> str:
        return self._types.get(value[0], {}).get(value[1], "")

    def _is_int64(self, value: Value) -> bool:
        return self._type(value) == INT64

    def _range(self, value: Value) -> Interval:
        return self._ranges.get(value) or _held_by(self._type(value))

    def _name_values(self, graph: Graph, outer: ChainMap[str, Value]) -> None:
        """Note which values the names in a graph mean."""
        self._scopes[id(graph)] = values = outer.new_child()
        values.update((name, (id(graph), name)) for name in sorted(defined_in(graph)))
        for node in graph.node:
            for _, inner in subgraphs_of(node):
                self._name_values(inner, values)

    def _follow(self, graph: Graph) -> None:
        """Find the numbers of the values of a graph, from front to back, and which nodes cannot become INT32."""
        values, here = self._scopes[id(graph)], id(graph)
        self._note_given(graph)
        indices = {(here, name) for name in _index_names(graph)}
        for node in graph.node:
            self._follow_graphs(node, values)
            if is_constant_node(node):
                self.constants.update(values[name] for name in node.output[:1] if name)
                self._fixed |= self.constants
            for name, interval in zip(node.output, self._made(node, values), strict=False):
                if name and self._type(values[name]) in (INT64, ""):
                    is_index = values[name] in indices and node.op_type in _RULES and not HELD.holds(interval)
                    self._ranges[values[name]] = HELD if is_index else interval
            self._nodes.append(node)
            self._groups[id(node)] = groups = [*self._groups_of(node, values)]
            reasons = {group.parameter: self._why_stays(node, group, values) for group in groups}
            self._why[id(node)] = {parameter: why for parameter, why in reasons.items() if why}

    def _note_given(self, graph: Graph) -> None:
        """Find the numbers of the initializers of a graph, and those of the inputs of the main one."""
        here, inputs = id(graph), {stated.name or "" for stated in graph.input}
        sparse = [entry.values for entry in entries(graph, "sparse_initializer") if entry.values is not None]
        for tensor in (*graph.initializer, *sparse):
            value = (here, tensor.name or "")
            self._ranges[value] = _interval_of(tensor)
            if self._are_inputs or tensor.name not in inputs:
                self.constants.add(value)
        if graph is self._main:
            given = [(here, name) for name in inputs if (here, name) not in self.constants]
            self._ranges.update(
                (each, union(HELD, self._ranges.get(each, HELD))) for each in given if self._is_int64(each)
            )
            self._native.update(given if self._keeps_interface else ())
        self._fixed |= self.constants

    def _follow_graphs(self, node: Node, values: Mapping[str, Value]) -> None:
        """Find the numbers in the graphs of a node, and which values in and around them have one type."""
        given: dict[Value, list[Value]] = {}  # what each value is one of
        for _, inner in subgraphs_of(node):
            found = [*links_of(node, inner, values, self._scopes[id(inner)])]
            self._links += [[*link.given, *link.made] for link in found]
            for link in found:
                for value in link.made:
                    given.setdefault(value, []).extend(link.given)
            taken = [(id(inner), stated.name or "") for stated in inner.input]
            self._ranges.update((value, self._any_of(given[value])) for value in taken if value in given)
            self._forced.update(value for value in taken if value not in given)
            self._follow(inner)
        self._forced.update(given if id(node) in self._keep else ())
        self._ranges.update((value, self._any_of(others)) for value, others in given.items())

    def _any_of(self, values: Sequence[Value]) -> Interval:
        return union(*map(self._range, values))

    def _made(self, node: Node, values: Mapping[str, Value]) -> Iterator[Interval]:
        """The numbers of the outputs of a node without graphs."""
        name = node.op_type or ""
        if subgraphs_of(node):
            return
        if node.domain == MACHINE_LEARNING:
            yield _labels(node)
        if node.domain not in STANDARD_DOMAINS:
            return
        if is_constant_node(node):
            tensor = next(filter(None, map(constant_of, node.attribute)), None)
            yield ANY if tensor is None else _interval_of(tensor)
            return
        given = [self._range(values[each]) if each in values else ANY for each in (*node.input, "", "", "")]
        computed = _RULES[name](node, given) if name in _RULES else ANY
        for index in range(len(node.output)):
            yield Interval(0, MOST) if index in _PLACES.get(name, ()) else computed

    def _groups_of(self, node: Node, values: Mapping[str, Value]) -> Iterator[_Group]:
        """The type parameters of a node with its 64-bit integers; what goes in and out of its graphs has none."""
        if is_constant_node(node):
            return
        groups: dict[str, _Group] = {}
        signature = self._signature(node)
        for is_output, names in enumerate((node.input, node.output)):
            parameters = () if signature is None else (signature.inputs, signature.outputs)[is_output]
            for index, name in enumerate(names):
                if name not in values or not self._is_int64(values[name]):
                    continue
                parameter = parameters[min(index, len(parameters) - 1)] if parameters else _UNKNOWN
                if not parameter.is_same and subgraphs_of(node):
                    continue
                group = groups.setdefault(parameter.name, _Group(parameter.name, {}, []))
                if is_output:
                    group.makes.append(values[name])
                else:
                    group.takes[index] = values[name]
        yield from groups.values()

    def _is_of_sizes(self, node: Node, group: _Group) -> bool:
        """Whether a type parameter is arithmetic of sizes; what it makes is noted as sizes, or as fixed."""
        variable = {*group.takes.values()} - self._fixed
        if group.takes and not variable:
            self._fixed.update(group.makes)
        is_of_sizes = bool(variable) and variable <= self._sizes and node.op_type != "Range"
        if is_of_sizes or node.op_type in _SIZES:
            self._sizes.update(group.makes)
        return is_of_sizes

    def _why_stays(self, node: Node, group: _Group, values: Mapping[str, Value]) -> Why | None:
        """Why a type parameter cannot be INT32, or need not be; `None` if it can."""
        signature, is_of_sizes = self._signature(node), self._is_of_sizes(node, group)
        if signature is None:
            return Why.OTHERS
        if why := self._why_all_stay(node, signature):
            return why
        types = signature.sets.get(group.parameter, frozenset((group.parameter,)))
        if INT32 not in types:
            return Why.INT64_ONLY
        uses = [TypeUse(node.op_type or "", signature.since, group.parameter, text) for text in (INT32, INT64)]
        if self._lacks is not None and [self._lacks(use, self._versions[""]) for use in uses] == [True, False]:
            return Why.WITHOUT_KERNEL
        for names, parameters in ((node.input, signature.inputs), (node.output, signature.outputs)):
            for index, name in enumerate(names if parameters else ()):
                is_of_group = parameters[min(index, len(parameters) - 1)].name == group.parameter
                if name and is_of_group and not (name in values and self._type(values[name])):
                    return Why.UNKNOWN
        ends: set[Value] = set()
        if node.op_type == "Slice" and group.parameter == "Tind":
            ends = self.constants.intersection(group.takes[index] for index in _SLICE_ENDS if index in group.takes)
        if not all(self.is_held(value) for value in (*group.takes.values(), *group.makes) if value not in ends):
            return Why.UNPROVEN
        return Why.SIZES if is_of_sizes else None

    def _find_linked(self) -> None:
        """Find the values in and out of graphs in nodes that stay, with all that have the same type."""
        same: dict[Value, Value] = {}

        def root(value: Value) -> Value:
            while (other := same.get(value, value)) != value:
                same[value] = same.get(other, other)  # the way becomes shorter
                value = other
            return value

        for first, *others in filter(None, self._links):
            for value in others:
                same[root(value)] = root(first)
        groups: dict[Value, set[Value]] = {}
        for value in {*same, *same.values(), *self._forced}:
            groups.setdefault(root(value), set()).add(value)
        for group in groups.values():
            is_sure = (
                group.isdisjoint(self._forced) and all(map(self._is_int64, group)) and all(map(self.is_held, group))
            )
            if not is_sure and any(map(self._is_int64, group)):
                self.linked |= group

    def _need(self, graph: Graph) -> None:
        """Find what is needed in which type, from back to front, and so what need not become INT32."""
        values, is_main = self._scopes[id(graph)], graph is self._main
        for output in graph.output:
            value = values.get(output.name or "")
            if value is not None and not (is_main and self._keeps_interface):  # which is no reason to stay inside
                stays = not is_main and value in self.linked
                self._wanted.setdefault(value, set()).add(INT64 if stays else INT32)
        for node in reversed(graph.node):
            for _, inner in subgraphs_of(node):
                self._need(inner)
                for name in node.input:
                    if name in values:
                        wanted = INT64 if values[name] in self.linked else INT32
                        self._wanted.setdefault(values[name], set()).add(wanted)
            why = self._why[id(node)]
            for group in self._groups[id(node)]:
                if set().union(*(self._wanted.get(value, set()) for value in group.makes)) == {INT64}:
                    why.setdefault(group.parameter, Why.FOR_INT64)
                if group.parameter in why:
                    self._native.update(group.makes)
                if not self._is_indifferent(node, group):
                    for value in group.takes.values():
                        self._wanted.setdefault(value, set()).add(INT64 if group.parameter in why else INT32)

    def _is_indifferent(self, node: Node, group: _Group) -> bool:
        """Whether a node only takes integers, and gives the same for either type, so that no cast is worth it."""
        return node.op_type in _INDIFFERENT and not group.makes

    def _finish(self) -> None:
        """Let what takes either type take that which its input has, and count the operators by what became of them."""
        self._native |= self.linked
        for node in self._nodes:
            why, groups = self._why[id(node)], self._groups[id(node)]
            for group in groups:
                if self._is_indifferent(node, group) and self._native.issuperset(group.takes.values()):
                    why.setdefault(group.parameter, Why.UNPROVEN)
            name = node.op_type or ""
            told = {
                why[group.parameter]
                for group in groups
                if group.parameter in why and not self._is_indifferent(node, group)
            }
            if any(group.parameter not in why for group in groups):
                self.became[name] += 1
                told.discard(Why.INT64_ONLY)
            for reason in told:
                self.stay.setdefault(reason, Counter())[name] += 1
