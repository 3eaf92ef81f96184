"""The fields of the message classes: each is a property that reads and writes the IR's field.

Spec: google.protobuf.message (protobuf 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from formats.onnx_compat.protos.containers import (
    Repeated,
    RepeatedMessages,
    RepeatedNumbers,
    RepeatedScalars,
    RepeatedTexts,
    are_texts,
    shown_text,
)
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.onnx_compat.protos.message import ProtoMessage


class Property:
    """One field as a property of a message class."""

    __slots__ = ("check", "default", "descriptor", "name", "siblings")

    def __init__(self, descriptor: FieldDescriptor) -> None:
        self.descriptor = descriptor
        self.name = descriptor.name
        self.default = descriptor.default_value
        self.check = cast("Callable[[Any], Any]", descriptor.check)
        self.siblings = descriptor.siblings

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        raise NotImplementedError

    def __set__(self, message: ProtoMessage, value: Any) -> None:
        raise AttributeError(f'Assignment not allowed to message or repeated field "{self.name}"; change it in place.')

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Set the field of a new message to a constructor's argument."""
        self.__set__(message, value)

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field is set, or not empty."""
        return getattr(message._ir, self.name) is not None

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; parts of it that are in use become independent."""
        self._release(message)
        setattr(message._ir, self.name, None)

    def _release(self, message: ProtoMessage) -> None:
        if message._parts is not None:
            message._parts.forget((id(message._ir), self.name))

    def _clear_siblings(self, message: ProtoMessage) -> None:
        for sibling in self.siblings:
            setattr(message._ir, sibling, None)


class Scalar(Property):
    """A number, a text or bytes."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        value = getattr(message._ir, self.name)
        return self.default if value is None else value

    def __set__(self, message: ProtoMessage, value: Any) -> None:
        stored = self.check(value)
        if message._parent is not None:
            message._touch()
        message._ir.__dict__[self.name] = stored  # as `__setattr__` would, which looks at the other members of a oneof
        if self.siblings:
            self._clear_siblings(message)


class Text(Scalar):
    """A text. One that is not UTF-8 is shown as bytes."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        value = getattr(message._ir, self.name)
        if value is None:
            return ""
        return value if value.isascii() else shown_text(value)


class Enumerated(Scalar):
    """A number of an enum. One that the enum does not have is like an unknown field: kept, but not shown."""

    __slots__ = ("_known",)

    def __init__(self, descriptor: FieldDescriptor) -> None:
        super().__init__(descriptor)
        self._known = frozenset(descriptor.enum_type.values_by_number)  # type: ignore[union-attr]

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        value = getattr(message._ir, self.name)
        return value if value in self._known else self.default

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field is set to a number that the enum has."""
        return getattr(message._ir, self.name) in self._known


class Place(Property):
    """Bytes that are a source in the IR. A program that reads the field reads them from the source."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        source = getattr(message._ir, self.name)
        return self.default if source is None else source.read()

    def __set__(self, message: ProtoMessage, value: Any) -> None:
        stored = Literal(self.descriptor.check(value))  # type: ignore[misc]
        message._touch()
        setattr(message._ir, self.name, stored)


class Submessage(Property):
    """A message, whether it is set or not."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        parts = message._parts or message._known_parts()
        ir = getattr(message._ir, self.name)
        if ir is not None:
            known = parts._known.get(id(ir))  # not `Parts.message`: this is the way to everything in a model
            found = None if known is None else known()
            return parts._made(self._class, ir) if found is None else found
        key = (id(message._ir), self.name)
        found = parts.get(key)
        if found is None:
            found = self._class._of(object.__new__(self._class.DESCRIPTOR.ir_class), parts)
            found._parent = (message, self)
            parts.set(key, found)
        return found

    @property
    def _class(self) -> type[ProtoMessage]:
        return cast("type[ProtoMessage]", self.descriptor.message_type._concrete_class)  # type: ignore[union-attr]

    def attach(self, message: ProtoMessage, inner: ProtoMessage) -> None:
        """Set the field to a message that was read while it was unset, except if another one was set since."""
        parts = message._known_parts()
        parts.forget((id(message._ir), self.name))
        if getattr(message._ir, self.name) is None:
            setattr(message._ir, self.name, inner._ir)
            parts.set(id(inner._ir), inner)
            self._clear_siblings(message)

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Set the field of a new message to a copy of a message, or to one with the fields of a dictionary."""
        inner = self.__get__(message)
        if isinstance(value, dict):
            inner._fill(value)
            inner.SetInParent()
        elif isinstance(value, self._class):
            inner.CopyFrom(value)
        else:
            raise TypeError(
                f"Parameter to initialize message field must be dict or instance of same class: expected "
                f"{self._class} got {type(value)}."
            )


class RepeatedProperty(Property):
    """A container."""

    __slots__ = ("_container",)

    def __init__(self, descriptor: FieldDescriptor) -> None:
        super().__init__(descriptor)
        self._container: type[Repeated[Any]] = RepeatedScalars
        if descriptor.message_type:
            self._container = RepeatedMessages
        elif descriptor.in_place:
            self._container = RepeatedNumbers
        elif descriptor.kind == "string":
            self._container = RepeatedTexts

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        parts = message._parts or message._known_parts()
        key = (id(message._ir), self.name)
        known = parts._known.get(key)  # not `Parts.get`, likewise
        found = None if known is None else known()
        if found is None or not found._is_current(message._ir):
            found = self._container(message, self.descriptor)
            parts._known[key] = ref(found)
            if len(parts._known) > parts._limit:
                parts._forget_unused()
        return found

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Append a constructor's argument; for messages, also dictionaries of their fields."""
        if self._container is RepeatedTexts and message._parts is None and isinstance(value, (list, tuple)):
            items = list(value)
            if are_texts(items):  # most arguments
                message._ir.__dict__[self.name] = items
                return
        container = self.__get__(message)
        if not self.descriptor.message_type:
            container.extend(value)
            return
        try:
            items = list(value)
        except TypeError:
            raise TypeError(f"Argument for field {self.descriptor.full_name} is not iterable") from None
        for item in items:
            if isinstance(item, dict):
                container.add(**item)
            else:
                container.append(item)

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field has elements."""
        value = getattr(message._ir, self.name)
        return bool(value.nbytes) if isinstance(value, Source) else bool(value)

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; a container of it that is in use keeps its elements and becomes independent."""
        self._release(message)
        setattr(message._ir, self.name, None if self.descriptor.in_place else [])


def property_of(descriptor: FieldDescriptor) -> Property:
    """The property for a field."""
    if descriptor.is_repeated:
        return RepeatedProperty(descriptor)
    if descriptor.message_type:
        return Submessage(descriptor)
    if descriptor.enum_type:
        return Enumerated(descriptor)
    return (Place if descriptor.in_place else Text if descriptor.kind == "string" else Scalar)(descriptor)
