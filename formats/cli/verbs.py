"""The verbs of the commands: a row for each with its arguments, its options, and the function that executes it."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.cli import several, streams
from formats.cli.command_line import Group, Verb
from formats.cli.conversion_options import conversion_groups, conversion_keywords
from formats.cli.editing_verbs import EDITING_VERBS
from formats.cli.error_text import in_flags
from formats.cli.file_verbs import FILE_VERBS, FILES
from formats.cli.looking_verbs import LOOKING_VERBS, Seen, look
from formats.cli.printing import json_text, say
from formats.cli.shared_options import OutputOptions, groups, how_to_tell, tell
from formats.cli.waiting import progress
from formats.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.cli.command_line import Request


def convert_groups(of_all_packages: bool) -> list[Group]:
    """The options of `convert`: of every conversion, of reading, and of the formats."""
    return conversion_groups(of_all_packages, (several.DestinationOptions,), (several.SeveralOptions,))


def batch_groups(of_all_packages: bool) -> list[Group]:
    """The options of `batch`: its own, and those of `convert`."""
    return [Group(several.BatchOptions), *convert_groups(of_all_packages)[1:]]


def convert(request: Request) -> int:
    """Convert, and print the result."""
    from formats.cli.report_lines import summary
    from formats.codecs import lookup
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.arguments import path_of
    from formats.verbs.choices import ConversionOptions
    from formats.verbs.convert import convert as convert_model

    arguments = [*request.arguments, *request.of(several.DestinationOptions).values()]
    *sources, dst = arguments
    if len(arguments) > len(request.arguments) > 1 and _is_new_model(sources[-1]):
        raise OptionError(f"`out` and the last argument, {sources[-1]}, both name the destination; leave one out")
    request.stdout_is_taken = streams.is_stdout(dst)
    output = how_to_tell(request)
    to_format = request.of(ConversionOptions, EngineOptions).get(
        "to_format"
    )  # an error in the other options is reported first, too
    if len(sources) > 1 or several.is_folder(dst) or (to_format and several.is_folder(sources[0])):
        _check_folder(dst, sources)
        streams.check_single(arguments)
        return _convert_into(path_of(dst), sources, request, output)
    src, destination = streams.source_of(sources[0]), streams.destination_of(dst)
    target = lookup.for_writing(destination, "to_format") if to_format is None else lookup.by_name(to_format)
    given = conversion_keywords(request, target)
    if request.of(several.SeveralOptions).keys() & {"manifest", "dask"}:
        from formats.batch.job import Job

        return several.run(request, [Job(src, destination)], given, output)
    _check_order(src, destination)
    report = convert_model(src, destination, progress=progress(), **given)
    rows = request.rows()
    stream = sys.stderr if request.stdout_is_taken else None
    tell(
        output,
        report,
        lambda: (in_flags(line, rows, {}) for line in summary(report, notes=output.get("notes", False))),
        stream,
    )
    return 0


def batch(request: Request) -> int:
    """Convert many models, and print the results."""
    given = request.of(several.BatchOptions)
    if "out" not in given:
        raise OptionError("`out` is missing: name the folder to write into")
    if not request.arguments and "list" not in given:
        raise OptionError("SOURCES are missing; name files, folders or patterns, or a `list`")
    streams.check_single(request.arguments)
    return _convert_into(given["out"], request.arguments, request, how_to_tell(request))


def _is_new_model(text: str) -> bool:
    """Whether a text is the name of a model that does not exist, so that it is no source."""
    from formats.codecs import lookup
    from formats.tensordata.file import is_address
    from formats.verbs.arguments import path_of

    path = path_of(text)
    known = {extension for codec in lookup.codecs() for extension in codec.extensions}
    return not is_address(path) and path.suffix.lower() in known and not os.path.lexists(path)


def _check_order(source: Path, destination: Path) -> None:
    """Raises FileNotFoundError if there is no source but a destination: perhaps they are exchanged."""
    from formats.tensordata.file import is_address, is_stream
    from formats.tensordata.interrupted import owner_of

    if any(is_address(path) or is_stream(path) for path in (source, destination)):
        return
    if destination.is_file() and not os.path.lexists(source) and owner_of(source) is None:
        words = f"{os.strerror(errno.ENOENT)}, but {destination} exists: are SRC and DST exchanged?"
        raise FileNotFoundError(errno.ENOENT, words, str(source))


def _check_folder(dst: str, sources: Sequence[str]) -> None:
    """Raises OptionError if the destination of several models has the name of a single model."""
    from formats.codecs import lookup
    from formats.verbs.arguments import path_of

    suffix = path_of(dst).suffix.lower()
    codec = next((codec for codec in lookup.codecs() if suffix in codec.extensions), None)
    if codec is not None and not several.is_folder(dst):
        for end in (-1, None):
            if os.path.lexists(name := " ".join([*sources, dst][:end])):
                raise OptionError(f"there are several models, but {name!r} is one: quote a name with spaces")
        advice = f"write them into a folder, such as {dst[: -len(suffix)]}/ --to {codec.name}"
        raise OptionError(f"{dst} is the name of one model, but there are several; {advice}")


def _convert_into(folder: Path, sources: Sequence[str], request: Request, output: dict[str, Any]) -> int:
    """Convert files into a folder, which is made if it is missing."""
    from formats.batch.job_list import folders_of, shard_of
    from formats.codecs import lookup
    from formats.verbs.choices import ConversionOptions

    to_format = request.of(ConversionOptions).get("to_format")
    if to_format is None:
        raise OptionError(f"`to_format` is needed to convert into the folder {folder}")
    target = lookup.by_name(to_format)
    given = conversion_keywords(request, target)
    jobs = several.jobs_into(folder, sources, target, given)
    if (names := request.of(several.BatchOptions).get("list")) is not None:
        jobs += several.listed_jobs(folder, names, target)
    if (shard := request.of(several.BatchOptions).get("shard")) is not None:
        jobs = shard_of(jobs, folder, *shard)
    dry_run, parents = given.get("dry_run", False), given.get("parents", False)
    if dry_run:
        given["parents"] = True  # as if the missing folders were created
    with folders_of(jobs, folder, parents=parents, dry_run=dry_run):
        return several.run(request, jobs, given, output)


def repair(request: Request) -> int:
    """Complete or undo interrupted writes, and print the results."""
    from formats.cli.report_lines import repair_lines
    from formats.verbs.repair import repair as repair_model

    shown: set[str] = set()

    def see(file: Path) -> Seen:
        done = repair_model(file)
        done = replace(done, notes=tuple(note for note in done.notes if note not in shown))
        shown.update(done.notes)
        return Seen(done, lambda: repair_lines(done), not done.refused)

    return look(request, how_to_tell(request), see, title="repaired", only_prints=False)


def completion(request: Request) -> int:
    """Print the script for a shell."""
    from formats.cli.completion import SHELLS, suggested

    output = how_to_tell(request)
    (shell,) = request.arguments
    if shell not in SHELLS:
        raise OptionError(f"SHELL is {shell!r:.40}, but must be one of {', '.join(SHELLS)}")
    script = SHELLS[shell](suggested(VERBS))
    if output.get("json"):
        say(json_text({"shell": shell, "script": script}))
    elif not output.get("quiet"):
        say(script.rstrip("\n"))
    return 0


VERBS = (
    Verb(
        "convert",
        """Convert a model; the extension of DST says to which format.

        Several models, or a folder with models, go into the folder DST, with --to. - is stdin or stdout.
        """,
        ("SRC...", "DST"),
        convert_groups,
        convert,
        several.CONVERT,
        (
            "formats convert model.onnx model.rten",
            "formats convert model.onnx split.onnx --max-external-file-size 1GB",
            "formats convert split.onnx one-file.onnx --no-external-data",
            "formats convert a.onnx b.onnx out/ --to onnxz",
            "formats convert - - --to onnxz < model.onnx > model.onnxz",
        ),
        last_as="out",
        writes_once=True,
    ),
    Verb(
        "batch",
        """Convert many models, folders and lists into a folder.

        SOURCES are files, folders, and patterns such as 'models/**/*.onnx'. FOLDER gets the same subfolders. A failure
        does not stop the others, but gives exit code 1.
        """,
        ("[SOURCES...]",),
        batch_groups,
        batch,
        several.CONVERT,
        (
            "formats batch models/ --out out --to onnxz",
            "formats batch 'models/**/*.onnx' --out out --to rten --manifest done.jsonl",
            "formats batch --list models.txt --out out --to rten --jobs 8",
        ),
    ),
    *EDITING_VERBS,
    *LOOKING_VERBS,
    *FILE_VERBS,
    Verb(
        "repair",
        """Complete or undo an interrupted write of a model.

        This also removes the temporary files of the write. FILE is a model, or a folder with models.
        """,
        ("FILE...",),
        groups(OutputOptions),
        repair,
        FILES,
        ("formats repair model.onnx",),
    ),
    Verb(
        "completion",
        """Print a script that completes `formats` in bash, zsh or fish.

        Add it to the start-up file of the shell: eval "$(formats completion bash)" into ~/.bashrc, eval
        "$(formats completion zsh)" into ~/.zshrc after compinit, formats completion fish | source into
        ~/.config/fish/config.fish.
        """,
        ("SHELL",),
        groups(OutputOptions),
        completion,
        "Shell",
        ('eval "$(formats completion bash)"',),
        only_prints=True,
    ),
)
