"""Other people's programs that the tests run."""

from __future__ import annotations

import os
import shutil

import pytest


def need(name: str) -> None:
    """Skip the test if a program is not installed; if the environment variable `CI` is set, fail instead."""
    if not shutil.which(name):
        assert not os.environ.get("CI"), f"{name} is not installed; .ci/run says which package has it"
        pytest.skip(f"the oracle is {name}")
