"""Outcomes in several releases are recorded once if they agree, and nothing is lost."""

from __future__ import annotations

from tests.rten.rten_outcomes import deviating_in, right_in, row_for, row_of

RIGHT = {"0.25": ["a", "b"], "0.27": ["a", "b", "c"]}
DEVIATING = {"0.25": ["d", "c"], "0.27": ["d"]}
ROW = {"right": 2, "deviating": ["d"], "deviating only in 0.25": ["c"]}


def test_what_agrees_is_written_once():
    """A name that deviates in all releases is recorded once, any other with its releases."""
    assert ROW == row_of(RIGHT, DEVIATING)
    assert {"right": 1} == row_of({"0.25": "a", "0.27": "a"}, {"0.25": [], "0.27": []})


def test_of_each_release_all_is_known():
    """The row gives the number of right cases and the deviating ones for each release."""
    for release in RIGHT:
        assert len(RIGHT[release]) == right_in(ROW, release)
        assert sorted(DEVIATING[release]) == deviating_in(ROW, release)


def test_other_releases():
    """A row for the releases of the tests is as recorded; for a release without tests, the next one's is used."""
    assert ROW == row_for(ROW, ["0.25", "0.27"])
    assert row_for(ROW, ["0.27"]) == row_for(ROW, ["0.26"]) == {"right": 3, "deviating": ["d"]}
    assert {"right": 2, "deviating": ["c", "d"]} == row_for(ROW, ["0.25"])
    assert ROW == row_for(ROW, ["0.25", "0.26"])
