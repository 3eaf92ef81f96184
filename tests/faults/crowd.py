"""Kills and stops several processes that work on the models of one folder; then checks what is left.

    python tests/faults/crowd.py [--minutes N] [--processes N] [--seed N] [--directory FOLDER]

In each round, the processes convert, edit, copy, move, remove and repair models of the same few names, at the same
time, while some of them are killed, or stopped for a while. All of them also read models, and must find each as one of
those that were written, or none. At the end of a round, all are killed. Then each model must be whole, also after a
repair, which must leave no hidden file. In every second round, the processes only move models, and none may be lost.
The exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import formats
from formats import onnxzip
from formats.errors import FormatError

SIZES = (300, 5000, 20_000)
NAMES = ["a.onnx", "b.onnx", "C.onnx", "d.onnx", "e.onnxz", "f.onnxz", "g.onnxz"]
LAYOUTS: list[dict[str, Any]] = [{}, {"external_data": True}, {"external_data": True, "max_external_file_size": 30_000}]
MEANWHILE = ("changed", "replac", "another process", "was moved", "is gone")  # words of refusals while others write
ROUND_SECONDS = 12.0
WORKS = ["convert", "convert", "replace", "move", "move", "copy", "remove", "repair", "update", "edit", "read", "read"]


def model(number: int) -> formats.Model:
    """Return a model whose producer and weights are this number."""
    weights = [formats.from_numpy(np.full(size, number, "float32"), f"w{size}") for size in SIZES]
    nodes = [
        formats.Node(op_type="Add", input=[f"y{index}", f"w{size}"], output=[f"y{index + 1}"])
        for index, size in enumerate(SIZES)
    ]
    ends = [
        formats.ValueInfo(name=name, type=formats.Type(tensor_type=formats.TensorType(elem_type=1)))
        for name in ("y0", f"y{len(SIZES)}")
    ]
    graph = formats.Graph(name="g", node=nodes, initializer=weights, input=ends[:1], output=ends[1:])
    imports = [formats.OperatorSetId("", 17)]
    return formats.Model(ir_version=8, producer_name=str(number), opset_import=imports, graph=graph)


def number_of(found: formats.Model) -> int:
    """Return the number of a model; raise ValueError if it is a mixture."""
    assert found.graph is not None
    numbers = {int(found.producer_name or -1)}
    sizes = []
    for tensor in found.graph.initializer:
        values = tensor.numpy()
        sizes.append(values.size)
        numbers |= {*map(int, np.unique(values))}
    if len(numbers) != 1 or sorted(sizes) != sorted(SIZES):
        raise ValueError(f"a mixture: {numbers} {sizes}")
    return numbers.pop()


class Worker:
    """A process that works on the folder until it is killed, and writes down what must not be."""

    def __init__(self, folder: Path, moves_only: bool, state: random.Random) -> None:
        self.folder, self.moves_only, self.state = folder, moves_only, state
        self.report = folder.with_name("report")

    def run(self) -> None:
        """Work for ever."""
        while True:
            name = self.state.choice(["move", "read"] if self.moves_only else WORKS)
            try:
                getattr(self, name)()
                self.tell(f"done {name}")
            except (FormatError, OSError) as error:
                is_usual = name != "read" or isinstance(error, (FileNotFoundError, BlockingIOError))
                is_usual |= any(word in str(error) for word in MEANWHILE)
                self.tell(f"refused {name}" if is_usual else f"BROKEN {name}: {error} {traceback.format_exc()!r}")
            except Exception:
                self.tell(f"BROKEN {name}: {traceback.format_exc()!r}")

    def tell(self, line: str) -> None:
        """Add a line to the report, in one step."""
        descriptor = os.open(self.report, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)

    def path(self, extension: str = "") -> Path:
        """Return the path of one of the models."""
        return self.folder / self.state.choice([name for name in NAMES if name.endswith(extension)])

    def convert(self) -> None:
        """Write a new model."""
        path = self.path()
        options = self.state.choice(LAYOUTS) if path.suffix == ".onnx" else {}
        formats.save(model(self.state.randrange(1, 1 << 20)), path, overwrite=True, **options)

    def replace(self) -> None:
        """Write a new model, and keep or remove what it replaces."""
        keeping = self.state.choice([{"clean": True}, {"backup": True, "clean": True}])
        options = self.state.choice(LAYOUTS) if (path := self.path()).suffix == ".onnx" else {}
        formats.save(model(self.state.randrange(1, 1 << 20)), path, overwrite=True, **keeping, **options)

    def move(self) -> None:
        """Give a model another name, over another one or not."""
        path = self.path()
        keeping = (
            {} if self.moves_only else self.state.choice([{}, {"overwrite": True}, {"overwrite": True, "clean": True}])
        )
        formats.mv(path, self.path(path.suffix), **keeping)

    def copy(self) -> None:
        """Copy a model over another one."""
        path = self.path()
        formats.cp(path, self.path(path.suffix), overwrite=True)

    def remove(self) -> None:
        """Remove a model."""
        formats.rm(self.path())

    def repair(self) -> None:
        """Repair a model."""
        formats.repair(self.path())

    def update(self) -> None:
        """Change all of an archive in place."""
        path = self.path("onnxz")
        found, new = formats.load(path), model(self.state.randrange(1, 1 << 20))
        found.producer_name, found.graph = new.producer_name, new.graph
        onnxzip.update(found, path)

    def edit(self) -> None:
        """Change the graph of an archive in place."""
        formats.edit(self.path("onnxz"), metadata={"edited": "yes"})

    def read(self) -> None:
        """Read a model completely, as a conversion does."""
        copy = self.folder.with_name(f"copy-{os.getpid()}.onnx")
        try:
            formats.convert(self.path(), copy, overwrite=True)
            with formats.load(copy) as found:
                number_of(found)
        finally:
            copy.unlink(missing_ok=True)


def started(work: Callable[[], object]) -> int:
    """Start a process that does this, and return its id."""
    if child := os.fork():
        return child
    try:
        work()
    finally:
        os._exit(1)


def one_round(box: Path, processes: int, moves_only: bool, state: random.Random, counts: Counter[str]) -> list[str]:
    """Let processes work, some of which are stopped and killed; return the broken promises."""
    shutil.rmtree(box, ignore_errors=True)
    folder = box / "models"
    folder.mkdir(parents=True)
    for number, name in enumerate(NAMES[::2], 1):
        formats.save(model(number), folder / name, **(LAYOUTS[number % 3] if name.endswith(".onnx") else {}))

    def new() -> int:
        return started(Worker(folder, moves_only, random.Random(state.random())).run)

    running = [new() for _ in range(processes)]
    stopped: dict[int, float] = {}
    end = time.monotonic() + ROUND_SECONDS
    while time.monotonic() < end:
        time.sleep(state.uniform(0.005, 0.2))
        for process, until in [*stopped.items()]:
            if time.monotonic() > until:
                os.kill(process, signal.SIGCONT)
                del stopped[process]
        process = state.choice(running)
        if state.random() < 0.5:
            os.kill(process, signal.SIGSTOP)
            stopped[process] = time.monotonic() + state.choice((0.01, 0.1, 1.0))
            counts["stops"] += 1
        else:
            end_of(process)
            stopped.pop(process, None)
            running[running.index(process)] = new()
            counts["kills"] += 1
    for process in running:
        end_of(process)
    counts["rounds"] += 1
    lines = (box / "report").read_text().splitlines() if (box / "report").exists() else []
    for line in lines:
        if not line.startswith("BROKEN"):
            counts[line] += 1
    broken = [line for line in lines if line.startswith("BROKEN")]
    return broken + left(folder, moves_only)


def end_of(process: int) -> None:
    """Kill a process."""
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def left(folder: Path, moves_only: bool) -> list[str]:
    """Return the broken promises in the folder after all processes have ended; this repairs it."""
    broken = []
    names = {name for name in os.listdir(folder) if not name.startswith(".") and name.endswith(("onnx", "onnxz"))}
    names |= {name[1:].rpartition(".lock")[0] for name in os.listdir(folder) if name.endswith(".lock")}
    names |= {name[1:].rpartition(".journal")[0] for name in os.listdir(folder) if name.endswith(".journal")}
    before = found_in(folder, names, broken, "before a repair")
    for name in sorted(names):
        try:
            formats.repair(folder / name)
        except FileNotFoundError:
            pass
        except (FormatError, OSError) as error:
            broken.append(f"repair of {name}: {error}")
    after = found_in(folder, names, broken, "after a repair")
    if lost := [name for name in before if name not in after]:
        broken.append(f"lost by a repair: {lost}")
    if moves_only and (lost_numbers := {*range(1, len(NAMES[::2]) + 1)} - {*after.values()}):
        broken.append(f"lost by moves: {lost_numbers}, of {sorted(os.listdir(folder))}")
    if hidden := [name for name in os.listdir(folder) if name.startswith(".")]:
        broken.append(f"left: {hidden}")
    return broken


def found_in(folder: Path, names: set[str], broken: list[str], when: str) -> dict[str, int]:
    """Return the numbers of the models that are there."""
    found = {}
    for name in sorted(names):
        try:
            with formats.load(folder / name) as model:
                found[name] = number_of(model)
        except FileNotFoundError:
            continue
        except (FormatError, OSError, ValueError) as error:
            broken.append(f"{name} {when}: {error}")
    return found


def main() -> int:
    """Do rounds for some minutes, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    all_broken: list[str] = []
    state = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        number = 0
        while time.monotonic() < end:
            broken = one_round(Path(name) / "box", options.processes, bool(number % 2), state, counts)
            for line in broken:
                print(f"round {number}: {line}", flush=True)
            all_broken += broken
            number += 1
    print(f"{len(all_broken)} broken promises; {dict(sorted(counts.items()))}")
    return 1 if all_broken else 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
