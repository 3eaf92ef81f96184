"""Prints texts and reports, and remembers what could not be printed."""

from __future__ import annotations

import errno
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from formats.cli import waiting
from formats.cli.columns import fitted, printable
from formats.cli.streams import CLOSED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

UNPRINTED: dict[TextIO, OSError] = {}
"""The streams that did not take a text of the command, each with the error. They get no further text."""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text` at once; on stdout by default. An error of the stream does not stop the work (`UNPRINTED`)."""
    stream = sys.stdout if stream is None else stream
    if stream in UNPRINTED:
        return
    if stream in CLOSED:
        UNPRINTED[stream] = OSError(errno.EBADF, os.strerror(errno.EBADF))
        return
    try:
        with waiting.paused():
            print(text, file=stream, flush=True)
    except OSError as error:
        UNPRINTED[stream] = error


def is_unreadable(stream: TextIO) -> bool:
    """Whether nobody can read a stream that did not take a text: it is closed, or its reader or terminal has gone."""
    number = UNPRINTED[stream].errno
    if number == errno.EIO:  # of a disk, or of a terminal that was closed
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    return stream in CLOSED or number in (errno.EPIPE, errno.EINVAL)  # the second is how Windows reports a closed pipe


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
