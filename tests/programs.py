"""Programs that we did not write, and that tests run."""

from __future__ import annotations

import os
import shutil

import pytest


def need(name: str) -> None:
    """Skip the test where a program is not installed; where the environment variable `CI` is set, it must be."""
    if not shutil.which(name):
        assert not os.environ.get("CI"), f"{name} is not installed; .ci/run says which package has it"
        pytest.skip(f"the oracle is {name}")
