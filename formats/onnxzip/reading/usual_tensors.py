"""Tensors of a graph that are in entries, in the form in which our writer writes them: one look at them is enough.

A tensor whose bytes are exactly those that its entry requires is right, so neither its fields nor its external data
need to become objects. Every other tensor is left to those who read field by field and know what is wrong.

Spec: docs/onnxz.md, section 7; onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import FormatError
from formats.ir.dtypes import BY_NUMBER
from formats.ir.model import EXTERNAL
from formats.onnxpb.wire.varints import INT64, decode_varint, signed
from formats.onnxzip.reading.far_entries import payload_of
from formats.onnxzip.reading.graph_scan import (
    DIM_TAG,
    EXTERNAL_TAG,
    KEY_TAG,
    LOCATION_TAG,
    NAME_TAG,
    TYPE_TAG,
    VALUE_TAG,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

_MAX_TEXT_BYTES = 0x7F  # the size of a longer text, or of a longer entry of external data, needs two bytes
_MAX_HEADS, _MAX_HEAD_BYTES = 1 << 10, 1 << 6


def _text(tag: int, text: bytes) -> bytes:
    return bytes((tag, len(text))) + text


def _external(key: bytes, value: bytes) -> bytes:
    return _text(EXTERNAL_TAG, _text(KEY_TAG, key) + _text(VALUE_TAG, value))


_FIRST = _text(KEY_TAG, b"location") + bytes(
    (VALUE_TAG,)
)  # of the first entry of external data, up to the size of its value
_LOCATION_AT = 2 + len(_FIRST)  # where that size is


class _Head(NamedTuple):
    """The fields before the name of a tensor, and the size of its elements."""

    dims: list[int]
    data_type: int
    nbytes: int


class UsualTensors:
    """The tensor entries of an archive in `source`, and what is known about the tensors in them.

    `unused` has the names of those that no tensor uses yet.
    """

    def __init__(self, entries: Iterable[Entry], source: Source, unused: dict[str, None]) -> None:
        self.entries = {entry.name.encode(): entry for entry in entries}
        self.source = source
        self.unused = unused
        self.heads: dict[bytes, _Head | None] = {}
        self.tails: dict[int, bytes] = {}

    def found(self, data: bytes, begin: int, end: int) -> tuple[_Head, bytes, Entry] | None:
        """The head, the name and the entry of the tensor in `data[begin:end]` if usual; its entry is used then."""
        name_at = data.find(NAME_TAG, begin, end if end - begin < _MAX_HEAD_BYTES else begin + _MAX_HEAD_BYTES)
        if name_at < 0 or name_at + 2 > end:
            return None
        key = data[begin:name_at]  # no whole fields if a dim has the byte of the tag, too
        head = self.heads[key] if key in self.heads else self._head(key)
        name_nbytes = data[name_at + 1]
        external_at = name_at + 2 + name_nbytes
        location_at = external_at + _LOCATION_AT
        if head is None or name_nbytes > _MAX_TEXT_BYTES or location_at >= end:
            return None
        size = data[location_at]
        location = data[location_at + 1 : location_at + 1 + size]
        entry = self.entries.get(location)
        if entry is None or entry.nbytes != head.nbytes or len(_FIRST) + 1 + size > _MAX_TEXT_BYTES:
            return None
        tail = self.tails.get(head.nbytes) or self._tail(head.nbytes)
        first = bytes((EXTERNAL_TAG, len(_FIRST) + 1 + size, *_FIRST, size))
        if data[external_at:end] != first + location + tail:
            return None
        self.unused.pop(entry.name, None)
        return head, data[name_at + 2 : external_at], entry

    def fields(self, data: bytes, begin: int, end: int) -> dict[str, Any] | None:
        """The fields of the tensor in `data[begin:end]`, with its payload as raw data, if it is usual."""
        found = self.found(data, begin, end)
        if found is None:
            return None
        head, name, entry = found
        try:
            text = name.decode()
        except UnicodeDecodeError:
            return None
        source = payload_of(self.source, entry)
        values = {"data_type": head.data_type, "name": text, "raw_data": source}
        return {"dims": head.dims.copy(), **values} if head.dims else values

    def _head(self, key: bytes) -> _Head | None:
        """The head with these bytes; `None` if they are anything but dims and an element type with a size."""
        dims: list[int] = []
        data_type = position = 0
        try:
            while position < len(key) and key[position] == DIM_TAG:
                dim, position = decode_varint(key, position + 1)
                dims.append(signed(dim, INT64))
            if position < len(key) and key[position] == TYPE_TAG:
                data_type, position = key[position + 1], position + 2
        except (IndexError, FormatError):
            position = -1
        row = BY_NUMBER.get(data_type)
        head = None
        if position == len(key) and row and row.bits and min(dims, default=0) >= 0:
            head = _Head(dims, data_type, row.nbytes(dims))
        if len(self.heads) < _MAX_HEADS:
            self.heads[key] = head
        return head

    def _tail(self, nbytes: int) -> bytes:
        """What comes behind the location of a tensor of this size."""
        tail = _external(b"offset", b"0") + _external(b"length", b"%d" % nbytes) + bytes((LOCATION_TAG, EXTERNAL))
        if len(self.tails) < _MAX_HEADS:
            self.tails[nbytes] = tail
        return tail
