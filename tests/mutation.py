"""Changes the code in one place at a time, and prints which changes the tests notice.

    python tests/mutation.py --seed 29 --count 100

A fifth of the mutants are of the readers in Rust and JavaScript. Of the others, each room of the package has a share in
proportion to the square root of its places, and at least two. The seed chooses the places. Messages, docstrings,
annotations and generated tables have none. The tests of the folder with the room's name are run first, then the inner
ring. If a command takes longer than `--timeout`, the result
is open. All of this happens in a copy of the repository.
"""

from __future__ import annotations

import argparse
import ast
import functools
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "formats").rglob("*.py"))
RINGS = ("room", "inner")
READERS = {"rust": sorted((ROOT / "readers/rust/src").glob("*.rs")), "js": [ROOT / "readers/js/onnxz.js"]}
UNTESTED = {"rten.rs", "lib.rs"}  # of the Rust crate: the tests in Python run it with RTen, and a list of modules
_PAIRS = "<,<= >,>= ==,!= and,or in,not_in is,is_not +,- *,// &,| <<,>> &&,|| ===,!== true,false"
SWAPS = {
    one.replace("_", " "): other.replace("_", " ")
    for pair in _PAIRS.split()
    for one, other in (pair.split(","), reversed(pair.split(",")))
}
_OPERATOR = re.compile(r"not\s+in|is\s+not|\*\*|//|<<|>>|[<>!=]=|[-+*&|<>]|\b(?:and|or|in|is)\b")
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|`[^`]*`|//.*|/\*.*?\*/|^ \*.*'  # texts and comments, which stay
    r"|(?<=\s)(?:[<>]=?|[!=]==?|&&|\|\||[-+])(?=\s)|\b(?:true|false|\d+)\b"
)
_SKIPPED = {"annotation", "returns", "decorator_list", "bases"}  # types, and what is run once for each class


class Mutant(NamedTuple):
    """A change of the bytes from `start` to `stop` of a file."""

    path: Path
    line: int
    start: int
    stop: int
    new: bytes
    kind: str


class Finder:
    """Finds the places of a Python module that can be changed."""

    def __init__(self, path: Path) -> None:
        self.path, self.data = path, path.read_bytes()
        lines = self.data.splitlines(keepends=True)
        self.starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where the text of a node begins and ends."""
        begin = self.starts[getattr(node, "lineno") - 1] + getattr(node, "col_offset")  # noqa: B009 - of most nodes
        return begin, self.starts[getattr(node, "end_lineno") - 1] + getattr(node, "end_col_offset")  # noqa: B009

    def made(self, node: ast.AST, span: tuple[int, int], new: bytes, kind: str) -> Mutant:
        """Return a change in the statement or expression `node`."""
        return Mutant(self.path, getattr(node, "lineno"), *span, new, kind)  # noqa: B009

    def between(self, node: ast.AST, left: ast.AST, right: ast.AST, kind: str) -> Iterator[Mutant]:
        """Yield the change of the operator between two operands."""
        start, stop = self.span(left)[1], self.span(right)[0]
        found = _OPERATOR.search(self.data[start:stop].decode())
        if found and (swap := SWAPS.get(" ".join(found[0].split()))):
            yield self.made(node, (start + found.start(), start + found.end()), swap.encode(), kind)

    def mutants(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the changes in a node."""
        yield from self.changes(node)
        if isinstance(node, (ast.Raise, ast.JoinedStr)) or is_for_types(node):
            return
        for field, value in ast.iter_fields(node):
            if field not in _SKIPPED:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        yield from self.mutants(child)

    def changes(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the changes of a node itself."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self.between(node, node.left, node.comparators[0], "comparison")
        elif isinstance(node, ast.BoolOp):
            yield from self.between(node, *node.values[:2], "and, or")
        elif isinstance(node, ast.BinOp) and not isinstance(node.right, ast.JoinedStr):
            yield from self.between(node, node.left, node.right, "arithmetic")
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not is_for_types(node):
            yield self.made(
                node, self.span(node.test), b"not (%s)" % self.data[slice(*self.span(node.test))], "negated condition"
            )
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            new = repr(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            yield self.made(node, self.span(node), new.encode(), "constant")
        elif isinstance(node, (ast.AugAssign, ast.Raise)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield self.made(node, self.span(node), b"pass", "dropped statement")
        elif isinstance(node, ast.Return) and node.value and ast.unparse(node.value) != "None":
            yield self.made(node, self.span(node), b"return None", "result")
        elif isinstance(node, (ast.Continue, ast.Break)):
            new = "break" if isinstance(node, ast.Continue) else "continue"
            yield self.made(node, self.span(node), new.encode(), "loop")
        elif (
            isinstance(node, ast.Call)
            and len(node.args) > 1
            and not any(isinstance(argument, ast.Starred) for argument in node.args[:2])
        ):
            (start, end), (begin, stop) = map(self.span, node.args[:2])
            if self.data[start:end] != self.data[begin:stop]:
                new_text = self.data[begin:stop] + self.data[end:begin] + self.data[start:end]
                yield self.made(node, (start, stop), new_text, "swapped arguments")


def is_for_types(node: ast.AST) -> bool:
    """Return whether a node is a block for type checkers."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@functools.cache
def of_module(path: Path) -> list[Mutant]:
    """Return the mutants of a Python module; none of a generated one."""
    finder = Finder(path)
    head = finder.data[:400]
    return [] if b"Generated" in head or b"generated from" in head else [*finder.mutants(ast.parse(finder.data))]


def of_text(path: Path) -> list[Mutant]:
    """Return the mutants of a file in Rust or JavaScript, whose lines are searched for operators and numbers."""
    mutants, offset = [], 0
    for number, line in enumerate(path.read_text(encoding="utf-8").split("#[cfg(test)]")[0].splitlines(True), 1):
        for found in _TOKEN.finditer(line):
            new = str(int(found[0]) + 1) if found[0].isdecimal() else SWAPS.get(found[0])
            if new and "refused(" not in line:
                start = offset + len(line[: found.start()].encode())
                mutants.append(Mutant(path, number, start, start + len(found[0]), new.encode(), "token"))
        offset += len(line.encode())
    return mutants


def chosen(seed: int, count: int) -> list[tuple[str, Mutant]]:
    """Return the mutants, each with its room."""
    rooms: dict[str, list[Mutant]] = {}
    for path in MODULES:
        parts = path.relative_to(ROOT / "formats").parts
        rooms.setdefault(parts[0] if len(parts) > 1 else "top", []).extend(of_module(path))
    readers = count // 10
    weight = sum(len(places) ** 0.5 for places in rooms.values())
    shares = {room: max(2, int(len(rooms[room]) ** 0.5 / weight * (count - 2 * readers))) for room in sorted(rooms)}
    largest = max(rooms, key=lambda room: len(rooms[room]))
    shares[largest] += count - 2 * readers - sum(shares.values())
    for name, paths in READERS.items():
        rooms[name] = [mutant for path in paths if path.name not in UNTESTED for mutant in of_text(path)]
        shares[name] = readers
    rng = random.Random(seed)
    return [(room, mutant) for room, share in shares.items() for mutant in rng.sample(rooms[room], share)]


def commands(mutant: Mutant, copy: Path, ring: str) -> Iterator[tuple[list[str], Path]]:
    """Yield the commands that run tests, and where: those of the place of a module first."""
    if mutant.path.suffix == ".rs":
        yield ["cargo", "test", "--quiet", "--locked"], copy / "readers/rust"
    elif mutant.path.suffix == ".js":
        for name in ("vectors", "sources", "http", "package"):
            yield ["node", "--test", f"tests/{name}.test.js"], copy / "readers/js"
    else:
        folder = Path("tests") / mutant.path.relative_to(ROOT / "formats").parent
        while not (copy / folder).is_dir():
            folder = folder.parent
        folders = [folder, *folder.parents][:-1]  # the last one is the folder of all tests
        around = folders if ring == "inner" else folders[:-1]
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not outer"]
        for path in around:
            yield [*pytest, "--hypothesis-seed=0", "--no-header", str(path)], copy


def outcome(mutant: Mutant, copy: Path, timeout: float, ring: str) -> tuple[str, str]:
    """Return whether the tests notice a mutant, and the first test that does."""
    target = copy / mutant.path.relative_to(ROOT)
    data = target.read_bytes()
    target.write_bytes(data[: mutant.start] + mutant.new + data[mutant.stop :])
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for command, folder in commands(mutant, copy, ring):
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environment, timeout=timeout, capture_output=True, text=True
                )
            except subprocess.TimeoutExpired:
                return "open", "takes too long: " + command[-1]
            if done.returncode not in (0, 5):  # 5: there are only tests of the outer ring
                words = re.search(r"^(?:FAILED|ERROR|not ok|error|✖).*|test .* FAILED", done.stdout, re.MULTILINE)
                return "caught", words[0][:120] if words else f"exit code {done.returncode}"
        return "survived", ""
    finally:
        target.write_bytes(data)


def copied(folder: Path) -> Path:
    """Return a copy of the repository; what is installed in it is linked."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    installed = Path("readers/js/node_modules")
    if (ROOT / installed).is_dir() and not (folder / installed).exists():
        (folder / installed).symlink_to((ROOT / installed).resolve())
    return folder


def main() -> None:
    """Print a line for each mutant, and at the end the numbers of each room."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=100, help="at least 50")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each command")
    parser.add_argument("--tests", choices=RINGS, default=RINGS[-1], help="the farthest tests to run for what survives")
    parser.add_argument("--only", default="", help="numbers of mutants, such as 3,17")
    parser.add_argument("--list", action="store_true", help="only list them")
    arguments = parser.parse_args()
    only = {*map(int, filter(None, arguments.only.split(",")))}
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) if arguments.list else copied(Path(folder))
        mutants = enumerate(chosen(arguments.seed, arguments.count))
        for number, (room, mutant) in ((number, one) for number, one in mutants if not only or number in only):
            old = mutant.path.read_bytes()[mutant.start : mutant.stop]
            change = " -> ".join(" ".join(text.decode().split())[:60] for text in (old, mutant.new))
            found, words = ("", "") if arguments.list else outcome(mutant, copy, arguments.timeout, arguments.tests)
            counts.setdefault(room, Counter())[found] += 1
            print(f"{number} {found} {mutant.path.relative_to(ROOT)}:{mutant.line} {change}  {words}", flush=True)
    for room, row in counts.items():
        print(room, *(f"{name} {count}" for name, count in row.items()))


if __name__ == "__main__":
    main()
