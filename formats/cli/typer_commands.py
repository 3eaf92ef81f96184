"""The verbs as commands of typer: for help, and for errors in command lines."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from formats.cli.command_line import Request, Typed, check_arguments, flags_of, panels, with_text_attached
from formats.errors import OptionError
from formats.options import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.cli.command_line import Group, Verb
    from formats.options import Flag

    Perform = Callable[[Verb, Request], None]

VERSION = ("--version", "Print the version and exit.")
HELP = ("-h, --help", "Show this message and exit.")
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
DESCRIPTION = "Convert, inspect, verify and compare models: .onnx, .onnxz and .rten."


def run(
    program: str, texts: Sequence[str], verbs: Sequence[Verb], perform: Perform, say_version: Callable[[], None]
) -> None:
    """Let typer parse the arguments of the command `program`; if that succeeds, `perform` gets the request.

    Raises: OptionError for a command line that typer does not understand, with typer's message.
    """
    app = app_of(verbs, perform, say_version)
    try:
        app(list(texts) or ["--help"] * (len(verbs) > 1), prog_name=program, standalone_mode=False)
    except Exception as error:
        words = getattr(error, "format_message", None)  # click's errors have it, in all versions that typer uses
        if words is None:
            raise
        message = str(words()).strip().removesuffix(".")
        raise OptionError(f"{message[:1].lower()}{message[1:]}; see {helper(program, texts, verbs)}") from error


def helper(program: str, texts: Sequence[str], verbs: Sequence[Verb]) -> str:
    """The command line that shows the help for the typed arguments."""
    known = texts[:1] if len(verbs) > 1 and texts and texts[0] in {verb.name for verb in verbs} else ()
    return " ".join((program, *known, "--help"))


def app_of(verbs: Sequence[Verb], perform: Perform, say_version: Callable[[], None]) -> typer.Typer:
    """One verb as a command, or several as the verbs of one."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=SETTINGS,
        help=DESCRIPTION,
    )
    for verb in verbs:
        app.command(
            verb.name,
            cls=command_class(verb),
            help=verb.summary,
            short_help=verb.summary.partition("\n")[0],  # otherwise, typer shortens it
            epilog=verb.epilog,
            context_settings=SETTINGS,
        )(callback(verb, perform, say_version if len(verbs) == 1 else None))
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
        check_arguments(arguments, verb)
        if not verb.takes_more and len(arguments) > len(verb.arguments):
            unexpected = " ".join(arguments[len(verb.arguments) :])
            raise OptionError(f"got unexpected extra argument ({unexpected})")
        typed = Typed(arguments, [])
        for n, flag in enumerate(flags):
            value = values[f"flag_{n}"]
            texts = (value or ()) if flag.metavar else (None,) * bool(value)
            typed.flags.extend((flag.names[0], text) for text in texts)
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


def command_class(verb: Verb) -> type[TyperCommand]:
    """A command whose help has a section for each panel, in our own words, the same with every version of typer."""

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            table = flags_of(group.options for group in verb.groups(True))
            return super().parse_args(ctx, with_text_attached(args, verb, table))

        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return ["[OPTIONS]", *verb.arguments]

        def format_options(self, ctx: Any, formatter: Any) -> None:
            write_options(verb, formatter, with_version=ctx.parent is None)

    return Command


def write_options(verb: Verb, formatter: Any, *, with_version: bool) -> None:
    """Write all options of a verb with a formatter of click."""
    from formats import registry

    names = ", ".join(codec.name for codec in registry.codecs())
    for number, (panel, options) in enumerate(panels(verb.groups(True)).items()):
        records = []
        for row, flag in options:
            off = next((f" / {each.names[0]}" for each in row.flags if not each.help), "")
            on = ", ".join(flag.names)
            records.append((f"{on}{off} {flag.metavar}".rstrip(), flag.help.format(formats=names)))
        if number == 0:
            records += [VERSION, HELP] if with_version else [HELP]
        with formatter.section(panel):
            formatter.write_dl(records)
