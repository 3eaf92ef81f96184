"""The four element types of RTen, and which of ONNX's each holds.

Spec: RTen 0.25.0, schema.fbs, `DataType` and `ConstantData`; ONNX, `TensorProto.DataType`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Element(NamedTuple):
    """One element type of RTen under each of its names."""

    number: int  # the ONNX element type that is the same
    nbytes: int
    numpy_name: str
    value_type: str  # `DataType`
    constant_type: str  # `ConstantDataType`
    member: str  # `ConstantData`


FLOAT: Final = Element(1, 4, "float32", "Float", "Float32", "FloatData")
INT32: Final = Element(6, 4, "int32", "Int32", "Int32", "Int32Data")
INT8: Final = Element(3, 1, "int8", "Int8", "Int8", "Int8Data")
UINT8: Final = Element(2, 1, "uint8", "UInt8", "UInt8", "UInt8Data")

ELEMENTS: Final = (FLOAT, INT32, INT8, UINT8)
BY_VALUE_TYPE: Final[Mapping[str, Element]] = {element.value_type: element for element in ELEMENTS}
BY_CONSTANT_TYPE: Final[Mapping[str, Element]] = {element.constant_type: element for element in ELEMENTS}
BY_MEMBER: Final[Mapping[str, Element]] = {element.member: element for element in ELEMENTS}

# What holds an ONNX element type, the same type first. INT64, UINT32 and UINT64 have values that INT32 has not, DOUBLE
# some that FLOAT has not; all others fit exactly. Strings and complex numbers have no place.
HOLDERS: Final[Mapping[int, Element]] = {
    **{element.number: element for element in ELEMENTS},
    **dict.fromkeys((10, 11, 16, 17, 18, 19, 20, 23, 24, 27, 28), FLOAT),  # FLOAT16, DOUBLE, BFLOAT16, eight bits, ...
    **dict.fromkeys((7, 9, 4, 5, 12, 13), INT32),  # INT64, BOOL, UINT16, INT16, UINT32, UINT64
    **dict.fromkeys((22, 26), INT8),  # INT4, INT2
    **dict.fromkeys((21, 25), UINT8),  # UINT4, UINT2
}

INT32_LIMITS: Final = (-(1 << 31), (1 << 31) - 1)
INT64_LIMITS: Final = (-(1 << 63), (1 << 63) - 1)  # stand for "no limit", which the limits of INT32 say as well


def clamp_int32(number: int) -> int:
    """The integer of 32 bits nearest to `number`."""
    return min(max(number, INT32_LIMITS[0]), INT32_LIMITS[1])
