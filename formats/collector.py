"""Pauses the garbage collector, which would slow down work with models."""

from __future__ import annotations

import atexit
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def rest_at_exit() -> None:
    """The garbage collector rests when this process ends, which frees everything anyway.

    Looking for cycles in all that is left would take a fifth of the time of a small conversion.
    """
    if hasattr(gc, "freeze"):
        atexit.register(gc.freeze)


@contextmanager
def collector_paused() -> Iterator[None]:
    """The garbage collector rests: a tree of new objects has no cycles to find, and looking doubles the time.

    The new objects count as old ones afterwards, so that the next look at young ones does not make up for it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if hasattr(gc, "freeze") and not gc.get_freeze_count():  # somebody else's frozen objects stay so
            gc.freeze()
            gc.unfreeze()
        gc.enable()
