"""Write the figures of `results.json` into the documents: the tables of three pages, and the plot.

`python benchmarks/documents.py` writes them, and so does `python benchmarks/run.py --publish` after measuring.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from cases import KINDS_OF_WORK, MIB, ROOFLINE, Case
from plot import draw
from report import Row, seconds

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results.json"
PLOT = ROOT / "docs" / "benchmark.svg"
# What people do most: a case, our tool and the tool that they would use instead. The README has the first rows of this,
# docs/benchmarks.md all, and the plot their cases.
CHOSEN = (
    ("inline-to-rten", "formats", "rten-convert"),
    ("inline-to-external", "formats --external-data", "onnx"),
    ("inline-to-onnxz", "formats", "zip -0"),
    ("load", "formats", "onnx"),
    ("nodes-resave", "formats", "onnx"),
    ("save-from-memory", "formats", "onnx"),
    ("sessions", "formats .onnxz", "onnxruntime"),
    ("start-up", "formats", "rten-convert"),
)
IN_README = 5


def results(*cases: Case) -> list[Row]:
    """The rows of `results.json` for these cases, by default all that have a kind of work, in their order."""
    rows = [Row.from_json(record) for record in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]]
    order = [case.name for case in cases or [case for group in KINDS_OF_WORK.values() for case in group]]
    return sorted((row for row in rows if row.case in order), key=lambda row: order.index(row.case))


def chosen_table(rows: Sequence[Row]) -> str:
    """The rows of what people do most: the whole time and the memory, and the ratio of the work."""
    lines = ["| work | `formats` | another tool | ratio |", "|---|--:|--:|--:|"]
    for case, tool, other in CHOSEN:
        ours, theirs = (next(row for row in rows if (row.case, row.tool) == (case, name)) for name in (tool, other))
        ratio = figure(theirs.work_seconds / ours.work_seconds)
        lines.append(f"| {marked(ours.title)} | {cost(ours)} | `{theirs.tool}`: {cost(theirs)} | {ratio} |")
    return "\n".join(lines) + "\n"


def readme_table(rows: Sequence[Row]) -> str:
    """The first of these rows, for the README."""
    return "".join(chosen_table(rows).splitlines(keepends=True)[: 2 + IN_README])


def full_table(rows: Sequence[Row]) -> str:
    """The table of docs/benchmarks.md: each tool of each case."""
    lines = ["| work | tool | whole | work | ratio | peak memory |", "|---|---|--:|--:|--:|--:|"]
    for before, row in zip([None, *rows], rows, strict=False):
        title = "" if before and before.case == row.case else marked(row.title)
        tool = f"**`{row.tool}`**" if row.ours else f"`{row.tool}`"
        ratio = "" if row.ratio is None else figure(row.ratio)
        peak = f"{row.peak_bytes / MIB:,.0f} MiB" if row.peak_bytes else ""
        lines.append(
            f"| {title} | {tool} | {seconds(row.whole_seconds)} | {seconds(row.work_seconds)} | {ratio} | {peak} |"
        )
    return "\n".join(lines) + "\n"


def roofline_table(_: Sequence[Row]) -> str:
    """The table of benchmarks/README.md: how fast the machine copies, and how fast `formats` converts."""
    rows = results(*ROOFLINE)
    if not rows:
        return "Not measured yet.\n"
    lines = ["| 1 GiB | time | least | ratio to `cp` |", "|---|--:|--:|--:|"]
    for row in rows:
        ratio = "" if row.ratio is None else figure(row.ratio)
        lines.append(f"| {row.tool} | {seconds(row.work_seconds)} | {seconds(row.least_work_seconds)} | {ratio} |")
    return "\n".join(lines) + "\n"


TABLES = {  # of each document, in their order
    ROOT / "README.md": (readme_table,),
    ROOT / "docs" / "benchmarks.md": (chosen_table, full_table),
    ROOT / "benchmarks" / "README.md": (roofline_table,),
}


def cost(row: Row) -> str:
    """The whole time and the memory of a tool."""
    return f"{seconds(row.whole_seconds)}, {row.peak_bytes / MIB:,.0f} MiB"


def figure(number: float) -> str:
    """A number with two digits, without an exponent."""
    return f"{float(f'{number:.2g}'):g}"


def marked(title: str) -> str:
    """The title of a case with file extensions as code."""
    return re.sub(r"\.\w+", r"`\g<0>`", title)


def current(text: str, tables: Iterable[str], script: str = "documents.py") -> str:
    """The text of a document with these tables of a script in it, in their order.

    Raises: ValueError if it has not as many places for them.
    """
    start, end = f"<!-- figures; benchmarks/{script} writes them -->\n\n", "<!-- end -->"
    before, *parts = text.split(start)
    pieces = [f"{start}{table}\n{end}{part.partition(end)[2]}" for table, part in zip(tables, parts, strict=True)]
    return "".join([before, *pieces])


def digest(rows: Sequence[Row]) -> str:
    """What stands in the metadata of the plot: it tells from which rows the plot was drawn."""
    text = json.dumps([row.to_json() for row in rows], sort_keys=True)
    return f"figures {hashlib.sha256(text.encode()).hexdigest()}"


def publish() -> None:
    """Write the tables and the plot."""
    rows = results()
    for path, tables in TABLES.items():
        text = current(path.read_text(encoding="utf-8"), (table(rows) for table in tables))
        path.write_text(text, encoding="utf-8")
    draw(plotted(rows), PLOT, digest(plotted(rows)))


def plotted(rows: Sequence[Row]) -> list[Row]:
    """The rows of the plot."""
    return [row for row in rows if row.case in {case for case, _, _ in CHOSEN}]


if __name__ == "__main__":
    publish()
