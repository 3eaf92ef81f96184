"""Operators of onnxruntime in layouts of its own, as ONNX's operators in the usual layout.

At its level "all", onnxruntime computes on blocks of channels. If a backend computes with the channels last, so do its
operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.ir import STANDARD_DOMAINS, walk
from formats.onnxruntime import BLOCKED, CHANNELS_LAST
from formats.tensordata.plan import DOCUMENTATION, RESULTS, Loss
from formats.words import counted

if TYPE_CHECKING:
    from formats.ir.model import Graph, Model
    from formats.onnxruntime.blocked import Blocks


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
    from formats.ir.copies import copied
    from formats.ir.node_order import Names
    from formats.onnxruntime.blocked import blocks_of, moved, unblock

    new = copied(model)
    graphs = list(walk.graphs(new))
    names = Names(name for _, graph in graphs for name in _names_in(graph))
    losses: list[Loss] = []
    if BLOCKED in domains:
        version = next((entry.version or 1 for entry in new.opset_import if entry.domain in STANDARD_DOMAINS), 1)
        blocks = blocks_of(graphs)
        for values in blocks.graphs:
            unblock(values, blocks.block, version, names)
        losses += _losses_of(blocks)
    if CHANNELS_LAST in domains:
        for _, graph in graphs:
            graph.node = [replacement for node in graph.node for replacement in moved(node, graph, names)]
    still_used = {node.domain for _, node in walk.nodes(new)}
    new.opset_import = [
        entry for entry in new.opset_import if entry.domain not in domains or entry.domain in still_used
    ]
    return Usual(new, tuple(losses))


def _losses_of(blocks: Blocks) -> list[Loss]:
    """What to report of the nodes that were on blocks."""
    if not blocks.nodes:
        return []
    nodes = f"{counted(blocks.nodes, 'node')} of onnxruntime on blocks of channels"
    losses = [Loss("layout", blocks.where, f"{nodes} became ONNX's operators", DOCUMENTATION)]
    if blocks.is_guess:
        detail = (
            f"nothing in the file says how many channels a block has; the numbers in the weights show {blocks.block}. "
            "Compare the results with those of the original"
        )
        losses.append(Loss("layout", blocks.where, detail, RESULTS))
    return losses


def _names_in(graph: Graph) -> set[str]:
    """All names of values in a graph, without those in its subgraphs."""
    names = {value.name or "" for value in (*graph.input, *graph.output, *graph.value_info)}
    names.update(tensor.name or "" for tensor in graph.initializer)
    return names.union(*((*node.input, *node.output) for node in graph.node))
