"""The verbs as commands of typer, which parses every command line and shows the help.

Of a command line, only the verb that was typed is made. Its parameters come from the rows of its options.
"""

from __future__ import annotations

import os
from inspect import Parameter, Signature
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.completion import completion_init  # type: ignore[attr-defined]  # it does not say that it exports it
from typer.core import TyperCommand, TyperGroup

from formats.cli import advice
from formats.cli.command_line import Request, flags_of, panels
from formats.cli.streams import say
from formats.cli.verbs import COMPLETE, VERBS
from formats.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats.cli.command_line import OptionGroup, Verb
    from formats.options import Flag, OptionRow

    Table = Mapping[str, tuple[OptionRow, Flag]]

VERSION = ("--version", "Print the version.")
HELP = ("-h, --help", "Show the options that most people need.")
HELP_ALL = "--help-all"
HELP_OF_VERBS = (
    ("formats VERB --help", "Show the options of a verb that most people need"),
    ("formats VERB --help-all", "Show all options of a verb"),
    ("--version", "Print the version"),
)
SIZES = "SIZE is a number of bytes, or 64K or 5GiB (powers of 1024), or 1.5GB (powers of 1000)."
CONVERT_COMMAND = VERBS[0].name  # also a command of its own
DESCRIPTION = "Convert, inspect, verify and compare models: .onnx, .onnxz, .rten and .ort."
DOCUMENTS = "https://onnx-formats.github.io/formats"  # as in pyproject.toml
EXAMPLES = (
    "formats convert model.onnx model.rten",
    "formats inspect model.onnx",
    "formats verify model.onnxz --data",
    "formats diff model.onnx model.onnxz",
)
# What the contexts of a command line have besides: its words, and whether the whole help is shown.
WORDS, WHOLE = "formats.words", "formats.whole"


def understood(program: str, texts: Sequence[str], *, of_all_packages: bool = False) -> Request | None:
    """The request of the command `program` with these arguments, or `None` if they ask for help, which is shown.

    The options of all packages are searched only if the line has one that the built-in formats do not have.

    Raises: OptionError for a command line that typer does not understand, with advice or typer's message.
    """
    if COMPLETE in os.environ:  # a shell asks for suggestions
        completion_init()
    if program == CONVERT_COMMAND:
        command: Any = command_of(VERBS[0], of_all_packages, alone=True)
    else:  # `formats` alone shows its help, and so does `help`, which may name a verb
        command = main_command(of_all_packages)
        if texts and texts[0] == "help":
            texts = [*(text for text in texts if text != "help"), "--help"]
        texts = texts or ["--help"]
    try:
        request = command.main([*texts], prog_name=program, standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):  # the errors of click, which new releases of typer have inside
            raise
        if type(error).__name__ == "NoSuchOption" and not of_all_packages:
            return understood(program, texts, of_all_packages=True)
        raise OptionError(_answer(program, texts, error)) from error
    return request if isinstance(request, Request) else None


def _answer(program: str, texts: Sequence[str], error: Any) -> str:
    """The answer to a line in which typer found an error: advice, or its own message."""
    verb = VERBS[0] if program == CONVERT_COMMAND else advice.verb_of(texts)
    if type(error).__name__ == "NoSuchOption":
        return advice.unknown_option(program, verb, error.option_name, texts)
    if type(error).__name__ == "BadOptionUsage" and verb is not None:
        return advice.bad_usage(verb, error.option_name)
    message = str(error.format_message()).strip().removesuffix(".")
    return f"{message[:1].lower()}{message[1:]}; see {advice.helper(program, verb)}"


# Parsing


def command_of(verb: Verb, of_all_packages: bool, *, alone: bool = False) -> VerbCommand:
    """The verb as a command of typer, which returns the request; if it is `alone`, it has the option `--version`."""
    groups = verb.groups(of_all_packages)
    table = flags_of(group.options for group in groups)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(verb.name, cls=VerbCommand, help=verb.summary, add_help_option=False)(
        _callback(verb, groups, table, [_version_parameter()] if alone else [])
    )
    command: Any = typer.main.get_command(app)
    command.verb, command.table = verb, table
    return command  # type: ignore[no-any-return]  # of the class that was named above


class VerbCommand(TyperCommand):
    """A verb; its help has a section for each panel of options, the same with every version of typer."""

    verb: Verb
    table: Table

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as click does, but leave the values as they were typed, because the rows convert them.

        To convert even texts, typer imports pydantic, which takes as long as all else that a small command does.
        """
        if ctx.resilient_parsing:  # for suggestions
            return super().parse_args(ctx, args)
        check_dashes(args, self.table)
        ctx.meta[WORDS] = words = with_text_attached(args, self.verb, self.table)
        values, rest, _ = self.make_parser(ctx).parse_args([*words])
        for each in self.params:
            if each.is_eager:  # the help, and the version
                each.handle_parse_result(ctx, values, rest)
            else:
                ctx.params[each.name] = values.get(each.name, each.default)
        ctx.args = rest
        return rest

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the name in the first line of the help."""
        return ["[OPTIONS]", *self.verb.arguments]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options."""
        write_options(self.verb, formatter, common=not ctx.meta[WHOLE], with_version=ctx.parent is None)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, and where the documents are."""
        program = "" if ctx.parent is None else "formats "
        write_lines(formatter, "Examples", [line.replace("formats ", program, 1) for line in self.verb.examples])
        write_lines(formatter, "Documents", [DOCUMENTS])


def _callback(
    verb: Verb, groups: Sequence[OptionGroup], table: Table, others: Sequence[Parameter]
) -> Callable[..., Request]:
    """The function that typer calls with a command line; its parameters are made from the rows of the options."""
    unique = {flag.names: (row, flag) for row, flag in table.values()}
    flags = {f"flag_{n}": flag for n, (_, flag) in enumerate(unique.values())}

    def request(context: typer.Context, **values: list[str] | bool) -> Request:
        words = [word.partition("=")[0] for word in context.meta[WORDS]]  # for the names and the order of flags
        typed: list[tuple[str, str | None]] = []
        for key, flag in flags.items():
            value = values[key]
            name = next((name for name in flag.names[::-1] if name in words), flag.names[0])  # a letter, as in -qf
            typed += [(name, text) for text in value] if isinstance(value, list) else [(name, None)] * value
        typed.sort(key=lambda each: words.index(each[0]) if each[0] in words else len(words))
        check_arguments(verb, context.args, [table[name][0].name for name, _ in typed])
        return Request(verb, context.args, typed, groups)

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)]
    for key, (row, flag) in zip(flags, unique.values(), strict=True):
        if flag.metavar:
            option: Any = typer.Option(
                *flag.names, metavar=flag.metavar, help=flag.help, autocompletion=_suggested(row)
            )
            parameters.append(_parameter(key, list[str], (), option))
        else:
            parameters.append(_parameter(key, bool, False, typer.Option(*flag.names, help=flag.help)))
    request.__signature__ = Signature([*parameters, *_help_parameters(), *others])  # type: ignore[attr-defined]  # as `inspect` says
    return request


def _parameter(name: str, kind: Any, default: Any, info: Any) -> Parameter:
    """A parameter in typer's form."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def _suggested(row: OptionRow) -> Callable[[str], list[str]] | None:
    """The function that suggests the values of an option, if there are few."""
    values = row.kind.values
    if values is None:
        return None

    def suggest(incomplete: str) -> list[str]:
        return [text for text in map(str, values()) if text.startswith(incomplete)]

    return suggest


def check_arguments(verb: Verb, arguments: Sequence[str], options: Sequence[str]) -> None:
    """Raises OptionError if arguments are missing, or too many."""
    if missing := verb.needed(options)[len(arguments) :]:
        usage = f"formats {verb.name} {' '.join(verb.arguments)}"
        raise OptionError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; type {usage}")
    if not verb.takes_more and len(arguments) > len(verb.arguments):
        unexpected = " ".join(arguments[len(verb.arguments) :])
        raise OptionError(f"{verb.name} takes only {' and '.join(verb.arguments)}, and nothing after: {unexpected}")


def check_dashes(words: Sequence[str], table: Table) -> None:
    """Raises OptionError if a word is a long option with one dash, which would be read as several short ones."""
    for word in words:
        if word == "--":
            return
        name = word.partition("=")[0]
        if len(name) > 2 and word[1] != "-" and f"-{name}" in table:
            raise OptionError(f"there is no option {name}; did you mean -{name}?")


def with_text_attached(texts: Sequence[str], verb: Verb, table: Table) -> list[str]:
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
    from formats.codecs.lookup import model_extensions

    for index in reversed(optional):
        has_text = index + 1 in positional and len(positional) > needed > 0
        if has_text and verb.takes_more and PurePath(words[index + 1]).suffix.lower() in model_extensions():
            if index + 1 < max(positional) and _exists_nowhere(words[index + 1]):
                flag, name = words[index], words[index + 1]
                raise OptionError(f"{name} does not exist; if it is the text of {flag}, write {flag}={name}")
            has_text = False
        words[index : index + 1 + has_text] = [f"{words[index]}={words[index + 1] if has_text else ''}"]
    return words


def _exists_nowhere(text: str) -> bool:
    """Whether a word is neither a file nor an address nor a pattern."""
    from formats.tensordata.file import is_address
    from formats.verbs.arguments import path_of

    return not (os.path.lexists(text) or is_address(path_of(text)) or {*"*?["} & {*text})


# Help


class MainCommand(TyperGroup):
    """The command `formats`, whose help lists the verbs by sections; a verb is made when it is typed."""

    of_all_packages = False

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the verbs."""
        return [verb.name for verb in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> VerbCommand | None:
        """The verb with this name, made now."""
        verb = advice.verb_of([cmd_name])
        return verb and command_of(verb, self.of_all_packages or ctx.resilient_parsing)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with. Raises: OptionError with advice if there is none."""
        if advice.verb_of(args) is None and not ctx.resilient_parsing:
            raise OptionError(advice.unknown_verb(args))
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows the name in the first line of the help."""
        return ["VERB", "..."]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the verbs by sections."""
        width = max(len(verb.name) for verb in VERBS)
        for section in dict.fromkeys(verb.section for verb in VERBS):
            rows = [(verb.name.ljust(width), first_line(verb)) for verb in VERBS if verb.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)
        with formatter.section("Help"):
            formatter.write_dl(HELP_OF_VERBS)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, and where the documents are."""
        write_lines(formatter, "Examples", EXAMPLES)
        write_lines(formatter, "Documents", [DOCUMENTS])


def main_command(of_all_packages: bool) -> MainCommand:
    """The command `formats`."""
    app = typer.Typer(
        cls=MainCommand, help=DESCRIPTION, add_help_option=False, add_completion=False, rich_markup_mode=None
    )

    def main(**_: bool) -> None:
        pass

    main.__signature__ = Signature([*_help_parameters(), _version_parameter()])  # type: ignore[attr-defined]
    app.callback()(main)
    command: Any = typer.main.get_command(app)
    command.of_all_packages = of_all_packages
    return command  # type: ignore[no-any-return]  # of the class that was named above


def _help_parameters() -> list[Parameter]:
    """The parameters `--help-all`, which counts if both are given, and `--help`."""

    def show_all(context: typer.Context, wanted: bool) -> None:
        if wanted:
            _show_help(context, whole=True)

    def show(context: typer.Context, wanted: bool) -> None:
        if wanted:
            _show_help(context, whole=False)

    return [
        _eager("help_all", show_all, HELP_ALL, "Show all options."),
        _eager("help", show, "-h", "--help", "Show the common options."),
    ]


def _version_parameter() -> Parameter:
    def say_version(context: typer.Context, wanted: bool) -> None:
        from formats import __version__

        if wanted:
            say(f"{context.info_name} {__version__}")
            raise typer.Exit

    return _eager("version", say_version, *VERSION)


def _eager(name: str, act: Callable[[typer.Context, bool], None], *flags_and_help: str) -> Parameter:
    """The parameter of a flag that prints something instead of the work."""
    *flags, words = flags_and_help
    return _parameter(
        name, bool, False, typer.Option(*flags, is_eager=True, expose_value=False, callback=act, help=words)
    )


def _show_help(context: typer.Context, *, whole: bool) -> NoReturn:
    """Print the help of a command with the common options, or with all, and end the command line."""
    command: Any = context.command
    context.meta[WHOLE] = whole
    say(command.get_help(context))
    if whole and isinstance(command, MainCommand):
        for name in command.list_commands(context):
            verb: Any = command.get_command(context, name)
            say(verb.get_help(typer.Context(verb, parent=context, info_name=name)))
    raise typer.Exit


def first_line(verb: Verb) -> str:
    """What a verb does, in one line."""
    return verb.summary.partition("\n")[0].removesuffix(".")


def write_options(verb: Verb, formatter: Any, *, common: bool, with_version: bool) -> None:
    """Write all options of a verb, or the common ones, with a formatter of click."""
    from formats.codecs import lookup

    names = ", ".join(codec.name for codec in lookup.codecs())
    groups = verb.groups(True)
    count = sum(map(len, panels(groups).values()))
    shown = panels(groups, common=common)
    for number, (panel, options) in enumerate(shown.items()):
        records = []
        for row, flag in options:
            off = next((f" / {each.names[0]}" for each in row.flags if not each.help), "")
            on = ", ".join(flag.names)
            records.append((f"{on}{off} {flag.metavar}".rstrip(), flag.help.format(formats=names)))
        if number == 0:
            records += [VERSION] if with_version else []
            records += [HELP, (HELP_ALL, f"Show all {count} options.")]
        with formatter.section(panel):
            formatter.write_dl(records)
    if any(flag.metavar == "SIZE" for options in shown.values() for _, flag in options):
        formatter.write_paragraph()
        formatter.write_text(SIZES)


def write_lines(formatter: Any, title: str, lines: Sequence[str]) -> None:
    """Write a section whose lines stay as they are."""
    with formatter.section(title):
        for line in lines:
            formatter.write(f"{' ' * formatter.current_indent}{line}\n")
