"""Protobuf's text format: any message printed from its rows, and parsed by them.

`.textproto`: the input may be everything that the specification allows for messages without extensions: comments, `{}`
and `<>`, lists in `[]`, strings in parts, all escapes. Strings that are not UTF-8 are printed with escapes.

Spec: Protocol Buffers, "Text Format Language Specification".
"""

from __future__ import annotations

import re
from functools import cache
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from formats.codecs.contract import MAX_DEPTH
from formats.errors import DecodeError, EncodeError, FormatError, LimitError
from formats.onnxpb.text.textfile import (
    INTEGER_RANGES,
    PIECE_BYTES,
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
    from collections.abc import Callable, Iterator, Sequence

    from formats.onnxpb.wire.schema import MessageField
    from formats.tensordata.sources.transform import Buffer

    Scalar: TypeAlias = Callable[[Any, MessageField], Iterator[str | Source]]

T = TypeVar("T")


# Printing

_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_BYTES = [chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}" for byte in range(256)]
_BYTES = [_SHORT_ESCAPES.get(chr(byte), text) for byte, text in enumerate(_BYTES)]
# In strings, only ASCII is escaped, and bytes that are not UTF-8.
_CHARACTERS = {code: _BYTES[code] for code in range(128)} | {0xDC00 + byte: _BYTES[byte] for byte in range(128, 256)}


def to_text(message: Any, is_shown: bool = False) -> str:
    """The message as text, in the form of protobuf's files, or as its native code shows a message to people.

    What is shown has the shortest floats without a fraction if that is zero, and no numbers that an enum does not have.

    Raises: EncodeError if a value does not fit its type; WireError if a tensor's typed data are damaged.
    """
    return joined(_parts(message, _shown if is_shown else _printed))


def text_parts(message: Any) -> list[str | Source]:
    """The parts of the text of a message: many bytes become text only when their part is read.

    Raises: as `to_text` does.
    """
    return _parts(message, _printed)


def _parts(message: Any, scalar: Scalar) -> list[str | Source]:
    output: list[str | Source] = []
    try:
        _print(message, "", output, scalar)
    except RecursionError:
        raise EncodeError("the model is nested too deeply, or contains itself") from None
    return output


def _print(message: Any, indent: str, output: list[str | Source], scalar: Scalar) -> None:
    """Append the lines of `message` to `output`."""
    for row, values in present_fields(message):
        if scalar is _shown and row.kind == "enum":
            values = [value for value in values if value in ENUMS[row.type_name].values()]
        _print_field(row, values, indent, output, scalar)


def _print_field(
    row: MessageField, values: Sequence[Any], indent: str, output: list[str | Source], scalar: Scalar
) -> None:
    printed, value = 0, None
    try:
        for value in values:
            if row.kind == "message":
                output.append(f"{indent}{row.name} {{\n")
                _print(value, wider(indent), output, scalar)
                output.append(f"{indent}}}\n")
            else:
                output += (indent, row.name, ": ", *scalar(value, row), "\n")
            printed += 1
    except FormatError as error:
        locate(error, row, printed)
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(f"{row.name} holds {value!r:.80}, which does not fit its type") from error


def _printed(value: Any, row: MessageField) -> Iterator[str | Source]:
    """A scalar as text, in parts."""
    if row.kind in INTEGER_RANGES:
        number = int(index(value))
        if number not in INTEGER_RANGES[row.kind]:
            raise ValueError(number)
        yield (row.type_name and enum_name(row.type_name, number)) or str(number)
    elif row.kind == "float":
        yield str(shortest(value))
    elif row.kind == "double":
        yield str(float(value))
    else:
        yield '"'
        if row.kind == "string":
            text = value.translate(_CHARACTERS)
            text.encode()
            yield text
        elif isinstance(value, Source):
            yield from _escaped_pieces(value)
        else:
            yield _escaped(value)
        yield '"'


def _escaped(data: Buffer) -> str:
    return "".join(map(_BYTES.__getitem__, data))


def _escaped_bytes(data: Buffer) -> bytes:
    return _escaped(data).encode()


def _escaped_pieces(source: Source) -> Iterator[Source]:
    """The text of many bytes, in pieces; now, only their sizes are found out."""
    import numpy as np

    from formats.tensordata.sources.transform import Transform

    escape = Transform("escape", 0, 0, _escaped_bytes)
    sizes = np.array([len(text) for text in _BYTES])
    for start in range(0, source.nbytes, PIECE_BYTES):
        piece = source.slice(start, min(PIECE_BYTES, source.nbytes - start))
        counts = np.bincount(np.frombuffer(piece.read(), np.uint8), minlength=len(_BYTES))
        yield escape.of(piece, int(counts @ sizes))


def _shown(value: Any, row: MessageField) -> Iterator[str | Source]:
    """A scalar as text, in parts, with floats in the form of C."""
    if row.kind in ("float", "double"):
        few, enough, rounded = (6, 9, to_float) if row.kind == "float" else (15, 17, float)
        text = f"{value:.{few}g}"
        yield text if rounded(float(text)) == value or value != value else f"{value:.{enough}g}"
    else:
        yield from _printed(value, row)


# Parsing

_BLANK = re.compile(r"[ \t\r\n\f\v]*")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\.?[0-9][A-Za-z0-9_.]*(?:(?<=[eE])[+-][A-Za-z0-9_.]*)?")
_INTEGER = re.compile(r"0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)")
_FLOAT = re.compile(r"(?!0[0-9])((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fF]?")
_NAMED_FLOAT = re.compile(r"inf(?:inity)?|nan", re.IGNORECASE)
MAX_DIGITS = 100
_CLOSING = {"{": "}", "<": ">"}


def parse_text(text: str, message_class: type[T], max_depth: int = MAX_DEPTH) -> T:
    """The message that `text` describes.

    Raises: DecodeError with line and column, and the dotted place, if the text is wrong.
    """
    parser = _Parser(text, max_depth)
    try:
        message: T = parser.message(message_class.message, "", 0)  # type: ignore[attr-defined]
    except RecursionError:
        raise LimitError("messages are nested too deeply for this thread") from None
    return message


@cache
def _rows_by_name(message: str) -> dict[str, MessageField]:
    return {row.name: row for row in fields_in_order(message)}


class _Parser:
    """A place in a text, and the token there: a word, a number, one other character, or "" at the end."""

    def __init__(self, text: str, max_depth: int) -> None:
        self.text = text
        self.limits = Limits(max_depth)
        self.token = ""
        self.start = self.position = 0  # the start of the token, and of the text after it
        self.advance()

    def advance(self) -> None:
        """Go to the next token; spaces and comments are skipped."""
        text, position = self.text, self.position
        while True:
            match = _BLANK.match(text, position)
            position = match.end() if match else position
            if not text.startswith("#", position):
                break
            end = text.find("\n", position)
            position = end if end >= 0 else len(text)
        word = _WORD.match(text, position)
        self.token = word[0] if word else text[position : position + 1]
        self.start, self.position = position, position + len(self.token)

    def take(self, token: str) -> bool:
        """Whether the token is this one; if so, skip it."""
        if self.token != token:
            return False
        self.advance()
        return True

    def error(self, expected: str) -> DecodeError:
        """The error to raise if something else was expected at the token."""
        shown = repr(self.token) if self.token else "the end of the text"
        return self.error_at(self.start, f"expected {expected}, found {shown:.80}")

    def error_at(self, position: int, problem: str) -> DecodeError:
        """The error to raise for a problem at some position of the text."""
        line = self.text.count("\n", 0, position) + 1
        column = position - self.text.rfind("\n", 0, position)
        return DecodeError(f"{problem} (line {line}, column {column})")

    def message(self, name: str, end: str, depth: int) -> Any:
        """The message whose fields start at the token and end at the token `end`, which is skipped."""
        self.limits.enter(depth)
        rows = _rows_by_name(name)
        values: dict[str, list[Any]] = {}
        oneofs: dict[str, str] = {}
        while self.token != end:
            row = rows.get(self.token)
            if row is None:
                raise self.error(f"a field of {name}" + (f' or "{end}"' if end else ""))
            if row.label != "repeated" and row.name in values:
                raise self.error_at(self.start, f"{row.name} is there twice")
            if row.oneof and oneofs.setdefault(row.oneof, row.name) != row.name:
                raise self.error_at(self.start, f"{row.name} and {oneofs[row.oneof]} exclude each other")
            self.field(row, values.setdefault(row.name, []), depth)
        self.advance()
        return message_of_fields(name, values)

    def field(self, row: MessageField, values: list[Any], depth: int) -> None:
        """Append the values of the field whose name is the token."""
        self.advance()
        if not self.take(":") and row.kind != "message":
            raise self.error(f'":" after {row.name}')
        try:
            if row.label == "repeated" and self.take("["):
                more = not self.take("]")
                while more:
                    values.append(self.value(row, depth))
                    more = self.take(",")
                    if not more and not self.take("]"):
                        raise self.error('"," or "]"')
            else:
                values.append(self.value(row, depth))
        except FormatError as error:
            locate(error, row, len(values))
            raise
        if not self.take(","):
            self.take(";")

    def value(self, row: MessageField, depth: int) -> Any:
        """The value that starts at the token."""
        if row.kind == "message":
            end = _CLOSING.get(self.token)
            if end is None:
                raise self.error(f'"{{" before the fields of {row.name}')
            self.advance()
            return self.message(row.type_name, end, depth + 1)
        if row.kind == "string":
            return self.string().decode("utf-8", "surrogateescape")
        if row.kind == "bytes":
            return self.string()
        negative = self.take("-")
        value = self.float_number(row) if row.kind in ("float", "double") else self.integer(row, negative)
        self.advance()
        return -value if negative else value

    def integer(self, row: MessageField, negative: bool) -> int:
        """The integer at the token, without its sign, or the value of the name at the token."""
        names = ENUMS[row.type_name] if row.kind == "enum" and not negative else {}
        if self.token in names:
            return names[self.token]
        match = _INTEGER.fullmatch(self.token)
        if match is None or len(self.token) > MAX_DIGITS:
            raise self.error(f"{'a name of ' + row.type_name if names else 'an integer'} for {row.name}")
        digits = match["hex"] or match["octal"] or match["decimal"]
        value = int(digits, 16 if match["hex"] else 8 if match["octal"] else 10)
        if (-value if negative else value) not in INTEGER_RANGES[row.kind]:
            raise self.error(f"an {row.kind} for {row.name}")
        return value

    def float_number(self, row: MessageField) -> float:
        """The number at the token, without its sign."""
        match = _FLOAT.fullmatch(self.token)
        if match is None and not _NAMED_FLOAT.fullmatch(self.token):
            raise self.error(f"a number for {row.name}")
        value = float(match[1] if match else self.token)
        return to_float(value) if row.kind == "float" else value

    def string(self) -> bytes:
        """The strings from the token on, joined."""
        if self.token not in ("'", '"'):
            raise self.error("a string")
        parts = []
        while self.token in ("'", '"'):
            end = self.closing_quote()
            try:
                parts.append(unescape(self.text[self.position : end]))
            except ValueError as error:
                raise self.error_at(self.start, f"the string has {error}") from None
            self.position = end + 1
            self.advance()
        return b"".join(parts)

    def closing_quote(self) -> int:
        """The quote that ends the string at the token, as a position: the first after an even number of backslashes."""
        text, end = self.text, self.position - 1
        while True:
            end = text.find(self.token, end + 1)
            backslashes = end
            while end >= 0 and text[backslashes - 1] == "\\":
                backslashes -= 1
            if (end - backslashes) % 2 == 0:
                break
        if end < 0 or text.find("\n", self.position, end) >= 0:
            raise self.error_at(self.start, "the string does not end on its line")
        return end


_UNUSUAL_ESCAPE = re.compile(
    r"""\\(?![0-3][0-7]{2}|[ntr"'])(?:
        (?P<octal>[0-7]{1,2}(?![0-7]))
        | [xX](?P<hex>[0-9a-fA-F]{1,2})
        | (?P<pair>u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})
        | u(?P<code>[0-9a-fA-F]{4}) | U(?P<long_code>[0-9a-fA-F]{8})
        | (?P<letter>[abfv?])
        | (?P<wrong>.?)
    )""",
    re.VERBOSE | re.DOTALL,
)
_LETTERS = {"a": 7, "b": 8, "f": 12, "v": 11, "?": 63}


def unescape(text: str) -> bytes:
    """The meaning of a string literal without its quotes; characters are encoded as UTF-8.

    First, pairs of backslashes and unusual escapes become octal escapes. Then each backslash starts an escape, and
    Python decodes these.

    Raises: ValueError that says which escape is wrong.
    """
    plain = _UNUSUAL_ESCAPE.sub(_octal, text.replace("\\\\", "\\134"))
    return plain.encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1")


def _octal(match: re.Match[str]) -> str:
    """An unusual escape, as octal escapes of three digits."""
    kind, value = match.lastgroup, match[match.lastgroup or 0]
    if kind == "octal":
        data = bytes((int(value, 8),))
    elif kind == "hex":
        data = bytes((int(value, 16),))
    elif kind == "letter":
        data = bytes((_LETTERS[value],))
    elif kind == "pair":
        data = bytes.fromhex(value[1:5] + value[7:]).decode("utf-16-be").encode()
    elif kind in ("code", "long_code") and (code := int(value, 16)) < 0x110000 and not 0xD800 <= code < 0xE000:
        data = chr(code).encode()
    else:
        raise ValueError(f"an escape that does not exist, {match[0]!r}")
    return "".join(f"\\{byte:03o}" for byte in data)
