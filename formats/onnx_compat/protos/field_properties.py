"""The fields of the message classes: how each is read while it is unset, set, cleared and merged.

A field that is set is in the dictionary of its message, where Python finds it before it looks at the class. So only
unset fields and sources are read here. A scalar has its default in the class.

Spec: google.protobuf.message (protobuf 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from weakref import ref

from formats.ir.model import remove_field
from formats.onnx_compat.protos.containers import (
    Repeated,
    RepeatedNumbers,
    container_class,
)
from formats.onnx_compat.protos.copies import proto_copy
from formats.onnx_compat.protos.values import State, forget_state, in_use, proto_with, state_of
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from formats.ir.model import Undecoded
    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.onnx_compat.protos.message import ProtoMessage


class Property:
    """One field of a message class."""

    __slots__ = ("descriptor", "name", "siblings")

    def __init__(self, descriptor: FieldDescriptor) -> None:
        self.descriptor = descriptor
        self.name = descriptor.name
        self.siblings = descriptor.siblings

    def assign(self, message: ProtoMessage, value: Any) -> None:
        """Set the field by an assignment.

        Raises: AttributeError if it is not for that; TypeError or ValueError if the field cannot have the value.
        """
        raise AttributeError(f'Assignment not allowed to message or repeated field "{self.name}"; change it in place.')

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Set the field of a new message to a constructor's argument."""
        self.assign(message, value)

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field is set, or not empty."""
        return self.name in message.__dict__

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; parts of it that are in use become independent."""
        message.__dict__.pop(self.name, None)

    def _clear_siblings(self, values: dict[str, Any]) -> None:
        for sibling in self.siblings:
            values.pop(sibling, None)


class Scalar(Property):
    """A number, a text or bytes. A text that is not UTF-8 is bytes."""

    __slots__ = ("check",)

    def __init__(self, descriptor: FieldDescriptor) -> None:
        super().__init__(descriptor)
        self.check = cast("Callable[[Any], Any]", descriptor.check)

    def assign(self, message: ProtoMessage, value: Any) -> None:
        """Set the field."""
        stored = self.check(value)
        values = message.__dict__
        if "_state" in values:
            message._touch()
        values[self.name] = stored
        if self.siblings:
            self._clear_siblings(values)


class SourceBytes(Scalar):
    """Bytes that are a source, as in the IR. A program that reads the field reads them from the source."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        source = message.__dict__.get(self.name)
        return b"" if source is None else source.read()

    def __set__(self, message: ProtoMessage, value: Any) -> None:  # with it, Python reads the field here
        self.assign(message, value)

    def assign(self, message: ProtoMessage, value: Any) -> None:
        """Set the field."""
        stored = Literal(self.check(value))
        message._touch()
        message.__dict__[self.name] = stored


class Submessage(Property):
    """A message. It can be read while it is unset, and becomes part of its message when it is first changed."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        unset = state_of(message).unset
        submessage = in_use(unset, self.name)
        if submessage is None:
            submessage = proto_with(self._class, {"_state": State((message, self.name))})
            unset[self.name] = ref(submessage)
        return submessage

    @property
    def _class(self) -> type[ProtoMessage]:
        return cast("type[ProtoMessage]", self.descriptor.message_type._concrete_class)  # type: ignore[union-attr]

    def attach(self, message: ProtoMessage, inner: ProtoMessage) -> None:
        """Set the field to a message that was read while it was unset, except if another one was set since."""
        values = message.__dict__
        state_of(message).unset.pop(self.name, None)
        forget_state(message)
        if self.name not in values:
            values[self.name] = inner
            self._clear_siblings(values)

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Set the field of a new message to a copy of a message, or to one with the fields of a dictionary."""
        if isinstance(value, dict):
            inner = self._class(**value)
        elif (taken := self._class._taken(value)) is not None:
            inner = proto_copy(taken) if taken is value else taken
        else:
            raise TypeError(
                f"Parameter to initialize message field must be dict or instance of same class: expected "
                f"{self._class} got {type(value)}."
            )
        values = message.__dict__
        values[self.name] = inner
        self._clear_siblings(values)

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; the message that it has becomes independent."""
        values = message.__dict__
        values.pop(self.name, None)
        if "_state" in values and (in_use_before := in_use(state_of(message).unset, self.name)) is not None:
            del state_of(message).unset[self.name]
            state_of(in_use_before).parent = None


class RepeatedProperty(Property):
    """A container."""

    __slots__ = ("_of_unset", "container")

    def __init__(self, descriptor: FieldDescriptor) -> None:
        super().__init__(descriptor)
        self.container: type[Repeated[Any]]
        self._of_unset: type[Repeated[Any]]

    def connect(self) -> None:
        """Make the classes of containers, for which all classes of messages are needed."""
        self.container, self._of_unset = container_class(self.descriptor)

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        name, values = self.name, message.__dict__
        state = values.get("_state")
        if state is not None and state.parent is not None:
            container = self._of_unset()
            container._owner = message
        else:
            undecoded = values["undecoded"].get(name) if "undecoded" in values else None
            container = self.container(self._decoded(message, undecoded) if undecoded else ())
        return values.setdefault(name, container)

    def _decoded(self, message: ProtoMessage, undecoded: Undecoded) -> list[Any]:
        """The elements of an undecoded list."""
        return undecoded.of(message._tables).decode()

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Append a constructor's argument; for messages, also dictionaries of their fields."""
        container = self.__get__(message)
        if not self.container.holds_messages:
            container.extend(value)
            return
        try:
            items = list(value)
        except TypeError:
            raise TypeError(f"Argument for field {self.descriptor.full_name} is not iterable") from None
        if not any(isinstance(item, dict) for item in items):
            container.extend(items)
            return
        for item in items:
            if isinstance(item, dict):
                container.add(**item)
            else:
                container.append(item)

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field has elements."""
        values = message.__dict__
        return bool(values[self.name]) if self.name in values else self.name in values.get("undecoded", ())

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; its container becomes an independent list."""
        remove_field(message, self.name)


class NumbersProperty(Property):
    """A container of numbers that are a source, as in the IR."""

    __slots__ = ()

    def __get__(self, message: ProtoMessage | None, owner: Any = None) -> Any:
        if message is None:
            return self
        numbers = state_of(message).numbers
        container = in_use(numbers, self.name)
        if container is None:
            container = RepeatedNumbers(message, self.descriptor)
            numbers[self.name] = ref(container)
        return container

    def __set__(self, message: ProtoMessage, value: Any) -> None:  # with it, Python reads the field here
        self.assign(message, value)

    def fill(self, message: ProtoMessage, value: Any) -> None:
        """Append a constructor's argument."""
        self.__get__(message).extend(value)

    def is_set(self, message: ProtoMessage) -> bool:
        """Whether the field has elements."""
        source = message.__dict__.get(self.name)
        return source is not None and source.nbytes > 0

    def clear(self, message: ProtoMessage) -> None:
        """Clear the field; a container of it that is in use keeps its elements and becomes independent."""
        values = message.__dict__
        if "_state" in values and (in_use_before := in_use(state_of(message).numbers, self.name)) is not None:
            del state_of(message).numbers[self.name]
            in_use_before._release()
        values.pop(self.name, None)


def property_of(descriptor: FieldDescriptor) -> Property:
    """The property for a field."""
    if descriptor.is_repeated:
        return NumbersProperty(descriptor) if descriptor.in_place else RepeatedProperty(descriptor)
    if descriptor.message_type:
        return Submessage(descriptor)
    return (SourceBytes if descriptor.in_place else Scalar)(descriptor)
