"""Converts many models with one process and with several, checks every line of the manifest, and prints a table.

    python benchmarks/fleet.py                        # 2,000 small and 20 large models, 1 and 2 processes
    python benchmarks/fleet.py --small 200 --large 4 --processes 1 2 4
    python benchmarks/fleet.py --dask                 # also on a Dask cluster of as many workers on this machine

Small models are of some hundred nodes, so that their conversion is bound by the processor; large ones of 64 MiB of
weights. A process has one thread, so that several processes are compared with one. The time of the parent is what it
spends on the processor for each job: its reciprocal says how many jobs a second it can hand out, and so how many
workers it can keep busy. Each way writes the same bytes, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
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
    ("large", "float32-16.onnx", "rten"),
    ("large", "float32-16.onnx", "onnxz"),
)


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
    """What a run took: seconds, and those that the parent was on the processor."""

    seconds: float
    parent_seconds: float


def fleet(model: Path, folder: Path, count: int) -> list[Path]:
    """So many models, each with a producer of its own, so that no two files are alike."""
    folder.mkdir()
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
    """What it takes to convert the models into a folder, which is made; the manifest is beside it."""
    folder.mkdir()
    jobs = [(path, folder / f"{path.stem}.{target}") for path in models]
    with executor_of(way) as executor:
        started, busy = perf_counter(), process_time()
        results = formats.convert_many(
            jobs,
            executor=executor,
            processes=0 if way.is_dask else way.count,
            manifest=folder.with_suffix(".jsonl"),
            threads=1,
        )
        figures = Figures(perf_counter() - started, process_time() - busy)
    if failed := [result for result in results if not result.ok]:
        raise SystemExit(f"{failed[0].job.source}: {failed[0].error}")
    return figures


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
    for path, destination, line in zip(models, written, lines, strict=True):
        for file, listed in ((path, line["source_files"]), (destination, line["destination_files"])):
            digest = sha256(file)
            wanted = [{"path": str(file), "nbytes": file.stat().st_size, "sha256": digest}]
            if listed != wanted or line["error"] is not None or line["version"] != formats.__version__:
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
    parser.add_argument("--rounds", type=int, default=1, help="of which the fastest counts; 1 by default")
    options = parser.parse_args()
    ways = [Way(count) for count in options.processes]
    ways += [Way(count, is_dask=True) for count in options.processes if options.dask]
    print("| models | way | time | models/s | times the first | parent, for each |")
    print("|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        fleets: dict[str, list[Path]] = {}
        for kind, name, target in CASES:
            count = options.small if kind == "small" else options.large
            if not count:
                continue
            if kind not in fleets:
                fleets[kind] = fleet(make(name, place, options.scale), place / kind, count)
            nbytes = sum(path.stat().st_size for path in fleets[kind])
            first, digests = 0.0, set()
            for way in ways:
                best = Figures(float("inf"), 0.0)
                for _ in range(options.rounds):
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
                ]
                print(f"| {' | '.join(cells)} |", flush=True)
            if len(digests) != 1:
                raise SystemExit("not every way has written the same bytes")


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    main()
