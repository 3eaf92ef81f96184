"""The sign on a terminal that a command still works."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from formats.pictures.progress_bar import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Shown:
    """The bar of the command that runs, if it has one."""

    bar: ClassVar[Progress | None] = None


@contextmanager
def sign_of_work(*, wanted: bool) -> Iterator[None]:
    """A context in which a bar appears on stderr if the work takes long, it is wanted and stderr is a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield
        return
    _Shown.bar = Progress()
    try:
        _Shown.bar.watch()
        yield
    finally:
        _Shown.bar.close()
        _Shown.bar = None


def progress() -> Progress | None:
    """The bar of the command, which is the `progress` of what it does."""
    return _Shown.bar


def replace_bar(other: Progress) -> bool:
    """Whether the command has a bar; then it is now the `other` one, which is called by the work itself.

    The thread of the old bar has ended, so that this process can be copied.
    """
    if _Shown.bar is None:
        return False
    _Shown.bar.close()
    _Shown.bar = other
    return True


@contextmanager
def paused() -> Iterator[None]:
    """A context without a bar, for a question on the terminal or other lines."""
    if _Shown.bar is None:
        yield
        return
    with _Shown.bar.paused():
        yield
