"""Counts what small cases cost, so that a slowdown shows on a machine whose clock cannot be trusted.

    python benchmarks/guard.py                     # compare with guard.json
    python benchmarks/guard.py 'nodes-*' --update  # write the counts into guard.json, for this version of Python

Three things are counted: calls of functions (`sys.setprofile`), instructions (valgrind's cachegrind), and system calls
(strace). A program that is missing, or may not trace here, is named, and the other counts are compared. The exit code
is 1 if a count is above its figure by more than the tolerance, or if there are no figures for this version of Python.
benchmarks/README.md tells what to do then.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import NamedTuple, TypeAlias

from run import ENVIRONMENT, HERE, files_of, program

FIGURES = HERE / "guard.json"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
COUNT_CALLS = "--count-calls"
FIXED = {**ENVIRONMENT, "PYTHONHASHSEED": "0"}  # the order of sets, and with it the number of calls

Counts: TypeAlias = dict[str, int]
Figures: TypeAlias = dict[str, dict[str, Counts]]  # by version of Python and case


class GuardError(Exception):
    """A case cannot be counted."""


class Guard(NamedTuple):
    """A case: what `command` costs beyond `start_up`, which belongs to Python, imports and the first use of things.

    `{model}`, `{fewer}`, `{small}` and `{out}` stand for files, as in cases.py.
    """

    name: str
    command: tuple[str, ...]
    model: str = "small.onnx"
    start_up: tuple[str, ...] = ("python", "-c", "pass")

    @property
    def fewer(self) -> str:
        """The name of a model of the same kind, with one in a hundred of its nodes or weights, at least one."""
        kind, _, rest = self.model.partition("-")
        count, _, form = rest.partition(".")
        return f"{kind}-{max(1, int(count) // 100)}.{form}" if rest else self.model


def work(name: str, model: str, function: str, library: str = "formats", **options: object) -> Guard:
    """A function of work.py on a model, less what the same takes with fewer nodes or weights."""
    command = ("work", function, library, "{model}", "{out}", "{small}", json.dumps(options))
    return Guard(name, command, model, tuple("{fewer}" if word == "{model}" else word for word in command))


def repeated(name: str, model: str, function: str, times: int) -> Guard:
    """A function of work.py that repeats its work in one process, less what doing it once takes."""
    many, once = (work(name, model, function, times=number) for number in (times + 1, 1))
    return many._replace(start_up=once.command)


def beside(name: str, model: str, count: int) -> Guard:
    """Verbs beside so many copies of a model, less what they take beside two."""
    many, few = (work(name, model, "beside", count=number) for number in (count, 2))
    return many._replace(start_up=few.command)


NODES, TENSORS, UNPACKED, WEIGHTS = "nodes-2000.onnx", "tensors-2000.onnx", "unpacked-200000.onnx", "float32-4.onnx"
TREES = "trees-500000.onnx"  # which is not read in one piece
GUARDS = (
    Guard("import", ("python", "-c", "import formats")),
    Guard("start-up", ("convert", "{model}", "{out}/m.rten")),
    Guard("start-up-options", ("convert", "{model}", "{out}/m.onnxz", "--quiet", "--alignment", "4K", "--no-fsync")),
    Guard("inspect", ("formats", "inspect", "{model}")),
    Guard("verify", ("formats", "verify", "{model}")),
    work("nodes-load-onnxz", "nodes-2000.onnxz", "load"),
    work("nodes-read", NODES, "read_nodes"),
    work("nodes-resave", NODES, "resave"),
    work("nodes-resave-onnxz", NODES, "resave", path="m.onnxz"),
    work("nodes-changed", NODES, "save_changed"),
    work("nodes-verify", NODES, "look", verb="verify"),
    work("nodes-diff", NODES, "diff", changed=True),
    work("nodes-to-rten", NODES, "convert", path="m.rten"),
    work("nodes-from-rten", "nodes-2000.rten", "convert", path="m.onnx"),
    work("nodes-to-ort", NODES, "convert", path="m.ort"),
    work("nodes-from-ort", "nodes-2000.ort", "convert", path="m.onnx"),
    work("tensors-to-external", TENSORS, "resave", external_data=True),
    work("tensors-to-onnxz", TENSORS, "convert", path="m.onnxz"),
    work("tensors-to-rten", TENSORS, "convert", path="m.rten"),
    work("tensors-diff", TENSORS, "diff", changed=True),
    work("weights-diff", WEIGHTS, "diff_weights", changed=True),
    work("unpacked-to-external", UNPACKED, "convert", path="m.onnx", external_data=True),
    work("weights-inspect", "sparse-500.external", "look", verb="inspect"),
    work("trees-resave", TREES, "resave"),
    work("trees-to-onnxz", TREES, "convert", path="m.onnxz"),
    work("trees-read", TREES, "read_lists"),
    work("forest-read", "forest-50000.onnx", "read_lists"),
    repeated("dynamo-read", "dynamo-2.onnx", "read_graph", 10),
    beside("neighbours", NODES, 100),
    work("messages-read", NODES, "read_nodes", "formats.onnxpb"),
    work("messages-edited", NODES, "edit_messages", "formats.onnxpb"),
    work("messages-resave", TENSORS, "resave", "formats.onnxpb"),
)

# Waiting for a lock, another thread or memory depends on who comes first, and on the allocator of the system.
NOT_COUNTED = {"brk", "clone", "clone3", "futex", "madvise", "mmap", "mprotect", "mremap", "munmap", "sched_yield"}
NOT_COUNTED |= {"rseq", "rt_sigprocmask", "set_robust_list", "exit", "restart_syscall"}


class Kind(NamedTuple):
    """A kind of count, and by how much it may differ from its figure: a part of it, and a number."""

    count: Callable[[list[str]], int]
    part: float
    number: int


def calls(command: list[str]) -> int:
    """How many functions of Python and C a program of Python calls, in all its threads."""
    done = subprocess.run(
        [sys.executable, __file__, COUNT_CALLS, *command],
        env=FIXED,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return int(done.stderr.split()[-1])


def instructions(command: list[str]) -> int:
    """How many instructions a program executes, in all its threads."""
    with tempfile.NamedTemporaryFile("r") as log:
        cachegrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        traced([*cachegrind, f"--log-file={log.name}", sys.executable, *command])
        found = re.search(r"I +refs: +([\d,]+)", log.read())
        if found is None:
            raise GuardError("valgrind: no count")
        return int(found[1].replace(",", ""))


def system_calls(command: list[str]) -> int:
    """How many calls of the system a program makes, in all its threads, except for those that depend on chance."""
    with tempfile.NamedTemporaryFile("r") as log:
        traced(["strace", "-f", "-qq", "-c", "-U", "calls,name", "-o", log.name, sys.executable, *command])
        rows = [line.split() for line in log]
        return sum(int(row[0]) for row in rows if row[0].isdigit() and row[1] not in NOT_COUNTED | {"total"})


def traced(command: list[str]) -> None:
    """The program has run under another one.

    Raises: GuardError if that is missing or fails.
    """
    try:
        subprocess.run(command, env=FIXED, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise GuardError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise GuardError(f"{command[0]}: {error.stderr.strip().splitlines()[-1:]}") from error


KINDS = {
    "calls": Kind(calls, 0.05, 300),
    "instructions": Kind(instructions, 0.10, 1_000_000),
    "system_calls": Kind(system_calls, 0.05, 5),
}


def count_calls(arguments: list[str]) -> None:
    """Run a program of Python and print the number of calls as the last word of standard error."""
    count = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    source = arguments[1] if arguments[0] == "-c" else ""
    sys.argv = arguments[1:] if source else arguments
    sys.path[0] = "" if source else str(Path(arguments[0]).parent)
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        if source:
            exec(source)
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    print(count, file=sys.stderr)


def words(command: tuple[str, ...], places: dict[str, Path | str]) -> list[str]:
    """A command, without the interpreter of Python in front."""
    start = [] if command[0] == "python" else program(command[0])[-1:]
    rest = list(command[1:])
    for name, place in places.items():
        rest = [word.replace(name, str(place)) for word in rest]
    return start + rest


def cost(guard: Guard, kind: str, directory: Path) -> int:
    """A count of a case, beyond its start-up.

    Raises: GuardError.
    """
    places = places_of(guard, directory)
    found = []
    for command in (guard.command, guard.start_up):
        with tempfile.TemporaryDirectory(dir=directory) as out:
            found.append(KINDS[kind].count(words(command, {**places, "{out}": out})))
    return found[0] - found[1]


def places_of(guard: Guard, directory: Path) -> dict[str, Path | str]:
    """The models that the words of a command stand for, which are made where they are missing."""
    model, small = files_of(guard.model, directory, 1)
    return {"{model}": model, "{fewer}": files_of(guard.fewer, directory, 1).model, "{small}": small}


def processors() -> list[int]:
    """The processors that this process may use."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else [*range(os.cpu_count() or 1)]


def use_one_of(free: SimpleQueue[int]) -> None:
    """Programs that this thread starts use one processor; with more, threads of `formats` share work by chance."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {free.get()})


def counts_of(guards: list[Guard], kinds: list[str], directory: Path) -> Iterator[tuple[str, str, int | str]]:
    """Case, kind, and the count or why there is none; as many at once as there are processors."""
    for guard in guards:  # made one after the other
        places_of(guard, directory)
    free: SimpleQueue[int] = SimpleQueue()
    for processor in processors():
        free.put(processor)
    with ThreadPoolExecutor(free.qsize(), initializer=use_one_of, initargs=[free]) as pool:
        jobs = [(guard.name, kind, pool.submit(cost, guard, kind, directory)) for guard in guards for kind in kinds]
        for name, kind, job in jobs:
            error = job.exception()
            if error is not None and not isinstance(error, GuardError):
                raise error
            yield name, kind, str(error) if error else job.result()


def verdict(kind: str, count: int, figure: int | None) -> str:
    """What to say of a count: nothing where it is near its figure."""
    if figure is None:
        return "no figure"
    allowed = abs(figure) * KINDS[kind].part + KINDS[kind].number
    if count > figure + allowed:
        return "MORE"
    return "less" if count < figure - allowed else ""


def report(guards: list[Guard], kinds: list[str], known: Figures, directory: Path) -> tuple[Figures, bool]:
    """Print a line for each count; the counts, and whether each is at most what its figure allows."""
    found: Figures = {PYTHON: {}}
    fine = True
    print(f"{'case':22}{'kind':14}{'count':>14}{'figure':>14}  Python {PYTHON}")
    for name, kind, count in counts_of(guards, kinds, directory):
        if isinstance(count, str):
            print(f"{name:22}{kind:14}{count}", flush=True)
            continue
        found[PYTHON].setdefault(name, {})[kind] = count
        figure = known.get(PYTHON, {}).get(name, {}).get(kind)
        said = verdict(kind, count, figure)
        fine = fine and said != "MORE"
        print(f"{name:22}{kind:14}{count:14,}{figure or 0:14,}  {said}", flush=True)
    return found, fine


def figures() -> Figures:
    """The figures that are checked in."""
    found: Figures = json.loads(FIGURES.read_text())
    return found


def merged(known: Figures, found: Figures) -> Figures:
    """The figures, with those that were found in the place of the old ones."""
    versions = {**known}
    for version, cases in found.items():
        old = versions.get(version, {})
        new = {name: {**old.get(name, {}), **counts} for name, counts in cases.items()}
        versions[version] = {guard.name: counts for guard in GUARDS if (counts := {**old, **new}.get(guard.name))}
    return dict(sorted(versions.items(), key=lambda item: [int(part) for part in item[0].split(".")]))


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names of cases, also with * and ?; all by default")
    parser.add_argument("--count", choices=[*KINDS], action="append", help="count only this; may be given repeatedly")
    parser.add_argument("--update", action="store_true", help=f"write the counts into {FIGURES.name}")
    return parser.parse_args()


def main() -> None:
    """Count, compare, and write the figures where asked; exit with 1 if something costs more."""
    options = arguments()
    guards = [guard for guard in GUARDS if any(fnmatchcase(guard.name, name) for name in options.cases or "*")]
    if not guards:
        raise SystemExit(f"there is no such case; there are {', '.join(guard.name for guard in GUARDS)}")
    known = figures()
    if not options.update and PYTHON not in known:
        versions = ", ".join(known)
        raise SystemExit(
            f"{FIGURES.name} has figures for Python {versions}, not for {PYTHON}, so there is nothing to compare with; "
            "use one of these, or write the figures with --update"
        )
    with tempfile.TemporaryDirectory() as directory:
        found, fine = report(guards, options.count or [*KINDS], known, Path(directory))
    if options.update:
        FIGURES.write_text(json.dumps(merged(known, found), indent=1) + "\n")
    elif not fine:
        raise SystemExit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == [COUNT_CALLS]:
        count_calls(sys.argv[2:])
    else:
        main()
