"""Replaces the end of a file in place; the change can be undone until it is complete.

The bytes that will be overwritten are first copied to an undo file next to it. Then the file is cut, its new end is
written, and the undo file is removed. So a file without an undo file is complete, and a file with one can be restored.

An undo file says which file it belongs to: its inode, its size before, and the SHA-256 of its beginning. All of an
update or a repair happens on one descriptor, which was opened without following a link.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, TensorDataError
from formats.tensordata.engine import EngineOptions, transfer
from formats.tensordata.file import TRAFFIC
from formats.tensordata.local.directory import remove_file, unlink
from formats.tensordata.local.osio import SYSTEM, LocalFile
from formats.tensordata.local.output import ExistingFile, OutputFile
from formats.tensordata.plan import OWNER_ACCESS, FilePlan, Permissions, WritePlan, check_plan
from formats.tensordata.replacing.hidden import HiddenFileError, open_hidden, undo_path
from formats.tensordata.replacing.lock import ModelLock, try_lock
from formats.tensordata.sources.source import Concat, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from formats.tensordata.file import File
    from formats.tensordata.sources.source import FileSpan, Source

INTERRUPTED = "an update was interrupted; `formats repair` must come first"
MAGIC = b"UNDOTAI2"
# Magic, start of the tail, size and inode of the file, SHA-256 of its beginning, and of the tail, which follows.
_HEADER = struct.Struct("<8sQQQ32s32s")
_HEAD_BYTES = 1 << 20


class Undo(NamedTuple):
    """The old end of a file: the bytes from `file_offset` on; and what identifies the file."""

    file_offset: int
    nbytes: int
    inode: int
    head: bytes
    tail: Source
    user: int  # who wrote it

    def before(self, now: Source, path: Path) -> Concat:
        """The file as it was, from its present bytes.

        Raises: DecodeError if this does not belong to the file.
        """
        if self.file_offset > now.nbytes or _head(now, self.file_offset) != self.head:
            reason = "the undo file does not belong to this file, or another program has changed the file"
            raise DecodeError(reason, path=undo_path(path))
        return Concat.of(now.slice(0, self.file_offset), self.tail)


def check_not_interrupted(path: Path) -> None:
    """Check that there is no undo file of the file at `path`.

    Raises: FileExistsError if there is one; HiddenFileError if something else has its name.
    """
    undo = undo_path(path)
    try:
        open_hidden(undo).close()
    except FileNotFoundError:
        return
    raise FileExistsError(errno.EEXIST, INTERRUPTED, str(undo))


def replace_tail(file: File, file_offset: int, plan: FilePlan, options: EngineOptions, end: bytes) -> None:
    """Replace the bytes of `file` from `file_offset` on by those of the plan, on the disk.

    The offsets of the plan are those of the file. No source of the plan may be in the replaced bytes. The file must
    still end with `end`: this detects changes that are too fast for the clock. On any failure, the file is restored; a
    process that ends in between leaves the undo file.

    Raises: as `check_not_interrupted` does; TensorDataError if the file is not the one that was opened,
    or was changed; BlockingIOError if another process is writing it; errors of reading and writing as they are.
    """
    whole = WritePlan((plan,))
    check_plan(whole)
    with ModelLock(file.path), _locked(file.path) as target:
        check_not_interrupted(file.path)
        undo = undo_path(file.path)
        file.check_in_place(target.descriptor)
        if file.pread(file.nbytes - len(end), len(end)) != end:
            raise TensorDataError("the file has changed since it was read; run the command again", path=file.path)
        try:
            _save(file.span().slice(file_offset, file.nbytes - file_offset), file_offset, undo)
            file.check_in_place(target.descriptor)
        except BaseException:
            unlink(undo)
            raise
        try:
            target.truncate(file_offset)
            transfer(whole, [target], options)
            target.sync()
        except BaseException:
            _restore(target, load_undo(undo))
            remove_file(undo)
            raise
        TRAFFIC.add(publications=1)
        remove_file(undo)


@contextmanager
def opened_again(path: Path) -> Iterator[tuple[ExistingFile, LocalFile]]:
    """The file at `path`, which has no links, open for writing and reading by the same descriptor; it is locked.

    Raises: TensorDataError if another file is at `path` at the end; BlockingIOError if it is locked; OSError if it is
    a link, or cannot be opened.
    """
    with _locked(path) as target:
        file = LocalFile(path, keep_open=True, capabilities=SYSTEM, descriptor=os.dup(target.descriptor))
        yield target, file
        if not file.is_at(path.lstat()):
            raise TensorDataError("the file was replaced while it was repaired; run the command again", path=path)


def restore_from_undo(target: ExistingFile, file: LocalFile, is_right: Callable[[Source], bool]) -> None:
    """Restore the opened file from its undo file, and remove the undo file; its old content must be `is_right`.

    Raises: DecodeError if the undo file is damaged, may not be followed, or belongs to another file.
    """
    undo = undo_path(file.path)
    saved = load_undo(undo)
    status = os.fstat(target.descriptor)
    if status.st_ino != saved.inode and not _is_own_copy(saved, status):
        hint = "`formats convert` reads the model as it was, and writes it to a new file"
        raise DecodeError(f"the undo file belongs to another file, perhaps one that was copied; {hint}", path=undo)
    if saved.user not in _writers(status):
        raise HiddenFileError("another user than the owner of the archive wrote this file", path=undo)
    if not is_right(saved.before(file.span(), file.path)):
        raise DecodeError("the undo file would not restore an intact file", path=undo)
    _restore(target, saved)
    remove_file(undo)


def _is_own_copy(saved: Undo, status: os.stat_result) -> bool:
    """Whether the archive and its undo file may both be copies, as in a folder that was restored from a backup.

    Then nobody but this user made them, and the archive has no other name. It still must begin with the same bytes.
    """
    users = {saved.user, status.st_uid}
    return status.st_nlink == 1 and (not hasattr(os, "geteuid") or users == {os.geteuid()})


def _writers(status: os.stat_result) -> set[int]:
    """The users whose undo files this process follows for a file: the own ones, root's, and those of its owner.

    The owner of a folder could give a file another name there, and write an undo file for it.
    """
    own = {os.geteuid(), 0} if hasattr(os, "geteuid") else {status.st_uid}
    return own | {status.st_uid} if status.st_nlink == 1 else own


@contextmanager
def _locked(path: Path) -> Iterator[ExistingFile]:
    """The file at `path`, open for writing; locked, because it may have another name, which has a lock of its own."""
    with closing(ExistingFile(path)) as target:
        if try_lock(target.descriptor) is False:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process is writing this file", str(path))
        yield target


def before_update(source: FileSpan, path: Path) -> Concat | None:
    """The file as it was before its last update, if there is an undo file; nothing is written.

    Raises: DecodeError if the undo file is damaged, may not be followed, or belongs to another file.
    """
    try:
        return load_undo(undo_path(path)).before(source, path)
    except FileNotFoundError:
        return None


def load_undo(path: Path) -> Undo:
    """The content of an undo file.

    Raises: HiddenFileError if it is damaged, or may not be followed.
    """
    file = open_hidden(path)
    with file.descriptor() as descriptor:
        user = os.fstat(descriptor).st_uid
    source = file.span()
    header = source.read(0, _HEADER.size) if source.nbytes >= _HEADER.size else bytes(_HEADER.size)
    magic, file_offset, nbytes, inode, head, expected = _HEADER.unpack(header)
    tail = source.slice(len(header), source.nbytes - len(header)) if magic == MAGIC else Literal(b"")
    if magic != MAGIC or file_offset + tail.nbytes != nbytes or _sha256(tail) != expected:
        raise HiddenFileError("this is not an undo file, or it is damaged", path=path)
    return Undo(file_offset, nbytes, inode, head, tail, user)


def _save(tail: FileSpan, file_offset: int, path: Path) -> None:
    permissions = Permissions(new=tail.file.permissions | OWNER_ACCESS)
    nbytes = _HEADER.size + tail.nbytes  # `overwrite` gives it its name in one step on any filesystem
    output = OutputFile(path, nbytes, overwrite=True, follow_link=False, owner=tail.file.path, permissions=permissions)
    try:
        with tail.file.descriptor() as descriptor:
            inode = os.fstat(descriptor).st_ino
        head = _head(tail.file.span(), file_offset)
        output.pwrite(0, _HEADER.pack(MAGIC, file_offset, tail.file.nbytes, inode, head, _sha256(tail)))
        position = _HEADER.size
        for piece in tail.chunks():
            output.pwrite(position, piece)
            position += len(piece)
        output.publish(fsync=True)
        output.close()
    except BaseException:
        output.discard()
        raise


def _restore(target: ExistingFile, saved: Undo) -> None:
    target.truncate(saved.file_offset)
    position = saved.file_offset
    for piece in saved.tail.chunks():
        target.pwrite(position, piece)
        position += len(piece)
    target.sync()


def _head(source: Source, file_offset: int) -> bytes:
    """The SHA-256 of the beginning of a file, as far as it stays."""
    return _sha256(source.slice(0, min(file_offset, _HEAD_BYTES)))


def _sha256(source: Source) -> bytes:
    digest = hashlib.sha256()
    for piece in source.chunks():
        digest.update(piece)
    return digest.digest()
