"""Completes, undoes or removes the files that killed processes left behind when they wrote a model."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formats.codecs.contract import MAX_DEPTH
from formats.errors import FormatError
from formats.onnxzip import CODEC as ARCHIVE
from formats.tensordata.interrupted import is_interrupted, owner_of, strange_files
from formats.tensordata.replacing import publication
from formats.tensordata.replacing.hidden import HiddenFileError, hidden_path, undo_path
from formats.verbs.arguments import local_path_of
from formats.verbs.report import fields_as_json
from formats.verbs.steps.replacement import backup_of


@dataclass(frozen=True, slots=True)
class Repair:
    """What `repair` found and did at a path.

    `completed`: the replacement of several files was completed. `put_back`: the old model in several files, or the old
    archive, was restored. `removed`: hidden files that were removed. `notes`: what is strange about other hidden files,
    which were not used. `refused`: why the file is no valid archive, if it is called one; `repair` cures only writes.
    """

    path: Path
    completed: bool
    put_back: bool
    removed: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        """The repair in strings, booleans and lists."""
        return fields_as_json(self, "path completed put_back removed notes refused")


def repair(path: str | os.PathLike[str]) -> Repair:
    """Complete or undo an interrupted write or removal of the model at `path`, and remove its hidden files.

    Files of the model are replaced only if they are those that the interrupted process was replacing. Models that were
    written together are repaired together. A hidden file that is damaged, or that may not be followed, stops nothing
    else: it is in the notes.

    For example:

        >>> formats.repair("model.onnx").completed
        False

    Raises: FileNotFoundError if there is neither a model nor an interrupted write; BlockingIOError if another process
    is writing the model; FormatError if there is no model and its journal is damaged, or if another program has changed
    the model since.
    """
    model = local_path_of(path)
    if model.is_dir():
        with os.scandir(model):  # one that cannot be read is that error
            pass
        raise IsADirectoryError(errno.EISDIR, "is a folder; name the model in it", str(model))
    if not model.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(model))
    completed = put_back = False
    removed: list[Path] = []
    unused: list[HiddenFileError] = []
    places = [model, Path(os.path.realpath(model))]
    places += [kept for kept in map(backup_of, places) if os.path.lexists(hidden_path(kept, "lock"))]
    for place in dict.fromkeys(path for name in dict.fromkeys(places) for path in (owner_of(name) or name, name)):
        try:
            repaired = publication.repair_interrupted(place)
        except HiddenFileError as error:
            unused.append(error)
            continue
        completed, put_back = completed or repaired.completed, put_back or repaired.undone
        removed += repaired.removed
    if os.path.lexists(undo_path(model)):
        from formats.onnxzip import editing

        try:
            put_back = editing.repair_archive(model)
        except HiddenFileError:
            if editing.may_be_archive(model):
                raise
    if os.path.lexists(hidden_path(model, "removed")):
        from formats.verbs.relocate import finish_removal

        try:
            removed += finish_removal(model)
        except HiddenFileError as error:
            unused.append(error)
    if not (completed or put_back or removed or model.exists()):
        if unused:
            raise unused[0]
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(model))
    notes = tuple(f"{error.path}: not used: {error.message}" for error in strange_files(model))
    return Repair(model, completed, put_back, tuple(removed), notes, _refused(model))


def finish(path: Path) -> None:
    """Repair the model at `path` if a write of it was interrupted: a verb that changes its files must come after that.

    Raises: as `repair` does.
    """
    if not path.is_dir() and is_interrupted(path):
        repair(path)


def check_finished(path: Path) -> None:
    """Raises BlockingIOError if a write of the model at `path`, whose lock is held, was interrupted."""
    if is_interrupted(path):
        reason = "another process was killed just now while it wrote this model; run again"
        raise BlockingIOError(errno.EWOULDBLOCK, reason, str(path))


def _refused(path: Path) -> str:
    """Why a strict reader refuses the archive at `path`; empty if it accepts it, or if it is no archive by its name."""
    if path.suffix.lower() not in ARCHIVE.extensions or not path.is_file():
        return ""
    from formats.onnxzip import check
    from formats.onnxzip.model import advised
    from formats.tensordata.file import File

    source = File.open(path).span()
    try:
        check(source)
    except FormatError as error:
        return advised(error, source, MAX_DEPTH).message
    return ""
