"""Lists of names that are cut say how many they leave out."""

from __future__ import annotations

import pytest

from formats.wording.lists import listed


@pytest.mark.parametrize(
    ("count", "options", "text"),
    [
        (0, {}, ""),
        (3, {}, "x0, x1, x2"),
        (4, {}, "x0, x1, x2 and 1 more"),
        (2000, {}, "x0, x1, x2 and 1,997 more"),
        (4, {"joint": "; ", "noun": "node"}, "x0; x1; x2; and 1 more node"),
        (5, {"noun": "value"}, "x0, x1, x2 and 2 more values"),
    ],
)
def test_what_is_left_out_is_counted(count: int, options: dict[str, str], text: str) -> None:
    """A list has its first names, and the number of all others."""
    assert listed([f"x{number}" for number in range(count)], 3, **options) == text
