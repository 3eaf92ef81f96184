"""Every verb where the process has no standard streams, no home, no terminal, or others than it would like."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import onnx
import pytest

import formats
from formats.cli.command_line import Verb
from formats.cli.verbs import VERBS
from tests import commands
from tests.systems import NIGHT, PATIENCE_SECONDS, posix

pytestmark = posix
ROOT = Path(formats.__file__).parents[1]
FORMATS = (sys.executable, "-c", "from formats.cli import formats; formats()")
PRINTED, UNREAD, FULL = "printed", "unread", "full"  # what becomes of the text on stdout
OUTER = pytest.mark.outer
ONE_FILE = ("model.onnx", "a.onnx", "b.onnx", "old.onnx", "encoder.onnx", "decoder.onnx", "models/m.onnx")


class Surrounding(NamedTuple):
    """How a process is started, and what becomes of what it prints on stdout.

    `shell` is a command of the shell that starts "$@". The environment gets `more` and loses what is `without`. The
    stream `broken` is a pipe without a reader.
    """

    shell: str
    stdout: str = PRINTED
    more: Mapping[str, str] = MappingProxyType({})
    without: tuple[str, ...] = ()
    broken: str = ""


def has_encoding(name: str, **more: str) -> Surrounding:
    """Return a surrounding whose streams have this encoding."""
    return Surrounding('"$@"', more={"PYTHONIOENCODING": name, **more})


C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
EVERYTHING = (*os.environ,)
SURROUNDINGS = {
    "stdin closed": Surrounding('"$@" <&-'),
    "stdout closed": Surrounding('"$@" >&-', UNREAD),
    "stderr closed": Surrounding('"$@" 2>&-'),
    "all closed": Surrounding('"$@" <&- >&- 2>&-', UNREAD),
    "stdout without a reader": Surrounding('"$@"', UNREAD, broken="stdout"),
    "stderr without a reader": Surrounding('"$@"', broken="stderr"),
    "stdout full": Surrounding('"$@" >/dev/full', FULL),
    "stderr full": Surrounding('"$@" 2>/dev/full'),
    "ascii": has_encoding("ascii"),
    "cp1252, and errors are strict": has_encoding("cp1252:strict"),
    "the locale C": Surrounding('"$@"', more=C_LOCALE),
    "no home": Surrounding('"$@"', without=("HOME",)),
    "no kind of terminal": Surrounding('"$@"', without=("TERM",)),
    "a dumb terminal": Surrounding('"$@"', more={"TERM": "dumb"}),
    "an empty environment": Surrounding('exec "$@" <&-', without=EVERYTHING),
    "the working folder is gone": Surrounding('mkdir gone && cd gone && rmdir ../gone && exec "$@"'),
    "umask 0": Surrounding('umask 0; exec "$@"'),
    "umask 0777": Surrounding('umask 0777; exec "$@"'),
}
"""The surroundings of a process: its streams, its environment, its folder."""

SAMPLE = {
    (verb.name, name)  # each surrounding once, and each verb
    for number, name in enumerate(SURROUNDINGS)
    for verb in [VERBS[number % len(VERBS)]]
} | {("convert", "stdout closed"), ("convert", "stdout full"), ("rm", "all closed"), ("inspect", "all closed")}


def words_of(verb: Verb) -> list[str]:
    """Return the first example of a verb's help, without the name of the program."""
    found = re.search(r"formats ([^()\"|<>]+)", verb.examples[0])
    assert found, verb.examples
    return [word for word in shlex.split(found[1]) if word != "--dry-run"]


def make_models(folder: Path, verb: Verb) -> None:
    """Write the files that the verb's first example reads: a model whose names are not ASCII, in many copies."""
    value = onnx.helper.make_tensor_value_info
    weight = onnx.helper.make_tensor("größe 重み", 1, [4, 4], bytes(64), raw=True)
    nodes = [
        onnx.helper.make_node("MatMul", ["image", weight.name], ["features"], name="Größe/積"),
        onnx.helper.make_node("Relu", ["features"], ["größen"]),
    ]
    inputs, outputs = [value("image", 1, ["batch", 4])], [value("größen", 1, ["batch", 4])]
    graph = onnx.helper.make_graph(nodes, "größe", inputs, outputs, [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    (folder / "models").mkdir(parents=True)
    for name in ONE_FILE:
        onnx.save(model, folder / name)
    formats.extract(folder / "model.onnx", folder / "body.onnx", outputs=["features"])
    formats.extract(folder / "model.onnx", folder / "head.onnx", inputs=["features"])
    (folder / "tokenizer.json").write_text("{}")
    formats.convert(folder / "model.onnx", folder / "model.onnxz")
    if verb.name == "unpack":  # other verbs write this archive
        formats.pack([folder / "encoder.onnx", folder / "decoder.onnx"], folder / "whisper.onnxz")


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def run(surrounding: Surrounding, arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `formats` in a surrounding."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**os.environ, **surrounding.more}
    kept = {name: text for name, text in environment.items() if name not in surrounding.without}
    try:
        return subprocess.run(
            ["/bin/sh", "-c", surrounding.shell, "sh", *FORMATS, *arguments],
            cwd=folder,
            env={**kept, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            **{name: writer if surrounding.broken == name else subprocess.PIPE for name in ("stdout", "stderr")},
            text=True,
            errors="replace",
            start_new_session=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        pytest.param(verb, name, id=f"{verb.name}, {name}", marks=[] if (verb.name, name) in SAMPLE else OUTER)
        for place, verb in enumerate(VERBS)
        for number, name in enumerate(SURROUNDINGS)
        if (place + number) % 3 == 0 or (verb.name, name) in SAMPLE or NIGHT
    ],
)
def test_every_verb_in_every_surrounding(
    verb: Verb, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written as ever, and the exit code says so; a verb that only prints fails if it could not."""
    usual, here = tmp_path / "usual", tmp_path / "here"
    for folder in (usual, here):
        make_models(folder, verb)
    before = content(here)
    words = words_of(verb)
    monkeypatch.chdir(usual)
    paths = {word for word in words if Path(word).exists()}
    assert 0 == commands.run("formats", *words).exit_code
    paths |= {word for word in words if Path(word).exists()}
    surrounding = SURROUNDINGS[name]
    done = run(surrounding, [str(here / word) if word in paths else word for word in words], here)
    fails = surrounding.stdout == FULL or (surrounding.stdout != PRINTED and verb.only_prints)
    assert (verb.failure if fails else 0) == done.returncode, done.stderr
    assert content(usual) == content(here)
    assert verb.only_prints == (before == content(here)) or verb.name == "repair"  # which finds nothing to do
    if surrounding.stdout == PRINTED:
        assert done.stdout
    has_words = fails and name not in ("all closed", "stdout without a reader")
    if surrounding.broken != "stderr":
        assert has_words == done.stderr.startswith("formats: error: stdout")
        assert has_words == len(done.stderr.splitlines())


@pytest.mark.parametrize("name", ["stdout closed", "stdout full", "stdout without a reader"])
def test_a_report_that_a_program_wants(name: str, digits: Path) -> None:
    """With `--json`, a conversion whose report cannot be printed is done, and the exit code is 1."""
    done = run(SURROUNDINGS[name], ["convert", "digits.onnx", "new.onnx", "--json"], digits.parent)
    assert (1, digits.read_bytes()) == (done.returncode, digits.with_name("new.onnx").read_bytes())
    assert (name != "stdout without a reader") == done.stderr.startswith("formats: error: stdout")


@pytest.mark.parametrize("name", ["stdout full", "stderr closed", "stderr full", "all closed"])
def test_an_error_has_its_own_exit_code(name: str, digits: Path) -> None:
    """The exit code of an error is the same where the error cannot be printed, and stdout never has it."""
    for code, words in ((1, ["inspect", "missing.onnx"]), (2, ["inspect"]), (2, ["--no-such"])):
        done = run(SURROUNDINGS[name], words, digits.parent)
        assert (code, "") == (done.returncode, done.stdout)
        assert (name == "stdout full") == (1 == len(done.stderr.splitlines()))


@pytest.mark.parametrize("words", [["--help"], ["convert", "--help"], ["--version"]])
def test_help_that_cannot_be_printed(words: list[str], tmp_path: Path) -> None:
    """Help and version are printed, or the exit code is 1."""
    done = run(SURROUNDINGS["stdout full"], words, tmp_path)
    assert (1, 1) == (done.returncode, len(done.stderr.splitlines()))
    assert done.stderr.startswith("formats: error: stdout: No space left on device; the result could not be printed")


def test_a_model_for_stdout_is_alone_there(digits: Path) -> None:
    """Where stderr is closed, the report does not get into the model that goes to stdout."""
    closed = Surrounding('"$@" 2>&- >out.onnx')
    done = run(closed, ["convert", "digits.onnx", "-", "--to", "onnx"], digits.parent)
    assert (0, "") == (done.returncode, done.stdout)
    assert digits.read_bytes() == digits.with_name("out.onnx").read_bytes()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["inspect", "-"], "stdin is closed, so no model can be read from -"),
        (["batch", "--list", "-", "--out", "out", "--to", "onnxz"], "stdin is closed, so no list can be read from -"),
    ],
)
def test_closed_stdin_has_nothing(words: list[str], told: str, tmp_path: Path) -> None:
    """What would be read from stdin is refused where it is closed."""
    done = run(SURROUNDINGS["stdin closed"], words, tmp_path)
    assert (2, f"formats: error: {told}\n") == (done.returncode, done.stderr)


def test_work_goes_on_without_a_reader(digits: Path) -> None:
    """Several models are removed and converted, although nobody reads what is said about the first."""
    shutil.copy(digits, digits.with_name("a.onnx"))
    broken = SURROUNDINGS["stdout without a reader"]
    done = run(broken, ["batch", ".", "--out", "out", "--to", "onnxz"], digits.parent)
    assert (0, "", 2) == (done.returncode, done.stderr, len(os.listdir(digits.parent / "out")))
    done = run(broken, ["rm", "a.onnx", "digits.onnx"], digits.parent)
    assert (0, "", ["out"]) == (done.returncode, done.stderr, os.listdir(digits.parent))


def test_no_file_gets_the_descriptor_of_a_standard_stream(digits: Path) -> None:
    """A file that is opened in a process without standard streams is not one of them, so no print reaches it."""
    code = (
        "import os\nfrom formats.cli.streams import make_usable\nmake_usable()\n"
        "with open('new', 'w') as file:\n print('a text')\n os.write(1, b'x')\n os.write(2, b'x')\n"
        " file.write(str(file.fileno()))"
    )
    shell = '"$@" <&- >&- 2>&-'
    subprocess.run(["/bin/sh", "-c", shell, "sh", sys.executable, "-c", code], cwd=digits.parent, check=True)
    assert int(digits.with_name("new").read_text()) > 2
