"""Converts many models with one process and with several, checks every line of the manifest, and prints a table.

    python benchmarks/fleet.py                        # 2,000 small and 20 large models, 1 and 2 processes
    python benchmarks/fleet.py --small 200 --large 4 --processes 1 2 4
    python benchmarks/fleet.py --dask                 # also on a Dask cluster of as many workers on this machine
    python benchmarks/fleet.py --others 10000         # in folders with as many other models
    python benchmarks/fleet.py --loop 100             # also so many small models in a shell loop of another tool

Small models are of some hundred nodes, so that their conversion is bound by the processor; large ones of 64 MiB of
weights. A process has one thread, so that several processes are compared with one. The time of the parent is what it
spends on the processor for each job: its reciprocal says how many jobs a second it can hand out, and so how many
workers it can keep busy. A second run with the manifest has nothing to do. Each way writes the same bytes, or the
benchmark fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

from models import make

import formats

MIB = 1 << 20
CASES = (  # what is converted, and into what
    ("small", "nodes-400.onnx", "rten"),
    ("small", "nodes-400.onnx", "onnxz"),
    ("small", "nodes-400.onnx", "onnx"),  # with external data
    ("large", "float32-16.onnx", "rten"),
    ("large", "float32-16.onnx", "onnxz"),
)


LOOPS = {  # of the best other tool for a target, as one types it in a shell
    "rten": """for model in models/m*.onnx; do
rten-convert "$model" out/"$(basename "$model" .onnx)".rten >messages 2>&1
done""",
    "onnx": """for model in models/m*.onnx; do
python -c 'import onnx, sys; model = onnx.load(sys.argv[1]); onnx.save(model, sys.argv[2],
save_as_external_data=True, location=sys.argv[3])' "$model" \\
out/"$(basename "$model")" "$(basename "$model").data"
done""",
}


class Way(NamedTuple):
    """What does the jobs: so many processes of our own, or workers of a cluster."""

    count: int
    is_dask: bool = False

    @property
    def title(self) -> str:
        """Its name in the table."""
        what = "Dask worker" if self.is_dask else "process"
        return f"{self.count} {what}{'' if self.count == 1 else 's' if self.is_dask else 'es'}"


class Figures(NamedTuple):
    """What a run took: seconds, those that the parent was on the processor, and those of a second run."""

    seconds: float
    parent_seconds: float
    second_seconds: float


def folder_with(others: int, folder: Path, model: Path) -> None:
    """Make a folder with so many other models."""
    folder.mkdir()
    for number in range(others):
        os.link(model, folder / f"other{number:05}.onnx")


def fleet(model: Path, folder: Path, count: int, others: int) -> list[Path]:
    """So many models beside others, each with a producer of its own, so that no two files are alike."""
    folder_with(others, folder, model)
    given = formats.load(model)
    paths = [folder / f"m{number:05}.onnx" for number in range(count)]
    for number, path in enumerate(paths):
        given.producer_name = f"fleet {number}"
        formats.save(given, path)
    return paths


@contextmanager
def executor_of(way: Way) -> Iterator[Executor | None]:
    """The executor of a cluster; none for processes of our own."""
    if not way.is_dask:
        with nullcontext():
            yield None
        return
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=way.count, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        yield client.get_executor(pure=False)


def run(way: Way, models: list[Path], folder: Path, target: str) -> Figures:
    """What it takes to convert the models into a folder, twice; the manifest is beside it."""
    jobs = [(path, folder / f"{path.stem}.{target}") for path in models]
    with executor_of(way) as executor:
        seconds = []
        for state in ("converted", "unchanged"):
            started, busy = perf_counter(), process_time()
            results = formats.convert_many(
                jobs,
                executor=executor,
                processes=0 if way.is_dask else way.count,
                manifest=folder.with_suffix(".jsonl"),
                threads=1,
                **({"external_data": True} if target == "onnx" else {}),
            )
            seconds += [perf_counter() - started, process_time() - busy]
            if wrong := [result for result in results if result.state != state]:
                raise SystemExit(f"{wrong[0].job.source}: {wrong[0].state} {wrong[0].error}")
    return Figures(*seconds[:3])


def loop(models: list[Path], folder: Path, target: str) -> float:
    """The seconds that a shell loop of another tool takes for these models."""
    (folder / "models").mkdir(parents=True)
    (folder / "out").mkdir()
    for path in models:
        os.link(path, folder / "models" / path.name)
    started = perf_counter()
    subprocess.run(["sh", "-ec", LOOPS[target]], check=True, cwd=folder)
    seconds = perf_counter() - started
    if len([*(folder / "out").glob(f"*.{target}")]) != len(models):
        raise SystemExit("the loop has not written every file")
    shutil.rmtree(folder)
    return seconds


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(models: list[Path], folder: Path, target: str) -> str:
    """A digest of all that was written, where each line of the manifest is as the files are."""
    lines = [json.loads(line) for line in folder.with_suffix(".jsonl").read_text("utf-8").splitlines()]
    written = [folder / f"{path.stem}.{target}" for path in models]
    if [line["destination"] for line in lines] != [str(path) for path in written]:
        raise SystemExit("the manifest has other lines than there are jobs")
    whole = hashlib.sha256()
    for path, line in zip(models, lines, strict=True):
        if line["error"] is not None or line["version"] != formats.__version__:
            raise SystemExit(f"the manifest is not right about {path}: {line}")
        for listed in (*line["source_files"], *line["destination_files"]):
            file = Path(listed["path"])
            digest = sha256(file)
            if listed != {"path": str(file), "nbytes": file.stat().st_size, "sha256": digest}:
                raise SystemExit(f"the manifest is not right about {file}: {line}")
            whole.update(digest.encode())
    return whole.hexdigest()


def main() -> None:
    """Measure each way and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=2000, metavar="N", help="small models; %(default)s by default")
    parser.add_argument("--large", type=int, default=20, metavar="N", help="large models; %(default)s by default")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2], help="1 and 2 by default")
    parser.add_argument("--dask", action="store_true", help="also Dask workers, as many as processes")
    parser.add_argument("--scale", type=float, default=1.0, help="of the models; 1 by default")
    parser.add_argument("--others", type=int, default=0, metavar="N", help="other models in the folders; 0 by default")
    parser.add_argument("--loop", type=int, default=0, metavar="N", help="small models in a shell loop; 0 by default")
    parser.add_argument("--to", nargs="+", choices=["rten", "onnxz", "onnx"], help="only into these; all by default")
    parser.add_argument("--rounds", type=int, default=1, help="of which the fastest counts; 1 by default")
    options = parser.parse_args()
    ways = [Way(count) for count in options.processes]
    ways += [Way(count, is_dask=True) for count in options.processes if options.dask]
    print("| models | way | time | models/s | times the first | parent, for each | second run |")
    print("|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        fleets: dict[str, list[Path]] = {}
        for kind, name, target in CASES:
            count = options.small if kind == "small" else options.large
            if not count or (options.to and target not in options.to):
                continue
            model = make(name, place, options.scale)
            if kind not in fleets:
                fleets[kind] = fleet(model, place / kind, count, options.others)
            nbytes = sum(path.stat().st_size for path in fleets[kind])
            first, digests = 0.0, set()
            for way in ways:
                best = Figures(float("inf"), 0.0, 0.0)
                for _ in range(options.rounds):
                    folder_with(options.others, place / "out", model)
                    best = min(best, run(way, fleets[kind], place / "out", target))
                    digests.add(check(fleets[kind], place / "out", target))
                    shutil.rmtree(place / "out")
                    (place / "out.jsonl").unlink()
                first = first or best.seconds
                cells = [
                    f"{count:,} of {nbytes / count / MIB:.2f} MiB to .{target}",
                    way.title,
                    f"{best.seconds:.2f} s",
                    f"{count / best.seconds:.1f}",
                    f"{first / best.seconds:.2f}",
                    f"{1000 * best.parent_seconds / count:.2f} ms" if way != Way(1) else "does it",
                    f"{best.second_seconds:.2f} s",
                ]
                print(f"| {' | '.join(cells)} |", flush=True)
            if kind == "small" and target in LOOPS and (listed := fleets[kind][: options.loop]):
                seconds = loop(listed, place / "loop", target)
                rate = len(listed) / seconds
                cells = [f"{len(listed):,} to .{target}", "a shell loop", f"{seconds:.2f} s", f"{rate:.1f}"]
                print(f"| {' | '.join(cells)} | {first * rate / count:.2f} | | |", flush=True)
            if len(digests) != 1:
                raise SystemExit("not every way has written the same bytes")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    main()
