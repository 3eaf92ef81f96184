"""Tensors of a graph that are in entries, in the form in which our writer writes them: one look at them is enough.

A tensor whose bytes are exactly those that its entry requires is right, so neither its fields nor its external data
need to become objects. Every other tensor is left to those who read field by field and know what is wrong.

Spec: docs/onnxz.md, section 7; onnx.proto, `TensorProto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.model import EXTERNAL
from formats.onnxpb.wire.plain_tensors import MAX_HEAD_BYTES, NAME, fields_of, head_of
from formats.onnxzip.reading.far_entries import payload_of
from formats.onnxzip.reading.graph_scan import EXTERNAL_TAG, KEY_TAG, LOCATION_TAG, VALUE_TAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.onnxpb.wire.plain_tensors import TensorHead
    from formats.onnxzip.records import Entry
    from formats.tensordata.sources.source import Source

_MAX_TEXT_BYTES = 0x7F  # the size of a longer text, or of a longer entry of external data, needs two bytes
_MAX_TAILS = 1 << 10


def _text(tag: int, text: bytes) -> bytes:
    return bytes((tag, len(text))) + text


def _external(key: bytes, value: bytes) -> bytes:
    return _text(EXTERNAL_TAG, _text(KEY_TAG, key) + _text(VALUE_TAG, value))


_FIRST = _text(KEY_TAG, b"location") + bytes(
    (VALUE_TAG,)
)  # of the first entry of external data, up to the size of its value
_LOCATION_AT = 2 + len(_FIRST)  # where that size is


class UsualTensors:
    """The tensor entries of an archive in `source`, and what is known about the tensors in them.

    `unused` has the names of those that no tensor uses yet.
    """

    def __init__(self, entries: Iterable[Entry], source: Source, unused: dict[str, None]) -> None:
        self.entries = {entry.name.encode(): entry for entry in entries}
        self.source = source
        self.unused = unused
        self.tails: dict[int, bytes] = {}

    def found(self, data: bytes, begin: int, end: int) -> tuple[TensorHead, bytes, Entry] | None:
        """The head, the name and the entry of the tensor in `data[begin:end]` if usual; its entry is used then."""
        name_at = data.find(NAME, begin, min(end, begin + MAX_HEAD_BYTES))
        if name_at < 0 or name_at + 2 > end:
            return None
        head = head_of(data[begin:name_at])  # no whole fields if a dim has the byte of the tag, too
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
        fields = fields_of(head, text)
        fields["raw_data"] = payload_of(self.source, entry)
        return fields

    def _tail(self, nbytes: int) -> bytes:
        """What comes behind the location of a tensor of this size."""
        tail = _external(b"offset", b"0") + _external(b"length", b"%d" % nbytes) + bytes((LOCATION_TAG, EXTERNAL))
        if len(self.tails) < _MAX_TAILS:
            self.tails[nbytes] = tail
        return tail
