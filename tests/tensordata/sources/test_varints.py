"""Any range of a long source of varints equals that range of the whole, and needs only the memory of a few blocks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.errors import TensorDataError, WireError
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources import transform
from formats.tensordata.sources.source import Literal

values = st.one_of(st.integers(0, 200), st.integers(0, 1 << 30), st.integers(-(1 << 63), (1 << 63) - 1))


def long_source(
    patch: pytest.MonkeyPatch, data: bytes, count: int, block_bytes: int, dtype: str = "int64"
) -> transform.Varints:
    """Return the elements in blocks of this size."""
    patch.setattr(transform, "VARINT_BLOCK_BYTES", block_bytes)
    source = transform.varints(dtype).of(Literal(data), count * np.dtype(dtype).itemsize)
    assert isinstance(source, transform.Varints)
    return source


@settings(max_examples=100)
@given(
    st.lists(values, min_size=1, max_size=60),
    st.integers(10, 60),
    st.sampled_from(["int64", "uint32", "uint8"]),
    st.data(),
)
def test_any_range(numbers: list[int], block_bytes: int, dtype: str, data: st.DataObject) -> None:
    """Any range gives the right bytes, whatever blocks it is in, and wherever in an element it begins."""
    expected = np.array([number & 0xFFFF_FFFF_FFFF_FFFF for number in numbers], np.uint64).astype(dtype).tobytes()
    packed = b"".join(map(encode_varint, numbers))
    with pytest.MonkeyPatch.context() as patch:
        source = long_source(patch, packed, len(numbers), block_bytes, dtype)
        assert expected == source.read() == bytes(source.view())
        start = data.draw(st.integers(0, len(expected)))
        stop = data.draw(st.integers(start, len(expected)))
        assert expected[start:stop] == source.read(start, stop - start)
        assert expected == pickle.loads(pickle.dumps(source)).read()
        assert expected == b"".join(transform.casting(dtype, dtype).of(source).chunks(7 * np.dtype(dtype).itemsize))


@pytest.mark.parametrize("block_bytes", [10, 30, 1000])
@pytest.mark.parametrize("wrong", [b"\x80" * 10 + b"\x01", b"\xff" * 30 + b"\x01"])
def test_too_long(block_bytes: int, wrong: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A varint of more than ten bytes is an error for the first reader of any range, in whatever block it is."""
    data = b"\x01\xac\x02" * 20 + wrong + b"\x03" * 20
    for start, nbytes in ((0, 8), (8 * 40, 8), (0, 8 * 61)):
        with pytest.raises(WireError, match="more than 10 bytes"):
            long_source(monkeypatch, data, 61, block_bytes).read(start, nbytes)


@pytest.mark.parametrize("count", [1, 39, 41, 1000])
def test_another_number_than_there_should_be(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More or fewer elements than the shape says are an error when the first range is read, wherever it is."""
    source = long_source(monkeypatch, b"\x01\xac\x02" * 20, count, 16)
    for read in (lambda: source.read(0, 8), source.read, source.view):
        with pytest.raises(TensorDataError, match="bytes, not"):
            read()


def test_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A last varint without an end is an error, too."""
    with pytest.raises(WireError, match="is incomplete"):
        long_source(monkeypatch, b"\x01" * 20 + b"\x80", 20, 16).read(0, 8)
