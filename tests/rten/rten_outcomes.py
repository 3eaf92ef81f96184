"""The form in which outcomes in several releases of RTen are recorded: once if the releases agree.

A row has `right`, the number of cases that are right in all releases of the tests; `deviating`, the names of cases that
deviate in all of them; and, for example, `deviating only in 0.25`, the names of cases that are right in the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tests.runtime.runner import DEFAULT_RELEASES

DEVIATING = "deviating"
_ONLY_IN = "deviating only in "


def row_of(right: Mapping[str, Collection[str]], deviating: Mapping[str, Collection[str]]) -> dict[str, Any]:
    """Return the row for the right and the deviating cases in each release."""
    places: dict[str, list[str]] = {}
    for release, names in deviating.items():
        for name in names:
            places.setdefault(name, []).append(release)
    row: dict[str, Any] = {"right": len(set.intersection(*map(set, right.values())))}
    for name, releases in sorted(places.items()):
        key = DEVIATING if len(releases) == len(deviating) else _ONLY_IN + " and ".join(releases)
        row.setdefault(key, []).append(name)
    return row


def row_for(row: Mapping[str, Any], releases: Collection[str]) -> dict[str, Any]:
    """Return a row as it would be if the tests ran these releases.

    For a release that they do not run by default, the row of the next release is used.
    """
    known = {
        release: min((r for r in DEFAULT_RELEASES if r >= release), default=DEFAULT_RELEASES[-1])
        for release in releases
    }
    found = {key: value for key, value in row.items() if not key.startswith(_ONLY_IN)}
    for key, names in row.items():
        if key.startswith(_ONLY_IN):
            places = [release for release in releases if known[release] in key.removeprefix(_ONLY_IN).split(" and ")]
            if not places:
                found["right"] += len(names)
            else:
                where = DEVIATING if len(places) == len(releases) else _ONLY_IN + " and ".join(places)
                found[where] = sorted([*found.get(where, []), *names])
    return found


def right_in(row: Mapping[str, Any], release: str) -> int:
    """Return the number of right cases in a release."""
    right: int = row_for(row, [release])["right"]
    return right


def deviating_in(row: Mapping[str, Any], release: str) -> list[str]:
    """Return the names of the deviating cases in a release."""
    names: list[str] = row_for(row, [release]).get(DEVIATING, [])
    return names
