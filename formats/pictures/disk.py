"""The files of a model as they lie on disk: rows of bars in proportion, and both ends of a file enlarged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.pictures.drawing import fitting
from formats.words import in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.codecs.contract import Region
    from formats.pictures.drawing import Drawing
    from formats.verbs.layout import FileLayout

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


def draw(drawing: Drawing, files: Sequence[FileLayout]) -> None:
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
    inner = f" and {file.inner_count} small one{'s' * (file.inner_count != 1)} in the graph" * bool(file.inner_count)
    return f"{count} tensor{'s' * (count != 1)}{inner}"


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
            _crowd(drawing, crowd, drawn, (edge := left if right - left >= LEAST_WIDTH else right) - drawn)
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
    title = f"{first.label}" if len(regions) == 1 else f"{len(regions)} parts, from {first.label} to {last.label}"
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
