"""`formats merge` and `formats.merge`: models in any format, and the permissions and files of both."""

from __future__ import annotations

import os
from pathlib import Path

import commands
import pytest

import formats


@pytest.mark.parametrize("target", ["both.onnx", "both.onnxz", "both.rten"])
def test_every_format(target: str, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of different formats are merged into another one."""
    monkeypatch.chdir(tiny_model.parent)
    formats.edit("tiny.onnx", "b.onnxz", rename={"x": "a", "y": "b"})
    done = commands.run("formats", "merge", "tiny.onnx", "b.onnxz", target, "--connect", "y=a", "--prefix", "second/")
    assert (0, "") == (done.exit_code, done.stderr)
    assert "merged: y is the input a of the second model" in done.stdout
    assert "second/b" in [value.name for value in formats.load(target).graph.output]


def test_files_and_permissions_of_both(tiny_model: Path) -> None:
    """The report has the files of both models, and nobody else may read the result if one of them is secret."""
    secret = tiny_model.with_name("secret.onnx")
    formats.convert(tiny_model, secret)
    secret.chmod(0o600)
    new = tiny_model.with_name("new.onnx")
    report = formats.merge(tiny_model, secret, new, connect={"y": "x"})
    assert report.source_files == (tiny_model, secret)
    if os.name == "posix":
        assert new.stat().st_mode & 0o777 == 0o600
        formats.edit(tiny_model, new, weights=secret, overwrite=True)
        formats.edit(tiny_model, tiny_model.with_name("newer.onnx"), weights=secret)
        assert tiny_model.with_name("newer.onnx").stat().st_mode & 0o777 == 0o600
        formats.extract(secret, tiny_model.with_name("w.npy"), tensor="w")
        assert tiny_model.with_name("w.npy").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "line,code,message",
    [
        ("tiny.onnx tiny.onnx new.onnx --connect z=x", 1, "tiny.onnx: the first model has no output 'z'"),
        (
            "tiny.onnx tiny.onnx new.onnx --connect y",
            2,
            "--connect is 'y', but must be OUT=IN, an output of the first model",
        ),
        ("tiny.onnx missing.onnx new.onnx --connect y=x", 1, "missing.onnx: No such file"),
        ("tiny.onnx new.onnx", 2, "DST is missing"),
    ],
)
def test_mistakes(line: str, code: int, message: str, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake gets one line, the exit code says whose it is, and nothing is written."""
    monkeypatch.chdir(tiny_model.parent)
    done = commands.run("formats", "merge", *line.split())
    assert message in done.stderr
    assert (code, 1) == (done.exit_code, len(done.stderr.splitlines()))
    assert not Path("new.onnx").exists()
