"""Outcomes in several releases are written down once where they agree, and nothing is lost."""

from __future__ import annotations

from rten_outcomes import deviating_in, right_in, row_for, row_of

RIGHT = {"0.25": ["a", "b"], "0.27": ["a", "b", "c"]}
DEVIATING = {"0.25": ["d", "c"], "0.27": ["d"]}
ROW = {"right": 2, "deviating": ["d"], "deviating only in 0.25": ["c"]}


def test_what_agrees_is_written_once():
    """A name that deviates in all releases stands once, any other with its releases."""
    assert ROW == row_of(RIGHT, DEVIATING)
    assert {"right": 1} == row_of({"0.25": "a", "0.27": "a"}, {"0.25": [], "0.27": []})


def test_of_each_release_all_is_known():
    """What is right and what deviates in one release comes out of the row."""
    for release in RIGHT:
        assert len(RIGHT[release]) == right_in(ROW, release)
        assert sorted(DEVIATING[release]) == deviating_in(ROW, release)


def test_other_releases():
    """A row for the releases of the tests is as it is written, and one that they do not run is as the next one."""
    assert ROW == row_for(ROW, ["0.25", "0.27"])
    assert row_for(ROW, ["0.27"]) == row_for(ROW, ["0.26"]) == {"right": 3, "deviating": ["d"]}
    assert {"right": 2, "deviating": ["c", "d"]} == row_for(ROW, ["0.25"])
    assert ROW == row_for(ROW, ["0.25", "0.26"])
