"""What other zip readers read from the attack archives that our reader refuses.

    python tests/onnxzip/zip_readers.py [--write]

Needs unzip, 7z, bsdtar, go, java, node with npm, and cargo; the packages of npm and the crate are downloaded to a
temporary folder. `--write` updates `readers/outcomes.json` and the table in `docs/security.md`.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
OUTCOMES = HERE / "readers" / "outcomes.json"
DOCUMENT = HERE.parents[1] / "docs" / "security.md"
MARKS = ("<!-- what other zip readers do; tests/onnxzip/zip_readers.py makes it -->\n", "<!-- end -->\n")
REFUSED = "refuses"

Reader = Callable[[list[Path], Path], list[str]]


def of_entries(entries: list[tuple[str, bytes]]) -> str:
    """Return a short word for the content that was read; it is the same for two readers that read the same."""
    text = json.dumps(sorted((name, data.hex()) for name, data in entries))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def by_python(paths: list[Path], scratch: Path) -> list[str]:
    """Read archives with the standard library of Python."""

    def read(path: Path) -> str:
        try:
            with zipfile.ZipFile(path) as archive:
                return of_entries([(info.filename, archive.read(info)) for info in archive.infolist()])
        except Exception:  # on any exception, the archive was not read
            return REFUSED

    return [read(path) for path in paths]


def by_command(*command: str) -> Reader:
    """Read archives with a program that unpacks an archive into the current folder."""

    def read(path: Path, folder: Path) -> str:
        folder.mkdir()
        done = subprocess.run([*command, path], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            return REFUSED
        files = sorted(file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
        return of_entries([(str(file.relative_to(folder)), file.read_bytes()) for file in files])

    return lambda paths, scratch: [read(path, scratch / str(number)) for number, path in enumerate(paths)]


def by_program(prepare: list[list[str]], command: list[str]) -> Reader:
    """Read archives with a program that prints a line for each; `prepare` builds it in the scratch folder."""

    def read(paths: list[Path], scratch: Path) -> list[str]:
        for step in prepare:
            subprocess.run(step, cwd=scratch, capture_output=True, check=True)
        lines = subprocess.run([*command, *paths], cwd=scratch, capture_output=True, text=True, check=True).stdout
        return [REFUSED if line == "!" else of_entries(_entries(line)) for line in lines.splitlines()]

    return read


def _entries(line: str) -> list[tuple[str, bytes]]:
    pairs = (entry.partition("=") for entry in line.split(",") if entry)
    return [(bytes.fromhex(name).decode("utf-8", "surrogateescape"), bytes.fromhex(data)) for name, _, data in pairs]


def _node(package: str) -> Reader:
    return by_program(
        [["npm", "install", "--silent", package]], ["node", str(HERE / "readers" / "reading.mjs"), package]
    )


def _source(name: str) -> str:
    return str(HERE / "readers" / name)


CARGO = ["cargo", "build", "--quiet", "-j1", "--target-dir", "target", "--manifest-path", _source("rust/Cargo.toml")]
READERS: dict[str, Reader] = {
    "unzip": by_command("unzip", "-qq", "-o"),
    "7z": by_command("7z", "x", "-y", "-bd"),
    "bsdtar": by_command("bsdtar", "-xf"),
    "Python": by_python,
    "Go": by_program([["go", "build", "-o", "reading", _source("reading.go")]], ["./reading"]),
    "Java": by_program([["javac", "-d", ".", _source("Reading.java")]], ["java", "-cp", ".", "Reading"]),
    "yauzl": _node("yauzl"),
    "jszip": _node("jszip"),
    "Rust": by_program([CARGO], ["target/debug/reading"]),
}


def attacks() -> dict[str, bytes]:
    """Return the archives that our reader refuses because of their zip structure, by name."""
    vectors = json.loads((HERE / "golden" / "vectors.json").read_text())
    of_zip = (vector for vector in vectors if "refused" in vector and vector["requirement"] < "Z-6")
    return {vector["name"][:60]: bytes.fromhex(vector["refused"]) for vector in of_zip}


def outcomes(readers: dict[str, Reader]) -> dict[str, dict[str, str]]:
    """Return what each reader reads from each attack, or that it refuses it."""
    found: dict[str, dict[str, str]] = {name: {} for name in attacks()}
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "in").mkdir()
        paths = [scratch / "in" / f"{number}.zip" for number in range(len(found))]
        for path, data in zip(paths, attacks().values(), strict=True):
            path.write_bytes(data)
        for reader, read in readers.items():
            (scratch / reader).mkdir()
            for attack, outcome in zip(found, read(paths, scratch / reader), strict=True):
                found[attack][reader] = outcome
    return found


def table(found: dict[str, dict[str, str]]) -> str:
    """Return the outcomes as Markdown: how many archives each reader refuses, and reads although another differs."""
    readers = list(next(iter(found.values())))
    disputed = [row for row in found.values() if len({*row.values()} - {REFUSED}) > 1]
    rows = {
        f"refused, of {len(found)}": [len(found), *(sum(row[r] == REFUSED for row in found.values()) for r in readers)],
        f"read, of {len(disputed)} in dispute": [0, *(sum(row[r] != REFUSED for row in disputed) for r in readers)],
    }
    lines = [f"| archives | formats | {' | '.join(readers)} |", f"|---|{'--:|' * (len(readers) + 1)}"]
    lines += [f"| {name} | {' | '.join(map(str, numbers))} |" for name, numbers in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or write it."""
    found = outcomes(READERS)
    if "--write" in sys.argv:
        OUTCOMES.write_text(json.dumps(found, indent=1) + "\n")
        text = DOCUMENT.read_text()
        before, _, rest = text.partition(MARKS[0])
        DOCUMENT.write_text(before + MARKS[0] + table(found) + MARKS[1] + rest.partition(MARKS[1])[2])
    else:
        print(table(found))


if __name__ == "__main__":
    main()
