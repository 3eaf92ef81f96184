"""A treemap shows each tensor as large as its bytes, in the box of its module."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET

import pytest

from formats.pictures import pages
from formats.pictures.drawing import NARROW, WIDE, Drawing, fitting
from formats.pictures.treemap import Box, Module, Tile, draw_tiles, squarified

SVG = "{http://www.w3.org/2000/svg}"
COLOURS = {"FLOAT": "#2f6f9f", "INT8": "#a1541a", "": "#66727a"}


def picture(tiles: list[Tile], width: int = WIDE) -> ET.Element:
    """Return the picture of some tiles, 500 pixels high."""
    drawing = Drawing(width)
    draw_tiles(drawing, tiles, 500.0, COLOURS)
    return ET.fromstring(drawing.svg())


def layers(count: int) -> list[Tile]:
    """Return the weights and biases of this many layers."""
    return [
        Tile(("encoder", "layer", str(n), part, name), nbytes, "FLOAT", ("facts",))
        for n in range(count)
        for part in ("attention", "mlp")
        for name, nbytes in (("weight", 1 << 16), ("bias", 1 << 8))
    ]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_fill_their_box(seed: int) -> None:
    """The boxes have the shares of their sizes, lie inside, and do not overlap."""
    random_ = random.Random(seed)
    sizes = sorted((random_.choice((1, 7, 100, 10_000)) * random_.randint(1, 9) for _ in range(40)), reverse=True)
    whole = Box(3, 5, random_.uniform(20, 900), random_.uniform(20, 900))
    boxes = list(squarified(sizes, whole))
    for size, box in zip(sizes, boxes, strict=True):
        assert box.area == pytest.approx(whole.area * size / sum(sizes), rel=1e-6)
        assert min(box.x - whole.x, box.y - whole.y) > -1e-6
        assert box.x + box.width <= whole.x + whole.width + 1e-6
        assert box.y + box.height <= whole.y + whole.height + 1e-6
    for index, one in enumerate(boxes):
        for other in boxes[index + 1 :]:
            wide = min(one.x + one.width, other.x + other.width) - max(one.x, other.x)
            high = min(one.y + one.height, other.y + other.height) - max(one.y, other.y)
            assert min(wide, high) < 1e-6


def test_boxes_are_nearly_square() -> None:
    """Equal sizes are no thin stripes, which nobody could read or compare; only the last row can be narrow."""
    boxes = list(squarified([10] * 30, Box(0, 0, 900, 500)))
    ratios = sorted(max(box.width / box.height, box.height / box.width) for box in boxes)
    assert (ratios[-5] < 1.5, ratios[-1] < 5) == (True, True)


def test_modules_have_their_names_and_sizes() -> None:
    """Each module is a box with its name, and each tensor a tile with its own; the facts are under the pointer."""
    root = picture(layers(3))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert 6 == texts.count("weight")
    assert 3 == sum(text.startswith("attention") for text in texts)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert "encoder.layer.0.mlp.weight\nfacts" in titles


@pytest.mark.outer
def test_a_picture_stays_small() -> None:
    """What is too small to be seen is one tile with a count: 100,000 tensors need no more room than 2,000."""
    one, other = (len(ET.tostring(picture(layers(count)))) for count in (500, 25_000))
    assert other < 1.5 * one < 600_000
    titles = [title.text or "" for title in picture(layers(25_000)).iter(f"{SVG}title")]
    assert any(" more in " in title for title in titles)


def test_a_tensor_can_have_the_name_of_a_module() -> None:
    """A tensor `a` beside `a.b`, two tensors of one name, and names that end nowhere are all counted."""
    paths = [("a",), ("a", "b"), ("a", "b"), ("a", "b", "c"), ("",), ("x",) * 100]
    for order in (paths, paths[::-1]):
        tiles = [Tile(path, 1000, "INT8", ("facts",)) for path in order]
        group = Module.of(tiles)
        assert (len(paths), 1000 * len(paths)) == (group.count, group.nbytes)
        titles = [title.text or "" for title in picture(tiles).iter(f"{SVG}title")]
        assert len(paths) == sum(title.endswith("facts") for title in titles)


@pytest.mark.parametrize("tiles", [[], [Tile(("a",), 0, "FLOAT", ())], [Tile(("a",), 1, "FLOAT", ())]])
def test_models_with_little_or_nothing_have_a_picture(tiles: list[Tile]) -> None:
    """Tensors without elements, and models without tensors, are drawn as they are."""
    assert picture(tiles) is not None
    assert picture(tiles, NARROW) is not None


def test_wide_letters_need_more_room() -> None:
    """A name in Chinese, Japanese or Korean is shortened to the room that its letters need, like any other."""
    wide = "\N{CJK UNIFIED IDEOGRAPH-6A21}"
    assert fitting(wide * 10, 6.4 * 20) == wide * 10
    assert fitting(wide * 11, 6.4 * 20) == f"{wide * 4}…{wide * 5}"
    assert fitting("a" * 20, 6.4 * 20) == "a" * 20
    assert fitting("a" * 21, 6.4 * 20) == f"{'a' * 10}…{'a' * 9}"
    assert fitting(wide * 11, 6.4 * 3) == ""


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        (30, "model.layers.0.out_proj.weight"),
        (29, "…layers.0.out_proj.weight"),
        (17, "…out_proj.weight"),
        (15, "out_proj…"),
        (8, "…weight"),
        (6, "mod…ht"),
        (3, ""),
    ],
)
def test_short_names_can_be_told_apart(letters: int, shown: str) -> None:
    """A name that is too long keeps its last words, then the module of the last one, which says more than "weight"."""
    assert fitting("model.layers.0.out_proj.weight", 6.4 * letters) == shown
    assert fitting("out_proj", 6.4 * 7) == "out…roj"


def test_a_small_part_of_a_tile_is_seen() -> None:
    """A module without room for its tensors has a stripe of each colour in it, however few bytes have it."""
    tiles = [
        Tile(("layers", str(n), name), nbytes, "INT8" if (n, name) == (700, "b") else "FLOAT", ("facts",))
        for n in range(1000)
        for name, nbytes in (("a", 10_000), ("b", 1))
    ]
    stripes = [each for each in picture(tiles).iter(f"{SVG}rect") if each.attrib.get("fill") == COLOURS["INT8"]]
    assert len(stripes) == 1
    assert float(stripes[0].attrib["width"]) >= 3


def luminance(colour: str) -> float:
    """Return the relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = (int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_texts_have_contrast() -> None:
    """Every text on a colour can be read: the contrast is at least 4.5, as WCAG 2 asks of small letters."""
    light = [*pages.TYPE_COLOURS.values(), pages.OTHERS[0], *(colour for colour, _ in pages.STATES.values())]
    light += [colour for kind, (colour, _) in pages.COLOURS.items() if kind not in pages.DARK_TEXT]
    pairs = [("#ffffff", colour) for colour in (*light, pages.SECOND_TENSOR_COLOUR)]
    pairs += [("#222222", pages.COLOURS[kind][0]) for kind in pages.DARK_TEXT]
    pairs += [("#55606a", "#e4e9ed"), ("#b4bcc2", "#333b41"), ("#e6e6e6", "#333b41"), ("#aaaaaa", "#1c1f21")]
    for one, other in pairs:
        dark, bright = sorted((luminance(one), luminance(other)))
        assert (bright + 0.05) / (dark + 0.05) >= 4.5, (one, other)
