"""The repeated fields of the message classes: sequences over the IR's fields, with protobuf's behaviour.

A container belongs to its field until the field is cleared; then it becomes an independent sequence.

Spec: google.protobuf.internal.containers (protobuf 7).
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import MutableSequence
from contextlib import suppress
from pickle import PickleError
from typing import TYPE_CHECKING, Any, TypeVar, overload

from formats.ir.copies import copied
from formats.onnxpb.text.fields import INTEGER_RANGES
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import SupportsIndex

    import numpy as np

    from formats.onnx_compat.protos.descriptor import FieldDescriptor
    from formats.onnx_compat.protos.message import ProtoMessage

T = TypeVar("T")
M = TypeVar("M", bound="ProtoMessage")

_NUMPY_NAMES = {"float": "float32", "double": "float64", "int32": "int32", "int64": "int64", "uint64": "uint64"}
_STRUCT_CODES = {"float": "f", "double": "d"}


class Repeated(MutableSequence[T]):
    """The common base of all repeated fields; `_owner` is the message with this field, until it is released."""

    __slots__ = ("__weakref__", "_field", "_owner", "_parts")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, owner: ProtoMessage, field: FieldDescriptor) -> None:
        self._owner: ProtoMessage | None = owner
        self._field = field
        self._parts = owner._known_parts()

    @abstractmethod
    def _read(self) -> list[Any]:
        """The stored elements, which must not be changed."""

    @abstractmethod
    def _edit(self) -> list[Any]:
        """The elements for a change; the caller then passes them to `_store`."""

    def _store(self, items: list[Any]) -> None:
        """Set the field to the elements `items`, which `_edit` returned."""

    @abstractmethod
    def _is_current(self, message: Any) -> bool:
        """Whether this is still the field of `message`, an object of the IR."""

    def _touch(self) -> None:
        """Make the owner part of its message."""
        if self._owner is not None:
            self._owner._touch()

    def _release(self) -> None:
        """Continue without the field, which was cleared."""
        self._owner = None

    def _stored(self, value: Any) -> Any:
        """The stored form of `value`.

        Raises: TypeError or ValueError if the field cannot have it.
        """
        return self._field.check(value)  # type: ignore[misc]

    def _shown(self, item: Any) -> Any:
        """The shown form of a stored element."""
        return item

    def _all_stored(self, values: Any) -> list[Any]:
        return [self._stored(value) for value in _iterable(values)]

    def __len__(self) -> int:
        return len(self._read())

    def __iter__(self) -> Iterator[T]:
        return map(self._shown, self._read())

    @overload
    def __getitem__(self, key: SupportsIndex) -> T: ...

    @overload
    def __getitem__(self, key: slice) -> list[T]: ...

    def __getitem__(self, key: Any) -> Any:
        found = self._read()[key]
        return [self._shown(item) for item in found] if isinstance(key, slice) else self._shown(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        new = self._all_stored(value) if isinstance(key, slice) else self._stored(value)
        items = self._edit()
        items[key] = new
        self._store(items)

    def __delitem__(self, key: Any) -> None:
        items = self._edit()
        del items[key]
        self._store(items)

    def insert(self, index: int, value: T) -> None:
        """Insert `value` before the element at `index`."""
        self[index:index] = [value]

    def extend(self, values: Iterable[T]) -> None:
        """Append all `values`, or none if one of them is wrong."""
        new = self._all_stored(values)
        items = self._edit()
        items += new
        self._store(items)

    def append(self, value: T) -> None:
        """Add `value` at the end."""
        self.extend((value,))

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
            shown: Callable[[Any], Any] = key or (lambda value: value)
            items = self._edit()
            items.sort(key=lambda item: shown(self._shown(item)), reverse=reverse)
            self._store(items)

    def remove(self, value: T) -> None:
        """Remove the first element equal to `value`.

        Raises: ValueError if there is none.
        """
        if value not in self:
            raise ValueError("remove(x): x not in container")
        del self[self.index(value)]

    def MergeFrom(self, other: Iterable[T]) -> None:  # noqa: N802 - protobuf's name
        """Append the elements of `other`."""
        self.extend(other)

    def __iadd__(self, values: Any) -> Any:
        raise TypeError("a repeated field does not support +=; use extend")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Repeated, list)):
            return NotImplemented
        return list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def __deepcopy__(self, memo: object) -> Repeated[T]:
        owner: ProtoMessage = self._field.containing_type._concrete_class()
        copy: Repeated[T] = getattr(owner, self._field.name)
        copy.extend(self)
        return copy

    def __reduce__(self) -> Any:
        raise PickleError("a repeated field cannot be pickled; make it a list first")


class RepeatedList(Repeated[T]):
    """A repeated field that is a list in the IR."""

    __slots__ = ("_items",)

    def __init__(self, owner: ProtoMessage, field: FieldDescriptor) -> None:
        self._owner = owner  # all here, not by `super`: programs make very many containers
        self._field = field
        self._parts = owner._parts or owner._known_parts()
        self._items: list[Any] = getattr(owner._ir, field.name)

    def _read(self) -> list[Any]:
        return self._items

    def _edit(self) -> list[Any]:
        self._touch()
        return self._items

    def _is_current(self, message: Any) -> bool:
        return getattr(message, self._field.name) is self._items

    def __len__(self) -> int:
        return len(self._items)

    def extend(self, values: Iterable[T]) -> None:
        """Append all `values`, or none if one of them is wrong."""
        new = self._all_stored(values)
        if self._owner is not None and self._owner._parent is not None:
            self._owner._touch()
        self._items += new


class RepeatedScalars(RepeatedList[T]):
    """A repeated field of numbers, texts or bytes that is a list in the IR."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        import numpy

        return numpy.array(self._items, dtype or _NUMPY_NAMES.get(self._field.kind))


class RepeatedTexts(RepeatedScalars[T]):
    """A repeated field of texts. One that is not UTF-8 is shown as bytes."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self._items) if "".join(self._items).isascii() else map(shown_text, self._items)

    def _all_stored(self, values: Any) -> list[Any]:
        items = list(_iterable(values))
        return items if are_texts(items) else super()._all_stored(items)

    def _shown(self, item: Any) -> Any:
        return item if item.isascii() else shown_text(item)


def are_texts(items: list[Any]) -> bool:
    """Whether all items are texts that a field can hold as they are; otherwise, each must be checked.

    Raises: UnicodeEncodeError for half of a surrogate pair.
    """
    if set(map(type, items)) != {str}:
        return False
    text = "".join(items)
    if not text.isascii():
        text.encode()
    return True


def shown_text(text: str) -> Any:
    """A text, or the bytes that it was read from if they are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape")
    return text


class RepeatedNumbers(Repeated[T]):
    """A repeated field of numbers that is a source in the IR: the packed payload.

    Elements are decoded when they are read. Appending is cheap; any other change writes all elements again.
    """

    __slots__ = ("_ir",)

    def __init__(self, owner: ProtoMessage, field: FieldDescriptor) -> None:
        super().__init__(owner, field)
        self._ir = owner._ir

    @property
    def _source(self) -> Source | None:
        source: Source | None = getattr(self._ir, self._field.name)
        return source

    def _read(self) -> list[Any]:
        source = self._source
        if source is None:
            return []
        if self._parts.decoded[0] is not source:
            self._parts.decoded = (source, _decoded(source, self._field.kind).tolist())
        return self._parts.decoded[1]

    def _edit(self) -> list[Any]:
        self._touch()
        return list(self._read())

    def _store(self, items: list[Any]) -> None:
        setattr(self._ir, self._field.name, Literal(_encoded(items, self._field.kind)) if items else None)

    def _release(self) -> None:
        super()._release()
        source, self._ir = self._source, type(self._ir)()
        setattr(self._ir, self._field.name, source)

    def _is_current(self, message: Any) -> bool:
        return message is self._ir

    def _all_stored(self, values: Any) -> list[Any]:
        items, kind = list(_iterable(values)), self._field.kind
        types, allowed = set(map(type, items)), INTEGER_RANGES.get(kind)
        if allowed and types == {int} and min(items) in allowed and max(items) in allowed:
            return items
        if kind in _STRUCT_CODES and types == {float}:
            layout = f"<{len(items)}{_STRUCT_CODES[kind]}"
            with suppress(OverflowError):  # a number that is too large becomes infinite
                return list(struct.unpack(layout, struct.pack(layout, *items)))
        return super()._all_stored(items)

    def extend(self, values: Iterable[T]) -> None:
        """Append all `values`, or none if one of them is wrong."""
        new = self._all_stored(values)
        self._touch()
        if not new:
            return
        source, decoded = self._source, self._parts.decoded
        grown = Growing.of(source, _encoded(new, self._field.kind))
        setattr(self._ir, self._field.name, grown)
        if decoded[0] is source and source is not None:
            decoded[1].extend(new)
            self._parts.decoded = (grown, decoded[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return _decoded(self._source or Literal(b""), self._field.kind).astype(dtype or _NUMPY_NAMES[self._field.kind])


class RepeatedMessages(RepeatedList[M]):
    """A repeated field of messages; added messages are copied."""

    __slots__ = ("_class",)

    def __init__(self, owner: ProtoMessage, field: FieldDescriptor) -> None:
        self._owner = owner
        self._field = field
        self._parts = owner._parts or owner._known_parts()
        self._items: list[Any] = getattr(owner._ir, field.name)
        self._class: type[M] = field.message_type._concrete_class  # type: ignore[union-attr]

    def _stored(self, value: Any) -> Any:
        if type(value) is self._class:
            return copied(value._ir)
        found = self._class._taken(value)
        if found is None:
            raise TypeError(f"expected a message of {self._class}, got {type(value)}")
        return found._ir  # a copy already

    def _shown(self, item: Any) -> M:
        return self._parts.message(self._class, item)

    def __iter__(self) -> Iterator[M]:
        return self._parts.messages(self._class, self._items)

    def add(self, **values: Any) -> M:
        """Append a new message with the fields `values`."""
        new = self._class(**values)._ir
        self._edit().append(new)
        return self._shown(new)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("a repeated field of messages does not support assignment")

    def insert(self, index: int, value: T) -> None:
        """Insert a copy of `value` before the element at `index`."""
        new = self._stored(value)
        self._edit().insert(index, new)

    def pop(self, index: int = -1) -> M:
        """The element at `index`, which is no longer part of the field."""
        found = self[index]
        del self[index]
        return found


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
