"""Transforms compared with numpy, onnx and plain Python."""

from __future__ import annotations

import struct
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

from formats.errors import TruncatedError
from formats.tensordata.sources import transform
from formats.tensordata.sources.source import Concat, Literal


def encode_varint(value: int) -> bytes:
    """Return a varint, computed in plain Python; negative numbers are 64-bit two's complement."""
    value &= 2**64 - 1
    output = bytearray()
    while value > 0x7F:
        output.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(output) + bytes([value])


@pytest.mark.parametrize(
    ("from_dtype", "to_dtype"),
    [
        ("float16", "float32"),
        ("float64", "float32"),
        ("bool", "int32"),
        ("int16", "int32"),
        ("uint16", "int32"),
        ("int8", "int32"),
        ("uint8", "int32"),
    ],
)
@given(data=st.binary(max_size=200))
def test_cast_is_numpys(from_dtype: str, to_dtype: str, data: bytes) -> None:
    """A cast gives the same as numpy for every pattern of bits, without a warning."""
    array = np.frombuffer(data[: len(data) // 8 * 8], from_dtype)
    with np.errstate(all="ignore"):
        expected = array.astype(to_dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = transform.casting(from_dtype, to_dtype).of(Literal(array.tobytes()))
        assert expected.nbytes == source.nbytes
        result = np.frombuffer(source.read(), to_dtype)
    np.testing.assert_array_equal(expected, result)


def test_cast_of_a_too_large_double_is_infinite() -> None:
    """Numbers that float32 cannot express become infinite without a warning, and others are rounded to the nearest."""
    doubles = np.array([1e300, -1e300, 0.1, np.pi, np.nan])
    result = np.frombuffer(transform.casting("float64", "float32").of(Literal(doubles.tobytes())).read(), "<f4")
    np.testing.assert_array_equal(np.float32([np.inf, -np.inf, 0.1, np.pi, np.nan]), result)


def test_cast_of_halves_is_numpys() -> None:
    """Every float16 becomes the same bits as in numpy."""
    halves = np.arange(1 << 16, dtype="<u2")
    expected = halves.view("<f2").astype("<f4").tobytes()
    many = transform.casting("float16", "float32").of(Literal(halves.tobytes() * 5))
    assert 5 * expected == many.read() == bytes(many.view())


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("transform_of", "from_dtype"),
    [
        *((transform.casting, dtype) for dtype in ("float16", "bfloat16", "float64", "bool", "int16")),
        *((transform.clamp, dtype) for dtype in ("int64", "uint64", "uint32")),
    ],
)
@given(data=st.data())
def test_any_elements_of_a_conversion(transform_of: Any, from_dtype: str, data: st.DataObject) -> None:
    """Any range of converted elements is that of the whole, with steps of any size and at any address."""
    converted = transform_of(from_dtype, "float32" if "float" in from_dtype else "int32")
    elements = data.draw(st.binary(min_size=1, max_size=200)) * 8
    source = converted.of(Literal(elements))
    whole = converted.apply(elements).tobytes()
    start = data.draw(st.integers(0, len(whole) // 4)) * 4
    stop = data.draw(st.integers(start // 4, len(whole) // 4)) * 4
    lead = data.draw(st.integers(0, 3))
    buffer = memoryview(bytearray(lead + stop - start))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transform, "STEP_ELEMENTS", data.draw(st.sampled_from([1, 3, 1 << 17])))
        source.readinto(start, buffer[lead:])
    assert whole[start:stop] == buffer[lead:]


@pytest.mark.filterwarnings("error")
def test_casts_warn_of_nothing() -> None:
    """Numbers that are too large, and signalling not-a-numbers, are cast without a warning of numpy."""
    numbers = struct.pack("<d", 1e300) + bytes.fromhex("010000000000f07f")
    result = np.frombuffer(transform.casting("float64", "float32").of(Literal(numbers)).read(), "<f4")
    assert np.isinf(result[0])
    assert np.isnan(result[1])


def test_cast_of_bfloat16_is_that_of_ml_dtypes() -> None:
    """All 65,536 values of bfloat16 are widened without loss."""
    bits = np.arange(2**16, dtype=np.uint16)
    result = np.frombuffer(transform.casting("bfloat16", "float32").of(Literal(bits.tobytes())).read(), "<f4")
    np.testing.assert_array_equal(bits.view(ml_dtypes.bfloat16).astype(np.float32), result)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int64", [-(2**63), -(2**31) - 1, -(2**31), -1, 0, 2**31 - 1, 2**31, 2**63 - 1], None),
        ("uint32", [0, 2**31 - 1, 2**31, 2**32 - 1], None),
        ("uint64", [0, 2**31 - 1, 2**31, 2**64 - 1], None),
        ("int16", [-(2**15), 2**15 - 1], None),
    ],
)
def test_clamp_saturates(dtype: str, values: list[int], expected: list[int] | None) -> None:
    """An integer outside of int32 becomes the nearest limit."""
    expected = [min(max(value, -(2**31)), 2**31 - 1) for value in values]
    data = np.array(values, dtype).tobytes()
    assert expected == np.frombuffer(transform.clamp(dtype, "int32").of(Literal(data)).read(), "<i4").tolist()


@pytest.mark.parametrize(
    ("data_type", "values", "dtype"),
    [
        (TensorProto.INT32, [1, -1, 2**31 - 1, -(2**31)], "uint32"),
        (TensorProto.FLOAT16, [0, 1, 0x3C00, 0xFFFF], "uint16"),
        (TensorProto.BFLOAT16, [0, 1, 0x3F80, 0xFFFF], "uint16"),
        (TensorProto.INT8, [0, -128, 127, -1], "uint8"),
        (TensorProto.BOOL, [1, 0, 1], "uint8"),
    ],
)
def test_varints_as_onnx_decodes_them(data_type: int, values: list[int], dtype: str) -> None:
    """The packed `int32_data` of a tensor gives the raw bytes of the array that onnx makes from it."""
    tensor = TensorProto(data_type=data_type, dims=[len(values)], int32_data=values)
    packed = b"".join(map(encode_varint, values))
    assert packed in tensor.SerializeToString()
    assert numpy_helper.to_array(tensor).tobytes() == bytes(transform.varints(dtype).apply(packed))


@pytest.mark.parametrize(
    ("data_type", "dtype", "bits"),
    [
        (TensorProto.UINT4, ml_dtypes.uint4, 4),
        (TensorProto.INT4, ml_dtypes.int4, 4),
        (TensorProto.FLOAT4E2M1, ml_dtypes.float4_e2m1fn, 4),
        (TensorProto.UINT2, ml_dtypes.uint2, 2),
        (TensorProto.INT2, ml_dtypes.int2, 2),
        (getattr(TensorProto, "FLOAT6E2M3", None), ml_dtypes.float6_e2m3fn, 6),
        (getattr(TensorProto, "FLOAT6E3M2", None), ml_dtypes.float6_e3m2fn, 6),
    ],
)
@given(codes=st.binary(max_size=30))
def test_packing_as_onnx_does_it(data_type: int | None, dtype: Any, bits: int, codes: bytes) -> None:
    """Packed elements are onnx's raw data, and unpacked elements are the bytes of `ml_dtypes`."""
    if data_type is None:
        pytest.skip(f"needs an onnx with FLOAT6, not {onnx.__version__}")
    elements = np.frombuffer(bytes(code & (1 << bits) - 1 for code in codes), np.uint8)
    packed = numpy_helper.from_array(elements.view(dtype)).raw_data
    source = transform.bit_packing(bits).of(Literal(elements.tobytes()), len(packed))
    assert packed == source.read()
    assert elements.tolist() == transform.unpacked_elements(packed, bits, len(elements)).tolist()


def test_packing_ignores_the_high_bits() -> None:
    """Only the low bits of a byte are used."""
    assert bytes(transform.bit_packing(4).apply(b"\xf1\xf2\xf3")) == b"\x21\x03"


@pytest.mark.parametrize(("bits", "count"), [(2, 5), (4, 3), (6, 2)])
def test_unpacking_too_little(bits: int, count: int) -> None:
    """Fewer elements than requested are an error."""
    with pytest.raises(TruncatedError):
        transform.unpacked_elements(b"\x00", bits, count)


@given(st.data())
def test_any_range_of_a_transform(data: st.DataObject) -> None:
    """A range of a transformed source is the same range of the transformed bytes, wherever it starts and ends."""
    raw = data.draw(st.binary(min_size=8, max_size=64).map(lambda value: value[: len(value) // 8 * 8]))
    raw = bytes(byte & 0x7F for byte in raw)
    source = data.draw(
        st.sampled_from(
            [
                transform.casting("float16", "float32").of(Literal(raw)),
                transform.clamp("int64", "int32").of(Concat.of(Literal(raw[:3]), Literal(raw[3:]))),
                transform.bit_packing(6).of(Literal(raw)),
                transform.varints("int32").of(Literal(raw), len(raw) * 4),
                transform.casting("int16", "int32").of(transform.varints("int16").of(Literal(raw), len(raw) * 2)),
            ]
        )
    )
    start = data.draw(st.integers(0, source.nbytes))
    nbytes = data.draw(st.integers(0, source.nbytes - start))
    assert bytes(source.view())[start : start + nbytes] == source.read(start, nbytes)
    assert source.slice(start, nbytes).read() == source.read(start, nbytes)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("int64", [3, -(2**63), 5], (-(2**63), 5)),
        ("uint64", [3, 2**64 - 1], (3, 2**64 - 1)),
        ("float64", [1.0, float("nan"), -2.0, 1e300], (-2.0, 1e300)),
        ("float16", [0.5, 2.0], (0.5, 2.0)),
        ("bool", [True, True], (True, True)),
        ("int32", [], (0, 0)),
    ],
)
def test_range_of(dtype: str, values: list[Any], expected: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The least and the greatest element are found, even in different blocks."""
    source = Literal(np.array(values, dtype).tobytes())
    assert expected == transform.range_of(source, dtype)
    monkeypatch.setattr(transform, "BLOCK_BYTES", 8)
    assert expected == transform.range_of(source, dtype)


def test_range_of_bfloat16() -> None:
    """For bfloat16, the range is that of the numbers."""
    source = Literal(np.array([1.5, -3.0], ml_dtypes.bfloat16).tobytes())
    assert (-3.0, 1.5) == transform.range_of(source, "bfloat16")


def test_range_of_a_whole_is_read_once() -> None:
    """A transform that needs its whole input runs once, not once for each block."""
    calls = []

    def apply(data: Any) -> bytes:
        calls.append(len(data))
        return bytes(data)

    whole = transform.Transform("whole", 0, 0, apply).of(Literal(bytes(3 << 20)), 3 << 20)
    assert transform.range_of(transform.casting("int8", "int16").of(whole), "int16") == (0, 0)
    assert calls == [3 << 20]


def test_transforms_are_equal_by_name() -> None:
    """Two requests for a transform return the same object."""
    assert transform.casting("float16", "float32") is transform.casting("float16", "float32")
