"""Tests of sizes as text."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from formats.options import size
from formats.wording.units import SIZE_UNITS, in_units, parse_size


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
        ("5GiB", 5 << 30),
        ("5gib", 5 << 30),
        ("1.5G", 3 << 29),
        ("1.5 GB", 1_500_000_000),
        ("64k", 65_536),
        ("64KiB", 65_536),
        ("1_000_000", 1_000_000),
        (" 2 TB ", 2 * 10**12),
        ("100 bytes", 100),
        ("100B", 100),
        ("1.1K", 1126),
    ],
)
def test_sizes_have_units(text: str, nbytes: int) -> None:
    """K, M, G and T are powers of 1024, also with iB; with a B, they are powers of 1000."""
    assert nbytes == parse_size(text)


def test_sizes_are_exact() -> None:
    """A size of any number of digits is the exact product of number and unit, without the part of a byte."""
    rng = random.Random(1)
    for _ in range(3000):
        whole = str(rng.randrange(10 ** rng.randrange(1, 20)))
        number = f"{whole}.{rng.randrange(10**12):0{rng.randrange(1, 13)}}" if rng.random() < 0.7 else whole
        unit = rng.choice([name for name, nbytes in SIZE_UNITS.items() if "." not in number or nbytes > 1])
        cased = "".join(rng.choice([letter.lower(), letter]) for letter in unit)
        exact = Fraction(number) * SIZE_UNITS[unit]
        text = f"{number}{rng.choice(['', ' '])}{cased}"
        if 0 < exact < 1:
            with pytest.raises(ValueError, match="less than a byte"):
                parse_size(text)
        else:
            assert int(exact) == parse_size(text), text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "K",
            ".",
            ".5G",
            "1.G",
            "1.5",
            "-1",
            "+1",
            "1,5G",
            "1e9",
            "5X",
            "5GiBs",
            "5 G B",
            "1__0",
            "_1",
            "1_",
        ),
        *("٣K", "0x10", "1.5.5G", "0.0001K", "1._5G", "5Gi", "nan", "inf", "9" * 5000 + "."),
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    """A text that is not a size is refused; the error of an option has examples of sizes."""
    with pytest.raises(ValueError, match=r"is not a size such as 4096|less than a byte"):
        parse_size(text)
    assert '4096, "64K" or "1.5GB"' in size().words
