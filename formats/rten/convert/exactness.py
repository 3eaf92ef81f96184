"""Which nodes compute the same in 32 bits as in another float type: those that round nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.rten.convert.value_types import UNKNOWN
from formats.rten.operators import spec_of
from formats.rten.operators.shared import ranges

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope


def is_exact(node: Node, name: str, scope: Scope) -> bool:
    """Whether an output of a node has the same numbers if it is computed in FLOAT.

    A node with a subgraph computes nothing itself.
    """
    spec = spec_of(node)
    if any(attribute.g is not None for attribute in node.attribute):
        return True
    if spec is not None and spec.outputs.exact_if is not None:
        return spec.outputs.exact_if(node, scope, [scope.type_of(name) if name else UNKNOWN for name in node.input])
    return spec is not None and ranges.is_exact(spec.outputs.range)
