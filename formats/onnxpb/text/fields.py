"""The fields of any message as plain values, for the formats that people can read.

A field that the IR keeps as a `Source` is a list of numbers or a string of bytes here.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from formats.codecs.contract import DEEPEST
from formats.errors import FormatError, LimitError, WireError
from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS
from formats.onnxpb.wire.decoder import MAX_MESSAGES
from formats.onnxpb.wire.schema import ENUMS, MESSAGES, MessageField
from formats.onnxpb.wire.varints import encode_varint
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_MARGIN = 40  # spaces: 20 levels
INTEGER_RANGES = {
    "int32": range(-(1 << 31), 1 << 31),
    "enum": range(-(1 << 31), 1 << 31),
    "int64": range(-(1 << 63), 1 << 63),
    "uint64": range(1 << 64),
}
_NUMPY_CODES = {"float": "<f4", "double": "<f8", "int32": "<i4", "int64": "<i8", "uint64": "<u8"}
_FLOAT = struct.Struct("<f")
# The bits of the only NaN that a text has, by the kind of a field.
NANS = {"float": "0x7fc00000", "double": "0x7ff8000000000000"}
CLASSES = {cls.message: cls for cls in MESSAGE_CLASSES}


# From messages


@cache
def rows_of(message: str) -> tuple[MessageField, ...]:
    """The rows of a message in the order of field numbers, in which fields are written."""
    return tuple(sorted(MESSAGES[message]))


def wider(margin: str) -> str:
    """The margin of lines that are one level deeper; the deepest levels share one, or the margins alone would be text.

    A model can have hundreds of levels, so each of its bytes could become hundreds of spaces.
    """
    return margin if len(margin) > MAX_MARGIN else f"{margin}  "


def present_fields(message: Any) -> Iterator[tuple[MessageField, Sequence[Any]]]:
    """The fields that are set, each with its values: one value if the field is not repeated.

    Raises: WireError if typed data of a tensor are damaged.
    """
    for row in rows_of(message.message):
        value = getattr(message, row.name)
        if isinstance(value, Source):
            value = _read(value, row)
        elif row.label != "repeated" and value is not None:
            value = (value,)
        if value:
            yield row, value


def _read(source: Source, row: MessageField) -> Sequence[Any]:
    """The bytes of a field, or its numbers."""
    if row.kind == "bytes":
        return (source.read(),)
    import numpy as np

    from formats.tensordata.sources.transform import varints

    data = source.view()
    dtype = np.dtype(_NUMPY_CODES[row.kind])
    try:
        if row.kind in INTEGER_RANGES:
            data = varints(row.kind).apply(data)
        elif len(data) % dtype.itemsize:
            raise WireError(f"{len(data)} bytes are not a whole number of {dtype.itemsize}-byte elements")
    except FormatError as error:
        error.where = row.name
        raise
    return np.frombuffer(data, dtype).tolist()  # type: ignore[no-any-return]


@cache
def enum_name(enum: str, number: int) -> str | None:
    """The name of an enum's value, if it has one."""
    return next((name for name, value in ENUMS[enum].items() if value == number), None)


def shortest(value: float) -> float:
    """The number with the fewest decimal digits, but at least 6, that is equal to `value` when rounded to 32 bits."""
    value = to_float(value)
    for digits in range(6, 9):
        rounded = float(f"{value:.{digits}g}")
        if to_float(rounded) == value:
            return rounded
    return float(f"{value:.9g}")


def to_float(value: float) -> float:
    """The nearest number of 32 bits; a number that is too large becomes infinite.

    Raises: TypeError if it is not a number.
    """
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    except struct.error as error:
        raise TypeError(str(error)) from None


def other_nans(value: Any, row: MessageField) -> int:
    """The number of NaNs in a field whose bits are not those of the NaN that a text has."""
    if isinstance(value, Source):
        return _other_nans(value, row.kind)
    code = {"float": ">f", "double": ">d"}[row.kind]
    nans = [number for number in (value if isinstance(value, list) else (value,)) if number != number]
    return sum(f"0x{struct.pack(code, number).hex()}" != NANS[row.kind] for number in nans)


def _other_nans(source: Source, kind: str) -> int:
    """The same, of the packed numbers of a tensor."""
    import numpy as np

    numbers = np.frombuffer(source.view(), _NUMPY_CODES[kind])
    bits = numbers.view(f"<u{numbers.itemsize}")
    return int(np.count_nonzero(np.isnan(numbers) & (bits != int(NANS[kind], 16))))


# To messages


def build(message: str, values: Mapping[str, Sequence[Any]]) -> Any:
    """The message with these fields; a field that is not repeated has one value."""
    in_place = SOURCE_FIELDS[message]
    arguments: dict[str, Any] = {}
    for row in rows_of(message):
        if found := values.get(row.name):
            if row.name in in_place:
                arguments[row.name] = Literal(_packed(found, row))
            else:
                arguments[row.name] = list(found) if row.label == "repeated" else found[0]
    return CLASSES[message](**arguments)


def _packed(values: Sequence[Any], row: MessageField) -> bytes:
    if row.kind == "bytes":
        return values[0]  # type: ignore[no-any-return]
    if row.kind in INTEGER_RANGES:
        return b"".join(map(encode_varint, values))
    return struct.pack(f"<{len(values)}{'f' if row.kind == 'float' else 'd'}", *values)


class Limits:
    """The number of messages that were begun, and its limit."""

    __slots__ = ("max_depth", "messages")

    def __init__(self, max_depth: int) -> None:
        self.max_depth = max_depth
        self.messages = 0

    def enter(self, depth: int) -> None:
        """Count a message that is nested in `depth` others.

        Raises: LimitError.
        """
        self.messages += 1
        if depth > self.max_depth:
            raise LimitError(f"messages are nested more than {self.max_depth} deep; `max_depth` allows up to {DEEPEST}")
        if self.messages > MAX_MESSAGES:
            raise LimitError(f"the file holds more than {MAX_MESSAGES} messages")


def step_of(row: MessageField, index: int) -> str:
    """The step of a dotted place that leads to the value `index` of the field `row`."""
    return f"{row.name}[{index}]" if row.label == "repeated" else row.name


def locate(error: FormatError, row: MessageField, index: int) -> None:
    """Add the place to an error in the value `index` of the field `row`, for the message around it."""
    step = step_of(row, index)
    error.where = f"{step}.{error.where}" if error.where else step
