"""The regions of a file cover each of its bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

import formats
from formats.verbs.model_files import layout


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "ort", "rten"])
def test_regions_are_the_whole_file(tiny_model: Path, tmp_path: Path, extension: str) -> None:
    """The regions follow each other from the first byte to the last, and the weight's region has its bytes."""
    path = tmp_path / f"a.{extension}"
    formats.convert(tiny_model, path)
    (file,) = layout(path)
    position = 0
    for region in file.regions:
        assert (position, True) == (region.file_offset, region.nbytes > 0)
        position = region.end
    assert (path.stat().st_size, file.nbytes) == (position, position)
    (weight,) = (region for region in file.regions if region.kind == "tensor" and region.nbytes == 4096)
    stored = path.read_bytes()[weight.file_offset : weight.end]
    graph = formats.load(tiny_model).graph
    assert graph is not None
    assert graph.initializer[0].source().read() == stored


def test_data_files_have_layouts(tiny_model: Path, tmp_path: Path) -> None:
    """A data file comes after its model, with padding between tensors, and unused bytes are labelled as such."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data="w.data")
    with (tmp_path / "w.data").open("ab") as stream:
        stream.write(bytes(1 << 17))
    model, data = layout(tmp_path / "a.onnx")
    assert ["a.onnx", "w.data"] == [model.path.name, data.path.name]
    assert [(0, 4096, "tensor"), (4096, 1 << 17, "unused")] == [region[:3] for region in data.regions]
