"""Prints texts, in characters that the terminal can show."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text` at once; on stdout by default.

    Raises: BrokenPipeError if the reader has closed the pipe.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        if error.errno == errno.EINVAL:  # as Windows says it
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise


def json_text(report: dict[str, Any]) -> str:
    """The JSON text for programs."""
    import json  # which nobody else needs

    return json.dumps(report, indent=2)


def printable(lines: Iterable[str]) -> str:
    """The lines in characters that a terminal shows and does not obey; file and node names can have any characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    shown = (
        "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
        for line in lines
    )
    return "\n".join(shown).encode(encoding, "backslashreplace").decode(encoding)


def show(report: dict[str, Any] | Iterable[str], stream: TextIO | None = None) -> None:
    """A report for programs is printed as JSON, one for people as lines that fit the terminal; on stdout by default."""
    if isinstance(report, dict):
        say(json_text(report), stream)
        return
    from formats.cli.columns import fitted

    say(printable(fitted(report)), stream)
