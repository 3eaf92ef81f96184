"""The common base of all message classes: protobuf's behaviour over the dictionary of the fields that are set.

An unset submessage can be read; it becomes part of its message when it is first changed.

Spec: google.protobuf.message (protobuf 7).
"""
# ruff: noqa: N802 - the methods have protobuf's names

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast

from formats.collector import collector_paused
from formats.errors import FormatError
from formats.onnx_compat.protos.copies import copied, in_ir
from formats.onnx_compat.protos.errors import as_protobufs
from formats.onnx_compat.protos.merging import merge, same
from formats.onnx_compat.protos.reprs import SHORT_TEXTS
from formats.onnx_compat.protos.values import Valued, forget_state
from formats.onnxpb.wire.decoder import decode_checked
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    import os

    from formats.onnx_compat.loading import ParseOptions
    from formats.onnx_compat.protos.containers import Repeated
    from formats.onnx_compat.protos.descriptor import Descriptor, FieldDescriptor
    from formats.onnx_compat.protos.field_properties import Property, Submessage
    from formats.onnx_compat.protos.values import State
    from formats.onnx_compat.saving import SerializeOptions
    from formats.onnxpb.wire.tables import Tables
    from formats.tensordata.plan import Segment
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
    _texts: ClassVar[frozenset[str]]  # the fields to which a text is assigned without another effect
    _lists_of_texts: ClassVar[dict[str, type[Repeated[str]]]]  # their containers
    _singular: ClassVar[frozenset[str]]
    _oneofs: ClassVar[dict[str, tuple[str, ...]]]  # their fields
    _tables: ClassVar[Tables]  # those of all messages

    def __init__(self, *arguments: Any, **values: Any) -> None:
        """A message with the given fields: values, messages or dictionaries of their fields, iterables of those."""
        if arguments:
            raise TypeError("No positional arguments allowed")
        if not values:
            return
        texts, lists, fields = self._texts, self._lists_of_texts, self.__dict__
        for name, value in values.items():
            if value.__class__ is str and name in texts and value.isascii():  # most arguments
                fields[name] = value
                continue
            if value.__class__ is list and name in lists:  # most others
                for item in value:
                    if item.__class__ is not str or not item.isascii():
                        break
                else:
                    fields[name] = lists[name](value)
                    continue
            if value is not None:
                (self._properties.get(name) or self._field(name)).fill(self, value)

    @classmethod
    def _taken(cls: type[M], value: Any) -> M | None:
        """The message, or a copy in our class of one of `onnx`; `None` for anything else."""
        if type(value) is cls:
            return value
        return cls.FromString(value.SerializePartialToString()) if is_foreign(value, cls) else None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a scalar field."""
        values = self.__dict__
        if value.__class__ is str and name in self._texts and value.isascii() and "_state" not in values:
            values[name] = value  # most assignments
        elif name in self._properties:
            self._properties[name].assign(self, value)
        else:
            raise AttributeError(f"Assignment not allowed (no field {name!r} in protocol message object).")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} cannot be deleted; `ClearField` clears a field")

    def _field(self, name: Any) -> Property:
        found = self._properties.get(_name(name))
        if found is None:
            raise ValueError(f'Protocol message {self.DESCRIPTOR.name} has no field "{_name(name)}".')
        return found

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
        merge(self, copied(other) if other is self else other)

    def CopyFrom(self, other: Any) -> None:
        """Make the message equal to `other`.

        Raises: TypeError for a message of another class.
        """
        other = self._of_class(other, "CopyFrom")
        if other is self:
            return
        new = copied(other)
        self._touch()
        if self.__dict__ and self._emptied():
            merge(self, new)
        else:
            self.__dict__.update(new.__dict__)

    def _emptied(self) -> bool:
        """Clear all fields that are set; whether parts may be in use that are not, which stay in use."""
        values = self.__dict__
        kept: dict[str, Any] = {name: each for name, each in values.items() if isinstance(each, list) and not each}
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
        found = self._taken(other)
        if found is None:
            raise TypeError(
                f"Parameter to {method}() must be instance of same class: expected {type(self)} got {type(other)}."
            )
        return found

    def __copy__(self: M) -> M:
        return copied(self)

    def __deepcopy__(self: M, memo: object) -> M:
        with collector_paused():
            return copied(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), {"serialized": self.SerializeToString()}

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self.ParseFromString(state["serialized"])

    def __eq__(self, other: object) -> bool:
        found = self._taken(other)
        return NotImplemented if found is None else same(self, found)

    # Bytes

    def ByteSize(self) -> int:
        """The size of the serialised message in bytes."""
        return sum(len(part) if isinstance(part, bytes) else cast("Source", part).nbytes for part in self._segments())

    def SerializeToString(self, deterministic: bool | None = None) -> bytes:
        """The serialised message, of any size; the same every time.

        Raises: EncodeError if it is nested too deeply; TensorDataError or OSError if weights cannot be read.
        """
        segments = self._segments()
        return b"".join([part if isinstance(part, bytes) else cast("Source", part).view() for part in segments])

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
        merge(self, new)
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
            found: M = decode_checked(Literal(bytes(data)), cls.DESCRIPTOR.scoped_name, cls._tables)
        except FormatError as error:
            as_protobufs(error)
            raise
        return found

    def _segments(self) -> list[Segment]:
        try:
            return encode(self, table=self._tables[self.DESCRIPTOR.scoped_name])
        except FormatError as error:
            as_protobufs(error)
            raise

    def __str__(self) -> str:
        from formats.onnxpb.text.textproto import to_text

        return to_text(in_ir(self), is_shown=True)

    def __repr__(self) -> str:
        return SHORT_TEXTS.get(self.DESCRIPTOR.scoped_name, str)(self)


def _name(name: Any) -> str:
    """The name of a field, which protobuf also accepts as bytes."""
    name = name.decode() if isinstance(name, bytes) else name
    if not isinstance(name, str):
        raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")  # noqa: TRY004
    return name
