"""How much memory processes take together that use one model at the same time, as Linux counts it.

    python benchmarks/sharing.py              # 256 MiB of weights, two processes
    python benchmarks/sharing.py --size 1024 --processes 4

Each process uses all weights of the model and stays until it was measured. PSS counts a page that several processes
map in equal parts, so its sum is what they take together; RSS counts the page in each. What a process takes that uses
a model of a few kilobytes in the same way is subtracted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from models import make

MIB = 1 << 20
WEIGHT_MIB = 4  # of the models of the kind "float32"
VIEWS = """import sys, formats
model = formats.load(sys.argv[1])
views = [tensor.numpy() for tensor in model.graph.initializer]
sums = [view.sum() for view in views]
"""
COPIES = """import sys, onnx
model = onnx.load(sys.argv[1])
arrays = [onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer]
sums = [array.sum() for array in arrays]
"""
SESSION = """import sys, numpy, onnxruntime, formats
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.add_session_config_entry("session.disable_prepacking", sys.argv[2])
if sys.argv[3] == "formats":
    session = formats.onnxruntime_session(sys.argv[1], sess_options=options)
else:
    session = onnxruntime.InferenceSession(sys.argv[1], options)
(value,) = session.get_inputs()
session.run(None, {value.name: numpy.ones([dim if isinstance(dim, int) else 1 for dim in value.shape], "float32")})
"""
READY = "ready"
STAY = f"print({READY!r}, flush=True)\ninput()\n"


class Way(NamedTuple):
    """One way to use a model: a program that gets its path and these arguments."""

    title: str
    form: str  # of the model's file
    program: str
    arguments: tuple[str, ...] = ()


class Memory(NamedTuple):
    """What processes take together, in bytes."""

    pss: int
    rss: int


WAYS = (
    Way("formats.load, Tensor.numpy()", "onnxz", VIEWS),
    Way("formats.onnxruntime_session", "onnxz", SESSION, ("1", "formats")),
    Way("formats.onnxruntime_session, weights prepacked", "onnxz", SESSION, ("0", "formats")),
    Way("onnx.load, to_array", "onnx", COPIES),
    Way("onnxruntime.InferenceSession", "onnx", SESSION, ("1", "onnxruntime")),
)


@contextmanager
def process(way: Way, model: Path) -> Iterator[int]:
    """The id of a process that has used the model and holds on to it."""
    command = [sys.executable, "-c", way.program + STAY, str(model), *way.arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin
        assert running.stdout
        if running.stdout.readline().strip() != READY:
            raise SystemExit(f"{way.title} failed")
        yield running.pid
        running.stdin.write("\n")


def measure(way: Way, model: Path, processes: int) -> Memory:
    """What that many processes take that use the model in this way."""
    with ExitStack() as all_of_them:
        ids = [all_of_them.enter_context(process(way, model)) for _ in range(processes)]
        rollups = [Path(f"/proc/{number}/smaps_rollup").read_text() for number in ids]
    fields = [dict(line.split()[:2] for line in rollup.splitlines()[1:]) for rollup in rollups]
    return Memory(*(sum(int(found[name]) << 10 for found in fields) for name in ("Pss:", "Rss:")))


def main() -> None:
    """Measure each way with one process and with several, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=256, metavar="MIB", help="of the weights; %(default)s by default")
    parser.add_argument("--processes", type=int, default=2, help="%(default)s by default")
    options = parser.parse_args()
    print(f"| {options.size} MiB of weights, {options.processes} processes | sum of PSS | of RSS | copies |")
    print("|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        for way in WAYS:
            large = make(f"float32-{options.size // WEIGHT_MIB}.{way.form}", Path(directory), 1)
            small = make(f"small.{way.form}", Path(directory), 1)
            base, found = (measure(way, model, options.processes) for model in (small, large))
            pss, rss = ((taken - without) / MIB for taken, without in zip(found, base, strict=True))
            print(f"| {way.title} | {pss:.0f} MiB | {rss:.0f} MiB | {pss / options.size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
