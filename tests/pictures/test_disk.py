"""The picture of files as they lie on disk."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from formats.codecs.contract import Region
from formats.pictures import pages
from formats.pictures.drawing import WIDE, Drawing
from formats.verbs.model_files import FileLayout, layout

EXAMPLES = Path(__file__).parents[2] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


def svg_of(files: Sequence[FileLayout]) -> str:
    """Return the picture of files."""
    drawing = Drawing()
    pages.draw_files(drawing, files)
    return drawing.svg()


def test_bars_are_inside_the_picture_and_disjoint() -> None:
    """However many regions there are, those drawn in a row follow each other within its width."""
    regions = tuple(Region(n * 10, 10, "tensor" if n % 3 else "padding", f"t{n}") for n in range(20_000))
    root = ET.fromstring(svg_of((FileLayout(Path("a.onnx"), 200_000, regions),)))
    rows: dict[str, float] = {}
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}title") is not None]
    for bar in bars:
        left, width = float(bar.attrib["x"]), float(bar.attrib["width"])
        assert left >= rows.get(bar.attrib["y"], 0.0) - 0.02
        rows[bar.attrib["y"]] = left + width
    assert max(rows.values()) <= WIDE + 1.1
    assert len(bars) < 18 * 200
    assert 18 == len(rows)


def test_empty_file_can_be_drawn() -> None:
    """A file without bytes has a picture, too."""
    assert ET.fromstring(svg_of((FileLayout(Path("a.onnx"), 0, ()),))) is not None


def test_only_what_is_too_small_to_be_seen_is_enlarged() -> None:
    """The ends of a file are also drawn enlarged if a region begins or ends in them."""
    for first, enlarged in ((100, True), (5000, False)):
        regions = (Region(0, first, "header", "h"), Region(first, 10_000 - first, "tensor", "t"))
        assert enlarged == ("enlarged" in svg_of((FileLayout(Path("a.onnx"), 10_000, regions),)))


def test_shares_are_numbers() -> None:
    """A share in the legend is a percentage with one digit, or "under 0.1"; 40.0 stays whole."""
    regions = (Region(0, 1, "header", "h"), Region(1, 3999, "padding", "p"), Region(4000, 6000, "tensor", "t"))
    picture = svg_of((FileLayout(Path("a.onnx"), 10_000, regions),))
    assert re.findall(r"bytes, (.*) %", picture) == ["under 0.1", "60.0", "40.0"]


def test_small_tensors_are_told() -> None:
    """The title has the number of tensors in the graph, and the legend their bytes."""
    (file,) = layout(EXAMPLES / "digits.onnx")
    assert (3, 168) == (file.inner_count, file.inner_nbytes)
    picture = svg_of((file,))
    assert "3 tensors and 3 small ones in the graph" in picture
    assert "of which 168 are small tensors" in picture


def test_picture_follows_the_colours_of_the_viewer() -> None:
    """Background and texts have no fixed colour: a style sheet has colours for light and for dark viewers."""
    picture = svg_of((FileLayout(Path("a.onnx"), 10, (Region(0, 10, "tensor", "t"),)),))
    assert "prefers-color-scheme: dark" in picture
    root = ET.fromstring(picture)
    assert all("fill" not in text.attrib for text in root.iter(f"{SVG}text"))
    (paper,) = (bar for bar in root.iter(f"{SVG}rect") if bar.attrib.get("class") == "paper")
    assert "fill" not in paper.attrib
