"""A bar that shows the progress of a long job."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

PROGRESS_DELAY_SECONDS = 0.5


class Progress:
    """A bar on stderr, or in the cell of a notebook, which appears only if the work takes long.

    It is the `progress` of a function, and disappears at the end of the `with` statement that it is made for:

        with formats.Progress() as bar:
            formats.convert("model.onnx", "model.onnxz", progress=bar)
    """

    def __init__(self) -> None:
        self._started = perf_counter()
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are done."""
        if self._bar is None:
            if perf_counter() - self._started < PROGRESS_DELAY_SECONDS or done >= total:
                return
            self._bar = new_bar()
        self._bar.update(self._bar.task_ids[0], completed=done, total=total, refresh=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


class JobProgress(Progress):
    """A bar for many conversions, which can be hidden while other lines are printed."""

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` conversions are done."""
        if self._bar is None and perf_counter() - self._started >= PROGRESS_DELAY_SECONDS and done < total:
            self._bar = new_bar(of_bytes=False)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total, refresh=True)

    def hide(self) -> None:
        """Hide the bar until more is done."""
        self.close()
        self._bar = None


def new_bar(*, of_bytes: bool = True) -> Any:
    """A bar for bytes, or for whole models, that is on the terminal until it is stopped."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    of_models = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    bar = Progress(
        *(columns if of_bytes else of_models), console=Console(stderr=True), auto_refresh=False, transient=True
    )
    bar.add_task("")
    bar.start()
    return bar
