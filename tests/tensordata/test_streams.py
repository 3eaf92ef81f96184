"""Models that are read from pipes and other streams, and written to them: in one process, and between processes."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.errors import ExternalDataError, FormatError, OptionError, TensorDataError
from tests.pseudo_terminal import on_terminal
from tests.systems import PATIENCE_SECONDS
from tests.tensordata.remote.remote_servers import large_model, write_sparse

SUFFIXES = (".onnx", ".onnxz", ".rten", ".textproto", ".json")
posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes in its filesystem")
PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "formats", *sys.argv[1:]])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(done.returncode)
"""


def run(*arguments: Any, data: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command `formats` in its own process, with `data` on stdin."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **options.pop("env", {})}
    command = [sys.executable, "-m", "formats", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, env=environment, check=False, **options)


class Trickle(io.RawIOBase):
    """A stream without a descriptor that reads and writes few bytes at a time."""

    def __init__(self, data: bytes = b"") -> None:
        self.rest, self.taken = data, bytearray()

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        piece, self.rest = self.rest[: min(len(buffer), 1000)], self.rest[min(len(buffer), 1000) :]
        buffer[: len(piece)] = piece
        return len(piece)

    def write(self, data: Any) -> int:
        """Write some bytes."""
        self.taken += bytes(data[:777])
        return min(len(data), 777)


@pytest.mark.sample(3)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_from_stdin_to_stdout(digits: Path, tmp_path: Path, suffix: str) -> None:
    """A conversion through pipes gives the same bytes as through files, and the same when converted back."""
    formats.convert(digits, tmp_path / f"file{suffix}")
    expected = (tmp_path / f"file{suffix}").read_bytes()
    done = run("convert", "-", "-", "--to", suffix[1:], data=digits.read_bytes())
    assert (0, expected) == (done.returncode, done.stdout)
    assert done.stderr.startswith(b"<stdin> -> <stdout>")
    formats.convert(io.BytesIO(done.stdout), tmp_path / "back.onnxz")
    assert formats.diff(tmp_path / "back.onnxz", tmp_path / f"file{suffix}").equal


def test_looking_at_stdin(digits: Path, tmp_path: Path) -> None:
    """`inspect`, `verify` and `diff` accept - for a model."""
    formats.convert(digits, tmp_path / "file.onnxz")
    data = (tmp_path / "file.onnxz").read_bytes()
    checked = run("verify", "-", "--data", "--json", data=data)
    assert ("<stdin>", True) == tuple(json.loads(checked.stdout)[key] for key in ("path", "ok"))
    assert 0 == run("diff", digits, "-", data=data).returncode
    assert "onnxz" == json.loads(run("inspect", "-", "--json", data=data).stdout)["format"]


@posix
def test_pipes_in_the_filesystem(digits: Path, tmp_path: Path) -> None:
    """A named pipe, and one of `<(...)`, is read once and written once; its extension determines the format."""
    formats.convert(digits, tmp_path / "file.onnxz")
    os.mkfifo(tmp_path / "in")
    os.mkfifo(tmp_path / "out.onnxz")
    got: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: (tmp_path / "in").write_bytes(digits.read_bytes())),
        threading.Thread(target=lambda: got.append((tmp_path / "out.onnxz").read_bytes())),
    ]
    for thread in threads:
        thread.start()
    report = formats.convert(tmp_path / "in", tmp_path / "out.onnxz")
    for thread in threads:
        thread.join()
    assert [(tmp_path / "file.onnxz").read_bytes()] == got
    assert ["in"] == [file.name for file in report.source_files]
    assert (tmp_path / "out.onnxz").is_fifo()
    command = f'"{sys.executable}" -m formats verify <(cat "{tmp_path}/file.onnxz") --data'
    assert b"/dev/fd/" in subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout
    picture = f'"{sys.executable}" -m formats inspect <(cat "{digits}") --picture "{tmp_path}/picture.svg"'
    subprocess.run(["bash", "-c", picture], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    assert (tmp_path / "picture.svg").exists()


@posix
def test_a_pipe_waits_for_its_reader(digits: Path, tmp_path: Path) -> None:
    """What is written to a named pipe waits until someone reads it; `overwrite` does not replace the pipe."""
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    before = sorted(tmp_path.iterdir())
    writer = threading.Thread(target=lambda: formats.convert(digits, pipe, overwrite=True))
    writer.start()
    writer.join(0.5)
    assert writer.is_alive()
    read = subprocess.run(["cat", pipe], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    writer.join()
    assert formats.loads(read.stdout) == formats.load(digits)
    assert pipe.is_fifo()
    assert before == sorted(tmp_path.iterdir())


def unzipped(data: bytes) -> gzip.GzipFile:
    """A file object that returns other bytes than its file contains."""
    return gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(data)))


@pytest.mark.parametrize("of", [io.BytesIO, Trickle, unzipped])
def test_file_objects(digits: Path, tmp_path: Path, of: Callable[[bytes], Any]) -> None:
    """The library reads from objects with `read`, and writes to objects with `write`."""
    data = digits.read_bytes()
    assert formats.load(of(data)) == formats.load(digits)
    assert formats.verify(of(data), data=True).ok
    assert formats.diff(of(data), digits).equal
    assert "onnx" == formats.inspect(of(data)).format
    for target in (io.BytesIO(), Trickle()):
        formats.convert(of(data), target, to_format="onnxz")
        written = target.getvalue() if isinstance(target, io.BytesIO) else bytes(target.taken)
        formats.convert(digits, tmp_path / "file.onnxz", overwrite=True)
        assert (tmp_path / "file.onnxz").read_bytes() == written
    with (tmp_path / "named.rten").open("wb") as file:  # its name has an extension
        report = formats.save(formats.load(digits), file)
    assert "rten" == report.target_format
    assert formats.diff(digits, tmp_path / "named.rten").equal


def test_a_file_is_not_copied(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A regular file is read in place, from its start, or, if it was partly read, from its position."""
    padded = tmp_path / "padded"
    padded.write_bytes(b"12345" + digits.read_bytes())
    with padded.open("rb") as file:
        file.read(5)
        assert formats.load(file) == formats.load(digits)
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    with digits.open("rb") as file:
        model = formats.load(file)
    assert formats.load(digits) == model  # this needs no open file object
    with digits.open("rb") as file:
        command = [sys.executable, "-m", "formats", "verify", "-", "--data"]
        assert (
            0 == subprocess.run(command, stdin=file, env={**os.environ, "TMPDIR": "/nowhere"}, check=False).returncode
        )


def test_sessions(digits: Path) -> None:
    """Onnxruntime runs a model from a stream."""
    pytest.importorskip("onnxruntime")
    with_path, with_stream = (formats.onnxruntime_session(given) for given in (digits, io.BytesIO(digits.read_bytes())))
    assert [each.name for each in with_path.get_inputs()] == [each.name for each in with_stream.get_inputs()]


def test_what_needs_other_files(digits: Path, tmp_path: Path) -> None:
    """A stream is one file: external data, several files and links are refused, and the error says what to do."""
    outside = tmp_path / "outside.onnx"
    formats.convert(digits, outside, external_data=True, size_threshold=0)
    for look in (formats.load, formats.inspect):
        with pytest.raises(
            ExternalDataError, match=r"external data in 'outside.onnx.data'.*give the path of the model"
        ):
            look(io.BytesIO(outside.read_bytes()))
    assert not formats.verify(io.BytesIO(outside.read_bytes())).ok
    target = io.BytesIO()
    formats.convert(outside, target, to_format="onnx")  # by default, it contains all weights
    assert formats.diff(io.BytesIO(target.getvalue()), digits).equal
    with pytest.raises(FormatError, match="these options make 2 files, but a stream can hold only one"):
        formats.convert(outside, io.BytesIO(), to_format="onnx", external_data=True)
    formats.convert(digits, tmp_path / "a.onnxz")
    for source, destination in ((tmp_path / "a.onnxz", io.BytesIO()), (io.BytesIO(b"PK"), tmp_path / "l.onnx")):
        with pytest.raises(FormatError):
            formats.convert(source, destination, to_format="onnx", link=True)
    with pytest.raises(FormatError, match="`link` needs paths"):
        formats.convert(io.BytesIO((tmp_path / "a.onnxz").read_bytes()), tmp_path / "l.onnx", link=True)
    assert not (tmp_path / "l.onnx").exists()


def test_what_a_stream_cannot_be(digits: Path, tmp_path: Path) -> None:
    """Options and functions that need files refuse a stream before they read it."""
    source = io.BytesIO(digits.read_bytes())
    with pytest.raises(OptionError, match="`fsync` is for files"):
        formats.convert(digits, io.BytesIO(), to_format="onnx", fsync=True)
    with pytest.raises(FormatError, match="no extension"):
        formats.convert(digits, io.BytesIO())
    for refused in (
        lambda: formats.convert_many([(source, tmp_path / "out.onnxz")]),
        lambda: formats.files(source),
        lambda: formats.cp(source, tmp_path / "copy.onnx"),
        lambda: formats.share([source, digits], tmp_path / "shared"),
    ):
        with pytest.raises(OptionError, match=r"is a (pipe or a )?stream"):
            refused()
    with pytest.raises(TypeError, match="one of bytes"):
        formats.load(io.StringIO("ir_version: 8"))  # type: ignore[arg-type]
    assert 0 == source.tell()
    model = formats.load(source)
    with pytest.raises(TensorDataError, match="another process"):
        pickle.dumps(model)
    assert copy.deepcopy(model) == model


def test_dry_run(digits: Path) -> None:
    """A dry run to stdout writes nothing there, and its report goes to stderr."""
    done = run("convert", digits, "-", "--to", "onnxz", "--dry-run")
    assert (0, b"") == (done.returncode, done.stdout)
    assert b"<stdout>" in done.stderr
    target = io.BytesIO()
    assert formats.convert(digits, target, to_format="rten", dry_run=True).nbytes > 50_000
    assert b"" == target.getvalue()


@pytest.mark.parametrize("fails", [False, True])
def test_reports_leave_stdout_alone(digits: Path, tmp_path: Path, fails: bool) -> None:
    """If the model goes to stdout, stderr contains only the report or the error in JSON."""
    source = digits if not fails else tmp_path / "missing.onnx"
    done = run("convert", source, "-", "--to", "onnxz", "--json")
    assert fails == (b"" == done.stdout)
    assert ("error" in json.loads(done.stderr)) is fails
    wrong = run("convert", source, "-", "--to", "onnxz", "--json", "--no-such-option")
    assert (2, b"") == (wrong.returncode, wrong.stdout)
    if not fails and os.name != "nt":
        to_device = run("convert", source, "/dev/stdout", "--to", "onnxz", "--json")
        assert done.stdout == to_device.stdout
        assert "/dev/stdout" == json.loads(to_device.stderr)["destination"]


def test_a_file_called_minus(digits: Path, tmp_path: Path) -> None:
    """`./-` is a file."""
    done = run("convert", digits, "./-", "--to", "onnxz", "-q", cwd=tmp_path)
    assert (0, True) == (done.returncode, (tmp_path / "-").is_file())
    assert b"onnxz" in run("inspect", "./-", cwd=tmp_path).stdout


def test_bad_input(digits: Path, tmp_path: Path) -> None:
    """A pipe that ends early, or contains no model, is one clear error, and nothing is written."""
    for data, words in (
        (digits.read_bytes()[:20_000], "truncated"),
        (b"", "empty file"),
        (b"<!DOCTYPE html><html>not found</html>", "HTML"),
    ):
        done = run("convert", "-", tmp_path / "empty" / "out.rten", "--parents", data=data)
        assert (1, b"") == (done.returncode, done.stdout)
        assert done.stderr.startswith(b"formats: error: <stdin>")
        assert words in done.stderr.decode()
    assert not (tmp_path / "empty").exists()


@posix
def test_closed_streams(digits: Path, tmp_path: Path) -> None:
    """A closed stdin or stdout is an error in the command line."""
    for command in ("verify - <&-", f"convert '{digits}' - --to rten >&-"):
        whole = ["sh", "-c", f'exec "{sys.executable}" -m formats {command}']
        done = subprocess.run(whole, capture_output=True, check=False)
        assert (2, 1) == (done.returncode, len(done.stderr.splitlines()))
        assert b"is closed" in done.stderr


@posix
def test_terminals(digits: Path) -> None:
    """Text is written to a terminal, a model is not, and no model is read from it."""

    def shown(*arguments: str, stdin: bool = False) -> tuple[int, str]:
        command = [sys.executable, "-m", "formats", *arguments]
        return on_terminal(
            lambda end: subprocess.Popen(command, stdin=end if stdin else subprocess.DEVNULL, stdout=end, stderr=end)
        )

    code, got = shown("convert", str(digits), "-", "--to", "onnxz")
    assert (1, True) == (code, "a terminal cannot show these bytes" in got)
    assert "PK" not in got
    code, got = shown("convert", str(digits), "-", "--to", "textproto")
    assert (0, True) == (code, "ir_version: 8" in got)
    code, got = shown("inspect", "-", stdin=True)
    assert (2, True) == (code, "stdin is a terminal" in got)


@posix
def test_a_reader_that_stops(tmp_path: Path) -> None:
    """If the other end of the pipe closes early, this is one line and exit code 1, and no temporary file is left."""
    write_sparse(large_model(8, 1 << 20), tmp_path / "m.onnx")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "formats", "convert", str(tmp_path / "m.onnx"), "-", "--to", "onnx"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read().decode()
    assert 1 == process.returncode
    assert 1 == len(told.splitlines()), told
    assert "<stdout>: the reader stopped after " in told
    assert [] == os.listdir(tmp_path / "tmp")


@pytest.mark.outer  # several tests of the inner ring measure memory
@posix
def test_bounded_memory(tmp_path: Path) -> None:
    """Memory does not grow with the model; the copies are on the disk, without names."""
    write_sparse(large_model(8, 32 << 20), tmp_path / "m.onnx")
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(["cat", tmp_path / "m.onnx"], stdout=subprocess.PIPE) as writer:
        command = [sys.executable, "-c", PEAK, "convert", "-", "-", "--to", "onnx", "-q"]
        with (tmp_path / "out.onnx").open("wb") as out:
            done = subprocess.run(
                command, stdin=writer.stdout, stdout=out, stderr=subprocess.PIPE, env=environment, check=False
            )
    assert 0 == done.returncode, done.stderr
    assert (tmp_path / "m.onnx").stat().st_size == (tmp_path / "out.onnx").stat().st_size
    assert formats.diff(tmp_path / "m.onnx", tmp_path / "out.onnx").equal
    assert int(done.stderr) < 80 << 10  # KiB
    assert [] == os.listdir(tmp_path / "tmp")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no disk that is always full")
def test_no_space(digits: Path) -> None:
    """A stream that accepts no more bytes is an error that names it."""
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space left") as caught:
        formats.convert(digits, full, to_format="onnx")
    assert "/dev/full" == caught.value.filename
