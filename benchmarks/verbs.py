"""Runs every verb on models of 20 and 100 GiB, and prints the time on the processor and the peak memory of each.

    python benchmarks/verbs.py                          # 20 GiB in one file; 20 and 100 GiB in 40 files
    python benchmarks/verbs.py 'sparse-1280.*' cp mv    # 5 GiB, and some verbs; * and ? work
    python benchmarks/verbs.py --directory /mnt/large

All weights are holes in their files, so that 100 GiB fit on any disk. What is written has holes, too: each process
compares what it would write with zeros, leaves these out, and neither reserves space nor lets the kernel copy. It
still reads every byte and does everything else. So the figures show whether time grows with the size, and memory does
not. They do not show how fast a disk is, which run.py does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import processes
from run import HERE, make

MODELS = ("sparse-5120.onnx", "sparse-5120.shards", "sparse-25600.shards")  # weights of 4 MiB


class Verb(NamedTuple):
    """A command line; `{model}`, `{archive}` (the same as `.onnxz`), `{middle}` (a value) and `{out}` are filled in.

    `before` is a command that makes what the verb needs, and is not measured.
    """

    title: str
    words: str
    before: str = ""


COPY = "cp {model} {out}/c.onnx"
VERBS = (
    Verb("files", "files {model}"),
    Verb("inspect", "inspect {model}"),
    Verb("verify", "verify {model}"),
    Verb("verify --data", "verify {archive} --data"),
    Verb("diff", "diff {model} {archive}"),
    Verb("cp", COPY),
    Verb("mv", "mv {out}/c.onnx {out}/d.onnx", COPY),
    Verb("rm", "rm {out}/c.onnx --all-data", COPY),
    Verb("repair", "repair {out}", COPY),
    Verb("convert to .onnxz", "convert {model} {out}/m.onnxz"),
    Verb("convert to .rten", "convert {model} {out}/m.rten"),
    Verb("convert to files of 1 GiB", "convert {model} {out}/m.onnx --max-external-file-size 1GiB"),
    Verb("convert --link", "convert {out}/m.onnxz {out}/m.onnx --link", "cp {archive} {out}/m.onnxz"),
    Verb("edit to .onnxz", "edit {model} {out}/m.onnxz --rename x0=x"),
    Verb("edit in place", "edit {out}/m.onnxz --rename x0=x", "cp {archive} {out}/m.onnxz"),
    Verb("extract half", "extract {model} {out}/m.onnx --outputs {middle} --external-data"),
    Verb("extract --tensor", "extract {model} {out}/w.npy --tensor w0"),
    Verb(
        "merge",
        "merge {model} {out}/c.onnx {out}/m.onnxz --connect {last}=x0",
        "extract {model} {out}/c.onnx --outputs x1",
    ),
    Verb("share", "share {model} {out}/c.onnx --out {out}/s --parents", "extract {model} {out}/c.onnx --outputs x1"),
    Verb("pack", "pack {model} {out}/p.onnxz"),
    Verb("unpack", "unpack {archive} {out}/u"),
    Verb("batch", "batch {model} --out {out}/b --to onnxz --jobs 1 --parents"),
)


def formats(words: list[str]) -> processes.Cost:
    """What a command takes.

    Raises: SystemExit if it fails.
    """
    command = [sys.executable, str(HERE / "without_zeros.py"), *words]
    try:
        return processes.cost(command, accepted=(0, 1) if words[0] == "diff" else (0,))
    except processes.RunError as error:
        raise SystemExit(f"formats {' '.join(words)}: {error}") from None


def cost(verb: Verb, model: Path, count: int, directory: Path) -> processes.Cost:
    """What a verb takes on a model of so many weights."""
    with tempfile.TemporaryDirectory(dir=directory) as out:
        places = {"{model}": model, "{archive}": model.with_suffix(".onnxz"), "{out}": out}
        places |= {"{middle}": f"x{count // 2}", "{last}": f"x{count}"}
        for text in filter(None, (verb.before, verb.words)):
            for name, place in places.items():
                text = text.replace(name, str(place))
            found = formats(text.split())
    return found


def main() -> None:
    """Measure each verb on each model and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="models, and the first words of verbs; all by default")
    parser.add_argument("--directory", type=Path, help="for models and output; the system's temporary one by default")
    options = parser.parse_args()
    models = [name for name in options.names if name.startswith("sparse-")] or MODELS
    patterns = [name for name in options.names if not name.startswith("sparse-")] or ["*"]
    verbs = [verb for verb in VERBS if any(fnmatchcase(verb.title, f"{pattern}*") for pattern in patterns)]
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        paths = [make(name, Path(directory), 1) for name in models]
        for path in paths:
            formats(["convert", str(path), str(path.with_suffix(".onnxz"))])
        print(f"| verb | {' | '.join(models)} |\n|---|{'--:|' * len(models)}")
        for verb in verbs:
            print(f"| `{verb.title}`", end="", flush=True)
            for name, path in zip(models, paths, strict=True):
                count = int(name.removeprefix("sparse-").partition(".")[0])
                found = cost(verb, path, count, Path(directory))
                print(f" | {found.cpu_seconds:.2f} s, {found.peak_bytes / (1 << 20):.0f} MiB", end="", flush=True)
            print(" |")


if __name__ == "__main__":
    main()
