"""The common base of all message classes: protobuf's behaviour over one object of the IR.

A message is a thin wrapper: its values are those of the IR object, and reading a submessage twice gives the same object
while the first one exists. An unset submessage can be read; it becomes part of its message when it is first changed.

Spec: google.protobuf.message (protobuf 7).
"""
# ruff: noqa: N802 - the methods have protobuf's names

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from weakref import ref

from formats.errors import FormatError
from formats.ir.copies import UNCHANGEABLE, copied
from formats.onnx_compat.protos.errors import as_protobufs
from formats.onnx_compat.protos.field_properties import Property, Submessage
from formats.onnx_compat.protos.merging import merge, same
from formats.onnx_compat.protos.message_files import PARSE_FILE, SERIALIZE_FILE
from formats.onnx_compat.protos.reprs import SHORT_TEXTS
from formats.onnxpb.wire.decoder import decode_checked
from formats.onnxpb.wire.encoder import encode
from formats.python.collector import collector_paused
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from formats.onnx_compat.loading import ParseOptions
    from formats.onnx_compat.protos.descriptor import Descriptor, FieldDescriptor
    from formats.onnx_compat.saving import SerializeOptions
    from formats.tensordata.plan import Segment
    from formats.tensordata.sources.source import Source

M = TypeVar("M", bound="ProtoMessage")

FEW = 1024  # with fewer parts in use, unused ones need not be searched


class Parts:
    """The parts of one model that are in use, so that the same part is always the same object.

    The key of a message is the id of its IR object; the key of a container or an unset message is the id of the outer
    IR object and the field's name. `decoded` is the packed payload that was last decoded.
    """

    __slots__ = ("_known", "_limit", "decoded")

    def __init__(self) -> None:
        self._known: dict[Any, ref[Any]] = {}
        self._limit = FEW
        self.decoded: tuple[Source | None, list[Any]] = (None, [])

    def get(self, key: Any) -> Any:
        """The part with the key `key`, or `None`."""
        known = self._known.get(key)
        return None if known is None else known()

    def set(self, key: Any, part: Any) -> None:
        """Store a part with the key `key` while it is in use."""
        self._known[key] = ref(part)
        if len(self._known) > self._limit:
            self._forget_unused()

    def _forget_unused(self) -> None:
        self._known = {key: known for key, known in self._known.items() if known() is not None}
        self._limit = max(2 * len(self._known), FEW)

    def forget(self, key: Any) -> None:
        """Forget the part with the key `key`, which becomes independent."""
        known = self._known.pop(key, None)
        part = None if known is None else known()
        if part is not None:
            part._release()

    def message(self, message_class: type[M], ir: Any) -> M:
        """The message over `ir`."""
        found = self.get(id(ir))
        return self._made(message_class, ir) if found is None else cast("M", found)

    def messages(self, message_class: type[M], irs: Iterable[Any]) -> Iterator[M]:
        """The messages over all `irs`."""
        for ir in irs:
            known = self._known.get(id(ir))  # not `get` and `_made`: tools iterate over all nodes again and again
            found = None if known is None else known()
            if found is None:
                found = object.__new__(message_class)
                found._ir = ir
                found._parts = self
                found._parent = None
                self._known[id(ir)] = ref(found)
                if len(self._known) > self._limit:
                    self._forget_unused()
            yield found

    def _made(self, message_class: type[M], ir: Any) -> M:
        message = object.__new__(message_class)
        message._ir = ir
        message._parts = self
        message._parent = None
        self._known[id(ir)] = ref(message)
        if len(self._known) > self._limit:
            self._forget_unused()
        return message


# The class of all messages of protobuf, if it is installed: then `isinstance` accepts ours.
if TYPE_CHECKING:

    class Message:
        """Nothing that ours do not have."""
else:
    try:
        from google.protobuf.message import Message
    except ImportError:
        Message = object


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


class ProtoMessage(Message, metaclass=MessageType):
    """A message of ONNX with protobuf's behaviour; its subclasses have a property for each field."""

    __slots__ = ("__weakref__", "_ir", "_parent", "_parts")
    __hash__ = None  # type: ignore[assignment]

    DESCRIPTOR: ClassVar[Descriptor]
    _properties: ClassVar[dict[str, Property]]  # by name, in the order of the descriptor's fields

    def __init__(self, *arguments: Any, **values: Any) -> None:
        """A message with the given fields: values, messages or dictionaries of their fields, iterables of those."""
        if arguments:
            raise TypeError("No positional arguments allowed")
        self._ir: Any = object.__new__(self.DESCRIPTOR.ir_class)  # without values, which takes a tenth of the time
        self._parts: Parts | None = None
        self._parent: tuple[ProtoMessage, Submessage] | None = None  # its place when it is changed
        if values:
            self._fill(values)

    @classmethod
    def _of(cls: type[M], ir: Any, parts: Parts | None = None) -> M:
        """The message that wraps an object of the IR."""
        self = cls.__new__(cls)
        self._ir = ir
        self._parts = parts
        self._parent = None
        return self

    @classmethod
    def _taken(cls: type[M], value: Any) -> M | None:
        """The message, or a copy in our class of one of `onnx`; `None` for anything else."""
        if type(value) is cls:
            return value
        return cls.FromString(value.SerializePartialToString()) if is_foreign(value, cls) else None

    def _fill(self, values: Mapping[str, Any]) -> None:
        known = self._properties
        for name, value in values.items():
            if value is not None:
                (known.get(name) or self._field(name)).fill(self, value)

    def _field(self, name: Any) -> Property:
        found = self._properties.get(_name(name))
        if found is None:
            raise ValueError(f'Protocol message {self.DESCRIPTOR.name} has no field "{_name(name)}".')
        return found

    def _fields(self) -> Iterable[Property]:
        return self._properties.values()

    def _known_parts(self) -> Parts:
        if self._parts is None:
            self._parts = Parts()
        return self._parts

    def _touch(self) -> None:
        """Make the message part of its parent."""
        message = self
        while message._parent is not None:
            (parent, field), message._parent = message._parent, None
            field.attach(parent, message)
            message = parent

    def _release(self) -> None:
        """Make this message independent, because the field was cleared."""
        self._parent = None

    # Presence

    def HasField(self, name: Any) -> bool:
        """Whether a field that is not repeated is set, or one of a oneof.

        Raises: ValueError for any other name.
        """
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
        oneof = self.DESCRIPTOR.oneofs_by_name.get(_name(name))
        if oneof is None:
            raise ValueError(f'Protocol message {self.DESCRIPTOR.name} has no oneof "{name}".')
        values = self._ir.__dict__
        for field in oneof.fields:
            if values.get(field.name) is not None:
                return field.name
        return None

    def ListFields(self) -> list[tuple[FieldDescriptor, Any]]:
        """The fields that are set or not empty, with their values, in the order of their numbers."""
        return [(field.descriptor, field.__get__(self)) for field in self._fields() if field.is_set(self)]

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
        self._clear(self._fields())

    def _clear(self, fields: Iterable[Property]) -> None:
        self._touch()
        for field in fields:
            field.clear(self)
        self._ir.unknown_fields = b""
        if hasattr(self._ir, "external_source"):
            self._ir.external_source = None

    def SetInParent(self) -> None:
        """Set the message in its parent, even if it is empty."""
        self._touch()

    def DiscardUnknownFields(self) -> None:
        """Remove unknown fields, at any depth."""
        self._touch()
        self._ir.unknown_fields = b""
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
        self._merge(copied(other._ir) if other._ir is self._ir else other._ir)

    def _merge(self, ir: Any) -> None:
        self._touch()
        self._touch_parts(ir)
        merge(self._ir, ir)

    def _touch_parts(self, ir: Any) -> None:
        """Also set the parts in use that `ir` has, so that they stay in use."""
        for field in self._fields() if self._parts else ():
            value = getattr(ir, field.name)
            if isinstance(field, Submessage) and value is not None:
                part = field.__get__(self)
                part._touch()
                part._touch_parts(value)

    def CopyFrom(self, other: Any) -> None:
        """Make the message equal to `other`.

        Raises: TypeError for a message of another class.
        """
        other = self._of_class(other, "CopyFrom")
        if other._ir is self._ir:
            return
        if self._is_alone():
            self._become(copied(other._ir))
        else:
            self._clear([field for field in self._fields() if field.is_set(self)])  # unset ones that are held stay so
            self._merge(other._ir)

    def _is_alone(self) -> bool:
        """Whether nobody can hold a part of this message: it has none, as when it is new, and no container is held."""
        parts = self._parts
        if parts is None:
            return True
        if not UNCHANGEABLE.issuperset(map(type, vars(self._ir).values())):
            return False
        place = id(self._ir)
        return not any(parts.get((place, name)) is not None for name in self.DESCRIPTOR.names_with_parts)

    def _become(self, ir: Any) -> None:
        """Take the values of `ir`, which nothing else uses; no part of this message may be in use."""
        self._touch()
        values = vars(self._ir)
        values.clear()
        values.update(vars(ir))

    def _of_class(self: M, other: Any, method: str) -> M:
        found = self._taken(other)
        if found is None:
            raise TypeError(
                f"Parameter to {method}() must be instance of same class: expected {type(self)} got {type(other)}."
            )
        return found

    def __copy__(self: M) -> M:
        return self._of(copied(self._ir))

    def __deepcopy__(self: M, memo: object) -> M:
        with collector_paused():
            return self._of(copied(self._ir))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (), {"serialized": self.SerializeToString()}

    def __setstate__(self, state: dict[str, bytes]) -> None:
        self.ParseFromString(state["serialized"])

    def __eq__(self, other: object) -> bool:
        found = self._taken(other)
        return NotImplemented if found is None else same(self._ir, found._ir)

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
            ir = self._decoded(data)
        except FormatError:
            self.Clear()
            raise
        if self._parts is None:
            self._become(ir)
        else:
            self.Clear()
            self._merge(ir)
        return len(data)

    def MergeFromString(self, data: bytes | bytearray | memoryview) -> int:
        """Merge the message in `data` into this one; return the number of bytes.

        Raises: DecodeError if there is none; then the message is unchanged.
        """
        self._merge(self._decoded(data))
        return len(data)

    @classmethod
    def FromString(cls: type[M], data: bytes | bytearray | memoryview) -> M:
        """The message in `data`.

        Raises: DecodeError if there is none.
        """
        return cls._of(cls._decoded(data))

    def ParseFromFile(self, path: str | os.PathLike[str], options: ParseOptions | None = None) -> None:
        """Make the message the one in a file, with its external data.

        Raises: FormatError if there is none; OSError if the file cannot be read.
        """
        self.CopyFrom(PARSE_FILE()(type(self), path, options))

    def SerializeToFile(
        self,
        path: str | os.PathLike[str],
        options: SerializeOptions | None = None,
        location: str | None = None,
    ) -> None:
        """Write the message to the file `path`, and its large tensors to the file `location` next to it, if given.

        Raises: FormatError if it cannot be written; OSError if the file cannot.
        """
        SERIALIZE_FILE()(self, path, options, location)

    @classmethod
    def _decoded(cls, data: Any) -> Any:
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"expected bytes, {type(data).__name__} found")
        try:
            return decode_checked(Literal(bytes(data)), cls.DESCRIPTOR.ir_class)
        except FormatError as error:
            as_protobufs(error)
            raise

    def _segments(self) -> list[Segment]:
        try:
            return encode(self._ir)
        except FormatError as error:
            as_protobufs(error)
            raise

    def __str__(self) -> str:
        from formats.onnxpb.text.textproto import to_text

        return to_text(self._ir, is_shown=True)

    def __repr__(self) -> str:
        return SHORT_TEXTS.get(self.DESCRIPTOR.scoped_name, str)(self)


def _name(name: Any) -> str:
    """The name of a field, which protobuf also accepts as bytes."""
    name = name.decode() if isinstance(name, bytes) else name
    if not isinstance(name, str):
        raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")  # noqa: TRY004
    return name
