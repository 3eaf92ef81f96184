"""The figures of a benchmark as a table and as JSON.

`python benchmarks/report.py FIGURES.json ... --plot PLOT.svg` prints and draws the figures that several runs wrote.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cases import MIB, Case, Target

HEADER = """\
| case | tool | whole | work | least | ratio | peak | targets |
|---|---|--:|--:|--:|--:|--:|---|"""


class Run(NamedTuple):
    """What one process took in all, without start-up, and of memory."""

    whole_seconds: float
    work_seconds: float
    peak_bytes: int


class Verdict(NamedTuple):
    """What was asked, what was found, and whether that is enough; unknown if there is nothing to compare."""

    target: str
    value: float | None
    holds: bool | None

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.target}: ?"
        return f"{self.target}: {self.value:.3g} {'✓' if self.holds else '✗'}"


class Row(NamedTuple):
    """The figures of one tool at one case: medians, the least of all rounds, and the most memory of all rounds.

    `ratio` is that of `work_seconds` to the first tool's.
    """

    case: str
    title: str
    tool: str
    ours: bool
    failure: str | None
    whole_seconds: float = 0.0
    work_seconds: float = 0.0
    least_work_seconds: float = 0.0
    ratio: float | None = None
    peak_bytes: int = 0
    verdicts: tuple[Verdict, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The row in strings, numbers, lists and dictionaries."""
        return {**self._asdict(), "verdicts": [verdict._asdict() for verdict in self.verdicts]}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Row:
        """The row that became `record`."""
        return cls(**{**record, "verdicts": tuple(Verdict(**verdict) for verdict in record.get("verdicts", ()))})


def lines(rows: Sequence[Row]) -> list[str]:
    """The rows of the table, with the title of each case where it begins."""
    titles = [row.title if index == 0 or rows[index - 1].title != row.title else "" for index, row in enumerate(rows)]
    return [f"| {title} | {' | '.join(cells(row))} |" for title, row in zip(titles, rows, strict=True)]


def cells(row: Row) -> list[str]:
    """What the table says of a tool."""
    tool = f"**{row.tool}**" if row.ours else row.tool
    if row.failure is not None:
        return [tool, *[""] * 5, f"failed: {row.failure.replace('|', '/')}"]
    times = [seconds(time) for time in (row.whole_seconds, row.work_seconds, row.least_work_seconds)]
    ratio = "" if row.ratio is None else f"{row.ratio:.3g}"
    return [tool, *times, ratio, f"{row.peak_bytes / MIB:,.0f} MiB", "; ".join(map(str, row.verdicts))]


def seconds(time: float) -> str:
    """A time, rounded to three digits at most."""
    return f"{time:.{1 if time >= 10 else 2}f} s" if time >= 0.1 else f"{time * 1000:.3g} ms"


def rows_of(case: Case, runs: Mapping[str, Sequence[Run]], failures: Mapping[str, str]) -> list[Row]:
    """The rows of a case; of every tool there are runs or a failure."""
    middles = {tool: median(done) for tool, done in runs.items() if tool not in failures}
    base = middles.get(case.ways[0].tool)
    rows = []
    for way in case.ways:
        row = Row(case.name, case.title, way.tool, way.ours, failures.get(way.tool))
        if way.tool in middles:
            middle = middles[way.tool]
            row = row._replace(
                whole_seconds=middle.whole_seconds,
                work_seconds=middle.work_seconds,
                least_work_seconds=min(done.work_seconds for done in runs[way.tool]),
                ratio=middle.work_seconds / base.work_seconds if base and base.work_seconds else None,
                peak_bytes=middle.peak_bytes,
                verdicts=tuple(verdict(target, middle, middles) for target in way.targets),
            )
        rows.append(row)
    return rows


def median(runs: Sequence[Run]) -> Run:
    """The medians of times, and the most of memory."""
    return Run(
        statistics.median(run.whole_seconds for run in runs),
        statistics.median(run.work_seconds for run in runs),
        max(run.peak_bytes for run in runs),
    )


def verdict(target: Target, found: Run, middles: Mapping[str, Run]) -> Verdict:
    """Whether a target holds."""
    if not target.tool:
        return Verdict(f"peak ≤ {target.limit / MIB:g} MiB", found.peak_bytes / MIB, found.peak_bytes <= target.limit)
    faster = target.limit <= 0.5  # is easier understood as how many times faster
    asked = f"≥ {1 / target.limit:g} x faster than" if faster else f"≤ {target.limit:g} x"
    text = f"{target.figure} {asked} {target.tool}"
    name = f"{target.figure}_seconds"
    ours, theirs = getattr(found, name), getattr(middles.get(target.tool), name, 0.0)
    if not ours or not theirs:
        return Verdict(text, None, None)
    return Verdict(text, theirs / ours if faster else ours / theirs, ours <= target.limit * theirs)


def main() -> None:
    """Print the rows of several files, and draw them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="+", type=Path, metavar="FIGURES.json")
    parser.add_argument("--plot", type=Path, metavar="PLOT.svg")
    options = parser.parse_args()
    rows = [Row.from_json(record) for path in options.figures for record in json.loads(path.read_text())["rows"]]
    print(HEADER, *lines(rows), sep="\n")
    if options.plot:
        from plot import draw

        draw(rows, options.plot)


if __name__ == "__main__":
    main()
