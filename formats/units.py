"""Sizes in bytes as people write them."""

from __future__ import annotations

UNITS = ("bytes", "kB", "MB", "GB")
SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def in_units(nbytes: float) -> str:
    """Return a size as text for people, in powers of 1000."""
    power = 0
    while nbytes >= 1000 and power < len(UNITS) - 1:
        nbytes, power = nbytes / 1000, power + 1
    return f"{nbytes:.{min(power, 1)}f} {UNITS[power]}"


def parse_size(text: str) -> int:
    """Return the bytes that a text such as `64K` means: K, M and G are powers of 1024, KB, MB and GB of 1000.

    Raises: ValueError if the text is not a size.
    """
    digits = text.rstrip("KMGBkmgb")
    unit = SIZE_UNITS.get(text[len(digits) :].upper())
    if not (digits.isascii() and digits.isdecimal()) or unit is None:
        raise ValueError(f"{text!r} is not a size such as 4096, 64K or 1MB")
    return int(digits) * unit
