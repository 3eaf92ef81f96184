"""The verbs as commands of typer: for help, and for errors in command lines."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from formats.cli import advice
from formats.cli.command_line import Request, Typed, check_arguments, check_dashes, flags_of, panels, with_text_attached
from formats.cli.printing import say
from formats.errors import OptionError
from formats.options import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.cli.command_line import Group, Verb
    from formats.options import Flag

    Perform = Callable[[Verb, Request], None]

VERSION = ("--version", "Print the version.")
HELP = ("-h, --help", "Show the options that most people need.")
HELP_ALL = "--help-all"
HELP_OF_VERBS = (
    ("formats VERB --help", "Show the options of a verb that most people need"),
    ("formats VERB --help-all", "Show all options of a verb"),
    ("--version", "Print the version"),
)
SIZES = "SIZE is a number of bytes, or 64K or 5GiB (powers of 1024), or 1.5GB (powers of 1000)."
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
DESCRIPTION = "Convert, inspect, verify and compare models: .onnx, .onnxz, .rten and .ort."
DOCUMENTS = "https://onnx-formats.github.io/formats"  # as in pyproject.toml
EXAMPLES = (
    "formats convert model.onnx model.rten",
    "formats inspect model.onnx",
    "formats verify model.onnxz --data",
    "formats diff model.onnx model.onnxz",
)


def run(
    program: str, texts: Sequence[str], verbs: Sequence[Verb], perform: Perform, say_version: Callable[[], None]
) -> None:
    """Let typer parse the arguments of the command `program`; if that succeeds, `perform` gets the request.

    Raises: OptionError for a command line that typer does not understand, with advice or typer's message.
    """
    verb = verbs[0] if len(verbs) == 1 else next((each for each in verbs if [each.name] == [*texts[:1]]), None)
    shows_all = HELP_ALL in texts[: [*texts, "--"].index("--")]
    app = app_of(verbs, perform, say_version, common=not shows_all)
    try:
        for line in help_lines(texts, verbs) if shows_all or not texts else [[*texts]]:
            app(line, prog_name=program, standalone_mode=False)
    except Exception as error:
        words = getattr(error, "format_message", None)  # click's errors have it, in all versions that typer uses
        if words is None:
            raise
        if type(error).__name__ == "NoSuchOption":
            raise OptionError(advice.unknown_option(program, verb, error.option_name, texts, verbs)) from error  # type: ignore[attr-defined]  # click's, which typer may have inside
        if type(error).__name__ == "BadOptionUsage" and verb is not None:
            raise OptionError(advice.bad_usage(verb, error.option_name)) from error  # type: ignore[attr-defined]
        message = str(words()).strip().removesuffix(".")
        raise OptionError(f"{message[:1].lower()}{message[1:]}; see {advice.helper(program, verb)}") from error


def help_lines(texts: Sequence[str], verbs: Sequence[Verb]) -> list[list[str]]:
    """The command lines for click that show the help which was asked for; for all verbs, one line each."""
    line = ["--help" if text == HELP_ALL else text for text in texts]
    if len(verbs) == 1:
        return [line]
    return [line, *([verb.name, "--help"] for verb in verbs)] if line == ["--help"] else [line or ["--help"]]


def app_of(
    verbs: Sequence[Verb], perform: Perform, say_version: Callable[[], None], *, common: bool = True
) -> typer.Typer:
    """One verb as a command, or several as the verbs of one; the help has all options or the `common` ones."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=SETTINGS,
        help=DESCRIPTION,
        cls=group_class(verbs),
    )
    for verb in verbs:
        app.command(verb.name, cls=command_class(verb, common=common), help=verb.summary, context_settings=SETTINGS)(
            callback(verb, perform, say_version if len(verbs) == 1 else None)
        )
    if len(verbs) > 1:

        def version(wanted: bool) -> None:
            if wanted:
                say_version()
                raise typer.Exit

        @app.callback()
        def main(
            version: bool = typer.Option(
                False, VERSION[0], is_eager=True, callback=version, help=VERSION[1], show_default=False
            ),
        ) -> None:
            pass

        main.__doc__ = DESCRIPTION
    return app


def callback(verb: Verb, perform: Perform, say_version: Callable[[], None] | None) -> Callable[..., None]:
    """The function that typer calls with a command line: it has a parameter for each argument and for each flag."""
    groups = verb.groups(True)
    flags = unique_flags(groups)
    parameters = [parameter("arguments", list[str] | None, None, argument(" ".join(verb.arguments)))]
    parameters += [flag_parameter(f"flag_{n}", flag) for n, flag in enumerate(flags)]
    if say_version is not None:
        parameters.append(parameter("version", bool, False, typer.Option(*VERSION[:1], show_default=False)))

    def call(**values: Any) -> None:
        if values.get("version") and say_version is not None:
            say_version()
            return
        arguments = [*(values["arguments"] or ())]
        typed = Typed(arguments, [])
        for n, flag in enumerate(flags):
            value = values[f"flag_{n}"]
            texts = (value or ()) if flag.metavar else (None,) * bool(value)
            typed.flags.extend((flag.names[0], text) for text in texts)
        check_arguments(typed, verb, flags_of(group.options for group in groups))
        if not verb.takes_more and len(arguments) > len(verb.arguments):
            unexpected = " ".join(arguments[len(verb.arguments) :])
            raise OptionError(f"{verb.name} takes only {' and '.join(verb.arguments)}, and nothing after: {unexpected}")
        perform(verb, Request(typed, groups))

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def unique_flags(groups: Sequence[Group]) -> list[Flag]:
    """The flags of a verb, each once."""
    flags = {flag.names: flag for group in groups for row in rows_of(group.options) for flag in row.flags}
    return [*flags.values()]


def parameter(name: str, kind: Any, default: Any, info: Any) -> Parameter:
    """A parameter in typer's form."""
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, info])


def argument(metavar: str) -> Any:
    """An argument, which is optional for typer, because its own message about a missing argument is not clear."""
    return typer.Argument(metavar=metavar, show_default=False)


def flag_parameter(name: str, flag: Flag) -> Parameter:
    """A flag that can be repeated; a switch that can be given once."""
    if not flag.metavar:
        return parameter(name, bool, False, typer.Option(*flag.names, show_default=False))
    info: Any = typer.Option(*flag.names, metavar=flag.metavar, show_default=False)
    return parameter(name, list[str] | None, None, info)


def command_class(verb: Verb, *, common: bool) -> type[TyperCommand]:
    """A command whose help has a section for each panel, in our own words, the same with every version of typer."""

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            table = flags_of(group.options for group in verb.groups(True))
            check_dashes(args, table)
            return super().parse_args(ctx, with_text_attached(args, verb, table))

        def get_help(self, ctx: Any) -> str:
            return print_help(super().get_help(ctx))

        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return ["[OPTIONS]", *verb.arguments]

        def format_options(self, ctx: Any, formatter: Any) -> None:
            write_options(verb, formatter, common=common, with_version=ctx.parent is None)

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            program = "" if ctx.parent is None else "formats "
            write_lines(formatter, "Examples", [line.replace("formats ", program, 1) for line in verb.examples])
            write_lines(formatter, "Documents", [DOCUMENTS])

    return Command


def group_class(verbs: Sequence[Verb]) -> type[TyperGroup]:
    """The command whose help lists the verbs by sections."""

    class Group(TyperGroup):
        def get_help(self, ctx: Any) -> str:
            return print_help(super().get_help(ctx))

        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return ["VERB", "..."]

        def format_options(self, ctx: Any, formatter: Any) -> None:
            width = max(len(verb.name) for verb in verbs)
            for section in dict.fromkeys(verb.section for verb in verbs):
                rows = [(verb.name.ljust(width), first_line(verb)) for verb in verbs if verb.section == section]
                with formatter.section(section):
                    formatter.write_dl(rows)
            with formatter.section("Help"):
                formatter.write_dl(HELP_OF_VERBS)

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            write_lines(formatter, "Examples", EXAMPLES)
            write_lines(formatter, "Documents", [DOCUMENTS])

    return Group


def print_help(text: str) -> NoReturn:
    """Print a help like every other text, and end the command line; click would print it without a look at errors."""
    say(text)
    raise typer.Exit


def first_line(verb: Verb) -> str:
    """What a verb does, in one line."""
    return verb.summary.partition("\n")[0].removesuffix(".")


def write_options(verb: Verb, formatter: Any, *, common: bool, with_version: bool) -> None:
    """Write all options of a verb, or the common ones, with a formatter of click."""
    from formats.codecs import lookup

    names = ", ".join(codec.name for codec in lookup.codecs())
    count = sum(len(options) for options in panels(verb.groups(True)).values())
    shown = panels(verb.groups(True), common=common)
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
