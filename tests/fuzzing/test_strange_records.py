"""Journals and manifests with texts and numbers that the system cannot take are refused where they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from formats.batch.manifest import Manifest
from formats.errors import DecodeError
from formats.tensordata.replacing.hidden import HiddenFileError
from formats.tensordata.replacing.journal import journal_path, load_journal

NO_PATHS = {"zero byte": "a\0b", "half of a surrogate pair": "\ud800"}
FILE = {"path": "w", "nbytes": 1, "sha256": "0" * 64}


@pytest.mark.parametrize("name", [*NO_PATHS.values(), "x" * 5000], ids=[*NO_PATHS, "long"])
def test_journal_names_only_what_can_be_a_name(tmp_path: Path, name: str) -> None:
    """A journal with a name that no file can have is damaged, and says so, instead of a traceback."""
    rest = {"nbytes": 1, "modified_ns": 1, "inode": 1, "sample": None, "sha256": None, "old": None}
    files = [{"name": n, "new": f".m.onnx.{i * 16}.tmp", **rest} for n, i in ((name, "0"), ("m.onnx", "1"))]
    path = tmp_path / "m.onnx"
    journal_path(path).write_text(json.dumps({"journal": 1, "boot": "b", "files": files}))
    with pytest.raises(HiddenFileError, match="is not the name of a file"):
        load_journal(path)


@pytest.mark.parametrize("text", NO_PATHS.values(), ids=NO_PATHS)
@pytest.mark.parametrize("field", ["source", "destination", "source_files", "destination_files"])
def test_manifest_names_only_what_can_be_a_path(tmp_path: Path, field: str, text: str) -> None:
    """A line with a text that cannot be a path is not a line of a manifest, in each field that has paths."""
    content = {"source": "s", "destination": "d", "version": "1", "options": {}, "error": None}
    content |= {"source_files": [FILE], "destination_files": [FILE]}
    content[field] = [{**FILE, "path": text}] if field.endswith("files") else text
    _check_refused(tmp_path, json.dumps(content))


@pytest.mark.parametrize("begun", ["1" + "0" * 400, "NaN", "Infinity", "-Infinity"])
def test_manifest_has_only_times_of_clocks(tmp_path: Path, begun: str) -> None:
    """A time that no clock can show is refused, before it is compared with that of a file."""
    _check_refused(tmp_path, f'{{"source":"s","destination":"d","begun":{begun}}}')


def _check_refused(folder: Path, line: str) -> None:
    path = folder / "manifest.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DecodeError, match="line 1 is not a line of a manifest"), Manifest(path):
        pass
    assert path.read_text() == line + "\n"
