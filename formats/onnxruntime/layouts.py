"""Operators of onnxruntime in layouts of its own, as ONNX's operators in the usual layout.

At its level "all", onnxruntime computes on blocks of channels. If a backend computes with the channels last, so do its
operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.errors import UnsupportedError
from formats.ir import STANDARD_DOMAINS, walk
from formats.onnxruntime import BLOCKED, CHANNELS_LAST
from formats.tensordata.plan import DOCUMENTATION, Loss
from formats.words import counted

if TYPE_CHECKING:
    from formats.ir.model import Graph, Model
    from formats.onnxruntime.blocked import Blocks


class Usual(NamedTuple):
    """A model in the usual layout, and what to report of the way to it."""

    model: Model
    losses: tuple[Loss, ...] = ()


class UnknownBlockError(UnsupportedError):
    """Nothing in a file says how many channels its blocks have, or the caller named another number."""


def in_usual_layout(model: Model, channel_block: int | None = None) -> Usual:
    """The model with ONNX's operators in place of those in layouts of onnxruntime, which is often the model itself.

    Operators whose meaning is not known stay as they are. The given model is not changed, and weights are shared.
    `channel_block` is the number of channels in a block, if nothing in the model shows it.

    Raises: UnknownBlockError; UnsupportedError with the node that stands in the way.
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
        block = _block(blocks, channel_block)
        for values in blocks.graphs:
            unblock(values, block, version, names)
        losses += _losses_of(blocks)
    if CHANNELS_LAST in domains:
        for _, graph in graphs:
            graph.node = [replacement for node in graph.node for replacement in moved(node, graph, names)]
    still_used = {node.domain for _, node in walk.nodes(new)}
    new.opset_import = [
        entry for entry in new.opset_import if entry.domain not in domains or entry.domain in still_used
    ]
    return Usual(new, tuple(losses))


def _block(blocks: Blocks, chosen: int | None) -> int:
    """The number of channels in a block: the only possible one, or the chosen one; 0 if no weights are in blocks.

    Raises: UnknownBlockError.
    """
    possible = [size for size in blocks.sizes if chosen in (None, size)]
    if not blocks.sizes:
        return 0
    if len(possible) == 1:
        return possible[0]
    if not possible:
        (size,) = blocks.sizes
        reason, remedy = f"the weights are in blocks of {size} channels, not of {chosen}", "omit `channel_block`"
    else:
        reason = "the weights are in blocks of 8 or of 16 channels, and nothing in the file says which"
        remedy = "name `channel_block=16` if a processor with AVX-512 wrote it, or else `channel_block=8`"
    raise UnknownBlockError(f"{reason}: {remedy}", where=blocks.where, reason=reason, remedy=remedy)


def _losses_of(blocks: Blocks) -> list[Loss]:
    """What to report of the nodes that were on blocks."""
    if not blocks.nodes:
        return []
    nodes = f"{counted(blocks.nodes, 'node')} of onnxruntime on blocks of channels"
    return [Loss("layout", blocks.where, f"{nodes} became ONNX's operators", DOCUMENTATION)]


def _names_in(graph: Graph) -> set[str]:
    """All names of values in a graph, without those in its subgraphs."""
    names = {value.name or "" for value in (*graph.input, *graph.output, *graph.value_info)}
    names.update(tensor.name or "" for tensor in graph.initializer)
    return names.union(*((*node.input, *node.output) for node in graph.node))
