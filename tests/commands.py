"""The commands, run in the process of the tests."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from formats.cli import process


class Done(NamedTuple):
    """What a command returned and said."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both together."""
        return self.stdout + self.stderr


def run(program: str, *arguments: str | Path) -> Done:
    """What `program` returns and says, with these arguments."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = process.run(program, [*map(str, arguments)])
    said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Done(code, *said)
