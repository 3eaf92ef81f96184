"""All command lines of `tests/routes.py`: streams, permissions and names as they should not be; files and memory."""

from __future__ import annotations

import gc
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import pytest

from formats.cli import process, streams
from formats.cli.verbs import VERBS
from formats.onnxpb.encryption import crypt
from tests import commands
from tests.routes import LINES, make_folder
from tests.systems import open_files, posix, without_rights

pytestmark = posix
RUNS = int(os.environ.get("FORMATS_MODELS", "300")) // 2  # of the command lines of a verb, whose memory is measured
MAX_GROWTH_MIB = 8
DENIED = re.compile(r"(formats: )?error: (\.|[^.][^:]*): (.*: )?Permission denied")  # with no hidden file


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the command lines; keys are derived in one round."""
    path = tmp_path_factory.mktemp("template")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crypt, "KEY_ITERATIONS", 1)
        make_folder(path)
        yield path


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, but not of encrypted ones and manifests, which always differ."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: b"" if name.endswith((".onnxc", ".jsonl")) else data for name, data in found.items()}


Ran = tuple[commands.Done, dict[str, bytes]]


@pytest.fixture
def usual(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Ran]:
    """Return a function that runs a command line in a copy of the folder; it returns the answer and all files."""

    def run(line: str) -> Ran:
        folder = tmp_path / "usual"
        shutil.copytree(template, folder)
        monkeypatch.chdir(folder)
        done = commands.run("formats", *line.split())
        return done, content(folder)

    return run


@contextmanager
def unprintable(kind: str) -> Iterator[TextIO]:
    """A stream that takes nothing: a full device, or one that was closed when the process began."""
    stream = open("/dev/full" if kind == "full" else os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - closed below
    if kind == "closed":
        streams.CLOSED.add(stream)
    yield stream
    streams.CLOSED.discard(stream)
    with suppress(OSError):  # what it did not take
        stream.close()


@pytest.mark.sample(20)
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("kind", ["full", "closed"])
def test_what_is_printed_gets_lost(
    kind: str, name: str, usual: Callable[[str], Ran], template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a full or closed stdout, or stderr too, the work is the same; the exit code says if a report is lost."""
    line = LINES[name]
    done, files = usual(line)
    verb = next(verb for verb in VERBS if verb.name == line.split()[0])
    is_lost = bool(done.stdout) and not done.stderr and (kind == "full" or verb.only_prints or "--json" in line)
    for both in (False, True):
        folder = tmp_path / f"both {both}"
        shutil.copytree(template, folder)
        monkeypatch.chdir(folder)
        with unprintable(kind) as out, io.StringIO() as said, redirect_stdout(out):
            with redirect_stderr(out if both else said):
                code = process.run("formats", line.split())
            told = said.getvalue().splitlines()
        assert (verb.failure if is_lost else done.exit_code) == code
        assert files == content(folder)
        if not both and not done.stderr:
            assert [True] * is_lost == [text.startswith("formats: error: stdout") for text in told]


@pytest.mark.sample(20)
@pytest.mark.skipif(not open_files(), reason="this system does not tell which files are open")
@pytest.mark.parametrize("name", LINES)
def test_no_file_stays_open(name: str, usual: Callable[[str], Ran]) -> None:
    """After a command, all its files are closed, without a search of the collector."""
    before = open_files()
    gc.disable()
    try:
        usual(LINES[name])
        assert set() == open_files() - before
    finally:
        gc.enable()


@contextmanager
def no_write_permission(folder: Path) -> Iterator[None]:
    """A context in which everybody may read the files below the folder, and this process may write nothing there."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with without_rights(folder):
            yield
    finally:
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", LINES)
def test_a_folder_without_write_permission(
    name: str, usual: Callable[[str], Ran], template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only reads has the same answer; what writes is refused in one line, which names no hidden file."""
    before = content(template)
    done, files = usual(LINES[name])
    folder = tmp_path / "fixed"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    with no_write_permission(folder):
        refused = commands.run("formats", *LINES[name].split())
    assert before == content(folder)
    if next(verb.only_prints for verb in VERBS if verb.name == LINES[name].split()[0]) and before == files:
        assert done == refused
    if done == refused:
        assert before == files
    else:
        said = refused.stderr.splitlines()
        assert (1, True) == (refused.exit_code, bool(said))
        assert [] == [line for line in said if not DENIED.fullmatch(line)]


PREFIXES = {
    "spaces": "a b ",
    "a line break": "a\nb",
    "a dash": "-",
    "not UTF-8": "\udcff",
    "for a shell": "\"'`$(x);&",
    "for a terminal": "\x1b[31m\u202e",
}


def renamed(word: str, names: set[str], prefix: str) -> str:
    """Return a word of a command line with another name for the file that it names, if it names one."""
    option, equals, path = word.rpartition("=")
    if path not in names:
        return word
    folder, slash, name = path.rpartition("/")
    start = "./" if not slash and prefix.startswith("-") else ""
    return f"{option}{equals}{start}{folder}{slash}{prefix}{name}"


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("kind", PREFIXES)
def test_strange_names(
    kind: str, name: str, usual: Callable[[str], Ran], template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files with strange names are read and written like others, or refused in one line, and each line stays one."""
    done, _ = usual(LINES[name])
    words = LINES[name].split()
    usual_folder = Path.cwd()
    names = {str(path.relative_to(usual_folder)) for path in usual_folder.rglob("*")}
    names |= {str(path.relative_to(template)) for path in template.rglob("*")}
    folder = tmp_path / "strange"
    shutil.copytree(template, folder)
    monkeypatch.chdir(folder)
    new = [renamed(word, names, PREFIXES[kind]) for word in words]
    for old, word in zip(words, new, strict=True):
        path = old.rpartition("=")[2]
        if old != word and os.path.lexists(path):
            os.rename(path, word.rpartition("=")[2])
    before = content(folder)
    found = commands.run("formats", *new)
    assert all(char.isprintable() or char == "\n" for char in found.output)
    assert "a\nb" not in found.output
    assert not [path for path in folder.rglob(".*") if path.name not in names]
    if done.exit_code != found.exit_code:
        assert "is not UTF-8" in found.stderr
        assert (1, before) == (found.stderr.count("\n"), content(folder))


@pytest.mark.outer
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell the memory in use")
@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_memory_stays_flat(verb: str, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that runs the command lines of a verb again and again needs no more memory for the last ones."""
    lines = [line for line in LINES.values() if line.split()[0] == verb]

    def resident_mib(runs: int) -> int:
        for number in range(runs):
            folder = tmp_path / "folder"
            shutil.copytree(template, folder)
            monkeypatch.chdir(folder)
            commands.run("formats", *lines[number % len(lines)].split())
            shutil.rmtree(folder)
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    before = resident_mib(2 * len(lines))
    assert resident_mib(RUNS) - before < MAX_GROWTH_MIB
