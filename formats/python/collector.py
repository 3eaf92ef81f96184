"""Pauses the garbage collector, or lets it rest, because it would slow down work with models."""

from __future__ import annotations

import atexit
import gc

SEARCH_AFTER = 1 << 20  # new objects; garbage in cycles could grow to so many, but nothing here makes such garbage
OLD_FROM = 1 << 10  # new objects of one pause that count as old ones; the collector itself waits for as many
FROZEN_BY_PYTHON = 1000  # objects at most, when 3.12 starts; who calls `gc.freeze` freezes more, all that there are


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

    Afterwards, it works as before. Many new objects then count as old ones, so that they are searched with all others,
    not twice before. Without this, it takes three times as long to read 40,000 nodes.
    """

    __slots__ = ("_before", "_was_on")

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        self._before = gc.get_count()[0]
        gc.disable()

    def __exit__(self, *error: object) -> None:
        if self._was_on:
            count = gc.get_count()[0] - self._before
            if count >= OLD_FROM:
                _aged.add(count)
            gc.enable()


class _Aged:
    """How many objects count as old, though they are new, since the collector last searched all objects.

    They become old by `gc.freeze`, which takes the young objects of the caller along and sets the counts of the
    collector back. If that happened each time, a process that converts all day would never search its old objects. So
    after one pause of any size, or several with SEARCH_AFTER objects, there is no more of it until the collector has
    searched all objects, as it does by its own rules.
    """

    def __init__(self) -> None:
        self._searches = -1
        self._count = 0

    def add(self, count: int) -> None:
        """Let all young objects count as old ones; so many are new."""
        if not hasattr(gc, "freeze"):
            return
        searches = gc.get_stats()[-1]["collections"]
        if searches != self._searches:
            self._searches, self._count = searches, 0
        if self._count and self._count + count > SEARCH_AFTER:
            return
        if gc.get_freeze_count() <= FROZEN_BY_PYTHON:  # what the caller froze stays so
            self._count += count
            gc.freeze()
            gc.unfreeze()


_aged = _Aged()
