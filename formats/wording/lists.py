"""Lists of names in sentences: what is left out is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def listed(names: Sequence[str], most: int, joint: str = ", ", noun: str = "") -> str:
    """The first names, at most `most`, and the number of the others: "a, b and 3 more"; `noun` says of what."""
    left = len(names) - most
    if left <= 0:
        return joint.join(names)
    more = f"{left:,} more{noun and ' '}{noun}{'s' * bool(noun and left > 1)}"
    return f"{joint.join(names[:most])}{'' if joint == ', ' else joint.rstrip()} and {more}"
