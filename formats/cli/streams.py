"""The standard streams of the process, and `-` on a command line: the model on stdin, or stdout for the model."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

from formats.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

STREAM = "-"
STANDARD = {"stdin": "r", "stdout": "w", "stderr": "w"}  # in the order of their descriptors, with the mode of each
CLOSED: set[object] = set()  # the streams with which the process was started closed; they are now the null device


def make_usable() -> None:
    """Open closed standard streams on the null device, and let the others escape what their encoding lacks.

    If they stay closed, a file of the work gets the descriptor of a closed stream, and what is printed goes into it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) < len(STANDARD):
        pass  # a new descriptor has the lowest free number
    os.close(number)
    for name, mode in STANDARD.items():
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - open to the end of the process
            CLOSED.add(stream)
            setattr(sys, name, stream)
        elif isinstance(stream := getattr(sys, name), io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace" if mode == "w" else "surrogateescape")


def source_of(text: str) -> Path:
    """The model to read, from a typed path.

    Raises: OptionError for a stdin that has no model.
    """
    if text != STREAM:
        return _typed(text)
    check_stdin("no model")
    if sys.stdin.isatty():
        raise OptionError("stdin is a terminal, which has no model; send one through a pipe, or give a path")
    return _named(sys.stdin.buffer, "<stdin>")


def destination_of(text: str) -> Path:
    """The path of a model to write, from a typed path.

    Raises: OptionError if stdout is closed.
    """
    if text != STREAM:
        return _typed(text)
    if sys.stdout in CLOSED:
        raise OptionError("stdout is closed, so nothing can be written to -")
    sys.stdout.flush()
    stream = open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115 - nobody closes stdout
    return _named(stream, "<stdout>", is_terminal=stream.isatty())


def is_stdout(text: str) -> bool:
    """Whether a typed destination means stdout, which reports would then disturb."""
    if text == STREAM:
        return True
    try:
        return sys.stdout not in CLOSED and os.path.samestat(os.stat(text), os.fstat(sys.stdout.fileno()))  # noqa: PTH116
    except (OSError, ValueError):
        return False


def check_stdin(what: str) -> None:
    """Raises OptionError if stdin is closed; `what` is what it cannot give."""
    if sys.stdin in CLOSED:
        raise OptionError(f"stdin is closed, so {what} can be read from -")


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
