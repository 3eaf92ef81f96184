"""Tests of the protobuf wire format: rows of values and bytes that are used in both directions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import DecodeError, LimitError, TruncatedError, WireError
from formats.onnxpb.wire.varints import decode_varint, encode_varint, signed, skip_field, unpack_numbers

VARINTS = [
    (0, b"\x00"),
    (1, b"\x01"),
    (127, b"\x7f"),
    (128, b"\x80\x01"),
    (150, b"\x96\x01"),
    ((1 << 32) - 1, b"\xff\xff\xff\xff\x0f"),
    ((1 << 64) - 1, b"\xff" * 9 + b"\x01"),
]


@pytest.mark.parametrize(("value", "data"), VARINTS)
def test_varint_encodes(value: int, data: bytes) -> None:
    """A value has one shortest varint."""
    assert data == encode_varint(value)


@pytest.mark.parametrize(("value", "data"), VARINTS)
def test_varint_decodes(value: int, data: bytes) -> None:
    """A varint is decoded to its value and the position after it."""
    assert (value, len(data) + 1) == decode_varint(b"\x00" + data, 1)


def test_negative_varint_has_ten_bytes() -> None:
    """A negative integer is written as its 64-bit two's complement."""
    assert b"\xff" * 9 + b"\x01" == encode_varint(-1)


def test_padded_varint_is_read() -> None:
    """A varint with unnecessary continuation bytes is legal if it has at most ten bytes."""
    assert (1, 10) == decode_varint(b"\x81" + b"\x80" * 8 + b"\x00", 0)


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02", b"\xff" * 10])
def test_long_varint_is_refused(data: bytes) -> None:
    """More than ten bytes, or more than 64 bits, are not a varint."""
    with pytest.raises(WireError):
        decode_varint(data, 0)


def test_packed_elements_of_fixed_width() -> None:
    """A packed field of floats has one element for each of their widths; a part of one is refused."""
    assert [1.0, -2.5] == unpack_numbers(struct.pack("<2f", 1.0, -2.5), struct.Struct("<f"))
    with pytest.raises(WireError, match="7 bytes are not a whole number of 4-byte elements"):
        unpack_numbers(bytes(7), struct.Struct("<f"))


@given(st.integers(0, (1 << 64) - 1))
def test_varint_round_trip(value: int) -> None:
    """Every 64-bit value is the same after encoding and decoding."""
    assert value == decode_varint(encode_varint(value), 0)[0]


_PIECES = st.sampled_from([encode_varint(value) for value in (0, 1, 127, 128, 1 << 31, 1 << 63, -1)])


@given(
    st.lists(_PIECES | st.binary(max_size=12)).map(b"".join),
    st.sampled_from([(32, True), (64, True), (64, False)]),
)
def test_unpacked_varints_are_those_decoded_alone(data: bytes, width: tuple[int, bool]) -> None:
    """The elements of a packed field are the same as if each were decoded alone, and so is the error."""

    def one_by_one() -> list[int]:
        values, position = [], 0
        while position < len(data):
            value, position = decode_varint(data, position)
            values.append(signed(value, width))
        return values

    try:
        wanted = one_by_one()
    except (WireError, IndexError) as error:
        with pytest.raises(type(error)) as caught:
            unpack_numbers(data, width)
        if isinstance(error, WireError):
            assert str(caught.value) == str(error)
    else:
        assert wanted == unpack_numbers(data, width)


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"\x08\x96\x01", 3),  # varint
        (b"\x09" + bytes(8), 9),  # 64 bits
        (b"\x0a\x03abc", 5),  # length-delimited
        (b"\x0d" + bytes(4), 5),  # 32 bits
        (b"\x0b\x08\x01\x0c", 4),  # a group with a varint in it
        (b"\x0b\x13\x14\x0c", 4),  # a group in a group
    ],
)
def test_skip_field(data: bytes, end: int) -> None:
    """A field of any wire type is skipped completely."""
    tag, position = decode_varint(data, 0)
    assert end == skip_field(data + b"rest", position, tag)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x00", WireError),  # field number 0
        (b"\x0e", WireError),  # wire type 6
        (b"\x0f", WireError),  # wire type 7
        (b"\x0c", WireError),  # an end without a start
        (b"\x0b\x14", WireError),  # the wrong end
        (b"\x0b", TruncatedError),  # a group without an end
        (b"\x0b" * 101, LimitError),
    ],
)
def test_skip_refuses(data: bytes, error: type[DecodeError]) -> None:
    """Bytes that are not a field raise their own kind of error."""
    tag, position = decode_varint(data, 0)
    with pytest.raises(error):
        skip_field(data, position, tag)


def test_groups_nested_to_the_limit_are_skipped() -> None:
    """A hundred nested groups are still legal."""
    data = b"\x0b" * 100 + b"\x0c" * 100
    assert len(data) == skip_field(data, 1, 0x0B)
