"""A hook of mkdocs: links from the site to files of the repository, which are no pages, lead to the repository.

The documents link each other by relative paths, so that they work in a checkout and on any host of the repository.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page, its links to files outside of `docs` made absolute."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def link(match: re.Match[str]) -> str:
        target = (folder / match["path"]).resolve()
        if target.is_relative_to(ROOT / "docs") or not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        return f"]({config['repo_url']}/blob/main/{target.relative_to(ROOT).as_posix()}{match['anchor'] or ''})"

    return LINK.sub(link, markdown)
