"""What an .ort file does not hold of a model, one loss for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.model import Graph, Model, Node, Tensor
from formats.ir.walk import visit
from formats.ort.writing.encoder import MAX_NAMES
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, USE, Loss
from formats.words import listed

if TYPE_CHECKING:
    from formats.tensordata.plan import Seen


def unheld(model: Model) -> tuple[Loss, ...]:
    """The losses of `model` in the format."""
    groups: dict[tuple[str, str, Seen], list[str]] = {}

    def add(kind: str, detail: str, where: str, seen: Seen = DOCUMENTATION) -> None:
        groups.setdefault((kind, detail, seen), []).append(where)

    if model.functions:
        add("functions", "the nodes of functions replace the nodes that call them", "functions", USE)
    if model.training_info:
        add("training_info", "an .ort file for inference has no training information", "training_info", INTERFACE)
    if model.configuration:
        add("device_configuration", "an .ort file does not distribute a model over devices", "configuration")
    for where, message in visit(model, object):
        held = vars(message)
        if isinstance(message, Graph):
            _add_graph(add, message, where)
        elif isinstance(message, Node) and held.get("device_configurations"):
            add("device_configuration", "an .ort file does not distribute a model over devices", where)
        if held.get("metadata_props") and not isinstance(message, Model):
            add("metadata", "an .ort file has only the metadata of the model", where)
        if isinstance(message, Tensor) and message.segment is not None:
            add("segment", "an .ort file has no segments of tensors", where, INTERFACE)
    return tuple(
        Loss(kind, places[0], f"{detail} ({', '.join(places)})", seen, short=f"{detail} ({listed(places, MAX_NAMES)})")
        for (kind, detail, seen), places in ((key, [*dict.fromkeys(found)]) for key, found in groups.items())
    )


def _add_graph(add: Any, graph: Graph, where: str) -> None:
    if graph.name:
        add("graph_name", "an .ort file does not hold the names of graphs", f"{where}.name")
    if graph.doc_string and where != "graph":
        add("doc_string", "an .ort file does not hold the documentation of graphs in nodes", f"{where}.doc_string")
    if graph.quantization_annotation:
        add("quantization_annotation", "an .ort file does not hold quantisation annotations", where)
