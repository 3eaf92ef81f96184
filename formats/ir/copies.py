"""Copies of models that share their weights: sources never change."""

from __future__ import annotations

from typing import Any, TypeVar

from formats.ir.model import Message, set_fields

T = TypeVar("T", bound=Message)


def copied(message: T) -> T:
    """A message equal to `message`, of which it shares only sources and what is still undecoded.

    An undecoded list stays undecoded: whoever reads it in the copy gets elements of their own.
    """
    new = _shallow(message)
    stack: list[Message] = [new]
    while stack:
        values = vars(stack.pop())
        for name, value in values.items():  # assigning to a key that is there is allowed
            if isinstance(value, Message):
                values[name] = inner = _shallow(value)
                stack.append(inner)
            elif isinstance(value, list):
                values[name] = [_shallow(each) if isinstance(each, Message) else each for each in value]
                stack.extend(each for each in values[name] if isinstance(each, Message))
    return new


def _shallow(message: T) -> T:
    new: Any = object.__new__(type(message))
    set_fields(new, dict(vars(message)))
    return new  # type: ignore[no-any-return]  # it is of the same class
