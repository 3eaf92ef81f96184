"""What can be known about a value: its element type, its dims, and the interval of its numbers.

A dimension is a size, a name that stands for one size in the whole model, or unknown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from formats.ir.model import Dimension, TensorShape, TensorType, Type, ValueInfo

if TYPE_CHECKING:
    from collections.abc import Callable

Dim = int | str | None
Dims = tuple[Dim, ...]


class ValueType(NamedTuple):
    """What is known about a tensor, or about a sequence's tensors: the ONNX number of the element type, and the dims.

    `None` is unknown.
    """

    elem_type: int | None = None
    dims: Dims | None = None


UNKNOWN = ValueType()


MAX_DIM = 1 << 24  # assumption: no axis is longer, and no 64-bit integer from outside is larger


class Interval(NamedTuple):
    """The least and the greatest possible integer of a value, both included; `None` means no limit."""

    least: int | None = None
    greatest: int | None = None

    def holds(self, other: Interval) -> bool:
        """Whether all numbers of another interval are in this one."""
        return all(
            mine is None or (its is not None and sign * its <= sign * mine)
            for mine, its, sign in ((self.least, other.least, -1), (self.greatest, other.greatest, 1))
        )


def union(*intervals: Interval) -> Interval:
    """The smallest interval with all numbers of these, which has no limits if there are none."""
    leasts, greatests = [each.least for each in intervals], [each.greatest for each in intervals]
    return Interval(
        None if None in leasts else min((number for number in leasts if number is not None), default=None),
        None if None in greatests else max((number for number in greatests if number is not None), default=None),
    )


def greatest_of(*intervals: Interval) -> Interval:
    """The interval of the greatest of some numbers, one from each interval."""
    leasts = [each.least for each in intervals if each.least is not None]
    return Interval(max(leasts, default=None), union(*intervals).greatest)


def least_of(*intervals: Interval) -> Interval:
    """The interval of the least of some numbers, one from each interval."""
    greatests = [each.greatest for each in intervals if each.greatest is not None]
    return Interval(union(*intervals).least, min(greatests, default=None))


def corners(function: Callable[[int, int], int], first: Interval, second: Interval) -> Interval:
    """The interval of a function whose extremes are at the ends of both intervals; without limits if one has none."""
    if None in first or None in second:
        return Interval()
    ends = [function(a, b) for a in first for b in second if a is not None and b is not None]
    return Interval(min(ends), max(ends))


def opposite(interval: Interval) -> Interval:
    """The interval of the numbers with the other sign."""
    low, high = interval
    return Interval(None if high is None else -high, None if low is None else -low)


def declared_type(value_type: Type) -> ValueType:
    """The type in a `Type` message of a tensor, of the tensors of a sequence, or of the value of an optional."""
    if value_type.optional_type is not None and value_type.optional_type.elem_type is not None:
        return declared_type(value_type.optional_type.elem_type)
    if value_type.sequence_type is not None:
        inner = value_type.sequence_type.elem_type
        return UNKNOWN if inner is None else declared_type(inner)
    tensor = value_type.tensor_type
    if tensor is None:
        return UNKNOWN
    shape = tensor.shape
    dims = None if shape is None else tuple(_declared_dim(dim.dim_value, dim.dim_param) for dim in shape.dim)
    return ValueType(tensor.elem_type or None, dims)


def element_type(value_type: Type | None) -> int:
    """The element type of a tensor, of a sequence's tensors, or of an optional's value; 0 if unknown."""
    return (declared_type(value_type).elem_type or 0) if value_type is not None else 0


def nameless(value_type: ValueType) -> ValueType:
    """The type without names of dimensions, which may have another meaning outside of a subgraph."""
    elem_type, shape = value_type
    return ValueType(elem_type, None if shape is None else tuple(d if isinstance(d, int) else None for d in shape))


def _declared_dim(value: int | None, name: str | None) -> Dim:
    if value is not None:
        return value if value >= 0 else None
    return name or None


def merged_type(inferred: ValueType, declared: ValueType | None) -> ValueType:
    """What was inferred; what was not comes from the declaration."""
    if declared is None or inferred == declared:
        return inferred
    elem_type = inferred.elem_type or declared.elem_type
    if inferred.dims is None:
        return ValueType(elem_type, declared.dims)
    if declared.dims is None or len(declared.dims) != len(inferred.dims):
        return ValueType(elem_type, inferred.dims)
    return ValueType(elem_type, tuple(map(_merge_dim, inferred.dims, declared.dims)))


def _merge_dim(inferred: Dim, declared: Dim) -> Dim:
    if inferred is None or (isinstance(declared, int) and not isinstance(inferred, int)):
        return declared
    return inferred


def completed(value: ValueInfo, inferred: ValueType) -> ValueInfo:
    """A subgraph's output, completed with the type that inference inferred, if it does not declare a type itself."""
    elem_type, dims = inferred
    declared = UNKNOWN if value.type is None else declared_type(value.type)
    # The type of a sequence or an optional is not made of parts that inference knows.
    if value.type is not None and value.type.tensor_type is None and declared.elem_type:
        return value
    # Names of dims may have another meaning outside of the subgraph.
    sizes = None if dims is None else tuple(dim if isinstance(dim, int) else None for dim in dims)
    stated = None if declared.dims is None else tuple(dim if isinstance(dim, int) else None for dim in declared.dims)
    if elem_type is None or (declared.elem_type and (sizes is None or sizes == stated)):
        return value
    shape = None if sizes is None else TensorShape(dim=[Dimension(dim_value=size) for size in sizes])
    return replace(value, type=Type(tensor_type=TensorType(elem_type=elem_type, shape=shape)))
