"""Shared parts of the tests of reading and writing."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 1,000 bytes, which are mostly different."""
    file = tmp_path / "weights.data"
    file.write_bytes(bytes(range(250)) * 4)
    return file
