"""What a .rten file cannot express of a model, grouped so that a report has one line per kind, not one per tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from formats.ir.dtypes import type_name
from formats.ir.model import Graph, Node
from formats.ir.walk import visit
from formats.rten.graph.attributes import with_fields
from formats.tensordata.plan import DOCUMENTATION, INTERFACE, RANGE, Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from formats.ir.model import Model, ValueInfo
    from formats.rten.convert.scope import Scope
    from formats.tensordata.plan import Seen

MAX_NAMES = 3  # the names that a line lists
_AROUND = frozenset(("doc_string", "metadata_props", "device_configurations", "undecoded"))
# The fields of nodes and attributes that have nothing to report.
_PLAIN = frozenset(("op_type", "domain", "overload", "name", "input", "output", "attribute"))
_PLAIN_ATTRIBUTE = frozenset(("name", "type", "f", "i", "s", "floats", "ints", "strings"))


@dataclass(slots=True)
class Losses:
    """Losses of the same kind and text, as one loss: their number, the first places, and some names."""

    _groups: dict[tuple[str, str, Seen, bool], list[tuple[str, str]]] = field(default_factory=dict)

    def add(
        self, kind: str, detail: str, where: str, name: str | None = None, *, seen: Seen, unwanted: bool = False
    ) -> None:
        """Record that something at `where`, called `name`, is lost."""
        self._groups.setdefault((kind, detail, seen, unwanted), []).append((where, name or where or "model"))

    def lines(self) -> tuple[Loss, ...]:
        """One loss for each group, at the first place of the group."""
        return tuple(
            with_names(kind, places[0][0], detail, [name for _, name in places], seen, unwanted=unwanted)
            for (kind, detail, seen, unwanted), places in self._groups.items()
        )


def with_names(kind: str, where: str, detail: str, names: Iterable[str], seen: Seen, *, unwanted: bool = False) -> Loss:
    """A loss with the names of what it is about, each once."""
    every = [*dict.fromkeys(names)]
    short = ""
    if len(every) > MAX_NAMES:
        from formats.words import listed

        short = f"{detail} ({listed(every, MAX_NAMES)})"
    return Loss(kind, where, f"{detail} ({', '.join(every)})", seen, unwanted, short)


def add_unheld(losses: Losses, model: Model, held_keys: Iterable[str]) -> None:
    """Add the losses besides those of operators: documentation, metadata and the like.

    `held_keys` are the keys of the model's metadata that are written to the file.
    """
    note = partial(losses.add, seen=DOCUMENTATION)
    for name in ("producer_name", "producer_version", "domain", "model_version"):
        if getattr(model, name):
            note("producer", "RTen does not store who made a model", name)
    held = set(held_keys)
    for entry in model.metadata_props:
        if entry.key not in held:
            losses.add("metadata", "RTen does not store these metadata", "metadata_props", entry.key, seen=INTERFACE)
    for where, message in _around(model):
        if getattr(message, "doc_string", None):
            note("doc_string", "RTen does not store documentation", where)
        if where and getattr(message, "metadata_props", None):
            note("metadata", "RTen does not store metadata of graphs, nodes and tensors", where)
        if isinstance(message, Graph):
            _add_graph(note, message, where)
        if isinstance(message, Node) and message.device_configurations:
            note("device_configuration", "RTen does not distribute models over devices", where)
    if model.training_info:
        losses.add("training_info", "RTen does not train models", "training_info", seen=INTERFACE)


def add_outputs(losses: Losses, graph: Graph, scope: Scope, where: str) -> None:
    """Add constants that are outputs and do not fit, even if the same number means "no limit" to operators."""
    for index, value in enumerate(graph.output):
        name = value.name or ""
        tensor = scope.constant(name)
        if tensor is not None and not scope.fits(name):
            detail = f"{type_name(tensor.data_type)} values exceed the 32 bits that RTen uses"
            losses.add("range", detail, f"{where}.output[{index}]", name, seen=RANGE)


def _around(model: Model) -> Iterator[tuple[str, Any]]:
    """The messages that may have documentation, metadata or the like, each with its place, in the order of `visit`."""
    graph = model.graph

    without_nodes = with_fields(model, graph=with_fields(graph, node=[])) if graph else model
    for where, message in visit(without_nodes, object, only=_may_say_more):
        yield where, message
        if where == "graph" and graph:  # it can have many nodes, most of which have few parts
            for index, node in enumerate(graph.node):
                held = vars(node)
                if not _PLAIN.issuperset(held) or not _are_plain(held.get("attribute", ())):
                    yield from visit(node, object, f"graph.node[{index}]", only=_may_say_more)


def _are_plain(attributes: Iterable[Any]) -> bool:
    return all(map(_PLAIN_ATTRIBUTE.issuperset, map(vars, attributes)))


def _may_say_more(message: Any) -> bool:
    """Whether a message may have documentation, metadata or the like; in large models most messages have none."""
    held = vars(message)
    return isinstance(message, Graph) or not _AROUND.isdisjoint(held)


def _add_graph(note: Callable[..., None], graph: Graph, where: str) -> None:
    if graph.quantization_annotation:
        note("quantization_annotation", "RTen does not store quantisation annotations", where)
    for name in ("input", "output", "value_info"):
        values: list[ValueInfo] = getattr(graph, name)
        for index, value in enumerate(values):
            place = f"{where}.{name}[{index}]"
            if value.doc_string:
                note("doc_string", "RTen does not store documentation", place, value.name)
            if value.metadata_props:
                note("metadata", "RTen does not store metadata of graphs, nodes and tensors", place, value.name)
