"""The command `convert` as a process: what it does, says and answers to signals, and how it ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.cli.progress_bar import Progress
from formats.cli.wording import describe, error_to_json, json_text, printable, summary
from formats.collector import rest_at_exit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import TextIO

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_SIGNAL = 128  # and the number of the signal, as shells have it
STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> None:
    """The command `convert`, as a process of its own."""
    rest_at_exit()
    arguments = sys.argv[1:]
    # Where there is nothing to parse, typer is not imported, which takes as long as converting a small model. On
    # Windows, where shells leave patterns to programs, it is.
    if len(arguments) == 2 and not any(argument.startswith("-") for argument in arguments) and os.name != "nt":
        convert_plainly(*map(Path, arguments))
    else:
        from formats.cli.convert_command import app

        app(prog_name="convert")


def convert_plainly(src: Path, dst: Path) -> None:
    """What `convert SRC DST` does, without any option."""
    try:
        with reported_errors(), stoppable():
            run(src, dst, {}, "text")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python writes what is left of it at the end
        raise SystemExit(EXIT_FAILURE) from None


class Stopped(BaseException):
    """A signal asked the process to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Signals that would end the process raise `Stopped` instead, once, so that the engine can clean up."""
    if threading.current_thread() is not threading.main_thread():  # only it can have handlers
        yield
        return
    numbers = [getattr(signal, name) for name in STOPPING_SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as `nohup` sets it
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reported_errors(
    as_json: bool = False, debug: bool = False, *, program: str = "convert", failure: int = EXIT_FAILURE
) -> Iterator[None]:
    """Every error becomes a line on stderr, a JSON object on stdout if wanted, and an exit code."""
    try:
        yield
    except BrokenPipeError:  # nobody reads on
        raise
    except (Exception, Stopped) as error:
        if debug:
            import traceback

            traceback.print_exc()
        say(printable(f"{program}: error: {describe(error)}".split("\n")), sys.stderr)
        if as_json:
            with suppress(OSError):  # it may be what failed
                say(json_text({"error": error_to_json(error)}))
        raise SystemExit(exit_code(error, failure)) from error


def run(src: Path, dst: Path, options: dict[str, Any], output: str) -> None:
    """Convert, and print the report as `output` says: as "json", as "text" or not at all."""
    progress = Progress() if output == "text" and sys.stderr.isatty() else None
    from formats import conversion

    try:
        report = conversion.convert(src, dst, progress=progress, **options)
    finally:
        if progress is not None:
            progress.close()
    if output:
        say(json_text(report.to_json()) if output == "json" else printable(summary(report)))


def exit_code(error: BaseException, failure: int = EXIT_FAILURE) -> int:
    """The exit code that tells what kind of error it was."""
    if isinstance(error, Stopped):
        return EXIT_SIGNAL + error.number
    from formats.conversion import OptionError

    return EXIT_USAGE if isinstance(error, OptionError) else failure


def say(text: str, stream: TextIO | None = None) -> None:
    """Print `text`, at once; on stdout unless something else is said."""
    print(text, file=stream, flush=True)
