"""Protobuf's JSON mapping: prints and parses any message by the rows of its schema.

`.json`: fields by their names in onnx.proto, integers of 64 bits as strings, bytes in base64, enum values by name, and
numbers that JSON lacks as strings. The input may also have names in camel case, strings instead of numbers and numbers
instead of strings, and either alphabet of base64.

Spec: Protocol Buffers, "ProtoJSON Format"; RFC 8259.
"""

from __future__ import annotations

import base64
import json
import math
import re
import sys
from functools import cache
from operator import index
from typing import TYPE_CHECKING, Any, TypeVar

from formats.codecs.contract import MAX_DEPTH
from formats.errors import DecodeError, EncodeError, FormatError, LimitError
from formats.onnxpb.text.textfile import (
    INTEGER_RANGES,
    Limits,
    enum_name,
    fields_in_order,
    joined,
    locate,
    message_of_fields,
    present_fields,
    shortest,
    to_float,
    wider,
)
from formats.onnxpb.wire.schema import ENUMS
from formats.tensordata.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.onnxpb.wire.schema import MessageField

T = TypeVar("T")


# Printing


def to_json(message: Any) -> str:
    """The message as JSON text.

    Raises: EncodeError if a value does not fit its type or JSON; WireError if a tensor's typed data are damaged.
    """
    return joined(json_parts(message))


def json_parts(message: Any) -> list[str | Source]:
    """The parts of the JSON text of a message: many bytes become text only when their part is read.

    Raises: as `to_json` does.
    """
    output: list[str | Source] = []
    try:
        _print(message, "\n", output)
    except RecursionError:
        raise EncodeError("the model is nested too deeply, or contains itself") from None
    return output


def _print(message: Any, margin: str, output: list[str | Source]) -> None:
    """Append the text of `message` to `output`; `margin` begins each of its lines."""
    inner, before = wider(margin), "{"
    for row, values in present_fields(message):
        output += (before, inner, '"', row.name, '": ')
        before = ","
        _print_field(row, values, inner, output)
    output.append("{}" if before == "{" else f"{margin}}}")


def _print_field(row: MessageField, values: Sequence[Any], margin: str, output: list[str | Source]) -> None:
    inner, before = (wider(margin), "[") if row.label == "repeated" else ("", "")
    printed, value = 0, None
    try:
        for value in values:
            output += (before, inner)
            if row.kind == "message":
                _print(value, inner or margin, output)
            elif isinstance(value, Source):
                output += ('"', _in_base64(value), '"')
            else:
                output.append(json.dumps(_scalar(value, row)))
            before = "," if before else ""
            printed += 1
    except FormatError as error:
        locate(error, row, printed)
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"{row.name} holds {value!r:.80}, which does not fit its type or JSON") from error
    if row.label == "repeated":
        output.append(f"{margin}]" if printed else "[]")


def _scalar(value: Any, row: MessageField) -> Any:
    if row.kind in INTEGER_RANGES:
        number = int(index(value))
        if number not in INTEGER_RANGES[row.kind]:
            raise ValueError(number)
        if row.kind == "enum":
            return enum_name(row.type_name, number) or number
        return number if row.kind == "int32" else str(number)
    if row.kind in ("float", "double"):
        if math.isnan(value):
            return "NaN"
        value = shortest(value) if row.kind == "float" else float(value)
        return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
    if row.kind == "bytes":
        return base64.b64encode(value).decode()
    value.encode()
    return value


def _in_base64(source: Source) -> Source:
    from formats.tensordata.sources.transform import Transform

    return Transform("base64", 3, 4, base64.b64encode).of(source, -(-source.nbytes // 3) * 4)


# Parsing

MAX_DIGITS = 100
MAX_BRACKETS = 1 << 25  # an empty list of two characters needs fifty bytes of memory
LARGEST_DOUBLE = int(sys.float_info.max)
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_URL_ALPHABET = str.maketrans("-_", "+/")


class _Object(tuple[tuple[str, Any], ...]):
    """A JSON object as its members, so that repeated names are noticed."""

    __slots__ = ()


def parse_json(text: str, message_class: type[T], max_depth: int = MAX_DEPTH) -> T:
    """The message that the JSON `text` describes.

    Raises: DecodeError with line and column, or the dotted place, if the text is wrong.
    """
    if text.count("{") + text.count("[") > MAX_BRACKETS:
        raise LimitError(f"the text has more than {MAX_BRACKETS} objects and lists")
    try:
        value = json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse)
    except RecursionError:
        raise LimitError("objects and lists are nested too deeply") from None
    except json.JSONDecodeError as error:
        raise DecodeError(f"the text is not JSON: {error.msg} (line {error.lineno}, column {error.colno})") from None
    except ValueError:
        raise DecodeError("the text is not JSON: a number has thousands of digits") from None
    try:
        message: T = _Parser(max_depth).message(message_class.message, value, 0)  # type: ignore[attr-defined]
    except RecursionError:
        raise LimitError("messages are nested too deeply for this thread") from None
    return message


def _refuse(constant: str) -> None:
    raise DecodeError(f"the text is not JSON: {constant} must be in quotes")


@cache
def _rows_by_name(message: str) -> dict[str, MessageField]:
    """The rows by both forms of their names."""
    rows = {}
    for row in fields_in_order(message):
        first, *others = row.name.split("_")
        rows[first + "".join(word.capitalize() for word in others)] = rows[row.name] = row
    return rows


class _Parser:
    """Converts JSON values to messages, and counts them."""

    def __init__(self, max_depth: int) -> None:
        self.limits = Limits(max_depth)

    def message(self, name: str, value: Any, depth: int) -> Any:
        """The message of this name with the members of an object as its fields."""
        self.limits.enter(depth)
        if not isinstance(value, _Object):
            raise _wrong(f"an object with the fields of {name}", value)
        rows = _rows_by_name(name)
        values: dict[str, list[Any]] = {}
        oneofs: dict[str, str] = {}
        for key, inner in value:
            row = rows.get(key)
            if row is None:
                raise DecodeError(f"{name} has no field {key!r:.80}")
            if row.name in values:
                raise DecodeError(f"{row.name} is there twice")
            if row.oneof and inner is not None and oneofs.setdefault(row.oneof, row.name) != row.name:
                raise DecodeError(f"{row.name} and {oneofs[row.oneof]} exclude each other")
            values[row.name] = [] if inner is None else self.field(row, inner, depth)
        return message_of_fields(name, values)

    def field(self, row: MessageField, value: Any, depth: int) -> list[Any]:
        """The values of a field."""
        if row.label == "repeated" and not isinstance(value, list):
            raise _wrong(f"a list for {row.name}", value)
        values: list[Any] = []
        try:
            for inner in value if row.label == "repeated" else (value,):
                if row.kind == "message":
                    values.append(self.message(row.type_name, inner, depth + 1))
                else:
                    values.append(_parse_scalar(inner, row))
        except FormatError as error:
            locate(error, row, len(values))
            raise
        return values


def _parse_scalar(value: Any, row: MessageField) -> Any:
    if row.kind in INTEGER_RANGES:
        return _parse_integer(value, row)
    if row.kind in ("float", "double"):
        return _parse_float(value, row)
    try:
        if row.kind == "string":
            value.encode()
            return value
        digits = value.translate(_URL_ALPHABET).rstrip("=")
        return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (AttributeError, ValueError):
        raise _wrong("text" if row.kind == "string" else "bytes in base64", value) from None


def _parse_integer(value: Any, row: MessageField) -> int:
    if row.kind == "enum" and isinstance(value, str) and value in ENUMS[row.type_name]:
        return ENUMS[row.type_name][value]
    number: Any = value
    if isinstance(value, str) and len(value) <= MAX_DIGITS and _NUMBER.fullmatch(value):
        number = int(value) if value.lstrip("-").isdecimal() else float(value)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int or number not in INTEGER_RANGES[row.kind]:
        wanted = f"a name of {row.type_name}" if row.kind == "enum" else f"an {row.kind}"
        raise _wrong(wanted, value)
    return number


def _parse_float(value: Any, row: MessageField) -> float:
    if isinstance(value, str):
        if value in _NAMED_NUMBERS:
            return _NAMED_NUMBERS[value]
        number = float(value) if _NUMBER.fullmatch(value) else math.nan
    else:
        number = value if type(value) is float else math.nan
        if type(value) is int and abs(value) < LARGEST_DOUBLE:
            number = float(value)
    number = to_float(number) if row.kind == "float" else number
    if not math.isfinite(number):
        raise _wrong(f'a {row.kind} number, "NaN", "Infinity" or "-Infinity"', value)
    return number


def _wrong(expected: str, value: Any) -> DecodeError:
    """The error to raise if something else was expected."""
    if isinstance(value, (_Object, list)):
        shown = "an object" if isinstance(value, _Object) else "a list"
    else:
        shown = json.dumps(value)
    return DecodeError(f"expected {expected}, found {shown:.80}")
