"""Rewrites an ONNX model to ONNX that RTen runs with the results that ONNX defines.

A node stays as it is if RTen's ONNX loader reads it and RTen's kernel computes what ONNX says. All other nodes are
rewritten as for a .rten file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.codecs.contract import Change, Runnable
from formats.ir.dtypes import type_name
from formats.ir.model import Graph, Model
from formats.ir.walk import graphs
from formats.python.late_dataclasses import replace
from formats.rten.convert.legalize import legalize
from formats.rten.convert.refusal import Refusal, RefusalError
from formats.rten.graph.constants import clamped_text, convert
from formats.rten.graph.encoder import constants_of
from formats.rten.graph.names import without_hiding
from formats.rten.graph.uses import find_uses
from formats.rten.onnx_loader.captures import with_reached_names
from formats.rten.onnx_loader.read_types import READ_AS, element_type, has_unknown_dims, in_read_types
from formats.rten.operators import shape
from formats.rten.target import ONNX_LOADER
from formats.rten.types import NOT_NUMBERS, PARTLY_HELD
from formats.tensordata.plan import DOCUMENTATION, RESULTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from formats.rten.convert.legalize import Legalized
    from formats.rten.convert.loss_report import Losses
    from formats.rten.onnx_loader.kept import Kept

# The IR version that came with each operator set. A model with this operator set has at least this version.
IR_VERSIONS: Final = {8: 3, 9: 4, 10: 5, 11: 6, 12: 7, 15: 8, 19: 9, 21: 10, 23: 11, 24: 12, 25: 13}
REFERENCE_KEYS: Final = ("location", "offset", "length", "checksum")  # keys of external data that the loader accepts
MAX_RAISINGS: Final = 4  # changes of the operator set, each to a newer one


def _version(model: Model) -> int:
    """The operator set of ONNX's own operators that a model imports."""
    versions = {entry.domain or "": entry.version or 1 for entry in model.opset_import}
    return versions.get("", versions.get("ai.onnx", 1))


def runnable(model: Model, exact: bool = False) -> Runnable:
    """The model as ONNX that RTen runs; the given one is not changed, and weights are shared.

    If `exact`, nodes whose results in RTen differ from ONNX for special values are rewritten, too.

    Raises: TensorDataError if a constant that decides a form cannot be read.
    """
    given = version = _version(model)
    legalized = legalize(model, exact, ONNX_LOADER)
    needed = _kept(legalized).needs
    for _ in range(MAX_RAISINGS):
        if _kept(legalized).needs[0] <= version:
            break
        needed = _kept(legalized).needs
        version = needed[0]
        legalized = legalize(model, exact, ONNX_LOADER._replace(version=version))
    losses = legalized.losses
    made = legalized.model
    if version > given:
        least = max(ir for opset, ir in IR_VERSIONS.items() if opset <= version)
        made = replace(made, ir_version=max(made.ir_version or 0, least))
        detail = f"rewritten nodes need {needed[1]} of operator set {version}; the model had {given}"
        losses.add("opset_version", detail, "opset_import", "ai.onnx", seen=DOCUMENTATION)
    kinds = {found.elem_type for types in legalized.types.values() for found in types.values()}
    _note_clamped(made.graph or Graph(), losses)
    graph = in_read_types(made.graph or Graph(), kinds, losses)
    graph, reached = with_reached_names(without_hiding(_with_plain_references(graph)))
    refusals = [*legalized.refusals, *_unheld_interface(made.graph or Graph())]
    error = RefusalError(refusals) if refusals else None
    stops = () if error is None else tuple(error.reasons)
    return Runnable(
        replace(made, graph=graph), losses.lines(), tuple(_changes(model, legalized, reached)), error, stops
    )


def _note_clamped(graph: Graph, losses: Losses) -> None:
    """Report the constants whose integers the loader clamps to 32 bits, other than the bounds of slices."""
    for where, inner in graphs(graph):
        bounds = find_uses(inner).bounds
        for name, (tensor, place) in constants_of(inner, where).items():
            if tensor.data_type in PARTLY_HELD and name not in bounds and convert(tensor).change == "clamped":
                losses.add("clamped", clamped_text(tensor), place, name, seen=RESULTS)


def _with_plain_references(graph: Graph) -> Graph:
    """The graph, with only those entries in references to external data that the loader accepts."""
    tensors = [
        replace(tensor, external_data=[entry for entry in tensor.external_data if entry.key in REFERENCE_KEYS])
        if any(entry.key not in REFERENCE_KEYS for entry in vars(tensor).get("external_data") or ())
        else tensor
        for tensor in graph.initializer
    ]
    return replace(graph, initializer=tensors)


def _kept(legalized: Legalized) -> Kept:
    assert legalized.kept is not None
    return legalized.kept


def _unheld_interface(graph: Graph) -> Iterator[Refusal]:
    """The inputs and outputs with types for which RTen has no type."""
    for field in ("input", "output"):
        for index, value in enumerate(getattr(graph, field)):
            if (number := element_type(value.type)) in NOT_NUMBERS:
                reason = f"the {field} {value.name!r} has element type {type_name(number)}"
                yield Refusal("", "", None, f"graph.{field}[{index}]", reason)


def _changes(model: Model, legalized: Legalized, reached: Collection[str]) -> Iterator[Change]:
    """What was rewritten in a model. Nodes in a subgraph are rewritten again if the node around them is rewritten."""
    for where, graph in graphs(model):
        for index, tensor in enumerate(graph.initializer):
            if (kind := tensor.data_type or 0) in READ_AS:
                reason = f"RTen does not read tensors of {type_name(kind)}"
                place = f"{where}.initializer[{index}]"
                yield Change(place, tensor.name or "", "", (type_name(READ_AS[kind]),), reason, True)
        for index, value in enumerate(graph.input):
            if has_unknown_dims(value.type):
                reason = "RTen takes all dims that have no name, or are called '?', to be equal"
                yield Change(f"{where}.input[{index}]", value.name or "", "", (), reason, False)
        for index, sparse in enumerate(graph.sparse_initializer):
            name = (sparse.values.name if sparse.values else "") or ""
            yield Change(
                f"{where}.sparse_initializer[{index}]", name, "", (), "RTen does not read sparse tensors", True
            )
        for index, node in enumerate(graph.node):
            if not set(node.output).isdisjoint(reached):
                reason = "RTen runs it while loading the model, but cannot find the values that it captures"
                operator = node.op_type or ""
                yield Change(
                    f"{where}.node[{index}]", node.name or "", operator, (shape.Identity.name, operator), reason, True
                )
    yield from dict.fromkeys(_kept(legalized).changes)
