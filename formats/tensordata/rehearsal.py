"""Checks a plan without writing: anything that would prevent its execution is an error.

Weights are not read, except those whose computation can show an error.
"""

from __future__ import annotations

import errno
import os
from itertools import chain
from typing import TYPE_CHECKING

from formats.errors import FormatError, file_exists
from formats.tensordata.local.osio import SYSTEM, Capabilities
from formats.tensordata.local.output import check_name, destination_of, follows_link, replaced_mode
from formats.tensordata.replacing.further_name import OneNameError, check_further_name
from formats.tensordata.replacing.publication import expected_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from formats.tensordata.plan import FilePlan, Renamed, WritePlan


def rehearse(
    plan: WritePlan,
    renamed: Sequence[Renamed] = (),
    *,
    overwrite: bool = False,
    parents: bool = False,
    capabilities: Capabilities = SYSTEM,
) -> None:
    """Check that the engine could carry out the plan now.

    Raises: the errors of `engine.execute` that can be known before it: later, another process may be faster, or a disk
    may fail.
    """
    paths = [*(file.path for file in renamed), *(file.path for file in plan.files)]
    if paths:
        _check_places(plan, renamed, paths[-1], overwrite=overwrite, parents=parents, capabilities=capabilities)
    sources = [source for _, source in plan.digests]
    for write in chain.from_iterable(file.writes for file in plan.files):
        sources.append(write.source)
        try:
            for source in write.source.doubtful():
                source.read()
        except FormatError as error:
            error.where = error.where or write.label or None
            raise
    for file in {file for source in sources for file in source.files()}:
        file.check_unchanged()


def _check_places(
    plan: WritePlan,
    renamed: Sequence[Renamed],
    model: Path,
    *,
    overwrite: bool,
    parents: bool,
    capabilities: Capabilities,
) -> None:
    """Raises OSError or DecodeError if a file cannot be written to its place, in the order of the engine."""
    if parents and not model.parent.exists():
        _check_folder_to_make(model.parent)
        for path in (*(file.path for file in renamed), *(file.path for file in plan.files)):
            check_name(path, capabilities)
        return
    follow_link = follows_link(model, len(renamed) + len(plan.files))
    owner = destination_of(model, follow_link, capabilities)
    expected = {} if overwrite else expected_names(owner)
    for found in renamed:
        check_further_name(found, overwrite=overwrite, capabilities=capabilities)
        if found.old.stat().st_dev != found.path.parent.stat().st_dev or not capabilities.hard_link:
            raise OneNameError(found.old)
    for file in plan.files:
        check_name(file.path, capabilities)
        destination = destination_of(file.path, follow_link and file is plan.files[-1], capabilities)
        there = expected.get(destination.name) if destination.parent == owner.parent else None
        if there:
            raise file_exists(file.path)
        if there is None:
            replaced_mode(file.path, destination, overwrite=overwrite)
        _check_writable(destination.parent, destination.parent)
    _check_space(plan.files, owner.parent, capabilities)


def _check_folder_to_make(folder: Path) -> None:
    """Raises OSError if a folder, with its missing parents, cannot be made."""
    while not folder.parent.exists():
        folder = folder.parent
    if not folder.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    _check_writable(folder.parent, folder)


def _check_writable(folder: Path, told: Path) -> None:
    """Raises PermissionError, or OSError for a filesystem that is read-only, if no name can be made in a folder."""
    if hasattr(os, "statvfs") and os.statvfs(folder).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(told))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(told))


def _check_space(files: Sequence[FilePlan], folder: Path, capabilities: Capabilities) -> None:
    """Raises OSError for the first file that does not fit on the disk, on systems that reserve space before writing."""
    if not (capabilities.allocate and hasattr(os, "statvfs")):
        return
    status = os.statvfs(folder)
    free = (status.f_bfree if os.geteuid() == 0 else status.f_bavail) * status.f_frsize
    for file in files:
        free -= file.nbytes
        if free < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file.path))
