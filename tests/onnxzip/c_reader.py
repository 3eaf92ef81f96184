"""The programs of the C reader, which a C compiler builds in a second or two."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.programs import need
from tests.systems import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
WARNINGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def built(source: str, target: Path, *options: str, compiler: str = "cc") -> Path:
    """Return the program of a source file of the repository; skip the test if there is no compiler."""
    need(compiler)
    subprocess.run([compiler, *WARNINGS, *options, "-o", target, ROOT / source], check=True, timeout=PATIENCE_SECONDS)
    return target
