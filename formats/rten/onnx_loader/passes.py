"""The passes that make a legal model one that RTen's ONNX loader reads, in the order in which they run.

They run once for a model, after those in `convert/passes.py`. docs/operators.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from formats.codecs.contract import Change
from formats.ir.dtypes import type_name
from formats.ir.storage import entries_of
from formats.ir.walk import graphs
from formats.rten.convert.pass_list import Pass, run
from formats.rten.convert.refusal import Refusal
from formats.rten.graph.constants import clamped_text, constant_nodes, convert
from formats.rten.graph.encoder import constant_place, constants_of
from formats.rten.graph.names import without_hiding
from formats.rten.graph.uses import Uses
from formats.rten.onnx_loader.captures import with_reached_names
from formats.rten.onnx_loader.read_types import READ_AS, element_type, has_unknown_dims, in_read_types
from formats.rten.types import NOT_NUMBERS, PARTLY_HELD
from formats.tensordata.plan import DOCUMENTATION, RESULTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from formats.ir.model import Graph, Model
    from formats.rten.convert.loss_report import Losses

# The IR version that came with each operator set. A model with this operator set has at least this version.
IR_VERSIONS: Final = {8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 15: 8, 19: 9, 21: 10, 23: 11, 24: 12, 25: 13}
REFERENCE_KEYS: Final = ("location", "offset", "length", "checksum")  # keys of external data that the loader accepts


@dataclass(slots=True)
class LoaderWork:
    """A legal model that becomes readable: what its passes know of it, and what they found so far."""

    given: Model  # before it became legal
    given_version: int  # the operator set that it imports
    needed_version: int  # that of the legal nodes
    needing: str  # the operator that needs this set
    model: Model  # the legal one, apart from its graph
    graph: Graph
    elem_types: Collection[int | None]  # of the values that nodes compute
    losses: Losses
    refusals: list[Refusal]
    changes: list[Change]  # of nodes
    reached: Collection[str] = ()  # the outputs of nodes whose subgraphs capture what the loader would miss


def raise_version(work: LoaderWork) -> None:
    """Raise the IR version with the operator set, and report that."""
    version = work.needed_version
    if version > work.given_version:
        least = max(ir for opset, ir in IR_VERSIONS.items() if opset <= version)
        work.model = replace(work.model, ir_version=max(work.model.ir_version or 0, least))
        detail = f"rewritten nodes need {work.needing} of operator set {version}; the model had {work.given_version}"
        work.losses.add("opset_version", detail, "opset_import", "ai.onnx", seen=DOCUMENTATION)


def report_clamped(work: LoaderWork) -> None:
    """Report the constants whose integers the loader clamps to 32 bits, other than the bounds of slices."""
    for within, inner in graphs(work.graph):
        where = f"graph.{within}" if within else "graph"
        uses = Uses(inner)
        seen = (uses.own.keys() | uses.inner) - uses.bounds  # others have no effect, such as what a rewriting replaced
        for name, (tensor, place) in constants_of(inner, constant_nodes(inner.node)).items():
            if tensor.data_type in PARTLY_HELD and name in seen and convert(tensor).change == "clamped":
                work.losses.add("clamped", clamped_text(tensor), constant_place(where, place), name, seen=RESULTS)


def check_interface(work: LoaderWork) -> None:
    """Refuse the inputs and outputs with types for which RTen has no type."""
    for field in ("input", "output"):
        for index, value in enumerate(getattr(work.graph, field)):
            if (number := element_type(value.type)) in NOT_NUMBERS:
                reason = f"the {field} {value.name!r} has element type {type_name(number)}"
                work.refusals.append(Refusal("", "", None, f"graph.{field}[{index}]", reason))


def drop_unread_constants(work: LoaderWork) -> None:
    """Drop the constants of types that RTen lacks, which no legal node uses; the loader would refuse them."""
    for where, graph in graphs(work.graph):
        for index, tensor in enumerate(graph.initializer) if where else ():
            if tensor.data_type in NOT_NUMBERS:
                reason = f"a constant of a subgraph is {type_name(tensor.data_type)}, which RTen does not support"
                work.refusals.append(Refusal("", "", None, f"graph.{where}.initializer[{index}]", reason))
    kept = [tensor for tensor in work.graph.initializer if tensor.data_type not in NOT_NUMBERS]
    if len(kept) < len(work.graph.initializer):
        work.graph = replace(work.graph, initializer=kept)


def use_read_types(work: LoaderWork) -> None:
    """Replace the element types that the loader does not read, and the names of unknown dims."""
    work.graph = in_read_types(work.graph, work.elem_types, work.losses)


def trim_references(work: LoaderWork) -> None:
    """Keep only those entries in references to external data that the loader accepts."""
    tensors = [
        replace(tensor, external_data=[entry for entry in tensor.external_data if entry.key in REFERENCE_KEYS])
        if any(key not in REFERENCE_KEYS for key, _ in entries_of(tensor))
        else tensor
        for tensor in work.graph.initializer
    ]
    work.graph = replace(work.graph, initializer=tensors)


def rename_hiding(work: LoaderWork) -> None:
    """Rename the values of subgraphs that have the name of a value around them."""
    work.graph = without_hiding(work.graph)


def reach_captures(work: LoaderWork) -> None:
    """Make the values known that only graphs inside of a subgraph capture."""
    work.graph, work.reached = with_reached_names(work.graph)


def list_changes(work: LoaderWork) -> None:
    """Put what these passes rewrote before what was rewritten of the nodes.

    Nodes in a subgraph are rewritten again if the node around them is rewritten.
    """
    found = [change for where, graph in graphs(work.given) for change in _changes(graph, where, work.reached)]
    work.changes = [*found, *dict.fromkeys(work.changes)]


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
        if not set(node.output).isdisjoint(reached):
            reason = "RTen runs it while loading the model, but cannot find the values that it captures"
            made = ("Identity", node.op_type or "")
            yield Change(f"{where}.node[{index}]", node.name or "", node.op_type or "", made, reason, True)


LOADER_PASSES: Final = (
    Pass("newer operator set", "raises the IR version with the operator set, and reports that", raise_version),
    Pass("clamped constants", "reports constants that the loader clamps to 32 bits", report_clamped),
    Pass("interface", "refuses inputs and outputs of types that RTen lacks", check_interface),
    Pass("unread constants", "drops constants of types that RTen lacks, which nothing uses", drop_unread_constants),
    Pass("element types", "replaces element types and names of dims that the loader does not read", use_read_types),
    Pass("references", "drops entries of external data that the loader does not accept", trim_references),
    Pass("hiding names", "renames values of subgraphs that hide values around them", rename_hiding),
    Pass("captures", "makes values known that only graphs inside of a subgraph capture", reach_captures),
    Pass("changes", "lists what was rewritten", list_changes),
)


def readable_model(work: LoaderWork) -> Model:
    """The model after all passes."""
    run(LOADER_PASSES, work)
    return replace(work.model, graph=work.graph)
