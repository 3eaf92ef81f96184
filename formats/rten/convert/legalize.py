"""Rewrites a model so that the releases of a target run it: newest forms, and only operators of RTen.

The result computes the same as the given model. The steps are in `passes.py`; the longest of them, which rewrites the
nodes, is here. Every node goes through the rewritings of its operator until none changes it. The nodes that a rewriting
makes go through the rewritings of their operators. If RTen cannot express a node, this is recorded with the place of
the node in the given model, and the other nodes are still legalised.
"""

from __future__ import annotations

from dataclasses import replace
from math import isinf
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import EncodeError, UnsupportedError
from formats.ir import ONNX, domain_key
from formats.ir.attributes import label_of
from formats.ir.dtypes import DOUBLE, FLOAT, INT32, type_name
from formats.ir.functions import expand_call, expanded_size, functions_of, key_of
from formats.ir.model import Graph, Model, Node
from formats.ir.node_order import all_mentioned, graphs_below, topological
from formats.ir.walk import inner_place
from formats.onnxruntime.layouts import in_usual_layout
from formats.rten.convert.budget import budget_of
from formats.rten.convert.context import NEWEST, Constants, Context, ValueNames
from formats.rten.convert.distinct_outputs import tensor_input_of
from formats.rten.convert.passes import GRAPH_PASSES, MODEL_PASSES, GraphFacts, ModelFacts, run_passes
from formats.rten.convert.precedents import Precedents
from formats.rten.convert.refusal import Refusal, Refused, not_well_formed
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import UNKNOWN, ValueType
from formats.rten.graph.attributes import MALFORMED
from formats.rten.graph.uses import Uses, add_decisive, used_and_read
from formats.rten.onnx_loader.kept import Applied, Kept
from formats.rten.operators import SPECS, ranges, spec_of
from formats.rten.target import ALL_RELEASES
from formats.rten.types import BYTES, FLOATS, NOT_NUMBERS
from formats.tensordata.plan import RANGE, SPECIAL, Losses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.ir.functions import Key
    from formats.ir.model import Attribute, Tensor
    from formats.rten.spec import Deviation, OperatorSpec
    from formats.rten.target import Target
    from formats.tensordata.plan import Loss, Seen

MAX_STEPS = 32  # limit for rewriting the results of rewritings; no operator comes near it
MAX_NESTING = 14  # the nesting of subgraphs that RTen's verifier accepts
MAX_CALLS = 64  # the nesting of function calls; no exporter comes near this limit
MAX_NODES = 500_000  # accepted nodes; the limit is for functions that multiply


class Legalized(NamedTuple):
    """A model that RTen can run if there are no refusals."""

    model: Model
    refusals: tuple[Refusal, ...]
    types: Mapping[str, Mapping[str, ValueType]]  # of the values of each graph of `model`, by the place of the graph
    losses: Losses  # differences in RTen's results, once for each operator
    kept: Kept | None  # for an ONNX loader: the rewritten nodes
    changed_by: tuple[str, ...]  # the names of the passes that changed the model


def legalize(model: Model, exact: bool = False, target: Target = ALL_RELEASES) -> Legalized:
    """The model in forms that RTen runs; the given one is not changed, and weights are shared.

    If `exact`, operators whose results in RTen differ from ONNX are rewritten, if there is a way. The result is right
    in all releases of the `target`. If the target reads ONNX, a node stays as it is if the target reads it in the same
    way as the nodes that it was rewritten to.

    Raises: TensorDataError if a constant that decides a form cannot be read.
    """
    refusals: list[Refusal] = []
    layout_losses: tuple[Loss, ...] = ()  # of reading the layouts of onnxruntime
    try:
        model, layout_losses = in_usual_layout(model)
    except UnsupportedError as error:
        refusals.append(Refusal("", "", None, error.where or "", error.reason, error.remedy))
    versions = {entry.domain or "": entry.version or 1 for entry in model.opset_import}
    version = versions[""] = versions.get("", versions.pop(ONNX, 1))  # both names mean ONNX's own operators
    if target.is_onnx:
        target = target._replace(version=target.version or version)
    legalizer = _Legalizer(model, exact, target, version, refusals)
    for loss in layout_losses:
        legalizer.losses.add("layout", loss.detail, loss.where, seen=loss.seen)

    def legal_graph(graph: Graph) -> Graph:
        with budget_of(model):
            return legalizer.graph(graph, versions, None, "graph", ())

    facts = ModelFacts(version, target, legalizer.losses, refusals, legalizer.rounded, legal_graph=legal_graph)
    legal = run_passes(MODEL_PASSES, model, facts)
    graph = legal.subject.graph or Graph()
    all_graphs = graphs_below(graph, "graph") if len(legalizer.types) > 1 else [("graph", graph)]
    types = {where: legalizer.types.get(id(graph), {}) for where, graph in all_graphs}
    changed_by = tuple(dict.fromkeys((*legal.changed_by, *legalizer.changed_by)))
    return Legalized(legal.subject, tuple(refusals), types, legalizer.losses, legalizer.kept, changed_by)


class _Place(NamedTuple):
    """The position of a node: its operator sets, its place in the given model, and the graph that is made."""

    versions: Mapping[str, int]
    where: str
    surroundings: _Surroundings
    is_inlined: bool = False  # the node is in a function, and the size of the function was checked
    step: int = 0  # how many rewritings led to the node
    model_node: Node | None = None  # the node of the model; the nodes that replace it have its place
    imported: Mapping[str, int] | None = None  # the operator sets of the given node, if it was rewritten
    applied: list[Applied] | None = None  # the rewritings that were applied, if the caller wants them
    maker: _Place | None = None  # the node that was rewritten to the node around this subgraph
    is_reported: bool = False  # the node was legal, and reported, before the node around its graph was rewritten


class _Surroundings(NamedTuple):
    """A graph that is being made."""

    scope: Scope
    constants: Constants
    depth: int
    uses: Uses  # of the values of the given graph


class _Legalizer:
    """What all graphs of one model share."""

    def __init__(self, model: Model, exact: bool, target: Target, version: int, refusals: list[Refusal]) -> None:
        self.refusals = refusals
        self.losses = Losses()
        self.types: dict[int, Mapping[str, ValueType]] = {}
        self._exact = exact
        self._target = target
        self._functions = functions_of(model.functions)
        self._names = ValueNames(*used_and_read(model))
        kept_version = version if version == target.version else None
        self.kept = Kept(target, kept_version, self._names) if target.is_onnx else None
        self._precedents = Precedents(self._names)
        self._sizes: dict[Key, float] = {}
        self._room: float = MAX_NODES
        self._tensor_input = ""
        self._finished_inside: dict[int, Node] = {}  # the legal nodes of subgraphs, by their ids
        self.changed_by: dict[str, None] = {}  # the passes that changed a graph
        self.rounded: dict[int, str] = {}  # float types other than FLOAT, and the first value of each

    def graph(
        self,
        graph: Graph,
        versions: Mapping[str, int],
        outer: _Surroundings | None,
        where: str,
        input_types: Sequence[ValueType],
        is_inlined: bool = False,
        maker: _Place | None = None,
    ) -> Graph:
        """The graph with legal nodes. For a subgraph, `input_types` are what its node knows of its inputs.

        The report names the `maker` of a subgraph that a rewriting made, and not the nodes in it.
        """
        self._tensor_input = self._tensor_input if outer else tensor_input_of(graph)
        constants = Constants(Scope(outer.scope if outer else None), self._names)  # names are unique in the whole model
        surroundings = _Surroundings(constants.scope, constants, outer.depth + 1 if outer else 0, Uses(graph))
        place = _Place(versions, where, surroundings, is_inlined, maker=maker)

        def legal_nodes(graph: Graph) -> list[Node]:
            return self._nodes(graph, place)

        facts = GraphFacts(
            where,
            outer is not None,
            input_types,
            self._tensor_input,
            self._names,
            constants,
            self.losses,
            self.kept,
            legal_nodes=legal_nodes,
        )
        legal = run_passes(GRAPH_PASSES, graph, facts)
        self.changed_by.update(dict.fromkeys(legal.changed_by))
        if outer:
            self._finished_inside.update((id(node), node) for node in legal.subject.node)
        self.types[id(legal.subject)] = constants.scope.types
        return legal.subject

    def _nodes(self, graph: Graph, around: _Place) -> list[Node]:
        """The legal nodes of a graph; `around` is the place of the graph."""
        constants, where = around.surroundings.constants, around.where
        version = around.versions.get("", NEWEST)
        precedents, scope = self._precedents, constants.scope
        legal_nodes: list[Node] = []
        for index in self._order(graph, where):
            node = graph.node[index]
            spec = SPECS.get(node.op_type or "")
            likeness = None if self._is_call(node) else precedents.likeness(node, spec, version, scope)
            legal_node = precedents.follow(likeness, node, constants) if likeness else None
            if legal_node is not None and spec is not None:  # an earlier node was like this one
                legal_nodes.append(legal_node)
                deviations = self._deviations(legal_node, spec, around.surroundings)
                if deviations or self.kept is not None:
                    place = self._place_of(node, around._replace(where=f"{where}.node[{index}]"))
                    self._report(deviations, place)
                    if self.kept is not None and legal_node is not node:
                        self.kept.repeat(likeness, node, place.where)
                continue
            place = self._place_of(node, around._replace(where=f"{where}.node[{index}]"))
            # A node that is refused is no precedent.
            refusals_before, changes_before = len(self.refusals), len(self.kept.changes) if self.kept else 0
            replacements = self._replacements(node, place)
            if len(self.refusals) == refusals_before:
                precedents.add(likeness, node, replacements, constants)
                if self.kept is not None:
                    self.kept.remember(likeness, changes_before)
            legal_nodes += replacements
        return legal_nodes

    def _order(self, graph: Graph, where: str) -> Sequence[int]:
        """The indices of the nodes, ordered so that each node comes after the nodes whose outputs it uses."""
        order = topological(graph.node)
        if len(order) < len(graph.node):
            first = min(set(range(len(graph.node))) - set(order))
            node = graph.node[first]
            reason = "it is part of a cycle"
            self.refusals.append(Refusal(node.op_type or "", node.domain or "", None, f"{where}.node[{first}]", reason))
        return order

    def _is_call(self, node: Node) -> bool:
        """Whether a node calls a function of the model."""
        return bool(self._functions) and key_of(node.domain, node.op_type, node.overload) in self._functions

    def _replacements(self, node: Node, place: _Place) -> list[Node]:
        """The legal nodes that replace a node of the model, or the node itself if an ONNX loader reads it."""
        if self.kept is None:
            return self._node(node, place)
        if self._is_call(node):
            self.kept.inline(node, place.where)
            return self._node(node, place)
        refusals_before, applied = len(self.refusals), list[Applied]()
        legal_nodes = self._node(node, place._replace(applied=applied))
        spec = spec_of(node)
        became_constant = not legal_nodes and spec is not None and spec.to_rten.constant is not None
        if len(self.refusals) > refusals_before or became_constant:
            return legal_nodes
        version = place.versions.get("", NEWEST)
        return self.kept.settle(node, legal_nodes, applied, version, place.where, place.surroundings.scope)

    def _place_of(self, node: Node, around: _Place) -> _Place:
        """The place that the report names for a node: its own, or that of the node whose rewriting made its graph."""
        is_reported, maker = id(node) in self._finished_inside, around.maker
        if maker is None:
            return around._replace(model_node=node, is_reported=is_reported)
        return around._replace(model_node=maker.model_node, where=maker.where, is_reported=is_reported)

    def _node(self, node: Node, place: _Place) -> list[Node]:
        """The legal nodes that compute the same as a node."""
        domain = domain_key(node.domain)
        if place.step == 0:
            place = self._place_of(node, place)
        # A function of the model hides an operator with the same name.
        function = self._functions.get(key_of(node.domain, node.op_type, node.overload)) if self._functions else None
        try:
            if function is not None:
                return self._call(node, place)
            spec = spec_of(node)
            if spec is not None and spec.to_rten.constant is not None:
                return self._constant(node, spec.to_rten.constant(node), spec, place)
            node = self._with_legal_subgraphs(node, place)
            nodes = self._rewritten(node, domain, place)
            if nodes is None:
                return [self._finished(node, domain, place)]
        except Refused as refused:
            return self._refuse(node, domain, place, f"it {refused.reason}", refused.remedy)
        except EncodeError as error:
            return self._refuse(node, domain, place, str(error))
        except MALFORMED as error:
            return self._refuse(node, domain, place, f"it {not_well_formed(node, error)}")
        if place.step == MAX_STEPS:
            return self._refuse(node, domain, place, "its rewriting does not end")
        add_decisive([nodes], self._names.decisive)
        # Rewritings write the newest forms, but a refusal names the operator set that the model imports.
        imported = place.imported or place.versions
        inner = place._replace(versions={"": NEWEST}, step=place.step + 1, imported=imported)
        return [legal for new in nodes for legal in self._node(new, inner)]

    def _constant(self, node: Node, tensor: Tensor, spec: OperatorSpec, place: _Place) -> list[Node]:
        """Record the tensor that a node stands for. Only an ONNX loader keeps the node, if it reads it."""
        tensor = replace(tensor, name=node.output[0])
        is_read = spec.onnx_loader.reads_constant
        if self.kept is not None and is_read is not None and is_read(node):
            place.surroundings.scope.add_tensor(tensor)
            return [node]
        place.surroundings.constants.add_tensor(tensor)
        return []

    def _rewritten(self, node: Node, domain: str, place: _Place) -> list[Node] | None:
        """The result of the first rewriting that applies to a node; `None` if no rewriting applies."""
        spec = spec_of(node)
        if spec is None:
            return None
        surroundings = place.surroundings
        context = self._context(node, place.versions.get(domain, NEWEST), surroundings)
        deviations: list[tuple[Deviation, bool]] = []  # that rewritings report, although they do not apply
        for rewriting in spec.to_rten.all_rewritings:
            nodes = rewriting(node, context)
            if nodes is not None:
                if place.applied is not None:
                    place.applied.append(Applied.of(rewriting, spec))
                self._report(_visible(context.deviations, node, surroundings.scope), place)
                return nodes
            context.emitted.clear()
            deviations += context.deviations
            context.deviations.clear()
        self._report(_visible(deviations, node, surroundings.scope), place)
        self._report(self._deviations(node, spec, surroundings), place)
        return None

    def _finished(self, node: Node, domain: str, place: _Place) -> Node:
        """Add a node that needs no more rewriting, and infer the types of its outputs."""
        spec = spec_of(node)
        if self.kept is None and domain:  # of operators of other domains, only an ONNX loader has any
            spec = None
        if spec is None or spec.row_for(self._target) is None:
            raise Refused("is not supported by RTen")
        if self.kept is not None:
            node = self.kept.readable(node, spec)
        scope, uses = place.surroundings.scope, place.surroundings.uses
        scope.infer(node)
        model_node = place.model_node or node
        if model_node is not node and (model_spec := spec_of(model_node)) is not None:
            scope.note_places(model_node, model_spec, node.output)
        for name in node.output:
            elem_type = scope.types[name].elem_type
            if elem_type != FLOAT and elem_type in FLOATS and name in model_node.output:
                is_read_rounded = elem_type == DOUBLE and self._target.is_onnx  # even if nothing is computed with it
                if is_read_rounded or not _is_exact(model_node, name, scope):
                    self.rounded.setdefault(elem_type, name)
            is_bound = bool(spec.outputs.moves) and name in uses.bounds
            if name in scope.exceeding and not (
                is_bound or name in uses.only_dims or _is_place(name, model_node, scope)
            ):
                kind = type_name(elem_type)
                self._note("range", f"{kind} values may exceed the 32 bits that RTen uses", place, RANGE)
            if elem_type in NOT_NUMBERS:
                raise Refused(f"computes {type_name(elem_type)}, which RTen does not support")
        return node

    def _deviations(
        self, node: Node, spec: OperatorSpec, surroundings: _Surroundings
    ) -> Sequence[tuple[Deviation, bool]]:
        """What RTen computes otherwise of a node that is written as it is, and whether ONNX defines the result."""
        if spec.to_rten.deviations is None and spec.to_rten.unspecified is None:
            return ()
        context = self._context(node, NEWEST, surroundings)
        deviations: list[tuple[Deviation, bool]] = []
        for rule, is_defined in ((spec.to_rten.deviations, True), (spec.to_rten.unspecified, False)):
            if rule is not None:
                deviations += ((deviation, is_defined) for deviation in rule(node, context))
        return [*_visible(deviations, node, surroundings.scope)]

    def _report(self, deviations: Iterable[tuple[Deviation, bool]], place: _Place) -> None:
        """Add what RTen computes otherwise for the operator at a place, and whether ONNX defines the result."""
        for deviation, is_defined in deviations:
            self._note("deviation", deviation.detail, place, deviation.seen, unwanted=self._exact and is_defined)

    def _note(self, kind: str, detail: str, place: _Place, seen: Seen, *, unwanted: bool = False) -> None:
        """Add a loss to the losses of the operator at a place of the model."""
        if place.is_reported:
            return
        model_node = place.model_node or Node()
        name = label_of(model_node)
        self.losses.add(kind, f"{model_node.op_type}: {detail}", place.where, name, seen=seen, unwanted=unwanted)

    def _context(self, node: Node, version: int, surroundings: _Surroundings) -> Context:
        scope, constants = surroundings.scope, surroundings.constants
        return Context(node, version, scope, self._names, constants, self._exact, self._target)

    def _refuse(self, node: Node, domain: str, place: _Place, reason: str, remedy: str = "") -> list[Node]:
        """Record why a node stops the conversion. The node stays, so that the nodes after it are checked, too."""
        version = (place.imported or place.versions).get(domain)
        self.refusals.append(Refusal(node.op_type or "", domain, version, place.where, reason, remedy))
        place.surroundings.scope.infer(node)
        return [node]

    def _call(self, node: Node, place: _Place) -> list[Node]:
        """The legal nodes that compute what a function of the model computes for the node that calls it."""
        key = key_of(node.domain, node.op_type, node.overload)
        function = self._functions[key]
        # The size of a function counts the calls in it, so only the outermost call is counted.
        if not place.is_inlined:
            size = expanded_size(key, self._functions, self._sizes, MAX_CALLS)
            # The size is computed before anything is expanded: functions that call functions twice grow exponentially.
            if isinf(size):
                raise Refused(f"is a function that calls itself, or whose calls are nested more than {MAX_CALLS} deep")
            self._room -= size
            if self._room < 0:
                raise Refused(f"is a function that becomes {size:.1g} nodes, but RTen loads at most {MAX_NODES}")
        versions = dict(place.versions)  # a function has its own operator sets
        versions.update((entry.domain or "", entry.version or 1) for entry in function.opset_import)
        versions[""] = versions.pop(ONNX, versions.get("", NEWEST))
        inner = place._replace(versions=versions, is_inlined=True)
        nodes = expand_call(node, function, self._names)
        self._names.add_read(all_mentioned(nodes))
        add_decisive([nodes], self._names.decisive)
        return [legal for index in topological(nodes) for legal in self._replacements(nodes[index], inner)]

    def _with_legal_subgraphs(self, node: Node, place: _Place) -> Node:
        """The node with legal subgraphs. Their outputs are the same as before."""
        if all(attribute.g is None for attribute in node.attribute):
            return node
        if place.surroundings.depth >= MAX_NESTING:
            raise Refused(f"is nested in more than {MAX_NESTING} graphs, and RTen does not load that")
        input_types = _body_types(node, place.surroundings.scope)
        attributes: list[Attribute] = []
        for attribute in node.attribute:
            if attribute.g is not None:
                where = f"{inner_place(place.where, 'attribute', message=attribute)}.g"
                # The graph of a node that a rewriting made has no place in the model: reports name the rewritten node.
                maker = place if place.step else place.maker
                graph = self.graph(
                    attribute.g, place.versions, place.surroundings, where, input_types, place.is_inlined, maker
                )
                attribute = replace(attribute, g=graph)
            attributes.append(attribute)
        return replace(node, attribute=attributes)


def _visible(
    deviations: Iterable[tuple[Deviation, bool]], node: Node, scope: Scope
) -> Iterator[tuple[Deviation, bool]]:
    """The deviations of a node without those about NaN and infinities, if no input has any."""
    for deviation, is_defined in deviations:
        is_of_nan = deviation.seen == SPECIAL and not deviation.is_of_nothing
        if not is_of_nan or not all(scope.has_numbers(name) for name in node.input if name):
            yield deviation, is_defined


def _is_exact(node: Node, name: str, scope: Scope) -> bool:
    """Whether an output of a node of another float type has the same numbers if it is computed in FLOAT.

    A node with a subgraph computes nothing itself.
    """
    if any(attribute.g is not None for attribute in node.attribute):
        return True
    spec = spec_of(node)
    if spec is not None and spec.outputs.exact_if is not None:
        return spec.outputs.exact_if(node, scope, [scope.type_of(name) if name else UNKNOWN for name in node.input])
    if spec is None or spec.outputs.range is None:
        return False
    adds_up = scope.type_of(name).elem_type == DOUBLE and ranges.step_of(spec.outputs.range, [0]) is not None
    return ranges.is_exact(spec.outputs.range) or (adds_up and scope.is_kept_by_float(name))


def _is_place(name: str, model_node: Node, scope: Scope) -> bool:
    """Whether a value counts or finds the elements of tensors, of which there are fewer than 2^31.

    So do all 64-bit integers that only a rewriting has, if the data of the given node are no such integers.
    """
    return (
        name not in model_node.output
        and bool(model_node.input)
        and scope.type_of(model_node.input[0]).elem_type in FLOATS | BYTES | {INT32}
    )


def _body_types(node: Node, scope: Scope) -> list[ValueType]:
    """What is known about the inputs of a node's subgraph."""
    spec = spec_of(node)
    if spec is None or spec.outputs.body_inputs is None:  # as that of If, whose graphs have no inputs
        return []
    return spec.outputs.body_inputs(node, scope, [scope.type_of(name) if name else UNKNOWN for name in node.input])
