"""The verbs that only read models: `inspect`, `verify` and `diff`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.cli.command_line import CheckOptions, OutputOptions, groups, verb
from formats.cli.error_text import error_to_json
from formats.cli.several import any_place
from formats.cli.streams import (
    STREAM,
    UNPRINTED,
    as_flags,
    check_single,
    json_text,
    progress,
    say,
    say_error,
    show,
    source_of,
    tell,
)
from formats.codecs.contract import ReadOptions
from formats.codecs.lookup import FORMAT, RUNTIME
from formats.editing.options import SIZES
from formats.errors import FormatError, OptionError
from formats.options import MOST_WORKERS, SWITCH, Flag, OptionKind, count, decimal, option, settle
from formats.words import counted, names_like

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from formats.cli.command_line import Request
    from formats.cli.streams import Report
    from formats.verbs.compare import Comparison
    from formats.verbs.inspect import Inspection

EXIT_WRONG = 1  # the file is damaged; the models differ
EXIT_TROUBLE = 2  # the models could not be compared; `cmp` and `diff` use the same code
TENSORS_IN_TABLE = 20
DIFFERENCES = 100
PICTURES = (".svg", ".html")
LOOK = "Look"


def _picture(name: str) -> Path:
    if Path(name).suffix.lower() not in PICTURES:
        raise ValueError(name)
    return Path(name)


def _tensors(value: object) -> int | str:
    if isinstance(value, str) and value and (value.isdecimal() or not value.removeprefix("-").isdecimal()):
        return int(value) if value.isdecimal() else value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(value)


TENSORS = OptionKind("a number, or a pattern of names", _tensors, "N|PATTERN", _tensors)
NODES = OptionKind("a pattern of names or operators", lambda value: value, "[PATTERN]")
PICTURE = OptionKind("a file name that ends in .svg or .html", lambda value: value, "OUT.svg|OUT.html", _picture)
PATH = OptionKind("the name of a file", lambda value: value, "MODEL.onnx", any_place)


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The format of a file that a verb reads."""

    format: str | None = option(None, FORMAT, "The format to read, if the content does not show it.", flag="--from")


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """What `inspect` shows."""

    tensors: int | str = option(
        TENSORS_IN_TABLE,
        TENSORS,
        f"List the N largest tensors, {TENSORS_IN_TABLE} by default, or those whose names match PATTERN, such as "
        "*.bias.",
        common=True,
    )
    nodes: str | bool = option(
        False,
        NODES,
        "Count the nodes by operator, and list those whose name or operator is like PATTERN.",
        flags=(
            Flag(
                ("--nodes",),
                "Count the nodes by operator; with PATTERN, such as Conv*, count and list those whose name or operator "
                "matches it.",
                "[PATTERN]",
                True,
            ),
        ),
        common=True,
    )
    params: int = option(
        0,
        count(1)._replace(metavar="[DEPTH]"),
        "Count the parameters of each part of the model.",
        flags=(
            Flag(
                ("--params",),
                "Count the parameters of each part of the model, by the first DEPTH words of names, 1 by default.",
                "[DEPTH]",
                1,
                decimal,
            ),
        ),
        common=True,
    )

    shapes: bool = option(
        False, SWITCH, "List the types and dims of all values, inferred where the file does not say them.", common=True
    )
    macs: bool = option(False, SWITCH, "Count multiply-accumulates, by operator.", common=True)
    dim: Mapping[str, int | str] | None = option(
        None, SIZES, "Size of a dim for --shapes and --macs, such as batch=1 or images:0=1.", common=True
    )

    def __post_init__(self) -> None:
        settle(self)


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """A picture of what `inspect` or `diff` finds."""

    picture: Path | None = option(
        None, PICTURE, "Draw the weights by module, and the files or the differences.", common=True
    )
    overwrite: bool = option(False, SWITCH, "Replace files that exist.", short="-f", flag="--force", common=True)

    def __post_init__(self) -> None:
        settle(self)
        if self.overwrite and self.picture is None:
            raise OptionError("`overwrite` has an effect only with `picture`")


@dataclass(frozen=True, slots=True)
class RuntimeQuestion:
    """The question to `inspect` whether a runtime runs the model."""

    runtime: str | None = option(None, RUNTIME, "Check whether RTen's ONNX loader runs FILE; print what prevents it.")


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What `verify` checks."""

    data: bool = option(False, SWITCH, "Read all data and verify all checksums.", common=True)
    original: Path | None = option(None, PATH, "The file that FILE was converted from; needs --data.", common=True)
    threads: int = option(0, count(0, MOST_WORKERS), "Use N threads; 0, the default, chooses a suitable number.")


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """What `diff` compares and shows."""

    storage: bool = option(False, SWITCH, "Also compare how weights are stored.", common=True)
    limit: int = option(DIFFERENCES, count(), f"Print at most N differences; {DIFFERENCES} by default.", common=True)


class Seen(NamedTuple):
    """The result for a file: the report, its lines, and whether everything is right."""

    report: Report
    lines: Callable[[], Iterable[str]]
    ok: bool = True


@verb(
    "inspect FILE...",
    """Print what is in a model, without reading weights.

    FILE is a model, a folder with models, or - for stdin. A file that cannot be read does not stop the others, but
    gives exit code 1.
    """,
    groups(FileOptions, RuntimeQuestion, InspectOptions, PictureOptions, OutputOptions, ReadOptions),
    LOOK,
    examples=(
        "formats inspect model.onnx",
        "formats inspect model.onnx --nodes 'Conv*' --tensors 5",
        "formats inspect model.onnx --macs --dim batch=1",
        "formats inspect model.onnxz --picture files.svg",
        "formats inspect models/",
    ),
    only_prints=True,
)
def inspect(request: Request) -> int:
    """Print the content of files, and draw it."""
    from formats.cli.report_lines import inspection_lines
    from formats.verbs.inspect import inspect as inspect_model

    keywords = request.of(InspectOptions)
    if request.output.get("json") and "tensors" in keywords:
        raise OptionError("`tensors` has no effect with `json`, which lists all tensors")
    chosen, drawn = InspectOptions(**keywords), PictureOptions(**request.of(PictureOptions))
    reading = request.of(ReadOptions, FileOptions)
    _check_one(request, request.of(PictureOptions), ("picture",))

    def see(file: Path) -> Seen:
        lists_nodes = bool(chosen.nodes) or drawn.picture is not None
        inspection = inspect_model(
            file,
            nodes=lists_nodes,
            params=chosen.params,
            shapes=chosen.shapes,
            macs=chosen.macs,
            dim=chosen.dim,
            **request.of(RuntimeQuestion),
            **reading,
        )
        if drawn.picture is not None:
            _draw_model(drawn, file, inspection, reading)
        inspection = _with_nodes_like(inspection, chosen.nodes)
        return Seen(
            inspection, lambda: inspection_lines(inspection, chosen.tensors, lists_nodes=isinstance(chosen.nodes, str))
        )

    return look(request, see, title="read", has_gaps=True)


def _with_nodes_like(inspection: Inspection, pattern: str | bool) -> Inspection:
    """The inspection with the nodes whose name or operator matches the pattern, or all, or none if it is false."""
    inspection = replace(inspection, models=tuple(_with_nodes_like(each, pattern) for each in inspection.models))
    if not pattern:
        return replace(inspection, nodes=None)
    if isinstance(pattern, bool) or inspection.nodes is None:
        return inspection
    chosen = names_like(pattern, {name for node in inspection.nodes for name in (node.name, *node.operators)})
    nodes = (node for node in inspection.nodes if not chosen.isdisjoint((node.name, *node.operators)))
    return replace(inspection, nodes=tuple(nodes))


@verb(
    "verify FILE...",
    """Check that a model is complete and undamaged.

    This checks the structure, names, operators and types, the size and place of every tensor, and with --data all
    checksums. The exit code is 1 if something is wrong. FILE is a model, a folder with models, or - for stdin.
    """,
    groups(FileOptions, VerifyOptions, OutputOptions, ReadOptions),
    LOOK,
    examples=(
        "formats verify model.onnx",
        "formats verify model.onnxz --data",
        "formats verify model.rten --data --original model.onnx",
    ),
    only_prints=True,
)
def verify(request: Request) -> int:
    """Print the errors in files."""
    from formats.cli.report_lines import verification_lines
    from formats.tensordata.interrupted import told_once
    from formats.verbs.verify import verify as verify_model
    from formats.verbs.verifying.findings import HIDDEN, Finding

    keywords = request.of(VerifyOptions, ReadOptions, FileOptions)
    _check_one(request, keywords, ("original",))
    shown: set[Finding] = set()

    def see(file: Path) -> Seen:
        result = verify_model(file, progress=progress(), **keywords)
        result = replace(result, notes=tuple(note for note in result.notes if note not in shown))
        shown.update(note for note in result.notes if note.code == HIDDEN)  # once for all models of a folder
        return Seen(result, lambda: verification_lines(result), result.ok)

    with told_once():
        return look(request, see, title="ok")


def _check_one(request: Request, keywords: dict[str, Any], names: Iterable[str]) -> None:
    """Raises OptionError if an option that is for one file is given for several."""
    if is_several(request):
        for name in names:
            if name in keywords:
                raise OptionError(f"`{name}` is for one file, but there are several")


def is_several(request: Request, *, in_folders: bool = True) -> bool:
    """Whether the arguments mean several files, or a folder."""
    from formats.tensordata.file import is_address
    from formats.verbs.arguments import path_of

    path = path_of(request.arguments[0])
    return len(request.arguments) > 1 or (in_folders and not is_address(path) and path.is_dir())


def look(
    request: Request,
    see: Callable[[Path], Seen],
    *,
    title: str,
    in_folders: bool = True,
    has_gaps: bool = False,
    ending: Callable[[], Iterable[str]] = tuple,
) -> int:
    """Do something with each file and print the result; the exit code is 1 if one has an error.

    An error of one of several files is printed, too, and does not stop the others. A folder means the models in and
    below it, unless `in_folders` is false. The lines of `ending` come after the results of several files. If it
    `has_gaps`, an empty line follows each result.
    """
    if not is_several(request, in_folders=in_folders):
        (name,) = request.arguments
        seen = see(source_of(name))
        _tell(request, seen)
        return 0 if seen.ok else EXIT_WRONG
    check_single(request.arguments)
    output = request.output
    entries: list[dict[str, Any]] = []
    failures = 0
    for file in _files(request, in_folders=in_folders):
        if request.verb.only_prints and sys.stdout in UNPRINTED:  # else something is done, whoever reads of it
            break
        try:
            seen = see(file)
        except (FormatError, OSError) as error:
            failures += 1
            say_error(request, error, file)
            entries.append({"path": str(file), "error": error_to_json(error, request.words)})
            continue
        failures += not seen.ok
        if output.get("json"):
            entries.append({**seen.report.to_json(), "error": None})
        else:
            if entries and has_gaps and not output.get("quiet"):
                say("")
            entries.append({})
            _tell(request, seen)
    well = len(entries) - failures
    if output.get("json"):
        say(json_text({"models": entries, "ok": well, "failed": failures}))
    elif not output.get("quiet"):
        show(
            [
                *as_flags(request, ending()),
                *([""] if has_gaps else []),
                f"{counted(len(entries), 'file')}: {well:,} {title}, {failures:,} failed",
            ]
        )
    return EXIT_WRONG if failures else 0


def _tell(request: Request, seen: Seen) -> None:
    """Print a result, also with `--quiet` if something is wrong."""
    tell(request, seen.report, seen.lines, quiet=None if seen.ok else False)


def _files(request: Request, *, in_folders: bool) -> Iterator[Path]:
    """The files that the arguments mean."""
    if not in_folders:
        yield from map(source_of, request.arguments)
        return
    from formats.batch import job_list

    for place in job_list.source_files(request.arguments, None, request.of(FileOptions).get("format")):
        yield place.source


@verb(
    "diff A B",
    """Print how two models differ, whatever their formats.

    Weights are compared by content. To compare a model with a .rten file, it is first converted to that format.
    Of two archives with several models, each is compared with that of the same name. One of A and B can be - for
    stdin. The exit code is 0 if the models are equal, 1 if not, and 2 if they cannot be compared.
    """,
    groups(DiffOptions, CheckOptions, PictureOptions, OutputOptions, ReadOptions),
    LOOK,
    examples=(
        "formats diff model.onnx model.onnxz",
        "formats diff old.onnx new.onnx --limit 10",
        "formats diff old.onnx new.onnx --picture differences.html",
    ),
    failure=EXIT_TROUBLE,
    only_prints=True,
)
def diff(request: Request) -> int:
    """Print how two models differ, and draw it."""
    from formats.cli.report_lines import comparison_lines
    from formats.verbs import compare

    keywords = request.of(DiffOptions, ReadOptions)
    drawn = PictureOptions(**request.of(PictureOptions))
    if request.arguments == [STREAM, STREAM]:
        raise OptionError("stdin has one model, so only one of A and B can be -")
    limit = keywords.pop("limit", DIFFERENCES)
    shown = limit if drawn.picture is None else sys.maxsize  # a picture shows all
    paths = [source_of(name) for name in request.arguments]
    checking = CheckOptions(**request.of(CheckOptions))
    checking.require_files(*paths)
    checked = checking.run(*paths)
    result = replace(compare.diff(*paths, limit=shown, progress=progress(), **keywords), checked=checked)
    if drawn.picture is not None:
        _draw_comparison(drawn, result, request.of(ReadOptions))
        result = replace(result, differences=result.differences[:limit])
    tell(request, result, lambda: comparison_lines(result))
    return 0 if result.equal else EXIT_WRONG


def _draw_model(drawn: PictureOptions, file: Path, inspection: Inspection, reading: dict[str, Any]) -> None:
    """Write a picture of a model."""
    from formats.pictures.pages import model_picture
    from formats.verbs.model_files import layout

    files = layout(file, **reading)
    _write(drawn, [inspection], lambda as_html: model_picture(inspection, files, as_html=as_html))


def _draw_comparison(drawn: PictureOptions, result: Comparison, reading: dict[str, Any]) -> None:
    """Write a picture of two models that differ."""
    from formats.pictures.pages import comparison_picture
    from formats.verbs.inspect import inspect as inspect_model

    first, second = (inspect_model(path, nodes=True, **reading) for path in result.paths)
    if first.models and second.models:
        raise OptionError("`picture` is for two models, but both archives have several; choose one with `model`")
    _write(drawn, [first, second], lambda as_html: comparison_picture(result, first, second, as_html=as_html))


def _write(drawn: PictureOptions, seen: Iterable[Inspection], draw: Callable[[bool], str]) -> None:
    """Write a picture; it appears complete, or not at all, and has no more readers than the models in it."""
    from formats.tensordata.engine import EngineOptions, execute
    from formats.tensordata.file import is_address, is_stream
    from formats.tensordata.plan import OWNER_ACCESS, FilePlan, Permissions, PlacedWrite, WritePlan
    from formats.tensordata.sources.source import Literal

    assert drawn.picture is not None
    data = draw(drawn.picture.suffix.lower() == ".html").encode()
    new = Permissions().new
    for path in (file.path for each in seen for file in each.files):
        if not (is_address(path) or is_stream(path)):
            new &= path.stat().st_mode | OWNER_ACCESS
    file = FilePlan(drawn.picture, len(data), (PlacedWrite(0, Literal(data)),))
    plan = WritePlan((file,), permissions=Permissions(new))
    execute(plan, EngineOptions(overwrite=drawn.overwrite))
