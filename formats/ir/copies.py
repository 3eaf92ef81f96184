"""Copies of models, which share their weights because sources never change; and parts of two models that are equal.

Whether parts are equal is told without decoding lists and without reading weights, as far as that is certain.
"""

from __future__ import annotations

import struct
from marshal import dumps
from typing import TYPE_CHECKING, Any, TypeVar

from formats.errors import EncodeError
from formats.ir.model import Message, Node, ValueInfo, entries, set_fields
from formats.tensordata.sources.source import Concat, Literal

if TYPE_CHECKING:
    from formats.ir.model import Differing, Undecoded
    from formats.tensordata.sources.source import Source


UNCHANGEABLE = frozenset((str, bytes, int, float, bool, type(None)))  # classes of values
_SHARED = UNCHANGEABLE | {dict}  # the mapping of what is undecoded does not change either

T = TypeVar("T", bound=Message)


def message_of(message_class: type[T], **fields: Any) -> T:
    """A message with only these fields: a constructor sets all fields, and takes five times as long."""
    made = object.__new__(message_class)
    set_fields(made, fields)
    return made


def copied(message: T) -> T:
    """A message equal to `message`, of which it shares only sources and what is still undecoded.

    An undecoded list stays undecoded: whoever reads it in the copy gets elements of their own.

    Raises: EncodeError for a message that contains itself.
    """
    copy = shallow(message)
    stack: list[tuple[Any, list[Any], int]] = [(message, [copy], 0)]  # messages or lists, shallow copies, and depth
    path: list[int] = []  # what contains the present message or list, by identity
    while stack:
        original, copies, depth = stack.pop()
        del path[depth:]
        if id(original) in path:  # a limit of depth would come too late: each level copies whole lists again
            raise EncodeError("the model is nested too deeply, or contains itself")
        path.append(id(original))
        for new in copies:
            if not isinstance(new, Message):
                continue
            values = new.__dict__
            for name, value in values.items():  # assigning to a key that is there is allowed
                if value.__class__ in _SHARED:
                    continue
                if isinstance(value, list):
                    if _SHARED.issuperset(map(type, value)):
                        values[name] = value[:]
                    else:
                        values[name] = [shallow(entry) if isinstance(entry, Message) else entry for entry in value]
                        stack.append((value, values[name], depth + 1))
                elif isinstance(value, Message):
                    values[name] = shallow(value)
                    stack.append((value, [values[name]], depth + 1))
    return copy


def copies(messages: list[T]) -> list[T]:
    """Messages equal to others, with lists of their own; messages in them are the same."""
    made = [shallow(message) for message in messages]
    for message in made:
        values = message.__dict__
        for name, value in values.items():
            if isinstance(value, list):
                values[name] = value[:]
    return made


def shallow(message: T) -> T:
    """A message with the same values."""
    new: T = object.__new__(type(message))
    set_fields(new, message.__dict__.copy())
    return new


def is_left_alike(first: Message, second: Message, name: str) -> bool:
    """Whether a list is undecoded in both, with the same bytes and without external data: then it does not differ."""
    both = _undecoded_in_both(first, second, name)
    return both is not None and _joined(both[0]) == _joined(both[1])


def differing(first: Message, second: Message, name: str) -> Differing | None:
    """Where a list differs that is undecoded in both, without external data; `None` if this is not known."""
    both = _undecoded_in_both(first, second, name)
    return None if both is None else both[0].differing(both[1])


def _undecoded_in_both(first: Message, second: Message, name: str) -> tuple[Undecoded, Undecoded] | None:
    """A list that is undecoded in both, if its bytes contain everything."""
    if name in vars(first) or name in vars(second):
        return None
    mine, theirs = first.undecoded.get(name), second.undecoded.get(name)
    if mine is None or theirs is None or mine.has_references or theirs.has_references:
        return None
    return mine, theirs


def _joined(undecoded: Undecoded) -> Source:
    return Concat.of(*(Literal(part) if isinstance(part, bytes) else part for part in undecoded.segments))


def content(messages: list[Any]) -> bytes | None:
    """Bytes that are equal for equal messages, only numbers and texts; `None` if there is anything else in one of them.

    They differ for values that differ, even only in type or in the sign of zero. So they can be keys, unlike the lists
    themselves, of which `==` says that 1 is True.
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


def is_same_value(first: Any, second: Any) -> bool:
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
