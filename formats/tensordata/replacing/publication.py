"""Puts new files in their places: one file in one step, several files as if in one step.

At any time, and for any tool, a model in several files is old, new or absent. First, all new files are completed under
hidden names. Then a journal says which file moves to which place. From then on, any process that finds the journal can
complete the change: the old graph is put aside, the data files take their places, the graph takes its place, the
journal is removed, and then the replaced files are removed. If the change must survive a power cut, each of these steps
is on the disk before the next one. Models that share data files are replaced in the same way, together: all old graphs
are put aside first.

A model that moves within its folder changes its names in the same steps: its old graph is put aside as well, and its
data files lose their old names before the new graph takes its place. So no graph that a tool finds has data files with
two names, which `onnx` refuses.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from functools import cache
from shutil import rmtree
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, TensorDataError, file_exists
from formats.tensordata.file import TRAFFIC
from formats.tensordata.local.directory import (
    make_link,
    move_file,
    move_to_free,
    patiently,
    sync_directory,
    sync_files,
    unlink,
)
from formats.tensordata.local.osio import SYSTEM, Capabilities
from formats.tensordata.local.output import OutputFile
from formats.tensordata.plan import OWNER_ACCESS, Permissions
from formats.tensordata.replacing.hidden import (
    HiddenFileError,
    hidden_path,
    is_hidden,
    is_trusted,
    open_hidden,
    temporaries,
    temporary_path,
)
from formats.tensordata.replacing.journal import (
    GoingGraph,
    Journal,
    NewFile,
    OldFile,
    journal_path,
    load_journal,
    sample_of,
    sha256_of,
)
from formats.tensordata.replacing.lock import ModelLock, boot, try_lock
from formats.tensordata.threads import started_or_done

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from formats.tensordata.file import File
    from formats.tensordata.replacing.further_name import FurtherName


class WriteRepair(NamedTuple):
    """What was done about an interrupted write."""

    completed: bool = False  # several files have taken their places
    undone: bool = False  # they have not, and the old files are back
    removed: tuple[Path, ...] = ()  # what was left behind


def publish(
    outputs: Sequence[OutputFile | FurtherName],
    models: int = 1,
    *,
    overwrite: bool,
    fsync: bool | None = None,
    replaced: File | None = None,
    goes: Sequence[File] = (),
) -> None:
    """Put all files in their places, or none; the model, or this number of models, comes last.

    With `fsync`, the files are on the disk. If it is `None`, only files that replace others are on the disk, before the
    others are removed, and models that move. If `replaced` is given, the old model must still be that file. The graphs
    that go, because their data files move, must still be these files, too; they are removed.

    Raises: FileExistsError if something is in a place and not to be replaced; TensorDataError if the model is
    not what is to be replaced; BlockingIOError if another process writes the model for long; other OSErrors. After
    an error, the old files are in their places again, and nothing else is left.
    """
    TRAFFIC.add(publications=1)
    model, capabilities = outputs[-1].destination, outputs[-1].capabilities
    replaces = any(os.path.lexists(output.destination) for output in outputs)
    syncs = (replaces or bool(goes)) if fsync is None else fsync
    if len(outputs) == 1 and not replaces and not is_left(model) and not outputs[0].has_name:
        outputs[0].publish(fsync=syncs)
        return
    digests = _put_on_disk(outputs) if syncs and len(outputs) > 1 else [None] * len(outputs)
    with ModelLock(model) as lock:
        _finish_own(model, capabilities, overwrite=overwrite)  # of a process that was killed since this one began
        for file in (*goes, *([replaced] if replaced is not None else [])):
            file.check_in_place()
        if len(outputs) == 1:
            outputs[0].publish(fsync=syncs)
            for kind in ("journal", "undo"):  # of the replaced files
                with suppress(PermissionError, IsADirectoryError):  # something strange, which nobody will follow
                    unlink(hidden_path(model, kind), capabilities)
        else:
            _remove_journal(model, capabilities)
            _publish_several(outputs, digests, models=models, overwrite=overwrite, syncs=syncs, lock=lock, goes=goes)
        if lock.was_left or any(output.has_name for output in outputs):
            _clean(model, capabilities)


def finish_interrupted(path: Path, *, overwrite: bool = False, capabilities: Capabilities = SYSTEM) -> WriteRepair:
    """Complete or undo an interrupted write of several files at `path`, before the next write.

    If that is not possible, the files stay for now if they may be overwritten anyway.

    Raises: DecodeError as `repair_interrupted` does, without `overwrite`.
    """
    if not os.path.lexists(hidden_path(path, "journal")):
        return WriteRepair()
    try:
        return repair_interrupted(path, capabilities)
    except DecodeError:
        if not overwrite:
            raise
        return WriteRepair()


def expected_names(path: Path) -> dict[str, bool]:
    """By name: whether a file will exist next to the model at `path` after its interrupted write is finished.

    If no write was interrupted, the result is empty. Nothing is changed.

    Raises: DecodeError as `repair_interrupted` does.
    """
    journal = load_journal(path)
    if journal is None:
        return {}
    completed = _can_be_completed(_Steps(path, journal, syncs=False, capabilities=SYSTEM), journal)
    return {moved.name: completed or moved.old is not None for moved in journal.moves}


def repair_interrupted(path: Path, capabilities: Capabilities = SYSTEM) -> WriteRepair:
    """Complete, undo or remove the files that killed processes left behind when they wrote the model at `path`.

    Raises: HiddenFileError if the journal is damaged, or may not be followed; DecodeError if the files are not as it
    says; BlockingIOError if another process is writing the model.
    """
    with ModelLock(path) as lock:
        try:
            result = WriteRepair()
            journal = load_journal(path)
            if journal is not None:
                result = _finish(path, journal, capabilities)
        except HiddenFileError:
            if temporaries(path):  # they stay, because the journal may have been one of this program
                lock.keep()
            raise
        except BaseException:
            lock.keep()  # the files that were left behind stay, because they may be needed
            raise
        return result._replace(removed=tuple(_clean(path, capabilities)))


def _finish_own(path: Path, capabilities: Capabilities, *, overwrite: bool) -> None:
    """Do what `finish_interrupted` does with the journal of the model at `path`, whose lock is held."""
    try:
        journal = load_journal(path)
        if journal is not None:
            _finish(path, journal, capabilities)
    except DecodeError:
        if not overwrite:
            raise


def _remove_journal(model: Path, capabilities: Capabilities) -> None:
    """Make the place of the journal free. Raises: HiddenFileError if what is there cannot be removed."""
    place = journal_path(model)
    try:
        unlink(place, capabilities)
    except (PermissionError, IsADirectoryError):
        open_hidden(place).close()  # says what is wrong
        raise


def is_left(model: Path) -> bool:
    """Whether a killed process may have left something to do for the model, without a look at the folder."""
    return any(os.path.lexists(hidden_path(model, kind)) for kind in ("lock", "journal", "undo"))


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A new folder next to the model at `path`, whose lock this process has meanwhile.

    If the process is killed or stopped, the next one that writes the model, or makes such a folder, removes it.
    """
    with ModelLock(path) as lock:
        if lock.was_left and not os.path.lexists(journal_path(path)):  # a journal needs the files that were left
            _clean(path, SYSTEM)
        folder = temporary_path(path)
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            _remove_folder(folder, SYSTEM)
            if os.path.lexists(folder):
                lock.keep()


def _remove_folder(folder: Path, capabilities: Capabilities) -> None:
    """Remove a folder from `temporary_folder` with all that is in it; no link in it is followed."""
    with suppress(OSError):
        patiently(lambda: rmtree(folder), (*folder.rglob("*"),), capabilities)


def _clean(model: Path, capabilities: Capabilities) -> list[Path]:
    """Remove the temporary files and folders of processes that have ended."""
    removed = []
    for path in temporaries(model):
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK):  # a link that was put aside
                continue
        else:
            is_free, status = try_lock(descriptor), os.fstat(descriptor)
            os.close(descriptor)
            if not is_free:  # in use; or nobody can know, because the filesystem has no locks
                continue
            if stat.S_ISDIR(status.st_mode):
                if is_trusted(status.st_uid, path.parent):
                    _remove_folder(path, capabilities)
                    removed.append(path)
                continue
        with suppress(PermissionError):  # of another user, in a folder where nobody removes the files of others
            unlink(path, capabilities)
            removed.append(path)
    return removed


class _Steps:
    """The steps that put the files of a journal in their places, or take them back; each step can be repeated."""

    def __init__(self, model: Path, journal: Journal, *, syncs: bool, capabilities: Capabilities) -> None:
        self.model = model
        self.journal = journal
        self.syncs = syncs
        self.capabilities = capabilities

    def forward(self, *, overwrite: bool) -> None:
        """Put all new files in their places, the models last; remove the journal and the replaced files.

        Raises: FileExistsError if something unexpected is in a place, without `overwrite`.
        """
        companions, models = self.journal.parts()
        in_the_way = [
            model for model in models if os.path.lexists(self.at(model.new)) and os.path.lexists(self.at(model.name))
        ]
        for model in in_the_way:
            self._put_aside(model)
        if in_the_way:
            self.sync()
        going = [graph for graph in self.journal.goes if os.path.lexists(self.at(graph.name))]
        for graph in going:  # when no old model hides the new one from readers
            self._put_aside(graph)
        if going:
            self.sync()
        for companion in companions:
            self._place(companion, overwrite, keeps_name=companion.is_moved)
        if companions:
            self.sync()
        moving = [companion for companion in companions if companion.is_moved]
        for companion in moving:
            if not self.journal.is_new(companion, self.at(companion.name)):
                raise TensorDataError("another program has replaced the file; it stays", path=self.at(companion.new))
        for companion in moving:
            if _is_same(self.at(companion.new), self.at(companion.name)):
                unlink(self.at(companion.new), self.capabilities)
        if moving:
            self.sync()
        for model in models:
            self._place(model, overwrite, keeps_name=len(models) > 1)
        self.sync()
        self.end()

    def backward(self) -> None:
        """Put all old files back in their places, the models last; remove the journal and the new files."""
        companions, models = self.journal.parts()
        for model in models:
            self._take_back(model)
        for moved in companions:
            self._take_back(moved)
        self.sync()
        for moved in companions:
            if moved.old is not None and os.path.lexists(self.at(moved.old.name)):
                move_file(self.at(moved.old.name), self.at(moved.name), self.capabilities)
                unlink(self.at(moved.old.name), self.capabilities)  # another name of the same file remains
        self.sync()
        for graph in self.journal.goes:
            if os.path.lexists(self.at(graph.old.name)):
                move_file(self.at(graph.old.name), self.at(graph.name), self.capabilities)
                self.sync()
        for model in models:
            if model.old is not None and os.path.lexists(self.at(model.old.name)):
                move_file(self.at(model.old.name), self.at(model.name), self.capabilities)
        self.sync()
        self.end()

    def end(self) -> None:
        """Remove the journal, and then all hidden files that it names."""
        unlink(journal_path(self.model), self.capabilities)
        self.sync()
        hidden = [moved.new for moved in self.journal.moves if not moved.is_moved]
        hidden += [moved.old.name for moved in self.journal.moves if moved.old is not None]
        hidden += [graph.old.name for graph in self.journal.goes]
        for name in hidden:
            unlink(self.at(name), self.capabilities)

    def at(self, name: str) -> Path:
        """The path of a file next to the model."""
        return self.model.with_name(name)

    def sync(self) -> None:
        """Put the names on the disk, if that is required."""
        if self.syncs:
            sync_directory(self.model.parent)

    def _put_aside(self, moved: NewFile | GoingGraph) -> None:
        """Free the name: the old file gets its hidden name."""
        if moved.old is not None:
            move_file(self.at(moved.name), self.at(moved.old.name), self.capabilities)

    def _place(self, moved: NewFile, overwrite: bool, *, keeps_name: bool) -> None:
        """Give the new file its name.

        With `keeps_name`, it keeps its present name for now. A power cut may keep any of the changes that are not on
        the disk. If it lost both names of a model, other models that readers have found would be taken back; and
        of a data file that moves, there is no other.
        """
        new, place = self.at(moved.new), self.at(moved.name)
        if not os.path.lexists(new):
            return  # the file already has it
        is_kept = moved.old is None or os.path.lexists(self.at(moved.old.name)) or not os.path.lexists(place)
        if not is_kept and moved.old:
            is_linked = not moved.is_moved and make_link(place, self.at(moved.old.name), self.capabilities)
            if not is_linked:  # what moves takes only a free place
                self._put_aside(moved)
        if _is_reserved(moved, place):
            unlink(place, self.capabilities)
        if (moved.is_moved or (moved.old is None and not overwrite)) and not _is_same(new, place):
            if keeps_name and make_link(new, place, self.capabilities):
                return
            move_to_free(new, place, self.capabilities)
            return
        move_file(new, place, self.capabilities)
        if not keeps_name:
            unlink(new, self.capabilities)  # a rename to another name of the same file does not remove it

    def _take_back(self, moved: NewFile) -> None:
        """Give the new file its hidden name, and remove its other name."""
        new, place = self.at(moved.new), self.at(moved.name)
        if _is_reserved(moved, place):
            unlink(place, self.capabilities)
        if not os.path.lexists(new):
            if self.journal.is_new(moved, place):
                move_file(place, new, self.capabilities)
        elif _is_same(new, place):
            unlink(place, self.capabilities)


def _publish_several(
    outputs: Sequence[OutputFile | FurtherName],
    digests: Sequence[str | None],
    *,
    models: int,
    overwrite: bool,
    syncs: bool,
    lock: ModelLock,
    goes: Sequence[File],
) -> None:
    """Put the files in their places, the models after the others; the lock is that of the last model.

    Raises: as `publish` does.
    """
    model, capabilities = outputs[-1].destination, outputs[-1].capabilities
    moves: list[NewFile] = []
    steps = None
    try:
        for output, digest in zip(outputs, digests, strict=True):
            moves.append(_staged_move(output, digest, model, overwrite))
        olds = [(file.path.name, _old(file.path, temporary_path(model).name)) for file in goes]
        going = tuple(GoingGraph(name, old) for name, old in olds if old is not None)
        journal = Journal(tuple(moves), boot(), models, going)
        steps = _Steps(model, journal, syncs=syncs, capabilities=capabilities)
        _write_journal(journal, model, syncs, capabilities)
        steps.forward(overwrite=overwrite)
    except BaseException:
        if steps is not None:
            _give_up(steps, lock)
        else:
            for staged in moves:
                if not staged.is_moved:
                    unlink(model.with_name(staged.new), capabilities)
        raise


def _put_on_disk(outputs: Sequence[OutputFile | FurtherName]) -> list[str | None]:
    """Put all files on the disk, and return the SHA-256 of each, which is computed meanwhile."""
    hashing = started_or_done(lambda: [_digest_of(output) for output in outputs])
    try:
        sync_files([output.descriptor for output in outputs])
    finally:
        hashing.wait()
    return hashing.result()


def _digest_of(output: OutputFile | FurtherName) -> str | None:
    if not isinstance(output, OutputFile) and output.moves:  # nothing is written to it
        return None
    try:
        return sha256_of(output.readable_path)
    except PermissionError:  # it replaces a file that the user may not read
        return None


def _staged_move(output: OutputFile | FurtherName, digest: str | None, model: Path, overwrite: bool) -> NewFile:
    """The move of a file that has a hidden name now."""
    old = _old(output.destination, temporary_path(model).name)
    if old is not None and not overwrite:
        raise file_exists(output.path)
    if is_hidden(output.destination.name):
        raise OSError(errno.EINVAL, "only formats gives files such a name", str(output.path))
    hidden, status = output.stage(temporary_path(model))
    sample = None if digest is not None else sample_of(hidden)
    identity = status.st_size, status.st_mtime_ns, status.st_ino, sample
    return NewFile(output.destination.name, hidden.name, *identity, digest, old)


def _old(path: Path, hidden: str) -> OldFile | None:
    """The file or link at `path` that will be replaced, if there is one, with its hidden name."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    sample = sample_of(path) if stat.S_ISREG(status.st_mode) else None
    return OldFile(hidden, status.st_size, status.st_mtime_ns, sample)


def _write_journal(journal: Journal, model: Path, syncs: bool, capabilities: Capabilities) -> None:
    content = journal.encode()
    mode = model.with_name(journal.moves[-1].new).stat().st_mode & 0o666 | OWNER_ACCESS  # file names can be secret, too
    permissions = Permissions(new=mode)
    place, nbytes = journal_path(model), len(content)  # `overwrite` gives it its name in one step on any filesystem
    output = OutputFile(
        place,
        nbytes,
        overwrite=True,
        follow_link=False,
        owner=model,
        permissions=permissions,
        capabilities=capabilities,
    )
    try:
        output.pwrite(0, content)
        output.publish(fsync=syncs)
        output.close()
    except BaseException:
        output.discard()
        raise


def _give_up(steps: _Steps, lock: ModelLock) -> None:
    """Put the old files back, unless the last model is already in its place: then it is too late.

    If that fails, too, the journal stays, and the next process completes the change.
    """
    last = steps.journal.moves[-1]
    try:
        if not os.path.lexists(steps.at(last.new)) and steps.journal.is_new(last, steps.model):
            steps.end()
        else:
            steps.backward()
    except OSError:
        lock.keep()


def _is_reserved(moved: NewFile, place: Path) -> bool:
    """Whether an empty file keeps the place of a new file: without hard links, it comes before the file itself."""
    try:
        status = place.lstat()
    except FileNotFoundError:
        return False
    return moved.old is None and moved.nbytes > 0 and stat.S_ISREG(status.st_mode) and not status.st_size


def _is_same(path: Path, other: Path) -> bool:
    try:
        return os.path.samestat(path.lstat(), other.lstat())
    except FileNotFoundError:
        return False


def _finish(path: Path, journal: Journal, capabilities: Capabilities) -> WriteRepair:
    """Complete the change of a journal if all new files exist, or undo it if all old files exist.

    Raises: DecodeError if neither is possible, or something was changed by a program that knows no journals.
    """
    steps = _Steps(path, journal, syncs=True, capabilities=capabilities)
    if _can_be_completed(steps, journal):
        steps.forward(overwrite=False)
        return WriteRepair(completed=True)
    steps.backward()
    return WriteRepair(undone=True)


def _can_be_completed(steps: _Steps, journal: Journal) -> bool:
    """Whether all new files exist; otherwise, all old files exist.

    Raises: DecodeError if neither is true, or something was changed by a program that knows no journals.
    """
    path = steps.model
    is_new = cache(journal.is_new)  # it may read all of a file
    changed = []
    for graph in journal.goes:
        place = steps.at(graph.name)
        if os.path.lexists(place) and not journal.is_old(graph, place):
            changed.append(graph.name)
    for moved in journal.moves:
        new = steps.at(moved.new)
        if moved.is_moved and os.path.lexists(new) and not is_new(moved, new):
            changed.append(moved.new)
        place = steps.at(moved.name)
        is_free = not os.path.lexists(place) or _is_reserved(moved, place)
        if not is_free and not journal.is_old(moved, place) and not is_new(moved, place):
            changed.append(moved.name)
    if changed:
        reason = f"{changed[0]} has changed since the interrupted write"
        hint = f"remove {journal_path(path).name} to keep what is there, or write again with `overwrite=True`"
        raise DecodeError(f"{reason}; {hint}", path=path)
    if all(any(is_new(moved, steps.at(name)) for name in (moved.new, moved.name)) for moved in journal.moves):
        return True
    for moved in journal.moves:
        names = (moved.name, moved.old.name) if moved.old is not None else ()
        if names and not any(journal.is_old(moved, steps.at(name)) for name in names):
            reason = f"neither the new nor the old {moved.name} is intact"
            raise DecodeError(f"an interrupted write can be neither completed nor undone: {reason}", path=path)
    return False
