"""How systems differ: features that only some have, and how long a busy one may take."""

from __future__ import annotations

import os

import pytest

posix = pytest.mark.skipif(
    os.name != "posix", reason="Windows has neither named pipes, nor /dev/null, nor permissions of groups, nor fork"
)

PATIENCE_SECONDS = 300
"""How long a test waits for what comes at once on an idle machine. Only what hangs takes so long on a busy one."""
