"""Tests of the commands on other systems, which are emulated: Windows has its own signals and closed pipes."""

from __future__ import annotations

import errno
import io
import signal
from pathlib import Path

import pytest

from formats.cli import process, streams
from tests.systems import posix


class Refusing(io.StringIO):
    """A stream that fails when something writes to it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.tries = 0

    def write(self, text: str) -> int:
        """Fail."""
        self.tries += 1
        raise OSError(self.number, "refused")


def test_a_closed_pipe_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows reports "invalid argument" if the reader has stopped; with another error, somebody could still read."""
    monkeypatch.setattr(streams, "UNPRINTED", {})
    for number, is_gone in ((errno.EINVAL, True), (errno.EPIPE, True), (errno.ENOSPC, False)):
        stream = Refusing(number)
        for _ in range(2):  # the second text is not even tried
            streams.say("text", stream)
        assert (is_gone, 1) == (streams.is_unreadable(stream), stream.tries)


@posix
def test_ctrl_break_of_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system has a signal for Ctrl+Break, it stops the command like Ctrl+C; the old handler is put back."""
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(process.Stopped) as caught, process.stoppable():
        signal.raise_signal(signal.SIGUSR1)
    assert signal.SIGUSR1 == caught.value.number
    assert before is signal.getsignal(signal.SIGUSR1)


def test_patterns_are_for_shells_but_on_windows(monkeypatch: pytest.MonkeyPatch, digits: Path) -> None:
    """If the shells of a system do not expand patterns, the command does; a pattern without a match stays as it is."""
    pattern = str(digits.with_name("*.onnx"))
    assert [pattern, "x*"] == process.expanded([pattern, "x*"])
    monkeypatch.setattr("os.name", "nt")
    try:
        names = process.expanded([pattern, "no-such-*.file", "-q"])
    finally:
        monkeypatch.undo()
    assert [str(digits), "no-such-*.file", "-q"] == names
