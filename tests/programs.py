"""Other people's programs that the tests run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


def need(name: str) -> None:
    """Skip the test if a program is not installed."""
    if not shutil.which(name):
        pytest.skip(f"needs {name}")


def need_built(program: Path, where: str) -> Path:
    """Return the path of a program of ours; skip the test if it is not built, which `where` describes."""
    if not program.exists():
        pytest.skip(f"needs {program.stem}, which cargo builds as {where} says")
    return program
