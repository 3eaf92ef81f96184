"""What becomes of a model that is replaced: it stays as a backup, or the files that nothing needs any more are removed.

A backup takes its place in the same step as the new model: its data files get further names, so no weight is copied,
and then the old names are removed. Other files are removed after the new model has its place. So a process that is
killed leaves the old model, or the new model with its backup; at worst, files stay that no graph refers to.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs.contract import EXTENSIONS
from formats.errors import FormatError, UnsupportedError
from formats.ir import walk
from formats.ir.storage import places_of
from formats.onnxpb.external.shared_data import MODELS, references, referred
from formats.onnxpb.wire.encoder import encode
from formats.tensordata.engine import execute
from formats.tensordata.file import File
from formats.tensordata.local.folder import unlink_same
from formats.tensordata.plan import USE, FilePlan, Loss, PlacedWrite, Renamed, WritePlan, lay_out
from formats.tensordata.replacing.further_name import OneNameError
from formats.tensordata.replacing.lock import ModelLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from formats.codecs.contract import Codec
    from formats.ir.model import Model
    from formats.tensordata.engine import EngineOptions

LEFT_BEHIND = "left_behind"


class Old(NamedTuple):
    """A model that will be replaced; without a `model` if it cannot be read, so that it is just a file."""

    path: Path
    file: File
    codec: Codec | None = None
    model: Model | None = None


class Replaced(NamedTuple):
    """What was done with the files of a replaced model: its backup, and the files that were removed."""

    losses: tuple[Loss, ...]
    backup: Path | None = None
    removed: tuple[Path, ...] = ()


class _Backup(NamedTuple):
    """The files that become a backup: its graph if that changes, and the old files that get further names."""

    place: Path
    graph: FilePlan | None
    renamed: tuple[Renamed, ...]
    copied: tuple[FilePlan, ...]


def backup_of(model: Path) -> Path:
    """The path of the backup of the model at this path."""
    return model.with_name(f"{model.stem}.bak{model.suffix}")


def execute_replacing(plan: WritePlan, old: Old | None, engine: EngineOptions, *, clean: bool) -> Replaced:
    """Execute a plan that replaces a model, keep the `old` one as a backup if there is one, and `clean` what it left.

    Raises: as `execute` does; UnsupportedError and FileExistsError if there can be no backup. If it raises, nothing
    was changed.
    """
    backup = None if old is None else _planned(plan, old)
    others = _Others(plan, backup)
    gone = [] if backup is None else list(_gone(plan, backup, others))
    losses = list(plan.losses)
    moved = set() if backup is None else {renamed.old for renamed in backup.renamed}
    if clean or backup:
        losses = [loss for loss in plan.losses if loss.kind != LEFT_BEHIND]
        for loss in plan.losses:
            path = plan.files[-1].path.parent / loss.where
            if loss.kind != LEFT_BEHIND or path in moved:
                continue
            reason = others.why_needed(path) if clean else "it belonged to the replaced model"
            if reason:
                losses.append(loss._replace(detail=f"{loss.where} stays: {reason}"))
            else:
                gone.append((path, File.open(path)))
    _execute(plan, backup, engine)
    removed = []
    for path, file in gone:
        if not engine.dry_run:
            try:
                unlink_same(path, file)
            except (FormatError, OSError) as error:
                words = error.message if isinstance(error, FormatError) else error.strerror
                losses.append(Loss(LEFT_BEHIND, path.name, f"{path.name} stays: {words}", USE))
                continue
        if path not in moved:
            removed.append(path)
    return Replaced(tuple(losses), None if backup is None else backup.place, tuple(removed))


def _execute(plan: WritePlan, backup: _Backup | None, engine: EngineOptions) -> None:
    if backup is None:
        execute(plan, engine)
        return
    try:
        _execute_with(plan, backup, engine)
    except OneNameError:  # the filesystem has no hard links, or a data file is on another one
        copies = tuple(FilePlan(each.path, each.file.nbytes, _all_of(each.file)) for each in backup.renamed)
        _execute_with(plan, backup._replace(renamed=(), copied=(*backup.copied, *copies)), engine)


def _execute_with(plan: WritePlan, backup: _Backup, engine: EngineOptions) -> None:
    companions, models = plan.files[: -plan.models], plan.files[-plan.models :]
    graph = () if backup.graph is None else (backup.graph,)
    files = (*backup.copied, *companions, *graph, *models)
    with ExitStack() as stack:
        if not engine.dry_run:
            stack.enter_context(ModelLock(backup.place))  # before that of the model: in the order of names
        execute(plan._replace(files=files, models=plan.models + len(graph)), engine, renamed=backup.renamed)


def _planned(plan: WritePlan, old: Old) -> _Backup:
    """The backup of the old model.

    Raises: UnsupportedError if there can be none; FileExistsError if another model needs a file in its place.
    """
    path, place = old.path, backup_of(old.path)
    if path.is_symlink():
        raise UnsupportedError("this is a link, of which there is no backup; name the file that it leads to", path=path)
    data = {} if old.model is None else _data_of(old.model, old.file)
    written = {file.path.name for file in plan.files}
    needed = {name for graph in _graphs(path.parent, {path, place}) for name in referred(graph)}
    names: dict[str, str] = {}
    for location in sorted(data):
        is_model = Path(location).suffix.lower() in EXTENSIONS()
        is_replaced = os.path.normpath(location) in written
        if is_replaced or not (is_model or os.path.normpath(location) in needed or _is_link(path, location)):
            names[location] = _name_beside(location, path, place, names.values())
    for name in (place.name, *names.values()):
        if name in written:
            raise UnsupportedError(f"{name} would be both a backup and a part of the new model", path=path)
        if name in needed:
            reason = "another graph uses it, so it cannot become a part of the backup"
            raise FileExistsError(errno.EEXIST, reason, str(path.with_name(name)))
    if not names:
        return _Backup(place, None, (Renamed(place, old.file, path),), ())
    copied = [location for location in names if _is_link(path, location)]
    renamed = (
        Renamed(path.with_name(names[location]), data[location], path.parent / location)
        for location in names
        if location not in copied
    )
    copies = (
        FilePlan(path.with_name(names[location]), data[location].nbytes, _all_of(data[location])) for location in copied
    )
    return _Backup(place, _graph(old, place, names), tuple(renamed), tuple(copies))


def _data_of(model: Model, own: File) -> dict[str, File]:
    """The data files of a model, by location."""
    found: dict[str, File] = {}
    for _, tensor in walk.external_tensors(model):
        file = None if tensor.external_source is None else next(tensor.external_source.files(), None)
        if file is not None and file != own:
            found[places_of(tensor).get("location", "")] = file
    return found


def _is_link(model: Path, location: str) -> bool:
    """Whether a data file is a link, or a link leads to its folder."""
    return Path(os.path.realpath(model.parent / location)) != Path(os.path.realpath(model.parent), location)


def _name_beside(location: str, model: Path, place: Path, taken: Iterable[str]) -> str:
    """The name of a data file next to the backup at `place`: it begins with the name of the backup."""
    name = location.replace("\\", "/").rpartition("/")[2]
    if name.startswith(model.name):
        name = place.name + name[len(model.name) :]
    elif name.startswith((f"{model.stem}.", f"{model.stem}-", f"{model.stem}_")):
        name = place.stem + name[len(model.stem) :]
    else:
        name = f"{place.stem}.{name}"
    while name in taken:
        name = f"{place.stem}.{name}"
    return name


def _graph(old: Old, place: Path, names: Mapping[str, str]) -> FilePlan:
    """The graph of the backup, which refers to its data files by their new names."""
    assert old.model is not None
    assert old.codec is not None
    for _, tensor in walk.external_tensors(old.model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names.get(entry.value or "", entry.value)
    if old.codec.name == "onnx":
        writes, nbytes = lay_out(encode(old.model))
        return FilePlan(place, nbytes, tuple(writes))
    return old.codec.plan(old.model, place, old.codec.options()).files[-1]


def _all_of(file: File) -> tuple[PlacedWrite, ...]:
    return (PlacedWrite(0, file.span()),)


def _gone(plan: WritePlan, backup: _Backup, others: _Others) -> Iterator[tuple[Path, File]]:
    """The old names of files that have names in the backup, and the files of an older backup that is replaced."""
    written = {file.path for file in plan.files}
    yield from ((each.old, each.file) for each in backup.renamed if each.old not in written)
    new = {each.path for each in backup.renamed} | {each.path for each in backup.copied}
    for name in sorted(referred(backup.place)) if backup.place.is_file() else ():
        path = backup.place.with_name(name)
        own = name.startswith((f"{backup.place.stem}.", f"{backup.place.stem}-", f"{backup.place.stem}_"))
        if own and path not in new | written and path.is_file() and not others.why_needed(path):
            yield path, File.open(path)


def _graphs(folder: Path, but: Iterable[Path]) -> list[Path]:
    """The graphs in a folder, without some of them."""
    without = {*but}
    return [
        path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in MODELS and path not in without and path.is_file()
    ]


class _Others:
    """The graphs next to data files that may need them: all but those that are written."""

    def __init__(self, plan: WritePlan, backup: _Backup | None) -> None:
        self._own = {file.path for file in plan.files} | ({backup.place} if backup else set())

    def why_needed(self, path: Path) -> str:
        """Why a data file stays; empty if no graph in its folder, or in that of the model, needs it."""
        model = next(iter(self._own))
        if path.is_symlink() or not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(model.parent)):
            return "it is a link, or in a folder to which a link leads"
        for folder in dict.fromkeys((model.parent, path.parent)):
            for graph in _graphs(folder, self._own):
                try:
                    found = references(graph)
                except (FormatError, OSError):
                    return f"{graph.name} cannot be read, and may use it"
                if any(_is_same(folder / name, path) for name in found):
                    return f"{graph.name} uses it"
        return ""


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False
