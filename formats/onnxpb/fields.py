"""The fields of any message as plain values, for the formats that people can read.

A field that the IR keeps as a `Source` is a list of numbers or a string of bytes here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.errors import DecodeError, LimitError
from formats.ir.model import MESSAGE_CLASSES, Model
from formats.onnxpb.codec import MAX_DEPTH, MAX_MESSAGES
from formats.onnxpb.schema import ENUMS, MESSAGES, Field
from formats.onnxpb.wire import encode_varint
from formats.tensordata.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

INTEGER_RANGES = {
    "int32": range(-(1 << 31), 1 << 31),
    "enum": range(-(1 << 31), 1 << 31),
    "int64": range(-(1 << 63), 1 << 63),
    "uint64": range(1 << 64),
}
_FLOAT_TYPES = {"float": "<f4", "double": "<f8"}
_FLOAT = struct.Struct("<f")
_CLASSES = {cls.message: cls for cls in MESSAGE_CLASSES}


# From messages


@cache
def rows_of(message: str) -> tuple[Field, ...]:
    """The rows of a message in the order of field numbers, in which fields are written."""
    return tuple(sorted(MESSAGES[message]))


def present_fields(message: Any) -> Iterator[tuple[Field, Sequence[Any]]]:
    """The fields that are there, each with its values: as many as it has, or one where it is not repeated.

    Raises: WireError where typed data of a tensor are not what they should be.
    """
    for row in rows_of(message.message):
        value = getattr(message, row.name)
        if isinstance(value, Source):
            value = _from_source(value, row)
        elif row.label != "repeated" and value is not None:
            value = (value,)
        if value:
            yield row, value


def _from_source(source: Source, row: Field) -> Sequence[Any]:
    """The bytes of a field, or its numbers."""
    if row.kind == "bytes":
        return (source.read(),)
    import numpy as np

    if row.kind in _FLOAT_TYPES:
        data: Any = np.frombuffer(source.view(), _FLOAT_TYPES[row.kind])
    else:
        from formats.tensordata.transform import varints

        data = varints(row.kind).apply(source.view())
    return data.tolist()  # type: ignore[no-any-return]


@cache
def enum_name(enum: str, number: int) -> str | None:
    """The name of an enum's value, if it has one."""
    return next((name for name, value in ENUMS[enum].items() if value == number), None)


def shortest(value: float) -> float:
    """The number with the fewest decimal digits, but 6 at least, that is `value` when it is rounded to 32 bits."""
    for digits in range(6, 9):
        rounded = float(f"{value:.{digits}g}")
        if to_float(rounded) == value:
            return rounded
    return float(f"{value:.9g}")


def to_float(value: float) -> float:
    """The nearest number of 32 bits; one that is too large for that becomes infinite."""
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


# To messages


def build(message: str, values: Mapping[str, Sequence[Any]]) -> Any:
    """The message with these fields; of one that is not repeated, the last value counts."""
    arguments: dict[str, Any] = {}
    in_place = _fields_in_place(message)
    for row in rows_of(message):
        found = values.get(row.name)
        if found is None:
            continue
        if row.name in in_place:
            arguments[row.name] = _to_source(found, row)
        else:
            arguments[row.name] = list(found) if row.label == "repeated" else found[-1]
    return _CLASSES[message](**arguments)
