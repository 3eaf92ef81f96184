"""What becomes of models that are replaced: they stay as backups, or the files that nothing needs any more are removed.

A backup takes its place in the same step as the new model: its data files get further names, so no weight is copied,
and then the old names are removed. Other files are removed after the new model has its place. So a process that is
killed leaves the old model, or the new model with its backup; at worst, files stay that no graph refers to.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import READ_DEFAULTS
from formats.errors import FormatError, TensorDataError, UnsupportedError
from formats.ir import walk
from formats.ir.storage import external_places
from formats.onnxpb.external.confinement import DataFiles
from formats.onnxpb.external.other_graphs import OtherGraphs, note_written, referred
from formats.tensordata.engine import execute
from formats.tensordata.file import AbsentFile, File
from formats.tensordata.interrupted import owner_of
from formats.tensordata.local.directory import unlink_same
from formats.tensordata.plan import FilePlan, PlacedWrite, Renamed, WritePlan
from formats.tensordata.replacing.further_name import OneNameError
from formats.tensordata.replacing.hidden import hidden_path
from formats.tensordata.replacing.lock import is_locked, locked_together
from formats.tensordata.replacing.publication import finish_interrupted
from formats.verbs.steps.opening import open_model

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from formats.codecs.contract import Codec
    from formats.ir.model import Model
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.sources.source import Source

BELONGED = "it belonged to the replaced model"


class OldModel(NamedTuple):
    """A model that will be replaced; without a `model` if it cannot be read, so that it is just a file."""

    path: Path
    file: File
    codec: Codec | None = None
    model: Model | None = None


class Replaced(NamedTuple):
    """What was done with the files of replaced models: `stays` has files that stay, and why."""

    stays: tuple[tuple[Path, str], ...] = ()
    backups: tuple[Path, ...] = ()
    backup_files: frozenset[Path] = frozenset()
    removed: tuple[Path, ...] = ()

    @property
    def backup(self) -> Path | None:
        """Where the replaced model is now, if it is the only one."""
        return next(iter(self.backups), None)


class _Backup(NamedTuple):
    """The files that become backups: graphs that change, and the old files that get further names or are copied."""

    places: tuple[Path, ...] = ()
    graphs: tuple[FilePlan, ...] = ()
    renamed: tuple[Renamed, ...] = ()
    copied: tuple[FilePlan, ...] = ()

    @property
    def files(self) -> frozenset[Path]:
        """The paths of all files of the backups."""
        return frozenset((*self.places, *(new.path for new in self.renamed), *(new.path for new in self.copied)))


class Work(NamedTuple):
    """What is written: a plan, and files that get further names, the model last if the plan has no files."""

    plan: WritePlan
    renamed: tuple[Renamed, ...] = ()

    @property
    def paths(self) -> list[Path]:
        """The paths of all files, the models last."""
        return [*(renamed.path for renamed in self.renamed), *(file.path for file in self.plan.files)]

    @property
    def models(self) -> list[Path]:
        """The paths of the models."""
        return self.paths[-self.plan.models :]

    def in_files(self) -> Work:
        """The same with copies in place of further names."""
        return Work(self.plan._replace(files=(*map(_copy, self.renamed), *self.plan.files)))


def backup_of(model: Path) -> Path:
    """The path of the backup of the model at this path."""
    return model.with_name(f"{model.stem}.bak{model.suffix}")


def old_model(path: Path) -> OldModel:
    """The model at `path`, which will be replaced; its data files may be missing, and what is no model is one file.

    Raises: OSError or TensorDataError if a file cannot be read: then nobody knows which data files the model has.
    """
    try:
        opened = open_model(path, options=replace(READ_DEFAULTS, allow_absent=True))
    except TensorDataError as error:
        raise TensorDataError(f"there can be no backup of {path.name}: {error.message}", path=error.path) from error
    except FormatError:
        return OldModel(path, File.open(path))
    return OldModel(path, next(opened.source.files()), opened.codec, opened.model)


def is_written(plan: FilePlan) -> bool:
    """Whether the bytes of a plan are already at its path."""
    if plan.path.is_symlink() or not plan.path.is_file() or plan.path.stat().st_size != plan.nbytes:
        return False
    there = File.open(plan.path).span()
    return all(there.slice(write.file_offset, write.source.nbytes) == write.source for write in plan.writes)


def execute_replacing(
    work: Work,
    engine: EngineOptions,
    *,
    old: Sequence[OldModel] = (),
    left: Iterable[Path] = (),
    clean: bool = False,
    goes: Collection[Path] = (),
) -> Replaced:
    """Do work that replaces models, keep the `old` ones as backups, and `clean` what is `left` of them.

    If the filesystem cannot give a file a further name, it is copied. The graphs at `goes`, which the caller has
    locked, will be removed.

    Raises: as `execute` does; UnsupportedError and FileExistsError if there can be no backup. If it raises, nothing
    was changed.
    """
    if not engine.dry_run:
        _finish_sharing(work, engine)
    backup = _planned_backup(work, old, goes) if old else _Backup()
    moved = {renamed.old for renamed in backup.renamed}  # their old names go; the files stay, as backups
    left = [path for path in left if path not in moved]
    stays = [] if clean else [(path, BELONGED) for path in left]
    gone = [(path, File.open(path)) for path in left if clean and path.is_file()]
    folder = work.models[-1].parent
    gone += _gone(work, backup, {*work.paths, *backup.places, *goes})
    _execute(work, backup, engine)
    note_written([*work.models, *backup.places])
    # In a dry run, the old graphs are still there, and must not keep their data files.
    ignored = {*backup.places, *goes, *(work.paths if engine.dry_run else ())}
    others = _Others(folder, ignored, [path for path, _ in gone])  # another process may have written one meanwhile
    removed = []
    with ExitStack() as stack:
        reason = _lock(stack, work, gone, engine)
        for path, file in gone:
            why = reason or others.why_needed(path) or _removed(path, file, engine)
            if why:
                stays.append((path, why))
            elif path not in moved:
                removed.append(path)
    return Replaced(tuple(stays), backup.places, backup.files, tuple(removed))


def _finish_sharing(work: Work, engine: EngineOptions) -> None:
    """Finish the interrupted write of models that were written together with one of these; the engine does the others.

    A killed process leaves its locks, so that without the file of one, nobody needs to search.
    """
    for path in work.models:
        if os.path.lexists(hidden_path(path, "lock")) and not is_locked(path):
            owner = owner_of(path)
            if owner is not None and owner != path:
                finish_interrupted(owner, overwrite=engine.overwrite, capabilities=engine.capabilities)


def _lock(stack: ExitStack, work: Work, gone: Collection[object], engine: EngineOptions) -> str:
    """Let no other process write the models while files are removed; if another one does, the reason why they stay."""
    try:
        if gone and not engine.dry_run:
            stack.enter_context(locked_together(work.models))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _removed(path: Path, file: File, engine: EngineOptions) -> str:
    """Remove a file, except in a dry run; why it stays if that is not possible."""
    try:
        if not engine.dry_run:
            unlink_same(path, file)
    except (FormatError, OSError) as error:
        return error.message if isinstance(error, FormatError) else error.strerror or str(error)
    return ""


def _execute(work: Work, backup: _Backup, engine: EngineOptions) -> None:
    try:
        _execute_with(work, backup, engine)
    except OneNameError:  # the filesystem has no hard links, or a file is on another one
        copies = (*backup.copied, *map(_copy, backup.renamed))
        _execute_with(work.in_files(), backup._replace(renamed=(), copied=copies), engine)


def _execute_with(work: Work, backup: _Backup, engine: EngineOptions) -> None:
    if backup.graphs and not work.plan.files:  # models that are written together all come last
        *data, model = work.renamed
        work = Work(work.plan._replace(files=(_copy(model),)), tuple(data))
    plan, renamed = work
    companions, models = plan.files[: -plan.models], plan.files[-plan.models :]
    plan = plan._replace(
        files=(*backup.copied, *companions, *backup.graphs, *models), models=plan.models + len(backup.graphs)
    )
    several = {*backup.places, *work.models}
    if engine.dry_run or len(several) == 1:  # the engine locks a single model itself, and later
        several = set()
    with locked_together(several):
        execute(plan, engine, renamed=(*backup.renamed, *renamed))


def whole_file(path: Path, source: Source) -> FilePlan:
    """A file whose content is a source."""
    return FilePlan(path, source.nbytes, (PlacedWrite(0, source),) if source.nbytes else ())


def _copy(renamed: Renamed) -> FilePlan:
    return whole_file(renamed.path, renamed.file.span())


def _planned_backup(work: Work, old_models: Sequence[OldModel], goes: Collection[Path]) -> _Backup:
    """The backups of old models, which are in one folder.

    Raises: UnsupportedError if there can be none; FileExistsError if another model needs a file in its place.
    """
    folder = old_models[0].path.parent
    places = [backup_of(old.path) for old in old_models]
    written = {os.path.relpath(path, folder) for path in work.paths}
    others = OtherGraphs(folder, {*(old.path for old in old_models), *places, *work.models, *goes})
    data_of_each = [_data_of(old) for old in old_models]
    references = [
        graph.references() for graph in others.naming([folder / name for data in data_of_each for name in data])
    ]
    needed = {location for locations in references for location in locations or ()}
    of_new_model = {*(renamed.old for renamed in work.renamed), *work.plan.used}  # these must not have more names
    names: dict[str, str] = {}  # of data files beside the backups, by location
    graphs: list[FilePlan] = []
    renamed_files: list[Renamed] = []
    copied: list[FilePlan] = []

    def keep(path: Path, file: File, place: Path, *, is_link: bool = False) -> None:
        """Give an old file a further name, or copy it."""
        renamed = Renamed(place, file, path)
        if is_link or path in of_new_model or None in references:  # a graph that cannot be read may need the old name
            copied.append(_copy(renamed))
        else:
            renamed_files.append(renamed)

    taken: set[str] = set()
    for old, place, data in zip(old_models, places, data_of_each, strict=True):
        if old.path.is_symlink():
            reason = "this is a link, of which there is no backup; name the file that it leads to"
            raise UnsupportedError(reason, path=old.path)
        # A data file that is not replaced stays where it is if something else needs it: the backup goes on using it.
        moving = [
            location
            for location in data
            if location in written or not (_is_model(location) or location in needed or _is_link(old.path, location))
        ]
        for location in moving:
            if location in names:  # an earlier model has the same data file
                continue
            names[location] = _name_beside(location, old.path, place, taken)
            taken.add(names[location])
            file = data[location]
            if file is not None:  # a missing one only has a name, so that no new file is mistaken for it
                keep(folder / location, file, folder / names[location], is_link=_is_link(old.path, location))
        if moving:
            graphs.append(_graph(old, place, names))
        else:
            keep(old.path, old.file, place)
    needed = _needed(others, [folder / name for name in names.values()])
    needed |= {place.name for old, place in zip(old_models, places, strict=True) if _is_linked(old, place, others)}
    _check_names([*(place.name for place in places), *names.values()], old_models[0].path, written, needed)
    return _Backup(tuple(places), tuple(graphs), tuple(renamed_files), tuple(copied))


def _check_names(names: Sequence[str], model: Path, written: Collection[str], needed: Collection[str]) -> None:
    """Raises an error if a file of a backup of the model has the name of a new one, or of one that a graph needs."""
    for name in names:
        if name in written:
            raise UnsupportedError(f"{name} would be both a backup and a part of the new model", path=model)
        if name in needed:
            reason = "another graph uses it, so it cannot become a part of the backup"
            raise FileExistsError(errno.EEXIST, reason, str(model.parent / name))


def _is_model(location: str) -> bool:
    """Whether a data file is itself a model, by its name."""
    return Path(location).suffix.lower() in lookup.model_extensions()


def _is_linked(old: OldModel, place: Path, others: OtherGraphs) -> bool:
    """Whether graphs are linked to the older backup of an archive."""
    is_archive = old.codec is not None and old.codec.is_archive
    return is_archive and os.path.lexists(place) and bool(others.linked(place))


def _needed(others: OtherGraphs, files: Collection[Path]) -> set[str]:
    """The locations to which graphs refer that may mean one of the files."""
    return {location for graph in others.naming(files) for location in referred(graph.path)}


def _data_of(old: OldModel) -> dict[str, File | None]:
    """The data files of an old model, by location, in the order of locations; `None` for those that are missing."""
    data: dict[str, File | None] = {}
    for _, tensor in walk.external_tensors(old.model) if old.model is not None else ():
        file = None if tensor.external_source is None else next(tensor.external_source.files(), None)
        location = os.path.normpath(external_places(tensor).get("location", ""))
        if isinstance(file, AbsentFile):
            data[location] = None
            with suppress(FormatError):  # a file that is too short for the model is kept, too
                data[location] = DataFiles(old.path).open(location)
        elif file is not None and file != old.file:
            data[location] = file
    return dict(sorted(data.items()))


def _is_link(model: Path, location: str) -> bool:
    """Whether a data file is a link, or a link leads to its folder."""
    return Path(os.path.realpath(model.parent / location)) != Path(os.path.realpath(model.parent), location)


def is_named_after(name: str, model: Path) -> bool:
    """Whether the name of a data file begins with the name of its model, with or without the extension."""
    return re.match(rf"{re.escape(model.stem)}([._-]|$)", name, re.IGNORECASE) is not None


def renamed_with(location: str, old: Path, new: Path) -> str:
    """The name of a data file when its model, `old`, becomes `new`: if it is named after the model, it follows it."""
    name = location.replace("\\", "/").rpartition("/")[2]
    if name.startswith(old.name):
        return new.name + name[len(old.name) :]
    return new.stem + name[len(old.stem) :] if is_named_after(name, old) else name


def _name_beside(location: str, model: Path, backup: Path, taken: Collection[str]) -> str:
    """The name of a data file next to the backup of its model: it begins with the name of the backup."""
    name = renamed_with(location, model, backup)
    while name in taken or not is_named_after(name, backup):
        name = f"{backup.stem}.{name}"
    return name


def _graph(old: OldModel, place: Path, names: Mapping[str, str]) -> FilePlan:
    """The graph of the backup, which refers to its data files by their new names."""
    assert old.model is not None
    assert old.codec is not None
    return old.codec.plan_graph(old.model, place, lambda location: names.get(os.path.normpath(location)))


def _gone(work: Work, backup: _Backup, ignored: Collection[Path]) -> Iterator[tuple[Path, File]]:
    """The old names of files that have names in a backup, and the files of older backups that are replaced.

    What a graph needs, other than those that are ignored, stays.
    """
    written = {*work.paths}
    yield from ((renamed.old, renamed.file) for renamed in backup.renamed if renamed.old not in written)
    kept = backup.files | written
    of_older_backups: dict[Path, None] = {}
    for place in backup.places:
        for name in sorted(referred(place)) if place.is_file() else ():
            path = place.with_name(name)
            is_of_backup = any(is_named_after(name, new) for new in backup.places)
            if is_of_backup and path not in kept and path.is_file():
                of_older_backups[path] = None
    others = _Others(work.models[-1].parent, ignored, of_older_backups)
    yield from ((path, File.open(path)) for path in of_older_backups if not others.why_needed(path))


class _Others:
    """The graphs in the folder of a model, and in those of its data files, that may need data files."""

    def __init__(self, folder: Path, ignored: Collection[Path], files: Collection[Path]) -> None:
        self.folder = folder
        folders = dict.fromkeys((folder, *(path.parent for path in files))) if files else ()
        self._naming = {place: OtherGraphs(place, ignored).naming(files) for place in folders}
        self._references: dict[Path, set[str] | None] = {}

    def why_needed(self, path: Path) -> str:
        """Why one of the files stays; empty if no graph in its folder, or in that of the model, needs it."""
        if path.is_symlink() or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.folder)):
            return "it is a link, or in a folder to which a link leads"
        for folder in dict.fromkeys((self.folder, path.parent)):
            for graph in self._naming[folder]:
                if graph.path not in self._references:
                    self._references[graph.path] = graph.references()
                references = self._references[graph.path]
                if references is None:
                    return f"{graph.path.name} cannot be read, and may use it"
                if any(_is_same(folder / name, path) for name in references):
                    return f"{graph.path.name} uses it"
        return ""


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False
