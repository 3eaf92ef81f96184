"""The readers withstand the fuzzer for a second per format, and the fuzzer finds faults."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

fuzz = pytest.importorskip("tests.fuzzing.fuzz", reason="only POSIX tells and limits the memory of a process")

SECONDS = "1"
FEWEST = 20  # inputs of a format besides its seeds, even on a busy machine
FEWEST_RECORDS = 3  # each is in a folder of its own, with a model that is read, repaired and written


@pytest.mark.outer
def test_readers_refuse_or_read(tmp_path: Path) -> None:
    """Every reader raises only FormatError, quickly and with little memory."""
    arguments = [fuzz.__file__, "--seconds", SECONDS, "--seed", "1", "--keep", tmp_path]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    counts = {name: int(count) for name, count in re.findall(r"^([\w-]+): (\d+) inputs", done.stdout, re.MULTILINE)}
    assert [*fuzz.TARGETS] == [*counts]
    assert min(count for name, count in counts.items() if name not in fuzz.records.RECORDS) > FEWEST
    assert min(counts.values()) > FEWEST_RECORDS
    assert [] == [*tmp_path.iterdir()]


def raising(error: Exception) -> Callable[[bytes, int], None]:
    """A reader that fails."""

    def use(data: bytes, number: int) -> None:
        raise error

    return use


def waste_time(data: bytes, number: int) -> None:
    """Take longer than allowed."""
    end = time.process_time() + fuzz.MAX_SECONDS * 1.2
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (raising(ValueError("bad")), "ValueError: bad"),
        (raising(RecursionError("deep")), "RecursionError: deep"),
        (raising(MemoryError()), "MemoryError"),
        (raising(OSError("gone")), "OSError: gone"),
        (waste_time, "took 0."),
        (lambda data, number: time.sleep(60), "no answer after 1 s"),
        (raising(fuzz.FormatError("refused")), ""),
    ],
)
def test_failures_are_seen(use: Callable[[bytes, int], None], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another exception, too much time, or no answer is a failure."""
    monkeypatch.setattr(fuzz, "MAX_SECONDS", 0.1)
    monkeypatch.setattr(fuzz, "MAX_WAIT", 1 if "no answer" in expected else 60)
    found = fuzz.failure(fuzz.TARGETS["onnx"]._replace(use=use), b"", 0)
    assert expected in found
    assert bool(expected) == bool(found)
