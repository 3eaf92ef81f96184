"""What this program leaves beside a model and reads later: journals, undo files, manifests and the hashes of a bundle.

Anybody may have written such a file. `use(kind, data)` puts `data` in its place, in a folder with a model, and does
what usually follows. Every error of `formats/errors.py` or of the system is a valid answer, and every other exception
is a fault. Assertions check that no file is changed but those that the record may name, and that no model is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np

import formats
from formats import Graph, Model, Node, OperatorSetId, onnxzip
from formats.errors import FormatError
from formats.tensordata.engine import EngineOptions
from formats.tensordata.replacing import tail_replacement
from formats.tensordata.replacing.journal import GoingGraph, Journal, NewFile, OldFile, journal_path, sample_of
from formats.tensordata.replacing.lock import ModelLock

PRECIOUS = b"nobody may change this"
TIME_NS = 10**18
HIDDEN = ".m.onnx.{}.tmp"
UNDO = struct.Struct("<8s3Q32s32s")
"""An undo file, without the old end of the archive: its magic, three numbers, and the digests of beginning and end."""
DIGITS = ("0" * 16, "1" * 16, "a" * 16, "b" * 16, "c" * 16)


def model(producer: str, count: int = 300) -> Model:
    """A model with one weight of so many elements."""
    weight = formats.from_numpy(np.arange(count, dtype=np.float32), "w")
    graph = Graph(name="g", node=[Node(op_type="Add", input=["x", "w"], output=["y"])], initializer=[weight])
    return Model(ir_version=10, producer_name=producer, opset_import=[OperatorSetId("", 17)], graph=graph)


@cache
def root() -> Path:
    """A folder that exists as long as the process, with a file outside of the one in which records are read."""
    made = Path(tempfile.mkdtemp(prefix="formats-records-"))
    (made / "victim").write_bytes(PRECIOUS)
    return made


def fresh(files: dict[str, bytes]) -> Path:
    """A folder with these files, and one that nobody may change."""
    folder = root() / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in {**files, "notes.txt": PRECIOUS}.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, ns=(TIME_NS, TIME_NS))  # which a journal names
    return folder


def check_others(folder: Path) -> None:
    """Check that the files which no record of the seeds names are unchanged."""
    assert (folder / "notes.txt").read_bytes() == PRECIOUS, "a file beside the model was changed"
    assert (root() / "victim").read_bytes() == PRECIOUS, "a file elsewhere was changed"


def tried(*steps: Callable[[], object]) -> None:
    """Do each step; it may refuse."""
    for step in steps:
        try:
            step()
        except (FormatError, OSError):
            pass


# A journal


@cache
def journal_files() -> dict[str, bytes]:
    """The files of a model while it is replaced: the old ones, and the new ones under hidden names."""
    folder = fresh({})
    kept = {}
    for producer, digits in (("old", None), ("new", DIGITS)):
        formats.save(model(producer, 500 if digits else 400), folder / "m.onnx", external_data=True, overwrite=True)
        for number, name in enumerate(("m.onnx.data", "m.onnx")):
            path = folder / name
            kept[name if digits is None else HIDDEN.format(digits[number])] = path.read_bytes()
    return kept


@cache
def journals() -> list[bytes]:
    """Journals of that model: with and without old files, for two models, and of a move."""
    files = journal_files()
    folder = fresh(files)
    moves = []
    for number, name in enumerate(("m.onnx.data", "m.onnx")):
        new, status = HIDDEN.format(DIGITS[number]), (folder / name).stat()
        old = OldFile(HIDDEN.format(DIGITS[2 + number]), status.st_size, status.st_mtime_ns, sample_of(folder / name))
        digest = hashlib.sha256(files[new]).hexdigest()
        moves.append(NewFile(name, new, len(files[new]), 0, 0, None, digest, old))
    without = tuple(move._replace(old=None) for move in moves)
    going = GoingGraph("gone.onnx", OldFile(HIDDEN.format(DIGITS[4]), 5, 0, None))
    moved = moves[0]._replace(new="gone.onnx.data"), moves[1]
    kinds = (
        Journal(tuple(moves), "boot"),
        Journal(without, "boot"),
        Journal(without, "", 2),
        Journal(moved, "", 1, (going,)),
    )
    return [kind.encode() for kind in kinds]


def use_journal(data: bytes) -> None:
    """Read the model, repair it, and write another in its place."""
    files = journal_files()
    folder = fresh(files)
    path = folder / "m.onnx"
    journal_path(path).write_bytes(data)
    ModelLock(path).path.touch()
    tried(
        lambda: formats.load(path),
        lambda: formats.inspect(path),
        lambda: formats.verify(path, data=True),
        lambda: formats.repair(path),
    )
    if path.exists():
        assert path.read_bytes() in (files["m.onnx"], files[HIDDEN.format(DIGITS[1])]), "the model has other bytes"
    else:
        assert any(content in _contents(folder) for content in (files["m.onnx"], files[HIDDEN.format(DIGITS[1])]))
    check_others(folder)
    tried(lambda: formats.save(model("last"), path, overwrite=True))
    check_others(folder)


def _contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir() if path.is_file()]


# An undo file


class _KilledError(BaseException):
    """The end of a process."""


@cache
def undo_files() -> dict[str, bytes]:
    """An archive and its undo file, after a process was killed while it updated the archive."""
    folder = fresh({})
    path = folder / "m.onnxz"
    formats.save(model("old"), path)
    changed = formats.load(path)
    changed.producer_name = "new"

    def end(*arguments: object) -> None:
        raise _KilledError

    with patch.object(tail_replacement, "transfer", end), patch.object(tail_replacement, "_restore", end):
        try:
            onnxzip.update(changed, path, engine=EngineOptions(threads=1))
        except _KilledError:
            pass
    return {name: (folder / name).read_bytes() for name in ("m.onnxz", ".m.onnxz.undo")}


def undo_seeds() -> list[bytes]:
    """The undo file."""
    return [undo_files()[".m.onnxz.undo"]]


def use_undo(data: bytes) -> None:
    """Read the archive, and repair it."""
    files = undo_files()
    folder = fresh({**files, ".m.onnxz.undo": data})
    path = folder / "m.onnxz"
    tried(
        lambda: formats.load(path),
        lambda: formats.inspect(path),
        lambda: formats.verify(path, data=True),
        lambda: formats.repair(path),
    )
    now, tail = path.read_bytes(), data[UNDO.size :]
    if now != files["m.onnxz"]:  # the old end is in its place again, which was whole
        assert now == files["m.onnxz"][: len(now) - len(tail)] + tail, "the archive has other bytes"
        assert hashlib.sha256(tail).digest() == UNDO.unpack_from(data)[-1], "the old end was damaged"
    check_others(folder)


# A manifest


@cache
def manifest_files() -> dict[str, bytes]:
    """A source, its result, and a file at another destination that no record names."""
    folder = fresh({})
    formats.save(model("source"), folder / "s.onnx")
    jobs = [(folder / "s.onnx", folder / "d.onnxz"), (folder / "s.onnx", folder / "g.rten")]
    formats.convert_many(jobs, manifest=folder / "runs.jsonl", processes=1)
    names = ("s.onnx", "d.onnxz", "runs.jsonl")
    return {"e.onnxz": PRECIOUS, **{name: (folder / name).read_bytes() for name in names}}


def manifests() -> list[bytes]:
    """The manifest of two jobs, and lines of one that began."""
    lines = manifest_files()["runs.jsonl"].splitlines(keepends=True)
    folder = root() / "folder"
    begun = {"source": str(folder / "s.onnx"), "destination": str(folder / "d.onnxz"), "begun": 1.5}
    return [b"".join(lines), *lines, json.dumps(begun).encode() + b"\n" + lines[-1]]


def use_manifest(data: bytes) -> None:
    """Run the jobs again, once without writing anything."""
    files = manifest_files()
    folder = fresh({**files, "runs.jsonl": data})
    jobs = [(folder / "s.onnx", folder / name) for name in ("d.onnxz", "e.onnxz")]
    for dry_run in (True, False):
        before = sorted(folder.iterdir())
        tried(lambda: formats.convert_many(jobs, manifest=folder / "runs.jsonl", processes=1, dry_run=dry_run))  # noqa: B023
        assert (folder / "s.onnx").read_bytes() == files["s.onnx"], "a source was changed"
        assert (folder / "e.onnxz").read_bytes() == PRECIOUS, "a file that no run wrote was replaced"
        assert not dry_run or sorted(folder.iterdir()) == before, "a dry run wrote a file"
    check_others(folder)


# The hashes of a bundle


@cache
def bundle() -> bytes:
    """A bundle of two models and a file."""
    folder = fresh({"t.json": b"{}"})
    for name in ("a.onnx", "b.onnx"):
        formats.save(model(name), folder / name)
    formats.pack([folder / "a.onnx", folder / "b.onnx", folder / "t.json"], folder / "m.onnxz")
    return (folder / "m.onnxz").read_bytes()


def _place_of_hashes() -> tuple[int, int]:
    """The place of the hashes in the bundle, and their size in bytes."""
    archive = bundle()
    with zipfile.ZipFile(_as_file(archive)) as opened:
        info = opened.getinfo("__SHA256SUMS")
    return info.header_offset + 30 + sum(struct.unpack_from("<2H", archive, info.header_offset + 26)), info.file_size


def _as_file(archive: bytes) -> Path:
    path = root() / "bundle.onnxz"
    path.write_bytes(archive)
    return path


def hashes() -> list[bytes]:
    """The hashes."""
    start, nbytes = _place_of_hashes()
    return [bundle()[start : start + nbytes]]


def use_hashes(data: bytes) -> None:
    """Read a bundle with these hashes, cut or filled to the same size, and unpack it."""
    start, nbytes = _place_of_hashes()
    data = data[:nbytes].ljust(nbytes, b"\n")
    archive = bytearray(bundle())
    archive[start : start + nbytes] = data
    before = zlib.crc32(hashes()[0]).to_bytes(4, "little")
    made = bytes(archive).replace(before, zlib.crc32(data).to_bytes(4, "little"))
    folder = fresh({"m.onnxz": made})
    path = folder / "m.onnxz"
    tried(
        lambda: formats.load(path, model="a"),
        lambda: formats.inspect(path),
        lambda: formats.verify(path, data=True),
        lambda: formats.unpack(path, folder / "unpacked"),
    )
    assert path.read_bytes() == made, "the bundle was changed"
    check_others(folder)


RECORDS: dict[str, tuple[Callable[[], Sequence[bytes]], Callable[[bytes], None]]] = {
    "journal": (journals, use_journal),
    "undo": (undo_seeds, use_undo),
    "manifest": (manifests, use_manifest),
    "hashes": (hashes, use_hashes),
}


def use(kind: str, data: bytes) -> None:
    """Read a record of this kind."""
    RECORDS[kind][1](data)
