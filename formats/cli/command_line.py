"""What a command line consists of: verbs, the options that they have, and the request of a user.

A verb is a function with the decorator `verb`, which says its arguments, options and help. There is one table of
options, the rows of their classes (`formats/options.py`); `typer_commands.py` makes typer's parameters of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.cli.error_text import OptionWords
from formats.cli.streams import paused
from formats.errors import OptionError
from formats.extras import needed
from formats.options import ASKED, SWITCH, OptionKind, bad_value, option, option_rows, settle
from formats.tensordata.file import is_address, is_stream
from formats.words import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from formats.options import Flag, OptionRow
    from formats.verbs.report import OutputDifference

GENERAL = "Options"
INPUTS = OptionKind("the name of an .npz file", Path, "FILE.npz", Path)
EXIT_FAILURE = 1


@dataclass(frozen=True, slots=True)
class OutputOptions:
    """How a verb prints its result."""

    quiet: bool = option(False, SWITCH, "Print nothing but errors.", short="-q")
    json: bool = option(False, SWITCH, "Print a report in JSON, also for errors.", common=True)
    debug: bool = option(False, SWITCH, "Print the traceback of an error.")


@dataclass(frozen=True, slots=True)
class NoteOptions:
    """Which notes a verb prints."""

    notes: bool = option(False, SWITCH, "Print every note of the report on a line of its own.", common=True)


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Whether both models are run, and on which inputs."""

    check: bool = option(
        False, SWITCH, "Run both models in onnxruntime on random inputs, and print the largest difference by output."
    )
    check_inputs: Path | None = option(
        None,
        INPUTS,
        "Run both models on the arrays in FILE, an .npz file with the names of inputs.",
        implies=("check", True),
    )

    def __post_init__(self) -> None:
        settle(self)

    def require_files(self, *paths: Path, dry_run: bool = False) -> None:
        """Raise an error before anything is read if models are to be run and cannot be.

        Raises: OptionError if one is in no file, or will not be written; MissingPackageError without onnxruntime.
        """
        if not self.check:
            return
        if dry_run or any(is_stream(path) or is_address(path) for path in paths):
            raise OptionError("`check` runs two models in files, so SRC and DST must be files")
        from importlib.util import find_spec

        with needed("onnxruntime", "checks of results"):
            if find_spec("onnxruntime") is None:
                raise ModuleNotFoundError(name="onnxruntime")

    def run(self, first: Path, second: Path) -> tuple[OutputDifference, ...]:
        """How the outputs of two models in files differ, if that is asked for."""
        if not self.check:
            return ()
        from formats.bridges.results import compared_results

        return compared_results(first, second, self.check_inputs)


class OptionGroup(NamedTuple):
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
    groups: Callable[[bool], Sequence[OptionGroup]]
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


def verb(
    usage: str, summary: str, groups: Callable[[bool], Sequence[OptionGroup]], section: str, **others: Any
) -> Callable[[Callable[[Request], int]], Verb]:
    """A decorator that makes a verb of the function that runs it; `usage` is its name with its arguments."""
    name, *arguments = usage.split()
    return lambda run: Verb(name, summary, tuple(arguments), groups, run, section, **others)


def groups(*options: type) -> Callable[[bool], Sequence[OptionGroup]]:
    """A function that returns these classes of options as a verb's groups."""
    return lambda of_all_packages: [*map(OptionGroup, options)]


class Request:
    """The request of a command line to a verb; `ask` returns the value of an option that the user must type.

    `flags` are the typed ones, each with its text, if any. `output` has the options of what is printed. If
    `stdout_is_taken`, a model is written to stdout, and reports to stderr. If it `has_jobs`, each of them writes.
    """

    def __init__(
        self, verb: Verb, arguments: list[str], flags: Sequence[tuple[str, str | None]], groups: Sequence[OptionGroup]
    ) -> None:
        self.verb = verb
        self.arguments = arguments
        self.stdout_is_taken = False
        self.has_jobs = False
        self.ask: Callable[[], Any] = ask_key
        self._flags = flags
        self._classes = [group.options for group in groups]
        self.output = self.of(OutputOptions, NoteOptions)

    def of(self, *options: type) -> dict[str, Any]:
        """The given options of these classes, by name; the first class defines the meaning of a text.

        Raises: OptionError for a text that is not a valid value, and if two flags contradict each other.
        """
        table = flags_of(options)
        typed = [(name, *table[name], text) for name, text in self._flags if name in table]
        first: dict[str, tuple[str, Flag]] = {}
        for name, row, flag, _ in typed:
            before, other = first.setdefault(row.name, (name, flag))
            if other is not flag:
                raise OptionError(f"{before} and {name} exclude each other")
        values: dict[str, Any] = {}
        for _, row, flag, text in typed:
            value = self._value(row, flag, text)
            if row.kind.repeatedly:
                values.setdefault(row.name, {}).update(value)
            else:
                values[row.name] = value
        return values

    def classes_but(self, *options: type) -> list[type]:
        """The other classes of options that this verb has."""
        return [each for each in self._classes if each not in options]

    @cached_property
    def words(self) -> OptionWords:
        """What texts about the options of this verb need; of options with the same name, the first row counts."""
        rows = [row for options in self._classes for row in option_rows(options) if row.flags]
        table = flags_of(self._classes)
        typed = {table[name][0].name: name for name, _ in self._flags}
        return OptionWords({row.name: row for row in reversed(rows)}, typed)

    def _value(self, row: OptionRow, flag: Flag, text: str | None) -> Any:
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


def flags_of(options: Iterable[type]) -> dict[str, tuple[OptionRow, Flag]]:
    """Rows and flags by every name of a flag; if several classes have the name, the first class counts.

    Raises: OptionError if a class of another package defines a known flag with another form.
    """
    table: dict[str, tuple[OptionRow, Flag]] = {}
    for each in options:
        for row in option_rows(each):
            for flag in row.flags:
                for name in flag.names:
                    _, known = table.setdefault(name, (row, flag))
                    if (known.takes_text, known.text_is_optional) != (flag.takes_text, flag.text_is_optional):
                        raise OptionError(
                            f"the options of {each.__module__} use {name} for something else than other options do"
                        )
    return table


def panels(groups: Sequence[OptionGroup], *, common: bool = False) -> dict[str, list[tuple[OptionRow, Flag]]]:
    """The options that a help shows, each once, under headings; all, or the `common` ones."""
    extensions: dict[tuple[str, ...], list[str]] = {}
    first: dict[tuple[str, ...], tuple[OptionRow, Flag]] = {}
    for group in groups:
        for row in option_rows(group.options) if group.in_short or not common else ():
            for flag in row.flags:
                extensions.setdefault(flag.names, []).extend(group.extensions)
                first.setdefault(flag.names, (row, flag))
    result: dict[str, list[tuple[OptionRow, Flag]]] = {}
    for names, (row, flag) in first.items():
        if flag.help and (row.common or not common):
            of_formats = joined(extensions[names])
            panel = row.panel or (f"Options for {of_formats}" if of_formats else GENERAL)
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
