"""Entries of a key and a value: metadata, such as the lines of a program, and the places of external data.

Entries as every program writes them (a key and a value, each once) stay undecoded in their message until somebody reads
them. They are checked now, so no error can appear later. What is unusual or wrong is left to the decoder. Few readers
look at metadata. Those of external data need only the texts, and the messages of a weight take seven times the memory
of its bytes here.

Spec: onnx.proto, `StringStringEntryProto`; Protocol Buffers, "Encoding".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.model import Message, set_fields
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import WireType, encode_varint, make_tag

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.ir.model import Undecoded
    from formats.onnxpb.wire.tables import MessageTable, Tables
    from formats.tensordata.sources.source import Source

_KEY, _VALUE = (make_tag(field.number, WireType.LEN) for field in MESSAGES["StringStringEntryProto"][:2])
_MOST_BYTES = 1 << 13  # of a text that is written again: its size and that of its entry have two bytes at most
_new = object.__new__


def end_of_entries(data: bytes, position: int, end: int, places: list[int] | None = None) -> tuple[int, int]:
    """The end of the entries in a row from `position` on, and their number.

    All have the tag at `position`, which is one byte. An entry that is unusual or not whole ends them. `places` gets
    the beginning and end of the key and of the value of each.
    """
    tag, count = data[position], 0
    try:
        while position < end and data[position] == tag:
            size, begin = data[position + 1], position + 2
            if size >= 0x80:
                size, begin = size & 0x7F | data[begin] << 7, begin + 1
                if not 0x80 <= size < 0x4000:  # it has other than two bytes
                    break
            stop = begin + size
            key = begin + 2
            middle = key + data[begin + 1]
            size, value = data[middle + 1], middle + 2
            if size >= 0x80:
                size, value = size & 0x7F | data[value] << 7, value + 1
                if not 0x80 <= size < 0x4000:
                    break
            is_usual = data[begin] == _KEY and data[begin + 1] < 0x80 and data[middle] == _VALUE
            if not is_usual or value + size != stop or stop > end:
                break
            if places is not None:
                places += (key, middle, value, stop)
            position = stop
            count += 1
    except IndexError:
        pass
    return position, count


class Entries:
    """Entries that are left undecoded, as `end_of_entries` found them; `field` has them with their tags.

    `table` is that of an entry.
    """

    __slots__ = ("_field", "_table")
    has_references = False
    is_flat = True

    def __init__(self, field: bytes, table: MessageTable) -> None:
        self._field = field
        self._table = table

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same bytes."""
        return isinstance(other, Entries) and self._field == other._field

    __hash__ = object.__hash__

    @property
    def is_of_ir(self) -> bool:
        """Whether the entries are those of the IR."""
        return issubclass(self._table.message_class, Message)

    @property
    def largest_nbytes(self) -> int:
        """A number of bytes that no entry exceeds."""
        return len(self._field)

    @property
    def segments(self) -> list[bytes | Source]:
        """The fields of the entries."""
        return [self._field]

    def decode(self) -> list[Any]:
        """The entries, new."""
        entries = []
        for key, value in self.pairs():
            entry = _new(self._table.message_class)
            set_fields(entry, {"key": key, "value": value})
            entries.append(entry)
        return entries

    def pairs(self) -> list[tuple[Any, Any]]:
        """The key and the value of each entry."""
        data = self._field
        places: list[int] = []
        end_of_entries(data, 0, len(data), places)
        ends = iter(places)
        parts = [data[start:stop] for start, stop in zip(ends, ends, strict=True)]
        try:
            texts = [*map(bytes.decode, parts)]
        except UnicodeDecodeError:
            texts = [text_of(part, self._table.decode_text) for part in parts]
        each = iter(texts)
        return [*zip(each, each, strict=True)]

    def having(self, pairs: Sequence[tuple[str | None, str | None]]) -> Entries | None:
        """Entries with other keys and values; `None` if they would be unusual."""
        tag, field = self._field[0], b""
        for key, value in pairs:
            first, last = ((text or "").encode("utf-8", "surrogateescape") for text in (key, value))
            if len(first) >= 0x80 or len(last) >= _MOST_BYTES:
                return None
            entry = b"%c%c%b%c%b%b" % (_KEY, len(first), first, _VALUE, encode_varint(len(last)), last)
            field += b"%c%b%b" % (tag, encode_varint(len(entry)), entry)
        return Entries(field, self._table)

    def of(self, family: Tables) -> Entries:
        """The same entries, as messages of the family with these tables."""
        return Entries(self._field, family[self._table.name])

    def differing(self, other: Undecoded) -> None:
        """Nothing: there are few entries."""


def text_of(data: bytes, decode_text: Callable[[bytes], Any]) -> Any:
    """The text of a field; `decode_text` makes it of bytes that are not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return decode_text(data)
