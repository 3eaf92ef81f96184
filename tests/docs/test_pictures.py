"""The pictures in the documents show what the commands print today."""

from __future__ import annotations

import html
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
sys.path.insert(0, str(FOLDER))
import terminal  # noqa: E402 - a script in the folder of its pictures
import weights  # noqa: E402 - likewise

PHONE_PIXELS = 358  # what a screen of 390 leaves for a text
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["convert-light.svg", "convert-dark.svg"])
def test_picture_shows_what_the_commands_print(name: str) -> None:
    """A picture of a terminal has the words that the commands print today, apart from times."""
    expected = [word for line, text in terminal.printed() for word in without_times(f"$ {line} {text}").split()]
    assert expected == words((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", weights.PICTURES)
def test_picture_of_a_model_is_of_today(name: str) -> None:
    """The pictures of the example model are those that `--picture` of `inspect` and of `diff` draws today."""
    assert weights.PICTURES[name]() == (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no pseudo-terminals")
def test_picture_of_a_long_conversion_is_that_of_its_record() -> None:
    """The terminal behind which 5 GB are converted is drawn from its record, which has what a bar shows today."""
    import recording

    text = recording.RECORD.read_text(encoding="utf-8")
    assert recording.drawn(text) == recording.PICTURE.read_text(encoding="utf-8")
    bars = [line for line in text.splitlines() if recording.BAR in line]
    assert len(bars) > 9
    known = re.compile(r"[\d.]+\t[━╸╺]{18}  [\d.]+/5\.4 GB (\d:\d\d:\d\d|-:--:--)")
    assert all(known.fullmatch(line) or "working" in line for line in bars)
    ET.fromstring(recording.drawn(text))


def test_every_picture_stands_in_a_document() -> None:
    """Each picture is shown somewhere, with words for those who do not see it."""
    root = FOLDER.parents[1]
    texts = "".join(path.read_text(encoding="utf-8") for path in (root / "README.md", *root.glob("docs/*.md")))
    for path in FOLDER.glob("*.svg"):
        shown = re.search(rf"!\[[^\]]{{20,}}\]\(pictures/{path.name}\)", texts)
        assert shown or f"docs/pictures/{path.name}" in texts, path.name


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_letters_are_large_enough_on_a_phone(path: Path) -> None:
    """The smallest letters of a picture have 10 pixels where the picture has the room of a text on a phone."""
    text = path.read_text(encoding="utf-8")
    width = float(ET.fromstring(text).attrib["viewBox"].split()[2])
    letters = [float(size) for size in re.findall(r"\bfont(?:-size)?[:=][ \"]*([\d.]+)", text)]
    assert min(letters) * min(1, PHONE_PIXELS / width) >= 10


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.svg")), ids=lambda path: path.name)
def test_picture_loads_nothing(path: Path) -> None:
    """A picture refers to nothing outside of itself, and has no script."""
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"""<script|<image|@import|@font-face|(?:href|src)=|url\((?!#)""", text)
