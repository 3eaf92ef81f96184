"""Short tables in HTML, which notebooks show for models and reports."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHOWN_ROWS = 12
MAX_TEXT = 300  # letters of a cell
SHOWN_WORDS = 8  # of a list in a cell


def table(title: str, subject: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table with two columns under a title and its subject. Each text is shown as text, whatever it contains."""
    body = "".join(_row(name, text) for name, text in rows)
    return f"<table><thead>{_row(title, subject)}</thead><tbody>{body}</tbody></table>"


def first_words(words: Sequence[str], most: int = SHOWN_WORDS) -> str:
    """The first of some words, and how many more there are."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return f"{', '.join(words[:most])}{more}"


def _row(name: str, text: str) -> str:
    """A row; its texts are on the left: JupyterLab would put them on the right, like numbers."""
    look = 'style="text-align:left"'
    return f"<tr><th {look}>{_shown(name)}</th><td {look}>{_shown(text)}</td></tr>"


def first_rows(
    rows: Sequence[tuple[str, str]], count: int | None = None, most: int = SHOWN_ROWS
) -> Iterable[tuple[str, str]]:
    """The first rows, and how many more there are of `count`, or of all rows."""
    yield from islice(rows, most)
    more = (len(rows) if count is None else count) - min(len(rows), most)
    if more > 0:
        yield "", f"and {more:,} more"


def _shown(text: str) -> str:
    short = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return escape("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in short))
