"""What a command takes with a model of 50 KB, as a whole process, and what of that is Python, typer, numpy and ours.

    python benchmarks/small_commands.py --publish # also writes the table of docs/benchmarks.md

All processes take turns; a figure is the least time on the processor of all rounds. What an import takes is the time
of a process that does nothing else, without Python's own start.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile

from documents import ROOT, current
from processes import ENVIRONMENT, cost
from run import program

PAGE = ROOT / "docs" / "benchmarks.md"
MODEL = str(ROOT / "examples" / "digits.onnx")
PACKAGES = ("typer", "numpy", "onnx")
COMMANDS = (
    "formats --version",
    "formats files {model}",
    "formats inspect {model}",
    "formats verify {model}",
    "formats convert {model} {folder}/m.onnxz --force",
    "formats convert {model} {folder}/m.rten --force",
    "formats edit {model} {folder}/m.onnx --metadata a=b --force",
    "rten-convert {model} {folder}/other.rten",
)


def words(command: str, folder: str) -> list[str]:
    """The words of a command."""
    name, *rest = command.format(model=MODEL, folder=folder).split()
    return [*program(name), *rest]


def imports_numpy(command: list[str]) -> bool:
    """Whether a command imports numpy."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    return any(line.split()[-1] == "numpy" for line in done.stderr.splitlines() if line.startswith("import time:"))


def least_times(processes: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """The least time on the processor of each process, in milliseconds."""
    least = dict.fromkeys(processes, float("inf"))
    for _ in range(rounds):
        for name, process in processes.items():
            least[name] = min(least[name], 1000 * cost(process).cpu_seconds)
    return least


def table(rounds: int, folder: str) -> str:
    """The table: the time of each process in parts, and in times of `import numpy`."""
    imports = {f"import {name}": [sys.executable, "-c", f"import {name}"] for name in PACKAGES}
    commands = {command: words(command, folder) for command in COMMANDS}
    least = least_times({"python": [sys.executable, "-c", ""]} | imports | commands, rounds)
    start = least["python"]
    lines = ["| process | all | Python | typer | numpy | the rest | `import numpy` = 1 |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|")
    for name, all_of_it in least.items():
        has_typer = name == "import typer" or name.startswith("formats")
        has_numpy = name == "import numpy" or (name in commands and imports_numpy(commands[name]))
        parts = [start, has_typer * (least["import typer"] - start), has_numpy * (least["import numpy"] - start)]
        figures = [all_of_it, *parts, max(0.0, all_of_it - sum(parts))]
        cells = [f"{figure:.0f} ms" if round(figure) else "" for figure in figures]
        title = name.format(model="m.onnx", folder=".").replace(" --force", "")
        lines.append(f"| `{title}` | {' | '.join(cells)} | {all_of_it / least['import numpy']:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure all processes and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="%(default)s by default")
    parser.add_argument("--publish", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = table(options.rounds, folder)
    print(text, end="")
    if options.publish:
        PAGE.write_text(current(PAGE.read_text(encoding="utf-8"), [text], "small_commands.py"), encoding="utf-8")


if __name__ == "__main__":
    main()
