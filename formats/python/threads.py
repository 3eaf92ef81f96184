"""Functions in threads of their own, which keep nobody waiting if they cannot begin.

`threading.Thread.start` waits until the new thread says that it runs. At a limit of memory, the new thread can end
before it says so, and then `start` never returns (seen with Python 3.11, read in the source of 3.10 to 3.13). The same
holds for `ThreadPoolExecutor`. Here, nobody waits for a thread to begin: who needs the result runs the function.
"""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread
from threading import active_count
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

T = TypeVar("T")

_ALIVE: set[InThread[Any]] = set()  # started, and not at their end

BEGIN_SECONDS = 5.0  # a thread that has not begun by then is not waited for; usually it takes some microseconds
WAIT_SECONDS = 1.0  # how often one who waits without a limit looks whether the function has ended


class InThread(Generic[T]):
    """A function that runs once: in a thread of its own, or in the first thread that waits for it.

    The latter happens if the thread was not started, if the system allows no further one, or if it does not begin in
    `BEGIN_SECONDS`.
    A process that ends does not wait for such threads.
    """

    __slots__ = ("_began", "_claim", "_ended", "_error", "_function", "_is_started", "_result", "has_ended")

    def __init__(self, function: Callable[[], T]) -> None:
        """Prepare the thread, which does not run yet."""
        self._function = function
        self._claim = allocate_lock()  # the thread that takes it runs the function
        self._began, self._ended = allocate_lock(), allocate_lock()  # released when that happens
        self._began.acquire()
        self._ended.acquire()
        self.has_ended = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._is_started = False

    def start(self) -> Self:
        """Start the thread, if the system allows one more, and return this object."""
        _ALIVE.add(self)
        try:
            start_new_thread(self._run, ())
        except (RuntimeError, MemoryError):
            _ALIVE.discard(self)
        else:
            self._is_started = True
        return self

    def _run(self) -> None:
        """Run the function, unless another thread does."""
        is_mine = False
        try:
            is_mine = self._claim.acquire(False)
            if is_mine:
                self._began.release()
                self._result = self._function()
        except BaseException as error:  # raised by `result`
            # without this frame, which refers to this object, which refers to the error
            self._error = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        finally:
            if is_mine:
                _ALIVE.discard(self)
                self.has_ended = True
                self._ended.release()

    def wait(self, seconds: float = -1) -> bool:
        """Whether the function has ended; wait for it at most this long, or as long as it takes."""
        if not self.has_ended:
            if self._is_started and self._began.acquire(timeout=BEGIN_SECONDS):
                self._began.release()
            else:
                self._run()
        if seconds >= 0:
            return self.has_ended or self._wait(seconds)
        while not self.has_ended:
            self._wait(WAIT_SECONDS)
        return True

    def _wait(self, seconds: float) -> bool:
        if self._ended.acquire(timeout=seconds):
            self._ended.release()  # for others who wait
        return self.has_ended

    def result(self) -> T:
        """What the function returned; wait for it. Raises: what the function raised."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error refers to this frame
        return self._result  # type: ignore[return-value]  # the function has returned it


def is_alone() -> bool:
    """Whether the process has no other thread than the one that asks."""
    return active_count() == 1 and not _ALIVE
