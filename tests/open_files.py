"""Which files this process has open, as the system tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDERS = ("/proc/self/fd", "/dev/fd")


def descriptors() -> int:
    """How many files this process has open; the test is skipped if the system does not tell."""
    for folder in FOLDERS:
        if Path(folder).is_dir():
            return len(os.listdir(folder))
    pytest.skip("this system does not tell which files are open")
