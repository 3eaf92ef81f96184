"""Pictures of a model, of two models that differ, and of the files of a model as they lie on disk; as SVG or as a page.

On disk, the bytes are rows of bars in proportion, with both ends of a file enlarged.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from formats.pictures import treemap
from formats.pictures.drawing import NARROW, WIDE, Drawing, fitting, page
from formats.pictures.treemap import Tile
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from formats.codecs.contract import Region
    from formats.verbs.compare import Comparison, Difference
    from formats.verbs.inspect import Inspection, TensorEntry
    from formats.verbs.model_files import FileLayout


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
    count, size = counted(len(seen.tensors), "tensor"), in_units(sum(entry.nbytes for entry in seen.tensors))
    drawing.lines(f"{count}, {size}, {counted(seen.parameters, 'parameter')}. {TILES}")
    colours = {name: TYPE_COLOURS.get(name, OTHERS[0]) for name in seen.data_types} | {"": OTHERS[0]}
    tiles = []
    for model in seen.models or (seen,):
        modules = _modules(model)
        outer = (model.model or "the default model",) if seen.models else ()
        tiles += [
            Tile((*outer, *modules[entry.where]), entry.nbytes, entry.data_type, (facts(entry),))
            for entry in model.tensors
        ]
    treemap.draw_tiles(drawing, tiles, _height(drawing), colours)
    types = sorted(seen.data_types.items(), key=lambda item: -item[1].nbytes)
    drawing.legend(
        (colours[name], f"{name}: {counted(total.tensors, 'tensor')}, {in_units(total.nbytes)}")
        for name, total in types
    )
    drawing.y += 16
    drawing.title("On disk" if len(files) == 1 else f"On disk: {counted(len(files), 'file')}")
    draw_files(drawing, files)


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
    modules = {}
    for entry in seen.tensors:
        own = _words(entry.name or entry.where)
        if len(own) == 1 and entry.name in users:
            own = [*_words(users[entry.name])[:-1], *own]
        modules[entry.where] = tuple(own)
    return modules


def _words(name: str) -> list[str]:
    """The words of a name, which dots and slashes separate."""
    return [word for word in re.split("[./]", name) if word] or [name]


def _draw_comparison(drawing: Drawing, result: Comparison, first: Inspection, second: Inspection) -> None:
    one, other = result.paths
    drawing.title(f"{one.name} and {other.name}")
    drawing.lines(f"{counted(result.count, 'difference') if result.count else 'Equal'}. {TILES}")
    tiles, rest = compared_tiles(result, first, second)
    colours = {state: colour for state, (colour, _) in STATES.items()} | {"": OTHERS[0]}
    treemap.draw_tiles(drawing, tiles, _height(drawing), colours)
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
            yield colour, f"{meaning}: {counted(counts[state], 'tensor')}, {in_units(nbytes)}"


def compared_tiles(result: Comparison, first: Inspection, second: Inspection) -> tuple[list[Tile], list[Difference]]:
    """The tensors of both models with their state, and the differences that are not about a tensor."""
    of_first: dict[str, list[Difference]] = {}
    of_second: dict[str, list[Difference]] = {}
    rest = []
    mine, theirs = ({entry.where for entry in seen.tensors} for seen in (first, second))
    for difference in result.differences:
        match = _INDEX.match(difference.where)
        place = match[0] if match else ""
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
        of_tensor = differences.get(entry.where, ())
        details = (difference.detail for difference in of_tensor)
        yield Tile(modules[entry.where], entry.nbytes, _state(of_tensor), (facts(entry), *details))


def _state(differences: Iterable[Difference]) -> str:
    """How a tensor differs, in a word of `STATES`."""
    kinds = {difference.kind for difference in differences}
    for state in (ONLY_FIRST, ONLY_SECOND):
        if state in kinds:
            return state
    if "changed" in kinds:
        return RESHAPED
    if "weights" not in kinds:
        return EQUAL
    largest = max(difference.largest or 0.0 for difference in differences if difference.kind == "weights")
    return str(sum(largest > bound for bound in BOUNDS))


COLOURS = {  # of a kind of bytes; tensors alternate between two, so that neighbours differ
    "header": ("#52616b", "headers"),
    "model": ("#e0a030", "model: graph and names"),
    "tensor": ("#1f7a70", "tensors"),
    "file": ("#c2853a", "other file"),
    "padding": ("#d5dbe0", "padding"),
    "directory": ("#8a5fb0", "directory"),
    "unused": ("#c23a4d", "not used"),
}
DARK_TEXT = frozenset(("padding", "model", "file"))  # the other kinds have light texts
SECOND_TENSOR_COLOUR = "#2f6f9f"
MARGIN, BAR_HEIGHT, ROW_STEP = 66, 26, 34  # in pixels
REGIONS_PER_ROW, MAX_ROWS = 10, 16
LEAST_WIDTH, CROWD_WIDTH = 6.0, 16.0  # a region below the first is drawn with its neighbours, up to the second
DETAIL_BYTES = 512  # of the beginning and of the end of a file, drawn enlarged


def draw_files(drawing: Drawing, files: Sequence[FileLayout]) -> None:
    """Draw the bytes of each file, and a legend."""
    for file in files:
        drawing.lines(f"{file.path.name}: {file.nbytes:,} bytes, {_tensor_count(file)}", weight="bold")
        rows = max(1, min(MAX_ROWS, -(-len(file.regions) // REGIONS_PER_ROW)))
        step = max(-(-file.nbytes // rows), 1)
        for start in range(0, max(file.nbytes, 1), step):
            _row(drawing, file.regions, start, step, in_units(start) if start else "0")
        details = [start for start in (0, file.nbytes - DETAIL_BYTES) if _is_mixed(file.regions, start)]
        if details and file.nbytes > 4 * DETAIL_BYTES:
            drawing.line(0, f"{DETAIL_BYTES} bytes, enlarged:")
            for start in details:
                _row(drawing, file.regions, start, DETAIL_BYTES, f"{start:,}")
        drawing.y += 16
    drawing.legend(_legend(files))


def _is_mixed(regions: Iterable[Region], start: int) -> bool:
    """Whether a detail shows more than one region."""
    return any(start < region.end < start + DETAIL_BYTES for region in regions)


def _tensor_count(file: FileLayout) -> str:
    count = sum(region.kind == "tensor" for region in file.regions)
    inner = f" and {counted(file.inner_count, 'small one')} in the graph" if file.inner_count else ""
    return f"{counted(count, 'tensor')}{inner}"


def _row(drawing: Drawing, regions: Sequence[Region], start: int, step: int, label: str) -> None:
    """The `step` bytes from `start` on as one bar, each region at least one pixel wide if there is room."""
    scale = (drawing.width - MARGIN) / step
    drawing.label(MARGIN - 8, drawing.y + 17, label, "scale", anchor="end")
    drawn, tensors = float(MARGIN), 0
    crowd: list[Region] = []  # neighbours that are too narrow to be seen
    for region in regions:
        tensors += region.kind == "tensor"
        low, high = max(region.file_offset, start), min(region.end, start + step)
        left, right = (MARGIN + (offset - start) * scale for offset in (low, high))
        if low >= high:
            continue
        if right - left < LEAST_WIDTH and right - drawn < CROWD_WIDTH:
            crowd.append(region)
            continue
        if crowd:
            edge = left if right - left >= LEAST_WIDTH else right
            _crowd(drawing, crowd, drawn, edge - drawn)
            drawn, crowd = max(edge, drawn + 1.0), []
            if edge == right:
                continue
        left = max(left, drawn)
        drawn = max(right, left + 1.0)
        _bar(drawing, region, left, drawn - left, second=tensors % 2 == 0)
    if crowd:
        _crowd(drawing, crowd, drawn, MARGIN + (min(crowd[-1].end, start + step) - start) * scale - drawn)
    drawing.y += ROW_STEP


def _crowd(drawing: Drawing, regions: Sequence[Region], left: float, width: float) -> None:
    """Several regions as one bar, in the colour of the kind that has most of their bytes."""
    totals: Counter[str] = Counter()
    for region in regions:
        totals[region.kind] += region.nbytes
    ((kind, _),) = totals.most_common(1)
    first, last = regions[0], regions[-1]
    title = first.label
    if first is not last:
        title = f"{counted(len(regions), 'part')}, from {first.label} to {last.label}"
    title += f"; {last.end - first.file_offset:,} bytes from byte {first.file_offset:,} on"
    drawing.box(left, drawing.y, max(width, 1.0), BAR_HEIGHT, COLOURS[kind][0], title)


def _bar(drawing: Drawing, region: Region, left: float, width: float, *, second: bool) -> None:
    colour = SECOND_TENSOR_COLOUR if second and region.kind == "tensor" else COLOURS[region.kind][0]
    title = f"{region.label}; {region.nbytes:,} bytes from byte {region.file_offset:,} on"
    drawing.box(left, drawing.y, width, BAR_HEIGHT, colour, title)
    name = region.label.rpartition(":")[0] if region.kind == "tensor" else region.label
    if shown := fitting(name, width - 8):
        look = "dark" if region.kind in DARK_TEXT else "light"
        drawing.label(left + 4, drawing.y + 17, shown, look)


def _legend(files: Sequence[FileLayout]) -> Iterable[tuple[str, str]]:
    """The meaning of the colours, with the number of bytes of each kind."""
    totals: Counter[str] = Counter()
    for file in files:
        for region in file.regions:
            totals[region.kind] += region.nbytes
    whole = max(sum(totals.values()), 1)
    for kind, (colour, meaning) in COLOURS.items():
        if totals[kind]:
            share = 100 * totals[kind] / whole
            share_text = "under 0.1" if share < 0.05 else f"{share:.1f}"
            inner = sum(file.inner_nbytes for file in files) if kind == "model" else 0
            of_which = f", of which {inner:,} are small tensors" if inner else ""
            yield colour, f"{meaning}: {totals[kind]:,} bytes, {share_text} %{of_which}"
