"""The verbs for the files of models: they list, copy, move, remove and share files that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.cli.command_line import Group, Verb
from formats.cli.error_text import in_flags
from formats.cli.looking_verbs import LOOK, Seen, is_several, look
from formats.cli.several import CONVERT, out_option
from formats.cli.shared_options import FileOptions, NoteOptions, OutputOptions, groups, how_to_tell, tell
from formats.cli.streams import source_of
from formats.cli.waiting import progress
from formats.codecs.contract import ReadOptions
from formats.errors import OptionError
from formats.options import SWITCH, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from formats.cli.command_line import Request
    from formats.verbs.relocate import Relocation


@dataclass(frozen=True, slots=True)
class RemovalOptions:
    """Which files are removed."""

    all_data: bool = option(
        False,
        SWITCH,
        "Also remove data files that are not named after the model, or that a file which cannot be read may use.",
        common=True,
    )
    dry_run: bool = option(False, SWITCH, "Change nothing; say what would be done.", short="-n", common=True)


@dataclass(frozen=True, slots=True)
class IntoOptions:
    """Where models that share weights are written."""

    out: Path | None = out_option()


@dataclass(frozen=True, slots=True)
class FolderOptions:
    """The folder that is written."""

    parents: bool = option(False, SWITCH, "Make missing parent folders.", common=True)
    overwrite: bool = option(
        False, SWITCH, "Replace files that exist; others in FOLDER stay.", short="-f", flag="--force", common=True
    )


def files(request: Request) -> int:
    """Print which files belong to models."""
    from formats.cli.report_lines import files_lines
    from formats.verbs import model_files

    given = request.of(ReadOptions, FileOptions)

    def see(file: Path) -> Seen:
        found = model_files.files(file, **given)
        return Seen(found, lambda: files_lines(found))

    return look(request, how_to_tell(request), see, title="read")


def place_groups(of_all_packages: bool) -> Sequence[Group]:
    """The options of `cp` and `mv`."""
    from formats.verbs.choices import ReplacementOptions
    from formats.verbs.relocate import PlaceOptions

    return groups(PlaceOptions, ReplacementOptions, OutputOptions)(of_all_packages)


def copy(request: Request) -> int:
    """Copy a model with its data files, and print what was written."""
    from formats.verbs import relocate

    return _show_result(request, lambda given: relocate.cp(*request.arguments, **given))


def move(request: Request) -> int:
    """Move a model with its data files, and print what was done."""
    from formats.verbs import relocate

    return _show_result(request, lambda given: relocate.mv(*request.arguments, **given))


def remove(request: Request) -> int:
    """Remove models with their data files, and print what was removed; a folder is no model."""
    from formats.cli.report_lines import relocation_lines
    from formats.verbs import relocate
    from formats.verbs.arguments import local_path_of

    given = request.of(RemovalOptions)
    for name in request.arguments:  # an error in one of them is reported before anything is removed
        local_path_of(source_of(name))
    gone: list[Path] = []  # in a dry run, the models that would be removed before the next one

    several = is_several(request, in_folders=False)
    removed: set[Path] = set()
    kept: dict[Path, str] = {}

    def see(file: Path) -> Seen:
        done = relocate.remove(local_path_of(file), **given, gone=gone)
        gone.extend(done.removed if done.dry_run else ())
        removed.update(done.removed)
        kept.update(done.kept)
        return Seen(done, lambda: relocation_lines(replace(done, kept=()) if several else done))

    def stays() -> Iterable[str]:  # a later model may have been the last that uses a file
        return [f"note: {path} stays: {reason}" for path, reason in kept.items() if path not in removed]

    title = "to remove" if given.get("dry_run") else "removed"
    return look(request, how_to_tell(request), see, title=title, in_folders=False, only_prints=False, ending=stays)


def _show_result(request: Request, act: Callable[[dict[str, Any]], Relocation]) -> int:
    from formats.cli.report_lines import relocation_lines
    from formats.verbs.choices import ReplacementOptions
    from formats.verbs.relocate import PlaceOptions

    output = how_to_tell(request)
    done = act(request.of(PlaceOptions, ReplacementOptions) | {"progress": progress()})
    tell(output, done, lambda: (in_flags(line, request.rows(), {}) for line in relocation_lines(done)))
    return 0


def share(request: Request) -> int:
    """Write models with equal weights stored once, and print what that saves."""
    from formats.batch import job_list
    from formats.cli.report_lines import sharing_lines
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.choices import ReplacementOptions
    from formats.verbs.share import ShareOptions
    from formats.verbs.share import share as share_weights

    output = how_to_tell(request)
    out = request.of(IntoOptions).get("out")
    if out is None:
        raise OptionError("`out` is missing: name the folder to write into")
    given = request.of(ShareOptions, EngineOptions, ReplacementOptions) | request.of(ReadOptions)
    sources = [place.source for place in job_list.places_of(request.arguments, out)]
    done = share_weights(sources, out, progress=progress(), **given)
    notes = output.get("notes", False)
    tell(output, done, lambda: (in_flags(line, request.rows(), {}) for line in sharing_lines(done, notes=notes)))
    return 0


def share_groups(of_all_packages: bool) -> Sequence[Group]:
    """The options of `share`."""
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.choices import ReplacementOptions
    from formats.verbs.share import ShareOptions

    writing = (IntoOptions, ShareOptions, EngineOptions, ReplacementOptions)
    return groups(*writing, OutputOptions, NoteOptions, ReadOptions)(of_all_packages)


def pack(request: Request) -> int:
    """Write models and files into an archive, and print what is in it."""
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.pack import PackingOptions
    from formats.verbs.pack import pack as pack_models

    output = how_to_tell(request)
    *sources, destination = request.arguments
    if not sources:
        raise OptionError("name the models and files, then the archive to write")
    given = request.of(PackingOptions, EngineOptions) | request.of(ReadOptions)
    done = pack_models(sources, destination, progress=progress(), **given)
    tell(output, done, lambda: (in_flags(line, request.rows(), {}) for line in done.lines()))
    return 0


def pack_groups(of_all_packages: bool) -> Sequence[Group]:
    """The options of `pack`."""
    from formats.tensordata.engine import EngineOptions
    from formats.verbs.pack import PackingOptions

    return groups(PackingOptions, EngineOptions, OutputOptions, ReadOptions)(of_all_packages)


def unpack(request: Request) -> int:
    """Write what is in an archive into a folder, and print it."""
    from formats.verbs.pack import unpack as unpack_archive

    output = how_to_tell(request)
    done = unpack_archive(*request.arguments, progress=progress(), **request.of(FolderOptions))
    tell(output, done, done.lines)
    return 0


FILES = "Copy, move, remove, repair"
FILE_VERBS = (
    Verb(
        "files",
        """List the files that belong to a model.

        These are the file itself and its data files. A data file that another graph in the folder uses is marked. FILE
        is a model, or a folder with models.
        """,
        ("FILE...",),
        groups(FileOptions, OutputOptions, ReadOptions),
        files,
        LOOK,
        ("formats files model.onnx",),
        only_prints=True,
    ),
    Verb(
        "cp",
        """Copy a model with its data files.

        DST is a path or a folder. Data files that are named after the model are renamed with it.
        """,
        ("SRC", "DST"),
        place_groups,
        copy,
        FILES,
        ("formats cp model.onnx copy.onnx", "formats cp model.onnx backup/ --parents"),
        writes_once=True,
    ),
    Verb(
        "mv",
        """Move or rename a model with its data files.

        DST is a path or a folder. Within a filesystem, no weights are copied. A data file that another graph in the
        folder uses stays, and so does the target of a link; the new model then has a copy if it is in another folder.
        """,
        ("SRC", "DST"),
        place_groups,
        move,
        FILES,
        ("formats mv model.onnx better-name.onnx", "formats mv model.onnx models/"),
    ),
    Verb(
        "rm",
        """Remove a model with its data files.

        Data files that another graph in the folder uses stay, and so do the targets of links and, without --all-data,
        data files that are not named after the model. FILE is a model, never a folder.
        """,
        ("FILE...",),
        groups(RemovalOptions, OutputOptions),
        remove,
        FILES,
        ("formats rm old.onnx --dry-run", "formats rm old.onnx a.onnx b.onnx"),
    ),
    Verb(
        "share",
        """Write models into one folder, equal weights only once.

        The models are written as .onnx. Weights of several models are in a data file for exactly these models; each
        other weight is in the data file of its model. This is useful for encoders and decoders, variants of a model,
        and merged LoRA adapters.
        """,
        ("MODELS...",),
        share_groups,
        share,
        CONVERT,
        ("formats share encoder.onnx decoder.onnx --out shared",),
        writes_once=True,
    ),
    Verb(
        "pack",
        """Write models and other files into one .onnxz archive.

        Weights that several models have are stored once. SRC is a model, or any file that goes with them. A model gets
        the name of its file; NAME=PATH chooses another. Other files become files/NAME. DST comes last.
        """,
        ("SRC...", "DST"),
        pack_groups,
        pack,
        CONVERT,
        (
            "formats pack encoder.onnx decoder.onnx tokenizer.json whisper.onnxz",
            "formats pack first=a.onnx second=b.onnx both.onnxz --default first",
        ),
        writes_once=True,
    ),
    Verb(
        "unpack",
        """Write what is in an .onnxz archive into a folder.

        The graphs are then models with external data, such as encoder.onnx, and sha256sum -c __SHA256SUMS checks all
        files. Without --force, FOLDER must be new or empty.
        """,
        ("SRC", "FOLDER"),
        groups(FolderOptions, OutputOptions),
        unpack,
        CONVERT,
        ("formats unpack whisper.onnxz whisper", "formats unpack whisper.onnxz whisper --force"),
    ),
)
