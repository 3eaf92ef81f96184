"""Run a process and say what it took."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Container, Sequence
from pathlib import Path
from typing import NamedTuple

# Python keeps what it compiled, as it does wherever it is not told otherwise.
ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
MAXRSS_BYTES = 1 if platform.system() == "Darwin" else 1024


class RunError(Exception):
    """A process ended with an error, or its program is missing."""


class Cost(NamedTuple):
    """What a process took, and what it printed."""

    whole_seconds: float  # from start to end
    cpu_seconds: float  # on the processor
    peak_bytes: int  # of memory
    output: str


def cost(command: Sequence[str], folder: Path | None = None, accepted: Container[int] = (0,)) -> Cost:
    """What a command took in a folder, by default the working folder; `accepted` are the exit codes that are no error.

    Raises: RunError.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=ENVIRONMENT, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in accepted:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").split("\n")
            raise RunError(next(filter(str.strip, reversed(lines)), f"exit code {process.returncode}").strip())
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * MAXRSS_BYTES, text)
