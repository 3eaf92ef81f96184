"""The protobuf wire format: varints, tags, wire types, and the lengths of fields.

This module does not know any message. Positions are indexes into the given buffer.

Spec: Protocol Buffers, "Encoding".
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from formats.errors import FormatError, LimitError, TruncatedError, WireError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from formats.tensordata.sources.source import Source

Buffer: TypeAlias = bytes | memoryview

MAX_VARINT_BYTES = 10
MAX_PREFIX_BYTES = 5  # of a tag or a length; the official parsers have the same limit
MAX_FIELD_NUMBER = (1 << 29) - 1
MAX_GROUP_DEPTH = 100  # together with the messages around the group, as in the official parsers
BLOCK_BYTES = 1 << 20  # of packed numbers that are checked in one piece

_IS_CONTINUED = bytes(byte >> 7 for byte in range(256))
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))


class VarintError(WireError):
    """A varint is too long, or its value too large."""


class GroupError(WireError):
    """A group does not end where it must."""


class UnclosedGroupError(GroupError, TruncatedError):
    """A group does not end."""


class GroupDepthError(GroupError, LimitError):
    """Groups are nested too deeply."""


TOO_LARGE = "a varint exceeds 64 bits"
PREFIX_TOO_LONG = f"a tag or a length is longer than {MAX_PREFIX_BYTES} bytes"
TOO_LONG = f"a varint is longer than {MAX_VARINT_BYTES} bytes"


class IntegerType(NamedTuple):
    """An integer type of protobuf; all of them have the same varints, see `signed`."""

    bits: int
    is_signed: bool


INT64 = IntegerType(64, True)
NumberType: TypeAlias = IntegerType | struct.Struct  # a number is a varint, or has a fixed width


class WireType(IntEnum):
    """The low three bits of a tag."""

    VARINT = 0
    I64 = 1
    LEN = 2
    SGROUP = 3
    EGROUP = 4
    I32 = 5


_LEN = int(WireType.LEN)


def encode_varint(value: int) -> bytes:
    """The varint of a non-negative integer below 2**64, or of a negative one as its 64-bit two's complement."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= 0xFFFF_FFFF_FFFF_FFFF
    output = bytearray()
    while value >= 0x80:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    output.append(value)
    return bytes(output)


def decode_varint(data: Buffer, position: int) -> tuple[int, int]:
    """The unsigned value of the varint at `position`, and the position after it.

    Raises: WireError if it is longer than 10 bytes or exceeds 64 bits; IndexError if the buffer ends in it.
    """
    first = data[position]
    if first < 0x80:  # most varints are one byte
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value = shift = 0
    for index in range(position, position + MAX_VARINT_BYTES):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise VarintError(TOO_LARGE)
            return value, index + 1
        shift += 7
    raise VarintError(TOO_LONG)


def decode_prefix(data: Buffer, position: int) -> tuple[int, int]:
    """The value of the tag or length at `position`, and the position after it.

    Raises: WireError if it is longer than 5 bytes; IndexError if the buffer ends in it.
    """
    first = data[position]
    if first < 0x80:
        return first, position + 1
    second = data[position + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, position + 2
    value, after = decode_varint(data, position)
    if after - position > MAX_PREFIX_BYTES:
        raise VarintError(PREFIX_TOO_LONG)
    return value, after


def make_tag(number: int, wire_type: int) -> int:
    """The tag of a field as an integer."""
    return number << 3 | wire_type


def skip_field(data: Buffer, position: int, tag: int, depth: int = 0) -> int:
    """The position after a field of unknown meaning whose tag, already read, ends at `position`.

    The message with the field is at `depth`. Groups are skipped completely. The result can be after the end of the
    buffer if the field is truncated.

    Raises: WireError for bytes that are not a field; LimitError for groups nested too deeply; IndexError as
    `decode_varint`.
    """
    groups: list[int] = []
    while True:
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number <= MAX_FIELD_NUMBER:
            raise WireError(f"field number {number} is invalid")
        if wire_type == WireType.LEN:
            size, position = decode_prefix(data, position)
            position += size
        elif wire_type == WireType.VARINT:
            _, position = decode_varint(data, position)
        elif wire_type == WireType.I64:
            position += 8
        elif wire_type == WireType.I32:
            position += 4
        elif wire_type == WireType.SGROUP:
            if depth + len(groups) >= MAX_GROUP_DEPTH:
                raise GroupDepthError(f"groups are nested more than {MAX_GROUP_DEPTH} deep")
            groups.append(number)
        elif wire_type == WireType.EGROUP:
            if not groups:
                raise WireError(f"group {number} ends but did not begin")
            if groups.pop() != number:
                raise GroupError(f"group {number} ends where another group must end first")
        else:
            raise WireError(f"wire type {wire_type} does not exist")
        if not groups:
            return position
        if position >= len(data):
            raise UnclosedGroupError("the data ends inside a group")
        tag, position = decode_prefix(data, position)


def end_of_run(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """The end of the fields with the same tag from `position` on, and the size in bytes of the largest.

    The first of them is complete; the tags of the others are one byte.
    """
    tag, after = decode_prefix(data, position)
    largest, after = decode_prefix(data, after)
    position = after + largest
    while position < end - 1 and data[position] == tag:
        size, after = data[position + 1], position + 2
        if size >= 0x80:
            if after < end and data[after] < 0x80:  # as `decode_prefix`, without a call for each element
                size, after = size & 0x7F | data[after] << 7, position + 3
            else:
                size, after = decode_prefix(data, position + 1)
        after += size
        if after > end:
            break
        if size > largest:
            largest = size
        position = after
    return position, largest


def ends_of_fields(data: Buffer, position: int) -> list[int]:
    """The ends of all fields from `position` on; all have a length, and the last one ends with the data."""
    ends = []
    while position < len(data):
        size, after = data[position + 1], position + 2
        if data[position] >= 0x80 or size >= 0x80:
            _, after = decode_prefix(data, position)
            size, after = decode_prefix(data, after)
        position = after + size
        ends.append(position)
    return ends


def payloads(data: bytes) -> Iterator[bytes]:
    """The payloads of all fields, which have a length each."""
    position = 0
    while position < len(data):
        size, position = decode_prefix(data, decode_prefix(data, position)[1])
        yield data[position : position + size]
        position += size


def end_of_whole_fields(data: Buffer, ending: Container[int] = ()) -> int:
    """The end of the last complete field in `data` before one that begins with a byte of `ending`."""
    stop = 0
    try:
        while stop < len(data) and data[stop] not in ending:
            tag, size, after = data[stop], data[stop + 1], stop + 2
            if 8 <= tag < 0x80 and tag & 7 == _LEN:  # nearly all, so without a call for each
                if size >= 0x80:
                    size, after = decode_prefix(data, stop + 1)
                after += size
            else:
                tag, after = decode_prefix(data, stop)
                after = skip_field(data, after, tag)
            if after > len(data):
                break
            stop = after
    except (IndexError, FormatError):  # cut by the window, or damaged: the decoder decides
        pass
    return stop


def unpack_numbers(data: bytes, number_type: NumberType) -> list[Any]:
    """The numbers in a packed field."""
    if isinstance(number_type, struct.Struct):
        if len(data) % number_type.size:
            raise WireError(f"{len(data)} bytes are not a whole number of {number_type.size}-byte elements")
        return [*struct.unpack(f"<{len(data) // number_type.size}{number_type.format[1:]}", data)]
    values: list[int] = []
    append = values.append
    value = shift = 0
    for byte in data:  # like `decode_varint` and `signed`, without a call for each element: 4 to 8 times as fast
        if byte >= 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift == 7 * MAX_VARINT_BYTES:
                raise VarintError(TOO_LONG)
        elif shift:
            value |= byte << shift
            if value >> 31:
                if value >> 64:
                    raise VarintError(TOO_LARGE)
                value = signed(value, number_type)
            append(value)
            value = shift = 0
        else:
            append(byte)
    if shift:
        raise IndexError("the data ends inside a varint")
    return values


def check_packed(numbers: Source) -> None:
    """Refuse the varints of a packed field if one of them is too long, or the last one is cut.

    Raises: WireError.
    """
    check_end(numbers)
    for start in range(0, numbers.nbytes, BLOCK_BYTES):
        block = numbers.read(start, min(BLOCK_BYTES + MAX_VARINT_BYTES, numbers.nbytes - start))
        if b"\1" * MAX_VARINT_BYTES in block.translate(_IS_CONTINUED):
            raise VarintError(TOO_LONG)


def check_end(numbers: Source) -> None:
    """Refuse the varints of a packed field if the last one is cut.

    Raises: TruncatedError.
    """
    if numbers.nbytes and numbers.read(numbers.nbytes - 1)[0] >= 0x80:
        raise TruncatedError("the last number of a packed field is cut")


def signed(value: int, integer_type: IntegerType) -> int:
    """A varint's value as a number of this type: its low bits, as two's complement."""
    bits, is_signed = integer_type
    value &= (1 << bits) - 1
    return value - (1 << bits) if is_signed and value >> (bits - 1) else value
