"""Small models are read at once, and large ones stay in their files, of which few are open."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

import formats.onnxpb
from formats.errors import FormatError
from formats.onnx_compat import loading


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a model with weights in the file, and others beside it."""
    arrays = [np.full(2000, number, np.float32) for number in range(3)]
    tensors = [onnx.numpy_helper.from_array(array, f"w{place}") for place, array in enumerate(arrays)]
    onnx.external_data_helper.set_external_data(tensors[2], "m.data")
    graph = onnx.helper.make_graph([], "g", [], [], tensors)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def change(path: Path, kind: str) -> None:
    """Change or remove both files."""
    for each in (path, path.with_name("m.data")):
        if kind == "removed":
            each.unlink()
        elif kind == "cut":
            os.truncate(each, 100)
        else:
            with each.open("r+b") as file:
                file.write(bytes(each.stat().st_size))


@pytest.mark.parametrize("kind", ["overwritten", "cut", "removed"])
def test_small_files_may_change_after_loading(path: Path, kind: str) -> None:
    """A small model is what it was when it was loaded, as with `onnx`, whatever happens to its files."""
    expected = onnx.load(path).SerializeToString()
    by_helper = formats.onnxpb.load(path, load_external_data=False)
    formats.onnxpb.load_external_data_for_model(by_helper, path.parent)
    found = formats.onnxpb.load(path)
    change(path, kind)
    assert expected == found.SerializeToString() == by_helper.SerializeToString()


def test_large_files_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of a large model stay in its files; if these change, the error says how to read all at once."""
    monkeypatch.setattr(loading, "AT_ONCE_BYTES", 1000)
    found, read = formats.onnxpb.load(path), formats.onnxpb.load(path, num_threads=0)
    expected = read.SerializeToString()
    change(path, "overwritten")
    with pytest.raises(FormatError, match="the file has changed since it was read; load the model again, with num_thr"):
        found.SerializeToString()
    assert expected == read.SerializeToString()


def test_many_models(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of models can be kept: few files are open, and all weights can be read."""
    monkeypatch.setattr(loading, "AT_ONCE_BYTES", 1000)
    monkeypatch.setattr(loading, "KEPT_OPEN", len(loading._open) + 10)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    expected = onnx.load(path).SerializeToString()
    models = [formats.onnxpb.load(path) for _ in range(50)]
    models += [formats.onnxpb.load(path, load_external_data=False) for _ in range(50)]
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 15
    assert all(expected == model.SerializeToString() for model in models[:50])


def test_memory_is_not_used_for_what_is_large(path: Path) -> None:
    """With `file_load_mode="MMAP"`, small weights also stay in the file."""
    found = formats.onnxpb.load(path, file_load_mode="MMAP")
    change(path, "overwritten")
    with pytest.raises(FormatError):
        found.SerializeToString()
