"""The command `formats`, with `convert` and what looks at models without changing them.

Annotations are not postponed, for the reason that `convert_command.py` tells.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formats.cli import convert_command
from formats.cli.argument_values import parse_count
from formats.cli.convert_command import (
    AskKey,
    Debug,
    Json,
    KeyEnv,
    KeyFile,
    MaxDepth,
    NoHardLinks,
    Threads,
    reading_options,
)
from formats.cli.process import reported_errors, say, stoppable
from formats.cli.progress_bar import Progress
from formats.cli.typer_commands import Command, CommandGroup, option
from formats.cli.wording import json_text, printable
from formats.collector import rest_at_exit

if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_WRONG = 1  # the file is not what it says; the models differ
EXIT_TROUBLE = 2  # they could not be compared, as `cmp` and `diff` have it
TENSORS_IN_TABLE = 20
DIFFERENCES = 100
SETTINGS: dict[str, Any] = {"cls": Command, "context_settings": {"help_option_names": ["-h", "--help"]}}
COUNT: dict[str, Any] = {"metavar": "N", "parser": parse_count}

File = Annotated[Path, typer.Argument(metavar="FILE", parser=Path)]
First = Annotated[Path, typer.Argument(metavar="A", parser=Path)]
Second = Annotated[Path, typer.Argument(metavar="B", parser=Path)]
FileFormat = Annotated[str | None, option("--from", **convert_command.FORMAT, help="Read FILE as FORMAT: {formats}.")]
Data = Annotated[bool, option("--data", help="Read everything and check the checksums that there are.")]
Original = Annotated[
    Path | None,
    option("--source", metavar="MODEL.onnx", parser=Path, help="The file that FILE was converted from; needs --data."),
]
Layout = Annotated[
    Path | None,
    option("--layout", metavar="OUT.svg|OUT.html", parser=Path, help="Draw where everything is in the files."),
]
Force = Annotated[bool, option("-f", "--force", help="Replace OUT if it exists.")]
Tensors = Annotated[int | None, option("--tensors", **COUNT, help=f"List N tensors; {TENSORS_IN_TABLE} by default.")]
Storage = Annotated[bool, option("--storage", help="Compare how weights are stored, too.")]
Limit = Annotated[int | None, option("--limit", **COUNT, help=f"Tell N differences; {DIFFERENCES} by default.")]
Version = Annotated[bool, convert_command.version_option("formats")]

app = typer.Typer(
    cls=CommandGroup,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("convert", epilog=convert_command.EXAMPLES, **SETTINGS)(convert_command.convert)


@app.callback()
def formats(version: Version = False) -> None:
    """Look at models, check, compare and convert them: .onnx, .onnxz and .rten."""


@app.command(**SETTINGS)
def inspect(
    file: File,
    from_format: FileFormat = None,
    tensors: Tensors = None,
    layout: Layout = None,
    force: Force = False,
    as_json: Json = False,
    debug: Debug = False,
    max_depth: MaxDepth = None,
    no_hard_links: NoHardLinks = False,
    key_file: KeyFile = None,
    key_env: KeyEnv = None,
    ask_key: AskKey = False,
) -> None:
    """Print what is in the model FILE; no weight is read."""
    if layout is not None and layout.suffix.lower() not in (".svg", ".html"):
        raise typer.BadParameter(f"{layout} does not end in .svg or .html")
    with reported_errors(as_json, debug, program="formats"), stoppable():
        from formats import inspection
        from formats.cli.report_lines import inspection_lines

        reading = reading_options(max_depth, no_hard_links, key_file, key_env, ask_key)
        seen = inspection.inspect(file, format=from_format, **reading)
        if layout is not None:
            draw(file, layout, from_format, force, reading)
        show(seen.to_json() if as_json else inspection_lines(seen, TENSORS_IN_TABLE if tensors is None else tensors))


@app.command(**SETTINGS)
def verify(
    file: File,
    from_format: FileFormat = None,
    data: Data = False,
    source: Original = None,
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
    max_depth: MaxDepth = None,
    no_hard_links: NoHardLinks = False,
    key_file: KeyFile = None,
    key_env: KeyEnv = None,
    ask_key: AskKey = False,
) -> None:
    """Check that the model FILE is what it says; the exit code is 1 where it is not.

    Checked are the structure, names and operator sets, the size and place of every tensor; with --data all checksums.
    """
    if source is not None and not data:
        raise typer.BadParameter("--source is of use with --data only")
    progress = Progress() if sys.stderr.isatty() and not as_json else None
    with reported_errors(as_json, debug, program="formats"), stoppable():
        from formats import verification
        from formats.cli.report_lines import verification_lines
        from formats.tensordata.engine import EngineOptions

        engine = EngineOptions(threads=threads or 0, progress=progress)
        reading = reading_options(max_depth, no_hard_links, key_file, key_env, ask_key)
        try:
            result = verification.verify(file, format=from_format, data=data, original=source, engine=engine, **reading)
        finally:
            if progress is not None:
                progress.close()
        show(result.to_json() if as_json else verification_lines(result))
    if not result.ok:
        raise typer.Exit(EXIT_WRONG)


@app.command(**SETTINGS)
def diff(
    first: First,
    second: Second,
    storage: Storage = False,
    limit: Limit = None,
    as_json: Json = False,
    debug: Debug = False,
    max_depth: MaxDepth = None,
    no_hard_links: NoHardLinks = False,
    key_file: KeyFile = None,
    key_env: KeyEnv = None,
    ask_key: AskKey = False,
) -> None:
    """Print in what the models A and B differ; the exit code is 0 where they are equal, 1 where they are not.

    Formats may be different: weights are compared by content, and beside a .rten file what the other one would become
    as such a file. Where models cannot be compared, the exit code is 2.
    """
    with reported_errors(as_json, debug, program="formats", failure=EXIT_TROUBLE), stoppable():
        from formats import difference
        from formats.cli.report_lines import comparison_lines

        reading = reading_options(max_depth, no_hard_links, key_file, key_env, ask_key)
        limit = DIFFERENCES if limit is None else limit
        result = difference.compare(first, second, storage=storage, limit=limit, **reading)
        show(result.to_json() if as_json else comparison_lines(result))
    if not result.equal:
        raise typer.Exit(EXIT_WRONG)


@app.command(**SETTINGS)
def repair(file: File, as_json: Json = False, debug: Debug = False) -> None:
    """Complete or undo what was interrupted while the model FILE was written, and remove what is left of it."""
    with reported_errors(as_json, debug, program="formats"), stoppable():
        from formats import restoration
        from formats.cli.report_lines import repair_lines

        done = restoration.repair(file)
        show(done.to_json() if as_json else repair_lines(done))


def show(report: "dict[str, Any] | Iterable[str]") -> None:
    """A report for programs is printed as JSON, one for people as lines."""
    say(json_text(report) if isinstance(report, dict) else printable(report))


def draw(file: Path, picture: Path, from_format: str | None, overwrite: bool, reading: dict[str, Any]) -> None:
    """A picture of where everything is in the files of a model is written, as SVG or HTML."""
    from formats import layout
    from formats.tensordata.engine import EngineOptions, execute
    from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
    from formats.tensordata.source import Literal

    files = layout.layout(file, format=from_format, **reading)
    text = layout.to_html(files) if picture.suffix.lower() == ".html" else layout.to_svg(files)
    data = text.encode()
    plan = WritePlan((FilePlan(picture, len(data), (PlacedWrite(0, Literal(data)),)),))
    execute(plan, EngineOptions(overwrite=overwrite))


def main() -> None:
    """The command `formats`, as a process of its own."""
    rest_at_exit()
    app(prog_name="formats")
