"""The verbs that write a model in any format: `convert` and `batch`, and `edit`, `extract` and `merge`."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from formats.cli import several, streams
from formats.cli.command_line import CheckOptions, NoteOptions, OptionGroup, OutputOptions, ask_key, flags_of, verb
from formats.cli.report_lines import summary
from formats.cli.streams import progress, tell
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.editing.options import EditOptions, ExtractOptions, MergeOptions
from formats.errors import FormatError, OptionError
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import is_address, is_stream
from formats.tensordata.interrupted import owner_of
from formats.verbs.arguments import path_of
from formats.verbs.choices import (
    ConversionOptions,
    MetadataOptions,
    RaisingOptions,
    ReplacementOptions,
    RuntimeOptions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from formats.cli.command_line import Request
    from formats.codecs.contract import Codec
    from formats.verbs.report import ConversionReport

CHANGE = "Change"


def conversion_groups(
    of_all_packages: bool, first: Sequence[type], more: Sequence[type] = (), *, in_short: bool = True
) -> list[OptionGroup]:
    """The options of a verb that converts: its own, which come `first`, those of every conversion, and of formats.

    Those of formats, versions and keys are `in_short`, or only `--help-all` shows them; those of metadata are in short
    for the verbs that have others in long. If an option of a format has the flag of one that comes first, only the
    latter counts.
    """
    codecs = lookup.codecs() if of_all_packages else lookup.built_in()
    extensions: dict[type, tuple[str, ...]] = {}
    for codec in codecs:
        extensions[codec.options] = (*extensions.get(codec.options, ()), codec.extensions[0])
    general = (ConversionOptions, RuntimeOptions, EngineOptions, ReplacementOptions, OutputOptions, NoteOptions)
    own = (*general, *more, ReadOptions)
    _check_names((MetadataOptions, *own), codecs)
    of_formats = (OptionGroup(*item, in_short=in_short) for item in extensions.items())
    metadata = OptionGroup(MetadataOptions, in_short=not in_short)
    of_all = (OptionGroup(each, in_short=in_short or each not in (RuntimeOptions, ReadOptions)) for each in own)
    return [*map(OptionGroup, first), metadata, *of_all, *of_formats, OptionGroup(RaisingOptions)]


def _check_names(own: Sequence[type], codecs: Iterable[Codec]) -> None:
    """Raises OptionError if a format has an option whose flag means something else for every format."""
    taken = flags_of(own)
    for codec in codecs:
        if clash := taken.keys() & flags_of([codec.options]):
            raise OptionError(f"{codec.title} cannot have the option {min(clash)}, which every format has")


def conversion_keywords(request: Request, target: Codec | None, first: Sequence[type] = ()) -> dict[str, Any]:
    """The keywords of `convert` that were given, and those of the options that come `first`.

    Without a `target`, no model is written.
    """
    changes = (*first, MetadataOptions)
    general = (*changes, ConversionOptions, RuntimeOptions, EngineOptions, ReplacementOptions, RaisingOptions)
    own = (
        OutputOptions,
        NoteOptions,
        CheckOptions,
        several.SeveralOptions,
        several.BatchOptions,
        several.DestinationOptions,
    )
    request.of(*general)  # an error in these is reported before a key is asked for
    request.ask = partial(ask_key, twice=target is not None and target.encrypted)
    of_target = () if target is None else (target.options,)
    of_formats = (ReadOptions, *of_target, *request.classes_but(*general, ReadOptions, *own))
    return request.of(*general, *of_formats)


# convert and batch


@verb(
    "convert SRC... DST",
    """Convert a model; the extension of DST says to which format.

    Several models, or a folder with models, go into the folder DST, with --to. - is stdin or stdout.
    """,
    partial(conversion_groups, first=(several.DestinationOptions,), more=(several.SeveralOptions, CheckOptions)),
    several.CONVERT,
    examples=(
        "formats convert model.onnx model.rten",
        "formats convert model.onnx split.onnx --max-external-file-size 1GB",
        "formats convert split.onnx one-file.onnx --no-external-data",
        "formats convert a.onnx b.onnx out/ --to onnxz",
        "formats convert - - --to onnxz < model.onnx > model.onnxz",
    ),
    last_as="out",
    writes_once=True,
)
def convert(request: Request) -> int:
    """Convert, and print the result."""
    from formats.verbs.convert import convert as convert_model

    arguments = [*request.arguments, *request.of(several.DestinationOptions).values()]
    *sources, dst = arguments
    if len(arguments) > len(request.arguments) > 1 and _is_new_model(sources[-1]):
        raise OptionError(f"`out` and the last argument, {sources[-1]}, both name the destination; leave one out")
    request.stdout_is_taken = streams.is_stdout(dst)
    general = request.of(ConversionOptions, EngineOptions)  # an error in the others is reported first, too
    to_format = general.get("to_format")
    if len(sources) > 1 or several.is_folder(dst) or (to_format and several.is_folder(sources[0])):
        if request.of(CheckOptions):
            raise OptionError("`check` is for one model, and these are several")
        _check_folder(dst, sources)
        streams.check_single(arguments)
        return _convert_into(path_of(dst), sources, request)
    src, destination = streams.source_of(sources[0]), streams.destination_of(dst)
    target = lookup.for_writing(destination, "to_format") if to_format is None else lookup.by_name(to_format)
    keywords = conversion_keywords(request, target)
    if request.of(several.SeveralOptions).keys() & {"manifest", "dask"}:
        from formats.batch.job import Job

        if request.of(CheckOptions):
            raise OptionError("`check` cannot be used with `manifest` or `dask`")
        return several.convert_jobs(request, [Job(src, destination)], keywords)
    _check_order(src, destination)
    checking = _checking(request, src, destination)
    report = convert_model(src, destination, progress=progress(), **keywords)
    report = _checked(checking, report, src)
    tell(request, report, lambda: summary(report, notes=request.output.get("notes", False)))
    return 0


@verb(
    "batch [SOURCES...]",
    """Convert many models, folders and lists into a folder.

    SOURCES are files, folders, and patterns such as 'models/**/*.onnx'. FOLDER gets the same subfolders. A failure
    does not stop the others, but gives exit code 1.
    """,
    partial(conversion_groups, first=(several.BatchOptions,), more=(several.SeveralOptions,)),
    several.CONVERT,
    examples=(
        "formats batch models/ --out out --to onnxz",
        "formats batch 'models/**/*.onnx' --out out --to rten --manifest done.jsonl",
        "formats batch --list models.txt --out out --to rten --jobs 8",
    ),
)
def batch(request: Request) -> int:
    """Convert many models, and print the results."""
    keywords = request.of(several.BatchOptions)
    if "out" not in keywords:
        raise OptionError("`out` is missing: name the folder to write into")
    if not request.arguments and "list" not in keywords:
        raise OptionError("SOURCES are missing; name files, folders or patterns, or a `list`")
    streams.check_single(request.arguments)
    return _convert_into(keywords["out"], request.arguments, request)


def _is_new_model(text: str) -> bool:
    """Whether a text is the name of a model that does not exist, so that it is no source."""
    path = path_of(text)
    extensions = lookup.all_extensions()
    return not is_address(path) and path.suffix.lower() in extensions and not os.path.lexists(path)


def _check_order(source: Path, destination: Path) -> None:
    """Raises FileNotFoundError if there is no source but a destination: perhaps they are exchanged."""
    if any(is_address(path) or is_stream(path) for path in (source, destination)):
        return
    if destination.is_file() and not os.path.lexists(source) and owner_of(source) is None:
        words = f"{os.strerror(errno.ENOENT)}, but {destination} exists: are SRC and DST exchanged?"
        raise FileNotFoundError(errno.ENOENT, words, str(source))


def _check_folder(dst: str, sources: Sequence[str]) -> None:
    """Raises OptionError if the destination of several models has the name of a single model."""
    suffix = path_of(dst).suffix.lower()
    codec = next((codec for codec in lookup.codecs() if suffix in codec.extensions), None)
    if codec is not None and not several.is_folder(dst):
        for end in (-1, None):
            if os.path.lexists(name := " ".join([*sources, dst][:end])):
                raise OptionError(f"there are several models, but {name!r} is one: quote a name with spaces")
        advice = f"write them into a folder, such as {dst[: -len(suffix)]}/ --to {codec.name}"
        raise OptionError(f"{dst} is the name of one model, but there are several; {advice}")


def _convert_into(folder: Path, sources: Sequence[str], request: Request) -> int:
    """Convert files into a folder, which is made if it is missing."""
    from formats.batch.job_list import folders_of, shard_of

    to_format = request.of(ConversionOptions).get("to_format")
    if to_format is None:
        raise OptionError(f"`to_format` is needed to convert into the folder {folder}")
    target = lookup.by_name(to_format)
    keywords = conversion_keywords(request, target)
    jobs = several.typed_jobs(folder, sources, target, keywords)
    if (names := request.of(several.BatchOptions).get("list")) is not None:
        jobs += several.listed_jobs(folder, names, target)
    if (shard := request.of(several.BatchOptions).get("shard")) is not None:
        jobs = shard_of(jobs, folder, *shard)
    dry_run, parents = keywords.get("dry_run", False), keywords.get("parents", False)
    if dry_run:
        keywords["parents"] = True  # as if the missing folders were created
    with folders_of(jobs, folder, parents=parents, dry_run=dry_run):
        return several.convert_jobs(request, jobs, keywords)


# edit, extract and merge


@verb(
    "edit SRC [DST]",
    """Change weights, dims, nodes, names and metadata of a model.

    DST may have another format than SRC. Without DST, SRC is an .onnxz archive that is changed in place: only its
    end is written again, and no weight. The edits are done in the order of this page, so --weights and --dim
    use the names before --rename.
    """,
    partial(conversion_groups, first=(EditOptions,), more=(CheckOptions,), in_short=False),
    CHANGE,
    examples=(
        "formats edit model.onnx fixed.onnx --dim batch=1",
        "formats edit model.onnx named.onnx --rename image=pixels",
        "formats edit model.onnx features.onnx --add-output 'conv*'",
        "formats edit model.onnxz --metadata license=MIT",
        "formats edit model.onnx trained.onnx --weights epoch9.npz",
    ),
    writes_once=True,
)
def edit(request: Request) -> int:
    """Change a model, and print what was done."""
    from formats.verbs.edit import edit as edit_model

    return _write(request, EditOptions, edit_model)


@verb(
    "extract SRC DST",
    """Write a part of a model, or one weight.

    The part computes --outputs from --inputs, and has all that it needs: weights, functions, subgraphs. An output
    that needs anything else is an error, which names the path. --tensor writes one weight to a .npy or
    .safetensors file.
    """,
    partial(conversion_groups, first=(ExtractOptions,), in_short=False),
    CHANGE,
    examples=(
        "formats extract model.onnx part.onnx --outputs features",
        "formats extract model.onnx head.onnx --inputs features --force",
        "formats extract model.onnx w.npy --tensor classifier.weight",
    ),
    writes_once=True,
)
def extract(request: Request) -> int:
    """Write a part of a model, and print what was done."""
    from formats.verbs.edit import extract as extract_part

    return _write(request, ExtractOptions, extract_part)


@verb(
    "merge A B DST",
    """Write two models as one: outputs of A become inputs of B.

    Names of B that meet those of A get a number, or all of them a prefix. Operator sets are brought together.
    Weights that are the same bytes of the same file are stored once.
    """,
    partial(conversion_groups, first=(MergeOptions,), in_short=False),
    CHANGE,
    examples=(
        "formats merge body.onnx head.onnx both.onnx --connect features=features",
        "formats merge encoder.onnx decoder.onnx both.onnxz --prefix decoder/",
    ),
    writes_once=True,
)
def merge(request: Request) -> int:
    """Write two models as one, and print what was done."""
    from formats.verbs.edit import merge as merge_models

    return _write(request, MergeOptions, merge_models)


def _write(request: Request, options: type, act: Callable[..., ConversionReport]) -> int:
    """Write a model that is made of others, and print what was done."""
    *sources, last = request.arguments
    dst = last if sources else None
    request.stdout_is_taken = dst is not None and streams.is_stdout(dst)
    places = [*map(streams.source_of, sources), streams.source_of(last) if dst is None else streams.destination_of(dst)]
    keywords = _keywords(request, options, places[-1])
    checking = _checking(request, places[0], places[-1])
    report = act(*places, progress=progress(), **keywords)
    report = _checked(checking, report, places[0])
    tell(request, report, lambda: summary(report, notes=request.output.get("notes", False)))
    return 0


def _checking(request: Request, source: Path, destination: Path) -> CheckOptions:
    """Whether and how the new model is to be compared with the source.

    Raises: OptionError, before anything is written, if there will not be two files to compare.
    """
    checking = CheckOptions(**request.of(CheckOptions))
    checking.require_files(source, destination, dry_run=request.of(EngineOptions).get("dry_run", False))
    if checking.check and source.exists() and destination.exists() and source.samefile(destination):
        raise OptionError(f"`check` compares the new model with {source}, which it would replace; name another DST")
    return checking


def _checked(checking: CheckOptions, report: ConversionReport, source: Path) -> ConversionReport:
    """The report, with what both models compute if that is asked for.

    Raises: FormatError or OptionError, which says that the model was written, if they cannot be compared.
    """
    written = f"{report.destination} was written, but not compared with the source: "
    try:
        return replace(report, checked=checking.run(source, report.destination))
    except OptionError as error:
        raise OptionError(f"{written}{error}") from None
    except FormatError as error:
        error.message = f"{written}{error.message}"
        raise


def _keywords(request: Request, options: type, destination: Path) -> dict[str, Any]:
    """The keywords that were given: the own ones, and those for the format of the destination."""
    to_format = request.of(ConversionOptions).get("to_format")
    if to_format is not None:
        return conversion_keywords(request, lookup.by_name(to_format), (options,))
    is_tensor = request.of(options).get("tensor") is not None
    target = None if is_tensor else lookup.for_writing(destination, "to_format")
    return conversion_keywords(request, target, (options,))
