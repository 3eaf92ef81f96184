"""Sizes in bytes as people write them."""

from __future__ import annotations

UNITS = ("bytes", "kB", "MB", "GB")


def in_units(nbytes: float) -> str:
    """A size for people, in powers of 1000."""
    power = 0
    while nbytes >= 1000 and power < len(UNITS) - 1:
        nbytes, power = nbytes / 1000, power + 1
    return f"{nbytes:.{min(power, 1)}f} {UNITS[power]}"
