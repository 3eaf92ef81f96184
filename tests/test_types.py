"""Type checkers find errors in programs that use the package wrongly, and none in correct programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "tests" / "misuse").glob("*.py"))
# The kinds of errors in the programs, with the names that mypy and pyright give them.
KINDS = {
    "attribute": {"attr-defined", "reportAttributeAccessIssue"},
    "call": {"call-arg", "reportCallIssue"},
    "argument": {"arg-type", "reportArgumentType"},
    "assignment": {"assignment", "misc", "reportAttributeAccessIssue"},
    "optional": {"union-attr", "reportOptionalMemberAccess"},
}

Found = dict[tuple[str, int], set[str]]  # the kinds of errors, by program and line


def expected() -> Found:
    """Return the errors that the programs announce."""
    found: Found = {}
    for path in PROGRAMS:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if kind := re.search(r"# error: (\w+)$", line):
                found[path.name, number] = {kind[1]}
    return found


def check(rules: Found) -> None:
    """Check that each wrong line has errors of its kind, and no other line has any."""
    wanted = expected()
    assert wanted.keys() == rules.keys()
    for place, kinds in wanted.items():
        (kind,) = kinds
        assert rules[place] <= KINDS[kind], place


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a type checker on the programs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *command, *map(str, PROGRAMS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )


def test_programs_are_wrong_in_many_ways() -> None:
    """Every kind of error is in the programs, and each program has correct lines."""
    assert {kind for kinds in expected().values() for kind in kinds} == KINDS.keys()
    assert len(expected()) > 50
    assert 2 == len(PROGRAMS)
    assert all("# Correct uses are not errors." in path.read_text() for path in PROGRAMS)


def test_mypy_finds_what_is_wrong(tmp_path: Path) -> None:
    """mypy, strict, finds an error of the expected kind in each wrong line, and none in other lines."""
    done = run("mypy", "--strict", "--cache-dir", str(tmp_path), "--no-error-summary")
    found: Found = {}
    for name, line, rule in re.findall(r"(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE):
        found.setdefault((name, int(line)), set()).add(rule)
    assert not done.stderr
    check(found)


def test_pyright_finds_what_is_wrong() -> None:
    """Pyright finds the same errors."""
    done = run("pyright", "--outputjson")
    if "No module named pyright" in done.stderr:
        assert not os.environ.get("CI"), "pyright is not installed"
        pytest.skip("the oracle is pyright")
    found: Found = {}
    for entry in json.loads(done.stdout)["generalDiagnostics"]:
        place = Path(entry["file"]).name, entry["range"]["start"]["line"] + 1
        found.setdefault(place, set()).add(entry["rule"])
    check(found)
