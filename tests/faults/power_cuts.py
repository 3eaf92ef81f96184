"""Simulates power cuts: runs scenarios with `shim.c`, which logs changes of files, and checks each possible result.

    LD_PRELOAD=shim.so python power_cuts.py shim.so FOLDER SCENARIO...

Whatever was synced is on the disk. The rest may be in any state: names may be old or new, in any combination, and the
content of a file may be old, new, or zeros of the new size. Prints a JSON object: the number of states, and every
broken promise.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from tests.faults.scenarios import MORE, SCENARIOS, Scenario, fresh, problems

ALL = (1 << 7) - 1
FEW = 4  # pending changes of names, of which every combination is tried
STATES = int(os.environ.get("FORMATS_STATES", "6"))  # for each moment, besides those that lose everything or nothing


class Disk:
    """The changes that are certainly on the disk, and those that may be there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folders = {folder.stat().st_ino: ""}  # names of folders, as seen from the first one
        self.names: dict[str, int] = {}  # the names on the disk, and the file of each
        self.contents: dict[int, bytes] = {}
        self.times: dict[int, int] = {}
        for path in folder.rglob("*"):
            inode = path.stat().st_ino
            if path.is_dir():
                self.folders[inode] = str(path.relative_to(folder))
                continue
            self.names[str(path.relative_to(folder))] = inode
            self.contents[inode] = path.read_bytes()
            self.times[inode] = path.stat().st_mtime_ns
        self.seen = dict(self.names)  # the names that a process sees
        self.written = dict(self.contents)
        self.pending: list[tuple[str | None, str | None, int]] = []  # changes of names: new, old, file

    def apply(self, line: str) -> None:
        """Apply one line of the log."""
        verb, *fields = line.split("\t")
        if verb == "create":
            self.written[int(fields[0])] = b""
            self.contents[int(fields[0])] = b""
            if fields[1] != "-":
                self._change(self._name(fields[1]), None, int(fields[0]))
        elif verb == "write":
            inode, offset, data = int(fields[0]), int(fields[1]), bytes.fromhex(fields[2])
            content = self.written[inode].ljust(offset, b"\0")
            self.written[inode] = content[:offset] + data + content[offset + len(data) :]
        elif verb == "truncate":
            inode, size = int(fields[0]), int(fields[1])
            self.written[inode] = self.written[inode][:size].ljust(size, b"\0")
        elif verb == "name":
            self._change(self._name(fields[1]), None, int(fields[0]))
        elif verb in ("link", "rename"):
            old, new = map(self._name, fields)
            if not (verb == "rename" and self.seen.get(new) == self.seen[old]):
                self._change(new, old if verb == "rename" else None, self.seen[old])
        elif verb == "unlink":
            self._change(None, self._name(fields[0]), self.seen[self._name(fields[0])])
        elif verb == "sync":
            self.contents[int(fields[0])] = self.written[int(fields[0])]
        elif verb == "syncdir":
            self._sync(self.folders[int(fields[0])])
        elif verb == "syncall":
            self.contents, self.names, self.pending = dict(self.written), dict(self.seen), []

    def _name(self, path: str) -> str:
        """A path as seen from the first folder."""
        return os.path.relpath(path, self.folder)

    def _sync(self, folder: str) -> None:
        """Put the changes of names in a folder on the disk; a change in another one may be lost."""
        here = [change for change in self.pending if folder in map(os.path.dirname, filter(None, change[:2]))]
        self.names = changed(self.names, here)
        self.pending = [change for change in self.pending if change not in here]

    def _change(self, new: str | None, old: str | None, inode: int) -> None:
        self.pending.append((new, old, inode))
        self.seen = changed(self.seen, [(new, old, inode)])

    def states(self, chance: random.Random) -> Iterator[dict[str, tuple[int, bytes]]]:
        """Yield the possible states of the disk after a power cut now."""
        unsynced = [inode for inode in self.written if self.written[inode] != self.contents.get(inode)]
        count = len(self.pending)
        choices: list[tuple[tuple[bool, ...], str]] = [((True,) * count, how) for how in ("new", "old", "zero")]
        choices += [((False,) * count, "old")]
        choices += [(tuple(index != other for other in range(count)), "new") for index in range(count)]
        every = list(product((True, False), repeat=count)) if count < 10 else []
        choices += [(kept, "new") for kept in every if count <= FEW]
        for _ in range(STATES):
            kept = chance.choice(every) if every else tuple(chance.random() < 0.5 for _ in range(count))
            choices.append((kept, chance.choice(("new", "old", "zero"))))
        for kept, how in dict.fromkeys(choices):
            names = changed(self.names, [change for change, stays in zip(self.pending, kept, strict=True) if stays])
            yield {name: (inode, self._content(inode, how, inode in unsynced)) for name, inode in names.items()}

    def _content(self, inode: int, how: str, is_unsynced: bool) -> bytes:
        written, synced = self.written[inode], self.contents.get(inode, b"")
        if not is_unsynced or how == "new":
            return written
        if how == "old":
            return synced
        same = synced.ljust(len(written), b"\1")
        return bytes(byte if byte == before else 0 for byte, before in zip(written, same, strict=False))


def changed(names: dict[str, int], changes: list[tuple[str | None, str | None, int]]) -> dict[str, int]:
    """Return the names after these changes."""
    now = dict(names)
    for new, old, inode in changes:
        if new is not None:
            now[new] = inode
        if old is not None and now.get(old) == inode:
            del now[old]
    return now


def main() -> None:
    """Check the named scenarios."""
    shim = ctypes.CDLL(sys.argv[1])
    box = Path(sys.argv[2])
    counts: Counter[str] = Counter()
    broken: list[str] = []
    chance = random.Random(7)
    for scenario in (scenario for scenario in [*SCENARIOS, *MORE] if scenario.name in sys.argv[3:]):
        template, log = box.with_name("template"), box.with_name("log")
        fresh(box.with_name("nothing"), box)
        scenario.prepare(box)
        fresh(box, template)
        disk = Disk(box)
        if not run(shim, scenario, box, log):
            broken.append(f"{scenario.name}: the work failed")
        times = {path.stat().st_ino: path.stat().st_mtime_ns for path in box.rglob("*")} | disk.times
        seen: set[tuple[tuple[str, int, bytes], ...]] = set()
        lines = log.read_text(errors="surrogateescape").splitlines()
        for number, line in enumerate(["", *lines]):
            disk.apply(line) if line else None
            for state in disk.states(chance):
                key = tuple(sorted((name, inode, content) for name, (inode, content) in state.items()))
                if key in seen:
                    continue
                seen.add(key)
                counts[scenario.name] += 1
                put(state, box, times)
                found = problems(scenario, box, plain=not scenario.in_place)
                broken += (f"{scenario.name}, after {number} steps ({line[:60]}): {problem}" for problem in found)
    print(json.dumps({"counts": counts, "broken": broken}))


def run(shim: ctypes.CDLL, scenario: Scenario, box: Path, log: Path) -> bool:
    """Do the work in its own process, which writes the log; return whether it succeeded."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        shim.fault_log(os.fsencode(log))
        shim.fault_set(os.fsencode(box), ALL, 1 << 30, 0, 0)
        scenario.work(box)
        code = 0
    finally:
        os._exit(code)


def put(state: dict[str, tuple[int, bytes]], box: Path, times: dict[int, int]) -> None:
    """Make the folder match the state."""
    fresh(box.with_name("nothing"), box)
    made: dict[int, Path] = {}
    for name, (inode, content) in state.items():
        if inode in made:
            (box / name).parent.mkdir(exist_ok=True)
            os.link(made[inode], box / name)
            continue
        made[inode] = box / name
        made[inode].parent.mkdir(exist_ok=True)
        made[inode].write_bytes(content)
        if inode in times:
            os.utime(made[inode], ns=(times[inode], times[inode]))


if __name__ == "__main__":
    main()
