"""Runs the commands as processes: their work, output, reaction to signals, and exit codes."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from formats.cli import advice, several
from formats.cli.columns import cut, printable
from formats.cli.command_line import EXIT_FAILURE, Request
from formats.cli.error_text import NO_WORDS, describe, error_to_json, traceback_lines
from formats.cli.streams import CLOSED, STREAM, UNPRINTED, is_unreadable, json_text, make_usable, say, sign_of_work
from formats.cli.typer_commands import CONVERT_COMMAND, understood
from formats.errors import OptionError
from formats.tensordata.file import TRAFFIC

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType
EXIT_USAGE = 2
EXIT_SIGNAL = 128  # plus the number of the signal, as in shells
STOPPING_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # the last is Ctrl+Break on Windows


def main(program: str) -> None:
    """Run the command `program` as a process."""
    make_usable()
    out_of_memory = f"{program}: error: there is not enough memory\n".encode()  # created while there is memory
    try:
        code = run(program, expanded(sys.argv[1:]))
    except MemoryError:  # there is too little memory to report this like other errors
        with suppress(OSError):
            os.write(2, out_of_memory)
        code = EXIT_FAILURE
    for stream in UNPRINTED:  # Python writes the rest at the end, and the exit code would be that of this error
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if code > EXIT_SIGNAL:
        _end_at_once(code)
    raise SystemExit(code)


def _end_at_once(code: int) -> None:
    """End the process, which has cleaned up, without waiting for threads that still wait for a store."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # it may be closed
            stream.flush()
    os._exit(code)


def run(program: str, texts: Sequence[str]) -> int:
    """Do the work of the command `program`, report it, and return the exit code.

    `convert` is the verb of that name; `formats` begins with a verb.
    """
    outcome = Outcome(program, texts)
    UNPRINTED.clear()
    with reported_errors(outcome), stoppable():
        if program == CONVERT_COMMAND and (words := advice.for_other_program(texts)):
            raise OptionError(words)
        request = understood(program, texts)
        if request is not None:
            perform(request, outcome)
    report_unprinted(outcome)
    return outcome.code


class Outcome:
    """The state of a command: how to report it, the request as far as it is known, and the exit code."""

    def __init__(self, program: str, texts: Sequence[str]) -> None:
        self.program = program
        self.as_json = "--json" in texts
        self.debug = "--debug" in texts
        self.request: Request | None = None
        self.only_prints = True  # help and versions do
        self.failed = False
        self.failure = EXIT_FAILURE
        self.code = 0
        self._may_write_to_stdout = STREAM in texts

    @property
    def stdout_is_taken(self) -> bool:
        """Whether a model goes to stdout, or might, if there is no request yet."""
        return self._may_write_to_stdout if self.request is None else self.request.stdout_is_taken


def perform(request: Request, outcome: Outcome) -> None:
    """Do what the user requested."""
    outcome.request = request
    outcome.failure = request.verb.failure
    outcome.only_prints = request.verb.only_prints
    quiet, as_json = request.output.get("quiet"), request.output.get("json")
    if quiet and as_json:
        raise OptionError("`quiet` and `json` exclude each other")
    try:
        with sign_of_work(wanted=not (quiet or as_json)):
            outcome.code = request.verb.run(request)
    except Stopped as stopped:
        if request.verb.writes_once and not (request.has_jobs or TRAFFIC.amounts.publications or TRAFFIC.amounts.sent):
            stopped.words += "; nothing was written"
        raise


def expanded(texts: Sequence[str]) -> list[str]:
    """The arguments with patterns expanded on Windows, where shells do not expand them."""
    if os.name != "nt":
        return [*texts]
    from formats.batch.job_list import PATTERN, matching

    return [name for text in texts for name in (sorted(matching(text)) if PATTERN & {*text} else ()) or [text]]


class Stopped(BaseException):
    """A signal asked the process to stop."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.words = f"stopped by {signal.Signals(number).name}"

    def __str__(self) -> str:
        return self.words


@contextmanager
def stoppable() -> Iterator[None]:
    """Make signals that would end the process raise `Stopped` once, so that the engine can remove incomplete files."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can have handlers
        yield
        return
    numbers = [getattr(signal, name) for name in STOPPING_SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, frame: FrameType | None) -> None:
        for other in before:
            signal.signal(other, signal.SIG_IGN)
        if (running := several.Shown.running) is not None:  # it takes a while until all its processes have ended
            running.say_stopping()
        raise Stopped(number)

    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # `nohup` sets it
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def reported_errors(outcome: Outcome) -> Iterator[None]:
    """Report each error as a line on stderr, on request as a JSON object on stdout, and as an exit code."""
    try:
        yield
    except (Exception, Stopped) as error:
        outcome.failed = True
        if outcome.debug:
            say(printable(traceback_lines(error)), sys.stderr)
        words = outcome.request.words if outcome.request else NO_WORDS
        first, *reasons = describe(error, words)
        if not (outcome.as_json and outcome.stdout_is_taken):  # then stderr contains only the JSON
            say("\n".join(map(cut, [f"{outcome.program}: error: {first}", *reasons])), sys.stderr)
        if outcome.as_json:
            stream = sys.stderr if outcome.stdout_is_taken else None
            say(json_text({"error": error_to_json(error, words)}), stream)
        outcome.code = exit_code(error, outcome.failure)


def report_unprinted(outcome: Outcome) -> None:
    """Make the exit code that of a failure, and say why, if something that was to be printed was not.

    Work that is done stays done, even if nobody can read its report. A verb that only prints has then done nothing,
    and neither has one whose report a program asked for. A pipe without a reader needs no words.
    """
    is_wanted = outcome.only_prints or outcome.as_json
    for stream, error in [*UNPRINTED.items()]:
        if outcome.failed or (is_unreadable(stream) and not is_wanted):
            continue
        what = "the result" if is_wanted or outcome.code else "the work is done, but the report"
        outcome.code = outcome.failure
        if stream in CLOSED or not is_unreadable(stream):
            name = "stderr" if stream is sys.stderr else "stdout"
            why = " is closed" if stream in CLOSED else f": {error.strerror}"
            say(f"{outcome.program}: error: {name}{why}; {what} could not be printed", sys.stderr)


def exit_code(error: BaseException, failure: int = EXIT_FAILURE) -> int:
    """The exit code for a kind of error."""
    if isinstance(error, Stopped):
        return EXIT_SIGNAL + error.number
    return EXIT_USAGE if isinstance(error, OptionError) else failure
