"""What a message is made of: the dictionary of its fields, in which Python itself looks them up.

A field that is set is in the message's `__dict__` as it is shown: a number, a text, bytes, a message or a container.
The fields of a tensor that can be weights are sources, as in the IR. Others are not there, and the class has their
default. Besides its fields, a message may have there, under the names that the IR has for them, `undecoded` lists,
`unknown_fields`, and the `external_source` of a tensor; and its `_state`.

Its errors are also those of protobuf and of `onnx` if these packages are in use, so that a program which catches theirs
catches ours: a program that names their errors has imported them.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from formats.errors import DecodeError, EncodeError, ExternalDataError, FormatError
from formats.ir.model import Fielded, set_fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from weakref import ref

    from formats.tensordata.sources.source import Source

    class Message:
        """Nothing that ours do not have."""
else:  # the class of all messages of protobuf, if it is installed: then `isinstance` accepts ours
    try:
        from google.protobuf.message import Message
    except ImportError:

        class Message:
            """Nothing that ours do not have."""

            __slots__ = ()


T = TypeVar("T")


class Valued(Message, Fielded):
    """The common base of all messages."""

    DESCRIPTOR: ClassVar[Any]


_new = object.__new__


def proto_with(message_class: type[T], values: dict[str, Any]) -> T:
    """A message with this dictionary."""
    message = _new(message_class)
    set_fields(message, values)  # type: ignore[arg-type]
    return message


class State:
    """What few messages have: parts in use that are not among their values, and the place of an unset message.

    `parent` is the message and the name of the field in it that this message sets when it is first changed. `unset` has
    the messages that were read from unset fields, by their names, while they are in use, and `numbers` the containers
    of fields that are sources. `decoded` is the source of such a field that was last decoded, with an array of its
    elements.
    """

    __slots__ = ("__weakref__", "decoded", "numbers", "parent", "unset")

    def __init__(self, parent: tuple[Any, str] | None = None) -> None:
        self.parent = parent
        self.unset: dict[str, ref[Any]] = {}
        self.numbers: dict[str, ref[Any]] = {}
        self.decoded: tuple[Source | None, Any] = (None, None)


def state_of(message: Any) -> State:
    """The state of a message, which is made if it has none."""
    values = message.__dict__
    state: State | None = values.get("_state")
    if state is None:
        state = values["_state"] = State()
    return state


def forget_state(message: Any) -> None:
    """Forget the state of a message if there is nothing in it: then assignments to its fields are faster."""
    state: State = message.__dict__["_state"]
    if state.parent is None and not state.unset and not state.numbers:
        del message.__dict__["_state"]


def in_use(parts: dict[str, ref[Any]], name: str) -> Any:
    """The part with this name if it is in use, or `None`."""
    reference = parts.get(name)
    return None if reference is None else reference()


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
