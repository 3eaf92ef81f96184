"""Times conversions against other tools on models made here, in turn within one run, and prints the ratios.

    python benchmarks/run.py                      # everything; needs about 12 GB of disk and 15 minutes
    python benchmarks/run.py --size 64 --rounds 3 # a quick look

Every command is a process of its own. In each round all commands of a case run once, one after the other, so that a
slow spell of the machine hits all of them. Figures are medians of wall time and the peak resident memory that the
operating system counted for the process. Files are in the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
SCRIPTS = Path(sys.executable).parent
OURS = "formats"


class Command(NamedTuple):
    """One way to do the work of a case; `make` gives the argument list for an output directory."""

    tool: str
    make: Callable[[Path], list[str]]


class Case(NamedTuple):
    """Work that several tools can do; the first command is what the others are compared with."""

    title: str
    commands: tuple[Command, ...]


class Timing(NamedTuple):
    """One run of a command."""

    seconds: float
    peak_bytes: int


def convert(*arguments: str) -> list[str]:
    """Our command."""
    return [str(SCRIPTS / "convert"), *arguments, "--quiet", "--force"]


def python(code: str, *arguments: str) -> list[str]:
    """A Python process."""
    return [sys.executable, "-c", code, *arguments]


ONNX_TO_EXTERNAL = """
import onnx, sys
model = onnx.load(sys.argv[1])
onnx.save(model, sys.argv[2], save_as_external_data=True, location="m.data")
"""
ONNX_LOAD_SAVE = "import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])"
IR_TO_EXTERNAL = """
import onnx_ir, sys
onnx_ir.save(onnx_ir.load(sys.argv[1]), sys.argv[2], external_data="m.data")
"""
ZIPFILE = """
import sys, zipfile
with zipfile.ZipFile(sys.argv[2], "w") as archive: archive.write(sys.argv[1])
"""
SHA256 = "import hashlib, sys; hashlib.file_digest(open(sys.argv[1], 'rb'), 'sha256')"
LOAD_OURS = "import formats, sys; formats.load(sys.argv[1])"
LOAD_ONNX = "import onnx, sys; onnx.load(sys.argv[1])"
LOAD_IR = "import onnx_ir, sys; onnx_ir.load(sys.argv[1])"
READ_ALL_OURS = """
import formats, sys
for tensor in formats.load(sys.argv[1]).graph.initializer: tensor.numpy().sum()
"""
READ_ALL_ONNX = """
import onnx, sys
from onnx import numpy_helper
for tensor in onnx.load(sys.argv[1]).graph.initializer: numpy_helper.to_array(tensor).sum()
"""


def cases(big: Path, nodes: Path, small: Path) -> Iterator[Case]:
    """All cases, given a model of large weights, one of many nodes, and a small one."""
    copy = Command("cp", lambda out: ["cp", str(big), str(out / "copy")])
    yield Case(
        "large .onnx -> .rten",
        (
            copy,
            Command(OURS, lambda out: convert(str(big), str(out / "m.rten"))),
            Command(f"{OURS} --no-onnx-hash", lambda out: convert(str(big), str(out / "m.rten"), "--no-onnx-hash")),
            Command("SHA-256 of the file", lambda out: python(SHA256, str(big))),
            Command("rten-convert", lambda out: [str(SCRIPTS / "rten-convert"), str(big), str(out / "m.rten")]),
            Command(
                "rten-convert --no-infer-shapes",
                lambda out: [str(SCRIPTS / "rten-convert"), "--no-infer-shapes", str(big), str(out / "m.rten")],
            ),
        ),
    )
    zips = [Command("zipfile", lambda out: python(ZIPFILE, str(big), str(out / "m.zip")))]
    if shutil.which("zip"):
        zips.append(Command("zip -0", lambda out: ["zip", "-q", "-0", str(out / "m.zip"), str(big)]))
    yield Case(
        "large .onnx -> .onnxz", (copy, Command(OURS, lambda out: convert(str(big), str(out / "m.onnxz"))), *zips)
    )
    yield Case(
        "large .onnx -> external data",
        (
            copy,
            Command(OURS, lambda out: convert(str(big), str(out / "m.onnx"), "--external-data", "m.data")),
            Command("onnx", lambda out: python(ONNX_TO_EXTERNAL, str(big), str(out / "m.onnx"))),
            Command("onnx_ir", lambda out: python(IR_TO_EXTERNAL, str(big), str(out / "m.onnx"))),
        ),
    )
    yield Case(
        "large .onnx -> .onnx",
        (
            copy,
            Command(OURS, lambda out: convert(str(big), str(out / "m.onnx"))),
            Command("onnx", lambda out: python(ONNX_LOAD_SAVE, str(big), str(out / "m.onnx"))),
        ),
    )
    for title, ours, theirs in (("load", LOAD_OURS, LOAD_ONNX), ("load, read all", READ_ALL_OURS, READ_ALL_ONNX)):
        yield Case(
            f"large .onnx: {title}",
            (
                Command("onnx", lambda out, theirs=theirs: python(theirs, str(big))),  # type: ignore[misc]
                Command(OURS, lambda out, ours=ours: python(ours, str(big))),  # type: ignore[misc]
            ),
        )
    yield Case(
        "many nodes: load",
        (
            Command("onnx", lambda out: python(LOAD_ONNX, str(nodes))),
            Command(OURS, lambda out: python(LOAD_OURS, str(nodes))),
            Command("onnx_ir", lambda out: python(LOAD_IR, str(nodes))),
        ),
    )
    yield Case(
        "many nodes: .onnx -> .rten",
        (
            Command("rten-convert", lambda out: [str(SCRIPTS / "rten-convert"), str(nodes), str(out / "m.rten")]),
            Command(OURS, lambda out: convert(str(nodes), str(out / "m.rten"))),
        ),
    )
    yield Case(
        "small .onnx -> .rten",
        (
            Command("rten-convert", lambda out: [str(SCRIPTS / "rten-convert"), str(small), str(out / "m.rten")]),
            Command(OURS, lambda out: convert(str(small), str(out / "m.rten"))),
        ),
    )


def run(command: list[str]) -> Timing:
    """Run a command and account for it; what it prints is dropped unless it fails."""
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{errors.read().decode(errors='replace')}")
    unit = 1 if platform.system() == "Darwin" else 1024
    return Timing(seconds, usage.ru_maxrss * unit)


def measure(case: Case, rounds: int, directory: Path) -> list[dict[str, object]]:
    """The figures of each command of a case, in the order of its commands."""
    timings: dict[str, list[Timing]] = {command.tool: [] for command in case.commands}
    for _ in range(rounds):
        for command in case.commands:
            out = directory / "out"
            out.mkdir()
            timings[command.tool].append(run(command.make(out)))
            shutil.rmtree(out)
    base = statistics.median(timing.seconds for timing in timings[case.commands[0].tool])
    return [
        {
            "case": case.title,
            "tool": tool,
            "median_seconds": statistics.median(timing.seconds for timing in runs),
            "minimum_seconds": min(timing.seconds for timing in runs),
            "ratio": statistics.median(timing.seconds for timing in runs) / base,
            "peak_bytes": max(timing.peak_bytes for timing in runs),
        }
        for tool, runs in timings.items()
    ]


def make_models(directory: Path, mebibytes: int, node_count: int) -> tuple[Path, Path, Path]:
    """Write the models of large weights, of many nodes, and the small one; the first is a chain of products."""
    subprocess.run([sys.executable, HERE / "models.py", directory, str(mebibytes), str(node_count)], check=True)
    return directory / "big.onnx", directory / "nodes.onnx", HERE.parent / "examples" / "digits.onnx"


def main() -> None:
    """Measure, print the table, and write the figures as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1024, help="MiB of weights in the large model")
    parser.add_argument("--nodes", type=int, default=40_000, help="nodes in the model of many nodes")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each command")
    parser.add_argument("--only", default="", help="only cases with this in their title")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--directory", type=Path, help="where to put the files; by default a temporary directory")
    options = parser.parse_args()
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        directory = Path(name)
        models = make_models(directory, options.size, options.nodes)
        print("| case | tool | median | ratio | peak memory |\n|---|---|--:|--:|--:|")
        for case in cases(*models):
            if options.only not in case.title:
                continue
            for row in measure(case, options.rounds, directory):
                figures.append(row)
                memory = f"{int(str(row['peak_bytes'])) / 2**20:,.0f} MiB"
                times = f"{row['median_seconds']:.2f} s | {row['ratio']:.2f}"
                print(f"| {row['case']} | {row['tool']} | {times} | {memory} |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
