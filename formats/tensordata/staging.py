"""New files that are complete and wait for their places: on the disk, and as the moves of a journal."""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING

from formats.errors import file_exists
from formats.tensordata.local.directory import sync_files
from formats.tensordata.replacing.hidden import is_hidden, temporary_path
from formats.tensordata.replacing.journal import Move, Old, sample_of, sha256_of
from formats.tensordata.threads import started_or_done

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from formats.tensordata.local.output import OutputFile
    from formats.tensordata.replacing.further_name import FurtherName


def put_on_disk(outputs: Sequence[OutputFile | FurtherName]) -> list[str | None]:
    """Put all files on the disk, and return the SHA-256 of each, which is computed meanwhile."""
    hashing = started_or_done(lambda: [_digest_of(output.readable_path) for output in outputs])
    try:
        sync_files([output.descriptor for output in outputs])
    finally:
        hashing.wait()
    return hashing.result()


def _digest_of(path: Path) -> str | None:
    try:
        return sha256_of(path)
    except PermissionError:  # it replaces a file that the user may not read
        return None


def staged_move(output: OutputFile | FurtherName, digest: str | None, model: Path, overwrite: bool) -> Move:
    """The move of a file that has a hidden name now."""
    old = _old(output.destination, temporary_path(model).name)
    if old is not None and not overwrite:
        raise file_exists(output.path)
    if is_hidden(output.destination.name):
        raise OSError(errno.EINVAL, "only formats gives files such a name", str(output.path))
    hidden, status = output.stage(temporary_path(model))
    sample = None if digest is not None else sample_of(hidden)
    identity = status.st_size, status.st_mtime_ns, status.st_ino, sample
    return Move(output.destination.name, hidden.name, *identity, digest, old)


def _old(path: Path, hidden: str) -> Old | None:
    """The file or link at `path` that will be replaced, if there is one, with its hidden name."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    sample = sample_of(path) if stat.S_ISREG(status.st_mode) else None
    return Old(hidden, status.st_size, status.st_mtime_ns, sample)
