"""The layout of the files of a model, and a picture of it."""
# ruff: noqa: A002 - `format` is the word that users know from `load`

from __future__ import annotations

from collections import Counter
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import lookup
from formats.codecs.contract import ReadOptions, Region
from formats.ir import dtypes, walk
from formats.ir.archive_link import ArchiveLink
from formats.onnxpb.external.safetensors import header_of
from formats.options import made
from formats.verbs.arguments import path_of
from formats.verbs.inspect import raw_nbytes, span_of
from formats.verbs.steps.opening import read_model
from formats.wording.units import in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Unpack

    from formats.keywords import ReadKeywords
    from formats.tensordata.file import File
    from formats.verbs.arguments import AnySource

MAX_PADDING_BYTES = 1 << 16  # a larger gap than any alignment makes is reported as unused
COLOURS = {  # of a kind of bytes; tensors alternate between two, so that neighbours differ
    "header": ("#52616b", "headers"),
    "model": ("#e0a030", "model: graph and names"),
    "tensor": ("#2a9d8f", "tensors"),
    "padding": ("#d5dbe0", "padding"),
    "directory": ("#8a5fb0", "directory"),
    "unused": ("#d1495b", "not used"),
}
SECOND_TENSOR_COLOUR = "#1f7a70"
WIDTH, MARGIN, BAR_HEIGHT, ROW_STEP, BORDER = 960, 90, 26, 34, 20  # in pixels
REGIONS_PER_ROW, MAX_ROWS = 10, 16
PIXELS_PER_LETTER = 6.4
DETAIL_BYTES = 512  # of the beginning and of the end of a file, drawn enlarged
STYLE = """
.paper { fill: #fff } text { fill: #222 } .scale { fill: #555 } .light { fill: #fff } .dark { fill: #222 }
@media (prefers-color-scheme: dark) { .paper { fill: #1c1f21 } text { fill: #e6e6e6 } .scale { fill: #aaa } }
"""  # for viewers with dark colours; texts on bars keep their colour, like the bars
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ margin: 2em auto; width: {width}px; font-family: system-ui, sans-serif }}
</style></head>
<body>
{picture}
</body></html>
"""


class FileLayout(NamedTuple):
    """A file and its regions, from its first byte to its last.

    Tensors of up to 1 KiB are part of the region of the graph: `inner_count` of them, with `inner_nbytes` of elements.
    """

    path: Path
    nbytes: int
    regions: tuple[Region, ...]
    inner_count: int = 0
    inner_nbytes: int = 0


def layout(path: AnySource, *, format: str | None = None, **options: Unpack[ReadKeywords]) -> tuple[FileLayout, ...]:
    """The regions of the files of a model, the model file first; `options` are those of `load`.

    Raises: FormatError if it cannot be read; OSError if a file cannot.
    """
    reading = made(ReadOptions, options, by=layout)
    codec, source, model = read_model(path_of(path), format, reading)
    parts = codec.regions(source) if codec.regions else (Region(0, source.nbytes, "model", "model"),)
    tensors: dict[File, dict[tuple[int, int], Region]] = {file: {} for file in source.files()}
    inner = []
    for _, tensor in walk.tensors(model):
        span = span_of(tensor)
        if span is None:
            inner.append(raw_nbytes(tensor))
        else:
            label = f"{tensor.name or 'tensor'}: {dtypes.type_name(tensor.data_type)} {tensor.dims}"
            region = Region(span.file_offset, span.nbytes, "tensor", label)
            tensors.setdefault(span.file, {}).setdefault((region.file_offset, region.nbytes), region)
    own, *others = tensors
    link = ArchiveLink.of(model)
    files: list[tuple[File, tuple[Region, ...]]] = [(own, tuple(parts))]
    for file in sorted(others, key=lambda file: file.path):
        is_archive = link is not None and file.path.name == link.archive
        regions = lookup.by_name("onnxz").regions if is_archive else header_of
        files.append((file, tuple(regions(file.span())) if regions else ()))
    first, *rest = (
        FileLayout(file.path, file.nbytes, tuple(_regions(file.nbytes, given, tensors[file].values())))
        for file, given in files
    )
    return (first._replace(inner_count=len(inner), inner_nbytes=sum(inner)), *rest)


def _regions(nbytes: int, parts: Iterable[Region], tensors: Iterable[Region]) -> Iterator[Region]:
    """The file's parts without gaps, divided where there are tensors in them."""
    rest = sorted(tensors, reverse=True)
    for part in _filled(sorted(parts), nbytes):
        position = part.file_offset
        while rest and rest[-1].end <= part.end:
            tensor = rest.pop()
            if tensor.file_offset >= position:  # otherwise, it overlaps the region before it
                yield from _piece(part, position, tensor.file_offset)
                yield tensor
                position = tensor.end
        yield from _piece(part, position, part.end)


def _filled(parts: Iterable[Region], nbytes: int) -> Iterator[Region]:
    """The parts of a file of this size, with the gaps between them as padding."""
    position = 0
    for part in (*parts, Region(nbytes, 0, "padding", "")):
        if position < part.file_offset:
            yield Region(position, part.file_offset - position, "padding", "padding")
        yield part
        position = part.end


def _piece(part: Region, start: int, end: int) -> Iterator[Region]:
    """The range of a part, if it is not empty."""
    if start < end:
        unused = part.kind == "padding" and end - start >= MAX_PADDING_BYTES
        kind, label = ("unused", "not used") if unused else (part.kind, part.label)
        yield Region(start, end - start, kind, label)


# The picture


def to_html(files: Sequence[FileLayout]) -> str:
    """The picture as an HTML page."""
    return PAGE.format(title=_escaped(files[0].path.name), width=WIDTH + 2 * BORDER, picture=to_svg(files))


def to_svg(files: Sequence[FileLayout]) -> str:
    """A picture of the files' bytes: rows of bars in proportion for each file, its two ends enlarged, and a legend."""
    drawing = _Drawing()
    for file in files:
        drawing.title(f"{file.path.name}: {file.nbytes:,} bytes, {_tensor_count(file)}")
        rows = max(1, min(MAX_ROWS, -(-len(file.regions) // REGIONS_PER_ROW)))
        step = max(-(-file.nbytes // rows), 1)
        for start in range(0, max(file.nbytes, 1), step):
            drawing.row(file.regions, start, step, in_units(start) if start else "0")
        details = [start for start in (0, file.nbytes - DETAIL_BYTES) if _is_mixed(file.regions, start)]
        if details and file.nbytes > 4 * DETAIL_BYTES:
            drawing.text(0, f"{DETAIL_BYTES} bytes, enlarged:", 12)
            for start in details:
                drawing.row(file.regions, start, DETAIL_BYTES, f"{start:,}")
        drawing.y += 16
    drawing.legend(files)
    return drawing.svg()


def _is_mixed(regions: Iterable[Region], start: int) -> bool:
    """Whether a detail shows more than one region."""
    return any(start < region.end < start + DETAIL_BYTES for region in regions)


def _tensor_count(file: FileLayout) -> str:
    count = sum(region.kind == "tensor" for region in file.regions)
    inner = f" and {file.inner_count} small one{'s' * (file.inner_count != 1)} in the graph" * bool(file.inner_count)
    return f"{count} tensor{'s' * (count != 1)}{inner}"


class _Drawing:
    """SVG elements from top to bottom; `y` is the position of the next one."""

    def __init__(self) -> None:
        self.y = 10
        self._elements: list[str] = []

    def title(self, text: str) -> None:
        """A line in larger letters."""
        self.text(0, text, 16, "bold")

    def text(self, x: float, text: str, size: int, weight: str = "normal") -> None:
        """A line of its own."""
        self.y += size + 4
        self._elements.append(
            f'<text x="{x}" y="{self.y}" font-size="{size}" font-weight="{weight}">{_escaped(text)}</text>'
        )
        self.y += 8

    def row(self, regions: Sequence[Region], start: int, step: int, label: str) -> None:
        """The `step` bytes from `start` on as one bar, each region at least one pixel wide if there is room."""
        scale = (WIDTH - MARGIN) / step
        self._elements.append(
            f'<text x="{MARGIN - 8}" y="{self.y + 17}" font-size="11" text-anchor="end" class="scale">{label}</text>'
        )
        drawn, tensors = float(MARGIN), 0
        for region in regions:
            tensors += region.kind == "tensor"
            low, high = max(region.file_offset, start), min(region.end, start + step)
            left, right = (MARGIN + (offset - start) * scale for offset in (low, high))
            if low < high and right > drawn:
                left = max(left, drawn)
                drawn = max(right, left + 1.0)
                self._bar(region, left, drawn - left, second=tensors % 2 == 0)
        self.y += ROW_STEP

    def _bar(self, region: Region, left: float, width: float, *, second: bool) -> None:
        colour = SECOND_TENSOR_COLOUR if second and region.kind == "tensor" else COLOURS[region.kind][0]
        title = f"{region.label}; {region.nbytes:,} bytes from byte {region.file_offset:,} on"
        self._elements.append(
            f'<rect x="{left:.2f}" y="{self.y}" width="{width:.2f}" height="{BAR_HEIGHT}" fill="{colour}">'
            f"<title>{_escaped(title)}</title></rect>"
        )
        letters = int((width - 8) / PIXELS_PER_LETTER)
        name = region.label.partition(":")[0] if region.kind == "tensor" else region.label
        if letters >= 4:
            shown = name if len(name) <= letters else f"{name[: letters - 1]}…"
            shade = "dark" if region.kind in ("padding", "model") else "light"
            self._elements.append(
                f'<text x="{left + 4:.2f}" y="{self.y + 17}" font-size="11" class="{shade}" pointer-events="none">'
                f"{_escaped(shown)}</text>"
            )

    def legend(self, files: Sequence[FileLayout]) -> None:
        """The meaning of the colours, with the number of bytes of each kind."""
        totals: Counter[str] = Counter()
        for file in files:
            for region in file.regions:
                totals[region.kind] += region.nbytes
        whole = max(sum(totals.values()), 1)
        for kind, (colour, meaning) in COLOURS.items():
            if totals[kind]:
                self._elements.append(f'<rect x="0" y="{self.y + 2}" width="16" height="16" fill="{colour}"/>')
                share = 100 * totals[kind] / whole
                share_text = "under 0.1" if share < 0.05 else f"{share:.1f}"
                inner = sum(file.inner_nbytes for file in files) if kind == "model" else 0
                of_which = f", of which {inner:,} are small tensors" if inner else ""
                self.text(24, f"{meaning}: {totals[kind]:,} bytes, {share_text} %{of_which}", 12)

    def svg(self) -> str:
        """The whole picture."""
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * BORDER}" height="{self.y + BORDER}" '
                f'viewBox="{-BORDER} 0 {WIDTH + 2 * BORDER} {self.y + BORDER}" font-family="system-ui, sans-serif">',
                f"<style>{STYLE}</style>",
                f'<rect x="{-BORDER}" width="100%" height="100%" class="paper"/>',
                *self._elements,
                "</svg>\n",
            )
        )


def _escaped(text: str) -> str:
    """The text for XML, which does not allow most control characters."""
    return escape("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))
