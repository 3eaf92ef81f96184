"""What a new user gets wrong gets one line that says what, where and what to do; `mistakes.txt` has the lines.

`python tests/cli/test_mistakes.py` writes the lines of today: read each change as somebody who has only that line.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import formats
from tests.commands import run
from tests.systems import PATIENCE_SECONDS

TABLE = Path(__file__).with_name("mistakes.txt")
PYTHON_WORDS = re.compile(r"Error\b|Traceback|\bb'|None\b|NoneType|True\b|False\b|<class|\bself\b|keyword argument")


class Row(NamedTuple):
    """A mistake, the command of it, its exit code, and all that it prints to stderr."""

    mistake: str
    command: str
    code: int
    line: str


def rows() -> list[Row]:
    """Return the rows of the table: for each a title, the command and its exit code, and the line."""
    found = []
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        mistake, command, line = block.strip().split("\n")
        text, _, code = command.removeprefix("$ ").rpartition("  # ")
        found.append(Row(mistake, text, int(code), line))
    return found


def zipped(*names: str) -> bytes:
    """Return a zip file with entries of these names."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"\x80\x02}.")
    return buffer.getvalue()


def prepare(folder: Path) -> None:
    """Make a folder like that of a new user."""
    weights = [formats.from_numpy(np.full(2048, index + 1, "float32"), f"w{index}") for index in range(2)]
    nodes = [formats.Node(op_type="Add", input=["x", "w0"], output=["y"])]
    ends = [
        formats.ValueInfo(name=name, type=formats.Type(tensor_type=formats.TensorType(elem_type=1))) for name in "xy"
    ]
    graph = formats.Graph(name="g", node=nodes, initializer=weights, input=ends[:1], output=ends[1:])
    model = formats.Model(ir_version=10, opset_import=[formats.OperatorSetId("", 17)], graph=graph)
    formats.save(model, folder / "model.onnx")
    formats.save(model, folder / "m.onnxz")
    formats.save(model, folder / "m.rten")
    formats.save(model, folder / "enc.onnxc", key="secret words")
    formats.save(model, folder / "nodata.onnx", external_data=True)
    (folder / "nodata.onnx.data").unlink()
    formats.save(model, folder / "short.onnx", external_data=True)
    os.truncate(folder / "short.onnx.data", 9000)
    content = (folder / "model.onnx").read_bytes()
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).ljust(64).encode()
    files = {
        "w.safetensors": struct.pack("<Q", 64) + header + b"1234",
        "w.pt": zipped("archive/data.pkl", "archive/version"),
        "w.npz": zipped("a.npy", "b.npy"),
        "w.zip": zipped("readme.txt"),
        "models.zip": zipped("model.onnx"),
        "w.gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(40),
        "w.tflite": struct.pack("<I", 20) + b"TFL3" + bytes(60),
        "w.h5": b"\x89HDF\r\n\x1a\n" + bytes(100),
        "config.json": b'{"architectures": ["Bert"], "model_type": "bert"}',
        "model.onnx.gz": gzip.compress(content),
        "page.onnx": b"<!DOCTYPE html><html><body>404</body></html>",
        "lfs.onnx": f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 1\n".encode(),
        "empty.onnx": b"",
        "zeros.onnx": bytes(5000),
        "cut.onnx": content[:2000],
        "notes.txt": b"models\n",
        "good.key": b"secret words\n",
        "empty.key": b"\n",
        "names.json": b"[1]",
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    shutil.copy(folder / "model.onnx", folder / "folder")
    (folder / "no-models").mkdir()
    shutil.copy(folder / "model.onnx", folder / "my model.onnx")
    (folder / "link.onnx").symlink_to("model.onnx")


def done(row: Row) -> tuple[int, str]:
    """Return the exit code and stderr of a command in this folder; a command that would ask has no terminal."""
    name, *arguments = shlex.split(row.command)
    if not {"--ask-key", "-"} & {*arguments}:
        result = run(name, *arguments)
        return result.exit_code, result.stderr.strip()
    program = f"from formats.cli import {name} as run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        start_new_session=True,
    )
    return ended.returncode, ended.stderr.strip()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a new user, which no mistake changes."""
    path = tmp_path_factory.mktemp("mistakes")
    prepare(path)
    return path


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.mistake.replace(" ", "-"))
def test_a_mistake_gets_its_line(row: Row, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, the exit code of the table, no words of Python, and nothing is written."""
    monkeypatch.chdir(folder)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    assert (row.code, row.line) == done(row)
    assert len(row.line.splitlines()) == 1
    assert not PYTHON_WORDS.search(row.line)
    assert before == {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}


def main() -> None:
    """Write the lines of today."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as name:
        prepare(Path(name))
        os.chdir(name)
        found = [row._replace(code=code, line=line) for row in rows() for code, line in [done(row)]]
        os.chdir(TABLE.parent)
    blocks = [f"{row.mistake}\n$ {row.command}  # {row.code}\n{row.line}\n" for row in found]
    TABLE.write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
