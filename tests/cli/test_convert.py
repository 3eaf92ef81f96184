"""Tests of the command: what it prints, where it prints it, its exit codes, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest

import formats
from formats.codecs import lookup
from formats.codecs.keys import Key
from formats.pictures import progress_bar
from formats.tensordata.local import output
from formats.verbs import convert
from formats.verbs.steps import opening
from tests import commands
from tests.systems import PATIENCE_SECONDS

Command = Callable[..., "subprocess.CompletedProcess[str]"]
EXTENSIONS = ("onnx", "onnxz", "rten")
SLOW = """
import os, sys, time
from formats.tensordata.local import output
def slowly(function):
    def call(*arguments):
        if begun := os.environ.pop("BEGUN", ""):
            open(begun, "x").close()
        time.sleep(0.2)
        return function(*arguments)
    return call
output.OutputFile.pwrite = slowly(output.OutputFile.pwrite)
output.OutputFile.copy_range = slowly(output.OutputFile.copy_range)
from formats.cli import convert
convert()
"""


def invoke(*arguments: str | Path) -> Any:
    """Run the command in this process; return what it printed and its exit code."""
    return commands.run("convert", *arguments)


def names(folder: Path) -> list[str]:
    """Return the names of all files in a folder, including hidden ones."""
    return sorted(os.listdir(folder))


def one_line(text: str) -> str:
    """Return the only line of a text."""
    assert text.endswith("\n")
    assert 1 == text.count("\n")
    return text.rstrip("\n")


# What is done, and what is printed about it


@pytest.mark.sample(5)
@pytest.mark.parametrize("extension", EXTENSIONS)
def test_result_is_an_answer_on_stdout(digits: Path, command: Command, extension: str) -> None:
    """A conversion prints the paths, the size and the time, then whether it computes the same, then what differs."""
    done = command("digits.onnx", f"a.{extension}", "--no-onnx-hash" if extension == "rten" else "--strict")
    assert (0, "") == (done.returncode, done.stderr)
    size = (digits.parent / f"a.{extension}").stat().st_size
    first, verdict, *rest = done.stdout.splitlines()
    assert first.startswith(f"digits.onnx -> a.{extension}  {size / 1000:.1f} kB, ")
    assert first.endswith(" s")
    if extension == "rten":
        assert "computes the same, up to rounding" == verdict
        assert rest == [
            "warning: RTen does not store these metadata (labels, licence)",
            "note: 4 about NaN, infinities, empty tensors or documentation: --notes",
            "note: RTen 0.27 and later read .rten files only with their feature rten_format; "
            "--runtime rten writes an .onnx file that they read without it",
        ]
    else:
        assert ["the same model, unchanged"] == [verdict, *rest]


def test_module_and_scripts_are_the_same_commands(digits: Path, python: Command, command: Command) -> None:
    """`python -m formats` is the command `formats`, and `formats convert` is the command `convert`."""
    script = python("-c", "from formats.cli import formats; formats()", "--help")
    assert script.stdout == python("-m", "formats", "--help").stdout
    helps = [command("--help").stdout, python("-m", "formats", "convert", "--help").stdout]
    assert [text.partition(" [OPTIONS]")[0] for text in helps] == ["Usage: convert", "Usage: formats convert"]
    done = python("-m", "formats", "convert", "digits.onnx", "a.rten", "-q")
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("words", [["formats", "convert"], ["convert"]])
def test_installed_scripts_run(digits: Path, tmp_path: Path, words: list[str]) -> None:
    """The installed commands convert; the test is skipped if the package is not installed."""
    script = shutil.which(words[0], path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("needs the package formats to be installed")
    subprocess.run([script, *words[1:], "digits.onnx", "a.rten", "-q"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.rten").exists()


# Other programs of that name


@pytest.mark.parametrize(
    "arguments",
    [
        ["a.png", "b.jpg"],
        ["-resize", "50%", "a.PNG", "-quality", "90", "b.webp"],
        ["a.pdf[0]", "png:b.out"],
        ["missing.tiff", "b.tif"],
    ],
)
def test_pictures_are_for_imagemagick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """A user who converts pictures is told that this is not ImageMagick, and where that is, if installed."""
    monkeypatch.setenv("PATH", str(tmp_path))
    done = invoke(*arguments)
    words = (
        "convert: error: this `convert` is that of onnx-formats, for machine-learning models, not that of ImageMagick"
    )
    assert (2, f"{words}, which is not installed here") == (done.exit_code, one_line(done.stderr))
    for name in ("convert", "magick"):  # `magick` is the current name of the program
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert f"{words}, which is {tmp_path / name}" == one_line(invoke(*arguments).stderr)
    assert ["convert", "magick"] == names(tmp_path)


def test_volumes_are_for_windows() -> None:
    """If a user converts a volume to NTFS, the error says where the program of Windows is."""
    done = invoke("D:", "/FS:NTFS")
    assert (2, True) == (done.exit_code, r"%SystemRoot%\System32\convert.exe" in done.stderr)


@pytest.mark.parametrize("arguments", [["digits.onnx", "a.png"], ["a.png", "a.onnx"], ["a.png", "a.onnxz", "-q"]])
def test_models_are_for_us(digits: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """If one of the files is a model, the error is about that file."""
    monkeypatch.chdir(digits.parent)
    done = invoke(*arguments)
    assert (1, False) == (done.exit_code, "ImageMagick" in done.stderr)


def test_json_is_the_report(digits: Path, command: Command) -> None:
    """With `--json`, stdout is the report as one JSON document, and stderr is empty."""
    done = command("digits.onnx", "a.rten", "--json")
    report = json.loads(done.stdout)
    assert (0, "") == (done.returncode, done.stderr)
    assert ("onnx", "rten", "a.rten") == (report["source_format"], report["target_format"], report["destination"])
    assert [{"path": "a.rten", "nbytes": (digits.parent / "a.rten").stat().st_size}] == report["files"]
    assert {"kind", "where", "detail", "seen", "matters"} == report["losses"][0].keys()


@pytest.mark.sample(5)
@pytest.mark.parametrize("flag", ["-h", "--help", "--help-all"])
def test_help_says_what_is_needed(command: Command, flag: str) -> None:
    """The help shows the usage, options in their panels, and examples."""
    done = command(flag)
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.startswith("Usage: convert [OPTIONS] SRC... DST\n")
    for text in (
        "--external-data [NAME]",
        "Options for .rten:",
        "-f, --force",
        "\n  convert model.onnx model.rten\n",
    ):
        assert text in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = done.stdout.replace(",", " ").replace(".", " ").split()
    assert {codec.name for codec in lookup.built_in()} <= {*words}


def test_long_lists_of_losses_are_summarised(digits: Path, command: Command) -> None:
    """The second line counts the notes that few can see, and says how to see them: `--notes` gives each a line."""
    proto = onnx.load(digits)
    proto.graph.quantization_annotation.add(tensor_name="image")
    proto.graph.input[0].doc_string = "an image"
    proto.graph.node[0].metadata_props.add(key="k", value="v")
    onnx.save(proto, digits)
    losses = json.loads(command("digits.onnx", "a.rten", "--json").stdout)["losses"]
    *shown, usage = command("digits.onnx", "b.rten").stdout.splitlines()
    assert usage.startswith("note: RTen ")
    told = [f"note: {loss['detail']}" for loss in losses if not loss["matters"]]
    assert len(told) > 3
    assert shown[-1] == f"note: {len(told)} about NaN, infinities, empty tensors or documentation: --notes"
    assert not {*told} & {*shown}
    *every, _ = command("digits.onnx", "c.rten", "--notes").stdout.splitlines()
    assert told == [line for line in every if line.startswith("note: ")]
    assert "--notes" not in every[1]


# Options


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["digits.onnx", "a.onnx", "--external-data"], "a.onnx.data"),
        (["--external-data", "digits.onnx", "a.onnx"], "a.onnx.data"),
        (["digits.onnx", "--external-data", "a.onnx", "-q"], "a.onnx.data"),
        (["digits.onnx", "a.onnx", "--external-data", "w.data"], "w.data"),
        (["--external-data", "w.data", "digits.onnx", "a.onnx"], "w.data"),
        (["digits.onnx", "a.onnx", "--external-data=w.data", "--threads", "2"], "w.data"),
        (["digits.onnx", "--threads", "2", "--external-data", "w.data", "--", "a.onnx"], "w.data"),
    ],
)
def test_name_of_external_data_is_optional(
    digits: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], name: str
) -> None:
    """`--external-data` can be anywhere in the command line, with or without a name after it."""
    monkeypatch.chdir(digits.parent)
    assert 0 == invoke(*arguments).exit_code
    assert {"a.onnx", "digits.onnx", name} == {*names(digits.parent)}


# Errors


def test_unwritable_destinations_are_one_line(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder and a file that the user may not write to give one line and exit 1."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.onnx").write_bytes(b"mine")
    (folder / "a.onnx").chmod(stat.S_IRUSR)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):  # the superuser may write anywhere
        open_file, access = os.open, os.access

        def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if Path(path).is_relative_to(folder) and flags & (os.O_WRONLY | os.O_RDWR):
                raise PermissionError(13, "Permission denied", str(path))
            return open_file(path, flags, *rest, **more)

        monkeypatch.setattr(output.os, "open", refuse)
        monkeypatch.setattr(
            output.os, "access", lambda path, mode: access(path, mode) and folder not in Path(path).parents
        )
    new = invoke(digits, folder / "b.onnx")
    old = invoke(digits, folder / "a.onnx", "--force")
    folder.chmod(stat.S_IRWXU)
    for done in (new, old):
        assert (1, "") == (done.exit_code, done.stdout)
        assert str(folder) in one_line(done.stderr)
    assert "ermission denied" in new.stderr
    assert {"a.onnx": b"mine"} == {path.name: path.read_bytes() for path in folder.iterdir()}


def test_debug_shows_the_traceback(tmp_path: Path, command: Command) -> None:
    """With `--debug`, an error comes with its traceback; the line and the exit code are the same."""
    done = command("missing.onnx", "a.rten", "--debug")
    assert 1 == done.returncode
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert "convert: error: missing.onnx: No such file or directory" == done.stderr.splitlines()[-1]


def test_mistakes_of_the_program_are_one_line_too(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected exception gives one line that asks for a report, and exit code 1."""

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(convert, "convert", fail)
    done = invoke(digits, tmp_path / "a.onnx")
    assert 1 == done.exit_code
    assert one_line(done.stderr).startswith("convert: error: KeyError: 'oops'; this is a bug in formats")


# Names


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="this system has only Unicode file names")
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_undecodable_names_can_be_printed(digits: Path, tmp_path: Path, command: Command, locale: str) -> None:
    """Names that are not UTF-8, or that contain control characters or other scripts, are printed with escapes."""
    environment = {"LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    name = os.fsdecode("é\nü\x1b[31m".encode() + b"\xff.onnx")
    done = command("digits.onnx", name, env=environment)
    assert (0, "") == (done.returncode, done.stderr)
    assert "\\n" in done.stdout.splitlines()[0]
    assert len(done.stdout.splitlines()) == 2
    assert "\x1b" not in done.stdout
    assert (tmp_path / name).exists()
    again = command("digits.onnx", name, env=environment)
    assert 1 == again.returncode
    assert "File exists" in again.stderr
    assert "\x1b" not in again.stderr
    report = json.loads(command("digits.onnx", name, "--force", "--json", env=environment).stdout)
    assert os.fsencode(name) == report["destination"].encode("utf-8", "surrogateescape")


# Signals and progress


def answer_signals() -> None:
    """Undo what a shell or `nohup` did to make the tests ignore signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def slow(digits: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts the command, makes every write take 0.2 seconds, and waits for the first one."""
    proto = onnx.load(digits)
    for index in range(16):
        proto.graph.initializer.append(onnx.helper.make_tensor(f"w{index}", 1, [300000], bytes(1200000), raw=True))
    onnx.save(proto, digits)
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **settings: Any) -> subprocess.Popen[bytes]:
        begun = tmp_path / "begun"
        environment = {
            **os.environ,
            "BEGUN": str(begun),
            "PYTHONPATH": str(Path(formats.__file__).parents[1]),
            "TERM": "xterm",
            "COLUMNS": "80",
        }
        command = [sys.executable, "-c", SLOW, "digits.onnx", *arguments]
        if sys.platform != "win32":
            settings.setdefault("preexec_fn", answer_signals)
        started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **settings))
        end = time.monotonic() + PATIENCE_SECONDS
        while not begun.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        begun.unlink()
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX has signals")
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.outer),
        pytest.param(getattr(signal, "SIGHUP", signal.SIGTERM), marks=pytest.mark.outer),
    ],
)
def test_signals_leave_nothing_behind(slow: Any, tmp_path: Path, number: signal.Signals) -> None:
    """If interrupted, terminated or hung up, the command says so, leaves no file and exits with 128 plus the signal."""
    (tmp_path / "a.onnx.data").write_bytes(b"old data")
    process = slow("a.onnx", "--external-data", "--force", stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    assert f"convert: error: stopped by {number.name}; nothing was written" == one_line(stderr.decode())
    assert b"" == stdout
    assert 128 + number == process.returncode
    assert ["a.onnx.data", "digits.onnx"] == names(tmp_path)
    assert b"old data" == (tmp_path / "a.onnx.data").read_bytes()


@pytest.mark.outer
@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX has signals")
def test_ignored_signals_stay_ignored(slow: Any, tmp_path: Path) -> None:
    """If a hangup was ignored when the command started, as with `nohup`, it does not stop the command."""
    process = slow(
        "a.onnx",
        "--threads",
        "8",
        "-q",
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    process.send_signal(signal.SIGHUP)
    assert (None, b"") == process.communicate(timeout=PATIENCE_SECONDS)
    assert 0 == process.returncode
    assert (tmp_path / "a.onnx").exists()


def test_handlers_are_put_back(digits: Path, tmp_path: Path) -> None:
    """After a program has called the command, the program has its own signal handlers again."""
    before = signal.getsignal(signal.SIGINT)
    assert 0 == invoke(digits, tmp_path / "a.onnx").exit_code
    assert before is signal.getsignal(signal.SIGINT)


def test_progress_waits_before_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar appears half a second after the start, not earlier, and never for finished work."""
    clock = [0.0]
    bars: list[str] = []
    monkeypatch.setattr(progress_bar, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(progress_bar, "new_bar", lambda words: bars.append("bar"))
    bar = progress_bar.Progress()
    clock[0] = 0.49
    bar(1, 10)
    clock[0] = 5.0
    bar(10, 10)
    bar.close()
    assert [] == bars


def test_key_from_the_terminal(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key can be typed; it must be typed twice to encrypt a file."""
    encrypted = tmp_path / "a.onnxc"
    typed = iter(["secret words", "secret words", "secret words", "Secret words"])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    assert 0 == invoke(digits, encrypted, "--ask-key").exit_code
    done = invoke(digits, tmp_path / "b.onnxc", "--ask-key")
    assert (2, "convert: error: the two typed keys differ\n") == (done.exit_code, done.stderr)
    assert not (tmp_path / "b.onnxc").exists()
    assert digits.read_bytes() == convert.dumps(opening.load(encrypted, key=Key.of("secret words")), "onnx")


def test_a_program_shows_progress(digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`formats.Progress` is the `progress` of every function that takes long, and disappears also after an error."""
    seen: list[Any] = []
    monkeypatch.setattr(progress_bar, "PROGRESS_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress_bar, "WATCH_SECONDS", 60.0)
    monkeypatch.setattr(progress_bar, "new_bar", lambda words: SimpleNamespace(stop=lambda: seen.append("gone")))
    monkeypatch.setattr(progress_bar, "show_amount", lambda bar, done, total: seen.append((done, total)))
    other = digits.with_name("other.onnx")
    shutil.copy(digits, other)
    model = formats.load(other)
    assert model.graph is not None
    for tensor in model.graph.initializer:
        tensor.raw_data = bytes(tensor.source().nbytes)
    formats.save(model, other, overwrite=True)
    with pytest.raises(ZeroDivisionError), formats.Progress() as bar:
        result = formats.diff(digits, other, progress=bar)
        assert result.count == 6
        raise ZeroDivisionError
    *known, last, end = seen
    assert [done for done, _ in known] == sorted(done for done, _ in known)
    assert {total for _, total in known} == {known[0][1]}
    assert ((0, None), "gone") == (last, end)  # it is all done, but something may follow
