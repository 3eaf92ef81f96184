"""The passes that make a model legal, in the order in which they run. Each has one concern.

`MODEL_PASSES` run once for a model. One of them runs `GRAPH_PASSES` for its graph. These run again for each subgraph,
when the node around it is rewritten. docs/operators.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any, Final, Generic, TypeVar

from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS
from formats.ir.dtypes import type_name
from formats.ir.model import Graph, Model, Node, OperatorSetId
from formats.ir.node_order import all_mentioned, graphs_below, mentioned, subgraphs
from formats.rten.convert.context import NEWEST, Constants, ValueNames
from formats.rten.convert.distinct_outputs import with_distinct_outputs
from formats.rten.convert.refusal import Refusal
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import UNKNOWN, ValueType, completed
from formats.rten.graph.constants import densify
from formats.rten.graph.uses import add_decisive
from formats.rten.onnx_loader.kept import Kept
from formats.rten.target import Target
from formats.tensordata.plan import INTERFACE, RANGE, RESULTS, USE, Losses

NEWEST_KNOWN: Final = 28  # the newest operator set whose forms the rewritings know
IR_VERSION: Final = 10  # of the result

# RTen's planner calls itself for each node whose output another one needs. Measured on x86-64, a call takes 400 to 440
# bytes of the stack, depending on the release; 8 MiB are full after 18,700.
MAX_IN_THREAD: Final = 4_500  # with the 2 MiB that a thread of Rust has by default
MAX_IN_MAIN_THREAD: Final = 18_000  # with the 8 MiB that the main thread of a process usually has

Subject = TypeVar("Subject", Graph, Model)
Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Pass(Generic[Subject, Facts]):
    """A step with one concern: its name, and the function that does it.

    The function gets a graph or a model, and the facts that the passes share, where it may note or report something. It
    returns another graph or model, or the same object if it changes nothing in it.
    """

    name: str
    apply: Callable[[Subject, Facts], Subject]


@dataclass(frozen=True, slots=True)
class PassResult(Generic[Subject]):
    """What passes made of a graph or a model, and the names of the passes that changed it, in their order."""

    subject: Subject
    changed_by: tuple[str, ...]


def run_passes(passes: Iterable[Pass[Subject, Facts]], subject: Subject, facts: Facts) -> PassResult[Subject]:
    """Run passes in their order, each on what the one before it made."""
    changed_by = []
    for step in passes:
        changed = step.apply(subject, facts)
        if changed is not subject:
            changed_by.append(step.name)
        subject = changed
    return PassResult(subject, tuple(changed_by))


# Passes of a graph


@dataclass(slots=True)
class GraphFacts:
    """What the passes of one graph share."""

    where: str
    is_subgraph: bool
    input_types: Sequence[ValueType]  # what the node around a subgraph knows of its inputs
    tensor_input: str  # an input of the model that is a tensor, or an empty name
    names: ValueNames
    constants: Constants  # with the scope of the graph
    losses: Losses
    kept: Kept | None  # for an ONNX loader
    legal_nodes: Callable[[Graph], list[Node]]  # all nodes of the graph, rewritten

    @property
    def scope(self) -> Scope:
        """What is known about the values of the graph."""
        return self.constants.scope


def find_decisive(graph: Graph, facts: GraphFacts) -> Graph:
    """Note the names of the values that are rounded or compared, also in subgraphs."""
    add_decisive([inner.node for _, inner in graphs_below(graph)], facts.names.decisive)
    return graph


def declare(graph: Graph, facts: GraphFacts) -> Graph:
    """Tell the scope the declared types, the inputs and the constants of the graph."""
    scope = facts.scope
    scope.declare([*graph.value_info, *graph.input, *graph.output])
    for number, value in enumerate(graph.input):
        is_known = number < len(facts.input_types)
        scope.add_input(value.name or "", facts.input_types[number] if is_known else UNKNOWN)
    if graph.sparse_initializer:
        dense = [densify(sparse) for sparse in graph.sparse_initializer]
        graph = replace(graph, initializer=[*graph.initializer, *dense], sparse_initializer=[])
    for tensor in graph.initializer:
        scope.add_tensor(tensor)
    return graph


def rewrite(graph: Graph, facts: GraphFacts) -> Graph:
    """Rewrite the nodes of the graph one after the other, since each needs what is known about the ones before it."""
    nodes = facts.legal_nodes(graph)
    is_same = len(nodes) == len(graph.node) and all(map(is_, nodes, graph.node))
    return graph if is_same else replace(graph, node=nodes)


def keep_outputs_apart(graph: Graph, facts: GraphFacts) -> Graph:
    """Add nodes to outputs that RTen would fold to one constant."""
    graph, added = with_distinct_outputs(graph, facts.constants, facts.names, facts.tensor_input)
    if facts.kept is not None:
        facts.kept.note_needs(added)
    return graph


def report_outputs(graph: Graph, facts: GraphFacts) -> Graph:
    """Report the outputs that are constants and exceed 32 bits, even if the number means "no limit" to operators."""
    for index, value in enumerate(graph.output):
        name = value.name or ""
        tensor = facts.scope.constant(name)
        if tensor is not None and not facts.scope.fits(name):
            detail = f"{type_name(tensor.data_type)} values exceed the 32 bits that RTen uses"
            facts.losses.add("range", detail, f"{facts.where}.output[{index}]", name, seen=RANGE)
    return graph


def complete_outputs(graph: Graph, facts: GraphFacts) -> Graph:
    """Declare the types of the outputs of a subgraph; the outputs of the model stay as they are declared."""
    if not facts.is_subgraph:
        return graph
    outputs = [completed(value, facts.scope.type_of(value.name or "")) for value in graph.output]
    is_same = all(map(is_, outputs, graph.output))
    return graph if is_same else replace(graph, output=outputs)


def add_constants(graph: Graph, facts: GraphFacts) -> Graph:
    """Add the constants that rewritings made; an ONNX loader gets only those that the nodes use."""
    tensors = facts.constants.tensors
    if facts.kept is not None:
        used = all_mentioned(graph.node) | {value.name or "" for value in graph.output}
        tensors = [tensor for tensor in tensors if tensor.name in used]
    return replace(graph, initializer=[*graph.initializer, *tensors]) if tensors else graph


GRAPH_PASSES: Final[tuple[Pass[Graph, GraphFacts], ...]] = (
    # Before them, a difference in the last bit may become a large one, so rewritings must be exact.
    Pass("decisive values", find_decisive),
    Pass("declarations", declare),  # rewritings ask for types and constants; RTen has no sparse tensors
    Pass("rewriting", rewrite),  # RTen lacks operators and forms of operators, and computes some otherwise
    Pass("distinct outputs", keep_outputs_apart),  # RTen cannot load a model whose outputs are one constant
    Pass("exceeding outputs", report_outputs),  # RTen has no larger integers
    Pass("output types", complete_outputs),  # the node around a subgraph has its types from there
    Pass("constants", add_constants),  # only now it is known which of them nodes use
)


# Passes of a model


@dataclass(slots=True)
class ModelFacts:
    """What the passes of a model share."""

    version: int  # the operator set of ONNX's own operators that the model imports
    target: Target
    losses: Losses
    refusals: list[Refusal]
    rounded: dict[int, str]  # float types that RTen computes in 32 bits, and the first value of each
    legal_graph: Callable[[Graph], Graph]  # the graph after `GRAPH_PASSES`


def check_version(model: Model, facts: ModelFacts) -> Model:
    """Refuse a model of an operator set whose forms the rewritings do not know."""
    if facts.version > NEWEST_KNOWN:
        reason = f"the model uses operator set {facts.version}, but the newest known one is {NEWEST_KNOWN}"
        facts.refusals.append(Refusal("", "", None, "opset_import", reason, "convert the model to an older one"))
    return model


def drop_constant_inputs(model: Model, facts: ModelFacts) -> Model:
    """Remove the inputs of a model of an early IR version that are constants."""
    graph = model.graph
    if graph is None or (model.ir_version or 0) >= FIRST_WITH_CONSTANTS:
        return model
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    return model if len(inputs) == len(graph.input) else replace(model, graph=replace(graph, input=inputs))


def make_graph_legal(model: Model, facts: ModelFacts) -> Model:
    """Run the passes of graphs."""
    graph = facts.legal_graph(model.graph or Graph())
    return model if graph is model.graph else replace(model, graph=graph)


def report_precision(model: Model, facts: ModelFacts) -> Model:
    """Report that RTen computes all floats in 32 bits, so it rounds or overflows when other runtimes do not."""
    for elem_type, name in facts.rounded.items():
        detail = f"RTen computes {type_name(elem_type)} in 32 bits"
        facts.losses.add("precision", detail, "graph", name, seen=RESULTS)
    return model


def report_depth(model: Model, facts: ModelFacts) -> Model:
    """Report the graphs for which the stack of a thread may be too small."""
    all_graphs = [*graphs_below(model.graph or Graph(), "graph")]
    for where, graph in all_graphs:
        if len(graph.node) <= MAX_IN_THREAD:  # as most graphs, so that they cost nothing
            continue
        depth = plan_depth(graph, with_subgraphs=len(all_graphs) > 1)
        if depth > MAX_IN_THREAD:
            is_too_deep = depth > MAX_IN_MAIN_THREAD
            stack = f"a stack of {8 if is_too_deep else 2} MiB"
            detail = f"RTen's planner overflows {stack}: {depth} nodes, each of which needs another one's output"
            facts.losses.add("depth", detail, where, seen=INTERFACE if is_too_deep else USE)
    return model


def plan_depth(graph: Graph, *, with_subgraphs: bool = True) -> int:
    """The most nodes that RTen's planner has begun and not yet finished, from the outputs of a graph to its inputs.

    Spec: RTen, graph/planner.rs, `PlanBuilder`.
    """
    with_graphs = {id(graph.node[index]) for index, _, _ in subgraphs(graph.node)} if with_subgraphs else ()
    needs: dict[str, list[str]] = {}  # by a value that is not yet planned, what the node that makes it needs
    siblings: dict[str, list[str]] = {}  # from the first node with several outputs on, the outputs of its node
    for node in graph.node:
        names = mentioned(node) if with_graphs and id(node) in with_graphs else node.input
        outputs = node.output
        for name in outputs:
            needs[name] = names
        if len(outputs) > 1 or siblings:
            siblings.update(dict.fromkeys(outputs, outputs))
    needs.pop("", None)  # an omitted output
    most = 1
    for value in graph.output:
        begun = [iter([value.name or ""])]
        while begun:
            for name in begun[-1]:
                if name in needs:
                    begun.append(iter(needs.pop(name)))
                    for output in siblings.get(name, ()) if siblings else ():
                        needs.pop(output, [])  # planned with it, so that a graph with a cycle ends, too
                    most = max(most, len(begun))
                    break
            else:
                begun.pop()
    return most - 1


def write_imports(model: Model, facts: ModelFacts) -> Model:
    """Give the model the operator set of its nodes, and no functions."""
    target = facts.target
    imports = [OperatorSetId(domain="", version=target.version or max(facts.version, NEWEST))]
    imports += [entry for entry in model.opset_import if entry.domain not in STANDARD_DOMAINS]
    ir_version = max(model.ir_version or 0, FIRST_WITH_CONSTANTS if target.is_onnx else IR_VERSION)
    changes: dict[str, Any] = {"opset_import": imports, "functions": [], "ir_version": ir_version}
    is_same = all(getattr(model, field) == value for field, value in changes.items())
    return model if is_same else replace(model, **changes)


MODEL_PASSES: Final[tuple[Pass[Model, ModelFacts], ...]] = (
    Pass("operator set", check_version),  # the rewritings do not know the forms of newer ones
    Pass("constant inputs", drop_constant_inputs),  # before IR version 4, each constant had to be an input, too
    Pass("graphs", make_graph_legal),  # a subgraph needs the same passes as the graph of the model
    Pass("precision", report_precision),  # other runtimes round and overflow elsewhere
    Pass("plan depth", report_depth),  # RTen's planner calls itself for each node in a row
    Pass("imports", write_imports),  # the nodes are now in the newest forms, and those of functions replace the calls
)
