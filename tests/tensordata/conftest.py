"""What the tests of reading and writing share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 1 000 different bytes, more or less."""
    file = tmp_path / "weights.data"
    file.write_bytes(bytes(range(250)) * 4)
    return file
