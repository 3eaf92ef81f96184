"""Matrices in blocks of integers have the bytes that onnxruntime's quantiser makes, whatever range is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnxruntime.capi import _pybind_state
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantizer

from formats.errors import TensorDataError
from formats.tensordata.sources.block_quantization import Blocks, Part
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from formats.tensordata.sources.source import Source

SIZES = [(64, 8, 32), (128, 16, 32), (100, 7, 32), (64, 5, 16), (256, 3, 128), (33, 3, 16), (33, 2, 16), (100, 4, 32)]
TYPES = ["float32", "float16"]


def matrix(rows: int, columns: int, dtype: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Numbers of different sizes: columns of zeros, without negative numbers, of halves, and next to halves."""
    rng = np.random.default_rng(rows * columns)
    array = rng.standard_normal((rows, columns)) * rng.choice([1e-3, 1, 30])
    if columns > 3:
        array[:, 1], array[:, 2], array[:, 3] = 0, np.abs(array[:, 2]), np.round(array[:, 3] * 2) / 2
    array = array.astype(dtype)
    if columns > 4:  # their scale is 1
        halves = np.round(rng.uniform(-7, 7, rows)) + 0.5
        array[:, 4] = np.nextafter(halves.astype(dtype), rng.choice([-8, 0, 8], rows).astype(dtype))
        array[::16, 4] = -8
    return array


def pieces_of(source: Source) -> bytes:
    """The bytes of a source, read as the engine reads them: granule by granule."""
    step = source.granule_bytes
    return b"".join(source.read(offset, min(step, source.nbytes - offset)) for offset in range(0, source.nbytes, step))


def check(array: np.ndarray[Any, Any], blocks: Blocks, wanted: dict[Part, np.ndarray[Any, Any]]) -> None:
    """Compare each part of a quantised matrix."""
    rows, columns = array.shape
    floats = Literal(np.ascontiguousarray(array).tobytes())
    for part, values in wanted.items():
        if blocks.symmetric and part is Part.ZERO_POINTS:
            continue
        source = blocks.of(floats, array.dtype.name, (rows, columns), part)
        assert pieces_of(source) == source.read() == bytes(source.view()) == values.tobytes(), part
        assert source.slice(1, source.nbytes - 2).read() == values.tobytes()[1:-1]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("size", SIZES)
def test_products(size: tuple[int, int, int], bits: int, symmetric: bool, dtype: str) -> None:
    """Integers, scales and zero points for MatMulNBits are those of onnxruntime, from a matrix and its transpose."""
    rows, columns, block = size
    array = matrix(rows, columns, dtype)
    count = -(-rows // block)
    integers = np.zeros((columns, count, block * bits // 8), "uint8")
    zeros = np.zeros((columns, -(-count * bits // 8)), "uint8")
    scales = np.zeros((columns, count), dtype)
    quantize = getattr(_pybind_state, f"quantize_matmul_{bits}bits")
    padded = np.pad(array, ((0, count * block - rows), (0, 0)))
    quantize(integers, padded, scales, zeros, block, columns, rows, symmetric)
    wanted = {Part.INTEGERS: integers, Part.SCALES: scales, Part.ZERO_POINTS: zeros}
    check(array, Blocks(bits, block, 0, symmetric, by_line=True), wanted)
    check(array.T, Blocks(bits, block, 1, symmetric, by_line=True), wanted)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_matrices(size: tuple[int, int, int], symmetric: bool, dtype: str) -> None:
    """The matrices for DequantizeLinear are those of onnxruntime."""
    rows, columns, block = size
    array = matrix(rows, columns, dtype)
    count = -(-rows // block)
    integers, zeros = np.zeros((rows * columns + 1) // 2, "uint8"), np.zeros((columns * count + 1) // 2, "uint8")
    scales = np.zeros((count, columns), dtype)
    _pybind_state.quantize_qdq_matmul_4bits(integers, array, scales, zeros, block, columns, rows, symmetric)
    wanted = {Part.INTEGERS: integers, Part.SCALES: scales, Part.ZERO_POINTS: zeros}
    check(array, Blocks(4, block, 0, symmetric), wanted)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("size", SIZES)
def test_tables(size: tuple[int, int, int], axis: int, symmetric: bool, dtype: str) -> None:
    """Tables for GatherBlockQuantized are those of onnxruntime."""
    rows, columns, block = size
    array = matrix(rows, columns, dtype)
    array[array == 0] = 0.001  # the sign of a zero in its scales depends on the machine
    parts = DefaultWeightOnlyQuantizer.quantize_ndarray(array, axis, block, symmetric)
    wanted = dict(zip((Part.INTEGERS, Part.SCALES, Part.ZERO_POINTS), parts, strict=True))
    check(array, Blocks(4, block, axis, symmetric, divides=True), wanted)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("symmetric", [True, False])
def test_matrices_of_8_bits(symmetric: bool, axis: int) -> None:
    """With 8 bits, what DequantizeLinear makes of a matrix is nearer than half a step, and short blocks are right."""
    array = matrix(100, 70, "float32")
    blocks = Blocks(8, 32, axis, symmetric)
    integers, scales, zeros = (
        np.frombuffer(blocks.of(Literal(array.tobytes()), "float32", array.shape, part).read(), kind)
        for part, kind in zip(Part, ("int8" if symmetric else "uint8", "float32", "uint8"), strict=True)
    )
    dims = (4, 70) if axis == 0 else (100, 3)
    scale = np.repeat(scales.reshape(dims), 32, axis)[:100, :70]
    zero = 0.0 if symmetric else np.repeat(zeros.reshape(dims), 32, axis)[:100, :70].astype("float32")
    again = (integers.reshape(array.shape) - zero) * scale
    step = 1.01 if symmetric else 0.51  # the largest number of a symmetric block may have no integer of its own
    assert (np.abs(again - array) <= np.abs(scale) * step).all()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 3e38])
def test_what_has_no_scale_is_refused(number: float) -> None:
    """A number that is not finite, or a difference that no float32 holds, is an error, not other numbers."""
    array = np.ones((64, 2), "float32")
    array[3, 1], array[4, 1] = number, -3e38
    source = Blocks(4, 32, 0, symmetric=False, by_line=True).of(
        Literal(array.tobytes()), "float32", (64, 2), Part.SCALES
    )
    with pytest.raises(TensorDataError, match="cannot be quantised"):
        source.read()
    assert list(source.doubtful()) == [source]
