"""Programs on a terminal of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from select import select


def on_terminal(start: Callable[[int], subprocess.Popen[bytes]]) -> tuple[int, str]:
    """Start a program with the descriptor of a new terminal; return its exit code and what the terminal shows."""
    import pty

    main, end = pty.openpty()
    process = start(end)
    shown = b""
    while process.poll() is None or select([main], [], [], 0.2)[0]:
        if select([main], [], [], 0.05)[0]:
            shown += os.read(main, 65536)
    os.close(end)  # only now: Linux may lose the last words of a terminal that nobody has open
    os.close(main)
    return process.wait(), shown.decode()
