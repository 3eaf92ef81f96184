"""Which parts of two models are certainly equal, without decoding them and without reading weights."""

from __future__ import annotations

import struct
from marshal import dumps
from typing import TYPE_CHECKING, Any

from formats.ir.model import Node, ValueInfo, entries
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


def content(messages: list[Any]) -> bytes | None:
    """Bytes that are equal for equal messages, only numbers and texts; `None` if there is anything else in one of them.

    They differ for values that differ, even only in type or in the sign of zero.
    """
    try:
        return dumps([*map(vars, messages)], 2)
    except ValueError:  # for a message, a source, or a list that is still in the file
        return None


def is_plainly_equal(first: Any, second: Any) -> bool:
    """Whether two entries are certainly equal: this compares their fields, but no tensors."""
    if type(first) is Node:
        if second is None:
            return False
        mine, theirs = ({**vars(node), "attribute": content(entries(node, "attribute"))} for node in (first, second))
        return mine["attribute"] is not None and mine == theirs
    return type(first) is ValueInfo and first == second


def is_same(first: Any, second: Any) -> bool:
    """Whether two values of a field without messages are the same: floats by their bits.

    So 0.0 is not -0.0, and a NaN is the same as another one with the same sign and payload, also in another object.
    """
    if isinstance(first, list) and isinstance(second, list):
        return _bits(first) == _bits(second)
    return _bits([first]) == _bits([second])


def _bits(values: list[Any]) -> list[Any] | bytes:
    """The bits of floats; other values as they are."""
    if not values or type(values[0]) is not float:
        return values
    return struct.pack(f"<{len(values)}d", *values)
