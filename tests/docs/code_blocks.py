"""The documents of the repository, and the fenced blocks in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md", *PAGES)
SHOWN_IN_PARTS = ("docs/operators.md",)  # it shows parts of the code, which other tests compare


class Block(NamedTuple):
    """A fenced block of a document."""

    document: str
    line: int
    language: str
    text: str


def blocks(document: str) -> list[Block]:
    """Return the fenced blocks of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    return [Block(document, text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in fence.finditer(text)]
