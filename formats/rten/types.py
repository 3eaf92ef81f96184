"""The element types of RTen, the ONNX types that each contains, and sets of ONNX types that RTen treats alike.

All of this follows from the rows of `ir/dtypes.py`. Element types are ONNX's numbers.

Spec: RTen, schema.fbs, `DataType` and `ConstantData`; ONNX, `TensorProto.DataType`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir.dtypes import BOOL, BY_NUMBER, DATA_TYPES, DOUBLE, FLOAT, FLOAT16, INT8, INT32, INT64, UINT8

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.ir.dtypes import DataType


class Element(NamedTuple):
    """One element type of RTen with each of its names."""

    number: int  # the ONNX element type that is the same
    nbytes: int
    numpy_name: str
    value_type: str  # `DataType`
    constant_type: str  # `ConstantDataType`
    member: str  # `ConstantData`


RTEN_FLOAT: Final = Element(FLOAT, 4, "float32", "Float", "Float32", "FloatData")
RTEN_INT32: Final = Element(INT32, 4, "int32", "Int32", "Int32", "Int32Data")
RTEN_INT8: Final = Element(INT8, 1, "int8", "Int8", "Int8", "Int8Data")
RTEN_UINT8: Final = Element(UINT8, 1, "uint8", "UInt8", "UInt8", "UInt8Data")

ELEMENTS: Final = (RTEN_FLOAT, RTEN_INT32, RTEN_INT8, RTEN_UINT8)
BY_VALUE_TYPE: Final[Mapping[str, Element]] = {element.value_type: element for element in ELEMENTS}
BY_CONSTANT_TYPE: Final[Mapping[str, Element]] = {element.constant_type: element for element in ELEMENTS}
BY_MEMBER: Final[Mapping[str, Element]] = {element.member: element for element in ELEMENTS}


def _holder(row: DataType) -> Element | None:
    """RTen's type for an ONNX element type: floats of all widths have one, integers of up to 8 bits keep their sign."""
    if row.kind == "f":
        return RTEN_FLOAT
    if row.kind not in "iub":
        return None
    if row.kind == "b" or row.bits > 8:
        return RTEN_INT32
    return RTEN_INT8 if row.kind == "i" else RTEN_UINT8


# RTen's type for each ONNX element type. INT64, UINT32 and UINT64 have values that INT32 lacks, DOUBLE some that FLOAT
# lacks; all others fit exactly. Strings and complex numbers have none.
HOLDERS: Final[Mapping[int, Element]] = {
    **{element.number: element for element in ELEMENTS},  # first, because RTen's types are read as these
    **{row.number: element for row in DATA_TYPES if (element := _holder(row)) is not None},
}
VALUE_TYPES: Final[Mapping[int, str]] = {number: element.value_type for number, element in HOLDERS.items()}

_HELD: Final = tuple(row for row in DATA_TYPES if row.number in HOLDERS)
READ_TYPES: Final = frozenset((*(element.number for element in ELEMENTS), FLOAT16, DOUBLE, INT64, BOOL))  # in ONNX
FLOATS: Final = frozenset(row.number for row in _HELD if row.kind == "f" and row.bits >= 16)  # RTen computes with these
INTS: Final = frozenset(row.number for row in _HELD if HOLDERS[row.number] is RTEN_INT32)
BYTES: Final = frozenset(row.number for row in _HELD if HOLDERS[row.number] in (RTEN_INT8, RTEN_UINT8))
UNSIGNED: Final = frozenset(row.number for row in _HELD if row.kind in "ub")
PARTLY_HELD: Final = frozenset(  # integers with values that INT32 lacks
    row.number for row in _HELD if row.kind in "iu" and row.bits + (row.kind == "u") > 32
)
SIGNED: Final = (INTS | BYTES) - UNSIGNED
FLOAT_TYPES: Final = (0, *sorted(FLOATS))  # values of an attribute for a type that is a float at run time; 0: unset
NOT_NUMBERS: Final = frozenset(row.number for row in DATA_TYPES if row.number not in HOLDERS)

INT32_LIMITS: Final = (-(1 << 31), (1 << 31) - 1)
INT64_LIMITS: Final = (-(1 << 63), (1 << 63) - 1)  # they mean "no limit", as the limits of INT32 do
INT64_MAX: Final = INT64_LIMITS[1]
UNKNOWN_DIMS: Final = (
    "",
    "?",
)  # names that exporters give to unknown dims, any number of times; to RTen they are equal


def width(elem_type: int) -> int:
    """The number of bits that distinguish the values of an integer type."""
    return 1 if elem_type == BOOL else BY_NUMBER[elem_type].bits


def limits(elem_type: int) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    bits = width(elem_type)
    return (0, (1 << bits) - 1) if elem_type in UNSIGNED else (-(1 << bits - 1), (1 << bits - 1) - 1)


def clamp_int32(number: int) -> int:
    """The integer of 32 bits nearest to `number`."""
    return min(max(number, INT32_LIMITS[0]), INT32_LIMITS[1])
