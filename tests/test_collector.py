"""Tests of the garbage collector while models are created."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable

import pytest

from formats.collector import collector_paused

Python = Callable[..., subprocess.CompletedProcess[str]]


def test_new_objects_count_as_old_ones() -> None:
    """Objects created meanwhile are in the oldest generation afterwards, and the collector works as before."""
    with collector_paused():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(5000)]
    assert gc.isenabled()
    assert 0 == gc.get_freeze_count()
    young = {id(item) for generation in (0, 1) for item in gc.get_objects(generation)}
    assert not young & {id(item) for item in made}


@pytest.mark.parametrize("enabled", [True, False])
def test_what_others_do_with_the_collector_stays(python: Python, enabled: bool) -> None:
    """A collector that is switched off stays off, and objects that the caller froze stay frozen."""
    code = (  # in its own process, where no other thread creates objects
        "import gc\nfrom formats.collector import collector_paused\n"
        f"gc.collect(); gc.freeze(); {enabled} or gc.disable()\n"
        "count = gc.get_freeze_count()\n"
        "with collector_paused(): pass\n"
        "print(gc.isenabled(), gc.get_freeze_count() - count)"
    )
    assert [str(enabled), "0"] == python("-c", code).stdout.split()


@pytest.mark.parametrize("resting", [True, False])
def test_nobody_looks_for_cycles_at_the_end(python: Python, resting: bool) -> None:
    """On request, a process ends without a search for garbage; other functions for the exit are still called."""
    code = (
        "import atexit\nfrom formats.collector import rest_at_exit\n"
        "class Found:\n    def __del__(self, say=print): say('found')\n"
        "atexit.register(print, 'done')\n"
        f"if {resting}: rest_at_exit()\n"
        "cycle = [Found()]; cycle.append(cycle); del cycle"
    )
    assert (["done"] if resting else ["done", "found"]) == python("-c", code).stdout.split()
