"""Features that only some systems have, for the tests of them."""

from __future__ import annotations

import os

import pytest

posix = pytest.mark.skipif(
    os.name != "posix", reason="Windows has neither named pipes, nor /dev/null, nor permissions of groups, nor fork"
)
