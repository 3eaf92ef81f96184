"""The constants of a .rten file in the element types that ONNX requires; nothing is read before it is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from formats.ir.dtypes import BOOL, INT32, INT64
from formats.ir.storage import with_raw_data
from formats.rten.types import INT32_LIMITS, INT64_LIMITS
from formats.tensordata.sources.transform import Transform, cast, range_of

if TYPE_CHECKING:
    from formats.ir.model import Tensor
    from formats.tensordata.sources.transform import Buffer


def _truths(data: Buffer) -> Any:
    return (np.frombuffer(data, "<i4") != 0).view(np.uint8)


def _bounds(data: Buffer) -> Any:
    array = np.frombuffer(data, "<i4").astype("<i8")
    for limit, widest in zip(INT32_LIMITS, INT64_LIMITS, strict=True):
        array[array == limit] = widest
    return array.view(np.uint8)


_TO_BOOL: Final = Transform("int32 to bool", 4, 1, _truths)
_TO_BOUNDS: Final = Transform("int32 to int64, limits to limits", 4, 8, _bounds)


def converted(tensor: Tensor, elem_type: int | None, *, bounds: bool = False) -> Tensor:
    """An INT32 tensor converted to INT64 or BOOL; any other tensor unchanged.

    If the integers are `bounds` of slices, the least and greatest INT32 become the least and greatest INT64.
    """
    if tensor.data_type != INT32 or elem_type not in (INT64, BOOL):
        return tensor
    transform = _TO_BOOL if elem_type == BOOL else _TO_BOUNDS if bounds else cast("int32", "int64")
    return replace(with_raw_data(tensor, transform.of(tensor.source())), data_type=elem_type)


def is_truth(tensor: Tensor) -> bool:
    """Whether all elements of an INT32 tensor are zero or one."""
    least, greatest = range_of(tensor.source(), "int32")
    return bool(least >= 0 and greatest <= 1)


def has_limits(tensor: Tensor) -> bool:
    """Whether an INT32 tensor contains the least or the greatest integer, which mean "no bound"."""
    least, greatest = range_of(tensor.source(), "int32")
    return bool(least == INT32_LIMITS[0] or greatest == INT32_LIMITS[1])
