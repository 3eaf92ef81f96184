"""Sizes in bytes as people write them."""

from __future__ import annotations

UNITS = ("bytes", "kB", "MB", "GB")
LETTERS = "KMGT"  # alone or with iB for powers of 1024, with B for powers of 1000
SIZE_UNITS: dict[str, int] = {
    **dict.fromkeys(("", "B", "BYTE", "BYTES"), 1),
    **{letter: 1 << 10 * power for power, letter in enumerate(LETTERS, 1)},
    **{f"{letter}IB": 1 << 10 * power for power, letter in enumerate(LETTERS, 1)},
    **{f"{letter}B": int(1000**power) for power, letter in enumerate(LETTERS, 1)},
}
SIZE_EXAMPLES = '4096, "64K" or "1.5GB"'


def in_units(nbytes: float) -> str:
    """Return a size as text for people, in powers of 1000."""
    power = 0
    while nbytes >= 1000 and power < len(UNITS) - 1:
        nbytes, power = nbytes / 1000, power + 1
    return f"{nbytes:.{min(power, 1)}f} {UNITS[power]}"


def parse_size(text: str) -> int:
    """Return the bytes that a text means, such as `64K`, `1.5 GB`, `5GiB` or `1_000_000`; part of a byte is dropped.

    K and KiB are powers of 1024, and so on; KB, MB, GB and TB are powers of 1000.

    Raises: ValueError if the text is not a size, or is less than a byte, but not 0.
    """
    words = text.strip(" ")
    number = words.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = SIZE_UNITS.get(words[len(number) :].upper(), 0)
    whole, point, part = number.rstrip(" ").partition(".")
    digits = [*whole.split("_"), part] if point else whole.split("_")
    if not unit or (point and unit == 1) or not all(each.isascii() and each.isdecimal() for each in digits):
        raise ValueError(f"{text!r:.100} is not a size such as {SIZE_EXAMPLES}")
    scale: int = 10 ** len(part)
    nbytes, rest = divmod(int("".join(digits)) * unit, scale)
    if rest and not nbytes:
        raise ValueError(f"{text!r:.100} is less than a byte")
    return nbytes
