"""Put models and other files into one archive, and take them out again."""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs import contract, lookup
from formats.codecs.contract import Match, ReadOptions
from formats.collector import collector_paused
from formats.errors import OptionError, UnknownFormatError, file_exists, no_directory
from formats.ir.archive_link import without_link
from formats.onnxzip import CODEC
from formats.onnxzip.names import FILES_PREFIX, MODEL_NAME, MODEL_PREFIX, broken_by_name, broken_by_names
from formats.onnxzip.options import ArchiveOptions, alignment_option
from formats.options import make_each_options, option, settle, text, threshold_option
from formats.tensordata.engine import EngineOptions, execute, partial_progress
from formats.tensordata.file import File
from formats.tensordata.local.directory import Folder, LinkFoundError, made_folders, move_file, sync_directory, unlink
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.plan import WritePlan, losses_in_order
from formats.tensordata.replacing.hidden import HiddenFileError, is_hidden
from formats.tensordata.replacing.publication import is_left, repair_interrupted, temporary_folder
from formats.verbs.arguments import local_path_of
from formats.verbs.report import fields_as_json, losses_of_model, verdict_of_models
from formats.verbs.steps.opening import (
    check_key,
    common_permissions,
    located,
    model_name,
    open_model,
    recognised,
)
from formats.verbs.steps.planning import is_translated, raise_model
from formats.verbs.steps.replacement import whole_file
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from typing_extensions import Unpack

    from formats.keywords import PackKeywords
    from formats.onnxzip.reader import Contents
    from formats.onnxzip.records import Entry
    from formats.tensordata.plan import Loss
    from formats.tensordata.sources.source import Source
    from formats.verbs.steps.opening import Opened

_NAMED = re.compile(rf"(?P<name>[A-Za-z0-9_]+|{FILES_PREFIX}[^=]+)=(?P<path>.+)", re.DOTALL)
_REPLACED = re.compile(r"[^A-Za-z0-9_]")
OPEN_AT_ONCE = 64  # the files that are written together when an archive is unpacked; systems limit open files


@dataclass(frozen=True, slots=True)
class PackingOptions:
    """How models and files become an archive.

    `default`: the name of the model that programs take which are not told another. `size_threshold`, `alignment`: as in
    `ArchiveOptions`.

    Raises: OptionError for an invalid value.
    """

    default: str | None = option(
        None, text("NAME", "the name of a model"), "Make this model the default one.", common=True
    )
    size_threshold: int = threshold_option()
    alignment: int = alignment_option()

    def __post_init__(self) -> None:
        settle(self)


class _NamedPath(NamedTuple):
    """A path among the arguments, and the name that the caller chose for it, or `None`."""

    path: Path
    name: str | None


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive that was written: its models, `None` for the default one, its files and its size in bytes.

    `shared_nbytes` are bytes of weights that are not stored again, because another tensor has them. `skipped` are data
    files that were given, but whose weights are in the archive anyway.
    """

    path: Path
    nbytes: int
    models: tuple[str | None, ...]
    files: tuple[str, ...]
    shared_nbytes: int
    skipped: tuple[Path, ...]
    losses: tuple[Loss, ...]
    seconds: float
    verdict: str  # whether the models in the archive compute the same, in one line
    dry_run: bool = False

    def __str__(self) -> str:
        """What was written, whether it computes the same, and what differs, as the command prints it."""
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """What was written, and whether it computes the same, for people."""
        names = ", ".join("the default model" if name is None else name for name in self.models)
        files = f"; {', '.join(self.files)}" if self.files else ""
        would = "would write " * self.dry_run
        yield f"{would}{self.path}  {names}{files}  {in_units(self.nbytes)}, {self.seconds:.2f} s"
        yield self.verdict
        if self.shared_nbytes:
            yield f"{in_units(self.shared_nbytes)} of equal weights are stored only once"
        yield from (f"note: {path} is not in the archive: its weights are" for path in self.skipped)
        for loss in self.losses:
            yield f"{'warning' if loss.matters else 'note'}: {loss.where}: {loss.detail}"

    def to_json(self) -> dict[str, Any]:
        """The report as strings, numbers, lists and `None`."""
        names = "path nbytes models files shared_nbytes skipped verdict losses"
        return {**fields_as_json(self, names), "seconds": round(self.seconds, 6), "dry_run": self.dry_run}


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What was written from an archive into a folder: its models, its files, and the number of entries.

    `models` are the graphs with names that end in `.onnx`.
    """

    folder: Path
    nbytes: int
    models: tuple[Path, ...]
    files: tuple[Path, ...]
    entries: int
    has_hashes: bool

    def __str__(self) -> str:
        """What was written, as the command prints it."""
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """What was written, for people."""
        yield f"{self.folder}  {counted(self.entries + len(self.models), 'file')}, {in_units(self.nbytes)}"
        yield from (f"  {path}" for path in (*self.models, *self.files))
        if self.has_hashes:
            yield "`sha256sum -c __SHA256SUMS` in this folder checks every file"

    def to_json(self) -> dict[str, Any]:
        """The report as strings, numbers and lists."""
        return fields_as_json(self, "folder nbytes models files entries has_hashes")


def pack(
    sources: Iterable[str | os.PathLike[str]], destination: str | os.PathLike[str], **options: Unpack[PackKeywords]
) -> Packed:
    """Write models and other files into the archive `destination`, equal weights only once; return what was written.

    The name of a model is that of its file without the extension, with `_` for characters that a name cannot have. A
    source `NAME=PATH` chooses another name. `default` makes one model the default, which programs take that are not
    told another; a single model without a chosen name is the default. A file that is no model becomes `files/` and
    its name; `files/NAME=PATH` chooses another. The archive also has the SHA-256 of each entry. `options` are those of
    `PackingOptions`, of `load` and of the engine.

    For example:

        >>> report = formats.edit("model.onnx", "other.onnx", dim={"batch": 1})
        >>> packed = formats.pack(["model.onnx", "other.onnx"], "both.onnxz")
        >>> formats.load("both.onnxz", model="other").graph.name
        'digits'

    Raises: OptionError for names that are not possible; FormatError if a model cannot be read; FileExistsError if a
    file is in the way; other OSErrors.
    """
    started = perf_counter()
    chosen, reading, engine = make_each_options((PackingOptions, ReadOptions, EngineOptions), options)
    path = local_path_of(destination)
    if path.suffix.lower() not in CODEC.extensions:
        raise OptionError(f"the last argument is the archive to write, but {path} does not end with .onnxz")
    if not engine.overwrite and os.path.lexists(path):
        raise file_exists(path)
    paths = [_named_path(source) for source in sources]
    models, files = _models_and_files(paths, chosen.default)
    if not models:
        raise OptionError("an archive needs a model, and none of the files is one")
    opened = {name: open_model(file, None, reading, key_is_for_it=False) for name, file in models.items()}
    check_key(reading, *(model.codec for model in opened.values()))
    data = {os.path.realpath(file) for name, model in opened.items() for file in model.files(models[name])[1:]}
    skipped = tuple(file for file in files.values() if os.path.realpath(file) in data)
    kept = {name: file for name, file in files.items() if file not in skipped}
    with collector_paused():
        plan, shared_nbytes = _plan(opened, kept, path, chosen)
    allowed = (model.permissions(encrypts=False) for model in opened.values())
    plan = plan._replace(permissions=common_permissions(allowed))
    execute(plan, engine)
    losses = losses_in_order(plan.losses)
    translates = any(is_translated(model.model, CODEC) for model in opened.values())
    return Packed(
        path=path,
        nbytes=plan.nbytes,
        models=tuple(opened),
        files=tuple(kept),
        shared_nbytes=shared_nbytes,
        skipped=skipped,
        losses=losses,
        seconds=perf_counter() - started,
        verdict=verdict_of_models(losses, is_translated=translates),
        dry_run=engine.dry_run,
    )


def _named_path(source: str | os.PathLike[str]) -> _NamedPath:
    """The path and the chosen name in a source; a file with an equals sign in its name is meant as it is."""
    match = _NAMED.fullmatch(source) if isinstance(source, str) and not os.path.lexists(source) else None
    if match is None:
        return _NamedPath(local_path_of(source), None)
    return _NamedPath(local_path_of(match["path"]), match["name"])


def _models_and_files(paths: list[_NamedPath], default: str | None) -> tuple[dict[str | None, Path], dict[str, Path]]:
    """The models by name, the default one last, and the files by the names of their entries.

    Raises: OptionError for a name that is not possible, or that two of them have.
    """
    models: dict[str | None, Path] = {}
    files: dict[str, Path] = {}
    is_chosen = False
    for path, chosen in paths:
        if path.is_dir():
            raise OptionError(f"{path} is a folder; name the files in it")
        is_file = (chosen or "").startswith(FILES_PREFIX) or not _is_model(path)
        if is_file and chosen is not None and not chosen.startswith(FILES_PREFIX):
            raise OptionError(f"{path} is no model; the name of a file is {FILES_PREFIX}{chosen}")
        if is_file:
            _add(files, chosen or FILES_PREFIX + path.name, path)
        else:
            is_chosen = is_chosen or chosen is not None
            _add(models, chosen or _REPLACED.sub("_", model_name(path)), path)
    if default is not None and default not in models:
        raise OptionError(f"`default` is {default!r:.80}, but the models are {', '.join(map(str, models))}")
    if default is not None or (len(models) == 1 and not is_chosen):
        models[None] = models.pop(default or next(iter(models)))
    names = [*files, *(MODEL_PREFIX + name for name in models if name is not None)]
    if broken := next(filter(broken_by_name, names), None):
        raise OptionError(f"no entry of an archive can be called {broken!r:.80}; choose a name with NAME=PATH")
    if problem := broken_by_names([*names, "__MODEL_PROTO"]):
        raise OptionError(f"{problem[1]}; choose a name with NAME=PATH")
    return models, files


def _add(taken: dict[Any, Path], name: str, path: Path) -> None:
    if name in taken:
        raise OptionError(f"{taken[name]} and {path} would both be called {name}; choose a name with NAME=PATH")
    taken[name] = path


def _is_model(path: Path) -> bool:
    """Whether a file is a model: by its content, or by an extension that nothing else has."""
    with path.open("rb") as file:
        head = file.read(contract.HEAD_BYTES)
    codecs = [codec for codec in lookup.codecs() if path.suffix.lower() in codec.extensions]
    if any(codec.sniff(head, path.stat().st_size) is not Match.NONE for codec in codecs):
        return True
    return bool(codecs) and path.suffix.lower() != ".json"  # settings and vocabularies have this extension, too


def _plan(
    opened: dict[str | None, Opened], files: dict[str, Path], path: Path, options: PackingOptions
) -> tuple[WritePlan, int]:
    """How to write the archive, and the number of bytes of weights that are not stored again."""
    from formats.onnxzip.archive import Packing

    # Two models often have the same weights, and what is unpacked must be checked by `sha256sum`.
    packing = Packing(ArchiveOptions(options.size_threshold, options.alignment, dedup=True, sha256=True))
    losses: list[Loss] = []
    for name, model_file in opened.items():
        model, raised = raise_model(without_link(model_file.model))
        packing.pack(model, name)
        losses += losses_of_model(name, (*model_file.cautions(), *raised, *packing.losses))
        packing.losses = []
    packing.finish({name: File.open(file).span() for name, file in files.items()}, {})
    return packing.plan(path)._replace(losses=tuple(losses)), packing.shared_nbytes


def unpack(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    parents: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Unpacked:
    """Write each entry of the archive at `path` as a file into `folder`, which must be new or empty.

    The graphs are then models with external data, which `onnx.load` and onnxruntime load where they are, and
    `sha256sum -c __SHA256SUMS` checks all files. Each graph is also there with the name of its model and `.onnx`; the
    default model has the name of the archive. The archive is checked first. `parents` also makes missing folders around
    `folder`. With `overwrite`, the folder may have files in it: those with the same names are replaced after everything
    is written, and others stay. `progress` is that of `EngineOptions`.

    For example:

        >>> report = formats.convert("model.onnx", "model.onnxz")
        >>> unpacked = formats.unpack("model.onnxz", "unpacked")
        >>> formats.load("unpacked/model.onnx").graph.name
        'digits'

    Raises: FormatError if it is no archive; FileExistsError if the folder has something in it, or with `overwrite`
    something that is no file where a file belongs; other OSErrors. Then nothing is written, unless files cannot take
    their places: then the graphs are missing until the same call completes it, and so they are after a kill.
    """
    from formats.onnxzip.reader import read_contents

    source_path, target = local_path_of(path), local_path_of(folder)
    with located(source_path):
        source = _checked_archive(source_path)
        contents = read_contents(source)
    models = {_model_file(name, contents, source_path): entry for name, entry in contents.graphs.items()}
    files = [*((entry.name, entry) for entry in contents.entries()), *models.items()]
    owner = _owner(target)
    if is_left(owner):
        with suppress(HiddenFileError):  # a stranger's
            repair_interrupted(owner)
    if not (overwrite and target.is_dir()):
        _check_empty(target, files, source)
    if not parents and not target.absolute().parent.is_dir():
        raise no_directory(target.absolute().parent)
    names = [name for name, _ in files]
    _check_replaceable(target, names)
    is_there = target.is_dir()
    with (
        made_folders(target.absolute().parent),
        temporary_folder(owner) as place,  # only this user can write into it
    ):
        new = Path(place, "new")
        nbytes = _write_files(files, source, new, progress)
        if is_there:
            graphs = {*models, *(entry.name for entry in contents.graphs.values())}
            _move_into(target, new, names, graphs)
        else:
            new.rename(target)
            sync_directory(target.absolute().parent)
    return Unpacked(
        folder=target,
        nbytes=nbytes,
        models=tuple(target / name for name in models),
        files=tuple(target / entry.name for entry in contents.files),
        entries=len(contents.entries()),
        has_hashes=contents.hashes is not None,
    )


def _model_file(model: str | None, contents: Contents, archive: Path) -> str:
    """The name of the file for a model, which no entry has: only entries in folders have dots in their names."""
    if model is not None:
        return f"{model}.onnx"
    taken = {name.lower() for name in contents.graphs if name is not None}
    return f"{MODEL_NAME if archive.stem.lower() in taken else archive.stem}.onnx"


def _check_replaceable(target: Path, names: Iterable[str]) -> None:
    """Raises FileExistsError if there is something else than a file at one of these names in a folder.

    A link in place of a folder could lead out of the folder.
    """
    for name in names:
        path = target / name
        if path.is_dir():
            raise FileExistsError(errno.EEXIST, "a folder is in the way of a file", str(path))
        for folder in [*path.parents][: name.count("/")]:
            if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
                raise FileExistsError(errno.EEXIST, "it is in the way of a folder", str(folder))


def _check_empty(target: Path, files: Sequence[tuple[str, Entry]], source: Source) -> None:
    """Raises FileExistsError if there is something else than an empty folder, or what a killed `unpack` left there."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise FileExistsError(errno.EEXIST, "it is not a folder", str(target))
    if any(target.iterdir()) and not _is_begun(target, files, source):
        why = "it is not an empty folder; `overwrite=True` replaces files in it"
        raise FileExistsError(errno.EEXIST, why, str(target))


def _is_begun(target: Path, files: Sequence[tuple[str, Entry]], source: Source) -> bool:
    """Whether a folder has some of these files and nothing else, as `unpack` leaves it if it is killed."""
    payloads = {target / name: source.slice(entry.payload_offset, entry.nbytes) for name, entry in files}
    folders = {folder for path in payloads for folder in path.parents}
    found = 0
    for path in target.rglob("*"):
        if is_hidden(path.relative_to(target).parts[0]) or (path in folders and not path.is_symlink()):
            continue
        if path not in payloads or path.is_symlink() or not path.is_file() or File.open(path).span() != payloads[path]:
            return False
        found += 1
    return found < len(payloads)


def _owner(target: Path) -> Path:
    """The path whose hidden files are those of a folder: its own, or one in it if nothing can be moved into it."""
    place = Path(os.path.realpath(target))
    parent = place.parent
    if place.is_dir() and (not os.access(parent, os.W_OK) or parent.stat().st_dev != place.stat().st_dev):
        return place / "unpack"
    return place if place.name else place / "unpack"


def _move_into(target: Path, new: Path, names: Sequence[str], graphs: Collection[str]) -> None:
    """Move the files with these names into a folder, the graphs last; no link in it is followed.

    The old graphs go first: so no old graph is found with new data, wherever the process is killed.

    Raises: FileExistsError if a link is in place of a folder.
    """
    folder = Folder(target) if SYSTEM.open_folders else None
    for name in graphs:  # which are in the folder itself
        if folder is None:
            unlink(target / name)
        else:
            folder.remove(name)
    for name in sorted(names, key=lambda each: each in graphs):
        if folder is None:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            move_file(new / name, target / name)
            continue
        try:
            folder.take(new / name, name.split("/"))
        except LinkFoundError:
            raise FileExistsError(errno.EEXIST, "a link is in the way of a folder", str(target / name)) from None


def _write_files(
    files: Sequence[tuple[str, Entry]], source: Source, target: Path, progress: Callable[[int, int], None] | None
) -> int:
    """Write entries of an archive as files with these names below a folder, and return their size; all or nothing."""
    folders_of = _by_folder(files, target)
    written: list[tuple[Path, str]] = []  # folders and names: the paths of very many files take more memory
    written_bytes, nbytes = 0, sum(entry.nbytes for _, entry in files)
    with ExitStack() as folders:
        try:
            for place in sorted(folders_of, key=lambda each: (-len(each.parts), each)):  # the graphs last
                folders.enter_context(made_folders(place))
                for first in range(0, len(folders_of[place]), OPEN_AT_ONCE):
                    some = folders_of[place][first : first + OPEN_AT_ONCE]
                    payloads = ((name, source.slice(entry.payload_offset, entry.nbytes)) for name, entry in some)
                    plan = WritePlan(tuple(whole_file(place / name, payload) for name, payload in payloads))
                    execute(
                        plan, EngineOptions(progress=progress and partial_progress(progress, written_bytes, nbytes))
                    )
                    written += ((place, name) for name, _ in some)
                    written_bytes += plan.nbytes
        except BaseException:
            for place, name in written:
                with suppress(OSError):
                    (place / name).unlink()
            raise
    return nbytes


def _checked_archive(path: Path) -> Source:
    """The bytes of an archive that keeps all rules of its format.

    Raises: UnknownFormatError if it is something else; DecodeError that says which rule it breaks.
    """
    from formats.onnxzip import check

    source: Source = File.open(path).span()
    with recognised(source, path):
        codec = None
        with suppress(UnknownFormatError):  # the check says what is wrong with a damaged archive
            codec = lookup.for_reading(source.read(0, min(contract.HEAD_BYTES, source.nbytes)), source.nbytes, path)
        if codec is not None and not codec.is_archive:
            raise UnknownFormatError(f"this is {codec.title}; `unpack` is for .onnxz archives", path=path)
        source = CODEC.settled(source, path)
        check(source)
        return source


def _by_folder(files: Iterable[tuple[str, Entry]], target: Path) -> dict[Path, list[tuple[str, Entry]]]:
    """The files by the folders that they are in, each with its name there."""
    folders: dict[str, list[tuple[str, Entry]]] = {}
    for name, entry in files:
        folder, _, own_name = name.rpartition("/")
        folders.setdefault(folder, []).append((own_name, entry))
    return {target.joinpath(*folder.split("/")): files for folder, files in folders.items()}
