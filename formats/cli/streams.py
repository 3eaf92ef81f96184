"""`-` on a command line: the model on stdin, or stdout for the model."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from formats.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "-"


def source_of(text: str) -> Path:
    """The model to read, from a typed path.

    Raises: OptionError for a stdin that has no model.
    """
    if text != STREAM:
        return _typed(text)
    if sys.stdin is None:
        raise OptionError("stdin is closed, so no model can be read from -")
    if sys.stdin.isatty():
        raise OptionError("stdin is a terminal, which has no model; send one through a pipe, or give a path")
    return _named(sys.stdin.buffer, "<stdin>")


def destination_of(text: str) -> Path:
    """The path of a model to write, from a typed path.

    Raises: OptionError if stdout is closed.
    """
    if text != STREAM:
        return _typed(text)
    if sys.stdout is None:
        raise OptionError("stdout is closed, so nothing can be written to -")
    sys.stdout.flush()
    stream = open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115 - nobody closes stdout
    return _named(stream, "<stdout>", is_terminal=stream.isatty())


def is_stdout(text: str) -> bool:
    """Whether a typed destination means stdout, which reports would then disturb."""
    if text == STREAM:
        return True
    try:
        return sys.stdout is not None and os.path.samestat(os.stat(text), os.fstat(sys.stdout.fileno()))  # noqa: PTH116
    except (OSError, ValueError):
        return False


def check_single(arguments: list[str]) -> None:
    """Raises OptionError if - is one of several models."""
    if STREAM in arguments:
        raise OptionError("- stands for a single model, but there are several, or a folder; ./- is a file of that name")


def _typed(text: str) -> Path:
    from formats.tensordata.file import or_stream
    from formats.verbs.arguments import path_of

    return or_stream(path_of(text))


def _named(stream: object, name: str, *, is_terminal: bool = False) -> Path:
    """The path that means a stream of this process."""
    from formats.tensordata.streams import Stream

    return Stream(name, stream, is_terminal=is_terminal)
