"""Options, one row each; the command line, its help, the reference page and the keywords are made from them.

A class of options is a frozen dataclass whose fields are made by `option`, and whose `__post_init__` calls `settle`:

    @dataclass(frozen=True, slots=True)
    class MyOptions:
        level: int = option(3, count(1, 9), "The level, from 1 to 9.")
        index: bool = option(False, SWITCH, "Add an index.")

        def __post_init__(self) -> None:
            settle(self)

A codec with `MyOptions` adds to the command `convert` the options `--level N` and `--index`, and the library the
keywords `level` and `index`. Values are checked when the object is created, before anything is read.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from formats.errors import OptionError
from formats.words import SIZE_EXAMPLES, joined, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")

ROW = "formats.options"  # the key of a field's metadata for the function that makes its row of its name
INTERNAL = "formats.internal"  # the key of a field without a row that callers may not give
# What people give for a format: `from` and `to` of the command line, and the keyword of another function.
FORMAT_KEYWORDS = {
    "to": ("to_format", "format"),
    "to_": ("to_format", "format"),
    "to_format": ("format",),
    "from": ("from_format", "format"),  # in a dictionary of keywords
    "from_": ("from_format", "format"),
    "from_format": ("format",),
    "format": ("to_format",),
}


class OptionKind(NamedTuple):
    """The kind of the values of an option.

    `words` describe them, after "must be". `checked` returns the value as code uses it, and raises ValueError or
    TypeError if it is not valid. `from_text` does the same for a text from the command line. `metavar` stands for the
    value in the help; without one, an option is a switch. `keyword_type` is what the library accepts, if that is more
    than the type of the field. Errors do not repeat a `secret`. An option that may be given `repeatedly` is a mapping;
    then `from_text` returns a key and a value, or a mapping. `keyword_words` describe the values of the library, if one
    types something else.
    `values` lists all values if there are few; shells suggest them.
    """

    words: str
    checked: Callable[[Any], Any]
    metavar: str = ""
    from_text: Callable[[str], Any] = str
    keyword_type: str = ""
    secret: bool = False
    repeatedly: bool = False
    values: Callable[[], Iterable[Any]] | None = None
    keyword_words: str = ""


class Flag(NamedTuple):
    """One way to give an option on the command line.

    Without a `metavar`, the flag accepts no text and means `value`. A `metavar` in brackets says that the text is
    optional; without the text, the flag also means `value`.
    """

    names: tuple[str, ...]
    help: str = ""
    metavar: str = ""
    value: Any = None
    from_text: Callable[[str], Any] = str

    @property
    def takes_text(self) -> bool:
        """Whether a text must follow."""
        return bool(self.metavar) and not self.text_is_optional

    @property
    def text_is_optional(self) -> bool:
        """Whether a text may follow."""
        return self.metavar.startswith("[")


class OptionRow(NamedTuple):
    """An option: the name of its field, its kind, its flags (none, if only the library has it), its description.

    `panel` is the heading in the help, if it is not that of the format. The option also sets `implies`,
    the name and the value of another option. `required` means that a conversion needs the option. `--help` shows only
    `common` options. `keyword_help` describes the keyword of the library, if its values are not those that one types.
    """

    name: str
    kind: OptionKind
    default: Any
    help: str
    flags: tuple[Flag, ...]
    panel: str = ""
    implies: tuple[str, Any] | None = None
    required: bool = False
    common: bool = False
    keyword_help: str = ""


def option(
    default: Any,
    kind: OptionKind,
    help: str,  # noqa: A002 - the word that every command line has
    *,
    short: str = "",
    flag: str = "",
    off: tuple[str, ...] = (),
    flags: tuple[Flag, ...] | None = None,
    panel: str = "",
    implies: tuple[str, Any] | None = None,
    required: bool = False,
    common: bool = False,
    keyword_help: str = "",
) -> Any:
    """A field of a class of options.

    Its flag is its name with dashes, or `flag` if the command line has a better word; `short` is a letter for it. A
    switch that is on by default also has a flag with the prefix `no-`, or those of `off`. `flags` replaces all of
    these; if it is empty, only the library has the option.
    """

    def row(name: str) -> OptionRow:
        words = name.replace("_", "-")
        names = (*([short] if short else ()), flag or f"--{words}")
        all_flags = _flags(names, off or (f"--no-{words}",), kind, default, help) if flags is None else flags
        return OptionRow(name, kind, default, help, all_flags, panel, implies, required, common, keyword_help)

    return field(default=default, repr=not kind.secret, metadata={ROW: row})


def _flags(
    names: tuple[str, ...], off_names: tuple[str, ...], kind: OptionKind, default: Any, words: str
) -> tuple[Flag, ...]:
    """The flag of an option with a text, or those of a switch: if it is not off by default, one turns it off."""
    if kind.metavar:
        return (Flag(names, words, kind.metavar, True, kind.from_text),)
    on, off = Flag(names, value=True), Flag(off_names, value=False)
    if default is False:
        return (on._replace(help=words),)
    return (off._replace(help=words), on) if default is True else (on._replace(help=words), off)


@cache
def option_rows(options: type) -> tuple[OptionRow, ...]:
    """The rows of a class of options."""
    return tuple(field.metadata[ROW](field.name) for field in fields(options) if ROW in field.metadata)


def names_of(options: type) -> set[str]:
    """The names of the fields of a class of options that callers may give: all but the `internal` ones."""
    return {field.name for field in fields(options) if INTERNAL not in field.metadata}


def internal(default: Any) -> Any:
    """A field of a class of options that only this package sets."""
    return field(default=default, metadata={INTERNAL: True})


def settle(options: Any) -> None:
    """Check and convert every value of `options`, an object that is being created.

    Raises: OptionError.
    """
    kind: type = type(options)
    rows = option_rows(kind)
    defaults = {row.name: row.default for row in rows}
    for row in rows:
        value = getattr(options, row.name)
        if value is not row.default:
            object.__setattr__(options, row.name, checked(row, value))
    for row in rows:
        if row.implies and getattr(options, row.name) != row.default:
            name, implied = row.implies
            other = getattr(options, name)
            if other is defaults[name]:
                object.__setattr__(options, name, implied)
            elif other is False:
                raise OptionError(f"`{row.name}` and `{name}={other}` exclude each other")


def checked(row: OptionRow, value: Any) -> Any:
    """The value in the form that code uses.

    Raises: OptionError if it is not of the row's kind.
    """
    try:
        return row.kind.checked(value)
    except OptionError:
        raise
    except (TypeError, ValueError, OverflowError):
        kind = row.kind
        raise bad_value(row.name, kind._replace(words=kind.keyword_words or kind.words), value) from None


def bad_value(name: str, kind: OptionKind, value: Any) -> OptionError:
    """The error for a value that is not of the kind of its option."""
    if kind.secret:
        return OptionError(f"`{name}` must be {kind.words}")
    return OptionError(f"`{name}` is {value!r:.100}, but must be {kind.words}")


def make_options(
    options: type[T], keywords: Mapping[str, Any], *, of: str = "", by: Callable[..., Any] | None = None
) -> T:
    """The options that keywords give, and those that they imply.

    Raises: OptionError for an unknown name or an invalid value. `of` says whose options these are, and `by` is the
    function that was called, whose own keywords are possible, too.
    """
    check_names(keywords, (options,), of, by)
    return options(**implied(options, keywords))


def make_each_options(
    kinds: Sequence[type], keywords: Mapping[str, Any], *, of: str = "", by: Callable[..., Any] | None = None
) -> list[Any]:
    """The options of each class that keywords give, and those that they imply.

    Raises: as `make_options` does.
    """
    check_names(keywords, kinds, of, by)
    return [make_own_options(kind, keywords) for kind in kinds]


def make_own_options(options: type[T], keywords: Mapping[str, Any]) -> T:
    """The options of a class among keywords that may be those of other classes, too.

    Raises: OptionError for an invalid value.
    """
    return make_options(options, {name: keywords[name] for name in keywords.keys() & names_of(options)})


def check_names(
    names: Iterable[str], kinds: Sequence[type], of: str = "", by: Callable[..., Any] | None = None
) -> None:
    """Raises OptionError if none of the classes has a given name: with the nearest one, or that of a flag."""
    possible = set().union(*map(names_of, kinds))
    if unknown := [name for name in names if name not in possible]:
        own = set(by.__kwdefaults__ or ()) if by is not None else set()
        flags = {word: keyword for kind in kinds for row in option_rows(kind) for word, keyword in _words(row)}
        raise _unknown_options(unknown, possible | own, of, flags)


def _unknown_options(names: Sequence[str], possible: Iterable[str], of: str, flags: Mapping[str, str]) -> OptionError:
    """The error for options that do not exist; `flags` has the keywords for the words of the command line."""
    from difflib import get_close_matches  # only errors need it

    possible = sorted(possible)
    listed = joined([f"`{name}`" for name in names])
    keyword = flags.get(names[0]) or next(
        (name for name in FORMAT_KEYWORDS.get(names[0], ()) if name in possible), None
    )
    if keyword is not None:
        return OptionError(f"there is no option {listed}{of}; did you mean `{keyword}`?")
    if close := get_close_matches(names[0], possible, 1):
        return OptionError(f"there is no option {listed}{of}; did you mean `{close[0]}`?")
    return OptionError(f"there is no option {listed}{of}; there are {', '.join(f'`{name}`' for name in possible)}")


def _words(row: OptionRow) -> Iterator[tuple[str, str]]:
    """The words of the flags of an option that are not its keyword, each with the keyword, and its value if it is one.

    For example, `force` with `overwrite=True`.
    """
    for flag in row.flags:
        word = flag.names[-1].lstrip("-").replace("-", "_")
        if word != row.name:
            yield word, row.name if flag.metavar or flag.value is ASKED else f"{row.name}={flag.value}"


def implied(options: type, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, and those that they imply.

    Raises: OptionError if one of them excludes another.
    """
    result = dict(keywords)
    for row in option_rows(options):
        value = keywords.get(row.name)
        if row.implies is None or value is None or (not value and value == row.default):  # the same as no value
            continue
        name, wanted = row.implies
        if result.get(name) is None:
            result[name] = wanted
        elif result[name] is False:
            raise OptionError(f"`{row.name}` and `{name}=False` exclude each other")
    return result


# Kinds


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    return operator.index(value)


def decimal(text: str) -> int:
    """The number that a text of decimal digits means."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(text)
    return int(text)


def _within(value: int, least: int, most: int | None) -> int:
    if value < least or (most is not None and value > most):
        raise ValueError(value)
    return value


def count(least: int = 0, most: int | None = None) -> OptionKind:
    """A whole number."""
    words = f"a whole number of at least {least:,}" if most is None else f"a whole number from {least:,} to {most:,}"
    return OptionKind(words, lambda value: _within(_whole(value), least, most), "N", decimal)


def size(least: int = 0, most: int | None = None, *, power_of_two: bool = False) -> OptionKind:
    """A number of bytes, or a text such as "64K"."""

    def check(value: Any) -> int:
        nbytes = _within(parse_size(value) if isinstance(value, str) else _whole(value), least, most)
        if power_of_two and nbytes & (nbytes - 1):
            raise ValueError(nbytes)
        return nbytes

    words = "a power of two" if power_of_two else "a number of bytes"
    if most is not None:
        words += f" from {least:,} to {most:,}"
    elif least:
        words += f" of at least {least:,}"
    return OptionKind(f"{words}, such as {SIZE_EXAMPLES}", check, "SIZE", parse_size, "int | str")


def choice(*values: int | str) -> OptionKind:
    """One of a few values."""

    def check(value: Any) -> Any:
        if isinstance(value, bool) or value not in values:
            raise ValueError(value)
        return value

    numbers = all(isinstance(value, int) for value in values)
    from_text = decimal if numbers else str
    return OptionKind(
        joined([*map(str, values)], "or"), check, "|".join(map(str, values)), from_text, values=lambda: values
    )


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def filled_text(value: Any) -> str:
    """The same text, which is not empty."""
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def text(metavar: str, words: str = "a text") -> OptionKind:
    """Any text that is not empty."""
    return OptionKind(words, filled_text, metavar)


def pairs(metavar: str, words: str, example: str) -> OptionKind:
    """Texts by name: what `words` say. One at a time is typed, as `NAME=VALUE`; a name may have equals signs in it."""
    return OptionKind(
        f"{metavar}, such as {example}",
        texts_by_name,
        metavar,
        name_and_value,
        repeatedly=True,
        keyword_words=f"a dictionary of {words}",
    )


class Typed(str):
    """A text of the command line with names of a model in it; only the model says where a name ends."""

    __slots__ = ()


def name_and_value(typed: str) -> tuple[str, str]:
    """The name and the value of `NAME=VALUE`; a name may have equals signs in it."""
    name, _, value = typed.rpartition("=")
    if not (name and value):
        raise ValueError(typed)
    return name, value


def texts_by_name(value: Any) -> Mapping[str, str]:
    """The same mapping of texts to texts."""
    if not isinstance(value, Mapping) or not all(isinstance(word, str) for word in (*value, *value.values())):
        raise TypeError(value)
    return value


def values_by_name(metavar: str, example: str, keyword_words: str) -> OptionKind:
    """Values by name, of any kind; typed one at a time, as `NAME=VALUE`, with JSON as the value."""

    def split(typed: str) -> tuple[str, Any]:
        import json

        name, equals, value = typed.partition("=")
        if not (name and equals):
            raise ValueError(typed)
        try:
            return name, json.loads(value)
        except (ValueError, RecursionError):
            return name, value

    def check(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise TypeError(value)
        return value

    words = f"{metavar}, such as {example}"
    return OptionKind(words, check, metavar, split, secret=True, repeatedly=True, keyword_words=keyword_words)


MOST_ALIGNED_BYTES = 1 << 30  # the largest pages of memory
CHANGES = "What changes"
METADATA = pairs("KEY=VALUE", "keys and texts", "license=MIT")
REMOTE = "Options for addresses such as s3://bucket/model.onnx"
STORAGE = values_by_name("KEY=VALUE", "anon=true", "a dictionary, as fsspec takes it, such as {'anon': True}")
STORAGE_FLAG = Flag(
    ("--storage-options",),
    "Give the store an option, such as anon=true, or s3.anon=true for one kind of store; repeat it for each option.",
    STORAGE.metavar,
    from_text=STORAGE.from_text,
)
RETRIES = 2
MOST_WORKERS = 1024  # threads or processes: more of them never help, and a system starts no million
ASKED = object()  # the value of a flag whose text the user types on the terminal
SWITCH = OptionKind("True or False", _truth)
ANY = OptionKind("anything", lambda value: value)  # for options that only the library has, and that type checkers check


def store_option() -> Any:
    """The field for the options of a store, of a class of options for reading or for writing."""
    return option(None, STORAGE, "Options of the store.", flags=(STORAGE_FLAG,), panel=REMOTE)


def threshold_option(**more: Any) -> Any:
    """The field for the size from which a tensor is stored outside the graph, of a class of options."""
    return option(1024, size(), "Move tensors of at least SIZE out of the graph; 1K by default.", **more)


def dedup_option() -> Any:
    """The field for storing equal weights once, of a class of options for writing."""
    return option(False, SWITCH, "Store equal weights only once.")


def progress_option() -> Any:
    """The field of a class of options for a function that is called with the progress."""
    words = "A function that is called from time to time with the bytes done and the bytes to do."
    return option(None, ANY, words, flags=())


def retries_option() -> Any:
    """The field for the number of repeated requests, of a class of options for reading or for writing."""
    words = f"Repeat a request that fails temporarily up to N times; {RETRIES} by default."
    return option(RETRIES, count(0, 100), words, panel=REMOTE)
