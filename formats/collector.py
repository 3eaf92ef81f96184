"""Pauses the garbage collector, or lets it rest, because it would slow down work with models."""

from __future__ import annotations

import atexit
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SEARCH_AFTER = 1 << 20  # new objects; garbage in cycles could grow to so many, but nothing here makes such garbage


def rest_in_command() -> None:
    """Let the garbage collector of this process, which is a command, search for cycles rarely, and not at its end.

    Conversions leave no cycles. The imports alone would cause 30 searches, and the objects of 100,000 weights would be
    searched three times, which takes a seventh of their conversion. At the end, all memory is freed anyway: a search in
    the remaining objects would take a fifth of the time of a small conversion.
    """
    if hasattr(gc, "freeze"):
        gc.set_threshold(SEARCH_AFTER)
        atexit.register(gc.freeze)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector: a tree of new objects has no cycles, and searching for them takes 1.4 times as long.

    Afterwards, it works as before.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
