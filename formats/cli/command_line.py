"""Parses a command line: which flags a verb has, and which values were given.

There is one table, the rows of the classes of options (`formats/options.py`). Plain command lines are parsed here. For
help and errors, `typer_commands.py` gives the same table to typer. The import of typer takes longer than the
conversion of a small model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.cli.waiting import paused
from formats.errors import OptionError
from formats.options import ASKED, bad_value, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from formats.options import Flag, Row

GENERAL = "Options"
EXIT_FAILURE = 1


class Group(NamedTuple):
    """A class of options that a verb has, and the extensions of the formats that they are for, if not for all.

    `--help` shows the common ones, unless the verb has others that most people need: then these are not `in_short`.
    """

    options: type
    extensions: tuple[str, ...] = ()
    in_short: bool = True


class Verb(NamedTuple):
    """An action of the commands.

    `arguments` have the names that the help shows: a name that ends in dots means any number of arguments, and an
    argument in brackets is optional. `groups` gives the options; with `True` those of other packages, too, which takes
    longer to find. `run` gets the request and returns the exit code; `failure` is the exit code for errors. The help
    has the verb in a `section`, and ends with `examples`. The option `last_as` can stand for the last argument. A verb
    that `writes_once` leaves nothing if it is stopped before. One that `only_prints` has failed if nobody can read it.
    """

    name: str
    summary: str
    arguments: tuple[str, ...]
    groups: Callable[[bool], Sequence[Group]]
    run: Callable[[Request], int]
    section: str
    examples: tuple[str, ...] = ()
    failure: int = EXIT_FAILURE
    last_as: str = ""
    writes_once: bool = False
    only_prints: bool = False

    def needed(self, options: Collection[str] = ()) -> tuple[str, ...]:
        """The required arguments of a command line that has these options."""
        names = tuple(name.removesuffix("...") for name in self.arguments if not name.startswith("["))
        return names[:-1] if self.last_as in options else names

    @property
    def takes_more(self) -> bool:
        """Whether more arguments are possible than there are names."""
        return any("..." in name for name in self.arguments)


class Typed(NamedTuple):
    """A command line in its parts: the arguments, and the flags in their order, each with its text, if any."""

    arguments: list[str]
    flags: list[tuple[str, str | None]]


class Request:
    """The request of a command line to a verb; `ask` returns the value of an option that the user must type.

    If `stdout_is_taken`, a model is written to stdout, and reports to stderr. If it `has_jobs`, each of them writes.
    """

    def __init__(self, typed: Typed, groups: Sequence[Group]) -> None:
        self.arguments = typed.arguments
        self.stdout_is_taken = False
        self.has_jobs = False
        self.ask: Callable[[], Any] = ask_key
        self._flags = typed.flags
        self._classes = [group.options for group in groups]

    def of(self, *options: type) -> dict[str, Any]:
        """The given options of these classes, by name; the first class defines the meaning of a text.

        Raises: OptionError for a text that is not a valid value, and if two flags contradict each other.
        """
        table = flags_of(options)
        given = [(name, *table[name], text) for name, text in self._flags if name in table]
        first: dict[str, tuple[str, Flag]] = {}
        for name, row, flag, _ in given:
            before, other = first.setdefault(row.name, (name, flag))
            if other is not flag:
                raise OptionError(f"{before} and {name} exclude each other")
        values: dict[str, Any] = {}
        for _, row, flag, text in given:
            value = self._value(row, flag, text)
            if row.kind.repeatedly:
                values.setdefault(row.name, {}).update(value)
            else:
                values[row.name] = value
        return values

    def classes_but(self, *options: type) -> list[type]:
        """The other classes of options that this verb has."""
        return [each for each in self._classes if each not in options]

    def rows(self) -> dict[str, Row]:
        """The rows of the options that this verb has, by name; if several have the same flags, the first."""
        rows = [row for options in self._classes for row in rows_of(options) if row.flags]
        return {row.name: row for row in reversed(rows)}

    def flags_as_typed(self) -> dict[str, str]:
        """The typed flags, by the names of their options."""
        table = flags_of(self._classes)
        return {table[name][0].name: name for name, _ in self._flags if name in table}

    def _value(self, row: Row, flag: Flag, text: str | None) -> Any:
        if not text and not flag.takes_text:
            return self.ask() if flag.value is ASKED else flag.value
        try:
            value = flag.from_text(text or "")
            if not row.kind.repeatedly:
                return value
            pairs = value if isinstance(value, Mapping) else dict((value,))
            row.kind.checked(pairs)  # here, the error can repeat what was typed
        except OptionError:
            raise
        except (TypeError, ValueError, OverflowError):
            raise bad_value(row.name, row.kind, text) from None
        return pairs


def flags_of(options: Iterable[type]) -> dict[str, tuple[Row, Flag]]:
    """Rows and flags by every name of a flag; if several classes have the name, the first class counts.

    Raises: OptionError if a class of another package defines a known flag with another form.
    """
    table: dict[str, tuple[Row, Flag]] = {}
    for each in options:
        for row in rows_of(each):
            for flag in row.flags:
                for name in flag.names:
                    _, known = table.setdefault(name, (row, flag))
                    if (known.takes_text, known.text_is_optional) != (flag.takes_text, flag.text_is_optional):
                        raise OptionError(
                            f"the options of {each.__module__} use {name} for something else than other options do"
                        )
    return table


def panels(groups: Sequence[Group], *, common: bool = False) -> dict[str, list[tuple[Row, Flag]]]:
    """The options that a help shows, each once, under headings; all, or the `common` ones."""
    extensions: dict[tuple[str, ...], list[str]] = {}
    first: dict[tuple[str, ...], tuple[Row, Flag]] = {}
    for group in groups:
        for row in rows_of(group.options) if group.in_short or not common else ():
            for flag in row.flags:
                extensions.setdefault(flag.names, []).extend(group.extensions)
                first.setdefault(flag.names, (row, flag))
    result: dict[str, list[tuple[Row, Flag]]] = {}
    for names, (row, flag) in first.items():
        if flag.help and (row.common or not common):
            *others, last = [*extensions[names]] or [""]
            listed = f"{', '.join(others)} and {last}" if others else last
            panel = row.panel or (f"Options for {listed}" if listed else GENERAL)
            result.setdefault(panel, []).append((row, flag))
    return result


def ask_key(*, twice: bool = False) -> str:
    """The key that the user types, which the terminal does not show; to encrypt, the user types it twice.

    Raises: OptionError if there is no terminal, or the two differ.
    """
    import warnings
    from getpass import GetPassWarning, getpass

    try:
        with paused(), warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # it would show the key, or read the first line of a file
            key = getpass("Key: ")
            again = getpass("The same key again: ") if twice else key
    except (GetPassWarning, EOFError):
        raise OptionError("--ask-key needs a terminal, and there is none; use --key-file or --key-env") from None
    if again != key:
        raise OptionError("the two typed keys differ")
    return key


def parse(texts: Sequence[str], verb: Verb, groups: Sequence[Group]) -> Typed | None:
    """The parts of a command line, or `None` if it is not plain: it has an error or asks for help.

    Raises: OptionError if the command line is plain, but arguments are missing, or an option lacks a dash.
    """
    table = flags_of(group.options for group in groups)
    typed = Typed([], [])
    check_dashes(texts, table)
    rest = iter(with_text_attached(texts, verb, table))
    for word in rest:
        if word == "--":
            typed.arguments.extend(rest)
        elif not word.startswith("-") or word == "-":
            typed.arguments.append(word)
        else:
            name, equals, attached = word.partition("=")
            if name not in table:
                letters = [f"-{letter}" for letter in word[1:]]
                if not all(letter in table and not table[letter][1].metavar for letter in letters):
                    return None
                typed.flags.extend((letter, None) for letter in letters)  # for example -qf
                continue
            flag = table[name][1]
            text: str | None = attached if equals else None
            if flag.takes_text and not equals:
                text = next(rest, None)
            if (text is None) == bool(flag.metavar) or (len(name) == 2 and equals):
                return None
            typed.flags.append((name, text))
    check_arguments(typed, verb, table)
    return typed if verb.takes_more or len(typed.arguments) == len(verb.arguments) else None


def check_arguments(typed: Typed, verb: Verb, table: Mapping[str, tuple[Row, Flag]]) -> None:
    """Raises OptionError if arguments are missing."""
    if missing := verb.needed([table[name][0].name for name, _ in typed.flags])[len(typed.arguments) :]:
        usage = f"formats {verb.name} {' '.join(verb.arguments)}"
        raise OptionError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; type {usage}")


def _model_extensions() -> set[str]:
    from formats.codecs import lookup

    return {extension for codec in lookup.built_in() for extension in codec.extensions}


def check_dashes(texts: Sequence[str], table: Mapping[str, tuple[Row, Flag]]) -> None:
    """Raises OptionError if a word is a long option with one dash, which would be read as several short ones."""
    for word in texts:
        if word == "--":
            return
        name = word.partition("=")[0]
        if len(name) > 2 and word[1] != "-" and f"-{name}" in table:
            raise OptionError(f"there is no option {name}; did you mean -{name}?")


def _exists_nowhere(text: str) -> bool:
    """Whether a word is neither a file nor an address nor a pattern."""
    from formats.tensordata.file import is_address
    from formats.verbs.arguments import path_of

    return not (os.path.lexists(text) or is_address(path_of(text)) or {*"*?["} & {*text})


def with_text_attached(texts: Sequence[str], verb: Verb, table: Mapping[str, tuple[Row, Flag]]) -> list[str]:
    """The command line with `--external-data NAME` as `--external-data=NAME`, and with `=` alone if there is no name.

    The word after such a flag is its text only if enough arguments for the verb remain without it. If the verb accepts
    several models, the word must also not look like the name of a model.

    Raises: OptionError if the word could be either: a name of a model that does not exist, before the last argument.
    """
    words = list(texts)
    needed = len(verb.needed([table[name][0].name for word in words if (name := word.partition("=")[0]) in table]))
    positional: list[int] = []
    optional: list[int] = []
    previous: Flag | None = None
    for index, word in enumerate(words):
        if word == "--":
            positional.extend(range(index + 1, len(words)))
            break
        if previous is not None and previous.takes_text:
            previous = None
            continue
        name = word.partition("=")[0]
        previous = table[word][1] if word in table else None
        if not word.startswith("-") or word == "-":
            positional.append(index)
        elif name == word and previous is not None and previous.text_is_optional:
            optional.append(index)
    for index in reversed(optional):
        has_text = index + 1 in positional and len(positional) > needed > 0
        if has_text and verb.takes_more and PurePath(words[index + 1]).suffix.lower() in _model_extensions():
            if index + 1 < max(positional) and _exists_nowhere(words[index + 1]):
                flag, name = words[index], words[index + 1]
                raise OptionError(f"{name} does not exist; if it is the text of {flag}, write {flag}={name}")
            has_text = False
        words[index : index + 1 + has_text] = [f"{words[index]}={words[index + 1] if has_text else ''}"]
    return words
