"""The passes that make a model legal, in the order in which they run. Each has one concern.

`MODEL_PASSES` run once for a model. One of them runs `GRAPH_PASSES` for its graph. These run again for each subgraph,
when the node around it is rewritten. A pass reads and changes only the work that it gets. docs/operators.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from formats.ir.dtypes import type_name
from formats.ir.model import OperatorSetId
from formats.ir.node_order import all_mentioned, graphs
from formats.rten.convert.context import NEWEST
from formats.rten.convert.decisive import add_decisive
from formats.rten.convert.distinct_outputs import with_distinct_outputs
from formats.rten.convert.loss_report import add_outputs
from formats.rten.convert.pass_list import Pass, run
from formats.rten.convert.plan_depth import add_deep_plans
from formats.rten.convert.refusal import Refusal
from formats.rten.convert.value_types import UNKNOWN, completed
from formats.rten.graph.constants import densify
from formats.rten.operators.shared.spec import STANDARD_DOMAINS
from formats.tensordata.plan import RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.ir.model import Graph, Model, Node, Tensor, ValueInfo
    from formats.rten.convert.context import Constants, ValueNames
    from formats.rten.convert.loss_report import Losses
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import ValueType
    from formats.rten.onnx_loader.kept import Kept
    from formats.rten.target import Target

NEWEST_KNOWN: Final = 28  # the newest operator set whose forms the rewritings know
IR_VERSION: Final = 10  # of the result
FIRST_IR_WITH_DEFAULTS: Final = 4  # in earlier versions, all initialisers had to be inputs


@dataclass(slots=True)
class GraphWork:
    """A graph that becomes legal: what its passes know of it, and what they made so far."""

    graph: Graph  # as it was given
    where: str
    is_subgraph: bool
    input_types: Sequence[ValueType]  # what the node around a subgraph knows of its inputs
    tensor_input: str  # an input of the model that is a tensor, or an empty name
    names: ValueNames
    constants: Constants  # with the scope of the graph
    losses: Losses
    kept: Kept | None  # for an ONNX loader
    legal_nodes: Callable[[], list[Node]]  # all nodes of the graph, rewritten
    tensors: list[Tensor] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)

    @property
    def scope(self) -> Scope:
        """What is known about the values of the graph."""
        return self.constants.scope


@dataclass(slots=True)
class ModelWork:
    """A model that becomes legal: what its passes know of it, and what they made so far."""

    model: Model  # as it was given
    graph: Graph  # as it was given, and then the legal one
    version: int  # the operator set of ONNX's own operators that the model imports
    target: Target
    losses: Losses
    refusals: list[Refusal]
    rounded: dict[int, str]  # float types that RTen computes in 32 bits, and the first value of each
    legal_graph: Callable[[Graph], Graph]  # the graph after `GRAPH_PASSES`


def find_decisive(work: GraphWork) -> None:
    """Note the names of the values that are rounded or compared, also in subgraphs."""
    add_decisive([found.node for _, found in graphs(work.graph)], work.names.decisive)


def declare(work: GraphWork) -> None:
    """Tell the scope the declared types, the inputs and the constants of the graph."""
    graph, scope = work.graph, work.scope
    scope.declare([*graph.value_info, *graph.input, *graph.output])
    for number, value in enumerate(graph.input):
        known = work.input_types[number] if number < len(work.input_types) else UNKNOWN
        scope.add_input(value.name or "", known)
    work.tensors = [*graph.initializer, *map(densify, graph.sparse_initializer)]
    for tensor in work.tensors:
        scope.add_tensor(tensor)


def rewrite(work: GraphWork) -> None:
    """Rewrite the nodes of the graph one after the other, since each needs what is known about the ones before it."""
    work.nodes = work.legal_nodes()


def keep_outputs_apart(work: GraphWork) -> None:
    """Add nodes to outputs that RTen would fold to one constant."""
    work.nodes, added = with_distinct_outputs(work.graph, work.nodes, work.constants, work.names, work.tensor_input)
    if work.kept is not None:
        work.kept.note_needs(added)


def report_outputs(work: GraphWork) -> None:
    """Report the outputs that are constants and exceed 32 bits."""
    add_outputs(work.losses, work.graph, work.scope, work.where)


def complete_outputs(work: GraphWork) -> None:
    """Declare the types of the outputs of a subgraph; the outputs of the model stay as they are declared."""
    outputs = work.graph.output
    if work.is_subgraph:
        outputs = [completed(value, work.scope.type_of(value.name or "")) for value in outputs]
    work.outputs = outputs


def add_constants(work: GraphWork) -> None:
    """Add the constants that rewritings made; an ONNX loader gets only those that the nodes use."""
    made = work.constants.tensors
    if work.kept is not None:
        used = all_mentioned(work.nodes) | {value.name or "" for value in work.outputs}
        made = [tensor for tensor in made if tensor.name in used]
    work.tensors = [*work.tensors, *made]


GRAPH_PASSES: Final = (
    Pass("decisive values", "finds the values that are rounded or compared", find_decisive),
    Pass("declarations", "reads declared types, inputs and constants", declare),
    Pass("rewriting", "puts each node through the rewritings of its operator", rewrite),
    Pass("distinct outputs", "keeps RTen from folding two outputs to one constant", keep_outputs_apart),
    Pass("exceeding outputs", "reports constant outputs that exceed 32 bits", report_outputs),
    Pass("output types", "declares the types of the outputs of subgraphs", complete_outputs),
    Pass("constants", "adds the constants that rewritings made", add_constants),
)


def legal_graph(work: GraphWork) -> Graph:
    """The graph after all passes."""
    run(GRAPH_PASSES, work)
    return replace(work.graph, node=work.nodes, initializer=work.tensors, sparse_initializer=[], output=work.outputs)


def check_version(work: ModelWork) -> None:
    """Refuse a model of an operator set whose forms the rewritings do not know."""
    if work.version > NEWEST_KNOWN:
        reason = f"the model uses operator set {work.version}, but the newest known one is {NEWEST_KNOWN}"
        work.refusals.append(Refusal("", "", None, "opset_import", reason, "convert the model to an older one"))


def drop_constant_inputs(work: ModelWork) -> None:
    """Remove the inputs of a model of an early IR version that are constants."""
    if (work.model.ir_version or 0) < FIRST_IR_WITH_DEFAULTS:
        constants = {tensor.name for tensor in work.graph.initializer}
        work.graph = replace(work.graph, input=[value for value in work.graph.input if value.name not in constants])


def make_graph_legal(work: ModelWork) -> None:
    """Run the passes of graphs."""
    work.graph = work.legal_graph(work.graph)


def report_precision(work: ModelWork) -> None:
    """Report that RTen computes all floats in 32 bits, so it rounds or overflows when other runtimes do not."""
    for elem_type, name in work.rounded.items():
        detail = f"RTen computes {type_name(elem_type)} in 32 bits"
        work.losses.add("precision", detail, "graph", name, seen=RESULTS)


def report_depth(work: ModelWork) -> None:
    """Report the graphs for which the stack of a thread may be too small."""
    add_deep_plans(work.losses, work.graph)


def write_imports(work: ModelWork) -> None:
    """Give the model the legal graph, the operator set of its nodes, and no functions."""
    model, target = work.model, work.target
    imports = [OperatorSetId(domain="", version=target.version or max(work.version, NEWEST))]
    imports += [entry for entry in model.opset_import if entry.domain not in STANDARD_DOMAINS]
    version = max(model.ir_version or 0, FIRST_IR_WITH_DEFAULTS if target.is_onnx else IR_VERSION)
    work.model = replace(model, graph=work.graph, opset_import=imports, functions=[], ir_version=version)


MODEL_PASSES: Final = (
    Pass("operator set", "refuses an operator set that is too new", check_version),
    Pass("constant inputs", "drops the inputs of early models that are constants", drop_constant_inputs),
    Pass("graphs", "runs the passes of graphs", make_graph_legal),
    Pass("precision", "reports float types that RTen computes in 32 bits", report_precision),
    Pass("plan depth", "reports graphs that need a large stack", report_depth),
    Pass("imports", "writes the operator sets of the legal model, without functions", write_imports),
)


def legal_model(work: ModelWork) -> Model:
    """The model after all passes."""
    run(MODEL_PASSES, work)
    return work.model
