"""Tests that every option does something: a command line with it has another result than the same line without it."""

from __future__ import annotations

import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import onnx
import pytest
from onnx import helper

import formats
from formats.cli.verbs import VERBS
from formats.options import option_rows
from tests import commands
from tests.routes import EFFECTS, ROUTES, make_folder

TIME = re.compile(r"\d+\.\d\d s")  # in an answer
# What no command line on small local files shows: the tests of the engine, of stores, of clusters and of RTen do.
ELSEWHERE = {"chunk_bytes", "in_flight_bytes", "progress", "storage_options", "retries", "source_hash", "dask"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the models of the command lines."""
    path = tmp_path_factory.mktemp("models")
    make_folder(path)
    return path


def content(path: Path) -> bytes:
    """Return the bytes of a file; of an encrypted one only the head and the size, because its salt is new each time."""
    data = path.read_bytes()
    return data[:8] + str(len(data)).encode() if path.suffix == ".onnxc" else data


def result(folder: Path, place: Path, line: str) -> Any:
    """Return what can be seen of a command line: exit code, output, files, and how often some functions were called."""
    shutil.copytree(folder, place)
    os.link(place / "weights.bin", place / "second name")
    before = Path.cwd()
    os.chdir(place)
    try:
        with (
            mock.patch.object(os, "fsync", wraps=os.fsync) as fsync,
            mock.patch.object(threading.Thread, "start", autospec=True, side_effect=threading.Thread.start) as start,
        ):
            done = commands.run("formats", *line.split())
    finally:
        os.chdir(before)
    files = {str(path.relative_to(place)): content(path) for path in place.rglob("*") if path.is_file()}
    stdout, stderr = (TIME.sub("TIME", text).replace(str(place), "PLACE") for text in done[1:])
    return done.exit_code, stdout, stderr, files, fsync.call_count, start.call_count


def test_every_option_is_listed() -> None:
    """Every option of a command is in the table, and the table has no others."""
    classes = dict.fromkeys(group.options for verb in VERBS for group in verb.groups(False))
    rows = [(f"{options.__name__}.{row.name}", row.name) for options in classes for row in option_rows(options)]
    assert sorted(EFFECTS) == sorted(label for label, name in rows if name not in ELSEWHERE)


def test_every_verb_has_a_route() -> None:
    """Every verb of the command is in the list of command lines that all proofs run."""
    assert {verb.name for verb in VERBS} == {line.split()[0] for line in ROUTES.values()}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", EFFECTS)
def test_every_option_has_an_effect(name: str, folder: Path, tmp_path: Path) -> None:
    """A command line with the option has another result than without it; the same line has the same result twice."""
    line, words, code = EFFECTS[name]
    without, again, given = (
        result(folder, tmp_path / str(number), each) for number, each in enumerate((line, line, f"{line} {words}"))
    )
    assert without == again
    assert given[0] == code
    assert given != without
    verb, source, destination, *_ = [*line.split(), "", ""]
    new = tmp_path / "2" / destination
    is_onnx = verb == "convert" and Path(source).suffix == new.suffix == ".onnx" and new.is_file()
    if is_onnx and "the same model, unchanged" in given[1] and "weights were not written" not in given[1]:
        assert formats.diff(tmp_path / "2" / source, new).equal  # who changes a model returns an `Edit`


@pytest.mark.skipif(not hasattr(os, "preadv"), reason="this system has no preadv")
def test_smaller_chunks_are_more_reads(tmp_path: Path) -> None:
    """A file is read in pieces of the size of a chunk."""
    counts = []
    weight = helper.make_tensor("w", onnx.TensorProto.FLOAT, [1 << 20], bytes(4 << 20), raw=True)
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [weight])), tmp_path / "m.onnx")
    for number, chunk_bytes in enumerate((1 << 18, 1 << 22)):
        with mock.patch.object(os, "preadv", wraps=os.preadv) as read:
            formats.convert(tmp_path / "m.onnx", tmp_path / f"{number}.onnxz", chunk_bytes=chunk_bytes, threads=1)
        counts.append(read.call_count)
    assert counts[0] > counts[1] + 8
