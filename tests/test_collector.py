"""Facts about the garbage collector while models are made."""

from __future__ import annotations

import gc

import pytest

from formats.collector import collector_paused


def test_new_objects_count_as_old_ones() -> None:
    """What is made meanwhile is in the oldest generation afterwards, and the collector works as before."""
    with collector_paused():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(5000)]
    assert gc.isenabled()
    assert 0 == gc.get_freeze_count()
    young = {id(item) for generation in (0, 1) for item in gc.get_objects(generation)}
    assert not young & {id(item) for item in made}


@pytest.mark.parametrize("enabled", [True, False])
def test_what_others_do_with_the_collector_stays(enabled: bool) -> None:
    """A collector that is switched off stays so, and objects that somebody froze stay frozen."""
    gc.collect()
    gc.freeze()
    try:
        if not enabled:
            gc.disable()
        count = gc.get_freeze_count()
        with collector_paused():
            pass
        assert (enabled, count) == (gc.isenabled(), gc.get_freeze_count())
    finally:
        gc.enable()
        gc.unfreeze()
