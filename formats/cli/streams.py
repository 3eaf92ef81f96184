"""The standard streams of the process: `-` on a command line, what is printed, and the sign of work."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from formats.cli.columns import cut, fitted, printable
from formats.cli.error_text import OptionWords, describe, in_flags, traceback_lines
from formats.errors import OptionError
from formats.pictures.progress_bar import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import TextIO

    from formats.cli.command_line import Request

STREAM = "-"
STANDARD = {"stdin": "r", "stdout": "w", "stderr": "w"}  # in the order of their descriptors, with the mode of each
CLOSED: set[object] = set()  # the streams with which the process was started closed; they are now the null device
UNPRINTED: dict[TextIO, OSError] = {}
"""The streams that did not take a text of the command, each with the error. They get no further text."""


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


# Texts and reports


class Report(Protocol):
    """The result of a verb."""

    def to_json(self) -> dict[str, Any]:
        """The result in strings, numbers, lists and dictionaries."""


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text` at once; on stdout by default. An error of the stream does not stop the work (`UNPRINTED`)."""
    stream = sys.stdout if stream is None else stream
    if stream in UNPRINTED:
        return
    if stream in CLOSED:
        UNPRINTED[stream] = OSError(errno.EBADF, os.strerror(errno.EBADF))
        return
    try:
        with paused():
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


def tell(request: Request, report: Report, lines: Callable[[], Iterable[str]], *, quiet: bool | None = None) -> None:
    """Print a result as the user wants it: not at all, as JSON, or in lines, with options as flags.

    It goes to stdout, or to stderr if a model goes to stdout. `quiet` replaces the option.
    """
    if request.output.get("quiet") if quiet is None else quiet:
        return
    stream = sys.stderr if request.stdout_is_taken else None
    if request.output.get("json"):
        show(report.to_json(), stream)
    else:
        show(as_flags(request, lines()) if stream is None else map(cut, as_flags(request, lines())), stream)


def as_flags(request: Request, lines: Iterable[str]) -> Iterator[str]:
    """The lines of a result with flags for the options that they name."""
    words = OptionWords(request.words.rows)  # a result names no option because it was typed
    return (in_flags(line, words) for line in lines)


def say_error(request: Request, error: BaseException, source: Path) -> None:
    """Print the error of one of several files; it begins with the name of the file."""
    if request.output.get("debug"):
        say(printable(traceback_lines(error)), sys.stderr)
    first, *reasons = describe(error, request.words)
    first = first if first.startswith(str(source)) else f"{source}: {first}"
    say("\n".join(map(cut, [f"error: {first}", *reasons])), sys.stderr)


# The sign of work


class _Shown:
    """The bar of the command that runs, if it has one."""

    bar: ClassVar[Progress | None] = None


@contextmanager
def sign_of_work(*, wanted: bool) -> Iterator[None]:
    """A context in which a bar appears on stderr if the work takes long, it is wanted and stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    _Shown.bar = Progress()
    try:
        _Shown.bar.watch()
        yield
    finally:
        _Shown.bar.close()
        _Shown.bar = None


def progress() -> Progress | None:
    """The bar of the command, which is the `progress` of what it does."""
    return _Shown.bar


def replace_bar(other: Progress) -> bool:
    """Whether the command has a bar; then it is now the `other` one, which is called by the work itself.

    The thread of the old bar has ended, so that this process can be copied.
    """
    if _Shown.bar is None:
        return False
    _Shown.bar.close()
    _Shown.bar = other
    return True


@contextmanager
def paused() -> Iterator[None]:
    """A context without a bar, for a question on the terminal or other lines."""
    if _Shown.bar is None:
        yield
        return
    with _Shown.bar.paused():
        yield
