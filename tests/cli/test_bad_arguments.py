"""Every verb answers bad arguments with one line: no traceback, no words of Python, no names that only we know."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import formats
from formats.cli import streams
from tests import commands
from tests.systems import NOBODY, PATIENCE_SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.onnx"

FORMS = (
    "convert {} o.rten",
    "convert good.onnx {} --to onnxz --dry-run",
    "convert {} folder --to onnxz",
    "batch {} --to onnxz --out out",
    "batch --list {} --to onnxz --out out",
    "batch good.onnx --to onnxz --out {} --dry-run",
    "inspect {}",
    "inspect good.onnx --picture {}",
    "verify {} --data",
    "verify good.onnx --data --original {}",
    "diff {} good.onnx",
    "diff good.onnx {}",
    "repair {}",
    "files {}",
    "cp {} x.onnx",
    "cp good.onnx {} --dry-run",
    "mv {} x.onnx",
    "mv good.onnx {} --dry-run",
    "rm {}",
    "share {} good.onnx --out o",
    "share good.onnx example.onnx --out {} --dry-run",
    "completion {}",
)
ARGUMENTS = {
    "empty": "",
    "here": ".",
    "above": "..",
    "root": "/",
    "folder": "bare",
    "folder with a slash": "bare/",
    "pipe": "pipe.onnx",
    "socket": "socket.onnx",
    "device": "/dev/null",
    "dangling link": "dangling.onnx",
    "link to itself": "loop.onnx",
    "empty file": "empty.onnx",
    "line break": "a\nb.onnx",
    "too long": f"{'n' * 300}.onnx",
    "missing": "missing.onnx",
    "file as folder": "good.onnx/x.onnx",
    "zero byte": "a\0b.onnx",
    "not UTF-8": "\udcff.onnx",
    "data file": "good.onnx.data",
    "no address": "nosuch://x/y.onnx",
    "no such folder": "none/x.onnx",
}
FORBIDDEN = re.compile(
    r"Traceback|bug in formats|\b(None|True|False|tuple|dict|NoneType|[A-Z][A-Za-z]+(Error|Exception))\b|\[Errno"
    r"|PosixPath|\.(lock|journal|undo|tmp)\b"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a good model, and with everything that can stand in the place of one."""
    folder = tmp_path_factory.mktemp("bad")
    formats.convert(EXAMPLE, folder / "good.onnx", external_data=True, size_threshold=100)
    formats.convert(EXAMPLE, folder / "example.onnx")
    for name in ("folder", "bare"):
        (folder / name).mkdir()
    os.mkfifo(folder / "pipe.onnx")
    with socket.socket(socket.AF_UNIX) as there:
        before = Path.cwd()
        os.chdir(folder)  # the path of a socket must be short
        there.bind("socket.onnx")
        os.chdir(before)
        (folder / "dangling.onnx").symlink_to("nowhere.onnx")
        (folder / "loop.onnx").symlink_to("loop.onnx")
        (folder / "empty.onnx").touch()
        yield folder


def faults_of(done: commands.Done, before: set[str]) -> list[str]:
    """Return what is wrong with the answer to a mistake."""
    faults = []
    if done.exit_code not in (0, 1, 2):
        faults.append(f"exit code {done.exit_code}")
    lines = done.stderr.splitlines()
    is_report = not lines and "error" in done.stdout  # of `verify`
    if done.exit_code and not is_report and not (len(lines) == 1 and re.match(r"(formats: )?error: ", lines[0])):
        faults.append(f"{len(lines)} lines")
    if found := FORBIDDEN.search(done.stderr):
        faults.append(f"says {found[0]}")
    if done.exit_code and (left := set(os.listdir()) - before):
        faults.append(f"left {sorted(left)}")
    return [f"{fault}: {done.stderr!r:.300}" for fault in faults]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes, sockets and links")
@pytest.mark.parametrize("form", FORMS)
def test_bad_arguments_get_one_line(form: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is typed in the place of a model or a folder, the answer is one line, and nothing is left behind."""
    monkeypatch.chdir(place)
    monkeypatch.setattr(streams, "CLOSED", {sys.stdin})

    def stop(number: int, frame: object) -> None:
        raise AssertionError(f"{form} waits for {argument!r}")

    before_test = signal.signal(signal.SIGALRM, stop)
    wrong = {}
    for name, argument in ARGUMENTS.items():
        if name == "pipe" and form.split()[0] in ("convert", "batch", "inspect", "verify", "diff"):
            continue  # these verbs read from a pipe, and wait for the program at its other end
        if name in ("here", "above", "root") and form.split()[0] in (
            "batch",
            "convert",
            "inspect",
            "verify",
            "share",
            "files",
            "repair",
            "rm",
        ):
            continue  # these verbs read models in folders
        if name == "folder with a slash" and "dry-run" in form:
            continue
        before = set(os.listdir())
        signal.alarm(PATIENCE_SECONDS)
        try:
            done = commands.run("formats", *(word.replace("{}", argument) for word in form.split()))
        finally:
            signal.alarm(0)
        if faults := faults_of(done, before):
            wrong[name] = faults
        for left in set(os.listdir()) - before:
            shutil.rmtree(left) if Path(left).is_dir() else Path(left).unlink()
    signal.signal(signal.SIGALRM, before_test)
    assert {} == wrong


@pytest.mark.sample(3)
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("inspect closed", "closed: is a folder that cannot be read: Permission denied"),
        ("verify closed/a.onnx", "closed/a.onnx: Permission denied"),
        ("mv fixed/a.onnx b.onnx", "fixed: Permission denied"),
        ("mv fixed/a.onnx fixed/b.onnx", "fixed: Permission denied"),
        ("rm fixed/a.onnx", "fixed: Permission denied"),
        ("repair fixed/a.onnx", "fixed: Permission denied"),
        ("repair closed/a.onnx", "closed/a.onnx: Permission denied"),
        ("cp good.onnx fixed/b.onnx", "fixed: Permission denied"),
        ("cp good.onnx fixed/a.onnx --force", "fixed: Permission denied"),
        ("convert good.onnx fixed/b.rten", "fixed: Permission denied"),
        ("convert good.onnx fixed/a.onnx -f", "fixed: Permission denied"),
        (
            "convert good.onnx fixed/n/b.rten --parents",
            "fixed/n: Permission denied",
        ),
        ("inspect unread.onnx", "unread.onnx: Permission denied"),
    ],
)
def test_permissions_are_named(arguments: str, line: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a folder or a file that the user may not read or write, the line names it, and no hidden file."""
    monkeypatch.chdir(place)
    if not (place / "closed").exists():
        for name in ("closed", "fixed"):
            formats.convert("example.onnx", place / name / "a.onnx", parents=True)
        (place / "unread.onnx").write_bytes(b"")
        for name, mode in (("closed", 0), ("fixed", 0o555), ("unread.onnx", 0), ("", 0o755)):
            (place / name).chmod(mode)
        for folder in place.parents[:-2]:  # all but the root and /tmp
            folder.chmod(0o755)
    modules = "glob, heapq, importlib.metadata, json, queue, tempfile, urllib.parse, numpy"
    program = f"import os, sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); import {modules}\n"
    program += (
        "from tests import commands\n"
        "from formats.verbs import convert, inspect, relocate, repair, verify; from formats.codecs import foreign\n"
    )
    for code in (f"os.seteuid({NOBODY})", f"done = commands.run('formats', *{arguments.split()!r})"):
        program += f"{code}\n"
    program += "print(done.stderr, end=''); sys.stdout.flush(); os._exit(done.exit_code)"
    commands.run("formats", "inspect", "example.onnx")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert (1, f"error: {line}\n") == (done.returncode, done.stdout.removeprefix("formats: ")), done.stderr
