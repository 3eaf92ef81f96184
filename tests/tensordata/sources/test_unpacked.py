"""Numbers in typed fields that are written one by one are read as by protobuf, as fast as packed ones."""

from __future__ import annotations

import pickle
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx.numpy_helper import to_array

from formats import convert, diff, inspect, load, verify
from formats.errors import DecodeError
from formats.ir.model import Tensor
from formats.onnxpb.wire import decoder
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources import transform
from formats.tensordata.sources import unpacked as unpacked_module
from formats.tensordata.sources.source import Literal, Source
from formats.tensordata.sources.unpacked import UnpackedNumbers, unpacked
from tests.onnxpb.protos import Watched, encoded

FLOAT, INT32, INT64, DOUBLE, UINT64 = 0x25, 0x28, 0x38, 0x51, 0x58
FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")

number = st.one_of(st.integers(0, 300), st.integers(0, 1 << 28), st.integers(-(1 << 63), (1 << 63) - 1))
overlong = st.tuples(st.integers(0, 100), st.integers(2, 10)).map(
    lambda pair: bytes(pair[0] >> 7 * n & 0x7F | 0x80 for n in range(pair[1] - 1)) + b"\0"
)
varint = st.one_of(number.map(encode_varint), overlong)


def behind(tag: int, values: list[bytes]) -> bytes:
    """Return each value after the tag."""
    return b"".join(bytes((tag,)) + value for value in values)


piece = st.one_of(
    st.tuples(st.just(FLOAT), st.lists(st.binary(min_size=4, max_size=4), max_size=20)).map(lambda pair: behind(*pair)),
    st.tuples(st.just(DOUBLE), st.lists(st.binary(min_size=8, max_size=8), max_size=9)).map(lambda pair: behind(*pair)),
    st.tuples(st.sampled_from([INT32, INT64, UINT64]), st.lists(varint, max_size=20)).map(lambda pair: behind(*pair)),
    st.lists(varint, max_size=8).map(b"".join).map(lambda data: b"\x3a" + encode_varint(len(data)) + data),
    st.sampled_from([b"\x08\x05", b"\x10\x07", b"\x42\x01n", b"\xb8\x00\x05", b"\xf8\x3f\x01", b"\x22\x04abcd"]),
)
tensor_bytes = st.lists(piece, max_size=8).map(b"".join)
broken = st.sampled_from(
    [
        behind(INT64, [b"\x80" * 10 + b"\x01"]),
        behind(INT64, [b"\xff" * 9 + b"\x02"]),
        behind(INT64, [b"\x05", b"\x80"]),
        behind(FLOAT, [b"abc"]),
        behind(DOUBLE, [b"abcdefg"]),
        b"\x3a\x05\x01",
        b"",
    ]
)


def in_pieces(patch: pytest.MonkeyPatch, block_bytes: int) -> None:
    """Leave even a few elements in the source, in blocks of this size."""
    patch.setattr(unpacked_module, "LEAST_BYTES", 1)
    patch.setattr(unpacked_module, "BLOCK_BYTES", block_bytes)
    patch.setattr(decoder, "BULK_BYTES", 0)


def outcome(data: bytes, patch: pytest.MonkeyPatch, block_bytes: int, window: int | None) -> Tensor | str:
    """Return the tensor, with its elements left in the source if there are blocks, or the error with its place."""
    if block_bytes:
        in_pieces(patch, block_bytes)
    source: Source = Literal(data)
    if window:
        source = Watched(data)
        patch.setattr(decoder, "WHOLE_BYTES", 0)
        patch.setattr(decoder, "WINDOW_BYTES", window)
    try:
        return decode(source, Tensor)
    except DecodeError as error:
        return str(error)


@settings(max_examples=300)
@example(b"", behind(INT64, [b"\x05"] * 9 + [b"\x80"]), b"")
@example(b"%\0\0\0\0" * 2, b":\x05\x01", b"")
@given(tensor_bytes, broken, tensor_bytes)
def test_what_is_left_is_what_is_decoded(before: bytes, damage: bytes, after: bytes) -> None:
    """In any mixture of fields, valid or damaged, with blocks or without, the tensor or the error is the same."""
    data = before + damage + after
    for block_bytes, window in ((20, None), (64, None), (1 << 15, None), (20, 16), (64, 40)):
        with pytest.MonkeyPatch.context() as patch:
            plain = outcome(data, patch, 0, window)
        with pytest.MonkeyPatch.context() as patch:
            found = outcome(data, patch, block_bytes, window)
            if isinstance(plain, str):
                assert plain == found
                continue
            assert isinstance(found, Tensor)
            for name in FIELDS:
                one, other = (getattr(tensor, name) for tensor in (plain, found))
                assert (one and one.read()) == (other and other.read())
            assert encoded(plain) == encoded(found)
            if not damage:  # it may look like lengths with more bytes than protobuf accepts
                assert onnx.TensorProto.FromString(data) == onnx.TensorProto.FromString(encoded(found))


@settings(max_examples=200)
@given(
    st.sampled_from([(FLOAT, 4), (DOUBLE, 8), (INT64, 0)]), st.lists(number, min_size=1), st.integers(20, 90), st.data()
)
def test_any_range(kind: tuple[int, int], numbers: list[int], block_bytes: int, data: st.DataObject) -> None:
    """Any range gives the right bytes, whatever blocks it is in, also for elements of a fixed width."""
    tag, width = kind
    values = [struct.pack("<q", value)[:width] if width else encode_varint(value) for value in numbers]
    payload = b"".join(values)
    with pytest.MonkeyPatch.context() as patch:
        in_pieces(patch, block_bytes)
        rest = data.draw(st.sampled_from([b"", b"\x42\x01n", bytes((tag,)), b"\x80\x80"]))
        source = unpacked(
            Literal(b"head" + behind(tag, values) + rest), 4, 4 + len(behind(tag, values) + rest), tag, width
        )
        assert source is not None
        assert len(behind(tag, values)) == source.source.nbytes
        start = data.draw(st.integers(0, len(payload)))
        stop = data.draw(st.integers(start, len(payload)))
        assert payload[start:stop] == source.read(start, stop - start) == source.slice(start, stop - start).read()
        assert payload == bytes(source.view()) == b"".join(source.chunks(block_bytes))
        assert payload == pickle.loads(pickle.dumps(source)).read()
        if not width:
            patch.setattr(transform, "VARINT_BLOCK_BYTES", block_bytes)
            elements = transform.varints("int64").of(source, 8 * len(numbers))
            expected = struct.pack(f"<{len(numbers)}q", *numbers)
            start, stop = start % (len(expected) + 1), stop % (len(expected) + 1)
            assert expected == elements.read() == bytes(elements.view())
            assert expected[start:stop] == elements.read(start, max(stop - start, 0))


def test_few_and_wrong_ones_are_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short lists, and those with a tag of two bytes, are decoded one by one."""
    few = behind(FLOAT, [b"abcd"] * 100)
    assert unpacked(Literal(few), 0, len(few), FLOAT, 4) is None
    in_pieces(monkeypatch, 1 << 15)
    two = b"\xb8\x00\x05" * 100
    assert unpacked(Literal(two), 0, len(two), INT64, 0) is None


def test_short_lists_are_not_read_as_long_ones() -> None:
    """Very many short lists, each long enough to stay in the source, need few more reads than one long list."""
    floats, integers = behind(FLOAT, [b"abcd"] * 1000), behind(INT64, [b"\x05"] * 3000)
    source = Watched((floats + integers) * 20 + b"\x42\x01n" + bytes(1 << 20))
    position = 0
    for _ in range(20):
        for tag, width in ((FLOAT, 4), (INT64, 0)):
            found = unpacked(source, position, source.nbytes, tag, width)
            assert found is not None
            position += found.source.nbytes
    assert position == 20 * len(floats + integers)
    assert source.nbytes_read < 6 * position


def typed_tensors(count: int, packed: bool) -> Iterator[tuple[str, bytes, np.ndarray]]:  # type: ignore[type-arg]
    """Yield the name, the bytes and the elements of a tensor of floats and of one of integers in typed fields."""
    random = np.random.default_rng(0)
    floats = random.random(count, np.float32)
    integers = random.integers(-9, 1 << 30, count)
    if packed:
        tensor = onnx.TensorProto(name="w", dims=[count], data_type=1, float_data=floats)
        yield "w", tensor.SerializeToString(), floats
        tensor = onnx.TensorProto(name="i", dims=[count], data_type=7, int64_data=integers)
        yield "i", tensor.SerializeToString(), integers
        return
    pairs = np.zeros(count, np.dtype([("tag", "u1"), ("value", "<f4")]))
    pairs["tag"], pairs["value"] = FLOAT, floats
    head = onnx.TensorProto(name="w", dims=[count], data_type=1).SerializeToString()
    yield "w", head + pairs.tobytes(), floats
    head = onnx.TensorProto(name="i", dims=[count], data_type=7).SerializeToString()
    yield "i", head + behind(INT64, [encode_varint(value) for value in integers.tolist()]), integers


@pytest.mark.parametrize(("packed", "count", "most_mib"), [(True, 2_000_000, 16), (False, 1_000_000, 24)])
def test_typed_fields_stream(tmp_path: Path, packed: bool, count: int, most_mib: int) -> None:
    """Converted typed fields have the numbers that `onnx` reads, and only a small part is in memory at a time."""
    made = list(typed_tensors(count, packed))
    ends = [
        onnx.helper.make_tensor_value_info(name, kind, [count]) for name, kind in zip("xkyz", (1, 7, 1, 7), strict=True)
    ]
    nodes = [onnx.helper.make_node("Add", ["x", "w"], ["y"]), onnx.helper.make_node("Add", ["k", "i"], ["z"])]
    graph = onnx.helper.make_graph(nodes, "g", ends[:2], ends[2:]).SerializeToString()
    graph += b"".join(b"\x2a" + encode_varint(len(data)) + data for _, data, _ in made)
    model = onnx.helper.make_model(
        onnx.GraphProto(), opset_imports=[onnx.helper.make_operatorsetid("", 17)], ir_version=8
    )
    model.ClearField("graph")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString() + b"\x3a" + encode_varint(len(graph)) + graph)
    tracemalloc.start()
    convert(path, tmp_path / "packed.onnx", threads=2)
    convert(path, tmp_path / "m.rten", threads=2)
    convert(path, tmp_path / "external.onnx", external_data=True, threads=2)
    convert(path, tmp_path / "m.onnxz", threads=2)
    assert verify(path, data=True).ok
    assert [count, count] == [tensor.dims[0] for tensor in inspect(path).tensors]
    assert diff(path, tmp_path / "packed.onnx").equal
    assert diff(path, tmp_path / "m.onnxz").equal
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most_mib << 20
    for name in ("packed.onnx", "external.onnx"):
        for tensor, (_, _, expected) in zip(onnx.load(tmp_path / name).graph.initializer, made, strict=True):
            assert np.array_equal(to_array(tensor), expected)
    assert packed or isinstance(next(load(path).tensors())[1].float_data, UnpackedNumbers)
    kept = {tensor.name: tensor.numpy() for _, tensor in load(tmp_path / "m.rten").tensors()}
    for name, _, expected in made:
        assert np.array_equal(kept[name], expected)
