"""Times our conversions against other tools, in turn within one session, and says whether the targets hold.

    python benchmarks/run.py                           # everything but the largest models
    python benchmarks/run.py --scale 0.05 --rounds 1   # a quick look at all of it
    python benchmarks/run.py 'nodes-*' start-up --json figures.json --plot plot.svg
    python benchmarks/run.py --publish                 # also into results.json, the documents and the plot
    python benchmarks/run.py --large '*-gib-*'         # models of 2.5, 5 and 8 GiB

Every run is its own process. In each round all tools of a case run once, one after the other, so that a slow
spell of the machine hits all of them; a first round, which warms everything up, does not count. Needs the `test` extra,
and Linux or macOS; benchmarks/README.md tells what the cases are and how to read the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from fnmatch import fnmatchcase
from functools import cache
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from cases import CASES, LARGE_CASES, Case, Way
from documents import RESULTS, publish
from plot import draw
from processes import ENVIRONMENT, RunError, cost
from report import HEADER, Row, Run, lines, rows_of

HERE = Path(__file__).resolve().parent
PROGRAMS = Path(sys.executable).parent
LONG_SECONDS = 10  # a tool that takes longer runs only once more after the first round: it varies little
PACKAGES = (
    "onnx-formats",
    "isal",
    "numpy",
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "protobuf",
    "rten-convert",
    "safetensors",
)


class Files(NamedTuple):
    """What a command reads."""

    model: Path
    small: Path  # the small model in the same form


def program(name: str) -> list[str]:
    """How to start a program: one that is installed next to this Python, or one of the system."""
    if name == "work":
        return [sys.executable, str(HERE / "work.py")]
    path = shutil.which(name, path=str(PROGRAMS)) or shutil.which(name)
    if path is None:
        raise RunError(f"{name} is not installed")
    return [path]


def run(command: list[str]) -> Run:
    """The account of a process; a function of work.py tells itself how long its work took.

    Raises: RunError.
    """
    found = cost([*program(command[0]), *command[1:]])
    work = float(found.output.split()[-1]) if command[0] == "work" else found.whole_seconds
    return Run(found.whole_seconds, work, found.peak_bytes)


def run_command(way: Way, files: Files, directory: Path) -> Run:
    """The account of a tool's command; what that wrote is gone again."""
    with tempfile.TemporaryDirectory(dir=directory) as out:
        command = [*way.command]
        places = {"{model}": files.model, "{folder}": files.model.parent, "{small}": files.small, "{out}": out}
        for name, place in places.items():
            command = [argument.replace(name, str(place)) for argument in command]
        return run(command)


def run_way(way: Way, files: Files, directory: Path) -> Run:
    """The account of a tool's work; what the same takes with the small model is start-up where the way says so."""
    found = run_command(way, files, directory)
    if not way.starts_up:
        return found
    start_up = run_command(way, files._replace(model=files.small), directory)
    return found._replace(work_seconds=max(0.0, found.whole_seconds - start_up.whole_seconds))


def measure(case: Case, rounds: int, directory: Path, scale: float) -> list[Row]:
    """The figures of each tool of a case."""
    files = {way.tool: files_of(case.model_of(way), directory, scale) for way in case.ways}
    os.sync()  # or what making the models has left to write would slow down the first runs
    runs: dict[str, list[Run]] = {way.tool: [] for way in case.ways}
    failures: dict[str, str] = {}
    long: set[str] = set()
    for number in range(rounds + 1):
        first = number % len(case.ways)  # in turn: what ran before a tool can cost or spare it time
        for way in (*case.ways[first:], *case.ways[:first]):
            if way.tool in failures or (number > 1 and way.tool in long):
                continue
            try:
                found = run_way(way, files[way.tool], directory)
            except RunError as error:
                failures[way.tool] = str(error)
            else:
                runs[way.tool] += [found] if number else []
                long |= {way.tool} if found.whole_seconds > LONG_SECONDS else set()
    return rows_of(case, runs, failures)


def files_of(name: str, directory: Path, scale: float) -> Files:
    """The models that a command reads, which are made where they are missing."""
    form = name.rpartition(".")[2]
    return Files(make(name, directory, scale), make(f"small.{form}", directory, scale))


@cache
def make(name: str, directory: Path, scale: float) -> Path:
    """The file of a model, made by another process: memory of this one would count as that of those it starts."""
    done = subprocess.run(
        [sys.executable, str(HERE / "models.py"), name, str(directory), str(scale)],
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Path(done.stdout.strip())


def machine() -> dict[str, Any]:
    """What ran the benchmark."""
    versions = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "packages": {name: versions.get(name) for name in PACKAGES},
    }


def chosen(patterns: list[str], large: bool) -> list[Case]:
    """The cases with these names, in the order of the table."""
    cases = CASES + LARGE_CASES if large else CASES
    for pattern in patterns:
        if not any(fnmatchcase(case.name, pattern) for case in cases):
            raise SystemExit(f"there is no case {pattern!r}; --list lists them, with --large all of them")
    return [case for case in cases if any(fnmatchcase(case.name, pattern) for pattern in patterns or "*")]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases, also with * and ?; all by default")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each tool that count; %(default)s by default")
    parser.add_argument("--scale", type=float, default=1, help="size of all models, relative to what the cases say")
    parser.add_argument("--large", action="store_true", help="also the cases of more than 2 GiB")
    parser.add_argument("--list", action="store_true", help="list the cases and do nothing")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write all figures to FILE; those that it has of other cases stay"
    )
    parser.add_argument("--publish", action="store_true", help=f"write them to {RESULTS}, the documents and the plot")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw how much longer other tools take")
    parser.add_argument("--directory", type=Path, help="where to put the models; a temporary directory by default")
    options = parser.parse_args()
    if options.publish:
        if options.scale != 1 or options.json:
            parser.error("--publish is for models of full size, and has a file of its own")
        options.json = RESULTS
    return options


def known_figures(path: Path, scale: float) -> list[Row]:
    """The figures that a file has, of cases and tools that there still are.

    Raises: SystemExit if they are of another scale or of a machine with more or fewer processors.
    """
    if not path.exists():
        return []
    figures = json.loads(path.read_text(encoding="utf-8"))
    found = figures["machine"]["processors"], figures.get("scale", 1)
    if found != (os.cpu_count(), scale):
        raise SystemExit(f"{path} has figures of {found[0]} processors and scale {found[1]}; choose another file")
    titles = {(case.name, case.title, way.tool) for case in CASES + LARGE_CASES for way in case.ways}
    rows = map(Row.from_json, figures["rows"])
    return [row for row in rows if (row.case, row.title, row.tool) in titles]


def write_figures(path: Path, known: list[Row], found: list[Row], scale: float) -> None:
    """The figures are in the file, in the order of the cases; those that were found replace those of their cases."""
    order = [case.name for case in CASES + LARGE_CASES]
    done = {row.case for row in found}
    rows = sorted([*(row for row in known if row.case not in done), *found], key=lambda row: order.index(row.case))
    head = json.dumps({"machine": machine(), "scale": scale}, indent=1).removesuffix("\n}")
    lines_of_rows = ",\n  ".join(json.dumps(row.to_json()) for row in rows)
    path.write_text(f'{head},\n "rows": [\n  {lines_of_rows}\n ]\n}}\n', encoding="utf-8")


def main() -> None:
    """Measure, print the table, and write the figures and the plot where asked; exit with 1 if we failed at a case."""
    options = arguments()
    cases = chosen(options.cases, options.large)
    if options.list:
        print(*(f"{case.name:22}{case.title}" for case in cases), sep="\n")
        return
    known = known_figures(options.json, options.scale) if options.json else []
    rows: list[Row] = []
    print(HEADER)
    # The models of a group are there only as long as it lasts.
    for _, group in groupby(cases, lambda case: case.model.rpartition(".")[0]):
        with tempfile.TemporaryDirectory(dir=options.directory) as directory:
            for case in group:
                found = measure(case, options.rounds, Path(directory), options.scale)
                print(*lines(found), sep="\n", flush=True)
                rows += found
                if options.json:  # at once: what was measured stays if a later case is interrupted
                    write_figures(options.json, known, rows, options.scale)
    if options.publish:
        publish()
    if options.plot:
        draw(rows, options.plot)
    if any(row.failure and row.ours for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
