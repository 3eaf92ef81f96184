"""Facts about sizes in words."""

from __future__ import annotations

import pytest

from formats.units import in_units


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (410_200_000, "410.2 MB"),
        (1_340_000_000, "1.3 GB"),
        (2_500_000_000_000, "2500.0 GB"),
    ],
)
def test_sizes_are_in_powers_of_1000(nbytes: int, text: str) -> None:
    """Sizes have one decimal and the largest unit that leaves something before the point."""
    assert text == in_units(nbytes)
