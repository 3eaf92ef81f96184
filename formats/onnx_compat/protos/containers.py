"""The repeated fields of the message classes: lists with protobuf's behaviour.

A container is in the dictionary of its message until its field is cleared; then it is an independent list. To read it
is to read a Python list. What changes it checks the new elements.

Spec: google.protobuf.internal.containers (protobuf 7).
"""

from __future__ import annotations

import struct
from collections.abc import MutableSequence
from contextlib import suppress
from operator import index
from pickle import PickleError
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, cast, overload

from formats.collector import collector_paused
from formats.onnx_compat.protos.copies import proto_copy
from formats.onnx_compat.protos.values import state_of
from formats.onnxpb.text.textfile import INTEGER_RANGES
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import SupportsIndex

    import numpy as np
    from typing_extensions import Self

    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.onnx_compat.protos.message import ProtoMessage

T = TypeVar("T")
M = TypeVar("M", bound="ProtoMessage")

_NUMPY_NAMES = {"float": "float32", "double": "float64", "int32": "int32", "int64": "int64", "uint64": "uint64"}
_STRUCT_CODES = {"float": "f", "double": "d"}


class _NoListError(TypeError, AttributeError):
    """What lists can do was asked of a repeated field, as an operator or by its name."""


class Repeated(list[T]):
    """The common base of repeated fields that are lists in the IR; each kind of elements has a class of its own.

    `own` is the class of containers that belong to no unset message; `_owner` is the unset message of others, of which
    the first change makes it part of its parent.
    """

    __slots__ = ()

    own: ClassVar[type[Any]]
    holds_messages: ClassVar[bool] = False
    holds_texts: ClassVar[bool] = False
    field: ClassVar[FieldDescriptor]
    _owner: ProtoMessage | None = None

    def _touch(self) -> None:
        """Make the owner part of its message."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner._touch()

    def _stored(self, value: Any) -> Any:
        """The element for `value`.

        Raises: TypeError or ValueError if the field cannot have it.
        """
        return self.field.check(value)  # type: ignore[misc]

    def _all_stored(self, values: Any) -> list[Any]:
        return [self._stored(value) for value in _iterable(values)]

    def append(self, value: T) -> None:
        """Add `value` at the end."""
        stored = self._stored(value)
        if self._owner is not None:
            self._touch()
        list.append(self, stored)

    def extend(self, values: Iterable[T]) -> None:
        """Append all `values`, or none if one of them is wrong."""
        new = self._all_stored(values)
        if self._owner is not None:
            self._touch()
        list.extend(self, new)

    def MergeFrom(self, other: Iterable[T]) -> None:  # noqa: N802 - protobuf's name
        """Append the elements of `other`."""
        self.extend(other)

    def insert(self, index: SupportsIndex, value: T) -> None:
        """Insert `value` before the element at `index`."""
        stored = self._stored(value)
        if self._owner is not None:
            self._touch()
        list.insert(self, index, stored)

    def __setitem__(self, key: Any, value: Any) -> None:
        new = self._all_stored(value) if isinstance(key, slice) else self._stored(value)
        if self._owner is not None:
            self._touch()
        list.__setitem__(self, key, new)

    def __delitem__(self, key: Any) -> None:
        if self._owner is not None:
            self._touch()
        list.__delitem__(self, key)

    def reverse(self) -> None:
        """Reverse the order."""
        if self._owner is not None:
            self._touch()
        list.reverse(self)

    # What lists can do and repeated fields of protobuf cannot

    @property
    def _missing(self) -> NoReturn:
        raise _NoListError("a repeated field cannot do this; make it a list first")

    copy = __add__ = __mul__ = __rmul__ = __imul__ = _missing

    def __iadd__(self, values: Any) -> Any:  # type: ignore[misc]
        raise TypeError("a repeated field does not support +=; use extend")

    def _not_ordered(self, other: object) -> NoReturn:
        raise TypeError("repeated fields have no order; make them lists first")

    __lt__ = __le__ = __gt__ = __ge__ = _not_ordered

    def __deepcopy__(self, memo: object) -> Self:
        return cast("Self", self.own(map(proto_copy, cast("Any", self)) if self.holds_messages else self))

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise PickleError("a repeated field cannot be pickled; make it a list first")


class RepeatedScalars(Repeated[T]):
    """A repeated field of numbers, texts or bytes that is a list in the IR."""

    __slots__ = ()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy

        kind = self.field.kind
        of_no_texts = None if self else {"string": "U", "bytes": "S"}.get(kind)  # numpy finds the type of others
        return numpy.array(list(self), dtype or _NUMPY_NAMES.get(kind, of_no_texts))


class RepeatedTexts(RepeatedScalars[T]):
    """A repeated field of texts. One that is not UTF-8 is bytes."""

    __slots__ = ()
    holds_texts = True


class RepeatedMessages(Repeated[M]):
    """A repeated field of messages; added messages are copied."""

    __slots__ = ()
    holds_messages = True
    message_class: ClassVar[type[Any]]

    def _stored(self, value: Any) -> Any:
        if type(value) is self.message_class:
            return proto_copy(value)
        new_copy = self.message_class._taken(value)
        if new_copy is None:
            raise TypeError(f"expected a message of {self.message_class}, got {type(value)}")
        return new_copy  # a copy already

    def _all_stored(self, values: Any) -> list[Any]:
        with collector_paused():
            return super()._all_stored(values)

    def add(self, **values: Any) -> M:
        """Append a new message with the fields `values`."""
        new = self.message_class(**values)
        if self._owner is not None:
            self._touch()
        list.append(self, new)
        return cast("M", new)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a repeated field of messages does not support assignment")


def container_class(field: FieldDescriptor) -> tuple[type[Repeated[Any]], type[Repeated[Any]]]:
    """The class of containers of a field, and the class of those of unset messages, which have an `_owner`.

    Fields with the same kind of elements have the same classes.
    """
    kind = field.message_type or field.kind
    if kind not in _classes:
        _classes[kind] = _made_classes(field)
    return _classes[kind]


_classes: dict[Any, tuple[type[Repeated[Any]], type[Repeated[Any]]]] = {}


def _made_classes(field: FieldDescriptor) -> tuple[type[Repeated[Any]], type[Repeated[Any]]]:
    base: type[Repeated[Any]] = RepeatedScalars
    members: dict[str, Any] = {"__slots__": (), "__module__": __name__, "field": field}
    if field.message_type:
        base = RepeatedMessages
        members["message_class"] = field.message_type._concrete_class
    elif field.kind == "string":
        base = RepeatedTexts
    own: Any = type(base.__name__, (base,), members)
    of_unset: Any = type(base.__name__, (own,), {"__slots__": ("_owner",), "__module__": __name__})
    own.own = own
    return own, of_unset


class RepeatedNumbers(MutableSequence[T]):
    """A repeated field of numbers that is a source, as in the IR: the packed payload.

    Elements are decoded when they are read. Appending is cheap; any other change writes all elements again. `_values`
    is the dictionary of the message with this field, until the field is cleared.
    """

    __slots__ = ("__weakref__", "_field", "_owner", "_state", "_values")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, owner: ProtoMessage, field: FieldDescriptor) -> None:
        self._owner: ProtoMessage | None = owner
        self._field = field
        self._values: dict[str, Any] = owner.__dict__
        self._state = state_of(owner)

    @property
    def _source(self) -> Source | None:
        return self._values.get(self._field.name)

    def _read(self) -> np.ndarray[Any, Any]:
        """The elements, which must not be changed."""
        source = self._source
        decoded_source, elements = self._state.decoded
        if source is None or decoded_source is not source:
            elements = _decoded(source or Literal(b""), self._field.kind)
            self._state.decoded = source, elements
        return cast("np.ndarray[Any, Any]", elements)

    def _edit(self) -> list[Any]:
        """The elements for a change; the caller then passes them to `_store`."""
        self._touch()
        return list(self)

    def _store(self, items: list[Any]) -> None:
        """Set the field to the elements `items`."""
        if items:
            self._values[self._field.name] = Literal(_encoded(items, self._field.kind))
        else:
            self._values.pop(self._field.name, None)

    def _touch(self) -> None:
        """Make the owner part of its message."""
        if self._owner is not None:
            self._owner._touch()

    def _release(self) -> None:
        """Continue without the field, which is cleared now."""
        source, self._owner, self._values = self._source, None, {}
        if source is not None:
            self._values[self._field.name] = source

    def _all_stored(self, values: Any) -> list[Any]:
        items, kind = list(_iterable(values)), self._field.kind
        types, allowed = set(map(type, items)), INTEGER_RANGES.get(kind)
        if allowed and types == {int} and min(items) in allowed and max(items) in allowed:
            return items
        if kind in _STRUCT_CODES and types == {float}:
            layout = f"<{len(items)}{_STRUCT_CODES[kind]}"
            with suppress(OverflowError):  # a number that is too large becomes infinite
                return list(struct.unpack(layout, struct.pack(layout, *items)))
        return [self._field.check(item) for item in items]  # type: ignore[misc]

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[T]:
        return iter(self._read().tolist())

    @overload
    def __getitem__(self, key: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, key: slice) -> list[T]: ...

    def __getitem__(self, key: Any) -> Any:
        return self._read()[key if isinstance(key, slice) else index(key)].tolist()

    def __setitem__(self, key: Any, value: Any) -> None:
        new = self._all_stored(value if isinstance(key, slice) else (value,))
        items = self._edit()
        items[key] = new if isinstance(key, slice) else new[0]
        self._store(items)

    def __delitem__(self, key: Any) -> None:
        items = self._edit()
        del items[key]
        self._store(items)

    def insert(self, index: SupportsIndex, value: T) -> None:
        """Insert `value` before the element at `index`."""
        self[index:index] = [value]

    def append(self, value: T) -> None:
        """Add `value` at the end."""
        self.extend((value,))

    def extend(self, values: Iterable[T]) -> None:
        """Append all `values`, or none if one of them is wrong."""
        new = self._all_stored(values)
        self._touch()
        if not new:
            return
        self._state.decoded = (None, None)  # which may use the buffer that grows
        self._values[self._field.name] = Growing.of(self._source, _encoded(new, self._field.kind))

    def MergeFrom(self, other: Iterable[T]) -> None:  # noqa: N802 - protobuf's name
        """Append the elements of `other`."""
        self.extend(other)

    def clear(self) -> None:
        """Remove all elements."""
        if len(self):
            del self[:]

    def reverse(self) -> None:
        """Reverse the order."""
        items = self._edit()
        items.reverse()
        self._store(items)

    def sort(self, *, key: Callable[[T], Any] | None = None, reverse: bool = False) -> None:
        """Sort in place, as `list.sort` does."""
        if len(self):
            items = self._edit()
            items.sort(key=key, reverse=reverse)
            self._store(items)

    def remove(self, value: T) -> None:
        """Remove the first element equal to `value`.

        Raises: ValueError if there is none.
        """
        del self[list(self).index(value)]

    def __iadd__(self, values: Any) -> Any:
        raise TypeError("a repeated field does not support +=; use extend")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (RepeatedNumbers, list)):
            return NotImplemented
        return list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def __deepcopy__(self, memo: object) -> RepeatedNumbers[T]:
        owner: ProtoMessage = self._field.containing_type._concrete_class()
        copy: RepeatedNumbers[T] = getattr(owner, self._field.name)
        copy.extend(self)
        return copy

    def __reduce__(self) -> Any:
        raise PickleError("a repeated field cannot be pickled; make it a list first")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._read().astype(dtype or _NUMPY_NAMES[self._field.kind])


class Growing(Source):
    """The first bytes of a buffer, which never change, because data are only appended to it."""

    __slots__ = ("_buffer", "nbytes")

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self.nbytes = len(buffer)

    @classmethod
    def of(cls, source: Source | None, data: bytes) -> Growing:
        """The bytes of `source` followed by `data`; the buffer of `source` is used if nothing else was appended."""
        if isinstance(source, Growing) and source.nbytes == len(source._buffer):
            try:
                source._buffer.extend(data)
            except BufferError:  # another object uses the buffer
                pass
            else:
                return cls(source._buffer)
        return cls(bytearray((source.read() if source else b"") + data))

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Copy from memory."""
        self._check_range(offset, len(buffer))
        buffer[:] = self._buffer[offset : offset + len(buffer)]

    def slice(self, offset: int, nbytes: int) -> Literal:
        """A copy of a range."""
        return Literal(self.read(offset, nbytes))

    def view(self) -> memoryview:
        """The bytes; while another object uses them, the next append makes a new buffer."""
        return memoryview(self._buffer)[: self.nbytes].toreadonly()


def _iterable(values: Any) -> Iterator[Any]:
    try:
        return iter(values)
    except TypeError:
        raise TypeError(f"expected an iterable, got {type(values).__name__}") from None


def _decoded(source: Source, kind: str) -> np.ndarray[Any, Any]:
    """The elements of a packed payload, as an array over the source if they have a fixed width."""
    import numpy

    from formats.tensordata.sources.transform import varints

    dtype = numpy.dtype(_NUMPY_NAMES[kind]).newbyteorder("<")
    data = source.view()
    return numpy.frombuffer(data if kind in _STRUCT_CODES else varints(dtype.name).apply(data), dtype)


def _encoded(items: list[Any], kind: str) -> bytes:
    """The packed payload of numbers that the field can hold."""
    if kind in _STRUCT_CODES:
        return struct.pack(f"<{len(items)}{_STRUCT_CODES[kind]}", *items)
    if min(items) >= 0 and max(items) < 0x80:
        return bytes(items)
    return b"".join(map(encode_varint, items))
