"""Runs the commands in the process of the tests."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from formats.cli import process


class Done(NamedTuple):
    """The exit code and the output of a command."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """The text of stdout and stderr together."""
        return self.stdout + self.stderr


def run(program: str, *arguments: str | Path) -> Done:
    """Run `program` with these arguments; return its exit code and output."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = process.run(program, [*map(str, arguments)])
    said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Done(code, *said)
