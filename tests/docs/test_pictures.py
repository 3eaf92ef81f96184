"""The pictures in the documents show what the commands print today."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
sys.path.insert(0, str(FOLDER))
import terminal  # noqa: E402 - a script in the folder of its pictures
import weights  # noqa: E402 - likewise

SPAN = re.compile(r'<text [^>]*clip-path="url\(#formats-line-(\d+)\)">([^<]*)</text>')


def words(picture: str) -> list[str]:
    """Return the words in a picture of a terminal, line by line."""
    lines: dict[int, str] = {}
    for number, text in SPAN.findall(picture):
        lines[int(number)] = lines.get(int(number), "") + html.unescape(text).replace("\xa0", " ")
    return [word for number in sorted(lines) for word in without_times(lines[number]).split()]


def without_times(text: str) -> str:
    """Return the text with the same time everywhere: each run takes another one."""
    return re.sub(r"\d+\.\d\d s", "0.00 s", text)


@pytest.mark.parametrize("name", ["convert-light.svg", "convert-dark.svg"])
def test_picture_shows_what_the_commands_print(name: str) -> None:
    """A picture of a terminal has the words that the commands print today, apart from times."""
    expected = [word for line, text in terminal.printed() for word in without_times(f"$ {line} {text}").split()]
    assert expected == words((FOLDER / name).read_text(encoding="utf-8"))


def test_picture_of_a_model_is_of_today() -> None:
    """The picture of the example model is the one that `inspect --picture` draws today."""
    assert weights.drawn() == weights.PICTURE.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_picture_loads_nothing(path: Path) -> None:
    """A picture refers to nothing outside of itself, and has no script."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"""<script|<image|@import|@font-face|(?:href|src)=|url\((?!#)""", text)
