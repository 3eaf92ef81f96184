"""Which values are rounded, truncated or compared, so that a difference in the last bit may become a large one."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from formats.ir.node_order import topological
from formats.rten.operators import spec_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.ir.model import Node

_KEY = attrgetter("domain", "op_type")


def add_decisive(graphs: Sequence[Sequence[Node]], found: set[str]) -> None:
    """Add the names of such values to `found`. `graphs` has the nodes of each, before those inside."""
    examples = {key: node for nodes in graphs for key, node in zip(map(_KEY, nodes), nodes, strict=True)}
    known = {key: spec for key, node in examples.items() if (spec := spec_of(node)) is not None}
    if not any(spec.to_rten.asks_if_rounded for spec in known.values()):
        return
    for nodes in reversed(graphs):
        for index in reversed(topological(nodes)):
            node = nodes[index]
            spec = known.get((node.domain, node.op_type))
            if spec is None:
                continue
            is_step = spec.outputs.rounds is not None and spec.outputs.rounds(node)
            if is_step or (spec.outputs.passes_on and not found.isdisjoint(node.output)):
                found.update(node.input)
