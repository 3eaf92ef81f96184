"""How much of many conversions is done, also of those that other processes do now."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from formats.tensordata.file import is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from formats.batch.job import JobResult, Task

TELL_SECONDS = 0.1


class Amount:
    """The bytes that are done and to do, of all jobs; `counts` has both for each job, and its process writes them."""

    def __init__(self, progress: Callable[[int, int], None], sources: Sequence[Path]) -> None:
        from multiprocessing.sharedctypes import RawArray  # takes a while, and is not always needed

        self._progress = progress
        self.counts: Any = RawArray("q", 2 * len(sources))
        for number, source in enumerate(sources):
            self.counts[2 * number + 1] = _nbytes(source)
        self._called_at = 0.0

    @classmethod
    def of(cls, progress: Callable[[int, int], None] | None, sources: Sequence[Path]) -> Amount | None:
        """The amount, or `None` if nobody asks for progress."""
        return None if progress is None else cls(progress, sources)

    def with_progress(self, task: Task) -> Task:
        """The task, which also calls the function for progress; for a conversion in this process."""
        return with_progress(self.counts, task, self.call)

    def ended(self, found: Iterable[tuple[Task, JobResult]]) -> Iterator[tuple[Task, JobResult]]:
        """The same results; each of these jobs counts as done, however it ended."""
        for task, result in found:
            self.counts[2 * task.number] = self.counts[2 * task.number + 1]
            self.call()
            yield task, result

    def call(self) -> None:
        """Call the function for progress, but not too often."""
        if perf_counter() - self._called_at >= TELL_SECONDS:
            values = self.counts[:]
            self._progress(sum(values[::2]), sum(values[1::2]))
            self._called_at = perf_counter()


def with_progress(counts: Any, task: Task, call: Callable[[], None] = lambda: None) -> Task:
    """The task, whose conversion writes into `counts` how far it is."""

    def progress(done: int, total: int) -> None:
        counts[2 * task.number : 2 * task.number + 2] = done, total
        call()

    return task._replace(keywords={**task.keywords, "progress": progress})


def _nbytes(source: Path) -> int:
    """The size of a source, if it is known without a request."""
    try:
        return 0 if is_address(source) else os.stat(source).st_size  # noqa: PTH116 - there can be many
    except OSError:
        return 0
