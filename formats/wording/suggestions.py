"""What to do instead of something that does not exist. Only errors import this module."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from formats.errors import OptionError
from formats.wording.lists import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# What people give for a format: `from` and `to` of the command line, and the keyword of another function.
FORMATS = {
    "to": ("to_format", "format"),
    "to_": ("to_format", "format"),
    "to_format": ("format",),
    "from": ("from_format", "format"),  # in a dictionary of keywords
    "from_": ("from_format", "format"),
    "from_format": ("format",),
    "format": ("to_format",),
}


def unknown_options(
    names: Sequence[str], known: Iterable[str], of: str = "", flags: Mapping[str, str] = MappingProxyType({})
) -> OptionError:
    """The error for options that do not exist; `flags` has the keywords for the words of the command line."""
    known = sorted(known)
    listed = " and ".join(f"`{name}`" for name in names)
    keyword = flags.get(names[0]) or next((name for name in FORMATS.get(names[0], ()) if name in known), None)
    if keyword is not None:
        return OptionError(f"there is no option {listed}{of}; did you mean `{keyword}`?")
    if close := get_close_matches(names[0], known, 1):
        return OptionError(f"there is no option {listed}{of}; did you mean `{close[0]}`?")
    return OptionError(f"there is no option {listed}{of}; there are {', '.join(f'`{name}`' for name in known)}")


SHOWN_NAMES = 10


ALMOST = 0.8  # how similar a name of another kind must be to be suggested


def nearest(name: str, known: Iterable[str], others: Iterable[str] = (), kind: str = "") -> str:
    """What to say after a name that does not exist: the names that are most like it, or the first ones that exist.

    `known` are the names of what is meant, such as inputs. Names of `others`, which are possible, too, are suggested
    only if they are almost the same. `kind` is the word for one of the known.
    """
    names = [*dict.fromkeys(filter(None, known))]
    close = get_close_matches(name, names, 3)
    if not close and name:
        close = [each for each in names if name.lower() in each.lower()][:3]
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
