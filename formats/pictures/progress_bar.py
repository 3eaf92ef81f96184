"""A bar that shows the progress of a long job."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from operator import sub
from threading import Event, RLock
from time import perf_counter
from typing import TYPE_CHECKING, Any

from formats.tensordata.file import TRAFFIC, Amounts
from formats.tensordata.threads import InThread, started
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

PROGRESS_DELAY_SECONDS = 0.5
WATCH_SECONDS = 0.1
TEXTS_CELLS, LEAST_BAR_CELLS, MOST_BAR_CELLS = 36, 5, 40  # of the texts next to the bar, and of the bar
NARROW_CELLS = 60  # a terminal with less does not show the speed


class Progress:
    """A bar on stderr, or in the cell of a notebook, which appears only if the work takes long.

    It is the `progress` of a function, and disappears at the end of the `with` statement that it is made for:

        with formats.Progress() as bar:
            formats.convert("model.onnx", "model.onnxz", progress=bar)

    Until the function knows how much there is to do, the bar says that it works, and for how long.
    """

    def __init__(self, words: Callable[[bool], str] = lambda is_known: "") -> None:
        """`words` returns what to say next to the bar; it gets whether the amount of work is known."""
        self._words = words
        self._quiet_since = perf_counter()  # the start, or the end of the last pause
        self._moved_before = TRAFFIC.amounts
        self._bar: Any = None
        self._nbytes_done, self._total_nbytes = 0, 0
        self._pauses = 0  # that have not ended
        self._lock = RLock()  # guards everything above
        self._is_seen = True  # until the contrary is known
        self._ended = Event()
        self._watch: InThread[None] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` bytes are done."""
        with self._lock:
            self._nbytes_done, self._total_nbytes = done, total
            if self._bar is not None or not (self._is_early() or done >= total or self._pauses):
                self._show()

    def __enter__(self) -> Self:
        self.watch()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch(self) -> None:
        """From now on, show after a while that something is done, even if nobody calls this object."""
        import rich.progress  # noqa: F401 - not in the thread, which could see parts of modules that others import

        self._watch = started(self._show_later)

    def _show_later(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            with self._lock:
                if not (self._pauses or self._ended.is_set() or (self._bar is None and self._is_early())):
                    self._show()
                if self._bar is not None and self._bar.console.is_jupyter:
                    return  # what the cell prints meanwhile must not go into the bar

    def _is_early(self) -> bool:
        """Whether a new bar would come just after the start or a line, which may be the last one of the command."""
        return perf_counter() - self._quiet_since < PROGRESS_DELAY_SECONDS

    def _show(self) -> None:
        """Show the state of the work, on a new bar if there is none; without a bar if the terminal has gone."""
        try:
            if self._bar is None and self._is_seen:
                self._bar = new_bar(self._text)
                self._is_seen = self._bar is not None
            if self._bar is None:
                return
            if self._nbytes_done < self._total_nbytes:
                show_amount(self._bar, self._nbytes_done, self._total_nbytes)
            elif (moved := self._moved()).sent:
                show_amount(self._bar, moved.sent, moved.to_send)
            else:
                show_amount(self._bar, 0, None)
        except OSError:
            self._bar, self._is_seen = None, False

    def _moved(self) -> Amounts:
        """What was received and sent since the bar was made."""
        return Amounts(*map(sub, TRAFFIC.amounts, self._moved_before))

    def _text(self, is_known: bool) -> str:
        """What to say next to the bar."""
        moved = self._moved()
        if (words := self._words(is_known)) or is_known:
            return words or ("sending" if moved.sent else "")
        return f"working, received {in_units(moved.received)}" if moved.received else "working"

    def hide(self) -> None:
        """Remove the bar for now, so that other lines can be printed."""
        with self._lock:
            if self._bar is not None:
                with suppress(OSError):  # the terminal has gone
                    self._bar.stop()
            self._bar = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """A context without a bar, for a question on the terminal or other lines."""
        with self._lock:
            self._pauses += 1
            self.hide()
        try:
            yield
        finally:
            with self._lock:
                self._pauses -= 1
                self._quiet_since = perf_counter()

    def close(self) -> None:
        """Remove the bar, and stop watching."""
        self._ended.set()
        if self._watch is not None:
            self._watch.wait()
        self.hide()


def new_bar(words: Callable[[bool], str]) -> Any:
    """A bar for bytes that is on the terminal until it is stopped, or `None` if stderr is no terminal and no cell.

    While the total is unknown, it moves to and fro, and shows the time since it appeared.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        Task,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.table import Column
    from rich.text import Text

    class Words(ProgressColumn):
        """The words."""

        def render(self, task: Task) -> Text:
            return Text(words(task.total is not None), no_wrap=True)

    class When(ProgressColumn):
        """One of two columns: for a known total, and for an unknown one."""

        def __init__(self, known: ProgressColumn | None, unknown: ProgressColumn | None = None) -> None:
            super().__init__(Column(no_wrap=True))
            self.columns = unknown, known

        def render(self, task: Task) -> Any:
            column = self.columns[task.total is not None]
            return Text() if column is None else column.render(task)

    console = Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    bar = Progress(
        BarColumn(min(max(console.width - TEXTS_CELLS, LEAST_BAR_CELLS), MOST_BAR_CELLS)),
        Words(Column(no_wrap=True)),
        When(DownloadColumn(), TimeElapsedColumn()),
        *([When(TransferSpeedColumn())] if console.width >= NARROW_CELLS else []),
        When(TimeRemainingColumn()),
        console=console,
        auto_refresh=not console.is_jupyter,  # a cell's output belongs to the thread that runs the cell
        transient=True,
        redirect_stdout=False,  # `hide` makes room for what is printed, which stays in its stream
        redirect_stderr=False,
    )
    bar.add_task("", total=None)
    bar.start()
    return bar


def show_amount(bar: Any, done: int, total: int | None) -> None:
    """Show the state of the work on a bar; the total may be unknown."""
    (task,) = bar.tasks
    task.total = total  # `update` cannot say that it is unknown
    bar.update(task.id, completed=done, refresh=True)
