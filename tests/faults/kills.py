"""Kills conversions of large models at random moments, and fills a small disk; then checks what is left.

    python tests/faults/kills.py [--kills N] [--mib N] [--directory FOLDER] [--disk] [--edits]

For each target, N conversions of a model with this many MiB of weights are killed, some to a new path and some that
replace another model. Afterwards the old or the new model must be there, or none if it has several files. `formats
repair` must leave it complete and leave no other file. `--disk` makes a filesystem of a few MiB in a file, which needs
root, and converts into it until it is full. `--edits` kills edits of an archive in place instead. The exit code is 1 if
a promise was broken.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import formats
from formats.errors import FormatError

TARGETS = {
    "m.onnx": ["--no-external-data"],
    "m.onnxz": [],
    "m.rten": [],
    "m.onnx in two files": ["--external-data"],
    "m.onnx in several files": ["--external-data", "--max-external-file-size", "16M"],
    "m.onnx in a file for each weight": ["--external-data", "--one-file-per-tensor", "--checksum"],
}
WEIGHT_BYTES = 4 << 20


def make(path: Path, name: str, mib: int) -> None:
    """Return a model of this many MiB with weights and a name that no other model has."""
    state = np.random.default_rng(len(name))
    count = max((mib << 20) // WEIGHT_BYTES, 1)
    weights = [formats.from_numpy(state.random(WEIGHT_BYTES // 4, "float32"), f"w{index}") for index in range(count)]
    nodes = [
        formats.Node(op_type="Add", input=[f"y{index}" if index else "x", f"w{index}"], output=[f"y{index + 1}"])
        for index in range(count)
    ]
    value = [formats.make_value_info(name, "float32", [WEIGHT_BYTES // 4]) for name in ("x", f"y{count}")]
    graph = formats.Graph(name=name, node=nodes, initializer=weights, input=value[:1], output=value[1:])
    imports = [formats.OperatorSetId("", 17)]
    formats.save(formats.Model(ir_version=8, producer_name=name, opset_import=imports, graph=graph), path)


def found_at(path: Path, models: dict[str, list[bytes]]) -> str:
    """Return which of the models is at a path, judged by the first and last bytes of each weight."""
    try:
        graph = formats.load(path).graph
    except FileNotFoundError:
        return "none"
    except FormatError as error:
        return f"refused: {error}"
    assert graph is not None
    weights = [_ends(tensor.source().read()) for tensor in graph.initializer]
    return next((name for name, wanted in models.items() if sorted(wanted) == sorted(weights)), "a mixture")


def _ends(data: bytes) -> bytes:
    return data[:64] + data[len(data) // 2 :][:64] + data[-64:]


def kill(folder: Path, source: Path, target: str, old: Path | None, models: dict[str, list[bytes]]) -> Iterator[str]:
    """Yield what is found after each of any number of killed conversions to a target: a state, or a broken promise."""
    name, options = target.split(" ")[0], TARGETS[target]
    command = [sys.executable, "-m", "formats", "convert", source, folder / name, "--force", "--quiet", *options]
    state, longest = random.Random(5), 60.0
    allowed = {"new", "none" if old is None else "old"} | ({"none"} if "--external-data" in options else set())
    for number in range(1 << 30):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if old is not None:
            formats.convert(old, folder / name, external_data="--external-data" in options) if name.endswith(
                "onnx"
            ) else formats.convert(old, folder / name)
        started = time.perf_counter()
        process = subprocess.Popen(command)
        if not number:
            assert process.wait() == 0
            longest = time.perf_counter() - started
            continue
        # The most interesting moments are at the end, when files are moved to their paths.
        with suppress(subprocess.TimeoutExpired):
            process.wait(longest * (state.random() if number % 2 else state.uniform(0.7, 1.05)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = found_at(folder / name, models)
        if found not in allowed:
            yield f"broken: {found}"
        with suppress(FileNotFoundError):
            formats.repair(folder / name)
        after = found_at(folder / name, models)
        if after not in (allowed if old is None else allowed - {"none"}) or (found == "new" and after != "new"):
            yield f"broken: {found}, and after a repair {after}"
        if hidden := [name for name in os.listdir(folder) if name.startswith(".")]:
            yield f"broken: {hidden} left"
        yield found


def kill_edits(folder: Path, source: Path, models: dict[str, list[bytes]]) -> Iterator[str]:
    """Yield what is found after each of any number of killed edits in place: the archive before or after it."""
    archive, box = folder / "source.onnxz", folder / "box"
    formats.convert(source, archive)
    weights = [tensor.name for tensor in formats.load(source).graph.initializer][::2]
    np.savez(folder / "half.npz", **dict.fromkeys(map(str, weights), np.full(WEIGHT_BYTES // 4, 7, "float32")))
    command = [sys.executable, "-m", "formats", "edit", box / "m.onnxz", "--rename", "x=images", "--quiet"]
    command += ["--metadata", "edited=yes", "--weights", folder / "half.npz"]
    state, longest = random.Random(7), 60.0
    for number in range(1 << 30):
        shutil.rmtree(box, ignore_errors=True)
        box.mkdir()
        shutil.copy(archive, box / "m.onnxz")
        started = time.perf_counter()
        process = subprocess.Popen(command)
        if not number:
            assert process.wait() == 0
            longest = time.perf_counter() - started
            models["edited"] = [_ends(t.source().read()) for t in formats.load(box / "m.onnxz").graph.initializer]
            continue
        with suppress(subprocess.TimeoutExpired):
            process.wait(longest * state.uniform(0.6, 1.1))
            longest = time.perf_counter() - started  # it ended by itself; how long it takes changes with the machine
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = _edited(box / "m.onnxz", models)
        if found not in ("before", "after"):
            yield f"broken: {found}"
        formats.repair(box / "m.onnxz")
        if (after := _edited(box / "m.onnxz", models)) != found:
            yield f"broken: {found}, and after a repair {after}"
        if not formats.verify(box / "m.onnxz", data=True).ok:
            yield "broken: not valid after a repair"
        if hidden := [name for name in os.listdir(box) if name.startswith(".")]:
            yield f"broken: {hidden} left"
        yield found


def _edited(path: Path, models: dict[str, list[bytes]]) -> str:
    """Return whether an archive is as before an edit or as after it, in all that the edit changes."""
    weights = found_at(path, models)
    if weights not in ("new", "edited"):
        return weights
    model = formats.load(path)
    signs = {weights == "edited", model.graph.input[0].name == "images", bool(model.metadata_props)}
    return "a mixture" if len(signs) > 1 else "after" if signs.pop() else "before"


@contextmanager
def small_disk(folder: Path, mib: int) -> Iterator[Path]:
    """An empty filesystem of this many MiB."""
    image, place = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", "-m", "0", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def leave_free(disk: Path, nbytes: int) -> None:
    """Fill the disk until only about this many bytes are free."""
    with (disk / "ballast").open("wb") as ballast:
        size = shutil.disk_usage(disk).free - nbytes
        while size > 0:
            try:
                os.posix_fallocate(ballast.fileno(), 0, size)
            except OSError:  # some blocks are needed to record where the file is
                size -= 4096
            else:
                return


def fill(folder: Path, source: Path) -> Iterator[str]:
    """Return the broken promises on a full disk: there must be an error, the old model or none, and nothing else."""
    mib = (source.stat().st_size >> 20) + 8
    with small_disk(folder, 2 * mib) as disk:
        space = shutil.disk_usage(disk).free
        for target, options in TARGETS.items():
            path = disk / target.split(" ")[0]
            for left in (0, 4096, 1 << 20, source.stat().st_size // 2, source.stat().st_size - 4096):
                for replaced in (False, True):
                    for name in os.listdir(disk):
                        if name != "lost+found":
                            (disk / name).unlink()
                    if replaced:
                        small = folder / "small.onnx"
                        formats.convert(small, path)
                    leave_free(disk, left)
                    before = {name: (disk / name).stat().st_size for name in os.listdir(disk) if name != "lost+found"}
                    command = [sys.executable, "-m", "formats", "convert", source, path, "--force", *options]
                    done = subprocess.run(command, capture_output=True, text=True, check=False)
                    after = {name: (disk / name).stat().st_size for name in os.listdir(disk) if name != "lost+found"}
                    where = f"{target}, {left} bytes free of {space}, {'replaced' if replaced else 'new'}"
                    if done.returncode != 1 or len(done.stderr.splitlines()) != 1 or "No space left" not in done.stderr:
                        yield f"{where}: exit code {done.returncode}: {done.stderr}"
                    if before != after:
                        yield f"{where}: {before} became {after}"


def main() -> int:
    """Kill conversions, fill a disk, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--directory", type=Path)
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--edits", action="store_true")
    parser.add_argument("targets", nargs="*", default=list(TARGETS))
    options = parser.parse_args()
    broken = 0
    with tempfile.TemporaryDirectory(dir=options.directory) as name:
        folder = Path(name)
        models = {}
        for model in ("old", "new"):
            make(folder / f"{model}.onnx", model * (1 + (model == "new")), options.mib)
            graph = formats.load(folder / f"{model}.onnx").graph
            models[model] = [_ends(tensor.source().read()) for tensor in graph.initializer]
        make(folder / "small.onnx", "small", 1)
        if options.edits:
            counts: Counter[str] = Counter()
            kills = kill_edits(folder, folder / "new.onnx", models)
            while sum(counts.values()) < options.kills:
                counts[next(kills)] += 1
            print(f"edits in place: {dict(counts)}", flush=True)
            return int(any(state.startswith("broken") for state in counts))
        for target in options.targets:
            for old in (None, folder / "old.onnx"):
                counts = Counter()
                kills = kill(folder / "box", folder / "new.onnx", target, old, models)
                while sum(counts.values()) < options.kills:
                    counts[next(kills)] += 1
                broken += sum(count for state, count in counts.items() if state.startswith("broken"))
                print(f"{target}, {'new' if old is None else 'replaced'}: {dict(counts)}", flush=True)
        if options.disk:
            problems = list(fill(folder, folder / "new.onnx"))
            broken += len(problems)
            print(f"full disk: {len(problems)} broken promises", *problems, sep="\n", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
