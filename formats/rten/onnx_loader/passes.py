"""Rewrites an ONNX model to ONNX that RTen runs with the results that ONNX defines.

A node stays as it is if RTen's ONNX loader reads it and RTen's kernel computes what ONNX says. All other nodes are
rewritten as for a .rten file. Then the passes in `LOADER_PASSES` run, in their order. docs/operators.md lists them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from operator import is_
from typing import Final

from formats.codecs.contract import Change, Runnable
from formats.ir import ONNX, ir_version_with
from formats.ir.dtypes import STRING, type_name
from formats.ir.model import Graph, Model, Node, Tensor
from formats.ir.node_order import subgraphs
from formats.ir.storage import entries_of
from formats.ir.walk import graphs, visit
from formats.rten.convert.legalize import Legalized, legalize
from formats.rten.convert.passes import Pass, run_passes
from formats.rten.convert.refusal import Refusal, RefusalError
from formats.rten.convert.value_types import element_type
from formats.rten.graph.constants import as_rten_constant, clamped_text, constant_nodes, is_constant_node
from formats.rten.graph.encoder import constant_place, constants_of
from formats.rten.graph.uses import Uses, with_reached_names, without_hiding
from formats.rten.onnx_loader.kept import Kept
from formats.rten.onnx_loader.read_types import READ_AS, has_unknown_dims, in_read_types
from formats.rten.target import ONNX_LOADER
from formats.rten.types import NOT_NUMBERS, PARTLY_HELD
from formats.tensordata.plan import DOCUMENTATION, RESULTS, Losses

REFERENCE_KEYS: Final = ("location", "offset", "length", "checksum")  # keys of external data that the loader accepts
MAX_RAISINGS: Final = 4  # changes of the operator set, each to a newer one


def runnable(model: Model, exact: bool = False) -> Runnable:
    """The model as ONNX that RTen runs; the given one is not changed, and weights are shared.

    If `exact`, nodes whose results in RTen differ from ONNX for special values are rewritten, too.

    Raises: TensorDataError if a constant that decides a form cannot be read.
    """
    versions = {entry.domain or "": entry.version or 1 for entry in model.opset_import}
    version = versions.get("", versions.get(ONNX, 1))
    legalized, needed_version, needing = _legalized(model, exact, version)  # nodes that stay keep their form
    facts = LoaderFacts(
        given=model,
        given_version=version,
        needed_version=needed_version,
        needing=needing,
        elem_types={value.elem_type for types in legalized.types.values() for value in types.values()},
        losses=legalized.losses,
        refusals=[*legalized.refusals],
        changes=_kept(legalized).changes,
    )
    readable = run_passes(LOADER_PASSES, legalized.model, facts).subject
    error = RefusalError(facts.refusals) if facts.refusals else None
    stops = () if error is None else tuple(error.reasons)
    return Runnable(readable, facts.losses.lines(), tuple(facts.changes), error, stops)


def _legalized(model: Model, exact: bool, version: int) -> tuple[Legalized, int, str]:
    """The legal model, in the operator set that has the forms of its nodes, and an operator that needs this set."""
    legalized = legalize(model, exact, ONNX_LOADER)
    needing = ""
    for _ in range(MAX_RAISINGS):  # a newer set may allow other forms, which need a still newer one
        needs = _kept(legalized).needs
        if needs[0] <= version:
            break
        version, needing = needs
        legalized = legalize(model, exact, ONNX_LOADER._replace(version=version))
    return legalized, version, needing


def _kept(legalized: Legalized) -> Kept:
    assert legalized.kept is not None
    return legalized.kept


@dataclass(slots=True)
class LoaderFacts:
    """What the passes of a legal model share."""

    given: Model  # before it became legal
    given_version: int  # the operator set that it imports
    needed_version: int  # that of the legal nodes
    needing: str  # the operator that needs this set
    elem_types: Collection[int | None]  # of the values that nodes compute
    losses: Losses
    refusals: list[Refusal]
    changes: list[Change]  # of nodes
    reached: Collection[str] = ()  # the outputs of nodes whose subgraphs capture what the loader would miss


def raise_version(model: Model, facts: LoaderFacts) -> Model:
    """Raise the IR version with the operator set, and report that."""
    version = facts.needed_version
    if version <= facts.given_version:
        return model
    detail = f"rewritten nodes need {facts.needing} of operator set {version}; the model had {facts.given_version}"
    facts.losses.add("opset_version", detail, "opset_import", ONNX, seen=DOCUMENTATION)
    return replace(model, ir_version=max(model.ir_version or 0, ir_version_with(version)))


def report_clamped(model: Model, facts: LoaderFacts) -> Model:
    """Report the constants whose integers the loader clamps to 32 bits, other than the bounds of slices."""
    for where, graph in visit(_graph_of(model), Graph, "graph"):
        uses = Uses(graph)
        read = (uses.own.keys() | uses.inner) - uses.bounds  # others have no effect, such as what a rewriting replaced
        for name, (tensor, place) in constants_of(graph, constant_nodes(graph.node)).items():
            if tensor.data_type in PARTLY_HELD and name in read and as_rten_constant(tensor).change == "clamped":
                facts.losses.add("clamped", clamped_text(tensor), constant_place(where, place), name, seen=RESULTS)
    return model


def check_interface(model: Model, facts: LoaderFacts) -> Model:
    """Refuse the inputs and outputs with types for which RTen has no type."""
    for field in ("input", "output"):
        for index, value in enumerate(getattr(_graph_of(model), field)):
            if (number := element_type(value.type)) in NOT_NUMBERS:
                reason = f"the {field} {value.name!r} has element type {type_name(number)}"
                facts.refusals.append(Refusal("", "", None, f"graph.{field}[{index}]", reason))
    return model


def drop_unread_constants(model: Model, facts: LoaderFacts) -> Model:
    """Drop the constants of types that RTen lacks, which no legal node uses; the loader would refuse them."""
    return _with_graph(model, _without_unread(_graph_of(model), "graph", facts.refusals))


def _without_unread(graph: Graph, where: str, refusals: list[Refusal]) -> Graph:
    """The graph and those in it without such constants. One that a subgraph returns is refused."""
    nodes: list[Node] = list(graph.node)
    tensors: list[Tensor] = []
    for index, name, inner in subgraphs(graph.node):
        smaller = _without_unread(inner, f'{where}.node[{index}].attribute["{name}"].g', refusals)
        if smaller is not inner:
            attributes = [
                replace(other, g=smaller) if other.name == name else other for other in nodes[index].attribute
            ]
            nodes[index] = replace(nodes[index], attribute=attributes)
    returned = {value.name for value in graph.output}
    for index, tensor in enumerate(graph.initializer):
        if tensor.data_type not in NOT_NUMBERS:
            tensors.append(tensor)
        elif where != "graph" and tensor.name in returned:
            reason = f"a constant of a subgraph is {type_name(tensor.data_type)}, which RTen does not support"
            refusals.append(Refusal("", "", None, f"{where}.initializer[{index}]", reason))
    is_same = len(tensors) == len(graph.initializer) and all(map(is_, nodes, graph.node))
    return graph if is_same else replace(graph, node=nodes, initializer=tensors)


def use_read_types(model: Model, facts: LoaderFacts) -> Model:
    """Replace the element types that the loader does not read, and the names of unknown dims."""
    return _with_graph(model, in_read_types(_graph_of(model), facts.elem_types, facts.losses))


def trim_references(model: Model, facts: LoaderFacts) -> Model:
    """Keep only those entries in references to external data that the loader accepts."""
    graph = _graph_of(model)
    tensors = [
        replace(tensor, external_data=[entry for entry in tensor.external_data if entry.key in REFERENCE_KEYS])
        if any(key not in REFERENCE_KEYS for key, _ in entries_of(tensor))
        else tensor
        for tensor in graph.initializer
    ]
    is_same = all(map(is_, tensors, graph.initializer))
    return model if is_same else _with_graph(model, replace(graph, initializer=tensors))


def rename_hiding(model: Model, facts: LoaderFacts) -> Model:
    """Rename the values of subgraphs that have the name of a value around them."""
    return _with_graph(model, without_hiding(_graph_of(model)))


def reach_captures(model: Model, facts: LoaderFacts) -> Model:
    """Make the values known that only graphs inside of a subgraph capture."""
    graph, facts.reached = with_reached_names(_graph_of(model))
    return _with_graph(model, graph)


def list_changes(model: Model, facts: LoaderFacts) -> Model:
    """Put what these passes rewrote before what was rewritten of the nodes.

    Nodes in a subgraph are rewritten again if the node around them is rewritten, so each change is listed once.
    """
    own = [change for where, graph in graphs(facts.given) for change in _changes(graph, where, facts.reached)]
    facts.changes = [*own, *dict.fromkeys(facts.changes)]
    return model


def _graph_of(model: Model) -> Graph:
    """The graph of a legal model."""
    assert model.graph is not None
    return model.graph


def _with_graph(model: Model, graph: Graph) -> Model:
    return model if graph is model.graph else replace(model, graph=graph)


def _changes(graph: Graph, where: str, reached: Collection[str]) -> Iterator[Change]:
    """What was rewritten of a given graph, without its nodes' rewritings."""
    for index, tensor in enumerate(graph.initializer):
        if (kind := tensor.data_type or 0) in READ_AS:
            reason = f"RTen does not read tensors of {type_name(kind)}"
            place = f"{where}.initializer[{index}]"
            yield Change(place, tensor.name or "", "", (type_name(READ_AS[kind]),), reason, True)
        elif kind in NOT_NUMBERS:
            reason = f"RTen does not read tensors of {type_name(kind)}; nothing uses it, so it is left out"
            yield Change(f"{where}.initializer[{index}]", tensor.name or "", "", (), reason, True)
    for index, value in enumerate(graph.input):
        if has_unknown_dims(value.type):
            reason = "RTen takes all dims that have no name, or are called '?', to be equal"
            yield Change(f"{where}.input[{index}]", value.name or "", "", (), reason, False)
    for index, sparse in enumerate(graph.sparse_initializer):
        name = (sparse.values.name if sparse.values else "") or ""
        reason = "RTen does not read sparse tensors"
        yield Change(f"{where}.sparse_initializer[{index}]", name, "", (), reason, True)
    for index, node in enumerate(graph.node):
        if is_constant_node(node) and (kind := _kind_of_constant(node)) in NOT_NUMBERS:
            reason = f"RTen does not read constants of {type_name(kind)}; nothing uses it, so it is left out"
            yield Change(f"{where}.node[{index}]", node.output[0], node.op_type or "", (), reason, True)
        if not set(node.output).isdisjoint(reached):
            reason = "RTen runs it while loading the model, but cannot find the values that it captures"
            operators = ("Identity", node.op_type or "")
            yield Change(f"{where}.node[{index}]", node.name or "", node.op_type or "", operators, reason, True)


def _kind_of_constant(node: Node) -> int:
    """The element type of a Constant that holds a tensor or strings, else 0."""
    for attribute in node.attribute:
        if attribute.t is not None:
            return attribute.t.data_type or 0
        if attribute.name in ("value_string", "value_strings"):
            return STRING
    return 0


LOADER_PASSES: Final[tuple[Pass[Model, LoaderFacts], ...]] = (
    # Rewritten nodes may need a newer operator set, and each came with an IR version.
    Pass("newer operator set", raise_version),
    Pass("clamped constants", report_clamped),  # RTen has no larger integers
    Pass("interface", check_interface),  # no other type can stand for strings or complex numbers
    Pass("unread constants", drop_unread_constants),  # the loader stops at them
    Pass("element types", use_read_types),  # the loader stops at such types, and takes dims called '?' to be equal
    Pass("references", trim_references),  # the loader stops at others
    Pass("hiding names", rename_hiding),  # RTen would use the outer value
    Pass("captures", reach_captures),  # the loader does not look for captures in graphs inside of graphs
    Pass("changes", list_changes),  # the report has what passes changed before what changed of the nodes
)
