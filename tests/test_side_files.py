"""Files beside a model (weights, metadata, lists, manifests): the process stays small and quick, whatever they hold.

The process is measured, not Python: its memory and its processor time, for files that ask for much of both.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import routes
from tests.systems import PATIENCE_SECONDS

MOST_MIB = 400
MOST_SECONDS = 30.0


def npz(path: Path, version: int, head: bytes, nbytes: int, count: int = 1) -> None:
    """Write an .npz file with packed arrays: each has this head, and as many zeros as bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(count):
            archive.writestr(f"{number}.npy", b"\x93NUMPY" + bytes([version, 0]) + head + bytes(nbytes))


def texts(path: Path) -> None:
    """Write arrays of texts that have 120 MB together."""
    head = b"{'descr': '<U1', 'fortran_order': False, 'shape': (10000000,), }".ljust(117) + b"\n"
    npz(path, 1, len(head).to_bytes(2, "little") + head, 40_000_000, 3)


def arrays(path: Path) -> None:
    """Write more arrays than are read: one, which the directory has again and again."""
    npz(path, 1, b"", 0)
    data = path.read_bytes()
    start, end = data.rfind(b"PK\1\2"), data.rfind(b"PK\5\6")
    count, nbytes = 150_000, (end - start) * 150_000
    zip64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, nbytes, start)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, start + nbytes, 1)
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:start] + data[start:end] * count + zip64 + locator + last)


def lists(path: Path) -> None:
    """Write JSON with millions of empty lists."""
    path.write_bytes(b'{"a":[' + b"[]," * 20_000_000 + b"[]]}\n")


def dims(path: Path) -> None:
    """Write a .safetensors file with a weight of a million dims."""
    entry = {"w": {"dtype": "F32", "shape": [1] * 1_000_000, "data_offsets": [0, 4]}}
    head = json.dumps(entry).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))


# Runs a command from a small process: the memory of a process counts what it had before it became another program.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_maxrss, used.ru_utime + used.ru_stime]))
"""
INPUTS = "diff m.onnx m.onnx --check-inputs"
EDIT, BATCH = "edit m.onnx new.onnx", "batch models --out out --to onnxz --jobs 1 --parents"
CASES: dict[str, tuple[str, str, Callable[[Path], None] | None, str]] = {
    "header": (
        f"{EDIT} --weights",
        "w.npz",
        lambda path: npz(path, 2, b"\0\0\0\x10", 1 << 28),
        "the header of an array has",
    ),
    "texts": (f"{EDIT} --weights", "w.npz", texts, "bytes of text, the maximum"),
    "arrays": (f"{EDIT} --weights", "w.npz", arrays, "the file has 150,000 arrays"),
    "dims": (f"{EDIT} --weights", "w.safetensors", dims, "w has dims [1, 1, 1, 1, 1, 1, 1, 1] and 999992 more"),
    "metadata": (f"{EDIT} --metadata-file", "w.json", lists, "has at most 16,777,216 bytes"),
    "inputs, header": (
        INPUTS,
        "w.npz",
        lambda path: npz(path, 2, b"\0\0\0\x10", 1 << 28),
        "the header of an array has",
    ),
    "inputs, texts": (INPUTS, "w.npz", texts, "bytes of text, the maximum"),
    "inputs, arrays": (INPUTS, "w.npz", arrays, "the file has 150,000 arrays"),
    "endless metadata": (f"{EDIT} --metadata-file", "/dev/zero", None, "has at most 16,777,216 bytes"),
    "endless list": ("batch --out out --to onnxz --list", "/dev/zero", None, "is not a text file"),
    "endless key": ("convert m.onnx new.onnxc --key-file", "/dev/zero", None, "the maximum"),
    "manifest": (f"{BATCH} --manifest", "w.jsonl", lists, "line 1 is not a line of a manifest"),
    "endless manifest": (f"{BATCH} --manifest", "/dev/zero", None, "expected a regular file"),
}


@pytest.mark.sample(3)
@pytest.mark.skipif(sys.platform != "linux", reason="this system does not tell what a process took")
@pytest.mark.parametrize("name", CASES)
def test_a_file_beside_a_model_takes_little(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile file is one short error line, in bounded memory and time of the process, and nothing is written."""
    line, file, make, words = CASES[name]
    monkeypatch.chdir(tmp_path)
    routes.make_folder(tmp_path)
    if make is not None:
        make(Path(file))
    before = {*Path().iterdir()}
    command = [sys.executable, "-c", "from formats.cli import formats; formats()", *line.split(), file]
    measured = [sys.executable, "-c", MEASURE, *command]
    done = subprocess.run(measured, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    code, kib, seconds = json.loads(done.stdout.splitlines()[-1])
    text, mib = done.stderr, kib >> 10
    print(f"{name}: {mib} MiB, {seconds:.1f} s of processor time")
    assert code in (1, 2), text[:500]
    assert words in text
    assert text.count("\n") == 1
    assert len(text) < 1000
    assert mib < MOST_MIB
    assert seconds < MOST_SECONDS
    assert {*Path().iterdir()} == before
