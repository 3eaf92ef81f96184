"""Runs each command line of `tests/routes.py` while each system call fails in turn; `shim.c` must be preloaded.

    LD_PRELOAD=shim.so python every_route.py shim.so FOLDER ROUTE...

After a kill, `onnx` and our reader find each model as it was before, as it is after the command, or not at all. Then
the same command again, before or after `formats repair`, ends where the undisturbed command ended.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import formats
from formats.errors import FormatError
from tests import commands, routes
from tests.faults import driver
from tests.faults.scenarios import Scenario, fresh, onnx_load

FAULTS = ("kill", "error", "full")
MODELS = (".onnx", ".onnxz", ".rten", ".ort", ".onnxc", ".textproto")
KEY = "secret words"


def work(line: str, folder: Path) -> None:
    """Run a command line in a folder; raise OSError if its exit code says that it failed."""
    os.chdir(folder)
    done = commands.run("formats", *line.split())
    if done.exit_code:
        raise OSError(done.exit_code, done.stderr)


def identity(path: Path) -> str:
    """Return the content of a model, as `onnx` and our reader find it; "none" without one, or how it is refused."""
    if not path.exists():
        return "none"
    try:
        own = formats.load(path, **({"key": KEY} if path.suffix == ".onnxc" else {}))
        found = hashlib.sha256(formats.dumps(own, "onnx")).hexdigest()[:8]
        if path.suffix == ".onnx":
            theirs = onnx_load(path).SerializeToString(deterministic=True)
            found += hashlib.sha256(theirs).hexdigest()[:8]
    except FormatError as error:
        return f"refused: {error.message}"
    except Exception as error:
        return f"refused by onnx: {str(error)[:200]}"
    return found


def tree(folder: Path) -> set[str]:
    """Return the names of everything below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class Route:
    """A command line, and the states of its models before and after it."""

    def __init__(self, line: str, template: Path, done: Path) -> None:
        self.line = line
        fresh(template, done)
        work(line, done)
        os.chdir("/")
        names = sorted(name for name in tree(template) | tree(done) if name.endswith(MODELS))
        states = {name: (identity(template / name), identity(done / name)) for name in names}
        self.models = {name: pair for name, pair in states.items() if pair[0] != pair[1] or name in line.split()}
        self.after = tree(done)
        self.files = tree(template) | self.after

    def judge(self, box: Path, fault: str, status: int, *, repairs: bool) -> Iterator[str]:
        """Return every broken promise in the folder where a call failed, and after a repair and the same command."""
        expected = (-signal.SIGKILL,) if fault == "kill" else (driver.DONE, driver.REFUSED)
        if status not in expected:
            yield f"ended with {status}"
        for name, states in self.models.items():
            if (state := identity(box / name)) not in (*states, "none"):
                yield f"{name} is found: {state}, not one of {states}"
        if fault == "full" and (left := tree(box) - self.files):
            yield f"left behind: {left}"
        os.chdir(box)
        repair, again = ["repair", "."], self.line.split()
        for words in (repair, again) if repairs else (again, repair):
            done = commands.run("formats", *words)
        os.chdir("/")
        for name, (_, new) in self.models.items():
            if (state := identity(box / name)) != new:
                yield f"{name} is found again: {state}, not {new}: {done.stderr}"
        if left := tree(box) ^ self.after:
            yield f"other files are found again: {sorted(left)}: {done.stderr}"


def main() -> None:
    """Run the named routes."""
    shim, box = ctypes.CDLL(sys.argv[1]), Path(sys.argv[2])
    template = box.with_name("template")
    template.mkdir()
    routes.make_folder(template)
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for name in sys.argv[3:]:
        route = Route(routes.ROUTES[name], template, box.with_name("done"))
        scenario = Scenario(name, "", partial(work, route.line))
        for fault in os.environ.get("FORMATS_FAULTS", " ".join(FAULTS)).split():
            step = 1 if fault == "kill" else driver.STEP
            for times in itertools.count():
                number, repairs = driver.OF_THE_DAY % step + times // 2 * step, times % 2 == 1
                fresh(template, box)
                status = driver.run(shim, scenario, box, fault, number)
                if status == driver.NOT_HIT:
                    break
                counts[fault] += 1
                found = route.judge(box, fault, status, repairs=repairs)
                broken += (f"{name}, {fault} at call {number}{', repaired first' * repairs}: {each}" for each in found)
    print(json.dumps({"counts": counts, "broken": broken}))


if __name__ == "__main__":
    main()
