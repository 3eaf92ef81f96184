"""Tests of sizes as text."""

from __future__ import annotations

import pytest

from formats.units import in_units, parse_size


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
    """Sizes have one decimal and the largest unit in which they are at least 1."""
    assert text == in_units(nbytes)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("1k", 1024),
        ("1K", 1024),
        ("3M", 3 << 20),
        ("2G", 2 << 30),
        ("1kB", 1000),
        ("5MB", 5_000_000),
    ],
)
def test_sizes_have_units(text: str, nbytes: int) -> None:
    """K, M and G are powers of 1024; with a B, they are powers of 1000."""
    assert nbytes == parse_size(text)
