"""Common parts of the readers of the two schema languages: the tokens of a text, the error, and the format of a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LINE_LENGTH = 120


class SchemaError(ValueError):
    """The text is not a valid schema for these readers; the message begins with the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")


class Token(NamedTuple):
    """One word, number, string or mark; `line` counts from 1."""

    kind: str
    text: str
    line: int


def tokens(source_text: str, pattern: re.Pattern[str]) -> Iterator[Token]:
    """The tokens of a text and one of kind "end"; the groups of `pattern` are the kinds, and "space" is omitted.

    Raises: SchemaError if some text is not a token.
    """
    position, line = 0, 1
    while position < len(source_text):
        match = pattern.match(source_text, position)
        if match is None:
            raise SchemaError(line, f"nothing in a schema starts with {source_text[position : position + 8]!r}")
        kind, text = str(match.lastgroup), match.group()
        if kind != "space":
            yield Token(kind, text, line)
        line += text.count("\n")
        position = match.end()
    yield Token("end", "the end of the text", line)


class TokenReader:
    """Goes through tokens; `_next` is the first one that was not read yet."""

    def __init__(self, source_text: str, pattern: re.Pattern[str]) -> None:
        self._tokens = tokens(source_text, pattern)
        self._next = next(self._tokens)

    def _take(self, kind: str) -> Token:
        """Return the next token, which must be of this kind, and skip it."""
        token = self._next
        if token.kind != kind:
            raise SchemaError(token.line, f"found {token.text}, expected a {kind}")
        self._next = next(self._tokens)
        return token

    def _expect(self, *allowed: str) -> str:
        """Return the text of the next token, which must be one of these, and skip it."""
        token = self._next
        if token.text not in allowed:
            raise SchemaError(token.line, f"found {token.text}, expected {' or '.join(allowed)}")
        return self._take(token.kind).text

    def _accept(self, text: str) -> bool:
        """Skip the next token if it is this text; return whether it was."""
        return self._next.text == text and self._expect(text) == text


def tuple_entry(name: str, items: list[str]) -> list[str]:
    """The lines of one entry of a dict of tuples, formatted as the formatter does: a tuple of one on one line."""
    one_line = f'    "{name}": ({", ".join(items)}{"," if items else ""}),'
    if len(items) < 2 and len(one_line) <= LINE_LENGTH:
        return [one_line]
    return [f'    "{name}": (', *(f"        {item}," for item in items), "    ),"]
