"""A hook of mkdocs: links from the site to files of the repository, which are no pages, lead to the repository.

The documents link each other by relative paths, so that they work in a checkout and on any host of the repository. A
page that is a file outside of `docs` is one line, `--8<-- "FILE"`; the links in that file are relative to its folder.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


INCLUDED = re.compile(r'--8<-- "(?P<path>[^"\n]+)"\n?')


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page, with links to pages relative to it, and those to other files of the repository absolute."""
    whole = INCLUDED.fullmatch(markdown)
    source = ROOT / whole["path"] if whole else ROOT / "docs" / page.file.src_uri
    text = source.read_text(encoding="utf-8") if whole else markdown
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        target = (source.parent / match["path"]).resolve()
        anchor = match["anchor"] or ""
        if not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        if target.is_relative_to(ROOT / "docs"):
            return f"]({Path(os.path.relpath(target, folder)).as_posix()}{anchor})"
        return f"]({config['repo_url']}/blob/main/{target.relative_to(ROOT).as_posix()}{anchor})"

    return LINK.sub(link, text)
