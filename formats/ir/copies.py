"""Copies of models that share their weights, as sources never change, and messages that are made fast."""

from __future__ import annotations

from typing import Any, TypeVar

from formats.errors import EncodeError
from formats.ir.model import Message, set_fields

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
                        values[name] = [shallow(each) if isinstance(each, Message) else each for each in value]
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
