"""The verbs for the files of models: they list, copy, move, remove and share files that belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.cli.command_line import NoteOptions, OutputOptions, groups, verb
from formats.cli.looking_verbs import LOOK, FileOptions, Seen, is_several, look
from formats.cli.report_lines import files_lines, relocation_lines, repair_lines, sharing_lines
from formats.cli.several import CONVERT, out_option
from formats.cli.streams import progress, source_of, tell
from formats.codecs.contract import ReadOptions
from formats.errors import OptionError
from formats.onnxpb.external.other_graphs import remembering
from formats.options import SWITCH, option
from formats.tensordata.engine import EngineOptions
from formats.tensordata.interrupted import told_once
from formats.tensordata.replacing.hidden import listed_once
from formats.verbs import model_files, relocate
from formats.verbs.arguments import local_path_of
from formats.verbs.choices import ReplacementOptions
from formats.verbs.pack import PackingOptions
from formats.verbs.pack import pack as pack_models
from formats.verbs.pack import unpack as unpack_archive
from formats.verbs.relocate import RelocationOptions
from formats.verbs.repair import repair as repair_model
from formats.verbs.share import ShareOptions
from formats.verbs.share import share as share_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from formats.cli.command_line import Request
    from formats.verbs.relocate import Relocation


FILES = "Copy, move, remove, repair"


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


@verb(
    "files FILE...",
    """List the files that belong to a model.

    These are the file itself and its data files. A data file that another graph in the folder uses is marked. FILE
    is a model, or a folder with models.
    """,
    groups(FileOptions, OutputOptions, ReadOptions),
    LOOK,
    examples=("formats files model.onnx",),
    only_prints=True,
)
def files(request: Request) -> int:
    """Print which files belong to models."""
    keywords = request.of(ReadOptions, FileOptions)

    def see(file: Path) -> Seen:
        listing = model_files.files(file, **keywords)
        return Seen(listing, lambda: files_lines(listing))

    with remembering({}):  # a folder is listed once for its models, not for each
        return look(request, see, title="read", has_gaps=True)


@verb(
    "cp SRC DST",
    """Copy a model with its data files.

    DST is a path or a folder. Data files that are named after the model are renamed with it.
    """,
    groups(RelocationOptions, ReplacementOptions, OutputOptions),
    FILES,
    examples=("formats cp model.onnx copy.onnx", "formats cp model.onnx backup/ --parents"),
    writes_once=True,
)
def copy(request: Request) -> int:
    """Copy a model with its data files, and print what was written."""
    return _show_result(request, lambda keywords: relocate.cp(*request.arguments, **keywords))


@verb(
    "mv SRC DST",
    """Move or rename a model with its data files.

    DST is a path or a folder. Within a filesystem, no weights are copied. A data file that another graph in the
    folder uses stays, and so does the target of a link; the new model then has a copy if it is in another folder.
    """,
    groups(RelocationOptions, ReplacementOptions, OutputOptions),
    FILES,
    examples=("formats mv model.onnx better-name.onnx", "formats mv model.onnx models/"),
)
def move(request: Request) -> int:
    """Move a model with its data files, and print what was done."""
    return _show_result(request, lambda keywords: relocate.mv(*request.arguments, **keywords))


@verb(
    "rm FILE...",
    """Remove a model with its data files.

    Data files that another graph in the folder uses stay, and so do the targets of links and, without --all-data,
    data files that are not named after the model. FILE is a model, never a folder.
    """,
    groups(RemovalOptions, OutputOptions),
    FILES,
    examples=("formats rm old.onnx --dry-run", "formats rm old.onnx a.onnx b.onnx"),
)
def remove(request: Request) -> int:
    """Remove models with their data files, and print what was removed; a folder is no model."""
    keywords = request.of(RemovalOptions)
    for name in request.arguments:  # an error in one of them is reported before anything is removed
        local_path_of(source_of(name))
    gone: set[Path] = set()  # in a dry run, the models that would be removed before the next one

    several = is_several(request, in_folders=False)
    removed: set[Path] = set()
    kept: dict[Path, str] = {}

    def see(file: Path) -> Seen:
        removal = relocate.remove(local_path_of(file), **keywords, gone=gone)
        gone.update(removal.removed if removal.dry_run else ())
        removed.update(removal.removed)
        kept.update(removal.kept)
        return Seen(removal, lambda: relocation_lines(replace(removal, kept=()) if several else removal))

    def stays() -> Iterable[str]:  # a later model may have been the last that uses a file
        return [f"note: {path} stays: {reason}" for path, reason in kept.items() if path not in removed]

    title = "to remove" if keywords.get("dry_run") else "removed"
    with remembering({}):
        return look(request, see, title=title, in_folders=False, ending=stays)


def _show_result(request: Request, act: Callable[[dict[str, Any]], Relocation]) -> int:
    """Copy or move as `act` does, and print what was done."""
    relocation = act(request.of(RelocationOptions, ReplacementOptions) | {"progress": progress()})
    tell(request, relocation, lambda: relocation_lines(relocation))
    return 0


@verb(
    "share MODELS...",
    """Write models into one folder, equal weights only once.

    The models are written as .onnx. Weights of several models are in a data file for exactly these models; each
    other weight is in the data file of its model. This is useful for encoders and decoders, variants of a model,
    and merged LoRA adapters.
    """,
    groups(IntoOptions, ShareOptions, EngineOptions, ReplacementOptions, OutputOptions, NoteOptions, ReadOptions),
    CONVERT,
    examples=("formats share encoder.onnx decoder.onnx --out shared",),
    writes_once=True,
)
def share(request: Request) -> int:
    """Write models with equal weights stored once, and print what that saves."""
    from formats.batch import job_list

    out = request.of(IntoOptions).get("out")
    if out is None:
        raise OptionError("`out` is missing: name the folder to write into")
    keywords = request.of(ShareOptions, EngineOptions, ReplacementOptions) | request.of(ReadOptions)
    sources = [place.source for place in job_list.source_files(request.arguments, out)]
    sharing = share_weights(sources, out, progress=progress(), **keywords)
    tell(request, sharing, lambda: sharing_lines(sharing, notes=request.output.get("notes", False)))
    return 0


@verb(
    "pack SRC... DST",
    """Write models and other files into one .onnxz archive.

    Weights that several models have are stored once. SRC is a model, or any file that goes with them. A model gets
    the name of its file; NAME=PATH chooses another. Other files become files/NAME. DST comes last.
    """,
    groups(PackingOptions, EngineOptions, OutputOptions, ReadOptions),
    CONVERT,
    examples=(
        "formats pack encoder.onnx decoder.onnx tokenizer.json whisper.onnxz",
        "formats pack first=a.onnx second=b.onnx both.onnxz --default first",
    ),
    writes_once=True,
)
def pack(request: Request) -> int:
    """Write models and files into an archive, and print what is in it."""
    *sources, destination = request.arguments
    if not sources:
        raise OptionError("name the models and files, then the archive to write")
    keywords = request.of(PackingOptions, EngineOptions) | request.of(ReadOptions)
    packed = pack_models(sources, destination, progress=progress(), **keywords)
    tell(request, packed, packed.lines)
    return 0


@verb(
    "unpack SRC FOLDER",
    """Write what is in an .onnxz archive into a folder.

    The graphs are then models with external data, such as encoder.onnx, and sha256sum -c __SHA256SUMS checks all
    files. Without --force, FOLDER must be new or empty.
    """,
    groups(FolderOptions, OutputOptions),
    CONVERT,
    examples=("formats unpack whisper.onnxz whisper", "formats unpack whisper.onnxz whisper --force"),
)
def unpack(request: Request) -> int:
    """Write what is in an archive into a folder, and print it."""
    unpacked = unpack_archive(*request.arguments, progress=progress(), **request.of(FolderOptions))
    tell(request, unpacked, unpacked.lines)
    return 0


@verb(
    "repair FILE...",
    """Complete or undo an interrupted write of a model.

    This also removes the temporary files of the write. FILE is a model, or a folder with models.
    """,
    groups(OutputOptions),
    FILES,
    examples=("formats repair model.onnx",),
)
def repair(request: Request) -> int:
    """Complete or undo interrupted writes, and print the results."""
    shown: set[str] = set()

    def see(file: Path) -> Seen:
        repaired = repair_model(file)
        repaired = replace(repaired, notes=tuple(note for note in repaired.notes if note not in shown))
        shown.update(repaired.notes)
        return Seen(repaired, lambda: repair_lines(repaired), not repaired.refused)

    with told_once(), listed_once():
        return look(request, see, title="repaired")
