"""Copies of models that share their weights, as sources never change, and messages that are made fast."""

from __future__ import annotations

from typing import Any, TypeVar

from formats.errors import EncodeError
from formats.ir.model import Message, set_fields
from formats.ir.walk import MAX_DEPTH

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
    new = shallow(message)
    stack = [(new.__dict__, 0)]  # what is left to copy, the deepest last, and its depth
    while stack:
        values, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise EncodeError("the model is nested too deeply, or contains itself")
        for name, value in values.items():  # assigning to a key that is there is allowed
            if value.__class__ in _SHARED:
                continue
            if isinstance(value, list):
                if _SHARED.issuperset(map(type, value)):
                    values[name] = value[:]
                else:
                    values[name] = [shallow(each) if isinstance(each, Message) else each for each in value]
                    stack += [(each.__dict__, depth + 1) for each in values[name] if isinstance(each, Message)]
            elif isinstance(value, Message):
                values[name] = made = shallow(value)
                stack.append((made.__dict__, depth + 1))
    return new


def shallow(message: T) -> T:
    """A message with the same values."""
    new: T = object.__new__(type(message))
    set_fields(new, message.__dict__.copy())
    return new
