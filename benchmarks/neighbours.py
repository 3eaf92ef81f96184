"""Runs every verb alone and beside many other models, and prints the times on the processor and their ratio.

    python benchmarks/neighbours.py                             # 1,000 models of 4,000 nodes, and a batch of 2,000
    python benchmarks/neighbours.py mv cp --count 200 --batch 0 # some verbs; * and ? work

The models beside are in the page cache. Each command is run several times in both folders in turn, and the least time
counts. What is 'again' replaces a model that is there. The batch converts models of two nodes twice, without forcing
them to disk, which only a run that replaces files does.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from processes import RunError, cost
from run import make

MODEL = "nodes-4000.onnx"


class Verb(NamedTuple):
    """A command line in a folder with `in.onnx`, `a.onnx` (with a data file) and `a.onnxz`, which are made before."""

    title: str
    words: str
    again: bool = False  # the command has been run before


EXTERNAL = "convert in.onnx {new}.onnx --external-data --size-threshold 0 --force"
VERBS = (
    Verb("inspect", "inspect a.onnx"),
    Verb("verify", "verify a.onnxz --data"),
    Verb("diff", "diff a.onnx a.onnxz"),
    Verb("files", "files a.onnx"),
    Verb("convert to .onnxz", "convert in.onnx new.onnxz --force"),
    Verb("convert to .onnxz, again", "convert in.onnx new.onnxz --force", again=True),
    Verb("convert to .onnxz --backup, again", "convert in.onnx new.onnxz --force --backup", again=True),
    Verb("convert to data file", EXTERNAL.replace("{new}", "new")),
    Verb("convert to data file, again", EXTERNAL.replace("{new}", "new"), again=True),
    Verb("convert to data file --backup, again", EXTERNAL.replace("{new}", "new") + " --backup", again=True),
    Verb("convert --clean", "convert in.onnx a.onnx --force --clean"),
    Verb("edit in place", "edit a.onnxz --metadata a=b"),
    Verb("edit", "edit a.onnx new.onnx --metadata a=b --force", again=True),
    Verb("extract", "extract a.onnx new.onnx --outputs x2 --force", again=True),
    Verb("merge", "merge a.onnx in.onnx new.onnxz --connect x4000=x0 --force", again=True),
    Verb("share", "share a.onnx in.onnx --out . --force"),
    Verb("pack", "pack a.onnx in.onnx new.onnxz --force", again=True),
    Verb("unpack", "unpack a.onnxz new"),
    Verb("cp", "cp a.onnx new.onnx --force", again=True),
    Verb("mv of an archive", "mv a.onnxz new.onnxz"),
    Verb("mv of one file", "mv in.onnx new.onnx"),
    Verb("mv with data", "mv a.onnx new.onnx"),
    Verb("rm of an archive", "rm a.onnxz"),
    Verb("rm --all-data", "rm a.onnx --all-data"),
    Verb("repair", "repair a.onnx"),
    Verb("batch", "batch in.onnx --out . --to onnxz --force", again=True),
)


def seconds(words: list[str], folder: Path) -> float:
    """The time on the processor that a command takes.

    Raises: SystemExit if it fails.
    """
    command = [sys.executable, "-m", "formats", *words]
    try:
        return cost(command, folder, (0, 1) if words[0] == "diff" else (0,)).cpu_seconds
    except RunError as error:
        raise SystemExit(f"formats {' '.join(words)}: {error}") from None


def prepared(folder: Path, start: dict[str, bytes], beside: set[str]) -> None:
    """The folder has the models at the start, and those that stay beside them."""
    for path in folder.iterdir():
        if path.name not in beside:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, data in start.items():
        (folder / name).write_bytes(data)


def costs(verb: Verb, folders: dict[Path, set[str]], start: dict[str, bytes], rounds: int) -> Iterator[float]:
    """The least time of a verb in each folder."""
    found: dict[Path, list[float]] = {folder: [] for folder in folders}
    for _ in range(rounds):
        for folder, beside in folders.items():
            prepared(folder, start, beside)
            if verb.again:
                seconds(verb.words.split(), folder)
            found[folder].append(seconds(verb.words.split(), folder))
    return map(min, found.values())


def batch(count: int, directory: Path) -> None:
    """Print what a batch of small models takes, and the same again."""
    small, folder = make("nodes-2.onnx", directory, 1), directory / "many"
    folder.mkdir()
    for index in range(count):
        shutil.copyfile(small, folder / f"m{index}.onnx")
    for target in ("onnxz", "onnx --external-data --size-threshold 0"):
        words = f"batch . --out ../{target[:5]} --parents --no-fsync --quiet --to {target}".split()
        first, second = seconds(words, folder), seconds([*words, "--force"], folder)
        print(f"| `batch --to {target}` of {count} models | {first:.2f} s | {second:.2f} s | {second / first:.2f} |")


def main() -> None:
    """Measure each verb and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="the first words of verbs; all by default")
    parser.add_argument("--count", type=int, default=1000, help="models beside; 1,000 by default")
    parser.add_argument("--batch", type=int, default=2000, help="models of the batch; 2,000 by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1, help="of the size of models")
    parser.add_argument("--directory", type=Path, help="for models; the system's temporary one by default")
    options = parser.parse_args()
    verbs = [verb for verb in VERBS if any(fnmatchcase(verb.title, f"{name}*") for name in options.names or ["*"])]
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        root = Path(directory)
        model, first = make(MODEL, root, options.scale), root / "first"
        first.mkdir()
        shutil.copyfile(model, first / "in.onnx")
        seconds(EXTERNAL.replace("{new}", "a").split(), first)
        seconds(["convert", "in.onnx", "a.onnxz"], first)
        start = {path.name: path.read_bytes() for path in first.iterdir()}
        folders: dict[Path, set[str]] = {}
        for name, count in (("alone", 0), ("beside", options.count)):
            folder = root / name
            folder.mkdir()
            for index in range(count):
                shutil.copyfile(model, folder / f"n{index}.onnx")
            folders[folder] = {f"n{index}.onnx" for index in range(count)}
        print(f"| verb | alone | beside {options.count:,} models | ratio |\n|---|--:|--:|--:|", flush=True)
        for verb in verbs:
            alone, crowded = costs(verb, folders, start, options.rounds)
            print(f"| `{verb.title}` | {alone:.3f} s | {crowded:.3f} s | {crowded / alone:.2f} |", flush=True)
        if options.batch:
            print("| | first | again, `--force` | |\n|---|--:|--:|--:|")
            batch(options.batch, root)


if __name__ == "__main__":
    main()
