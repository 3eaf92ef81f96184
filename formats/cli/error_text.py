"""The texts of the commands for errors, for people and for programs. Nothing is printed here."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.errors import MAKES, MEMORY, REPLACES, FormatError, OptionError, soft_limit, words_of
from formats.options import ASKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.options import Row

# Messages of a library that cannot be loaded, and of Python, if an import runs out of memory.
OUT_OF_MEMORY = ("failed to map segment", "annot allocate memory", "error return without exception set")
OF_SOME_FILE = (errno.EMFILE, errno.ENFILE, errno.EFBIG)  # not every call knows which one
# An option in the notation of the library's errors: `name` or `name=value`.
KEYWORD = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")


def describe(
    error: BaseException, rows: Mapping[str, Row] | None = None, typed: Mapping[str, str] | None = None
) -> list[str]:
    """The error as text for people: one line, and one further line for each of its reasons.

    Options become flags: the flag that was `typed`, or else a flag of its row in `rows`.
    """
    lines = error.lines() if isinstance(error, FormatError) else [_words(error, rows or {})]
    return [in_flags(line, rows or {}, typed or {}) for line in lines]


def _words(error: BaseException, rows: Mapping[str, Row]) -> str:
    if (limit := _limit(error)) is not None:
        return limit
    if isinstance(error, OSError):
        words = words_of(error) or error.strerror or str(error)
        name = error.filename or ""
        of_system = words == os.strerror(errno.EEXIST)
        if isinstance(error, FileExistsError) and of_system and ("://" in name or Path(name).is_file()):
            words += REPLACES  # the system itself raised it
        if "parents" not in rows:
            words = words.replace(MAKES, "")
        place = error.filename or ("a file" if error.errno in OF_SOME_FILE else "")
        return f"{place}: {words}" if place else words
    if isinstance(error, (FormatError, OptionError)) or not isinstance(error, Exception):
        return str(error)
    return f"{type(error).__name__}: {error}; this is a bug in formats, please report it with the output of --debug"


def _limit(error: BaseException) -> str | None:
    """The limit of memory or threads that was reached, and its value, if that is the reason for the error."""
    words = str(error)
    is_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    if is_memory or any(text in words for text in OUT_OF_MEMORY):
        return f"{MEMORY}{soft_limit('RLIMIT_AS', 'bytes of addresses', 'ulimit -v')}"
    if isinstance(error, RuntimeError) and "start new thread" in words:
        return f"a thread could not be started{soft_limit('RLIMIT_NPROC', 'processes and threads', 'ulimit -u')}"
    return None


def traceback_lines(error: BaseException) -> list[str]:
    """The traceback of an error and of its causes, with each message in one line."""
    import traceback

    chain: list[BaseException] = []
    last: BaseException | None = error
    while last is not None and last not in chain:
        chain.append(last)
        last = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
    lines = []
    for one in reversed(chain):
        lines.append("Traceback (most recent call last):")
        lines += (line for frame in traceback.format_tb(one.__traceback__) for line in frame.rstrip("\n").split("\n"))
        lines += (f"{type(one).__qualname__}: {one}", *getattr(one, "__notes__", ()))
    return lines


def in_flags(text: str, rows: Mapping[str, Row], typed: Mapping[str, str]) -> str:
    """The text with a flag for each option that it names by its keyword.

    Advice, which is behind a semicolon, is left out if it is about an option that the verb does not have.
    """

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
            asked = [word for each, word in words.items() if each.value is ASKED]
            return " or ".join((*with_text, *asked)) or words[row.flags[0]]
        return f"{(with_text or [*words.values()])[0]} {value}"

    first, *advice = KEYWORD.sub(flag, text).split("; ")
    if any(KEYWORD.search(words) for words in advice):
        from formats import keywords

        options = {name for each in vars(keywords).values() for name in getattr(each, "__annotations__", ())}
        options |= {"format", *rows}  # `format` is a parameter of its own
        advice = [words for words in advice if not options & {match[1] for match in KEYWORD.finditer(words)}]
    return "; ".join((first, *advice))


def error_to_json(
    error: BaseException, rows: Mapping[str, Row] | None = None, typed: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The error as data for programs."""
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    message = error.message if isinstance(error, FormatError) else _words(error, rows or {})
    requirement = getattr(error, "requirement", None)
    return {
        "kind": type(error).__name__,
        "message": in_flags(message, rows or {}, typed or {}),
        "path": None if path is None else str(path),
        "file_offset": getattr(error, "file_offset", None),
        "where": getattr(error, "where", None),
        **({} if requirement is None else {"requirement": requirement}),
    }
