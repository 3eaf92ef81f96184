"""Errors that are also those of protobuf and of `onnx`, so that a program which catches theirs catches ours.

This happens only if these packages are in use: a program that names their errors has imported them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.errors import DecodeError, EncodeError, ExternalDataError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator

_THEIRS: tuple[tuple[type[FormatError], str, str], ...] = (
    (DecodeError, "google.protobuf.message", "DecodeError"),
    (EncodeError, "google.protobuf.message", "EncodeError"),
    (ExternalDataError, "onnx.checker", "ValidationError"),
)
_OF_TEXT: dict[str, tuple[type[FormatError], str, str]] = {
    "textproto": (DecodeError, "google.protobuf.text_format", "ParseError"),
    "json": (DecodeError, "google.protobuf.json_format", "ParseError"),
}


@contextmanager
def protobuf_errors(format: str = "onnx") -> Iterator[None]:  # noqa: A002 - the word that `load` has
    """A context whose errors are also those that protobuf or `onnx` would raise for this format."""
    try:
        yield
    except FormatError as error:
        as_protobufs(error, format)
        raise


def as_protobufs(error: FormatError, format: str = "onnx") -> None:  # noqa: A002
    """Make the error also one of protobuf or of `onnx`, if these are in use."""
    for own, module, name in (_OF_TEXT[format], *_THEIRS) if format in _OF_TEXT else _THEIRS:
        theirs = getattr(sys.modules.get(module), name, None)
        if isinstance(error, own) and isinstance(theirs, type) and not isinstance(error, theirs):
            with suppress(TypeError):  # the other class cannot be combined with ours
                error.__class__ = _both(type(error), theirs)  # type: ignore[arg-type]
            return


@cache
def _both(own: type[FormatError], theirs: type[Exception]) -> type[FormatError]:
    """A class that is both. After pickling, its errors are only ours."""

    def reduce(self: FormatError) -> tuple[Any, ...]:
        return own, (self.message,), vars(self)

    members = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__doc__": own.__doc__}
    return type(own.__name__, (own, theirs), {**members, "__reduce__": reduce})
