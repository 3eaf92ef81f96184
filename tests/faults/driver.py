"""Runs scenarios while each system call fails in turn; `shim.c` must be preloaded into this program.

    LD_PRELOAD=shim.so python driver.py shim.so FOLDER SCENARIO...

FORMATS_SYSTEM names what the system lacks, of SYSTEMS. With FORMATS_NIGHT, every call fails; otherwise, on a usual
system, the process is killed at every call, but only the first call and then one of three fail, on other days others.
Prints a JSON object: the number of faults of each kind, and every broken promise.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import signal
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from formats.errors import FormatError
from formats.tensordata import interrupted
from formats.tensordata.replacing import lock
from tests.faults.scenarios import MORE, SCENARIOS, Scenario, allowed, content, fresh, hidden_files, problems, state_of

READ, WRITE, SPACE, NAME, SYNC, OPEN, OTHER = (1 << number for number in range(7))
ALL = (1 << 7) - 1
FAIL, SHORT, INTERRUPT, KILL, KILL_AFTER, FAIL_ON, STOP = range(7)
# What is injected: the mode, the kinds of calls, the error.
FAULTS = {
    "kill": (KILL, ALL & ~READ, 0),
    "error": (FAIL, ALL, errno.EIO),
    "short": (SHORT, READ | WRITE, 0),
    "interrupt": (INTERRUPT, READ | WRITE, 0),
    "full": (FAIL_ON, WRITE | SPACE, errno.ENOSPC),
    "quota": (FAIL, NAME | OPEN, errno.EDQUOT),
    "race": (STOP, NAME | OPEN | SPACE | OTHER, 0),  # another process does the same work meanwhile
    "swap": (STOP, NAME | OPEN | SPACE | OTHER | READ, 0),  # another process puts a link in the place of the model
}
NO_LOCKS = 1
SYSTEMS = {
    "usual": 0,
    "no locks": NO_LOCKS | 2,  # and no files without names, as some network filesystems
    "no locks for one": NO_LOCKS | 2,  # but another machine has mounted the filesystem with locks
    "no links": 2 | 4,
    "clock stands": 8,
    "one case": 16,
    "linked folder": 0,
}
SECRET = b"precious" * 5000
ALL_CALLS = {"kill", "race", "swap"}  # faults that come at each call, also by day
STEP = 1 if os.environ.get("FORMATS_NIGHT") else 3
OF_THE_DAY = zlib.crc32(os.environ.get("FORMATS_SEED", "1").encode())
DONE, REFUSED, OTHER_ERROR, NOT_HIT = 0, 1, 2, 4


def main() -> None:
    """Run the named scenarios."""
    shim = ctypes.CDLL(sys.argv[1])
    box = Path(sys.argv[2])
    linked = box.with_name("linked")
    if os.environ.get("FORMATS_SYSTEM") == "linked folder":
        linked.symlink_to(box)
    victim = box.with_name("victim")
    victim.write_bytes(SECRET)
    counts: Counter[str] = Counter()
    broken: list[str] = []
    for scenario in (scenario for scenario in [*SCENARIOS, *MORE] if scenario.name in sys.argv[3:]):
        template = box.with_name("template")
        fresh(box.with_name("nothing"), template)
        shim.fault_set(os.fsencode(template), 0, 0, FAIL, 0)  # no kind of call fails
        shim.fault_system(b"", SYSTEMS[os.environ.get("FORMATS_SYSTEM", "usual")] & NO_LOCKS)
        scenario.prepare(template)  # a process that is killed here found no locks either
        shim.fault_system(b"", 0)
        for fault in os.environ.get("FORMATS_FAULTS", " ".join(FAULTS)).split():
            is_usual = os.environ.get("FORMATS_SYSTEM", "usual") == "usual"
            step = 1 if fault in ALL_CALLS and (is_usual or fault != "kill") else STEP
            number, gap = 0, 1 + OF_THE_DAY % step
            while True:
                fresh(template, box)
                status = run(shim, scenario, box, fault, number)
                if status == NOT_HIT:
                    break
                counts[fault] += 1
                found = list(judge(scenario, template, box, fault, status))
                if victim.read_bytes() != SECRET:
                    found.append("a file elsewhere was changed")
                    victim.write_bytes(SECRET)
                broken += (f"{scenario.name}, {fault} at call {number}: {problem}" for problem in found)
                number, gap = number + gap, step
    print(json.dumps({"counts": counts, "broken": broken}))


def run(shim: ctypes.CDLL, scenario: Scenario, box: Path, fault: str, number: int) -> int:
    """Return the exit code of a process that does the work while its n-th call fails; negative for a signal."""
    mode, kinds, error = FAULTS[fault]
    child = os.fork()
    if child:
        _, status = os.waitpid(child, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            if fault == "swap":
                swapped(scenario, box)
            else:
                done_as_well(shim, scenario, box)
            os.kill(child, signal.SIGCONT)
            _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)
    code = OTHER_ERROR
    try:
        system = os.environ.get("FORMATS_SYSTEM", "usual")
        place = prepare(shim, system, box)
        shim.fault_set(os.fsencode(box), kinds, number, mode, error)
        try:
            scenario.work(place)
            code = DONE
        except (OSError, FormatError):
            code = REFUSED
        gc.collect()
        if not shim.fault_hits():
            code = NOT_HIT
    finally:
        os._exit(code)


def prepare(shim: ctypes.CDLL, system: str, box: Path) -> Path:
    """Take from this process what the system lacks, and return the folder as the process knows it."""
    place = box.with_name("linked") if system == "linked folder" else box
    shim.fault_system(os.fsencode(place) if place != box else b"", SYSTEMS[system])
    return place


def swapped(scenario: Scenario, box: Path) -> None:
    """Put a link to a file elsewhere in the place of the model."""
    (box / "swap").symlink_to(box.with_name("victim"))
    (box / "swap").replace(box / scenario.file)


def done_as_well(shim: ctypes.CDLL, scenario: Scenario, box: Path) -> None:
    """Do the same work in another process, which waits for nobody, and look at the model."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        lock.WAIT_SECONDS = 0.0
        interrupted.OPEN_ATTEMPTS = 2
        system = os.environ.get("FORMATS_SYSTEM", "usual")
        place = prepare(shim, "usual" if system == "no locks for one" else system, box)
        state_of(scenario, place)
        with suppress(OSError, FormatError):
            scenario.work(place)
    finally:
        os._exit(0)


def judge(scenario: Scenario, template: Path, box: Path, fault: str, status: int) -> Iterator[str]:
    """Return every broken promise."""
    if fault == "swap":
        if status not in (DONE, REFUSED):
            yield f"ended with {status}"
        return
    if fault == "race":
        if status not in (DONE, REFUSED):
            yield f"ended with {status}"
        state = state_of(scenario, box)
        if state not in allowed(scenario) or (status == DONE and state != scenario.result):
            yield f"ended with {status}, and found: {state}"
        if hidden_files(box) and status == DONE:
            yield f"left behind: {hidden_files(box)}"
        yield from problems(scenario, box, plain=False, twice=True)
        return
    if fault == "kill":
        if status != -signal.SIGKILL:
            yield f"ended with {status}"
        yield from problems(scenario, box)
        return
    if status not in (DONE, REFUSED):
        yield f"ended with {status}"
    if fault in ("short", "interrupt") and status != DONE:
        yield "refused"
    state = state_of(scenario, box)
    if status == DONE and state != scenario.result:
        yield f"done, and found: {state}"
    if scenario.in_place and f".{scenario.file}.undo" in hidden_files(box):  # it could not even be restored yet
        yield from problems(scenario, box)
        return
    before = content(template)
    after = {name: data for name, data in content(box).items() if not Path(name).name.startswith(".")}
    if status == REFUSED and state != "new" and before != after and not scenario.goes_on:
        yield f"refused, and the files are others: {sorted(before)} {sorted(after)}, found: {state}"
    if hidden_files(box) and (
        (fault == "full" and not scenario.goes_on) or (status == DONE and fault != "error" and fault != "quota")
    ):
        yield f"left behind: {hidden_files(box)}"
    yield from problems(scenario, box, plain=False)


if __name__ == "__main__":
    main()
