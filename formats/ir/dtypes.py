"""The ONNX element types: one row each, the only place with their numbers, widths, numpy types and typed fields.

Spec: onnx.proto, `TensorProto.DataType` and the comments of the typed data fields and `raw_data`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np


class DataType(NamedTuple):
    """What is known about one ONNX element type."""

    number: int
    name: str
    bits: int  # an element in raw form; 0 if there is no raw form
    kind: str  # numpy's letter: "f" for floats, "i" and "u" for integers, "b" for BOOL, "c" for complex, "O" for text
    numpy_name: str  # a numpy type, or one of ml_dtypes
    field: str  # the typed field of TensorProto for the elements
    ir_version: int = 1  # the first that has it

    def nbytes(self, dims: Sequence[int]) -> int:
        """The size in bytes of a tensor's raw form: elements narrower than a byte are packed without gaps."""
        return (count(dims) * self.bits + 7) // 8


# The number of each element type under its name.
(
    FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64,
    COMPLEX128, BFLOAT16, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ, UINT4, INT4, FLOAT4E2M1,
    FLOAT8E8M0, UINT2, INT2, FLOAT6E2M3, FLOAT6E3M2,
) = range(1, 29)  # fmt: skip

DATA_TYPES = (
    DataType(FLOAT, "FLOAT", 32, "f", "float32", "float_data"),
    DataType(UINT8, "UINT8", 8, "u", "uint8", "int32_data"),
    DataType(INT8, "INT8", 8, "i", "int8", "int32_data"),
    DataType(UINT16, "UINT16", 16, "u", "uint16", "int32_data"),
    DataType(INT16, "INT16", 16, "i", "int16", "int32_data"),
    DataType(INT32, "INT32", 32, "i", "int32", "int32_data"),
    DataType(INT64, "INT64", 64, "i", "int64", "int64_data"),
    DataType(STRING, "STRING", 0, "O", "object", "string_data"),
    DataType(BOOL, "BOOL", 8, "b", "bool", "int32_data"),
    DataType(FLOAT16, "FLOAT16", 16, "f", "float16", "int32_data"),
    DataType(DOUBLE, "DOUBLE", 64, "f", "float64", "double_data"),
    DataType(UINT32, "UINT32", 32, "u", "uint32", "uint64_data"),
    DataType(UINT64, "UINT64", 64, "u", "uint64", "uint64_data"),
    DataType(COMPLEX64, "COMPLEX64", 64, "c", "complex64", "float_data"),
    DataType(COMPLEX128, "COMPLEX128", 128, "c", "complex128", "double_data"),
    DataType(BFLOAT16, "BFLOAT16", 16, "f", "bfloat16", "int32_data", 4),
    DataType(FLOAT8E4M3FN, "FLOAT8E4M3FN", 8, "f", "float8_e4m3fn", "int32_data", 9),
    DataType(FLOAT8E4M3FNUZ, "FLOAT8E4M3FNUZ", 8, "f", "float8_e4m3fnuz", "int32_data", 9),
    DataType(FLOAT8E5M2, "FLOAT8E5M2", 8, "f", "float8_e5m2", "int32_data", 9),
    DataType(FLOAT8E5M2FNUZ, "FLOAT8E5M2FNUZ", 8, "f", "float8_e5m2fnuz", "int32_data", 9),
    DataType(UINT4, "UINT4", 4, "u", "uint4", "int32_data", 10),
    DataType(INT4, "INT4", 4, "i", "int4", "int32_data", 10),
    DataType(FLOAT4E2M1, "FLOAT4E2M1", 4, "f", "float4_e2m1fn", "int32_data", 11),
    DataType(FLOAT8E8M0, "FLOAT8E8M0", 8, "f", "float8_e8m0fnu", "int32_data", 12),
    DataType(UINT2, "UINT2", 2, "u", "uint2", "int32_data", 13),
    DataType(INT2, "INT2", 2, "i", "int2", "int32_data", 13),
    DataType(FLOAT6E2M3, "FLOAT6E2M3", 6, "f", "float6_e2m3fn", "int32_data", 14),
    DataType(FLOAT6E3M2, "FLOAT6E3M2", 6, "f", "float6_e3m2fn", "int32_data", 14),
)

BY_NUMBER = {row.number: row for row in DATA_TYPES}
BY_NAME = {row.name: row for row in DATA_TYPES}
TYPED_FIELDS = tuple(dict.fromkeys(row.field for row in DATA_TYPES))


def count(dims: Collection[int]) -> int:
    """The number of elements of a tensor, or a number larger than any file if it is larger.

    The exact product of many large dims of a malicious file would take minutes.
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
    """The spec's name of an element type, or a readable text for an unknown number."""
    if not number:
        return "UNDEFINED"
    row = BY_NUMBER.get(number)
    return row.name if row else f"data type {number}"


def dims_shown(dims: Sequence[int]) -> str:
    """The dims of a tensor in a message: at most ten, as a file may state any number of them."""
    return str(list(dims)) if len(dims) < 10 else f"{list(dims[:8])} and {len(dims) - 8} more"


@lru_cache(maxsize=4096)
def numpy_dtype(number: int) -> np.dtype[Any]:
    """The numpy type of an element type, little-endian; types that numpy lacks come from `ml_dtypes`."""
    import numpy

    name = BY_NUMBER[number].numpy_name
    try:
        dtype: np.dtype[Any] = numpy.dtype(name).newbyteorder("<")
    except TypeError:
        import ml_dtypes

        dtype = numpy.dtype(getattr(ml_dtypes, name))
    return dtype


@lru_cache(maxsize=4096)
def from_numpy_dtype(dtype: np.dtype[Any]) -> DataType | None:
    """The row for a numpy type, or `None` if ONNX has none."""
    wanted = "object" if dtype.kind in "OUS" else dtype.newbyteorder("=").name
    return next((row for row in DATA_TYPES if row.numpy_name == wanted), None)
