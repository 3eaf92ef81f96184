"""The regions of a file cover each of its bytes, and their picture is well formed."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import formats
from formats import Graph, Model, Tensor
from formats.codecs.contract import Region
from formats.tensordata.sources.source import Literal
from formats.verbs.layout import FileLayout, layout, to_html, to_svg

EXAMPLES = Path(__file__).parents[2] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def labels(file: FileLayout, kind: str) -> list[str]:
    """Return the labels of all regions of a kind."""
    return [region.label for region in file.regions if region.kind == kind]


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten"])
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


def test_picture_is_well_formed(tmp_path: Path) -> None:
    """Names with any characters become valid text of an XML document."""
    names = ["<script>", 'a"b&c', "nul\0 bell\7", "Gewicht ü 重み", ""]
    tensors = [Tensor(name=name, dims=[999], data_type=1, raw_data=Literal(bytes(3996))) for name in names]
    formats.save(Model(graph=Graph(initializer=tensors)), tmp_path / "m.onnxz")
    files = layout(tmp_path / "m.onnxz")
    root = ET.fromstring(to_svg(files))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    for name in ("<script>", 'a"b&c', "nul\N{REPLACEMENT CHARACTER} bell", "Gewicht ü 重み"):
        assert any(title.startswith(name) for title in titles)
    page = to_html(files)
    assert page.startswith("<!doctype html>")
    assert to_svg(files) in page


def test_bars_are_inside_the_picture_and_disjoint() -> None:
    """However many regions there are, those drawn in a row follow each other within its width."""
    regions = tuple(Region(n * 10, 10, "tensor" if n % 3 else "padding", f"t{n}") for n in range(20_000))
    root = ET.fromstring(to_svg((FileLayout(Path("a.onnx"), 200_000, regions),)))
    rows: dict[str, float] = {}
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]
    for bar in bars:
        left, width = float(bar.attrib["x"]), float(bar.attrib["width"])
        assert left >= rows.get(bar.attrib["y"], 0.0) - 0.02
        rows[bar.attrib["y"]] = left + width
    assert max(rows.values()) <= 961.1
    assert len(bars) < 18_000
    assert 18 == len(rows)


def test_empty_file_can_be_drawn() -> None:
    """A file without bytes has a picture, too."""
    assert ET.fromstring(to_svg((FileLayout(Path("a.onnx"), 0, ()),))) is not None


def test_only_what_is_too_small_to_be_seen_is_enlarged() -> None:
    """The ends of a file are also drawn enlarged if a region begins or ends in them."""
    for first, enlarged in ((100, True), (5000, False)):
        regions = (Region(0, first, "header", "h"), Region(first, 10_000 - first, "tensor", "t"))
        assert enlarged == ("enlarged" in to_svg((FileLayout(Path("a.onnx"), 10_000, regions),)))


def test_shares_are_numbers() -> None:
    """A share in the legend is a percentage with one digit, or "under 0.1"; 40.0 stays whole."""
    regions = (Region(0, 1, "header", "h"), Region(1, 3999, "padding", "p"), Region(4000, 6000, "tensor", "t"))
    picture = to_svg((FileLayout(Path("a.onnx"), 10_000, regions),))
    assert re.findall(r"bytes, (.*) %", picture) == ["under 0.1", "60.0", "40.0"]


def test_small_tensors_are_told() -> None:
    """The title has the number of tensors in the graph, and the legend their bytes."""
    (file,) = layout(EXAMPLES / "digits.onnx")
    assert (4, 456) == (file.inner_count, file.inner_nbytes)
    picture = to_svg((file,))
    assert "2 tensors and 4 small ones in the graph" in picture
    assert "of which 456 are small tensors" in picture


def test_picture_follows_the_colours_of_the_viewer() -> None:
    """Background and texts have no fixed colour: a style sheet has colours for light and for dark viewers."""
    picture = to_svg((FileLayout(Path("a.onnx"), 10, (Region(0, 10, "tensor", "t"),)),))
    assert "prefers-color-scheme: dark" in picture
    root = ET.fromstring(picture)
    assert all("fill" not in text.attrib for text in root.iter(f"{SVG}text"))
    (paper,) = (bar for bar in root.iter(f"{SVG}rect") if bar.attrib.get("class") == "paper")
    assert "fill" not in paper.attrib
