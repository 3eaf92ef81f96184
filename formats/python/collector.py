"""Pauses the garbage collector, which would slow down work with models."""

from __future__ import annotations

import atexit
import gc


def rest_at_exit() -> None:
    """Pause the garbage collector when this process ends, because this frees everything anyway.

    A search for cycles in all remaining objects would take a fifth of the time of a small conversion.
    """
    if hasattr(gc, "freeze"):
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
