"""The options of the functions of the library, for `help`, `inspect.signature` and notebooks.

The functions declare their options as `**keywords: Unpack[...]`, for type checkers. When somebody gets a function from
the package, it gets a signature and a docstring with the names, defaults and meanings of its options, which are those
of the classes of options. A codec in another package may have more, which are found when a model is written.
"""

from __future__ import annotations

import re
import textwrap
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

from formats import keywords as declared
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.editing.options import EditOptions, ExtractOptions, MergeOptions
from formats.options import option_rows
from formats.tensordata.engine import EngineOptions
from formats.verbs.choices import ConversionOptions, MetadataOptions, RaisingOptions, ReplacementOptions, RuntimeOptions
from formats.verbs.pack import PackingOptions
from formats.verbs.relocate import RelocationOptions
from formats.verbs.share import ShareOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from formats.codecs.contract import Codec
    from formats.options import Flag, OptionRow

WIDTH = 108  # of the options in a docstring


def with_options(function: Callable[..., Any]) -> None:
    """The function gets a docstring that lists its options, and a signature with those that its keywords can be."""
    codecs = lookup.built_in()
    keywords = keywords_of(function)
    classes = option_classes(codecs)[keywords] if keywords else ()
    own = lines_by_option((ConversionOptions, EngineOptions), codecs, function.__kwdefaults__ or {})
    listed = own if keywords or len(own) > 1 else {}  # one option alone: the text of the function says what it means
    listed = listed | lines_by_option(classes, codecs)
    if function.__doc__ and listed:
        text, raises, errors = function.__doc__.partition("Raises:")
        indent = text[text.rindex("\n") + 1 :]
        lines = [line for uses in listed.values() for line in uses]
        wrapped = (textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in lines)
        options = "\n".join(wrapped).replace("\n", f"\n{indent}    ")
        function.__doc__ = f"{text}Options:\n\n{indent}    {options}\n\n{indent}{raises}{errors}"
    if keywords:
        function.__signature__ = _signature(function, keywords, classes)  # type: ignore[attr-defined]  # as `inspect` says


def keywords_of(function: Callable[..., Any]) -> str:
    """The name of the class of `formats.keywords` that a function accepts, or nothing."""
    match = re.search(r"Unpack\[(\w+)\]", " ".join(map(str, function.__annotations__.values())))
    return match[1] if match else ""


def option_classes(codecs: Iterable[Codec]) -> dict[str, tuple[type, ...]]:
    """The classes of options of each class of `formats.keywords`, if these are the codecs that write."""
    targets = dict.fromkeys(codec.options for codec in codecs)
    writing = (MetadataOptions, EngineOptions, ReplacementOptions, RaisingOptions, RuntimeOptions, *targets)
    converting = (ConversionOptions, ReadOptions, *writing)
    return {
        "ReadKeywords": (ReadOptions,),
        "RaiseKeywords": (RaisingOptions,),
        "WriteKeywords": writing,
        "ConvertKeywords": converting,
        "EditKeywords": (EditOptions, *converting),
        "ExtractKeywords": (ExtractOptions, *converting),
        "MergeKeywords": (MergeOptions, *converting),
        "ShareKeywords": (ShareOptions, ReadOptions, EngineOptions, ReplacementOptions),
        "PackKeywords": (PackingOptions, ReadOptions, EngineOptions),
        "RelocationKeywords": (RelocationOptions, ReplacementOptions),
    }


def lines_by_option(
    classes: Iterable[type], codecs: Iterable[Codec], only: Collection[str] | None = None
) -> dict[str, list[str]]:
    """For each option, a line for each of its uses, such as "hard_links=False: Refuse data files with ..."."""
    names = ", ".join(codec.name for codec in codecs)
    uses_by_option: dict[str, dict[str, str]] = {}
    for options in classes:
        for row in option_rows(options):
            if only is None or row.name in only:
                for use, text in _uses(row):
                    uses_by_option.setdefault(row.name, {}).setdefault(use, text.replace("{formats}", names))
    return {name: [f"{use}: {text}" for use, text in uses.items()] for name, uses in uses_by_option.items()}


def _uses(row: OptionRow) -> Iterator[tuple[str, str]]:
    """What an option is set to, and what that does."""
    uses = [(_value(row, flag), flag.help) for flag in row.flags if flag.help]
    if row.keyword_help or row.help not in [text for _, text in uses]:  # the flags say how to type it
        uses = [("", row.keyword_help or row.help)]
    for value, text in uses:
        says = "default" in text or row.default is None or isinstance(row.default, bool)
        yield f"{row.name}={value}" if value else row.name, text + ("" if says else f" Default: {row.default}.")


def _value(row: OptionRow, flag: Flag) -> str:
    if not flag.metavar:
        return str(flag.value)
    is_placeholder = flag.metavar.strip("[]").isupper()  # else it lists the values
    values = () if is_placeholder or row.kind.values is None else row.kind.values()
    if flag.metavar == "|".join(map(str, values)):
        return " or ".join(map(repr, values))
    return f"{flag.value} or {flag.metavar.strip('[]')}" if flag.text_is_optional else flag.metavar


def _signature(function: Callable[..., Any], keywords: str, classes: Sequence[type]) -> Signature:
    own = signature(function)
    parameters = {
        name: parameter for name, parameter in own.parameters.items() if parameter.kind != Parameter.VAR_KEYWORD
    }
    annotations = {name: kind.__forward_arg__ for name, kind in getattr(declared, keywords).__annotations__.items()}
    for options in classes:
        for row in option_rows(options):
            kind = annotations.get(row.name, Parameter.empty)
            option = Parameter(row.name, Parameter.KEYWORD_ONLY, default=row.default, annotation=kind)
            parameters.setdefault(row.name, option)
    return own.replace(parameters=list(parameters.values()))
