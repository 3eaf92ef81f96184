"""Functions in threads of their own, and the one guard that these need where memory is limited.

`Thread.start` waits until the new thread says that it runs. Without memory, the new thread can end before it says so,
and then `start` never returns (seen with Python 3.11, read in the source of 3.10 to 3.13). So a thread is started only
if there is room for it; who finds none does the work itself.
"""

from __future__ import annotations

import mmap
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

# The addresses that must be free before a thread starts: its stack takes 8 MiB, and the allocator of its memory, for a
# moment, 128 MiB.
ROOM_BYTES = 160 << 20


class InThread(Thread, Generic[T]):
    """A thread with the result of its function. A process that ends does not wait for it."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._result: T | None = None
        # until the function has returned: a thread without memory may end before, and say nothing
        self._error: BaseException | None = MemoryError()

    def run(self) -> None:
        """Run the function, and keep its result or its error."""
        try:
            self._result = self._function()
            self._error = None
        except BaseException as error:  # raised by `result`
            # without this frame, which refers to this object, which refers to the error
            self._error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the function has ended; wait for it at most this long, or as long as it takes."""
        if self.is_alive():
            self.join(seconds)
        return not self.is_alive()

    def result(self) -> T:
        """What the function returned; wait for it. Raises: what the function raised."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error refers to this frame
        return self._result  # type: ignore[return-value]  # the function has returned it


def started(function: Callable[[], T]) -> InThread[T] | None:
    """The thread of a function, which has begun; `None` if the system has no room for it."""
    thread = InThread(function)
    try:
        mmap.mmap(-1, ROOM_BYTES).close()
        thread.start()
    except (OSError, MemoryError, RuntimeError):
        return thread if thread.is_alive() else None
    return thread


def started_or_done(function: Callable[[], T]) -> InThread[T]:
    """The thread of a function, which has begun; if the system has no room for it, this thread has run the function."""
    thread = started(function)
    if thread is None:
        thread = InThread(function)
        thread.run()
    return thread
