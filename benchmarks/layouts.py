"""How long a runtime takes to load one model in each layout, and how much memory that takes.

    python benchmarks/layouts.py               # 512 MiB of weights, five loads for each figure
    python benchmarks/layouts.py --publish     # also writes the table of docs/which_format.md

The model multiplies a vector with matrices of 4 MiB. Each time, a new process loads a file, which is in the page
cache; a figure is the least of all loads. *Memory* is what loading adds to the process and is no map of a file, as
Linux counts it (`RssAnon`). The rows of RTen need its runner, which cargo builds (tests/runtime/runner.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from documents import current
from models import SMALL, WIDTH, chain, value, write_inline
from report import seconds

import formats

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "which_format.md"
RTEN = ROOT / "tests" / "runtime" / "target" / "release" / "rten-runner-0-27"
MIB = 1 << 20
WEIGHT_MIB = 4  # of each matrix
# Loads with onnxruntime, and prints what the runner of RTen prints.
SESSION = """import json, sys, time, onnxruntime, formats
def own():
    return int(open("/proc/self/status").read().partition("RssAnon:")[2].split()[0]) << 10
small, path, function, *settings = sys.argv[1:]
options = onnxruntime.SessionOptions()
for setting in settings:
    options.add_session_config_entry(f"session.{setting}", "1")
make = {"onnxruntime": onnxruntime.InferenceSession, "formats": formats.onnxruntime_session}[function]
make(small, options)  # so that the start of onnxruntime does not count
before, start = own(), time.perf_counter()
session = make(path, options)
print(json.dumps({"load": {"seconds": time.perf_counter() - start, "anonymous_nbytes": own() - before}}))
"""
MAPPED = ("disable_prepacking",)  # without this setting, onnxruntime copies matrices into an order of its own


class Way(NamedTuple):
    """A layout, who loads it, and the arguments of the program for a usual load and for a mapped one."""

    layout: str
    file: str
    loaded_by: str
    usual: tuple[str, ...] | None
    mapped: tuple[str, ...] | None

    def command(self, folder: Path, arguments: Sequence[str]) -> list[str]:
        """The command that loads the file and prints the figures as JSON."""
        path = str(folder / self.file)
        if self.loaded_by.startswith("RTen"):
            return [str(RTEN), *arguments, path, str(folder / "out"), f"x0={folder / 'x0.npy'}"]
        return [sys.executable, "-c", SESSION, str(SMALL), path, *arguments]


SESSIONS = (("onnxruntime",), ("onnxruntime", *MAPPED))
OURS = (("formats",), ("formats", *MAPPED))
WAYS = (
    Way("`.onnx`", "model.onnx", "onnxruntime", SESSIONS[0], None),
    Way("external data", "external.onnx", "onnxruntime", *SESSIONS),
    Way("`.safetensors` beside", "beside.onnx", "onnxruntime", *SESSIONS),
    Way("`.onnxz`, linked", "linked.onnx", "onnxruntime", *SESSIONS),
    Way("`.onnxz`", "model.onnxz", "onnxruntime, by `formats`", *OURS),
    Way("`.ort`", "model.ort", "onnxruntime", SESSIONS[0], None),
    Way("`.ort`", "model.ort", "onnxruntime, by `formats`", *OURS),
    Way("`.onnx`", "rten.onnx", "RTen", (), None),
    Way("external data", "rten-external.onnx", "RTen", (), ("--mmap",)),
    Way("`.onnxz`", "rten.onnxz", "RTen, by the crate `onnxz`", None, ()),
    Way("`.rten`", "model.rten", "RTen with `rten_format`", (), ("--mmap",)),
)


def make(folder: Path, count: int) -> None:
    """All files of the model, with so many matrices, are in the folder."""
    content = chain(count, np.dtype("float32"))
    first, last = (value(name, np.dtype("float32"), 1, WIDTH) for name in ("x0", f"x{count}"))
    model = folder / "model.onnx"
    write_inline(model, content._replace(input=first, outputs=[last]), sparse=False)
    formats.convert(model, folder / "external.onnx", external_data=True)
    formats.convert(model, folder / "beside.onnx", external_data="beside.safetensors")
    for extension in ("onnxz", "ort", "rten"):
        formats.convert(model, folder / f"model.{extension}")
    formats.convert(folder / "model.onnxz", folder / "linked.onnx", link=True)
    formats.convert(model, folder / "rten.onnx", runtime="rten")
    formats.convert(model, folder / "rten-external.onnx", runtime="rten", external_data=True)
    formats.convert(model, folder / "rten.onnxz", runtime="rten")
    np.save(folder / "x0.npy", np.ones((1, WIDTH), "float32"))


def measured(way: Way, folder: Path, arguments: Sequence[str] | None, rounds: int) -> list[str]:
    """The cells with the time and the memory of a load."""
    if arguments is None:
        return ["", ""]
    loads = []
    for _ in range(rounds + 1):  # the first one brings the file into the page cache
        done = subprocess.run(way.command(folder, arguments), capture_output=True, text=True, check=True)
        loads.append(json.loads(done.stdout)["load"])
    time, nbytes = (min(load[key] for load in loads[1:]) for key in ("seconds", "anonymous_nbytes"))
    return [seconds(time), f"{nbytes / MIB:,.0f} MiB"]


def rows(folder: Path, rounds: int) -> Iterator[str]:
    """The lines of the table."""
    yield "| layout | loaded by | load | memory | mapped: load | memory |"
    yield "|---|---|--:|--:|--:|--:|"
    for way in WAYS:
        cells = [way.layout, way.loaded_by]
        for arguments in (way.usual, way.mapped):
            cells += measured(way, folder, arguments, rounds)
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Make the files, measure each row, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=512, metavar="MIB", help="of the weights; %(default)s by default")
    parser.add_argument("--rounds", type=int, default=5, help="%(default)s by default")
    parser.add_argument("--publish", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as directory:
        make(Path(directory), options.size // WEIGHT_MIB)
        for line in rows(Path(directory), options.rounds):
            print(line, flush=True)
            lines.append(line)
    if options.publish:
        text = current(PAGE.read_text(encoding="utf-8"), ["\n".join(lines) + "\n"], "layouts.py")
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
