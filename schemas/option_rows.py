"""Write the keywords and the reference page of the options from the rows of their classes.

`formats/keywords.py` declares the keywords of `formats.load`, `save` and `convert` for type checkers and editors;
`docs/options.md` is the table for people.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from formats.cli.command_line import GENERAL, panels
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.options import names_of, option_rows
from formats.signatures import WIDTH, lines_by_option, option_classes
from formats.tensordata.engine import EngineOptions
from formats.verbs.choices import RaisingOptions, ReplacementOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.options import Flag, OptionRow

TARGETS = tuple(dict.fromkeys(codec.options for codec in lookup.built_in()))
IMPORTS = {  # the modules of the names in annotations
    "Callable": "collections.abc",
    "Mapping": "collections.abc",
    "Sequence": "collections.abc",
    "Key": "formats.codecs.keys",
    "Source": "formats.tensordata.sources.source",
}


OPTIONS = option_classes(lookup.built_in())


class Keywords(NamedTuple):
    """A class of keywords: those of classes of options, besides those of other classes of keywords."""

    name: str
    summary: str
    bases: tuple[str, ...] = ()


def _names_in(*classes: type) -> set[str]:
    return {row.name for each in classes for row in option_rows(each)}


READ, WRITTEN = _names_in(*OPTIONS["ReadKeywords"]), _names_in(*OPTIONS["WriteKeywords"])
ENGINE, REPLACEMENT = _names_in(EngineOptions) - READ, _names_in(ReplacementOptions)
# The parts of classes, since a keyword must not come from two bases: where the options are from, and their names.
PARTS = {
    "AccessKeywords": ("WriteKeywords", READ & WRITTEN),
    "OnlyReadKeywords": ("ReadKeywords", READ - WRITTEN),
    "EngineKeywords": ("WriteKeywords", ENGINE),
    "ReplacementKeywords": ("WriteKeywords", REPLACEMENT),
    "OnlyWriteKeywords": ("WriteKeywords", WRITTEN - READ - ENGINE - REPLACEMENT - _names_in(RaisingOptions)),
}
KEYWORDS = (
    Keywords("AccessKeywords", "The options of reading and of writing: the key, and requests to stores."),
    Keywords("OnlyReadKeywords", "The other options of reading."),
    Keywords("EngineKeywords", "The options of the engine, besides those for stores."),
    Keywords("ReplacementKeywords", "What becomes of a model that is replaced."),
    Keywords("OnlyWriteKeywords", "The other options of writing: metadata, and those of a runtime and of the format."),
    Keywords(
        "ReadKeywords", "The options of `formats.load` and of all that reads.", ("OnlyReadKeywords", "AccessKeywords")
    ),
    Keywords("RaiseKeywords", "The options of `formats.raise_model`."),
    Keywords(
        "WriteKeywords",
        "The options of `formats.save`.",
        ("OnlyWriteKeywords", "RaiseKeywords", "EngineKeywords", "ReplacementKeywords", "AccessKeywords"),
    ),
    Keywords(
        "ConvertKeywords",
        "The options of `formats.convert` and `formats.convert_many`: their own, those of `load`, and those of `save`.",
        ("OnlyReadKeywords", "WriteKeywords"),
    ),
    Keywords("EditKeywords", "The options of `formats.edit`: its own, and those of `convert`.", ("ConvertKeywords",)),
    Keywords("ExtractKeywords", "The options of `formats.extract`, and those of `convert`.", ("ConvertKeywords",)),
    Keywords("MergeKeywords", "The options of `formats.merge`, and those of `convert`.", ("ConvertKeywords",)),
    Keywords(
        "ShareKeywords",
        "The options of `formats.share`, and those of `load`.",
        ("ReadKeywords", "EngineKeywords", "ReplacementKeywords"),
    ),
    Keywords("PackKeywords", "The options of `formats.pack`, and those of `load`.", ("ReadKeywords", "EngineKeywords")),
    Keywords("RelocationKeywords", "The options of `formats.cp` and `formats.mv`.", ("ReplacementKeywords",)),
)
REFERENCE = """\
# Commands and options

`formats help` lists the verbs. `formats VERB --help` shows the options in **bold**, which most people need, and
`formats VERB --help-all` shows all.

## What the command line and the library share

Each verb of the command line is the function of the same name in the library: `formats diff` is `formats.diff`. The one
exception is `formats batch`, which takes folders and patterns: in the library, `formats.convert_many` takes a list of
jobs.

Each option has the same name in both, with `_` for `-`: `--size-threshold 64K` is `size_threshold="64K"`. These differ:

| flag | keyword | reason |
|---|---|---|
| `--from`, `--to` | `from_format`, `to_format`, or `format` for one file | `from` cannot be a keyword in Python |
| `--force` | `overwrite=True` | `cp` and `mv` have the letter `-f`; the keyword says what it does |
| `--no-external-data` and others with `no-` | `external_data=False` | the flag turns something off |
| `--key-file`, `--key-env`, `--ask-key` | `key` | other users can see what is typed on a command line |

In the library, `key` is a text, bytes or a `formats.Key`.

## Which values options take

A size is a number of bytes, or a text: `64K`, `64k` and `64KiB` are 65,536 bytes, and `64KB` is 64,000. The units are
K, M, G and T. A fraction such as `1.5G` is exact; a part of a byte is dropped. Digits may be grouped: `1_000_000`.

All values are checked before any file is read. A wrong value gives exit code 2, and `formats.OptionError` in the
library.

An option that would have no effect is wrong, too: one that the target format does not have, `--pin` for a model that
has its types, or `--onnx-hash` if the source is not an `.onnx` file. Limits and permissions (such as `--strict`,
`--lenient`, `--max-depth`, `--no-hard-links`, `--force` and `--threads`) are always allowed. An option about data
files, such as `--max-external-file-size`, implies `--external-data`.

## Where the result goes

`convert`, `batch` and `share` write to what `-o`, `--out` names. `convert` can also have it as the last argument, as
`cp` has. For `batch` and `share`, all arguments are sources, as many as a pattern of the shell gives.
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
    inherited = {name for base in keywords.bases for name in _names(base)}
    source, only = PARTS.get(keywords.name, (keywords.name, _names(keywords.name) - inherited))
    types: dict[str, list[str]] = {}
    for each in OPTIONS[source]:
        rows = {row.name: row for row in option_rows(each)}
        for field in fields(each):
            if (row := rows.get(field.name)) and field.name in only:
                parts = types.setdefault(field.name, [])
                parts += [part for part in _type(row, str(field.type)) if part not in parts]
    bases = ", ".join(keywords.bases) or "TypedDict"
    lines = [f"class {keywords.name}({bases}, total=False):", f'    """{keywords.summary}"""', ""]
    words = lines_by_option(OPTIONS[source], lookup.built_in(), only)
    for option, parts in types.items():
        text = "; ".join(line.removesuffix(".") for line in words[option]).replace("\\", "\\\\")
        lines += [f"    {option}: {' | '.join(_none_last(parts))}"]
        lines += ['    """' + "\n    ".join(textwrap.wrap(f"{text}.", WIDTH - 6)) + '"""']
    return "\n".join(lines).rstrip() + "\n"


def _names(keywords: str) -> set[str]:
    """The options of a class of keywords, with those that it inherits."""
    if keywords in PARTS:
        return PARTS[keywords][1]
    return _names_in(*OPTIONS[keywords])


def _type(row: OptionRow, annotation: str) -> list[str]:
    parts = annotation.split(" | ")
    if row.kind.keyword_type:
        parts = [*row.kind.keyword_type.split(" | "), *(["None"] if "None" in parts else [])]
    return parts


def _none_last(parts: Sequence[str]) -> list[str]:
    return [*(part for part in parts if part != "None"), *(["None"] if "None" in parts else [])]


def reference() -> str:
    """The text of `docs/options.md`."""
    verbs_of: dict[tuple[str, str], list[str]] = {}
    for verb in VERBS:
        for panel, options in panels(verb.groups(False)).items():
            verbs_of.setdefault((panel, _table(options)), []).append(f"`{verb.name}`")
    headings: dict[tuple[str, str], str] = {}  # the second table with the title of another one names its verbs
    for (panel, table), verbs in verbs_of.items():
        headings[panel, table] = f"{panel}: {', '.join(verbs)}" if panel in headings.values() else panel
    parts = [REFERENCE]
    for verb in VERBS:
        parts.append(f"## `formats {verb.name} {' '.join(verb.arguments)}`\n\n{inspect.cleandoc(verb.summary)}\n")
        elsewhere = []
        for panel, options in panels(verb.groups(False)).items():
            table = _table(options)
            heading = headings[panel, table]
            if panel == GENERAL:
                parts.append(table)
            elif len(verbs_of[panel, table]) == 1:
                parts.append(f"### {heading}\n\n{table}")
            else:
                title = panel.removeprefix("Options ")
                elsewhere.append(f"[{title[:1].lower()}{title[1:]}](#{_anchor(heading)})")
        if elsewhere:
            parts.append(f"More options: {'; '.join(elsewhere)}.\n")
    parts.append("## Options of several verbs\n")
    for (panel, table), verbs in verbs_of.items():
        if panel != GENERAL and len(verbs) > 1:
            parts.append(f"### {headings[panel, table]}\n\nThe verbs: {', '.join(verbs)}.\n\n{table}")
    parts.append("## In the library only\n")
    parts.append("Keywords of `formats.save` and `formats.convert` for which there is no flag.\n")
    internal = [row for each in (EngineOptions, *TARGETS) for row in option_rows(each) if not row.flags]
    others = [row for row in internal if row.name not in names_of(ReadOptions)]
    parts.append(
        "\n".join(
            ["| keyword | meaning | default |", "|---|---|---|"]
            + [f"| `{row.name}` | {row.help} | `{row.default}` |" for row in others]
        )
        + "\n"
    )
    parts.append("---\n\n`python schemas/generate.py` makes this page from the options in the code.\n")
    return "\n".join(parts)


def _anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and MkDocs make it."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def _table(options: Sequence[tuple[OptionRow, Flag]]) -> str:
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
