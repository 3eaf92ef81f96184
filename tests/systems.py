"""What only some systems have, for tests of it."""

from __future__ import annotations

import os

import pytest

posix = pytest.mark.skipif(
    os.name != "posix", reason="Windows has neither named pipes, nor /dev/null, nor permissions of groups, nor fork"
)
