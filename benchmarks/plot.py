"""The plot: how long other tools take, relative to `formats`, grouped by the kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cases import KINDS_OF_WORK

if TYPE_CHECKING:
    from report import Row

# The colour, the marker and the name in the legend of each tool, by the beginning of the tool's name.
STYLES = {
    "rten-convert": ("#d1495b", "s", "rten-convert"),
    "onnx_ir": ("#00a0a8", "D", "onnx_ir"),
    "onnxruntime": ("#7d8a2e", "P", "onnxruntime"),
    "onnx": ("#4a7fd0", "o", "onnx"),
    "zip": ("#e0962d", "^", "zip -0, zipfile"),
    "safetensors": ("#a56cc1", "v", "safetensors"),
    "": ("#888888", "|", "cp, numpy, plain reading"),
}
FORMATS_COLOUR = "#2a9d8f"
INCHES_PER_CASE, INCHES_PER_GROUP, INCHES_AROUND = 0.26, 0.34, 1.8
INCHES_WIDE = 5  # a phone shows its letters large enough
# A viewer in dark colours shows the picture in dark colours. matplotlib writes colours into the elements.
DARK = """<style>
@media (prefers-color-scheme: dark) {
  [style*="fill: #ffffff"] { fill: #1c1f21 !important }
  [style*="fill: #eef7f5"] { fill: #1f302e !important }
  [style*="stroke: #dddddd"] { stroke: #3d4347 !important }
  [style*="stroke: #000000"] { stroke: #b0b0b0 !important }
  text { fill: #e6e6e6 !important }
}
</style>
"""


def draw(rows: Sequence[Row], path: Path, description: str = "") -> None:
    """Write an SVG picture: for each case, how many times as long as `formats` each other tool works.

    `description` goes into the metadata of the picture.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "formats", "font.size": 9})
    from matplotlib import pyplot

    ours = {row.case: row.work_seconds for row in reversed(rows) if row.ours and row.work_seconds > 0}
    others = [row for row in rows if not row.ours and row.work_seconds > 0 and row.case in ours]
    groups = grouped(others)
    counts = [len(cases) for cases in groups.values()]
    height = INCHES_PER_CASE * sum(counts) + INCHES_PER_GROUP * len(counts) + INCHES_AROUND
    figure, grid = pyplot.subplots(
        max(len(groups), 1), figsize=(INCHES_WIDE, height), height_ratios=counts or None, sharex=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    ratios = [row.work_seconds / ours[row.case] for row in others] or [1]
    low, high = min(0.5, *ratios) / 1.3, max(2, *ratios) * 1.3
    for axes, (group, titles) in zip(grid[:, 0], groups.items(), strict=False):
        heights = {case: -number for number, case in enumerate(titles)}
        axes.axvspan(1, high, facecolor="#eef7f5", edgecolor="none", zorder=0)
        axes.axvline(1, color=FORMATS_COLOUR, linewidth=2.5)
        for prefix, (colour, marker, _) in STYLES.items():
            shown = [row for row in others if row.case in titles and style_of(row.tool) == prefix]
            axes.scatter(
                [row.work_seconds / ours[row.case] for row in shown],
                [heights[row.case] for row in shown],
                color=colour, marker=marker, s=34, zorder=3,
            )  # fmt: skip
        axes.set_title(group, loc="left", fontsize=9, fontweight="bold")
        axes.set(xscale="log", xlim=(low, high), ylim=(-len(titles) + 0.4, 0.6))
        axes.set_yticks([*heights.values()], labels=[*titles.values()])
        axes.grid(color="#dddddd")
        axes.set_axisbelow(True)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter("{x:g}")
        axes.tick_params(axis="both", length=0)
        axes.spines[:].set_visible(False)
    figure.supxlabel(
        "time of the work, as a multiple of the time that formats takes,\n"
        "start-up not counted (logarithmic)\n"
        "left of the line: the other tool is faster;\n"
        "right of the line, shaded: formats is faster",
        fontsize=9,
    )
    handles = [pyplot.Line2D([], [], color=FORMATS_COLOUR, linewidth=2.5, label="formats")]
    used = {style_of(row.tool) for row in others}
    for colour, marker, label in (style for prefix, style in STYLES.items() if prefix in used):
        handles.append(pyplot.Line2D([], [], color=colour, marker=marker, linestyle="none", label=label))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=9, frameon=False,
                  columnspacing=1.2, handletextpad=0.4)  # fmt: skip
    figure.savefig(path, metadata={"Date": None, "Description": description})
    pyplot.close(figure)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("<metadata>", f"{DARK} <metadata>", 1), encoding="utf-8")


def grouped(rows: Sequence[Row]) -> dict[str, dict[str, str]]:
    """The titles of the cases in the rows, by case, for each kind of work; cases of no kind come last."""
    titles = {row.case: row.title for row in rows}
    kinds = {kind: [case.name for case in cases] for kind, cases in KINDS_OF_WORK.items()}
    listed = {name for names in kinds.values() for name in names}
    kinds["Others"] = [name for name in titles if name not in listed]
    found = {kind: {name: titles[name] for name in names if name in titles} for kind, names in kinds.items()}
    return {kind: cases for kind, cases in found.items() if cases}


def style_of(tool: str) -> str:
    """The key of a tool's style."""
    return next(prefix for prefix in STYLES if tool.startswith(prefix))
