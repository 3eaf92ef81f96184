"""Which releases of RTen read the operators and fields of a `.rten` file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir import walk
from formats.ir.model import entries
from formats.rten.operators.families import NEWER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.ir.model import Model, Node

_WITH_FIELDS = {name.partition(".")[0] for name in NEWER if "." in name}
ONES = {1}  # sizes that mean the same as none


def releases_reading(model: Model) -> tuple[str, ...]:
    """The releases that know each operator of a model in RTen's operators, and that ignore no field with a value."""
    from formats.rten.target import RELEASES

    first = max((number for _, node in walk.nodes(model) for number in _needed(node)), default=0)
    return tuple(map(str, RELEASES[first:]))


def _needed(node: Node) -> Iterator[int]:
    """The places of the releases that added the operator, and each of its fields with a value."""
    operator = node.op_type or ""
    if operator in NEWER:
        yield NEWER[operator]
    if operator in _WITH_FIELDS:
        for attribute in entries(node, "attribute"):
            name = f"{operator}.{attribute.name}"
            if name in NEWER and (attribute.i or not ONES.issuperset(attribute.ints)):
                yield NEWER[name]
