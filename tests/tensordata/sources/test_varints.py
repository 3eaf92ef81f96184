"""Any range of a long source of varints equals that range of the whole, and needs only the memory of a few blocks."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.numpy_helper import to_array

from formats import convert, load, verify
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
        assert expected == b"".join(transform.cast(dtype, dtype).of(source).chunks(7 * np.dtype(dtype).itemsize))


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


def typed_model(path: Path, count: int) -> onnx.ModelProto:
    """Write a model with this many floats and integers in typed fields."""
    random = np.random.default_rng(0)
    floats = onnx.TensorProto(name="w", dims=[count], data_type=1, float_data=random.random(count, np.float32))
    integers = onnx.TensorProto(name="i", dims=[count], data_type=7, int64_data=random.integers(-9, 1 << 28, count))
    nodes = [onnx.helper.make_node("Add", ["x", "w"], ["y"]), onnx.helper.make_node("Add", ["k", "i"], ["z"])]
    ends = [
        onnx.helper.make_tensor_value_info(name, kind, [count]) for name, kind in zip("xkyz", (1, 7, 1, 7), strict=True)
    ]
    graph = onnx.helper.make_graph(nodes, "g", ends[:2], ends[2:], [floats, integers])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_operatorsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


def test_typed_data_stream(tmp_path: Path) -> None:
    """Converted typed fields have the numbers that `onnx` reads, and only a small part is in memory at a time."""
    path = tmp_path / "model.onnx"
    expected = [to_array(tensor).tobytes() for tensor in typed_model(path, 2_000_000).graph.initializer]
    typed_model(tmp_path / "small.onnx", 10)
    for source, name in ((tmp_path / "small.onnx", "s"), (path, "m")):
        tracemalloc.start()
        convert(source, tmp_path / f"{name}.rten", threads=2)
        convert(source, tmp_path / f"{name}2.onnx", external_data=True, threads=2)
        assert verify(source, data=True).ok
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 16 << 20
    assert expected == [to_array(tensor).tobytes() for tensor in onnx.load(tmp_path / "m2.onnx").graph.initializer]
    kept = {tensor.name: tensor.numpy() for _, tensor in load(tmp_path / "m.rten").tensors()}
    assert expected[0] == kept["w"].tobytes()
    assert np.array_equal(np.frombuffer(expected[1], "<i8"), kept["i"])
