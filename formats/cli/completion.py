"""Scripts for shells: they complete the verbs, their options and the values of the options.

The script is made from the same rows as the help, so no program has to start when the user presses Tab.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from formats.options import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from formats.cli.command_line import Verb

PROGRAM = "formats"
VERB = "completion"  # its argument is a shell
FILES = ("FILE", "DST", "MODEL.onnx", "OUT.svg|OUT.html")  # the words for a file in the help of options
FOLDERS = ("FOLDER",)


class Suggested(NamedTuple):
    """An option of a verb: its names, its description, and the values that can follow it.

    `follows` is "files", "folders", "values" for one of `values`, "text" for anything else, or "" for nothing.
    """

    names: tuple[str, ...]
    help: str
    follows: str
    values: tuple[str, ...] = ()


class SuggestedVerb(NamedTuple):
    """A verb with its options; `arguments` are the values of its arguments, if these are not files."""

    name: str
    help: str
    options: tuple[Suggested, ...]
    arguments: tuple[str, ...] = ()


def suggested(all_verbs: Sequence[Verb]) -> list[SuggestedVerb]:
    """The verbs, with the options of installed codecs, too."""
    import inspect  # its import is slow, and only this function needs it

    from formats.codecs import lookup

    formats = ", ".join(codec.name for codec in lookup.codecs())
    found = []
    for verb in all_verbs:
        options = {}
        for group in verb.groups(True):
            for row in rows_of(group.options):
                for flag in row.flags:
                    values = tuple(map(str, row.kind.values())) if row.kind.values and flag.metavar else ()
                    words = _plain((flag.help or row.help).format(formats=formats))
                    options[flag.names] = Suggested(flag.names, words, _follows(flag.metavar, values), values)
        options["-h", "--help"] = Suggested(("-h", "--help"), "Show the common options", "")
        options["--help-all",] = Suggested(("--help-all",), "Show all options", "")
        summary = _plain(inspect.cleandoc(verb.summary))
        arguments = tuple(SHELLS) if verb.name == VERB else ()
        found.append(SuggestedVerb(verb.name, summary, tuple(options.values()), arguments))
    found.append(SuggestedVerb("help", "Show the help of a verb", (), tuple(verb.name for verb in all_verbs)))
    return found


def _follows(metavar: str, values: Sequence[str]) -> str:
    if not metavar or metavar.startswith("["):  # an optional text is attached with an equals sign
        return ""
    if values:
        return "values"
    return "files" if metavar in FILES else "folders" if metavar in FOLDERS else "text"


def _plain(text: str) -> str:
    """The first sentence, without the characters that have a meaning in shells."""
    first = re.split(r"(?<=[.;:])\s", " ".join(text.split()), maxsplit=1)[0]
    return re.sub(r"[^\w ,.()/'-]", "", first).rstrip(".")


# Bash


def for_bash(verbs: Sequence[SuggestedVerb]) -> str:
    """The script for bash, any version from 3.2 on."""
    names = " ".join((*(verb.name for verb in verbs), "--help", "--version"))
    return f"""\
# Completion of {PROGRAM} for bash: eval "$({PROGRAM} completion bash)"
_{PROGRAM}() {{
    local verb=${{COMP_WORDS[1]}} current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words=""
    COMPREPLY=()
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $before == "=" ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    if [[ $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "{names}" -- "$current"))
        return
    fi
    case "$verb $before" in
{_indented(_bash_values(verbs), 8)}
    esac
    case "$verb" in
{_indented(_bash_words(verbs), 8)}
    esac
    if [[ $current == -* || {" || ".join(f"$verb == {verb.name}" for verb in verbs if verb.arguments)} ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    fi
}}
complete -o default -F _{PROGRAM} {PROGRAM}
"""


def _bash_values(verbs: Sequence[SuggestedVerb]) -> Iterator[str]:
    for verb in verbs:
        for option in verb.options:
            pattern = "|".join(f'"{verb.name} {name}"' for name in option.names)
            if option.follows == "values":
                yield f'{pattern}) COMPREPLY=($(compgen -W "{" ".join(option.values)}" -- "$current")); return ;;'
            elif option.follows == "folders":
                yield f"{pattern}) compopt -o dirnames +o default 2>/dev/null; return ;;"
            elif option.follows == "files":
                yield f"{pattern}) return ;;"
            elif option.follows:
                yield f"{pattern}) compopt +o default 2>/dev/null; return ;;"


def _bash_words(verbs: Sequence[SuggestedVerb]) -> Iterator[str]:
    for verb in verbs:
        names = [name for option in verb.options for name in option.names]
        yield f'{verb.name}) words="{" ".join((*verb.arguments, *names))}" ;;'


# Zsh


def for_zsh(verbs: Sequence[SuggestedVerb]) -> str:
    """The script for zsh, to be evaluated after `compinit` or as the file `_formats` of a folder of `fpath`."""
    names = "\n".join(f'"{verb.name}:{verb.help}"' for verb in verbs)
    return f"""\
#compdef {PROGRAM}
# Completion of {PROGRAM} for zsh: eval "$({PROGRAM} completion zsh)" after compinit
_{PROGRAM}() {{
    local verb=$words[2] before=$words[CURRENT-1]
    local -a found
    if (( CURRENT == 2 )); then
        found=(
{_indented(names.splitlines(), 12)}
            '--help:Show the help'
            '--version:Print the version'
        )
        _describe verb found
        return
    fi
    if [[ $words[CURRENT] == --*=* ]]; then
        before=${{words[CURRENT]%%=*}}
        compset -P '*='
    fi
    case "$verb $before" in
{_indented(_zsh_values(verbs), 8)}
    esac
    if [[ $words[CURRENT] == -* ]]; then
        case $verb in
{_indented(_zsh_words(verbs), 12)}
        esac
        _describe -o option found
        return
    fi
    case $verb in
{_indented([f"{verb.name}) compadd -- {' '.join(verb.arguments)} ;;" for verb in verbs if verb.arguments], 8)}
        *) _files ;;
    esac
}}
if [[ $funcstack[1] == _{PROGRAM} ]]; then
    _{PROGRAM} "$@"
else
    compdef _{PROGRAM} {PROGRAM}
fi
"""


def _zsh_values(verbs: Sequence[SuggestedVerb]) -> Iterator[str]:
    actions = {"files": "_files", "folders": "_files -/", "text": "_message text"}
    for verb in verbs:
        for option in verb.options:
            pattern = "|".join(f'"{verb.name} {name}"' for name in option.names)
            if option.follows:
                action = actions.get(option.follows, f"compadd -- {' '.join(option.values)}")
                yield f"{pattern}) {action}; return ;;"


def _zsh_words(verbs: Sequence[SuggestedVerb]) -> Iterator[str]:
    for verb in verbs:
        yield f"{verb.name})"
        yield "    found=("
        for option in verb.options:
            yield from (f'        "{name}:{option.help}"' for name in option.names)
        yield "    ) ;;"


# Fish


def for_fish(verbs: Sequence[SuggestedVerb]) -> str:
    """The script for fish."""
    lines = [f"# Completion of {PROGRAM} for fish: {PROGRAM} completion fish | source"]
    first = f"complete -c {PROGRAM} -n __fish_use_subcommand"
    lines += (f'{first} -f -a {verb.name} -d "{verb.help}"' for verb in verbs)
    lines.append(f"{first} -f -l version -d 'Print the version'")
    lines.append(f"{first} -f -s h -l help -d 'Show the help'")
    actions = {"files": " -r -F", "folders": " -x -a '(__fish_complete_directories)'", "text": " -x"}
    for verb in verbs:
        seen = f"complete -c {PROGRAM} -n '__fish_seen_subcommand_from {verb.name}'"
        if verb.arguments:
            lines.append(f"{seen} -f -a '{' '.join(verb.arguments)}'")
        for option in verb.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            action = "" if not option.follows else actions.get(option.follows, f" -x -a '{' '.join(option.values)}'")
            lines.append(f'{seen} {names}{action} -d "{option.help}"')
    return "\n".join(lines) + "\n"


def _indented(lines: Iterator[str] | Sequence[str], by: int) -> str:
    return "\n".join(" " * by + line for line in lines)


SHELLS: dict[str, Callable[[Sequence[SuggestedVerb]], str]] = {"bash": for_bash, "zsh": for_zsh, "fish": for_fish}
