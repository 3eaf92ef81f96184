"""Words for people (sizes, lists of names, what to say of a name that does not exist), and texts in the package."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache, wraps
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

T = TypeVar("T")

UNITS = ("bytes", "kB", "MB", "GB")
LETTERS = "KMGT"  # alone or with iB for powers of 1024, with B for powers of 1000
SIZE_UNITS: dict[str, int] = {
    **dict.fromkeys(("", "B", "BYTE", "BYTES"), 1),
    **{letter: 1 << 10 * power for power, letter in enumerate(LETTERS, 1)},
    **{f"{letter}IB": 1 << 10 * power for power, letter in enumerate(LETTERS, 1)},
    **{f"{letter}B": int(1000**power) for power, letter in enumerate(LETTERS, 1)},
}
SIZE_EXAMPLES = '4096, "64K" or "1.5GB"'
SHOWN_NAMES = 10
ALMOST = 0.8  # how similar a name of another kind must be to be suggested
WILDCARDS = frozenset("*?[")  # of patterns
MAX_CACHED = 4096  # answers
MAX_CACHED_LENGTH = 200  # of the texts and dims of a question


def in_units(nbytes: float) -> str:
    """Return a size as text for people, in powers of 1000."""
    power = 0
    while round(nbytes, min(power, 1)) >= 1000 and power < len(UNITS) - 1:  # 999,999 bytes are 1.0 MB
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
    if not unit or (point and unit == 1) or not all(part.isascii() and part.isdecimal() for part in digits):
        raise ValueError(f"{text!r:.100} is not a size such as {SIZE_EXAMPLES}")
    scale: int = 10 ** len(part)
    nbytes, rest = divmod(int("".join(digits)) * unit, scale)
    if rest and not nbytes:
        raise ValueError(f"{text!r:.100} is less than a byte")
    return nbytes


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 place", "1,000 places"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def joined(names: Sequence[str], last: str = "and") -> str:
    """All names: "a", "a and b", "a, b and c"; `last` is the word before the last one."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def listed(names: Sequence[str], most: int, joint: str = ", ", noun: str = "") -> str:
    """The first names, at most `most`, and the number of the others: "a, b and 3 more"; `noun` says of what."""
    omitted = len(names) - most
    if omitted <= 0:
        return joint.join(names)
    more = counted(omitted, f"more {noun}") if noun else f"{omitted:,} more"
    return f"{joint.join(names[:most])}{'' if joint == ', ' else joint.rstrip()} and {more}"


def names_like(pattern: str, names: Collection[str]) -> set[str]:
    """The names that match a pattern such as `conv*`; if one is the pattern as it stands, only that one."""
    if pattern in names:
        return {pattern}
    if WILDCARDS.isdisjoint(pattern):  # thousands of names may be given as they stand
        return set()
    return {name for name in names if fnmatchcase(name, pattern)}


def nearest(name: str, names: Iterable[str], others: Iterable[str] = (), kind: str = "") -> str:
    """What to say after a name that does not exist: the names that are most like it, or the first ones that exist.

    `names` are those of what is meant, such as inputs. Names of `others`, which are possible, too, are suggested
    only if they are almost the same. `kind` is the word for one of them.
    """
    from difflib import get_close_matches  # only errors need it

    names = [*dict.fromkeys(filter(None, names))]
    close = get_close_matches(name, names, 3)
    if not close and name:
        close = [other for other in names if name.lower() in other.lower()][:3]
    close = close or get_close_matches(name, [*dict.fromkeys(filter(None, others))], 3, ALMOST)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    if not names:
        return f"; there is no {kind}" if kind else "; there is none"
    if kind:
        said = f"the {kind}s are" if len(names) > 1 else f"the only {kind} is"
    else:
        said = "there are" if len(names) > 1 else "there is only"
    return f"; {said} {listed(names, SHOWN_NAMES)}"


def text_beside(module: str, name: str) -> str:
    """The text of the file `name` next to a module of the package, which may be in a zip file.

    Raises: OSError if it is not there.
    """
    data = get_data(module, name)
    assert data is not None  # every loader of Python can read files
    return data.decode()


def cached_if_short(function: Callable[..., T]) -> Callable[..., T]:
    """A function of texts or dims of files, with a cache that stays small: it keeps no long question."""
    kept = lru_cache(maxsize=MAX_CACHED)(function)

    @wraps(function)
    def answer(*question: Any) -> T:
        length = sum(len(part) for part in question if isinstance(part, (str, tuple)))
        return kept(*question) if length <= MAX_CACHED_LENGTH else function(*question)

    return answer
