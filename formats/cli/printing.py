"""Prints texts and reports."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

from formats.cli import waiting
from formats.cli.columns import fitted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text` at once; on stdout by default.

    Raises: BrokenPipeError if the reader has closed the pipe.
    """
    try:
        with waiting.paused():
            print(text, file=stream, flush=True)
    except OSError as error:
        if error.errno == errno.EINVAL:  # Windows reports it so
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from None
        raise


def json_text(report: dict[str, Any]) -> str:
    """The JSON text for programs."""
    import json  # only this function needs it

    return json.dumps(report, indent=2)


def show(report: dict[str, Any] | Iterable[str], stream: TextIO | None = None) -> None:
    """Print a report for programs as JSON, one for people as lines that fit the terminal; on stdout by default."""
    if isinstance(report, dict):
        say(json_text(report), stream)
        return
    say(printable(fitted(report)), stream)
