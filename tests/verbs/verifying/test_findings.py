"""The codes of findings are documented, and each says which kind it is and whether it is an error."""

from __future__ import annotations

import re
from pathlib import Path

from formats.verbs.verifying.findings import CODES, finding_of


def test_the_page_has_all_codes(root: Path) -> None:
    """docs/verify.md has a row for each code, with its kind, its weight and its title, in the same order."""
    rows = re.findall(
        r"^\| `(V\d+)` \| `(\w+)` \| (error|note) \| (.+) \|$", (root / "docs" / "verify.md").read_text("utf-8"), re.M
    )
    assert rows == [(code, rule.kind, "error" if rule.is_error else "note", rule.title) for code, rule in CODES.items()]


def test_a_finding_has_the_kind_of_its_code() -> None:
    """The kind of a finding follows from its code."""
    for code, rule in CODES.items():
        assert (rule.kind, "a", "b", code) == finding_of(code, "a", "b")
