"""The tests in two rings: what `pytest` runs, what it skips and why, and that nothing is left out of both rings."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systems import PATIENCE_SECONDS

pytestmark = pytest.mark.outer  # most tests collect all tests, or run pytest again
TESTS = Path(__file__).parent
ROOT = TESTS.parent
SMALL = ("tests/fuzzing", "tests/faults")  # folders with tests of both rings


def run(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, outside of CI unless told so."""
    environment = {name: value for name, value in os.environ.items() if name != "CI" and "PYTEST" not in name}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *arguments],
        cwd=folder,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def collected(*arguments: str) -> set[str]:
    """Return the ids of the tests that a command would run."""
    done = run(ROOT, "--collect-only", "-q", "-n", "0", *arguments)
    assert not done.returncode, done.stdout + done.stderr
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder of tests with our `conftest.py`."""
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(TESTS / "conftest.py", folder)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nmarkers =\n  outer\n  sample\ntestpaths = tests\naddopts = -ra -n auto\n"
    )
    return folder


def test_the_rings_are_all_tests() -> None:
    """A test is in exactly one ring; `pytest` runs the inner one, and a path names the tests of both."""
    chosen = f"testpaths={' '.join(SMALL)}"
    inner, outer = collected("-o", chosen), collected("-o", chosen, "-m", "outer")
    assert inner
    assert outer
    assert not inner & outer
    assert inner | outer == collected(*SMALL)


def test_ci_runs_both_rings() -> None:
    """CI runs the test command of the README, and then the outer ring."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (command,) = re.findall(r"^pip install .*pytest$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert command in script
    assert "pytest -m outer" in script.partition(command)[2]


def test_a_skip_is_a_failure_in_ci(suite: Path) -> None:
    """What is skipped has failed in CI, unless the platform is the reason; elsewhere, it is skipped."""
    for name, reason in (("tool", "needs zip"), ("platform", "this system has no links")):
        skip = f"pytest.skip({reason!r}"
        (suite / f"test_{name}.py").write_text(
            f"import pytest\n@pytest.fixture\ndef x(): {skip})\ndef test_one(): {skip})\ndef test_two(x): pass\n"
        )
        (suite / f"test_{name}_module.py").write_text(f"import pytest\n{skip}, allow_module_level=True)\n")
    elsewhere = run(suite.parent, "-n", "0")
    assert "6 skipped" in elsewhere.stdout
    in_ci = run(suite.parent, "-n", "0", "--continue-on-collection-errors", CI="true")
    assert "1 failed, 3 skipped, 2 errors" in in_ci.stdout
    assert in_ci.returncode == 1


def test_every_wait_has_patience() -> None:
    """No test gives a program or a thread less than `PATIENCE_SECONDS`: a busy machine would not be in time."""

    def waits(path: Path) -> Iterator[float]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            values = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("wait", "communicate", "alarm"):
                values += node.args[:1]
            for value in values:
                if isinstance(value, ast.Constant) and isinstance(value.value, (int, float)):
                    yield value.value

    found = [(path.name, seconds) for path in TESTS.rglob("test_*.py") for seconds in waits(path)]
    short = [(name, seconds) for name, seconds in found if 0.1 < seconds < PATIENCE_SECONDS]
    assert [("test_model_files.py", 2)] == short  # which waits for what cannot end yet


def test_a_sample_is_spread(suite: Path) -> None:
    """Of a test with the mark `sample(n)`, the inner ring has one case of n, and every value of each parameter."""
    (suite / "test_it.py").write_text(
        "import pytest\n"
        "@pytest.mark.sample(3)\n"
        "@pytest.mark.parametrize('a', range(3))\n"
        "@pytest.mark.parametrize('b', range(9))\n"
        "def test_it(a, b): pass\n"
    )
    found = run(suite.parent, "--collect-only", "-q", "-n", "0").stdout
    pairs = re.findall(r"\[(\d)-(\d)\]", found)
    assert len(pairs) in range(8, 11)
    assert {"0", "1", "2"} == {a for _, a in pairs}
    assert len({b for b, _ in pairs}) > 6
    others = run(suite.parent, "--collect-only", "-q", "-n", "0", "-m", "outer").stdout
    assert 27 == len({*pairs, *re.findall(r"\[(\d)-(\d)\]", others)})


@pytest.mark.skipif(os.name == "nt", reason="only POSIX has signals that are ignored")
def test_programs_answer_signals_in_a_background_job(suite: Path) -> None:
    """Programs that tests start answer to SIGINT and SIGHUP, even if pytest itself was told to ignore them."""
    code = "import signal; print(*(signal.getsignal(n) is not signal.SIG_IGN for n in (signal.SIGINT, signal.SIGHUP)))"
    (suite / "test_it.py").write_text(
        "import subprocess, sys\n"
        "def test_it():\n"
        f"    done = subprocess.run([sys.executable, '-c', {code!r}], capture_output=True, text=True)\n"
        "    assert done.stdout == 'True True\\n'\n"
    )
    ignored = {name: signal.signal(name, signal.SIG_IGN) for name in (signal.SIGINT, signal.SIGHUP)}
    try:
        done = run(suite.parent, "-n", "0")
    finally:
        for name, handler in ignored.items():
            signal.signal(name, handler)
    assert "1 passed" in done.stdout
