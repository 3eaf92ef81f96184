"""The files that this process has open, as the system reports them."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

FOLDERS = ("/proc/self/fd", "/dev/fd")


def descriptors() -> int:
    """Return the number of files that this process has open; skip the test if the system does not report it."""
    for _ in range(3):  # files of earlier tests, which the collector would otherwise close between two counts
        gc.collect()
    for folder in FOLDERS:
        if Path(folder).is_dir():
            return len(os.listdir(folder))
    pytest.skip("this system does not tell which files are open")
