"""Operators of onnxruntime in layouts of its own, as ONNX's operators in the usual layout.

At its level "all", onnxruntime computes on blocks of channels (`blocked.py`). If a backend computes with the channels
last, so do its operators (`channels_last.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.ir import walk
from formats.ir.channels_last import BLOCKED, CHANNELS_LAST, moved
from formats.tensordata.plan import DOCUMENTATION, RESULTS, Loss

if TYPE_CHECKING:
    from formats.ir.blocked import Blocks
    from formats.ir.model import Graph, Model


class Usual(NamedTuple):
    """A model in the usual layout, and what to report of the way to it."""

    model: Model
    losses: tuple[Loss, ...] = ()


def in_usual_layout(model: Model) -> Usual:
    """The model with ONNX's operators in place of those in layouts of onnxruntime, which is often the model itself.

    Operators whose meaning is not known stay as they are. The given model is not changed, and weights are shared.

    Raises: UnsupportedError with the node that stands in the way.
    """
    domains = {entry.domain for entry in model.opset_import} & {BLOCKED, CHANNELS_LAST}
    if not domains:
        return Usual(model)
    from formats.ir.blocked import blocks_of, put_back
    from formats.ir.copies import copied
    from formats.ir.node_order import Names

    new = copied(model)
    graphs = list(walk.graphs(new))
    names = Names(name for _, graph in graphs for name in _names_in(graph))
    losses: list[Loss] = []
    if BLOCKED in domains:
        version = next((entry.version or 1 for entry in new.opset_import if entry.domain in (None, "", "ai.onnx")), 1)
        found = blocks_of(graphs)
        for each in found.graphs:
            put_back(each, found.block, version, names)
        losses += _losses_of(found)
    if CHANNELS_LAST in domains:
        for _, graph in graphs:
            graph.node = [made for node in graph.node for made in moved(node, graph, names)]
    left = {node.domain for _, node in walk.nodes(new)}
    new.opset_import = [entry for entry in new.opset_import if entry.domain not in domains or entry.domain in left]
    return Usual(new, tuple(losses))


def _losses_of(found: Blocks) -> list[Loss]:
    """What to report of the nodes that were on blocks."""
    if not found.nodes:
        return []
    nodes = f"{found.nodes} node{'s' * (found.nodes != 1)} of onnxruntime on blocks of channels"
    losses = [Loss("layout", found.where, f"{nodes} became ONNX's operators", DOCUMENTATION)]
    if found.is_guess:
        detail = (
            f"nothing in the file says how many channels a block has; the numbers in the weights show {found.block}. "
            "Compare the results with those of the original"
        )
        losses.append(Loss("layout", found.where, detail, RESULTS))
    return losses


def _names_in(graph: Graph) -> set[str]:
    """All names of values in a graph, without those in its subgraphs."""
    names = {value.name or "" for value in (*graph.input, *graph.output, *graph.value_info)}
    names.update(tensor.name or "" for tensor in graph.initializer)
    return names.union(*((*node.input, *node.output) for node in graph.node))
