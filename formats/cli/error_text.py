"""What the commands say of errors, for people and for programs. Nothing is printed here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import FormatError, OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.options import Row

# An option as the library's errors write it: `name` or `name=value`.
KEYWORD = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")


def describe(
    error: BaseException, rows: Mapping[str, Row] | None = None, typed: Mapping[str, str] | None = None
) -> str:
    """The error in words for people; options become flags, those `typed` before the ones of their `rows`."""
    return in_flags(_words(error), rows or {}, typed or {})


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        if isinstance(error, FileExistsError) and Path(error.filename or "").is_file():
            words += "; `overwrite=True` replaces it"
        return f"{error.filename}: {words}" if error.filename else words
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if isinstance(error, (FormatError, OptionError)) or not isinstance(error, Exception):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a mistake in the program, please report what --debug prints"


def in_flags(text: str, rows: Mapping[str, Row], typed: Mapping[str, str]) -> str:
    """The text with a flag for each option that it names by its keyword."""

    def flag(match: re.Match[str]) -> str:
        name: str = match[1]
        value: str | None = match[2]
        row = rows.get(name)
        if row is None or not row.flags:
            return str(match[0])
        as_typed = typed.get(name, "")
        if value is None and as_typed:
            return as_typed
        words = {each: next(word for word in each.names if word.startswith("--")) for each in row.flags}
        for each, word in words.items():
            if not each.takes_text and value == str(each.value):
                return as_typed if as_typed in each.names else word
        with_text = [word for each, word in words.items() if each.takes_text]
        if value is None:
            return " or ".join(with_text) or words[row.flags[0]]
        return f"{(with_text or [*words.values()])[0]} {value}"

    shown: str = KEYWORD.sub(flag, text)
    return shown


def error_to_json(
    error: BaseException, rows: Mapping[str, Row] | None = None, typed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The error in words for programs."""
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    message = error.message if isinstance(error, FormatError) else _words(error)
    return {
        "kind": type(error).__name__,
        "message": in_flags(message, rows or {}, typed or {}),
        "path": None if path is None else str(path),
        "file_offset": getattr(error, "file_offset", None),
        "where": getattr(error, "where", None),
    }
