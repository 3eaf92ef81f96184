"""How many files this process may have open at once."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW_FILES = 64  # every process may open so many
_LOCK = Lock()  # held while the limit is read and set


@contextmanager
def room_for_files(count: int) -> Iterator[None]:
    """Let this process open `count` files more meanwhile, or as many as the system allows it.

    The usual limit is 256 with macOS and 1,024 with Linux; a process may raise it to its hard limit. A model can have a
    data file for each of thousands of weights.
    """
    if count <= FEW_FILES or sys.platform == "win32":  # there, no such limit is low
        yield
        return
    added = _add(count)
    try:
        yield
    finally:
        _add(-added)


def _add(count: int) -> int:
    """Change the limit of open files by `count`, as far as that is possible; the change."""
    if sys.platform == "win32":
        return 0
    import resource

    with _LOCK:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return 0
        new = soft + count if hard == resource.RLIM_INFINITY else min(soft + count, hard)
        if new < 0:  # somebody else has changed it meanwhile
            return 0
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (new, hard))
        except (ValueError, OSError):  # macOS: more than the system has, whatever the hard limit says
            return 0
        return new - soft
