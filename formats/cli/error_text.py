"""The texts of the commands for errors, for people and for programs. Nothing is printed here."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.errors import MAKES, MEMORY, REPLACES, FormatError, OptionError, soft_limit, words_of
from formats.options import ASKED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from formats.options import OptionRow

# Messages of a library that cannot be loaded, and of Python, if an import runs out of memory.
OUT_OF_MEMORY = ("failed to map segment", "annot allocate memory", "error return without exception set")
OF_SOME_FILE = (errno.EMFILE, errno.ENFILE, errno.EFBIG)  # not every call knows which one
# An option in the notation of the library's errors: `name` or `name=value`.
KEYWORD = re.compile(r"`([a-z]\w*)(?:=([^`]*))?`")


class OptionWords(NamedTuple):
    """The words for options: the `rows` of a verb, and the flags that were `typed`, both by the names of options."""

    rows: Mapping[str, OptionRow] = MappingProxyType({})
    typed: Mapping[str, str] = MappingProxyType({})


NO_WORDS = OptionWords()


def describe(error: BaseException, words: OptionWords = NO_WORDS) -> list[str]:
    """The error as text for people: one line, and one further line for each of its reasons; options become flags."""
    lines = error.lines() if isinstance(error, FormatError) else [_message(error, words)]
    return [_without_secrets(in_flags(line, words)) for line in lines]


def _without_secrets(line: str) -> str:
    """The line without the secrets of addresses; without an address, nothing is imported, as memory may be short."""
    if ":/" not in line and "?" not in line and not (";" in line and "=" in line):
        return line
    from formats.tensordata.remote.address import without_secrets

    return without_secrets(line)


def _message(error: BaseException, words: OptionWords) -> str:
    """The message of an error that has no places of its own."""
    if (limit := _limit(error)) is not None:
        return limit
    if isinstance(error, OSError):
        said = words_of(error) or error.strerror or str(error)
        name = error.filename or ""
        of_system = said == os.strerror(errno.EEXIST)
        if isinstance(error, FileExistsError) and of_system and ("://" in name or Path(name).is_file()):
            said += REPLACES  # the system itself raised it
        if "parents" not in words.rows:
            said = said.replace(MAKES, "")
        place = error.filename or ("a file" if error.errno in OF_SOME_FILE else "")
        return f"{place}: {said}" if place else said
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
    return [_without_secrets(line) for line in lines]


def in_flags(text: str, words: OptionWords) -> str:
    """The text with a flag for each option that it names by its keyword.

    Advice, which is behind a semicolon, is left out if it is about an option that the verb does not have.
    """

    def flag(match: re.Match[str]) -> str:
        row = words.rows.get(match[1])
        return _flag(row, match[2], words.typed.get(match[1], "")) if row is not None else match[0]

    first, *advice = KEYWORD.sub(flag, text).split("; ")
    if any(KEYWORD.search(part) for part in advice):
        from formats import keywords

        options = {name for each in vars(keywords).values() for name in getattr(each, "__annotations__", ())}
        options |= {"format", *words.rows}  # `format` is a parameter of its own
        advice = [part for part in advice if not options & {match[1] for match in KEYWORD.finditer(part)}]
    return "; ".join((first, *advice))


def _flag(row: OptionRow, value: str | None, typed: str) -> str:
    """The flag for `name`, or for `name=value` if there is a value; it is the one that was `typed`, if that fits."""
    if value is None and typed:
        return typed
    names = {flag: next(name for name in flag.names if name.startswith("--")) for flag in row.flags}
    for flag, name in names.items():  # the flag that means this value, as `--no-external-data` does False
        if not flag.takes_text and value == str(flag.value):
            return typed if typed in flag.names else name
    with_text = [name for flag, name in names.items() if flag.takes_text]
    if value is not None:
        return f"{(with_text or [*names.values()])[0]} {value}"
    asked = [name for flag, name in names.items() if flag.value is ASKED]
    return " or ".join((*with_text, *asked)) or names[row.flags[0]]


def error_to_json(error: BaseException, words: OptionWords = NO_WORDS) -> dict[str, Any]:
    """The error as data for programs, in the words of the command line."""
    from formats.verbs.report import error_as_json

    message = error.message if isinstance(error, FormatError) else _message(error, words)
    result = {**error_as_json(error), "message": in_flags(message, words)}
    if isinstance(error, FormatError) and error.requirement is not None:
        result["requirement"] = error.requirement
    return result
