"""Pauses the garbage collector, or lets it rest, because it would slow down work with models."""

from __future__ import annotations

import atexit
import gc

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


class collector_paused:  # noqa: N801 - a context, which a function with `contextmanager` would make in four times as long
    """Pause the garbage collector: a tree of new objects has no cycles, and searching for them doubles the time.

    Afterwards, it works as before, on all objects. In particular, nothing is frozen here: that would set its counts
    back, and a process that converts all day would never search its older objects, not even those of the caller.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_on:
            gc.enable()
