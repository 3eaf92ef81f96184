"""A graph of RTen's operators as one of ONNX's, value by value.

Every value keeps its name. Its type in ONNX comes from the operator that makes it: INT64 for a shape, BOOL for a
comparison. An operator that passes values on keeps their type. If a node needs another type, a Cast is inserted.
Constants are stored in the types in which they are used.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.errors import EncodeError
from formats.ir.attributes import attribute_named, label_of
from formats.ir.dtypes import BOOL, FLOAT, INT32, INT64, count, type_name
from formats.ir.model import Graph, Node, ValueInfo
from formats.ir.node_order import all_mentioned, defined, topological
from formats.rten.convert.context import Constants, Context, ValueNames
from formats.rten.convert.precedents import Precedents
from formats.rten.convert.refusal import Refused, not_well_formed
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import ValueType
from formats.rten.graph.attributes import MALFORMED, make_node, with_fields
from formats.rten.graph.makers import folded, folded_deviations
from formats.rten.graph.uses import Uses
from formats.rten.operators import SPECS, foldings
from formats.rten.raising.kinds import (
    INTEGERS,
    UNKNOWN_OPERATOR,
    ValueKind,
    constant_in_type,
    declared,
    has_limits,
    integer_type,
    is_truth,
    tensor_kind,
    value_info,
)
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.ir.model import Attribute, Tensor
    from formats.ir.node_order import Names
    from formats.rten.raising.model import Interface
    from formats.rten.spec import OperatorSpec, Subgraphs
    from formats.tensordata.plan import Losses


class Surroundings(NamedTuple):
    """The common state of the graphs of one model."""

    names: ValueNames
    node_names: Names
    losses: Losses
    version: int


class RaisedValue(NamedTuple):
    """A value of RTen in ONNX: its name and type. A constant has one name for each type in which it is used."""

    name: str
    kind: ValueKind
    constant: Tensor | None = None
    owner: GraphRaiser | None = None  # for a constant: its graph


OMITTED: Final = RaisedValue("", ValueKind(0))  # an optional input


class GraphRaiser:
    """Makes one graph. `outer` makes the graph around it. Only the outermost graph has an `interface`."""

    def __init__(
        self,
        graph: Graph,
        surroundings: Surroundings,
        where: str = "graph",
        outer: GraphRaiser | None = None,
        interface: Interface | None = None,
    ) -> None:
        self._rten_graph = graph  # its names decide what a subgraph captures
        self._graph, self._folded = folded(graph, foldings())  # with one node for those of a rewriting
        self._shared = surroundings
        self._where = where
        self._outer = outer
        self._interface = interface
        self._scope: Scope = Scope(outer._scope if outer else None)
        self._made = Constants(self._scope, surroundings.names)
        self._nodes: list[Node] = []
        self._inputs: list[ValueInfo] = []
        self._initializers: dict[str, Tensor] = {}
        self._values: dict[str, RaisedValue] = {}
        # The names in ONNX, by name, type, rank, and whether it is a bound.
        self._views: dict[tuple[str, int | None, int | None, bool], str] = {}
        self._precedents = Precedents(surroundings.names)
        self._uses = Uses(graph)
        if outer is None:
            for value in (*graph.value_info, *graph.output):
                elem_type, dims = declared(value)
                self._scope.declare([value_info(value.name or "", ValueKind(elem_type or 0), dims)])
        for tensor in graph.initializer:
            kind = ValueKind(tensor.data_type or FLOAT)
            self._values[tensor.name or ""] = RaisedValue(tensor.name or "", kind, tensor, self)

    @cached_property
    def _defined(self) -> set[str]:
        """The names of values of the given graph and of those around it."""
        return defined(self._rten_graph) | (self._outer._defined if self._outer else set())

    # Values

    def value(self, name: str) -> RaisedValue:
        """The value with the name `name` in RTen.

        Raises: EncodeError if there is none.
        """
        raiser: GraphRaiser | None = self
        while raiser is not None:
            value = raiser._values.get(name)
            if value is not None:
                return value
            raiser = raiser._outer
        raise EncodeError(f"the value {name!r} is used, but nothing produces it")

    def add_input(self, value: ValueInfo, kind: ValueKind, *, is_scalar: bool = False) -> None:
        """Add the next input of the graph. `kind` is its type in RTen; in a subgraph it is also the type in ONNX."""
        rten_name = value.name or ""
        name = self._local(rten_name)
        dims = declared(value).dims if self._outer is None else () if is_scalar else None
        elem_type = kind.elem_type if self._interface is None else self._interface.wanted(rten_name, kind)
        self._scope.add_input(name, ValueType(elem_type, None if kind.is_sequence else dims))
        self._inputs.append(value_info(name, ValueKind(elem_type, kind.is_sequence), dims))
        if kind.elem_type == INT32 and elem_type in INTEGERS:
            kind = ValueKind(elem_type, kind.is_sequence)
        elif elem_type != kind.elem_type:
            name = self._cast(name, kind.elem_type)  # the caller gives the pinned type
        self._values[rten_name] = RaisedValue(name, kind)

    def _local(self, name: str) -> str:
        """The name of a value of this graph. It must differ from all names in the graphs around it."""
        if self._outer is not None and name in self._outer._defined:
            return self._shared.names.new(name)
        return name

    def _view(self, value: RaisedValue, elem_type: int | None, rank: int | None = None, *, bounds: bool = False) -> str:
        """The name in ONNX of a value in a type (`None`: its own type), reshaped if `rank` is given."""
        if value.kind.elem_type not in INTEGERS or elem_type is None or value.kind.is_sequence:
            elem_type = value.kind.elem_type
        # A constant is stored in each type in which it is used; any other value gets a Cast.
        if value.constant is not None and value.owner is not None:
            return value.owner._constant(value.name, value.constant, elem_type, rank, bounds=bounds)
        view = value.name if elem_type == value.kind.elem_type else self._known_view(value.name, elem_type, None)
        view = view or self._cast(value.name, elem_type)
        if rank is None:
            return view
        dims = self._scope.type_of(view).dims
        if dims is not None and len(dims) == rank:
            return view
        return self._known_view(view, elem_type, rank) or self._reshape(view, elem_type, rank)

    def _known_view(self, name: str, elem_type: int | None, rank: int | None) -> str:
        raiser: GraphRaiser | None = self
        while raiser is not None:
            if (name, elem_type, rank, False) in raiser._views:
                return raiser._views[name, elem_type, rank, False]
            raiser = raiser._outer
        return ""

    def _cast(self, name: str, elem_type: int, output: str = "") -> str:
        """The name of a value in another type. The value has this type from now on."""
        output = output or self._shared.names.new(f"{name}/{type_name(elem_type).lower()}")
        self._append(make_node("Cast", [name], [output], to=elem_type))
        return self._views.setdefault((name, elem_type, None, False), output)

    def _reshape(self, name: str, elem_type: int | None, rank: int) -> str:
        """The name of a value of one element with `rank` axes."""
        output = self._shared.names.new(f"{name}/reshaped")
        sizes = self._context(Node()).int64([1] * rank)
        self._append(make_node("Reshape", [name, sizes], [output]))
        return self._views.setdefault((name, elem_type, rank, False), output)

    def _constant(self, name: str, tensor: Tensor, elem_type: int | None, rank: int | None, *, bounds: bool) -> str:
        """The name of a constant of this graph in a type and with `rank` axes. The first type keeps its own name."""
        # In a slice, the limits of INT32 mean "to the end"; with bounds of INT64, only those of INT64 do.
        bounds = bounds and elem_type == INT64 and has_limits(tensor)
        if rank is not None and (len(tensor.dims) == rank or count(tensor.dims) != 1):
            rank = None
        key = (name, elem_type, rank, bounds)
        if key not in self._views:
            local = self._local(name)
            if local in self._initializers or (self._interface is not None and self._interface.is_output(name)):
                local = self._shared.names.new(f"{name}/{type_name(elem_type).lower()}")
            view = with_fields(constant_in_type(tensor, elem_type, bounds=bounds), name=local)
            if rank is not None:
                view.dims = [1] * rank
            self._initializers[local] = view
            self._scope.add_tensor(view)
            self._views[key] = local
        return self._views[key]

    # Nodes

    def run(self) -> None:
        """Make the nodes; raises EncodeError for a malformed graph or node."""
        nodes = self._graph.node
        order = topological(nodes)
        if len(order) < len(nodes):
            raise EncodeError("some of the operators need each other's outputs", where=self._where)
        for index in order:
            node = nodes[index]
            try:
                self._node(node, index)
            except EncodeError as error:
                error.where = error.where or self._place_of(index)
                raise
            except (Refused, *MALFORMED) as error:
                reason = not_well_formed(node, error)
                raise EncodeError(f"the operator {node.op_type} {reason}", where=self._place_of(index)) from error

    def _place_of(self, index: int) -> str:
        """The place of a node in the given model."""
        return f"{self._where}.node[{index}]"

    def _node(self, node: Node, index: int) -> None:
        """Append the nodes that compute the same as RTen's node."""
        spec = SPECS.get(node.op_type or "", UNKNOWN_OPERATOR)
        scope, outputs = self._scope, node.output
        onnx_node = with_fields(
            node,
            domain=None,
            name=self._shared.node_names.new(node.name) if node.name else None,
            input=self._inputs_of(node, spec),
            output=outputs[:] if self._outer is None else [self._local(name) if name else "" for name in outputs],
        )
        likeness = self._precedents.likeness(onnx_node, spec, self._shared.version, scope)  # as on the way to RTen
        precedent = self._precedents.follow(likeness, onnx_node, self._made) if likeness else None
        if precedent is not None:
            self._report(spec, precedent, node, index)
            self._nodes.append(precedent)
            for rten_name, name in zip(outputs, precedent.output, strict=True):
                self._add_output(rten_name, name, tensor_kind(scope.types[name].elem_type or FLOAT), [precedent])
            return
        kinds: Sequence[ValueKind] = ()
        back = spec.to_onnx
        if back.subgraphs is not None:
            onnx_node.attribute, kinds = self._subgraphs(node, back.subgraphs, self._place_of(index))
        self._report(spec, onnx_node, node, index)
        # A folded node is ONNX's already; most operators are the same in ONNX, and `rewriting` is for the others.
        rewriting = None if id(node) in self._folded else back.rewriting
        nodes = (rewriting(onnx_node, self._context(onnx_node)) if rewriting is not None else None) or [onnx_node]
        nodes[-1].name = onnx_node.name
        self._append(*nodes)
        self._precedents.add(likeness, onnx_node, nodes, self._made)
        first = self.value(node.input[0]).kind.is_sequence if node.input and node.input[0] else False
        output = back.output
        is_sequence = output == "S" or (output == "A" and first)
        for place, (rten_name, name) in enumerate(zip(node.output, onnx_node.output, strict=False)):
            if name in self._scope.exceeding and rten_name not in self._uses.only_dims:
                detail = f"{node.op_type}: numbers beyond 32 bits wrap in RTen, but are right in ONNX"
                self._shared.losses.add("deviation", detail, self._place_of(index), rten_name, seen=RARE)
            if rten_name:
                elem_type = self._scope.type_of(name).elem_type or FLOAT
                kind = kinds[place] if place < len(kinds) else ValueKind(elem_type, is_sequence)
                self._add_output(rten_name, name, kind, nodes)

    def _report(self, spec: OperatorSpec, onnx_node: Node, node: Node, index: int) -> None:
        """Record how ONNX's results for a node differ from RTen's."""
        is_folded = id(node) in self._folded  # the file has the nodes of a rewriting, which do not deviate
        # What the rewriting writes computes as RTen does, so the deviations of the operator do not apply.
        back, unspecified = spec.to_onnx, spec.to_rten.unspecified
        own = (
            folded_deviations if is_folded else back.deviations or (None if back.rewriting else spec.to_rten.deviations)
        )
        if own is None is unspecified:
            return
        context = self._context(onnx_node)
        for rule in (own, unspecified):
            for deviation in () if rule is None else rule(onnx_node, context):
                detail, name = f"{node.op_type}: {deviation.detail}", label_of(node)
                self._shared.losses.add("deviation", detail, self._place_of(index), name, seen=deviation.seen)

    def _inputs_of(self, node: Node, spec: OperatorSpec) -> list[str]:
        """The names of a node's inputs in ONNX, in the types that the node accepts."""
        ranks = spec.to_onnx.ranks
        values = [self.value(name) if name else OMITTED for name in node.input]
        if INTEGERS.isdisjoint([value.kind.elem_type for value in values]):  # so each keeps its type
            return [
                self._view(value, None, ranks.get(place))
                if value.constant is not None or (place in ranks and value is not OMITTED)
                else value.name
                for place, value in enumerate(values)
            ]
        # Inputs with the same capital letter must have one type; each other input has a type of its own.
        letters = spec.to_onnx.letters(len(node.input))
        groups: dict[str, list[str]] = {}
        for place, (letter, name) in enumerate(zip(letters, node.input, strict=True)):
            if name:
                groups.setdefault(letter if letter.isupper() else f"{letter}{place}", []).append(name)
        types = {group: _joined(group[0], map(self.value, names)) for group, names in groups.items()}
        inputs = []
        for place, (letter, name) in enumerate(zip(letters, node.input, strict=True)):
            if name:
                elem_type = types[letter if letter.isupper() else f"{letter}{place}"]
                name = self._view(values[place], elem_type, ranks.get(place), bounds=place in spec.to_rten.bounds)
            inputs.append(name)
        return inputs

    def _context(self, node: Node) -> Context:
        return Context(node, self._shared.version, self._scope, self._shared.names, self._made)

    def _append(self, *nodes: Node) -> None:
        for node in nodes:
            self._nodes.append(node)
            self._scope.infer(node)

    def _add_output(self, rten_name: str, name: str, kind: ValueKind, nodes: Sequence[Node]) -> None:
        """Record an output of new nodes. If it is an output of the model and has the wrong type, a Cast is added."""
        if self._interface is not None and self._interface.is_output(rten_name):
            onnx_type = self._interface.wanted(rten_name, kind)
            if onnx_type != kind.elem_type:
                # The output keeps its name, so what the nodes compute gets a new one, and a Cast leads to the output.
                inner = self._shared.names.new(f"{name}/{type_name(kind.elem_type).lower()}")
                for node in nodes:
                    node.input = [inner if used == name else used for used in node.input]
                    node.output = [inner if used == name else used for used in node.output]
                    self._scope.infer(node)
                self._cast(inner, onnx_type, name)
                name = inner
        self._values[rten_name] = RaisedValue(name, kind)

    # Subgraphs

    def _subgraphs(self, node: Node, form: Subgraphs, where: str) -> tuple[list[Attribute], list[ValueKind]]:
        """The graphs in a node, and the types of the node's outputs, which are the same for all of these graphs."""
        carried: list[ValueKind] = []
        if form.carried is not None:
            carried = [self.value(name).kind for name in node.input[form.carried :] if name]
        raisers = []
        for name in form.attributes:
            attribute = attribute_named(node, name)
            if attribute is None or attribute.g is None:
                raise EncodeError(f"{node.op_type} has no {name}", where=where)
            raiser = GraphRaiser(attribute.g, self._shared, f'{where}.attribute["{name}"].g', self)
            kinds = [*map(ValueKind, form.inputs), *carried]
            for place, (value, kind) in enumerate(zip(attribute.g.input, kinds, strict=True)):
                raiser.add_input(value, kind, is_scalar=place < len(form.inputs))
            raiser.run()
            raisers.append((attribute, raiser))
        first = [*map(ValueKind, form.outputs), *carried]
        further = zip(
            *([raiser.value(name) for name in raiser.output_names[len(first) :]] for _, raiser in raisers), strict=True
        )
        joined = [_joined_kind(values) for values in further]
        attributes = [replace(attribute, g=raiser.finish([*first, *joined])) for attribute, raiser in raisers]
        return attributes, [*carried, *joined]

    # The result

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs in RTen."""
        return [value.name or "" for value in self._graph.output]

    def finish(self, kinds: Sequence[ValueKind] = ()) -> Graph:
        """The graph; a subgraph's outputs get the types `kinds`. Nothing can be added to it afterwards."""
        outputs = self._outputs() if self._interface is not None else self._subgraph_outputs(kinds)
        used = all_mentioned(self._nodes)
        tensors = [*self._initializers.values(), *self._made.tensors]
        graph = Graph(
            name=self._where.rpartition('["')[2].removesuffix('"].g'),
            node=self._nodes,
            initializer=[tensor for tensor in tensors if tensor.name in used],
            input=self._inputs,
            output=outputs,
            value_info=self._value_infos() if self._outer is None else [],
        )
        self._values.clear()  # which refer to this object: without a cycle, it is freed when it is not used
        return graph

    def _outputs(self) -> list[ValueInfo]:
        """The outputs of the model, under their names."""
        outputs = []
        for name in self.output_names:
            value = self.value(name)
            assert self._interface is not None
            onnx_type = self._interface.wanted(name, value.kind)
            if value.constant is not None:
                view = self._view(value, onnx_type if onnx_type in INTEGERS else None)
                same = self._scope.type_of(view).elem_type == onnx_type
                plain = "Max" if onnx_type == INT32 else "Identity"  # RTen then does not fold equal ones
                operator = plain if same else "Cast"
                self._append(make_node(operator, [view], [name], to=None if same else onnx_type))
            kind = ValueKind(onnx_type, value.kind.is_sequence)
            outputs.append(value_info(name, kind, self._scope.type_of(name).dims))
        return outputs

    def _subgraph_outputs(self, kinds: Sequence[ValueKind]) -> list[ValueInfo]:
        """The outputs of a subgraph. A node in it makes each of them, as ONNX demands."""
        made_here = {name for node in self._nodes for name in node.output}
        outputs: dict[str, ValueInfo] = {}
        for rten_name, kind in zip(self.output_names, kinds, strict=True):
            name = self._view(self.value(rten_name), kind.elem_type)
            made_here.update(self._nodes[-1].output if self._nodes else ())
            if name not in made_here or name in outputs:
                copy = self._shared.names.new(f"{rten_name}/output")
                self._append(make_node("Identity", [name], [copy]))
                name = copy
            outputs[name] = value_info(name, kind, None)
        return [*outputs.values()]

    def _value_infos(self) -> list[ValueInfo]:
        """The types in the file of values that are neither inputs nor outputs."""
        value_infos = []
        for declaration in self._graph.value_info:
            value = self._values.get(declaration.name or "")
            if value is not None and value.constant is None:
                value_infos.append(value_info(value.name, value.kind, self._scope.type_of(value.name).dims))
        return value_infos


def _joined(letter: str, values: Iterable[RaisedValue]) -> int | None:
    """The element type that the integers among some values get at inputs of a letter."""
    integers = [value for value in values if value.kind.elem_type in INTEGERS]
    computed = {value.kind.elem_type for value in integers if value.constant is None}
    constants = [value.constant for value in integers if value.constant is not None]
    truths = [is_truth(tensor) for tensor in constants] if computed == {BOOL} else []
    return integer_type(letter, computed, truths)


def _joined_kind(values: Sequence[RaisedValue]) -> ValueKind:
    """The type that all of some values can have."""
    first = values[0].kind
    elem_type = _joined("A", values) if first.elem_type in INTEGERS else None
    return ValueKind(elem_type or first.elem_type, first.is_sequence)
