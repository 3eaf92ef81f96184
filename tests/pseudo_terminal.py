"""Programs on a terminal of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from select import select

LAST = b"<the terminal has shown all>"


def on_terminal(start: Callable[[int], subprocess.Popen[bytes]]) -> tuple[int, str]:
    """Start a program with the descriptor of a new terminal; return its exit code and what the terminal shows."""
    import pty

    main, end = pty.openpty()
    process = start(end)
    shown = b""
    while process.poll() is None:
        if select([main], [], [], 0.05)[0]:
            shown += os.read(main, 65536)
    shown += last_words(main, end)
    os.close(end)  # only now: Linux may lose the last words of a terminal that nobody has open
    os.close(main)
    return process.wait(), shown.decode()


def last_words(main: int, end: int) -> bytes:
    """Return all that a terminal has still to show of a program that has ended.

    The kernel hands it on in pieces, some time after the program has ended. What is written after it comes after it.
    """
    os.write(end, LAST)
    shown = b""
    while not shown.endswith(LAST):
        shown += os.read(main, 65536)
    return shown.removesuffix(LAST)
