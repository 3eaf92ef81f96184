"""How systems differ: features that only some have, how long a busy one may take, and whether it has a whole night."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

posix = pytest.mark.skipif(
    os.name != "posix", reason="Windows has neither named pipes, nor /dev/null, nor permissions of groups, nor fork"
)

PATIENCE_SECONDS = 300
"""How long a test waits for what comes at once on an idle machine. Only what hangs takes so long on a busy one."""

NIGHT = bool(os.environ.get("FORMATS_NIGHT"))
"""Whether tests of generated cases take all of them, as in `.ci/nightly`, and not the part that both rings have."""

OF_THE_DAY = zlib.crc32(os.environ.get("FORMATS_SEED", "1").encode())
"""A number of each day in CI, which chooses the part of today; otherwise always the same."""


def open_files() -> set[str]:
    """Return the names of the files, but not pipes, that this process has open, where the system tells them."""
    folder = Path("/proc/self/fd")
    names = [os.readlink(path) for path in folder.iterdir() if path.is_symlink()] if folder.exists() else []
    return {name for name in names if name.startswith("/")}


NOBODY = 65534


@contextmanager
def without_rights(folder: Path) -> Iterator[None]:
    """A context in which this process is no user who may read and write everywhere, but may go to the folder."""
    is_root = os.geteuid() == 0
    if is_root:
        for path in folder.parents[:-2]:
            path.chmod(0o755)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
