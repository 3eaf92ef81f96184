"""Entries of external data stay undecoded, in little memory; otherwise they are as in protobuf, also damaged ones."""

from __future__ import annotations

import tracemalloc

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.errors import FormatError
from formats.ir.model import Tensor
from formats.ir.storage import entries_of, with_raw_data
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.sources.source import Literal
from tests.onnxpb.protos import encoded

ENTRY, KEY, VALUE = b"\x6a", b"\n", b"\x12"


def field(tag: bytes, payload: bytes, size: bytes = b"") -> bytes:
    """Return a field with a length, which has this encoding if one is given."""
    return tag + (size or bytes([len(payload)])) + payload


def entry(key: bytes, value: bytes) -> bytes:
    """Return an entry as most writers encode it."""
    return field(ENTRY, field(KEY, key) + field(VALUE, value))


USUAL = entry(b"location", b"w.bin") + entry(b"offset", b"4096") + entry(b"length", b"64")
UNUSUAL = (
    b"",
    field(KEY, b"location"),
    field(VALUE, b"w.bin"),
    field(VALUE, b"w.bin") + field(KEY, b"location"),
    field(KEY, b"a") + field(KEY, b"b") + field(VALUE, b"c"),
    field(KEY, b"a") + field(VALUE, b"c") + field(VALUE, b"d"),
    field(KEY, b"location") + field(VALUE, "ö".encode()),
    field(KEY, b"location") + field(VALUE, b"w.bin") + b"\x78\x05",
    field(KEY, b"location", b"\x88\0") + field(VALUE, b"w.bin"),
    b"\x8a\0\x01k" + field(VALUE, b"w.bin"),
)
pieces = st.one_of(
    st.sampled_from([b"", *USUAL.split(ENTRY)[1:]]).map(lambda piece: piece and ENTRY + piece),
    st.tuples(st.text(max_size=9), st.text(max_size=9)).map(lambda texts: entry(*map(str.encode, texts))),
    st.sampled_from(UNUSUAL).map(lambda payload: field(ENTRY, payload)),
    st.sampled_from(
        [field(ENTRY, field(KEY, b"k" * 200, b"\xc8\x01"), b"\xcb\x01"), field(b"\x42", b"name"), b"\x70\x01"]
    ),
    st.just(200 * entry(b"k", b"v")),
)


@given(st.lists(pieces, max_size=6).map(b"".join))
def test_entries_are_those_of_protobuf(data: bytes) -> None:
    """Whatever encoding entries have, and whatever is between them, they are read and written as protobuf does."""
    expected = onnx.TensorProto.FromString(data)
    found = [
        (one.key if one.HasField("key") else None, one.value if one.HasField("value") else None)
        for one in expected.external_data
    ]
    tensor = decode(Literal(data), Tensor)
    assert found == entries_of(tensor)
    assert expected == onnx.TensorProto.FromString(encoded(tensor))
    assert found == [(one.key, one.value) for one in tensor.external_data]
    assert expected == onnx.TensorProto.FromString(encoded(tensor))


def test_usual_entries_stay_undecoded() -> None:
    """Asking for them decodes none; a tensor with other elements, and one whose list was read, has no old ones."""
    tensor = decode(Literal(USUAL), Tensor)
    assert [("location", "w.bin"), ("offset", "4096"), ("length", "64")] == entries_of(tensor)
    assert "external_data" not in vars(tensor)
    assert with_raw_data(tensor, Literal(b"")) == Tensor(raw_data=Literal(b""))
    tensor.external_data[0].value = "other.bin"
    del tensor.external_data[1:]
    assert [("location", "other.bin")] == entries_of(tensor)
    assert encoded(tensor) == entry(b"location", b"other.bin")


def outcome(data: bytes, max_depth: int) -> object:
    """Return the tensor in the bytes, or the error."""
    try:
        return decode(Literal(data), Tensor, max_depth)
    except FormatError as error:
        return type(error), str(error), error.where, error.file_offset


@pytest.mark.parametrize("max_depth", [0, 100])
def test_damage_is_the_same_error(max_depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are cut, changed or too deep are the error that they are if all entries are decoded at once."""
    damaged = [USUAL[:stop] for stop in range(len(USUAL))]
    damaged += [USUAL[:at] + bytes([new]) + USUAL[at + 1 :] for at in range(len(USUAL)) for new in (0, 9, 0x7F, 0xFF)]
    found = [outcome(data, max_depth) for data in damaged]
    monkeypatch.setattr(decoder, "PLACE_BYTES", 0)
    assert found == [outcome(data, max_depth) for data in damaged]


def test_a_reference_takes_little_memory() -> None:
    """A tensor with three undecoded entries takes less than half of what it takes with three messages."""
    tensors = []
    tracemalloc.start()
    try:
        tensors += [decode(Literal(USUAL), Tensor) for _ in range(1000)]
        undecoded, _ = tracemalloc.get_traced_memory()
        assert all(tensor.external_data for tensor in tensors)
        decoded, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert undecoded < decoded / 2
