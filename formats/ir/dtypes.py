"""The ONNX element types: one row each, the only place that knows a number, a width, a numpy type or a typed field.

Spec: onnx.proto, `TensorProto.DataType` and the comments of the typed data fields and `raw_data`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


class DataType(NamedTuple):
    """What is known of one ONNX element type."""

    number: int
    name: str
    bits: int  # an element in raw form; 0 where there is no raw form
    numpy_name: str  # a numpy type, or one of ml_dtypes
    field: str  # the typed field of TensorProto that may hold the elements

    def nbytes(self, dims: Sequence[int]) -> int:
        """The size in bytes of a tensor's raw form: elements narrower than a byte are packed without gaps."""
        return (count(dims) * self.bits + 7) // 8


DATA_TYPES = (
    DataType(1, "FLOAT", 32, "float32", "float_data"),
    DataType(2, "UINT8", 8, "uint8", "int32_data"),
    DataType(3, "INT8", 8, "int8", "int32_data"),
    DataType(4, "UINT16", 16, "uint16", "int32_data"),
    DataType(5, "INT16", 16, "int16", "int32_data"),
    DataType(6, "INT32", 32, "int32", "int32_data"),
    DataType(7, "INT64", 64, "int64", "int64_data"),
    DataType(8, "STRING", 0, "object", "string_data"),
    DataType(9, "BOOL", 8, "bool", "int32_data"),
    DataType(10, "FLOAT16", 16, "float16", "int32_data"),
    DataType(11, "DOUBLE", 64, "float64", "double_data"),
    DataType(12, "UINT32", 32, "uint32", "uint64_data"),
    DataType(13, "UINT64", 64, "uint64", "uint64_data"),
    DataType(14, "COMPLEX64", 64, "complex64", "float_data"),
    DataType(15, "COMPLEX128", 128, "complex128", "double_data"),
    DataType(16, "BFLOAT16", 16, "bfloat16", "int32_data"),
    DataType(17, "FLOAT8E4M3FN", 8, "float8_e4m3fn", "int32_data"),
    DataType(18, "FLOAT8E4M3FNUZ", 8, "float8_e4m3fnuz", "int32_data"),
    DataType(19, "FLOAT8E5M2", 8, "float8_e5m2", "int32_data"),
    DataType(20, "FLOAT8E5M2FNUZ", 8, "float8_e5m2fnuz", "int32_data"),
    DataType(21, "UINT4", 4, "uint4", "int32_data"),
    DataType(22, "INT4", 4, "int4", "int32_data"),
    DataType(23, "FLOAT4E2M1", 4, "float4_e2m1fn", "int32_data"),
    DataType(24, "FLOAT8E8M0", 8, "float8_e8m0fnu", "int32_data"),
    DataType(25, "UINT2", 2, "uint2", "int32_data"),
    DataType(26, "INT2", 2, "int2", "int32_data"),
    DataType(27, "FLOAT6E2M3", 6, "float6_e2m3fn", "int32_data"),
    DataType(28, "FLOAT6E3M2", 6, "float6_e3m2fn", "int32_data"),
)

BY_NUMBER = {row.number: row for row in DATA_TYPES}
BY_NAME = {row.name: row for row in DATA_TYPES}
TYPED_FIELDS = tuple(dict.fromkeys(row.field for row in DATA_TYPES))


def count(dims: Sequence[int]) -> int:
    """The number of elements of a tensor, or some number beyond any file's where it is that many.

    The product of many large dims would take a crafted file minutes.
    """
    if 0 in dims:
        return 0
    product = 1
    for dim in dims:
        product *= dim
        if abs(product) >> 80:
            break
    return product


def type_name(number: int | None) -> str:
    """The spec's name of an element type, or a readable stand-in for a number that this version does not know."""
    if not number:
        return "UNDEFINED"
    row = BY_NUMBER.get(number)
    return row.name if row else f"data type {number}"


@cache
def numpy_dtype(number: int) -> np.dtype[Any]:
    """The numpy type of an element type, little-endian; those numpy lacks come from `ml_dtypes`."""
    import numpy

    name = BY_NUMBER[number].numpy_name
    try:
        dtype: np.dtype[Any] = numpy.dtype(name).newbyteorder("<")
    except TypeError:
        import ml_dtypes

        dtype = numpy.dtype(getattr(ml_dtypes, name))
    return dtype


@cache
def from_numpy_dtype(dtype: np.dtype[Any]) -> DataType | None:
    """The row for a numpy type, or `None` where ONNX has none."""
    wanted = "object" if dtype.kind in "OUS" else dtype.newbyteorder("=").name
    return next((row for row in DATA_TYPES if row.numpy_name == wanted), None)
