"""Writes models with common weights so that each weight is stored once.

Weights are equal if their bytes are equal. Weights of several models are in a data file for exactly these models, so
that each model uses every tensor of its data files. Weights of only one model are in its own data file.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.collector import collector_paused
from formats.errors import OptionError, file_exists, no_directory
from formats.ir.archive_link import without_link
from formats.onnxpb.codecs import CODEC
from formats.onnxpb.external.data_files import ExternalLayout, check_shared_data, left_behind
from formats.onnxpb.external.model import PlacedModel, plan_files, weights_of
from formats.onnxpb.options import SAFETENSORS, OnnxOptions
from formats.options import MOST_ALIGNED_BYTES, OptionKind, make_each_options, option, settle, size, threshold_option
from formats.tensordata.engine import EngineOptions, transfer
from formats.tensordata.local.directory import made_folders
from formats.tensordata.plan import LEFT_BEHIND, Digest, WritePlan, losses_in_order
from formats.tensordata.sources.source import FileSpan, storage_key
from formats.verbs.arguments import local_path_of
from formats.verbs.choices import ReplacementOptions, check_replacement
from formats.verbs.report import (
    WrittenFile,
    fields_as_json,
    loss_lines,
    losses_of_model,
    replacement_lines,
    verdict_of_models,
    written_files,
)
from formats.verbs.steps.opening import check_key, common_permissions, model_name, open_model
from formats.verbs.steps.planning import execute_plan, is_translated, raise_model
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from formats.ir.model import Model
    from formats.keywords import ShareKeywords
    from formats.onnxpb.external.model import Weights
    from formats.tensordata.plan import Loss
    from formats.tensordata.sources.source import Source
    from formats.verbs.steps.opening import Opened

PAGE_BYTES = 4096


def _file_name(value: Any) -> str:
    if not isinstance(value, str) or value in ("", ".", "..") or set(value) & {"/", "\\", "\0"}:
        raise ValueError(value)
    return value


DATA_FILE = OptionKind("the name of a file next to the models, without a folder", _file_name, "NAME", _file_name)


@dataclass(frozen=True, slots=True)
class ShareOptions:
    """How models with common weights are written.

    `external_data`: the name of the data file with common weights; if there are several such files, they are numbered.
    `size_threshold`: tensors of at least this size in bytes are stored outside the graphs. `alignment`: each of them
    begins at a multiple of this number of bytes in its file; the default is the page size, so that it can be mapped.

    Raises: OptionError for an invalid value.
    """

    external_data: str = option(
        "shared.data",
        DATA_FILE,
        "Name the file with the weights that all models share NAME; shared.data by default.",
        common=True,
    )
    size_threshold: int = threshold_option()
    alignment: int = option(
        PAGE_BYTES, size(1, MOST_ALIGNED_BYTES), "Put each of these tensors at a multiple of SIZE; 4K by default."
    )

    def __post_init__(self) -> None:
        settle(self)
        if self.external_data.lower().endswith(SAFETENSORS):
            raise OptionError(f"`external_data` is {self.external_data!r}; `share` does not write {SAFETENSORS} files")


class DataFile(NamedTuple):
    """A data file that was written, its size in bytes, and the models that have their weights in it."""

    path: Path
    nbytes: int
    models: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """What was written: a model for each source, in their order, and the data files.

    `source_nbytes` is the size of all files of the sources, `seconds` the time that it took. `files` are all files that
    were written, the models last. `backups` are where replaced models are now, and `removed` those of their files that
    were removed.
    """

    sources: tuple[Path, ...]
    models: tuple[Path, ...]
    data_files: tuple[DataFile, ...]
    source_nbytes: int
    seconds: float
    files: tuple[WrittenFile, ...]
    verdict: str  # whether what was written computes the same, in one line
    losses: tuple[Loss, ...] = ()
    dry_run: bool = False  # the files would be written, but were not
    backups: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()

    def __str__(self) -> str:
        """What was written, whether it computes the same, and what differs, as the command prints it."""
        return "\n".join(sharing_answer(self))

    @property
    def nbytes(self) -> int:
        """The size of all files that were written, in bytes."""
        return sum(file.nbytes for file in self.files)

    @property
    def unused(self) -> tuple[Path, ...]:
        """Data files of replaced models that stay, although no graph uses them any more."""
        folder = self.models[0].parent
        return tuple(folder / loss.where for loss in self.losses if loss.kind == LEFT_BEHIND)

    @property
    def saved_nbytes(self) -> int:
        """The number of bytes that the new files save; negative if the old files were smaller."""
        return self.source_nbytes - self.nbytes

    @property
    def shared_nbytes(self) -> int:
        """The size in bytes of the data files that several models use."""
        return sum(file.nbytes for file in self.data_files if len(file.models) > 1)

    def to_json(self) -> dict[str, Any]:
        """The report as strings, numbers, lists and dictionaries."""
        return {
            "models": [
                {"source": str(source), "destination": str(model), "data_files": [*map(str, self.data_of(model))]}
                for source, model in zip(self.sources, self.models, strict=True)
            ],
            **fields_as_json(self, "data_files source_nbytes nbytes shared_nbytes saved_nbytes"),
            "seconds": round(self.seconds, 6),
            **fields_as_json(self, "files verdict losses dry_run unused backups removed"),
        }

    def data_of(self, model: Path) -> list[Path]:
        """The data files that one of the models uses."""
        return [file.path for file in self.data_files if model in file.models]


def sharing_answer(
    sharing: Sharing, more: str = "report.losses", *, every: bool = False, files: Iterable[str] = ()
) -> list[str]:
    """What was saved; whether it computes the same; what was written; then the warnings, and the notes that many see.

    `more` is where the other notes are. If `every`, each has a line as well. `files` are lines about the files.
    """
    losses = [
        loss._replace(detail=f"{loss.where}: {loss.detail}", short=f"{loss.where}: {loss.summary}")
        for loss in sharing.losses
    ]
    return [
        _saved(sharing),
        sharing.verdict,
        *_written(sharing),
        *files,
        *loss_lines(losses, more, every=every),
        *replacement_lines(sharing.backups, sharing.removed, dry_run=sharing.dry_run),
    ]


def _written(sharing: Sharing) -> Iterator[str]:
    would = "would write " * sharing.dry_run
    for source, model in zip(sharing.sources, sharing.models, strict=True):
        data = (path.name for path in sharing.data_of(model))
        yield f"{would}{source} -> {' + '.join((str(model), *data))}"


def _saved(sharing: Sharing) -> str:
    before, after = in_units(sharing.source_nbytes), in_units(sharing.nbytes)
    time = "" if sharing.dry_run else f", {sharing.seconds:.2f} s"
    models = f"{'would write ' * sharing.dry_run}{counted(len(sharing.models), 'model')}"
    if not sharing.shared_nbytes:
        return f"{models}, no weights are equal  {after}{time}"
    saved = (
        f"{in_units(sharing.saved_nbytes)} less"
        if sharing.saved_nbytes > 0
        else f"{in_units(-sharing.saved_nbytes)} more"
    )
    return f"{models}, {in_units(sharing.shared_nbytes)} shared: {after} instead of {before}, {saved}{time}"


def share(
    models: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str], **options: Unpack[ShareKeywords]
) -> Sharing:
    """Write the models as `.onnx` files in the folder `out`, with equal weights stored once; return what was written.

    Weights are equal if their bytes are equal; names, types and shapes do not matter. Weights of several models are in
    a data file for exactly these models; all others are in `NAME.onnx.data`. So a model needs only the data files that
    its graph names, and uses all their tensors. Tensors below `size_threshold` and strings stay in the
    graphs.

    The models may be in any format and in different folders; those with the same file name get the names of their
    folders in front, as in `encoder-model.onnx`. `out` is made if it is not there. With `overwrite`, all files of
    earlier models are replaced as one: after a crash the models are the old ones, the new ones or absent, and
    `formats.repair` or the same call completes it. A data file that another graph in the folder refers to is never
    replaced. `options` are those of `ShareOptions`, of `load` and of the engine (`threads`, `overwrite`, ...).

    For example:

        >>> report = formats.edit("model.onnx", "other.onnx", dim={"batch": 1})
        >>> shared = formats.share(["model.onnx", "other.onnx"], "shared")
        >>> [file.path.name for file in shared.data_files]
        ['shared.data']

    Raises: OptionError for options that are not possible, fewer than two models, and names that cannot be told apart;
    FormatError if a model cannot be read; FileExistsError if a file is in the way; other OSErrors.
    """
    started = perf_counter()
    chosen, reading, engine, replacement = make_each_options(
        (ShareOptions, ReadOptions, EngineOptions, ReplacementOptions), options
    )
    check_replacement(replacement, overwrite=engine.overwrite)
    sources, folder = [local_path_of(path) for path in models], local_path_of(out)
    if len(sources) < 2:
        raise OptionError("weights are shared between two models or more; `formats.convert` writes one")
    destinations = [folder / name for name in names_of_models(sources)]
    if not engine.overwrite and (existing := [path for path in destinations if os.path.lexists(path)]):
        raise file_exists(existing[0])
    opened = [open_model(path, None, reading, key_is_for_it=False) for path in sources]
    check_key(reading, *(model_file.codec for model_file in opened))
    with collector_paused():
        plan, users = _plan(opened, destinations, chosen, engine)
    source_nbytes = _nbytes_of(opened, sources)  # before one of them is replaced
    if not engine.parents and not folder.absolute().parent.is_dir():
        raise no_directory(folder.absolute().parent)
    with nullcontext() if engine.dry_run else made_folders(folder):
        plan, replaced = execute_plan(plan, replace(engine, parents=engine.parents or engine.dry_run), replacement)
    data_files = plan.files[: -plan.models]
    translates = any(is_translated(model_file.model, CODEC) for model_file in opened)
    return Sharing(
        sources=tuple(sources),
        models=tuple(destinations),
        data_files=tuple(DataFile(file.path, file.nbytes, users[file.path.name]) for file in data_files),
        source_nbytes=source_nbytes,
        seconds=perf_counter() - started,
        files=written_files(plan.files),
        verdict=verdict_of_models(plan.losses, is_translated=translates),
        losses=losses_in_order(plan.losses),
        dry_run=engine.dry_run,
        backups=replaced.backups,
        removed=replaced.removed,
    )


def _nbytes_of(opened: Sequence[Opened], sources: Sequence[Path]) -> int:
    """The size of all files of the models; some have the same data file."""
    files = (file for model_file, path in zip(opened, sources, strict=True) for file in model_file.files(path))
    return sum({os.path.realpath(file): file.stat().st_size for file in files}.values())


def names_of_models(sources: Sequence[Path]) -> list[str]:
    """The file names of the models in one folder: their own, with names of folders in front if necessary.

    Raises: OptionError if two names stay equal.
    """
    stems = [model_name(path) for path in sources]
    folders = [path.absolute().parent.parts[1:] for path in sources]
    names = list(stems)
    if twice := [path for number, path in enumerate(sources) if path in sources[:number]]:
        raise OptionError(f"{twice[0]} is named twice; name each model once")
    for depth in range(1, max(map(len, folders)) + 1):
        alike = [names.count(name) > 1 or _count(name, names) > 1 for name in names]
        if not any(alike):
            break
        names = [
            "-".join((*parts[-depth:], stem)) if is_alike else name
            for name, stem, parts, is_alike in zip(names, stems, folders, alike, strict=True)
        ]
    for index, name in enumerate(names):
        if _count(name, names[:index]):
            other = next(
                path for path, before in zip(sources, names, strict=True) if before.casefold() == name.casefold()
            )
            raise OptionError(
                f"{other} and {sources[index]} would both be written to {stems[index]}.onnx; rename one of them"
            )
    return [f"{name}.onnx" for name in names]


def _count(name: str, names: Sequence[str]) -> int:
    """How many of the names are equal on some systems."""
    return sum(other.casefold() == name.casefold() for other in names)


def _plan(
    opened: Sequence[Opened], destinations: Sequence[Path], options: ShareOptions, engine: EngineOptions
) -> tuple[WritePlan, dict[str, tuple[Path, ...]]]:
    """How to write all models, and the models that use each data file, by its name."""
    chosen = OnnxOptions(external_data=True, size_threshold=options.size_threshold, alignment=options.alignment)
    models: list[Model] = []
    weights: list[Weights] = []
    losses: list[Loss] = []
    for model_file, destination in zip(opened, destinations, strict=True):
        model, raised = raise_model(without_link(model_file.model))
        models.append(model)
        weights.append(weights_of(model, chosen))
        losses += losses_of_model(destination.name, (*model_file.cautions(), *raised, *weights[-1].losses))
    contents = _contents([source for of_model in weights for _, _, source in of_model.outside], engine)
    # Weights with the same users go into one data file, so that each model uses every tensor of its files.
    users: dict[object, dict[int, None]] = {}  # for each content, the numbers of the models
    first: dict[object, Source] = {}
    for number, of_model in enumerate(weights):
        for _, _, source in of_model.outside:
            content = contents[id(source)]
            users.setdefault(content, {})[number] = None
            first.setdefault(content, source)
    locations = _locations([tuple(numbers) for numbers in users.values()], destinations, options.external_data)
    outside = ExternalLayout(chosen)
    for of_model in weights:
        for _, tensor, source in of_model.outside:
            content = contents[id(source)]
            outside.add(tensor, first[content], locations[tuple(users[content])])
    placed = [
        PlacedModel(model, destination, of_model.inside)
        for model, destination, of_model in zip(models, destinations, weights, strict=True)
    ]
    placed.sort(key=lambda model: model.destination.name)
    plan = plan_files(placed, outside, losses)
    allowed = (model_file.permissions(encrypts=False) for model_file in opened)
    of_others = check_shared_data(plan, overwrite=False)
    stays = left_behind(plan, lookup.model_extensions()) if engine.overwrite and destinations[0].parent.is_dir() else ()
    plan = plan._replace(permissions=common_permissions(allowed), losses=(*plan.losses, *of_others, *stays))
    return plan, {name: tuple(destinations[number] for number in numbers) for numbers, name in locations.items()}


def _contents(sources: Sequence[Source], engine: EngineOptions) -> dict[int, object]:
    """A key for each source, by its `id`: equal keys mean equal bytes.

    Only sources whose size another source has are read, and each place only once. The keys are SHA-256, so equal keys
    need no comparison of bytes.
    """
    places = {id(source): _place(source) for source in sources}
    of_place = {places[id(source)]: source for source in sources}
    of_size: dict[int, list[tuple[object, ...]]] = {}
    for place, source in of_place.items():
        of_size.setdefault(source.nbytes, []).append(place)
    unclear = [place for alike in of_size.values() if len(alike) > 1 for place in alike]
    digests: Mapping[str, bytes] = transfer(
        WritePlan((), tuple((Digest(str(n), "sha256"), of_place[place]) for n, place in enumerate(unclear))), [], engine
    )
    for file in {file for place in unclear for file in of_place[place].files()}:
        file.check_unchanged()
    contents: dict[tuple[object, ...], object] = {
        place: (of_place[place].nbytes, digests[str(n)]) for n, place in enumerate(unclear)
    }
    return {number: contents.get(place, place) for number, place in places.items()}


def _place(source: Source) -> tuple[object, ...]:
    """The place of the bytes: equal for two models that already use the same data file."""
    if isinstance(source, FileSpan):
        return os.path.realpath(source.file.path), source.file_offset, source.nbytes
    return storage_key(source)


def _locations(
    groups: Iterable[tuple[int, ...]], destinations: Sequence[Path], shared: str
) -> dict[tuple[int, ...], str]:
    """The name of the data file for the models with these numbers.

    Raises: OptionError if it is the name of another file.
    """
    every = [*dict.fromkeys(groups)]
    several = [group for group in every if len(group) > 1]
    locations: dict[tuple[int, ...], str] = {
        group: f"{destinations[group[0]].name}.data" for group in every if len(group) == 1
    }
    name = Path(shared)
    for number, group in enumerate(several, 1):
        locations[group] = shared if len(several) == 1 else f"{name.stem}-{number}{name.suffix}"
    taken = [path.name for path in destinations]
    for location in locations.values():
        if _count(location, taken):
            raise OptionError(f"`external_data` is {shared!r}, and {location} is the name of another file")
        taken.append(location)
    return locations
