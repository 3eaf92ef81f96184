"""Which parts of two models are certainly equal, without decoding them and without reading weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.model import Node, ValueInfo
from formats.tensordata.sources.source import Concat, Literal

if TYPE_CHECKING:
    from formats.ir.model import Differing, Message, Undecoded
    from formats.tensordata.sources.source import Source


def is_left_alike(first: Message, second: Message, name: str) -> bool:
    """Whether a list is undecoded in both, with the same bytes and without external data: then it does not differ."""
    left = _left(first, second, name)
    return left is not None and _joined(left[0]) == _joined(left[1])


def differing(first: Message, second: Message, name: str) -> Differing | None:
    """Where a list differs that is undecoded in both, without external data; `None` if this is not known."""
    left = _left(first, second, name)
    return None if left is None else left[0].differing(left[1])


def _left(first: Message, second: Message, name: str) -> tuple[Undecoded, Undecoded] | None:
    """A list that is undecoded in both, if its bytes contain everything."""
    if name in vars(first) or name in vars(second):
        return None
    mine, theirs = first.undecoded.get(name), second.undecoded.get(name)
    if mine is None or theirs is None or mine.has_references or theirs.has_references:
        return None
    return mine, theirs


def _joined(left: Undecoded) -> Source:
    return Concat.of(*(Literal(part) if isinstance(part, bytes) else part for part in left.segments))


def is_plainly_equal(first: Any, second: Any) -> bool:
    """Whether two entries are certainly equal: this compares their fields, but no tensors."""
    if type(first) is Node:
        return "attribute" not in vars(first) and second is not None and vars(first) == vars(second)
    return type(first) is ValueInfo and first == second
