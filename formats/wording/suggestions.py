"""What to do instead of something that does not exist. Only errors import this module."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from formats.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def unknown_options(names: Sequence[str], known: Iterable[str], of: str = "") -> OptionError:
    """The error for options that do not exist."""
    known = sorted(known)
    listed = " and ".join(f"`{name}`" for name in names)
    if close := get_close_matches(names[0], known, 1):
        return OptionError(f"there is no option {listed}{of}; did you mean `{close[0]}`?")
    return OptionError(f"there is no option {listed}{of}; there are {', '.join(f'`{name}`' for name in known)}")
