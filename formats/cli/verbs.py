"""What the commands do: a row for each verb with its arguments and options, and the function that does it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.cli import several
from formats.cli.command_line import Group, Verb, ask_key, flags_of
from formats.cli.error_text import in_flags
from formats.cli.file_verbs import FILE_VERBS
from formats.cli.printing import json_text, printable, say, show
from formats.cli.progress_bar import Progress
from formats.cli.shared_options import FileOptions, OutputOptions, QuietOptions, groups, how_to_tell
from formats.errors import OptionError
from formats.options import SWITCH, Kind, count, option, settle
from formats.registry import RUNTIME, ReadOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.cli.command_line import Request
    from formats.registry import Codec

EXIT_WRONG = 1  # the file is not sound; the models differ
EXIT_TROUBLE = 2  # they could not be compared, as `cmp` and `diff` have it
TENSORS_IN_TABLE = 20
DIFFERENCES = 100
PICTURES = (".svg", ".html")
EXAMPLES = """\
\b
Examples:
  formats convert model.onnx model.rten
  formats convert model.onnx model.onnxz --threads 4
  formats convert model.onnxz model.onnx --external-data
  formats convert model.onnx model.onnx --inline --force
  formats convert model.onnx model.rten --strict --json

A SIZE is a number of bytes and may end in K, M or G (powers of 1024) or in KB, MB or GB (powers of 1000).
"""


def _picture(name: str) -> Path:
    if Path(name).suffix.lower() not in PICTURES:
        raise ValueError(name)
    return Path(name)


def _any_path(name: str) -> Path:
    if not name:
        raise ValueError(name)
    return Path(name)


def _tensors(value: object) -> int | str:
    if isinstance(value, str) and value:
        return int(value) if value.isdecimal() else value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(value)


TENSORS = Kind("a number, or a pattern of names", _tensors, "N|PATTERN", _tensors)
PICTURE = Kind("a file name that ends in .svg or .html", lambda value: value, "OUT.svg|OUT.html", _picture)
PATH = Kind("the name of a file", lambda value: value, "MODEL.onnx", _any_path)


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What `inspect` shows."""

    tensors: int | str = option(
        TENSORS_IN_TABLE,
        TENSORS,
        f"List the N largest tensors, {TENSORS_IN_TABLE} by default, or those with names like PATTERN, such as *.bias.",
    )
    layout: Path | None = option(None, PICTURE, "Draw where everything is in the files.")
    overwrite: bool = option(False, SWITCH, "Replace OUT if it exists.", aliases=("-f", "--force"))

    def __post_init__(self) -> None:
        settle(self)
        if self.overwrite and self.layout is None:
            raise OptionError("`overwrite` is of use with `layout` only")


@dataclass(frozen=True, slots=True)
class RuntimeQuestion:
    """What `inspect` is asked about a runtime."""

    runtime: str | None = option(None, RUNTIME, "Say whether RTen's own ONNX loader runs FILE, and what stops it.")


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What `verify` checks."""

    data: bool = option(False, SWITCH, "Read everything and check the checksums that there are.")
    original: Path | None = option(
        None, PATH, "The file that FILE was converted from; needs --data.", aliases=("--source",)
    )
    threads: int = option(0, count(), "Use N threads; 0, the default, is as many as help.")


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What `diff` compares and shows."""

    storage: bool = option(False, SWITCH, "Compare how weights are stored, too.")
    limit: int = option(DIFFERENCES, count(), f"Tell N differences; {DIFFERENCES} by default.")


def convert_groups(of_all_packages: bool) -> list[Group]:
    """The options of `convert`: of every conversion, of reading, and of the formats."""
    from formats import registry
    from formats.choices import ConversionOptions, RaisingOptions, RuntimeOptions
    from formats.tensordata.engine import EngineOptions

    codecs = registry.codecs() if of_all_packages else registry.built_in()
    extensions: dict[type, tuple[str, ...]] = {}
    for codec in codecs:
        extensions[codec.options] = (*extensions.get(codec.options, ()), codec.extensions[0])
    general = (ConversionOptions, RuntimeOptions, EngineOptions, QuietOptions, OutputOptions)
    own = (*general, several.SeveralOptions, ReadOptions)
    _check_names(own, codecs)
    return [*map(Group, own), *(Group(*item) for item in extensions.items()), Group(RaisingOptions)]


def batch_groups(of_all_packages: bool) -> list[Group]:
    """The options of `batch`: its own, and those of `convert`."""
    return [Group(several.BatchOptions), *convert_groups(of_all_packages)]


def _check_names(own: Sequence[type], codecs: Iterable[Codec]) -> None:
    """Raises OptionError where a format has an option whose flag means something else for every format."""
    taken = flags_of(own)
    for codec in codecs:
        if clash := taken.keys() & flags_of([codec.options]):
            raise OptionError(f"{codec.title} cannot have the option {min(clash)}, which every format has")


def convert(request: Request) -> int:
    """Convert, and print what was done."""
    from formats import conversion, registry
    from formats.choices import ConversionOptions
    from formats.tensordata.engine import EngineOptions

    *sources, dst = request.arguments
    output = how_to_tell(request)
    to_format = request.of(ConversionOptions, EngineOptions).get("to_format")  # mistakes in the others come first, too
    if len(sources) > 1 or several.is_folder(dst) or (to_format and Path(sources[0]).is_dir()):
        return _convert_into(Path(dst), sources, request, output)
    src, destination = Path(sources[0]), Path(dst)
    target = registry.for_writing(destination, "to_format") if to_format is None else registry.by_name(to_format)
    given = _given(request, target)
    if request.of(several.SeveralOptions).keys() & {"manifest", "dask"}:
        from formats.jobs import Job

        return several.run(request, [Job(src, destination)], given, output)
    with progress(wanted=not output.get("quiet") and not output.get("json")) as shown:
        report = conversion.convert(src, destination, progress=shown, **given)
    if output.get("json"):
        say(json_text(report.to_json()))
    elif not output.get("quiet"):
        from formats.cli.report_lines import summary

        rows = request.rows()
        say(printable(in_flags(line, rows, {}) for line in summary(report)))
    return 0


def batch(request: Request) -> int:
    """Convert many, and print what was done."""
    given = request.of(several.BatchOptions)
    if "out" not in given:
        raise OptionError("`out` is needed: the folder to write into")
    if not request.arguments and "list" not in given:
        raise OptionError("SOURCES are missing; name files, folders or patterns, or a `list`")
    return _convert_into(given["out"], request.arguments, request, how_to_tell(request))


def _convert_into(folder: Path, sources: Sequence[str], request: Request, output: dict[str, Any]) -> int:
    """Convert files into a folder, which is there then if it was not."""
    from formats import registry
    from formats.choices import ConversionOptions
    from formats.job_list import folders_of

    to_format = request.of(ConversionOptions).get("to_format")
    if to_format is None:
        raise OptionError(f"`to_format` is needed to convert into the folder {folder}")
    target = registry.by_name(to_format)
    given = _given(request, target)
    jobs = several.jobs_into(folder, sources, target, given)
    if (names := request.of(several.BatchOptions).get("list")) is not None:
        jobs += several.listed_jobs(folder, names, target)
    dry_run, parents = given.get("dry_run", False), given.get("parents", False)
    if dry_run:
        given["parents"] = True  # as if the folders were made that are not
    with folders_of(jobs, folder, parents=parents, dry_run=dry_run):
        return several.run(request, jobs, given, output)


def _given(request: Request, target: Codec) -> dict[str, Any]:
    """The keywords of `convert` that were given."""
    from formats.choices import ConversionOptions, RaisingOptions, RuntimeOptions
    from formats.tensordata.engine import EngineOptions

    general = (ConversionOptions, RuntimeOptions, EngineOptions, RaisingOptions)
    own = (QuietOptions, OutputOptions, several.SeveralOptions, several.BatchOptions)
    given = request.of(*general)
    request.ask = partial(ask_key, twice=target.encrypted)
    return given | request.of(ReadOptions, target.options, *request.classes_but(*general, ReadOptions, *own))


def inspect(request: Request) -> int:
    """Print what is in a file, and draw it."""
    from formats import inspection
    from formats.cli.report_lines import inspection_lines

    file = Path(request.arguments[0])
    as_json = request.of(OutputOptions).get("json")
    given = request.of(InspectOptions)
    if as_json and "tensors" in given:
        raise OptionError("`tensors` is not of use with `json`, which lists all")
    chosen = InspectOptions(**given)
    reading = request.of(ReadOptions, FileOptions)
    seen = inspection.inspect(file, **request.of(RuntimeQuestion), **reading)
    if chosen.layout is not None:
        draw(file, chosen.layout, chosen.overwrite, reading)
    show(seen.to_json() if as_json else inspection_lines(seen, chosen.tensors))
    return 0


def verify(request: Request) -> int:
    """Print what is wrong with a file."""
    from formats import verification
    from formats.cli.report_lines import verification_lines

    as_json = request.of(OutputOptions).get("json")
    given = request.of(VerifyOptions, ReadOptions, FileOptions)
    with progress(wanted=not as_json) as shown:
        result = verification.verify(request.arguments[0], progress=shown, **given)
    show(result.to_json() if as_json else verification_lines(result))
    return 0 if result.ok else EXIT_WRONG


def diff(request: Request) -> int:
    """Print how two models differ."""
    from formats import difference
    from formats.cli.report_lines import comparison_lines

    given = request.of(DiffOptions, ReadOptions)
    result = difference.compare(*request.arguments, **given)
    show(result.to_json() if request.of(OutputOptions).get("json") else comparison_lines(result))
    return 0 if result.equal else EXIT_WRONG


def repair(request: Request) -> int:
    """Complete or undo what was interrupted, and print what that was."""
    from formats import restoration
    from formats.cli.report_lines import repair_lines

    done = restoration.repair(Path(request.arguments[0]))
    show(done.to_json() if request.of(OutputOptions).get("json") else repair_lines(done))
    return 0


@contextmanager
def progress(*, wanted: bool) -> Iterator[Progress | None]:
    """A bar, where it is wanted and somebody can see it."""
    bar = Progress() if wanted and sys.stderr.isatty() else None
    try:
        yield bar
    finally:
        if bar is not None:
            bar.close()


def draw(file: Path, picture: Path, overwrite: bool, reading: dict[str, Any]) -> None:
    """A picture of where everything is in the files of a model is written, as SVG or HTML."""
    from formats import layout
    from formats.tensordata.engine import EngineOptions, execute
    from formats.tensordata.plan import FilePlan, PlacedWrite, WritePlan
    from formats.tensordata.source import Literal

    files = layout.layout(file, **reading)
    text = layout.to_html(files) if picture.suffix.lower() == ".html" else layout.to_svg(files)
    data = text.encode()
    plan = WritePlan((FilePlan(picture, len(data), (PlacedWrite(0, Literal(data)),)),))
    execute(plan, EngineOptions(overwrite=overwrite))


VERBS = (
    Verb(
        "convert",
        """Convert the model SRC to DST.

        The format of SRC is that of its content, the format of DST that of its extension. Several models, and those in
        folders, are converted into the folder DST; one that fails does not stop the others.
        """,
        ("SRC...", "DST"),
        convert_groups,
        convert,
        epilog=EXAMPLES,
    ),
    Verb(
        "batch",
        """Convert the models that SOURCES name into a folder: files, folders, and patterns such as 'models/**/*.onnx'.

        Files in folders keep these below PLACE. One that fails does not stop the others; the exit code is 1 then. With
        --manifest, a second run does only what is missing or changed.
        """,
        ("[SOURCES...]",),
        batch_groups,
        batch,
    ),
    Verb(
        "inspect",
        "Print what is in the model FILE; no weight is read.",
        ("FILE",),
        groups(FileOptions, RuntimeQuestion, InspectOptions, OutputOptions, ReadOptions),
        inspect,
    ),
    Verb(
        "verify",
        """Check the integrity of the model FILE; the exit code is 1 where something is wrong.

        Checked are the structure, names and operator sets, the size and place of every tensor; with --data all
        checksums.
        """,
        ("FILE",),
        groups(FileOptions, VerifyOptions, OutputOptions, ReadOptions),
        verify,
    ),
    Verb(
        "diff",
        """Print how the models A and B differ; the exit code is 0 where they are equal, 1 where they are not.

        Formats may be different: weights are compared by content, and beside a .rten file what the other one would
        become as such a file. Where models cannot be compared, the exit code is 2.
        """,
        ("A", "B"),
        groups(DiffOptions, OutputOptions, ReadOptions),
        diff,
        failure=EXIT_TROUBLE,
    ),
    Verb(
        "repair",
        "Complete or undo what was interrupted while the model FILE was written, and remove what is left of it.",
        ("FILE",),
        groups(OutputOptions),
        repair,
    ),
    *FILE_VERBS,
)
