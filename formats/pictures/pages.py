"""The picture of a model, and that of two models that differ, as SVG or as a page."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from formats.pictures import disk, treemap
from formats.pictures.drawing import NARROW, WIDE, Drawing, page
from formats.pictures.treemap import Tile
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.verbs.compare import Comparison, Difference
    from formats.verbs.inspect import Inspection, TensorEntry
    from formats.verbs.layout import FileLayout

OTHERS = ("#66727a", "other types")
TYPE_COLOURS = {
    "FLOAT": "#2f6f9f",
    "FLOAT16": "#1f7a70",
    "BFLOAT16": "#3f7a3a",
    "DOUBLE": "#1d3f66",
    "INT8": "#a1541a",
    "UINT8": "#8f468a",
    "INT4": "#b03a2e",
    "UINT4": "#c2185b",
    "INT32": "#6d6a1f",
    "INT64": "#55534a",
}
EQUAL, RESHAPED, ONLY_FIRST, ONLY_SECOND = "equal", "reshaped", "only first", "only second"
BOUNDS = (1e-6, 1e-4, 1e-2, 1.0)  # of the largest difference of two elements
STATES = {
    EQUAL: ("#5f6c75", "equal"),
    "0": ("#7a6b24", "differ by at most 0.000001"),
    "1": ("#965f12", "differ by at most 0.0001"),
    "2": ("#b85418", "differ by at most 0.01"),
    "3": ("#b5302a", "differ by at most 1"),
    "4": ("#7d1228", "differ by more than 1"),
    RESHAPED: ("#8a5fb0", "another type or shape"),
    ONLY_FIRST: ("#2f6f9f", "only in the first"),
    ONLY_SECOND: ("#1f7a70", "only in the second"),
}
TILES = "Each tile is a tensor in the box of its module, or a module with little room, as large as its bytes."
DIFFERENCES_SHOWN = 12
_INDEX = re.compile(r"^.*?initializer\[\d+\]|^.*?\]\.t\b")
"""The place of a tensor in the place of a difference, such as `graph.initializer[3]` in `graph.initializer[3].dims`."""


def model_picture(seen: Inspection, files: Sequence[FileLayout], *, as_html: bool) -> str:
    """A picture of a model: its weights by module, and its files as they lie on disk."""
    return _picture(seen.path.name, lambda drawing: _draw_model(drawing, seen, files), as_html=as_html)


def comparison_picture(result: Comparison, first: Inspection, second: Inspection, *, as_html: bool) -> str:
    """A picture of two models: where their weights differ, and by how much. `result` must have all differences."""
    title = " and ".join(path.name for path in result.paths)
    return _picture(title, lambda drawing: _draw_comparison(drawing, result, first, second), as_html=as_html)


def _picture(title: str, draw: Callable[[Drawing], None], *, as_html: bool) -> str:
    made = []
    for width in (WIDE, NARROW) if as_html else (WIDE,):
        drawing = Drawing(width)
        draw(drawing)
        made.append(drawing.svg())
    return page(title, *made) if as_html else made[0]


def _draw_model(drawing: Drawing, seen: Inspection, files: Sequence[FileLayout]) -> None:
    drawing.title(seen.path.name)
    count, nbytes = len(seen.tensors), sum(entry.nbytes for entry in seen.tensors)
    drawing.lines(f"{count:,} tensor{'s' * (count != 1)}, {in_units(nbytes)}, {seen.parameters:,} parameters. {TILES}")
    colours = {name: TYPE_COLOURS.get(name, OTHERS[0]) for name in seen.data_types} | {"": OTHERS[0]}
    tiles = []
    for model in seen.models or (seen,):
        modules = _modules(model)
        outer = (model.model or "the default model",) if seen.models else ()
        tiles += [
            Tile((*outer, *modules[entry.where]), entry.nbytes, entry.data_type, (facts(entry),))
            for entry in model.tensors
        ]
    treemap.draw(drawing, tiles, _height(drawing), colours)
    types = sorted(seen.data_types.items(), key=lambda item: -item[1].nbytes)
    drawing.legend(
        (colours[name], f"{name}: {total.tensors:,} tensor{'s' * (total.tensors != 1)}, {in_units(total.nbytes)}")
        for name, total in types
    )
    drawing.y += 16
    drawing.title("On disk" if len(files) == 1 else f"On disk: {len(files)} files")
    disk.draw(drawing, files)


def facts(entry: TensorEntry) -> str:
    """The type, dims and size of a tensor."""
    return f"{entry.data_type} {list(entry.dims)}, {entry.nbytes:,} bytes"


def _height(drawing: Drawing) -> float:
    """The height of a treemap: that of a page, or of a telephone."""
    return 520.0 if drawing.width == WIDE else 460.0


def _modules(seen: Inspection) -> dict[str, tuple[str, ...]]:
    """The names of the modules of each tensor, and its own, by its place.

    The names of a tensor without modules, such as `onnx::MatMul_12`, are those of the first node that uses it.
    """
    users: dict[str, str] = {}
    for node in seen.nodes or ():
        if "/" in node.name or "." in node.name:
            for name in node.inputs:
                users.setdefault(name, node.name)
    found = {}
    for entry in seen.tensors:
        own = _words(entry.name or entry.where)
        if len(own) == 1 and entry.name in users:
            own = [*_words(users[entry.name])[:-1], *own]
        found[entry.where] = tuple(own)
    return found


def _words(name: str) -> list[str]:
    """The words of a name, which dots and slashes separate."""
    return [word for word in re.split("[./]", name) if word] or [name]


def _draw_comparison(drawing: Drawing, result: Comparison, first: Inspection, second: Inspection) -> None:
    one, other = result.paths
    drawing.title(f"{one.name} and {other.name}")
    found = f"{result.count:,} difference{'s' * (result.count != 1)}"
    drawing.lines(f"{found if result.count else 'Equal'}. {TILES}")
    tiles, rest = compared_tiles(result, first, second)
    colours = {state: colour for state, (colour, _) in STATES.items()} | {"": OTHERS[0]}
    treemap.draw(drawing, tiles, _height(drawing), colours)
    drawing.legend(_states(tiles))
    if rest:
        drawing.y += 16
        drawing.title("Not in the weights")
        for difference in rest[:DIFFERENCES_SHOWN]:
            subject = f" ({difference.subject})" if difference.subject else ""
            drawing.lines(f"{difference.where}{subject}: {difference.detail}")
        if len(rest) > DIFFERENCES_SHOWN:
            drawing.lines(f"and {len(rest) - DIFFERENCES_SHOWN:,} more")


def _states(tiles: Sequence[Tile]) -> Iterator[tuple[str, str]]:
    """The meaning of the colours, with the number of tensors and bytes of each."""
    counts = Counter(tile.kind for tile in tiles)
    for state, (colour, meaning) in STATES.items():
        if counts[state]:
            nbytes = sum(tile.nbytes for tile in tiles if tile.kind == state)
            yield colour, f"{meaning}: {counts[state]:,} tensor{'s' * (counts[state] != 1)}, {in_units(nbytes)}"


def compared_tiles(result: Comparison, first: Inspection, second: Inspection) -> tuple[list[Tile], list[Difference]]:
    """The tensors of both models with their state, and the differences that are not about a tensor."""
    of_first: dict[str, list[Difference]] = {}
    of_second: dict[str, list[Difference]] = {}
    rest = []
    mine, theirs = ({entry.where for entry in seen.tensors} for seen in (first, second))
    for difference in result.differences:
        found = _INDEX.match(difference.where)
        place = found[0] if found else ""
        if difference.kind == "only second" and place in theirs:
            of_second.setdefault(place, []).append(difference)
        elif difference.kind != "only second" and place in mine:
            of_first.setdefault(place, []).append(difference)
        else:
            rest.append(difference)
    tiles = list(_tiles(first, of_first))
    tiles += (tile for tile in _tiles(second, of_second) if tile.kind == ONLY_SECOND)
    return tiles, rest


def _tiles(seen: Inspection, differences: Mapping[str, Sequence[Difference]]) -> Iterator[Tile]:
    modules = _modules(seen)
    for entry in seen.tensors:
        found = differences.get(entry.where, ())
        details = (difference.detail for difference in found)
        yield Tile(modules[entry.where], entry.nbytes, _state(found), (facts(entry), *details))


def _state(found: Iterable[Difference]) -> str:
    """How a tensor differs, in a word of `STATES`."""
    kinds = {difference.kind for difference in found}
    for state in (ONLY_FIRST, ONLY_SECOND):
        if state in kinds:
            return state
    if "changed" in kinds:
        return RESHAPED
    if "weights" not in kinds:
        return EQUAL
    largest = max(difference.largest or 0.0 for difference in found if difference.kind == "weights")
    return str(sum(largest > bound for bound in BOUNDS))
