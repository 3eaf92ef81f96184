"""What a .rten file cannot hold of a model, gathered so that a report has a line a kind and not a line a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir.model import Graph, Node
from formats.ir.walk import visit
from formats.tensordata.plan import Loss

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Model, ValueInfo

MAX_NAMES = 4  # that a line lists


class Losses:
    """Losses of the same kind with the same words are one: how many, the first places, and some names."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], list[tuple[str, str]]] = {}

    def add(self, kind: str, detail: str, where: str, name: str | None = None) -> None:
        """Something at `where`, called `name`, is lost."""
        self._groups.setdefault((kind, detail), []).append((where, name or where or "model"))

    def lines(self) -> tuple[Loss, ...]:
        """One loss a group, at the first of its places."""
        return tuple(
            Loss(kind, places[0][0], f"{detail} ({_listed([name for _, name in places])})")
            for (kind, detail), places in self._groups.items()
        )


def _listed(names: list[str]) -> str:
    shown = ", ".join(dict.fromkeys(names[:MAX_NAMES]))
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def add_unheld(losses: Losses, model: Model, held_keys: Iterable[str]) -> None:
    """Add what surrounds a model's computation and has no place in a .rten file.

    `held_keys` are those of the model's metadata that do.
    """
    for field in ("producer_name", "producer_version", "domain", "model_version"):
        if getattr(model, field):
            losses.add("producer", "RTen does not say who made a model", field)
    held = set(held_keys)
    for entry in model.metadata_props:
        if entry.key not in held:
            losses.add("metadata", "RTen has no place for these metadata", "metadata_props", entry.key)
    for where, message in visit(model, object):
        if getattr(message, "doc_string", None):
            losses.add("doc_string", "RTen has no place for documentation", where)
        if message is not model and getattr(message, "metadata_props", None):
            losses.add("metadata", "RTen has no place for metadata of graphs, nodes and tensors", where)
        if isinstance(message, Graph):
            _add_graph(losses, message, where)
        if isinstance(message, Node) and message.device_configurations:
            losses.add("device_configuration", "RTen does not spread models over devices", where)
    if model.training_info:
        losses.add("training_info", "RTen does not train", "training_info")


def _add_graph(losses: Losses, graph: Graph, where: str) -> None:
    if graph.quantization_annotation:
        losses.add("quantization_annotation", "RTen has no place for quantisation annotations", where)
    for field in ("input", "output", "value_info"):
        values: list[ValueInfo] = getattr(graph, field)
        for index, value in enumerate(values):
            place = f"{where}.{field}[{index}]"
            if value.doc_string:
                losses.add("doc_string", "RTen has no place for documentation", place, value.name)
            if value.metadata_props:
                losses.add("metadata", "RTen has no place for metadata of graphs, nodes and tensors", place, value.name)
