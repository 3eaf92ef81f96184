"""The files that belong to a model: listed, copied, moved and removed together.

A model in several files is moved by giving its data files a further name, writing the graph with the new names, and
only then removing the old graph and the old names. So whatever happens in between, the old model is whole, or the new
one, or both, and no weight is copied within a filesystem. A process that is killed in between leaves data files with
two names, which `onnx` refuses to read: to move once more completes it, or where the old graph is gone already, to
remove the old data files.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats import registry
from formats.conversion import read_model
from formats.errors import FormatError, UnsupportedError
from formats.ir import walk
from formats.onnxpb.encoder import encode
from formats.options import made
from formats.registry import READ_DEFAULTS, ReadOptions
from formats.tensordata.directory import sync_directory, unlink
from formats.tensordata.engine import EngineOptions, execute
from formats.tensordata.file import File
from formats.tensordata.further_name import OneNameError
from formats.tensordata.lock import ModelLock
from formats.tensordata.plan import FilePlan, PlacedWrite, Renamed, WritePlan, lay_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from formats.ir.model import Model
    from formats.keywords import ReadKeywords

IS_A_MODEL = "it is a model itself"
_GRAPHS = "*.onnx"  # which other tools write, too, and in which a location may be any file


class OwnFile(NamedTuple):
    """A file of a model: its path, its size in bytes, and the location by which the graph refers to it, if it does.

    `stays` says why it does not go where the model goes, and is empty where it does. `leads_to` is the file to which a
    link at `path` leads; that stays, too.
    """

    path: Path
    nbytes: int
    location: str = ""
    stays: str = ""
    leads_to: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The file in strings, numbers and `None`."""
        leads_to = None if self.leads_to is None else str(self.leads_to)
        return {**self._asdict(), "path": str(self.path), "leads_to": leads_to}


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What belongs to the model at `path`; `files` has the model first."""

    path: Path
    format: str
    files: tuple[OwnFile, ...]

    @property
    def nbytes(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.nbytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """The files in strings, numbers and lists."""
        files = [file.to_json() for file in self.files]
        return {"path": str(self.path), "format": self.format, "nbytes": self.nbytes, "files": files}


@dataclass(frozen=True, slots=True)
class Relocation:
    """What was done with the files of a model.

    `written` are the new files, the model last; `removed` those that are gone; `kept` what stays, each with the reason.
    """

    source: Path
    destination: Path | None
    written: tuple[Path, ...] = ()
    removed: tuple[Path, ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The files in strings and lists."""
        return {
            "source": str(self.source),
            "destination": None if self.destination is None else str(self.destination),
            "written": [str(path) for path in self.written],
            "removed": [str(path) for path in self.removed],
            "kept": [{"path": str(path), "reason": reason} for path, reason in self.kept],
        }


class _Opened(NamedTuple):
    """A model that was read, and what is open of it: the model file, and the data files by location."""

    listed: ModelFiles
    model: Model
    file: File
    data: Mapping[str, File]


def model_files(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,  # noqa: A002 - as in `load`
    **options: Unpack[ReadKeywords],
) -> ModelFiles:
    """The files that belong to the model at `path`, without reading a weight; `options` are those of `load`.

    Other graphs in the folder are looked into: a data file that one of them refers to, too, does not go with the model.

    Raises: FormatError where the model cannot be read; OSError where a file cannot.
    """
    return _open(Path(path), format, made(ReadOptions, options)).listed


def copy_model(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], *, overwrite: bool = False, fsync: bool | None = None
) -> Relocation:
    """What was written: the model at `src` with its data files is at `dst`, a path or a folder, as well.

    Data files that are named after the model are named after the new one. Where one is there with the same bytes, as
    that of models with common weights may be, it is used. With `overwrite`, the model at `dst` and its data files are
    replaced, but no other file.

    Raises: FormatError where the model cannot be read, or has the extension of another format at `dst`; OSError
    where the files cannot be written. Nothing was written then.
    """
    return _relocate(Path(src), Path(dst), EngineOptions(overwrite=overwrite, fsync=fsync), moves=False)


def move_model(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], *, overwrite: bool = False, fsync: bool | None = None
) -> Relocation:
    """What was done: the model at `src` with its data files is at `dst`, a path or a folder, and no longer at `src`.

    As `copy_model`, but data files only get another name where the filesystem allows that. What another graph in the
    folder refers to stays, and so does what a link leads to; the new model then has a copy, if it is in another folder.

    Raises: as `copy_model` does. Nothing was written or removed then.
    """
    with _lock(Path(src)):  # nobody else moves or removes it between reading and removing
        return _relocate(Path(src), Path(dst), EngineOptions(overwrite=overwrite, fsync=fsync), moves=True)


def remove_model(path: str | os.PathLike[str], *, all_data: bool = False) -> Relocation:
    """What was removed: the model at `path` and the data files that are named after it; with `all_data`, all of them.

    A file of any name in the folder can be what a graph calls its data, hence the names. What another graph in the
    folder refers to stays, and so does what a link leads to.

    Raises: FormatError where the model cannot be read; OSError where a file cannot be removed.
    """
    with _lock(Path(path)):
        opened = _open(Path(path), None, READ_DEFAULTS)
        listed = opened.listed
        if not all_data:
            listed = replace(listed, files=tuple(_with_reason(file, listed.path) for file in listed.files))
        opened.model.close()  # some systems do not remove a file that is open
        return Relocation(listed.path, None, removed=_remove(listed, opened), kept=tuple(_kept(listed.files)))


def _lock(path: Path) -> ModelLock:
    """The lock of a model that is there. Raises: FileNotFoundError where there is none."""
    if not os.path.lexists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return ModelLock(path)


def _with_reason(file: OwnFile, model: Path) -> OwnFile:
    if file.stays or not file.location or _is_named_after(file.path.name, model):
        return file
    return file._replace(stays="it is not named after the model; `all_data=True` removes it, too")


def _open(path: Path, format_name: str | None, reading: ReadOptions, replaced: Path | None = None) -> _Opened:
    """The model at `path` and its files; what the model at `replaced` refers to does not matter any more."""
    codec, source, model = read_model(path, format_name, reading)
    file = next(source.files())
    data: dict[str, File] = {}
    for _, tensor in walk.external_tensors(model):
        location = next((entry.value or "" for entry in tensor.external_data if entry.key == "location"), "")
        found = next(tensor.external_source.files(), None) if tensor.external_source is not None else None
        if found is not None and found != file:
            data[location] = found
    others = _other_graphs(path, {"": file, **data}, replaced)
    files = [_listed(path, file, "", others.get("", ""))]
    files += [
        _listed(path.parent / location, found, location, others.get(location, ""))
        for location, found in sorted(data.items())
    ]
    return _Opened(ModelFiles(path, codec.name, tuple(files)), model, file, data)


def _listed(path: Path, file: File, location: str, stays: str) -> OwnFile:
    leads_to = Path(os.path.realpath(path)) if path.is_symlink() else None
    if location and any(path.suffix.lower() in codec.extensions for codec in registry.built_in()):
        stays = IS_A_MODEL
    return OwnFile(path, file.nbytes, location, stays, leads_to)


def _other_graphs(path: Path, data: Mapping[str, File], replaced: Path | None) -> dict[str, str]:
    """Why files stay, by location: other graphs in the folder that refer to them, or may.

    The location of the model itself is empty: a graph can be linked to an archive.
    """
    reasons: dict[str, str] = {}
    for other in sorted(path.parent.glob(_GRAPHS)):
        if other in (path, replaced):
            continue
        try:
            _, _, model = read_model(other)
        except (FormatError, OSError):
            found, reason = set(data) - {""}, f"{other.name} cannot be read, and may refer to it, too"
        else:
            inner = (tensor.external_source for _, tensor in walk.external_tensors(model))
            used = {file.path for source in inner if source is not None for file in source.files()}
            found = {location for location, file in data.items() if file.path in used}  # not by another of its names
            reason = f"{other.name} refers to it, too"
            model.close()
        for location in found:
            reasons.setdefault(location, reason)
    return reasons


def _is_named_after(name: str, model: Path) -> bool:
    """Whether a data file has the name of its model, with or without the extension, in front."""
    return re.match(rf"{re.escape(model.stem)}([._-]|$)", name, re.IGNORECASE) is not None


def _new_name(location: str, src: Path, dst: Path) -> str:
    """The name of a data file beside the new model."""
    name = location.replace("\\", "/").rpartition("/")[2]
    if name.startswith(src.name):
        return dst.name + name[len(src.name) :]
    return dst.stem + name[len(src.stem) :] if _is_named_after(name, src) else name


def _relocate(src: Path, dst: Path, options: EngineOptions, *, moves: bool) -> Relocation:
    if dst.is_dir():
        dst = dst / src.name
    opened = _open(src, None, READ_DEFAULTS, dst)
    _check_destination(opened.listed, dst)
    in_place = dst.parent.resolve() == src.parent.resolve()
    names: dict[str, str] = {}  # of data files that the new model has beside it, by location
    for file in opened.listed.files[1:]:
        if moves and in_place and (file.stays or file.leads_to):
            continue  # where it is, the new model finds it, too
        name = _new_name(file.location, src, dst)
        while name in names.values() or (in_place and not moves and name == file.location):
            name = f"{dst.stem}.{name}"
        names[file.location] = name
    if options.overwrite:
        others = (name for location, name in names.items() if not _is_there(dst.parent / name, opened.data[location]))
        _check_replaced(dst, others, src if in_place else None)
    _refer(opened.model, names)
    written = _write(opened, dst, names, options, may_rename=moves)
    if not moves:
        return Relocation(src, dst, written)
    listed = opened.listed
    goes = [file for file in listed.files if not file.location or file.location in names]
    goes = [file for file in goes if not (in_place and file.path.name == names.get(file.location))]
    opened.model.close()  # some systems do not remove a file that is open
    removed = _remove(replace(listed, files=tuple(goes)), opened)
    return Relocation(src, dst, written, removed, tuple(_kept(listed.files)))


def _check_destination(listed: ModelFiles, dst: Path) -> None:
    """Nothing, where the model may be at `dst`: it has an extension of its format there, and weights that can follow.

    Raises: UnsupportedError otherwise; FileExistsError where `dst` is the model itself; FileNotFoundError where its
    folder does not exist.
    """
    codec = registry.by_name(listed.format)
    if dst.suffix.lower() not in codec.extensions:
        raise UnsupportedError(f"{dst.name} has no extension of {codec.title}; use `formats convert`", path=dst)
    if not dst.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such directory", str(dst.parent))
    if dst.exists() and dst.samefile(listed.path):
        raise FileExistsError(errno.EEXIST, "this is the model itself", str(dst))
    if dst.parent.resolve() != listed.path.parent.resolve():
        for file in listed.files[1:]:
            if file.stays == IS_A_MODEL:
                reason = f"its weights are in {file.path.name}, which is a model itself; use `formats convert`"
                raise UnsupportedError(f"the model cannot go to another folder: {reason}", path=listed.path)


def _check_replaced(dst: Path, names: Iterable[str], src: Path | None) -> None:
    """Nothing, where what is replaced belongs to the model at `dst`, or to `src` in the same folder.

    Raises: FileExistsError for another file: a name in a model must not replace what its owner knows nothing of.
    """
    own: set[Path] = set()
    for model in (dst, src):
        if model is not None and model.exists():
            try:
                own |= {file.path for file in _open(model, None, READ_DEFAULTS).listed.files if not file.stays}
            except FormatError:
                own.add(model)
    for name in names:
        path = dst.parent / name
        if os.path.lexists(path) and path not in own and not _is_named_after(name, dst):
            raise FileExistsError(errno.EEXIST, "it does not belong to the model that is to be replaced", str(path))


def _refer(model: Model, names: Mapping[str, str]) -> None:
    """The tensors of the model refer to data files by their new names."""
    for _, tensor in walk.external_tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names.get(entry.value or "", entry.value)


def _write(
    opened: _Opened, dst: Path, names: Mapping[str, str], options: EngineOptions, *, may_rename: bool
) -> tuple[Path, ...]:
    """The new files, the model last, each in its place."""
    files = {file.location: file for file in opened.listed.files}
    changed = any(location != name for location, name in names.items())
    data = {location: (dst.parent / name, opened.data[location]) for location, name in names.items()}
    model = _graph_plan(opened.model, dst) if changed else _whole(dst, opened.file)
    here = {
        location for location, (path, file) in data.items() if files[location].path == path or _is_there(path, file)
    }
    data = {location: place for location, place in data.items() if location not in here}
    plain = [location for location in data if not (files[location].stays or files[location].leads_to)]
    renamed = [Renamed(data[location][0], files[location].path) for location in plain] if may_rename else []
    as_it_is = not (changed or files[""].leads_to or files[""].stays)
    if renamed or (may_rename and as_it_is):
        opened.file.check_in_place()
        copied = [_whole(*data[location]) for location in data if location not in plain]
        whole = as_it_is and not copied
        last = [Renamed(dst, files[""].path)] if whole else []
        try:
            execute(WritePlan((*copied, *(() if whole else (model,)))), options, renamed=[*renamed, *last])
        except OneNameError:
            renamed = []
        else:
            return (*(path for path, _ in data.values()), dst)
    execute(WritePlan((*(_whole(*place) for place in data.values()), model)), options)
    return (*(path for path, _ in data.values()), dst)


def _graph_plan(model: Model, dst: Path) -> FilePlan:
    writes, nbytes = lay_out(encode(model))
    return FilePlan(dst, nbytes, tuple(writes))


def _is_there(path: Path, file: File) -> bool:
    """Whether the bytes of a file are at `path` already, such as those that another model has, too."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != file.nbytes:
        return False
    return File.open(path).span() == file.span()


def _whole(path: Path, file: File) -> FilePlan:
    """A copy of a file."""
    return FilePlan(path, file.nbytes, (PlacedWrite(0, file.span()),))


def _remove(listed: ModelFiles, opened: _Opened) -> tuple[Path, ...]:
    """The files that were removed: the model first, so that no graph is without its data, and what does not stay."""
    removed = []
    for file in listed.files:
        if file.stays:
            continue
        was = opened.data.get(file.location) if file.location else opened.file
        if was is not None:
            was.check_in_place()
        unlink(file.path)
        removed.append(file.path)
        if not file.location:
            sync_directory(file.path.parent)
    return tuple(removed)


def _kept(files: Sequence[OwnFile]) -> Iterator[tuple[Path, str]]:
    """What stays, and why."""
    for file in files:
        if file.stays:
            yield file.path, file.stays
        if file.leads_to is not None:
            yield file.leads_to, f"{file.path.name} was a link to it"
