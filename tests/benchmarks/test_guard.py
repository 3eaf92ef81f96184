"""The guard finds higher costs: counts are repeatable, slowdowns exceed the tolerance, missing programs are named."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import guard
import pytest
from guard import Guard

pytestmark = pytest.mark.outer

LOOP = "for _ in range({}): abs(1)"


def loop(times: int) -> tuple[str, ...]:
    """Return a Python program with this many calls."""
    return ("python", "-c", LOOP.format(times))


def counts(times: int, kind: str, directory: Path) -> int | str:
    """Return the guard's count of a loop, minus the start-up and a hundred calls."""
    return next(guard.counts_of([Guard("loop", loop(times), start_up=loop(100))], [kind], directory))[2]


@pytest.mark.parametrize("kind", ["calls", "instructions"])
def test_a_slowdown_is_found(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fifth more work fails; the same or less work does not."""
    if kind == "instructions" and not shutil.which("valgrind"):
        pytest.skip("needs valgrind")
    figure = counts(100_000, kind, tmp_path)
    assert isinstance(figure, int)
    figures = {guard.PYTHON: {"loop": {kind: figure}}}
    verdicts = {100_000: (True, ""), 120_000: (False, "MORE"), 80_000: (True, "less")}
    for times in verdicts if kind == "calls" else (120_000,):
        fine, said = verdicts[times]
        assert fine is guard.report([Guard("loop", loop(times), start_up=loop(100))], [kind], figures, tmp_path)[1]
        assert capsys.readouterr().out.rstrip().endswith(said)


def test_calls_are_those_of_all_threads(tmp_path: Path) -> None:
    """Each call of a function counts once, in threads, too."""
    assert counts(1100, "calls", tmp_path) == 1000
    threads = "import threading as t; a = t.Thread(target=lambda: [abs(1) for _ in range({})]); a.start(); a.join()"
    few, many = (("python", "-c", threads.format(times)) for times in (10, 1010))
    assert next(guard.counts_of([Guard("threads", many, start_up=few)], ["calls"], tmp_path))[2] == 1000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a thread choose its processors")
def test_programs_use_one_processor(tmp_path: Path) -> None:
    """A counted program finds one processor, however many there are; this process keeps all of them."""
    before = guard.processors()
    program = ("python", "-c", "import os; [abs(1) for _ in range(1000 * len(os.sched_getaffinity(0)))]")
    start_up = ("python", "-c", "import os; [abs(1) for _ in range(len(os.sched_getaffinity(0)))]")
    assert next(guard.counts_of([Guard("processors", program, start_up=start_up)], ["calls"], tmp_path))[2] == 999
    assert guard.processors() == before


def test_a_missing_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that cannot be made has a reason instead; the other counts are still made."""
    monkeypatch.setitem(guard.FIXED, "PATH", str(tmp_path))
    assert counts(100, "instructions", tmp_path) == "valgrind is not installed"
    assert guard.report([Guard("loop", loop(100))], ["system_calls"], {}, tmp_path)[1]


def test_a_python_without_figures_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is nothing to compare with, the guard names the versions that have figures, and fails."""
    monkeypatch.setattr(guard, "PYTHON", "3.99")
    monkeypatch.setattr(guard, "report", None)
    monkeypatch.setattr("sys.argv", ["guard.py", "import"])
    with pytest.raises(SystemExit, match=r"has figures for Python .*3\.11.*, not for 3\.99, .* write .* with --update"):
        guard.main()


def test_versions_are_in_the_order_of_their_numbers() -> None:
    """Python 3.9 comes before 3.10 in the file of figures."""
    cases = {"import": {"calls": 1}}
    assert [*guard.merged({"3.10": cases, "3.9": cases}, {"3.11": cases})] == ["3.9", "3.10", "3.11"]


def test_an_update_replaces_what_was_counted() -> None:
    """New counts replace old ones of the same version, case and kind, and removed cases are removed."""
    old = {"3.9": {"import": {"calls": 1}}, "3.12": {"import": {"calls": 2, "instructions": 3}, "gone": {"calls": 1}}}
    new = {"3.12": {"import": {"calls": 4}, "verify": {"calls": 5}}}
    expected = {"import": {"calls": 4, "instructions": 3}, "verify": {"calls": 5}}
    assert guard.merged(old, new) == {"3.9": {"import": {"calls": 1}}, "3.12": expected}


def test_each_case_has_figures() -> None:
    """Each case of the guard has all its figures, for each version of Python that has any."""
    figures = guard.figures()
    assert figures
    for cases in figures.values():
        assert [*cases] == [case.name for case in guard.GUARDS]
        assert all([*kinds] == [*guard.KINDS] for kinds in cases.values())
