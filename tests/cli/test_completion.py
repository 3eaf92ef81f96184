"""Suggestions in shells: bash, zsh and fish run typer's script, which `formats completion` prints."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from formats.cli.command_line import flags_of
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from tests.commands import run
from tests.systems import PATIENCE_SECONDS

SHELLS = ("bash", "zsh", "fish")
# The text typed before Tab, and the completed line, if there is only one possibility.
COMPLETED = [
    ("formats conv", "formats convert"),
    ("formats convert a --dry", "formats convert a --dry-run"),
    ("formats convert a --to rt", "formats convert a --to rten"),
    ("formats convert a --rten-v", "formats convert a --rten-version"),
    ("formats inspect --runtime r", "formats inspect --runtime rten"),
    ("formats inspect uni", "formats inspect unique.onnx"),
    ("formats convert --metadata-file uni", "formats convert --metadata-file unique.onnx"),
    ("formats convert a --help-", "formats convert a --help-all"),
    ("formats batch --out onlyf", "formats batch --out onlyfolder/"),
]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An installed shell, with its script in the test's folder."""
    name = str(request.param)
    if shutil.which(name) is None:
        pytest.skip(f"needs {name}")
    done = run("formats", "completion", name)
    assert (0, "") == (done.exit_code, done.stderr)
    (tmp_path / "script").write_text(done.stdout, encoding="utf-8")
    (tmp_path / "unique.onnx").write_bytes(b"x")
    (tmp_path / "onlyfolder").mkdir()
    return name


class Terminal:
    """A shell on a pseudo-terminal."""

    def __init__(self, command: list[str], folder: Path) -> None:
        pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
        self._leader, follower = pty.openpty()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(folder), "TERM": "dumb", "PS1": "$ ", "LC_ALL": "C"}
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)

    def answer(self, typed: str, until: str) -> str:
        """Return what the terminal shows after typing, up to a text."""
        os.write(self._leader, typed.encode())
        shown, end = "", time.monotonic() + PATIENCE_SECONDS
        while not re.search(until, shown):
            assert time.monotonic() < end, shown
            if select.select([self._leader], [], [], 0.2)[0]:
                shown += os.read(self._leader, 65536).decode(errors="replace")
        return shown

    def close(self) -> None:
        """End the shell."""
        self._process.kill()
        self._process.wait()
        os.close(self._leader)


def completed(shell: str, folder: Path) -> list[str]:
    """Return what each of the lines becomes when Tab is pressed at its end."""
    if shell == "fish":  # fish prints its suggestions without a terminal
        lines = []
        for typed, _ in COMPLETED:
            code = f"source script; complete -C '{typed}'"
            found = subprocess.run(["fish", "-c", code], cwd=folder, capture_output=True, text=True, check=True).stdout
            names = [line.partition("\t")[0] for line in found.splitlines()]
            assert len(names) == 1, (typed, names)
            lines.append(f"{typed.rpartition(' ')[0]} {names[0]}")
        return lines
    start = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    begin = {"bash": "", "zsh": "PS1='$ '; autoload -U compinit; compinit -u -D; "}[shell]
    terminal = Terminal(start, folder)
    try:
        terminal.answer(f'{begin}eval "$(cat script)"; echo rea""dy\r', "ready")
        lines = []
        for number, (typed, _) in enumerate(COMPLETED):
            # Tab, then go to the beginning of the line, so that the line becomes an argument of `echo`.
            shown = terminal.answer(f"{typed}\t\x01echo {number}\\<\x05\\>\r", rf"\n{number}<[^>]*>")
            lines.append(re.findall(rf"\n{number}<([^>]*)>", shown)[-1])
    finally:
        terminal.close()
    return lines


@pytest.mark.outer
def test_shells_complete(shell: str, tmp_path: Path) -> None:
    """Verbs, options, values of options, files and folders are completed if there is only one possibility."""
    found = [line.strip().removesuffix("/") for line in completed(shell, tmp_path)]  # zsh takes the slash back
    assert found == [expected.removesuffix("/") for _, expected in COMPLETED]


def suggested(*words: str) -> list[str]:
    """Return what is suggested for the last of these words."""
    environment = {**os.environ, "_FORMATS_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words)}
    environment["COMP_CWORD"] = str(len(words) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "formats"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_all_verbs_options_and_values_are_suggested() -> None:
    """All verbs, all options of a verb, and the values of an option if there are few."""
    assert suggested("formats", "") == [verb.name for verb in VERBS]
    (convert,) = (verb for verb in VERBS if verb.name == "convert")
    names = flags_of(group.options for group in convert.groups(True))
    assert {*names, "-h", "--help", "--help-all"} == {*suggested("formats", "convert", "-")}
    assert suggested("formats", "convert", "--to", "") == [codec.name for codec in lookup.codecs()]
    assert suggested("formats", "convert", "--threads", "") == []


def test_unknown_shells_are_refused() -> None:
    """A shell for which there is no script is an error in the command line."""
    done = run("formats", "completion", "tcsh")
    assert (2, True) == (done.exit_code, "bash, zsh, fish" in done.stderr)
    assert "" == run("formats", "completion", "zsh", "-q").stdout
