"""Write the keywords and the reference page of the options from the rows of their classes.

`formats/keywords.py` declares the keywords of `formats.load`, `save` and `convert` for type checkers and editors;
`docs/options.md` is the table for people. `formats/wording/option_lists.py` is what `help` shows of them.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import formats
from formats.cli.command_line import GENERAL, panels
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.options import names_of, rows_of
from formats.signatures import keywords_of, option_classes
from formats.tensordata.engine import EngineOptions
from formats.verbs.choices import ConversionOptions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from formats.options import Flag, Row

TARGETS = tuple(dict.fromkeys(codec.options for codec in lookup.built_in()))
IMPORTS = {  # the modules of the names in annotations
    "Callable": "collections.abc",
    "Mapping": "collections.abc",
    "Sequence": "collections.abc",
    "Key": "formats.codecs.keys",
    "Source": "formats.tensordata.sources.source",
}


OPTIONS = option_classes(lookup.built_in())
WIDTH = 108  # of a list in a docstring


class Keywords(NamedTuple):
    """A class of keywords, those of classes of options and of another class of keywords."""

    name: str
    summary: str
    base: str = "TypedDict"

    @property
    def options(self) -> tuple[type, ...]:
        """The classes of options, without those of the base."""
        return tuple(each for each in OPTIONS[self.name] if each not in OPTIONS.get(self.base, ()))


KEYWORDS = (
    Keywords("ReadKeywords", "The options of `formats.load` and of all that reads."),
    Keywords("RaiseKeywords", "The options of `formats.raise_model`."),
    Keywords(
        "WriteKeywords",
        "The options of `formats.save`: of the engine, of raising, of a runtime, and of the format that is written.",
    ),
    Keywords("ConvertKeywords", "The options of `formats.convert`: those of `load` and of `save`."),
    Keywords("EditKeywords", "The options of `formats.edit`: its own, and those of `formats.convert`."),
    Keywords("ExtractKeywords", "The options of `formats.extract`: its own, and those of `formats.convert`."),
    Keywords("MergeKeywords", "The options of `formats.merge`: its own, and those of `formats.convert`."),
    Keywords(
        "JobKeywords", "The options of `formats.convert_many`: all that `formats.convert` has.", "ConvertKeywords"
    ),
    Keywords("ShareKeywords", "The options of `formats.share`: its own, those of `load` and of the engine."),
    Keywords("PackKeywords", "The options of `formats.pack`: its own, those of `load` and of the engine."),
    Keywords("PlaceKeywords", "The options of `formats.cp` and `formats.mv`."),
)
LISTS = '''\
"""What the options of each function do, for its help; `schemas/generate.py` makes this from the classes of options."""
'''
REFERENCE = """\
# Commands and options

`python schemas/generate.py` makes this page from the code. `formats help` lists the verbs. `formats VERB --help` shows
the options in **bold**, which most people need, and `formats VERB --help-all` shows all.

The command line and the library have the same options with the same names: `--size-threshold 64K` is
`size_threshold="64K"`. [Words](#words) lists the few exceptions. A key is a text, bytes or a `formats.Key`. It is never
part of the command line, which other users can see.

A size is a number of bytes, or a text: `64K`, `64k` and `64KiB` are 65,536 bytes, and `64KB` is 64,000. The units are
K, M, G and T. A fraction such as `1.5G` is exact; a part of a byte is dropped. Digits may be grouped: `1_000_000`.

All values are checked before any file is read. A wrong value gives exit code 2, and `formats.OptionError` in the
library. So does an option that would have no effect: one that the target format does not have, `--pin` for a model that
has its types, or `--onnx-hash` if the source is not an `.onnx` file. An option about data files, such as
`--max-external-file-size`, implies `--external-data`. Limits and permissions (such as `--strict`, `--lenient`,
`--max-depth`, `--no-hard-links`, `--force` and `--threads`) are always allowed.

## Words

A verb of the command is the function of the same name in the library: `formats diff` is `formats.diff`. Only `formats
batch` has no function of its name: `formats.convert_many` gets a list of jobs, where `batch` gets folders and patterns.

`convert`, `batch` and `share` write to what `-o`, `--out` names. `convert` can also have it as the last argument, as
`cp` has; for `batch` and `share`, all arguments are sources, as many as a pattern of the shell gives.

An option has one word, and perhaps a letter. The keyword is the same word with `_` for `-`, except for these:

| flag | keyword | reason |
|---|---|---|
| `--from`, `--to` | `from_format`, `to_format`, or `format` for one file | `from` cannot be a keyword in Python |
| `--force` | `overwrite=True` | `cp` and `mv` have the letter `-f`; the keyword says what it does |
| `--no-external-data` and others with `no-` | `external_data=False` | the flag turns something off |
| `--key-file`, `--key-env`, `--ask-key` | `key` | other users can see what is typed on a command line |
"""


def keywords() -> str:
    """The text of `formats/keywords.py`."""
    classes = [*map(_typed_dict, KEYWORDS)]
    body = "\n\n".join(classes)
    used: dict[str, list[str]] = {}
    for name, module in IMPORTS.items():
        if f"{name}[" in body or f" {name} " in body or f": {name}" in body:
            used.setdefault(module, []).append(name)
    imports = {module: f"    from {module} import {', '.join(names)}" for module, names in used.items()}
    own = [line for module, line in sorted(imports.items()) if module.startswith("formats")]
    others = [line for module, line in sorted(imports.items()) if not module.startswith("formats")]
    return "\n".join(
        [
            '"""The options of the library as keywords, for type checkers and editors.',
            "",
            "Written by schemas/generate.py from the classes of options; do not edit.",
            '"""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import TYPE_CHECKING, Any, TypedDict",
            "",
            "if TYPE_CHECKING:",
            *(["    import os"] if "os.PathLike" in body else []),
            *others,
            "",
            *own,
            "",
            "",
            body,
        ]
    )


def _typed_dict(keywords: Keywords) -> str:
    types: dict[str, list[str]] = {}
    for each in keywords.options:
        rows = {row.name: row for row in rows_of(each)}
        for field in fields(each):
            if row := rows.get(field.name):
                parts = types.setdefault(field.name, [])
                parts += [part for part in _type(row, str(field.type)) if part not in parts]
    lines = [f"class {keywords.name}({keywords.base}, total=False):", f'    """{keywords.summary}"""', ""]
    words = lines_by_option(keywords.options)
    for option, parts in types.items():
        about = textwrap.wrap("; ".join(line.removesuffix(".") for line in words[option]) + ".", WIDTH - 6)
        lines += [f"    {option}: {' | '.join(_none_last(parts))}"]
        lines += ['    """' + "\n    ".join(about) + '"""']
    return "\n".join(lines) + "\n"


def _type(row: Row, annotation: str) -> list[str]:
    parts = annotation.split(" | ")
    if row.kind.keyword_type:
        parts = [*row.kind.keyword_type.split(" | "), *(["None"] if "None" in parts else [])]
    return parts


def _none_last(parts: Sequence[str]) -> list[str]:
    return [*(part for part in parts if part != "None"), *(["None"] if "None" in parts else [])]


def lines_by_option(classes: Sequence[type], only: Collection[str] | None = None) -> dict[str, list[str]]:
    """For each option, a line for each of its uses, such as "hard_links=False: Refuse data files with ..."."""
    found: dict[str, dict[str, str]] = {}
    for each in classes:
        for row in rows_of(each):
            if only is None or row.name in only:
                for use, text in _uses(row):
                    found.setdefault(row.name, {}).setdefault(use, text)
    return {name: [f"{use}: {text}" for use, text in uses.items()] for name, uses in found.items()}


def _uses(row: Row) -> Iterator[tuple[str, str]]:
    """What an option is set to, and what that does."""
    uses = [(_value(row, flag), flag.help) for flag in row.flags if flag.help]
    if row.keyword_help or row.help not in [text for _, text in uses]:  # the flags say how to type it
        uses = [("", row.keyword_help or row.help)]
    names = ", ".join(codec.name for codec in lookup.built_in())
    for value, text in uses:
        says = "default" in text or row.default is None or isinstance(row.default, bool)
        text = text.replace("{formats}", names) + ("" if says else f" Default: {row.default}.")
        yield f"{row.name}={value}" if value else row.name, text.replace("\\", "\\\\")


def _value(row: Row, flag: Flag) -> str:
    if not flag.metavar:
        return str(flag.value)
    values = row.kind.values() if row.kind.values else ()
    if flag.metavar == "|".join(map(str, values)):
        return " or ".join(map(repr, values))
    return f"{flag.value} or {flag.metavar.strip('[]')}" if flag.text_is_optional else flag.metavar


def lists() -> str:
    """The text of `formats/wording/option_lists.py`."""
    texts = {_wrapped(lines_by_option(OPTIONS[each.name])): _constant(each.name) for each in KEYWORDS}
    table = []
    for name, module in vars(formats)["_MODULES"].items():
        function = getattr(import_module(f"formats.{module}"), name)
        if not inspect.isfunction(function):
            continue
        own = lines_by_option((ConversionOptions, EngineOptions), function.__kwdefaults__ or {})
        declared = keywords_of(function)
        if not declared and len(own) == 1:  # the text of the function says what it means there
            continue
        found = [texts.setdefault(_wrapped(own), f"_OF_{name.upper()}")] if own else []
        found += [_constant(declared)] if declared else []
        table += [f'    "{name}": {" + ".join(found)},'] if found else []
    constants = [f'{name} = """\\\n{text}"""' for text, name in texts.items()]
    return "\n".join([LISTS, *constants, "", "OPTIONS = {", *table, "}", ""])


def _constant(keywords: str) -> str:
    return f"_{keywords.removesuffix('Keywords').upper()}"


def _wrapped(words: Mapping[str, Sequence[str]]) -> str:
    """The lines of each option, cut to the width of a docstring."""
    lines = [line for uses in words.values() for line in uses]
    return "".join(f"{part}\n" for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    "))


def reference() -> str:
    """The text of `docs/options.md`."""
    parts = [REFERENCE]
    for verb in VERBS:
        summary = inspect.cleandoc(verb.summary)
        parts.append(f"## `formats {verb.name} {' '.join(verb.arguments)}`\n\n{summary}\n")
        for panel, options in panels(verb.groups(False)).items():
            if panel != GENERAL or len(panels(verb.groups(False))) > 1:
                parts.append(f"### {panel}\n" if panel != GENERAL else "### For all formats\n")
            parts.append(_table(options))
    parts.append("## In the library only\n")
    parts.append("Keywords of `formats.save` and `formats.convert` for which there is no flag.\n")
    internal = [row for each in (EngineOptions, *TARGETS) for row in rows_of(each) if not row.flags]
    others = [row for row in internal if row.name not in names_of(ReadOptions)]
    parts.append(
        "\n".join(
            ["| keyword | meaning | default |", "|---|---|---|"]
            + [f"| `{row.name}` | {row.help} | `{row.default}` |" for row in others]
        )
        + "\n"
    )
    return "\n".join(parts)


def _table(options: Sequence[tuple[Row, Flag]]) -> str:
    formats = ", ".join(f"`{codec.name}`" for codec in lookup.built_in())
    lines = ["| option | keyword | meaning | value |", "|---|---|---|---|"]
    for row, flag in options:
        names = ", ".join(f"`{name}`" for name in flag.names)
        off = "".join(f" / `{each.names[0]}`" for each in row.flags if not each.help)
        metavar = flag.metavar.replace("|", "\\|")
        typed = f" `{metavar}`" if metavar else ""
        names = f"**{names}**" if row.common else names
        keyword = f"`{row.name}={flag.value}`" if flag.value is False else f"`{row.name}`"
        words = row.kind.words if flag.metavar else ""
        lines.append(f"| {names}{off}{typed} | {keyword} | {flag.help.format(formats=formats)} | {words} |")
    return "\n".join(lines) + "\n"
