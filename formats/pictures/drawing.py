"""The elements of a picture, from top to bottom, as SVG and as a page.

A picture needs nothing from elsewhere: no script, no font, no style. Texts from models are escaped.
"""

from __future__ import annotations

import re
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDE, NARROW = 960, 350  # in pixels; a page shows the narrow picture where the wide one has no room
BORDER = 20
MAX_TEXT = 500  # letters of a paragraph, or of what is shown under the pointer
PIXELS_PER_LETTER = 6.4  # in letters of 11 pixels
STYLE = """
.paper { fill: #fff } text { fill: #222 } .scale { fill: #555 } .light { fill: #fff } .dark { fill: #222 }
.group { fill: #e4e9ed } .size { fill: #55606a }
@media (prefers-color-scheme: dark) {
  .paper { fill: #1c1f21 } text { fill: #e6e6e6 } .scale { fill: #aaa } .group { fill: #333b41 } .size { fill: #b4bcc2 }
}
"""  # for viewers with dark colours; texts on bars keep their colour, like the bars
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 0; font-family: system-ui, sans-serif; text-align: center }}
.narrow {{ display: none }}
@media (max-width: {breakpoint}px) {{ .narrow {{ display: inline }} .wide {{ display: none }} }}
</style></head>
<body>
<div class="wide">{wide}</div>
<div class="narrow">{narrow}</div>
</body></html>
"""


def page(title: str, wide: str, narrow: str) -> str:
    """An HTML page with the one of two pictures for which the window has room."""
    return PAGE.format(title=escaped(title), wide=wide, narrow=narrow, breakpoint=WIDE + 2 * BORDER)


def escaped(text: str) -> str:
    """The text for XML, which does not allow most control characters."""
    return escape("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))


def fitting(text: str, width: float) -> str:
    """The text, shortened if it is wider than this many pixels.

    Of a name with modules, as many of the last words are left as there is room for, or the module of the last one; of
    another name, both ends.
    """
    room = max(int(width / PIXELS_PER_LETTER), 0)
    if len(text) * 2 <= room or (text.isascii() and len(text) <= room) or _letters(text) <= room:
        return text
    if room <= 3:
        return ""
    words = [match.end() for match in _SEPARATOR.finditer(text)]
    for start in words:
        if _letters(text[start:]) < room:
            if start < words[-1] or len(words) == 1:
                return f"…{text[start:]}"
            break
    if len(words) > 1 and _letters(module := text[words[-2] : words[-1] - 1]) < room:
        return f"{module}…"
    if words and _letters(text[words[-1] :]) < room:
        return f"…{text[words[-1] :]}"
    head, tail = text[: room - 1 - (room - 1) // 2], text[-((room - 1) // 2) :]
    while _letters(head) + _letters(tail) >= room:
        head, tail = (head[:-1], tail) if _letters(head) >= _letters(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def _short(text: str) -> str:
    """The text, without its middle if it is very long: names differ at their ends."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]} … {text[-MAX_TEXT // 2 :]}"


def _letters(text: str) -> int:
    """The room that a text needs, in letters of the usual width; signs of Chinese, Japanese and Korean need two."""
    return len(text) if text.isascii() else sum(1 + (east_asian_width(char) in "WF") for char in text)


_SEPARATOR = re.compile(r"[./](?=.)")  # between the words of a name


class Drawing:
    """SVG elements from top to bottom; `y` is the position of the next one, `width` the room in pixels."""

    def __init__(self, width: int = WIDE) -> None:
        self.width = width
        self.y = 10.0
        self._elements: list[str] = []

    def title(self, text: str) -> None:
        """A line in larger letters."""
        self.line(0, text, 16, "bold")

    def line(self, x: float, text: str, size: int = 12, weight: str = "normal") -> None:
        """A line of its own, shortened to the width."""
        self.y += size + 4
        shown = fitting(text, (self.width - x) * 11 / size)
        self._elements.append(
            f'<text x="{x:g}" y="{self.y:g}" font-size="{size}" font-weight="{weight}">{escaped(shown)}</text>'
        )
        self.y += 8

    def lines(self, text: str, x: float = 0, weight: str = "normal") -> None:
        """A paragraph, in as many lines as it needs."""
        letters = int((self.width - x) / PIXELS_PER_LETTER * 11 / 12)
        line, *others = wrap(_short(text), max(letters, 20), break_on_hyphens=False) or [""]
        self.line(x, line, weight=weight)
        for line in others:
            self.y -= 8
            self.line(x, line, weight=weight)

    def box(self, x: float, y: float, width: float, height: float, colour: str, *title: str) -> None:
        """A filled rectangle; `colour` is #rrggbb or a class, and the lines of `title` are shown under the pointer."""
        look = f'fill="{colour}"' if colour.startswith("#") else f'class="{colour}"'
        shown = f"><title>{chr(10).join(escaped(_short(line)) for line in title)}</title></rect>" if title else "/>"
        self._elements.append(f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" {look}{shown}')

    def label(self, x: float, y: float, text: str, look: str = "", *, anchor: str = "start", size: str = "") -> None:
        """A text at a place that something else determines, and a size after it; `look` is the name of a class."""
        marks = f' class="{look}"' * bool(look) + ' text-anchor="end"' * (anchor == "end")
        after = f'<tspan class="size" dx="6">{escaped(size)}</tspan>' * bool(size)
        self._elements.append(
            f'<text x="{x:.2f}" y="{y:.2f}" font-size="11" pointer-events="none"{marks}>{escaped(text)}{after}</text>'
        )

    def legend(self, entries: Iterable[tuple[str, str]]) -> None:
        """A line for each colour and its meaning."""
        for colour, meaning in entries:
            self.box(0, self.y + 2, 16, 16, colour)
            self.lines(meaning, 24)

    def svg(self) -> str:
        """The whole picture."""
        width, height = self.width + 2 * BORDER, self.y + BORDER
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:g}" '
                f'viewBox="{-BORDER} 0 {width} {height:g}" font-family="system-ui, sans-serif">',
                f"<style>{STYLE}</style>",
                f'<rect x="{-BORDER}" width="100%" height="100%" class="paper"/>',
                *self._elements,
                "</svg>\n",
            )
        )
