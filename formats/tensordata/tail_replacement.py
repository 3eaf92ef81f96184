"""Replaces the end of a file in place; the change can be undone until it is complete.

The bytes that will be overwritten are first copied to an undo file next to it. Then the file is cut, its new end is
written, and the undo file is removed. So a file without an undo file is complete, and a file with one can be restored.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.errors import DecodeError, TensorDataError
from formats.tensordata.directory import remove, unlink
from formats.tensordata.engine import EngineOptions, transfer
from formats.tensordata.file import File
from formats.tensordata.hidden import hidden_path
from formats.tensordata.lock import ModelLock
from formats.tensordata.output import ExistingFile, OutputFile
from formats.tensordata.plan import OWNER_ACCESS, FilePlan, Permissions, WritePlan, check_plan
from formats.tensordata.source import Concat

if TYPE_CHECKING:
    from formats.tensordata.source import FileSpan, Source

INTERRUPTED = "an update was interrupted; `formats repair` must come first"
MAGIC = b"UNDOTAIL"
_HEADER = struct.Struct("<8sQ32s")  # magic, start of the tail, SHA-256 of the tail, which follows


class Undo(NamedTuple):
    """The old end of a file: the bytes from `file_offset` on."""

    file_offset: int
    tail: Source


def undo_path(path: Path) -> Path:
    """The undo file of the file at `path`, which may be a link to it."""
    return hidden_path(Path(os.path.realpath(path)), "undo")


def replace_tail(file: File, file_offset: int, plan: FilePlan, options: EngineOptions, end: bytes) -> None:
    """Replace the bytes of `file` from `file_offset` on by those of the plan, on the disk.

    The offsets of the plan are those of the file. No source of the plan may be in the replaced bytes. The file must
    still end with `end`: this detects changes that are too fast for the clock. On any failure, the file is restored; a
    process that ends in between leaves the undo file.

    Raises: FileExistsError if there is an undo file; TensorDataError if the file is not the one that was opened,
    or was changed; BlockingIOError if another process is writing it; errors of reading and writing as they are.
    """
    whole = WritePlan((plan,))
    check_plan(whole)
    with ModelLock(file.path), closing(ExistingFile(file.path)) as target:
        undo = undo_path(file.path)
        if undo.exists():
            raise FileExistsError(errno.EEXIST, INTERRUPTED, str(undo))
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
            remove(undo)
            raise
        remove(undo)


def put_back(path: Path) -> None:
    """Restore the file at `path` from its undo file, and remove the undo file."""
    undo = undo_path(path)
    saved = load_undo(undo)
    with closing(ExistingFile(path)) as target:
        _restore(target, saved)
    remove(undo)


def before_update(source: FileSpan, path: Path) -> Concat | None:
    """The file as it was before its last update, if there is an undo file; nothing is written.

    Raises: DecodeError if the undo file is damaged, or belongs to another file.
    """
    try:
        saved = load_undo(undo_path(path))
    except FileNotFoundError:
        return None
    if saved.file_offset > source.nbytes:
        raise DecodeError("the undo file does not belong to this file, or the file was truncated", path=undo_path(path))
    return Concat.of(source.slice(0, saved.file_offset), saved.tail)


def load_undo(path: Path) -> Undo:
    """The content of an undo file.

    Raises: DecodeError if it is damaged.
    """
    source = File.open(path).span()
    magic, file_offset, expected = _HEADER.unpack(source.read(0, _HEADER.size))
    tail = source.slice(_HEADER.size, source.nbytes - _HEADER.size)
    if magic != MAGIC or _sha256(tail) != expected:
        raise DecodeError("this is not an undo file, or it is damaged", path=path)
    return Undo(file_offset, tail)


def _save(tail: FileSpan, file_offset: int, path: Path) -> None:
    permissions = Permissions(new=tail.file.permissions | OWNER_ACCESS)
    output = OutputFile(path, _HEADER.size + tail.nbytes, owner=tail.file.path, permissions=permissions)
    try:
        output.pwrite(0, _HEADER.pack(MAGIC, file_offset, _sha256(tail)))
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


def _sha256(source: Source) -> bytes:
    digest = hashlib.sha256()
    for piece in source.chunks():
        digest.update(piece)
    return digest.digest()
