"""Copies, moves or removes a model together with its data files.

A model in several files that moves within its folder changes its names as several files take their places: a journal
comes first, and any process that finds it completes or undoes the move. No tool finds data files with two names.

It is moved to another folder by giving its data files a further name, writing the graph with the new names, and only
then removing the old graph and the old names: a journal may not name another folder. So at any time, the old model, the
new model, or both are complete, and no weight is copied within a filesystem. A process that is killed in between leaves
data files with two names, which `onnx` refuses to read. Then the same move again completes it.
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import HEAD_BYTES, READ_DEFAULTS
from formats.errors import DecodeError, FormatError, TensorDataError, UnsupportedError, no_directory
from formats.onnxpb.external.other_graphs import note_written
from formats.options import SWITCH, make_each_options, names_of, option, progress_option, settle
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import File
from formats.tensordata.interrupted import owner_of
from formats.tensordata.local.directory import made_folders, move_file, sync_directory, unlink, unlink_same
from formats.tensordata.local.osio import Located
from formats.tensordata.plan import OWNER_ACCESS, Permissions, Renamed, WritePlan
from formats.tensordata.replacing.hidden import hidden_path, open_hidden
from formats.tensordata.replacing.lock import locked_together
from formats.tensordata.replacing.publication import is_left
from formats.verbs.arguments import local_path_of
from formats.verbs.choices import ReplacementOptions, check_replacement
from formats.verbs.inspect import tolerant
from formats.verbs.model_files import IS_A_MODEL, open_files
from formats.verbs.repair import check_finished, finish
from formats.verbs.report import WrittenFile, fields_as_json
from formats.verbs.steps.replacement import (
    Work,
    backup_of,
    execute_replacing,
    is_named_after,
    is_written,
    old_model,
    renamed_with,
    whole_file,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from typing_extensions import Unpack

    from formats.keywords import RelocationKeywords
    from formats.tensordata.plan import FilePlan
    from formats.verbs.model_files import ModelFiles, OpenedFiles, OwnFile
    from formats.verbs.steps.replacement import Replaced

LEFT = "it belonged to the replaced model; remove it if nothing else needs it, or next time use `clean=True`"


@dataclass(frozen=True, slots=True)
class RelocationOptions:
    """How a model is copied or moved to another path.

    `overwrite`: the model at the destination and its data files are replaced, but no other files. `parents`: missing
    folders around the destination are made. `dry_run`: nothing is changed, but anything that would prevent the change
    is an error. `fsync`: whether the files are certainly on the disk at the end. `progress` is that of `EngineOptions`.

    Raises: OptionError for an invalid value.
    """

    overwrite: bool = option(
        False,
        SWITCH,
        "Replace the model at DST and its data files, but no other files.",
        short="-f",
        flag="--force",
        common=True,
    )
    parents: bool = option(False, SWITCH, "Make missing parent folders.", common=True)
    dry_run: bool = option(False, SWITCH, "Change nothing; say what would be done.", short="-n", common=True)
    fsync: bool | None = option(None, SWITCH, "Force files to disk; by default only files that replace others.")
    progress: Callable[[int, int], None] | None = progress_option()

    def __post_init__(self) -> None:
        settle(self)


@dataclass(frozen=True, slots=True)
class Relocation:
    """What was changed in the files of a model.

    `written` are the new files, the model last; `removed` the removed files of the model; `kept` the files that stay,
    each with the reason. If another model was replaced, `backup` is where it is now, and `cleaned` are those of its
    files that were removed. For a `dry_run`, these changes would be made.
    """

    source: Path
    destination: Path | None
    written: tuple[WrittenFile, ...] = ()
    removed: tuple[Path, ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()
    dry_run: bool = False
    backup: Path | None = None
    cleaned: tuple[Path, ...] = ()

    @property
    def nbytes(self) -> int:
        """The size of the new files together, in bytes."""
        return sum(file.nbytes for file in self.written)

    def to_json(self) -> dict[str, Any]:
        """The files in strings and lists."""
        return {
            **fields_as_json(self, "source destination written removed"),
            "kept": [{"path": str(path), "reason": reason} for path, reason in self.kept],
            **fields_as_json(self, "dry_run backup cleaned"),
        }


def cp(src: str | os.PathLike[str], dst: str | os.PathLike[str], **options: Unpack[RelocationKeywords]) -> Relocation:
    """Copy the model at `src` with its data files to `dst`, a path or a folder.

    Data files that are named after the model are renamed with it. If a file with the same bytes is there, such as
    a data file of models with common weights, it is used. With `overwrite`, the model at `dst` and its data files are
    replaced, but no other file. With `parents`, folders around `dst` are made. With `dry_run`, nothing is written.
    `ReplacementOptions` say what becomes of a replaced model.

    For example:

        >>> copied = formats.cp("model.onnx", "copies/model.onnx", parents=True)
        >>> [file.path.name for file in copied.written]
        ['model.onnx']

    Raises: FormatError if the model cannot be read, or has the extension of another format at `dst`; OSError
    if the files cannot be written. If it raises, nothing was written.
    """
    return _relocate(_request(src, dst, options, moves=False))


def mv(src: str | os.PathLike[str], dst: str | os.PathLike[str], **options: Unpack[RelocationKeywords]) -> Relocation:
    """Move or rename the model at `src` with its data files to `dst`, a path or a folder.

    Data files are only renamed if the filesystem allows it, and copied otherwise. A data file that another graph in the
    folder uses stays, and so does the target of a link; the new model then has a copy if it is in another folder.

    For example:

        >>> report = formats.convert("model.onnx", "old.onnx", external_data=True)
        >>> moved = formats.mv("old.onnx", "new.onnx")
        >>> [file.path.name for file in moved.written]
        ['new.onnx.data', 'new.onnx']

    Raises: as `cp` does, and FormatError if another graph in the folder cannot be read, because it may use the
    same data. If it raises, nothing was written or removed.
    """
    request = _request(src, dst, options, moves=True)
    begun = owner_of(request.src)  # where a move that was killed goes
    if not request.engine.dry_run:
        finish(request.src)
    if not os.path.lexists(request.src) and (done := _rest_of_move(request, begun)):
        return done
    return _relocate(request)


class _Request(NamedTuple):
    """What `cp` or `mv` was called for; both are full paths of a model."""

    src: Path
    dst: Path
    moves: bool
    engine: EngineOptions
    replacement: ReplacementOptions


def _request(
    src: str | os.PathLike[str], dst: str | os.PathLike[str], keywords: Mapping[str, Any], *, moves: bool
) -> _Request:
    """The request of a call. Raises: OptionError for a wrong one."""
    relocation, replacement = make_each_options((RelocationOptions, ReplacementOptions), keywords)
    check_replacement(replacement, overwrite=relocation.overwrite)
    engine = EngineOptions(**{name: getattr(relocation, name) for name in names_of(RelocationOptions)})
    source = local_path_of(src)
    return _Request(source, _place(dst, source), moves, engine, replacement)


def rm(path: str | os.PathLike[str], *, all_data: bool = False, dry_run: bool = False) -> Relocation:
    """Remove the model at `path` and the data files that are named after it; with `all_data`, all its data files.

    A graph can name any file in the folder as its data, so by default the names must match. A data file that another
    graph in the folder uses stays, and so does the target of a link. With `dry_run`, nothing is removed. A model whose
    data files are missing or too short can be removed, too. If the process is killed, the same call completes it.

    For example:

        >>> report = formats.convert("model.onnx", "old.onnx", external_data=True)
        >>> [path.name for path in formats.rm("old.onnx").removed]
        ['old.onnx', 'old.onnx.data']

    Raises: FormatError if the model cannot be read, or if another graph in the folder cannot and may use the same data,
    without `all_data`; OSError if a file cannot be removed.
    """
    return remove(local_path_of(path), all_data=all_data, dry_run=dry_run)


def remove(path: Path, *, all_data: bool = False, dry_run: bool = False, gone: Collection[Path] = ()) -> Relocation:
    """Do what `rm` does, in a dry run as if the models at `gone` were already removed.

    Raises: as `rm` does.
    """
    if path in gone:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    try:
        os.lstat(path)
    except FileNotFoundError:
        is_begun = is_left(path) or os.path.lexists(hidden_path(path, "removed"))
        if not (is_begun or owner_of(path)):
            raise
    with ExitStack() as locks:
        if not (dry_run or path.is_dir()):  # what reads a folder explains it
            finish(path)
            if locks.enter_context(locked_together([path])):
                check_finished(path)
        done = _rest_of_removal(path, all_data=all_data, dry_run=dry_run)
        if done and not os.path.lexists(path):
            return done
        opened = open_files(path, None, tolerant(READ_DEFAULTS), gone, trusts_unread=all_data)
        return _removal(path, opened, all_data=all_data, dry_run=dry_run)


def _rest_of_removal(path: Path, *, all_data: bool, dry_run: bool) -> Relocation | None:
    """Remove the data files of a graph that a killed removal put aside; nobody else changes the model at `path`.

    Raises: HiddenFileError if the graph that was put aside may not be followed; as `rm` does.
    """
    graph = hidden_path(path, "removed")
    if not os.path.lexists(graph):
        return None
    file = open_hidden(graph)
    codec = lookup.for_reading(file.pread(0, min(HEAD_BYTES, file.nbytes)), file.nbytes, path)
    file.close()
    opened = open_files(graph, codec.name, tolerant(READ_DEFAULTS), trusts_unread=all_data)
    return _removal(path, opened, all_data=all_data, dry_run=dry_run)


def _removal(path: Path, opened: OpenedFiles, *, all_data: bool, dry_run: bool) -> Relocation:
    """Remove the opened files of the model at `path`, except in a dry run."""
    _check_all_read(opened, "repair or remove that file, or use `all_data=True` to remove the data anyway")
    files = [file for file in opened.listed.files if not file.missing or file.stays or file.location in opened.data]
    for number, file in enumerate(files if not all_data else ()):
        if not file.stays and file.location and not is_named_after(file.path.name, path):
            files[number] = file._replace(stays="it is not named after the model; `all_data=True` removes it anyway")
    opened.model.close()  # some systems do not remove a file that is open
    graph, *data = files
    removed = tuple(path if file is graph else file.path for file in files if not file.stays)
    has_one_name = not graph.leads_to and graph.path.stat().st_nlink == 1  # only then may a later process follow it
    if has_one_name and not (dry_run or graph.stays or all(file.stays for file in data)):
        _remove_with_data(path, data, opened)
    else:
        _remove((*data, graph), opened, dry_run)
    note_written(removed)
    return Relocation(path, None, removed=removed, kept=tuple(_kept(files)), dry_run=dry_run)


def _remove_with_data(path: Path, data: Sequence[OwnFile], opened: OpenedFiles) -> None:
    """Put the graph aside, remove the data files and then the graph: no tool finds a graph without its data."""
    aside = hidden_path(path, "removed")
    opened.file.check_in_place()
    if opened.file.path != aside:
        move_file(path, aside)
        sync_directory(path.parent)
    _remove(data, opened, dry_run=False)
    sync_directory(path.parent)
    unlink_same(aside, opened.file)


def finish_removal(path: Path) -> tuple[Path, ...]:
    """Remove what a killed `rm` of the model at `path` left; the files that were removed.

    Raises: as `rm` does.
    """
    with locked_together([path]):
        done = _rest_of_removal(path, all_data=False, dry_run=False)
        return done.removed if done else ()


def _check_all_read(opened: OpenedFiles, remedy: str) -> None:
    """Raises TensorDataError if another graph in the folder cannot be read, and may use data files of the model."""
    if opened.unread is not None:
        data = next(file.path.name for file in opened.listed.files if file.location)
        text = f"it cannot be read, so it may use {data}, as {opened.listed.path.name} does; {remedy}"
        raise TensorDataError(text, path=opened.unread)


def _opened(request: _Request) -> OpenedFiles:
    """The model, which can be at its destination. Raises: what `_check_destination` and `_check_all_read` do."""
    opened = open_files(request.src, None, READ_DEFAULTS, (request.dst,), alone=not request.moves)
    _check_destination(opened.listed, request.dst, parents=request.engine.parents, moves=request.moves)
    _check_all_read(opened, "repair or remove that file first, or copy the model with `formats cp`")
    return opened


def _relocate(request: _Request) -> Relocation:
    """Copy or move the model, with locks on it, on what it replaces and on the backup."""
    opened = _opened(request)
    src, dst, moves, engine, replacement = request
    if engine.dry_run:
        return _relocated(request, opened)
    try:
        finish(dst)  # before this process has locks
    except DecodeError:
        if not engine.overwrite:
            raise
    with ExitStack() as locks:  # no other process changes, moves or removes these files meanwhile
        if engine.parents:
            locks.enter_context(made_folders(dst.parent))
        places = [*([src] if moves else ()), dst, *([backup_of(dst)] if replacement.backup else ())]
        was_left = locks.enter_context(locked_together(places))
        if moves and not opened.file.is_current():  # another process did, while this one waited for the locks
            opened.model.close()
            opened = _opened(request)
        if moves and was_left:
            check_finished(src)
        return _relocated(request, opened)


def _rest_of_move(request: _Request, begun: Path | None) -> Relocation | None:
    """What a killed move did that has just been completed, if it went to the same place, which is `begun`.

    If the old graph was already removed, remove the old names of data files, which a move to another folder left.
    """
    src, dst = request.src, request.dst
    if not dst.is_file():
        return None
    with locked_together([] if request.engine.dry_run else [src, dst]):
        listed = open_files(dst, None, READ_DEFAULTS, alone=True).listed
        names = [(file.path, src.parent / renamed_with(file.location, dst, src)) for file in listed.files[1:]]
        left = tuple(
            old for path, old in names if path != old and old.is_file() and not old.is_symlink() and old.samefile(path)
        )
        if not (left or (begun is not None and begun.is_file() and begun.samefile(dst))):
            return None
        for old in left if not request.engine.dry_run else ():
            unlink(old)
        written = tuple(
            WrittenFile(file.path, file.path.stat().st_size) for file in (*listed.files[1:], listed.files[0])
        )
        return Relocation(src, dst, written, left, dry_run=request.engine.dry_run)


def _relocated(request: _Request, opened: OpenedFiles) -> Relocation:
    """Copy or move the model, which is open and locked."""
    src, dst, moves, engine, replacement = request
    in_place = dst.parent.resolve() == src.parent.resolve()
    names = _new_names(request, opened.listed, in_place=in_place)
    left: list[Path] = []  # the data files of the replaced model that are not written again
    if engine.overwrite:
        others = [name for location, name in names.items() if not _is_there(dst.parent / name, opened.data[location])]
        stays = _check_replaced(dst, others, src if in_place else None) - {dst.parent / name for name in names.values()}
        left = sorted(stays)
    written, replaced = _write(request, opened, names, left)
    kept = replaced.stays if replacement.clean or replacement.backup else tuple((path, LEFT) for path in left)
    removed: tuple[Path, ...] = ()
    if moves:
        goes = tuple(
            file
            for file in opened.listed.files
            if (not file.location or file.location in names)
            and not (in_place and file.path.name == names.get(file.location))  # a file of the new model
            and file.path not in replaced.backup_files
        )
        opened.model.close()  # some systems do not remove a file that is open
        removed = _remove(goes, opened, engine.dry_run)
        kept = (*_kept(opened.listed.files), *kept)
    return Relocation(src, dst, written, removed, kept, engine.dry_run, replaced.backup, replaced.removed)


def _new_names(request: _Request, listed: ModelFiles, *, in_place: bool) -> dict[str, str]:
    """The names of data files beside the new model, by location."""
    names: dict[str, str] = {}
    taken = {request.dst.name}
    for file in listed.files[1:]:  # the first one is the model
        if request.moves and in_place and (file.stays or file.leads_to):
            continue  # the new model finds it here, too
        name = renamed_with(file.location, request.src, request.dst)
        while name in taken or (in_place and not request.moves and name == file.location):
            name = f"{request.dst.stem}.{name}"
        names[file.location] = name
        taken.add(name)
    return names


def _place(dst: str | os.PathLike[str], src: Path) -> Path:
    """The destination of the model at `src`: `dst`, or its own name in a folder that exists or is requested."""
    path = local_path_of(dst)
    with Located(path):
        is_folder = path.is_dir()
    return path / src.name if is_folder or os.fspath(dst).endswith(("/", os.sep)) else path


def _check_destination(listed: ModelFiles, dst: Path, *, parents: bool, moves: bool) -> None:
    """Check that the model can be at `dst`: the extension is one of its format, and its weights can follow.

    Raises: UnsupportedError otherwise; FileExistsError if `dst` is the model itself; FileNotFoundError if its
    folder does not exist, without `parents`.
    """
    codec = lookup.by_name(listed.format)
    if not dst.suffix:
        name = f"{dst}{codec.extensions[0]}"
        raise UnsupportedError(f"a model has an extension: type {name}, or {dst}/ for a folder", path=dst)
    if dst.suffix.lower() not in codec.extensions:
        raise UnsupportedError(
            f"the model is {codec.title}, and this extension is not; use `formats convert`", path=dst
        )
    if dst.parent.exists() and not dst.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(dst.parent))
    if not (parents or dst.parent.is_dir()):
        raise no_directory(dst.parent)
    has_another_name = moves and dst.exists() and dst.lstat().st_nlink > 1  # a killed move leaves it so
    if dst.exists() and dst.samefile(listed.path) and not has_another_name:
        raise FileExistsError(errno.EEXIST, "this is the model itself; name another destination", str(dst))
    if moves and any(file.path.resolve() == listed.path.resolve() for file in listed.files[1:]):
        raise UnsupportedError(
            "its weights are in the file of the model itself; use `formats convert`", path=listed.path
        )
    if dst.parent.resolve() != listed.path.parent.resolve():
        for file in listed.files[1:]:
            if file.stays == IS_A_MODEL:
                reason = f"its weights are in {file.path.name}, which is itself a model; use `formats convert`"
                raise UnsupportedError(f"the model cannot go to another folder: {reason}", path=listed.path)


def _check_replaced(dst: Path, names: Collection[str], src: Path | None) -> set[Path]:
    """The data files of the model at `dst`; a replaced file must belong to it, or to `src` in the same folder.

    Raises: FileExistsError for another file: a name in a model must not replace an unrelated file.
    """
    own: set[Path] = set()
    data_files: set[Path] = set()
    for model in (dst, src):
        if model is not None and model.exists():
            try:
                files = {file.path for file in open_files(model, None, READ_DEFAULTS).listed.files if not file.stays}
            except FormatError:  # nobody knows which data files it has
                files = {model}
            data_files = files if model is dst else data_files - files
            own |= files
    for name in names:
        path = dst.parent / name
        if os.path.lexists(path) and path not in own and not is_named_after(name, dst):
            raise FileExistsError(errno.EEXIST, "it does not belong to the model to be replaced", str(path))
    return data_files - {dst}


def _write(
    request: _Request, opened: OpenedFiles, names: Mapping[str, str], left: Sequence[Path]
) -> tuple[tuple[WrittenFile, ...], Replaced]:
    """Write the new files, the model last, each to its path, and see to the model that is replaced.

    `names` are those of data files beside the new model, by location; the files at `left` are of the replaced model.
    """
    src, dst, moves, engine, replacement = request
    destinations = {location: dst.parent / name for location, name in names.items()}
    olds = {file.location: file.path for file in opened.listed.files}  # the location of the model is empty
    # Data that is already there, such as weights that another model has, too, is used and not written again.
    here = {
        location
        for location, path in destinations.items()
        if path == olds[location] or _is_there(path, opened.data[location])
    }
    used = {
        destinations.get(at, dst.parent / at): file for at, file in opened.data.items() if at in here or at not in names
    }
    new = {location: path for location, path in destinations.items() if location not in here}
    changes = any(location != name for location, name in names.items())
    graph = whole_file(dst, opened.source)
    if changes:
        graph = lookup.by_name(opened.listed.format).plan_graph(opened.model, dst, names.get)
    files, renamed = _files(request, opened, new, graph, changes=changes)
    if renamed:
        opened.file.check_in_place()
    is_free = all(location in here or not os.path.lexists(path) for location, path in destinations.items())
    further_names = [(src, dst), *((olds[location], path) for location, path in destinations.items())]
    if moves and is_free and _have_names(further_names) and is_written(graph):  # by a move that was killed
        engine = replace(engine, overwrite=True)  # it is written again
    goes = (opened.file,) if any(named.moves for named in renamed) else ()
    # If these bytes are there already, the same command ran before, or was killed: the backup has the model before it.
    kept = [backup_of(dst)] if replacement.backup and os.path.lexists(backup_of(dst)) else []
    is_repeated = bool(kept) and not new and is_written(graph)
    replaced = execute_replacing(
        Work(WritePlan(tuple(files), permissions=_permissions(opened), used=used, goes=goes), tuple(renamed)),
        engine,
        old=[old_model(dst)] if replacement.backup and dst.is_file() and not is_repeated else (),
        left=left,
        clean=replacement.clean,
        goes=[opened.listed.path] if moves else (),
    )
    if is_repeated:
        replaced = replaced._replace(backups=tuple(kept))
    written = (WrittenFile(path, opened.data[location].nbytes) for location, path in new.items())
    return (*written, WrittenFile(dst, graph.nbytes)), replaced


def _files(
    request: _Request, opened: OpenedFiles, new: Mapping[str, Path], graph: FilePlan, *, changes: bool
) -> tuple[list[FilePlan], list[Renamed]]:
    """The files that are written, and those that get a further name, which costs nothing; the graph is the last one.

    `new` has the places of data files, by location; `changes` says whether the graph gets other bytes.
    """
    written: list[FilePlan] = []
    renamed: list[Renamed] = []
    model, *data = opened.listed.files
    for old in data:
        if path := new.get(old.location):
            file = opened.data[old.location]
            if request.moves and not (old.stays or old.leads_to):
                renamed.append(Renamed(path, file, old.path))
            else:  # what stays at its old place, and what a link leads to, is copied
                written.append(whole_file(path, file.span()))
    # A graph that does not change, and whose data needs no copy, is renamed like its data: the bytes stay the same.
    if request.moves and not (written or changes or model.stays or model.leads_to):
        renamed.append(Renamed(request.dst, opened.file, model.path))
    else:
        written.append(graph)
        if not (model.stays or request.replacement.backup) and _can_move(request, renamed):
            renamed = [named._replace(moves=True) for named in renamed]
    return written, renamed


def _can_move(request: _Request, renamed: Sequence[Renamed]) -> bool:
    """Whether a journal can say that these data files move with the graph: in its folder, and all names differ."""
    olds = [request.src, *(named.old for named in renamed)]
    if any(path.parent.resolve() != request.dst.parent.resolve() for path in olds):
        return False
    names = [path.name.casefold() for path in (*olds, request.dst, *(named.path for named in renamed))]
    return len({*names}) == len(names)


def _have_names(pairs: Iterable[tuple[Path, Path]]) -> bool:
    """Whether one of these files also has the second name of its pair."""
    return any(new != old and new.is_file() and new.samefile(old) for old, new in pairs)


def _permissions(opened: OpenedFiles) -> Permissions:
    """Those that all files of the model give: a new graph may be as secret as the old one, or as its data."""
    most = opened.file.permissions
    for file in opened.data.values():
        most &= file.permissions
    return Permissions(most | OWNER_ACCESS)


def _is_there(path: Path, file: File) -> bool:
    """Whether the bytes of a file are already at `path`, for example those that another model also uses."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size != file.nbytes:
        return False
    return File.open(path).span() == file.span()


def _remove(files: Sequence[OwnFile], opened: OpenedFiles, dry_run: bool) -> tuple[Path, ...]:
    """Remove the files that do not stay, in this order, except in a dry run."""
    removed = []
    for file in files:
        if file.stays:
            continue
        if not (dry_run or os.path.lexists(file.path)):  # it went when the new files took their places
            removed.append(file.path)
            continue
        was = opened.data.get(file.location) if file.location else opened.file
        if was is not None:
            was.check_in_place()
        removed.append(file.path)
        if dry_run:
            continue
        if was is None or file.leads_to is not None:  # a link goes, its target stays
            unlink(file.path)
        else:
            unlink_same(file.path, was)
        if not file.location:
            sync_directory(file.path.parent)
    return tuple(removed)


def _kept(files: Sequence[OwnFile]) -> Iterator[tuple[Path, str]]:
    """The files that stay, and why."""
    for file in files:
        if file.stays:
            yield file.path, file.stays
        if file.leads_to is not None:
            yield file.leads_to, f"{file.path.name} was a link to it"
