"""Tensors as constants of RTen: their types, elements and offsets."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from formats.errors import EncodeError, TensorDataError
from formats.ir.dtypes import DATA_TYPES
from formats.ir.model import SparseTensor, Tensor
from formats.ir.storage import from_numpy
from formats.onnxpb.wire.varints import encode_varint
from formats.rten.graph import constants
from formats.rten.graph.attributes import make_node
from formats.rten.graph.constants import TensorSection, as_rten_constant, densify
from formats.rten.operators.creation import constant_tensor
from formats.rten.types import HOLDERS, RTEN_FLOAT, RTEN_INT8, RTEN_INT32, RTEN_UINT8
from formats.tensordata.sources.source import Literal
from formats.tensordata.sources.transform import casting

INT64 = np.iinfo(np.int64)
CASES = [
    (np.array([[1.5, -2]], np.float32), RTEN_FLOAT, [[1.5, -2]], ""),
    (np.array([1.5, -2, 65504], np.float16), RTEN_FLOAT, [1.5, -2, 65504], "widened"),
    (np.array([1.5, -3e38], ml_dtypes.bfloat16), RTEN_FLOAT, np.array([1.5, -3e38], ml_dtypes.bfloat16), "widened"),
    (np.array([0.1, 1e300], np.float64), RTEN_FLOAT, [0.1, np.inf], "rounded"),
    (np.array([0.5, 448], ml_dtypes.float8_e4m3fn), RTEN_FLOAT, [0.5, 448], "widened"),
    (np.array([0.5, 6, -4], ml_dtypes.float4_e2m1fn), RTEN_FLOAT, [0.5, 6, -4], "widened"),
    (np.array([0.5, 7.5, -1], ml_dtypes.float6_e2m3fn), RTEN_FLOAT, [0.5, 7.5, -1], "widened"),
    (np.array([1, -2], np.int32), RTEN_INT32, [1, -2], ""),
    (np.array([1, -(1 << 31)], np.int64), RTEN_INT32, [1, -(1 << 31)], ""),
    (np.array([INT64.max, INT64.min], np.int64), RTEN_INT32, [(1 << 31) - 1, -(1 << 31)], ""),
    (np.array([INT64.max - 1, 5], np.int64), RTEN_INT32, [(1 << 31) - 1, 5], "clamped"),
    (np.array([*range(16), INT64.max], np.int64), RTEN_INT32, [*range(16), (1 << 31) - 1], ""),
    (np.array([*range(16), INT64.max - 1], np.int64), RTEN_INT32, [*range(16), (1 << 31) - 1], "clamped"),
    (np.array([True, False]), RTEN_INT32, [1, 0], ""),
    (np.array([65535], np.uint16), RTEN_INT32, [65535], ""),
    (np.array([-32768], np.int16), RTEN_INT32, [-32768], ""),
    (np.array([1 << 31, 7], np.uint32), RTEN_INT32, [(1 << 31) - 1, 7], "clamped"),
    (np.array([1 << 63, 7], np.uint64), RTEN_INT32, [(1 << 31) - 1, 7], "clamped"),
    (np.array([-128, 127], np.int8), RTEN_INT8, [-128, 127], ""),
    (np.array([0, 255], np.uint8), RTEN_UINT8, [0, 255], ""),
    (np.array([-8, 7, 3], ml_dtypes.int4), RTEN_INT8, [-8, 7, 3], "widened"),
    (np.array([15, 7, 3], ml_dtypes.uint4), RTEN_UINT8, [15, 7, 3], "widened"),
    (np.array([-2, 1, -1, 0, 1], ml_dtypes.int2), RTEN_INT8, [-2, 1, -1, 0, 1], "widened"),
    (np.zeros((2, 0), np.int64), RTEN_INT32, np.zeros((2, 0)), ""),
    (np.array(7, np.int64), RTEN_INT32, 7, ""),
]


@pytest.mark.parametrize(("array", "element", "values", "change"), CASES, ids=lambda value: str(value)[:20])
def test_convert(array, element, values, change):
    """Elements keep their values in RTen's type, or become the nearest value."""
    constant = as_rten_constant(from_numpy(array, "c"))
    assert (element, array.shape, change) == (constant.element, constant.dims, constant.change)
    wanted = np.asarray(values).astype(element.numpy_name).reshape(array.shape)
    got = np.frombuffer(constant.source.read(), f"<{np.dtype(element.numpy_name).str[1:]}").reshape(array.shape)
    np.testing.assert_array_equal(wanted, got)
    assert constant.source.nbytes == wanted.nbytes


def test_every_type_has_a_holder():
    """Every element type except strings and complex numbers has a type of RTen, and each type of RTen has itself."""
    assert {"STRING", "COMPLEX64", "COMPLEX128"} == {row.name for row in DATA_TYPES if row.number not in HOLDERS}
    assert all(HOLDERS[element.number] is element for element in HOLDERS.values())


@pytest.mark.parametrize("number", [None, 8, 14, 99])
def test_convert_refuses(number):
    """Strings, complex numbers and unknown types are refused."""
    with pytest.raises(EncodeError, match="its element type is"):
        as_rten_constant(Tensor(dims=[1], data_type=number, raw_data=Literal(bytes(8))))


@pytest.mark.parametrize("name", ["int4", "uint2", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e5m2"])
def test_ranges_of_converted_elements(name):
    """Any range of widened elements equals the same range of the whole, even if it begins or ends inside a byte."""
    array = (np.arange(24) % 4).astype(getattr(ml_dtypes, name))
    constant = as_rten_constant(from_numpy(array))
    whole = array.astype(constant.element.numpy_name).tobytes()
    for start in range(0, len(whole) + 1, constant.element.nbytes):
        for end in range(start, len(whole) + 1, 7):
            assert whole[start:end] == constant.source.read(start, end - start)


@pytest.mark.parametrize(
    ("attributes", "values", "number"),
    [
        ({"value": from_numpy(np.array([[1.0]], np.float32))}, [[1.0]], 1),
        ({"value_float": 0.5}, 0.5, 1),
        ({"value_floats": [0.5, 1.0]}, [0.5, 1.0], 1),
        ({"value_int": 7}, 7, 7),
        ({"value_ints": [7, -7]}, [7, -7], 7),
    ],
)
def test_constant_nodes(attributes, values, number):
    """Every form of the Constant operator is a tensor."""
    tensor = constant_tensor(make_node("Constant", [], ["c"], **attributes))
    assert (values, number) == (tensor.numpy().tolist(), tensor.data_type)


def test_constant_node_of_a_string():
    """A string is a constant that cannot be converted."""
    with pytest.raises(EncodeError, match="STRING"):
        as_rten_constant(constant_tensor(make_node("Constant", [], ["c"], value_string="s")))


def test_constant_node_without_value():
    """A Constant node must have a value."""
    with pytest.raises(EncodeError, match="the Constant node of 'c' has no value"):
        constant_tensor(make_node("Constant", [], ["c"]))


@pytest.mark.parametrize("indices", [[1, 5], [[0, 1], [1, 2]]])
def test_densify(indices):
    """The indices of a sparse tensor's values are numbers, or one number for each axis."""
    sparse = SparseTensor(
        values=from_numpy(np.array([3, 4], np.float32), "s"), indices=from_numpy(np.array(indices)), dims=[2, 3]
    )
    dense = densify(sparse)
    assert ("s", [[0, 3, 0], [0, 0, 4]]) == (dense.name, dense.numpy().tolist())


@pytest.mark.parametrize("indices", [[1, 6], [[0, 1], [1, 3]], [1, 2, 3], [0.5, 1]])
def test_densify_refuses(indices):
    """Indices outside of the dims, or another number of indices than values, are an error."""
    sparse = SparseTensor(
        values=from_numpy(np.array([3, 4], np.float32), "s"), indices=from_numpy(np.array(indices)), dims=[2, 3]
    )
    with pytest.raises(TensorDataError, match="not well formed"):
        densify(sparse)


def test_sparse_tensors_have_a_limit():
    """A few bytes cannot make the reader allocate any amount of memory."""
    values, places = from_numpy(np.array([3], np.float32), "s"), from_numpy(np.array([7]))
    with pytest.raises(TensorDataError, match="has 1073741824 elements, too many"):
        densify(SparseTensor(values=values, indices=places, dims=[1 << 15, 1 << 15]))


def test_the_limit_of_sparse_tensors_is_of_bytes(monkeypatch):
    """The limit applies to the bytes of all dense elements, whatever their type."""
    monkeypatch.setattr(constants, "MAX_DENSE_BYTES", 96)
    for dtype, most in ((np.float64, 12), (np.int8, 96)):
        values, places = from_numpy(np.array([3], dtype), "s"), from_numpy(np.array([7]))
        assert (most,) == densify(SparseTensor(values=values, indices=places, dims=[most])).numpy().shape
        with pytest.raises(TensorDataError, match=f"has {most + 1} elements, too many"):
            densify(SparseTensor(values=values, indices=places, dims=[most + 1]))


@pytest.mark.parametrize(("last", "change"), [(3, ""), ((1 << 31) - 1, ""), (-1, ""), (1 << 31, "clamped")])
def test_whether_many_integers_of_a_typed_field_fit(last, change):
    """INT64 elements of a typed field are reported as clamped if one of them, even the last, is beyond 32 bits."""
    numbers = [3] * (1 << 20) + [last]
    typed = Literal(b"\x03" * (1 << 20) + encode_varint(last))
    converted = as_rten_constant(Tensor(dims=[len(numbers)], data_type=7, int64_data=typed))
    assert change == converted.change
    expected = np.clip(np.array(numbers[-9:]), -(1 << 31), (1 << 31) - 1).astype("<i4").tobytes()
    assert converted.source.read(converted.source.nbytes - 36, 36) == expected


def test_sections_align_and_share():
    """Every tensor starts at a multiple of 64 bytes, and a source with the same conversion is stored once."""
    section = TensorSection()
    first, second = Literal(bytes(100)), Literal(bytes(100))
    places = [
        section.place(source, "t")
        for source in (
            first,
            second,
            first,
            casting("float16", "float32").of(first),
            casting("float16", "float32").of(first),
            casting("bfloat16", "float32").of(first),
        )
    ]
    assert places == [0, 128, 0, 256, 256, 512]
    assert section.nbytes == 712
    assert [(1000, 100), (1128, 100), (1256, 200), (1512, 200)] == [
        (write.file_offset, write.source.nbytes) for write in section.writes(1000)
    ]
