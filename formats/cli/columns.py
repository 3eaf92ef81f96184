"""Texts as a terminal can show them: its characters, and its width. Tables are shortened, sentences are wrapped.

If the output is not a terminal, nothing is shortened or wrapped, except very long lines of errors.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NUMBERS = ("bytes", "nodes", "offset", "parameters", "tensors")  # headings of columns that are aligned to the right
LEAST_CELLS = 8  # the least width of a column
LEAST_WIDTH = 20  # of a terminal; on a narrower one, the terminal cuts lines
LEAST_NAME_CELLS = 28  # of the first column, before others are left out
MAX_LINE, MAX_WORD = 1000, 80  # characters of a line of an error, and of each word in a longer one
INDENT = "    "  # of the following lines of a long line
_SEPARATOR = re.compile(r"[./](?=.)")  # between the words of a name
_LABEL = re.compile(r" +(?:\S.{0,15}?)?  +(?=\S)")  # before a fact, or the space before another one with its label


def printable(lines: Iterable[str]) -> str:
    """The lines with escapes for characters that control a terminal; file and node names can contain any characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    shown = (
        "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
        for line in lines
    )
    return "\n".join(shown).encode(encoding, "backslashreplace").decode(encoding)


def cut(line: str) -> str:
    """A line of an error; if it is very long, its longest words are shortened: a name in a file has any length."""
    line = printable([line])
    if len(line) > MAX_LINE:
        line = " ".join(shortened(word, MAX_WORD) for word in line.split(" "))
    return line if len(line) <= MAX_LINE else f"{line[: MAX_LINE // 2]}...{line[3 - MAX_LINE // 2 :]}"


def terminal_width() -> int | None:
    """The number of cells in a line of stdout's terminal, or `COLUMNS`; `None` if stdout is not a terminal."""
    if not sys.stdout.isatty():
        return None
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, LEAST_WIDTH)


def cells(text: str) -> int:
    """The number of cells that the text takes on a terminal: two for each wide character, none for combining ones."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shortened(text: str, width: int) -> str:
    """The text, without its middle if it needs more cells than `width`.

    Of a name with modules, the last words are left, if they fill half of the width.
    """
    if cells(text) <= width:
        return text
    room = width - 3
    for match in _SEPARATOR.finditer(text, max(len(text) - room - 1, 0)):
        if (taken := cells(end := text[match.end() :])) <= room:
            if 2 * taken >= room:
                return f"...{end}"
            break
    head = _beginning(text, (room + 1) // 2)
    tail = _beginning(text[::-1], room - cells(head))[::-1]
    return f"{head}...{tail}"


def _beginning(text: str, width: int) -> str:
    """The part of the text that fits."""
    taken = used = 0
    for char in text:
        used += cells(char)
        if used > width:
            break
        taken += 1
    return text[:taken]


def table(
    heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], spare: Sequence[str] = (), *, indent: str = "  "
) -> Iterator[str]:
    """The rows under their headings, with columns of numbers aligned to the right, at most as wide as the terminal.

    On a narrow terminal, columns are left out: those with these `spare` headings, in this order. rich's tables take 30
    times as long, which is seconds for the tensors of a large model.
    """
    cells_of = [[printable([cell]) for cell in column] for column in zip(heads, *rows, strict=True)]
    columns = {head: (texts, max(map(cells, texts))) for head, texts in zip(heads, cells_of, strict=True)}
    width = terminal_width()
    left_out: list[str] = []
    if width is not None:
        for head in spare:
            first, *others = (widest for _, widest in columns.values())
            if min(first, LEAST_NAME_CELLS) + sum(others) + 2 * len(columns) <= width:
                break
            left_out.append(head)
            del columns[head]
    widths = [widest for _, widest in columns.values()]
    if width is not None:
        _narrow(widths, [head in NUMBERS for head in columns], width - 2 * len(widths))
    for row in zip(*(texts for texts, _ in columns.values()), strict=True):
        padded = (
            _padded(shortened(cell, room), room, to_the_right=head in NUMBERS)
            for head, cell, room in zip(columns, row, widths, strict=True)
        )
        yield f"{indent}{'  '.join(padded)}".rstrip()
    if left_out:
        yield f"{indent}(a wider terminal also shows: {', '.join(left_out)})"


def fits(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> bool:
    """Whether a table shows every cell whole."""
    width = terminal_width()
    widest = (max(cells(printable([cell])) for cell in column) for column in zip(heads, *rows, strict=True))
    return width is None or sum(widest) + 2 * len(heads) <= width


def _narrow(widths: list[int], numeric: Sequence[bool], room: int) -> None:
    """Make the widest text columns narrower until all fit into the width or have their least width."""
    flexible = [n for n, is_number in enumerate(numeric) if not is_number]
    while sum(widths) > room:
        widest = max(flexible, key=lambda n: widths[n], default=None)
        if widest is None or widths[widest] <= LEAST_CELLS:
            return
        second = max((widths[n] for n in flexible if widths[n] < widths[widest]), default=LEAST_CELLS)
        widths[widest] -= min(max(widths[widest] - max(second, LEAST_CELLS), 1), sum(widths) - room)


def _padded(cell: str, width: int, *, to_the_right: bool) -> str:
    space = " " * (width - cells(cell))
    return space + cell if to_the_right else cell + space


def fitted(lines: Iterable[str]) -> Iterator[str]:
    """The lines, wrapped between words if they are longer than the terminal is wide.

    A single word that is longer, such as a path, is not split, so that it can be copied.
    """
    width = terminal_width()
    for line in lines:
        yield from [line] if width is None else _wrapped(printable([line]), width)


def _wrapped(line: str, width: int) -> Iterator[str]:
    if cells(line) <= width:
        yield line
        return
    label = _LABEL.match(line)
    start = label[0] if label and cells(label[0]) < width // 2 else ""
    indent = " " * len(start) or INDENT
    words = line[len(start) :].split(" ")
    part = start + words[0]
    for word in words[1:]:
        if cells(part) + 1 + cells(word) > width:
            yield part.rstrip()
            part = indent + word
        else:
            part += f" {word}"
    yield part
