"""The class of which all message classes are: protobuf's behaviour over the dictionary of the fields that are set.

An unset submessage can be read; it becomes part of its message when it is first changed. Merging and copying share
weights, as sources never change. `repr` of large messages is short, as in `onnx`: counts instead of elements.

Spec: google.protobuf.message (protobuf 7); the `onnx` package (1.23), `onnx/__init__.py`.
"""

# ruff: noqa: N802 - the methods have protobuf's names

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from formats.collector import collector_paused
from formats.errors import FormatError
from formats.onnx_compat.protos.copies import in_ir, proto_copy
from formats.onnx_compat.protos.values import Valued, as_protobufs, forget_state, in_use, state_of
from formats.onnxpb.wire.decoder import decode_in
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.sources.source import Concat, Literal

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from formats.onnx_compat.loading import ParseOptions
    from formats.onnx_compat.protos.descriptor import Descriptor, FieldDescriptor
    from formats.onnx_compat.protos.field_properties import Property, Submessage
    from formats.onnx_compat.protos.values import State
    from formats.onnx_compat.saving import SerializeOptions
    from formats.onnxpb.wire.tables import Tables
    from formats.tensordata.sources.source import Source

M = TypeVar("M", bound="ProtoMessage")


def is_foreign(value: Any, message_class: type[Any]) -> bool:
    """Whether a value is a message of another package, such as `onnx`, with the name of one of our classes."""
    descriptor = getattr(type(value), "DESCRIPTOR", None)
    return (
        getattr(descriptor, "full_name", None) == message_class.DESCRIPTOR.full_name
        and hasattr(value, "SerializePartialToString")
        and not hasattr(descriptor, "ir_class")
    )


class MessageType(type):
    """The class of the message classes: `isinstance` also accepts the messages of `onnx` with the same name."""

    def __instancecheck__(cls, value: Any) -> bool:
        return super().__instancecheck__(value) or ("DESCRIPTOR" in vars(cls) and is_foreign(value, cls))


class ProtoMessage(Valued, metaclass=MessageType):
    """A message of ONNX with protobuf's behaviour."""

    __hash__ = None  # type: ignore[assignment]

    DESCRIPTOR: ClassVar[Descriptor]
    _properties: ClassVar[dict[str, Property]]  # by name, in the order of the numbers of the fields
    _singular: ClassVar[frozenset[str]]
    _oneofs: ClassVar[dict[str, tuple[str, ...]]]  # their fields
    _tables: ClassVar[Tables]  # those of all messages

    def __init__(self, *arguments: Any, **values: Any) -> None:
        """A message with the given fields: values, messages or dictionaries of their fields, iterables of those."""
        if arguments:
            raise TypeError("No positional arguments allowed")
        for name, value in values.items():
            if value is not None:
                (self._properties.get(name) or self._field(name)).fill(self, value)

    @property  # type: ignore[misc] # it is read only, as the class of a message is
    def __class__(self) -> type[Any]:
        """The class of `onnx` with this name once `onnx` is imported, so that its `isinstance` accepts our messages.

        Spec: Python, "Customizing instance and subclass checks"; `type` of a message is always our class.
        """
        theirs: Any = sys.modules.get("onnx")
        for name in self.DESCRIPTOR.scoped_name.split("."):
            theirs = getattr(theirs, name, None)
        return theirs or type(self)

    @classmethod
    def _taken(cls: type[M], value: Any) -> M | None:
        """The message, or a copy in our class of one of `onnx`; `None` for anything else."""
        if type(value) is cls:
            return value
        return cls.FromString(value.SerializePartialToString()) if is_foreign(value, cls) else None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a scalar field."""
        if name not in self._properties:
            raise AttributeError(f"Assignment not allowed (no field {name!r} in protocol message object).")
        self._properties[name].assign(self, value)

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} cannot be deleted; `ClearField` clears a field")

    def _field(self, name: Any) -> Property:
        field_property = self._properties.get(_name(name))
        if field_property is None:
            raise ValueError(f'Protocol message {self.DESCRIPTOR.name} has no field "{_name(name)}".')
        return field_property

    def _touch(self) -> None:
        """Make the message part of its parent."""
        message = self
        while (state := message.__dict__.get("_state")) is not None and state.parent is not None:
            (parent, name), state.parent = state.parent, None
            forget_state(message)
            cast("Submessage", parent._properties[name]).attach(parent, message)
            message = parent

    # Presence

    def HasField(self, name: Any) -> bool:
        """Whether a field that is not repeated is set, or one of a oneof.

        Raises: ValueError for any other name.
        """
        if name.__class__ is str and name in self._singular:
            return name in self.__dict__
        if name in self.DESCRIPTOR.oneofs_by_name:
            return self.WhichOneof(name) is not None
        field = self._field(name)
        if field.descriptor.is_repeated:
            raise ValueError(f"Field {field.descriptor.full_name} does not have presence.")
        return field.is_set(self)

    def __contains__(self, name: Any) -> bool:
        """Whether a field is set, as `HasField` says."""
        return self.HasField(name)

    def WhichOneof(self, name: Any) -> str | None:
        """The name of the field of a oneof that is set.

        Raises: ValueError if there is no such oneof.
        """
        members = self._oneofs.get(name if name.__class__ is str else _name(name))
        if members is None:
            raise ValueError(f'Protocol message {self.DESCRIPTOR.name} has no oneof "{name}".')
        values = self.__dict__
        for member in members:
            if member in values:
                return member
        return None

    def ListFields(self) -> list[tuple[FieldDescriptor, Any]]:
        """The fields that are set or not empty, with their values, in the order of their numbers."""
        fields = self._properties.values()
        return [(field.descriptor, getattr(self, field.name)) for field in fields if field.is_set(self)]

    def ClearField(self, name: Any) -> None:
        """Clear a field, or the set field of a oneof.

        Raises: ValueError for any other name.
        """
        chosen: str | None = name
        if name in self.DESCRIPTOR.oneofs_by_name:
            chosen = self.WhichOneof(name)
        field = None if chosen is None else self._field(chosen)
        self._touch()
        if field is not None:
            field.clear(self)

    def Clear(self) -> None:
        """Clear all fields, and remove unknown ones."""
        self._touch()
        values = self.__dict__
        if "_state" in values:  # parts of this message may be in use that are not in the dictionary
            for field in self._properties.values():
                field.clear(self)
        values.clear()

    def SetInParent(self) -> None:
        """Set the message in its parent, even if it is empty."""
        self._touch()

    def DiscardUnknownFields(self) -> None:
        """Remove unknown fields, at any depth."""
        self._touch()
        self.__dict__.pop("unknown_fields", None)
        for descriptor, value in self.ListFields():
            if descriptor.message_type:
                for message in value if descriptor.is_repeated else (value,):
                    message.DiscardUnknownFields()

    def IsInitialized(self, errors: list[str] | None = None) -> bool:
        """Whether all required fields are set: ONNX has none."""
        return True

    def FindInitializationErrors(self) -> list[str]:
        """The required fields that are not set: none."""
        return []

    # Copies

    def MergeFrom(self, other: Any) -> None:
        """Set everything here that is set in `other`: repeated fields are appended, submessages merged.

        Raises: TypeError for a message of another class.
        """
        other = self._of_class(other, "MergeFrom")
        self._touch()
        merge_fields(self, proto_copy(other) if other is self else other)

    def CopyFrom(self, other: Any) -> None:
        """Make the message equal to `other`.

        Raises: TypeError for a message of another class.
        """
        other = self._of_class(other, "CopyFrom")
        if other is self:
            return
        with collector_paused():
            new = proto_copy(other)
        self._touch()
        if self.__dict__ and self._emptied():
            merge_fields(self, new)
        else:
            self.__dict__.update(new.__dict__)

    def _emptied(self) -> bool:
        """Clear all fields that are set; whether parts may be in use that are not, which stay in use."""
        values = self.__dict__
        kept: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, list) and not value}
        state: State | None = values.get("_state")
        if state is not None:
            for name in [name for name in state.numbers if name in values]:
                self._properties[name].clear(self)
            if any(part() is not None for part in (*state.unset.values(), *state.numbers.values())):
                kept["_state"] = state
        values.clear()
        values.update(kept)
        return bool(kept)

    def _of_class(self: M, other: Any, method: str) -> M:
        own = self._taken(other)
        if own is None:
            raise TypeError(
                f"Parameter to {method}() must be instance of same class: expected {type(self)} got {type(other)}."
            )
        return own

    def __copy__(self: M) -> M:
        return proto_copy(self)

    def __deepcopy__(self: M, memo: object) -> M:
        with collector_paused():
            return proto_copy(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), {"serialized": self.SerializeToString()}

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self.ParseFromString(state["serialized"])

    def __eq__(self, other: object) -> bool:
        own = self._taken(other)
        return NotImplemented if own is None else is_equal(self, own)

    # Bytes

    def ByteSize(self) -> int:
        """The size of the serialised message in bytes."""
        return sum(len(part) if isinstance(part, bytes) else part.nbytes for part in self._segments())

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """The serialised message, of any size; the same every time.

        Raises: EncodeError if it is nested too deeply; TensorDataError or OSError if weights cannot be read.
        """
        segments = self._segments()
        return b"".join([part if isinstance(part, bytes) else part.view() for part in segments])

    SerializePartialToString = SerializeToString

    def ParseFromString(self, data: bytes | bytearray | memoryview) -> int:
        """Make the message the one in `data`; return the number of bytes.

        Raises: DecodeError if there is none; then the message is empty.
        """
        try:
            new = self._decoded(data)
        except FormatError:
            self.Clear()
            raise
        self.Clear()
        self.__dict__.update(new.__dict__)
        return len(data)

    def MergeFromString(self, data: bytes | bytearray | memoryview) -> int:
        """Merge the message in `data` into this one; return the number of bytes.

        Raises: DecodeError if there is none; then the message is unchanged.
        """
        new = self._decoded(data)
        self._touch()
        merge_fields(self, new)
        return len(data)

    @classmethod
    def FromString(cls: type[M], data: bytes | bytearray | memoryview) -> M:
        """The message in `data`.

        Raises: DecodeError if there is none.
        """
        return cls._decoded(data)

    def ParseFromFile(self, path: str | os.PathLike[str], options: ParseOptions | None = None) -> None:
        """Make the message the one in a file, with its external data.

        Raises: FormatError if there is none; OSError if the file cannot be read.
        """
        from formats.onnx_compat.io import parse_file  # which imports this module

        self.CopyFrom(parse_file(type(self), path, options))

    def SerializeToFile(
        self,
        path: str | os.PathLike[str],
        options: SerializeOptions | None = None,
        location: str | None = None,
    ) -> None:
        """Write the message to the file `path`, and its large tensors to the file `location` next to it, if given.

        Raises: FormatError if it cannot be written; OSError if the file cannot.
        """
        from formats.onnx_compat.io import serialize_file

        serialize_file(self, path, options, location)

    @classmethod
    def _decoded(cls: type[M], data: Any) -> M:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, {type(data).__name__} found")
        try:
            message: M = decode_in(cls._tables, cls.DESCRIPTOR.scoped_name, Literal(bytes(data)), at_once=True)[0]
        except FormatError as error:
            as_protobufs(error)
            raise
        return message

    def _segments(self) -> list[bytes | Source]:
        try:
            return encode(self, table=self._tables[self.DESCRIPTOR.scoped_name])
        except FormatError as error:
            as_protobufs(error)
            raise

    def __str__(self) -> str:
        from formats.onnxpb.text.textproto import to_text

        with collector_paused():
            return to_text(in_ir(self), is_shown=True)

    def __repr__(self) -> str:
        return SHORT_TEXTS.get(self.DESCRIPTOR.scoped_name, str)(self)


def _name(name: Any) -> str:
    """The name of a field, which protobuf also accepts as bytes."""
    name = name.decode() if isinstance(name, bytes) else name
    if not isinstance(name, str):
        raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")  # noqa: TRY004
    return name


# Merging and comparing


def merge_fields(target: ProtoMessage, source: ProtoMessage) -> None:
    """Set every field of `source` in `target`: repeated ones are appended, messages merged.

    Parts of `target` that are in use stay in use, also unset ones. Afterwards, the two share only what cannot change.
    """
    values = target.__dict__
    source_values = source.__dict__
    for name in fields_held(source):
        field = source._properties[name].descriptor
        if field.in_place:
            source_of_both = (
                _joined(values.get(name), source_values[name]) if field.is_repeated else source_values[name]
            )
            if source_of_both is not None:
                values[name] = source_of_both
        elif field.is_repeated:
            elements = getattr(source, name)
            if elements:
                list.extend(getattr(target, name), map(proto_copy, elements) if field.message_type else elements)
        elif field.message_type:
            _merge_message(target, name, source_values[name])
        else:
            values[name] = source_values[name]
        for sibling in field.siblings:
            values.pop(sibling, None)
    if "unknown_fields" in source_values:
        values["unknown_fields"] = values.get("unknown_fields", b"") + source_values["unknown_fields"]
    if "external_source" in source_values:
        values["external_source"] = source_values["external_source"]


def _merge_message(target: ProtoMessage, name: str, source: ProtoMessage) -> None:
    """Merge a message into a field."""
    values = target.__dict__
    present = values.get(name)
    if present is None and "_state" in values:
        present = in_use(state_of(target).unset, name)
        if present is not None:
            present._touch()
    if present is None:
        values[name] = proto_copy(source)
    else:
        merge_fields(present, source)


def fields_held(*messages: ProtoMessage) -> list[str]:
    """The names of the fields that at least one of these messages of one class has."""
    properties = messages[0]._properties
    names = {name: None for message in messages for name in (*vars(message), *vars(message).get("undecoded", ()))}
    return [name for name in names if name in properties]


_EXACT = frozenset((int, str, bytes))  # values that are the same if they are equal


def is_equal(one: ProtoMessage, other: ProtoMessage) -> bool:
    """Whether two messages of one class have the same fields set to the same values, bit for bit."""
    mine, theirs = one.__dict__, other.__dict__
    if mine.get("unknown_fields", b"") != theirs.get("unknown_fields", b""):
        return False
    have_same = mine.keys() == theirs.keys() and "undecoded" not in mine
    properties = one._properties
    for name in mine if have_same else fields_held(one, other):
        left, right = mine.get(name), theirs.get(name)
        if type(left) in _EXACT:
            if left != right:
                return False
        elif name in properties:
            field = properties[name].descriptor
            if field.in_place or not field.is_repeated:
                if not _same_values(left, right, field):
                    return False
            elif not _same_elements(getattr(one, name), getattr(other, name), field):
                return False
    return True


def _same_elements(left: list[Any], right: list[Any], field: FieldDescriptor) -> bool:
    if field.message_type:
        return len(left) == len(right) and all(map(is_equal, left, right))
    return repr(left) == repr(right) if field.kind in ("float", "double") else left == right


def _same_values(left: Any, right: Any, field: FieldDescriptor) -> bool:
    if left is right:
        return True
    if field.in_place and field.is_repeated:
        return _joined(None, left) == _joined(None, right)
    if left is None or right is None:
        return False
    if field.message_type:
        return is_equal(left, right)
    # The texts of two floats are equal if their bits are, except for NaN.
    return bool(repr(left) == repr(right) if field.kind in ("float", "double") else left == right)


def _joined(first: Source | None, second: Source | None) -> Source | None:
    """Two sequences as one, without empty ones; `None` if both are empty."""
    parts = [part for part in (first, second) if part is not None and part.nbytes]
    return parts[0] if len(parts) == 1 else Concat.of(*parts) if parts else None


# Short texts


def model_text(model: Any) -> str:
    """The text of a ModelProto."""
    parts = [f"ir_version={model.ir_version}", *_opsets(model)]
    parts += [
        f"{name}={value!r}"
        for name in ("domain", "producer_name", "producer_version")
        if (value := getattr(model, name))
    ]
    parts.append(f"graph={graph_text(model.graph)}")
    return f"ModelProto({', '.join((*parts, *_counts(model, ('functions',))))})"


def graph_text(graph: Any) -> str:
    """The text of a GraphProto."""
    counts = (*_counts(graph, ("input", "output")), *_counts(graph, ("initializer",)), *_counts(graph, ("node",)))
    return f"GraphProto({', '.join((repr(graph.name), *counts, *_counts(graph, ('value_info',))))})"


def function_text(function: Any) -> str:
    """The text of a FunctionProto."""
    parts = [f"{name}={value!r}" for name in ("domain", "overload") if (value := getattr(function, name))]
    parts += [*_opsets(function), *_counts(function, ("input", "output"))]
    parts += [f"attribute={list(function.attribute)}"] if function.attribute else []
    return f"FunctionProto({', '.join((repr(function.name), *parts, *_counts(function, ('node',))))})"


def _opsets(message: Any) -> list[str]:
    versions = {entry.domain: entry.version for entry in message.opset_import}
    return [f"opset_import={versions}"] if versions else []


def _counts(message: Any, names: tuple[str, ...]) -> list[str]:
    """The numbers of elements, in the form of `onnx`."""
    words = {"input": "inputs", "output": "outputs", "initializer": "initializers", "node": "nodes"}
    return [f"{name}=<{count} {words.get(name, name)}>" for name in names if (count := len(getattr(message, name)))]


SHORT_TEXTS: dict[str, Callable[[ProtoMessage], str]] = {
    "ModelProto": model_text,
    "GraphProto": graph_text,
    "FunctionProto": function_text,
}
