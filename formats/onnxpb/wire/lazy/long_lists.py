"""Long lists of numbers and of short texts in attributes, such as the trees of an ensemble.

One call checks many of their elements. The elements stay in the source until they are read. An unusual or wrong element
ends such a list: the decoder accepts or refuses it, as in a short list. So no error can appear later in the elements
that stayed.

Spec: Protocol Buffers, "Encoding"; onnx.proto, `AttributeProto`.
"""

from __future__ import annotations

import re
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.errors import WireError
from formats.onnxpb.wire.schema import MESSAGES
from formats.onnxpb.wire.varints import INT64, WireType, decode_prefix, make_tag, unpack
from formats.tensordata.sources.unpacked import numbers_behind_tags, whole_fields

if TYPE_CHECKING:
    from formats.ir.model import Undecoded
    from formats.tensordata.sources.source import Source

READ_BYTES = 1 << 18  # a source is read in pieces of this size
MATCHED_BYTES = 1 << 16  # per call: a pattern needs memory for each element
FIRST_BYTES = 1 << 9  # looked at first, then twice as many each time: a file may have very many lists of one element
WITH_NUMPY_AT_ONCE = 1 << 13  # of a list of integers that goes on: fewer are matched faster by the pattern
LONGEST_BYTES = 1 << 8  # no matched element is longer, nor are the tag and the size of a packed field
NUMPY_BYTES = 1 << 18  # of numbers: a few such lists take as long to decode as numpy to import
WITH_NUMPY_BYTES = 1 << 10  # longer lists of numbers are decoded faster with numpy if it is imported already
# The possessive form never backtracks, and takes two thirds of the time; Python 3.11.0 to 3.11.4 have errors in it.
_ANY_NUMBER = b"*+" if sys.version_info >= (3, 11, 5) else b"*"

_NUMBERS = {field.name: field.number for field in MESSAGES["AttributeProto"]}
FLOAT = make_tag(_NUMBERS["floats"], WireType.I32)
INT = make_tag(_NUMBERS["ints"], WireType.VARINT)
STRING = make_tag(_NUMBERS["strings"], WireType.LEN)
PACKED_FLOATS, PACKED_INTS = (make_tag(_NUMBERS[name], WireType.LEN) for name in ("floats", "ints"))
SIZES = {FLOAT: 4, INT: 0}  # of an element in bytes; 0 for varints
LIST_TAGS = frozenset((FLOAT, INT, STRING, PACKED_FLOATS, PACKED_INTS))


@cache
def _elements(tag: int) -> re.Pattern[bytes]:
    """A pattern for any number of elements with this tag; for a packed field, for its content."""
    varint = rb"(?:[\x80-\xff]{0,8}[\x00-\x7f]|[\x80-\xff]{9}[\x00\x01])"  # of 64 bits at most
    texts = b"|".join(b"%b.{%d}" % (re.escape(bytes((size,))), size) for size in range(0x80))
    values = {INT: varint, STRING: b"(?:%b)" % texts, PACKED_FLOATS: b".{4}", PACKED_INTS: varint}
    front = b"" if _is_packed(tag) else re.escape(bytes((tag,)))
    return re.compile(b"(?:%b%b)%b" % (front, values[tag], _ANY_NUMBER), re.DOTALL)


def _is_packed(tag: int) -> bool:
    return tag in (PACKED_FLOATS, PACKED_INTS)


def _payload(data: bytes, position: int) -> tuple[int, int]:
    """The start and the end of the payload of the packed field at `position`; the end may be after the data."""
    size, begin = decode_prefix(data, position + 1)
    return begin, begin + size


def _end_of_elements(data: bytes, position: int, end: int, tag: int) -> int:
    """The end of the adjacent elements of one kind."""
    before, nbytes = -1, FIRST_BYTES
    while position > before:
        stop = min(position + nbytes, end)
        before = position
        if tag == FLOAT or (tag == INT and stop - position >= WITH_NUMPY_AT_ONCE and "numpy" in sys.modules):
            position += whole_fields(data[position:stop], tag, SIZES[tag])[0]
        else:
            position = _elements(tag).match(data, position, stop).end()  # type: ignore[union-attr]
        nbytes = min(2 * nbytes, MATCHED_BYTES)
    return position


def end_of_list(data: bytes, position: int, end: int) -> int:
    """The end of the elements from `position` on, where a tag of LIST_TAGS is; for packed ones, the end of the field.

    This is `position` if the first element is unusual: incomplete, wrong, or a text of 128 bytes or more.
    """
    tag = data[position]
    if not _is_packed(tag):
        return _end_of_elements(data, position, end, tag)
    try:
        begin, stop = _payload(data, position)
    except (IndexError, WireError):
        return position
    return stop if stop <= end and _end_of_elements(data, begin, stop, tag) == stop else position


def end_of_list_in_source(source: Source, position: int, end: int) -> int:
    """The same for a source, of which a window is read at a time."""
    head = source.read(position, min(LONGEST_BYTES, end - position))
    tag = head[0]
    if not _is_packed(tag):
        return _end_in_source(source, position, end, tag)
    try:
        begin, stop = _payload(head, 0)
    except (IndexError, WireError):
        return position
    whole = position + stop <= end and _end_in_source(source, position + begin, position + stop, tag) == position + stop
    return position + stop if whole else position


def _end_in_source(source: Source, position: int, end: int, tag: int) -> int:
    before, nbytes = -1, FIRST_BYTES
    while before < position < end:
        window = source.read(position, min(nbytes, end - position))
        before, position = position, position + _end_of_elements(window, 0, len(window), tag)
        nbytes = min(2 * nbytes, READ_BYTES)
    return position


class LongList:
    """Elements that stay in the source: ranges of whole fields, and the tag in each."""

    has_references = False
    is_flat = True
    is_of_ir = True  # as numbers are those of any message

    def __init__(self, source: Source) -> None:
        self.source = source
        self.ranges: list[tuple[int, int, int]] = []

    def add(self, tag: int, start: int, stop: int) -> None:
        """Append the elements from `start` to `stop` of the source."""
        if not _is_packed(tag) and self.ranges and self.ranges[-1][0] == tag and self.ranges[-1][2] == start:
            _, start, _ = self.ranges.pop()
        self.ranges.append((tag, start, stop))

    @property
    def largest_nbytes(self) -> int:
        """A number of bytes that no element exceeds."""
        return LONGEST_BYTES

    @property
    def segments(self) -> list[bytes | Source]:
        """The fields of the elements."""
        return [self.source.slice(start, stop - start) for _, start, stop in self.ranges]

    def decode(self) -> list[Any]:
        """The elements.

        Raises: TensorDataError if the file was changed since it was opened.
        """
        for file in self.source.files():
            file.check_unchanged()
        elements: list[Any] = []
        for tag, start, stop in self.ranges:
            elements += _decoded(self.source.read(start, stop - start), tag)
        return elements

    def differing(self, other: Undecoded) -> None:
        """Nothing: these elements have no names for a comparison."""


def _decoded(data: bytes, tag: int) -> list[Any]:
    """The elements in whole fields with this tag."""
    if tag == INT:
        return _integers(data, behind_tags=True)
    if tag == PACKED_INTS:
        return _integers(data[_payload(data, 0)[0] :], behind_tags=False)
    if tag == PACKED_FLOATS:
        begin, end = _payload(data, 0)
        return list(struct.unpack_from(f"<{(end - begin) // 4}f", data, begin))
    if tag == FLOAT:
        if _is_for_numpy(data):
            return numbers_behind_tags(data, "<f4").tolist()  # type: ignore[no-any-return]
        return [value for (value,) in struct.iter_unpack("<xf", data)]
    texts, position, end = [], 0, len(data)
    while position < end:
        begin = position + 2
        position = begin + data[position + 1]
        texts.append(data[begin:position])
    return texts


def _is_for_numpy(data: bytes) -> bool:
    return len(data) >= (WITH_NUMPY_BYTES if "numpy" in sys.modules else NUMPY_BYTES)


def _integers(data: bytes, *, behind_tags: bool) -> list[Any]:
    """The values of varints, or of every second one if each is after a tag, which is a varint of one byte."""
    if data.isascii():  # each varint has one byte
        return list(data[1::2] if behind_tags else data)
    if not _is_for_numpy(data):
        values = unpack(data, INT64)
        return values[1::2] if behind_tags else values

    import numpy

    from formats.tensordata.sources.varints import decode_varints

    int64 = numpy.dtype("<i8")
    return decode_varints(data, int64, 2 if behind_tags else 1).view(int64).tolist()  # type: ignore[no-any-return]
