"""The table of other zip readers agrees with the outcomes; they disagree about archives that our reader refuses."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.onnxzip import zip_readers

FOUND = json.loads(zip_readers.OUTCOMES.read_text())


def test_table_is_that_of_the_outcomes() -> None:
    """The table in the document is made from the outcomes of every attack in nine readers."""
    start, end = zip_readers.MARKS
    document = zip_readers.DOCUMENT.read_text(encoding="utf-8")
    assert zip_readers.table(FOUND) == document.partition(start)[2].partition(end)[0]
    assert [*zip_readers.attacks()] == [*FOUND]
    assert all([*zip_readers.READERS] == [*row] for row in FOUND.values())


def test_readers_read_what_is_legal(tmp_path: Path) -> None:
    """Python and each installed program read the same from a legal archive: the comparison itself is right."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w", b"weights")
        archive.writestr("sub/v", b"")
    expected = zip_readers.by_python([path], tmp_path)
    assert expected == [zip_readers.of_entries([("sub/v", b""), ("w", b"weights")])]
    for name in ("unzip", "7z", "bsdtar"):
        (tmp_path / name).mkdir()
        try:
            assert expected == zip_readers.READERS[name]([path], tmp_path / name)
        except FileNotFoundError:
            pytest.skip(f"needs {name}")
