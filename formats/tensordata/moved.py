"""What this process has received from streams and stores and sent to them, and how often it began to replace files.

They pass before and after the work of the engine, which knows its own progress. So a sign of work shows these numbers.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple


class Amounts(NamedTuple):
    """Numbers of bytes; `to_send` are all that will be sent, as far as is known.

    `publications` is how often files began to take their places; before, other programs see nothing of what is written.
    """

    received: int = 0
    sent: int = 0
    to_send: int = 0
    publications: int = 0


class _Moved:
    """The bytes since the start of the process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.amounts = Amounts()

    def add(self, received: int = 0, sent: int = 0, to_send: int = 0) -> None:
        """Count bytes."""
        self._add(received, sent, to_send, 0)

    def publish(self) -> None:
        """Count that files begin to take their places."""
        self._add(0, 0, 0, 1)

    def _add(self, *more: int) -> None:
        with self._lock:
            self.amounts = Amounts(*map(sum, zip(self.amounts, more, strict=True)))


MOVED = _Moved()
