"""Every command line withstands some damaged files, and what must not happen is seen if it happens."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from formats.cli.verbs import VERBS
from formats.errors import DecodeError
from tests.commands import Done

lines = pytest.importorskip("tests.fuzzing.command_lines", reason="only POSIX tells and limits the memory of a process")


def test_every_verb_gets_damaged_files() -> None:
    """Every verb has a command line that reads a file, except those for which the table says why not."""
    reading = {line.split()[0] for name, line in lines.LINES.items() if name not in lines.WITHOUT_FILES}
    assert {verb.name for verb in VERBS} - reading == {"completion", "repair"}
    assert lines.WITHOUT_FILES.keys() <= lines.LINES.keys()


@pytest.mark.outer
def test_command_lines_refuse_or_work(tmp_path: Path) -> None:
    """Every command line refuses damaged files in one line of its own, and leaves nothing; the same as in the night."""
    arguments = [lines.__file__, "--inputs", "60", "--seed", "1", "--keep", tmp_path]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    counts = {verb: int(count) for verb, count in re.findall(r"^(\w+): (\d+) inputs", done.stdout, re.MULTILINE)}
    assert {*counts} | {"completion", "repair"} == {verb.name for verb in VERBS}
    assert [] == [*tmp_path.iterdir()]


def refused(raiser: object, *, with_text: bool) -> Exception:
    """The error of a reader that met an error of another package."""
    try:
        try:
            raiser()  # type: ignore[operator]
        except Exception as error:
            raise DecodeError(f"bad: {error}" if with_text else "bad") from error
    except DecodeError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    "raiser",
    [lambda: json.loads("{"), lambda: struct.unpack("<Q", b""), lambda: int("a word"), lambda: b"\xff".decode()],
    ids=["json", "struct", "int", "decode"],
)
def test_a_text_of_others_is_seen(raiser: object) -> None:
    """An error that repeats the text of another package or of Python is a failure; one with its own words is none."""
    lines.check_errors([refused(raiser, with_text=False)])
    with pytest.raises(AssertionError, match="came through"):
        lines.check_errors([refused(raiser, with_text=True)])
    with pytest.raises(ValueError, match="not ours"):
        lines.check_errors([ValueError("not ours")])


@pytest.mark.parametrize(
    ("line", "done"),
    [
        ("convert a b", Done(3, "", "")),
        ("convert a b", Done(1, "", "")),
        ("verify a", Done(0, "", "Traceback (most recent call last):\n")),
        ("inspect a", Done(0, "", "a warning\n")),
    ],
)
def test_a_strange_answer_is_seen(line: str, done: Done) -> None:
    """Another exit code, one without a reason, and lines on stderr that no command prints are failures."""
    with pytest.raises(AssertionError):
        lines.check_answer(line, done, has_error=False)


@pytest.mark.parametrize(
    ("verb", "after", "failed"),
    [
        ("convert", {"a": b"1", ".b.tmp": b""}, False),
        ("convert", {"a": b"1", "b": b""}, True),
        ("mv", {"a": b"2"}, True),
        ("rm", {}, True),
    ],
)
def test_what_is_left_behind_is_seen(verb: str, after: dict[str, bytes | None], failed: bool) -> None:
    """A hidden file, and any change of a command that failed, are failures."""
    lines.check_files(verb, {"a": b"1"}, {"a": b"1"}, failed=failed)
    with pytest.raises(AssertionError):
        lines.check_files(verb, {"a": b"1"}, after, failed=failed)
